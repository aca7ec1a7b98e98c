//! Contexts: the operations of `MLContext`, as requests on its timeline.

use super::backend::Backend;
use super::compiled::CompiledGraph;
use super::graph_store::GraphStores;
use super::settings::{Settings, THREADS_VARIABLE, thread_count};
use super::site::{Site, built};
use super::tensor::{Contents, Read, Tensor};
use super::timeline::{Done, Later, Timeline, Turn};
use super::weak_list::WeakList;
use crate::cpu::schedule::pool::Threads;
use crate::cpu::simd::Isa;
use crate::cpu::steps::Env;
use crate::error::{Error, ErrorKind, Result, amount};
use crate::gpu::adapter::{self, Choice, WebGpuAdapter};
use crate::gpu::device::Device;
use crate::gpu::exit::enter;
use crate::gpu::loss::{Listener, Loss};
use crate::gpu::watch::guarded;
use crate::ir::{Builder, Graph};
use crate::memory::Buffer;
use crate::memory::store::StoreOptions;
use crate::observe::Stopwatch;
use crate::shape::{Descriptor, MAX_TENSOR_BYTES, MAX_VALUE_BYTES};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Bytes that take about a microsecond to copy.
const SHORT_READ: usize = 1 << 14;

/// The requested processor of a context.
#[derive(Clone, Debug)]
pub enum Wish {
    /// The CPU, and why, for people.
    Cpu(&'static str),
    /// The best GPU, or the CPU if there is none.
    Gpu,
    /// The adapter behind a WebGPU `GPUDevice`, and no other.
    Of(WebGpuAdapter),
}

/// A context. All requests to it run in order, in the background.
pub struct Context {
    pub(super) timeline: Timeline,
    settings: Settings,
    /// How packed constants of built graphs are kept on disk, if they are.
    keeping: Option<Arc<GraphStores>>,
    tensors: Arc<WeakList<Tensor>>,
    graphs: Arc<WeakList<CompiledGraph>>,
    /// Set while the context is open: from its first request until it is lost.
    backend: Arc<Mutex<Option<Backend>>>,
    /// Whether what it holds is on a GPU, also after it was lost.
    is_on_gpu: Arc<AtomicBool>,
    /// Set while the context is opened.
    remarks: Arc<OnceLock<Remarks>>,
    /// Called when the context's device is lost. Stored here because devices do not keep their listeners alive.
    listener: Arc<OnceLock<Arc<Listener>>>,
}

/// What people should know about the choice of a processor.
struct Remarks {
    /// Why it is what it is.
    reason: String,
    /// What is not used of a GPU because its driver fails.
    warning: Option<String>,
}

impl Remarks {
    fn plain(reason: impl Into<String>) -> Remarks {
        Remarks { reason: reason.into(), warning: None }
    }
}

/// Why the last context that could have used an existing GPU does not use it.
static REFUSAL: Mutex<Option<String>> = Mutex::new(None);

/// Why the last context that could have used an existing GPU does not use it.
pub(super) fn refusal() -> Option<String> {
    REFUSAL.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Context {
    /// Creates a context with `threads` threads. For `None`, the number comes from `WEBNN_NUM_THREADS` or the machine,
    /// and a context for low power takes half of it. [`open`](Self::open) must follow.
    ///
    /// # Errors
    /// A NotSupportedError for an invalid value of an environment variable, an OperationError if threads cannot be
    /// started.
    pub fn new(threads: Option<usize>, low_power: bool) -> Result<Context> {
        let settings = Settings::from_environment()?;
        let count = match threads {
            Some(count) => count,
            None => thread_count(low_power)?,
        };
        let threads = Threads::new(count).map_err(|error| {
            let less = format!("numThreads or {THREADS_VARIABLE} ask for fewer");
            Error::new(ErrorKind::Operation, format!("{count} threads did not start: {error}; {less}"))
        })?;
        let timeline = Timeline::new(threads, Isa::detect()?);
        Ok(Context {
            timeline,
            settings,
            keeping: None,
            tensors: Arc::default(),
            graphs: Arc::default(),
            backend: Arc::default(),
            is_on_gpu: Arc::default(),
            remarks: Arc::default(),
            listener: Arc::default(),
        })
    }

    /// Keeps packed constants of built graphs on disk from now on. `problem` is told once why not, or why something is
    /// not kept, or dropped with this context; see [`GraphStores::open`].
    pub fn keeping(self, options: &StoreOptions, problem: Done) -> Context {
        Context { keeping: GraphStores::open(options, problem).map(Arc::new), ..self }
    }

    /// Sets how many plans for different sizes the context's graphs keep.
    #[cfg(test)]
    pub fn keeping_sizes(mut self, count: usize) -> Context {
        self.settings.kept_sizes = count;
        self
    }

    /// Selects the processor of the context: its first request, which all others depend on. `lost` is called when the
    /// device is lost, with a [`DeviceLost`](ErrorKind::DeviceLost) that states the reason, or dropped with this
    /// context.
    ///
    /// The request fails with a NotSupportedError if the adapter of a `GPUDevice` is not available, or an environment
    /// variable has an invalid value.
    pub fn open(&self, wish: Wish, lost: Done, done: Done) {
        let kept = self.remarks.clone();
        let find = move || {
            let (backend, remarks) = find(wish)?;
            kept.get_or_init(|| remarks);
            Ok(backend)
        };
        self.open_on(find, lost, done);
    }

    /// Like [`open`](Self::open), on the backend that `find` returns.
    pub fn open_on(&self, find: impl FnOnce() -> Result<Backend> + Send + 'static, lost: Done, done: Done) {
        let (backend, kept, listener) = (self.backend.clone(), self.listener.clone(), self.listener(lost));
        let (is_on_gpu, hanging) = (self.is_on_gpu.clone(), self.timeline.expecting());
        self.timeline.enqueue(
            move |_| {
                let listener = kept.get_or_init(|| listener);
                let found = find()?;
                if let Backend::Gpu(device) = &found {
                    hanging();
                    is_on_gpu.store(true, Ordering::Relaxed);
                    device.loss.listen(listener);
                }
                *lock(&backend) = Some(found);
                Ok(())
            },
            done,
        );
    }

    /// What is called when the device is lost. `lost` is told when the memory is free, or at once if the driver hangs.
    fn listener(&self, lost: Done) -> Arc<Listener> {
        let (losing, abandoning, releasing) =
            (self.timeline.losing(), self.timeline.abandoning(), self.timeline.releasing());
        let (backend, tensors, graphs) = (self.backend.clone(), self.tensors.clone(), self.graphs.clone());
        let lost = Arc::new(Mutex::new(Some(lost)));
        Arc::new(move |loss| {
            let reason = format!("the GPU was lost: {}", loss.reason);
            let lost = lost.clone();
            let error = Error::new(ErrorKind::DeviceLost, reason.clone());
            let tell = move || {
                let lost = lost.lock().unwrap_or_else(PoisonError::into_inner).take();
                lost.into_iter().for_each(|lost| lost.finish(Err(error.clone())));
            };
            if loss.hangs {
                // Closing the device would hang, too.
                std::mem::forget(lock(&backend).clone());
                abandoning(ErrorKind::DeviceLost, &reason);
                return tell();
            }
            losing(ErrorKind::DeviceLost, &reason);
            let (backend, tensors, graphs) = (backend.clone(), tensors.drain(), graphs.drain());
            releasing(Box::new(move || {
                let free = || {
                    tensors.iter().for_each(|tensor| tensor.set(Contents::Released));
                    graphs.iter().for_each(|graph| graph.release());
                    close(&backend);
                };
                freeing(loss_of(&backend), free);
                tell();
            }));
        })
    }

    /// The processor; `None` before the context is open and after it was lost.
    pub fn backend(&self) -> Option<Backend> {
        lock(&self.backend).clone()
    }

    /// The instruction set that it computes with on the CPU.
    pub fn isa(&self) -> Isa {
        self.timeline.isa()
    }

    /// Why it computes on its processor, for people; empty before the context is open.
    pub fn reason(&self) -> &str {
        self.remarks.get().map_or("", |remarks| &remarks.reason)
    }

    /// What is not used of a GPU because its driver fails, for people.
    pub fn warning(&self) -> Option<&str> {
        self.remarks.get()?.warning.as_deref()
    }

    /// Maximum size of a tensor in bytes.
    pub fn max_tensor_bytes(&self) -> u64 {
        self.backend().map_or(MAX_TENSOR_BYTES, |backend| backend.max_tensor_bytes())
    }

    /// An empty builder of graphs whose values may be as large as those that never leave a graph.
    pub fn builder(&self) -> Builder {
        self.backend().map_or_else(|| Builder::with_limit(MAX_VALUE_BYTES), |backend| backend.builder())
    }

    /// Whether its processor has kernels for operators that the API lacks.
    pub fn has_extensions(&self) -> bool {
        self.backend().is_none_or(|backend| backend.has_extensions())
    }

    /// Returns the processor, for work on the timeline.
    fn opened(&self) -> impl Fn() -> Result<Backend> + Send + use<> {
        let backend = self.backend.clone();
        let closed = || Error::new(ErrorKind::InvalidState, "the context is not open");
        move || lock(&backend).clone().ok_or_else(closed)
    }

    /// Lets long work end early if the context is lost.
    ///
    /// # Errors
    /// An InvalidStateError if the context is lost.
    pub fn check_alive(&self) -> Result<()> {
        self.timeline.loss()()
    }

    /// Drops all queued requests, and releases the device.
    pub fn lose(&self) {
        self.timeline.lose();
        let backend = self.backend.clone();
        // The context may be held for long: the garbage collector does not know the weight of a device.
        self.enqueue_release(move || close(&backend));
        self.timeline.release_arena();
    }

    /// Drops all queued requests and frees the resources of all tensors and graphs: for a context whose tensors and
    /// graphs nobody will release.
    pub fn end(&self) {
        self.lose();
        self.tensors.drain().iter().for_each(|tensor| self.release_tensor(tensor));
        self.graphs.drain().iter().for_each(|graph| self.release_graph(graph));
    }

    /// Like [`end`](Self::end), at the end of the process. A GPU that a CPU emulates compiles kernels on threads of its
    /// own when they first run, and crashes if the process ends meanwhile: waits for it, at most for `patience`.
    pub fn end_with_process(&self, patience: Duration) {
        let device = match self.backend() {
            // One that hangs does not rest.
            Some(Backend::Gpu(device)) if device.is_software() && !device.loss.hangs() => device,
            _ => return self.end(),
        };
        self.end();
        let (tell, rested) = channel();
        self.timeline.enqueue_release(move || {
            device.finish_all();
            // The waiting thread may have given up.
            _ = tell.send(());
        });
        _ = rested.recv_timeout(patience);
    }

    /// Creates a tensor of zeros. Its bytes are allocated on the timeline.
    ///
    /// # Errors
    /// A TypeError if the descriptor exceeds the limits.
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

    /// Creates a tensor with the contents `bytes`.
    ///
    /// # Errors
    /// A TypeError if the descriptor exceeds the limits or `bytes` has the wrong length.
    pub fn create_constant_tensor(&self, descriptor: Descriptor, bytes: Buffer, done: Done) -> Result<Arc<Tensor>> {
        self.check("createConstantTensor", &descriptor)?;
        check_length("createConstantTensor", &descriptor, &bytes)?;
        let tensor = Arc::new(Tensor::new(descriptor));
        self.tensors.add(&tensor);
        tensor.set(Contents::Bytes(Arc::new(bytes)));
        self.timeline.enqueue(|_| Ok(()), done);
        Ok(tensor)
    }

    /// Copies the current bytes of `tensor` after all earlier work.
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

    /// Writes `bytes` after all earlier work. If that fails, reading the tensor returns the error.
    ///
    /// # Errors
    /// A TypeError if `bytes` has the wrong length.
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

    /// Frees the bytes of `tensor` after all earlier work.
    pub fn release_tensor(&self, tensor: &Arc<Tensor>) {
        let tensor = tensor.clone();
        self.enqueue_release(move || tensor.set(Contents::Released));
    }

    /// Appends work of several steps, with access to the context. If it returns a continuation, that continuation runs
    /// elsewhere.
    pub fn enqueue(&self, work: impl FnOnce(&Site) -> Result<Option<Later>> + Send + 'static, done: Done) {
        let on_site = self.on_site(work);
        self.timeline.enqueue_any(on_site, done);
    }

    /// Wraps `work` for the timeline, with access to the context.
    fn on_site<T, W: FnOnce(&Site) -> Result<T>>(&self, work: W) -> impl FnOnce(&Env) -> Result<T> + use<T, W> {
        let (settings, opened) = (self.settings, self.opened());
        let (tensors, graphs, keeping) = (self.tensors.clone(), self.graphs.clone(), self.keeping.clone());
        move |env: &Env| work(&Site { env, backend: opened()?, settings, keeping, tensors, graphs, watch: None })
    }

    /// Reserves the context for this thread, if no request is pending.
    pub fn turn(&self) -> Option<ContextTurn<'_>> {
        self.timeline.turn().map(|turn| ContextTurn { turn, context: self })
    }

    /// Appends work that frees memory: it runs even if the context is lost by then.
    pub fn enqueue_release(&self, release: impl FnOnce() + Send + 'static) {
        let (is_on_gpu, loss) = (self.is_on_gpu.clone(), loss_of(&self.backend));
        self.timeline.enqueue_release(move || match is_on_gpu.load(Ordering::Relaxed) {
            true => freeing(loss, release),
            false => release(),
        });
    }

    /// Compiles `graph`.
    pub fn build(&self, graph: Graph, done: Done) -> Arc<CompiledGraph> {
        let compiled = Arc::new(CompiledGraph::default());
        self.graphs.add(&compiled);
        let target = compiled.clone();
        let compile = move |site: &Site| {
            let mut graph = graph;
            let store = site.keep(&mut graph);
            target.hold(built(|| site.compile(graph))?);
            store.iter().for_each(|store| site.save(store));
            Ok(None)
        };
        self.enqueue(compile, done);
        compiled
    }

    /// Runs `graph`. The tensors are distinct, belong to this context, and match the graph's descriptors in order. If
    /// the run fails, reading the outputs returns the error.
    pub fn dispatch(&self, graph: &Arc<CompiledGraph>, inputs: Vec<Arc<Tensor>>, outputs: Vec<Arc<Tensor>>) {
        let graph = graph.clone();
        self.timeline.enqueue(
            move |env| {
                // Reading the outputs returns the error.
                drop(graph.run(env, "dispatch", [&inputs, &outputs], None));
                Ok(())
            },
            Done::unobserved(),
        );
    }

    /// Runs `graph` `warmup` times and then `runs` times with a clock, on tensors as for [`dispatch`](Self::dispatch).
    /// The times have the format of [`Stopwatch::into_times`]. If the context is lost meanwhile, the profile ends after
    /// the current run.
    ///
    /// The request fails with a TypeError for more timings than a profile can hold, an UnknownError if memory for them
    /// runs out, an OperationError if a run fails.
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

    /// Frees the resources of `graph` after all earlier work.
    pub fn release_graph(&self, graph: &Arc<CompiledGraph>) {
        let graph = graph.clone();
        self.enqueue_release(move || graph.release());
    }

    /// Checks a descriptor against the limits of this context.
    fn check(&self, operation: &str, descriptor: &Descriptor) -> Result<()> {
        descriptor
            .check_bytes("descriptor", self.max_tensor_bytes())
            .map_err(|problem| Error::at(operation, "", problem))
    }
}

/// Calls `release`, which frees what is on a GPU: the one that `loss` belongs to, if it is still known.
fn freeing(loss: Option<Arc<Loss>>, release: impl FnOnce()) {
    let _inside = enter();
    match loss {
        // A panic would otherwise become an error of the request, which nobody reads.
        Some(loss) => _ = guarded(&loss, "freeing memory", loss.patience(), release),
        None => release(),
    }
}

/// The loss of the GPU of a context.
fn loss_of(backend: &Mutex<Option<Backend>>) -> Option<Arc<Loss>> {
    match &*lock(backend) {
        Some(Backend::Gpu(device)) => Some(device.loss.clone()),
        _ => None,
    }
}

/// Drops the processor of a context, outside of the lock, which other threads take: closing a device takes long.
fn close(backend: &Mutex<Option<Backend>>) {
    let closed = lock(backend).take();
    drop(closed);
}

/// Locks the processor of a context.
fn lock(backend: &Mutex<Option<Backend>>) -> MutexGuard<'_, Option<Backend>> {
    backend.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A context reserved for one thread: other requests wait until this is dropped.
pub struct ContextTurn<'a> {
    turn: Turn<'a>,
    context: &'a Context,
}

impl ContextTurn<'_> {
    /// Runs `work` now.
    ///
    /// # Errors
    /// The error of `work`, an OperationError for a panic in it, or the reason why the context is lost.
    pub fn run<T>(&self, work: impl FnOnce(&Site) -> Result<T>) -> Result<T> {
        self.turn.run(self.context.on_site(work))
    }
}

/// Selects the backend for `wish`.
///
/// # Errors
/// A NotSupportedError if the adapter of a `GPUDevice` is not available, or for an invalid value of an environment
/// variable for GPUs.
fn find(wish: Wish) -> Result<(Backend, Remarks)> {
    let choice = match wish {
        Wish::Cpu(reason) => return Ok((Backend::Cpu, Remarks::plain(reason))),
        Wish::Of(device) => {
            let device = of_web_gpu(device)?;
            let (reason, warning) = ("it is the adapter of the GPUDevice".to_string(), device.remark());
            return Ok((Backend::Gpu(device), Remarks { reason, warning }));
        }
        Wish::Gpu => adapter::choice()?,
    };
    let (found, refusal) = match Device::shared(&choice) {
        Ok(found) => (found, None),
        // With a defective GPU, computing on the CPU beats not computing at all. A warning, `describeContext()`,
        // `systemInfo()` and `MLGraph.devices` show it.
        Err(error) => (None, Some(error.message)),
    };
    (*REFUSAL.lock().unwrap_or_else(PoisonError::into_inner)).clone_from(&refusal);
    Ok(match (found, refusal) {
        (Some(device), _) => {
            let warning = device.remark();
            let reason = ["a GPU was asked for"].into_iter().chain(warning.as_deref()).collect::<Vec<_>>().join("; ");
            (Backend::Gpu(device), Remarks { reason, warning })
        }
        (None, Some(refusal)) => {
            let warning = Some(format!("a GPU is not used: {refusal}"));
            (Backend::Cpu, Remarks { reason: refusal, warning })
        }
        (None, None) => (Backend::Cpu, Remarks::plain(adapter::why_none(choice == Choice::Software))),
    })
}

/// Opens the adapter of a `GPUDevice`.
fn of_web_gpu(device: WebGpuAdapter) -> Result<Arc<Device>> {
    let said = format!("vendor {:?}, device {:?}, description {:?}", device.vendor, device.device, device.description);
    let refused = |why: &str| {
        let message = format!("createContext: the adapter of the GPUDevice ({said}) {why}");
        Error::new(ErrorKind::NotSupported, message)
    };
    match Device::shared(&Choice::Of(device)) {
        Ok(Some(found)) if found.is_software() && !adapter::software_allowed()? => {
            Err(refused(&format!("is software, which is used only where {} is 1", adapter::SOFTWARE_VARIABLE)))
        }
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(refused("is not found among the adapters of this machine, see `webnn-node info`")),
        Err(error) => Err(refused(&error.message)),
    }
}

fn check_length(operation: &str, descriptor: &Descriptor, bytes: &Buffer) -> Result<()> {
    if descriptor.bytes() == bytes.len() {
        return Ok(());
    }
    let Descriptor { dtype, shape } = descriptor;
    let (got, expected) = (bytes.len(), descriptor.bytes());
    let message = format!(
        "{operation}: the data has {}, expected the {} of {dtype} {shape:?}",
        amount(got, "byte"),
        amount(expected, "byte")
    );
    Err(Error::new(ErrorKind::Type, message))
}
