//! Matrix product: the register-tiled micro-kernel and the blocking around it.
//!
//! `out[row][col] = alpha * sum_k a[row][k] * b[k][col] + beta * addend[row][col]`, then `finish`.
//!
//! Every element is summed over the depth blocks in order, and within a block in order of the depth, whatever
//! tile it lies in. So any split of rows and columns on panel borders gives the same bits.

use super::float::{Float, narrow};
use super::pack::{Operand, Strided, depth_block, depth_blocks};
use super::tiles::Tile;
use crate::cpu::simd::{Isa, Kernel, Simd};
use std::ops::Range;

/// Vectors per row of the micro-kernel.
const VECTORS: usize = 2;

/// Rows of the left operand that are multiplied with one panel of the right one after the other: a block of
/// 240 rows by 256 is 240 KiB, a share of the second-level cache that leaves room for the output.
const ROW_BLOCK: usize = 240;

/// The panel widths of a level: rows and columns of the micro-kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PanelWidths {
    /// Rows of the left operand.
    pub rows: usize,
    /// Columns of the right operand.
    pub cols: usize,
}

/// Rows of the micro-kernel: accumulators for all rows, the vectors of the right operand and a temporary must
/// fit the registers. 12 by 2 of 32 registers keep two multiply-add units busy for their latency.
const fn panel_rows(registers: usize, lanes: usize) -> usize {
    match (registers, lanes) {
        (32, _) => 12,
        (_, 8) => 6,
        // Without a fused multiply-add the products need registers as well.
        _ => 4,
    }
}

/// The panel widths that the products of `isa` read.
pub fn panel_widths(isa: Isa) -> PanelWidths {
    struct Widths;
    impl Kernel for Widths {
        type Output = PanelWidths;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> PanelWidths {
            PanelWidths { rows: panel_rows(S::REGISTERS, S::LANES), cols: VECTORS * S::LANES }
        }
    }
    isa.run(Widths)
}

/// What is added to the product: `beta * data[row * row_stride + col * col_stride]`. Stride 0 broadcasts.
#[derive(Clone, Copy)]
pub struct Addend<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// Distance between rows, in elements.
    pub row_stride: usize,
    /// Distance between columns, in elements.
    pub col_stride: usize,
    /// The factor.
    pub beta: f32,
}

/// Called once for each finished contiguous run of outputs, in `f32`, while it is in cache.
pub type Finish<'a> = Option<&'a (dyn Fn(&mut [f32]) + Sync)>;

/// What happens to the sums before they are stored.
pub struct Epilogue<'a, T> {
    /// The factor of the product.
    pub alpha: f32,
    /// What is added.
    pub addend: Option<Addend<'a, T>>,
    /// What is applied last.
    pub finish: Finish<'a>,
}

impl<T: Float> Epilogue<'_, T> {
    /// Applies this to the elements of row `row` from column `col` on.
    pub fn apply(&self, isa: Isa, row: usize, col: usize, sums: &mut [f32]) {
        if self.alpha != 1.0 || self.addend.is_some() {
            isa.run(Affine { alpha: self.alpha, addend: &self.addend, row, col, sums });
        }
        if let Some(finish) = self.finish {
            finish(sums);
        }
    }
}

struct Affine<'a, T> {
    alpha: f32,
    addend: &'a Option<Addend<'a, T>>,
    row: usize,
    col: usize,
    sums: &'a mut [f32],
}

impl<T: Float> Kernel for Affine<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Affine { alpha, addend, row, col, sums } = self;
        let Some(Addend { data, row_stride, col_stride, beta }) = *addend else {
            return sums.iter_mut().for_each(|x| *x *= alpha);
        };
        let data = &data[row * row_stride + col * col_stride..];
        match col_stride {
            0 => {
                let constant = beta * data[0].to_f32();
                sums.iter_mut().for_each(|x| *x = simd.mul_add_scalar(*x, alpha, constant));
            }
            1 => {
                for (x, c) in sums.iter_mut().zip(data) {
                    *x = simd.mul_add_scalar(*x, alpha, beta * c.to_f32());
                }
            }
            _ => {
                for (x, c) in sums.iter_mut().zip(data.iter().step_by(col_stride)) {
                    *x = simd.mul_add_scalar(*x, alpha, beta * c.to_f32());
                }
            }
        }
    }
}

/// A product of two operands, of which tiles can be computed.
pub struct Product<'a, T> {
    /// The level; packed operands were packed for it.
    pub isa: Isa,
    /// Elements per lane.
    pub depth: usize,
    /// The left operand; its lanes are rows.
    pub a: Operand<'a, T>,
    /// The right operand; its lanes are columns.
    pub b: Operand<'a, T>,
}

/// The scratch floats that [`Product::compute`] needs for a tile of `rows` by `cols`: packed blocks of the
/// operands that are not read in place, and the sums when they are not kept in the output itself.
pub fn tile_scratch<T: Float>(isa: Isa, rows: usize, cols: usize, depth: usize, packed: [bool; 2]) -> usize {
    let widths = panel_widths(isa);
    let in_place = T::IS_F32;
    let a = if packed[0] && in_place { 0 } else { rows.next_multiple_of(widths.rows) };
    let b = if packed[1] && in_place { 0 } else { cols.next_multiple_of(widths.cols) };
    (a + b) * depth_block(depth) + if in_place { 0 } else { rows * cols }
}

/// The lanes of scratch for an operand: none when its panels are read where they were packed.
fn scratch_lanes<T: Float>(operand: &Operand<T>, lanes: usize, width: usize) -> usize {
    match operand {
        Operand::Packed(_) if T::IS_F32 => 0,
        _ => lanes.next_multiple_of(width),
    }
}

impl<T: Float> Product<'_, T> {
    /// Computes one tile of the output. Needs [`tile_scratch`] floats.
    ///
    /// The tile starts at panel borders of packed operands.
    pub fn compute(&self, tile: &mut Tile<T>, epilogue: &Epilogue<T>, scratch: &mut [f32]) {
        let (rows, cols) = (tile.rows.clone(), tile.cols.clone());
        if T::IS_F32 {
            let (base, stride) = tile.as_mut_ptr();
            // SAFETY: `T` is `f32`, and the tile owns its rows of `cols.len()` elements each.
            unsafe { self.sum(base.cast(), stride, rows.clone(), cols.clone(), scratch) };
            for row in 0..rows.len() {
                if let Some(sums) = T::as_f32_mut(tile.row(row)) {
                    epilogue.apply(self.isa, rows.start + row, cols.start, sums);
                }
            }
            return;
        }
        let (sums, scratch) = scratch.split_at_mut(rows.len() * cols.len());
        self.sums(rows.clone(), cols.clone(), sums, scratch);
        for (row, sums) in sums.chunks_exact_mut(cols.len()).enumerate() {
            epilogue.apply(self.isa, rows.start + row, cols.start, sums);
            narrow(self.isa, sums, tile.row(row));
        }
    }

    /// The bare sums of `rows` by `cols`, row-major into `sums`.
    ///
    /// # Panics
    /// If `sums` is shorter.
    pub fn sums(&self, rows: Range<usize>, cols: Range<usize>, sums: &mut [f32], scratch: &mut [f32]) {
        let stride = cols.len();
        assert!(sums.len() >= rows.len() * stride);
        // SAFETY: the slice holds `rows.len()` rows of `stride` floats, just checked.
        unsafe { self.sum(sums.as_mut_ptr(), stride, rows, cols, scratch) }
    }

    /// Writes the sums of `rows` by `cols` to `out`, whose rows are `stride` floats apart.
    ///
    /// # Safety
    /// `out` must be valid for writes of `cols.len()` floats at the start of each of `rows.len()` rows.
    unsafe fn sum(&self, out: *mut f32, stride: usize, rows: Range<usize>, cols: Range<usize>, scratch: &mut [f32]) {
        let widths = panel_widths(self.isa);
        let block = depth_block(self.depth);
        let (for_a, scratch) = scratch.split_at_mut(scratch_lanes(&self.a, rows.len(), widths.rows) * block);
        let for_b = &mut scratch[..scratch_lanes(&self.b, cols.len(), widths.cols) * block];
        if self.depth == 0 {
            for row in 0..rows.len() {
                // SAFETY: the caller guarantees that the row can be written.
                unsafe { std::slice::from_raw_parts_mut(out.add(row * stride), cols.len()) }.fill(0.0);
            }
        }
        for depth in depth_blocks(self.depth) {
            let a = self.panels(&self.a, rows.clone(), depth.clone(), widths.rows, for_a);
            // Panels that are used once or twice are not worth packing when their rows are adjacent in memory.
            let raw = if rows.len() <= 2 * widths.rows { raw_rows(&self.b, &cols, &depth) } else { None };
            let full = cols.len() / widths.cols * widths.cols;
            let b = match raw {
                Some(_) if full == cols.len() => &[],
                Some(_) => self.panels(&self.b, cols.start + full..cols.end, depth.clone(), widths.cols, for_b),
                None => self.panels(&self.b, cols.clone(), depth.clone(), widths.cols, for_b),
            };
            for top in (0..rows.len()).step_by(ROW_BLOCK) {
                let height = ROW_BLOCK.min(rows.len() - top);
                for left in (0..cols.len()).step_by(widths.cols) {
                    let (panel, step) = match raw {
                        Some((data, step)) if left < full => (&data[left..], step),
                        Some(_) => (b, widths.cols),
                        None => (&b[left * depth.len()..], widths.cols),
                    };
                    self.isa.run(RowPanels {
                        a: &a[top * depth.len()..],
                        b: panel,
                        b_step: step,
                        depth: depth.len(),
                        // SAFETY: `top` and `left` lie inside of the tile that the caller guarantees.
                        out: unsafe { out.add(top * stride + left) },
                        stride,
                        rows: height,
                        cols: widths.cols.min(cols.len() - left),
                        accumulate: depth.start > 0,
                    });
                }
            }
        }
    }

    /// The panels of an operand: where they were packed, or packed into `scratch`.
    fn panels<'s>(
        &'s self,
        operand: &'s Operand<T>,
        lanes: Range<usize>,
        depth: Range<usize>,
        width: usize,
        scratch: &'s mut [f32],
    ) -> &'s [f32] {
        if let Operand::Packed(packed) = operand
            && let Some(panels) = T::as_f32(packed.panels(lanes.clone(), depth.clone()))
        {
            return panels;
        }
        let scratch = &mut scratch[..lanes.len().div_ceil(width) * width * depth.len()];
        operand.pack(self.isa, lanes, depth, width, scratch);
        scratch
    }
}

/// The elements of `lanes` from `depth` on and the distance between depths, when the lanes are adjacent `f32`.
fn raw_rows<'a, T: Float>(
    operand: &Operand<'a, T>,
    lanes: &Range<usize>,
    depth: &Range<usize>,
) -> Option<(&'a [f32], usize)> {
    match *operand {
        Operand::Strided(Strided { data, lane_stride: 1, depth_stride }) => {
            let data = T::as_f32(data)?;
            Some((&data[lanes.start + depth.start * depth_stride..], depth_stride))
        }
        _ => None,
    }
}

/// Panels of rows times one panel of columns.
struct RowPanels<'a> {
    /// Row panels, one after the other.
    a: &'a [f32],
    /// One column panel, `b_step` floats per depth.
    b: &'a [f32],
    b_step: usize,
    depth: usize,
    /// `rows` by `cols` floats at `stride`, which the one who makes this value guarantees to be writable.
    out: *mut f32,
    stride: usize,
    rows: usize,
    cols: usize,
    accumulate: bool,
}

impl Kernel for RowPanels<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        match panel_rows(S::REGISTERS, S::LANES) {
            12 => self.all::<S, 12>(simd),
            6 => self.all::<S, 6>(simd),
            _ => self.all::<S, 4>(simd),
        }
    }
}

impl RowPanels<'_> {
    #[inline(always)]
    fn all<S: Simd, const HEIGHT: usize>(self, simd: S) {
        if self.cols > S::LANES {
            self.panels::<S, HEIGHT, VECTORS>(simd);
        } else {
            self.panels::<S, HEIGHT, 1>(simd);
        }
    }

    #[inline(always)]
    fn panels<S: Simd, const HEIGHT: usize, const VECS: usize>(self, simd: S) {
        assert!(self.depth > 0 && self.a.len() >= self.rows.next_multiple_of(HEIGHT) * self.depth);
        assert!(self.b.len() >= (self.depth - 1) * self.b_step + self.cols);
        // Whole vectors are read: a packed panel is padded, a raw one is only passed when it is full.
        assert!(self.b.len() >= (self.depth - 1) * self.b_step + VECS * S::LANES);
        for top in (0..self.rows).step_by(HEIGHT) {
            let a = &self.a[top * self.depth..][..HEIGHT * self.depth];
            // SAFETY: the panel is in the rows that can be written.
            let out = unsafe { self.out.add(top * self.stride) };
            macro_rules! rows {
                ($($rows:literal)*) => {
                    match (self.rows - top).min(HEIGHT) {
                        // SAFETY: the lengths of `a` and `b` were checked above; the tile ends within the rows
                        // and columns that can be written. Heights above `HEIGHT` do not occur.
                        $($rows if $rows <= HEIGHT => unsafe { self.tile::<S, HEIGHT, $rows, VECS>(simd, a, out) },)*
                        _ => {}
                    }
                };
            }
            rows!(12 11 10 9 8 7 6 5 4 3 2 1);
        }
    }

    /// One register tile of `ROWS` rows and `VECS` vectors.
    ///
    /// # Safety
    /// `a` holds `depth * HEIGHT` floats and `ROWS <= HEIGHT`; `b` can be read `VECS` vectors from the start of
    /// each depth; `out` can be written for `ROWS` rows of `cols` floats.
    #[inline(always)]
    unsafe fn tile<S: Simd, const HEIGHT: usize, const ROWS: usize, const VECS: usize>(
        &self,
        simd: S,
        a: &[f32],
        out: *mut f32,
    ) {
        let mut sums = [[simd.splat(0.0); VECS]; ROWS];
        let (mut a, mut b) = (a.as_ptr(), self.b.as_ptr());
        for _ in 0..self.depth {
            // SAFETY: the function's contract covers all reads at this depth; the pointers end at most one step
            // beyond the last depth, and wrapping arithmetic is fine with that.
            unsafe {
                let mut columns = [simd.splat(0.0); VECS];
                for (v, column) in columns.iter_mut().enumerate() {
                    *column = simd.load_ptr(b.add(v * S::LANES));
                }
                for (row, sums) in sums.iter_mut().enumerate() {
                    let factor = simd.splat(*a.add(row));
                    for (sum, &column) in sums.iter_mut().zip(&columns) {
                        *sum = simd.mul_add(factor, column, *sum);
                    }
                }
            }
            a = a.wrapping_add(HEIGHT);
            b = b.wrapping_add(self.b_step);
        }
        for (row, sums) in sums.into_iter().enumerate() {
            // SAFETY: the row can be written by the function's contract.
            let out = unsafe { std::slice::from_raw_parts_mut(out.add(row * self.stride), self.cols) };
            for (v, sum) in sums.into_iter().enumerate() {
                let out = &mut out[v * S::LANES..];
                if out.len() >= S::LANES {
                    let sum = if self.accumulate { simd.add(simd.load(out), sum) } else { sum };
                    simd.store(sum, out);
                } else {
                    let sum = if self.accumulate { simd.add(simd.load_partial(out), sum) } else { sum };
                    simd.store_partial(sum, out);
                }
            }
        }
    }
}

/// `out[i] = sum_k vector[k] * lanes[i][k]` for lanes that are contiguous in the depth: one row times a
/// transposed matrix, read once. Each sum is in the order of [`Simd::sum`] over four strides.
pub fn dot_lanes<T: Float>(isa: Isa, vector: &[f32], lanes: &[T], lane_stride: usize, out: &mut [f32]) {
    isa.run(DotLanes { vector, lanes, lane_stride, out });
}

struct DotLanes<'a, T> {
    vector: &'a [f32],
    lanes: &'a [T],
    lane_stride: usize,
    out: &'a mut [f32],
}

impl<T: Float> Kernel for DotLanes<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        const UNROLL: usize = 4;
        let DotLanes { vector, lanes, lane_stride, out } = self;
        for (i, out) in out.iter_mut().enumerate() {
            let lane = &lanes[i * lane_stride..][..vector.len()];
            let mut sums = [simd.splat(0.0); UNROLL];
            let step = UNROLL * S::LANES;
            let body = vector.len() / step * step;
            for (x, y) in vector[..body].chunks_exact(step).zip(lane[..body].chunks_exact(step)) {
                for (v, sum) in sums.iter_mut().enumerate() {
                    let at = v * S::LANES..(v + 1) * S::LANES;
                    *sum = simd.mul_add(simd.load(&x[at.clone()]), T::load(simd, &y[at]), *sum);
                }
            }
            let sum = simd.add(simd.add(sums[0], sums[1]), simd.add(sums[2], sums[3]));
            let mut sum = simd.sum(sum);
            for (x, y) in vector[body..].iter().zip(&lane[body..]) {
                sum = simd.mul_add_scalar(*x, y.to_f32(), sum);
            }
            *out = sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::kernels::tiles::{Matrices, Tiles};

    /// Small integers, so that sums are exact in any order.
    fn integers(len: usize, factor: usize) -> Vec<f32> {
        (0..len).map(|i| (i * factor % 7) as f32 - 3.0).collect()
    }

    #[test]
    fn every_tile_size_is_exact_and_stays_in_its_tile() {
        let depth = 5;
        for isa in Isa::available() {
            let widths = panel_widths(isa);
            for rows in 1..=widths.rows + 1 {
                for cols in [1, 2, widths.cols / 2, widths.cols / 2 + 1, widths.cols - 1, widths.cols, widths.cols + 3]
                {
                    let (a, b) = (integers(rows * depth, 3), integers(depth * cols, 5));
                    let product = Product {
                        isa,
                        depth,
                        a: Operand::Strided(Strided { data: &a, lane_stride: depth, depth_stride: 1 }),
                        b: Operand::Strided(Strided { data: &b, lane_stride: 1, depth_stride: cols }),
                    };
                    let stride = cols + 3;
                    let mut out = vec![99.0; rows * stride];
                    let matrices = Matrices { batches: 1, batch_stride: 0, rows, row_stride: stride, cols };
                    let tiles = Tiles::new(&mut out, matrices, widths.rows, widths.cols);
                    let mut scratch = vec![f32::NAN; tile_scratch::<f32>(isa, rows, cols, depth, [false; 2])];
                    let epilogue = Epilogue { alpha: 2.0, addend: None, finish: None };
                    while let Some(mut tile) = tiles.take() {
                        product.compute(&mut tile, &epilogue, &mut scratch);
                    }
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
            let empty = || Operand::Strided(Strided { data: &[0.0f32; 8], lane_stride: 1, depth_stride: 1 });
            let mut sums = [f32::NAN; 6];
            let product = Product { isa, depth: 0, a: empty(), b: empty() };
            product.sums(0..2, 0..3, &mut sums, &mut vec![0.0; tile_scratch::<f32>(isa, 2, 3, 0, [false; 2])]);
            assert_eq!(sums, [0.0; 6]);
        }
    }
}
