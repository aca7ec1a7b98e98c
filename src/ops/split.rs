//! `split()`: divides a tensor along an axis.

use super::attributes::{Attribute, AttributeValue, Attributes};
use super::rule::*;
use super::strided::Strided;
use super::tensor::Tensor;
use super::{Inputs, MAX_TENSOR_COUNT, NamedOperator, Operator, Tensors, place_of, required};
use crate::dimension::Dim;
use crate::error::Problem;
use crate::shape::{Descriptor, is_too_small};

/// The number of the pieces, or their sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum Splits {
    /// This number of pieces of equal size.
    Count(u32),
    /// Pieces of these sizes.
    Sizes(Vec<Dim>),
}

impl AttributeValue for Splits {
    const EXPECTED: &'static str = "an unsigned 32-bit integer or a list of them";
    fn from_attribute(value: &Attribute) -> Option<Splits> {
        u32::from_attribute(value).map(Splits::Count).or_else(|| Vec::from_attribute(value).map(Splits::Sizes))
    }
    fn to_attribute(&self) -> Option<Attribute> {
        match self {
            Splits::Count(count) => count.to_attribute(),
            Splits::Sizes(sizes) => sizes.to_attribute(),
        }
    }
}

crate::attributes! {
    /// `split()`.
    pub struct Split {
        /// The pieces.
        splits "splits": Splits = Splits::Count(1),
        /// The dimension to divide.
        axis "axis": u32 = 0,
    }
}

impl Split {
    /// The sizes of the pieces of a dimension of `size`; inference has checked that they fit.
    pub fn sizes(&self, size: Dim) -> Vec<Dim> {
        match &self.splits {
            Splits::Count(count) => vec![size / *count; *count as usize],
            Splits::Sizes(sizes) => sizes.clone(),
        }
    }

    /// For each output, where its elements are in an input of shape `input`.
    pub fn strided(&self, input: &[u32]) -> Vec<Strided> {
        let axis = self.axis as usize;
        let (mut starts, mut shape) = (vec![0; input.len()], input.to_vec());
        let place = |size: Dim| {
            shape[axis] = size.get();
            let place = Strided::row_major(input).window(&starts, &shape);
            starts[axis] += shape[axis];
            place
        };
        self.sizes(input[axis].into()).into_iter().map(place).collect()
    }

    fn check(&self, size: Dim) -> Result<(), Problem> {
        let limits = format!("1 to {MAX_TENSOR_COUNT} outputs");
        match &self.splits {
            &Splits::Count(count) if count == 0 || count as usize > MAX_TENSOR_COUNT => {
                Err(Problem::attribute("splits", count, limits))
            }
            Splits::Count(count) if !size.is_multiple_of(*count) => {
                Err(Problem::attribute("splits", count, format!("a divisor of {size}, the size along axis")))
            }
            Splits::Count(_) => Ok(()),
            Splits::Sizes(sizes) if sizes.is_empty() || sizes.len() > MAX_TENSOR_COUNT => {
                Err(Problem::attribute("number of splits", sizes.len(), limits))
            }
            Splits::Sizes(sizes) => {
                match sizes.iter().copied().sum::<Dim>() == size && !sizes.iter().copied().any(is_too_small) {
                    true => Ok(()),
                    false => {
                        let expected = format!("positive sizes that add up to {size}, the size along axis");
                        Err(Problem::attribute("splits", sizes, expected))
                    }
                }
            }
        }
    }
}

impl NamedOperator for Split {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "split",
        operands: &[operand("input", ANY, FROM_1D)],
        outputs: &[output("outputs", Types::SameAs("input"), FROM_1D)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Split, Problem> {
        Split::read(attributes)
    }
}

impl Operator for Split {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Split::write(self, attributes);
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        Some(Split { axis: place_of(axes, self.axis), ..self.clone() })
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        if let Splits::Sizes(sizes) = &mut self.splits {
            sizes.iter_mut().for_each(visit);
        }
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        let axis = self.axis as usize;
        let Some(&size) = input.shape.get(axis) else {
            return Err(Problem::attribute("axis", axis, format!("below the rank {}", input.rank())));
        };
        self.check(size)?;
        let output = |size| {
            let mut output = input.clone();
            output.shape[axis] = size;
            output
        };
        Ok(self.sizes(size).into_iter().map(output).collect())
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let input = required(inputs, 0);
        let axis = self.axis as usize;
        let mut start = 0;
        let piece = |output: &Descriptor| {
            let tensor = Tensor::from_fn(output, |index| {
                let mut index = index.to_vec();
                index[axis] += start;
                input.at(&index)
            });
            start += output.sizes()[axis] as usize;
            tensor
        };
        outputs.iter().map(piece).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimension::dims;
    use crate::dtype::DataType;

    fn infer(splits: Splits, axis: u32, input: &[u32]) -> Result<Vec<Vec<u32>>, String> {
        let input = Descriptor::new(DataType::Float32, input);
        let outputs = Split { splits, axis }.infer(&[Some(&input)]).map_err(|problem| problem.to_string())?;
        Ok(outputs.into_iter().map(|output| output.sizes().to_vec()).collect())
    }

    #[test]
    fn shapes() {
        use Splits::{Count, Sizes};
        assert_eq!(infer(Count(2), 1, &[2, 6]), Ok(vec![vec![2, 3], vec![2, 3]]));
        assert_eq!(infer(Sizes(dims(&[1, 5])), 1, &[2, 6]), Ok(vec![vec![2, 1], vec![2, 5]]));
        for (splits, axis, message) in [
            (Count(2), 2, "axis is 2, expected below the rank 2"),
            (Count(0), 0, "splits is 0, expected 1 to 8192 outputs"),
            (Count(8193), 0, "splits is 8193, expected 1 to 8192 outputs"),
            (Count(4), 1, "splits is 4, expected a divisor of 6, the size along axis"),
            (Sizes(dims(&[])), 1, "number of splits is 0, expected 1 to 8192 outputs"),
            (
                Sizes(dims(&[6, 0])),
                1,
                "splits is [6, 0], expected positive sizes that add up to 6, the size along axis",
            ),
            (
                Sizes(dims(&[u32::MAX, 7])),
                1,
                "splits is [4294967295, 7], expected positive sizes that add up to 6, the size along axis",
            ),
        ] {
            assert_eq!(infer(splits, axis, &[2, 6]), Err(message.to_string()));
        }
    }

    #[test]
    fn attributes_are_a_number_or_a_list() {
        for splits in [Splits::Count(3), Splits::Sizes(dims(&[1, 2]))] {
            assert_eq!(Splits::from_attribute(&splits.to_attribute().unwrap()), Some(splits));
        }
        assert_eq!(Splits::from_attribute(&Attribute::Bool(true)), None);
    }

    #[test]
    fn outer_splits_are_contiguous() {
        let split = Split { splits: Splits::Sizes(dims(&[1, 3])), axis: 1 };
        let offsets = |input: &[u32]| split.strided(input).iter().map(Strided::contiguous_offset).collect::<Vec<_>>();
        assert_eq!(offsets(&[1, 4, 5]), [Some(0), Some(5)]);
        assert_eq!(offsets(&[2, 4, 5]), [None, None]);
    }
}
