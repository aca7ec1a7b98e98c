//! Operators that interpolate between elements of an input, at computed places.
//!
//! The input becomes a table with a row of channels per place, and a row of zeros for all places outside: sampling then
//! gathers whole rows.

use super::convolution::{Convolution, convolution};
use crate::dimension::dims;
use crate::dtype::DataType;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::extension::max_roi_pool::MaxRoiPool;
use crate::ops::extension::roi_align::RoiAlign;
use crate::shape::Descriptor;

/// The rows of an input `[N, C, ...]`.
struct Table {
    /// `[N * places + 1, C]`; the last row is zeros.
    rows: OperandId,
    batch: u32,
    channels: u32,
    spatial: Vec<u32>,
}

/// One of the elements along a dimension that an interpolated element depends on.
#[derive(Clone, Copy)]
struct Tap {
    /// Its index within the dimension, float32.
    index: OperandId,
    /// Its weight, float32; `None` for 1.
    weight: Option<OperandId>,
    /// Whether it exists, uint8; `None` if it always does.
    exists: Option<OperandId>,
}

impl Table {
    fn new(call: &mut Call, x: OperandId) -> Step<Table> {
        let shape = call.sizes(x);
        let (&[batch, channels], spatial) = match shape.split_first_chunk::<2>() {
            Some((head, spatial)) if !spatial.is_empty() => (head, spatial.to_vec()),
            _ => return Err(Refusal(format!("the input has shape {shape:?}, expected at least 3 dimensions"))),
        };
        let order: Vec<u32> = [0].into_iter().chain(2..shape.len() as u32).chain([1]).collect();
        let moved = call.transpose(x, &order)?;
        let rows = call.reshape(moved, &[batch * spatial.iter().product::<u32>(), channels])?;
        let rows = call.pad_axis(rows, 0, [0, 1])?;
        Ok(Table { rows, batch, channels, spatial })
    }

    fn places(&self) -> u32 {
        self.spatial.iter().product()
    }

    /// The rows `[groups..., C]` at the places of one tap per dimension, times the taps' weights. `first` is the index
    /// of the image's first row, int32. All are broadcast.
    fn weighted(&self, call: &mut Call, taps: &[Tap], first: OperandId) -> Step<OperandId> {
        let mut row = first;
        let (mut weight, mut exists): (Option<OperandId>, Option<OperandId>) = (None, None);
        for (tap, stride) in taps.iter().zip(self.strides()) {
            let index = call.cast(tap.index, DataType::Int32)?;
            let stride = call.int_scalar(DataType::Int32, stride)?;
            let offset = call.mul(index, stride)?;
            row = call.add(row, offset)?;
            weight = joined(call, E::Mul, weight, tap.weight)?;
            exists = joined(call, E::LogicalAnd, exists, tap.exists)?;
        }
        if let Some(exists) = exists {
            let zeros = call.int_scalar(DataType::Int32, self.batch as i64 * self.places() as i64)?;
            row = call.select(exists, row, zeros)?;
        }
        let picked = call.gather(self.rows, row, 0)?;
        let Some(weight) = weight else { return Ok(picked) };
        let weight = call.cast(weight, call.dtype(picked))?;
        let shape = [call.sizes(weight).as_slice(), &[1]].concat();
        let weight = call.reshape(weight, &shape)?;
        call.mul(picked, weight)
    }

    /// The sum of the [`weighted`](Self::weighted) rows over all combinations of the dimensions' taps.
    fn interpolated(&self, call: &mut Call, taps: &[Vec<Tap>], first: OperandId) -> Step<OperandId> {
        let mut sum: Option<OperandId> = None;
        for taps in combinations(taps) {
            let part = self.weighted(call, &taps, first)?;
            sum = joined(call, E::Add, sum, Some(part))?;
        }
        sum.ok_or_else(|| "there are no dimensions to interpolate".into())
    }

    /// The index of each image's first row, `[N, 1]`; images are consecutive.
    fn firsts(&self, call: &mut Call) -> Step<OperandId> {
        let firsts = (0..self.batch as i64).map(|image| image * self.places() as i64);
        call.constant(DataType::Int32, &[self.batch, 1], firsts)
    }

    fn strides(&self) -> Vec<i64> {
        let sizes = &self.spatial;
        (0..sizes.len()).map(|at| sizes[at + 1..].iter().map(|&size| size as i64).product()).collect()
    }
}

/// All combinations of one tap per dimension.
fn combinations(taps: &[Vec<Tap>]) -> Vec<Vec<Tap>> {
    taps.iter().fold(vec![Vec::new()], |all, taps| {
        all.iter().flat_map(|chosen| taps.iter().map(|tap| [chosen.as_slice(), &[*tap]].concat())).collect()
    })
}

/// `op` of both, or the one that is present.
fn joined(call: &mut Call, op: E, a: Option<OperandId>, b: Option<OperandId>) -> Step<Option<OperandId>> {
    match (a, b) {
        (Some(a), Some(b)) => call.emit(op, &[a, b]).map(Some),
        (a, b) => Ok(a.or(b)),
    }
}

/// What is outside of the input.
#[derive(Clone, Copy, PartialEq)]
enum Padding {
    Zeros,
    Border,
    /// Mirrored at the middles of the outermost elements if `true`, otherwise at their outer edges.
    Reflection(bool),
}

/// `x` clamped to `0..=last`.
fn clamped(call: &mut Call, x: OperandId, last: f64) -> Step<OperandId> {
    let (min, max) = (crate::dtype::Number::Float(0.0), crate::dtype::Number::Float(last));
    call.emit(E::Clamp { min, max }, &[x])
}

impl Padding {
    /// Maps a coordinate (in elements) into a dimension of `size` elements; leaves it unchanged for zeros.
    fn place(self, call: &mut Call, x: OperandId, size: u32) -> Step<OperandId> {
        let last = size as f64 - 1.0;
        let (low, range) = match self {
            Padding::Zeros => return Ok(x),
            Padding::Border => return clamped(call, x, last),
            Padding::Reflection(true) => (0.0, last),
            Padding::Reflection(false) => (-0.5, size as f64),
        };
        if range == 0.0 {
            return clamped(call, x, last);
        }
        // The distance within a period, there and back.
        let from = call.add_number(x, -low)?;
        let periods = call.scale(from, 0.5 / range)?;
        let periods = call.emit(E::Floor, &[periods])?;
        let skipped = call.scale(periods, 2.0 * range)?;
        let there = call.sub(from, skipped)?;
        let back = call.emit(E::Linear { alpha: -1.0, beta: 2.0 * range }, &[there])?;
        let nearer = call.emit(E::Min, &[there, back])?;
        call.add_number(nearer, low)
    }

    /// The tap for an integer index.
    fn tap(self, call: &mut Call, index: OperandId, weight: Option<OperandId>, size: u32) -> Step<Tap> {
        let last = size as f64 - 1.0;
        let exists = match self {
            Padding::Zeros => {
                let (zero, end) = (call.scalar_like(index, 0.0)?, call.scalar_like(index, last)?);
                let starts = call.emit(E::GreaterOrEqual, &[index, zero])?;
                let ends = call.emit(E::LesserOrEqual, &[index, end])?;
                Some(call.emit(E::LogicalAnd, &[starts, ends])?)
            }
            _ => None,
        };
        let place = self.place(call, index, size)?;
        let place = clamped(call, place, last)?;
        let index = if self == Padding::Border { place } else { call.emit(E::RoundEven, &[place])? };
        Ok(Tap { index, weight, exists })
    }
}

/// The interpolation mode.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

impl Mode {
    /// The taps along a dimension of `size` elements for a coordinate in elements.
    fn taps(self, call: &mut Call, x: OperandId, size: u32, padding: Padding) -> Step<Vec<Tap>> {
        if self == Mode::Nearest {
            let x = call.emit(E::RoundEven, &[x])?;
            return Ok(vec![padding.tap(call, x, None, size)?]);
        }
        // Beyond the border, the four elements around a place are not all the border's.
        let x = if self == Mode::Cubic && padding == Padding::Border { x } else { padding.place(call, x, size)? };
        let floor = call.emit(E::Floor, &[x])?;
        let fraction = call.sub(x, floor)?;
        let offsets = if self == Mode::Linear { 0..2 } else { -1..3 };
        let mut taps = Vec::new();
        for offset in offsets {
            let weight = self.weight(call, fraction, offset)?;
            let index = call.add_number(floor, offset as f64)?;
            taps.push(padding.tap(call, index, Some(weight), size)?);
        }
        Ok(taps)
    }

    /// The weight of the element at `offset` from the one in front of the coordinate.
    fn weight(self, call: &mut Call, fraction: OperandId, offset: i32) -> Step<OperandId> {
        // The distance, as a linear function of the fraction.
        let (alpha, beta) = if offset <= 0 { (1.0, -offset as f64) } else { (-1.0, offset as f64) };
        let distance = call.emit(E::Linear { alpha, beta }, &[fraction])?;
        if self == Mode::Linear {
            return call.emit(E::Linear { alpha: -1.0, beta: 1.0 }, &[distance]);
        }
        const A: f64 = -0.75;
        let polynomial = match offset {
            0 | 1 => [A + 2.0, -(A + 3.0), 0.0, 1.0],
            _ => [A, -5.0 * A, 8.0 * A, -4.0 * A],
        };
        let mut value = call.emit(E::Linear { alpha: polynomial[0], beta: polynomial[1] }, &[distance])?;
        for term in &polynomial[2..] {
            value = call.mul(value, distance)?;
            value = call.add_number(value, *term)?;
        }
        Ok(value)
    }
}

fn grid_mode(call: &Call) -> Step<Mode> {
    match call.text_or("mode", "linear").as_str() {
        "linear" | "bilinear" => Ok(Mode::Linear),
        "nearest" => Ok(Mode::Nearest),
        "cubic" | "bicubic" => Ok(Mode::Cubic),
        other => Err(Refusal(format!("mode is {other}"))),
    }
}

fn grid_sample(call: &mut Call) -> Outcome {
    let (x, grid) = (call.input(0)?, call.input(1)?);
    let mode = grid_mode(call)?;
    let align = call.int_or("align_corners", 0) != 0;
    let padding = match call.text_or("padding_mode", "zeros").as_str() {
        "zeros" => Padding::Zeros,
        "border" => Padding::Border,
        "reflection" => Padding::Reflection(align),
        other => return Err(Refusal(format!("padding_mode is {other}"))),
    };
    check_floats(call, x, mode == Mode::Nearest)?;
    let table = Table::new(call, x)?;
    let (dims, shape) = (table.spatial.len(), call.sizes(grid));
    if shape.len() != dims + 2 || shape[0] != table.batch || shape[dims + 1] != dims as u32 {
        let batch = table.batch;
        return Err(Refusal(format!("grid has shape {shape:?}, expected [{batch}, ..., {dims}] of rank {}", dims + 2)));
    }
    let outputs = &shape[1..=dims];
    let grid = call.cast(grid, DataType::Float32)?;
    let grid = call.reshape(grid, &[shape[0], outputs.iter().product(), dims as u32])?;
    let mut taps = Vec::new();
    for at in 0..dims {
        // A grid's coordinates start with those of the last dimension.
        let normal = call.slice_axis(grid, 2, (dims - 1 - at) as u32, 1)?;
        let normal = call.reshape(normal, &[shape[0], outputs.iter().product()])?;
        let size = table.spatial[at] as f64;
        let shifted = call.add_number(normal, 1.0)?;
        let place = match align {
            true => call.scale(shifted, (size - 1.0) / 2.0)?,
            false => call.emit(E::Linear { alpha: size / 2.0, beta: -0.5 }, &[shifted])?,
        };
        taps.push(mode.taps(call, place, table.spatial[at], padding)?);
    }
    let firsts = table.firsts(call)?;
    let rows = table.interpolated(call, &taps, firsts)?;
    let y = call.transpose(rows, &[0, 2, 1])?;
    let y = call.reshape(y, &[&[shape[0], table.channels], outputs].concat());
    call.one(y)
}

/// Refuses integers, which cannot be interpolated.
fn check_floats(call: &Call, x: OperandId, any: bool) -> Step<()> {
    match any || call.dtype(x).is_float() {
        true => Ok(()),
        false => Err(Refusal(format!("values between those of type {} are not supported", call.dtype(x)))),
    }
}

/// Coordinates of the elements of a tensor `[N, C, ...]` under affine transformations `[N, r, r + 1]`.
fn affine_grid(call: &mut Call) -> Outcome {
    let size = crate::onnx::tensor::checked_shape(&call.ints(1, "size")?).map_err(Refusal)?;
    let align = call.int_or("align_corners", 0) != 0;
    let dims = size.len().saturating_sub(2);
    if let ([0, _, places @ ..], Some(Value::Empty(Descriptor { dtype, .. }))) = (&size[..], call.value(0)) {
        let grid = [&[0], places, &[dims as u32]].concat();
        return Ok(vec![Value::Empty(Descriptor::new(dtype, grid))]);
    }
    let theta = call.input(0)?;
    let expected = [size.first().copied().unwrap_or(0), dims as u32, dims as u32 + 1];
    if dims == 0 || size.contains(&0) || call.sizes(theta) != expected {
        let got = call.sizes(theta);
        return Err(Refusal(format!("theta has shape {got:?} for the size {size:?}, expected {expected:?}")));
    }
    // A checked shape has no more elements than 32 bits can count.
    let places: u32 = size[2..].iter().product();
    let coordinate = |at: u32, size: u32| match (align, size) {
        (true, 1) => -1.0,
        (true, _) => 2.0 * at as f64 / (size as f64 - 1.0) - 1.0,
        (false, _) => (2.0 * at as f64 + 1.0) / size as f64 - 1.0,
    };
    let mut points = call.list(places as u64 * (dims as u64 + 1))?;
    for place in 0..places {
        let mut rest = place;
        for &size in size[2..].iter().rev() {
            points.push(coordinate(rest % size, size));
            rest /= size;
        }
        points.push(1.0);
    }
    let points = call.constant(call.dtype(theta), &[places, dims as u32 + 1], points)?;
    let columns = call.transpose_last(theta)?;
    let grid = call.matmul(points, columns)?;
    let grid = call.reshape(grid, &[&size[..1], &size[2..], &[dims as u32]].concat());
    call.one(grid)
}

/// Averages or maxima of interpolated samples in the bins of regions.
fn roi_align(call: &mut Call) -> Outcome {
    let (x, rois, images) = (call.input(0)?, call.input(1)?, call.input(2)?);
    check_floats(call, x, false)?;
    let size = |name: &str, default: i64| {
        let size = u32::try_from(call.int_or(name, default)).ok();
        size.ok_or_else(|| {
            Refusal(format!("{name} is {}, expected a number that is not negative", call.int_or(name, 1)))
        })
    };
    let default = if call.opset < 16 { "output_half_pixel" } else { "half_pixel" };
    let maximum = match call.text_or("mode", "avg").as_str() {
        "avg" => false,
        "max" => true,
        other => return Err(Refusal(format!("mode is {other}"))),
    };
    let op = RoiAlign {
        output_height: size("output_height", 1)?,
        output_width: size("output_width", 1)?,
        sampling_ratio: size("sampling_ratio", 0)?,
        spatial_scale: call.float_or("spatial_scale", 1.0),
        half_pixel: call.text_or("coordinate_transformation_mode", default) == "half_pixel",
        maximum,
    };
    call.dims::<4>(x, "the input")?;
    let x = call.transpose(x, &[0, 2, 3, 1])?;
    let rois = call.cast(rois, call.dtype(x))?;
    let y = call.emit(op, &[x, rois, images]);
    call.one(y)
}

/// Maxima of the pixels in the bins of regions.
fn max_roi_pool(call: &mut Call) -> Outcome {
    let (x, rois) = (call.input(0)?, call.input(1)?);
    let bins = call.ints_attribute("pooled_shape").unwrap_or_default();
    let sizes: Option<Vec<u32>> = bins.iter().map(|&bins| u32::try_from(bins).ok()).collect();
    let Some(&[output_height, output_width]) = sizes.as_deref() else {
        return Err(Refusal(format!("pooled_shape is {bins:?}, expected two positive numbers")));
    };
    let spatial_scale = call.float_or("spatial_scale", 1.0);
    let y = call.emit(MaxRoiPool { output_height, output_width, spatial_scale }, &[x, rois]);
    call.one(y)
}

/// A convolution whose window samples at places that offsets move.
fn deform_conv(call: &mut Call) -> Outcome {
    let (x, filter, offset) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (bias, mask) = (call.optional(3)?, call.optional(4)?);
    let (shape, filter_shape) = (call.sizes(x), call.sizes(filter));
    let Convolution { window, groups, .. } = convolution(call, &dims(&shape), &dims(&filter_shape))?;
    let &[batch, channels, ..] = &shape[..] else { return Err("the input has no channels".into()) };
    let given = call.int_or("offset_group", 1);
    let sets = u32::try_from(given).ok().filter(|&sets| sets > 0 && channels.is_multiple_of(sets));
    let sets = sets.ok_or_else(|| Refusal(format!("offset_group is {given}, expected a divisor of {channels}")))?;
    let offsets = call.sizes(offset);
    if shape.len() != 4 || offsets.len() != 4 {
        return Err("deformable convolutions of other than 2 dimensions are not supported".into());
    }
    let (elements, outputs) = (window.kernel[0] * window.kernel[1], [offsets[2], offsets[3]]);
    let places = outputs[0] * outputs[1];
    let image = call.reshape(x, &[batch * sets, channels / sets, shape[2], shape[3]])?;
    let table = Table::new(call, image)?;
    let offset = call.cast(offset, DataType::Float32)?;
    let offset = call.reshape(offset, &[batch * sets, elements, 2, places])?;
    let mut taps = Vec::new();
    for at in 0..2 {
        let moved = call.slice_axis(offset, 2, at as u32, 1)?;
        let moved = call.reshape(moved, &[batch * sets, elements * places])?;
        let base = (0..elements * places).map(|number| {
            let (element, place) = (number / places, number % places);
            let step =
                [element / window.kernel[1], element % window.kernel[1]][at] as f64 * window.dilations[at] as f64;
            let place = [place / outputs[1], place % outputs[1]][at] as f64 * window.strides[at] as f64;
            place + step - window.padding[at][0].pinned() as f64
        });
        let base = call.constant(DataType::Float32, &[1, elements * places], base)?;
        let place = call.add(base, moved)?;
        taps.push(Mode::Linear.taps(call, place, table.spatial[at], Padding::Zeros)?);
    }
    let firsts = table.firsts(call)?;
    let mut sampled = table.interpolated(call, &taps, firsts)?;
    if let Some(mask) = mask {
        let mask = call.reshape(mask, &[batch * sets, elements * places, 1])?;
        sampled = call.mul(sampled, mask)?;
    }
    let sampled = call.reshape(sampled, &[batch, sets, elements, places, channels / sets])?;
    let sampled = call.transpose(sampled, &[0, 1, 4, 2, 3])?;
    let columns = call.reshape(sampled, &[batch, groups, channels / groups * elements, places])?;
    let rows = call.reshape(filter, &[groups, filter_shape[0] / groups, channels / groups * elements])?;
    let y = call.matmul(rows, columns)?;
    let mut y = call.reshape(y, &[batch, filter_shape[0], outputs[0], outputs[1]])?;
    if let Some(bias) = bias {
        let bias = call.reshape(bias, &[filter_shape[0], 1, 1])?;
        y = call.add(y, bias)?;
    }
    call.one(Ok(y))
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("AffineGrid", "constant size", affine_grid),
    standard("DeformConv", "two spatial dimensions", deform_conv),
    standard("GridSample", "", grid_sample),
    standard("MaxRoiPool", "", max_roi_pool),
    standard("RoiAlign", "", roi_align),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

    #[test]
    fn samples_are_gathered_in_rows() {
        let sample = |mode| {
            let graph =
                TestGraph::default().input("x", Float, &["2", "3", "4", "5"]).input("g", Float, &["2", "6", "7", "2"]);
            graph.node("GridSample", "x g", "y", vec![("mode", Attr::Text(mode))]).output("y").text(20)
        };
        for (mode, count) in [("nearest", 1), ("linear", 4), ("cubic", 16)] {
            let text = sample(mode);
            assert_eq!(text.matches("= gather ").count(), count, "{text}");
            assert!(text.contains("newShape=[2, 3, 6, 7]"), "{text}");
        }
    }

    #[test]
    fn regions_are_one_operator() {
        let align = |attributes: Vec<(&str, Attr)>| {
            let graph = TestGraph::default().input("x", Float, &["1", "3", "4", "5"]).input("r", Float, &["2", "4"]);
            graph.input("i", Int64, &["2"]).node("RoiAlign", "x r i", "y", attributes).output("y")
        };
        let text = align(vec![("sampling_ratio", Attr::Int(0)), ("output_width", Attr::Int(7))]).text(16);
        assert!(text.contains("roiAlign %3 %1 %2 outputWidth=7"), "{text}");
        let refusal = align(vec![("sampling_ratio", Attr::Int(-1))]).refusal(16);
        assert!(refusal.contains("sampling_ratio is -1, expected a number that is not negative"), "{refusal}");
        let refusal = align(vec![("sampling_ratio", Attr::Int(1 << 17))]).refusal(16);
        assert!(refusal.contains("1 to 65536 samples"), "{refusal}");
        let graph = TestGraph::default().input("x", Float, &["1", "3", "4", "5"]).input("r", Float, &["2", "5"]);
        let graph = graph.node("MaxRoiPool", "x r", "y", vec![("pooled_shape", Attr::Ints(&[2, 3]))]).output("y");
        assert_eq!(graph.output_shape(22), [2, 3, 2, 3]);
    }
}
