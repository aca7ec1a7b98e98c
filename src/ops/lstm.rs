//! Long short-term memory: sections "lstm" and "lstmCell" of the draft.

use super::attributes::Attributes;
use super::recurrent::{
    Activation, Direction, Sequence, Weights, activations, expect_shape, infer_cell, matrix, multiply_adds, unroll,
    vector,
};
use super::rule::*;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, given, required, row};
use crate::dimension::Dim;
use crate::error::Problem;
use crate::shape::Descriptor;
use ndarray::{Array1, Array2, s};

crate::enumeration! {
    /// `MLLstmWeightLayout`: the order of the gates in weights and biases.
    pub enum LstmLayout {
        /// input, output, forget, cell
        Iofg = "iofg",
        /// input, forget, cell, output
        Ifgo = "ifgo",
    }
}

impl LstmLayout {
    /// The positions of the input, output, forget and cell gate.
    pub fn places(self) -> [usize; 4] {
        match self {
            LstmLayout::Iofg => [0, 1, 2, 3],
            LstmLayout::Ifgo => [0, 3, 1, 2],
        }
    }
}

const DEFAULT_ACTIVATIONS: [Activation; 3] = [Activation::Sigmoid, Activation::Tanh, Activation::Tanh];

crate::attributes! {
    /// The arguments of `lstm()` and `MLLstmOptions`.
    pub struct LstmAttributes {
        /// Number of time steps.
        steps "steps": Dim = Dim::number(0),
        /// Number of features of the hidden state.
        hidden_size "hiddenSize": u32 = 0,
        /// Whether the hidden states of all time steps are an output.
        return_sequence "returnSequence": bool = false,
        /// The order of time steps.
        direction "direction": Direction = Direction::Forward,
        /// The order of the gates.
        layout "layout": LstmLayout = LstmLayout::Iofg,
        /// The activations of the input, forget and output gates, of the cell gate, and of the new cell state.
        activations "activations": Option<Vec<Activation>> = None,
    }
}

/// `lstm()`. Operands are `input`, `weight`, `recurrentWeight` and the optional `bias`, `recurrentBias`,
/// `peepholeWeight`, `initialHiddenState`, `initialCellState`.
#[derive(Clone, Debug, PartialEq)]
pub struct Lstm {
    /// The arguments and options.
    pub attributes: LstmAttributes,
}

crate::attributes! {
    /// The arguments of `lstmCell()` and `MLLstmCellOptions`.
    pub struct LstmCellAttributes {
        /// Number of features of the hidden state.
        hidden_size "hiddenSize": u32 = 0,
        /// The order of the gates.
        layout "layout": LstmLayout = LstmLayout::Iofg,
        /// The activations of the input, forget and output gates, of the cell gate, and of the new cell state.
        activations "activations": Option<Vec<Activation>> = None,
    }
}

/// `lstmCell()`. Operands are `input`, `weight`, `recurrentWeight`, `hiddenState`, `cellState` and the optional `bias`,
/// `recurrentBias`, `peepholeWeight`.
#[derive(Clone, Debug, PartialEq)]
pub struct LstmCell {
    /// The arguments and options.
    pub attributes: LstmCellAttributes,
}

/// The computation of a time step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LstmFunction {
    /// The positions of the input, output, forget and cell gate in weights and biases.
    pub places: [usize; 4],
    /// The activations of the input, forget and output gates, of the cell gate, and of the new cell state.
    pub activations: [Activation; 3],
}

impl LstmFunction {
    /// The hidden and cell state after a time step with the input `x`, all `[batch, ..]`. `peephole` holds the
    /// weights of the input, output and forget gate.
    fn reference(
        &self,
        weights: &Weights,
        peephole: &Array1<f64>,
        x: &Array2<f64>,
        [h, c]: [Array2<f64>; 2],
    ) -> [Array2<f64>; 2] {
        let [i, o, f, g] = self.places;
        let [gate, cell, filter] = self.activations;
        let hidden = h.ncols();
        let product = |place| weights.of_input(place, x) + weights.of_hidden(place, &h);
        let peep = |index: usize| &c * &peephole.slice(s![index * hidden..(index + 1) * hidden]);
        let i = (peep(0) + product(i)).mapv(|v| gate.eval(v));
        let f = (peep(2) + product(f)).mapv(|v| gate.eval(v));
        let g = product(g).mapv(|v| cell.eval(v));
        let o = (peep(1) + product(o)).mapv(|v| gate.eval(v));
        let c = f * &c + i * g;
        [o * c.mapv(|v| filter.eval(v)), c]
    }
}

impl Lstm {
    /// The computation of a time step.
    ///
    /// # Errors
    /// If there are not exactly three activations.
    pub fn function(&self) -> Result<LstmFunction, Problem> {
        function(self.attributes.layout, &self.attributes.activations)
    }

    fn sequence(&self) -> Sequence {
        let LstmAttributes { steps, hidden_size, direction, return_sequence, .. } = self.attributes;
        Sequence { gates: 4, states: 2, steps, hidden_size, direction, return_sequence }
    }
}

impl LstmCell {
    /// The computation of the time step.
    ///
    /// # Errors
    /// If there are not exactly three activations.
    pub fn function(&self) -> Result<LstmFunction, Problem> {
        function(self.attributes.layout, &self.attributes.activations)
    }
}

fn function(layout: LstmLayout, given: &Option<Vec<Activation>>) -> Result<LstmFunction, Problem> {
    Ok(LstmFunction { places: layout.places(), activations: activations(given, DEFAULT_ACTIVATIONS)? })
}

const INPUT: Types = Types::SameAs("input");

impl NamedOperator for Lstm {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "lstm",
        operands: &[
            operand("input", FLOATS, (3, 3)),
            operand("weight", INPUT, (3, 3)),
            operand("recurrentWeight", INPUT, (3, 3)),
            optional("bias", INPUT, (2, 2)),
            optional("recurrentBias", INPUT, (2, 2)),
            optional("peepholeWeight", INPUT, (2, 2)),
            optional("initialHiddenState", INPUT, (3, 3)),
            optional("initialCellState", INPUT, (3, 3)),
        ],
        outputs: &[
            output("output0", INPUT, (3, 3)),
            output("output1", INPUT, (3, 3)),
            output("output2", INPUT, (4, 4)),
        ],
    }];

    fn read(_: &str, attributes: &mut Attributes) -> Result<Lstm, Problem> {
        Ok(Lstm { attributes: LstmAttributes::read(attributes)? })
    }
}

impl Operator for Lstm {
    fn rule(&self) -> &'static OpRule {
        row(Self::RULES, "lstm")
    }

    fn write(&self, attributes: &mut Attributes) {
        self.attributes.write(attributes);
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        visit(&mut self.attributes.steps);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let sequence = self.sequence();
        let state @ [directions, _, hidden] = sequence.check(inputs)?;
        expect_shape("peepholeWeight", given(inputs, 5), &[directions, hidden * 3])?;
        expect_shape("initialHiddenState", given(inputs, 6), &state)?;
        expect_shape("initialCellState", given(inputs, 7), &state)?;
        self.function()?;
        Ok(sequence.outputs(required(inputs, 0).dtype, state))
    }

    fn multiply_adds(&self, inputs: &Inputs, _: &[&Descriptor]) -> u64 {
        multiply_adds(inputs)
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let hidden = self.attributes.hidden_size as usize;
        let function = self.function().expect("inferred");
        let initial = [given(inputs, 6), given(inputs, 7)];
        let unrolled = unroll(self.attributes.direction, required(inputs, 0), hidden, initial, |d, x, states| {
            let peephole = vector(given(inputs, 5), Some(d), 3 * hidden);
            function.reference(&Weights::new(inputs, Some(d), 3), &peephole, x, states)
        });
        unrolled.into_tensors(outputs)
    }
}

impl NamedOperator for LstmCell {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "lstmCell",
        operands: &[
            operand("input", FLOATS, (2, 2)),
            operand("weight", INPUT, (2, 2)),
            operand("recurrentWeight", INPUT, (2, 2)),
            operand("hiddenState", INPUT, (2, 2)),
            operand("cellState", INPUT, (2, 2)),
            optional("bias", INPUT, (1, 1)),
            optional("recurrentBias", INPUT, (1, 1)),
            optional("peepholeWeight", INPUT, (1, 1)),
        ],
        outputs: &[output("output0", INPUT, (2, 2)), output("output1", INPUT, (2, 2))],
    }];

    fn read(_: &str, attributes: &mut Attributes) -> Result<LstmCell, Problem> {
        Ok(LstmCell { attributes: LstmCellAttributes::read(attributes)? })
    }
}

impl Operator for LstmCell {
    fn rule(&self) -> &'static OpRule {
        row(Self::RULES, "lstmCell")
    }

    fn write(&self, attributes: &mut Attributes) {
        self.attributes.write(attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let hidden = self.attributes.hidden_size;
        let outputs = infer_cell(inputs, hidden, 4, ["hiddenState", "cellState"])?;
        expect_shape("peepholeWeight", given(inputs, 7), &[Dim::from(3 * hidden)])?;
        self.function()?;
        Ok(outputs)
    }

    fn multiply_adds(&self, inputs: &Inputs, _: &[&Descriptor]) -> u64 {
        multiply_adds(inputs)
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let hidden = self.attributes.hidden_size as usize;
        let weights = Weights::new(inputs, None, 5);
        let peephole = vector(given(inputs, 7), None, 3 * hidden);
        let [x, h, c] = [0, 3, 4].map(|index| matrix(required(inputs, index), None));
        let states = self.function().expect("inferred").reference(&weights, &peephole, &x, [h, c]);
        states.map(|state| Tensor::float(outputs[0].dtype, state.into_dyn())).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType::Float32;

    fn infer(op: impl Operator, shapes: &[Option<&[u32]>]) -> Result<Vec<Vec<u32>>, String> {
        let descriptors: Vec<_> = shapes.iter().map(|s| s.map(|s| Descriptor::new(Float32, s))).collect();
        let outputs = op.infer(&descriptors.iter().map(Option::as_ref).collect::<Vec<_>>());
        outputs
            .map(|outputs| outputs.into_iter().map(|output| output.sizes().to_vec()).collect())
            .map_err(|problem| problem.to_string())
    }

    #[test]
    fn shapes() {
        let attributes = LstmAttributes { steps: Dim::number(5), hidden_size: 4, ..Default::default() };
        let shapes: [Option<&[u32]>; 3] = [Some(&[5, 2, 3]), Some(&[1, 16, 3]), Some(&[1, 16, 4])];
        assert_eq!(infer(Lstm { attributes: attributes.clone() }, &shapes).unwrap(), vec![vec![1, 2, 4]; 2]);
        let both = LstmAttributes { direction: Direction::Both, return_sequence: true, ..attributes };
        let shapes: [Option<&[u32]>; 8] = [
            Some(&[5, 2, 3]),
            Some(&[2, 16, 3]),
            Some(&[2, 16, 4]),
            Some(&[2, 16]),
            Some(&[2, 16]),
            Some(&[2, 12]),
            Some(&[2, 2, 4]),
            Some(&[2, 2, 4]),
        ];
        let expected = [vec![2, 2, 4], vec![2, 2, 4], vec![5, 2, 2, 4]];
        assert_eq!(infer(Lstm { attributes: both }, &shapes).unwrap(), expected);
        let cell = LstmCell { attributes: LstmCellAttributes { hidden_size: 4, ..Default::default() } };
        let shapes: [Option<&[u32]>; 8] = [
            Some(&[2, 3]),
            Some(&[16, 3]),
            Some(&[16, 4]),
            Some(&[2, 4]),
            Some(&[2, 4]),
            None,
            Some(&[16]),
            Some(&[12]),
        ];
        assert_eq!(infer(cell, &shapes).unwrap(), vec![vec![2, 4]; 2]);
    }

    #[test]
    fn mismatches_are_named() {
        let attributes = || LstmAttributes { steps: Dim::number(1), hidden_size: 4, ..Default::default() };
        let fail = |attributes, bias: &[u32], peephole: &[u32]| {
            let shapes: [Option<&[u32]>; 6] =
                [Some(&[1, 2, 3]), Some(&[1, 16, 3]), Some(&[1, 16, 4]), Some(bias), None, Some(peephole)];
            infer(Lstm { attributes }, &shapes).unwrap_err()
        };
        assert_eq!(fail(attributes(), &[1, 12], &[1, 12]), "bias has shape [1, 12], expected [1, 16]");
        assert_eq!(fail(attributes(), &[1, 16], &[1, 16]), "peepholeWeight has shape [1, 16], expected [1, 12]");
        assert_eq!(
            fail(LstmAttributes { hidden_size: 1 << 30, ..attributes() }, &[1, 16], &[1, 12]),
            "hiddenSize is 1073741824, expected a number above 0, 8 times which is a valid dimension"
        );
        assert_eq!(
            fail(LstmAttributes { activations: Some(vec![]), ..attributes() }, &[1, 16], &[1, 12]),
            "activations is [], expected 3 activation functions"
        );
    }
}
