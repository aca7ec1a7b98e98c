//! Sequences and optionals: their structure is resolved during translation, and leaves no trace in a graph.

use super::control::Unrolled;
use crate::dimension::Dim;
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::control_flow;
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::lists::{List, check_length, element, erased, inserted, tensor};
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::shape::Descriptor;

fn list(call: &Call, index: usize) -> Step<List<OperandId>> {
    match call.required(index)? {
        Value::Sequence(values) => Ok(values),
        _ => Err(Refusal(format!("input {index} is not a sequence"))),
    }
}

/// The position in the constant at `index`, if there is one.
fn position(call: &Call, index: usize) -> Step<Option<i64>> {
    call.value(index).map(|_| call.one_int(index, "position")).transpose()
}

fn of_list(call: &mut Call, list: List<OperandId>) -> Outcome {
    // Intermediate lists are kept until the end of the translation.
    call.take_memory(list.len() * size_of::<Value>())?;
    Ok(vec![Value::Sequence(list)])
}

fn bounded(call: &mut Call, values: Vec<Value>) -> Outcome {
    check_length(values.len())?;
    of_list(call, values.into())
}

fn construct(call: &mut Call) -> Outcome {
    let values = (0..call.input_count()).map(|index| tensor(call.value(index), index));
    let values = values.collect::<Result<_, _>>()?;
    bounded(call, values)
}

fn insert(call: &mut Call) -> Outcome {
    let (list, value) = (list(call, 0)?, tensor(call.value(1), 1)?);
    let list = inserted(list, value, position(call, 2)?)?;
    of_list(call, list)
}

fn erase(call: &mut Call) -> Outcome {
    let list = erased(list(call, 0)?, position(call, 1)?)?;
    of_list(call, list)
}

fn at(call: &mut Call) -> Outcome {
    Ok(vec![element(&list(call, 0)?, call.one_int(1, "position")?)?])
}

fn length(call: &mut Call) -> Outcome {
    let length = list(call, 0)?.len() as i64;
    Ok(vec![call.int_list(&[], &[length])?])
}

/// Joins tensors, of a sequence or of a loop's rounds, along `axis`, a new or an existing dimension. Tensors without
/// elements contribute nothing.
pub fn joined(call: &mut Call, values: &[Value], axis: i64, new_axis: bool) -> Step<Value> {
    let mut operands: Vec<OperandId> = Vec::new();
    let mut empty: Option<Descriptor> = None;
    for value in values {
        match value {
            Value::Tensor(id) | Value::Texts(id) => operands.push(*id),
            Value::Empty(descriptor) => empty = Some(descriptor.clone()),
            Value::Literal(literal) => {
                return Err(Refusal(format!("a tensor is of type {}, which WebNN does not have", literal.element)));
            }
            _ => return Err("an element is not a tensor".into()),
        }
    }
    if let Some(&first) = operands.first() {
        let texts = values.iter().filter(|value| matches!(value, Value::Texts(_))).count();
        if texts > 0 && texts < operands.len() {
            return Err("tensors of texts are joined with tensors of numbers".into());
        }
        if new_axis && empty.is_some() {
            return Err("the tensors differ in their shapes".into());
        }
        let rank = call.rank(first) + new_axis as usize;
        let axis = call.axis(axis, rank)?;
        let joined = if new_axis { call.stack(&operands, axis as usize) } else { call.concat(&operands, axis) };
        return joined.map(if texts > 0 { Value::Texts } else { Value::Tensor });
    }
    let mut descriptor = empty.ok_or("there are no tensors to join")?;
    let axis = call.axis(axis, descriptor.rank() + new_axis as usize)? as usize;
    if new_axis {
        descriptor.shape.insert(axis, (values.len() as u32).into());
    } else {
        let sizes = values.iter().map(|value| if let Value::Empty(d) = value { d.shape.get(axis) } else { None });
        let size: Dim = sizes.flatten().copied().sum();
        if size > u32::MAX {
            return Err(Refusal(format!("{} along an axis are too many", amount(size, "element"))));
        }
        descriptor.shape[axis] = size;
    }
    Ok(Value::Empty(descriptor))
}

fn concat_from_sequence(call: &mut Call) -> Outcome {
    let values = list(call, 0)?;
    let axis = call.int_attribute("axis").ok_or("axis is missing")?;
    let new_axis = call.int_or("new_axis", 0) != 0;
    Ok(vec![joined(call, &values, axis, new_axis)?])
}

/// The sizes of the pieces of `size`: 1 each, a constant size, or a list.
fn piece_sizes(call: &Call, size: u32) -> Step<Vec<u32>> {
    let split = call.optional_ints(1, "split")?;
    let fail = || Refusal(format!("split is {split:?}, expected sizes that add up to {size}"));
    let each = match &split {
        None => 1,
        Some(split) if call.input_sizes(1)?.is_empty() => {
            u32::try_from(split[0]).ok().filter(|&each| each > 0).ok_or_else(fail)?
        }
        Some(split) => {
            check_length(split.len())?;
            let sizes: Option<Vec<u32>> = split.iter().map(|&size| u32::try_from(size).ok()).collect();
            let sizes = sizes.filter(|sizes| sizes.iter().map(|&size| size as u64).sum::<u64>() == size as u64);
            return sizes.ok_or_else(fail);
        }
    };
    check_length(size.div_ceil(each) as usize)?;
    Ok((0..size).step_by(each as usize).map(|start| each.min(size - start)).collect())
}

fn split_to_sequence(call: &mut Call) -> Outcome {
    let mut shape = call.input_sizes(0)?;
    let axis = call.axis(call.int_or("axis", 0), shape.len())? as usize;
    let sizes = piece_sizes(call, shape[axis])?;
    let squeezed = call.value(1).is_none() && call.int_or("keepdims", 1) == 0;
    if let Some(Value::Empty(Descriptor { dtype, .. })) = call.value(0) {
        let piece = |size| {
            shape[axis] = size;
            let kept = shape.iter().enumerate().filter(|(at, _)| !squeezed || *at != axis).map(|(_, &size)| size);
            Value::Empty(Descriptor::new(dtype, kept.collect::<Vec<_>>()))
        };
        let pieces = sizes.into_iter().map(piece).collect();
        return bounded(call, pieces);
    }
    let x = call.input(0)?;
    let mut pieces = Vec::new();
    let mut start = 0;
    for size in sizes {
        pieces.push(if size == 0 {
            shape[axis] = 0;
            Value::Empty(Descriptor::new(call.dtype(x), shape.clone()))
        } else if squeezed {
            Value::Tensor(call.pick(x, axis, start)?)
        } else {
            Value::Tensor(call.slice_axis(x, axis, start, size)?)
        });
        start += size;
    }
    bounded(call, pieces)
}

fn map(call: &mut Call) -> Outcome {
    control_flow::map(&mut Unrolled::of(call))
}

fn optional(call: &mut Call) -> Outcome {
    Ok(vec![call.value(0).unwrap_or(Value::Absent)])
}

fn has_element(call: &mut Call) -> Outcome {
    let has = call.value(0).is_some() as i64;
    let truth = call.int_scalar(crate::dtype::DataType::Uint8, has);
    call.one(truth)
}

fn get_element(call: &mut Call) -> Outcome {
    Ok(vec![call.value(0).ok_or("the optional has no element")?])
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("ConcatFromSequence", "", concat_from_sequence),
    standard("Optional", "", optional),
    standard("OptionalGetElement", "", get_element),
    standard("OptionalHasElement", "", has_element),
    standard("SequenceAt", "constant positions", at),
    standard("SequenceConstruct", "", construct),
    standard("SequenceEmpty", "", |_| Ok(vec![Value::list(Vec::new())])),
    standard("SequenceErase", "constant positions", erase),
    standard("SequenceInsert", "constant positions", insert),
    standard("SequenceLength", "", length),
    standard("SequenceMap", "", map),
    standard("SplitToSequence", "constant sizes", split_to_sequence),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::Float;
    use crate::onnx::testing::*;

    fn graph() -> TestGraph {
        TestGraph::default().input("x", Float, &["4", "3"])
    }

    #[test]
    fn sequences_leave_only_their_tensors() {
        let text = graph()
            .ints("two", &[2])
            .ints("last", &[-1])
            .node("SplitToSequence", "x", "s", vec![("keepdims", Attr::Int(0))])
            .node("SequenceErase", "s last", "t", vec![])
            .node("SequenceAt", "s last", "row", vec![])
            .node("SequenceInsert", "t row two", "u", vec![])
            .node("ConcatFromSequence", "u", "y", vec![("axis", Attr::Int(0)), ("new_axis", Attr::Int(1))])
            .output("y")
            .text(17);
        assert!(text.contains("starts=[3, 0]") && text.contains("concat"), "{text}");
    }

    #[test]
    fn positions_outside_are_refused() {
        let message = graph()
            .ints("two", &[2])
            .node("SequenceConstruct", "x x", "s", vec![])
            .node("SequenceAt", "s two", "y", vec![])
            .output("y")
            .refusal(17);
        assert!(message.contains("position is 2, the sequence has 2 tensors"), "{message}");
    }
}
