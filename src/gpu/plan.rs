//! A compiled graph on the GPU: kernel launches with their bindings, and the memory that they work on.

use super::arena::SharedArena;
use super::bindings::{Bindings, Groups};
use super::constants::DeviceConstant;
use super::device::Device;
use super::kernel::ALIGNMENT;
use super::launch::{Launch, Parts, Share, built, lay_out};
use super::lower::{Lowered, lower};
use super::operands::operands;
use crate::compile::memory::{MemoryPlan, Place, Space, plan};
use crate::compile::{Granularity, Passes, Reads, Target, unpack};
use crate::description::{Computes, Description, Holdings, Origin, Processor, StepListing};
use crate::error::Result;
use crate::ir::{Filling, Graph, Growing, ValueId};
use crate::ops::{Api, Fusion, Op, Operation};
use crate::shape::Descriptor;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// The compiler's target for GPUs. Offsets in buffers are multiples of [`ALIGNMENT`].
pub const TARGET: Target = Target {
    passes: Passes { beside: false, layout: false, quantized: false, weights: false, winograd: false, ..Passes::ALL },
    takes_epilogue: |op| matches!(op, Api(Op::Matmul(_) | Op::Gemm(_) | Op::Conv2d(_) | Op::ConvTranspose2d(_))),
    reads,
    operands,
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

/// Maximum number of multiply-adds per submission, unless a single kernel has more: a slow GPU finishes them within a
/// second; operating systems reset a GPU that seems to hang for longer.
const MAX_SUBMITTED_WORK: u64 = 1 << 38;

/// What a byte that a kernel reads or writes counts in multiply-adds: a slow GPU moves 16 GiB within a second.
const WORK_OF_BYTE: u64 = 16;

/// How many times as long as other submissions one with this work may take.
pub(super) fn times_allowed(work: u64) -> u32 {
    u32::try_from(work / MAX_SUBMITTED_WORK).unwrap_or(u32::MAX).saturating_add(1)
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
    /// The step of each node that has one.
    step_of: Vec<Option<usize>>,
    memory: MemoryPlan,
    growing: Vec<Growing>,
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
        let parts = Parts { graph, device, memory: &memory };
        let (mut steps, mut listings, mut unbuilt) = (Vec::new(), Vec::new(), Vec::new());
        let mut step_of = vec![None; graph.nodes.len()];
        for (index, lowered) in lowered.into_iter().enumerate().filter(|(index, _)| !memory.views()[*index]) {
            listings.push(StepListing { computes: Computes::node(index), kernel: kernels(&lowered).into() });
            step_of[index] = Some(steps.len());
            let first = unbuilt.len();
            for dispatch in lowered.dispatches {
                unbuilt.push(parts.launch(index, dispatch)?);
            }
            steps.push(Step::Launches(first..unbuilt.len(), 0));
        }
        for (id, output) in memory.copies() {
            listings.push(StepListing { computes: Computes::Copy(*id), kernel: "copy".into() });
            steps.push(Step::Copy(place_of(&memory, *id), *output));
        }
        let mut launches = built(device, share, unbuilt)?;
        set_work(&mut steps, &launches, graph, &step_of, 0..graph.nodes.len());
        let read = constants_read(&launches, &steps).into_iter().collect();
        let constants = device_constants(device, graph, read)?;
        let numbers = lay_out(&mut launches);
        let bindings = Bindings::new(device, constants, memory.arena, numbers)?;
        device.submit(None)?;
        device.trim();
        device.save_pipelines();
        let holdings = Holdings { constants: bindings.constant_bytes(), packed: 0, arena: memory.arena };
        let processor = Processor::Gpu { adapter: device.name() };
        let describe = |named: &[(String, ValueId)]| {
            named.iter().map(|(name, id)| (name.clone(), graph.descriptor(*id).clone())).collect()
        };
        Ok(Plan {
            device: device.clone(),
            steps,
            launches,
            bindings,
            step_of,
            memory,
            growing: graph.growing.clone(),
            fill_arena: options.fill_arena,
            inputs: describe(&graph.inputs),
            outputs: describe(&graph.outputs),
            description: Arc::new(Description { origin, steps: listings.into(), memory: holdings, processor }),
        })
    }

    /// Adapts the plan to other sizes of its graph; what does not depend on them stays as it is. Returns `false` if a new
    /// plan must be made, because other values share memory, or nodes are other numbers of launches.
    ///
    /// # Errors
    /// Same as [`of_optimized`](Self::of_optimized).
    pub fn resize(&mut self, filling: &Filling, origin: Origin, share: Share) -> Result<bool> {
        let Filling { graph, changes } = *filling;
        if !self.memory.resize(graph, changes) {
            return Ok(false);
        }
        let mut lowered = Vec::new();
        for &index in &changes.nodes {
            let Some(step) = self.step_of[index] else { continue };
            let Step::Launches(launches, _) = &self.steps[step] else { continue };
            let new = lower(graph, &graph.nodes[index], self.device.dialect)?;
            if new.dispatches.len() != launches.len() {
                return Ok(false);
            }
            lowered.push((index, new));
        }
        self.memory.place(graph, lowered.iter().map(|(index, lowered)| (*index, lowered.scratch)), changes);
        let listings = self.listings_of(&lowered);
        if !self.relaunch(graph, lowered, share)? {
            return Ok(false);
        }
        set_work(&mut self.steps, &self.launches, graph, &self.step_of, changes.nodes.iter().copied());
        let copies = self.steps.iter_mut().filter_map(|step| match step {
            Step::Copy(place, _) => Some(place),
            Step::Launches(..) => None,
        });
        copies.zip(self.memory.copies()).for_each(|(place, (id, _))| *place = place_of(&self.memory, *id));
        self.replace_constants(graph, &changes.constants)?;
        let numbers = lay_out(&mut self.launches);
        self.bindings.set_parameters(&self.device, numbers)?;
        self.bindings.arena_bytes = self.memory.arena;
        for (ports, named) in [(&mut self.inputs, &graph.inputs), (&mut self.outputs, &graph.outputs)] {
            for ((_, descriptor), (_, id)) in ports.iter_mut().zip(named) {
                descriptor.shape.clone_from(&graph.descriptor(*id).shape);
            }
        }
        let memory = Holdings { constants: self.bindings.constant_bytes(), packed: 0, arena: self.memory.arena };
        let processor = self.description.processor.clone();
        self.description = Arc::new(Description { origin, steps: listings, memory, processor });
        Ok(true)
    }

    /// The listings of the steps, with the kernels of these nodes.
    fn listings_of(&self, lowered: &[(usize, Lowered)]) -> Arc<[StepListing]> {
        let mut listings = self.description.steps.clone();
        for (index, lowered) in lowered {
            let step = self.step_of[*index].expect("it has a step");
            let kernel = kernels(lowered);
            if listings[step].kernel != kernel {
                let mut all = listings.to_vec();
                all[step].kernel = kernel.into();
                listings = all.into();
            }
        }
        listings
    }

    /// Replaces the launches of `lowered`, and moves others whose memory has moved. Returns `false` if a binding is, or
    /// was, in several places.
    fn relaunch(&mut self, graph: &Graph, lowered: Vec<(usize, Lowered)>, share: Share) -> Result<bool> {
        let parts = Parts { graph, device: &self.device, memory: &self.memory };
        let launches_of = |index: usize| match self.step_of[index].map(|step| &self.steps[step]) {
            Some(Step::Launches(launches, _)) => launches.clone(),
            _ => 0..0,
        };
        let moved = self.memory.moved_nodes().iter().flat_map(|&index| launches_of(index).map(move |at| (index, at)));
        let moved: Vec<(usize, usize)> = moved.collect();
        if moved.iter().any(|&(_, at)| self.launches[at].is_split()) {
            return Ok(false);
        }
        let (mut places, mut unbuilt) = (Vec::new(), Vec::new());
        for (index, lowered) in lowered {
            for (at, dispatch) in launches_of(index).zip(lowered.dispatches) {
                places.push(at);
                unbuilt.push(parts.launch(index, dispatch)?);
            }
        }
        let others = moved.iter().map(|&(index, at)| (at, parts.places_of(index, &self.launches[at])));
        let others: Vec<(usize, Vec<Place>)> = others.collect();
        for (at, places) in others {
            if self.launches[at].places != places {
                self.launches[at].places = places;
                self.bindings.forget_group(at);
            }
        }
        for (at, launch) in places.into_iter().zip(built(&self.device, share, unbuilt)?) {
            if launch.is_split() {
                return Ok(false);
            }
            if !launch.binds_like(&self.launches[at]) {
                self.bindings.forget_group(at);
            }
            self.launches[at] = launch;
        }
        Ok(true)
    }

    /// Uploads the constants that are read and were not before, and those of `changed` that are read.
    fn replace_constants(&mut self, graph: &Graph, changed: &[ValueId]) -> Result<()> {
        let is_new = |id: &ValueId| changed.binary_search(id).is_ok() || !self.bindings.constants.contains_key(id);
        let new: BTreeSet<ValueId> = constants_read(&self.launches, &self.steps).into_iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        for (at, launch) in self.launches.iter().enumerate() {
            let reads = |place: &Place| matches!(place.space, Space::Constant(id) if new.contains(&id));
            if launch.places.iter().any(reads) {
                self.bindings.forget_group(at);
            }
        }
        self.bindings.constants.extend(device_constants(&self.device, graph, new.into_iter().collect())?);
        Ok(())
    }

    /// The constants that it reads.
    pub fn constants(&self) -> impl Iterator<Item = &Arc<DeviceConstant>> {
        self.bindings.constants.values()
    }

    /// The outputs that begin with an input, in its memory.
    pub fn growing(&self) -> &[Growing] {
        &self.growing
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
        let device = self.device.clone();
        let mut arena = device.reserve_arena();
        let tensors = self.bind(&mut arena, inputs, outputs)?;
        let mut first = 0;
        while first < self.steps.len() {
            let (mut end, mut work) = (first, 0);
            while end < self.steps.len() && (end == first || work + self.steps[end].work() <= MAX_SUBMITTED_WORK) {
                work += self.steps[end].work();
                end += 1;
            }
            let commands = device.scoped(|| self.encode(first..end, &tensors))?;
            device.submit_times(Some(commands), times_allowed(work))?;
            first = end;
        }
        Ok(())
    }

    /// Binds the arena and the tensors, and fills the arena if the options ask for it.
    pub(super) fn bind<'a>(
        &mut self,
        newest: &mut SharedArena,
        inputs: &'a [&'a wgpu::Buffer],
        outputs: &'a [&'a wgpu::Buffer],
    ) -> Result<Tensors<'a>> {
        assert!(inputs.len() == self.inputs.len() && outputs.len() == self.outputs.len());
        let arena = self.device.arena_of(newest, self.bindings.arena_bytes)?;
        self.bindings.prepare(&self.device, &self.launches, arena)?;
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

/// Updates the work of the steps of these nodes.
fn set_work(
    steps: &mut [Step],
    launches: &[Launch],
    graph: &Graph,
    step_of: &[Option<usize>],
    nodes: impl Iterator<Item = usize>,
) {
    for index in nodes {
        let Some(Step::Launches(own, work)) = step_of[index].map(|step| &mut steps[step]) else { continue };
        let places = launches[own.clone()].iter().flat_map(|launch| &launch.places);
        let bytes: u64 = places.map(|place| place.bytes as u64).sum();
        *work = graph.multiply_adds(&graph.nodes[index]).max(bytes.saturating_mul(WORK_OF_BYTE));
    }
}

/// The place of a value that is computed or read.
fn place_of(memory: &MemoryPlan, id: ValueId) -> Place {
    memory.places[id.index()].expect("a value with a place")
}

/// The constants that launches and copies read.
fn constants_read(launches: &[Launch], steps: &[Step]) -> BTreeSet<ValueId> {
    let places = launches.iter().flat_map(|launch| &launch.places);
    let copied = steps.iter().filter_map(|step| match step {
        Step::Copy(place, _) => Some(place),
        Step::Launches(..) => None,
    });
    let constant = |place: &Place| if let Space::Constant(id) = place.space { Some(id) } else { None };
    places.chain(copied).filter_map(constant).collect()
}

/// These constants of `graph` on the device.
fn device_constants(
    device: &Device,
    graph: &Graph,
    ids: Vec<ValueId>,
) -> Result<BTreeMap<ValueId, Arc<DeviceConstant>>> {
    let constant = |id: &ValueId| graph.value(*id).constant().expect("a place in a constant");
    let all: Vec<_> = ids.iter().map(constant).collect();
    let placed = device.constants(&all)?;
    Ok(ids.into_iter().zip(placed).collect())
}
