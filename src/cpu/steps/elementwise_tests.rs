//! Element-wise programs against the oracle.

use crate::cpu::arena::Arena;
use crate::cpu::plan::{Plan, PlanOptions};
use crate::cpu::schedule::pool::Threads;
use crate::cpu::simd::Isa;
use crate::cpu::steps::Env;
use crate::dtype::DataType;
use crate::ir::{Graph, parse};
use crate::memory::Buffer;
use crate::ops::Operation;
use crate::ops::elementwise::Elementwise;
use crate::ops::elementwise_cases::{cases, graph, special_cases, tolerance};
use crate::ops::fused::{Fused, Instruction};
use crate::testing::{Random, Tolerance, check, check_with};
use proptest::prelude::*;
use std::collections::HashMap;

#[test]
fn every_operator_and_type() {
    for (name, dtype, operands) in cases() {
        let shapes = [vec![3, 1, 171], vec![3, 2, 171], vec![171]];
        check(&graph(name, dtype, &shapes[3 - operands..]), tolerance(name, dtype));
    }
}

#[test]
fn every_operator_at_special_values() {
    special_cases().for_each(|(graph, inputs, tolerance)| check_with(&graph, &inputs, tolerance));
}

#[test]
fn casts_between_all_types() {
    for from in DataType::OF_VALUES {
        for to in DataType::OF_VALUES {
            let text = format!("%0 = input x {from} [2, 300]\n%1 = cast %0 dataType={to}\noutput y = %1");
            let graph = parse(&text);
            let mut random = Random::new(7);
            let tensor = random.tensor_in(graph.descriptor(graph.inputs[0].1), -300.0, 70000.0);
            check_with(&graph, &HashMap::from([("x".to_string(), tensor)]), Tolerance::ulps(0));
        }
    }
}

#[test]
fn halves_are_converted_without_registers() {
    for (from, to) in [("float16", "float32"), ("float32", "float16")] {
        for shape in [vec![1], vec![17], vec![1, 1023], vec![3, 70, 129]] {
            let rank = shape.len();
            let input = format!("%0 = input x {from} {shape:?}\n");
            check(&parse(&format!("{input}%1 = cast %0 dataType={to}\noutput y = %1")), Tolerance::EXACT);
            // The elements do not come in order.
            let permutation: Vec<usize> = (0..rank).rev().collect();
            let transposed = format!("%1 = transpose %0 permutation={permutation:?}\n%2 = cast %1 dataType={to}\n");
            check(&parse(&format!("{input}{transposed}output y = %2")), Tolerance::EXACT);
        }
    }
}

#[test]
fn operands_are_read_in_every_way() {
    // (shapes of the output and of the operands): in place, one element, one per row, short and long repeated rows,
    // gathered, around the block length.
    let shapes: &[[&[u32]; 3]] = &[
        [&[], &[], &[]],
        [&[1], &[1], &[]],
        [&[511], &[511], &[1]],
        [&[513], &[1], &[513]],
        [&[3, 1025], &[3, 1], &[1025]],
        [&[3, 70], &[3, 1], &[70]],
        [&[40, 3], &[3], &[40, 1]],
        [&[5, 4, 130], &[4, 1], &[5, 1, 130]],
        [&[2, 6, 196], &[6, 1], &[2, 1, 1]],
        [&[9, 127], &[9, 1], &[]],
        [&[9, 128], &[9, 1], &[]],
        [&[2, 3, 4, 5], &[3, 1, 5], &[2, 1, 4, 1]],
        [&[2, 3, 2, 3, 2, 3, 2, 2], &[3, 1, 3, 1, 3, 1, 2], &[2, 1, 2, 1, 2, 1, 2, 1]],
    ];
    for [a, b, c] in shapes {
        for dtype in ["float32", "float16", "int8", "int64"] {
            let text = format!(
                "%0 = input a {dtype} {a:?}\n%1 = input b {dtype} {b:?}\n%2 = input c {dtype} {c:?}\n\
                 %3 = add %0 %1\n%4 = mul %3 %2\n%5 = sub %2 %1\n%6 = max %5 %4\noutput y = %6\noutput z = %5"
            );
            let tolerance = if dtype == "float16" { Tolerance::ulps(2).or_absolute(0.02) } else { Tolerance::ulps(1) };
            check(&parse(&text), tolerance.or_absolute(if dtype == "float16" { 0.02 } else { 4e-6 }));
        }
    }
}

#[test]
fn programs_reuse_registers() {
    use Elementwise::*;
    let float = DataType::Float16;
    let step = |op, operands: &[usize], dtype| Instruction { op, operands: operands.to_vec(), dtype };
    // Operands 0..3 are x [4, 90], a row [90], a column [4, 1] and a scalar.
    let program = Fused {
        inputs: 4,
        instructions: vec![
            step(Add, &[0, 1], float),
            step(Identity, &[4], float),
            step(Mul, &[5, 2], float),
            step(Greater, &[6, 3], DataType::Uint8),
            step(Cast { to: DataType::Int32 }, &[6], DataType::Int32),
            step(Cast { to: float }, &[8], float),
            step(Where, &[7, 9, 0], float),
            step(Sub, &[10, 10], float),
            step(Add, &[11, 10], float),
            step(Max, &[12, 3], float),
            step(Identity, &[13], float),
        ],
    };
    let mut builder = crate::ir::Builder::new();
    let shapes: [&[u32]; 4] = [&[4, 90], &[90], &[4, 1], &[]];
    let inputs = shapes
        .iter()
        .enumerate()
        .map(|(i, &shape)| Some(builder.input(&format!("x{i}"), crate::shape::Descriptor::new(float, shape)).unwrap()));
    let inputs = inputs.collect();
    let outputs = builder.add_operation(Operation::Fusion(program.into()), inputs, String::new()).unwrap();
    let graph = builder.finish(vec![("y".to_string(), outputs[0])]);
    // Exact operations on values near 0, but for two roundings, which a comparison or truncation could expose.
    check(&graph, Tolerance::ulps(2));
}

#[test]
fn constant_exponents() {
    for exponent in ["-1", "0", "0.5", "1", "2", "3", "4", "-0.5", "2.25"] {
        let text = format!(
            "%0 = input x float32 [700]\n%1 = abs %0\n%2 = constant float32 [] {exponent}\n%3 = pow %1 %2\noutput y = %3"
        );
        check(&parse(&text), Tolerance::ulps(2));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn random_broadcasts(
        dims in prop::collection::vec(1u32..9, 0..6),
        masks in prop::collection::vec((0u32..64, 0usize..6), 3),
        case in 0usize..1000,
        long in 1u32..200,
    ) {
        let cases = cases();
        let (name, dtype, operands) = cases[case % cases.len()];
        let mut dims = dims;
        dims.iter_mut().rev().take(1).for_each(|dim| *dim = long);
        // The first operand has the whole shape; the others drop leading dimensions or repeat some.
        let shapes: Vec<Vec<u32>> = masks[..operands].iter().enumerate().map(|(i, (mask, skip))| {
            let kept = |axis: usize, dim: u32| if i == 0 || mask >> axis & 1 == 0 { dim } else { 1 };
            let shape = dims.iter().enumerate().map(|(axis, &dim)| kept(axis, dim));
            shape.skip(if i == 0 { 0 } else { *skip }).collect()
        }).collect();
        check(&graph(name, dtype, &shapes), tolerance(name, dtype));
    }
}

/// The bytes of the output of a graph with one input and one output.
fn output_bytes(graph: Graph, input: &[u8]) -> Vec<u8> {
    let threads = Threads::new(1).unwrap();
    let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
    let mut plan = Plan::new(graph, &env, PlanOptions::default()).unwrap();
    let (input, mut output) = (Buffer::copy_of(input).unwrap(), Buffer::zeroed(plan.outputs()[0].1.bytes()).unwrap());
    plan.run(&env, &[&input], &mut [&mut output]).unwrap();
    output.bytes().to_vec()
}

#[test]
fn chains_round_where_the_graph_casts_to_float16() {
    // Discontinuous operators after products and sums that are infinite, NaN or equal only in float16.
    let input: Vec<u8> = (0..600u16).flat_map(|i| (i as f32 * 0.731).to_le_bytes()).collect();
    let rounded = |name: &str, op: &str| {
        format!(
            "%{name}a = {op}\n%{name}b = cast %{name}a dataType=float16\n%{name} = cast %{name}b dataType=float32\n"
        )
    };
    for op in [
        "isInfinite %1",
        "isNaN %2",
        "equal %1 %3",
        "greater %1 %2",
        "lesserOrEqual %1 %4",
        "floor %4",
        "ceil %3",
        "roundEven %4",
        "sign %2",
        "cast %4 dataType=int32",
        "sigmoid %3",
    ] {
        let values = [("1", "mul %0 %0"), ("2", "sub %1 %1"), ("3", "mul %1 %0"), ("4", "div %0 %1")];
        let values = values.map(|(name, op)| rounded(name, op)).concat();
        let graph = parse(&format!("%0 = input x float32 [600]\n{values}%5 = {op}\noutput y = %5"));
        let mut fused = graph.clone();
        crate::compile::fuse::fuse_chains(&mut fused, &crate::testing::CPU);
        assert!(fused.nodes.len() < graph.nodes.len(), "{op}");
        assert_eq!(output_bytes(fused, &input), output_bytes(graph, &input), "{op}");
    }
}
