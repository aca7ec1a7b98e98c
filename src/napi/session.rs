//! Sessions: models that are opened in the background and run in one call.

use super::account::Weight;
use super::completion::{Collect, Environment, List, array_buffer, list, value};
use super::convert::{coded, from_napi, invalid_state, result_type_index, thrown, type_error};
use super::feeds::{Fed, FedItem, Lent, given_feeds, mismatch};
use super::handle::{Handle, Owner, element_handle};
use super::held::{HeldContents, HeldValues};
use super::options::{CacheOptions, OpenOptions};
use super::sources::{ExternalFile, Sources};
use super::view::{View, buffer_of, bytes_of_buffer};
use super::warn::Warned;
use super::{ContextHandle, GraphHandle, Result, tensor_handle};
use crate::description::{text, text_of};
use crate::error::{Code, Error};
use crate::memory::{Buffer, bytes_of, elements, expect_writes};
use crate::onnx::describe::interface;
use crate::onnx::error::{quoted, shortened};
use crate::onnx::model::ValueInfo;
use crate::onnx::run_texts::RunTexts;
use crate::onnx::stop::Stop;
use crate::onnx::text_list::TextList;
use crate::onnx::{Model, ModelError};
use crate::runtime::{Backend, Done, Slot, Tensor, spawn};
use crate::session::signature::{check_data, checked_size};
use crate::session::{Feed, Item, Offer, Output, Session, SessionOptions, SessionRun, Shapes, Specialization, Target};
use crate::shape::Descriptor;
use napi::bindgen_prelude::{Array, Either, External, Function, JsObjectValue, Unknown};
use napi::{Env, JsValue, ValueType, sys};
use napi_derive::napi;
use serde_json::json;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// A session of a context.
pub struct SessionHandle {
    session: Arc<Session>,
    owner: Arc<Owner>,
    /// Whether its callers know of sizes that contradict names. Shared with its forms.
    warned: Arc<Warned>,
}

impl SessionHandle {
    /// Calls `warn` if dimensions of one name have several sizes in these shapes, once for each model.
    ///
    /// # Errors
    /// The exception of the function that takes the warning.
    fn watch(&self, operation: &str, shapes: &Shapes, warn: Option<Function<String, ()>>) -> Result<()> {
        self.warned.once(warn, || {
            let found = self.session.signature().contradiction(shapes)?;
            Some(format!(
                "{operation}: {found}. The model runs all the same, as with onnxruntime. strictDimensions: true refuses \
                 such sizes, false ends this warning"
            ))
        })
    }
}

impl SessionHandle {
    /// Calls `then` when what was packed is on disk, or why it is not.
    pub fn when_saved(&self, then: impl FnOnce(Option<String>) + Send + 'static) {
        self.session.when_saved(then);
    }
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        // In the background: freeing a large model takes long.
        self.session.destroy();
    }
}

/// Every error code, the exception that carries it and its meaning, as JSON.
#[napi(catch_unwind)]
pub fn error_codes() -> Result<String> {
    let row = |code: &Code| json!({ "code": code.name(), "exception": code.kind().name(), "meaning": code.meaning() });
    text(&serde_json::Value::from_iter(Code::ALL.iter().map(row))).map_err(thrown)
}

/// Runs `work` on a background thread, and passes its result and the waiting request to `then`.
pub fn in_background<T: 'static>(
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

/// A model that can be used once, since its memory is not left to the garbage collector, and the weight of its bytes.
pub type ModelHandle = Slot<(Model, Weight)>;

fn model_handle(model: (Model, Weight)) -> External<ModelHandle> {
    let slot = Slot::default();
    slot.put(model);
    External::new(slot)
}

/// Takes the model of a handle, and its weight.
///
/// # Errors
/// An InvalidStateError if it was taken before.
pub fn taken(model: &ModelHandle) -> Result<(Model, Weight)> {
    model.take().ok_or_else(|| invalid_state("the model was used already"))
}

/// Opens a model in the background, where bytes that JavaScript `transfers` are copied. Returns a handle to it, and its
/// inputs, outputs and metadata as JSON.
#[napi(catch_unwind)]
pub fn open_model(
    env: Env,
    environment: &External<Arc<Environment>>,
    id: u32,
    source: Either<String, View>,
    external_files: Vec<ExternalFile>,
    transfers: bool,
) -> Result<()> {
    let (sources, weight) = Sources::new(environment, source, external_files, transfers)?;
    let slot = Arc::new(Slot::<((Model, Weight), String)>::default());
    let made = slot.clone();
    let collect: Collect = Box::new(move |env| {
        let Some((model, json)) = made.take() else { return Ok(Vec::new()) };
        Ok(vec![value(env, model_handle(model))?, value(env, json)?])
    });
    let work = move || {
        let (source, external_data) = sources.open()?;
        let model = Model::open(source, external_data).map_err(|error| error.into_error().of_function("loadModel"))?;
        let json = text_of("loadModel", &interface(&model))?;
        slot.put(((model, weight), json));
        Ok(())
    };
    in_background(environment.deliver(&env, id, collect), work, |(), done| done.finish(Ok(())));
    Ok(())
}

/// Opens the model at a path, or in bytes, synchronously. Messages about the path start with `operation`.
#[napi(catch_unwind)]
pub fn read_model(
    environment: &External<Arc<Environment>>,
    source: Either<String, View>,
    external_files: Vec<ExternalFile>,
    operation: String,
) -> Result<Either<External<ModelHandle>, Refused>> {
    let (sources, weight) = Sources::new(environment, source, external_files, false)?;
    let (source, external_data) = sources.open().map_err(coded)?;
    let model = Model::open(source, external_data).map_err(|error| error.of_function(&operation));
    outcome(model.map(|model| model_handle((model, weight))))
}

/// Why a model was refused.
#[napi(object, object_from_js = false)]
pub struct Refused {
    /// One of [`error_codes`].
    pub code: String,
    /// The whole message.
    pub message: String,
    /// The unsupported nodes, as JSON.
    pub unsupported: String,
}

/// Converts a result; an error keeps its data.
pub fn outcome<T>(result: crate::onnx::Result<T>) -> Result<Either<T, Refused>> {
    Ok(match result {
        Ok(value) => Either::A(value),
        Err(ModelError { code, message, unsupported }) => {
            let unsupported = text(&unsupported).map_err(coded)?;
            Either::B(Refused { code: code.name().to_string(), message, unsupported })
        }
    })
}

/// What ends the opening of a session before it is done.
#[napi(catch_unwind)]
pub fn new_stop() -> External<Stop> {
    External::new(Stop::default())
}

/// Ends what was begun with this handle.
#[napi(catch_unwind)]
pub fn stop(stop: &External<Stop>) {
    stop.now();
}

/// Opens a session of a model in the background, unless `stop` ends that, and compiles it if the shapes of its inputs
/// are known. Returns a handle to it, and its signature as JSON.
#[napi(catch_unwind)]
pub fn open_session(
    env: Env,
    context: &External<ContextHandle>,
    model: &External<ModelHandle>,
    id: u32,
    options: OpenOptions,
    stop: &External<Stop>,
) -> Result<()> {
    let OpenOptions { dimensions, strict_dimensions, outputs, constants, keep_last, idle, cache } = options;
    let free_dimensions = dimensions.checked("loadModel")?;
    let (model, weight) = taken(model)?;
    let constants = constants.into_iter().map(|constant| constant.constant(&model, &free_dimensions));
    let constants = constants.collect::<Result<_>>()?;
    let keep_last = keep_last.checked()?;
    let idle = idle.map(|milliseconds| Duration::from_millis(milliseconds.into()));
    let stop = Stop::clone(stop);
    let options = SessionOptions { free_dimensions, strict_dimensions, outputs, constants, keep_last, idle, stop };
    let slot = Arc::new(Slot::<(Arc<Session>, String, Option<String>)>::default());
    let (made, owner) = (slot.clone(), Arc::clone(context));
    let collect: Collect = Box::new(move |env| {
        let Some((session, json, problem)) = made.take() else { return Ok(Vec::new()) };
        let session = External::new(SessionHandle { session, owner, warned: Arc::default() });
        Ok(vec![value(env, session)?, value(env, json)?, value(env, problem)?])
    });
    let done = context.environment.deliver(&env, id, collect);
    let context = context.context.clone();
    let work = move || {
        let keep = |cache: CacheOptions| model.files.keep(&cache.into(), context.isa().name());
        // A GPU has weights of its own.
        let cache = cache.filter(|_| !matches!(context.backend(), Some(Backend::Gpu(_))));
        let problem = cache.and_then(|cache| keep(cache).err()).map(|error| error.message);
        let session =
            Session::open(Arc::new(model), context, options).map_err(|error| error.of_function("loadModel"))?;
        let session = weighed(session, weight);
        let json = text_of("loadModel", session.signature())?;
        slot.put((session.clone(), json, problem));
        Ok(session)
    };
    in_background(done, work, |session, done| session.prepare(done));
    Ok(())
}

/// Where the weights of a session are, as JSON of an `OnnxMemory` of `onnx.d.ts`.
#[napi(catch_unwind)]
pub fn session_memory(session: &External<SessionHandle>) -> Result<String> {
    text_of("memory", &session.session.memory()).map_err(coded)
}

/// A session whose bytes are counted as `weight`.
fn weighed(session: Session, weight: Weight) -> Arc<Session> {
    Arc::new(session.observed(Box::new(move |bytes| weight.set(bytes))))
}

/// A session of the same model in which the optional inputs `names` are fed: its handle, and its signature as JSON.
#[napi(catch_unwind)]
pub fn session_with_inputs(handle: &External<SessionHandle>, names: Vec<String>) -> Result<OpenedSession> {
    let SessionHandle { session, owner, warned } = &**handle;
    let session = weighed(session.with_inputs(&names).map_err(coded)?, Weight::new(owner.account(), 0));
    let signature = text_of("run", session.signature()).map_err(coded)?;
    let handle = External::new(SessionHandle { session, owner: owner.clone(), warned: warned.clone() });
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

/// A result below this size in bytes is copied at once: creating a handle of its own would take as long.
const MIN_HELD_BYTES: usize = 1 << 14;

/// Maximum length of a string of V8, in UTF-16 code units.
const MAX_STRING: usize = 0x1fff_ffe8;

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

/// The numbers of texts in a run.
fn numbers_of(texts: Option<&RunTexts>, given: &TextList) -> crate::error::Result<Buffer> {
    let numbers = texts.expect("an input has texts").numbers(given.iter())?;
    Buffer::copy_of(bytes_of(&numbers))
}

/// A tensor for the input `info`, which is a sequence or an optional.
fn item_of(info: &ValueInfo, (shape, data): FedItem, texts: Option<&RunTexts>) -> Result<Item> {
    let dtype = info.items.and_then(|items| items.element.carried()).ok_or_else(mismatch)?;
    let bytes = match data {
        Either::A(view) => Buffer::zeroed(view.len().map_err(thrown)?).and_then(|buffer| view.copy_into(buffer)),
        Either::B(given) => numbers_of(texts, &given),
    };
    let (bytes, descriptor) = (bytes.map_err(coded)?, Descriptor::new(dtype, shape));
    check_data(|| format!("run: feed {}", quoted(&info.name)), bytes.len(), &descriptor).map_err(coded)?;
    Ok((descriptor, Arc::new(bytes)))
}

/// Prepares a run of a session. `feeds` and `numbers` are those of [`given_feeds`]. `fetches` has, for each output, a
/// tensor, null if it is not read, true for a new tensor, or undefined. `warn` takes the warning of
/// [`SessionHandle::watch`]. The run reads the feeds in `lent` in place.
///
/// # Safety
/// No JavaScript may run until the run is dropped, or `lent` is [taken back](Lent::take_back).
unsafe fn run_of(
    handle: &SessionHandle,
    feeds: &Array,
    numbers: &[f64],
    fetches: Option<&Array>,
    warn: Option<Function<String, ()>>,
    lent: &mut Lent,
) -> Result<SessionRun> {
    let SessionHandle { session, owner, .. } = handle;
    let signature = session.signature();
    let outputs = &signature.outputs;
    if fetches.is_some_and(|all| all.len() as usize != outputs.len()) {
        return Err(mismatch());
    }
    let element = |array: &Array, at: usize| array.get_element::<Unknown>(at as u32).map_err(from_napi);
    let (given, given_shapes): (Vec<_>, Vec<_>) = given_feeds(session, owner, feeds, numbers)?.into_iter().unzip();
    let targets: Vec<Target> = match fetches {
        None => vec![Target::Read; outputs.len()],
        Some(all) => (0..outputs.len()).map(|at| target(&element(all, at)?, owner)).collect::<Result<_>>()?,
    };
    require_distinct(&given, &targets)?;
    signature.check_targets(&targets).map_err(coded)?;
    let texts = session.texts().map_err(coded)?;
    let offers: Vec<Offer> = given.iter().zip(given_shapes).map(|(given, shape)| given.offer(shape)).collect();
    let shapes = signature.shapes_of_feeds(&offers).map_err(coded)?;
    drop(offers);
    // The last JavaScript that runs before the feeds are lent.
    handle.watch("run", &shapes, warn)?;
    let mut later = Vec::new();
    let feeds = given.into_iter().zip(shapes.iter()).enumerate().map(|(at, (given, shape))| {
        Ok(match given {
            Fed::Tensor(tensor) => Feed::Tensor(tensor),
            Fed::Texts(given) => Feed::Bytes(Arc::new(numbers_of(texts.as_deref(), &given).map_err(coded)?)),
            Fed::Items(items) => {
                let item = |item| item_of(&signature.inputs[at], item, texts.as_deref());
                Feed::Items(items.map(|items| items.into_iter().map(item).collect()).transpose()?)
            }
            Fed::Held(HeldContents::Bytes { bytes, .. }) => Feed::Bytes(bytes),
            Fed::Held(HeldContents::Cache(cache)) => {
                match shape.iter().copied().eq(cache.descriptor.shape.iter().map(|size| size.get())) {
                    true => Feed::Cache(cache),
                    // With another shape, the elements must be in row-major order.
                    false => Feed::Bytes(Arc::new(cache.to_dense().map_err(coded)?)),
                }
            }
            Fed::Data(data) => {
                // SAFETY: the caller's.
                match unsafe { lent.lend(at, &data) }.map_err(coded)? {
                    Some(feed) => feed,
                    None => data.own(session, owner, |copy| later.push((at, copy)))?,
                }
            }
        })
    });
    let feeds = feeds.collect::<Result<_>>()?;
    let mut run = session.run(shapes, feeds, targets).with_texts(texts);
    later.into_iter().for_each(|(at, copy)| run.feed_later(at, copy));
    Ok(run)
}

/// Runs a session; feeds, numbers, fetches and `warn` are those of [`run_of`]. Returns the values of [`results`], which
/// takes `grouped`: at once if `may_run_here` and the run is short, otherwise when it has ended.
/// Results of such runs may be written into what `make_room` makes.
#[napi(catch_unwind)]
#[allow(clippy::too_many_arguments, reason = "the functions of the addon are flat")]
pub fn run_session(
    env: Env,
    handle: &External<SessionHandle>,
    id: u32,
    feeds: Array,
    numbers: &[f64],
    fetches: Option<Array>,
    may_run_here: bool,
    make_room: Option<MakeRoom>,
    warn: Option<Function<String, ()>>,
    grouped: &[u32],
) -> Result<Option<List>> {
    let SessionHandle { session, owner, .. } = &**handle;
    let mut lent = Lent::new(may_run_here);
    // SAFETY: no JavaScript runs until this function returns, except for `make_room`, after which the feeds are looked at
    // again; and the run that outlives it takes everything back.
    let mut run = unsafe { run_of(handle, &feeds, numbers, fetches.as_ref(), warn, &mut lent)? };
    let texts = run.texts();
    if may_run_here {
        let mut rooms = Rooms::default();
        let lend = |at, len| {
            let Some(make) = &make_room else { return ControlFlow::Continue(None) };
            // SAFETY: the results, which own the room, are converted before this function returns, and the run happens only
            // if all are intact.
            let given = unsafe { rooms.lend(&env, make, grouped, at, len) };
            match lent.is_intact() && rooms.are_intact(&env, &lent) {
                true => ControlFlow::Continue(given),
                false => ControlFlow::Break(()),
            }
        };
        run = match run.run_here(lend) {
            Ok(values) => {
                let made = values
                    .and_then(|values| results(&env, owner, session, grouped, values, (&rooms, texts.as_deref())));
                return made.and_then(|made| list(&env, made)).map(Some).map_err(coded);
            }
            Err(run) => run,
        };
        lent.take_back(session, owner, &mut run)?;
    }
    let (values, results) = results_later(owner, session, grouped, texts);
    run.enqueue(values, owner.environment.deliver(&env, id, results));
    Ok(None)
}

/// Like [`run_session`], but never at once. JSON with the time of each step follows the results.
#[napi(catch_unwind)]
#[allow(clippy::too_many_arguments, reason = "the functions of the addon are flat")]
pub fn profile_session(
    env: Env,
    handle: &External<SessionHandle>,
    id: u32,
    feeds: Array,
    numbers: &[f64],
    fetches: Option<Array>,
    warn: Option<Function<String, ()>>,
    grouped: &[u32],
) -> Result<()> {
    let SessionHandle { session, owner, .. } = &**handle;
    // SAFETY: nothing is lent.
    let run = unsafe { run_of(handle, &feeds, numbers, fetches.as_ref(), warn, &mut Lent::new(false))? };
    let (values, results) = results_later(owner, session, grouped, run.texts());
    let timings = Arc::new(Slot::<String>::default());
    let taken = timings.clone();
    let collect: Collect = Box::new(move |env| {
        let mut made = results(env)?;
        made.push(value(env, taken.take().unwrap_or_default())?);
        Ok(made)
    });
    run.profile(values, timings, owner.environment.deliver(&env, id, collect));
    Ok(())
}

/// The slot for the values of a run, and the function that converts them to results.
fn results_later(
    owner: &Arc<Owner>,
    session: &Arc<Session>,
    grouped: &[u32],
    texts: Option<Arc<RunTexts>>,
) -> (Arc<Slot<Vec<Option<Output>>>>, Collect) {
    let values = Arc::new(Slot::<Vec<Option<Output>>>::default());
    let (made, keeper, holder, grouped) = (values.clone(), session.clone(), owner.clone(), grouped.to_vec());
    let collect: Collect = Box::new(move |env| {
        let values = made.take().unwrap_or_default();
        results(env, &holder, &keeper, &grouped, values, (&Rooms::default(), texts.as_deref()))
    });
    (values, collect)
}

/// Rejects a tensor that is passed more than once: runs lock each tensor once, and would deadlock.
fn require_distinct(feeds: &[Fed], targets: &[Target]) -> Result<()> {
    let feeds = feeds.iter().filter_map(|feed| match feed {
        Fed::Tensor(tensor) => Some(Arc::as_ptr(tensor)),
        Fed::Data(_) | Fed::Held(_) | Fed::Texts(_) | Fed::Items(_) => None,
    });
    let targets = targets.iter().filter_map(|target| match target {
        Target::Tensor(tensor) => Some(Arc::as_ptr(tensor)),
        Target::Read | Target::Into(_) | Target::Unread | Target::New => None,
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

/// Makes a `Uint8Array` of as many bytes with any contents, in a buffer of its own, or throws.
type MakeRoom<'a> = Function<'a, f64, Unknown<'a>>;

/// ArrayBuffers that a run within its call writes results into: without them, results would be copied.
#[derive(Default)]
struct Rooms(Vec<Room>);

/// The ArrayBuffer for the output at index `at`, and its bytes.
struct Room {
    at: usize,
    buffer: sys::napi_value,
    bytes: *mut [MaybeUninit<u8>],
}

impl Rooms {
    /// Memory for the `len` bytes of the output at index `at`, unless it is small or mostly fed back unread.
    ///
    /// # Safety
    /// The memory belongs to a value of the native frame that calls this: it must not be used after that frame, and only
    /// as long as the rooms are [intact](Self::are_intact).
    unsafe fn lend(&mut self, env: &Env, make: &MakeRoom, grouped: &[u32], at: usize, len: usize) -> Option<Buffer> {
        if len < MIN_HELD_BYTES || grouped.contains(&(at as u32)) {
            return None;
        }
        let buffer = buffer_of(env.raw(), make.call(len as f64).ok()?.raw())?;
        let bytes = bytes_of_buffer(env.raw(), buffer).filter(|bytes| bytes.len() == len)?;
        expect_writes(bytes.cast(), len);
        // SAFETY: the caller's.
        let lent = unsafe { Buffer::lent_mut(bytes)? };
        self.0.push(Room { at, buffer, bytes });
        Some(lent)
    }

    /// Whether all are still where they were made and none has bytes in common with another one or a feed, after
    /// JavaScript may have run: some runtimes make them with functions that programs can replace.
    fn are_intact(&self, env: &Env, feeds: &Lent) -> bool {
        let range = |bytes: *const u8, len: usize| bytes.addr()..bytes.addr() + len;
        let mut all: Vec<_> = self.0.iter().map(|room| range(room.bytes.cast(), room.bytes.len())).collect();
        let is_apart =
            feeds.ranges().all(|feed| all.iter().all(|room| room.end <= feed.start || feed.end <= room.start));
        all.sort_by_key(|room| room.start);
        is_apart
            && all.windows(2).all(|pair| pair[0].end <= pair[1].start)
            && self.0.iter().all(|room| {
                bytes_of_buffer(env.raw(), room.buffer).is_some_and(|bytes| std::ptr::eq(bytes, room.bytes))
            })
    }

    /// The ArrayBuffer with the output at index `at`.
    fn buffer(&self, at: usize) -> crate::error::Result<sys::napi_value> {
        let found = self.0.iter().find(|room| room.at == at);
        found.map(|room| room.buffer).ok_or_else(|| Error::coded(Code::Operation, "a result has no memory"))
    }
}

/// How an output reaches JavaScript.
enum Delivery {
    /// Not at all, or in a tensor that the caller has passed.
    Absent,
    /// As an ArrayBuffer or the handle of a new tensor. Its rank and sizes follow.
    Whole,
    /// As [`HeldValues`] of its own.
    Alone,
    /// In the [`HeldValues`] that results of a run share, at the index of the output.
    Shared,
    /// As a list: the number of its tensors, and each of them.
    List,
    /// As null: an optional without a value.
    Nothing,
}

/// Converts the outputs to JavaScript: an ArrayBuffer of `u32`, the [`HeldValues`] that results share or undefined, and
/// a value for each output that is [`Delivery::Whole`] or [`Delivery::Alone`]. The numbers are, for each output, its
/// delivery, the number of its data type, and what the delivery adds.
///
/// Results share a handle if they grow in place, or if their index is in `grouped`: those are mostly fed back unread.
/// Those that were written into one of `rooms` are there.
fn results(
    env: &Env,
    owner: &Arc<Owner>,
    session: &Arc<Session>,
    grouped: &[u32],
    values: Vec<Option<Output>>,
    (rooms, texts): (&Rooms, Option<&RunTexts>),
) -> crate::error::Result<Vec<sys::napi_value>> {
    let mut results = Results { env, owner, session, made: Vec::new(), numbers: Vec::new(), shared: Vec::new() };
    for (at, output) in values.into_iter().enumerate() {
        let texts = texts.filter(|_| session.signature().outputs[at].has_texts());
        match output {
            None => results.numbers.extend([Delivery::Absent as u32, 0]),
            Some(Output::Nothing) => results.numbers.extend([Delivery::Nothing as u32, 0]),
            Some(Output::Tensor(tensor)) => {
                results.describe(Delivery::Whole, tensor.descriptor());
                results.made.push(value(env, tensor_handle(tensor, owner))?);
            }
            Some(Output::List(items)) => {
                results.numbers.extend([Delivery::List as u32, items.len() as u32]);
                for (descriptor, bytes) in items {
                    results.add(at, descriptor, bytes, texts)?;
                }
            }
            Some(Output::Bytes { descriptor, bytes }) if grouped.contains(&(at as u32)) => {
                results.describe(Delivery::Shared, &descriptor);
                results.share(at, HeldContents::Bytes { descriptor, bytes: Arc::new(bytes) });
            }
            Some(Output::Bytes { descriptor, bytes }) if bytes.is_lent() => {
                results.describe(Delivery::Whole, &descriptor);
                results.made.push(rooms.buffer(at)?);
            }
            Some(Output::Bytes { descriptor, bytes }) => results.add(at, descriptor, Arc::new(bytes), texts)?,
            Some(Output::Cache(cache)) => {
                results.describe(Delivery::Shared, &cache.descriptor);
                results.share(at, HeldContents::Cache(cache));
            }
        }
    }
    let Results { made, numbers, shared, .. } = results;
    let shared = (!shared.is_empty()).then(|| External::new(HeldValues::new(owner, session, 0, shared)));
    let first = [array_buffer(env, bytes_of(&numbers))?, value(env, shared)?];
    Ok(first.into_iter().chain(made).collect())
}

/// The results of a run so far.
struct Results<'a> {
    env: &'a Env,
    owner: &'a Arc<Owner>,
    session: &'a Arc<Session>,
    made: Vec<sys::napi_value>,
    numbers: Vec<u32>,
    shared: Vec<Option<HeldContents>>,
}

impl Results<'_> {
    /// Adds the numbers of a result.
    fn describe(&mut self, delivery: Delivery, Descriptor { dtype, shape }: &Descriptor) {
        let has_sizes = matches!(delivery, Delivery::Whole);
        self.numbers.extend([delivery as u32, result_type_index(*dtype)]);
        if has_sizes {
            self.numbers.push(shape.len() as u32);
            self.numbers.extend(shape.iter().map(|size| size.get()));
        }
    }

    /// Adds a result to those that share a handle.
    fn share(&mut self, at: usize, contents: HeldContents) {
        self.shared.resize_with(at, || None);
        self.shared.push(Some(contents));
    }

    /// Adds a tensor of the output at index `at`: texts as one string and their lengths, large data in a handle, others as a copy.
    fn add(
        &mut self,
        at: usize,
        descriptor: Descriptor,
        bytes: Arc<Buffer>,
        texts: Option<&RunTexts>,
    ) -> crate::error::Result<()> {
        if let Some(texts) = texts {
            self.describe(Delivery::Whole, &descriptor);
            let list = texts.list(elements(bytes.bytes()))?;
            let (all, units) = list.joined();
            if units.iter().map(|&units| units as usize).sum::<usize>() > MAX_STRING {
                let message = "run: the texts of an output are longer together than a string of JavaScript can be";
                return Err(Error::coded(Code::Operation, message.to_string()));
            }
            let units = array_buffer(self.env, bytes_of(&units))?;
            self.made.extend([value(self.env, all)?, units]);
        } else if bytes.len() < MIN_HELD_BYTES {
            self.describe(Delivery::Whole, &descriptor);
            self.made.push(array_buffer(self.env, bytes.bytes())?);
            self.session.recycle_shared(bytes);
        } else {
            self.describe(Delivery::Alone, &descriptor);
            let alone = vec![Some(HeldContents::Bytes { descriptor, bytes })];
            self.made.push(value(self.env, External::new(HeldValues::new(self.owner, self.session, at, alone)))?);
        }
        Ok(())
    }
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
    warn: Option<Function<String, ()>>,
) -> Result<()> {
    let SessionHandle { session, owner, .. } = &**handle;
    session.signature().check_tensors("compile").map_err(thrown)?;
    let shapes = shapes_of_names(session, "compile", names, shapes)?;
    handle.watch("compile", &shapes, warn)?;
    let slot = Arc::new(Slot::<(Arc<Specialization>, String)>::default());
    let (made, holder) = (slot.clone(), owner.clone());
    let collect: Collect = Box::new(move |env| {
        let Some((specialization, json)) = made.take() else { return Ok(Vec::new()) };
        // The session counts its graphs.
        let graph = specialization.graph().map(|graph| -> GraphHandle { Handle::new(graph.clone(), &holder, 0) });
        Ok(vec![value(env, graph.map(External::new))?, value(env, json)?])
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
    warn: Option<Function<String, ()>>,
) -> Result<()> {
    let SessionHandle { session, owner, .. } = &**handle;
    let shapes = shapes_of_names(session, "describe", names, shapes)?;
    handle.watch("describe", &shapes, warn)?;
    let slot = Arc::new(Slot::<String>::default());
    let made = slot.clone();
    let collect: Collect = Box::new(move |env| made.take().into_iter().map(|json| value(env, json)).collect());
    session.describe(shapes, slot, owner.environment.deliver(&env, id, collect));
    Ok(())
}

/// Frees what a session and its forms can make again, after all previous work.
#[napi(catch_unwind)]
pub fn release_session(env: Env, handle: &External<SessionHandle>, id: u32) {
    let SessionHandle { session, owner, .. } = &**handle;
    session.release(owner.environment.deliver(&env, id, Box::new(|_| Ok(Vec::new()))));
}

/// Frees the memory of a session after all previous work.
#[napi(catch_unwind)]
pub fn destroy_session(handle: &External<SessionHandle>) {
    handle.session.destroy();
}
