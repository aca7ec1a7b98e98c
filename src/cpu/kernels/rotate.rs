//! Rotary position embedding.

use crate::cpu::simd::{Kernel, Simd};

/// Rotates the pairs of features of some neighboring rows.
pub struct Rotate<'a> {
    /// The rows.
    pub x: &'a [f32],
    /// The same rows of the output.
    pub out: &'a mut [f32],
    /// Elements per row.
    pub width: usize,
    /// The index of the first row.
    pub first: usize,
    /// Rows of `pairs` cosines.
    pub cos: &'a [f32],
    /// The sines.
    pub sin: &'a [f32],
    /// Pairs of features to rotate; further features are copied.
    pub pairs: usize,
    /// The dimensions of the rows, and the distances of their cosines in rows.
    pub places: [(usize, usize); 3],
    /// Whether the features of a pair are neighbors; otherwise, they are in different halves.
    pub interleaved: bool,
}

impl Kernel for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Rotate { x, out, width, first, cos, sin, pairs, places, interleaved } = self;
        for (row, (x, out)) in (first..).zip(x.chunks_exact(width).zip(out.chunks_exact_mut(width))) {
            let [_, (middle, _), (inner, _)] = places;
            let index = [row / (middle * inner), row / inner % middle, row % inner];
            let start: usize = index.iter().zip(places).map(|(at, (_, stride))| at * stride).sum();
            let (cos, sin) = (&cos[start * pairs..][..pairs], &sin[start * pairs..][..pairs]);
            let (turned, kept) = out.split_at_mut(2 * pairs);
            kept.copy_from_slice(&x[2 * pairs..]);
            let angles = cos.iter().zip(sin);
            if interleaved {
                let pairs = turned.as_chunks_mut::<2>().0.iter_mut().zip(x.as_chunks::<2>().0);
                for ((out, [a, b]), (cos, sin)) in pairs.zip(angles) {
                    *out = [a * cos - b * sin, a * sin + b * cos];
                }
                continue;
            }
            let (real, imaginary) = turned.split_at_mut(pairs);
            let (a, b) = x[..2 * pairs].split_at(pairs);
            let results = real.iter_mut().zip(imaginary);
            for ((results, (a, b)), (cos, sin)) in results.zip(a.iter().zip(b)).zip(angles) {
                (*results.0, *results.1) = (a * cos - b * sin, a * sin + b * cos);
            }
        }
    }
}
