//! Operators of `com.microsoft.nchwc`, which onnxruntime writes in place of the standard's when it saves a model after all
//! of its optimizations: their tensors store channels in blocks, the last of which is padded with zeros.
//!
//! The translation undoes that: tensors are `[N, C, H, W]` again, and filters `[O, I, H, W]`. Only the padding of the last
//! block remains, between a convolution and the end of the blocks.

use super::channels_last::{channels_first, channels_last};
use super::fused::fused_conv;
use crate::dimension::Dim;
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::blocks::DOMAIN;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::ops::interpolation::{Mode, Nearest, Transformation};
use crate::onnx::ops::pooling::{average_pool, global, max_pool};
use crate::onnx::ops::resize::scaled_up;
use crate::onnx::registry::{Entry, Outcome};
use crate::ops::reduce::ReduceKind;

/// The start of the blocks. Channels that would fill up the last one are left out, as are those of filters.
fn reorder_input(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let y = match call.int_or("channels_last", 0) {
        0 => Ok(x),
        _ => channels_first(call, x),
    };
    call.one(y)
}

/// The end of the blocks.
fn reorder_output(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let channels = Dim::number(call.int_or("channels", 0));
    let [_, all, ..] = call.shape(x)[..] else { return Err("the input has fewer than 2 dimensions".into()) };
    if channels < 1 || channels > all {
        return Err(Refusal(format!("channels is {channels}, expected 1 to {all}")));
    }
    let x = if channels == all { x } else { call.slice_axis(x, 1, 0u32, channels)? };
    let y = match call.int_or("channels_last", 0) {
        0 => Ok(x),
        _ => channels_last(call, x),
    };
    call.one(y)
}

/// The filter as `[O, I, H, W]`, for an input with `channels` channels.
///
/// It is stored as `[O / block, I / block, H, W, block of I, block of O]` or, for convolutions of few channels and
/// depthwise ones, as `[O / block, I, H, W, block of O]`.
fn filter(call: &mut Call, channels: Dim) -> Step<OperandId> {
    let filter = call.input(1)?;
    let block = call.block_size()?.ok_or("the model has no blocks")?;
    let shape: [Dim; 4] = call.dims(filter, "the filter")?;
    let [outputs, inputs, height, width] = shape;
    let is_grouped = call.int_or("group", 1) > 1;
    let has_few_inputs = if is_grouped { inputs == 1 } else { inputs < block };
    if !outputs.is_multiple_of(block) || !(has_few_inputs || inputs.is_multiple_of(block)) {
        return Err(Refusal(format!(
            "the filter has shape {shape:?}, expected whole blocks of {}",
            amount(block, "channel")
        )));
    }
    let size = Dim::from(block);
    let (stored, order): (Vec<Dim>, &[u32]) = match has_few_inputs {
        true => (vec![outputs / block, inputs, height, width, size], &[0, 4, 1, 2, 3]),
        false => (vec![outputs / block, inputs / block, height, width, size, size], &[0, 5, 1, 4, 2, 3]),
    };
    let filter = call.reshape(filter, &stored)?;
    let filter = call.transpose(filter, order)?;
    let filter = call.reshape(filter, &shape)?;
    // Nothing multiplies the rest.
    if is_grouped || channels >= inputs { Ok(filter) } else { call.slice_axis(filter, 1, 0u32, channels) }
}

fn conv(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let [_, channels, ..] = call.shape(x)[..] else { return Err("the input has fewer than 2 dimensions".into()) };
    let filter = filter(call, channels)?;
    call.replace(1, filter);
    fused_conv(call)
}

/// By whole factors.
fn upsample(call: &mut Call) -> Outcome {
    let scales = call.ints_attribute("scales").ok_or("scales are missing")?;
    let scales: Vec<f64> = scales.into_iter().map(|scale| scale as f64).collect();
    let mode = match call.text_or("mode", "nearest").as_str() {
        "nearest" => Mode::Nearest(Nearest::Floor),
        "linear" => Mode::Linear,
        other => return Err(Refusal(format!("mode is {other}"))),
    };
    let transformation = Transformation::named(&call.text_or("coordinate_transformation_mode", "asymmetric"))?;
    scaled_up(call, mode, transformation, &scales)
}

/// Whether `Reshape` to `shape` separates the channels of a block from the blocks, `[N, C / block, H, W, block]`. Where
/// onnxruntime cannot prove that tensors in blocks have equal sizes, it adds them in this shape; without blocks,
/// `[N, C, H, W]` is as good.
///
/// # Errors
/// If nodes or weights of the model are damaged.
pub fn separates_blocks(call: &Call, shape: &[Dim]) -> Step<bool> {
    let [batch, blocks, height, width, size] = shape else { return Ok(false) };
    if ![batch, height, width].into_iter().all(|&number| number == 0) || call.int_or("allowzero", 0) != 0 {
        return Ok(false);
    }
    let [_, channels, _, _] = call.input_shape(0)?[..] else { return Ok(false) };
    let Some(block) = call.block_size()? else { return Ok(false) };
    let is_all = if *blocks == Dim::number(-1) { channels.is_multiple_of(block) } else { *blocks * *size == channels };
    Ok(is_all && *size == block)
}

const fn blocked(name: &'static str, translate: fn(&mut Call) -> Outcome) -> Entry {
    Entry { domain: DOMAIN, name, notes: "", translate }
}

/// The operators of this domain.
pub const OPERATORS: &[Entry] = &[
    blocked("AveragePool", average_pool),
    blocked("Conv", conv),
    blocked("GlobalAveragePool", |call| global(call, ReduceKind::Mean)),
    blocked("GlobalMaxPool", |call| global(call, ReduceKind::Max)),
    blocked("MaxPool", max_pool),
    blocked("ReorderInput", reorder_input),
    blocked("ReorderOutput", reorder_output),
    blocked("Upsample", upsample),
];

#[cfg(test)]
mod tests {
    use crate::ir::Graph;
    use crate::memory::elements;
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;
    use crate::ops::Op;
    use crate::ops::operation::Operation;

    /// The filter `[O, I, H, W]` of ascending numbers, as onnxruntime stores it in blocks; zeros fill up the last ones.
    fn stored(shape: [usize; 4], block: usize, few: bool) -> (Vec<i64>, Vec<f32>) {
        let [outputs, inputs, height, width] = shape;
        let whole = |count: usize| count.next_multiple_of(block);
        let (all_outputs, all_inputs) = (whole(outputs), if few { inputs } else { whole(inputs) });
        let inner = if few { 1 } else { block };
        let mut weights = Vec::new();
        for o in (0..all_outputs).step_by(block) {
            for i in (0..all_inputs).step_by(inner) {
                for place in 0..height * width {
                    for i in i..i + inner {
                        for o in o..o + block {
                            let is_used = o < outputs && i < inputs;
                            let number = (o * inputs + i) * height * width + place + 1;
                            weights.push(if is_used { number as f32 } else { 0.0 });
                        }
                    }
                }
            }
        }
        (vec![all_outputs as i64, all_inputs as i64, height as i64, width as i64], weights)
    }

    fn filter(graph: &Graph) -> Vec<f32> {
        let conv = graph
            .nodes
            .iter()
            .find(|node| node.inputs.len() >= 2 && matches!(node.op, Operation::Api(Op::Conv2d(_))))
            .expect("a conv2d");
        let constant = graph.value(conv.inputs[1].unwrap()).constant().expect("a constant");
        elements::<f32>(constant.buffer().unwrap().bytes()).to_vec()
    }

    #[test]
    fn filters_get_their_order_back() {
        // The other convolution tells the size of blocks.
        for (block, shape, group, few) in [
            (8, [16, 16, 3, 2], 1, false),
            (16, [16, 16, 2, 3], 1, false),
            (8, [11, 20, 1, 1], 1, false),
            (16, [20, 20, 1, 1], 1, false),
            (8, [16, 3, 3, 3], 1, true),
            (16, [20, 12, 2, 1], 1, true),
            (8, [16, 1, 3, 3], 16, true),
            (16, [32, 1, 3, 3], 32, true),
            (8, [16, 8, 1, 2], 2, false),
            (16, [32, 16, 1, 2], 2, false),
        ] {
            let (dims, weights) = stored(shape, block, few);
            let channels = (shape[1] * group).to_string();
            // Few channels are read as they are.
            let inputs = if few && group == 1 { "x w" } else { "b w" };
            let (hint, kept) = if block == 8 { ([24, 16, 1, 1], 24) } else { ([48, 16, 1, 1], 33) };
            let graph = TestGraph::default()
                .input("x", Float, &["1", &channels, "5", "4"])
                .floats("w", &dims, &weights)
                .floats("hint", &hint, &vec![1.0; hint.iter().product::<i64>() as usize])
                .node("com.microsoft.nchwc.ReorderInput", "x", "b", vec![])
                .node("com.microsoft.nchwc.Conv", inputs, "c", vec![("group", Attr::Int(group as i64))])
                .node("com.microsoft.nchwc.ReorderOutput", "c", "y", vec![("channels", Attr::Int(shape[0] as i64))])
                .node("com.microsoft.nchwc.Conv", "b hint", "h", vec![])
                .node("com.microsoft.nchwc.ReorderOutput", "h", "z", vec![("channels", Attr::Int(kept))])
                .output("y");
            let graph = graph.import(17, &Default::default()).unwrap_or_else(|error| panic!("{error}"));
            let used = shape.iter().product::<usize>();
            let expected: Vec<f32> = (1..=used).map(|number| number as f32).collect();
            assert_eq!(filter(&graph)[..used], expected, "{shape:?} in blocks of {block}");
            assert_eq!(graph.descriptor(graph.outputs[0].1).sizes()[1], shape[0] as u32);
        }
    }

    #[test]
    fn sums_in_separated_blocks_are_plain_sums() {
        // Either number may be left to the reshaping.
        for (split, join) in [([0, 2, 0, 0, 8], [0, 16, 0, 0]), ([0, -1, 0, 0, 8], [0, -1, 0, 0])] {
            let graph = TestGraph::default()
                .input("x", Float, &["1", "16", "3", "3"])
                .input("p", Float, &["1", "16", "1", "1"])
                .ints("split", &split)
                .ints("join", &join)
                .node("com.microsoft.nchwc.ReorderInput", "x", "b", vec![])
                .node("com.microsoft.nchwc.ReorderInput", "p", "q", vec![])
                .node("Reshape", "b split", "b5", vec![])
                .node("Reshape", "q split", "q5", vec![])
                .node("Add", "b5 q5", "s5", vec![])
                .node("Reshape", "s5 join", "s", vec![])
                .node("com.microsoft.nchwc.ReorderOutput", "s", "y", vec![("channels", Attr::Int(12))])
                .output("y");
            let text = graph.text(17);
            assert!(text.contains("= add %0 %1") && text.contains("= slice "), "{text}");
        }
    }

    #[test]
    fn parts_of_blocks_are_refused() {
        let graph = |dims: &[i64], channels| {
            TestGraph::default()
                .input("x", Float, &["1", "16", "3", "3"])
                .floats("w", dims, &vec![0.0; dims.iter().product::<i64>() as usize])
                .node("com.microsoft.nchwc.ReorderInput", "x", "b", vec![])
                .node("com.microsoft.nchwc.Conv", "b w", "c", vec![])
                .node("com.microsoft.nchwc.ReorderOutput", "c", "y", vec![("channels", Attr::Int(channels))])
                .output("y")
        };
        let message = graph(&[12, 16, 1, 1], 12).refusal(17);
        assert!(message.contains("the filter has shape [12, 16, 1, 1], expected whole blocks of 8"), "{message}");
        let message = graph(&[24, 16, 1, 1], 25).refusal(17);
        assert!(message.contains("channels is 25, expected 1 to 24"), "{message}");
    }
}
