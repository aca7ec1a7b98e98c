//! Operators without a counterpart in the standard.

use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::onnx::call::{Call, check_generated};
use crate::onnx::error::Refusal;
use crate::onnx::registry::{Entry, Outcome, microsoft};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::reduce::ReduceKind;

/// The distances between the rows of two matrices: `|a - b|^2 = |a|^2 - 2 a b + |b|^2`.
fn distances(call: &mut Call) -> Outcome {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let [[_, columns], [_, others]] = [call.dims(a, "A")?, call.dims(b, "B")?];
    if columns != others {
        return Err(Refusal(format!("A has {columns} columns, B has {others}, expected the same number")));
    }
    let is_root = match call.text_or("metric", "sqeuclidean").as_str() {
        "sqeuclidean" => false,
        "euclidean" => true,
        other => return Err(Refusal(format!("metric is {other}, expected sqeuclidean or euclidean"))),
    };
    let length = |call: &mut Call, x| call.reduce(ReduceKind::SumSquare, x, &[1], true);
    let (of_a, of_b) = (length(call, a)?, length(call, b)?);
    let (b, of_b) = (call.transpose_last(b)?, call.transpose_last(of_b)?);
    let product = call.matmul(a, b)?;
    let product = call.linear(product, -2.0, 0.0)?;
    let sum = call.add(product, of_a)?;
    let sum = call.add(sum, of_b)?;
    // Equal rows may differ by a rounding error, of either sign.
    let square = call.emit(E::Clamp { min: Number::Float(0.0), max: Number::Float(f64::INFINITY) }, &[sum])?;
    let distance = if is_root { call.emit(E::Sqrt, &[square]) } else { Ok(square) };
    call.one(distance)
}

/// All windows along a dimension, whose elements become the last one.
fn unfold_tensor(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let rank = call.rank(x);
    let axis = call.axis(call.int_or("dim", -1), rank)? as usize;
    let length = call.shape(x)[axis];
    let (size, step) = (call.int_attribute("size").ok_or("size is missing")?, call.int_or("step", 1));
    if size < 1 || length < Dim::number(size) {
        return Err(Refusal(format!("size is {size}, expected 1 to {length}, the size of the dimension")));
    }
    if step < 1 {
        return Err(Refusal(format!("step is {step}, expected a positive number")));
    }
    let windows = (i64::from(length.get()) - size) / step + 1;
    check_generated(windows as u64 * size as u64)?;
    let places = (0..windows).flat_map(|window| (0..size).map(move |at| window * step + at));
    let places = call.constant(DataType::Int64, &[windows as u32, size as u32], places)?;
    let picked = call.gather(x, places, axis as u32)?;
    let last = axis as u32 + 1;
    let permutation: Vec<u32> = (0..last).chain(last + 1..=rank as u32).chain([last]).collect();
    let output = call.transpose(picked, &permutation);
    call.one(output)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[microsoft("CDist", "", distances), microsoft("UnfoldTensor", "", unfold_tensor)];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

    #[test]
    fn distances_are_products() {
        let graph = |columns: &str, metric| {
            let graph = TestGraph::default().input("a", Float, &["5", "7"]).input("b", Float, &["3", columns]);
            graph.node("com.microsoft.CDist", "a b", "y", vec![("metric", Attr::Text(metric))]).output("y")
        };
        let text = graph("7", "euclidean").text(17);
        assert!(text.contains("= matmul ") && text.contains("= clamp ") && text.contains("= sqrt "), "{text}");
        assert_eq!(graph("7", "sqeuclidean").output_shape(17), [5, 3]);
        assert!(graph("8", "euclidean").refusal(17).contains("A has 7 columns, B has 8"));
        assert!(graph("7", "cosine").refusal(17).contains("metric is cosine, expected sqeuclidean or euclidean"));
    }

    #[test]
    fn windows_lie_within_the_dimension() {
        let graph = |dim, size, step| {
            let attributes = [("dim", dim), ("size", size), ("step", step)];
            let attributes = attributes.map(|(name, value)| (name, Attr::Int(value))).into();
            let graph = TestGraph::default().input("x", Float, &["2", "9", "3"]);
            graph.node("com.microsoft.UnfoldTensor", "x", "y", attributes).output("y")
        };
        assert_eq!(graph(1, 4, 2).output_shape(17), [2, 3, 3, 4]);
        assert_eq!(graph(-1, 2, 1).output_shape(17), [2, 9, 2, 2]);
        let message = graph(1, 10, 1).refusal(17);
        assert!(message.contains("size is 10, expected 1 to 9, the size of the dimension"), "{message}");
        assert!(graph(1, 2, 0).refusal(17).contains("step is 0, expected a positive number"));
    }
}
