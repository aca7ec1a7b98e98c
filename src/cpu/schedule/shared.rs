//! Loops over disjoint parts of one output, shared between threads.

use super::team::thread_number;
use crate::cpu::schedule::pool::Threads;
use crate::memory::{ColumnBlock, SharedMut};
use std::cell::Cell;
use std::ops::Range;

/// Calls `work` with parts of `out` that cover it exactly once, in parallel if it is worth it.
///
/// `out` consists of units of `unit` elements. `work` receives the index of the first unit of its part, and the
/// elements of the part: a multiple of `grain` units, except for the last part. `cost` is per unit, as for
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

thread_local! {
    /// Which of its parts of a step's scratch memories this thread is using, as a bit for each [`Level`].
    static USED_SCRATCH: Cell<u8> = const { Cell::new(0) };
}

/// Whose scratch memory it is: a thread uses at most one of each level at a time.
#[derive(Clone, Copy)]
enum Level {
    /// That of a section's work.
    Work = 1,
    /// That of functions which the work calls.
    Within = 2,
}

/// Marks this thread's scratch as in use until dropped, even after a panic: the pool reuses the thread.
struct ScratchInUse(Level);

impl ScratchInUse {
    fn new(level: Level) -> ScratchInUse {
        let used = USED_SCRATCH.get();
        assert!(used & level as u8 == 0, "scratch memory in use");
        USED_SCRATCH.set(used | level as u8);
        ScratchInUse(level)
    }
}

impl Drop for ScratchInUse {
    fn drop(&mut self) {
        USED_SCRATCH.set(USED_SCRATCH.get() & !(self.0 as u8));
    }
}

/// Scratch memory, divided evenly among the threads.
pub struct PerThread<'a, S> {
    scratch: SharedMut<'a, S>,
    threads: usize,
    level: Level,
}

impl<'a, S> PerThread<'a, S> {
    /// Divides `scratch`, of undefined content, among `threads`, for the work of a section.
    pub fn new(threads: &Threads, scratch: &'a mut [S]) -> PerThread<'a, S> {
        PerThread { scratch: SharedMut::new(scratch), threads: threads.count(), level: Level::Work }
    }

    /// The same for functions that such work calls.
    pub fn within(threads: &Threads, scratch: &'a mut [S]) -> PerThread<'a, S> {
        PerThread { level: Level::Within, ..PerThread::new(threads, scratch) }
    }

    /// Calls `work` with this thread's share.
    ///
    /// # Panics
    /// If this thread is already within a call for scratch memory of this level, or does not belong to the threads that
    /// share the section.
    pub fn with(&self, work: impl FnOnce(&mut [S])) {
        let _in_use = ScratchInUse::new(self.level);
        let (thread, own) = (thread_number(), self.scratch.len() / self.threads);
        assert!(thread < self.threads, "thread {thread} of {}", self.threads);
        // SAFETY: the threads working at the same time belong to one team and have different numbers: their ranges are
        // disjoint. A thread hands out its range only once at a time.
        work(unsafe { self.scratch.range(thread * own..(thread + 1) * own) });
    }
}

/// [`Threads::split`] with scratch for `work`, of undefined content: a thread's share of `scratch`. `work` must not
/// enter the pool.
///
/// # Panics
/// If `work` enters the pool and is called again from there.
pub fn split_with<S: Send>(
    threads: &Threads,
    items: usize,
    grain: usize,
    cost: usize,
    scratch: &mut [S],
    work: impl Fn(Range<usize>, &mut [S]) + Sync,
) {
    let own = PerThread::new(threads, scratch);
    threads.split(items, grain, cost, |range| own.with(|scratch| work(range, scratch)));
}

/// [`for_each_chunk`] with scratch for `work`, as in [`split_with`].
///
/// # Panics
/// As [`for_each_chunk`] and [`split_with`].
pub fn for_each_chunk_with<T: Send, S: Send>(
    threads: &Threads,
    out: &mut [T],
    unit: usize,
    grain: usize,
    cost: usize,
    scratch: &mut [S],
    work: impl Fn(usize, &mut [T], &mut [S]) + Sync,
) {
    let own = PerThread::new(threads, scratch);
    for_each_chunk(threads, out, unit, grain, cost, |first, part| own.with(|scratch| work(first, part, scratch)));
}

/// Calls `work` with blocks of neighboring columns of the `matrices` matrices `[rows, columns]` in `out`, in parallel if
/// it is worth it. `work` receives the index of the matrix, the range of columns, and their elements. Each block has at
/// most `most` columns and, unless it is a matrix's last, a multiple of `grain`. `cost` is per column, as for
/// [`Threads::split`].
///
/// # Panics
/// If the number of elements in `out` does not match.
pub fn for_each_column_block<T: Send>(
    threads: &Threads,
    out: &mut [T],
    [matrices, rows, columns]: [usize; 3],
    [grain, most]: [usize; 2],
    cost: usize,
    work: impl Fn(usize, Range<usize>, ColumnBlock<T>) + Sync,
) {
    assert_eq!(out.len(), matrices * rows * columns);
    let grains = columns.div_ceil(grain);
    let out = SharedMut::new(out);
    threads.split(matrices * grains, 1, cost * grain.min(columns), |mut range| {
        while !range.is_empty() {
            let (matrix, first) = (range.start / grains, range.start % grains);
            let end = grains.min(first + range.len().min((most / grain).max(1)));
            range.start += end - first;
            let own = first * grain..columns.min(end * grain);
            let start = matrix * rows * columns + own.start;
            // SAFETY: `split` covers every grain once, and grains are disjoint.
            work(matrix, own.clone(), unsafe { ColumnBlock::new(&out, start, own.len(), columns, rows) });
        }
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

    #[test]
    fn scratch_memory_is_not_shared() {
        for count in [1, 2, 7] {
            let threads = Threads::new(count).unwrap();
            let mut scratch = vec![0usize; 100 * count];
            let mut out = vec![0; 1000];
            for_each_chunk_with(&threads, &mut out, 1, 8, 1 << 20, &mut scratch, |first, part, scratch| {
                assert_eq!(scratch.len(), 100);
                for (i, element) in part.iter_mut().enumerate() {
                    scratch.fill(first + i);
                    std::thread::yield_now();
                    *element = scratch.iter().sum();
                }
            });
            assert!(out.iter().enumerate().all(|(i, &element)| element == 100 * i));
        }
    }

    #[test]
    fn a_panic_leaves_scratch_memory_usable() {
        let threads = Threads::new(2).unwrap();
        let run = |fails: bool| {
            let (mut out, mut scratch) = (vec![0; 100], vec![0u8; 2]);
            for_each_chunk_with(&threads, &mut out, 1, 1, 1 << 20, &mut scratch, |_, _, _| assert!(!fails));
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(true))).is_err());
        run(false);
    }

    #[test]
    fn column_blocks_cover_every_element_once() {
        for count in [1, 2, 7] {
            let threads = Threads::new(count).unwrap();
            for shape @ [_, rows, columns] in [[1, 1, 1], [2, 3, 4], [3, 5, 17], [1, 2, 100], [2, 2, 64], [0, 3, 4]] {
                let mut out = vec![0; shape.iter().product()];
                let add = |matrix: usize, own: Range<usize>, mut block: ColumnBlock<usize>| {
                    for row in 0..rows {
                        let elements = block.row(row);
                        assert_eq!(elements.len(), own.len());
                        for (i, element) in elements.iter_mut().enumerate() {
                            *element += (matrix * rows + row) * columns + own.start + i + 1;
                        }
                    }
                };
                for most in [16, 35, usize::MAX] {
                    for_each_column_block(&threads, &mut out, shape, [16, most], 1 << 20, |matrix, own, block| {
                        assert!(own.start % 16 == 0 && (own.end % 16 == 0 || own.end == columns));
                        assert!(own.len() <= most);
                        add(matrix, own, block);
                    });
                }
                assert!(out.iter().enumerate().all(|(i, &element)| element == 3 * (i + 1)), "{shape:?}");
            }
        }
    }
}
