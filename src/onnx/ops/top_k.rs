//! `TopK`: the largest or smallest elements along a dimension, one after the other.

use super::generate::places;
use super::reduce::arg_operand;
use crate::dtype::{DataType, Number};
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::gather::GatherElements;
use crate::shape::Descriptor;

/// The largest `K`: each element needs operators of its own.
const MAX_K: u32 = 1024;

/// What is searched: a tensor, and which of its elements are not found yet.
struct Search {
    x: OperandId,
    axis: u32,
    largest: bool,
    /// The place of every element along the axis.
    all: OperandId,
    /// What comes last in the order, in place of the elements that have been found.
    worst: OperandId,
    /// 1 where an element has not been found; `None` at the start.
    left: Option<OperandId>,
}

impl Search {
    /// The value and the place of the next element.
    fn next(&mut self, call: &mut Call) -> Step<[OperandId; 2]> {
        let Search { x, axis, largest, worst, .. } = *self;
        let Some(left) = self.left else {
            let place = arg_operand(call, x, largest, axis, true)?;
            self.left = Some(call.emit(E::NotEqual, &[self.all, place])?);
            return Ok([call.emit(GatherElements { axis }, &[x, place])?, place]);
        };
        let candidates = call.select(left, x, worst)?;
        let place = arg_operand(call, candidates, largest, axis, true)?;
        let value = call.emit(GatherElements { axis }, &[candidates, place])?;
        // Where only the worst value is left, it cannot be told from what has been found.
        let is_better = call.emit(E::NotEqual, &[value, worst])?;
        let first_left = arg_operand(call, left, true, axis, true)?;
        let place = call.select(is_better, place, first_left)?;
        let others = call.emit(E::NotEqual, &[self.all, place])?;
        self.left = Some(call.emit(E::LogicalAnd, &[left, others])?);
        Ok([value, place])
    }
}

/// `K` is an attribute before opset 10 and a constant from then on.
fn top_k(call: &mut Call) -> Outcome {
    let mut shape = call.input_sizes(0)?;
    let axis = call.axis(call.int_or("axis", -1), shape.len())?;
    let size = shape[axis as usize];
    let given = if call.opset < 10 { call.int_attribute("k").ok_or("k is missing")? } else { call.one_int(1, "K")? };
    let k = u32::try_from(given).ok().filter(|&k| k <= size.min(MAX_K));
    let k =
        k.ok_or_else(|| Refusal(format!("K is {given}, expected at most {} of {size} elements", size.min(MAX_K))))?;
    shape[axis as usize] = k;
    if shape.contains(&0) {
        let dtype = call.input_type(0).ok_or("the input is of a type that WebNN does not have")?;
        let empty = |dtype| Value::Empty(Descriptor::new(dtype, shape.clone()));
        return Ok(vec![empty(dtype), empty(DataType::Int64)]);
    }
    let x = call.input(0)?;
    let largest = call.int_or("largest", 1) != 0;
    let dtype = call.dtype(x);
    let worst = match (dtype.integer_range(), largest) {
        (Some((min, _)), true) => Number::Int(min),
        (Some((_, max)), false) => Number::Int(max),
        (None, true) => Number::Float(f64::NEG_INFINITY),
        (None, false) => Number::Float(f64::INFINITY),
    };
    let worst = call.scalar(dtype, worst)?;
    let all = places(call, DataType::Int64, size, axis as usize, shape.len())?;
    let mut search = Search { x, axis, largest, all, worst, left: None };
    let (mut values, mut found) = (Vec::new(), Vec::new());
    for _ in 0..k {
        let [value, place] = search.next(call)?;
        values.push(value);
        found.push(place);
    }
    let (values, found) = (call.concat(&values, axis)?, call.concat(&found, axis)?);
    Ok([values, found].map(Value::Operand).to_vec())
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[standard("TopK", "constant K of at most 1024", top_k)];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::{Attr, TestGraph};

    #[test]
    fn one_element_needs_one_search() {
        let graph = TestGraph::default().input("x", Float, &["2", "5"]).ints("k", &[1]);
        let text = graph.node("TopK", "x k", "values indices", vec![]).output("values").output("indices").text(11);
        assert_eq!(text.matches("argMax").count(), 1, "{text}");
    }

    #[test]
    fn k_is_at_most_the_size_of_the_dimension() {
        let graph = TestGraph::default().input("x", Float, &["2", "5"]);
        let refusal = graph.node("TopK", "x", "values indices", vec![("k", Attr::Int(6))]).output("values").refusal(9);
        assert!(refusal.contains("K is 6, expected at most 5 of 5 elements"), "{refusal}");
    }
}
