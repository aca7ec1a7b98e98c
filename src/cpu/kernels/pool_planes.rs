//! Pooling of planes with windows near each other: vectors of columns are folded straight from the image, and windows from
//! such vectors and their neighbors, in registers.

use super::pool::{Along, Pooling, pool_windows};
use super::pool_fold::VectorFold;
use crate::cpu::simd::{Kernel, Simd};
use std::marker::PhantomData;

/// Elements that are looked through for special ones at a time, before they are folded.
const GROUP: usize = 2048;

/// Reduces the windows of some rows of the output image of a plane.
pub struct PoolPlane<'a, R> {
    /// The movement of the windows, which [are near](Pooling::is_near) for the lanes of the level.
    pub pooling: &'a Pooling,
    /// Planes; others than that of `start` may be read, but do not matter.
    pub input: &'a [f32],
    /// Where the plane starts.
    pub start: usize,
    /// The first output row.
    pub first: usize,
    /// Whole rows.
    pub out: &'a mut [f32],
    /// The reduction.
    pub fold: PhantomData<R>,
}

impl<R: VectorFold> Kernel for PoolPlane<'_, R> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let PoolPlane { pooling, input, start, first, out, .. } = self;
        let row_len = pooling.row_len();
        let rows = (GROUP / pooling.rows.stride().saturating_mul(pooling.image_row())).max(1);
        for (y, out) in (first..).step_by(rows).zip(out.chunks_mut(rows * row_len)) {
            let image = &input[start..];
            if R::has_special(pooling.rows_under(image, y, out.len() / row_len)) {
                pool_windows::<f32, R>(pooling, image, y, out);
                continue;
            }
            let rows = Rows::<R> { pooling, input, start, fold: PhantomData };
            let Along { slide, .. } = pooling.columns;
            match [slide.stride, slide.window, slide.begin, slide.dilation] {
                [1, window, begin, dilation] => {
                    rows.fold::<S, 1>(simd, y, [window, begin, dilation].map(|n| n as usize), out)
                }
                [_, 2, 0, 1] => rows.fold::<S, 2>(simd, y, [2, 0, 1], out),
                [_, 3, 1, 1] => rows.fold::<S, 2>(simd, y, [3, 1, 1], out),
                [_, window, begin, dilation] => {
                    rows.fold::<S, 2>(simd, y, [window, begin, dilation].map(|n| n as usize), out)
                }
            }
        }
    }
}

/// What the rows of a plane are computed from.
struct Rows<'a, R> {
    pooling: &'a Pooling,
    input: &'a [f32],
    start: usize,
    fold: PhantomData<R>,
}

impl<R: VectorFold> Rows<'_, R> {
    /// Computes the rows from row `first` on, of windows that are `STRIDE` columns apart.
    #[inline(always)]
    fn fold<S: Simd, const STRIDE: usize>(
        &self,
        simd: S,
        first: usize,
        [window, begin, dilation]: [usize; 3],
        out: &mut [f32],
    ) {
        let Rows { pooling, start, .. } = *self;
        let (image_row, row_len) = (pooling.image_row(), pooling.row_len());
        let shift = pooling.rows.dilation() * image_row;
        let empty = [simd.splat(R::EMPTY); STRIDE];
        let taps = &pooling.taps[first..][..out.len() / row_len];
        for (row, &[count, top]) in taps.iter().enumerate() {
            let out = &mut out[row * row_len..];
            let from = start + top * image_row;
            let reach = count.saturating_sub(1) * shift + image_row.next_multiple_of(S::LANES * STRIDE);
            let rows = Taps { from, shift, count, is_inside: from + reach <= self.input.len() };
            let covered = simd.splat(count.max(1) as f32);
            let mut blocks = [empty, empty, self.columns::<S, STRIDE>(simd, rows, 0)];
            for x in (0..row_len).step_by(S::LANES) {
                blocks = [blocks[1], blocks[2], self.columns::<S, STRIDE>(simd, rows, (x + S::LANES) * STRIDE)];
                let mut all = empty[0];
                for k in 0..window {
                    // The element under the first lane, counted from the block before.
                    let at = k * dilation + S::LANES * STRIDE - begin;
                    // Without an index: registers have none.
                    let [before, here, after] = if at.is_multiple_of(STRIDE) {
                        blocks.map(|block| block[0])
                    } else {
                        blocks.map(|block| block[STRIDE - 1])
                    };
                    let lane = at / STRIDE;
                    let sums = match k * dilation < begin {
                        true => simd.lanes_from(lane, before, here),
                        false => simd.lanes_from(lane - S::LANES, here, after),
                    };
                    all = R::add_vectors(simd, all, sums);
                }
                let results = R::finish_vector(simd, all, simd.load(&pooling.covered[x..]), covered);
                // What is written beyond the row is overwritten by the next one.
                if out.len() >= x + S::LANES {
                    simd.store(results, &mut out[x..]);
                } else {
                    simd.store_partial(results, &mut out[x..]);
                }
            }
        }
    }

    /// The accumulators of columns from column `x` on, `STRIDE` for each lane: one vector for the first of these, one for the
    /// second. Those beyond the row are empty.
    #[inline(always)]
    fn columns<S: Simd, const STRIDE: usize>(&self, simd: S, taps: Taps, x: usize) -> [S::F32; STRIDE] {
        let empty = simd.splat(R::EMPTY);
        let mut parts = [empty; STRIDE];
        let image_row = self.pooling.image_row();
        if x >= image_row {
            return parts;
        }
        for row in 0..taps.count {
            for (part, sums) in parts.iter_mut().enumerate() {
                let at = taps.from + row * taps.shift + x + part * S::LANES;
                let x = if taps.is_inside {
                    debug_assert!(at + S::LANES <= self.input.len());
                    // SAFETY: all vectors of the rows are inside of the input.
                    unsafe { simd.load_ptr(self.input.as_ptr().add(at)) }
                } else {
                    simd.load_partial(&self.input[at.min(self.input.len())..])
                };
                *sums = R::add_vectors(simd, *sums, x);
            }
        }
        if STRIDE == 2 {
            [parts[0], parts[STRIDE - 1]] = simd.evens_and_odds(parts[0], parts[STRIDE - 1]);
        }
        if x + STRIDE * S::LANES > image_row {
            for (part, sums) in parts.iter_mut().enumerate() {
                *sums = simd.lanes_before((image_row - x).saturating_sub(part).div_ceil(STRIDE), *sums, empty);
            }
        }
        parts
    }
}

/// Rows of an image: the element where the first begins, how far they are apart, and their number.
#[derive(Clone, Copy)]
struct Taps {
    from: usize,
    shift: usize,
    count: usize,
    /// Whether all vectors of the rows are inside of the input.
    is_inside: bool,
}
