//! Compiled graphs, ready to run.

use machine_limits::best_of;
use std::collections::HashMap;
use webnn_node::compile::Passes;
use webnn_node::cpu::plan::{Plan, PlanOptions};
use webnn_node::cpu::steps::Env;
use webnn_node::dtype::Number;
use webnn_node::ir::parse;
use webnn_node::memory::Buffer;
use webnn_node::ops::tensor::Tensor;

/// Duration of each measurement, in seconds.
const SECONDS: f64 = 0.2;

/// The best time of one run of a graph in seconds, and the bytes of its inputs and outputs. `text` is in the form of
/// `webnn_node::ir::parse`; inputs get pseudo-random numbers between -2 and 2.
pub fn best_run(text: &str, env: &Env) -> (f64, usize) {
    let graph = parse(text);
    let mut values = HashMap::new();
    let mut next = 1u32;
    for (name, id) in &graph.inputs {
        let descriptor = graph.descriptor(*id);
        let tensor = Tensor::from_fn(descriptor, |_| {
            next = next.wrapping_mul(1664525).wrapping_add(1013904223);
            Number::Float((next >> 8) as f64 / (1 << 22) as f64 - 2.0).cast(descriptor.dtype)
        });
        values.insert(name.clone(), Buffer::copy_of(&tensor.to_bytes()).expect("memory"));
    }
    let mut plan = Plan::compile(graph, env, Passes::ALL, PlanOptions::default()).expect("a plan");
    let inputs: Vec<&Buffer> = plan.inputs().iter().map(|(name, _)| &values[name]).collect();
    let mut outputs: Vec<Buffer> =
        plan.outputs().iter().map(|(_, descriptor)| Buffer::zeroed(descriptor.bytes()).expect("memory")).collect();
    let bytes =
        inputs.iter().map(|buffer| buffer.len()).sum::<usize>() + outputs.iter().map(Buffer::len).sum::<usize>();
    let seconds =
        best_of(SECONDS, || plan.run(env, &inputs, &mut outputs.iter_mut().collect::<Vec<_>>()).expect("a run"));
    (seconds, bytes)
}
