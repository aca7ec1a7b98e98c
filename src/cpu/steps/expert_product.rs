//! Products of rows with matrices that the rows choose.

use super::block_product::{FEW_ROWS, MOST, MOST_SUMS, SPEED, round_rows};
use super::{Env, Run};
use crate::cpu::kernels::float::Floats;
use crate::cpu::memory::Io;
use crate::cpu::product::blocks::BlockPanels;
use crate::cpu::product::blocks::rounding::Rounding;
use crate::cpu::product::columns::Columns;
use crate::cpu::product::frame::{Cutting, Product};
use crate::cpu::product::matrix::{Matrix, StridedMatrix};
use crate::cpu::product::panels::Panels;
use crate::cpu::product::rows::Rows;
use crate::cpu::product::tile::tile_size;
use crate::cpu::schedule::partition::{Grid, Shape, partition};
use crate::cpu::schedule::tiles::{Matrices, Tile, Tiles};
use crate::cpu::simd::Isa;
use crate::memory::Buffer;
use crate::ops::extension::expert_product::ExpertProduct;
use crate::shape::Descriptor;
use std::sync::Arc;

/// The matrices, one beside the other.
pub enum Experts {
    /// Of floats.
    Floats(Panels),
    /// Of integers in blocks.
    Blocks(BlockPanels),
}

/// A compiled product whose rows choose the matrix. Neighboring rows with the same one are multiplied together; a
/// matrix that no row chooses is not read.
pub struct ExpertProductStep {
    experts: Experts,
    op: ExpertProduct,
    /// Rows, columns of each matrix, and depth.
    size: [usize; 3],
    isa: Isa,
    threads: usize,
    grid: Grid,
}

impl ExpertProductStep {
    /// Creates the product of the rows `a`, whose result has the shape of `output`.
    pub fn new(env: &Env, op: &ExpertProduct, experts: Experts, [a, output]: [&Descriptor; 2]) -> Self {
        let (op, threads) = (op.clone(), env.threads.count());
        let mut step = ExpertProductStep { experts, op, size: [0; 3], isa: env.isa, threads, grid: Grid::whole(0, 0) };
        step.resize(a, output);
        step
    }

    /// Adapts the product to other rows.
    pub fn resize(&mut self, a: &Descriptor, output: &Descriptor) {
        let (a, output) = (a.sizes(), output.sizes());
        self.size = [a[0] as usize, output[1] as usize, a[1] as usize];
        let shape = Shape { most: MOST, area: MOST_SUMS, finishes: true, ..self.cutting().shape(self.isa) };
        self.grid = partition(&shape, self.threads);
    }

    fn cutting(&self) -> Cutting {
        Cutting { batches: 1, size: self.size, copies_rows: false, packs_columns: true, rereads: true }
    }

    /// The rounding of rows for products with packed weights, which are faster for few rows.
    fn rounding(&self) -> Option<(&BlockPanels, Rounding)> {
        let Experts::Blocks(panels) = &self.experts else { return None };
        let is_fast = self.op.rounds_rows || panels.takes_digits();
        is_fast.then(|| (panels, panels.rounding(self.size[2], self.op.rounds_rows)))
    }

    /// Whether few neighbors of `row`, in any tile, have the same matrix.
    fn is_alone(&self, experts: &[i32], row: usize) -> bool {
        let is_same = |place: &&i32| self.op.expert(**place) == self.op.expert(experts[row]);
        let before = experts[..row].iter().rev().take(FEW_ROWS).take_while(is_same).count();
        let after = experts[row..].iter().take(FEW_ROWS + 1).take_while(is_same).count();
        before + after <= FEW_ROWS
    }

    fn rounded_len(&self) -> usize {
        self.rounding().map_or(0, |(_, rounding)| (self.size[0] * rounding.row_len()).next_multiple_of(16))
    }

    /// Sums of a tile: a matrix may begin within a panel, whose first columns are then computed in vain.
    fn sums_len(&self) -> usize {
        let [rows, cols] = self.grid.largest();
        (rows * (cols + tile_size(self.isa).cols)).next_multiple_of(16)
    }

    /// Computes a tile of the rows `a`, `experts` being their matrices.
    fn multiply(&self, a: &[f32], rounded: &[f32], experts: &[i32], tile: &mut Tile<f32>, scratch: &mut [f32]) {
        let [_, columns, depth] = self.size;
        let rows = StridedMatrix { data: Floats::F32(a), lane_stride: depth, depth_stride: 1 };
        let right = match &self.experts {
            Experts::Floats(panels) => Columns::Panels(panels),
            Experts::Blocks(panels) => Columns::Blocks(panels),
        };
        let product = Product { isa: self.isa, depth, rows: Rows::Matrix(Matrix::Strided(rows)), columns: right };
        let (sums, scratch) = scratch.split_at_mut(self.sums_len());
        let rounded_rows = |rounding: Rounding, start: usize, end: usize| {
            &rounded[start * rounding.row_len()..end * rounding.row_len()]
        };
        // The matrix of a row, and whether the rounded row is multiplied.
        let kind = |row: usize| {
            let is_rounded = self.rounding().is_some_and(|(_, rounding)| {
                self.op.rounds_rows
                    || self.is_alone(experts, row) && rounding.fits(rounded_rows(rounding, row, row + 1))
            });
            (self.op.expert(experts[row]), is_rounded)
        };
        let mut start = tile.rows.start;
        while start < tile.rows.end {
            let (expert, is_rounded) = kind(start);
            let end =
                (start + 1..tile.rows.end).find(|&row| kind(row) != (expert, is_rounded)).unwrap_or(tile.rows.end);
            let first = expert * columns + tile.cols.start;
            let skipped = first % tile_size(self.isa).cols;
            let cols = first - skipped..first + tile.cols.len();
            match self.rounding().filter(|_| is_rounded) {
                Some((panels, rounding)) => {
                    panels.multiply_rounded(rounding, rounded_rows(rounding, start, end), cols.clone(), sums);
                }
                None => product.sums(start..end, cols.clone(), sums, scratch),
            }
            for (row, sums) in (start..end).zip(sums.chunks_exact(cols.len())) {
                tile.row(row - tile.rows.start).copy_from_slice(&sums[skipped..]);
            }
            start = end;
        }
    }
}

impl Run for ExpertProductStep {
    fn kernel(&self) -> &'static str {
        match (&self.experts, self.rounding().is_some()) {
            (Experts::Floats(_), _) => "experts",
            (_, true) => "experts, rows rounded",
            (_, false) => "experts, weights in blocks",
        }
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let (a, experts) = (io.input::<f32>(0), io.input::<i32>(1));
        let (out, scratch) = (io.output::<f32>(), io.scratch::<f32>());
        let (rounded, scratch) = scratch.split_at_mut(self.rounded_len());
        if let Some((panels, rounding)) = self.rounding() {
            round_rows(env.threads, panels, a, rounding, rounded, scratch);
        }
        let [rows, cols, depth] = self.size;
        let matrices = Matrices { batches: 1, batch_stride: rows * cols, rows, row_stride: cols, cols };
        let work = rows * cols * depth / if self.op.rounds_rows { SPEED } else { 1 };
        let rounded = &*rounded;
        Tiles::new(out, matrices, self.grid).share(env.threads, work, scratch, |tile, scratch| {
            self.multiply(a, rounded, experts, tile, scratch);
        });
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        let slot = self.sums_len() + self.cutting().scratch_len(self.isa, &self.grid);
        (self.rounded_len() + slot * threads) * size_of::<f32>()
    }

    fn packed(&self) -> Vec<&Arc<Buffer>> {
        match &self.experts {
            Experts::Floats(panels) => vec![panels.buffer()],
            Experts::Blocks(panels) => vec![panels.buffer()],
        }
    }
}
