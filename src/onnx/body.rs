//! Graphs in attributes of nodes: the branches of `If`, the bodies of loops.

use super::budget::{Budget, work};
use super::empty::{STAND_INS, extrapolated, stand_in};
use super::error::Result;
use super::import::{Importer, Part, Place, Scope, Value, with_budget};
use super::model::{Dimension, Graph, ValueInfo};
use super::tensor::ElementType;
use crate::dimension::Dim;
use crate::ir::Builder;
use crate::shape::Descriptor;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::HashMap;

/// A graph in an attribute, which may run any number of times.
pub struct Body {
    graph: Graph,
    /// Those of its initializers that were already read.
    constants: HashMap<String, Value>,
}

impl Body {
    /// Decodes a graph in an attribute of a node at `place`.
    pub(super) fn decode(encoded: &Bytes, place: Place) -> Result<Body> {
        let graph = Graph::decode(encoded, &|name| place.scope.defines(name), place.depth + 1)?;
        Ok(Body { graph, constants: HashMap::new() })
    }

    /// The declared inputs of the graph.
    pub fn inputs(&self) -> &[ValueInfo] {
        &self.graph.inputs
    }

    /// Number of nodes of the graph, without those of graphs within.
    pub fn node_count(&self) -> usize {
        self.graph.nodes.len()
    }

    /// The declared outputs of the graph.
    pub fn outputs(&self) -> &[ValueInfo] {
        &self.graph.outputs
    }
}

impl Importer<'_> {
    /// Whether half of the remaining work suffices to run `body` `rounds` times.
    pub fn can_repeat(&self, body: &Body, rounds: u64) -> bool {
        let once: usize = body.graph.nodes.iter().map(|node| work(node.len())).sum();
        let rounds = usize::try_from(rounds).unwrap_or(usize::MAX);
        rounds.saturating_mul(once + 1) <= self.work / 2
    }

    /// Runs the graph of an attribute on as many values as it has inputs; returns its outputs, in the graph's order.
    pub fn run_body(&mut self, body: &mut Body, inputs: Vec<Value>, place: Place) -> Result<Vec<Value>> {
        // Keeps a body without nodes from running forever.
        self.count_node(0)?;
        let Body { graph, constants } = body;
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

    /// Types and shapes of the outputs of `body`, given `values` by name, without adding anything to the builder; `None`
    /// for outputs whose shapes are not known, or if finding them takes more than half of what remains for trials.
    pub fn shapes_of_body(
        &mut self,
        body: &Body,
        mut values: HashMap<String, Value>,
        place: Place,
    ) -> Vec<Option<Descriptor>> {
        // Constants of the body hide outer values, but are only defaults of its inputs.
        let is_input = |name: &String| body.inputs().iter().any(|input| &input.name == name);
        values.retain(|name, _| !body.graph.initializers.contains_key(name) || is_input(name));
        let wanted: Vec<String> = body.outputs().iter().map(|output| output.name.clone()).collect();
        let part = Part {
            model: self.model,
            initializers: &body.graph.initializers,
            nodes: &body.graph.nodes,
            opsets: place.opsets,
            arguments: place.arguments,
            depth: place.depth + 1,
            wanted: &wanted,
        };
        let given = self.trials.unwrap_or(self.budget()).half();
        let mut left = given;
        let shapes = shapes_within(&part, self.builder, &values, &mut left);
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

/// Types and shapes of the requested values of `part`, given values of `builder`, which may have no elements; `None`
/// for those whose shapes are not known, and for lists. All that is nested shares the budget of one import.
pub fn shapes_of(part: &Part, builder: &Builder, values: &HashMap<String, Value>) -> Vec<Option<Descriptor>> {
    if part.model.files.check().is_err() {
        return vec![None; part.wanted.len()];
    }
    let shapes = shapes_within(part, builder, values, &mut Budget::new(part.model, 0));
    part.model.files.release();
    shapes
}

/// Like [`shapes_of`], within `budget`, in which it leaves what remains.
fn shapes_within(
    part: &Part,
    builder: &Builder,
    values: &HashMap<String, Value>,
    budget: &mut Budget,
) -> Vec<Option<Descriptor>> {
    let mut shapes_for = |size: u32| -> Vec<Option<Descriptor>> {
        let mut own = Builder::with_limit(builder.max_tensor_bytes());
        let known =
            values.iter().filter_map(|(name, value)| Some((name.clone(), stand_in(&mut own, builder, value, size)?)));
        let known: HashMap<String, Value> = known.collect();
        let shapes = with_budget(part.model, &mut own, (budget, None), false, |importer| {
            // Keeps trials of graphs without nodes from being free.
            importer.count_node(0)?;
            let scope = Scope { values: known.into(), initializers: part.initializers, outer: None };
            let Part { opsets, arguments, depth, .. } = *part;
            importer.nodes(part.nodes, Place { scope: &scope, opsets, arguments, depth, is_top: false })?;
            let described =
                |name: &String| Ok(importer.value(&scope, name)?.and_then(|value| importer.described(&value)));
            part.wanted.iter().map(described).collect::<Result<_>>()
        });
        shapes.unwrap_or_else(|_| vec![None; part.wanted.len()])
    };
    let small = shapes_for(STAND_INS[0]);
    // Without a size to stand in for, or a known shape to complete, a second trial tells nothing new.
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
