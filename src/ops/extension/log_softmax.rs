//! `logSoftmax`: the logarithm of `softmax()`.

use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::gather::check_axis;
use crate::ops::rows::{Along, Rows};
use crate::ops::rule::*;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, place_of, required};
use crate::shape::Descriptor;

crate::attributes! {
    /// `x - max - log(sum(exp(x - max)))`.
    pub struct LogSoftmax {
        /// The dimension of maximum and sum.
        axis "axis": u32 = 0,
    }
}

impl NamedOperator for LogSoftmax {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "logSoftmax",
        operands: &[operand("input", FLOATS, FROM_1D)],
        outputs: &[output("output", Types::SameAs("input"), FROM_1D)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<LogSoftmax, Problem> {
        LogSoftmax::read(attributes)
    }
}

impl Operator for LogSoftmax {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        LogSoftmax::write(self, attributes);
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        Some(LogSoftmax { axis: place_of(axes, self.axis) })
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
            lane.mapv_inplace(|x| x - max);
            let log = lane.mapv(f64::exp).sum().ln();
            lane.mapv_inplace(|x| x - log);
        }
        vec![Tensor::from_fn(&outputs[0], |index| Number::Float(output[index]))]
    }
}
