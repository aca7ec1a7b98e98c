//! Pooling: reduces the elements of each window to one.
//!
//! A tile of the image is copied between borders of empty accumulators. Then each element is folded with those below it,
//! and each column with those to the right. Both are loops over the whole tile in blocks of constant length, however
//! short its rows are; what they compute between rows is never read.
//!
//! Averages are sums in float32: of `n` elements in each direction, in runs of at most [`DIRECT`]. The error is at most
//! `16 + n / 16` roundings of the sum of magnitudes in each direction. Squares are summed in float64, where those of all
//! float32 are normal numbers.

use super::float::Float;
use crate::cpu::simd::{Kernel, MAX_LANES, Simd};
use crate::ops::spatial::Slide;
use half::f16;
use std::marker::PhantomData;

/// Elements folded at a time.
const BLOCK: usize = 32;
/// Results written at a time.
const PUT: usize = 16;
/// Elements of a direction that are folded one after the other; longer windows consist of such runs.
const DIRECT: usize = 16;

/// Rows with at least this many elements get their borders one by one.
const LONG: usize = 128;

/// Elements of a tile, so that it stays in the first-level cache.
const TILE: usize = 8192;
/// Elements of a row of a tile.
const TILE_ROW: usize = 2048;
/// A tile has at least this many times the size of a window: neighboring tiles share rows and columns.
const WINDOWS: usize = 3;

/// Images with more padding than this many times their size, and [`SLACK`], are pooled window by window.
const MAX_PADDED: usize = 4;
const SLACK: usize = 64;

/// A reduction of elements of type `T` to one.
pub trait PoolFold<T>: Copy + Sync {
    /// The accumulator.
    type Sum: Copy + Send;
    /// The accumulator of no elements.
    const EMPTY: Self::Sum;
    /// The accumulators of elements.
    fn lift<S: Simd>(simd: S, from: &[T], to: &mut [Self::Sum]);
    /// Combines two accumulators.
    fn add(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    /// The same if neither [is special](Self::is_special).
    #[inline(always)]
    fn add_plain(a: Self::Sum, b: Self::Sum) -> Self::Sum {
        Self::add(a, b)
    }
    /// Whether [`add_plain`](Self::add_plain) may lose this accumulator.
    #[inline(always)]
    fn is_special(_: Self::Sum) -> bool {
        false
    }
    /// The results for windows that cover these numbers of columns and rows, at least 1.
    fn finish<S: Simd>(simd: S, sums: &[Self::Sum; PUT], columns: &[f32; PUT], rows: f32) -> [T; PUT];
}

/// A stored floating-point type.
pub trait Stored: Float {
    /// Rounds to this type.
    fn round<S: Simd>(simd: S, x: &[f32; PUT]) -> [Self; PUT];
}

impl Stored for f32 {
    #[inline(always)]
    fn round<S: Simd>(_: S, x: &[f32; PUT]) -> [f32; PUT] {
        *x
    }
}

impl Stored for f16 {
    #[inline(always)]
    fn round<S: Simd>(simd: S, x: &[f32; PUT]) -> [f16; PUT] {
        let mut rounded = [f16::ZERO; PUT];
        const { assert!(PUT.is_multiple_of(MAX_LANES)) };
        for (x, rounded) in x.chunks_exact(S::LANES).zip(rounded.chunks_exact_mut(S::LANES)) {
            simd.store_f16(simd.load(x), rounded);
        }
        rounded
    }
}

/// The mean; 0 for no elements.
#[derive(Clone, Copy)]
pub struct Average;

impl<T: Stored> PoolFold<T> for Average {
    type Sum = f32;
    // -0 and not 0: the mean of negative zeros is a negative zero.
    const EMPTY: f32 = -0.0;
    #[inline(always)]
    fn lift<S: Simd>(simd: S, from: &[T], to: &mut [f32]) {
        T::widen(simd, from, to);
    }
    #[inline(always)]
    fn add(a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn finish<S: Simd>(simd: S, sums: &[f32; PUT], columns: &[f32; PUT], rows: f32) -> [T; PUT] {
        let mut means = [0.0; PUT];
        for i in 0..PUT {
            means[i] = sums[i] / (columns[i] * rows);
        }
        T::round(simd, &means)
    }
}

/// The square root of the sum of squares; 0 for no elements.
#[derive(Clone, Copy)]
pub struct Norm;

impl<T: Stored> PoolFold<T> for Norm {
    type Sum = f64;
    const EMPTY: f64 = 0.0;
    #[inline(always)]
    fn lift<S: Simd>(_: S, from: &[T], to: &mut [f64]) {
        for (to, from) in to.iter_mut().zip(from) {
            let x = from.to_f32() as f64;
            *to = x * x;
        }
    }
    #[inline(always)]
    fn add(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn finish<S: Simd>(simd: S, sums: &[f64; PUT], _: &[f32; PUT], _: f32) -> [T; PUT] {
        let mut roots = [0.0; PUT];
        for i in 0..PUT {
            roots[i] = sums[i].sqrt() as f32;
        }
        T::round(simd, &roots)
    }
}

/// The largest element, or NaN if there is one; for no elements, the smallest value of the type.
#[derive(Clone, Copy)]
pub struct Largest;

impl<T: Stored> PoolFold<T> for Largest {
    type Sum = f32;
    const EMPTY: f32 = f32::NEG_INFINITY;
    #[inline(always)]
    fn lift<S: Simd>(simd: S, from: &[T], to: &mut [f32]) {
        T::widen(simd, from, to);
    }
    #[inline(always)]
    fn add(a: f32, b: f32) -> f32 {
        // Evaluates both conditions to keep branches out of the loop.
        if (a > b) | a.is_nan() { a } else { b }
    }
    #[inline(always)]
    fn add_plain(a: f32, b: f32) -> f32 {
        if a > b { a } else { b }
    }
    #[inline(always)]
    fn is_special(x: f32) -> bool {
        x.is_nan()
    }
    #[inline(always)]
    fn finish<S: Simd>(simd: S, sums: &[f32; PUT], _: &[f32; PUT], _: f32) -> [T; PUT] {
        T::round(simd, sums)
    }
}

macro_rules! largest {
    ($($type:ty)*) => {$(
        impl PoolFold<$type> for Largest {
            type Sum = $type;
            const EMPTY: $type = <$type>::MIN;
            #[inline(always)]
            fn lift<S: Simd>(_: S, from: &[$type], to: &mut [$type]) {
                to.copy_from_slice(from);
            }
            #[inline(always)]
            fn add(a: $type, b: $type) -> $type {
                if a > b { a } else { b }
            }
            #[inline(always)]
            fn finish<S: Simd>(_: S, sums: &[$type; PUT], _: &[f32; PUT], _: f32) -> [$type; PUT] {
                *sums
            }
        }
    )*};
}

largest! { i8 u8 i32 u32 i64 u64 }

/// The windows along one dimension.
#[derive(Clone, Copy)]
struct Along {
    slide: Slide,
    /// Number of windows.
    outputs: usize,
    /// Number of windows of a tile.
    tile: usize,
}

impl Along {
    fn window(&self) -> usize {
        self.slide.window as usize
    }

    fn stride(&self) -> usize {
        self.slide.stride as usize
    }

    fn dilation(&self) -> usize {
        self.slide.dilation as usize
    }

    /// The elements from the first to the last of a window.
    fn span(&self) -> usize {
        (self.window() - 1).saturating_mul(self.dilation()) + 1
    }

    /// The elements under this many neighboring windows, with padding.
    fn reach(&self, windows: usize) -> usize {
        ((windows - 1) * self.stride()).saturating_add(self.span())
    }

    /// Limits tiles to about `elements`.
    fn tiled(self, elements: usize) -> Along {
        let elements = elements.max(self.span().saturating_mul(WINDOWS));
        Along { tile: self.outputs.min((elements - self.span()) / self.stride() + 1), ..self }
    }

    /// Whether a padded copy is not much larger than the image.
    fn is_dense(&self) -> bool {
        self.reach(self.outputs) <= (self.slide.input as usize).saturating_mul(MAX_PADDED).saturating_add(SLACK)
    }

    /// The largest number of elements from which whole windows consist, if they share runs of elements.
    fn run(&self) -> Option<usize> {
        // A few windows share little.
        let shared = self.window() > DIRECT && 2 * self.outputs * self.stride() > self.window();
        (2..=DIRECT).rev().find(|&run| shared && self.window().is_multiple_of(run))
    }
}

/// How windows move over images `[height, width, channels]`.
pub struct Pooling {
    rows: Along,
    columns: Along,
    /// The elements that windows share runs of, along rows and columns.
    runs: [Option<usize>; 2],
    /// Channels per pixel; one in a plane.
    channels: usize,
    /// Elements per row of a tile.
    pitch: usize,
    /// Number of columns under the windows of each element of an output row, at least 1, and those of an incomplete
    /// block.
    covered: Vec<f32>,
}

impl Pooling {
    /// Creates the movement by `slides` over rows and columns of pixels with `channels` channels.
    pub fn new(slides: [Slide; 2], outputs: [usize; 2], channels: usize) -> Pooling {
        let [rows, columns] = [0, 1].map(|at| Along { slide: slides[at], outputs: outputs[at], tile: 0 });
        let columns = columns.tiled(TILE_ROW / channels);
        let pitch = columns.reach(columns.tile).saturating_mul(channels);
        let rows = rows.tiled(TILE / pitch);
        let covered = (0..columns.outputs).flat_map(|at| {
            let count = slides[1].taps(at).1.max(1) as f32;
            std::iter::repeat_n(count, channels)
        });
        let covered = covered.chain(std::iter::repeat_n(1.0, PUT)).collect();
        Pooling { runs: [rows.run(), columns.run()], rows, columns, channels, pitch, covered }
    }

    fn is_dense(&self) -> bool {
        self.rows.is_dense() && self.columns.is_dense()
    }

    /// Accumulators of the image in a tile.
    fn loaded(&self) -> usize {
        self.rows.reach(self.rows.tile) * self.pitch + BLOCK
    }

    /// Whether rows are folded one by one, to a place of their own.
    fn is_apart(&self) -> bool {
        self.rows.stride() > 1 && self.runs[0].is_none()
    }

    /// Accumulators that a thread needs.
    pub fn scratch(&self) -> usize {
        if !self.is_dense() {
            return 0;
        }
        let folded = self.rows.tile * self.pitch + BLOCK;
        self.loaded() + if self.is_apart() { folded } else { 0 }
    }

    /// Elements of an output row.
    pub fn row_len(&self) -> usize {
        self.columns.outputs * self.channels
    }

    /// Rows of an output image.
    pub fn rows(&self) -> usize {
        self.rows.outputs
    }

    /// The cost of an output row in multiply-adds.
    pub fn cost(&self) -> usize {
        let steps = |along: &Along| along.run().map_or(along.window(), |run| run + along.window() / run);
        let width =
            self.columns.reach(self.columns.outputs).min(MAX_PADDED * self.columns.slide.input as usize + SLACK);
        let loads = self.rows.stride().min(self.rows.slide.input as usize);
        (2 * width * self.channels).saturating_mul(loads + steps(&self.rows) + steps(&self.columns))
    }
}

/// Reduces the windows of some rows of an output image.
pub struct PoolRows<'a, T, R: PoolFold<T>> {
    /// The movement of the windows.
    pub pooling: &'a Pooling,
    /// `[height, width, channels]`
    pub image: &'a [T],
    /// The first output row.
    pub first: usize,
    /// Whole rows: `[rows, columns, channels]`
    pub out: &'a mut [T],
    /// At least [`Pooling::scratch`] accumulators.
    pub scratch: &'a mut [R::Sum],
}

impl<T: Copy, R: PoolFold<T>> Kernel for PoolRows<'_, T, R> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let PoolRows { pooling, image, first, out, scratch } = self;
        let row_len = pooling.row_len();
        if !pooling.is_dense() {
            for (y, out) in (first..).zip(out.chunks_exact_mut(row_len)) {
                pooling.one_by_one::<S, T, R>(simd, image, y, out);
            }
            return;
        }
        let mut tile = Tile { pooling, sums: scratch, fold: PhantomData::<R> };
        for (y, out) in (first..).step_by(pooling.rows.tile).zip(out.chunks_mut(pooling.rows.tile * row_len)) {
            for x in (0..pooling.columns.outputs).step_by(pooling.columns.tile) {
                tile.pool(simd, image, y, x, out);
            }
        }
    }
}

impl Pooling {
    /// Computes a row of windows that lie mostly in the padding.
    #[inline(always)]
    fn one_by_one<S: Simd, T: Copy, R: PoolFold<T>>(&self, simd: S, image: &[T], y: usize, out: &mut [T]) {
        let (_, rows, top) = self.rows.slide.taps(y);
        for (x, out) in out.chunks_exact_mut(self.channels).enumerate() {
            let (_, columns, left) = self.columns.slide.taps(x);
            for (channel, out) in out.iter_mut().enumerate() {
                let mut sums = [R::EMPTY; PUT];
                for row in (0..rows).map(|at| top + at * self.rows.dilation()) {
                    for column in (0..columns).map(|at| left + at * self.columns.dilation()) {
                        let at = (row * self.columns.slide.input as usize + column) * self.channels + channel;
                        let mut sum = [R::EMPTY];
                        R::lift(simd, &image[at..][..1], &mut sum);
                        sums[0] = R::add(sums[0], sum[0]);
                    }
                }
                *out = R::finish(simd, &sums, &[columns.max(1) as f32; PUT], rows.max(1) as f32)[0];
            }
        }
    }
}

/// A part of an image, and what becomes of it.
struct Tile<'a, T, R: PoolFold<T>> {
    pooling: &'a Pooling,
    sums: &'a mut [R::Sum],
    fold: PhantomData<R>,
}

impl<T: Copy, R: PoolFold<T>> Tile<'_, T, R> {
    /// Computes the tile of windows whose first one is at row `y` and column `x`; `out` has the rows from `y` on.
    #[inline(always)]
    fn pool<S: Simd>(&mut self, simd: S, image: &[T], y: usize, x: usize, out: &mut [T]) {
        let Pooling { rows, columns, channels, pitch, .. } = *self.pooling;
        let row_len = self.pooling.row_len();
        let height = out.len() / row_len;
        let width = columns.tile.min(columns.outputs - x);
        let loaded = [rows.reach(height), columns.reach(width) * channels];
        self.load(simd, image, [y, x], loaded);
        let special = self.sums[..loaded[0] * pitch].iter().map(|&sum| R::is_special(sum) as u32).sum::<u32>() > 0;
        let passes = self.passes([height, width], loaded[1]);
        match special {
            true => passes.iter().for_each(|pass| pass.run::<T, R, true>(self.sums)),
            false => passes.iter().for_each(|pass| pass.run::<T, R, false>(self.sums)),
        }
        let (start, apart) = match self.pooling.is_apart() {
            true => (self.pooling.loaded(), pitch),
            false => (0, rows.stride() * pitch),
        };
        for at in 0..height {
            let covered = rows.slide.taps(y + at).1.max(1) as f32;
            let out = &mut out[at * row_len + x * channels..];
            // What is written beyond the row is overwritten by the next one.
            let end = if width == columns.outputs { out.len() } else { width * channels };
            self.store(simd, start + at * apart, x * channels, covered, width, &mut out[..end]);
        }
    }

    /// Copies the elements under the windows from `at` on, between empty accumulators.
    #[inline(always)]
    fn load<S: Simd>(&mut self, simd: S, image: &[T], at: [usize; 2], [height, width]: [usize; 2]) {
        let Pooling { rows, columns, channels, pitch, .. } = *self.pooling;
        let row_len = columns.slide.input as usize * channels;
        // How much of the image precedes the tile, and how much of the tile the image.
        let before = |along: &Along, at: usize| {
            let (start, begin) = (at * along.stride(), along.slide.begin as usize);
            (start.saturating_sub(begin), begin.saturating_sub(start))
        };
        let (top, above) = before(&rows, at[0]);
        let (left, aside) = before(&columns, at[1]);
        let (left, aside) = (row_len.min(left * channels), width.min(aside * channels));
        let count = (row_len - left).min(width - aside);
        let above = above.min(height);
        let inside = (rows.slide.input as usize).saturating_sub(top).min(height - above);
        let (before, rest) = self.sums[..height * pitch].split_at_mut(above * pitch);
        let (sums, after) = rest.split_at_mut(inside * pitch);
        before.fill(R::EMPTY);
        after.fill(R::EMPTY);
        if inside == 0 {
            return;
        }
        if count == pitch && count == row_len {
            return R::lift(simd, &image[top * row_len..][..sums.len()], sums);
        }
        if count < LONG {
            sums.fill(R::EMPTY);
        }
        let image = image[top * row_len..].chunks_exact(row_len);
        for (sums, row) in sums.chunks_exact_mut(pitch).zip(image) {
            R::lift(simd, &row[left..][..count], &mut sums[aside..][..count]);
            if count >= LONG {
                sums[..aside].fill(R::EMPTY);
                sums[aside + count..].fill(R::EMPTY);
            }
        }
    }

    /// How a tile of these windows, with rows of `row_len` elements, is folded: the first element of a window becomes its
    /// result.
    #[inline(always)]
    fn passes(&self, [height, width]: [usize; 2], row_len: usize) -> [Pass; 4] {
        let Pooling { rows, columns, channels, pitch, .. } = *self.pooling;
        let along = |along: &Along, run: Option<usize>, place: usize, len: usize, step: usize| {
            let (shift, run) = (along.dilation() * step, run.unwrap_or(along.window()));
            let runs = along.window() / run;
            let pass = Pass { from: place, to: place, len, count: runs, shift: run * shift, times: 1, skips: [0, 0] };
            [Pass { len: len + (runs - 1) * run * shift, count: run, shift, ..pass }, pass]
        };
        let is_apart = self.pooling.is_apart();
        let (place, stride) = if is_apart { (self.pooling.loaded(), 1) } else { (0, rows.stride()) };
        let mut down = along(&rows, self.pooling.runs[0], 0, (height - 1) * stride * pitch + row_len, pitch);
        if is_apart {
            down[0] = Pass { to: place, len: row_len, times: height, skips: [rows.stride() * pitch, pitch], ..down[0] };
        }
        let len = (height - 1) * stride * pitch + ((width - 1) * columns.stride() + 1) * channels;
        let across = along(&columns, self.pooling.runs[1], place, len, channels);
        [down[0], down[1], across[0], across[1]]
    }

    /// Writes the results of `width` windows from the accumulators at `from` on; `column` is the first element of the
    /// output row. May write more of `out` than that.
    #[inline(always)]
    fn store<S: Simd>(&self, simd: S, from: usize, column: usize, rows: f32, width: usize, out: &mut [T]) {
        let (channels, stride) = (self.pooling.channels, self.pooling.columns.stride());
        let (sums, covered) = (&self.sums[from..], &self.pooling.covered[column..]);
        match (stride, channels) {
            (1, _) => put::<S, T, R, 1>(simd, sums, 1, covered, rows, width * channels, out),
            (2, 1) => put::<S, T, R, 2>(simd, sums, 2, covered, rows, width, out),
            (_, 1) => put::<S, T, R, 0>(simd, sums, stride, covered, rows, width, out),
            _ => {
                for x in 0..width {
                    let (sums, covered) = (&sums[x * stride * channels..], &covered[x * channels..]);
                    put::<S, T, R, 1>(simd, sums, 1, covered, rows, channels, &mut out[x * channels..]);
                }
            }
        }
    }
}

#[inline(always)]
fn block<T>(sums: &[T], at: usize) -> &[T; BLOCK] {
    sums[at..].first_chunk().expect("a tile ends with a spare block")
}

#[inline(always)]
fn block_mut<T>(sums: &mut [T], at: usize) -> &mut [T; BLOCK] {
    sums[at..].first_chunk_mut().expect("a tile ends with a spare block")
}

/// Adds `x` to `sums`.
#[inline(always)]
fn join<T, R: PoolFold<T>, const CAREFUL: bool>(sums: &mut [R::Sum; BLOCK], x: &[R::Sum; BLOCK]) {
    for i in 0..BLOCK {
        sums[i] = if CAREFUL { R::add(sums[i], x[i]) } else { R::add_plain(sums[i], x[i]) };
    }
}

/// For each of `len` elements from `from` on, folds `count` elements that are `shift` apart, and writes the results from
/// `to` on: in place, or outside of what is read. Repeats that `times`; `skips` advances `from` and `to`.
#[derive(Clone, Copy)]
struct Pass {
    from: usize,
    to: usize,
    len: usize,
    count: usize,
    shift: usize,
    times: usize,
    skips: [usize; 2],
}

impl Pass {
    #[inline(always)]
    fn run<T, R: PoolFold<T>, const CAREFUL: bool>(&self, sums: &mut [R::Sum]) {
        if self.count == 1 && self.from == self.to {
            return;
        }
        for time in 0..self.times {
            let (from, to) = (self.from + time * self.skips[0], self.to + time * self.skips[1]);
            match self.count {
                2 => self.fold::<T, R, CAREFUL>(sums, from, to, 2),
                3 => self.fold::<T, R, CAREFUL>(sums, from, to, 3),
                count => self.fold::<T, R, CAREFUL>(sums, from, to, count),
            }
        }
    }

    /// Compiled for some counts.
    #[inline(always)]
    fn fold<T, R: PoolFold<T>, const CAREFUL: bool>(&self, sums: &mut [R::Sum], from: usize, to: usize, count: usize) {
        for at in (0..self.len).step_by(BLOCK) {
            let mut all = *block(sums, from + at);
            for k in 1..count.min(DIRECT) {
                join::<T, R, CAREFUL>(&mut all, block(sums, from + at + k * self.shift));
            }
            for first in (DIRECT..count).step_by(DIRECT) {
                let mut run = *block(sums, from + at + first * self.shift);
                for k in first + 1..count.min(first + DIRECT) {
                    join::<T, R, CAREFUL>(&mut run, block(sums, from + at + k * self.shift));
                }
                join::<T, R, CAREFUL>(&mut all, &run);
            }
            *block_mut(sums, to + at) = all;
        }
    }
}

/// Writes the `len` results of accumulators `STRIDE` apart (0: `stride`), in blocks as far as `out` reaches.
#[inline(always)]
fn put<S: Simd, T: Copy, R: PoolFold<T>, const STRIDE: usize>(
    simd: S,
    sums: &[R::Sum],
    stride: usize,
    covered: &[f32],
    rows: f32,
    len: usize,
    out: &mut [T],
) {
    for at in (0..len).step_by(PUT) {
        let mut of = [R::EMPTY; PUT];
        if STRIDE == 0 {
            // Far beyond the last window there may be nothing.
            for i in 0..PUT.min(len - at) {
                of[i] = sums[(at + i) * stride];
            }
        } else {
            // A tile ends with a spare block.
            const { assert!(2 * PUT <= BLOCK) };
            let sums = &sums[at * STRIDE..][..(PUT - 1) * STRIDE + 1];
            for i in 0..PUT {
                of[i] = sums[i * STRIDE];
            }
        }
        let covered = covered[at..].first_chunk().expect("a block more than columns");
        let results = R::finish(simd, &of, covered, rows);
        let out = &mut out[at..];
        match out.first_chunk_mut::<PUT>() {
            Some(out) => *out = results,
            None => out.copy_from_slice(&results[..out.len()]),
        }
    }
}
