//! The micro-kernel for left operands that are copied rather than transposed: rows whose elements are contiguous in the
//! depth, such as the channels of pixels with channels last.
//!
//! Rows are cut into blocks of about equal height, so that none wastes much of a register tile. A block is
//! `[depth / LANES][row][LANES]`: whole vectors are copied into it, and the micro-kernel reads it front to back.

use super::frame::panel_widths;
use crate::cpu::simd::{Isa, Kernel, Simd};
use std::ops::Range;

/// Vectors per row of the register tile: the panels of the right operand are as wide.
const VECTORS: usize = 2;

/// How rows are cut into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowBlocks {
    /// Number of rows.
    pub rows: usize,
    /// Rows of a block; the last one may have fewer.
    height: usize,
}

impl RowBlocks {
    /// Cuts `rows` rows for a level: 49 of them into four blocks of ten and one of nine where twelve fit.
    pub fn new(isa: Isa, rows: usize) -> RowBlocks {
        let blocks = rows.div_ceil(panel_widths(isa).rows).max(1);
        RowBlocks { rows, height: rows.div_ceil(blocks).max(1) }
    }

    /// The rows of all blocks in order.
    pub fn blocks(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.rows).step_by(self.height).map(move |start| start..(start + self.height).min(self.rows))
    }

    /// Where vector `vector` of row `row` starts, in floats, when every row has `vectors` vectors of `lanes` floats.
    #[inline(always)]
    pub fn place(self, row: usize, vector: usize, vectors: usize, lanes: usize) -> usize {
        let first = row / self.height * self.height;
        let height = self.height.min(self.rows - first);
        ((first * vectors) + vector * height + row - first) * lanes
    }
}

/// The product of all rows and one panel of columns: `out[row][col] (+)= sum over k of a[row][k] * b[k][col]`.
///
/// Every sum is in order of the depth, whatever rows it is computed with.
pub struct Multiply<'a> {
    /// The rows of `a`.
    pub rows: RowBlocks,
    /// The blocks one after the other.
    pub a: &'a [f32],
    /// `[depth][columns of a panel]`
    pub b: &'a [f32],
    /// Elements of each row that are multiplied.
    pub depth: usize,
    /// Floats for all rows at `stride`, `cols` in each, which the one who makes this value guarantees to be writable.
    pub out: *mut f32,
    /// Distance between the rows of `out`.
    pub stride: usize,
    /// Columns that are stored.
    pub cols: usize,
    /// What the sums start with.
    pub start: Start<'a>,
}

/// What sums start with.
#[derive(Clone, Copy)]
pub enum Start<'a> {
    /// With 0.
    Zero,
    /// With one number for each column of a panel.
    Bias(&'a [f32]),
    /// With 0; they are added to what is in the output.
    Accumulate,
}

impl Kernel for Multiply<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        if self.cols > S::LANES { self.all::<S, VECTORS>(simd) } else { self.all::<S, 1>(simd) }
    }
}

impl Multiply<'_> {
    #[inline(always)]
    fn all<S: Simd, const VECS: usize>(self, simd: S) {
        let padded = self.depth.next_multiple_of(S::LANES);
        assert!(self.a.len() >= self.rows.rows * padded);
        assert!(self.b.len() >= self.depth * VECTORS * S::LANES && self.cols <= VECTORS * S::LANES);
        // What follows the panel is most often needed next, and may be far away: two lines for each depth. The first block
        // has this panel to wait for.
        let lines = self.b.as_ptr().wrapping_add(self.depth * VECTORS * S::LANES);
        let first = (self.rows.rows > self.rows.height) as usize;
        for (index, block) in self.rows.blocks().enumerate() {
            let ahead = match index.wrapping_sub(first) {
                part @ 0..VECTORS => lines.wrapping_add(part * self.depth * S::LANES),
                _ => self.b.as_ptr(),
            };
            let a = self.a[block.start * padded..].as_ptr();
            // SAFETY: the block is in the rows that can be written.
            let out = unsafe { self.out.add(block.start * self.stride) };
            macro_rules! rows {
                ($($rows:literal)*) => {
                    match block.len() {
                        // SAFETY: the lengths of `a` and `b` were checked above, and the rows can be written.
                        $($rows if $rows <= S::REGISTERS * 3 / 8 => unsafe {
                            self.tile::<S, $rows, VECS>(simd, a, out, ahead)
                        },)*
                        _ => unreachable!("blocks are not higher than the register tile"),
                    }
                };
            }
            rows!(12 11 10 9 8 7 6 5 4 3 2 1);
        }
    }

    /// Also asks for one vector at `ahead` for each depth.
    ///
    /// # Safety
    /// `a` holds a block of `ROWS` rows and `b` `depth` rows of a panel; `out` can be written for `ROWS` rows of `cols`
    /// floats.
    #[inline(always)]
    unsafe fn tile<S: Simd, const ROWS: usize, const VECS: usize>(
        &self,
        simd: S,
        a: *const f32,
        out: *mut f32,
        ahead: *const f32,
    ) {
        let mut first = [simd.splat(0.0); VECS];
        if let Start::Bias(bias) = self.start {
            for (v, first) in first.iter_mut().enumerate() {
                *first = simd.load(&bias[v * S::LANES..]);
            }
        }
        let mut sums = [first; ROWS];
        let accumulate = matches!(self.start, Start::Accumulate);
        let (mut a, mut b, mut ahead, mut left) = (a, self.b.as_ptr(), ahead, self.depth);
        while left > 0 {
            let depth = left.min(S::LANES);
            for k in 0..depth {
                simd.prefetch_l2(ahead);
                ahead = ahead.wrapping_add(S::LANES);
                // SAFETY: the contract covers all reads at this depth; the pointers end at most one step beyond the last
                // one, and wrapping arithmetic is fine with that.
                unsafe {
                    let mut columns = [simd.splat(0.0); VECS];
                    for (v, column) in columns.iter_mut().enumerate() {
                        *column = simd.load_ptr(b.add(v * S::LANES));
                    }
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let factor = simd.splat(*a.add(row * S::LANES + k));
                        for (sum, &column) in sums.iter_mut().zip(&columns) {
                            *sum = simd.mul_add(factor, column, *sum);
                        }
                    }
                }
                b = b.wrapping_add(VECTORS * S::LANES);
            }
            a = a.wrapping_add(ROWS * S::LANES);
            left -= depth;
        }
        for (row, sums) in sums.into_iter().enumerate() {
            // SAFETY: the row can be written by the contract.
            let out = unsafe { std::slice::from_raw_parts_mut(out.add(row * self.stride), self.cols) };
            for (v, sum) in sums.into_iter().enumerate() {
                let out = &mut out[v * S::LANES..];
                if out.len() >= S::LANES {
                    let sum = if accumulate { simd.add(simd.load(out), sum) } else { sum };
                    simd.store(sum, out);
                } else {
                    let sum = if accumulate { simd.add(simd.load_partial(out), sum) } else { sum };
                    simd.store_partial(sum, out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_even_and_cover_all_rows() {
        for isa in Isa::available() {
            for rows in 0..60 {
                let blocks: Vec<_> = RowBlocks::new(isa, rows).blocks().collect();
                assert_eq!(blocks.iter().map(|block| block.len()).sum::<usize>(), rows);
                assert_eq!(blocks.len(), rows.div_ceil(panel_widths(isa).rows));
                assert!(blocks.iter().all(|block| block.len() <= panel_widths(isa).rows));
            }
        }
    }

    /// Small integers, so that sums are exact in any order.
    #[test]
    fn every_block_height_is_exact_and_stays_in_its_columns() {
        for isa in Isa::available() {
            let (lanes, width) = (isa.lanes(), panel_widths(isa).cols);
            for rows in 1..=panel_widths(isa).rows + 2 {
                for (cols, depth) in [(1, 1), (lanes, lanes + 3), (lanes + 1, 5), (width, 2 * lanes)] {
                    let blocks = RowBlocks::new(isa, rows);
                    let vectors = depth.div_ceil(lanes);
                    let value = |row: usize, k: usize| ((row * 3 + k * 5) % 7) as f32 - 3.0;
                    let mut a = vec![f32::NAN; rows * vectors * lanes];
                    for (row, k) in (0..rows).flat_map(|row| (0..depth).map(move |k| (row, k))) {
                        a[blocks.place(row, k / lanes, vectors, lanes) + k % lanes] = value(row, k);
                    }
                    let b: Vec<f32> = (0..depth * width).map(|i| (i % 5) as f32 - 2.0).collect();
                    let stride = width + 3;
                    let mut out = vec![1.0; rows * stride];
                    let bias: Vec<f32> = (0..width).map(|col| col as f32).collect();
                    for start in [Start::Zero, Start::Bias(&bias), Start::Accumulate] {
                        let out = out.as_mut_ptr();
                        isa.run(Multiply { rows: blocks, a: &a, b: &b, depth, out, stride, cols, start });
                    }
                    for (i, &x) in out.iter().enumerate() {
                        let (row, col) = (i / stride, i % stride);
                        let sum: f32 = (0..depth).map(|k| 2.0 * value(row, k) * b[k * width + col % width]).sum();
                        assert_eq!(
                            x,
                            if col < cols { sum + col as f32 } else { 1.0 },
                            "{isa:?}, {rows} rows, {row}, {col}"
                        );
                    }
                }
            }
        }
    }
}
