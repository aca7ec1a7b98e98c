//! Softmax and normalizations. The invocations of a workgroup process a whole row. If the rows are so few and long that
//! most of a device would be idle, separate kernels compute sums over rows, followed by an element-wise kernel.

use super::reduce::{Reduction, Target, Total, precise_sum};
use super::rows::{Rows, Sharing, parts};
use crate::dtype::DataType;
use crate::gpu::kernel::{Bound, Parameters};
use crate::gpu::lower::Lowering;
use crate::gpu::map::{Entry, Readable, strided};
use crate::ops::normalization::{BatchNormalization, InstanceNormalization, LayerNormalization};
use crate::ops::reduce::reduced_axes;
use crate::ops::rms_normalization::RmsNormalization;
use crate::ops::softmax::Softmax;
use crate::shape::{Descriptor, strides};

/// How invocations share rows if workgroups process whole rows.
fn whole_rows(rows: &Rows) -> Option<Sharing> {
    let sharing = rows.sharing();
    (parts(rows.count(), rows.length(), sharing) == 1).then_some(sharing)
}

/// Appends a kernel that processes whole rows, with the function `run()` of `text`.
fn row_kernel(
    l: &mut Lowering,
    name: &'static str,
    (rows, sharing): (&Rows, Sharing),
    inputs: Vec<Readable>,
    text: &str,
    (mut parameters, places): (Parameters, String),
) {
    parameters.0[0..3].copy_from_slice(&[rows.count(), rows.length(), 1]);
    let text = [
        &places,
        &sharing.memory(),
        &sharing.across(l.dialect, "largest", "f32", "max_f32(a, b)"),
        &sharing.across(l.dialect, "total", "vec2<f32>", "add_precise(a, b)"),
        &sharing.entry(l.dialect),
        &text.replace("LANES", &format!("{}u", sharing.lanes)),
    ]
    .map(String::as_str)
    .concat();
    let workgroups = sharing.workgroups(rows.count(), 1);
    l.own(name, inputs, &text, parameters, Entry::Own { workgroups, elements: rows.count() });
}

/// Reserves one float32 per row in scratch memory.
fn row_values(l: &mut Lowering, rows: &Rows) -> Bound {
    l.scratch(rows.count() as usize * 4)
}

fn of_rows(name: &'static str, bound: Bound) -> Readable {
    Readable { name, bound, dtype: DataType::Float32 }
}

/// Appends the parameters with which `strided()` returns the row of an element of `shape`.
fn row_of(parameters: &mut Parameters, shape: &[u32], reduced: &[bool]) -> u32 {
    let kept: Vec<u32> = shape.iter().zip(reduced).map(|(&size, &reduced)| if reduced { 1 } else { size }).collect();
    let own = strides(&kept);
    let steps: Vec<isize> =
        own.iter().zip(reduced).map(|(&stride, &reduced)| if reduced { 0 } else { stride as isize }).collect();
    strided(parameters, shape, &steps, 0)
}

/// Appends a sum over each row of a function of its elements.
fn sum(l: &mut Lowering, rows: &Rows, others: Vec<Readable>, term: &str, finish: &str, target: Bound) {
    let mut inputs = vec![l.readable("x", 0)];
    inputs.extend(others);
    precise_sum(rows, inputs, term, finish).lower(l, Target::Scratch(target, DataType::Float32));
}

/// Appends the maximum of `term` over each row, at least `start`.
fn largest(l: &mut Lowering, rows: &Rows, [start, term, finish]: [&str; 3]) -> Bound {
    let target = row_values(l, rows);
    let functions = format!(
        "{UNIT}fn start(row: u32) -> f32 {{ return {start}; }}
fn term(place: u32, i: u32, row: u32) -> f32 {{ return {term}; }}
fn finish(x: f32, row: u32) -> f32 {{ return {finish}; }}
"
    );
    let (inputs, combine) = (vec![l.readable("x", 0)], "max_f32(a, b)".to_string());
    Reduction { name: "max", inputs, rows, functions, combine, total: Total::Value(DataType::Float32) }
        .lower(l, Target::Scratch(target, DataType::Float32));
    target
}

/// `softmax()`.
pub fn softmax(op: &Softmax, l: &mut Lowering) {
    let shape = &l.input(0).sizes();
    let reduced: Vec<bool> = (0..shape.len()).map(|axis| axis == op.axis as usize).collect();
    let rows = Rows::new(shape, &reduced);
    if let Some(sharing) = whole_rows(&rows) {
        let inputs = vec![l.readable("x", 0)];
        let text = include_str!("../shaders/softmax.wgsl");
        return row_kernel(l, "softmax", (&rows, sharing), inputs, text, rows.functions(1));
    }
    let largest = largest(l, &rows, ["x(first_of(row))", "x(place)", "x"]);
    let total = row_values(l, &rows);
    sum(l, &rows, vec![of_rows("largest", largest)], "exp_f32(x - largest(row))", "x", total);
    let mut parameters = Parameters::default();
    let row = row_of(&mut parameters, shape, &reduced);
    let functions = format!(
        "fn value(i: u32) -> f32 {{ let row = strided({row}u, i); return exp_f32(x(i) - largest(row)) / total(row); }}\n"
    );
    let inputs = vec![l.readable("x", 0), of_rows("largest", largest), of_rows("total", total)];
    l.map(0, "softmax", inputs, &functions, parameters);
}

/// An optional operand (scale or bias), as the expression for its element at `place`.
fn weight(
    l: &Lowering,
    inputs: &mut Vec<Readable>,
    name: &'static str,
    index: usize,
    otherwise: &str,
    place: &str,
) -> String {
    match l.inputs.get(index).copied().flatten() {
        None => otherwise.to_string(),
        Some(_) => {
            inputs.push(l.readable(name, index));
            format!("{name}({place})")
        }
    }
}

/// A power of two that scales a float to about 1.
const UNIT: &str = "fn unit(x: f32) -> f32 {
  return bitcast<f32>((254u - clamp(bitcast<u32>(x) >> 23u, 1u, 253u)) << 23u);
}
";

/// A WGSL literal for the float.
fn literal(x: f32) -> String {
    format!("bitcast<f32>({}u)", x.to_bits())
}

/// A power of two per row that scales its elements, or the root of `epsilon`, to about 1: squares of floats then reach
/// neither infinity nor 0.
fn scales(l: &mut Lowering, rows: &Rows, epsilon: f64) -> Readable {
    let root = literal(epsilon.sqrt() as f32);
    of_rows("size", largest(l, rows, [&root, "abs(x(place))", "unit(x)"]))
}

/// The expression 1 / sqrt(mean of the squares of scaled elements + `epsilon`).
fn reciprocal_root(epsilon: f64) -> String {
    format!("1.0 / sqrt(x / f32(LENGTH) + {} * size(row) * size(row))", literal(epsilon as f32))
}

/// The scales of all rows, then the means of their scaled elements, then the reciprocal standard deviations. One tensor
/// leaves buffers for the others that a normalization reads.
fn moments(l: &mut Lowering, rows: &Rows, epsilon: f64) -> Readable {
    let (mean, deviation) = (row_values(l, rows), row_values(l, rows));
    let size = scales(l, rows, epsilon);
    sum(l, rows, vec![size], "x * size(row)", "x / f32(LENGTH)", mean);
    let mean = of_rows("mean", mean);
    // Two passes: the mean of squares minus the square of the mean cancels if the mean is large.
    let square = "(x * size(row) - mean(row)) * (x * size(row) - mean(row))";
    sum(l, rows, vec![size, mean], square, &reciprocal_root(epsilon), deviation);
    let all = Descriptor::new(DataType::Float32, [3 * rows.count()]);
    let moments = l.scratch(all.bytes());
    let functions = "fn value(i: u32) -> f32 {
  let row = i % parameter(0u);
  switch i / parameter(0u) {
    case 0u: { return size(row); }
    case 1u: { return mean(row); }
    default: { return deviation(row); }
  }
}
";
    let inputs = vec![size, mean, of_rows("deviation", deviation)];
    let parameters = Parameters(vec![rows.count()]);
    l.to_scratch("moments", inputs, (moments, &all), functions.to_string(), parameters, Entry::Words);
    of_rows("moments", moments)
}

/// `batchNormalization()`.
pub fn batch(op: &BatchNormalization, l: &mut Lowering) {
    let shape = &l.input(0).sizes();
    let axis = op.axis as usize;
    let inner: u32 = shape[axis + 1..].iter().product();
    let mut parameters = Parameters(vec![inner, shape[axis]]);
    let epsilon = parameters.push_f32(op.epsilon as f32);
    let mut inputs = vec![l.readable("x", 0), l.readable("mean", 1), l.readable("variance", 2)];
    let scale = weight(l, &mut inputs, "scale", 3, "1.0", "c");
    let bias = weight(l, &mut inputs, "bias", 4, "0.0", "c");
    let functions = format!(
        "fn value(i: u32) -> f32 {{
  let c = (i / parameter(0u)) % parameter(1u);
  return (x(i) - mean(c)) / sqrt(variance(c) + parameter_f32({epsilon}u)) * {scale} + {bias};
}}\n"
    );
    l.map(0, "batchNormalization", inputs, &functions, parameters);
}

/// `instanceNormalization()`.
pub fn instance(op: &InstanceNormalization, l: &mut Lowering) {
    let shape = &l.input(0).sizes();
    let reduced = op.reduced();
    let axis = op.channel_axis();
    normalize(l, &reduced, op.epsilon, false, |parameters| {
        let steps: Vec<isize> = (0..4).map(|dimension| (dimension == axis) as isize).collect();
        strided(parameters, shape, &steps, 0)
    });
}

/// `layerNormalization()`.
pub fn layer(op: &LayerNormalization, l: &mut Lowering) {
    let shape = &l.input(0).sizes();
    let axes = op.axes(shape.len());
    let reduced = reduced_axes(shape.len(), Some(&axes)).expect("validated");
    let sizes: Vec<u32> = axes.iter().map(|&axis| shape[axis as usize]).collect();
    let own = strides(&sizes);
    normalize(l, &reduced, op.epsilon, axes.is_sorted(), |parameters| {
        let step = |dimension: usize| {
            axes.iter().position(|&axis| axis as usize == dimension).map_or(0, |at| own[at] as isize)
        };
        let steps: Vec<isize> = (0..shape.len()).map(step).collect();
        strided(parameters, shape, &steps, 0)
    });
}

/// `(x - mean) / deviation * scale + bias`. `place` appends the parameters with which `strided()` returns an element's
/// place in scale and bias. If `along`, these are laid out like the elements of a row.
fn normalize(
    l: &mut Lowering,
    reduced: &[bool],
    epsilon: f64,
    along: bool,
    place: impl FnOnce(&mut Parameters) -> u32,
) {
    let shape = &l.input(0).sizes();
    let rows = Rows::new(shape, reduced);
    if let Some(sharing) = whole_rows(&rows) {
        let (mut parameters, places) = rows.functions(1);
        let place = place(&mut parameters);
        let weights = [("scale", "1.0"), ("bias", "0.0")];
        return normalize_rows(
            l,
            (&rows, sharing),
            epsilon,
            (parameters, places),
            &weights,
            &match along {
                true => "i".to_string(),
                false => format!("strided({place}u, at)"),
            },
        );
    }
    let moments = moments(l, &rows, epsilon);
    let mut parameters = Parameters(vec![rows.count()]);
    let row = row_of(&mut parameters, shape, reduced);
    let place = place(&mut parameters);
    let mut inputs = vec![l.readable("x", 0), moments];
    let scale = weight(l, &mut inputs, "scale", 1, "1.0", "c");
    let bias = weight(l, &mut inputs, "bias", 2, "0.0", "c");
    let functions = format!(
        "fn value(i: u32) -> f32 {{
  let rows = parameter(0u);
  let row = strided({row}u, i);
  let c = strided({place}u, i);
  return (x(i) * moments(row) - moments(rows + row)) * moments(2u * rows + row) * {scale} + {bias};
}}\n"
    );
    l.map(0, "normalize", inputs, &functions, parameters);
}

/// Normalizes whole rows. `weights` are the names of the operands from 1 on, with defaults for omitted ones; if there
/// are two, the mean is subtracted. `place` is the place in these operands for element `i` of a row, whose own place is
/// `at`.
fn normalize_rows(
    l: &mut Lowering,
    rows: (&Rows, Sharing),
    epsilon: f64,
    functions: (Parameters, String),
    weights: &[(&'static str, &str)],
    place: &str,
) {
    let mut inputs = vec![l.readable("x", 0)];
    let mut text = UNIT.to_string() + include_str!("../shaders/normalize.wgsl");
    for (index, &(name, otherwise)) in weights.iter().enumerate() {
        let element = weight(l, &mut inputs, name, index + 1, otherwise, place);
        text = text.replace(&name.to_uppercase(), &element);
    }
    let text = text
        .replace("BIAS", "0.0")
        .replace("CENTERED", if weights.len() == 2 { "true" } else { "false" })
        .replace("ROOT", &literal(epsilon.sqrt() as f32))
        .replace("EPSILON", &literal(epsilon as f32));
    row_kernel(l, "normalize", rows, inputs, &text, functions);
}

/// Root-mean-square normalization.
pub fn root_mean_square(op: &RmsNormalization, l: &mut Lowering) {
    let shape = &l.input(0).sizes();
    let length: u32 = op.row(shape).iter().product();
    let rows = Rows::contiguous(l.input(0).elements() as u32 / length, length);
    if let Some(sharing) = whole_rows(&rows) {
        let functions = rows.functions(1);
        return normalize_rows(l, (&rows, sharing), op.epsilon, functions, &[("scale", "1.0")], "i");
    }
    let factor = row_values(l, &rows);
    let size = scales(l, &rows, op.epsilon);
    sum(l, &rows, vec![size], "x * size(row) * (x * size(row))", &reciprocal_root(op.epsilon), factor);
    let parameters = Parameters(vec![length]);
    let mut inputs = vec![l.readable("x", 0), size, of_rows("factor", factor)];
    let scale = weight(l, &mut inputs, "scale", 1, "1.0", "i % parameter(0u)");
    let functions = format!(
        "fn value(i: u32) -> f32 {{
  let row = i / parameter(0u);
  return x(i) * size(row) * factor(row) * {scale};
}}\n"
    );
    l.map(0, "normalize", inputs, &functions, parameters);
}
