//! Where the smallest or largest element is.

use super::half::{BLOCK, Stored};
use super::reduce::{Fold, Nest, Reduction, WIDTH};
use crate::cpu::simd::Simd;
use crate::dtype::Element;
use std::marker::PhantomData;

/// An element type of indices.
pub trait Index: Element {
    /// The index, which fits.
    fn of(index: usize) -> Self;
}

impl Index for i32 {
    #[inline(always)]
    fn of(index: usize) -> i32 {
        index as i32
    }
}

impl Index for i64 {
    #[inline(always)]
    fn of(index: usize) -> i64 {
        index as i64
    }
}

/// Which elements win.
pub trait Order<T>: Fold<T, Sum = T> {
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

/// The index of the first element that wins among those of an output, along one reduced dimension. The first NaN wins
/// over all numbers.
pub struct Arg<F, O>(PhantomData<(F, O)>);

impl<F, O> Arg<F, O> {
    /// The search for what `F` folds to.
    pub fn new(_: F) -> Arg<F, O> {
        Arg(PhantomData)
    }
}

impl<F, O> Clone for Arg<F, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F, O> Copy for Arg<F, O> {}

#[inline(always)]
fn is_nan<T: PartialOrd>(x: T) -> bool {
    x.partial_cmp(&x).is_none()
}

impl<T: Stored, F: Order<T::Lane> + Sync, O: Index> Reduction<T> for Arg<F, O> {
    type Out = O;

    #[inline(always)]
    fn one<S: Simd>(self, simd: S, nest: &Nest, x: &[T], start: usize) -> O {
        // A fold is vectorised, and so is the search for its result; a loop that keeps an index is not.
        let best = nest.fold_run::<S, T, F>(simd, x, start, 0.0);
        let mut buffer = [T::Lane::default(); BLOCK];
        let mut before = 0;
        for x in x[start..][..nest.count()].chunks(T::CHUNK.min(4 * BLOCK)) {
            let x = T::widen(simd, x, &mut buffer);
            let found = |x: T::Lane| x == best || (is_nan(x) && is_nan(best));
            if x.iter().fold(false, |any, &x| any | found(x)) {
                return O::of(before + x.iter().position(|&x| found(x)).expect("one was found"));
            }
            before += x.len();
        }
        unreachable!("the fold is one of the elements")
    }

    #[inline(always)]
    fn many<S: Simd>(self, simd: S, nest: &Nest, x: &[T], start: usize, out: &mut [O]) {
        let (mut best, mut indices) = ([T::Lane::default(); WIDTH], [0u32; WIDTH]);
        let (best, indices) = (&mut best[..out.len()], &mut indices[..out.len()]);
        let mut buffer = [T::Lane::default(); BLOCK];
        let mut row = 0;
        nest.for_each_run(|offset| {
            let x = T::widen(simd, &x[start + offset..][..out.len()], &mut buffer);
            if row == 0 {
                best.copy_from_slice(x);
            }
            for ((best, index), &x) in best.iter_mut().zip(&mut *indices).zip(x) {
                let wins = F::precedes(x, *best) | (is_nan(x) & !is_nan(*best));
                *best = if wins { x } else { *best };
                *index = if wins { row } else { *index };
            }
            row += 1;
        });
        out.iter_mut().zip(&*indices).for_each(|(out, &index)| *out = O::of(index as usize));
    }
}
