//! What a model requires of its inputs beyond types and shapes. Elements can be indices into tables: token ids into an
//! embedding, positions into a table of rotations. The graph would clamp indices outside of the table to its ends;
//! sessions reject them, as onnxruntime does. Also, the key and value caches of an attention belong together.

use super::error::{Result, shortened};
use super::flow::Flow;
use super::graph::{ByName, NameId, Node};
use super::model::Model;
use super::tensor::{ElementType, TensorRecord};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

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
    /// The tables that elements of inputs are indices into. Of several tables for an input, the shortest.
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
    of(MICROSOFT, "MRotaryEmbedding", 1, 2),
    of(MICROSOFT, "QEmbedLayerNormalization", 0, 2),
    of(MICROSOFT, "QEmbedLayerNormalization", 1, 4),
];

/// Operators whose output has all elements of their first input, and no others.
const MOVES: &[&str] = &["Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand"];

/// Operators whose output has the shape of their first input.
const SAME_SHAPE: &[&str] = &["Identity", "Cast", "DequantizeLinear"];

/// Facts about values of the main graph.
struct Facts<'m> {
    model: &'m Model,
    /// The input that each value's elements come from.
    sources: ByName<NameId>,
    /// The shapes of tables that nodes derive from others.
    shapes: ByName<Vec<u32>>,
}

/// Collects what the main graph's nodes require of its inputs, as far as the `wanted` values depend on these nodes.
/// `constants` are the shapes of inputs that are the same in every run.
///
/// # Errors
/// If a tensor is damaged.
pub fn asked(model: &Model, wanted: &[NameId], constants: HashMap<String, Vec<u32>>) -> Result<Asked> {
    let (mut sources, mut shapes): (ByName<NameId>, ByName<Vec<u32>>) = Default::default();
    for (input, value) in model.required_inputs() {
        match constants.get(&input.name) {
            Some(shape) => _ = shapes.insert(value, shape.clone()),
            None => _ = sources.insert(value, value),
        }
    }
    let mut facts = Facts { model, sources, shapes };
    let mut asked = Asked::default();
    // Per input, and for indices that count back or not: the shortest table decides.
    let mut shortest: HashMap<(NameId, bool), usize> = HashMap::new();
    for &id in &Flow::of(&model.arena, model.main, wanted).nodes {
        let node = model.arena.node(id);
        if node.operator().function.is_some() {
            continue;
        }
        for (input, lookup) in facts.uses(node) {
            match shortest.entry((input, lookup.counts_back)) {
                Entry::Vacant(vacant) => {
                    vacant.insert(asked.lookups.len());
                    asked.lookups.push(lookup);
                }
                Entry::Occupied(known) => {
                    let known = &mut asked.lookups[*known.get()];
                    if lookup.length < known.length {
                        *known = lookup;
                    }
                }
            }
        }
        asked.caches.extend(facts.cached(node));
        facts.follow(node)?;
    }
    Ok(asked)
}

impl Facts<'_> {
    fn shape(&self, value: NameId) -> Option<&[u32]> {
        let record = || self.model.arena.initializer(value).map(|record| record.shape.as_slice());
        self.shapes.get(&value).map(Vec::as_slice).or_else(record)
    }

    /// The uses of inputs as indices by `node`.
    fn uses(&self, node: Node) -> Vec<(NameId, Lookup)> {
        let operator = node.operator();
        let is_it = |one: &&Use| one.operator == operator.name && one.domain == operator.domain;
        let mut found = Vec::new();
        for one in USES.iter().filter(is_it) {
            let source = node.input(one.places).and_then(|value| self.sources.get(&value));
            let shape = node.input(one.table).and_then(|value| self.shape(value));
            let (Some(&input), Some(shape)) = (source, shape) else { continue };
            let axis = one.axis.and_then(|name| node.int(name)).unwrap_or(0);
            let rank = shape.len() as i64;
            let axis = if axis < 0 { axis + rank } else { axis };
            // Along its last dimension, an element of a packed table holds several numbers.
            if !(0..rank).contains(&axis) || (one.operator == "GatherBlockQuantized" && axis == rank - 1) {
                continue;
            }
            let lookup = Lookup {
                input: self.model.arena.name(input).to_string(),
                node: shortened(node.shown_name()),
                operator: operator.name.clone(),
                length: shape[axis as usize],
                counts_back: one.counts_back,
            };
            found.push((input, lookup));
        }
        found
    }

    /// The cache of `node` if it is an attention that has one.
    fn cached(&self, node: Node) -> Option<Cached> {
        let operator = node.operator();
        if operator.name != "GroupQueryAttention" || operator.domain != MICROSOFT {
            return None;
        }
        let name = |value: NameId| self.model.arena.name(value).to_string();
        let input = |at: usize| node.input(at).filter(|value| self.sources.get(value) == Some(value)).map(name);
        Some(Cached { inputs: [input(3)?, input(4)?], total: name(node.input(6)?) })
    }

    /// Records the facts about the first output of `node`.
    fn follow(&mut self, node: Node) -> Result<()> {
        let operator = node.operator();
        let Some(output) = node.output(0).filter(|_| operator.domain.is_empty()) else { return Ok(()) };
        if operator.is("Constant") {
            let tensor = node.attributes().find_map(|attribute| attribute.t);
            if let Some(record) = tensor.as_ref().map(TensorRecord::decode).transpose()? {
                self.shapes.insert(output, record.shape);
            }
            return Ok(());
        }
        let Some(input) = node.input(0) else { return Ok(()) };
        if let Some(shape) = self.shape(input).filter(|_| operator.is_one_of(SAME_SHAPE)) {
            self.shapes.insert(output, shape.to_vec());
        }
        let Some(&source) = self.sources.get(&input) else { return Ok(()) };
        // Integers keep their values, except for those beyond the length of any table.
        let moves = match operator.is("Cast") {
            true => {
                let to = node.int("to").and_then(|code| ElementType::from_code(code as i32));
                matches!(to, Some(ElementType::Int32 | ElementType::Int64))
            }
            false => operator.is_one_of(MOVES),
        };
        if moves {
            self.sources.insert(output, source);
        }
        Ok(())
    }
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
        let wanted = model.arena.find(model.main, [&wanted.to_string()])[0].unwrap();
        let all = asked(&model, &[wanted], HashMap::new()).unwrap();
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
        // The shorter one of the two decides.
        let expected = [("ids", "second", 3, true)].map(|(a, b, c, d)| (a.into(), b.into(), c, d));
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
