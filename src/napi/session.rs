//! Sessions: models that are opened in the background and run in one call.

use super::completion::{Collect, Environment};
use super::convert::{data_type_index, from_napi, from_value, invalid_state, thrown, type_error};
use super::handle::{Handle, Owner, Weight, element_handle, external_of};
use super::options::{OpenOptions, checked_sizes};
use super::view::View;
use super::warn::Warn;
use super::{ContextHandle, GraphHandle, Result, tensor_handle};
use crate::error::{Code, Error, Unsupported};
use crate::memory::{Buffer, bytes_of};
use crate::onnx::describe::interface_json;
use crate::onnx::error::{quoted, shortened};
use crate::onnx::file::{ExternalData, FileSource};
use crate::onnx::{Model, ModelError};
use crate::runtime::{Done, Slot, Tensor, spawn};
use crate::session::signature::checked_size;
use crate::session::timing::{Timing, timings_json};
use crate::session::{
    Cache, Feed, Offer, Port, Session, SessionOptions, SessionRun, Shapes, Specialization, Target, Value,
};
use crate::shape::Descriptor;
use bytes::Bytes;
use napi::bindgen_prelude::{Array, Either, External, FromNapiValue, JsObjectValue, ToNapiValue, Unknown};
use napi::{Env, ValueType, sys};
use napi_derive::napi;
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A session of a context.
pub struct SessionHandle {
    session: Arc<Session>,
    owner: Arc<Owner>,
    weight: Weight,
    warn: Arc<Warn>,
}

impl SessionHandle {
    fn new(env: &Env, session: Arc<Session>, owner: Arc<Owner>, warn: Arc<Warn>) -> SessionHandle {
        // SAFETY: the weight is part of a handle that goes to JavaScript in an `External`.
        let weight = unsafe { Weight::new(env, session.bytes()) };
        SessionHandle { session, owner, weight, warn }
    }

    /// Warns if dimensions of one name have several sizes in these shapes.
    ///
    /// # Errors
    /// The exception of the function that takes the warning.
    fn watch(&self, env: &Env, operation: &str, shapes: &Shapes) -> Result<()> {
        self.warn.once(env, || {
            let found = self.session.signature().contradiction(shapes)?;
            Some(format!(
                "{operation}: {found}. The model runs all the same, as with onnxruntime. strictDimensions: true refuses \
                 such sizes, false ends this warning"
            ))
        })
    }
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        // In the background: freeing a large model takes long.
        self.session.release();
    }
}

/// Every error code, the exception that carries it and its meaning, as JSON.
#[napi(catch_unwind)]
pub fn error_codes() -> String {
    let row = |code: &Code| json!({ "code": code.name(), "exception": code.kind().name(), "meaning": code.meaning() });
    serde_json::Value::from_iter(Code::ALL.iter().map(row)).to_string()
}

/// The file at a path, or bytes, which are copied now.
fn source_of(source: Either<String, View>) -> Result<FileSource> {
    Ok(match source {
        Either::A(path) => FileSource::Path(path.into()),
        Either::B(bytes) => {
            let buffer = bytes.len().and_then(Buffer::streamed);
            let buffer = buffer.and_then(|buffer| bytes.copy_into(buffer)).map_err(coded)?;
            FileSource::Bytes(Bytes::from_owner(OwnedBytes(buffer)))
        }
    })
}

/// A replacement for a file that a model refers to.
#[napi(object, object_to_js = false)]
pub struct ExternalFile<'a> {
    /// The name of the file in the model.
    pub location: String,
    /// The path of a file, or bytes.
    pub source: Either<String, View<'a>>,
}

fn external_data(files: Vec<ExternalFile>) -> Result<ExternalData> {
    files.into_iter().map(|file| Ok((file.location, source_of(file.source)?))).collect()
}

/// A buffer that owns bytes.
struct OwnedBytes(Buffer);

impl AsRef<[u8]> for OwnedBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Converts an error whose code JavaScript shows.
pub fn coded(error: Error) -> napi::Error<String> {
    thrown(error.with_code())
}

/// Runs `work` on a background thread, and passes its result and the waiting request to `then`.
fn in_background<T: 'static>(
    done: Done,
    work: impl FnOnce() -> crate::error::Result<T> + Send + 'static,
    then: impl FnOnce(T, Done) + Send + 'static,
) {
    let done = done.coded();
    spawn(work, |made| match made {
        Ok(made) => then(made, done),
        Err(error) => done.finish(Err(error)),
    });
}

/// A model that can be used once: its memory is not left to the garbage collector.
pub type ModelHandle = Slot<Model>;

fn held(model: Model) -> ModelHandle {
    let slot = Slot::default();
    slot.put(model);
    slot
}

/// Takes the model of a handle.
///
/// # Errors
/// An InvalidStateError if it was taken before.
pub fn taken(model: &ModelHandle) -> Result<Model> {
    model.take().ok_or_else(|| invalid_state("the model was used already"))
}

/// Opens a model in the background. Returns a handle to it, and its inputs, outputs and metadata as JSON.
#[napi(catch_unwind)]
pub fn open_model(
    env: Env,
    environment: &External<Arc<Environment>>,
    id: u32,
    source: Either<String, View>,
    external_files: Vec<ExternalFile>,
) -> Result<()> {
    let (source, external_data) = (source_of(source)?, external_data(external_files)?);
    let slot = Arc::new(Slot::<(Model, String)>::default());
    let made = slot.clone();
    let collect: Collect = Box::new(move |env| {
        let Some((model, json)) = made.take() else { return Ok(Vec::new()) };
        Ok(vec![value(env, External::new(held(model)))?, value(env, json)?])
    });
    let work = move || {
        let model = Model::open(source, external_data).map_err(|error| error.into_error())?;
        let json = interface_json(&model).map_err(|error| error.into_error())?;
        slot.put((model, json));
        Ok(())
    };
    in_background(environment.deliver(&env, id, collect), work, |(), done| done.finish(Ok(())));
    Ok(())
}

/// Opens the model at a path, or in bytes, synchronously.
#[napi(catch_unwind)]
pub fn read_model(
    source: Either<String, View>,
    external_files: Vec<ExternalFile>,
) -> Result<Either<External<ModelHandle>, Refused>> {
    let model = Model::open(source_of(source)?, external_data(external_files)?);
    Ok(outcome(model.map(|model| External::new(held(model)))))
}

/// Why a model was refused.
#[napi(object, object_from_js = false)]
pub struct Refused {
    /// One of [`error_codes`].
    pub code: String,
    /// The whole message.
    pub message: String,
    /// The unsupported nodes.
    pub unsupported: Vec<UnsupportedNode>,
}

/// An unsupported node.
#[napi(object, object_from_js = false)]
pub struct UnsupportedNode {
    /// The node's name, or that of its first output.
    pub name: String,
    /// `op_type`.
    pub operator: String,
    /// Empty for `ai.onnx`.
    pub domain: String,
    /// The version of the domain.
    pub opset: i64,
    /// Why it is not supported.
    pub reason: String,
}

impl From<Unsupported> for UnsupportedNode {
    fn from(node: Unsupported) -> UnsupportedNode {
        let Unsupported { name, operator, domain, opset, reason, .. } = node;
        UnsupportedNode { name, operator, domain, opset, reason }
    }
}

/// Converts a result; an error keeps its data.
pub fn outcome<T>(result: crate::onnx::Result<T>) -> Either<T, Refused> {
    match result {
        Ok(value) => Either::A(value),
        Err(ModelError { code, message, unsupported }) => {
            let unsupported = unsupported.into_iter().map(UnsupportedNode::from).collect();
            Either::B(Refused { code: code.name().to_string(), message, unsupported })
        }
    }
}

/// Opens a session of a model in the background, and compiles it if the shapes of its inputs are known. Returns a
/// handle to it, and its signature as JSON.
#[napi(catch_unwind)]
pub fn open_session(
    env: Env,
    context: &External<ContextHandle>,
    model: &External<ModelHandle>,
    id: u32,
    options: OpenOptions,
) -> Result<()> {
    let OpenOptions { dimensions, strict_dimensions, warn, outputs, constants, keep_last } = options;
    let free_dimensions = dimensions.checked("loadModel")?;
    let model = taken(model)?;
    let constants = constants.into_iter().map(|constant| constant.constant(&model, &free_dimensions));
    let constants = constants.collect::<Result<_>>()?;
    let keep_last = keep_last.checked()?;
    let options = SessionOptions { free_dimensions, strict_dimensions, outputs, constants, keep_last };
    let warn = Warn::of(warn)?;
    let slot = Arc::new(Slot::<Arc<Session>>::default());
    let (made, owner) = (slot.clone(), Arc::clone(context));
    let collect: Collect = Box::new(move |env| {
        let Some(session) = made.take() else { return Ok(Vec::new()) };
        let json = serde_json::to_string(session.signature()).expect("keys are strings");
        let handle = SessionHandle::new(env, session, owner, warn);
        Ok(vec![value(env, External::new(handle))?, value(env, json)?])
    });
    let done = context.environment.deliver(&env, id, collect);
    let context = context.context.clone();
    in_background(
        done,
        move || Session::open(Arc::new(model), context, options).map(Arc::new),
        move |session, done| {
            slot.put(session.clone());
            session.prepare(done);
        },
    );
    Ok(())
}

/// A session of the same model in which the optional inputs `names` are fed: its handle, and its signature as JSON.
#[napi(catch_unwind)]
pub fn session_with_inputs(env: Env, handle: &External<SessionHandle>, names: Vec<String>) -> Result<OpenedSession> {
    let SessionHandle { session, owner, warn, .. } = &**handle;
    let session = Arc::new(session.with_inputs(&names).map_err(coded)?);
    let signature = serde_json::to_string(session.signature()).expect("keys are strings");
    let handle = External::new(SessionHandle::new(&env, session, owner.clone(), warn.clone()));
    Ok(OpenedSession { handle, signature })
}

/// A session, and its signature as JSON.
#[napi(object, object_from_js = false)]
pub struct OpenedSession {
    /// The handle.
    pub handle: External<SessionHandle>,
    /// The JSON.
    pub signature: String,
}

/// Rejects names of feeds or fetches that do not match the session.
#[napi(catch_unwind)]
pub fn check_names(session: &External<SessionHandle>, feeds: Vec<String>, fetches: Vec<String>) -> Result<()> {
    let signature = session.session.signature();
    signature.check_feeds(&feeds).and_then(|()| signature.check_fetches(&fetches)).map_err(thrown)
}

/// Results below this size in bytes are copied at once: creating an object that holds them would take as long.
const HELD: usize = 1 << 14;

/// The contents of an unread result.
#[derive(Clone)]
enum Contents {
    Bytes(Arc<Buffer>),
    Cache(Cache),
}

impl Contents {
    fn len(&self) -> usize {
        match self {
            Contents::Bytes(bytes) => bytes.len(),
            Contents::Cache(cache) => cache.rows.len(),
        }
    }
}

/// An unread result.
struct HeldValue {
    contents: Contents,
    /// Whether it was fed to a run: a cache that grows from it takes over its memory and its weight.
    was_fed: bool,
}

/// Unread results that share one handle: all caches of a run, since there are many, or any other single result.
pub struct HeldValues {
    /// `None` for results that were read.
    values: RefCell<Vec<Option<HeldValue>>>,
    session: Arc<Session>,
    environment: Arc<Environment>,
    weight: Weight,
}

impl HeldValues {
    fn new(env: &Env, owner: &Arc<Owner>, session: &Arc<Session>, all: Vec<Contents>) -> HeldValues {
        let values = all.into_iter().map(|contents| Some(HeldValue { contents, was_fed: false })).collect();
        let (values, session, environment) = (RefCell::new(values), session.clone(), owner.environment.clone());
        // SAFETY: it goes to JavaScript in an `External`.
        let weight = unsafe { Weight::new(env, 0) };
        let held = HeldValues { values, session, environment, weight };
        held.weight.take(held.bytes(), &owner.environment.passing);
        held
    }

    /// The bytes that no other result shares.
    fn bytes(&self) -> usize {
        let values = self.values.borrow();
        values.iter().flatten().filter(|value| !value.was_fed).map(|value| value.contents.len()).sum()
    }

    /// # Errors
    /// An InvalidStateError if the result at `place` was read.
    fn contents(&self, place: usize) -> Result<Contents> {
        let values = self.values.borrow();
        let value = values.get(place).and_then(Option::as_ref);
        value.map(|value| value.contents.clone()).ok_or_else(|| invalid_state("the result was read already"))
    }

    /// Marks the result at `place` as fed to a run, which may grow it in place.
    fn feed(&self, place: usize) {
        if let Some(Some(value)) = self.values.borrow_mut().get_mut(place) {
            value.was_fed |= matches!(value.contents, Contents::Cache(_));
        }
    }

    /// Frees the result at `place`, and updates the reported weight.
    fn release(&self, place: usize) {
        self.recycle(place);
        self.weight.set(self.bytes());
    }

    /// Passes the bytes of the result at `place` on to other runs once they are unused.
    fn recycle(&self, place: usize) {
        let value = self.values.borrow_mut().get_mut(place).and_then(Option::take);
        if let Some(HeldValue { contents: Contents::Bytes(bytes), .. }) = value {
            self.session.recycle_shared(bytes);
        }
    }
}

impl Drop for HeldValues {
    fn drop(&mut self) {
        let count = self.values.borrow().len();
        (0..count).for_each(|place| self.recycle(place));
    }
}

/// Returns an ArrayBuffer with a copy of the result at `place`, which is then freed; null if memory runs out.
#[napi(catch_unwind)]
pub fn read_value<'a>(env: &'a Env, held: &External<HeldValues>, place: u32) -> Result<Unknown<'a>> {
    let bytes = match held.contents(place as usize)? {
        Contents::Bytes(bytes) => bytes,
        Contents::Cache(cache) => Arc::new(cache.to_dense().map_err(coded)?),
    };
    let buffer = held.environment.array_buffer(env, bytes.bytes()).map_err(from_napi)?;
    // SAFETY: the value was just created, on this thread.
    let buffer = unsafe { Unknown::from_napi_value(env.raw(), buffer) }.map_err(from_napi)?;
    drop(bytes);
    if buffer.get_type().map_err(from_napi)? != ValueType::Null {
        held.release(place as usize);
    }
    Ok(buffer)
}

/// Frees the result at `place`, whose data nobody wants.
#[napi(catch_unwind)]
pub fn release_value(held: &External<HeldValues>, place: u32) {
    held.release(place as usize);
}

/// A feed whose data are not copied yet.
enum Given<'a> {
    Data { view: View<'static>, bytes: usize },
    Held { contents: Contents, by: &'a HeldValues, place: usize },
    Tensor(Arc<Tensor>),
}

impl<'a> Given<'a> {
    /// Converts `feed`; `place` is the index of a result among those that share a handle.
    fn of(feed: &Unknown<'a>, place: usize, owner: &Arc<Owner>) -> Result<Given<'a>> {
        if let Some(by) = external_of::<HeldValues>(feed) {
            return Ok(Given::Held { contents: by.contents(place)?, by, place });
        }
        if let Some(handle) = element_handle::<Tensor>(feed, owner) {
            return Ok(Given::Tensor(handle.shared().clone()));
        }
        let view: View = from_value(feed)?;
        let bytes = view.len().map_err(thrown)?;
        Ok(Given::Data { view, bytes })
    }

    fn offer(&self, shape: Option<Vec<u32>>) -> Offer<'_> {
        match self {
            Given::Data { bytes, .. } => Offer::Data { bytes: *bytes, shape },
            Given::Held { contents, .. } => Offer::Data { bytes: contents.len(), shape },
            Given::Tensor(tensor) => Offer::Tensor(tensor),
        }
    }
}

/// Marks held results as fed. The caches that grow from them take over their weight.
fn feed_held(given: &[Given]) {
    let held = || {
        given
            .iter()
            .filter_map(|given| if let Given::Held { by, place, .. } = *given { Some((by, place)) } else { None })
    };
    held().for_each(|(by, place)| by.feed(place));
    let mut last: *const HeldValues = std::ptr::null();
    for (by, _) in held() {
        if !std::ptr::eq(std::mem::replace(&mut last, by), by) {
            by.weight.pass(by.bytes(), &by.environment.passing);
        }
    }
}

/// Decodes the next feed from `numbers`: its index among the results that share a handle, and its shape as the number
/// of dimensions and their sizes, or -1 without a shape.
fn next_shape(
    numbers: &mut std::slice::Iter<f64>,
    what: impl Fn() -> String,
) -> Result<Option<(usize, Option<Vec<u32>>)>> {
    let (Some(&place), Some(&rank)) = (numbers.next(), numbers.next()) else { return Ok(None) };
    if rank < 0.0 {
        return Ok(Some((place as usize, None)));
    }
    let Some((sizes, rest)) = numbers.as_slice().split_at_checked(rank as usize) else { return Ok(None) };
    *numbers = rest.iter();
    Ok(Some((place as usize, Some(checked_sizes(sizes, what)?))))
}

fn target(fetch: &Unknown, owner: &Arc<Owner>) -> Result<Target> {
    if let Some(handle) = element_handle::<Tensor>(fetch, owner) {
        return Ok(Target::Tensor(handle.shared().clone()));
    }
    Ok(match fetch.get_type().map_err(from_napi)? {
        ValueType::Null => Target::Unread,
        ValueType::Undefined => Target::Read,
        ValueType::Boolean => Target::New,
        _ => return Err(type_error("a fetch is not a tensor of the session's context")),
    })
}

/// Prepares a run of a session. `feeds` has, for each input, a view of the data, [`HeldValues`], or a tensor; `shapes`
/// has the numbers of [`next_shape`]. `fetches` has, for each output, a tensor, null if it is not read, true for a new
/// tensor, or undefined.
fn run_of(
    env: &Env,
    handle: &SessionHandle,
    feeds: &Array,
    shapes: &[f64],
    fetches: Option<&Array>,
) -> Result<SessionRun> {
    let SessionHandle { session, owner, weight, .. } = handle;
    let signature = session.signature();
    let (inputs, outputs) = (&signature.inputs, &signature.outputs);
    let wrong = || type_error("the feeds and fetches do not match the session");
    if feeds.len() as usize != inputs.len() || fetches.is_some_and(|all| all.len() as usize != outputs.len()) {
        return Err(wrong());
    }
    let element = |array: &Array, at: usize| array.get_element::<Unknown>(at as u32).map_err(from_napi);
    let (mut given, mut given_shapes) = (Vec::with_capacity(inputs.len()), Vec::with_capacity(inputs.len()));
    let mut numbers = shapes.iter();
    for (at, input) in inputs.iter().enumerate() {
        let shape = next_shape(&mut numbers, || format!("run: feed {}", quoted(&input.name)))?;
        let (place, shape) = shape.ok_or_else(wrong)?;
        given.push(Given::of(&element(feeds, at)?, place, owner)?);
        given_shapes.push(shape);
    }
    let targets: Vec<Target> = match fetches {
        None => vec![Target::Read; outputs.len()],
        Some(all) => (0..outputs.len()).map(|at| target(&element(all, at)?, owner)).collect::<Result<_>>()?,
    };
    require_distinct(&given, &targets)?;
    let offers: Vec<Offer> = given.iter().zip(given_shapes).map(|(given, shape)| given.offer(shape)).collect();
    let shapes = signature.shapes_of_feeds(&offers).map_err(coded)?;
    drop(offers);
    feed_held(&given);
    let feeds = given.into_iter().zip(shapes.iter()).map(|(given, shape)| {
        Ok(match given {
            Given::Tensor(tensor) => Feed::Tensor(tensor),
            Given::Held { contents: Contents::Bytes(bytes), .. } => Feed::Bytes(bytes),
            Given::Held { contents: Contents::Cache(cache), .. } => {
                match shape.iter().copied().eq(cache.descriptor.shape.iter().map(|size| size.get())) {
                    true => Feed::Cache(cache),
                    // With another shape, the elements must be in row-major order.
                    false => Feed::Bytes(Arc::new(cache.to_dense().map_err(coded)?)),
                }
            }
            Given::Data { view, bytes, .. } => {
                let buffer = session.pool().take(bytes);
                Feed::Bytes(Arc::new(buffer.and_then(|buffer| view.copy_into(buffer)).map_err(coded)?))
            }
        })
    });
    let feeds = feeds.collect::<Result<_>>()?;
    // One run late: the size of the graphs that this run compiles is not known yet.
    weight.set(session.bytes());
    handle.watch(env, "run", &shapes)?;
    Ok(session.run(shapes, feeds, targets))
}

/// Runs a session; feeds, shapes and fetches are those of [`run_of`]. Returns the values of [`results`]: at once if
/// `may_run_here` and the run is short, otherwise when it has ended.
#[napi(catch_unwind)]
pub fn run_session<'a>(
    env: &'a Env,
    handle: &External<SessionHandle>,
    id: u32,
    feeds: Array,
    shapes: &[f64],
    fetches: Option<Array>,
    may_run_here: bool,
) -> Result<Option<Array<'a>>> {
    let SessionHandle { session, owner, .. } = &**handle;
    let mut run = run_of(env, handle, &feeds, shapes, fetches.as_ref())?;
    if may_run_here {
        run = match run.run_here() {
            Ok(values) => {
                return results_now(env, owner, session, values.map_err(thrown)?).map(Some).map_err(from_napi);
            }
            Err(run) => run,
        };
    }
    let (values, results) = results_later(owner, session);
    run.enqueue(values, owner.environment.deliver(env, id, results));
    Ok(None)
}

/// Like [`run_session`], but never at once. JSON with the time of each step follows the results.
#[napi(catch_unwind)]
pub fn profile_session(
    env: Env,
    handle: &External<SessionHandle>,
    id: u32,
    feeds: Array,
    shapes: &[f64],
    fetches: Option<Array>,
) -> Result<()> {
    let SessionHandle { session, owner, .. } = &**handle;
    let run = run_of(&env, handle, &feeds, shapes, fetches.as_ref())?;
    let (values, results) = results_later(owner, session);
    let timings = Arc::new(Slot::<Vec<Timing>>::default());
    let taken = timings.clone();
    let collect: Collect = Box::new(move |env| {
        let json = timings_json(&taken.take().unwrap_or_default());
        let json = json.map_err(|error| napi::Error::from_reason(error.message))?;
        let mut made = results(env)?;
        made.push(value(env, json)?);
        Ok(made)
    });
    run.profile(values, timings, owner.environment.deliver(&env, id, collect));
    Ok(())
}

/// The slot for the values of a run, and the function that converts them to results.
fn results_later(owner: &Arc<Owner>, session: &Arc<Session>) -> (Arc<Slot<Vec<Option<Value>>>>, Collect) {
    let values = Arc::new(Slot::<Vec<Option<Value>>>::default());
    let (made, keeper, holder) = (values.clone(), session.clone(), owner.clone());
    let collect: Collect = Box::new(move |env| results(env, &holder, &keeper, made.take().unwrap_or_default()));
    (values, collect)
}

fn results_now<'a>(
    env: &'a Env,
    owner: &Arc<Owner>,
    session: &Arc<Session>,
    values: Vec<Option<Value>>,
) -> napi::Result<Array<'a>> {
    let made = results(env, owner, session, values)?;
    let mut array = env.create_array(made.len() as u32)?;
    for (at, made) in made.into_iter().enumerate() {
        // SAFETY: the value was just created, on this thread.
        array.set(at as u32, unsafe { Unknown::from_napi_value(env.raw(), made)? })?;
    }
    Ok(array)
}

/// Rejects a tensor that is passed more than once: runs lock each tensor once, and would deadlock.
fn require_distinct(feeds: &[Given], targets: &[Target]) -> Result<()> {
    let feeds = feeds.iter().filter_map(|feed| match feed {
        Given::Tensor(tensor) => Some(Arc::as_ptr(tensor)),
        Given::Data { .. } | Given::Held { .. } => None,
    });
    let targets = targets.iter().filter_map(|target| match target {
        Target::Tensor(tensor) => Some(Arc::as_ptr(tensor)),
        Target::Read | Target::Unread | Target::New => None,
    });
    let mut addresses: Vec<_> = feeds.chain(targets).collect();
    let count = addresses.len();
    addresses.sort_unstable();
    addresses.dedup();
    match addresses.len() == count {
        true => Ok(()),
        false => Err(thrown(Error::coded(Code::Type, "run: a tensor is passed more than once"))),
    }
}

/// Converts the outputs to JavaScript. For each output that is read: an ArrayBuffer (null if memory runs out),
/// [`HeldValues`] with it alone, or its index among the caches; for an output in a new tensor: the tensor's handle; for
/// others: undefined. Then come [`HeldValues`] with all caches, or undefined; and an ArrayBuffer of `u32` with, for
/// each output that is not undefined, the number of its data type, its rank and its sizes.
fn results(
    env: &Env,
    owner: &Arc<Owner>,
    session: &Arc<Session>,
    values: Vec<Option<Value>>,
) -> napi::Result<Vec<sys::napi_value>> {
    let environment = &owner.environment;
    let (mut made, mut numbers, mut caches) = (Vec::with_capacity(values.len() + 2), Vec::<u32>::new(), Vec::new());
    for output in values {
        let mut describe = |Descriptor { dtype, shape }: &Descriptor| {
            numbers.extend([data_type_index(*dtype), shape.len() as u32]);
            numbers.extend(shape.iter().map(|size| size.get()));
        };
        made.push(match output {
            None => value(env, ())?,
            Some(Value::Tensor(tensor)) => {
                describe(tensor.descriptor());
                value(env, tensor_handle(env, tensor, owner))?
            }
            Some(Value::Bytes { descriptor, bytes }) => {
                describe(&descriptor);
                if bytes.len() < HELD {
                    let buffer = environment.array_buffer(env, bytes.bytes())?;
                    session.recycle(bytes);
                    buffer
                } else {
                    let alone = vec![Contents::Bytes(Arc::new(bytes))];
                    value(env, External::new(HeldValues::new(env, owner, session, alone)))?
                }
            }
            Some(Value::Cache(cache)) => {
                describe(&cache.descriptor);
                caches.push(Contents::Cache(cache));
                value(env, caches.len() as u32 - 1)?
            }
        });
    }
    made.push(match caches.is_empty() {
        true => value(env, ())?,
        false => value(env, External::new(HeldValues::new(env, owner, session, caches)))?,
    });
    environment.passing.end(env);
    made.push(environment.array_buffer(env, bytes_of(&numbers))?);
    Ok(made)
}

/// Converts a value of any type that napi-rs supports, for [`Collect`].
fn value<T: ToNapiValue>(env: &Env, value: T) -> napi::Result<sys::napi_value> {
    // SAFETY: called on the JavaScript thread of `env`, which is alive.
    unsafe { T::to_napi_value(env.raw(), value) }
}

/// Compiles a session for shapes of inputs by name. Returns a handle to the graph (null if there is none), and a
/// description as JSON.
#[napi(catch_unwind)]
pub fn compile_session(
    env: Env,
    handle: &External<SessionHandle>,
    id: u32,
    names: Vec<String>,
    shapes: Vec<Vec<f64>>,
) -> Result<()> {
    let SessionHandle { session, owner, .. } = &**handle;
    let shapes = shapes_of_names(session, "compile", names, shapes)?;
    handle.watch(&env, "compile", &shapes)?;
    let slot = Arc::new(Slot::<Arc<Specialization>>::default());
    let (made, holder) = (slot.clone(), owner.clone());
    let collect: Collect = Box::new(move |env| {
        let Some(specialization) = made.take() else { return Ok(Vec::new()) };
        let graph = specialization.graph().map(|graph| -> GraphHandle {
            // The session reports the weight of its graphs.
            // SAFETY: the weight is part of a handle that goes to JavaScript in an `External`.
            let weight = unsafe { Weight::new(env, 0) };
            Handle::new(graph.clone(), &holder, weight)
        });
        Ok(vec![value(env, graph.map(External::new))?, value(env, described(&specialization).to_string())?])
    });
    session.compile(shapes, slot, owner.environment.deliver(&env, id, collect));
    Ok(())
}

/// The shapes of all inputs of `session`, some of which are passed by name.
fn shapes_of_names(session: &Session, operation: &str, names: Vec<String>, shapes: Vec<Vec<f64>>) -> Result<Shapes> {
    let given = names.into_iter().zip(shapes).map(|(name, shape)| {
        let shape = shape.into_iter().enumerate().map(|(axis, size)| {
            checked_size(size, || format!("{operation}: {}[{axis}]", shortened(&name))).map_err(thrown)
        });
        let shape = shape.collect::<Result<Vec<u32>>>()?;
        Ok((name, shape))
    });
    let given = given.collect::<Result<BTreeMap<_, _>>>()?;
    session.signature().shapes_of_names(operation, &given).map_err(thrown)
}

/// Compiles a session for shapes of inputs by name; returns its `OnnxDescription` as JSON.
#[napi(catch_unwind)]
pub fn describe_session(
    env: Env,
    handle: &External<SessionHandle>,
    id: u32,
    names: Vec<String>,
    shapes: Vec<Vec<f64>>,
) -> Result<()> {
    let SessionHandle { session, owner, .. } = &**handle;
    let shapes = shapes_of_names(session, "describe", names, shapes)?;
    handle.watch(&env, "describe", &shapes)?;
    let slot = Arc::new(Slot::<String>::default());
    let made = slot.clone();
    let collect: Collect = Box::new(move |env| made.take().into_iter().map(|json| value(env, json)).collect());
    session.describe(shapes, slot, owner.environment.deliver(&env, id, collect));
    Ok(())
}

fn described(specialization: &Specialization) -> serde_json::Value {
    let port = |Port { name, descriptor }: &Port| json!({ "name": name, "dataType": descriptor.dtype.name(), "shape": descriptor.shape });
    let list = |ports: &[Port]| serde_json::Value::from_iter(ports.iter().map(port));
    let [reads, writes] = specialization.graph_ports().map(|ports| list(&ports));
    json!({
        "id": specialization.id,
        "inputs": list(&specialization.inputs),
        "outputs": list(&specialization.outputs),
        "reads": reads,
        "writes": writes,
    })
}

/// Frees the memory of a session after all previous work.
#[napi(catch_unwind)]
pub fn destroy_session(handle: &External<SessionHandle>) {
    handle.session.release();
    handle.weight.set(0);
}
