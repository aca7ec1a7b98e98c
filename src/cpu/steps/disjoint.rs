//! Transposed convolution with taps that do not overlap, for example 2x2 with strides 2: each input element produces a
//! rectangle of its own.
//!
//! With channels last, one row of the input and one row of the filter yield a row of the output: the product `[input
//! columns][input channels] * [input channels][filter columns, output channels]`, in place.

use super::Env;
use super::convolution::ConvTranspose2dShape;
use crate::cpu::kernels::float::Floats;
use crate::cpu::product::columns::Columns;
use crate::cpu::product::finish::{Addend, ProductEpilogue, Tail};
use crate::cpu::product::frame::{Cutting, Product};
use crate::cpu::product::matrix::{Matrix, StridedMatrix};
use crate::cpu::product::panels::Panels;
use crate::cpu::product::rows::Rows;
use crate::cpu::schedule::partition::Grid;
use crate::cpu::schedule::tiles::{Matrices, Tiles};
use crate::cpu::simd::Isa;

/// A compiled transposed convolution with disjoint taps.
pub struct Disjoint {
    isa: Isa,
    threads: usize,
    cutting: Cutting,
    grid: Grid,
    /// Output channels.
    channels: usize,
}

impl Disjoint {
    /// Whether the taps of a transposed convolution are disjoint.
    pub fn fits(shape: &ConvTranspose2dShape) -> bool {
        let along = |axis: usize| {
            let (filter, stride) = (shape.filter[axis], shape.strides[axis]);
            filter == stride
                && (filter == 1 || shape.dilations[axis] == 1)
                && shape.padding[axis] == 0
                && shape.output[axis] == shape.input[axis] * stride
        };
        shape.channels_last && shape.groups == 1 && along(0) && along(1)
    }

    /// Plans the transposed convolution.
    pub fn new(isa: Isa, threads: usize, shape: &ConvTranspose2dShape) -> Disjoint {
        let cutting = cutting(shape);
        Disjoint { isa, threads, cutting, grid: cutting.grid(isa, threads), channels: shape.channels[1] }
    }

    /// Plans images of other sizes with the same filter.
    pub fn resize(&mut self, shape: &ConvTranspose2dShape) {
        self.cutting = cutting(shape);
        self.grid = self.cutting.grid(self.isa, self.threads);
    }

    /// Scratch length in `f32` elements that [`run`](Self::run) needs: the bias under each column, and the scratch of
    /// each thread.
    pub fn scratch_len(&self) -> usize {
        self.cutting.size[1].next_multiple_of(16) + self.threads * self.cutting.scratch_len(self.isa, &self.grid)
    }

    /// Computes the transposed convolution of `input`. `filter` has the panels of each filter row, whose columns are
    /// pairs of tap and output channel, channels innermost; `bias` has one element per output channel.
    ///
    /// # Panics
    /// If there are too few elements.
    pub fn run(
        &self,
        env: &Env,
        (input, filter): (&[f32], &[Panels]),
        bias: Option<&[f32]>,
        tail: Tail,
        out: &mut [f32],
        scratch: &mut [f32],
    ) {
        let Cutting { batches, size: [rows, cols, depth], .. } = self.cutting;
        let (biases, scratch) = scratch.split_at_mut(cols.next_multiple_of(16));
        let addend = bias.map(|bias| {
            for biases in biases[..cols].chunks_exact_mut(self.channels) {
                biases.copy_from_slice(&bias[..self.channels]);
            }
            Addend { data: &*biases, row_stride: 0, col_stride: 1, beta: 1.0 }
        });
        let epilogue = ProductEpilogue { alpha: 1.0, addend, tail };
        let matrices = Matrices { batches, batch_stride: rows * cols, rows, row_stride: cols, cols };
        let cost = batches * rows * cols * depth;
        Tiles::new(out, matrices, self.grid).share(env.threads, cost, scratch, |tile, scratch| {
            let (line, row) = (tile.batch / filter.len(), tile.batch % filter.len());
            let data = Floats::F32(&input[line * rows * depth..]);
            let product = Product {
                isa: self.isa,
                depth,
                rows: Rows::Matrix(Matrix::Strided(StridedMatrix { data, lane_stride: depth, depth_stride: 1 })),
                columns: Columns::Panels(&filter[row]),
            };
            product.compute(tile, &epilogue, scratch);
        });
    }
}

fn cutting(shape: &ConvTranspose2dShape) -> Cutting {
    let ([depth, channels], [high, wide]) = (shape.channels, shape.filter);
    Cutting {
        batches: shape.batches * shape.input[0] * high,
        size: [shape.input[1], wide * channels, depth],
        copies_rows: false,
        packs_columns: false,
        rereads: true,
    }
}
