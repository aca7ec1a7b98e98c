//! Layers with a state of constant size: linear attention, and the causal convolutions in front of it.

use super::activation::swish;
use super::attention::{appended, count_attribute, scale, split_heads};
use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::conv2d::{Conv2d, Conv2dAttributes};
use crate::ops::elementwise::Elementwise as E;
use crate::shape::Descriptor;

/// Maximum number of time steps to unroll.
const MAX_STEPS: u32 = 4096;

/// The input at `index` in float32, the type of the states.
fn wide(call: &mut Call, index: usize) -> Step<OperandId> {
    let x = call.input(index)?;
    call.cast(x, DataType::Float32)
}

/// Splits the input at `index`, `[batch, steps, heads * size]`, into a column `[batch, heads, size, 1]` per step.
fn columns(call: &mut Call, x: OperandId, heads: Dim, what: &str) -> Step<Vec<OperandId>> {
    let [batch, steps, features] = call.dims(x, what)?;
    if heads == 0 || !features.is_multiple_of(heads) {
        return Err(Refusal(format!("{what} has {features} features, which {heads} heads cannot share equally")));
    }
    let rows = call.split(x, &vec![1; steps.size()], 1)?;
    rows.into_iter().map(|row| call.reshape(row, &[batch, heads, features / heads, Dim::ONE])).collect()
}

/// The state is a matrix per head: every step adds the product of its key and its value, and reads from the state by
/// its query.
fn linear_attention(call: &mut Call) -> Outcome {
    let (heads, shared) = (count_attribute(call, "q_num_heads")?, count_attribute(call, "kv_num_heads")?);
    let (is_gated, is_delta) = match call.text_or("update_rule", "gated_delta").as_str() {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return Err(Refusal(format!("update_rule is {other}, expected linear, gated, delta or gated_delta"))),
    };
    if shared == 0 || !heads.is_multiple_of(shared) {
        return Err(Refusal(format!("{heads} heads of queries cannot share {shared} heads of keys")));
    }
    let (query, key, value) = (wide(call, 0)?, wide(call, 1)?, wide(call, 2)?);
    let dtype = call.dtype(call.input(0)?);
    let [batch, steps, _] = call.dims(query, "the query")?;
    for (other, what) in [(key, "the key"), (value, "the value")] {
        let shape = call.dims::<3>(other, what)?;
        if shape[..2] != [batch, steps] {
            return Err(Refusal(format!("{what} has shape {shape:?}, expected [{batch}, {steps}, ..]")));
        }
    }
    // Each step becomes operators of its own.
    let steps = steps.get();
    if steps > MAX_STEPS {
        return Err(Refusal(format!("{steps} steps cannot be unrolled, expected at most {MAX_STEPS}")));
    }
    let query = split_heads(call, query, heads, "the query")?;
    let factor = scale(call, query);
    let (heads, shared) = (Dim::from(heads), Dim::from(shared));
    let keys = columns(call, key, shared, "the key")?;
    let values = columns(call, value, shared, "the value")?;
    let (size, value_size) = (call.shape(keys[0])[2], call.shape(values[0])[2]);
    // The queries that share a key become rows of a matrix.
    let query = call.reshape(query, &[batch, shared, heads / shared, steps.into(), size])?;
    let decays = match is_gated {
        true => {
            let decay = wide(call, 4)?;
            let decay = call.emit(E::Exp, &[decay])?;
            Some(columns(call, decay, shared, "the decay")?)
        }
        false => None,
    };
    let rates = match is_delta {
        true => {
            let rate = wide(call, 5)?;
            let [_, _, width] = call.dims(rate, "beta")?;
            Some(columns(call, rate, width, "beta")?)
        }
        false => None,
    };
    let (mut state, state_type) = match call.optional(3)? {
        Some(past) => (call.cast(past, DataType::Float32)?, call.dtype(past)),
        None => {
            let zero = call.scalar(DataType::Float32, 0.0.into())?;
            (call.expand(zero, &[batch, shared, size, value_size])?, dtype)
        }
    };
    let mut outputs = Vec::new();
    for at in 0..steps as usize {
        if let Some(decays) = &decays {
            state = call.mul(state, decays[at])?;
        }
        let mut added = call.reshape(values[at], &[batch, shared, Dim::ONE, value_size])?;
        if let Some(rates) = &rates {
            // Replaces the state's value for this key.
            let key = call.reshape(keys[at], &[batch, shared, Dim::ONE, size])?;
            let held = call.matmul(key, state)?;
            let new = call.sub(added, held)?;
            added = call.mul(new, rates[at])?;
        }
        let product = call.mul(keys[at], added)?;
        state = call.add(state, product)?;
        let query = call.pick(query, 3, at as u32)?;
        let output = call.matmul(query, state)?;
        outputs.push(call.reshape(output, &[batch, Dim::ONE, heads * value_size])?);
    }
    let output = call.concat(&outputs, 1)?;
    let output = call.linear(output, factor, 0.0)?;
    Ok([call.cast(output, dtype)?, call.cast(state, state_type)?].map(Value::Tensor).to_vec())
}

/// Convolves each channel with its past; the state holds the earlier inputs.
fn causal_conv(call: &mut Call) -> Outcome {
    let (x, weight) = (call.input(0)?, call.input(1)?);
    let [batch, channels, length] = call.dims(x, "the input")?;
    let [_, _, size] = call.dims(weight, "the weight")?;
    let past = size - 1;
    let padded = match call.value(3) {
        None | Some(Value::Empty(_)) => call.pad_axis(x, 2, [past, Dim::ZERO])?,
        Some(_) => appended(call, 3, x)?,
    };
    let row = call.reshape(padded, &[batch, channels, Dim::ONE, past + length])?;
    let filter = call.reshape(weight, &[channels, Dim::ONE, Dim::ONE, size])?;
    let attributes = Conv2dAttributes { groups: channels.get(), ..Default::default() };
    let bias = call.optional(2)?;
    let output = call.emit_all(Conv2d { attributes }, vec![Some(row), Some(filter), bias])?[0];
    let output = call.reshape(output, &[batch, channels, length])?;
    let output = match call.text_or("activation", "none").as_str() {
        "none" => output,
        "silu" | "swish" => swish(call, output, 1.0)?,
        other => return Err(Refusal(format!("activation is {other}, expected none, silu or swish"))),
    };
    let state = match past == 0 {
        true => Value::Empty(Descriptor::new(call.dtype(x), [batch, channels, past])),
        false => Value::Tensor(call.slice_axis(padded, 2, length, past)?),
    };
    Ok(vec![Value::Tensor(output), state])
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("CausalConvWithState", "", causal_conv),
    standard("LinearAttention", "unrolled over time, at most 4096 steps", linear_attention),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::{Attr, TestGraph};

    fn attention(rule: &str, heads: i64) -> TestGraph {
        let graph = TestGraph::default().input("q", Float, &["2", "3", "8"]).input("k", Float, &["2", "3", "4"]);
        let graph = graph.input("d", Float, &["2", "3", "2"]).input("b", Float, &["2", "3", "1"]);
        let attributes =
            vec![("q_num_heads", Attr::Int(heads)), ("kv_num_heads", Attr::Int(2)), ("update_rule", Attr::Text(rule))];
        graph.node("LinearAttention", "q k k _ d b", "y s", attributes).output("y").output("s")
    }

    #[test]
    fn every_step_reads_and_writes_the_state() {
        let text = attention("linear", 4).text(27);
        assert_eq!((text.matches("= matmul ").count(), text.matches("= exp ").count()), (3, 0), "{text}");
        let text = attention("gated_delta", 4).text(27);
        assert_eq!((text.matches("= matmul ").count(), text.matches("= exp ").count()), (6, 1), "{text}");
    }

    #[test]
    fn heads_and_rules_that_do_not_exist_are_refused() {
        assert!(attention("linear", 3).refusal(27).contains("3 heads of queries cannot share 2 heads of keys"));
        assert!(attention("other", 4).refusal(27).contains("update_rule is other, expected linear"));
    }

    #[test]
    fn the_state_of_a_convolution_is_the_end_of_its_input() {
        let conv = |size: &str| {
            let graph = TestGraph::default().input("x", Float, &["1", "2", "5"]).input("w", Float, &["2", "1", size]);
            let graph = graph.node("CausalConvWithState", "x w", "y s", vec![]).node("Shape", "s", "z", vec![]);
            graph.output("y").output("z").text(27)
        };
        assert!(conv("3").contains("groups=2") && conv("3").contains("pad %0"), "{}", conv("3"));
        assert!(!conv("1").contains("pad"), "{}", conv("1"));
    }
}
