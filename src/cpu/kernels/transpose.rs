//! Transposes matrices in squares that stay in registers.

use crate::cpu::simd::Simd;

/// `to[c * to_stride + r] = from[r * from_stride + c]` for a matrix of `rows` by `cols`. Rows of `from` may overlap, or
/// all be the same one (`from_stride` is 0).
///
/// # Panics
/// If a slice is too short.
#[inline(always)]
pub fn transpose<S: Simd>(
    simd: S,
    from: &[f32],
    from_stride: usize,
    [rows, cols]: [usize; 2],
    to: &mut [f32],
    to_stride: usize,
) {
    if rows < S::LANES || cols < S::LANES {
        for r in 0..rows {
            let row = &from[r * from_stride..][..cols];
            row.iter().enumerate().for_each(|(c, &x)| to[c * to_stride + r] = x);
        }
        return;
    }
    assert!((rows - 1) * from_stride + cols <= from.len() && (cols - 1) * to_stride + rows <= to.len());
    // The last squares of a row or column overlap the preceding ones.
    for r in (0..rows).step_by(S::LANES).map(|r| r.min(rows - S::LANES)) {
        for c in (0..cols).step_by(S::LANES).map(|c| c.min(cols - S::LANES)) {
            let (from, to) = (from[r * from_stride + c..].as_ptr(), to[c * to_stride + r..].as_mut_ptr());
            // SAFETY: the square is inside both matrices; their ends were checked above.
            unsafe { simd.transpose_ptr(from, from_stride, to, to_stride) };
        }
    }
}

/// Side of a square of [`transpose_small`], in elements.
pub const SQUARE: usize = 8;

/// `to[r * to_stride + c] = from[c * from_stride + r]` for elements of one or two bytes. `rows` and `cols` are at least
/// [`SQUARE`].
///
/// # Safety
/// All of these elements are readable and writable.
pub unsafe fn transpose_small<const BYTES: usize>(
    from: *const [u8; BYTES],
    from_stride: usize,
    to: *mut [u8; BYTES],
    to_stride: usize,
    [rows, cols]: [usize; 2],
) {
    // The last squares overlap the preceding ones.
    for row in (0..rows).step_by(SQUARE).map(|row| row.min(rows - SQUARE)) {
        for col in (0..cols).step_by(SQUARE).map(|col| col.min(cols - SQUARE)) {
            let mut square = [[0; BYTES]; SQUARE];
            for (c, words) in square.iter_mut().enumerate() {
                // SAFETY: 8 elements of the matrix are `BYTES` words of 8 bytes, and are readable.
                *words = unsafe { from.add((col + c) * from_stride + row).cast::<[u64; BYTES]>().read_unaligned() };
            }
            turn(&mut square);
            for (r, words) in square.iter().enumerate() {
                // SAFETY: as above; they are writable.
                unsafe { to.add((row + r) * to_stride + col).cast::<[u64; BYTES]>().write_unaligned(*words) };
            }
        }
    }
}

/// Transposes a square of elements of `BYTES` bytes, stored as `BYTES` words per row: swaps quarters, then the quarters
/// of each.
#[inline(always)]
fn turn<const BYTES: usize>(square: &mut [[u64; BYTES]; SQUARE]) {
    for distance in [4, 2, 1] {
        let bits = distance * 8 * BYTES;
        for upper in (0..SQUARE).filter(|row| row & distance == 0) {
            let lower = upper + distance;
            if bits == 64 {
                (square[upper][BYTES - 1], square[lower][0]) = (square[lower][0], square[upper][BYTES - 1]);
                continue;
            }
            let low_half = u64::MAX / ((1 << bits) + 1);
            let (uppers, lowers) = square.split_at_mut(lower);
            for (upper, lower) in uppers[upper].iter_mut().zip(&mut lowers[0]) {
                let changed = (*upper >> bits ^ *lower) & low_half;
                *lower ^= changed;
                *upper ^= changed << bits;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::{Isa, Kernel};

    struct Turn<'a>(&'a [f32], usize, [usize; 2], &'a mut [f32]);

    impl Kernel for Turn<'_> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let Turn(from, stride, [rows, cols], to) = self;
            transpose(simd, from, stride, [rows, cols], to, rows + 2);
        }
    }

    #[test]
    fn every_size_at_the_edges_of_squares() {
        for isa in Isa::available() {
            for rows in [1, 3, 4, 5, 8, 15, 16, 17, 33] {
                for cols in [1, 4, 7, 8, 9, 16, 31, 40] {
                    // Apart, adjacent, overlapping, and the same row again and again; without an element to spare.
                    for stride in [cols + 1, cols, cols / 2, 0] {
                        let from: Vec<f32> = (0..(rows - 1) * stride + cols).map(|i| i as f32).collect();
                        let mut to = vec![-1.0; cols * (rows + 2)];
                        isa.run(Turn(&from, stride, [rows, cols], &mut to));
                        for (i, &x) in to.iter().enumerate() {
                            let (c, r) = (i / (rows + 2), i % (rows + 2));
                            let expected = if r < rows { (r * stride + c) as f32 } else { -1.0 };
                            assert_eq!(x, expected, "{rows} by {cols}, {stride} apart, at {r}, {c}, {isa:?}");
                        }
                    }
                }
            }
        }
    }
}
