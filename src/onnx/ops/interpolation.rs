//! Where the elements of a resized dimension come from: coordinates, nearest elements, and weights. Numbers only.
//!
//! Coordinates are exact fractions where sizes determine them. Scales are float32 numbers that stand for others (1.6 for
//! 8/5), so elements at exact positions depend on how coordinates are rounded: as onnxruntime does.

use crate::onnx::call::Step;
use crate::onnx::error::Refusal;

/// How an element of the output is computed from those of the input.
#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    /// It is the nearest one.
    Nearest(Nearest),
    /// It is on the line between the two around it.
    Linear,
    /// It is on a curve through the four around it, with the coefficient `a`.
    Cubic(f64),
}

/// How a coordinate is rounded.
#[derive(Clone, Copy, PartialEq)]
pub enum Nearest {
    /// To the nearest one, in the middle down.
    PreferFloor,
    /// To the nearest one, in the middle up.
    PreferCeil,
    /// Down.
    Floor,
    /// Up.
    Ceil,
    /// In opset 10: down if the output is larger, up if it is smaller.
    Simple,
}

/// `coordinate_transformation_mode`; [`Resizing::exact`] has the formulas.
#[derive(Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the names are those of the standard")]
pub enum Transformation {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    TfHalfPixelForNn,
    Asymmetric,
    AlignCorners,
    TfCropAndResize,
}

impl Transformation {
    /// The one with this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> Step<Transformation> {
        Ok(match name {
            "half_pixel" => Transformation::HalfPixel,
            "half_pixel_symmetric" => Transformation::HalfPixelSymmetric,
            "pytorch_half_pixel" => Transformation::PytorchHalfPixel,
            "tf_half_pixel_for_nn" => Transformation::TfHalfPixelForNn,
            "asymmetric" => Transformation::Asymmetric,
            "align_corners" => Transformation::AlignCorners,
            "tf_crop_and_resize" => Transformation::TfCropAndResize,
            other => return Err(Refusal(format!("coordinate_transformation_mode is {other}"))),
        })
    }
}

/// The factor from the size of an input to that of the output.
#[derive(Clone, Copy, PartialEq)]
pub enum Factor {
    /// The quotient of two sizes, neither of them 0.
    Ratio {
        /// The dividend.
        output: u32,
        /// The divisor.
        input: u32,
    },
    /// A scale of the model.
    Scale(f32),
}

impl Factor {
    /// No change.
    pub const ONE: Factor = Factor::Ratio { output: 1, input: 1 };

    /// The nearest float64.
    pub fn to_f64(self) -> f64 {
        match self {
            Factor::Ratio { output, input } => output as f64 / input as f64,
            Factor::Scale(scale) => scale as f64,
        }
    }

    /// The nearest float32.
    fn to_f32(self) -> f32 {
        match self {
            Factor::Ratio { output, input } => output as f32 / input as f32,
            Factor::Scale(scale) => scale,
        }
    }

    /// Whether an output of this factor has the size of the input.
    pub fn is_one(self) -> bool {
        self.to_f64() == 1.0
    }
}

/// Sizes along a dimension.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Of the input.
    pub input: u32,
    /// Of the output.
    pub output: u32,
    /// What coordinates are computed with: not always the quotient of the sizes, which are whole numbers.
    pub factor: Factor,
    /// Start and end of the region of interest.
    pub roi: [f32; 2],
}

impl Sizes {
    /// Those of a dimension of `size` elements that does not change.
    pub fn unchanged(size: u32) -> Sizes {
        Sizes { input: size, output: size, factor: Factor::ONE, roi: [0.0, 1.0] }
    }
}

/// A place in the input, as a coordinate: the element at or before it, and how far behind that it is, from 0 to below 1.
#[derive(Clone, Copy)]
struct Coordinate {
    floor: i64,
    rest: Rest,
}

#[derive(Clone, Copy)]
enum Rest {
    /// A fraction.
    Exact { numerator: i128, denominator: i128 },
    /// A rounded number.
    Rounded(f64),
}

/// The distance from the middle between two elements below which onnxruntime takes a rounded coordinate for the middle.
const TIE: f64 = 1e-6;

impl Coordinate {
    fn exact(numerator: i128, denominator: i128) -> Coordinate {
        let (floor, rest) = (numerator.div_euclid(denominator), numerator.rem_euclid(denominator));
        Coordinate { floor: floor as i64, rest: Rest::Exact { numerator: rest, denominator } }
    }

    fn rounded(x: f64) -> Coordinate {
        Coordinate { floor: x.floor() as i64, rest: Rest::Rounded(x - x.floor()) }
    }

    /// How far it is behind the element before it.
    fn rest(&self) -> f64 {
        match self.rest {
            Rest::Exact { numerator, denominator } => numerator as f64 / denominator as f64,
            Rest::Rounded(rest) => rest,
        }
    }

    /// Whether it is in the first half between two elements, in the middle, or in the second half.
    fn half(&self) -> std::cmp::Ordering {
        match self.rest {
            Rest::Exact { numerator, denominator } => (2 * numerator).cmp(&denominator),
            Rest::Rounded(rest) if (rest - 0.5).abs() <= TIE => std::cmp::Ordering::Equal,
            Rest::Rounded(rest) => rest.total_cmp(&0.5),
        }
    }

    /// The nearest element, possibly outside of the input.
    fn nearest(&self, how: Nearest, factor: Factor) -> i64 {
        let is_up = match how {
            Nearest::PreferFloor => self.half().is_gt(),
            Nearest::PreferCeil => self.half().is_ge(),
            Nearest::Ceil => self.rest() > 0.0,
            Nearest::Simple => factor.to_f64() < 1.0 && self.rest() > 0.0,
            Nearest::Floor => false,
        };
        self.floor + is_up as i64
    }

    /// The last element before it, and how far it is behind that: above 0, up to 1.
    fn after(&self) -> (i64, f64) {
        match self.rest() {
            0.0 => (self.floor - 1, 1.0),
            rest => (self.floor, rest),
        }
    }
}

/// The attributes of a resizing.
pub struct Resizing {
    /// `mode`, with what belongs to it.
    pub mode: Mode,
    /// `coordinate_transformation_mode`.
    pub transformation: Transformation,
    /// `antialias`.
    pub antialias: bool,
    /// `exclude_outside`.
    pub exclude_outside: bool,
    /// `extrapolation_value`.
    pub extrapolation: f64,
}

/// The plan for a dimension of the output: for each place, elements of the input and their weights.
pub struct Plan {
    /// The dimension.
    pub axis: usize,
    /// Its size in the input.
    pub input: u32,
    /// For each place, elements and their weights; at least one.
    pub taps: Vec<Vec<(u32, f64)>>,
    /// Whether each place receives the extrapolation value.
    pub outside: Vec<bool>,
}

/// Maximum number of weights along a dimension.
const MAX_WEIGHTS: u64 = 1 << 22;

/// Beyond this distance, nothing changes any more.
const FAR: f64 = 1e12;

/// The unit of the weights for bytes.
pub const BYTE_WEIGHT: f64 = 1.0 / (1u64 << 22) as f64;

impl Resizing {
    /// The coordinate in the input for place `x` of the output.
    fn coordinate(&self, sizes: &Sizes, x: u32) -> Coordinate {
        match self.exact(sizes, x) {
            Some([numerator, denominator]) => Coordinate::exact(numerator, denominator),
            None => {
                let is_nearest = matches!(self.mode, Mode::Nearest(_));
                Coordinate::rounded(self.computed(sizes, x, is_nearest).clamp(-FAR, FAR))
            }
        }
    }

    /// Numerator and denominator of the coordinate if sizes alone determine it.
    fn exact(&self, sizes: &Sizes, x: u32) -> Option<[i128; 2]> {
        let (x, input, output) = (x as i128, sizes.input as i128, sizes.output as i128);
        // As in the standard's text and onnxruntime, the length of the resized dimension is a whole number here.
        if self.transformation == Transformation::AlignCorners {
            return Some(if output == 1 { [0, 1] } else { [x * (input - 1), output - 1] });
        }
        if self.transformation == Transformation::PytorchHalfPixel && output == 1 {
            return Some([0, 1]);
        }
        let Factor::Ratio { output: p, input: q } = sizes.factor else { return None };
        let (p, q) = (p as i128, q as i128);
        let center = (2 * x + 1) * q - p;
        Some(match self.transformation {
            Transformation::HalfPixel | Transformation::PytorchHalfPixel => [center, 2 * p],
            Transformation::HalfPixelSymmetric => [input * p - output * q + center, 2 * p],
            Transformation::TfHalfPixelForNn => [center + p, 2 * p],
            Transformation::Asymmetric => [x * q, p],
            Transformation::AlignCorners | Transformation::TfCropAndResize => return None,
        })
    }

    /// The coordinate in float64 or, like onnxruntime, with every step rounded to float32.
    fn computed(&self, sizes: &Sizes, x: u32, is_narrow: bool) -> f64 {
        let round = |number: f64| if is_narrow { number as f32 as f64 } else { number };
        let (x, input, output) = (round(x as f64), round(sizes.input as f64), round(sizes.output as f64));
        let scale = if is_narrow { sizes.factor.to_f32() as f64 } else { sizes.factor.to_f64() };
        let [start, end] = sizes.roi.map(f64::from);
        let (last, center) = (input - 1.0, round(round(x + 0.5) / scale));
        match self.transformation {
            Transformation::PytorchHalfPixel if output == 1.0 => 0.0,
            Transformation::HalfPixel | Transformation::PytorchHalfPixel => round(center - 0.5),
            Transformation::HalfPixelSymmetric => {
                let adjustment = round(output / round(scale * input));
                let offset = round(input / 2.0 * round(1.0 - adjustment));
                // This step is in float64 there as well.
                round(offset + (x + 0.5) / scale - 0.5)
            }
            Transformation::TfHalfPixelForNn => center,
            Transformation::Asymmetric => round(x / scale),
            Transformation::AlignCorners if output == 1.0 => 0.0,
            Transformation::AlignCorners => round(round(x * last) / (output - 1.0)),
            Transformation::TfCropAndResize if output == 1.0 => round(0.5 * round(start + end) * last),
            // Exact at both ends.
            Transformation::TfCropAndResize => round(last * (start * (output - 1.0 - x) + end * x) / (output - 1.0)),
        }
    }

    /// The filter at distance `x`, at least 0, from its center.
    fn filter(&self, x: f64) -> f64 {
        match self.mode {
            Mode::Cubic(a) if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            Mode::Cubic(a) if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            Mode::Cubic(_) => 0.0,
            _ => (1.0 - x).max(0.0),
        }
    }

    /// Number of elements that the filter reaches to each side.
    fn support(&self) -> f64 {
        if matches!(self.mode, Mode::Cubic(_)) { 2.0 } else { 1.0 }
    }

    /// Returns the first element that contributes, and the weights from it on, for a coordinate that is `ratio` (above
    /// 0, up to 1) after element 0.
    fn weights(&self, ratio: f64, factor: f64) -> (i64, Vec<f64>) {
        // An antialiasing filter is stretched if the output is smaller than the input.
        let stretch = if self.antialias { factor.min(1.0) } else { 1.0 };
        let first = (-self.support() / stretch).floor() as i64 + 1;
        let weight = |at: i64| self.filter(((at as f64 - ratio) * stretch).abs());
        (first, (first..2 - first).map(weight).collect())
    }

    /// Whether a dimension may change although its size does not.
    pub fn moves(&self, sizes: &Sizes) -> bool {
        self.transformation == Transformation::TfCropAndResize && sizes.roi != [0.0, 1.0]
    }

    /// The elements and weights for place `x` of the output.
    fn taps(&self, sizes: &Sizes, x: u32) -> Vec<(u32, f64)> {
        let last = sizes.input as i64 - 1;
        let coordinate = self.coordinate(sizes, x);
        if let Mode::Nearest(nearest) = self.mode {
            return vec![(coordinate.nearest(nearest, sizes.factor).clamp(0, last) as u32, 1.0)];
        }
        let (base, ratio) = coordinate.after();
        let (first, weights) = self.weights(ratio, sizes.factor.to_f64());
        let is_whole = !self.exclude_outside && !self.antialias;
        let places = (base + first..).zip(weights).filter(|(at, _)| !self.exclude_outside || (0..=last).contains(at));
        let places: Vec<(i64, f64)> = places.collect();
        let total: f64 = if is_whole { 1.0 } else { places.iter().map(|(_, weight)| weight).sum() };
        merged(places.into_iter().map(|(at, weight)| (at, if total == 0.0 { 0.0 } else { weight / total })), last)
    }

    /// Like [`taps`](Self::taps), for 8-bit integers with antialiasing: multiples of [`BYTE_WEIGHT`], the very numbers
    /// with which onnxruntime computes, and so where a result in the middle between two integers goes.
    fn byte_taps(&self, sizes: &Sizes, x: u32) -> Vec<(u32, f64)> {
        let round = |number: f64| number as f32 as f64;
        let last = sizes.input as i64 - 1;
        let scale = round(1.0 / sizes.factor.to_f32() as f64);
        let support = round(self.support() * scale.max(1.0));
        let stretch = if scale >= 1.0 { round(1.0 / scale) } else { 1.0 };
        let center = round(0.5 + if scale == 1.0 { x as f64 } else { self.computed(sizes, x, true).clamp(-FAR, FAR) });
        let end = |reach: f64| round(round(center + reach) + 0.5).floor() as i64;
        let filter = |at: i64| {
            let x = round(round(round(round(at as f64) - center) + 0.5) * stretch).abs();
            let horner =
                |terms: [f64; 4]| terms.into_iter().reduce(|sum, term| round(round(sum * x) + term)).unwrap_or(0.0);
            match self.mode {
                Mode::Cubic(a) if x < 1.0 => horner([round(a + 2.0), -round(a + 3.0), 0.0, 1.0]),
                Mode::Cubic(a) if x < 2.0 => round(horner([1.0, -5.0, 8.0, -4.0]) * a),
                _ => round(self.filter(x)),
            }
        };
        let places = (end(-support)..end(support)).filter(|at| !self.exclude_outside || (0..=last).contains(at));
        let places: Vec<(i64, f64)> = places.map(|at| (at, filter(at))).collect();
        let total = places.iter().fold(0.0, |sum, (_, weight)| round(sum + weight));
        let inverse = if total == 0.0 { 1.0 } else { round(1.0 / total) };
        // The border's own weight comes first.
        let (inside, outside): (Vec<_>, Vec<_>) = places.into_iter().partition(|(at, _)| (0..=last).contains(at));
        let mut sums = inside;
        for (at, weight) in outside {
            let border = at.clamp(0, last);
            // Places are consecutive: a border can only be the first or the last of them.
            let end = if border == 0 { sums.first_mut() } else { sums.last_mut() };
            match end.filter(|(place, _)| *place == border) {
                Some((_, sum)) => *sum = round(*sum + weight),
                None => sums.push((border, weight)),
            }
        }
        let unit = |weight: f64| (round(weight * inverse) / BYTE_WEIGHT).round() * BYTE_WEIGHT;
        merged(sums.into_iter().map(|(at, weight)| (at, unit(weight))), last)
    }

    /// The plan for dimension `axis`; `are_bytes` for 8-bit integers.
    ///
    /// # Errors
    /// If there would be too many weights, or scales or the region of interest are not finite.
    pub fn plan(&self, axis: usize, sizes: &Sizes, are_bytes: bool) -> Step<Plan> {
        let factor = sizes.factor.to_f64();
        let width = if self.antialias { 4.0 / factor.min(1.0) } else { 4.0 };
        if sizes.output as f64 * width > MAX_WEIGHTS as f64 {
            let Sizes { input, output, .. } = sizes;
            return Err(Refusal(format!("dimension {axis} is too large to be resized from {input} to {output}")));
        }
        let (mut taps, mut outside) = (Vec::new(), Vec::new());
        for place in 0..sizes.output {
            let x = self.computed(sizes, place, false);
            if !x.is_finite() {
                return Err(Refusal(format!("place {place} of dimension {axis} has the coordinate {x}")));
            }
            // In the precision of the region of interest.
            let is_inside = (0.0..=sizes.input as f32 - 1.0).contains(&(x as f32));
            outside.push(self.transformation == Transformation::TfCropAndResize && !is_inside);
            let is_fixed = are_bytes && self.antialias;
            taps.push(if is_fixed { self.byte_taps(sizes, place) } else { self.taps(sizes, place) });
        }
        Ok(Plan { axis, input: sizes.input, taps, outside })
    }
}

/// Adds up the weights of elements beyond a border, which repeat the border's. At least one element remains.
fn merged(places: impl Iterator<Item = (i64, f64)>, last: i64) -> Vec<(u32, f64)> {
    let mut merged: Vec<(u32, f64)> = Vec::new();
    for (place, weight) in places {
        let inside = place.clamp(0, last) as u32;
        match merged.last_mut() {
            Some((at, sum)) if *at == inside => *sum += weight,
            _ => merged.push((inside, weight)),
        }
    }
    merged.retain(|&(_, weight)| weight != 0.0);
    if merged.is_empty() {
        merged.push((0, 0.0));
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(transformation: Transformation, nearest: Nearest, sizes: Sizes) -> Vec<u32> {
        let mode = Mode::Nearest(nearest);
        let how = Resizing { mode, transformation, antialias: false, exclude_outside: false, extrapolation: 0.0 };
        how.plan(0, &sizes, false).unwrap().taps.iter().map(|taps| taps[0].0).collect()
    }

    fn sized(input: u32, output: u32) -> Sizes {
        Sizes { output, factor: Factor::Ratio { output, input }, ..Sizes::unchanged(input) }
    }

    fn scaled(input: u32, scale: f32) -> Sizes {
        Sizes { output: (input as f32 * scale) as u32, factor: Factor::Scale(scale), ..Sizes::unchanged(input) }
    }

    #[test]
    fn sizes_determine_the_nearest_elements_exactly() {
        use Nearest::*;
        let asymmetric = |nearest, input, output| places(Transformation::Asymmetric, nearest, sized(input, output));
        assert_eq!(asymmetric(PreferCeil, 7, 2), [0, 4]);
        assert_eq!(asymmetric(PreferFloor, 7, 2), [0, 3]);
        assert_eq!(asymmetric(Floor, 21, 3), [0, 7, 14]);
        assert_eq!(asymmetric(Ceil, 21, 3), [0, 7, 14]);
        // Against floats without rounding errors: all quotients of these sizes have few binary digits.
        for (input, output) in [(7, 4), (24, 16), (5, 8), (64, 2), (9, 32)] {
            let factor = output as f64 / input as f64;
            for (transformation, coordinate) in [
                (Transformation::Asymmetric, (|x, f| x / f) as fn(f64, f64) -> f64),
                (Transformation::HalfPixel, |x, f| (x + 0.5) / f - 0.5),
                (Transformation::HalfPixelSymmetric, |x, f| (x + 0.5) / f - 0.5),
                (Transformation::TfHalfPixelForNn, |x, f| (x + 0.5) / f),
            ] {
                for (nearest, round) in [
                    (PreferFloor, (|x: f64| (x - 0.5).ceil()) as fn(f64) -> f64),
                    (PreferCeil, |x| (x + 0.5).floor()),
                    (Floor, f64::floor),
                    (Ceil, f64::ceil),
                ] {
                    let place = |x: u32| round(coordinate(x as f64, factor)).clamp(0.0, input as f64 - 1.0) as u32;
                    let expected: Vec<u32> = (0..output).map(place).collect();
                    assert_eq!(places(transformation, nearest, sized(input, output)), expected, "{input} to {output}");
                }
            }
        }
    }

    /// Results of onnxruntime.
    #[test]
    fn scales_determine_the_nearest_elements_in_float32() {
        use Nearest::*;
        let symmetric = |nearest| places(Transformation::HalfPixelSymmetric, nearest, scaled(10, 1.0 / 3.0));
        assert_eq!([PreferFloor, PreferCeil, Floor, Ceil].map(symmetric), [[1, 4, 7], [2, 5, 8], [1, 4, 7], [2, 5, 8]]);
        let asymmetric = |nearest| places(Transformation::Asymmetric, nearest, scaled(7, 1.6));
        assert_eq!(asymmetric(Floor), [0, 0, 1, 1, 2, 3, 3, 4, 5, 5, 6]);
        assert_eq!(asymmetric(PreferCeil), [0, 1, 1, 2, 3, 3, 4, 4, 5, 6, 6]);
        assert_eq!(
            places(Transformation::HalfPixelSymmetric, PreferCeil, scaled(7, 1.6)),
            [0, 1, 1, 2, 2, 3, 4, 4, 5, 6, 6]
        );
        // A little less than 3.5.
        assert_eq!(places(Transformation::Asymmetric, PreferCeil, scaled(7, 2.0 / 7.0)), [0, 4]);
    }

    #[test]
    fn weights_for_bytes_are_whole_units() {
        for (mode, exclude_outside) in [(Mode::Linear, false), (Mode::Cubic(-0.75), true)] {
            let transformation = Transformation::HalfPixel;
            let how = Resizing { mode, transformation, antialias: true, exclude_outside, extrapolation: 0.0 };
            for (input, output) in [(11, 5), (5, 11), (64, 9), (1, 3), (3, 1)] {
                let [bytes, floats] =
                    [true, false].map(|are_bytes| how.plan(0, &sized(input, output), are_bytes).unwrap());
                for (bytes, floats) in bytes.taps.iter().zip(&floats.taps) {
                    assert!(bytes.iter().all(|(_, weight)| (weight / BYTE_WEIGHT).fract() == 0.0));
                    let weight =
                        |taps: &[(u32, f64)], at| taps.iter().filter(|tap| tap.0 == at).map(|tap| tap.1).sum::<f64>();
                    for at in 0..input {
                        assert!((weight(bytes, at) - weight(floats, at)).abs() < 2e-6, "{input} to {output}");
                    }
                }
            }
        }
    }

    #[test]
    fn both_ends_of_a_region_are_inside() {
        let transformation = Transformation::TfCropAndResize;
        let how = Resizing {
            mode: Mode::Linear,
            transformation,
            antialias: false,
            exclude_outside: false,
            extrapolation: 0.0,
        };
        for input in 2..40 {
            for output in 2..40 {
                let sizes = Sizes { roi: [0.1, 1.0], ..sized(input, output) };
                assert!(!how.plan(0, &sizes, false).unwrap().outside.contains(&true), "{input} to {output}");
            }
        }
    }
}
