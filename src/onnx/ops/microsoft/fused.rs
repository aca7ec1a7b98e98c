//! Activations, products and normalizations, fused with preceding or following operators.

use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::ops::activation::swish;
use crate::onnx::ops::attention::columns;
use crate::onnx::ops::convolution::{convolution, convolve};
use crate::onnx::ops::microsoft::quantized::dequantized_by;
use crate::onnx::ops::normalization::rms_norm;
use crate::onnx::ops::product::{gemm, with_matrices};
use crate::onnx::registry::{Entry, Outcome, microsoft, standard};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::normalization::LayerNormalization;
use crate::ops::reduce::ReduceKind;
use crate::shape::broadcasts_to;

// ---- Activations -------------------------------------------------------------------------------------------------

/// The first input plus the optional second one.
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

fn fast_gelu(call: &mut Call) -> Outcome {
    let x = biased(call)?;
    let output = call.emit(E::TanhGelu.into_operation(), &[x]);
    call.one(output)
}

/// `x * sigmoid(alpha * x)`.
fn quick_gelu(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let output = swish(call, x, call.float_or("alpha", 1.702));
    call.one(output)
}

/// The swish of the input times a number, given or an attribute.
fn scaled_silu(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let scaled = match call.optional(1)? {
        Some(factor) => {
            if call.shape(factor).iter().any(|&size| size != 1) {
                return Err(Refusal(format!("scale has shape {:?}, expected a single number", call.shape(factor))));
            }
            let (factor, dtype) = (call.to_scalar(factor)?, call.dtype(x));
            let factor = call.cast(factor, dtype)?;
            call.mul(x, factor)?
        }
        None => call.linear(x, call.float_or("alpha", 1.0), 0.0)?,
    };
    let output = swish(call, scaled, 1.0);
    call.one(output)
}

/// The first half of the features times the GELU of the second.
fn bias_split_gelu(call: &mut Call) -> Outcome {
    let x = biased(call)?;
    let axis = call.rank(x).checked_sub(1).ok_or("the input is a scalar")?;
    let size = call.shape(x)[axis];
    if !size.is_multiple_of(2) {
        return Err(Refusal(format!("{size} features cannot be halved")));
    }
    let [left, right] = [call.slice_axis(x, axis, 0u32, size / 2)?, call.slice_axis(x, axis, size / 2, size / 2)?];
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

/// The softmax treats the dimensions from `axis` on as one.
fn bias_softmax(call: &mut Call) -> Outcome {
    let (x, bias) = (call.input(0)?, call.input(1)?);
    let (shape, bias_shape) = (call.shape(x), call.shape(bias));
    let axis = call.axis(call.int_or("axis", 1), shape.len())? as usize;
    // If there were fewer, their meaning would depend on the kernel.
    if bias_shape.len() != shape.len() || !broadcasts_to(&bias_shape, &shape) {
        return Err(Refusal(format!("the bias has shape {bias_shape:?}, expected {shape:?} or 1 for some of these")));
    }
    let sum = call.add(x, bias)?;
    let size = |dims: &[Dim]| dims.iter().copied().product::<Dim>();
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
    let factors = [factor(call, 0, "A")?, factor(call, 1, "B")?];
    let alpha = call.float_or("alpha", 1.0);
    let output = with_matrices(call, factors, |call, a, b| {
        let product = call.matmul(a, b)?;
        call.linear(product, alpha, 0.0)
    });
    call.one(output)
}

/// Applies the function named by the attribute `activation`, with its parameters.
fn activated(call: &mut Call, x: OperandId, parameters: &[f64]) -> Step<OperandId> {
    let parameter = |index: usize, default: f64| parameters.get(index).copied().unwrap_or(default);
    let op = match call.text_or("activation", "").as_str() {
        "" => return Ok(x),
        "Relu" => E::Relu,
        "Sigmoid" => E::Sigmoid,
        "Tanh" => E::Tanh,
        "HardSwish" => E::HardSwish,
        "LeakyRelu" => E::LeakyRelu { alpha: parameter(0, 0.01) },
        "HardSigmoid" => E::HardSigmoid { alpha: parameter(0, 0.2), beta: parameter(1, 0.5) },
        "Clip" => E::Clamp {
            min: Number::Float(parameter(0, f64::NEG_INFINITY)),
            max: Number::Float(parameter(1, f64::INFINITY)),
        },
        other => return Err(Refusal(format!("activation is {other}, which onnxruntime does not fuse"))),
    };
    call.emit(op, &[x])
}

fn fused_gemm(call: &mut Call) -> Outcome {
    let product = gemm(call)?;
    let names = ["activation_alpha", "activation_beta", "activation_gamma"];
    let parameters: Vec<f64> = names.iter().map_while(|name| call.float_attribute(name)).collect();
    let output = activated(call, product, &parameters);
    call.one(output)
}

/// `activation(conv(x) + z)`.
pub fn fused_conv(call: &mut Call) -> Outcome {
    let (x, filter, bias) = (call.input(0)?, call.input(1)?, call.optional(2)?);
    let how = convolution(call, &call.shape(x), &call.shape(filter))?;
    let mut sum = convolve(call, x, filter, bias, &how)?;
    if let Some(addend) = call.optional(3)? {
        sum = call.add(sum, addend)?;
    }
    let parameters = call.floats_attribute("activation_params").unwrap_or_default();
    let output = activated(call, sum, &parameters);
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

fn simplified_layer_normalization(call: &mut Call) -> Outcome {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let rank = call.rank(x);
    let axes: Vec<u32> = (call.axis(call.int_or("axis", -1), rank)?..rank as u32).collect();
    let [output, inverse] = rms_norm(call, x, scale, &axes, call.float_or("epsilon", 1e-5))?;
    Ok(vec![Value::Tensor(output), Value::Tensor(inverse)])
}

/// The sum of input, skip and the optional bias at `bias`.
fn skipped(call: &mut Call, bias: usize) -> Step<OperandId> {
    let (x, skip) = (call.input(0)?, call.input(1)?);
    let sum = call.add(x, skip)?;
    match call.optional(bias)? {
        Some(bias) => call.add(sum, bias),
        None => Ok(sum),
    }
}

/// The outputs of a normalization with a skip connection; those in between are for training.
fn with_sum(call: &Call, output: OperandId, sum: OperandId) -> Outcome {
    if call.wants(1) || call.wants(2) {
        return Err("its outputs mean and inv_std_var are for training".into());
    }
    Ok(vec![Value::Tensor(output), Value::Unknown, Value::Unknown, Value::Tensor(sum)])
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
    let last = call.rank(sum).checked_sub(1).ok_or("the input is a scalar")? as u32;
    let [output, _] = rms_norm(call, sum, scale, &[last], call.float_or("epsilon", 1e-12))?;
    with_sum(call, output, sum)
}

/// Adds rows of the embeddings of words, positions and segments, and normalizes the sums. `floats` makes floats of the
/// rows of the table at an input.
fn embedded(
    call: &mut Call,
    floats: impl Fn(&mut Call, usize, OperandId) -> Step<OperandId>,
    positions: Option<OperandId>,
    [scale, bias]: [OperandId; 2],
) -> Outcome {
    let words = call.input(0)?;
    let [_, sequence] = call.dims(words, "input_ids")?;
    let (word_table, position_table) = (call.input(2)?, call.input(3)?);
    let rows = call.gather(word_table, words, 0)?;
    let mut sum = floats(call, 2, rows)?;
    let rows = match positions {
        Some(positions) => call.gather(position_table, positions, 0)?,
        None => {
            let [rows, _] = call.dims(position_table, "position_embedding")?;
            if sequence > rows {
                return Err(Refusal(format!("position_embedding has {rows} rows for {sequence} positions")));
            }
            call.slice_axis(position_table, 0, 0u32, sequence)?
        }
    };
    let positions = floats(call, 3, rows)?;
    sum = call.add(sum, positions)?;
    if let (Some(segments), Some(table)) = (call.optional(1)?, call.optional(4)?) {
        let rows = call.gather(table, segments, 0)?;
        let segments = floats(call, 4, rows)?;
        sum = call.add(sum, segments)?;
    }
    let output = layer_norm(call, sum, scale, Some(bias), call.float_or("epsilon", 1e-12))?;
    Ok([output, mask_index(call)?, sum].map(Value::Tensor).to_vec())
}

/// The number of words per text, or 0 without a mask.
fn mask_index(call: &mut Call) -> Step<OperandId> {
    let words = call.input(0)?;
    let [batch, _] = call.dims(words, "input_ids")?;
    match call.optional(7)? {
        Some(mask) => {
            let mask = call.cast(mask, DataType::Int32)?;
            call.reduce(ReduceKind::Sum, mask, &[1], false)
        }
        None => {
            let zero = columns(call, Dim::number(1), 1)?;
            call.expand(zero, &[batch])
        }
    }
}

fn embed_layer_normalization(call: &mut Call) -> Outcome {
    let norm = [call.input(5)?, call.input(6)?];
    let positions = call.optional(8)?;
    embedded(call, |_, _, rows| Ok(rows), positions, norm)
}

/// All tables are quantized, and dequantized row by row.
fn q_embed_layer_normalization(call: &mut Call) -> Outcome {
    // The scale of an input is six places behind it, the zero point eleven.
    let dequantized = |call: &mut Call, index: usize, x: OperandId| dequantized_by(call, x, [index + 6, index + 11]);
    let (scale, bias) = (call.input(5)?, call.input(6)?);
    let norm = [dequantized(call, 5, scale)?, dequantized(call, 6, bias)?];
    let mut outputs = embedded(call, dequantized, None, norm)?;
    outputs.truncate(2);
    Ok(outputs)
}

// ---- Gates -------------------------------------------------------------------------------------------------------

/// `x + y * gate`, with a gate per row.
fn gated_add(call: &mut Call) -> Outcome {
    let (x, y, gate) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let shape = call.shape(x);
    let Some((_, outer)) = shape.split_last() else { return Err("X is a scalar, expected rows".into()) };
    let per_row = [outer, &[Dim::ONE]].concat();
    for (operand, name, expected) in [(y, "Y", &shape), (gate, "gate", &per_row)] {
        if call.shape(operand) != *expected {
            return Err(Refusal(format!("{name} has shape {:?}, expected {expected:?}", call.shape(operand))));
        }
    }
    let gated = call.mul(y, gate)?;
    let output = call.add(x, gated);
    call.one(output)
}

/// A root mean square normalization of groups of features, times an activation of the gate, in float32.
fn gated_rms_norm(call: &mut Call) -> Outcome {
    let (x, scale, gate) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (shape, dtype) = (call.shape(x), call.dtype(x));
    let [size] = call.dims(scale, "scale")?;
    let Some((&features, outer)) = shape.split_last().filter(|(features, _)| features.is_multiple_of(size)) else {
        return Err(Refusal(format!("X has shape {shape:?}, expected rows of groups of {size}")));
    };
    if call.shape(gate) != shape {
        return Err(Refusal(format!("gate has shape {:?}, expected {shape:?}", call.shape(gate))));
    }
    let is_swish = match call.text_or("activation", "silu").as_str() {
        "silu" | "swish" => true,
        "sigmoid" => false,
        other => return Err(Refusal(format!("activation is {other}, expected silu, swish or sigmoid"))),
    };
    let [x, scale, gate] = [x, scale, gate].map(|operand| call.cast(operand, DataType::Float32));
    let groups = call.reshape(x?, &[outer, &[features / size, size]].concat())?;
    let [normal, _] = rms_norm(call, groups, scale?, &[shape.len() as u32], call.float_or("epsilon", 1e-5))?;
    let normal = call.reshape(normal, &shape)?;
    let gate = if is_swish { swish(call, gate?, 1.0)? } else { call.emit(E::Sigmoid, &[gate?])? };
    let output = call.mul(normal, gate)?;
    let output = call.cast(output, dtype);
    call.one(output)
}

/// The decay and the rate of a `LinearAttention`, in float32.
fn linear_attention_gate(call: &mut Call) -> Outcome {
    let (a, bias, scale) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (shape, dtype) = (call.shape(a), call.dtype(a));
    let heads = shape.last().copied().unwrap_or_default();
    for (operand, name) in [(bias, "dt_bias"), (scale, "decay_scale")] {
        if call.shape(operand) != [heads] {
            return Err(Refusal(format!("{name} has shape {:?}, expected [{heads}]", call.shape(operand))));
        }
    }
    let a = call.cast(a, DataType::Float32)?;
    let sum = call.add(a, bias)?;
    let step = call.emit(E::Softplus, &[sum])?;
    let decay = call.mul(step, scale)?;
    let mut outputs = vec![Value::Tensor(call.cast(decay, dtype)?)];
    match call.optional(3)? {
        Some(b) if call.shape(b) != shape => {
            return Err(Refusal(format!("b has shape {:?}, expected {shape:?}", call.shape(b))));
        }
        Some(b) => {
            let b = call.cast(b, DataType::Float32)?;
            let rate = call.emit(E::Sigmoid, &[b])?;
            outputs.push(Value::Tensor(call.cast(rate, dtype)?));
        }
        None if call.wants(1) => return Err("b (input 3) is missing, of which beta is made".into()),
        None => {}
    }
    Ok(outputs)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    microsoft("BiasAdd", "", bias_add),
    microsoft("BiasGelu", "", gelu),
    microsoft("BiasSoftmax", "", bias_softmax),
    microsoft("BiasSplitGelu", "", bias_split_gelu),
    microsoft("EmbedLayerNormalization", "masks of 0 and 1", embed_layer_normalization),
    microsoft("FastGelu", "", fast_gelu),
    microsoft("FusedConv", "", fused_conv),
    microsoft("FusedGemm", "", fused_gemm),
    microsoft("FusedMatMul", "", fused_matmul),
    microsoft("GatedAdd", "", gated_add),
    microsoft("GatedRMSNorm", "", gated_rms_norm),
    microsoft("Gelu", "", gelu),
    microsoft("LinearAttentionGate", "", linear_attention_gate),
    microsoft("QEmbedLayerNormalization", "masks of 0 and 1", q_embed_layer_normalization),
    microsoft("QuickGelu", "", quick_gelu),
    microsoft("ScaledSiLU", "", scaled_silu),
    microsoft("SkipLayerNormalization", "no training outputs", skip_layer_normalization),
    microsoft("SkipSimplifiedLayerNormalization", "no training outputs", skip_simplified_layer_normalization),
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
        assert!(text.contains("%2 = cast %0") && text.contains("%3 = mul %2 %2"), "{text}");
    }

    #[test]
    fn biases_are_added_before_the_activation() {
        let text = TestGraph::default()
            .input("x", Float, &["1", "2", "4", "4"])
            .input("w", Float, &["3", "2", "1", "1"])
            .input("z", Float, &["1", "3", "4", "4"])
            .node(
                "com.microsoft.FusedConv",
                "x w _ z",
                "y",
                vec![("activation", Attr::Text("Clip")), ("activation_params", Attr::Floats(&[0.0, 6.0]))],
            )
            .output("y")
            .text(17);
        assert!(text.contains("%4 = add %3 %2") && text.contains("%5 = clamp %4"), "{text}");
    }

    #[test]
    fn gates_fit_rows_and_groups() {
        let graph = |operator: &str, inputs: &str| {
            let graph =
                TestGraph::default().input("x", Float16, &["2", "3", "8"]).input("gate", Float16, &["2", "3", "1"]);
            let graph =
                graph.input("scale", Float16, &["4"]).input("odd", Float16, &["3"]).input("bias", Float, &["8"]);
            let outputs = if operator == "LinearAttentionGate" { "y z" } else { "y" };
            graph.node(&format!("com.microsoft.{operator}"), inputs, outputs, vec![]).output_of("y", Float16)
        };
        assert_eq!(graph("GatedAdd", "x x gate").output_shape(17), [2, 3, 8]);
        assert!(graph("GatedAdd", "x x x").refusal(17).contains("gate has shape [2, 3, 8], expected [2, 3, 1]"));
        let text = graph("GatedRMSNorm", "x scale x").text(17);
        assert!(text.contains("newShape=[2, 3, 2, 4]") && text.contains("sigmoid"), "{text}");
        let message = graph("GatedRMSNorm", "x odd x").refusal(17);
        assert!(message.contains("X has shape [2, 3, 8], expected rows of groups of 3"), "{message}");
        assert_eq!(graph("LinearAttentionGate", "x bias bias x").output_of("z", Float16).output_shape(17), [2, 3, 8]);
        let message = graph("LinearAttentionGate", "x odd bias").refusal(17);
        assert!(message.contains("dt_bias has shape [3], expected [8]"), "{message}");
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
        assert!(graph("y mean").refusal(17).contains("are for training"));
    }
}
