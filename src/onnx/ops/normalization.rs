//! Normalizations.

use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::normalization::{BatchNormalization, InstanceNormalization, LayerNormalization};
use crate::ops::pool2d::{Pool2d, Pool2dAttributes, PoolKind};
use crate::ops::reduce::ReduceKind;

/// The default `epsilon` of all of these operators.
const EPSILON: f32 = 1e-5;

fn epsilon(call: &Call) -> f64 {
    call.float_or("epsilon", EPSILON)
}

/// The shape of `x`, with at least a batch and a channel dimension.
fn channels_of(call: &Call, x: OperandId) -> Step<Vec<Dim>> {
    let shape = call.shape(x);
    match shape.len() {
        2.. => Ok(shape),
        rank => Err(Refusal(format!("the input has rank {rank}, expected at least 2"))),
    }
}

/// Mean and variance over `axes`, which are kept with size 1.
fn moments(call: &mut Call, x: OperandId, axes: &[u32]) -> Step<[OperandId; 2]> {
    let mean = call.reduce(ReduceKind::Mean, x, axes, true)?;
    let centered = call.sub(x, mean)?;
    let squares = call.mul(centered, centered)?;
    Ok([mean, call.reduce(ReduceKind::Mean, squares, axes, true)?])
}

fn batch_normalization(call: &mut Call) -> Outcome {
    if call.int_or("spatial", 1) == 0 {
        return Err("spatial is 0: statistics of every single feature are not supported".into());
    }
    let training = call.int_or("training_mode", 0) != 0 || (call.opset < 14 && (1..5).any(|index| call.wants(index)));
    let x = call.input(0)?;
    let dtype = call.dtype(x);
    let shape = call.shape(x);
    // Statistics may have another type than the data.
    let mut operands = Vec::new();
    for index in 0..5 {
        operands.push(call.input(index)?);
    }
    let wide = operands.iter().any(|&operand| call.dtype(operand) != dtype);
    if wide {
        for operand in &mut operands {
            *operand = call.cast(*operand, DataType::Float32)?;
        }
    }
    if let [size] = shape[..] {
        operands[0] = call.reshape(operands[0], &[size, Dim::ONE])?;
    }
    let mut outputs = if training { training_batch(call, &operands)? } else { vec![inference_batch(call, &operands)?] };
    outputs[0] = call.cast(outputs[0], dtype)?;
    outputs[0] = call.reshape(outputs[0], &shape)?;
    for (index, output) in outputs.iter_mut().enumerate().skip(1) {
        if let Some(dtype) = call.input_type(2 + index) {
            *output = call.cast(*output, dtype)?;
        }
    }
    Ok(outputs.into_iter().map(Value::Tensor).collect())
}

fn inference_batch(call: &mut Call, operands: &[OperandId]) -> Step<OperandId> {
    let &[x, scale, bias, mean, variance] = operands else { unreachable!("five operands") };
    call.emit(BatchNormalization { axis: 1, epsilon: epsilon(call) }, &[x, mean, variance, scale, bias])
}

/// Normalizes with the batch's own statistics. The other outputs are the running statistics.
fn training_batch(call: &mut Call, operands: &[OperandId]) -> Step<Vec<OperandId>> {
    let &[x, scale, bias, mean, variance] = operands else { unreachable!("five operands") };
    if call.opset < 14 {
        return Err("training outputs are not supported before opset 14".into());
    }
    let momentum = call.float_or("momentum", 0.9);
    let axes: Vec<u32> = (0..call.rank(x) as u32).filter(|&axis| axis != 1).collect();
    let features = [call.shape(x)[1]];
    let mut batch = moments(call, x, &axes)?;
    for moment in &mut batch {
        *moment = call.reshape(*moment, &features)?;
    }
    let y = inference_batch(call, &[x, scale, bias, batch[0], batch[1]])?;
    let mut outputs = vec![y];
    for (old, new) in [mean, variance].into_iter().zip(batch) {
        let (old, new) = (call.scale(old, momentum)?, call.scale(new, 1.0 - momentum)?);
        outputs.push(call.add(old, new)?);
    }
    Ok(outputs)
}

fn instance_normalization(call: &mut Call) -> Outcome {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let shape = channels_of(call, x)?;
    // WebNN accepts images only.
    let image = match shape.len() {
        4 => x,
        _ => call.reshape(x, &[shape[0], shape[1], Dim::ONE, shape[2..].iter().copied().product()])?,
    };
    let y = call.emit(InstanceNormalization { epsilon: epsilon(call), ..Default::default() }, &[image, scale, bias])?;
    let y = call.reshape(y, &shape);
    call.one(y)
}

/// The dimensions of a tensor of rank `rank` from the attribute `axis` on.
fn last_axes(call: &Call, rank: usize) -> Step<Vec<u32>> {
    Ok((call.axis(call.int_or("axis", -1), rank)?..rank as u32).collect())
}

/// Whether statistics are computed in float32 although the data are float16.
fn is_stashed(call: &Call, x: OperandId) -> bool {
    call.dtype(x) == DataType::Float16 && call.int_or("stash_type", 1) != 10
}

/// If the number of elements matches, reshapes the operand to `sizes`, as WebNN's normalization requires.
fn fitted(call: &mut Call, operand: OperandId, sizes: &[Dim]) -> Step<Option<OperandId>> {
    let shape = call.shape(operand);
    let leading = shape.len().saturating_sub(sizes.len());
    match shape.get(leading..) == Some(sizes) && shape[..leading].iter().all(|&size| size == 1) {
        true => call.reshape(operand, sizes).map(Some),
        false => Ok(None),
    }
}

fn layer_normalization(call: &mut Call) -> Outcome {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.optional(2)?);
    let shape = call.shape(x);
    let axes = last_axes(call, shape.len())?;
    let sizes = shape[axes[0] as usize..].to_vec();
    let epsilon = epsilon(call);
    let op = LayerNormalization { axes: Some(axes.clone()), epsilon };
    let fitted_scale = fitted(call, scale, &sizes)?;
    let fitted_bias = bias.map(|bias| fitted(call, bias, &sizes)).transpose()?;
    let y = match (fitted_scale, fitted_bias) {
        (Some(scale), None) => call.emit(op, &[x, scale])?,
        (Some(scale), Some(Some(bias))) => call.emit(op, &[x, scale, bias])?,
        _ => {
            let normal = call.emit(op, &[x])?;
            let scaled = call.mul(normal, scale)?;
            bias.map_or(Ok(scaled), |bias| call.add(scaled, bias))?
        }
    };
    let mut outputs = vec![Value::Tensor(y)];
    if call.wants(1) || call.wants(2) {
        let stashed = if is_stashed(call, x) { call.cast(x, DataType::Float32)? } else { x };
        let [mean, variance] = moments(call, stashed, &axes)?;
        let deviation = deviation(call, variance, epsilon)?;
        let inverse = call.emit(E::Reciprocal, &[deviation])?;
        outputs.extend([Value::Tensor(mean), Value::Tensor(inverse)]);
    }
    Ok(outputs)
}

/// `sqrt(square + epsilon)`.
fn deviation(call: &mut Call, square: OperandId, epsilon: f64) -> Step<OperandId> {
    let sum = call.add_number(square, epsilon)?;
    call.emit(E::Sqrt, &[sum])
}

/// `x / sqrt(mean(x^2) + epsilon) * scale`, with the mean over `axes`, and the inverse of the root.
///
/// # Errors
/// If types or shapes do not match.
pub fn rms_norm(call: &mut Call, x: OperandId, scale: OperandId, axes: &[u32], epsilon: f64) -> Step<[OperandId; 2]> {
    let stashed = if is_stashed(call, x) { call.cast(x, DataType::Float32)? } else { x };
    let squares = call.mul(stashed, stashed)?;
    let square = call.reduce(ReduceKind::Mean, squares, axes, true)?;
    let root = deviation(call, square, epsilon)?;
    let inverse = call.emit(E::Reciprocal, &[root])?;
    let normal = call.mul(stashed, inverse)?;
    let (dtype, normal) = (call.dtype(scale), call.cast(normal, call.dtype(x))?);
    let normal = call.cast(normal, dtype)?;
    Ok([call.mul(normal, scale)?, inverse])
}

fn rms_normalization(call: &mut Call) -> Outcome {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let axes = last_axes(call, call.rank(x))?;
    let [y, _] = rms_norm(call, x, scale, &axes, epsilon(call))?;
    call.one(Ok(y))
}

/// Scale and bias are per group before opset 21, per channel since then.
fn group_normalization(call: &mut Call) -> Outcome {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let shape = channels_of(call, x)?;
    let (channels, given) = (shape[1], call.int_attribute("num_groups").unwrap_or(0));
    let groups = u32::try_from(given).ok().filter(|&groups| groups > 0 && channels.is_multiple_of(groups));
    let groups = groups.ok_or_else(|| {
        Refusal(format!("num_groups is {given}, expected a divisor of {}", amount(channels, "channel")))
    })?;
    let rest: Dim = shape[2..].iter().copied().product();
    let grouped = call.reshape(x, &[shape[0], groups.into(), channels / groups * rest])?;
    let mut y = call.emit(LayerNormalization { axes: Some(vec![2]), epsilon: epsilon(call) }, &[grouped])?;
    let per_group = call.opset < 21;
    if !per_group {
        y = call.reshape(y, &[shape[0], channels, rest])?;
    }
    let expected = [if per_group { groups.into() } else { channels }];
    for (index, operand, op) in [(1, scale, E::Mul), (2, bias, E::Add)] {
        if call.shape(operand) != expected {
            let got = call.shape(operand);
            return Err(Refusal(format!("input {index} has shape {got:?}, expected {expected:?}")));
        }
        let weights = call.reshape(operand, &[expected[0], Dim::ONE])?;
        y = call.emit(op, &[y, weights])?;
    }
    let y = call.reshape(y, &shape);
    call.one(y)
}

/// Divides by a power of a sum of squares over neighboring channels.
fn local_response_normalization(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let shape = channels_of(call, x)?;
    let given = call.int_attribute("size").unwrap_or(0);
    let size = u32::try_from(given).ok().filter(|&size| size > 0);
    let size = size.ok_or_else(|| Refusal(format!("size is {given}, expected a number above 0")))?;
    let (alpha, beta, bias) = (call.float_or("alpha", 0.0001), call.float_or("beta", 0.75), call.float_or("bias", 1.0));
    let squares = call.mul(x, x)?;
    let image = call.reshape(squares, &[shape[0], Dim::ONE, shape[1], shape[2..].iter().copied().product()])?;
    let padded = call.pad_axis(image, 2, [(size - 1) / 2, size / 2])?;
    let attributes = Pool2dAttributes { window_dimensions: Some(vec![size, 1]), ..Default::default() };
    // The mean counts missing channels as zeros: alpha applies to the sum divided by the size.
    let mean = call.emit(Pool2d { kind: PoolKind::Average, attributes }, &[padded])?;
    let mean = call.reshape(mean, &shape)?;
    let base = call.emit(E::Linear { alpha, beta: bias }, &[mean])?;
    let exponent = call.scalar_like(x, beta)?;
    let divisor = call.emit(E::Pow, &[base, exponent])?;
    let y = call.div(x, divisor);
    call.one(y)
}

/// Elements with norm 0 remain 0.
fn lp_normalization(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let axis = call.axis(call.int_or("axis", -1), call.rank(x))?;
    let kind = match call.int_or("p", 2) {
        1 => ReduceKind::L1,
        2 => ReduceKind::L2,
        p => return Err(Refusal(format!("p is {p}, expected 1 or 2"))),
    };
    let norm = call.reduce(kind, x, &[axis], true)?;
    let (zero, one) = (call.scalar_like(x, 0.0)?, call.scalar_like(x, 1.0)?);
    let is_zero = call.emit(E::Equal, &[norm, zero])?;
    let divisor = call.select(is_zero, one, norm)?;
    let y = call.div(x, divisor);
    call.one(y)
}

/// The standard adds 1e-9 to the standard deviation; this adds it only to that of constant data.
fn mean_variance_normalization(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let axes = call.ints_attribute("axes").unwrap_or_else(|| vec![0, 2, 3]);
    let mut axes = call.axes(&axes, call.rank(x))?;
    axes.sort_unstable();
    let y = call.emit(LayerNormalization { axes: Some(axes), epsilon: 1e-18 }, &[x]);
    call.one(y)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("BatchNormalization", "spatial must not be 0; training from opset 14 on only", batch_normalization),
    standard("GroupNormalization", "", group_normalization),
    standard("InstanceNormalization", "", instance_normalization),
    standard("LRN", "", local_response_normalization),
    standard("LayerNormalization", "", layer_normalization),
    standard("LpNormalization", "", lp_normalization),
    standard("MeanVarianceNormalization", "", mean_variance_normalization),
    standard("RMSNormalization", "", rms_normalization),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

    #[test]
    fn groups_have_weights_of_their_own_before_opset_21() {
        let group = |weights: &'static str, opset: i64| {
            let graph = TestGraph::default().input("x", Float, &["2", "6", "5"]).input("s", Float, &[weights]);
            let graph = graph.input("b", Float, &[weights]);
            (graph.node("GroupNormalization", "x s b", "y", vec![("num_groups", Attr::Int(3))]).output("y"), opset)
        };
        let text = |(graph, opset): (TestGraph, i64)| graph.text(opset);
        assert!(text(group("3", 18)).contains("newShape=[3, 1]"));
        assert!(text(group("6", 21)).contains("newShape=[6, 1]"));
        let (graph, opset) = group("3", 21);
        assert!(graph.refusal(opset).contains("input 1 has shape [3], expected [6]"));
    }

    #[test]
    fn layers_are_one_operator_and_moments_are_computed_on_demand() {
        let layer = |outputs, wanted| {
            let graph = TestGraph::default().input("x", Float, &["2", "6", "5"]).input("s", Float, &["1", "5"]);
            graph.node("LayerNormalization", "x s", outputs, vec![]).output(wanted).text(17)
        };
        let text = layer("y", "y");
        assert!(text.contains("layerNormalization") && !text.contains("reduceMean"), "{text}");
        assert!(layer("y m i", "i").contains("reciprocal"));
    }

    #[test]
    fn training_of_old_versions_is_refused() {
        let graph = "s b m v"
            .split(' ')
            .fold(TestGraph::default().input("x", Float, &["2", "3"]), |graph, name| graph.input(name, Float, &["3"]));
        let message = graph.node("BatchNormalization", "x s b m v", "y mean", vec![]).output("y").refusal(9);
        assert!(message.contains("training outputs are not supported before opset 14"), "{message}");
    }
}
