//! Words of 32 bits: a word of a left row in all lanes times a vector of words of the right operand, one per column.
//!
//! Where one instruction multiplies bytes and adds four products (VNNI), a word is four neighboring bytes of a row or
//! column; those of rows are signed or not, as the instruction requires. Elsewhere it is two integers of 16 bits, whose
//! products are exact. Rows are packed as such: a broadcast from memory takes no slot of the units that multiply, as
//! widening would. Columns stay bytes in memory, for products of few rows, which wait for it. For many rows, a panel is
//! expanded once.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::blocks::{BlockFormat, DigitForm};
use super::{Format, FormatSizes, flipped};
use crate::cpu::product::tile::opaque;
use crate::cpu::simd::dot::Dot;

/// The format of a level.
#[derive(Clone, Copy)]
pub struct Words<D, const EXPANDED: bool>(pub D);

// SAFETY: `tile` reads whole words of the rows and vectors of the panel, and writes the sums of its rows.
unsafe impl<D: Dot, const EXPANDED: bool> Format for Words<D, EXPANDED> {
    const SIZES: FormatSizes = FormatSizes {
        name: if D::PER_WORD == 4 { "quads of bytes" } else { "pairs of bytes" },
        lanes: D::LANES,
        vectors: if D::LANES == 16 { 4 } else { 2 },
        // The sums, the factors and a product fit into the registers. Pairs take two instructions a product: the compiler
        // does not unroll a loop of more than 22, which then keeps the sums in memory and takes several times as long.
        units: match (D::LANES, D::PER_WORD) {
            (16, 4) => [12, 12, 6],
            (16, _) => [10, 10, 5],
            (8, _) => [6, 6, 6],
            _ => [2, 2, 2],
        },
        unit: 1,
        group: D::PER_WORD,
        together: D::PER_WORD,
        left_size: 4 / D::PER_WORD,
        is_signed: D::IS_SIGNED,
        expands: EXPANDED && D::PER_WORD == 2,
    };

    #[inline(always)]
    fn pack_left(self, row: &[u8], flip: u8, index: usize, stride: usize, to: &mut [u8]) {
        let to = &mut to[index * stride..][..row.len() * Self::SIZES.left_size];
        if D::PER_WORD == 4 {
            flipped(row, flip, to);
        } else {
            for (to, &byte) in to.as_chunks_mut().0.iter_mut().zip(row) {
                *to = [byte ^ flip, 0];
            }
        }
    }

    #[inline(always)]
    unsafe fn tile<const ROWS: usize, const VECS: usize>(
        self,
        left: *const u8,
        stride: usize,
        mut right: *const u8,
        groups: usize,
        start: [D::Sums; VECS],
        to: *mut D::Sums,
    ) {
        let dot = self.0;
        let mut sums = [start; ROWS];
        let vector = if Self::SIZES.expands { D::BYTES } else { D::LANES * D::PER_WORD };
        // Three rows share a pointer, as in the tile of floats.
        let mut rows_at: [*const u8; 4] = std::array::from_fn(|i| left.wrapping_add(3 * i * stride));
        for _ in 0..groups {
            // SAFETY: the caller guarantees that the panel and the rows have another word.
            unsafe {
                let mut factors = [self.load(right); VECS];
                for v in 1..VECS {
                    factors[v] = self.load(right.add(v * vector));
                }
                for row in 0..ROWS {
                    let word = dot.broadcast(rows_at[row / 3].add(row % 3 * stride));
                    for v in 0..VECS {
                        sums[row][v] = dot.multiply_words(sums[row][v], word, factors[v]);
                    }
                }
            }
            for index in 0..4 {
                rows_at[index] = opaque(rows_at[index].wrapping_add(4));
            }
            right = right.wrapping_add(VECS * vector);
        }
        for row in 0..ROWS {
            for v in 0..VECS {
                // SAFETY: the caller guarantees that the sums of these rows can be written.
                unsafe { to.add(row * VECS + v).write(sums[row][v]) };
            }
        }
    }
}

impl<D: Dot, const EXPANDED: bool> Words<D, EXPANDED> {
    /// A vector of words of a panel.
    ///
    /// # Safety
    /// The vector must be readable, with 16 bits per number if the panel is expanded.
    #[inline(always)]
    unsafe fn load(self, from: *const u8) -> D::Bytes {
        // SAFETY: the caller guarantees it.
        unsafe { if EXPANDED { self.0.load(from) } else { self.0.load_words(from) } }
    }
}

// SAFETY: one vector of weights is loaded per word, and the digits of a step are words that the caller has.
unsafe impl<D: Dot, const EXPANDED: bool> BlockFormat for Words<D, EXPANDED> {
    type Integers = D;
    /// With integers of 16 bits, bytes are split; else there is one vector.
    type Factors = [D::Bytes; 2];
    /// Words are broadcast from memory.
    type Digits = *const u8;
    type Partial = D::Sums;
    // In 16 bits, there is room for eight products of two nibbles and signed bytes, of at most 2 * 15 * 128.
    const DIGITS: [DigitForm; 2] = match D::PER_WORD {
        4 => [
            DigitForm { count: 3, bits: 8, most: 512, lift: 0, evens_first: true },
            DigitForm { count: 3, bits: 8, most: 512, lift: if D::IS_SIGNED { 128 } else { 0 }, evens_first: false },
        ],
        _ => [
            DigitForm { count: 3, bits: 8, most: 32, lift: 0, evens_first: true },
            DigitForm { count: 2, bits: 12, most: 32, lift: 0, evens_first: true },
        ],
    };

    #[inline(always)]
    fn integers(self) -> D {
        self.0
    }

    #[inline(always)]
    unsafe fn factors<const NIBBLE: bool>(self, words: *const u8, row: usize) -> [[D::Bytes; 2]; 2] {
        // SAFETY: the caller guarantees the vectors.
        unsafe {
            let first = self.0.load(words);
            if NIBBLE {
                return self.0.nibbles(first).map(|half| [half; 2]);
            }
            let second = self.0.load(words.add(row));
            if D::IS_SIGNED {
                return [[self.0.invert_signs(first); 2], [self.0.invert_signs(second); 2]];
            }
            match D::PER_WORD {
                4 => [[first; 2], [second; 2]],
                _ => [self.0.split::<false>(first), self.0.split::<false>(second)],
            }
        }
    }

    #[inline(always)]
    unsafe fn digits(self, from: *const u8) -> *const u8 {
        from
    }

    #[inline(always)]
    fn open<const NIBBLE: bool>(self, sums: D::Sums) -> D::Sums {
        if NIBBLE { self.0.open_nibbles(sums) } else { sums }
    }

    #[inline(always)]
    unsafe fn multiply<const NIBBLE: bool, const HALF: usize>(
        self,
        open: D::Sums,
        weights: [D::Bytes; 2],
        digits: *const u8,
    ) -> D::Sums {
        let dot = self.0;
        // SAFETY: the caller guarantees the digits.
        unsafe {
            let first = dot.broadcast(digits.add(4 * HALF));
            if NIBBLE {
                return dot.add_nibbles(open, weights[0], first);
            }
            let open = dot.multiply_words(open, weights[0], first);
            match D::PER_WORD {
                4 => open,
                _ => dot.multiply_words(open, weights[1], dot.broadcast(digits.add(8 + 4 * HALF))),
            }
        }
    }

    #[inline(always)]
    fn close<const NIBBLE: bool>(self, sums: D::Sums, open: D::Sums) -> D::Sums {
        if NIBBLE { self.0.close_nibbles(sums, open) } else { open }
    }
}
