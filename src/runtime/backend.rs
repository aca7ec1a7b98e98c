//! The processor of a context, and the plans that graphs are compiled to.

use super::settings::Settings;
use super::tensor::{Contents, Tensor};
use crate::cpu;
use crate::cpu::memory::Bound;
use crate::cpu::steps::Env;
use crate::description::{Description, Origin};
use crate::error::{Error, ErrorKind, Result};
use crate::gpu;
use crate::gpu::device::Device;
use crate::gpu::tensor::DeviceTensor;
use crate::ir::{Builder, Graph, Growing, Stencil};
use crate::memory::Buffer;
use crate::observe::{Stopwatch, Unobserved};
use crate::shape::{Descriptor, MAX_TENSOR_BYTES, MAX_VALUE_BYTES};
use std::any::Any;
use std::sync::Arc;

/// The processor of a context.
#[derive(Clone)]
pub enum Backend {
    /// The CPU, with the threads of the timeline.
    Cpu,
    /// A GPU.
    Gpu(Arc<Device>),
}

/// The cost of compiling a kernel, in the units of [`Threads::share`](cpu::schedule::pool::Threads::share): at least a
/// millisecond.
const COMPILE_COST: usize = 1 << 26;

/// A constant that plans read, kept for others.
pub type Weight = Arc<dyn Any + Send + Sync>;

/// A compiled graph for either backend.
pub enum Plan {
    /// Steps for the CPU.
    Cpu(Box<cpu::plan::Plan>),
    /// Kernels for a GPU.
    Gpu(Box<gpu::plan::Plan>),
}

impl Backend {
    /// Maximum size of a tensor in bytes.
    pub fn max_tensor_bytes(&self) -> u64 {
        match self {
            Backend::Cpu => MAX_TENSOR_BYTES,
            Backend::Gpu(device) => device.max_tensor_bytes().min(MAX_TENSOR_BYTES),
        }
    }

    /// Whether it has kernels for operators that the API lacks.
    pub fn has_extensions(&self) -> bool {
        matches!(self, Backend::Cpu)
    }

    /// An empty builder of graphs whose values may be as large as those that never leave a graph.
    pub fn builder(&self) -> Builder {
        let max_value_bytes = match self {
            Backend::Cpu => MAX_VALUE_BYTES,
            Backend::Gpu(_) => self.max_tensor_bytes(),
        };
        Builder::with_limit(max_value_bytes).with_extensions(self.has_extensions())
    }

    /// Contents of `bytes` zero bytes.
    ///
    /// # Errors
    /// An UnknownError if memory runs out.
    pub fn zeroed(&self, bytes: usize) -> Result<Contents> {
        Ok(match self {
            Backend::Cpu => Contents::Bytes(Arc::new(Buffer::zeroed(bytes)?)),
            Backend::Gpu(device) => Contents::Device(DeviceTensor::zeroed(device, bytes)?),
        })
    }

    /// Runs the passes on `graph`.
    ///
    /// # Errors
    /// The errors of the backends' plans.
    pub fn optimize(&self, mut graph: Graph, env: &Env, settings: &Settings) -> Result<Optimized> {
        graph.check_defined()?;
        let target = match self {
            Backend::Cpu => &cpu::plan::TARGET,
            Backend::Gpu(_) => &gpu::plan::TARGET,
        };
        // The CPU folds constants for both backends.
        let evaluator = cpu::evaluate::evaluator(env);
        let origin = Origin::optimize(&mut graph, target, settings.passes, &evaluator)?;
        Ok(Optimized { graph, origin })
    }

    /// Makes a plan from a graph that [`optimize`](Self::optimize) returned, with the sizes of `origin`. Drops bytes of
    /// constants from the graph once the plan has packed them.
    ///
    /// # Errors
    /// The errors of the backends' plans.
    pub fn lower(&self, graph: &mut Graph, origin: Origin, env: &Env, settings: &Settings) -> Result<Plan> {
        match self {
            Backend::Cpu => {
                let plan = cpu::plan::Plan::of_optimized(graph, origin, env, settings.plan)?;
                Ok(Plan::Cpu(Box::new(plan)))
            }
            Backend::Gpu(device) => {
                let cpu::plan::PlanOptions { share_views, fill_arena, .. } = settings.plan;
                let options = gpu::plan::PlanOptions { share_views, fill_arena };
                let plan = gpu::plan::Plan::of_optimized(graph, origin, device, &compiling(env), options)?;
                Ok(Plan::Gpu(Box::new(plan)))
            }
        }
    }

    /// Adapts `plan` to the graph in `stencil` with the sizes of `origin`, if it is a plan of the same graph for other
    /// sizes and adapting it is faster than making a new one; otherwise returns `None`.
    ///
    /// # Errors
    /// The errors of the backends' plans.
    pub fn resize(&self, plan: Plan, stencil: &mut Stencil, origin: &Origin, env: &Env) -> Result<Option<Plan>> {
        match plan {
            Plan::Cpu(mut plan) if plan.description().origin.is_alike(origin) => {
                let filling = stencil.filling(plan.description().origin.values());
                let fits = plan.resize(&filling, origin.clone(), env)?;
                Ok(fits.then_some(Plan::Cpu(plan)))
            }
            Plan::Gpu(mut plan) if plan.description().origin.is_alike(origin) => {
                let filling = stencil.filling(plan.description().origin.values());
                let fits = plan.resize(&filling, origin.clone(), &compiling(env))?;
                Ok(fits.then_some(Plan::Gpu(plan)))
            }
            _ => Ok(None),
        }
    }
}

/// Compiles kernels on the threads of `env`.
fn compiling<'e>(env: &'e Env) -> impl Fn(usize, &(dyn Fn(usize) + Sync)) + use<'e> {
    let threads = env.threads;
    move |count, work| threads.share(count, count.saturating_mul(COMPILE_COST), work)
}

/// A graph after the passes of a backend, before it is lowered.
pub struct Optimized {
    /// The optimized graph.
    pub(super) graph: Graph,
    /// The origin of its plans.
    pub(super) origin: Origin,
}

impl Plan {
    /// The description of the plan.
    pub fn description(&self) -> &Arc<Description> {
        match self {
            Plan::Cpu(plan) => plan.description(),
            Plan::Gpu(plan) => plan.description(),
        }
    }

    /// Names and descriptors of the inputs and outputs.
    pub fn ports(&self) -> [&[(String, Descriptor)]; 2] {
        match self {
            Plan::Cpu(plan) => [plan.inputs(), plan.outputs()],
            Plan::Gpu(plan) => [plan.inputs(), plan.outputs()],
        }
    }

    /// The outputs that begin with an input, in its memory.
    pub fn growing(&self) -> &[Growing] {
        match self {
            Plan::Cpu(plan) => plan.growing(),
            Plan::Gpu(plan) => plan.growing(),
        }
    }

    /// Calls `visit` with the constants that the plan reads, packed or not, and their sizes in bytes.
    pub fn each_weight(&self, mut visit: impl FnMut(Weight, usize)) {
        match self {
            Plan::Cpu(plan) => plan.weights().for_each(|buffer| visit(buffer.clone(), buffer.len())),
            Plan::Gpu(plan) => plan.constants().for_each(|constant| visit(constant.clone(), constant.held())),
        }
    }

    /// Size of the plan in bytes, on the CPU or on the device.
    pub fn bytes(&self) -> usize {
        self.description().bytes()
    }

    /// Runs the plan on tensors. On the CPU, runs to completion. With `watch`, measures times, and always runs to
    /// completion.
    ///
    /// # Errors
    /// An InvalidStateError for a destroyed tensor, the error of the dispatch that failed to write an input, an
    /// OperationError if the device fails.
    pub fn run(
        &mut self,
        env: &Env,
        inputs: &[Arc<Tensor>],
        outputs: &[Arc<Tensor>],
        watch: Option<&mut Stopwatch>,
    ) -> Result<()> {
        let inputs = inputs.iter().map(|tensor| tensor.lock()).collect::<Result<Vec<_>>>()?;
        match self {
            Plan::Cpu(plan) => {
                let mut guards = outputs.iter().map(|tensor| tensor.lock()).collect::<Result<Vec<_>>>()?;
                // A cache is part of the output that begins with it.
                let nothing = Buffer::default();
                let mut sources: Vec<&Buffer> = Vec::with_capacity(inputs.len());
                for (index, contents) in inputs.iter().enumerate() {
                    sources.push(if plan.is_cache(index) { &nothing } else { contents.bytes()? });
                }
                let mut targets: Vec<Bound> = guards
                    .iter_mut()
                    .zip(outputs)
                    .map(|(contents, tensor)| contents.bound(tensor.descriptor()))
                    .collect::<Result<_>>()?;
                match watch {
                    Some(watch) => plan.run_observed(env, &sources, &mut targets, watch),
                    None => plan.run_observed(env, &sources, &mut targets, &mut Unobserved),
                }
            }
            Plan::Gpu(plan) => {
                let device = plan.device().clone();
                let mut guards = outputs.iter().map(|tensor| tensor.lock()).collect::<Result<Vec<_>>>()?;
                for (contents, tensor) in guards.iter_mut().zip(outputs) {
                    if let Contents::Failed(_) = **contents {
                        let bytes = tensor.descriptor().bytes();
                        **contents = Contents::Device(DeviceTensor::zeroed(&device, bytes)?);
                    }
                }
                let targets: Vec<&wgpu::Buffer> =
                    guards.iter().map(|contents| on_device(contents)).collect::<Result<_>>()?;
                // A cache is part of the output that begins with it.
                let begun = |index: usize| plan.growing().iter().find(|growing| growing.input == index);
                let source = |(index, contents)| match begun(index) {
                    Some(growing) => Ok(targets[growing.output]),
                    None => on_device(contents),
                };
                let sources: Vec<&wgpu::Buffer> =
                    inputs.iter().map(|contents| &**contents).enumerate().map(source).collect::<Result<_>>()?;
                match watch {
                    Some(watch) => plan.profile(&sources, &targets, watch),
                    None => plan.run(&sources, &targets),
                }
            }
        }
    }
}

/// The buffer of a tensor on the device.
fn on_device(contents: &Contents) -> Result<&wgpu::Buffer> {
    match contents {
        Contents::Device(tensor) => Ok(tensor.buffer()),
        Contents::Appended(appended) => appended.buffer().ok_or_else(destroyed),
        Contents::Failed(error) => Err(error.clone()),
        // Tensors of a GPU context are all on the device, except for constants, which are not dispatched.
        _ => Err(destroyed()),
    }
}

fn destroyed() -> Error {
    Error::new(ErrorKind::InvalidState, "the tensor is destroyed")
}
