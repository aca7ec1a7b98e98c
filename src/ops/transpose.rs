//! `transpose()`: permutes the dimensions of a tensor.

use super::attributes::Attributes;
use super::rows::{Along, Rows};
use super::rule::*;
use super::strided::Strided;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::dimension::Dim;
use crate::error::Problem;
use crate::shape::{Descriptor, strides};

crate::attributes! {
    /// `transpose()` with `MLTransposeOptions`.
    pub struct Transpose {
        /// For each dimension of the output, the corresponding one of the input; by default, these are in reverse
        /// order.
        permutation "permutation": Option<Vec<u32>> = None,
    }
}

impl Transpose {
    /// For each dimension of the output, the corresponding one of an input of `rank` dimensions.
    pub fn axes(&self, rank: usize) -> Vec<usize> {
        match &self.permutation {
            Some(permutation) => permutation.iter().map(|&axis| axis as usize).collect(),
            None => (0..rank).rev().collect(),
        }
    }

    /// Where the output's elements are in an input of shape `input`.
    pub fn strided(&self, input: &[u32]) -> Strided {
        let (axes, strides) = (self.axes(input.len()), strides(input));
        Strided {
            shape: axes.iter().map(|&axis| input[axis]).collect(),
            strides: axes.iter().map(|&axis| strides[axis] as isize).collect(),
            offset: 0,
        }
    }

    /// Whether the elements of an input of shape `input` keep their order: only dimensions of size 1 move.
    pub fn keeps_order(&self, input: &[Dim]) -> bool {
        let axes = self.axes(input.len());
        axes.is_sorted() || axes.into_iter().filter(|&axis| input[axis] != 1).is_sorted()
    }

    /// The input element where the output begins, if only dimensions of size 1 move.
    pub fn contiguous_offset(&self, input: &[u32]) -> Option<usize> {
        self.strided(input).contiguous_offset()
    }
}

impl NamedOperator for Transpose {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "transpose",
        operands: &[operand("input", ANY, ANY_RANK)],
        outputs: &[output("output", Types::SameAs("input"), ANY_RANK)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Transpose, Problem> {
        Transpose::read(attributes)
    }
}

impl Operator for Transpose {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Transpose::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        let rank = input.rank();
        if let Some(permutation) = &self.permutation {
            let mut sorted = permutation.clone();
            sorted.sort_unstable();
            if !sorted.into_iter().eq(0..rank as u32) {
                let expected = format!("each dimension of input, 0 to {rank} exclusive, once");
                return Err(Problem::attribute("permutation", permutation, expected));
            }
        }
        let shape: Vec<Dim> = self.axes(rank).into_iter().map(|axis| input.shape[axis]).collect();
        Ok(vec![Descriptor::new(input.dtype, shape)])
    }

    fn rows(&self, inputs: &Inputs, output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        let axis = self.axes(output.rank())[along.axis];
        Some(Rows::of_first(self.clone(), along.at(axis), inputs))
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let input = required(inputs, 0);
        let axes = self.axes(outputs[0].rank());
        let output = Tensor::from_fn(&outputs[0], |index| {
            let mut place = vec![0; index.len()];
            for (&axis, &i) in axes.iter().zip(index) {
                place[axis] = i;
            }
            input.at(&place)
        });
        vec![output]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType;

    #[test]
    fn shapes() {
        let infer = |permutation: Option<&[u32]>, input: &[u32]| {
            let input = Descriptor::new(DataType::Float32, input);
            let transpose = Transpose { permutation: permutation.map(<[u32]>::to_vec) };
            let outputs = transpose.infer(&[Some(&input)]).map_err(|problem| problem.to_string())?;
            Ok::<_, String>(outputs[0].sizes().to_vec())
        };
        assert_eq!(infer(None, &[2, 3, 4]), Ok(vec![4, 3, 2]));
        assert_eq!(infer(Some(&[1, 2, 0]), &[2, 3, 4]), Ok(vec![3, 4, 2]));
        assert_eq!(infer(None, &[]), Ok(vec![]));
        for bad in [&[0][..], &[0, 0], &[0, 2], &[0, 1, 2], &[u32::MAX, 0]] {
            assert_eq!(
                infer(Some(bad), &[2, 3]),
                Err(format!("permutation is {bad:?}, expected each dimension of input, 0 to 2 exclusive, once"))
            );
        }
    }

    #[test]
    fn moving_ones_moves_nothing() {
        let transpose = Transpose { permutation: Some(vec![1, 0, 3, 2]) };
        assert_eq!(transpose.contiguous_offset(&[1, 5, 1, 6]), Some(0));
        assert_eq!(transpose.contiguous_offset(&[2, 5, 1, 6]), None);
    }
}
