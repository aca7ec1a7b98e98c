//! What can be told about a model without importing it.

use super::error::{Result, Unsupported};
use super::import::{Request, check, import};
use super::model::{Dimension, Graph, MAX_DEPTH, Metadata, Model, ValueInfo, decode_attributes, decode_node};
use super::proto;
use super::registry::entries;
use super::sizes::check_names;
use super::tensor::TensorRecord;
use crate::dimension::{Dim, Tape, numbers};
use crate::ir::Builder;
use serde::Serialize;
use std::collections::BTreeMap;

/// Inputs, outputs and what the file says about itself.
#[derive(Debug, Serialize)]
pub struct Interface<'a> {
    /// The inputs that a caller gives.
    pub inputs: Vec<&'a ValueInfo>,
    /// The outputs.
    pub outputs: &'a [ValueInfo],
    /// The rest.
    pub metadata: &'a Metadata,
}

/// Everything that can be known of a model without building it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection<'a> {
    /// Inputs, outputs and metadata.
    #[serde(flatten)]
    pub interface: Interface<'a>,
    /// How many nodes of each operator there are, with those of nested graphs; the domain stands before the name.
    pub operators: BTreeMap<String, usize>,
    /// Elements of all weights: initializers and values of `Constant` nodes.
    pub parameters: u64,
    /// Their bytes in the file.
    pub parameter_bytes: u64,
    /// What is not supported: what an import refuses, whatever the free dimensions whose size is not known.
    pub unsupported: Vec<Unsupported>,
    /// The nodes at which a session cuts the model, because data decide about sizes, branches or rounds. What is cut behind
    /// them is known when the model runs.
    pub cuts: Vec<Unsupported>,
}

/// An operator that is translated.
#[derive(Debug, Serialize)]
pub struct SupportedOperator {
    /// Empty for `ai.onnx`.
    pub domain: &'static str,
    /// `op_type`.
    pub operator: &'static str,
    /// What of it is not.
    pub notes: &'static str,
}

/// Every operator that is translated, in alphabetical order of domain and name.
pub fn supported_operators() -> Vec<SupportedOperator> {
    let mut all: Vec<_> = entries()
        .map(|entry| SupportedOperator { domain: entry.domain, operator: entry.name, notes: entry.notes })
        .collect();
    all.sort_by_key(|entry| (entry.domain, entry.operator));
    all
}

/// Inputs, outputs and metadata of `model`.
pub fn interface(model: &Model) -> Interface<'_> {
    let Model { metadata, graph, .. } = model;
    Interface { inputs: graph.free_inputs().collect(), outputs: &graph.outputs, metadata }
}

/// The sizes that stand in for every free dimension where shapes are inferred.
const ANY_SIZE: u32 = 16;
const OTHER_SIZE: u32 = 24;

/// The shapes of outputs as they follow from those of the inputs, in the order of the request; `None` where that cannot be
/// told. `builder` has the operands of the request and is left as it is.
pub fn output_shapes(model: &Model, builder: &mut Builder, request: &Request) -> Option<Vec<Vec<Dimension>>> {
    let inputs: Vec<_> =
        model.graph.free_inputs().filter(|input| !request.bindings.contains_key(&input.name)).collect();
    let mut names: Vec<&String> = Vec::new();
    for dimension in inputs.iter().flat_map(|input| input.shape.iter().flatten()) {
        match dimension {
            Dimension::Free(name) if !request.free_dimensions.contains_key(name) && !names.contains(&name) => {
                names.push(name);
            }
            _ => {}
        }
    }
    let mut inferred = |size: u32| -> Option<Vec<Vec<Dimension>>> {
        let before = builder.checkpoint();
        let (imported, tape) = Tape::record(&vec![i64::from(size); names.len()], |free| {
            let dim = |dimension: &Dimension| match dimension {
                Dimension::Fixed(size) => Dim::from(*size),
                Dimension::Free(name) => match names.iter().position(|known| *known == name) {
                    Some(at) => free[at],
                    None => Dim::from(request.free_dimensions[name]),
                },
            };
            let shape =
                |input: &&ValueInfo| Some((input.name.clone(), input.shape.as_ref()?.iter().map(dim).collect()));
            let dims: BTreeMap<String, Vec<Dim>> = inputs.iter().filter_map(shape).collect();
            let shapes = dims.iter().map(|(name, dims)| (name.clone(), numbers(dims))).collect();
            import(model, builder, &Request { shapes, dims, ..request.clone() }).ok()
        });
        builder.roll_back(before);
        let dimension = |&dim: &Dim| match tape.free(dim) {
            Some(at) => Dimension::Free(names[at].clone()),
            None if dim.is_number() => Dimension::Fixed(dim.get()),
            None => Dimension::Free(String::new()),
        };
        let imported = imported.filter(|imported| imported.rest.is_none())?;
        Some(imported.outputs.iter().map(|output| output.descriptor.shape.iter().map(dimension).collect()).collect())
    };
    // Numbers that hold for one size only are none.
    let [mut shapes, others] = [inferred(ANY_SIZE)?, inferred(OTHER_SIZE)?];
    for (dimension, other) in shapes.iter_mut().flatten().zip(others.iter().flatten()) {
        if dimension != other {
            *dimension = Dimension::Free(String::new());
        }
    }
    Some(shapes)
}

/// What can be known of `model` for these sizes of free dimensions.
///
/// # Errors
/// If it is damaged. Sizes that are missing are no error: then what no size makes possible is unsupported.
pub fn inspect(model: &Model, free_dimensions: BTreeMap<String, u32>) -> Result<Inspection<'_>> {
    model.files.check()?;
    check_names(model.graph.free_inputs(), &free_dimensions)?;
    let mut counts = Counts::default();
    counts.graph(&model.graph, 0)?;
    for function in model.functions.values() {
        counts.nodes(&function.nodes, 0)?;
    }
    let request = Request { free_dimensions, may_cut: true, ..Request::default() };
    let outcome = match import(model, &mut Builder::new(), &request) {
        Err(error) if error.unsupported.is_empty() => check(model, &mut Builder::new(), &request),
        outcome => outcome.map(|imported| imported.rest),
    };
    let (cuts, unsupported) = match outcome {
        Ok(rest) => (rest.map_or(Vec::new(), |rest| rest.cuts()), Vec::new()),
        Err(error) => (Vec::new(), error.unsupported),
    };
    let Counts { operators, parameters, parameter_bytes } = counts;
    Ok(Inspection { interface: interface(model), operators, parameters, parameter_bytes, unsupported, cuts })
}

#[derive(Default)]
struct Counts {
    operators: BTreeMap<String, usize>,
    parameters: u64,
    parameter_bytes: u64,
}

impl Counts {
    fn graph(&mut self, graph: &Graph, depth: usize) -> Result<()> {
        for tensor in graph.initializers.values() {
            self.weights(tensor.elements(), tensor.byte_length());
        }
        self.nodes(&graph.nodes, depth)
    }

    fn weights(&mut self, elements: usize, bytes: usize) {
        self.parameters += elements as u64;
        self.parameter_bytes += bytes as u64;
    }

    /// Counts what an attribute of a `Constant` node says of its value.
    fn constant(&mut self, attribute: &proto::Attribute) -> Result<()> {
        let (elements, size) = match attribute.name.as_str() {
            "value" => {
                let tensor = attribute.t.as_ref().map(TensorRecord::decode).transpose()?;
                tensor.iter().for_each(|tensor| self.weights(tensor.elements(), tensor.byte_length()));
                return Ok(());
            }
            "value_float" => (1, size_of::<f32>()),
            "value_floats" => (attribute.floats.len(), size_of::<f32>()),
            "value_int" => (1, size_of::<i64>()),
            "value_ints" => (attribute.ints.len(), size_of::<i64>()),
            _ => return Ok(()),
        };
        self.weights(elements, elements * size);
        Ok(())
    }

    fn nodes(&mut self, nodes: &[bytes::Bytes], depth: usize) -> Result<()> {
        for bytes in nodes {
            let node = decode_node(bytes)?;
            let separator = if node.domain.is_empty() { "" } else { "." };
            *self.operators.entry(format!("{}{separator}{}", node.domain, node.op_type)).or_default() += 1;
            let is_constant = node.domain.is_empty() && node.op_type == "Constant";
            for attribute in decode_attributes(&node)? {
                if is_constant {
                    self.constant(&attribute)?;
                }
                // Deeper ones were refused when the model was read.
                if let Some(graph) = attribute.g.filter(|_| depth < MAX_DEPTH) {
                    self.graph(&Graph::decode(&graph, &|_| true, depth + 1)?, depth + 1)?;
                }
            }
        }
        Ok(())
    }
}
