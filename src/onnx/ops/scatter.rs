//! Operators that replace elements, or combine them with others, by indices.

use super::generate::places;
use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::extension::scatter::{Reduction, ScatterElementsReduced, ScatterNdReduced};
use crate::ops::scatter::{ScatterElements, ScatterNd};

/// How updates are combined with elements.
fn reduction(call: &Call) -> Step<Reduction> {
    let name = call.text_or("reduction", "none");
    Reduction::from_name(&name)
        .ok_or_else(|| Refusal(format!("reduction is {name}, expected none, add, mul, max or min")))
}

/// The data, if there are no updates.
fn unchanged(call: &Call) -> Option<Value> {
    matches!(call.value(2), Some(Value::Empty(_))).then(|| call.value(0)).flatten()
}

/// Along the other dimensions, indices may be shorter than the data.
fn scatter_elements(call: &mut Call) -> Outcome {
    if let Some(data) = unchanged(call) {
        return Ok(vec![data]);
    }
    let (data, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (shape, index_shape) = (call.shape(data), call.shape(indices));
    let axis = call.axis(call.int_or("axis", 0), shape.len())?;
    let mut sizes = index_shape.clone();
    if sizes.len() == shape.len() {
        sizes[axis as usize] = shape[axis as usize];
    }
    let fits = sizes.len() == shape.len() && sizes.iter().zip(&shape).all(|(size, whole)| size <= whole);
    if !fits || call.shape(updates) != index_shape {
        let updates = call.shape(updates);
        let message = format!("indices {index_shape:?} and updates {updates:?} do not match data of shape {shape:?}");
        return Err(Refusal(message));
    }
    let output = match reduction(call)? {
        Reduction::None if sizes == shape => call.emit(ScatterElements { axis }, &[data, indices, updates]),
        reduction => call.emit(ScatterElementsReduced { axis, reduction }, &[data, indices, updates]),
    };
    call.one(output)
}

fn scatter_nd(call: &mut Call) -> Outcome {
    if let Some(data) = unchanged(call) {
        return Ok(vec![data]);
    }
    let operands = [call.input(0)?, call.input(1)?, call.input(2)?];
    let output = match reduction(call)? {
        Reduction::None => call.emit(ScatterNd, &operands),
        reduction => call.emit(ScatterNdReduced { reduction }, &operands),
    };
    call.one(output)
}

/// A cache with rows of an update inserted, from a place per batch entry on; if `circular`, rows beyond the last one
/// wrap to the front.
fn tensor_scatter(call: &mut Call) -> Outcome {
    let (cache, update) = (call.input(0)?, call.input(1)?);
    let (shape, update_shape) = (call.shape(cache), call.shape(update));
    let axis = call.axis(call.int_or("axis", -2), shape.len())?;
    let count = update_shape.get(axis as usize).copied().unwrap_or_default();
    let mut expected = shape.clone();
    expected[axis as usize] = count;
    if axis == 0 || update_shape != expected || count > shape[axis as usize] {
        return Err(Refusal(format!("an update {update_shape:?} does not match a cache {shape:?} along axis {axis}")));
    }
    let mut rows = places(call, DataType::Int64, count, axis as usize, shape.len())?;
    if let Some(first) = call.optional(2)? {
        let mut column = vec![Dim::ONE; shape.len()];
        column[0] = shape[0];
        let first = call.cast(first, DataType::Int64)?;
        let first = call.reshape(first, &column)?;
        rows = call.add(rows, first)?;
    }
    match call.text_or("mode", "linear").as_str() {
        "linear" => {}
        "circular" => {
            let size = call.dim_scalar(DataType::Int64, shape[axis as usize])?;
            let rounds = call.div(rows, size)?;
            let passed = call.mul(rounds, size)?;
            rows = call.sub(rows, passed)?;
        }
        other => return Err(Refusal(format!("mode is {other}, expected linear or circular"))),
    }
    let rows = call.expand(rows, &update_shape)?;
    let output = call.emit(ScatterElements { axis }, &[cache, rows, update]);
    call.one(output)
}

const NOTES: &str = "indices out of bounds are clamped";

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Scatter", NOTES, scatter_elements),
    standard("ScatterElements", NOTES, scatter_elements),
    standard("ScatterND", NOTES, scatter_nd),
    standard("TensorScatter", "", tensor_scatter),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::{Float, Int64};
    use crate::onnx::testing::{Attr, TestGraph};

    #[test]
    fn a_reduction_is_one_operator_for_any_number_of_updates() {
        let scatter = |operator: &str, n: &'static str, reduction: &'static str| {
            let graph = TestGraph::default().input("x", Float, &["5", "2"]).input("u", Float, &[n, "2"]);
            let graph = graph.input("i", Int64, &[n, if operator == "ScatterND" { "1" } else { "2" }]);
            graph.node(operator, "x i u", "y", vec![("reduction", Attr::Text(reduction))]).output("y")
        };
        for (operator, emitted) in [("ScatterND", "scatterNDReduced"), ("ScatterElements", "scatterElementsReduced")] {
            for n in ["3", "2000"] {
                let text = scatter(operator, n, "max").text(18);
                assert!(text.contains(&format!("%3 = {emitted} %0 %2 %1")), "{text}");
            }
            let refusal = scatter(operator, "3", "mean").refusal(18);
            assert!(refusal.contains("reduction is mean, expected none, add, mul, max or min"), "{refusal}");
        }
    }

    #[test]
    fn updates_of_a_cache_must_fit() {
        let scatter = |rows: &str, axis: i64| {
            let graph = TestGraph::default().input("x", Float, &["2", "4", "3"]).input("u", Float, &["2", rows, "3"]);
            let graph = graph.input("i", Int64, &["2"]);
            graph.node("TensorScatter", "x u i", "y", vec![("axis", Attr::Int(axis))]).output("y")
        };
        assert!(scatter("2", -2).text(24).contains("scatterElements %0"));
        for (rows, axis) in [("5", 1), ("2", 0), ("2", 2)] {
            let refusal = scatter(rows, axis).refusal(24);
            assert!(refusal.contains(&format!("an update [2, {rows}, 3] does not match")), "{refusal}");
        }
    }

    #[test]
    fn replacing_needs_one_operator_where_the_shapes_agree() {
        let scatter = |n: &str| {
            let graph = TestGraph::default().input("x", Float, &["3", "4"]).input("i", Int64, &["2", n]);
            let graph = graph.input("u", Float, &["2", n]);
            graph.node("ScatterElements", "x i u", "y", vec![]).output("y").text(13)
        };
        assert!(scatter("4").contains("%3 = scatterElements %0 %1 %2"));
        assert!(scatter("3").contains("%3 = scatterElementsReduced %0 %1 %2"));
    }
}
