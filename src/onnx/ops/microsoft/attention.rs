//! Attention operators with as many heads of keys as of queries, and rotary embeddings.

use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::ops::attention::*;
use crate::onnx::ops::microsoft::quantized::dequantized_columns;
use crate::onnx::registry::{Entry, Outcome, microsoft};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::matmul::{Gemm, GemmAttributes};

/// Added to the scores of masked keys, unless `mask_filter_value` overrides it.
const MASK_FILTER_VALUE: f32 = -10_000.0;

/// The sizes of an attention with a past.
#[derive(Clone, Copy)]
struct Sizes {
    batch: Dim,
    queries: Dim,
    /// Number of keys, including the past.
    keys: Dim,
}

/// The bias that expresses the mask at `index`, in any of its forms: `[batch]` ends, `[2 * batch]` ends and starts,
/// `[batch, keys]`, or `[batch, queries, keys]`.
fn mask_bias(call: &mut Call, index: usize, dtype: DataType, sizes: Sizes) -> Step<Option<OperandId>> {
    let Some(mask) = call.optional(index)? else { return Ok(None) };
    let Sizes { batch, queries, keys } = sizes;
    let (shape, one) = (call.shape(mask), Dim::number(1));
    let seen = match shape[..] {
        [ends] if ends == batch => until(call, mask, sizes)?,
        [both] if both == batch * 2 => {
            let (ends, starts) = (call.slice_axis(mask, 0, 0u32, batch)?, call.slice_axis(mask, 0, batch, batch)?);
            let before = until(call, ends, sizes)?;
            let hidden = until(call, starts, sizes)?;
            let after = call.emit(E::LogicalNot, &[hidden])?;
            call.emit(E::LogicalAnd, &[before, after])?
        }
        [b, t] if [b, t] == [batch, keys] => positive(call, mask, &[batch, one, one, keys])?,
        [b, s, t] if [b, s, t] == [batch, queries, keys] => positive(call, mask, &[batch, one, queries, keys])?,
        _ => {
            return Err(Refusal(format!(
                "the mask has shape {shape:?}, expected one of [{batch}], [{}], [{batch}, {keys}], \
                 [{batch}, {queries}, {keys}]",
                batch * 2
            )));
        }
    };
    let zero = call.scalar(dtype, Number::Int(0))?;
    let filter = call.float_or("mask_filter_value", MASK_FILTER_VALUE).max(lowest(dtype));
    let filter = call.scalar(dtype, Number::Float(filter))?;
    call.select(seen, zero, filter).map(Some)
}

/// A mask of the keys before the `ends` of shape `[batch]`.
fn until(call: &mut Call, ends: OperandId, sizes: Sizes) -> Step<OperandId> {
    let (columns, one) = (columns(call, sizes.keys, 4)?, Dim::number(1));
    let ends = call.cast(ends, DataType::Int32)?;
    let ends = call.reshape(ends, &[sizes.batch, one, one, one])?;
    call.emit(E::Lesser, &[columns, ends])
}

fn positive(call: &mut Call, mask: OperandId, shape: &[Dim]) -> Step<OperandId> {
    let zero = call.scalar_like(mask, 0.0)?;
    let seen = call.emit(E::Greater, &[mask, zero])?;
    call.reshape(seen, shape)
}

/// The scores of `q` and `k`, with the mask at `mask`, the bias at `bias` and, if `unidirectional` is set, only the
/// keys up to each query.
fn scores(call: &mut Call, heads: Heads, mask: usize, bias: Option<usize>) -> Step<Scores> {
    let [batch, _, queries, _] = call.dims(heads.q, "the query")?;
    let [_, _, keys, _] = call.dims(heads.k, "the key")?;
    let mut scores = Scores { scale: scale(call, heads.q), ..Default::default() };
    let dtype = call.dtype(heads.q);
    scores.biases.extend(mask_bias(call, mask, dtype, Sizes { batch, queries, keys })?);
    if let Some(bias) = bias {
        scores.biases.extend(call.optional(bias)?);
    }
    if call.int_or("unidirectional", 0) != 0 && queries > 1 {
        let positions = counting(call, keys - queries, &[queries, Dim::number(1)])?;
        scores.visible.push(causal(call, positions, keys)?);
    }
    Ok(scores)
}

// ---- Attention ---------------------------------------------------------------------------------------------------

/// Projects an input `[batch, sequence, features]` to queries, keys and values by one matrix.
fn projected(call: &mut Call, x: OperandId, weights: OperandId, bias: Option<OperandId>) -> Step<[OperandId; 3]> {
    let [batch, sequence, features] = call.dims(x, "the input")?;
    let [_, columns] = call.dims(weights, "the weights")?;
    let sizes: Vec<u32> = match call.ints_attribute("qkv_hidden_sizes") {
        Some(sizes) => sizes.iter().map(|&size| u32::try_from(size).unwrap_or(0)).collect(),
        None => vec![columns.get() / 3; 3],
    };
    if sizes.len() != 3 || sizes.contains(&0) || columns != sizes.iter().map(Dim::from).sum::<Dim>() {
        return Err(Refusal(format!("queries, keys and values of sizes {sizes:?} are not the {columns} weights")));
    }
    let rows = call.reshape(x, &[batch * sequence, features])?;
    let product =
        call.emit_all(Gemm { attributes: GemmAttributes::default() }, vec![Some(rows), Some(weights), bias])?;
    let all = call.reshape(product[0], &[batch, sequence, columns])?;
    let split = call.split(all, &sizes, 2)?;
    Ok([split[0], split[1], split[2]])
}

/// Emits `present`, `[2, batch, heads, keys, size]`, and an attention over it; the input `past` may have no elements.
fn self_attention(
    call: &mut Call,
    [q, k, v]: [OperandId; 3],
    mask: usize,
    past: usize,
    bias: Option<usize>,
) -> Outcome {
    let heads = count_attribute(call, "num_heads")?;
    let q = split_heads(call, q, heads, "the query")?;
    let mut k = split_heads(call, k, heads, "the key")?;
    let mut v = split_heads(call, v, heads, "the value")?;
    if call.value(past).is_some() && call.input_shape(past)?.iter().all(|&size| size != 0) {
        let past = call.input(past)?;
        let [_, _, _, _, _] = call.dims(past, "past")?;
        let (past_k, past_v) = (call.pick(past, 0, 0)?, call.pick(past, 0, 1)?);
        k = call.concat(&[past_k, k], 2)?;
        v = call.concat(&[past_v, v], 2)?;
    }
    let heads = Heads { q, k, v };
    let scores = scores(call, heads, mask, bias)?;
    let attended = attend(call, heads, &scores)?;
    let output = Value::Tensor(merge_heads(call, attended.output)?);
    if !call.wants(1) {
        return Ok(vec![output]);
    }
    let present = call.stack(&[k, v], 0)?;
    Ok(vec![output, Value::Tensor(present)])
}

/// Refuses attributes that no CPU kernel supports.
fn refuse_set(call: &Call, names: &[&str]) -> Step<()> {
    match names.iter().find(|name| call.int_or(name, 0) != 0) {
        Some(name) => Err(Refusal(format!("{name} is set, which onnxruntime does not support on CPUs"))),
        None => Ok(()),
    }
}

fn attention(call: &mut Call) -> Outcome {
    refuse_set(call, &["do_rotary", "past_present_share_buffer"])?;
    let (x, weights, bias) = (call.input(0)?, call.input(1)?, call.optional(2)?);
    let projected = projected(call, x, weights, bias)?;
    self_attention(call, projected, 3, 4, Some(5))
}

fn q_attention(call: &mut Call) -> Outcome {
    refuse_set(call, &["do_rotary", "past_present_share_buffer"])?;
    let x = dequantized_columns(call, 0, 3, 6)?;
    let weights = dequantized_columns(call, 1, 4, 7)?;
    let bias = call.optional(2)?;
    let projected = projected(call, x, weights, bias)?;
    self_attention(call, projected, 5, 8, None)
}

// ---- MultiHeadAttention ------------------------------------------------------------------------------------------

/// Adds the bias of a projection's features, of the input at `index`: `size` elements of it, from `start` on.
fn with_bias(call: &mut Call, x: OperandId, index: usize, [start, size]: [Dim; 2]) -> Step<OperandId> {
    let Some(bias) = call.optional(index)? else { return Ok(x) };
    let [all] = call.dims(bias, "bias")?;
    if start + size > all {
        return Err(Refusal(format!("bias has {}, expected at least {}", amount(all, "element"), start + size)));
    }
    let bias = call.slice_axis(bias, 0, start, size)?;
    call.add(x, bias)
}

/// One of the tensors packed along dimension 3 of `[batch, sequence, heads, count, size]`.
fn unpacked(call: &mut Call, packed: OperandId, at: u32) -> Step<OperandId> {
    let [batch, sequence, heads, _, size] = call.dims(packed, "packed heads")?;
    let one = call.pick(packed, 3, at)?;
    call.reshape(one, &[batch, sequence, heads * size])
}

/// Queries, keys and values as heads, from any of the input forms, with the bias at `bias`.
fn multi_heads(call: &mut Call, bias: usize) -> Step<Heads> {
    let n = count_attribute(call, "num_heads")?;
    let query = call.input(0)?;
    let flat = match (call.optional(1)?, call.optional(2)?) {
        (None, None) if call.rank(query) == 5 => {
            [unpacked(call, query, 0)?, unpacked(call, query, 1)?, unpacked(call, query, 2)?]
        }
        (Some(packed), None) => [query, unpacked(call, packed, 0)?, unpacked(call, packed, 1)?],
        (Some(key), Some(value)) => [query, key, value],
        _ => return Err("the key is missing".into()),
    };
    let hidden = call.shape(flat[0]).last().copied().unwrap_or_default();
    let q = with_bias(call, flat[0], bias, [Dim::ZERO, hidden])?;
    let q = split_heads(call, q, n, "the query")?;
    if call.rank(flat[1]) == 4 {
        // The outputs of an encoder are already projected.
        return Ok(Heads { q, k: flat[1], v: flat[2] });
    }
    let value_hidden = call.shape(flat[2]).last().copied().unwrap_or_default();
    let k = with_bias(call, flat[1], bias, [hidden, hidden])?;
    let v = with_bias(call, flat[2], bias, [hidden * 2, value_hidden])?;
    Ok(Heads { q, k: split_heads(call, k, n, "the key")?, v: split_heads(call, v, n, "the value")? })
}

fn multi_head_attention(call: &mut Call) -> Outcome {
    if call.value(9).is_some() {
        return Err("cache_indirection is given, expected a decoder without beams".into());
    }
    let mut heads = multi_heads(call, 3)?;
    let scores = if call.value(8).is_some() {
        if call.wants(3) {
            return Err("qk is an output, whose length depends on past_sequence_length".into());
        }
        let is_causal = call.int_or("unidirectional", 0) != 0;
        let visible = write_tokens(call, &mut heads, [6, 7, 8], is_causal)?;
        buffer_scores(call, heads, Some(visible), [4, 5])?
    } else {
        heads = Heads { k: appended(call, 6, heads.k)?, v: appended(call, 7, heads.v)?, ..heads };
        scores(call, heads, 4, Some(5))?
    };
    let attended = attend(call, heads, &scores)?;
    let output = merge_heads(call, attended.output)?;
    Ok([output, heads.k, heads.v, attended.probabilities].map(Value::Tensor).to_vec())
}

// ---- Buffers of keys and values ----------------------------------------------------------------------------------

/// Replaces the new keys and values in `heads` by the buffers at the first two of the given inputs, into which they are
/// written from the place at the third one on; places behind the end write nothing. Returns which keys are seen: those
/// up to the last new one, or, if the attention is causal, up to the query.
fn write_tokens(call: &mut Call, heads: &mut Heads, inputs: [usize; 3], is_causal: bool) -> Step<OperandId> {
    let [key, value, length] = inputs;
    let (keys, one) = (state_length(call, key)?, Dim::ONE);
    let [_, _, count, _] = call.dims(heads.k, "the key")?;
    let place = call.input(length)?;
    let place = call.cast(place, DataType::Int32)?;
    let place = call.to_scalar(place)?;
    let places = columns(call, keys, 4)?;
    let offsets = call.sub(places, place)?;
    for (index, new) in [(key, &mut heads.k), (value, &mut heads.v)] {
        *new = written(call, index, *new, offsets)?;
    }
    let last = call.dim_scalar(DataType::Int32, count - 1)?;
    let seen = if is_causal { counting(call, Dim::ZERO, &[one, one, count, one])? } else { last };
    call.emit(E::LesserOrEqual, &[offsets, seen])
}

/// The buffer at `index` with the tokens `new`; `offsets` are the places of the buffer, counted from the first new
/// token.
fn written(call: &mut Call, index: usize, new: OperandId, offsets: OperandId) -> Step<OperandId> {
    let buffer = call.input(index)?;
    let (shape, heads) = (call.shape(buffer), call.shape(new));
    if shape.len() != 4 || [shape[0], shape[1], shape[3]] != [heads[0], heads[1], heads[3]] {
        let [batch, heads, _, size] = heads[..] else { unreachable!("heads have four dimensions") };
        return Err(Refusal(format!("input {index} has shape {shape:?}, expected [{batch}, {heads}, .., {size}]")));
    }
    let (first, last) = (call.int_scalar(DataType::Int32, 0)?, call.dim_scalar(DataType::Int32, heads[2] - 1)?);
    let (is_behind, is_before) =
        (call.emit(E::GreaterOrEqual, &[offsets, first])?, call.emit(E::LesserOrEqual, &[offsets, last])?);
    let is_new = call.emit(E::LogicalAnd, &[is_behind, is_before])?;
    let is_new = call.reshape(is_new, &[Dim::ONE, Dim::ONE, shape[2], Dim::ONE])?;
    let mut tokens = new;
    if heads[2] != 1 {
        let sources = call.emit(E::Max, &[offsets, first])?;
        let sources = call.emit(E::Min, &[sources, last])?;
        let sources = call.reshape(sources, &[shape[2]])?;
        tokens = call.gather(new, sources, 2)?;
    }
    call.select(is_new, tokens, buffer)
}

/// Scores of all keys of a buffer, of which only the first ones may have a mask and a bias, at the given inputs.
fn buffer_scores(call: &mut Call, heads: Heads, visible: Option<OperandId>, [mask, bias]: [usize; 2]) -> Step<Scores> {
    let [batch, _, queries, _] = call.dims(heads.q, "the query")?;
    let [_, _, keys, _] = call.dims(heads.k, "the key")?;
    for index in [mask, bias] {
        let Some(operand) = call.optional(index)? else { continue };
        let shape = call.shape(operand);
        if let [_, .., length] = shape[..]
            && length < keys
        {
            let padded = call.pad_axis(operand, shape.len() - 1, [Dim::ZERO, keys - length])?;
            call.replace(index, padded);
        }
    }
    let mut scores = Scores { scale: scale(call, heads.q), ..Default::default() };
    scores.visible.extend(visible);
    let dtype = call.dtype(heads.q);
    scores.biases.extend(mask_bias(call, mask, dtype, Sizes { batch, queries, keys })?);
    scores.biases.extend(call.optional(bias)?);
    Ok(scores)
}

// ---- DecoderMaskedMultiHeadAttention -----------------------------------------------------------------------------

/// Attention of one token, to encoder states or to a buffer in which the token gets the place after the past.
fn decoder_masked_attention(call: &mut Call) -> Outcome {
    for (index, name) in [(8, "beam_width"), (9, "cache_indirection")] {
        if call.value(index).is_some() {
            return Err(Refusal(format!("{name} is given, expected a decoder without beams")));
        }
    }
    if call.int_or("output_qk", 0) != 0 && call.value(5).is_some() {
        return Err("output_qk is set for a shared buffer, of which scores have another length".into());
    }
    let mut heads = multi_heads(call, 10)?;
    let [_, _, queries, _] = call.dims(heads.q, "the query")?;
    if queries != 1 {
        return Err(Refusal(format!("there are {queries} tokens, expected one")));
    }
    let mut visible = None;
    if call.value(5).is_some() {
        if call.int_or("past_present_share_buffer", 0) == 0 || call.value(7).is_none() {
            return Err("past_key is given without a shared buffer and past_sequence_length".into());
        }
        visible = Some(write_tokens(call, &mut heads, [5, 6, 7], false)?);
    }
    let scores = buffer_scores(call, heads, visible, [3, 4])?;
    let attended = attend(call, heads, &scores)?;
    let output = merge_heads(call, attended.output)?;
    Ok([output, heads.k, heads.v, attended.masked].map(Value::Tensor).to_vec())
}

// ---- RotaryEmbedding ---------------------------------------------------------------------------------------------

fn rotary_embedding(call: &mut Call) -> Outcome {
    let (x, mut positions) = (call.input(0)?, call.input(1)?);
    let (cos, sin) = (call.input(2)?, call.input(3)?);
    let shape = call.shape(x);
    let sequence = match shape[..] {
        [_, sequence, _] | [_, _, sequence, _] => sequence,
        _ => return Err(Refusal(format!("the input has shape {shape:?}, expected 3 or 4 dimensions"))),
    };
    if call.rank(positions) < 2 {
        // The position of the first token.
        let first = call.cast(positions, DataType::Int32)?;
        let first = call.reshape(first, &[1u32, 1])?;
        let steps = columns(call, sequence, 2)?;
        positions = call.add(first, steps)?;
    }
    let [cos, sin] = [call.gather(cos, positions, 0)?, call.gather(sin, positions, 0)?];
    turned(call, x, [cos, sin])
}

/// Rotates the heads of `x` by cosines and sines `[batch, sequence, pairs]`.
fn turned(call: &mut Call, x: OperandId, [cos, sin]: [OperandId; 2]) -> Outcome {
    if call.float_or("scale", 1.0) != 1.0 {
        return Err("scale is not 1".into());
    }
    let heads = match count_attribute(call, "num_heads")? {
        // 0 means that whole heads are rotated.
        0 => {
            let [_, _, pairs] = call.dims(cos, "the cosines")?;
            let features = call.shape(x).last().copied().unwrap_or_default();
            (features / (pairs * 2)).get()
        }
        heads => heads,
    };
    let rotation = Rotation { cos, sin, interleaved: call.int_or("interleaved", 0) != 0 };
    let output = rotated_heads(call, x, heads, rotation);
    call.one(output)
}

/// Of the position's three coordinates, the one that turns each pair: in `sections`, or in turns up to the ends of the
/// second and third section.
fn coordinates(call: &Call, pairs: u32) -> Step<Vec<u8>> {
    let sections = call.ints_attribute("mrope_section").unwrap_or_default();
    let counts: Vec<u32> = sections.iter().filter_map(|&count| u32::try_from(count).ok()).collect();
    let sum: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let &[time, height, width] = &counts[..] else {
        return Err(Refusal(format!("mrope_section is {sections:?}, expected three numbers that are not negative")));
    };
    if sections.len() != 3 || sum != u64::from(pairs) {
        return Err(Refusal(format!("mrope_section is {sections:?}, expected a sum of {pairs}, the number of pairs")));
    }
    let place = |pair: u32| match call.int_or("mrope_layout", 0) {
        0 => Ok(u8::from(pair >= time) + u8::from(pair >= time + height)),
        1 if pair % 3 == 1 && pair / 3 < height => Ok(1),
        1 if pair % 3 == 2 && pair / 3 < width => Ok(2),
        1 => Ok(0),
        other => Err(Refusal(format!("mrope_layout is {other}, expected 0 or 1"))),
    };
    (0..pairs).map(place).collect()
}

/// Positions have three coordinates, each of which turns some of the pairs.
fn multimodal_rotary_embedding(call: &mut Call) -> Outcome {
    let (x, positions) = (call.input(0)?, call.input(1)?);
    let shape = call.shape(positions);
    if shape.len() != 3 || shape[0] != 3 {
        return Err(Refusal(format!("position_ids has shape {shape:?}, expected [3, batch, sequence]")));
    }
    let [_, pairs] = call.dims(call.input(2)?, "the cosines")?;
    let pairs = pairs.get();
    let coordinates = coordinates(call, pairs)?;
    let mut masks = Vec::new();
    for coordinate in [1, 2] {
        let is_set = coordinates.iter().map(|&own| f64::from(own == coordinate));
        masks.push(call.constant(DataType::Uint8, &[pairs], is_set)?);
    }
    let mut tables = [call.input(2)?, call.input(3)?];
    for table in &mut tables {
        let all = call.gather(*table, positions, 0)?;
        let [time, height, width] = [call.pick(all, 0, 0)?, call.pick(all, 0, 1)?, call.pick(all, 0, 2)?];
        let chosen = call.select(masks[0], height, time)?;
        *table = call.select(masks[1], width, chosen)?;
    }
    turned(call, x, tables)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    microsoft("Attention", "no do_rotary, no shared buffers", attention),
    microsoft(
        "DecoderMaskedMultiHeadAttention",
        "no beams, output_qk only of encoder states",
        decoder_masked_attention,
    ),
    microsoft("MRotaryEmbedding", "no scale", multimodal_rotary_embedding),
    microsoft("MultiHeadAttention", "no beams, no masks of shape [3 * batch + 2]", multi_head_attention),
    microsoft("QAttention", "no do_rotary, no shared buffers", q_attention),
    microsoft("RotaryEmbedding", "no scale", rotary_embedding),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

    #[test]
    fn masks_of_other_shapes_are_refused() {
        let message = TestGraph::default()
            .input("q", Float, &["2", "3", "8"])
            .input("m", Int32, &["2", "4"])
            .node("com.microsoft.MultiHeadAttention", "q q q _ m", "y", vec![("num_heads", Attr::Int(2))])
            .output("y")
            .refusal(17);
        assert!(
            message.contains("the mask has shape [2, 4], expected one of [2], [4], [2, 3], [2, 3, 3]"),
            "{message}"
        );
    }

    #[test]
    fn sections_of_pairs_are_all_pairs() {
        let graph = |sections: &'static [i64], layout: i64| {
            let graph = TestGraph::default().input("x", Float, &["1", "2", "16"]).input("p", Int64, &["3", "1", "2"]);
            let graph = graph.floats("c", &[4, 8], &[0.5; 32]);
            let attributes = vec![("mrope_section", Attr::Ints(sections)), ("mrope_layout", Attr::Int(layout))];
            graph.node("com.microsoft.MRotaryEmbedding", "x p c c", "y", attributes).output("y")
        };
        let text = graph(&[4, 2, 2], 0).text(17);
        assert_eq!((text.matches("= where ").count(), text.matches("= rotate ").count()), (4, 1), "{text}");
        let message = graph(&[3, 3, 3], 1).refusal(17);
        assert!(message.contains("mrope_section is [3, 3, 3], expected a sum of 8, the number of pairs"), "{message}");
        assert!(graph(&[8], 0).refusal(17).contains("expected three numbers that are not negative"));
        assert!(graph(&[4, 2, 2], 2).refusal(17).contains("mrope_layout is 2, expected 0 or 1"));
    }

    fn decoder(inputs: &str, shares: i64) -> TestGraph {
        let graph =
            TestGraph::default().input("q", Float, &["2", "1", "8"]).input("past", Float, &["2", "2", "5", "4"]);
        let graph = graph.input("n", Int32, &["1"]).input("states", Float, &["2", "2", "3", "4"]);
        let attributes = vec![("num_heads", Attr::Int(2)), ("past_present_share_buffer", Attr::Int(shares))];
        let graph = graph.node("com.microsoft.DecoderMaskedMultiHeadAttention", inputs, "y k v", attributes);
        graph.output("y")
    }

    #[test]
    fn a_token_gets_the_place_after_the_past() {
        let text = decoder("q q q _ _ past past n", 1).output("k").text(17);
        assert!(text.contains("= where ") && text.contains("= lesserOrEqual ") && !text.contains("concat"), "{text}");
        assert!(!decoder("q states states", 0).text(17).contains("where"));
        let message = decoder("q q q _ _ past past", 0).refusal(17);
        assert!(message.contains("without a shared buffer and past_sequence_length"), "{message}");
        let message = decoder("q q q _ _ past past n n", 1).refusal(17);
        assert!(message.contains("beam_width is given, expected a decoder without beams"), "{message}");
    }
}
