//! Matrix products.

use crate::dimension::Dim;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::matmul::{Gemm, GemmAttributes};
use crate::ops::reduce::ReduceKind;

/// Applies the matrix product `f` to operands that may be vectors: the first becomes a row, the second a column; the
/// output lacks that dimension.
///
/// # Errors
/// If an operand is a scalar, or `f` fails.
pub fn with_matrices(
    call: &mut Call,
    [a, b]: [OperandId; 2],
    f: impl FnOnce(&mut Call, OperandId, OperandId) -> Step<OperandId>,
) -> Step<OperandId> {
    let (a_shape, b_shape) = (call.shape(a), call.shape(b));
    if a_shape.is_empty() || b_shape.is_empty() {
        return Err(Refusal(format!("the operands have shapes {a_shape:?} and {b_shape:?}, expected no scalars")));
    }
    let row = if a_shape.len() == 1 { call.reshape(a, &[Dim::number(1), a_shape[0]])? } else { a };
    let column = if b_shape.len() == 1 { call.reshape(b, &[b_shape[0], Dim::number(1)])? } else { b };
    let product = f(call, row, column)?;
    let mut shape = call.shape(product);
    if a_shape.len() == 1 {
        shape.remove(shape.len() - 2);
    }
    if b_shape.len() == 1 {
        shape.pop();
    }
    call.reshape(product, &shape)
}

/// The product of `numpy.matmul`, also for integers.
///
/// # Errors
/// If types or shapes do not match.
pub fn matmul(call: &mut Call, a: OperandId, b: OperandId) -> Step<OperandId> {
    with_matrices(call, [a, b], |call, a, b| match call.dtype(a).is_float() {
        true => call.matmul(a, b),
        false => integer_product(call, a, b),
    })
}

/// The matrix product of 32-bit or 64-bit integers. WebNN's is for floats only: multiplies the elements one by one
/// instead.
fn integer_product(call: &mut Call, a: OperandId, b: OperandId) -> Step<OperandId> {
    let (a_shape, b_shape) = (call.shape(a), call.shape(b));
    let one = &[Dim::number(1)][..];
    let a = call.reshape(a, &[&a_shape, one].concat())?;
    let (batch, matrix) = b_shape.split_at(b_shape.len() - 2);
    let b = call.reshape(b, &[batch, one, matrix].concat())?;
    let products = call.mul(a, b)?;
    let inner = call.rank(products) as u32 - 2;
    call.reduce(ReduceKind::Sum, products, &[inner], false)
}

/// `alpha * a * b + beta * c` for matrices `a` and `b`, transposed according to `attributes`.
///
/// # Errors
/// If types or shapes do not match.
pub fn gemm(call: &mut Call) -> Step<OperandId> {
    let (a, b, c) = (call.input(0)?, call.input(1)?, call.optional(2)?);
    let attributes = GemmAttributes {
        alpha: call.float_or("alpha", 1.0),
        beta: call.float_or("beta", 1.0),
        a_transpose: call.int_or("transA", 0) != 0,
        b_transpose: call.int_or("transB", 0) != 0,
        rounds_rows: false,
    };
    if !call.dtype(a).is_float() {
        return integer_gemm(call, [a, b], c, &attributes);
    }
    // A factor of 0 removes the addend, whatever its value.
    let c = c.filter(|_| attributes.beta != 0.0);
    Ok(call.emit_all(Gemm { attributes }, vec![Some(a), Some(b), c])?[0])
}

fn translate_gemm(call: &mut Call) -> Outcome {
    let y = match empty_gemm(call)? {
        Some(shape) => addend(call, &shape),
        None => gemm(call),
    };
    call.one(y)
}

/// The shape of the result, if it is a sum over nothing.
fn empty_gemm(call: &Call) -> Step<Option<[Dim; 2]>> {
    let size = |index: usize, transposed: &str| -> Step<Option<[Dim; 2]>> {
        let shape = <[Dim; 2]>::try_from(call.input_shape(index)?).ok();
        let is_empty = matches!(call.value(index), Some(Value::Empty(_)));
        let turned = call.int_or(transposed, 0) != 0;
        Ok(shape.filter(|_| is_empty).map(|[rows, columns]| if turned { [columns, rows] } else { [rows, columns] }))
    };
    Ok(match (size(0, "transA")?, size(1, "transB")?) {
        (Some([rows, inner]), Some([also, columns])) => {
            let is_sum = inner == 0 && also == 0 && rows != 0 && columns != 0;
            is_sum.then_some([rows, columns])
        }
        _ => None,
    })
}

/// `beta * c` as a matrix of this shape; 0 without `c`.
fn addend(call: &mut Call, shape: &[Dim; 2]) -> Step<OperandId> {
    let beta = call.float_or("beta", 1.0);
    let c = match call.optional(2)?.filter(|_| beta != 0.0) {
        Some(c) => call.linear(c, beta, 0.0)?,
        None => {
            let dtype = call.input_type(0).ok_or("input 0 is of a type that WebNN does not have")?;
            call.int_scalar(dtype, 0)?
        }
    };
    call.expand(c, shape)
}

fn integer_gemm(
    call: &mut Call,
    [a, b]: [OperandId; 2],
    c: Option<OperandId>,
    attributes: &GemmAttributes,
) -> Step<OperandId> {
    let GemmAttributes { alpha, beta, a_transpose, b_transpose, .. } = *attributes;
    if alpha != 1.0 || (c.is_some() && beta != 1.0) {
        return Err("alpha or beta is not 1, which is not supported for integers".into());
    }
    let a = if a_transpose { call.transpose_last(a)? } else { a };
    let b = if b_transpose { call.transpose_last(b)? } else { b };
    let product = matmul(call, a, b)?;
    let Some(c) = c else { return Ok(product) };
    call.add(product, c)
}

fn translate_matmul(call: &mut Call) -> Outcome {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let y = matmul(call, a, b);
    call.one(y)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Gemm", "alpha and beta of integers must be 1", translate_gemm),
    standard("MatMul", "", translate_matmul),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

    #[test]
    fn vectors_are_rows_and_columns() {
        let graph = TestGraph::default().input("a", Float, &["5"]).input("b", Float, &["3", "5", "4"]);
        let text = graph.node("MatMul", "a b", "y", vec![]).output("y").text(17);
        assert!(text.contains("newShape=[1, 5]") && text.contains("newShape=[3, 4]"), "{text}");
    }

    #[test]
    fn factors_of_integers_are_refused() {
        let graph = TestGraph::default().input("a", Int32, &["2", "3"]).input("b", Int32, &["3", "2"]);
        let message = graph.node("Gemm", "a b", "y", vec![("alpha", Attr::Float(0.5))]).output("y").refusal(17);
        assert!(message.contains("alpha or beta is not 1"), "{message}");
    }
}
