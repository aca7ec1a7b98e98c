//! `softmax()` along an axis.

use super::attributes::Attributes;
use super::gather::check_axis;
use super::rows::{Along, Rows};
use super::rule::*;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, place_of, required};
use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::Descriptor;

crate::attributes! {
    /// `softmax()`.
    pub struct Softmax {
        /// The dimension along which results add up to 1.
        axis "axis": u32 = 0,
    }
}

impl NamedOperator for Softmax {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "softmax",
        operands: &[operand("input", FLOATS, FROM_1D)],
        outputs: &[output("output", Types::SameAs("input"), FROM_1D)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Softmax, Problem> {
        Softmax::read(attributes)
    }
}

impl Operator for Softmax {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Softmax::write(self, attributes);
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        Some(Softmax { axis: place_of(axes, self.axis) })
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
        let (input, axis) = (required(inputs, 0).floats(), ndarray::Axis(self.axis as usize));
        let mut output = input.clone();
        for mut lane in output.lanes_mut(axis) {
            let max = lane.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            lane.mapv_inplace(|x| (x - max).exp());
            let sum = lane.sum();
            lane.mapv_inplace(|x| x / sum);
        }
        vec![Tensor::from_fn(&outputs[0], |index| Number::Float(output[index]))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType;

    #[test]
    fn rows_add_up_to_one() {
        let input = Tensor::float(DataType::Float32, ndarray::arr2(&[[0.0, 0.0], [1000.0, 0.0]]).into_dyn());
        let run = |axis| Softmax { axis }.reference(&[Some(&input)], &[input.descriptor()])[0].to_vec::<f32>();
        assert_eq!(run(1), [0.5, 0.5, 1.0, 0.0]);
        assert_eq!(run(0), [0.0, 0.5, 1.0, 0.5]);
    }

    #[test]
    fn the_axis_is_below_the_rank() {
        let input = Descriptor::new(DataType::Float16, [2, 3]);
        assert_eq!(Softmax { axis: 1 }.infer(&[Some(&input)]), Ok(vec![input.clone()]));
        assert!(Softmax { axis: 2 }.infer(&[Some(&input)]).unwrap_err().to_string().starts_with("axis is 2"));
    }
}
