//! Running sums.

use crate::cpu::simd::{Kernel, Simd};
use crate::dtype::Element;
use crate::memory::ColumnBlock;

/// Columns summed at the same time: their rows are long enough for few pages, and the sums stay in the first-level cache.
pub const COLUMNS: usize = 1024;

/// An element type that can be summed.
pub trait Summand: Element {
    /// The accumulator: float64 for floats, for results as accurate as the formula even in long rows.
    type Sum: Copy + Default;
    /// Adds an element to the sum; integers wrap around.
    fn add(sum: Self::Sum, x: Self) -> Self::Sum;
    /// The element nearest to the sum.
    fn from_sum(sum: Self::Sum) -> Self;
}

impl Summand for f32 {
    type Sum = f64;
    #[inline(always)]
    fn add(sum: f64, x: f32) -> f64 {
        sum + x as f64
    }
    #[inline(always)]
    fn from_sum(sum: f64) -> f32 {
        sum as f32
    }
}

impl Summand for f64 {
    type Sum = f64;
    #[inline(always)]
    fn add(sum: f64, x: f64) -> f64 {
        sum + x
    }
    #[inline(always)]
    fn from_sum(sum: f64) -> f64 {
        sum
    }
}

macro_rules! integer_summands {
    ($($type:ty)*) => {$(
        impl Summand for $type {
            type Sum = $type;
            #[inline(always)]
            fn add(sum: $type, x: $type) -> $type {
                sum.wrapping_add(x)
            }
            #[inline(always)]
            fn from_sum(sum: $type) -> $type {
                sum
            }
        }
    )*};
}

integer_summands! { i32 u32 i64 u64 }

/// Writes the running sum of one row.
pub fn sum_row<T: Summand>(x: &[T], out: &mut [T], exclusive: bool, reversed: bool) {
    let mut sum = T::Sum::default();
    let mut step = |x: &T, out: &mut T| {
        let before = sum;
        sum = T::add(sum, *x);
        *out = T::from_sum(if exclusive { before } else { sum });
    };
    match reversed {
        false => x.iter().zip(out).for_each(|(x, out)| step(x, out)),
        true => x.iter().zip(out).rev().for_each(|(x, out)| step(x, out)),
    }
}

/// The running sums of at most [`COLUMNS`] neighboring columns of a matrix `[rows, stride]`.
pub struct SumColumns<'a, T> {
    /// The elements, starting at the first row of the first column.
    pub x: &'a [T],
    /// The elements of the output.
    pub out: ColumnBlock<'a, T>,
    /// Rows of the matrix.
    pub rows: usize,
    /// Elements from one row to the next.
    pub stride: usize,
    /// Whether each sum excludes its own element.
    pub exclusive: bool,
    /// Whether sums start at the last row.
    pub reversed: bool,
}

impl<T: Summand> Kernel for SumColumns<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let SumColumns { x, mut out, rows, stride, exclusive, reversed } = self;
        let mut sums = [T::Sum::default(); COLUMNS];
        for i in 0..rows {
            let row = if reversed { rows - 1 - i } else { i };
            let (out, x) = (out.row(row), &x[row * stride..]);
            for ((out, &x), sum) in out.iter_mut().zip(x).zip(&mut sums) {
                let before = *sum;
                *sum = T::add(before, x);
                *out = T::from_sum(if exclusive { before } else { *sum });
            }
        }
    }
}
