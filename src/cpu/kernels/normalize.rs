//! `(x - mean) * factor + bias` for the normalisations, where `factor` is `scale / sqrt(variance + epsilon)`.
//!
//! The arithmetic is in float64: the difference to the mean, and the sum with the bias, can be small against their terms.
//! The loops are bound by memory, which float64 does not touch.

use super::half::{BLOCK, Real};
use super::reduce::{Moments, Nest, Reduction};
use crate::cpu::simd::{Kernel, Simd};

/// Mean, factor and bias of some channels.
#[derive(Clone, Copy)]
pub struct Coefficients<'a> {
    /// Mean.
    pub mean: &'a [f64],
    /// Scale over the deviation.
    pub factor: &'a [f64],
    /// Bias.
    pub bias: &'a [f64],
}

/// Words of scratch memory as floats.
pub fn floats(words: &mut [u64]) -> &mut [f64] {
    // SAFETY: both types have the same size and alignment, and every bit pattern is a value of both.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len()) }
}

/// Rows of the same length, each with coefficients of its own.
pub struct UniformRows<'a, T> {
    /// Rows of the operand.
    pub x: &'a [T],
    /// The same rows of the output.
    pub out: &'a mut [T],
    /// Elements of a row.
    pub columns: usize,
    /// The index of the first row.
    pub first: usize,
    /// The coefficients of the row at `index` are at `index` modulo their number.
    pub coefficients: Coefficients<'a>,
}

impl<T: Real> Kernel for UniformRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let UniformRows { x, out, columns, first, coefficients } = self;
        let (mut wide, mut narrow) = ([0.0; BLOCK], [0.0; BLOCK]);
        for (i, (x, out)) in x.chunks_exact(columns).zip(out.chunks_exact_mut(columns)).enumerate() {
            let channel = (first + i) % coefficients.mean.len();
            let [mean, factor, bias] =
                [coefficients.mean, coefficients.factor, coefficients.bias].map(|values| values[channel]);
            for (x, out) in x.chunks(T::CHUNK).zip(out.chunks_mut(T::CHUNK)) {
                let x = T::widen(simd, x, &mut wide);
                T::narrow(simd, out, &mut narrow, |out| {
                    for (out, &x) in out.iter_mut().zip(x) {
                        *out = ((x as f64 - mean) * factor + bias) as f32;
                    }
                });
            }
        }
    }
}

/// One row whose elements all have coefficients of their own.
pub struct ChannelRow<'a, T> {
    /// The row of the operand.
    pub x: &'a [T],
    /// The same row of the output.
    pub out: &'a mut [T],
    /// As long as the row.
    pub coefficients: Coefficients<'a>,
}

impl<T: Real> Kernel for ChannelRow<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let ChannelRow { x, out, coefficients: Coefficients { mean, factor, bias } } = self;
        let (mut wide, mut narrow) = ([0.0; BLOCK], [0.0; BLOCK]);
        for (block, (x, out)) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)).enumerate() {
            let range = block * BLOCK..block * BLOCK + x.len();
            let (mean, factor, bias) = (&mean[range.clone()], &factor[range.clone()], &bias[range]);
            let x = T::widen(simd, x, &mut wide);
            T::narrow(simd, out, &mut narrow, |out| {
                let coefficients = mean.iter().zip(factor).zip(bias);
                for ((out, &x), ((&mean, &factor), &bias)) in out.iter_mut().zip(x).zip(coefficients) {
                    *out = ((x as f64 - mean) * factor + bias) as f32;
                }
            });
        }
    }
}

/// Layers that are contiguous rows: mean and variance of each row, and weights along it.
pub struct LayerRows<'a, T> {
    /// Rows of the operand.
    pub x: &'a [T],
    /// The same rows of the output.
    pub out: &'a mut [T],
    /// The loops over a single row.
    pub row: &'a Nest,
    /// Mean and variance.
    pub moments: Moments,
    /// Weights of a row.
    pub scale: Option<&'a [T]>,
    /// Weights of a row.
    pub bias: Option<&'a [T]>,
}

impl<T: Real> Kernel for LayerRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let LayerRows { x, out, row, moments, scale, bias } = self;
        let columns = row.count();
        for (x, out) in x.chunks_exact(columns).zip(out.chunks_exact_mut(columns)) {
            let [mean, factor] = moments.one(simd, row, x, 0);
            layer_row(simd, x, out, [mean, factor], scale, bias);
        }
    }
}

#[inline(always)]
fn layer_row<S: Simd, T: Real>(
    simd: S,
    x: &[T],
    out: &mut [T],
    [mean, factor]: [f64; 2],
    scale: Option<&[T]>,
    bias: Option<&[T]>,
) {
    const ONES: [f32; BLOCK] = [1.0; BLOCK];
    const ZEROS: [f32; BLOCK] = [0.0; BLOCK];
    let (mut wide, mut narrow) = ([0.0; BLOCK], [0.0; BLOCK]);
    let (mut wide_scale, mut wide_bias) = ([0.0; BLOCK], [0.0; BLOCK]);
    for (block, (x, out)) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)).enumerate() {
        let range = block * BLOCK..block * BLOCK + x.len();
        let x = T::widen(simd, x, &mut wide);
        let scale = scale.map_or(&ONES[..x.len()], |scale| T::widen(simd, &scale[range.clone()], &mut wide_scale));
        let bias = bias.map_or(&ZEROS[..x.len()], |bias| T::widen(simd, &bias[range], &mut wide_bias));
        T::narrow(simd, out, &mut narrow, |out| {
            for ((out, &x), (&scale, &bias)) in out.iter_mut().zip(x).zip(scale.iter().zip(bias)) {
                *out = ((x as f64 - mean) * factor * scale as f64 + bias as f64) as f32;
            }
        });
    }
}

/// Every `stride`-th element of `x`, or the first one for stride 0, as float64; `default` without `x`.
pub fn fill_weights<T: Real>(x: Option<&[T]>, stride: usize, default: f64, out: &mut [f64]) {
    let wide = |x: T| x.lane() as f64;
    match (x, stride) {
        (None, _) => out.fill(default),
        (Some(x), 0) => out.fill(wide(x[0])),
        (Some(x), stride) => out.iter_mut().zip(x.iter().step_by(stride)).for_each(|(out, &x)| *out = wide(x)),
    }
}
