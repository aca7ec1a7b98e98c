//! Models for tests, defined in Rust.

use super::error::Result;
use super::file::Files;
use super::import::{Request, import};
use super::model::Model;
use super::proto;
use super::tensor::ElementType;
use crate::ir::{Builder, Graph};
use crate::ops::tensor::Tensor;
use crate::reference;
use bytes::Bytes;
use prost::Message;
use std::collections::HashMap;

/// The value of an attribute.
pub enum Attr<'a> {
    Int(i64),
    Float(f32),
    Text(&'a str),
    Ints(&'a [i64]),
    Floats(&'a [f32]),
    Texts(&'a [&'a str]),
    Graph(TestGraph),
    Tensor(ElementType, &'a [i64], &'a [u8]),
    /// A reference to an attribute of the function that contains the node.
    Ref(&'a str),
}

/// A graph under construction.
#[derive(Clone, Default)]
pub struct TestGraph {
    graph: proto::Graph,
}

fn encode(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

/// An encoded `TensorProto` with raw elements.
fn tensor(name: &str, element: ElementType, dims: &[i64], bytes: &[u8]) -> Bytes {
    encode(&proto::TensorHeader {
        dims: dims.to_vec(),
        data_type: code(element),
        name: name.to_string(),
        raw_data: Some(bytes.to_vec().into()),
        ..Default::default()
    })
}

fn code(element: ElementType) -> i32 {
    (0..64).find(|&code| ElementType::from_code(code) == Some(element)).expect("every type has a number")
}

/// An encoded `ValueInfoProto`; dimensions that are not numbers are names.
pub fn value_info(name: &str, element: ElementType, dims: &[&str]) -> Bytes {
    let dim = dims.iter().map(|dim| {
        let dim_value = dim.parse().ok();
        encode(&proto::Dimension { dim_value, dim_param: dim_value.is_none().then(|| dim.to_string()) })
    });
    let shape = Some(proto::TensorShape { dim: dim.collect() });
    let tensor_type = Some(proto::TensorType { elem_type: code(element), shape });
    let r#type = Some(proto::Type { tensor_type, ..Default::default() });
    encode(&proto::ValueInfo { name: name.to_string(), r#type })
}

fn attribute(name: &str, value: Attr) -> Bytes {
    let text = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let mut attribute = proto::Attribute { name: name.to_string(), ..Default::default() };
    match value {
        Attr::Int(int) => attribute.i = Some(int),
        Attr::Float(float) => attribute.f = Some(float),
        Attr::Text(value) => attribute.s = Some(text(value)),
        Attr::Ints(ints) => attribute.ints = ints.to_vec(),
        Attr::Floats(floats) => attribute.floats = floats.to_vec(),
        Attr::Texts(texts) => attribute.strings = texts.iter().map(|value| text(value)).collect(),
        Attr::Graph(graph) => attribute.g = Some(encode(&graph.graph)),
        Attr::Tensor(element, dims, bytes) => attribute.t = Some(tensor("", element, dims, bytes)),
        Attr::Ref(name) => attribute.ref_attr_name = name.to_string(),
    }
    encode(&attribute)
}

/// An encoded `NodeProto`. `operator` may have a domain as a prefix: `com.microsoft.Gelu`. Names are separated by
/// spaces; `_` stands for an omitted one.
pub fn node(operator: &str, inputs: &str, outputs: &str, attributes: Vec<(&str, Attr)>) -> Bytes {
    let text = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let names = |names: &str| names.split_whitespace().map(|name| text(if name == "_" { "" } else { name })).collect();
    let (domain, op_type) = operator.rsplit_once('.').unwrap_or(("", operator));
    encode(&proto::Node {
        input: names(inputs),
        output: names(outputs),
        op_type: text(op_type),
        domain: text(domain),
        attribute: attributes.into_iter().map(|(name, value)| attribute(name, value)).collect(),
        ..Default::default()
    })
}

impl TestGraph {
    /// Adds an input; dimensions that are not numbers are names of free dimensions.
    pub fn input(mut self, name: &str, element: ElementType, dims: &[&str]) -> TestGraph {
        self.graph.input.push(value_info(name, element, dims));
        self
    }

    /// Adds an output whose type does not matter, one that WebNN has.
    pub fn output(self, name: &str) -> TestGraph {
        self.output_of(name, ElementType::Float)
    }

    /// Adds an output of the given type.
    pub fn output_of(mut self, name: &str, element: ElementType) -> TestGraph {
        self.graph.output.push(value_info(name, element, &[]));
        self
    }

    /// Adds a float32 output; dimensions that are not numbers are names.
    pub fn shaped_output(mut self, name: &str, dims: &[&str]) -> TestGraph {
        self.graph.output.push(value_info(name, ElementType::Float, dims));
        self
    }

    /// Adds a node; see [`node`].
    pub fn node(mut self, operator: &str, inputs: &str, outputs: &str, attributes: Vec<(&str, Attr)>) -> TestGraph {
        self.graph.node.push(node(operator, inputs, outputs, attributes));
        self
    }

    /// Adds an initializer with these bytes.
    pub fn raw(mut self, name: &str, element: ElementType, dims: &[i64], bytes: &[u8]) -> TestGraph {
        self.graph.initializer.push(tensor(name, element, dims, bytes));
        self
    }

    /// Adds an initializer with this header, unchanged.
    pub fn encoded(mut self, header: &proto::TensorHeader) -> TestGraph {
        self.graph.initializer.push(encode(header));
        self
    }

    /// Adds a sparse float32 initializer with these values at these indices, which have a shape.
    pub fn sparse(mut self, name: &str, dims: &[i64], values: &[f32], indices: (&[i64], &[i64])) -> TestGraph {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let values = tensor(name, ElementType::Float, &[values.len() as i64], &bytes);
        let bytes: Vec<u8> = indices.0.iter().flat_map(|index| index.to_le_bytes()).collect();
        let indices = tensor("", ElementType::Int64, indices.1, &bytes);
        let sparse = proto::SparseTensor { values: Some(values), indices: Some(indices), dims: dims.to_vec() };
        self.graph.sparse_initializer.push(encode(&sparse));
        self
    }

    /// Adds an initializer: a list of int64.
    pub fn ints(self, name: &str, ints: &[i64]) -> TestGraph {
        let bytes: Vec<u8> = ints.iter().flat_map(|int| int.to_le_bytes()).collect();
        self.raw(name, ElementType::Int64, &[ints.len() as i64], &bytes)
    }

    /// Adds a float32 initializer.
    pub fn floats(self, name: &str, dims: &[i64], floats: &[f32]) -> TestGraph {
        let bytes: Vec<u8> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
        self.raw(name, ElementType::Float, dims, &bytes)
    }

    /// Encodes a model with this main graph.
    pub fn encode(self, opset: i64) -> Bytes {
        self.encode_with(opset, Vec::new())
    }

    /// Like [`encode`](Self::encode), with functions.
    pub fn encode_with(self, opset: i64, functions: Vec<proto::Function>) -> Bytes {
        let set = |domain: &str, version| encode(&proto::OperatorSetId { domain: domain.to_string(), version });
        encode(&proto::Model {
            ir_version: 8,
            graph: Some(encode(&self.graph)),
            opset_import: vec![set("", opset), set("com.microsoft", 1), set("ai.onnx.ml", 5)],
            functions: functions.iter().map(encode).collect(),
            ..Default::default()
        })
    }

    /// Imports a model with this main graph.
    pub fn import(self, opset: i64, request: &Request) -> Result<Graph> {
        graph_of(&Model::decode(self.encode(opset), Files::default())?, request)
    }

    /// Like [`import`](Self::import) without free dimensions, for a device that has only the operators of the API.
    pub fn import_for_gpus(self, opset: i64) -> Result<Graph> {
        let model = Model::decode(self.encode(opset), Files::default())?;
        imported(&model, Builder::new().with_extensions(false), &Request::default())
    }

    /// The text, without labels, of the graph imported from a model with this main graph and no free dimensions.
    ///
    /// # Panics
    /// If the model cannot be imported.
    pub fn text(self, opset: i64) -> String {
        let mut graph = self.import(opset, &Request::default()).unwrap_or_else(|error| panic!("{error}"));
        graph.nodes.iter_mut().for_each(|node| node.label.clear());
        graph.to_string()
    }

    /// The shape of the first output of a model with this main graph and no free dimensions.
    ///
    /// # Panics
    /// If the model cannot be imported.
    pub fn output_shape(self, opset: i64) -> Vec<u32> {
        let graph = self.import(opset, &Request::default()).unwrap_or_else(|error| panic!("{error}"));
        graph.descriptor(graph.outputs[0].1).sizes().to_vec()
    }

    /// The message with which a model with this main graph and no free dimensions is refused.
    ///
    /// # Panics
    /// If the model can be imported.
    pub fn refusal(self, opset: i64) -> String {
        self.import(opset, &Request::default()).expect_err("the model is refused").message
    }
}

/// Imports `model`.
pub fn graph_of(model: &Model, request: &Request) -> Result<Graph> {
    imported(model, Builder::new(), request)
}

fn imported(model: &Model, mut builder: Builder, request: &Request) -> Result<Graph> {
    let imported = import(model, &mut builder, request)?;
    let outputs = imported.outputs.into_iter().filter_map(|output| Some((output.name, output.operand?)));
    Ok(builder.finish(outputs.collect()))
}

/// The numbers of the output `y` of `graph`, by the oracle.
pub fn y_of(graph: &Graph, inputs: &HashMap<String, Tensor>) -> Vec<f64> {
    let y = reference::run(graph, inputs).remove("y").expect("an output");
    y.numbers().map(|number| number.to_f64()).collect()
}
