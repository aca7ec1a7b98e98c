//! What the recurrent operators share: activations, directions, checks of shapes, and naive unrolling over time.

use super::tensor::Tensor;
use super::{Inputs, Tensors, given, required};
use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::error::Problem;
use crate::shape::{Descriptor, is_valid_dimension};
use ndarray::{Array1, Array2, ArrayD, Axis, Ix2, s};

crate::enumeration! {
    /// `MLRecurrentNetworkActivation`.
    #[expect(missing_docs, reason = "the names are the functions")]
    pub enum Activation {
        Relu = "relu",
        Sigmoid = "sigmoid",
        Tanh = "tanh",
    }
}

impl Activation {
    /// The function in float64. NaN stays NaN.
    pub fn eval(self, x: f64) -> f64 {
        match self {
            Activation::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Activation::Tanh => x.tanh(),
        }
    }
}

/// The attribute `activations`, or `default` if it is missing.
///
/// # Errors
/// If there are not exactly `N`.
pub fn activations<const N: usize>(
    given: &Option<Vec<Activation>>,
    default: [Activation; N],
) -> Result<[Activation; N], Problem> {
    let Some(list) = given else { return Ok(default) };
    list.as_slice().try_into().map_err(|_| {
        let names: Vec<_> = list.iter().map(|activation| activation.name()).collect();
        let expected = format!("{N} activation functions");
        Problem::attribute_value("activations", format!("[{}]", names.join(", ")), expected)
    })
}

crate::enumeration! {
    /// `MLRecurrentNetworkDirection`.
    pub enum Direction {
        /// From the first time step to the last.
        Forward = "forward",
        /// From the last time step to the first.
        Backward = "backward",
        /// Both, with separate weights.
        Both = "both",
    }
}

impl Direction {
    /// Number of directions.
    pub fn count(self) -> usize {
        if self == Direction::Both { 2 } else { 1 }
    }

    /// The time step of direction number `direction` at its `step`-th of `steps`.
    pub fn time(self, direction: usize, step: usize, steps: usize) -> usize {
        if direction == 1 || self == Direction::Backward { steps - 1 - step } else { step }
    }
}

/// Checks that the operand, if present, has the shape `expected`.
///
/// # Errors
/// If it has a different shape.
pub(crate) fn expect_shape(operand: &'static str, got: Option<&Descriptor>, expected: &[Dim]) -> Result<(), Problem> {
    match got {
        Some(got) if got.shape != expected => {
            Err(Problem::Shape { operand, got: got.shape.clone(), expected: expected.to_vec() })
        }
        _ => Ok(()),
    }
}

/// Checks that the biases of `2 * gates` gates fit into one dimension.
///
/// # Errors
/// If they do not, or the hidden size is 0.
fn check_hidden_size(hidden_size: u32, gates: u32) -> Result<(), Problem> {
    let bias = hidden_size as u64 * 2 * gates as u64;
    if is_valid_dimension(bias) {
        return Ok(());
    }
    let expected = format!("a number above 0, {} times which is a valid dimension", 2 * gates);
    Err(Problem::attribute("hiddenSize", hidden_size, expected))
}

/// Checks the attribute `steps` against the first dimension of the input.
///
/// # Errors
/// If they differ. The dimension is never 0.
fn check_steps(steps: Dim, input: &Descriptor) -> Result<(), Problem> {
    if input.shape[0] == steps {
        return Ok(());
    }
    Err(Problem::attribute("steps", steps, format!("the first dimension of input, which is {}", input.shape[0])))
}

/// The parameters that determine the shapes of an operator over time steps. `input`, `weight`, `recurrentWeight`,
/// `bias` and `recurrentBias` are its first operands.
#[derive(Clone, Copy)]
pub(super) struct Sequence {
    /// Number of gates.
    pub gates: u32,
    /// Number of states.
    pub states: usize,
    /// The attribute `steps`.
    pub steps: Dim,
    /// The attribute `hiddenSize`.
    pub hidden_size: u32,
    /// The attribute `direction`.
    pub direction: Direction,
    /// The attribute `returnSequence`.
    pub return_sequence: bool,
}

impl Sequence {
    /// Checks the attributes and the shapes of weights and biases. Returns the shape of a state,
    /// `[directions, batch, hidden size]`.
    ///
    /// # Errors
    /// If an attribute is out of range or a shape does not match.
    pub fn check(&self, inputs: &Inputs) -> Result<[Dim; 3], Problem> {
        let (input, hidden) = (required(inputs, 0), self.hidden_size);
        check_steps(self.steps, input)?;
        check_hidden_size(hidden, self.gates)?;
        let [directions, rows, hidden] = [self.direction.count() as u32, self.gates * hidden, hidden].map(Dim::from);
        expect_shape("weight", given(inputs, 1), &[directions, rows, input.shape[2]])?;
        expect_shape("recurrentWeight", given(inputs, 2), &[directions, rows, hidden])?;
        expect_shape("bias", given(inputs, 3), &[directions, rows])?;
        expect_shape("recurrentBias", given(inputs, 4), &[directions, rows])?;
        Ok([directions, input.shape[1], hidden])
    }

    /// The last states, each of the shape `state`, and the hidden states of all time steps if requested.
    pub fn outputs(&self, dtype: DataType, state: [Dim; 3]) -> Vec<Descriptor> {
        let mut outputs = vec![Descriptor::new(dtype, state); self.states];
        if self.return_sequence {
            let [directions, batch, hidden] = state;
            outputs.push(Descriptor::new(dtype, [self.steps, directions, batch, hidden]));
        }
        outputs
    }
}

/// Checks the hidden size and shapes of an operator for one time step: `input`, `weight`, `recurrentWeight`, the
/// operands named in `states`, `bias` and `recurrentBias` are its first operands. Returns its outputs.
///
/// # Errors
/// If the hidden size is out of range or a shape does not match.
pub(super) fn infer_cell<const N: usize>(
    inputs: &Inputs,
    hidden_size: u32,
    gates: u32,
    states: [&'static str; N],
) -> Result<Vec<Descriptor>, Problem> {
    check_hidden_size(hidden_size, gates)?;
    let input = required(inputs, 0);
    let [rows, hidden_size] = [gates * hidden_size, hidden_size].map(Dim::from);
    let (batch, features) = (input.shape[0], input.shape[1]);
    expect_shape("weight", given(inputs, 1), &[rows, features])?;
    expect_shape("recurrentWeight", given(inputs, 2), &[rows, hidden_size])?;
    for (index, state) in states.into_iter().enumerate() {
        expect_shape(state, given(inputs, 3 + index), &[batch, hidden_size])?;
    }
    expect_shape("bias", given(inputs, 3 + N), &[rows])?;
    expect_shape("recurrentBias", given(inputs, 4 + N), &[rows])?;
    Ok(vec![Descriptor::new(input.dtype, [batch, hidden_size]); N])
}

/// Multiply-adds of the products with `weight` and `recurrentWeight`, operands 1 and 2, over all directions, time steps
/// and rows of the batch. The input is `[steps, batch, input size]`, or `[batch, input size]` for a single step.
pub(super) fn multiply_adds(inputs: &Inputs) -> u64 {
    let [input, weight, recurrent] = [0, 1, 2].map(|index| required(inputs, index));
    let input = input.sizes();
    let (_, rows) = input.split_last().expect("the rule requires rank 2");
    crate::shape::elements(rows) as u64 * (weight.elements() + recurrent.elements()) as u64
}

/// A matrix of the oracle: the tensor itself, or its part for one direction.
pub(super) fn matrix(tensor: &Tensor, direction: Option<usize>) -> Array2<f64> {
    let part = match direction {
        Some(index) => tensor.floats().index_axis(Axis(0), index).to_owned(),
        None => tensor.floats().to_owned(),
    };
    part.into_dimensionality::<Ix2>().expect("the rule gives the rank")
}

/// A vector of the oracle, or zeros if the operand is missing.
pub(super) fn vector(tensor: Option<&Tensor>, direction: Option<usize>, length: usize) -> Array1<f64> {
    let Some(tensor) = tensor else { return Array1::zeros(length) };
    let flat: Array1<f64> = tensor.floats().iter().copied().collect();
    let start = direction.unwrap_or(0) * length;
    flat.slice(s![start..start + length]).to_owned()
}

/// The weights of one direction in the oracle. Gates follow one another along the rows.
pub(super) struct Weights {
    /// `[gates * hidden size, input size]`
    input: Array2<f64>,
    /// `[gates * hidden size, hidden size]`
    recurrent: Array2<f64>,
    /// `[gates * hidden size]`
    bias: Array1<f64>,
    /// `[gates * hidden size]`
    recurrent_bias: Array1<f64>,
}

impl Weights {
    /// The weights of `direction`, or of an operator for one time step. `bias` is the index of that operand;
    /// `recurrentBias` follows it.
    pub fn new(inputs: &Tensors, direction: Option<usize>, bias: usize) -> Weights {
        let input = matrix(required(inputs, 1), direction);
        let rows = input.nrows();
        Weights {
            input,
            recurrent: matrix(required(inputs, 2), direction),
            bias: vector(given(inputs, bias), direction, rows),
            recurrent_bias: vector(given(inputs, bias + 1), direction, rows),
        }
    }

    /// `x * W^T + bias` for the gate at position `gate` of the layout: `[batch, hidden size]`.
    pub fn of_input(&self, gate: usize, x: &Array2<f64>) -> Array2<f64> {
        let rows = self.rows(gate);
        x.dot(&self.input.slice(s![rows.clone(), ..]).t()) + self.bias.slice(s![rows])
    }

    /// `h * R^T + recurrent bias` for the gate at position `gate` of the layout: `[batch, hidden size]`.
    pub fn of_hidden(&self, gate: usize, h: &Array2<f64>) -> Array2<f64> {
        let rows = self.rows(gate);
        h.dot(&self.recurrent.slice(s![rows.clone(), ..]).t()) + self.recurrent_bias.slice(s![rows])
    }

    fn rows(&self, gate: usize) -> std::ops::Range<usize> {
        let hidden = self.recurrent.ncols();
        gate * hidden..(gate + 1) * hidden
    }
}

/// The states of all directions after the last step, and the first state after each step, at the step's position in
/// time.
pub(super) struct Unrolled<const N: usize> {
    /// Each `[directions, batch, hidden size]`.
    last: [ArrayD<f64>; N],
    /// `[steps, directions, batch, hidden size]`
    sequence: ArrayD<f64>,
}

impl<const N: usize> Unrolled<N> {
    /// The tensors of an operator with these outputs.
    pub fn into_tensors(self, outputs: &[Descriptor]) -> Vec<Tensor> {
        let arrays = self.last.into_iter().chain([self.sequence]);
        arrays.zip(outputs).map(|(array, output)| Tensor::float(output.dtype, array)).collect()
    }
}

/// Runs `cell` (direction, input of the time step, states) over all time steps of `input`. `initial` states are
/// `[directions, batch, hidden size]` each, zero by default.
pub(super) fn unroll<const N: usize>(
    direction: Direction,
    input: &Tensor,
    hidden: usize,
    initial: [Option<&Tensor>; N],
    cell: impl Fn(usize, &Array2<f64>, [Array2<f64>; N]) -> [Array2<f64>; N],
) -> Unrolled<N> {
    let (steps, batch) = (input.shape()[0], input.shape()[1]);
    let mut last: [ArrayD<f64>; N] =
        std::array::from_fn(|_| ArrayD::zeros([direction.count(), batch, hidden].as_slice()));
    let mut sequence = ArrayD::zeros([steps, direction.count(), batch, hidden].as_slice());
    for d in 0..direction.count() {
        let mut states =
            initial.map(|state| state.map_or(Array2::zeros((batch, hidden)), |state| matrix(state, Some(d))));
        for step in 0..steps {
            let time = direction.time(d, step, steps);
            states = cell(d, &matrix(input, Some(time)), states);
            sequence.slice_mut(s![time, d, .., ..]).assign(&states[0]);
        }
        last.iter_mut().zip(states).for_each(|(last, state)| last.index_axis_mut(Axis(0), d).assign(&state));
    }
    Unrolled { last, sequence }
}
