//! Disjoint parts of one slice, written by several threads.

use std::marker::PhantomData;
use std::ops::Range;

/// A slice that several threads write, each a part of its own.
pub struct SharedMut<'a, T> {
    start: *mut T,
    len: usize,
    lifetime: PhantomData<&'a mut [T]>,
}

// SAFETY: a `SharedMut` stands for an exclusive borrow of elements that may move between threads; the contract of
// `range` makes callers keep the parts disjoint.
unsafe impl<T: Send> Send for SharedMut<'_, T> {}
// SAFETY: as above; a shared reference hands elements out through `range` only.
unsafe impl<T: Send> Sync for SharedMut<'_, T> {}

impl<'a, T> SharedMut<'a, T> {
    /// Shares `slice` for the duration of the borrow.
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
    /// No two ranges in use at the same time may overlap.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub unsafe fn range(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} elements", self.len);
        // SAFETY: the range lies within the exclusively borrowed slice, and by the contract nobody else uses it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

impl<T> SharedMut<'_, T> {
    /// The first element, for writes through pointers that satisfy the contract of [`range`](Self::range).
    pub fn as_mut_ptr(&self) -> *mut T {
        self.start
    }
}

/// The elements of adjacent columns of a row-major matrix, row by row.
pub struct ColumnBlock<'a, T> {
    out: &'a SharedMut<'a, T>,
    start: usize,
    width: usize,
    stride: usize,
    rows: usize,
}

impl<'a, T> ColumnBlock<'a, T> {
    /// The columns `start..start + width` of `rows` rows that are `stride` elements apart in `out`.
    ///
    /// # Safety
    /// While this block is in use, no other range or block of `out` that is in use may contain elements of these
    /// columns.
    pub unsafe fn new(out: &'a SharedMut<'a, T>, start: usize, width: usize, stride: usize, rows: usize) -> Self {
        ColumnBlock { out, start, width, stride, rows }
    }

    /// The elements of the row at `index` in these columns.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&mut self, index: usize) -> &mut [T] {
        // SAFETY: this block is borrowed mutably.
        unsafe { self.shared_row(index) }
    }

    /// Like [`row`](Self::row), with a shared borrow.
    ///
    /// # Safety
    /// No row that is still in use may be handed out again.
    #[expect(clippy::mut_from_ref, reason = "callers keep the rows apart")]
    unsafe fn shared_row(&self, index: usize) -> &mut [T] {
        assert!(index < self.rows);
        let start = self.start + index * self.stride;
        // SAFETY: no column is in two blocks or ranges at a time, and the caller keeps the rows apart.
        unsafe { self.out.range(start..start + self.width) }
    }

    /// The elements of two lists of rows in these columns.
    ///
    /// # Panics
    /// If a row does not exist or is listed twice.
    pub fn several<const A: usize, const B: usize>(
        &mut self,
        a: [usize; A],
        b: [usize; B],
    ) -> ([&mut [T]; A], [&mut [T]; B]) {
        let again = |(i, row): (usize, &usize)| a.iter().chain(&b).skip(i + 1).any(|other| other == row);
        assert!(!a.iter().chain(&b).enumerate().any(again), "{a:?} and {b:?} have a row twice");
        // SAFETY: this block is borrowed mutably, and the rows differ.
        let row = |index| unsafe { self.shared_row(index) };
        (a.map(row), b.map(row))
    }

    /// All elements, if these are all columns of the matrix.
    pub fn whole(&mut self) -> Option<&mut [T]> {
        let len = self.rows * self.stride;
        // SAFETY: this block is borrowed mutably, and has all elements of these rows.
        (self.width == self.stride).then(|| unsafe { self.out.range(self.start..self.start + len) })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Distance between rows, in elements.
    pub fn stride(&self) -> usize {
        self.stride
    }
}
