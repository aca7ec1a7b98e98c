//! NEON without instructions that add products of bytes: pairs of signed bytes. Products have 16 bits (`smull`), and each
//! two of them are added to a sum of 32 bits (`sadalp`): eight multiply-adds in two instructions that run on different
//! units. `smlal` of 16-bit integers needs one unit for four.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::{Format, FormatKernel, FormatSizes, NEON, blocks};
use crate::cpu::simd::dot::NeonDot;
use crate::cpu::simd::{Neon, enter};
use std::arch::aarch64::*;

/// The format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smull(Neon);

enter!(Smull, FormatKernel, "neon");

impl Smull {
    /// The format; every CPU with NEON has it.
    pub fn new(neon: Neon) -> Smull {
        Smull(neon)
    }
}

// SAFETY: `tile` reads whole groups of the rows and of the panel, and writes the sums of its rows.
unsafe impl Format for Smull {
    const SIZES: FormatSizes =
        FormatSizes { name: "pairs of bytes, by 16 depths", vectors: 4, units: [8, 6, 4], together: 2, ..NEON };

    #[inline(always)]
    unsafe fn tile<const ROWS: usize, const VECS: usize>(
        self,
        left: *const u8,
        stride: usize,
        right: *const u8,
        groups: usize,
        start: [int32x4_t; VECS],
        to: *mut int32x4_t,
    ) {
        // SAFETY: `self` proves NEON; the caller guarantees the reads and writes.
        unsafe {
            let (mut sums, mut right) = ([start; ROWS], right.cast::<i8>());
            for group in 0..groups {
                let mut rows = [vdupq_n_s16(0); ROWS];
                for row in 0..ROWS {
                    rows[row] = vld1q_s16(left.add(row * stride + 16 * group).cast());
                }
                macro_rules! pairs {
                    ($($pair:literal)*) => {$(
                        for row in 0..ROWS {
                            let pair = vreinterpretq_s8_s16(vdupq_laneq_s16::<$pair>(rows[row]));
                            if VECS == 1 {
                                let products = vmull_s8(vget_low_s8(pair), vld1_s8(right));
                                sums[row][0] = vpadalq_s16(sums[row][0], products);
                            }
                            for v in 0..VECS / 2 {
                                let columns = vld1q_s8(right.add(16 * v));
                                let low = vmull_s8(vget_low_s8(pair), vget_low_s8(columns));
                                sums[row][2 * v] = vpadalq_s16(sums[row][2 * v], low);
                                let high = vmull_high_s8(pair, columns);
                                sums[row][2 * v + 1] = vpadalq_s16(sums[row][2 * v + 1], high);
                            }
                        }
                        right = right.add(8 * VECS);
                    )*};
                }
                pairs!(0 1 2 3 4 5 6 7);
            }
            for row in 0..ROWS {
                for v in 0..VECS {
                    to.add(row * VECS + v).write(sums[row][v]);
                }
            }
        }
    }
}

/// Weights in blocks: products of nibbles are added in 16 bits (`smlal`), eight in an instruction; those of bytes leave room
/// for a pair. Three digits of a row and 64 nibbles take 24 cycles on Neoverse N1, and 12 on V2 and Apple M1 (llvm-mca).
// SAFETY: one or two vectors of weights are loaded, and eight digits.
unsafe impl blocks::BlockFormat for Smull {
    blocks::neon_operands!();
    /// Sums of 16 bits for nibbles, of 32 bits for bytes; those of the same column are neighbors.
    type Partial = [int16x8_t; 2];

    #[inline(always)]
    fn open<const NIBBLE: bool>(self, _sums: int32x4_t) -> [int16x8_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { [vdupq_n_s16(0); 2] }
    }

    #[inline(always)]
    unsafe fn multiply<const NIBBLE: bool, const HALF: usize>(
        self,
        [low, high]: [int16x8_t; 2],
        weights: uint8x16_t,
        digits: int8x8_t,
    ) -> [int16x8_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe {
            let weights = vreinterpretq_s8_u8(weights);
            let digits = match HALF {
                0 => vdupq_lane_s32::<0>(vreinterpret_s32_s8(digits)),
                _ => vdupq_lane_s32::<1>(vreinterpret_s32_s8(digits)),
            };
            let digits = vreinterpretq_s8_s32(digits);
            if NIBBLE {
                let low = vmlal_s8(low, vget_low_s8(weights), vget_low_s8(digits));
                return [low, vmlal_high_s8(high, weights, digits)];
            }
            let products = [vmull_s8(vget_low_s8(weights), vget_low_s8(digits)), vmull_high_s8(weights, digits)];
            [
                vreinterpretq_s16_s32(vpadalq_s16(vreinterpretq_s32_s16(low), products[0])),
                vreinterpretq_s16_s32(vpadalq_s16(vreinterpretq_s32_s16(high), products[1])),
            ]
        }
    }

    #[inline(always)]
    fn close<const NIBBLE: bool>(self, sums: int32x4_t, [low, high]: [int16x8_t; 2]) -> int32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe {
            let [low, high] = match NIBBLE {
                true => [vpaddlq_s16(low), vpaddlq_s16(high)],
                false => [vreinterpretq_s32_s16(low), vreinterpretq_s32_s16(high)],
            };
            vaddq_s32(sums, vpaddq_s32(low, high))
        }
    }
}
