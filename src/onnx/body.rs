//! Graphs in attributes of nodes: the branches of `If`, the bodies of loops.

use super::budget::{Budget, work};
use super::empty::{STAND_INS, extrapolated, stand_in};
use super::error::Result;
use super::graph::{Arena, ByName, Graph, GraphId, NameId, NodeId};
use super::import::{Importer, Place, Start, Value, with_budget};
use super::model::{Dimension, Model, ValueInfo};
use super::stop::Stop;
use super::tensor::ElementType;
use crate::dimension::Dim;
use crate::ir::Builder;
use crate::shape::Descriptor;

/// A graph in an attribute, which may run any number of times.
#[derive(Clone, Copy)]
pub struct Body<'m> {
    graph: &'m Graph,
}

impl<'m> Body<'m> {
    /// The graph with this id.
    pub fn of(arena: &'m Arena, id: GraphId) -> Body<'m> {
        Body { graph: arena.graph(id) }
    }

    /// The declared inputs of the graph.
    pub fn inputs(&self) -> &'m [ValueInfo] {
        &self.graph.inputs
    }

    /// Number of nodes of the graph, without those of graphs within.
    pub fn node_count(&self) -> usize {
        self.graph.nodes.len()
    }

    /// The declared outputs of the graph.
    pub fn outputs(&self) -> &'m [ValueInfo] {
        &self.graph.outputs
    }

    /// The values of outer graphs that it reads.
    pub fn captured(&self) -> &'m [NameId] {
        &self.graph.captured
    }

    /// The values of its inputs.
    pub fn input_values(&self) -> &'m [NameId] {
        &self.graph.input_values
    }
}

/// Nodes of a model of whose results only types and shapes are wanted.
#[derive(Clone, Copy)]
pub struct Outlined<'a> {
    /// The model.
    pub model: &'a Model,
    /// The nodes, in an executable order.
    pub nodes: &'a [NodeId],
    /// Their context.
    pub place: Place<'a>,
    /// The requested values.
    pub wanted: &'a [NameId],
    /// Ends the search before it is done.
    pub stop: &'a Stop,
}

impl Importer<'_> {
    /// Whether half of the remaining work suffices to run `body` `rounds` times.
    pub fn can_repeat(&self, body: Body, rounds: u64) -> bool {
        let once: usize = body.graph.nodes.iter().map(|&node| work(self.model.arena.node(node).size())).sum();
        let rounds = usize::try_from(rounds).unwrap_or(usize::MAX);
        rounds.saturating_mul(once + 1) <= self.work / 2
    }

    /// Runs the graph of an attribute on as many values as it has inputs; returns its outputs, in the graph's order. It
    /// may run any number of times.
    pub fn run_body(&mut self, Body { graph }: Body, inputs: Vec<Value>, place: Place) -> Result<Vec<Value>> {
        // Keeps a body without nodes from running forever.
        self.count_node(0)?;
        self.values.extend(graph.input_values.iter().copied().zip(inputs));
        self.nodes(&graph.nodes, Place { depth: place.depth + 1, ..place })?;
        self.results(&graph.output_values)
    }

    /// Types and shapes of the outputs of `body`, given the values that it reads, without adding anything to the builder;
    /// `None` for outputs whose shapes are not known, or if finding them takes more than half of what remains for trials.
    pub fn shapes_of_body(
        &mut self,
        Body { graph }: Body,
        values: &ByName<Value>,
        place: Place,
    ) -> Vec<Option<Descriptor>> {
        let place = Place { depth: place.depth + 1, ..place };
        let stop = self.stop.clone();
        let wanted = &graph.output_values;
        let outlined = Outlined { model: self.model, nodes: &graph.nodes, place, wanted, stop: &stop };
        let given = self.trials.unwrap_or(self.budget()).half();
        let mut left = given;
        let shapes = shapes_within(&outlined, self.builder, values, &mut left);
        match &mut self.trials {
            Some(trials) => trials.deduct(given, left),
            None => {
                let mut rest = self.budget();
                rest.deduct(given, left);
                (self.work, self.memory) = (rest.work, rest.memory);
                self.foldable.set(rest.foldable);
            }
        }
        shapes
    }
}

/// Types and shapes of the requested values, given values of `builder`, which may have no elements; `None` for those
/// whose shapes are not known, and for lists. All that is nested shares the budget of one import.
pub fn shapes_of(outlined: &Outlined, builder: &Builder, values: &ByName<Value>) -> Vec<Option<Descriptor>> {
    let files = &outlined.model.files;
    if files.check().is_err() {
        return vec![None; outlined.wanted.len()];
    }
    let shapes = shapes_within(outlined, builder, values, &mut Budget::new(outlined.model, 0));
    files.release();
    shapes
}

/// Like [`shapes_of`], within `budget`, in which it leaves what remains.
fn shapes_within(
    outlined: &Outlined,
    builder: &Builder,
    values: &ByName<Value>,
    budget: &mut Budget,
) -> Vec<Option<Descriptor>> {
    let Outlined { model, nodes, place, wanted, stop } = *outlined;
    let mut shapes_for = |size: u32| -> Vec<Option<Descriptor>> {
        let mut own = Builder::like(builder);
        let known = values.iter().filter_map(|(&id, value)| Some((id, stand_in(&mut own, builder, value, size)?)));
        let known: ByName<Value> = known.collect();
        let start = Start { stop: stop.clone(), ..Start::default() };
        let shapes = with_budget(model, &mut own, (budget, None), start, |importer| {
            // Keeps trials of graphs without nodes from being free.
            importer.count_node(0)?;
            importer.values = known;
            importer.nodes(nodes, place)?;
            let described = |&id: &NameId| Ok(importer.value(id)?.and_then(|value| importer.described(&value)));
            wanted.iter().map(described).collect::<Result<_>>()
        });
        shapes.unwrap_or_else(|_| vec![None; wanted.len()])
    };
    let small = shapes_for(STAND_INS[0]);
    // Without a size to stand in for, or a known shape to complete, a second trial would tell nothing new.
    if !values.values().any(has_no_elements) || small.iter().all(Option::is_none) {
        return small;
    }
    let large = shapes_for(STAND_INS[1]);
    small.iter().zip(&large).map(|(small, large)| extrapolated(small.as_ref()?, large.as_ref()?)).collect()
}

/// Whether `value` is a tensor without elements, or a list with one.
fn has_no_elements(value: &Value) -> bool {
    match value {
        Value::Empty(_) => true,
        Value::Sequence(values) => values.iter().any(has_no_elements),
        _ => false,
    }
}

/// Whether the type and all sizes of a value are declared.
pub fn is_described(info: &ValueInfo) -> bool {
    let is_fixed = |dimension: &Dimension| matches!(dimension, Dimension::Fixed(_));
    info.element.is_some() && info.shape.as_ref().is_some_and(|shape| shape.iter().all(is_fixed))
}

/// The type and shape of the rows of an output that no round returned: as declared, completed by what is `known` of
/// them. Other sizes are 0, as in onnxruntime: there are no elements in any case. `None` if the type is not known.
pub fn row(info: &ValueInfo, known: Option<&Descriptor>) -> Option<Descriptor> {
    let dtype = info.element.and_then(ElementType::webnn).or(known.map(|known| known.dtype))?;
    let size = |(axis, dimension): (usize, &Dimension)| match dimension {
        Dimension::Fixed(size) => Dim::from(*size),
        Dimension::Free(_) => known.and_then(|known| known.shape.get(axis)).copied().unwrap_or(Dim::from(0u32)),
    };
    let shape = match &info.shape {
        Some(declared) => declared.iter().enumerate().map(size).collect(),
        None => known.map_or(Vec::new(), |known| known.shape.clone()),
    };
    Some(Descriptor { dtype, shape })
}
