//! Comparisons, logic, selection, and bitwise operators.

use super::elementwise::{binary, empty_broadcast, is_unsigned, map};
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::reduce::ReduceKind;
use crate::shape::Descriptor;

/// Tests for each element of input 0 whether `f` holds.
fn test(call: &mut Call, f: impl FnOnce(&mut Call, OperandId) -> Step<OperandId>) -> Outcome {
    if let Some(Value::Empty(descriptor)) = call.value(0) {
        return Ok(vec![Value::Empty(Descriptor { dtype: DataType::Uint8, ..descriptor })]);
    }
    map(call, f)
}

fn is_inf(call: &mut Call) -> Outcome {
    let (negative, positive) = (call.int_or("detect_negative", 1) != 0, call.int_or("detect_positive", 1) != 0);
    test(call, |call, x| match (negative, positive) {
        (true, true) => call.emit(E::IsInfinite, &[x]),
        (false, false) => {
            let no = call.scalar(DataType::Uint8, Number::Int(0))?;
            let shape = call.shape(x);
            call.expand(no, &shape)
        }
        _ => {
            let infinity = call.scalar_like(x, if positive { f64::INFINITY } else { f64::NEG_INFINITY })?;
            call.emit(E::Equal, &[x, infinity])
        }
    })
}

fn choose(call: &mut Call) -> Outcome {
    if let Some(empty) = empty_broadcast(call, 0..3, call.input_type(1))? {
        return Ok(vec![empty]);
    }
    let (condition, yes, no) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let output = call.select(condition, yes, no);
    call.one(output)
}

/// A shift is a multiplication with, or a division by, a power of two. A power that overflows is 0, and so are the
/// product with it and, in WebNN-node, the quotient by it: the result of a shift by all bits.
fn bit_shift(call: &mut Call) -> Outcome {
    let to_left = match call.text_or("direction", "").as_str() {
        "LEFT" => true,
        "RIGHT" => false,
        other => return Err(Refusal(format!("direction is {other}, expected LEFT or RIGHT"))),
    };
    if let Some(empty) = empty_broadcast(call, 0..2, call.input_type(0))? {
        return Ok(vec![empty]);
    }
    let (x, shift) = (call.input(0)?, call.input(1)?);
    let two = call.scalar_like(x, 2.0)?;
    let power = call.emit(E::Pow, &[two, shift])?;
    if to_left || is_unsigned(call.dtype(x)) {
        let output = call.emit(if to_left { E::Mul } else { E::Div }, &[x, power]);
        return call.one(output);
    }
    // A right shift fills in the sign bit: for negative numbers, shifts the inverted bits, which are not negative.
    let zero = call.scalar_like(x, 0.0)?;
    let is_negative = call.emit(E::Lesser, &[x, zero])?;
    let turned = turn_bits(call, x)?;
    let magnitude = call.select(is_negative, turned, x)?;
    let shifted = call.div(magnitude, power)?;
    let turned = turn_bits(call, shifted)?;
    let output = call.select(is_negative, turned, shifted);
    call.one(output)
}

/// Subtracts `x` from `-1` or the largest value, which inverts every bit.
fn bitwise_not(call: &mut Call) -> Outcome {
    map(call, turn_bits)
}

/// Inverts every bit of the integers `x`.
fn turn_bits(call: &mut Call, x: OperandId) -> Step<OperandId> {
    let dtype = call.dtype(x);
    let (_, max) = dtype.integer_range().ok_or("the input is not an integer")?;
    let all = call.scalar(dtype, Number::Int(if is_unsigned(dtype) { max } else { -1 }))?;
    call.sub(all, x)
}

/// The bitwise AND of the operands, of their type and broadcast shape.
///
/// WebNN has no bitwise operators: the digits of both numbers are expanded along a dimension of their own, multiplied,
/// and summed with their weights. Everything is exact, in integers.
fn common_bits(call: &mut Call, a: OperandId, b: OperandId) -> Step<OperandId> {
    let dtype = call.dtype(a);
    if dtype.is_float() || call.dtype(b) != dtype {
        return Err(Refusal(format!("the operands are {dtype} and {}, expected one type of integers", call.dtype(b))));
    }
    let wide = if dtype.size() == 8 { DataType::Uint64 } else { DataType::Uint32 };
    let count = 8 * dtype.size() as u32;
    let weights = (0..count).map(|bit| Number::Int(1 << bit));
    let weights = call.constant(wide, &[count], weights)?;
    let shape = call.broadcast_shape(a, b)?;
    let two = call.scalar(wide, Number::Int(2))?;
    let mut digits = |x: OperandId| -> Step<OperandId> {
        let x = call.cast(x, wide)?;
        let x = call.expand(x, &shape)?;
        let x = call.reshape(x, &[shape.iter().copied().product(), Dim::ONE])?;
        let shifted = call.div(x, weights)?;
        let rest = call.div(shifted, two)?;
        let rest = call.mul(rest, two)?;
        call.sub(shifted, rest)
    };
    let (a, b) = (digits(a)?, digits(b)?);
    let both = call.mul(a, b)?;
    let weighted = call.mul(both, weights)?;
    let sum = call.reduce(ReduceKind::Sum, weighted, &[1], false)?;
    let sum = call.reshape(sum, &shape)?;
    call.cast(sum, dtype)
}

/// A bitwise operator, expressed by the sum of the operands and their common bits: `a | b = a + b - (a & b)`, `a ^ b =
/// a + b - 2 * (a & b)`.
fn bitwise(call: &mut Call, common: i64) -> Outcome {
    if let Some(empty) = empty_broadcast(call, 0..2, call.input_type(0))? {
        return Ok(vec![empty]);
    }
    let (a, b) = (call.input(0)?, call.input(1)?);
    let both = common_bits(call, a, b)?;
    let output = match common {
        0 => Ok(both),
        times => {
            let sum = call.add(a, b)?;
            let shared = call.scale(both, times as f64)?;
            call.sub(sum, shared)
        }
    };
    call.one(output)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("And", "", |call| binary(call, E::LogicalAnd)),
    standard("BitShift", "", bit_shift),
    standard("BitwiseAnd", "memory grows with the number of bits", |call| bitwise(call, 0)),
    standard("BitwiseNot", "", bitwise_not),
    standard("BitwiseOr", "memory grows with the number of bits", |call| bitwise(call, 1)),
    standard("BitwiseXor", "memory grows with the number of bits", |call| bitwise(call, 2)),
    standard("Equal", "no texts", |call| binary(call, E::Equal)),
    standard("Greater", "", |call| binary(call, E::Greater)),
    standard("GreaterOrEqual", "", |call| binary(call, E::GreaterOrEqual)),
    standard("IsInf", "", is_inf),
    standard("IsNaN", "", |call| test(call, |call, x| call.emit(E::IsNaN, &[x]))),
    standard("Less", "", |call| binary(call, E::Lesser)),
    standard("LessOrEqual", "", |call| binary(call, E::LesserOrEqual)),
    standard("Not", "", |call| test(call, |call, x| call.emit(E::LogicalNot, &[x]))),
    standard("Or", "", |call| binary(call, E::LogicalOr)),
    standard("Where", "", choose),
    standard("Xor", "", |call| binary(call, E::LogicalXor)),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::{Float, Uint8};
    use crate::onnx::testing::{Attr, TestGraph};

    #[test]
    fn one_infinity_is_a_comparison() {
        let graph = TestGraph::default().input("x", Float, &["2"]);
        let text = graph.node("IsInf", "x", "y", vec![("detect_positive", Attr::Int(0))]).output("y").text(20);
        assert!(text.contains("equal %0"), "{text}");
    }

    #[test]
    fn shifts_are_products_with_powers_of_two() {
        let graph = TestGraph::default().input("x", Uint8, &["2"]).raw("s", Uint8, &[2], &[1, 9]);
        let text = graph.node("BitShift", "x s", "y", vec![("direction", Attr::Text("RIGHT"))]).output("y").text(11);
        assert!(text.contains("div %0") && !text.contains("pow"), "{text}");
    }

    #[test]
    fn bits_are_summed_with_their_weights() {
        let graph = TestGraph::default().input("a", Uint8, &["2", "3"]).input("b", Uint8, &["3"]);
        let text = graph.node("BitwiseXor", "a b", "y", vec![]).output("y").text(18);
        assert!(text.contains("constant uint32 [8]") && text.contains("reduceSum %18 axes=[1]"), "{text}");
    }
}
