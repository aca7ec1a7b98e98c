//! Simulates all kernels: every operator, data type and rank, and random sizes around the edges of tiles.

use super::fast::Math;
use super::graph::Simulator;
use super::program::Program;
use super::random_graphs::{GENERATORS, random_graph};
use crate::compile::unpack;
use crate::dtype::DataType;
use crate::gpu::dialect::{Dialect, MatrixUnits};
use crate::gpu::kernel::Dispatch;
use crate::gpu::steps::product::choice::Variant;
use crate::gpu::testing::{DIALECTS, is_for_gpus, optimized, tolerance_of};
use crate::ir::{Graph, parse};
use crate::ops::Op;
use crate::ops::elementwise_cases::special_cases;
use crate::ops::sweep::for_each_graph;
use crate::ops::tensor::Tensor;
use crate::reference;
use crate::testing::{Random, Tolerance, compare};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Parsed kernels, by text.
pub type Programs = HashMap<String, Rc<Program>>;

/// Runs the graph on random inputs.
pub fn check(
    programs: &mut Programs,
    graph: &Graph,
    random: &mut Random,
    tolerance: Tolerance,
    compiled: bool,
    dialects: &[Dialect],
    edit: &dyn Fn(&mut Dispatch),
) {
    let inputs = graph.inputs.iter().map(|(name, id)| (name.clone(), random.tensor(graph.descriptor(*id)))).collect();
    check_with(programs, graph, &inputs, tolerance, compiled, dialects, edit);
}

/// Runs the graph in those of `dialects` that make a difference for it, and compares the results with the oracle.
fn check_with(
    programs: &mut Programs,
    graph: &Graph,
    inputs: &HashMap<String, Tensor>,
    tolerance: Tolerance,
    compiled: bool,
    dialects: &[Dialect],
    edit: &dyn Fn(&mut Dispatch),
) {
    let expected = reference::run(graph, inputs);
    let graph = if compiled { optimized(graph) } else { unpacked(graph) };
    let has = |types: &[DataType]| graph.values.iter().any(|value| types.contains(&value.descriptor.dtype));
    // A dialect's type makes no difference without an operand of that type, not even combined with another one.
    let all = has(&[DataType::Float16]) && has(&[DataType::Int64, DataType::Uint64]);
    let strict: Vec<Dialect> = dialects.iter().copied().filter(|dialect| all || dialect.f16 == dialect.int64).collect();
    assert!(!strict.is_empty(), "a dialect for this graph");
    // Rewrites of floats are the same in all dialects.
    let fast = has(&[DataType::Float32, DataType::Float16]).then_some((strict[0], Math::Fast));
    for (dialect, math) in strict.into_iter().map(|dialect| (dialect, Math::Strict)).chain(fast) {
        // The subgroup sizes of llvmpipe and NVIDIA.
        let subgroup = if dialect.f16 { 8 } else { 32 };
        let outputs = Simulator { dialect, subgroup, math, edit, programs }.run(&graph, inputs);
        let outputs = outputs.unwrap_or_else(|fault| panic!("{fault}, with {dialect:?}, of\n{graph}"));
        let context = || format!("simulated with {math:?} math and {dialect:?}, of\n{graph}");
        compare(&graph, &outputs, &expected, |dtype| tolerance_of(tolerance, dtype), &context);
    }
}

/// What a plan of `graph` without optimization computes.
fn unpacked(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    unpack(&mut graph).expect("a graph");
    graph
}

fn sweep(names: impl Fn(&str) -> bool) {
    let mut number = 0;
    let mut programs = Programs::new();
    for_each_graph(names, |graph, tolerance| {
        if !is_for_gpus(&graph) {
            return;
        }
        number += 1;
        check(&mut programs, &graph, &mut Random::new(graph.values.len() as u64), tolerance, false, &DIALECTS, &|_| ());
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
    for (graph, inputs, tolerance) in special_cases().filter(|(graph, ..)| is_for_gpus(graph)) {
        check_with(&mut programs, &graph, &inputs, tolerance, false, &DIALECTS, &|_| ());
    }
}

/// Number of graphs to draw of each kind.
const DRAWS: u64 = 8;

/// How kernels read weights of 4 bits: one, and four at a time.
const NIBBLES: [&str; 2] = ["_words[i >> 3u]", "_words[quarter >> 1u]"];

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
            check(&mut programs, &graph, &mut random, *tolerance, odd, &DIALECTS, &|dispatch| {
                names.borrow_mut().insert(format!("{name}: {}", dispatch.name));
                for text in NIBBLES.into_iter().filter(|text| dispatch.source.contains(text)) {
                    names.borrow_mut().insert(text.to_string());
                }
                if odd {
                    in_two_rows(dispatch);
                }
            });
        }
    }
    for name in ["attention", "concat", "conv2d", "cumulativeSum", "gemm", "matmul", "recurrent"] {
        assert!(names.borrow().contains(&format!("{name}: {name}")), "no kernel {name} ran");
    }
    for name in ["grouped attention: attention"].into_iter().chain(NIBBLES) {
        assert!(names.borrow().contains(name), "{name}");
    }
}

/// Kernels that only devices with more memory have, and those that only large products have.
#[test]
fn products_of_every_variant_run_without_fault() {
    let units = Some(MatrixUnits { side: 8, emulated: true });
    // Types and subgroups as for the others of these dialects, and as much memory as matrix units need.
    let [plain, halves] = [DIALECTS[1], DIALECTS[2]].map(|dialect| Dialect { workgroup_bytes: 49152, ..dialect });
    let plain = Dialect { int64: false, ..plain };
    let halves = Dialect { int64: true, cooperative: units, ..halves };
    let mut programs = Programs::new();
    for (variant, [rows, columns, depth], transposes) in [
        (Variant::Tiled(128), [129, 132, 9], [false, false]),
        (Variant::Tiled(128), [20, 131, 12], [true, true]),
        (Variant::Tiled(64), [65, 68, 17], [false, true]),
        (Variant::Tiled(32), [33, 36, 1100], [true, false]),
        (Variant::Cooperative(64), [65, 61, 33], [true, false]),
        (Variant::Cooperative(128), [40, 132, 40], [false, true]),
        (Variant::Lines, [2, 40, 1100], [false, false]),
        (Variant::Dots, [1, 33, 2051], [false, true]),
        (Variant::SubgroupDots, [3, 36, 1100], [false, true]),
        (Variant::SubgroupDots, [36, 3, 1100], [true, true]),
    ] {
        for (dialect, dtype) in [(plain, "float32"), (plain, "float16"), (halves, "float16")] {
            let [a_transpose, b_transpose] = transposes;
            let a = if a_transpose { [depth, rows] } else { [rows, depth] };
            let b = if b_transpose { [columns, depth] } else { [depth, columns] };
            let graph = parse(&format!(
                "%0 = input a {dtype} {a:?}
                 %1 = input b {dtype} {b:?}
                 %2 = input c {dtype} [{columns}]
                 %3 = gemm %0 %1 %2 aTranspose={a_transpose} bTranspose={b_transpose} alpha=0.5 beta=2
                 output y = %3"
            ));
            let has_units = dialect.cooperative.is_some() || !matches!(variant, Variant::Cooperative(_));
            if !has_units {
                continue;
            }
            println!("{variant:?}, {dtype}");
            let forced = Dialect { product: Some(variant), ..dialect };
            let tolerance = Tolerance::ulps(16).or_absolute(2e-3 + 4e-6 * depth as f64);
            let names = RefCell::new(String::new());
            check(&mut programs, &graph, &mut Random::new(7), tolerance, false, &[forced], &|dispatch| {
                *names.borrow_mut() += dispatch.name;
            });
            let is_split = names.borrow().contains("sum of products");
            assert!(is_split || depth < 1024, "{variant:?} in one part");
        }
    }
}
