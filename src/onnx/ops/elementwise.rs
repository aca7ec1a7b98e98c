//! Element-wise operators: unary and binary functions, comparisons, logic, activations.

use crate::dtype::{DataType, Number};
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::onnx::tensor::ElementType;
use crate::ops::elementwise::Elementwise as E;

fn unary(call: &mut Call, op: E) -> Outcome {
    let x = call.input(0)?;
    let output = call.emit(op, &[x]);
    call.one(output)
}

fn binary(call: &mut Call, op: E) -> Outcome {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let output = call.emit(op, &[a, b]);
    call.one(output)
}

/// `Sum`, `Mean`, `Max` and `Min` take any number of operands.
fn variadic(call: &mut Call, op: E) -> Step<crate::ir::OperandId> {
    let mut output = call.input(0)?;
    for index in 1..call.input_count() {
        let next = call.input(index)?;
        output = call.emit(op, &[output, next])?;
    }
    Ok(output)
}

fn mean(call: &mut Call) -> Outcome {
    let sum = variadic(call, E::Add)?;
    let mean = call.scale(sum, 1.0 / call.input_count() as f64);
    call.one(mean)
}

/// Bounds are attributes before opset 11 and operands from then on, which must be constants.
fn clip(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let [min, max] = if call.opset < 11 {
        [call.float_attribute("min").map(Number::Float), call.float_attribute("max").map(Number::Float)]
    } else {
        let bound = |index: usize| -> Step<Option<Option<Number>>> {
            if call.optional(index)?.is_none() {
                return Ok(Some(None));
            }
            Ok(call.constant_numbers(index).map(|numbers| numbers.first().copied()))
        };
        match [bound(1)?, bound(2)?] {
            [Some(min), Some(max)] => [min, max],
            // Bounds that are computed, which `clamp` does not take.
            _ => {
                let mut output = x;
                for (index, op) in [(1, E::Max), (2, E::Min)] {
                    if let Some(bound) = call.optional(index)? {
                        output = call.emit(op, &[output, bound])?;
                    }
                }
                return call.one(Ok(output));
            }
        }
    };
    let (min, max) = (min.unwrap_or(Number::Float(f64::NEG_INFINITY)), max.unwrap_or(Number::Float(f64::INFINITY)));
    // Where the bounds cross, the upper one wins.
    let min = if min.to_f64() > max.to_f64() { max } else { min };
    let output = call.emit(E::Clamp { min, max }, &[x]);
    call.one(output)
}

/// The powers of ONNX have the type of the base, whatever that of the exponent.
fn pow(call: &mut Call) -> Outcome {
    let (base, exponent) = (call.input(0)?, call.input(1)?);
    let dtype = call.dtype(base);
    let exponent = call.cast(exponent, dtype)?;
    let output = call.emit(E::Pow, &[base, exponent]);
    call.one(output)
}

/// The type of `to`; truth values are not just any `uint8`.
fn cast(call: &mut Call) -> Outcome {
    let to = call.type_attribute("to")?.ok_or("to is missing")?;
    let dtype = to.webnn().ok_or_else(|| Refusal(format!("to is {to}, which WebNN does not have")))?;
    cast_to(call, dtype, to == ElementType::Bool)
}

/// The type of the second operand. Truth values are `uint8` here, so that a cast to them cannot be told from one to
/// integers.
fn cast_like(call: &mut Call) -> Outcome {
    let dtype = call.input_type(1).ok_or("input 1 is of a type that WebNN does not have")?;
    cast_to(call, dtype, false)
}

/// Floats lose their fraction on the way to an integer, and everything but 0 is true.
fn cast_to(call: &mut Call, to: DataType, to_bool: bool) -> Outcome {
    if let Some(literal) = call.input_literal(0) {
        let numbers = literal.numbers().map_err(Refusal)?;
        let truth = |number: Number| Number::Int((number.to_f64() != 0.0) as i128);
        let cast = |number: Number| match number {
            Number::Float(x) if !to.is_float() => Number::Float(x.trunc()),
            other => other,
        };
        let numbers: Vec<_> =
            numbers.into_iter().map(|number| if to_bool { truth(number) } else { cast(number) }).collect();
        let output = call.constant(to, &literal.shape, &numbers);
        return call.one(output);
    }
    let x = call.input(0)?;
    let from = call.dtype(x);
    let output = if to_bool {
        let zero = call.scalar_like(x, 0.0)?;
        call.emit(E::NotEqual, &[x, zero])
    } else if from.is_float() && !to.is_float() {
        let magnitude = call.emit(E::Abs, &[x])?;
        let whole = call.emit(E::Floor, &[magnitude])?;
        let sign = call.emit(E::Sign, &[x])?;
        let truncated = call.mul(whole, sign)?;
        call.cast(truncated, to)
    } else {
        call.cast(x, to)
    };
    call.one(output)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Abs", "", |call| unary(call, E::Abs)),
    standard("Add", "", |call| binary(call, E::Add)),
    standard("Cast", "no rounding modes of float8", cast),
    standard("CastLike", "", cast_like),
    standard("Ceil", "", |call| unary(call, E::Ceil)),
    standard("Clip", "", clip),
    standard("Cos", "", |call| unary(call, E::Cos)),
    standard("Div", "", |call| binary(call, E::Div)),
    standard("Erf", "", |call| unary(call, E::Erf)),
    standard("Exp", "", |call| unary(call, E::Exp)),
    standard("Floor", "", |call| unary(call, E::Floor)),
    standard("Identity", "", |call| Ok(vec![call.required(0)?])),
    standard("Log", "", |call| unary(call, E::Log)),
    standard("Max", "", |call| {
        let output = variadic(call, E::Max);
        call.one(output)
    }),
    standard("Mean", "", mean),
    standard("Min", "", |call| {
        let output = variadic(call, E::Min);
        call.one(output)
    }),
    standard("Mul", "", |call| binary(call, E::Mul)),
    standard("Neg", "", |call| unary(call, E::Neg)),
    standard("Pow", "", pow),
    standard("Reciprocal", "", |call| unary(call, E::Reciprocal)),
    standard("Relu", "", |call| unary(call, E::Relu)),
    standard("Sigmoid", "", |call| unary(call, E::Sigmoid)),
    standard("Sqrt", "", |call| unary(call, E::Sqrt)),
    standard("Sub", "", |call| binary(call, E::Sub)),
    standard("Sum", "", |call| {
        let output = variadic(call, E::Add);
        call.one(output)
    }),
    standard("Tanh", "", |call| unary(call, E::Tanh)),
];
