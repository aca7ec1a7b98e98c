//! Operators that reshape, join, split and transpose, operators that query shapes, and constants.

use super::microsoft::blocked::separates_blocks;
use super::sequence::joined;
use crate::dimension::{Dim, numbers};
use crate::dtype::{DataType, Number};
use crate::error::amount;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::onnx::tensor::MAX_FILE_RANK;
use crate::onnx::tensor::{ElementType, Literal, checked_dims};
use crate::shape::Descriptor;

/// Reshapes `value`.
pub fn reshaped(call: &mut Call, value: Value, shape: Vec<Dim>) -> Step<Value> {
    if shape.len() > MAX_FILE_RANK {
        return Err(Refusal(format!(
            "a tensor would get {}, more than {MAX_FILE_RANK}",
            amount(shape.len(), "dimension")
        )));
    }
    Ok(match value {
        Value::Tensor(id) => Value::Tensor(call.reshape(id, &shape)?),
        Value::Literal(literal) => Value::Literal(Literal { shape: numbers(&shape), ..(*literal).clone() }.into()),
        Value::Empty(descriptor) => Value::Empty(Descriptor { shape, ..descriptor }),
        Value::Texts(_) => unreachable!("it sees their numbers"),
        Value::Sequence(_) | Value::Absent | Value::Unknown => return Err("a sequence has no shape".into()),
    })
}

fn elements(shape: &[Dim]) -> Dim {
    shape.iter().copied().product()
}

/// The target shape of `Reshape`: 0 copies a dimension, unless `allow_zero`, and a single -1 takes the remaining
/// elements.
fn target_shape(numbers: &[Dim], from: &[Dim], allow_zero: bool) -> Step<Vec<Dim>> {
    let fail = || Refusal(format!("a tensor of shape {from:?} cannot get the shape {numbers:?}"));
    let mut shape = Vec::new();
    let mut inferred = None;
    for (at, &number) in numbers.iter().enumerate() {
        shape.push(match number {
            number if inferred.is_none() && number == Dim::number(-1) => {
                inferred = Some(at);
                Dim::number(1)
            }
            number if !allow_zero && number == 0 => *from.get(at).ok_or_else(fail)?,
            number if (Dim::number(0)..=Dim::from(u32::MAX)).contains(&number) => number,
            _ => return Err(fail()),
        });
    }
    if let Some(at) = inferred {
        let rest = elements(&shape);
        if rest == 0 {
            return Err(fail());
        }
        shape[at] = elements(from) / rest;
    }
    if elements(&shape) == elements(from) { Ok(shape) } else { Err(fail()) }
}

fn reshape(call: &mut Call) -> Outcome {
    let numbers = call.int_dims(1, "shape")?;
    if separates_blocks(call, &numbers)? {
        return Ok(vec![call.required(0)?]);
    }
    let shape = target_shape(&numbers, &call.input_shape(0)?, call.int_or("allowzero", 0) != 0)?;
    let value = call.required(0)?;
    Ok(vec![reshaped(call, value, shape)?])
}

/// Merges the dimensions before `axis` into one, and those from there on into another.
fn flatten(call: &mut Call) -> Outcome {
    let shape = call.input_shape(0)?;
    let axis = call.int_or("axis", 1);
    let counted = if axis < 0 { axis + shape.len() as i64 } else { axis };
    let (before, after) = usize::try_from(counted)
        .ok()
        .and_then(|axis| shape.split_at_checked(axis))
        .ok_or_else(|| Refusal(format!("axis is {axis}, expected at most the rank of {shape:?}")))?;
    let flat = [elements(before), elements(after)];
    let value = call.required(0)?;
    Ok(vec![reshaped(call, value, flat.to_vec())?])
}

/// Axes are an attribute before opset 13, a constant since then.
pub fn axes(call: &Call) -> Step<Option<Vec<i64>>> {
    if call.opset < 13 { Ok(call.ints_attribute("axes")) } else { call.optional_ints(1, "axes") }
}

fn squeeze(call: &mut Call) -> Outcome {
    let shape = call.input_shape(0)?;
    let dropped = match axes(call)? {
        Some(axes) => call.axes(&axes, shape.len())?,
        None => (0..shape.len() as u32).filter(|&axis| shape[axis as usize] == 1).collect(),
    };
    if let Some(axis) = dropped.iter().find(|&&axis| shape[axis as usize] != 1) {
        return Err(Refusal(format!("dimension {axis} of {shape:?} cannot be squeezed, expected a size of 1")));
    }
    let kept = (0..shape.len()).filter(|axis| !dropped.contains(&(*axis as u32))).map(|axis| shape[axis]).collect();
    let value = call.required(0)?;
    Ok(vec![reshaped(call, value, kept)?])
}

/// Inserts dimensions of size 1.
///
/// # Errors
/// If the axes are computed, or not distinct dimensions of the result.
pub fn unsqueeze(call: &mut Call) -> Outcome {
    let mut shape = call.input_shape(0)?;
    let axes = axes(call)?.ok_or("axes are missing")?;
    if axes.len() > MAX_FILE_RANK {
        return Err(Refusal(format!("there are {} axes, more than {MAX_FILE_RANK}", axes.len())));
    }
    let mut axes = call.axes(&axes, shape.len() + axes.len())?;
    axes.sort_unstable();
    for axis in axes {
        shape.insert(axis as usize, Dim::number(1));
    }
    let value = call.required(0)?;
    Ok(vec![reshaped(call, value, shape)?])
}

fn concat(call: &mut Call) -> Outcome {
    let values: Vec<Value> = (0..call.input_count()).map(|index| call.required(index)).collect::<Step<_>>()?;
    Ok(vec![joined(call, &values, call.int_or("axis", 1), false)?])
}

fn transpose(call: &mut Call) -> Outcome {
    let shape = call.input_shape(0)?;
    let rank = shape.len();
    let permutation = match call.ints_attribute("perm") {
        Some(permutation) => call.axes(&permutation, rank)?,
        None => (0..rank as u32).rev().collect(),
    };
    if permutation.len() != rank {
        return Err(Refusal(format!("perm is {permutation:?}, expected a permutation of the dimensions of {shape:?}")));
    }
    if let Some(Value::Empty(descriptor)) = call.value(0) {
        let shape = permutation.iter().map(|&axis| shape[axis as usize]).collect();
        return Ok(vec![Value::Empty(Descriptor { shape, ..descriptor })]);
    }
    let x = call.input(0)?;
    let output = call.transpose(x, &permutation);
    call.one(output)
}

fn shape(call: &mut Call) -> Outcome {
    let shape = call.input_shape(0)?;
    let rank = shape.len() as i64;
    let place = |at: i64| (if at < 0 { at + rank } else { at }).clamp(0, rank) as usize;
    let (start, end) = (place(call.int_or("start", 0)), place(call.int_or("end", rank)));
    let dims = shape.get(start..end).unwrap_or(&[]);
    Ok(vec![call.dim_list(&[dims.len() as u32], dims)?])
}

fn size(call: &mut Call) -> Outcome {
    let count = elements(&call.input_shape(0)?);
    Ok(vec![call.dim_list(&[], &[count])?])
}

/// The attributes of `Constant` in all their forms.
fn constant(call: &mut Call) -> Outcome {
    for name in ["value", "sparse_value"] {
        if let Some(literal) = call.tensor_attribute(name)? {
            return Ok(vec![call.literal(literal)?]);
        }
    }
    let value = if let Some(int) = call.int_attribute("value_int") {
        call.int_list(&[], &[int])?
    } else if let Some(ints) = call.ints_attribute("value_ints") {
        call.int_list(&[ints.len() as u32], &ints)?
    } else if let Some(float) = call.float_attribute("value_float") {
        Value::Tensor(call.scalar(DataType::Float32, Number::Float(float))?)
    } else if let Some(floats) = call.floats_attribute("value_floats") {
        let shape = [floats.len() as u32];
        match floats.is_empty() {
            true => Value::Empty(Descriptor::new(DataType::Float32, shape)),
            false => Value::Tensor(call.constant(DataType::Float32, &shape, floats)?),
        }
    } else if let Some(text) = call.text_number("value_string")? {
        call.text_constant(&[], &[text])?
    } else {
        let texts = call.text_numbers("value_strings")?.unwrap_or_default();
        call.text_constant(&[texts.len() as u32], &texts)?
    };
    Ok(vec![value])
}

fn constant_of_shape(call: &mut Call) -> Outcome {
    let shape = checked_dims(&call.int_dims(0, "input")?)?;
    let value = call.tensor_attribute("value")?;
    let element = value.as_ref().map_or(ElementType::Float, |literal| literal.element);
    let dtype = call.computed_type(element, "value")?;
    if shape.iter().any(|&dim| dim == 0) {
        return Ok(vec![Value::Empty(Descriptor::new(dtype, shape))]);
    }
    let number = match value {
        Some(literal) => literal.first()?,
        None => Some(Number::Int(0)),
    };
    let scalar = call.scalar(dtype, number.ok_or_else(|| Refusal("value has no elements".to_string()))?)?;
    let output = call.expand(scalar, &shape);
    call.one(output)
}

/// Does nothing except in training.
fn dropout(call: &mut Call) -> Outcome {
    let value = call.required(0)?;
    if let Some(training) = call.given_numbers(2, "training_mode")? {
        let trains = training.iter().any(|flag| flag.to_f64() != 0.0);
        // The default ratio drops half of the elements.
        let drops = call.optional_floats(1, "ratio")?.is_none_or(|ratio| ratio.iter().any(|&ratio| ratio != 0.0));
        if trains && drops {
            return Err("training_mode is true".into());
        }
    }
    if !call.wants(1) {
        return Ok(vec![value]);
    }
    let yes = call.scalar(DataType::Uint8, Number::Int(1))?;
    let shape = call.input_shape(0)?;
    Ok(vec![value, Value::Tensor(call.expand(yes, &shape)?)])
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Concat", "", concat),
    standard("Constant", "no texts", constant),
    standard("ConstantOfShape", "", constant_of_shape),
    standard("Dropout", "inference only: passes the data through", dropout),
    standard("Flatten", "", flatten),
    standard("Reshape", "", reshape),
    standard("Shape", "", shape),
    standard("Size", "", size),
    standard("Squeeze", "", squeeze),
    standard("Transpose", "", transpose),
    standard("Unsqueeze", "", unsqueeze),
];
