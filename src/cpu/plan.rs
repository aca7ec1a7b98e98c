//! A compiled graph on the CPU: a flat list of steps, a memory plan and the constants that the steps read.

use super::lower::{Lowered, lower};
use super::memory::{Memory, Regions, StepPlaces, run_once};
use super::steps::{Env, Run, Step};
use crate::compile::memory::{MemoryPlan, Place, Space, plan};
use crate::compile::{Passes, optimize};
use crate::error::Result;
use crate::ir::{Graph, Node, Source, ValueId};
use crate::memory::Buffer;
use crate::shape::Descriptor;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How plans are made and run; the debug knobs among them are for tests.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// Whether views share memory instead of being copied.
    pub share_views: bool,
    /// Whether the arena is filled with NaN before each dispatch, so that a step that reads what nobody wrote shows.
    pub fill_arena: bool,
}

impl Default for PlanOptions {
    fn default() -> PlanOptions {
        PlanOptions { share_views: true, fill_arena: false }
    }
}

/// What a planned step does.
enum Work {
    Step(Box<Step>),
    /// Copies the operand to the output.
    Copy,
}

struct PlannedStep {
    work: Work,
    places: StepPlaces,
}

/// A graph that is ready to run.
pub struct Plan {
    steps: Vec<PlannedStep>,
    constants: BTreeMap<ValueId, Arc<Buffer>>,
    arena: Buffer,
    fill_arena: bool,
    inputs: Vec<(String, Descriptor)>,
    outputs: Vec<(String, Descriptor)>,
    regions: Regions,
}

impl Plan {
    /// Lowers `graph` to steps that run with `env`: packed constants are good for its instruction set only. The bytes of
    /// a constant are given back as soon as every reader of it has packed it.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for the arena or packed constants.
    pub fn new(mut graph: Graph, env: &Env, options: PlanOptions) -> Result<Plan> {
        let lowered = lower_all(&mut graph, env)?;
        let graph = &graph;
        let scratch: Vec<usize> =
            lowered.iter().map(|lowered| lowered.step.scratch_bytes(env.threads.count())).collect();
        let memory = plan(graph, &scratch, options.share_views);

        let place = |id: &ValueId| memory.places[id.index()].expect("every operand and output has a place");
        let mut steps = Vec::new();
        for (index, (node, lowered)) in graph.nodes.iter().zip(lowered).enumerate() {
            if memory.views[index] {
                continue;
            }
            let input = |(index, id): (usize, &Option<ValueId>)| {
                id.as_ref().filter(|_| !lowered.packed.contains(&index)).map(place)
            };
            let inputs = node.inputs.iter().enumerate().map(input).collect();
            let outputs = node.outputs.iter().map(place).collect();
            steps.push(PlannedStep {
                places: StepPlaces::new(inputs, outputs, memory.scratch[index]),
                work: Work::Step(Box::new(lowered.step)),
            });
        }
        steps.extend(memory.copies.iter().map(|(id, output)| copy_step(place(id), *output)));
        Plan::assemble(graph, steps, &memory, options)
    }

    /// Runs the passes on `graph` and lowers what they leave.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for constants or the arena.
    pub fn compile(graph: Graph, env: &Env, passes: Passes, options: PlanOptions) -> Result<Plan> {
        Plan::new(optimized(graph, env, passes)?, env, options)
    }

    fn assemble(graph: &Graph, steps: Vec<PlannedStep>, memory: &MemoryPlan, options: PlanOptions) -> Result<Plan> {
        let mut constants = BTreeMap::new();
        for place in steps.iter().flat_map(|step| step.places.inputs()) {
            if let Space::Constant(id) = place.space {
                let bytes = graph.value(id).constant().expect("a place in a constant");
                constants.insert(id, bytes.clone());
            }
        }
        let describe = |named: &[(String, ValueId)]| {
            named.iter().map(|(name, id)| (name.clone(), graph.descriptor(*id).clone())).collect()
        };
        let counts = || steps.iter().map(|step| step.places.counts());
        let (inputs, outputs) = (counts().map(|(n, _)| n).max(), counts().map(|(_, n)| n).max());
        Ok(Plan {
            regions: Regions::with_capacity(inputs.unwrap_or(0), outputs.unwrap_or(0)),
            steps,
            constants,
            arena: Buffer::zeroed(memory.arena)?,
            fill_arena: options.fill_arena,
            inputs: describe(&graph.inputs),
            outputs: describe(&graph.outputs),
        })
    }

    /// Names and descriptors of the inputs, in the order in which [`run`](Plan::run) takes them.
    pub fn inputs(&self) -> &[(String, Descriptor)] {
        &self.inputs
    }

    /// Names and descriptors of the outputs, in the order in which [`run`](Plan::run) takes them.
    pub fn outputs(&self) -> &[(String, Descriptor)] {
        &self.outputs
    }

    /// Bytes that this plan holds: arena, constants (those shared with others included) and packed constants.
    pub fn bytes(&self) -> usize {
        let packed = self.steps.iter().map(|step| match &step.work {
            Work::Step(step) => step.packed_bytes(),
            Work::Copy => 0,
        });
        self.arena.len() + self.constants.values().map(|bytes| bytes.len()).sum::<usize>() + packed.sum::<usize>()
    }

    /// Runs the steps on the bytes of the bound tensors.
    ///
    /// # Panics
    /// If the number or sizes of the tensors are not those of [`inputs`](Plan::inputs) and
    /// [`outputs`](Plan::outputs).
    pub fn run<'a>(&'a mut self, env: &Env, inputs: &'a [&'a Buffer], outputs: &'a mut [&'a mut Buffer]) {
        assert!(inputs.len() == self.inputs.len() && outputs.len() == self.outputs.len());
        inputs.iter().zip(&self.inputs).for_each(|(buffer, (_, d))| assert_eq!(buffer.len(), d.bytes()));
        outputs.iter().zip(&self.outputs).for_each(|(buffer, (_, d))| assert_eq!(buffer.len(), d.bytes()));
        if self.fill_arena {
            self.arena.bytes_mut().fill(0xff);
        }
        let mut memory = Memory { arena: &mut self.arena, inputs, outputs, constants: &self.constants };
        for PlannedStep { work, places } in &self.steps {
            self.regions.run(places, &mut memory, |io| match work {
                Work::Step(step) => step.run(env, io),
                Work::Copy => {
                    let from = io.input::<u8>(0);
                    io.output::<u8>().copy_from_slice(from);
                }
            });
        }
    }
}

/// Lowers every node; gives back the bytes of each constant that only packed copies of it will be read of.
fn lower_all(graph: &mut Graph, env: &Env) -> Result<Vec<Lowered>> {
    let mut readers = graph.use_counts();
    let mut all = Vec::with_capacity(graph.nodes.len());
    for index in 0..graph.nodes.len() {
        let lowered = lower(graph, &graph.nodes[index], env)?;
        for &operand in &lowered.packed {
            let id = graph.nodes[index].inputs[operand].expect("a packed operand was given");
            readers[id.index()] -= 1;
            if readers[id.index()] == 0 {
                graph.values[id.index()].source = Source::Constant(Arc::new(Buffer::zeroed(0)?));
            }
        }
        all.push(lowered);
    }
    Ok(all)
}

/// What the passes make of `graph`.
///
/// # Errors
/// An `UnknownError` when there is no memory for folded constants.
pub fn optimized(mut graph: Graph, env: &Env, passes: Passes) -> Result<Graph> {
    optimize(&mut graph, passes, &|graph, node| evaluate(graph, node, env))?;
    Ok(graph)
}

fn copy_step(from: Place, output: usize) -> PlannedStep {
    let to = Place { space: Space::Output(output), offset: 0, bytes: from.bytes };
    let scratch = Place { space: Space::Arena, offset: 0, bytes: 0 };
    PlannedStep { work: Work::Copy, places: StepPlaces::new([Some(from)].into(), [to].into(), scratch) }
}

/// The bytes of the outputs of `node`, all of whose operands are constants.
///
/// # Errors
/// An `UnknownError` when there is no memory for them.
fn evaluate(graph: &Graph, node: &Node, env: &Env) -> Result<Vec<Buffer>> {
    let lowered = lower(graph, node, env)?;
    let constant = |id: ValueId| &**graph.value(id).constant().expect("operands are constants");
    let inputs: Vec<Option<&Buffer>> = node.inputs.iter().map(|id| id.map(constant)).collect();
    let mut outputs =
        node.outputs.iter().map(|&id| Buffer::zeroed(graph.descriptor(id).bytes())).collect::<Result<Vec<_>>>()?;
    let mut scratch = Buffer::zeroed(lowered.step.scratch_bytes(env.threads.count()))?;
    run_once(&inputs, &mut outputs, &mut scratch, |io| lowered.step.run(env, io));
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::Isa;
    use crate::cpu::threads::Threads;
    use crate::ir::parse;

    fn plan(graph: Graph) -> Plan {
        let threads = Threads::new(1).unwrap();
        let env = Env { threads: &threads, isa: Isa::best() };
        Plan::compile(graph, &env, Passes::ALL, PlanOptions::default()).unwrap()
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
            let raw: Vec<_> = graph.values.iter().filter_map(|value| value.constant().map(Arc::downgrade)).collect();
            let bytes = raw[0].upgrade().unwrap().len();
            let plan = plan(graph);
            assert!(raw[0].upgrade().is_none(), "{operator}: the raw weights are dropped");
            let packed = plan.bytes() - plan.arena.len();
            assert!((bytes..bytes + bytes / 8).contains(&packed), "{operator}: {packed} for {bytes} bytes");
        }
    }

    #[test]
    fn constants_that_a_step_reads_in_place_stay() {
        let text = "%0 = input x float32 [8, 8]\n%1 = constant float32 [8, 8]\n%2 = matmul %0 %1\n%3 = add %0 %1\n\
                    output y = %2\noutput z = %3";
        let graph = parse(text);
        let bytes = graph.descriptor(ValueId(1)).bytes();
        assert_eq!(plan(graph).constants.values().map(|constant| constant.len()).sum::<usize>(), bytes);
    }
}
