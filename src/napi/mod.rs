//! The JavaScript binding: flat functions over handles, numbers and byte views. Only the facade in `lib/` calls them,
//! with converted arguments; they are not a public interface.

mod account;
mod cache;
mod completion;
mod convert;
mod dynamic;
mod feeds;
mod handle;
mod held;
mod onnx;
mod options;
mod session;
mod sources;
mod view;
mod warn;

use crate::description::text;
use crate::dimension::numbers;
use crate::ir::{Builder, ValueId};
use crate::memory::store::finish_saving;
use crate::ops::limits::support_limits_json;
use crate::runtime::{self, Wish};
use crate::shape::Descriptor;
use account::Weight;
use completion::{Completions, Environment};
use convert::{attributes, constant_type, data_type, data_type_index, number, operands, thrown};
use dynamic::DimensionValue;
use handle::{BuilderHandle, Handle, Owner, handles};
use napi::Env;
use napi::bindgen_prelude::{Array, Either, External, Function, Object, Unknown};
use napi_derive::napi;
use options::CacheOptions;
use serde_json::json;
use std::cell::RefCell;
use std::sync::Arc;
use view::View;

type Result<T> = std::result::Result<T, napi::Error<String>>;
type ContextHandle = Arc<Owner>;
type TensorHandle = Handle<runtime::Tensor>;
type GraphHandle = Handle<runtime::CompiledGraph>;

/// Called once per JavaScript environment. `on_complete` is called with the ends of asynchronous requests, `(ids,
/// codes, messages, details)`, where a missing or empty code is success.
#[napi(catch_unwind)]
pub fn initialize(
    env: Env,
    on_complete: Function<Completions, Unknown<'static>>,
) -> Result<External<Arc<Environment>>> {
    Environment::new(&env, on_complete).map(External::new).map_err(convert::from_napi)
}

/// Bytes that were reported to the garbage collector, for tests: V8 does not expose them.
#[napi(catch_unwind)]
pub fn reported_bytes(environment: &External<Arc<Environment>>) -> i64 {
    environment.account.reported()
}

/// The requested properties of a context.
#[napi(object, object_to_js = false)]
pub struct ContextOptions {
    /// Number of threads; 0 stands for the default.
    pub threads: u32,
    /// `default`, `high-performance`, `low-power`, or `fallback` of `computePolicy`.
    pub power_preference: String,
    /// Whether a GPU may be used.
    pub accelerated: bool,
    /// The adapter of a GPUDevice, as JSON, if one was passed.
    pub gpu_device: Option<String>,
    /// How packed constants of built graphs are kept on disk, if they are.
    pub cache: Option<CacheOptions>,
}

/// Creates a context, which is open when the request `id` has ended. The request `lost` ends with the reason when the
/// context's GPU is lost, or when the context is gone; nothing waits for it. With a cache, the request `problem` ends likewise
/// with the reason why something is not kept, or with an InvalidStateError.
#[napi(catch_unwind)]
pub fn create_context(
    env: Env,
    environment: &External<Arc<Environment>>,
    id: u32,
    lost: u32,
    problem: u32,
    options: ContextOptions,
) -> Result<External<ContextHandle>> {
    let low_power = options.power_preference == "low-power";
    let wish = match (options.gpu_device, options.accelerated, options.power_preference.as_str()) {
        (Some(json), ..) => {
            let parsed = serde_json::from_str(&json);
            Wish::Of(parsed.map_err(|error| convert::type_error(&format!("createContext: gpuDevice: {error}")))?)
        }
        (None, false, _) => Wish::Cpu("accelerated is false"),
        (None, true, "high-performance") => Wish::Gpu,
        (None, true, "low-power") => Wish::Cpu("\"low-power\" is preferred"),
        (None, true, "fallback") => Wish::Cpu("computePolicy is \"fallback\""),
        // An explicit `accelerated: true` cannot be told from the default.
        (None, true, _) => Wish::Cpu("by default; a GPU computes where powerPreference is \"high-performance\""),
    };
    let threads = (options.threads > 0).then_some(options.threads as usize);
    let context = runtime::Context::new(threads, low_power).map_err(thrown)?;
    let context = match options.cache {
        Some(cache) => context.keeping(&cache.into(), environment.watch(problem)),
        None => context,
    };
    context.open(wish, environment.watch(lost), environment.request(&env, id));
    Ok(External::new(environment.own(context)))
}

/// The device of an open context: `cpu` or `gpu`.
#[napi(catch_unwind)]
pub fn context_device(context: &External<ContextHandle>) -> &'static str {
    match context.context.backend() {
        Some(runtime::Backend::Gpu(_)) => "gpu",
        Some(runtime::Backend::Cpu) | None => "cpu",
    }
}

/// Where an open context computes, and why, as the JSON of a `ContextDescription`.
#[napi(catch_unwind)]
pub fn describe_context(context: &External<ContextHandle>) -> Result<String> {
    let context = &context.context;
    let (device, adapter) = match context.backend() {
        Some(runtime::Backend::Gpu(device)) => ("gpu", Some(device.name())),
        Some(runtime::Backend::Cpu) => ("cpu", None),
        None => return Err(convert::invalid_state("describeContext: the context is lost")),
    };
    text(&json!({ "device": device, "adapter": adapter, "reason": context.reason() })).map_err(thrown)
}

/// What an open context does not use of a GPU because its driver fails; null if there is nothing to warn about.
#[napi(catch_unwind)]
pub fn context_warning(context: &External<ContextHandle>) -> Option<String> {
    context.context.warning().map(String::from)
}

/// Call it before the process ends, also by `process.exit()`, which runs no cleanup hooks. Lets no driver of a GPU be loaded
/// any more, and waits for threads that do; and waits until packed weights are on disk.
#[napi(catch_unwind)]
pub fn before_exit() {
    runtime::end_openings();
    finish_saving(completion::SAVING);
}

/// Loses the GPU of a context as a failing driver would, for tests. Does nothing on the CPU.
#[napi(catch_unwind)]
pub fn lose_device(context: &External<ContextHandle>) {
    if let Some(runtime::Backend::Gpu(device)) = context.context.backend() {
        device.destroy();
    }
}

/// Aborts queued work; every outstanding request ends with an InvalidStateError.
#[napi(catch_unwind)]
pub fn destroy_context(context: &External<ContextHandle>) {
    context.context.lose();
}

/// The version of the package that this binary belongs to.
#[napi]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Describes the processors and libraries that this process uses, as the JSON of a `SystemInfo`.
#[napi(catch_unwind)]
pub fn system_info() -> Result<String> {
    text(&runtime::system_info()).map_err(thrown)
}

/// `MLOpSupportLimits` as JSON, with or without the types of the extension `int4`.
#[napi(catch_unwind)]
pub fn support_limits(context: &External<ContextHandle>, int4: bool) -> String {
    support_limits_json(context.context.max_tensor_bytes(), int4)
}

/// A handle to `tensor`, which belongs to `owner`.
fn tensor_handle(tensor: Arc<runtime::Tensor>, owner: &Arc<Owner>) -> External<TensorHandle> {
    let bytes = tensor.descriptor().bytes();
    External::new(Handle::new(tensor, owner, bytes))
}

/// Creates a tensor of zeros.
#[napi(catch_unwind)]
pub fn create_tensor(
    env: Env,
    context: &External<ContextHandle>,
    id: u32,
    dtype: u32,
    shape: Vec<u32>,
) -> Result<External<TensorHandle>> {
    let descriptor = Descriptor::new(data_type(dtype)?, shape);
    let tensor = context.context.create_tensor(descriptor, context.environment.request(&env, id)).map_err(thrown)?;
    Ok(tensor_handle(tensor, context))
}

/// Creates a constant tensor with a copy of `bytes`.
#[napi(catch_unwind)]
pub fn create_constant_tensor(
    env: Env,
    context: &External<ContextHandle>,
    id: u32,
    dtype: u32,
    shape: Vec<u32>,
    bytes: View,
) -> Result<External<TensorHandle>> {
    let descriptor = Descriptor::new(constant_type(dtype)?, shape);
    let done = context.environment.request(&env, id);
    let bytes = bytes.copy().map_err(thrown)?;
    let tensor = context.context.create_constant_tensor(descriptor, bytes, done).map_err(thrown)?;
    Ok(tensor_handle(tensor, context))
}

/// Takes a snapshot of a tensor after all previous work.
#[napi(catch_unwind)]
pub fn read_tensor(
    env: Env,
    context: &External<ContextHandle>,
    id: u32,
    tensor: &External<TensorHandle>,
) -> External<Arc<runtime::Read>> {
    External::new(context.context.read(tensor.shared(), context.environment.request(&env, id)))
}

/// Copies the snapshot of a completed read.
#[napi(catch_unwind)]
pub fn take_read(read: &External<Arc<runtime::Read>>, into: View) -> Result<()> {
    let bytes = read.take().ok_or_else(|| convert::type_error("takeRead: there is no snapshot to take"))?;
    into.replace(bytes.bytes()).map_err(thrown)
}

/// Writes a copy of `bytes`, made now, after all previous work.
#[napi(catch_unwind)]
pub fn write_tensor(context: &External<ContextHandle>, tensor: &External<TensorHandle>, bytes: View) -> Result<()> {
    bytes.copy().and_then(|bytes| context.context.write(tensor.shared(), bytes)).map_err(thrown)
}

/// Frees a tensor's bytes after all previous work.
#[napi(catch_unwind)]
pub fn destroy_tensor(tensor: &External<TensorHandle>) {
    tensor.context().release_tensor(tensor.shared());
    tensor.weigh(0);
}

/// Frees the memory of a graph after all previous work.
#[napi(catch_unwind)]
pub fn destroy_graph(graph: &External<GraphHandle>) {
    graph.context().release_graph(graph.shared());
    graph.weigh(0);
}

/// Creates an empty builder for graphs of `context`; with `dynamic`, dimensions of inputs may be names.
#[napi(catch_unwind)]
pub fn create_builder(context: &External<ContextHandle>, dynamic: Option<bool>) -> External<BuilderHandle> {
    let builder =
        Builder::with_limit(context.context.max_tensor_bytes()).with_extensions(context.context.has_extensions());
    let weight = Weight::new(context.account(), 0);
    let symbols = dynamic.unwrap_or(false).then(RefCell::default);
    External::new(BuilderHandle { builder: RefCell::new(Some(builder)), symbols, weight })
}

/// Another builder with the contents of `builder`; they share the bytes of constants.
#[napi(catch_unwind)]
pub fn copy_builder(builder: &External<BuilderHandle>) -> External<BuilderHandle> {
    let BuilderHandle { builder, symbols, weight } = &**builder;
    External::new(BuilderHandle { builder: builder.clone(), symbols: symbols.clone(), weight: weight.clone() })
}

fn with_builder<T>(
    builder: &External<BuilderHandle>,
    work: impl FnOnce(&mut Builder) -> crate::error::Result<T>,
) -> Result<T> {
    match builder.builder.borrow_mut().as_mut() {
        Some(builder) => work(builder).map_err(thrown),
        None => Err(has_built()),
    }
}

fn has_built() -> napi::Error<String> {
    convert::invalid_state("the builder has built its graph")
}

/// Takes the contents of the builder, to build its graph, and returns them with their weight in bytes.
fn used_up(builder: &External<BuilderHandle>) -> Result<(Builder, usize)> {
    let contents = builder.builder.borrow_mut().take().ok_or_else(has_built)?;
    let bytes = builder.weight.bytes();
    builder.weight.set(0);
    Ok((contents, bytes))
}

/// Operands of a builder by name.
fn named(names: Vec<String>, ids: Vec<u32>) -> Vec<(String, ValueId)> {
    names.into_iter().zip(ids.into_iter().map(ValueId)).collect()
}

/// Adds a named input; returns its operand.
#[napi(catch_unwind)]
pub fn input(builder: &External<BuilderHandle>, name: String, dtype: u32, shape: Vec<u32>) -> Result<u32> {
    let descriptor = Descriptor::new(data_type(dtype)?, shape);
    with_builder(builder, |builder| builder.input(&name, descriptor).map(|id| id.0))
}

/// Adds a constant with a copy of `bytes`; returns its operand.
#[napi(catch_unwind)]
pub fn constant(builder: &External<BuilderHandle>, dtype: u32, shape: Vec<u32>, bytes: View) -> Result<u32> {
    let descriptor = Descriptor::new(constant_type(dtype)?, shape);
    let bytes = bytes.copy().map_err(thrown)?;
    let len = bytes.len();
    let id = with_builder(builder, |builder| builder.constant_of(descriptor, bytes).map(|id| id.0))?;
    builder.weight.add(len);
    Ok(id)
}

/// Adds a scalar constant; returns its operand.
#[napi(catch_unwind)]
pub fn constant_scalar(builder: &External<BuilderHandle>, dtype: u32, value: Unknown) -> Result<u32> {
    let (dtype, value) = (constant_type(dtype)?, number(value)?);
    with_builder(builder, |builder| builder.scalar(dtype, value).map(|id| id.0))
}

/// Adds a constant that shares the bytes of a constant tensor; returns its operand.
#[napi(catch_unwind)]
pub fn constant_tensor(builder: &External<BuilderHandle>, tensor: &External<TensorHandle>) -> Result<u32> {
    let bytes = tensor.lock().and_then(|contents| contents.bytes().cloned()).map_err(thrown)?;
    let len = bytes.len();
    let id = with_builder(builder, |builder| Ok(builder.constant_shared(tensor.descriptor().clone(), bytes).0))?;
    builder.weight.add(len);
    Ok(id)
}

/// Appends the operator of the method `name`; returns `[operand, data type, ...shape]` for each output.
#[napi(catch_unwind)]
pub fn operator(
    builder: &External<BuilderHandle>,
    name: String,
    operand_object: Object,
    attribute_object: Object,
    label: String,
) -> Result<Vec<Vec<DimensionValue>>> {
    let (operands, attributes) = (operands(&operand_object)?, attributes(&attribute_object)?);
    let symbols = builder.symbols.as_ref();
    with_builder(builder, |builder| {
        let (op, inputs) = builder.read_named(&name, operands, attributes, &label)?;
        let described = |id: ValueId, builder: &Builder, shape: Vec<DimensionValue>| {
            let dtype = data_type_index(builder.descriptor(id).dtype);
            [Either::A(id.0), Either::A(dtype)].into_iter().chain(shape).collect()
        };
        match symbols {
            None => {
                let outputs = builder.add(op, inputs, label)?.into_iter();
                let shape = |id| numbers(&builder.descriptor(id).shape).into_iter().map(Either::A).collect();
                Ok(outputs.map(|id| described(id, builder, shape(id))).collect())
            }
            Some(symbols) => {
                let mut symbols = symbols.borrow_mut();
                let outputs = symbols.add(builder, op, inputs, &label)?.into_iter();
                let shape = |id| symbols.shape(builder, id).into_iter().map(dynamic::value).collect();
                Ok(outputs.map(|id| described(id, builder, shape(id))).collect())
            }
        }
    })
}

/// A graph that is being built, and the names of its inputs, in the order that `dispatch` expects.
#[napi(object, object_from_js = false)]
pub struct Build {
    /// The graph.
    pub graph: External<GraphHandle>,
    /// Names of the inputs.
    pub inputs: Vec<String>,
}

/// Compiles the builder's contents for the named outputs, and consumes them.
#[napi(catch_unwind)]
pub fn build(
    env: Env,
    context: &External<ContextHandle>,
    builder: &External<BuilderHandle>,
    id: u32,
    output_names: Vec<String>,
    output_ids: Vec<u32>,
) -> Result<Build> {
    let (builder, bytes) = used_up(builder)?;
    let graph = builder.finish(named(output_names, output_ids));
    let inputs = graph.inputs.iter().map(|(name, _)| name.clone()).collect();
    let graph = context.context.build(graph, context.environment.request(&env, id));
    Ok(Build { graph: External::new(Handle::new(graph, context, bytes)), inputs })
}

/// Reports the weight of a built graph to the garbage collector.
#[napi(catch_unwind)]
pub fn weigh_graph(graph: &External<GraphHandle>) {
    graph.weigh(graph.bytes());
}

/// The devices that dispatches of a built graph use.
#[napi(catch_unwind)]
pub fn graph_devices(graph: &External<GraphHandle>) -> Vec<String> {
    let description = graph.description();
    description.map_or(Vec::new(), |description| vec![description.processor.device().to_string()])
}

/// Describes a built graph, as the JSON of a `GraphDescription`.
#[napi(catch_unwind)]
pub fn describe_graph(graph: &External<GraphHandle>) -> Result<String> {
    let description = graph.description();
    let description = description.ok_or_else(|| convert::invalid_state("describeGraph: the graph is destroyed"))?;
    text(&description.json()).map_err(thrown)
}

/// The tensors for a graph's inputs and outputs, in their order. All must be distinct.
fn bound(
    operation: &str,
    context: &External<ContextHandle>,
    inputs: &Array,
    outputs: &Array,
) -> Result<[Vec<Arc<runtime::Tensor>>; 2]> {
    let (inputs, outputs) = (handles(inputs, context)?, handles(outputs, context)?);
    let mut addresses: Vec<_> = inputs.iter().chain(&outputs).map(Arc::as_ptr).collect();
    addresses.sort_unstable();
    addresses.dedup();
    // The timeline locks each tensor once, and would deadlock on a repeated one.
    if addresses.len() < inputs.len() + outputs.len() {
        return Err(convert::type_error(&format!("{operation}: a tensor is passed more than once")));
    }
    Ok([inputs, outputs])
}

/// Runs a graph on tensors in the order of its inputs and outputs.
#[napi(catch_unwind)]
pub fn dispatch(
    context: &External<ContextHandle>,
    graph: &External<GraphHandle>,
    inputs: Array,
    outputs: Array,
) -> Result<()> {
    let [inputs, outputs] = bound("dispatch", context, &inputs, &outputs)?;
    context.context.dispatch(graph.shared(), inputs, outputs);
    Ok(())
}

/// Runs a graph `warmup` times, then `runs` times with a clock. After completion, `take_read` returns, for each run,
/// its start (relative to the first run) and duration, then the start (relative to the run) and duration of each step,
/// all as float64 in nanoseconds.
#[napi(catch_unwind)]
#[allow(clippy::too_many_arguments, reason = "the functions of the addon are flat")]
pub fn profile(
    env: Env,
    context: &External<ContextHandle>,
    id: u32,
    graph: &External<GraphHandle>,
    inputs: Array,
    outputs: Array,
    warmup: u32,
    runs: u32,
) -> Result<External<Arc<runtime::Read>>> {
    let tensors = bound("profileGraph", context, &inputs, &outputs)?;
    let done = context.environment.request(&env, id);
    Ok(External::new(context.context.profile(graph.shared(), tensors, [warmup, runs], done)))
}
