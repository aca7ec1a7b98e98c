//! Operators that rearrange elements: between depth and space, in reverse, above and below diagonals, from columns.

use super::generate::{clamped, places};
use crate::error::amount;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::extension::col2im::Col2Im;
use crate::ops::triangular::Triangular;

/// The shape of an image, `[batch, channels, height, width]`, and the block size.
fn image_and_block(call: &Call) -> Step<([u32; 4], u32)> {
    let shape = call.input_sizes(0)?;
    let image = shape[..].try_into().map_err(|_| Refusal(format!("the input has shape {shape:?}, expected rank 4")))?;
    let given = call.int_attribute("blocksize").ok_or("blocksize is missing")?;
    // Squares of larger blocks would exceed every dimension.
    let block = u32::try_from(given).ok().filter(|block| (1..1 << 16).contains(block));
    Ok((image, block.ok_or_else(|| Refusal(format!("blocksize is {given}, expected 1 to 65535")))?))
}

fn depth_to_space(call: &mut Call) -> Outcome {
    let ([batch, channels, height, width], block) = image_and_block(call)?;
    let depth = channels / (block * block);
    if channels % (block * block) != 0 {
        return Err(Refusal(format!(
            "{} cannot be divided into blocks of {block} x {block}",
            amount(channels, "channel")
        )));
    }
    let x = call.input(0)?;
    let (split, permutation) = match call.text_or("mode", "DCR").as_str() {
        "DCR" => ([batch, block, block, depth, height, width], [0, 3, 4, 1, 5, 2]),
        "CRD" => ([batch, depth, block, block, height, width], [0, 1, 4, 2, 5, 3]),
        other => return Err(Refusal(format!("mode is {other}, expected DCR or CRD"))),
    };
    let split = call.reshape(x, &split)?;
    let moved = call.transpose(split, &permutation)?;
    let output = call.reshape(moved, &[batch, depth, height * block, width * block]);
    call.one(output)
}

fn space_to_depth(call: &mut Call) -> Outcome {
    let ([batch, channels, height, width], block) = image_and_block(call)?;
    if height % block != 0 || width % block != 0 {
        return Err(Refusal(format!("{height} x {width} cannot be divided into blocks of {block} x {block}")));
    }
    let x = call.input(0)?;
    let (rows, columns) = (height / block, width / block);
    let split = call.reshape(x, &[batch, channels, rows, block, columns, block])?;
    // The channels to bring together: those of one position in the block, or those of one channel of the input.
    let moved = match call.text_or("mode", "DCR").as_str() {
        "DCR" => call.transpose(split, &[0, 3, 5, 1, 2, 4])?,
        "CRD" => call.transpose(split, &[0, 1, 3, 5, 2, 4])?,
        other => return Err(Refusal(format!("mode is {other}, expected DCR or CRD"))),
    };
    let output = call.reshape(moved, &[batch, channels * block * block, rows, columns]);
    call.one(output)
}

/// Sets the elements above or below a diagonal to 0.
///
/// # Errors
/// If the diagonal is computed.
pub fn trilu(call: &mut Call) -> Outcome {
    let diagonal = match call.value(1) {
        Some(_) => clamped(call.one_int(1, "k")?),
        None => 0,
    };
    if let Some(empty @ Value::Empty(_)) = call.value(0) {
        return Ok(vec![empty]);
    }
    let x = call.input(0)?;
    let output = call.emit(Triangular { upper: call.int_or("upper", 1) != 0, diagonal }, &[x]);
    call.one(output)
}

/// Reverses the first steps of each batch entry: step `t` below the length becomes step `length - 1 - t`.
fn reverse_sequence(call: &mut Call) -> Outcome {
    let (x, lengths) = (call.input(0)?, call.input(1)?);
    let shape = call.sizes(x);
    let rank = shape.len();
    let batch = call.axis(call.int_or("batch_axis", 1), rank)? as usize;
    let time = call.axis(call.int_or("time_axis", 0), rank)? as usize;
    if batch + time != 1 {
        return Err(Refusal(format!("batch_axis {batch} and time_axis {time} are not 0 and 1")));
    }
    if call.sizes(lengths) != [shape[batch]] {
        let got = call.sizes(lengths);
        return Err(Refusal(format!("sequence_lens has shape {got:?}, expected [{}]", shape[batch])));
    }
    let mut per_entry = [1, 1];
    per_entry[batch] = shape[batch];
    let lengths = call.reshape(lengths, &per_entry)?;
    let dtype = call.dtype(lengths);
    let most = call.int_scalar(dtype, shape[time] as i64)?;
    let lengths = call.emit(E::Min, &[lengths, most])?;
    let (steps, entries) = (places(call, dtype, shape[time], time, 2)?, places(call, dtype, shape[batch], batch, 2)?);
    let is_reversed = call.emit(E::Lesser, &[steps, lengths])?;
    let last = call.add_number(lengths, -1.0)?;
    let reversed = call.sub(last, steps)?;
    let steps = call.select(is_reversed, reversed, steps)?;
    // The rows of the first two dimensions as one.
    let [outer, inner] = if time == 0 { [steps, entries] } else { [entries, steps] };
    let width = call.int_scalar(dtype, shape[1] as i64)?;
    let rows = call.mul(outer, width)?;
    let rows = call.add(rows, inner)?;
    let count = shape[0] * shape[1];
    let rows = call.reshape(rows, &[count])?;
    let flat = call.reshape(x, &[&[count], &shape[2..]].concat())?;
    let moved = call.gather(flat, rows, 0)?;
    let output = call.reshape(moved, &shape);
    call.one(output)
}

/// Two non-negative numbers, one per dimension of an image; a single number applies to the second, `other` to the
/// first.
fn pair(name: &str, numbers: &[i64], other: u32) -> Step<[u32; 2]> {
    let sizes: Option<Vec<u32>> = numbers.iter().map(|&number| u32::try_from(number).ok()).collect();
    match sizes.as_deref() {
        Some(&[width]) => Ok([other, width]),
        Some(&[height, width]) => Ok([height, width]),
        _ => Err(Refusal(format!("{name} is {numbers:?}, expected one or two numbers that are not negative"))),
    }
}

/// Adds up overlapping blocks.
fn col2im(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let shape = call.sizes(x);
    let (image_shape, block_shape) = (call.ints(1, "image_shape")?, call.ints(2, "block_shape")?);
    let dimensions = image_shape.len();
    let (image, block) = (pair("image_shape", &image_shape, 1)?, pair("block_shape", &block_shape, 1)?);
    let attribute = |name: &str, default: i64, other: u32| {
        pair(name, &call.ints_attribute(name).unwrap_or_else(|| vec![default; dimensions]), other)
    };
    let (strides, dilations) = (attribute("strides", 1, 1)?, attribute("dilations", 1, 1)?);
    let pads = call.ints_attribute("pads").unwrap_or_else(|| vec![0; 2 * dimensions]);
    let (before, after) = pads.split_at_checked(dimensions).ok_or("pads are too few")?;
    let (before, after) = (pair("pads", before, 0)?, pair("pads", after, 0)?);
    let fail = || {
        Refusal(format!("columns of shape {shape:?} do not form an image {image_shape:?} of blocks {block_shape:?}"))
    };
    let mut columns = [0; 2];
    for axis in 0..2 {
        let reach = (block[axis] as u64).checked_sub(1).ok_or_else(fail)? * dilations[axis] as u64 + 1;
        let room = image[axis] as u64 + before[axis] as u64 + after[axis] as u64;
        let steps = room.checked_sub(reach).ok_or_else(fail)?.checked_div(strides[axis] as u64).ok_or_else(fail)?;
        columns[axis] = u32::try_from(steps + 1).map_err(|_| fail())?;
    }
    let area = block[0] as u64 * block[1] as u64;
    let &[batch, rows, count] = &shape[..] else { return Err(fail()) };
    if !(rows as u64).is_multiple_of(area) || columns[0] as u64 * columns[1] as u64 != count as u64 {
        return Err(fail());
    }
    let channels = (rows as u64 / area) as u32;
    let op = Col2Im { image, block, strides, dilations, padding: before, counts: columns };
    let output = call.emit(op, &[x])?;
    let sizes: Vec<u32> = [batch, channels].into_iter().chain(image[2 - dimensions..].iter().copied()).collect();
    let output = call.reshape(output, &sizes);
    call.one(output)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Col2Im", "images of one or two dimensions, constant shapes", col2im),
    standard("DepthToSpace", "", depth_to_space),
    standard("ReverseSequence", "", reverse_sequence),
    standard("SpaceToDepth", "", space_to_depth),
    standard("Trilu", "constant diagonals", trilu),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::{Float, Int64};
    use crate::onnx::testing::{Attr, TestGraph};

    #[test]
    fn depth_is_split_in_the_order_of_the_mode() {
        let text = |mode| {
            let graph = TestGraph::default().input("x", Float, &["1", "8", "2", "3"]);
            let attributes = vec![("blocksize", Attr::Int(2)), ("mode", Attr::Text(mode))];
            graph.node("DepthToSpace", "x", "y", attributes).output("y").text(13)
        };
        assert!(text("DCR").contains("newShape=[1, 2, 2, 2, 2, 3]") && text("DCR").contains("[0, 3, 4, 1, 5, 2]"));
        assert!(text("CRD").contains("[0, 1, 4, 2, 5, 3]"));
    }

    #[test]
    fn lengths_of_sequences_can_be_computed() {
        let graph = TestGraph::default().input("x", Float, &["4", "3", "2"]).input("n", Int64, &["3"]);
        let text = graph.node("ReverseSequence", "x n", "y", vec![]).output("y").text(10);
        assert!(text.contains("= gather %"), "{text}");
    }

    #[test]
    fn columns_that_do_not_fit_are_refused() {
        let graph =
            TestGraph::default().input("x", Float, &["1", "5", "5"]).ints("image", &[5, 6]).ints("block", &[1, 5]);
        let refusal = graph.node("Col2Im", "x image block", "y", vec![]).output("y").refusal(18);
        assert!(refusal.contains("columns of shape [1, 5, 5] do not form an image [5, 6]"), "{refusal}");
    }
}
