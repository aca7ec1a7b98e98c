//! A model as its file describes it: structure checked, nothing imported yet.

use super::constants::MAX_COPIED_BYTES;
use super::decode::{Decoder, decode, normalized};
use super::error::{ModelError, Result, quoted, shortened};
use super::file::{ExternalData, FileSource, Files};
use super::foreign::format_of;
use super::graph::{Arena, AttributeId, FunctionId, Graph, GraphId, NameId};
use super::prepared::Prepared;
use super::proto;
use super::sizes::is_placeholder;
use super::tensor::{ElementType, TensorRecord};
use super::texts::Texts;
use crate::error::amount;
use bytes::Bytes;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

/// Sizes in bytes of initializers that an import copies, and that have pages which parsing has not read: smaller ones lie in
/// those of their own header and of the next one.
const COPIED_LATE: std::ops::RangeInclusive<usize> = 4097..=MAX_COPIED_BYTES;

/// The supported versions of `ai.onnx`.
pub const OPSETS: std::ops::RangeInclusive<i64> = 1..=28;

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

/// What a sequence or an optional holds: tensors of one type.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Items {
    /// The type.
    #[serde(skip)]
    pub element: ElementType,
    /// Its name in WebNN, or in ONNX if WebNN lacks it.
    pub data_type: &'static str,
    /// Whether it is, or may be, a list.
    pub is_sequence: bool,
    /// Whether it may be nothing at all.
    pub is_optional: bool,
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
    pub data_type: Cow<'static, str>,
    /// The type in ONNX notation, such as `tensor(bool)`.
    pub r#type: Cow<'static, str>,
    /// Its dimensions, all with names; dimensions with a placeholder have one of their own. `None` if not even the rank
    /// is known.
    pub shape: Option<Vec<Dimension>>,
    /// Its dimensions as in the file; unnamed dimensions have an empty name.
    pub declared_shape: Option<Vec<Dimension>>,
    /// What it holds, if it is a sequence or an optional.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Items>,
    /// The labels of the columns of its tensor, if it is a list with a map for each row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
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
        let (element, shape, declared_shape) = (None, None, None);
        let (items, labels) = (None, None);
        let (data_type, r#type) = ("unknown".into(), "unknown".into());
        ValueInfo { name: name.into(), element, data_type, r#type, shape, declared_shape, items, labels }
    }

    /// Whether it is a tensor of texts.
    pub fn is_texts(&self) -> bool {
        self.element == Some(ElementType::String)
    }

    /// Whether it is a tensor of texts, or holds some.
    pub fn has_texts(&self) -> bool {
        self.is_texts() || self.items.is_some_and(|items| items.element == ElementType::String)
    }

    /// Checks that a value is of texts if, and only if, that is what the file declares.
    ///
    /// # Errors
    /// The reason, to follow the name of the value.
    pub fn check_texts(&self, is_texts: bool) -> Result<(), String> {
        match (is_texts, self.is_texts()) {
            (true, false) => Err(format!("is a tensor of texts, and declared as {}", self.r#type)),
            (false, true) => Err("is a tensor of numbers, and declared as one of texts".to_string()),
            _ => Ok(()),
        }
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

/// A function of the model: a graph that defines an operator.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its body.
    pub graph: GraphId,
    /// Default values of attributes.
    pub defaults: Vec<AttributeId>,
}

/// A structurally valid model.
#[derive(Clone, Debug)]
pub struct Model {
    /// The file's metadata.
    pub metadata: Metadata,
    /// All graphs.
    pub arena: Arena,
    /// The main graph.
    pub main: GraphId,
    /// Functions of the model.
    functions: Vec<Function>,
    /// The files with the weights.
    pub files: Arc<Files>,
    /// The result of [`block_size`](Model::block_size), once it is known.
    pub(super) known_block_size: OnceLock<Result<Option<u32>>>,
    /// The result of [`texts`](Model::texts), once it is known.
    known_texts: OnceLock<Arc<Texts>>,
    /// What nodes have made of their attributes.
    pub(super) prepared: Prepared,
}

fn opsets(encoded: &[Bytes]) -> Result<BTreeMap<String, i64>> {
    let mut opsets = BTreeMap::new();
    for bytes in encoded {
        let proto::OperatorSetId { domain, version } = decode(bytes, "an operator set")?;
        opsets.insert(normalized(domain), version);
    }
    match opsets.get("") {
        Some(version) if !OPSETS.contains(version) => {
            let (first, last) = (OPSETS.start(), OPSETS.end());
            Err(ModelError::new(format!("the model uses opset {version} of ai.onnx, expected {first} to {last}")))
        }
        _ => Ok(opsets),
    }
}

/// Decodes the declaration of an input or output.
pub(super) fn value_info(bytes: &Bytes) -> Result<ValueInfo> {
    let info: proto::ValueInfo = decode(bytes, "the description of a value")?;
    let unknown = ValueInfo::unknown(info.name);
    let Some(r#type) = info.r#type else { return Ok(unknown) };
    let shown = shown_type(&r#type, 1)?;
    let Some(tensor) = r#type.tensor_type else {
        let (data_type, items) = (kind_of(&r#type).into(), items_of(&shown));
        return Ok(ValueInfo { data_type, r#type: shown.into(), items, ..unknown });
    };
    let element = ElementType::from_code(tensor.elem_type);
    let data_type = element.map_or("unknown", data_type_of);
    let dimensions = |shape: &proto::TensorShape| -> Result<Vec<Dimension>> {
        shape.dim.iter().map(|bytes| dimension(&unknown.name, bytes)).collect()
    };
    let declared_shape = tensor.shape.as_ref().map(dimensions).transpose()?;
    let shape = declared_shape.as_ref().map(|shape| named(&unknown.name, shape));
    Ok(ValueInfo { element, data_type: data_type.into(), r#type: shown.into(), shape, declared_shape, ..unknown })
}

/// The type of a tensor in ONNX notation.
fn tensor_type(tensor: &proto::TensorType) -> String {
    format!("tensor({})", ElementType::from_code(tensor.elem_type).map_or("unknown", ElementType::onnx_name))
}

/// Maximum depth of types: an optional of a sequence of maps of tensors.
const MAX_TYPE_DEPTH: usize = 4;

/// A type in ONNX notation.
fn shown_type(r#type: &proto::Type, depth: usize) -> Result<String> {
    let inner = |bytes: &Option<Bytes>| match bytes {
        Some(bytes) if depth < MAX_TYPE_DEPTH => shown_type(&decode(bytes, "the type in a type")?, depth + 1),
        _ => Ok("unknown".to_string()),
    };
    let list = |name: &str, bytes: &Bytes| {
        let list: proto::ListType = decode(bytes, "the type of a list")?;
        Ok(format!("{name}({})", inner(&list.elem_type)?))
    };
    match r#type {
        proto::Type { tensor_type: Some(tensor), .. } => Ok(tensor_type(tensor)),
        proto::Type { sequence_type: Some(bytes), .. } => list("seq", bytes),
        proto::Type { optional_type: Some(bytes), .. } => list("optional", bytes),
        proto::Type { map_type: Some(bytes), .. } => {
            let map: proto::MapType = decode(bytes, "the type of a map")?;
            let key = ElementType::from_code(map.key_type).map_or("unknown", ElementType::onnx_name);
            Ok(format!("map({key},{})", inner(&map.value_type)?))
        }
        proto::Type { sparse_tensor_type: Some(_), .. } => Ok("sparse_tensor".to_string()),
        _ => Ok("unknown".to_string()),
    }
}

/// The name of the kind of a type that is not a tensor.
fn kind_of(r#type: &proto::Type) -> &'static str {
    match r#type {
        proto::Type { sequence_type: Some(_), .. } => "sequence",
        proto::Type { optional_type: Some(_), .. } => "optional",
        proto::Type { map_type: Some(_), .. } => "map",
        proto::Type { sparse_tensor_type: Some(_), .. } => "sparse tensor",
        _ => "unknown",
    }
}

/// What a sequence or an optional holds, from its type in ONNX notation.
fn items_of(shown: &str) -> Option<Items> {
    let (is_optional, rest) = match shown.strip_prefix("optional(") {
        Some(rest) => (true, rest.strip_suffix(')')?),
        None => (false, shown),
    };
    let (is_sequence, rest) = match rest.strip_prefix("seq(") {
        Some(rest) => (true, rest.strip_suffix(')')?),
        None => (false, rest),
    };
    let name = rest.strip_prefix("tensor(")?.strip_suffix(')')?;
    let element = ElementType::from_onnx_name(name).filter(|element| element.carried().is_some())?;
    let data_type = data_type_of(element);
    (is_optional || is_sequence).then_some(Items { element, data_type, is_sequence, is_optional })
}

/// The name of a type in WebNN, or in ONNX if WebNN lacks it.
fn data_type_of(element: ElementType) -> &'static str {
    element.webnn().map_or(element.name(), |dtype| dtype.name())
}

/// Decodes a dimension; unnamed ones get an empty name.
fn dimension(value: &str, bytes: &Bytes) -> Result<Dimension> {
    let dimension: proto::Dimension = decode(bytes, "a dimension")?;
    match (dimension.dim_value, dimension.dim_param) {
        (Some(size), _) if size >= 0 => u32::try_from(size).map(Dimension::Fixed).map_err(|_| {
            ModelError::new(format!(
                "{} has a dimension of {}, more than a tensor can have",
                quoted(value),
                amount(size, "element")
            ))
        }),
        (_, name) => Ok(Dimension::Free(name.unwrap_or_default())),
    }
}

/// Domain, name and overload of a function.
type FunctionName = [String; 3];

/// Decodes a function. It inherits the operator sets of `model` unless it names its own.
fn function(bytes: &Bytes, model: &BTreeMap<String, i64>, decoder: &mut Decoder) -> Result<(FunctionName, Function)> {
    let function: proto::Function = decode(bytes, "a function")?;
    let domain = normalized(function.domain);
    let mut opsets = opsets(&function.opset_import)?;
    for (domain, &version) in model {
        opsets.entry(domain.clone()).or_insert(version);
    }
    decoder.use_opsets(opsets);
    let shown = format!("function {domain}.{}", shortened(&function.name));
    let graph = decoder
        .function(function.name.clone(), &function.input, &function.output, &function.node)
        .map_err(|error| ModelError { message: format!("{shown}: {error}"), ..error })?;
    let defaults = decoder.defaults(&function.attribute_proto, &shown)?;
    Ok(([domain, function.name, function.overload], Function { graph, defaults }))
}

/// The first version of the file format in which an initializer that is also an input is a default.
const DEFAULTS: i64 = 4;

/// The first byte of a model: the tag of its version, or of its graph.
const FIRST_BYTES: [u8; 2] = [0x08, 0x3a];

impl Model {
    /// The main graph.
    pub fn graph(&self) -> &Graph {
        self.arena.graph(self.main)
    }

    /// The texts of its constants and attributes.
    pub fn texts(&self) -> &Arc<Texts> {
        self.known_texts.get_or_init(|| Arc::new(Texts::of(&self.arena)))
    }

    /// The function that an operator refers to.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.index()]
    }

    /// The inputs of the main graph and their values, those with or without a default.
    fn inputs(&self, has_default: bool) -> impl Iterator<Item = (&ValueInfo, NameId)> {
        let graph = self.graph();
        let inputs = graph.inputs.iter().zip(graph.input_values.iter().copied());
        inputs.filter(move |(_, value)| self.arena.initializer(*value).is_some() == has_default)
    }

    /// The inputs that a caller must provide, and their values.
    pub fn required_inputs(&self) -> impl Iterator<Item = (&ValueInfo, NameId)> {
        self.inputs(false)
    }

    /// The inputs that are not initializers: those that a caller must provide.
    pub fn free_inputs(&self) -> impl Iterator<Item = &ValueInfo> {
        self.required_inputs().map(|(input, _)| input)
    }

    /// The inputs that have a default: a caller may provide them.
    pub fn optional_inputs(&self) -> impl Iterator<Item = &ValueInfo> {
        let has_defaults = self.metadata.ir_version >= DEFAULTS;
        self.inputs(true).filter(move |_| has_defaults).map(|(input, _)| input)
    }

    /// The same model, in which a caller must also provide the optional inputs among `names`.
    pub fn requiring<'a>(&self, names: impl IntoIterator<Item = &'a String>) -> Model {
        let names: HashSet<&String> = names.into_iter().collect();
        let defaults: HashSet<&String> = self.optional_inputs().map(|input| &input.name).collect();
        let required =
            |(input, _): &(&ValueInfo, NameId)| names.contains(&input.name) && defaults.contains(&input.name);
        let values: Vec<NameId> = self.inputs(true).filter(required).map(|(_, value)| value).collect();
        let mut model = self.clone();
        values.into_iter().for_each(|value| model.arena.drop_initializer(value));
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
            false => ModelError { message: format!("\"{}\": {error}", path.display()), ..error },
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
        let model: proto::Model = decode(&bytes, "the model").map_err(|error| {
            let is_cut = error.message.contains("buffer underflow");
            let begins_as_model = bytes.first().is_some_and(|first| FIRST_BYTES.contains(first));
            match (begins_as_model, is_cut) {
                (true, true) => foreign("the file is cut off: download or copy it again"),
                (true, false) => foreign(&error.message),
                (false, _) => foreign(&format!("not an ONNX file: {}", error.message)),
            }
        })?;
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
        let mut decoder = Decoder::default();
        decoder.use_opsets(opsets.clone());
        let main = decoder.graph(graph, 0)?;
        let (mut functions, mut names) = (Vec::new(), HashMap::new());
        for bytes in &model.functions {
            let (name, function) = function(bytes, &opsets, &mut decoder)?;
            let [domain, shown, _] = &name;
            let twice = format!("there are two functions {domain}.{}", shortened(shown));
            if names.insert(name, FunctionId::of(functions.len())).is_some() {
                return Err(ModelError::new(twice));
            }
            functions.push(function);
        }
        let arena = decoder.finish(&names);
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
            graph_name: arena.graph(main).name.clone(),
            opsets,
            properties,
        };
        let (known_block_size, known_texts, prepared) = Default::default();
        // The remaining pages hold weights that nothing has read yet.
        files.release();
        // What every import copies, one after the other: each would wait for whatever else is read from the disk by then.
        let encoded = arena.initializers().map(TensorRecord::encoded);
        encoded.filter(|bytes| COPIED_LATE.contains(&bytes.len())).for_each(|bytes| files.expect_reads(bytes));
        Ok(Model { metadata, arena, main, functions, files: Arc::new(files), known_block_size, known_texts, prepared })
    }
}
