//! Mixtures of experts: each token goes through the few networks that a router prefers. Routes with the same expert
//! become neighbors, so that its weights are read once; experts that no token chooses are not read.

use super::block_quantized::{block_size, unpacked};
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::amount;
use crate::ir::OperandId;
use crate::nibbles::packed;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::ops::activation::swish;
use crate::onnx::ops::attention::count_attribute;
use crate::onnx::registry::{Entry, Outcome, microsoft};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::extension::expert_product::ExpertProduct;
use crate::ops::extension::top_k::TopK;
use crate::ops::gather::GatherElements;
use crate::ops::reduce::ReduceKind;
use crate::shape::Descriptor;

/// The matrices of all experts in one layer of their networks.
struct Layer {
    /// `[experts * columns, depth]`.
    weights: OperandId,
    /// The scales and zero points of integers.
    scales: Option<[OperandId; 2]>,
    /// `[experts, columns]`.
    bias: Option<OperandId>,
    experts: u32,
    columns: u32,
    depth: u32,
    rounds_rows: bool,
}

/// A number of matrices, of their columns, and of the rows that each column has.
fn sizes(call: &Call, index: usize) -> Step<[u32; 3]> {
    let sizes = call.input_sizes(index)?;
    <[u32; 3]>::try_from(sizes)
        .map_err(|sizes| Refusal(format!("input {index} has shape {sizes:?}, expected the matrices of experts")))
}

/// The columns of all experts.
fn all_columns([experts, columns, _]: [u32; 3]) -> Step<u32> {
    experts.checked_mul(columns).ok_or_else(|| Refusal(format!("{experts} times {columns} columns are too many")))
}

/// The bias at `index`, `[experts, columns]`, if it is given.
fn bias(call: &Call, index: usize, [experts, columns, _]: [u32; 3]) -> Step<Option<OperandId>> {
    let Some(bias) = call.optional(index)? else { return Ok(None) };
    match call.shape(bias) == [experts, columns] {
        true => Ok(Some(bias)),
        false => {
            let shape = call.shape(bias);
            Err(Refusal(format!("input {index} has shape {shape:?}, expected [{experts}, {columns}]")))
        }
    }
}

impl Layer {
    /// Weights of floats at `index`, and the bias behind them.
    fn of_floats(call: &mut Call, index: usize, dtype: DataType) -> Step<Layer> {
        let sizes @ [experts, columns, depth] = sizes(call, index)?;
        let descriptor = Descriptor::new(dtype, [all_columns(sizes)?, depth]);
        let weights = call.constant_as(index, "the experts", descriptor)?;
        let bias = bias(call, index + 1, sizes)?;
        Ok(Layer { weights, scales: None, bias, experts, columns, depth, rounds_rows: false })
    }

    /// Weights of integers at `index`, the scales and the bias behind them, and the zero points at `zeros`.
    fn of_integers(call: &mut Call, index: usize, zeros: usize, name: &str, dtype: DataType) -> Step<Layer> {
        let bits = match call.int_or(&format!("{name}_expert_weight_bits"), call.int_or("expert_weight_bits", 4)) {
            bits @ (2 | 4 | 8) => bits as u32,
            other => return Err(Refusal(format!("experts have weights of {other} bits, expected 2, 4 or 8"))),
        };
        let [experts, columns, bytes] = sizes(call, index)?;
        let depth = bytes
            .checked_mul(8 / bits)
            .ok_or_else(|| Refusal(format!("rows of {} are too long", amount(bytes, "byte"))))?;
        let sizes = [experts, columns, depth];
        let (all, numbers) = (all_columns(sizes)?, if bits == 8 { DataType::Uint8 } else { DataType::Uint4 });
        let is_blocked = call.int_or("block_size", 0) > 0;
        let size = if is_blocked { block_size(call, 0)? } else { depth };
        if !depth.is_multiple_of(size) {
            return Err(Refusal(format!("rows of {depth} weights cannot be divided into blocks of {size}")));
        }
        let count = depth / size;
        let weights = match bits {
            2 => {
                let given = call.constant_as(index, "the experts", Descriptor::new(DataType::Uint8, [all, bytes]))?;
                let given = call.bytes_of(given)?;
                call.take_room(8 * given.len())?;
                let nibbles = packed(&unpacked(given.bytes(), bits));
                call.constant_from_bytes(Descriptor::new(numbers, [all, depth]), &nibbles)?
            }
            _ => call.constant_as(index, "the experts", Descriptor::new(numbers, [all, depth]))?,
        };
        if call.input_type(index + 1) != Some(dtype) {
            return Err(Refusal(format!("input {} is not of type {dtype}, that of the tokens", index + 1)));
        }
        let scales = call.constant_as(index + 1, "the scales", Descriptor::new(dtype, [all, count]))?;
        let descriptor = Descriptor::new(numbers, [all, count]);
        let zeros = match call.value(zeros) {
            None => {
                let zero = 1 << (bits - 1);
                call.same(descriptor, if bits == 8 { zero } else { zero | zero << 4 })?
            }
            Some(_) => zero_points(call, zeros, bits, descriptor, if is_blocked { count } else { columns })?,
        };
        let bias = bias(call, index + 2, sizes)?;
        let rounds_rows = call.int_or("accuracy_level", 0) == 4;
        Ok(Layer { weights, scales: Some([scales, zeros]), bias, experts, columns, depth, rounds_rows })
    }

    /// The products of `rows` with the matrices of their `experts`, plus their biases.
    fn emit(&self, call: &mut Call, rows: OperandId, experts: OperandId) -> Step<OperandId> {
        let op = ExpertProduct { experts: self.experts, rounds_rows: self.rounds_rows };
        let scales = self.scales.map_or([None; 2], |scales| scales.map(Some));
        let inputs = [&[Some(rows), Some(experts), Some(self.weights)][..], &scales].concat();
        let product = call.emit_all(op, inputs)?[0];
        let Some(bias) = self.bias else { return Ok(product) };
        let bias = call.gather(bias, experts, 0)?;
        call.add(product, bias)
    }
}

/// Zero points, packed in rows of `width`, each of which begins with a byte.
fn zero_points(call: &mut Call, index: usize, bits: u32, to: Descriptor, width: u32) -> Step<OperandId> {
    let count = to.elements();
    let row = (width as usize * bits as usize).div_ceil(8);
    let bytes = u32::try_from(count / width as usize * row).map_err(|_| "there are too many zero points")?;
    let given = call.constant_as(index, "the zero points", Descriptor::new(DataType::Uint8, [bytes]))?;
    let given = call.bytes_of(given)?;
    call.take_room(2 * count + 8 * given.len())?;
    let rows = given.bytes().chunks(row).map(|row| unpacked(row, bits));
    let numbers: Vec<u8> = rows.flat_map(|row| row.into_iter().take(width as usize)).collect();
    let bytes = if bits == 8 { numbers } else { packed(&numbers) };
    call.constant_from_bytes(to, &bytes)
}

/// The first layer, the one that gates it if it is separate, and the last one.
struct Network {
    first: Layer,
    gated: Option<Layer>,
    last: Layer,
}

impl Network {
    /// Applies the networks of `experts` to `rows`.
    fn emit(&self, call: &mut Call, rows: OperandId, experts: OperandId) -> Step<OperandId> {
        let first = self.first.emit(call, rows, experts)?;
        let hidden = match call.text_or("activation_type", "relu").as_str() {
            "swiglu" => {
                let linear = self.gated.as_ref().map(|layer| layer.emit(call, rows, experts)).transpose()?;
                swiglu(call, first, linear)?
            }
            _ if self.gated.is_some() => return Err("fc3_experts_weights are given without swiglu".into()),
            "relu" => call.emit(E::Relu, &[first])?,
            "gelu" => call.emit(E::TanhGelu.into_operation(), &[first])?,
            "silu" => swish(call, first, 1.0)?,
            "identity" => first,
            other => {
                let expected = "expected relu, gelu, silu, swiglu or identity";
                return Err(Refusal(format!("activation_type is {other}, {expected}")));
            }
        };
        self.last.emit(call, hidden, experts)
    }
}

/// `gate * sigmoid(alpha * gate) * (linear + beta)`, both clamped. They are columns of `x` in turns, or its halves, if
/// there is no other tensor.
fn swiglu(call: &mut Call, x: OperandId, linear: Option<OperandId>) -> Step<OperandId> {
    let [rows, columns] = call.dims(x, "the first layer")?;
    let fusion = call.int_or("swiglu_fusion", 0);
    let is_even = columns.is_multiple_of(2);
    let [gate, linear] = match (fusion, linear) {
        (0, Some(linear)) => [x, linear],
        (1, None) if is_even => {
            let pairs = call.reshape(x, &[rows, columns / 2, Dim::number(2)])?;
            [call.pick(pairs, 2, 0)?, call.pick(pairs, 2, 1)?]
        }
        (2, None) if is_even => {
            [call.slice_axis(x, 1, 0u32, columns / 2)?, call.slice_axis(x, 1, columns / 2, columns / 2)?]
        }
        _ => {
            return Err(Refusal(format!(
                "swiglu_fusion is {fusion}, which does not fit the layers of {columns} columns"
            )));
        }
    };
    let limit = call.float_or("swiglu_limit", f32::INFINITY);
    let clamped = |call: &mut Call, x: OperandId, min: f64| match limit.is_finite() {
        true => call.emit(E::Clamp { min: Number::Float(min), max: Number::Float(limit) }, &[x]),
        false => Ok(x),
    };
    let (gate, linear) = (clamped(call, gate, f64::NEG_INFINITY)?, clamped(call, linear, -limit)?);
    let gate = swish(call, gate, call.float_or("activation_alpha", 1.0))?;
    let linear = call.linear(linear, 1.0, call.float_or("activation_beta", 0.0))?;
    call.mul(gate, linear)
}

/// The experts that each token prefers, best first, and how much of each it gets, both `[tokens, k]`.
type Routing = fn(call: &mut Call, router: OperandId, k: u32) -> Step<[OperandId; 2]>;

/// The elements of `weights` at `places`, divided by their sum if the model asks for that.
fn shares(call: &mut Call, weights: OperandId, places: OperandId) -> Step<OperandId> {
    let chosen = call.emit(GatherElements { axis: 1 }, &[weights, places])?;
    if call.int_or("normalize_routing_weights", 0) == 0 {
        return Ok(chosen);
    }
    let sum = call.reduce(ReduceKind::Sum, chosen, &[1], true)?;
    call.div(chosen, sum)
}

/// Shares are probabilities among all experts.
fn among_all(call: &mut Call, router: OperandId, k: u32) -> Step<[OperandId; 2]> {
    let places = call.emit(TopK { axis: 1, count: k.into(), largest: true }, &[router])?;
    let probabilities = call.softmax(router, 1)?;
    Ok([places, shares(call, probabilities, places)?])
}

/// Shares are probabilities among the chosen experts, or weights of their own.
fn among_chosen(call: &mut Call, router: OperandId, k: u32) -> Step<[OperandId; 2]> {
    let places = call.emit(TopK { axis: 1, count: k.into(), largest: true }, &[router])?;
    if let Some(weights) = call.optional(14)? {
        let weights = call.cast(weights, DataType::Float32)?;
        let (got, expected) = (call.shape(weights), call.shape(router));
        if got != expected {
            return Err(Refusal(format!("router_weights have shape {got:?}, expected {expected:?}")));
        }
        return Ok([places, shares(call, weights, places)?]);
    }
    let logits = call.emit(GatherElements { axis: 1 }, &[router, places])?;
    Ok([places, call.softmax(logits, 1)?])
}

/// The sum of the outputs of the experts that each token prefers.
fn mixture(call: &mut Call, network: &Network, routing: Routing) -> Outcome {
    let (x, router) = (call.input(0)?, call.input(1)?);
    let (shape, dtype, experts) = (call.shape(x), call.dtype(x), network.first.experts);
    let hidden = shape.last().copied().filter(|_| matches!(shape.len(), 2 | 3)).unwrap_or_default();
    let tokens: Dim = shape.split_last().map_or(Dim::ONE, |(_, outer)| outer.iter().copied().product());
    let fits = |layer: &Layer| layer.experts == experts && hidden == layer.depth;
    let is_closed = network.last.experts == experts && hidden == network.last.columns;
    if !fits(&network.first) || !network.gated.as_ref().is_none_or(fits) || !is_closed {
        return Err(Refusal(format!("the input has shape {shape:?}, which does not fit the {experts} experts")));
    }
    if call.shape(router) != [tokens, experts.into()] {
        let got = call.shape(router);
        return Err(Refusal(format!("router_probs have shape {got:?}, expected [{tokens}, {experts}]")));
    }
    if call.int_or("use_sparse_mixer", 0) != 0 {
        return Err("use_sparse_mixer is set, which onnxruntime does not support on CPUs".into());
    }
    let k = if call.has_attribute("k") { count_attribute(call, "k")? } else { 1 };
    if k == 0 || k > experts {
        return Err(Refusal(format!("k is {k}, expected 1 to {experts}, the number of experts")));
    }
    let router = call.cast(router, DataType::Float32)?;
    let [places, shares] = routing(call, router, k)?;
    let routes = tokens * k;
    let places = call.cast(places, DataType::Int32)?;
    let places = call.reshape(places, &[routes])?;
    let flat = call.reshape(x, &[tokens, hidden])?;
    let each = if tokens == 1 {
        let rows = call.expand(flat, &[routes, hidden])?;
        network.emit(call, rows, places)?
    } else {
        // Of equal elements, the first one comes first.
        let sort = TopK { axis: 0, count: routes, largest: false };
        let order = call.emit(sort.clone(), &[places])?;
        let back = call.emit(sort, &[order])?;
        let per_token = call.int_scalar(DataType::Int64, k.into())?;
        let sources = call.div(order, per_token)?;
        let (rows, sorted) = (call.gather(flat, sources, 0)?, call.gather(places, order, 0)?);
        let outputs = network.emit(call, rows, sorted)?;
        call.gather(outputs, back, 0)?
    };
    let each = call.reshape(each, &[tokens, k.into(), hidden])?;
    let each = call.cast(each, DataType::Float32)?;
    let shares = call.reshape(shares, &[tokens, k.into(), Dim::ONE])?;
    let parts = call.mul(each, shares)?;
    let sum = call.reduce(ReduceKind::Sum, parts, &[1], false)?;
    let output = call.cast(sum, dtype)?;
    let output = call.reshape(output, &shape);
    call.one(output)
}

fn moe(call: &mut Call) -> Outcome {
    let dtype = call.dtype(call.input(0)?);
    let first = Layer::of_floats(call, 2, dtype)?;
    let last = Layer::of_floats(call, 4, dtype)?;
    let gated = if call.value(6).is_some() { Some(Layer::of_floats(call, 6, dtype)?) } else { None };
    mixture(call, &Network { first, gated, last }, among_all)
}

fn q_moe(call: &mut Call) -> Outcome {
    let quantization = call.text_or("quant_type", "int");
    if quantization != "int" {
        return Err(Refusal(format!("quant_type is {quantization}, expected int")));
    }
    if call.int_or("weights_prepacked", -1) == 1 {
        return Err("weights_prepacked is set, a layout for other devices".into());
    }
    let dtype = call.dtype(call.input(0)?);
    let first = Layer::of_integers(call, 2, 11, "fc1", dtype)?;
    let last = Layer::of_integers(call, 5, 12, "fc2", dtype)?;
    let gated = match call.value(8) {
        Some(_) => Some(Layer::of_integers(call, 8, 13, "fc3", dtype)?),
        None => None,
    };
    mixture(call, &Network { first, gated, last }, among_chosen)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    microsoft("MoE", "constant experts, no sparse mixer; not on GPUs", moe),
    microsoft("QMoE", "constant experts of 2, 4 or 8 bits, no sparse mixer; not on GPUs", q_moe),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

    /// Four experts with 16 features and 8 hidden ones.
    fn graph(tokens: &str, attributes: Vec<(&str, Attr)>) -> TestGraph {
        let floats: Vec<f32> = (0..4 * 8 * 16).map(|at| (at * 7 % 13) as f32 / 13.0 - 0.5).collect();
        let graph = TestGraph::default().input("x", Float, &[tokens, "16"]).input("r", Float, &[tokens, "4"]);
        let graph = graph.floats("a", &[4, 8, 16], &floats).floats("b", &[4, 16, 8], &floats);
        graph.node("com.microsoft.MoE", "x r a _ b", "y", attributes).output("y")
    }

    #[test]
    fn routes_are_sorted_by_experts() {
        let text = graph("1", vec![("k", Attr::Int(2))]).text(21);
        assert_eq!((text.matches("= topK ").count(), text.matches("= expertProduct ").count()), (1, 2), "{text}");
        let text = graph("6", vec![("k", Attr::Int(2))]).text(21);
        assert_eq!((text.matches("= topK ").count(), text.matches("= expertProduct ").count()), (3, 2), "{text}");
    }

    #[test]
    fn experts_that_do_not_fit_are_refused() {
        let message = graph("2", vec![("k", Attr::Int(5))]).refusal(21);
        assert!(message.contains("k is 5, expected 1 to 4, the number of experts"), "{message}");
        let message = graph("2", vec![("activation_type", Attr::Text("other"))]).refusal(21);
        assert!(
            message.contains("activation_type is other, expected relu, gelu, silu, swiglu or identity"),
            "{message}"
        );
        let message = graph("2", vec![("activation_type", Attr::Text("swiglu"))]).refusal(21);
        assert!(message.contains("swiglu_fusion is 0, which does not fit the layers of 8 columns"), "{message}");
        let bytes = [0x98; 4 * 16 * 4];
        let quantized = |block: i64, zeros: usize| {
            let graph = TestGraph::default().input("x", Float, &["2", "16"]).input("r", Float, &["2", "4"]);
            let graph = graph.raw("a", Uint8, &[4, 8, 8], &bytes).raw("b", Uint8, &[4, 16, 4], &bytes);
            let graph = graph.floats("s", &[4, 8], &[0.5; 32]).floats("t", &[4, 16], &[0.5; 64]);
            let graph = graph.raw("z", Uint8, &[zeros as i64], &bytes[..zeros]);
            let sizes = vec![("block_size", Attr::Int(block))];
            graph.node("com.microsoft.QMoE", "x r a s _ b t _ _ _ _ z", "y", sizes).output("y")
        };
        assert!(quantized(0, 16).text(21).contains("uint4 [32, 16]"));
        let message = quantized(0, 15).refusal(21);
        assert!(message.contains("the zero points (input 11) has 15 bytes, expected the 16 bytes of"), "{message}");
        let message = quantized(32, 16).refusal(21);
        assert!(message.contains("rows of 16 weights cannot be divided into blocks of 32"), "{message}");
    }
}
