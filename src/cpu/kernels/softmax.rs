//! Softmax: `exp(x - max) / sum(exp(x - max))`.
//!
//! Subtracting the maximum prevents overflow. A row or column with a NaN, or with only -infinity, becomes NaN, as in
//! the formula. Exponentials below the smallest normal float count as 0. Sums of blocks are joined in float64.

use super::float::Float;
use super::reduce::WIDTH;
use super::rows::{largest, powers};
use super::stored::WIDENED;
use crate::cpu::simd::{Kernel, Simd, math};
use crate::memory::ColumnBlock;

/// Softmax of each row of a matrix with `columns` columns; `x` and `out` have the same length.
pub struct SoftmaxRows<'a, T> {
    /// Rows of the operand.
    pub x: &'a [T],
    /// The same rows of the output.
    pub out: &'a mut [T],
    /// Elements per row.
    pub columns: usize,
}

impl<T: Float> Kernel for SoftmaxRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (mut wide, mut buffer) = ([0.0; WIDENED], [0.0; WIDENED]);
        for (x, out) in self.x.chunks_exact(self.columns).zip(self.out.chunks_exact_mut(self.columns)) {
            softmax_row(simd, x, out, &mut wide, &mut buffer);
        }
    }
}

/// Computes one row. Only float16 uses the buffers: clearing them for each short row would cost more than the row
/// itself.
#[inline(always)]
fn softmax_row<S: Simd, T: Float>(
    simd: S,
    x: &[T],
    out: &mut [T],
    wide: &mut [f32; WIDENED],
    buffer: &mut [f32; WIDENED],
) {
    let max = x.chunks(T::CHUNK).fold(f32::NEG_INFINITY, |max, x| largest(simd, T::widen(simd, x, wide)).max(max));
    // A row of only -infinity becomes NaN here; one with a NaN or infinity does so below.
    let shift = -max;
    let mut sum = 0.0;
    if let Some(out) = T::as_f32_mut(out) {
        for (x, out) in x.chunks(WIDENED).zip(out.chunks_mut(WIDENED)) {
            sum += powers(simd, T::widen(simd, x, wide), shift, out) as f64;
        }
        let factor = (1.0 / sum) as f32;
        out.iter_mut().for_each(|out| *out *= factor);
        return;
    }
    // Rounding exponentials to float16 before the division would lose digits: they are computed twice.
    for x in x.chunks(WIDENED) {
        sum += powers(simd, T::widen(simd, x, wide), shift, buffer) as f64;
    }
    let factor = (1.0 / sum) as f32;
    for (x, out) in x.chunks(WIDENED).zip(out.chunks_mut(WIDENED)) {
        T::narrow(simd, out, buffer, |out| {
            powers(simd, T::widen(simd, x, wide), shift, out);
            out.iter_mut().for_each(|out| *out *= factor);
        });
    }
}

/// Softmax of each of at most [`WIDTH`] neighboring columns of a matrix `[rows, stride]`.
pub struct SoftmaxColumns<'a, T> {
    /// The elements, starting at the first row of the first column.
    pub x: &'a [T],
    /// The elements of the output.
    pub out: ColumnBlock<'a, T>,
    /// Number of columns.
    pub width: usize,
    /// Rows of the matrix.
    pub rows: usize,
    /// Elements from one row to the next.
    pub stride: usize,
}

impl<T: Float> Kernel for SoftmaxColumns<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let SoftmaxColumns { x, mut out, width, rows, stride } = self;
        let mut wide = [0.0; WIDENED];
        let (mut max, mut sums, mut factors) = ([f32::NEG_INFINITY; WIDTH], [0.0; WIDTH], [0.0; WIDTH]);
        for row in x.chunks(stride).take(rows) {
            for (max, &x) in max.iter_mut().zip(T::widen(simd, &row[..width], &mut wide)) {
                *max = if max.is_nan() || *max > x { *max } else { x };
            }
        }
        let is_f32 = T::IS_F32;
        let mut powers = [0.0; WIDTH];
        for (i, row) in x.chunks(stride).take(rows).enumerate() {
            let powers = match T::as_f32_mut(out.row(i)) {
                Some(out) => out,
                None => &mut powers[..width],
            };
            shifted(simd, T::widen(simd, &row[..width], &mut wide), &max, powers);
            sums.iter_mut().zip(&*powers).for_each(|(sum, &power)| *sum += power as f64);
        }
        factors.iter_mut().zip(&sums).for_each(|(factor, &sum): (&mut f32, &f64)| *factor = (1.0 / sum) as f32);
        let mut buffer = [0.0; WIDENED];
        for (i, row) in x.chunks(stride).take(rows).enumerate() {
            T::narrow(simd, out.row(i), &mut buffer, |out| {
                if !is_f32 {
                    shifted(simd, T::widen(simd, &row[..width], &mut wide), &max, out);
                }
                out.iter_mut().zip(&factors).for_each(|(out, factor)| *out *= factor);
            });
        }
    }
}

/// `out[i] = exp(x[i] - max[i])`.
#[inline(always)]
fn shifted<S: Simd>(simd: S, x: &[f32], max: &[f32], out: &mut [f32]) {
    for ((out, &x), &max) in out.iter_mut().zip(x).zip(max) {
        *out = math::exp(simd, x - max);
    }
}
