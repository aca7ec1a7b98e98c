//! ONNX models in builders, and what can be told about them. Descriptions travel as JSON.

use super::convert::{invalid_state, type_error};
use super::handle::BuilderHandle;
use super::session::{Dimensions, ModelHandle, Refused, outcome, taken};
use super::{Result, with_builder};
use crate::dimension::numbers;
use crate::error::Code;
use crate::ir::ValueId;
use crate::onnx::describe::{inspect, supported_operators};
use crate::onnx::error::quoted;
use crate::onnx::import::Binding;
use crate::onnx::sizes::check_names;
use crate::onnx::{ModelError, Request, import};
use napi::bindgen_prelude::{Either, External};
use napi_derive::napi;
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// # Panics
/// Never: the keys of everything that is serialized here are strings.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("everything here has a JSON form")
}

/// What can be known without building.
#[napi(catch_unwind)]
pub fn inspect_model(model: &External<ModelHandle>, dimensions: Dimensions) -> Result<Either<String, Refused>> {
    let free_dimensions = dimensions.checked("inspectModel")?;
    let model = taken(model)?;
    Ok(outcome(
        inspect(&model, free_dimensions)
            .map(|inspection| json(&inspection))
            .map_err(|error| named("inspectModel", error)),
    ))
}

/// An error about an argument, with the operation before it.
fn named(operation: &str, error: ModelError) -> ModelError {
    match error.code {
        Code::UnknownDimension => ModelError { message: format!("{operation}: {}", error.message), ..error },
        _ => error,
    }
}

/// The operators that are translated.
#[napi(catch_unwind)]
pub fn supported_onnx_operators() -> String {
    json(&supported_operators())
}

/// What to import a model for.
#[napi(object, object_to_js = false)]
pub struct ImportOptions {
    /// Sizes of free dimensions.
    pub dimensions: Dimensions,
    /// Names of the values that are wanted.
    pub outputs: Option<Vec<String>>,
    /// Names of inputs that operands replace.
    pub inputs: Vec<String>,
    /// Those operands.
    pub operands: Vec<u32>,
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
        Bound {
            name,
            data_type: descriptor.dtype.name(),
            shape: numbers(&descriptor.shape),
            operand: operand.map(|id| id.0),
        }
    }
}

#[derive(Serialize)]
struct ImportResult {
    inputs: Vec<Bound>,
    outputs: Vec<Bound>,
}

/// Appends what is wanted of `model` to `builder`; gives the operands of inputs and outputs as JSON. A defect in a
/// translation leaves the builder as it was.
#[napi(catch_unwind)]
pub fn import_model(
    builder: &External<BuilderHandle>,
    model: &External<ModelHandle>,
    options: ImportOptions,
) -> Result<Either<String, Refused>> {
    let free_dimensions = options.dimensions.checked("importModel")?;
    let model = taken(model)?;
    let operands: Vec<ValueId> = options.operands.into_iter().map(ValueId).collect();
    if let Some(symbols) = &builder.symbols {
        // Models have names of dimensions of their own.
        let dynamic = options.inputs.iter().zip(&operands).find(|(_, id)| symbols.borrow().is_dynamic(**id));
        if let Some((input, _)) = dynamic {
            let input = quoted(input);
            let message =
                format!("importModel: the operand for {input} depends on named dimensions, expected one without");
            return Err(type_error(&message));
        }
    }
    let mut imported = None;
    with_builder(builder, |builder| {
        if operands.iter().any(|id| id.index() >= builder.graph_len()) {
            return Ok(());
        }
        let bindings = options.inputs.into_iter().zip(operands).collect();
        let request = Request { free_dimensions, bindings, outputs: options.outputs, ..Request::default() };
        let before = builder.checkpoint();
        let work = || {
            check_names(model.graph.free_inputs(), &request.free_dimensions)?;
            import(&model, builder, &request)
        };
        let outcome = catch_unwind(AssertUnwindSafe(work));
        imported = Some(outcome.unwrap_or_else(|_| {
            builder.roll_back(before);
            Err(ModelError::coded(Code::Operation, "importing the model failed: this is a defect of webnn-node"))
        }));
        Ok(())
    })?;
    let imported = imported.ok_or_else(|| invalid_state("a binding is no operand of the builder"))?;
    let bound = |bindings: Vec<Binding>| bindings.into_iter().map(Bound::from).collect();
    Ok(outcome(
        imported
            .map(|imported| json(&ImportResult { inputs: bound(imported.inputs), outputs: bound(imported.outputs) }))
            .map_err(|error| named("importModel", error)),
    ))
}
