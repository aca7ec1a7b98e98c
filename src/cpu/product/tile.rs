//! The register tile: some rows of the left operand times one panel of the right operand, with all sums in registers.
//!
//! Every sum follows the order of the depth, whatever rows and columns it is computed with.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::finish::{InRegisters, lanes_within};
use super::panel_data::{PanelData, PanelElement};
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::with_panel;
use std::arch::asm;

/// Vectors per row of the tile.
const VECTORS: usize = 2;

/// Maximum number of rows of the tile, and of lanes of a vector.
const MAX_ROWS: usize = 12;
const MAX_LANES: usize = 16;

/// Up to this number of rows, a product is limited by how fast its right operand arrives from memory, so the operand is
/// prefetched.
const STREAMED_ROWS: usize = 8;

/// Prefetch distance in bytes of a panel: 4 KiB take some 300 ns at 13 GB/s, longer than the latency of a line. With
/// several panels at once, half of that was as good or better, and left fewer prefetched lines unused.
///
/// A single row of float32 does without: its loads run far enough ahead by themselves. A prefetch occupies one of the 10
/// to 16 missing lines that a core can track until the line arrives (16 lines per 100 ns are 10 GB/s), and ran farther
/// ahead than the prefetchers behind the second-level cache, which can track more. On a Zen 5 core, one row was as fast
/// without prefetches or up to 10 % faster; four and eight rows took 25 to 45 % longer. Loads of 16-bit panels are half a
/// line each, so as many of them run half as far ahead: the products of a token with float16 weights took 9.5 ms with
/// prefetches and 12.4 ms without them.
const AHEAD: usize = 4 << 10;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Rows and columns of the register tile for an instruction set. A panel has as many columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileSize {
    /// Maximum rows of the left operand.
    pub rows: usize,
    /// Columns of the right operand.
    pub cols: usize,
}

/// Rows of the tile: the accumulators of all rows, the vectors of the right operand and a temporary must fit into the
/// registers. On 32 registers, 12 by 2 accumulators keep two multiply-add units busy for their latency.
///
/// Levels that multiply by lane hold a vector of each row, too: 8 by 2 accumulators. By llvm-mca of LLVM 19, a vector
/// of NEON takes 0.50 cycles on Neoverse N1, 0.25 on Neoverse V2 and 0.33 on Apple M1. With a load to all lanes for each
/// row and depth, 12 by 2 accumulators took 0.75, 0.42 and 0.50: such a load occupies a unit of the multiply-adds.
const fn tile_rows<S: Simd>() -> usize {
    match (S::REGISTERS, S::LANES) {
        _ if S::MULTIPLIES_BY_LANE => 8,
        (32, _) => 12,
        (_, 8) => 6,
        // Without a fused multiply-add, the products need registers too.
        _ => 4,
    }
}

/// The register tile of `isa`.
pub fn tile_size(isa: Isa) -> TileSize {
    struct Size;
    impl Kernel for Size {
        type Output = TileSize;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> TileSize {
            TileSize { rows: tile_rows::<S>(), cols: VECTORS * S::LANES }
        }
    }
    isa.run(Size)
}

/// The rows of a left operand: the element of row `r` at depth `k` is `data[r * stride + k * step]`.
#[derive(Clone, Copy)]
pub struct Left<'a> {
    /// The elements.
    pub data: &'a [f32],
    /// Distance between rows, in elements.
    pub stride: usize,
    /// Distance between depths, in elements.
    pub step: usize,
}

impl<'a> Left<'a> {
    /// The rows from `row` on.
    #[inline(always)]
    pub fn after(self, row: usize) -> Left<'a> {
        Left { data: &self.data[row * self.stride..], ..self }
    }
}

/// One panel of a right operand: the element of column `c` at depth `k` is `data[k * step + c]`.
#[derive(Clone, Copy)]
pub struct Panel<'a> {
    /// The elements: for each depth, as many whole vectors as the requested columns need. Of 16 bits only if
    /// [`takes_half`] allows it.
    pub data: PanelData<'a>,
    /// Distance between depths, in elements.
    pub step: usize,
    /// Distance to the panel needed next, in elements, for prefetching it while this one is processed; 0 if unknown.
    pub next: isize,
}

/// Maximum number of panels of a [`Multiply`].
pub const MAX_PANELS: usize = 4;

/// How many panels to pass at once to products of `rows` rows: with one row and the two vectors of one panel, each
/// addition would wait for the previous one.
pub fn panels_at_once(rows: usize) -> usize {
    match rows {
        1 => MAX_PANELS,
        2 => 2,
        _ => 1,
    }
}

/// Whether products of `rows` rows widen panels of 16 bits in registers. With more rows, widening the panels once in
/// memory is a small share of the work.
pub fn takes_half(rows: usize) -> bool {
    panels_at_once(rows) > 1
}

/// The product of some rows and neighboring panels: `out[r][c] (+)= sum over k of left[r][k] * panels[k][c]`.
pub struct Multiply<'a> {
    /// The rows.
    pub left: Left<'a>,
    /// Number of rows.
    pub rows: usize,
    /// The panels, at most [`MAX_PANELS`]; all except the last are full.
    pub panels: &'a [Panel<'a>],
    /// Number of columns.
    pub cols: usize,
    /// Number of elements of each row to multiply, at least 1.
    pub depth: usize,
    /// The first output.
    pub out: *mut f32,
    /// Distance between rows of the output, in elements.
    pub stride: usize,
    /// Distance in the output between the first columns of neighboring panels, in elements.
    pub panel_stride: usize,
    /// Whether to add the sums to the output.
    pub accumulate: bool,
    /// The operations to apply to the sums before they are stored, if the sums are complete.
    pub finish: Option<Place<'a>>,
}

/// The operations to apply to the sums of a tile, and the tile's position.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The operations.
    pub ops: InRegisters<'a>,
    /// Row and column of the first output in the product.
    pub at: [usize; 2],
    /// The position of the first output in the whole output, in elements.
    pub offset: usize,
    /// The distance between rows in the whole output, in elements.
    pub stride: usize,
}

/// Computes the product.
///
/// # Safety
/// `out` must be valid for reads and writes of the columns of each panel at the start of each of `rows` rows, and no
/// other code may access them meanwhile.
///
/// # Panics
/// If an operand is shorter than its sizes.
pub unsafe fn multiply(isa: Isa, product: Multiply) {
    isa.run(RegisterTiles(product));
}

/// The constructor of this value guarantees the contract of [`multiply`].
struct RegisterTiles<'a>(Multiply<'a>);

impl Kernel for RegisterTiles<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let is_wide = self.0.panels.len() > 1 || self.0.panels.iter().any(|panel| panel.data.as_f32().is_none());
        match (self.0.rows, self.0.panels.len()) {
            (0, _) => {}
            (1, _) if is_wide => with_panel!(self.0.panels[0].data, of => self.wide::<S, _, 1, 4>(simd, of)),
            (2, _) if is_wide => with_panel!(self.0.panels[0].data, of => self.wide::<S, _, 2, 2>(simd, of)),
            // Not in a closure: unless inlined, it would be compiled for the baseline CPU.
            _ => {
                for index in 0..self.0.panels.len() {
                    self.part::<S>(index).run(simd);
                }
            }
        }
    }
}

impl<'a> RegisterTiles<'a> {
    /// The product with the panel at `index`.
    #[inline(always)]
    fn part<S: Simd>(&self, index: usize) -> Part<'a> {
        let Multiply { left, rows, panels, cols, depth, out, stride, accumulate, finish, .. } = self.0;
        let first = index * VECTORS * S::LANES;
        let moved =
            |place: Place<'a>| Place { at: [place.at[0], place.at[1] + first], offset: place.offset + first, ..place };
        Part {
            left,
            rows,
            panel: panels[index],
            cols: (cols - first).min(VECTORS * S::LANES),
            depth,
            // SAFETY: the panel's columns are among the writable ones.
            out: unsafe { out.add(index * self.0.panel_stride) },
            stride,
            accumulate,
            finish: finish.map(moved),
        }
    }

    /// Computes few rows of several panels, whose elements have the type of `_of`, with as many sums in flight as the
    /// latency of an addition requires.
    #[inline(always)]
    fn wide<S: Simd, T: PanelElement, const ROWS: usize, const PANELS: usize>(&self, simd: S, _of: &[T]) {
        let Multiply { left, panels, depth, .. } = self.0;
        let wide = VECTORS * S::LANES;
        for (group, panels) in panels.chunks(PANELS).enumerate() {
            assert!(depth > 0 && left.data.len() > (ROWS - 1) * left.stride + (depth - 1) * left.step);
            assert!(panels.iter().all(|panel| T::typed(panel.data).len() >= (depth - 1) * panel.step + wide));
            // If there are fewer panels, computes the last one again.
            let panel = |index: usize| panels[index.min(panels.len() - 1)];
            let mut at: [*const T; PANELS] = std::array::from_fn(|index| T::typed(panel(index).data).as_ptr());
            let steps: [usize; PANELS] = std::array::from_fn(|index| panel(index).step);
            let mut from = left.data.as_ptr();
            let mut sums = [[[simd.splat(0.0); VECTORS]; PANELS]; ROWS];
            // Near the end of a panel, prefetch the start of the next one.
            let (ahead, step) = (AHEAD / 2 / size_of::<T>(), steps[0].max(1));
            let early = ahead / step;
            let jump = panels[0].next - (depth * steps[0]) as isize;
            for (depths, jump) in [(depth.saturating_sub(early), 0), (early.min(depth), jump)] {
                let ahead = jump + ahead as isize;
                for _ in 0..depths {
                    for index in 0..PANELS {
                        let lines =
                            if ROWS > 1 || size_of::<T>() < 4 { (wide * size_of::<T>()).div_ceil(LINE) } else { 0 };
                        for line in 0..lines {
                            let line = ahead + (line * LINE / size_of::<T>()) as isize;
                            simd.prefetch_l2(at[index].wrapping_offset(line).cast());
                        }
                        for v in 0..VECTORS {
                            // SAFETY: the lengths of the operands were checked above; pointers end at most one step
                            // beyond the last depth, which wrapping arithmetic permits.
                            let column = unsafe { T::load(simd, at[index].add(v * S::LANES)) };
                            for row in 0..ROWS {
                                // SAFETY: as above.
                                let factor = simd.splat(unsafe { *from.add(row * left.stride) });
                                sums[row][index][v] = simd.mul_add(factor, column, sums[row][index][v]);
                            }
                        }
                        at[index] = at[index].wrapping_add(steps[index]);
                    }
                    from = from.wrapping_add(left.step);
                }
            }
            // A copy: an index that varies would force the sums of the loop above into memory.
            let mut buffer = [0.0; 4 * VECTORS * MAX_LANES];
            for index in 0..PANELS {
                for row in 0..ROWS {
                    for v in 0..VECTORS {
                        let at = (index * ROWS + row) * wide + v * S::LANES;
                        simd.store(sums[row][index][v], &mut buffer[at..]);
                    }
                }
            }
            for (index, sums) in buffer.chunks_exact(ROWS * wide).take(panels.len()).enumerate() {
                let part = self.part::<S>(group * PANELS + index);
                if !part.is_plain() {
                    part.spread::<S, VECTORS>(simd, sums, 0, ROWS);
                    continue;
                }
                let mut own = [[simd.splat(0.0); VECTORS]; ROWS];
                for row in 0..ROWS {
                    for v in 0..VECTORS {
                        own[row][v] = simd.load(&sums[row * wide + v * S::LANES..]);
                    }
                }
                // SAFETY: the rows and columns of the part are writable.
                unsafe { part.write(simd, own, 0) };
            }
        }
    }
}

/// The constructor of this value guarantees that the output is writable.
struct Part<'a> {
    left: Left<'a>,
    rows: usize,
    panel: Panel<'a>,
    cols: usize,
    depth: usize,
    out: *mut f32,
    stride: usize,
    accumulate: bool,
    finish: Option<Place<'a>>,
}

/// Hides a pointer's origin from the compiler, which otherwise computes each pointer of a loop from the previous one:
/// more additions than the CPU can issue next to the multiply-adds.
#[inline(always)]
pub(super) fn opaque<T>(mut pointer: *const T) -> *const T {
    // SAFETY: the assembly contains no instructions.
    unsafe { asm!("/* {0} */", inout(reg) pointer, options(pure, readonly, nostack, preserves_flags)) };
    pointer
}

/// Loads the columns of one depth for a tile of `ROWS` rows, and prefetches as many `next` floats after them.
///
/// # Safety
/// `VECS` vectors from `at` on are readable.
#[inline(always)]
unsafe fn load_columns<S: Simd, const ROWS: usize, const VECS: usize>(
    simd: S,
    at: *const f32,
    next: isize,
) -> [S::F32; VECS] {
    let mut columns = [simd.splat(0.0); VECS];
    for v in 0..VECS {
        // SAFETY: by the contract.
        columns[v] = unsafe { simd.load_ptr(at.add(v * S::LANES)) };
        let line = at.wrapping_offset(next + (v * S::LANES) as isize);
        if ROWS <= STREAMED_ROWS { simd.prefetch(line) } else { simd.prefetch_l2(line) }
    }
    columns
}

/// Where a register tile is written.
#[derive(Clone, Copy)]
enum Sink {
    /// The output, from this row on.
    Output(usize),
    /// A buffer for the bare sums, row by row.
    Buffer(*mut f32),
}

impl Part<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        if self.cols > S::LANES { self.all::<S, VECTORS>(simd) } else { self.all::<S, 1>(simd) }
    }

    /// Whether sums are finished in registers. If the neighbors in a row have strided addends, the sums go through
    /// memory.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.finish.as_ref().is_none_or(|place| place.ops.is_plain())
    }

    #[inline(always)]
    fn all<S: Simd, const VECS: usize>(self, simd: S) {
        let Part { left, rows, panel, cols, depth, .. } = self;
        let wide = VECS * S::LANES;
        assert!(depth > 0 && left.data.len() > (rows - 1) * left.stride + (depth - 1) * left.step);
        // Reads whole vectors.
        let columns = f32::typed(panel.data);
        assert!(cols <= wide && cols + S::LANES > wide && columns.len() >= (depth - 1) * panel.step + wide);
        let plain = self.is_plain();
        let mut buffer = [0.0f32; MAX_ROWS * VECTORS * MAX_LANES];
        // Tiles of nearly equal height: with 12 as the limit, 49 rows are four tiles of ten and one of nine.
        let count = rows.div_ceil(tile_rows::<S>());
        let mut top = 0;
        for index in 1..=count {
            let height = rows * index / count - top;
            let sink = if plain { Sink::Output(top) } else { Sink::Buffer(buffer.as_mut_ptr()) };
            let next = match (rows <= STREAMED_ROWS, top) {
                (true, _) => (AHEAD / size_of::<f32>()) as isize,
                (false, 0) => panel.next,
                _ => 0,
            };
            let from = left.data[top * left.stride..].as_ptr();
            macro_rules! heights {
                ($($height:literal)*) => {
                    match height {
                        // SAFETY: the lengths of the operands were checked above; writes are within the writable rows
                        // and columns, or in the buffer.
                        $($height if $height <= tile_rows::<S>() => unsafe {
                            self.tile::<S, $height, VECS>(simd, from, columns.as_ptr(), sink, next)
                        },)*
                        _ => unreachable!("tiles have no more rows"),
                    }
                };
            }
            heights!(12 11 10 9 8 7 6 5 4 3 2 1);
            if !plain {
                self.spread::<S, VECS>(simd, &buffer, top, height);
            }
            top += height;
        }
    }

    /// Computes one register tile of `ROWS` rows and `VECS` vectors. Also prefetches the `VECS` vectors `next` floats
    /// after those of each depth.
    ///
    /// # Safety
    /// `left` is readable for `ROWS` rows of `depth` elements, `columns_at` for `VECS` vectors at each depth. The
    /// `ROWS` rows of `sink` are readable and writable: `cols` floats of the output, `VECS` vectors of a buffer.
    #[inline(always)]
    unsafe fn tile<S: Simd, const ROWS: usize, const VECS: usize>(
        &self,
        simd: S,
        left: *const f32,
        mut columns_at: *const f32,
        sink: Sink,
        next: isize,
    ) {
        let Part { left: Left { stride: apart, step, .. }, panel, depth, stride, .. } = *self;
        // Stores that miss the caches would stall the following code; prefetched here, the lines arrive before the sums
        // are complete.
        if let Sink::Output(top) = sink {
            for row in top..top + ROWS {
                for v in 0..VECS {
                    simd.prefetch(self.out.wrapping_add(row * stride + v * S::LANES));
                }
            }
        }
        let mut sums = [[simd.splat(0.0); VECS]; ROWS];
        // Three rows share a pointer: twelve pointers would not fit into the registers.
        let mut rows_at: [*const f32; 4] = std::array::from_fn(|i| left.wrapping_add(3 * i * apart));
        let mut rest = depth;
        // Instead of a load per row and depth, one per row and four depths.
        while S::MULTIPLIES_BY_LANE && step == 1 && rest >= 4 {
            let mut factors = [simd.splat(0.0); ROWS];
            for row in 0..ROWS {
                // SAFETY: each row has four more elements.
                factors[row] = unsafe { simd.load_ptr(rows_at[row / 3].add(row % 3 * apart)) };
            }
            macro_rules! lanes {
                ($($LANE:literal)*) => {$(
                    // SAFETY: as below.
                    let columns: [S::F32; VECS] = unsafe { load_columns::<S, ROWS, VECS>(simd, columns_at, next) };
                    for row in 0..ROWS {
                        for v in 0..VECS {
                            sums[row][v] = simd.mul_add_lane::<$LANE>(factors[row], columns[v], sums[row][v]);
                        }
                    }
                    columns_at = columns_at.wrapping_add(panel.step);
                )*};
            }
            lanes!(0 1 2 3);
            for index in 0..4 {
                rows_at[index] = opaque(rows_at[index].wrapping_add(4));
            }
            rest -= 4;
        }
        for _ in 0..rest {
            // SAFETY: the function's contract covers all reads at this depth; pointers end at most one step beyond the last
            // one, which wrapping arithmetic permits.
            let columns: [S::F32; VECS] = unsafe { load_columns::<S, ROWS, VECS>(simd, columns_at, next) };
            for row in 0..ROWS {
                // SAFETY: as above.
                let factor = simd.splat(unsafe { *rows_at[row / 3].add(row % 3 * apart) });
                for v in 0..VECS {
                    sums[row][v] = simd.mul_add(factor, columns[v], sums[row][v]);
                }
            }
            for index in 0..4 {
                rows_at[index] = opaque(rows_at[index].wrapping_add(step));
            }
            columns_at = columns_at.wrapping_add(panel.step);
        }
        match sink {
            // SAFETY: the function's contract.
            Sink::Output(top) => unsafe { self.write(simd, sums, top) },
            Sink::Buffer(out) => {
                for row in 0..ROWS {
                    for v in 0..VECS {
                        // SAFETY: the function's contract.
                        unsafe { simd.store_ptr(sums[row][v], out.add((row * VECS + v) * S::LANES)) };
                    }
                }
            }
        }
    }

    /// Finishes sums in registers and writes them to the rows from `top` on.
    ///
    /// # Safety
    /// `ROWS` rows of `cols` floats from `top` on are readable and writable.
    #[inline(always)]
    unsafe fn write<S: Simd, const ROWS: usize, const VECS: usize>(
        &self,
        simd: S,
        mut sums: [[S::F32; VECS]; ROWS],
        top: usize,
    ) {
        let (out, stride, cols) = (self.out.wrapping_add(top * self.stride), self.stride, self.cols);
        if self.accumulate {
            for row in 0..ROWS {
                for v in 0..VECS {
                    let out = out.wrapping_add(row * stride + v * S::LANES);
                    // SAFETY: the function's contract.
                    sums[row][v] = simd.add(unsafe { simd.load_first(out, lanes_within::<S>(cols, v)) }, sums[row][v]);
                }
            }
        }
        if let Some(place) = &self.finish {
            let (at, offset) = ([place.at[0] + top, place.at[1]], place.offset + top * place.stride);
            place.ops.apply_all(simd, &mut sums, at, offset, place.stride, cols);
        }
        for row in 0..ROWS {
            for v in 0..VECS {
                let out = out.wrapping_add(row * stride + v * S::LANES);
                // SAFETY: the function's contract.
                unsafe { simd.store_first(sums[row][v], out, lanes_within::<S>(cols, v)) };
            }
        }
    }

    /// Writes rows of a tile, given its bare sums.
    #[inline(always)]
    fn spread<S: Simd, const VECS: usize>(&self, simd: S, sums: &[f32], top: usize, rows: usize) {
        let Part { cols, out, stride, accumulate, .. } = *self;
        for (row, sums) in (top..top + rows).zip(sums.chunks_exact(VECS * S::LANES)) {
            // SAFETY: the row is readable and writable, as the constructor of this value guarantees.
            let out = unsafe { std::slice::from_raw_parts_mut(out.add(row * stride), cols) };
            for (v, (out, sums)) in out.chunks_mut(S::LANES).zip(sums.chunks_exact(S::LANES)).take(VECS).enumerate() {
                let mut sum = simd.load(sums);
                if accumulate {
                    sum = simd.add(simd.load_partial(out), sum);
                }
                if let Some(place) = &self.finish {
                    let at = [place.at[0] + row, place.at[1] + v * S::LANES];
                    let offset = place.offset + row * place.stride + v * S::LANES;
                    sum = place.ops.apply(simd, sum, at, offset, out.len());
                }
                simd.store_partial(sum, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small integers: sums are exact in any order.
    #[test]
    fn every_height_is_exact_and_stays_in_its_columns() {
        for isa in Isa::available() {
            let (lanes, TileSize { rows: high, cols: width }) = (isa.lanes(), tile_size(isa));
            for rows in 0..=2 * high + 2 {
                for (cols, depth) in [(1, 1), (lanes, lanes + 3), (lanes + 1, 5), (width, 2 * lanes)] {
                    // Consecutive rows, and a transposed matrix.
                    for (stride, step) in [(depth + 3, 1), (1, rows + 1)] {
                        let value = |row: usize, k: usize| ((row * 3 + k * 5) % 7) as f32 - 3.0;
                        let mut a = vec![f32::NAN; rows.max(1) * stride + depth * step];
                        for (row, k) in (0..rows).flat_map(|row| (0..depth).map(move |k| (row, k))) {
                            a[row * stride + k * step] = value(row, k);
                        }
                        let b: Vec<f32> = (0..depth * width).map(|i| (i % 5) as f32 - 2.0).collect();
                        let mut out = vec![1.0; rows * (width + 3) + 1];
                        for accumulate in [false, true] {
                            let product = Multiply {
                                left: Left { data: &a, stride, step },
                                rows,
                                panels: &[Panel { data: PanelData::F32(&b), step: width, next: 0 }],
                                cols,
                                depth,
                                out: out.as_mut_ptr(),
                                stride: width + 3,
                                panel_stride: width,
                                accumulate,
                                finish: None,
                            };
                            // SAFETY: `out` has `rows` rows of `width + 3` floats.
                            unsafe { multiply(isa, product) };
                        }
                        for (i, &x) in out.iter().enumerate() {
                            let (row, col) = (i / (width + 3), i % (width + 3));
                            let sum: f32 = (0..depth).map(|k| 2.0 * value(row, k) * b[k * width + col % width]).sum();
                            let expected = if col < cols && row < rows { sum } else { 1.0 };
                            assert_eq!(x, expected, "{isa:?}, {rows} rows, {row}, {col}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn several_panels_equal_single_ones() {
        for isa in Isa::available() {
            let width = tile_size(isa).cols;
            for (rows, count, last) in
                [(1, 2, 1), (1, 4, width), (1, 3, width - 1), (2, 2, 3), (2, 4, width), (5, 3, 2)]
            {
                let (depth, cols) = (9, (count - 1) * width + last);
                let a: Vec<f32> = (0..rows * depth).map(|i| (i * 3 % 7) as f32 - 3.0).collect();
                let b: Vec<f32> = (0..count * depth * width).map(|i| (i % 11) as f32 - 5.0).collect();
                let panel = |data| Panel { data: PanelData::F32(data), step: width, next: 0 };
                let panels: Vec<Panel> = b.chunks(depth * width).map(panel).collect();
                let (stride, panel_stride) = (count * width + 1, width);
                let [mut once, mut each] = [0, 1].map(|_| vec![1.0; rows * stride]);
                let left = Left { data: &a, stride: depth, step: 1 };
                let product = |panels, cols, out| Multiply {
                    left,
                    rows,
                    panels,
                    cols,
                    depth,
                    out,
                    stride,
                    panel_stride,
                    accumulate: true,
                    finish: None,
                };
                // SAFETY: the output has `rows` rows of more than `cols` floats.
                unsafe { multiply(isa, product(&panels, cols, once.as_mut_ptr())) };
                for (index, own) in panels.chunks(1).enumerate() {
                    let first = index * width;
                    // SAFETY: as above.
                    unsafe { multiply(isa, product(own, width.min(cols - first), each.as_mut_ptr().add(first))) };
                }
                assert_eq!(once, each, "{rows} rows, {count} panels");
            }
        }
    }
}
