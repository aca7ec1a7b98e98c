//! Comparisons and tests, whose results are 0 or 1, and selection.

use super::{map, zip};
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::dtype::Element;
use crate::ops::elementwise::Elementwise::{self, self as E};

/// Compares elements of one type. Every comparison with NaN except "not equal" is false.
///
/// # Panics
/// If `op` is not a comparison.
pub fn compare<T: Element>(isa: Isa, op: Elementwise, x: &[T], y: &[T], out: &mut [u8]) {
    isa.run(Compare { op, x, y, out });
}

/// Computes `isNaN` or `isInfinite`.
///
/// # Panics
/// If `op` is neither.
pub fn test_float(isa: Isa, op: Elementwise, x: &[f32], out: &mut [u8]) {
    isa.run(TestFloat { op, x, out });
}

/// The bits of elements, of any type of this size.
pub trait Bits: Element {
    /// `yes` if `condition` is not 0, otherwise `no`.
    fn choose(condition: u8, yes: Self, no: Self) -> Self;
}

macro_rules! bits {
    ($($type:ty)*) => {$(
        impl Bits for $type {
            #[inline(always)]
            fn choose(condition: u8, yes: $type, no: $type) -> $type {
                // A mask is computed in vectors, a comparison that chooses is not.
                let mask = (condition.min(1) as $type).wrapping_neg();
                (yes & mask) | (no & !mask)
            }
        }
    )*};
}

bits! { u8 u32 u64 }

/// `out[i] = if condition[i] != 0 { yes[i] } else { no[i] }`.
pub fn select<T: Bits>(isa: Isa, condition: &[u8], yes: &[T], no: &[T], out: &mut [T]) {
    isa.run(Select { condition, yes, no, out });
}

struct Compare<'a, T> {
    op: Elementwise,
    x: &'a [T],
    y: &'a [T],
    out: &'a mut [u8],
}

impl<T: Element> Kernel for Compare<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Compare { op, x, y, out } = self;
        match op {
            E::Equal => zip(x, y, out, |x, y| (x == y) as u8),
            E::NotEqual => zip(x, y, out, |x, y| (x != y) as u8),
            E::Greater => zip(x, y, out, |x, y| (x > y) as u8),
            E::GreaterOrEqual => zip(x, y, out, |x, y| (x >= y) as u8),
            E::Lesser => zip(x, y, out, |x, y| (x < y) as u8),
            E::LesserOrEqual => zip(x, y, out, |x, y| (x <= y) as u8),
            _ => unreachable!("{op:?} is not a comparison"),
        }
    }
}

struct TestFloat<'a> {
    op: Elementwise,
    x: &'a [f32],
    out: &'a mut [u8],
}

impl Kernel for TestFloat<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        match self.op {
            E::IsNaN => map(self.x, self.out, |x| x.is_nan() as u8),
            E::IsInfinite => map(self.x, self.out, |x| x.is_infinite() as u8),
            op => unreachable!("{op:?} is not a test of a float"),
        }
    }
}

struct Select<'a, T> {
    condition: &'a [u8],
    yes: &'a [T],
    no: &'a [T],
    out: &'a mut [T],
}

impl<T: Bits> Kernel for Select<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let choices = self.condition.iter().zip(self.yes).zip(self.no);
        for (out, ((&condition, &yes), &no)) in self.out.iter_mut().zip(choices) {
            *out = T::choose(condition, yes, no);
        }
    }
}
