//! Products of one left operand in one step.

use super::arena::Arena;
use super::evaluate::evaluator;
use super::memory::Bound;
use super::plan::{Plan, PlanOptions, TARGET};
use super::schedule::partition::CALLS;
use super::schedule::pool::{SECTIONS, Threads};
use super::simd::Isa;
use super::steps::Env;
use super::steps::block_product::ROUNDINGS;
use crate::compile::Passes;
use crate::compile::memory::{Place, plan};
use crate::description::Origin;
use crate::ir::{Changes, Filling, Graph, Node, ValueId, parse};
use crate::memory::Buffer;
use crate::memory::counting::heap_of;
use crate::observe::{Stopwatch, Unobserved};
use crate::testing::{Random, Tolerance, check, optimized};
use proptest::prelude::*;
use std::ops::Range;

const APART: Passes = Passes { beside: false, ..Passes::ALL };

fn buffers(plan: &Plan) -> (Vec<Buffer>, Vec<Buffer>) {
    let mut random = Random::new(7);
    let inputs = plan.inputs().iter().map(|(_, d)| Buffer::copy_of(&random.tensor(d).to_bytes()).unwrap()).collect();
    (inputs, plan.outputs().iter().map(|(_, d)| Buffer::copy_of(&vec![0xff; d.bytes()]).unwrap()).collect())
}

fn bits(plan: &mut Plan, env: &Env) -> Vec<Vec<u8>> {
    let (inputs, mut outputs) = buffers(plan);
    plan.run(env, &inputs.iter().collect::<Vec<_>>(), &mut outputs.iter_mut().collect::<Vec<_>>()).unwrap();
    outputs.iter().map(|buffer| buffer.bytes().to_vec()).collect()
}

/// What a run does.
struct Ran {
    outputs: Vec<Vec<u8>>,
    steps: usize,
    /// The numbers of pieces of the sections that are shared.
    sections: Vec<usize>,
    /// How often rows are rounded.
    roundings: usize,
}

fn run(text: &str, passes: Passes, isa: Isa, count: usize) -> Ran {
    let threads = Threads::new(count).unwrap();
    let env = Env { threads: &threads, isa, arena: &Arena::default() };
    let options = PlanOptions { fill_arena: true, ..PlanOptions::default() };
    let mut plan = Plan::compile(parse(text), &env, passes, options).unwrap();
    // The first run creates the team.
    let outputs = bits(&mut plan, &env);
    let (inputs, mut again) = buffers(&plan);
    let (inputs, mut bound) =
        (inputs.iter().collect::<Vec<_>>(), again.iter_mut().map(Bound::Buffer).collect::<Vec<_>>());
    SECTIONS.with_borrow_mut(Vec::clear);
    ROUNDINGS.take();
    let before = CALLS.get();
    let ((), heap) = heap_of(|| plan.run_observed(&env, &inputs, &mut bound, &mut Unobserved).unwrap());
    assert_eq!((heap.allocations, CALLS.get() - before), (0, 0), "{count} threads: {text}");
    Ran { outputs, steps: plan.description().steps.len(), sections: SECTIONS.take(), roundings: ROUNDINGS.take() }
}

/// A product `%id` of `%x` and a constant: of floats, or of integers of 4 bits.
fn product(id: &str, dtype: &str, [depth, columns]: [usize; 2], zero: &str) -> String {
    match dtype {
        "int4" => format!(
            "%{id}w = constant int4 [{columns}, {blocks}, 32]
             %{id}s = constant float32 [{columns}, {blocks}, 1] 0.25 0.5 -0.125
             %{id}z = constant int4 [{columns}, {blocks}, 1] {zero}
             %{id}d = dequantizeLinear %{id}w %{id}s %{id}z
             %{id}r = reshape %{id}d newShape=[{columns}, {depth}]
             %{id} = gemm %x %{id}r bTranspose=true\n",
            blocks = depth / 32
        ),
        _ => format!("%{id}w = constant {dtype} [{depth}, {columns}]\n%{id} = matmul %x %{id}w\n"),
    }
}

/// The products of a layer of a language model that read the same rows: query, key and value, or gate and up.
fn layer(dtype: &str, rows: usize, columns: &[usize]) -> String {
    let mut text = match dtype {
        // Computed in float32: inputs are converted where that is less than what follows.
        "float16" => format!("%i = input x float16 [{rows}, 512]\n%x = relu %i\n"),
        _ => format!("%x = input x float32 [{rows}, 512]\n"),
    };
    for (index, &columns) in columns.iter().enumerate() {
        text += &product(&format!("p{index}"), dtype, [512, columns], "1");
        text += &format!("%y{index} = tanh %p{index}\noutput y{index} = %y{index}\n");
    }
    text
}

#[test]
fn products_of_the_same_rows_are_one_section_at_any_number_of_threads() {
    // Keys and values of the first one are too small to be shared alone.
    for columns in [&[768, 96, 96][..], &[1408, 1408]] {
        for (dtype, rows) in [("float32", 1), ("int4", 1), ("float16", 1), ("int4", 5), ("float32", 40), ("int4", 40)] {
            let text = layer(dtype, rows, columns);
            let alone = run(&text, APART, Isa::best(), 1);
            assert!(alone.sections.is_empty());
            for count in [1, 2, 3, 8, 16, 64] {
                let [apart, beside] = [APART, Passes::ALL].map(|passes| run(&text, passes, Isa::best(), count));
                let context = || format!("{columns:?}, {dtype}, {rows} rows, {count} threads");
                assert!(apart.outputs == alone.outputs && beside.outputs == alone.outputs, "{}", context());
                assert_eq!(apart.steps - beside.steps, columns.len() - 1, "{}", context());
                let rounded = alone.roundings > 0;
                assert_eq!(rounded, dtype == "int4" && rows < 40 && Isa::best() != Isa::Portable, "{}", context());
                assert_eq!(apart.roundings, columns.len() * rounded as usize, "{}", context());
                assert_eq!(beside.roundings, rounded as usize, "{}", context());
                assert_eq!(beside.sections.len(), (count > 1) as usize, "{}: {:?}", context(), beside.sections);
                // The columns of all products are cut together: there is a piece for each thread, as far as they go.
                let panels = columns.iter().sum::<usize>() / 32;
                assert!(
                    beside.sections.iter().all(|pieces| *pieces >= count.min(panels / 2)),
                    "{}: {:?}",
                    context(),
                    beside.sections
                );
            }
        }
    }
}

#[test]
fn they_have_the_bits_of_separate_products_with_every_instruction_set() {
    let tails = "%a = add %p0 %b\n%y0 = relu %a\n%s = sigmoid %p1\n%y1 = mul %p1 %s\n%y2 = add %p2 %f\n";
    for rows in [1, 3, 8, 9, 50] {
        for dtype in ["float32", "float16", "int4"] {
            let float = if dtype == "int4" { "float32" } else { dtype };
            let products: String = [37, 70, 1]
                .iter()
                .enumerate()
                .map(|(index, &columns)| product(&format!("p{index}"), dtype, [288, columns], "1"))
                .collect();
            let text = format!(
                "%x = input x {float} [{rows}, 288]\n%f = input f {float} [{rows}, 1]\n%b = constant {float} [37]
                 {products}{tails}output a = %y0\noutput b = %y1\noutput c = %y2"
            );
            for isa in Isa::available() {
                let expected = run(&text, APART, isa, 1).outputs;
                for count in [1, 2, 7] {
                    assert!(
                        run(&text, Passes::ALL, isa, count).outputs == expected,
                        "{isa:?}, {count} threads: {text}"
                    );
                }
            }
        }
    }
}

#[test]
fn products_that_round_rows_differently_follow_each_other() {
    let products = product("p0", "int4", [64, 40], "1")
        + &product("p1", "int4", [64, 40], "")
        + &product("p2", "int4", [64, 33], "1");
    let text = format!("%x = input x float32 [1, 64]\n{products}output a = %p0\noutput b = %p1\noutput c = %p2");
    let [apart, beside] = [APART, Passes::ALL].map(|passes| run(&text, passes, Isa::best(), 2));
    assert!(beside.outputs == apart.outputs);
    assert_eq!((beside.steps, beside.roundings), (1, apart.roundings));
    check(&parse(&text), Tolerance::ulps(8).or_absolute(2e-2));
}

#[test]
fn a_step_of_several_nodes_is_described_and_timed_as_one() {
    let text = "%x = input x float32 [2, 8]
        %a = constant float32 [8, 16]
        %b = constant float32 [8, 4]
        %p = matmul %x %a
        %q = relu %p
        %r = abs %x
        %s = matmul %x %b
        output y = %q
        output z = %r
        output w = %s";
    let threads = Threads::new(1).unwrap();
    let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
    let mut plan = Plan::compile(parse(text), &env, TARGET.passes, PlanOptions::default()).unwrap();
    let json = plan.description().json();
    let steps = json["steps"].as_array().unwrap();
    let [product, other] = &steps[..] else { panic!("{json}") };
    assert_eq!((&product["node"], &product["beside"]), (&0.into(), &serde_json::json!([1])));
    assert_eq!((&product["kernel"], &product["operator"]), (&"gemm".into(), &"matmul".into()));
    assert_eq!(product["multiplyAdds"], 2 * 8 * 20);
    assert_eq!((&product["bytesRead"], &product["bytesWritten"]), (&((16 + 160) * 4).into(), &(40 * 4).into()));
    assert_eq!((&other["node"], other.get("beside")), (&2.into(), None));
    let origins: Vec<_> = json["compiled"]["nodes"].as_array().unwrap().iter().map(|node| &node["origins"]).collect();
    assert_eq!(origins, [&serde_json::json!([0, 1]), &[3].into(), &[2].into()]);
    let mut watch = Stopwatch::new(1, steps.len()).unwrap();
    let (inputs, mut outputs) = buffers(&plan);
    let mut bound: Vec<Bound> = outputs.iter_mut().map(Bound::Buffer).collect();
    plan.run_observed(&env, &inputs.iter().collect::<Vec<_>>(), &mut bound, &mut watch).unwrap();
    assert_eq!(watch.into_times().len(), (1 + steps.len()) * 16);
}

#[test]
fn they_adapt_to_other_numbers_of_rows() {
    let threads = Threads::new(2).unwrap();
    let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
    for dtype in ["float32", "int4"] {
        let at = |rows: usize| {
            let mut graph = parse(&layer(dtype, rows, &[70, 40, 33]));
            let origin = Origin::optimize(&mut graph, &TARGET, Passes::ALL, &evaluator(&env)).unwrap();
            (graph, origin)
        };
        let (mut graph, origin) = at(1);
        let mut plan = Plan::of_optimized(&mut graph, origin, &env, PlanOptions::default()).unwrap();
        for rows in [7, 1, 300, 9, 8, 1] {
            let (mut graph, origin) = at(rows);
            let filling =
                Filling { graph: &graph, changes: &Changes { constants: Vec::new(), ..Changes::all(&graph) } };
            assert!(plan.resize(&filling, origin.clone(), &env).unwrap(), "{dtype}, {rows} rows");
            let mut new = Plan::of_optimized(&mut graph, origin, &env, PlanOptions::default()).unwrap();
            assert_eq!(plan.description().memory, new.description().memory, "{dtype}, {rows} rows");
            assert!(bits(&mut plan, &env) == bits(&mut new, &env), "{dtype}, {rows} rows");
        }
    }
}

/// The ranges of nodes of the steps of `graph`.
fn steps(graph: &Graph) -> Vec<Range<usize>> {
    let firsts: Vec<usize> = (0..graph.nodes.len()).filter(|index| !graph.beside.contains(index)).collect();
    let ends = firsts[1..].iter().copied().chain([graph.nodes.len()]);
    firsts.iter().zip(ends).map(|(&first, end)| first..end).collect()
}

#[test]
fn what_a_step_writes_shares_no_memory_with_what_is_needed() {
    let threads = Threads::new(1).unwrap();
    let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
    let mut dying = 0;
    for seed in 1..300 {
        let graph = optimized(&parse(&random_products(seed, 3)), &env, Passes::ALL);
        let steps = steps(&graph);
        let mut scratch = vec![0; graph.nodes.len()];
        steps.iter().for_each(|step| scratch[step.start] = 100);
        let memory = plan(&graph, &scratch, true, TARGET.granularity);
        let place = |id: &ValueId| memory.places[id.index()].unwrap();
        let is_output = |id: &ValueId| graph.outputs.iter().any(|(_, other)| other == id);
        for step in steps {
            let nodes = &graph.nodes[step.clone()];
            let written: Vec<Place> =
                nodes.iter().map(|node| place(&node.outputs[0])).chain([memory.scratch[step.start]]).collect();
            // Computed before, and read by this step or later.
            let is_needed = |id: &&ValueId| {
                is_output(id) || graph.nodes[step.start..].iter().any(|node| node.reads().any(|read| read == *id))
            };
            let computed = graph.nodes[..step.start].iter().map(|node| &node.outputs[0]);
            let needed: Vec<&ValueId> = computed.filter(is_needed).collect();
            for (index, own) in written.iter().enumerate() {
                let others = written[..index].iter().copied().chain(needed.iter().map(|id| place(id)));
                others.for_each(|other| assert!(!own.overlaps(&other), "{own:?} and {other:?} in {graph}"));
            }
            // Addends that nothing reads afterwards, of members that others follow.
            let is_last = |id: &&&ValueId| {
                let later = graph.nodes[step.end..].iter().flat_map(Node::reads).any(|read| read == **id);
                let own = nodes[..nodes.len() - 1].iter().flat_map(|node| node.reads().skip(1));
                !later && !is_output(id) && own.into_iter().any(|read| read == **id)
            };
            dying += needed.iter().filter(is_last).count();
        }
    }
    assert!(dying > 10, "{dying} addends are needed for the last time");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Products among other nodes, with addends that are needed for the last time, on guarded memory full of NaN.
    #[test]
    fn random_graphs_of_products(seed in 1u64..1 << 40, rows in 1usize..6) {
        check(&parse(&random_products(seed, rows)), Tolerance::ulps(64).or_absolute(1e-3));
    }
}

/// A random graph of products, sums and functions of values of one shape, with some of them as outputs.
pub fn random_products(seed: u64, rows: usize) -> String {
    let mut random = Random::new(seed);
    let mut pick = |count: usize| random.next() as usize % count;
    let mut text = format!(
        "%0 = input x float32 [{rows}, 8]\n%w = constant float32 [8, 8] 0.125 -0.25 0.0625\n%v = constant float32 [8] 0.5\n"
    );
    for id in 1..24 {
        let [a, b] = [pick(id.min(4)), pick(id)].map(|back| id - 1 - back);
        text += &match pick(6) {
            0 | 1 => format!("%{id} = matmul %{a} %w\n"),
            2 => format!("%{id} = gemm %{a} %w %{b} bTranspose=true\n"),
            3 => format!("%{id} = gemm %{a} %w %v\n"),
            4 => format!("%{id} = tanh %{a}\n"),
            _ => format!("%{id}a = matmul %{a} %w\n%{id}b = add %{id}a %{b}\n%{id} = tanh %{id}b\n"),
        };
    }
    (0..5).for_each(|index| text += &format!("output y{index} = %{}\n", 23 - index * pick(4)));
    text
}
