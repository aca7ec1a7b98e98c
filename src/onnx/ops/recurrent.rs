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
        let &[steps, batch, _] = &call.shape(x)[..] else { return Err("the input has no steps".into()) };
        let hidden = call.shape(recurrent_weight)[2];
        check_lengths(call, steps)?;
        let directions = direction.count() as u32;
        let mut biases = [None, None];
        if let Some(bias) = call.optional(3)? {
            let (got, half) = (call.shape(bias), gates * hidden);
            if got != [directions, 2 * half] {
                return Err(Refusal(format!("B has shape {got:?}, expected [{directions}, {}]", 2 * half)));
            }
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

/// The activations of a network as WebNN has them: the same for both directions.
fn activations(call: &Call, directions: usize, defaults: &[&str]) -> Step<Vec<Activation>> {
    if call.float_attribute("clip").is_some_and(|clip| clip != 0.0) {
        return Err("clip is not supported".into());
    }
    let names = activation_names(call, directions, defaults)?;
    let (first, second) = names.split_at(defaults.len());
    if !second.is_empty() && first != second {
        return Err(Refusal(format!("activations are {names:?}, expected the same for both directions")));
    }
    let known = first.iter().map(|name| match name.as_str() {
        "relu" => Some(Activation::Relu),
        "sigmoid" => Some(Activation::Sigmoid),
        "tanh" => Some(Activation::Tanh),
        _ => None,
    });
    known
        .collect::<Option<_>>()
        .ok_or_else(|| Refusal(format!("activations are {names:?}, expected relu, sigmoid, tanh")))
}

fn lstm(call: &mut Call) -> Outcome {
    let sequence = Sequence::new(call, 4)?;
    if call.int_or("input_forget", 0) != 0 {
        return Err("input_forget is not supported".into());
    }
    let activations = activations(call, sequence.direction.count(), &["sigmoid", "tanh", "tanh"])?;
    let (hidden, cell) = (sequence.state(call, 5)?, sequence.state(call, 6)?);
    let peephole = call.optional(7)?;
    let attributes = LstmAttributes {
        steps: sequence.steps,
        hidden_size: sequence.hidden,
        return_sequence: call.wants(0),
        direction: sequence.direction,
        activations: Some(activations),
        ..Default::default()
    };
    let inputs = vec![
        Some(sequence.x),
        Some(sequence.weight),
        Some(sequence.recurrent_weight),
        sequence.bias,
        sequence.recurrent_bias,
        peephole,
        hidden,
        cell,
    ];
    let outputs = call.emit_all(Lstm { attributes }, inputs)?;
    sequence.outputs(call, outputs.get(2).copied(), &outputs[..2])
}

fn gru(call: &mut Call) -> Outcome {
    let sequence = Sequence::new(call, 3)?;
    let activations = activations(call, sequence.direction.count(), &["sigmoid", "tanh"])?;
    let hidden = sequence.state(call, 5)?;
    let attributes = GruAttributes {
        steps: sequence.steps,
        hidden_size: sequence.hidden,
        reset_after: call.int_or("linear_before_reset", 0) != 0,
        return_sequence: call.wants(0),
        direction: sequence.direction,
        activations: Some(activations),
        ..Default::default()
    };
    let inputs = vec![
        Some(sequence.x),
        Some(sequence.weight),
        Some(sequence.recurrent_weight),
        sequence.bias,
        sequence.recurrent_bias,
        hidden,
    ];
    let outputs = call.emit_all(Gru { attributes }, inputs)?;
    sequence.outputs(call, outputs.get(1).copied(), &outputs[..1])
}

/// An activation of `RNN` for the direction `direction`.
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
fn functions(call: &Call, directions: usize) -> Step<Vec<Function>> {
    let names = activation_names(call, directions, &["tanh"])?;
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

/// `[1, ...]` number `at` of `[count, ...]`, without that dimension.
fn part(call: &mut Call, x: OperandId, at: u32) -> Step<OperandId> {
    let slice = call.slice_axis(x, 0, at, 1)?;
    let shape = call.shape(slice)[1..].to_vec();
    call.reshape(slice, &shape)
}

/// `h = f(x W + h R + biases)`, unrolled over time; the products with `x` are one.
fn rnn(call: &mut Call) -> Outcome {
    let sequence = Sequence::new(call, 1)?;
    let Sequence { x, steps, batch, hidden, direction, .. } = sequence;
    let functions = functions(call, direction.count())?;
    let initial = sequence.state(call, 5)?;
    let features = call.shape(x)[2];
    let rows = call.reshape(x, &[steps * batch, features])?;
    let (mut all, mut last) = (Vec::new(), Vec::new());
    for (number, function) in functions.iter().enumerate() {
        let at = number as u32;
        let (weight, recurrent) = (part(call, sequence.weight, at)?, part(call, sequence.recurrent_weight, at)?);
        let mut bias = None;
        if let (Some(a), Some(b)) = (sequence.bias, sequence.recurrent_bias) {
            let (a, b) = (part(call, a, at)?, part(call, b, at)?);
            bias = Some(call.add(a, b)?);
        }
        let gemm = || Gemm { attributes: GemmAttributes { b_transpose: true, ..Default::default() } };
        let products = call.emit_all(gemm(), vec![Some(rows), Some(weight), bias])?[0];
        let products = call.reshape(products, &[steps, batch, hidden])?;
        let mut state = initial.map(|initial| part(call, initial, at)).transpose()?;
        let mut states = vec![None; steps as usize];
        for step in 0..steps as usize {
            let time = direction.time(number, step, steps as usize);
            let input = part(call, products, time as u32)?;
            let sum = match state {
                Some(state) => call.emit_all(gemm(), vec![Some(state), Some(recurrent), Some(input)])?[0],
                None => input,
            };
            let next = function.emit(call, sum)?;
            states[time] = Some(call.reshape(next, &[1, 1, batch, hidden])?);
            state = Some(next);
        }
        let states: Vec<OperandId> = states.into_iter().flatten().collect();
        if call.wants(0) {
            all.push(call.concat(&states, 0)?);
        }
        let state = state.ok_or("the input has no steps")?;
        last.push(call.reshape(state, &[1, batch, hidden])?);
    }
    let all = if all.is_empty() { None } else { Some(call.concat(&all, 1)?) };
    let last = call.concat(&last, 0)?;
    sequence.outputs(call, all, &[last])
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("GRU", "activations relu, sigmoid, tanh; no clip, no shorter sequences", gru),
    standard("LSTM", "activations relu, sigmoid, tanh; no clip, no input_forget, no shorter sequences", lstm),
    standard("RNN", "no shorter sequences", rnn),
];
