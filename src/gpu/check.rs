//! Checks a device before it is used: drivers exist that compute wrong results, without an error. Every family of kernels
//! computes a few small graphs, and the oracle computes them again. Each driver is checked once, see [`verdicts`].

use super::adapter::Limits;
use super::device::{Device, EXTENSIONS};
use super::dialect::{Dialect, PerDialect};
use super::features::dialect_of;
use super::lower::lower;
use super::plan::{Plan, PlanOptions, TARGET};
use super::steps::product::choice::Variant;
use super::steps::product::self_test;
use super::verdicts::{self, Fault};
use crate::compile::{Passes, optimize};
use crate::dtype::{DataType, Number};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Evaluator, Graph, parse};
use crate::ops::tensor::Tensor;
use crate::reference;
use crate::shape::Descriptor;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;

/// Kernels that are right or wrong together.
struct Family {
    name: &'static str,
    cases: Vec<Case>,
}

/// A graph, and the kernel that its products are forced to use.
struct Case {
    text: String,
    variant: Option<Variant>,
    /// Whether SwiftShader takes minutes to compile its kernels.
    is_heavy: bool,
}

/// A case whose kernels are chosen as always.
fn plain(text: impl Into<String>) -> Case {
    Case { text: text.into(), variant: None, is_heavy: false }
}

/// The kernels of products, and a product with edges for each: rows, columns and terms, and whether the second matrix is
/// transposed.
const PRODUCTS: [(Variant, [u32; 3], bool); 8] = [
    (Variant::Plain, [3, 20, 6], false),
    (Variant::Lines, [1, 96, 300], false),
    (Variant::Lines, [5, 70, 130], false),
    (Variant::Dots, [1, 70, 300], true),
    (Variant::SubgroupDots, [2, 70, 300], true),
    (Variant::Tiled(32), [33, 35, 20], false),
    (Variant::Tiled(64), [65, 70, 40], true),
    (Variant::Tiled(128), [130, 133, 24], false),
];

fn products(dtype: &str) -> Vec<Case> {
    let case = |(variant, [rows, columns, depth], transposed): (Variant, [u32; 3], bool)| {
        let (first, second) = if transposed { (columns, depth) } else { (depth, columns) };
        let text = format!(
            "%0 = input a {dtype} [{rows}, {depth}]
             %1 = input b {dtype} [{first}, {second}]
             %2 = gemm %0 %1 _ bTranspose={transposed}
             output y = %2"
        );
        Case { text, variant: Some(variant), is_heavy: rows > 1 && variant != Variant::Plain }
    };
    PRODUCTS.map(case).into()
}

/// Products with quantized weights: one row, as in decoding, and many.
fn quantized(weights: &str) -> Vec<Case> {
    let case = |rows: u32| {
        let case = plain(format!(
            "%0 = input x float32 [{rows}, 128]
             %1 = constant {weights} [70, 4, 32]
             %2 = constant float32 [70, 4, 1]
             %3 = constant {weights} [70, 4, 1]
             %4 = dequantizeLinear %1 %2 %3
             %5 = reshape %4 newShape=[70, 128]
             %6 = gemm %0 %5 bTranspose=true
             output y = %6"
        ));
        Case { is_heavy: rows > 1, ..case }
    };
    [1, 40].map(case).into()
}

/// Attention of one row, as in decoding, and of many, with a mask.
fn attention(dtype: &str) -> Vec<Case> {
    let case = |rows: u32| {
        plain(format!(
            "%0 = input q {dtype} [2, {rows}, 16]
             %1 = input k {dtype} [2, 40, 16]
             %2 = input v {dtype} [2, 40, 16]
             %3 = input m {dtype} [1, 1, 40]
             %4 = transpose %1 permutation=[0, 2, 1]
             %5 = matmul %0 %4
             %6 = constant {dtype} [] 0.25
             %7 = mul %5 %6
             %8 = add %7 %3
             %9 = softmax %8 axis=2
             %10 = matmul %9 %2
             output y = %10"
        ))
    };
    [1, 20].map(case).into()
}

fn convolutions(dtype: &str) -> Vec<Case> {
    let images = format!("%0 = input x {dtype} [1, 8, 9, 11]\n");
    [
        "%1 = input w DTYPE [20, 8, 3, 3]\n%2 = conv2d %0 %1 padding=[1, 1, 1, 1]\noutput y = %2",
        "%1 = input w DTYPE [20, 8, 1, 1]\n%2 = conv2d %0 %1\noutput y = %2",
        "%1 = input w DTYPE [8, 1, 3, 3]\n%2 = conv2d %0 %1 groups=8 strides=[2, 2]\noutput y = %2",
        "%1 = input w DTYPE [8, 6, 2, 2]\n%2 = convTranspose2d %0 %1 strides=[2, 2]\noutput y = %2",
        "%1 = averagePool2d %0 windowDimensions=[3, 3]\n%2 = maxPool2d %0 windowDimensions=[2, 2]\noutput y = %1\noutput z = %2",
    ]
    .map(|text| plain(images.clone() + &text.replace("DTYPE", dtype)))
    .into()
}

fn normalizations(dtype: &str) -> Case {
    plain(format!(
        "%0 = input x {dtype} [6, 5, 200]
         %1 = softmax %0 axis=2
         %2 = softmax %0 axis=1
         %3 = layerNormalization %0 axes=[2]
         %5 = reshape %0 newShape=[2, 3, 5, 200]
         %4 = instanceNormalization %5
         output a = %1
         output b = %2
         output c = %3
         output d = %4"
    ))
}

fn reductions() -> Vec<Case> {
    let floats = "%0 = input x float32 [7, 300]
         %1 = reduceSum %0 axes=[1]
         %2 = reduceMax %0 axes=[0]
         %3 = reduceMean %0 axes=[0, 1]
         %4 = argMin %0 axis=1
         %5 = cumulativeSum %0 axis=1
         output a = %1
         output b = %2
         output c = %3
         output d = %4
         output e = %5";
    let others = "%0 = input x float16 [7, 300]
         %1 = reduceSum %0 axes=[1]
         %2 = input i int32 [7, 300]
         %3 = reduceSum %2 axes=[0]
         %4 = input l int64 [7, 30]
         %5 = reduceMax %4 axes=[1]
         output a = %1
         output b = %3
         output c = %5";
    [floats, others].map(plain).into()
}

fn elementwise() -> Vec<Case> {
    let floats = "%0 = input x float32 [9, 33]
         %1 = input y float32 [33]
         %2 = mul %0 %1
         %3 = exp %2
         %4 = tanh %0
         %5 = erf %4
         %6 = cast %5 dataType=float16
         %7 = transpose %0
         %8 = concat %0 %2 axis=0
         %9 = slice %8 starts=[5, 1] sizes=[9, 30]
         output a = %3
         output b = %6
         output c = %7
         output d = %9";
    let integers = "%0 = input x int32 [9, 33]
         %1 = input y int32 [33]
         %2 = mul %0 %1
         %3 = cast %2 dataType=float32
         %4 = input i int64 [9, 33]
         %5 = add %4 %4
         %6 = input u uint8 [9, 33]
         %7 = cast %6 dataType=float16
         %8 = greater %0 %1
         %9 = where %8 %0 %2
         %10 = input t float32 [33, 9]
         %11 = constant uint32 [4] 3 0 32 7
         %12 = gather %10 %11
         output a = %2
         output b = %3
         output c = %5
         output d = %7
         output e = %9
         output f = %12";
    [floats, integers].map(plain).into()
}

fn families() -> Vec<Family> {
    let both = |make: fn(&str) -> Vec<Case>| [make("float32"), make("float16")].into_iter().flatten().collect();
    vec![
        Family { name: "products of float32", cases: products("float32") },
        Family { name: "products of float16", cases: products("float16") },
        Family { name: "products with weights of 8 bits", cases: quantized("int8") },
        Family { name: "products with weights of 4 bits", cases: quantized("uint4") },
        Family { name: "attention", cases: both(attention) },
        Family { name: "convolution", cases: both(convolutions) },
        Family { name: "normalization", cases: both(|dtype| vec![normalizations(dtype)]) },
        Family { name: "reduction", cases: reductions() },
        Family { name: "elementwise operators and copies", cases: elementwise() },
    ]
}

/// The graph of a case, after the passes for GPUs.
fn compiled(case: &Case) -> Result<Graph> {
    let mut graph = parse(&case.text);
    optimize(&mut graph, &TARGET, Passes::ALL, &Evaluator::new(reference::evaluate))?;
    Ok(graph)
}

/// The dialect that a case is computed in.
fn dialect_for(case: &Case, dialect: Dialect) -> Dialect {
    // Matrix units have a check of their own.
    Dialect { product: case.variant, cooperative: None, ..dialect }
}

/// What a verdict on a driver is stored under. It depends on the texts of the kernels that it is about.
fn name(info: &wgpu::AdapterInfo, dialect: Dialect) -> Result<String> {
    static HASHES: PerDialect<u64> = PerDialect::empty();
    let texts = HASHES.get(dialect, || hash_of_texts(dialect))?;
    Ok(format!("kernels {texts:016x} of {}", verdicts::key(info)))
}

/// A hash of the texts of all kernels that are checked.
fn hash_of_texts(dialect: Dialect) -> Result<u64> {
    let mut texts = Vec::new();
    for case in families().iter().flat_map(|family| &family.cases) {
        let graph = compiled(case)?;
        for node in &graph.nodes {
            for dispatch in lower(&graph, node, dialect_for(case, dialect))?.dispatches {
                texts.push(rapidhash::v3::rapidhash_v3(dispatch.source.as_bytes()).to_le_bytes());
            }
        }
    }
    Ok(rapidhash::v3::rapidhash_v3(texts.as_flattened()))
}

/// What earlier checks of an adapter's driver have found, in this or another process.
pub struct Known {
    /// What keeps it from being used; `None` if nothing does.
    pub refusal: Option<String>,
    /// Each family with its problem; `None` for right ones.
    pub families: Vec<(&'static str, Option<String>)>,
}

/// What earlier checks of an adapter's driver have found; `None` if there was none.
pub fn known(adapter: &wgpu::Adapter) -> Option<Known> {
    let limits = Limits::chosen().ok()?.of(adapter);
    let (info, dialect) = (adapter.get_info(), dialect_of(adapter, adapter.features() & EXTENSIONS, &limits));
    let faults = verdicts::known(&name(&info, dialect).ok()?)?;
    let units = self_test::known(&info);
    let problem = |name: &str, faults: &[Fault]| {
        faults.iter().find(|fault| fault.family == name).map(|fault| fault.problem.clone())
    };
    let own = families().into_iter().map(|family| (family.name, problem(family.name, &faults)));
    let units = units.iter().map(|faults| (self_test::FAMILY, problem(self_test::FAMILY, faults)));
    Some(Known { refusal: refusal(&info, &faults), families: own.chain(units).collect() })
}

/// Why a device is not used whose check has found `faults`.
fn refusal(info: &wgpu::AdapterInfo, faults: &[Fault]) -> Option<String> {
    let Fault { family, problem } = faults.first()?;
    let others = match faults.len() - 1 {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    let driver = format!("{} {}", info.driver, info.driver_info);
    Some(format!("its driver ({}) computes wrong results: {family}: {problem}{others}", driver.trim()))
}

/// Checks `device`, unless its driver was checked before.
///
/// # Errors
/// An `OperationError` that names what it computes wrong, or whatever keeps it from computing.
pub fn check(device: &Device) -> Result<()> {
    let name = name(&device.info, device.dialect)?;
    let faults = verdicts::once(&name, "the check", device.loss.patience(), || run(device, !device.is_software()))?;
    refusal(&device.info, &faults).map_or(Ok(()), |refusal| Err(Error::new(ErrorKind::Operation, refusal)))
}

/// Computes all families, with the cases that are heavy to compile if `all`; returns those that are wrong. Drivers need
/// most of the time to compile, so that families are computed by several threads.
///
/// # Errors
/// An `UnknownError` if memory runs out, an `OperationError` if the device is lost.
pub fn run(device: &Device, all: bool) -> Result<Vec<Fault>> {
    let families = families();
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<Result<Option<Fault>>>> = families.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&index| index < families.len()) {
            results[index].get_or_init(|| fault_of(&families[index], device, all));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..available_parallelism().map_or(1, usize::from).min(families.len()) {
            // Without a further thread, the others have more to do.
            _ = std::thread::Builder::new().name("webnn-gpu-check".into()).spawn_scoped(scope, work);
        }
        work();
    });
    results.into_iter().filter_map(|result| result.into_inner().expect("all are computed").transpose()).collect()
}

/// What `device` computes wrong in a family, if anything: in the first such case.
fn fault_of(Family { name, cases }: &Family, device: &Device, all: bool) -> Result<Option<Fault>> {
    let mut devices: HashMap<Option<Variant>, Arc<Device>> = HashMap::new();
    for case in cases.iter().filter(|case| all || !case.is_heavy) {
        let own = match devices.entry(case.variant) {
            Entry::Occupied(made) => made.get().clone(),
            Entry::Vacant(free) => {
                free.insert(Arc::new(device.with_dialect(dialect_for(case, device.dialect))?)).clone()
            }
        };
        let problem = match compute(&own, case) {
            Ok(problem) => problem,
            // A kernel that the driver rejects.
            Err(error) if error.kind != ErrorKind::Unknown && own.check().is_ok() => Some(error.message),
            Err(error) => return Err(error),
        };
        if let Some(problem) = problem {
            let variant = case.variant.map_or(String::new(), |variant| format!(" ({variant:?})"));
            return Ok(Some(Fault { family: name.to_string(), problem: format!("{problem}{variant}") }));
        }
    }
    Ok(None)
}

/// Small numbers in an irregular order, for the input with this index. Floats are multiples of 1/8: their products and
/// sums are exact in float32, in any order.
fn numbers(index: usize, descriptor: &Descriptor) -> Tensor {
    let mut at = 7 * index;
    Tensor::from_fn(descriptor, |_| {
        at += 1;
        // An odd step visits all remainders.
        let small = ((at * 37 + at / 32 * 11) % 33) as i128;
        match descriptor.dtype.integer_range() {
            None => Number::Float(small as f64 / 8.0 - 2.0),
            Some((least, _)) if least < 0 => Number::Int(small - 16),
            Some(_) => Number::Int(small),
        }
    })
}

/// Computes a case on `device` and with the oracle; returns what is wrong.
fn compute(device: &Arc<Device>, case: &Case) -> Result<Option<String>> {
    let graph = compiled(case)?;
    let values = graph.inputs.iter().enumerate();
    let inputs: HashMap<String, Tensor> =
        values.map(|(index, (name, id))| (name.clone(), numbers(index, graph.descriptor(*id)))).collect();
    let expected = reference::run(&parse(&case.text), &inputs);
    let in_turn = |count: usize, work: &(dyn Fn(usize) + Sync)| (0..count).for_each(work);
    let mut plan = Plan::new(graph, device, &in_turn, PlanOptions { share_views: true, fill_arena: false })?;
    let written = |(name, _): &(String, Descriptor)| device.buffer_of(name, &inputs[name].to_bytes());
    let sources: Vec<wgpu::Buffer> = plan.inputs().iter().map(written).collect::<Result<_>>()?;
    // All bits are set, which shows elements that are never written.
    let unwritten = |(name, descriptor): &(String, Descriptor)| device.buffer_of(name, &vec![0xff; descriptor.bytes()]);
    let targets: Vec<wgpu::Buffer> = plan.outputs().iter().map(unwritten).collect::<Result<_>>()?;
    plan.run(&sources.iter().collect::<Vec<_>>(), &targets.iter().collect::<Vec<_>>())?;
    for ((name, descriptor), target) in plan.outputs().iter().zip(&targets) {
        let bytes = device.read(target, descriptor.bytes())?.wait(device)?;
        let got = Tensor::from_bytes(descriptor, bytes.bytes());
        let pairs = got.numbers().zip(expected[name].numbers()).enumerate();
        let wrong = pairs.map(|(at, (got, expected))| (at, got.to_f64(), expected.to_f64()));
        let wrong = wrong.into_iter().find(|&(_, got, expected)| !is_close(descriptor.dtype, got, expected));
        if let Some((at, got, expected)) = wrong {
            return Ok(Some(format!("element {at} of {name} is {got}, expected {expected}")));
        }
    }
    Ok(None)
}

/// Whether a result may differ from the oracle's as it does. Kernels round intermediate results, which the oracle does
/// not; a wrong one is far away.
fn is_close(dtype: DataType, got: f64, expected: f64) -> bool {
    let relative = match dtype {
        DataType::Float32 => 1e-3,
        DataType::Float16 => 2e-2,
        _ => 0.0,
    };
    (got - expected).abs() <= relative * (1.0 + expected.abs())
}

#[cfg(test)]
mod on_software_vulkan {
    use super::*;
    use crate::gpu::adapter::choice_of_tests;
    use crate::gpu::testing::devices;

    #[test]
    fn right_kernels_pass_in_every_dialect() {
        for (which, device) in devices() {
            assert_eq!(run(device, true), Ok(Vec::new()), "{which}");
        }
    }

    /// What the check finds where the texts of kernels are changed.
    fn faults_of(sabotage: fn(&str, &str) -> Option<String>) -> Vec<Fault> {
        let mut device =
            Device::open(choice_of_tests(), EXTENSIONS, Limits::Adapter).unwrap().expect("software Vulkan");
        device.sabotage = Some(sabotage);
        run(&device, true).expect("a check")
    }

    /// A kernel that writes nothing.
    fn idle(source: &str) -> String {
        let (head, main) = source.split_once("fn main(").expect("a kernel");
        let (parameters, body) = main.split_once('{').expect("a body");
        format!("{head}fn main({parameters}{{ if (1 == 1) {{ return; }}\n{body}")
    }

    #[test]
    fn each_family_of_wrong_kernels_is_found() {
        let all = faults_of(|_, source| Some(idle(source)));
        let names: Vec<&str> = families().iter().map(|family| family.name).collect();
        assert_eq!(all.iter().map(|fault| fault.family.as_str()).collect::<Vec<_>>(), names);
        assert!(all.iter().all(|fault| fault.problem.contains(", expected ")), "{all:?}");
        let found = faults_of(|name, source| name.starts_with("attention").then(|| idle(source)));
        assert_eq!(found.iter().map(|fault| fault.family.as_str()).collect::<Vec<_>>(), ["attention"]);
        let found = faults_of(|name, source| name.starts_with("cumulative").then(|| idle(source)));
        assert_eq!(found.iter().map(|fault| fault.family.as_str()).collect::<Vec<_>>(), ["reduction"]);
    }

    #[test]
    fn a_kernel_that_the_driver_rejects_is_a_fault_of_its_family() {
        let found = faults_of(|name, _| name.starts_with("attention").then(|| "fn main() { 1 }".to_string()));
        let [Fault { family, problem }] = &found[..] else { panic!("{found:?}") };
        assert!(family == "attention" && problem.contains("does not compile"), "{problem}");
    }

    #[test]
    fn a_device_that_computes_wrong_results_is_refused_with_the_numbers() {
        let mut device =
            Device::open(choice_of_tests(), EXTENSIONS, Limits::Adapter).unwrap().expect("software Vulkan");
        device.info.driver_info = format!("of a test {}", std::process::id());
        device.sabotage = Some(|name, source| name.starts_with("attention").then(|| idle(source)));
        let name = name(&device.info, device.dialect).unwrap();
        for _ in 0..2 {
            let error = check(&device).unwrap_err();
            let said =
                format!("of a test {}) computes wrong results: attention: element 0 of y is ", std::process::id());
            assert!(error.kind == ErrorKind::Operation && error.message.contains(&said), "{error}");
            // The second time, it is known.
            device.sabotage = None;
        }
        assert!(verdicts::known(&name).is_some_and(|faults| faults.len() == 1));
        crate::gpu::cache::remove(&name);
    }
}
