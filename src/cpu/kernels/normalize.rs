//! `(x - mean) * factor + bias` for normalizations, where `factor` is `scale / sqrt(variance + epsilon)`.
//!
//! Rows are measured and normalized in float32, with means in float64: the difference from the mean can be small
//! relative to its terms. Results are within 4 ULP of the larger of product and bias. Squares beyond the range of
//! float32 and rows with a coefficient per element are computed in float64.

use super::reduce::{Moments, Nest, Reduction};
use super::rows::{Plain, SquaresAbout, sum};
use crate::cpu::simd::{Kernel, Simd};

/// Variances and factors in this range, and their terms, are normal float32 numbers.
const SAFE: std::ops::Range<f64> = 1e-24..1e24;

/// Splits a mean into two float32 parts: subtracting both is as accurate as subtracting the float64.
#[inline(always)]
fn halves(mean: f64) -> [f32; 2] {
    let high = mean as f32;
    [high, (mean - high as f64) as f32]
}

/// Mean and variance of a row, as defined by [`Moments`].
#[inline(always)]
fn moments_of_row<S: Simd>(simd: S, moments: Moments, row: &Nest, x: &[f32]) -> [f64; 2] {
    let count = x.len() as f64;
    let mean = sum(simd, x, Plain) / count;
    let [high, low] = halves(mean);
    let squares = sum(simd, x, SquaresAbout(high)) / count - low as f64 * low as f64;
    match SAFE.contains(&squares) {
        true => [mean, 1.0 / (squares + moments.epsilon).sqrt()],
        false => moments.one(simd, row, x, 0),
    }
}

/// A mean of 0, and the factor from the mean of the squares.
#[inline(always)]
fn root_mean_square<S: Simd>(simd: S, moments: Moments, row: &Nest, x: &[f32]) -> [f64; 2] {
    let squares = sum(simd, x, SquaresAbout(0.0));
    let squares = if SAFE.contains(&squares) { squares } else { row.sum_of_squares(simd, x) };
    [0.0, 1.0 / (squares / x.len() as f64 + moments.epsilon).sqrt()]
}

/// Mean and variance of neighboring rows.
pub struct RowMoments<'a> {
    /// The rows.
    pub x: &'a [f32],
    /// The loops over a single row.
    pub row: &'a Nest,
    /// The reduction.
    pub moments: Moments,
    /// One pair per row.
    pub out: &'a mut [[f64; 2]],
}

impl Kernel for RowMoments<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for (x, out) in self.x.chunks_exact(self.row.count()).zip(self.out) {
            *out = moments_of_row(simd, self.moments, self.row, x);
        }
    }
}

/// Mean, factor and bias of some channels.
#[derive(Clone, Copy)]
pub struct Coefficients<'a> {
    /// Mean.
    pub mean: &'a [f64],
    /// Scale divided by the deviation.
    pub factor: &'a [f64],
    /// Bias.
    pub bias: &'a [f64],
}

/// Rows of the same length, each with one set of coefficients.
pub struct UniformRows<'a> {
    /// Rows of the operand.
    pub x: &'a [f32],
    /// The same rows of the output.
    pub out: &'a mut [f32],
    /// Elements per row.
    pub columns: usize,
    /// The index of the first row.
    pub first: usize,
    /// Row `index` uses the coefficients at `index` modulo their number.
    pub coefficients: Coefficients<'a>,
}

impl Kernel for UniformRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let UniformRows { x, out, columns, first, coefficients } = self;
        for (i, (x, out)) in x.chunks_exact(columns).zip(out.chunks_exact_mut(columns)).enumerate() {
            let channel = (first + i) % coefficients.mean.len();
            let [mean, factor, bias] =
                [coefficients.mean, coefficients.factor, coefficients.bias].map(|values| values[channel]);
            let is_safe = SAFE.contains(&factor.abs());
            let ([high, low], factor32, bias32) = (halves(mean), factor as f32, bias as f32);
            if is_safe {
                for (out, &x) in out.iter_mut().zip(x) {
                    *out = simd.mul_add_scalar((x - high) - low, factor32, bias32);
                }
                continue;
            }
            for (out, &x) in out.iter_mut().zip(x) {
                *out = ((x as f64 - mean) * factor + bias) as f32;
            }
        }
    }
}

/// One row with separate coefficients for each element.
pub struct ChannelRow<'a> {
    /// The row of the operand.
    pub x: &'a [f32],
    /// The same row of the output.
    pub out: &'a mut [f32],
    /// The coefficients, as many as there are elements in the row.
    pub coefficients: Coefficients<'a>,
}

impl Kernel for ChannelRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let ChannelRow { x, out, coefficients: Coefficients { mean, factor, bias } } = self;
        let coefficients = mean.iter().zip(factor).zip(bias);
        for ((out, &x), ((&mean, &factor), &bias)) in out.iter_mut().zip(x).zip(coefficients) {
            *out = ((x as f64 - mean) * factor + bias) as f32;
        }
    }
}

/// Layers that are contiguous rows: mean and variance per row, scales and biases along it.
pub struct LayerRows<'a> {
    /// Rows of the operand.
    pub x: &'a [f32],
    /// The same rows of the output.
    pub out: &'a mut [f32],
    /// The loops over a single row.
    pub row: &'a Nest,
    /// Mean and variance.
    pub moments: Moments,
    /// Whether to subtract the mean; otherwise the variance is taken about 0.
    pub centered: bool,
    /// The scales along a row.
    pub scale: Option<&'a [f32]>,
    /// The biases along a row.
    pub bias: Option<&'a [f32]>,
}

impl Kernel for LayerRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let LayerRows { x, out, row, moments, centered, scale, bias } = self;
        let columns = row.count();
        for (x, out) in x.chunks_exact(columns).zip(out.chunks_exact_mut(columns)) {
            let [mean, factor] = match centered {
                true => moments_of_row(simd, moments, row, x),
                false => root_mean_square(simd, moments, row, x),
            };
            layer_row(simd, x, out, [mean, factor], scale, bias);
        }
    }
}

/// Elements that share the constants of absent scales and biases.
const BLOCK: usize = 256;

#[inline(always)]
fn layer_row<S: Simd>(
    simd: S,
    x: &[f32],
    out: &mut [f32],
    [mean, factor]: [f64; 2],
    scale: Option<&[f32]>,
    bias: Option<&[f32]>,
) {
    const ONES: [f32; BLOCK] = [1.0; BLOCK];
    const ZEROS: [f32; BLOCK] = [0.0; BLOCK];
    let is_safe = SAFE.contains(&factor);
    let ([high, low], factor32) = (halves(mean), factor as f32);
    for (block, (x, out)) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)).enumerate() {
        let range = block * BLOCK..block * BLOCK + x.len();
        let scale = scale.map_or(&ONES[..x.len()], |scale| &scale[range.clone()]);
        let bias = bias.map_or(&ZEROS[..x.len()], |bias| &bias[range]);
        if is_safe {
            for ((out, &x), (&scale, &bias)) in out.iter_mut().zip(x).zip(scale.iter().zip(bias)) {
                *out = simd.mul_add_scalar((x - high) - low, factor32 * scale, bias);
            }
            continue;
        }
        for ((out, &x), (&scale, &bias)) in out.iter_mut().zip(x).zip(scale.iter().zip(bias)) {
            *out = ((x as f64 - mean) * factor * scale as f64 + bias as f64) as f32;
        }
    }
}

/// Writes every `stride`-th element of `x`, or the first one for stride 0, as float64; writes `default` if there is no `x`.
pub fn fill_weights(x: Option<&[f32]>, stride: usize, default: f64, out: &mut [f64]) {
    match (x, stride) {
        (None, _) => out.fill(default),
        (Some(x), 0) => out.fill(x[0] as f64),
        (Some(x), stride) => out.iter_mut().zip(x.iter().step_by(stride)).for_each(|(out, &x)| *out = x as f64),
    }
}
