//! Root-mean-square normalization, fused by the compiler: `x / sqrt(mean(x^2) + epsilon) * scale`.

use super::attributes::Attributes;
use super::rows::{Along, Rows};
use super::rule::*;
use super::tensor::Tensor;
use super::{Inputs, Operator, Tensors, given, required};
use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::Descriptor;

crate::attributes! {
    /// Normalizes the last dimensions; operands are input and scale.
    pub struct RmsNormalization {
        /// Number of trailing dimensions that are normalized together.
        dimensions "dimensions": u32 = 1,
        /// The number added to the mean of squares.
        epsilon "epsilon": f64 = 0.0,
    }
}

impl RmsNormalization {
    /// The dimensions of a row of an operand of shape `input`.
    pub fn row<'s, D>(&self, input: &'s [D]) -> &'s [D] {
        &input[input.len() - self.dimensions as usize..]
    }
}

impl Operator for RmsNormalization {
    fn rule(&self) -> &'static OpRule {
        const RULE: OpRule = OpRule {
            name: "rmsNormalization",
            operands: &[operand("input", FLOATS, FROM_1D), optional("scale", Types::SameAs("input"), FROM_1D)],
            outputs: &[output("output", Types::SameAs("input"), FROM_1D)],
        };
        &RULE
    }

    fn write(&self, attributes: &mut Attributes) {
        RmsNormalization::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        let expected = self.row(&input.shape);
        match given(inputs, 1).filter(|scale| scale.shape != expected) {
            None => Ok(vec![input.clone()]),
            Some(scale) => {
                Err(Problem::Shape { operand: "scale", got: scale.shape.clone(), expected: expected.to_vec() })
            }
        }
    }

    fn rows(&self, inputs: &Inputs, output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        let kept = output.rank() - self.dimensions as usize;
        (along.axis < kept).then(|| Rows::of_first(self.clone(), along, inputs))
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, scale) = (required(inputs, 0).floats(), given(inputs, 1).map(Tensor::floats));
        let kept = outputs[0].rank() - self.dimensions as usize;
        vec![Tensor::from_fn(&outputs[0], |index| {
            let row = input.slice_each_axis(|axis| {
                let i = axis.axis.index();
                if i < kept { (index[i]..index[i] + 1).into() } else { (..).into() }
            });
            let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
            let scale = scale.map_or(1.0, |scale| scale[&index[kept..]]);
            Number::Float(input[index] / (mean + self.epsilon).sqrt() * scale)
        })]
    }
}
