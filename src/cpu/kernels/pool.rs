//! Pooling: reduces the elements of each window to one.
//!
//! The rows under a row of windows are folded to a line between borders of empty accumulators, then the columns of the
//! line. Windows that share runs of elements need all lines of a tile at once: the tile is copied between such borders,
//! then each element is folded with those below it, and each column with those to the right. Both are loops over the
//! whole tile in blocks of constant length; what they compute between rows is never read.

use super::pool_fold::{PUT, PoolFold};
use crate::cpu::simd::{Kernel, Portable, Simd};
use crate::ops::spatial::Slide;
use std::marker::PhantomData;

/// Elements folded at a time.
const BLOCK: usize = 32;
/// Elements of a direction that are folded one after the other; longer windows consist of such runs.
const DIRECT: usize = 16;

/// Lines that are written before they are read, and their elements: it takes a while until what was written can be read
/// at another place.
const LINES: usize = 8;
const LINES_LEN: usize = 4096;

/// Rows with at least this many elements are folded one by one.
const LONG: usize = 28;

/// Elements of a tile, so that it stays in the first-level cache.
const TILE: usize = 8192;
/// Elements of a row of a tile.
const TILE_ROW: usize = 2048;
/// A tile has at least this many times the size of a window: neighboring tiles share rows and columns.
const WINDOWS: usize = 3;

/// Images with more padding than this many times their size, and [`SLACK`], are pooled window by window.
const MAX_PADDED: usize = 4;
const SLACK: usize = 64;

/// The windows along one dimension.
#[derive(Clone, Copy)]
pub(super) struct Along {
    pub(super) slide: Slide,
    /// Number of windows.
    outputs: usize,
    /// Number of windows of a tile.
    tile: usize,
}

impl Along {
    fn window(&self) -> usize {
        self.slide.window as usize
    }

    pub(super) fn stride(&self) -> usize {
        self.slide.stride as usize
    }

    pub(super) fn dilation(&self) -> usize {
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

    /// What is under these windows, of pixels with this many elements.
    #[inline(always)]
    fn part(&self, at: usize, windows: usize, channels: usize) -> Part {
        let (start, begin, input) = (at * self.stride(), self.slide.begin as usize, self.slide.input as usize);
        let len = self.reach(windows);
        let (first, before) = (start.saturating_sub(begin).min(input), begin.saturating_sub(start).min(len));
        let count = (input - first).min(len - before);
        Part { first: first * channels, count: count * channels, before: before * channels, len: len * channels }
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

/// The elements under windows along one dimension: of `len` ones with padding, `count` are in the image, from `first`
/// on, and `before` precede these.
#[derive(Clone, Copy)]
struct Part {
    first: usize,
    count: usize,
    before: usize,
    len: usize,
}

/// How windows move over images `[height, width, channels]`.
pub struct Pooling {
    pub(super) rows: Along,
    pub(super) columns: Along,
    /// The elements that windows share runs of, along rows and columns.
    runs: [Option<usize>; 2],
    /// Channels per pixel; one in a plane.
    channels: usize,
    /// Elements per row of a tile.
    pitch: usize,
    /// The rows of the image under the windows of each output row: their number, and the first one.
    pub(super) taps: Vec<[usize; 2]>,
    /// Number of columns under the windows of each element of an output row, at least 1, and those of an incomplete
    /// block.
    pub(super) covered: Vec<f32>,
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
        let taps = (0..rows.outputs).map(|at| rows.slide.taps(at)).map(|(_, count, first)| [count, first]).collect();
        Pooling { runs: [rows.run(), columns.run()], rows, columns, channels, pitch, taps, covered }
    }

    fn is_dense(&self) -> bool {
        self.rows.is_dense() && self.columns.is_dense()
    }

    /// Whether windows in planes reach no further than one vector of `lanes` windows to either side.
    pub fn is_near(&self, lanes: usize) -> bool {
        let Along { slide, .. } = self.columns;
        let windows = [&self.rows, &self.columns].map(Along::window);
        let side = (slide.begin as usize).max(self.columns.span().saturating_sub(slide.begin as usize + 1));
        let is_few = windows.into_iter().all(|window| window <= DIRECT);
        is_few && self.channels == 1 && slide.stride <= 2 && side <= lanes * self.columns.stride()
    }

    /// Whether all rows of a tile are folded at once: windows share runs of elements, or rows are short.
    fn is_tiled(&self) -> bool {
        self.runs != [None; 2] || self.rows.stride() == 1 && self.image_row() < LONG
    }

    /// The number of lines, and accumulators of each.
    fn lines(&self) -> [usize; 2] {
        let len = (self.pitch + BLOCK).next_multiple_of(PUT);
        [(LINES_LEN / len).clamp(1, LINES), len]
    }

    /// Accumulators that a thread needs.
    pub fn scratch(&self) -> usize {
        match (self.is_dense(), self.is_tiled()) {
            (false, _) => 0,
            (true, false) => self.lines().iter().product(),
            (true, true) => self.rows.reach(self.rows.tile) * self.pitch + BLOCK,
        }
    }

    /// What is under the windows from row and column `at` on.
    #[inline(always)]
    fn area(&self, at: [usize; 2], [height, width]: [usize; 2]) -> [Part; 2] {
        [self.rows.part(at[0], height, 1), self.columns.part(at[1], width, self.channels)]
    }

    /// The rows of an image under `count` output rows from `y` on, and those between.
    pub(super) fn rows_under<'a, T>(&self, image: &'a [T], y: usize, count: usize) -> &'a [T] {
        let part = self.rows.part(y, count, self.image_row());
        &image[part.first..][..part.count]
    }

    /// Elements of a row of the image.
    pub(super) fn image_row(&self) -> usize {
        self.columns.slide.input as usize * self.channels
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
    /// Starts with `[height, width, channels]`; elements behind these may be read, but do not matter.
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
        let mut tile = Tile { pooling, sums: scratch, fold: PhantomData::<(T, R)> };
        for (y, out) in (first..).step_by(pooling.rows.tile).zip(out.chunks_mut(pooling.rows.tile * row_len)) {
            if !pooling.is_dense() || R::has_special(pooling.rows_under(image, y, out.len() / row_len)) {
                pool_windows::<T, R>(pooling, image, y, out);
                continue;
            }
            for x in (0..pooling.columns.outputs).step_by(pooling.columns.tile) {
                tile.pool(simd, image, y, x, out);
            }
        }
    }
}

/// Computes whole output rows from row `first` on, window by window: for windows that lie mostly in the padding, and types
/// that are rare. `image` starts with `[height, width, channels]`.
pub fn pool_windows<T: Copy, R: PoolFold<T>>(pooling: &Pooling, image: &[T], first: usize, out: &mut [T]) {
    let Pooling { rows, columns, channels, .. } = *pooling;
    for (y, out) in (first..).zip(out.chunks_exact_mut(pooling.row_len())) {
        let [count, top] = pooling.taps[y];
        for (begin, out) in (0..).step_by(PUT).zip(out.chunks_mut(PUT)) {
            let mut sums = [R::EMPTY; PUT];
            for (at, sum) in (begin..).zip(&mut sums).take(out.len()) {
                let (_, width, left) = columns.slide.taps(at / channels);
                for row in (0..count).map(|k| top + k * rows.dilation()) {
                    for column in (0..width).map(|k| left + k * columns.dilation()) {
                        let pixel = row * columns.slide.input as usize + column;
                        *sum = R::add(*sum, R::lift_one(image[pixel * channels + at % channels]));
                    }
                }
            }
            let covered = pooling.covered[begin..].first_chunk().expect("a block more than columns");
            let results = R::finish(Portable, &sums, covered, count.max(1) as f32);
            out.copy_from_slice(&results[..out.len()]);
        }
    }
}

/// A part of an image, and what becomes of it.
struct Tile<'a, T, R: PoolFold<T>> {
    pooling: &'a Pooling,
    sums: &'a mut [R::Sum],
    fold: PhantomData<(T, R)>,
}

impl<T: Copy, R: PoolFold<T>> Tile<'_, T, R> {
    /// Computes the tile of windows whose first one is at row `y` and column `x`; `out` has the rows from `y` on.
    #[inline(always)]
    fn pool<S: Simd>(&mut self, simd: S, image: &[T], y: usize, x: usize, out: &mut [T]) {
        let Pooling { rows, columns, pitch, .. } = *self.pooling;
        let size = [out.len() / self.pooling.row_len(), columns.tile.min(columns.outputs - x)];
        let area = self.pooling.area([y, x], size);
        let is_tiled = self.pooling.is_tiled();
        let [lines, line] = if is_tiled { [LINES, rows.stride() * pitch] } else { self.pooling.lines() };
        if is_tiled {
            self.load(simd, image, area);
            self.passes(size, area[1].len).iter().for_each(|pass| pass.run::<T, R>(self.sums));
        } else {
            self.sums[..lines * line].fill(R::EMPTY);
        }
        for (at, out) in (0..).step_by(lines).zip(out.chunks_mut(lines * self.pooling.row_len())) {
            let (start, fold) = match is_tiled {
                true => (at * line, [1, 1]),
                false => (0, self.fold_lines(simd, image, y + at, size[1], area[1], out.len())),
            };
            self.store(simd, (start, line), fold, [y + at, x], size[1], out);
        }
    }

    /// Folds the rows under each of some output rows of together `len` elements from row `y` on to a line. Returns how many
    /// accumulators of the line make a window of the `width` ones, and how far these are apart.
    #[inline(always)]
    fn fold_lines<S: Simd>(
        &mut self,
        simd: S,
        image: &[T],
        y: usize,
        width: usize,
        part: Part,
        len: usize,
    ) -> [usize; 2] {
        let Pooling { rows, columns, channels, .. } = *self.pooling;
        let [_, line] = self.pooling.lines();
        let image_row = self.pooling.image_row();
        let shift = rows.dilation().saturating_mul(image_row);
        let fold = [columns.window(), columns.dilation().saturating_mul(channels)];
        // Vectors are folded faster than elements are gathered.
        let is_folded = fold[0] > 1 && columns.stride() > 1 && channels == 1;
        let pass = Pass { len: (width - 1) * columns.stride() + 1, count: fold[0], shift: fold[1] };
        let taps = &self.pooling.taps[y..][..len / self.pooling.row_len()];
        for (&[count, top], line) in taps.iter().zip(self.sums.chunks_exact_mut(line)) {
            if is_folded {
                // The borders were folded, too.
                line.fill(R::EMPTY);
            }
            let (from, inner) = (&image[top * image_row + part.first..], &mut line[part.before..]);
            match count {
                0 => inner[..part.count].fill(R::EMPTY),
                2 => fold_rows::<S, T, R>(simd, from, shift, 2, part.count, inner),
                3 => fold_rows::<S, T, R>(simd, from, shift, 3, part.count, inner),
                count => fold_rows::<S, T, R>(simd, from, shift, count, part.count, inner),
            }
            if is_folded {
                pass.run::<T, R>(line);
            }
        }
        if is_folded { [1, 1] } else { fold }
    }

    /// Copies the elements under the windows between empty accumulators.
    #[inline(always)]
    fn load<S: Simd>(&mut self, simd: S, image: &[T], [rows, columns]: [Part; 2]) {
        let (pitch, image_row) = (self.pooling.pitch, self.pooling.image_row());
        let sums = &mut self.sums[..rows.len * pitch];
        sums.fill(R::EMPTY);
        let inside = sums[rows.before * pitch..].chunks_exact_mut(pitch);
        for (sums, row) in inside.zip(image[rows.first * image_row..].chunks(image_row)).take(rows.count) {
            R::lift(simd, &row[columns.first..][..columns.count], &mut sums[columns.before..][..columns.count]);
        }
    }

    /// How a tile of these windows, with rows of `row_len` elements, is folded: the first element of a window becomes its
    /// result.
    #[inline(always)]
    fn passes(&self, [height, width]: [usize; 2], row_len: usize) -> [Pass; 4] {
        let Pooling { rows, columns, channels, pitch, .. } = *self.pooling;
        let along = |along: &Along, run: Option<usize>, len: usize, step: usize| {
            let (shift, run) = (along.dilation() * step, run.unwrap_or(along.window()));
            let runs = along.window() / run;
            let pass = Pass { len, count: runs, shift: run * shift };
            [Pass { len: len + (runs - 1) * run * shift, count: run, shift }, pass]
        };
        let stride = rows.stride();
        let down = along(&rows, self.pooling.runs[0], (height - 1) * stride * pitch + row_len, pitch);
        let len = (height - 1) * stride * pitch + ((width - 1) * columns.stride() + 1) * channels;
        let across = along(&columns, self.pooling.runs[1], len, channels);
        [down[0], down[1], across[0], across[1]]
    }

    /// Writes rows of results, of `width` windows, from row `y` and column `x` on. The accumulators of each row are from
    /// `start` on and `line` apart: for each window those of `fold[0]` elements `fold[1]` apart. May write more of `out`:
    /// all of it is written later.
    #[inline(always)]
    fn store<S: Simd>(
        &self,
        simd: S,
        (start, line): (usize, usize),
        fold: [usize; 2],
        [y, x]: [usize; 2],
        width: usize,
        out: &mut [T],
    ) {
        let Pooling { columns, channels, .. } = *self.pooling;
        let (column, row_len, stride) = (x * channels, self.pooling.row_len(), columns.stride());
        let rows = &self.pooling.taps[y..][..out.len() / row_len];
        // What is written beyond the row is overwritten by the next one, if they are whole rows.
        let end = if width == columns.outputs { usize::MAX } else { width * channels };
        let (sums, columns) = (&self.sums[start..], &self.pooling.covered[column..]);
        let lines = Lines { sums, line, stride, fold, rows, columns, row_len, end };
        let out = &mut out[column..];
        match (stride, channels, fold[0]) {
            (2.., 1, _) => lines.put::<S, T, R, 0>(simd, 1, width, out),
            (_, _, count) => {
                // Neighboring windows are like more channels.
                let len = if stride == 1 { width * channels } else { channels };
                for at in (0..width * channels).step_by(len) {
                    let (sums, columns) = (&lines.sums[at * stride..], &lines.columns[at..]);
                    // A pixel is followed by the next one of its row, unless it is the last.
                    let end = if stride == 1 { end } else { width * channels - at };
                    let (lines, out) = (Lines { sums, columns, end, ..lines }, &mut out[at..]);
                    match count {
                        3 => lines.put::<S, T, R, 1>(simd, 3, len, out),
                        _ => lines.put::<S, T, R, 1>(simd, count, len, out),
                    }
                }
            }
        }
    }
}

/// Folds `count` rows that are `shift` apart, each of `len` elements, to the accumulators at the start of `line`.
#[inline(always)]
fn fold_rows<S: Simd, T: Copy, R: PoolFold<T>>(
    simd: S,
    image: &[T],
    shift: usize,
    count: usize,
    len: usize,
    line: &mut [R::Sum],
) {
    let line = &mut line[..len.max(PUT)];
    if (count - 1).saturating_mul(shift).saturating_add(len.max(PUT)) > image.len() {
        let rows = Ends::<S, T, R> { simd, image, shift, len, fold: PhantomData };
        // SAFETY: there are as many rows.
        let sums = unsafe { fold_runs::<T, R, _>(count, &rows) };
        *line.first_chunk_mut().expect("a line ends with a spare block") = sums;
        line[len..].fill(R::EMPTY);
        return;
    }
    for at in (0..len).step_by(PUT) {
        // The last block may be at any place: what it computes again is the same.
        let at = if len < PUT { 0 } else { at.min(len - PUT) };
        let rows = Rows::<S, T, R> { simd, image: &image[at..], shift, fold: PhantomData };
        // SAFETY: the image has this many elements from the last row on, as was just checked.
        let sums = unsafe { fold_runs::<T, R, _>(count, &rows) };
        *line[at..].first_chunk_mut().expect("a line ends with a spare block") = sums;
    }
    line[len..].fill(R::EMPTY);
}

/// Blocks to be combined.
trait Blocks<A> {
    /// Block `k`.
    ///
    /// # Safety
    /// It must exist.
    unsafe fn block(&self, k: usize) -> [A; PUT];
}

/// Neighboring elements of rows that are `shift` apart.
struct Rows<'a, S, T, R> {
    simd: S,
    image: &'a [T],
    shift: usize,
    fold: PhantomData<R>,
}

impl<S: Simd, T: Copy, R: PoolFold<T>> Blocks<R::Sum> for Rows<'_, S, T, R> {
    #[inline(always)]
    unsafe fn block(&self, k: usize) -> [R::Sum; PUT] {
        debug_assert!(k * self.shift + PUT <= self.image.len());
        // SAFETY: the caller guarantees that the image has these elements.
        let block = unsafe { &*self.image.as_ptr().add(k * self.shift).cast::<[T; PUT]>() };
        R::lift_block(self.simd, block)
    }
}

/// The same of rows that end with the image and have `len` elements, fewer than a block.
struct Ends<'a, S, T, R> {
    simd: S,
    image: &'a [T],
    shift: usize,
    len: usize,
    fold: PhantomData<R>,
}

impl<S: Simd, T: Copy, R: PoolFold<T>> Blocks<R::Sum> for Ends<'_, S, T, R> {
    #[inline(always)]
    unsafe fn block(&self, k: usize) -> [R::Sum; PUT] {
        let mut sums = [R::EMPTY; PUT];
        R::lift(self.simd, &self.image[k * self.shift..][..self.len], &mut sums[..self.len]);
        sums
    }
}

/// Accumulators of neighboring windows, `shift` apart in each.
struct Columns<'a, A> {
    sums: &'a [A],
    shift: usize,
}

impl<A: Copy> Blocks<A> for Columns<'_, A> {
    #[inline(always)]
    unsafe fn block(&self, k: usize) -> [A; PUT] {
        debug_assert!(k * self.shift + PUT <= self.sums.len());
        // SAFETY: the caller guarantees that there are these accumulators.
        unsafe { *self.sums.as_ptr().add(k * self.shift).cast::<[A; PUT]>() }
    }
}

/// Combines `count` blocks, in runs of at most [`DIRECT`].
///
/// # Safety
/// There must be this many blocks.
#[inline(always)]
unsafe fn fold_runs<T, R: PoolFold<T>, B: Blocks<R::Sum>>(count: usize, blocks: &B) -> [R::Sum; PUT] {
    // SAFETY: by the contract.
    let mut all = unsafe { blocks.block(0) };
    for k in 1..count.min(DIRECT) {
        // SAFETY: by the contract.
        let next = unsafe { blocks.block(k) };
        join::<T, R, PUT>(&mut all, &next);
    }
    for first in (DIRECT..count).step_by(DIRECT) {
        // SAFETY: by the contract.
        let mut run = unsafe { blocks.block(first) };
        for k in first + 1..count.min(first + DIRECT) {
            // SAFETY: by the contract.
            let next = unsafe { blocks.block(k) };
            join::<T, R, PUT>(&mut run, &next);
        }
        join::<T, R, PUT>(&mut all, &run);
    }
    all
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
fn join<T, R: PoolFold<T>, const N: usize>(sums: &mut [R::Sum; N], x: &[R::Sum; N]) {
    for i in 0..N {
        sums[i] = R::add_plain(sums[i], x[i]);
    }
}

/// Folds `count` elements that are `shift` apart for each of `len` elements, in place.
#[derive(Clone, Copy)]
struct Pass {
    len: usize,
    count: usize,
    shift: usize,
}

impl Pass {
    #[inline(always)]
    fn run<T, R: PoolFold<T>>(&self, sums: &mut [R::Sum]) {
        if self.count == 1 {
            return;
        }
        for at in (0..self.len).step_by(BLOCK) {
            let mut all = *block(sums, at);
            for k in 1..self.count.min(DIRECT) {
                join::<T, R, BLOCK>(&mut all, block(sums, at + k * self.shift));
            }
            for first in (DIRECT..self.count).step_by(DIRECT) {
                let mut run = *block(sums, at + first * self.shift);
                for k in first + 1..self.count.min(first + DIRECT) {
                    join::<T, R, BLOCK>(&mut run, block(sums, at + k * self.shift));
                }
                join::<T, R, BLOCK>(&mut all, &run);
            }
            *block_mut(sums, at) = all;
        }
    }
}

/// Rows of accumulators, and how windows move over them.
#[derive(Clone, Copy)]
struct Lines<'a, A> {
    sums: &'a [A],
    /// From a row of accumulators to the next one.
    line: usize,
    /// From a window to the next one.
    stride: usize,
    /// The accumulators of a window, and from one of them to the next one.
    fold: [usize; 2],
    /// The rows and numbers of columns of the image that windows cover, by row and column.
    rows: &'a [[usize; 2]],
    columns: &'a [f32],
    /// From a row of results to the next one, and how much of it may be written.
    row_len: usize,
    end: usize,
}

impl<A: Copy> Lines<'_, A> {
    /// Writes `len` results per row, each of `count` accumulators, of windows `STRIDE` apart: 1, or 0 for as far as the lines
    /// say. Writes blocks as far as `out` reaches.
    #[inline(always)]
    fn put<S: Simd, T: Copy, R: PoolFold<T, Sum = A>, const STRIDE: usize>(
        &self,
        simd: S,
        count: usize,
        len: usize,
        out: &mut [T],
    ) {
        // A line ends with a spare block.
        const { assert!(2 * PUT <= BLOCK) };
        let blocks = len.div_ceil(PUT);
        assert!(blocks > 0 && blocks * PUT <= self.columns.len());
        let read = ((blocks * PUT - 1) * STRIDE).saturating_add((count - 1).saturating_mul(self.fold[1]));
        for (row, &[covered, _]) in self.rows.iter().enumerate() {
            let covered = covered.max(1) as f32;
            let (sums, out) = (&self.sums[row * self.line..], &mut out[row * self.row_len..]);
            assert!(read < sums.len());
            let end = out.len().min(self.end);
            let (whole, rest) = out[..end.min(blocks * PUT)].as_chunks_mut();
            let mut last = R::finish(simd, &[R::EMPTY; PUT], &[1.0; PUT], 1.0);
            for (at, out) in (0..len).step_by(PUT).zip(whole.iter_mut().chain([&mut last])) {
                *out = self.block_of::<S, T, R, STRIDE>(simd, sums, count, covered, at);
            }
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }

    /// The results from `at` on.
    #[inline(always)]
    fn block_of<S: Simd, T: Copy, R: PoolFold<T, Sum = A>, const STRIDE: usize>(
        &self,
        simd: S,
        sums: &[A],
        count: usize,
        rows: f32,
        at: usize,
    ) -> [T; PUT] {
        let shift = self.fold[1];
        let sums = if STRIDE == 0 {
            let mut of = [R::EMPTY; PUT];
            // Far beyond the last window there may be nothing.
            for (of, sum) in of.iter_mut().zip(sums[at * self.stride..].iter().step_by(self.stride)) {
                *of = *sum;
            }
            of
        } else {
            let blocks = Columns { sums: &sums[at..], shift };
            // SAFETY: `put` checked that there are these accumulators.
            unsafe { fold_runs::<T, R, _>(count, &blocks) }
        };
        let columns = self.columns[at..].first_chunk().expect("a block more than columns");
        R::finish(simd, &sums, columns, rows)
    }
}
