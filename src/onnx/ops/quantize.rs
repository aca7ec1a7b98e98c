//! Quantization, and the products of quantized tensors.
//!
//! Products of integers are operators of their own. Devices without them compute in float32, in two products with the
//! digits of one factor, whose sums are exact for up to 4096 terms. If the result is cast to float32, as in dynamically
//! quantized models, a single product replaces these. Its error is that of a float32 product of the same depth: none as
//! long as all partial sums are below 2^24, and otherwise at most `depth * 2^-24` times the sum of the magnitudes of the
//! terms.

use super::convolution::{Convolve, convolution, convolve, convolve_with};
use super::generate::places;
use super::product::with_matrices;
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::onnx::tensor::{ElementType, Literal};
use crate::ops::conv2d::Conv2dAttributes;
use crate::ops::elementwise::Elementwise as E;
use crate::ops::extension::integer_product::IntegerProduct;
use crate::ops::quantize::Quantize;
use crate::ops::quantized::ProductKind;
use crate::ops::reduce::ReduceKind;
use crate::ops::spatial::InputLayout;
use crate::shape::Descriptor;
use std::sync::Arc;

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
        self.repeated(call, operand, axis)
    }

    /// Like [`spread`](Self::spread), in a shape that broadcasts to that of the input.
    fn broadcastable(&self, call: &mut Call, operand: OperandId) -> Step<OperandId> {
        let spread = self.spread(call, operand)?;
        if self.block == 0 {
            return Ok(spread);
        }
        let axis = call.axis(self.axis, self.shape.len())? as usize;
        match call.shape(spread)[axis] == self.shape[axis] {
            true => Ok(spread),
            false => self.repeated(call, spread, axis),
        }
    }

    /// Repeats the number of each block for each of its elements.
    fn repeated(&self, call: &mut Call, operand: OperandId, axis: usize) -> Step<OperandId> {
        let size = self.shape[axis];
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

/// The input at `index`, which may be a constant of a type that files store numbers in.
fn numbers(call: &mut Call, index: usize) -> Step<OperandId> {
    match call.input_literal(index) {
        Some(literal) => Ok(call.widened(&literal)?),
        None => call.input(index),
    }
}

/// The type named by the attribute `name`; `None` without it.
fn named_type(call: &Call, name: &str) -> Step<Option<DataType>> {
    let Some(element) = call.type_attribute(name)? else { return Ok(None) };
    let dtype = element.webnn();
    dtype.map(Some).ok_or_else(|| Refusal(format!("{name} is {element}, which WebNN does not have")))
}

/// The numbers and zero points of a constant of 4 bits as they are stored; `None` if they have to be widened, or have
/// another type. No operator changes the shape of such zero points: they have it from the start.
fn packed(call: &mut Call, scale: OperandId) -> Step<Option<(OperandId, OperandId)>> {
    let Some(literal) = call.input_literal(0) else { return Ok(None) };
    let zero_point = call.input_literal(2);
    if call.value(2).is_some() && zero_point.as_ref().is_none_or(|zero| zero.element != literal.element)
        || !call.is_constant(scale)
    {
        return Ok(None);
    }
    let shape = call.sizes(scale);
    if zero_point.as_ref().is_some_and(|zero| zero.elements() != crate::shape::elements(&shape)) {
        return Ok(None);
    }
    let Some(x) = call.packed(&literal)? else { return Ok(None) };
    let zero_point = match zero_point {
        Some(zero) => {
            call.packed(&Arc::new(Literal { shape, ..(*zero).clone() }))?.expect("of this type, with elements")
        }
        None => zeros(call, scale, call.dtype(x))?,
    };
    Ok(Some((x, zero_point)))
}

/// Zeros of the shape of `scale`. They are a constant if `scale` is, which keeps a dequantized constant constant.
fn zeros(call: &mut Call, scale: OperandId, dtype: DataType) -> Step<OperandId> {
    if call.is_constant(scale) {
        return call.same(Descriptor::new(dtype, call.sizes(scale)), 0);
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
    if call.input_literal(0).and_then(|literal| literal.element.foreign()).is_some_and(|from| from.widened().is_float())
    {
        return scaled_floats(call);
    }
    let scale = numbers(call, 1)?;
    let dtype = named_type(call, "output_dtype")?.filter(|_| call.opset >= 23).unwrap_or(call.dtype(scale));
    let scale = call.cast(scale, dtype)?;
    let granularity = Granularity::new(call, call.input_shape(0)?)?;
    let scale = granularity.spread(call, scale)?;
    let (x, zero_point) = match packed(call, scale)? {
        Some(packed) => packed,
        None => {
            let x = quantized(call, 0)?;
            let zero_point = match call.value(2) {
                Some(_) => {
                    let zero_point = quantized(call, 2)?;
                    granularity.spread(call, zero_point)?
                }
                None => zeros(call, scale, call.dtype(x))?,
            };
            (x, zero_point)
        }
    };
    let y = call.emit(Quantize::DequantizeLinear, &[x, scale, zero_point]);
    call.one(y)
}

/// `DequantizeLinear` of a constant of floating-point numbers of 4 or 8 bits.
fn scaled_floats(call: &mut Call) -> Outcome {
    let (x, scale) = (numbers(call, 0)?, numbers(call, 1)?);
    let dtype = named_type(call, "output_dtype")?.filter(|_| call.opset >= 23).unwrap_or(call.dtype(scale));
    let (x, scale) = (call.cast(x, dtype)?, call.cast(scale, dtype)?);
    let granularity = Granularity::new(call, call.shape(x))?;
    let x = match call.value(2) {
        Some(_) => {
            let zero_point = numbers(call, 2)?;
            let zero_point = call.cast(zero_point, dtype)?;
            let zero_point = granularity.broadcastable(call, zero_point)?;
            call.sub(x, zero_point)?
        }
        None => x,
    };
    let scale = granularity.broadcastable(call, scale)?;
    let y = call.mul(x, scale);
    call.one(y)
}

/// Quantizes to uint8 with a scale that covers the values and 0.
///
/// # Errors
/// If the input is not a tensor of floats.
pub fn dynamic_quantize_linear(call: &mut Call) -> Outcome {
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

/// The 8-bit input at `index`, and its optional zero point at `zero`.
///
/// # Errors
/// If it is missing or of another type.
pub fn bytes(call: &Call, index: usize, zero: usize) -> Step<Bytes> {
    let numbers = call.input(index)?;
    if call.dtype(numbers).size() != 1 {
        return Err(Refusal(format!("input {index} is of type {}, expected int8 or uint8", call.dtype(numbers))));
    }
    Ok(Bytes { numbers, zero: call.optional(zero)? })
}

/// Integers of 8 bits with an optional zero point.
#[derive(Clone, Copy)]
pub struct Bytes {
    /// The integers.
    pub numbers: OperandId,
    /// What represents 0 in them: one number, or several.
    pub zero: Option<OperandId>,
}

impl Bytes {
    /// The numbers without their zero point, as float32. `spread` shapes the zero point.
    fn centered(
        self,
        call: &mut Call,
        spread: impl FnOnce(&mut Call, OperandId) -> Step<OperandId>,
    ) -> Step<OperandId> {
        let x = call.cast(self.numbers, DataType::Float32)?;
        let Some(zero) = self.zero else { return Ok(x) };
        let zero = call.cast(zero, DataType::Float32)?;
        let zero = spread(call, zero)?;
        call.sub(x, zero)
    }
}

/// The integers that `product` makes of `x`, floats that hold 9-bit integers. It is linear, and must not add up more than
/// 4096 terms: the products of 9-bit integers with a digit of 4 bits then have exact sums in float32.
fn by_digits(
    call: &mut Call,
    x: OperandId,
    product: impl Fn(&mut Call, OperandId) -> Step<OperandId>,
) -> Step<OperandId> {
    let high = call.linear(x, 1.0 / 16.0, 0.0)?;
    let high = call.emit(E::Floor, &[high])?;
    let whole = call.linear(high, 16.0, 0.0)?;
    let low = call.sub(x, whole)?;
    let mut sums = [high, low];
    for sum in &mut sums {
        let floats = product(call, *sum)?;
        *sum = call.cast(floats, DataType::Int32)?;
    }
    let base = call.int_scalar(DataType::Int32, 16)?;
    let high = call.mul(sums[0], base)?;
    let y = call.add(high, sums[1])?;
    // Readers that need floats in any case do with a single product.
    let floats = product(call, x)?;
    call.float_forms().insert(y, floats);
    Ok(y)
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

/// The product of two matrices of bytes, or stacks of them, as int32. The first may have one zero point per row, the
/// second one per column.
///
/// # Errors
/// If types or shapes do not match.
pub fn integer_matmul(call: &mut Call, a: Bytes, b: Bytes) -> Step<OperandId> {
    with_matrices(call, [a.numbers, b.numbers], |call, x, y| {
        let (a, b) = (Bytes { numbers: x, ..a }, Bytes { numbers: y, ..b });
        if call.has_extensions() {
            return matrices(call, a, b);
        }
        let (x, y) = (a.centered(call, per_row)?, b.centered(call, per_column)?);
        by_digits(call, x, |call, x| call.matmul(x, y))
    })
}

/// Like [`integer_matmul`], for operands that are no vectors, by an operator.
fn matrices(call: &mut Call, a: Bytes, b: Bytes) -> Step<OperandId> {
    let inner = call.shape(b.numbers)[call.rank(b.numbers) - 2];
    let sizes = |call: &Call, zero: Option<OperandId>| zero.map_or(Vec::new(), |zero| call.shape(zero));
    let is_single = |shape: &[Dim]| shape.iter().all(|&size| size == 1);
    let (a_sizes, b_sizes) = (sizes(call, a.zero), sizes(call, b.zero));
    let ones = |call: &mut Call, dtype: DataType, shape: [Dim; 2]| -> Step<Bytes> {
        let one = call.int_scalar(dtype, 1)?;
        Ok(Bytes { numbers: call.expand(one, &shape)?, zero: None })
    };
    // Zero points that differ otherwise are multiplied with the sums of the other operand, products with ones.
    let (zero, plain, sums) = if let Some(zero) = a.zero.filter(|_| !is_single(&a_sizes)) {
        let one = ones(call, call.dtype(a.numbers), [Dim::ONE, inner])?;
        (per_row(call, zero)?, matrices(call, Bytes { zero: None, ..a }, b)?, matrices(call, one, b)?)
    } else if let Some(zero) = b.zero.filter(|_| b_sizes.len() > 1 && !is_single(&b_sizes)) {
        let one = ones(call, call.dtype(b.numbers), [inner, Dim::ONE])?;
        (zero, matrices(call, a, Bytes { zero: None, ..b })?, matrices(call, a, one)?)
    } else {
        let zero = |call: &mut Call, zero: Option<OperandId>| -> Step<Option<OperandId>> {
            zero.map(|zero| if is_single(&call.shape(zero)) { call.to_scalar(zero) } else { Ok(zero) }).transpose()
        };
        let operands = vec![Some(a.numbers), Some(b.numbers), zero(call, a.zero)?, zero(call, b.zero)?];
        return Ok(call.emit_all(IntegerProduct { product: ProductKind::Matmul }, operands)?[0]);
    };
    let zero = call.cast(zero, DataType::Int32)?;
    let excess = call.mul(sums, zero)?;
    call.sub(plain, excess)
}

fn matmul_integer(call: &mut Call) -> Outcome {
    let (a, b) = (bytes(call, 0, 2)?, bytes(call, 1, 3)?);
    let y = integer_matmul(call, a, b);
    call.one(y)
}

/// An int32 product as float32.
///
/// # Errors
/// If there is too much of it.
pub fn as_floats(call: &mut Call, product: OperandId) -> Step<OperandId> {
    match call.float_forms().get(&product) {
        Some(&floats) => Ok(floats),
        None => call.cast(product, DataType::Float32),
    }
}

/// Rounds `accumulator * factor / y`, with the scale `y` at `index` and the zero point after it.
///
/// # Errors
/// If there are several, or types do not match.
pub fn requantized(call: &mut Call, accumulator: OperandId, factor: OperandId, index: usize) -> Step<OperandId> {
    let scale = call.input(index)?;
    let zero_point = match call.optional(index + 1)? {
        Some(zero_point) => zero_point,
        None => {
            let x = call.input(0)?;
            call.int_scalar(call.dtype(x), 0)?
        }
    };
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
    rounded(call, scaled, zero_point)
}

fn qlinear_matmul(call: &mut Call) -> Outcome {
    let (a, b) = (bytes(call, 0, 2)?, bytes(call, 3, 5)?);
    let product = integer_matmul(call, a, b)?;
    let (a_scale, b_scale) = (call.input(1)?, call.input(4)?);
    let (a_scale, b_scale) = (per_row(call, a_scale)?, per_column(call, b_scale)?);
    let factor = call.mul(a_scale, b_scale)?;
    let y = requantized(call, product, factor, 6);
    call.one(y)
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

/// A convolution of bytes: `x` and its filter `w`, and what follows the sums.
struct IntegerConvolution<'a> {
    x: Bytes,
    w: Bytes,
    /// What becomes of the int32 sums, whose channels are followed by so many dimensions.
    then: &'a dyn Fn(&mut Call, OperandId, usize) -> Step<OperandId>,
}

impl IntegerConvolution<'_> {
    /// Convolves input and filter, with the attributes of the node.
    fn run(&self, call: &mut Call) -> Step<OperandId> {
        let (shape, filter) = (call.shape(self.x.numbers), call.shape(self.w.numbers));
        let how = convolution(call, &shape, &filter)?;
        if call.has_extensions() {
            return convolve_with(call, self.x.numbers, self.w.numbers, self, &how);
        }
        let dimensions = filter.len() - 1;
        let x = self.x.centered(call, |call, zero| call.to_scalar(zero))?;
        let w = self.w.centered(call, |call, zero| per_channel(call, zero, dimensions))?;
        let sums = by_digits(call, x, |call, x| convolve(call, x, w, None, &how))?;
        (self.then)(call, sums, dimensions - 1)
    }
}

impl Convolve for IntegerConvolution<'_> {
    fn pad(&self, call: &mut Call, x: OperandId, amounts: [Dim; 2]) -> Step<OperandId> {
        let zero = match self.x.zero {
            Some(zero) => call.to_scalar(zero)?,
            None => call.int_scalar(call.dtype(x), 0)?,
        };
        let part = |call: &mut Call, amount: Dim| -> Step<Option<OperandId>> {
            let mut shape = call.shape(x);
            shape[2] = amount;
            if amount == 0 { Ok(None) } else { call.expand(zero, &shape).map(Some) }
        };
        let parts = [part(call, amounts[0])?, Some(x), part(call, amounts[1])?];
        let parts: Vec<OperandId> = parts.into_iter().flatten().collect();
        call.concat(&parts, 2)
    }

    fn images(&self, call: &mut Call, [x, w]: [OperandId; 2], attributes: Conv2dAttributes) -> Step<OperandId> {
        let x = call.transpose(x, &[0, 2, 3, 1])?;
        let zero = |call: &mut Call, zero: Option<OperandId>| -> Step<Option<OperandId>> {
            zero.map(|zero| if call.shape(zero) == [Dim::ONE] { call.to_scalar(zero) } else { Ok(zero) }).transpose()
        };
        let operands = vec![Some(x), Some(w), zero(call, self.x.zero)?, zero(call, self.w.zero)?];
        let attributes = Conv2dAttributes { input_layout: InputLayout::Nhwc, ..attributes };
        let sums = call.emit_all(IntegerProduct { product: ProductKind::Conv2d(attributes) }, operands)?[0];
        let y = (self.then)(call, sums, 0)?;
        call.transpose(y, &[0, 3, 1, 2])
    }
}

fn conv_integer(call: &mut Call) -> Outcome {
    let (x, w) = (bytes(call, 0, 2)?, bytes(call, 1, 3)?);
    let y = IntegerConvolution { x, w, then: &|_, sums, _| Ok(sums) }.run(call);
    call.one(y)
}

/// `QLinearConv`.
pub fn qlinear_conv(call: &mut Call) -> Outcome {
    let (x, w) = (bytes(call, 0, 2)?, bytes(call, 3, 5)?);
    let then = |call: &mut Call, mut sums: OperandId, dimensions: usize| {
        if let Some(bias) = call.optional(8)? {
            let bias = per_channel(call, bias, dimensions)?;
            sums = call.add(sums, bias)?;
        }
        let (x_scale, w_scale) = (call.input(1)?, call.input(4)?);
        let (x_scale, w_scale) = (call.to_scalar(x_scale)?, per_channel(call, w_scale, dimensions)?);
        let factor = call.mul(x_scale, w_scale)?;
        requantized(call, sums, factor, 6)
    };
    let y = IntegerConvolution { x, w, then: &then }.run(call);
    call.one(y)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("ConvInteger", "", conv_integer),
    standard(
        "DequantizeLinear",
        "integers of 2, 4 and 16 bits, float8 and float4 only as constants",
        dequantize_linear,
    ),
    standard("DynamicQuantizeLinear", "", dynamic_quantize_linear),
    standard("MatMulInteger", "", matmul_integer),
    standard("QLinearConv", "", qlinear_conv),
    standard("QLinearMatMul", "", qlinear_matmul),
    standard(
        "QuantizeLinear",
        "to int8, uint8, int16, uint16 and int32; 16-bit types are int32 inside of a model",
        quantize_linear,
    ),
];

#[cfg(test)]
mod tests {
    use crate::dtype::{DataType, Number};
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;
    use crate::ops::tensor::Tensor;
    use crate::shape::Descriptor;
    use crate::testing::{Tolerance, check, compiled};
    use std::collections::HashMap;

    #[test]
    fn computed_zero_points_of_16_bits_are_refused() {
        let graph = TestGraph::default().input("x", Float, &["4"]).floats("s", &[], &[0.1]).input("z", Int16, &[]);
        let refusal = graph.node("QuantizeLinear", "x s z", "y", vec![]).output_of("y", Int16).refusal(21);
        assert!(refusal.contains("the zero point is a computed 16-bit integer"), "{refusal}");
    }

    #[test]
    fn small_floats_with_scales_that_are_powers_of_two() {
        // As MXFP4 stores weights: blocks of two numbers of 4 bits, with exponents.
        let graph = TestGraph::default()
            .raw("w", Float4E2m1, &[2, 4], &[0x21, 0x7f, 0x43, 0x98])
            .raw("s", Float8E8m0, &[2, 2], &[127, 128, 126, 130])
            .input("x", Float, &["2", "4"])
            .node("DequantizeLinear", "w s", "v", vec![("block_size", Attr::Int(2)), ("axis", Attr::Int(1))])
            .node("Mul", "x v", "y", vec![])
            .output("y")
            .import(24, &Default::default())
            .unwrap();
        let ones = Tensor::from_fn(&Descriptor::new(DataType::Float32, [2, 4]), |_| Number::Float(1.0));
        let inputs = HashMap::from([("x".to_string(), ones)]);
        // A single scale of a list, whose default axis does not exist.
        let list = TestGraph::default().raw("w", Float8E5m2, &[2], &[0x3c, 0xc0]).floats("s", &[], &[0.5]);
        let list = list.node("DequantizeLinear", "w s", "y", vec![]).output("y").import(21, &Default::default());
        assert_eq!(y_of(&list.unwrap(), &HashMap::new()), [0.5, -1.0]);
        let expected = [0.5, 1.0, -12.0, 12.0, 0.75, 1.0, -0.0, -4.0];
        assert_eq!(y_of(&graph, &inputs), expected);
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
    fn products_of_integers_are_operators() {
        let both = dynamically_quantized().output("y").output_of("integers", Int32).text(17);
        assert_eq!([both.matches("= matmulInteger").count(), both.matches("= matmul ").count()], [1, 0], "{both}");
    }

    #[test]
    fn zero_points_per_matrix_take_products_with_ones() {
        let graph = TestGraph::default().input("a", Uint8, &["2", "3", "5"]).input("b", Int8, &["2", "5", "4"]);
        let graph = graph.input("az", Uint8, &["3"]).input("bz", Int8, &["2", "1", "4"]);
        let graph = graph.node("MatMulInteger", "a b az bz", "y", vec![]).output_of("y", Int32);
        let graph = graph.import(17, &Default::default()).unwrap();
        assert_eq!(graph.to_string().matches("= matmulInteger").count(), 4, "{graph}");
        check(&graph, Tolerance::EXACT);
    }

    #[test]
    fn dynamically_quantized_products_agree_with_the_oracle() {
        let graph = dynamically_quantized().output("y").output_of("integers", Int32).import(17, &Default::default());
        check(&graph.unwrap(), Tolerance::ulps(16).or_absolute(1e-3));
    }

    #[test]
    fn deep_products_are_exact() {
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
        let graph = graph.import(17, &Default::default()).unwrap();
        check(&graph, Tolerance::EXACT);
    }

    #[test]
    fn convolutions_are_exact() {
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
        let both = graph(&[("floats", Float), ("integers", Int32)]).import(17, &Default::default()).unwrap();
        assert_eq!(both.to_string().matches("= convInteger").count(), 1, "{both}");
        check(&both, Tolerance::EXACT);
    }

    #[test]
    fn scales_of_an_axis_get_the_rank_of_the_input() {
        let graph = TestGraph::default().input("x", Int8, &["2", "3", "4"]).input("s", Float, &["3"]);
        let text = graph.node("DequantizeLinear", "x s", "y", vec![]).output("y").text(13);
        assert!(text.contains("newShape=[1, 3, 1]") && text.contains("dequantizeLinear"), "{text}");
    }

    #[test]
    fn constants_of_four_bits_with_computed_scales_are_widened_and_blocks_stay() {
        let graph =
            TestGraph::default().raw("w", Int4, &[2, 4], &[0x21, 0x43, 0x65, 0x87]).input("s", Float, &["2", "2"]);
        let attributes = vec![("block_size", Attr::Int(2)), ("axis", Attr::Int(1))];
        let text = graph.node("DequantizeLinear", "w s", "y", attributes).output("y").text(21);
        assert!(text.contains("int8 [2, 4]") && !text.contains("gather"), "{text}");
    }

    #[test]
    fn weights_of_four_bits_stay_packed_in_products() {
        let bytes: Vec<u8> = (0..64 * 24 / 2).map(|i| (i * 37 % 251) as u8).collect();
        let zeros: Vec<u8> = (0..2 * 24 / 2).map(|i| (i * 11 % 256) as u8).collect();
        let scales: Vec<f32> = (0..48).map(|i| 0.25 + i as f32 / 64.0).collect();
        for (what, shape, scale_shape, zero, attributes) in [
            ("blocks with zero points", [64, 24], vec![2, 24], true, vec![("axis", 0), ("block_size", 32)]),
            ("blocks", [64, 24], vec![2, 24], false, vec![("axis", 0), ("block_size", 32)]),
            ("columns", [64, 24], vec![24], true, vec![("axis", 1)]),
        ] {
            let count: i64 = scale_shape.iter().product();
            let mut graph = TestGraph::default()
                .input("x", Float, &["3", "64"])
                .raw("w", Uint4, &shape, &bytes)
                .floats("s", &scale_shape, &scales[..count as usize]);
            if zero {
                graph = graph.raw("z", Uint4, &scale_shape, &zeros[..count as usize / 2]);
            }
            let attributes = attributes.into_iter().map(|(name, value)| (name, Attr::Int(value))).collect();
            let inputs = if zero { "w s z" } else { "w s" };
            let graph = graph.node("DequantizeLinear", inputs, "v", attributes).node("MatMul", "x v", "y", vec![]);
            let graph = graph.output("y").import(21, &Default::default()).unwrap();
            let text = compiled(&graph).to_string();
            assert!(text.contains("blockProduct") && !text.contains("int8"), "{what}: {text}");
            check(&graph, Tolerance::ulps(64).or_absolute(1e-3));
        }
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
