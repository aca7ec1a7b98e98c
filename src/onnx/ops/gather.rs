//! Operators that pick elements by indices.

use super::generate::places;
use crate::dimension::Dim;
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::call::Call;
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::gather::{GatherElements, GatherNd};
use crate::ops::slice::Slice;
use crate::shape::Descriptor;

const CLAMPED: &str = "indices out of bounds are clamped";

/// If the constant `indices` into a dimension of `size` are consecutive, the first of them.
fn neighbors(call: &Call, indices: OperandId, size: Dim) -> Option<Dim> {
    if !call.is_constant(indices) {
        return None;
    }
    let places = call.dims_of(indices)?;
    let (&first, &last) = (places.first()?, places.last()?);
    let follow = places.iter().zip(0u32..).all(|(&place, at)| place == first + at);
    let start = if first < 0 { first + size } else { first };
    (follow && (first >= 0 || last < 0) && start >= 0 && start + places.len() as u32 <= size).then_some(start)
}

fn gather(call: &mut Call) -> Outcome {
    let shape = call.input_shape(0)?;
    let axis = call.axis(call.int_or("axis", 0), shape.len())? as usize;
    let index_shape = call.input_shape(1)?;
    let picked = [&shape[..axis], &index_shape, &shape[axis + 1..]].concat();
    if picked.iter().any(|&dim| dim == 0) {
        let dtype = call.input_type(0).ok_or("the input is of a type that WebNN does not have")?;
        return Ok(vec![Value::Empty(Descriptor::new(dtype, picked))]);
    }
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let output = match neighbors(call, indices, shape[axis]) {
        // A slice costs nothing if it is contiguous in memory.
        Some(start) => {
            let count: Dim = index_shape.iter().copied().product();
            let part = call.slice_axis(x, axis, start, count)?;
            call.reshape(part, &picked)
        }
        None => call.gather(x, indices, axis as u32),
    };
    call.one(output)
}

/// Along the other dimensions, indices may be shorter than the data.
fn gather_elements(call: &mut Call) -> Outcome {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let (shape, index_shape) = (call.shape(x), call.shape(indices));
    let axis = call.axis(call.int_or("axis", 0), shape.len())?;
    let mut sizes = index_shape.clone();
    if sizes.len() == shape.len() {
        sizes[axis as usize] = shape[axis as usize];
    }
    let is_part = sizes.len() == shape.len() && sizes.iter().zip(&shape).all(|(size, whole)| size <= whole);
    if !is_part {
        return Err(Refusal(format!("the indices have shape {index_shape:?}, which does not match {shape:?}")));
    }
    let x = match sizes == shape {
        true => x,
        false => call.emit(Slice { starts: vec![Dim::ZERO; sizes.len()], sizes, strides: None }, &[x])?,
    };
    let output = call.emit(GatherElements { axis }, &[x, indices]);
    call.one(output)
}

/// The first `batch_dims` dimensions of data and indices correspond: they become a coordinate.
///
/// # Errors
/// If shapes do not match.
pub fn gather_nd(call: &mut Call) -> Outcome {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let (shape, index_shape) = (call.shape(x), call.shape(indices));
    let batch_dims = call.int_or("batch_dims", 0);
    let batch = usize::try_from(batch_dims).ok().filter(|&batch| batch < shape.len().min(index_shape.len()));
    let batch = batch.ok_or_else(|| {
        Refusal(format!("batch_dims is {batch_dims}, expected less than the ranks of {shape:?} and {index_shape:?}"))
    })?;
    if shape[..batch] != index_shape[..batch] {
        let message = format!(
            "{shape:?} and the shape of the indices, {index_shape:?}, differ in their first {}",
            amount(batch, "dimension")
        );
        return Err(Refusal(message));
    }
    if batch == 0 {
        let output = call.emit(GatherNd, &[x, indices]);
        return call.one(output);
    }
    let count: Dim = shape[..batch].iter().copied().product();
    let x = call.reshape(x, &[&[count], &shape[batch..]].concat())?;
    let merged = [&[count], &index_shape[batch..]].concat();
    let indices = call.reshape(indices, &merged)?;
    let rank = merged.len();
    let entries = places(call, call.dtype(indices), count, 0, rank)?;
    let mut entry_shape = merged;
    entry_shape[rank - 1] = Dim::ONE;
    let entries = call.expand(entries, &entry_shape)?;
    let coordinates = call.concat(&[entries, indices], rank as u32 - 1)?;
    let output = call.emit(GatherNd, &[x, coordinates])?;
    let picked = call.shape(output);
    let output = call.reshape(output, &[&shape[..batch], &picked[1..]].concat());
    call.one(output)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Gather", CLAMPED, gather),
    standard("GatherElements", CLAMPED, gather_elements),
    standard("GatherND", CLAMPED, gather_nd),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::{Float, Int64};
    use crate::onnx::testing::{Attr, TestGraph};

    #[test]
    fn neighbors_are_a_slice() {
        let gather = |indices: &[i64]| {
            let graph = TestGraph::default().input("x", Float, &["4", "5"]).ints("i", indices);
            graph.node("Gather", "x i", "y", vec![("axis", Attr::Int(1))]).output("y").text(13)
        };
        assert!(gather(&[1, 2, 3]).contains("slice %0 sizes=[4, 3] starts=[0, 1]"));
        assert!(gather(&[-1]).contains("slice %0 sizes=[4, 1] starts=[0, 4]"));
        assert!(gather(&[2, 1]).contains("gather"));
        assert!(gather(&[4, 5]).contains("gather"));
    }

    #[test]
    fn batches_become_a_coordinate() {
        let graph = TestGraph::default().input("x", Float, &["2", "3", "4"]).input("i", Int64, &["2", "1"]);
        let text = graph.node("GatherND", "x i", "y", vec![("batch_dims", Attr::Int(1))]).output("y").text(13);
        assert!(text.contains("concat %") && text.contains("gatherND %0"), "{text}");
    }
}
