//! Operators on quantized tensors: they dequantize, compute in floats, and quantize again.

use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::ops::pooling;
use crate::onnx::ops::quantize::{
    Bytes, as_floats, bytes, dequantize_linear, dynamic_quantize_linear, integer_matmul, quantize_linear, requantized,
};
use crate::onnx::ops::recurrent::quantized_lstm;
use crate::onnx::registry::{Entry, Outcome, microsoft};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::quantize::Quantize;
use crate::ops::reduce::ReduceKind;

/// Shapes `parameter`, a scale or zero point with one element or one per place along `axis`, to broadcast to a tensor
/// of `rank` dimensions.
fn shaped(call: &mut Call, parameter: OperandId, rank: usize, axis: usize) -> Step<OperandId> {
    let size: Dim = call.shape(parameter).iter().copied().product();
    let mut shape = vec![Dim::ONE; rank];
    if size != 1 {
        *shape.get_mut(axis).ok_or("a scale per channel for a scalar")? = size;
    }
    call.reshape(parameter, &shape)
}

/// The scale at `scale` and the zero point at `zero_point` (by default 0 of type `dtype`), both shaped for a tensor of
/// `rank` dimensions.
fn parameters(
    call: &mut Call,
    [scale, zero_point]: [usize; 2],
    dtype: DataType,
    rank: usize,
    axis: usize,
) -> Step<[OperandId; 2]> {
    let scale = call.input(scale)?;
    let zero_point = match call.optional(zero_point)? {
        Some(zero_point) => zero_point,
        None => call.int_scalar(dtype, 0)?,
    };
    let [scale, zero_point] = [shaped(call, scale, rank, axis)?, shaped(call, zero_point, rank, axis)?];
    let shape = call.broadcast_shape(scale, zero_point)?;
    Ok([call.expand(scale, &shape)?, call.expand(zero_point, &shape)?])
}

/// Dequantizes the input `x` with its parameters at `places`; parameters with several elements apply along `axis`.
fn dequantized_along(call: &mut Call, x: usize, places: [usize; 2], axis: usize) -> Step<OperandId> {
    let x = call.input(x)?;
    with_parameters(call, x, places, axis)
}

/// Dequantizes `x` with the scale and the zero point at `places`.
///
/// # Errors
/// If types do not match, or there are several scales.
pub fn dequantized_by(call: &mut Call, x: OperandId, places: [usize; 2]) -> Step<OperandId> {
    for place in places {
        if call.input_shape(place)?.iter().any(|&size| size != 1) {
            let shape = call.input_shape(place)?;
            return Err(Refusal(format!("input {place} has shape {shape:?}, expected a single number")));
        }
    }
    with_parameters(call, x, places, 0)
}

fn with_parameters(call: &mut Call, x: OperandId, places: [usize; 2], axis: usize) -> Step<OperandId> {
    let [scale, zero_point] = parameters(call, places, call.dtype(x), call.rank(x), axis)?;
    call.emit(Quantize::DequantizeLinear, &[x, scale, zero_point])
}

/// Dequantizes the input `x`.
fn dequantized(call: &mut Call, x: usize) -> Step<OperandId> {
    dequantized_along(call, x, [x + 1, x + 2], 0)
}

/// Dequantizes the input `x`; the parameters at `scale` and `zero_point` may have one element per column.
pub fn dequantized_columns(call: &mut Call, x: usize, scale: usize, zero_point: usize) -> Step<OperandId> {
    let axis = call.input_shape(x)?.len().saturating_sub(1);
    dequantized_along(call, x, [scale, zero_point], axis)
}

/// Quantizes `x` with the scale at `scale` and the zero point after it. The type is the zero point's, or `dtype`
/// without one.
fn quantized(call: &mut Call, x: OperandId, scale: usize, dtype: DataType) -> Outcome {
    let [scale, zero_point] = parameters(call, [scale, scale + 1], dtype, call.rank(x), 0)?;
    let output = call.emit(Quantize::QuantizeLinear, &[x, scale, zero_point]);
    call.one(output)
}

/// The data type of the input at `index`.
fn type_of(call: &Call, index: usize) -> Step<DataType> {
    call.input_type(index).ok_or_else(|| Refusal(format!("input {index} is of a type that WebNN does not have")))
}

fn binary(call: &mut Call, op: E) -> Outcome {
    let (a, b) = (dequantized(call, 0)?, dequantized(call, 3)?);
    let result = call.emit(op, &[a, b])?;
    quantized(call, result, 6, type_of(call, 0)?)
}

fn unary(call: &mut Call, op: E) -> Outcome {
    let x = dequantized(call, 0)?;
    let result = call.emit(op, &[x])?;
    quantized(call, result, 3, type_of(call, 0)?)
}

fn concat(call: &mut Call) -> Outcome {
    let mut pieces = Vec::new();
    for index in (2..call.input_count()).step_by(3) {
        pieces.push(dequantized(call, index)?);
    }
    let first = *pieces.first().ok_or("there are no inputs to join")?;
    let axis = call.axis(call.int_attribute("axis").ok_or("axis is missing")?, call.rank(first))?;
    let joined = call.concat(&pieces, axis)?;
    quantized(call, joined, 0, type_of(call, 2)?)
}

fn global_average_pool(call: &mut Call) -> Outcome {
    let x = dequantized(call, 0)?;
    let rank = call.rank(x) as u32;
    let axes: Vec<u32> =
        if call.int_or("channels_last", 0) != 0 { (1..rank - 1).collect() } else { (2..rank).collect() };
    let mean = call.reduce(ReduceKind::Mean, x, &axes, true)?;
    quantized(call, mean, 3, type_of(call, 0)?)
}

fn average_pool(call: &mut Call) -> Outcome {
    let x = dequantized(call, 0)?;
    let last = (call.rank(x) as u32).saturating_sub(1);
    let means = if call.int_or("channels_last", 0) != 0 && last > 0 {
        let channels_first: Vec<u32> = [0, last].into_iter().chain(1..last).collect();
        let x = call.transpose(x, &channels_first)?;
        let means = pooling::average(call, x)?;
        let channels_last: Vec<u32> = [0].into_iter().chain(2..=last).chain([1]).collect();
        call.transpose(means, &channels_last)?
    } else {
        pooling::average(call, x)?
    };
    quantized(call, means, 3, type_of(call, 0)?)
}

/// Before opset 13, the softmax treats the dimensions from `axis` on as one.
fn softmax(call: &mut Call) -> Outcome {
    let x = dequantized(call, 0)?;
    let shape = call.shape(x);
    let axis = call.axis(call.int_or("axis", -1), shape.len())?;
    let result = if call.int_or("opset", 13) < 13 {
        let (outer, inner) = shape.split_at(axis as usize);
        let flat = call.reshape(x, &[outer, inner].map(|dims| dims.iter().copied().product::<Dim>()))?;
        let flat = call.softmax(flat, 1)?;
        call.reshape(flat, &shape)?
    } else {
        call.softmax(x, axis)?
    };
    quantized(call, result, 3, type_of(call, 0)?)
}

fn choose(call: &mut Call) -> Outcome {
    let condition = call.input(0)?;
    let (x, y) = (dequantized(call, 1)?, dequantized(call, 4)?);
    let result = call.select(condition, x, y)?;
    quantized(call, result, 7, type_of(call, 1)?)
}

// ---- Products ----------------------------------------------------------------------------------------------------

fn with_bias(call: &mut Call, product: OperandId, bias: usize) -> Outcome {
    let output = match call.optional(bias)? {
        Some(bias) => call.add(product, bias),
        None => Ok(product),
    };
    call.one(output)
}

/// The float32 product of matrices of bytes with their scales, plus an optional bias.
fn scaled_matmul(call: &mut Call, [a, b]: [Bytes; 2], [a_scale, b_scale]: [OperandId; 2], bias: usize) -> Outcome {
    let product = integer_matmul(call, a, b)?;
    let floats = as_floats(call, product)?;
    let a_scale = call.to_scalar(a_scale)?;
    let scale = call.mul(a_scale, b_scale)?;
    let scaled = call.mul(floats, scale)?;
    with_bias(call, scaled, bias)
}

fn matmul_integer_to_float(call: &mut Call) -> Outcome {
    let (a_scale, b_scale) = (call.input(2)?, call.input(3)?);
    let (a, b) = (bytes(call, 0, 4)?, bytes(call, 1, 5)?);
    let is_single = |call: &Call, parameter| call.shape(parameter).iter().all(|&size| size == 1);
    if is_single(call, a_scale) && a.zero.is_none_or(|zero| is_single(call, zero)) {
        return scaled_matmul(call, [a, b], [a_scale, b_scale], 6);
    }
    let a = dequantized_columns(call, 0, 2, 4)?;
    let b = dequantized_columns(call, 1, 3, 5)?;
    let product = call.matmul(a, b)?;
    with_bias(call, product, 6)
}

/// Rounds the first factor to the 256 steps of its own range, which includes 0.
fn dynamic_quantize_matmul(call: &mut Call) -> Outcome {
    let &[Value::Tensor(numbers), Value::Tensor(a_scale), Value::Tensor(zero)] = &dynamic_quantize_linear(call)?[..]
    else {
        return Err("the first factor has no elements".into());
    };
    let (b, b_scale) = (bytes(call, 1, 3)?, call.input(2)?);
    scaled_matmul(call, [Bytes { numbers, zero: Some(zero) }, b], [a_scale, b_scale], 4)
}

/// `alpha * a * b + c`; the integers of `c` have the scale of the product.
fn q_gemm(call: &mut Call) -> Outcome {
    let (mut a, mut b) = (bytes(call, 0, 2)?, bytes(call, 3, 5)?);
    for (matrix, transposed) in [(&mut a, "transA"), (&mut b, "transB")] {
        if call.int_or(transposed, 0) != 0 {
            matrix.numbers = call.transpose_last(matrix.numbers)?;
        }
    }
    let mut sums = integer_matmul(call, a, b)?;
    if let Some(c) = call.optional(6)? {
        sums = call.add(sums, c)?;
    }
    let (a_scale, b_scale) = (call.input(1)?, call.input(4)?);
    let a_scale = call.to_scalar(a_scale)?;
    let factor = call.mul(a_scale, b_scale)?;
    let factor = call.linear(factor, call.float_or("alpha", 1.0), 0.0)?;
    let y = match call.value(7) {
        Some(_) => requantized(call, sums, factor, 7),
        None => {
            let floats = as_floats(call, sums)?;
            call.mul(floats, factor)
        }
    };
    call.one(y)
}

// ---- Recurrent networks ------------------------------------------------------------------------------------------

/// A parameter of weights `[directions, features, columns]`: one per direction, or one per column.
fn of_directions(call: &mut Call, index: usize, weights: &[Dim; 3]) -> Step<OperandId> {
    let [directions, _, columns] = *weights;
    let parameter = call.input(index)?;
    let shape = match call.shape(parameter)[..] {
        [count] if count == directions => [directions, Dim::ONE, Dim::ONE],
        [count, each] if [count, each] == [directions, columns] => [directions, Dim::ONE, columns],
        ref other => {
            let expected = format!("expected [{directions}] or [{directions}, {columns}]");
            return Err(Refusal(format!("input {index} has shape {other:?}, {expected}")));
        }
    };
    call.reshape(parameter, &shape)
}

/// The input at 0, rounded to 8 bits with a scale for all of it.
fn rounded(call: &mut Call) -> Step<OperandId> {
    let parts = dynamic_quantize_linear(call)?;
    let [Value::Tensor(numbers), Value::Tensor(scale), Value::Tensor(zero)] = parts[..] else { return call.input(0) };
    let ones = vec![Dim::ONE; call.rank(numbers)];
    let (scale, zero) = (call.reshape(scale, &ones)?, call.reshape(zero, &ones)?);
    call.emit(Quantize::DequantizeLinear, &[numbers, scale, zero])
}

/// An LSTM with quantized, transposed weights. Inputs are rounded to 8 bits, and so are hidden states if the recurrent
/// weights are constants: these as multiples of 1/127 of the largest magnitude, unlike in onnxruntime.
fn dynamic_quantize_lstm(call: &mut Call) -> Outcome {
    let input = rounded(call)?;
    let mut quantized = None;
    for (index, scale, what) in [(1, 8, "W"), (2, 10, "R")] {
        let weights = call.input(index)?;
        let shape = call.dims(weights, what)?;
        let [scale, zero] = [of_directions(call, scale, &shape)?, of_directions(call, scale + 1, &shape)?];
        let all = call.broadcast_shape(scale, zero)?;
        let [scale, zero] = [call.expand(scale, &all)?, call.expand(zero, &all)?];
        if index == 2 && [weights, scale, zero].iter().all(|&operand| call.is_constant(operand)) {
            let rows = [shape[0], shape[2]];
            let of_rows = |call: &mut Call, x| {
                let all = call.expand(x, &[shape[0], Dim::ONE, shape[2]])?;
                call.reshape(all, &rows)
            };
            quantized = Some([call.transpose_last(weights)?, of_rows(call, scale)?, of_rows(call, zero)?]);
        }
        let weights = call.emit(Quantize::DequantizeLinear, &[weights, scale, zero])?;
        let weights = call.transpose_last(weights)?;
        call.replace(index, weights);
    }
    call.replace(0, input);
    quantized_lstm(call, quantized)
}

const TYPES: &str = "int8 and uint8";

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    microsoft("DequantizeLinear", "int16 and uint16 only as constants or from QuantizeLinear", dequantize_linear),
    microsoft(
        "DynamicQuantizeLSTM",
        "states are rounded to 8 bits with a symmetric scale, if R is a constant",
        dynamic_quantize_lstm,
    ),
    microsoft("DynamicQuantizeMatMul", "", dynamic_quantize_matmul),
    microsoft("MatMulIntegerToFloat", TYPES, matmul_integer_to_float),
    microsoft("QGemm", TYPES, q_gemm),
    microsoft("QLinearAdd", TYPES, |call| binary(call, E::Add)),
    microsoft("QLinearAveragePool", TYPES, average_pool),
    microsoft("QLinearConcat", TYPES, concat),
    microsoft("QLinearGlobalAveragePool", TYPES, global_average_pool),
    microsoft("QLinearLeakyRelu", TYPES, |call| {
        let alpha = call.float_or("alpha", 0.01);
        unary(call, E::LeakyRelu { alpha })
    }),
    microsoft("QLinearMul", TYPES, |call| binary(call, E::Mul)),
    microsoft("QLinearSigmoid", TYPES, |call| unary(call, E::Sigmoid)),
    microsoft("QLinearSoftmax", TYPES, softmax),
    microsoft("QLinearWhere", TYPES, choose),
    microsoft("QuantizeLinear", "16-bit types are int32 inside of a model", quantize_linear),
];

#[cfg(test)]
mod tests {
    use crate::dtype::DataType;
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;
    use crate::ops::tensor::Tensor;
    use crate::shape::Descriptor;
    use std::collections::HashMap;

    #[test]
    fn zero_points_may_be_missing() {
        let text = TestGraph::default()
            .input("a", Int8, &["2", "3"])
            .floats("s", &[], &[0.5])
            .node("com.microsoft.QLinearAdd", "a s _ a s _ s", "y", vec![])
            .output("y")
            .text(17);
        assert!(text.contains("quantizeLinear") && text.contains("int8 [1, 1]"), "{text}");
    }

    /// An LSTM of two directions with 2 features and hidden size 3: quantized, and as the same with floats.
    fn lstms(per_column: bool) -> [TestGraph; 2] {
        let count = if per_column { 24 } else { 2 };
        let scales: Vec<f32> = (0..count).map(|at| 0.01 + at as f32 / 1024.0).collect();
        let scale_dims: &[i64] = if per_column { &[2, 12] } else { &[2] };
        let scale =
            |direction: usize, column: usize| scales[if per_column { direction * 12 + column } else { direction }];
        let mut quantized = TestGraph::default().input("x", Float, &["4", "1", "2"]);
        let mut floating = quantized.clone();
        for (name, features) in [("w", 2), ("r", 3)] {
            let number = |direction: usize, feature: usize, column: usize| {
                (direction * 71 + feature * 37 + column * 13) as u8 % 200
            };
            let (mut bytes, mut floats) = (Vec::new(), Vec::new());
            for direction in 0..2 {
                for feature in 0..features {
                    bytes.extend((0..12).map(|column| number(direction, feature, column)));
                }
                for column in 0..12 {
                    let float =
                        |feature| (number(direction, feature, column) as f32 - 100.0) * scale(direction, column);
                    floats.extend((0..features).map(float));
                }
            }
            let zeros = vec![100; count];
            quantized = quantized.raw(name, Uint8, &[2, features as i64, 12], &bytes);
            quantized = quantized.floats(&format!("{name}s"), scale_dims, &scales);
            quantized = quantized.raw(&format!("{name}z"), Uint8, scale_dims, &zeros);
            floating = floating.floats(name, &[2, 12, features as i64], &floats);
        }
        let attributes = || vec![("direction", Attr::Text("bidirectional")), ("hidden_size", Attr::Int(3))];
        let inputs = "x w r _ _ _ _ _ ws wz rs rz";
        let quantized = quantized.node("com.microsoft.DynamicQuantizeLSTM", inputs, "y h c", attributes());
        [quantized, floating.node("LSTM", "x w r", "y h c", attributes())].map(|graph| graph.output("y").output("c"))
    }

    #[test]
    fn quantized_recurrent_networks_compute_what_their_floats_compute() {
        for per_column in [false, true] {
            // Numbers that rounding to 8 bits leaves as they are.
            let x = [0u8, 36, 72, 109, 145, 182, 218, 255].map(|number| (f32::from(number) - 128.0) / 128.0);
            let x: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
            let x = Tensor::from_bytes(&Descriptor::new(DataType::Float32, [4, 1, 2]), &x);
            let inputs = HashMap::from([("x".to_string(), x)]);
            let [quantized, floats] = lstms(per_column);
            let for_gpus = quantized.clone().import_for_gpus(17).unwrap();
            let [quantized, floats] = [quantized, floats].map(|graph| graph.import(17, &Default::default()).unwrap());
            let operators = ["= dynamicQuantizeLstm ", "= lstm ", "= lstm "];
            let [got, for_gpus, expected] = std::array::from_fn(|index| {
                let graph = [&quantized, &for_gpus, &floats][index];
                assert!(graph.to_string().contains(operators[index]), "{graph}");
                crate::reference::run(graph, &inputs)
            });
            for (got, name) in [(&got, "y"), (&got, "c"), (&for_gpus, "y"), (&for_gpus, "c")] {
                let pairs = got[name].floats().iter().zip(expected[name].floats());
                assert!(pairs.clone().all(|(got, expected)| (got - expected).abs() < 1e-6), "{per_column} {name}");
                assert!(pairs.count() > 0);
            }
        }
    }

    #[test]
    fn scales_of_recurrent_weights_fit_directions_and_columns() {
        let [graph, _] = lstms(false);
        let message = graph
            .node("com.microsoft.DynamicQuantizeLSTM", "x w r _ _ _ _ _ x wz rs rz", "z", vec![])
            .output("z")
            .refusal(17);
        assert!(message.contains("input 8 has shape [4, 1, 2], expected [2] or [2, 12]"), "{message}");
    }
}
