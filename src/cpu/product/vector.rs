//! One row times a matrix with contiguous columns or rows: each is read once, in place.

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

/// `out[i] = sum_k vector[k] * rows[k][i]` for rows that are contiguous: one row times a matrix. Each sum has the order of
/// the rows.
pub fn add_rows(isa: Isa, vector: &[f32], rows: Floats, row_stride: usize, out: &mut [f32]) {
    out.fill(0.0);
    with_floats!(rows, rows => isa.run(AddRows { vector, rows, row_stride, out }));
}

/// Rows that are read together: a core follows as many streams through memory.
const TOGETHER: usize = 8;

struct AddRows<'a, T> {
    vector: &'a [f32],
    rows: &'a [T],
    row_stride: usize,
    out: &'a mut [f32],
}

impl<T: Float> Kernel for AddRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let AddRows { vector, rows, row_stride, out } = self;
        let (blocks, rest) = vector.as_chunks::<TOGETHER>();
        let mut sums = Sums { simd, out };
        for (index, factors) in blocks.iter().enumerate() {
            sums.add(*factors, std::array::from_fn(|k| &rows[(index * TOGETHER + k) * row_stride..]));
        }
        for (k, factor) in (blocks.len() * TOGETHER..).zip(rest) {
            sums.add([*factor], [&rows[k * row_stride..]]);
        }
    }
}

/// Sums to which rows are added.
struct Sums<'a, S> {
    simd: S,
    out: &'a mut [f32],
}

impl<S: Simd> Sums<'_, S> {
    #[inline(always)]
    fn add<T: Float, const COUNT: usize>(&mut self, factors: [f32; COUNT], rows: [&[T]; COUNT]) {
        let simd = self.simd;
        let rows = rows.map(|row| &row[..self.out.len()]);
        let wide = factors.map(|factor| simd.splat(factor));
        let body = self.out.len() / S::LANES * S::LANES;
        let (whole, rest) = self.out.split_at_mut(body);
        for (index, out) in whole.chunks_exact_mut(S::LANES).enumerate() {
            let mut sum = simd.load(out);
            for k in 0..COUNT {
                sum = simd.mul_add(wide[k], T::load(simd, &rows[k][index * S::LANES..]), sum);
            }
            simd.store(sum, out);
        }
        for (column, out) in (body..).zip(rest) {
            for k in 0..COUNT {
                *out = simd.mul_add_scalar(factors[k], rows[k][column].to_f32(), *out);
            }
        }
    }
}
