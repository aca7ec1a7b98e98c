//! A compiled graph on the GPU: kernel launches with their bindings, and the memory that they work on.

use super::bindings::{Bindings, Constants, Groups};
use super::device::Device;
use super::kernel::{ALIGNMENT, Bound, Dispatch};
use super::lower::{Lowered, lower};
use super::pipelines::Pipeline;
use super::split::split;
use crate::compile::memory::{MemoryPlan, Place, Space, plan};
use crate::compile::{Granularity, Passes, Reads, Target, unpack};
use crate::description::{Computes, Description, Holdings, Origin, Processor, StepListing};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Graph, Node, ValueId};
use crate::ops::{Api, Fusion, Op, Operation};
use crate::shape::Descriptor;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The compiler's target for GPUs. Offsets in buffers are multiples of [`ALIGNMENT`].
pub const TARGET: Target = Target {
    passes: Passes {
        beside: false,
        growing: false,
        layout: false,
        quantized: false,
        weights: false,
        winograd: false,
        ..Passes::ALL
    },
    takes_epilogue: |op| matches!(op, Api(Op::Matmul(_) | Op::Gemm(_) | Op::Conv2d(_) | Op::ConvTranspose2d(_))),
    reads,
    computes_halves: true,
    granularity: Granularity { block: ALIGNMENT, view: ALIGNMENT },
};

fn reads(op: &Operation, operand: usize) -> Reads {
    match (op, operand) {
        (Api(Op::Matmul(_) | Op::Gemm(_) | Op::Conv2d(_) | Op::ConvTranspose2d(_)), 0 | 1) => Reads::Often,
        (Operation::Fusion(Fusion::Attention(_)), 0..=2) => Reads::Often,
        (Api(Op::Gather(_) | Op::GatherElements(_) | Op::GatherNd(_)), 0) => Reads::Often,
        (Api(Op::Expand(_) | Op::Tile(_) | Op::Pool2d(_) | Op::Resample2d(_)), 0) => Reads::Often,
        (Api(Op::Gru(_) | Op::GruCell(_) | Op::Lstm(_) | Op::LstmCell(_)), 1 | 2) => Reads::Often,
        (Api(Op::Slice(_) | Op::Transpose(_) | Op::Reverse(_) | Op::Pad(_) | Op::Triangular(_)), 0) => Reads::Once,
        (Api(Op::Reduce(_) | Op::Softmax(_) | Op::CumulativeSum(_)), 0) => Reads::Once,
        (Api(Op::BatchNormalization(_) | Op::InstanceNormalization(_)), 0) => Reads::Once,
        (Api(Op::LayerNormalization(_)) | Operation::Fusion(Fusion::RmsNormalization(_)), 0) => Reads::Once,
        _ => Reads::Never,
    }
}

/// Calls the function once with each number below the count, on all available threads.
pub type Share<'a> = &'a dyn Fn(usize, &(dyn Fn(usize) + Sync));

/// Maximum number of multiply-adds per submission, unless a single kernel has more: a slow GPU finishes them within a
/// second; operating systems reset a GPU that seems to hang for longer.
const MAX_SUBMITTED_WORK: u64 = 1 << 38;

/// What a byte that a kernel reads or writes counts in multiply-adds: a slow GPU moves 16 GiB within a second.
const WORK_OF_BYTE: u64 = 16;

/// How many times as long as other submissions one with this work may take.
pub(super) fn times_allowed(work: u64) -> u32 {
    u32::try_from(work / MAX_SUBMITTED_WORK).unwrap_or(u32::MAX).saturating_add(1)
}

/// One launch with its pipeline and bindings.
pub(super) struct Launch {
    pub name: &'static str,
    pub pipeline: Arc<Pipeline>,
    pub places: Vec<Place>,
    pub immediates: [u32; 3],
    pub workgroups: [u32; 3],
}

/// A step of a plan.
pub(super) enum Step {
    /// The launches of a node, and their work: in multiply-adds, or [`WORK_OF_BYTE`]s for as much as they bind.
    Launches(Range<usize>, u64),
    /// A copy to the output with this index.
    Copy(Place, usize),
}

/// Debug options for creating and running plans.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// Whether views share memory instead of being copied.
    pub share_views: bool,
    /// Whether the arena is filled with NaN before each run.
    pub fill_arena: bool,
}

/// A graph, ready to run.
pub struct Plan {
    pub(super) device: Arc<Device>,
    pub(super) steps: Vec<Step>,
    pub(super) launches: Vec<Launch>,
    pub(super) bindings: Bindings,
    fill_arena: bool,
    inputs: Vec<(String, Descriptor)>,
    outputs: Vec<(String, Descriptor)>,
    description: Arc<Description>,
}

impl Plan {
    /// Lowers `graph` without optimizing it.
    ///
    /// # Errors
    /// Same as [`of_optimized`](Self::of_optimized).
    pub fn new(mut graph: Graph, device: &Arc<Device>, share: Share, options: PlanOptions) -> Result<Plan> {
        unpack(&mut graph)?;
        let origin = Origin::unchanged(&graph, Passes::NONE);
        Plan::of_optimized(&graph, origin, device, share, options)
    }

    /// Lowers `graph`, already processed by the passes for [`TARGET`], to kernels for `device`; compiles them on the
    /// threads of `share`, and uploads the constants that they read.
    ///
    /// # Errors
    /// An `OperationError` for anything that the device does not support, an `UnknownError` if its memory is not
    /// enough.
    pub fn of_optimized(
        graph: &Graph,
        origin: Origin,
        device: &Arc<Device>,
        share: Share,
        options: PlanOptions,
    ) -> Result<Plan> {
        let lowered: Vec<Lowered> =
            graph.nodes.iter().map(|node| lower(graph, node, device.dialect)).collect::<Result<_>>()?;
        let scratch: Vec<usize> = lowered.iter().map(|lowered| lowered.scratch).collect();
        let memory = plan(graph, &scratch, options.share_views, TARGET.granularity);
        let mut parts = Parts { graph, device, memory: &memory, parameters: Vec::new(), unbuilt: Vec::new() };
        let (mut steps, mut listings) = (Vec::new(), Vec::new());
        for (index, lowered) in lowered.into_iter().enumerate().filter(|(index, _)| !memory.views()[*index]) {
            listings.push(StepListing { computes: Computes::node(index), kernel: kernels(&lowered).into() });
            let first = parts.unbuilt.len();
            for dispatch in lowered.dispatches {
                parts.add(index, dispatch)?;
            }
            let bytes: u64 =
                parts.unbuilt[first..].iter().flat_map(|launch| &launch.places).map(|p| p.bytes as u64).sum();
            let work = graph.multiply_adds(&graph.nodes[index]).max(bytes.saturating_mul(WORK_OF_BYTE));
            steps.push(Step::Launches(first..parts.unbuilt.len(), work));
        }
        for (id, output) in memory.copies() {
            listings.push(StepListing { computes: Computes::Copy(*id), kernel: "copy".into() });
            steps.push(Step::Copy(memory.places[id.index()].expect("a value with a place"), *output));
        }
        let Parts { parameters, unbuilt, .. } = parts;
        let launches = compiled(device, share, unbuilt)?;
        let places = launches.iter().flat_map(|launch| &launch.places);
        let copied = steps.iter().filter_map(|step| match step {
            Step::Copy(place, _) => Some(place),
            Step::Launches(..) => None,
        });
        let constants = Constants::upload(graph, device, places.chain(copied))?;
        let holdings = Holdings { constants: constants.bytes(), packed: 0, arena: memory.arena };
        let processor = Processor::Gpu { adapter: device.name() };
        let describe = |named: &[(String, ValueId)]| {
            named.iter().map(|(name, id)| (name.clone(), graph.descriptor(*id).clone())).collect()
        };
        let bindings = Bindings::new(device, &launches, constants, memory.arena, &parameters)?;
        device.submit(None)?;
        device.trim();
        device.save_pipelines();
        Ok(Plan {
            device: device.clone(),
            steps,
            launches,
            bindings,
            fill_arena: options.fill_arena,
            inputs: describe(&graph.inputs),
            outputs: describe(&graph.outputs),
            description: Arc::new(Description { origin, steps: listings.into(), memory: holdings, processor }),
        })
    }

    /// Names and descriptors of the inputs, in the order for [`run`](Plan::run).
    pub fn inputs(&self) -> &[(String, Descriptor)] {
        &self.inputs
    }

    /// Names and descriptors of the outputs, in the order for [`run`](Plan::run).
    pub fn outputs(&self) -> &[(String, Descriptor)] {
        &self.outputs
    }

    /// The device of the plan.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Description of the plan, for people.
    pub fn description(&self) -> &Arc<Description> {
        &self.description
    }

    /// Submits one run on the given tensors without waiting for it.
    ///
    /// # Errors
    /// An `OperationError` if the device rejects it or is lost.
    ///
    /// # Panics
    /// If the number of tensors differs from that of the [`inputs`](Plan::inputs) or [`outputs`](Plan::outputs).
    pub fn run(&mut self, inputs: &[&wgpu::Buffer], outputs: &[&wgpu::Buffer]) -> Result<()> {
        let tensors = self.bind(inputs, outputs)?;
        let mut first = 0;
        while first < self.steps.len() {
            let (mut end, mut work) = (first, 0);
            while end < self.steps.len() && (end == first || work + self.steps[end].work() <= MAX_SUBMITTED_WORK) {
                work += self.steps[end].work();
                end += 1;
            }
            let commands = self.device.scoped(|| self.encode(first..end, &tensors))?;
            self.device.submit_times(Some(commands), times_allowed(work))?;
            first = end;
        }
        Ok(())
    }

    /// Binds the tensors, and fills the arena if the options ask for it.
    pub(super) fn bind<'a>(
        &self,
        inputs: &'a [&'a wgpu::Buffer],
        outputs: &'a [&'a wgpu::Buffer],
    ) -> Result<Tensors<'a>> {
        assert!(inputs.len() == self.inputs.len() && outputs.len() == self.outputs.len());
        if self.fill_arena {
            self.bindings.fill_arena(&self.device)?;
        }
        let groups = self.bindings.bind(&self.device, &self.launches, inputs, outputs)?;
        Ok(Tensors { inputs, outputs, groups })
    }

    /// Encodes the commands of some steps.
    fn encode(&self, steps: Range<usize>, tensors: &Tensors) -> wgpu::CommandBuffer {
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        let launches = self.steps[steps.clone()].iter().filter_map(|step| match step {
            Step::Launches(launches, _) => Some(launches.clone()),
            Step::Copy(..) => None,
        });
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            launches.flatten().for_each(|index| self.launch(&mut pass, tensors, index));
        }
        // Copies come last.
        self.steps[steps].iter().for_each(|step| self.copy(&mut encoder, tensors, step));
        encoder.finish()
    }

    /// Records a launch.
    pub(super) fn launch(&self, pass: &mut wgpu::ComputePass, tensors: &Tensors, index: usize) {
        let launch = &self.launches[index];
        pass.set_pipeline(&launch.pipeline.pipeline);
        pass.set_bind_group(0, self.bindings.group(&tensors.groups, index), &[]);
        let bytes: Vec<u8> = launch.immediates.iter().flat_map(|value| value.to_le_bytes()).collect();
        pass.set_immediates(0, &bytes);
        let [x, y, z] = launch.workgroups;
        pass.dispatch_workgroups(x, y, z);
    }

    /// Records a copy if the step is one.
    pub(super) fn copy(&self, encoder: &mut wgpu::CommandEncoder, tensors: &Tensors, step: &Step) {
        if let Step::Copy(from, output) = step {
            let (buffer, offset) = self.bindings.source(from, tensors.inputs, tensors.outputs);
            let bytes = from.bytes.next_multiple_of(4) as u64;
            encoder.copy_buffer_to_buffer(buffer, offset, tensors.outputs[*output], 0, bytes);
        }
    }
}

/// The tensors of a run, with their bind groups.
pub(super) struct Tensors<'a> {
    inputs: &'a [&'a wgpu::Buffer],
    outputs: &'a [&'a wgpu::Buffer],
    groups: Arc<Groups>,
}

impl Step {
    pub(super) fn work(&self) -> u64 {
        match self {
            Step::Launches(_, work) => *work,
            Step::Copy(..) => 0,
        }
    }
}

/// The names of a node's kernels, without duplicates.
fn kernels(lowered: &Lowered) -> String {
    let mut names: Vec<&str> = lowered.dispatches.iter().map(|dispatch| dispatch.name).collect();
    names.dedup();
    names.join(", ")
}

/// A launch whose kernel is not compiled yet.
struct Unbuilt {
    source: String,
    name: &'static str,
    places: Vec<Place>,
    immediates: [u32; 3],
    workgroups: [u32; 3],
}

/// What launches are built from.
struct Parts<'a> {
    graph: &'a Graph,
    device: &'a Device,
    memory: &'a MemoryPlan,
    parameters: Vec<u32>,
    unbuilt: Vec<Unbuilt>,
}

impl Parts<'_> {
    /// Appends a launch of the node at this index.
    fn add(&mut self, index: usize, dispatch: Dispatch) -> Result<()> {
        let (memory, node) = (self.memory, &self.graph.nodes[index]);
        let place = |id: ValueId| memory.places[id.index()].expect("every operand and output has a place");
        let places = dispatch.bindings.iter().map(|bound| match *bound {
            Bound::Scratch { offset, bytes } => {
                let scratch = memory.scratch[index];
                Place { offset: scratch.offset + offset, bytes, ..scratch }
            }
            bound => place(bound.value(node).expect("lowering binds operands that are given")),
        });
        let (source, places) = self.within_limits(node, dispatch.source, places.collect())?;
        let first = self.parameters.len() as u32;
        self.parameters.extend(&dispatch.parameters.0);
        self.unbuilt.push(Unbuilt {
            source,
            name: dispatch.name,
            places,
            immediates: [first, dispatch.elements, 0],
            workgroups: dispatch.workgroups,
        });
        Ok(())
    }

    /// Splits bindings that exceed the device's limits; returns the kernel's new source and bindings.
    fn within_limits(&self, node: &Node, source: String, places: Vec<Place>) -> Result<(String, Vec<Place>)> {
        let limits = &self.device.limits;
        let refuse = |what: String| {
            let (name, label) = (node.op.rule().name, &node.label);
            let label = if label.is_empty() { String::new() } else { format!(" (label {label:?})") };
            Error::new(ErrorKind::Operation, format!("{name}{label}: {what} on {}", self.device.name()))
        };
        let most = (limits.max_storage_buffer_binding_size as usize / ALIGNMENT * ALIGNMENT).max(ALIGNMENT);
        let fits = places.iter().all(|place| place.bytes.next_multiple_of(8) <= most);
        let (source, places) = match fits {
            true => (source, places),
            false => split(&source, &places, most)
                .map_err(|why| refuse(format!("a kernel needs more than {most} bytes in one piece ({why})")))?,
        };
        let most = limits.max_storage_buffers_per_shader_stage as usize;
        if places.len() + 1 > most {
            return Err(refuse(format!("a kernel needs {} buffers, expected at most {most}", places.len() + 1)));
        }
        Ok((source, places))
    }
}

/// Compiles the kernels on all threads, each distinct source once.
fn compiled(device: &Device, share: Share, unbuilt: Vec<Unbuilt>) -> Result<Vec<Launch>> {
    let by_source: BTreeMap<&str, &Unbuilt> = unbuilt.iter().map(|launch| (launch.source.as_str(), launch)).collect();
    let made: Vec<OnceLock<Result<Arc<Pipeline>>>> = by_source.iter().map(|_| OnceLock::new()).collect();
    let items: Vec<_> = by_source.iter().zip(&made).collect();
    share(items.len(), &|index| {
        let ((source, launch), made) = items[index];
        made.get_or_init(|| device.pipeline(launch.name, source, launch.places.len() as u32));
    });
    let made = made.into_iter().map(|made| made.into_inner().expect("all were compiled"));
    let pipelines: BTreeMap<String, Arc<Pipeline>> =
        by_source.keys().zip(made).map(|(source, made)| Ok((source.to_string(), made?))).collect::<Result<_>>()?;
    let launch = |unbuilt: Unbuilt| Launch {
        pipeline: pipelines[&unbuilt.source].clone(),
        name: unbuilt.name,
        places: unbuilt.places,
        immediates: unbuilt.immediates,
        workgroups: unbuilt.workgroups,
    };
    Ok(unbuilt.into_iter().map(launch).collect())
}

/// Whether a place is in a tensor that is bound for each run.
pub(super) fn is_bound(place: &Place) -> bool {
    matches!(place.space, Space::Input(_) | Space::Output(_))
}
