//! Recurrent networks: what the input adds to the gates is computed for all time steps at once; then one workgroup
//! computes all time steps of one sequence in one direction.

use crate::dtype::DataType;
use crate::gpu::kernel::{Bound, Dispatch, Parameters, grid, header};
use crate::gpu::lower::Lowering;
use crate::gpu::map::{Entry, Map, Readable, Wide};
use crate::gpu::prologue::declare;
use crate::ops::gru::{Gru, GruCell, GruFunction};
use crate::ops::lstm::{Lstm, LstmCell, LstmFunction};
use crate::ops::recurrent::{Activation, Direction};
use crate::shape::Descriptor;

/// The indices of the operands.
struct Operands {
    bias: usize,
    recurrent_bias: usize,
    hidden: usize,
    /// The cell state and the peephole weights, if any.
    cell: Option<usize>,
    peephole: Option<usize>,
}

/// A sequence of time steps.
struct Sequence {
    steps: u32,
    batches: u32,
    features: u32,
    hidden: u32,
    direction: Direction,
}

/// `gru()`.
pub fn gru(op: &Gru, l: &mut Lowering) {
    let input = &l.input(0).sizes();
    let a = &op.attributes;
    let sequence = Sequence {
        steps: a.steps.get(),
        batches: input[1],
        features: input[2],
        hidden: a.hidden_size,
        direction: a.direction,
    };
    let operands = Operands { bias: 3, recurrent_bias: 4, hidden: 5, cell: None, peephole: None };
    lower(l, &sequence, &operands, gru_text(&op.function().expect("validated")));
}

/// `gruCell()`.
pub fn gru_cell(op: &GruCell, l: &mut Lowering) {
    let operands = Operands { hidden: 3, bias: 4, recurrent_bias: 5, cell: None, peephole: None };
    let sequence = single_step(&l.input(0).sizes(), op.attributes.hidden_size);
    lower(l, &sequence, &operands, gru_text(&op.function().expect("validated")));
}

/// `lstm()`.
pub fn lstm(op: &Lstm, l: &mut Lowering) {
    let input = &l.input(0).sizes();
    let a = &op.attributes;
    let sequence = Sequence {
        steps: a.steps.get(),
        batches: input[1],
        features: input[2],
        hidden: a.hidden_size,
        direction: a.direction,
    };
    let operands = Operands { bias: 3, recurrent_bias: 4, peephole: Some(5), hidden: 6, cell: Some(7) };
    lower(l, &sequence, &operands, lstm_text(&op.function().expect("validated")));
}

/// `lstmCell()`.
pub fn lstm_cell(op: &LstmCell, l: &mut Lowering) {
    let operands = Operands { hidden: 3, cell: Some(4), bias: 5, recurrent_bias: 6, peephole: Some(7) };
    let sequence = single_step(&l.input(0).sizes(), op.attributes.hidden_size);
    lower(l, &sequence, &operands, lstm_text(&op.function().expect("validated")));
}

fn single_step(input: &[u32], hidden: u32) -> Sequence {
    Sequence { steps: 1, batches: input[0], features: input[1], hidden, direction: Direction::Forward }
}

fn activation(activation: Activation, x: &str) -> String {
    match activation {
        Activation::Relu => format!("max_f32({x}, 0.0)"),
        Activation::Sigmoid => format!("sigmoid_f32({x})"),
        Activation::Tanh => format!("tanh_f32({x})"),
    }
}

/// The functions `prepare(unit)`, which runs before the states change, and `advance(unit)`, which returns the new
/// state.
fn gru_text(function: &GruFunction) -> String {
    let [z, r, n] = function.places;
    let [gate, new] = function.activations;
    let gate_of = |place: usize| activation(gate, &format!("of_input({place}u, unit) + of_hidden({place}u, unit)"));
    let candidate = match function.reset_after {
        true => format!("of_input({n}u, unit) + {} * of_hidden({n}u, unit)", gate_of(r)),
        false => format!("of_input({n}u, unit) + of_reset({n}u, unit)"),
    };
    format!(
        "const PREPARES: bool = {};
fn prepare(unit: u32) {{ states[reset_at + unit] = {} * states[hidden_at + unit]; }}
fn advance(unit: u32) -> f32 {{
  let z = {};
  let n = {};
  return z * states[hidden_at + unit] + n * (1.0 - z);
}}
",
        !function.reset_after,
        gate_of(r),
        gate_of(z),
        activation(new, &candidate),
    )
}

fn lstm_text(function: &LstmFunction) -> String {
    let [i, o, f, g] = function.places;
    let [gate, cell, filter] = function.activations;
    let product = |place: usize| format!("of_input({place}u, unit) + of_hidden({place}u, unit)");
    let peeped =
        |index: usize, place: usize| activation(gate, &format!("peep({index}u, unit) * c + {}", product(place)));
    format!(
        "const PREPARES: bool = false;
fn prepare(unit: u32) {{}}
fn advance(unit: u32) -> f32 {{
  let c = states[cell_at + unit];
  let i = {};
  let f = {};
  let g = {};
  let o = {};
  let next = f * c + i * g;
  states[cell_at + unit] = next;
  return o * {};
}}
",
        peeped(0, i),
        peeped(2, f),
        activation(cell, &product(g)),
        peeped(1, o),
        activation(filter, "next"),
    )
}

/// Appends the launches, and the copies from the states to the outputs.
fn lower(l: &mut Lowering, sequence: &Sequence, operands: &Operands, functions: String) {
    let directions = sequence.direction.count() as u32;
    let rows = directions * sequence.batches;
    let hidden = sequence.hidden;
    let gates = l.input(1).sizes()[l.input(1).rank() - 2] / hidden;
    let backward = (sequence.direction == Direction::Backward) as u32;
    let parameters =
        Parameters(vec![sequence.steps, sequence.batches, sequence.features, hidden, gates, backward, rows]);
    // Per row: the hidden state, the next one, the hidden state after the reset gate, and the cell state.
    let own = rows * 4 * hidden;
    let all = sequence.steps as usize * rows as usize * hidden as usize;
    let states = l.scratch((own as usize + all) * 4);
    let [initial_hidden, initial_cell] = [("initial_hidden", Some(operands.hidden)), ("initial_cell", operands.cell)];
    let initial = "fn value(i: u32) -> f32 {
  let hidden = parameter(3u);
  let row = i / (4u * hidden);
  let unit = i % hidden;
  switch i / hidden & 3u {
    case 0u: { return initial_hidden(row * hidden + unit); }
    case 3u: { return initial_cell(row * hidden + unit); }
    default: { return 0.0; }
  }
}
";
    to_scratch(l, [initial_hidden, initial_cell], (states, own), initial, &parameters);
    let elements = all * gates as usize;
    let inputs = (l.scratch(elements * 4), elements as u32);
    let text = include_str!("../shaders/recurrent_input.wgsl");
    to_scratch(l, [("x", Some(0)), ("w", Some(1)), ("bias", Some(operands.bias))], inputs, text, &parameters);
    advance(l, operands, [inputs.0, states], &functions, &parameters, rows);
    for index in 0..l.outputs.len() {
        let output = l.outputs[index];
        let (parameters, place) = match output.rank() {
            4 => (Parameters(vec![own]), "states(parameter(0u) + i)"),
            // The hidden state is the first quarter of a row of states, the cell state the last.
            _ => (
                Parameters(vec![hidden, [0, 3][index] * hidden]),
                "states(i / parameter(0u) * 4u * parameter(0u) + parameter(1u) + i % parameter(0u))",
            ),
        };
        copy(l, index, output, states, place, parameters);
    }
}

/// The operands that are given, to be read by the functions with these names, and functions that return 0 for the
/// others.
fn given<const N: usize>(l: &Lowering, operands: [(&'static str, Option<usize>); N]) -> (Vec<Readable>, String) {
    let mut missing = String::new();
    let mut readables = Vec::new();
    for (name, index) in operands {
        match index.filter(|&index| l.inputs.get(index).copied().flatten().is_some()) {
            Some(index) => readables.push(l.readable(name, index)),
            None => missing += &format!("fn {name}(i: u32) -> f32 {{ return 0.0; }}\n"),
        }
    }
    (readables, missing)
}

/// Appends a kernel that computes the first `elements` elements of `target` with the function `value(i)` of `text`.
fn to_scratch<const N: usize>(
    l: &mut Lowering,
    operands: [(&'static str, Option<usize>); N],
    (target, elements): (Bound, u32),
    text: &str,
    parameters: &Parameters,
) {
    let (inputs, missing) = given(l, operands);
    let descriptor = Descriptor::new(DataType::Float32, [elements]);
    l.to_scratch("recurrent", inputs, (target, &descriptor), missing + text, parameters.clone(), Entry::Words);
}

/// Appends the kernel that computes all time steps.
fn advance(
    l: &mut Lowering,
    operands: &Operands,
    [inputs, states]: [Bound; 2],
    functions: &str,
    parameters: &Parameters,
    rows: u32,
) {
    let names = [("r", Some(2)), ("recurrent_bias", Some(operands.recurrent_bias)), ("peephole", operands.peephole)];
    let (mut readables, missing) = given(l, names);
    readables.push(Readable { name: "inputs", bound: inputs, dtype: DataType::Float32 });
    let mut text = header(l.dialect).to_string() + &missing;
    let (mut bindings, mut parameters) = (Vec::new(), parameters.clone());
    for readable in &readables {
        text += &declare(l, readable, false, &mut bindings, &mut parameters);
    }
    bindings.push(states);
    let binding = bindings.len();
    text += &format!("@group(0) @binding({binding}) var<storage, read_write> states: array<f32>;\n");
    text += functions;
    text += include_str!("../shaders/recurrent.wgsl");
    l.dispatch(Dispatch {
        name: "recurrent",
        source: text,
        bindings,
        parameters,
        elements: rows,
        workgroups: grid(rows),
    });
}

/// Appends a copy from scratch memory to an output.
fn copy(l: &mut Lowering, index: usize, output: &Descriptor, states: Bound, place: &str, parameters: Parameters) {
    let map = Map {
        name: "copy",
        inputs: vec![Readable { name: "states", bound: states, dtype: DataType::Float32 }],
        output: Bound::Output(index),
        descriptor: output,
        functions: format!("fn value(i: u32) -> f32 {{ return {place}; }}\n"),
        parameters,
        entry: Entry::Words,
        wide: Wide::default(),
        epilogue: None,
    };
    let dispatch = map.dispatch(l);
    l.dispatch(dispatch);
}
