//! Graphs with named dimensions, in builders of contexts with the extension for them.

use super::convert::{data_type, invalid_state, thrown, type_error};
use super::handle::{BuilderHandle, Handle};
use super::{ContextHandle, Result, bound, named, used_up, with_builder};
use crate::description::text;
use crate::dynamic::{DynamicGraph, NamedDimension, Outline};
use napi::bindgen_prelude::{Array, Either, External};
use napi_derive::napi;
use std::sync::Arc;

/// A dimension in JavaScript: a size or a name.
pub type DimensionValue = Either<u32, String>;

type DynamicGraphHandle = Handle<DynamicGraph>;

/// Converts a dimension to JavaScript.
pub fn value(dimension: NamedDimension) -> DimensionValue {
    match dimension {
        NamedDimension::Number(size) => Either::A(size),
        NamedDimension::Name(name) => Either::B(name),
    }
}

/// Adds a named input whose dimensions may be names; returns its operand.
#[napi(catch_unwind)]
pub fn dynamic_input(
    builder: &External<BuilderHandle>,
    name: String,
    dtype: u32,
    shape: Vec<DimensionValue>,
) -> Result<u32> {
    let (dtype, symbols) = (data_type(dtype)?, builder.symbols.as_ref());
    let symbols = symbols.ok_or_else(|| invalid_state("the context of the builder has no dynamic shapes"))?;
    let dimension = |value| match value {
        Either::A(size) => NamedDimension::Number(size),
        Either::B(name) => NamedDimension::Name(name),
    };
    let shape = shape.into_iter().map(dimension).collect();
    with_builder(builder, |builder| symbols.borrow_mut().input(builder, &name, dtype, shape).map(|id| id.0))
}

/// A graph with named dimensions, and the names of its inputs, in the order that `dynamicDispatch` expects.
#[napi(object, object_from_js = false)]
pub struct DynamicBuild {
    /// The graph.
    pub graph: External<DynamicGraphHandle>,
    /// Names of the inputs.
    pub inputs: Vec<String>,
}

/// Creates a graph with the named outputs. Dispatches compile it for their sizes. Consumes the builder's contents.
#[napi(catch_unwind)]
pub fn dynamic_build(
    context: &External<ContextHandle>,
    builder: &External<BuilderHandle>,
    output_names: Vec<String>,
    output_ids: Vec<u32>,
) -> Result<DynamicBuild> {
    let symbols = builder.symbols.as_ref().map(std::cell::RefCell::take).unwrap_or_default();
    let (builder, bytes) = used_up(builder)?;
    let most = builder.max_tensor_bytes();
    let outline = Outline::new(builder.finish(named(output_names, output_ids)), symbols, most);
    let inputs = outline.input_names().map(str::to_string).collect();
    let graph = External::new(Handle::new(Arc::new(DynamicGraph::new(outline)), context, bytes));
    Ok(DynamicBuild { graph, inputs })
}

/// Returns the shapes of the outputs, in their order, for inputs of these shapes.
#[napi(catch_unwind)]
pub fn dynamic_shapes(graph: &External<DynamicGraphHandle>, inputs: Vec<Vec<u32>>) -> Result<Vec<Vec<u32>>> {
    if inputs.len() != graph.ports()[0] {
        return Err(type_error("computeShapes: expected one shape for each input"));
    }
    graph.compute_shapes("computeShapes", &inputs).map(|(_, shapes)| shapes).map_err(thrown)
}

/// Runs a graph on tensors in the order of its inputs and outputs. `donations` are pairs of indices: an output, and the
/// input whose memory it takes.
#[napi(catch_unwind)]
pub fn dynamic_dispatch(
    context: &External<ContextHandle>,
    graph: &External<DynamicGraphHandle>,
    inputs: Array,
    outputs: Array,
    donations: Vec<Vec<u32>>,
) -> Result<()> {
    let [inputs, outputs] = bound("dispatch", context, &inputs, &outputs)?;
    if [inputs.len(), outputs.len()] != graph.ports() {
        return Err(type_error("dispatch: expected one tensor for each input and output"));
    }
    let pair = |pair: Vec<u32>| <[u32; 2]>::try_from(pair).map(|pair| pair.map(|at| at as usize));
    let donations: std::result::Result<Vec<_>, _> = donations.into_iter().map(pair).collect();
    let donations = donations.map_err(|_| type_error("dispatch: a donation is not a pair"))?;
    graph.shared().dispatch(&context.context, inputs, outputs, &donations).map_err(thrown)
}

/// Describes a graph for the sizes of the latest compiled dispatch, as the JSON of a `GraphDescription`; null before
/// the first one.
#[napi(catch_unwind)]
pub fn describe_dynamic_graph(graph: &External<DynamicGraphHandle>) -> Result<Option<String>> {
    graph.description().map(|description| text(&description.json())).transpose().map_err(thrown)
}

/// Frees the memory of a graph after all previous work.
#[napi(catch_unwind)]
pub fn destroy_dynamic_graph(graph: &External<DynamicGraphHandle>) {
    graph.shared().release(graph.context());
    graph.weigh(0);
}
