//! `scatterElements()` and `scatterND()`: replace elements of a tensor, at places that another tensor gives.
//!
//! Indices are clamped as in [`gather`](super::gather). If two updates have the same place, the last one wins.

use super::attributes::Attributes;
use super::gather::{check_axis, check_indices_along, clamp_coordinates, clamp_index, picked_shape};
use super::rule::*;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::Descriptor;
use std::collections::HashMap;

crate::attributes! {
    /// `scatterElements()` with `MLScatterOptions`.
    pub struct ScatterElements {
        /// The dimension of the input to index.
        axis "axis": u32 = 0,
    }
}

/// `scatterND()`: the last dimension of the indices holds coordinates into the leading dimensions of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScatterNd;

/// # Errors
/// If the updates have another shape.
pub(super) fn check_updates(updates: &Descriptor, expected: Vec<Dim>) -> Result<(), Problem> {
    match updates.shape == expected {
        true => Ok(()),
        false => Err(Problem::Shape { operand: "updates", got: updates.shape.clone(), expected }),
    }
}

/// `input` after each of `updates`, in row-major order, at the place that `place` returns for its index: `combine`
/// returns what becomes of an element and its update.
pub(super) fn scatter(
    input: &Tensor,
    updates: &Tensor,
    place: impl Fn(&[usize]) -> Vec<usize>,
    combine: impl Fn(Number, Number) -> Number,
) -> Tensor {
    let mut changed: HashMap<Vec<usize>, Number> = HashMap::new();
    // `from_fn` visits the elements in row-major order.
    Tensor::from_fn(&updates.descriptor(), |index| {
        let (place, update) = (place(index), updates.at(index));
        let element = changed.get(&place).copied().unwrap_or_else(|| input.at(&place));
        changed.insert(place, combine(element, update));
        update
    });
    Tensor::from_fn(&input.descriptor(), |index| changed.get(index).copied().unwrap_or_else(|| input.at(index)))
}

/// The last update of an element replaces it.
fn replaced(input: &Tensor, updates: &Tensor, place: impl Fn(&[usize]) -> Vec<usize>) -> Tensor {
    scatter(input, updates, place, |_, update| update)
}

pub(super) const INPUT: OperandRule = operand("input", ANY, FROM_1D);
pub(super) const INDEX: OperandRule = operand("indices", INDICES, FROM_1D);
pub(super) const SAME: Types = Types::SameAs("input");
pub(super) const OUTPUT: OutputRule = output("output", SAME, FROM_1D);

impl NamedOperator for ScatterElements {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "scatterElements",
        operands: &[INPUT, INDEX, operand("updates", SAME, FROM_1D)],
        outputs: &[OUTPUT],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<ScatterElements, Problem> {
        ScatterElements::read(attributes)
    }
}

impl Operator for ScatterElements {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        ScatterElements::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let (input, indices) = (required(inputs, 0), required(inputs, 1));
        check_indices_along(check_axis(self.axis, input)?, input, indices)?;
        check_updates(required(inputs, 2), indices.shape.clone())?;
        Ok(vec![input.clone()])
    }

    fn reference(&self, inputs: &Tensors, _outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, indices) = (required(inputs, 0), required(inputs, 1));
        let axis = self.axis as usize;
        let place = |index: &[usize]| {
            let mut place = index.to_vec();
            place[axis] = clamp_index(indices.at(index), input.shape()[axis]);
            place
        };
        vec![replaced(input, required(inputs, 2), place)]
    }
}

impl NamedOperator for ScatterNd {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "scatterND",
        operands: &[INPUT, INDEX, operand("updates", SAME, ANY_RANK)],
        outputs: &[OUTPUT],
    }];

    fn read(_name: &str, _attributes: &mut Attributes) -> Result<ScatterNd, Problem> {
        Ok(ScatterNd)
    }
}

impl Operator for ScatterNd {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, _attributes: &mut Attributes) {}

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        check_updates(required(inputs, 2), picked_shape(input, required(inputs, 1))?)?;
        Ok(vec![input.clone()])
    }

    fn reference(&self, inputs: &Tensors, _outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, indices) = (required(inputs, 0), required(inputs, 1));
        let place = |index: &[usize]| {
            let (batch, inner) = index.split_at(indices.shape().len() - 1);
            let mut place = clamp_coordinates(indices, batch, input.shape());
            place.extend(inner);
            place
        };
        vec![replaced(input, required(inputs, 2), place)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType;
    use crate::ops::Op;

    fn infer(op: impl Into<Op>, shapes: [&[u32]; 3]) -> Result<Vec<u32>, String> {
        let [input, indices, updates] = shapes;
        let input = Descriptor::new(DataType::Float32, input);
        let indices = Descriptor::new(DataType::Uint32, indices);
        let updates = Descriptor::new(DataType::Float32, updates);
        let inputs = [Some(&input), Some(&indices), Some(&updates)];
        let outputs = op.into().resolve(&inputs).map_err(|problem| problem.to_string())?;
        Ok(outputs[0].sizes().to_vec())
    }

    #[test]
    fn scattered_elements() {
        let scatter = |axis, shapes| infer(ScatterElements { axis }, shapes);
        assert_eq!(scatter(0, [&[3, 4], &[9, 4], &[9, 4]]), Ok(vec![3, 4]));
        for (axis, shapes, message) in [
            (2, [&[3, 4][..], &[3, 4], &[3, 4]], "axis is 2, expected below the rank 2 of input"),
            (0, [&[3, 4], &[2, 3], &[2, 3]], "indices has shape [2, 3], expected [2, 4]"),
            (0, [&[3, 4], &[4], &[4]], "indices has rank 1, expected 2"),
            (0, [&[3, 4], &[2, 4], &[1, 4]], "updates has shape [1, 4], expected [2, 4]"),
            (0, [&[3, 4], &[2, 4], &[8]], "updates has shape [8], expected [2, 4]"),
        ] {
            assert_eq!(scatter(axis, shapes), Err(message.to_string()));
        }
    }

    #[test]
    fn scattered_by_coordinates() {
        let scatter = |shapes| infer(ScatterNd, shapes);
        assert_eq!(scatter([&[3, 4, 5], &[7, 2], &[7, 5]]), Ok(vec![3, 4, 5]));
        assert_eq!(scatter([&[3], &[1], &[]]), Ok(vec![3]));
        assert_eq!(
            scatter([&[3, 4, 5], &[7, 2], &[7, 4]]),
            Err("updates has shape [7, 4], expected [7, 5]".to_string())
        );
        assert_eq!(
            scatter([&[3], &[7, 2], &[7]]),
            Err("last dimension of indices is 2, expected at most 1, the rank of input".to_string())
        );
    }

    #[test]
    fn updates_have_the_type_of_the_input() {
        let input = Descriptor::new(DataType::Float32, [3]);
        let indices = Descriptor::new(DataType::Int64, [1, 1]);
        let updates = Descriptor::new(DataType::Float16, [1]);
        let problem = Op::from(ScatterNd).resolve(&[Some(&input), Some(&indices), Some(&updates)]).unwrap_err();
        assert_eq!(problem.to_string(), "updates has data type float16, expected float32");
    }
}
