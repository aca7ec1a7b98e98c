//! A model as its file describes it: structure checked, nothing imported yet.

use super::error::{ModelError, Result, shortened};
use super::file::{ExternalData, FileSource, Files};
use super::foreign::format_of;
use super::proto;
use super::sizes::is_placeholder;
use super::tensor::{ElementType, TensorRecord};
use bytes::Bytes;
use prost::Message;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

/// The supported versions of `ai.onnx`.
pub const OPSETS: std::ops::RangeInclusive<i64> = 7..=28;

/// Maximum nesting depth of graphs in nodes, and of functions in functions.
pub const MAX_DEPTH: usize = 16;

/// Maximum number of attributes of a node or function.
const MAX_ATTRIBUTES: usize = 256;

/// The file's metadata.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Version of the file format.
    pub ir_version: i64,
    /// The tool that wrote the file.
    pub producer_name: String,
    /// The version of that tool.
    pub producer_version: String,
    /// The model's namespace.
    pub domain: String,
    /// The model's version.
    pub model_version: i64,
    /// A description for people.
    pub description: String,
    /// Name of the main graph.
    pub graph_name: String,
    /// Version of each operator set that the model uses; the empty name is `ai.onnx`.
    pub opsets: BTreeMap<String, i64>,
    /// Free-form properties.
    pub properties: BTreeMap<String, String>,
}

/// A dimension of an input or output.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Dimension {
    /// A fixed size.
    Fixed(u32),
    /// A named size, which is known when the model is used.
    Free(String),
}

/// An input or output of the main graph.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ValueInfo {
    /// Its name.
    pub name: String,
    /// Its type, if it is a tensor.
    #[serde(skip)]
    pub element: Option<ElementType>,
    /// The name of its type in WebNN, or in ONNX if WebNN lacks the type.
    pub data_type: String,
    /// The type in ONNX notation, such as `tensor(bool)`.
    pub r#type: String,
    /// Its dimensions, all with names; dimensions with a placeholder have one of their own. `None` if not even the rank
    /// is known.
    pub shape: Option<Vec<Dimension>>,
    /// Its dimensions as in the file; unnamed dimensions have an empty name.
    pub declared_shape: Option<Vec<Dimension>>,
}

/// Names dimensions without a name, or with a placeholder, after `value` and their axis: they may differ in size.
fn named(value: &str, shape: &[Dimension]) -> Vec<Dimension> {
    let named = |(axis, dimension): (usize, &Dimension)| match dimension {
        Dimension::Free(name) if is_placeholder(name) => Dimension::Free(format!("{value}_dim_{axis}")),
        known => known.clone(),
    };
    shape.iter().enumerate().map(named).collect()
}

impl ValueInfo {
    /// A value of which only the name is known.
    pub fn unknown(name: impl Into<String>) -> ValueInfo {
        let unknown = || "unknown".to_string();
        let (element, shape, declared_shape) = (None, None, None);
        ValueInfo { name: name.into(), element, data_type: unknown(), r#type: unknown(), shape, declared_shape }
    }

    /// Adds these dimensions if the file declares none.
    pub fn or_shape(self, shape: Vec<Dimension>) -> ValueInfo {
        match self.shape {
            Some(_) => self,
            None => self.with_shape(shape),
        }
    }

    /// Replaces the dimensions.
    pub fn with_shape(self, shape: Vec<Dimension>) -> ValueInfo {
        ValueInfo { shape: Some(named(&self.name, &shape)), declared_shape: Some(shape), ..self }
    }
}

/// A graph: the main one, the body of a function, or one in an attribute.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// Encoded nodes in an executable order.
    pub nodes: Vec<Bytes>,
    /// Constants by name.
    pub initializers: HashMap<String, TensorRecord>,
    /// The required inputs.
    pub inputs: Vec<ValueInfo>,
    /// The outputs.
    pub outputs: Vec<ValueInfo>,
}

/// A function of the model: a graph that defines an operator.
#[derive(Clone, Debug)]
pub struct Function {
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
    /// Encoded nodes in an executable order.
    pub nodes: Vec<Bytes>,
    /// Default values of attributes.
    pub defaults: Vec<proto::Attribute>,
    /// Version of each operator set that the body uses.
    pub opsets: BTreeMap<String, i64>,
}

/// Domain, name and overload of a function.
pub type FunctionId = (String, String, String);

/// A structurally valid model.
#[derive(Clone, Debug)]
pub struct Model {
    /// The file's metadata.
    pub metadata: Metadata,
    /// The main graph.
    pub graph: Graph,
    /// Functions of the model.
    pub functions: HashMap<FunctionId, Function>,
    /// The files with the weights.
    pub files: Arc<Files>,
    /// The result of [`block_size`](Model::block_size), once it is known.
    pub(super) known_block_size: OnceLock<Result<Option<u32>>>,
}

fn decode<T: Message + Default>(bytes: &Bytes, what: &str) -> Result<T> {
    T::decode(bytes.clone()).map_err(|error| ModelError::new(format!("{what} cannot be decoded: {error}")))
}

/// Decodes a node.
///
/// # Errors
/// If it is damaged.
pub fn decode_node(bytes: &Bytes) -> Result<proto::Node> {
    let mut node: proto::Node = decode(bytes, "a node")?;
    normalize(&mut node.domain);
    Ok(node)
}

/// Replaces the alias of the default domain by the empty name.
fn normalize(domain: &mut String) {
    if domain == "ai.onnx" {
        domain.clear();
    }
}

/// Decodes the attributes of a node.
///
/// # Errors
/// If an attribute is damaged, or there are absurdly many.
pub fn decode_attributes(node: &proto::Node) -> Result<Vec<proto::Attribute>> {
    // Lookups search the list linearly.
    if node.attribute.len() > MAX_ATTRIBUTES {
        let (shown, count) = (shortened(shown_name(node)), node.attribute.len());
        return Err(ModelError::new(format!("[{shown}] it has {count} attributes, more than {MAX_ATTRIBUTES}")));
    }
    node.attribute.iter().map(|bytes| decode(bytes, "an attribute")).collect()
}

fn opsets(encoded: &[Bytes]) -> Result<BTreeMap<String, i64>> {
    let mut opsets = BTreeMap::new();
    for bytes in encoded {
        let mut set: proto::OperatorSetId = decode(bytes, "an operator set")?;
        normalize(&mut set.domain);
        opsets.insert(set.domain, set.version);
    }
    match opsets.get("") {
        Some(version) if !OPSETS.contains(version) => {
            let (first, last) = (OPSETS.start(), OPSETS.end());
            Err(ModelError::new(format!("the model uses opset {version} of ai.onnx, expected {first} to {last}")))
        }
        _ => Ok(opsets),
    }
}

fn value_info(bytes: &Bytes) -> Result<ValueInfo> {
    let info: proto::ValueInfo = decode(bytes, "the description of a value")?;
    let unknown = ValueInfo::unknown(info.name);
    let Some(r#type) = info.r#type else { return Ok(unknown) };
    let Some(tensor) = r#type.tensor_type else {
        let (data_type, r#type) = other_type(&r#type)?;
        return Ok(ValueInfo { data_type: data_type.into(), r#type, ..unknown });
    };
    let element = ElementType::from_code(tensor.elem_type);
    let data_type = match element {
        Some(element) => element.webnn().map_or(element.name(), |dtype| dtype.name()),
        None => "unknown",
    };
    let dimensions = |shape: &proto::TensorShape| -> Result<Vec<Dimension>> {
        shape.dim.iter().map(|bytes| dimension(&unknown.name, bytes)).collect()
    };
    let declared_shape = tensor.shape.as_ref().map(dimensions).transpose()?;
    let shape = declared_shape.as_ref().map(|shape| named(&unknown.name, shape));
    let r#type = tensor_type(&tensor);
    Ok(ValueInfo { element, data_type: data_type.into(), r#type, shape, declared_shape, ..unknown })
}

/// The type of a tensor in ONNX notation.
fn tensor_type(tensor: &proto::TensorType) -> String {
    format!("tensor({})", ElementType::from_code(tensor.elem_type).map_or("unknown", ElementType::onnx_name))
}

/// For a type that is not a tensor: its name, and its ONNX notation, including the element type if that is a tensor.
fn other_type(r#type: &proto::Type) -> Result<(&'static str, String)> {
    let lists = [(&r#type.sequence_type, "sequence", "seq"), (&r#type.optional_type, "optional", "optional")];
    for (bytes, kind, short) in lists {
        let Some(bytes) = bytes else { continue };
        let list: proto::ListType = decode(bytes, "the type of a list")?;
        let inner = list.elem_type.as_ref().map(|bytes| decode::<proto::Type>(bytes, "the type in a list"));
        let tensor = inner.transpose()?.and_then(|inner| inner.tensor_type);
        return Ok((kind, format!("{short}({})", tensor.map_or("unknown".to_string(), |tensor| tensor_type(&tensor)))));
    }
    let others = [(&r#type.map_type, "map", "map"), (&r#type.sparse_tensor_type, "sparse tensor", "sparse_tensor")];
    let known = others.into_iter().find(|(bytes, ..)| bytes.is_some());
    Ok(known.map_or(("unknown", "unknown".to_string()), |(_, kind, name)| (kind, name.to_string())))
}

/// Decodes a dimension; unnamed ones get an empty name.
fn dimension(value: &str, bytes: &Bytes) -> Result<Dimension> {
    let dimension: proto::Dimension = decode(bytes, "a dimension")?;
    match (dimension.dim_value, dimension.dim_param) {
        (Some(size), _) if size >= 0 => u32::try_from(size).map(Dimension::Fixed).map_err(|_| {
            ModelError::new(format!("'{value}' has a dimension of {size} elements, more than a tensor can have"))
        }),
        (_, name) => Ok(Dimension::Free(name.unwrap_or_default())),
    }
}

impl Graph {
    /// Decodes a graph, leaving nodes and elements encoded. `outer` tests whether a surrounding graph defines a name.
    ///
    /// # Errors
    /// If anything is damaged, defined twice, used but never defined, or depends on itself.
    pub fn decode(bytes: &Bytes, outer: &dyn Fn(&str) -> bool, depth: usize) -> Result<Graph> {
        let graph: proto::Graph = decode(bytes, "a graph")?;
        let mut initializers = HashMap::new();
        for tensor in weights(&graph) {
            let tensor = tensor?;
            if let Some(twice) = initializers.insert(tensor.name.clone(), tensor) {
                return Err(ModelError::new(format!("there are two initializers named '{}'", twice.name)));
            }
        }
        let inputs = graph.input.iter().map(value_info).collect::<Result<Vec<_>>>()?;
        let outputs = graph.output.iter().map(value_info).collect::<Result<Vec<_>>>()?;
        let mut defined: HashSet<&str> = initializers.keys().map(String::as_str).collect();
        let mut names = HashSet::new();
        for input in &inputs {
            if !names.insert(&input.name) {
                return Err(ModelError::new(format!("there are two inputs named '{}'", input.name)));
            }
            defined.insert(&input.name);
        }
        // A graph may redefine names of the graphs around it, which shadows them.
        let nodes = sorted(graph.node, &|name| defined.contains(name), outer, depth)?;
        let known = |name: &str| defined.contains(name) || outer(name);
        let made = produced(&nodes)?;
        let mut names = HashSet::new();
        for output in &outputs {
            if !names.insert(&output.name) {
                return Err(ModelError::new(format!("there are two outputs named '{}'", output.name)));
            }
            if !made.contains(&output.name) && !known(&output.name) {
                return Err(ModelError::new(format!("nothing computes the output '{}'", output.name)));
            }
        }
        Ok(Graph { name: graph.name, nodes, initializers, inputs, outputs })
    }

    /// The inputs that are not initializers: those that a caller must provide.
    pub fn free_inputs(&self) -> impl Iterator<Item = &ValueInfo> {
        self.inputs.iter().filter(|input| !self.initializers.contains_key(&input.name))
    }
}

/// The constants of a graph, dense and sparse ones.
fn weights(graph: &proto::Graph) -> impl Iterator<Item = Result<TensorRecord>> {
    let dense = graph.initializer.iter().map(TensorRecord::decode);
    dense.chain(graph.sparse_initializer.iter().map(TensorRecord::decode_sparse))
}

/// The names of the outputs of `nodes`.
///
/// # Errors
/// If a node is damaged.
pub(super) fn produced(nodes: &[Bytes]) -> Result<HashSet<String>> {
    let mut made = HashSet::new();
    for node in nodes {
        made.extend(decode_node(node)?.output.into_iter().filter(|name| !name.is_empty()));
    }
    Ok(made)
}

/// The names that a node reads: its inputs, and the names that graphs in its attributes capture.
///
/// # Errors
/// Those of [`Graph::decode`] for these graphs, or if they are nested too deeply.
pub fn reads(node: &proto::Node, depth: usize) -> Result<Vec<String>> {
    let mut names: Vec<String> = node.input.iter().filter(|name| !name.is_empty()).cloned().collect();
    for attribute in decode_attributes(node)? {
        if let Some(graph) = attribute.g {
            names.extend(captures(&graph, depth + 1)?);
        }
    }
    Ok(names)
}

/// The names that a graph in an attribute captures from around it.
fn captures(bytes: &Bytes, depth: usize) -> Result<Vec<String>> {
    if depth > MAX_DEPTH {
        return Err(ModelError::new(format!("graphs are nested more than {MAX_DEPTH} deep")));
    }
    let graph: proto::Graph = decode(bytes, "a graph")?;
    let mut own = HashSet::new();
    for tensor in weights(&graph) {
        own.insert(tensor?.name);
    }
    for bytes in &graph.input {
        own.insert(value_info(bytes)?.name);
    }
    let mut names = Vec::new();
    for bytes in &graph.node {
        let node = decode_node(bytes)?;
        names.extend(reads(&node, depth)?);
        own.extend(node.output);
    }
    for bytes in &graph.output {
        names.push(value_info(bytes)?.name);
    }
    let mut seen = HashSet::new();
    names.retain(|name| !own.contains(name) && seen.insert(name.clone()));
    Ok(names)
}

/// Sorts the nodes into an executable order: the one in the file, if it is executable, as the standard requires.
///
/// # Errors
/// If a name is defined twice or never, or nodes depend on each other.
fn sorted(
    encoded: Vec<Bytes>,
    defined: &dyn Fn(&str) -> bool,
    outer: &dyn Fn(&str) -> bool,
    depth: usize,
) -> Result<Vec<Bytes>> {
    let mut makers: HashMap<String, usize> = HashMap::new();
    for (index, bytes) in encoded.iter().enumerate() {
        for name in decode_node(bytes)?.output.into_iter().filter(|name| !name.is_empty()) {
            if defined(&name) || makers.contains_key(&name) {
                return Err(ModelError::new(format!("the value '{name}' is defined twice")));
            }
            makers.insert(name, index);
        }
    }
    let mut waiting = vec![0u32; encoded.len()];
    let mut readers: Vec<Vec<u32>> = vec![Vec::new(); encoded.len()];
    for (index, bytes) in encoded.iter().enumerate() {
        let node = decode_node(bytes)?;
        for name in reads(&node, depth)? {
            match makers.get(&name) {
                Some(&maker) => {
                    readers[maker].push(index as u32);
                    waiting[index] += 1;
                }
                None if defined(&name) || outer(&name) => {}
                None => {
                    let shown = shown_name(&node);
                    return Err(ModelError::new(format!("[{shown}] {}: nothing defines '{name}'", node.op_type)));
                }
            }
        }
    }
    // Among the nodes that are ready, the first in the file goes next.
    let ready = waiting.iter().enumerate().filter(|(_, count)| **count == 0);
    let mut ready: std::collections::BTreeSet<u32> = ready.map(|(index, _)| index as u32).collect();
    let mut order = Vec::with_capacity(encoded.len());
    while let Some(index) = ready.pop_first() {
        order.push(encoded[index as usize].clone());
        for &reader in &readers[index as usize] {
            waiting[reader as usize] -= 1;
            if waiting[reader as usize] == 0 {
                ready.insert(reader);
            }
        }
    }
    match waiting.iter().position(|&count| count > 0) {
        None => Ok(order),
        Some(index) => {
            let node = decode_node(&encoded[index])?;
            Err(ModelError::new(format!("[{}] {}: it depends on its own outputs", shown_name(&node), node.op_type)))
        }
    }
}

/// The name of a node in messages: its own, or that of its first output.
pub fn shown_name(node: &proto::Node) -> &str {
    if node.name.is_empty() {
        node.output.iter().find(|name| !name.is_empty()).map_or("", |name| name)
    } else {
        &node.name
    }
}

/// Decodes a function. It inherits the operator sets of `model` unless it names its own.
fn function(bytes: &Bytes, model: &BTreeMap<String, i64>) -> Result<(FunctionId, Function)> {
    let mut function: proto::Function = decode(bytes, "a function")?;
    normalize(&mut function.domain);
    let inputs: HashSet<&str> = function.input.iter().map(String::as_str).collect();
    let nodes = sorted(function.node, &|name| inputs.contains(name), &|_| false, 0)
        .map_err(|error| ModelError::new(format!("function {}.{}: {error}", function.domain, function.name)))?;
    if function.attribute_proto.len() > MAX_ATTRIBUTES {
        let (name, count) = (shortened(&function.name), function.attribute_proto.len());
        return Err(ModelError::new(format!("function {name}: it has {count} attributes, more than {MAX_ATTRIBUTES}")));
    }
    let defaults = function.attribute_proto.iter().map(|bytes| decode(bytes, "an attribute")).collect::<Result<_>>()?;
    let mut opsets = opsets(&function.opset_import)?;
    for (domain, &version) in model {
        opsets.entry(domain.clone()).or_insert(version);
    }
    let (inputs, outputs) = (function.input, function.output);
    Ok(((function.domain, function.name, function.overload), Function { inputs, outputs, nodes, defaults, opsets }))
}

impl Function {
    /// The attributes of a call, completed with defaults.
    pub fn arguments(&self, given: &[proto::Attribute]) -> Vec<proto::Attribute> {
        let is_given = |default: &&proto::Attribute| given.iter().any(|argument| argument.name == default.name);
        given.iter().chain(self.defaults.iter().filter(|default| !is_given(default))).cloned().collect()
    }
}

/// The first version of the file format in which an initializer that is also an input is a default.
const DEFAULTS: i64 = 4;

impl Model {
    /// The inputs that have a default: a caller may provide them.
    pub fn optional_inputs(&self) -> impl Iterator<Item = &ValueInfo> {
        let inputs = self.graph.inputs.iter().filter(|_| self.metadata.ir_version >= DEFAULTS);
        inputs.filter(|input| self.graph.initializers.contains_key(&input.name))
    }

    /// The same model, in which a caller must also provide the optional inputs among `names`.
    pub fn requiring<'a>(&self, names: impl IntoIterator<Item = &'a String>) -> Model {
        let mut model = self.clone();
        let defaults: HashSet<&str> = self.optional_inputs().map(|input| input.name.as_str()).collect();
        let names = names.into_iter().filter(|name| defaults.contains(name.as_str()));
        names.for_each(|name| _ = model.graph.initializers.remove(name));
        model
    }

    /// Opens a model. `external_data` replaces files next to it, by location.
    ///
    /// # Errors
    /// If a file cannot be read or is not a valid model.
    pub fn open(source: FileSource, external_data: ExternalData) -> Result<Model> {
        let path = match source {
            FileSource::Path(path) => path,
            FileSource::Bytes(bytes) => {
                let (files, bytes) = Files::of_bytes(bytes);
                return Model::decode(bytes, files.with_external_data(external_data)?);
            }
        };
        let named = |error: ModelError| match error.message.contains(&*path.to_string_lossy()) {
            true => error,
            false => ModelError { message: format!("{}: {error}", path.display()), ..error },
        };
        let (files, bytes) = Files::open(&path).map_err(named)?;
        Model::decode(bytes, files.with_external_data(external_data)?).map_err(named)
    }

    /// Decodes a model.
    ///
    /// # Errors
    /// If it is not valid.
    pub fn decode(bytes: Bytes, files: Files) -> Result<Model> {
        let foreign = |why: &str| match format_of(&bytes) {
            Some(format) => ModelError::new(format!("not an ONNX file: it seems to be {format}")),
            None => ModelError::new(why),
        };
        let model: proto::Model = decode(&bytes, "the model").map_err(|error| foreign(&error.message))?;
        let Some(graph) = &model.graph else {
            let is_empty = bytes.is_empty();
            return Err(foreign(if is_empty {
                "not an ONNX file: it is empty"
            } else {
                "not an ONNX file: it has no graph"
            }));
        };
        let opsets = opsets(&model.opset_import)?;
        if opsets.is_empty() {
            return Err(ModelError::new("not an ONNX file: it names no operator set"));
        }
        let graph = Graph::decode(graph, &|_| false, 0)?;
        let mut functions = HashMap::new();
        for bytes in &model.functions {
            let (id, function) = function(bytes, &opsets)?;
            if let Some(_twice) = functions.insert(id.clone(), function) {
                return Err(ModelError::new(format!("there are two functions {}.{}", id.0, id.1)));
            }
        }
        let mut properties = BTreeMap::new();
        for bytes in &model.metadata_props {
            let entry: proto::Entry = decode(bytes, "a property")?;
            properties.insert(entry.key, entry.value);
        }
        let metadata = Metadata {
            ir_version: model.ir_version,
            producer_name: model.producer_name,
            producer_version: model.producer_version,
            domain: model.domain,
            model_version: model.model_version,
            description: model.doc_string,
            graph_name: graph.name.clone(),
            opsets,
            properties,
        };
        // The remaining pages hold weights that nothing has read yet.
        files.release();
        Ok(Model { metadata, graph, functions, files: Arc::new(files), known_block_size: OnceLock::new() })
    }
}
