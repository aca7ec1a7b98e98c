//! Hands out disjoint parts of one buffer to threads, without locks, and without `unsafe` in callers.

use super::partition::{Cut, Grid};
use super::pool::Threads;
use super::shared::PerThread;
use std::marker::PhantomData;
use std::ops::Range;

/// Matrices of the same shape in one row-major buffer: element `(batch, row, col)` is at `batch * batch_stride + row *
/// row_stride + col`. All sizes are in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrices {
    /// Number of matrices.
    pub batches: usize,
    /// Distance between matrices.
    pub batch_stride: usize,
    /// Rows of each matrix.
    pub rows: usize,
    /// Distance between rows.
    pub row_stride: usize,
    /// Columns of each matrix; neighbors are contiguous.
    pub cols: usize,
}

impl Matrices {
    /// Whether a buffer of `len` elements holds all elements, each at a position of its own.
    fn is_disjoint_within(&self, len: usize) -> bool {
        if self.batches == 0 || self.rows == 0 || self.cols == 0 {
            return true;
        }
        let matrix_by_matrix = (self.rows == 1 || self.row_stride >= self.cols)
            && (self.batches == 1 || self.batch_stride >= (self.rows - 1) * self.row_stride + self.cols);
        let row_by_row = self.batch_stride >= self.cols
            && (self.rows == 1 || self.row_stride >= (self.batches - 1) * self.batch_stride + self.cols);
        let end = (self.batches - 1) * self.batch_stride + (self.rows - 1) * self.row_stride + self.cols;
        (matrix_by_matrix || row_by_row) && end <= len
    }
}

/// Cuts matrices into tiles and hands out each tile once, to any thread.
pub struct Tiles<'a, T> {
    base: *mut T,
    matrices: Matrices,
    grid: Grid,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: a shared `Tiles` hands out only disjoint parts of a buffer that it borrows mutably, each part once: no two
// threads reach the same element.
unsafe impl<T: Send> Sync for Tiles<'_, T> {}

impl<'a, T> Tiles<'a, T> {
    /// Cuts all of `matrices` in `buffer` into the tiles of `grid`.
    ///
    /// # Panics
    /// If the matrices overlap or exceed the buffer.
    pub fn new(buffer: &'a mut [T], matrices: Matrices, grid: Grid) -> Tiles<'a, T> {
        assert!(matrices.is_disjoint_within(buffer.len()), "{matrices:?} in {} elements", buffer.len());
        let covers = |cut: Cut, count: usize| cut.parts() > 0 && cut.range(cut.parts() - 1).end == count;
        assert!(covers(grid.rows, matrices.rows) && covers(grid.cols, matrices.cols), "{grid:?} of {matrices:?}");
        Tiles { base: buffer.as_mut_ptr(), matrices, grid, owner: PhantomData }
    }

    /// Number of tiles.
    pub fn count(&self) -> usize {
        let m = &self.matrices;
        if m.rows == 0 || m.cols == 0 { 0 } else { m.batches * self.grid.tiles() }
    }

    /// Calls `work` with every tile, and with this thread's share of `scratch`, exclusive until `work` returns. `cost`
    /// is that of all tiles together, in multiply-adds.
    pub fn share(
        self,
        threads: &Threads,
        cost: usize,
        scratch: &mut [f32],
        work: impl Fn(&mut Tile<T>, &mut [f32]) + Sync,
    ) where
        T: Send,
    {
        let own = PerThread::new(threads, scratch);
        threads.share(self.count(), cost, |index| {
            // SAFETY: `share` passes every number below the count once.
            let mut tile = unsafe { self.tile(index) };
            own.with(|scratch| work(&mut tile, scratch));
        });
    }

    /// The tile at `index`, in the order of batches, rows, columns.
    ///
    /// # Safety
    /// The tile must exist and be requested only once.
    unsafe fn tile(&self, index: usize) -> Tile<'_, T> {
        let (m, across) = (&self.matrices, self.grid.cols.parts());
        let (batch, index) = (index / self.grid.tiles(), index % self.grid.tiles());
        let (rows, cols) = (self.grid.rows.range(index / across), self.grid.cols.range(index % across));
        let offset = batch * m.batch_stride + rows.start * m.row_stride + cols.start;
        // SAFETY: `new` checked that every element of the matrices is in the buffer.
        let base = unsafe { self.base.add(offset) };
        Tile { base, offset, row_stride: m.row_stride, batch, rows, cols, owner: PhantomData }
    }
}

/// A part of one matrix, owned by the holder.
pub struct Tile<'a, T> {
    base: *mut T,
    offset: usize,
    row_stride: usize,
    /// The matrix.
    pub batch: usize,
    /// The rows in that matrix.
    pub rows: Range<usize>,
    /// The columns in that matrix.
    pub cols: Range<usize>,
    owner: PhantomData<&'a mut [T]>,
}

impl<'a, T> Tile<'a, T> {
    /// All of `buffer` as a tile of `rows` by `cols`.
    ///
    /// # Panics
    /// If the buffer is too short.
    pub fn whole(buffer: &'a mut [T], rows: usize, cols: usize) -> Tile<'a, T> {
        assert!(rows.checked_mul(cols).is_some_and(|wanted| wanted <= buffer.len()));
        let base = buffer.as_mut_ptr();
        Tile { base, offset: 0, row_stride: cols, batch: 0, rows: 0..rows, cols: 0..cols, owner: PhantomData }
    }

    /// Row `row` of the tile, counted from its top.
    #[inline]
    pub fn row(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows.len());
        // SAFETY: the tile owns `cols.len()` elements from the start of each of its rows.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(row * self.row_stride), self.cols.len()) }
    }

    /// The elements row by row, or all at once if rows are contiguous. Each run comes with the position of its first
    /// element in the buffer that was cut into tiles.
    pub fn runs(&mut self) -> impl Iterator<Item = (usize, &mut [T])> {
        let (rows, cols) = (self.rows.len(), self.cols.len());
        let (count, len) = if self.row_stride == cols { (1, rows * cols) } else { (rows, cols) };
        (0..count).map(move |run| {
            // SAFETY: the tile owns `cols` elements from the start of each of its rows, and is borrowed mutably; each
            // run is returned once.
            let elements = unsafe { std::slice::from_raw_parts_mut(self.base.add(run * self.row_stride), len) };
            (self.offset + run * self.row_stride, elements)
        })
    }

    /// The start of row `row` of the tile, counted from its top, in the buffer that was cut into tiles.
    pub fn offset(&self, row: usize) -> usize {
        self.offset + row * self.row_stride
    }

    /// The first element, and the distance between rows in elements.
    pub(crate) fn as_mut_ptr(&mut self) -> (*mut T, usize) {
        (self.base, self.row_stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_every_element_once() {
        let cases = [
            Matrices { batches: 2, batch_stride: 35, rows: 5, row_stride: 7, cols: 7 },
            Matrices { batches: 3, batch_stride: 4, rows: 5, row_stride: 12, cols: 4 },
            Matrices { batches: 1, batch_stride: 0, rows: 9, row_stride: 11, cols: 3 },
            Matrices { batches: 0, batch_stride: 0, rows: 9, row_stride: 11, cols: 3 },
        ];
        for m in cases {
            for (rows, cols) in [(1, 1), (2, 3), (100, 100)] {
                let mut buffer = vec![0; 128];
                let grid = Grid { rows: Cut::at_most(m.rows, 1, rows), cols: Cut::at_most(m.cols, 1, cols) };
                let tiles = Tiles::new(&mut buffer, m, grid);
                for index in 0..tiles.count() {
                    // SAFETY: each tile is requested once.
                    let mut tile = unsafe { tiles.tile(index) };
                    for row in 0..tile.rows.len() {
                        let (b, r, c) = (tile.batch, tile.rows.start + row, tile.cols.start);
                        for (i, x) in tile.row(row).iter_mut().enumerate() {
                            *x += 1 + b * 10000 + r * 100 + c + i;
                        }
                    }
                }
                for b in 0..m.batches {
                    for r in 0..m.rows {
                        for c in 0..m.cols {
                            let at = b * m.batch_stride + r * m.row_stride + c;
                            assert_eq!(std::mem::take(&mut buffer[at]), 1 + b * 10000 + r * 100 + c);
                        }
                    }
                }
                assert!(buffer.iter().all(|&x| x == 0));
            }
        }
    }

    #[test]
    #[should_panic(expected = "in 20 elements")]
    fn overlapping_matrices_are_refused() {
        let matrices = Matrices { batches: 2, batch_stride: 3, rows: 2, row_stride: 4, cols: 4 };
        Tiles::new(&mut [0; 20], matrices, Grid::whole(2, 4));
    }
}
