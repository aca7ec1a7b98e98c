//! Compares graphs on the software GPU with the oracle.

use super::adapter::{Limits, TEST_VARIABLE, choice_of_tests};
use super::device::{Device, EXTENSIONS};
use super::dialect::Dialect;
use super::plan::{Plan, PlanOptions, TARGET};
use crate::compile::{Passes, optimize};
use crate::dtype::DataType;
use crate::ir::{Evaluator, Graph, Node};
use crate::ops::Operation;
use crate::ops::tensor::Tensor;
use crate::reference;
use crate::shape::Descriptor;
use crate::testing::{Random, Tolerance, compare};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// The devices: with all that the driver has, and with nothing but what WebGPU guarantees: without 16-bit and 64-bit
/// types, and with its lowest limits. Shared by all tests of the process.
pub fn devices() -> &'static [(&'static str, Arc<Device>)] {
    static DEVICES: OnceLock<Vec<(&'static str, Arc<Device>)>> = OnceLock::new();
    let open = |extensions, limits| {
        Arc::new(Device::open(choice_of_tests(), extensions, limits).expect("a device").expect("software Vulkan"))
    };
    DEVICES.get_or_init(|| {
        vec![
            ("with all extensions", open(EXTENSIONS, Limits::Adapter)),
            ("without extensions", open(wgpu::Features::empty(), Limits::Minimum)),
        ]
    })
}

/// The device with all extensions.
pub fn software() -> &'static Device {
    &devices()[0].1
}

/// The tolerance on a GPU, which computes in float32 where the CPU computes in float64, or in another order.
pub fn tolerance_of(cpu: Tolerance, dtype: DataType) -> Tolerance {
    match dtype {
        DataType::Float32 if cpu.ulps > 0 => Tolerance { ulps: cpu.ulps.max(16), absolute: cpu.absolute.max(2e-6) },
        DataType::Float16 if cpu.ulps > 0 => Tolerance { absolute: cpu.absolute.max(2e-6), ..cpu },
        _ => cpu,
    }
}

/// Whether a graph can reach a GPU: [imports](crate::ir::Builder::has_extensions) for one leave operators and the type
/// that the API lacks to the CPU.
pub fn is_for_gpus(graph: &Graph) -> bool {
    let is_alien = |node: &Node| matches!(&node.op, Operation::Extension(op) if !op.is_for_gpus());
    !graph.nodes.iter().any(is_alien) && graph.values.iter().all(|value| value.descriptor.dtype != DataType::Float64)
}

/// Calls [`check`] if [`TEST_VARIABLE`] is set, for graphs that can reach a GPU: not every machine has Vulkan.
pub fn check_where_asked(
    graph: &Graph,
    inputs: &HashMap<String, Tensor>,
    expected: &HashMap<String, Tensor>,
    cpu: Tolerance,
) {
    if is_for_gpus(graph) && std::env::var_os(TEST_VARIABLE).is_some() {
        check(graph, inputs, expected, cpu);
    }
}

/// Runs `graph` unoptimized and optimized, and compares every output with the oracle.
///
/// # Panics
/// If a result is outside of the tolerance. The message names the element, both values and the graph.
pub fn check(graph: &Graph, inputs: &HashMap<String, Tensor>, expected: &HashMap<String, Tensor>, cpu: Tolerance) {
    for (which, device) in devices() {
        check_on((which, device), graph, inputs, expected, cpu);
    }
}

/// Like [`check`], on one device, named in messages.
///
/// # Panics
/// Same as [`check`].
pub fn check_on(
    (which, device): (&str, &Arc<Device>),
    graph: &Graph,
    inputs: &HashMap<String, Tensor>,
    expected: &HashMap<String, Tensor>,
    cpu: Tolerance,
) {
    let compiled = optimized(graph);
    for (name, graph, share_views) in [("as built", graph, false), ("compiled", &compiled, true)] {
        let outputs = run(device, graph, inputs, share_views);
        let context = || format!("{name}, on the GPU {which}, of\n{graph}");
        compare(graph, &outputs, expected, |dtype| tolerance_of(cpu, dtype), &context);
    }
}

/// Compares the results of `graph` on random inputs with the oracle, on each device, in the dialect that `adapt`
/// derives from the device's; returns the number of devices with such a dialect.
///
/// # Panics
/// Same as [`check`].
pub fn check_in(graph: &Graph, tolerance: Tolerance, adapt: impl Fn(Dialect) -> Option<Dialect>) -> usize {
    let mut random = Random::new(graph.values.len() as u64);
    let inputs = graph.inputs.iter().map(|(name, id)| (name.clone(), random.tensor(graph.descriptor(*id)))).collect();
    let expected = reference::run(graph, &inputs);
    let mut count = 0;
    for (which, device) in devices() {
        let Some(dialect) = adapt(device.dialect) else { continue };
        let outputs = run(&Arc::new(device.with_dialect(dialect).expect("a device")), graph, &inputs, true);
        let context = || format!("{dialect:?}, on the GPU {which}, of\n{graph}");
        compare(graph, &outputs, &expected, |_| tolerance, &context);
        count += 1;
    }
    count
}

/// Optimizes `graph` with the passes for GPUs; the oracle folds its constants.
pub fn optimized(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    optimize(&mut graph, &TARGET, Passes::ALL, &Evaluator::new(reference::evaluate)).expect("a graph");
    graph
}

/// Does all work on the calling thread.
pub fn in_turn(count: usize, work: &(dyn Fn(usize) + Sync)) {
    (0..count).for_each(work);
}

/// A dialect with as little workgroup memory as devices may have.
const fn dialect(f16: bool, int64: bool, subgroups: bool) -> Dialect {
    let subgroup_size = match (subgroups, f16) {
        (false, _) => None,
        (true, false) => Some(32),
        (true, true) => Some(8),
    };
    Dialect { f16, int64, subgroups, subgroup_size, cooperative: None, workgroup_bytes: 16384, product: None }
}

/// Dialects that differ in their extensions.
pub const DIALECTS: [Dialect; 4] =
    [dialect(false, false, false), dialect(false, true, true), dialect(true, false, true), dialect(true, true, false)];

/// Runs `graph` and returns the bytes of every output.
fn run(device: &Arc<Device>, graph: &Graph, inputs: &HashMap<String, Tensor>, share_views: bool) -> Vec<Vec<u8>> {
    let options = PlanOptions { share_views, fill_arena: true };
    let mut plan = Plan::new(graph.clone(), device, &in_turn, options).expect("a plan");
    let buffers = |described: &[(String, Descriptor)], bytes: &dyn Fn(&str, &Descriptor) -> Vec<u8>| -> Vec<_> {
        described.iter().map(|(name, d)| device.buffer_of(name, &bytes(name, d)).expect("memory")).collect()
    };
    let inputs = buffers(plan.inputs(), &|name, _| inputs[name].to_bytes());
    // NaN, to detect elements that are never written.
    let outputs = buffers(plan.outputs(), &|_, descriptor| vec![0xff; descriptor.bytes()]);
    plan.run(&inputs.iter().collect::<Vec<_>>(), &outputs.iter().collect::<Vec<_>>()).expect("a run");
    let read = |(buffer, (_, descriptor)): (&wgpu::Buffer, &(String, Descriptor))| {
        let reading = device.read(buffer, descriptor.bytes()).expect("a copy");
        reading.wait(device).expect("the bytes").bytes().to_vec()
    };
    outputs.iter().zip(plan.outputs()).map(read).collect()
}
