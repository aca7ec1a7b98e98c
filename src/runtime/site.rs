//! The context as work on its timeline sees it.

use super::backend::{Backend, Optimized, Plan};
use super::background::panicked;
use super::compiled::CompiledGraph;
use super::graph_store::GraphStores;
use super::settings::Settings;
use super::tensor::{Read, Tensor};
use super::weak_list::WeakList;
use crate::cpu::steps::Env;
use crate::description::Origin;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Graph, Node, Stencil};
use crate::memory::Buffer;
use crate::memory::store::Store;
use crate::observe::Stopwatch;
use crate::shape::Descriptor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long one poll for the end of a read from a GPU waits.
const PATIENCE: Duration = Duration::from_millis(10);

/// Receives a graph that ran, the time when the run began, and its times, see [`Stopwatch::into_times`].
pub type Watch<'a> = dyn Fn(&CompiledGraph, Instant, Buffer) + 'a;

/// The context as seen by work on its timeline.
pub struct Site<'a> {
    /// The environment of steps.
    pub env: &'a Env<'a>,
    /// The processor.
    pub backend: Backend,
    pub(super) settings: Settings,
    pub(super) keeping: Option<Arc<GraphStores>>,
    pub(super) tensors: Arc<WeakList<Tensor>>,
    pub(super) graphs: Arc<WeakList<CompiledGraph>>,
    /// Receives the times of the graphs that run here.
    pub(super) watch: Option<&'a Watch<'a>>,
}

impl<'a> Site<'a> {
    /// The same site, with `watch` called for every graph that runs.
    pub fn watched(&'a self, watch: &'a Watch<'a>) -> Site<'a> {
        let Site { env, ref backend, settings, ref keeping, ref tensors, ref graphs, .. } = *self;
        let (backend, tensors, graphs) = (backend.clone(), tensors.clone(), graphs.clone());
        Site { env, backend, settings, keeping: keeping.clone(), tensors, graphs, watch: Some(watch) }
    }

    /// Runs `graph` for `operation`; see [`CompiledGraph::run`].
    ///
    /// # Errors
    /// Same as [`CompiledGraph::run`], and an `UnknownError` if memory for times runs out.
    pub fn run(&self, graph: &CompiledGraph, operation: &str, tensors: [&[Arc<Tensor>]; 2]) -> Result<()> {
        let Some(tell) = self.watch else { return graph.run(self.env, operation, tensors, None) };
        let steps = graph.description().map_or(0, |description| description.steps.len());
        let (start, mut watch) = (Instant::now(), Stopwatch::new(1, steps)?);
        graph.run(self.env, operation, tensors, Some(&mut watch))?;
        tell(graph, start, watch.into_times());
        Ok(())
    }
}

impl Site<'_> {
    /// How many plans for different sizes a graph keeps.
    pub fn kept_sizes(&self) -> usize {
        self.settings.kept_sizes
    }

    /// The bytes of the outputs of `node`, whose operands are constants, computed on the CPU.
    ///
    /// # Errors
    /// An UnknownError if memory runs out, an OperationError if a mapped constant cannot be read.
    pub fn evaluate(&self, graph: &Graph, node: &Node) -> Result<Vec<Buffer>> {
        crate::cpu::evaluate::evaluate(graph, node, self.env)
    }

    /// Has packed constants of `graph` kept on disk, if the context does that for graphs on the CPU; see
    /// [`GraphStores::keep`].
    pub fn keep(&self, graph: &mut Graph) -> Option<Arc<Store>> {
        self.keeping.as_ref().filter(|_| matches!(self.backend, Backend::Cpu))?.keep(graph, self.env.isa)
    }

    /// Writes what was packed of a graph to disk, in the background.
    pub fn save(&self, store: &Arc<Store>) {
        self.keeping.iter().for_each(|stores| stores.save(store));
    }

    /// Compiles `graph` to a plan.
    pub(super) fn compile(&self, graph: Graph) -> Result<Plan> {
        let Optimized { mut graph, origin } = self.backend.optimize(graph, self.env, &self.settings)?;
        self.backend.lower(&mut graph, origin, self.env, &self.settings)
    }

    /// Runs the passes on `graph`.
    ///
    /// # Errors
    /// An OperationError for any failure.
    pub fn optimize(&self, graph: Graph) -> Result<Optimized> {
        self.backend.optimize(graph, self.env, &self.settings).map_err(of_build)
    }

    /// Makes a plan of `graph`, see [`Backend::lower`]; it is freed with the context at the latest.
    ///
    /// # Errors
    /// An OperationError for any failure.
    pub(super) fn lower(&self, graph: &mut Graph, origin: Origin) -> Result<Arc<CompiledGraph>> {
        let compiled = self.unbuilt();
        compiled.hold(built(|| self.backend.lower(graph, origin, self.env, &self.settings))?);
        Ok(compiled)
    }

    /// Like [`lower`](Self::lower), for the graph in `stencil`, by reusing the plan of `spare`, which then is unusable;
    /// `None` if that is impossible, see [`Backend::resize`], or if `spare` has other owners.
    ///
    /// # Errors
    /// An OperationError for any failure.
    pub(super) fn resize(
        &self,
        spare: Arc<CompiledGraph>,
        stencil: &mut Stencil,
        origin: &Origin,
    ) -> Result<Option<Arc<CompiledGraph>>> {
        let Some(plan) = Arc::into_inner(spare).and_then(|graph| graph.lock().take()) else { return Ok(None) };
        let compiled = self.unbuilt();
        let plan = built(|| self.backend.resize(plan, stencil, origin, self.env))?;
        Ok(plan.map(|plan| {
            compiled.hold(plan);
            compiled
        }))
    }

    /// A graph without a plan yet; it is freed with the context at the latest.
    fn unbuilt(&self) -> Arc<CompiledGraph> {
        let compiled = Arc::new(CompiledGraph::default());
        self.graphs.add(&compiled);
        compiled
    }

    /// A read-only tensor with these contents; it is freed with the context at the latest.
    ///
    /// # Errors
    /// An UnknownError if memory runs out, an OperationError if the device fails.
    pub fn tensor_of(&self, descriptor: Descriptor, bytes: &Arc<Buffer>) -> Result<Arc<Tensor>> {
        let tensor = self.tensor(descriptor);
        tensor.fill(&self.backend, bytes.clone())?;
        Ok(tensor)
    }

    /// The bytes of `tensor`: shared with it on the CPU, read back from a GPU.
    ///
    /// # Errors
    /// The error of the work that failed to write them, an InvalidStateError if they were released.
    pub fn bytes(&self, tensor: &Tensor) -> Result<Arc<Buffer>> {
        if let Backend::Cpu = self.backend {
            return tensor.lock()?.bytes().cloned();
        }
        let read = Arc::new(Read::default());
        let mut reading = tensor.read_later(read.clone())?;
        loop {
            if let Some(result) = reading(PATIENCE) {
                result?;
                return read.take().map(Arc::new).ok_or_else(|| Error::new(ErrorKind::Unknown, "nothing was read"));
            }
        }
    }

    /// A tensor without contents yet; it is freed with the context at the latest.
    pub fn tensor(&self, descriptor: Descriptor) -> Arc<Tensor> {
        let tensor = Arc::new(Tensor::new(descriptor));
        self.tensors.add(&tensor);
        tensor
    }
}

/// Calls `make`, which compiles a graph.
///
/// # Errors
/// An OperationError for any failure, including a panic.
pub(super) fn built<T>(make: impl FnOnce() -> Result<T>) -> Result<T> {
    let made = catch_unwind(AssertUnwindSafe(make));
    made.unwrap_or_else(|panic| Err(panicked(&*panic))).map_err(of_build)
}

/// Turns any failure while compiling a graph into an OperationError.
fn of_build(error: Error) -> Error {
    Error::new(ErrorKind::Operation, format!("build: {error}"))
}
