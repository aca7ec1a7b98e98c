//! Folds of contiguous rows: blocks are summed in float32 vectors, and their sums joined in float64. The error of a sum
//! is a few ULP (float32) of the sum of its terms' magnitudes.

use crate::cpu::simd::{MAX_LANES, Simd, math};

/// Elements summed in float32: 16 per lane in four vectors of 16 lanes.
const SUMMED: usize = 1024;

/// Vectors summed side by side.
const UNROLL: usize = 4;

/// The largest element that is not NaN; -infinity if there is none.
#[inline(always)]
pub fn largest<S: Simd>(simd: S, x: &[f32]) -> f32 {
    let mut best = [simd.splat(f32::NEG_INFINITY); UNROLL];
    if x.len() < S::LANES {
        return x.iter().fold(f32::NEG_INFINITY, |best, &x| if x > best { x } else { best });
    }
    let quads = x.chunks_exact(UNROLL * S::LANES);
    let rest = quads.remainder().chunks_exact(S::LANES);
    for quad in quads {
        for (best, x) in best.iter_mut().zip(quad.chunks_exact(S::LANES)) {
            *best = simd.max(simd.load(x), *best);
        }
    }
    for (best, x) in best.iter_mut().zip(rest) {
        *best = simd.max(simd.load(x), *best);
    }
    // Overlaps what was read.
    best[3] = simd.max(simd.load(&x[x.len() - S::LANES..]), best[3]);
    let mut lanes = [f32::NEG_INFINITY; MAX_LANES];
    simd.store(simd.max(simd.max(best[0], best[1]), simd.max(best[2], best[3])), &mut lanes);
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] = if lanes[i + half] > lanes[i] { lanes[i + half] } else { lanes[i] };
        }
    }
    lanes[0]
}

/// `x *= factor` for each element.
#[inline(always)]
pub fn scale<S: Simd>(simd: S, x: &mut [f32], factor: f32) {
    let factor = simd.splat(factor);
    let mut blocks = x.chunks_exact_mut(S::LANES);
    for x in &mut blocks {
        simd.store(simd.mul(simd.load(x), factor), x);
    }
    let tail = blocks.into_remainder();
    simd.store_partial(simd.mul(simd.load_partial(tail), factor), tail);
}

/// Computes `out = exp(x + shift)` and returns the sum, for at most a few hundred elements, and results up to 1. Results
/// below the smallest normal float are 0.
#[inline(always)]
pub fn powers<S: Simd>(simd: S, x: &[f32], shift: f32, out: &mut [f32]) -> f32 {
    let out = &mut out[..x.len()];
    let shift = simd.splat(shift);
    let mut sums = [simd.splat(0.0); 2];
    let pairs = x.chunks_exact(2 * S::LANES);
    let tail = pairs.remainder();
    let start = x.len() - tail.len();
    let (body, rest) = out.split_at_mut(start);
    for (x, out) in pairs.zip(body.chunks_exact_mut(2 * S::LANES)) {
        for (v, sum) in sums.iter_mut().enumerate() {
            let power = math::exp_nonpositive(simd, simd.add(simd.load(&x[v * S::LANES..]), shift));
            simd.store(power, &mut out[v * S::LANES..]);
            *sum = simd.add(*sum, power);
        }
    }
    for (x, out) in tail.chunks(S::LANES).zip(rest.chunks_mut(S::LANES)) {
        // Lanes beyond the end are exp(0), times 0.
        let inside = simd.load_partial(&[1.0; MAX_LANES][..x.len()]);
        let power = math::exp_nonpositive(simd, simd.mul_add(shift, inside, simd.load_partial(x)));
        simd.store_partial(power, out);
        sums[0] = simd.mul_add(power, inside, sums[0]);
    }
    simd.sum(simd.add(sums[0], sums[1]))
}

/// The terms of a sum.
pub trait Term: Copy {
    /// Adds the terms of `x` to `sum`.
    fn add<S: Simd>(self, simd: S, x: S::F32, sum: S::F32) -> S::F32;
    /// The term of a single element.
    fn of(self, x: f32) -> f32;
}

/// The elements themselves.
#[derive(Clone, Copy)]
pub struct Plain;

impl Term for Plain {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, x: S::F32, sum: S::F32) -> S::F32 {
        simd.add(x, sum)
    }
    #[inline(always)]
    fn of(self, x: f32) -> f32 {
        x
    }
}

/// The squares of the differences from a number.
#[derive(Clone, Copy)]
pub struct SquaresAbout(pub f32);

impl Term for SquaresAbout {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, x: S::F32, sum: S::F32) -> S::F32 {
        let difference = simd.add(x, simd.splat(-self.0));
        simd.mul_add(difference, difference, sum)
    }
    #[inline(always)]
    fn of(self, x: f32) -> f32 {
        (x - self.0) * (x - self.0)
    }
}

/// The sum of the terms of a row.
#[inline(always)]
pub fn sum<S: Simd>(simd: S, x: &[f32], term: impl Term) -> f64 {
    let mut total = 0.0;
    for x in x.chunks(SUMMED) {
        let mut sums = [simd.splat(0.0); UNROLL];
        let quads = x.chunks_exact(UNROLL * S::LANES);
        let rest = quads.remainder().chunks_exact(S::LANES);
        let tail = rest.remainder();
        for quad in quads {
            for (sum, x) in sums.iter_mut().zip(quad.chunks_exact(S::LANES)) {
                *sum = term.add(simd, simd.load(x), *sum);
            }
        }
        for x in rest {
            sums[0] = term.add(simd, simd.load(x), sums[0]);
        }
        let tail = tail.iter().fold(0.0, |sum, &x| sum + term.of(x));
        total += (simd.sum(simd.add(simd.add(sums[0], sums[1]), simd.add(sums[2], sums[3]))) + tail) as f64;
    }
    total
}
