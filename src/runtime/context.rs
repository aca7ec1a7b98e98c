//! Contexts: what `MLContext` can do, as requests on its timeline.

use super::settings::{Settings, thread_count};
use super::tensor::{Contents, Read, Tensor};
use super::timeline::{Done, Timeline, panicked};
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

/// A context. Everything that it is asked runs in order, in the background.
pub struct Context {
    timeline: Timeline,
    settings: Settings,
}

/// A graph of a context: compiled once the request to build it is done.
#[derive(Default)]
pub struct CompiledGraph(Mutex<Option<Plan>>);

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
        Ok(Context { timeline: Timeline::new(threads, Isa::detect()?)?, settings })
    }

    /// Drops everything that is queued.
    pub fn lose(&self) {
        self.timeline.lose();
    }

    /// Creates a tensor of zeros. Its bytes are allocated on the timeline.
    ///
    /// # Errors
    /// A TypeError for a descriptor beyond the limits.
    pub fn create_tensor(&self, descriptor: Descriptor, done: Done) -> Result<Arc<Tensor>> {
        check("createTensor", &descriptor)?;
        let tensor = Arc::new(Tensor::new(descriptor));
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
        *tensor.lock() = Contents::Bytes(Arc::new(bytes));
        self.timeline.enqueue(|_| Ok(()), done);
        Ok(tensor)
    }

    /// Copies the bytes of `tensor` as they are when everything before is done.
    pub fn read(&self, tensor: &Arc<Tensor>, done: Done) -> Arc<Read> {
        let read = Arc::new(Read::default());
        let (tensor, target) = (tensor.clone(), read.clone());
        self.timeline.enqueue(
            move |_| {
                target.put(Buffer::copy_of(tensor.lock().bytes()?.bytes())?);
                Ok(())
            },
            done,
        );
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
        let (target, settings) = (compiled.clone(), self.settings);
        self.timeline.enqueue(
            move |env| {
                let plan = catch_unwind(AssertUnwindSafe(|| Plan::compile(graph, env, settings.passes, settings.plan)));
                let plan = plan.unwrap_or_else(|panic| Err(panicked(&*panic)));
                // Whatever goes wrong while a graph is compiled is an OperationError.
                let plan = plan.map_err(|error| Error::new(ErrorKind::Operation, format!("build: {error}")))?;
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
                let run = catch_unwind(AssertUnwindSafe(|| graph.run(env, &inputs, &outputs)));
                if let Err(error) = run.unwrap_or_else(|panic| Err(panicked(&*panic))) {
                    let error = Error::new(ErrorKind::Operation, format!("dispatch: {error}"));
                    for output in &outputs {
                        let mut contents = output.lock();
                        if !matches!(*contents, Contents::Released) {
                            *contents = Contents::Failed(error.clone());
                        }
                    }
                }
                Ok(())
            },
            Done::unobserved(),
        );
    }

    /// Frees what `graph` holds when everything before is done.
    pub fn release_graph(&self, graph: &Arc<CompiledGraph>) {
        let graph = graph.clone();
        self.timeline.enqueue_release(move || *graph.lock() = None);
    }
}

impl CompiledGraph {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Plan>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Bytes that the compiled graph holds; 0 while it is not built.
    pub fn bytes(&self) -> usize {
        self.lock().as_ref().map_or(0, Plan::bytes)
    }

    fn run(&self, env: &Env, inputs: &[Arc<Tensor>], outputs: &[Arc<Tensor>]) -> Result<()> {
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
        plan.run(env, &sources, &mut targets);
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

        // The error ends with the next write.
        context.write(&y, &bytes).unwrap();
        assert_eq!(floats(&context, &y).unwrap(), [1.0, -2.0]);
    }
}
