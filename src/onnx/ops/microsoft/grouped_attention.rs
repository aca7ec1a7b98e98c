//! `GroupQueryAttention`: causal attention of a decoder with a growing or fixed cache. Several heads of queries share a
//! head of keys; rotary embeddings are included.

use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::ops::attention::*;
use crate::onnx::ops::normalization::rms_norm;
use crate::onnx::registry::{Entry, Outcome, microsoft};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::gather::GatherNd;

/// Sizes of a cache, and the places of its new tokens.
struct CacheSizes {
    batch: Dim,
    /// Number of new tokens.
    sequence: Dim,
    /// Length of the input state.
    past: Dim,
    /// Number of tokens in the longest row, including the new ones.
    total: Dim,
    /// Length of the output state.
    present: Dim,
    /// Position of the first new token, `int32 [batch, 1]`.
    start: OperandId,
    /// Number of valid keys per row, `int32 [batch, 1]`, unless all keys up to the last new one are valid.
    lengths: Option<OperandId>,
    /// Whether the new tokens follow the whole past in every row of the batch.
    is_growing: bool,
}

/// A refusal that depends on sizes.
fn of_sizes(reason: String) -> Refusal {
    Refusal { depends_on_sizes: true, ..Refusal(reason) }
}

/// `total_sequence_length`: exported models derive it from shapes. Without a past, it is the number of tokens.
fn total_length(call: &Call, sequence: Dim, past: Dim) -> Step<Dim> {
    match call.value(6).filter(|_| call.is_known(6)) {
        None if past == 0 => Ok(sequence),
        _ => {
            let most = past + sequence;
            match call.one_dim(6).map_or_else(|| call.one_int(6, "total_sequence_length").map(Dim::number), Ok)? {
                total if total >= sequence && total <= most => Ok(total),
                total => {
                    let expected = format!("expected between {sequence} and {most}");
                    Err(of_sizes(format!("total_sequence_length is {total}, {expected}")))
                }
            }
        }
    }
}

fn cache(call: &mut Call, batch: Dim, sequence: Dim) -> Step<CacheSizes> {
    let past = state_length(call, 3)?;
    if state_length(call, 4)? != past {
        return Err(of_sizes("past_key and past_value differ in length".into()));
    }
    let total = total_length(call, sequence, past)?;
    let is_prompt = total == sequence;
    let lengths = if let Some(Value::Tensor(id)) = call.value(5) { call.dims_of(id) } else { None };
    let all_full = lengths.is_some_and(|all| all.iter().all(|&last| last == total - 1));
    // `total_sequence_length` is the length of the longest row, and hence that of a single row.
    let is_growing = total == past + sequence && (batch == 1 || is_prompt || all_full);
    let is_ragged = batch > 1 && !all_full;
    let lengths = if is_ragged || !(is_prompt || is_growing) { Some(row_lengths(call, batch)?) } else { None };
    let start = match lengths {
        Some(lengths) if !is_prompt => {
            let new = call.dim_scalar(DataType::Int32, sequence)?;
            call.sub(lengths, new)?
        }
        _ => counting(call, total - sequence, &[Dim::ONE, Dim::ONE])?,
    };
    // Only rows of a prompt can be longer than their valid part.
    let lengths = lengths.filter(|_| is_prompt);
    Ok(CacheSizes { batch, sequence, past, total, present: total.max(past), start, lengths, is_growing })
}

/// The number of tokens per row, `int32 [batch, 1]`: `seqlens_k` is one less.
fn row_lengths(call: &mut Call, batch: Dim) -> Step<OperandId> {
    let last = call.input(5)?;
    let last = call.cast(last, DataType::Int32)?;
    let last = call.reshape(last, &[batch, Dim::ONE])?;
    let one = call.int_scalar(DataType::Int32, 1)?;
    call.add(last, one)
}

/// Positions of the new tokens: `int32 [batch or 1, sequence]`.
fn positions(call: &mut Call, cache: &CacheSizes) -> Step<OperandId> {
    let steps = columns(call, cache.sequence, 2)?;
    call.add(cache.start, steps)
}

/// Queries, keys and values as `[batch, sequence, heads * size]`, possibly unpacked from one tensor.
fn projections(call: &mut Call, heads: u32, shared: u32) -> Step<[OperandId; 3]> {
    let query = call.input(0)?;
    if call.value(1).is_some() {
        return Ok([query, call.input(1)?, call.input(2)?]);
    }
    let [_, _, features] = call.dims(query, "the query")?;
    let all = Dim::from(heads) + Dim::from(shared) * 2;
    if all == 0 || !features.is_multiple_of(all) {
        return Err(Refusal(format!("{features} packed features cannot be shared by {all} heads")));
    }
    let size = features / all;
    let split = call.split(query, &[size * heads, size * shared, size * shared], 2)?;
    Ok([split[0], split[1], split[2]])
}

/// The state at `index` with the new heads `[batch, heads, sequence, size]` inserted.
fn updated(call: &mut Call, index: usize, new: OperandId, cache: &CacheSizes) -> Step<OperandId> {
    if cache.is_growing {
        return appended(call, index, new);
    }
    let [batch, heads, _, size] = call.dims(new, "new heads")?;
    let zeros = call.scalar_like(new, 0.0)?;
    let zeros = call.expand(zeros, &[batch, heads, Dim::ONE, size])?;
    let all = call.concat(&[new, zeros], 2)?;
    let all = appended(call, index, all)?;
    // Place `t` of a row holds its past up to `start`, the new tokens from there on, then zeros.
    let places = columns(call, cache.present, 2)?;
    let offset = call.sub(places, cache.start)?;
    let past = call.dim_scalar(DataType::Int32, cache.past)?;
    let from_new = call.add(offset, past)?;
    let zero = call.int_scalar(DataType::Int32, 0)?;
    let is_new = call.emit(E::GreaterOrEqual, &[offset, zero])?;
    let last = call.dim_scalar(DataType::Int32, cache.past + cache.sequence)?;
    let from_new = call.emit(E::Min, &[from_new, last])?;
    let source = call.select(is_new, from_new, places)?;
    if call.shape(source)[0] == 1 {
        let source = call.reshape(source, &[cache.present])?;
        return call.gather(all, source, 2);
    }
    let rows = counting(call, Dim::ZERO, &[cache.batch, Dim::ONE, Dim::ONE])?;
    let rows = call.expand(rows, &[cache.batch, cache.present, Dim::ONE])?;
    let source = call.reshape(source, &[cache.batch, cache.present, Dim::ONE])?;
    let coordinates = call.concat(&[rows, source], 2)?;
    let by_place = call.transpose(all, &[0, 2, 1, 3])?;
    let picked = call.emit(GatherNd, &[by_place, coordinates])?;
    call.transpose(picked, &[0, 2, 1, 3])
}

/// Rotates queries and keys by the given positions, or by those of the tokens.
fn rotary(call: &mut Call, heads: [(OperandId, u32); 2], tokens: OperandId, total: Dim) -> Step<[OperandId; 2]> {
    let (cos, sin) = (call.input(7)?, call.input(8)?);
    let given = call.optional(9)?;
    for (name, table) in [("cos_cache", cos), ("sin_cache", sin)] {
        let length = call.shape(table).first().copied().unwrap_or_default();
        if given.is_none() && total > length {
            return Err(of_sizes(format!("total_sequence_length is {total}, expected at most the {length} of {name}")));
        }
    }
    let positions = given.unwrap_or(tokens);
    let [cos, sin] = [call.gather(cos, positions, 0)?, call.gather(sin, positions, 0)?];
    let rotation = Rotation { cos, sin, interleaved: call.int_or("rotary_interleaved", 0) != 0 };
    let [(q, n), (k, shared)] = heads;
    Ok([rotated_heads(call, q, n, rotation)?, rotated_heads(call, k, shared, rotation)?])
}

/// A mask of the keys that each query sees: those up to its own position; with a window, only the last of these.
fn visible(call: &mut Call, cache: &CacheSizes, positions: OperandId) -> Step<Vec<OperandId>> {
    let rows = call.shape(positions)[0];
    let window = call.int_or("local_window_size", -1);
    let positions = call.reshape(positions, &[rows, Dim::ONE, cache.sequence, Dim::ONE])?;
    let mut masks = Vec::new();
    let is_windowed = window >= 0 && cache.present > Dim::number(window);
    if let Some(lengths) = cache.lengths {
        let ends = call.reshape(lengths, &[cache.batch, Dim::ONE, Dim::ONE, Dim::ONE])?;
        let columns = columns(call, cache.present, 2)?;
        masks.push(call.emit(E::Lesser, &[columns, ends])?);
    }
    let is_causal = call.int_or("causal", 1) != 0;
    if !is_causal && window >= 0 {
        return Err("local_window_size is given for attention that is not causal".into());
    }
    // The last query sees everything if no keys follow it.
    if !(cache.is_growing && (cache.sequence == 1 || !is_causal)) {
        let last = cache.sequence - 1;
        let seen = if is_causal { positions } else { call.slice_axis(positions, 2, last, 1u32)? };
        masks.push(causal(call, seen, cache.present)?);
    }
    if is_windowed {
        let window = call.int_scalar(DataType::Int32, window)?;
        let before = call.sub(positions, window)?;
        let columns = columns(call, cache.present, 2)?;
        masks.push(call.emit(E::Greater, &[columns, before])?);
    }
    Ok(masks)
}

/// The scores that belong to no key: one per head, or 0 for all.
fn sink(call: &mut Call, heads: u32, like: OperandId) -> Step<Option<OperandId>> {
    if let Some(sink) = call.optional(11)? {
        return call.reshape(sink, &[1, heads, 1, 1]).map(Some);
    }
    if call.int_or("smooth_softmax", -1) != 1 {
        return Ok(None);
    }
    let zero = call.scalar_like(like, 0.0)?;
    call.reshape(zero, &[1, 1, 1, 1]).map(Some)
}

/// Replaces hidden scores by 0, for the output.
fn shown(call: &mut Call, scores: OperandId, visible: &[OperandId]) -> Step<OperandId> {
    let mut shown = scores;
    for &mask in visible {
        let zero = call.scalar_like(shown, 0.0)?;
        shown = call.select(mask, shown, zero)?;
    }
    Ok(shown)
}

/// Refuses attributes that only other devices support.
fn check_supported(call: &Call) -> Step<()> {
    for name in ["k_quant_type", "v_quant_type"] {
        let value = call.text_or(name, "NONE");
        if value != "NONE" {
            return Err(Refusal(format!("{name} is {value}, expected a cache that is not quantized")));
        }
    }
    if call.int_or("sliding_window_cache", 0) != 0 {
        return Err("sliding_window_cache is set, expected a cache of the whole sequence".into());
    }
    Ok(())
}

/// `x`, whose `heads` are normalized by their root mean squares and scaled by the input at `index`, if it is given.
fn normalized(call: &mut Call, x: OperandId, heads: u32, index: usize) -> Step<OperandId> {
    let Some(scale) = call.optional(index)? else { return Ok(x) };
    let shape = call.shape(x);
    let [batch, sequence, features] = call.dims(x, "heads to normalize")?;
    if heads == 0 || features != call.shape(scale).iter().copied().product::<Dim>() * heads {
        let got = call.shape(scale);
        return Err(Refusal(format!("input {index} has shape {got:?}, expected one element per feature of a head")));
    }
    let split = call.reshape(x, &[batch, sequence, heads.into(), features / heads])?;
    let [normal, _] = rms_norm(call, split, scale, &[3], call.float_or("qk_norm_epsilon", 1e-6))?;
    call.reshape(normal, &shape)
}

fn group_query_attention(call: &mut Call) -> Outcome {
    check_supported(call)?;
    let (n, shared) = (count_attribute(call, "num_heads")?, count_attribute(call, "kv_num_heads")?);
    let [mut q, mut k, v] = projections(call, n, shared)?;
    let [batch, sequence, _] = call.dims(q, "the query")?;
    if call.value(14).is_some() != call.value(15).is_some() {
        return Err("only one of q_norm_weight and k_norm_weight is given".into());
    }
    (q, k) = (normalized(call, q, n, 14)?, normalized(call, k, shared, 15)?);
    let cache = cache(call, batch, sequence)?;
    let positions = positions(call, &cache)?;
    if call.int_or("do_rotary", 0) != 0 {
        [q, k] = rotary(call, [(q, n), (k, shared)], positions, cache.total)?;
    }
    let q = split_heads(call, q, n, "the query")?;
    let k = split_heads(call, k, shared, "the key")?;
    let v = split_heads(call, v, shared, "the value")?;
    let heads = Heads { q, k: updated(call, 3, k, &cache)?, v: updated(call, 4, v, &cache)? };
    let mut scores = Scores {
        scale: scale(call, q),
        softcap: call.float_or("softcap", 0.0),
        visible: visible(call, &cache, positions)?,
        sink: sink(call, n, q)?,
        ..Default::default()
    };
    scores.biases.extend(call.optional(10)?);
    let attended = attend(call, heads, &scores)?;
    let output = merge_heads(call, attended.output)?;
    let stage = match call.int_or("qk_output", 0) {
        1 => shown(call, attended.masked, &scores.visible)?,
        _ => attended.probabilities,
    };
    Ok([output, heads.k, heads.v, stage].map(Value::Tensor).to_vec())
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[microsoft(
    "GroupQueryAttention",
    "total_sequence_length must be known, from shapes or as a constant; no quantized or sliding cache",
    group_query_attention,
)];

#[cfg(test)]
mod tests {
    use crate::dtype::DataType;
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;
    use crate::shape::Descriptor;
    use crate::testing::Random;
    use std::collections::HashMap;

    fn graph(batch: &str, total: i32) -> TestGraph {
        TestGraph::default()
            .input("q", Float, &[batch, "1", "16"])
            .input("k", Float, &[batch, "1", "8"])
            .input("past", Float, &[batch, "2", "5", "4"])
            .input("last", Int32, &[batch])
            .raw("total", Int32, &[], &total.to_le_bytes())
            .node(
                "com.microsoft.GroupQueryAttention",
                "q k k past past last total",
                "y pk pv",
                vec![("num_heads", Attr::Int(4)), ("kv_num_heads", Attr::Int(2))],
            )
            .output("y")
            .output("pk")
    }

    #[test]
    fn a_cache_grows_or_is_written_in_place() {
        let text = graph("1", 6).text(17);
        assert!(text.contains("concat") && !text.contains("gather"), "{text}");
        assert!(graph("1", 5).text(17).contains("gather "), "one row of places");
        assert!(graph("2", 6).text(17).contains("gatherND"), "each row has its own places");
    }

    #[test]
    fn queries_and_keys_are_normalized_before_their_rotation() {
        let normal = |graph: TestGraph, name: &str, heads: &[i64], flat: &[i64]| {
            let name = |suffix: &str| format!("{name}{suffix}");
            let epsilon = vec![("epsilon", Attr::Float(1e-6))];
            graph
                .ints(&name("_heads"), heads)
                .ints(&name("_flat"), flat)
                .node("Reshape", &format!("{} {}", name(""), name("_heads")), &name("1"), vec![])
                .node("SimplifiedLayerNormalization", &format!("{} g", name("1")), &name("2"), epsilon)
                .node("Reshape", &format!("{} {}", name("2"), name("_flat")), &name("3"), vec![])
        };
        let graph = |heads: &str, norms: &str| {
            let graph = TestGraph::default().input("q", Float, &["1", "3", "16"]).input("k", Float, &["1", "3", "8"]);
            let graph = graph.floats("cos", &[8, 2], &[0.5; 16]).floats("sin", &[8, 2], &[0.25; 16]);
            let graph = graph.floats("g", &[4], &[0.5, 1.0, 2.0, 1.5]).floats("odd", &[3], &[1.0; 3]);
            let graph =
                graph.raw("last", Int32, &[1], &2i32.to_le_bytes()).raw("total", Int32, &[], &3i32.to_le_bytes());
            let graph = normal(graph, "q", &[1, 3, 4, 4], &[1, 3, 16]);
            let graph = normal(graph, "k", &[1, 3, 2, 4], &[1, 3, 8]);
            let sizes = vec![("num_heads", Attr::Int(4)), ("kv_num_heads", Attr::Int(2)), ("do_rotary", Attr::Int(1))];
            let inputs = format!("{heads} k _ _ last total cos sin _ _ _ _ _ {norms}");
            graph.node("com.microsoft.GroupQueryAttention", &inputs, "y pk pv", sizes).output("y").output("pk")
        };
        let mut random = Random::new(1);
        let inputs: HashMap<_, _> = [("q", [1, 3, 16]), ("k", [1, 3, 8])]
            .map(|(name, shape)| (name.to_string(), random.tensor(&Descriptor::new(DataType::Float32, shape))))
            .into();
        let [fused, apart] = [("q k", "g g"), ("q3 k3", "_ _")].map(|(heads, norms)| {
            crate::reference::run(&graph(heads, norms).import(17, &Default::default()).unwrap(), &inputs)
        });
        for name in ["y", "pk"] {
            let pairs = fused[name].floats().iter().zip(apart[name].floats());
            assert!(pairs.clone().all(|(fused, apart)| (fused - apart).abs() < 1e-6), "{name}");
            assert!(pairs.count() > 0);
        }
        assert!(graph("q k", "g _").refusal(17).contains("only one of q_norm_weight and k_norm_weight is given"));
        let message = graph("q k", "odd g").refusal(17);
        assert!(message.contains("input 14 has shape [3], expected one element per feature"), "{message}");
    }

    #[test]
    fn impossible_lengths_are_refused() {
        let message = graph("1", 9).refusal(17);
        assert!(message.contains("total_sequence_length is 9, expected between 1 and 6"), "{message}");
        let graph = TestGraph::default()
            .input("q", Float, &["1", "5", "16"])
            .floats("cos", &[4, 2], &[1.0; 8])
            .floats("sin", &[4, 2], &[0.0; 8])
            .ints("last", &[4])
            .node("Cast", "last", "last32", vec![("to", Attr::Int(6))])
            .raw("total", Int32, &[], &5i32.to_le_bytes());
        let heads = vec![("num_heads", Attr::Int(2)), ("kv_num_heads", Attr::Int(1)), ("do_rotary", Attr::Int(1))];
        let inputs = "q _ _ _ _ last32 total cos sin";
        let message = graph.node("com.microsoft.GroupQueryAttention", inputs, "y", heads).output("y").refusal(17);
        assert!(message.contains("total_sequence_length is 5, expected at most the 4 of cos_cache"), "{message}");
    }
}
