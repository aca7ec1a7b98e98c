//! Contexts: what `MLContext` can do, as requests on its timeline.

use super::backend::{Backend, Optimized, Plan};
use super::background::panicked;
use super::settings::{Settings, thread_count};
use super::tensor::{Contents, Read, Tensor};
use super::timeline::{Done, Later, Timeline, Turn};
use super::weak_list::WeakList;
use crate::cpu::schedule::pool::Threads;
use crate::cpu::simd::Isa;
use crate::cpu::steps::Env;
use crate::description::{Description, Origin};
use crate::error::{Error, ErrorKind, Result};
use crate::gpu::adapter::{self, Choice, WebGpuAdapter};
use crate::gpu::device::Device;
use crate::gpu::loss::Listener;
use crate::ir::{Graph, Growing, Stencil};
use crate::memory::Buffer;
use crate::observe::Stopwatch;
use crate::shape::{Descriptor, MAX_TENSOR_BYTES};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that are copied in about a microsecond.
const SHORT_READ: usize = 1 << 14;

/// How long a look for the end of a read from a GPU waits.
const PATIENCE: Duration = Duration::from_millis(10);

/// What a context should compute on.
#[derive(Clone, Debug)]
pub enum Wish {
    /// The CPU.
    Cpu,
    /// The best GPU for these preferences, or the CPU if there is none.
    Accelerated {
        /// Whether little power is more important than speed.
        low_power: bool,
    },
    /// The adapter of a `GPUDevice` of WebGPU, and nothing else.
    Of(WebGpuAdapter),
}

/// A context. Everything that it is asked runs in order, in the background.
pub struct Context {
    pub(super) timeline: Timeline,
    settings: Settings,
    tensors: Arc<WeakList<Tensor>>,
    graphs: Arc<WeakList<CompiledGraph>>,
    /// Known when the context is open, which is its first request, and until it is lost.
    backend: Arc<Mutex<Option<Backend>>>,
    /// Is told when the device of the context is lost. Kept here: devices do not keep their listeners.
    listener: Arc<OnceLock<Arc<Listener>>>,
}

/// A graph of a context: compiled once the request to build it is done.
#[derive(Default)]
pub struct CompiledGraph {
    plan: Mutex<Option<Plan>>,
    /// Apart from the plan, which is locked while it runs.
    description: Mutex<Option<Arc<Description>>>,
}

/// Why the last context that could have used a GPU does not, although there is one.
static REFUSAL: Mutex<Option<String>> = Mutex::new(None);

/// Why the last context that could have used a GPU does not, although there is one.
pub(super) fn refusal() -> Option<String> {
    REFUSAL.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Context {
    /// A context with `threads` threads, or, for `None`, with as many as `WEBNN_NUM_THREADS` or the machine
    /// say, of which a context for low power takes half. It is opened next.
    ///
    /// # Errors
    /// A NotSupportedError for a value of an environment variable that makes no sense, an OperationError when threads
    /// cannot be started.
    pub fn new(threads: Option<usize>, low_power: bool) -> Result<Context> {
        let settings = Settings::from_environment()?;
        let count = match threads {
            Some(count) => count,
            None => thread_count(low_power)?,
        };
        let threads = Threads::new(count)
            .map_err(|error| Error::new(ErrorKind::Operation, format!("{count} threads did not start: {error}")))?;
        let timeline = Timeline::new(threads, Isa::detect()?)?;
        Ok(Context {
            timeline,
            settings,
            tensors: Arc::default(),
            graphs: Arc::default(),
            backend: Arc::default(),
            listener: Arc::default(),
        })
    }

    /// The same context, whose graphs keep `count` plans for different sizes.
    #[cfg(test)]
    pub fn keeping_sizes(mut self, count: usize) -> Context {
        self.settings.kept_sizes = count;
        self
    }

    /// Finds what the context computes on: its first request, which all others rely on. `lost` is told when the device is
    /// lost, with a [`DeviceLost`](ErrorKind::DeviceLost) that says why, or dropped with this context.
    ///
    /// The request fails with a NotSupportedError when the adapter of a `GPUDevice` is not to be had, or for a value of an
    /// environment variable that makes no sense.
    pub fn open(&self, wish: Wish, lost: Done, done: Done) {
        self.open_on(|| find(wish), lost, done);
    }

    /// As [`open`](Self::open), on what `find` gives.
    pub(super) fn open_on(&self, find: impl FnOnce() -> Result<Backend> + Send + 'static, lost: Done, done: Done) {
        let (backend, kept, losing) = (self.backend.clone(), self.listener.clone(), self.timeline.losing());
        self.timeline.enqueue(
            move |_| {
                let lost = Mutex::new(Some(lost));
                let listener: Arc<Listener> = Arc::new(move |reason| {
                    let reason = format!("the GPU was lost: {reason}");
                    losing(ErrorKind::DeviceLost, &reason);
                    if let Some(lost) = lost.lock().unwrap_or_else(PoisonError::into_inner).take() {
                        lost.finish(Err(Error::new(ErrorKind::DeviceLost, reason)));
                    }
                });
                let listener = kept.get_or_init(|| listener);
                let found = find()?;
                if let Backend::Gpu(device) = &found {
                    device.loss.listen(listener);
                }
                *lock(&backend) = Some(found);
                Ok(())
            },
            done,
        );
    }

    /// What it computes on; `None` while it is not open, and when it was lost.
    pub fn backend(&self) -> Option<Backend> {
        lock(&self.backend).clone()
    }

    /// Bytes of a tensor, at most.
    pub fn max_tensor_bytes(&self) -> u64 {
        self.backend().map_or(MAX_TENSOR_BYTES, |backend| backend.max_tensor_bytes())
    }

    /// What it computes on, for work on the timeline.
    fn opened(&self) -> impl Fn() -> Result<Backend> + Send + use<> {
        let backend = self.backend.clone();
        let closed = || Error::new(ErrorKind::InvalidState, "the context is not open");
        move || lock(&backend).clone().ok_or_else(closed)
    }

    /// Nothing, for work that takes long and ends early where nobody waits for it any more.
    ///
    /// # Errors
    /// An InvalidStateError when the context is lost.
    pub fn check_alive(&self) -> Result<()> {
        self.timeline.loss()()
    }

    /// Drops everything that is queued, and lets go of the device.
    pub fn lose(&self) {
        self.timeline.lose();
        let backend = self.backend.clone();
        // Whoever holds the context may do so for long: the garbage collector does not know what a device weighs.
        self.timeline.enqueue_release(move || *lock(&backend) = None);
        self.timeline.release_arena();
    }

    /// Drops everything that is queued and frees what all tensors and graphs hold, for a context whose tensors and graphs
    /// nobody will release.
    pub fn end(&self) {
        self.lose();
        self.tensors.drain().iter().for_each(|tensor| self.release_tensor(tensor));
        self.graphs.drain().iter().for_each(|graph| self.release_graph(graph));
    }

    /// As [`end`](Self::end), for a context that the process ends with: a GPU that a CPU emulates compiles kernels on threads of its
    /// own when they first run, and crashes if the process ends meanwhile. So this waits for what it does, `patience` at most.
    pub fn end_with_process(&self, patience: Duration) {
        let device = match self.backend() {
            Some(Backend::Gpu(device)) if device.is_software() => device,
            _ => return self.end(),
        };
        self.end();
        let (tell, rested) = channel();
        self.timeline.enqueue_release(move || {
            device.finish_all();
            // Whoever waited may have lost patience.
            _ = tell.send(());
        });
        _ = rested.recv_timeout(patience);
    }

    /// Creates a tensor of zeros. Its bytes are allocated on the timeline.
    ///
    /// # Errors
    /// A TypeError for a descriptor beyond the limits.
    pub fn create_tensor(&self, descriptor: Descriptor, done: Done) -> Result<Arc<Tensor>> {
        self.check("createTensor", &descriptor)?;
        let tensor = Arc::new(Tensor::new(descriptor));
        self.tensors.add(&tensor);
        let (target, opened) = (tensor.clone(), self.opened());
        self.timeline.enqueue(
            move |_| {
                let contents = opened()?.zeroed(target.descriptor().bytes())?;
                target.set(contents);
                Ok(())
            },
            done,
        );
        Ok(tensor)
    }

    /// Creates a tensor that holds `bytes`.
    ///
    /// # Errors
    /// A TypeError for a descriptor beyond the limits or another number of bytes.
    pub fn create_constant_tensor(&self, descriptor: Descriptor, bytes: Buffer, done: Done) -> Result<Arc<Tensor>> {
        self.check("createConstantTensor", &descriptor)?;
        check_length("createConstantTensor", &descriptor, &bytes)?;
        let tensor = Arc::new(Tensor::new(descriptor));
        self.tensors.add(&tensor);
        tensor.set(Contents::Bytes(Arc::new(bytes)));
        self.timeline.enqueue(|_| Ok(()), done);
        Ok(tensor)
    }

    /// Copies the bytes of `tensor` as they are when everything before is done.
    pub fn read(&self, tensor: &Arc<Tensor>, done: Done) -> Arc<Read> {
        let read = Arc::new(Read::default());
        let (tensor, target) = (tensor.clone(), read.clone());
        if let Some(Backend::Gpu(_)) = self.backend() {
            self.timeline.enqueue_later(move |_| tensor.read_later(target), done);
            return read;
        }
        let short = tensor.descriptor().bytes() <= SHORT_READ;
        let work = move |_: &Env| {
            target.put(tensor.copy()?);
            Ok(())
        };
        match short {
            true => self.timeline.enqueue_short(work, done),
            false => self.timeline.enqueue(work, done),
        }
        read
    }

    /// Writes `bytes` when everything before is done. If that fails, reading the tensor gives the error.
    ///
    /// # Errors
    /// A TypeError for another number of bytes.
    pub fn write(&self, tensor: &Arc<Tensor>, bytes: Buffer) -> Result<()> {
        check_length("writeTensor", tensor.descriptor(), &bytes)?;
        let (tensor, opened) = (tensor.clone(), self.opened());
        self.timeline.enqueue(
            move |_| {
                tensor.replace(&opened()?, bytes);
                Ok(())
            },
            Done::unobserved(),
        );
        Ok(())
    }

    /// Frees the bytes of `tensor` when everything before is done.
    pub fn release_tensor(&self, tensor: &Arc<Tensor>) {
        let tensor = tensor.clone();
        self.timeline.enqueue_release(move || tensor.set(Contents::Released));
    }

    /// Appends work of several steps, for which the context is at hand. What it gives, if something, goes on elsewhere.
    pub fn enqueue(&self, work: impl FnOnce(&Site) -> Result<Option<Later>> + Send + 'static, done: Done) {
        let on_site = self.on_site(work);
        self.timeline.enqueue_any(on_site, done);
    }

    /// `work` for the timeline, with the context at hand.
    fn on_site<T, W: FnOnce(&Site) -> Result<T>>(&self, work: W) -> impl FnOnce(&Env) -> Result<T> + use<T, W> {
        let (settings, opened) = (self.settings, self.opened());
        let (tensors, graphs) = (self.tensors.clone(), self.graphs.clone());
        move |env: &Env| work(&Site { env, backend: opened()?, settings, tensors, graphs, watch: None })
    }

    /// The context for this thread, if nothing that was asked of it is left to be done.
    pub fn turn(&self) -> Option<ContextTurn<'_>> {
        self.timeline.turn().map(|turn| ContextTurn { turn, context: self })
    }

    /// Appends work that frees memory: it runs even if the context is lost by then.
    pub fn enqueue_release(&self, release: impl FnOnce() + Send + 'static) {
        self.timeline.enqueue_release(release);
    }

    /// Compiles `graph`.
    pub fn build(&self, graph: Graph, done: Done) -> Arc<CompiledGraph> {
        let compiled = Arc::new(CompiledGraph::default());
        self.graphs.add(&compiled);
        let target = compiled.clone();
        let compile = move |site: &Site| {
            target.hold(built(|| site.compile(graph))?);
            Ok(None)
        };
        self.enqueue(compile, done);
        compiled
    }

    /// Runs `graph`. The tensors are all different, belong to this context and fit the graph's descriptors in order.
    /// If it fails, reading the outputs gives the error.
    pub fn dispatch(&self, graph: &Arc<CompiledGraph>, inputs: Vec<Arc<Tensor>>, outputs: Vec<Arc<Tensor>>) {
        let graph = graph.clone();
        self.timeline.enqueue(
            move |env| {
                // Whoever reads the outputs is told.
                drop(graph.run(env, "dispatch", [&inputs, &outputs], None));
                Ok(())
            },
            Done::unobserved(),
        );
    }

    /// Runs `graph` `warmup` times and then `runs` times with a clock; the tensors are those of a
    /// [`dispatch`](Self::dispatch). The times are what [`Stopwatch::into_times`] gives. If the context is lost
    /// meanwhile, it ends after the run that it is in.
    ///
    /// The request fails with a TypeError for more timings than a profile holds, an UnknownError when there is no memory
    /// for them, an OperationError when a run fails.
    pub fn profile(
        &self,
        graph: &Arc<CompiledGraph>,
        [inputs, outputs]: [Vec<Arc<Tensor>>; 2],
        [warmup, runs]: [u32; 2],
        done: Done,
    ) -> Arc<Read> {
        let (graph, times, check) = (graph.clone(), Arc::new(Read::default()), self.timeline.loss());
        let target = times.clone();
        self.timeline.enqueue(
            move |env| {
                let destroyed = || Error::new(ErrorKind::InvalidState, "profileGraph: the graph is destroyed");
                let steps = graph.description().ok_or_else(destroyed)?.steps.len();
                let mut watch = Stopwatch::new(runs as usize, steps)
                    .map_err(|error| Error { message: format!("profileGraph: {error}"), ..error })?;
                for turn in 0..warmup as u64 + runs as u64 {
                    check()?;
                    let watch = (turn >= warmup as u64).then_some(&mut watch);
                    graph.run(env, "profileGraph", [&inputs, &outputs], watch)?;
                }
                target.put(watch.into_times());
                Ok(())
            },
            done,
        );
        times
    }

    /// Frees what `graph` holds when everything before is done.
    pub fn release_graph(&self, graph: &Arc<CompiledGraph>) {
        let graph = graph.clone();
        self.timeline.enqueue_release(move || {
            *graph.lock_description() = None;
            *graph.lock() = None;
        });
    }

    /// Checks a descriptor against the limits of this context.
    fn check(&self, operation: &str, descriptor: &Descriptor) -> Result<()> {
        descriptor
            .check_bytes("descriptor", self.max_tensor_bytes())
            .map_err(|problem| Error::at(operation, "", problem))
    }
}

/// What a context computes on.
fn lock(backend: &Mutex<Option<Backend>>) -> MutexGuard<'_, Option<Backend>> {
    backend.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A context that one thread has to itself: what is asked of it meanwhile waits until this is dropped.
pub struct ContextTurn<'a> {
    turn: Turn<'a>,
    context: &'a Context,
}

impl ContextTurn<'_> {
    /// Does `work` now.
    ///
    /// # Errors
    /// That of `work`; an OperationError for a panic in it; why the context is lost, if it is.
    pub fn run<T>(&self, work: impl FnOnce(&Site) -> Result<T>) -> Result<T> {
        self.turn.run(self.context.on_site(work))
    }
}

/// Is told of a graph that was run when it began, and its times, see [`Stopwatch::into_times`].
pub type Watch<'a> = dyn Fn(&CompiledGraph, Instant, Buffer) + 'a;

/// A context as work on its timeline sees it.
pub struct Site<'a> {
    /// With what steps run.
    pub env: &'a Env<'a>,
    /// What is computed on.
    pub backend: Backend,
    settings: Settings,
    tensors: Arc<WeakList<Tensor>>,
    graphs: Arc<WeakList<CompiledGraph>>,
    /// Is told of the graphs that run here.
    watch: Option<&'a Watch<'a>>,
}

impl<'a> Site<'a> {
    /// The same, where `watch` is told of every graph that is run.
    pub fn watched(&'a self, watch: &'a Watch<'a>) -> Site<'a> {
        let Site { env, ref backend, settings, ref tensors, ref graphs, .. } = *self;
        let (backend, tensors, graphs) = (backend.clone(), tensors.clone(), graphs.clone());
        Site { env, backend, settings, tensors, graphs, watch: Some(watch) }
    }

    /// Runs `graph` for `operation`, see [`CompiledGraph::run`].
    ///
    /// # Errors
    /// As that, and an `UnknownError` without memory for times.
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

    /// A plan of `graph`.
    fn compile(&self, graph: Graph) -> Result<Plan> {
        let Optimized { mut graph, origin } = self.backend.optimize(graph, self.env, &self.settings)?;
        self.backend.lower(&mut graph, origin, self.env, &self.settings)
    }

    /// Runs the passes on `graph`.
    ///
    /// # Errors
    /// An OperationError for whatever goes wrong.
    pub fn optimize(&self, graph: Graph) -> Result<Optimized> {
        self.backend.optimize(graph, self.env, &self.settings).map_err(of_build)
    }

    /// Makes a plan of `graph`, see [`Backend::lower`], which is freed with the context at the latest.
    ///
    /// # Errors
    /// An OperationError for whatever goes wrong.
    pub(super) fn lower(&self, graph: &mut Graph, origin: Origin) -> Result<Arc<CompiledGraph>> {
        let compiled = self.unbuilt();
        compiled.hold(built(|| self.backend.lower(graph, origin, self.env, &self.settings))?);
        Ok(compiled)
    }

    /// As [`lower`](Self::lower) of the graph in `stencil`, with the plan of `spare`, which is of no use then; `None` where
    /// that is not possible, see [`Backend::resize`], or somebody else has `spare`.
    ///
    /// # Errors
    /// An OperationError for whatever goes wrong.
    pub(super) fn resize(
        &self,
        spare: Arc<CompiledGraph>,
        stencil: &Stencil,
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

    /// A graph without a plan yet, which is freed with the context at the latest.
    fn unbuilt(&self) -> Arc<CompiledGraph> {
        let compiled = Arc::new(CompiledGraph::default());
        self.graphs.add(&compiled);
        compiled
    }

    /// A tensor with these contents, which is freed with the context at the latest. It is not written.
    ///
    /// # Errors
    /// An UnknownError without memory, an OperationError when the device fails.
    pub fn tensor_of(&self, descriptor: Descriptor, bytes: &Arc<Buffer>) -> Result<Arc<Tensor>> {
        let tensor = self.tensor(descriptor);
        tensor.fill(&self.backend, bytes.clone())?;
        Ok(tensor)
    }

    /// The bytes of `tensor`: shared with it on the CPU, read from a GPU.
    ///
    /// # Errors
    /// The error of what should have written them, an InvalidStateError when they were released.
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

    /// A tensor without contents yet, which is freed with the context at the latest.
    pub fn tensor(&self, descriptor: Descriptor) -> Arc<Tensor> {
        let tensor = Arc::new(Tensor::new(descriptor));
        self.tensors.add(&tensor);
        tensor
    }
}

/// What `make` makes of a graph.
///
/// # Errors
/// An OperationError for whatever goes wrong, a panic included.
fn built<T>(make: impl FnOnce() -> Result<T>) -> Result<T> {
    let made = catch_unwind(AssertUnwindSafe(make));
    made.unwrap_or_else(|panic| Err(panicked(&*panic))).map_err(of_build)
}

/// Whatever goes wrong while a graph is compiled is an OperationError.
fn of_build(error: Error) -> Error {
    Error::new(ErrorKind::Operation, format!("build: {error}"))
}

/// What fulfils `wish`.
///
/// # Errors
/// A NotSupportedError when the adapter of a `GPUDevice` is not to be had.
fn find(wish: Wish) -> Result<Backend> {
    let choice = match wish {
        Wish::Cpu => return Ok(Backend::Cpu),
        Wish::Of(device) => return of_web_gpu(device),
        Wish::Accelerated { low_power } => adapter::choice(low_power)?,
    };
    let mut refusal = None;
    let found = match Device::shared(&choice) {
        Ok(Some(device)) => Backend::Gpu(device),
        Ok(None) => Backend::Cpu,
        Err(error) => {
            // A GPU that does not work is no reason to compute nothing. `systemInfo()` tells, and `MLGraph.devices`.
            refusal = Some(error.message);
            Backend::Cpu
        }
    };
    *REFUSAL.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
    Ok(found)
}

/// The adapter of a `GPUDevice`.
fn of_web_gpu(device: WebGpuAdapter) -> Result<Backend> {
    let said = format!("vendor {:?}, device {:?}, description {:?}", device.vendor, device.device, device.description);
    let refused = |why: &str| {
        let message = format!("createContext: the adapter of the GPUDevice ({said}) {why}");
        Error::new(ErrorKind::NotSupported, message)
    };
    match Device::shared(&Choice::Of(device)) {
        Ok(Some(found)) if found.is_software() && !adapter::software_allowed()? => {
            Err(refused(&format!("is software, which is used only where {} is 1", adapter::SOFTWARE_VARIABLE)))
        }
        Ok(Some(found)) => Ok(Backend::Gpu(found)),
        Ok(None) => Err(refused("is not found among the adapters of this machine, see `webnn-node info`")),
        Err(error) => Err(refused(&error.message)),
    }
}

impl CompiledGraph {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Plan>> {
        self.plan.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn lock_description(&self) -> std::sync::MutexGuard<'_, Option<Arc<Description>>> {
        self.description.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What the compiled graph is and does; `None` while it is not built and after it was released. Waits for no run.
    pub fn description(&self) -> Option<Arc<Description>> {
        self.lock_description().clone()
    }

    /// Takes its plan.
    fn hold(&self, plan: Plan) {
        *self.lock_description() = Some(plan.description().clone());
        *self.lock() = Some(plan);
    }

    /// Names and descriptors of its inputs and outputs; none while it is not built.
    pub fn ports(&self) -> [Vec<(String, Descriptor)>; 2] {
        self.with_ports(|ports| ports.map(<[_]>::to_vec))
    }

    /// Shows them to `look`.
    pub fn with_ports<T>(&self, look: impl FnOnce([&[(String, Descriptor)]; 2]) -> T) -> T {
        look(self.lock().as_ref().map_or_else(Default::default, |plan| plan.ports()))
    }

    /// Shows `visit` the buffers of constants that it reads, see [`Plan::each_weight`].
    pub fn each_weight(&self, mut visit: impl FnMut(&Arc<Buffer>)) {
        self.lock().iter().for_each(|plan| plan.each_weight(&mut visit));
    }

    /// Whether running it is not worth the threads of the pool; single steps may still call them.
    pub fn stays_out_of_pool(&self) -> bool {
        self.lock().as_ref().is_some_and(|plan| plan.stays_out_of_pool())
    }

    /// The outputs that begin with an input, in its memory.
    pub fn growing(&self) -> Vec<Growing> {
        self.lock().as_ref().map_or_else(Vec::new, |plan| plan.growing().to_vec())
    }

    /// Bytes that the compiled graph holds; 0 while it is not built.
    pub fn bytes(&self) -> usize {
        self.description().map_or(0, |description| description.bytes())
    }

    /// Runs the graph for `operation`, as work on the timeline of its context. The tensors are those of a
    /// [`dispatch`](Context::dispatch).
    ///
    /// # Errors
    /// An OperationError, which reading the outputs gives as well.
    pub fn run(
        &self,
        env: &Env,
        operation: &str,
        [inputs, outputs]: [&[Arc<Tensor>]; 2],
        watch: Option<&mut Stopwatch>,
    ) -> Result<()> {
        let run = catch_unwind(AssertUnwindSafe(|| {
            let mut plan = self.lock();
            let plan = plan.as_mut().ok_or_else(|| Error::new(ErrorKind::InvalidState, "the graph is destroyed"))?;
            plan.run(env, inputs, outputs, watch)
        }));
        run.unwrap_or_else(|panic| Err(panicked(&*panic))).map_err(|error| {
            let error = Error::new(ErrorKind::Operation, format!("{operation}: {error}"));
            outputs.iter().for_each(|output| output.fail(&error));
            error
        })
    }
}

fn check_length(operation: &str, descriptor: &Descriptor, bytes: &Buffer) -> Result<()> {
    if descriptor.bytes() == bytes.len() {
        return Ok(());
    }
    let message = format!("{operation}: the data is {} bytes long, expected {}", bytes.len(), descriptor.bytes());
    Err(Error::new(ErrorKind::Type, message))
}
