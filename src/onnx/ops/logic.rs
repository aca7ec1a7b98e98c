//! Comparisons, logic, selection, and bitwise operators.

use super::elementwise::{binary, empty_broadcast, map, unary};
use crate::dtype::{DataType, Number};
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;
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

fn bit_shift(call: &mut Call) -> Outcome {
    let op = match call.text_or("direction", "").as_str() {
        "LEFT" => E::ShiftLeft,
        "RIGHT" => E::ShiftRight,
        other => return Err(Refusal(format!("direction is {other}, expected LEFT or RIGHT"))),
    };
    binary(call, op)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("And", "", |call| binary(call, E::LogicalAnd)),
    standard("BitShift", "", bit_shift),
    standard("BitwiseAnd", "", |call| binary(call, E::BitwiseAnd)),
    standard("BitwiseNot", "", |call| unary(call, E::BitwiseNot)),
    standard("BitwiseOr", "", |call| binary(call, E::BitwiseOr)),
    standard("BitwiseXor", "", |call| binary(call, E::BitwiseXor)),
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
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::{Attr, TestGraph};

    #[test]
    fn one_infinity_is_a_comparison() {
        let graph = TestGraph::default().input("x", Float, &["2"]);
        let text = graph.node("IsInf", "x", "y", vec![("detect_positive", Attr::Int(0))]).output("y").text(20);
        assert!(text.contains("equal %0"), "{text}");
    }
}
