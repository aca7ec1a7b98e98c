//! What a model requires of its inputs beyond types and shapes. Elements can be indices into tables: token ids into an
//! embedding, positions into a table of rotations. The graph would clamp indices outside of the table to its ends;
//! sessions reject them, as onnxruntime does. Also, the key and value caches of an attention belong together.

use super::error::{Result, shortened};
use super::import::{function_of, needed};
use super::model::{Model, decode_attributes, decode_node, shown_name};
use super::proto;
use super::tensor::{ElementType, TensorRecord};
use bytes::Bytes;
use std::collections::HashMap;

/// A node that uses elements of an input as indices into a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookup {
    /// The name of the input.
    pub input: String,
    /// The name of the node, or that of its first output.
    pub node: String,
    /// `op_type`.
    pub operator: String,
    /// The number of rows of the table.
    pub length: u32,
    /// Whether negative indices count from its end.
    pub counts_back: bool,
}

/// A node whose cache is an input of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Cached {
    /// The names of the inputs with cached keys and values, `[batch, heads, length, size]`.
    pub inputs: [String; 2],
    /// The name of the value that holds the number of tokens.
    pub total: String,
}

/// What a model requires of its inputs beyond types and shapes.
#[derive(Debug, Default)]
pub struct Asked {
    /// The tables that elements of inputs are indices into. Of several identical requirements, the first.
    pub lookups: Vec<Lookup>,
    /// The caches of attention.
    pub caches: Vec<Cached>,
}

/// The table and index operands of an operator, and the indexed dimension.
struct Use {
    domain: &'static str,
    operator: &'static str,
    places: usize,
    table: usize,
    /// The attribute that selects the dimension, 0 if the attribute is missing.
    axis: Option<&'static str>,
    counts_back: bool,
}

const MICROSOFT: &str = "com.microsoft";

const fn of(domain: &'static str, operator: &'static str, places: usize, table: usize) -> Use {
    Use { domain, operator, places, table, axis: None, counts_back: false }
}

const USES: &[Use] = &[
    Use { axis: Some("axis"), counts_back: true, ..of("", "Gather", 1, 0) },
    Use { axis: Some("gather_axis"), counts_back: true, ..of(MICROSOFT, "GatherBlockQuantized", 1, 0) },
    of("", "RotaryEmbedding", 3, 1),
    of(MICROSOFT, "RotaryEmbedding", 1, 2),
    of(MICROSOFT, "GroupQueryAttention", 9, 7),
    of(MICROSOFT, "EmbedLayerNormalization", 0, 2),
    of(MICROSOFT, "EmbedLayerNormalization", 1, 4),
    of(MICROSOFT, "EmbedLayerNormalization", 8, 3),
];

/// Operators whose output has all elements of their first input, and no others.
const MOVES: &[&str] = &["Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand"];

/// Operators whose output has the shape of their first input.
const SAME_SHAPE: &[&str] = &["Identity", "Cast", "DequantizeLinear"];

/// Facts about values of the main graph.
struct Known<'a> {
    model: &'a Model,
    /// The input that each value's elements come from.
    sources: HashMap<String, String>,
    /// The shapes of tables that nodes derive from others.
    shapes: HashMap<String, Vec<u32>>,
}

impl Known<'_> {
    fn shape(&self, name: &str) -> Option<Vec<u32>> {
        let record = || self.model.graph.initializers.get(name).map(|record| record.shape.clone());
        self.shapes.get(name).cloned().or_else(record)
    }
}

/// Collects what the main graph's nodes require of its inputs, as far as the `wanted` values depend on these nodes.
/// `constants` are the shapes of inputs that are the same in every run.
///
/// # Errors
/// If a node is damaged.
pub fn asked(model: &Model, wanted: &[String], constants: HashMap<String, Vec<u32>>) -> Result<Asked> {
    let free = model.graph.free_inputs().filter(|input| !constants.contains_key(&input.name));
    let sources = free.map(|input| (input.name.clone(), input.name.clone())).collect();
    let mut known = Known { model, sources, shapes: constants };
    let mut asked = Asked::default();
    for bytes in &needed(&model.graph.nodes, wanted)?.0 {
        let node = decode_node(bytes)?;
        if function_of(model, &node).is_some() {
            continue;
        }
        for lookup in uses(&known, &node)? {
            let is_known = |one: &Lookup| {
                (&one.input, one.length, one.counts_back) == (&lookup.input, lookup.length, lookup.counts_back)
            };
            if !asked.lookups.iter().any(is_known) {
                asked.lookups.push(lookup);
            }
        }
        asked.caches.extend(cached(&known, &node));
        follow(&mut known, &node)?;
    }
    Ok(asked)
}

/// The uses of inputs as indices by `node`.
fn uses(known: &Known, node: &proto::Node) -> Result<Vec<Lookup>> {
    let is_it = |one: &&Use| one.operator == node.op_type && one.domain == node.domain;
    let mut found = Vec::new();
    for one in USES.iter().filter(is_it) {
        let source = node.input.get(one.places).and_then(|name| known.sources.get(name));
        let shape = node.input.get(one.table).and_then(|name| known.shape(name));
        let (Some(input), Some(shape)) = (source, shape) else { continue };
        let axis = match one.axis {
            Some(name) => int(&decode_attributes(node)?, name).unwrap_or(0),
            None => 0,
        };
        let rank = shape.len() as i64;
        let axis = if axis < 0 { axis + rank } else { axis };
        // Along its last dimension, an element of a packed table holds several numbers.
        if !(0..rank).contains(&axis) || (one.operator == "GatherBlockQuantized" && axis == rank - 1) {
            continue;
        }
        found.push(Lookup {
            input: input.clone(),
            node: shortened(shown_name(node)),
            operator: node.op_type.clone(),
            length: shape[axis as usize],
            counts_back: one.counts_back,
        });
    }
    Ok(found)
}

/// The cache of `node` if it is an attention that has one.
fn cached(known: &Known, node: &proto::Node) -> Option<Cached> {
    if node.op_type != "GroupQueryAttention" || node.domain != MICROSOFT {
        return None;
    }
    let input = |at: usize| node.input.get(at).filter(|name| known.sources.get(*name) == Some(name)).cloned();
    Some(Cached { inputs: [input(3)?, input(4)?], total: node.input.get(6)?.clone() })
}

/// Records the facts about the first output of `node`.
fn follow(known: &mut Known, node: &proto::Node) -> Result<()> {
    let Some(output) = node.output.first().filter(|_| node.domain.is_empty()) else { return Ok(()) };
    let operator = node.op_type.as_str();
    if operator == "Constant" {
        let tensor = decode_attributes(node)?.into_iter().find_map(|attribute| attribute.t);
        if let Some(record) = tensor.as_ref().map(|tensor: &Bytes| TensorRecord::decode(tensor)).transpose()? {
            known.shapes.insert(output.clone(), record.shape);
        }
        return Ok(());
    }
    let Some(input) = node.input.first() else { return Ok(()) };
    if let Some(shape) = known.shape(input).filter(|_| SAME_SHAPE.contains(&operator)) {
        known.shapes.insert(output.clone(), shape);
    }
    let Some(source) = known.sources.get(input).cloned() else { return Ok(()) };
    // Integers keep their values, except for those beyond the length of any table.
    let moves = match operator {
        "Cast" => {
            let to = int(&decode_attributes(node)?, "to").and_then(|code| ElementType::from_code(code as i32));
            matches!(to, Some(ElementType::Int32 | ElementType::Int64))
        }
        _ => MOVES.contains(&operator),
    };
    if moves {
        known.sources.insert(output.clone(), source);
    }
    Ok(())
}

fn int(attributes: &[proto::Attribute], name: &str) -> Option<i64> {
    attributes.iter().find(|attribute| attribute.name == name)?.i
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::file::Files;
    use crate::onnx::tensor::ElementType::{Float, Int32, Int64, Uint8};
    use crate::onnx::testing::{Attr, TestGraph};

    fn found(graph: TestGraph, wanted: &str) -> Vec<(String, String, u32, bool)> {
        let (files, bytes) = Files::of_bytes(graph.encode(17));
        let model = Model::decode(bytes, files).unwrap();
        let all = asked(&model, &[wanted.to_string()], HashMap::new()).unwrap();
        all.lookups.into_iter().map(|one| (one.input, one.node, one.length, one.counts_back)).collect()
    }

    fn table(graph: TestGraph, name: &str, dims: &[i64]) -> TestGraph {
        let elements = dims.iter().product::<i64>() as usize;
        graph.floats(name, dims, &vec![0.0; elements])
    }

    #[test]
    fn ids_are_traced_to_their_tables() {
        let graph = TestGraph::default().input("ids", Int64, &["n"]).input("other", Int64, &["n"]);
        let graph = table(table(graph, "wide", &[5, 7]), "narrow", &[3, 2])
            .node("Cast", "ids", "short", vec![("to", Attr::Int(6))])
            .ints("axes", &[0])
            .node("Unsqueeze", "short axes", "row", vec![])
            .node("Gather", "wide row", "first", vec![("axis", Attr::Int(-1))])
            .node("Gather", "wide ids", "again", vec![("axis", Attr::Int(1))])
            .node("Identity", "narrow", "same", vec![])
            .node("Gather", "same ids", "second", vec![])
            .node("Add", "ids ids", "doubled", vec![])
            .node("Gather", "narrow doubled", "third", vec![])
            .node("Gather", "narrow other", "unused", vec![])
            .node("ReduceSum", "first", "a", vec![("keepdims", Attr::Int(0))])
            .node("ReduceSum", "second", "b", vec![("keepdims", Attr::Int(0))])
            .node("ReduceSum", "third", "c", vec![("keepdims", Attr::Int(0))])
            .node("ReduceSum", "again", "d", vec![("keepdims", Attr::Int(0))])
            .node("Sum", "a b c d", "y", vec![])
            .output("y");
        let expected =
            [("ids", "first", 7, true), ("ids", "second", 3, true)].map(|(a, b, c, d)| (a.into(), b.into(), c, d));
        assert_eq!(found(graph, "y"), expected);
    }

    #[test]
    fn positions_and_packed_tables_are_found() {
        let graph = TestGraph::default()
            .input("ids", Int32, &["b", "n"])
            .input("position_ids", Int64, &["b", "n"])
            .raw("packed", Uint8, &[9, 16], &[0; 144])
            .node("com.microsoft.GatherBlockQuantized", "packed ids scales", "x", vec![("bits", Attr::Int(4))]);
        let graph = table(table(table(graph, "scales", &[9, 1]), "cos", &[6, 16]), "sin", &[6, 16])
            .node("com.microsoft.RotaryEmbedding", "x position_ids cos sin", "y", vec![])
            .output("y");
        let expected =
            [("ids", "x", 9, true), ("position_ids", "y", 6, false)].map(|(a, b, c, d)| (a.into(), b.into(), c, d));
        assert_eq!(found(graph, "y"), expected);
    }

    #[test]
    fn non_constants_and_other_inputs_are_ignored() {
        let graph = TestGraph::default().input("ids", Int64, &["n"]).input("table", Float, &["m", "2"]);
        let graph = graph.node("Gather", "table ids", "y", vec![]).output("y");
        assert_eq!(found(graph, "y"), []);
    }
}
