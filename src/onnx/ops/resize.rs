//! Resizing: each dimension separately, with indices and weights computed during translation (`interpolation.rs`).
//!
//! Cases that `resample2d` covers are left to it, which is faster. Otherwise, an output along a dimension is a sum of a
//! few gathered elements, or of a product with a matrix of weights if there are many.

use super::interpolation::{Factor, Mode, Nearest, Plan, Resizing, Sizes, Transformation};
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::amount;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step, check_generated};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::resample2d::{InterpolationMode, Resample2d, between, nearest};
use crate::shape::Descriptor;
use std::ops::Range;

/// What a plan takes for each place of an output, with few weights.
const BYTES_PER_PLACE: usize = 128;

/// The target length of a dimension.
#[derive(Clone, Copy)]
enum Length {
    /// A scale; the length is rounded down.
    Scale(f32),
    /// The quotient of two sizes, which all dimensions share; the length is rounded to nearest.
    Common {
        output: u32,
        input: u32,
    },
    Size(Dim),
}

impl Resizing {
    /// Whether a dimension certainly remains unchanged, without checking every place.
    fn keeps(&self, sizes: &Sizes) -> bool {
        sizes.input == sizes.output && sizes.factor.is_one() && !self.moves(sizes)
    }

    /// The size of the output for an `input` that is still unknown, if `resample2d` is equivalent for all sizes.
    fn resampled_size(&self, input: Dim, wanted: Length) -> Option<Dim> {
        let (output, factor) = match wanted {
            Length::Scale(scale) if scale.fract() == 0.0 && (1.0..=MAX_FACTOR as f32).contains(&scale) => {
                (input * scale as u32, scale as u32)
            }
            Length::Scale(_) | Length::Common { .. } => return None,
            Length::Size(size) => (size, (size.shown() / input.shown().max(1)).clamp(0, MAX_FACTOR as i64) as u32),
        };
        let known = Dim::ONE..=Dim::from(MAX_RESAMPLED);
        if self.antialias || self.exclude_outside || !known.contains(&output) {
            return None;
        }
        use Transformation::*;
        let same = match (self.mode, self.transformation) {
            (Mode::Linear, HalfPixel | HalfPixelSymmetric) => true,
            (Mode::Linear, PytorchHalfPixel) => output > 1,
            // No place is in the middle between two elements.
            (Mode::Nearest(Nearest::PreferFloor | Nearest::PreferCeil), HalfPixel | HalfPixelSymmetric)
            | (Mode::Nearest(Nearest::Floor | Nearest::Simple), Asymmetric) => factor > 0 && output == input * factor,
            _ => false,
        };
        same.then_some(output)
    }
}

/// Maximum difference between coordinates and those of `resample2d`: less than the effect of rounding a scale to
/// float32, in an image of usual size.
const SAME_PLACE: f64 = 1e-5;

/// The largest dimension of an output that is still unknown, and the largest integer factor, for which float32
/// determines the nearest element.
const MAX_RESAMPLED: u32 = 1 << 16;
const MAX_FACTOR: u32 = 16;

/// The upper half of a weight for bytes is a multiple of the inverse of this number.
const UPPER: f64 = (1 << 11) as f64;

/// Maximum number of elements per output to gather one by one; for more, the dimension becomes a matrix product.
const MAX_GATHERED: usize = 4;

/// Least number of places of a matrix product, unless there are fewer, and most products. Places next to one another need
/// elements next to one another: of 480 that become 224, 32 places need some 75.
const BLOCK: usize = 32;
const MAX_BLOCKS: usize = 64;

impl Plan {
    /// Whether `resample2d` is equivalent in its mode.
    fn is_resampling(&self, mode: InterpolationMode) -> bool {
        let output = self.taps.len() as u32;
        self.taps.iter().enumerate().all(|(place, taps)| match mode {
            InterpolationMode::NearestNeighbor => taps[..] == [(nearest(self.input, output, place) as u32, 1.0)],
            InterpolationMode::Linear => {
                let expected = between(self.input, output, place);
                let at: f64 = taps.iter().map(|&(at, weight)| at as f64 * weight).sum();
                taps.len() <= 2
                    && taps.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1)
                    && (at - (expected.low as f64 + expected.weight)).abs() < SAME_PLACE
            }
        })
    }

    fn apply(&self, call: &mut Call, x: OperandId) -> Step<OperandId> {
        let count = self.taps.iter().map(Vec::len).max().unwrap_or(0);
        if count > MAX_GATHERED {
            return self.product(call, x);
        }
        let places = self.taps.len() as u32;
        let mut weights_shape = vec![1; call.rank(x) - self.axis];
        weights_shape[0] = places;
        let mut sum: Option<OperandId> = None;
        for tap in 0..count {
            let tap = |taps: &Vec<(u32, f64)>| taps.get(tap).copied().unwrap_or((taps[0].0, 0.0));
            let (indices, weights): (Vec<i64>, Vec<f64>) =
                self.taps.iter().map(|taps| (tap(taps).0 as i64, tap(taps).1)).unzip();
            let indices = call.constant(DataType::Int32, &[places], indices)?;
            let mut picked = call.gather(x, indices, self.axis as u32)?;
            if weights.iter().any(|&weight| weight != 1.0) {
                let weights = call.constant(call.dtype(x), &weights_shape, weights)?;
                picked = call.mul(picked, weights)?;
            }
            sum = Some(match sum {
                Some(sum) => call.add(sum, picked)?,
                None => picked,
            });
        }
        sum.ok_or_else(|| "a place has no weights".into())
    }

    /// Like [`apply`](Self::apply), for `x` of whole numbers within the range of `dtype`, rounded to such numbers.
    fn apply_rounded(&self, call: &mut Call, x: OperandId, dtype: DataType) -> Step<OperandId> {
        let (low, high) = match dtype {
            DataType::Uint8 => (0.0, 255.0),
            DataType::Int8 => (-128.0, 127.0),
            _ => {
                let y = self.apply(call, x)?;
                return to_whole(call, y, 0.5);
            }
        };
        // The weights are multiples of 2^-22. A sum of products with their upper halves is exact in float32, as is one
        // with their lower halves, and so is the fraction of the whole sum.
        let upper = |weight: f64| (weight * UPPER).round() / UPPER;
        let [coarse, fine] = [true, false].map(|is_upper| {
            let part = |&(at, weight): &(u32, f64)| (at, if is_upper { upper(weight) } else { weight - upper(weight) });
            let taps = self.taps.iter().map(|taps| taps.iter().map(part).collect()).collect();
            Plan { axis: self.axis, input: self.input, taps, outside: Vec::new() }
        });
        let sum = coarse.apply(call, x)?;
        let sum = call.linear(sum, 1.0, 0.5)?;
        let mut y = call.emit(E::Floor, &[sum])?;
        if fine.taps.iter().flatten().any(|&(_, weight)| weight != 0.0) {
            let rest = call.sub(sum, y)?;
            let more = fine.apply(call, x)?;
            let rest = call.add(rest, more)?;
            let rest = call.emit(E::Floor, &[rest])?;
            y = call.add(y, rest)?;
        }
        call.emit(E::Clamp { min: Number::Float(low), max: Number::Float(high) }, &[y])
    }

    /// Like [`apply`](Self::apply), as matrix products: one for each block of places, with the elements that it needs.
    fn product(&self, call: &mut Call, x: OperandId) -> Step<OperandId> {
        check_generated(u64::from(self.input) * self.taps.len() as u64)?;
        let places = BLOCK.max(self.taps.len().div_ceil(MAX_BLOCKS));
        let blocks: Vec<_> = self.taps.chunks(places).map(|taps| (taps, needed(taps))).collect();
        let total: usize = blocks.iter().map(|(_, needed)| needed.len()).sum();
        if total * 2 > self.input as usize * blocks.len() {
            return self.dense_product(call, x);
        }
        let mut parts = Vec::with_capacity(blocks.len());
        for (taps, Range { start, end }) in blocks {
            let part = call.slice_axis(x, self.axis, start, end - start)?;
            let own = |taps: &Vec<(u32, f64)>| taps.iter().map(|&(at, weight)| (at - start, weight)).collect();
            let taps = taps.iter().map(own).collect();
            let block = Plan { axis: self.axis, input: end - start, taps, outside: Vec::new() };
            parts.push(block.dense_product(call, part)?);
        }
        call.concat(&parts, self.axis as u32)
    }

    fn dense_product(&self, call: &mut Call, x: OperandId) -> Step<OperandId> {
        let shape = call.shape(x);
        let (input, places) = (self.input as usize, self.taps.len());
        let (before, after) = (&shape[..self.axis], &shape[self.axis + 1..]);
        let is_last = after.is_empty();
        let mut matrix = call.list(input as u64 * places as u64)?;
        matrix.resize(input * places, 0.0);
        for (place, taps) in self.taps.iter().enumerate() {
            for &(at, weight) in taps {
                let at = at as usize;
                matrix[if is_last { at * places + place } else { place * input + at }] += weight;
            }
        }
        let (input, places, dtype) = (self.input, places as u32, call.dtype(x));
        let product = |sizes: &[Dim]| sizes.iter().copied().product::<Dim>();
        let resized = if is_last {
            let rows = call.reshape(x, &[product(before), Dim::from(input)])?;
            let matrix = call.constant(dtype, &[input, places], matrix)?;
            call.matmul(rows, matrix)?
        } else {
            let columns = call.reshape(x, &[product(before), Dim::from(input), product(after)])?;
            let matrix = call.constant(dtype, &[places, input], matrix)?;
            call.matmul(matrix, columns)?
        };
        call.reshape(resized, &[before, &[Dim::from(places)], after].concat())
    }
}

/// The elements that places with these taps need, and those in between.
fn needed(taps: &[Vec<(u32, f64)>]) -> Range<u32> {
    let places = || taps.iter().flatten().map(|(at, _)| *at);
    places().min().unwrap_or(0)..places().max().map_or(1, |last| last + 1)
}

/// The mode of `resample2d` for elements of type `dtype`, if there is one.
fn resampling(mode: Mode, dtype: DataType) -> Option<InterpolationMode> {
    match mode {
        Mode::Nearest(_) if dtype.size() <= 2 || dtype == DataType::Float32 => Some(InterpolationMode::NearestNeighbor),
        Mode::Linear if dtype.is_float() => Some(InterpolationMode::Linear),
        _ => None,
    }
}

/// Resizes with `resample2d` to the given lengths, if it has the mode and supports these axes.
fn resample(call: &mut Call, x: OperandId, mode: Mode, lengths: &[(usize, Dim)]) -> Step<Option<OperandId>> {
    let shape = call.shape(x);
    let Some(mode) = resampling(mode, call.dtype(x)) else { return Ok(None) };
    if !(2..=4).contains(&shape.len()) || !(1..=2).contains(&lengths.len()) {
        return Ok(None);
    }
    let missing = 4 - shape.len();
    let image = call.reshape(x, &[vec![Dim::ONE; missing].as_slice(), &shape].concat())?;
    let mut output = shape;
    for &(axis, length) in lengths {
        output[axis] = length;
    }
    let mut axes: Vec<u32> = lengths.iter().map(|(axis, _)| (axis + missing) as u32).collect();
    if axes.len() < 2 {
        axes.push(if axes[0] == 3 { 2 } else { 3 });
    }
    axes.sort_unstable();
    let size = |&axis: &u32| (axis as usize).checked_sub(missing).map_or(Dim::ONE, |axis| output[axis]);
    let sizes = axes.iter().map(size).collect();
    let op = Resample2d { mode, scales: None, sizes: Some(sizes), axes: Some(axes) };
    let y = call.emit(op, &[image])?;
    call.reshape(y, &output).map(Some)
}

/// Resizes `axes` of input 0 to `lengths`, optionally within `regions` of interest. Sizes that do not change may be
/// unknown, as may sizes for which `resample2d` is always equivalent.
fn resize_axes(call: &mut Call, how: &Resizing, axes: &[u32], lengths: &[Length], regions: &[[f32; 2]]) -> Outcome {
    let shape = call.input_shape(0)?;
    let stays = |axis: usize, length: Length| match length {
        Length::Scale(scale) => scale == 1.0,
        // The size is rounded in any case.
        Length::Common { output, input } => output == input,
        Length::Size(size) => size == shape[axis],
    };
    let roi = |axis: usize| {
        let at = axes.iter().position(|&other| other as usize == axis);
        at.and_then(|at| regions.get(at).copied()).unwrap_or([0.0, 1.0])
    };
    let pairs = axes.iter().zip(lengths).map(|(&axis, &length)| (axis as usize, length));
    let is_changed = |&(axis, length): &(usize, Length)| {
        !stays(axis, length) || how.moves(&Sizes { roi: roi(axis), ..Sizes::unchanged(1) })
    };
    let changed: Vec<(usize, Length)> = pairs.filter(is_changed).collect();
    let is_known = |&(axis, length): &(usize, Length)| {
        shape[axis].is_number() && !matches!(length, Length::Size(size) if !size.is_number())
    };
    if !changed.iter().all(is_known) {
        let size = |&(axis, length): &(usize, Length)| Some((axis, how.resampled_size(shape[axis], length)?));
        let sizes: Option<Vec<_>> = changed.iter().map(size).collect();
        let x = call.input(0)?;
        if let Some(sizes) = sizes
            && let Some(y) = resample(call, x, how.mode, &sizes)?
        {
            return call.one(Ok(y));
        }
    }
    let mut all = vec![Sizes::unchanged(1); shape.len()];
    let mut resized = shape.clone();
    for (axis, length) in changed {
        let input = shape[axis].get();
        let (output, factor) = match length {
            Length::Scale(scale) => (scaled(input, scale)?, Factor::Scale(scale)),
            Length::Common { output: p, input: q } => (rescaled(input, p, q)?, Factor::Ratio { output: p, input: q }),
            Length::Size(size) => (size.get(), Factor::Ratio { output: size.get(), input }),
        };
        all[axis] = Sizes { input, output, factor, roi: roi(axis) };
        resized[axis] = output.into();
    }
    if resized.iter().any(|&size| size == 0) {
        let dtype = call.input_type(0).ok_or("the input is of a type that WebNN does not have")?;
        return Ok(vec![Value::Empty(Descriptor { dtype, shape: resized })]);
    }
    emit(call, how, &all)
}

fn emit(call: &mut Call, how: &Resizing, sizes: &[Sizes]) -> Outcome {
    let places: usize = sizes.iter().filter(|sizes| !how.keeps(sizes)).map(|sizes| sizes.output as usize).sum();
    call.take_work(places)?;
    call.check_lists(places.saturating_mul(BYTES_PER_PLACE))?;
    let x = call.input(0)?;
    let dtype = call.dtype(x);
    let mut plans = Vec::new();
    for (axis, sizes) in sizes.iter().enumerate() {
        if how.keeps(sizes) {
            continue;
        }
        let plan = how.plan(axis, sizes, dtype.size() == 1)?;
        let is_identity = sizes.input == sizes.output
            && plan.taps.iter().enumerate().all(|(place, taps)| taps[..] == [(place as u32, 1.0)])
            && !plan.outside.contains(&true);
        if !is_identity {
            plans.push(plan);
        }
    }
    let is_resampled = |mode| plans.iter().all(|plan| plan.is_resampling(mode) && !plan.outside.contains(&true));
    let lengths: Vec<(usize, Dim)> = plans.iter().map(|plan| (plan.axis, Dim::from(plan.taps.len() as u32))).collect();
    if resampling(how.mode, dtype).is_some_and(is_resampled)
        && let Some(y) = resample(call, x, how.mode, &lengths)?
    {
        return call.one(Ok(y));
    }
    let interpolates = !matches!(how.mode, Mode::Nearest(_));
    let rounding = match dtype {
        _ if !interpolates || dtype.is_float() => Rounding::None,
        DataType::Int8 | DataType::Uint8 | DataType::Int32 if how.antialias => Rounding::Nearest,
        DataType::Int8 | DataType::Uint8 | DataType::Int32 => Rounding::Truncated,
        _ => return Err(Refusal(format!("values between those of type {dtype} are not supported"))),
    };
    let mut y = if interpolates { call.cast(x, DataType::Float32)? } else { x };
    match rounding {
        // Every dimension is rounded, so the order matters: onnxruntime and Pillow start with the last one.
        Rounding::Nearest => plans.reverse(),
        // Shrinking dimensions come first, to leave less to compute.
        _ => plans.sort_by(|a, b| {
            let growth = |plan: &Plan| plan.taps.len() as f64 / plan.input as f64;
            growth(a).total_cmp(&growth(b))
        }),
    }
    for plan in &plans {
        y = match rounding {
            Rounding::Nearest => plan.apply_rounded(call, y, dtype)?,
            _ => plan.apply(call, y)?,
        };
    }
    for plan in plans.iter().filter(|plan| plan.outside.contains(&true)) {
        let mut shape = vec![1; call.rank(y) - plan.axis];
        shape[0] = plan.outside.len() as u32;
        let outside = plan.outside.iter().map(|&outside| outside as i64);
        let outside = call.constant(DataType::Uint8, &shape, outside)?;
        let value =
            call.scalar_like(y, if dtype.is_float() { how.extrapolation } else { how.extrapolation.trunc() })?;
        y = call.select(outside, value, y)?;
    }
    if rounding == Rounding::Truncated {
        y = to_whole(call, y, 0.0)?;
    }
    if interpolates {
        y = call.cast(y, dtype)?;
    }
    call.one(Ok(y))
}

/// How values between integers become integers.
#[derive(Clone, Copy, PartialEq)]
enum Rounding {
    /// The type has fractions, or there are no such values.
    None,
    /// Without antialiasing, onnxruntime drops the fraction.
    Truncated,
    /// With antialiasing, it rounds after each dimension.
    Nearest,
}

/// Adds `more` to the magnitude of `x`, and drops the fraction.
fn to_whole(call: &mut Call, x: OperandId, more: f64) -> Step<OperandId> {
    let (magnitude, sign) = (call.emit(E::Abs, &[x])?, call.emit(E::Sign, &[x])?);
    let magnitude = call.linear(magnitude, 1.0, more)?;
    let whole = call.emit(E::Floor, &[magnitude])?;
    call.mul(whole, sign)
}

/// The size of an output for a scale: the product is rounded to float32, as in the standard's own shape inference and
/// onnxruntime (10 times 0.7 is 7).
fn scaled(input: u32, scale: f32) -> Step<u32> {
    let output = (input as f32 * scale).floor();
    match scale > 0.0 && output <= i32::MAX as f32 {
        true => Ok(output as u32),
        false => Err(Refusal(format!("a dimension of {input} cannot be scaled by {scale}"))),
    }
}

/// The integer nearest to `input * p / q`; the larger one of two. Nothing stays nothing.
fn rescaled(input: u32, p: u32, q: u32) -> Step<u32> {
    let output = (2 * input as u128 * p as u128 + q as u128).checked_div(2 * q as u128).unwrap_or(0);
    match input == 0 || (1..=i32::MAX as u128).contains(&output) {
        true => Ok(output as u32),
        false => Err(Refusal(format!("a dimension of {input} cannot be scaled by {p}/{q}"))),
    }
}

/// The length of each of `axes` for scales.
fn lengths_for_scales(axes: &[u32], scales: &[f64]) -> Step<Vec<Length>> {
    match scales.len() == axes.len() {
        true => Ok(scales.iter().map(|&scale| Length::Scale(scale as f32)).collect()),
        false => Err(Refusal(format!("scales are {scales:?}, expected {}", axes.len()))),
    }
}

/// The length of each of `axes` of a tensor of shape `shape` for sizes.
fn lengths_for_sizes(shape: &[Dim], axes: &[u32], wanted: &[Dim], policy: &str) -> Step<Vec<Length>> {
    let pairs = axes.iter().zip(wanted);
    // Nothing cannot become something, nor something nothing.
    let mut is_wrong = pairs.clone().map(|(&axis, &size)| match shape[axis as usize] == 0 {
        true => size != 0,
        false => size < 1 || size > i32::MAX as u32,
    });
    if wanted.len() != axes.len() || is_wrong.any(|is_wrong| is_wrong) {
        return Err(Refusal(format!("sizes are {wanted:?}, expected {} numbers above 0", axes.len())));
    }
    // Nothing stays nothing, whatever becomes of the others.
    let factors = pairs.map(|(&axis, size)| [size.get(), shape[axis as usize].get()]).filter(|[_, input]| *input != 0);
    let order = |a: &[u32; 2], b: &[u32; 2]| (a[0] as u64 * b[1] as u64).cmp(&(b[0] as u64 * a[1] as u64));
    let common = match policy {
        "stretch" => return Ok(wanted.iter().copied().map(Length::Size).collect()),
        "not_larger" => factors.min_by(order),
        "not_smaller" => factors.max_by(order),
        other => return Err(Refusal(format!("keep_aspect_ratio_policy is {other}"))),
    };
    let [output, input] = common.unwrap_or([1, 1]);
    Ok(vec![Length::Common { output, input }; axes.len()])
}

fn attributes(call: &Call) -> Step<Resizing> {
    let nearest = match call.text_or("nearest_mode", "round_prefer_floor").as_str() {
        "round_prefer_floor" => Nearest::PreferFloor,
        "round_prefer_ceil" => Nearest::PreferCeil,
        "floor" => Nearest::Floor,
        "ceil" => Nearest::Ceil,
        other => return Err(Refusal(format!("nearest_mode is {other}"))),
    };
    let mode = match call.text_or("mode", "nearest").as_str() {
        "nearest" => Mode::Nearest(nearest),
        "linear" => Mode::Linear,
        "cubic" => Mode::Cubic(call.float_or("cubic_coeff_a", -0.75)),
        other => return Err(Refusal(format!("mode is {other}"))),
    };
    Ok(Resizing {
        mode,
        transformation: Transformation::named(&call.text_or("coordinate_transformation_mode", "half_pixel"))?,
        // The standard has filters for interpolation only.
        antialias: call.int_or("antialias", 0) != 0 && !matches!(mode, Mode::Nearest(_)),
        exclude_outside: call.int_or("exclude_outside", 0) != 0,
        extrapolation: call.float_or("extrapolation_value", 0.0),
    })
}

/// `Upsample`, and `Resize` of opset 10, which works the same way.
fn upsample(call: &mut Call) -> Outcome {
    let scales = match call.floats_attribute("scales").filter(|_| call.opset < 9) {
        Some(scales) => scales,
        None => call.optional_floats(1, "scales")?.ok_or("scales are missing")?,
    };
    let mode = match call.text_or("mode", "nearest").as_str() {
        "nearest" => Mode::Nearest(Nearest::Simple),
        "linear" => Mode::Linear,
        other => return Err(Refusal(format!("mode is {other}"))),
    };
    scaled_up(call, mode, Transformation::Asymmetric, &scales)
}

/// Resizes input 0 by a scale for each dimension.
///
/// # Errors
/// If there are more or fewer scales than dimensions, or sizes would be impossible.
pub fn scaled_up(call: &mut Call, mode: Mode, transformation: Transformation, scales: &[f64]) -> Outcome {
    let how = Resizing { mode, transformation, antialias: false, exclude_outside: false, extrapolation: 0.0 };
    let axes: Vec<u32> = (0..call.input_shape(0)?.len() as u32).collect();
    let lengths = lengths_for_scales(&axes, scales)?;
    resize_axes(call, &how, &axes, &lengths, &[])
}

fn resize(call: &mut Call) -> Outcome {
    if call.opset < 11 {
        return upsample(call);
    }
    let shape = call.input_shape(0)?;
    let how = attributes(call)?;
    let axes = match call.ints_attribute("axes") {
        Some(axes) => call.axes(&axes, shape.len())?,
        None => (0..shape.len() as u32).collect(),
    };
    // An empty list counts as missing.
    let scales = call.optional_floats(2, "scales")?.filter(|scales| !scales.is_empty());
    let lengths = match scales {
        Some(scales) => lengths_for_scales(&axes, &scales)?,
        None if call.value(3).is_some() => {
            let policy = call.text_or("keep_aspect_ratio_policy", "stretch");
            lengths_for_sizes(&shape, &axes, &call.int_dims(3, "sizes")?, &policy)?
        }
        None => return Err("neither scales nor sizes are given".into()),
    };
    let mut regions = Vec::new();
    if how.transformation == Transformation::TfCropAndResize {
        let roi = call.optional_floats(1, "roi")?.unwrap_or_default();
        if roi.len() != 2 * axes.len() {
            return Err(Refusal(format!("roi has {}, expected {}", amount(roi.len(), "element"), 2 * axes.len())));
        }
        regions = (0..axes.len()).map(|at| [roi[at] as f32, roi[axes.len() + at] as f32]).collect();
    }
    resize_axes(call, &how, &axes, &lengths, &regions)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Resize", "constant scales, sizes and roi; between integers only for int8, uint8 and int32", resize),
    standard("Upsample", "constant scales", upsample),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;
    use crate::testing::{Tolerance, check};

    fn resize(dims: &[&str], sizes: &[i64], attributes: Vec<(&str, Attr)>) -> TestGraph {
        let graph = TestGraph::default().input("x", Float, dims).ints("sizes", sizes);
        graph.node("Resize", "x _ _ sizes", "y", attributes).output("y")
    }

    #[test]
    fn resizing_uses_resample2d_where_equivalent() {
        let linear = |mode| {
            let attributes = vec![("mode", Attr::Text("linear")), ("coordinate_transformation_mode", Attr::Text(mode))];
            resize(&["1", "2", "5", "6"], &[1, 2, 9, 11], attributes).text(13)
        };
        assert!(linear("half_pixel").contains("resample2d"));
        assert!(linear("pytorch_half_pixel").contains("resample2d"));
        let text = linear("align_corners");
        assert!(!text.contains("resample2d") && text.matches("= gather ").count() == 4, "{text}");
        let doubled = |mode| {
            let attributes =
                vec![("coordinate_transformation_mode", Attr::Text("asymmetric")), ("nearest_mode", Attr::Text(mode))];
            resize(&["1", "2", "5", "6"], &[1, 2, 10, 12], attributes).text(13)
        };
        assert!(doubled("floor").contains("resample2d"));
        assert!(doubled("ceil").contains("gather"));
    }

    #[test]
    fn nearest_elements_are_those_of_float32() {
        let graph = TestGraph::default().input("x", Float, &["7"]).floats("scales", &[1], &[1.6]);
        let attributes =
            vec![("coordinate_transformation_mode", Attr::Text("asymmetric")), ("nearest_mode", Attr::Text("floor"))];
        let graph = graph.node("Resize", "x _ scales", "y", attributes).output("y").import(13, &Default::default());
        let graph = graph.unwrap();
        let gather = graph.nodes.iter().find(|node| node.inputs.len() == 2).expect("a gather");
        let indices = graph.value(gather.inputs[1].unwrap()).constant().unwrap().buffer().unwrap();
        assert_eq!(crate::memory::elements::<i32>(indices.bytes()), [0, 0, 1, 1, 2, 3, 3, 4, 5, 5, 6]);
    }

    #[test]
    fn many_weights_are_a_matrix() {
        let attributes = vec![("mode", Attr::Text("cubic")), ("antialias", Attr::Int(1))];
        let text = resize(&["1", "2", "12", "6"], &[1, 2, 4, 6], attributes).text(18);
        assert!(text.contains("= matmul") && text.contains("float32 [4, 12]"), "{text}");
    }

    #[test]
    fn many_places_are_blocks_of_rows_and_columns() {
        let attributes = vec![("mode", Attr::Text("linear")), ("antialias", Attr::Int(1))];
        let graph = resize(&["1", "2", "300", "450"], &[1, 2, 100, 150], attributes).import(18, &Default::default());
        let text = graph.as_ref().unwrap().to_string();
        assert_eq!([text.matches("= matmul ").count(), text.matches("= concat ").count()], [4 + 5, 2], "{text}");
        check(&graph.unwrap(), Tolerance::ulps(8).or_absolute(1e-5));
    }

    /// A short file could otherwise ask for lists of any length.
    #[test]
    fn lists_of_places_fit_into_the_memory_for_translations() {
        let cubic = |size| resize(&["1", "4"], &[1, size], vec![("mode", Attr::Text("cubic"))]);
        assert_eq!(cubic(100_000).output_shape(18), [1, 100_000]);
        let error = cubic(1 << 20).import(18, &Default::default()).unwrap_err().to_string();
        assert!(error.contains("too much memory"), "{error}");
    }

    #[test]
    fn sizes_from_scales_are_products_in_float32() {
        let shape = |sizes: &str, scale| {
            let graph = TestGraph::default().input("x", Float, &[sizes]).floats("scales", &[1], &[scale]);
            graph.node("Resize", "x _ scales", "y", vec![]).output("y").output_shape(13)
        };
        // The float32 nearest to 0.7 is less.
        assert_eq!([shape("10", 0.7), shape("10", 0.69), shape("5", 1.6), shape("3", 1.0 / 3.0)], [[7], [6], [8], [1]]);
    }

    #[test]
    fn aspect_ratios_are_kept() {
        let kept = |policy| {
            let attributes = vec![("keep_aspect_ratio_policy", Attr::Text(policy)), ("axes", Attr::Ints(&[3, 2]))];
            resize(&["1", "2", "4", "6"], &[12, 6], attributes).output_shape(18)
        };
        assert_eq!(kept("not_larger"), [1, 2, 6, 9]);
        assert_eq!(kept("not_smaller"), [1, 2, 8, 12]);
    }

    #[test]
    fn unknown_sizes_are_refused() {
        let graph = TestGraph::default().input("x", Float, &["1", "2"]).input("sizes", Int64, &["2"]);
        let message = graph.node("Resize", "x _ _ sizes", "y", vec![]).output("y").refusal(13);
        assert!(message.contains("sizes (input 3) is computed from inputs of the model"), "{message}");
        let message = resize(&["1", "2"], &[1, 0], vec![]).refusal(13);
        assert!(message.contains("sizes are [1, 0], expected 2 numbers above 0"), "{message}");
        let message = resize(&["0", "2"], &[1, 2], vec![]).refusal(13);
        assert!(message.contains("sizes are [1, 2], expected 2 numbers above 0"), "{message}");
        assert!(scaled(&["1", "4"], -0.5).refusal(13).contains("a dimension of 4 cannot be scaled by -0.5"));
    }

    fn scaled(dims: &[&str], scale: f32) -> TestGraph {
        let graph = TestGraph::default().input("x", Float, dims).floats("scales", &[2], &[1.0, scale]);
        graph.node("Resize", "x _ scales", "y", vec![("mode", Attr::Text("linear"))]).output("y")
    }

    #[test]
    fn nothing_stays_nothing_and_little_becomes_nothing() {
        let shape = |graph: TestGraph| {
            let model = crate::onnx::Model::decode(graph.encode(13), Default::default()).unwrap();
            let mut builder = crate::ir::Builder::new();
            let imported = crate::onnx::import(&model, &mut builder, &Default::default()).unwrap();
            crate::dimension::numbers(&imported.outputs[0].descriptor.shape)
        };
        assert_eq!(shape(scaled(&["1", "4"], 0.2)), [1, 0]);
        assert_eq!(shape(scaled(&["0", "4"], 2.0)), [0, 8]);
        assert_eq!(shape(resize(&["0", "4"], &[0, 7], vec![])), [0, 7]);
    }
}
