//! The position of the smallest or largest element.

use super::reduce::{Fold, Nest, Reduction, WIDTH, filled, is_nan};
use crate::cpu::simd::Simd;
use crate::dtype::Element;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// The order that decides which element wins.
pub trait Order<T: Copy>: Fold<T, Sum = T> {
    /// Whether `a` comes before `b`; false if either is NaN.
    fn precedes(a: T, b: T) -> bool;
}

impl<T: Element> Order<T> for super::reduce::Max
where
    super::reduce::Max: Fold<T, Sum = T>,
{
    #[inline(always)]
    fn precedes(a: T, b: T) -> bool {
        a > b
    }
}

impl<T: Element> Order<T> for super::reduce::Min
where
    super::reduce::Min: Fold<T, Sum = T>,
{
    #[inline(always)]
    fn precedes(a: T, b: T) -> bool {
        a < b
    }
}

/// The index of the winning element of each output, along one reduced dimension; the first one wins a tie. The first
/// NaN wins over all numbers.
#[derive(Clone, Copy)]
pub struct Arg<F>(PhantomData<F>);

impl<F> Arg<F> {
    /// Creates the search for the result of the fold `F`.
    pub fn new(_: F) -> Arg<F> {
        Arg(PhantomData)
    }
}

/// Elements searched at a time, first and where the result is.
const BLOCK: usize = 128;
const PART: usize = 16;

impl<T: Element, F: Order<T> + Copy + Sync> Reduction<T> for Arg<F> {
    type Out = i32;

    #[inline(always)]
    fn one<S: Simd>(self, simd: S, nest: &Nest, x: &[T], start: usize) -> i32 {
        // A fold vectorizes, and so does the search for the position of its result; a loop that tracks an index does
        // not.
        let best = nest.fold_run::<S, T, F>(simd, x, start, 0.0);
        let mut before = 0;
        for x in x[start..][..nest.count()].chunks(BLOCK) {
            let found = |x: T| x == best || (is_nan(&x) && is_nan(&best));
            if x.iter().fold(false, |any, &x| any | found(x)) {
                let is_in = |part: &&[T]| part.iter().fold(false, |any, &x| any | found(x));
                let skipped = x.chunks(PART).take_while(|part| !is_in(part)).count() * PART;
                let within = x[skipped..].iter().position(|&x| found(x)).expect("a matching element exists");
                return (before + skipped + within) as i32;
            }
            before += x.len();
        }
        // Another thread has changed the elements in the meantime.
        0
    }

    #[inline(always)]
    fn many<S: Simd>(self, _: S, nest: &Nest, x: &[T], start: usize, out: &mut [i32]) {
        let mut best = [MaybeUninit::uninit(); WIDTH];
        let best = filled(&mut best, out.len(), T::default());
        out.fill(0);
        for (row, offset) in nest.runs().enumerate() {
            let row = row as i32;
            let x = &x[start + offset..][..out.len()];
            if row == 0 {
                best.copy_from_slice(x);
            }
            for ((best, index), &x) in best.iter_mut().zip(&mut *out).zip(x) {
                let wins = F::precedes(x, *best) | (is_nan(&x) & !is_nan(best));
                *best = if wins { x } else { *best };
                *index = if wins { row } else { *index };
            }
        }
    }
}
