//! Transposition of matrices of floats in squares that stay in registers.

use crate::cpu::simd::Simd;

/// `to[c * to_stride + r] = from[r * from_stride + c]` for a matrix of `rows` by `cols`.
///
/// # Panics
/// If a slice is shorter than that.
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
        for (r, row) in from.chunks(from_stride.max(1)).take(rows).enumerate() {
            row[..cols].iter().enumerate().for_each(|(c, &x)| to[c * to_stride + r] = x);
        }
        return;
    }
    assert!((rows - 1) * from_stride + cols <= from.len() && (cols - 1) * to_stride + rows <= to.len());
    // The last squares of a row or column overlap the ones before.
    for r in (0..rows).step_by(S::LANES).map(|r| r.min(rows - S::LANES)) {
        for c in (0..cols).step_by(S::LANES).map(|c| c.min(cols - S::LANES)) {
            let (from, to) = (from[r * from_stride + c..].as_ptr(), to[c * to_stride + r..].as_mut_ptr());
            // SAFETY: the square lies inside of both matrices, whose ends were checked above.
            unsafe { simd.transpose_ptr(from, from_stride, to, to_stride) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::{Isa, Kernel};

    struct Turn<'a>(&'a [f32], [usize; 2], &'a mut [f32]);

    impl Kernel for Turn<'_> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let Turn(from, [rows, cols], to) = self;
            transpose(simd, from, cols + 1, [rows, cols], to, rows + 2);
        }
    }

    #[test]
    fn every_size_at_the_edges_of_squares() {
        for isa in Isa::available() {
            for rows in [1, 3, 4, 5, 8, 15, 16, 17, 33] {
                for cols in [1, 4, 7, 8, 9, 16, 31, 40] {
                    let from: Vec<f32> = (0..rows * (cols + 1)).map(|i| i as f32).collect();
                    let mut to = vec![-1.0; cols * (rows + 2)];
                    isa.run(Turn(&from, [rows, cols], &mut to));
                    for (i, &x) in to.iter().enumerate() {
                        let (c, r) = (i / (rows + 2), i % (rows + 2));
                        let expected = if r < rows { (r * (cols + 1) + c) as f32 } else { -1.0 };
                        assert_eq!(x, expected, "{rows} by {cols} at {r}, {c}, {isa:?}");
                    }
                }
            }
        }
    }
}
