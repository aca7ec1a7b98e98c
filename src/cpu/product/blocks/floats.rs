//! Products whose weights become floats on their way into registers.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::{BlockPanel, BlockPanels, NIBBLES, Zeros};
use crate::cpu::kernels::float::{Float, Floats};
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::with_floats;
use std::ops::Range;

/// Vectors in a row of a panel.
const VECTORS: usize = 2;

/// How many bytes early weights are asked for.
const AHEAD: usize = 4096;

/// The sums of a row are kept apart, so that none waits for the addition before.
const CHAINS: usize = 4;

impl BlockPanels {
    /// The elements that a row which [`multiply_row`](Self::multiply_row) reads must have: zeros behind `depth`.
    pub fn padded(depth: usize) -> usize {
        depth.next_multiple_of(8)
    }

    /// The products of a row of `depth` floats, with zeros up to [`padded`](Self::padded), and the columns `cols`, which start
    /// at a panel. Scales are applied to the sums of blocks.
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

/// What the numbers of a word are less of, in the lanes of a vector.
#[inline(always)]
fn zeros_of<S: Simd>(simd: S, zeros: Zeros, block: usize) -> [S::F32; VECTORS] {
    match zeros {
        Zeros::Same(zero) => [simd.splat(zero as f32); VECTORS],
        Zeros::Each(zeros) => {
            let mut wide = [[0.0f32; 16]; VECTORS];
            let row = &zeros[block * VECTORS * S::LANES..][..VECTORS * S::LANES];
            for v in 0..VECTORS {
                for lane in 0..S::LANES {
                    wide[v][lane] = row[v * S::LANES + lane] as f32;
                }
            }
            let mut vectors = [simd.splat(0.0); VECTORS];
            for v in 0..VECTORS {
                vectors[v] = simd.load(&wide[v]);
            }
            vectors
        }
    }
}

#[inline(always)]
fn scales_of<S: Simd, T: Float>(simd: S, scales: &[T], block: usize) -> [S::F32; VECTORS] {
    let mut vectors = [simd.splat(0.0); VECTORS];
    for v in 0..VECTORS {
        vectors[v] = T::load(simd, &scales[(block * VECTORS + v) * S::LANES..]);
    }
    vectors
}

/// Calls `work` with the code that is compiled for how the panel is stored.
macro_rules! with_forms {
    ($panel:expr, $scales:ident, $work:ident($($argument:expr),*)) => {
        with_floats!(Floats, $panel.scales, $scales => match ($panel.bits, $panel.zeros) {
            (4, Zeros::Same(_)) => $work::<_, _, true, true>($($argument),*),
            (4, Zeros::Each(_)) => $work::<_, _, true, false>($($argument),*),
            (_, Zeros::Same(_)) => $work::<_, _, false, true>($($argument),*),
            (_, Zeros::Each(_)) => $work::<_, _, false, false>($($argument),*),
        })
    };
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
        with_forms!(panel, scales, row_times_panel(simd, scales, &panel, row, depth, out));
    }
}

#[inline(always)]
fn row_times_panel<S: Simd, T: Float, const NIBBLE: bool, const SAME: bool>(
    simd: S,
    scales: &[T],
    panel: &BlockPanel,
    row: &[f32],
    depth: usize,
    out: &mut [f32],
) {
    let per_word = if NIBBLE { 8 } else { 4 };
    let bytes = 4 * VECTORS * S::LANES;
    let blocks = depth.div_ceil(panel.block);
    assert!(panel.words.len() >= depth.div_ceil(per_word) * bytes && row.len() >= depth.next_multiple_of(8));
    let mut totals = [simd.splat(0.0); VECTORS];
    for block in 0..blocks {
        let (scale, zero) = (scales_of(simd, scales, block), zeros_of(simd, panel.zeros, block));
        let (start, end) = (block * panel.block, depth.min((block + 1) * panel.block));
        let mut sums = [[simd.splat(0.0); CHAINS]; VECTORS];
        for word in start / per_word..end.div_ceil(per_word) {
            // SAFETY: the words and the row were checked to be that long; prefetching reads nothing.
            unsafe {
                let (words, x) = (panel.words.as_ptr().add(word * bytes), row.as_ptr().add(word * per_word));
                for v in 0..VECTORS {
                    let words = words.add(v * 4 * S::LANES);
                    simd.prefetch(words.wrapping_add(AHEAD).cast());
                    if NIBBLE {
                        let numbers = simd.nibbles::<SAME>(words, zero[v]);
                        for i in 0..8 {
                            let factor = simd.splat(*x.add(NIBBLES[i]));
                            sums[v][i % CHAINS] = simd.mul_add(numbers[i], factor, sums[v][i % CHAINS]);
                        }
                    } else {
                        let numbers = simd.bytes(words, zero[v]);
                        for i in 0..4 {
                            sums[v][i] = simd.mul_add(numbers[i], simd.splat(*x.add(i)), sums[v][i]);
                        }
                    }
                }
            }
        }
        for v in 0..VECTORS {
            let sum = simd.add(simd.add(sums[v][0], sums[v][1]), simd.add(sums[v][2], sums[v][3]));
            totals[v] = simd.mul_add(sum, scale[v], totals[v]);
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
        with_forms!(panel, scales, extract(simd, scales, &panel, depth.clone(), room));
    }
}

#[inline(always)]
fn extract<S: Simd, T: Float, const NIBBLE: bool, const SAME: bool>(
    simd: S,
    scales: &[T],
    panel: &BlockPanel,
    depth: Range<usize>,
    room: &mut [f32],
) {
    let (per_word, width) = (if NIBBLE { 8 } else { 4 }, VECTORS * S::LANES);
    assert!(panel.words.len() >= depth.end.div_ceil(per_word) * 4 * width);
    let mut known = usize::MAX;
    let (mut scale, mut zero) = ([simd.splat(0.0); VECTORS], [simd.splat(0.0); VECTORS]);
    for word in depth.start / per_word..depth.end.div_ceil(per_word) {
        let first = word * per_word;
        if first / panel.block != known {
            known = first / panel.block;
            (scale, zero) = (scales_of(simd, scales, known), zeros_of(simd, panel.zeros, known));
        }
        for v in 0..VECTORS {
            // SAFETY: the words were checked to be that many.
            let words = unsafe { panel.words.as_ptr().add((word * VECTORS + v) * 4 * S::LANES) };
            let mut numbers = [simd.splat(0.0); 8];
            if NIBBLE {
                // SAFETY: as above.
                numbers = unsafe { simd.nibbles::<SAME>(words, zero[v]) };
            } else {
                // SAFETY: as above.
                let four = unsafe { simd.bytes(words, zero[v]) };
                numbers[..4].copy_from_slice(&four);
            }
            for i in 0..per_word {
                let k = first + if NIBBLE { NIBBLES[i] } else { i };
                if k < depth.end {
                    simd.store(simd.mul(numbers[i], scale[v]), &mut room[(k - depth.start) * width + v * S::LANES..]);
                }
            }
        }
    }
}
