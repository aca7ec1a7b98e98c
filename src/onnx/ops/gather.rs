//! Operators that pick elements by indices.

use crate::onnx::call::Call;
use crate::onnx::registry::{Entry, Outcome, standard};

fn gather(call: &mut Call) -> Outcome {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(call.int_or("axis", 0), call.rank(x))?;
    let output = call.gather(x, indices, axis);
    call.one(output)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[standard("Gather", "indices out of bounds are clamped", gather)];
