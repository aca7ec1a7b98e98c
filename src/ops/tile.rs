//! `tile()`: repeats a tensor along its dimensions.

use super::attributes::Attributes;
use super::rule::*;
use super::strided::Strided;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, permuted, required};
use crate::dimension::Dim;
use crate::error::Problem;
use crate::shape::{Descriptor, is_dimension, is_too_small, strides};

crate::attributes! {
    /// `tile()`.
    pub struct Tile {
        /// Number of repetitions per dimension.
        repetitions "repetitions": Vec<Dim> = Vec::new(),
    }
}

impl Tile {
    /// Where the output's elements are in an input of shape `input`. Every dimension of the output is split into two:
    /// the repetitions, and the dimension of the input.
    pub fn strided(&self, input: &[u32]) -> Strided {
        let dimensions = self.repetitions.iter().zip(input).flat_map(|(repetitions, &size)| [repetitions.get(), size]);
        let strides = strides(input).into_iter().flat_map(|stride| [0, stride as isize]);
        Strided { shape: dimensions.collect(), strides: strides.collect(), offset: 0 }
    }
}

impl NamedOperator for Tile {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "tile",
        operands: &[operand("input", ANY, ANY_RANK)],
        outputs: &[output("output", Types::SameAs("input"), ANY_RANK)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Tile, Problem> {
        Tile::read(attributes)
    }
}

impl Operator for Tile {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Tile::write(self, attributes);
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        Some(Tile { repetitions: permuted(axes, &self.repetitions) })
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        self.repetitions.iter_mut().for_each(visit);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        if self.repetitions.len() != input.rank() {
            let expected = format!("as many numbers as the rank of input, {}", input.rank());
            return Err(Problem::attribute("repetitions", &self.repetitions, expected));
        }
        if self.repetitions.iter().copied().any(is_too_small) {
            return Err(Problem::attribute("repetitions", &self.repetitions, "numbers greater than 0"));
        }
        let repeated = input.shape.iter().zip(&self.repetitions).map(|(&size, &repetitions)| {
            let repeated = size * repetitions;
            match is_dimension(repeated) {
                true => Ok(repeated),
                false => Err(Problem::attribute("repeated size", repeated, format!("at most {}", i32::MAX))),
            }
        });
        Ok(vec![Descriptor::new(input.dtype, repeated.collect::<Result<Vec<_>, _>>()?)])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let input = required(inputs, 0);
        let output = Tensor::from_fn(&outputs[0], |index| {
            input.at(&index.iter().zip(input.shape()).map(|(i, size)| i % size).collect::<Vec<_>>())
        });
        vec![output]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimension::dims;
    use crate::dtype::DataType;

    #[test]
    fn shapes() {
        let infer = |repetitions: &[u32], input: &[u32]| {
            let input = Descriptor::new(DataType::Float32, input);
            let tile = Tile { repetitions: dims(repetitions) };
            let outputs = tile.infer(&[Some(&input)]).map_err(|problem| problem.to_string())?;
            Ok::<_, String>(outputs[0].sizes().to_vec())
        };
        assert_eq!(infer(&[2, 1, 3], &[1, 4, 2]), Ok(vec![2, 4, 6]));
        assert_eq!(infer(&[], &[]), Ok(vec![]));
        for (repetitions, message) in [
            (&[2][..], "repetitions is [2], expected as many numbers as the rank of input, 2"),
            (&[2, 0], "repetitions is [2, 0], expected numbers greater than 0"),
            (&[1, u32::MAX], "repeated size is 12884901885, expected at most 2147483647"),
        ] {
            assert_eq!(infer(repetitions, &[2, 3]), Err(message.to_string()));
        }
    }
}
