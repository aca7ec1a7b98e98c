//! Softmax, `exp(x - max) / sum(exp(x - max))`, and its logarithm, `x - max - log(sum(exp(x - max)))`.
//!
//! Subtracting the maximum prevents overflow. A row or column with a NaN, or with only -infinity, becomes NaN, as in
//! the formula. Exponentials below the smallest normal float count as 0. Sums of blocks are joined in float64.

use super::rows::{largest, powers, scale};
use super::transpose::transpose;
use crate::cpu::simd::{Kernel, MAX_LANES, Simd, math};
use crate::memory::ColumnBlock;

/// Softmax of each row of a matrix with `columns` columns; `x` and `out` have the same length.
pub struct SoftmaxRows<'a> {
    /// Rows of the operand.
    pub x: &'a [f32],
    /// The same rows of the output.
    pub out: &'a mut [f32],
    /// Elements per row.
    pub columns: usize,
    /// Whether to compute the logarithm.
    pub log: bool,
}

impl Kernel for SoftmaxRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let SoftmaxRows { x, out, columns, log } = self;
        if columns <= NARROW {
            let mut turned = [0.0; GROUP * NARROW];
            for (x, out) in x.chunks(GROUP * columns).zip(out.chunks_mut(GROUP * columns)) {
                narrow_rows(simd, x, out, columns, log, &mut turned);
            }
            return;
        }
        for (x, out) in x.chunks_exact(columns).zip(out.chunks_exact_mut(columns)) {
            softmax_row(simd, x, out, log);
        }
    }
}

/// The most columns of rows that are computed side by side: a row of its own would take longer for its maximum and sum
/// than for its exponentials.
const NARROW: usize = 64;

/// Rows computed side by side.
const GROUP: usize = MAX_LANES;

/// Softmax of at most [`GROUP`] rows of at most [`NARROW`] columns; `turned` holds each row as a column.
#[inline(always)]
fn narrow_rows<S: Simd>(
    simd: S,
    x: &[f32],
    out: &mut [f32],
    columns: usize,
    log: bool,
    turned: &mut [f32; GROUP * NARROW],
) {
    let rows = x.len() / columns;
    transpose(simd, x, columns, [rows, columns], turned, GROUP);
    for lane in (0..GROUP).step_by(S::LANES) {
        let (mut max, mut sum) = (simd.splat(f32::NEG_INFINITY), simd.splat(0.0));
        for x in turned.chunks_exact(GROUP).take(columns) {
            max = simd.max(simd.load(&x[lane..]), max);
        }
        for x in turned.chunks_exact_mut(GROUP).take(columns) {
            let shifted = simd.sub(simd.load(&x[lane..]), max);
            let power = math::exp_nonpositive(simd, shifted);
            sum = simd.add(sum, power);
            simd.store(if log { shifted } else { power }, &mut x[lane..]);
        }
        let mut sums = [0.0; MAX_LANES];
        simd.store(sum, &mut sums);
        for sum in &mut sums {
            *sum = if log { -sum.ln() } else { 1.0 / *sum };
        }
        let last = simd.load(&sums);
        for x in turned.chunks_exact_mut(GROUP).take(columns) {
            let x = &mut x[lane..];
            let result = if log { simd.add(simd.load(x), last) } else { simd.mul(simd.load(x), last) };
            simd.store(result, x);
        }
    }
    transpose(simd, turned, GROUP, [columns, rows], out, columns);
}

/// Exponentials summed in float32.
const SUMMED: usize = 256;

#[inline(always)]
fn softmax_row<S: Simd>(simd: S, x: &[f32], out: &mut [f32], log: bool) {
    // A row of only -infinity becomes NaN here; one with a NaN or infinity does so below.
    let shift = -largest(simd, x);
    let mut sum = 0.0;
    for (x, out) in x.chunks(SUMMED).zip(out.chunks_mut(SUMMED)) {
        sum += powers(simd, x, shift, out) as f64;
    }
    if log {
        let log = sum.ln() as f32;
        return out.iter_mut().zip(x).for_each(|(out, x)| *out = (x + shift) - log);
    }
    let factor = (1.0 / sum) as f32;
    scale(simd, out, factor);
}

/// Columns computed at the same time.
pub const WIDTH: usize = 128;

/// Softmax of each of at most [`WIDTH`] neighboring columns of a matrix `[rows, stride]`.
pub struct SoftmaxColumns<'a> {
    /// The elements, starting at the first row of the first column.
    pub x: &'a [f32],
    /// The elements of the output.
    pub out: ColumnBlock<'a, f32>,
    /// Number of columns.
    pub width: usize,
    /// Rows of the matrix.
    pub rows: usize,
    /// Elements from one row to the next.
    pub stride: usize,
    /// Whether to compute the logarithm.
    pub log: bool,
}

impl Kernel for SoftmaxColumns<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let SoftmaxColumns { x, mut out, width, rows, stride, log } = self;
        let (mut max, mut sums, mut factors) = ([f32::NEG_INFINITY; WIDTH], [0.0; WIDTH], [0.0; WIDTH]);
        for row in x.chunks(stride).take(rows) {
            for (max, &x) in max.iter_mut().zip(&row[..width]) {
                *max = if max.is_nan() || *max > x { *max } else { x };
            }
        }
        for (i, row) in x.chunks(stride).take(rows).enumerate() {
            let powers = out.row(i);
            shifted(simd, &row[..width], &max, powers);
            sums.iter_mut().zip(&*powers).for_each(|(sum, &power)| *sum += power as f64);
        }
        if log {
            factors.iter_mut().zip(&sums).for_each(|(log, &sum): (&mut f32, &f64)| *log = sum.ln() as f32);
            for (i, row) in x.chunks(stride).take(rows).enumerate() {
                let sums = max.iter().zip(&factors);
                for ((out, x), (max, log)) in out.row(i).iter_mut().zip(&row[..width]).zip(sums) {
                    *out = (x - max) - log;
                }
            }
            return;
        }
        factors.iter_mut().zip(&sums).for_each(|(factor, &sum): (&mut f32, &f64)| *factor = (1.0 / sum) as f32);
        for i in 0..rows {
            out.row(i).iter_mut().zip(&factors).for_each(|(out, factor)| *out *= factor);
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
