//! `reverse()`: reverses the elements along some dimensions.

use super::attributes::Attributes;
use super::reduce::reduced_axes;
use super::rule::*;
use super::strided::Strided;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, place_of, required};
use crate::error::Problem;
use crate::shape::Descriptor;

crate::attributes! {
    /// `reverse()` with `MLReverseOptions`.
    pub struct Reverse {
        /// The dimensions to reverse; by default all.
        axes "axes": Option<Vec<u32>> = None,
    }
}

impl Reverse {
    /// For each dimension whether it is reversed.
    fn reversed(&self, rank: usize) -> Result<Vec<bool>, Problem> {
        reduced_axes(rank, self.axes.as_deref())
    }

    /// Where the output's elements are in an input of shape `input`.
    pub fn strided(&self, input: &[u32]) -> Strided {
        let mut view = Strided::row_major(input);
        let reversed = self.reversed(input.len()).expect("inferred");
        for (axis, _) in reversed.into_iter().enumerate().filter(|(_, reversed)| *reversed) {
            view.offset += (input[axis] as usize - 1) * view.strides[axis] as usize;
            view.strides[axis] = -view.strides[axis];
        }
        view
    }
}

impl NamedOperator for Reverse {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "reverse",
        operands: &[operand("input", ANY, ANY_RANK)],
        outputs: &[output("output", Types::SameAs("input"), ANY_RANK)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Reverse, Problem> {
        Reverse::read(attributes)
    }
}

impl Operator for Reverse {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Reverse::write(self, attributes);
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        let places = |own: &Vec<u32>| own.iter().map(|&axis| place_of(axes, axis)).collect();
        Some(Reverse { axes: self.axes.as_ref().map(places) })
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        self.reversed(input.rank())?;
        Ok(vec![input.clone()])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let input = required(inputs, 0);
        let reversed = self.reversed(outputs[0].rank()).expect("inferred");
        let output = Tensor::from_fn(&outputs[0], |index| {
            let place = |(axis, &i): (usize, &usize)| if reversed[axis] { input.shape()[axis] - 1 - i } else { i };
            input.at(&index.iter().enumerate().map(place).collect::<Vec<_>>())
        });
        vec![output]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType;

    #[test]
    fn axes_are_checked() {
        let input = Descriptor::new(DataType::Float32, [2, 3]);
        let infer = |axes: Option<&[u32]>| {
            let reverse = Reverse { axes: axes.map(<[u32]>::to_vec) };
            reverse.infer(&[Some(&input)]).map_err(|problem| problem.to_string())
        };
        for good in [None, Some(&[][..]), Some(&[1, 0])] {
            assert_eq!(infer(good), Ok(vec![input.clone()]));
        }
        for bad in [&[2][..], &[1, 1], &[u32::MAX]] {
            assert_eq!(infer(Some(bad)), Err(format!("axes is {bad:?}, expected different axes below the rank 2")));
        }
    }

    #[test]
    fn views() {
        let view = Reverse { axes: Some(vec![1]) }.strided(&[2, 3]);
        assert_eq!(view, Strided { shape: vec![2, 3], strides: vec![3, -1], offset: 2 });
    }
}
