//! What a model computes in float32 although its file says double: operators that have no kernel for float64. Numbers that
//! are known when a model is loaded, such as those of shape arithmetic, do not count.

use super::error::shortened;
use super::graph::{ByName, GraphId, NameId, NameSet, Node};
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
    /// The names of inputs that such nodes read.
    pub inputs: Vec<String>,
    /// The names of outputs that such nodes compute.
    pub outputs: Vec<String>,
    /// The names of the first nodes that compute doubles in float32; those of nodes in graphs of nodes included.
    pub nodes: Vec<String>,
    /// The number of all such nodes.
    pub node_count: usize,
}

/// Operators that compute in float32.
const IN_FLOAT32: &[&str] = &[
    "AffineGrid",
    "AveragePool",
    "BatchNormalization",
    "CausalConvWithState",
    "Col2Im",
    "Conv",
    "ConvTranspose",
    "DFT",
    "DeformConv",
    "GRU",
    "GridSample",
    "GroupNormalization",
    "InstanceNormalization",
    "LRN",
    "LSTM",
    "LayerNormalization",
    "LinearAttention",
    "LpPool",
    "MaxPool",
    "MaxRoiPool",
    "MeanVarianceNormalization",
    "Mod",
    "RNN",
    "Resize",
    "RoiAlign",
    "STFT",
    "Upsample",
];

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
    let found = AsFloat32::default();
    let mut search =
        Search { model, kinds: ByName::default(), read: NameSet::default(), made: NameSet::default(), found };
    search.graph(model.main);
    let Search { mut found, read, made, .. } = search;
    let graph = model.graph();
    let names = |infos: &[ValueInfo], values: &[NameId], rounded: &NameSet| {
        let all = infos.iter().zip(values).filter(|(_, value)| rounded.contains(value));
        all.map(|(info, _)| info.name.clone()).collect()
    };
    (found.inputs, found.outputs) =
        (names(&graph.inputs, &graph.input_values, &read), names(&graph.outputs, &graph.output_values, &made));
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
    /// Doubles that nodes read as float32.
    read: NameSet,
    /// Doubles that nodes compute in float32.
    made: NameSet,
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
        let in_float32 = match operator.domain.as_str() {
            "" => IN_FLOAT32.contains(&operator.name.as_str()),
            // What the standard says is float32.
            ML => false,
            _ => operator.function.is_none(),
        };
        // The nodes of its graphs count instead of a node that has some.
        if in_float32 && !is_known && inner.is_empty() && (reads_double || makes_double) {
            let doubles = node.inputs().iter().flatten().copied().filter(|&value| self.kind(value).is_double);
            let doubles: Vec<NameId> = doubles.collect();
            self.read.extend(doubles);
            self.made.extend(outputs().filter(|(at, _)| is_double(*at)).map(|(_, value)| value));
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
    use crate::dtype::DataType;
    use crate::onnx::file::Files;
    use crate::onnx::import::Request;
    use crate::onnx::tensor::ElementType::{Bool, Double, Float};
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
    fn what_operators_without_float64_read_and_compute_is_found() {
        let graph = TestGraph::default().input("x", Double, &["1", "2", "4", "4"]).input("z", Float, &["n"]);
        let graph = graph
            .node("Neg", "x", "negative", vec![])
            .node("MeanVarianceNormalization", "negative", "largest", vec![])
            .node("MaxPool", "x", "pooled places", vec![("kernel_shape", Attr::Ints(&[2, 2]))])
            .node("Neg", "places", "moved", vec![])
            .node("Mod", "z z", "plain", vec![])
            .output("negative")
            .output_of("largest", Double)
            .output_of("pooled", Double)
            .output("places")
            .output("plain");
        assert_eq!(found(graph), names(&["x"], &["largest", "pooled"], &["largest", "pooled"]));
    }

    #[test]
    fn nothing_is_found_where_doubles_are_float64_or_known() {
        let graph = TestGraph::default().input("x", Float, &["n", "4"]).raw("c", Double, &[], &0.5f64.to_le_bytes());
        let graph = graph
            .input("t", Double, &["n"])
            .node("Shape", "x", "s", vec![])
            .node("Cast", "s", "d", cast(TO_DOUBLE))
            .node("Mod", "d c", "rest", vec![])
            .node("Floor", "rest", "whole", vec![])
            .node("Cast", "whole", "sizes", cast(TO_INT64))
            .node("Cast", "c", "factor", cast(1))
            .node("Sub", "t c", "age", vec![])
            .node("ai.onnx.ml.Scaler", "t", "scaled", vec![])
            .output("factor")
            .output("scaled")
            .output("sizes")
            .output("age");
        assert_eq!(found(graph), AsFloat32::default());
    }

    #[test]
    fn nodes_of_graphs_in_attributes_are_found_too() {
        let branch = |operator: &str, name: &str| {
            Attr::Graph(TestGraph::default().node(operator, "wide wide", name, vec![]).output(name))
        };
        let branches = vec![("then_branch", branch("Mod", "a")), ("else_branch", branch("Add", "b"))];
        let graph = TestGraph::default()
            .input("x", Float, &["2"])
            .input("c", Bool, &[])
            .node("Cast", "x", "wide", cast(TO_DOUBLE))
            .node("If", "c", "y", branches)
            .output("y");
        assert_eq!(found(graph), names(&[], &[], &["a"]));
    }

    /// The data types of all values of the graph that is imported from one node.
    fn types_of(operator: &str, inputs: &str, attributes: Vec<(&str, Attr)>) -> Vec<DataType> {
        let graph = TestGraph::default()
            .input("x", Double, &["2", "3", "4", "4"])
            .input("b", Bool, &["2", "3", "4", "4"])
            .ints("zero", &[0])
            .ints("one", &[1])
            .raw("c", Double, &[], &0.5f64.to_le_bytes())
            .node(operator, inputs, "y", attributes)
            .output_of("y", Double);
        let graph = graph.import(17, &Request::default()).unwrap_or_else(|error| panic!("{operator}: {error}"));
        graph.values.iter().map(|value| value.descriptor.dtype).collect()
    }

    #[test]
    fn operators_compute_in_the_type_that_the_lists_say() {
        let unary = "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor HardSigmoid HardSwish Hardmax \
                     LeakyRelu Log LogSoftmax LpNormalization Mish Neg Reciprocal Relu Round Selu \
                     Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh ThresholdedRelu ArgMax ArgMin \
                     IsInf IsNaN ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd \
                     ReduceSum ReduceSumSquare Trilu Transpose Flatten Identity GlobalAveragePool GlobalMaxPool";
        let binary = "Add Div Equal Greater GreaterOrEqual Less LessOrEqual MatMul Max Mean Min Mul PRelu Pow Sub Sum";
        let others =
            [("Where", "b x c"), ("Clip", "x c"), ("CumSum", "x one"), ("Gather", "x zero"), ("Concat", "x x")];
        let all = unary.split_whitespace().map(|operator| (operator, "x"));
        let all = all.chain(binary.split_whitespace().map(|operator| (operator, "x x"))).chain(others);
        for (operator, inputs) in all {
            let attributes = if operator == "Concat" { vec![("axis", Attr::Int(1))] } else { vec![] };
            let types = types_of(operator, inputs, attributes);
            assert!(!types.contains(&DataType::Float32), "{operator}: {types:?}");
            assert!(!IN_FLOAT32.contains(&operator), "{operator}");
        }
        for operator in ["LRN", "MeanVarianceNormalization", "Mod"] {
            let (inputs, attributes) = match operator {
                "Mod" => ("x x", vec![("fmod", Attr::Int(1))]),
                "LRN" => ("x", vec![("size", Attr::Int(3))]),
                _ => ("x", vec![]),
            };
            let types = types_of(operator, inputs, attributes);
            assert!(types.contains(&DataType::Float32) && IN_FLOAT32.contains(&operator), "{operator}: {types:?}");
        }
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
        let graph = TestGraph::default().input("x0", Double, &["1", "1", "2"]);
        let graph = (0..100).fold(graph, |graph, at| {
            graph.node("MeanVarianceNormalization", &format!("x{at}"), &format!("x{}", at + 1), vec![])
        });
        let found = found(graph.output("x100"));
        assert_eq!((found.nodes.len(), found.node_count), (MAX_NAMED, 100));
    }
}
