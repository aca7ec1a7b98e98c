//! The messages of `onnx.proto3` (IR version 11), limited to the fields that an importer reads.
//!
//! Fields that can be numerous or large stay encoded ([`Bytes`] share the memory of the file) and are decoded on
//! access. A file with a few bytes per message cannot make the reader allocate hundreds, nested graphs cannot make it
//! recurse, and weights are never copied.

use bytes::Bytes;
use prost::Message;

/// `ModelProto`.
#[derive(Clone, PartialEq, Message)]
pub struct Model {
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    #[prost(string, tag = "2")]
    pub producer_name: String,
    #[prost(string, tag = "3")]
    pub producer_version: String,
    #[prost(string, tag = "4")]
    pub domain: String,
    #[prost(int64, tag = "5")]
    pub model_version: i64,
    #[prost(string, tag = "6")]
    pub doc_string: String,
    /// A [`Graph`].
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub graph: Option<Bytes>,
    /// [`OperatorSetId`]s.
    #[prost(bytes = "bytes", repeated, tag = "8")]
    pub opset_import: Vec<Bytes>,
    /// [`Entry`]s.
    #[prost(bytes = "bytes", repeated, tag = "14")]
    pub metadata_props: Vec<Bytes>,
    /// [`Function`]s.
    #[prost(bytes = "bytes", repeated, tag = "25")]
    pub functions: Vec<Bytes>,
}

/// `OperatorSetIdProto`.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSetId {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// `StringStringEntryProto`.
#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `GraphProto`.
#[derive(Clone, PartialEq, Message)]
pub struct Graph {
    /// [`Node`]s.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub node: Vec<Bytes>,
    #[prost(string, tag = "2")]
    pub name: String,
    /// [`Tensor`]s.
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub initializer: Vec<Bytes>,
    /// [`ValueInfo`]s.
    #[prost(bytes = "bytes", repeated, tag = "11")]
    pub input: Vec<Bytes>,
    /// [`ValueInfo`]s.
    #[prost(bytes = "bytes", repeated, tag = "12")]
    pub output: Vec<Bytes>,
    /// [`SparseTensor`]s.
    #[prost(bytes = "bytes", repeated, tag = "15")]
    pub sparse_initializer: Vec<Bytes>,
}

/// `FunctionProto`.
#[derive(Clone, PartialEq, Message)]
pub struct Function {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// [`Node`]s.
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub node: Vec<Bytes>,
    /// [`OperatorSetId`]s.
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub opset_import: Vec<Bytes>,
    #[prost(string, tag = "10")]
    pub domain: String,
    /// [`Attribute`]s with default values.
    #[prost(bytes = "bytes", repeated, tag = "11")]
    pub attribute_proto: Vec<Bytes>,
    #[prost(string, tag = "13")]
    pub overload: String,
}

/// `NodeProto`; its names are strings that are not copied.
#[derive(Clone, PartialEq, Message)]
pub struct Node {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub input: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub output: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "3")]
    pub name: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub op_type: Bytes,
    /// [`Attribute`]s.
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub attribute: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "7")]
    pub domain: Bytes,
    #[prost(bytes = "bytes", tag = "8")]
    pub overload: Bytes,
}

/// `AttributeProto`.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub s: Option<Bytes>,
    /// A [`Tensor`].
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub t: Option<Bytes>,
    /// A [`Graph`].
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub g: Option<Bytes>,
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub strings: Vec<Bytes>,
    /// `AttributeProto.AttributeType`.
    #[prost(int32, tag = "20")]
    pub r#type: i32,
    /// In a function: the attribute of the call whose value this one takes.
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
    /// A [`SparseTensor`].
    #[prost(bytes = "bytes", optional, tag = "22")]
    pub sparse_tensor: Option<Bytes>,
}

/// The texts of an `AttributeProto`, without its numbers, which can be many.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeTexts {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub s: Option<Bytes>,
    /// A [`Tensor`].
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub t: Option<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub strings: Vec<Bytes>,
}

/// A `TensorProto` without the elements.
#[derive(Clone, PartialEq, Message)]
pub struct TensorHeader {
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    /// `TensorProto.DataType`.
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(string, tag = "8")]
    pub name: String,
    /// Only its length matters.
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub raw_data: Option<Bytes>,
    /// [`Entry`]s with the location of the elements.
    #[prost(bytes = "bytes", repeated, tag = "13")]
    pub external_data: Vec<Bytes>,
    /// 1 if the elements are in another file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// The elements of a `TensorProto` other than `raw_data`.
#[derive(Clone, PartialEq, Message)]
pub struct TensorElements {
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
}

/// The elements of a `TensorProto` of strings.
#[derive(Clone, PartialEq, Message)]
pub struct TensorTexts {
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub string_data: Vec<Bytes>,
}

/// `SparseTensorProto`.
#[derive(Clone, PartialEq, Message)]
pub struct SparseTensor {
    /// A `TensorProto` with the values, and the name of the whole.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub values: Option<Bytes>,
    /// A `TensorProto`.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub indices: Option<Bytes>,
    #[prost(int64, repeated, tag = "3")]
    pub dims: Vec<i64>,
}

/// `ValueInfoProto`.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<Type>,
}

/// `TypeProto`; for maps and sparse tensors, only their presence matters.
#[derive(Clone, PartialEq, Message)]
pub struct Type {
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorType>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub sequence_type: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub map_type: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "8")]
    pub sparse_tensor_type: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub optional_type: Option<Bytes>,
}

/// `TypeProto.Sequence` and `TypeProto.Optional`.
#[derive(Clone, PartialEq, Message)]
pub struct ListType {
    /// A [`Type`].
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub elem_type: Option<Bytes>,
}

/// `TypeProto.Map`.
#[derive(Clone, PartialEq, Message)]
pub struct MapType {
    #[prost(int32, tag = "1")]
    pub key_type: i32,
    /// A [`Type`].
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub value_type: Option<Bytes>,
}

/// `TypeProto.Tensor`.
#[derive(Clone, PartialEq, Message)]
pub struct TensorType {
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShape>,
}

/// `TensorShapeProto`.
#[derive(Clone, PartialEq, Message)]
pub struct TensorShape {
    /// [`Dimension`]s.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub dim: Vec<Bytes>,
}

/// `TensorShapeProto.Dimension`; if it has neither value, nothing is known of the dimension.
#[derive(Clone, PartialEq, Message)]
pub struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}
