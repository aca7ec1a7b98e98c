//! Resizing: each dimension separately, with indices and weights computed during translation.
//!
//! Cases that `resample2d` covers are left to it, which is faster. Otherwise, an output along a dimension is a sum of a
//! few gathered elements, or of a product with a matrix of weights if there are many.

use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step, check_generated};
use crate::onnx::error::Refusal;
use crate::onnx::import::Value;
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;
use crate::ops::resample2d::{InterpolationMode, Resample2d, between, nearest};
use crate::shape::Descriptor;

/// How an element of the output is computed from those of the input.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Nearest(Nearest),
    Linear,
    /// With the coefficient `a`.
    Cubic(f64),
}

/// How a coordinate is rounded.
#[derive(Clone, Copy, PartialEq)]
enum Nearest {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
    /// In opset 10: down if the output is larger, up if it is smaller.
    Simple,
}

/// The target length of a dimension.
#[derive(Clone, Copy)]
enum Length {
    /// A scale; the length is rounded down.
    Scale(f64),
    /// A scale that all dimensions share; the length is rounded to nearest.
    Common(f64),
    Size(Dim),
}

/// The attributes of a resizing.
struct Resizing {
    mode: Mode,
    /// `coordinate_transformation_mode`.
    coordinates: String,
    antialias: bool,
    exclude_outside: bool,
    extrapolation: f64,
}

/// Sizes along a dimension.
#[derive(Clone, Copy)]
struct Sizes {
    input: u32,
    output: u32,
    scale: f64,
    /// The size of the output before it is rounded to a whole number.
    length: f64,
    /// Start and end of the region of interest.
    roi: [f64; 2],
}

/// The plan for a dimension of the output: for each place, elements of the input and their weights.
struct Plan {
    axis: usize,
    input: u32,
    taps: Vec<Vec<(u32, f64)>>,
    /// Whether each place receives the extrapolation value.
    outside: Vec<bool>,
}

impl Resizing {
    /// The coordinate in the input for place `x` of the output.
    fn coordinate(&self, sizes: &Sizes, x: u32) -> Step<f64> {
        // The nearest element can depend on the last bit: in float32, the type of scales, 8 / 1.6 is 5, but with the
        // float32 nearest to 1.6, it is less in float64.
        let nearest = matches!(self.mode, Mode::Nearest(_));
        let round = |number: f64| if nearest { number as f32 as f64 } else { number };
        let Sizes { input, output, scale, length, roi: [start, end] } = *sizes;
        let (x, last, scale, length) = (x as f64, input as f64 - 1.0, round(scale), round(length));
        let center = round(round((x + 0.5) / scale) - 0.5);
        Ok(match self.coordinates.as_str() {
            "half_pixel" => center,
            "half_pixel_symmetric" => input as f64 / 2.0 * (1.0 - output as f64 / length) + center,
            "pytorch_half_pixel" if output == 1 => 0.0,
            "pytorch_half_pixel" => center,
            "tf_half_pixel_for_nn" => round((x + 0.5) / scale),
            "asymmetric" => round(x / scale),
            // As in the standard's text and onnxruntime, the length of the resized dimension is a whole number here.
            "align_corners" if output == 1 => 0.0,
            "align_corners" => round(round(x * last) / (output as f64 - 1.0)),
            "tf_crop_and_resize" if output == 1 => 0.5 * (start + end) * last,
            "tf_crop_and_resize" => start * last + x * (end - start) * last / (output as f64 - 1.0),
            other => return Err(Refusal(format!("coordinate_transformation_mode is {other}"))),
        })
    }

    /// Returns the first element that contributes, and the weights from it on, for a coordinate that is `ratio` (above
    /// 0, up to 1) after element 0.
    fn weights(&self, ratio: f64, scale: f64) -> (i64, Vec<f64>) {
        // An antialiasing filter is stretched if the output is smaller than the input.
        let stretch = if self.antialias { scale.min(1.0) } else { 1.0 };
        let support = if matches!(self.mode, Mode::Cubic(_)) { 2.0 } else { 1.0 };
        let first = (-support / stretch).floor() as i64 + 1;
        let filter = |x: f64| match self.mode {
            Mode::Cubic(a) if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            Mode::Cubic(a) if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            Mode::Cubic(_) => 0.0,
            _ => (1.0 - x).max(0.0),
        };
        let weights: Vec<f64> = (first..2 - first).map(|at| filter(((at as f64 - ratio) * stretch).abs())).collect();
        (first, weights)
    }

    /// Whether a dimension may change although its size does not.
    fn moves(&self) -> bool {
        matches!(self.coordinates.as_str(), "tf_crop_and_resize" | "tf_half_pixel_for_nn")
    }

    /// Whether a dimension certainly remains unchanged, without checking every place.
    fn keeps(&self, sizes: &Sizes) -> bool {
        sizes.input == sizes.output && sizes.scale == 1.0 && !self.moves()
    }

    /// The size of the output for an `input` that is still unknown, if `resample2d` is equivalent for all sizes.
    fn resampled_size(&self, input: Dim, wanted: Length) -> Option<Dim> {
        let (output, factor) = match wanted {
            Length::Scale(scale) if scale.fract() == 0.0 && (1.0..=MAX_FACTOR).contains(&scale) => {
                (input * scale as u32, scale as u32)
            }
            Length::Scale(_) | Length::Common(_) => return None,
            Length::Size(size) => (size, (size.shown() / input.shown().max(1)).clamp(0, MAX_FACTOR as i64) as u32),
        };
        let known = Dim::ONE..=Dim::from(MAX_RESAMPLED);
        if self.antialias || self.exclude_outside || !known.contains(&output) {
            return None;
        }
        let same = match (self.mode, self.coordinates.as_str()) {
            (Mode::Linear, "half_pixel" | "half_pixel_symmetric") => true,
            (Mode::Linear, "pytorch_half_pixel") => output > 1,
            // No place is in the middle between two elements.
            (Mode::Nearest(Nearest::PreferFloor | Nearest::PreferCeil), "half_pixel" | "half_pixel_symmetric")
            | (Mode::Nearest(Nearest::Floor | Nearest::Simple), "asymmetric") => factor > 0 && output == input * factor,
            _ => false,
        };
        same.then_some(output)
    }

    fn plan(&self, axis: usize, sizes: &Sizes) -> Step<Plan> {
        let width = if self.antialias { 4.0 / sizes.scale.min(1.0) } else { 4.0 };
        if sizes.output as f64 * width > MAX_WEIGHTS as f64 {
            let Sizes { input, output, .. } = sizes;
            return Err(Refusal(format!("dimension {axis} is too large to be resized from {input} to {output}")));
        }
        let last = sizes.input as i64 - 1;
        let (mut taps, mut outside) = (Vec::new(), Vec::new());
        for place in 0..sizes.output {
            let x = self.coordinate(sizes, place)?;
            if !x.is_finite() {
                return Err(Refusal(format!("place {place} of dimension {axis} has the coordinate {x}")));
            }
            // Farther outside, nothing changes.
            let x = x.clamp(-1e12, 1e12);
            outside.push(self.coordinates == "tf_crop_and_resize" && !(0.0..=last as f64).contains(&x));
            let inside = |at: i64| at.clamp(0, last) as u32;
            if let Mode::Nearest(nearest) = self.mode {
                let rounded = match nearest {
                    Nearest::PreferFloor => (x - 0.5).ceil(),
                    Nearest::PreferCeil => (x + 0.5).floor(),
                    Nearest::Simple if sizes.scale < 1.0 => x.ceil(),
                    Nearest::Floor | Nearest::Simple => x.floor(),
                    Nearest::Ceil => x.ceil(),
                };
                taps.push(vec![(inside(rounded as i64), 1.0)]);
                continue;
            }
            let base = x.ceil() as i64 - 1;
            let (first, mut weights) = self.weights(x - base as f64, sizes.scale);
            let places: Vec<i64> = (0..weights.len() as i64).map(|at| base + first + at).collect();
            if self.exclude_outside {
                for (weight, place) in weights.iter_mut().zip(&places) {
                    *weight = if (0..=last).contains(place) { *weight } else { 0.0 };
                }
            }
            let total: f64 = if self.exclude_outside || self.antialias { weights.iter().sum() } else { 1.0 };
            // Elements beyond a border repeat the border's.
            let mut merged: Vec<(u32, f64)> = Vec::new();
            for (&place, weight) in places.iter().zip(weights) {
                match merged.last_mut() {
                    Some((at, sum)) if *at == inside(place) => *sum += weight / total,
                    _ => merged.push((inside(place), weight / total)),
                }
            }
            merged.retain(|&(_, weight)| weight != 0.0);
            taps.push(merged);
        }
        Ok(Plan { axis, input: sizes.input, taps, outside })
    }
}

/// Maximum difference between coordinates and those of `resample2d`: less than the effect of rounding a scale to
/// float32, in an image of usual size.
const SAME_PLACE: f64 = 1e-5;

/// The largest dimension of an output that is still unknown, and the largest integer factor, for which float32
/// determines the nearest element.
const MAX_RESAMPLED: u32 = 1 << 16;
const MAX_FACTOR: f64 = 16.0;

/// Maximum number of weights along a dimension.
const MAX_WEIGHTS: u64 = 1 << 22;

/// Maximum number of elements per output to gather one by one; for more, the dimension becomes a matrix product.
const MAX_GATHERED: usize = 4;

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

    fn product(&self, call: &mut Call, x: OperandId) -> Step<OperandId> {
        let shape = call.shape(x);
        let (input, places) = (self.input as usize, self.taps.len());
        let (before, after) = (&shape[..self.axis], &shape[self.axis + 1..]);
        let is_last = after.is_empty();
        check_generated((input * places) as u64)?;
        let mut matrix = vec![0.0; input * places];
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
fn resize_axes(call: &mut Call, how: &Resizing, axes: &[u32], lengths: &[Length], regions: &[[f64; 2]]) -> Outcome {
    let shape = call.input_shape(0)?;
    let stays = |axis: usize, length: Length| match length {
        Length::Scale(scale) => scale == 1.0,
        // The size is rounded in any case.
        Length::Common(scale) => scale == 1.0,
        Length::Size(size) => size == shape[axis],
    };
    let pairs = axes.iter().zip(lengths).map(|(&axis, &length)| (axis as usize, length));
    let changed: Vec<(usize, Length)> = pairs.filter(|&(axis, length)| how.moves() || !stays(axis, length)).collect();
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
    let mut all = vec![unchanged(1); shape.len()];
    let mut output = shape.clone();
    for (axis, length) in changed {
        let input = shape[axis].get();
        all[axis] = match length {
            Length::Scale(scale) => {
                Sizes { output: scaled(input, scale)?, scale, length: scale * input as f64, ..unchanged(input) }
            }
            Length::Common(scale) => {
                let length = scale * input as f64;
                Sizes { output: scaled(1, length + 0.5)?, scale, length, ..unchanged(input) }
            }
            Length::Size(size) => {
                let output = size.get();
                Sizes { output, scale: output as f64 / input as f64, length: output as f64, ..unchanged(input) }
            }
        };
        output[axis] = all[axis].output.into();
    }
    if output.iter().any(|&size| size == 0) {
        let dtype = call.input_type(0).ok_or("the input is of a type that WebNN does not have")?;
        return Ok(vec![Value::Empty(Descriptor { dtype, shape: output })]);
    }
    for (&axis, &roi) in axes.iter().zip(regions) {
        all[axis as usize].roi = roi;
    }
    emit(call, how, &all)
}

fn emit(call: &mut Call, how: &Resizing, sizes: &[Sizes]) -> Outcome {
    let x = call.input(0)?;
    let dtype = call.dtype(x);
    let mut plans = Vec::new();
    for (axis, sizes) in sizes.iter().enumerate() {
        if how.keeps(sizes) {
            continue;
        }
        let plan = how.plan(axis, sizes)?;
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
    let interpolates = !matches!(how.mode, Mode::Nearest(_)) && !dtype.is_float();
    if interpolates && dtype.size() != 1 {
        return Err(Refusal(format!("values between those of type {dtype} are not supported")));
    }
    let mut y = if interpolates { call.cast(x, DataType::Float32)? } else { x };
    // Shrinking dimensions come first, to leave less to compute.
    plans.sort_by(|a, b| {
        let growth = |plan: &Plan| plan.taps.len() as f64 / plan.input as f64;
        growth(a).total_cmp(&growth(b))
    });
    for plan in &plans {
        y = plan.apply(call, y)?;
    }
    for plan in plans.iter().filter(|plan| plan.outside.contains(&true)) {
        let mut shape = vec![1; call.rank(y) - plan.axis];
        shape[0] = plan.outside.len() as u32;
        let outside = plan.outside.iter().map(|&outside| outside as i64);
        let outside = call.constant(DataType::Uint8, &shape, outside)?;
        let value = call.scalar_like(y, how.extrapolation)?;
        y = call.select(outside, value, y)?;
    }
    if interpolates {
        // Truncates the fraction.
        let (magnitude, sign) = (call.emit(E::Abs, &[y])?, call.emit(E::Sign, &[y])?);
        let whole = call.emit(E::Floor, &[magnitude])?;
        y = call.mul(whole, sign)?;
        y = call.cast(y, dtype)?;
    }
    call.one(Ok(y))
}

/// The size of an output for a scale.
fn scaled(input: u32, scale: f64) -> Step<u32> {
    let output = (input as f64 * scale).floor();
    match scale > 0.0 && output <= i32::MAX as f64 {
        true => Ok(output as u32),
        false => Err(Refusal(format!("a dimension of {input} cannot be scaled by {scale}"))),
    }
}

/// The length of each of `axes` for scales.
fn lengths_for_scales(axes: &[u32], scales: &[f64]) -> Step<Vec<Length>> {
    match scales.len() == axes.len() {
        true => Ok(scales.iter().copied().map(Length::Scale).collect()),
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
    let factors = pairs.map(|(&axis, size)| size.get() as f64 / shape[axis as usize].get() as f64);
    let common = match policy {
        "stretch" => return Ok(wanted.iter().copied().map(Length::Size).collect()),
        "not_larger" => factors.reduce(f64::min),
        "not_smaller" => factors.reduce(f64::max),
        other => return Err(Refusal(format!("keep_aspect_ratio_policy is {other}"))),
    };
    Ok(vec![Length::Common(common.unwrap_or(1.0)); axes.len()])
}

fn unchanged(size: u32) -> Sizes {
    Sizes { input: size, output: size, scale: 1.0, length: size as f64, roi: [0.0, 1.0] }
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
        coordinates: call.text_or("coordinate_transformation_mode", "half_pixel"),
        antialias: call.int_or("antialias", 0) != 0,
        exclude_outside: call.int_or("exclude_outside", 0) != 0,
        extrapolation: call.float_or("extrapolation_value", 0.0),
    })
}

/// `Upsample`, and `Resize` of opset 10, which works the same way.
fn upsample(call: &mut Call) -> Outcome {
    let shape = call.input_shape(0)?;
    let scales = match call.floats_attribute("scales").filter(|_| call.opset < 9) {
        Some(scales) => scales,
        None => call.optional_floats(1, "scales")?.ok_or("scales are missing")?,
    };
    let mode = match call.text_or("mode", "nearest").as_str() {
        "nearest" => Mode::Nearest(Nearest::Simple),
        "linear" => Mode::Linear,
        other => return Err(Refusal(format!("mode is {other}"))),
    };
    let coordinates = "asymmetric".to_string();
    let how = Resizing { mode, coordinates, antialias: false, exclude_outside: false, extrapolation: 0.0 };
    let axes: Vec<u32> = (0..shape.len() as u32).collect();
    let lengths = lengths_for_scales(&axes, &scales)?;
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
    if how.coordinates == "tf_crop_and_resize" {
        let roi = call.optional_floats(1, "roi")?.unwrap_or_default();
        if roi.len() != 2 * axes.len() {
            return Err(Refusal(format!("roi has {} elements, expected {}", roi.len(), 2 * axes.len())));
        }
        regions = (0..axes.len()).map(|at| [roi[at], roi[axes.len() + at]]).collect();
    }
    resize_axes(call, &how, &axes, &lengths, &regions)
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Resize", "constant scales, sizes and roi; between integers of 8 bits only", resize),
    standard("Upsample", "constant scales", upsample),
];

#[cfg(test)]
mod tests {
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::*;

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
