//! Importing: the nodes of a model, for given sizes of its free dimensions, become operators of a graph builder.
//!
//! All shapes are known here, so what exporters compute with shapes is folded as it is translated: an operator whose
//! operands are small constants becomes a constant (see [`Call::emit`](super::call::Call::emit)).

use super::call::Call;
use super::cuts::{Cuts, Rest};
use super::error::{Cut, MAX_LISTED, ModelError, Refusal, Result, Unsupported, quoted, shortened};
use super::model::{
    Dimension, Function, Graph, MAX_DEPTH, Model, ValueInfo, decode_attributes, decode_node, reads, shown_name,
};
use super::proto;
use super::registry::{self, Entry};
use super::sizes::Sizes;
use super::tensor::{ElementType, Literal, TensorRecord};
use crate::dimension::{Dim, dims, numbers};
use crate::dtype::DataType;
use crate::error::Code;
use crate::ir::{Builder, OperandId};
use crate::ops::elementwise::Elementwise;
use crate::shape::Descriptor;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// The work that loops and functions may add to that of the nodes of the model itself, in units of [`work`].
const MAX_WORK: usize = 50_000;

/// Bytes of an encoded node that cost as much as the node itself: names to look up, attributes.
const BYTES_PER_WORK: usize = 32;

/// What a node of so many bytes costs. A unit takes some microseconds.
fn work(bytes: usize) -> usize {
    1 + bytes / BYTES_PER_WORK
}

/// Bytes of memory that the translation of any model may need: operators, and constants that are not those of the file.
const MEMORY: usize = 24 << 20;

/// Bytes of memory that the translation may need for each byte of a file: formats that WebNN does not have are widened.
const MEMORY_PER_BYTE: usize = 8;

/// The most elements that are computed while nodes are translated: about two seconds of the naive references. Loops over
/// small constants could ask for any number.
const MAX_FOLDED: usize = 1 << 25;

/// Constants of at most this many bytes are copied; larger ones are read from the file when the graph is compiled.
const MAX_COPIED_BYTES: usize = 1 << 14;

/// What a name of the model stands for.
#[derive(Clone, Debug)]
pub enum Value {
    /// An operand of the builder.
    Operand(OperandId),
    /// A constant of a type that WebNN does not have.
    Literal(Rc<Literal>),
    /// A tensor without elements, which WebNN does not have either.
    Empty(Descriptor),
    /// A list of tensors.
    Sequence(Vec<Value>),
    /// An optional without an element; a node that reads it sees an input that is left out.
    Absent,
    /// What a node would have computed that is not supported.
    Unknown,
}

/// What to import a model for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Sizes of free dimensions by name.
    pub free_dimensions: BTreeMap<String, u32>,
    /// Whether dimensions of one name may have different sizes.
    pub loose_dimensions: bool,
    /// Shapes of inputs by name, from which free dimensions follow.
    pub shapes: BTreeMap<String, Vec<u32>>,
    /// The same shapes, where sizes are free: what is imported is good for others, too.
    pub dims: BTreeMap<String, Vec<Dim>>,
    /// Operands of the builder that take the place of inputs, by name.
    pub bindings: BTreeMap<String, OperandId>,
    /// Names of the values that are wanted; `None` for the outputs of the model.
    pub outputs: Option<Vec<String>>,
    /// Whether the import may leave nodes for later that depend on computed values, instead of refusing them.
    pub may_cut: bool,
}

impl Request {
    /// Names of the values that are wanted.
    fn outputs(&self, model: &Model) -> Vec<String> {
        let all = || model.graph.outputs.iter().map(|output| output.name.clone()).collect();
        self.outputs.clone().unwrap_or_else(all)
    }

    /// The same with `size` for every free dimension whose size is not known.
    fn with_sizes(&self, model: &Model, size: u32) -> Request {
        let mut free_dimensions = self.free_dimensions.clone();
        for dimension in model.graph.free_inputs().flat_map(|input| input.shape.iter().flatten()) {
            if let Dimension::Free(name) = dimension {
                free_dimensions.entry(name.clone()).or_insert(size);
            }
        }
        Request { free_dimensions, ..self.clone() }
    }
}

/// An input or output of an import.
#[derive(Debug)]
pub struct Binding {
    /// The name in the model.
    pub name: String,
    /// Type and shape; dimensions can be 0.
    pub descriptor: Descriptor,
    /// The operand; `None` for a tensor without elements.
    pub operand: Option<OperandId>,
}

/// What an import made.
#[derive(Debug)]
pub struct Imported {
    /// The inputs that the builder has now, in the order of the model.
    pub inputs: Vec<Binding>,
    /// The wanted values, in the order of the request; where nodes are left for later, the values that are kept for them.
    pub outputs: Vec<Binding>,
    /// What is left for later.
    pub rest: Option<Rest>,
}

/// Names of one graph, and of those around it.
pub(super) struct Scope<'a> {
    values: RefCell<HashMap<String, Value>>,
    initializers: &'a HashMap<String, TensorRecord>,
    outer: Option<&'a Scope<'a>>,
}

impl<'a> Scope<'a> {
    fn new(graph: &'a Graph, outer: Option<&'a Scope<'a>>) -> Scope<'a> {
        Scope { outer, ..Scope::of(&graph.initializers) }
    }

    /// A scope of its own, with these constants.
    pub(super) fn of(initializers: &'a HashMap<String, TensorRecord>) -> Scope<'a> {
        Scope { values: RefCell::default(), initializers, outer: None }
    }

    fn defines(&self, name: &str) -> bool {
        self.values.borrow().contains_key(name)
            || self.initializers.contains_key(name)
            || self.outer.is_some_and(|outer| outer.defines(name))
    }

    /// Whether `name` is that of a constant of this graph.
    pub fn has_initializer(&self, name: &str) -> bool {
        self.initializers.contains_key(name)
    }

    fn set(&self, name: &str, value: Value) {
        self.values.borrow_mut().insert(name.to_string(), value);
    }
}

/// Where nodes are translated: the names that they see and the version of the operators that they mean.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub scope: &'a Scope<'a>,
    pub opsets: &'a BTreeMap<String, i64>,
    /// Attributes of the call of the function whose body this is.
    pub arguments: Option<&'a [proto::Attribute]>,
    pub depth: usize,
    /// Whether it is the graph that the import is about, which can be cut.
    pub is_top: bool,
}

/// A graph in an attribute, which can be run several times.
pub struct Body {
    graph: Graph,
    /// Its initializers that were read already.
    constants: HashMap<String, Value>,
}

impl Body {
    /// Decodes the graph of an attribute of a node at `place`.
    pub(super) fn decode(encoded: &Bytes, place: Place) -> Result<Body> {
        let graph = Graph::decode(encoded, &|name| place.scope.defines(name), place.depth + 1)?;
        Ok(Body { graph, constants: HashMap::new() })
    }

    /// What the graph says about its outputs.
    pub fn outputs(&self) -> &[ValueInfo] {
        &self.graph.outputs
    }
}

/// The state of one import.
pub(super) struct Importer<'a> {
    pub model: &'a Model,
    pub builder: &'a mut Builder,
    pub(super) refused: RefusedNodes,
    /// The nodes that are left for later; `None` where none may be.
    pub(super) cuts: Option<Cuts>,
    /// Work that may still be done.
    work: usize,
    /// Bytes that translations may still need.
    pub memory: usize,
    /// Elements that may still be computed.
    pub foldable: usize,
    /// Whether whatever is constant is computed, however much it is.
    pub folds_all: bool,
    pub float_forms: FloatForms,
}

/// What operands on integers are in float32, for readers that want floats anyway.
#[derive(Default)]
pub struct FloatForms {
    /// For an exact int32 product, the product of the same factors.
    pub products: HashMap<OperandId, OperandId>,
    /// For a tensor of 8 bits and its only zero point, their difference.
    pub differences: HashMap<(OperandId, Option<OperandId>), OperandId>,
}

/// Appends what `request` wants of `model` to `builder`. If it fails, `builder` is as it was before.
///
/// # Errors
/// With every node that is not supported, for sizes that are missing or do not fit, and for weights that cannot be read.
pub fn import(model: &Model, builder: &mut Builder, request: &Request) -> Result<Imported> {
    // Inner graphs count with the nodes that they are in, and once more when they are run.
    let own: usize = model.graph.nodes.iter().map(|node| work(node.len())).sum();
    with_importer(model, builder, own, request.may_cut, |importer| importer.main_graph(request))
}

/// The nodes of a graph that are still to be imported, when others have been run.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The model.
    pub model: &'a Model,
    /// The constants that its nodes can read.
    pub initializers: &'a HashMap<String, TensorRecord>,
    /// The nodes.
    pub nodes: &'a [Bytes],
    /// The version of each operator set that they mean.
    pub opsets: &'a BTreeMap<String, i64>,
    /// Attributes of the call of the function whose body it is.
    pub arguments: Option<&'a [proto::Attribute]>,
    /// How deep it is in graphs and functions.
    pub depth: usize,
    /// Names of the values that are wanted.
    pub wanted: &'a [String],
}

/// Appends `part` to `builder`, where `values` are known and what the names `later` stand for is known later. Gives what is
/// kept of it: what is wanted, and what nodes read that are left for later. If it fails, `builder` is as it was before.
///
/// # Errors
/// As [`import`].
pub fn import_part(
    part: &Part,
    builder: &mut Builder,
    values: HashMap<String, Value>,
    later: HashSet<String>,
) -> Result<(Vec<Binding>, Rest)> {
    let own = part.nodes.iter().map(|node| work(node.len())).sum();
    with_importer(part.model, builder, own, true, |importer| {
        importer.cuts = Some(Cuts::behind(later));
        importer.part(part, values)
    })
}

/// What the nodes of `part` compute of constants, however much it is; nothing of it is left for later.
///
/// # Errors
/// As [`import`].
pub fn evaluate_part(
    part: &Part,
    builder: &mut Builder,
    values: HashMap<String, Value>,
) -> Result<(Vec<Binding>, Rest)> {
    with_importer(part.model, builder, 0, false, |importer| {
        (importer.folds_all, importer.memory, importer.foldable) = (true, usize::MAX, usize::MAX);
        importer.part(part, values)
    })
}

/// Calls `work` with the state of a new import for nodes that cost `own`. If it fails, `builder` is as it was before.
pub(super) fn with_importer<T>(
    model: &Model,
    builder: &mut Builder,
    own: usize,
    may_cut: bool,
    work: impl FnOnce(&mut Importer) -> Result<T>,
) -> Result<T> {
    let before = builder.checkpoint();
    model.files.check()?;
    let mut importer = Importer {
        model,
        builder,
        refused: RefusedNodes::default(),
        cuts: may_cut.then(Cuts::default),
        work: own.saturating_mul(2).saturating_add(MAX_WORK),
        memory: MEMORY.saturating_add(model.files.byte_length().saturating_mul(MEMORY_PER_BYTE)),
        foldable: MAX_FOLDED,
        folds_all: false,
        float_forms: FloatForms::default(),
    };
    let imported = work(&mut importer);
    model.files.release();
    if imported.is_err() {
        builder.roll_back(before);
    }
    imported
}

/// Sizes that stand in for free dimensions whose size is not known.
const PROBES: [u32; 2] = [16, 48];

/// Refuses a model that no sizes of its free dimensions make possible, as far as that can be told: it is imported with two
/// different sizes, and refused for what is wrong with both and no matter of sizes. `builder` has the operands of the request and is left as it
/// is. Gives what is left for later, as far as that can be told.
///
/// # Errors
/// With every node that is refused for the same reason twice, or with another reason that is the same twice.
pub fn check(model: &Model, builder: &mut Builder, request: &Request) -> Result<Option<Rest>> {
    let is_open = |input: &ValueInfo| {
        let is_given = request.shapes.contains_key(&input.name) || request.bindings.contains_key(&input.name);
        input.shape.is_none() && input_type(input).is_ok() && !is_given
    };
    if model.graph.free_inputs().any(is_open) {
        return Ok(None); // not even the number of dimensions is known
    }
    let mut probe = |size| {
        let before = builder.checkpoint();
        let outcome = import(model, builder, &request.with_sizes(model, size));
        builder.roll_back(before);
        outcome.map(|imported| imported.rest)
    };
    if request.with_sizes(model, 0).free_dimensions == request.free_dimensions {
        return probe(0); // nothing is free
    }
    let (first, second) = match PROBES.map(&mut probe) {
        [Ok(rest), _] | [_, Ok(rest)] => return Ok(rest),
        [Err(first), Err(second)] => (first, second),
    };
    if first.unsupported.is_empty() {
        return if first.message == second.message { Err(first) } else { Ok(None) };
    }
    let again: HashSet<_> = second.unsupported.iter().map(|node| (&node.name, &node.reason)).collect();
    let is_always = |node: &&Unsupported| !node.depends_on_sizes && again.contains(&(&node.name, &node.reason));
    let always: Vec<_> = first.unsupported.iter().filter(is_always).cloned().collect();
    match always.len() {
        0 => Ok(None),
        // The counts go beyond the lists.
        count if count == first.unsupported.len() => Err(first),
        count => Err(ModelError::unsupported(always, count)),
    }
}

/// The data type of an input.
fn input_type(input: &ValueInfo) -> Result<DataType> {
    input.element.and_then(ElementType::carried).ok_or_else(|| {
        let (name, data_type) = (&input.name, &input.data_type);
        let message = format!("the input '{name}' is of type {data_type}, which WebNN does not have");
        ModelError::coded(Code::UnsupportedOperator, message)
    })
}

/// Nodes that are refused: how many, and the first of them.
#[derive(Clone, Debug, Default)]
pub(super) struct RefusedNodes {
    listed: Vec<Unsupported>,
    count: usize,
}

impl RefusedNodes {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The first that was added when there were `count`, if it is listed.
    pub(super) fn since(&self, count: usize) -> Option<&Unsupported> {
        self.listed.get(count)
    }

    pub(super) fn add(&mut self, node: &proto::Node, opsets: &BTreeMap<String, i64>, refusal: &Refusal) {
        self.count += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(refused(node, opsets, refusal));
        }
    }

    /// # Errors
    /// If there are any.
    fn none(self) -> Result<()> {
        match self.count {
            0 => Ok(()),
            count => Err(ModelError::unsupported(self.listed, count)),
        }
    }
}

pub(super) fn refused(node: &proto::Node, opsets: &BTreeMap<String, i64>, refusal: &Refusal) -> Unsupported {
    Unsupported {
        name: shortened(shown_name(node)),
        operator: shortened(&node.op_type),
        domain: shortened(&node.domain),
        opset: opsets.get(&node.domain).copied().unwrap_or(0),
        reason: shortened(&refusal.reason),
        depends_on_sizes: refusal.depends_on_sizes,
    }
}

/// The function of `model` that `node` calls, if it calls one.
pub fn function_of<'a>(model: &'a Model, node: &proto::Node) -> Option<&'a Function> {
    // Most models have none, and most nodes are not calls.
    if model.functions.is_empty() {
        return None;
    }
    model.functions.get(&(node.domain.clone(), node.op_type.clone(), node.overload.clone()))
}

impl<'a> Importer<'a> {
    /// Translates the nodes of `part`, where `values` are known. Gives what is kept.
    fn part(&mut self, part: &Part, values: HashMap<String, Value>) -> Result<(Vec<Binding>, Rest)> {
        let Part { initializers, nodes, opsets, arguments, depth, wanted, .. } = *part;
        let given = values.keys().cloned().collect();
        let scope = Scope { values: values.into(), initializers, outer: None };
        self.nodes(nodes, Place { scope: &scope, opsets, arguments, depth, is_top: true })?;
        std::mem::take(&mut self.refused).none()?;
        self.kept(&scope, nodes, wanted, &given)
    }

    fn main_graph(&mut self, request: &Request) -> Result<Imported> {
        let graph = &self.model.graph;
        let wanted = request.outputs(self.model);
        let scope = Scope::new(graph, None);
        let (nodes, needed) = needed(&graph.nodes, &wanted)?;
        let inputs = self.inputs(request, &scope, &needed)?;
        let opsets = &self.model.metadata.opsets;
        self.nodes(&nodes, Place { scope: &scope, opsets, arguments: None, depth: 0, is_top: true })?;
        std::mem::take(&mut self.refused).none()?;
        if self.cuts.as_ref().is_none_or(Cuts::is_empty) {
            let outputs = wanted.iter().map(|name| self.output(&scope, name)).collect::<Result<_>>()?;
            return Ok(Imported { inputs, outputs, rest: None });
        }
        let given = graph.free_inputs().map(|input| input.name.clone()).collect();
        let (outputs, rest) = self.kept(&scope, &nodes, &wanted, &given)?;
        Ok(Imported { inputs, outputs, rest: Some(rest) })
    }

    /// Defines the inputs, those that nothing needs too: whether they are given right is checked all the same.
    fn inputs(&mut self, request: &Request, scope: &Scope, needed: &HashSet<String>) -> Result<Vec<Binding>> {
        let model = self.model;
        let known = |name: &String| model.graph.free_inputs().any(|input| &input.name == name);
        if let Some(name) = request.shapes.keys().chain(request.bindings.keys()).find(|name| !known(name)) {
            return Err(ModelError::coded(Code::UnknownFeed, format!("the model has no input {}", quoted(name))));
        }
        let bound: BTreeMap<&str, (DataType, Vec<u32>)> = request
            .bindings
            .iter()
            .map(|(name, id)| {
                let Descriptor { dtype, shape } = self.builder.descriptor(*id);
                (name.as_str(), (*dtype, numbers(shape)))
            })
            .collect();
        let given = |name: &str| request.shapes.get(name).or_else(|| bound.get(name).map(|(_, shape)| shape));
        let mut sizes = Sizes::new(request.free_dimensions.clone()).loose(request.loose_dimensions);
        for input in model.graph.free_inputs() {
            given(&input.name).map_or(Ok(()), |shape| sizes.bind(input, shape))?;
        }
        let mut bindings = Vec::new();
        for input in model.graph.free_inputs() {
            let is_needed = needed.contains(&input.name);
            let dtype = match input_type(input) {
                Err(_) if !is_needed => continue,
                dtype => dtype?,
            };
            if let Some(id) = request.bindings.get(&input.name) {
                let got = bound[input.name.as_str()].0;
                if got != dtype {
                    let name = quoted(&input.name);
                    let message = format!("the binding of {name} is of type {got}, expected {dtype}");
                    return Err(ModelError::coded(Code::Type, message));
                }
                scope.set(&input.name, Value::Operand(*id));
                continue;
            }
            let shape = match given(&input.name).map_or_else(|| sizes.shape(input), |shape| Ok(shape.clone())) {
                Err(_) if !is_needed => continue,
                shape => shape?,
            };
            let shape = request.dims.get(&input.name).cloned().unwrap_or_else(|| dims(&shape));
            bindings.push(self.input(scope, input, Descriptor { dtype, shape }, is_needed)?);
        }
        Ok(bindings)
    }

    fn input(&mut self, scope: &Scope, input: &ValueInfo, descriptor: Descriptor, is_needed: bool) -> Result<Binding> {
        let name = input.name.clone();
        if descriptor.is_empty() {
            scope.set(&name, Value::Empty(descriptor.clone()));
            return Ok(Binding { name, descriptor, operand: None });
        }
        if !is_needed {
            return Ok(Binding { name, descriptor, operand: None });
        }
        let id = self
            .builder
            .input(&name, descriptor.clone())
            .map_err(|error| ModelError::coded(Code::UnsupportedOperator, error.message))?;
        scope.set(&name, Value::Operand(id));
        Ok(Binding { name, descriptor, operand: Some(id) })
    }

    fn output(&mut self, scope: &Scope, name: &str) -> Result<Binding> {
        let fail = |why: String| ModelError::coded(Code::UnsupportedOperator, format!("the output '{name}' {why}"));
        let declared = self.model.graph.outputs.iter().find(|output| output.name == name);
        if let Some(element) = declared.and_then(|output| output.element).filter(|element| element.carried().is_none())
        {
            return Err(fail(format!("is of type {element}, which WebNN does not have")));
        }
        let value = self.value(scope, name)?.map(|value| self.computed(value)).transpose()?;
        let (descriptor, operand) = match value {
            Some(Value::Operand(id)) => {
                // What no node computes cannot be an output.
                let id = match self.builder.is_computed(id) {
                    true => id,
                    false => self
                        .builder
                        .add(Elementwise::Identity, vec![Some(id)], name)
                        .map_err(|error| fail(error.message))?[0],
                };
                (self.builder.descriptor(id).clone(), Some(id))
            }
            Some(Value::Empty(descriptor)) => (descriptor, None),
            Some(Value::Literal(literal)) => {
                return Err(fail(format!("is of type {}, which WebNN does not have", literal.element)));
            }
            Some(Value::Sequence(_)) => return Err(fail("is a sequence, which WebNN does not have".to_string())),
            Some(Value::Absent) => return Err(fail("is an optional without an element".to_string())),
            Some(Value::Unknown) | None => {
                let message = format!("the output '{name}' is no value of the model");
                return Err(ModelError::coded(Code::UnknownOutput, message));
            }
        };
        Ok(Binding { name: name.to_string(), descriptor, operand })
    }

    /// What `name` stands for in `scope`; initializers become constants when they are first used.
    pub fn value(&mut self, scope: &Scope, name: &str) -> Result<Option<Value>> {
        if let Some(value) = scope.values.borrow().get(name) {
            return Ok(Some(value.clone()));
        }
        let Some(record) = scope.initializers.get(name) else {
            return scope.outer.map_or(Ok(None), |outer| self.value(outer, name));
        };
        let literal = record.load(&self.model.files)?;
        if record.is_external {
            self.memory = self.memory.saturating_add(literal.bytes.len().saturating_mul(MEMORY_PER_BYTE));
        }
        let value = self.literal(literal)?;
        scope.set(name, value.clone());
        Ok(Some(value))
    }

    /// The value of a tensor of the file.
    pub fn literal(&mut self, literal: Literal) -> Result<Value> {
        let Some(dtype) = literal.element.webnn() else { return Ok(Value::Literal(Rc::new(literal))) };
        let descriptor = Descriptor::new(dtype, literal.shape);
        if descriptor.is_empty() {
            return Ok(Value::Empty(descriptor));
        }
        let window = match literal.bytes.len() > MAX_COPIED_BYTES {
            true => self.model.files.window_of(&literal.bytes),
            false => None,
        };
        let constant = match window {
            Some(window) => self.builder.constant_mapped(descriptor, window),
            None => self.builder.constant(descriptor, &literal.bytes),
        };
        constant.map(Value::Operand).map_err(|error| ModelError::new(error.message))
    }

    /// A constant of a floating-point type that WebNN does not have as one of float32.
    fn computed(&mut self, value: Value) -> Result<Value> {
        match value {
            Value::Literal(literal) if literal.element.computed().is_some() => {
                let mut bytes = Vec::with_capacity(literal.elements() * size_of::<f32>());
                literal.visit(|number| bytes.extend(number.to_bytes(DataType::Float32))).map_err(ModelError::new)?;
                let (element, shape) = (ElementType::Float, literal.shape.clone());
                self.literal(Literal { element, shape, bytes: bytes.into() })
            }
            other => Ok(other),
        }
    }

    /// Whether `body` can be run `rounds` times with a half of the work that is left.
    pub fn can_repeat(&self, body: &Body, rounds: i64) -> bool {
        let once: usize = body.graph.nodes.iter().map(|node| work(node.len())).sum();
        let rounds = usize::try_from(rounds).unwrap_or(0);
        rounds.saturating_mul(once + 1) <= self.work / 2
    }

    /// Counts a node of so many bytes.
    fn count_node(&mut self, bytes: usize) -> Result<()> {
        self.work = self.work.checked_sub(work(bytes)).ok_or_else(|| {
            ModelError::new("the model becomes too many nodes, with those of functions and of the rounds of loops")
        })?;
        Ok(())
    }

    fn nodes(&mut self, nodes: &[Bytes], place: Place) -> Result<()> {
        for (index, bytes) in nodes.iter().enumerate() {
            self.count_node(bytes.len())?;
            let node = decode_node(bytes)?;
            let outputs = match self.waits(&node, place)? {
                true => Err(Refusal::from("it needs what is computed behind a cut").unless(Cut::Waiting)),
                false => self.node(&node, place)?,
            };
            let outputs = match self.inner_cut(place).map_or(outputs, Err) {
                Ok(outputs) => outputs,
                Err(refusal) => {
                    self.refuse(index, &node, refusal, place)?;
                    Vec::new()
                }
            };
            let unknown = std::iter::repeat(Value::Unknown);
            let outputs = node.output.iter().zip(outputs.into_iter().chain(unknown));
            for (name, value) in outputs.filter(|(name, _)| !name.is_empty()) {
                place.scope.set(name, value);
            }
        }
        Ok(())
    }

    /// The outputs of a node, or why it is refused.
    fn node(&mut self, node: &proto::Node, place: Place) -> Result<Result<Vec<Value>, Refusal>> {
        let function = function_of(self.model, node);
        let entry = registry::find(node);
        if function.is_none() && entry.is_none() {
            return Ok(Err(registry::NO_SUCH.into()));
        }
        let mut inputs = Vec::new();
        for name in &node.input {
            let value = if name.is_empty() { None } else { self.value(place.scope, name)? };
            // Casts are exact.
            let value =
                if node.op_type == "Cast" { value } else { value.map(|value| self.computed(value)).transpose()? };
            inputs.push(value.filter(|value| !matches!(value, Value::Absent)));
        }
        if inputs.iter().any(|input| matches!(input, Some(Value::Unknown))) {
            return Ok(Ok(Vec::new()));
        }
        let attributes = arguments(decode_attributes(node)?, place.arguments);
        let outputs = match (function, entry) {
            (Some(function), _) => Ok(self.call_function(function, inputs, &attributes, place.depth)?),
            (None, Some(entry)) => opset_of(node, place.opsets)
                .and_then(|opset| self.call_entry(node, entry, inputs, attributes, (opset, place))),
            (None, None) => unreachable!("refused above"),
        };
        Ok(outputs.and_then(|outputs| check_outputs(node, outputs)))
    }

    fn call_entry(
        &mut self,
        node: &proto::Node,
        entry: &Entry,
        inputs: Vec<Option<Value>>,
        attributes: Vec<proto::Attribute>,
        (opset, place): (i64, Place),
    ) -> Result<Vec<Value>, Refusal> {
        if !inputs.iter().any(|input| matches!(input, Some(Value::Empty(_)))) {
            return (entry.translate)(&mut Call::new(self, node, inputs, attributes, opset, place));
        }
        let outputs = (entry.translate)(&mut Call::new(self, node, inputs.clone(), attributes.clone(), opset, place));
        outputs.or_else(|refusal| {
            self.without_elements((node, entry), &inputs, &attributes, (opset, place)).ok_or(refusal)
        })
    }

    fn call_function(
        &mut self,
        function: &Function,
        inputs: Vec<Option<Value>>,
        attributes: &[proto::Attribute],
        depth: usize,
    ) -> Result<Vec<Value>> {
        if depth >= MAX_DEPTH {
            return Err(ModelError::new(format!("functions are nested more than {MAX_DEPTH} deep")));
        }
        let arguments = function.arguments(attributes);
        let initializers = HashMap::new();
        let scope = Scope::of(&initializers);
        for (name, value) in function.inputs.iter().zip(inputs) {
            if let Some(value) = value {
                scope.set(name, value);
            }
        }
        let opsets = &function.opsets;
        self.nodes(
            &function.nodes,
            Place { scope: &scope, opsets, arguments: Some(&arguments), depth: depth + 1, is_top: false },
        )?;
        self.results(&scope, &function.outputs)
    }

    /// The outputs of the graph in an attribute for `inputs`, in the order of its own.
    pub fn run_body(&mut self, body: &mut Body, inputs: Vec<Value>, place: Place) -> Result<Vec<Value>> {
        // So that a body without nodes cannot be run for ever.
        self.count_node(0)?;
        let Body { graph, constants } = body;
        if graph.inputs.len() != inputs.len() {
            let (got, expected) = (graph.inputs.len(), inputs.len());
            return Err(ModelError::new(format!("the graph '{}' has {got} inputs, expected {expected}", graph.name)));
        }
        let shared = Scope {
            values: RefCell::new(std::mem::take(constants)),
            initializers: &graph.initializers,
            outer: Some(place.scope),
        };
        let initializers = HashMap::new();
        let scope = Scope { values: RefCell::default(), initializers: &initializers, outer: Some(&shared) };
        for (input, value) in graph.inputs.iter().zip(inputs) {
            scope.set(&input.name, value);
        }
        self.nodes(&graph.nodes, Place { scope: &scope, depth: place.depth + 1, is_top: false, ..place })?;
        let names: Vec<String> = graph.outputs.iter().map(|output| output.name.clone()).collect();
        let outputs = self.results(&scope, &names);
        *constants = shared.values.into_inner();
        outputs
    }

    fn results(&mut self, scope: &Scope, names: &[String]) -> Result<Vec<Value>> {
        names
            .iter()
            .map(|name| {
                let value = self.value(scope, name)?;
                value.ok_or_else(|| ModelError::new(format!("nothing computes the output '{name}'")))
            })
            .collect()
    }
}

/// The version of the operator set of `node`. Extensions have had a single one.
fn opset_of(node: &proto::Node, opsets: &BTreeMap<String, i64>) -> Result<i64, Refusal> {
    match opsets.get(&node.domain) {
        Some(&version) => Ok(version),
        None if node.domain.is_empty() => Err("the model does not say which version of ai.onnx it means".into()),
        None => Ok(1),
    }
}

/// Refuses outputs that are fewer than those that `node` names.
fn check_outputs(node: &proto::Node, outputs: Vec<Value>) -> Result<Vec<Value>, Refusal> {
    let named = node.output.iter().rposition(|name| !name.is_empty()).map_or(0, |at| at + 1);
    if outputs.len() >= named {
        return Ok(outputs);
    }
    let (count, all) = (outputs.len(), node.output.len());
    Err(Refusal(format!("only the first {count} of its {all} outputs can be computed")))
}

/// The attributes of a node in the body of a function: those that refer to attributes of the call take their values.
pub fn arguments(attributes: Vec<proto::Attribute>, call: Option<&[proto::Attribute]>) -> Vec<proto::Attribute> {
    let value = |attribute: proto::Attribute| {
        if attribute.ref_attr_name.is_empty() {
            return Some(attribute);
        }
        let given = call?.iter().find(|argument| argument.name == attribute.ref_attr_name)?;
        Some(proto::Attribute { name: attribute.name, ..given.clone() })
    };
    attributes.into_iter().filter_map(value).collect()
}

/// The nodes among `all` that the `wanted` values need, and the names of everything that they read.
pub fn needed(all: &[Bytes], wanted: &[String]) -> Result<(Vec<Bytes>, HashSet<String>)> {
    let mut names: HashSet<String> = wanted.iter().cloned().collect();
    let mut nodes = Vec::new();
    for bytes in all.iter().rev() {
        let node = decode_node(bytes)?;
        if node.output.iter().any(|name| names.contains(name)) {
            names.extend(reads(&node, 0)?);
            nodes.push(bytes.clone());
        }
    }
    nodes.reverse();
    Ok((nodes, names))
}

/// The data type of a value; `None` for what is not one tensor of a type of WebNN.
pub(super) fn value_type(builder: &Builder, value: &Value) -> Option<DataType> {
    match value {
        Value::Operand(id) => Some(builder.descriptor(*id).dtype),
        Value::Empty(descriptor) => Some(descriptor.dtype),
        _ => None,
    }
}
