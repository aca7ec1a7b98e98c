//! `dft`: discrete Fourier transforms.

use crate::dtype::Number;
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::rule::*;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::shape::Descriptor;
use std::collections::HashMap;
use std::f64::consts::TAU;

crate::attributes! {
    /// Transforms of `[..., samples, components]`, where a real number has one component, and a complex one two. Samples
    /// beyond the length are ignored, missing ones are 0.
    pub struct Dft {
        /// Length of the transform.
        length "length": u32 = 1,
        /// Whether it is the inverse transform, which divides by the length.
        inverse "inverse": bool = false,
        /// Whether the signal is real: the first half of the frequencies is computed, or given.
        onesided "onesided": bool = false,
    }
}

/// Sine and cosine of `at` of `count` steps around the unit circle, exact for whole quarters: the middle frequency of a
/// real signal is real, too. Otherwise the sign of its imaginary part would be chance, and its phase 180 degrees or -180.
pub fn turn(at: u64, count: u64) -> (f64, f64) {
    let at = at % count;
    match (4 * at).is_multiple_of(count) {
        true => [(0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0)][(4 * at / count) as usize],
        false => (TAU * at as f64 / count as f64).sin_cos(),
    }
}

impl Dft {
    fn frequencies(&self) -> u32 {
        if self.onesided { self.length / 2 + 1 } else { self.length }
    }

    /// Whether only the real parts of the result are computed.
    pub fn is_to_real(&self) -> bool {
        self.inverse && self.onesided
    }

    /// Number of elements of the output, and of their components.
    pub fn outputs(&self) -> [u32; 2] {
        if self.is_to_real() { [self.length, 1] } else { [self.frequencies(), 2] }
    }

    /// How many of this number of given samples matter.
    pub fn used(&self, samples: u32) -> u32 {
        samples.min(if self.inverse { self.frequencies() } else { self.length })
    }
}

impl NamedOperator for Dft {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "dft",
        operands: &[operand("input", FLOATS, FROM_2D)],
        outputs: &[output("output", Types::SameAs("input"), FROM_2D)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Dft, Problem> {
        Dft::read(attributes)
    }
}

impl Operator for Dft {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Dft::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        let (batch, components) = (&input.shape[..input.rank() - 2], input.shape[input.rank() - 1]);
        if components != 1 && components != 2 {
            let expected = [batch, &[input.shape[input.rank() - 2], 2u32.into()]].concat();
            return Err(Problem::Shape { operand: "input", got: input.shape.clone(), expected });
        }
        if self.length == 0 {
            return Err(Problem::attribute("length", self.length, "at least 1"));
        }
        Ok(vec![Descriptor::new(input.dtype, [batch, &self.outputs().map(Into::into)].concat())])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let input = required(inputs, 0);
        let [.., samples, components] = input.shape()[..] else { unreachable!("two dimensions") };
        let used = self.used(samples as u32) as usize;
        let length = self.length as usize;
        let sign = if self.inverse { 1.0 } else { -1.0 };
        // The real and the imaginary part of each element.
        let mut known: HashMap<Vec<usize>, [f64; 2]> = HashMap::new();
        vec![Tensor::from_fn(&outputs[0], |index| {
            let (element, component) = index.split_at(index.len() - 1);
            let sum = *known.entry(element.to_vec()).or_insert_with(|| {
                let (batch, at) = element.split_at(element.len() - 1);
                let mut sum = [0.0; 2];
                for sample in 0..used {
                    let part = |part: usize| match part < components {
                        true => input.at(&[batch, &[sample, part]].concat()).to_f64(),
                        false => 0.0,
                    };
                    let (sin, cos) = turn((sample * at[0]) as u64, length as u64);
                    let (re, im, sin) = (part(0), part(1), sign * sin);
                    // All frequencies but the first and the middle one have a mirror image in the other half.
                    let is_double = self.is_to_real() && sample != 0 && 2 * sample != length;
                    let factor = if is_double { 2.0 } else { 1.0 };
                    sum[0] += factor * (re * cos - im * sin);
                    sum[1] += factor * (re * sin + im * cos);
                }
                let factor = if self.inverse { 1.0 / length as f64 } else { 1.0 };
                sum.map(|sum| sum * factor)
            });
            Number::Float(sum[component[0]])
        })]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_of_a_turn_are_exact() {
        for (at, expected) in
            [(0, (0.0, 1.0)), (5, (1.0, 0.0)), (10, (0.0, -1.0)), (15, (-1.0, 0.0)), (30, (0.0, -1.0))]
        {
            assert_eq!(turn(at, 20), expected, "{at}");
        }
        assert_eq!((turn(1, 2), turn(3, 1)), ((0.0, -1.0), (0.0, 1.0)));
        let (sin, cos) = turn(23, 20);
        assert!((sin - (TAU * 0.15).sin()).abs() < 1e-15 && (cos - (TAU * 0.15).cos()).abs() < 1e-15);
    }
}
