//! NEON with products of matrices (i8mm): an instruction multiplies eight depths of two rows with those of two columns.
//! Rows and columns are packed in pairs, eight depths of one, then of the other. Weights in blocks, for single rows, are
//! multiplied with dot products.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::sdot::block_format;
use super::{Format, FormatKernel, FormatSizes, NEON, blocks, flipped};
use crate::cpu::simd::dot::NeonDot;
use crate::cpu::simd::{Neon, enter};
use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

/// Proof that this CPU has the products of matrices and everything that [`Neon`] proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smmla(Neon);

enter!(Smmla, FormatKernel, "neon,dotprod,i8mm");
block_format!(Smmla);

impl Smmla {
    /// Returns the format if the CPU has the instructions.
    pub fn detect(neon: Neon) -> Option<Smmla> {
        (is_aarch64_feature_detected!("i8mm") && is_aarch64_feature_detected!("dotprod")).then_some(Smmla(neon))
    }
}

// SAFETY: `tile` reads whole groups of the rows and of the panel, and writes the sums of its rows.
unsafe impl Format for Smmla {
    const SIZES: FormatSizes =
        FormatSizes { name: "eights of bytes", units: [4, 4, 4], unit: 2, group: 8, together: 8, ..NEON };

    #[inline(always)]
    fn pack_left(self, row: &[u8], flip: u8, index: usize, stride: usize, to: &mut [u8]) {
        let to = to[index / 2 * 2 * stride..][..2 * stride].as_chunks_mut::<8>().0;
        for (to, eight) in to.iter_mut().skip(index % 2).step_by(2).zip(row.chunks(8)) {
            flipped(eight, flip, to);
        }
    }

    #[inline(always)]
    unsafe fn tile<const PAIRS: usize, const VECS: usize>(
        self,
        left: *const u8,
        stride: usize,
        mut right: *const u8,
        groups: usize,
        start: [int32x4_t; VECS],
        to: *mut int32x4_t,
    ) {
        // SAFETY: `self` proves the instructions; the caller guarantees the reads and writes.
        unsafe {
            // Two rows by two columns each, for the two halves of the vectors of columns.
            let mut sums = [[[vdupq_n_s32(0); 2]; VECS]; PAIRS];
            for group in 0..groups {
                let mut columns = [[vdupq_n_u8(0); 2]; VECS];
                for v in 0..VECS {
                    columns[v] = [vld1q_u8(right.add(32 * v)), vld1q_u8(right.add(32 * v + 16))];
                }
                for pair in 0..PAIRS {
                    let rows = vld1q_u8(left.add(2 * pair * stride + 16 * group));
                    for v in 0..VECS {
                        for half in 0..2 {
                            // The intrinsic is not stable.
                            asm!(
                                "smmla {0:v}.4s, {1:v}.16b, {2:v}.16b",
                                inout(vreg) sums[pair][v][half],
                                in(vreg) rows,
                                in(vreg) columns[v][half],
                                options(pure, nomem, nostack, preserves_flags)
                            );
                        }
                    }
                }
                right = right.add(32 * VECS);
            }
            for pair in 0..PAIRS {
                for v in 0..VECS {
                    let [low, high] = sums[pair][v];
                    let (low, high) = (vreinterpretq_s64_s32(low), vreinterpretq_s64_s32(high));
                    let rows = [vtrn1q_s64(low, high), vtrn2q_s64(low, high)];
                    for row in 0..2 {
                        let sum = vaddq_s32(vreinterpretq_s32_s64(rows[row]), start[v]);
                        to.add((2 * pair + row) * VECS + v).write(sum);
                    }
                }
            }
        }
    }
}
