//! NEON with dot products: quads of signed bytes. A vector of four quads of a row is multiplied quad by quad with the
//! quads of all columns, so a row takes one load per 16 depths.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::{Format, FormatKernel, FormatSizes, NEON, blocks};
use crate::cpu::simd::dot::NeonDot;
use crate::cpu::simd::{Neon, enter};
use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

/// Proof that this CPU has the dot products and everything that [`Neon`] proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sdot(Neon);

enter!(Sdot, FormatKernel, "neon,dotprod");

impl Sdot {
    /// Returns the format if the CPU has the instructions.
    pub fn detect(neon: Neon) -> Option<Sdot> {
        is_aarch64_feature_detected!("dotprod").then_some(Sdot(neon))
    }
}

// SAFETY: `tile` reads whole groups of the rows and of the panel, and writes the sums of its rows.
unsafe impl Format for Sdot {
    const SIZES: FormatSizes = FormatSizes { name: "quads of bytes, by 16 depths", ..NEON };

    #[inline(always)]
    unsafe fn tile<const ROWS: usize, const VECS: usize>(
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
            let mut sums = [start; ROWS];
            for group in 0..groups {
                let mut rows = [vdupq_n_u8(0); ROWS];
                for row in 0..ROWS {
                    rows[row] = vld1q_u8(left.add(row * stride + 16 * group));
                }
                macro_rules! quads {
                    ($($quad:literal)*) => {$(
                        let mut columns = [vdupq_n_u8(0); VECS];
                        for v in 0..VECS {
                            columns[v] = vld1q_u8(right.add(16 * ($quad * VECS + v)));
                        }
                        for row in 0..ROWS {
                            for v in 0..VECS {
                                // The intrinsic is not stable.
                                asm!(
                                    concat!("sdot {0:v}.4s, {1:v}.16b, {2:v}.4b[", $quad, "]"),
                                    inout(vreg) sums[row][v],
                                    in(vreg) columns[v],
                                    in(vreg) rows[row],
                                    options(pure, nomem, nostack, preserves_flags)
                                );
                            }
                        }
                    )*};
                }
                quads!(0 1 2 3);
                right = right.add(64 * VECS);
            }
            for row in 0..ROWS {
                for v in 0..VECS {
                    to.add(row * VECS + v).write(sums[row][v]);
                }
            }
        }
    }
}

/// Weights in blocks: eight digits of a row are one load, and are multiplied by lane. Three digits of a row and 64 nibbles
/// take 16 vector instructions, 12 of them dot products: 8.0 cycles on Neoverse N1, 4.0 on V2 and 5.4 on Apple M1
/// (llvm-mca). Widening the nibbles to floats and multiplying these takes at least 64 vector instructions.
macro_rules! block_format {
    ($Format:ty) => {
        // SAFETY: one or two vectors of weights are loaded, and eight digits.
        unsafe impl blocks::BlockFormat for $Format {
            blocks::neon_operands!();
            type Partial = int32x4_t;

            #[inline(always)]
            fn open<const NIBBLE: bool>(self, sums: int32x4_t) -> int32x4_t {
                sums
            }

            #[inline(always)]
            unsafe fn multiply<const NIBBLE: bool, const HALF: usize>(
                self,
                mut open: int32x4_t,
                weights: uint8x16_t,
                digits: int8x8_t,
            ) -> int32x4_t {
                // SAFETY: `self` proves the instruction, whose intrinsic is not stable.
                unsafe {
                    asm!(
                        "sdot {0:v}.4s, {1:v}.16b, {2:v}.4b[{3}]",
                        inout(vreg) open,
                        in(vreg) weights,
                        in(vreg) digits,
                        const HALF,
                        options(pure, nomem, nostack, preserves_flags)
                    );
                }
                open
            }

            #[inline(always)]
            fn close<const NIBBLE: bool>(self, _sums: int32x4_t, open: int32x4_t) -> int32x4_t {
                open
            }
        }
    };
}
pub(super) use block_format;

block_format!(Sdot);
