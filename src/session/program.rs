//! Models that are cut: a graph whose sizes, branches or numbers of rounds depend on data runs in stages.
//!
//! A stage imports the remaining nodes as far as the known values allow, runs the result as one graph, and keeps the
//! values that the other nodes need. Of these nodes, some are computed on the host, those with graphs in attributes run
//! as programs of their own, and for others their operands are read. The rest is the next stage. Each stage has
//! templates: a run with other sizes and other data compiles nothing where they decide the same way.

use super::Session;
use super::control;
use super::known::{Given, Held, Role, bytes, constant, host};
use super::specialization::{self, Key, Specialization, bytes_of, find_kept, spare};
use super::template::{Bindings, Form, FreeSizes, Recorded, fill};
use super::value::{Feed, Target};
use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::error::{Code, Error, Result};
use crate::ir::{Builder, bytes_of_sizes};
use crate::memory::Buffer;
use crate::onnx::ModelError;
use crate::onnx::body::shapes_of;
use crate::onnx::cuts::{Kept, Left};
use crate::onnx::error::{Cut, Unsupported};
use crate::onnx::import::{Part, Value, arguments, evaluate_part, function_of, import_part, needed};
use crate::onnx::model::{Graph, MAX_DEPTH, Model, ValueInfo, decode_attributes, decode_node, reads};
use crate::onnx::proto;
use crate::onnx::tensor::TensorRecord;
use crate::runtime::{Backend, Site, Templates};
use crate::shape::Descriptor;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The values of a run by name.
pub(super) type Values = HashMap<String, Held>;

/// A graph that runs in stages.
pub(super) struct Program {
    model: Arc<Model>,
    /// The nodes that are needed, in an executable order.
    nodes: Vec<Bytes>,
    initializers: Arc<HashMap<String, TensorRecord>>,
    opsets: BTreeMap<String, i64>,
    /// Attributes of the call, if this is the body of a function.
    arguments: Option<Vec<proto::Attribute>>,
    depth: usize,
    /// Its inputs, in the order of the graph.
    pub inputs: Vec<String>,
    /// Its outputs.
    pub outputs: Vec<ValueInfo>,
    wanted: Vec<String>,
    /// Names that it defines, which shadow outer values.
    pub hides: HashSet<String>,
    /// Stages by their nodes.
    stages: Mutex<HashMap<Vec<usize>, Arc<Stage>>>,
    /// The programs of graphs in attributes, by node and attribute; those of functions by node and an empty name.
    bodies: Mutex<HashMap<(usize, String), Arc<Program>>>,
}

/// Nodes that run together, as far as the known values allow.
struct Stage {
    /// Indices into the nodes of the program.
    places: Vec<usize>,
    nodes: Vec<Bytes>,
    /// The names that the nodes read.
    reads: HashSet<String>,
    templates: Templates<Bindings>,
    kept: specialization::Kept,
}

/// A graph that is ready to run.
pub(super) struct Prepared {
    pub graph: Arc<Specialization>,
    /// The names of its inputs, and their values.
    pub inputs: Vec<(String, Held)>,
}

/// A run of a cut session.
pub(super) struct Run<'a> {
    pub site: &'a Site<'a>,
    pub session: &'a Session,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn of_model(error: ModelError) -> Error {
    error.into_error()
}

/// An error about a node.
pub(super) fn at_node(node: &proto::Node, reason: impl std::fmt::Display) -> Error {
    let name = crate::onnx::error::shortened(crate::onnx::model::shown_name(node));
    Error::coded(Code::ModelInvalid, format!("[{name}] {}: {reason}", node.op_type))
}

impl Program {
    /// The main graph of `model`, for the outputs `wanted`.
    ///
    /// # Errors
    /// If a node is malformed.
    pub fn of_model(model: Arc<Model>, wanted: Vec<String>) -> Result<Program> {
        let (nodes, _) = needed(&model.graph.nodes, &wanted).map_err(of_model)?;
        Ok(Program {
            nodes,
            initializers: Arc::new(model.graph.initializers.clone()),
            opsets: model.metadata.opsets.clone(),
            arguments: None,
            depth: 0,
            inputs: model.graph.free_inputs().map(|input| input.name.clone()).collect(),
            outputs: model.graph.outputs.clone(),
            wanted,
            hides: HashSet::new(),
            stages: Mutex::default(),
            bodies: Mutex::default(),
            model,
        })
    }

    /// The program of the graph in the attribute `name` of the node at index `place`.
    ///
    /// # Errors
    /// If it is missing or malformed.
    pub fn body(&self, place: usize, node: &proto::Node, name: &str) -> Result<Arc<Program>> {
        let key = (place, name.to_string());
        if let Some(known) = lock(&self.bodies).get(&key) {
            return Ok(known.clone());
        }
        let attributes = self.attributes(node)?;
        let encoded = attributes.into_iter().find(|attribute| attribute.name == name).and_then(|attribute| attribute.g);
        let encoded = encoded.ok_or_else(|| at_node(node, format!("the attribute {name} is missing")))?;
        let graph = Graph::decode(&encoded, &|_| true, self.depth + 1).map_err(of_model)?;
        let wanted: Vec<String> = graph.outputs.iter().map(|output| output.name.clone()).collect();
        let (nodes, _) = needed(&graph.nodes, &wanted).map_err(of_model)?;
        let mut hides: HashSet<String> = graph.initializers.keys().cloned().collect();
        for bytes in &graph.nodes {
            hides.extend(decode_node(bytes).map_err(of_model)?.output);
        }
        let mut initializers = (*self.initializers).clone();
        let inputs = graph.inputs.iter().map(|input| &input.name);
        hides.iter().chain(inputs).for_each(|name| drop(initializers.remove(name)));
        initializers.extend(graph.initializers);
        let body = Program {
            model: self.model.clone(),
            nodes,
            initializers: Arc::new(initializers),
            opsets: self.opsets.clone(),
            arguments: self.arguments.clone(),
            depth: self.depth + 1,
            inputs: graph.inputs.into_iter().map(|input| input.name).collect(),
            outputs: graph.outputs,
            wanted,
            hides,
            stages: Mutex::default(),
            bodies: Mutex::default(),
        };
        Ok(lock(&self.bodies).entry(key).or_insert(Arc::new(body)).clone())
    }

    /// The program of the function that the node at index `place` calls, if any.
    ///
    /// # Errors
    /// If functions are nested too deeply.
    pub fn function(&self, place: usize, node: &proto::Node) -> Result<Option<Arc<Program>>> {
        let Some(function) = function_of(&self.model, node) else { return Ok(None) };
        let key = (place, String::new());
        if let Some(known) = lock(&self.bodies).get(&key) {
            return Ok(Some(known.clone()));
        }
        if self.depth >= MAX_DEPTH {
            return Err(at_node(node, format!("functions are nested more than {MAX_DEPTH} deep")));
        }
        let (nodes, _) = needed(&function.nodes, &function.outputs).map_err(of_model)?;
        let body = Program {
            model: self.model.clone(),
            nodes,
            initializers: Arc::default(),
            opsets: function.opsets.clone(),
            arguments: Some(function.arguments(&self.attributes(node)?)),
            depth: self.depth + 1,
            inputs: function.inputs.clone(),
            outputs: function.outputs.iter().map(ValueInfo::unknown).collect(),
            wanted: function.outputs.clone(),
            hides: HashSet::new(),
            stages: Mutex::default(),
            bodies: Mutex::default(),
        };
        Ok(Some(lock(&self.bodies).entry(key).or_insert(Arc::new(body)).clone()))
    }

    /// The attributes of a node.
    ///
    /// # Errors
    /// If one is malformed.
    pub fn attributes(&self, node: &proto::Node) -> Result<Vec<proto::Attribute>> {
        Ok(arguments(decode_attributes(node).map_err(of_model)?, self.arguments.as_deref()))
    }

    /// The constant with this name in the file, if there is one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn initializer(&self, name: &str) -> Result<Option<Held>> {
        let Some(record) = self.initializers.get(name) else { return Ok(None) };
        let literal = record.load(&self.model.files).map_err(of_model)?;
        Ok(Some(match literal.element.webnn() {
            None => Held::Literal(Arc::new(literal)),
            Some(dtype) => {
                let descriptor = Descriptor::new(dtype, literal.shape.as_slice());
                Held::Host(descriptor, Arc::new(Buffer::copy_of(&literal.bytes)?), Role::Constant)
            }
        }))
    }

    /// The opset version of `ai.onnx`.
    pub fn opset(&self) -> i64 {
        self.opsets.get("").copied().unwrap_or(1)
    }

    /// Total number of templates of its stages, and of the graphs in attributes.
    #[cfg(test)]
    pub fn template_count(&self) -> usize {
        let own: usize = lock(&self.stages).values().map(|stage| stage.templates.count()).sum();
        own + lock(&self.bodies).values().map(|body| body.template_count()).sum::<usize>()
    }

    /// Size of the compiled graphs in bytes.
    pub fn bytes(&self) -> usize {
        let own: usize = lock(&self.stages).values().map(|stage| bytes_of(&stage.kept)).sum();
        own + lock(&self.bodies).values().map(|body| body.bytes()).sum::<usize>()
    }

    /// Runs the program with these values; returns the wanted ones.
    ///
    /// # Errors
    /// An OnnxError for an unsupported or invalid part of the model, an OperationError if computing fails.
    pub fn run(&self, run: &Run, values: Values) -> Result<Vec<Held>> {
        self.run_stages(run, values, (0..self.nodes.len()).collect(), HashSet::new())
    }

    /// Like [`run`](Self::run), after a first stage that left these nodes.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn run_rest(&self, run: &Run, mut values: Values, left: &[Left]) -> Result<Vec<Held>> {
        let mut shown = HashSet::new();
        let places: Vec<usize> = (0..self.nodes.len()).collect();
        let rest = self.advance(run, &mut values, &places, left, &mut shown)?;
        self.run_stages(run, values, rest, shown)
    }

    fn run_stages(
        &self,
        run: &Run,
        mut values: Values,
        mut places: Vec<usize>,
        mut shown: HashSet<String>,
    ) -> Result<Vec<Held>> {
        loop {
            run.session.check_goes_on()?;
            if places.is_empty()
                && let Some(outputs) = self.wanted.iter().map(|name| values.get(name).cloned()).collect()
            {
                return Ok(outputs);
            }
            let stage = self.stage(&places)?;
            values.retain(|name, _| stage.reads.contains(name) || self.wanted.contains(name));
            let before = self.progress(&values, &places, &shown);
            let ran = self.run_stage(run, &stage, &mut values, &shown)?;
            let rest = ran.rest.as_ref().expect("a part has one");
            places = self.advance(run, &mut values, &stage.places, &rest.left, &mut shown)?;
            if self.progress(&values, &places, &shown) == before {
                return Err(self.stuck(&values, &rest.left));
            }
        }
    }

    /// Counters of which every stage must change at least one: remaining nodes, outputs, used lists, and known
    /// elements.
    fn progress(&self, values: &Values, places: &[usize], shown: &HashSet<String>) -> [usize; 4] {
        let is_known = |value: &&Held| matches!(value, Held::Host(_, _, Role::Known));
        let wanted = self.wanted.iter().filter(|name| values.contains_key(*name));
        [places.len(), wanted.count(), shown.len(), values.values().filter(is_known).count()]
    }

    /// The error of a program whose stages make no more progress.
    fn stuck(&self, values: &Values, left: &[Left]) -> Error {
        if left.is_empty() {
            let missing = self.wanted.iter().find(|name| !values.contains_key(*name)).map_or("", |name| name);
            return Error::coded(Code::ModelInvalid, format!("nothing computes the output '{missing}'"));
        }
        let left: Vec<Unsupported> = left.iter().map(|left| left.why.clone()).collect();
        let count = left.len();
        of_model(ModelError::unsupported(left, count))
    }

    fn stage(&self, places: &[usize]) -> Result<Arc<Stage>> {
        if let Some(known) = lock(&self.stages).get(places) {
            return Ok(known.clone());
        }
        let nodes: Vec<Bytes> = places.iter().map(|&place| self.nodes[place].clone()).collect();
        let mut names = HashSet::new();
        for node in &nodes {
            names.extend(decode_node(node).and_then(|node| reads(&node, self.depth)).map_err(of_model)?);
        }
        let (templates, kept) = Default::default();
        let stage = Arc::new(Stage { places: places.to_vec(), nodes, reads: names, templates, kept });
        lock(&self.stages).insert(places.to_vec(), stage.clone());
        Ok(stage)
    }

    fn part<'a>(&'a self, nodes: &'a [Bytes], wanted: &'a [String]) -> Part<'a> {
        Part {
            model: &self.model,
            initializers: &self.initializers,
            nodes,
            opsets: &self.opsets,
            arguments: self.arguments.as_deref(),
            depth: self.depth,
            wanted,
        }
    }

    /// What follows for the types and shapes of its outputs from these values of `builder`.
    pub fn shapes(&self, builder: &Builder, values: &HashMap<String, Value>) -> Vec<Option<Descriptor>> {
        shapes_of(&self.part(&self.nodes, &self.wanted), builder, values)
    }

    /// The names of its results, in the order of the graph.
    pub fn wanted(&self) -> &[String] {
        &self.wanted
    }

    /// The graph that computes all that the program does with values like these, and its inputs; `None` if it takes
    /// several stages.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn whole(&self, run: &Run, values: &Values) -> Result<Option<Prepared>> {
        let places: Vec<usize> = (0..self.nodes.len()).collect();
        let whole = self.specialize(run, &*self.stage(&places)?, values, &HashSet::new())?;
        let is_whole = whole.graph.rest.as_ref().is_some_and(|rest| rest.left.is_empty());
        Ok(is_whole.then_some(whole))
    }

    /// Runs as much of `stage` as possible as one graph, and adds the values to keep to `values`.
    fn run_stage(
        &self,
        run: &Run,
        stage: &Stage,
        values: &mut Values,
        shown: &HashSet<String>,
    ) -> Result<Arc<Specialization>> {
        let Prepared { graph, inputs } = self.specialize(run, stage, values, shown)?;
        run.stage(&graph, inputs, values)?;
        Ok(graph)
    }

    /// As much of `stage` as possible as one graph, for values like these, and its inputs.
    fn specialize(&self, run: &Run, stage: &Stage, values: &Values, shown: &HashSet<String>) -> Result<Prepared> {
        let mut given = Given::default();
        let mut names: Vec<&String> = values.keys().filter(|name| stage.reads.contains(*name)).collect();
        names.sort_unstable();
        for name in names {
            match &values[name] {
                Held::Sequence(_) if !shown.contains(name) => given.known.later.push(name.clone()),
                value => given.add(name, value)?,
            }
        }
        let Given { known, sizes, inputs } = given;
        let later: HashSet<String> = known.later.iter().cloned().collect();
        let held: HashSet<&String> = values.keys().collect();
        let wanted: Vec<String> = self.wanted.iter().filter(|name| !held.contains(name)).cloned().collect();
        let free = FreeSizes { form: Form::Known(known), sizes };
        let import = |dims: &[Dim]| {
            let mut builder = Builder::with_limit(run.site.backend.max_value_bytes());
            let Form::Known(known) = &free.form else { unreachable!("made above") };
            let given = known.values(&mut builder, dims)?;
            let part = self.part(&stage.nodes, &wanted);
            let (outputs, rest) = import_part(&part, &mut builder, given, later.clone()).map_err(of_model)?;
            Ok(Recorded { builder, inputs: Vec::new(), outputs, rest: Some(rest) })
        };
        let is_it = |one: &Specialization| matches!(one.key(), Key::Sizes(known) if *known == free);
        let specialization = match find_kept(&stage.kept, is_it) {
            Some(known) => known,
            None => {
                let filled = fill(&stage.templates, run.site, &free, &import, || spare(&stage.kept, run.site))?;
                let names = || inputs.iter().map(|(name, _)| name.clone()).collect();
                let made = Arc::new(Specialization::new(run.site, filled, Key::Sizes(free.clone()), names));
                stage.kept.add(&made);
                run.session.weigh();
                made
            }
        };
        Ok(Prepared { graph: specialization, inputs })
    }

    /// Computes the remaining nodes that can run outside of a graph. Returns those that are still to run.
    fn advance(
        &self,
        run: &Run,
        values: &mut Values,
        places: &[usize],
        left: &[Left],
        shown: &mut HashSet<String>,
    ) -> Result<Vec<usize>> {
        let mut rest = Vec::new();
        for Left { index, cut, .. } in left {
            let place = places[*index];
            let node = decode_node(&self.nodes[place]).map_err(of_model)?;
            let reads = reads(&node, self.depth).map_err(of_model)?;
            let is_there = |name: &String| values.contains_key(name) || self.initializers.contains_key(name);
            let is_ready = reads.iter().all(is_there);
            let lists: Vec<&String> =
                reads.iter().filter(|name| matches!(values.get(*name), Some(Held::Sequence(_)))).collect();
            match cut {
                Cut::Value(input) => {
                    let name = node.input.get(*input).ok_or_else(|| at_node(&node, "an input is missing"))?;
                    if let Some(value) = values.get_mut(name) {
                        *value = run.known(value)?;
                    }
                    rest.push(place);
                }
                Cut::Elements => self.evaluate(run, &node, place, &reads, values)?,
                Cut::Control => self.control(run, &node, place, &reads, values)?,
                Cut::Waiting if !is_ready || lists.is_empty() => rest.push(place),
                // Joining a list is worth a graph; looking into it is not.
                Cut::Waiting if node.domain.is_empty() && node.op_type == "ConcatFromSequence" => {
                    shown.extend(lists.into_iter().cloned());
                    rest.push(place);
                }
                Cut::Waiting if self.is_control(&node)? => self.control(run, &node, place, &reads, values)?,
                Cut::Waiting => self.evaluate(run, &node, place, &reads, values)?,
            }
        }
        Ok(rest)
    }

    /// Whether `node` has graphs in attributes, or calls a function.
    fn is_control(&self, node: &proto::Node) -> Result<bool> {
        Ok(function_of(&self.model, node).is_some()
            || self.attributes(node)?.iter().any(|attribute| attribute.g.is_some()))
    }

    fn control(
        &self,
        run: &Run,
        node: &proto::Node,
        place: usize,
        reads: &[String],
        values: &mut Values,
    ) -> Result<()> {
        let outputs = control::run(self, run, node, place, reads, values)?;
        if node.output.len() > outputs.len() {
            let (named, got) = (node.output.len(), outputs.len());
            return Err(at_node(node, format!("it names {named} outputs and has {got}")));
        }
        let named = node.output.iter().cloned().zip(outputs).filter(|(name, _)| !name.is_empty());
        values.extend(named);
        Ok(())
    }

    /// Computes a node on the host.
    fn evaluate(
        &self,
        run: &Run,
        node: &proto::Node,
        place: usize,
        reads: &[String],
        values: &mut Values,
    ) -> Result<()> {
        let mut builder = Builder::new();
        let mut given = HashMap::new();
        for name in reads {
            if let Some(held) = values.get(name) {
                given.insert(name.clone(), constant(run.site, &mut builder, held)?);
            }
        }
        let wanted: Vec<String> = node.output.iter().filter(|name| !name.is_empty()).cloned().collect();
        let part = self.part(std::slice::from_ref(&self.nodes[place]), &wanted);
        let (outputs, rest) = evaluate_part(&part, &mut builder, given).map_err(of_model)?;
        for (name, kept) in rest.values {
            let output = |at: usize| -> Result<Held> {
                let output = &outputs[at];
                match output.operand {
                    None => Ok(Held::Host(output.descriptor.clone(), Arc::default(), Role::Fed)),
                    Some(_) => Err(at_node(node, "its results are unknown although its inputs are known")),
                }
            };
            let held = held(kept, Role::Fed, &output)?;
            values.insert(name, held);
        }
        Ok(())
    }
}

/// Converts `kept` to a value of the run; `output` returns the outputs of the graph.
///
/// # Errors
/// That of `output`, or an UnknownError if memory runs out.
pub(super) fn held(kept: Kept, role: Role, output: &dyn Fn(usize) -> Result<Held>) -> Result<Held> {
    Ok(match kept {
        Kept::Output(at) => output(at)?,
        Kept::Constant(descriptor, bytes) => Held::Host(descriptor, bytes, role),
        Kept::Sizes(descriptor, dims) => {
            let bytes = bytes_of_sizes(dims.iter().map(|dim| dim.pinned()), descriptor.dtype)?;
            Held::Host(descriptor, Arc::new(bytes), Role::Known)
        }
        Kept::Literal(literal) => Held::Literal(Arc::new(literal)),
        Kept::Sequence(all) => {
            let all = all.into_iter().map(|kept| held(kept, Role::Fed, output)).collect::<Result<_>>()?;
            Held::Sequence(Arc::new(all))
        }
        Kept::Absent => Held::Absent,
    })
}

impl Run<'_> {
    /// `value` with known elements, in memory of their own: templates keep them.
    fn known(&self, value: &Held) -> Result<Held> {
        Ok(match value {
            Held::Tensor(_) | Held::Host(_, _, Role::Fed) => {
                let descriptor = value.descriptor().expect("a tensor").clone();
                let copy = match descriptor.is_empty() {
                    true => Buffer::default(),
                    false => Buffer::copy_of(bytes(self.site, value)?.bytes())?,
                };
                Held::Host(descriptor, Arc::new(copy), Role::Known)
            }
            other => other.clone(),
        })
    }

    /// Runs the graph of `specialization` with these inputs, and adds the values to keep to `values`.
    ///
    /// # Errors
    /// An OperationError if computing fails, an UnknownError if memory runs out.
    pub fn stage(
        &self,
        specialization: &Arc<Specialization>,
        inputs: Vec<(String, Held)>,
        values: &mut Values,
    ) -> Result<()> {
        let site = self.site;
        let mut feeds = Vec::with_capacity(inputs.len());
        let mut seen = HashSet::new();
        for (_, held) in &inputs {
            feeds.push(Feed::Tensor(match held {
                // Graphs lock each tensor once.
                Held::Tensor(tensor) if seen.insert(Arc::as_ptr(tensor)) => tensor.clone(),
                held => {
                    let descriptor = held.descriptor().expect("inputs are tensors").clone();
                    match descriptor.is_empty() {
                        true => site.tensor(descriptor),
                        false => site.tensor_of(descriptor, &bytes(site, held)?)?,
                    }
                }
            }));
        }
        let mut outputs = Vec::with_capacity(specialization.outputs.len());
        let mut targets = Vec::with_capacity(specialization.outputs.len());
        for port in &specialization.outputs {
            if port.descriptor.is_empty() {
                outputs.push(Held::Host(port.descriptor.clone(), Arc::default(), Role::Fed));
                targets.push(Target::Unread);
                continue;
            }
            let tensor = site.tensor(port.descriptor.clone());
            match &site.backend {
                Backend::Cpu => {
                    let room = self.session.pool.take(port.descriptor.bytes())?;
                    tensor.fill(&site.backend, Arc::new(room))?;
                }
                Backend::Gpu(_) => tensor.place(&site.backend)?,
            }
            targets.push(Target::Tensor(tensor.clone()));
            outputs.push(Held::Tensor(tensor));
        }
        specialization.run(site, feeds, targets, self.session, Arc::default())?;
        let rest = specialization.rest.as_ref().expect("a part has one");
        for (name, kept) in &rest.values {
            let output = |at: usize| Ok(outputs[at].clone());
            values.insert(name.clone(), held(kept.clone(), Role::Constant, &output)?);
        }
        Ok(())
    }
}

impl Session {
    /// Runs a model that is cut, like [`Session::run`].
    ///
    /// # Errors
    /// Those of [`Session::run`].
    pub(super) fn run_cut(
        &self,
        site: &Site,
        specialization: &Arc<Specialization>,
        feeds: Vec<Feed>,
        targets: &[Target],
    ) -> Result<Vec<Option<super::Value>>> {
        let run = Run { site, session: self };
        let mut values = Values::new();
        for constant in &self.options.constants {
            let held = Held::Host(constant.descriptor.clone(), constant.bytes.clone(), Role::Constant);
            values.insert(constant.name.clone(), held);
        }
        let mut inputs = Vec::new();
        for (input, feed) in self.signature.inputs.iter().zip(feeds) {
            let port = specialization.inputs.iter().find(|port| port.name == input.name);
            let held = match (feed, port) {
                (Feed::Tensor(tensor), _) => Held::Tensor(tensor),
                (Feed::Cache(cache), _) => Held::Host(cache.descriptor.clone(), Arc::new(cache.to_dense()?), Role::Fed),
                (Feed::Bytes(bytes), Some(port)) => Held::Host(port.descriptor.clone(), bytes, Role::Fed),
                // Of a type that WebNN does not have: nothing reads it.
                (Feed::Bytes(_), None) => host(DataType::Uint8, &[0], Buffer::default()),
            };
            inputs.push((input.name.clone(), held.clone()));
            values.insert(input.name.clone(), held);
        }
        let program = self.program()?;
        run.stage(specialization, inputs, &mut values)?;
        let rest = specialization.rest.as_ref().expect("it is cut");
        let outputs = program.run_rest(&run, values, &rest.left)?;
        let mut results = Vec::new();
        for ((held, info), target) in outputs.into_iter().zip(&self.signature.outputs).zip(targets) {
            results.push(self.result(site, held, info, target)?);
        }
        Ok(results)
    }

    /// Returns an output that is read, or puts it into its target.
    fn result(&self, site: &Site, held: Held, info: &ValueInfo, target: &Target) -> Result<Option<super::Value>> {
        let refused = |why: &str| {
            let name = &info.name;
            Error::coded(Code::UnsupportedOperator, format!("the output '{name}' {why}, which WebNN does not have"))
        };
        let Some(descriptor) = held.descriptor().cloned() else {
            return Err(refused("is a sequence, an optional or of a type"));
        };
        if info.element.is_some_and(|element| element.carried().is_none()) {
            return Err(refused(&format!("is of type {}", info.data_type)));
        }
        super::signature::check_target(&info.name, target, &descriptor)?;
        let read = || -> Result<Buffer> {
            if descriptor.is_empty() {
                return Ok(Buffer::default());
            }
            match held {
                Held::Tensor(tensor) => {
                    let is_own = matches!(site.backend, Backend::Cpu) && Arc::strong_count(&tensor) == 1;
                    match is_own.then(|| tensor.take()).flatten() {
                        Some(bytes) => Ok(bytes),
                        None => Buffer::copy_of(site.bytes(&tensor)?.bytes()),
                    }
                }
                Held::Host(_, bytes, _) => match Arc::try_unwrap(bytes) {
                    Ok(own) => Ok(own),
                    Err(shared) => Buffer::copy_of(shared.bytes()),
                },
                _ => unreachable!("it has a descriptor"),
            }
        };
        Ok(match target {
            Target::Unread => None,
            Target::Read => {
                let bytes = read()?;
                Some(super::Value::Bytes { descriptor, bytes })
            }
            Target::New => {
                let tensor = site.tensor(descriptor.clone());
                tensor.fill(&site.backend, Arc::new(read()?))?;
                Some(super::Value::Tensor(tensor))
            }
            Target::Tensor(tensor) => {
                tensor.replace(&site.backend, read()?);
                None
            }
        })
    }

    /// The program of the model.
    pub(super) fn program(&self) -> Result<Arc<Program>> {
        let model = self.model()?;
        let mut program = lock(&self.program);
        if let Some(known) = &*program {
            return Ok(known.clone());
        }
        let outputs = || self.signature.outputs.iter().map(|output| output.name.clone()).collect();
        let wanted = self.options.outputs.clone().unwrap_or_else(outputs);
        let made = Arc::new(Program::of_model(model, wanted)?);
        *program = Some(made.clone());
        Ok(made)
    }
}
