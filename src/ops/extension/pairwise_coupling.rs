//! `pairwiseCoupling`: probabilities of classes from those of each class against each other one.

use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::rows::{Along, Rows};
use crate::ops::rule::*;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::shape::Descriptor;

crate::attributes! {
    /// The second method of Wu, Lin and Weng (2004), as libsvm iterates it. `input` is `[rows, pairs]`: the
    /// probabilities of the first class of each pair, of 0 and 1, 0 and 2, ..., 1 and 2, ...
    pub struct PairwiseCoupling {
        /// Number of classes.
        classes "classes": u32 = 2,
    }
}

/// Maximum number of rounds.
const ROUNDS: usize = 100;

/// The iteration ends when errors are below this, divided by the number of classes.
const ERROR: f64 = 0.005;

impl PairwiseCoupling {
    /// Number of pairs.
    pub fn pairs(&self) -> u64 {
        let classes = u64::from(self.classes);
        classes * classes.saturating_sub(1) / 2
    }

    /// Numbers of scratch memory that [`couple`](Self::couple) needs.
    pub fn scratch(&self) -> usize {
        let classes = self.classes as usize;
        classes * classes + classes
    }

    /// Sets `p` to the probabilities of classes, from `pairs`.
    pub fn couple(&self, pairs: impl Iterator<Item = f64>, p: &mut [f64], scratch: &mut [f64]) {
        let count = self.classes as usize;
        let (q, qp) = scratch.split_at_mut(count * count);
        let at = |row: usize, column: usize| row * count + column;
        (0..count).for_each(|class| q[at(class, class)] = 0.0);
        let mut pairs = pairs;
        for first in 0..count {
            for second in first + 1..count {
                let probability = pairs.next().expect("as many as there are pairs");
                let rest = 1.0 - probability;
                q[at(first, first)] += rest * rest;
                q[at(second, second)] += probability * probability;
                q[at(first, second)] = -rest * probability;
                q[at(second, first)] = q[at(first, second)];
            }
        }
        p.fill(1.0 / count as f64);
        for _ in 0..ROUNDS {
            let mut pqp = 0.0;
            for class in 0..count {
                qp[class] = (0..count).map(|other| q[at(class, other)] * p[other]).sum();
                pqp += p[class] * qp[class];
            }
            let error = qp.iter().map(|x| (x - pqp).abs()).fold(0.0, f64::max);
            if error < ERROR / count as f64 {
                return;
            }
            for class in 0..count {
                let change = (pqp - qp[class]) / q[at(class, class)];
                p[class] += change;
                let scale = 1.0 / (1.0 + change);
                pqp = (pqp + change * (change * q[at(class, class)] + 2.0 * qp[class])) * scale * scale;
                for other in 0..count {
                    qp[other] = (qp[other] + change * q[at(class, other)]) * scale;
                    p[other] *= scale;
                }
            }
        }
    }
}

const FLOAT: Types = Types::OneOf(&[DataType::Float32]);

impl NamedOperator for PairwiseCoupling {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "pairwiseCoupling",
        operands: &[operand("input", FLOAT, (2, 2))],
        outputs: &[output("output", FLOAT, (2, 2))],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<PairwiseCoupling, Problem> {
        PairwiseCoupling::read(attributes)
    }
}

impl Operator for PairwiseCoupling {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        PairwiseCoupling::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        let pairs = u32::try_from(self.pairs()).ok().filter(|&pairs| pairs > 0);
        let Some(pairs) = pairs else {
            return Err(Problem::attribute("classes", self.classes, "at least 2, with less than 2^32 pairs"));
        };
        let expected = vec![input.shape[0], pairs.into()];
        if input.shape != expected {
            return Err(Problem::Shape { operand: "input", got: input.shape.clone(), expected });
        }
        Ok(vec![Descriptor::new(DataType::Float32, vec![input.shape[0], self.classes.into()])])
    }

    fn rows(&self, inputs: &Inputs, _output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        (along.axis == 0).then(|| Rows::of_first(self.clone(), along, inputs))
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let input = required(inputs, 0);
        let (mut p, mut scratch) = (vec![0.0; self.classes as usize], vec![0.0; self.scratch()]);
        vec![Tensor::from_fn(&outputs[0], |index| {
            if index[1] == 0 {
                let pairs = (0..self.pairs() as usize).map(|pair| input.at(&[index[0], pair]).to_f64());
                self.couple(pairs, &mut p, &mut scratch);
            }
            Number::Float(p[index[1]])
        })]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn couple(classes: u32, pairs: &[f64]) -> Vec<f64> {
        let op = PairwiseCoupling { classes };
        let (mut p, mut scratch) = (vec![0.0; classes as usize], vec![f64::NAN; op.scratch()]);
        op.couple(pairs.iter().copied(), &mut p, &mut scratch);
        p
    }

    #[test]
    fn two_classes_have_their_probabilities() {
        // Up to the error that ends the iteration.
        let p = couple(2, &[0.8125]);
        assert!((p[0] - 0.8125).abs() < 0.005 && (p[0] + p[1] - 1.0).abs() < 1e-12, "{p:?}");
    }

    #[test]
    fn consistent_probabilities_are_found() {
        let expected = [0.5, 0.3, 0.15, 0.05];
        let pairs: Vec<f64> =
            (0..4).flat_map(|a| (a + 1..4).map(move |b| expected[a] / (expected[a] + expected[b]))).collect();
        // The iteration ends with an error of gradients below 0.005 / 4.
        let p = couple(4, &pairs);
        assert!(p.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 0.01), "{p:?}");
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{p:?}");
    }
}
