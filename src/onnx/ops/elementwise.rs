//! Element-wise arithmetic and casts.

use crate::dtype::{DataType, Number};
use crate::ir::{FileType, OperandId};
use crate::onnx::call::{Call, Step};
use crate::onnx::constants::Conversion;
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::ops::texts::numbers::{from_texts, to_texts};
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::onnx::tensor::{ElementType, Literal};
use crate::ops::elementwise::{Elementwise as E, cast as cast_number};
use crate::shape::{Descriptor, broadcast};

/// Computes each element of the output from one of input 0, by `f`. An input without elements yields an output without
/// elements.
pub fn map(call: &mut Call, f: impl FnOnce(&mut Call, OperandId) -> Step<OperandId>) -> Outcome {
    if let Some(Value::Empty(descriptor)) = call.value(0) {
        return Ok(vec![Value::Empty(descriptor)]);
    }
    let x = call.input(0)?;
    let output = f(call, x);
    call.one(output)
}

/// If one of the broadcast operands at `indices` has no elements, the output of the operator, of type `dtype`.
pub fn empty_broadcast(call: &Call, indices: std::ops::Range<usize>, dtype: Option<DataType>) -> Step<Option<Value>> {
    if !indices.clone().any(|index| matches!(call.value(index), Some(Value::Empty(_)))) {
        return Ok(None);
    }
    let mut shape = Vec::new();
    for index in indices {
        let other = call.input_shape(index)?;
        shape = broadcast(&shape, &other)
            .ok_or_else(|| Refusal(format!("the shapes {shape:?} and {other:?} do not broadcast")))?;
    }
    let dtype = dtype.ok_or("an operand is of a type that WebNN does not have")?;
    Ok(Some(Value::Empty(Descriptor::new(dtype, shape))))
}

/// Whether the type has no negative values.
pub fn is_unsigned(dtype: DataType) -> bool {
    dtype.integer_range().is_some_and(|(min, _)| min == 0)
}

/// Translates an operator equivalent to `op`.
pub fn unary(call: &mut Call, op: E) -> Outcome {
    map(call, |call, x| call.emit(op.into_operation(), &[x]))
}

/// Like [`unary`], for an operator that is the identity on unsigned types, which WebNN's operator does not accept.
fn unary_of_signed(call: &mut Call, op: E) -> Outcome {
    map(call, |call, x| if is_unsigned(call.dtype(x)) { Ok(x) } else { call.emit(op, &[x]) })
}

/// Translates an operator on two broadcast operands, equivalent to `op`.
pub fn binary(call: &mut Call, op: E) -> Outcome {
    let dtype = if op.is_test() { Some(DataType::Uint8) } else { call.input_type(0) };
    if let Some(empty) = empty_broadcast(call, 0..2, dtype)? {
        return Ok(vec![empty]);
    }
    let (a, b) = (call.input(0)?, call.input(1)?);
    let output = call.emit(op.into_operation(), &[a, b]);
    call.one(output)
}

/// `Sum`, `Mean`, `Max` and `Min` take any number of operands.
fn variadic(call: &mut Call, op: E, finish: fn(&mut Call, OperandId) -> Step<OperandId>) -> Outcome {
    if let Some(empty) = empty_broadcast(call, 0..call.input_count(), call.input_type(0))? {
        return Ok(vec![empty]);
    }
    let mut output = call.input(0)?;
    for index in 1..call.input_count() {
        let next = call.input(index)?;
        output = call.emit(op, &[output, next])?;
    }
    let output = finish(call, output);
    call.one(output)
}

fn mean(call: &mut Call) -> Outcome {
    variadic(call, E::Add, |call, sum| {
        let count = call.scalar_like(sum, call.input_count() as f64)?;
        call.div(sum, count)
    })
}

fn sign(call: &mut Call) -> Outcome {
    map(call, |call, x| match is_unsigned(call.dtype(x)) {
        true => call.emit(E::Clamp { min: Number::Int(0), max: Number::Int(1) }, &[x]),
        false => call.emit(E::Sign, &[x]),
    })
}

/// Bounds are attributes before opset 11, operands since then.
fn clip(call: &mut Call) -> Outcome {
    map(call, |call, x| {
        let [min, max] = if call.opset < 11 {
            [("min", f32::MIN), ("max", f32::MAX)]
                .map(|(name, all)| Some(Some(Number::Float(call.float_or(name, all)))))
        } else {
            // `None` for a bound that is present but not constant.
            let bound = |index, what| -> Step<Option<Option<Number>>> {
                Ok(match call.value(index) {
                    None | Some(Value::Empty(_)) => Some(None),
                    Some(_) if call.is_known(index) => Some(Some(call.one_number(index, what)?)),
                    Some(_) => None,
                })
            };
            [bound(1, "min")?, bound(2, "max")?]
        };
        let (Some(min), Some(max)) = (min, max) else { return clip_to_operands(call, x) };
        let (min, max) = (min.unwrap_or(Number::Float(f64::NEG_INFINITY)), max.unwrap_or(Number::Float(f64::INFINITY)));
        // If the bounds cross, the upper one wins.
        let min = if min.to_f64() > max.to_f64() { max } else { min };
        call.emit(E::Clamp { min, max }, &[x])
    })
}

/// Clips to computed bounds, which `clamp` does not accept.
fn clip_to_operands(call: &mut Call, x: OperandId) -> Step<OperandId> {
    let mut output = x;
    for (index, op) in [(1, E::Max), (2, E::Min)] {
        if let Some(bound) = call.optional(index)? {
            let bound = call.to_scalar(bound)?;
            output = call.emit(op, &[output, bound])?;
        }
    }
    Ok(output)
}

/// ONNX's power has the type of the base, whatever the type of the exponent.
fn pow(call: &mut Call) -> Outcome {
    if let Some(empty) = empty_broadcast(call, 0..2, call.input_type(0))? {
        return Ok(vec![empty]);
    }
    let (base, exponent) = (call.input(0)?, call.input(1)?);
    let (dtype, exponent_type) = (call.dtype(base), call.dtype(exponent));
    let is_whole = |call: &Call| {
        let numbers = call.numbers_of(exponent);
        numbers.is_some_and(|numbers| numbers.iter().all(|number| number.to_f64().fract() == 0.0))
    };
    let output = match call.number_of(exponent).map(Number::to_f64) {
        // Common powers, computed without a logarithm.
        Some(power) if call.rank(exponent) <= call.rank(base) && [2.0, 3.0].contains(&power) => {
            let square = call.mul(base, base)?;
            if power == 2.0 { Ok(square) } else { call.mul(square, base) }
        }
        _ if dtype == exponent_type => call.emit(E::Pow, &[base, exponent]),
        _ if !dtype.is_float() && exponent_type.is_float() && !is_whole(call) => {
            fractional_power_of_integers(call, base, exponent)
        }
        _ if dtype == DataType::Float16 => {
            // float16 may not represent an exponent of another type.
            let (base, exponent) = (call.cast(base, DataType::Float32)?, call.cast(exponent, DataType::Float32)?);
            let power = call.emit(E::Pow, &[base, exponent])?;
            call.cast(power, dtype)
        }
        _ => {
            let exponent = call.cast(exponent, dtype)?;
            call.emit(E::Pow, &[base, exponent])
        }
    };
    call.one(output)
}

/// Exact for integer exponents; other powers are computed in float32 and truncated to integers.
fn fractional_power_of_integers(call: &mut Call, base: OperandId, exponent: OperandId) -> Step<OperandId> {
    /// Maximum relative error of a float32 power of two integers.
    const POWER_ERROR: f64 = 1e-6;
    let dtype = call.dtype(base);
    let whole = call.emit(E::Floor, &[exponent])?;
    let is_whole = call.emit(E::Equal, &[whole, exponent])?;
    let whole = call.cast(whole, dtype)?;
    let exact = call.emit(E::Pow, &[base, whole])?;
    let (base, exponent) = (call.cast(base, DataType::Float32)?, call.cast(exponent, DataType::Float32)?);
    let power = call.emit(E::Pow, &[base, exponent])?;
    // A result next to an integer is a rounded root; the exact one is that integer.
    let nearest = call.emit(E::RoundEven, &[power])?;
    let distance = call.sub(power, nearest)?;
    let distance = call.emit(E::Abs, &[distance])?;
    let error = call.scale(nearest, POWER_ERROR)?;
    let is_near = call.emit(E::LesserOrEqual, &[distance, error])?;
    let power = call.select(is_near, nearest, power)?;
    let power = call.cast(power, dtype)?;
    call.select(is_whole, exact, power)
}

/// The remainder of truncating division, with the sign of the dividend (`fmod`), or of flooring division, with the sign
/// of the divisor.
fn modulo(call: &mut Call) -> Outcome {
    if let Some(empty) = empty_broadcast(call, 0..2, call.input_type(0))? {
        return Ok(vec![empty]);
    }
    let (a, b) = (call.input(0)?, call.input(1)?);
    let dtype = call.dtype(a);
    let (remainder, b) = if dtype.is_float() {
        let (a, b) = (call.cast(a, DataType::Float32)?, call.cast(b, DataType::Float32)?);
        (float_remainder(call, a, b)?, b)
    } else {
        let quotient = call.div(a, b)?;
        let product = call.mul(quotient, b)?;
        (call.sub(a, product)?, b)
    };
    let output = match call.int_or("fmod", 0) != 0 || is_unsigned(dtype) {
        true => remainder,
        false => {
            let zero = call.scalar_like(remainder, 0.0)?;
            let is_inexact = call.emit(E::NotEqual, &[remainder, zero])?;
            let (below, divisor_below) = (call.emit(E::Lesser, &[remainder, zero])?, call.emit(E::Lesser, &[b, zero])?);
            let differ = call.emit(E::LogicalXor, &[below, divisor_below])?;
            let moves = call.emit(E::LogicalAnd, &[is_inexact, differ])?;
            let moved = call.add(remainder, b)?;
            call.select(moves, moved, remainder)?
        }
    };
    let output = call.cast(output, dtype);
    call.one(output)
}

/// `fmod` in float32: exact for quotients below 2^24, in two steps that are exact for quotients below 2^12.
fn float_remainder(call: &mut Call, a: OperandId, b: OperandId) -> Step<OperandId> {
    let (mut rest, divisor) = (call.emit(E::Abs, &[a])?, call.emit(E::Abs, &[b])?);
    let multiple = call.scale(divisor, 4096.0)?;
    for divisor in [multiple, divisor] {
        rest = positive_remainder(call, rest, divisor)?;
    }
    let sign = call.emit(E::Sign, &[a])?;
    call.mul(rest, sign)
}

/// The remainder of non-negative numbers, exact if the quotient is below 2^12: the divisor is split into two 12-bit
/// numbers, whose products with the quotient are exact.
fn positive_remainder(call: &mut Call, x: OperandId, divisor: OperandId) -> Step<OperandId> {
    /// Larger numbers are not split: multiplying them by 2^12 + 1 would overflow.
    const MAX_SPLIT: f64 = 1e34;
    let product = call.scale(divisor, 4097.0)?;
    let excess = call.sub(product, divisor)?;
    let upper = call.sub(product, excess)?;
    let limit = call.scalar_like(divisor, MAX_SPLIT)?;
    let is_huge = call.emit(E::Greater, &[divisor, limit])?;
    let upper = call.select(is_huge, divisor, upper)?;
    let lower = call.sub(divisor, upper)?;
    let ratio = call.div(x, divisor)?;
    let quotient = call.emit(E::Floor, &[ratio])?;
    let mut rest = x;
    for part in [upper, lower] {
        let product = call.mul(quotient, part)?;
        rest = call.sub(rest, product)?;
    }
    // The rounded ratio can be an integer although the exact one is below it.
    let zero = call.scalar_like(rest, 0.0)?;
    let is_below = call.emit(E::Lesser, &[rest, zero])?;
    let raised = call.add(rest, divisor)?;
    let rest = call.select(is_below, raised, rest)?;
    // An infinite divisor times a quotient of 0 is NaN.
    let is_smaller = call.emit(E::Lesser, &[x, divisor])?;
    call.select(is_smaller, x, rest)
}

/// An optional without a value is one behind it, too.
fn identity(call: &mut Call) -> Outcome {
    match call.input_count() {
        0 => Err("input 0 is missing".into()),
        _ => Ok(vec![call.value(0).unwrap_or(Value::Absent)]),
    }
}

/// Casts to the type of `to`, which distinguishes truth values from other `uint8`.
fn cast(call: &mut Call) -> Outcome {
    let to = call.type_attribute("to")?.ok_or("to is missing")?;
    match to {
        ElementType::String => to_texts(call),
        ElementType::Int16 | ElementType::Uint16 => {
            let mut outputs = cast_to(call, wide(call), false)?;
            if let Value::Tensor(x) = outputs[0] {
                outputs[0] = Value::Tensor(low_16_bits(call, x, to == ElementType::Int16)?);
            }
            Ok(outputs)
        }
        _ => {
            let dtype = call.computed_type(to, "to")?;
            cast_to(call, dtype, to == ElementType::Bool)
        }
    }
}

/// The type to cast input 0 to before all but its lowest 16 bits are dropped: integers wrap, and so do floats within the
/// range of int32.
fn wide(call: &Call) -> DataType {
    let literal = call.input_literal(0).map(|literal| literal.element);
    let computed = literal.and_then(|element| call.computed_type(element, "input").ok());
    let widened = || literal.and_then(ElementType::foreign).map(FileType::widened);
    match call.input_type(0).or(computed).or_else(widened) {
        Some(DataType::Float64) => DataType::Float64,
        Some(dtype) if dtype.is_float() => DataType::Float32,
        _ => DataType::Int32,
    }
}

/// The lowest 16 bits of `x`, an int32 or a float that is truncated, as a signed or unsigned number. Floats beyond
/// int32 become 0, as in onnxruntime on x64.
fn low_16_bits(call: &mut Call, x: OperandId, is_signed: bool) -> Step<OperandId> {
    /// The first float32 above the range of int32.
    const BEYOND: f64 = (1u64 << 31) as f64;
    let x = if call.dtype(x).is_float() {
        let (zero, limit) = (call.scalar_like(x, 0.0)?, call.scalar_like(x, BEYOND)?);
        let is_beyond = call.emit(E::GreaterOrEqual, &[x, limit])?;
        call.select(is_beyond, zero, x)?
    } else {
        x
    };
    // The product drops the upper half, the quotient returns the lower one to its place.
    let dtype = if is_signed { DataType::Int32 } else { DataType::Uint32 };
    let x = call.cast(x, DataType::Int32)?;
    let x = call.cast(x, dtype)?;
    let factor = call.int_scalar(dtype, 1 << 16)?;
    let shifted = call.mul(x, factor)?;
    let low = call.div(shifted, factor)?;
    call.cast(low, DataType::Int32)
}

/// Casts to the type of the second operand. Truth values are `uint8` here: a cast to them cannot be told from a cast to
/// integers.
fn cast_like(call: &mut Call) -> Outcome {
    let dtype = call.input_type(1).ok_or("input 1 is of a type that WebNN does not have")?;
    if dtype == DataType::Uint8 && call.input_type(0) != Some(DataType::Uint8) {
        return Err("input 1 may be of type uint8 or bool, which are both uint8 in WebNN".into());
    }
    cast_to(call, dtype, false)
}

/// Reinterprets the bits of each element as a type of the same size, for which WebNN has no operator: constants are
/// reinterpreted during translation, and computed integers can become other integers.
fn bit_cast(call: &mut Call) -> Outcome {
    let to = call.type_attribute("to")?.ok_or("to is missing")?;
    let literal = call.input_literal(0);
    let bits = call.input_type(0).map(|dtype| dtype.bits()).or(literal.as_ref().map(|literal| literal.element.bits()));
    if bits != Some(to.bits()) || bits == Some(0) {
        let bits = bits.unwrap_or(0);
        return Err(Refusal(format!("the elements have {bits} bits, those of {to} have {}", to.bits())));
    }
    let bytes = match literal {
        Some(literal) => Some(literal.bytes.clone()),
        None => call.constant_bytes(0)?,
    };
    if let Some(bytes) = bytes {
        let literal = Literal { element: to, shape: call.input_sizes(0)?, bytes };
        return Ok(vec![call.literal(literal)?]);
    }
    map(call, |call, x| match to.webnn() {
        Some(dtype) if dtype == call.dtype(x) || !dtype.is_float() && !call.dtype(x).is_float() => call.cast(x, dtype),
        _ => Err(Refusal(format!("WebNN cannot read the bits of {} as {to}", call.dtype(x)))),
    })
}

/// Floats lose their fraction when cast to an integer; as truth values, all but 0 are true.
fn cast_to(call: &mut Call, to: DataType, to_bool: bool) -> Outcome {
    if let Some(Value::Texts(_)) = call.value(0) {
        return from_texts(call, to, to_bool);
    }
    if let Some(literal) = call.input_literal(0) {
        if literal.shape.contains(&0) {
            return Ok(vec![Value::Empty(Descriptor::new(to, literal.shape.clone()))]);
        }
        if literal.element == ElementType::Double && to == DataType::Float64 {
            return call.computed_value(Value::Literal(literal)).map(|value| vec![value]);
        }
        if literal.element == ElementType::Double && (to_bool || to != DataType::Float32) {
            // Its float32 form is not exact.
            let output = match to_bool {
                true => call.converted(&literal, (to, Conversion::Truth), |number| {
                    Number::Int((number.to_f64() != 0.0) as i128)
                }),
                false => call.converted(&literal, (to, Conversion::Cast(to)), |number| cast_number(number, to)),
            };
            return call.one(output);
        }
    }
    if let Some(Value::Empty(descriptor)) = call.value(0) {
        return Ok(vec![Value::Empty(Descriptor { dtype: to, ..descriptor })]);
    }
    let x = match call.input_literal(0) {
        Some(literal) => call.widened(&literal)?,
        None => call.input(0)?,
    };
    if let Some(&product) = call.float_forms().get(&x).filter(|_| to == DataType::Float32 && !to_bool) {
        return call.one(Ok(product));
    }
    let output = match to_bool {
        true => {
            let zero = call.scalar_like(x, 0.0)?;
            call.emit(E::NotEqual, &[x, zero])
        }
        false => call.cast(x, to),
    };
    call.one(output)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Abs", "", |call| unary_of_signed(call, E::Abs)),
    standard("Add", "", |call| binary(call, E::Add)),
    standard("BitCast", "constants, or between integers", bit_cast),
    standard(
        "Cast",
        "bfloat16 becomes float32; from float8 and float4 only constants; not to these, to float6 and to integers of 2 and 4 bits",
        cast,
    ),
    standard("CastLike", "to truth values only from uint8", cast_like),
    standard("Ceil", "", |call| unary(call, E::Ceil)),
    standard("Clip", "", clip),
    standard("Cos", "", |call| unary(call, E::Cos)),
    standard("Div", "", |call| binary(call, E::Div)),
    standard("Erf", "floats only", |call| unary(call, E::Erf)),
    standard("Exp", "", |call| unary(call, E::Exp)),
    standard("Floor", "", |call| unary(call, E::Floor)),
    standard("Identity", "", identity),
    standard("Log", "", |call| unary(call, E::Log)),
    standard("Max", "", |call| variadic(call, E::Max, |_, output| Ok(output))),
    standard("Mean", "", mean),
    standard("Min", "", |call| variadic(call, E::Min, |_, output| Ok(output))),
    standard(
        "Mod",
        "float remainders are rounded if the quotient is above 2^24, doubles are computed in float32",
        modulo,
    ),
    standard("Mul", "", |call| binary(call, E::Mul)),
    standard("Neg", "", |call| unary(call, E::Neg)),
    standard("Pow", "fractional powers of integers are computed in float32", pow),
    standard("Reciprocal", "", |call| unary(call, E::Reciprocal)),
    standard("Round", "", |call| unary(call, E::RoundEven)),
    standard("Sign", "", sign),
    standard("Sin", "", |call| unary(call, E::Sin)),
    standard("Sqrt", "", |call| unary(call, E::Sqrt)),
    standard("Sub", "", |call| binary(call, E::Sub)),
    standard("Sum", "", |call| variadic(call, E::Add, |_, output| Ok(output))),
    standard("Tan", "", |call| unary(call, E::Tan)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Graph;
    use crate::onnx::import::Request;
    use crate::onnx::tensor::ElementType::{Bool, Float, Int32, Uint8};
    use crate::onnx::testing::{Attr, TestGraph};

    fn binary_text(operator: &str, element: ElementType, attributes: Vec<(&str, Attr)>) -> String {
        let graph = TestGraph::default().input("a", element, &["2"]).input("b", element, &["2"]);
        graph.node(operator, "a b", "y", attributes).output("y").text(17)
    }

    #[test]
    fn remainders_have_the_requested_sign() {
        let text = binary_text("Mod", Uint8, vec![]);
        assert!(text.contains("div") && !text.contains("where"), "{text}");
        assert!(binary_text("Mod", Int32, vec![]).contains("logicalXor"));
        assert!(!binary_text("Mod", Int32, vec![("fmod", Attr::Int(1))]).contains("logicalXor"));
    }

    #[test]
    fn squares_are_products() {
        let graph = TestGraph::default().input("x", Float, &["2"]).floats("two", &[], &[2.0]);
        let text = graph.node("Pow", "x two", "y", vec![]).output("y").text(17);
        assert!(text.contains("mul %0 %0"), "{text}");
    }

    #[test]
    fn empty_tensors_remain_empty() {
        let graph = TestGraph::default().input("x", Float, &["0", "3"]).input("y", Float, &["1", "1"]);
        let graph = graph.node("Add", "x y", "sum", vec![]).node("Equal", "sum y", "same", vec![]);
        let graph = graph.node("Cast", "same", "z", vec![("to", Attr::Int(1))]).node("Exp", "z", "e", vec![]);
        let graph = graph.node("Shape", "e", "shape", vec![]).output("shape");
        let text = graph.text(17);
        assert!(text.contains("constant int64 [2]"), "{text}");
    }

    #[test]
    fn casts_to_truth_values_compare_with_zero() {
        let graph = TestGraph::default().input("x", Float, &["2"]);
        let text = graph.node("Cast", "x", "y", vec![("to", Attr::Int(9))]).output("y").text(17);
        assert!(text.contains("notEqual"), "{text}");
        let graph = TestGraph::default().input("x", Float, &["2"]).input("like", Bool, &["1"]);
        let refusal = graph.node("CastLike", "x like", "y", vec![]).output("y").refusal(17);
        assert!(refusal.contains("input 1 may be of type uint8 or bool"), "{refusal}");
    }

    #[test]
    fn doubles_are_float64_where_the_device_has_it() {
        let third = (1.0f64 / 3.0).to_le_bytes();
        let graph = || {
            let graph = TestGraph::default().input("x", Float, &["2"]).raw("third", ElementType::Double, &[], &third);
            let graph = graph.node("Cast", "x", "d", vec![("to", Attr::Int(11))]).node("Mul", "d third", "m", vec![]);
            graph.node("Cast", "m", "y", vec![("to", Attr::Int(1))]).output("y").output_of("m", ElementType::Double)
        };
        let text = graph().text(17);
        assert!(text.contains("cast %0 dataType=float64") && text.contains("constant float64 []"), "{text}");
        let types = |graph: Graph| graph.outputs.iter().map(|(_, id)| graph.descriptor(*id).dtype).collect::<Vec<_>>();
        let (single, double) = (DataType::Float32, DataType::Float64);
        assert_eq!(types(graph().import(17, &Request::default()).unwrap()), [single, double]);
        // Nodes that are left to the CPU are none of the graph.
        let for_gpus = graph().import_for_gpus(17).unwrap();
        assert!(!for_gpus.to_string().contains("float64"), "{for_gpus}");
        assert_eq!(types(for_gpus), [single, single]);
    }

    #[test]
    fn the_api_has_no_doubles_at_its_boundary() {
        let graph = TestGraph::default().input("x", ElementType::Double, &["2"]);
        let graph = graph.node("Neg", "x", "y", vec![]).output_of("y", ElementType::Double);
        let imported = graph.import(17, &Request { for_api: true, ..Request::default() }).unwrap();
        let text = imported.to_string();
        assert!(text.contains("input x float32 [2]") && text.contains("cast %0 dataType=float64"), "{text}");
        assert_eq!(imported.descriptor(imported.outputs[0].1).dtype, DataType::Float32);
    }

    #[test]
    fn bits_of_constants_and_integers_are_reinterpreted() {
        let graph = TestGraph::default().floats("one", &[1], &[1.0]);
        let graph = graph.node("BitCast", "one", "bits", vec![("to", Attr::Int(6))]);
        let imported = graph.output_of("bits", Int32).import(26, &Default::default()).unwrap();
        let bits = crate::reference::run(&imported, &Default::default()).remove("bits").unwrap();
        assert_eq!(bits.to_bytes(), 0x3f80_0000i32.to_le_bytes());
        let graph = TestGraph::default().input("x", Int32, &["2"]);
        let text = graph.node("BitCast", "x", "y", vec![("to", Attr::Int(12))]).output("y").text(26);
        assert!(text.contains("cast %0"), "{text}");
        let refusal = |to| {
            let graph = TestGraph::default().input("x", Float, &["2"]);
            graph.node("BitCast", "x", "y", vec![("to", Attr::Int(to))]).output("y").refusal(26)
        };
        assert!(refusal(6).contains("WebNN cannot read the bits of float32 as int32"), "{}", refusal(6));
        assert!(refusal(7).contains("the elements have 32 bits, those of int64 have 64"), "{}", refusal(7));
    }

    #[test]
    fn computed_bounds_become_operands() {
        let graph = TestGraph::default().input("x", Float, &["2"]).input("low", Float, &[]);
        let text = graph.node("Clip", "x low", "y", vec![]).output("y").text(13);
        assert!(text.contains("max %0 %1"), "{text}");
        let graph = TestGraph::default().input("x", Float, &["2"]);
        let text = graph.node("Clip", "x", "y", vec![("min", Attr::Float(1.0))]).output("y").text(10);
        assert!(text.contains("clamp %0") && text.contains("minValue=1"), "{text}");
    }
}
