//! NEON without instructions that add products of bytes: pairs of signed bytes. Products have 16 bits (`smull`), and each
//! two of them are added to a sum of 32 bits (`sadalp`): eight multiply-adds in two instructions that run on different
//! units. `smlal` of 16-bit integers needs one unit for four.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::{Format, FormatSizes, enter};
use crate::cpu::simd::Neon;
use std::arch::aarch64::*;

/// The format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smull(Neon);

enter!(Smull, "neon");

impl Smull {
    /// The format; every CPU with NEON has it.
    pub fn new(neon: Neon) -> Smull {
        Smull(neon)
    }
}

// SAFETY: `tile` reads whole groups of the rows and of the panel, and writes the sums of its rows.
unsafe impl Format for Smull {
    type Integers = Neon;
    const SIZES: FormatSizes = FormatSizes {
        name: "pairs of bytes, by 16 depths",
        lanes: 4,
        vectors: 4,
        units: [8, 6, 4],
        unit: 1,
        group: 16,
        left_size: 1,
        is_signed: true,
        expands: false,
    };

    #[inline(always)]
    fn integers(self) -> Neon {
        self.0
    }

    #[inline(always)]
    fn pack_right(self, numbers: &[i16], columns: usize, to: &mut [u8]) {
        for (at, pair) in to.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let (first, column) = (at / columns * 2, at % columns);
            *pair = [0, 1].map(|depth| numbers[(first + depth) * columns + column] as u8);
        }
    }

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
