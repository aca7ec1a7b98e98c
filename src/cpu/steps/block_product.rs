//! Products with 4-bit or 8-bit weights.

use super::epilogue::{EpilogueStep, Following, is_vector_along};
use super::{Env, Run};
use crate::cpu::kernels::float::Floats;
use crate::cpu::memory::Io;
use crate::cpu::product::blocks::BlockPanels;
use crate::cpu::product::blocks::rounding::Rounding;
use crate::cpu::product::columns::Columns;
use crate::cpu::product::finish::{Addend, ProductEpilogue, Tail};
use crate::cpu::product::frame::{Cutting, Product};
use crate::cpu::product::matrix::{Matrix, StridedMatrix};
use crate::cpu::product::rows::Rows;
use crate::cpu::schedule::partition::{Cut, Grid, Shape, partition};
use crate::cpu::schedule::pool::Threads;
use crate::cpu::schedule::tiles::{Beside, Matrices, Tile, Tiles};
use crate::cpu::simd::Isa;
use crate::memory::Buffer;
use crate::shape::Descriptor;
use std::ops::Range;
use std::sync::Arc;

/// Up to this number of rows are multiplied with weights that are never in memory as floats, where that is fast. Each row
/// has the bits of a single one, on every CPU. For more rows, which have other bits, it is faster to write the weights of
/// a panel to the first-level cache first.
pub(super) const FEW_ROWS: usize = 8;

/// Maximum rows and columns of a tile of such a product, and its maximum sums: the tile's data stay in the second-level
/// cache.
pub(super) const MOST: [usize; 2] = [128, 1 << 14];
pub(super) const MOST_SUMS: usize = 1 << 16;

/// Byte multiply-adds in the time of one float multiply-add.
pub(super) const SPEED: usize = 4;

/// Multiply-adds in the time of rounding one element to 24 bits: 0.6 ns with AVX-512, 0.75 with AVX2.
const ROUNDING: usize = 48;

#[cfg(test)]
thread_local! {
    /// How often this thread has had rows rounded.
    pub static ROUNDINGS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A compiled product with 4-bit or 8-bit weights, and the element-wise operators on its output.
pub struct BlockProductStep {
    panels: BlockPanels,
    /// Rows, columns and depth.
    size: [usize; 3],
    /// Whether rows are rounded to 8-bit integers.
    rounds_rows: bool,
    epilogue: EpilogueStep,
    isa: Isa,
    threads: usize,
    grid: Grid,
}

impl BlockProductStep {
    /// Creates the product of rows `a` and `panels`, followed by the operations in `following`.
    pub fn new(env: &Env, a: &Descriptor, panels: BlockPanels, rounds_rows: bool, following: &Following) -> Self {
        let epilogue = EpilogueStep::new(following, |strides| is_bias(strides, following));
        let (isa, threads) = (env.isa, env.threads.count());
        let (size, grid) = (sizes(a, &panels), Grid::whole(0, 0));
        let mut step = BlockProductStep { panels, size, rounds_rows, epilogue, isa, threads, grid };
        step.grid = step.cut();
        step
    }

    /// Adapts the product to other rows; returns `false` if the step must be rebuilt.
    #[must_use]
    pub fn resize(&mut self, a: &Descriptor, following: &Following) -> bool {
        self.size = sizes(a, &self.panels);
        self.grid = self.cut();
        self.epilogue.resize(following, |strides| is_bias(strides, following))
    }

    fn cut(&self) -> Grid {
        partition(&self.shape(), self.threads)
    }

    /// Adopts the grid of several products, or again that of this one alone.
    pub fn join(&mut self, grid: Option<Grid>) {
        self.grid = grid.unwrap_or_else(|| self.cut());
    }

    /// The product as it is cut into tiles.
    pub fn shape(&self) -> Shape {
        let floats = self.cutting().shape(self.isa);
        match self.stays_packed() {
            true => Shape { most: MOST, area: MOST_SUMS, finishes: true, left_bytes: 4, right_bytes: 1, ..floats },
            false => floats,
        }
    }

    fn cutting(&self) -> Cutting {
        Cutting {
            batches: 1,
            size: self.size,
            copies_rows: false,
            packs_columns: true,
            rereads: self.epilogue.finishes(),
        }
    }

    /// Whether weights are never in memory as floats, but for rows that do not fit their rounding.
    fn stays_packed(&self) -> bool {
        self.rounds_rows || self.size[0] <= FEW_ROWS && self.panels.takes_digits()
    }

    /// How the rows are rounded, if they are.
    pub fn rounding(&self) -> Option<Rounding> {
        self.stays_packed().then(|| self.panels.rounding(self.size[2], self.rounds_rows))
    }

    /// Length of all rounded rows in floats.
    fn rounded_len(&self) -> usize {
        self.rounding().map_or(0, |rounding| (self.size[0] * rounding.row_len()).next_multiple_of(16))
    }

    /// Scratch length in floats that a thread needs for a tile.
    fn slot(&self) -> usize {
        let sums = if self.stays_packed() { self.grid.largest().iter().product() } else { 0 };
        sums.next_multiple_of(16) + self.cutting().scratch_len(self.isa, &self.grid)
    }

    fn multiply(
        &self,
        beside: Beside,
        a: &[f32],
        bias: Option<&[f32]>,
        tail: Tail,
        out: &mut [f32],
        scratch: &mut [f32],
    ) {
        let [rows, cols, depth] = self.size;
        let (own, scratch) = scratch.split_at_mut(self.rounded_len());
        let rounded: &[f32] = if let Some(rounded) = beside.prepared() {
            rounded
        } else {
            if let Some(rounding) = self.rounding() {
                #[cfg(test)]
                ROUNDINGS.set(ROUNDINGS.get() + 1);
                round_rows(beside.threads, &self.panels, a, rounding, own, scratch);
            }
            own
        };
        let matrices = Matrices { batches: 1, batch_stride: rows * cols, rows, row_stride: cols, cols };
        let work = rows * cols * depth / if self.rounds_rows { SPEED } else { 1 };
        let addend = bias.map(|data| Addend { data, row_stride: 0, col_stride: 1, beta: 1.0 });
        let epilogue = ProductEpilogue { alpha: 1.0, addend, tail };
        Tiles::new(out, matrices, self.grid).share(beside.with_left(rounded), work, scratch, |tile, scratch| {
            let rows = StridedMatrix { data: Floats::F32(a), lane_stride: depth, depth_stride: 1 };
            let (rows, columns) = (Rows::Matrix(Matrix::Strided(rows)), Columns::Blocks(&self.panels));
            let floats = Product { isa: self.isa, depth, rows, columns };
            match self.rounding() {
                None => floats.compute(tile, &epilogue, scratch),
                Some(rounding) => self.multiply_packed(&floats, rounding, rounded, tile, &epilogue, scratch),
            }
        });
    }

    fn multiply_packed(
        &self,
        floats: &Product,
        rounding: Rounding,
        rounded: &[f32],
        tile: &mut Tile<f32>,
        epilogue: &ProductEpilogue,
        scratch: &mut [f32],
    ) {
        let (rows, cols) = (tile.rows.clone(), tile.cols.clone());
        let (sums, scratch) = scratch.split_at_mut(rows.len() * cols.len());
        let rounded = |rows: Range<usize>| &rounded[rows.start * rounding.row_len()..rows.end * rounding.row_len()];
        let fits = |row: usize| self.rounds_rows || rounding.fits(rounded(row..row + 1));
        let mut start = rows.start;
        while start < rows.end {
            let is_rounded = fits(start);
            let end = (start + 1..rows.end).find(|&row| fits(row) != is_rounded).unwrap_or(rows.end);
            let sums = &mut sums[(start - rows.start) * cols.len()..];
            match is_rounded {
                true => self.panels.multiply_rounded(rounding, rounded(start..end), cols.clone(), sums),
                false => floats.sums(start..end, cols.clone(), sums, scratch),
            }
            start = end;
        }
        for (index, sums) in sums.chunks_exact_mut(cols.len()).enumerate() {
            epilogue.apply(self.isa, [rows.start + index, cols.start], tile.offset(index), sums);
            tile.row(index).copy_from_slice(sums);
        }
    }
}

/// Rounds all rows of `a` into `rounded`, once for all tiles. With fewer rows than threads, blocks are shared too.
pub(super) fn round_rows(
    threads: &Threads,
    panels: &BlockPanels,
    a: &[f32],
    rounding: Rounding,
    rounded: &mut [f32],
    scratch: &mut [f32],
) {
    let (depth, len, count) = (rounding.depth, rounding.row_len(), threads.count());
    let rows = a.len() / depth;
    let matrices = Matrices { batches: 1, batch_stride: rows * len, rows, row_stride: len, cols: len };
    let cols = Cut::new(len, rounding.block_len(), count.div_ceil(rows.max(1)));
    let grid = Grid { rows: Cut::new(rows, 1, 4 * count), cols };
    Tiles::new(rounded, matrices, grid).share(threads, rows * depth * ROUNDING, scratch, |tile, _| {
        let depth_at = |place: usize| depth.min(place.div_ceil(rounding.block_len()) * rounding.block);
        let own = depth_at(tile.cols.start)..depth_at(tile.cols.end);
        for index in 0..tile.rows.len() {
            let row = &a[(tile.rows.start + index) * depth..];
            rounding.round(panels.format(), &row[own.clone()], tile.row(index));
        }
    });
}

impl Run for BlockProductStep {
    fn kernel(&self) -> &'static str {
        match (self.rounds_rows, self.stays_packed()) {
            (true, _) => "gemm, rows rounded to 8 bits",
            (false, true) => "few rows, rounded to 24 bits",
            (false, false) => "gemm, weights in blocks",
        }
    }

    fn run(&self, env: &Env, io: &mut Io) {
        self.run_beside(env, io, env.threads.into());
    }

    fn run_beside(&self, env: &Env, io: &mut Io, beside: Beside) {
        assert!(env.isa == self.isa && env.threads.count() <= self.threads);
        let (epilogue, threads) = (&self.epilogue, env.threads.count());
        let a = io.input::<f32>(0);
        let bias = epilogue.addend().and_then(|operand| io.optional::<f32>(operand));
        let (out, scratch) = (io.output::<f32>(), io.scratch::<f32>());
        let (registers, scratch) = scratch.split_at_mut(epilogue.scratch_len(threads));
        epilogue.with_tail(env, io, registers, |tail| self.multiply(beside, a, bias, tail, out, scratch));
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        (self.rounded_len() + self.slot() * threads + self.epilogue.scratch_len(threads)) * size_of::<f32>()
    }

    fn packed(&self) -> Vec<&Arc<Buffer>> {
        vec![self.panels.buffer()]
    }
}

/// Rows, columns and depth of the product of rows `a` and `panels`.
fn sizes(a: &Descriptor, panels: &BlockPanels) -> [usize; 3] {
    let depth = a.sizes().last().map_or(1, |&size| size as usize);
    [a.elements() / depth, panels.blocks().columns, depth]
}

/// Whether an operand with these strides has one element per column.
fn is_bias(strides: &[usize], following: &Following) -> bool {
    is_vector_along(strides.len() - 1, strides, &following.output.sizes())
}

#[cfg(test)]
mod tests {
    use super::FEW_ROWS;
    use crate::compile::fuse_block_products;
    use crate::cpu::simd::Isa;
    use crate::dtype::Number;
    use crate::ir::{Graph, parse};
    use crate::ops::tensor::Tensor;
    use crate::testing::{Random, Tolerance, check, check_with, run_compiled_on};
    use proptest::prelude::*;

    /// A few hundred terms with magnitudes of up to 4 times 15 times 4.
    const FLOAT: Tolerance = Tolerance::ulps(8).or_absolute(2e-2);
    const HALF: Tolerance = Tolerance::ulps(2).or_absolute(2e-2);

    /// `rows` times a matrix of `columns` columns, each with `blocks` blocks of `block` weights; the product uses only
    /// `depth` of them.
    struct Case<'a> {
        dtype: &'a str,
        weights: &'a str,
        rows: u32,
        columns: u32,
        block: u32,
        blocks: u32,
        depth: u32,
        /// The same zero point for all blocks; random ones if `None`.
        zero: Option<i32>,
        rounds: bool,
        tail: &'a str,
    }

    const CASE: Case = Case {
        dtype: "float32",
        weights: "uint4",
        rows: 1,
        columns: 40,
        block: 16,
        blocks: 3,
        depth: 48,
        zero: Some(8),
        rounds: false,
        tail: "%y = identity %p",
    };

    fn graph(case: &Case) -> Graph {
        let &Case { dtype, weights, rows, columns, block, blocks, depth, zero, rounds, tail } = case;
        let (zero, all) = (zero.map_or(String::new(), |zero| zero.to_string()), block * blocks);
        let graph = parse(&format!(
            "%x = input x {dtype} [{rows}, {depth}]
             %w = constant {weights} [{columns}, {blocks}, {block}]
             %s = constant {dtype} [{columns}, {blocks}, 1] 0.25 0.5 -0.125 1 0.0625
             %z = constant {weights} [{columns}, {blocks}, 1] {zero}
             %d = dequantizeLinear %w %s %z
             %r = reshape %d newShape=[{columns}, {all}]
             %c = slice %r starts=[0, 0] sizes=[{columns}, {depth}]
             %p = gemm %x %c bTranspose=true roundsRows={rounds}
             {tail}
             output y = %y"
        ));
        let mut fused = graph.clone();
        fuse_block_products(&mut fused);
        assert!(fused.to_string().contains("blockProduct"), "{fused}");
        graph
    }

    fn check_case(case: &Case) {
        let tolerance = if case.dtype == "float32" { FLOAT } else { HALF };
        check(&graph(case), tolerance);
    }

    #[test]
    fn few_rows_and_many() {
        for (weights, zero) in [("uint4", 8), ("int4", 0), ("uint8", 128), ("int8", 0), ("int8", -3)] {
            for zero in [Some(zero), None] {
                for dtype in ["float32", "float16"] {
                    for rows in (1..=9).chain([13]) {
                        check_case(&Case { dtype, weights, rows, zero, ..CASE });
                    }
                }
            }
        }
    }

    #[test]
    fn sizes_at_the_edges() {
        for weights in ["uint4", "uint8"] {
            for columns in [2, 31, 32, 33, 70] {
                for (block, blocks, depth) in
                    [(16, 1, 16), (16, 4, 50), (32, 2, 63), (128, 3, 300), (64, 10, 640), (7, 1, 7), (20, 1, 19)]
                {
                    for rows in [1, 5] {
                        check_case(&Case { weights, rows, columns, block, blocks, depth, zero: None, ..CASE });
                    }
                }
            }
        }
    }

    #[test]
    fn matrices_by_depth() {
        for (weights, scales) in [("int8", "[3, 50]"), ("uint4", "[3, 1]"), ("int4", "[1, 50]"), ("uint8", "[1, 1]")] {
            for rows in [1, 9] {
                let graph = parse(&format!(
                    "%x = input x float32 [2, {rows}, 48]
                     %w = constant {weights} [48, 50]
                     %s = constant float32 {scales} 0.25 0.5 -0.125 1 0.0625
                     %z = constant {weights} {scales}
                     %d = dequantizeLinear %w %s %z
                     %p = matmul %x %d
                     output y = %p"
                ));
                check(&graph, FLOAT);
            }
        }
    }

    #[test]
    fn epilogues_are_applied() {
        for dtype in ["float32", "float16"] {
            for rows in [1, 6] {
                for tail in [
                    format!("%b = constant {dtype} [40]\n%a = add %p %b\n%y = relu %a"),
                    format!("%b = input b {dtype} [{rows}, 40]\n%a = add %p %b\n%y = tanh %a"),
                    "%a = sigmoid %p\n%y = mul %p %a".to_string(),
                ] {
                    check_case(&Case { dtype, rows, tail: &tail, ..CASE });
                    check_rounded(&Case { dtype, rows, tail: &tail, ..CASE });
                }
            }
        }
    }

    /// Rows whose blocks are multiples of 1/127 of their largest element: rounding does not change them.
    fn check_rounded(case: &Case) {
        let graph = graph(&Case { rounds: true, ..*case });
        let mut random = Random::new(3);
        let inputs = graph.inputs.iter().map(|(name, id)| {
            let number = |index: &[usize]| match index.last().map_or(0, |k| k % case.block as usize) {
                0 => 127.0,
                _ => (random.next() % 255) as f64 - 127.0,
            };
            let mut number = number;
            let factor = |index: &[usize]| {
                if index.last().is_some_and(|k| k / case.block as usize % 2 == 1) { 0.25 } else { 0.5 }
            };
            let tensor =
                Tensor::from_fn(graph.descriptor(*id), |index| Number::Float(number(index) * factor(index) / 32.0));
            (name.clone(), tensor)
        });
        let inputs = inputs.collect();
        let tolerance = if case.dtype == "float32" { FLOAT } else { HALF };
        check_with(&graph, &inputs, tolerance);
    }

    #[test]
    fn rows_are_rounded_block_by_block() {
        for (weights, zero) in [("uint4", 8), ("int4", 0), ("uint8", 128), ("int8", -3)] {
            for zero in [Some(zero), None] {
                for rows in [1, 3, 4, 9] {
                    for (block, blocks, depth) in
                        [(16, 1, 16), (16, 4, 50), (32, 2, 64), (128, 2, 256), (20, 1, 19), (2048, 1, 2048)]
                    {
                        check_rounded(&Case { weights, rows, zero, block, blocks, depth, columns: 37, ..CASE });
                    }
                }
            }
        }
        check_rounded(&Case { dtype: "float16", rows: 5, ..CASE });
    }

    #[test]
    fn rounding_errors_are_at_most_half_a_step() {
        let rounded = graph(&Case { rounds: true, rows: 3, ..CASE });
        // 48 terms, each with an error of up to 4 / 127 / 2 times up to 8, but not all of the same sign.
        check(&rounded, Tolerance::ulps(0).or_absolute(1.5));
        let zeros = rounded
            .inputs
            .iter()
            .map(|(name, id)| (name.clone(), Tensor::from_fn(rounded.descriptor(*id), |_| Number::Float(0.0))));
        check_with(&rounded, &zeros.collect(), Tolerance::EXACT);
    }

    #[test]
    fn few_rows_are_as_exact_as_with_floats() {
        // 48 terms, each with an error of up to 4 * 2^-23 times 8. Digits of 16 bits would have a hundred times that error.
        for rows in 1..=FEW_ROWS as u32 {
            check(&graph(&Case { rows, ..CASE }), Tolerance::ulps(0).or_absolute(2e-4));
        }
    }

    #[test]
    fn rows_beyond_the_digits_stay_floats() {
        let graph = graph(&Case { zero: Some(0), weights: "uint8", rows: 2, ..CASE });
        for special in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-36, 1e36] {
            // The second row has no special value.
            let element = |at: &[usize]| match (at[0], at[1]) {
                (0, 5) => special,
                (0, depth) if special.abs() < 1.0 => special * (depth % 7) as f64,
                (0, _) => 0.0,
                (_, depth) => (depth % 11) as f64 - 5.0,
            };
            let inputs = graph.inputs.iter().map(|(name, id)| {
                (name.clone(), Tensor::from_fn(graph.descriptor(*id), |at| Number::Float(element(at) as f32 as f64)))
            });
            check_with(&graph, &inputs.collect(), Tolerance::ulps(8).or_absolute(1e-40));
        }
    }

    #[test]
    fn few_rows_have_the_bits_of_single_ones() {
        let element = |row: usize, depth: usize| match (row, depth) {
            // These rows stay floats.
            (2, 5) | (5, 40) => f64::INFINITY,
            _ => ((row * 389 + depth * 157) % 1013) as f32 as f64 / 99.0 - 5.0,
        };
        // The outputs of the rows from `first` on.
        let run = |case: &Case, first: usize, isa: Isa| {
            let graph = graph(case);
            let inputs = graph.inputs.iter().map(|(name, id)| {
                let number = |at: &[usize]| Number::Float(element(first + at[0], at[1]));
                (name.clone(), Tensor::from_fn(graph.descriptor(*id), number))
            });
            run_compiled_on(&graph, &inputs.collect(), isa).concat()
        };
        for isa in Isa::available() {
            for (weights, zero) in [("uint4", Some(8)), ("uint4", None), ("uint8", Some(128)), ("int8", None)] {
                for (dtype, rounds) in [("float32", false), ("float16", false), ("float32", true), ("float16", true)] {
                    let case = Case { dtype, weights, zero, rounds, ..CASE };
                    let single: Vec<Vec<u8>> = (0..FEW_ROWS).map(|row| run(&case, row, isa)).collect();
                    for rows in 2..=FEW_ROWS {
                        let together = run(&Case { rows: rows as u32, ..case }, 0, isa);
                        assert!(
                            together == single[..rows].concat(),
                            "{isa:?}: {rows} rows of {dtype}, {weights}, {rounds}"
                        );
                    }
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn random_sizes(rows in 1u32..20, columns in 2u32..100, block in 1u32..6, blocks in 1u32..9, cut in 0u32..8, byte: bool) {
            let block = block * 8;
            let weights = if byte { "int8" } else { "uint4" };
            let case = Case { weights, rows, columns, block, blocks, depth: block * blocks - cut, zero: None, ..CASE };
            check_case(&case);
            check_rounded(&case);
        }
    }
}
