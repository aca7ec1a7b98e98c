//! Operators whose results depend on the values of constants: ranges, one-hot vectors, places of nonzero elements.

use crate::dimension::{Dim, numbers};
use crate::dtype::{DataType, Element, Number};
use crate::error::amount;
use crate::ir::OperandId;
use crate::memory::{Buffer, bytes_of, elements, elements_mut};
use crate::onnx::call::{Call, Step, check_generated};
use crate::onnx::error::{Cut, Refusal};
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::onnx::stop::{ELEMENTS_BETWEEN, Stop};
use crate::ops::cumulative_sum::CumulativeSum;
use crate::ops::elementwise::Elementwise as E;
use crate::shape::Descriptor;
use crate::{with_element, with_storage};
use std::cmp::Ordering;
use std::sync::Arc;

/// Number of elements from which the limit of generated constants is checked.
const MAX_COUNTED: u32 = 1 << 20;

/// Memory for grouping equal rows, in bytes per row: their order, a half of it as scratch space, and the groups, whose
/// list can be twice as long. Single elements are sorted as numbers.
const GROUP_BYTES: usize = 4 + 2 + 2 * 8 + 2 * 8;

/// Bits by which numbers are sorted at a time.
const DIGIT: u32 = 11;

/// Maximum number of elements to list one by one if each of them depends on sizes.
const MAX_COUNTED_DIMS: u32 = 1 << 10;

/// `0, 1, ... count - 1` along `axis` of a tensor of `rank` dimensions.
pub fn places<C: Into<Dim>>(call: &mut Call, dtype: DataType, count: C, axis: usize, rank: usize) -> Step<OperandId> {
    let mut shape = vec![Dim::number(1); rank];
    shape[axis] = count.into();
    counted(call, dtype, [Dim::number(0), Dim::number(1)], &shape)
}

/// `start, start + step, ...` in a tensor of shape `shape`, at most one of whose dimensions may differ from 1. The
/// result is a constant unless the number of elements is still unknown.
///
/// # Errors
/// If there are more elements than a translation may generate.
pub fn counted(call: &mut Call, dtype: DataType, [start, step]: [Dim; 2], shape: &[Dim]) -> Step<OperandId> {
    let count: Dim = shape.iter().copied().product();
    if count > MAX_COUNTED {
        check_generated(count.shown() as u64)?;
    }
    if count.is_number() && (count <= MAX_COUNTED_DIMS || start.is_number() && step.is_number()) {
        let shape = numbers(shape);
        let elements = 0..count.pinned();
        if start.is_number() && step.is_number() {
            let (start, step) = (start.pinned(), step.pinned());
            return call.constant(dtype, &shape, elements.map(|at| start.saturating_add(at.saturating_mul(step))));
        }
        let dims: Vec<Dim> = elements.map(|at| start + step * Dim::number(at)).collect();
        return call.dims_constant(&Descriptor::new(dtype, shape), &dims);
    }
    let wide = if dtype == DataType::Int32 { dtype } else { DataType::Int64 };
    let one = call.int_scalar(wide, 1)?;
    let ones = call.expand(one, &[count])?;
    let sum = CumulativeSum { axis: 0, exclusive: true, reversed: false };
    let mut numbers = call.emit(sum, &[ones])?;
    if !(step.is_number() && step == 1) {
        let step = call.dim_scalar(wide, step)?;
        numbers = call.mul(numbers, step)?;
    }
    if !(start.is_number() && start == 0) {
        let start = call.dim_scalar(wide, start)?;
        numbers = call.add(numbers, start)?;
    }
    let numbers = call.cast(numbers, dtype)?;
    call.reshape(numbers, shape)
}

/// `start, start + delta, ...` up to `limit`, exclusive.
pub fn range(call: &mut Call) -> Outcome {
    let dtype = call.input_type(0).ok_or("start (input 0) is of a type that WebNN does not have")?;
    if let [Some(start), Some(limit), Some(delta)] = [0, 1, 2].map(|index| call.one_dim(index))
        && !(start.is_number() && limit.is_number() && delta.is_number())
    {
        return sized_range(call, dtype, [start, limit, delta]);
    }
    let (start, limit) = (call.one_number(0, "start")?, call.one_number(1, "limit")?);
    let delta = call.one_number(2, "delta")?;
    if delta.to_f64() == 0.0 {
        return Err("delta is 0".into());
    }
    let count = match (start, limit, delta) {
        (Number::Int(start), Number::Int(limit), Number::Int(delta)) => {
            let (distance, step) = ((limit - start) * delta.signum(), delta.abs());
            ((distance + step - 1).div_euclid(step)).max(0) as u64
        }
        // `as` turns negative numbers and NaN into 0.
        _ => ((limit.to_f64() - start.to_f64()) / delta.to_f64()).ceil() as u64,
    };
    check_generated(count)?;
    if count == 0 {
        return Ok(vec![Value::Empty(Descriptor::new(dtype, [0]))]);
    }
    if let (DataType::Int64, Number::Int(start), Number::Int(delta)) = (dtype, start, delta) {
        let number = |at: i64| (start as i64).wrapping_add(at.wrapping_mul(delta as i64));
        let output = call.written(&[count as u32], |numbers: &mut [i64]| {
            (0..).zip(numbers).for_each(|(at, place)| *place = number(at));
        });
        return call.one(output);
    }
    let numbers = (0..count as i128).map(|at| match (start, delta) {
        (Number::Int(start), Number::Int(delta)) => Number::Int(start + at * delta),
        _ => Number::Float(start.to_f64() + at as f64 * delta.to_f64()),
    });
    let output = call.constant(dtype, &[count as u32], numbers);
    call.one(output)
}

/// Like [`range`], if the number of elements depends on sizes still unknown.
fn sized_range(call: &mut Call, dtype: DataType, [start, limit, delta]: [Dim; 3]) -> Outcome {
    if delta == 0 {
        return Err("delta is 0".into());
    }
    let count =
        if delta > 0 { (limit - start).div_ceil(delta) } else { (start - limit).div_ceil(Dim::number(0) - delta) };
    let count = count.max(0u32);
    if count == 0 {
        return Ok(vec![Value::Empty(Descriptor::new(dtype, [0]))]);
    }
    let output = counted(call, dtype, [start, delta], &[count]);
    call.one(output)
}

/// A matrix of the input's shape, with ones on a diagonal.
fn eye_like(call: &mut Call) -> Outcome {
    let shape = call.input_shape(0)?;
    if shape.len() != 2 {
        return Err(Refusal(format!("the input has shape {shape:?}, expected 2 dimensions")));
    }
    let dtype = match call.type_attribute("dtype")? {
        Some(element) => {
            element.webnn().ok_or_else(|| Refusal(format!("dtype is {element}, which WebNN does not have")))?
        }
        None => call.input_type(0).ok_or("the input is of a type that WebNN does not have")?,
    };
    if shape.iter().any(|&size| size == 0) {
        return Ok(vec![Value::Empty(Descriptor::new(dtype, shape))]);
    }
    let diagonal = Dim::number(i64::from(clamped(call.int_or("k", 0))));
    let on_diagonal = counted(call, DataType::Int32, [diagonal, Dim::number(1)], &[shape[0], Dim::number(1)])?;
    let columns = places(call, DataType::Int32, shape[1], 1, 2)?;
    let is_on = call.emit(E::Equal, &[on_diagonal, columns])?;
    let output = call.cast(is_on, dtype);
    call.one(output)
}

/// Clamps a diagonal to WebNN's range; distant ones are all equivalent.
pub fn clamped(diagonal: i64) -> i32 {
    diagonal.clamp(i32::MIN as i64 / 2, i32::MAX as i64 / 2) as i32
}

/// The second of `values` where the position along `axis` equals the index, otherwise the first. Negative indices count
/// from the end.
fn one_hot(call: &mut Call) -> Outcome {
    let depth = match call.one_dim(1) {
        Some(depth) => depth,
        None => Dim::number(call.one_number(1, "depth")?.to_f64() as i64),
    };
    if depth < 1 || depth > i32::MAX as u32 {
        return Err(Refusal(format!("depth is {depth}, expected a number from 1 to {}", i32::MAX)));
    }
    let (indices, values) = (call.input(0)?, call.input(2)?);
    if call.shape(values) != [Dim::number(2)] {
        return Err(Refusal(format!("values has shape {:?}, expected [2]", call.shape(values))));
    }
    let shape = call.shape(indices);
    let axis = call.axis(call.int_or("axis", -1), shape.len() + 1)? as usize;
    // These types may be too narrow for the depth.
    let indices = match call.dtype(indices) {
        DataType::Int8 | DataType::Uint8 => call.cast(indices, DataType::Int32)?,
        DataType::Float16 => call.cast(indices, DataType::Float32)?,
        _ => indices,
    };
    let zero = call.scalar_like(indices, 0.0)?;
    let size = call.dim_scalar(call.dtype(indices), depth)?;
    let is_below = call.emit(E::Lesser, &[indices, zero])?;
    let from_end = call.add(indices, size)?;
    let indices = call.select(is_below, from_end, indices)?;
    let mut unsqueezed = shape;
    unsqueezed.insert(axis, Dim::number(1));
    let indices = call.reshape(indices, &unsqueezed)?;
    let all = places(call, call.dtype(indices), depth, axis, unsqueezed.len())?;
    let is_hot = call.emit(E::Equal, &[indices, all])?;
    let (off, on) = (call.slice_axis(values, 0, 0u32, 1u32)?, call.slice_axis(values, 0, 1u32, 1u32)?);
    let (off, on) = (call.to_scalar(off)?, call.to_scalar(on)?);
    let output = call.select(is_hot, on, off);
    call.one(output)
}

/// Refuses a node whose number of results depends on computed elements.
fn decided_by_data(what: &str) -> Refusal {
    let reason = format!("{what} is computed from inputs of the model: the number of results is unknown");
    Refusal(reason).unless(Cut::Elements)
}

/// The coordinates of the nonzero elements, one row per dimension.
fn non_zero(call: &mut Call) -> Outcome {
    let (dtype, bytes) = call.constant_elements(0)?.ok_or_else(|| decided_by_data("the input"))?;
    let shape = call.input_sizes(0)?;
    let stop = call.stop();
    let count = count_nonzero(dtype, bytes.bytes(), &stop)?;
    let found = [shape.len() as u32, count as u32];
    if found.contains(&0) {
        return Ok(vec![Value::Empty(Descriptor::new(DataType::Int64, found))]);
    }
    let mut listed = Ok(());
    let coordinates = call.written(&found, |coordinates: &mut [i64]| {
        listed = list_nonzero(dtype, bytes.bytes(), &shape, coordinates, &stop);
    });
    listed?;
    call.one(coordinates)
}

/// The number of elements that differ from 0, unless `stop` ends the count.
fn count_nonzero(dtype: DataType, bytes: &[u8], stop: &Stop) -> Step<usize> {
    let mut count = 0;
    with_element!(dtype, T => {
        for block in elements::<T>(bytes).chunks(ELEMENTS_BETWEEN) {
            stop.check()?;
            count += block.iter().map(|element| u32::from(*element != T::default())).sum::<u32>() as usize;
        }
    });
    Ok(count)
}

/// Writes the coordinates of all elements of a tensor of this shape that differ from 0, one row per dimension, unless
/// `stop` ends that. There are as many as the rows are long.
fn list_nonzero(dtype: DataType, bytes: &[u8], shape: &[u32], coordinates: &mut [i64], stop: &Stop) -> Step<()> {
    let (&width, leading) = shape.split_last().ok_or("the input is a scalar")?;
    let mut axes: Vec<&mut [i64]> = coordinates.chunks_exact_mut(coordinates.len() / shape.len()).collect();
    let (last, axes) = axes.split_last_mut().expect("a row per dimension");
    let (mut at, mut found) = (vec![0; leading.len()], 0);
    with_element!(dtype, T => {
        for row in elements::<T>(bytes).chunks_exact(width as usize) {
            let before = found;
            for (block, elements) in row.chunks(ELEMENTS_BETWEEN).enumerate() {
                stop.check()?;
                found = list_in_row(elements, block * ELEMENTS_BETWEEN, last, found);
            }
            axes.iter_mut().zip(&at).for_each(|(axis, &at)| axis[before..found].fill(at));
            for (at, &size) in at.iter_mut().zip(leading).rev() {
                *at += 1;
                if *at < i64::from(size) {
                    break;
                }
                *at = 0;
            }
        }
    });
    Ok(())
}

/// Elements to look at together: most of them are often 0.
const LOOK: usize = 16;

/// Appends the places of nonzero elements to the first `found` entries of `places`; `first` is the place of `elements[0]`.
/// Returns the new number of entries.
fn list_in_row<T: Element>(elements: &[T], first: usize, places: &mut [i64], mut found: usize) -> usize {
    for (block, elements) in elements.chunks(LOOK).enumerate() {
        if !elements.iter().fold(false, |any, element| any | (*element != T::default())) {
            continue;
        }
        let first = (first + block * LOOK) as i64;
        // Nobody can guess whether an element is 0: each is written, and the next one may overwrite it.
        for (place, element) in (first..).zip(elements) {
            if let Some(next) = places.get_mut(found) {
                *next = place;
            }
            found += usize::from(*element != T::default());
        }
    }
    found
}

/// The rows of `x` along `axis` at these places, which exist. During a run, they are copied right away.
fn rows_at(call: &mut Call, x: OperandId, axis: u32, places: OperandId) -> Step<OperandId> {
    if !call.is_evaluated() {
        return call.gather(x, places, axis);
    }
    let (mut descriptor, from, places) = (call.descriptor(x), call.bytes_of(x)?, call.bytes_of(places)?);
    let [outer, size, inner] = descriptor.around(axis as usize);
    let places = elements::<i64>(places.bytes());
    descriptor.shape[axis as usize] = Dim::from(places.len() as u32);
    call.filled(descriptor, |rows| {
        if let 1 | 2 | 4 | 8 = inner {
            return with_storage!(inner, T => {
                let blocks = elements::<T>(from.bytes()).chunks_exact(size);
                for (rows, from) in elements_mut::<T>(rows).chunks_exact_mut(places.len()).zip(blocks) {
                    rows.iter_mut().zip(places).for_each(|(row, &place)| *row = from[place as usize]);
                }
            });
        }
        let mut rows = rows.chunks_exact_mut(inner);
        for block in 0..outer {
            // The places first: a row that is taken after the last one would be lost.
            for (&place, row) in places.iter().zip(rows.by_ref()) {
                row.copy_from_slice(&from.bytes()[(block * size + place as usize) * inner..][..inner]);
            }
        }
    })
}

/// The operand at `index`, and the axis; without an axis, the operand is flattened.
fn along_axis(call: &mut Call, index: usize) -> Step<(OperandId, u32)> {
    let x = call.input(index)?;
    match call.int_attribute("axis") {
        Some(axis) => Ok((x, call.axis(axis, call.rank(x))?)),
        None => {
            let count = call.descriptor(x).count();
            Ok((call.reshape(x, &[count])?, 0))
        }
    }
}

/// Like [`along_axis`], for input 0 if it has no elements.
fn empty_along_axis(call: &Call) -> Step<Option<(Descriptor, u32)>> {
    let Some(Value::Empty(descriptor)) = call.value(0) else { return Ok(None) };
    Ok(Some(match call.int_attribute("axis") {
        Some(axis) => {
            let axis = call.axis(axis, descriptor.rank())?;
            (descriptor, axis)
        }
        None => (Descriptor::new(descriptor.dtype, [0u32]), 0),
    }))
}

/// The rows along an axis that a constant condition selects.
fn compress(call: &mut Call) -> Outcome {
    let (dtype, condition) = call.constant_elements(1)?.ok_or_else(|| decided_by_data("condition"))?;
    if let Some((empty, axis)) = empty_along_axis(call)? {
        let mut output = empty;
        output.shape[axis as usize] = (count_nonzero(dtype, condition.bytes(), &call.stop())? as u32).into();
        return output
            .is_empty()
            .then(|| vec![Value::Empty(output)])
            .ok_or_else(|| "there is nothing to select".into());
    }
    let (x, axis) = along_axis(call, 0)?;
    let mut shape = call.shape(x);
    let stop = call.stop();
    let count = count_nonzero(dtype, condition.bytes(), &stop)? as u32;
    if count == 0 {
        shape[axis as usize] = Dim::ZERO;
        return Ok(vec![Value::Empty(Descriptor::new(call.dtype(x), shape))]);
    }
    let (mut listed, mut last) = (Ok(()), 0);
    let kept = call.written(&[count], |kept: &mut [i64]| {
        let given = (condition.len() / dtype.size()) as u32;
        listed = list_nonzero(dtype, condition.bytes(), &[given], kept, &stop);
        last = kept[kept.len() - 1];
    })?;
    listed?;
    if Dim::number(last) >= shape[axis as usize] {
        let given = condition.len() / dtype.size();
        return Err(Refusal(format!("condition has {}, more than the dimension", amount(given, "element"))));
    }
    let output = rows_at(call, x, axis, kept);
    call.one(output)
}

/// Orders elements; NaN is larger than all others.
fn order<T: Element>(a: &T, b: &T) -> Ordering {
    let is_nan = |x: &T| x.partial_cmp(x).is_none();
    a.partial_cmp(b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

/// Equal rows of a tensor.
struct Groups {
    /// All rows, those of a group next to each other, in the order of the tensor.
    rows: Vec<u32>,
    /// Where each group begins in `rows`, and where it ends.
    groups: Vec<(u32, u32)>,
}

/// Sorts rows of `inner` elements, unless `stop` ends that. The sort is stable: it merges sorted blocks of growing length,
/// which the one of the standard library recognizes.
fn sort(rows: &mut [u32], inner: usize, stop: &Stop, compare: impl Fn(&u32, &u32) -> Ordering) -> Step<()> {
    let mut length = (ELEMENTS_BETWEEN / 16 / inner).max(2);
    loop {
        for block in rows.chunks_mut(length) {
            stop.check()?;
            block.sort_by(&compare);
        }
        if length >= rows.len() {
            return Ok(());
        }
        length = length.saturating_mul(2);
    }
}

/// Groups the rows of a tensor `[outer, count, inner]`, in ascending order, unless `stop` ends that.
fn grouped<T: Element>(elements: &[T], count: usize, inner: usize, stop: &Stop) -> Step<Groups> {
    if count == elements.len()
        && let Some(order) = sorted_elements(elements, stop)?
    {
        let rows: Vec<u32> = order.iter().map(|&entry| entry as u32).collect();
        return Ok(Groups { groups: runs(&order, |a, b| a >> 32 == b >> 32), rows });
    }
    let row = |at: u32| {
        let at = at as usize;
        (0..elements.len() / (count * inner)).flat_map(move |outer| &elements[(outer * count + at) * inner..][..inner])
    };
    let compare = |&a: &u32, &b: &u32| {
        let differing = row(a).zip(row(b)).map(|(a, b)| order(a, b)).find(|order| order.is_ne());
        differing.unwrap_or(Ordering::Equal)
    };
    // The sort is stable: the first of each group is the first one in the tensor.
    let mut rows: Vec<u32> = (0..count as u32).collect();
    sort(&mut rows, elements.len() / count, stop, compare)?;
    Ok(Groups { groups: runs(&rows, |a, b| compare(a, b).is_eq()), rows })
}

/// Where each run of the same items begins, and where it ends.
fn runs<I>(items: &[I], is_same: impl FnMut(&I, &I) -> bool) -> Vec<(u32, u32)> {
    let mut end = 0;
    let run = |run: &[I]| {
        let start = end;
        end += run.len() as u32;
        (start, end)
    };
    items.chunk_by(is_same).map(run).collect()
}

/// The number of an element in the [`order`] of all elements of its type.
fn rank<T: Element>(element: T) -> u64 {
    match element.number() {
        Number::Int(x) => (x as u64) ^ if T::DATA_TYPE == DataType::Uint64 { 0 } else { 1 << 63 },
        Number::Float(x) if x.is_nan() => u64::from(u32::MAX),
        Number::Float(x) => {
            // The sum of the two zeros is the positive one.
            let bits = (x as f32 + 0.0).to_bits();
            u64::from(bits ^ (((bits as i32 >> 31) as u32) | 1 << 31))
        }
    }
}

/// For each element in ascending order, and in their own if they are equal: what it is above the smallest one, in the
/// upper 32 bits, and its place. `None` if that is more than 32 bits can say.
fn sorted_elements<T: Element>(elements: &[T], stop: &Stop) -> Step<Option<Vec<u64>>> {
    let (mut least, mut most) = (u64::MAX, 0);
    for block in elements.chunks(ELEMENTS_BETWEEN) {
        stop.check()?;
        for &element in block {
            let rank = rank(element);
            (least, most) = (least.min(rank), most.max(rank));
        }
    }
    let range = most - least;
    if range > u64::from(u32::MAX) {
        return Ok(None);
    }
    let mut entries: Vec<u64> = (0..).zip(elements).map(|(at, &element)| (rank(element) - least) << 32 | at).collect();
    let mut sorted = vec![0; entries.len()];
    let bits = u64::BITS - range.leading_zeros();
    for shift in (32..32 + bits).step_by(DIGIT as usize) {
        let digit = |entry: u64| (entry >> shift) as usize & ((1 << DIGIT) - 1);
        let mut starts = [0u32; 1 << DIGIT];
        for block in entries.chunks(ELEMENTS_BETWEEN) {
            stop.check()?;
            block.iter().for_each(|&entry| starts[digit(entry)] += 1);
        }
        let mut end = 0;
        starts.iter_mut().for_each(|start| end += std::mem::replace(start, end));
        for block in entries.chunks(ELEMENTS_BETWEEN) {
            stop.check()?;
            for &entry in block {
                let start = &mut starts[digit(entry)];
                sorted[*start as usize] = entry;
                *start += 1;
            }
        }
        std::mem::swap(&mut entries, &mut sorted);
    }
    Ok(Some(entries))
}

fn unique(call: &mut Call) -> Outcome {
    let is_sorted = call.int_or("sorted", 1) != 0;
    distinct(call, is_sorted)
}

/// The distinct rows of a constant along an axis, the first occurrence of each, the index of each row among them, and
/// their counts. The rows are in ascending order or in that of their occurrence.
///
/// # Errors
/// If the input is computed.
pub fn distinct(call: &mut Call, is_sorted: bool) -> Outcome {
    if let Some(Value::Texts(id)) = call.value(0) {
        // Texts are ordered as texts, not as their numbers are.
        let ranks = call.text_ranks(0)?;
        call.replace(0, id);
        return distinct_elements(call, is_sorted, (DataType::Int32, Arc::new(Buffer::copy_of(bytes_of(&ranks))?)))
            .map(|mut outputs| {
                outputs[0] = outputs[0].clone().of_texts();
                outputs
            });
    }
    let elements = call.constant_elements(0)?.ok_or_else(|| decided_by_data("the input"))?;
    distinct_elements(call, is_sorted, elements)
}

/// Like [`distinct`], by these elements of the input.
fn distinct_elements(call: &mut Call, is_sorted: bool, (dtype, bytes): (DataType, Arc<Buffer>)) -> Outcome {
    if let Some((descriptor, axis)) = empty_along_axis(call)?
        && descriptor.shape[axis as usize] == 0
    {
        let none = || Value::Empty(Descriptor::new(DataType::Int64, [0u32]));
        return Ok(vec![Value::Empty(descriptor), none(), none(), none()]);
    }
    let (x, axis) = along_axis(call, 0)?;
    let shape = call.sizes(x);
    let (count, inner) = (shape[axis as usize] as usize, crate::shape::elements(&shape[axis as usize + 1..]));
    call.take_room(count * GROUP_BYTES)?;
    let Groups { rows, mut groups } =
        with_element!(dtype, T => grouped(elements::<T>(bytes.bytes()), count, inner, &call.stop())?);
    if !is_sorted {
        groups.sort_unstable_by_key(|&(start, _)| rows[start as usize]);
    }
    let size = [groups.len() as u32];
    let listed = |call: &mut Call, number: &dyn Fn(u32, u32) -> u32| {
        call.written(&size, |numbers: &mut [i64]| {
            numbers.iter_mut().zip(&groups).for_each(|(place, &(start, end))| *place = number(start, end).into());
        })
    };
    let found = listed(call, &|start, _| rows[start as usize])?;
    let inverse = call.written(&[count as u32], |inverse: &mut [i64]| {
        for (at, &(start, end)) in groups.iter().enumerate() {
            rows[start as usize..end as usize].iter().for_each(|&row| inverse[row as usize] = at as i64);
        }
    })?;
    let counts = listed(call, &|start, end| end - start)?;
    let rows = rows_at(call, x, axis, found)?;
    Ok([rows, found, inverse, counts].map(Value::Tensor).to_vec())
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Compress", "constant conditions", compress),
    standard("EyeLike", "", eye_like),
    standard("NonZero", "constant inputs", non_zero),
    standard("OneHot", "constant depths", one_hot),
    standard("Range", "constant limits, at most 1048576 elements", range),
    standard("Unique", "constant inputs", unique),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::tensor::ElementType::{Float, Int64};
    use crate::onnx::testing::{Attr, TestGraph};

    #[test]
    fn ranges_are_constants_of_a_reasonable_size() {
        let range = |limit| {
            let graph = TestGraph::default().ints("start", &[0]).ints("limit", &[limit]).ints("delta", &[-3]);
            graph.node("Range", "start limit delta", "y", vec![]).output("y")
        };
        assert!(range(-7).text(17).contains("constant int64 [3]"));
        assert!(range(i64::MIN).refusal(17).contains("it needs a constant of 3074457345618258603 elements"));
        let computed = TestGraph::default().input("n", Int64, &[]).ints("start", &[0]).ints("delta", &[1]);
        let refusal = computed.node("Range", "start n delta", "y", vec![]).output("y").refusal(17);
        assert!(refusal.contains("limit (input 1) is computed from inputs of the model"), "{refusal}");
    }

    #[test]
    fn results_that_depend_on_values_require_constants() {
        let graph = TestGraph::default().input("x", Float, &["2"]).node("NonZero", "x", "y", vec![]).output("y");
        assert!(graph.refusal(17).contains("the number of results is unknown"));
        let graph = TestGraph::default().ints("x", &[0, 5, 0, 7]).node("NonZero", "x", "y", vec![]).output("y");
        assert!(graph.text(17).contains("constant int64 [1, 2]"));
    }

    #[test]
    fn equal_elements_are_grouped_in_ascending_order() {
        fn check<T: Element>(elements: &[T], expected: &[&[u32]]) {
            let Ok(Groups { rows, groups }) = grouped(elements, elements.len(), 1, &Stop::default()) else {
                panic!("nothing ends it")
            };
            let found: Vec<&[u32]> = groups.iter().map(|&(start, end)| &rows[start as usize..end as usize]).collect();
            assert_eq!(found, expected, "{elements:?}");
        }
        check(&[3i32, -1, 3, i32::MIN, i32::MAX, -1], &[&[3], &[1, 5], &[0, 2], &[4]]);
        check(&[i64::MAX, i64::MIN, 0, i64::MAX], &[&[1], &[2], &[0, 3]]);
        check(&[5i64, -7, 5, 1000, -7], &[&[1, 4], &[0, 2], &[3]]);
        check(&[u64::MAX, 0, 1, u64::MAX], &[&[1], &[2], &[0, 3]]);
        check(&[-3i8, 5, -3, 0], &[&[0, 2], &[3], &[1]]);
        check(&[7u32], &[&[0]]);
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        check(&[1.5, nan, -0.0, 0.0, -infinity, nan, infinity], &[&[4], &[2, 3], &[0], &[6], &[1, 5]]);
    }

    #[test]
    fn places_of_nonzero_elements_are_listed_in_order() {
        for shape in [vec![1], vec![100], vec![3, 40, 21], vec![70, 1], vec![2, 3, 1, 5]] {
            let count: u32 = shape.iter().product();
            let elements: Vec<f32> =
                (0..count).map(|at| if at % 7 == 0 || at % 5 < 2 && at > 1000 { -1.5 } else { -0.0 }).collect();
            let bytes = crate::memory::bytes_of(&elements);
            let stop = Stop::default();
            let Ok(found) = count_nonzero(DataType::Float32, bytes, &stop) else { panic!("nothing ends it") };
            let mut listed = vec![0; found * shape.len()];
            assert!(list_nonzero(DataType::Float32, bytes, &shape, &mut listed, &stop).is_ok());
            let strides = crate::shape::strides(&shape);
            let nonzero: Vec<usize> = (0..elements.len()).filter(|&at| elements[at] != 0.0).collect();
            let expected: Vec<i64> = (0..shape.len())
                .flat_map(|axis| nonzero.iter().map(move |at| (axis, at)))
                .map(|(axis, at)| (at / strides[axis] % shape[axis] as usize) as i64)
                .collect();
            assert_eq!(listed, expected, "{shape:?}");
        }
    }

    #[test]
    fn one_hot_vectors_are_comparisons() {
        let graph = TestGraph::default().input("x", Int64, &["2", "3"]).ints("depth", &[5]);
        let graph = graph.floats("values", &[2], &[0.0, 1.0]);
        let text = graph.node("OneHot", "x depth values", "y", vec![("axis", Attr::Int(1))]).output("y").text(11);
        assert!(text.contains("constant int64 [1, 5, 1]") && text.contains("where"), "{text}");
    }
}
