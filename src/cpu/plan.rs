//! A compiled graph on the CPU: a flat list of steps, a memory plan, and the constants that the steps read.

use super::evaluate::evaluator;
use super::lower::{Lowered, lower, resize};
use super::members::{Member, Members};
use super::memory::{Bound, Memory, Regions, StepPlaces};
use super::pace::Pace;
use super::readers::Readers;
use super::steps::{Env, Run};
use super::weights::resident;
use crate::compile::memory::{MemoryPlan, Place, Space};
use crate::compile::{Granularity, Operands, Passes, Reads, Target, unpack, widen_halves};
use crate::description::{Computes, Description, Holdings, Origin, Processor, StepListing};
use crate::error::Result;
use crate::ir::{Changes, Filling, Graph, Growing, Sharing, ValueId};
use crate::memory::{ALIGNMENT, Buffer};
use crate::observe::{Observer, Unobserved};
use crate::ops::{Api, Fusion, Op, Operation};
use crate::shape::Descriptor;
use std::sync::Arc;
use std::time::Instant;

/// Options for creating and running plans; the debug options are for tests.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// Whether views share memory instead of being copied.
    pub share_views: bool,
    /// Whether Winograd's algorithm may compute convolutions.
    pub winograd: bool,
    /// Whether to fill the arena with NaN before each dispatch, to reveal reads of memory that was never written.
    pub fill_arena: bool,
}

impl Default for PlanOptions {
    fn default() -> PlanOptions {
        PlanOptions { share_views: true, winograd: true, fill_arena: false }
    }
}

/// Plans that write fewer bytes and multiply less than [`MIN_POOL_WORK`] run on the calling thread. Waking the pool's
/// threads costs about 5 us, as long as writing 64 KiB. A plan wakes them once, rather than each of its steps.
const MIN_POOL_BYTES: u64 = 1 << 16;

/// The number of multiply-adds that take as long as writing [`MIN_POOL_BYTES`].
const MIN_POOL_WORK: u64 = 1 << 18;

/// What a planned step does.
enum Action {
    /// Computes nodes.
    Compute(Members),
    /// Copies the operand, this value, to the output.
    Copy(ValueId),
}

/// A step of a plan, with its places in memory.
struct PlannedStep {
    action: Action,
    places: StepPlaces,
}

/// A graph compiled and ready to run.
pub struct Plan {
    /// The nodes that are not views, in their order; copies follow.
    steps: Vec<PlannedStep>,
    /// The index of each node's step, if it has one.
    step_of: Box<[Option<u32>]>,
    /// Indexed by value; `None` for values that no step reads in place.
    constants: Box<[Option<Arc<Buffer>>]>,
    memory: MemoryPlan,
    options: PlanOptions,
    inputs: Vec<(String, Descriptor)>,
    outputs: Vec<(String, Descriptor)>,
    growing: Vec<Growing>,
    /// For each input, whether an output starts with it and shares its memory.
    caches: Box<[bool]>,
    /// For each value, the input that it starts with and shares memory with, if any.
    begins: Box<[Option<ValueId>]>,
    regions: Regions,
    /// Whether the threads of the pool could help with a run.
    enters_pool: bool,
    /// Whether they do.
    pace: Pace,
    description: Arc<Description>,
}

impl Plan {
    /// Lowers `graph` to steps for `env`; packed constants suit only its instruction set. Frees the bytes of a constant
    /// once every reader has packed it.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for the arena or packed constants, an `OperationError` if a
    /// mapped constant cannot be read.
    pub fn new(mut graph: Graph, env: &Env, options: PlanOptions) -> Result<Plan> {
        let passes = Passes { views: options.share_views, winograd: options.winograd, ..Passes::NONE };
        unpack(&mut graph)?;
        widen_halves(&mut graph)?;
        let origin = Origin::unchanged(&graph, passes);
        Plan::of_optimized(&mut graph, origin, env, options)
    }

    /// Lowers `graph`, the result of the passes for [`TARGET`]. Frees the bytes of constants that are only read packed.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for constants or the arena, an `OperationError` if a mapped
    /// constant cannot be read.
    pub fn of_optimized(graph: &mut Graph, origin: Origin, env: &Env, options: PlanOptions) -> Result<Plan> {
        let memory = MemoryPlan::new(graph, options.share_views, TARGET.granularity);
        let begins = graph.caches().into_boxed_slice();
        let (lowered, sharing) = lower_all(graph, memory.views(), &begins, env, options)?;
        let (mut steps, mut step_of) = (Vec::<PlannedStep>::new(), vec![None; graph.nodes.len()].into_boxed_slice());
        for (index, lowered) in lowered.into_iter().enumerate() {
            let Some(lowered) = lowered else { continue };
            let (member, is_beside) =
                (Member::new(&graph.nodes[index], lowered), graph.beside.binary_search(&index).is_ok());
            match steps.last_mut().map(|step| &mut step.action) {
                Some(Action::Compute(members)) if is_beside => members.all.push(member),
                _ => steps.push(PlannedStep::new(Action::Compute(Members::new(index, member)))),
            }
            step_of[index] = Some(steps.len() as u32 - 1);
        }
        steps.extend(memory.copies().iter().map(|(id, _)| PlannedStep::new(Action::Copy(*id))));
        steps.shrink_to_fit();
        let describe = |named: &[(String, ValueId)]| {
            named.iter().map(|(name, id)| (name.clone(), graph.descriptor(*id).clone())).collect()
        };
        let mut caches = vec![false; graph.inputs.len()].into_boxed_slice();
        graph.growing.iter().for_each(|growing| caches[growing.input] = true);
        let processor = Processor::Cpu { isa: env.isa.name(), threads: env.threads.size() };
        let listings = steps.iter().map(PlannedStep::listing).collect();
        let mut plan = Plan {
            description: Arc::new(Description { origin, steps: listings, memory: Holdings::default(), processor }),
            constants: vec![None; graph.values.len()].into_boxed_slice(),
            inputs: describe(&graph.inputs),
            outputs: describe(&graph.outputs),
            growing: graph.growing.clone(),
            caches,
            begins,
            regions: Regions::default(),
            enters_pool: false,
            pace: Pace::default(),
            steps,
            step_of,
            memory,
            options,
        };
        plan.place(graph, env, &Changes::all(graph));
        plan.hold_constants(graph)?;
        drop(sharing);
        env.arena.reserve(plan.memory.arena)?;
        let counts = || plan.steps.iter().map(|step| step.places.counts());
        let (inputs, outputs) = (counts().map(|(n, _)| n).max(), counts().map(|(_, n)| n).max());
        plan.regions = Regions::with_capacity(inputs.unwrap_or(0), outputs.unwrap_or(0));
        let holdings = holdings(&plan.constants, &plan.steps, plan.memory.arena);
        Arc::get_mut(&mut plan.description).expect("it is not shared yet").memory = holdings;
        Ok(plan)
    }

    /// Adapts the plan to other sizes of the same graph, keeping packed constants that fit them. Returns `false` if the
    /// plan must be rebuilt; it is then unusable.
    ///
    /// # Errors
    /// As [`of_optimized`](Self::of_optimized).
    pub fn resize(&mut self, filling: &Filling, origin: Origin, env: &Env) -> Result<bool> {
        let Filling { graph, changes } = *filling;
        if !self.memory.resize(graph, changes) {
            return Ok(false);
        }
        let (winograd, mut repacked, mut relisted) = (self.options.winograd, false, false);
        for &index in &changes.nodes {
            let Some(at) = self.step_of[index].map(|at| at as usize) else { continue };
            let Action::Compute(members) = &mut self.steps[at].action else { continue };
            let step = &mut members.all[index - members.first as usize].lowered;
            let (node, kernel) = (&graph.nodes[index], step.step.kernel());
            let is_new =
                |operand: &usize| node.inputs[*operand].is_some_and(|id| changes.constants.binary_search(&id).is_ok());
            let keeps = || !step.packed.iter().any(is_new);
            let cache = self.begins[node.outputs[0].index()];
            // The elements after a cache do not depend on the cache's length.
            let appends_same = || {
                let mut rest = node.inputs.iter().skip(1).flatten();
                cache.is_some() && rest.all(|id| changes.values.binary_search(&id.index()).is_err())
            };
            if appends_same() {
                continue;
            }
            if !(keeps() && resize(&mut step.step, graph, node, cache, env, winograd)) {
                let new = lower(graph, node, cache, env, winograd)?;
                let old = std::mem::replace(step, new);
                if step.packed != old.packed {
                    return Ok(false);
                }
                repacked |= !old.packed.is_empty();
            }
            relisted |= step.step.kernel() != kernel;
        }
        self.place(graph, env, changes);
        for id in &changes.constants {
            if let (Some(held), Some(constant)) = (&mut self.constants[id.index()], graph.value(*id).constant()) {
                *held = resident(constant)?;
            }
        }
        for (ports, named) in [(&mut self.inputs, &graph.inputs), (&mut self.outputs, &graph.outputs)] {
            for ((_, descriptor), (_, id)) in
                ports.iter_mut().zip(named).filter(|(_, (_, id))| self.memory.has_moved(*id))
            {
                descriptor.shape.clone_from(&graph.descriptor(*id).shape);
            }
        }
        let Description { steps, memory, processor, .. } = &*self.description;
        let memory = match repacked {
            true => holdings(&self.constants, &self.steps, self.memory.arena),
            false => Holdings { arena: self.memory.arena, ..*memory },
        };
        let steps = match relisted {
            true => self.steps.iter().map(PlannedStep::listing).collect(),
            false => steps.clone(),
        };
        self.description = Arc::new(Description { origin, steps, memory, processor: processor.clone() });
        env.arena.reserve(self.memory.arena)?;
        Ok(true)
    }

    /// Keeps the constants that steps read in place.
    fn hold_constants(&mut self, graph: &Graph) -> Result<()> {
        for place in self.steps.iter().flat_map(|step| step.places.inputs()) {
            if let Space::Constant(id) = place.space
                && self.constants[id.index()].is_none()
            {
                let constant = graph.value(id).constant().expect("a place in a constant");
                self.constants[id.index()] = Some(resident(constant)?);
            }
        }
        Ok(())
    }

    /// Assigns places to steps with `changes` in their operands or outputs, and to those whose places moved.
    fn place(&mut self, graph: &Graph, env: &Env, changes: &Changes) {
        let threads = env.threads.count();
        let Plan { steps, step_of, memory, begins, .. } = self;
        let mut last = None;
        let changed = changes.nodes.iter().filter_map(|&index| step_of[index].map(|at| at as usize));
        let scratch =
            changed.filter(|at| last.replace(*at) != Some(*at)).filter_map(|at| match &mut steps[at].action {
                Action::Compute(members) => Some((members.first as usize, members.join(threads))),
                Action::Copy(_) => None,
            });
        memory.place(graph, scratch, changes);
        let place = |id: &ValueId| memory.places[id.index()].expect("every operand and output has a place");
        for &index in memory.moved_nodes() {
            let Some(at) = step_of[index].map(|at| at as usize) else { continue };
            let PlannedStep { action: Action::Compute(members), places } = &mut steps[at] else { continue };
            let nodes = &graph.nodes[members.nodes()];
            let inputs = nodes.iter().zip(&members.all).flat_map(|(node, Member { lowered, .. })| {
                let input = |(index, id): (usize, &Option<ValueId>)| {
                    id.as_ref().filter(|_| !lowered.packed.contains(&index)).map(place)
                };
                let others = node.epilogue.operands.iter().map(|id| Some(place(id)));
                node.inputs.iter().enumerate().map(input).chain(others)
            });
            // A step that writes a value that starts with a cache, or a view of one, writes only the part after the
            // cache.
            let written = |id: &ValueId| match begins[id.index()] {
                None => place(id),
                // No step writes the existing elements.
                Some(cache) => place(id).after(graph.descriptor(cache).bytes()),
            };
            let outputs = nodes.iter().flat_map(|node| node.outputs.iter().map(written));
            places.set(inputs, outputs, memory.scratch[members.first as usize]);
        }
        let first_copy = steps.len() - memory.copies().len();
        for (PlannedStep { places, .. }, (id, output)) in steps[first_copy..].iter_mut().zip(memory.copies()) {
            if memory.has_moved(*id) {
                let from = place(id);
                let to = Place { space: Space::Output(*output), offset: 0, bytes: from.bytes };
                places.set([Some(from)].into_iter(), [to].into_iter(), Place::NONE);
            }
        }
        self.enters_pool = enters_pool(graph, &self.steps, env);
        self.pace = Pace::default();
    }

    /// Runs the passes on `graph` and lowers the result.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for constants or the arena, an `OperationError` for an operator
    /// that the draft accepts but does not define, or if a mapped constant cannot be read.
    pub fn compile(mut graph: Graph, env: &Env, passes: Passes, options: PlanOptions) -> Result<Plan> {
        graph.check_defined()?;
        let origin = Origin::optimize(&mut graph, &TARGET, passes, &evaluator(env))?;
        Plan::of_optimized(&mut graph, origin, env, options)
    }

    /// Names and descriptors of the inputs, in the order for [`run`](Plan::run).
    pub fn inputs(&self) -> &[(String, Descriptor)] {
        &self.inputs
    }

    /// Names and descriptors of the outputs, in the order for [`run`](Plan::run).
    pub fn outputs(&self) -> &[(String, Descriptor)] {
        &self.outputs
    }

    /// The outputs that start with an input and share its memory.
    pub fn growing(&self) -> &[Growing] {
        &self.growing
    }

    /// Whether an output starts with the input at `index` and shares its memory.
    pub fn is_cache(&self, index: usize) -> bool {
        self.caches[index]
    }

    /// Bytes held by this plan: constants read in place, and packed constants. Memory shared by several of its steps
    /// counts once. Memory shared with other plans or with constant tensors counts in each of them: it is freed with
    /// the last one. The arena does not belong to the plan.
    pub fn bytes(&self) -> usize {
        self.description.bytes()
    }

    /// Describes the plan and its steps.
    pub fn description(&self) -> &Arc<Description> {
        &self.description
    }

    /// The buffers of all constants that steps read in place, and of all packed constants; each is listed once per reader.
    pub fn weights(&self) -> impl Iterator<Item = &Arc<Buffer>> {
        self.constants.iter().flatten().chain(self.steps.iter().flat_map(|step| step.action.packed()))
    }

    /// Runs the steps on the bytes of the bound tensors, in the arena of `env`.
    ///
    /// # Errors
    /// An `UnknownError` if the arena was freed and there is not enough memory for it.
    ///
    /// # Panics
    /// If the number or sizes of the tensors differ from [`inputs`](Plan::inputs) and [`outputs`](Plan::outputs).
    pub fn run(&mut self, env: &Env, inputs: &[&Buffer], outputs: &mut [&mut Buffer]) -> Result<()> {
        let mut outputs: Vec<Bound> = outputs.iter_mut().map(|buffer| Bound::Buffer(buffer)).collect();
        self.run_observed(env, inputs, &mut outputs, &mut Unobserved)
    }

    /// Like [`run`](Plan::run), with an observer of the start and end of each step. Does not read inputs that outputs
    /// [start with](Self::growing): their bytes are in the outputs.
    ///
    /// # Errors
    /// As [`run`](Plan::run).
    ///
    /// # Panics
    /// As [`run`](Plan::run).
    pub fn run_observed(
        &mut self,
        env: &Env,
        inputs: &[&Buffer],
        outputs: &mut [Bound],
        observer: &mut impl Observer,
    ) -> Result<()> {
        assert!(inputs.len() == self.inputs.len() && outputs.len() == self.outputs.len());
        let read = inputs.iter().zip(&self.inputs).zip(&self.caches).filter(|(_, is_cache)| !**is_cache);
        read.for_each(|((buffer, (_, d)), _)| assert_eq!(buffer.len(), d.bytes()));
        outputs.iter().zip(&self.outputs).for_each(|(bound, (_, d))| assert_eq!(bound.bytes(), d.bytes()));
        env.arena.with(self.memory.arena, |arena| {
            observer.begin();
            if self.options.fill_arena {
                arena.bytes_mut()[..self.memory.arena].fill(0xff);
            }
            let mut memory = Memory { arena, inputs, outputs, constants: &self.constants };
            let mut run = || {
                for PlannedStep { action, places } in &self.steps {
                    observer.begin_step();
                    self.regions.run(places, &mut memory, |io| match action {
                        Action::Compute(members) => members.run(env, io),
                        Action::Copy(_) => {
                            let from = io.input::<u8>(0);
                            io.output::<u8>().copy_from_slice(from);
                        }
                    });
                    observer.end_step();
                }
            };
            if self.enters_pool && env.threads.count() > 1 {
                let (needs_help, start) = (self.pace.needs_help(), Instant::now());
                if needs_help {
                    env.threads.install(run)
                } else {
                    env.threads.alone(run)
                }
                self.pace.add(needs_help, start.elapsed());
            } else {
                run();
            }
            observer.end();
        })
    }
}

/// Lowers every node that is not a view. Frees the bytes of constants that are only read packed.
fn lower_all(
    graph: &mut Graph,
    views: &[bool],
    begins: &[Option<ValueId>],
    env: &Env,
    options: PlanOptions,
) -> Result<(Vec<Option<Lowered>>, Sharing)> {
    let mut readers = Readers::new(graph);
    let mut all = Vec::with_capacity(graph.nodes.len());
    for (index, is_view) in views.iter().enumerate() {
        let node = &graph.nodes[index];
        all.push(match readers.lower_tied(graph, node) {
            _ if *is_view => None,
            Some(lowered) => Some(lowered),
            None => Some(lower(graph, node, begins[node.outputs[0].index()], env, options.winograd)?),
        });
        readers.note(graph, &mut all);
    }
    Ok((all, readers.into_sharing()))
}

/// The memory held by the constants and steps of a plan. Memory that several of them share counts once, as a constant
/// if it is one.
fn holdings(constants: &[Option<Arc<Buffer>>], steps: &[PlannedStep], arena: usize) -> Holdings {
    let constants = constants.iter().flatten().map(|buffer| (Arc::as_ptr(buffer), false, buffer.len()));
    let packed = steps.iter().flat_map(|step| step.action.packed());
    let mut all: Vec<_> = constants.chain(packed.map(|buffer| (Arc::as_ptr(buffer), true, buffer.len()))).collect();
    all.sort_unstable();
    all.dedup_by_key(|(buffer, ..)| *buffer);
    let sum = |wanted: bool| all.iter().filter(|(_, packed, _)| *packed == wanted).map(|(.., bytes)| bytes).sum();
    Holdings { constants: sum(false), packed: sum(true), arena }
}

fn enters_pool(graph: &Graph, steps: &[PlannedStep], env: &Env) -> bool {
    let written = steps.iter().map(|step| step.places.written_bytes() as u64);
    let work = graph.nodes.iter().map(|node| graph.multiply_adds(node));
    env.threads.count() > 1 && (reaches(work, MIN_POOL_WORK) || reaches(written, MIN_POOL_BYTES))
}

/// Whether the sum of `counts` is at least `least`. Stops at the first count that reaches it.
fn reaches(mut counts: impl Iterator<Item = u64>, least: u64) -> bool {
    counts.try_fold(0u64, |sum, count| Some(sum.saturating_add(count)).filter(|sum| *sum < least)).is_none()
}

/// The CPU as a compilation target.
pub const TARGET: Target = Target {
    passes: Passes { prologues: false, ..Passes::ALL },
    takes_epilogue: |op| match op {
        Api(op) => matches!(op, Op::Matmul(_) | Op::Gemm(_) | Op::Conv2d(_) | Op::ConvTranspose2d(_)),
        Operation::Fusion(op) => matches!(op, Fusion::BlockProduct(_)),
        Operation::Extension(_) => false,
    },
    reads: |_, _| Reads::Never,
    operands: |_| Operands::ANY,
    computes_halves: false,
    granularity: Granularity { block: ALIGNMENT, view: 1 },
};

impl Action {
    fn packed(&self) -> Vec<&Arc<Buffer>> {
        match self {
            Action::Compute(members) => members.all.iter().flat_map(|member| member.lowered.step.packed()).collect(),
            Action::Copy(_) => Vec::new(),
        }
    }
}

impl PlannedStep {
    /// Creates a step without places.
    fn new(action: Action) -> PlannedStep {
        PlannedStep { action, places: StepPlaces::default() }
    }

    fn listing(&self) -> StepListing {
        let (computes, kernel) = match &self.action {
            Action::Compute(Members { first, all, .. }) => {
                (Computes::Nodes(*first, all.len() as u32), all[0].lowered.step.kernel())
            }
            Action::Copy(id) => (Computes::Copy(*id), "copy"),
        };
        StepListing { computes, kernel: kernel.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::arena::Arena;
    use crate::cpu::schedule::partition::CALLS;
    use crate::cpu::schedule::pool::Threads;
    use crate::cpu::simd::Isa;
    use crate::ir::{Constant, parse};
    use crate::memory::counting::heap_of;

    /// Keeps the layout of images: every step then belongs to an operator of the graph.
    const PASSES: Passes = Passes { layout: false, ..TARGET.passes };

    fn plan(graph: Graph) -> Plan {
        let threads = Threads::new(1).unwrap();
        let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
        Plan::compile(graph, &env, PASSES, PlanOptions::default()).unwrap()
    }

    /// The bits of the outputs for pseudo-random inputs.
    fn outputs(plan: &mut Plan, env: &Env) -> Vec<Buffer> {
        let bytes = |(_, descriptor): &(String, Descriptor)| {
            let mut random = crate::testing::Random::new(descriptor.bytes() as u64);
            Buffer::copy_of(&random.tensor(descriptor).to_bytes()).unwrap()
        };
        let inputs: Vec<Buffer> = plan.inputs().iter().map(bytes).collect();
        let mut outputs: Vec<Buffer> =
            plan.outputs().iter().map(|(_, descriptor)| Buffer::zeroed(descriptor.bytes()).unwrap()).collect();
        let inputs: Vec<&Buffer> = inputs.iter().collect();
        plan.run(env, &inputs, &mut outputs.iter_mut().collect::<Vec<_>>()).unwrap();
        outputs
    }

    /// The nodes and values whose sizes differ in `after`.
    fn changes(before: &Graph, after: &Graph) -> Changes {
        let descriptor = |graph: &Graph, index: usize| graph.values[index].descriptor.clone();
        let values = (0..after.values.len()).filter(|&at| descriptor(before, at) != descriptor(after, at));
        let values: Vec<usize> = values.collect();
        let is_other = |index: &usize| {
            let node = &after.nodes[*index];
            before.nodes[*index] != *node || node.reads().chain(&node.outputs).any(|id| values.contains(&id.index()))
        };
        let nodes = (0..after.nodes.len()).filter(is_other).collect();
        Changes { nodes, values, constants: Vec::new() }
    }

    #[test]
    fn a_run_neither_allocates_nor_cuts() {
        let graphs = [
            // Products of one row and of several.
            "%0 = input x float32 [1, 600]
             %1 = constant float32 [600, 64]
             %2 = constant float32 [64]
             %3 = matmul %0 %1
             %4 = add %3 %2
             %5 = gelu %4
             %6 = input y float32 [40, 64]
             %7 = constant float32 [64, 96]
             %8 = matmul %6 %7
             %9 = relu %8
             %10 = softmax %9 axis=1
             output a = %5
             output b = %10",
            "%x = input x float32 [1, 256]
             %w = constant int4 [1056, 8, 32]
             %s = constant float32 [1056, 8, 1] 0.25 0.5 -0.125
             %z = constant int4 [1056, 8, 1] 1
             %d = dequantizeLinear %w %s %z
             %r = reshape %d newShape=[1056, 256]
             %p = gemm %x %r bTranspose=true roundsRows=true
             output y = %p",
            "%q = input q float32 [4, 64, 32]
             %k = input k float32 [4, 32, 64]
             %v = input v float32 [4, 64, 32]
             %s = matmul %q %k
             %p = softmax %s axis=2
             %y = matmul %p %v
             output y = %y",
            // With seven threads, they share each time step; with two, each computes a direction.
            "%x = input x float32 [2, 4, 20]
             %w = constant float32 [2, 480, 20]
             %r = constant float32 [2, 480, 160]
             %y, %s = gru %x %w %r steps=2 hiddenSize=160 direction=both returnSequence=true resetAfter=false
             output y = %y
             output s = %s",
        ];
        for (graph, count) in graphs.into_iter().flat_map(|graph| [1, 2, 7].map(|count| (graph, count))) {
            let (threads, arena) = (Threads::new(count).unwrap(), Arena::default());
            let env = Env { threads: &threads, isa: Isa::best(), arena: &arena };
            let mut plan = Plan::compile(parse(graph), &env, PASSES, PlanOptions::default()).unwrap();
            outputs(&mut plan, &env);
            let buffers = |all: &[(String, Descriptor)]| -> Vec<Buffer> {
                all.iter().map(|(_, descriptor)| Buffer::zeroed(descriptor.bytes()).unwrap()).collect()
            };
            let (inputs, mut results) = (buffers(plan.inputs()), buffers(plan.outputs()));
            let inputs: Vec<&Buffer> = inputs.iter().collect();
            let mut results: Vec<Bound> = results.iter_mut().map(Bound::Buffer).collect();
            let before = CALLS.get();
            let run = || plan.run_observed(&env, &inputs, &mut results, &mut Unobserved).unwrap();
            let ((), heap) = heap_of(run);
            assert_eq!((heap.allocations, CALLS.get() - before), (0, 0), "{count} threads: {graph}");
        }
    }

    #[test]
    fn a_resized_plan_equals_a_new_one() {
        let graphs = [
            // A product with bias, activation and residual; views; a product of two computed matrices.
            "%0 = input x float32 [SIZE, 48]
             %1 = constant float32 [48, 40]
             %2 = constant float32 [40]
             %3 = matmul %0 %1
             %4 = add %3 %2
             %5 = gelu %4
             %6 = reshape %5 newShape=[SIZE, 5, 8]
             %7 = transpose %6 permutation=[1, 0, 2]
             %8 = transpose %6 permutation=[1, 2, 0]
             %9 = matmul %7 %8
             %10 = softmax %9 axis=2
             %11 = matmul %10 %7
             %12 = reduceMean %11 axes=[1]
             %13 = input w float32 [3, 40]
             %16 = constant float32 [40, 8]
             %14 = softmax %13 axis=1
             %15 = matmul %14 %16
             output y = %12
             output z = %4
             output u = %15",
            // Broadcasts with long and short rows, and sizes of one type in blocks.
            "%0 = input x float32 [SIZE, 70]
             %1 = input v float32 [70]
             %2 = input c float32 [SIZE, 1]
             %3 = mul %0 %1
             %4 = add %3 %2
             %5 = tanh %4
             %6 = layerNormalization %5 axes=[1]
             %7 = cast %6 dataType=int32
             %8 = concat %5 %6 axis=1
             output y = %7
             output z = %8",
            // Convolutions by every method with channels last.
            "%0 = input x float32 [1, 64, SIZE, 24]
             %1 = constant float32 [64, 64, 3, 3]
             %2 = constant float32 [64, 1, 3, 3]
             %3 = constant float32 [32, 64, 1, 1]
             %4 = conv2d %0 %1 padding=[1, 1, 1, 1]
             %5 = relu %4
             %6 = conv2d %5 %2 groups=64 padding=[1, 1, 1, 1]
             %7 = conv2d %6 %3
             %8 = conv2d %5 %1 strides=[2, 2] padding=[1, 1, 1, 1]
             %9 = averagePool2d %7
             output y = %9
             output z = %8",
        ];
        let threads = Threads::new(2).unwrap();
        let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
        for text in graphs {
            let at = |n: usize| {
                let mut graph = parse(&text.replace("SIZE", &n.to_string()));
                let origin = Origin::optimize(&mut graph, &TARGET, Passes::ALL, &evaluator(&env)).unwrap();
                (graph, origin)
            };
            let (mut before, origin) = at(9);
            let mut plan = Plan::of_optimized(&mut before, origin, &env, PlanOptions::default()).unwrap();
            for n in [40, 33, 70, 71, 8, 150, 151, 152, 64] {
                let (mut graph, origin) = at(n);
                let filling = Filling { graph: &graph, changes: &changes(&before, &graph) };
                before = graph.clone();
                let fits = plan.resize(&filling, origin.clone(), &env).unwrap();
                let mut new = Plan::of_optimized(&mut graph, origin, &env, PlanOptions::default()).unwrap();
                assert!(fits, "{n} in {text}");
                let [of_plan, of_new] = [&plan, &new].map(|plan| &plan.description);
                assert_eq!((&of_plan.steps, of_plan.memory), (&of_new.steps, of_new.memory), "{n} in {text}");
                assert_eq!((&plan.memory.places, &plan.inputs), (&new.memory.places, &new.inputs), "{n} in {text}");
                let bits = [&mut plan, &mut new].map(|plan| outputs(plan, &env));
                assert!(bits[0].iter().map(Buffer::bytes).eq(bits[1].iter().map(Buffer::bytes)), "{n} in {text}");
            }
        }
    }

    #[test]
    fn packed_weights_replace_the_raw_ones() {
        for (dtype, operator, weights) in [
            ("float32", "matmul %0 %1", "[256, 256]"),
            ("float16", "gemm %0 %1 bTranspose=true", "[256, 256]"),
            ("float32", "conv2d %2 %1", "[128, 256, 2, 1]"),
            ("float32", "convTranspose2d %2 %1", "[256, 128, 1, 2]"),
            ("float32", "lstm %3 %1 %4 steps=4 hiddenSize=16", "[1, 64, 1024]"),
        ] {
            let text = format!(
                "%0 = input x {dtype} [2, 256]\n%1 = constant {dtype} {weights}\n%2 = input i {dtype} [1, 256, 2, 2]\n\
                 %3 = input s {dtype} [4, 1, 1024]\n%4 = input r {dtype} [1, 64, 16]\n%5 = {operator}\noutput y = %5"
            );
            let graph = parse(&text);
            let Some(Constant::Owned(raw)) = graph.values.iter().find_map(|value| value.constant()) else { panic!() };
            let (raw, bytes) = (Arc::downgrade(raw), raw.len());
            let plan = plan(graph);
            assert!(raw.upgrade().is_none(), "{operator}: the raw weights are freed");
            let packed = plan.bytes();
            assert!((bytes..bytes + bytes / 8).contains(&packed), "{operator}: {packed} for {bytes} bytes");
        }
    }

    #[test]
    fn constants_read_in_place_stay() {
        let text = "%0 = input x float32 [8, 8]\n%1 = constant float32 [8, 8]\n%2 = matmul %0 %1\n%3 = add %0 %1\n\
                    output y = %2\noutput z = %3";
        let graph = parse(text);
        let bytes = graph.descriptor(ValueId(1)).bytes();
        assert_eq!(plan(graph).constants.iter().flatten().map(|constant| constant.len()).sum::<usize>(), bytes);
    }

    /// A small network: a convolution with its activation, a depthwise convolution, a view, a product, a softmax, and
    /// an output that is copied.
    const NETWORK: &str = "%0 = input x float32 [1, 3, 8, 8]
        %1 = constant float32 [8, 3, 3, 3]
        %2 = conv2d %0 %1 padding=[1, 1, 1, 1]
        %3 = relu %2
        %4 = constant float32 [8, 1, 3, 3]
        %5 = conv2d %3 %4 groups=8
        %6 = constant float32 [4, 8, 1, 1]
        %7 = conv2d %5 %6
        %8 = exp %7
        %9 = neg %8
        %10 = reshape %9 newShape=[1, 144]
        %11 = constant float32 [144, 10]
        %12 = matmul %10 %11
        %13 = softmax %12 axis=1
        output y = %13
        output z = %13";

    #[test]
    fn steps_name_their_kernels_nodes_and_work() {
        let plan = plan(parse(NETWORK));
        let json = plan.description().json();
        let steps: Vec<_> = json["steps"].as_array().unwrap().iter().collect();
        let column = |name: &str| steps.iter().map(|step| step[name].clone()).collect::<Vec<_>>();
        assert_eq!(
            column("kernel"),
            ["conv2d direct", "conv2d depthwise", "conv2d gemm", "gemm", "softmax rows", "copy"]
        );
        assert_eq!(column("operator"), ["conv2d", "conv2d", "conv2d", "matmul", "softmax", "copy"]);
        let work = [64 * 8 * 27, 36 * 8 * 9, 36 * 4 * 8, 144 * 10, 0, 0];
        assert_eq!(column("multiplyAdds"), work);
        assert_eq!(steps[0]["bytesRead"], (3 * 64 + 8 * 27) * 4);
        assert_eq!(column("bytesWritten"), [64 * 8 * 4, 36 * 8 * 4, 36 * 4 * 4, 40, 40, 40]);
        // The reshape is a view: a node of the compiled graph without a step.
        assert_eq!(column("node"), serde_json::json!([0, 1, 2, 4, 5, null]).as_array().unwrap().as_slice());
        let nodes: Vec<_> = json["compiled"]["nodes"].as_array().unwrap().iter().collect();
        assert_eq!(nodes[3]["operator"], "reshape");
        assert_eq!(nodes[0]["epilogue"], serde_json::json!(["relu"]));
        assert_eq!(nodes[2]["epilogue"], serde_json::json!(["exp", "neg"]));
        let origins: Vec<_> = nodes.iter().map(|node| &node["origins"]).collect();
        assert_eq!(
            origins,
            [&serde_json::json!([0, 1]), &[2].into(), &[3, 4, 5].into(), &[6].into(), &[7].into(), &[8].into()]
        );
        let source = json["source"]["nodes"].as_array().unwrap();
        assert_eq!(source.len(), 9);
        assert!(source.iter().enumerate().all(|(id, node)| node["origins"] == serde_json::json!([id])));
        assert_eq!(json["passes"], serde_json::json!(PASSES.enabled().collect::<Vec<_>>()));
        assert_eq!((json["isa"].as_str(), json["threads"].as_u64()), (Some(Isa::best().name()), Some(1)));
        let bytes: u64 = json["memory"].as_object().unwrap().values().map(|bytes| bytes.as_u64().unwrap()).sum();
        assert_eq!(bytes, (plan.bytes() + plan.memory.arena) as u64);
    }

    #[test]
    fn an_observed_run_has_the_same_results_and_times_every_step() {
        use crate::observe::Stopwatch;
        let mut plan = plan(parse(NETWORK));
        let threads = Threads::new(1).unwrap();
        let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
        let x = Buffer::copy_of(&[0x3e; 3 * 64 * 4]).unwrap();
        let run = |plan: &mut Plan, watch: Option<&mut Stopwatch>| {
            let mut outputs = [Buffer::zeroed(40).unwrap(), Buffer::zeroed(40).unwrap()];
            let [y, z] = &mut outputs;
            match watch {
                Some(watch) => {
                    plan.run_observed(&env, &[&x], &mut [Bound::Buffer(y), Bound::Buffer(z)], watch).unwrap()
                }
                None => plan.run(&env, &[&x], &mut [y, z]).unwrap(),
            }
            outputs.map(|output| output.bytes().to_vec())
        };
        let (runs, steps) = (3, plan.description().steps.len());
        let mut watch = Stopwatch::new(runs, steps).unwrap();
        let expected = run(&mut plan, None);
        for _ in 0..runs {
            assert_eq!(run(&mut plan, Some(&mut watch)), expected);
        }
        let times = watch.into_times();
        let times: Vec<f64> =
            crate::memory::elements::<u64>(times.bytes()).iter().map(|&x| f64::from_bits(x)).collect();
        assert_eq!(times.len(), runs * (steps + 1) * 2);
        let mut previous_end = 0.0;
        for run in times.chunks_exact((steps + 1) * 2) {
            let (run, steps) = run.as_chunks::<2>().0.split_first().unwrap();
            assert!(run[0] >= previous_end, "runs follow each other: {times:?}");
            previous_end = run[0] + run[1];
            let mut end = 0.0;
            for [start, duration] in steps {
                assert!(*start >= end && *duration >= 0.0, "steps follow each other: {times:?}");
                end = start + duration;
            }
            assert!(end <= run[1], "steps are within their run: {times:?}");
            assert!(steps.iter().map(|[_, duration]| duration).sum::<f64>() <= run[1]);
        }
        assert_eq!(times[0], 0.0);
    }
}
