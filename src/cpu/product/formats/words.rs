//! Words of 32 bits: a word of a left row in all lanes times a vector of words of the right operand, one per column.
//!
//! Where one instruction multiplies bytes and adds four products (VNNI), a word is four neighboring bytes of a row or
//! column, unsigned in rows. Elsewhere it is two integers of 16 bits: their products are exact, and a broadcast from
//! memory takes no slot of the units that multiply, as widening bytes in the loop would.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::Format;
use crate::cpu::product::tile::opaque;
use crate::cpu::simd::dot::Dot;

/// The format of a level.
#[derive(Clone, Copy)]
pub struct Words<D>(pub D);

/// The vectors of a panel: sums of 6 rows by 4 vectors of 512 bits, or by 2 of 256 bits, fit into the registers together
/// with the factors.
const fn vectors(lanes: usize) -> usize {
    if lanes == 16 { 4 } else { 2 }
}

/// The rows of a register tile with 1, 2 and 4 vectors.
const fn rows(lanes: usize) -> [usize; 3] {
    match lanes {
        16 => [12, 12, 6],
        8 => [6, 6, 6],
        _ => [2, 2, 2],
    }
}

// SAFETY: `tile` reads whole words of the rows and vectors of the panel, and writes the sums of its rows.
unsafe impl<D: Dot> Format for Words<D> {
    type Integers = D;
    const NAME: &'static str = if D::PER_WORD == 4 { "quads of bytes" } else { "pairs of 16 bits" };
    const GROUP: usize = D::PER_WORD;
    const LEFT_SIZE: usize = 4 / D::PER_WORD;
    const RIGHT_SIZE: usize = 4 / D::PER_WORD;
    const VECTORS: usize = vectors(D::LANES);
    const UNITS: [usize; 3] = rows(D::LANES);

    #[inline(always)]
    fn integers(self) -> D {
        self.0
    }

    #[inline(always)]
    fn pack_left(self, row: &[u8], flip: u8, index: usize, stride: usize, to: &mut [u8]) {
        let to = &mut to[index * stride..][..row.len() * Self::LEFT_SIZE];
        if D::PER_WORD == 4 {
            for (to, &byte) in to.iter_mut().zip(row) {
                *to = byte ^ flip;
            }
        } else {
            for (to, &byte) in to.as_chunks_mut().0.iter_mut().zip(row) {
                *to = [byte ^ flip, 0];
            }
        }
    }

    #[inline(always)]
    fn pack_right(self, numbers: &[i16], columns: usize, to: &mut [u8]) {
        for (column, word) in to.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let number = |depth: usize| numbers[depth * columns + column].to_le_bytes();
            *word = match D::PER_WORD {
                4 => [0, 1, 2, 3].map(|depth| number(depth)[0]),
                _ => [number(0)[0], number(0)[1], number(1)[0], number(1)[1]],
            };
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
        // Three rows share a pointer, as in the tile of floats.
        let mut rows_at: [*const u8; 4] = std::array::from_fn(|i| left.wrapping_add(3 * i * stride));
        for _ in 0..groups {
            // SAFETY: the caller guarantees that the panel and the rows have another word.
            unsafe {
                let mut factors = [dot.load(right); VECS];
                for v in 1..VECS {
                    factors[v] = dot.load(right.add(v * D::BYTES));
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
            right = right.wrapping_add(VECS * D::BYTES);
        }
        for row in 0..ROWS {
            for v in 0..VECS {
                // SAFETY: the caller guarantees that the sums of these rows can be written.
                unsafe { to.add(row * VECS + v).write(sums[row][v]) };
            }
        }
    }
}
