//! `dynamicQuantizeLstm`: long short-term memory with quantized recurrent weights.

use crate::dimension::Dim;
use crate::dtype::DataType::{Float32, Int8, Uint8};
use crate::dtype::Number;
use crate::error::Problem;
use crate::ops::attributes::Attributes;
use crate::ops::lstm::{Lstm, LstmAttributes};
use crate::ops::recurrent::expect_shape;
use crate::ops::rule::*;
use crate::ops::tensor::Tensor;
use crate::ops::{Inputs, NamedOperator, Operator, Tensors, given, required};
use crate::shape::Descriptor;

/// `lstm()`, whose recurrent weights have a scale and a zero point for each of their rows. The hidden state may be rounded
/// to 8-bit integers, with one scale for each row of the batch, before it is multiplied; the reference does not round it.
/// The recurrent weights, their scales and zero points are constants.
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicQuantizeLstm(pub Lstm);

const INPUT: Types = Types::SameAs("input");

/// The operand with the scales, which comes after those of `lstm()`; that with the zero points follows.
pub const SCALE: usize = 8;

impl NamedOperator for DynamicQuantizeLstm {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "dynamicQuantizeLstm",
        operands: &[
            operand("input", FLOATS, (3, 3)),
            operand("weight", INPUT, (3, 3)),
            operand("recurrentWeight", Types::OneOf(&[Uint8, Int8]), (3, 3)),
            optional("bias", INPUT, (2, 2)),
            optional("recurrentBias", INPUT, (2, 2)),
            optional("peepholeWeight", INPUT, (2, 2)),
            optional("initialHiddenState", INPUT, (3, 3)),
            optional("initialCellState", INPUT, (3, 3)),
            operand("recurrentScale", INPUT, (2, 2)),
            operand("recurrentZeroPoint", Types::SameAs("recurrentWeight"), (2, 2)),
        ],
        outputs: &[
            output("output0", INPUT, (3, 3)),
            output("output1", INPUT, (3, 3)),
            output("output2", INPUT, (4, 4)),
        ],
    }];

    fn read(_: &str, attributes: &mut Attributes) -> Result<DynamicQuantizeLstm, Problem> {
        Ok(DynamicQuantizeLstm(Lstm { attributes: LstmAttributes::read(attributes)? }))
    }
}

impl Operator for DynamicQuantizeLstm {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        self.0.write(attributes);
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        self.0.visit_dims(visit);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let outputs = self.0.infer(inputs)?;
        let rows = &required(inputs, 2).shape[..2];
        expect_shape("recurrentScale", given(inputs, SCALE), rows)?;
        expect_shape("recurrentZeroPoint", given(inputs, SCALE + 1), rows)?;
        Ok(outputs)
    }

    fn multiply_adds(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
        self.0.multiply_adds(inputs, outputs)
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let [weight, scale, zero] = [2, SCALE, SCALE + 1].map(|index| required(inputs, index));
        let floats = Tensor::from_fn(&Descriptor::new(Float32, weight.descriptor().shape), |index| {
            let [number, zero] = [weight.at(index), zero.at(&index[..2])].map(|number| number.to_f64());
            Number::Float((number - zero) * scale.at(&index[..2]).to_f64())
        });
        let mut floating = inputs[..SCALE].to_vec();
        floating[2] = Some(&floats);
        self.0.reference(&floating, outputs)
    }
}
