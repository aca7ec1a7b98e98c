//! Import: translates the nodes of a model, for given sizes of its free dimensions, into operators of a graph builder.
//!
//! All shapes are known here. Shape arithmetic of exporters is therefore folded during translation: an operator with
//! small constant operands becomes a constant, see [`Call::emit`](super::call::Call::emit).

use super::budget::{Budget, MEMORY_PER_BYTE, work};
use super::call::Call;
use super::constants::Converted;
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
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// The value of a name in the model.
#[derive(Clone, Debug)]
pub enum Value {
    /// An operand of the builder.
    Operand(OperandId),
    /// A constant of a type that WebNN does not support.
    Literal(Rc<Literal>),
    /// A tensor without elements, which WebNN does not support either.
    Empty(Descriptor),
    /// A list of tensors.
    Sequence(Vec<Value>),
    /// An optional without an element; a node that reads it sees a missing input.
    Absent,
    /// The output of an unsupported node.
    Unknown,
}

/// The parameters of an import.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Sizes of free dimensions by name.
    pub free_dimensions: BTreeMap<String, u32>,
    /// Whether dimensions of the same name must have the same size.
    pub strict_dimensions: bool,
    /// Shapes of inputs by name; they determine free dimensions.
    pub shapes: BTreeMap<String, Vec<u32>>,
    /// The same shapes with free sizes: the import is then valid for other sizes as well.
    pub dims: BTreeMap<String, Vec<Dim>>,
    /// Operands of the builder to use in place of inputs, by name.
    pub bindings: BTreeMap<String, OperandId>,
    /// Names of the requested values; `None` for the outputs of the model.
    pub outputs: Option<Vec<String>>,
    /// Whether nodes that depend on computed values may be left for later, rather than refused.
    pub may_cut: bool,
    /// Whether loops become part of the graph even if their rounds are many, or depend on free sizes. Without a cut,
    /// they always do.
    pub unrolls_all: bool,
}

impl Request {
    /// Names of the requested values.
    fn outputs(&self, model: &Model) -> Vec<String> {
        let all = || model.graph.outputs.iter().map(|output| output.name.clone()).collect();
        self.outputs.clone().unwrap_or_else(all)
    }

    /// A copy with `size` for every free dimension whose size is unknown.
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
    /// Type and shape; dimensions may be 0.
    pub descriptor: Descriptor,
    /// The operand; `None` for a tensor without elements.
    pub operand: Option<OperandId>,
}

/// The result of an import.
#[derive(Debug)]
pub struct Imported {
    /// The inputs added to the builder, in the order of the model.
    pub inputs: Vec<Binding>,
    /// The requested values, in the order of the request; if nodes are left for later, the values kept for them.
    pub outputs: Vec<Binding>,
    /// The nodes left for later.
    pub rest: Option<Rest>,
}

/// The names of a graph and of those around it.
pub(super) struct Scope<'a> {
    pub(super) values: RefCell<HashMap<String, Value>>,
    pub(super) initializers: &'a HashMap<String, TensorRecord>,
    pub(super) outer: Option<&'a Scope<'a>>,
}

impl<'a> Scope<'a> {
    fn new(graph: &'a Graph, outer: Option<&'a Scope<'a>>) -> Scope<'a> {
        Scope { outer, ..Scope::of(&graph.initializers) }
    }

    /// An outermost scope with these constants.
    pub(super) fn of(initializers: &'a HashMap<String, TensorRecord>) -> Scope<'a> {
        Scope { values: RefCell::default(), initializers, outer: None }
    }

    pub(super) fn defines(&self, name: &str) -> bool {
        self.values.borrow().contains_key(name)
            || self.initializers.contains_key(name)
            || self.outer.is_some_and(|outer| outer.defines(name))
    }

    /// Whether `name` is a constant of this graph.
    pub fn has_initializer(&self, name: &str) -> bool {
        self.initializers.contains_key(name)
    }

    pub(super) fn set(&self, name: &str, value: Value) {
        self.values.borrow_mut().insert(name.to_string(), value);
    }
}

/// The context of a translation: the visible names and the operator set versions.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub scope: &'a Scope<'a>,
    pub opsets: &'a BTreeMap<String, i64>,
    /// Attributes of the function call, within the body of a function.
    pub arguments: Option<&'a [proto::Attribute]>,
    pub depth: usize,
    /// Whether this is the imported graph itself, which can be cut.
    pub is_top: bool,
}

/// The state of one import.
pub(super) struct Importer<'a> {
    pub model: &'a Model,
    pub builder: &'a mut Builder,
    pub(super) refused: RefusedNodes,
    /// The nodes left for later; `None` if none may be.
    pub(super) cuts: Option<Cuts>,
    /// Whether loops become part of the graph even if their rounds are many, or depend on sizes still unknown.
    pub(super) unrolls_all: bool,
    /// Remaining work.
    pub(super) work: usize,
    /// Remaining bytes for translations.
    pub memory: usize,
    /// Remaining number of elements to compute.
    pub foldable: Cell<usize>,
    /// What remains for trials of graphs that do not run. It is apart from the rest, so that trials do not make a model
    /// fail; `None` during a trial, whose own budget is that of the trials within it.
    pub(super) trials: Option<Budget>,
    /// Whether to compute all constants, of any size.
    pub folds_all: bool,
    pub float_forms: FloatForms,
    pub(super) converted: Converted,
}

/// The float32 counterparts of integer operands, for readers that need floats in any case.
#[derive(Default)]
pub struct FloatForms {
    /// For an exact int32 product, the product of the same factors in float32.
    pub products: HashMap<OperandId, OperandId>,
    /// For an 8-bit tensor and its single zero point, their difference in float32.
    pub differences: HashMap<(OperandId, Option<OperandId>), OperandId>,
}

/// Appends the part of `model` that `request` asks for to `builder`. On failure, `builder` remains unchanged.
///
/// # Errors
/// If nodes are unsupported (which the error lists), sizes are missing or do not match, or weights cannot be read.
pub fn import(model: &Model, builder: &mut Builder, request: &Request) -> Result<Imported> {
    // Nodes of inner graphs count with the nodes that contain the graphs, and again whenever these run.
    let own: usize = model.graph.nodes.iter().map(|node| work(node.len())).sum();
    with_importer(model, builder, own, request.may_cut, |importer| importer.main_graph(request))
}

/// The remaining nodes of a graph, to be imported after others have run.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The model.
    pub model: &'a Model,
    /// The constants available to its nodes.
    pub initializers: &'a HashMap<String, TensorRecord>,
    /// The nodes.
    pub nodes: &'a [Bytes],
    /// The version of each operator set.
    pub opsets: &'a BTreeMap<String, i64>,
    /// Attributes of the function call, if the graph is a function's body.
    pub arguments: Option<&'a [proto::Attribute]>,
    /// Nesting depth in graphs and functions.
    pub depth: usize,
    /// Names of the requested values.
    pub wanted: &'a [String],
}

/// Appends `part` to `builder`. `values` are known, those named in `later` become known later. Returns the kept values:
/// the requested ones, and those that the remaining nodes read. On failure, `builder` remains unchanged.
///
/// # Errors
/// Those of [`import`].
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

/// Evaluates the nodes of `part` on constants of any size; leaves nothing for later.
///
/// # Errors
/// Those of [`import`].
pub fn evaluate_part(
    part: &Part,
    builder: &mut Builder,
    values: HashMap<String, Value>,
) -> Result<(Vec<Binding>, Rest)> {
    with_importer(part.model, builder, 0, false, |importer| {
        (importer.folds_all, importer.memory, importer.foldable) = (true, usize::MAX, usize::MAX.into());
        importer.part(part, values)
    })
}

/// Calls `work` with the state of a new import for nodes that cost `own`. On failure, `builder` remains unchanged.
pub(super) fn with_importer<T>(
    model: &Model,
    builder: &mut Builder,
    own: usize,
    may_cut: bool,
    work: impl FnOnce(&mut Importer) -> Result<T>,
) -> Result<T> {
    model.files.check()?;
    // The nodes of a graph that does not run take up to twice the work of the node that contains it, as they are
    // smaller, for each of two trials.
    let trials = Budget::new(model, own.saturating_mul(4));
    let mut budget = Budget::new(model, own.saturating_mul(2));
    let imported = with_budget(model, builder, (&mut budget, Some(trials)), may_cut, work);
    model.files.release();
    imported
}

/// Calls `work` with the state of an import that uses `budget`, and leaves in it what remains, also on failure. On
/// failure, `builder` remains unchanged.
pub(super) fn with_budget<T>(
    model: &Model,
    builder: &mut Builder,
    (budget, trials): (&mut Budget, Option<Budget>),
    may_cut: bool,
    work: impl FnOnce(&mut Importer) -> Result<T>,
) -> Result<T> {
    let before = builder.checkpoint();
    let mut importer = Importer {
        model,
        builder,
        refused: RefusedNodes::default(),
        cuts: may_cut.then(Cuts::default),
        unrolls_all: !may_cut,
        work: budget.work,
        memory: budget.memory,
        foldable: budget.foldable.into(),
        trials,
        folds_all: false,
        float_forms: FloatForms::default(),
        converted: Converted::new(),
    };
    let imported = work(&mut importer);
    *budget = importer.budget();
    if imported.is_err() {
        builder.roll_back(before);
    }
    imported
}

/// Sizes that stand in for free dimensions of unknown size.
const PROBES: [u32; 2] = [16, 48];

/// As far as that can be told, rejects a model that no sizes of its free dimensions make possible: imports it with two
/// different sizes, and rejects it for problems with both that do not depend on sizes. `builder` holds the operands of
/// the request, and remains unchanged. Returns the nodes left for later, as far as known.
///
/// # Errors
/// If nodes are refused twice for the same reason (which the error lists), or the model twice for another common
/// reason.
pub fn check(model: &Model, builder: &mut Builder, request: &Request) -> Result<Option<Rest>> {
    let is_open = |input: &ValueInfo| {
        let is_given = request.shapes.contains_key(&input.name) || request.bindings.contains_key(&input.name);
        input.shape.is_none() && input_type(input).is_ok() && !is_given
    };
    if model.graph.free_inputs().any(is_open) {
        return Ok(None); // not even the rank is known
    }
    let mut probe = |size| {
        let before = builder.checkpoint();
        let outcome = import(model, builder, &request.with_sizes(model, size));
        builder.roll_back(before);
        outcome.map(|imported| imported.rest)
    };
    if request.with_sizes(model, 0).free_dimensions == request.free_dimensions {
        return probe(0); // no free dimensions
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
        // The counts exceed the lists.
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

/// Refused nodes: their number, and the first of them.
#[derive(Clone, Debug, Default)]
pub(super) struct RefusedNodes {
    listed: Vec<Unsupported>,
    count: usize,
}

impl RefusedNodes {
    /// Their number.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The first one added after `count` others, if it is listed.
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
    /// If any node was refused.
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

/// The function of `model` that `node` calls, if any.
pub fn function_of<'a>(model: &'a Model, node: &proto::Node) -> Option<&'a Function> {
    // Most models have no functions, and most nodes are not calls.
    if model.functions.is_empty() {
        return None;
    }
    model.functions.get(&(node.domain.clone(), node.op_type.clone(), node.overload.clone()))
}

impl<'a> Importer<'a> {
    /// Translates the nodes of `part`, given `values`. Returns the kept values.
    fn part(&mut self, part: &Part, values: HashMap<String, Value>) -> Result<(Vec<Binding>, Rest)> {
        let Part { initializers, nodes, opsets, arguments, depth, wanted, .. } = *part;
        let given = values.keys().cloned().collect();
        let scope = Scope { values: values.into(), initializers, outer: None };
        self.nodes(nodes, Place { scope: &scope, opsets, arguments, depth, is_top: true })?;
        std::mem::take(&mut self.refused).none()?;
        self.kept(&scope, nodes, wanted, &given)
    }

    fn main_graph(&mut self, request: &Request) -> Result<Imported> {
        self.unrolls_all |= request.unrolls_all;
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

    /// Defines the inputs, including unneeded ones, whose bindings are checked as well.
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
        let mut sizes = Sizes::new(request.free_dimensions.clone()).strict(request.strict_dimensions);
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
                // An output must be computed by a node.
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
                let message = format!("the output '{name}' is not a value of the model");
                return Err(ModelError::coded(Code::UnknownOutput, message));
            }
        };
        if !descriptor.is_empty() {
            descriptor.check("output").map_err(|problem| fail(format!("cannot leave the model: {problem}")))?;
        }
        Ok(Binding { name: name.to_string(), descriptor, operand })
    }

    /// The value of `name` in `scope`; initializers become constants when they are first used.
    pub fn value(&mut self, scope: &Scope, name: &str) -> Result<Option<Value>> {
        if let Some(value) = scope.values.borrow().get(name) {
            return Ok(Some(value.clone()));
        }
        let Some(record) = scope.initializers.get(name) else {
            return scope.outer.map_or(Ok(None), |outer| self.value(outer, name));
        };
        // All elements of a sparse tensor take memory, which must suffice before they are made.
        let without = match record.is_sparse() {
            true => Some(self.memory.checked_sub(record.byte_length()).ok_or_else(|| record.too_sparse())?),
            false => None,
        };
        let literal = record.load(&self.model.files)?;
        // The elements of a sparse tensor are not in a file, even if the values among them are.
        if record.is_external && !record.is_sparse() {
            self.memory = self.memory.saturating_add(literal.bytes.len().saturating_mul(MEMORY_PER_BYTE));
        }
        let named = |error: ModelError| ModelError { message: format!("tensor '{name}': {error}"), ..error };
        let value = self.literal(literal).map_err(named)?;
        // A literal of a type that WebNN has took it already.
        self.memory = without.map_or(self.memory, |without| self.memory.min(without));
        scope.set(name, value.clone());
        Ok(Some(value))
    }

    /// What remains to be used.
    pub(super) fn budget(&self) -> Budget {
        Budget { work: self.work, memory: self.memory, foldable: self.foldable.get() }
    }

    /// Deducts the work for a node of this number of bytes.
    pub(super) fn count_node(&mut self, bytes: usize) -> Result<()> {
        self.work = self.work.checked_sub(work(bytes)).ok_or_else(|| {
            ModelError::new("the model expands to too many nodes, including functions and the rounds of loops")
        })?;
        Ok(())
    }

    pub(super) fn nodes(&mut self, nodes: &[Bytes], place: Place) -> Result<()> {
        for (index, bytes) in nodes.iter().enumerate() {
            self.count_node(bytes.len())?;
            let node = decode_node(bytes)?;
            let outputs = match self.waits(&node, place)? {
                true => Err(Refusal::from("it needs a value computed after a cut").unless(Cut::Waiting)),
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

    /// The outputs of a node, or the reason for its refusal.
    fn node(&mut self, node: &proto::Node, place: Place) -> Result<Result<Vec<Value>, Refusal>> {
        let function = function_of(self.model, node);
        let entry = registry::find(node);
        if function.is_none() && entry.is_none() {
            return Ok(Err(registry::NO_SUCH.into()));
        }
        let mut inputs = Vec::new();
        for name in &node.input {
            let value = if name.is_empty() { None } else { self.value(place.scope, name)? };
            // Casts need the exact value, and the bits.
            let is_exact = matches!(node.op_type.as_str(), "Cast" | "BitCast");
            let value = if is_exact { value } else { value.map(|value| self.computed(value)).transpose()? };
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

    pub(super) fn results(&mut self, scope: &Scope, names: &[String]) -> Result<Vec<Value>> {
        names
            .iter()
            .map(|name| {
                let value = self.value(scope, name)?;
                value.ok_or_else(|| ModelError::new(format!("nothing computes the output '{name}'")))
            })
            .collect()
    }
}

/// The operator set version that applies to `node`. Extensions have a single version.
fn opset_of(node: &proto::Node, opsets: &BTreeMap<String, i64>) -> Result<i64, Refusal> {
    match opsets.get(&node.domain) {
        Some(&version) => Ok(version),
        None if node.domain.is_empty() => Err("the model does not state its version of ai.onnx".into()),
        None => Ok(1),
    }
}

/// Rejects a result with fewer outputs than `node` names.
fn check_outputs(node: &proto::Node, outputs: Vec<Value>) -> Result<Vec<Value>, Refusal> {
    let named = node.output.iter().rposition(|name| !name.is_empty()).map_or(0, |at| at + 1);
    if outputs.len() >= named {
        return Ok(outputs);
    }
    let (count, all) = (outputs.len(), node.output.len());
    Err(Refusal(format!("only the first {count} of its {all} outputs can be computed")))
}

/// The attributes of a node in a function's body: references to attributes of the call are replaced by their values.
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

/// The nodes among `all` that the `wanted` values depend on, and all names that these nodes read.
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

/// The data type of a value; `None` unless it is a tensor of a WebNN type.
pub(super) fn value_type(builder: &Builder, value: &Value) -> Option<DataType> {
    match value {
        Value::Operand(id) => Some(builder.descriptor(*id).dtype),
        Value::Empty(descriptor) => Some(descriptor.dtype),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::testing::TestGraph;

    #[test]
    fn the_elements_of_a_sparse_tensor_count_once() {
        let import = |size: i64| {
            let graph = TestGraph::default().input("x", ElementType::Float, &["1"]);
            let graph = graph.sparse("w", &[size, size], &[5.0], (&[3], &[1]));
            graph.node("Add", "x w", "y", vec![]).output("y").import(17, &Request::default())
        };
        // 16 MB of the 24 MiB that any model may use, and 36 MB.
        assert!(import(2000).is_ok());
        let message = import(3000).unwrap_err().message;
        assert!(message.contains("are too many for a model of this size"), "{message}");
    }
}
