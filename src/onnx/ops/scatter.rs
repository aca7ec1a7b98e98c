//! Operators that replace elements, or combine them with others, by indices.

use super::generate::places;
use crate::dimension::{Dim, numbers};
use crate::dtype::{DataType, Number};
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::reduce::ReduceKind;
use crate::ops::scatter::{ScatterElements, ScatterNd};
use crate::shape::{Descriptor, strides};
use std::collections::HashMap;

/// Maximum number of updates of one element, or of updates at places that are not constant: each needs operators of its
/// own, which copy the data.
const MAX_ROUNDS: usize = 128;

/// The operator that combines an update with the existing element; `None` if the update replaces it.
fn reduction(call: &Call) -> Step<Option<E>> {
    Ok(match call.text_or("reduction", "none").as_str() {
        "none" => None,
        "add" => Some(E::Add),
        "mul" => Some(E::Mul),
        "max" => Some(E::Max),
        "min" => Some(E::Min),
        other => return Err(Refusal(format!("reduction is {other}, expected none, add, mul, max or min"))),
    })
}

/// Converts negative `indices`, which count from the end, given `sizes`, which broadcasts to them.
fn from_start(call: &mut Call, indices: OperandId, sizes: OperandId) -> Step<OperandId> {
    let zero = call.scalar_like(indices, 0.0)?;
    let is_below = call.emit(E::Lesser, &[indices, zero])?;
    let counted = call.add(indices, sizes)?;
    call.select(is_below, counted, indices)
}

/// The place in the flattened data of each element that `ScatterElements` updates.
fn flat_places(call: &mut Call, shape: &[u32], indices: OperandId, axis: usize) -> Step<OperandId> {
    let index_shape = call.sizes(indices);
    let strides = strides(shape);
    let indices = call.cast(indices, DataType::Int64)?;
    let size = call.int_scalar(DataType::Int64, shape[axis] as i64)?;
    let indices = from_start(call, indices, size)?;
    let stride = call.int_scalar(DataType::Int64, strides[axis] as i64)?;
    let along = call.mul(indices, stride)?;
    let own = crate::shape::strides(&index_shape);
    let count = crate::shape::elements(&index_shape);
    let other = (0..count).map(|at| {
        let place = |d: usize| at / own[d] % index_shape[d] as usize * strides[d];
        (0..shape.len()).filter(|&d| d != axis).map(place).sum::<usize>() as i64
    });
    let other = call.constant(DataType::Int64, &index_shape, other)?;
    let places = call.add(along, other)?;
    call.reshape(places, &[count as u32])
}

/// Combines the rows of `data` (`[rows, ...]`) at `places` (`[n]`) with those of `updates` (`[n, ...]`), one after
/// another.
fn combine(call: &mut Call, op: E, data: OperandId, places: OperandId, updates: OperandId) -> Step<OperandId> {
    let count = call.sizes(places)[0] as usize;
    let rounds = match call.numbers_of(places) {
        Some(places) => rounds_of(&places),
        None if count <= MAX_ROUNDS => (0..count as i64).map(|at| vec![at]).collect(),
        None => {
            return Err(Refusal(format!(
                "{count} updates at computed places, which may coincide, expected at most {MAX_ROUNDS}"
            )));
        }
    };
    if rounds.len() > MAX_ROUNDS {
        return Err(Refusal(format!(
            "an element is updated {} times, expected at most {MAX_ROUNDS} times",
            rounds.len()
        )));
    }
    let mut output = data;
    for round in rounds {
        let (places, updates) = if round.len() == count {
            (places, updates)
        } else {
            let chosen = call.constant(DataType::Int64, &[round.len() as u32], round)?;
            (call.gather(places, chosen, 0)?, call.gather(updates, chosen, 0)?)
        };
        let present = call.gather(output, places, 0)?;
        let combined = call.emit(op, &[present, updates])?;
        output = replace(call, output, places, combined)?;
    }
    Ok(output)
}

/// Replaces the rows of `data` at `places` by those of `updates`.
fn replace(call: &mut Call, data: OperandId, places: OperandId, updates: OperandId) -> Step<OperandId> {
    let count = call.shape(places)[0];
    let places = call.reshape(places, &[count, Dim::ONE])?;
    call.emit(ScatterNd, &[data, places, updates])
}

/// Divides the updates into rounds that do not repeat a place.
fn rounds_of(places: &[Number]) -> Vec<Vec<i64>> {
    let mut seen: HashMap<u64, usize> = HashMap::new();
    let mut rounds: Vec<Vec<i64>> = Vec::new();
    for (at, place) in places.iter().enumerate() {
        let times = seen.entry(place.to_f64().to_bits()).or_default();
        if *times == rounds.len() {
            rounds.push(Vec::new());
        }
        rounds[*times].push(at as i64);
        *times += 1;
    }
    rounds
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
    let op = reduction(call)?;
    if op.is_none() && sizes == shape {
        let output = call.emit(ScatterElements { axis }, &[data, indices, updates]);
        return call.one(output);
    }
    // The elements of the data that stay unchanged are listed one by one, which requires known sizes.
    let (shape, index_shape) = (numbers(&shape), numbers(&index_shape));
    let places = flat_places(call, &shape, indices, axis as usize)?;
    let flat = call.reshape(data, &[shape.iter().product::<u32>()])?;
    let updates = call.reshape(updates, &[index_shape.iter().product::<u32>()])?;
    let output = match op {
        Some(op) => combine(call, op, flat, places, updates)?,
        None => replace(call, flat, places, updates)?,
    };
    let output = call.reshape(output, &shape);
    call.one(output)
}

fn scatter_nd(call: &mut Call) -> Outcome {
    if let Some(data) = unchanged(call) {
        return Ok(vec![data]);
    }
    let (data, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let Some(op) = reduction(call)? else {
        let output = call.emit(ScatterNd, &[data, indices, updates]);
        return call.one(output);
    };
    let (shape, index_shape) = (call.shape(data), call.shape(indices));
    let depth = index_shape.last().map_or(0, |depth| depth.size());
    if depth == 0 || depth > shape.len() {
        return Err(Refusal(format!("indices have shape {index_shape:?}, which does not match {shape:?}")));
    }
    let (outer, inner) = shape.split_at(depth);
    let indices = call.cast(indices, DataType::Int64)?;
    let all = Descriptor::new(DataType::Int64, [depth as u32]);
    let sizes = call.dims_constant(&all, outer)?;
    let indices = from_start(call, indices, sizes)?;
    let row_strides: Vec<Dim> = (1..=depth).map(|behind| outer[behind..].iter().copied().product()).collect();
    let row_strides = call.dims_constant(&all, &row_strides)?;
    let weighted = call.mul(indices, row_strides)?;
    let places = call.reduce(ReduceKind::Sum, weighted, &[index_shape.len() as u32 - 1], false)?;
    let count = index_shape[..index_shape.len() - 1].iter().copied().product::<Dim>();
    let places = call.reshape(places, &[count])?;
    let rows = call.reshape(data, &[&[outer.iter().copied().product()], inner].concat())?;
    let updates = call.reshape(updates, &[&[count], inner].concat())?;
    let output = combine(call, op, rows, places, updates)?;
    let output = call.reshape(output, &shape);
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

const NOTES: &str = "indices out of bounds are clamped; with a reduction, constant indices or at most 128 updates";

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Scatter", "indices out of bounds are clamped", scatter_elements),
    standard("ScatterElements", NOTES, scatter_elements),
    standard("ScatterND", NOTES, scatter_nd),
    standard("TensorScatter", "", tensor_scatter),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::{Float, Int64};
    use crate::onnx::testing::{Attr, TestGraph};

    fn count(text: &str, what: &str) -> usize {
        text.matches(what).count()
    }

    #[test]
    fn updates_of_the_same_element_follow_each_other() {
        let scatter = |indices: &[i64]| {
            let graph = TestGraph::default().input("x", Float, &["5"]).ints("i", indices).input("u", Float, &["3"]);
            graph.node("ScatterElements", "x i u", "y", vec![("reduction", Attr::Text("add"))]).output("y").text(18)
        };
        assert_eq!(count(&scatter(&[0, 4, 2]), "scatterND"), 1);
        assert_eq!(count(&scatter(&[0, -5, 2]), "scatterND"), 2);
    }

    #[test]
    fn computed_places_may_coincide() {
        let scatter = |n: &str| {
            let graph = TestGraph::default().input("x", Float, &["5", "2"]).input("i", Int64, &[n, "1"]);
            let graph = graph.input("u", Float, &[n, "2"]);
            graph.node("ScatterND", "x i u", "y", vec![("reduction", Attr::Text("max"))]).output("y")
        };
        assert_eq!(count(&scatter("3").text(18), "scatterND"), 3);
        let refusal = scatter("200").refusal(18);
        assert!(refusal.contains("200 updates at computed places"), "{refusal}");
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
        assert!(scatter("3").contains("scatterND"));
    }
}
