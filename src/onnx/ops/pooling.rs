//! Pooling over any number of spatial dimensions.
//!
//! Maxima, averages and norms are separable: dimensions that WebNN cannot pool together are pooled one after another.

use super::window::{Window, per_dimension, window};
use crate::dimension::{Dim, numbers};
use crate::dtype::DataType;
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step, check_generated};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::arg_min_max::{ArgAttributes, ArgMinMax};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::pool2d::{Pool2d, Pool2dAttributes, PoolKind};
use crate::ops::reduce::ReduceKind;
use crate::ops::scatter::ScatterElements;

/// A pooling: its window, with padding for this operator, and the sizes of the output.
struct Pooling {
    window: Window,
    outputs: Vec<Dim>,
    /// Trailing padding for partial windows, in addition to that of the attributes.
    partial: Vec<Dim>,
}

/// The spatial dimensions of a pooling's input.
fn spatial(shape: &[Dim]) -> Step<&[Dim]> {
    match shape.len() {
        3.. => Ok(&shape[2..]),
        rank => Err(Refusal(format!("the input has rank {rank}, expected at least 3"))),
    }
}

/// The parameters of a pooling for an input of this shape. If partial windows count, the trailing padding is what they
/// need.
fn pooling(call: &Call, shape: &[Dim]) -> Step<Pooling> {
    let spatial = spatial(shape)?;
    if !call.has_attribute("kernel_shape") {
        return Err("kernel_shape is missing".into());
    }
    let kernel = per_dimension(call, "kernel_shape", spatial.len(), 1)?;
    let mut window = window(call, spatial, kernel)?;
    let automatic = !matches!(call.text_or("auto_pad", "NOTSET").as_str(), "NOTSET" | "");
    let ceil = call.int_or("ceil_mode", 0) != 0 && !automatic;
    let (mut outputs, mut partial) = (Vec::new(), Vec::new());
    for (at, &size) in spatial.iter().enumerate() {
        let ([begin, end], stride) = (window.padding[at], window.strides[at]);
        let (inside, reach) = (size + begin, Dim::number(window.reach(at) as i64));
        let room = inside + end - reach;
        let mut count = if ceil { room.div_ceil(stride) } else { room / stride } + 1;
        if ceil {
            // The last window must start inside of the input or the leading padding.
            count = count - ((count - 1) * stride / inside.max(1u32)).max(0u32).min(1u32);
        }
        if count < 1 {
            let size = inside + end;
            return Err(Refusal(format!(
                "a window of {} does not fit into {size} with its padding",
                amount(reach, "element")
            )));
        }
        let reached = if ceil { ((count - 1) * stride + reach - inside).max(0u32) } else { end };
        if reached > u32::MAX {
            return Err(Refusal(format!("a padding of {begin} and {} is too large", amount(reached, "element"))));
        }
        window.padding[at] = [begin, reached];
        partial.push((reached - end).max(0u32));
        outputs.push(count);
    }
    Ok(Pooling { window, outputs, partial })
}

/// Pools the spatial dimensions of `x`, rounding output sizes down.
fn pool(call: &mut Call, kind: PoolKind, x: OperandId, window: &Window) -> Step<OperandId> {
    let count = window.kernel.len();
    let last = count.min(2);
    let mut y = pool_part(call, kind, x, 2 + count - last, &window.part(count - last, last))?;
    for at in 0..count - last {
        y = pool_part(call, kind, y, 2 + at, &window.part(at, 1))?;
    }
    Ok(y)
}

/// Pools one or two dimensions from `axis` on.
fn pool_part(call: &mut Call, kind: PoolKind, x: OperandId, axis: usize, window: &Window) -> Step<OperandId> {
    let shape = call.shape(x);
    let count = window.kernel.len();
    if window.kernel.iter().all(|&size| size == 1)
        && window.strides.iter().all(|&stride| stride == 1)
        && window.padding.iter().flatten().all(|&padding| padding == 0)
        && kind != PoolKind::L2
    {
        return Ok(x);
    }
    let (before, after) = (&shape[..axis], &shape[axis + count..]);
    let images = [before[0], before[1..].iter().copied().product()];
    // A single dimension becomes the width if it is the last one, otherwise the height.
    let one = Dim::number(1);
    let (plane, row): ([Dim; 2], bool) = match count {
        2 => ([shape[axis], shape[axis + 1]], false),
        _ if after.is_empty() => ([one, shape[axis]], true),
        _ => ([shape[axis], after.iter().copied().product()], false),
    };
    let mut window = if row { window.with_row() } else { window.clone() };
    if window.kernel.len() < 2 {
        window.kernel.push(1);
        window.strides.push(1);
        window.dilations.push(1);
        window.padding.push([Dim::number(0); 2]);
    }
    let x = call.reshape(x, &[images, plane].concat())?;
    let attributes = Pool2dAttributes {
        padding: window.flat_padding(),
        window_dimensions: Some(window.kernel),
        strides: window.strides,
        dilations: window.dilations,
        ..Default::default()
    };
    let y = call.emit(Pool2d { kind, attributes }, &[x])?;
    let pooled = call.shape(y)[2..].to_vec();
    let middle = match (count, row) {
        (2, _) => pooled,
        (_, true) => vec![pooled[1]],
        _ => vec![pooled[0]],
    };
    call.reshape(y, &[before, &middle, after].concat())
}

/// Pads `x` with zeros as the window says; returns the result and the window without padding.
fn with_zeros(call: &mut Call, x: OperandId, window: &Window) -> Step<(OperandId, Window)> {
    let none = [Dim::number(0); 2];
    let x = call.pad(x, &[&[none; 2], &window.padding[..]].concat())?;
    Ok((x, Window { padding: vec![none; window.padding.len()], ..window.clone() }))
}

/// Averages `x`, `[N, C, ...]`, as the node's attributes say.
///
/// # Errors
/// If they do not match the input.
pub fn average(call: &mut Call, x: OperandId) -> Step<OperandId> {
    let mut pooling = pooling(call, &call.shape(x))?;
    let mut input = x;
    if call.int_or("count_include_pad", 0) != 0 {
        // Zeros of the padding count; the parts of partial windows beyond them do not.
        for (padding, &partial) in pooling.window.padding.iter_mut().zip(&pooling.partial) {
            padding[1] = padding[1] - partial;
        }
        (input, pooling.window) = with_zeros(call, x, &pooling.window)?;
        for (padding, &partial) in pooling.window.padding.iter_mut().zip(&pooling.partial) {
            padding[1] = partial;
        }
    }
    pool(call, PoolKind::Average, input, &pooling.window)
}

/// `AveragePool`.
pub fn average_pool(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let y = average(call, x);
    call.one(y)
}

/// `MaxPool`.
pub fn max_pool(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let pooling = pooling(call, &call.shape(x))?;
    let y = pool(call, PoolKind::Max, x, &pooling.window)?;
    let mut outputs = vec![Value::Tensor(y)];
    if call.wants(1) {
        outputs.push(Value::Tensor(max_places(call, x, &pooling)?));
    }
    Ok(outputs)
}

/// The indices of the maxima among all elements of `x`, as int64.
fn max_places(call: &mut Call, x: OperandId, pooling: &Pooling) -> Step<OperandId> {
    let shape = call.sizes(x);
    let spatial = &shape[2..];
    let images = shape[0] * shape[1];
    let column_major = call.int_or("storage_order", 0) != 0;
    let size: i64 = spatial.iter().map(|&dim| dim as i64).product();
    let (places, row_numbers, shown) = window_elements(call, pooling, spatial, column_major)?;
    let count = row_numbers.len() as u32 / places;
    let rows = call.constant(DataType::Int32, &[places, count], row_numbers)?;
    let flat = call.reshape(x, &[images, size as u32])?;
    let windows = call.gather(flat, rows, 1)?;
    let attributes = ArgAttributes { axis: 2, keep_dimensions: false, output_data_type: DataType::Int64 };
    let best = call.emit(ArgMinMax { max: true, attributes }, &[windows])?;
    let starts = (0..places as i64).map(|place| place * count as i64);
    let starts = call.constant(DataType::Int64, &[places], starts)?;
    let best = call.add(best, starts)?;
    let shown = call.constant(DataType::Int64, &[places * count], shown)?;
    let best = call.gather(shown, best, 0)?;
    let firsts = call.constant(DataType::Int64, &[images, 1], (0..images as i64).map(|image| image * size))?;
    let best = call.add(best, firsts)?;
    call.reshape(best, &[&shape[..2], &numbers(&pooling.outputs)].concat())
}

/// Memory for listing the elements of windows, in bytes per element: its indices in a list of its own, and two numbers.
const ELEMENT_BYTES: usize = 64 + 2 * size_of::<i64>();

/// The number of places in the window, and for each of them the indices of the image elements that it covers, in
/// row-major order and in the output's order. Elements in the padding are replaced by the first one outside of it,
/// which changes neither a maximum nor the place of its first occurrence.
fn window_elements(
    call: &Call,
    pooling: &Pooling,
    spatial: &[u32],
    column_major: bool,
) -> Step<(u32, Vec<i64>, Vec<i64>)> {
    let Pooling { window, outputs, .. } = pooling;
    let (outputs, begins) =
        (numbers(outputs), window.padding.iter().map(|[begin, _]| begin.pinned()).collect::<Vec<_>>());
    let product = |sizes: &[u32]| sizes.iter().fold(1u64, |n, &size| n.saturating_mul(size as u64));
    let count = product(&outputs).saturating_mul(product(&window.kernel));
    check_generated(count)?;
    call.check_lists(count as usize * ELEMENT_BYTES)?;
    let number = |place: &[u32], column_major: bool| {
        let pairs = place.iter().zip(spatial);
        let step = |number: i64, (&at, &dim): (&u32, &u32)| number * dim as i64 + at as i64;
        if column_major { pairs.rev().fold(0, step) } else { pairs.fold(0, step) }
    };
    let (places, steps) = (indices(&outputs), indices(&window.kernel));
    let (mut rows, mut shown) = (Vec::new(), Vec::new());
    for place in &places {
        let element = |step: &Vec<u32>| -> Option<[i64; 2]> {
            let at = |dim: usize| {
                let at = place[dim] as i64 * window.strides[dim] as i64
                    + step[dim] as i64 * window.dilations[dim] as i64
                    - begins[dim];
                u32::try_from(at).ok().filter(|&at| at < spatial[dim])
            };
            let element: Vec<u32> = (0..spatial.len()).map(at).collect::<Option<_>>()?;
            Some([number(&element, false), number(&element, column_major)])
        };
        let first = steps.iter().find_map(element).ok_or("a window covers padding only")?;
        for step in &steps {
            let [row, other] = element(step).unwrap_or(first);
            rows.push(row);
            shown.push(other);
        }
    }
    Ok((places.len() as u32, rows, shown))
}

/// All indices into a tensor of this shape, in row-major order.
fn indices(shape: &[u32]) -> Vec<Vec<u32>> {
    shape.iter().fold(vec![Vec::new()], |all, &size| {
        all.iter().flat_map(|index| (0..size).map(|at| [index.as_slice(), &[at]].concat())).collect()
    })
}

/// The powers of magnitudes that a p-norm sums.
fn powers(call: &mut Call, x: OperandId, p: i64) -> Step<OperandId> {
    let magnitude = call.emit(E::Abs, &[x])?;
    if p == 1 {
        return Ok(magnitude);
    }
    let p = call.scalar_like(x, p as f64)?;
    call.emit(E::Pow, &[magnitude, p])
}

/// The p-norm, given the sum of powers.
fn root(call: &mut Call, sum: OperandId, p: i64) -> Step<OperandId> {
    if p == 1 {
        return Ok(sum);
    }
    let exponent = call.scalar_like(sum, 1.0 / p as f64)?;
    call.emit(E::Pow, &[sum, exponent])
}

/// The attribute `p` of a norm.
fn norm_order(call: &Call) -> Step<i64> {
    match call.int_or("p", 2) {
        p @ 1.. => Ok(p),
        p => Err(Refusal(format!("p is {p}, expected a number above 0"))),
    }
}

fn lp_pool(call: &mut Call) -> Outcome {
    let x = call.input(0)?;
    let pooling = pooling(call, &call.shape(x))?;
    let p = norm_order(call)?;
    if p == 2 {
        let y = pool(call, PoolKind::L2, x, &pooling.window);
        return call.one(y);
    }
    let powers = powers(call, x, p)?;
    let (padded, window) = with_zeros(call, powers, &pooling.window)?;
    let mean = pool(call, PoolKind::Average, padded, &window)?;
    let count: f64 = window.kernel.iter().map(|&size| size as f64).product();
    let sum = call.scale(mean, count)?;
    let y = root(call, sum, p);
    call.one(y)
}

/// Pools all elements of a channel.
pub fn global(call: &mut Call, kind: ReduceKind) -> Outcome {
    let x = call.input(0)?;
    let shape = call.shape(x);
    let axes: Vec<u32> = (2..2 + spatial(&shape)?.len() as u32).collect();
    let y = call.reduce(kind, x, &axes, true);
    call.one(y)
}

fn global_lp_pool(call: &mut Call) -> Outcome {
    let p = norm_order(call)?;
    if p <= 2 {
        return global(call, if p == 1 { ReduceKind::L1 } else { ReduceKind::L2 });
    }
    let x = call.input(0)?;
    let shape = call.shape(x);
    let axes: Vec<u32> = (2..2 + spatial(&shape)?.len() as u32).collect();
    let powers = powers(call, x, p)?;
    let sum = call.reduce(ReduceKind::Sum, powers, &axes, true)?;
    let y = root(call, sum, p);
    call.one(y)
}

/// Scatters elements back to the places that `MaxPool` returned, among zeros.
fn max_unpool(call: &mut Call) -> Outcome {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let shape = call.shape(x);
    let spatial = spatial(&shape)?;
    let kernel = per_dimension(call, "kernel_shape", spatial.len(), 1)?;
    let window = window(call, spatial, kernel)?;
    let mut inferred = shape[..2].to_vec();
    for (at, &size) in spatial.iter().enumerate() {
        let [begin, end] = window.padding[at];
        let size = (size - 1) * window.strides[at] + window.kernel[at] - begin - end;
        if size < 1 {
            return Err("the padding removes the whole output".into());
        }
        inferred.push(size);
    }
    let wanted = call.optional_ints(2, "output_shape")?;
    let elements = |shape: &[Dim]| shape.iter().copied().product::<Dim>();
    let count = elements(&inferred);
    let zero = call.scalar_like(x, 0.0)?;
    let zeros = call.expand(zero, &[count])?;
    let pooled = elements(&shape);
    let (flat, places) = (call.reshape(x, &[pooled])?, call.reshape(indices, &[pooled])?);
    let y = call.emit(ScatterElements { axis: 0 }, &[zeros, places, flat])?;
    let mut y = call.reshape(y, &inferred)?;
    for (axis, size) in wanted.iter().flatten().enumerate() {
        let missing = inferred.get(axis).map(|&now| Dim::number(*size) - now).filter(|&missing| missing >= 0);
        let missing =
            missing.ok_or_else(|| Refusal(format!("output_shape is {wanted:?}, expected at least {inferred:?}")))?;
        y = call.pad_axis(y, axis, [Dim::ZERO, missing])?;
    }
    call.one(Ok(y))
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("AveragePool", "", average_pool),
    standard("GlobalAveragePool", "", |call| global(call, ReduceKind::Mean)),
    standard("GlobalLpPool", "", global_lp_pool),
    standard("GlobalMaxPool", "", |call| global(call, ReduceKind::Max)),
    standard("LpPool", "", lp_pool),
    standard("MaxPool", "", max_pool),
    standard("MaxUnpool", "", max_unpool),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

    fn pool(operator: &str, dims: &[&str], attributes: Vec<(&str, Attr)>) -> TestGraph {
        TestGraph::default().input("x", Float, dims).node(operator, "x", "y", attributes).output("y")
    }

    #[test]
    fn partial_windows_start_inside() {
        let ceil = |size: &'static str| {
            let attributes = vec![
                ("kernel_shape", Attr::Ints(&[2, 2])),
                ("strides", Attr::Ints(&[3, 3])),
                ("pads", Attr::Ints(&[0, 0, 1, 1])),
                ("ceil_mode", Attr::Int(1)),
            ];
            pool("MaxPool", &["1", "1", size, size], attributes).output_shape(17)
        };
        assert_eq!(ceil("4"), [1, 1, 2, 2]);
        // The third window would start in the padding.
        assert_eq!(ceil("6"), [1, 1, 2, 2]);
    }

    #[test]
    fn padding_counts_but_elements_beyond_it_do_not() {
        let attributes = vec![
            ("kernel_shape", Attr::Ints(&[3, 3])),
            ("strides", Attr::Ints(&[2, 2])),
            ("pads", Attr::Ints(&[1, 1, 1, 1])),
            ("ceil_mode", Attr::Int(1)),
            ("count_include_pad", Attr::Int(1)),
        ];
        let text = pool("AveragePool", &["1", "1", "6", "6"], attributes).text(19);
        assert!(text.contains("padding=[0, 1, 0, 1]") && text.matches("= pad ").count() == 1, "{text}");
    }

    #[test]
    fn three_dimensions_are_pooled_in_two_steps() {
        let attributes = vec![("kernel_shape", Attr::Ints(&[2, 3, 3]))];
        let text = pool("AveragePool", &["1", "2", "4", "5", "6"], attributes).text(17);
        assert_eq!(text.matches("averagePool2d").count(), 2, "{text}");
        assert!(text.contains("newShape=[1, 2, 3, 3, 4]"), "{text}");
    }

    #[test]
    fn mismatched_shapes_are_refused() {
        let message = pool("MaxPool", &["1", "2", "4"], vec![("kernel_shape", Attr::Ints(&[5]))]).refusal(17);
        assert!(message.contains("a window of 5 elements does not fit into 4 with its padding"), "{message}");
        assert!(pool("MaxPool", &["1", "2", "4"], vec![]).refusal(17).contains("kernel_shape is missing"));
    }
}
