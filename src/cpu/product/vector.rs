//! One row times a matrix with contiguous columns or rows: each is read once, in place.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

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
    with_floats!(rows, rows => isa.run(AddRows { vector, rows, row_stride, out }));
}

/// Rows that are read together: a core follows as many streams through memory.
const TOGETHER: usize = 8;

/// Vectors of sums that stay in registers while the rows are read one after another.
const MOST: usize = 16;

/// Prefetch distance in bytes of short rows. From memory, 1024 rows of 64 floats took half of the time with it.
const AHEAD: usize = 8 << 10;

/// Bytes of a cache line.
const LINE: usize = 64;

struct AddRows<'a, T> {
    vector: &'a [f32],
    rows: &'a [T],
    row_stride: usize,
    out: &'a mut [f32],
}

impl<T: Float> Kernel for AddRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        match self.out.len().div_ceil(S::LANES) {
            0 => {}
            1 => self.short::<S, 1>(simd),
            2 => self.short::<S, 2>(simd),
            3..=4 => self.short::<S, 4>(simd),
            5..=8 => self.short::<S, 8>(simd),
            9..=MOST if S::REGISTERS > MOST => self.short::<S, MOST>(simd),
            _ => self.long(simd),
        }
    }
}

impl<T: Float> AddRows<'_, T> {
    /// Adds rows of at most `VECTORS` vectors: short stretches of several rows would not be prefetched in time.
    #[inline(always)]
    fn short<S: Simd, const VECTORS: usize>(&mut self, simd: S) {
        let (len, mut sums) = (self.out.len(), [simd.splat(0.0); VECTORS]);
        // Vectors overlap where there are fewer columns.
        let start = |v: usize| (v * S::LANES).min(len.saturating_sub(S::LANES));
        for (k, &factor) in self.vector.iter().enumerate() {
            let (row, factor) = (&self.rows[k * self.row_stride..][..len], simd.splat(factor));
            for v in 0..VECTORS {
                if (v * S::LANES).is_multiple_of(LINE / size_of::<T>()) {
                    let ahead = row.as_ptr().wrapping_add(start(v) + AHEAD / size_of::<T>());
                    simd.prefetch(ahead.cast());
                }
                // SAFETY: the row has `len` elements.
                let columns = unsafe { T::load_first(simd, row.as_ptr().add(start(v)), len.min(S::LANES)) };
                sums[v] = simd.mul_add(factor, columns, sums[v]);
            }
        }
        for v in 0..VECTORS {
            simd.store_partial(sums[v], &mut self.out[start(v)..]);
        }
    }

    #[inline(always)]
    fn long<S: Simd>(self, simd: S) {
        let AddRows { vector, rows, row_stride, out } = self;
        out.fill(0.0);
        let (blocks, rest) = vector.as_chunks::<TOGETHER>();
        let mut sums = Sums { simd, row_stride, out };
        for (index, factors) in blocks.iter().enumerate() {
            sums.add(*factors, &rows[index * TOGETHER * row_stride..]);
        }
        for (k, factor) in (blocks.len() * TOGETHER..).zip(rest) {
            sums.add([*factor], &rows[k * row_stride..]);
        }
    }
}

/// Sums to which rows are added.
struct Sums<'a, S> {
    simd: S,
    row_stride: usize,
    out: &'a mut [f32],
}

impl<S: Simd> Sums<'_, S> {
    /// Adds the first `COUNT` rows, and prefetches as many after them: streams end at the ends of pages.
    #[inline(always)]
    fn add<T: Float, const COUNT: usize>(&mut self, factors: [f32; COUNT], from: &[T]) {
        let (simd, len) = (self.simd, self.out.len());
        let (mut rows, mut wide) = ([from; COUNT], [simd.splat(0.0); COUNT]);
        for k in 0..COUNT {
            (rows[k], wide[k]) = (&from[k * self.row_stride..][..len], simd.splat(factors[k]));
        }
        let body = len / S::LANES * S::LANES;
        let (whole, rest) = self.out.split_at_mut(body);
        for (index, out) in whole.chunks_exact_mut(S::LANES).enumerate() {
            let (at, mut sum) = (index * S::LANES, simd.load(out));
            for k in 0..COUNT {
                if at.is_multiple_of(LINE / size_of::<T>()) {
                    simd.prefetch_l2(rows[k].as_ptr().wrapping_add(COUNT * self.row_stride + at).cast());
                }
                sum = simd.mul_add(wide[k], T::load(simd, &rows[k][at..]), sum);
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
