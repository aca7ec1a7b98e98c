//! Operators of the standard, for tensors whose channels are the last dimension.

use super::fused::fused_conv;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::ops::pooling::max_pool;
use crate::onnx::ops::quantize::qlinear_conv;
use crate::onnx::registry::{Entry, Outcome, microsoft};

/// Moves the channels of `x` from the last dimension to the second one.
///
/// # Errors
/// If `x` has fewer than two dimensions.
pub fn channels_first(call: &mut Call, x: OperandId) -> Step<OperandId> {
    let last = last_dimension(call, x)?;
    let permutation: Vec<u32> = [0, last].into_iter().chain(1..last).collect();
    call.transpose(x, &permutation)
}

/// Moves the channels of `x` from the second dimension to the last one.
///
/// # Errors
/// If `x` has fewer than two dimensions.
pub fn channels_last(call: &mut Call, x: OperandId) -> Step<OperandId> {
    let last = last_dimension(call, x)?;
    let permutation: Vec<u32> = [0].into_iter().chain(2..=last).chain([1]).collect();
    call.transpose(x, &permutation)
}

fn last_dimension(call: &Call, x: OperandId) -> Step<u32> {
    match call.rank(x) {
        rank @ 2.. => Ok(rank as u32 - 1),
        rank => Err(Refusal(format!("the input has rank {rank}, expected at least 2"))),
    }
}

/// Translates a node whose channels come last, in its first output and the inputs at `inputs`, as one whose channels come
/// second.
fn moved(call: &mut Call, inputs: &[usize], translate: fn(&mut Call) -> Outcome) -> Outcome {
    for &index in inputs {
        if let Some(x) = call.optional(index)? {
            let x = channels_first(call, x)?;
            call.replace(index, x);
        }
    }
    let outputs = translate(call)?;
    let Some(Value::Tensor(y)) = outputs.first() else { return Ok(outputs) };
    let y = channels_last(call, *y);
    call.one(y)
}

fn quantized_conv(call: &mut Call) -> Outcome {
    match call.int_or("channels_last", 0) {
        0 => qlinear_conv(call),
        _ => moved(call, &[0], qlinear_conv),
    }
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    microsoft("NhwcConv", "", |call| moved(call, &[0], fused_conv)),
    microsoft("NhwcFusedConv", "", |call| moved(call, &[0, 3], fused_conv)),
    microsoft("NhwcMaxPool", "", |call| moved(call, &[0], max_pool)),
    microsoft("QLinearConv", "", quantized_conv),
];
