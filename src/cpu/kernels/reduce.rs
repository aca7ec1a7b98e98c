//! Reductions over any set of dimensions.
//!
//! Sums of floats add blocks in float32, and these in float64: the error is at most that of some 40 roundings of the sum of
//! magnitudes. Other folds of floats accumulate in float64, as do sums whose logarithm is the result, or from which means
//! are subtracted. The order of an output's terms depends only on the shapes.

use super::elementwise::Integer;
use super::rows;
use crate::cpu::simd::{Isa, Kernel, MAX_LANES, Portable, Simd, math};
use crate::dtype::{DataType, Element};
use crate::shape::MAX_RANK;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Columns reduced at the same time: their accumulators stay in the first-level cache. Runs of fewer columns from distant
/// rows wait for memory, as the CPU does not foresee the next run: 128 columns took three times as long.
pub const WIDTH: usize = 1024;
/// Elements of a contiguous run that are added at the same time, each to an accumulator of its own.
const LANES: usize = 32;
/// Half of them.
const HALF: usize = LANES / 2;
/// Elements of a contiguous run in a part.
const PART: usize = 1024;

/// Number of rows shorter than [`HALF`] to transpose and reduce as columns: each row alone is a chain of dependent
/// additions.
const TURNED: usize = 64;
/// Minimum number of short rows for which transposing pays.
const MIN_TURNED: usize = 8;

/// Rows added to the columns at a time: the columns' sums are loaded and stored once for all of them.
const ROWS: usize = 4;
/// Minimum elements of rows without gaps that are added one by one.
const STREAM: usize = 256;
/// As often in a part.
const ROW_GROUPS: usize = 8;

/// Memory for a value of each column.
pub(super) type Columns<T> = [MaybeUninit<T>; WIDTH];

/// The first `len` elements of `memory`, filled with `value`: nests of few columns would spend most time on the others.
#[inline(always)]
pub(super) fn filled<T: Copy>(memory: &mut Columns<T>, len: usize, value: T) -> &mut [T] {
    let memory = &mut memory[..len];
    for element in &mut *memory {
        element.write(value);
    }
    // SAFETY: all elements have been written, and have the layout of `T`.
    unsafe { &mut *(memory as *mut [MaybeUninit<T>] as *mut [T]) }
}

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
        if nest.reduced.is_empty() && (2..HALF).contains(&nest.run) {
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

    /// Outputs whose accumulators fit into the first-level cache, in whole rows of columns if there are several.
    pub fn block(&self) -> usize {
        if self.columns < WIDTH { WIDTH / self.columns * self.columns } else { WIDTH }
    }

    /// The element at which an output starts, from its index among the kept dimensions except the last.
    #[inline(always)]
    fn start(&self, mut index: usize) -> usize {
        let Some(((_, outer), inner)) = self.kept.split_first() else { return 0 };
        let mut start = 0;
        for &(dim, stride) in inner.iter().rev() {
            start += index % dim * stride;
            index /= dim;
        }
        start + index * outer
    }

    /// The offsets of all runs of an output.
    #[inline(always)]
    pub(super) fn runs(&self) -> Runs<'_> {
        Runs { reduced: &self.reduced, index: [0; MAX_RANK], next: Some(0) }
    }

    /// Folds all elements of the output that starts at element `start`.
    #[inline(always)]
    pub(super) fn fold_run<S: Simd, T: Copy, F: Fold<T>>(&self, simd: S, x: &[T], start: usize, shift: f64) -> F::Sum {
        let mut sum = F::sum(F::NONE);
        for offset in self.runs() {
            sum = F::join(sum, F::slice(simd, &x[start + offset..][..self.run], shift));
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
        let shifts = &shifts[..sums.len()];
        let (mut runs, mut is_first, mut is_last) = (self.runs(), true, false);
        // Long rows without gaps are one stream from memory, which the CPU foresees better than several.
        let is_stream = sums.len() >= STREAM && self.reduced.last().is_some_and(|&(_, stride)| stride == sums.len());
        let mut parts: Columns<F::Part> = [MaybeUninit::uninit(); WIDTH];
        let parts = filled(&mut parts, sums.len(), F::NONE);
        while !is_last {
            parts.fill(F::NONE);
            for _ in 0..ROW_GROUPS {
                let mut rows = [&[][..]; ROWS];
                let mut count = 0;
                for (row, offset) in rows.iter_mut().zip(&mut runs) {
                    *row = &x[start + offset..][..parts.len()];
                    count += 1;
                }
                is_last = count < ROWS;
                if is_last || is_stream {
                    for row in &rows[..count] {
                        for ((part, &x), &shift) in parts.iter_mut().zip(*row).zip(shifts) {
                            *part = F::add(simd, *part, x, shift);
                        }
                    }
                    if is_last {
                        break;
                    }
                    continue;
                }
                let rows = rows.map(|row| &row[..parts.len()]);
                for i in 0..parts.len() {
                    for row in rows {
                        parts[i] = F::add(simd, parts[i], row[i], shifts[i]);
                    }
                }
            }
            for (sum, &part) in sums.iter_mut().zip(&*parts) {
                *sum = if is_first { F::sum(part) } else { F::join(*sum, F::sum(part)) };
            }
            is_first = false;
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

/// Folds one contiguous slice.
#[inline(always)]
fn fold_slice<S: Simd, T: Copy, F: Fold<T>>(simd: S, x: &[T], shift: f64) -> F::Sum {
    let mut parts = x.chunks(PART);
    let mut sum = F::sum(parts.next().map_or(F::NONE, |x| fold_part::<S, T, F>(simd, x, shift)));
    for x in parts {
        sum = F::join(sum, F::sum(fold_part::<S, T, F>(simd, x, shift)));
    }
    sum
}

/// Folds at most [`PART`] elements. Loops of constant length become vector operations.
#[inline(always)]
fn fold_part<S: Simd, T: Copy, F: Fold<T>>(simd: S, x: &[T], shift: f64) -> F::Part {
    let mut lanes = [F::NONE; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = F::add(simd, *lane, x, shift);
        }
    }
    let mut half = [F::NONE; HALF];
    for i in 0..HALF {
        half[i] = F::meet(lanes[i], lanes[i + HALF]);
    }
    let (chunks, tail) = rest.as_chunks::<HALF>();
    for chunk in chunks {
        for (lane, &x) in half.iter_mut().zip(chunk) {
            *lane = F::add(simd, *lane, x, shift);
        }
    }
    if let [any, ..] = tail {
        let mut last = [*any; HALF];
        last[..tail.len()].copy_from_slice(tail);
        for i in 0..HALF {
            let added = F::add(simd, half[i], last[i], shift);
            half[i] = if i < tail.len() { added } else { half[i] };
        }
    }
    meet_neighbors::<T, F, 8>(&mut half);
    meet_neighbors::<T, F, 4>(&mut half);
    meet_neighbors::<T, F, 2>(&mut half);
    meet_neighbors::<T, F, 1>(&mut half);
    half[0]
}

/// Joins each of the first `COUNT` lanes with its counterpart among the next `COUNT`.
#[inline(always)]
fn meet_neighbors<T: Copy, F: Fold<T>, const COUNT: usize>(lanes: &mut [F::Part; HALF]) {
    for i in 0..COUNT {
        lanes[i] = F::meet(lanes[i], lanes[i + COUNT]);
    }
}

/// A fold of elements of type `T`.
pub trait Fold<T: Copy>: Sized {
    /// The accumulator of a part of the elements, one of a limited number.
    type Part: Copy;
    /// The accumulator of all elements.
    type Sum: Copy;
    /// The accumulator of no elements.
    const NONE: Self::Part;
    /// Adds an element. Some folds use a `shift`, the same for all elements of an output.
    fn add<S: Simd>(simd: S, part: Self::Part, x: T, shift: f64) -> Self::Part;
    /// Combines the accumulators of two parts into one.
    fn meet(a: Self::Part, b: Self::Part) -> Self::Part;
    /// The accumulator of the elements of a part.
    fn sum(part: Self::Part) -> Self::Sum;
    /// Combines two accumulators.
    fn join(a: Self::Sum, b: Self::Sum) -> Self::Sum;

    /// Folds a contiguous slice.
    #[inline(always)]
    fn slice<S: Simd>(simd: S, x: &[T], shift: f64) -> Self::Sum {
        fold_slice::<S, T, Self>(simd, x, shift)
    }

    /// Folds rows of `run` elements, without a shift.
    #[inline(always)]
    fn rows<S: Simd>(simd: S, x: &[T], run: usize, sums: &mut [Self::Sum]) {
        for (x, sum) in x.chunks_exact(run).zip(sums) {
            *sum = Self::slice(simd, x, 0.0);
        }
    }
}

/// A fold of floats.
macro_rules! float_folds {
    ($($(#[$meta:meta])* $Name:ident:
        $Part:ty as $Sum:ty = $none:expr,
        |$simd:ident, $part:ident, $x:ident, $shift:ident| $add:expr,
        |$a:ident, $b:ident| $join:expr
        $(, $rows:path)?;
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub struct $Name;

        impl Fold<f32> for $Name {
            type Part = $Part;
            type Sum = $Sum;
            const NONE: $Part = $none;
            #[inline(always)]
            fn add<S: Simd>($simd: S, $part: $Part, $x: f32, $shift: f64) -> $Part {
                $add
            }
            #[inline(always)]
            fn meet($a: $Part, $b: $Part) -> $Part {
                $join
            }
            #[inline(always)]
            fn sum(part: $Part) -> $Sum {
                part.into()
            }
            #[inline(always)]
            fn join($a: $Sum, $b: $Sum) -> $Sum {
                $join
            }
            $(#[inline(always)]
            fn rows<S: Simd>(simd: S, x: &[f32], run: usize, sums: &mut [$Sum]) {
                $rows(simd, x, run, sums);
            })?
        }
    )*};
}

float_folds! {
    /// The sum.
    Sum: f32 as f64 = 0.0, |_simd, sum, x, _shift| sum + x, |a, b| a + b, sums_of_rows;
    /// The sum, in float64 only.
    WideSum: f64 as f64 = 0.0, |_simd, sum, x, _shift| sum + x as f64, |a, b| a + b;
    /// The sum of the absolute values.
    SumAbs: f64 as f64 = 0.0, |_simd, sum, x, _shift| sum + x.abs() as f64, |a, b| a + b;
    /// The sum of the squares.
    SumSquares: f64 as f64 = 0.0, |_simd, sum, x, _shift| sum + x as f64 * x as f64, |a, b| a + b;
    /// The product.
    Product: f64 as f64 = 1.0, |_simd, product, x, _shift| product * x as f64, |a, b| a * b;
    /// The largest element; NaN if there is one.
    Max: f32 as f32 = f32::NEG_INFINITY, |_simd, max, x, _shift| larger(max, x), |a, b| larger(a, b),
        extremes_of_rows::<S, Max>;
    /// The smallest element; NaN if there is one.
    Min: f32 as f32 = f32::INFINITY, |_simd, min, x, _shift| smaller(min, x), |a, b| smaller(a, b),
        extremes_of_rows::<S, Min>;
    /// The sum of `exp(x - shift)`.
    SumExp: f64 as f64 = 0.0,
        |simd, sum, x, shift| sum + math::exp(simd, (x as f64 - shift) as f32) as f64, |a, b| a + b;
    /// The sum of `(x - shift)^2`.
    SumSquaresAbout: f64 as f64 = 0.0, |_simd, sum, x, shift| {
        let difference = x as f64 - shift;
        sum + difference * difference
    }, |a, b| a + b;
}

/// The folds of integers, of any number of elements.
macro_rules! integer_folds {
    ($($Name:ident: $none:expr, |$sum:ident, $x:ident| $add:expr, |$a:ident, $b:ident| $join:expr;)*) => {$(
        impl<T: Integer> Fold<T> for $Name {
            type Part = T;
            type Sum = T;
            const NONE: T = $none;
            #[inline(always)]
            fn add<S: Simd>(_: S, $sum: T, $x: T, _: f64) -> T {
                $add
            }
            #[inline(always)]
            fn meet($a: T, $b: T) -> T {
                $join
            }
            #[inline(always)]
            fn sum(part: T) -> T {
                part
            }
            #[inline(always)]
            fn join($a: T, $b: T) -> T {
                $join
            }
            #[inline(always)]
            fn slice<S: Simd>(simd: S, x: &[T], _: f64) -> T {
                // The order of integers does not matter: the compiler makes vectors of it.
                x.iter().fold($none, |fold, &x| Self::add(simd, fold, x, 0.0))
            }
        }
    )*};
}

integer_folds! {
    Sum: T::ZERO, |sum, x| sum.add(x), |a, b| a.add(b);
    SumAbs: T::ZERO, |sum, x| sum.add(x.abs()), |a, b| a.add(b);
    SumSquares: T::ZERO, |sum, x| sum.add(x.mul(x)), |a, b| a.add(b);
    Product: T::ONE, |product, x| product.mul(x), |a, b| a.mul(b);
    Max: T::MIN, |max, x| max.max(x), |a, b| a.max(b);
    Min: T::MAX, |min, x| min.min(x), |a, b| a.min(b);
}

/// Vectors of a fold of rows.
trait Lanes: Fold<f32> {
    /// What changes no result.
    const NEUTRAL: f32;
    /// Adds a vector. Extremes skip NaN of `x`.
    fn vector<S: Simd>(simd: S, x: S::F32, sum: S::F32) -> S::F32;
}

impl Lanes for Sum {
    const NEUTRAL: f32 = 0.0;
    #[inline(always)]
    fn vector<S: Simd>(simd: S, x: S::F32, sum: S::F32) -> S::F32 {
        simd.add(x, sum)
    }
}

impl Lanes for Max {
    const NEUTRAL: f32 = f32::NEG_INFINITY;
    #[inline(always)]
    fn vector<S: Simd>(simd: S, x: S::F32, sum: S::F32) -> S::F32 {
        simd.max(x, sum)
    }
}

impl Lanes for Min {
    const NEUTRAL: f32 = f32::INFINITY;
    #[inline(always)]
    fn vector<S: Simd>(simd: S, x: S::F32, sum: S::F32) -> S::F32 {
        simd.min(x, sum)
    }
}

/// The sums of rows.
#[inline(always)]
fn sums_of_rows<S: Simd>(simd: S, x: &[f32], run: usize, sums: &mut [f64]) {
    if run > PART {
        for (x, sum) in x.chunks_exact(run).zip(sums) {
            *sum = rows::sum(simd, x, rows::Plain);
        }
        return;
    }
    for (x, sums) in x.chunks(run * S::LANES).zip(sums.chunks_mut(S::LANES)) {
        let (folds, _) = fold_rows::<S, Sum>(simd, x, run);
        sums.iter_mut().zip(folds).for_each(|(sum, fold)| *sum = fold as f64);
    }
}

/// The largest or smallest elements of rows.
#[inline(always)]
fn extremes_of_rows<S: Simd, F: Lanes<Part = f32, Sum = f32>>(simd: S, x: &[f32], run: usize, sums: &mut [f32]) {
    for (x, sums) in x.chunks(run * S::LANES).zip(sums.chunks_mut(S::LANES)) {
        let (folds, special) = fold_rows::<S, F>(simd, x, run);
        sums.copy_from_slice(&folds[..sums.len()]);
        if special {
            for (x, sum) in x.chunks_exact(run).zip(sums) {
                *sum = fold_slice::<S, f32, F>(simd, x, 0.0);
            }
        }
    }
}

/// Folds at most as many rows as vectors have lanes; the order of terms does not depend on their number. Also returns
/// whether there may be a NaN among the elements.
#[inline(always)]
fn fold_rows<S: Simd, F: Lanes>(simd: S, x: &[f32], run: usize) -> ([f32; MAX_LANES], bool) {
    let (neutral, zero) = (simd.splat(F::NEUTRAL), simd.splat(0.0));
    let (mut vectors, mut special) = ([neutral; MAX_LANES], [zero; 2]);
    for (row, vector) in x.chunks_exact(run).zip(&mut vectors) {
        let mut sums = [neutral; 2];
        let pairs = row.chunks_exact(2 * S::LANES);
        let mut rest = pairs.remainder();
        for pair in pairs {
            let pair = [simd.load(pair), simd.load(&pair[S::LANES..])];
            sums = [F::vector(simd, pair[0], sums[0]), F::vector(simd, pair[1], sums[1])];
            // Zero times infinity or NaN is NaN.
            special = [simd.mul_add(pair[0], zero, special[0]), simd.mul_add(pair[1], zero, special[1])];
        }
        if rest.len() >= S::LANES {
            let last = simd.load(rest);
            sums[0] = F::vector(simd, last, sums[0]);
            special[0] = simd.mul_add(last, zero, special[0]);
            rest = &rest[S::LANES..];
        }
        if !rest.is_empty() {
            let last = simd.load_partial(rest);
            sums[1] = F::vector(simd, simd.lanes_before(rest.len(), last, neutral), sums[1]);
            special[1] = simd.mul_add(last, zero, special[1]);
        }
        *vector = F::vector(simd, sums[0], sums[1]);
    }
    simd.transpose(&mut vectors);
    let mut folds = [vectors[0], vectors[1]];
    for pair in vectors[2..S::LANES].chunks_exact(2) {
        folds = [F::vector(simd, pair[0], folds[0]), F::vector(simd, pair[1], folds[1])];
    }
    let (mut lanes, special) = ([0.0; MAX_LANES], simd.add(special[0], special[1]));
    simd.store(F::vector(simd, folds[0], folds[1]), &mut lanes);
    (lanes, simd.sum(special).is_nan())
}

#[inline(always)]
pub(super) fn larger<T: PartialOrd>(a: T, b: T) -> T {
    if is_nan(&a) | (a > b) { a } else { b }
}

#[inline(always)]
pub(super) fn smaller<T: PartialOrd>(a: T, b: T) -> T {
    if is_nan(&a) | (a < b) { a } else { b }
}

/// Whether a float is NaN: the only number that differs from itself.
#[inline(always)]
pub(super) fn is_nan<T: PartialOrd>(x: &T) -> bool {
    x.partial_cmp(x).is_none()
}

/// A type of floats that kernels compute with.
pub trait Float: Element + Into<f64> {
    /// The value nearest to `x`.
    fn nearest(x: f64) -> Self;
}

impl Float for f32 {
    #[inline(always)]
    fn nearest(x: f64) -> f32 {
        x as f32
    }
}

impl Float for f64 {
    #[inline(always)]
    fn nearest(x: f64) -> f64 {
        x
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

    /// Outputs of neighboring rows, from the first of `x` on.
    #[inline(always)]
    fn rows<S: Simd>(self, simd: S, nest: &Nest, x: &[T], out: &mut [Self::Out]) {
        for (row, out) in out.iter_mut().enumerate() {
            *out = self.one(simd, nest, x, row * nest.run);
        }
    }
}

/// No shift.
static UNSHIFTED: [f64; WIDTH] = [0.0; WIDTH];

/// The output is a fold: the result for integers; floats are finished from it, and parts of an output joined.
#[derive(Clone, Copy)]
pub struct Folded<F>(PhantomData<F>);

impl<F> Default for Folded<F> {
    fn default() -> Folded<F> {
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

    #[inline(always)]
    fn rows<S: Simd>(self, simd: S, nest: &Nest, x: &[T], out: &mut [F::Sum]) {
        F::rows(simd, x, nest.run, out);
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

impl<T: Float> Reduction<T> for LogSumExp
where
    Max: Fold<T, Sum = T>,
    SumExp: Fold<T, Sum = f64>,
{
    type Out = T;

    #[inline(always)]
    fn one<S: Simd>(self, simd: S, nest: &Nest, x: &[T], start: usize) -> T {
        let max = nest.fold_run::<S, T, Max>(simd, x, start, 0.0).into();
        T::nearest(LogSumExp::finish(max, nest.fold_run::<S, T, SumExp>(simd, x, start, max)))
    }

    #[inline(always)]
    fn many<S: Simd>(self, simd: S, nest: &Nest, x: &[T], start: usize, out: &mut [T]) {
        let mut max = [MaybeUninit::uninit(); WIDTH];
        let [mut shifts, mut sums] = [[MaybeUninit::uninit(); WIDTH]; 2];
        let max = filled(&mut max, out.len(), T::default());
        let (shifts, sums) = (filled(&mut shifts, out.len(), 0.0), filled(&mut sums, out.len(), 0.0));
        nest.fold_columns::<S, T, Max>(simd, x, start, &UNSHIFTED, max);
        shifts.iter_mut().zip(&*max).for_each(|(shift, &max)| *shift = max.into());
        nest.fold_columns::<S, T, SumExp>(simd, x, start, shifts, sums);
        for ((out, &shift), &sum) in out.iter_mut().zip(&*shifts).zip(&*sums) {
            *out = T::nearest(LogSumExp::finish(shift, sum));
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
        let mean = nest.fold_run::<S, f32, WideSum>(simd, x, start, 0.0) / count;
        self.finish(mean, nest.fold_run::<S, f32, SumSquaresAbout>(simd, x, start, mean), count)
    }

    #[inline(always)]
    fn many<S: Simd>(self, simd: S, nest: &Nest, x: &[f32], start: usize, out: &mut [[f64; 2]]) {
        let ([mut means, mut sums], count) = ([[MaybeUninit::uninit(); WIDTH]; 2], nest.count() as f64);
        let (means, sums) = (filled(&mut means, out.len(), 0.0), filled(&mut sums, out.len(), 0.0));
        nest.fold_columns::<S, f32, WideSum>(simd, x, start, &UNSHIFTED, means);
        means.iter_mut().for_each(|mean| *mean /= count);
        nest.fold_columns::<S, f32, SumSquaresAbout>(simd, x, start, means, sums);
        for ((out, &mean), &squares) in out.iter_mut().zip(&*means).zip(&*sums) {
            *out = self.finish(mean, squares, count);
        }
    }
}

/// Transposes rows of `run` elements, at most [`TURNED`], to columns.
#[inline(always)]
fn turn<S: Simd, T: Element>(simd: S, rows: &[T], run: usize, columns: &mut [[T; TURNED]; HALF]) {
    if size_of::<T>() != size_of::<f32>() || align_of::<T>() != align_of::<f32>() {
        for (r, row) in rows.chunks_exact(run).enumerate() {
            for (column, &x) in columns.iter_mut().zip(row) {
                column[r] = x;
            }
        }
        return;
    }
    // SAFETY: the elements have 32 bits, like floats, and are only moved.
    let rows = unsafe { std::slice::from_raw_parts(rows.as_ptr().cast::<f32>(), rows.len()) };
    let mut vectors = [simd.splat(0.0); MAX_LANES];
    for first in (0..rows.len() / run).step_by(S::LANES) {
        for left in (0..run).step_by(S::LANES) {
            for (row, vector) in (first..).zip(&mut vectors[..S::LANES]) {
                // What follows the row does not matter.
                let rest = &rows[(row * run + left).min(rows.len())..];
                *vector = if rest.len() < S::LANES { simd.load_partial(rest) } else { simd.load(rest) };
            }
            simd.transpose(&mut vectors);
            for (column, &vector) in columns[left..run].iter_mut().zip(&vectors[..S::LANES]) {
                const { assert!(TURNED.is_multiple_of(MAX_LANES)) };
                // SAFETY: a whole vector from `first`, a multiple of its lanes below `TURNED`, on.
                unsafe { simd.store_ptr(vector, column.as_mut_ptr().add(first).cast::<f32>()) };
            }
        }
    }
}

/// Computes the outputs from `first` on, in row-major order.
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

impl<T: Element, R: Reduction<T>> Reduce<'_, T, R> {
    /// Computes the outputs; those of float64 with the same code for every instruction set, which keeps the library small.
    #[inline]
    pub fn run_on(self, isa: Isa) {
        if matches!(T::DATA_TYPE, DataType::Float64) { self.run(Portable) } else { isa.run(self) }
    }
}

impl<T: Element, R: Reduction<T>> Kernel for Reduce<'_, T, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Reduce { nest, reduction, x, first, out } = self;
        if let (Some(turned), MIN_TURNED..) = (&nest.turned, out.len()) {
            let mut columns = [[T::default(); TURNED]; HALF];
            let rows = x[first * nest.run..].chunks(TURNED * nest.run);
            for (rows, out) in rows.zip(out.chunks_mut(TURNED)) {
                turn(simd, &rows[..out.len() * nest.run], nest.run, &mut columns);
                reduction.many(simd, turned, columns.as_flattened(), 0, out);
            }
            return;
        }
        if nest.columns == 1 && nest.reduced.is_empty() {
            let rows = first * nest.run..(first + out.len()) * nest.run;
            return reduction.rows(simd, nest, &x[rows], out);
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
