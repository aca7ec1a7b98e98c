//! Tests graphs against the oracle: on every instruction set, with 1, 2 and 7 threads, compiled or not. Also, helpers
//! for tests of whole processes.

use crate::compile::{Passes, optimize};
use crate::cpu::arena::Arena;
use crate::cpu::evaluate::evaluator;
use crate::cpu::plan::{Plan, PlanOptions};
use crate::cpu::schedule::pool::Threads;
use crate::cpu::simd::Isa;
use crate::cpu::steps::Env;
use crate::dtype::{DataType, Number};
use crate::ir::{Constant, Graph, Source};
use crate::memory::{Buffer, Mapped, MappedFile};
use crate::ops::tensor::Tensor;
use crate::reference;
use crate::shape::Descriptor;
use half::f16;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Backends for tests of the compiler, which does not depend on any.
pub use crate::cpu::plan::TARGET as CPU;
pub use crate::gpu::plan::TARGET as GPU;

/// Runs `measure`, which reads counters of the whole process, in a separate process that runs only the test `name`.
#[cfg(target_os = "linux")]
pub fn alone(name: &str, measure: impl FnOnce()) {
    const ALONE: &str = "WEBNN_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return measure();
    }
    let mut test = std::process::Command::new(std::env::current_exe().unwrap());
    let output = test.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// A size listed in `/proc/self/status`, in bytes.
#[cfg(target_os = "linux")]
pub fn process_bytes(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim_end_matches("kB").trim().parse::<usize>().unwrap() * 1024
}

/// Runs `work` on a graph of some 10^5 nodes and values. It must take a time proportional to these, less than a second:
/// time that grows with their square would be minutes.
///
/// # Panics
/// If it takes longer.
pub fn in_little_time<T>(work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    let took = start.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    result
}

/// The tolerance of a comparison with the oracle.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Units in the last place.
    pub ulps: u64,
    /// An absolute difference.
    pub absolute: f64,
}

impl Tolerance {
    /// Equal values, except for the sign of zero.
    pub const EXACT: Tolerance = Tolerance { ulps: 0, absolute: 0.0 };

    /// At most `ulps` units in the last place of the output's data type, after rounding the oracle's value to it. For
    /// integers, a difference of at most `ulps`.
    pub const fn ulps(ulps: u64) -> Tolerance {
        Tolerance { ulps, absolute: 0.0 }
    }

    /// Also accepts an absolute difference of up to `absolute`, for results near zero from larger terms.
    pub const fn or_absolute(self, absolute: f64) -> Tolerance {
        Tolerance { absolute, ..self }
    }

    fn accepts(self, got: Number, expected: Number, dtype: DataType) -> bool {
        let (Number::Float(got), Number::Float(expected)) = (got, expected) else {
            let (Number::Int(got), Number::Int(expected)) = (got, expected) else { return false };
            return got.abs_diff(expected) <= self.ulps as u128;
        };
        if got.is_nan() || expected.is_nan() {
            return got.is_nan() && expected.is_nan();
        }
        (got - expected).abs() <= self.absolute
            || ordered_bits(got, dtype).abs_diff(ordered_bits(expected, dtype)) <= self.ulps
    }
}

/// Maps floating-point values to integers: neighboring values become neighboring integers.
fn ordered_bits(x: f64, dtype: DataType) -> i64 {
    let (magnitude, negative) = match dtype {
        DataType::Float16 => (f16::from_f64(x.abs()).to_bits() as i64, x.is_sign_negative()),
        DataType::Float64 => (x.abs().to_bits() as i64, x.is_sign_negative()),
        _ => ((x.abs() as f32).to_bits() as i64, x.is_sign_negative()),
    };
    if negative { -magnitude } else { magnitude }
}

/// A source of pseudo-random numbers.
pub struct Random(u64);

impl Random {
    /// Creates the source for a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number (xorshift64*).
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// An integer below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    /// Uniform in `0.0..1.0`.
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A tensor of random values: floats in -4..4, small integers for the wide types, all values of the 8-bit types.
    pub fn tensor(&mut self, descriptor: &Descriptor) -> Tensor {
        self.tensor_in(descriptor, -4.0, 4.0)
    }

    /// A tensor with floats in `low..high`; integers as in [`tensor`](Random::tensor).
    pub fn tensor_in(&mut self, descriptor: &Descriptor, low: f64, high: f64) -> Tensor {
        let dtype = descriptor.dtype;
        Tensor::from_fn(descriptor, |_| match dtype.integer_range() {
            None => Number::Float(low + (high - low) * self.uniform()).cast(dtype),
            Some((min, max)) if dtype.size() == 1 => Number::Int(min + (self.next() as i128 & 255).min(max - min)),
            Some((min, _)) => Number::Int((self.next() % 200) as i128 - if min < 0 { 100 } else { 0 }),
        })
    }
}

/// A file that is deleted on drop.
pub struct TemporaryFile(pub PathBuf);

impl TemporaryFile {
    /// Creates a file with the contents `bytes`; `name` is a part of its name.
    pub fn new(name: &str, bytes: &[u8]) -> TemporaryFile {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("webnn-{}-{number}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("a temporary file");
        TemporaryFile(path)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).expect("the temporary file is still there");
    }
}

/// Cuts off the end of a mapped file; returns whether the system does that. Windows refuses it while the file is mapped,
/// and nothing can happen to its readers.
pub fn shrink(file: &TemporaryFile, len: u64) -> bool {
    let result = std::fs::File::options().write(true).open(&file.0).expect("the file").set_len(len);
    assert_eq!(result.is_err(), cfg!(windows), "{result:?}");
    result.is_ok()
}

/// Moves all constants of `graph` to a file, which is also returned: each starts `offset` bytes after a multiple of 64.
pub fn with_mapped_constants(graph: &Graph, offset: usize) -> (Graph, TemporaryFile) {
    let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
    for value in &graph.values {
        if let Some(constant) = value.constant() {
            let start = bytes.len().next_multiple_of(64) + offset;
            bytes.resize(start, 0xff);
            bytes.extend_from_slice(constant.buffer().expect("memory").bytes());
            ranges.push(start..bytes.len());
        }
    }
    let file = TemporaryFile::new("constants", &bytes);
    let mapped = MappedFile::open(&file.0).expect("the file");
    let mut graph = graph.clone();
    let constants = graph.values.iter_mut().filter(|value| value.constant().is_some());
    for (value, range) in constants.zip(ranges) {
        value.source = Source::Constant(Constant::Mapped(Mapped::new(mapped.clone(), range).expect("in the file")));
    }
    (graph, file)
}

/// The bytes of every output of the compiled `graph` on random inputs.
pub fn run_compiled(graph: &Graph, isa: Isa) -> Vec<Vec<u8>> {
    let mut random = Random::new(graph.values.len() as u64);
    let inputs = graph.inputs.iter().map(|(name, id)| (name.clone(), random.tensor(graph.descriptor(*id)))).collect();
    run_compiled_on(graph, &inputs, isa)
}

/// The bytes of every output of the compiled `graph` on `inputs`.
pub fn run_compiled_on(graph: &Graph, inputs: &HashMap<String, Tensor>, isa: Isa) -> Vec<Vec<u8>> {
    run_with(graph, inputs, isa, Passes::ALL)
}

/// The bytes of every output of `graph` on `inputs`, compiled with `passes`.
pub fn run_with(graph: &Graph, inputs: &HashMap<String, Tensor>, isa: Isa, passes: Passes) -> Vec<Vec<u8>> {
    let env = Env { threads: pool(1), isa, arena: &Arena::default() };
    let graph = optimized(graph, &env, passes);
    run(&graph, inputs, &env, PlanOptions { fill_arena: true, share_views: passes.views, winograd: passes.winograd })
}

/// Calls [`check_with`] on random inputs.
pub fn check(graph: &Graph, tolerance: Tolerance) {
    let mut random = Random::new(graph.values.len() as u64);
    let inputs = graph.inputs.iter().map(|(name, id)| (name.clone(), random.tensor(graph.descriptor(*id)))).collect();
    check_with(graph, &inputs, tolerance);
}

/// Runs `graph` unoptimized and optimized, on every available instruction set and with 1, 2 and 7 threads, with the
/// arena full of NaN, and compares every output with the oracle. The bits must not depend on the number of threads.
///
/// # Panics
/// If a result is outside of the tolerance. The message names the element, both values and the graph.
pub fn check_with(graph: &Graph, inputs: &HashMap<String, Tensor>, tolerance: Tolerance) {
    let expected = check_on_cpu(graph, inputs, tolerance);
    crate::gpu::testing::check_where_asked(graph, inputs, &expected, tolerance);
}

/// Like [`check_with`], never on a GPU: for rounding that shaders do not have. Returns what the oracle computes.
///
/// # Panics
/// Same as [`check_with`].
pub fn check_on_cpu(graph: &Graph, inputs: &HashMap<String, Tensor>, tolerance: Tolerance) -> HashMap<String, Tensor> {
    graph.verify();
    let expected = reference::run(graph, inputs);
    for isa in Isa::available() {
        for Variant { name, graph, share_views } in variants(graph, isa) {
            let mut first: Option<Vec<Vec<u8>>> = None;
            for threads in [1, 2, 7] {
                let options = PlanOptions { fill_arena: true, share_views, winograd: share_views };
                let outputs =
                    run(&graph, inputs, &Env { threads: pool(threads), isa, arena: &Arena::default() }, options);
                let context = || format!("{name}, {isa:?}, {threads} threads, of\n{graph}");
                match &first {
                    None => compare(&graph, &outputs, &expected, |_| tolerance, &context),
                    Some(first) => {
                        assert!(&outputs == first, "the bits depend on the number of threads: {}", context())
                    }
                }
                first.get_or_insert(outputs);
            }
        }
    }
    expected
}

/// One way to run a graph.
struct Variant {
    name: &'static str,
    graph: Graph,
    share_views: bool,
}

/// The graph before and after compilation.
fn variants(graph: &Graph, isa: Isa) -> [Variant; 2] {
    let env = Env { threads: pool(1), isa, arena: &Arena::default() };
    let compiled = optimized(graph, &env, Passes::ALL);
    [
        Variant { name: "as built", graph: graph.clone(), share_views: false },
        Variant { name: "compiled", graph: compiled, share_views: true },
    ]
}

/// Optimizes `graph` with those of `passes` that suit the CPU, which folds constants itself.
pub fn optimized(graph: &Graph, env: &Env, passes: Passes) -> Graph {
    let mut graph = graph.clone();
    optimize(&mut graph, &CPU, passes, &evaluator(env)).expect("a graph");
    graph
}

/// `graph` as it is compiled for this processor.
pub fn compiled(graph: &Graph) -> Graph {
    let env = Env { threads: pool(1), isa: Isa::detect().expect("a level"), arena: &Arena::default() };
    optimized(graph, &env, Passes::ALL)
}

/// The pool of 1, 2 or 7 threads, shared by all tests of the process.
fn pool(count: usize) -> &'static Threads {
    static POOLS: OnceLock<Vec<Threads>> = OnceLock::new();
    let pools = POOLS.get_or_init(|| [1, 2, 7].map(|count| Threads::new(count).expect("a thread pool")).to_vec());
    pools.iter().find(|pool| pool.count() == count).expect("1, 2 or 7 threads")
}

/// The bytes of every output of `graph` on the CPU.
fn run(graph: &Graph, inputs: &HashMap<String, Tensor>, env: &Env, options: PlanOptions) -> Vec<Vec<u8>> {
    // Kernels that go beyond the end of an operand, of a packed one or of the arena do not survive.
    #[cfg(target_os = "linux")]
    let _guard = crate::memory::guarded::guard();
    let mut plan = Plan::new(graph.clone(), env, options).expect("a plan");
    let inputs: Vec<Buffer> =
        plan.inputs().iter().map(|(name, _)| Buffer::copy_of(&inputs[name].to_bytes()).unwrap()).collect();
    // NaN, to detect elements that are never written.
    let mut outputs: Vec<Buffer> =
        plan.outputs().iter().map(|(_, d)| Buffer::copy_of(&vec![0xff; d.bytes()]).unwrap()).collect();
    plan.run(env, &inputs.iter().collect::<Vec<_>>(), &mut outputs.iter_mut().collect::<Vec<_>>()).unwrap();
    outputs.iter().map(|buffer| buffer.bytes().to_vec()).collect()
}

/// Compares every output with the oracle's.
///
/// # Panics
/// If one is outside of the tolerance for its data type.
pub fn compare(
    graph: &Graph,
    outputs: &[Vec<u8>],
    expected: &HashMap<String, Tensor>,
    tolerance: impl Fn(DataType) -> Tolerance,
    context: &dyn Fn() -> String,
) {
    for ((name, id), bytes) in graph.outputs.iter().zip(outputs) {
        let descriptor = graph.descriptor(*id);
        let got = Tensor::from_bytes(descriptor, bytes);
        let tolerance = tolerance(descriptor.dtype);
        for (index, (got, expected)) in got.numbers().zip(expected[name].rounded().numbers()).enumerate() {
            assert!(
                tolerance.accepts(got, expected, descriptor.dtype),
                "output {name}, element {index}: got {got:?}, expected {expected:?} within {tolerance:?}: {}",
                context()
            );
        }
    }
}

/// Runs `pass` on the graph with the text `before` and compares the result with the text `after`; compares the outputs
/// of both graphs in the oracle on random inputs.
pub fn check_pass(pass: fn(&mut Graph), before: &str, after: &str) {
    let original = crate::ir::parse(before);
    let mut graph = original.clone();
    pass(&mut graph);
    graph.verify();
    let after: String = after.lines().map(|line| line.trim().to_string() + "\n").collect();
    assert_eq!(graph.to_string(), after);
    let mut random = Random::new(1);
    let inputs =
        original.inputs.iter().map(|(name, id)| (name.clone(), random.tensor(original.descriptor(*id)))).collect();
    let (expected, got) = (reference::run(&original, &inputs), reference::run(&graph, &inputs));
    for (name, expected) in expected {
        for (expected, got) in expected.numbers().zip(got[&name].numbers()) {
            let (a, b) = (expected.to_f64(), got.to_f64());
            assert!(
                a == b || (a - b).abs() <= 1e-9 * a.abs().max(1.0) || (a.is_nan() && b.is_nan()),
                "{name}: {a} became {b}"
            );
        }
    }
}

/// Calls [`check_pass`] for a graph that must remain unchanged.
pub fn check_pass_changes_nothing(pass: fn(&mut Graph), text: &str) {
    check_pass(pass, text, text);
}
