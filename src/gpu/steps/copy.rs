//! Element-wise operators, and operators that move elements.

use crate::gpu::kernel::Parameters;
use crate::gpu::lower::Lowering;
use crate::gpu::map::{Divisors, Entry, Readable, read_broadcast, spread, strided as strided_parameters};
use crate::gpu::operands;
use crate::gpu::scalar::Scalars;
use crate::ops::concat::Concat;
use crate::ops::fused::Fused;
use crate::ops::pad::{Pad, PaddingMode};
use crate::ops::quantize::Quantize;
use crate::ops::strided::Strided;
use crate::ops::triangular::Triangular;
use crate::shape::strides;

/// The names of a program's operands; the compiler fuses at most this many.
const NAMES: [&str; operands::MOST] = ["x0", "x1", "x2", "x3", "x4", "x5"];

/// A program of element-wise operators on operands that are broadcast to the output.
pub fn elementwise(l: &mut Lowering, program: &Fused) {
    let mut parameters = Parameters::default();
    let output = l.outputs[0];
    let mut inputs: Vec<Readable> = Vec::new();
    let (mut reads, mut types) = (Vec::new(), Vec::new());
    for (index, name) in NAMES.into_iter().enumerate().take(l.inputs.len()) {
        let input = l.input(index);
        let readable = l.readable(name, index);
        reads.push(read_broadcast(&mut parameters, readable.name, &input.sizes(), &output.sizes()));
        types.push(input.dtype);
        inputs.push(readable);
    }
    let (lines, result) = Scalars { dialect: l.dialect, parameters: &mut parameters }.program(program, &reads, &types);
    let functions = format!("fn value(i: u32) -> output_value {{\n{lines}  return {result};\n}}\n");
    // A map declares the output's type after its functions.
    l.map(0, "elementwise", inputs, &functions, parameters);
}

/// `quantizeLinear()` or `dequantizeLinear()`; scale and zero point repeat over blocks.
pub fn quantize(op: &Quantize, l: &mut Lowering) {
    let (input, scale) = (l.input(0), l.input(1));
    let mut parameters = Parameters::default();
    let place = spread(&mut parameters, &scale.sizes(), &input.sizes(), Divisors::Parameters);
    let types: Vec<_> = (0..3).map(|index| l.input(index).dtype).collect();
    let reads = ["x(i)", "scale(place)", "zero(place)"].map(String::from);
    let program = Fused::single(op.elementwise(), &types);
    let (lines, result) = Scalars { dialect: l.dialect, parameters: &mut parameters }.program(&program, &reads, &types);
    let functions =
        format!("fn value(i: u32) -> output_value {{\n  let place = {place};\n{lines}  return {result};\n}}\n");
    let inputs = vec![l.readable("x", 0), l.readable("scale", 1), l.readable("zero", 2)];
    l.map(0, "quantize", inputs, &functions, parameters);
}

/// Copies elements at regular strides.
pub fn strided(l: &mut Lowering, output: usize, view: &Strided) {
    let mut parameters = Parameters::default();
    let first = strided_parameters(&mut parameters, &view.shape, &view.strides, view.offset);
    let functions = format!("fn value(i: u32) -> x_value {{ return x(strided({first}u, i)); }}\n");
    let inputs = vec![l.readable("x", 0)];
    l.map(output, "copy", inputs, &functions, parameters);
}

/// Copies each operand into its part of the output, except for a cache that the output begins with.
pub fn concat(op: &Concat, l: &mut Lowering) {
    let shape = &l.outputs[0].sizes();
    let inner: u32 = shape[op.axis as usize + 1..].iter().product();
    let size = shape[op.axis as usize];
    let is_outermost = shape[..op.axis as usize].iter().all(|&size| size == 1);
    let own = |l: &Lowering, index: usize| l.input(index).sizes()[op.axis as usize];
    let first = usize::from(l.begins_with_cache());
    let mut start = (0..first).map(|index| own(l, index)).sum();
    for index in first..l.inputs.len() {
        let own = own(l, index);
        let inputs = vec![l.readable("x", index)];
        if is_outermost {
            let functions = "fn value(i: u32) -> x_value { return x(i - parameter(0u)); }\n";
            let entry = Entry::Part { first: start * inner, count: own * inner };
            l.entered(0, "concat", inputs, functions, Parameters(vec![start * inner]), entry);
        } else {
            // Parameters: elements after the axis, size of the output along it, and start and size of the operand
            // along it.
            let parameters = Parameters(vec![inner, size, start, own]);
            l.entered(0, "concat", inputs, PART_OF_EACH, parameters, Entry::MaskedWords);
        }
        start += own;
    }
}

/// An operand's part of each slice of a concatenation.
const PART_OF_EACH: &str = "
fn place(i: u32) -> u32 { return (i / parameter(0u)) % parameter(1u) - parameter(2u); }
fn covers(i: u32) -> bool { return place(i) < parameter(3u); }
fn value(i: u32) -> x_value {
  let inner = parameter(0u);
  let outer = i / (inner * parameter(1u));
  return x((outer * parameter(3u) + place(i)) * inner + i % inner);
}
";

/// `pad()`.
pub fn pad(op: &Pad, l: &mut Lowering) {
    let (input, output) = (l.input(0), l.outputs[0]);
    let mut parameters = Parameters::default();
    let mode = match op.mode {
        PaddingMode::Constant => 0,
        PaddingMode::Edge => 1,
        PaddingMode::Reflection => 2,
    };
    // Parameters: rank, mode; then, for each dimension, the last one first: size of the output, leading padding, size
    // and stride of the input.
    parameters.extend([input.rank() as u32, mode]);
    let own = strides(&input.sizes());
    for axis in (0..input.rank()).rev() {
        parameters.extend([output.sizes()[axis], op.beginning[axis].get(), input.sizes()[axis], own[axis] as u32]);
    }
    let value = Scalars { dialect: l.dialect, parameters: &mut parameters }.number(op.value, output.dtype);
    let functions = format!(
        "{}\nfn value(i: u32) -> x_value {{
  let at = source(i);
  if (at == 0xffffffffu) {{ return {value}; }}
  return x(at);
}}\n",
        include_str!("../shaders/pad.wgsl")
    );
    let inputs = vec![l.readable("x", 0)];
    l.map(0, "pad", inputs, &functions, parameters);
}

/// `triangular()`.
pub fn triangular(op: &Triangular, l: &mut Lowering) {
    let shape = &l.outputs[0].sizes();
    let (rows, columns) = (shape[shape.len() - 2], shape[shape.len() - 1]);
    // Parameters: rows, columns, diagonal, whether to keep the upper part.
    let parameters = Parameters(vec![rows, columns, op.diagonal as u32, op.upper as u32]);
    let suffix = l.dialect.suffix(l.outputs[0].dtype);
    let functions = format!(
        "fn value(i: u32) -> x_value {{
  let column = i32(i % parameter(1u));
  let row = i32((i / parameter(1u)) % parameter(0u));
  let diagonal = bitcast<i32>(parameter(2u));
  let kept = select(column - row <= diagonal, column - row >= diagonal, parameter(3u) == 1u);
  if (kept) {{ return x(i); }}
  return zero_{suffix}();
}}\n"
    );
    let inputs = vec![l.readable("x", 0)];
    l.map(0, "triangular", inputs, &functions, parameters);
}

#[cfg(test)]
mod tests {
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};

    #[test]
    fn many_words_agree_with_the_oracle() {
        // Slightly above the number of words from which an invocation computes several.
        let text = "%0 = input x float32 [7, 149797]
                    %1 = input z float32 [7, 1]
                    %2 = add %0 %1
                    %3 = cast %2 dataType=float16
                    output y = %2
                    output z = %3";
        // The oracle rounds the sum once.
        check(&parse(text), Tolerance::ulps(1));
    }
}
