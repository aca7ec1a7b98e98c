//! Recurrent operators whose gates leave 0..1, as relu permits: factors far from these magnify every rounding of a sum
//! or gate. The operands are so short that all sums of products are exact in float32.

use super::Env;
use crate::cpu::arena::Arena;
use crate::cpu::plan::{Plan, PlanOptions};
use crate::cpu::schedule::pool::{SECTIONS, Threads};
use crate::cpu::simd::Isa;
use crate::dtype::Number;
use crate::ir::parse;
use crate::memory::Buffer;
use crate::ops::tensor::Tensor;
use crate::testing::{Random, Tolerance, check_on_cpu};
use std::collections::HashMap;

const ACTIVATIONS: [&str; 3] = ["relu", "sigmoid", "tanh"];

/// Gates of up to 100 multiply the errors of `tanh`, up to 6 ULP, and of `sigmoid`, up to 4.
const FUNCTIONS: Tolerance = Tolerance::ulps(2).or_absolute(2e-4);

/// Random multiples of `step` in -2..2.
fn multiples(random: &mut Random, tensor: &Tensor, step: f64) -> Tensor {
    let count = (4.0 / step) as u64 + 1;
    Tensor::from_fn(&tensor.descriptor(), |_| Number::Float((random.next() % count) as f64 * step - 2.0))
}

/// Checks a graph of one time step. Inputs, weights and peepholes are multiples of 1/2, hidden states and biases of
/// 1/16, cell states of 1/4096.
fn check(text: &str, tolerance: Tolerance) {
    let graph = parse(text);
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let inputs: HashMap<String, Tensor> = graph
            .inputs
            .iter()
            .map(|(name, id)| {
                let step = match &**name {
                    "x" | "w" | "r" | "p" => 0.5,
                    "c" => 1.0 / 4096.0,
                    _ => 1.0 / 16.0,
                };
                let any = random.tensor(graph.descriptor(*id));
                (name.clone(), multiples(&mut random, &any, step))
            })
            .collect();
        check_on_cpu(&graph, &inputs, tolerance);
    }
}

/// Relu alone rounds nothing: the new states must be the exact ones, rounded once.
fn tolerance(activations: &[&str]) -> Tolerance {
    if activations.iter().all(|name| *name == "relu") { Tolerance::EXACT } else { FUNCTIONS }
}

#[test]
fn gru_rounds_its_state_once() {
    for layout in ["zrn", "rzn"] {
        for reset_after in [true, false] {
            for (gate, new) in ACTIVATIONS.iter().flat_map(|&gate| ACTIVATIONS.map(|new| (gate, new))) {
                let options =
                    format!("hiddenSize=5 resetAfter={reset_after} layout={layout} activations=[{gate}, {new}]");
                let cell = format!(
                    "%x = input x float32 [3, 4]
                     %w = input w float32 [15, 4]
                     %r = input r float32 [15, 5]
                     %b = input b float32 [15]
                     %d = input d float32 [15]
                     %h = input h float32 [3, 5]
                     %y = gruCell %x %w %r %h %b %d {options}
                     output y = %y"
                );
                check(&cell, tolerance(&[gate, new]));
                let sequence = format!(
                    "%x = input x float32 [1, 3, 4]
                     %w = input w float32 [2, 15, 4]
                     %r = input r float32 [2, 15, 5]
                     %b = input b float32 [2, 15]
                     %d = input d float32 [2, 15]
                     %h = input h float32 [2, 3, 5]
                     %y, %s = gru %x %w %r %b %d %h steps=1 direction=both returnSequence=true {options}
                     output y = %y
                     output s = %s"
                );
                check(&sequence, tolerance(&[gate, new]));
            }
        }
    }
}

#[test]
fn lstm_rounds_its_states_once() {
    for layout in ["iofg", "ifgo"] {
        for index in 0..27 {
            let [gate, new, filter] = [index / 9, index / 3 % 3, index % 3].map(|i| ACTIVATIONS[i]);
            let options = format!("hiddenSize=5 layout={layout} activations=[{gate}, {new}, {filter}]");
            let cell = format!(
                "%x = input x float32 [3, 4]
                 %w = input w float32 [20, 4]
                 %r = input r float32 [20, 5]
                 %b = input b float32 [20]
                 %d = input d float32 [20]
                 %p = input p float32 [15]
                 %h = input h float32 [3, 5]
                 %c = input c float32 [3, 5]
                 %y, %z = lstmCell %x %w %r %h %c %b %d %p {options}
                 output y = %y
                 output z = %z"
            );
            check(&cell, tolerance(&[gate, new, filter]));
            let sequence = format!(
                "%x = input x float32 [1, 3, 4]
                 %w = input w float32 [2, 20, 4]
                 %r = input r float32 [2, 20, 5]
                 %b = input b float32 [2, 20]
                 %d = input d float32 [2, 20]
                 %p = input p float32 [2, 15]
                 %h = input h float32 [2, 3, 5]
                 %c = input c float32 [2, 3, 5]
                 %y, %z = lstm %x %w %r %b %d %p %h %c steps=1 direction=both {options}
                 output y = %y
                 output z = %z"
            );
            check(&sequence, tolerance(&[gate, new, filter]));
        }
    }
}

/// The draft adds the product of the hidden state to that of the input. Added one by one, its terms would vanish next
/// to a large product of the input.
#[test]
fn products_of_the_hidden_state_are_added_up_first() {
    let gru = "%x = input x float32 [1, 1]
         %w = constant float32 [12, 1] 0 0 0 0 0 0 0 0 16777216 16777216 16777216 16777216
         %r = constant float32 [12, 4] 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 \
                                       0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5
         %h = input h float32 [1, 4]
         %b = constant float32 [12] 0 0 0 0 1 1 1 1 0 0 0 0
         %y = gruCell %x %w %r %h %b hiddenSize=4 resetAfter=false activations=[relu, relu]
         output y = %y";
    let lstm = "%x = input x float32 [1, 1]
         %w = constant float32 [16, 1] 16777216
         %r = constant float32 [16, 4] 0.5
         %h = input h float32 [1, 4]
         %c = constant float32 [1, 4] 0
         %y, %z = lstmCell %x %w %r %h %c hiddenSize=4 activations=[relu, relu, relu]
         output y = %y
         output z = %z";
    for text in [gru, lstm] {
        let graph = parse(text);
        let ones =
            |(name, id): &(String, _)| (name.clone(), Tensor::from_fn(graph.descriptor(*id), |_| Number::Float(1.0)));
        check_on_cpu(&graph, &graph.inputs.iter().map(ones).collect(), Tolerance::EXACT);
    }
}

/// The outputs of `steps` time steps of a network with these threads, and the numbers of pieces of all sections.
fn sections(operator: &str, gates: usize, steps: usize, count: usize) -> (Vec<Vec<u8>>, Vec<usize>) {
    let rows = gates * 256;
    let (name, options) = operator.split_once(' ').unwrap_or((operator, ""));
    let results = if name == "lstm" { "%y, %z" } else { "%y" };
    let graph = parse(&format!(
        "%x = input x float32 [{steps}, 6, 2]
         %w = constant float32 [2, {rows}, 2]
         %r = constant float32 [2, {rows}, 256]
         {results} = {name} %x %w %r steps={steps} hiddenSize=256 direction=both {options}
         output y = %y"
    ));
    let threads = Threads::new(count).unwrap();
    let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
    let mut plan = Plan::new(graph, &env, PlanOptions::default()).unwrap();
    let input = Random::new(7).tensor(&plan.inputs()[0].1);
    let input = Buffer::copy_of(&input.to_bytes()).unwrap();
    let mut outputs: Vec<Buffer> =
        plan.outputs().iter().map(|(_, descriptor)| Buffer::zeroed(descriptor.bytes()).unwrap()).collect();
    SECTIONS.take();
    plan.run(&env, &[&input], &mut outputs.iter_mut().collect::<Vec<_>>()).unwrap();
    (outputs.iter().map(|buffer| buffer.bytes().to_vec()).collect(), SECTIONS.take())
}

#[test]
fn both_directions_of_a_step_are_one_section() {
    // A network that resets first has two passes.
    for (operator, gates, passes) in [("lstm", 4, 1), ("gru", 3, 1), ("gru resetAfter=false", 3, 2)] {
        let (alone, none) = sections(operator, gates, 2, 1);
        assert!(none.is_empty());
        let (pair, of_pair) = sections(operator, gates, 2, 2);
        assert!(pair == alone, "{operator}, 2 threads");
        let (_, more) = sections(operator, gates, 3, 2);
        assert_eq!(more.len(), of_pair.len(), "{operator}: each thread computes a direction");
        // 16 blocks of units: with 12 pieces, three threads get five or six of them.
        for (count, pieces) in [(3, 12), (8, 16), (16, 16), (64, 16)] {
            let of_steps = |all: &[usize]| all.iter().filter(|own| **own == pieces).count();
            let (outputs, short) = sections(operator, gates, 2, count);
            assert!(outputs == alone, "{operator}, {count} threads");
            let (_, long) = sections(operator, gates, 3, count);
            assert_eq!(of_steps(&long) - of_steps(&short), passes, "{operator}, {count} threads: {long:?}");
            assert_eq!(long.len() - short.len(), passes, "{operator}, {count} threads: {long:?}");
        }
    }
}
