//! `quantizeLinear()` and `dequantizeLinear()`.

use super::attributes::Attributes;
use super::elementwise::Elementwise;
use super::rows::{Along, Rows};
use super::rule::*;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::dimension::Dim;
use crate::error::Problem;
use crate::shape::{Descriptor, broadcasts_blockwise};

/// `quantizeLinear()` or `dequantizeLinear()`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the variants are the methods of the draft")]
pub enum Quantize {
    QuantizeLinear,
    DequantizeLinear,
}

impl NamedOperator for Quantize {
    const RULES: &'static [OpRule] = &[
        OpRule {
            name: "quantizeLinear",
            operands: &[
                operand("input", FLOATS, ANY_RANK),
                operand("scale", Types::SameAs("input"), ANY_RANK),
                operand("zeroPoint", QUANTIZED, ANY_RANK),
            ],
            outputs: &[output("output", Types::SameAs("zeroPoint"), ANY_RANK)],
        },
        OpRule {
            name: "dequantizeLinear",
            operands: &[
                operand("input", DEQUANTIZED, ANY_RANK),
                operand("scale", FLOATS, ANY_RANK),
                operand("zeroPoint", Types::SameAs("input"), ANY_RANK),
            ],
            outputs: &[output("output", Types::SameAs("scale"), ANY_RANK)],
        },
    ];

    fn read(name: &str, _attributes: &mut Attributes) -> Result<Quantize, Problem> {
        Ok(if name == "quantizeLinear" { Quantize::QuantizeLinear } else { Quantize::DequantizeLinear })
    }
}

impl Operator for Quantize {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[*self as usize]
    }

    fn write(&self, _attributes: &mut Attributes) {}

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        let _ = axes;
        Some(*self)
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let [input, scale, zero_point] = [0, 1, 2].map(|index| required(inputs, index));
        let rank = input.rank();
        for (operand, got) in [("scale", scale.rank()), ("zeroPoint", zero_point.rank())] {
            if got != rank {
                return Err(Problem::Rank { operand, got, min: rank, max: rank });
            }
        }
        if zero_point.shape != scale.shape {
            let (got, expected) = (zero_point.shape.clone(), scale.shape.clone());
            return Err(Problem::Shape { operand: "zeroPoint", got, expected });
        }
        if !broadcasts_blockwise(&scale.shape, &input.shape) {
            let what = "sizes of scale do not divide those of input";
            return Err(Problem::Incompatible { what, a: scale.shape.clone(), b: input.shape.clone() });
        }
        let dtype = match self {
            Quantize::QuantizeLinear => zero_point.dtype,
            Quantize::DequantizeLinear => scale.dtype,
        };
        Ok(vec![Descriptor::new(dtype, input.shape.clone())])
    }

    fn rows(&self, inputs: &Inputs, output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        let rows = Rows::of_broadcast(*self, along, inputs, output);
        // Blocks of several places are not split.
        let scales = required(inputs, 1).shape[along.axis];
        (rows.operands[1].is_some() || (scales.is_number() && scales == 1)).then_some(rows)
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let [input, scale, zero_point] = [0, 1, 2].map(|index| required(inputs, index));
        vec![Tensor::from_fn(&outputs[0], |index| {
            let sizes = input.shape().iter().zip(scale.shape());
            let block: Vec<usize> = index.iter().zip(sizes).map(|(i, (&all, &blocks))| i / (all / blocks)).collect();
            let operands = [input.at(index), scale.at(&block), zero_point.at(&block)];
            self.elementwise().eval(&operands, outputs[0].dtype)
        })]
    }
}

impl Quantize {
    /// The element-wise operator on an element and its block's parameters.
    pub fn elementwise(self) -> Elementwise {
        match self {
            Quantize::QuantizeLinear => Elementwise::Quantize,
            Quantize::DequantizeLinear => Elementwise::Dequantize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType::{self, *};

    fn infer(input: &[u32], scale: &[u32], zero_point: &[u32]) -> Result<DataType, String> {
        let input = Descriptor::new(Int8, input);
        let (scale, zero_point) = (Descriptor::new(Float16, scale), Descriptor::new(Int8, zero_point));
        let outputs = Quantize::DequantizeLinear.infer(&[Some(&input), Some(&scale), Some(&zero_point)]);
        let output = outputs.map_err(|problem| problem.to_string())?.remove(0);
        assert_eq!(output.shape, input.shape);
        Ok(output.dtype)
    }

    #[test]
    fn shapes() {
        assert_eq!(infer(&[], &[], &[]), Ok(Float16));
        assert_eq!(infer(&[4, 6], &[2, 3], &[2, 3]), Ok(Float16));
        assert_eq!(infer(&[4, 6], &[6], &[6]).unwrap_err(), "scale has rank 1, expected 2");
        assert_eq!(infer(&[4, 6], &[1, 6], &[6]).unwrap_err(), "zeroPoint has rank 1, expected 2");
        assert_eq!(infer(&[4, 6], &[1, 6], &[4, 6]).unwrap_err(), "zeroPoint has shape [4, 6], expected [1, 6]");
        let message = infer(&[4, 6], &[3, 6], &[3, 6]).unwrap_err();
        assert_eq!(message, "sizes of scale do not divide those of input: [3, 6] and [4, 6]");
        assert!(infer(&[4, 6], &[8, 6], &[8, 6]).is_err());
    }

    #[test]
    fn quantize_rounds_to_even_and_saturates() {
        let floats = |x: &[f64]| Tensor::float(Float32, ndarray::arr1(x).into_dyn());
        let (input, scale) = (floats(&[1.0, 3.0, -1000.0, f64::NAN]), floats(&[2.0]));
        let zero_point = Tensor::int(Uint8, ndarray::arr1(&[10]).into_dyn());
        let operands = [Some(&input), Some(&scale), Some(&zero_point)];
        let output = Quantize::QuantizeLinear.reference(&operands, &[Descriptor::new(Uint8, [4])]);
        assert_eq!(output[0].to_vec::<u8>(), [10, 12, 0, 0]);

        // A tie in float32, although the exact quotient is slightly smaller.
        let (input, scale) = (floats(&[3.0]), floats(&[0.117_647_06f32 as f64]));
        let operands = [Some(&input), Some(&scale), Some(&zero_point)];
        let output = Quantize::QuantizeLinear.reference(&operands, &[Descriptor::new(Uint8, [1])]);
        assert_eq!(output[0].to_vec::<u8>(), [36]);
    }
}
