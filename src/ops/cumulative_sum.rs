//! `cumulativeSum()`: the running sum along an axis.

use super::attributes::Attributes;
use super::gather::check_axis;
use super::rows::{Along, Rows};
use super::rule::*;
use super::tensor::{Tensor, wrap};
use super::{Inputs, NamedOperator, Operator, Tensors, place_of, required};
use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::Descriptor;

crate::attributes! {
    /// `cumulativeSum()`: the axis and `MLCumulativeSumOptions`.
    pub struct CumulativeSum {
        /// The dimension to sum along.
        axis "axis": u32 = 0,
        /// Whether an element is excluded from its own sum.
        exclusive "exclusive": bool = false,
        /// Whether sums start at the end.
        reversed "reversed": bool = false,
    }
}

impl NamedOperator for CumulativeSum {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "cumulativeSum",
        operands: &[operand("input", WIDE, FROM_1D)],
        outputs: &[output("output", Types::SameAs("input"), FROM_1D)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<CumulativeSum, Problem> {
        CumulativeSum::read(attributes)
    }
}

impl Operator for CumulativeSum {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        CumulativeSum::write(self, attributes);
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        Some(CumulativeSum { axis: place_of(axes, self.axis), ..self.clone() })
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        check_axis(self.axis, input)?;
        Ok(vec![input.clone()])
    }

    fn rows(&self, inputs: &Inputs, _output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        (along.axis != self.axis as usize).then(|| Rows::of_first(self.clone(), along, inputs))
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, axis) = (required(inputs, 0), self.axis as usize);
        let sum = |index: &[usize]| {
            let (i, size) = (index[axis], input.shape()[axis]);
            let terms = match (self.reversed, self.exclusive) {
                (false, false) => 0..i + 1,
                (false, true) => 0..i,
                (true, false) => i..size,
                (true, true) => i + 1..size,
            };
            let terms = terms.map(|i| {
                let mut index = index.to_vec();
                index[axis] = i;
                input.at(&index)
            });
            match input.dtype.is_float() {
                true => Number::Float(terms.map(Number::to_f64).sum()),
                false => Number::Int(terms.fold(0, |sum, term| match term {
                    Number::Int(x) => wrap(input.dtype, sum + x),
                    Number::Float(x) => panic!("{x} in an integer tensor"),
                })),
            }
        };
        vec![Tensor::from_fn(&outputs[0], sum)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType;

    #[test]
    fn sums_as_in_the_draft() {
        let input = Tensor::int(DataType::Int32, ndarray::arr1(&[1, 2, 3, 4]).into_dyn());
        let sums = |exclusive, reversed| {
            let op = CumulativeSum { axis: 0, exclusive, reversed };
            op.reference(&[Some(&input)], &[input.descriptor()])[0].to_vec::<i32>()
        };
        assert_eq!(sums(false, false), [1, 3, 6, 10]);
        assert_eq!(sums(true, false), [0, 1, 3, 6]);
        assert_eq!(sums(false, true), [10, 9, 7, 4]);
        assert_eq!(sums(true, true), [9, 7, 4, 0]);
    }

    #[test]
    fn the_axis_is_below_the_rank() {
        let input = Descriptor::new(DataType::Float32, [2, 3]);
        let infer = |axis| CumulativeSum { axis, ..CumulativeSum::default() }.infer(&[Some(&input)]);
        assert_eq!(infer(1), Ok(vec![input.clone()]));
        assert!(infer(2).unwrap_err().to_string().starts_with("axis is 2"));
    }
}
