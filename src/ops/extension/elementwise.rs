//! The element-wise operators of ONNX that the API lacks. Programs and GPU kernels compute them like those of the API.

use crate::dimension::Dim;
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::elementwise::{Elementwise, ONNX_ROWS};
use crate::ops::rows::{Along, Rows};
use crate::ops::rule::OpRule;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operation, Operator, Tensors, row};
use crate::shape::Descriptor;

/// An element-wise operator of ONNX.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extended(pub Elementwise);

impl Elementwise {
    /// The operation of a node with this operator, one of the API or of ONNX.
    pub fn into_operation(self) -> Operation {
        match ONNX_ROWS.iter().any(|rule| rule.name == self.name()) {
            true => Extended(self).into(),
            false => self.into(),
        }
    }
}

impl NamedOperator for Extended {
    const RULES: &'static [OpRule] = ONNX_ROWS;

    fn read(name: &str, attributes: &mut Attributes) -> Result<Extended, Problem> {
        Elementwise::read(name, attributes).map(Extended)
    }
}

impl Operator for Extended {
    fn rule(&self) -> &'static OpRule {
        row(ONNX_ROWS, self.0.name())
    }

    fn write(&self, attributes: &mut Attributes) {
        self.0.write(attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        self.0.infer(inputs)
    }

    fn resolve(&mut self, inputs: &Inputs) -> Result<(), Problem> {
        self.0.resolve(inputs)
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        self.0.transposed(axes).map(Extended)
    }

    fn rows(&self, inputs: &Inputs, output: &Descriptor, along: Along, count: Dim) -> Option<Rows<Self>> {
        Some(self.0.rows(inputs, output, along, count)?.map(Extended))
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        self.0.reference(inputs, outputs)
    }
}
