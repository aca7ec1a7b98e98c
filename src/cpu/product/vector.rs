//! One row times a matrix with contiguous columns: each column is read once, in place.

use crate::cpu::kernels::float::{Float, Floats};
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::with_floats;

/// `out[i] = sum_k vector[k] * lanes[i][k]` for lanes that are contiguous along the depth: one row times a transposed
/// matrix. Each sum has the order of [`Simd::sum`] over four strides.
pub fn dot_lanes(isa: Isa, vector: &[f32], lanes: Floats, lane_stride: usize, out: &mut [f32]) {
    with_floats!(lanes, lanes => isa.run(DotLanes { vector, lanes, lane_stride, out }));
}

struct DotLanes<'a, T> {
    vector: &'a [f32],
    lanes: &'a [T],
    lane_stride: usize,
    out: &'a mut [f32],
}

impl<T: Float> Kernel for DotLanes<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        const UNROLL: usize = 4;
        let DotLanes { vector, lanes, lane_stride, out } = self;
        for (i, out) in out.iter_mut().enumerate() {
            let lane = &lanes[i * lane_stride..][..vector.len()];
            let mut sums = [simd.splat(0.0); UNROLL];
            let step = UNROLL * S::LANES;
            let body = vector.len() / step * step;
            for (x, y) in vector[..body].chunks_exact(step).zip(lane[..body].chunks_exact(step)) {
                for (v, sum) in sums.iter_mut().enumerate() {
                    let at = v * S::LANES..(v + 1) * S::LANES;
                    *sum = simd.mul_add(simd.load(&x[at.clone()]), T::load(simd, &y[at]), *sum);
                }
            }
            let sum = simd.add(simd.add(sums[0], sums[1]), simd.add(sums[2], sums[3]));
            let mut sum = simd.sum(sum);
            for (x, y) in vector[body..].iter().zip(&lane[body..]) {
                sum = simd.mul_add_scalar(*x, y.to_f32(), sum);
            }
            *out = sum;
        }
    }
}
