//! How formats multiply rows with packed weights of 4 or 8 bits in blocks. [The frame](super::super::blocks::frame) owns
//! everything else.
//!
//! Rows are [rounded](super::super::blocks::rounding) to integers of some digits. A *step* is eight depths: the weights
//! of a vector of columns, in two halves, times each digit of the rows.

use crate::cpu::simd::dot::Integers;

/// How digits are multiplied with weights.
///
/// Sums of products are exact. Arrays and constants indexed by the size of weights have 4 bits first, then 8.
///
/// # Safety
/// No method accesses memory beyond what it documents.
pub unsafe trait BlockFormat: Copy {
    /// Vectors of sums.
    type Integers: Integers;
    /// Half of the weights of a step, ready to be multiplied.
    type Factors: Copy;
    /// A digit of a row, of the depths of a step.
    type Digits: Copy;
    /// Sums of a piece, or what becomes them.
    type Partial: Copy;
    /// The integers that rows are rounded to, unless to a single digit.
    const DIGITS: [DigitForm; 2];

    /// The operations on sums.
    fn integers(self) -> Self::Integers;

    /// The weights of a step. Nibbles are one vector of words; bytes are two, `row` bytes apart.
    ///
    /// # Safety
    /// The vectors must be readable.
    unsafe fn factors<const NIBBLE: bool>(self, words: *const u8, row: usize) -> [Self::Factors; 2];

    /// The digits of a step.
    ///
    /// # Safety
    /// They must be readable, also when they are multiplied.
    unsafe fn digits(self, from: *const u8) -> Self::Digits;

    /// Starts a partial sum.
    fn open<const NIBBLE: bool>(self, sums: <Self::Integers as Integers>::Sums) -> Self::Partial;

    /// Adds the products of half a step.
    ///
    /// # Safety
    /// As for [`digits`](BlockFormat::digits).
    unsafe fn multiply<const NIBBLE: bool, const HALF: usize>(
        self,
        open: Self::Partial,
        weights: Self::Factors,
        digits: Self::Digits,
    ) -> Self::Partial;

    /// The `sums` passed to [`open`](BlockFormat::open), plus the products added since.
    fn close<const NIBBLE: bool>(
        self,
        sums: <Self::Integers as Integers>::Sums,
        open: Self::Partial,
    ) -> <Self::Integers as Integers>::Sums;
}

/// The digits of the integers that rows are rounded to, and the pieces that are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigitForm {
    /// Number of digits.
    pub count: usize,
    /// Bits per signed digit: 8, or more in two bytes.
    pub bits: usize,
    /// The most depths of a piece, in whole steps: its sums have room, and are exact as floats.
    pub most: usize,
    /// What is subtracted from weights before they are multiplied.
    pub lift: i32,
    /// Whether eight digits are stored as those of even depths, then those of odd ones: like the nibbles of a word of
    /// weights, or the bytes after they were split.
    pub evens_first: bool,
}

impl DigitForm {
    /// Bytes per digit.
    pub const fn size(self) -> usize {
        self.bits.div_ceil(8)
    }
}

/// Digits for products of signed bytes. Of nibbles, 64 times up to 15 * 128, added in quarters, have room in 16 bits.
#[cfg(target_arch = "aarch64")]
pub(super) const SIGNED_BYTES: [DigitForm; 2] = [
    DigitForm { count: 3, bits: 8, most: 64, lift: 0, evens_first: true },
    DigitForm { count: 3, bits: 8, most: 512, lift: 128, evens_first: false },
];

/// What formats of NEON do alike with weights in blocks.
#[cfg(target_arch = "aarch64")]
macro_rules! neon_operands {
    () => {
        type Integers = NeonDot<false>;
        type Factors = uint8x16_t;
        type Digits = int8x8_t;
        const DIGITS: [blocks::DigitForm; 2] = blocks::SIGNED_BYTES;

        #[inline(always)]
        fn integers(self) -> NeonDot<false> {
            NeonDot::new(self.0)
        }

        #[inline(always)]
        unsafe fn factors<const NIBBLE: bool>(self, words: *const u8, row: usize) -> [uint8x16_t; 2] {
            // SAFETY: `self` proves NEON; the caller guarantees the vectors.
            unsafe {
                let first = vld1q_u8(words);
                if NIBBLE {
                    return [vandq_u8(first, vdupq_n_u8(15)), vshrq_n_u8::<4>(first)];
                }
                let sign = vdupq_n_u8(0x80);
                [veorq_u8(first, sign), veorq_u8(vld1q_u8(words.add(row)), sign)]
            }
        }

        #[inline(always)]
        unsafe fn digits(self, from: *const u8) -> int8x8_t {
            // SAFETY: `self` proves NEON; the caller guarantees the digits.
            unsafe { vld1_s8(from.cast()) }
        }
    };
}
#[cfg(target_arch = "aarch64")]
pub(super) use neon_operands;
