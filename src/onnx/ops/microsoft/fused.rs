//! Activations, products and normalizations with what precedes or follows them.

use crate::dtype::DataType;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::ops::attention::counting;
use crate::onnx::registry::{Entry, Outcome, microsoft, standard};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::normalization::LayerNormalization;
use crate::ops::reduce::ReduceKind;

// ---- Activations -------------------------------------------------------------------------------------------------

/// The first input, with the second one added if it is given.
fn biased(call: &mut Call) -> Step<OperandId> {
    let x = call.input(0)?;
    match call.optional(1)? {
        Some(bias) => call.add(x, bias),
        None => Ok(x),
    }
}

fn gelu(call: &mut Call) -> Outcome {
    let x = biased(call)?;
    let output = call.emit(E::Gelu, &[x]);
    call.one(output)
}

/// `x / 2 * (1 + tanh(x * (a + b * x^2)))`.
fn fast_gelu(call: &mut Call) -> Outcome {
    let x = biased(call)?;
    let square = call.mul(x, x)?;
    let slope = call.linear(square, 0.035_677_408_136_300_125, 0.797_884_560_802_865_4)?;
    let inner = call.mul(x, slope)?;
    let inner = call.emit(E::Tanh, &[inner])?;
    let gate = call.linear(inner, 0.5, 0.5)?;
    let output = call.mul(x, gate);
    call.one(output)
}

/// `x * sigmoid(alpha * x)`.
fn quick_gelu(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let scaled = call.linear(x, call.float_or("alpha", 1.702), 0.0)?;
    let gate = call.emit(E::Sigmoid, &[scaled])?;
    let output = call.mul(x, gate);
    call.one(output)
}

/// The first half of the features times the GELU of the second.
fn bias_split_gelu(call: &mut Call) -> Outcome {
    let x = biased(call)?;
    let axis = call.rank(x).checked_sub(1).ok_or("the input is a scalar")?;
    let size = call.shape(x)[axis];
    if size % 2 != 0 {
        return Err(Refusal(format!("{size} features have no halves")));
    }
    let [left, right] = [call.slice_axis(x, axis, 0, size / 2)?, call.slice_axis(x, axis, size / 2, size / 2)?];
    let right = call.emit(E::Gelu, &[right])?;
    let output = call.mul(left, right);
    call.one(output)
}

fn bias_add(call: &mut Call) -> Outcome {
    let x = biased(call)?;
    let skip = call.input(2)?;
    let output = call.add(x, skip);
    call.one(output)
}

/// The dimensions from `axis` on are one for the softmax. The bias lacks some dimensions of the scores: those in front
/// of `axis`, or those behind the ones that it shares with them.
fn bias_softmax(call: &mut Call) -> Outcome {
    let (x, bias) = (call.input(0)?, call.input(1)?);
    let shape = call.shape(x);
    let axis = call.axis(call.int_or("axis", 1), shape.len())? as usize;
    let sum = call.add(x, bias)?;
    if call.shape(sum) != shape {
        let got = call.shape(bias);
        return Err(Refusal(format!("the bias has shape {got:?}, which does not broadcast to {shape:?}")));
    }
    let size = |dims: &[u32]| dims.iter().product::<u32>();
    let flat = call.reshape(sum, &[size(&shape[..axis]), size(&shape[axis..])])?;
    let flat = call.softmax(flat, 1)?;
    let output = call.reshape(flat, &shape);
    call.one(output)
}

// ---- Products ----------------------------------------------------------------------------------------------------

/// A factor of `FusedMatMul`, transposed as the attributes with the suffix `which` say.
fn factor(call: &mut Call, index: usize, which: &str) -> Step<OperandId> {
    let mut x = call.input(index)?;
    let rank = call.rank(x) as u32;
    if call.int_or(&format!("transBatch{which}"), 0) != 0 && rank > 2 {
        // The first dimension moves in front of the last one.
        let permutation: Vec<u32> = (1..rank - 1).chain([0, rank - 1]).collect();
        x = call.transpose(x, &permutation)?;
    }
    if call.int_or(&format!("trans{which}"), 0) != 0 && rank > 1 {
        x = call.transpose_last(x)?;
    }
    Ok(x)
}

fn fused_matmul(call: &mut Call) -> Outcome {
    let (mut a, mut b) = (factor(call, 0, "A")?, factor(call, 1, "B")?);
    let (rank_a, rank_b) = (call.rank(a), call.rank(b));
    if rank_a == 1 {
        let size = call.shape(a)[0];
        a = call.reshape(a, &[1, size])?;
    }
    if rank_b == 1 {
        let size = call.shape(b)[0];
        b = call.reshape(b, &[size, 1])?;
    }
    let product = call.matmul(a, b)?;
    let product = call.linear(product, call.float_or("alpha", 1.0), 0.0)?;
    let mut shape = call.shape(product);
    if rank_b == 1 {
        shape.pop();
    }
    if rank_a == 1 {
        shape.remove(shape.len() - 1 - (rank_b > 1) as usize);
    }
    let output = call.reshape(product, &shape);
    call.one(output)
}

// ---- Normalizations ----------------------------------------------------------------------------------------------

/// `layerNormalization()` over the last dimension.
fn layer_norm(
    call: &mut Call,
    x: OperandId,
    scale: OperandId,
    bias: Option<OperandId>,
    epsilon: f64,
) -> Step<OperandId> {
    let axis = call.rank(x).checked_sub(1).ok_or("the input is a scalar")? as u32;
    let op = LayerNormalization { axes: Some(vec![axis]), epsilon };
    Ok(call.emit_all(op, vec![Some(x), Some(scale), bias])?[0])
}

/// `x / sqrt(mean(x^2) + epsilon) * scale` over the dimensions from `first` on, and the inverse root. The mean is
/// computed in float32: squares of float16 overflow.
fn rms_norm(call: &mut Call, x: OperandId, scale: OperandId, first: usize, epsilon: f64) -> Step<[OperandId; 2]> {
    let shape = call.shape(x);
    let axes: Vec<u32> = (first as u32..shape.len() as u32).collect();
    let count: f64 = shape[first..].iter().map(|&size| size as f64).product();
    let wide = call.cast(x, DataType::Float32)?;
    let squares = call.reduce(ReduceKind::SumSquare, wide, &axes, true)?;
    let mean = call.linear(squares, 1.0 / count, epsilon)?;
    let root = call.emit(E::Sqrt, &[mean])?;
    let inverse = call.emit(E::Reciprocal, &[root])?;
    let normal = call.mul(wide, inverse)?;
    let dtype = call.dtype(scale);
    let normal = call.cast(normal, dtype)?;
    Ok([call.mul(normal, scale)?, inverse])
}

fn simplified_layer_normalization(call: &mut Call) -> Outcome {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let first = call.axis(call.int_or("axis", -1), call.rank(x))? as usize;
    let [output, inverse] = rms_norm(call, x, scale, first, call.float_or("epsilon", 1e-5))?;
    Ok(vec![Value::Operand(output), Value::Operand(inverse)])
}

/// Input, skip and the bias at `bias` added.
fn skipped(call: &mut Call, bias: usize) -> Step<OperandId> {
    let (x, skip) = (call.input(0)?, call.input(1)?);
    let sum = call.add(x, skip)?;
    match call.optional(bias)? {
        Some(bias) => call.add(sum, bias),
        None => Ok(sum),
    }
}

/// The outputs of a normalization after a skip: those in between are of training.
fn with_sum(call: &Call, output: OperandId, sum: OperandId) -> Outcome {
    if call.wants(1) || call.wants(2) {
        return Err("its outputs mean and inv_std_var are of training".into());
    }
    Ok(vec![Value::Operand(output), Value::Unknown, Value::Unknown, Value::Operand(sum)])
}

fn skip_layer_normalization(call: &mut Call) -> Outcome {
    let (scale, bias) = (call.input(2)?, call.optional(3)?);
    let sum = skipped(call, 4)?;
    let output = layer_norm(call, sum, scale, bias, call.float_or("epsilon", 1e-12))?;
    with_sum(call, output, sum)
}

fn skip_simplified_layer_normalization(call: &mut Call) -> Outcome {
    let scale = call.input(2)?;
    let sum = skipped(call, 3)?;
    let last = call.rank(sum).checked_sub(1).ok_or("the input is a scalar")?;
    let [output, _] = rms_norm(call, sum, scale, last, call.float_or("epsilon", 1e-12))?;
    with_sum(call, output, sum)
}

/// Rows of the embeddings of words, positions and segments added and normalized.
fn embed_layer_normalization(call: &mut Call) -> Outcome {
    let (words, word_table, position_table) = (call.input(0)?, call.input(2)?, call.input(3)?);
    let (scale, bias) = (call.input(5)?, call.input(6)?);
    let [batch, sequence] = call.dims(words, "input_ids")?;
    let mut sum = call.gather(word_table, words, 0)?;
    let positions = match call.optional(8)? {
        Some(positions) => call.gather(position_table, positions, 0)?,
        None => {
            let [rows, _] = call.dims(position_table, "position_embedding")?;
            if sequence > rows {
                return Err(Refusal(format!("position_embedding has {rows} rows for {sequence} positions")));
            }
            call.slice_axis(position_table, 0, 0, sequence)?
        }
    };
    sum = call.add(sum, positions)?;
    if let (Some(segments), Some(table)) = (call.optional(1)?, call.optional(4)?) {
        let segments = call.gather(table, segments, 0)?;
        sum = call.add(sum, segments)?;
    }
    let output = layer_norm(call, sum, scale, Some(bias), call.float_or("epsilon", 1e-12))?;
    let mask_index = match call.optional(7)? {
        Some(mask) => {
            let mask = call.cast(mask, DataType::Int32)?;
            call.reduce(ReduceKind::Sum, mask, &[1], false)?
        }
        None => {
            let zero = counting(call, 0, &[1])?;
            call.expand(zero, &[batch])?
        }
    };
    Ok([output, mask_index, sum].map(Value::Operand).to_vec())
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    microsoft("BiasAdd", "", bias_add),
    microsoft("BiasGelu", "", gelu),
    microsoft("BiasSoftmax", "", bias_softmax),
    microsoft("BiasSplitGelu", "", bias_split_gelu),
    microsoft("EmbedLayerNormalization", "masks of 0 and 1", embed_layer_normalization),
    microsoft("FastGelu", "", fast_gelu),
    microsoft("FusedMatMul", "", fused_matmul),
    microsoft("Gelu", "", gelu),
    microsoft("QuickGelu", "", quick_gelu),
    microsoft("SkipLayerNormalization", "no outputs of training", skip_layer_normalization),
    microsoft("SkipSimplifiedLayerNormalization", "no outputs of training", skip_simplified_layer_normalization),
    microsoft("TransposeMatMul", "", fused_matmul),
    standard("SimplifiedLayerNormalization", "", simplified_layer_normalization),
    microsoft("SimplifiedLayerNormalization", "", simplified_layer_normalization),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

    #[test]
    fn root_mean_squares_are_wide() {
        let text = TestGraph::default()
            .input("x", Float16, &["2", "8"])
            .input("g", Float16, &["8"])
            .node("SimplifiedLayerNormalization", "x g", "y", vec![])
            .output("y")
            .text(17);
        assert!(text.contains("%2 = cast %0") && text.contains("%3 = reduceSumSquare %2"), "{text}");
    }

    #[test]
    fn outputs_of_training_are_refused() {
        let graph = |outputs: &str| {
            TestGraph::default()
                .input("x", Float, &["1", "2", "8"])
                .input("g", Float, &["8"])
                .node("com.microsoft.SkipLayerNormalization", "x x g", outputs, vec![])
                .output("y")
        };
        assert!(graph("y _ _ sum").text(17).contains("layerNormalization"));
        assert!(graph("y mean").refusal(17).contains("are of training"));
    }
}
