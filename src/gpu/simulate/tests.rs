//! All kernels in the simulation: every operator, type and rank, and random sizes around the edges of tiles.

use super::graph::Simulator;
use super::random_graphs::{GENERATORS, random_graph};
use crate::compile::Passes;
use crate::cpu::plan::optimized;
use crate::cpu::simd::Isa;
use crate::cpu::steps::Env;
use crate::cpu::threads::Threads;
use crate::dtype::DataType;
use crate::gpu::plan::PASSES;
use crate::gpu::testing::{DIALECTS, tolerance_of};
use crate::ir::{Graph, parse};
use crate::ops::sweep::for_each_graph;
use crate::reference;
use crate::testing::{Random, Tolerance, compare};
use std::collections::HashMap;

/// Runs the graph on all dialects that differ for it, and compares with the oracle.
fn check(programs: &mut Programs, graph: &Graph, random: &mut Random, tolerance: Tolerance, passes: Option<Passes>) {
    let inputs: HashMap<_, _> =
        graph.inputs.iter().map(|(name, id)| (name.clone(), random.tensor(graph.descriptor(*id)))).collect();
    let expected = reference::run(graph, &inputs);
    let compiled = passes.map(|passes| {
        let threads = Threads::new(1).expect("a thread");
        optimized(graph.clone(), &Env { threads: &threads, isa: Isa::best() }, passes).expect("a graph")
    });
    let graph = compiled.as_ref().unwrap_or(graph);
    let has = |types: &[DataType]| graph.values.iter().any(|value| types.contains(&value.descriptor.dtype));
    // A type that a graph does not hold cannot make a difference together with another one.
    let all = has(&[DataType::Float16]) && has(&[DataType::Int64, DataType::Uint64]);
    for dialect in DIALECTS.into_iter().filter(|dialect| all || dialect.f16 == dialect.int64) {
        // llvmpipe's and NVIDIA's.
        let subgroup = if dialect.f16 { 8 } else { 32 };
        let outputs = Simulator { dialect, subgroup, edit: &|_| (), programs }.run(graph, &inputs);
        let outputs = outputs.unwrap_or_else(|fault| panic!("{fault}, with {dialect:?}, of\n{graph}"));
        let context = || format!("simulated with {dialect:?}, of\n{graph}");
        compare(graph, &outputs, &expected, |dtype| tolerance_of(tolerance, dtype), &context);
    }
}

type Programs = HashMap<String, std::rc::Rc<super::program::Program>>;

fn sweep(names: impl Fn(&str) -> bool) {
    let mut number = 0;
    let mut programs = Programs::new();
    for_each_graph(names, |graph, tolerance| {
        number += 1;
        check(&mut programs, &graph, &mut Random::new(graph.values.len() as u64), tolerance, None);
    });
    assert!(number > 200, "{number} graphs");
}

/// Divides the operators into two halves, which may run side by side.
fn is_elementwise(name: &str) -> bool {
    crate::ops::Op::rules().take(48).any(|rule| rule.name == name)
}

#[test]
fn every_type_and_rank_of_one_half_of_the_operators_runs_without_fault() {
    sweep(is_elementwise);
}

#[test]
fn every_type_and_rank_of_the_other_half_runs_without_fault() {
    sweep(|name| !is_elementwise(name));
}

/// Graphs of each kind that are drawn.
const DRAWS: u64 = 4;

#[test]
fn random_sizes_run_without_fault() {
    for (kind, (name, generate, tolerance)) in GENERATORS.iter().enumerate() {
        let mut programs = Programs::new();
        for draw in 0..DRAWS {
            let mut random = Random::new(kind as u64 * DRAWS + draw + 1);
            let graph = parse(&random_graph(*generate, &mut random));
            // Every second one compiled: with what other operators put behind the kernels.
            let passes = (draw % 2 == 1).then_some(PASSES);
            println!("{name}, draw {draw}");
            check(&mut programs, &graph, &mut random, *tolerance, passes);
        }
    }
}
