//! Layers with a state of constant size: linear attention, and the causal convolutions in front of it.

use super::activation::swish;
use super::attention::{appended, count_attribute, scale_of};
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, microsoft, standard};
use crate::ops::conv2d::{Conv2d, Conv2dAttributes};
use crate::ops::cumulative_sum::CumulativeSum;
use crate::ops::elementwise::Elementwise as E;
use crate::shape::Descriptor;

/// Maximum number of blocks to unroll.
const MAX_BLOCKS: u32 = 4096;

/// Maximum number of steps per block: longer blocks make smaller graphs, but products within them that grow with the
/// square of the length.
const BLOCK: u32 = 32;

/// A logarithmic decay that leaves nothing, like all below it: differences of their sums stay finite, and accurate.
const LEAST: f64 = -104.0;

/// The input at `index` in float32, the type of the states.
fn wide(call: &mut Call, index: usize) -> Step<OperandId> {
    let x = call.input(index)?;
    call.cast(x, DataType::Float32)
}

// ---- LinearAttention ---------------------------------------------------------------------------------------------

/// A sequence in blocks of equal length. Steps after the end of the sequence are zeros, which do not change a state.
struct Blocks {
    batch: Dim,
    steps: Dim,
    /// Number of states.
    heads: u32,
    /// Steps per block.
    size: u32,
    /// Number of blocks.
    count: u32,
}

impl Blocks {
    fn new(batch: Dim, steps: Dim, heads: u32, longest: u32) -> Step<Blocks> {
        // A length rounded up fits other prompts, too.
        let size = [1, 4, 8, 16].into_iter().find(|&size| steps <= size).map_or(longest, |size| longest.min(size));
        let count = steps.div_ceil(size).get();
        if count > MAX_BLOCKS {
            let most = MAX_BLOCKS * size;
            return Err(Refusal(format!("{steps} steps cannot be unrolled, expected at most {most}")));
        }
        Ok(Blocks { batch, steps, heads, size, count })
    }

    /// `[batch, steps, heads * size]` as `[blocks, batch, heads, steps of a block, size]`. If there are fewer heads
    /// than states, neighboring states share one.
    fn cut(&self, call: &mut Call, x: OperandId, heads: u32, what: &str) -> Step<OperandId> {
        let [batch, steps, features] = call.dims(x, what)?;
        if [batch, steps] != [self.batch, self.steps] {
            let shape = [batch, steps, features];
            return Err(Refusal(format!("{what} has shape {shape:?}, expected [{}, {}, ..]", self.batch, self.steps)));
        }
        if heads == 0 || !features.is_multiple_of(heads) {
            return Err(Refusal(format!("{what} has {features} features, which {heads} heads cannot share equally")));
        }
        if !(heads.is_multiple_of(self.heads) || self.heads.is_multiple_of(heads)) {
            return Err(Refusal(format!("{} states cannot share the {heads} heads of {what}", self.heads)));
        }
        let (count, block, size) = (Dim::from(self.count), Dim::from(self.size), features / heads);
        let padded = call.pad_axis(x, 1, [Dim::ZERO, count * block - steps])?;
        let cut = call.reshape(padded, &[batch, count, block, heads.into(), size])?;
        let cut = call.transpose(cut, &[1, 0, 3, 2, 4])?;
        if heads >= self.heads {
            return Ok(cut);
        }
        let single = call.reshape(cut, &[count, batch, heads.into(), Dim::ONE, block, size])?;
        let repeated = (self.heads / heads).into();
        let all = call.expand(single, &[count, batch, heads.into(), repeated, block, size])?;
        call.reshape(all, &[count, batch, self.heads.into(), block, size])
    }

    /// The blocks of a tensor, without the dimension that counts them.
    fn each(&self, call: &mut Call, x: OperandId) -> Step<Vec<OperandId>> {
        let shape = call.shape(x);
        let blocks = call.split(x, &vec![1; self.count as usize], 0)?;
        blocks.into_iter().map(|block| call.reshape(block, &shape[1..])).collect()
    }

    /// A constant matrix of 0 and 1 over pairs of steps.
    fn mask(&self, call: &mut Call, dtype: DataType, is_set: impl Fn(u32, u32) -> bool) -> Step<OperandId> {
        let size = self.size;
        let elements = (0..size * size).map(|at| f64::from(is_set(at / size, at % size)));
        call.constant(dtype, &[size, size], elements)
    }

    /// What is left, at each step of a block, of what each step up to it adds; 0 for later ones.
    fn kept(&self, call: &mut Call, decay: Option<OperandId>) -> Step<OperandId> {
        let Some(decay) = decay else { return self.mask(call, DataType::Float32, |at, from| from <= at) };
        let transposed = call.transpose_last(decay)?;
        let between = call.sub(decay, transposed)?;
        let is_earlier = self.mask(call, DataType::Uint8, |at, from| from <= at)?;
        let never = call.scalar_like(decay, f64::NEG_INFINITY)?;
        let between = call.select(is_earlier, between, never)?;
        call.emit(E::Exp, &[between])
    }

    /// The inverse of `1 + x`, of which only the part below the diagonal counts. The inverses of two neighboring
    /// diagonal blocks give that of the block of twice the size, as exactly as a solution from the top down.
    fn inverse(&self, call: &mut Call, x: OperandId) -> Step<OperandId> {
        let mut inverse = self.mask(call, DataType::Float32, |row, column| row == column)?;
        for half in (0..self.size.ilog2()).map(|power| 1 << power) {
            let is_between = |row: u32, column: u32| row / half == column / half + 1 && row / half % 2 == 1;
            let mask = self.mask(call, DataType::Float32, is_between)?;
            let mut change = call.mul(x, mask)?;
            if half > 1 {
                let left = call.matmul(inverse, change)?;
                change = call.matmul(left, inverse)?;
            }
            inverse = call.sub(inverse, change)?;
        }
        Ok(inverse)
    }
}

/// What the blocks of a sequence have in front of the recurrence, each `[blocks, batch, heads, ..]`.
struct Parts {
    /// Scaled queries.
    query: OperandId,
    /// Products of queries and keys, for blocks of several steps.
    products: Option<OperandId>,
    /// Keys as columns, after the decay until the end of the block.
    key: OperandId,
    /// What to add for the keys, without what the state holds for them.
    value: OperandId,
    /// What to multiply the state with for what it holds, if that is replaced.
    held: Option<OperandId>,
    /// The decay of the state in the block.
    decay: Option<OperandId>,
}

impl Parts {
    /// `decay` is logarithmic. The `rate` says how much of what the state holds for a key is replaced.
    fn new(
        call: &mut Call,
        blocks: &Blocks,
        [mut query, key, mut value]: [OperandId; 3],
        decay: Option<OperandId>,
        rate: Option<OperandId>,
    ) -> Step<Parts> {
        let is_single = blocks.size == 1;
        let decay = decay.map(|decay| if is_single { Ok(decay) } else { running(call, decay) }).transpose()?;
        let left = decay.map(|decay| call.emit(E::Exp, &[decay])).transpose()?;
        let columns = call.transpose_last(key)?;
        let kept = if is_single { None } else { Some(blocks.kept(call, decay)?) };
        let mut products = None;
        if let Some(kept) = kept {
            let scores = call.matmul(query, columns)?;
            products = Some(over_queries(call, scores, kept)?);
        }
        let mut held = None;
        if let Some(rate) = rate {
            value = call.mul(value, rate)?;
            let mut read = call.mul(key, rate)?;
            if let Some(left) = left {
                read = call.mul(read, left)?;
            }
            if let Some(kept) = kept {
                let products = call.matmul(key, columns)?;
                let products = call.mul(products, kept)?;
                let products = call.mul(products, rate)?;
                let inverse = blocks.inverse(call, products)?;
                [value, read] = [call.matmul(inverse, value)?, call.matmul(inverse, read)?];
            }
            held = Some(read);
        }
        let (mut end, mut key) = (None, columns);
        if let (Some(decay), Some(left)) = (decay, left) {
            let last = blocks.size - 1;
            let after = call.slice_axis(left, 3, last, 1u32)?;
            end = Some(call.transpose_last(after)?);
            if !is_single {
                query = over_queries(call, query, left)?;
                let total = call.slice_axis(decay, 3, last, 1u32)?;
                let rest = call.sub(total, decay)?;
                let rest = call.emit(E::Exp, &[rest])?;
                let rest = call.transpose_last(rest)?;
                key = call.mul(columns, rest)?;
            }
        }
        Ok(Parts { query, products, key, value, held, decay: end })
    }

    /// The outputs of all blocks, and the last state.
    fn run(self, call: &mut Call, blocks: &Blocks, mut state: OperandId) -> Step<(OperandId, OperandId)> {
        let mut each = |part: Option<OperandId>| part.map(|part| blocks.each(call, part)).transpose();
        let (query, key, value) = (each(Some(self.query))?, each(Some(self.key))?, each(Some(self.value))?);
        let (products, held, decay) = (each(self.products)?, each(self.held)?, each(self.decay)?);
        let (query, key, value) = (query.expect("given"), key.expect("given"), value.expect("given"));
        let mut outputs = Vec::new();
        for at in 0..blocks.count as usize {
            let mut added = value[at];
            if let Some(held) = &held {
                let held = call.matmul(held[at], state)?;
                added = call.sub(added, held)?;
            }
            let mut output = None;
            if let Some(products) = &products {
                let (before, within) = (call.matmul(query[at], state)?, call.matmul(products[at], added)?);
                output = Some(call.add(before, within)?);
            }
            if let Some(decay) = &decay {
                state = call.mul(state, decay[at])?;
            }
            let new = call.matmul(key[at], added)?;
            state = call.add(state, new)?;
            outputs.push(output.map_or_else(|| call.matmul(query[at], state), Ok)?);
        }
        Ok((call.stack(&outputs, 0)?, state))
    }
}

/// The running sums of logarithmic decays in a block.
fn running(call: &mut Call, decay: OperandId) -> Step<OperandId> {
    let decay = call.emit(E::Clamp { min: Number::Float(LEAST), max: Number::Float(f64::INFINITY) }, &[decay])?;
    call.emit(CumulativeSum { axis: 3, ..Default::default() }, &[decay])
}

/// `x`, whose rows are the steps of a block for each query of a state, times a factor with a row per step.
fn over_queries(call: &mut Call, x: OperandId, factor: OperandId) -> Step<OperandId> {
    let (shape, factors) = (call.shape(x), call.shape(factor));
    let ([blocks, batch, heads, rows, columns], [.., steps, width]) = (&shape[..], &factors[..]) else {
        unreachable!("blocks have five dimensions")
    };
    let queries = *rows / *steps;
    if queries == 1 {
        return call.mul(x, factor);
    }
    let split = call.reshape(x, &[*blocks, *batch, *heads, queries, *steps, *columns])?;
    let factor = match factors.len() {
        2 => factor,
        _ => call.reshape(factor, &[*blocks, *batch, *heads, Dim::ONE, *steps, *width])?,
    };
    let product = call.mul(split, factor)?;
    call.reshape(product, &shape)
}

/// The state is a matrix per head: every step adds the product of its key and its value, and reads from the state by
/// its query. Blocks of steps read the state in front of them, and the values within them, by products of matrices.
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
    if !key_features.is_multiple_of(size) {
        return Err(Refusal(format!("the key has {key_features} features, expected heads of {size}")));
    }
    let key_heads = (key_features / size).get();
    if key_heads == 0 || !states.is_multiple_of(key_heads) {
        return Err(Refusal(format!("{states} states cannot share {key_heads} heads of keys")));
    }
    let decay = if is_gated { Some(wide(call, 4)?) } else { None };
    let rate = if is_delta { Some(wide(call, 5)?) } else { None };
    // Decays of their own for the features of a key would make products within a block as large as states.
    let is_wide = decay.is_some_and(|decay| call.shape(decay).last().is_some_and(|&width| width != states));
    let blocks = Blocks::new(batch, steps, states, if is_wide { 1 } else { BLOCK })?;
    let scale = scale_of(call, size);
    let query = blocks.cut(call, query, heads, "the query")?;
    let query = call.linear(query, scale, 0.0)?;
    let key = blocks.cut(call, key, key_heads, "the key")?;
    let value = blocks.cut(call, value, states, "the value")?;
    let value_size = call.shape(value)[4];
    let decay = match decay {
        Some(decay) => {
            let [_, _, width] = call.dims(decay, "the decay")?;
            if width != states && width != size * states {
                return Err(Refusal(format!("the decay has {width} features, expected {states} or {}", size * states)));
            }
            Some(blocks.cut(call, decay, states, "the decay")?)
        }
        None => None,
    };
    let rate = match rate {
        Some(rate) => {
            let [_, _, width] = call.dims(rate, "beta")?;
            if width != 1 && width != states {
                return Err(Refusal(format!("beta has {width} features, expected 1 or {states}")));
            }
            Some(blocks.cut(call, rate, width.get(), "beta")?)
        }
        None => None,
    };
    let shape = [batch, states.into(), size, value_size];
    let (state, state_type) = match call.optional(3)? {
        Some(past) if call.shape(past) != shape => {
            return Err(Refusal(format!("past_state has shape {:?}, expected {shape:?}", call.shape(past))));
        }
        Some(past) => (call.cast(past, DataType::Float32)?, call.dtype(past)),
        None => {
            let zero = call.scalar(DataType::Float32, 0.0.into())?;
            (call.expand(zero, &shape)?, dtype)
        }
    };
    // The queries that share a state become rows of a matrix.
    let all = heads.max(states);
    let (count, block) = (Dim::from(blocks.count), Dim::from(blocks.size));
    let query = call.reshape(query, &[count, batch, states.into(), block * (all / states), size])?;
    let parts = Parts::new(call, &blocks, [query, key, value], decay, rate)?;
    let (output, state) = parts.run(call, &blocks, state)?;
    let output = call.reshape(output, &[count, batch, all.into(), block, value_size])?;
    let output = call.transpose(output, &[1, 0, 3, 2, 4])?;
    let output = call.reshape(output, &[batch, count * block, value_size * all])?;
    let output = call.slice_axis(output, 1, 0u32, steps)?;
    Ok([call.cast(output, dtype)?, call.cast(state, state_type)?].map(Value::Tensor).to_vec())
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

const STEPS: &str = "at most 131072 steps; 4096 if the features of a key have decays of their own";

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("CausalConvWithState", "", causal_conv),
    microsoft("CausalConvWithState", "one dimension, no state_window", causal_conv),
    standard("LinearAttention", STEPS, linear_attention),
    microsoft("LinearAttention", "no state_window; otherwise as in ai.onnx", linear_attention),
];

#[cfg(test)]
mod tests {
    use crate::dtype::DataType::Float32;
    use crate::dtype::Number;
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
        fn shapes(&self) -> [(&'static str, [usize; 3]); 5] {
            let [queries, keys, values] = self.heads;
            let shape = |width| [2, self.steps, width];
            [
                ("q", shape(queries * self.size)),
                ("k", shape(keys * self.size)),
                ("v", shape(values * self.value_size)),
                ("d", shape(self.decay)),
                ("b", shape(self.beta)),
            ]
        }

        fn graph(&self, rule: &str) -> TestGraph {
            let mut graph = TestGraph::default();
            for (name, shape) in self.shapes() {
                let shape = shape.map(|size| size.to_string());
                graph = graph.input(name, Float, &[&shape[0], &shape[1], &shape[2]]);
            }
            let [queries, _, values] = self.heads.map(|heads| Attr::Int(heads as i64));
            let attributes =
                vec![("q_num_heads", queries), ("kv_num_heads", values), ("update_rule", Attr::Text(rule))];
            graph.node("com.microsoft.LinearAttention", "q k v _ d b", "y s", attributes).output("y").output("s")
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
                let mut state = vec![vec![0.0; value_size]; size];
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

        fn check(&self, rule: &str) {
            let mut random = Random::new(self.steps as u64);
            let (mut tensors, mut numbers) = (HashMap::new(), HashMap::new());
            for (name, shape) in self.shapes() {
                let [low, high] = match name {
                    "d" => [-3.0, 0.0],
                    "b" => [0.0, 1.0],
                    _ => [-0.5, 0.5],
                };
                let descriptor = Descriptor::new(Float32, shape.map(|size| size as u32));
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
            let graph = self.graph(rule).import(21, &Default::default()).unwrap();
            let tolerance = Tolerance::ulps(64).or_absolute(1e-5);
            let results: HashMap<String, Tensor> = check_on_cpu(&graph, &tensors, tolerance);
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
    fn blocks_compute_what_single_steps_compute() {
        for rule in ["linear", "gated", "delta", "gated_delta"] {
            for steps in [1, 3, 16, 33, 70] {
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
    fn equal_keys_do_not_cancel() {
        // The powers of a matrix of ones in a block are larger than its inverse by 15 digits.
        let sizes = Sizes { steps: 64, ..PLAIN };
        let tensors = sizes.shapes().map(|(name, shape)| {
            let descriptor = Descriptor::new(Float32, shape.map(|size| size as u32));
            (name.to_string(), Tensor::from_fn(&descriptor, |_| 0.5.into()))
        });
        let graph = sizes.graph("delta").import(21, &Default::default()).unwrap();
        let tolerance = Tolerance::ulps(64).or_absolute(1e-6);
        check_on_cpu(&graph, &HashMap::from(tensors), tolerance);
    }

    #[test]
    fn blocks_are_few() {
        let text = Sizes { steps: 128, ..PLAIN }.graph("linear").text(21);
        assert_eq!(text.matches("= matmul ").count(), 1 + 4 * 3, "{text}");
        let text = Sizes { steps: 1, ..PLAIN }.graph("gated_delta").text(21);
        assert_eq!(text.matches("= matmul ").count(), 3, "{text}");
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
        assert!(message.contains("the decay has 3 features, expected 2 or 8"), "{message}");
        let message = refusal(Sizes { beta: 3, ..PLAIN }, "delta");
        assert!(message.contains("beta has 3 features, expected 1 or 2"), "{message}");
        let message = refusal(Sizes { steps: 4097, decay: 8, ..PLAIN }, "gated");
        assert!(message.contains("4097 steps cannot be unrolled, expected at most 4096"), "{message}");
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
