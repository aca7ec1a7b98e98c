//! Simulates all kernels: every operator, data type and rank, and random sizes around the edges of tiles.

use super::fast::Math;
use super::graph::Simulator;
use super::program::Program;
use super::random_graphs::{GENERATORS, random_graph};
use crate::dtype::DataType;
use crate::gpu::kernel::Dispatch;
use crate::gpu::testing::{DIALECTS, optimized, tolerance_of};
use crate::ir::{Graph, parse};
use crate::ops::elementwise_cases::special_cases;
use crate::ops::sweep::for_each_graph;
use crate::ops::tensor::Tensor;
use crate::ops::{Op, Operation};
use crate::reference;
use crate::testing::{Random, Tolerance, compare};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Parsed kernels, by text.
type Programs = HashMap<String, Rc<Program>>;

/// Runs the graph on random inputs.
fn check(
    programs: &mut Programs,
    graph: &Graph,
    random: &mut Random,
    tolerance: Tolerance,
    compiled: bool,
    edit: &dyn Fn(&mut Dispatch),
) {
    let inputs = graph.inputs.iter().map(|(name, id)| (name.clone(), random.tensor(graph.descriptor(*id)))).collect();
    check_with(programs, graph, &inputs, tolerance, compiled, edit);
}

/// Runs the graph in all dialects that make a difference for it, and compares the results with the oracle.
fn check_with(
    programs: &mut Programs,
    graph: &Graph,
    inputs: &HashMap<String, Tensor>,
    tolerance: Tolerance,
    compiled: bool,
    edit: &dyn Fn(&mut Dispatch),
) {
    let expected = reference::run(graph, inputs);
    let graph = if compiled { optimized(graph) } else { graph.clone() };
    let has = |types: &[DataType]| graph.values.iter().any(|value| types.contains(&value.descriptor.dtype));
    // A dialect's type makes no difference without an operand of that type, not even combined with another one.
    let all = has(&[DataType::Float16]) && has(&[DataType::Int64, DataType::Uint64]);
    let strict = DIALECTS.into_iter().filter(|dialect| all || dialect.f16 == dialect.int64);
    // Rewrites of floats are the same in all dialects.
    let fast = has(&[DataType::Float32, DataType::Float16]).then_some((DIALECTS[0], Math::Fast));
    for (dialect, math) in strict.map(|dialect| (dialect, Math::Strict)).chain(fast) {
        // The subgroup sizes of llvmpipe and NVIDIA.
        let subgroup = if dialect.f16 { 8 } else { 32 };
        let outputs = Simulator { dialect, subgroup, math, edit, programs }.run(&graph, inputs);
        let outputs = outputs.unwrap_or_else(|fault| panic!("{fault}, with {dialect:?}, of\n{graph}"));
        let context = || format!("simulated with {math:?} math and {dialect:?}, of\n{graph}");
        compare(&graph, &outputs, &expected, |dtype| tolerance_of(tolerance, dtype), &context);
    }
}

fn sweep(names: impl Fn(&str) -> bool) {
    let mut number = 0;
    let mut programs = Programs::new();
    for_each_graph(names, |graph, tolerance| {
        number += 1;
        check(&mut programs, &graph, &mut Random::new(graph.values.len() as u64), tolerance, false, &|_| ());
    });
    assert!(number > 200, "{number} graphs");
}

/// Splits the operators into two halves that can run in parallel.
pub fn is_in_first_half(name: &str) -> bool {
    Op::rules().take(48).any(|rule| rule.name == name)
}

#[test]
fn every_type_and_rank_of_one_half_of_the_operators_runs_without_fault() {
    sweep(is_in_first_half);
}

#[test]
fn every_type_and_rank_of_the_other_half_runs_without_fault() {
    sweep(|name| !is_in_first_half(name));
}

#[test]
fn element_wise_operators_at_special_values_run_without_fault() {
    let mut programs = Programs::new();
    let is_for_gpus = |graph: &Graph| match &graph.nodes[0].op {
        Operation::Extension(op) => op.is_for_gpus(),
        _ => true,
    };
    for (graph, inputs, tolerance) in special_cases().filter(|(graph, ..)| is_for_gpus(graph)) {
        check_with(&mut programs, &graph, &inputs, tolerance, false, &|_| ());
    }
}

/// Number of graphs to draw of each kind.
const DRAWS: u64 = 8;

/// Puts the workgroups into two rows, as [`grid`](crate::gpu::kernel::grid) does if there are too many for one.
fn in_two_rows(dispatch: &mut Dispatch) {
    if let [count, 1, 1] = dispatch.workgroups
        && count > 1
        && dispatch.source.contains("num_workgroups")
    {
        dispatch.workgroups = [count.div_ceil(2), 2, 1];
    }
}

#[test]
fn random_sizes_run_without_fault() {
    let names = RefCell::new(HashSet::new());
    for (kind, (name, generate, tolerance)) in GENERATORS.iter().enumerate() {
        let mut programs = Programs::new();
        for draw in 0..DRAWS {
            println!("{name}, draw {draw}");
            let mut random = Random::new(kind as u64 * DRAWS + draw + 1);
            let graph = parse(&random_graph(*generate, &mut random));
            // Every second graph has fused operators after the kernels.
            let odd = draw % 2 == 1;
            check(&mut programs, &graph, &mut random, *tolerance, odd, &|dispatch| {
                names.borrow_mut().insert(dispatch.name);
                if odd {
                    in_two_rows(dispatch);
                }
            });
        }
    }
    for name in ["attention", "concat", "conv2d", "cumulativeSum", "gemm", "matmul", "recurrent"] {
        assert!(names.borrow().iter().any(|seen| seen.starts_with(name)), "no kernel {name} ran");
    }
}
