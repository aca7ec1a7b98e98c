//! The loops around the register tile: depth blocks, then panels of columns.
//!
//! `out[row][col] = clamp(alpha * sum_k a[row][k] * b[k][col] + beta * addend[row][col] + residual[row][col])`, then
//! `finish`. All but the last operation run in the registers that hold the sums.
//!
//! Every element is summed over the depth blocks in order, and over the depth in order within a block, whatever tile it
//! belongs to. Any split of rows, and of columns at panel boundaries, therefore produces the same bits.

use super::columns::Columns;
use super::finish::{InRegisters, ProductEpilogue};
use super::panel_data::PanelData;
use super::panels::{depth_block, depth_blocks};
use super::rows::{Rows, copied_len};
use super::tile::{MAX_PANELS, Multiply, Panel, Place, multiply, panels_at_once, tile_size};
use crate::cpu::costs::MULTIPLY_ADD;
use crate::cpu::schedule::partition::{Grid, Shape, partition};
use crate::cpu::schedule::tiles::Tile;
use crate::cpu::simd::Isa;
use std::ops::Range;

/// Maximum rows of a tile: 240 rows by 256 depths are 240 KiB, a share of the second-level cache that leaves room for
/// the output. All of them are multiplied with a panel of columns while it is in the first-level cache.
const MAX_ROWS: usize = 240;

/// Maximum columns of a tile: enough to make copying the rows a small share of the work.
const MAX_COLS: usize = 1024;

/// Maximum elements of a tile whose results are read again before they are complete: 240 KiB of the second-level cache.
const MAX_FINISHED: usize = 240 << 8;

/// The properties of a product that determine its tiles.
#[derive(Clone, Copy, Debug)]
pub struct Cutting {
    /// Number of products.
    pub batches: usize,
    /// Rows, columns and depth of each product.
    pub size: [usize; 3],
    /// Whether rows are copied before the multiplication.
    pub copies_rows: bool,
    /// Whether columns are packed before the multiplication.
    pub packs_columns: bool,
    /// Whether results are read again, by operations that finish them.
    pub rereads: bool,
}

impl Cutting {
    /// The tiles for `threads` threads.
    pub fn grid(&self, isa: Isa, threads: usize) -> Grid {
        partition(&self.shape(isa), threads)
    }

    /// The product as it is cut into tiles.
    pub fn shape(&self, isa: Isa) -> Shape {
        let tile = tile_size(isa);
        Shape {
            batches: self.batches,
            size: self.size,
            tile: [tile.rows, tile.cols],
            unit: 1,
            most: [MAX_ROWS, MAX_COLS],
            area: if self.rereads { MAX_FINISHED } else { MAX_ROWS * MAX_COLS },
            finishes: self.rereads,
            multiply_add: MULTIPLY_ADD,
            // Copied elements are read, written and read again.
            left_bytes: if self.copies_rows { 12 } else { 4 },
            right_bytes: if self.packs_columns { 12 } else { 4 },
        }
    }

    /// Scratch length in floats that [`Product::compute`] needs for a tile of `grid`.
    pub fn scratch_len(&self, isa: Isa, grid: &Grid) -> usize {
        let block = depth_block(self.size[2]);
        let left = if self.copies_rows { copied_len(grid.largest()[0], block) } else { 0 };
        (left + MAX_PANELS * tile_size(isa).cols * block).next_multiple_of(16)
    }
}

/// A product of two operands; its tiles can be computed separately.
pub struct Product<'a> {
    /// The instruction set that panels were packed for.
    pub isa: Isa,
    /// Elements per row.
    pub depth: usize,
    /// The left operand.
    pub rows: Rows<'a>,
    /// The right operand.
    pub columns: Columns<'a>,
}

impl Product<'_> {
    /// Computes one tile of the output, which starts at a panel of the columns. Needs [`Cutting::scratch_len`] floats.
    ///
    /// # Panics
    /// If the scratch memory is too short, or an operand is shorter than its sizes.
    pub fn compute(&self, tile: &mut Tile<f32>, epilogue: &ProductEpilogue, scratch: &mut [f32]) {
        let (rows, cols, offset) = (tile.rows.clone(), tile.cols.clone(), tile.offset(0));
        if self.depth == 0 {
            for row in 0..rows.len() {
                tile.row(row).fill(0.0);
                epilogue.apply(self.isa, [rows.start + row, cols.start], tile.offset(row), tile.row(row));
            }
            return;
        }
        let (base, stride) = tile.as_mut_ptr();
        let finish = RegisterFinish { ops: epilogue.in_registers(), offset, stride };
        // SAFETY: the tile owns its rows of `cols.len()` elements each.
        unsafe { self.sum(&rows, &cols, base, stride, Some(finish), scratch) };
        let Some(finish) = epilogue.tail.finish else { return };
        tile.runs().for_each(|(offset, run)| finish(offset, run));
    }

    /// Computes the bare sums of `rows` by `cols`, row-major into `sums`.
    ///
    /// # Panics
    /// If `sums` is too short.
    pub fn sums(&self, rows: Range<usize>, cols: Range<usize>, sums: &mut [f32], scratch: &mut [f32]) {
        let stride = cols.len();
        assert!(sums.len() >= rows.len() * stride);
        if self.depth == 0 {
            return sums[..rows.len() * stride].fill(0.0);
        }
        // SAFETY: the slice was just checked to hold `rows.len()` rows of `stride` floats.
        unsafe { self.sum(&rows, &cols, sums.as_mut_ptr(), stride, None, scratch) };
    }

    /// Computes the bare sums of `rows` by `cols` over one block of [`depth_blocks`], row-major into `sums`. The sums of
    /// all blocks, added in their order, have the bits of [`sums`](Self::sums).
    ///
    /// # Panics
    /// If `sums` is too short.
    pub fn block_sums(
        &self,
        rows: Range<usize>,
        cols: Range<usize>,
        depth: Range<usize>,
        sums: &mut [f32],
        scratch: &mut [f32],
    ) {
        assert!(sums.len() >= rows.len() * cols.len());
        let output = Output { first: sums.as_mut_ptr(), stride: cols.len(), accumulate: false, finish: None };
        // SAFETY: the slice was just checked to hold `rows.len()` rows of `cols.len()` floats.
        unsafe { self.sum_block(&rows, &cols, depth, output, scratch) };
    }

    /// Writes the sums of a tile to `out`, with rows `stride` floats apart.
    ///
    /// # Safety
    /// `out` must be valid for reads and writes of `cols.len()` floats at the start of each of `rows.len()` rows, and
    /// no other code may access them meanwhile.
    unsafe fn sum(
        &self,
        rows: &Range<usize>,
        cols: &Range<usize>,
        out: *mut f32,
        stride: usize,
        finish: Option<RegisterFinish>,
        scratch: &mut [f32],
    ) {
        for depth in depth_blocks(self.depth) {
            let finish = finish.filter(|_| depth.end == self.depth);
            let output = Output { first: out, stride, accumulate: depth.start > 0, finish };
            // SAFETY: the caller guarantees the rows and columns.
            unsafe { self.sum_block(rows, cols, depth, output, scratch) };
        }
    }

    /// Writes or adds the sums over one depth block of a tile to `output`.
    ///
    /// # Safety
    /// As for [`sum`](Self::sum).
    unsafe fn sum_block(
        &self,
        rows: &Range<usize>,
        cols: &Range<usize>,
        depth: Range<usize>,
        Output { first: out, stride, accumulate, finish }: Output,
        scratch: &mut [f32],
    ) {
        let size = tile_size(self.isa);
        let group = panels_at_once(rows.len());
        let (for_columns, for_rows) = scratch.split_at_mut(MAX_PANELS * size.cols * depth_block(self.depth));
        let left = self.rows.block(self.isa, rows.clone(), depth.clone(), for_rows);
        for first in cols.clone().step_by(group * size.cols) {
            let mut panels = [Panel { data: PanelData::F32(&[]), step: 0, next: 0 }; MAX_PANELS];
            let own = first..(first + group * size.cols).min(cols.end);
            let count = own.len().div_ceil(size.cols);
            let next = match (own.end < cols.end, depth.end == self.depth) {
                (true, _) => [own.end, depth.start],
                (false, false) => [cols.start, depth.end],
                // The same thread often computes the next columns.
                (false, true) => [cols.end, 0],
            };
            let rooms = for_columns.chunks_exact_mut(size.cols * depth_block(self.depth));
            for ((index, panel), room) in panels[..count].iter_mut().enumerate().zip(rooms) {
                let part = own.start + index * size.cols..own.end.min(own.start + (index + 1) * size.cols);
                let next = [next[0] + index * size.cols, next[1]];
                *panel = self.columns.panel(self.isa, [part, depth.clone()], next, rows.len(), room);
            }
            let column = first - cols.start;
            let place = |RegisterFinish { ops, offset, stride }| Place {
                ops,
                at: [rows.start, first],
                offset: offset + column,
                stride,
            };
            let product = Multiply {
                left,
                rows: rows.len(),
                panels: &panels[..count],
                cols: own.len(),
                depth: depth.len(),
                // SAFETY: the columns are among the writable ones.
                out: unsafe { out.add(column) },
                stride,
                panel_stride: size.cols,
                accumulate,
                finish: finish.map(place),
            };
            // SAFETY: the caller guarantees the rows and columns.
            unsafe { multiply(self.isa, product) };
        }
    }
}

/// Where the sums over a depth block go.
struct Output<'a> {
    first: *mut f32,
    /// Distance between rows, in floats.
    stride: usize,
    /// Whether to add them to the sums over the previous blocks.
    accumulate: bool,
    /// The operations on complete sums.
    finish: Option<RegisterFinish<'a>>,
}

/// The operations on the sums of a tile in registers, and the position of its rows in the whole output.
#[derive(Clone, Copy)]
struct RegisterFinish<'a> {
    ops: InRegisters<'a>,
    offset: usize,
    stride: usize,
}

#[cfg(test)]
mod tests {
    use super::super::finish::Tail;
    use super::super::matrix::{Matrix, StridedMatrix};
    use super::*;
    use crate::cpu::kernels::float::Floats;
    use crate::cpu::schedule::pool::Threads;
    use crate::cpu::schedule::tiles::{Matrices, Tiles};

    /// Small integers: sums are exact in any order.
    fn integers(len: usize, factor: usize) -> Vec<f32> {
        (0..len).map(|i| (i * factor % 7) as f32 - 3.0).collect()
    }

    #[test]
    fn every_tile_size_is_exact_and_stays_in_its_tile() {
        let depth = 5;
        let threads = Threads::new(1).unwrap();
        for isa in Isa::available() {
            let size = tile_size(isa);
            for rows in 1..=size.rows + 1 {
                for cols in [1, 2, size.cols / 2, size.cols / 2 + 1, size.cols - 1, size.cols, size.cols + 3] {
                    let (a, b) = (integers(rows * depth, 3), integers(depth * cols, 5));
                    let product = Product {
                        isa,
                        depth,
                        rows: Rows::Matrix(Matrix::Strided(StridedMatrix {
                            data: Floats::F32(&a),
                            lane_stride: depth,
                            depth_stride: 1,
                        })),
                        columns: Columns::Matrix(Matrix::Strided(StridedMatrix {
                            data: Floats::F32(&b),
                            lane_stride: 1,
                            depth_stride: cols,
                        })),
                    };
                    let stride = cols + 3;
                    let mut out = vec![99.0f32; rows * stride];
                    let matrices = Matrices { batches: 1, batch_stride: 0, rows, row_stride: stride, cols };
                    let cutting = Cutting {
                        batches: 1,
                        size: [rows, cols, depth],
                        copies_rows: false,
                        packs_columns: true,
                        rereads: false,
                    };
                    let grid = cutting.grid(isa, 1);
                    let tiles = Tiles::new(&mut out, matrices, grid);
                    let mut scratch = vec![f32::NAN; cutting.scratch_len(isa, &grid)];
                    let epilogue = ProductEpilogue { alpha: 2.0, addend: None, tail: Tail::NONE };
                    tiles.share(&threads, 0, &mut scratch, |tile, scratch| product.compute(tile, &epilogue, scratch));
                    for (i, &x) in out.iter().enumerate() {
                        let (row, col) = (i / stride, i % stride);
                        let sum: f32 = if col < cols {
                            (0..depth).map(|k| 2.0 * a[row * depth + k] * b[k * cols + col]).sum()
                        } else {
                            99.0
                        };
                        assert_eq!(x, sum, "{isa:?}, {rows} x {cols}, row {row}, column {col}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_product_without_depth_is_zero() {
        for isa in Isa::available() {
            let empty = StridedMatrix { data: Floats::F32(&[0.0; 8]), lane_stride: 1, depth_stride: 1 };
            let mut sums = [f32::NAN; 6];
            let product = Product {
                isa,
                depth: 0,
                rows: Rows::Matrix(Matrix::Strided(empty)),
                columns: Columns::Matrix(Matrix::Strided(empty)),
            };
            product.sums(0..2, 0..3, &mut sums, &mut []);
            assert_eq!(sums, [0.0; 6]);
        }
    }
}
