//! Sessions: models that are opened once and run with inputs of any sizes.
//!
//! A [`Session`] has a [`Signature`] with symbolic shapes. The feeds of a run determine all sizes; each set of sizes
//! has a [`Specialization`], which is compiled when it is first needed. Everything except the checks and copies of
//! feeds happens on the timeline of the context, in order with its other work. A run known to be quick may happen at
//! once, on the requesting thread.

#[cfg(test)]
mod attention_tests;
#[cfg(test)]
mod cache_tests;
mod control;
#[cfg(test)]
mod cut_tests;
mod deciding;
#[cfg(test)]
mod deciding_tests;
#[cfg(test)]
mod keep_last_tests;
mod known;
mod lists;
mod lookups;
mod memory;
#[cfg(test)]
mod memory_tests;
#[cfg(test)]
mod on_software_vulkan;
mod program;
mod progress;
mod release;
#[cfg(test)]
mod release_tests;
mod rounds;
#[cfg(test)]
mod rounds_tests;
pub mod signature;
#[cfg(test)]
mod size_tests;
pub mod specialization;
mod stage;
#[cfg(test)]
mod stage_tests;
mod template;
#[cfg(test)]
mod tests;
pub mod timing;
mod value;

pub use memory::MemoryUse;
pub use signature::{Shapes, Signature};
pub use specialization::{Port, Specialization};
pub use value::{Cache, Feed, Item, Offer, Output, Pool, Target};

use crate::description::text_of;
use crate::error::{Code, Error, Result};
use crate::ir::Builder;
use crate::memory::Buffer;
use crate::onnx::cuts::Rest;
use crate::onnx::deciding::{Tried, deciders, may_decide};
use crate::onnx::describe::output_shapes;
use crate::onnx::error::{listed, quoted};
use crate::onnx::graph::Node;
use crate::onnx::import::check;
use crate::onnx::model::ValueInfo;
use crate::onnx::run_texts::RunTexts;
use crate::onnx::sizes::Sizes;
use crate::onnx::stop::Stop;
use crate::onnx::tensor::ElementType;
use crate::onnx::{Model, Request};
use crate::runtime::{CompiledGraph, Context, Done, IDLE, Later, Recent, Site, Slot, Templates, Watch};
use crate::shape::Descriptor;
use deciding::Deciding;
use lookups::Checks;
use program::Program;
use release::{Kept, Usage, Use};
use serde_json::json;
use specialization::bind_constants;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use template::{Bindings, FreeSizes};
use timing::{Timing, Timings};

/// Options that are fixed for all runs of a session.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// Sizes of free dimensions by name.
    pub free_dimensions: BTreeMap<String, u32>,
    /// Whether names of dimensions are promises: with `true`, dimensions of one name must have the same size; with
    /// `false`, the lengths of caches need not add up, either.
    pub strict_dimensions: Option<bool>,
    /// Names of the values to compute; `None` for the outputs of the model.
    pub outputs: Option<Vec<String>>,
    /// Inputs that have the same value in every run.
    pub constants: Vec<Constant>,
    /// By output name, the number of last positions to compute along the second to last dimension; other outputs are
    /// computed whole.
    pub keep_last: BTreeMap<String, u32>,
    /// After how long without use the session rests, see [`Session::release`]; `None` for never.
    pub idle: Option<Duration>,
    /// Ends the opening, and what the session does, before it is done.
    pub stop: Stop,
}

/// The value of an input that is the same in every run.
#[derive(Clone, Debug)]
pub struct Constant {
    /// The name of the input.
    pub name: String,
    /// Its type and shape.
    pub descriptor: Descriptor,
    /// Its bytes.
    pub bytes: Arc<Buffer>,
}

impl Constant {
    /// The value of the input `name` of `model`. Without `shape`, it has the shape that the model declares.
    ///
    /// # Errors
    /// A TypeError if there is no such input, or the data do not match its type and shape.
    pub fn new(
        model: &Model,
        free_dimensions: &BTreeMap<String, u32>,
        name: String,
        shape: Option<Vec<u32>>,
        bytes: Buffer,
    ) -> Result<Constant> {
        let what = || format!("loadModel: constant {}", quoted(&name));
        let Some(input) = model.free_inputs().chain(model.optional_inputs()).find(|input| input.name == name) else {
            return Err(Error::coded(Code::UnknownFeed, format!("{} is not an input of the model", what())));
        };
        let mut sizes = Sizes::new(free_dimensions.clone());
        let shape = match shape {
            Some(shape) => sizes.bind(input, &shape).map(|()| shape),
            None => sizes.shape(input),
        };
        let shape = shape.map_err(|error| {
            let message = format!("{} has no valid shape, expected {{data, shape}}: {error}", what());
            Error::coded(Code::Shape, message)
        })?;
        let Some(dtype) = signature::data_type(input).filter(|_| !input.is_texts()) else {
            let message = format!("{} is of type {}, which WebNN does not have", what(), input.data_type);
            return Err(Error::coded(Code::Type, message));
        };
        let descriptor = Descriptor::new(dtype, shape);
        signature::check_data(what, bytes.len(), &descriptor)?;
        descriptor.check("the constant").map_err(|problem| {
            Error::coded(Code::Shape, format!("loadModel: constant {}: {problem}", quoted(&name)))
        })?;
        Ok(Constant { name, descriptor, bytes: Arc::new(bytes) })
    }
}

/// Copies the bytes of a feed.
pub type Copying = Box<dyn FnOnce() -> Result<Buffer> + Send>;

/// A run of a session that has not started.
pub struct SessionRun {
    session: Use,
    shapes: Shapes,
    feeds: Vec<Feed>,
    /// What makes feeds when the run starts, by index.
    later: Vec<(usize, Copying)>,
    targets: Vec<Target>,
    /// The texts that feeds and results are numbers of, if there are any.
    texts: Option<Arc<RunTexts>>,
}

impl SessionRun {
    /// Runs on the timeline. Outputs that are read are put into `values`, in the order of the outputs.
    pub fn enqueue(self, values: Arc<Slot<Vec<Option<Output>>>>, done: Done) {
        let context = self.session.context.clone();
        context.enqueue(move |site| self.compute(site, values), done.coded());
    }

    /// Like [`enqueue`](Self::enqueue); the JSON of [`Timings::json`] is put into `timings`.
    pub fn profile(self, values: Arc<Slot<Vec<Option<Output>>>>, timings: Arc<Slot<String>>, done: Done) {
        let context = self.session.context.clone();
        let work = move |site: &Site| {
            let all = RefCell::new(Timings::default());
            let watch = |graph: &CompiledGraph, start, times| {
                if let Some(description) = graph.description() {
                    all.borrow_mut().add(Timing { description, start, times });
                }
            };
            let later = self.compute(&site.watched(&watch), values)?;
            timings.put(all.take().json()?);
            Ok(later)
        };
        context.enqueue(work, done.coded());
    }

    /// Runs at once on this thread, if that hardly takes longer than passing the run to another thread and nothing is
    /// queued before it. Returns the outputs that are read, in the order of the outputs, or the unchanged run.
    ///
    /// `room` may provide memory for an output that the caller has [read](Session::note_read) before; it gets the index
    /// of the output and its size in bytes. If it breaks, the run does not happen.
    pub fn run_here(
        mut self,
        room: impl FnMut(usize, usize) -> ControlFlow<(), Option<Buffer>>,
    ) -> std::result::Result<Result<Vec<Option<Output>>>, SessionRun> {
        let session = self.session.clone();
        // Elsewhere, a graph may have locked a tensor that decides.
        let Some(deciding) = session.deciding.get() else { return Err(self) };
        if !deciding.reads_tensor(&self.feeds) && session.quick(&self.shapes, &self.feeds, &self.targets).is_none() {
            return Err(self);
        }
        // Work that was queued before may have freed the plan, or written to a feed.
        let turn = session.context.turn().zip(session.quick(&self.shapes, &self.feeds, &self.targets));
        let Some((turn, specialization)) = turn else { return Err(self) };
        if self.place_results(&specialization, room).is_break() {
            return Err(self);
        }
        drop(specialization);
        let values = Arc::new(Slot::default());
        let ran = turn.run(|site| self.compute(site, values.clone()));
        Ok(ran.map(|_| values.take().unwrap_or_default()).map_err(Error::with_code))
    }

    /// Has outputs that were read before written into memory from `room`. If it breaks, none is.
    fn place_results(
        &mut self,
        specialization: &Specialization,
        mut room: impl FnMut(usize, usize) -> ControlFlow<(), Option<Buffer>>,
    ) -> ControlFlow<()> {
        let mut given = Vec::new();
        for (at, bytes) in specialization.written() {
            if self.session.is_read_by_caller(at, &self.targets[at]) {
                given.extend(room(at, bytes)?.map(|room| (at, room)));
            }
        }
        for (at, room) in given {
            self.targets[at] = Target::Into(Arc::new(Slot::of(room)));
        }
        ControlFlow::Continue(())
    }

    /// Replaces the feed at index `at` by bytes that `copy` returns before the run starts, on its thread.
    pub fn feed_later(&mut self, at: usize, copy: Copying) {
        self.feeds[at] = Feed::Bytes(Arc::default());
        self.later.push((at, copy));
    }

    /// The texts that feeds and results are numbers of, if there are any.
    pub fn texts(&self) -> Option<Arc<RunTexts>> {
        self.texts.clone()
    }

    /// The same run, whose feeds and results have the numbers of `texts`.
    pub fn with_texts(self, texts: Option<Arc<RunTexts>>) -> SessionRun {
        SessionRun { texts, ..self }
    }

    /// Replaces the feed at index `at`.
    pub fn feed(&mut self, at: usize, feed: Feed) {
        self.feeds[at] = feed;
    }

    fn compute(self, site: &Site, values: Arc<Slot<Vec<Option<Output>>>>) -> Result<Option<Later>> {
        let SessionRun { session, shapes, mut feeds, later, targets, texts } = self;
        for (at, copy) in later {
            feeds[at] = Feed::Bytes(Arc::new(copy()?));
        }
        session.checks.check(site, &session.signature, &shapes, &feeds)?;
        let specialization = session.specialize_for(site, &shapes, &feeds)?;
        if specialization.rest.is_none() {
            let later = specialization.run(site, feeds, targets, &session, values)?;
            return Ok(later.map(|later| until_ended(later, session)));
        }
        values.put(session.run_cut(site, &specialization, feeds, &targets, texts)?);
        Ok(None)
    }
}

/// `later`, which uses the session until it has ended.
fn until_ended(mut later: Later, session: Use) -> Later {
    let mut session = Some(session);
    Box::new(move |patience| {
        let ended = later(patience)?;
        session.take();
        Some(ended)
    })
}

/// Bytes from which memory is freed in the background: fewer are freed faster than a thread is woken, which would also keep the
/// next run from ending within its call.
const MANY_BYTES: usize = 512 << 10;

/// A model that is ready to run.
pub struct Session {
    /// `None` once the session is destroyed.
    model: Mutex<Option<Arc<Model>>>,
    context: Arc<Context>,
    options: SessionOptions,
    signature: Signature,
    /// Checks of feeds beyond types and shapes.
    checks: Checks,
    /// The inputs whose elements decide.
    deciding: OnceLock<Deciding>,
    /// The free sizes of inputs of any shape, if dimensions with the same name have the same size.
    free: Option<FreeSizes>,
    templates: Templates<Bindings>,
    kept: Recent<Arc<Specialization>>,
    /// The stages of a model that is cut.
    program: Mutex<Option<Arc<Program>>>,
    /// Whether nobody waits for results any more.
    stop: Stop,
    pool: Pool,
    /// The time of the pool's last use is watched.
    pool_watch: Watch,
    /// When the session and its forms were used.
    usage: Arc<Usage>,
    /// Whether the session is among the forms there.
    is_form: AtomicBool,
    /// Whether nothing was used since the session was released: memory is freed rather than kept for other runs.
    is_resting: AtomicBool,
    /// What was kept when the session was last released.
    kept_weights: Mutex<Kept>,
    /// Whether nodes of the model run graphs.
    has_graphs: bool,
    /// For each output, whether its caller has read one that was returned unread.
    is_read: Box<[AtomicBool]>,
    /// Whether the session counts the bytes that it was opened with: a session of [`with_inputs`](Self::with_inputs)
    /// shares them with another one, which does.
    counts_opened: bool,
    /// Size of the plans of stages, in bytes.
    staged: AtomicUsize,
    /// Size of the plans and of what the session was opened with, if it counts that, in bytes.
    bytes: AtomicUsize,
    observer: Observer,
}

/// A builder, and a request for trials in it of a model with these options, without sizes.
fn trial(context: &Context, options: &SessionOptions) -> (Builder, Request) {
    let mut builder = context.builder();
    let request = Request {
        free_dimensions: options.free_dimensions.clone(),
        bindings: bind_constants(&mut builder, options),
        outputs: options.outputs.clone(),
        may_cut: true,
        stop: options.stop.clone(),
        ..Request::default()
    };
    (builder, request)
}

/// Called with the approximate size of a session in bytes, whenever it changes.
pub type Observer = Box<dyn Fn(usize) + Send + Sync>;

impl Session {
    /// Opens a session of `model` on `context`, which must be open.
    ///
    /// # Errors
    /// An OnnxError for a model that no sizes make valid, a TypeError for options that do not match it.
    pub fn open(mut model: Arc<Model>, context: Arc<Context>, mut options: SessionOptions) -> Result<Session> {
        let is_default = |constant: &Constant| model.optional_inputs().any(|input| input.name == constant.name);
        if options.constants.iter().any(is_default) {
            model = Arc::new(model.requiring(options.constants.iter().map(|constant| &constant.name)));
        }
        let mut signature = Signature::new(&model, &options)?;
        let (mut trial, request) = trial(&context, &options);
        let Tried { deciders, is_possible } = deciders(&model, &mut trial, &request);
        // Others compile, which checks more, before they are used.
        let is_checked = is_possible || signature.fixed().is_some() && !may_decide(&model, &request);
        if !is_checked {
            check(&model, &mut trial, &request).map_err(|error| error.into_error())?;
        }
        if signature.outputs.iter().any(|output| output.shape.is_none())
            && let Some(shapes) = output_shapes(&model, &mut trial, &Request { unrolls_all: true, ..request.clone() })
        {
            let outputs = std::mem::take(&mut signature.outputs).into_iter().zip(shapes);
            signature.outputs = outputs.map(|(output, shape)| output.or_shape(shape)).collect();
        }
        if !options.keep_last.is_empty() {
            signature.keep_last(&options.keep_last)?;
            let (slicing, names) = model.keeping_last(&options.keep_last).map_err(|error| error.into_error())?;
            let name = |output: &ValueInfo| names.get(&output.name).unwrap_or(&output.name).clone();
            options.outputs = Some(signature.outputs.iter().map(name).collect());
            model = Arc::new(slicing);
        }
        let deciding = Deciding::of(deciders, &signature).into();
        Ok(Session { deciding, ..Session::of(model, context, options, signature)? })
    }

    /// The inputs that decide. Finding them takes imports: not on a thread that waits.
    fn deciding(&self) -> &Deciding {
        self.deciding.get_or_init(|| {
            // Without a model, nothing runs any more.
            let Ok(model) = self.model() else { return Deciding::default() };
            let (mut trial, request) = trial(&self.context, &self.options);
            Deciding::of(deciders(&model, &mut trial, &request).deciders, &self.signature)
        })
    }

    /// A session of the same model in which a caller also feeds the optional inputs `names`. Its bytes are those of its
    /// plans and its pool.
    ///
    /// # Errors
    /// An InvalidStateError if this session is destroyed, an OnnxError for a malformed node.
    pub fn with_inputs(&self, names: &[String]) -> Result<Session> {
        let model = Arc::new(self.model()?.requiring(names));
        let mut signature = Signature::new(&model, &self.options)?;
        signature.outputs.clone_from(&self.signature.outputs);
        let options = SessionOptions { stop: Stop::default(), ..self.options.clone() };
        let session = Session::of(model, self.context.clone(), options, signature)?;
        Ok(Session { counts_opened: false, usage: self.usage.clone(), ..session })
    }

    fn of(model: Arc<Model>, context: Arc<Context>, options: SessionOptions, signature: Signature) -> Result<Session> {
        let checks = Checks::of(&model, &signature, &options)?;
        let (templates, kept, program, staged, bytes) = Default::default();
        let (is_form, is_resting, kept_weights) = Default::default();
        let usage = Usage::new(options.idle);
        let pool = Pool::new(signature.inputs.len() + signature.outputs.len());
        let is_read = signature.outputs.iter().map(|_| AtomicBool::new(false)).collect();
        let runs_graphs = |node: Node| node.operator().function.is_some() || node.graphs().next().is_some();
        let has_graphs = model.arena.nodes().any(runs_graphs);
        let model = Mutex::new(Some(model));
        let free = FreeSizes::of_names(&signature.inputs, &options.free_dimensions);
        Ok(Session {
            model,
            context,
            stop: options.stop.clone(),
            options,
            signature,
            checks,
            deciding: OnceLock::new(),
            free,
            templates,
            kept,
            program,
            pool,
            pool_watch: Watch::default(),
            usage,
            is_form,
            is_resting,
            kept_weights,
            has_graphs,
            is_read,
            counts_opened: true,
            staged,
            bytes,
            observer: Box::new(|_| ()),
        })
    }

    /// Tells `observer` the size of the session, now and whenever it changes.
    pub fn observed(self, observer: Observer) -> Session {
        let session = Session { observer, ..self };
        session.weigh();
        session
    }

    /// # Errors
    /// An InvalidStateError if the session is destroyed.
    fn model(&self) -> Result<Arc<Model>> {
        let model = self.model.lock().unwrap_or_else(PoisonError::into_inner).clone();
        model.ok_or_else(|| Error::coded(Code::Destroyed, "the model is destroyed"))
    }

    /// The inputs and outputs.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The texts of a new run, if inputs or outputs are texts.
    ///
    /// # Errors
    /// An InvalidStateError if the session is destroyed.
    pub fn texts(&self) -> Result<Option<Arc<RunTexts>>> {
        let Signature { inputs, outputs, .. } = &self.signature;
        let has_texts = inputs.iter().chain(outputs).any(ValueInfo::has_texts);
        has_texts.then(|| Ok(Arc::new(RunTexts::new(self.model()?)))).transpose()
    }

    /// Memory for feeds, which callers of [`run`](Self::run) fill, and for values passed to the caller.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Notes that the caller reads the output at index `at`, which it got unread: it may want the next ones in its own
    /// memory, see [`SessionRun::run_here`]. Types that callers see as others are converted when they are read.
    pub fn note_read(&self, at: usize) {
        let is_same = |element: ElementType| element.carried().is_some_and(|dtype| dtype.bits() == element.bits());
        let is_seen = |info: &ValueInfo| info.element.is_some_and(is_same);
        if self.signature.outputs.get(at).is_some_and(is_seen) {
            self.is_read[at].store(true, Ordering::Relaxed);
        }
    }

    /// Whether the caller reads the output at index `at`, as far as is known, if it goes to `target`.
    fn is_read_by_caller(&self, at: usize, target: &Target) -> bool {
        matches!(target, Target::Read) && self.is_read[at].load(Ordering::Relaxed)
    }

    fn weigh(&self) {
        let plans = specialization::bytes_of(&self.kept) + self.staged.load(Ordering::Relaxed);
        // Plans share the weights that were kept.
        let plans = plans.max(self.kept_weights.lock().unwrap_or_else(PoisonError::into_inner).bytes());
        let model = self.model.lock().unwrap_or_else(PoisonError::into_inner).clone().filter(|_| self.counts_opened);
        let constants = || self.options.constants.iter().map(|constant| constant.bytes.len()).sum::<usize>();
        let opened = model.map_or(0, |model| model.files.memory_bytes() + constants());
        self.bytes.store(plans + opened, Ordering::Relaxed);
        self.save();
        self.tell();
    }

    /// The plans of a stage take `now` bytes, and took `before`.
    fn weigh_stage(&self, now: usize, before: usize) {
        // Wraps.
        self.staged.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        self.weigh();
    }

    /// Approximate size of the session in bytes: its plans, its pool, and what it was opened with, if it counts that.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) + self.pool.bytes()
    }

    fn tell(&self) {
        (self.observer)(self.bytes());
    }

    /// Checks, between the stages and rounds of a run, that the run may go on.
    ///
    /// # Errors
    /// An InvalidStateError if the session is destroyed or its context lost.
    fn check_goes_on(&self) -> Result<()> {
        self.stop.check().map_err(|error| error.into_error())?;
        self.context.check_alive()
    }

    /// Compiles the session as its first work, if the shapes of its inputs are known and their elements decide nothing.
    pub fn prepare(self: &Arc<Self>, done: Done) {
        match self.signature.fixed().filter(|_| self.deciding().names().next().is_none()).cloned() {
            None => done.finish(Ok(())),
            Some(shapes) => {
                let session = self.in_use();
                self.context.enqueue(move |site| session.specialize(site, &shapes, true).map(|_| None), done.coded());
            }
        }
    }

    /// A run of the session with feeds of these shapes, as returned by [`Signature::shapes_of_feeds`]. All tensors must
    /// be distinct, and belong to the context of the session.
    pub fn run(self: &Arc<Self>, shapes: Shapes, feeds: Vec<Feed>, targets: Vec<Target>) -> SessionRun {
        SessionRun { session: self.in_use(), shapes, feeds, later: Vec::new(), targets, texts: None }
    }

    /// Compiles the session for these input shapes, and puts the result and its JSON into `made`.
    pub fn compile(self: &Arc<Self>, shapes: Shapes, made: Arc<Slot<(Arc<Specialization>, String)>>, done: Done) {
        let session = self.in_use();
        self.context.enqueue(
            move |site| {
                let specialization = session.specialize(site, &shapes, false)?;
                if specialization.rest.is_some() {
                    return Err(session.no_single_graph());
                }
                let json = text_of("compile", &specialization.json())?;
                made.put((specialization, json));
                Ok(None)
            },
            done.coded(),
        );
    }

    /// The error of a model without a single graph for all elements of its inputs.
    fn no_single_graph(&self) -> Error {
        let (data, hint) = match self.deciding().names().next() {
            None => ("data".to_string(), ""),
            Some(_) => (listed(self.deciding().names()), "; the option constants of loadModel() fixes such inputs"),
        };
        let kernels = match self.context.has_extensions() {
            true => "",
            false => ", or operators have no kernels for this device",
        };
        let message = format!(
            "compile: sizes or branches of the model depend on {data}{kernels}, so there is no single graph: run() runs \
             it, describe() shows its first stage{hint}"
        );
        Error::coded(Code::NotSupported, message)
    }

    /// Describes the compiled session for these input shapes: puts the JSON of an `OnnxDescription` of `onnx.d.ts` into
    /// `made`.
    pub fn describe(self: &Arc<Self>, shapes: Shapes, made: Arc<Slot<String>>, done: Done) {
        let session = self.in_use();
        self.context.enqueue(
            move |site| {
                let specialization = session.specialize(site, &shapes, true)?;
                let graph = specialization.graph().and_then(|graph| graph.description());
                let rest = specialization.rest.as_ref();
                let cuts = rest.map_or(Vec::new(), Rest::cuts);
                let graph = graph.map(|graph| graph.json());
                let json = json!({ "graph": graph, "cuts": cuts, "nodesLeft": rest.map_or(0, |rest| rest.remaining) });
                made.put(text_of("describe", &json)?);
                Ok(None)
            },
            done.coded(),
        );
    }

    /// Keeps `bytes`, which must be unused, for other runs.
    pub fn recycle(self: &Arc<Self>, bytes: Buffer) {
        // Of a run that has failed.
        if bytes.is_lent() {
            return;
        }
        let is_destroyed = self.stop.is_set();
        let is_unused = is_destroyed || self.is_resting.load(Ordering::Relaxed);
        let excess = if is_unused { vec![bytes] } else { self.pool.give(bytes) };
        if !self.pool.is_small() {
            self.pool_watch.begin(self, Instant::now() + IDLE);
        }
        if excess.iter().map(Buffer::len).sum::<usize>() >= MANY_BYTES {
            self.context.enqueue_release(move || drop(excess));
        }
        if !is_destroyed {
            self.tell();
        }
    }

    /// Like [`recycle`](Self::recycle), if nobody else holds the bytes.
    pub fn recycle_shared(self: &Arc<Self>, bytes: Arc<Buffer>) {
        Arc::into_inner(bytes).into_iter().for_each(|bytes| self.recycle(bytes));
    }

    /// Frees the memory of the session after all previous work; it counts as nothing from now on.
    pub fn destroy(self: &Arc<Self>) {
        self.stop.soon();
        (self.observer)(0);
        let session = self.clone();
        self.context.enqueue_release(move || {
            drop(session.model.lock().unwrap_or_else(PoisonError::into_inner).take());
            session.kept.clear();
            session.templates.clear();
            *session.kept_weights.lock().unwrap_or_else(PoisonError::into_inner) = Kept::default();
            drop(session.program.lock().unwrap_or_else(PoisonError::into_inner).take());
            session.staged.store(0, Ordering::Relaxed);
            session.pool.clear();
            session.weigh();
        });
    }
}
