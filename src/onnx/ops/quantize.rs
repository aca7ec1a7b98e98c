//! Quantization, and the products of quantized tensors.
//!
//! Products of integers are computed in float32, in pieces with exact sums, and added as int32. If the result is cast
//! to float32, as in dynamically quantized models, the sums need not be exact: a single product of the dequantized
//! factors replaces the pieces. Its error is that of a float32 product of the same depth: none as long as all partial
//! sums are below 2^24, and otherwise at most `depth * 2^-24` times the sum of the magnitudes of the terms. Devices
//! that multiply bytes compute it exactly and round once.

use super::convolution::{Convolution, convolution, convolve};
use super::generate::places;
use super::product::{EXACT_PRODUCTS, MAX_PIECES, exact_product, with_matrices};
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::onnx::tensor::ElementType;
use crate::ops::elementwise::Elementwise as E;
use crate::ops::quantize::Quantize;
use crate::ops::reduce::ReduceKind;
use crate::shape::Descriptor;

/// How the elements of an input share scales.
struct Granularity {
    shape: Vec<Dim>,
    axis: i64,
    /// The block size; 0 if there are no blocks.
    block: u32,
}

impl Granularity {
    fn new(call: &Call, shape: Vec<Dim>) -> Step<Granularity> {
        let given = call.int_or("block_size", 0);
        let block = u32::try_from(given).map_err(|_| Refusal(format!("block_size is {given}")))?;
        // Before opset 13, there is always a single scale.
        Ok(Granularity { shape, axis: call.int_or("axis", 1), block })
    }

    /// Shapes a scale or zero point for WebNN: the rank of the input, and sizes that divide those of the input.
    fn spread(&self, call: &mut Call, operand: OperandId) -> Step<OperandId> {
        let (rank, got) = (self.shape.len(), call.shape(operand));
        if got.iter().all(|&size| size == 1) && self.block == 0 {
            return call.reshape(operand, &vec![Dim::ONE; rank]);
        }
        let axis = call.axis(self.axis, rank)? as usize;
        let size = self.shape[axis];
        if self.block == 0 {
            if got != [size] {
                return Err(Refusal(format!(
                    "a scale or zero point has shape {got:?}, expected [{size}] for axis {} of {:?}",
                    self.axis, self.shape
                )));
            }
            let mut shape = vec![Dim::ONE; rank];
            shape[axis] = size;
            return call.reshape(operand, &shape);
        }
        let mut expected = self.shape.clone();
        expected[axis] = size.div_ceil(self.block);
        if got != expected {
            return Err(Refusal(format!(
                "a scale or zero point has shape {got:?}, expected {expected:?} for blocks of {} of {:?}",
                self.block, self.shape
            )));
        }
        if size == expected[axis] * self.block {
            return Ok(operand);
        }
        // Expands to one scale per element.
        let elements = places(call, DataType::Int32, size, 0, 1)?;
        let block = call.int_scalar(DataType::Int32, self.block as i64)?;
        let blocks = call.div(elements, block)?;
        call.gather(operand, blocks, axis as u32)
    }
}

/// The quantized input at `index`; constants whose type WebNN lacks are widened.
fn quantized(call: &mut Call, index: usize) -> Step<OperandId> {
    let Some(literal) = call.input_literal(index) else { return call.input(index) };
    match literal.element.foreign() {
        Some(from) if !from.widened().is_float() => call.widened(&literal),
        _ => Err(Refusal(format!("input {index} is of type {}, which WebNN does not have", literal.element))),
    }
}

/// The type named by the attribute `name`; `None` without it.
fn named_type(call: &Call, name: &str) -> Step<Option<DataType>> {
    let Some(element) = call.type_attribute(name)? else { return Ok(None) };
    let dtype = element.webnn();
    dtype.map(Some).ok_or_else(|| Refusal(format!("{name} is {element}, which WebNN does not have")))
}

/// Zeros of the shape of `scale`. They are a constant if `scale` is, which keeps a dequantized constant constant.
fn zeros(call: &mut Call, scale: OperandId, dtype: DataType) -> Step<OperandId> {
    if call.is_constant(scale) {
        return call.filled(Descriptor::new(dtype, call.sizes(scale)), |_| ());
    }
    let zero = call.int_scalar(dtype, 0)?;
    let shape = call.shape(scale);
    call.expand(zero, &shape)
}

/// Rounds `x` to an integer and adds `zero_point`, which broadcasts to `x` and has its rank.
fn rounded(call: &mut Call, x: OperandId, zero_point: OperandId) -> Step<OperandId> {
    let one = call.scalar_like(x, 1.0)?;
    let shape = call.shape(zero_point);
    let ones = call.expand(one, &shape)?;
    call.emit(Quantize::QuantizeLinear, &[x, ones, zero_point])
}

/// `QuantizeLinear`, also that of `com.microsoft`.
///
/// # Errors
/// If WebNN lacks a type.
pub fn quantize_linear(call: &mut Call) -> Outcome {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    // The division uses the type of the scale unless a precision is given.
    let precision = named_type(call, "precision")?.unwrap_or(call.dtype(scale));
    let (x, scale) = (call.cast(x, precision)?, call.cast(scale, precision)?);
    let range = call.input_literal(2).and_then(|literal| range_of_16_bits(literal.element));
    let zero_point = match range {
        Some(_) => Some(quantized(call, 2)?),
        None => call.optional(2)?,
    };
    let dtype = match zero_point {
        Some(zero_point) => call.dtype(zero_point),
        None => named_type(call, "output_dtype")?.unwrap_or(DataType::Uint8),
    };
    // The standard does not allow int32 here: it represents a 16-bit type, but which one is unknown.
    if dtype == DataType::Int32 && range.is_none() {
        return Err("the zero point is a computed 16-bit integer, expected a constant".into());
    }
    let granularity = Granularity::new(call, call.shape(x))?;
    let scale = granularity.spread(call, scale)?;
    let zero_point = match zero_point {
        Some(zero_point) => granularity.spread(call, zero_point)?,
        None => zeros(call, scale, dtype)?,
    };
    let mut y = call.emit(Quantize::QuantizeLinear, &[x, scale, zero_point])?;
    if let Some([min, max]) = range {
        y = call.emit(E::Clamp { min: Number::Int(min), max: Number::Int(max) }, &[y])?;
    }
    call.one(Ok(y))
}

/// The range of a 16-bit integer type, which int32 represents inside of a model.
fn range_of_16_bits(element: ElementType) -> Option<[i128; 2]> {
    match element {
        ElementType::Int16 => Some([i16::MIN as i128, i16::MAX as i128]),
        ElementType::Uint16 => Some([0, u16::MAX as i128]),
        _ => None,
    }
}

/// `DequantizeLinear`, also that of `com.microsoft`.
///
/// # Errors
/// If WebNN lacks a type.
pub fn dequantize_linear(call: &mut Call) -> Outcome {
    let (x, scale) = (quantized(call, 0)?, call.input(1)?);
    let dtype = named_type(call, "output_dtype")?.filter(|_| call.opset >= 23).unwrap_or(call.dtype(scale));
    let scale = call.cast(scale, dtype)?;
    let granularity = Granularity::new(call, call.shape(x))?;
    let scale = granularity.spread(call, scale)?;
    let zero_point = match call.value(2) {
        Some(_) => {
            let zero_point = quantized(call, 2)?;
            granularity.spread(call, zero_point)?
        }
        None => zeros(call, scale, call.dtype(x))?,
    };
    let y = call.emit(Quantize::DequantizeLinear, &[x, scale, zero_point]);
    call.one(y)
}

/// Quantizes to uint8 with a scale that covers the values and 0.
fn dynamic_quantize_linear(call: &mut Call) -> Outcome {
    if let Some(Value::Empty(Descriptor { dtype, shape })) = call.value(0) {
        let (scale, zero_point) = (call.int_scalar(dtype, 1)?, call.int_scalar(DataType::Uint8, 0)?);
        let y = Value::Empty(Descriptor { dtype: DataType::Uint8, shape });
        return Ok(vec![y, Value::Tensor(scale), Value::Tensor(zero_point)]);
    }
    let x = call.input(0)?;
    let axes: Vec<u32> = (0..call.rank(x) as u32).collect();
    let zero = call.scalar_like(x, 0.0)?;
    let (max, min) = (call.reduce(ReduceKind::Max, x, &axes, false)?, call.reduce(ReduceKind::Min, x, &axes, false)?);
    let (max, min) = (call.emit(E::Max, &[max, zero])?, call.emit(E::Min, &[min, zero])?);
    let range = call.sub(max, min)?;
    let levels = call.scalar_like(x, 255.0)?;
    let scale = call.div(range, levels)?;
    let start = call.div(min, scale)?;
    let start = call.emit(E::Neg, &[start])?;
    let start = call.emit(E::Clamp { min: Number::Float(0.0), max: Number::Float(255.0) }, &[start])?;
    let start = call.emit(E::RoundEven, &[start])?;
    let zero_point = call.cast(start, DataType::Uint8)?;
    let ones = vec![1; axes.len()];
    let (scales, zero_points) = (call.reshape(scale, &ones)?, call.reshape(zero_point, &ones)?);
    let y = call.emit(Quantize::QuantizeLinear, &[x, scales, zero_points])?;
    Ok([y, scale, zero_point].map(Value::Tensor).to_vec())
}

/// An 8-bit input minus its zero point at `zero`, as float32. `spread` shapes the zero point.
fn centered(
    call: &mut Call,
    index: usize,
    zero: usize,
    spread: impl FnOnce(&mut Call, OperandId) -> Step<OperandId>,
) -> Step<OperandId> {
    let x = call.input(index)?;
    if call.dtype(x).size() != 1 {
        return Err(Refusal(format!("input {index} is of type {}, expected int8 or uint8", call.dtype(x))));
    }
    let x = call.cast(x, DataType::Float32)?;
    let Some(zero_point) = call.optional(zero)? else { return Ok(x) };
    let zero_point = call.cast(zero_point, DataType::Float32)?;
    let zero_point = spread(call, zero_point)?;
    call.sub(x, zero_point)
}

/// Like [`centered`], by an operator that devices with byte multiplication recognize; `None` if the zero points repeat
/// in a way that it does not support. Products that read the same tensor share the result.
fn difference(
    call: &mut Call,
    index: usize,
    zero: usize,
    spread: impl FnOnce(&mut Call, OperandId) -> Step<OperandId>,
) -> Step<Option<OperandId>> {
    let (x, zero_point) = (call.input(index)?, call.optional(zero)?);
    // A single zero point for all elements needs no shaping.
    let is_one = zero_point.is_none_or(|zero_point| call.shape(zero_point).iter().all(|&size| size == 1));
    if let Some(&known) = call.float_forms().differences.get(&(x, zero_point)).filter(|_| is_one) {
        return Ok(Some(known));
    }
    let zeros = match zero_point {
        Some(zero_point) => spread(call, zero_point)?,
        None => call.int_scalar(call.dtype(x), 0)?,
    };
    let Some(missing) = call.rank(x).checked_sub(call.rank(zeros)) else { return Ok(None) };
    let shape = [vec![Dim::ONE; missing], call.shape(zeros)].concat();
    if !shape.iter().zip(&call.shape(x)).all(|(&zeros, &size)| zeros == 1 || zeros == size) {
        return Ok(None);
    }
    let (zeros, one) = (call.reshape(zeros, &shape)?, call.scalar(DataType::Float32, Number::Float(1.0))?);
    let ones = call.expand(one, &shape)?;
    let y = call.emit(Quantize::DequantizeLinear, &[x, ones, zeros])?;
    if is_one {
        call.float_forms().differences.insert((x, zero_point), y);
    }
    Ok(Some(y))
}

/// Shapes one value per row of a matrix product's first operand, or one for all rows.
fn per_row(call: &mut Call, operand: OperandId) -> Step<OperandId> {
    match call.shape(operand)[..] {
        [] => Ok(operand),
        [size] if size == 1 => call.to_scalar(operand),
        [rows] => call.reshape(operand, &[rows, Dim::ONE]),
        _ => Ok(operand),
    }
}

/// Shapes one value per column of a matrix product's second operand, or one for all columns.
fn per_column(call: &mut Call, operand: OperandId) -> Step<OperandId> {
    match call.shape(operand)[..] {
        [size] if size == 1 => call.to_scalar(operand),
        _ => Ok(operand),
    }
}

fn matmul_integer(call: &mut Call) -> Outcome {
    let (a, b) = (centered(call, 0, 2, per_row)?, centered(call, 1, 3, per_column)?);
    let y = exact_product(call, a, b)?;
    if let (Some(a), Some(b)) = (difference(call, 0, 2, per_row)?, difference(call, 1, 3, per_column)?) {
        let product = with_matrices(call, [a, b], |call, a, b| call.matmul(a, b))?;
        call.float_forms().products.insert(y, product);
    }
    call.one(Ok(y))
}

/// Rounds `accumulator * (a * b / y)`, with the scale `y` at `index` and the zero point after it.
fn requantized(call: &mut Call, accumulator: OperandId, factor: OperandId, index: usize) -> Outcome {
    let (scale, zero_point) = (call.input(index)?, call.input(index + 1)?);
    if call.shape(scale).iter().chain(&call.shape(zero_point)).any(|&size| size != 1) {
        return Err("y_scale and y_zero_point have more than one element".into());
    }
    let scale = call.to_scalar(scale)?;
    let factor = call.div(factor, scale)?;
    let factor = call.cast(factor, DataType::Float32)?;
    let sum = call.cast(accumulator, DataType::Float32)?;
    let scaled = call.mul(sum, factor)?;
    let ones = vec![1; call.rank(scaled)];
    let zero_point = call.reshape(zero_point, &ones)?;
    let y = rounded(call, scaled, zero_point);
    call.one(y)
}

fn qlinear_matmul(call: &mut Call) -> Outcome {
    let (a, b) = (centered(call, 0, 2, per_row)?, centered(call, 3, 5, per_column)?);
    let product = exact_product(call, a, b)?;
    let (a_scale, b_scale) = (call.input(1)?, call.input(4)?);
    let (a_scale, b_scale) = (per_row(call, a_scale)?, per_column(call, b_scale)?);
    let factor = call.mul(a_scale, b_scale)?;
    requantized(call, product, factor, 6)
}

/// Shapes one value per output channel, followed by `dimensions` others, or one for all channels.
fn per_channel(call: &mut Call, operand: OperandId, dimensions: usize) -> Step<OperandId> {
    match call.shape(operand)[..] {
        [] => Ok(operand),
        [size] if size == 1 => call.to_scalar(operand),
        [channels] => call.reshape(operand, &[&[channels], vec![Dim::ONE; dimensions].as_slice()].concat()),
        ref other => Err(Refusal(format!("a scale or zero point has shape {other:?}, expected one per channel"))),
    }
}

/// The exact convolution, as int32, of `x` with `filter`, float32 tensors that hold integers with magnitudes of up to
/// 255.
fn exact_convolution(call: &mut Call, x: OperandId, filter: OperandId, how: &Convolution) -> Step<OperandId> {
    let (shape, filter_shape) = (call.shape(x), call.sizes(filter));
    let (channels, elements) = (filter_shape[1], filter_shape[2..].iter().product::<u32>());
    if elements > EXACT_PRODUCTS {
        return Err(Refusal(format!(
            "the kernel has {}, expected at most {EXACT_PRODUCTS}",
            amount(elements, "element")
        )));
    }
    if channels.div_ceil(EXACT_PRODUCTS / elements) > MAX_PIECES {
        return Err(Refusal(format!("{} of integers are too many", amount(channels, "channel"))));
    }
    let mut sum: Option<OperandId> = None;
    for start in (0..channels).step_by((EXACT_PRODUCTS / elements) as usize) {
        let count = (EXACT_PRODUCTS / elements).min(channels - start);
        let mut part = x;
        if count < channels {
            // The same channels of every group.
            let grouped = [&[shape[0], how.groups.into(), channels.into()], &shape[2..]].concat();
            let grouped = call.reshape(x, &grouped)?;
            let some = call.slice_axis(grouped, 2, start, count)?;
            part = call.reshape(some, &[&[shape[0], Dim::from(how.groups * count)], &shape[2..]].concat())?;
        }
        let filter = call.slice_axis(filter, 1, start, count)?;
        let product = convolve(call, part, filter, None, how)?;
        let product = call.cast(product, DataType::Int32)?;
        sum = Some(match sum {
            Some(sum) => call.add(sum, product)?,
            None => product,
        });
    }
    sum.ok_or_else(|| "the input has no channels".into())
}

/// The exact convolution of two inputs, with their zero points at the given indices.
fn integer_convolution(
    call: &mut Call,
    [x, x_zero]: [usize; 2],
    [w, w_zero]: [usize; 2],
    how: &Convolution,
) -> Step<OperandId> {
    let dimensions = call.input_shape(w)?.len() - 1;
    let x = centered(call, x, x_zero, |call, zero| call.to_scalar(zero))?;
    let w = centered(call, w, w_zero, |call, zero| per_channel(call, zero, dimensions))?;
    exact_convolution(call, x, w, how)
}

/// The parameters of a convolution of the integers at `x` and `w`.
fn exact(call: &Call, x: usize, w: usize) -> Step<Convolution> {
    Ok(Convolution { exact: true, ..convolution(call, &call.input_shape(x)?, &call.input_shape(w)?)? })
}

fn conv_integer(call: &mut Call) -> Outcome {
    let how = exact(call, 0, 1)?;
    let y = integer_convolution(call, [0, 2], [1, 3], &how)?;
    let dimensions = call.input_shape(1)?.len() - 1;
    let x = difference(call, 0, 2, |call, zero| call.to_scalar(zero))?;
    let w = difference(call, 1, 3, |call, zero| per_channel(call, zero, dimensions))?;
    if let (Some(x), Some(w)) = (x, w) {
        let product = convolve(call, x, w, None, &how)?;
        call.float_forms().products.insert(y, product);
    }
    call.one(Ok(y))
}

/// `QLinearConv`.
pub fn qlinear_conv(call: &mut Call) -> Outcome {
    let how = exact(call, 0, 3)?;
    let mut sum = integer_convolution(call, [0, 2], [3, 5], &how)?;
    let dimensions = call.rank(sum) - 2;
    if let Some(bias) = call.optional(8)? {
        let channels = call.shape(sum)[1];
        let bias = call.reshape(bias, &[&[channels], vec![Dim::ONE; dimensions].as_slice()].concat())?;
        sum = call.add(sum, bias)?;
    }
    let (x_scale, w_scale) = (call.input(1)?, call.input(4)?);
    let (x_scale, w_scale) = (call.to_scalar(x_scale)?, per_channel(call, w_scale, dimensions)?);
    let factor = call.mul(x_scale, w_scale)?;
    requantized(call, sum, factor, 6)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("ConvInteger", "kernels of at most 256 elements", conv_integer),
    standard("DequantizeLinear", "integers of 2, 4 and 16 bits only as constants; no float8", dequantize_linear),
    standard("DynamicQuantizeLinear", "", dynamic_quantize_linear),
    standard("MatMulInteger", "", matmul_integer),
    standard("QLinearConv", "kernels of at most 256 elements", qlinear_conv),
    standard("QLinearMatMul", "", qlinear_matmul),
    standard(
        "QuantizeLinear",
        "to int8, uint8, int16, uint16 and int32; 16-bit types are int32 inside of a model",
        quantize_linear,
    ),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;
    use crate::testing::{Tolerance, check};

    #[test]
    fn computed_zero_points_of_16_bits_are_refused() {
        let graph = TestGraph::default().input("x", Float, &["4"]).floats("s", &[], &[0.1]).input("z", Int16, &[]);
        let refusal = graph.node("QuantizeLinear", "x s z", "y", vec![]).output_of("y", Int16).refusal(21);
        assert!(refusal.contains("the zero point is a computed 16-bit integer"), "{refusal}");
    }

    /// A product of bytes, as onnxruntime's dynamic quantization writes it, with rows of 600.
    fn dynamically_quantized() -> TestGraph {
        TestGraph::default()
            .input("x", Float, &["4", "600"])
            .raw("w", Int8, &[600, 2], &(0..1200).map(|i| (i * 37 % 251) as u8).collect::<Vec<_>>())
            .raw("w_zero", Int8, &[], &[3])
            .floats("w_scale", &[], &[0.01])
            .floats("bias", &[2], &[0.5, -2.0])
            .node("DynamicQuantizeLinear", "x", "q x_scale x_zero", vec![])
            .node("MatMulInteger", "q w x_zero w_zero", "integers", vec![])
            .node("Cast", "integers", "floats", vec![("to", Attr::Int(1))])
            .node("Mul", "x_scale w_scale", "scale", vec![])
            .node("Mul", "floats scale", "scaled", vec![])
            .node("Add", "scaled bias", "y", vec![])
    }

    #[test]
    fn products_cast_to_floats_are_single_products() {
        let text = dynamically_quantized().output("y").text(17);
        assert_eq!(text.matches("= matmul").count(), 1, "{text}");
        assert!(!text.contains("int32"), "{text}");
        let both = dynamically_quantized().output("y").output_of("integers", Int32).text(17);
        assert_eq!(both.matches("= matmul").count(), 3 + 1, "{both}");
        let integers = dynamically_quantized().node("Cast", "integers", "long", vec![("to", Attr::Int(7))]);
        assert_eq!(integers.output_of("long", Int64).text(17).matches("= matmul").count(), 3);
    }

    #[test]
    fn products_of_one_input_share_its_difference() {
        let graph = dynamically_quantized().node("MatMulInteger", "q w x_zero w_zero", "others", vec![]);
        let text = graph.node("Cast", "others", "z", vec![("to", Attr::Int(1))]).output("y").output("z").text(17);
        assert_eq!(text.matches("= matmul").count(), 2, "{text}");
        assert_eq!(text.matches("dequantizeLinear").count(), 2, "{text}");
    }

    #[test]
    fn dynamically_quantized_products_agree_with_the_oracle() {
        let graph = dynamically_quantized().output("y").output_of("integers", Int32).import(17, &Default::default());
        check(&graph.unwrap(), Tolerance::ulps(16).or_absolute(1e-3));
    }

    #[test]
    fn integers_of_deep_products_are_exact_and_floats_nearly() {
        // The terms add up to 64 million: more than float32 represents exactly.
        let bytes: Vec<u8> = (0..2100 * 3).map(|i| 100 + (i % 28) as u8).collect();
        let graph = TestGraph::default()
            .input("x", Uint8, &["5", "2100"])
            .input("zero", Uint8, &["5"])
            .raw("w", Int8, &[2100, 3], &bytes)
            .node("MatMulInteger", "x w", "integers", vec![])
            .node("Cast", "integers", "floats", vec![("to", Attr::Int(1))])
            .node("MatMulInteger", "x w zero", "rows", vec![])
            .node("Cast", "rows", "others", vec![("to", Attr::Int(1))]);
        let graph = graph.output_of("integers", Int32).output("floats").output_of("rows", Int32).output("others");
        // Compared exactly: a difference of 32 would show.
        let graph = graph.import(17, &Default::default()).unwrap();
        check(&graph, Tolerance::EXACT.or_absolute(64.0));
    }

    #[test]
    fn convolutions_that_are_cast_to_floats_are_one_convolution() {
        let graph = |outputs: &[(&str, crate::onnx::tensor::ElementType)]| {
            let graph = TestGraph::default()
                .input("x", Uint8, &["1", "40", "4", "5"])
                .input("zero", Uint8, &[])
                .raw("w", Int8, &[2, 40, 3, 3], &(0..720).map(|i| (i * 37 % 251) as u8).collect::<Vec<_>>())
                .raw("w_zero", Int8, &[2], &[3, 0xfd])
                .node("ConvInteger", "x w zero w_zero", "integers", vec![("pads", Attr::Ints(&[1, 1, 1, 1]))])
                .node("Cast", "integers", "floats", vec![("to", Attr::Int(1))]);
            outputs.iter().fold(graph, |graph, (name, element)| graph.output_of(name, *element))
        };
        assert_eq!(graph(&[("floats", Float)]).text(17).matches("= conv2d").count(), 1);
        assert_eq!(graph(&[("integers", Int32)]).text(17).matches("= conv2d").count(), 2);
        let both = graph(&[("floats", Float), ("integers", Int32)]).import(17, &Default::default()).unwrap();
        check(&both, Tolerance::EXACT.or_absolute(4.0));
    }

    #[test]
    fn scales_of_an_axis_get_the_rank_of_the_input() {
        let graph = TestGraph::default().input("x", Int8, &["2", "3", "4"]).input("s", Float, &["3"]);
        let text = graph.node("DequantizeLinear", "x s", "y", vec![]).output("y").text(13);
        assert!(text.contains("newShape=[1, 3, 1]") && text.contains("dequantizeLinear"), "{text}");
    }

    #[test]
    fn constants_of_four_bits_are_widened_and_blocks_stay() {
        let graph =
            TestGraph::default().raw("w", Int4, &[2, 4], &[0x21, 0x43, 0x65, 0x87]).input("s", Float, &["2", "2"]);
        let attributes = vec![("block_size", Attr::Int(2)), ("axis", Attr::Int(1))];
        let text = graph.node("DequantizeLinear", "w s", "y", attributes).output("y").text(21);
        assert!(text.contains("int8 [2, 4]") && !text.contains("gather"), "{text}");
    }

    #[test]
    fn values_of_16_bits_inside_of_a_model_are_int32() {
        let graph =
            TestGraph::default().input("x", Float, &["4"]).floats("s", &[], &[0.1]).raw("z", Uint16, &[], &[0, 1]);
        let graph = graph.node("QuantizeLinear", "x s z", "q", vec![]).node("DequantizeLinear", "q s z", "y", vec![]);
        let text = graph.output("y").text(21);
        assert!(text.contains("minValue=0") && text.contains("maxValue=65535"), "{text}");
        assert!(text.contains("dequantizeLinear"), "{text}");
    }

    #[test]
    fn numbers_of_two_bits_are_widened() {
        let graph = TestGraph::default().raw("w", Int2, &[4], &[0b11_10_01_00]).floats("s", &[], &[0.5]);
        let graph = graph.node("DequantizeLinear", "w s", "y", vec![]).output("y").import(25, &Default::default());
        let y = crate::reference::run(&graph.unwrap(), &Default::default()).remove("y").unwrap();
        assert_eq!(y.to_bytes(), [0.0f32, 0.5, -1.0, -0.5].map(f32::to_le_bytes).concat());
    }

    #[test]
    fn types_that_webnn_does_not_have_are_refused() {
        let graph = TestGraph::default().input("x", Float, &["4"]).floats("s", &[], &[0.1]).raw("z", Uint4, &[], &[1]);
        let message = graph.node("QuantizeLinear", "x s z", "y", vec![]).output("y").refusal(21);
        assert!(message.contains("input 2 is of type uint4, which WebNN does not have"), "{message}");
        let graph = TestGraph::default().input("x", Int8, &["2", "4"]).input("s", Float, &["3"]);
        let message = graph.node("DequantizeLinear", "x s", "y", vec![]).output("y").refusal(13);
        assert!(message.contains("has shape [3], expected [4] for axis 1 of [2, 4]"), "{message}");
    }
}
