//! Operators that slice, join, repeat and pad.

use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::onnx::sizes::MAX_SIZE;
use crate::onnx::tensor::checked_dims;
use crate::ops::pad::{Pad, PaddingMode};
use crate::ops::reverse::Reverse;
use crate::ops::slice::Slice;
use crate::ops::tile::Tile;
use crate::shape::Descriptor;

/// The elements to take along one dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Taken {
    /// The index of the element that comes first in the input.
    start: Dim,
    count: Dim,
    /// The distance between elements in the input.
    stride: u32,
    /// Whether the output has the elements in reverse order.
    reversed: bool,
}

/// The elements that `start`, `end` and `step` select in a dimension of `size`. Negative positions count from the end;
/// positions outside of the dimension move to its border.
fn taken(size: Dim, start: Dim, end: Dim, step: i64) -> Taken {
    let last = size - 1;
    // The number of elements in a suffix of fixed length does not depend on the size.
    let to_end = end.is_number() && end >= MAX_SIZE && step == 1;
    if to_end && start.is_number() && start < 0 && size.min(Dim::ZERO - start) == Dim::ZERO - start {
        return Taken { start: size + start, count: Dim::ZERO - start, ..whole(size) };
    }
    let place = |at: Dim| if at < 0 { at + size } else { at };
    let (start, end) = (place(start), place(end));
    let (start, distance) = if step > 0 {
        let start = start.max(0u32).min(size);
        (start, end.max(0u32).min(size) - start)
    } else {
        let start = start.min(last).max(0u32);
        (start, start - end.min(last).max(Dim::number(-1)))
    };
    let stride = Dim::number(step.saturating_abs());
    let count = if size == 0 { size } else { distance.div_ceil(stride).max(0u32) };
    // A single element has no successor: its stride does not matter.
    let stride = if stride == 1 || count > 1 { stride } else { Dim::number(1) };
    let reversed = step < 0 && count > 1;
    let start = if reversed { start - (count - 1) * stride } else { start };
    Taken { start, count, stride: stride.get(), reversed }
}

fn whole(size: Dim) -> Taken {
    Taken { start: Dim::number(0), count: size, stride: 1, reversed: false }
}

/// Takes the part `parts` of each dimension of `operand`, at least one element each.
fn take(call: &mut Call, operand: OperandId, parts: &[Taken]) -> Step<OperandId> {
    let mut output = operand;
    let shape = call.shape(operand);
    if parts.iter().zip(&shape).any(|(part, &size)| Taken { reversed: false, ..*part } != whole(size)) {
        let starts = parts.iter().map(|part| part.start).collect();
        let sizes = parts.iter().map(|part| (part.count - 1) * part.stride + 1).collect();
        let strides: Vec<u32> = parts.iter().map(|part| part.stride).collect();
        let strides = strides.iter().any(|&stride| stride > 1).then_some(strides);
        output = call.emit(Slice { starts, sizes, strides }, &[output])?;
    }
    let reversed: Vec<u32> = (0..parts.len() as u32).filter(|&axis| parts[axis as usize].reversed).collect();
    match reversed.is_empty() {
        true => Ok(output),
        false => call.emit(Reverse { axes: Some(reversed) }, &[output]),
    }
}

/// Like [`take`], but input and output may have no elements.
fn take_value(call: &mut Call, index: usize, parts: &[Taken]) -> Step<Value> {
    let shape: Vec<Dim> = parts.iter().map(|part| part.count).collect();
    let empty = matches!(call.value(index), Some(Value::Empty(_))) || shape.iter().any(|&count| count == 0);
    match call.input_type(index) {
        Some(dtype) if empty => Ok(Value::Empty(Descriptor::new(dtype, shape))),
        _ => {
            let x = call.input(index)?;
            take(call, x, parts).map(Value::Tensor)
        }
    }
}

/// Starts and ends are attributes before opset 10, constants since then.
fn slice(call: &mut Call) -> Outcome {
    let shape = call.input_shape(0)?;
    let (starts, ends, axes, steps) = if call.opset < 10 {
        let places = |name: &str| {
            let places = call.ints_attribute(name).ok_or_else(|| Refusal(format!("{name} are missing")))?;
            Ok::<_, Refusal>(places.into_iter().map(Dim::number).collect())
        };
        (places("starts")?, places("ends")?, call.ints_attribute("axes"), None)
    } else {
        let (axes, steps) = (call.optional_ints(3, "axes")?, call.optional_ints(4, "steps")?);
        (call.int_dims(1, "starts")?, call.int_dims(2, "ends")?, axes, steps)
    };
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let axes = call.axes(&axes, shape.len())?;
    let steps = steps.unwrap_or_else(|| vec![1; axes.len()]);
    if [starts.len(), ends.len(), steps.len()] != [axes.len(); 3] {
        let message = format!("starts {starts:?}, ends {ends:?}, axes {axes:?} and steps {steps:?} differ in length");
        return Err(Refusal(message));
    }
    if steps.contains(&0) {
        return Err(Refusal(format!("steps are {steps:?}, expected no 0")));
    }
    let mut parts: Vec<_> = shape.iter().map(|&size| whole(size)).collect();
    for (at, &axis) in axes.iter().enumerate() {
        parts[axis as usize] = taken(shape[axis as usize], starts[at], ends[at], steps[at]);
    }
    Ok(vec![take_value(call, 0, &parts)?])
}

/// The sizes of the pieces along a dimension of `size`.
fn split_sizes(call: &Call, size: Dim) -> Step<Vec<Dim>> {
    let given = match call.opset < 13 {
        true => call.ints_attribute("split").map(|sizes| sizes.into_iter().map(Dim::number).collect()),
        false if call.value(1).is_none() => None,
        false => Some(call.int_dims(1, "split")?),
    };
    if let Some(given) = given {
        let given: Vec<Dim> = given;
        let fits = given.iter().all(|&size| size >= 0) && given.iter().copied().sum::<Dim>() == size;
        let fail = || Refusal(format!("split is {given:?}, expected sizes that add up to {size}"));
        return if fits { Ok(given) } else { Err(fail()) };
    }
    let outputs = call.output_count() as i64;
    let count = call.int_or("num_outputs", outputs);
    let count = u32::try_from(count).ok().filter(|&count| count > 0 && count as i64 == outputs);
    let count = count.ok_or_else(|| Refusal(format!("num_outputs is not {outputs}, the number of outputs")))?;
    // The last piece is smaller if the dimension cannot be divided evenly.
    let piece = size.div_ceil(count);
    let sizes: Vec<Dim> = (0..count).map(|at| piece.min((size - piece * at).max(0u32))).collect();
    if call.opset < 18 && !size.is_multiple_of(count) {
        return Err(Refusal(format!("{} cannot be split into {count} equal pieces", amount(size, "element"))));
    }
    Ok(sizes)
}

fn split(call: &mut Call) -> Outcome {
    let shape = call.input_shape(0)?;
    let axis = call.axis(call.int_or("axis", 0), shape.len())?;
    let sizes = split_sizes(call, shape[axis as usize])?;
    if matches!(call.value(0), Some(Value::Empty(_))) || sizes.iter().any(|&size| size == 0) {
        let mut parts: Vec<_> = shape.iter().map(|&size| whole(size)).collect();
        let (mut outputs, mut start) = (Vec::new(), Dim::number(0));
        for &count in &sizes {
            parts[axis as usize] = Taken { start, count, ..whole(count) };
            outputs.push(take_value(call, 0, &parts)?);
            start += count;
        }
        return Ok(outputs);
    }
    let x = call.input(0)?;
    let outputs = call.split(x, &sizes, axis)?;
    Ok(outputs.into_iter().map(Value::Tensor).collect())
}

/// The contents of padding.
#[derive(Clone, Copy, PartialEq)]
enum Border {
    Constant(Number),
    Edge,
    Reflect,
    Wrap,
}

/// The index, in a dimension of `size`, of the element that padding repeats `at` elements from its start.
fn border_place(border: Border, at: i64, size: i64) -> i64 {
    match border {
        Border::Wrap => at.rem_euclid(size),
        // The first and the last element are not repeated.
        _ if size == 1 => 0,
        _ => {
            let place = at.rem_euclid(2 * (size - 1));
            place.min(2 * (size - 1) - place)
        }
    }
}

/// Pads `x` by `pads` elements before and after each dimension.
fn pad_operand(call: &mut Call, x: OperandId, pads: &[[Dim; 2]], border: Border) -> Step<OperandId> {
    let mode = match border {
        Border::Constant(_) => PaddingMode::Constant,
        Border::Edge => PaddingMode::Edge,
        Border::Reflect | Border::Wrap => PaddingMode::Reflection,
    };
    let shape = call.shape(x);
    if pads.iter().flatten().all(|pad| pad.is_number() && *pad == 0) {
        return Ok(x);
    }
    let mut sized = pads.iter().zip(&shape);
    if border == Border::Wrap && sized.all(|(pads, &size)| pads.iter().all(|&pad| pad <= size)) {
        return wrapped(call, x, pads);
    }
    let mut short = pads.iter().zip(&shape).map(|(pads, &size)| pads.iter().all(|&pad| pad < size || pad == 0));
    if border == Border::Wrap || (border == Border::Reflect && !short.all(|is_short| is_short)) {
        let mut output = x;
        for (axis, pads) in pads.iter().enumerate() {
            // The indices are listed one by one, which requires known sizes.
            let ([before, after], size) = (pads.map(Dim::get), shape[axis]);
            if before + after > 0 {
                let size = size.get();
                let places =
                    (-(before as i64)..size as i64 + after as i64).map(|at| border_place(border, at, size as i64));
                let places = call.constant(DataType::Int64, &[before + size + after], places)?;
                output = call.gather(output, places, axis as u32)?;
            }
        }
        return Ok(output);
    }
    let value = if let Border::Constant(value) = border { value } else { Number::Int(0) };
    let (beginning, ending) = pads.iter().map(|&[before, after]| (before, after)).unzip();
    call.emit(Pad { beginning, ending, mode, value }, &[x])
}

/// Puts the last elements of each dimension before the first ones, and the first ones behind them.
fn wrapped(call: &mut Call, mut x: OperandId, pads: &[[Dim; 2]]) -> Step<OperandId> {
    for (axis, &[before, after]) in pads.iter().enumerate() {
        let (mut parts, size) = (vec![x], call.shape(x)[axis]);
        if before != 0 {
            parts.insert(0, call.slice_axis(x, axis, size - before, before)?);
        }
        if after != 0 {
            parts.push(call.slice_axis(x, axis, 0u32, after)?);
        }
        x = call.concat(&parts, axis as u32)?;
    }
    Ok(x)
}

/// Pads input 0 by `pads` elements before and after each dimension; negative numbers remove elements, before any are
/// added.
fn padded(call: &mut Call, pads: &[[Dim; 2]], border: Border) -> Step<Value> {
    let shape = call.input_shape(0)?;
    let fail = || Refusal(format!("a tensor of shape {shape:?} cannot be padded by {pads:?}"));
    let mut parts = Vec::new();
    let mut sizes = Vec::new();
    let mut added = Vec::new();
    for (&size, &pads) in shape.iter().zip(pads) {
        let [start, behind] = pads.map(|pad| (Dim::ZERO - pad).max(0u32));
        let [before, after] = pads.map(|pad| pad.max(0u32));
        let count = size - start - behind;
        if count < 0 {
            return Err(fail());
        }
        parts.push(Taken { start, count, stride: 1, reversed: false });
        sizes.push(count + before + after);
        added.push([before, after]);
    }
    let target = checked_dims(&sizes).map_err(|_| fail())?;
    match (take_value(call, 0, &parts)?, border) {
        (Value::Tensor(x), _) => pad_operand(call, x, &added, border).map(Value::Tensor),
        (Value::Empty(descriptor), _) if target.iter().any(|&size| size == 0) => {
            Ok(Value::Empty(Descriptor::new(descriptor.dtype, target)))
        }
        (Value::Empty(descriptor), Border::Constant(value)) => {
            let value = call.scalar(descriptor.dtype, value)?;
            call.expand(value, &target).map(Value::Tensor)
        }
        _ => Err(fail()),
    }
}

/// Sizes and value are attributes before opset 11, constants since then.
///
/// # Errors
/// If they are computed, or do not fit the tensor.
pub fn pad(call: &mut Call) -> Outcome {
    let rank = call.input_shape(0)?.len();
    let (pads, value) = if call.opset < 11 {
        let name = if call.opset < 2 { "paddings" } else { "pads" };
        let pads = call.ints_attribute(name).ok_or_else(|| Refusal(format!("{name} are missing")))?;
        (pads.into_iter().map(Dim::number).collect(), Number::Float(call.float_or("value", 0.0)))
    } else {
        let value = match call.value(2) {
            None => Some(Number::Int(0)),
            Some(_) => call.given_numbers(2, "constant_value")?.and_then(|numbers| numbers.first().copied()),
        };
        (call.int_dims(1, "pads")?, value.unwrap_or(Number::Int(0)))
    };
    let axes = if call.opset < 18 { None } else { call.optional_ints(3, "axes")? };
    let axes = axes.unwrap_or_else(|| (0..rank as i64).collect());
    let axes = call.axes(&axes, rank)?;
    if pads.len() != 2 * axes.len() {
        return Err(Refusal(format!("pads are {pads:?}, expected two per dimension in {axes:?}")));
    }
    let mut all = vec![[Dim::ZERO; 2]; rank];
    for (at, &axis) in axes.iter().enumerate() {
        all[axis as usize] = [pads[at], pads[axes.len() + at]];
    }
    let border = match call.text_or("mode", "constant").as_str() {
        "constant" => Border::Constant(value),
        "edge" => Border::Edge,
        "reflect" => Border::Reflect,
        "wrap" => Border::Wrap,
        other => return Err(Refusal(format!("mode is {other}, expected constant, edge, reflect or wrap"))),
    };
    Ok(vec![padded(call, &all, border)?])
}

/// Crops and pads equally at both ends; an odd element goes to the end.
fn center_crop_pad(call: &mut Call) -> Outcome {
    let shape = call.input_shape(0)?;
    let axes = call.ints_attribute("axes").unwrap_or_else(|| (0..shape.len() as i64).collect());
    let axes = call.axes(&axes, shape.len())?;
    let targets = call.int_dims(1, "shape")?;
    if targets.len() != axes.len() || targets.iter().any(|&target| target < 0) {
        return Err(Refusal(format!("shape is {targets:?}, expected one size per dimension in {axes:?}")));
    }
    let mut pads = vec![[Dim::ZERO; 2]; shape.len()];
    for (&axis, &target) in axes.iter().zip(&targets) {
        let size = shape[axis as usize];
        // One of the two is 0.
        let (added, cut) = ((target - size).max(0u32) / 2, (size - target).max(0u32) / 2);
        let before = added - cut;
        pads[axis as usize] = [before, target - size - before];
    }
    Ok(vec![padded(call, &pads, Border::Constant(Number::Int(0)))?])
}

fn tile(call: &mut Call) -> Outcome {
    let shape = call.input_shape(0)?;
    let repeats = call.int_dims(1, "repeats")?;
    let fail = || Refusal(format!("repeats are {repeats:?}, expected one number per dimension of {shape:?}"));
    let repetitions = checked_dims(&repeats).map_err(|_| fail())?;
    if repetitions.len() != shape.len() {
        return Err(fail());
    }
    if shape.iter().chain(&repetitions).any(|&size| size == 0) {
        let dtype = call.input_type(0).ok_or("the input is of a type that WebNN does not have")?;
        let sizes: Vec<Dim> = shape.iter().zip(&repetitions).map(|(&size, &count)| size * count).collect();
        return Ok(vec![Value::Empty(Descriptor::new(dtype, checked_dims(&sizes)?))]);
    }
    let x = call.input(0)?;
    if repetitions.iter().all(|&count| count == 1) {
        return Ok(vec![Value::Tensor(x)]);
    }
    let output = call.emit(Tile { repetitions }, &[x]);
    call.one(output)
}

/// Broadcasts the input and the shape with each other.
fn expand(call: &mut Call) -> Outcome {
    let shape = call.input_shape(0)?;
    let sizes = call.int_dims(1, "shape")?;
    let target = checked_dims(&sizes)?;
    let target = crate::shape::broadcast(&shape, &target)
        .ok_or_else(|| Refusal(format!("a tensor of shape {shape:?} does not broadcast with the shape {sizes:?}")))?;
    if target.iter().any(|&dim| dim == 0) {
        let dtype = call.input_type(0).ok_or("the input is of a type that WebNN does not have")?;
        return Ok(vec![Value::Empty(Descriptor::new(dtype, target))]);
    }
    let x = call.input(0)?;
    let output = call.expand(x, &target);
    call.one(output)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("CenterCropPad", "constant shapes", center_crop_pad),
    standard("Expand", "constant shapes", expand),
    standard("Pad", "constant pads and values", pad),
    standard("Slice", "constant places", slice),
    standard("Split", "constant sizes", split),
    standard("Tile", "constant numbers of repetitions", tile),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::{Attr, TestGraph};

    #[test]
    fn places_are_counted_and_clamped() {
        let part = |start: u32, count: u32, stride, reversed| Taken {
            start: start.into(),
            count: count.into(),
            stride,
            reversed,
        };
        for (size, start, end, step, expected) in [
            (10, 0, i64::MAX, 1, part(0, 10, 1, false)),
            (10, -3, -1, 1, part(7, 2, 1, false)),
            (10, 1, 8, 3, part(1, 3, 3, false)),
            (10, -1, i64::MIN, -1, part(0, 10, 1, true)),
            (10, 8, 1, -3, part(2, 3, 3, true)),
            (10, 100, -100, -4, part(1, 3, 4, true)),
            (10, 5, 5, 1, part(5, 0, 1, false)),
            (10, 3, 7, i64::MAX, part(3, 1, 1, false)),
            (10, 3, 0, i64::MIN, part(3, 1, 1, false)),
            (0, 0, 5, 1, part(0, 0, 1, false)),
            (0, 0, -5, -1, part(0, 0, 1, false)),
        ] {
            let [size, start, end] = [size, start, end].map(Dim::number);
            assert_eq!(taken(size, start, end, step), expected, "{start}:{end}:{step} of {size}");
        }
    }

    #[test]
    fn borders_repeat() {
        let places = |border, size| (-4..7).map(|at| border_place(border, at, size)).collect::<Vec<_>>();
        assert_eq!(places(Border::Reflect, 3), [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2]);
        assert_eq!(places(Border::Wrap, 3), [2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(places(Border::Reflect, 1), [0; 11]);
    }

    #[test]
    fn negative_steps_reverse_the_slice() {
        let graph = TestGraph::default().input("x", Float, &["10", "4"]);
        let graph = graph.ints("starts", &[8]).ints("ends", &[1]).ints("axes", &[0]).ints("steps", &[-3]);
        let text = graph.node("Slice", "x starts ends axes steps", "y", vec![]).output("y").text(13);
        assert!(text.contains("slice %0 sizes=[7, 4] starts=[2, 0] strides=[3, 1]"), "{text}");
        assert!(text.contains("reverse %1 axes=[0]"), "{text}");
        let old = TestGraph::default().input("x", Float, &["10"]);
        let places = vec![("starts", Attr::Ints(&[2])), ("ends", Attr::Ints(&[-1]))];
        let text = old.node("Slice", "x", "y", places).output("y").text(9);
        assert!(text.contains("slice %0 sizes=[7] starts=[2]"), "{text}");
    }

    #[test]
    fn pieces_are_equal_except_the_last() {
        let split = |attributes| TestGraph::default().input("x", Float, &["7"]).node("Split", "x", "a b c", attributes);
        let text = split(vec![("num_outputs", Attr::Int(3))]).output("a").output("c").text(18);
        assert!(text.contains("split %0 splits=[3, 3, 1]"), "{text}");
        let refusal = split(vec![]).output("a").refusal(13);
        assert!(refusal.contains("7 elements cannot be split into 3 equal pieces"), "{refusal}");
        let refusal = split(vec![("split", Attr::Ints(&[3, 3, 3]))]).output("a").refusal(12);
        assert!(refusal.contains("split is [3, 3, 3], expected sizes that add up to 7"), "{refusal}");
    }

    #[test]
    fn negative_pads_crop_and_wrapping_joins_slices() {
        let pad = |pads: &[i64], mode| {
            let graph = TestGraph::default().input("x", Float, &["3", "4"]).ints("pads", pads).ints("axes", &[1]);
            graph.node("Pad", "x pads _ axes", "y", vec![("mode", Attr::Text(mode))]).output("y")
        };
        let text = pad(&[-1, 2], "constant").text(19);
        assert!(text.contains("slice %0 sizes=[3, 3] starts=[0, 1]"), "{text}");
        assert!(text.contains("endingPadding=[0, 2]"), "{text}");
        let text = pad(&[2, 1], "wrap").text(19);
        assert!(
            text.contains("slice %0 sizes=[3, 2] starts=[0, 2]") && text.contains("slice %0 sizes=[3, 1]"),
            "{text}"
        );
        assert!(pad(&[5, 2], "wrap").text(19).contains("gather"));
        assert!(pad(&[2, 2], "reflect").text(19).contains("mode=reflection"));
        assert!(pad(&[5, 0], "reflect").text(19).contains("gather"));
        assert!(pad(&[-3, -2], "edge").refusal(19).contains("cannot be padded by [[0, 0], [-3, -2]]"));
        assert!(pad(&[i64::MAX, i64::MAX], "edge").refusal(19).contains("cannot be padded"));
    }
}
