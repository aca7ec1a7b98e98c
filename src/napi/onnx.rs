//! ONNX models in builders, and descriptions of models, passed as JSON.

use super::convert::{coded, invalid_state, thrown, type_error};
use super::handle::BuilderHandle;
use super::options::{Dimensions, checked_sizes};
use super::session::{ModelHandle, Refused, outcome, taken};
use super::{Result, with_builder};
use crate::description::{text, text_of};
use crate::dimension::numbers;
use crate::error::Code;
use crate::ir::ValueId;
use crate::onnx::describe::{absent_operators, inspect, supported_operators};
use crate::onnx::error::quoted;
use crate::onnx::import::{Binding, Imported};
use crate::onnx::model::{Dimension, ValueInfo};
use crate::onnx::sizes::{Sizes, check_names};
use crate::onnx::{ModelError, Request, import};
use napi::bindgen_prelude::{Either, External};
use napi_derive::napi;
use serde::Serialize;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Serializes the result of `operation`.
fn json(operation: &str, value: &impl Serialize) -> crate::onnx::Result<String> {
    text_of(operation, value).map_err(|error| ModelError::coded(Code::Operation, error.message))
}

/// Inspects a model without building it.
#[napi(catch_unwind)]
pub fn inspect_model(model: &External<ModelHandle>, dimensions: Dimensions) -> Result<Either<String, Refused>> {
    let free_dimensions = dimensions.checked("inspectModel")?;
    let (model, _weight) = taken(model)?;
    let inspection = inspect(&model, free_dimensions).map_err(|error| error.of_function("inspectModel"));
    outcome(inspection.and_then(|inspection| json("inspectModel", &inspection)))
}

/// An input of a model, and what is known of its value.
#[napi(object, object_to_js = false)]
pub struct GivenInput {
    /// Its name.
    pub name: String,
    /// Its sizes and names of sizes, if the model declares them.
    pub shape: Option<Vec<Either<u32, String>>>,
    /// The shape of the value.
    pub given: Option<Vec<f64>>,
    /// The number of elements of a value of unknown shape.
    pub elements: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KnownShapes<'a> {
    shapes: Vec<Option<Vec<Dimension>>>,
    free_dimensions: BTreeMap<&'a str, u32>,
}

/// Infers the shapes of inputs from each other; returns them in their order, with the sizes of free dimensions as far
/// as known, as JSON.
#[napi(catch_unwind)]
pub fn input_shapes(inputs: Vec<GivenInput>, dimensions: Dimensions, strict: bool) -> Result<String> {
    let mut sizes = Sizes::new(dimensions.checked("inputShapes")?).strict(strict);
    let mut infos = Vec::with_capacity(inputs.len());
    for GivenInput { name, shape, given, elements } in inputs {
        let dimension = |dimension| match dimension {
            Either::A(size) => Dimension::Fixed(size),
            Either::B(name) => Dimension::Free(name),
        };
        let input = ValueInfo::unknown(name);
        let input = match shape {
            Some(shape) => input.with_shape(shape.into_iter().map(dimension).collect()),
            None => input,
        };
        let given = given.map(|shape| checked_sizes(&shape, || quoted(&input.name))).transpose()?;
        if let Some(shape) = &given {
            sizes.bind(&input, shape).map_err(|error| thrown(error.into_error()))?;
        }
        infos.push((input, given, elements));
    }
    for (input, _, elements) in &infos {
        if let Some(elements) = elements {
            sizes.fill(input, *elements as usize).map_err(|error| thrown(error.into_error()))?;
        }
    }
    let fixed = |shape: &Vec<u32>| shape.iter().map(|&size| Dimension::Fixed(size)).collect();
    let known = |(input, given, _): &(ValueInfo, Option<Vec<u32>>, _)| given.as_ref().map(fixed).or(sizes.known(input));
    let shapes = infos.iter().map(known).collect();
    text_of("inputShapes", &KnownShapes { shapes, free_dimensions: sizes.by_name() }).map_err(coded)
}

/// The operators that the importer translates.
#[napi(catch_unwind)]
pub fn supported_onnx_operators() -> Result<String> {
    text(&supported_operators()).map_err(coded)
}

/// The operators that are known and that the importer does not translate, with the reasons.
#[napi(catch_unwind)]
pub fn absent_onnx_operators() -> Result<String> {
    text(&absent_operators()).map_err(coded)
}

/// Options of an import.
#[napi(object, object_to_js = false)]
pub struct ImportOptions {
    /// Sizes of free dimensions.
    pub dimensions: Dimensions,
    /// Whether dimensions of the same name must have the same size.
    pub strict_dimensions: bool,
    /// Names of the wanted values.
    pub outputs: Option<Vec<String>>,
    /// Names of inputs that are replaced by operands.
    pub inputs: Vec<String>,
    /// Those operands, in the same order.
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

/// Appends the wanted part of `model` to `builder`; returns the operands of inputs and outputs as JSON. A failure, and
/// a panic in a translation, leave the builder unchanged.
#[napi(catch_unwind)]
pub fn import_model(
    builder: &External<BuilderHandle>,
    model: &External<ModelHandle>,
    options: ImportOptions,
) -> Result<Either<String, Refused>> {
    let free_dimensions = options.dimensions.checked("importModel")?;
    let (model, weight) = taken(model)?;
    let model = model.requiring(&options.inputs);
    let operands: Vec<ValueId> = options.operands.into_iter().map(ValueId).collect();
    if let Some(symbols) = &builder.symbols {
        // Models have dimension names of their own.
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
        let (strict_dimensions, outputs) = (options.strict_dimensions, options.outputs);
        let request =
            Request { free_dimensions, strict_dimensions, bindings, outputs, for_api: true, ..Request::default() };
        let before = builder.checkpoint();
        let work = || {
            check_names(&model.graph().inputs, &request.free_dimensions)?;
            let Imported { inputs, outputs, .. } = import(&model, builder, &request)?;
            let bound = |bindings: Vec<Binding>| bindings.into_iter().map(Bound::from).collect();
            json("importModel", &ImportResult { inputs: bound(inputs), outputs: bound(outputs) })
        };
        let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            Err(ModelError::coded(Code::Operation, "importing the model failed: this is a defect of webnn-node"))
        });
        if result.is_err() {
            builder.roll_back(before);
        }
        imported = Some(result);
        Ok(())
    })?;
    let imported = imported.ok_or_else(|| invalid_state("a binding is not an operand of the builder"))?;
    if imported.is_ok() {
        // Constants can be parts of the model's bytes.
        builder.weight.add(weight.bytes());
    }
    outcome(imported.map_err(|error| error.of_function("importModel")))
}
