//! Matrix product: the register-tiled micro-kernel and the blocking around it.
//!
//! `out[row][col] = clamp(alpha * sum_k a[row][k] * b[k][col] + beta * addend[row][col] + residual[row][col])`, then
//! `finish`. All but the last is done in the registers that hold the sums.
//!
//! Every element is summed over the depth blocks in order, and within a block in order of the depth, whatever
//! tile it lies in. So any split of rows and columns on panel borders gives the same bits.

use super::finish::InRegisters;
pub use super::finish::{Addend, Epilogue, Finish, Tail};
use super::operand::{Operand, Strided, depth_block, depth_blocks};
use crate::cpu::kernels::float::{Float, narrow};
use crate::cpu::schedule::tiles::Tile;
use crate::cpu::simd::{Isa, Kernel, Simd};
use std::ops::Range;

/// Vectors per row of the micro-kernel.
const VECTORS: usize = 2;

/// The most rows of the micro-kernel, and the most lanes of a vector.
const MAX_ROWS: usize = 12;
const MAX_LANES: usize = 16;

/// With so few rows a product is as fast as its right operand comes from memory: it is asked for early.
const STREAMED_ROWS: usize = 8;

/// How many floats early: 4 KiB take some 300 ns at 13 GB/s, longer than a line is on its way.
const AHEAD: usize = 1024;

/// Rows of the left operand that are multiplied with one panel of the right one after the other: a block of
/// 240 rows by 256 is 240 KiB, a share of the second-level cache that leaves room for the output.
const ROW_BLOCK: usize = 240;

/// Outputs that are finished at a time: 256 KiB of the second-level cache, from which the panels of the right operand come
/// meanwhile.
const FINISHED: usize = 1 << 16;

/// The panel widths of a level: rows and columns of the micro-kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PanelWidths {
    /// Rows of the left operand.
    pub rows: usize,
    /// Columns of the right operand.
    pub cols: usize,
}

/// Rows of the micro-kernel: accumulators for all rows, the vectors of the right operand and a temporary must
/// fit the registers. 12 by 2 of 32 registers keep two multiply-add units busy for their latency.
const fn panel_rows(registers: usize, lanes: usize) -> usize {
    match (registers, lanes) {
        (32, _) => 12,
        (_, 8) => 6,
        // Without a fused multiply-add the products need registers as well.
        _ => 4,
    }
}

/// The panel widths that the products of `isa` read.
pub fn panel_widths(isa: Isa) -> PanelWidths {
    struct Widths;
    impl Kernel for Widths {
        type Output = PanelWidths;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> PanelWidths {
            PanelWidths { rows: panel_rows(S::REGISTERS, S::LANES), cols: VECTORS * S::LANES }
        }
    }
    isa.run(Widths)
}

/// A product of two operands, of which tiles can be computed.
pub struct Product<'a, T> {
    /// The level; packed operands were packed for it.
    pub isa: Isa,
    /// Elements per lane.
    pub depth: usize,
    /// The left operand; its lanes are rows.
    pub a: Operand<'a, T>,
    /// The right operand; its lanes are columns.
    pub b: Operand<'a, T>,
}

/// The scratch floats that [`Product::compute`] needs for a tile of `rows` by `cols`: packed blocks of the
/// operands that are not read in place, and the sums when they are not kept in the output itself.
pub fn tile_scratch<T: Float>(isa: Isa, rows: usize, cols: usize, depth: usize, packed: [bool; 2]) -> usize {
    let widths = panel_widths(isa);
    let in_place = T::IS_F32;
    let a = if packed[0] && in_place { 0 } else { rows.next_multiple_of(widths.rows) };
    let b = if packed[1] && in_place { 0 } else { cols.next_multiple_of(widths.cols) };
    (a + b) * depth_block(depth) + if in_place { 0 } else { rows * cols }
}

/// The lanes of scratch for an operand: none when its panels are read where they were packed.
fn scratch_lanes<T: Float>(operand: &Operand<T>, lanes: usize, width: usize) -> usize {
    match operand {
        Operand::Packed(_) if T::IS_F32 => 0,
        _ => lanes.next_multiple_of(width),
    }
}

impl<T: Float> Product<'_, T> {
    /// Computes one tile of the output. Needs [`tile_scratch`] floats.
    ///
    /// The tile starts at panel borders of packed operands.
    pub fn compute(&self, tile: &mut Tile<T>, epilogue: &Epilogue<T>, scratch: &mut [f32]) {
        let (rows, cols) = (tile.rows.clone(), tile.cols.clone());
        let wide = cols.len();
        if T::IS_F32
            && self.depth > 0
            && let Some(in_registers) = epilogue.in_registers()
        {
            let ((base, stride), offset) = (tile.as_mut_ptr(), tile.offset(0));
            let target = Target { out: base.cast::<f32>(), stride, rows, cols, offset, tail: Some(in_registers) };
            let Some(finish) = epilogue.tail.finish else {
                // SAFETY: `T` is `f32`, and the tile owns its rows of `wide` elements each.
                return unsafe { self.sum(target, ROW_BLOCK, &mut |_| {}, scratch) };
            };
            let mut done = |done: Range<usize>| {
                if stride == wide || done.len() == 1 {
                    let start = done.start * stride;
                    // SAFETY: these rows of the tile follow on each other, are initialised, and nobody else has them.
                    let run =
                        unsafe { std::slice::from_raw_parts_mut(base.cast::<f32>().add(start), done.len() * wide) };
                    return finish(offset + start, run);
                }
                for row in done {
                    // SAFETY: as above, for one row.
                    let run = unsafe { std::slice::from_raw_parts_mut(base.cast::<f32>().add(row * stride), wide) };
                    finish(offset + row * stride, run);
                }
            };
            // SAFETY: as above.
            return unsafe { self.sum(target, self.finished_rows(wide), &mut done, scratch) };
        }
        if self.depth == 0 {
            return self.finish_zeros(tile, epilogue);
        }
        let (sums, scratch) = scratch.split_at_mut(rows.len() * wide);
        let (out, stride) = (sums.as_mut_ptr(), wide);
        let target = Target { out, stride, rows: rows.clone(), cols: cols.clone(), offset: 0, tail: None };
        let mut done = |done: Range<usize>| {
            for row in done {
                // SAFETY: the row of `sums` is complete, and nothing else refers to it.
                let sums = unsafe { std::slice::from_raw_parts_mut(out.add(row * wide), wide) };
                epilogue.apply(self.isa, [rows.start + row, cols.start], tile.offset(row), sums);
                narrow(self.isa, sums, tile.row(row));
            }
        };
        // SAFETY: `sums` holds `rows.len()` rows of `wide` floats.
        unsafe { self.sum(target, self.finished_rows(wide), &mut done, scratch) };
    }

    /// A tile whose sums have no terms.
    fn finish_zeros(&self, tile: &mut Tile<T>, epilogue: &Epilogue<T>) {
        let (rows, cols) = (tile.rows.clone(), tile.cols.clone());
        let mut sums = [0.0; 256];
        for (row, start) in rows.clone().flat_map(|row| cols.clone().step_by(256).map(move |col| (row, col))) {
            let sums = &mut sums[..(cols.end - start).min(256)];
            sums.fill(0.0);
            let (row_in_tile, col_in_tile) = (row - rows.start, start - cols.start);
            epilogue.apply(self.isa, [row, start], tile.offset(row_in_tile) + col_in_tile, sums);
            narrow(self.isa, sums, &mut tile.row(row_in_tile)[col_in_tile..][..sums.len()]);
        }
    }

    /// The bare sums of `rows` by `cols`, row-major into `sums`.
    ///
    /// # Panics
    /// If `sums` is shorter.
    pub fn sums(&self, rows: Range<usize>, cols: Range<usize>, sums: &mut [f32], scratch: &mut [f32]) {
        let stride = cols.len();
        assert!(sums.len() >= rows.len() * stride);
        let target = Target { out: sums.as_mut_ptr(), stride, rows, cols, offset: 0, tail: None };
        // SAFETY: the slice holds `rows.len()` rows of `stride` floats, just checked.
        unsafe { self.sum(target, ROW_BLOCK, &mut |_| {}, scratch) }
    }

    /// How many rows of `cols` outputs are finished at a time: few enough to be in the second-level cache still.
    fn finished_rows(&self, cols: usize) -> usize {
        let height = panel_widths(self.isa).rows;
        (FINISHED / cols.max(1) / height * height).clamp(2 * height, ROW_BLOCK)
    }

    /// Writes the sums of a tile, `block` rows at a time in the end; `done` is told which rows, counted from the top of the
    /// tile, are complete.
    ///
    /// # Safety
    /// `target.out` must be valid for writes of `target.cols.len()` floats at the start of each of its rows.
    unsafe fn sum(&self, target: Target, block: usize, done: &mut dyn FnMut(Range<usize>), scratch: &mut [f32]) {
        let Target { out, stride, rows, cols, offset, tail } = target;
        let widths = panel_widths(self.isa);
        let depth_block = depth_block(self.depth);
        let (for_a, scratch) = scratch.split_at_mut(scratch_lanes(&self.a, rows.len(), widths.rows) * depth_block);
        let for_b = &mut scratch[..scratch_lanes(&self.b, cols.len(), widths.cols) * depth_block];
        if self.depth == 0 {
            for row in 0..rows.len() {
                // SAFETY: the caller guarantees that the row can be written.
                unsafe { std::slice::from_raw_parts_mut(out.add(row * stride), cols.len()) }.fill(0.0);
            }
            done(0..rows.len());
        }
        for depth in depth_blocks(self.depth) {
            let is_last = depth.end == self.depth;
            let in_place = raw_depths(&self.a, &rows, &depth);
            let (a, a_stride) = match in_place {
                Some(rows) => rows,
                None => (self.panels(&self.a, rows.clone(), depth.clone(), widths.rows, for_a), 0),
            };
            // Panels that are used once or twice are not worth packing when their rows are adjacent in memory.
            let raw = if rows.len() <= 2 * widths.rows { raw_rows(&self.b, &cols, &depth) } else { None };
            let full = cols.len() / widths.cols * widths.cols;
            let b = match raw {
                Some(_) if full == cols.len() => &[],
                Some(_) => self.panels(&self.b, cols.start + full..cols.end, depth.clone(), widths.cols, for_b),
                None => self.panels(&self.b, cols.clone(), depth.clone(), widths.cols, for_b),
            };
            let block = if is_last { block } else { ROW_BLOCK };
            for top in (0..rows.len()).step_by(block) {
                let height = block.min(rows.len() - top);
                for left in (0..cols.len()).step_by(widths.cols) {
                    let (panel, step) = match raw {
                        Some((data, step)) if left < full => (&data[left..], step),
                        Some(_) => (b, widths.cols),
                        None => (&b[left * depth.len()..], widths.cols),
                    };
                    let following = raw.is_none() && left + widths.cols < cols.len();
                    self.isa.run(RowPanels {
                        a: &a[top * if a_stride == 0 { depth.len() } else { a_stride }..],
                        a_stride,
                        b: panel,
                        b_step: step,
                        b_ahead: if following { widths.cols * depth.len() } else { 0 },
                        depth: depth.len(),
                        // SAFETY: `top` and `left` lie inside of the tile that the caller guarantees.
                        out: unsafe { out.add(top * stride + left) },
                        stride,
                        rows: height,
                        cols: widths.cols.min(cols.len() - left),
                        accumulate: depth.start > 0,
                        tail: tail.filter(|_| is_last),
                        place: [rows.start + top, cols.start + left],
                        offset: offset + top * stride + left,
                    });
                }
                if is_last {
                    done(top..top + height);
                }
            }
        }
    }

    /// The panels of an operand: where they were packed, or packed into `scratch`.
    fn panels<'s>(
        &'s self,
        operand: &'s Operand<T>,
        lanes: Range<usize>,
        depth: Range<usize>,
        width: usize,
        scratch: &'s mut [f32],
    ) -> &'s [f32] {
        if let Operand::Packed(packed) = operand
            && let Some(panels) = T::as_f32(packed.panels(lanes.clone(), depth.clone()))
        {
            return panels;
        }
        let scratch = &mut scratch[..lanes.len().div_ceil(width) * width * depth.len()];
        operand.pack(self.isa, lanes, depth, width, scratch);
        scratch
    }
}

/// The elements of `lanes` from the first one at `depth` on and the distance between lanes, when the depths are adjacent
/// `f32`: such a left operand is read in place. Packing it cost a fifth to two fifths of the time for 16 to 64 columns,
/// also with rows at multiples of 4 KiB, and less the more columns there are; beyond 256 the difference was within the
/// noise.
fn raw_depths<'a, T: Float>(
    operand: &Operand<'a, T>,
    lanes: &Range<usize>,
    depth: &Range<usize>,
) -> Option<(&'a [f32], usize)> {
    match *operand {
        Operand::Strided(Strided { data, lane_stride, depth_stride: 1 }) if lane_stride > 0 => {
            let data = T::as_f32(data)?;
            Some((&data[lanes.start * lane_stride + depth.start..], lane_stride))
        }
        _ => None,
    }
}

/// Where the sums of a tile go.
struct Target<'a> {
    out: *mut f32,
    /// Distance between rows.
    stride: usize,
    rows: Range<usize>,
    cols: Range<usize>,
    /// The place of the first element in the whole output.
    offset: usize,
    tail: Option<InRegisters<'a>>,
}

/// The elements of `lanes` from `depth` on and the distance between depths, when the lanes are adjacent `f32`.
fn raw_rows<'a, T: Float>(
    operand: &Operand<'a, T>,
    lanes: &Range<usize>,
    depth: &Range<usize>,
) -> Option<(&'a [f32], usize)> {
    match *operand {
        Operand::Strided(Strided { data, lane_stride: 1, depth_stride }) => {
            let data = T::as_f32(data)?;
            Some((&data[lanes.start + depth.start * depth_stride..], depth_stride))
        }
        _ => None,
    }
}

/// Panels of rows times one panel of columns.
struct RowPanels<'a> {
    /// Row panels, one after the other, or rows in place.
    a: &'a [f32],
    /// The distance between rows in place; 0 for panels.
    a_stride: usize,
    /// One column panel, `b_step` floats per depth.
    b: &'a [f32],
    b_step: usize,
    /// Distance to the next column panel, which is asked for while this one is worked on; 0 if there is none.
    b_ahead: usize,
    depth: usize,
    /// `rows` by `cols` floats at `stride`, which the one who makes this value guarantees to be writable.
    out: *mut f32,
    stride: usize,
    rows: usize,
    cols: usize,
    accumulate: bool,
    tail: Option<InRegisters<'a>>,
    /// Row and column of the product that the first output is at, and its place in the whole output.
    place: [usize; 2],
    offset: usize,
}

/// Where a register tile goes.
#[derive(Clone, Copy)]
struct Sink {
    out: *mut f32,
    stride: usize,
    /// Whether this is the output itself, at this row of the panels; otherwise the bare sums are wanted.
    row: Option<usize>,
}

impl Kernel for RowPanels<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        match panel_rows(S::REGISTERS, S::LANES) {
            12 => self.all::<S, 12>(simd),
            6 => self.all::<S, 6>(simd),
            _ => self.all::<S, 4>(simd),
        }
    }
}

impl RowPanels<'_> {
    #[inline(always)]
    fn all<S: Simd, const HEIGHT: usize>(self, simd: S) {
        if self.cols > S::LANES {
            self.panels::<S, HEIGHT, VECTORS>(simd);
        } else {
            self.panels::<S, HEIGHT, 1>(simd);
        }
    }

    #[inline(always)]
    fn panels<S: Simd, const HEIGHT: usize, const VECS: usize>(self, simd: S) {
        let wide = VECS * S::LANES;
        let held = match self.a_stride {
            0 => self.rows.next_multiple_of(HEIGHT) * self.depth,
            stride => (self.rows - 1) * stride + self.depth,
        };
        assert!(self.depth > 0 && self.a.len() >= held);
        // Whole vectors are read: a packed panel is padded, a raw one is only passed when it is full.
        assert!(self.b.len() >= (self.depth - 1) * self.b_step + wide);
        // Whole tiles are finished in registers, the others go through memory.
        let whole = self.cols >= wide && self.tail.as_ref().is_none_or(InRegisters::is_plain);
        let mut buffer = [0.0f32; MAX_ROWS * VECTORS * MAX_LANES];
        for top in (0..self.rows).step_by(HEIGHT) {
            let rows = (self.rows - top).min(HEIGHT);
            let a = &self.a[top * if self.a_stride == 0 { self.depth } else { self.a_stride }..];
            let sink = match whole {
                // SAFETY: the panel is in the rows that can be written.
                true => Sink { out: unsafe { self.out.add(top * self.stride) }, stride: self.stride, row: Some(top) },
                false => Sink { out: buffer.as_mut_ptr(), stride: wide, row: None },
            };
            macro_rules! rows {
                ($($rows:literal)*) => {
                    match rows {
                        // SAFETY: the lengths of `a` and `b` were checked above; the tile ends within the rows
                        // and columns that can be written, or in the buffer. Heights above `HEIGHT` do not occur.
                        $($rows if $rows <= HEIGHT => unsafe {
                            self.tile::<S, HEIGHT, $rows, VECS>(simd, a, sink, if top == 0 { self.b_ahead } else { 0 })
                        },)*
                        _ => {}
                    }
                };
            }
            rows!(12 11 10 9 8 7 6 5 4 3 2 1);
            if !whole {
                self.spread::<S, VECS>(simd, &buffer, top, rows);
            }
        }
    }

    /// One register tile of `ROWS` rows and `VECS` vectors. Also asks for the `VECS` vectors that are `ahead` floats from
    /// those of each depth.
    ///
    /// # Safety
    /// `a` holds a panel of `depth * HEIGHT` floats, or `ROWS` rows of `depth` floats, and `ROWS <= HEIGHT`; `b` can be
    /// read `VECS` vectors from the start of each depth; `sink.out` can be written for `ROWS` rows of `VECS` vectors.
    #[inline(always)]
    unsafe fn tile<S: Simd, const HEIGHT: usize, const ROWS: usize, const VECS: usize>(
        &self,
        simd: S,
        a: &[f32],
        sink: Sink,
        ahead: usize,
    ) {
        let Sink { out, stride, row } = sink;
        // Stores that miss the caches would stall what follows; the lines are here when the sums are.
        for row in 0..ROWS {
            for v in 0..VECS {
                simd.prefetch(out.wrapping_add(row * stride + v * S::LANES));
            }
        }
        let mut sums = [[simd.splat(0.0); VECS]; ROWS];
        let mut b = self.b.as_ptr();
        if self.a_stride == 0 {
            let mut a = a.as_ptr();
            for _ in 0..self.depth {
                // SAFETY: the function's contract covers all reads at this depth; the pointers end at most one step
                // beyond the last depth, and wrapping arithmetic is fine with that.
                unsafe {
                    let mut columns = [simd.splat(0.0); VECS];
                    for (v, column) in columns.iter_mut().enumerate() {
                        *column = simd.load_ptr(b.add(v * S::LANES));
                    }
                    for v in 0..VECS {
                        if ROWS <= STREAMED_ROWS {
                            simd.prefetch(b.wrapping_add(AHEAD + v * S::LANES));
                        } else {
                            simd.prefetch_l2(b.wrapping_add(ahead + v * S::LANES));
                        }
                    }
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let factor = simd.splat(*a.add(row));
                        for (sum, &column) in sums.iter_mut().zip(&columns) {
                            *sum = simd.mul_add(factor, column, *sum);
                        }
                    }
                }
                a = a.wrapping_add(HEIGHT);
                b = b.wrapping_add(self.b_step);
            }
        } else {
            let rows: [*const f32; ROWS] = std::array::from_fn(|row| a.as_ptr().wrapping_add(row * self.a_stride));
            for k in 0..self.depth {
                // SAFETY: as above.
                unsafe {
                    let mut columns = [simd.splat(0.0); VECS];
                    for (v, column) in columns.iter_mut().enumerate() {
                        *column = simd.load_ptr(b.add(v * S::LANES));
                    }
                    for v in 0..VECS {
                        if ROWS <= STREAMED_ROWS {
                            simd.prefetch(b.wrapping_add(AHEAD + v * S::LANES));
                        } else {
                            simd.prefetch_l2(b.wrapping_add(ahead + v * S::LANES));
                        }
                    }
                    for (row, sums) in rows.iter().zip(&mut sums) {
                        let factor = simd.splat(*row.add(k));
                        for (sum, &column) in sums.iter_mut().zip(&columns) {
                            *sum = simd.mul_add(factor, column, *sum);
                        }
                    }
                }
                b = b.wrapping_add(self.b_step);
            }
        }
        if let Some(top) = row {
            if self.accumulate {
                for (row, sums) in sums.iter_mut().enumerate() {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: what can be written was written for the depth before.
                        *sum = simd.add(unsafe { simd.load_ptr(out.add(row * stride + v * S::LANES)) }, *sum);
                    }
                }
            }
            if let Some(tail) = &self.tail {
                let place = [self.place[0] + top, self.place[1]];
                tail.apply_all(simd, &mut sums, place, self.offset + top * self.stride, self.stride);
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            for (v, &sum) in sums.iter().enumerate() {
                // SAFETY: the function's contract.
                unsafe { simd.store_ptr(sum, out.add(row * stride + v * S::LANES)) };
            }
        }
    }

    /// Writes a tile from its bare sums.
    #[inline(always)]
    fn spread<S: Simd, const VECS: usize>(&self, simd: S, sums: &[f32], top: usize, rows: usize) {
        for (row, sums) in (top..top + rows).zip(sums.chunks_exact(VECS * S::LANES)) {
            // SAFETY: the row can be written, as the one who made this value guarantees.
            let out = unsafe { std::slice::from_raw_parts_mut(self.out.add(row * self.stride), self.cols) };
            for (v, (out, sums)) in out.chunks_mut(S::LANES).zip(sums.chunks_exact(S::LANES)).take(VECS).enumerate() {
                let mut sum = simd.load(sums);
                if self.accumulate {
                    sum = simd.add(simd.load_partial(out), sum);
                }
                if let Some(tail) = &self.tail {
                    let place = [self.place[0] + row, self.place[1] + v * S::LANES];
                    let offset = self.offset + row * self.stride + v * S::LANES;
                    sum = tail.apply(simd, sum, place, offset, out.len());
                }
                simd.store_partial(sum, out);
            }
        }
    }
}

/// `out[i] = sum_k vector[k] * lanes[i][k]` for lanes that are contiguous in the depth: one row times a
/// transposed matrix, read once. Each sum is in the order of [`Simd::sum`] over four strides.
pub fn dot_lanes<T: Float>(isa: Isa, vector: &[f32], lanes: &[T], lane_stride: usize, out: &mut [f32]) {
    isa.run(DotLanes { vector, lanes, lane_stride, out });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::schedule::tiles::{Matrices, Tiles};

    /// Small integers, so that sums are exact in any order.
    fn integers(len: usize, factor: usize) -> Vec<f32> {
        (0..len).map(|i| (i * factor % 7) as f32 - 3.0).collect()
    }

    #[test]
    fn every_tile_size_is_exact_and_stays_in_its_tile() {
        let depth = 5;
        for isa in Isa::available() {
            let widths = panel_widths(isa);
            for rows in 1..=widths.rows + 1 {
                for cols in [1, 2, widths.cols / 2, widths.cols / 2 + 1, widths.cols - 1, widths.cols, widths.cols + 3]
                {
                    let (a, b) = (integers(rows * depth, 3), integers(depth * cols, 5));
                    let product = Product {
                        isa,
                        depth,
                        a: Operand::Strided(Strided { data: &a, lane_stride: depth, depth_stride: 1 }),
                        b: Operand::Strided(Strided { data: &b, lane_stride: 1, depth_stride: cols }),
                    };
                    let stride = cols + 3;
                    let mut out = vec![99.0; rows * stride];
                    let matrices = Matrices { batches: 1, batch_stride: 0, rows, row_stride: stride, cols };
                    let tiles = Tiles::new(&mut out, matrices, widths.rows, widths.cols);
                    let mut scratch = vec![f32::NAN; tile_scratch::<f32>(isa, rows, cols, depth, [false; 2])];
                    let epilogue = Epilogue { alpha: 2.0, addend: None, tail: Tail::NONE };
                    while let Some(mut tile) = tiles.take() {
                        product.compute(&mut tile, &epilogue, &mut scratch);
                    }
                    for (i, &x) in out.iter().enumerate() {
                        let (row, col) = (i / stride, i % stride);
                        let sum: f32 = if col < cols {
                            (0..depth).map(|k| 2.0 * a[row * depth + k] * b[k * cols + col]).sum()
                        } else {
                            99.0
                        };
                        assert_eq!(x, sum, "{isa:?}, {rows} x {cols}, row {row}, column {col}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_product_without_depth_is_zero() {
        for isa in Isa::available() {
            let empty = || Operand::Strided(Strided { data: &[0.0f32; 8], lane_stride: 1, depth_stride: 1 });
            let mut sums = [f32::NAN; 6];
            let product = Product { isa, depth: 0, a: empty(), b: empty() };
            product.sums(0..2, 0..3, &mut sums, &mut vec![0.0; tile_scratch::<f32>(isa, 2, 3, 0, [false; 2])]);
            assert_eq!(sums, [0.0; 6]);
        }
    }
}
