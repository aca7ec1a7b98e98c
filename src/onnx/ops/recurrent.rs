//! Recurrent networks. Those that WebNN does not have are unrolled over time.

use crate::dtype::Number;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::gru::{Gru, GruAttributes};
use crate::ops::lstm::{Lstm, LstmAttributes};
use crate::ops::matmul::{Gemm, GemmAttributes};
use crate::ops::recurrent::{Activation, Direction};

/// Operands and sizes that the recurrent operators share.
struct Sequence {
    /// `[steps, batch, features]`.
    x: OperandId,
    weight: OperandId,
    recurrent_weight: OperandId,
    bias: Option<OperandId>,
    recurrent_bias: Option<OperandId>,
    steps: u32,
    batch: u32,
    hidden: u32,
    direction: Direction,
    /// Whether batches come first.
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
            return Err("the input and its weights have another rank than 3".into());
        }
        let x = if batchwise { call.transpose(x, &[1, 0, 2])? } else { x };
        let &[steps, batch, _] = &call.sizes(x)[..] else { return Err("the input has no steps".into()) };
        let hidden = call.sizes(recurrent_weight)[2];
        check_lengths(call, steps)?;
        let directions = direction.count() as u32;
        let mut biases = [None, None];
        if let Some(bias) = call.optional(3)? {
            let (got, both) = (call.sizes(bias), 2 * gates as u64 * hidden as u64);
            if got.len() != 2 || got[0] != directions || got[1] as u64 != both {
                return Err(Refusal(format!("B has shape {got:?}, expected [{directions}, {both}]")));
            }
            let half = gates * hidden;
            let halves = call.split(bias, &[half, half], 1)?;
            biases = [Some(halves[0]), Some(halves[1])];
        }
        let [bias, recurrent_bias] = biases;
        Ok(Sequence { x, weight, recurrent_weight, bias, recurrent_bias, steps, batch, hidden, direction, batchwise })
    }

    /// The initial state at `index`, `[directions, batch, hidden]`.
    fn state(&self, call: &mut Call, index: usize) -> Step<Option<OperandId>> {
        let Some(state) = call.optional(index)? else { return Ok(None) };
        if call.rank(state) != 3 {
            return Err(Refusal(format!("input {index} has rank {}, expected 3", call.rank(state))));
        }
        if self.batchwise { call.transpose(state, &[1, 0, 2]).map(Some) } else { Ok(Some(state)) }
    }

    /// The outputs of the node from those of WebNN: all states, if there are, and the last ones.
    fn outputs(&self, call: &mut Call, all: Option<OperandId>, last: &[OperandId]) -> Outcome {
        let mut outputs = Vec::new();
        match all {
            // [steps, directions, batch, hidden] to [batch, steps, directions, hidden]
            Some(all) if self.batchwise => outputs.push(Value::Operand(call.transpose(all, &[2, 0, 1, 3])?)),
            Some(all) => outputs.push(Value::Operand(all)),
            // Nothing reads it.
            None => outputs.push(Value::Unknown),
        }
        for &state in last {
            let state = if self.batchwise { call.transpose(state, &[1, 0, 2])? } else { state };
            outputs.push(Value::Operand(state));
        }
        Ok(outputs)
    }
}

/// Refuses sequences that are shorter than the input.
fn check_lengths(call: &Call, steps: u32) -> Step<()> {
    let Some(lengths) = call.optional_ints(4, "sequence_lens")? else { return Ok(()) };
    match lengths.iter().all(|&length| length == steps as i64) {
        true => Ok(()),
        false => Err(Refusal(format!("sequence_lens are {lengths:?}, expected {steps} everywhere"))),
    }
}

/// The names of the activations of all directions: `defaults` repeated if there are none.
fn activation_names(call: &Call, directions: usize, defaults: &[&str]) -> Step<Vec<String>> {
    let count = directions * defaults.len();
    let names = match call.texts_attribute("activations").filter(|names| !names.is_empty()) {
        Some(names) => names,
        None => defaults.iter().cycle().take(count).map(|name| name.to_string()).collect(),
    };
    match names.len() == count || names.len() == 2 * count && directions == 1 && count == 1 {
        // The default of `RNN` has two even for one direction.
        true => Ok(names.into_iter().take(count).map(|name| name.to_lowercase()).collect()),
        false => Err(Refusal(format!("activations are {names:?}, expected {count}"))),
    }
}

/// The activations of a network as WebNN has them, the same for both directions; `None` if it does not have them.
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

/// The default activations of gates, of the cell gate, and of the cell state for the hidden one.
const LSTM_ACTIVATIONS: [&str; 3] = ["sigmoid", "tanh", "tanh"];

fn lstm(call: &mut Call) -> Outcome {
    let sequence = Sequence::new(call, 4)?;
    let (hidden, cell) = (sequence.state(call, 5)?, sequence.state(call, 6)?);
    let activations = activations(call, sequence.direction.count(), &LSTM_ACTIVATIONS)?;
    // The output gate of WebNN sees the old cell state through its peephole, that of ONNX the new one.
    if call.value(7).is_some() || call.int_or("input_forget", 0) != 0 || activations.is_none() {
        return unrolled_lstm(call, &sequence, [hidden, cell]);
    }
    let attributes = LstmAttributes {
        steps: sequence.steps.into(),
        hidden_size: sequence.hidden,
        return_sequence: call.wants(0),
        direction: sequence.direction,
        activations,
        ..Default::default()
    };
    // No peepholes.
    let inputs = [&sequence.operands()[..], &[None, hidden, cell]].concat();
    let outputs = call.emit_all(Lstm { attributes }, inputs)?;
    sequence.outputs(call, outputs.get(2).copied(), &outputs[..2])
}

fn gru(call: &mut Call) -> Outcome {
    let sequence = Sequence::new(call, 3)?;
    let activations = activations(call, sequence.direction.count(), &["sigmoid", "tanh"])?
        .ok_or("expected the activations relu, sigmoid and tanh, the same for both directions, and no clip")?;
    let hidden = sequence.state(call, 5)?;
    let attributes = GruAttributes {
        steps: sequence.steps.into(),
        hidden_size: sequence.hidden,
        reset_after: call.int_or("linear_before_reset", 0) != 0,
        return_sequence: call.wants(0),
        direction: sequence.direction,
        activations: Some(activations),
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

/// Whether an activation takes a value from `activation_alpha`, and one from `activation_beta`.
fn parameters(name: &str) -> [bool; 2] {
    match name {
        "affine" | "scaledtanh" | "hardsigmoid" => [true, true],
        "leakyrelu" | "thresholdedrelu" | "elu" => [true, false],
        _ => [false, false],
    }
}

/// The activations of all directions. Lists of parameters have entries only for those that take one.
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

/// The next states for a direction, the sums of all gates and the states so far.
type TimeStep<'a> = dyn Fn(&mut Call, usize, OperandId, &[OperandId]) -> Step<Vec<OperandId>> + 'a;

/// The most time steps that are unrolled.
const MAX_STEPS: u32 = 4096;

/// Unrolls a network over time. `step` gets the number of a direction, `x W + h R + biases` of all gates and the states,
/// of which the first is the hidden one, and gives the next states. Products with `x` are one for all steps.
fn unroll(call: &mut Call, sequence: &Sequence, initial: &[Option<OperandId>], step: &TimeStep) -> Outcome {
    let Sequence { x, steps, batch, hidden, direction, .. } = *sequence;
    if steps > MAX_STEPS {
        return Err(Refusal(format!("{steps} steps cannot be unrolled, expected at most {MAX_STEPS}")));
    }
    let features = call.sizes(x)[2];
    let rows = call.reshape(x, &[steps * batch, features])?;
    let (mut all, mut last) = (Vec::new(), vec![Vec::new(); initial.len()]);
    for number in 0..direction.count() {
        let at = number as u32;
        let (weight, recurrent) = (call.pick(sequence.weight, 0, at)?, call.pick(sequence.recurrent_weight, 0, at)?);
        let mut bias = None;
        if let (Some(a), Some(b)) = (sequence.bias, sequence.recurrent_bias) {
            let (a, b) = (call.pick(a, 0, at)?, call.pick(b, 0, at)?);
            bias = Some(call.add(a, b)?);
        }
        let products = call.emit_all(gemm(), vec![Some(rows), Some(weight), bias])?[0];
        let width = call.sizes(products)[1];
        let products = call.reshape(products, &[steps, batch, width])?;
        let mut states = Vec::new();
        for &initial in initial {
            states.push(match initial {
                Some(initial) => call.pick(initial, 0, at)?,
                None => {
                    let zero = call.scalar_like(x, 0.0)?;
                    call.expand(zero, &[batch, hidden])?
                }
            });
        }
        let mut shown = vec![None; steps as usize];
        for count in 0..steps as usize {
            let time = direction.time(number, count, steps as usize);
            let input = call.pick(products, 0, time as u32)?;
            let sum = call.emit_all(gemm(), vec![Some(states[0]), Some(recurrent), Some(input)])?[0];
            states = step(call, number, sum, &states)?;
            shown[time] = Some(call.reshape(states[0], &[1, 1, batch, hidden])?);
        }
        if call.wants(0) {
            let shown: Vec<OperandId> = shown.into_iter().flatten().collect();
            all.push(call.concat(&shown, 0)?);
        }
        for (last, state) in last.iter_mut().zip(states) {
            last.push(call.reshape(state, &[1, batch, hidden])?);
        }
    }
    let all = if all.is_empty() { None } else { Some(call.concat(&all, 1)?) };
    let last = last.iter().map(|states| call.concat(states, 0)).collect::<Step<Vec<_>>>()?;
    sequence.outputs(call, all, &last)
}

fn rnn(call: &mut Call) -> Outcome {
    let sequence = Sequence::new(call, 1)?;
    let functions = functions(call, sequence.direction.count(), &["tanh"])?;
    let initial = sequence.state(call, 5)?;
    unroll(call, &sequence, &[initial], &|call, direction, sum, _| Ok(vec![functions[direction].emit(call, sum)?]))
}

/// An LSTM that WebNN does not have: with peepholes, with coupled gates, or with other activations.
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
    unroll(call, sequence, &initial, &|call, direction, sum, states| {
        let [gate, update, output] = &functions[3 * direction..][..3] else { unreachable!("three functions") };
        // Gate `at` (input, output, forget) with what it sees of a cell state.
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
    standard("GRU", "activations relu, sigmoid, tanh; no clip, no shorter sequences", gru),
    standard("LSTM", "no shorter sequences", lstm),
    standard("RNN", "no shorter sequences", rnn),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

    fn lstm(inputs: &str, attributes: Vec<(&str, Attr)>) -> TestGraph {
        let graph = TestGraph::default().input("x", Float, &["3", "2", "4"]).input("w", Float, &["1", "20", "4"]);
        let graph = graph.input("r", Float, &["1", "20", "5"]).input("p", Float, &["1", "15"]);
        graph.raw("n", Int32, &[2], &[3, 0, 0, 0, 2, 0, 0, 0]).node("LSTM", inputs, "y h c", attributes).output("y")
    }

    #[test]
    fn only_what_webnn_does_not_have_is_unrolled() {
        let text = lstm("x w r", vec![]).text(14);
        assert!(text.contains("= lstm ") && text.contains("returnSequence=true"), "{text}");
        let text = lstm("x w r _ _ _ _ p", vec![]).text(14);
        assert!(!text.contains("lstm") && text.matches("= gemm ").count() == 4, "{text}");
        let text = lstm("x w r", vec![("activations", Attr::Texts(&["Sigmoid", "Softsign", "Tanh"]))]).text(14);
        assert_eq!(text.matches("softsign").count(), 3, "{text}");
    }

    #[test]
    fn shorter_sequences_are_refused() {
        let message = lstm("x w r _ n", vec![]).refusal(14);
        assert!(message.contains("sequence_lens are [3, 2], expected 3 everywhere"), "{message}");
    }
}
