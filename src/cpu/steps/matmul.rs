//! Matrix products: `matmul` and `gemm` of the draft.

use crate::cpu::kernels::float::Floats;
use crate::cpu::product::columns::Columns;
use crate::cpu::product::finish::{Addend, ProductEpilogue, Tail};
use crate::cpu::product::frame::{Cutting, Product};
use crate::cpu::product::matrix::{Matrix, StridedMatrix};
use crate::cpu::product::panels::{Layout, Panels, depth_block, depth_blocks};
use crate::cpu::product::rows::{Rows, copied_len};
use crate::cpu::product::tile::tile_size;
use crate::cpu::product::vector::{add_rows, dot_lanes};
use crate::cpu::schedule::partition::{Cut, Grid, Shape};
use crate::cpu::schedule::shared::for_each_chunk;
use crate::cpu::schedule::tiles::{Beside, Matrices, Tile, Tiles};
use crate::cpu::simd::Isa;
use crate::cpu::weights::Weights;
use crate::error::Result;
use crate::memory::Buffer;
use crate::shape::PerAxis;
use std::collections::HashMap;
use std::sync::Arc;

/// Multiply-adds on data in caches that take as long as one with a weight from memory: a core does 60 of them per
/// nanosecond, and reads 10 to 40 bytes.
const STREAMED: usize = 4;

/// Columns of one row that are finished at once.
const FINISHED: usize = 1024;

/// Distances between the elements of one operand, in elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatrixStrides {
    /// For each batch dimension; 0 broadcasts.
    pub batch: PerAxis,
    /// Between rows; 0 broadcasts an addend.
    pub row: usize,
    /// Between columns; 0 broadcasts an addend.
    pub col: usize,
}

/// The parameters of `out[b] = alpha * a[b] * b[b] + beta * c[b]` with `a` of `[m, k]`, `b` of `[k, n]` and `c`, if
/// present, of `[m, n]`. The output is contiguous, `[..batch, m, n]`.
///
/// A transposed operand has its row and column strides swapped.
#[derive(Clone, Debug, PartialEq)]
pub struct MatmulShape {
    /// Batch dimensions of the output, outermost first.
    pub batch: PerAxis,
    /// Rows of `a` and the output.
    pub m: usize,
    /// Columns of `a`, rows of `b`.
    pub k: usize,
    /// Columns of `b` and the output.
    pub n: usize,
    /// Strides of `a`.
    pub a: MatrixStrides,
    /// Strides of `b`.
    pub b: MatrixStrides,
    /// Strides of `c`, if present.
    pub c: Option<MatrixStrides>,
    /// The factor of the product.
    pub alpha: f32,
    /// The factor of `c`.
    pub beta: f32,
}

impl MatmulShape {
    /// A plain product of contiguous matrices without batch dimensions.
    pub fn plain(m: usize, k: usize, n: usize) -> MatmulShape {
        let strides = |cols| MatrixStrides { batch: PerAxis::new(), row: cols, col: 1 };
        MatmulShape { batch: PerAxis::new(), m, k, n, a: strides(k), b: strides(n), c: None, alpha: 1.0, beta: 1.0 }
    }

    /// Number of products.
    pub(super) fn batches(&self) -> usize {
        self.batch.iter().product()
    }

    /// Makes `c` an operand with `strides` over the dimensions of the output, if possible; returns whether it is one.
    /// Refuses an operand that would split one product into several.
    pub fn take_addend(&mut self, strides: &[usize]) -> bool {
        let Some((batch, &[row, col])) = strides.split_last_chunk::<2>() else { return false };
        if self.c.is_some() || batch.len() != self.batch.len() {
            return false;
        }
        let c = MatrixStrides { batch: batch.iter().copied().collect(), row, col };
        let takes = self.is_flat(Some(&c)) == self.is_flat(None);
        if takes {
            (self.c, self.beta) = (Some(c), 1.0);
        }
        takes
    }

    /// The strides of the left (`side` 0) or right operand, and the number of its rows or columns in the output.
    fn side(&self, side: usize) -> (&MatrixStrides, usize) {
        if side == 0 { (&self.a, self.m) } else { (&self.b, self.n) }
    }

    /// The distinct matrices of an operand.
    fn distinct(&self, side: usize) -> Distinct {
        let (batches, strides) = (self.batches(), self.side(side).0);
        if batches == 1 || strides.batch.iter().all(|&stride| stride == 0) {
            return Distinct { starts: vec![0; batches.min(1)], index: vec![0; batches] };
        }
        let (mut known, mut starts) = (HashMap::new(), Vec::new());
        let index = (0..batches).map(|batch| {
            let start = self.offset(strides, batch);
            *known.entry(start).or_insert_with(|| {
                starts.push(start);
                starts.len() - 1
            })
        });
        let index = index.collect();
        Distinct { starts, index }
    }

    /// Whether this is one row times a matrix with contiguous columns or rows, which is read once, in place.
    fn is_dot(&self, packs_b: bool) -> bool {
        self.m == 1 && !packs_b && (self.b.row == 1 || self.b.col == 1)
    }

    /// The product in the orientation in which it is computed, and whether that swaps `a` and `b`. Only a right operand
    /// may be float16 (`halves`).
    fn oriented(self, halves: bool) -> (MatmulShape, bool) {
        let shape = self.flattened();
        let swapped = shape.n == 1 && shape.m > 1 && !halves;
        (if swapped { shape.transposed() } else { shape }, swapped)
    }

    /// The offset of matrix `index` of the batch in an operand with these strides.
    /// The first element of the left (`side` 0) or right operand of a product.
    pub(super) fn start(&self, side: usize, batch: usize) -> usize {
        self.offset(self.side(side).0, batch)
    }

    fn offset(&self, strides: &MatrixStrides, index: usize) -> usize {
        let mut rest = index;
        let mut offset = 0;
        for (&size, &stride) in self.batch.iter().zip(&strides.batch).rev() {
            offset += rest % size * stride;
            rest /= size;
        }
        offset
    }

    /// The transposed product, for a single output column: one row times a matrix.
    fn transposed(mut self) -> MatmulShape {
        let turn = |s: &mut MatrixStrides| std::mem::swap(&mut s.row, &mut s.col);
        std::mem::swap(&mut self.a, &mut self.b);
        turn(&mut self.a);
        turn(&mut self.b);
        self.c.iter_mut().for_each(turn);
        std::mem::swap(&mut self.m, &mut self.n);
        self
    }

    /// Whether all batches multiply with the same `b`, and the rows of `a` and of an addend `c` continue from batch to
    /// batch.
    fn is_flat(&self, c: Option<&MatrixStrides>) -> bool {
        let follows = |s: &MatrixStrides| {
            let mut wanted = s.row * self.m;
            self.batch.iter().zip(&s.batch).rev().all(|(&size, &stride)| {
                let fits = size == 1 || stride == wanted;
                wanted *= size;
                fits
            })
        };
        let shared = self.batch.iter().zip(&self.b.batch).all(|(&size, &stride)| size == 1 || stride == 0);
        !self.batch.is_empty() && shared && follows(&self.a) && c.is_none_or(follows)
    }

    /// Turns the batch into additional rows, if possible.
    fn flattened(mut self) -> MatmulShape {
        if self.is_flat(self.c.as_ref()) {
            self.m *= self.batches();
            self.batch.clear();
            self.a.batch.clear();
            self.b.batch.clear();
            self.c.iter_mut().for_each(|c| c.batch.clear());
        }
        self
    }
}

/// The distinct matrices of an operand with batch dimensions.
struct Distinct {
    /// The offset of each distinct matrix.
    starts: Vec<usize>,
    /// For each matrix of the batch, the index of its distinct matrix.
    index: Vec<usize>,
}

/// A constant operand, packed once for each distinct matrix of the batch.
struct PackedBatch {
    matrices: Vec<Panels>,
    distinct: Distinct,
}

/// A compiled batched matrix product.
pub struct MatmulStep {
    shape: Box<MatmulShape>,
    /// Whether `b` is float16, and not packed.
    halves: bool,
    /// Whether `a` and `b` are swapped.
    swapped: bool,
    /// Whether results need operations that do not run in registers.
    finishes: bool,
    isa: Isa,
    threads: usize,
    packed: [Option<PackedBatch>; 2],
    grid: Grid,
}

impl MatmulStep {
    /// Plans the product for `threads` threads and an instruction set; `halves` says whether `b` is float16, and not
    /// packed.
    pub fn new(isa: Isa, threads: usize, shape: MatmulShape, halves: bool, finishes: bool) -> MatmulStep {
        let (shape, swapped) = shape.oriented(halves);
        let (shape, packed, grid) = (Box::new(shape), [None, None], Grid::whole(0, 0));
        let mut step = MatmulStep { shape, halves, swapped, finishes, isa, threads, packed, grid };
        step.grid = step.cut();
        step
    }

    /// Plans a product of other sizes with the same constants; returns `false` if they would have to be packed
    /// differently.
    #[must_use]
    pub fn resize(&mut self, shape: MatmulShape) -> bool {
        let (shape, swapped) = shape.oriented(self.halves);
        let of_matrix = |shape: &MatmulShape, side: usize| {
            let (strides, lanes) = shape.side(side);
            (strides.row, strides.col, lanes, shape.k)
        };
        let mut fits = swapped == self.swapped;
        for (side, packed) in self.packed.iter_mut().enumerate() {
            if let Some(packed) = packed {
                let distinct = shape.distinct(side);
                fits &= of_matrix(&shape, side) == of_matrix(&self.shape, side)
                    && distinct.starts == packed.distinct.starts;
                packed.distinct = distinct;
            }
        }
        *self.shape = shape;
        self.grid = self.cut();
        fits
    }

    /// The tiles; of a [stream](Self::is_stream), the largest group of columns that needs scratch memory.
    fn cut(&self) -> Grid {
        match self.is_stream() {
            true => Grid::whole(1, tile_size(self.isa).cols),
            false => self.cutting().grid(self.isa, self.threads),
        }
    }

    /// The product as it is cut into tiles beside others; `None` for products that must be alone.
    pub fn shape(&self) -> Option<Shape> {
        let is_simple = self.packs_operands() == [false, true] && !self.swapped && self.shape.n > 0;
        is_simple.then(|| self.cutting().shape(self.isa))
    }

    /// Adopts the grid of several products, or again that of this one alone.
    pub fn join(&mut self, grid: Option<Grid>) {
        self.grid = grid.filter(|_| !self.is_stream()).unwrap_or_else(|| self.cut());
    }

    fn cutting(&self) -> Cutting {
        let MatmulShape { m, k, n, .. } = *self.shape;
        Cutting {
            batches: self.shape.batches(),
            size: [m, n, k],
            copies_rows: self.is_packed_half(0).unwrap_or(self.shape.a.col != 1),
            packs_columns: self.is_packed_half(1).unwrap_or(true),
            rereads: self.finishes,
        }
    }

    /// Whether the left (`side` 0) or right operand is packed as float16, if it is packed.
    fn is_packed_half(&self, side: usize) -> Option<bool> {
        let packed = self.packed[side].as_ref()?;
        Some(packed.matrices.iter().any(Panels::is_half))
    }

    /// Whether `a` and `b` are packed.
    pub fn packs_operands(&self) -> [bool; 2] {
        let [left, right] = [0, 1].map(|side| self.packed[side].is_some());
        if self.swapped { [right, left] } else { [left, right] }
    }

    /// Packs a constant `a` (`operand` 0) or `b`; [`run`](Self::run) no longer reads its elements.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for the packed copy, an `OperationError` if mapped weights
    /// cannot be read.
    pub fn prepack(&mut self, operand: usize, weights: Weights) -> Result<()> {
        let (shape, side) = (&self.shape, operand ^ self.swapped as usize);
        let (strides, lanes) = shape.side(side);
        let [lane_stride, depth_stride] = operand_strides(side, strides);
        let (width, distinct) = ([1, tile_size(self.isa).cols][side], shape.distinct(side));
        let matrix = |&start: &usize| {
            let layout = Layout::Strided { lane_stride, depth_stride };
            Panels::new(self.isa, weights.skip(start), layout, lanes, shape.k, width)
        };
        let matrices = distinct.starts.iter().map(matrix).collect::<Result<_>>()?;
        self.packed[side] = Some(PackedBatch { matrices, distinct });
        self.grid = self.cut();
        Ok(())
    }

    fn is_dot(&self) -> bool {
        self.shape.is_dot(self.packed[1].is_some())
    }

    /// Whether this is one row times packed panels, which takes as long as these take to arrive from memory.
    fn is_stream(&self) -> bool {
        let MatmulShape { m, k, n, .. } = *self.shape;
        m == 1 && k * n > 0 && self.shape.batches() == 1 && self.packed[1].is_some()
    }

    /// The kernel name.
    pub fn kernel(&self) -> &'static str {
        if self.is_dot() { "vector" } else { "gemm" }
    }

    fn slot(&self) -> usize {
        if self.is_dot() {
            // The vector, and a copy of a part.
            return (self.shape.k + copied_len(1, self.shape.k)).next_multiple_of(16);
        }
        self.cutting().scratch_len(self.isa, &self.grid)
    }

    /// Scratch length in `f32` elements that [`run`](Self::run) needs.
    pub fn scratch_len(&self) -> usize {
        self.streamed_len() + self.slot() * self.threads
    }

    /// Length of the sums over each depth block, if this is a [stream](Self::is_stream).
    fn streamed_len(&self) -> usize {
        let padded = self.shape.n.next_multiple_of(tile_size(self.isa).cols);
        if self.is_stream() { depth_blocks(self.shape.k).count() * padded } else { 0 }
    }

    /// The buffers of the packed constants.
    pub fn packed(&self) -> impl Iterator<Item = &Arc<Buffer>> {
        self.packed.iter().flatten().flat_map(|p| &p.matrices).map(Panels::buffer)
    }

    /// The panels of a packed `b` that is a single matrix.
    pub fn packed_b(&self) -> Option<&Panels> {
        let packed = self.packed[1].as_ref().filter(|_| !self.swapped)?;
        if let [matrix] = packed.matrices.as_slice() { Some(matrix) } else { None }
    }

    /// Computes the product of the operands `a` and `b` and the addend `c`. Does not read the elements of a packed
    /// operand.
    ///
    /// # Panics
    /// If the instruction set or the threads differ from those the step was planned for, or there are too few elements.
    pub fn run(
        &self,
        isa: Isa,
        beside: Beside,
        (a, b, c): (Option<&[f32]>, Option<Floats>, Option<&[f32]>),
        tail: Tail,
        out: &mut [f32],
        scratch: &mut [f32],
    ) {
        assert!(isa == self.isa && beside.threads.count() <= self.threads);
        let a = a.map(Floats::F32);
        let (a, b) = if self.swapped { (b, a) } else { (a, b) };
        let shape = &self.shape;
        if self.is_stream() {
            return self.stream(beside, a, c, tail, out, scratch);
        }
        let matrices = Matrices {
            batches: shape.batches(),
            batch_stride: shape.m * shape.n,
            rows: shape.m,
            row_stride: shape.n,
            cols: shape.n,
        };
        let work = matrices.batches * shape.m * shape.n * shape.k;
        Tiles::new(out, matrices, self.grid).share(beside, work, scratch, |tile, scratch| {
            let epilogue = self.epilogue(c, tail, tile.batch);
            let rows = self.rows(a, tile.batch);
            let columns = match self.matrix(1, tile.batch) {
                Some(panels) => Columns::Panels(panels),
                None => Columns::Matrix(Matrix::Strided(self.strided(1, b, tile.batch))),
            };
            match columns {
                Columns::Matrix(Matrix::Strided(columns)) if self.is_dot() => {
                    self.dot(&rows, &columns, tile, &epilogue, scratch)
                }
                _ => Product { isa: self.isa, depth: shape.k, rows, columns }.compute(tile, &epilogue, scratch),
            }
        });
    }

    /// Computes one row. The threads cut the panels of all depth blocks in the order in which they are in memory: each
    /// reads one stretch of it, whatever the number of columns. The sums over the blocks are added afterwards, in the
    /// order in which a tile adds them.
    fn stream(
        &self,
        beside: Beside,
        a: Option<Floats>,
        c: Option<&[f32]>,
        tail: Tail,
        out: &mut [f32],
        scratch: &mut [f32],
    ) {
        let (isa, k, n, threads) = (self.isa, self.shape.k, self.shape.n, beside.threads);
        let columns = Columns::Panels(self.matrix(1, 0).expect("panels are streamed"));
        let product = Product { isa, depth: k, rows: self.rows(a, 0), columns };
        let (width, block) = (tile_size(isa).cols, depth_block(k));
        let padded = n.next_multiple_of(width);
        let (sums, scratch) = scratch.split_at_mut(self.streamed_len());
        let len = sums.len();
        let row = Matrices { batches: 1, batch_stride: len, rows: 1, row_stride: len, cols: len };
        let grid = Grid { rows: Cut::whole(1), cols: threads.cut(beside.start(width) + len, width, block * STREAMED) };
        Tiles::new(sums, row, grid).share(beside, len * block * STREAMED, scratch, |tile, scratch| {
            let (mut at, mut sums) = (tile.cols.start, tile.row(0));
            while !sums.is_empty() {
                let (start, col) = (at / padded * block, at % padded);
                let (now, behind) = sums.split_at_mut(sums.len().min(padded - col));
                at += now.len();
                product.block_sums(0..1, col..(col + now.len()).min(n), start..(start + block).min(k), now, scratch);
                sums = behind;
            }
        });
        let (sums, epilogue) = (&*sums, self.epilogue(c, tail, 0));
        let cost = sums.len() / padded * STREAMED;
        for_each_chunk(threads, out, 1, FINISHED, cost, |first, out| {
            for (index, out) in out.chunks_mut(FINISHED).enumerate() {
                let first = first + index * FINISHED;
                out.copy_from_slice(&sums[first..][..out.len()]);
                for sums in sums.chunks_exact(padded).skip(1) {
                    out.iter_mut().zip(&sums[first..]).for_each(|(total, sum)| *total += sum);
                }
                epilogue.apply(isa, [0, first], first, out);
            }
        });
    }

    fn epilogue<'a>(&self, c: Option<&'a [f32]>, tail: Tail<'a>, batch: usize) -> ProductEpilogue<'a> {
        let addend = self.shape.c.as_ref().zip(c).map(|(strides, c)| Addend {
            data: &c[self.shape.offset(strides, batch)..],
            row_stride: strides.row,
            col_stride: strides.col,
            beta: self.shape.beta,
        });
        ProductEpilogue { alpha: self.shape.alpha, addend, tail }
    }

    fn rows<'a>(&'a self, a: Option<Floats<'a>>, batch: usize) -> Rows<'a> {
        match self.matrix(0, batch) {
            Some(panels) => Rows::Panels(panels),
            None => Rows::Matrix(Matrix::Strided(self.strided(0, a, batch))),
        }
    }

    /// The packed operand for one matrix of the batch.
    fn matrix(&self, side: usize, batch: usize) -> Option<&Panels> {
        let packed = self.packed[side].as_ref()?;
        Some(&packed.matrices[packed.distinct.index[batch]])
    }

    fn strided<'a>(&self, side: usize, data: Option<Floats<'a>>, batch: usize) -> StridedMatrix<'a> {
        let (strides, _) = self.shape.side(side);
        let [lane_stride, depth_stride] = operand_strides(side, strides);
        let data = data.expect("the operand was not packed").after(self.shape.offset(strides, batch));
        StridedMatrix { data, lane_stride, depth_stride }
    }

    fn dot(
        &self,
        rows: &Rows,
        columns: &StridedMatrix,
        tile: &mut Tile<f32>,
        epilogue: &ProductEpilogue,
        scratch: &mut [f32],
    ) {
        let (cols, offset, isa) = (tile.cols.clone(), tile.offset(0), self.isa);
        let (vector, scratch) = scratch.split_at_mut(self.shape.k);
        for depth in depth_blocks(self.shape.k) {
            let left = rows.block(isa, 0..1, depth.clone(), scratch);
            vector[depth.clone()].copy_from_slice(&left.data[..depth.len()]);
        }
        let lanes = columns.data.after(cols.start * columns.lane_stride);
        match columns.depth_stride == 1 && (columns.lane_stride != 1 || self.shape.n == 1) {
            true => dot_lanes(isa, vector, lanes, columns.lane_stride, tile.row(0)),
            false => add_rows(isa, vector, lanes, columns.depth_stride, tile.row(0)),
        }
        epilogue.apply(isa, [0, cols.start], offset, tile.row(0));
    }
}

fn operand_strides(side: usize, strides: &MatrixStrides) -> [usize; 2] {
    if side == 0 { [strides.row, strides.col] } else { [strides.col, strides.row] }
}

#[cfg(test)]
mod tests {
    use super::super::Env;
    use super::super::testing::*;
    use super::*;
    use half::f16;
    use proptest::prelude::*;

    /// The formula in `f64`: the value and the sum of magnitudes of each output.
    fn reference(shape: &MatmulShape, a: &[f32], b: &[f32], c: Option<&[f32]>) -> Vec<(f64, f64)> {
        let mut out = Vec::new();
        let get = |xs: &[f32], i: usize| xs[i] as f64;
        for batch in 0..shape.batches() {
            let (ao, bo) = (shape.offset(&shape.a, batch), shape.offset(&shape.b, batch));
            for i in 0..shape.m {
                for j in 0..shape.n {
                    let (mut sum, mut magnitude) = (0.0, 0.0);
                    for k in 0..shape.k {
                        let x = get(a, ao + i * shape.a.row + k * shape.a.col)
                            * get(b, bo + k * shape.b.row + j * shape.b.col);
                        sum += x;
                        magnitude += x.abs();
                    }
                    let (mut sum, mut magnitude) = (sum * shape.alpha as f64, magnitude * shape.alpha.abs() as f64);
                    if let (Some(strides), Some(c)) = (&shape.c, c) {
                        let x = get(c, shape.offset(strides, batch) + i * strides.row + j * strides.col);
                        sum += shape.beta as f64 * x;
                        magnitude += (shape.beta as f64 * x).abs();
                    }
                    out.push((sum, magnitude));
                }
            }
        }
        out
    }

    fn extent(shape: &MatmulShape, s: &MatrixStrides, rows: usize, cols: usize) -> usize {
        let batch: usize = shape.batch.iter().zip(&s.batch).map(|(&n, &stride)| (n - 1) * stride).sum();
        batch + (rows - 1) * s.row + (cols - 1) * s.col + 1
    }

    /// Checks all choices of operands to pack; with `is_half`, these and the right operand are float16.
    fn check(shape: &MatmulShape, is_half: bool) {
        let (a_half, a) = halves(&random(extent(shape, &shape.a, shape.m, shape.k), 1));
        let (b_half, b) = halves(&random(extent(shape, &shape.b, shape.k, shape.n), 2));
        let c = shape.c.as_ref().map(|c| random(extent(shape, c, shape.m, shape.n), 3));
        let weights =
            |half, full| if is_half { Weights::of_slice::<f16>(half) } else { Weights::of_slice::<f32>(full) };
        let exact = reference(shape, &a, &b, c.as_deref());
        for (pack_a, pack_b) in [(false, false), (false, true), (true, false), (true, true)] {
            let run = |env: &Env| {
                let halves = is_half && !pack_b;
                let mut step = MatmulStep::new(env.isa, env.threads.count(), shape.clone(), halves, false);
                if pack_a {
                    step.prepack(0, weights(&a_half, &a)).unwrap();
                }
                if pack_b {
                    step.prepack(1, weights(&b_half, &b)).unwrap();
                }
                let b = if is_half { Floats::F16(&b_half) } else { Floats::F32(&b) };
                let mut out = vec![f32::NAN; exact.len()];
                let mut scratch = vec![f32::NAN; step.scratch_len()];
                let operands = ((!pack_a).then_some(&a[..]), (!pack_b).then_some(b), c.as_deref());
                step.run(env.isa, env.threads.into(), operands, Tail::NONE, &mut out, &mut scratch);
                out
            };
            on_all(run, |env, out| {
                assert_sums(out, &exact, shape.k + 1, || {
                    format!("{shape:?}, packed {pack_a} {pack_b}, {:?}, {} threads", env.isa, env.threads.count())
                });
            });
        }
    }

    #[test]
    fn tile_edges() {
        for (m, k, n) in [
            (1, 1, 1),
            (1, 300, 70),
            (3, 5, 2),
            (4, 8, 8),
            (5, 256, 15),
            (6, 257, 16),
            (7, 3, 17),
            (11, 64, 31),
            (12, 2, 32),
            (13, 513, 33),
            (70, 20, 1),
            (241, 9, 65),
            (490, 3, 40),
            (20, 3, 1100),
        ] {
            check(&MatmulShape::plain(m, k, n), false);
            check(&MatmulShape::plain(m, k, n), true);
        }
    }

    #[test]
    fn large_enough_for_threads() {
        check(&MatmulShape::plain(150, 260, 140), false);
        check(&MatmulShape::plain(1, 1000, 600), false);
    }

    /// One row times a transposed matrix, and a matrix times one column, read in place.
    #[test]
    fn vectors() {
        for (k, n) in [(1, 2), (7, 3), (63, 40), (64, 5), (65, 33), (300, 70), (1000, 130)] {
            let turned = MatrixStrides { batch: PerAxis::new(), row: 1, col: k + 3 };
            let row = MatmulShape { b: turned, alpha: 0.5, ..MatmulShape::plain(1, k, n) };
            check(&row, false);
            check(&row, true);
            check(&MatmulShape::plain(n, k, 1), false);
        }
    }

    #[test]
    fn batches_broadcast_and_flatten() {
        let strides = |batch: &[usize], row, col| MatrixStrides { batch: batch.iter().copied().collect(), row, col };
        let base = MatmulShape { batch: [2, 3].into_iter().collect(), ..MatmulShape::plain(5, 7, 4) };
        for shape in [
            MatmulShape { a: strides(&[105, 35], 7, 1), b: strides(&[0, 0], 4, 1), ..base.clone() },
            MatmulShape { a: strides(&[0, 35], 7, 1), b: strides(&[28, 0], 4, 1), ..base.clone() },
            MatmulShape { a: strides(&[35, 70], 1, 5), b: strides(&[84, 28], 1, 7), ..base.clone() },
            MatmulShape {
                a: strides(&[105, 35], 7, 1),
                b: strides(&[0, 0], 4, 1),
                c: Some(strides(&[0, 0], 0, 1)),
                ..base.clone()
            },
            MatmulShape {
                a: strides(&[105, 35], 7, 1),
                b: strides(&[0, 0], 4, 1),
                c: Some(strides(&[0, 4], 0, 1)),
                ..base.clone()
            },
        ] {
            check(&shape, false);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn random_shapes(
            (m, k, n) in (1usize..40, 1usize..300, 1usize..70),
            turned in any::<[bool; 2]>(),
            addend in 0usize..5,
            (alpha, beta) in (-2.0f32..2.0, -2.0f32..2.0),
        ) {
            let side = |rows: usize, cols: usize, turned: bool| match turned {
                true => MatrixStrides { batch: PerAxis::new(), row: 1, col: rows + 1 },
                false => MatrixStrides { batch: PerAxis::new(), row: cols + 2, col: 1 },
            };
            let c = |row, col| Some(MatrixStrides { batch: PerAxis::new(), row, col });
            let c = [None, c(0, 0), c(1, 0), c(0, 1), c(n, 1)][addend].clone();
            let shape = MatmulShape {
                a: side(m, k, turned[0]), b: side(k, n, turned[1]), c, alpha, beta, ..MatmulShape::plain(m, k, n)
            };
            check(&shape, false);
            check(&shape, true);
        }
    }

    fn check_finish([m, k, n]: [usize; 3]) {
        let shape = MatmulShape::plain(m, k, n);
        let (a, b) = (random(m * k, 1), random(k * n, 2));
        let wanted: Vec<_> = reference(&shape, &a, &b, None)
            .iter()
            .enumerate()
            .map(|(i, &(x, s))| (x + 10.0 + (i % 97) as f64, s + 10.0 + (i % 97) as f64))
            .collect();
        let run = |env: &Env| {
            let step = MatmulStep::new(env.isa, env.threads.count(), shape.clone(), false, true);
            let mut out = vec![f32::NAN; m * n];
            let finish = |at: usize, xs: &mut [f32]| {
                xs.iter_mut().enumerate().for_each(|(i, x)| *x += 10.0 + ((at + i) % 97) as f32);
            };
            let tail = Tail { finish: Some(&finish), ..Tail::NONE };
            let operands = (Some(&a[..]), Some(Floats::F32(&b)), None);
            let scratch = &mut vec![0.0; step.scratch_len()];
            step.run(env.isa, env.threads.into(), operands, tail, &mut out, scratch);
            out
        };
        on_all(run, |_, out| assert_sums(out, &wanted, k, || format!("{m} {k} {n}")));
    }

    #[test]
    fn finish_sees_every_output_once_with_its_place() {
        for size in [[1, 30, 50], [37, 300, 65], [40, 5, 1], [300, 40, 600]] {
            check_finish(size);
        }
    }

    #[test]
    fn special_values_spread_as_the_formula_says() {
        let (m, k, n) = (13, 20, 34);
        let (mut a, b) = (vec![1.0; m * k], vec![1.0; k * n]);
        a[3 * k + 5] = f32::NAN;
        a[4 * k + 5] = f32::INFINITY;
        let run = |env: &Env| {
            let shape = MatmulShape::plain(m, k, n);
            let step = MatmulStep::new(env.isa, env.threads.count(), shape, false, false);
            let (mut out, mut scratch) = (vec![0.0; m * n], vec![0.0; step.scratch_len()]);
            let operands = (Some(&a[..]), Some(Floats::F32(&b)), None);
            step.run(env.isa, env.threads.into(), operands, Tail::NONE, &mut out, &mut scratch);
            out
        };
        on_all(run, |_, out| {
            for (row, out) in out.chunks(n).enumerate() {
                let right = |&x: &f32| match row {
                    3 => x.is_nan(),
                    4 => x == f32::INFINITY,
                    _ => x == k as f32,
                };
                assert!(out.iter().all(right), "row {row}: {out:?}");
            }
        });
    }
}
