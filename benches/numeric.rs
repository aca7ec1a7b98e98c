//! Element-wise operators, reductions, softmax and normalisations, against the time of a copy of the same tensor in the
//! same run. Run with `cargo bench --no-default-features --bench numeric`.

use std::collections::HashMap;
use std::time::Instant;
use webnn_node::cpu::plan::{Plan, PlanOptions};
use webnn_node::cpu::simd::Isa;
use webnn_node::cpu::steps::Env;
use webnn_node::cpu::threads::Threads;
use webnn_node::ir::parse;
use webnn_node::memory::Buffer;
use webnn_node::ops::tensor::Tensor;

/// The best time of one run of a graph with the input x, in seconds, over about a fifth of a second.
fn best(text: &str, env: &Env) -> f64 {
    let graph = parse(text);
    let mut plan = Plan::new(graph.clone(), env, PlanOptions::default()).expect("a plan");
    let mut values = HashMap::new();
    for (name, id) in &graph.inputs {
        let mut next = 0u32;
        let tensor = Tensor::from_fn(graph.descriptor(*id), |_| {
            next = next.wrapping_mul(1664525).wrapping_add(1013904223);
            webnn_node::dtype::Number::Float((next >> 8) as f64 / (1 << 22) as f64 - 2.0)
        });
        values.insert(name.clone(), Buffer::copy_of(&tensor.to_bytes()).expect("memory"));
    }
    let inputs: Vec<&Buffer> = plan.inputs().iter().map(|(name, _)| &values[name]).collect();
    let mut outputs: Vec<Buffer> =
        plan.outputs().iter().map(|(_, d)| Buffer::zeroed(d.bytes()).expect("memory")).collect();
    let (start, mut best) = (Instant::now(), f64::INFINITY);
    while start.elapsed().as_secs_f64() < 0.2 {
        let start = Instant::now();
        plan.run(env, &inputs, &mut outputs.iter_mut().collect::<Vec<_>>());
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

fn main() {
    let threads = Threads::new(1).expect("a thread pool");
    let env = Env { threads: &threads, isa: Isa::best() };
    let cases = [
        ("copy", "[512, 768]", "%8 = neg %0"),
        ("add, same shape", "[512, 768]", "%8 = add %0 %0"),
        ("add a row", "[512, 768]", "%1 = constant float32 [768]\n%8 = add %0 %1"),
        ("multiply by a column", "[512, 768]", "%1 = constant float32 [512, 1]\n%8 = mul %0 %1"),
        ("add short rows", "[16384, 24]", "%1 = constant float32 [24]\n%8 = add %0 %1"),
        ("gather short rows", "[128, 128, 24]", "%1 = constant float32 [128, 1, 24]\n%8 = add %0 %1"),
        ("exp", "[512, 768]", "%8 = exp %0"),
        ("gelu", "[512, 768]", "%8 = gelu %0"),
        ("tanh", "[512, 768]", "%8 = tanh %0"),
        ("hardSwish", "[512, 768]", "%8 = hardSwish %0"),
        ("linear", "[512, 768]", "%8 = linear %0 alpha=2 beta=3"),
        ("cast to int8", "[512, 768]", "%8 = cast %0 dataType=int8"),
        ("reduceSum of rows", "[512, 768]", "%8 = reduceSum %0 axes=[1]"),
        ("reduceSum of columns", "[512, 768]", "%8 = reduceSum %0 axes=[0]"),
        ("reduceMean of images", "[512, 8, 96]", "%8 = reduceMean %0 axes=[1, 2]"),
        ("reduceMax of rows", "[512, 768]", "%8 = reduceMax %0 axes=[1]"),
        ("argMax of rows", "[512, 768]", "%8 = argMax %0 axis=1"),
        ("softmax of rows", "[512, 768]", "%8 = softmax %0 axis=1"),
        ("softmax of short rows", "[7881, 50]", "%8 = softmax %0 axis=1"),
        ("softmax of columns", "[512, 768]", "%8 = softmax %0 axis=0"),
        ("layerNormalization", "[512, 768]", "%1 = constant float32 [768]\n%8 = layerNormalization %0 %1 %1"),
        ("instanceNormalization", "[4, 128, 24, 32]", "%8 = instanceNormalization %0"),
        ("batchNormalization", "[4, 128, 24, 32]", "%1 = constant float32 [128] 1.0\n%8 = batchNormalization %0 %1 %1"),
        ("cumulativeSum", "[512, 768]", "%8 = cumulativeSum %0 axis=1"),
        (
            "quantizeLinear",
            "[512, 768]",
            "%1 = constant float32 [1, 1] 0.02\n%2 = constant int8 [1, 1] 3\n%8 = quantizeLinear %0 %1 %2",
        ),
    ];
    println!("{} on one thread, float32, 1.5 MiB", env.isa.name());
    let mut copy = None;
    for (name, shape, nodes) in cases {
        let time = best(&format!("%0 = input x float32 {shape}\n{nodes}\noutput y = %8"), &env);
        let copy = *copy.get_or_insert(time);
        let per_element = time * 1e9 / (512.0 * 768.0);
        println!("{name:24} {:8.1} us  {per_element:6.3} ns per element  {:5.1} copies", time * 1e6, time / copy);
    }
}
