//! A session compiled for one set of input shapes.

use super::deciding::Decided;
use super::signature::{Shapes, check_target};
use super::template::{Filled, FreeSizes, UnknownDim, find};
use super::value::{Cache, Feed, Output, Target};
use super::{Session, SessionOptions};
use crate::dimension::Dim;
use crate::error::Result;
use crate::ir::{Builder, Growing};
use crate::memory::Buffer;
use crate::onnx::Binding;
use crate::onnx::cuts::Rest;
use crate::runtime::{Backend, CacheRows, CompiledGraph, Contents, Later, Read, Recent, Site, Slot, Tensor};
use crate::shape::Descriptor;
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Maximum duration of a quick run. Passing a run to a background thread costs both threads 30 to 80 us, and
/// occasionally much more: the 99th percentile of a voice detector that computes for 75 us is 0.28 ms without a
/// background thread and 0.70 ms with one.
const QUICK: Duration = Duration::from_micros(250);

/// Bytes per nanosecond that a thread copies between memory that is not in its caches. A run that reads feeds in place, and
/// writes results where they are read, spares its caller these copies: up to their time, it is as quick as one elsewhere.
const COPIED_PER_NANOSECOND: usize = 6;

/// How many times the duration of a quick run one may take that writes results into new memory of the caller's: the system
/// provides that memory while the run writes it, a time that reading would take otherwise.
const ROOM_FACTOR: u32 = 4;

/// By how much runs that are computed on the host may lately have been longer than quick ones: as long as another process
/// may take the processor from a thread.
const FORGIVEN: Duration = Duration::from_millis(4);

/// Maximum duration of a quick run that spares its caller copies of this size in bytes.
fn most_of_quick(copies: usize) -> Duration {
    QUICK + Duration::from_nanos((copies / COPIED_PER_NANOSECOND) as u64)
}

/// The bytes of the feeds that a run reads in the memory of its caller.
fn lent_bytes(feeds: &[Feed]) -> usize {
    let lent = |feed: &Feed| match feed {
        Feed::Bytes(bytes) if bytes.is_lent() => bytes.len(),
        _ => 0,
    };
    feeds.iter().map(lent).sum()
}

/// An input or output with all sizes known.
#[derive(Debug)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Type and shape; dimensions can be 0.
    pub descriptor: Descriptor,
}

/// Updates `ports` to the sizes that a tape's `values` stand for; `ports` holds those of `bindings` for other sizes, or
/// is empty. `unknown` are the dimensions of `bindings` that depend on sizes.
fn resize_ports(ports: &mut Vec<Port>, bindings: &[Binding], unknown: &[UnknownDim], values: &[i64]) {
    if ports.is_empty() {
        let port =
            |Binding { name, descriptor, .. }: &Binding| Port { name: name.clone(), descriptor: descriptor.clone() };
        ports.extend(bindings.iter().map(port));
    }
    for UnknownDim { port, axis, dim } in unknown {
        ports[*port].descriptor.shape[*axis] = Dim::number(dim.at(values));
    }
}

/// An input or output of the compiled graph.
struct Terminal {
    /// Index among the inputs or outputs of the session.
    at: usize,
    /// The tensor for runs that pass none. Runs follow one another: one is enough.
    own: Arc<Tensor>,
    /// If this is an input that passes its memory to an output, or that output: the dimension along which it grows.
    axis: Option<usize>,
}

/// A tensor of this type and shape for an input or output of a graph. On the CPU, it has contents only during a run:
/// nothing needs to be freed with the context.
fn own_tensor(site: &Site, descriptor: Descriptor) -> Arc<Tensor> {
    match site.backend {
        Backend::Cpu => Arc::new(Tensor::new(descriptor)),
        Backend::Gpu(_) => site.tensor(descriptor),
    }
}

/// The inputs of a graph.
struct PlacedInputs {
    /// A tensor for each input.
    inputs: Vec<Arc<Tensor>>,
    /// For each input, the rows that an output is appended to, if any.
    caches: Vec<Option<CacheRows>>,
}

/// A session for one set of input shapes.
pub struct Specialization {
    /// A number that is unique among the specializations that exist in the process at the same time.
    pub id: u32,
    key: Key,
    /// See [`Bindings::differs`](super::template::Bindings::differs).
    differs: bool,
    /// The names of the inputs of the session.
    names: Vec<String>,
    /// The inputs whose data type WebNN has, in the order of the session.
    pub inputs: Vec<Port>,
    /// The outputs, in the order of the session.
    pub outputs: Vec<Port>,
    /// `None` if no output has any elements.
    graph: Option<Arc<CompiledGraph>>,
    /// The inputs that the graph reads, in its order.
    reads: Vec<Terminal>,
    /// The outputs that it computes, in its order.
    writes: Vec<Terminal>,
    /// The outputs that begin with an input, in its memory; indices into `writes` and `reads`.
    growing: Vec<Growing>,
    /// The work that remains after the graph; `None` if there is none.
    pub(super) rest: Option<Rest>,
    /// Whether its graph is on the CPU.
    is_on_cpu: bool,
    /// Duration of the last run in nanoseconds; `u64::MAX` before the first one.
    last_run: AtomicU64,
    /// By how many nanoseconds runs have been longer than quick ones; each quick one forgets a sixteenth.
    excess: AtomicU64,
}

/// What a specialization is for.
pub(super) enum Key {
    /// The shapes of the inputs of the session, the elements of those that decide, and whether the session runs it, see
    /// [`Session::specialize`].
    Shapes(Shapes, Option<Arc<Decided>>, bool),
    /// What is known at the start of a part of the model.
    Sizes(FreeSizes),
}

/// The most recently used specializations.
pub(super) type Specializations = Recent<Arc<Specialization>>;

/// The kept specialization that satisfies `is_it`.
pub(super) fn find_kept(
    kept: &Specializations,
    is_it: impl Fn(&Specialization) -> bool,
) -> Option<Arc<Specialization>> {
    // Another owner of its graph may have destroyed the graph.
    kept.find(|one| (is_it(one) && one.is_built()).then(|| one.clone()))
}

/// Makes room for one more. Returns the one that it evicts, unless something else uses it.
pub(super) fn spare(kept: &Specializations, site: &Site) -> Option<Specialization> {
    Arc::into_inner(kept.make_room(site.kept_sizes())?)
}

/// Approximate size of the compiled graphs in bytes: they share their weights and the memory for intermediate results
/// across sizes, so that the largest one counts for all.
pub(super) fn bytes_of(kept: &Specializations) -> usize {
    let kept = kept.lock();
    let graphs = kept.iter().filter_map(|one| one.graph.as_ref()?.description());
    graphs.map(|graph| graph.bytes()).max().unwrap_or(0)
}

impl Session {
    /// The specialization for a run with these feeds that is quick, see [`most_of_quick`]; `None` for any other run.
    pub(super) fn quick(&self, shapes: &Shapes, feeds: &[Feed], targets: &[Target]) -> Option<Arc<Specialization>> {
        // A tensor that cannot be read here may decide anything.
        let decided = self.deciding().elements_of(shapes, feeds, |tensor| tensor.copy().map(Arc::new)).ok()?;
        self.kept_for(shapes, decided.as_ref(), true).filter(|kept| {
            let read = kept.written().filter(|&(at, _)| self.is_read_by_caller(at, &targets[at]));
            kept.is_quick(lent_bytes(feeds) + read.map(|(_, bytes)| bytes).sum::<usize>(), self.has_graphs)
        })
    }

    fn kept_for(&self, shapes: &Shapes, decided: Option<&Arc<Decided>>, grows: bool) -> Option<Arc<Specialization>> {
        let is_it = |one: &Specialization| match &one.key {
            Key::Shapes(known, elements, own) => {
                (*own == grows || !one.differs && one.rest.is_none()) && known == shapes && elements.as_ref() == decided
            }
            Key::Sizes(_) => false,
        };
        find_kept(&self.kept, is_it)
    }

    /// The specialization for input shapes that match the signature: a kept one, or a new one. With `grow`, caches grow
    /// in place, and the compiled graph has them in a dimension order of their own; and loops may be left to run round by
    /// round. Without, the model becomes a single graph if that is possible.
    ///
    /// # Errors
    /// An OnnxError for nodes that are not supported at these sizes, an OperationError if compiling fails, an
    /// InvalidStateError if the session is destroyed.
    pub fn specialize(&self, site: &Site, shapes: &Shapes, grow: bool) -> Result<Arc<Specialization>> {
        let made = self.specialize_at(site, shapes, None, grow);
        Ok(made.map_err(|error| self.signature.of_sizes(error, shapes))?.expect("nothing decides"))
    }

    /// Like [`specialize`](Self::specialize), for these elements of the inputs that decide. `None` if there is no
    /// template for them and none may be compiled, or if what is computed from them exceeds the range of integers.
    ///
    /// # Errors
    /// Same as [`specialize`](Self::specialize).
    pub(super) fn specialize_at(
        &self,
        site: &Site,
        shapes: &Shapes,
        decided: Option<&Arc<Decided>>,
        grow: bool,
    ) -> Result<Option<Arc<Specialization>>> {
        if let Some(known) = self.kept_for(shapes, decided, grow) {
            return Ok(Some(known));
        }
        let (model, free) = (self.model()?, self.free_sizes(shapes, decided, grow));
        let import = |dims: &[Dim]| self.record(site, &model, shapes, &free, decided, dims);
        let may_compile = || decided.is_none() || self.deciding().may_compile();
        let Some(found) = find(&self.templates, site, &free, &import, may_compile)? else { return Ok(None) };
        if decided.is_some() && found.saturates() {
            return Ok(None);
        }
        let filled = found.fill(site, || spare(&self.kept, site))?;
        let names = || self.signature.inputs.iter().map(|input| input.name.clone()).collect();
        let key = Key::Shapes(shapes.clone(), decided.cloned(), grow);
        let made = Arc::new(Specialization::new(site, filled, key, names));
        self.kept.add(&made);
        self.weigh();
        Ok(Some(made))
    }
}

/// Constants of a session as operands of a builder.
pub(super) fn bind_constants(
    builder: &mut Builder,
    options: &SessionOptions,
) -> std::collections::BTreeMap<String, crate::ir::OperandId> {
    let bind = |constant: &super::Constant| {
        let id = builder.constant_shared(constant.descriptor.clone(), constant.bytes.clone());
        (constant.name.clone(), id)
    };
    options.constants.iter().map(bind).collect()
}

impl Specialization {
    /// What `compile` resolves with, and the number of the specialization.
    pub(super) fn json(&self) -> Json {
        let port = |Port { name, descriptor }: &Port| json!({ "name": name, "dataType": descriptor.dtype.name(), "shape": descriptor.shape });
        let list = |ports: &[Port]| Json::from_iter(ports.iter().map(port));
        let [reads, writes] = self.graph_ports().map(|ports| list(&ports));
        json!({
            "id": self.id,
            "inputs": list(&self.inputs),
            "outputs": list(&self.outputs),
            "reads": reads,
            "writes": writes,
        })
    }

    /// The specialization that runs `filled`; `names` returns the names of the inputs of the session, or of a part of
    /// its model.
    pub(super) fn new(site: &Site, filled: Filled, key: Key, names: impl FnOnce() -> Vec<String>) -> Specialization {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let Filled { template, values, graph, resized } = filled;
        let bindings = template.recorded();
        let rest = bindings.rest(&values);
        let is_on_cpu = graph.as_ref().is_none_or(|graph| graph.is_on_cpu());
        let is_new = resized.is_none();
        // Everything that does not depend on sizes is reused.
        let (inputs, outputs, names, reads, writes, growing) = match resized {
            Some(Specialization { inputs, outputs, names, reads, writes, growing, .. }) => {
                (inputs, outputs, names, reads, writes, growing)
            }
            None => (Vec::new(), Vec::new(), names(), Vec::new(), Vec::new(), Vec::new()),
        };
        let mut made = Specialization {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            key,
            differs: bindings.differs,
            names,
            inputs,
            outputs,
            graph,
            reads,
            writes,
            growing,
            rest,
            is_on_cpu,
            last_run: AtomicU64::new(u64::MAX),
            excess: AtomicU64::new(0),
        };
        let [of_inputs, of_outputs] = &bindings.unknown;
        resize_ports(&mut made.inputs, &bindings.inputs, of_inputs, &values);
        resize_ports(&mut made.outputs, &bindings.outputs, of_outputs, &values);
        match is_new {
            true => made.find_terminals(site),
            false => made.resize_terminals(site),
        }
        made
    }

    /// Finds the inputs and outputs of the graph among those of the session.
    fn find_terminals(&mut self, site: &Site) {
        let Some(graph) = &self.graph else { return };
        fn terminals<'n>(
            site: &Site,
            names: impl Iterator<Item = &'n String>,
            ports: &[(String, Descriptor)],
        ) -> Vec<Terminal> {
            let mut places = HashMap::new();
            names.enumerate().for_each(|(at, name)| _ = places.entry(name).or_insert(at));
            let terminal = |(name, descriptor): &(String, Descriptor)| Terminal {
                at: places[name],
                own: own_tensor(site, descriptor.clone()),
                axis: None,
            };
            ports.iter().map(terminal).collect()
        }
        graph.with_ports(|[read, written]| {
            self.reads = terminals(site, self.names.iter(), read);
            self.writes = terminals(site, self.outputs.iter().map(|output| &output.name), written);
        });
        self.growing = graph.growing();
        for Growing { input, output, axis } in &self.growing {
            self.reads[*input].axis = Some(*axis);
            self.writes[*output].axis = Some(*axis);
        }
    }

    /// Updates the inputs and outputs of the graph to its current sizes.
    fn resize_terminals(&mut self, site: &Site) {
        let Some(graph) = &self.graph else { return };
        graph.with_ports(|[read, written]| {
            let terminals = self.reads.iter_mut().zip(read).chain(self.writes.iter_mut().zip(written));
            for (Terminal { own, .. }, (_, descriptor)) in
                terminals.filter(|(terminal, (_, now))| terminal.own.descriptor() != now)
            {
                match Arc::get_mut(own) {
                    Some(own) => own.reshape(&descriptor.shape),
                    None => {
                        let before = std::mem::replace(own, own_tensor(site, descriptor.clone()));
                        own.take_place_of(&before);
                    }
                }
            }
        });
    }

    /// For each output that the graph of a whole model writes anew, its index and its size in bytes.
    pub(super) fn written(&self) -> impl Iterator<Item = (usize, usize)> {
        let anew = self.writes.iter().filter(|terminal| terminal.axis.is_none() && self.rest.is_none());
        anew.map(|terminal| (terminal.at, terminal.own.descriptor().bytes()))
    }

    /// Whether the last run would have been quick if it had spared its caller these copies, see [`most_of_quick`].
    /// `has_graphs`: whether nodes of the model run graphs.
    pub(super) fn is_quick(&self, copies: usize, has_graphs: bool) -> bool {
        let nanos = |of: &AtomicU64| Duration::from_nanos(of.load(Ordering::Relaxed));
        self.is_on_cpu
            && match &self.rest {
                None => nanos(&self.last_run) <= most_of_quick(copies),
                // What the host computes takes a time that the data decide: slow runs count for a while.
                Some(rest) => {
                    rest.is_predictable(has_graphs)
                        && nanos(&self.last_run) != Duration::from_nanos(u64::MAX)
                        && nanos(&self.excess) <= FORGIVEN
                }
            }
    }

    /// Notes how long a run took that began at `start` and did more than the graph.
    pub(super) fn ran_since(&self, start: Instant) {
        let took = start.elapsed();
        self.last_run.store(took.as_nanos() as u64, Ordering::Relaxed);
        let before = self.excess.load(Ordering::Relaxed);
        let excess = match took.checked_sub(QUICK) {
            Some(more) => before.saturating_add(more.as_nanos() as u64),
            None => before - before / 16,
        };
        self.excess.store(excess, Ordering::Relaxed);
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// Takes the compiled graph, if there is one.
    pub(super) fn take_graph(&mut self) -> Option<Arc<CompiledGraph>> {
        self.graph.take()
    }

    fn is_built(&self) -> bool {
        self.graph.as_ref().is_none_or(|graph| graph.description().is_some())
    }

    /// The compiled graph; `None` if no output has any elements.
    pub fn graph(&self) -> Option<&Arc<CompiledGraph>> {
        self.graph.as_ref()
    }

    /// The indices of the inputs that the compiled graph reads among those of the session, and of the outputs that it
    /// computes among [`outputs`](Self::outputs), in its order.
    pub(super) fn places(&self) -> [Vec<usize>; 2] {
        [&self.reads, &self.writes].map(|terminals| terminals.iter().map(|terminal| terminal.at).collect())
    }

    /// The inputs that the compiled graph reads and the outputs that it computes, in its order.
    pub fn graph_ports(&self) -> [Vec<Port>; 2] {
        let port = |name: &String, terminal: &Terminal| Port {
            name: name.clone(),
            descriptor: terminal.own.descriptor().clone(),
        };
        let reads = self.reads.iter().map(|terminal| port(&self.names[terminal.at], terminal)).collect();
        let writes = self.writes.iter().map(|terminal| port(&self.outputs[terminal.at].name, terminal)).collect();
        [reads, writes]
    }

    /// Runs the graph. Puts the results into `values` in the order of the outputs, `None` for those with another
    /// target; on a GPU, the returned [`Later`] does that.
    ///
    /// # Errors
    /// A TypeError for a target of another type or shape, an OperationError if computing fails, an UnknownError if
    /// memory runs out.
    pub(super) fn run(
        self: &Arc<Self>,
        site: &Site,
        feeds: Vec<Feed>,
        targets: Vec<Target>,
        session: &Arc<Session>,
        values: Arc<Slot<Vec<Option<Output>>>>,
    ) -> Result<Option<Later>> {
        for (output, target) in self.outputs.iter().zip(&targets) {
            check_target(&output.name, target, &output.descriptor)?;
        }
        let start = Instant::now();
        let room_bytes = |(at, bytes)| matches!(targets[at], Target::Into(_)).then_some(bytes);
        let room: usize = self.written().filter_map(room_bytes).sum();
        let most = most_of_quick(lent_bytes(&feeds) + room);
        let mut results = self.empty_results(&targets);
        let Some(graph) = &self.graph else {
            values.put(results);
            return Ok(None);
        };
        let ran = self.run_graph(site, graph, feeds, &targets, session, &mut results);
        // On the CPU, the next run reuses the memory of feeds; graphs do not keep it.
        let recycle = |terminals: &[Terminal]| {
            terminals.iter().filter_map(|terminal| terminal.own.take()).for_each(|buffer| session.recycle(buffer));
        };
        recycle(&self.reads);
        if let Err(error) = ran {
            recycle(&self.writes);
            // Drops unfinished appends, which leaves the caches unchanged.
            self.growing.iter().for_each(|growing| self.writes[growing.output].own.set(Contents::Released));
            return Err(error);
        }
        self.taken_caches(site, &mut results, &targets);
        match site.backend {
            Backend::Cpu => {
                values.put(self.taken_results(results, &targets, session));
                // A run that goes on behind the graph notes its own time.
                if self.rest.is_none() && (room == 0 || start.elapsed() > most * ROOM_FACTOR) {
                    self.ran_since(start);
                }
                Ok(None)
            }
            Backend::Gpu(_) => self.read_results(results, &targets, values).map(Some),
        }
    }

    /// Binds the inputs and outputs of `graph`, and runs it. Adds new tensors to `results`.
    fn run_graph(
        &self,
        site: &Site,
        graph: &CompiledGraph,
        feeds: Vec<Feed>,
        targets: &[Target],
        session: &Arc<Session>,
        results: &mut [Option<Output>],
    ) -> Result<()> {
        let PlacedInputs { inputs, caches } = self.place_inputs(site, feeds, session)?;
        let outputs = self.place_outputs(site, &caches, targets, session, results)?;
        site.run(graph, "run", [&inputs, &outputs])
    }

    /// The outputs of the graph: room after `caches`, the tensors in `targets`, or tensors of its own. Adds new ones
    /// to `results`.
    fn place_outputs(
        &self,
        site: &Site,
        caches: &[Option<CacheRows>],
        targets: &[Target],
        session: &Arc<Session>,
        results: &mut [Option<Output>],
    ) -> Result<Vec<Arc<Tensor>>> {
        for Growing { input, output, .. } in &self.growing {
            let (own, cache) = (&self.writes[*output].own, caches[*input].as_ref());
            let appended = cache.expect("a growing input is fed as a cache").append(own.descriptor().bytes())?;
            own.set(Contents::Appended(appended));
        }
        let mut outputs = Vec::with_capacity(self.writes.len());
        for Terminal { at, own, axis } in &self.writes {
            if axis.is_some() {
                outputs.push(own.clone());
                continue;
            }
            outputs.push(match &targets[*at] {
                Target::Tensor(tensor) => tensor.clone(),
                Target::New => {
                    let tensor = site.tensor(own.descriptor().clone());
                    tensor.place(&site.backend)?;
                    results[*at] = Some(Output::Tensor(tensor.clone()));
                    tensor
                }
                Target::Read | Target::Into(_) | Target::Unread => {
                    match site.backend {
                        Backend::Cpu => {
                            let len = own.descriptor().bytes();
                            let given = if let Target::Into(room) = &targets[*at] { room.take() } else { None };
                            let given = given.filter(|room| room.len() == len);
                            let bytes = given.map_or_else(|| session.pool.take(len), Ok)?;
                            own.fill(&site.backend, Arc::new(bytes))?;
                        }
                        Backend::Gpu(_) => own.place(&site.backend)?,
                    }
                    own.clone()
                }
            });
        }
        Ok(outputs)
    }

    /// Values for outputs that are read but have no elements.
    fn empty_results(&self, targets: &[Target]) -> Vec<Option<Output>> {
        let value = |(output, target): (&Port, &Target)| match target {
            Target::Read | Target::Into(_) if output.descriptor.is_empty() => {
                Some(Output::Bytes { descriptor: output.descriptor.clone(), bytes: Buffer::default() })
            }
            _ => None,
        };
        self.outputs.iter().zip(targets).map(value).collect()
    }

    /// The inputs of the graph, filled with the feeds.
    fn place_inputs(&self, site: &Site, feeds: Vec<Feed>, session: &Arc<Session>) -> Result<PlacedInputs> {
        let mut feeds: Vec<Option<Feed>> = feeds.into_iter().map(Some).collect();
        let mut inputs = Vec::with_capacity(self.reads.len());
        let mut caches = vec![None; self.reads.len()];
        for (Terminal { at, own, axis }, cache) in self.reads.iter().zip(&mut caches) {
            let feed = feeds[*at].take().expect("the graph reads each input once");
            if let Some(axis) = *axis {
                *cache = Some(self.rows_of(site, feed, *at, axis, session)?);
                inputs.push(own.clone());
                continue;
            }
            let fill = |bytes: Arc<Buffer>| -> Result<Arc<Tensor>> {
                own.fill(&site.backend, bytes)?.into_iter().for_each(|copied| session.recycle_shared(copied));
                Ok(own.clone())
            };
            inputs.push(match feed {
                Feed::Tensor(tensor) => tensor,
                Feed::Bytes(bytes) => fill(bytes)?,
                Feed::Cache(cache) => fill(Arc::new(cache.to_dense()?))?,
                Feed::Items(_) => unreachable!("graphs read tensors"),
            });
        }
        // Of the remaining feeds, the graph uses only the shapes.
        for feed in feeds.into_iter().flatten() {
            if let Feed::Bytes(bytes) = feed {
                session.recycle_shared(bytes);
            }
        }
        Ok(PlacedInputs { inputs, caches })
    }

    /// The rows of the feed for the session's input at index `at`; an output is appended to them along `axis`.
    fn rows_of(&self, site: &Site, feed: Feed, at: usize, axis: usize, session: &Arc<Session>) -> Result<CacheRows> {
        let backend = &site.backend;
        match feed {
            Feed::Cache(cache) if cache.axis == axis => cache.rows.on(backend),
            Feed::Cache(cache) => {
                CacheRows::of_dense(backend, cache.to_dense()?.bytes(), cache.descriptor.around(axis))
            }
            Feed::Tensor(tensor) => tensor.rows(backend, axis),
            Feed::Bytes(bytes) => {
                let name = &self.names[at];
                let port =
                    self.inputs.iter().find(|port| port.name == *name).expect("it is read, so that it has a type");
                let rows = CacheRows::of_dense(backend, bytes.bytes(), port.descriptor.around(axis))?;
                session.recycle_shared(bytes);
                Ok(rows)
            }
            Feed::Items(_) => unreachable!("graphs read tensors"),
        }
    }

    /// Adds the caches that the graph has appended to to `results`, or puts them into their targets.
    fn taken_caches(&self, site: &Site, results: &mut [Option<Output>], targets: &[Target]) {
        for &Growing { output, axis, .. } in &self.growing {
            let Terminal { at, own, .. } = &self.writes[output];
            let Some(rows) = own.finish() else { continue };
            let descriptor = self.outputs[*at].descriptor.clone();
            match &targets[*at] {
                Target::Unread => {}
                Target::Read | Target::Into(_) => {
                    results[*at] = Some(Output::Cache(Cache { descriptor, rows, axis }));
                }
                Target::New => {
                    let tensor = site.tensor(descriptor);
                    tensor.set(Contents::Rows(rows, axis));
                    results[*at] = Some(Output::Tensor(tensor));
                }
                Target::Tensor(tensor) => tensor.replace_rows(rows, axis),
            }
        }
    }

    /// `results` with the outputs that the graph computed on the CPU.
    fn taken_results(
        &self,
        mut results: Vec<Option<Output>>,
        targets: &[Target],
        session: &Arc<Session>,
    ) -> Vec<Option<Output>> {
        for Terminal { at, own, .. } in &self.writes {
            let Some(bytes) = own.take() else { continue };
            match targets[*at] {
                Target::Read | Target::Into(_) => {
                    results[*at] = Some(Output::Bytes { descriptor: own.descriptor().clone(), bytes });
                }
                Target::Unread | Target::New | Target::Tensor(_) => session.recycle(bytes),
            }
        }
        results
    }

    /// Waits for the outputs from the GPU later, and then puts them, with `results`, into `values`.
    fn read_results(
        self: &Arc<Self>,
        mut results: Vec<Option<Output>>,
        targets: &[Target],
        values: Arc<Slot<Vec<Option<Output>>>>,
    ) -> Result<Later> {
        let mut reading = Vec::new();
        for Terminal { at, own, .. } in self.writes.iter().rev().filter(|terminal| terminal.axis.is_none()) {
            if let Target::Read | Target::Into(_) = targets[*at] {
                let read = Arc::new(Read::default());
                reading.push((*at, own.clone(), own.read_later(read.clone())?, read));
            }
        }
        Ok(Box::new(move |patience| {
            while let Some((at, own, later, read)) = reading.last_mut() {
                match later(patience)? {
                    Err(error) => return Some(Err(error)),
                    Ok(()) => {
                        let descriptor = own.descriptor().clone();
                        results[*at] = read.take().map(|bytes| Output::Bytes { descriptor, bytes });
                    }
                }
                reading.pop();
            }
            values.put(std::mem::take(&mut results));
            Some(Ok(()))
        }))
    }
}
