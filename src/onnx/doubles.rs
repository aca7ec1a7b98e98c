//! What a model computes in float32 although its file says double: WebNN has no float64. Integers up to 2^24, and numbers
//! that are known when a model is loaded, such as those of shape arithmetic, do not count.

use super::error::shortened;
use super::graph::{ByName, GraphId, NameId, Node};
use super::model::{Model, ValueInfo};
use super::proto;
use super::registry::ML;
use super::tensor::{ElementType, TensorRecord};
use serde::Serialize;

/// Maximum number of nodes to list.
const MAX_NAMED: usize = 10;

/// What a model computes in float32 although its file says double.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AsFloat32 {
    /// The names of inputs.
    pub inputs: Vec<String>,
    /// The names of outputs.
    pub outputs: Vec<String>,
    /// The names of the first nodes that read or compute doubles; those of nodes in graphs of nodes included.
    pub nodes: Vec<String>,
    /// The number of all such nodes.
    pub node_count: usize,
}

/// Operators whose outputs are never of the type of their inputs.
const OTHER_TYPES: &[&str] = &[
    "And",
    "ArgMax",
    "ArgMin",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "IsInf",
    "IsNaN",
    "Less",
    "LessOrEqual",
    "Multinomial",
    "NonMaxSuppression",
    "NonZero",
    "Not",
    "Or",
    "QuantizeLinear",
    "Shape",
    "Size",
    "Xor",
];

/// Operators of `ai.onnx.ml` whose outputs can be of the type of their inputs. Those of others are float32 or integers.
const ML_SAME_TYPE: &[&str] = &["ArrayFeatureExtractor", "Binarizer", "Imputer", "TreeEnsemble"];

/// Operators only whose first output is of the type of their inputs.
const INDICES_BEHIND: &[&str] = &["Dropout", "MaxPool", "TopK", "Unique"];

/// Attributes that name the type of the outputs.
const TYPES: &[&str] = &["to", "dtype", "output_datatype"];

/// Operators whose results do not follow from their inputs.
const RANDOM: &[&str] =
    &["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"];

/// A value of a graph.
#[derive(Clone, Copy, Default)]
struct Kind {
    is_double: bool,
    /// Whether it is known when the model is loaded.
    is_known: bool,
}

/// Finds what `model` computes in float32 although its file says double.
pub fn as_float32(model: &Model) -> AsFloat32 {
    let mut search = Search { model, kinds: ByName::default(), found: AsFloat32::default() };
    let doubles = search.graph(model.main);
    let mut found = search.found;
    let graph = model.graph();
    let names = |values: &mut dyn Iterator<Item = &ValueInfo>| values.map(|value| value.name.clone()).collect();
    found.inputs = names(&mut model.free_inputs().filter(|input| is_double(input)));
    let outputs = graph.outputs.iter().zip(doubles);
    found.outputs = names(&mut outputs.filter(|(output, made)| *made || is_double(output)).map(|(output, _)| output));
    if found.node_count == 0 && found.outputs.is_empty() {
        found.inputs.clear(); // nothing reads them
    }
    found
}

fn is_double(value: &ValueInfo) -> bool {
    value.element == Some(ElementType::Double)
}

/// The state of a search.
struct Search<'m> {
    model: &'m Model,
    /// The values so far.
    kinds: ByName<Kind>,
    found: AsFloat32,
}

impl Search<'_> {
    fn kind(&self, value: NameId) -> Kind {
        let constant =
            |tensor: &TensorRecord| Kind { is_double: tensor.element == ElementType::Double, is_known: true };
        let known = self.kinds.get(&value).copied();
        known.or_else(|| self.model.arena.initializer(value).map(constant)).unwrap_or_default()
    }

    fn reads_double(&self, node: Node, index: usize) -> bool {
        node.input(index).is_some_and(|value| self.kind(value).is_double)
    }

    /// Adds the nodes of a graph; returns which of its outputs are doubles.
    fn graph(&mut self, graph: GraphId) -> Vec<bool> {
        let arena = &self.model.arena;
        let graph = arena.graph(graph);
        for (input, &value) in graph.inputs.iter().zip(&graph.input_values) {
            if arena.initializer(value).is_none() {
                self.kinds.insert(value, Kind { is_double: is_double(input), is_known: false });
            }
        }
        graph.nodes.iter().for_each(|&node| self.node(arena.node(node)));
        graph.output_values.iter().map(|&output| self.kind(output).is_double).collect()
    }

    fn node(&mut self, node: Node) {
        let operator = node.operator();
        let reads_double = node.inputs().iter().flatten().any(|&value| self.kind(value).is_double);
        let is_known = operator.is_one_of(&["Shape", "Size"])
            || !operator.is_one_of(RANDOM) && node.reads().all(|value| self.kind(value).is_known);
        let inner: Vec<Vec<bool>> = node.graphs().map(|graph| self.graph(graph)).collect();
        let first = match (given_type(node.attributes()), operator.name.as_str()) {
            (Some(element), _) => element == ElementType::Double,
            _ if operator.is_one_of(OTHER_TYPES) => false,
            (None, name) if operator.domain == ML && !ML_SAME_TYPE.contains(&name) => false,
            (None, "CastLike") => self.reads_double(node, 1),
            (None, "OneHot") => self.reads_double(node, 2),
            // Exponents, scales and the like are of types of their own.
            (None, "Pow" | "Resize" | "Upsample") => self.reads_double(node, 0),
            _ => reads_double,
        };
        let is_double = |at: usize| match inner.first() {
            // The bodies of loops return a condition first.
            Some(_) => inner.iter().any(|outputs| outputs.get(at + (operator.name == "Loop") as usize) == Some(&true)),
            None => first && (at == 0 || !operator.is_one_of(INDICES_BEHIND)),
        };
        let outputs = || node.outputs().iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
        let makes_double = outputs().any(|(at, _)| is_double(at));
        // The nodes of its graphs count instead of a node that has some.
        if !is_known && inner.is_empty() && (reads_double || makes_double) {
            self.found.node_count += 1;
            if self.found.nodes.len() < MAX_NAMED {
                self.found.nodes.push(shortened(node.shown_name()));
            }
        }
        outputs().for_each(|(at, value)| _ = self.kinds.insert(value, Kind { is_double: is_double(at), is_known }));
    }
}

/// The type of a node's outputs that its attributes name, or that of the tensor in an attribute. It is unknown for a
/// tensor that cannot be decoded: the node may not be needed, or be one of a domain of its own.
fn given_type(attributes: impl IntoIterator<Item = proto::Attribute>) -> Option<ElementType> {
    for attribute in attributes {
        if TYPES.contains(&attribute.name.as_str()) {
            return attribute.i.and_then(|code| i32::try_from(code).ok()).and_then(ElementType::from_code);
        }
        if let Some(tensor) = attribute.t.as_ref().filter(|_| attribute.name == "value") {
            return TensorRecord::decode(tensor).ok().map(|tensor| tensor.element);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::file::Files;
    use crate::onnx::tensor::ElementType::{Bool, Double, Float, Int64};
    use crate::onnx::testing::{Attr, TestGraph};

    const TO_DOUBLE: i64 = 11;
    const TO_INT64: i64 = 7;

    fn found(graph: TestGraph) -> AsFloat32 {
        as_float32(&Model::decode(graph.encode(17), Files::default()).unwrap())
    }

    fn cast(to: i64) -> Vec<(&'static str, Attr<'static>)> {
        vec![("to", Attr::Int(to))]
    }

    fn names(inputs: &[&str], outputs: &[&str], nodes: &[&str]) -> AsFloat32 {
        let [inputs, outputs, nodes] =
            [inputs, outputs, nodes].map(|names| names.iter().map(|name| name.to_string()).collect::<Vec<_>>());
        AsFloat32 { inputs, outputs, node_count: nodes.len(), nodes }
    }

    #[test]
    fn inputs_outputs_and_what_is_between_are_found() {
        let graph = TestGraph::default().input("t", Double, &["n"]).input("x", Float, &["n"]);
        let graph = graph.raw("origin", Double, &[], &1.7e9f64.to_le_bytes());
        let graph = graph
            .node("Sub", "t origin", "age", vec![])
            .node("Greater", "t origin", "is_new", vec![])
            .node("Where", "is_new x x", "chosen", vec![])
            .node("Cast", "age", "seconds", cast(TO_INT64))
            .node("Abs", "x", "plain", vec![])
            .node("TopK", "age k", "largest places", vec![])
            .node("Neg", "places", "negative", vec![])
            .ints("k", &[1])
            .output("seconds")
            .output("chosen")
            .output("plain")
            .output("negative")
            .output_of("largest", Double);
        assert_eq!(found(graph), names(&["t"], &["largest"], &["age", "is_new", "seconds", "largest"]));
    }

    #[test]
    fn classical_models_return_floats() {
        let graph = TestGraph::default().input("x", Double, &["n", "4"]);
        let graph = graph
            .node("ai.onnx.ml.Imputer", "x", "whole", vec![])
            .node("ai.onnx.ml.Scaler", "whole", "y", vec![])
            .node("ai.onnx.ml.Normalizer", "y", "z", vec![])
            .output("y")
            .output("z");
        assert_eq!(found(graph), names(&["x"], &[], &["whole", "y"]));
    }

    #[test]
    fn nothing_is_found_without_doubles_that_matter() {
        let graph = TestGraph::default().input("x", Float, &["n", "4"]).raw("c", Double, &[], &0.5f64.to_le_bytes());
        let graph = graph
            .node("Shape", "x", "s", vec![])
            .node("Cast", "s", "d", cast(TO_DOUBLE))
            .node("Mul", "d c", "half", vec![])
            .node("Floor", "half", "whole", vec![])
            .node("Cast", "whole", "sizes", cast(TO_INT64))
            .node("Cast", "c", "factor", cast(1))
            .node("Mul", "x factor", "scaled", vec![])
            .node("Reshape", "scaled sizes", "y", vec![])
            .output("y");
        assert_eq!(found(graph), AsFloat32::default());
    }

    #[test]
    fn doubles_that_nodes_make_are_found_in_graphs_of_nodes_too() {
        let branch = |operator: &str, name: &str| {
            Attr::Graph(TestGraph::default().node(operator, "wide", name, vec![]).output(name))
        };
        let branches = vec![("then_branch", branch("Neg", "a")), ("else_branch", branch("Abs", "b"))];
        let graph = TestGraph::default()
            .input("x", Float, &["2"])
            .input("c", Bool, &[])
            .node("Cast", "x", "wide", cast(TO_DOUBLE))
            .node("If", "c", "y", branches)
            .output("y");
        assert_eq!(found(graph), names(&[], &["y"], &["wide", "a", "b"]));
        let body = TestGraph::default()
            .input("i", Int64, &[])
            .input("go", Bool, &[])
            .input("sum", Double, &["2"])
            .node("Add", "sum sum", "next", vec![])
            .output("go")
            .output_of("next", Double);
        let graph = TestGraph::default().input("x", Float, &["2"]).ints("n", &[3]);
        let graph = graph
            .node("Cast", "x", "start", cast(TO_DOUBLE))
            .node("Loop", "n _ start", "y", vec![("body", Attr::Graph(body))])
            .output("y");
        assert_eq!(found(graph), names(&[], &["y"], &["start", "next"]));
    }

    #[test]
    fn the_type_of_a_tensor_that_cannot_be_decoded_is_unknown() {
        // Field 2, the element type: 99.
        let tensor = Some(bytes::Bytes::from_static(&[0x10, 99]));
        let value = proto::Attribute { name: "value".to_string(), t: tensor, ..Default::default() };
        assert!(given_type([value]).is_none());
    }

    #[test]
    fn many_nodes_are_counted() {
        let graph = TestGraph::default().input("x0", Double, &["2"]);
        let graph =
            (0..100).fold(graph, |graph, at| graph.node("Neg", &format!("x{at}"), &format!("x{}", at + 1), vec![]));
        let found = found(graph.output("x100"));
        assert_eq!((found.nodes.len(), found.node_count), (MAX_NAMED, 100));
    }
}
