//! Layers with a state of constant size: linear attention, and the causal convolutions in front of it.

use super::activation::swish;
use super::attention::{appended, count_attribute, scale_of};
use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, microsoft, standard};
use crate::ops::conv2d::{Conv2d, Conv2dAttributes};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::extension::linear_attention::LinearAttention;
use crate::shape::Descriptor;

/// The input at `index` in float32, the type of the states.
fn wide(call: &mut Call, index: usize) -> Step<OperandId> {
    let x = call.input(index)?;
    call.cast(x, DataType::Float32)
}

// ---- LinearAttention ---------------------------------------------------------------------------------------------

/// `[batch, steps, features]` as `[batch, steps, heads, size]`.
fn in_heads(call: &mut Call, x: OperandId, [heads, size]: [Dim; 2], what: &str) -> Step<OperandId> {
    let [batch, steps, features] = call.dims(x, what)?;
    if features != heads * size {
        return Err(Refusal(format!("{what} has {features} features, expected {heads} heads of {size}")));
    }
    call.reshape(x, &[batch, steps, heads, size])
}

/// The state is a matrix per head: every step adds the product of its key and its value, and reads from the state by
/// its query.
fn linear_attention(call: &mut Call) -> Outcome {
    let (heads, states) = (count_attribute(call, "q_num_heads")?, count_attribute(call, "kv_num_heads")?);
    let (is_gated, is_delta) = match call.text_or("update_rule", "gated_delta").as_str() {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return Err(Refusal(format!("update_rule is {other}, expected linear, gated, delta or gated_delta"))),
    };
    if call.int_or("state_window", 0) != 0 {
        return Err("state_window is set, which onnxruntime does not support on CPUs".into());
    }
    if heads == 0 || states == 0 || !(heads.is_multiple_of(states) || states.is_multiple_of(heads)) {
        return Err(Refusal(format!("{heads} heads of queries cannot share {states} heads of keys")));
    }
    let (query, key, value) = (wide(call, 0)?, wide(call, 1)?, wide(call, 2)?);
    let dtype = call.dtype(call.input(0)?);
    let [batch, steps, features] = call.dims(query, "the query")?;
    if !features.is_multiple_of(heads) {
        return Err(Refusal(format!("the query has {features} features, which {heads} heads cannot share equally")));
    }
    let size = features / heads;
    let [_, _, key_features] = call.dims(key, "the key")?;
    let [_, _, value_features] = call.dims(value, "the value")?;
    let (key_heads, value_size) = (key_features / size, value_features / states);
    if key_heads == 0 || !Dim::from(states).is_multiple_of(key_heads) {
        return Err(Refusal(format!("{states} states cannot share {key_heads} heads of keys")));
    }
    let query = in_heads(call, query, [heads.into(), size], "the query")?;
    let key = in_heads(call, key, [key_heads, size], "the key")?;
    let value = in_heads(call, value, [states.into(), value_size], "the value")?;
    let mut decay = None;
    if is_gated {
        let given = wide(call, 4)?;
        let [_, _, width] = call.dims(given, "the decay")?;
        let size = if width == states { Dim::ONE } else { size };
        let each = in_heads(call, given, [states.into(), size], "the decay")?;
        decay = Some(call.emit(E::Exp, &[each])?);
    }
    let mut rate = None;
    if is_delta {
        let given = wide(call, 5)?;
        let [_, _, width] = call.dims(given, "beta")?;
        if width != 1 && width != states {
            return Err(Refusal(format!("beta has {width} features, expected 1 or {states}")));
        }
        rate = Some(given);
    }
    let shape = [batch, states.into(), size, value_size];
    let (past, state_type) = match call.optional(3)? {
        Some(past) if call.shape(past) != shape => {
            return Err(Refusal(format!("past_state has shape {:?}, expected {shape:?}", call.shape(past))));
        }
        Some(past) => (Some(call.cast(past, DataType::Float32)?), call.dtype(past)),
        None => (None, dtype),
    };
    let op = LinearAttention { scale: scale_of(call, size) };
    let [output, state] = if call.has_extensions() || steps != 1 {
        let operands = vec![Some(query), Some(key), Some(value), decay, rate, past];
        call.emit_all(op, operands)?.try_into().expect("an output and a state")
    } else {
        one_step(call, op.scale, [query, key, value], decay, rate, past)?
    };
    let output = call.reshape(output, &[batch, steps, value_size * heads.max(states)])?;
    Ok([call.cast(output, dtype)?, call.cast(state, state_type)?].map(Value::Tensor).to_vec())
}

/// A single step of other operators, for GPUs: between tokens of a text, the states stay there.
fn one_step(
    call: &mut Call,
    scale: f64,
    [query, key, value]: [OperandId; 3],
    decay: Option<OperandId>,
    rate: Option<OperandId>,
    past: Option<OperandId>,
) -> Step<[OperandId; 2]> {
    let [batch, _, states, _] = call.dims(value, "the value")?;
    // A row for each state, or several.
    let mut rows = |x: OperandId| -> Step<OperandId> {
        let [_, _, heads, width] = call.dims(x, "heads")?;
        let shared = (states / heads).max(1);
        let single = call.reshape(x, &[batch, heads, Dim::ONE, width])?;
        let all = call.expand(single, &[batch, heads, shared, width])?;
        call.reshape(all, &[batch, states, (heads / states).max(1), width])
    };
    let (query, key, mut added) = (rows(query)?, rows(key)?, rows(value)?);
    let mut state = past;
    if let (Some(past), Some(decay)) = (past, decay) {
        let decay = rows(decay)?;
        let columns = call.transpose_last(decay)?;
        state = Some(call.mul(past, columns)?);
    }
    if let Some(rate) = rate {
        if let Some(state) = state {
            let held = call.matmul(key, state)?;
            added = call.sub(added, held)?;
        }
        let [_, _, rates] = call.dims(rate, "beta")?;
        let rate = call.reshape(rate, &[batch, rates, Dim::ONE, Dim::ONE])?;
        added = call.mul(added, rate)?;
    }
    let columns = call.transpose_last(key)?;
    let mut new = call.matmul(columns, added)?;
    if let Some(state) = state {
        new = call.add(state, new)?;
    }
    let output = call.matmul(query, new)?;
    Ok([call.linear(output, scale, 0.0)?, new])
}

// ---- CausalConvWithState -----------------------------------------------------------------------------------------

/// Convolves each channel with its past; the state holds the earlier inputs.
fn causal_conv(call: &mut Call) -> Outcome {
    let (mut x, weight) = (call.input(0)?, call.input(1)?);
    if call.int_or("ndim", 1) != 1 || call.int_or("state_window", 0) != 0 {
        return Err("ndim or state_window is set, which onnxruntime does not support on CPUs".into());
    }
    let dilation = call.int_or("dilation", 1);
    let dilation = u32::try_from(dilation).ok().filter(|&dilation| dilation > 0);
    let dilation = dilation.ok_or("dilation is not positive")?;
    let [_, _, size] = call.dims(weight, "the weight")?;
    let past = (size - 1) * dilation;
    let own = call.shape(x);
    let is_last = call.int_or("channels_last", 0) != 0;
    if is_last {
        x = sequence_last(call, x)?;
        if let Some(state) = call.optional(3)? {
            let state = sequence_last(call, state)?;
            call.replace(3, state);
        }
    }
    let [batch, channels, length] = call.dims(x, "the input")?;
    let padded = match call.value(3) {
        None | Some(Value::Empty(_)) => call.pad_axis(x, 2, [past, Dim::ZERO])?,
        Some(_) => {
            let (state, expected) = (call.input_shape(3)?, [batch, channels, past]);
            if state != expected {
                return Err(Refusal(format!("past_state has shape {state:?} by channels, expected {expected:?}")));
            }
            appended(call, 3, x)?
        }
    };
    let row = call.reshape(padded, &[batch, channels, Dim::ONE, past + length])?;
    let filter = call.reshape(weight, &[channels, Dim::ONE, Dim::ONE, size])?;
    let attributes = Conv2dAttributes { groups: channels.get(), dilations: vec![1, dilation], ..Default::default() };
    let bias = call.optional(2)?;
    let output = call.emit_all(Conv2d { attributes }, vec![Some(row), Some(filter), bias])?[0];
    let mut output = call.reshape(output, &[batch, channels, length])?;
    output = match call.text_or("activation", "none").as_str() {
        "none" => output,
        "silu" | "swish" => swish(call, output, 1.0)?,
        other => return Err(Refusal(format!("activation is {other}, expected none, silu or swish"))),
    };
    let mut state_shape = vec![batch, channels, past];
    if is_last {
        output = call.transpose(output, &[0, 2, 1])?;
        output = call.reshape(output, &own)?;
        state_shape = [&[batch, past], &own[2..]].concat();
    }
    if past == 0 {
        let state = Value::Empty(Descriptor::new(call.dtype(x), state_shape));
        return Ok(vec![Value::Tensor(output), state]);
    }
    let mut state = call.slice_axis(padded, 2, length, past)?;
    if is_last {
        state = call.transpose(state, &[0, 2, 1])?;
        state = call.reshape(state, &state_shape)?;
    }
    Ok([output, state].map(Value::Tensor).to_vec())
}

/// `[batch, sequence, ..]`, with channels in several dimensions, as `[batch, channels, sequence]`.
fn sequence_last(call: &mut Call, x: OperandId) -> Step<OperandId> {
    let shape = call.shape(x);
    let [batch, sequence, channels @ ..] = &shape[..] else {
        return Err(Refusal(format!("a sequence with its channels last has shape {shape:?}, expected 3 dimensions")));
    };
    let flat = call.reshape(x, &[*batch, *sequence, channels.iter().copied().product()])?;
    call.transpose(flat, &[0, 2, 1])
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("CausalConvWithState", "", causal_conv),
    microsoft("CausalConvWithState", "one dimension, no state_window", causal_conv),
    standard("LinearAttention", "on GPUs, single steps", linear_attention),
    microsoft("LinearAttention", "no state_window; on GPUs, single steps", linear_attention),
];

#[cfg(test)]
mod tests {
    use crate::dtype::DataType::Float32;
    use crate::dtype::Number;
    use crate::ir::Graph;
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::{Attr, TestGraph};
    use crate::ops::tensor::Tensor;
    use crate::shape::Descriptor;
    use crate::testing::{Random, Tolerance, check_on_cpu};
    use std::collections::HashMap;

    /// Sizes of a linear attention: heads of queries, keys and values, their sizes, and features of decay and beta.
    #[derive(Clone, Copy)]
    struct Sizes {
        steps: usize,
        heads: [usize; 3],
        size: usize,
        value_size: usize,
        decay: usize,
        beta: usize,
    }

    impl Sizes {
        fn shapes(&self) -> [(&'static str, Vec<usize>); 6] {
            let [queries, keys, values] = self.heads;
            let shape = |width| vec![2, self.steps, width];
            [
                ("q", shape(queries * self.size)),
                ("k", shape(keys * self.size)),
                ("v", shape(values * self.value_size)),
                ("d", shape(self.decay)),
                ("b", shape(self.beta)),
                ("p", vec![2, values, self.size, self.value_size]),
            ]
        }

        fn graph(&self, rule: &str) -> TestGraph {
            let mut graph = TestGraph::default();
            for (name, shape) in self.shapes() {
                let shape: Vec<String> = shape.iter().map(|size| size.to_string()).collect();
                graph = graph.input(name, Float, &shape.iter().map(|size| &size[..]).collect::<Vec<_>>());
            }
            let [queries, _, values] = self.heads.map(|heads| Attr::Int(heads as i64));
            let attributes =
                vec![("q_num_heads", queries), ("kv_num_heads", values), ("update_rule", Attr::Text(rule))];
            graph.node("com.microsoft.LinearAttention", "q k v p d b", "y s", attributes).output("y").output("s")
        }

        /// The recurrence, one step after the other: outputs and last states.
        fn recurrence(&self, rule: &str, inputs: &HashMap<String, Vec<f64>>) -> [Vec<f64>; 2] {
            let Sizes { steps, heads: [queries, keys, values], size, value_size, decay, beta } = *self;
            let all = queries.max(values);
            let (mut outputs, mut last) = (vec![0.0; 2 * steps * all * value_size], Vec::new());
            let row = |name: &str, at: usize, head: usize, heads: usize, width: usize| {
                inputs[name][(at * heads + head) * width..][..width].to_vec()
            };
            for (batch, head) in (0..2 * values).map(|at| (at / values, at % values)) {
                let past = inputs["p"][(batch * values + head) * size * value_size..].chunks(value_size);
                let mut state: Vec<Vec<f64>> = past.take(size).map(<[f64]>::to_vec).collect();
                for at in (0..steps).map(|step| batch * steps + step) {
                    let key = row("k", at, head * keys / values, keys, size);
                    let mut added = row("v", at, head, values, value_size);
                    if rule.starts_with("gated") {
                        let decays = row("d", at, head, values, decay / values);
                        for (feature, state) in state.iter_mut().enumerate() {
                            state.iter_mut().for_each(|x| *x *= decays[feature % decays.len()].exp());
                        }
                    }
                    if rule.ends_with("delta") {
                        let rate = inputs["b"][at * beta + head % beta];
                        for (column, x) in added.iter_mut().enumerate() {
                            *x = rate * (*x - (0..size).map(|i| key[i] * state[i][column]).sum::<f64>());
                        }
                    }
                    for (key, state) in key.iter().zip(&mut state) {
                        state.iter_mut().zip(&added).for_each(|(state, x)| *state += key * x);
                    }
                    for number in 0..all / values {
                        let output = head * (all / values) + number;
                        let query = row("q", at, output * queries / all, queries, size);
                        for column in 0..value_size {
                            let sum: f64 = (0..size).map(|i| query[i] * state[i][column]).sum();
                            outputs[(at * all + output) * value_size + column] = sum / (size as f64).sqrt();
                        }
                    }
                }
                last.extend(state.concat());
            }
            [outputs, last]
        }

        /// Compares the graph for CPUs with the recurrence, and for single steps the one for GPUs.
        fn check(&self, rule: &str) {
            self.check_graph(rule, &self.graph(rule).import(21, &Default::default()).unwrap());
            if self.steps == 1 {
                self.check_graph(rule, &self.graph(rule).import_for_gpus(21).unwrap());
            }
        }

        fn check_graph(&self, rule: &str, graph: &Graph) {
            let mut random = Random::new(self.steps as u64);
            let (mut tensors, mut numbers) = (HashMap::new(), HashMap::new());
            for (name, shape) in self.shapes() {
                let [low, high] = match name {
                    "d" => [-3.0, 0.0],
                    "b" => [0.0, 1.0],
                    _ => [-0.5, 0.5],
                };
                let shape: Vec<u32> = shape.iter().map(|&size| size as u32).collect();
                let descriptor = Descriptor::new(Float32, shape);
                let mut tensor = random.tensor_in(&descriptor, low, high);
                if name == "d" && self.steps > 20 {
                    // Some steps begin anew.
                    let element = |index: &[usize]| match index[1] % 9 {
                        5 => Number::Float(f64::NEG_INFINITY),
                        _ => tensor.at(index),
                    };
                    tensor = Tensor::from_fn(&descriptor, element);
                }
                numbers.insert(name.to_string(), tensor.floats().iter().copied().collect());
                tensors.insert(name.to_string(), tensor);
            }
            let tolerance = Tolerance::ulps(64).or_absolute(1e-5);
            let results: HashMap<String, Tensor> = check_on_cpu(graph, &tensors, tolerance);
            for (name, expected) in ["y", "s"].iter().zip(self.recurrence(rule, &numbers)) {
                for (at, (got, expected)) in results[*name].floats().iter().zip(expected).enumerate() {
                    let (steps, difference) = (self.steps, (got - expected).abs());
                    assert!(difference < 1e-5, "{rule} of {steps}: {name}[{at}] is {got}, expected {expected}");
                }
            }
        }
    }

    const PLAIN: Sizes = Sizes { steps: 1, heads: [2; 3], size: 4, value_size: 3, decay: 2, beta: 2 };

    #[test]
    fn every_rule_over_any_number_of_steps() {
        for rule in ["linear", "gated", "delta", "gated_delta"] {
            for steps in [1, 3, 70] {
                Sizes { steps, ..PLAIN }.check(rule);
            }
        }
    }

    #[test]
    fn queries_and_states_share_heads() {
        for heads in [[4, 2, 2], [2, 2, 4], [4, 1, 2], [1, 1, 2]] {
            for steps in [1, 10] {
                let decay = heads[2];
                Sizes { steps, heads, decay, beta: 1, ..PLAIN }.check("gated_delta");
            }
        }
    }

    #[test]
    fn features_of_keys_have_decays_of_their_own() {
        for steps in [1, 6] {
            Sizes { steps, decay: 8, ..PLAIN }.check("gated_delta");
        }
    }

    #[test]
    fn gpus_compute_single_steps_of_other_operators() {
        let text = Sizes { steps: 128, ..PLAIN }.graph("gated_delta").text(21);
        assert!(text.contains("= linearAttention ") && !text.contains("matmul"), "{text}");
        let graph = PLAIN.graph("gated_delta").import_for_gpus(21).unwrap();
        assert_eq!(graph.to_string().matches("= matmul ").count(), 3, "{graph}");
        let refusal = Sizes { steps: 2, ..PLAIN }.graph("gated_delta").import_for_gpus(21).unwrap_err();
        assert!(refusal.to_string().contains("the GPU has no kernel for linearAttention"), "{refusal}");
    }

    #[test]
    fn heads_rules_and_shapes_that_do_not_fit_are_refused() {
        let refusal = |sizes: Sizes, rule: &str| sizes.graph(rule).refusal(21);
        let message = refusal(Sizes { heads: [3, 2, 2], ..PLAIN }, "linear");
        assert!(message.contains("3 heads of queries cannot share 2 heads of keys"), "{message}");
        assert!(refusal(PLAIN, "other").contains("update_rule is other, expected linear"));
        let message = refusal(Sizes { heads: [2, 4, 2], ..PLAIN }, "linear");
        assert!(message.contains("2 states cannot share 4 heads of keys"), "{message}");
        let message = refusal(Sizes { decay: 3, ..PLAIN }, "gated");
        assert!(message.contains("the decay has 3 features, expected 2 heads of 4"), "{message}");
        let message = refusal(Sizes { beta: 3, ..PLAIN }, "delta");
        assert!(message.contains("beta has 3 features, expected 1 or 2"), "{message}");
    }

    #[test]
    fn the_state_of_a_convolution_is_the_end_of_its_input() {
        let conv = |size: &str, attributes: Vec<(&str, Attr)>| {
            let graph = TestGraph::default().input("x", Float, &["1", "2", "5"]).input("w", Float, &["2", "1", size]);
            let graph = graph.node("com.microsoft.CausalConvWithState", "x w", "y s", attributes);
            graph.node("Shape", "s", "z", vec![]).output("y").output("z").text(27)
        };
        let text = conv("3", vec![("dilation", Attr::Int(2))]);
        assert!(text.contains("groups=2") && text.contains("pad %0") && text.contains("dilations=[1, 2]"), "{text}");
        assert!(!conv("1", vec![]).contains("pad"), "{}", conv("1", vec![]));
    }
}
