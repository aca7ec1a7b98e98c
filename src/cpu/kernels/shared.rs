//! Disjoint parts of one output, written by several threads.

use crate::cpu::threads::Threads;
use std::marker::PhantomData;
use std::ops::Range;

/// A slice that several threads write to, each to its own part.
pub struct SharedMut<'a, T> {
    start: *mut T,
    len: usize,
    lifetime: PhantomData<&'a mut [T]>,
}

// SAFETY: a `SharedMut` stands for an exclusive borrow of elements that may move between threads; `range` makes its
// callers keep the parts disjoint.
unsafe impl<T: Send> Send for SharedMut<'_, T> {}
// SAFETY: as above; a shared reference gives elements out through `range` only.
unsafe impl<T: Send> Sync for SharedMut<'_, T> {}

impl<'a, T> SharedMut<'a, T> {
    /// Shares `slice` for as long as it is borrowed.
    pub fn new(slice: &'a mut [T]) -> SharedMut<'a, T> {
        SharedMut { start: slice.as_mut_ptr(), len: slice.len(), lifetime: PhantomData }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements of `range`.
    ///
    /// # Safety
    /// No two ranges that were given out and are still in use may overlap.
    ///
    /// # Panics
    /// If the range does not lie within the slice.
    #[expect(clippy::mut_from_ref, reason = "the contract demands disjoint ranges")]
    pub unsafe fn range(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} elements", self.len);
        // SAFETY: the range lies within the exclusively borrowed slice, and by the contract nobody else uses it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

/// Calls `work` with parts of `out` that cover it once, in parallel when it is worth it.
///
/// `out` consists of units of `unit` elements. `work` gets the index of the first unit of its part and the elements
/// of the part: `grain` units or a multiple of them, except for the last part. `cost` is that of one unit, as for
/// [`Threads::split`]. The parts depend on the number of threads: `work` must compute each unit independently of them.
///
/// # Panics
/// If the length of `out` is not a multiple of `unit`.
pub fn for_each_chunk<T: Send>(
    threads: &Threads,
    out: &mut [T],
    unit: usize,
    grain: usize,
    cost: usize,
    work: impl Fn(usize, &mut [T]) + Sync,
) {
    if out.is_empty() {
        return;
    }
    assert!(out.len().is_multiple_of(unit), "{} elements in units of {unit}", out.len());
    let units = out.len() / unit;
    let out = SharedMut::new(out);
    threads.split(units, grain, cost, |range| {
        // SAFETY: `split` covers every unit once, so the ranges are disjoint.
        work(range.start, unsafe { out.range(range.start * unit..range.end * unit) });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_every_element_once() {
        for count in [1, 2, 7] {
            let threads = Threads::new(count).unwrap();
            for (units, unit, grain) in [(0, 3, 1), (1, 1, 1), (10, 3, 4), (1000, 7, 16), (257, 1, 1)] {
                let mut out = vec![0; units * unit];
                for_each_chunk(&threads, &mut out, unit, grain, 1 << 20, |first, part| {
                    for (i, element) in part.iter_mut().enumerate() {
                        *element += first * unit + i + 1;
                    }
                });
                assert!(out.iter().enumerate().all(|(i, &element)| element == i + 1), "{units} units of {unit}");
            }
        }
    }
}
