//! Products of the patches of an image with channels last and packed filters: what is contiguous in the image, whole rows
//! of a patch, is copied to [`RowBlocks`], and multiplied there.

use super::frame::{Tail, panel_widths};
use super::operand::{depth_block, depth_blocks};
use super::panels::Packed;
use super::row_blocks::{Multiply, RowBlocks, Start};
use super::rows::Im2col;
use crate::cpu::kernels::float::{Float, narrow, widen};
use crate::cpu::schedule::tiles::Tile;
use crate::cpu::simd::{Isa, Kernel, Simd};
use std::ops::Range;

/// Patches, whose matrix has contiguous channels and the depth order `(tap y, tap x, channel)`, times filters.
pub struct PatchProduct<'a, T> {
    /// The level that the filters were packed for.
    pub isa: Isa,
    /// The patches are the rows.
    pub patches: Im2col<'a, T>,
    /// The columns.
    pub filters: &'a Packed<T>,
}

/// Floats that are finished at a time, where they adjoin: a part of a first-level cache.
const FINISHED: usize = 4096;

/// The parts of the scratch memory, in floats.
struct Parts {
    rows: usize,
    bias: usize,
    panel: usize,
    sums: usize,
}

impl<T: Float> PatchProduct<'_, T> {
    fn parts(isa: Isa, rows: usize, cols: usize, depth: usize) -> Parts {
        let (block, width) = (depth_block(depth), panel_widths(isa).cols);
        Parts {
            rows: rows * block.next_multiple_of(isa.lanes()),
            bias: cols.next_multiple_of(width),
            panel: if T::IS_F32 { 0 } else { width * block },
            sums: if T::IS_F32 { 0 } else { rows * cols },
        }
    }

    /// The scratch floats that [`compute`](Self::compute) needs for a tile of `rows` by `cols`.
    pub fn scratch_len(isa: Isa, rows: usize, cols: usize, depth: usize) -> usize {
        let Parts { rows, bias, panel, sums } = Self::parts(isa, rows, cols, depth);
        rows + bias + panel + sums
    }

    /// Computes one tile of the output, which starts at a panel of the filters. `bias` has one element for each of its
    /// columns. `tail` is applied to each row, or to many if they adjoin.
    ///
    /// # Panics
    /// If the scratch memory is shorter than [`scratch_len`](Self::scratch_len), or the image than its numbers say.
    pub fn compute(&self, tile: &mut Tile<T>, bias: Option<&[T]>, tail: Tail<T>, scratch: &mut [f32]) {
        let (rows, cols) = (tile.rows.clone(), tile.cols.clone());
        let parts = Self::parts(self.isa, rows.len(), cols.len(), self.filters.sizes()[1]);
        let (sums, scratch) = scratch.split_at_mut(parts.sums);
        let (padded_bias, scratch) = scratch.split_at_mut(parts.bias);
        padded_bias.fill(0.0);
        padded_bias.iter_mut().zip(bias.into_iter().flatten()).for_each(|(to, x)| *to = x.to_f32());
        if T::IS_F32 {
            let (base, stride) = tile.as_mut_ptr();
            // SAFETY: `T` is `f32`, and the tile owns its rows of `cols.len()` elements each.
            unsafe { self.sum(base.cast(), stride, &rows, &cols, padded_bias, scratch) };
            if stride == cols.len() {
                // SAFETY: as above; the rows adjoin.
                let sums = unsafe { std::slice::from_raw_parts_mut(base.cast::<f32>(), rows.len() * stride) };
                let run = (FINISHED / stride).max(1) * stride;
                for (index, sums) in sums.chunks_mut(run).enumerate() {
                    tail.apply(self.isa, tile.offset(0) + index * run, sums);
                }
                return;
            }
            for row in 0..rows.len() {
                let offset = tile.offset(row);
                if let Some(sums) = T::as_f32_mut(tile.row(row)) {
                    tail.apply(self.isa, offset, sums);
                }
            }
            return;
        }
        // SAFETY: `sums` has `rows.len()` rows of `cols.len()` floats.
        unsafe { self.sum(sums.as_mut_ptr(), cols.len(), &rows, &cols, padded_bias, scratch) };
        for (row, sums) in sums.chunks_exact_mut(cols.len()).enumerate() {
            tail.apply(self.isa, tile.offset(row), sums);
            narrow(self.isa, sums, tile.row(row));
        }
    }

    /// Writes the sums to `out`, whose rows are `stride` floats apart.
    ///
    /// # Safety
    /// `out` can be written for `cols.len()` floats at the start of each of `rows.len()` rows.
    unsafe fn sum(
        &self,
        out: *mut f32,
        stride: usize,
        rows: &Range<usize>,
        cols: &Range<usize>,
        bias: &[f32],
        scratch: &mut [f32],
    ) {
        let (isa, width) = (self.isa, panel_widths(self.isa).cols);
        let blocks = RowBlocks::new(isa, rows.len());
        for depth in depth_blocks(self.filters.sizes()[1]) {
            let (a, scratch) = scratch.split_at_mut(rows.len() * depth.len().next_multiple_of(isa.lanes()));
            isa.run(CopyPatches {
                patches: self.patches,
                first: rows.start,
                blocks,
                depth: depth.clone(),
                out: &mut *a,
            });
            for (left, start) in cols.clone().step_by(width).enumerate() {
                let end = (start + width).min(cols.end);
                let panel = self.filters.panels(start..end, depth.clone());
                let b = match T::as_f32(panel) {
                    Some(panel) => panel,
                    None => {
                        let wide = &mut scratch[..panel.len()];
                        widen(isa, panel, wide);
                        wide
                    }
                };
                isa.run(Multiply {
                    rows: blocks,
                    a,
                    b,
                    depth: depth.len(),
                    // SAFETY: the columns are among those that can be written.
                    out: unsafe { out.add(left * width) },
                    stride,
                    cols: end - start,
                    start: if depth.start > 0 { Start::Accumulate } else { Start::Bias(&bias[left * width..]) },
                });
            }
        }
    }
}

/// Copies the patches from `first` on to row blocks, for some of the depth.
struct CopyPatches<'a, 'b, T> {
    patches: Im2col<'a, T>,
    first: usize,
    blocks: RowBlocks,
    depth: Range<usize>,
    out: &'b mut [f32],
}

impl<T: Float> Kernel for CopyPatches<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let m = self.patches.matrix;
        let [high, wide] = m.out;
        let row_len = m.taps[1].len() * m.channels;
        // All taps of a filter row are one stretch of the image where they lie in it.
        let adjoining = m.strides[1] == m.channels && m.taps[1].windows(2).all(|taps| taps[1] == taps[0] + 1);
        let (from, to) = (m.taps[1][0], m.taps[1][m.taps[1].len() - 1]);
        let start = (self.depth.start / row_len, self.depth.start % row_len);
        let pixel = self.first % (high * wide);
        let (mut image, mut y, mut x) = (self.first / (high * wide) * m.image_stride, pixel / wide, pixel % wide);
        for row in 0..self.blocks.rows {
            let left = (x * m.step[1]) as isize;
            let whole = adjoining && left + from >= 0 && left + to < m.size[1] as isize;
            let (mut ty, mut within) = start;
            let mut to = self.destination::<S>(row);
            let mut depth = self.depth.len();
            while depth > 0 {
                let in_y = (y * m.step[0]) as isize + m.taps[0][ty];
                let base = image + (in_y.max(0) as usize) * m.strides[0];
                let mut len = (row_len - within).min(depth);
                let mut at = (in_y >= 0 && in_y < m.size[0] as isize).then_some(base);
                if let Some(base) = at {
                    if whole {
                        at = Some(base + (left + from) as usize * m.strides[1] + within);
                    } else {
                        let (tap, channel) = (within / m.channels, within % m.channels);
                        len = (m.channels - channel).min(depth);
                        let in_x = left + m.taps[1][tap];
                        let inside = in_x >= 0 && in_x < m.size[1] as isize;
                        at = inside.then(|| base + in_x as usize * m.strides[1] + channel);
                    }
                }
                self.copy(simd, &mut to, at.map(|at| &self.patches.image[at..at + len]), len);
                depth -= len;
                within += len;
                if within == row_len {
                    (ty, within) = (ty + 1, 0);
                }
            }
            x += 1;
            if x == wide {
                (x, y) = (0, y + 1);
                if y == high {
                    (y, image) = (0, image + m.image_stride);
                }
            }
        }
    }
}

/// Where the next element of a row goes: the start of its vector and the lane, and the distance between vectors.
struct Destination {
    vector: usize,
    lane: usize,
    stride: usize,
}

impl<T: Float> CopyPatches<'_, '_, T> {
    #[inline(always)]
    fn destination<S: Simd>(&self, row: usize) -> Destination {
        let vectors = self.depth.len().div_ceil(S::LANES);
        let place = |vector| self.blocks.place(row, vector, vectors, S::LANES);
        Destination { vector: place(0), lane: 0, stride: place(1) - place(0) }
    }

    /// Appends `len` elements, or zeros, to a row.
    #[inline(always)]
    fn copy<S: Simd>(&mut self, simd: S, to: &mut Destination, from: Option<&[T]>, len: usize) {
        let mut done = 0;
        while done < len {
            let count = (S::LANES - to.lane).min(len - done);
            let out = &mut self.out[to.vector + to.lane..][..count];
            match from.map(|from| &from[done..done + count]) {
                None => out.fill(0.0),
                Some(from) if count == S::LANES => simd.store(T::load(simd, from), out),
                Some(from) => match T::as_f32(from) {
                    Some(from) => simd.store_partial(simd.load_partial(from), out),
                    None => out.iter_mut().zip(from).for_each(|(out, x)| *out = x.to_f32()),
                },
            }
            done += count;
            to.lane += count;
            if to.lane == S::LANES {
                (to.vector, to.lane) = (to.vector + to.stride, 0);
            }
        }
    }
}
