//! The attention of a few queries: keys and values stream through once, with vectors along their columns.
//!
//! The matrices are processed in turn, a few rows at a time, because the rows of neighboring heads are adjacent in a
//! cache. While a vector of keys is in a register, it is multiplied with all queries that share it; likewise a vector
//! of values. A query's sums follow the order of the columns and of the keys, whatever the other queries are.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::super::masks::{KEY_BLOCK, Mask, mask_row};
use super::super::matrix::TypedMatrix;
use super::sizes::{Sizes, cap};
use crate::cpu::kernels::float::Float;
use crate::cpu::kernels::rows::largest;
use crate::cpu::simd::{Isa, Kernel, Simd, math};
use crate::ops::attention::MAX_MASKS;
use std::ops::Range;

/// Prefetch distance in rows. One row is prefetched while one is processed: a core can track only a few lines in
/// flight.
const AHEAD: usize = 32;

/// Keys that a few queries stream through at once: the threads share the ranges of long caches. A multiple of
/// [`KEY_BLOCK`].
const RANGE: usize = 8 * KEY_BLOCK;

/// Maximum number of matrices processed at once.
pub const MAX_STREAMED: usize = 8;

/// A matrix with few queries.
pub struct StreamedHead<'a, T> {
    /// Number of queries.
    pub queries: usize,
    /// The queries.
    pub query: TypedMatrix<'a, f32>,
    /// All keys.
    pub key: TypedMatrix<'a, T>,
    /// All values.
    pub value: TypedMatrix<'a, T>,
    /// The keys to process.
    pub keys: Range<usize>,
    /// Masks, applied in this order.
    pub masks: [Option<Mask<'a>>; MAX_MASKS],
}

/// The attention of a few queries of several matrices; run it with [`Isa::run`](crate::cpu::simd::Isa::run).
pub struct Stream<'a, T> {
    /// Sizes of the whole matrices.
    pub sizes: Sizes,
    /// The factor of the products.
    pub scale: f32,
    /// The scaled products become `softcap * tanh(product)`; 0 leaves them unchanged.
    pub softcap: f32,
    /// The matrices.
    pub heads: &'a [Option<StreamedHead<'a, T>>; MAX_STREAMED],
    /// `[queries, partial_len(columns)]` of all matrices, one after another: see [`Combine`].
    pub out: &'a mut [f32],
    /// [`Sizes::stream_scratch`] floats for all queries.
    pub scratch: &'a mut [f32],
}

impl Sizes {
    /// The ranges of keys that are streamed separately. They depend on nothing but the number of keys, and so do the
    /// bits of the results.
    pub fn ranges(&self) -> usize {
        self.keys.div_ceil(RANGE)
    }

    /// The index of the range with a key.
    pub fn range_of(&self, key: usize) -> usize {
        key / RANGE
    }

    /// The part of `keys` in the range at `index`.
    pub fn range(&self, index: usize, keys: &Range<usize>) -> Range<usize> {
        keys.start.max(index * RANGE)..keys.end.min((index + 1) * RANGE)
    }

    /// Scratch length in floats that [`Stream`] needs for this many queries, for kernels of `isa`.
    pub fn stream_scratch(&self, isa: Isa, queries: usize) -> usize {
        let lanes = isa.lanes();
        let [depth, columns] = [self.depth, self.columns].map(|size| size.next_multiple_of(lanes));
        queries * (depth + columns + KEY_BLOCK + 2) + TOGETHER * lanes * lanes + lanes * depth.max(columns)
    }
}

/// Maximum number of queries multiplied with a row while the row is in registers.
const TOGETHER: usize = 4;

impl<T: Float> Kernel for Stream<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Stream { sizes, scale, softcap, heads, out, scratch } = self;
        // Rows in scratch memory are padded to whole vectors.
        let [depth, columns] = [sizes.depth, sizes.columns].map(|size| size.next_multiple_of(S::LANES));
        let queries = out.len() / partial_len(sizes.columns);
        let (own, rest) = scratch.split_at_mut(queries * depth);
        let (sums, rest) = rest.split_at_mut(queries * columns);
        let (scores, rest) = rest.split_at_mut(queries * KEY_BLOCK);
        let (max, rest) = rest.split_at_mut(queries);
        let (total, rest) = rest.split_at_mut(queries);
        let (parts, wide) = rest.split_at_mut(TOGETHER * S::LANES * S::LANES);
        let mut places = own.chunks_exact_mut(depth);
        for head in heads.iter().flatten() {
            head.query.check(head.queries, sizes.depth);
            head.key.check(head.keys.end, sizes.depth);
            head.value.check(head.keys.end, sizes.columns);
            for (index, place) in places.by_ref().take(head.queries).enumerate() {
                scaled_row(simd, head.query.after(index), sizes.depth, scale, place);
            }
        }
        max.fill(f32::NEG_INFINITY);
        total.fill(0.0);
        sums.fill(0.0);
        let longest = heads.iter().flatten().map(|head| head.keys.len()).max().unwrap_or(0);
        for done in (0..longest).step_by(KEY_BLOCK) {
            let block = KEY_BLOCK.min(longest - done);
            for window in (0..block).step_by(S::LANES) {
                let mut at = 0;
                for head in heads.iter().flatten() {
                    let rows = head.rows(done + window, S::LANES);
                    let scores = &mut scores[at * KEY_BLOCK + window..];
                    let own = &own[at * depth..][..head.queries * depth];
                    at += head.queries;
                    if rows.is_empty() {
                        continue;
                    }
                    let early = match (window + AHEAD).checked_sub(block) {
                        None => Early::of(&head.key, head.keys.start + done + window + AHEAD),
                        Some(from) => Early::of(&head.value, head.keys.start + done + from),
                    };
                    let (key, rows) = (head.key.after(rows.start), rows.len());
                    if key.has_whole_rows::<S>(sizes.depth) {
                        products(simd, own, key, early, [rows, depth], parts, scores);
                    } else {
                        let key = padded(key, [rows, sizes.depth], depth, wide);
                        products(simd, own, key, early, [rows, depth], parts, scores);
                    }
                }
            }
            let mut at = 0;
            for head in heads.iter().flatten() {
                let rows = head.rows(done, KEY_BLOCK);
                for (index, query) in (at..at + head.queries).enumerate().filter(|_| !rows.is_empty()) {
                    let scores = &mut scores[query * KEY_BLOCK..][..rows.len().next_multiple_of(S::LANES)];
                    cap(simd, softcap, &mut scores[..rows.len()]);
                    for mask in head.masks.iter().flatten() {
                        mask_row(mask, index, rows.start, &mut scores[..rows.len()]);
                    }
                    scores[rows.len()..].fill(f32::NEG_INFINITY);
                    let higher = largest(simd, scores).max(max[query]);
                    let shift = if higher == f32::NEG_INFINITY { 0.0 } else { -higher };
                    let correction = math::exp(simd, max[query] + shift);
                    let mut powers = simd.splat(0.0);
                    for score in scores.chunks_exact_mut(S::LANES) {
                        let power = math::exp_nonpositive(simd, simd.add(simd.load(score), simd.splat(shift)));
                        simd.store(power, score);
                        powers = simd.add(powers, power);
                    }
                    (max[query], total[query]) = (higher, total[query] * correction + simd.sum(powers));
                    if done > 0 {
                        sums[query * columns..][..columns].iter_mut().for_each(|x| *x *= correction);
                    }
                }
                at += head.queries;
            }
            for window in (0..block).step_by(S::LANES) {
                let mut at = 0;
                for head in heads.iter().flatten() {
                    let rows = head.rows(done + window, S::LANES);
                    let scores = &scores[at * KEY_BLOCK + window..];
                    let sums = &mut sums[at * columns..][..head.queries * columns];
                    at += head.queries;
                    if rows.is_empty() {
                        continue;
                    }
                    let early = match (window + AHEAD).checked_sub(block) {
                        None => Early::of(&head.value, head.keys.start + done + window + AHEAD),
                        Some(from) => Early::of(&head.key, head.keys.start + done + block + from),
                    };
                    let (value, rows) = (head.value.after(rows.start), rows.len());
                    if value.has_whole_rows::<S>(sizes.columns) {
                        weighted_sums(simd, scores, value, early, [rows, columns], sums);
                    } else {
                        let value = padded(value, [rows, sizes.columns], columns, wide);
                        weighted_sums(simd, scores, value, early, [rows, columns], sums);
                    }
                }
            }
        }
        for (query, out) in out.chunks_exact_mut(partial_len(sizes.columns)).enumerate() {
            let (own, statistics) = out.split_at_mut(sizes.columns);
            own.copy_from_slice(&sums[query * columns..][..sizes.columns]);
            statistics.copy_from_slice(&[max[query], total[query]]);
        }
    }
}

/// Length in floats of the result of [`Stream`] for a query: the sums of the values, each times the exponential of its
/// score minus the maximum; the maximum; the sum of the exponentials.
pub fn partial_len(columns: usize) -> usize {
    columns + 2
}

/// Combines the results for several ranges of keys, in their order; run it with
/// [`Isa::run`](crate::cpu::simd::Isa::run).
pub struct Combine<'a> {
    /// The results of the query for each range, `stride` floats apart.
    pub partials: &'a [f32],
    /// Distance between the results.
    pub stride: usize,
    /// Whether the row becomes zeros if its softmax is NaN.
    pub empty_is_zero: bool,
    /// The row of the output.
    pub out: &'a mut [f32],
}

impl Kernel for Combine<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Combine { partials, stride, empty_is_zero, out } = self;
        let (columns, whole) = (out.len(), out.len() - out.len() % S::LANES);
        let mut highest = f32::NEG_INFINITY;
        for own in partials.chunks(stride) {
            highest = highest.max(own[columns]);
        }
        let (shift, mut total) = (if highest == f32::NEG_INFINITY { 0.0 } else { -highest }, 0.0);
        out.fill(0.0);
        for own in partials.chunks(stride) {
            let weight = math::exp(simd, own[columns] + shift);
            total += weight * own[columns + 1];
            let mut at = 0;
            while at < whole {
                let sum = simd.mul_add(simd.splat(weight), simd.load(&own[at..]), simd.load(&out[at..]));
                simd.store(sum, &mut out[at..]);
                at += S::LANES;
            }
            for at in whole..columns {
                out[at] += weight * own[at];
            }
        }
        let (is_empty, factor) = (empty_is_zero && (total == 0.0 || total.is_nan()), 1.0 / total);
        for out in out {
            *out = if is_empty { 0.0 } else { *out * factor };
        }
    }
}

impl<T> StreamedHead<'_, T> {
    /// The next keys to process, at most `count`, from index `from` among them on.
    #[inline(always)]
    fn rows(&self, from: usize, count: usize) -> Range<usize> {
        let start = self.keys.end.min(self.keys.start + from);
        start..self.keys.end.min(start + count)
    }
}

impl<T: Copy> TypedMatrix<'_, T> {
    /// Whether rows of `columns` elements are whole vectors in memory.
    #[inline(always)]
    fn has_whole_rows<S: Simd>(&self, columns: usize) -> bool {
        columns.is_multiple_of(S::LANES) && self.col == 1
    }
}

/// Writes `scale` times the first row of a matrix with `columns` columns, and zeros after them.
#[inline(always)]
fn scaled_row<S: Simd>(simd: S, matrix: TypedMatrix<f32>, columns: usize, scale: f32, to: &mut [f32]) {
    let whole = if matrix.col == 1 { columns - columns % S::LANES } else { 0 };
    let mut at = 0;
    while at < whole {
        let own = simd.load(&matrix.data[at..]);
        simd.store(simd.mul(own, simd.splat(scale)), &mut to[at..]);
        at += S::LANES;
    }
    for col in whole..columns {
        to[col] = scale * matrix.at(0, col);
    }
    to[columns..].fill(0.0);
}

/// Copies a matrix to rows of `width` floats, with zeros after its columns.
#[inline(always)]
fn padded<'s, T: Float>(
    matrix: TypedMatrix<T>,
    [rows, columns]: [usize; 2],
    width: usize,
    wide: &'s mut [f32],
) -> TypedMatrix<'s, f32> {
    for (row, to) in wide.chunks_exact_mut(width).take(rows).enumerate() {
        to[columns..].fill(0.0);
        to[..columns].iter_mut().enumerate().for_each(|(col, x)| *x = matrix.at(row, col).to_f32());
    }
    TypedMatrix { data: wide, row: width, col: 1 }
}

/// Rows to prefetch while others are processed; they may be out of bounds.
#[derive(Clone, Copy)]
struct Early {
    start: *const u8,
    /// Distance between rows in bytes.
    row: usize,
}

impl Early {
    /// The rows of `matrix` from `first` on.
    #[inline(always)]
    fn of<T>(matrix: &TypedMatrix<T>, first: usize) -> Early {
        let start = matrix.data.as_ptr().wrapping_add(first * matrix.row);
        Early { start: start.cast(), row: matrix.row * size_of::<T>() }
    }

    /// Prefetches the cache line of the element at `at` in a row.
    #[inline(always)]
    fn fetch<S: Simd, T>(self, simd: S, row: usize, at: usize) {
        simd.prefetch_l2(self.start.wrapping_add(row * self.row + at * size_of::<T>()).cast());
    }
}

/// `out[q * KEY_BLOCK + r] = sum_k x[q][k] * key[r][k]` for all queries `x` and the `rows` of `key`, at most one per
/// vector lane. Rows have `depth` elements, whole vectors. The remaining lanes are left undefined.
#[inline(always)]
fn products<S: Simd, T: Float>(
    simd: S,
    x: &[f32],
    key: TypedMatrix<T>,
    early: Early,
    [rows, depth]: [usize; 2],
    parts: &mut [f32],
    out: &mut [f32],
) {
    for (group, x) in x.chunks(TOGETHER * depth).enumerate() {
        let out = &mut out[group * TOGETHER * KEY_BLOCK..];
        match x.len() / depth {
            1 => products_of::<S, T, 1>(simd, x, key, early, [rows, depth], parts, out),
            2 => products_of::<S, T, 2>(simd, x, key, early, [rows, depth], parts, out),
            3 => products_of::<S, T, 3>(simd, x, key, early, [rows, depth], parts, out),
            _ => products_of::<S, T, TOGETHER>(simd, x, key, early, [rows, depth], parts, out),
        }
    }
}

#[inline(always)]
fn products_of<S: Simd, T: Float, const QUERIES: usize>(
    simd: S,
    x: &[f32],
    key: TypedMatrix<T>,
    early: Early,
    [rows, depth]: [usize; 2],
    parts: &mut [f32],
    out: &mut [f32],
) {
    let (lanes, square) = (S::LANES, S::LANES * S::LANES);
    assert!(x.len() >= QUERIES * depth && depth.is_multiple_of(lanes) && rows <= lanes);
    for row in 0..rows {
        let key = key.data[row * key.row..][..depth].as_ptr();
        let mut sums = [simd.splat(0.0); QUERIES];
        let mut at = 0;
        while at < depth {
            // SAFETY: the row has `depth` elements, a whole number of vectors.
            let key = T::load(simd, unsafe { std::slice::from_raw_parts(key.add(at), lanes) });
            early.fetch::<S, T>(simd, row, at);
            for query in 0..QUERIES {
                // SAFETY: the length for each query was checked above.
                let x = unsafe { simd.load_ptr(x.as_ptr().add(query * depth + at)) };
                sums[query] = simd.mul_add(x, key, sums[query]);
            }
            at += lanes;
        }
        for query in 0..QUERIES {
            simd.store(sums[query], &mut parts[query * square + row * lanes..]);
        }
    }
    for query in 0..QUERIES {
        simd.store(simd.sum_rows(&parts[query * square..][..square]), &mut out[query * KEY_BLOCK..]);
    }
}

/// `sums[q] += sum_i x[q * KEY_BLOCK + i] * rows[i]` for the first `count` rows. Each of the `sums` has `columns`
/// elements, whole vectors.
#[inline(always)]
fn weighted_sums<S: Simd, T: Float>(
    simd: S,
    x: &[f32],
    rows: TypedMatrix<T>,
    early: Early,
    [count, columns]: [usize; 2],
    sums: &mut [f32],
) {
    for (group, sums) in sums.chunks_mut(TOGETHER * columns).enumerate() {
        let x = &x[group * TOGETHER * KEY_BLOCK..];
        match sums.len() / columns {
            1 => columns_of::<S, T, 1>(simd, x, rows, early, [count, columns], sums),
            2 => columns_of::<S, T, 2>(simd, x, rows, early, [count, columns], sums),
            3 => columns_of::<S, T, 3>(simd, x, rows, early, [count, columns], sums),
            _ => columns_of::<S, T, TOGETHER>(simd, x, rows, early, [count, columns], sums),
        }
    }
}

#[inline(always)]
fn columns_of<S: Simd, T: Float, const QUERIES: usize>(
    simd: S,
    x: &[f32],
    rows: TypedMatrix<T>,
    early: Early,
    [count, columns]: [usize; 2],
    sums: &mut [f32],
) {
    let mut at = 0;
    while S::REGISTERS == 32 && at + 4 * S::LANES <= columns {
        vectors_of::<S, T, QUERIES, 4>(simd, x, rows, early, [count, columns], at, sums);
        at += 4 * S::LANES;
    }
    while at + 2 * S::LANES <= columns {
        vectors_of::<S, T, QUERIES, 2>(simd, x, rows, early, [count, columns], at, sums);
        at += 2 * S::LANES;
    }
    if at < columns {
        vectors_of::<S, T, QUERIES, 1>(simd, x, rows, early, [count, columns], at, sums);
    }
}

/// The same for the `VECS` vectors of columns from `at` on, with their sums in registers.
#[inline(always)]
fn vectors_of<S: Simd, T: Float, const QUERIES: usize, const VECS: usize>(
    simd: S,
    x: &[f32],
    rows: TypedMatrix<T>,
    early: Early,
    [count, columns]: [usize; 2],
    at: usize,
    sums: &mut [f32],
) {
    let lanes = S::LANES;
    assert!(x.len() >= (QUERIES - 1) * KEY_BLOCK + count && sums.len() >= QUERIES * columns);
    let mut own = [[simd.splat(0.0); VECS]; QUERIES];
    for query in 0..QUERIES {
        for v in 0..VECS {
            own[query][v] = simd.load(&sums[query * columns + at + v * lanes..]);
        }
    }
    for index in 0..count {
        let row = rows.data[index * rows.row + at..][..VECS * lanes].as_ptr();
        let mut value = [simd.splat(0.0); VECS];
        for v in 0..VECS {
            // SAFETY: the row has at least that many vectors.
            value[v] = T::load(simd, unsafe { std::slice::from_raw_parts(row.add(v * lanes), lanes) });
            early.fetch::<S, T>(simd, index, at + v * lanes);
        }
        for query in 0..QUERIES {
            // SAFETY: the length was checked above.
            let factor = simd.splat(unsafe { *x.get_unchecked(query * KEY_BLOCK + index) });
            for v in 0..VECS {
                own[query][v] = simd.mul_add(factor, value[v], own[query][v]);
            }
        }
    }
    for query in 0..QUERIES {
        for v in 0..VECS {
            simd.store(own[query][v], &mut sums[query * columns + at + v * lanes..]);
        }
    }
}
