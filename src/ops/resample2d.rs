//! `resample2d()`: resizes two dimensions of a tensor.

use super::attributes::Attributes;
use super::rule::*;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, place_of, required};
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::Problem;
use crate::shape::{Descriptor, is_dimension, is_too_small};

crate::enumeration! {
    /// `MLInterpolationMode`.
    pub enum InterpolationMode {
        /// The nearest element.
        NearestNeighbor = "nearest-neighbor",
        /// Interpolates between the four surrounding elements.
        Linear = "linear",
    }
}

crate::attributes! {
    /// `resample2d()` with `MLResample2dOptions`.
    pub struct Resample2d {
        /// How values between the elements are determined.
        mode "mode": InterpolationMode = InterpolationMode::NearestNeighbor,
        /// The factor, a float32, for the size of each of the two dimensions; 1 by default.
        scales "scales": Option<Vec<f64>> = None,
        /// The output's size of each of the two dimensions; overrides the scales.
        sizes "sizes": Option<Vec<Dim>> = None,
        /// The two dimensions; by default the last two.
        axes "axes": Option<Vec<u32>> = None,
    }
}

/// A place between two elements of the input along a dimension: `low * (1 - weight) + high * weight`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    /// The element at or in front of the place.
    pub low: usize,
    /// The element at or after the place.
    pub high: usize,
    /// How far the place is from `low` to `high`, as a fraction.
    pub weight: f64,
}

/// The coordinate of place `i` of `output` along a dimension of `input` elements, clamped into it. It is the numerator
/// of a fraction over `2 * output`: rounding must not affect places on an element, or halfway between two.
fn coordinate(input: u32, output: u32, i: usize) -> i64 {
    // (i + 0.5) / (output / input) - 0.5; dimensions are below 2^31, which keeps all products below 2^63.
    let unclamped = (2 * i as i64 + 1) * input as i64 - output as i64;
    unclamped.clamp(0, 2 * output as i64 * (input as i64 - 1))
}

/// The element of `input` for place `i` of `output` in mode `nearest-neighbor`.
pub fn nearest(input: u32, output: u32, i: usize) -> usize {
    // ceil(coordinate - 0.5)
    let denominator = 2 * output as i64;
    let halves = coordinate(input, output, i) - output as i64;
    -(-halves).div_euclid(denominator) as usize
}

/// The elements of `input` around place `i` of `output`.
pub fn between(input: u32, output: u32, i: usize) -> Between {
    let denominator = 2 * output as i64;
    let coordinate = coordinate(input, output, i);
    let (low, rest) = (coordinate.div_euclid(denominator), coordinate.rem_euclid(denominator));
    Between { low: low as usize, high: low as usize + (rest != 0) as usize, weight: rest as f64 / denominator as f64 }
}

/// The 8-bit integer nearest to `y`, as a float; ties round to even. `y` was computed from fractions rounded in
/// float64, which moves ties slightly: 40 binary digits after the point suffice to recognize them.
pub fn nearest_integer(y: f64) -> f64 {
    const DIGITS: f64 = (1u64 << 40) as f64;
    ((y * DIGITS).round() / DIGITS).round_ties_even()
}

impl Resample2d {
    /// The two dimensions, in the order of the options.
    fn axes(&self, rank: usize) -> Result<[usize; 2], Problem> {
        let Some(axes) = &self.axes else { return Ok([rank - 2, rank - 1]) };
        match axes[..] {
            [a, b] if a != b && a.max(b) < rank as u32 => Ok([a as usize, b as usize]),
            _ => Err(Problem::attribute("axes", axes, format!("two different numbers below the rank {rank}"))),
        }
    }

    /// The two dimensions of an input of this rank, in ascending order: the second is the x of the formulas.
    pub fn sorted_axes(&self, rank: usize) -> [usize; 2] {
        let mut axes = self.axes(rank).expect("inferred");
        axes.sort_unstable();
        axes
    }

    /// The output's size along dimension `which` (0 or 1) of the two, for an input of `size` elements.
    fn output_size(&self, which: usize, size: Dim) -> Result<Dim, Problem> {
        let output = match (&self.sizes, &self.scales) {
            (Some(sizes), _) => sizes[which],
            (None, Some(scales)) => match scales[which] {
                whole if whole.fract() == 0.0 && whole < u32::MAX as f64 => size * whole as u32,
                // The conversion saturates.
                scale => Dim::number(floor_of_product(size.get() as f64, scale) as i64),
            },
            (None, None) => size,
        };
        match is_dimension(output) {
            true => Ok(output),
            false => Err(Problem::attribute("resampled size", output, format!("1 to {}", i32::MAX))),
        }
    }
}

/// `floor(a * b)`, even if `a * b` has more digits than a float64.
fn floor_of_product(a: f64, b: f64) -> f64 {
    let floor = (a * b).floor();
    // The product may have been rounded up to a whole number, which the fused multiply-add detects, as it rounds once.
    if a.mul_add(b, -floor) < 0.0 { floor - 1.0 } else { floor }
}

impl NamedOperator for Resample2d {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "resample2d",
        operands: &[operand(
            "input",
            Types::OneOf(&[DataType::Float32, DataType::Float16, DataType::Uint8, DataType::Int8]),
            (4, 4),
        )],
        outputs: &[output("output", Types::SameAs("input"), (4, 4))],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Resample2d, Problem> {
        Resample2d::read(attributes)
    }
}

impl Operator for Resample2d {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Resample2d::write(self, attributes);
    }

    fn resolve(&mut self, _inputs: &Inputs) -> Result<(), Problem> {
        for scale in self.scales.iter_mut().flatten() {
            *scale = Number::Float(*scale).cast(DataType::Float32).to_f64();
        }
        Ok(())
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        let own = self.axes(axes.len()).ok()?;
        let own = own.map(|axis| place_of(axes, axis as u32)).to_vec();
        Some(Resample2d { axes: Some(own), ..self.clone() })
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        self.sizes.iter_mut().flatten().for_each(visit);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        if let Some(scales) = &self.scales
            && !(scales.len() == 2 && scales.iter().all(|&scale| scale > 0.0 && scale.is_finite()))
        {
            return Err(Problem::attribute("scales", scales, "two numbers greater than 0"));
        }
        if let Some(sizes) = &self.sizes
            && (sizes.len() != 2 || sizes.iter().copied().any(is_too_small))
        {
            return Err(Problem::attribute("sizes", sizes, "two numbers greater than 0"));
        }
        let mut output = input.clone();
        for (which, axis) in self.axes(input.rank())?.into_iter().enumerate() {
            output.shape[axis] = self.output_size(which, input.shape[axis])?;
        }
        Ok(vec![output])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, output) = (required(inputs, 0), &outputs[0]);
        let [y_axis, x_axis] = self.sorted_axes(output.rank());
        let at = |index: &[usize], y: usize, x: usize| {
            let mut place = index.to_vec();
            (place[y_axis], place[x_axis]) = (y, x);
            input.at(&place)
        };
        let size = |axis: usize| (input.shape()[axis] as u32, output.sizes()[axis]);
        let ((in_y, out_y), (in_x, out_x)) = (size(y_axis), size(x_axis));
        let output = Tensor::from_fn(output, |index| match self.mode {
            InterpolationMode::NearestNeighbor => {
                at(index, nearest(in_y, out_y, index[y_axis]), nearest(in_x, out_x, index[x_axis]))
            }
            InterpolationMode::Linear => {
                let (y, x) = (between(in_y, out_y, index[y_axis]), between(in_x, out_x, index[x_axis]));
                let along_x = |row: usize| {
                    at(index, row, x.low).to_f64() * (1.0 - x.weight) + at(index, row, x.high).to_f64() * x.weight
                };
                let value = along_x(y.low) * (1.0 - y.weight) + along_x(y.high) * y.weight;
                match input.dtype.is_float() {
                    true => Number::Float(value),
                    false => Number::Float(nearest_integer(value)).cast(input.dtype),
                }
            }
        });
        vec![output]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimension::dims;
    use crate::ops::Op;

    fn infer(resample: Resample2d, input: &[u32]) -> Result<Vec<u32>, String> {
        let input = Descriptor::new(DataType::Float32, input);
        let outputs = Op::from(resample).resolve(&[Some(&input)]).map_err(|problem| problem.to_string())?;
        Ok(outputs[0].sizes().to_vec())
    }

    fn scaled(scales: &[f64]) -> Resample2d {
        Resample2d { scales: Some(scales.to_vec()), ..Resample2d::default() }
    }

    fn sized(sizes: &[u32], axes: Option<&[u32]>) -> Resample2d {
        Resample2d { sizes: Some(dims(sizes)), axes: axes.map(<[u32]>::to_vec), ..scaled(&[0.5, 0.5]) }
    }

    #[test]
    fn ties_of_fractions_are_ties() {
        // A third and two thirds of bytes whose mean is a tie: 3/6 of a step in all.
        let byte = |x: f64| nearest_integer(x);
        assert_eq!(byte(221.0 * (1.0 - 1.0 / 3.0) + 222.5 * (1.0 / 3.0)), 222.0);
        assert_eq!(byte(0.1 + 0.2 + 0.2), 0.0);
        assert_eq!((byte(1.5), byte(2.5), byte(2.500_001), byte(-0.5)), (2.0, 2.0, 3.0, 0.0));
    }

    #[test]
    fn shapes() {
        let input = [1, 2, 10, 20];
        assert_eq!(infer(Resample2d::default(), &input), Ok(input.to_vec()));
        assert_eq!(infer(scaled(&[1.55, 0.5]), &input), Ok(vec![1, 2, 15, 10]));
        assert_eq!(infer(sized(&[7, 8], None), &input), Ok(vec![1, 2, 7, 8]));
        assert_eq!(infer(sized(&[7, 8], Some(&[3, 0])), &input), Ok(vec![8, 2, 10, 7]));
        for (resample, message) in [
            (scaled(&[1.0]), "scales is [1.0], expected two numbers greater than 0"),
            (scaled(&[1.0, 0.0]), "scales is [1.0, 0.0], expected two numbers greater than 0"),
            (scaled(&[f64::NAN, 1.0]), "scales is [NaN, 1.0], expected two numbers greater than 0"),
            (scaled(&[1e60, 1.0]), "scales is [inf, 1.0], expected two numbers greater than 0"),
            (scaled(&[0.01, 1.0]), "resampled size is 0, expected 1 to 2147483647"),
            (scaled(&[1.0, 1e9]), "resampled size is 20000000000, expected 1 to 2147483647"),
            (sized(&[1], None), "sizes is [1], expected two numbers greater than 0"),
            (sized(&[1, 0], None), "sizes is [1, 0], expected two numbers greater than 0"),
            (sized(&[1, u32::MAX], None), "resampled size is 4294967295, expected 1 to 2147483647"),
            (sized(&[1, 1], Some(&[2])), "axes is [2], expected two different numbers below the rank 4"),
            (sized(&[1, 1], Some(&[2, 2])), "axes is [2, 2], expected two different numbers below the rank 4"),
            (sized(&[1, 1], Some(&[2, 4])), "axes is [2, 4], expected two different numbers below the rank 4"),
        ] {
            assert_eq!(infer(resample, &input), Err(message.to_string()));
        }
    }

    #[test]
    fn sizes_are_floors_of_exact_products() {
        // A factor just below 1 with 24 digits: the product is just below the size.
        let factor = 1.0 - f64::from(f32::EPSILON) / 2.0;
        assert_eq!(floor_of_product(i32::MAX as f64, factor), (i32::MAX - 128) as f64);
        assert_eq!(floor_of_product(3.0, 0.5), 1.0);
        assert_eq!(floor_of_product(10.0, 0.1f32 as f64), 1.0);
        assert_eq!(floor_of_product(1.0, f64::from(f32::MIN_POSITIVE)), 0.0);
    }

    #[test]
    fn coordinates() {
        let places = |input, output| (0..output as usize).map(move |i| nearest(input, output, i)).collect::<Vec<_>>();
        assert_eq!(places(2, 4), [0, 0, 1, 1]);
        assert_eq!(places(4, 2), [0, 2], "the middle of two elements goes to the first");
        assert_eq!(places(3, 5), [0, 0, 1, 2, 2]);
        assert_eq!(places(5, 1), [2]);
        let between = |i| {
            let Between { low, high, weight } = between(2, 4, i);
            (low, high, weight)
        };
        assert_eq!([0, 1, 2, 3].map(between), [(0, 0, 0.0), (0, 1, 0.25), (0, 1, 0.75), (1, 1, 0.0)]);
        // Thirds are not exact in binary, but places at the centers still fall on the elements.
        let on_elements = (0..9).filter(|&i| super::between(3, 9, i).weight == 0.0).collect::<Vec<_>>();
        assert_eq!(on_elements, [0, 1, 4, 7, 8]);
    }

    #[test]
    fn places_between_the_largest_dimensions() {
        let most = i32::MAX as u32;
        assert_eq!(nearest(most, most, most as usize - 1), most as usize - 1);
        assert_eq!(between(most, most, 0), Between { low: 0, high: 0, weight: 0.0 });
        assert_eq!(nearest(1, most, most as usize - 1), 0);
        assert_eq!(nearest(most, 1, 0), most as usize / 2);
    }
}
