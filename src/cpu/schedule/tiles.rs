//! Hands out disjoint parts of one buffer to threads, without locks, and without `unsafe` in callers. The tiles of
//! several products with the same rows can be [shared together](Together).

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
    /// Cuts all of `matrices` in `buffer` into the tiles of `grid`. If they are shared together with others, it is the
    /// grid of all of them.
    ///
    /// # Panics
    /// If the matrices overlap or exceed the buffer.
    pub fn new(buffer: &'a mut [T], matrices: Matrices, grid: Grid) -> Tiles<'a, T> {
        assert!(matrices.is_disjoint_within(buffer.len()), "{matrices:?} in {} elements", buffer.len());
        Tiles { base: buffer.as_mut_ptr(), matrices, grid, owner: PhantomData }
    }

    /// Calls `work` with every tile, and with this thread's share of `scratch`, exclusive until `work` returns. `cost`
    /// is that of all tiles together, in multiply-adds. All tiles are done when this returns.
    ///
    /// # Panics
    /// If the grid is not that of all matrices.
    pub fn share<'b>(
        self,
        beside: impl Into<Beside<'b>>,
        cost: usize,
        scratch: &mut [f32],
        work: impl Fn(&mut Tile<T>, &mut [f32]) + Sync,
    ) where
        T: Send,
    {
        let (beside, Tiles { matrices, grid, .. }) = (beside.into(), &self);
        let start = beside.start(grid.cols.unit());
        let Beside { threads, before, left, next } = beside;
        let own = PerThread::new(threads, scratch);
        let compute = |batch, rows, cols| {
            // SAFETY: `Together` asks for each part of the matrices once.
            let mut tile = unsafe { self.tile(batch, rows, cols) };
            own.with(|scratch| work(&mut tile, scratch));
        };
        let product = Neighbor {
            size: [matrices.batches, matrices.rows],
            grid: *grid,
            cols: start..start + matrices.cols,
            cost: cost.saturating_add(before.as_ref().map_or(0, |before| before.0.cost)),
            left,
            compute: &compute,
            before: before.map(|before| before.0),
        };
        match next {
            Some(next) => next(Some(Together(&product))),
            None => Together(&product).share(threads),
        }
    }

    /// A part of the matrix `batch`.
    ///
    /// # Safety
    /// No element of it may be requested again.
    unsafe fn tile(&self, batch: usize, rows: Range<usize>, cols: Range<usize>) -> Tile<'_, T> {
        let m = &self.matrices;
        assert!(batch < m.batches && rows.end <= m.rows && cols.end <= m.cols, "{batch}, {rows:?}, {cols:?} of {m:?}");
        let offset = batch * m.batch_stride + rows.start * m.row_stride + cols.start;
        // SAFETY: `new` checked that every element of the matrices is in the buffer.
        let base = unsafe { self.base.add(offset) };
        Tile { base, offset, row_stride: m.row_stride, batch, rows, cols, owner: PhantomData }
    }
}

/// The tiles of a product, and of those before it.
struct Neighbor<'a> {
    /// Number of matrices, and rows of each.
    size: [usize; 2],
    /// The grid of the columns of all products, which begin at multiples of its unit.
    grid: Grid,
    /// The own columns among those of all.
    cols: Range<usize>,
    /// The cost of all.
    cost: usize,
    left: &'a [f32],
    /// Computes these rows and columns of a matrix.
    compute: &'a (dyn Fn(usize, Range<usize>, Range<usize>) + Sync),
    before: Option<&'a Neighbor<'a>>,
}

/// The tiles of products with the same rows, for one section of the threads. Their columns are cut together, as if they
/// were side by side in one matrix: every thread gets its share of all of them, even of products that are too small to
/// be shared.
///
/// A list on the stack: each product adds itself and hands the list to the [next](Beside::new) one. It is not `Clone`, and
/// tiles are handed out once.
pub struct Together<'a>(&'a Neighbor<'a>);

impl Together<'_> {
    /// Computes all tiles.
    ///
    /// # Panics
    /// If the grid of the last product is not that of all products, or these have different numbers of rows.
    pub fn share(self, threads: &Threads) {
        let (Neighbor { size: [batches, rows], grid, cols, cost, .. }, last) = (self.0, self.0);
        let covers = |cut: Cut, count: usize| cut.parts() > 0 && cut.range(cut.parts() - 1).end == count;
        assert!(covers(grid.rows, *rows) && covers(grid.cols, cols.end), "{grid:?} of {rows} rows, {cols:?}");
        let all = || std::iter::successors(Some(last), |product| product.before);
        let fits = |one: &Neighbor| one.size == last.size && one.cols.start.is_multiple_of(grid.cols.unit());
        assert!(all().all(fits), "products with different rows");
        let (tiles, across) = (grid.tiles(), grid.cols.parts());
        let count = if *rows == 0 || cols.end == 0 { 0 } else { batches * tiles };
        threads.share(count, *cost, |index| {
            let (batch, index) = (index / tiles, index % tiles);
            let (rows, cols) = (grid.rows.range(index / across), grid.cols.range(index % across));
            last.compute(batch, &rows, &cols);
        });
    }
}

impl Neighbor<'_> {
    /// Computes these rows and columns; the first columns may belong to the products before. Products are computed in the
    /// order in which they were added: the weights of the next one often follow in memory, and are then prefetched.
    fn compute(&self, batch: usize, rows: &Range<usize>, cols: &Range<usize>) {
        let (own, part) = (&self.cols, cols.start.max(self.cols.start)..cols.end.min(self.cols.end));
        if let Some(before) = self.before.filter(|_| cols.start < own.start) {
            before.compute(batch, rows, cols);
        }
        if !part.is_empty() {
            (self.compute)(batch, rows.clone(), part.start - own.start..part.end - own.start);
        }
    }
}

/// Takes the products so far, adds others, and shares all of them.
type Next<'a> = dyn FnMut(Option<Together>) + 'a;

/// With what the tiles of a product are shared.
pub struct Beside<'a> {
    /// The threads.
    pub threads: &'a Threads,
    /// The products before this one.
    before: Option<Together<'a>>,
    /// The left operand as the products multiply it, for those after this one.
    left: &'a [f32],
    /// Continues with the products after this one; `None` if it is the only one.
    next: Option<&'a mut Next<'a>>,
}

impl<'a> From<&'a Threads> for Beside<'a> {
    fn from(threads: &'a Threads) -> Beside<'a> {
        Beside { threads, before: None, left: &[], next: None }
    }
}

impl<'a> Beside<'a> {
    /// Shares the tiles of a product together with those `before`, and with those that `next` adds.
    pub fn new(threads: &'a Threads, before: Option<Together<'a>>, next: &'a mut Next<'a>) -> Beside<'a> {
        Beside { before, next: Some(next), ..Beside::from(threads) }
    }

    /// Adds nothing.
    pub fn pass(self) {
        if let Some(next) = self.next {
            next(self.before);
        }
    }

    /// Where the columns of this product start among those of all, in a grid with this unit.
    pub fn start(&self, unit: usize) -> usize {
        self.before.as_ref().map_or(0, |before| before.0.cols.end.next_multiple_of(unit))
    }

    /// Hands the left operand, as this product multiplies it, to those after it.
    pub fn with_left<'b>(self, left: &'b [f32]) -> Beside<'b>
    where
        'a: 'b,
    {
        let next = self.next.map(|next| next as &mut Next<'b>);
        Beside { threads: self.threads, before: self.before, left, next }
    }

    /// The left operand as the products before this one multiply it; `None` if this is the first one.
    pub fn prepared(&self) -> Option<&'a [f32]> {
        self.before.as_ref().map(|before| before.0.left)
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

impl<T> Tile<'_, T> {
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
        let threads = Threads::new(2).unwrap();
        for m in cases {
            for (rows, cols) in [(1, 1), (2, 3), (100, 100)] {
                let mut buffer = vec![0; 128];
                let grid = Grid { rows: Cut::at_most(m.rows, 1, rows), cols: Cut::at_most(m.cols, 1, cols) };
                Tiles::new(&mut buffer, m, grid).share(&threads, 1 << 20, &mut [], |tile, _| {
                    for row in 0..tile.rows.len() {
                        let (b, r, c) = (tile.batch, tile.rows.start + row, tile.cols.start);
                        for (i, x) in tile.row(row).iter_mut().enumerate() {
                            *x += 1 + b * 10000 + r * 100 + c + i;
                        }
                    }
                });
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
