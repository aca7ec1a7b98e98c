//! Products whose weights become floats on their way into registers.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::{AHEAD, BlockPanel, BlockPanels, NIBBLES, VECTORS, with_forms};
use crate::cpu::kernels::float::Float;
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::dtype::DataType;
use half::f16;
use std::ops::Range;

/// The sums of a row are kept apart, so that none waits for the addition before.
const CHAINS: usize = 4;

impl BlockPanels {
    /// The elements that a row which [`multiply_row`](Self::multiply_row) reads must have: zeros behind `depth`.
    pub fn padded(depth: usize) -> usize {
        depth.next_multiple_of(8)
    }

    /// The products of a row of `depth` floats, with zeros up to [`padded`](Self::padded), and the columns `cols`, which start
    /// at a panel. Scales of float32 are applied to the sums of blocks; with those of float16, weights are float16, too.
    ///
    /// # Panics
    /// If `row` or `out` is shorter.
    pub fn multiply_row(&self, isa: Isa, row: &[f32], depth: usize, cols: Range<usize>, out: &mut [f32]) {
        let row = &row[..Self::padded(depth)];
        for (start, out) in cols.clone().step_by(self.width).zip(out[..cols.len()].chunks_mut(self.width)) {
            isa.run(RowTimesPanel { panel: self.panel(start), row, depth, out });
        }
    }

    /// The depths `depth`, which start at a multiple of 8, of the panel that starts at `column` as floats `[depth][width]`.
    ///
    /// # Panics
    /// If `room` is shorter.
    pub fn extract(&self, isa: Isa, column: usize, depth: Range<usize>, room: &mut [f32]) {
        assert!(depth.start.is_multiple_of(8) && room.len() >= depth.len() * self.width);
        isa.run(Extract { panel: self.panel(column), depth, room });
    }
}

struct RowTimesPanel<'a> {
    panel: BlockPanel<'a>,
    row: &'a [f32],
    depth: usize,
    out: &'a mut [f32],
}

impl Kernel for RowTimesPanel<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let RowTimesPanel { panel, row, depth, out } = self;
        with_forms!(panel, row_times_panel::<S>(simd, &panel, row, depth, out));
    }
}

#[inline(always)]
fn row_times_panel<S: Simd, T: Float, const NIBBLE: bool, const SAME: bool>(
    simd: S,
    panel: &BlockPanel,
    row: &[f32],
    depth: usize,
    out: &mut [f32],
) {
    let (per_word, size) = (if NIBBLE { 8 } else { 4 }, panel.blocks.size());
    assert!(depth <= panel.blocks.depth && row.len() >= depth.next_multiple_of(8));
    let mut totals = [simd.splat(0.0); VECTORS];
    for index in 0..depth.div_ceil(size) {
        let block = panel.block(index);
        let first = index * size;
        let mut sums = [[simd.splat(0.0); CHAINS]; VECTORS];
        // SAFETY: the block is one of the panel and has words for all of its depths; the row was checked to be that long, in
        // whole words of 8. Prefetching reads nothing.
        unsafe {
            let zero = [0, 1].map(|v| panel.zeros::<S, SAME>(simd, block, v));
            let scale = [0, 1].map(|v| panel.scales::<S, T>(simd, block, v));
            let mut words = block.add(panel.places.words);
            let mut x = row.as_ptr().add(first);
            simd.prefetch(block.wrapping_add(AHEAD).cast());
            simd.prefetch(block.wrapping_add(AHEAD + panel.places.zeros / 2).cast());
            for _ in 0..(depth.min(first + size) - first).div_ceil(per_word) {
                for v in 0..VECTORS {
                    let own = words.add(v * 4 * S::LANES);
                    simd.prefetch(own.wrapping_add(AHEAD).cast());
                    if NIBBLE {
                        let mut numbers = simd.nibbles::<SAME>(own, zero[v]);
                        for i in 0..8 {
                            if !T::IS_F32 {
                                numbers[i] = simd.round_f16(simd.mul(numbers[i], scale[v]));
                            }
                            let factor = simd.splat(*x.add(NIBBLES[i]));
                            sums[v][i % CHAINS] = simd.mul_add(numbers[i], factor, sums[v][i % CHAINS]);
                        }
                    } else {
                        let mut numbers = simd.bytes(own, zero[v]);
                        for i in 0..4 {
                            if !T::IS_F32 {
                                numbers[i] = simd.round_f16(simd.mul(numbers[i], scale[v]));
                            }
                            sums[v][i] = simd.mul_add(numbers[i], simd.splat(*x.add(i)), sums[v][i]);
                        }
                    }
                }
                words = words.add(panel.places.row);
                x = x.add(per_word);
            }
            for v in 0..VECTORS {
                let sum = simd.add(simd.add(sums[v][0], sums[v][1]), simd.add(sums[v][2], sums[v][3]));
                totals[v] = match T::IS_F32 {
                    true => simd.mul_add(sum, scale[v], totals[v]),
                    false => simd.add(sum, totals[v]),
                };
            }
        }
    }
    for v in 0..VECTORS {
        let first = (v * S::LANES).min(out.len());
        simd.store_partial(totals[v], &mut out[first..]);
    }
}

struct Extract<'a> {
    panel: BlockPanel<'a>,
    depth: Range<usize>,
    room: &'a mut [f32],
}

impl Kernel for Extract<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Extract { panel, depth, room } = self;
        with_forms!(panel, extract::<S>(simd, &panel, depth.clone(), room));
    }
}

#[inline(always)]
fn extract<S: Simd, T: Float, const NIBBLE: bool, const SAME: bool>(
    simd: S,
    panel: &BlockPanel,
    depth: Range<usize>,
    room: &mut [f32],
) {
    let (per_word, width, size) = (if NIBBLE { 8 } else { 4 }, VECTORS * S::LANES, panel.blocks.size());
    assert!(depth.end <= panel.blocks.depth);
    let mut k = depth.start;
    while k < depth.end {
        let index = k / size;
        let (block, end) = (panel.block(index), depth.end.min((index + 1) * size));
        // SAFETY: the block is one of the panel.
        let scale = unsafe { [0, 1].map(|v| panel.scales::<S, T>(simd, block, v)) };
        // SAFETY: as above.
        let zero = unsafe { [0, 1].map(|v| panel.zeros::<S, SAME>(simd, block, v)) };
        while k < end {
            let word = (k - index * size) / per_word;
            for v in 0..VECTORS {
                let mut numbers = [simd.splat(0.0); 8];
                // SAFETY: the block has words for all of its depths.
                unsafe {
                    let words = block.add(panel.places.words + word * panel.places.row + v * 4 * S::LANES);
                    if NIBBLE {
                        numbers = simd.nibbles::<SAME>(words, zero[v]);
                    } else {
                        numbers[..4].copy_from_slice(&simd.bytes(words, zero[v]));
                    }
                }
                for i in 0..per_word {
                    let at = k + if NIBBLE { NIBBLES[i] } else { i };
                    if at < end {
                        let to = (at - depth.start) * width + v * S::LANES;
                        let weight = simd.mul(numbers[i], scale[v]);
                        simd.store(if T::IS_F32 { weight } else { simd.round_f16(weight) }, &mut room[to..]);
                    }
                }
            }
            k = end.min(k + per_word);
        }
    }
}
