//! Scaled dot product attention and rotary position embeddings: shared parts of all attention operators, and the
//! operators of the standard.

use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::ops::generate::{counted, places};
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::extension::rotate::Rotate;
use crate::ops::pad::Pad;
use crate::ops::reduce::ReduceKind;
use crate::shape::broadcast;

/// The operands of attention, each of shape `[batch, heads, sequence, head size]`. If keys and values have fewer heads
/// than queries, neighboring heads of queries share one.
#[derive(Clone, Copy)]
pub struct Heads {
    /// Queries.
    pub q: OperandId,
    /// Keys.
    pub k: OperandId,
    /// Values, whose heads may have another size.
    pub v: OperandId,
}

/// How scores, the products of queries and keys, become probabilities. Applied in this order.
#[derive(Clone, Default)]
pub struct Scores {
    /// Multiplies the scores.
    pub scale: f64,
    /// `softcap * tanh(x / softcap)`, unless it is 0.
    pub softcap: f64,
    /// Biases to add, broadcast to `[batch, heads, queries, keys]`.
    pub biases: Vec<OperandId>,
    /// Which keys a query sees: `uint8`, broadcast to `[batch, heads, queries, keys]`.
    pub visible: Vec<OperandId>,
    /// A score per head, `[1, heads, 1, 1]`, that takes part in the softmax but belongs to no key.
    pub sink: Option<OperandId>,
    /// The data type of the softmax, if it differs from that of the scores.
    pub softmax_type: Option<DataType>,
}

/// The intermediate results of attention.
pub struct Attended {
    /// `[batch, heads, queries, head size of the values]`.
    pub output: OperandId,
    /// Scaled products, `[batch, heads, queries, keys]` like all the following.
    pub products: OperandId,
    /// After the softcap.
    pub capped: OperandId,
    /// After biases and masks.
    pub masked: OperandId,
    /// After the softmax.
    pub probabilities: OperandId,
}

/// The most negative number of a type: hidden scores vanish next to visible ones, and rows whose keys are all hidden
/// still have defined probabilities.
pub fn lowest(dtype: DataType) -> f64 {
    if dtype == DataType::Float16 { -65504.0 } else { f32::MIN as f64 }
}

/// Emits attention of `heads`.
pub fn attend(call: &mut Call, heads: Heads, scores: &Scores) -> Step<Attended> {
    let [batch, n, queries, size] = call.dims(heads.q, "the query")?;
    let [_, shared, keys, _] = call.dims(heads.k, "the key")?;
    let [_, _, _, value_size] = call.dims(heads.v, "the value")?;
    if !n.is_multiple_of(shared) {
        return Err(Refusal(format!("{n} heads of queries cannot share {shared} heads of keys")));
    }
    // Queries that share keys get a dimension of their own, along which keys and values broadcast.
    let (group, full) = (n / shared, [batch, n, queries, keys]);
    let grouped = shared != n;
    let batches = if grouped { vec![batch, shared, group] } else { vec![batch, n] };
    let split = |sizes: [Dim; 2]| [&batches[..], &sizes].concat();
    let single = |sizes: [Dim; 2]| match grouped {
        true => [&[batch, shared, Dim::ONE][..], &sizes].concat(),
        false => [&[batch, n][..], &sizes].concat(),
    };
    let q = call.reshape(heads.q, &split([queries, size]))?;
    let k = call.transpose_last(heads.k)?;
    let k = call.reshape(k, &single([size, keys]))?;
    let products = call.matmul(q, k)?;
    let products = call.linear(products, scores.scale, 0.0)?;
    let mut capped = products;
    if scores.softcap > 0.0 {
        let small = call.linear(products, 1.0 / scores.softcap, 0.0)?;
        let bent = call.emit(E::Tanh, &[small])?;
        capped = call.linear(bent, scores.softcap, 0.0)?;
    }
    let mut masked = capped;
    for &bias in &scores.biases {
        let bias = over_groups(call, bias, [shared, group], &full)?;
        masked = call.add(masked, bias)?;
    }
    if let Some(visible) = all_of(call, &scores.visible)? {
        let visible = over_groups(call, visible, [shared, group], &full)?;
        let hidden = call.scalar_like(masked, lowest(call.dtype(masked)))?;
        masked = call.select(visible, masked, hidden)?;
    }
    let sink = scores.sink.map(|sink| over_groups(call, sink, [shared, group], &full)).transpose()?;
    let probabilities = softmax(call, masked, (sink, scores.softmax_type), &split([queries, keys]))?;
    let value_type = call.dtype(heads.v);
    let weights = call.cast(probabilities, value_type)?;
    let v = call.reshape(heads.v, &single([keys, value_size]))?;
    let output = call.matmul(weights, v)?;
    let output = call.reshape(output, &[batch, n, queries, value_size])?;
    let stages = [products, capped, masked, probabilities];
    let mut whole = [products; 4];
    for (whole, stage) in whole.iter_mut().zip(stages) {
        *whole = call.reshape(stage, &full)?;
    }
    let [products, capped, masked, probabilities] = whole;
    Ok(Attended { output, products, capped, masked, probabilities })
}

/// Reshapes a mask that broadcasts to `full`, `[batch, heads, queries, keys]`, to have a dimension for queries that
/// share keys: there are `shared` times `group` heads.
fn over_groups(call: &mut Call, mask: OperandId, [shared, group]: [Dim; 2], full: &[Dim; 4]) -> Step<OperandId> {
    let shape = call.shape(mask);
    if broadcast(&shape, full).is_none_or(|shape| shape != full) {
        return Err(Refusal(format!("a mask or bias of shape {shape:?} does not broadcast to the scores, {full:?}")));
    }
    if group == 1 || shape.len() < 3 {
        return Ok(mask);
    }
    let heads = shape.len() - 3;
    let pair = if shape[heads] == 1 { [Dim::ONE; 2] } else { [shared, group] };
    call.reshape(mask, &[&shape[..heads], &pair, &shape[heads + 1..]].concat())
}

fn all_of(call: &mut Call, masks: &[OperandId]) -> Step<Option<OperandId>> {
    let mut all = None;
    for &mask in masks {
        all = Some(match all {
            Some(all) => call.emit(E::LogicalAnd, &[all, mask])?,
            None => mask,
        });
    }
    Ok(all)
}

/// The softmax, in the given type, of scores of this shape, with an optional score that belongs to no key.
fn softmax(
    call: &mut Call,
    x: OperandId,
    (sink, softmax_type): (Option<OperandId>, Option<DataType>),
    shape: &[Dim],
) -> Step<OperandId> {
    let (dtype, last) = (call.dtype(x), shape.len() - 1);
    let keys = shape[last];
    let mut x = call.cast(x, softmax_type.unwrap_or(dtype))?;
    if let Some(sink) = sink {
        let sink = call.cast(sink, call.dtype(x))?;
        let sink = call.expand(sink, &[&shape[..last], &[Dim::ONE]].concat())?;
        x = call.concat(&[x, sink], last as u32)?;
    }
    let probabilities = call.softmax(x, last as u32)?;
    let probabilities = call.slice_axis(probabilities, last, 0u32, keys)?;
    call.cast(probabilities, dtype)
}

/// Reshapes `[batch, sequence, heads * size]` to `[batch, heads, sequence, size]`.
pub fn split_heads(call: &mut Call, x: OperandId, heads: u32, what: &str) -> Step<OperandId> {
    let [batch, sequence, hidden] = call.dims(x, what)?;
    if heads == 0 || !hidden.is_multiple_of(heads) {
        return Err(Refusal(format!("{what} has {hidden} features, which {heads} heads cannot share equally")));
    }
    let split = call.reshape(x, &[batch, sequence, heads.into(), hidden / heads])?;
    call.transpose(split, &[0, 2, 1, 3])
}

/// Reshapes `[batch, heads, sequence, size]` to `[batch, sequence, heads * size]`.
pub fn merge_heads(call: &mut Call, x: OperandId) -> Step<OperandId> {
    let [batch, heads, sequence, size] = call.dims(x, "the output")?;
    let merged = call.transpose(x, &[0, 2, 1, 3])?;
    call.reshape(merged, &[batch, sequence, heads * size])
}

/// Appends `new` to the state at `index` along the sequence, if the state has elements.
pub fn appended(call: &mut Call, index: usize, new: OperandId) -> Step<OperandId> {
    match call.value(index) {
        None | Some(Value::Empty(_)) => Ok(new),
        Some(_) => {
            let past = call.input(index)?;
            call.concat(&[past, new], 2)
        }
    }
}

/// The length of the state at `index`; 0 if there is none.
pub fn state_length(call: &Call, index: usize) -> Step<Dim> {
    if call.value(index).is_none() {
        return Ok(Dim::number(0));
    }
    let shape = call.input_shape(index)?;
    let length = (shape.len() == 4).then(|| shape[2]);
    length.ok_or_else(|| Refusal(format!("input {index} has shape {shape:?}, expected 4 dimensions")))
}

/// The integers from `start` on, as `int32` of shape `shape`; at most one of its dimensions may differ from 1.
pub fn counting(call: &mut Call, start: Dim, shape: &[Dim]) -> Step<OperandId> {
    counted(call, DataType::Int32, [start, Dim::number(1)], shape)
}

/// The integers from 0 on as `int32` of shape `[1, .., 1, count]`, of rank `rank`.
pub fn columns(call: &mut Call, count: Dim, rank: usize) -> Step<OperandId> {
    places(call, DataType::Int32, count, rank - 1, rank)
}

/// A mask of the `keys` that a query at each of the `positions`, `[.., queries, 1]`, sees: those up to its position.
pub fn causal(call: &mut Call, positions: OperandId, keys: Dim) -> Step<OperandId> {
    let columns = columns(call, keys, 2)?;
    call.emit(E::LesserOrEqual, &[columns, positions])
}

/// A non-negative integer attribute; 0 if it is missing.
pub fn count_attribute(call: &Call, name: &str) -> Step<u32> {
    let count = call.int_or(name, 0);
    u32::try_from(count).map_err(|_| Refusal(format!("{name} is {count}, expected a number that is not negative")))
}

/// The attribute `scale`, or the inverse root of the head size of `q`.
pub fn scale(call: &Call, q: OperandId) -> f64 {
    let size = call.shape(q).last().copied();
    scale_of(call, size.unwrap_or(Dim::ONE))
}

/// The attribute `scale`, or the inverse root of the size of a head.
pub fn scale_of(call: &Call, size: Dim) -> f64 {
    let given = call.float_attribute("scale").filter(|&scale| scale != 0.0);
    given.unwrap_or_else(|| 1.0 / (size.get() as f64).sqrt())
}

// ---- Attention ---------------------------------------------------------------------------------------------------

fn attention(call: &mut Call) -> Outcome {
    let is_flat = call.input_shape(0)?.len() == 3;
    let [mut q, mut k, mut v] = [call.input(0)?, call.input(1)?, call.input(2)?];
    if is_flat {
        let (n, shared) = (count_attribute(call, "q_num_heads")?, count_attribute(call, "kv_num_heads")?);
        q = split_heads(call, q, n, "Q")?;
        k = split_heads(call, k, shared, "K")?;
        v = split_heads(call, v, shared, "V")?;
    }
    let past = state_length(call, 4)?;
    let heads = Heads { q, k: appended(call, 4, k)?, v: appended(call, 5, v)? };
    let mut scores = Scores {
        scale: scale(call, q),
        softcap: call.float_or("softcap", 0.0),
        softmax_type: softmax_type(call)?,
        ..Default::default()
    };
    let [_, _, queries, _] = call.dims(q, "Q")?;
    let [batch, _, keys, _] = call.dims(heads.k, "K")?;
    let mut is_masked = false;
    if let Some(mask) = call.optional(3)? {
        let mask = if call.opset < 24 { mask } else { lengthened(call, mask, keys)? };
        is_masked = call.dtype(mask) == DataType::Uint8;
        if is_masked { scores.visible.push(mask) } else { scores.biases.push(mask) }
    }
    is_masked |= hide_by_position(call, &mut scores, [batch, queries, keys], past)?;
    let mut attended = attend(call, heads, &scores)?;
    if is_masked {
        zero_hidden_rows(call, &scores, &mut attended)?;
    }
    let dtype = call.dtype(q);
    let output = call.cast(attended.output, dtype)?;
    let output = if is_flat { merge_heads(call, output)? } else { output };
    let stage = match call.int_or("qk_matmul_output_mode", 0) {
        0 => attended.products,
        1 => attended.capped,
        2 => match all_of(call, &scores.visible)? {
            // In this output, an added infinity represents hidden keys.
            Some(visible) => {
                let hidden = call.scalar_like(attended.masked, f64::NEG_INFINITY)?;
                call.select(visible, attended.masked, hidden)?
            }
            None => attended.masked,
        },
        3 => attended.probabilities,
        other => return Err(Refusal(format!("qk_matmul_output_mode is {other}, expected 0 to 3"))),
    };
    Ok([output, heads.k, heads.v, stage].map(Value::Tensor).to_vec())
}

/// Hides keys beyond the given lengths, keys after the query's position if the attention is causal, and keys outside of
/// a window around it. Returns whether a query may see no key at all.
fn hide_by_position(call: &mut Call, scores: &mut Scores, sizes: [Dim; 3], past: Dim) -> Step<bool> {
    let [batch, queries, keys] = sizes;
    let lengths = call.optional(6)?;
    let is_causal = call.int_or("is_causal", 0) != 0;
    let mut windows = Vec::new();
    for (name, sign, op) in
        [("left_window_size", -1.0, E::GreaterOrEqual), ("right_window_size", 1.0, E::LesserOrEqual)]
    {
        match call.int_or(name, -1) {
            -1 => {}
            // No tensor is longer than this.
            size @ 0.. => windows.push((sign * size.min(1 << 30) as f64, op)),
            size => return Err(Refusal(format!("{name} is {size}, expected -1 or more"))),
        }
    }
    if lengths.is_none() && !is_causal && windows.is_empty() {
        return Ok(false);
    }
    // The positions of the queries among the keys.
    let mut positions = counting(call, past, &[queries, Dim::number(1)])?;
    let columns = columns(call, keys, 2)?;
    if let Some(lengths) = lengths {
        let lengths = call.cast(lengths, DataType::Int32)?;
        let one = Dim::number(1);
        let lengths = call.reshape(lengths, &[batch, one, one, one])?;
        scores.visible.push(call.emit(E::Lesser, &[columns, lengths])?);
        let queries = call.dim_scalar(DataType::Int32, queries)?;
        let first = call.sub(lengths, queries)?;
        positions = call.add(positions, first)?;
    }
    if is_causal {
        scores.visible.push(causal(call, positions, keys)?);
    }
    for &(distance, op) in &windows {
        let bound = call.add_number(positions, distance)?;
        scores.visible.push(call.emit(op, &[columns, bound])?);
    }
    Ok(lengths.is_some() || !windows.is_empty())
}

/// Extends a mask that ends before the last key; it hides the keys that it did not cover.
fn lengthened(call: &mut Call, mask: OperandId, keys: Dim) -> Step<OperandId> {
    let shape = call.shape(mask);
    let Some(&length) = shape.last().filter(|&&length| length < keys) else { return Ok(mask) };
    let value = if call.dtype(mask).is_float() { Number::Float(f64::NEG_INFINITY) } else { Number::Int(0) };
    let (beginning, mut ending) = (vec![Dim::number(0); shape.len()], vec![Dim::number(0); shape.len()]);
    ending[shape.len() - 1] = keys - length;
    call.emit(Pad { beginning, ending, value, ..Default::default() }, &[mask])
}

/// Sets the probabilities of queries that see no key at all to 0.
fn zero_hidden_rows(call: &mut Call, scores: &Scores, attended: &mut Attended) -> Step<()> {
    let Some(visible) = all_of(call, &scores.visible)? else { return Ok(()) };
    let last = call.rank(visible).checked_sub(1).ok_or("attn_mask is a scalar")? as u32;
    let any = call.reduce(ReduceKind::Max, visible, &[last], true)?;
    for x in [&mut attended.output, &mut attended.probabilities] {
        let zero = call.scalar_like(*x, 0.0)?;
        *x = call.select(any, *x, zero)?;
    }
    Ok(())
}

/// The type of the softmax. Double would gain nothing: the result is rounded to the type of the scores.
fn softmax_type(call: &Call) -> Step<Option<DataType>> {
    match call.int_attribute("softmax_precision") {
        None => Ok(None),
        Some(1 | 11) => Ok(Some(DataType::Float32)),
        Some(10) => Ok(Some(DataType::Float16)),
        Some(other) => Err(Refusal(format!("softmax_precision is {other}, expected float, float16 or double"))),
    }
}

// ---- RotaryEmbedding ---------------------------------------------------------------------------------------------

/// The parameters of a rotation of features.
#[derive(Clone, Copy)]
pub struct Rotation {
    /// Cosines, broadcast to the features of `x` that come first in a pair.
    pub cos: OperandId,
    /// Sines of the same shape.
    pub sin: OperandId,
    /// Whether the features of a pair are neighbors; otherwise, they are in different halves.
    pub interleaved: bool,
}

/// Rotates pairs of features in the last dimension of `x`, one per cosine; further features remain unchanged.
pub fn rotated(call: &mut Call, x: OperandId, rotation: Rotation) -> Step<OperandId> {
    let shape = call.shape(x);
    let axis = shape.len() - 1;
    let half = call.shape(rotation.cos).last().copied().unwrap_or_default();
    let width = half * 2;
    if half == 0 || width > shape[axis] {
        return Err(Refusal(format!("{width} of {} features cannot be rotated", shape[axis])));
    }
    let dtype = call.dtype(x);
    if call.has_extensions() && shape.len() == 4 {
        let [cos, sin] = [call.cast(rotation.cos, dtype)?, call.cast(rotation.sin, dtype)?];
        return call.emit(Rotate { interleaved: rotation.interleaved }, &[x, cos, sin]);
    }
    // Rounds sums of float16 products only once.
    let mut wide = |operand: OperandId| call.cast(operand, DataType::Float32);
    let rotation = Rotation { cos: wide(rotation.cos)?, sin: wide(rotation.sin)?, ..rotation };
    let turning = call.slice_axis(x, axis, 0u32, width)?;
    let turning = call.cast(turning, DataType::Float32)?;
    let mut paired = call.shape(turning);
    let [first, second] = if rotation.interleaved {
        paired[axis] = half;
        paired.push(Dim::number(2));
        let pairs = call.reshape(turning, &paired)?;
        [call.pick(pairs, axis + 1, 0)?, call.pick(pairs, axis + 1, 1)?]
    } else {
        [call.slice_axis(turning, axis, 0u32, half)?, call.slice_axis(turning, axis, half, half)?]
    };
    let [a, b] = [call.mul(first, rotation.cos)?, call.mul(second, rotation.sin)?];
    let real = call.sub(a, b)?;
    let real = call.cast(real, dtype)?;
    let [a, b] = [call.mul(first, rotation.sin)?, call.mul(second, rotation.cos)?];
    let imaginary = call.add(a, b)?;
    let imaginary = call.cast(imaginary, dtype)?;
    let mut pieces = if rotation.interleaved {
        let mut flat = shape.clone();
        flat[axis] = width;
        let pairs = call.stack(&[real, imaginary], axis + 1)?;
        vec![call.reshape(pairs, &flat)?]
    } else {
        vec![real, imaginary]
    };
    if width < shape[axis] {
        pieces.push(call.slice_axis(x, axis, width, shape[axis] - width)?);
    }
    call.concat(&pieces, axis as u32)
}

/// Rotates `x` by `cos` and `sin` of shape `[batch or 1, sequence, pairs]`. `x` is `[batch, sequence, heads * size]`
/// with `heads` heads, or `[batch, heads, sequence, size]`.
pub fn rotated_heads(call: &mut Call, x: OperandId, heads: u32, rotation: Rotation) -> Step<OperandId> {
    let shape = call.shape(x);
    let axis = match shape.len() {
        3 => 2,
        4 => 1,
        _ => return Err(Refusal(format!("the input has shape {shape:?}, expected 3 or 4 dimensions"))),
    };
    let mut widened = |operand: OperandId| -> Step<OperandId> {
        let [batch, sequence, pairs] = call.dims(operand, "the cosines")?;
        let one = Dim::number(1);
        let shape = if axis == 2 { [batch, sequence, one, pairs] } else { [batch, one, sequence, pairs] };
        call.reshape(operand, &shape)
    };
    let rotation = Rotation { cos: widened(rotation.cos)?, sin: widened(rotation.sin)?, ..rotation };
    if axis == 1 {
        return rotated(call, x, rotation);
    }
    if heads == 0 || !shape[2].is_multiple_of(heads) {
        return Err(Refusal(format!("{} features cannot be shared equally by {heads} heads", shape[2])));
    }
    let split = call.reshape(x, &[shape[0], shape[1], heads.into(), shape[2] / heads])?;
    let split = rotated(call, split, rotation)?;
    call.reshape(split, &shape)
}

fn rotary_embedding(call: &mut Call) -> Outcome {
    let (x, mut cos, mut sin) = (call.input(0)?, call.input(1)?, call.input(2)?);
    if let Some(positions) = call.optional(3)? {
        cos = call.gather(cos, positions, 0)?;
        sin = call.gather(sin, positions, 0)?;
    }
    let width = count_attribute(call, "rotary_embedding_dim")?;
    if width > 0 {
        for cache in [&mut cos, &mut sin] {
            let [_, _, pairs] = call.dims(*cache, "the cosines")?;
            *cache = call.slice_axis(*cache, 2, 0u32, pairs.min(width / 2))?;
        }
    }
    let heads = count_attribute(call, "num_heads")?;
    let rotation = Rotation { cos, sin, interleaved: call.int_or("interleaved", 0) != 0 };
    let output = rotated_heads(call, x, heads, rotation);
    call.one(output)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] =
    &[standard("Attention", "no softmax in bfloat16", attention), standard("RotaryEmbedding", "", rotary_embedding)];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

    #[test]
    fn shared_heads_are_not_copied() {
        let text = TestGraph::default()
            .input("q", Float, &["1", "4", "2", "8"])
            .input("k", Float, &["1", "2", "3", "8"])
            .input("v", Float, &["1", "2", "3", "8"])
            .input("past", Float, &["1", "2", "0", "8"])
            .input("m", Bool, &["2", "3"])
            .node("Attention", "q k v m past past", "y pk pv", vec![])
            .output("y")
            .output("pk")
            .text(23);
        assert!(text.contains("newShape=[1, 2, 1, 3, 8]"), "{text}");
        assert!(text.contains("where") && !text.contains("concat") && !text.contains("expand"), "{text}");
    }

    #[test]
    fn features_that_heads_cannot_share_are_refused() {
        let message = TestGraph::default()
            .input("x", Float, &["1", "4", "6"])
            .input("c", Float, &["1", "4", "1"])
            .node("RotaryEmbedding", "x c c", "y", vec![("num_heads", Attr::Int(4))])
            .output("y")
            .refusal(23);
        assert!(message.contains("6 features cannot be shared equally by 4 heads"), "{message}");
    }
}
