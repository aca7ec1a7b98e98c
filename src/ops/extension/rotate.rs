//! `rotate`: rotary position embedding.

use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::rows::{Along, Rows};
use crate::ops::rule::*;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::shape::{Descriptor, broadcasts_to};

crate::attributes! {
    /// Rotates pairs of features in the last dimension, one per cosine, by the angle of cosine and sine; further
    /// features remain unchanged. The other dimensions of cosines and sines broadcast to those of the input.
    pub struct Rotate {
        /// Whether the features of a pair are neighbors; otherwise, they are in different halves.
        interleaved "interleaved": bool = false,
    }
}

/// Heads of a batch of sequences, in either order of the dimensions between.
const RANKS: Ranks = (4, 4);

impl NamedOperator for Rotate {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "rotate",
        operands: &[
            operand("input", FLOATS, RANKS),
            operand("cos", Types::SameAs("input"), RANKS),
            operand("sin", Types::SameAs("input"), RANKS),
        ],
        outputs: &[output("output", Types::SameAs("input"), RANKS)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Rotate, Problem> {
        Rotate::read(attributes)
    }
}

impl Operator for Rotate {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Rotate::write(self, attributes);
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        (axes[3] == 3).then(|| self.clone())
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let [input, cos, sin] = [0, 1, 2].map(|index| required(inputs, index));
        let fits = broadcasts_to(&cos.shape[..3], &input.shape[..3]) && cos.shape[3] * 2 <= input.shape[3];
        for angles in [cos, sin] {
            if !fits || angles.shape != cos.shape {
                let what = "angles do not match the features";
                return Err(Problem::Incompatible { what, a: angles.shape.clone(), b: input.shape.clone() });
            }
        }
        Ok(vec![input.clone()])
    }

    fn rows(&self, inputs: &Inputs, output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        (along.axis != 3).then(|| Rows::of_broadcast(self.clone(), along, inputs, output))
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let [input, cos, sin] = [0, 1, 2].map(|index| required(inputs, index).floats());
        let pairs = cos.shape()[3];
        vec![Tensor::from_fn(&outputs[0], |index| {
            let feature = index[3];
            if feature >= 2 * pairs {
                return Number::Float(input[index]);
            }
            let (pair, is_second) = match self.interleaved {
                true => (feature / 2, feature % 2 == 1),
                false => (feature % pairs, feature >= pairs),
            };
            let at = |feature: usize| input[[index[0], index[1], index[2], feature].as_slice()];
            let [first, second] =
                if self.interleaved { [2 * pair, 2 * pair + 1] } else { [pair, pair + pairs] }.map(at);
            let mut place: Vec<usize> = index.iter().zip(cos.shape()).map(|(&at, &size)| at.min(size - 1)).collect();
            place[3] = pair;
            let (cos, sin) = (cos[place.as_slice()], sin[place.as_slice()]);
            Number::Float(if is_second { first * sin + second * cos } else { first * cos - second * sin })
        })]
    }
}
