//! Recurrent networks. Those that WebNN lacks are unrolled over time.

use super::generate::places;
use crate::dimension::Dim;
use crate::dtype::Number;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::Op;
use crate::ops::elementwise::Elementwise as E;
use crate::ops::extension::dynamic_quantize_lstm::DynamicQuantizeLstm;
use crate::ops::gru::{Gru, GruAttributes, GruCell, GruCellAttributes};
use crate::ops::lstm::{Lstm, LstmAttributes, LstmCell, LstmCellAttributes};
use crate::ops::matmul::{Gemm, GemmAttributes};
use crate::ops::recurrent::{Activation, Direction};

/// Operands and sizes shared by the recurrent operators.
struct Sequence {
    /// `[steps, batch, features]`.
    x: OperandId,
    weight: OperandId,
    recurrent_weight: OperandId,
    bias: Option<OperandId>,
    recurrent_bias: Option<OperandId>,
    /// Whether each step belongs to its sequence, `[steps, batch, 1]`; `None` if all do.
    valid: Option<OperandId>,
    steps: Dim,
    batch: Dim,
    hidden: u32,
    direction: Direction,
    /// Whether the batch dimension comes first.
    batchwise: bool,
}

impl Sequence {
    /// The first operands of `lstm()` and `gru()`: the input, the weights and the biases.
    fn operands(&self) -> [Option<OperandId>; 5] {
        [Some(self.x), Some(self.weight), Some(self.recurrent_weight), self.bias, self.recurrent_bias]
    }

    fn new(call: &mut Call, gates: u32) -> Step<Sequence> {
        let (x, weight, recurrent_weight) = (call.input(0)?, call.input(1)?, call.input(2)?);
        let direction = match call.text_or("direction", "forward").as_str() {
            "forward" => Direction::Forward,
            "reverse" => Direction::Backward,
            "bidirectional" => Direction::Both,
            other => return Err(Refusal(format!("direction is {other}"))),
        };
        let batchwise = call.int_or("layout", 0) != 0;
        if call.rank(x) != 3 || call.rank(recurrent_weight) != 3 {
            return Err("the input and its weights must have rank 3".into());
        }
        let x = if batchwise { call.transpose(x, &[1, 0, 2])? } else { x };
        let &[steps, batch, _] = &call.shape(x)[..] else { return Err("the input has no steps".into()) };
        let hidden = call.shape(recurrent_weight)[2].get();
        let valid = valid_steps(call, steps, batch)?;
        let directions = direction.count() as u32;
        let mut biases = [None, None];
        if let Some(bias) = call.optional(3)? {
            let (got, both) = (call.shape(bias), Dim::from(hidden) * gates * 2);
            if got.len() != 2 || got[0] != directions || got[1] != both {
                return Err(Refusal(format!("B has shape {got:?}, expected [{directions}, {both}]")));
            }
            let half = gates * hidden;
            let halves = call.split(bias, &[half, half], 1)?;
            biases = [Some(halves[0]), Some(halves[1])];
        }
        let [bias, recurrent_bias] = biases;
        Ok(Sequence {
            x,
            weight,
            recurrent_weight,
            bias,
            recurrent_bias,
            valid,
            steps,
            batch,
            hidden,
            direction,
            batchwise,
        })
    }

    /// The initial state at `index`, `[directions, batch, hidden]`.
    fn state(&self, call: &mut Call, index: usize) -> Step<Option<OperandId>> {
        let Some(state) = call.optional(index)? else { return Ok(None) };
        if call.rank(state) != 3 {
            return Err(Refusal(format!("input {index} has rank {}, expected 3", call.rank(state))));
        }
        if self.batchwise { call.transpose(state, &[1, 0, 2]).map(Some) } else { Ok(Some(state)) }
    }

    /// The node's outputs, given WebNN's: all states, if requested, and the last ones.
    fn outputs(&self, call: &mut Call, all: Option<OperandId>, last: &[OperandId]) -> Outcome {
        let mut outputs = Vec::new();
        match all {
            // [steps, directions, batch, hidden] to [batch, steps, directions, hidden]
            Some(all) if self.batchwise => outputs.push(Value::Tensor(call.transpose(all, &[2, 0, 1, 3])?)),
            Some(all) => outputs.push(Value::Tensor(all)),
            // No node reads this output.
            None => outputs.push(Value::Unknown),
        }
        for &state in last {
            let state = if self.batchwise { call.transpose(state, &[1, 0, 2])? } else { state };
            outputs.push(Value::Tensor(state));
        }
        Ok(outputs)
    }
}

/// Which steps belong to the sequences of the given lengths, `[steps, batch, 1]`; `None` if all do.
fn valid_steps(call: &mut Call, steps: Dim, batch: Dim) -> Step<Option<OperandId>> {
    let Some(lengths) = call.optional(4)? else { return Ok(None) };
    if call.shape(lengths) != [batch] {
        return Err(Refusal(format!("sequence_lens has shape {:?}, expected [{batch}]", call.shape(lengths))));
    }
    if let Some(known) = call.dims_of(lengths) {
        if known.iter().any(|&length| length < 0 || length > steps) {
            return Err(Refusal(format!("sequence_lens are {known:?}, expected numbers from 0 to {steps}")));
        }
        if known.iter().all(|&length| length == steps) {
            return Ok(None);
        }
    }
    let times = places(call, call.dtype(lengths), steps, 0, 3)?;
    let lengths = call.reshape(lengths, &[Dim::ONE, batch, Dim::ONE])?;
    call.emit(E::Lesser, &[times, lengths]).map(Some)
}

/// The names of the activations of all directions; by default, `defaults` for each direction.
fn activation_names(call: &Call, directions: usize, defaults: &[&str]) -> Step<Vec<String>> {
    let count = directions * defaults.len();
    let names = match call.texts_attribute("activations").filter(|names| !names.is_empty()) {
        Some(names) => names,
        None => defaults.iter().cycle().take(count).map(|name| name.to_string()).collect(),
    };
    match names.len() == count || names.len() == 2 * count && directions == 1 && count == 1 {
        // The default of `RNN` has two names even for one direction.
        true => Ok(names.into_iter().take(count).map(|name| name.to_lowercase()).collect()),
        false => Err(Refusal(format!("activations are {names:?}, expected {count}"))),
    }
}

/// The activations of a network in WebNN, the same for both directions; `None` if WebNN lacks them or they differ.
fn activations(call: &Call, directions: usize, defaults: &[&str]) -> Step<Option<Vec<Activation>>> {
    let names = activation_names(call, directions, defaults)?;
    let (first, second) = names.split_at(defaults.len());
    if call.float_attribute("clip").is_some_and(|clip| clip != 0.0) || !second.is_empty() && first != second {
        return Ok(None);
    }
    let known = first.iter().map(|name| match name.as_str() {
        "relu" => Some(Activation::Relu),
        "sigmoid" => Some(Activation::Sigmoid),
        "tanh" => Some(Activation::Tanh),
        _ => None,
    });
    Ok(known.collect())
}

/// The default activations: of the gates, of the cell gate, and of the new cell state.
const LSTM_ACTIVATIONS: [&str; 3] = ["sigmoid", "tanh", "tanh"];

/// Long short-term memory.
///
/// # Errors
/// If operands or attributes do not match.
pub fn lstm(call: &mut Call) -> Outcome {
    quantized_lstm(call, None)
}

/// The same with quantized recurrent weights, their scales and their zero points, all constants, for networks and devices
/// that have kernels for them. Others read the recurrent weights of the node.
///
/// # Errors
/// If operands or attributes do not match.
pub fn quantized_lstm(call: &mut Call, quantized: Option<[OperandId; 3]>) -> Outcome {
    let sequence = Sequence::new(call, 4)?;
    let (hidden, cell) = (sequence.state(call, 5)?, sequence.state(call, 6)?);
    let activations = activations(call, sequence.direction.count(), &LSTM_ACTIVATIONS)?;
    // WebNN's output gate sees the old cell state through its peephole, ONNX's the new one.
    if call.value(7).is_some() || call.int_or("input_forget", 0) != 0 || activations.is_none() {
        return unrolled_lstm(call, &sequence, [hidden, cell]);
    }
    if sequence.valid.is_some() {
        let attributes = LstmCellAttributes { hidden_size: sequence.hidden, activations, ..Default::default() };
        return cells(call, &sequence, &[hidden, cell], LstmCell { attributes }.into());
    }
    let attributes = LstmAttributes {
        steps: sequence.steps,
        hidden_size: sequence.hidden,
        return_sequence: call.wants(0),
        direction: sequence.direction,
        activations,
        ..Default::default()
    };
    // No peepholes.
    let mut inputs = [&sequence.operands()[..], &[None, hidden, cell]].concat();
    let lstm = Lstm { attributes };
    let outputs = match quantized.filter(|_| call.has_extensions()) {
        Some([weights, scale, zero]) => {
            inputs[2] = Some(weights);
            inputs.extend([Some(scale), Some(zero)]);
            call.emit_all(DynamicQuantizeLstm(lstm), inputs)?
        }
        None => call.emit_all(lstm, inputs)?,
    };
    sequence.outputs(call, outputs.get(2).copied(), &outputs[..2])
}

fn gru(call: &mut Call) -> Outcome {
    let sequence = Sequence::new(call, 3)?;
    let activations = activations(call, sequence.direction.count(), &["sigmoid", "tanh"])?
        .ok_or("expected the activations relu, sigmoid and tanh, the same for both directions, and no clip")?;
    let (hidden, hidden_size) = (sequence.state(call, 5)?, sequence.hidden);
    let (reset_after, activations) = (call.int_or("linear_before_reset", 0) != 0, Some(activations));
    if sequence.valid.is_some() {
        let attributes = GruCellAttributes { hidden_size, reset_after, activations, ..Default::default() };
        return cells(call, &sequence, &[hidden], GruCell { attributes }.into());
    }
    let attributes = GruAttributes {
        steps: sequence.steps,
        hidden_size,
        reset_after,
        return_sequence: call.wants(0),
        direction: sequence.direction,
        activations,
        ..Default::default()
    };
    let inputs = [&sequence.operands()[..], &[hidden]].concat();
    let outputs = call.emit_all(Gru { attributes }, inputs)?;
    sequence.outputs(call, outputs.get(1).copied(), &outputs[..1])
}

/// An activation of an unrolled network.
struct Function {
    name: String,
    alpha: Option<f64>,
    beta: Option<f64>,
    clip: Option<f64>,
}

impl Function {
    fn emit(&self, call: &mut Call, x: OperandId) -> Step<OperandId> {
        let x = match self.clip {
            Some(clip) if clip != 0.0 => {
                call.emit(E::Clamp { min: Number::Float(-clip), max: Number::Float(clip) }, &[x])?
            }
            _ => x,
        };
        let or = |value: Option<f64>, default: f64| value.unwrap_or(default);
        let op = match self.name.as_str() {
            "tanh" => E::Tanh,
            "relu" => E::Relu,
            "sigmoid" => E::Sigmoid,
            "softsign" => E::Softsign,
            "softplus" => E::Softplus,
            "elu" => E::Elu { alpha: or(self.alpha, 1.0) },
            "leakyrelu" => E::LeakyRelu { alpha: or(self.alpha, 0.01) },
            "hardsigmoid" => E::HardSigmoid { alpha: or(self.alpha, 0.2), beta: or(self.beta, 0.5) },
            "affine" => E::Linear { alpha: or(self.alpha, 1.0), beta: or(self.beta, 0.0) },
            "scaledtanh" => {
                let inner = call.scale(x, or(self.beta, 1.0))?;
                let inner = call.emit(E::Tanh, &[inner])?;
                return call.scale(inner, or(self.alpha, 1.0));
            }
            "thresholdedrelu" => {
                let (bound, zero) = (call.scalar_like(x, or(self.alpha, 1.0))?, call.scalar_like(x, 0.0)?);
                let passes = call.emit(E::Greater, &[x, bound])?;
                return call.select(passes, x, zero);
            }
            other => return Err(Refusal(format!("the activation {other} is unknown"))),
        };
        call.emit(op, &[x])
    }
}

/// Whether an activation takes a value from `activation_alpha`, and whether it takes one from `activation_beta`.
fn parameters(name: &str) -> [bool; 2] {
    match name {
        "affine" | "scaledtanh" | "hardsigmoid" => [true, true],
        "leakyrelu" | "thresholdedrelu" | "elu" => [true, false],
        _ => [false, false],
    }
}

/// The activations of all directions. Lists of parameters have entries only for activations that take one.
fn functions(call: &Call, directions: usize, defaults: &[&str]) -> Step<Vec<Function>> {
    let names = activation_names(call, directions, defaults)?;
    let mut alphas = call.floats_attribute("activation_alpha").unwrap_or_default().into_iter();
    let mut betas = call.floats_attribute("activation_beta").unwrap_or_default().into_iter();
    let clip = call.float_attribute("clip");
    let function = |name: String| {
        let [alpha, beta] = parameters(&name);
        let alpha = if alpha { alphas.next() } else { None };
        let beta = if beta { betas.next() } else { None };
        Function { name, alpha, beta, clip }
    };
    Ok(names.into_iter().map(function).collect())
}

fn gemm() -> Gemm {
    Gemm { attributes: GemmAttributes { b_transpose: true, ..Default::default() } }
}

/// Maximum number of time steps to unroll.
const MAX_STEPS: u32 = 4096;

/// Computes the next states, given a direction's number, a time step and the current states, the hidden one first.
type TimeStep<'a> = dyn Fn(&mut Call, usize, usize, &[OperandId]) -> Step<Vec<OperandId>> + 'a;

/// Unrolls a network over time. Steps beyond the length of a sequence keep its states and output zeros. The standard
/// leaves the last states of a sequence without steps undefined; they are zeros, as in onnxruntime.
fn unroll(call: &mut Call, sequence: &Sequence, initial: &[Option<OperandId>], step: &TimeStep) -> Outcome {
    let Sequence { x, valid, steps, batch, hidden, direction, .. } = *sequence;
    let steps = check_steps(steps)?;
    let zero = call.scalar_like(x, 0.0)?;
    let valid = valid.map(|valid| rows(call, valid, steps)).transpose()?;
    let (mut all, mut last) = (Vec::new(), vec![Vec::new(); initial.len()]);
    for number in 0..direction.count() {
        let mut states = Vec::new();
        for initial in initial {
            states.push(match *initial {
                Some(initial) => call.pick(initial, 0, number as u32)?,
                None => call.expand(zero, &[batch, hidden.into()])?,
            });
        }
        let mut shown = vec![None; steps as usize];
        for count in 0..steps as usize {
            let time = direction.time(number, count, steps as usize);
            let mut next = step(call, number, time, &states)?;
            let mut output = next[0];
            if let Some(valid) = &valid {
                output = call.select(valid[time], output, zero)?;
                for (new, old) in next.iter_mut().zip(states) {
                    *new = call.select(valid[time], *new, old)?;
                }
            }
            states = next;
            shown[time] = Some(call.reshape(output, &[Dim::ONE, Dim::ONE, batch, hidden.into()])?);
        }
        if call.wants(0) {
            let shown: Vec<OperandId> = shown.into_iter().flatten().collect();
            all.push(call.concat(&shown, 0)?);
        }
        for ((last, mut state), initial) in last.iter_mut().zip(states).zip(initial) {
            if let (Some(valid), Some(_)) = (&valid, initial) {
                state = call.select(valid[0], state, zero)?;
            }
            last.push(call.reshape(state, &[Dim::ONE, batch, hidden.into()])?);
        }
    }
    let all = if all.is_empty() { None } else { Some(call.concat(&all, 1)?) };
    let last = last.iter().map(|states| call.concat(states, 0)).collect::<Step<Vec<_>>>()?;
    sequence.outputs(call, all, &last)
}

/// The number of steps, each of which becomes operators of its own.
fn check_steps(steps: Dim) -> Step<u32> {
    match steps.get() {
        steps @ 0..=MAX_STEPS => Ok(steps),
        _ => Err(Refusal(format!("{steps} steps cannot be unrolled, expected at most {MAX_STEPS}"))),
    }
}

/// Unrolls a network whose step is `cell`, an `lstmCell()` or `gruCell()`.
fn cells(call: &mut Call, sequence: &Sequence, initial: &[Option<OperandId>], cell: Op) -> Outcome {
    let steps = check_steps(sequence.steps)?;
    let [_, operands @ ..] = sequence.operands();
    let mut directions = Vec::new();
    for number in 0..sequence.direction.count() as u32 {
        let mut picked = [None; 4];
        for (picked, operand) in picked.iter_mut().zip(operands) {
            *picked = operand.map(|operand| call.pick(operand, 0, number)).transpose()?;
        }
        directions.push(picked);
    }
    let inputs = rows(call, sequence.x, steps)?;
    unroll(call, sequence, initial, &|call, direction, time, states| {
        let (weights, biases) = directions[direction].split_at(2);
        let states: Vec<_> = states.iter().copied().map(Some).collect();
        call.emit_all(cell.clone(), [&[Some(inputs[time])], weights, &states, biases].concat())
    })
}

/// The `count` slices of `x` along its first dimension, without that dimension.
fn rows(call: &mut Call, x: OperandId, count: u32) -> Step<Vec<OperandId>> {
    let shape = call.shape(x);
    let rows = call.split(x, &vec![1; count as usize], 0)?;
    rows.into_iter().map(|row| call.reshape(row, &shape[1..])).collect()
}

/// The sums in front of a network's gates, per direction.
struct Gates {
    /// For each step, the product of input and weights plus the biases. All steps are computed at once.
    products: Vec<Vec<OperandId>>,
    /// The weights of the hidden state.
    recurrent: Vec<OperandId>,
}

impl Gates {
    fn new(call: &mut Call, sequence: &Sequence) -> Step<Gates> {
        let Sequence { x, steps, batch, .. } = *sequence;
        let count = check_steps(steps)?;
        let features = call.shape(x)[2];
        let flat = call.reshape(x, &[steps * batch, features])?;
        let (mut products, mut recurrent) = (Vec::new(), Vec::new());
        for at in 0..sequence.direction.count() as u32 {
            let weight = call.pick(sequence.weight, 0, at)?;
            recurrent.push(call.pick(sequence.recurrent_weight, 0, at)?);
            let mut bias = None;
            if let (Some(a), Some(b)) = (sequence.bias, sequence.recurrent_bias) {
                let (a, b) = (call.pick(a, 0, at)?, call.pick(b, 0, at)?);
                bias = Some(call.add(a, b)?);
            }
            let product = call.emit_all(gemm(), vec![Some(flat), Some(weight), bias])?[0];
            let width = call.shape(product)[1];
            let product = call.reshape(product, &[steps, batch, width])?;
            products.push(rows(call, product, count)?);
        }
        Ok(Gates { products, recurrent })
    }

    /// `x W + h R + biases` of all gates.
    fn sum(&self, call: &mut Call, direction: usize, time: usize, hidden: OperandId) -> Step<OperandId> {
        let inputs = [hidden, self.recurrent[direction], self.products[direction][time]];
        call.emit(gemm(), &inputs)
    }
}

fn rnn(call: &mut Call) -> Outcome {
    let sequence = Sequence::new(call, 1)?;
    let functions = functions(call, sequence.direction.count(), &["tanh"])?;
    let (initial, gates) = (sequence.state(call, 5)?, Gates::new(call, &sequence)?);
    unroll(call, &sequence, &[initial], &|call, direction, time, states| {
        let sum = gates.sum(call, direction, time, states[0])?;
        Ok(vec![functions[direction].emit(call, sum)?])
    })
}

/// An LSTM that WebNN lacks: with peepholes, coupled gates, or other activations.
fn unrolled_lstm(call: &mut Call, sequence: &Sequence, initial: [Option<OperandId>; 2]) -> Outcome {
    let mut functions = functions(call, sequence.direction.count(), &LSTM_ACTIVATIONS)?;
    // Gates are clipped, the cell state is not.
    functions.iter_mut().skip(2).step_by(3).for_each(|output| output.clip = None);
    let (hidden, coupled) = (sequence.hidden, call.int_or("input_forget", 0) != 0);
    let mut peepholes = Vec::new();
    if let Some(weights) = call.optional(7)? {
        for direction in 0..sequence.direction.count() {
            let weights = call.pick(weights, 0, direction as u32)?;
            peepholes.push(call.split(weights, &[hidden; 3], 0)?);
        }
    }
    let sums = Gates::new(call, sequence)?;
    unroll(call, sequence, &initial, &|call, direction, time, states| {
        let sum = sums.sum(call, direction, time, states[0])?;
        let [gate, update, output] = &functions[3 * direction..][..3] else { unreachable!("three functions") };
        // Gate `at` (input, output, forget), with its peephole to a cell state.
        let peeped = |call: &mut Call, x: OperandId, at: usize, cell: OperandId| -> Step<OperandId> {
            let x = match peepholes.get(direction) {
                Some(weights) => {
                    let seen = call.mul(weights[at], cell)?;
                    call.add(x, seen)?
                }
                None => x,
            };
            gate.emit(call, x)
        };
        let old = states[1];
        let gates = call.split(sum, &[hidden; 4], 1)?;
        let i = peeped(call, gates[0], 0, old)?;
        let f = match coupled {
            true => call.emit(E::Linear { alpha: -1.0, beta: 1.0 }, &[i])?,
            false => peeped(call, gates[2], 2, old)?,
        };
        let new = update.emit(call, gates[3])?;
        let (kept, added) = (call.mul(f, old)?, call.mul(i, new)?);
        let cell = call.add(kept, added)?;
        let o = peeped(call, gates[1], 1, cell)?;
        let shown = output.emit(call, cell)?;
        Ok(vec![call.mul(o, shown)?, cell])
    })
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("GRU", "activations relu, sigmoid, tanh; no clip", gru),
    standard("LSTM", "", lstm),
    standard("RNN", "", rnn),
];

#[cfg(test)]
mod tests {
    use crate::dtype::DataType;
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;
    use crate::ops::tensor::Tensor;
    use crate::shape::Descriptor;
    use std::collections::HashMap;

    fn lstm(inputs: &str, attributes: Vec<(&str, Attr)>) -> TestGraph {
        let graph = TestGraph::default().input("x", Float, &["3", "2", "4"]).input("w", Float, &["1", "20", "4"]);
        let graph = graph.input("r", Float, &["1", "20", "5"]).input("p", Float, &["1", "15"]);
        graph.raw("n", Int32, &[2], &[3, 0, 0, 0, 2, 0, 0, 0]).node("LSTM", inputs, "y h c", attributes).output("y")
    }

    #[test]
    fn only_unsupported_networks_are_unrolled() {
        let text = lstm("x w r", vec![]).text(14);
        assert!(text.contains("= lstm ") && text.contains("returnSequence=true"), "{text}");
        let text = lstm("x w r _ _ _ _ p", vec![]).text(14);
        assert!(!text.contains("lstm") && text.matches("= gemm ").count() == 4, "{text}");
        let text = lstm("x w r", vec![("activations", Attr::Texts(&["Sigmoid", "Softsign", "Tanh"]))]).text(14);
        assert_eq!(text.matches("softsign").count(), 3, "{text}");
    }

    #[test]
    fn lengths_of_sequences_mask_the_steps() {
        let text = lstm("x w r _ n", vec![]).text(14);
        assert_eq!(text.matches("= lstmCell ").count(), 3, "{text}");
        // No node reads the last states.
        assert_eq!(text.matches("= where ").count(), 7, "{text}");
        let text = lstm("x w r _ n _ _ p", vec![]).text(14);
        assert_eq!((text.matches("= gemm ").count(), text.matches("= where ").count()), (4, 7), "{text}");
        // All steps are valid: nothing is unrolled.
        let text = lstm("x w r _ full", vec![]).raw("full", Int32, &[2], &[3, 0, 0, 0, 3, 0, 0, 0]).text(14);
        assert!(text.contains("= lstm ") && !text.contains("where"), "{text}");
    }

    /// The outputs of a bidirectional network with 2 features and hidden size 3, for `x` `[steps, batch, 2]`.
    fn outputs(operator: &str, gates: i64, [steps, batch]: [usize; 2], x: &[f32], lengths: &[i32]) -> [Vec<f32>; 2] {
        let weights: Vec<f32> = (0..2 * gates * 9).map(|at| (at * 7 % 11) as f32 / 11.0 - 0.4).collect();
        let dims = [steps.to_string(), batch.to_string()];
        let graph = TestGraph::default().input("x", Float, &[&dims[0], &dims[1], "2"]);
        let graph = graph.floats("w", &[2, 3 * gates, 2], &weights[..12 * gates as usize]);
        let graph = graph.floats("r", &[2, 3 * gates, 3], &weights);
        let (graph, inputs) = match lengths {
            [] => (graph, "x w r"),
            _ => (graph.input("n", Int32, &[&dims[1]]), "x w r _ n"),
        };
        let graph = graph.node(operator, inputs, "y h", vec![("direction", Attr::Text("bidirectional"))]);
        let graph = graph.output("y").output("h").import(14, &Default::default()).unwrap();
        let tensor = |dtype, shape: &[usize], bytes: Vec<u8>| {
            let shape: Vec<u32> = shape.iter().map(|&size| size as u32).collect();
            Tensor::from_bytes(&Descriptor::new(dtype, shape), &bytes)
        };
        let x = tensor(DataType::Float32, &[steps, batch, 2], x.iter().flat_map(|x| x.to_le_bytes()).collect());
        let mut inputs = HashMap::from([("x".to_string(), x)]);
        if !lengths.is_empty() {
            let n = lengths.iter().flat_map(|n| n.to_le_bytes()).collect();
            inputs.insert("n".to_string(), tensor(DataType::Int32, &[batch], n));
        }
        let mut outputs = crate::reference::run(&graph, &inputs);
        ["y", "h"].map(|name| {
            let bytes = outputs.remove(name).unwrap().to_bytes();
            bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        })
    }

    #[test]
    fn sequences_in_a_batch_match_those_computed_alone() {
        let (lengths, steps, batch) = ([2, 4, 1], 4, 3);
        let x: Vec<f32> = (0..steps * batch * 2).map(|at| (at * 5 % 13) as f32 / 6.0 - 1.0).collect();
        let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
        for (operator, gates) in [("GRU", 3), ("LSTM", 4), ("RNN", 1)] {
            let [y, h] = outputs(operator, gates, [steps, batch], &x, &lengths);
            for (entry, &length) in lengths.iter().enumerate() {
                let length = length as usize;
                let own: Vec<f32> = (0..length).flat_map(|at| &x[(at * batch + entry) * 2..][..2]).copied().collect();
                let [own_y, own_h] = outputs(operator, gates, [length, 1], &own, &[]);
                for direction in 0..2 {
                    let place = direction * batch + entry;
                    assert!(close(&h[place * 3..][..3], &own_h[direction * 3..][..3]), "{operator} {entry}");
                    for at in 0..steps {
                        let got = &y[(at * 2 * batch + place) * 3..][..3];
                        let expected = if at < length { &own_y[(at * 2 + direction) * 3..][..3] } else { &[0.0; 3] };
                        assert!(close(got, expected), "{operator} {entry} [{at}]: {got:?}, expected {expected:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn invalid_sequence_lengths_are_refused() {
        let refusal = |name: &str, dims: &[i64], lengths: &[i32]| {
            let bytes: Vec<u8> = lengths.iter().flat_map(|length| length.to_le_bytes()).collect();
            lstm(&format!("x w r _ {name}"), vec![]).raw(name, Int32, dims, &bytes).refusal(14)
        };
        let message = refusal("long", &[2], &[3, 4]);
        assert!(message.contains("sequence_lens are [3, 4], expected numbers from 0 to 3"), "{message}");
        assert!(refusal("negative", &[2], &[-1, 3]).contains("expected numbers from 0 to 3"));
        assert!(refusal("few", &[1], &[3]).contains("sequence_lens has shape [1], expected [2]"));
    }
}
