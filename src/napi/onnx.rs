//! ONNX models: opened once, imported into builders for given shapes. Descriptions and requests travel as JSON.

use super::convert::thrown;
use super::handle::BuilderHandle;
use super::view::View;
use super::{Result, with_builder};
use crate::error::{Error, ErrorKind};
use crate::ir::{Builder, ValueId};
use crate::onnx::describe::{inspect, interface, supported_operators};
use crate::onnx::file::Files;
use crate::onnx::import::{Binding, check};
use crate::onnx::{Model, ModelError, Request, import};
use bytes::Bytes;
use napi::bindgen_prelude::External;
use napi_derive::napi;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// An OnnxError; its message is the JSON of the [`ModelError`].
fn model_error(error: ModelError) -> napi::Error<String> {
    napi::Error::new("OnnxError".to_string(), json(&error))
}

/// # Panics
/// Never: the keys of everything that is serialized here are strings.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("everything here has a JSON form")
}

fn from_json<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T> {
    let parsed = serde_json::from_str(text);
    parsed.map_err(|error| thrown(Error::new(ErrorKind::Type, format!("a malformed request: {error}"))))
}

/// The model in the file at `path`.
#[napi(catch_unwind)]
pub fn onnx_open(path: String) -> Result<External<Model>> {
    Model::open(Path::new(&path)).map(External::new).map_err(model_error)
}

/// The model in `bytes`, which are copied.
#[napi(catch_unwind)]
pub fn onnx_read(bytes: View) -> Result<External<Model>> {
    let (files, bytes) = Files::of_bytes(Bytes::from_owner(bytes.copy().map_err(thrown)?));
    Model::decode(bytes, files).map(External::new).map_err(model_error)
}

/// Inputs, outputs and metadata.
#[napi(catch_unwind)]
pub fn onnx_interface(model: &External<Model>) -> String {
    json(&interface(model))
}

/// What can be known without building; `free_dimensions` is an object of sizes.
#[napi(catch_unwind)]
pub fn onnx_inspect(model: &External<Model>, free_dimensions: String) -> Result<String> {
    inspect(model, from_json(&free_dimensions)?).map(|inspection| json(&inspection)).map_err(model_error)
}

/// Refuses a model that no sizes of its free dimensions make possible; arguments as for [`onnx_import`].
#[napi(catch_unwind)]
pub fn onnx_check(builder: &External<BuilderHandle>, model: &External<Model>, request: String) -> Result<()> {
    with_model(builder, &request, |builder, request| check(model, builder, request))
}

/// The operators that are translated.
#[napi(catch_unwind)]
pub fn onnx_operators() -> String {
    json(&supported_operators())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImportRequest {
    free_dimensions: BTreeMap<String, u32>,
    shapes: BTreeMap<String, Vec<u32>>,
    bindings: BTreeMap<String, u32>,
    outputs: Option<Vec<String>>,
}

fn request_of(json: &str) -> Result<Request> {
    let ImportRequest { free_dimensions, shapes, bindings, outputs } = from_json(json)?;
    let bindings = bindings.into_iter().map(|(name, id)| (name, ValueId(id))).collect();
    Ok(Request { free_dimensions, shapes, bindings, outputs })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bound {
    name: String,
    data_type: &'static str,
    shape: Vec<u32>,
    operand: Option<u32>,
}

impl From<Binding> for Bound {
    fn from(binding: Binding) -> Bound {
        let Binding { name, descriptor, operand } = binding;
        Bound { name, data_type: descriptor.dtype.name(), shape: descriptor.shape, operand: operand.map(|id| id.0) }
    }
}

#[derive(Serialize)]
struct ImportResult {
    inputs: Vec<Bound>,
    outputs: Vec<Bound>,
}

/// Does something with a builder for a request; a defect in a translation leaves the builder as it was.
fn with_model<T>(
    builder: &External<BuilderHandle>,
    request: &str,
    work: impl FnOnce(&mut Builder, &Request) -> crate::onnx::Result<T>,
) -> Result<T> {
    let request = request_of(request)?;
    let mut result = None;
    with_builder(builder, |builder| {
        let before = builder.checkpoint();
        let outcome = catch_unwind(AssertUnwindSafe(|| work(builder, &request)));
        result = Some(outcome.unwrap_or_else(|_| {
            builder.roll_back(before);
            Err(ModelError::new("importing the model failed: this is a defect of webnn-node"))
        }));
        Ok(())
    })?;
    result.expect("the work was done").map_err(model_error)
}

/// Appends what `request` wants of `model` to `builder`; gives the operands of inputs and outputs.
#[napi(catch_unwind)]
pub fn onnx_import(builder: &External<BuilderHandle>, model: &External<Model>, request: String) -> Result<String> {
    let imported = with_model(builder, &request, |builder, request| import(model, builder, request))?;
    let bound = |bindings: Vec<Binding>| bindings.into_iter().map(Bound::from).collect();
    Ok(json(&ImportResult { inputs: bound(imported.inputs), outputs: bound(imported.outputs) }))
}
