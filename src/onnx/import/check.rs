//! Rejects models that no sizes make possible, before any sizes are known.

use super::{Request, import, input_type};
use crate::ir::Builder;
use crate::onnx::cuts::Rest;
use crate::onnx::error::{ModelError, Result, Unsupported};
use crate::onnx::model::{Dimension, Model, ValueInfo};
use std::collections::HashSet;

/// Sizes that stand in for free dimensions of unknown size.
pub(in crate::onnx) const PROBES: [u32; 2] = [16, 48];

impl Request {
    /// A copy with `size` for every free dimension whose size is unknown.
    pub(in crate::onnx) fn with_sizes(&self, model: &Model, size: u32) -> Request {
        let mut free_dimensions = self.free_dimensions.clone();
        for dimension in model.free_inputs().flat_map(|input| input.shape.iter().flatten()) {
            if let Dimension::Free(name) = dimension {
                free_dimensions.entry(name.clone()).or_insert(size);
            }
        }
        Request { free_dimensions, ..self.clone() }
    }
}

/// As far as that can be told, rejects a model that no sizes of its free dimensions make possible: imports it with two
/// different sizes, and rejects it for problems with both that do not depend on sizes. `builder` holds the operands of
/// the request, and remains unchanged. Returns the nodes left for later, as far as known.
///
/// # Errors
/// If nodes are refused twice for the same reason (which the error lists), or the model twice for another common
/// reason.
pub fn check(model: &Model, builder: &mut Builder, request: &Request) -> Result<Option<Rest>> {
    let is_open = |input: &ValueInfo| {
        let is_given = request.shapes.contains_key(&input.name) || request.bindings.contains_key(&input.name);
        input.shape.is_none() && input_type(input, request.for_api).is_ok() && !is_given
    };
    if model.free_inputs().any(is_open) {
        return Ok(None); // not even the rank is known
    }
    let mut probe = |size| {
        let before = builder.checkpoint();
        let outcome = import(model, builder, &request.with_sizes(model, size));
        builder.roll_back(before);
        outcome.map(|imported| imported.rest)
    };
    if request.with_sizes(model, 0).free_dimensions == request.free_dimensions {
        return probe(0); // no free dimensions
    }
    // A size that is possible decides.
    let first = match probe(PROBES[0]) {
        Ok(rest) => return Ok(rest),
        Err(error) => error,
    };
    let second = match probe(PROBES[1]) {
        Ok(rest) => return Ok(rest),
        Err(error) => error,
    };
    if first.unsupported.is_empty() {
        return if first.message == second.message { Err(first) } else { Ok(None) };
    }
    let again: HashSet<_> = second.unsupported.iter().map(|node| (&node.name, &node.reason)).collect();
    let is_always = |node: &&Unsupported| !node.depends_on_sizes && again.contains(&(&node.name, &node.reason));
    let always: Vec<_> = first.unsupported.iter().filter(is_always).cloned().collect();
    match always.len() {
        0 => Ok(None),
        // The counts exceed the lists.
        count if count == first.unsupported.len() => Err(first),
        count => Err(ModelError::unsupported(always, count)),
    }
}
