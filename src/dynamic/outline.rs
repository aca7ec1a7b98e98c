//! A graph with named dimensions as built, and its shapes for given sizes.

use super::{Dimension, Shapes, Symbol, Symbols};
use crate::compile::appending;
use crate::dimension::Dim;
use crate::error::{Code, Error, ErrorKind, Problem, Result};
use crate::ir::{Graph, Growing, ValueId};
use crate::shape::{Descriptor, expected_dimension, is_valid_dimension};
use std::collections::BTreeSet;

/// A graph with named dimensions. Descriptors that depend on the names are only examples, and operators are unresolved.
#[derive(Debug)]
pub struct Outline {
    graph: Graph,
    shapes: Shapes,
    names: Vec<String>,
    /// The names among the dimensions of the inputs: the free sizes, in this order.
    free: Vec<Symbol>,
    /// The outputs that extend an input along a named dimension.
    appending: Vec<Growing>,
    max_tensor_bytes: u64,
}

impl Outline {
    /// The outline of `graph`, built with these symbols, with operands of at most `max_tensor_bytes` bytes.
    pub fn new(graph: Graph, symbols: Symbols, max_tensor_bytes: u64) -> Outline {
        let Symbols { names, shapes, .. } = symbols;
        let inputs = graph.inputs.iter().filter_map(|(_, id)| shapes.get(id)).flatten();
        let free: BTreeSet<Symbol> = inputs.filter_map(Dimension::symbol).collect();
        let is_named = |id: ValueId, axis: usize| shapes.get(&id).is_some_and(|shape| shape[axis].symbol().is_some());
        let appending = appending(&graph, is_named);
        Outline { graph, shapes, names, free: free.into_iter().collect(), appending, max_tensor_bytes }
    }

    /// The names of the inputs, in the order of tensors.
    pub fn input_names(&self) -> impl Iterator<Item = &str> {
        self.graph.inputs.iter().map(|(name, _)| name.as_str())
    }

    /// Names and descriptors of the outputs; the shapes are only examples.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, &Descriptor)> {
        self.graph.outputs.iter().map(|(name, id)| (name.as_str(), self.graph.descriptor(*id)))
    }

    /// The outputs that share the memory of inputs, given `donations`: pairs of indices of an output and an input.
    ///
    /// # Errors
    /// A TypeError if an output does not extend its input, or if several outputs take the same input.
    pub fn growing(&self, operation: &str, donations: &[[usize; 2]]) -> Result<Vec<Growing>> {
        let mut growing: Vec<Growing> = Vec::with_capacity(donations.len());
        for &[output, input] in donations {
            let known = self.appending.iter().find(|known| known.output == output && known.input == input);
            let misfit = |reason: &str| {
                let [output, input] = [self.graph.outputs.get(output), self.graph.inputs.get(input)]
                    .map(|port| port.map_or("", |(name, _)| name));
                let message =
                    format!("{operation}: output {output:?} cannot take the memory of input {input:?}: {reason}");
                Error::new(ErrorKind::Type, message)
            };
            if growing.iter().any(|other| other.input == input || other.output == output) {
                return Err(misfit("another output takes it"));
            }
            let reason = "it is not a concat() of that input and appended elements, along a named dimension";
            growing.push(*known.ok_or_else(|| misfit(reason))?);
        }
        Ok(growing)
    }

    /// The free sizes for inputs of these shapes. Messages start with `operation`.
    ///
    /// # Errors
    /// A TypeError if a shape does not match, or a name has more than one size.
    pub fn sizes(&self, operation: &str, shapes: &[impl AsRef<[u32]>]) -> Result<Vec<i64>> {
        let mut sizes: Vec<Option<(u32, &str)>> = vec![None; self.free.len()];
        for ((name, id), shape) in self.graph.inputs.iter().zip(shapes) {
            let shape = shape.as_ref();
            let wanted = self.dimensions(*id);
            let misfit = |reason: String| {
                let message =
                    format!("{operation}: input {name:?} needs {}, it has {shape:?}{reason}", self.shown(&wanted));
                Err(Error::coded(Code::Shape, message))
            };
            if shape.len() != wanted.len() {
                return misfit(String::new());
            }
            for (axis, (&size, wanted)) in shape.iter().zip(&wanted).enumerate() {
                if !is_valid_dimension(u64::from(size)) {
                    return misfit(format!(": {size} is not {}", expected_dimension()));
                }
                match wanted {
                    Dimension::Number(number) if *number == size => {}
                    Dimension::Number(_) => return misfit(String::new()),
                    Dimension::Named(symbol) => {
                        let at = self.free.binary_search(symbol).expect("it is a dimension of an input");
                        let (known, first) = *sizes[at].get_or_insert((size, name));
                        if known != size {
                            let dimension = &self.names[symbol.0 as usize];
                            return misfit(format!(
                                ": dimension {dimension:?} is {size} at axis {axis}, and {known} in input {first:?}"
                            ));
                        }
                    }
                }
            }
        }
        Ok(sizes.into_iter().map(|size| size.expect("each is a dimension of an input").0.into()).collect())
    }

    /// The graph for these free sizes.
    ///
    /// # Errors
    /// A TypeError if the sizes violate the rules of an operator, or make a tensor too large.
    pub fn at(&self, free: &[Dim]) -> Result<Graph> {
        let mut graph = self.graph.clone();
        for (name, id) in &self.graph.inputs {
            let Some(shape) = self.shapes.get(id) else { continue };
            let dim = |dimension: &Dimension| match dimension {
                Dimension::Number(size) => Dim::from(*size),
                Dimension::Named(symbol) => free[self.free.binary_search(symbol).expect("it is free")],
            };
            let descriptor = &mut graph.values[id.index()].descriptor;
            descriptor.shape = shape.iter().map(dim).collect();
            descriptor
                .check_bytes("the tensor", self.max_tensor_bytes)
                .map_err(|problem| self.within(&format!("input {name:?}"), "", problem, free))?;
        }
        let Graph { nodes, values, .. } = &mut graph;
        for node in nodes {
            if !node.outputs.iter().any(|id| self.shapes.contains_key(id)) {
                continue;
            }
            let operands: Vec<_> =
                node.inputs.iter().map(|input| input.map(|id| &values[id.index()].descriptor)).collect();
            let resolved = node.op.resolve_below(&operands, self.max_tensor_bytes);
            let outputs = resolved.map_err(|problem| self.within(node.op.rule().name, &node.label, problem, free))?;
            for (id, output) in node.outputs.iter().zip(outputs) {
                values[id.index()].descriptor = output;
            }
        }
        Ok(graph)
    }

    /// Adds the current sizes to an operator's problem.
    fn within(&self, operator: &str, label: &str, problem: Problem, free: &[Dim]) -> Error {
        let error = Error::at(operator, label, problem);
        let sizes =
            self.free.iter().zip(free).map(|(symbol, size)| format!("{:?} = {size}", self.names[symbol.0 as usize]));
        let sizes = sizes.collect::<Vec<_>>().join(", ");
        Error::coded(Code::Shape, format!("{}, with {sizes}", error.message))
    }

    fn dimensions(&self, id: ValueId) -> Vec<Dimension> {
        let numbers = || self.graph.descriptor(id).shape.iter().map(|dim| Dimension::Number(dim.get())).collect();
        self.shapes.get(&id).cloned().unwrap_or_else(numbers)
    }

    fn shown(&self, shape: &[Dimension]) -> String {
        let dimensions = shape.iter().map(|dimension| match dimension {
            Dimension::Number(size) => size.to_string(),
            Dimension::Named(symbol) => format!("{:?}", self.names[symbol.0 as usize]),
        });
        format!("[{}]", dimensions.collect::<Vec<_>>().join(", "))
    }
}
