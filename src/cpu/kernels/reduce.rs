//! Reductions over any set of dimensions.
//!
//! Floating-point sums and products accumulate in float64 and are rounded once, which makes results as accurate as the
//! formula. The order of an output's terms depends only on the shapes.

use super::elementwise::Integer;
use crate::cpu::simd::{Kernel, Simd, math};
use crate::dtype::Element;
use crate::shape::MAX_RANK;
use std::marker::PhantomData;

/// Columns reduced at the same time: their accumulators take 1 KiB.
pub const WIDTH: usize = 128;
/// Accumulators per contiguous run, enough to hide the latency of additions: 4 vectors of 8 float64.
const LANES: usize = 32;

/// Number of rows shorter than [`LANES`] to transpose and reduce as columns: each row alone is a chain of dependent
/// additions.
const TURNED: usize = 64;
/// Minimum number of short rows for which transposing pays.
const MIN_TURNED: usize = 8;

/// Rows added to the columns at a time: the columns' sums are loaded and stored once for all of them.
const ROWS: usize = 4;

/// A dimension and its stride, in elements.
type Dimension = (usize, usize);

/// The loops of a reduction of a contiguous tensor. Dimensions of size 1 are dropped, and neighbors merged if both are
/// reduced or both kept.
#[derive(Debug)]
pub struct Nest {
    /// Kept dimensions, except the last one if it is contiguous.
    kept: Vec<Dimension>,
    /// Reduced dimensions, except the last one if it is contiguous.
    reduced: Vec<Dimension>,
    /// Length of the contiguous runs that are reduced; 1 if the last dimension is kept.
    run: usize,
    /// Length of the contiguous runs that are kept; 1 if the last dimension is reduced.
    columns: usize,
    /// The loops over [`TURNED`] transposed rows, if the rows are short.
    turned: Option<Box<Nest>>,
}

impl Nest {
    /// Creates the loops for a tensor of dimensions `dims`; `reduced` marks the dimensions to reduce.
    pub fn new(dims: &[usize], reduced: &[bool]) -> Nest {
        let mut merged: Vec<(usize, bool)> = Vec::new();
        for (&dim, &reduced) in dims.iter().zip(reduced).filter(|(dim, _)| **dim != 1) {
            match merged.last_mut() {
                Some((last, flag)) if *flag == reduced => *last *= dim,
                _ => merged.push((dim, reduced)),
            }
        }
        let mut nest = Nest { kept: Vec::new(), reduced: Vec::new(), run: 1, columns: 1, turned: None };
        let Some((inner, flag)) = merged.pop() else { return nest };
        *(if flag { &mut nest.run } else { &mut nest.columns }) = inner;
        let mut stride = inner;
        for (dim, reduced) in merged.into_iter().rev() {
            (if reduced { &mut nest.reduced } else { &mut nest.kept }).insert(0, (dim, stride));
            stride *= dim;
        }
        if nest.reduced.is_empty() && (2..LANES).contains(&nest.run) {
            let reduced = vec![(nest.run, TURNED)];
            nest.turned = Some(Box::new(Nest { kept: Vec::new(), reduced, run: 1, columns: TURNED, turned: None }));
        }
        nest
    }

    /// Number of elements per output.
    pub fn count(&self) -> usize {
        self.run * self.reduced.iter().map(|(dim, _)| dim).product::<usize>()
    }

    /// Outputs computed together: vectors of neighboring columns.
    pub fn grain(&self) -> usize {
        if self.columns > 1 { LANES } else { 1 }
    }

    /// The element at which an output starts, from its index among the kept dimensions except the last.
    #[inline(always)]
    fn start(&self, mut index: usize) -> usize {
        let mut start = 0;
        for &(dim, stride) in self.kept.iter().rev() {
            start += index % dim * stride;
            index /= dim;
        }
        start
    }

    /// The offsets of all runs of an output.
    #[inline(always)]
    pub(super) fn runs(&self) -> Runs<'_> {
        Runs { reduced: &self.reduced, index: [0; MAX_RANK], next: Some(0) }
    }

    /// Folds all elements of the output that starts at element `start`.
    #[inline(always)]
    pub(super) fn fold_run<S: Simd, T: Copy, F: Fold<T>>(&self, simd: S, x: &[T], start: usize, shift: f64) -> F::Sum {
        let mut sum = F::NONE;
        for offset in self.runs() {
            sum = fold_slice::<S, T, F>(simd, sum, &x[start + offset..][..self.run], shift);
        }
        sum
    }

    /// The sum of the squares of all elements of the first output.
    #[inline(always)]
    pub(super) fn sum_of_squares<S: Simd>(&self, simd: S, x: &[f32]) -> f64 {
        self.fold_run::<S, f32, SumSquares>(simd, x, 0, 0.0)
    }

    /// Like [`fold_run`](Self::fold_run) for `sums.len()` neighboring outputs, at most [`WIDTH`], each with its own shift.
    #[inline(always)]
    fn fold_columns<S: Simd, T: Copy, F: Fold<T>>(
        &self,
        simd: S,
        x: &[T],
        start: usize,
        shifts: &[f64],
        sums: &mut [F::Sum],
    ) {
        sums.fill(F::NONE);
        let shifts = &shifts[..sums.len()];
        let mut runs = self.runs();
        loop {
            let mut rows = [&[][..]; ROWS];
            let mut count = 0;
            for (row, offset) in rows.iter_mut().zip(&mut runs) {
                *row = &x[start + offset..][..sums.len()];
                count += 1;
            }
            if count < ROWS {
                for row in &rows[..count] {
                    for ((sum, &x), &shift) in sums.iter_mut().zip(*row).zip(shifts) {
                        *sum = F::add(simd, *sum, x, shift);
                    }
                }
                return;
            }
            let rows = rows.map(|row| &row[..sums.len()]);
            for i in 0..sums.len() {
                for row in rows {
                    sums[i] = F::add(simd, sums[i], row[i], shifts[i]);
                }
            }
        }
    }
}

/// Iterates over the runs of an output. An iterator, because the body of a loop is compiled for the instruction set of
/// the surrounding kernel; a closure is not.
pub(super) struct Runs<'a> {
    reduced: &'a [Dimension],
    index: [usize; MAX_RANK],
    next: Option<usize>,
}

impl Iterator for Runs<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let offset = self.next.take()?;
        let mut next = offset;
        for (index, &(dim, stride)) in self.index.iter_mut().zip(self.reduced).rev() {
            *index += 1;
            next += stride;
            if *index < dim {
                self.next = Some(next);
                break;
            }
            *index = 0;
            next -= dim * stride;
        }
        Some(offset)
    }
}

/// Folds one contiguous slice into `sum`.
#[inline(always)]
pub(super) fn fold_slice<S: Simd, T: Copy, F: Fold<T>>(simd: S, sum: F::Sum, x: &[T], shift: f64) -> F::Sum {
    if x.len() < LANES {
        return x.iter().fold(sum, |sum, &x| F::add(simd, sum, x, shift));
    }
    let mut lanes = [F::NONE; LANES];
    let (chunks, tail) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = F::add(simd, *lane, x, shift);
        }
    }
    // Loops of constant length become vector operations.
    let (eights, rest) = tail.as_chunks::<8>();
    for (lanes, eight) in lanes.as_chunks_mut::<8>().0.iter_mut().zip(eights) {
        for (lane, &x) in lanes.iter_mut().zip(eight) {
            *lane = F::add(simd, *lane, x, shift);
        }
    }
    for (lane, &x) in lanes[8 * eights.len()..].iter_mut().zip(rest) {
        *lane = F::add(simd, *lane, x, shift);
    }
    join_halves::<T, F, 16>(&mut lanes);
    join_halves::<T, F, 8>(&mut lanes);
    join_halves::<T, F, 4>(&mut lanes);
    join_halves::<T, F, 2>(&mut lanes);
    join_halves::<T, F, 1>(&mut lanes);
    F::join(sum, lanes[0])
}

/// Joins each of the first `HALF` lanes with its counterpart among the next `HALF`.
#[inline(always)]
fn join_halves<T, F: Fold<T>, const HALF: usize>(lanes: &mut [F::Sum; LANES]) {
    for i in 0..HALF {
        lanes[i] = F::join(lanes[i], lanes[i + HALF]);
    }
}

/// A fold of elements of type `T`.
pub trait Fold<T> {
    /// The accumulator.
    type Sum: Copy;
    /// The accumulator of no elements.
    const NONE: Self::Sum;
    /// Adds an element. Some folds use a `shift`, the same for all elements of an output.
    fn add<S: Simd>(simd: S, sum: Self::Sum, x: T, shift: f64) -> Self::Sum;
    /// Combines two accumulators.
    fn join(a: Self::Sum, b: Self::Sum) -> Self::Sum;
}

macro_rules! folds {
    ($($(#[$meta:meta])* $Name:ident:
        $Sum:ty = $none:expr, |$sum:ident, $x:ident| $add:expr, |$a:ident, $b:ident| $join:expr;
        $int_none:expr, |$int_sum:ident, $int_x:ident| $int_add:expr, |$int_a:ident, $int_b:ident| $int_join:expr;
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub struct $Name;

        impl Fold<f32> for $Name {
            type Sum = $Sum;
            const NONE: $Sum = $none;
            #[inline(always)]
            fn add<S: Simd>(_: S, $sum: $Sum, $x: f32, _: f64) -> $Sum {
                $add
            }
            #[inline(always)]
            fn join($a: $Sum, $b: $Sum) -> $Sum {
                $join
            }
        }

        impl<T: Integer> Fold<T> for $Name {
            type Sum = T;
            const NONE: T = $int_none;
            #[inline(always)]
            fn add<S: Simd>(_: S, $int_sum: T, $int_x: T, _: f64) -> T {
                $int_add
            }
            #[inline(always)]
            fn join($int_a: T, $int_b: T) -> T {
                $int_join
            }
        }
    )*};
}

folds! {
    /// The sum.
    Sum: f64 = 0.0, |sum, x| sum + x as f64, |a, b| a + b;
        T::ZERO, |sum, x| sum.add(x), |a, b| a.add(b);
    /// The sum of the absolute values.
    SumAbs: f64 = 0.0, |sum, x| sum + x.abs() as f64, |a, b| a + b;
        T::ZERO, |sum, x| sum.add(x.abs()), |a, b| a.add(b);
    /// The sum of the squares.
    SumSquares: f64 = 0.0, |sum, x| sum + x as f64 * x as f64, |a, b| a + b;
        T::ZERO, |sum, x| sum.add(x.mul(x)), |a, b| a.add(b);
    /// The product.
    Product: f64 = 1.0, |sum, x| sum * x as f64, |a, b| a * b;
        T::ONE, |sum, x| sum.mul(x), |a, b| a.mul(b);
    /// The largest element; NaN if there is one.
    Max: f32 = f32::NEG_INFINITY, |sum, x| larger(sum, x), |a, b| larger(a, b);
        T::MIN, |sum, x| sum.max(x), |a, b| a.max(b);
    /// The smallest element; NaN if there is one.
    Min: f32 = f32::INFINITY, |sum, x| smaller(sum, x), |a, b| smaller(a, b);
        T::MAX, |sum, x| sum.min(x), |a, b| a.min(b);
}

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a.is_nan() || a > b { a } else { b }
}

#[inline(always)]
fn smaller(a: f32, b: f32) -> f32 {
    if a.is_nan() || a < b { a } else { b }
}

/// The sum of `exp(x - shift)`.
struct SumExp;

impl Fold<f32> for SumExp {
    type Sum = f64;
    const NONE: f64 = 0.0;
    #[inline(always)]
    fn add<S: Simd>(simd: S, sum: f64, x: f32, shift: f64) -> f64 {
        sum + math::exp(simd, (x as f64 - shift) as f32) as f64
    }
    #[inline(always)]
    fn join(a: f64, b: f64) -> f64 {
        a + b
    }
}

/// The sum of `(x - shift)^2`.
struct SumSquaresAbout;

impl Fold<f32> for SumSquaresAbout {
    type Sum = f64;
    const NONE: f64 = 0.0;
    #[inline(always)]
    fn add<S: Simd>(_: S, sum: f64, x: f32, shift: f64) -> f64 {
        let difference = x as f64 - shift;
        sum + difference * difference
    }
    #[inline(always)]
    fn join(a: f64, b: f64) -> f64 {
        a + b
    }
}

/// How each output is computed.
pub trait Reduction<T>: Copy + Sync {
    /// The output element.
    type Out: Send;

    /// The output whose elements start at `start`.
    fn one<S: Simd>(self, simd: S, nest: &Nest, x: &[T], start: usize) -> Self::Out;

    /// Neighboring outputs, at most [`WIDTH`]; the elements of the first start at `start`.
    fn many<S: Simd>(self, simd: S, nest: &Nest, x: &[T], start: usize, out: &mut [Self::Out]);
}

/// No shift.
const UNSHIFTED: [f64; WIDTH] = [0.0; WIDTH];

/// The output is a fold: of integers, or of a part of an output's floats.
#[derive(Clone, Copy)]
pub struct Folded<F>(PhantomData<F>);

impl<F> Folded<F> {
    /// Creates the reduction by fold `F`.
    pub fn new(_: F) -> Folded<F> {
        Folded(PhantomData)
    }
}

impl<T: Element, F: Fold<T, Sum: Send> + Copy + Sync> Reduction<T> for Folded<F> {
    type Out = F::Sum;

    #[inline(always)]
    fn one<S: Simd>(self, simd: S, nest: &Nest, x: &[T], start: usize) -> F::Sum {
        nest.fold_run::<S, T, F>(simd, x, start, 0.0)
    }

    #[inline(always)]
    fn many<S: Simd>(self, simd: S, nest: &Nest, x: &[T], start: usize, out: &mut [F::Sum]) {
        nest.fold_columns::<S, T, F>(simd, x, start, &UNSHIFTED, out);
    }
}

/// The output is a function of a fold of floats and the number of elements.
#[derive(Clone, Copy)]
pub struct Finished<F> {
    fold: PhantomData<F>,
    finish: fn(f64, f64) -> f64,
}

impl<F> Finished<F> {
    /// Creates the reduction to `finish(fold, count)`.
    pub fn new(_: F, finish: fn(f64, f64) -> f64) -> Finished<F> {
        Finished { fold: PhantomData, finish }
    }
}

impl<F: Fold<f32, Sum = f64>> Finished<F> {
    /// The same fold, for parts of an output.
    pub fn unfinished(&self) -> Folded<F> {
        Folded(PhantomData)
    }

    /// Computes the output from the [folds](Self::unfinished) of all its parts, which have `count` elements in total.
    pub fn join(&self, parts: impl Iterator<Item = f64>, count: usize) -> f32 {
        (self.finish)(parts.fold(F::NONE, F::join), count as f64) as f32
    }
}

impl<F: Fold<f32, Sum: Into<f64>> + Copy + Sync> Reduction<f32> for Finished<F> {
    type Out = f32;

    #[inline(always)]
    fn one<S: Simd>(self, simd: S, nest: &Nest, x: &[f32], start: usize) -> f32 {
        let sum = nest.fold_run::<S, f32, F>(simd, x, start, 0.0);
        (self.finish)(sum.into(), nest.count() as f64) as f32
    }

    #[inline(always)]
    fn many<S: Simd>(self, simd: S, nest: &Nest, x: &[f32], start: usize, out: &mut [f32]) {
        let (mut sums, count) = ([F::NONE; WIDTH], nest.count() as f64);
        let sums = &mut sums[..out.len()];
        nest.fold_columns::<S, f32, F>(simd, x, start, &UNSHIFTED, sums);
        for (out, &sum) in out.iter_mut().zip(&*sums) {
            *out = (self.finish)(sum.into(), count) as f32;
        }
    }
}

/// `log(sum(exp(x)))`, shifted by the largest element to avoid overflow.
#[derive(Clone, Copy)]
pub struct LogSumExp;

impl LogSumExp {
    fn finish(max: f64, sum: f64) -> f64 {
        // An infinite or NaN maximum is the result; shifting by it would compute Inf - Inf.
        if max.is_finite() { sum.ln() + max } else { max }
    }
}

impl Reduction<f32> for LogSumExp {
    type Out = f32;

    #[inline(always)]
    fn one<S: Simd>(self, simd: S, nest: &Nest, x: &[f32], start: usize) -> f32 {
        let max = nest.fold_run::<S, f32, Max>(simd, x, start, 0.0) as f64;
        LogSumExp::finish(max, nest.fold_run::<S, f32, SumExp>(simd, x, start, max)) as f32
    }

    #[inline(always)]
    fn many<S: Simd>(self, simd: S, nest: &Nest, x: &[f32], start: usize, out: &mut [f32]) {
        let (mut max, mut shifts, mut sums) = ([0f32; WIDTH], [0.0; WIDTH], [0.0; WIDTH]);
        let (max, sums) = (&mut max[..out.len()], &mut sums[..out.len()]);
        nest.fold_columns::<S, f32, Max>(simd, x, start, &UNSHIFTED, max);
        shifts.iter_mut().zip(&*max).for_each(|(shift, &max)| *shift = max as f64);
        nest.fold_columns::<S, f32, SumExp>(simd, x, start, &shifts, sums);
        for ((out, &shift), &sum) in out.iter_mut().zip(&shifts).zip(&*sums) {
            *out = LogSumExp::finish(shift, sum) as f32;
        }
    }
}

/// Mean and `1 / sqrt(variance + epsilon)`. Sums squares about the mean: `E[x^2] - E[x]^2` cancels badly when the mean
/// is large relative to the deviation.
#[derive(Clone, Copy)]
pub struct Moments {
    /// The number added to the variance.
    pub epsilon: f64,
}

impl Moments {
    #[inline(always)]
    fn finish(self, mean: f64, squares: f64, count: f64) -> [f64; 2] {
        [mean, 1.0 / (squares / count + self.epsilon).sqrt()]
    }
}

impl Reduction<f32> for Moments {
    type Out = [f64; 2];

    #[inline(always)]
    fn one<S: Simd>(self, simd: S, nest: &Nest, x: &[f32], start: usize) -> [f64; 2] {
        let count = nest.count() as f64;
        let mean = nest.fold_run::<S, f32, Sum>(simd, x, start, 0.0) / count;
        self.finish(mean, nest.fold_run::<S, f32, SumSquaresAbout>(simd, x, start, mean), count)
    }

    #[inline(always)]
    fn many<S: Simd>(self, simd: S, nest: &Nest, x: &[f32], start: usize, out: &mut [[f64; 2]]) {
        let (mut means, mut sums, count) = ([0.0; WIDTH], [0.0; WIDTH], nest.count() as f64);
        let (means, sums) = (&mut means[..out.len()], &mut sums[..out.len()]);
        nest.fold_columns::<S, f32, Sum>(simd, x, start, &UNSHIFTED, means);
        means.iter_mut().for_each(|mean| *mean /= count);
        nest.fold_columns::<S, f32, SumSquaresAbout>(simd, x, start, means, sums);
        for ((out, &mean), &squares) in out.iter_mut().zip(&*means).zip(&*sums) {
            *out = self.finish(mean, squares, count);
        }
    }
}

/// Computes the outputs from `first` on, in row-major order; run by [`Isa::run`](crate::cpu::simd::Isa::run).
pub struct Reduce<'a, T, R: Reduction<T>> {
    /// The loops.
    pub nest: &'a Nest,
    /// The reduction.
    pub reduction: R,
    /// All elements of the operand.
    pub x: &'a [T],
    /// The index of the first output of `out`.
    pub first: usize,
    /// Consecutive outputs.
    pub out: &'a mut [R::Out],
}

impl<T: Element, R: Reduction<T>> Kernel for Reduce<'_, T, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Reduce { nest, reduction, x, first, out } = self;
        if let (Some(turned), MIN_TURNED..) = (&nest.turned, out.len()) {
            let mut columns = [[T::default(); TURNED]; LANES];
            let rows = x[first * nest.run..].chunks(TURNED * nest.run);
            for (rows, out) in rows.zip(out.chunks_mut(TURNED)) {
                for (r, row) in rows.chunks_exact(nest.run).take(out.len()).enumerate() {
                    for (column, &x) in columns.iter_mut().zip(row) {
                        column[r] = x;
                    }
                }
                reduction.many(simd, turned, columns.as_flattened(), 0, out);
            }
            return;
        }
        if nest.columns == 1 {
            for (index, out) in out.iter_mut().enumerate() {
                *out = reduction.one(simd, nest, x, nest.start(first + index));
            }
            return;
        }
        let (mut at, mut rest) = (first, out);
        while !rest.is_empty() {
            let column = at % nest.columns;
            let (out, tail) = rest.split_at_mut(rest.len().min(nest.columns - column).min(WIDTH));
            reduction.many(simd, nest, x, nest.start(at / nest.columns) + column, out);
            (at, rest) = (at + out.len(), tail);
        }
    }
}
