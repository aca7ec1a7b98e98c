//! `scatterElementsReduced` and `scatterNDReduced`: combine elements with updates at places that another tensor gives.
//!
//! Indices are clamped as in [`gather`](crate::ops::gather). Updates of the same element are applied in their order.

use crate::dtype::{DataType, Number};
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::gather::{check_axis, clamp_coordinates, clamp_index, picked_shape};
use crate::ops::rule::*;
use crate::ops::scatter::{INDEX, INPUT, OUTPUT, SAME, check_updates, scatter};
use crate::ops::tensor::{Tensor, wrap};
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::shape::Descriptor;

crate::enumeration! {
    /// What an update does to an element.
    pub enum Reduction {
        /// It replaces the element.
        None = "none",
        /// It is added; sums of integers wrap around.
        Add = "add",
        /// The element is multiplied by it; products of integers wrap around.
        Mul = "mul",
        /// The smaller one stays, or NaN.
        Min = "min",
        /// The larger one stays, or NaN.
        Max = "max",
    }
}

crate::attributes! {
    /// `ScatterElements`: the indices may be shorter than the input along any dimension.
    pub struct ScatterElementsReduced {
        /// The dimension of the input to index.
        axis "axis": u32 = 0,
        /// What an update does.
        reduction "reduction": Reduction = Reduction::None,
    }
}

crate::attributes! {
    /// `ScatterND`: the last dimension of the indices holds coordinates into the leading dimensions of the input.
    pub struct ScatterNdReduced {
        /// What an update does.
        reduction "reduction": Reduction = Reduction::None,
    }
}

impl Reduction {
    /// An element of this type after an update.
    fn combine(self, dtype: DataType, element: Number, update: Number) -> Number {
        match (element, update) {
            (Number::Int(a), Number::Int(b)) => Number::Int(match self {
                Reduction::None => b,
                Reduction::Add => wrap(dtype, a + b),
                Reduction::Mul => wrap(dtype, a.wrapping_mul(b)),
                Reduction::Min => a.min(b),
                Reduction::Max => a.max(b),
            }),
            (a, b) => {
                let (a, b) = (a.to_f64(), b.to_f64());
                let first = |is_first: bool| if a.is_nan() || is_first { a } else { b };
                Number::Float(match self {
                    Reduction::None => b,
                    Reduction::Add => a + b,
                    Reduction::Mul => a * b,
                    Reduction::Min => first(a < b),
                    Reduction::Max => first(a > b),
                })
            }
        }
    }

    /// `input` after each of `updates` at the place that `place` returns for its index.
    fn scatter(self, input: &Tensor, updates: &Tensor, place: impl Fn(&[usize]) -> Vec<usize>) -> Tensor {
        scatter(input, updates, place, |element, update| self.combine(input.dtype, element, update))
    }
}

impl NamedOperator for ScatterElementsReduced {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "scatterElementsReduced",
        operands: &[INPUT, INDEX, operand("updates", SAME, FROM_1D)],
        outputs: &[OUTPUT],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<ScatterElementsReduced, Problem> {
        ScatterElementsReduced::read(attributes)
    }
}

impl Operator for ScatterElementsReduced {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        ScatterElementsReduced::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let (input, indices) = (required(inputs, 0), required(inputs, 1));
        let axis = check_axis(self.axis, input)?;
        if indices.rank() != input.rank() {
            let rank = input.rank();
            return Err(Problem::Rank { operand: "indices", got: indices.rank(), min: rank, max: rank });
        }
        let mut largest = input.shape.clone();
        largest[axis] = indices.shape[axis];
        if indices.shape.iter().zip(&largest).any(|(size, most)| size > most) {
            return Err(Problem::Shape { operand: "indices", got: indices.shape.clone(), expected: largest });
        }
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
        vec![self.reduction.scatter(input, required(inputs, 2), place)]
    }
}

impl NamedOperator for ScatterNdReduced {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "scatterNDReduced",
        operands: &[INPUT, INDEX, operand("updates", SAME, ANY_RANK)],
        outputs: &[OUTPUT],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<ScatterNdReduced, Problem> {
        ScatterNdReduced::read(attributes)
    }
}

impl Operator for ScatterNdReduced {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        ScatterNdReduced::write(self, attributes);
    }

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
        vec![self.reduction.scatter(input, required(inputs, 2), place)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Extension;

    #[test]
    fn indices_may_be_shorter_than_the_input_but_not_longer() {
        let infer = |axis, shapes: [&[u32]; 3]| {
            let [input, indices, updates] = shapes;
            let input = Descriptor::new(DataType::Float32, input);
            let indices = Descriptor::new(DataType::Int64, indices);
            let updates = Descriptor::new(DataType::Float32, updates);
            let mut op = Extension::from(ScatterElementsReduced { axis, reduction: Reduction::Add });
            let outputs = op.resolve(&[Some(&input), Some(&indices), Some(&updates)]);
            outputs.map(|outputs| outputs[0].sizes().to_vec()).map_err(|problem| problem.to_string())
        };
        assert_eq!(infer(0, [&[3, 4], &[9, 2], &[9, 2]]), Ok(vec![3, 4]));
        for (axis, shapes, message) in [
            (0, [&[3, 4][..], &[2, 5], &[2, 5]], "indices has shape [2, 5], expected [2, 4]"),
            (1, [&[3, 4], &[4, 4], &[4, 4]], "indices has shape [4, 4], expected [3, 4]"),
            (0, [&[3, 4], &[4], &[4]], "indices has rank 1, expected 2"),
            (0, [&[3, 4], &[2, 4], &[2, 3]], "updates has shape [2, 3], expected [2, 4]"),
        ] {
            assert_eq!(infer(axis, shapes), Err(message.to_string()));
        }
    }
}
