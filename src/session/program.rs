//! Models that are cut: a graph whose sizes, branches or numbers of rounds depend on data runs in stages.
//!
//! A stage imports the remaining nodes as far as the known values allow, runs the result as one graph, and keeps the
//! values that the other nodes need. Of these nodes, some are computed on the host, those with graphs in attributes run
//! as programs of their own, and for others their operands are read. The rest is the next stage. Each stage has
//! templates: a run with other sizes and other data compiles nothing where they decide the same way.

use super::Session;
use super::control;
use super::known::{Data, Given, Held, Known, Role, constant, host, unnamed};
use super::lists;
use super::memory::each_weight;
use super::progress::Progress;
use super::specialization::{Key, Specialization, bytes_of, find_kept, spare};
use super::stage::{Stage, Stages, lock};
use super::template::{Form, FreeSizes, Recorded, find};
use super::value::{Feed, Item, Target};
use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::error::{Code, Error, ErrorKind, Result, amount};
use crate::ir::{self, Builder, bytes_of_sizes};
use crate::memory::{self, Buffer};
use crate::onnx::ModelError;
use crate::onnx::body::{Outlined, shapes_of};
use crate::onnx::cuts::{Kept, KeptTensor, Left, Rest};
use crate::onnx::decode::MAX_DEPTH;
use crate::onnx::error::{Cut, Unsupported, quoted, shortened};
use crate::onnx::flow::Flow;
use crate::onnx::graph::{Argument, ByName, Graph, GraphId, NameId, NameSet, Node, NodeId};
use crate::onnx::import::{self, KnownValues, Part, Place, Request, evaluate, import_part};
use crate::onnx::model::{Model, ValueInfo};
use crate::onnx::run_texts::RunTexts;
use crate::onnx::tensor::ElementType;
use crate::onnx::value::Value;
use crate::runtime::{Backend, Site, Weight};
use crate::shape::Descriptor;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// How many stages a program keeps in addition to two for each node.
const MIN_STAGES: usize = 64;

/// The values of a run.
pub(super) type Values = ByName<Held>;

/// A graph that runs in stages.
pub(super) struct Program {
    model: Arc<Model>,
    graph: GraphId,
    flow: Flow,
    /// Attributes of the call, if this is the body of a function.
    arguments: Option<Vec<Argument>>,
    depth: usize,
    wanted: Vec<NameId>,
    /// The state before any node has run.
    first: Arc<Stage>,
    stages: Stages,
    /// The programs of graphs in attributes, and of called functions.
    bodies: Mutex<HashMap<Called, Arc<Program>>>,
}

/// What a node runs as a program of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Called {
    Graph(GraphId),
    /// The function that this node calls, with the node's attributes.
    Function(NodeId),
}

/// A graph that is ready to run.
pub(super) struct Prepared {
    pub graph: Arc<Specialization>,
    /// Its inputs, by what they stand for.
    pub inputs: Vec<(NameId, Held)>,
}

/// A run of a cut session.
pub(super) struct Run<'a> {
    pub site: &'a Site<'a>,
    pub session: &'a Arc<Session>,
    /// The texts whose numbers it computes with.
    texts: Arc<RunTexts>,
}

pub(super) fn of_model(error: ModelError) -> Error {
    error.into_error()
}

/// An error about a node.
pub(super) fn at_node(node: Node, reason: impl std::fmt::Display) -> Error {
    let (name, operator) = (shortened(node.shown_name()), shortened(&node.operator().name));
    Error::coded(Code::ModelInvalid, format!("[{name}] {operator}: {reason}"))
}

impl Program {
    fn new(
        model: Arc<Model>,
        graph: GraphId,
        wanted: Vec<NameId>,
        arguments: Option<Vec<Argument>>,
        depth: usize,
    ) -> Program {
        let flow = Flow::of(&model.arena, graph, &wanted);
        let first = Stage::starting_at(flow.first().collect());
        let (stages, bodies) = Default::default();
        Program { model, graph, flow, arguments, depth, wanted, first, stages, bodies }
    }

    /// The main graph of `model`, for these values.
    pub fn of_model(model: Arc<Model>, wanted: Vec<NameId>) -> Program {
        let main = model.main;
        Program::new(model, main, wanted, None, 0)
    }

    /// The program of the graph in the attribute `name` of `node`.
    ///
    /// # Errors
    /// If it is missing.
    pub fn body(&self, node: Node, name: &str) -> Result<Arc<Program>> {
        let graph = self.model.arena.graph_of(&self.arguments(node)?, name);
        let graph = graph.ok_or_else(|| at_node(node, format!("the attribute {name} is missing")))?;
        Ok(self.called(Called::Graph(graph), || {
            let wanted = self.model.arena.graph(graph).output_values.clone();
            Program::new(self.model.clone(), graph, wanted, self.arguments.clone(), self.depth + 1)
        }))
    }

    /// The program of the function that `node` calls, if any.
    ///
    /// # Errors
    /// If functions are nested too deeply.
    pub fn function(&self, node: Node) -> Result<Option<Arc<Program>>> {
        let Some(function) = node.operator().function else { return Ok(None) };
        if self.depth >= MAX_DEPTH {
            return Err(at_node(node, format!("functions are nested more than {MAX_DEPTH} deep")));
        }
        let given = self.arguments(node)?;
        Ok(Some(self.called(Called::Function(node.id()), || {
            let function = self.model.function(function);
            let arguments = self.model.arena.with_defaults(given, &function.defaults);
            let wanted = self.model.arena.graph(function.graph).output_values.clone();
            Program::new(self.model.clone(), function.graph, wanted, Some(arguments), self.depth + 1)
        })))
    }

    fn called(&self, called: Called, make: impl FnOnce() -> Program) -> Arc<Program> {
        if let Some(known) = lock(&self.bodies).get(&called) {
            return known.clone();
        }
        let made = Arc::new(make());
        lock(&self.bodies).entry(called).or_insert(made).clone()
    }

    /// The attributes of a node.
    ///
    /// # Errors
    /// If one is a graph that a call cannot pass.
    pub fn arguments(&self, node: Node) -> Result<Vec<Argument>> {
        self.model.arena.arguments(node, self.arguments.as_deref()).map_err(of_model)
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The graph that it runs.
    pub fn graph(&self) -> &Graph {
        self.model.arena.graph(self.graph)
    }

    /// The declared outputs.
    pub fn outputs(&self) -> &[ValueInfo] {
        &self.graph().outputs
    }

    /// The constant of the file that a value has, if there is one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn initializer(&self, id: NameId) -> Result<Option<Held>> {
        let Some(record) = self.model.arena.initializer(id) else { return Ok(None) };
        let literal = record.load(&self.model.files).map_err(of_model)?;
        if literal.element == ElementType::String {
            let numbers = self.model.texts().numbers(&literal).map_err(of_model)?;
            let descriptor = Descriptor::new(DataType::Int32, literal.shape.as_slice());
            let held = Held::host(descriptor, Buffer::copy_of(memory::bytes_of(&numbers))?, Role::Constant);
            return Ok(Some(held.of_texts()));
        }
        Ok(Some(match literal.element.webnn() {
            None => Value::Literal(Arc::new(literal)),
            Some(dtype) => {
                let descriptor = Descriptor::new(dtype, literal.shape.as_slice());
                Held::host(descriptor, Buffer::copy_of(&literal.bytes)?, Role::Constant)
            }
        }))
    }

    /// Total number of templates of its stages, and of the graphs in attributes.
    #[cfg(test)]
    pub fn template_count(&self) -> usize {
        let own: usize = self.stages().iter().map(|stage| stage.templates.count()).sum();
        own + lock(&self.bodies).values().map(|body| body.template_count()).sum::<usize>()
    }

    /// For each of its stages, the number of nodes at which it begins.
    #[cfg(test)]
    pub fn stage_starts(&self) -> Vec<usize> {
        self.stages()[1..].iter().map(|stage| stage.starts.len()).collect()
    }

    /// Its stages so far.
    fn stages(&self) -> Vec<Arc<Stage>> {
        std::iter::once(self.first.clone()).chain(self.stages.all()).collect()
    }

    /// Calls `visit` with the weights of its stages, and of the programs that it calls, with their sizes in bytes; once for
    /// each owner.
    pub fn each_weight(&self, visit: &mut dyn FnMut(&Weight, usize)) {
        self.stages().iter().for_each(|stage| each_weight(&stage.kept, &stage.templates, visit));
        lock(&self.bodies).values().for_each(|body| body.each_weight(visit));
    }

    fn place(&self) -> Place<'_> {
        Place { arguments: self.arguments.as_deref(), depth: self.depth }
    }

    /// What follows for the types and shapes of its outputs from these values of `builder`.
    pub fn shapes(&self, run: &Run, builder: &Builder, values: &ByName<import::Value>) -> Vec<Option<Descriptor>> {
        let (model, nodes, place, wanted) = (&*self.model, &*self.flow.nodes, self.place(), &*self.wanted);
        shapes_of(&Outlined { model, nodes, place, wanted, stop: &run.session.stop }, builder, values)
    }

    fn progress(&self, values: Values) -> Progress<'_> {
        Progress::new(&self.flow, &self.first.starts, &self.wanted, values)
    }

    /// Runs the program with these values; returns the wanted ones.
    ///
    /// # Errors
    /// An OnnxError for an unsupported or invalid part of the model, an OperationError if computing fails.
    pub fn run(&self, run: &Run, values: Values) -> Result<Vec<Held>> {
        self.run_stages(run, self.progress(values))
    }

    /// Like [`run`](Self::run), after a graph that has left `rest`.
    ///
    /// # Errors
    /// Same as [`run`](Self::run).
    pub fn run_rest(&self, run: &Run, values: Values, rest: &Rest) -> Result<Vec<Held>> {
        let mut progress = self.progress(values);
        self.advance(run, &mut progress, rest)?;
        self.run_stages(run, progress)
    }

    fn run_stages(&self, run: &Run, mut progress: Progress) -> Result<Vec<Held>> {
        let mut stage = self.first.clone();
        loop {
            run.session.check_goes_on()?;
            self.use_lists(run, &mut progress)?;
            if progress.done == self.flow.nodes.len()
                && let Some(outputs) = self.wanted.iter().map(|id| progress.values.get(id).cloned()).collect()
            {
                return Ok(outputs);
            }
            if !progress.step.is_empty() {
                let (done, most) = (std::mem::take(&mut progress.step), MIN_STAGES + 2 * self.flow.nodes.len());
                stage = self.stages.after(run.session, &stage, &done, &progress.ready, most);
            }
            let before = progress.counters(&self.wanted);
            let ran = self.run_stage(run, &stage, &mut progress)?;
            let rest = ran.rest.as_ref().expect("a part has one");
            self.advance(run, &mut progress, rest)?;
            if progress.counters(&self.wanted) == before {
                return Err(self.stuck(&progress, &rest.left));
            }
        }
    }

    /// The error of a program whose stages make no more progress.
    fn stuck(&self, progress: &Progress, left: &[Left]) -> Error {
        if left.is_empty() {
            let missing = self.wanted.iter().find(|id| !progress.values.contains_key(id));
            let missing = missing.map_or("", |&id| self.model.arena.name(id));
            return Error::coded(Code::ModelInvalid, format!("nothing computes the output {}", quoted(missing)));
        }
        let left: Vec<Unsupported> = left.iter().map(|left| left.why.clone()).collect();
        let count = left.len();
        of_model(ModelError::unsupported(left, count))
    }

    /// Runs as much of `stage` as possible as one graph. Returns the compiled graph.
    fn run_stage(&self, run: &Run, stage: &Stage, progress: &mut Progress) -> Result<Arc<Specialization>> {
        let Prepared { graph, inputs } = self.specialize(run, stage, progress)?;
        for (id, value) in run.stage(&graph, inputs.into_iter().map(|(_, value)| value).collect())? {
            progress.add(id, value);
        }
        Ok(graph)
    }

    /// The values that it returns.
    pub fn wanted(&self) -> &[NameId] {
        &self.wanted
    }

    /// The graph that computes all that the program does with values like these, and its inputs; `None` if it takes
    /// several stages.
    ///
    /// # Errors
    /// Same as [`run`](Self::run).
    pub fn whole(&self, run: &Run, values: &Values) -> Result<Option<Prepared>> {
        let whole = self.specialize(run, &self.first, &self.progress(values.clone()))?;
        let is_whole = whole.graph.rest.as_ref().is_some_and(|rest| rest.remaining == 0);
        Ok(is_whole.then_some(whole))
    }

    /// As much of `stage` as possible as one graph, and its inputs.
    fn specialize(&self, run: &Run, stage: &Stage, progress: &Progress) -> Result<Prepared> {
        let values = &progress.values;
        let wanted: Vec<NameId> = self.wanted.iter().copied().filter(|id| !values.contains_key(id)).collect();
        let lists = values.keys().copied().filter(|&id| progress.is_list(id) && !progress.shown.contains(&id));
        let later: NameSet = lists.collect();
        let part = Part {
            model: &self.model,
            flow: &self.flow,
            waits: &progress.waits,
            starts: &stage.starts,
            place: self.place(),
            wanted: &wanted,
            later: &later,
            stop: &run.session.stop,
        };
        let mut guess = None;
        loop {
            let known_reads = lock(&stage.reads).clone();
            let is_guess = known_reads.is_none();
            let guessed = || guess.clone().unwrap_or_else(|| progress.may_read(&self.wanted, &later));
            let reads = known_reads.unwrap_or_else(guessed);
            let Given { mut known, sizes, inputs } = Given::of(values, &reads);
            known.later = later.iter().copied().collect();
            known.later.sort_unstable();
            let others = RefCell::new(None);
            let import = |dims: &[Dim]| {
                // A graph is of no use without what it reads, nor with inputs that only later nodes read.
                let unfit = || Error::new(ErrorKind::Operation, "the nodes of a stage read other values than expected");
                if others.borrow().is_some() {
                    return Err(unfit());
                }
                let (recorded, read) = import_stage(run, &part, (&known, dims), values)?;
                if read.iter().all(|id| reads.contains(id)) && (!is_guess || read.len() == reads.len()) {
                    return Ok(recorded);
                }
                others.replace(Some(read));
                Err(unfit())
            };
            let free = FreeSizes { form: Form::Known(known.clone()), sizes };
            let is_it = |one: &Specialization| matches!(one.key(), Key::Sizes(known) if known.begins(&free));
            if let Some(known) = find_kept(&stage.kept, is_it) {
                return Ok(Prepared { graph: known, inputs });
            }
            let found = find(&stage.templates, run.site, &free, &import, || true);
            if let Some(read) = others.take() {
                stage.add_reads(read);
                continue;
            }
            if is_guess && found.is_err() && !reads.is_empty() {
                // The fault may lie in a value that this stage does not read.
                guess = Some(Vec::new());
                continue;
            }
            let filled = found?.expect("it may be recorded").fill(run.site, || spare(&stage.kept, run.site))?;
            let names = || Given::names(inputs.len());
            let made = Arc::new(Specialization::new(run.site, filled, Key::Sizes(free), names));
            stage.add_reads(reads);
            stage.kept.add(&made);
            let bytes = bytes_of(&stage.kept);
            run.session.weigh_stage(bytes, stage.bytes.swap(bytes, Ordering::Relaxed));
            return Ok(Prepared { graph: made, inputs });
        }
    }

    /// After a graph that has left `rest`, runs the nodes that can run outside of a graph.
    fn advance(&self, run: &Run, progress: &mut Progress, rest: &Rest) -> Result<()> {
        rest.done.iter().for_each(|&place| progress.finish(place));
        for &Left { place, cut, .. } in rest.left.iter() {
            match cut {
                Cut::Value(input) => self.make_known(run, progress, place, input)?,
                Cut::Elements => self.evaluate(run, progress, place)?,
                Cut::Control => self.control(run, progress, place)?,
                Cut::Waiting => {}
            }
        }
        Ok(())
    }

    /// Reads the elements of an input of the node at `place`.
    fn make_known(&self, run: &Run, progress: &mut Progress, place: u32, input: usize) -> Result<()> {
        let node = self.flow.node(&self.model.arena, place);
        let id = node.input(input).ok_or_else(|| at_node(node, "an input is missing"))?;
        let Some(value) = progress.values.get_mut(&id) else { return Ok(()) };
        if let Some(known) = run.known(value)? {
            *value = known;
            progress.known += 1;
        }
        Ok(())
    }

    /// Runs the nodes that read lists: joining a list is worth a graph, looking into it is not.
    fn use_lists(&self, run: &Run, progress: &mut Progress) -> Result<()> {
        while let Some(place) = progress.fresh.pop_first() {
            let lists: Vec<NameId> = self.flow.reads(place).filter(|&id| progress.is_list(id)).collect();
            if lists.iter().all(|id| progress.shown.contains(id)) {
                continue;
            }
            run.session.check_goes_on()?;
            let node = self.flow.node(&self.model.arena, place);
            if node.operator().is("ConcatFromSequence") {
                progress.shown.extend(lists);
            } else if node.operator().function.is_some() || self.model.arena.has_graph(&self.arguments(node)?) {
                self.control(run, progress, place)?;
            } else if let Some(list) = node.input(0).filter(|&id| progress.is_list(id) && lists::runs(node)) {
                self.use_list(run, progress, place, list)?;
            } else {
                self.evaluate(run, progress, place)?;
            }
        }
        Ok(())
    }

    /// Runs a node with graphs, or the call of a function.
    fn control(&self, run: &Run, progress: &mut Progress, place: u32) -> Result<()> {
        let node = self.flow.node(&self.model.arena, place);
        let outputs = control::run(self, run, node, &progress.values)?;
        if node.named_outputs() > outputs.len() {
            let (named, got) = (node.named_outputs(), outputs.len());
            return Err(at_node(node, format!("it names {} and has {got}", amount(named, "output"))));
        }
        for (id, output) in node.outputs().iter().zip(outputs) {
            id.iter().for_each(|&id| progress.add(id, output.clone()));
        }
        progress.finish(place);
        Ok(())
    }

    /// Runs a node whose first input is the list `id`.
    fn use_list(&self, run: &Run, progress: &mut Progress, place: u32, id: NameId) -> Result<()> {
        let node = self.flow.node(&self.model.arena, place);
        let Some(Value::Sequence(list)) = progress.take(id) else { unreachable!("it is a list") };
        let output = lists::run(self, run, node, list, &progress.values)?;
        if let Some(id) = node.output(0) {
            progress.add(id, output);
        }
        progress.finish(place);
        Ok(())
    }

    /// Computes a node on the host.
    fn evaluate(&self, run: &Run, progress: &mut Progress, place: u32) -> Result<()> {
        let node = self.flow.node(&self.model.arena, place);
        let mut builder = Builder::new();
        let mut given = ByName::default();
        for id in self.flow.reads(place) {
            if let Some(held) = progress.values.get(&id) {
                given.insert(id, constant(run.site, &mut builder, held)?);
            }
        }
        let work = (node, self.place());
        let compute = |graph: &ir::Graph, node: &ir::Node| run.site.evaluate(graph, node);
        let evaluated = evaluate(&self.model, work, &mut builder, given, (&run.session.stop, &compute, &run.texts));
        let (unknown, kept) = evaluated.map_err(of_model)?;
        if !unknown.is_empty() {
            return Err(at_node(node, "its results are unknown although its inputs are known"));
        }
        for (id, kept) in kept {
            progress.add(id, held(&kept, Role::Fed, &[])?);
        }
        progress.finish(place);
        Ok(())
    }
}

/// The values that a part of a model has from earlier ones.
struct Earlier<'a> {
    /// Those that the part is known to read.
    given: ByName<import::Value>,
    /// All of them.
    values: &'a Values,
    /// Those that it reads.
    read: Vec<NameId>,
}

impl KnownValues for Earlier<'_> {
    fn value(&mut self, builder: &mut Builder, id: NameId) -> Result<Option<import::Value>, ModelError> {
        let value = match self.given.get(&id) {
            Some(value) => value.clone(),
            None => {
                let Some(held) = self.values.get(&id) else { return Ok(None) };
                unnamed(builder, held).map_err(ModelError::of_constant)?
            }
        };
        // A function may read a value that the graph around it reads again.
        if !self.read.contains(&id) {
            self.read.push(id);
            self.given.insert(id, value.clone());
        }
        Ok(Some(value))
    }
}

/// Imports a part of a model with the values that are `known`, and the free sizes `dims`. Also returns which of all
/// values it reads: without one that is not known, its graph is of no use.
fn import_stage(
    run: &Run,
    part: &Part,
    (known, dims): (&Known, &[Dim]),
    values: &Values,
) -> Result<(Recorded, Vec<NameId>)> {
    let mut builder = run.site.backend.builder();
    let mut earlier = Earlier { given: known.values(&mut builder, dims)?, values, read: Vec::new() };
    let (outputs, rest) = import_part(part, &mut builder, &mut earlier).map_err(of_model)?;
    Ok((Recorded { builder, inputs: Vec::new(), outputs, rest: Some(rest), has_doubles: false }, earlier.read))
}

/// Converts `kept` to a value of the run; `outputs` are those of the graph.
///
/// # Errors
/// An UnknownError if memory runs out.
pub(super) fn held(kept: &Kept, role: Role, outputs: &[Held]) -> Result<Held> {
    kept.try_map(&mut |tensor: &KeptTensor| {
        Ok(match tensor {
            KeptTensor::Output(at) => outputs[*at].clone(),
            KeptTensor::Constant(descriptor, bytes) => Held::host(descriptor.clone(), bytes.clone(), role),
            KeptTensor::Sizes(descriptor, dims) => {
                let bytes = bytes_of_sizes(dims.iter().map(|dim| dim.pinned()), descriptor.dtype)?;
                Held::host(descriptor.clone(), bytes, Role::Known)
            }
        })
    })
}

impl Run<'_> {
    /// `value` with known elements, in memory of their own: templates keep them. `None` if they are known already.
    fn known(&self, value: &Held) -> Result<Option<Held>> {
        Ok(match value {
            Value::Tensor(data @ (Data::Device(_) | Data::Host(_, _, Role::Fed))) => {
                let copy = Buffer::copy_of(data.bytes(self.site)?.bytes())?;
                Some(Held::host(data.descriptor().clone(), copy, Role::Known))
            }
            _ => None,
        })
    }

    /// Runs the graph of `specialization` with these inputs. Returns the values to keep.
    ///
    /// # Errors
    /// An OperationError if computing fails, an UnknownError if memory runs out.
    pub fn stage(&self, specialization: &Arc<Specialization>, inputs: Vec<Held>) -> Result<Vec<(NameId, Held)>> {
        let site = self.site;
        let rest = specialization.rest.as_ref().expect("a part has one");
        let kept = |outputs: &[Held]| {
            rest.values.iter().map(|(id, kept)| Ok((*id, held(kept, Role::Constant, outputs)?))).collect()
        };
        if specialization.outputs.is_empty() {
            return kept(&[]);
        }
        let mut feeds = Vec::with_capacity(inputs.len());
        let mut seen = HashSet::new();
        for held in &inputs {
            feeds.push(Feed::Tensor(match held {
                // Graphs lock each tensor once.
                Value::Tensor(Data::Device(tensor)) if seen.insert(Arc::as_ptr(tensor)) => tensor.clone(),
                held => {
                    let descriptor = held.descriptor().expect("inputs are tensors").clone();
                    match descriptor.is_empty() {
                        true => site.tensor(descriptor),
                        false => site.tensor_of(descriptor, &held.bytes(site)?)?,
                    }
                }
            }));
        }
        let mut outputs = Vec::with_capacity(specialization.outputs.len());
        let mut targets = Vec::with_capacity(specialization.outputs.len());
        for port in &specialization.outputs {
            let tensor = site.tensor(port.descriptor.clone());
            match &site.backend {
                Backend::Cpu => {
                    let room = self.session.pool.take(port.descriptor.bytes())?;
                    tensor.fill(&site.backend, Arc::new(room))?;
                }
                Backend::Gpu(_) => tensor.place(&site.backend)?,
            }
            targets.push(Target::Tensor(tensor.clone()));
            outputs.push(Value::Tensor(Data::Device(tensor)));
        }
        specialization.run(site, feeds, targets, self.session, Arc::default())?;
        kept(&outputs)
    }
}

/// The value of an input that is a sequence or an optional.
fn held_items(items: Option<Vec<Item>>, input: &ValueInfo) -> Held {
    let Some(items) = items else { return Value::Absent };
    let mut all = items.into_iter().map(|(descriptor, bytes)| {
        let held = Held::host(descriptor, bytes, Role::Fed);
        if input.has_texts() { held.of_texts() } else { held }
    });
    match input.items.is_some_and(|items| items.is_sequence) {
        true => Value::list(all.collect()),
        false => all.next().unwrap_or(Value::Absent),
    }
}

impl Session {
    /// Runs a model that is cut, like [`Session::run`].
    ///
    /// # Errors
    /// Same as [`Session::run`].
    pub(super) fn run_cut(
        self: &Arc<Self>,
        site: &Site,
        specialization: &Arc<Specialization>,
        feeds: Vec<Feed>,
        targets: &[Target],
        texts: Option<Arc<RunTexts>>,
    ) -> Result<Vec<Option<super::Output>>> {
        let start = Instant::now();
        let program = self.program()?;
        let texts = texts.unwrap_or_else(|| Arc::new(RunTexts::new(program.model.clone())));
        let run = Run { site, session: self, texts };
        let ids: HashMap<&str, NameId> =
            program.model.required_inputs().map(|(input, id)| (input.name.as_str(), id)).collect();
        let id_of = |name: &str| ids.get(name).copied();
        let mut values = Values::default();
        for constant in &self.options.constants {
            let held = Held::host(constant.descriptor.clone(), constant.bytes.clone(), Role::Constant);
            values.extend(id_of(&constant.name).map(|id| (id, held)));
        }
        let mut inputs = Vec::new();
        for (input, feed) in self.signature.inputs.iter().zip(feeds) {
            let port = specialization.inputs.iter().find(|port| port.name == input.name);
            let held = match (feed, port) {
                (Feed::Tensor(tensor), _) => Value::Tensor(Data::Device(tensor)),
                (Feed::Items(items), _) => {
                    values.extend(id_of(&input.name).map(|id| (id, held_items(items, input))));
                    // No graph reads it.
                    inputs.push(host(DataType::Uint8, &[0], Buffer::default()));
                    continue;
                }
                (Feed::Cache(cache), _) => Held::host(cache.descriptor.clone(), cache.to_dense()?, Role::Fed),
                (Feed::Bytes(bytes), Some(port)) => {
                    // The host reads some operands twice: another thread must not change them in between.
                    let own = if bytes.is_lent() { Arc::new(Buffer::copy_of(bytes.bytes())?) } else { bytes };
                    Held::host(port.descriptor.clone(), own, Role::Fed)
                }
                // Of a type that WebNN does not have: nothing reads it.
                (Feed::Bytes(_), None) => host(DataType::Uint8, &[0], Buffer::default()),
            };
            let held = if input.is_texts() { held.of_texts() } else { held };
            inputs.push(held.clone());
            values.extend(id_of(&input.name).map(|id| (id, held)));
        }
        values.extend(run.stage(specialization, inputs)?);
        let outputs = program.run_rest(&run, values, specialization.rest.as_ref().expect("it is cut"))?;
        let mut results = Vec::new();
        for ((held, info), target) in outputs.into_iter().zip(&self.signature.outputs).zip(targets) {
            results.push(self.result(site, held, info, target)?);
        }
        specialization.ran_since(start);
        Ok(results)
    }

    /// Returns an output that is read, or puts it into its target.
    fn result(&self, site: &Site, held: Held, info: &ValueInfo, target: &Target) -> Result<Option<super::Output>> {
        let refused =
            |why: &str| Error::coded(Code::UnsupportedOperator, format!("the output {} {why}", quoted(&info.name)));
        if let Value::Sequence(_) | Value::Absent = held {
            return self.items(site, held, info, target).map_err(|why| refused(&why));
        }
        let Some(descriptor) = held.descriptor().cloned() else {
            return Err(refused("is a sequence, an optional or of a type, which WebNN does not have"));
        };
        if info.element.is_some_and(|element| element.carried().is_none()) {
            return Err(refused(&format!("is of type {}, which WebNN does not have", info.data_type)));
        }
        if let Value::Tensor(_) | Value::Texts(_) = held {
            info.check_texts(matches!(held, Value::Texts(_))).map_err(|why| refused(&why))?;
        }
        super::signature::check_target(&info.name, target, &descriptor)?;
        let read = || -> Result<Buffer> {
            match held {
                Value::Empty(_) => Ok(Buffer::default()),
                Value::Tensor(Data::Device(tensor)) | Value::Texts(Data::Device(tensor)) => {
                    let is_own = matches!(site.backend, Backend::Cpu) && Arc::strong_count(&tensor) == 1;
                    match is_own.then(|| tensor.take()).flatten() {
                        Some(bytes) => Ok(bytes),
                        None => Buffer::copy_of(site.bytes(&tensor)?.bytes()),
                    }
                }
                Value::Tensor(Data::Host(_, bytes, _)) | Value::Texts(Data::Host(_, bytes, _)) => {
                    match Arc::try_unwrap(bytes) {
                        Ok(own) => Ok(own),
                        Err(shared) => Buffer::copy_of(shared.bytes()),
                    }
                }
                _ => unreachable!("it has a descriptor"),
            }
        };
        Ok(match target {
            Target::Unread => None,
            Target::Read | Target::Into(_) => {
                let bytes = read()?;
                Some(super::Output::Bytes { descriptor, bytes })
            }
            Target::New => {
                let tensor = site.tensor(descriptor.clone());
                tensor.fill(&site.backend, Arc::new(read()?))?;
                Some(super::Output::Tensor(tensor))
            }
            Target::Tensor(tensor) => {
                tensor.replace(&site.backend, read()?);
                None
            }
        })
    }

    /// Returns an output that is a sequence, or nothing at all.
    ///
    /// # Errors
    /// The reason, to follow the name of the output.
    fn items(
        &self,
        site: &Site,
        held: Held,
        info: &ValueInfo,
        target: &Target,
    ) -> std::result::Result<Option<super::Output>, String> {
        match target {
            Target::Unread => return Ok(None),
            Target::Read | Target::Into(_) => {}
            Target::New | Target::Tensor(_) => return Err("is a sequence or an optional, and no tensor".to_string()),
        }
        let Value::Sequence(values) = held else { return Ok(Some(super::Output::Nothing)) };
        let item = |value: &Held| {
            let descriptor = value.descriptor().ok_or("holds a sequence, which a sequence cannot")?.clone();
            let is_texts = matches!(value, Value::Texts(_));
            if is_texts != info.has_texts() && !descriptor.is_empty() {
                return Err(format!(
                    "holds {}, and is declared as {}",
                    if is_texts { "texts" } else { "numbers" },
                    info.r#type
                ));
            }
            Ok((descriptor, value.bytes(site).map_err(|error| error.message)?))
        };
        Ok(Some(super::Output::List(values.iter().map(item).collect::<std::result::Result<_, String>>()?)))
    }

    /// The program of the model.
    pub(super) fn program(&self) -> Result<Arc<Program>> {
        let model = self.model()?;
        let mut program = lock(&self.program);
        if let Some(known) = &*program {
            return Ok(known.clone());
        }
        let request = Request { outputs: self.options.outputs.clone(), ..Request::default() };
        let wanted = request.wanted(&model).map_err(of_model)?;
        let made = Arc::new(Program::of_model(model, wanted));
        *program = Some(made.clone());
        Ok(made)
    }
}
