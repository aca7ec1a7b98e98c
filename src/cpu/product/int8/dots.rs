//! Matrix product of bytes.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::super::tile::opaque;
use super::patches::BytePatches;
use super::{Rescale, To};
use crate::cpu::schedule::tiles::Tile as OutputTile;
use crate::cpu::simd::dot::{Dot, DotKernel, DotLevel};
use crate::error::Result;
use crate::memory::{Buffer, elements, elements_mut, share};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Right operands in panels of columns: four neighboring depths of a column are four neighboring bytes.
///
/// A panel is as wide as the register tile of the level; the last one is only as wide as its columns require. After the
/// panels come the sum and the lift of each column, where the lift is the offset that was subtracted from its elements
/// to make them signed bytes.
pub struct BytePanels {
    level: DotLevel,
    data: Arc<Buffer>,
    columns: usize,
    depth: usize,
}

impl BytePanels {
    /// Packs `columns` columns of `depth` numbers, returned by `at(column, depth)`. They are between -255 and 255, and
    /// those of a column less than 256 apart.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for the panels.
    pub fn new(level: DotLevel, columns: usize, depth: usize, at: impl Fn(usize, usize) -> i16) -> Result<BytePanels> {
        let data = share(Arc::new(BytePanels::pack(level, columns, depth, at)?));
        Ok(BytePanels::of(level, columns, depth, data))
    }

    /// The panels in a buffer created by [`pack`](Self::pack) with the same arguments.
    pub fn of(level: DotLevel, columns: usize, depth: usize, data: Arc<Buffer>) -> BytePanels {
        BytePanels { level, data, columns, depth }
    }

    /// Creates the buffer of [`new`](Self::new).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn pack(level: DotLevel, columns: usize, depth: usize, at: impl Fn(usize, usize) -> i16) -> Result<Buffer> {
        let padded = padded_columns(level, columns);
        let panels = padded * depth.next_multiple_of(4);
        let mut data = Buffer::zeroed(panels + 2 * columns * size_of::<i32>())?;
        let width = level.widths().vectors * level.widths().lanes;
        let (bytes, behind) = data.bytes_mut().split_at_mut(panels);
        let (sums, lifts) = elements_mut::<i32>(behind).split_at_mut(columns);
        let mut numbers: Vec<i16> = Vec::new();
        for first in (0..columns).step_by(width) {
            let panel = first * depth.next_multiple_of(4);
            let wide = width.min(padded - first);
            let own = first..columns.min(first + wide);
            let mut ranges = vec![[i16::MAX, i16::MIN]; own.len()];
            numbers.clear();
            for k in 0..depth {
                numbers.extend(own.clone().map(|column| at(column, k)));
                let row = numbers[k * own.len()..].iter().zip(&mut sums[own.clone()]).zip(&mut ranges);
                for ((&number, sum), [min, max]) in row {
                    (*sum, *min, *max) = (*sum + number as i32, number.min(*min), number.max(*max));
                }
            }
            let lift = |&[min, max]: &[i16; 2]| if min < -128 { min + 128 } else { (max - 127).max(0) };
            let lifted: Vec<i16> = ranges.iter().map(lift).collect();
            lifts[own].iter_mut().zip(&lifted).for_each(|(lift, &lifted)| *lift = lifted as i32);
            for (k, row) in numbers.chunks(lifted.len()).enumerate() {
                let quads = &mut bytes[panel + k / 4 * 4 * wide..];
                for (quad, (number, lift)) in quads.chunks_exact_mut(4).zip(row.iter().zip(&lifted)) {
                    quad[k % 4] = (number - lift) as u8;
                }
            }
        }
        Ok(data)
    }

    /// The sum and the lift of each column.
    pub fn sums_and_lifts(&self) -> (&[i32], &[i32]) {
        let behind = self.data.len() - 2 * self.columns * size_of::<i32>();
        elements(&self.data.bytes()[behind..]).split_at(self.columns)
    }

    /// The buffer of the panels.
    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.data
    }

    /// The number of columns, and of elements per column.
    pub fn sizes(&self) -> [usize; 2] {
        [self.columns, self.depth]
    }

    /// Columns per full panel.
    pub fn panel(&self) -> usize {
        let widths = self.level.widths();
        widths.vectors * widths.lanes
    }
}

/// The number of columns that the panels have room for if `columns` are packed. [`Rescale`] must have as many.
pub fn padded_columns(level: DotLevel, columns: usize) -> usize {
    let widths = level.widths();
    let width = widths.vectors * widths.lanes;
    let rest = columns % width;
    columns - rest + rest.div_ceil(widths.lanes).next_power_of_two() * widths.lanes * (rest > 0) as usize
}

/// Maximum rows of a tile of [`ByteProduct`]: this number of patches stays in the second-level cache.
pub const ROW_BLOCK: usize = 96;

/// A product, or one per group of a convolution; its tiles can be computed separately.
pub struct ByteProduct<'a> {
    /// The right operand of each group, all of the same sizes.
    pub panels: &'a [BytePanels],
    /// How the sums of each group are converted.
    pub columns: &'a [Rescale<'a>],
    /// How images become rows; `None` if the left operand has rows.
    pub patches: Option<&'a BytePatches>,
    /// The bits to invert in the left operand to make its bytes unsigned.
    pub flip: u8,
}

impl ByteProduct<'_> {
    /// Scratch size in bytes that [`run`](Self::run) needs.
    pub fn scratch_bytes(&self) -> usize {
        let sums = ROW_BLOCK * size_of::<i32>();
        match self.patches {
            Some(patches) => sums + patches.bytes(ROW_BLOCK),
            None if self.flip != 0 => sums + ROW_BLOCK * self.panels[0].depth,
            None => sums,
        }
    }

    /// Computes a tile of at most [`ROW_BLOCK`] rows of the output bytes for one image or matrix `left`. Its columns
    /// start at a full panel, or are all columns of all groups.
    ///
    /// # Panics
    /// If a slice is too short.
    pub fn run(&self, left: &[u8], tile: &mut OutputTile<u8>, scratch: &mut [f32]) {
        let size = self.columns[0].to.size();
        let (first, rows) = (tile.rows.start, tile.rows.len());
        let (from, count) = (tile.cols.start / size, tile.cols.len() / size);
        let (out, stride) = tile.as_mut_ptr();
        assert!(rows <= ROW_BLOCK && self.panels.len() == self.columns.len());
        let each = self.panels[0].columns;
        assert!(self.panels.len() == 1 || (from == 0 && count == each * self.panels.len()));
        let (sums, bytes) = scratch.split_at_mut(ROW_BLOCK);
        // SAFETY: integers and bytes need no more alignment than floats, and any bits are valid for them.
        let (sums, bytes) = unsafe { (sums.align_to_mut::<i32>().1, bytes.align_to_mut::<u8>().1) };
        for (group, (panels, columns)) in self.panels.iter().zip(self.columns).enumerate() {
            let depth = panels.depth;
            let (left, left_stride): (&[u8], usize) = match self.patches {
                Some(patches) => {
                    patches.fill(left, group * patches.group, first, rows, bytes);
                    (bytes, patches.stride())
                }
                None if self.flip != 0 => {
                    let flipped = left[first * depth..][..rows * depth].iter().map(|x| x ^ self.flip);
                    bytes.iter_mut().zip(flipped).for_each(|(byte, flipped)| *byte = flipped);
                    (bytes, depth)
                }
                None => (&left[first * depth..], depth),
            };
            if !columns.zeros.is_empty() {
                row_sums(left, left_stride, depth, &mut sums[..rows]);
            }
            let (start, count) = if self.panels.len() == 1 { (from, count) } else { (0, each) };
            let product =
                PanelProduct { left, left_stride, row_sums: sums, right: panels, columns, rows, first: start, count };
            // SAFETY: the tile owns these columns of its rows.
            unsafe { product.run(out.add(group * each * size), stride / size) };
        }
    }
}

/// The product of rows of unsigned bytes and packed columns.
struct PanelProduct<'a> {
    /// The rows, `left_stride` bytes apart, with the first one at the start.
    left: &'a [u8],
    /// Distance between rows.
    left_stride: usize,
    /// The sum of the bytes of each row, if [`Rescale::zeros`] needs it.
    row_sums: &'a [i32],
    /// The right operand.
    right: &'a BytePanels,
    /// How the sums are converted, for all columns of the panels.
    columns: &'a Rescale<'a>,
    /// Number of rows.
    rows: usize,
    /// The first column, at the start of a full panel.
    first: usize,
    /// Number of columns.
    count: usize,
}

impl PanelProduct<'_> {
    /// Computes the product; the rows of `out` are `out_stride` elements apart.
    ///
    /// # Safety
    /// `out` must be valid for writes of `count` elements at the start of each of `rows` rows.
    ///
    /// # Panics
    /// If there are fewer rows or columns.
    unsafe fn run(&self, out: *mut u8, out_stride: usize) {
        let (right, columns) = (self.right, self.columns);
        let padded = padded_columns(right.level, right.columns);
        assert!(self.rows == 0 || self.left.len() >= (self.rows - 1) * self.left_stride + self.readable());
        assert!(self.first.is_multiple_of(right.panel()) && self.first + self.count <= right.columns);
        assert!([columns.start.len(), columns.scale.len(), columns.bias.len()].iter().all(|&len| len >= padded));
        assert!(columns.zeros.is_empty() || (columns.zeros.len() >= padded && self.row_sums.len() >= self.rows));
        right.level.run(RunPanels { product: self, out, out_stride });
    }

    /// The bytes to read of a row. If there is room, includes bytes after the row to complete its last quad; they are
    /// multiplied with 0.
    fn readable(&self) -> usize {
        let (depth, quads) = (self.right.depth, self.right.depth.next_multiple_of(4));
        if self.left_stride >= quads { quads } else { depth }
    }
}

/// Writes the sums of the bytes of `rows` rows of `depth` bytes, `stride` bytes apart.
fn row_sums(left: &[u8], stride: usize, depth: usize, sums: &mut [i32]) {
    for (row, sum) in sums.iter_mut().enumerate() {
        *sum = left[row * stride..][..depth].iter().map(|&x| x as i32).sum();
    }
}

struct RunPanels<'a> {
    product: &'a PanelProduct<'a>,
    /// Valid for all elements of the product; the constructor of this value guarantees that.
    out: *mut u8,
    out_stride: usize,
}

impl DotKernel for RunPanels<'_> {
    type Output = ();

    #[inline(always)]
    fn run<D: Dot>(self, dot: D) {
        let PanelProduct { right, first, count, .. } = *self.product;
        let width = D::VECTORS * D::LANES;
        let depth = right.depth.next_multiple_of(4);
        for left in (0..count).step_by(width) {
            let column = first + left;
            let panel = &right.data.bytes()[column * depth..];
            let vectors = (right.columns - column).div_ceil(D::LANES).min(D::VECTORS);
            let tile = PanelTiles { run: &self, panel, column, at: left, count: width.min(count - left) };
            match vectors {
                1 => tile.rows::<D, 1>(dot),
                2 => tile.rows::<D, 2>(dot),
                _ => tile.rows::<D, 4>(dot),
            }
        }
    }
}

/// All rows of one panel.
struct PanelTiles<'a> {
    run: &'a RunPanels<'a>,
    panel: &'a [u8],
    column: usize,
    /// The first column in the output.
    at: usize,
    count: usize,
}

impl PanelTiles<'_> {
    #[inline(always)]
    fn rows<D: Dot, const VECS: usize>(&self, dot: D) {
        let height = D::ROWS[VECS.ilog2() as usize];
        let rows = self.run.product.rows;
        assert!(self.panel.len() >= self.run.product.right.depth.next_multiple_of(4) * VECS * D::LANES);
        // Tiles of nearly equal height: a much lower tile takes as long as the others.
        let count = rows.div_ceil(height);
        let mut top = 0;
        for index in 1..=count {
            let end = rows * index / count;
            macro_rules! heights {
                ($($height:literal)*) => {
                    match end - top {
                        // SAFETY: `PanelProduct::run` has checked the rows and columns, and the panel was checked above.
                        $($height if $height <= height => unsafe { self.tile::<D, $height, VECS>(dot, top) },)*
                        _ => {}
                    }
                };
            }
            heights!(12 11 10 9 8 7 6 5 4 3 2 1);
            top = end;
        }
    }

    /// Computes one register tile.
    ///
    /// # Safety
    /// `HEIGHT` rows from `top` on are readable and writable; `VECS` vectors of the panel and of everything in
    /// [`Rescale`] are readable.
    #[inline(always)]
    unsafe fn tile<D: Dot, const HEIGHT: usize, const VECS: usize>(&self, dot: D, top: usize) {
        let product = self.run.product;
        let PanelProduct { left, left_stride, columns, .. } = product;
        let mut start = [dot.splat(0); VECS];
        for (v, start) in start.iter_mut().enumerate() {
            // SAFETY: the columns have that many vectors.
            *start = unsafe { dot.load_sums(columns.start.as_ptr().add(self.column + v * D::LANES)) };
        }
        let mut sums = [start; HEIGHT];
        let rows = left.as_ptr().wrapping_add(top * left_stride);
        // Three rows share a pointer, as in the tile of floats.
        let mut rows_at: [*const u8; 4] = std::array::from_fn(|i| rows.wrapping_add(3 * i * left_stride));
        let mut panel = self.panel.as_ptr();
        let readable = product.readable();
        for _ in 0..readable / 4 {
            // SAFETY: the panel and the rows have four more elements.
            unsafe {
                let factors = right_factors::<D, VECS>(dot, panel);
                for row in 0..HEIGHT {
                    let quad = rows_at[row / 3].add(row % 3 * left_stride).cast::<u32>().read_unaligned();
                    let quad = dot.left_quad(quad);
                    for v in 0..VECS {
                        sums[row][v] = dot.dot(sums[row][v], quad, factors[v]);
                    }
                }
            }
            for index in 0..4 {
                rows_at[index] = opaque(rows_at[index].wrapping_add(4));
            }
            panel = panel.wrapping_add(VECS * D::BYTES);
        }
        let rest = readable % 4;
        if rest > 0 {
            // SAFETY: the panel has four more elements, the rows have `rest`.
            unsafe {
                let factors = right_factors::<D, VECS>(dot, panel);
                for row in 0..HEIGHT {
                    let mut quad = [0; 4];
                    for (i, byte) in quad[..rest].iter_mut().enumerate() {
                        *byte = *rows_at[row / 3].add(row % 3 * left_stride + i);
                    }
                    let quad = dot.left_quad(u32::from_le_bytes(quad));
                    for v in 0..VECS {
                        sums[row][v] = dot.dot(sums[row][v], quad, factors[v]);
                    }
                }
            }
        }
        // The following loop is not unrolled and indexes the sums in memory. If they were not stored here first, LLVM
        // would keep them in memory from the beginning.
        let mut stored = [[MaybeUninit::uninit(); VECS]; HEIGHT];
        for row in 0..HEIGHT {
            for v in 0..VECS {
                stored[row][v].write(sums[row][v]);
            }
        }
        // Decides the output type once, not per row. SAFETY: all sums were just written; the caller guarantees the
        // rest.
        unsafe {
            match columns.to {
                To::Bytes(how) => self.finish(dot, top, &stored, To::Bytes(how)),
                To::Floats { min, max } => self.finish(dot, top, &stored, To::Floats { min, max }),
            }
        }
    }

    /// Finishes the sums of a register tile.
    ///
    /// # Safety
    /// As [`tile`](Self::tile); all sums have been written.
    #[inline(always)]
    unsafe fn finish<D: Dot, const HEIGHT: usize, const VECS: usize>(
        &self,
        dot: D,
        top: usize,
        stored: &[[MaybeUninit<D::Sums>; VECS]; HEIGHT],
        to: To,
    ) {
        let RunPanels { product: PanelProduct { row_sums, columns, .. }, out, out_stride } = self.run;
        // SAFETY: the columns have that many vectors.
        let scales = unsafe { columns.scales::<D, VECS>(dot, self.column) };
        for (row, stored) in (top..).zip(stored) {
            // SAFETY: the caller guarantees it.
            let mut sums = std::array::from_fn::<_, VECS, _>(|v| unsafe { stored[v].assume_init() });
            if !columns.zeros.is_empty() {
                let row_sum = dot.splat(row_sums[row]);
                for (v, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the columns have that many vectors.
                    let zeros = unsafe { dot.load_sums(columns.zeros.as_ptr().add(self.column + v * D::LANES)) };
                    *sum = dot.sub_product(*sum, row_sum, zeros);
                }
            }
            let place = (row * out_stride + self.at) * to.size();
            // SAFETY: the position is in the writable row, and the columns have that many vectors.
            unsafe { scales.store::<false>(dot, sums, to, out.add(place), self.count) };
        }
    }
}

/// `VECS` vectors of right operands.
///
/// # Safety
/// The vectors must be readable.
#[inline(always)]
unsafe fn right_factors<D: Dot, const VECS: usize>(dot: D, panel: *const u8) -> [D::Right; VECS] {
    // SAFETY: the caller guarantees it.
    let mut factors = [dot.right(unsafe { dot.load(panel) }); VECS];
    for (v, factor) in factors.iter_mut().enumerate().skip(1) {
        // SAFETY: the caller guarantees it.
        *factor = dot.right(unsafe { dot.load(panel.add(v * D::BYTES)) });
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::Isa;
    use crate::testing::Random;

    #[test]
    fn sums_are_exact_on_every_level() {
        let mut random = Random::new(1);
        let mut byte = move || random.next() as u8;
        for (rows, depth, count) in [(1, 1, 1), (13, 7, 70), (5, 64, 130), (25, 30, 16)] {
            let left: Vec<u8> = (0..rows * depth).map(|i| if i % 5 == 0 { 255 } else { byte() }).collect();
            let right: Vec<i8> = (0..count * depth).map(|i| if i % 7 == 0 { -128 } else { byte() as i8 }).collect();
            for level in Isa::available().into_iter().flat_map(DotLevel::available) {
                let padded = padded_columns(level, count);
                let panels =
                    BytePanels::new(level, count, depth, |column, k| right[column * depth + k] as i16).unwrap();
                let columns = Rescale {
                    start: (0..padded as i32).collect(),
                    zeros: (0..padded as i32).map(|column| column % 3).collect(),
                    scale: vec![1.0; padded].into(),
                    bias: vec![0.0; padded].into(),
                    to: To::Floats { min: f32::NEG_INFINITY, max: f32::INFINITY },
                };
                let (columns, panels) = ([columns], [panels]);
                let product = ByteProduct { panels: &panels, columns: &columns, patches: None, flip: 0 };
                let mut scratch = vec![0.0; product.scratch_bytes() / 4];
                let mut out = vec![0; rows * count * 4];
                product.run(&left, &mut OutputTile::whole(&mut out, rows, count * 4), &mut scratch);
                for (at, got) in out.as_chunks::<4>().0.iter().enumerate() {
                    let (row, column) = (at / count, at % count);
                    let term = |k: usize| {
                        left[row * depth + k] as i32 * (right[column * depth + k] as i32 - column as i32 % 3)
                    };
                    let expected = column as i32 + (0..depth).map(term).sum::<i32>();
                    assert_eq!(f32::from_le_bytes(*got), expected as f32, "{level:?}: {row}, {column}");
                }
            }
        }
    }
}
