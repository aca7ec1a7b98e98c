//! Products of rows that are rounded to integers of 8 or 24 bits, with a scale for each block. Their sums within blocks are exact.
//!
//! An integer is one or three signed digits to the base 256. Each digit has its own sums of products of bytes, which the CPU adds
//! four at a time; a block ends with the sums of its digits put together. Three digits leave an error of 2^-23 of the largest
//! magnitude of the block for each factor, about what adding floats one by one loses, and take half of the time of converting the
//! weights to floats (Zen 4: 8 bits at 30 instead of 22 GB/s).

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::{BlockPanel, BlockPanels, VECTORS, with_forms};
use crate::cpu::kernels::float::Float;
use crate::cpu::simd::dot::{Dot, DotKernel, DotLevel, ToBytes};
use crate::cpu::simd::{Isa, Simd};
use crate::dtype::DataType;
use crate::memory::{bytes_of_mut, elements_mut};
use half::f16;
use std::ops::Range;

/// The most rows of a register tile.
const ROWS: usize = 4;

/// Signed bytes of what is rounded.
const SIGNED: ToBytes = ToBytes { zero: 128, low: 0, high: 255, flip: 0x80 };

/// The digits of the integers that a row is rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// 8-bit integers.
    One = 1,
    /// 24-bit integers.
    Three = 3,
}

/// Magnitudes below this one are not rounded to 24 bits: the inverse of their scale may be infinite.
const LEAST: f32 = 1e-30;

/// The largest block with three digits: its sums, and those of its zero points, are exact as floats.
const MOST_DEPTHS: usize = 512;

/// Rows of signed digits in the order in which the words of panels have them.
pub struct RoundedRows<'a> {
    /// For each row and digit, the highest digit first, [`BlockPanels::padded`] bytes, with zeros behind the depth.
    bytes: &'a mut [u8],
    /// For each row the scale of each block.
    scales: &'a mut [f32],
    /// For each row and digit the sum of the bytes of each block.
    sums: &'a mut [i32],
    depth: usize,
    /// Depths of a block.
    block: usize,
    digits: Digits,
}

impl<'a> RoundedRows<'a> {
    /// The floats of scratch memory that `rows` rows of `depth` elements need, in blocks of `block`.
    pub fn scratch_len(rows: usize, depth: usize, block: usize, digits: Digits) -> usize {
        let (digits, blocks) = (digits as usize, depth.div_ceil(block));
        rows * (digits * BlockPanels::padded(depth) / 4 + blocks + digits * blocks)
    }

    /// Room for `rows` rows in `scratch`.
    ///
    /// # Panics
    /// If `scratch` is shorter than [`scratch_len`](Self::scratch_len).
    pub fn new(rows: usize, depth: usize, block: usize, digits: Digits, scratch: &'a mut [f32]) -> RoundedRows<'a> {
        let (lines, blocks) = (rows * digits as usize, depth.div_ceil(block));
        let (bytes, scratch) = scratch.split_at_mut(lines * BlockPanels::padded(depth) / 4);
        let (scales, scratch) = scratch.split_at_mut(rows * blocks);
        let sums = elements_mut::<i32>(bytes_of_mut(&mut scratch[..lines * blocks]));
        RoundedRows { bytes: bytes_of_mut(bytes), scales, sums, depth, block, digits }
    }

    /// Rounds a row of `depth` floats for weights of `bits` bits: with one digit to the nearest multiples of 1/127 of the largest
    /// magnitude of each block, with three to those of 1/8323072. Returns whether it could: with three digits, all factors must be
    /// finite, and no block may have tiny ones only. With one digit, such rows give NaN.
    ///
    /// # Panics
    /// If there is no such row, or `from` is shorter.
    pub fn round(&mut self, isa: Isa, row: usize, from: &[f32], bits: usize) -> bool {
        let (depth, block, digits) = (self.depth, self.block, self.digits as usize);
        let (stride, blocks) = (BlockPanels::padded(depth), depth.div_ceil(block));
        let bytes = &mut self.bytes[row * digits * stride..][..digits * stride];
        let scales = &mut self.scales[row * blocks..][..blocks];
        let (level, from) = (DotLevel::of(isa), &from[..depth]);
        let fits = match self.digits {
            Digits::One => level.run(Round::<1> { from, block, bytes, scales }),
            Digits::Three => level.run(Round::<3> { from, block, bytes, scales }),
        };
        let sum = |bytes: &[u8]| bytes.iter().map(|&byte| byte as i8 as i32).sum();
        let sums = self.sums[row * digits * blocks..].chunks_mut(blocks);
        for (sums, bytes) in sums.zip(bytes.chunks(stride)) {
            sums.iter_mut().zip(bytes.chunks(block)).for_each(|(to, bytes)| *to = sum(bytes));
        }
        if bits == 4 {
            for eight in bytes.as_chunks_mut::<8>().0 {
                *eight = nibble_order(u64::from_le_bytes(*eight)).to_le_bytes();
            }
        }
        fits
    }
}

/// Eight bytes in the order of [`NIBBLES`](super::NIBBLES): the even ones first.
fn nibble_order(bytes: u64) -> u64 {
    let even = |bytes: u64| {
        let bytes = bytes & 0x00ff_00ff_00ff_00ff;
        let bytes = (bytes | bytes >> 8) & 0x0000_ffff_0000_ffff;
        (bytes | bytes >> 16) & 0xffff_ffff
    };
    even(bytes) | even(bytes >> 8) << 32
}

struct Round<'a, const DIGITS: usize> {
    from: &'a [f32],
    block: usize,
    bytes: &'a mut [u8],
    scales: &'a mut [f32],
}

impl<const DIGITS: usize> DotKernel for Round<'_, DIGITS> {
    type Output = bool;
    #[inline(always)]
    fn run<D: Dot>(self, dot: D) -> bool {
        let (simd, lanes) = (dot.float(), D::LANES);
        let Round { from, block, bytes, scales } = self;
        let stride = bytes.len() / DIGITS;
        bytes.chunks_exact_mut(stride).for_each(|line| line[from.len()..].fill(0));
        // NaN if any factor is NaN or infinite: then all products are NaN.
        let (mut finite, mut least) = (simd.splat(0.0), f32::MAX);
        for (index, from) in from.chunks(block).enumerate() {
            let mut most = simd.splat(0.0);
            for x in from.chunks(lanes) {
                let x = simd.load_partial(x);
                most = simd.max(most, simd.max(x, simd.mul(x, simd.splat(-1.0))));
                finite = simd.mul_add(x, simd.splat(0.0), finite);
            }
            let most = largest_lane(simd, most);
            // The digits below the highest one have room, so that errors of the inverse carry nothing out of it.
            let scale = most / (127 << (8 * (DIGITS - 1))) as f32;
            scales[index] = scale;
            least = if most > 0.0 { least.min(most) } else { least };
            let inverse = simd.splat(if scale > 0.0 { 1.0 / scale } else { 0.0 });
            for (at, x) in from.chunks(lanes).enumerate() {
                let mut rest = dot.to_float(dot.round(simd.mul(simd.load_partial(x), inverse)));
                for digit in (0..DIGITS).rev() {
                    // Half a unit more is exact, and no tie: what is left is in -128..=127.
                    let above = simd.mul(simd.add(rest, simd.splat(0.5)), simd.splat(1.0 / 256.0));
                    let above = if digit == 0 { simd.splat(0.0) } else { dot.to_float(dot.round(above)) };
                    let own = dot.round(simd.mul_add(above, simd.splat(-256.0), rest));
                    let to = &mut bytes[digit * stride + index * block + at * lanes..][..x.len()];
                    // SAFETY: `to` has as many bytes.
                    unsafe { dot.store_bytes::<1, false>([own], SIGNED, to.as_mut_ptr(), x.len()) };
                    rest = above;
                }
            }
        }
        let finite = simd.sum(finite);
        scales[0] += finite;
        finite == 0.0 && least >= LEAST
    }
}

/// The largest lane of a vector without NaN.
#[inline(always)]
fn largest_lane<S: Simd>(simd: S, v: S::F32) -> f32 {
    let mut lanes = [0.0f32; 16];
    simd.store(v, &mut lanes);
    let mut width = S::LANES;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            lanes[i] = if lanes[i + width] > lanes[i] { lanes[i + width] } else { lanes[i] };
        }
    }
    lanes[0]
}

impl BlockPanels {
    /// Whether rows of three digits are faster than rows of floats, and as exact.
    pub fn takes_digits(&self, isa: Isa) -> bool {
        self.scale_type == DataType::Float32 && self.blocks.size() <= MOST_DEPTHS && DotLevel::of(isa).is_fast()
    }

    /// The products of the first `count` of `rows` and the columns `cols`, which start at a panel, row by row into `out`.
    ///
    /// # Panics
    /// If `out` or an operand is shorter.
    pub fn multiply_rounded(&self, isa: Isa, rows: &RoundedRows, count: usize, cols: Range<usize>, out: &mut [f32]) {
        let stride = cols.len();
        assert!(out.len() >= count * stride);
        assert!(rows.block == self.blocks.size() && rows.depth <= self.blocks.depth);
        let level = DotLevel::of(isa);
        assert!(level.widths().lanes * VECTORS == self.width);
        for start in cols.clone().step_by(self.width) {
            let (panel, first) = (self.panel(start), start - cols.start);
            let columns = self.width.min(cols.end - start);
            level.run(RowsTimesPanel { panel, rows, count, out: &mut out[first..], columns, stride });
        }
    }
}

struct RowsTimesPanel<'a> {
    panel: BlockPanel<'a>,
    rows: &'a RoundedRows<'a>,
    count: usize,
    out: &'a mut [f32],
    columns: usize,
    stride: usize,
}

impl DotKernel for RowsTimesPanel<'_> {
    type Output = ();
    #[inline(always)]
    fn run<D: Dot>(mut self, dot: D) {
        with_forms!(self.panel, tiles::<D>(dot, &mut self));
    }
}

#[inline(always)]
fn tiles<D: Dot, T: Float, const NIBBLE: bool, const SAME: bool>(dot: D, product: &mut RowsTimesPanel) {
    let mut row = 0;
    while product.rows.digits == Digits::One && row + ROWS <= product.count {
        product.tile::<D, T, ROWS, 1, 1, NIBBLE, SAME>(dot, row);
        row += ROWS;
    }
    while row < product.count {
        match product.rows.digits {
            // One row has each sum in two parts, so that fewer additions wait for the one before.
            Digits::One => product.tile::<D, T, 1, 1, 2, NIBBLE, SAME>(dot, row),
            Digits::Three => product.tile::<D, T, 1, 3, 1, NIBBLE, SAME>(dot, row),
        }
        row += 1;
    }
}

impl RowsTimesPanel<'_> {
    #[inline(always)]
    fn tile<
        D: Dot,
        T: Float,
        const R: usize,
        const DIGITS: usize,
        const PARTS: usize,
        const NIBBLE: bool,
        const SAME: bool,
    >(
        &mut self,
        dot: D,
        first: usize,
    ) {
        let (simd, panel, rows) = (dot.float(), &self.panel, self.rows);
        let (per_word, zero) = (if NIBBLE { 8 } else { 4 }, panel.zero.unwrap_or(0) as i32);
        let (depth, size) = (rows.depth, rows.block);
        let (stride, blocks) = (BlockPanels::padded(depth), depth.div_ceil(size));
        let end = first + R;
        assert!(rows.bytes.len() >= end * DIGITS * stride && rows.scales.len() >= end * blocks);
        assert!(rows.sums.len() >= end * DIGITS * blocks);
        let from = rows.bytes[first * DIGITS * stride..].as_ptr();
        let digit_sum = |r: usize, d: usize, index: usize| rows.sums[((first + r) * DIGITS + d) * blocks + index];
        let mut totals = [[simd.splat(0.0); VECTORS]; R];
        for index in 0..blocks {
            let (block, start) = (panel.block(index), index * size);
            let mut sums = [[[[dot.splat(0); PARTS]; VECTORS]; DIGITS]; R];
            if SAME {
                for r in 0..R {
                    for d in 0..DIGITS {
                        let start = dot.splat(-zero * digit_sum(r, d, index));
                        for v in 0..VECTORS {
                            sums[r][d][v][0] = start;
                        }
                    }
                }
            }
            // SAFETY: the block is one of the panel, whose columns are `VECTORS` vectors, and has words for all of its depths;
            // rows were checked to be that long, in whole words of 8 bytes.
            unsafe {
                let mut words = block.add(panel.places.words);
                let mut from = from.add(start);
                panel.ask(simd, block);
                panel.ask(simd, block.wrapping_add(panel.places.zeros / 2));
                for word in 0..(depth.min(start + size) - start).div_ceil(per_word) {
                    let quad = |r: usize, d: usize, at: usize| {
                        from.add((r * DIGITS + d) * stride + 4 * at).cast::<u32>().read_unaligned()
                    };
                    for v in 0..VECTORS {
                        let own = words.add(v * D::BYTES);
                        panel.ask(simd, own);
                        let bytes = dot.load(own);
                        if NIBBLE {
                            let [low, high] = dot.nibbles(bytes);
                            let (low, high) = (dot.left(low), dot.left(high));
                            for r in 0..R {
                                for d in 0..DIGITS {
                                    let [low_row, high_row] = [0, 1].map(|at| dot.right_quad(quad(r, d, at)));
                                    sums[r][d][v][0] = dot.dot(sums[r][d][v][0], low, low_row);
                                    sums[r][d][v][PARTS - 1] = dot.dot(sums[r][d][v][PARTS - 1], high, high_row);
                                }
                            }
                        } else {
                            let (left, part) = (dot.left(bytes), if word % 2 == 0 { 0 } else { PARTS - 1 });
                            for r in 0..R {
                                for d in 0..DIGITS {
                                    let row = dot.right_quad(quad(r, d, 0));
                                    if PARTS == 1 || part == 0 {
                                        sums[r][d][v][0] = dot.dot(sums[r][d][v][0], left, row);
                                    } else {
                                        sums[r][d][v][PARTS - 1] = dot.dot(sums[r][d][v][PARTS - 1], left, row);
                                    }
                                }
                            }
                        }
                    }
                    words = words.add(panel.places.row);
                    from = from.add(per_word);
                }
                for v in 0..VECTORS {
                    let scale = panel.scales::<D::Float, T>(simd, block, v);
                    for r in 0..R {
                        let mut total = simd.splat(0.0);
                        for d in 0..DIGITS {
                            let mut sum = dot.to_float(sums[r][d][v][0]);
                            if PARTS == 2 {
                                sum = simd.add(sum, dot.to_float(sums[r][d][v][PARTS - 1]));
                            }
                            if !SAME {
                                let zero = panel.zeros::<D::Float, SAME>(simd, block, v);
                                sum = simd.mul_add(zero, simd.splat(-(digit_sum(r, d, index) as f32)), sum);
                            }
                            total = if d == 0 { sum } else { simd.mul_add(total, simd.splat(256.0), sum) };
                        }
                        let scale = simd.mul(scale, simd.splat(rows.scales[(first + r) * blocks + index]));
                        totals[r][v] = simd.mul_add(total, scale, totals[r][v]);
                    }
                }
            }
        }
        for r in 0..R {
            let out = &mut self.out[(first + r) * self.stride..][..self.columns];
            for v in 0..VECTORS {
                let at = (v * D::LANES).min(out.len());
                simd.store_partial(totals[r][v], &mut out[at..]);
            }
        }
    }
}
