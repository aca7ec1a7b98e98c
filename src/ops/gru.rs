//! Gated recurrent units: sections "gru" and "gruCell" of the draft.

use super::attributes::Attributes;
use super::recurrent::{
    Activation, Direction, Sequence, Weights, activations, expect_shape, infer_cell, matrix, multiply_adds, unroll,
};
use super::rule::*;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, given, required, row};
use crate::dimension::Dim;
use crate::error::Problem;
use crate::shape::Descriptor;
use ndarray::Array2;

crate::enumeration! {
    /// `MLGruWeightLayout`: the order of the gates in weights and biases.
    pub enum GruLayout {
        /// update, reset, new
        Zrn = "zrn",
        /// reset, update, new
        Rzn = "rzn",
    }
}

impl GruLayout {
    /// The positions of the update, reset and new gate.
    pub fn places(self) -> [usize; 3] {
        match self {
            GruLayout::Zrn => [0, 1, 2],
            GruLayout::Rzn => [1, 0, 2],
        }
    }
}

const DEFAULT_ACTIVATIONS: [Activation; 2] = [Activation::Sigmoid, Activation::Tanh];

crate::attributes! {
    /// The arguments of `gru()` and `MLGruOptions`.
    pub struct GruAttributes {
        /// Number of time steps.
        steps "steps": Dim = Dim::number(0),
        /// Number of features of the hidden state.
        hidden_size "hiddenSize": u32 = 0,
        /// Whether the reset gate is applied after the product with the recurrent weight.
        reset_after "resetAfter": bool = true,
        /// Whether the states of all time steps are an output.
        return_sequence "returnSequence": bool = false,
        /// The order of time steps.
        direction "direction": Direction = Direction::Forward,
        /// The order of the gates.
        layout "layout": GruLayout = GruLayout::Zrn,
        /// The activations of the update and reset gates, and of the new gate.
        activations "activations": Option<Vec<Activation>> = None,
    }
}

/// `gru()`. Operands are `input`, `weight`, `recurrentWeight` and the optional `bias`, `recurrentBias`,
/// `initialHiddenState`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gru {
    /// The arguments and options.
    pub attributes: GruAttributes,
}

crate::attributes! {
    /// The arguments of `gruCell()` and `MLGruCellOptions`.
    pub struct GruCellAttributes {
        /// Number of features of the hidden state.
        hidden_size "hiddenSize": u32 = 0,
        /// Whether the reset gate is applied after the product with the recurrent weight.
        reset_after "resetAfter": bool = true,
        /// The order of the gates.
        layout "layout": GruLayout = GruLayout::Zrn,
        /// The activations of the update and reset gates, and of the new gate.
        activations "activations": Option<Vec<Activation>> = None,
    }
}

/// `gruCell()`. Operands are `input`, `weight`, `recurrentWeight`, `hiddenState` and the optional `bias`,
/// `recurrentBias`.
#[derive(Clone, Debug, PartialEq)]
pub struct GruCell {
    /// The arguments and options.
    pub attributes: GruCellAttributes,
}

/// The computation of a time step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GruFunction {
    /// Whether the reset gate is applied after the product with the recurrent weight.
    pub reset_after: bool,
    /// The positions of the update, reset and new gate in weights and biases.
    pub places: [usize; 3],
    /// The activations of the update and reset gates, and of the new gate.
    pub activations: [Activation; 2],
}

impl GruFunction {
    /// The hidden state after a time step with the input `x`, both `[batch, ..]`.
    fn reference(&self, weights: &Weights, x: &Array2<f64>, h: Array2<f64>) -> Array2<f64> {
        let [z, r, n] = self.places;
        let [gate, new] = self.activations;
        let z = (weights.of_input(z, x) + weights.of_hidden(z, &h)).mapv(|v| gate.eval(v));
        let r = (weights.of_input(r, x) + weights.of_hidden(r, &h)).mapv(|v| gate.eval(v));
        let n = weights.of_input(n, x)
            + match self.reset_after {
                true => r * weights.of_hidden(n, &h),
                false => weights.of_hidden(n, &(r * &h)),
            };
        let n = n.mapv(|v| new.eval(v));
        &z * &h + n * (1.0 - &z)
    }
}

impl Gru {
    /// The computation of a time step.
    ///
    /// # Errors
    /// If there are not exactly two activations.
    pub fn function(&self) -> Result<GruFunction, Problem> {
        let GruAttributes { reset_after, layout, ref activations, .. } = self.attributes;
        function(reset_after, layout, activations)
    }

    fn sequence(&self) -> Sequence {
        let GruAttributes { steps, hidden_size, direction, return_sequence, .. } = self.attributes;
        Sequence { gates: 3, states: 1, steps, hidden_size, direction, return_sequence }
    }
}

impl GruCell {
    /// The computation of the time step.
    ///
    /// # Errors
    /// If there are not exactly two activations.
    pub fn function(&self) -> Result<GruFunction, Problem> {
        let GruCellAttributes { reset_after, layout, ref activations, .. } = self.attributes;
        function(reset_after, layout, activations)
    }
}

fn function(reset_after: bool, layout: GruLayout, given: &Option<Vec<Activation>>) -> Result<GruFunction, Problem> {
    Ok(GruFunction { reset_after, places: layout.places(), activations: activations(given, DEFAULT_ACTIVATIONS)? })
}

const INPUT: Types = Types::SameAs("input");

impl NamedOperator for Gru {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "gru",
        operands: &[
            operand("input", FLOATS, (3, 3)),
            operand("weight", INPUT, (3, 3)),
            operand("recurrentWeight", INPUT, (3, 3)),
            optional("bias", INPUT, (2, 2)),
            optional("recurrentBias", INPUT, (2, 2)),
            optional("initialHiddenState", INPUT, (3, 3)),
        ],
        outputs: &[output("output0", INPUT, (3, 3)), output("output1", INPUT, (4, 4))],
    }];

    fn read(_: &str, attributes: &mut Attributes) -> Result<Gru, Problem> {
        Ok(Gru { attributes: GruAttributes::read(attributes)? })
    }
}

impl Operator for Gru {
    fn rule(&self) -> &'static OpRule {
        row(Self::RULES, "gru")
    }

    fn write(&self, attributes: &mut Attributes) {
        self.attributes.write(attributes);
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        visit(&mut self.attributes.steps);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let sequence = self.sequence();
        let state = sequence.check(inputs)?;
        expect_shape("initialHiddenState", given(inputs, 5), &state)?;
        self.function()?;
        Ok(sequence.outputs(required(inputs, 0).dtype, state))
    }

    fn multiply_adds(&self, inputs: &Inputs, _: &[&Descriptor]) -> u64 {
        multiply_adds(inputs)
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let hidden = self.attributes.hidden_size as usize;
        let function = self.function().expect("inferred");
        let unrolled =
            unroll(self.attributes.direction, required(inputs, 0), hidden, [given(inputs, 5)], |d, x, [h]| {
                [function.reference(&Weights::new(inputs, Some(d), 3), x, h)]
            });
        unrolled.into_tensors(outputs)
    }
}

impl NamedOperator for GruCell {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "gruCell",
        operands: &[
            operand("input", FLOATS, (2, 2)),
            operand("weight", INPUT, (2, 2)),
            operand("recurrentWeight", INPUT, (2, 2)),
            operand("hiddenState", INPUT, (2, 2)),
            optional("bias", INPUT, (1, 1)),
            optional("recurrentBias", INPUT, (1, 1)),
        ],
        outputs: &[output("output", INPUT, (2, 2))],
    }];

    fn read(_: &str, attributes: &mut Attributes) -> Result<GruCell, Problem> {
        Ok(GruCell { attributes: GruCellAttributes::read(attributes)? })
    }
}

impl Operator for GruCell {
    fn rule(&self) -> &'static OpRule {
        row(Self::RULES, "gruCell")
    }

    fn write(&self, attributes: &mut Attributes) {
        self.attributes.write(attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let outputs = infer_cell(inputs, self.attributes.hidden_size, 3, ["hiddenState"])?;
        self.function()?;
        Ok(outputs)
    }

    fn multiply_adds(&self, inputs: &Inputs, _: &[&Descriptor]) -> u64 {
        multiply_adds(inputs)
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let weights = Weights::new(inputs, None, 4);
        let (x, h) = (matrix(required(inputs, 0), None), matrix(required(inputs, 3), None));
        let function = self.function().expect("inferred");
        vec![Tensor::float(outputs[0].dtype, function.reference(&weights, &x, h).into_dyn())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType::Float32;

    fn gru(attributes: GruAttributes, shapes: [Option<&[u32]>; 6]) -> Result<Vec<Vec<u32>>, String> {
        let descriptors = shapes.map(|shape| shape.map(|shape| Descriptor::new(Float32, shape)));
        let outputs = Gru { attributes }.infer(&descriptors.each_ref().map(Option::as_ref));
        outputs
            .map(|outputs| outputs.into_iter().map(|output| output.sizes().to_vec()).collect())
            .map_err(|problem| problem.to_string())
    }

    #[test]
    fn shapes() {
        let attributes = GruAttributes { steps: Dim::number(5), hidden_size: 4, ..Default::default() };
        let shapes: [Option<&[u32]>; 6] = [Some(&[5, 2, 3]), Some(&[1, 12, 3]), Some(&[1, 12, 4]), None, None, None];
        assert_eq!(gru(attributes.clone(), shapes).unwrap(), [vec![1, 2, 4]]);
        let both = GruAttributes { direction: Direction::Both, return_sequence: true, ..attributes };
        let shapes: [Option<&[u32]>; 6] =
            [Some(&[5, 2, 3]), Some(&[2, 12, 3]), Some(&[2, 12, 4]), Some(&[2, 12]), Some(&[2, 12]), Some(&[2, 2, 4])];
        assert_eq!(gru(both, shapes).unwrap(), [vec![2, 2, 4], vec![5, 2, 2, 4]]);
    }

    #[test]
    fn mismatches_are_named() {
        let attributes = || GruAttributes { steps: Dim::number(5), hidden_size: 4, ..Default::default() };
        let shapes: [Option<&[u32]>; 6] = [Some(&[5, 2, 3]), Some(&[1, 12, 3]), Some(&[1, 12, 4]), None, None, None];
        let fail = |attributes| gru(attributes, shapes).unwrap_err();
        assert_eq!(
            fail(GruAttributes { steps: Dim::number(4), ..attributes() }),
            "steps is 4, expected the first dimension of input, which is 5"
        );
        assert_eq!(
            fail(GruAttributes { hidden_size: u32::MAX, ..attributes() }),
            "hiddenSize is 4294967295, expected a number above 0, 6 times which is a valid dimension"
        );
        assert_eq!(
            fail(GruAttributes { hidden_size: 5, ..attributes() }),
            "weight has shape [1, 12, 3], expected [1, 15, 3]"
        );
        assert_eq!(
            fail(GruAttributes { activations: Some(vec![Activation::Relu]), ..attributes() }),
            "activations is [relu], expected 2 activation functions"
        );
        assert_eq!(
            fail(GruAttributes { direction: Direction::Both, ..attributes() }),
            "weight has shape [1, 12, 3], expected [2, 12, 3]"
        );
    }
}
