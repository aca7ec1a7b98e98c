//! Contexts: what `MLContext` can do, as requests on its timeline.

use super::settings::{Settings, thread_count};
use super::tensor::{Contents, Read, Tensor};
use super::timeline::{Done, Timeline, lost, panicked};
use super::weak_list::WeakList;
use crate::cpu::description::Description;
use crate::cpu::observe::{Observer, Stopwatch, Unobserved};
use crate::cpu::plan::Plan;
use crate::cpu::simd::Isa;
use crate::cpu::steps::Env;
use crate::cpu::threads::Threads;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::Graph;
use crate::memory::Buffer;
use crate::shape::Descriptor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// Bytes that are copied in about a microsecond.
const SHORT_READ: usize = 1 << 14;

/// A context. Everything that it is asked runs in order, in the background.
pub struct Context {
    timeline: Timeline,
    settings: Settings,
    tensors: WeakList<Tensor>,
    graphs: WeakList<CompiledGraph>,
}

/// A graph of a context: compiled once the request to build it is done.
#[derive(Default)]
pub struct CompiledGraph {
    plan: Mutex<Option<Plan>>,
    /// Apart from the plan, which is locked while it runs.
    description: Mutex<Option<Arc<Description>>>,
}

impl Context {
    /// A context on the CPU with `threads` threads, or, for `None`, with as many as `WEBNN_NUM_THREADS` or the machine
    /// say, of which a context for low power takes half.
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
        Ok(Context { timeline, settings, tensors: WeakList::default(), graphs: WeakList::default() })
    }

    /// Drops everything that is queued.
    pub fn lose(&self) {
        self.timeline.lose();
    }

    /// Drops everything that is queued and frees what all tensors and graphs hold, for a context whose tensors and graphs
    /// nobody will release.
    pub fn end(&self) {
        self.lose();
        self.tensors.drain().iter().for_each(|tensor| self.release_tensor(tensor));
        self.graphs.drain().iter().for_each(|graph| self.release_graph(graph));
    }

    /// Creates a tensor of zeros. Its bytes are allocated on the timeline.
    ///
    /// # Errors
    /// A TypeError for a descriptor beyond the limits.
    pub fn create_tensor(&self, descriptor: Descriptor, done: Done) -> Result<Arc<Tensor>> {
        check("createTensor", &descriptor)?;
        let tensor = Arc::new(Tensor::new(descriptor));
        self.tensors.add(&tensor);
        let target = tensor.clone();
        self.timeline.enqueue(
            move |_| {
                let bytes = Buffer::zeroed(target.descriptor().bytes())?;
                *target.lock() = Contents::Bytes(Arc::new(bytes));
                Ok(())
            },
            done,
        );
        Ok(tensor)
    }

    /// Creates a tensor with a copy of `bytes`.
    ///
    /// # Errors
    /// A TypeError for a descriptor beyond the limits or another number of bytes, an UnknownError without memory.
    pub fn create_constant_tensor(&self, descriptor: Descriptor, bytes: &[u8], done: Done) -> Result<Arc<Tensor>> {
        check("createConstantTensor", &descriptor)?;
        check_length("createConstantTensor", &descriptor, bytes)?;
        let bytes = Buffer::copy_of(bytes)?;
        let tensor = Arc::new(Tensor::new(descriptor));
        self.tensors.add(&tensor);
        *tensor.lock() = Contents::Bytes(Arc::new(bytes));
        self.timeline.enqueue(|_| Ok(()), done);
        Ok(tensor)
    }

    /// Copies the bytes of `tensor` as they are when everything before is done.
    pub fn read(&self, tensor: &Arc<Tensor>, done: Done) -> Arc<Read> {
        let read = Arc::new(Read::default());
        let short = tensor.descriptor().bytes() <= SHORT_READ;
        let (tensor, target) = (tensor.clone(), read.clone());
        let work = move |_: &Env| {
            target.put(Buffer::copy_of(tensor.lock().bytes()?.bytes())?);
            Ok(())
        };
        match short {
            true => self.timeline.enqueue_short(work, done),
            false => self.timeline.enqueue(work, done),
        }
        read
    }

    /// Writes a copy, made now, of `bytes` when everything before is done.
    ///
    /// # Errors
    /// A TypeError for another number of bytes, an UnknownError without memory.
    pub fn write(&self, tensor: &Arc<Tensor>, bytes: &[u8]) -> Result<()> {
        check_length("writeTensor", tensor.descriptor(), bytes)?;
        let bytes = Buffer::copy_of(bytes)?;
        let tensor = tensor.clone();
        self.timeline.enqueue(
            move |_| {
                let mut contents = tensor.lock();
                // The copy becomes the contents; the old bytes are freed here, in the background.
                if !matches!(*contents, Contents::Released) {
                    *contents = Contents::Bytes(Arc::new(bytes));
                }
                Ok(())
            },
            Done::unobserved(),
        );
        Ok(())
    }

    /// Frees the bytes of `tensor` when everything before is done.
    pub fn release_tensor(&self, tensor: &Arc<Tensor>) {
        let tensor = tensor.clone();
        self.timeline.enqueue_release(move || *tensor.lock() = Contents::Released);
    }

    /// Compiles `graph`.
    pub fn build(&self, graph: Graph, done: Done) -> Arc<CompiledGraph> {
        let compiled = Arc::new(CompiledGraph::default());
        self.graphs.add(&compiled);
        let (target, settings) = (compiled.clone(), self.settings);
        self.timeline.enqueue(
            move |env| {
                let plan = catch_unwind(AssertUnwindSafe(|| Plan::compile(graph, env, settings.passes, settings.plan)));
                let plan = plan.unwrap_or_else(|panic| Err(panicked(&*panic)));
                // Whatever goes wrong while a graph is compiled is an OperationError.
                let plan = plan.map_err(|error| Error::new(ErrorKind::Operation, format!("build: {error}")))?;
                *target.lock_description() = Some(plan.description().clone());
                *target.lock() = Some(plan);
                Ok(())
            },
            done,
        );
        compiled
    }

    /// Runs `graph`. The tensors are all different, belong to this context and fit the graph's descriptors in order.
    /// If it fails, reading the outputs gives the error.
    pub fn dispatch(&self, graph: &Arc<CompiledGraph>, inputs: Vec<Arc<Tensor>>, outputs: Vec<Arc<Tensor>>) {
        let graph = graph.clone();
        self.timeline.enqueue(
            move |env| {
                // Whoever reads the outputs is told.
                drop(graph.run(env, "dispatch", [&inputs, &outputs], &mut Unobserved));
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
        let (graph, times, is_lost) = (graph.clone(), Arc::new(Read::default()), self.timeline.loss());
        let target = times.clone();
        self.timeline.enqueue(
            move |env| {
                let destroyed = || Error::new(ErrorKind::InvalidState, "profileGraph: the graph is destroyed");
                let steps = graph.description().ok_or_else(destroyed)?.steps.len();
                let mut watch = Stopwatch::new(runs as usize, steps)
                    .map_err(|error| Error { message: format!("profileGraph: {error}"), ..error })?;
                for turn in 0..warmup as u64 + runs as u64 {
                    if is_lost() {
                        return Err(lost());
                    }
                    match turn < warmup as u64 {
                        true => graph.run(env, "profileGraph", [&inputs, &outputs], &mut Unobserved)?,
                        false => graph.run(env, "profileGraph", [&inputs, &outputs], &mut watch)?,
                    }
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

    /// Bytes that the compiled graph holds; 0 while it is not built.
    pub fn bytes(&self) -> usize {
        self.lock().as_ref().map_or(0, Plan::bytes)
    }

    /// Runs the graph for `operation`. If that fails, reading the outputs gives the error as well.
    fn run(
        &self,
        env: &Env,
        operation: &str,
        [inputs, outputs]: [&[Arc<Tensor>]; 2],
        observer: &mut impl Observer,
    ) -> Result<()> {
        let run = catch_unwind(AssertUnwindSafe(|| self.run_plan(env, inputs, outputs, observer)));
        run.unwrap_or_else(|panic| Err(panicked(&*panic))).map_err(|error| {
            let error = Error::new(ErrorKind::Operation, format!("{operation}: {error}"));
            for output in outputs {
                let mut contents = output.lock();
                if !matches!(*contents, Contents::Released) {
                    *contents = Contents::Failed(error.clone());
                }
            }
            error
        })
    }

    fn run_plan(
        &self,
        env: &Env,
        inputs: &[Arc<Tensor>],
        outputs: &[Arc<Tensor>],
        observer: &mut impl Observer,
    ) -> Result<()> {
        let mut plan = self.lock();
        let plan = plan.as_mut().ok_or_else(|| Error::new(ErrorKind::InvalidState, "the graph is destroyed"))?;
        let input_guards: Vec<_> = inputs.iter().map(|tensor| tensor.lock()).collect();
        let mut output_guards: Vec<_> = outputs.iter().map(|tensor| tensor.lock()).collect();
        let sources: Vec<&Buffer> =
            input_guards.iter().map(|contents| contents.bytes().map(|bytes| &**bytes)).collect::<Result<_>>()?;
        let mut targets: Vec<&mut Buffer> = output_guards
            .iter_mut()
            .zip(outputs)
            .map(|(contents, tensor)| contents.bytes_mut(tensor.descriptor()))
            .collect::<Result<_>>()?;
        plan.run_observed(env, &sources, &mut targets, observer);
        Ok(())
    }
}

fn check(operation: &str, descriptor: &Descriptor) -> Result<()> {
    descriptor.check("descriptor").map_err(|problem| Error::at(operation, "", problem))
}

fn check_length(operation: &str, descriptor: &Descriptor, bytes: &[u8]) -> Result<()> {
    if descriptor.bytes() == bytes.len() {
        return Ok(());
    }
    let message = format!("{operation}: the data is {} bytes long, expected {}", bytes.len(), descriptor.bytes());
    Err(Error::new(ErrorKind::Type, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType;
    use crate::ir::parse;
    use std::sync::mpsc::channel;

    fn finished(request: impl FnOnce(Done)) -> Result<()> {
        let (tell, told) = channel();
        request(Done::new(move |result| tell.send(result).expect("somebody waits")));
        told.recv().expect("every request is told its end")
    }

    fn floats(context: &Context, tensor: &Arc<Tensor>) -> Result<Vec<f32>> {
        let mut read = None;
        finished(|done| read = Some(context.read(tensor, done)))?;
        let bytes = read.and_then(|read| read.take()).expect("a snapshot");
        Ok(crate::memory::elements(bytes.bytes()).to_vec())
    }

    #[test]
    fn the_end_frees_what_tensors_and_graphs_hold() {
        let context = Context::new(Some(1), false).unwrap();
        let descriptor = || Descriptor::new(DataType::Float32, [2]);
        let tensor = context.create_tensor(descriptor(), Done::unobserved()).unwrap();
        let constant = context.create_constant_tensor(descriptor(), &[0; 8], Done::unobserved()).unwrap();
        let mut graph = None;
        let text = "%0 = input x float32 [2]\n%1 = neg %0\noutput y = %1";
        finished(|done| graph = Some(context.build(parse(text), done))).unwrap();
        let graph = graph.expect("built");
        assert!(graph.description().is_some());

        context.end();
        let (tell, told) = channel();
        context.timeline.enqueue_release(move || tell.send(()).expect("somebody waits"));
        told.recv().unwrap();
        assert!(graph.description().is_none());
        for tensor in [tensor, constant] {
            assert!(matches!(*tensor.lock(), Contents::Released));
        }
        let error = finished(|done| drop(context.create_tensor(descriptor(), done))).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidState);
    }

    #[test]
    fn a_dispatch_that_fails_shows_when_its_outputs_are_read() {
        let context = Context::new(Some(1), false).unwrap();
        let tensor = || context.create_tensor(Descriptor::new(DataType::Float32, [2]), Done::unobserved()).unwrap();
        let (x, y) = (tensor(), tensor());
        let bytes: Vec<u8> = [1.0f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        context.write(&x, &bytes).unwrap();

        let mut graph = None;
        let text = "%0 = input x float32 [2]\n%1 = neg %0\noutput y = %1";
        finished(|done| graph = Some(context.build(parse(text), done))).unwrap();
        let graph = graph.expect("built");
        context.dispatch(&graph, vec![x.clone()], vec![y.clone()]);
        assert_eq!(floats(&context, &y).unwrap(), [-1.0, 2.0]);

        context.release_graph(&graph);
        context.dispatch(&graph, vec![x.clone()], vec![y.clone()]);
        let error = floats(&context, &y).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Operation, "dispatch: the graph is destroyed"));

        let profile =
            |runs| finished(|done| drop(context.profile(&graph, [vec![x.clone()], vec![y.clone()]], [0, runs], done)));
        assert_eq!(profile(1).unwrap_err().message, "profileGraph: the graph is destroyed");

        // The error ends with the next write.
        context.write(&y, &bytes).unwrap();
        assert_eq!(floats(&context, &y).unwrap(), [1.0, -2.0]);
    }

    #[test]
    fn a_profile_runs_in_order_with_dispatches_and_gives_its_times() {
        let context = Context::new(Some(1), false).unwrap();
        let tensor = || context.create_tensor(Descriptor::new(DataType::Float32, [2]), Done::unobserved()).unwrap();
        let (x, y) = (tensor(), tensor());
        let bytes: Vec<u8> = [1.0f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        context.write(&x, &bytes).unwrap();
        let mut graph = None;
        let text = "%0 = input x float32 [2]\n%1 = softmax %0 axis=0\n%2 = reduceSum %1 axes=[0]\n\
                    %3 = mul %2 %0\noutput y = %3";
        finished(|done| graph = Some(context.build(parse(text), done))).unwrap();
        let graph = graph.expect("built");
        let profile = |counts| {
            let mut times = None;
            finished(|done| times = Some(context.profile(&graph, [vec![x.clone()], vec![y.clone()]], counts, done)))?;
            Ok::<usize, Error>(times.and_then(|times| times.take()).expect("times").len())
        };
        assert_eq!(profile([2, 5]).unwrap(), 5 * (1 + 3) * 2 * 8);
        assert_eq!(floats(&context, &y).unwrap(), [1.0, -2.0]);
        let error = profile([0, u32::MAX]).unwrap_err();
        assert!(error.kind == ErrorKind::Type && error.message.contains("timings"), "{error}");
        assert_eq!(graph.description().expect("built").steps.len(), 3);
        context.release_graph(&graph);
        finished(|done| drop(context.read(&y, done))).unwrap();
        assert!(graph.description().is_none());
    }

    #[test]
    fn a_profile_of_a_lost_context_ends_soon() {
        let context = Context::new(Some(1), false).unwrap();
        let descriptor = Descriptor::new(DataType::Float32, [1 << 16]);
        let tensor = || context.create_tensor(descriptor.clone(), Done::unobserved()).unwrap();
        let (x, y) = (tensor(), tensor());
        let mut graph = None;
        let text = "%0 = input x float32 [65536]\n%1 = sin %0\noutput y = %1";
        finished(|done| graph = Some(context.build(parse(text), done))).unwrap();
        let (tell, told) = channel();
        let done = Done::new(move |result| tell.send(result).expect("somebody waits"));
        // Days, were it not lost.
        context.profile(&graph.expect("built"), [vec![x], vec![y]], [u32::MAX, 1], done);
        context.lose();
        assert_eq!(told.recv_timeout(std::time::Duration::from_secs(20)).expect("it ends"), Err(lost()));
    }
}
