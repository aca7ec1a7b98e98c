//! Attention, a block of queries at a time.
//!
//! Processes a block of queries against one block of keys after another. Next to the sums of the output, it keeps the
//! maximum and the sum of the exponentials, and scales the existing sums down whenever the maximum grows. Scores are
//! stored transposed, `[key][query]`: a vector holds one query per lane, maxima and sums need no work across lanes, and
//! the scores already are the packed operand of the product with the values. Keys and values are read in place.

use super::super::finish::InRegisters;
use super::super::masks::{KEY_BLOCK, Mask, apply_mask};
use super::super::matrix::{TypedMatrix, copied};
use super::super::panel_data::PanelData;
use super::super::tile::{Left, Multiply, Panel, Place, multiply, tile_size};
use super::sizes::{Sizes, cap};
use crate::cpu::kernels::float::Float;
use crate::cpu::kernels::transpose::transpose;
use crate::cpu::simd::{Isa, Kernel, Simd, math};
use std::ops::Range;

impl Sizes {
    /// Queries per block of [`Attend`], for kernels of `isa`.
    pub fn query_block(&self, isa: Isa) -> usize {
        block_width(isa)
    }

    /// Scratch length in floats that a block of [`Attend`] needs, for kernels of `isa`.
    pub fn scratch(&self, isa: Isa, is_f32: bool) -> usize {
        let (width, keys) = (block_width(isa), self.key_block());
        let wide = if is_f32 { 0 } else { self.wide_floats() };
        // Queries, sums of the output, statistics, scores and two masks for them.
        width * (self.depth + self.columns + 3 + 3 * KEY_BLOCK.max(keys)) + wide
    }

    fn key_block(&self) -> usize {
        self.keys.min(KEY_BLOCK)
    }

    /// Floats for widened blocks of keys and values.
    fn wide_floats(&self) -> usize {
        self.key_block() * (self.depth + self.columns)
    }
}

/// Queries per block: the columns of a register tile.
fn block_width(isa: Isa) -> usize {
    tile_size(isa).cols
}

/// The attention of a block of queries; run it with [`Isa::run`].
pub struct Attend<'a, T> {
    /// The instruction set that runs it.
    pub isa: Isa,
    /// Sizes of the whole matrices.
    pub sizes: Sizes,
    /// Number of queries in this block, at most [`Sizes::query_block`].
    pub queries: usize,
    /// The factor of the products.
    pub scale: f32,
    /// The scaled products become `softcap * tanh(product)`; 0 leaves them unchanged.
    pub softcap: f32,
    /// Whether a row becomes zeros if its softmax is NaN.
    pub empty_is_zero: bool,
    /// The queries of this block.
    pub query: TypedMatrix<'a, f32>,
    /// All keys.
    pub key: TypedMatrix<'a, T>,
    /// All values.
    pub value: TypedMatrix<'a, T>,
    /// The keys to process, at least one.
    pub keys: Range<usize>,
    /// Masks, applied in this order.
    pub masks: &'a [Option<Mask<'a>>],
    /// `[queries, columns]`.
    pub out: &'a mut [f32],
    /// [`Sizes::scratch`] floats.
    pub scratch: &'a mut [f32],
}

impl<T: Float> Kernel for Attend<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.query.check(self.queries, self.sizes.depth);
        self.key.check(self.sizes.keys, self.sizes.depth);
        self.value.check(self.sizes.keys, self.sizes.columns);
        if self.queries <= S::LANES {
            self.block::<S, 1>(simd);
        } else {
            self.block::<S, 2>(simd);
        }
    }
}

impl<T: Float> Attend<'_, T> {
    /// Processes all queries of the block at once, `VECS` vectors of them.
    #[inline(always)]
    fn block<S: Simd, const VECS: usize>(self, simd: S) {
        let Attend { isa, sizes, queries, scale, softcap, empty_is_zero, query, key, value, keys, masks, out, scratch } =
            self;
        let Sizes { depth, columns, .. } = sizes;
        let width = VECS * S::LANES;
        let (packed, rest) = scratch.split_at_mut(depth * width);
        let (sums, rest) = rest.split_at_mut(columns * width);
        let (statistics, rest) = rest.split_at_mut(3 * width);
        let (scores, rest) = rest.split_at_mut(KEY_BLOCK * width);
        let (tiles, rest) = rest.split_at_mut(2 * KEY_BLOCK * width);
        // Empty if keys and values are float32.
        let (wide_key, wide_value) = rest.split_at_mut(rest.len().min(sizes.key_block() * depth));
        pack_queries(simd, query, [queries, depth], packed, width);
        let mut statistics = Statistics::<VECS>::new::<S>(simd, statistics);
        for first in keys.clone().step_by(KEY_BLOCK) {
            let count = KEY_BLOCK.min(keys.end - first);
            let scores = &mut scores[..count * width];
            let block = widened(simd, key.after(first), [count, depth], wide_key);
            multiply_rows(isa, block, [count, depth, width], packed, Sums::Scaled(scale), scores);
            cap(simd, softcap, scores);
            for mask in masks.iter().flatten() {
                apply_mask(simd, mask, first, [count, queries], scores, tiles, width);
            }
            let correction = statistics.update(simd, scores);
            let block = widened(simd, value.after(first), [count, columns], wide_value);
            let turned = TypedMatrix { data: block.data, row: block.col, col: block.row };
            let then = if first > keys.start { Sums::Added } else { Sums::Scaled(1.0) };
            if matches!(then, Sums::Added) {
                scale_columns(simd, correction, sums);
            }
            multiply_rows(isa, turned, [columns, count, width], scores, then, sums);
        }
        statistics.finish(simd, empty_is_zero, sums);
        transpose(simd, &*sums, width, [columns, queries], out, columns);
    }
}

/// Vector number `v` of `from`.
#[inline(always)]
fn vector<S: Simd>(simd: S, from: &[f32], v: usize) -> S::F32 {
    simd.load(&from[v * S::LANES..])
}

/// Maximum, sum of exponentials and shift of the queries of a block.
struct Statistics<'a, const VECS: usize> {
    max: &'a mut [f32],
    sum: &'a mut [f32],
    /// Minus the maximum, or 0 if that is -infinity: the exponentials are then 0 instead of NaN.
    shift: &'a mut [f32],
}

impl<'a, const VECS: usize> Statistics<'a, VECS> {
    #[inline(always)]
    fn new<S: Simd>(_: S, memory: &'a mut [f32]) -> Self {
        let (max, rest) = memory.split_at_mut(VECS * S::LANES);
        let (sum, shift) = rest.split_at_mut(VECS * S::LANES);
        max.fill(f32::NEG_INFINITY);
        sum.fill(0.0);
        Statistics { max, sum, shift }
    }

    /// Replaces the scores of another block of keys by their exponentials; returns the correction factors of the
    /// previous sums.
    #[inline(always)]
    fn update<S: Simd>(&mut self, simd: S, scores: &mut [f32]) -> [S::F32; VECS] {
        const UNROLL: usize = 4;
        let width = VECS * S::LANES;
        let mut best = [[simd.splat(f32::NEG_INFINITY); VECS]; UNROLL];
        for rows in scores.chunks(UNROLL * width) {
            for (row, best) in rows.chunks_exact(width).zip(&mut best) {
                for (v, best) in best.iter_mut().enumerate() {
                    *best = simd.max(*best, vector(simd, row, v));
                }
            }
        }
        let mut correction = [simd.splat(0.0); VECS];
        for (v, correction) in correction.iter_mut().enumerate() {
            *correction = vector(simd, self.max, v);
            let best = simd.max(simd.max(best[0][v], best[1][v]), simd.max(best[2][v], best[3][v]));
            simd.store(simd.max(*correction, best), &mut self.max[v * S::LANES..]);
        }
        for (shift, &max) in self.shift.iter_mut().zip(&*self.max) {
            *shift = if max == f32::NEG_INFINITY { 0.0 } else { -max };
        }
        let mut shift = [simd.splat(0.0); VECS];
        shift.iter_mut().enumerate().for_each(|(v, shift)| *shift = vector(simd, self.shift, v));
        let mut sums = [[simd.splat(0.0); VECS]; UNROLL];
        for rows in scores.chunks_mut(UNROLL * width) {
            for (row, sums) in rows.chunks_exact_mut(width).zip(&mut sums) {
                for (v, sum) in sums.iter_mut().enumerate() {
                    let power = math::exp_nonpositive(simd, simd.add(vector(simd, row, v), shift[v]));
                    simd.store(power, &mut row[v * S::LANES..]);
                    *sum = simd.add(*sum, power);
                }
            }
        }
        for (v, correction) in correction.iter_mut().enumerate() {
            *correction = math::exp_nonpositive(simd, simd.add(*correction, shift[v]));
            let sum = simd.add(simd.add(sums[0][v], sums[1][v]), simd.add(sums[2][v], sums[3][v]));
            let sum = simd.mul_add(vector(simd, self.sum, v), *correction, sum);
            simd.store(sum, &mut self.sum[v * S::LANES..]);
        }
        correction
    }

    /// Divides each query's output by the sum of its exponentials.
    #[inline(always)]
    fn finish<S: Simd>(self, _: S, empty_is_zero: bool, out: &mut [f32]) {
        let width = VECS * S::LANES;
        let factors = self.shift;
        factors.iter_mut().zip(&*self.sum).for_each(|(factor, sum)| *factor = 1.0 / sum);
        for row in out.chunks_exact_mut(width) {
            row.iter_mut().zip(&*factors).for_each(|(x, factor)| *x *= factor);
            if empty_is_zero {
                for (x, &sum) in row.iter_mut().zip(&*self.sum) {
                    *x = if sum == 0.0 || sum.is_nan() { 0.0 } else { *x };
                }
            }
        }
    }
}

/// `sums *= correction`, with a factor per column; each row of `sums` has `VECS` vectors.
#[inline(always)]
fn scale_columns<S: Simd, const VECS: usize>(simd: S, correction: [S::F32; VECS], sums: &mut [f32]) {
    for row in sums.chunks_exact_mut(VECS * S::LANES) {
        for (v, &factor) in correction.iter().enumerate() {
            simd.store(simd.mul(vector(simd, row, v), factor), &mut row[v * S::LANES..]);
        }
    }
}

/// The destination of products.
enum Sums {
    /// Multiplied by a factor and stored.
    Scaled(f32),
    /// Added to the existing sums.
    Added,
}

/// Writes or adds the products of `a`, which is `[rows, depth]`, and `b`, which has `width` columns.
fn multiply_rows(
    isa: Isa,
    a: TypedMatrix<f32>,
    [rows, depth, width]: [usize; 3],
    b: &[f32],
    sums: Sums,
    out: &mut [f32],
) {
    assert!(out.len() >= rows * width);
    let finish = match sums {
        Sums::Scaled(1.0) | Sums::Added => None,
        Sums::Scaled(scale) => Some(Place { ops: InRegisters::scaled(scale), at: [0, 0], offset: 0, stride: width }),
    };
    let product = Multiply {
        left: Left { data: a.data, stride: a.row, step: a.col },
        rows,
        panels: &[Panel { data: PanelData::F32(b), step: width, next: 0 }],
        cols: width,
        depth,
        out: out.as_mut_ptr(),
        stride: width,
        panel_stride: width,
        accumulate: matches!(sums, Sums::Added),
        finish,
    };
    // SAFETY: `out` was just checked to have `rows` rows of `width` floats.
    unsafe { multiply(isa, product) };
}

/// The first `rows` rows of a matrix, in place or widened into `wide`.
#[inline(always)]
fn widened<'s, S: Simd, T: Float>(
    simd: S,
    matrix: TypedMatrix<'s, T>,
    size: [usize; 2],
    wide: &'s mut [f32],
) -> TypedMatrix<'s, f32> {
    match T::floats(matrix.data).as_f32() {
        Some(data) => TypedMatrix { data, row: matrix.row, col: matrix.col },
        None => copied(simd, matrix, size, wide),
    }
}

/// Writes the queries as `[depth][width]`, padded with zeros after the last one.
#[inline(always)]
fn pack_queries<S: Simd>(
    simd: S,
    query: TypedMatrix<f32>,
    [queries, depth]: [usize; 2],
    packed: &mut [f32],
    width: usize,
) {
    if queries < width {
        packed.fill(0.0);
    }
    if query.col != 1 {
        for (i, to) in packed.chunks_exact_mut(width).enumerate() {
            to[..queries].iter_mut().enumerate().for_each(|(lane, x)| *x = query.at(lane, i));
        }
        return;
    }
    transpose(simd, query.data, query.row, [queries, depth], packed, width);
}
