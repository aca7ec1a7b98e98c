//! The frame of products of bytes: cuts them into tiles, packs left rows, walks the panels, and converts the sums. How
//! operands are packed and multiplied is up to a [`Format`].

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::panels::BytePanels;
use super::{Rescale, To};
use crate::cpu::costs::byte_multiply_add;
use crate::cpu::product::formats::{ByteFormat, Format, FormatKernel, PADDING};
use crate::cpu::product::matrix::PatchMatrix;
use crate::cpu::product::rows::CopyPixels;
use crate::cpu::schedule::partition::{Grid, Shape, partition};
use crate::cpu::schedule::tiles::Tile as OutputTile;
use crate::cpu::simd::Kernel;
use crate::cpu::simd::dot::Integers;
use crate::memory::{bytes_of_mut, elements_mut};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Maximum rows of a tile: this number of patches stays in the second-level cache.
const MAX_ROWS: usize = 96;

/// Maximum vectors of sums of a register tile.
const MAX_SUMS: usize = 24;

/// Patches that are gathered before they are packed, unless they are packed rows themselves.
const GATHERED: usize = 8;

/// Rows from which a panel is expanded, if the format has use for it: several register tiles then read it.
const EXPANDED_ROWS: usize = 24;

/// The properties of products of bytes that determine their tiles.
#[derive(Clone, Copy, Debug)]
pub struct ByteCutting {
    /// The format.
    pub format: ByteFormat,
    /// Number of products.
    pub batches: usize,
    /// Rows, columns and depth of each product; the columns of each group.
    pub size: [usize; 3],
    /// Number of groups, which have panels of their own.
    pub groups: usize,
    /// Bytes per element of the output.
    pub element: usize,
    /// Whether left rows are gathered from images.
    pub gathers: bool,
}

impl ByteCutting {
    /// The tiles for `threads` threads; columns are counted in bytes.
    pub fn grid(&self, threads: usize) -> Grid {
        let (sizes, [rows, columns, depth]) = (self.format.sizes(), self.size);
        let all = columns * self.groups;
        let is_packed = !sizes.takes_bytes() || !depth.is_multiple_of(sizes.group);
        let shape = Shape {
            batches: self.batches,
            size: [rows, all, depth],
            tile: [
                sizes.units[sizes.vectors.ilog2() as usize] * sizes.unit,
                if self.groups == 1 { sizes.panel() } else { all },
            ],
            unit: sizes.unit,
            most: [MAX_ROWS, all],
            area: MAX_ROWS * all,
            finishes: false,
            multiply_add: byte_multiply_add(self.format),
            // Copied numbers are read, written and read again.
            left_bytes: if self.gathers || is_packed { 2 + 2 * sizes.left_size } else { 1 },
            right_bytes: 1,
        };
        let Grid { rows, cols } = partition(&shape, threads);
        Grid { rows, cols: cols.scaled(self.element) }
    }
}

/// How images with channels last become rows.
#[derive(Clone, Debug)]
pub struct BytePatches {
    /// The patches of the first group.
    pub matrix: PatchMatrix,
    /// The byte that represents 0 in the image.
    pub zero: u8,
}

/// A product, or that of a group of a convolution; its tiles can be computed separately.
pub struct ByteProduct<'a> {
    /// The right operand.
    pub panels: BytePanels<'a>,
    /// How the sums are converted.
    pub columns: Rescale<'a>,
    /// The group, whose columns are computed as a whole; `None` if there are none.
    pub group: Option<usize>,
    /// How images become rows; `None` if the left operand has rows.
    pub patches: Option<&'a BytePatches>,
    /// The bits to invert in the left operand to give its bytes the format's sign.
    pub flip: u8,
}

/// The parts of the scratch memory, in bytes.
struct Scratch {
    /// The sums of rows.
    sums: usize,
    /// Packed rows.
    packed: usize,
    /// An expanded panel.
    expanded: usize,
    /// Gathered patches.
    gathered: usize,
}

impl ByteProduct<'_> {
    fn format(&self) -> ByteFormat {
        self.panels.format()
    }

    /// Whether rows are multiplied in place.
    fn in_place(&self) -> bool {
        let sizes = self.format().sizes();
        self.patches.is_none() && self.flip == 0 && sizes.takes_bytes() && self.depth().is_multiple_of(sizes.group)
    }

    fn depth(&self) -> usize {
        self.panels.sizes()[1]
    }

    fn parts(&self) -> Scratch {
        let sizes = self.format().sizes();
        let stride = sizes.left_stride(self.depth());
        let packed = MAX_ROWS.next_multiple_of(sizes.unit) * stride;
        let (packed, gathered) = match self.patches {
            None if self.in_place() => (0, 0),
            Some(_) if !sizes.takes_bytes() => (packed, GATHERED * self.depth().next_multiple_of(PADDING)),
            _ => (packed, 0),
        };
        let panel = sizes.panel() * self.depth().next_multiple_of(sizes.group);
        let expanded = if sizes.left_size == 2 { panel * size_of::<i16>() } else { 0 };
        Scratch { sums: MAX_ROWS * size_of::<i32>(), packed: packed.next_multiple_of(64), expanded, gathered }
    }

    /// Scratch size in bytes that [`run`](Self::run) needs.
    pub fn scratch_bytes(&self) -> usize {
        let Scratch { sums, packed, expanded, gathered } = self.parts();
        sums + packed + expanded + gathered
    }

    /// Computes a tile of `ByteCutting::grid` of the output bytes for one image or matrix `left`.
    ///
    /// # Panics
    /// If a slice is too short, or the tile does not belong to the grid.
    pub fn run(&self, left: &[u8], tile: &mut OutputTile<u8>, scratch: &mut [f32]) {
        assert!(tile.rows.len() <= MAX_ROWS);
        let parts = self.parts();
        let scratch = bytes_of_mut(scratch);
        let (sums, scratch) = scratch.split_at_mut(parts.sums);
        let (packed, scratch) = scratch.split_at_mut(parts.packed);
        let (expanded, gathered) = scratch.split_at_mut(parts.expanded);
        let sums = elements_mut(sums);
        let is_high = tile.rows.len() >= EXPANDED_ROWS;
        self.format().run(is_high, RunTile { product: self, left, tile, sums, packed, expanded, gathered });
    }
}

/// A tile of a product.
struct RunTile<'a, 't> {
    product: &'a ByteProduct<'a>,
    left: &'a [u8],
    tile: &'a mut OutputTile<'t, u8>,
    sums: &'a mut [i32],
    packed: &'a mut [u8],
    expanded: &'a mut [u8],
    gathered: &'a mut [u8],
}

impl FormatKernel for RunTile<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<F: Format>(mut self, format: F) {
        let ByteProduct { panels, columns, group, .. } = self.product;
        let (size, depth, [each, _]) = (columns.to.size(), self.product.depth(), panels.sizes());
        let stride = F::SIZES.left_stride(depth);
        self.pack(format, stride);
        let left = match self.product.in_place() {
            true => &self.left[self.tile.rows.start * depth..],
            false => &self.packed[..],
        };
        let rows = self.tile.rows.len();
        assert!(left.len() >= rows.next_multiple_of(F::SIZES.unit) * stride);
        // The columns of the tile, and those of the product.
        let (start, first, count) = match group {
            Some(group) => (group * each, 0, each),
            None => (0, self.tile.cols.start / size, self.tile.cols.len() / size),
        };
        assert!(first.is_multiple_of(F::SIZES.panel()) && first + count <= each);
        assert!((start + count) * size <= self.tile.cols.len());
        let padded = F::SIZES.padded_columns(each);
        assert!([columns.start.len(), columns.scale.len(), columns.bias.len()].iter().all(|&len| len >= padded));
        assert!(columns.zeros.is_empty() || columns.zeros.len() >= padded);
        let (out, out_stride) = self.tile.as_mut_ptr();
        // SAFETY: the tile owns these columns of its rows.
        let out = unsafe { out.add(start * size) };
        RowsTimesPanels {
            left,
            stride,
            row_sums: self.sums,
            panels,
            columns,
            rows,
            first,
            count,
            out,
            out_stride: out_stride / size,
        }
        .run(format, self.expanded);
    }
}

impl RunTile<'_, '_> {
    /// Packs the rows, and writes their sums if they are needed.
    #[inline(always)]
    fn pack<F: Format>(&mut self, format: F, stride: usize) {
        let ByteProduct { patches, flip, ref columns, group, .. } = *self.product;
        let (depth, first, rows) = (self.product.depth(), self.tile.rows.start, self.tile.rows.len());
        let (in_place, needs_sums) = (self.product.in_place(), !columns.zeros.is_empty());
        if in_place && !needs_sums {
            return;
        }
        let padded = depth.next_multiple_of(PADDING);
        let most = if F::SIZES.takes_bytes() { MAX_ROWS } else { GATHERED };
        for top in (0..rows).step_by(most) {
            let some = top..rows.min(top + most);
            if let Some(BytePatches { matrix, zero }) = patches {
                let (stride, out) = match F::SIZES.takes_bytes() {
                    true => (stride, &mut self.packed[top * stride..]),
                    false => (padded, &mut *self.gathered),
                };
                let (image, zero) = (&self.left[group.unwrap_or(0) * matrix.channels..], *zero);
                let rows = first + some.start..first + some.end;
                CopyPixels { image, matrix, zero, rows, depth: 0..depth, stride, out }.run(format.integers().float());
            }
            for row in some {
                let from = match patches {
                    Some(_) if F::SIZES.takes_bytes() => {
                        let packed = &mut self.packed[row * stride..][..depth];
                        if needs_sums {
                            self.sums[row] = row_sum::<F>(packed, flip);
                        }
                        if flip != 0 {
                            packed.iter_mut().for_each(|byte| *byte ^= flip);
                        }
                        continue;
                    }
                    Some(_) => &self.gathered[(row - top) * padded..][..padded],
                    None => &self.left[(first + row) * depth..][..depth],
                };
                if needs_sums {
                    self.sums[row] = row_sum::<F>(&from[..depth], flip);
                }
                if !in_place {
                    format.pack_left(from, flip, row, stride, self.packed);
                }
            }
        }
    }
}

/// The sum of the numbers of a left row.
#[inline(always)]
fn row_sum<F: Format>(row: &[u8], flip: u8) -> i32 {
    let mut sum = 0;
    for &byte in row {
        sum += if F::SIZES.is_signed { (byte ^ flip) as i8 as i32 } else { (byte ^ flip) as i32 };
    }
    sum
}

/// The product of packed rows and neighboring panels. The constructor guarantees that the operands have all rows,
/// columns and depths.
struct RowsTimesPanels<'a> {
    /// The packed rows.
    left: &'a [u8],
    /// Bytes per packed row.
    stride: usize,
    /// The sum of the numbers of each row, if [`Rescale::zeros`] needs it.
    row_sums: &'a [i32],
    /// The right operand.
    panels: &'a BytePanels<'a>,
    /// How the sums are converted, for all columns of the panels.
    columns: &'a Rescale<'a>,
    /// Number of rows.
    rows: usize,
    /// The first column, at the start of a full panel.
    first: usize,
    /// Number of columns.
    count: usize,
    /// The output: `count` elements at the start of each row.
    out: *mut u8,
    /// Distance between its rows, in elements.
    out_stride: usize,
}

impl RowsTimesPanels<'_> {
    #[inline(always)]
    fn run<F: Format>(&self, format: F, expanded: &mut [u8]) {
        let lanes = F::Integers::LANES;
        for at in (0..self.count).step_by(F::SIZES.panel()) {
            let column = self.first + at;
            match (self.panels.sizes()[0] - column).div_ceil(lanes).min(F::SIZES.vectors) {
                1 => self.panel::<F, 1>(format, column, at, expanded),
                3.. if F::SIZES.vectors == 4 => self.panel::<F, 4>(format, column, at, expanded),
                _ => self.panel::<F, 2>(format, column, at, expanded),
            }
        }
    }

    /// All rows of the panel at `column`; `at` is the first column in the output.
    #[inline(always)]
    fn panel<F: Format, const VECS: usize>(&self, format: F, column: usize, at: usize, expanded: &mut [u8]) {
        let panel = self.panels.panel(column, VECS * F::Integers::LANES);
        let numbers = self.panels.sizes()[1].next_multiple_of(F::SIZES.group) * VECS * F::Integers::LANES;
        let panel = if F::SIZES.expands {
            let expanded = &mut expanded[..numbers * size_of::<i16>()];
            for (to, &byte) in expanded.as_chunks_mut().0.iter_mut().zip(&panel[..numbers]) {
                *to = (byte as i8 as i16).to_le_bytes();
            }
            expanded
        } else {
            panel
        };
        let height = F::SIZES.units[VECS.ilog2() as usize];
        // Tiles of nearly equal height: a much lower tile takes as long as the others.
        let units = self.rows.div_ceil(F::SIZES.unit);
        let count = units.div_ceil(height);
        let mut top = 0;
        for index in 1..=count {
            let end = units * index / count;
            macro_rules! heights {
                ($($height:literal)*) => {
                    match end - top {
                        // SAFETY: the operands have these rows and columns, and the panel was just taken.
                        $($height if $height <= height && $height * F::SIZES.unit * VECS <= MAX_SUMS => unsafe {
                            self.tile::<F, $height, VECS>(format, panel, [top * F::SIZES.unit, column, at])
                        },)*
                        _ => unreachable!("no tile is higher"),
                    }
                };
            }
            heights!(12 11 10 9 8 7 6 5 4 3 2 1);
            top = end;
        }
    }

    /// Computes one register tile of `UNITS` units.
    ///
    /// # Safety
    /// There are as many units from row `top` on, and `VECS` vectors of columns from `column` on.
    #[inline(always)]
    unsafe fn tile<F: Format, const UNITS: usize, const VECS: usize>(
        &self,
        format: F,
        panel: &[u8],
        [top, column, at]: [usize; 3],
    ) {
        let (integers, columns) = (format.integers(), self.columns);
        let mut start = [integers.splat(0); VECS];
        for v in 0..VECS {
            // SAFETY: the columns have that many vectors.
            start[v] = unsafe { integers.load_sums(columns.start.as_ptr().add(column + v * F::Integers::LANES)) };
        }
        let mut sums = [const { MaybeUninit::uninit() }; MAX_SUMS];
        let left = self.left.as_ptr().wrapping_add(top * self.stride);
        let groups = self.panels.sizes()[1].div_ceil(F::SIZES.group);
        // SAFETY: the caller guarantees the rows and the panel; there is room for the sums, which the tile writes.
        // Decides the output type once, not per row.
        unsafe {
            let to = sums.as_mut_ptr().cast();
            format.tile::<UNITS, VECS>(left, self.stride, panel.as_ptr(), groups, start, to);
            let rows = top..self.rows.min(top + UNITS * F::SIZES.unit);
            match columns.to {
                To::Bytes(how) => self.finish::<F, VECS>(format, rows, [column, at], &sums, To::Bytes(how)),
                To::Floats { min, max } => {
                    self.finish::<F, VECS>(format, rows, [column, at], &sums, To::Floats { min, max })
                }
                To::Sums => self.finish::<F, VECS>(format, rows, [column, at], &sums, To::Sums),
            }
        }
    }

    /// Finishes the sums of a register tile.
    ///
    /// # Safety
    /// As [`tile`](Self::tile); the sums of the rows have been written.
    #[inline(always)]
    unsafe fn finish<F: Format, const VECS: usize>(
        &self,
        format: F,
        rows: Range<usize>,
        [column, at]: [usize; 2],
        sums: &[MaybeUninit<<F::Integers as Integers>::Sums>; MAX_SUMS],
        to: To,
    ) {
        let (integers, columns, lanes) = (format.integers(), self.columns, F::Integers::LANES);
        let count = (VECS * lanes).min(self.count - at);
        // SAFETY: the columns have that many vectors.
        let scales = unsafe { columns.scales::<F::Integers, VECS>(integers, column) };
        for (row, own) in rows.zip(sums.as_chunks::<VECS>().0) {
            // SAFETY: the caller guarantees it.
            let mut sums = std::array::from_fn::<_, VECS, _>(|v| unsafe { own[v].assume_init() });
            if !columns.zeros.is_empty() {
                let row_sum = integers.splat(self.row_sums[row]);
                for v in 0..VECS {
                    // SAFETY: the columns have that many vectors.
                    let zeros = unsafe { integers.load_sums(columns.zeros.as_ptr().add(column + v * lanes)) };
                    sums[v] = integers.sub_product(sums[v], row_sum, zeros);
                }
            }
            let place = (row * self.out_stride + at) * to.size();
            // SAFETY: the position is in the writable row, and the columns have that many vectors.
            unsafe { scales.store::<false>(integers, sums, to, self.out.add(place), count) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::panels::ByteColumns;
    use super::*;
    use crate::cpu::schedule::pool::Threads;
    use crate::cpu::schedule::tiles::{Matrices, Tiles};
    use crate::cpu::simd::Isa;
    use crate::cpu::weights::Weights;
    use crate::memory::Buffer;
    use crate::testing::Random;

    /// Sizes of a product, whether its bytes are signed, and the zero points of its columns.
    struct Case<'a> {
        size: [usize; 3],
        is_signed: [bool; 2],
        zero: &'a dyn Fn(usize) -> i16,
        /// Whether columns are contiguous in memory.
        by_column: bool,
    }

    fn number(byte: u8, is_signed: bool) -> i64 {
        if is_signed { byte as i8 as i64 } else { byte as i64 }
    }

    /// Checks all elements of a product in every format, with 1, 2 and 7 threads. Returns the number of formats.
    fn check(case: &Case, random: &mut Random) -> usize {
        let Case { size: [rows, columns, depth], is_signed: [left_signed, right_signed], zero, by_column } = *case;
        // Extremes are frequent.
        let mut byte = || match random.next() % 4 {
            0 => [0, 0x7f, 0x80, 0xff][random.next() as usize % 4],
            _ => random.next() as u8,
        };
        let left: Vec<u8> = (0..rows * depth).map(|_| byte()).collect();
        let right: Vec<u8> = (0..columns * depth).map(|_| byte()).collect();
        let (stride, step) = if by_column { (depth, 1) } else { (1, columns) };
        let zeros: Vec<i16> = (0..columns).map(zero).collect();
        let places: Vec<usize> = (0..depth).map(|k| k * step).collect();
        let expected: Vec<i64> = (0..rows * columns)
            .map(|at| {
                let (row, column) = (at / columns, at % columns);
                let product = |k: usize| {
                    number(left[row * depth + k], left_signed)
                        * (number(right[column * stride + k * step], right_signed) - zeros[column] as i64)
                };
                (0..depth).map(product).sum::<i64>() + column as i64
            })
            .collect();
        let formats: Vec<ByteFormat> = Isa::available().into_iter().flat_map(ByteFormat::available).collect();
        for &format in &formats {
            let source = ByteColumns {
                bytes: &right,
                is_signed: right_signed,
                stride,
                places: &places,
                zeros: &zeros,
                lift: None,
            };
            let mut data = Buffer::zeroed(BytePanels::bytes(format, columns, depth)).unwrap();
            BytePanels::pack(format, &Weights::of_slice(&right), &source, data.bytes_mut());
            let panels = BytePanels::of(format, columns, depth, data.bytes());
            let [sums, lifts] =
                [0, 1].map(|at| panels.sums_and_lifts().flat_map(|of| of[at].to_vec()).collect::<Vec<_>>());
            let is_signed = format.sizes().is_signed;
            let shift = 128 * (left_signed as i32 - is_signed as i32);
            let start = |column: usize| column as i32 - shift * sums[column];
            let rescale = Rescale {
                start: (0..sums.len()).map(start).collect(),
                zeros: lifts.iter().map(|lift| -lift).collect(),
                scale: vec![1.0; sums.len()].into(),
                bias: vec![0.0; sums.len()].into(),
                to: To::Floats { min: f32::NEG_INFINITY, max: f32::INFINITY },
            };
            let flip = if left_signed == is_signed { 0 } else { 0x80 };
            let product = ByteProduct { panels, columns: rescale, group: None, patches: None, flip };
            for count in [1, 2, 7] {
                let (threads, width) = (Threads::new(count).unwrap(), 4 * columns);
                let cutting = ByteCutting {
                    format,
                    batches: 1,
                    size: [rows, columns, depth],
                    groups: 1,
                    element: 4,
                    gathers: false,
                };
                let mut out = vec![0xff; rows * width];
                let mut scratch = vec![f32::NAN; count * product.scratch_bytes().div_ceil(64) * 16];
                let matrices = Matrices { batches: 1, batch_stride: 0, rows, row_stride: width, cols: width };
                Tiles::new(&mut out, matrices, cutting.grid(count)).share(
                    &threads,
                    usize::MAX,
                    &mut scratch,
                    |tile, scratch| product.run(&left, tile, scratch),
                );
                for (at, (got, &sum)) in out.as_chunks::<4>().0.iter().zip(&expected).enumerate() {
                    let case = format!("{format:?}, {rows} x {columns} x {depth}: {}, {}", at / columns, at % columns);
                    assert_eq!(f32::from_le_bytes(*got), sum as f32, "{case}");
                }
            }
        }
        formats.len()
    }

    #[test]
    fn sums_are_exact_at_the_edges_of_tiles() {
        let mut random = Random::new(1);
        let sizes = [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 24, 25, 97];
        for (index, rows) in sizes.into_iter().enumerate() {
            for (columns, depth) in [(1, 1), (7, 3), (16, 16), (33, 30), (64, 7), (70, 64), (130, 17)] {
                let is_signed = [index % 2 == 0, columns % 2 == 0];
                let by_column = depth % 2 == 0;
                check(&Case { size: [rows, columns, depth], is_signed, zero: &|_| 0, by_column }, &mut random);
            }
        }
    }

    #[test]
    fn sums_are_exact_with_zero_points_of_any_size() {
        let mut random = Random::new(2);
        for is_signed in [[false, false], [false, true], [true, false], [true, true]] {
            let low = if is_signed[1] { -128 } else { 0 };
            for size in [[13, 70, 7], [3, 33, 64], [100, 5, 130]] {
                let zero = |column: usize| low + [0, 255, 128, 3, 77][column % 5];
                check(&Case { size, is_signed, zero: &zero, by_column: true }, &mut random);
            }
        }
    }

    #[test]
    fn sums_of_random_products_are_exact() {
        let mut random = Random::new(3);
        for _ in 0..40 {
            let size = [100, 150, 80].map(|most| 1 + random.next() as usize % most);
            let signs = random.next();
            let is_signed = [signs & 1 == 0, signs & 2 == 0];
            check(&Case { size, is_signed, zero: &|_| 0, by_column: signs & 4 == 0 }, &mut random);
        }
    }

    #[test]
    fn the_largest_depths_are_exact() {
        // Sums stay below 2^24, which floats represent.
        let mut random = Random::new(4);
        check(&Case { size: [2, 3, 500], is_signed: [false, true], zero: &|_| 0, by_column: true }, &mut random);
    }
}
