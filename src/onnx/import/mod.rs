//! Import: translates the nodes of a model, for given sizes of its free dimensions, into operators of a graph builder.
//!
//! All shapes are known here. Shape arithmetic of exporters is therefore folded during translation: an operator with
//! small constant operands becomes a constant, see [`Call::emit`](super::call::Call::emit).

mod check;
mod inputs;
mod nodes;
mod refused;

pub(super) use check::PROBES;
pub use check::check;
pub(super) use inputs::input_type;
pub(super) use refused::RefusedNodes;
pub use refused::refused;

use super::budget::Budget;
use super::constants::Converted;
use super::cuts::{Cuts, KeptValue, Rest};
use super::error::Result;
use super::flow::Flow;
use super::graph::{Argument, ByName, NameId, NameSet, Node};
use super::model::Model;
use super::run_texts::RunTexts;
use super::stop::Stop;
use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::ir::{Builder, Evaluate, OperandId};
use crate::shape::Descriptor;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

/// The value of a name in the model.
pub type Value = super::value::Value<OperandId>;

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
    /// Whether inputs and outputs are those of the API: doubles are float32, and there are neither texts, which others convert
    /// to their numbers and back, nor lists and optionals, which others pass to the nodes that are left for later.
    pub for_api: bool,
    /// Ends the import before it is done.
    pub stop: Stop,
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
    /// Operands whose elements, if they were known, would let nodes be translated that are left for later, or choose
    /// between graphs that both run.
    pub undecided: Vec<OperandId>,
}

/// The context of a translation.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// Attributes of the function call, within the body of a function.
    pub arguments: Option<&'a [Argument]>,
    /// Nesting depth in graphs and functions.
    pub depth: usize,
}

/// Values that a part of a model has from earlier parts, looked up when they are first read.
pub trait KnownValues {
    /// The value with this id, if it is known, as one of `builder`.
    ///
    /// # Errors
    /// If a tensor cannot be had.
    fn value(&mut self, builder: &mut Builder, id: NameId) -> Result<Option<Value>>;
}

/// What an import starts from.
#[derive(Default)]
pub(super) struct Start<'a> {
    /// The nodes left for later; `None` if none may be.
    pub cuts: Option<Cuts>,
    /// Values that are known from earlier.
    pub source: Option<&'a mut dyn KnownValues>,
    /// Ends the import before it is done.
    pub stop: Stop,
    /// Computes operators whose operands are constants of any size, with all inputs known.
    pub compute: Option<Evaluate<'a>>,
    /// The texts of the run that the import is for.
    pub texts: Option<&'a RunTexts>,
}

/// The state of one import.
pub(super) struct Importer<'a> {
    pub model: &'a Model,
    pub builder: &'a mut Builder,
    pub(super) refused: RefusedNodes,
    /// The values so far, in the function whose body is translated.
    pub(super) values: ByName<Value>,
    /// Further values.
    source: Option<&'a mut dyn KnownValues>,
    /// The nodes left for later; `None` if none may be.
    pub(super) cuts: Option<Cuts>,
    /// Whether loops become part of the graph even if their rounds are many, or depend on sizes still unknown.
    pub(super) unrolls_all: bool,
    /// See [`Imported::undecided`].
    pub(super) undecided: Vec<OperandId>,
    /// Ends the import before it is done.
    pub(super) stop: Stop,
    /// Remaining work.
    pub(super) work: usize,
    /// Remaining bytes for translations.
    pub memory: usize,
    /// Remaining number of elements to compute.
    pub foldable: Cell<usize>,
    /// What remains for trials of graphs that do not run: a budget of its own, so that trials cannot make a model fail.
    /// `None` during a trial, whose budget also covers the trials within it.
    pub(super) trials: Option<Budget>,
    /// Computes all operators, whose operands are constants of any size.
    pub compute: Option<Evaluate<'a>>,
    /// The texts of the run that the import is for.
    pub texts: Option<&'a RunTexts>,
    /// For int32 products, the same in float32, for readers that need floats in any case.
    pub float_forms: HashMap<OperandId, OperandId>,
    pub(super) converted: Converted,
    /// Whether doubles are float64: on the CPU, and where nodes can be left to it. Otherwise, they are float32.
    pub(super) has_doubles: bool,
}

/// Appends the part of `model` that `request` asks for to `builder`. On failure, `builder` remains unchanged.
///
/// # Errors
/// If nodes are unsupported (which the error lists), sizes are missing or do not match, or weights cannot be read.
pub fn import(model: &Model, builder: &mut Builder, request: &Request) -> Result<Imported> {
    let wanted = request.wanted(model)?;
    let flow = Flow::of(&model.arena, model.main, &wanted);
    let start = Start { cuts: request.may_cut.then(Cuts::default), stop: request.stop.clone(), ..Start::default() };
    with_importer(model, builder, flow.work, start, |importer| importer.main_graph(request, &flow, &wanted))
}

/// The nodes of a graph that remain after others have run.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The model.
    pub model: &'a Model,
    /// The nodes of the graph.
    pub flow: &'a Flow,
    /// For each node, the number of values that it waits for.
    pub waits: &'a [u32],
    /// The places of nodes that wait for nothing.
    pub starts: &'a [u32],
    /// The context of the graph.
    pub place: Place<'a>,
    /// The requested values.
    pub wanted: &'a [NameId],
    /// Values that become known later.
    pub later: &'a NameSet,
    /// Ends the import before it is done.
    pub stop: &'a Stop,
}

/// Appends `part` to `builder`, as far as it can be translated. `source` returns the values that are known. Returns the
/// kept values: the requested ones, and those that the remaining nodes read. On failure, `builder` remains unchanged.
///
/// # Errors
/// Same as [`import`].
pub fn import_part(part: &Part, builder: &mut Builder, source: &mut dyn KnownValues) -> Result<(Vec<Binding>, Rest)> {
    let (cuts, stop) = (Cuts::behind(part.later.clone()), part.stop.clone());
    let start = Start { cuts: Some(cuts), source: Some(source), stop, ..Start::default() };
    with_importer(part.model, builder, part.flow.work, start, |importer| importer.part(part))
}

/// Evaluates `node` on constants of any size, unless `stop` ends that; `compute` computes its operators, and `texts` are
/// those of the run. Returns its outputs; those of the builder are not known.
///
/// # Errors
/// Same as [`import`].
pub fn evaluate(
    model: &Model,
    (node, place): (Node, Place),
    builder: &mut Builder,
    values: ByName<Value>,
    (stop, compute, texts): (&Stop, Evaluate, &RunTexts),
) -> Result<(Vec<Binding>, Vec<KeptValue>)> {
    let start = Start { stop: stop.clone(), compute: Some(compute), texts: Some(texts), ..Start::default() };
    model.files.check()?;
    #[cfg(test)]
    model.files.imports.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    // What the data of a run decide is limited by the machine alone.
    let mut budget = Budget { memory: usize::MAX, foldable: usize::MAX, ..Budget::new(model, 0) };
    with_budget(model, builder, (&mut budget, None), start, |importer| {
        importer.values = values;
        importer.nodes(&[node.id()], place)?;
        std::mem::take(&mut importer.refused).none()?;
        importer.keep_all(node.outputs().iter().copied().flatten())
    })
}

/// Calls `work` with the state of a new import for nodes that cost `own`. On failure, `builder` remains unchanged.
pub(super) fn with_importer<T>(
    model: &Model,
    builder: &mut Builder,
    own: usize,
    start: Start,
    work: impl FnOnce(&mut Importer) -> Result<T>,
) -> Result<T> {
    model.files.check()?;
    #[cfg(test)]
    model.files.imports.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    // The nodes of a graph that does not run take up to twice the work of the node that contains it, as they are
    // smaller, for each of two trials.
    let trials = Budget::new(model, own.saturating_mul(4));
    let mut budget = Budget::new(model, own.saturating_mul(2));
    let imported = with_budget(model, builder, (&mut budget, Some(trials)), start, work);
    model.files.release();
    imported
}

/// Calls `work` with the state of an import that uses `budget`, and leaves in it what remains, also on failure. On
/// failure, `builder` remains unchanged.
pub(super) fn with_budget<T>(
    model: &Model,
    builder: &mut Builder,
    (budget, trials): (&mut Budget, Option<Budget>),
    start: Start,
    work: impl FnOnce(&mut Importer) -> Result<T>,
) -> Result<T> {
    let before = builder.checkpoint();
    let has_doubles = builder.has_extensions() || start.cuts.is_some() || start.compute.is_some();
    let mut importer = Importer {
        model,
        builder,
        refused: RefusedNodes::default(),
        values: ByName::default(),
        // The bound of a trait object is shortened here only.
        source: match start.source {
            Some(source) => Some(source),
            None => None,
        },
        unrolls_all: start.cuts.is_none(),
        has_doubles,
        cuts: start.cuts,
        undecided: Vec::new(),
        stop: start.stop,
        work: budget.work,
        memory: budget.memory,
        foldable: budget.foldable.into(),
        trials,
        compute: start.compute,
        texts: start.texts,
        float_forms: HashMap::new(),
        converted: Converted::new(),
    };
    let imported = work(&mut importer);
    *budget = importer.budget();
    if imported.is_err() {
        builder.roll_back(before);
    }
    imported
}

/// The data type of a value; `None` unless it is a tensor of a WebNN type.
pub(super) fn value_type(builder: &Builder, value: &Value) -> Option<DataType> {
    match value {
        Value::Tensor(id) => Some(builder.descriptor(*id).dtype),
        Value::Empty(descriptor) => Some(descriptor.dtype),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::tensor::ElementType;
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
