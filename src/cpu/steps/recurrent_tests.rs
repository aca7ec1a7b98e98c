//! Recurrent operators whose gates leave 0..1, as relu permits: factors far from these magnify every rounding of a sum
//! or gate. The operands are so short that all sums of products are exact in float32.

use crate::dtype::Number;
use crate::ir::parse;
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
