//! Products of any sizes, strides and formats, chosen by bytes, against the oracle: for tests with arbitrary input.

use super::arena::Arena;
use super::evaluate::evaluator;
use super::plan::{Plan, PlanOptions, TARGET};
use super::schedule::pool::Threads;
use super::simd::Isa;
use super::steps::Env;
use crate::compile::{Passes, optimize};
use crate::dtype::{DataType, Number};
use crate::ir::{Constant, FileType, Graph, Source, Widened, parse};
use crate::memory::{Backing, Buffer, Mapped};
use crate::ops::tensor::Tensor;
use crate::reference;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::OnceLock;

/// Sizes at the edges of vectors, register tiles and unrolled loops.
const EDGES: [usize; 20] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 31, 32, 33, 64, 65];

/// Computes the graph that `bytes` choose on every instruction set, with 1, 2 and 7 threads.
///
/// # Panics
/// If a result is not near the oracle's, or its bits depend on the number of threads.
pub fn probe(bytes: &[u8]) {
    let choices = &mut Choices(bytes.iter());
    let (mut graph, precision) = graph(choices);
    if choices.below(4) == 1 {
        graph = stored_as_bfloat16(graph);
    }
    let inputs: HashMap<String, Tensor> = graph
        .inputs
        .iter()
        .map(|(name, id)| {
            let mut at = 0u64;
            let tensor = Tensor::from_fn(graph.descriptor(*id), |_| {
                at += 1;
                let small = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57;
                match graph.descriptor(*id).dtype {
                    DataType::Float32 | DataType::Float16 => Number::Float((small as f64 - 64.0) / 32.0),
                    DataType::Int8 => Number::Int(2 * small as i128 - 128),
                    _ => Number::Int(2 * small as i128),
                }
            });
            (name.clone(), tensor)
        })
        .collect();
    let expected = &reference::run(&graph, &inputs)["y"].rounded();
    for isa in Isa::available() {
        let [first, others @ ..] = &pools().each_ref().map(|threads| run(&graph, &inputs, isa, threads));
        assert!(others.iter().all(|other| other == first), "bits depend on the number of threads: {isa:?}, {graph}");
        let got = Tensor::from_bytes(&expected.descriptor(), first);
        compare(&got, expected, precision, &format!("{isa:?}, {graph}"));
    }
}

/// The graph with its float32 constants stored as bfloat16, rounded towards zero.
pub fn stored_as_bfloat16(mut graph: Graph) -> Graph {
    for value in &mut graph.values {
        let Some(constant) = value.constant().filter(|_| value.descriptor.dtype == DataType::Float32) else { continue };
        let floats = constant.buffer().expect("memory");
        let bytes: Vec<u8> = floats.bytes().as_chunks().0.iter().flat_map(|&[_, _, low, high]| [low, high]).collect();
        let len = bytes.len();
        let stored = Mapped::new(Backing::of_bytes(bytes), 0..len).expect("all bytes");
        value.source = Source::Constant(Constant::Widened(Widened::new(stored, FileType::Bfloat16, len / 2)));
    }
    graph
}

/// Pools of 1, 2 and 7 threads.
fn pools() -> &'static [Threads; 3] {
    static POOLS: OnceLock<[Threads; 3]> = OnceLock::new();
    POOLS.get_or_init(|| [1, 2, 7].map(|count| Threads::new(count).expect("a thread pool")))
}

fn run(graph: &Graph, inputs: &HashMap<String, Tensor>, isa: Isa, threads: &Threads) -> Vec<u8> {
    let env = Env { threads, isa, arena: &Arena::default() };
    let mut graph = graph.clone();
    optimize(&mut graph, &TARGET, Passes::ALL, &evaluator(&env)).expect("a graph");
    let options = PlanOptions { fill_arena: true, ..PlanOptions::default() };
    let mut plan = Plan::new(graph, &env, options).expect("a plan");
    let buffer = |bytes: &[u8]| Buffer::copy_of(bytes).expect("memory");
    let inputs: Vec<Buffer> = plan.inputs().iter().map(|(name, _)| buffer(&inputs[name].to_bytes())).collect();
    // NaN, to detect elements that are never written.
    let mut output = buffer(&vec![0xff; plan.outputs()[0].1.bytes()]);
    plan.run(&env, &inputs.iter().collect::<Vec<_>>(), &mut [&mut output]).expect("a run");
    output.bytes().to_vec()
}

/// A magnitude that sums of products usually reach, even where the results are clamped.
const USUAL: f64 = 16.0;

/// Compares with the oracle, relative to its largest element: terms that cancel leave errors of that size. Integers may
/// differ by 1.
fn compare(got: &Tensor, expected: &Tensor, precision: f64, context: &str) {
    let numbers = |tensor: &Tensor| tensor.numbers().map(Number::to_f64).collect::<Vec<f64>>();
    let (is_float, got, wanted) = (expected.descriptor().dtype.is_float(), numbers(got), numbers(expected));
    let largest = wanted.iter().fold(USUAL, |largest: f64, x| largest.max(x.abs()));
    let bound = if is_float { largest * precision } else { 1.0 };
    for (index, (got, wanted)) in got.into_iter().zip(wanted).enumerate() {
        let is_near = (got - wanted).abs() <= bound || got.is_nan() && wanted.is_nan();
        assert!(is_near, "element {index}: got {got}, expected {wanted} within {bound}: {context}");
    }
}

/// The choices that bytes make: the first one of each, when they run out.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn below(&mut self, most: usize) -> usize {
        *self.0.next().unwrap_or(&0) as usize % most
    }

    fn of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len())]
    }

    fn size(&mut self) -> usize {
        EDGES[self.below(EDGES.len())]
    }

    /// A sum of products has this many terms.
    fn depth(&mut self) -> usize {
        self.size() * if self.below(4) == 0 { 9 } else { 1 }
    }
}

/// Defines `name` as an operand with this shape: an input, a constant, or a part of a larger or smaller one, so that it
/// has any strides.
fn operand(text: &mut String, choices: &mut Choices, name: &str, dtype: &str, shape: &[usize]) {
    let (rank, mut source) = (shape.len(), shape.to_vec());
    let [row, col] = [rank - 2, rank - 1];
    let view = match choices.below(8) {
        0 => {
            _ = writeln!(text, "%{name} = constant {dtype} {shape:?}");
            return;
        }
        1 => {
            source.swap(row, col);
            let axes: Vec<usize> = (0..row).chain([col, row]).collect();
            format!("transpose %{name}0 permutation={axes:?}")
        }
        2 => {
            (source[row], source[col]) = (shape[row] + 2, shape[col] + 3);
            let starts: Vec<usize> = (0..rank).map(|axis| if axis >= row { axis + 1 - row } else { 0 }).collect();
            format!("slice %{name}0 starts={starts:?} sizes={shape:?}")
        }
        3 => {
            source[row] = 1;
            format!("expand %{name}0 newShape={shape:?}")
        }
        4 => {
            source[col] = 1;
            format!("expand %{name}0 newShape={shape:?}")
        }
        5 => {
            source[row] = 2 * shape[row];
            let steps: Vec<usize> = (0..rank).map(|axis| 1 + (axis == row) as usize).collect();
            let starts = vec![0; rank];
            format!("slice %{name}0 starts={starts:?} sizes={source:?} strides={steps:?}")
        }
        _ => format!("identity %{name}0"),
    };
    _ = writeln!(text, "%{name}0 = input {name} {dtype} {source:?}\n%{name} = {view}");
}

/// The graph of a product, chosen by bytes, and its precision relative to the largest element.
fn graph(choices: &mut Choices) -> (Graph, f64) {
    let mut text = String::new();
    let kinds: [fn(&mut String, &mut Choices) -> Chosen; 6] = [matmul, gemm, quantized, blocks, convolution, attention];
    let product = kinds[choices.below(kinds.len())](&mut text, choices);
    tail(&mut text, choices, &product);
    text += "output y = %y";
    let bits = match product.dtype {
        _ if product.rounds => 5,
        "float16" => 7,
        _ => 14,
    };
    (parse(&text), 0.5f64.powi(bits))
}

/// The type and shape of the value `%p`.
struct Chosen {
    dtype: &'static str,
    shape: Vec<usize>,
    /// Where the columns are.
    axis: usize,
    /// Whether rows are rounded to 8 bits.
    rounds: bool,
}

impl Chosen {
    fn new(dtype: &'static str, shape: Vec<usize>) -> Chosen {
        Chosen { dtype, axis: shape.len() - 1, shape, rounds: false }
    }
}

/// Defines `%y` from `%p`.
fn tail(text: &mut String, choices: &mut Choices, product: &Chosen) {
    let Chosen { dtype, shape, axis, rounds } = product;
    let mut vector = vec![1; shape.len()];
    vector[*axis] = shape[*axis];
    // Functions that limit their results would hide how large the errors of rounded rows may be.
    let operation = match choices.below(if *rounds { 3 } else { 8 }) {
        0 => {
            _ = writeln!(text, "%t = constant {dtype} {vector:?}");
            "add %p %t"
        }
        1 => {
            operand(text, choices, "t", dtype, shape);
            "add %p %t"
        }
        2 => {
            operand(text, choices, "t", dtype, shape);
            "mul %t %p"
        }
        3 => "relu %p",
        4 => "sigmoid %p",
        5 => "clamp %p minValue=-1.5 maxValue=2",
        6 if *dtype == "float32" => {
            _ = writeln!(
                text,
                "%s = constant float32 {ones:?} 0.25\n%z = constant uint8 {ones:?} 131",
                ones = vec![1; shape.len()]
            );
            "quantizeLinear %p %s %z"
        }
        _ => "identity %p",
    };
    _ = writeln!(text, "%y = {operation}");
}

fn float(choices: &mut Choices) -> &'static str {
    choices.of(&["float32", "float16"])
}

fn matmul(text: &mut String, choices: &mut Choices) -> Chosen {
    let (dtype, [m, k, n]) = (float(choices), [choices.size(), choices.depth(), choices.size()]);
    let batches = 1 + choices.below(3);
    let own = if choices.below(2) == 0 { 1 } else { batches };
    operand(text, choices, "a", dtype, &[batches, m, k]);
    operand(text, choices, "b", dtype, &[own, k, n]);
    *text += "%p = matmul %a %b\n";
    Chosen::new(dtype, vec![batches, m, n])
}

fn gemm(text: &mut String, choices: &mut Choices) -> Chosen {
    let (dtype, [m, k, n]) = (float(choices), [choices.size(), choices.depth(), choices.size()]);
    let turned = [choices.below(2) == 1, choices.below(2) == 1];
    let sides = |turned: bool, shape: [usize; 2]| if turned { [shape[1], shape[0]] } else { shape };
    operand(text, choices, "a", dtype, &sides(turned[0], [m, k]));
    operand(text, choices, "b", dtype, &sides(turned[1], [k, n]));
    operand(text, choices, "c", dtype, &[m, n]);
    let alpha = choices.of(&["1", "0.5", "-2"]);
    _ = writeln!(text, "%p = gemm %a %b %c alpha={alpha} beta=0.5 aTranspose={} bTranspose={}", turned[0], turned[1]);
    Chosen::new(dtype, vec![m, n])
}

/// The product of dequantized bytes.
fn quantized(text: &mut String, choices: &mut Choices) -> Chosen {
    let [m, k, n] = [choices.size(), choices.depth(), choices.size()];
    let [left, right] = [choices.of(&["uint8", "int8"]), choices.of(&["uint8", "int8"])];
    let zeros = [choices.below(128), choices.below(128)];
    operand(text, choices, "a", left, &[m, k]);
    _ = writeln!(
        text,
        "%q = constant float32 [1, 1] 0.0625\n%z0 = constant {left} [1, 1] {}\n%d = dequantizeLinear %a %q %z0
         %b = constant {right} [{k}, {n}]\n%r = constant float32 [1, {n}] 0.25 0.125\n%z1 = constant {right} [1, {n}] {} 0
         %w = dequantizeLinear %b %r %z1\n%p = matmul %d %w",
        zeros[0], zeros[1]
    );
    Chosen::new("float32", vec![m, n])
}

/// The product with weights of 4 or 8 bits in blocks.
fn blocks(text: &mut String, choices: &mut Choices) -> Chosen {
    let (dtype, [m, n]) = (float(choices), [choices.size(), choices.size()]);
    let weights = choices.of(&["uint4", "int4", "uint8", "int8"]);
    let (block, blocks) = ([8, 16, 32, 64, 128][choices.below(5)], 1 + choices.below(5));
    let depth = block * blocks - if choices.below(3) == 0 { choices.below(block) } else { 0 };
    let (all, rounds) = (block * blocks, choices.below(3) == 0 && dtype == "float32");
    let zero = choices.of(&["", "3", "0"]);
    operand(text, choices, "a", dtype, &[m, depth]);
    _ = writeln!(
        text,
        "%w = constant {weights} [{n}, {blocks}, {block}]\n%s = constant {dtype} [{n}, {blocks}, 1] 0.25 0.5 -0.125 1 0.0625
         %z = constant {weights} [{n}, {blocks}, 1] {zero}\n%d = dequantizeLinear %w %s %z
         %r = reshape %d newShape=[{n}, {all}]\n%c = slice %r starts=[0, 0] sizes=[{n}, {depth}]
         %p = gemm %a %c bTranspose=true roundsRows={rounds}"
    );
    Chosen { rounds, ..Chosen::new(dtype, vec![m, n]) }
}

/// A convolution, or a transposed one.
fn convolution(text: &mut String, choices: &mut Choices) -> Chosen {
    let (dtype, is_last) = (float(choices), choices.below(2) == 0);
    let groups = [1, 1, 1, 2, 5][choices.below(5)];
    let each = [[1, 1], [3, 8], [8, 33], [17, 4], [32, 16]][choices.below(5)];
    let [inputs, outputs] = each.map(|each| each * groups);
    let [height, width] = [5 + choices.below(9), 5 + choices.below(9)];
    let [kernel, other] = [1 + choices.below(3), 1 + choices.below(3)];
    let (strides, dilations) = ([1 + choices.below(3), 1 + choices.below(3)], [1, 1 + choices.below(2)]);
    let padding = [choices.below(2), choices.below(3), choices.below(2), choices.below(3)];
    let turned = choices.below(3) == 0;
    let x = if is_last { [2, height, width, inputs] } else { [2, inputs, height, width] };
    operand(text, choices, "x", dtype, &x);
    let filter = if turned { [inputs, each[1], kernel, other] } else { [outputs, each[0], kernel, other] };
    let (name, layout) = (if turned { "convTranspose2d" } else { "conv2d" }, if is_last { "nhwc" } else { "nchw" });
    // A transposed convolution must not cut off more than it has.
    let padding = if turned { [0; 4] } else { padding };
    _ = writeln!(
        text,
        "%f = constant {dtype} {filter:?}\n%b = constant {dtype} [{outputs}]
         %p = {name} %x %f %b groups={groups} inputLayout={layout} strides={strides:?} dilations={dilations:?} \
         padding={padding:?}"
    );
    let out = |axis: usize| {
        let (size, taps) = ([height, width][axis], ([kernel, other][axis] - 1) * dilations[axis]);
        match turned {
            true => (size - 1) * strides[axis] + taps + 1,
            false => (size + padding[2 * axis] + padding[2 * axis + 1] - taps - 1) / strides[axis] + 1,
        }
    };
    let [high, wide] = [out(0), out(1)];
    match is_last {
        true => Chosen { dtype, shape: vec![2, high, wide, outputs], axis: 3, rounds: false },
        false => Chosen { dtype, shape: vec![2, outputs, high, wide], axis: 1, rounds: false },
    }
}

/// Queries that may share keys and values.
fn attention(text: &mut String, choices: &mut Choices) -> Chosen {
    let (dtype, heads) = (float(choices), 1 + choices.below(3));
    let [rows, depth, columns] = [choices.size(), choices.size(), choices.size()];
    let keys = if choices.below(3) == 0 { 1020 + choices.size() } else { choices.depth() };
    operand(text, choices, "q", dtype, &[heads, rows, depth]);
    operand(text, choices, "k", dtype, &[heads, depth, keys]);
    operand(text, choices, "v", dtype, &[heads, keys, columns]);
    operand(text, choices, "m", dtype, &[1, rows, keys]);
    _ = writeln!(
        text,
        "%i = matmul %q %k\n%j = linear %i alpha=0.0625\n%l = add %j %m\n%w = softmax %l axis=2\n%p = matmul %w %v"
    );
    Chosen::new(dtype, vec![heads, rows, columns])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn products_of_any_operands(bytes in prop::collection::vec(any::<u8>(), 24..40)) {
            #[cfg(target_os = "linux")]
            let _guard = crate::memory::guarded::guard();
            probe(&bytes);
        }
    }

    /// Each kind of product, and each form of an operand.
    #[test]
    fn bytes_choose_everything() {
        let mut random = Random::new(1);
        let mut text = String::new();
        for _ in 0..300 {
            let bytes: Vec<u8> = (0..40).map(|_| random.next() as u8).collect();
            text += &graph(&mut Choices(bytes.iter())).0.to_string();
        }
        let words = [
            "matmul",
            "gemm",
            "roundsRows=true",
            "convTranspose2d",
            "conv2d",
            "softmax",
            "expand",
            "transpose",
            "slice",
            "quantizeLinear",
            "int4",
            "float16",
            "inputLayout=nhwc",
            "groups=5",
            "dilations",
            "strides",
            "padding",
        ];
        for word in words {
            assert!(text.contains(word), "{word}");
        }
    }
}
