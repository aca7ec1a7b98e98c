//! Convolution by Winograd's algorithm: when it pays, and how its output is cut into tiles.

use super::super::Env;
use super::shape::{Call, Conv2dShape};
use crate::cpu::costs::MULTIPLY_ADD;
use crate::cpu::product::panels::Layout;
use crate::cpu::product::tile::tile_size;
use crate::cpu::product::winograd::{Filters, OutputTile, Winograd};
use crate::cpu::schedule::partition::{Cut, Grid, Shape, partition};
use crate::cpu::schedule::tiles::{Matrices, Tiles};
use crate::cpu::simd::Isa;
use crate::cpu::weights::{Staging, Weights};
use crate::error::Result;
use crate::memory::{Buffer, elements, elements_mut};
use std::borrow::Cow;
use std::sync::Arc;

/// Minimum number of input and output channels: one vector of each.
const MIN_CHANNELS: usize = 16;

/// Minimum rows and columns of the output. Tiles of smaller images are mostly padding, and a single infinite input
/// would reach all of their outputs.
const MIN_SIZE: usize = 4;

/// Cost of transforming an element, in multiply-adds of a product: about a sixth of a cycle.
const TRANSFORM_COST: f64 = 6.0;

/// Multiply-adds in the time of loading one byte of filters from the third-level cache: it delivers some 8 bytes per
/// cycle, in which a core does 32 multiply-adds.
const BYTE_COST: f64 = 4.0;

/// Multiply-adds per run that each additional byte of filters must save. F(4x4) instead of F(2x2) saves 17 on 28 x 28
/// pixels and 4 on 14 x 14; F(2x2) instead of direct sums saves 35 on 14 x 14 and 6 on 7 x 7.
const SAVED_PER_BYTE: f64 = 10.0;

/// Maximum growth of the filters of one convolution in bytes: the weights of a network with some dozen such layers then
/// grow by at most a sixth.
const MAX_GROWTH: f64 = (4 << 20) as f64;

/// Maximum bytes of transformed inputs and products per tile: they stay in a second-level cache of 2 MiB together with
/// the filters that pass through.
const TILE_BYTES: usize = 5 << 18;

/// The estimated cost of one run, as a time in multiply-adds of a product, and the bytes of the filters.
#[derive(Clone, Copy)]
struct Estimate {
    cost: f64,
    bytes: f64,
}

impl Conv2dShape {
    /// Whether Winograd's algorithm supports this convolution.
    pub fn fits_winograd(&self) -> bool {
        self.channels_last
            && self.groups == 1
            && self.filter == [3, 3]
            && self.strides == [1, 1]
            && self.dilations == [1, 1]
    }

    /// The estimate for a method with `products` products per pair of channels and run, and filters of `taps` values.
    fn estimate(&self, products: f64, taps: usize, transforms: f64) -> Estimate {
        let [inputs, outputs] = self.channels.map(|channels| channels as f64);
        let bytes = (taps * size_of::<f32>()) as f64 * inputs * outputs;
        Estimate { cost: (products * inputs * outputs).max(bytes * BYTE_COST) + transforms, bytes }
    }

    fn direct(&self) -> Estimate {
        let [rows, cols] = self.output.map(|size| size as f64);
        self.estimate(self.batches as f64 * rows * cols * 9.0, 9, 0.0)
    }

    fn transformed(&self, tile: OutputTile) -> Estimate {
        let [rows, cols] = self.output.map(|size| size.div_ceil(tile.size()) as f64);
        let products = self.batches as f64 * rows * cols * tile.positions() as f64;
        let channels = self.channels.iter().sum::<usize>() as f64;
        self.estimate(products, tile.positions(), products * channels * TRANSFORM_COST)
    }

    /// The best tile of the algorithm for this convolution; `None` if direct sums are better. Depends only on the
    /// shape.
    pub fn winograd(&self) -> Option<OutputTile> {
        let large = self.channels.iter().all(|&channels| channels >= MIN_CHANNELS)
            && self.output.iter().all(|&size| size >= MIN_SIZE);
        if !self.fits_winograd() || !large {
            return None;
        }
        let direct = self.direct();
        let (mut best, mut chosen) = (direct, None);
        for tile in [OutputTile::Two, OutputTile::Four] {
            let estimate = self.transformed(tile);
            let (saved, grown) = (best.cost - estimate.cost, estimate.bytes - best.bytes);
            if saved > grown * SAVED_PER_BYTE && estimate.bytes - direct.bytes <= MAX_GROWTH {
                (best, chosen) = (estimate, Some(tile));
            }
        }
        chosen
    }
}

/// Transformed filters, and how the output is cut.
pub(super) struct WinogradPlan {
    filters: Filters,
    pub(super) weights: Arc<Buffer>,
    /// The tiles of each image: rows are pixels, columns are channels.
    grid: Grid,
    /// Maximum pixel columns computed at once.
    cols: usize,
    slot: usize,
    threads: usize,
}

impl WinogradPlan {
    /// Transforms the filters and cuts the output for `threads` threads.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for the filters, an `OperationError` if mapped weights cannot be
    /// read.
    pub(super) fn new(
        isa: Isa,
        threads: usize,
        shape: &Conv2dShape,
        tile: OutputTile,
        data: Weights,
    ) -> Result<WinogradPlan> {
        let filters = Filters { isa, tile, channels: shape.channels };
        let (matrix, strides, outputs) = (shape.filter_matrix(), shape.filter_strides(), shape.channels[1]);
        let (depth, width) = (matrix.depth(), tile_size(isa).cols);
        let layout = Layout::Patches(Cow::Owned(matrix));
        let form = ("winograd", &layout, outputs, width, tile);
        let weights = data.packed(&form, &[], filters.floats() * size_of::<f32>(), |out| {
            let (out, mut staging) = (elements_mut(out), Staging::default());
            for piece in layout.pieces(outputs, depth, width, data.piece_len()) {
                let filter = data.piece(piece.elements, &mut staging)?;
                filters.fill(&data, piece.lanes, filter, strides, out);
            }
            Ok(())
        })?;
        let mut plan = WinogradPlan { filters, weights, grid: Grid::whole(0, 0), cols: 0, slot: 0, threads };
        plan.resize(shape);
        Ok(plan)
    }

    /// Cuts the output for images of other sizes with the same filters.
    pub(super) fn resize(&mut self, shape: &Conv2dShape) {
        (self.grid, self.cols) = cut(self.threads, shape, self.filters);
        let at_once = [self.grid.largest()[0] / shape.output[1], self.cols];
        self.slot = Winograd::scratch_len(self.filters, at_once).next_multiple_of(16);
    }

    /// The tile of the algorithm.
    pub(super) fn tile(&self) -> OutputTile {
        self.filters.tile
    }

    pub(super) fn kernel(&self) -> &'static str {
        match self.filters.tile {
            OutputTile::Two => "conv2d winograd 2x2",
            OutputTile::Four => "conv2d winograd 4x4",
        }
    }

    pub(super) fn scratch_len(&self) -> usize {
        self.slot * self.threads
    }

    /// See [`Conv2dStep::run`](super::Conv2dStep::run).
    pub(super) fn run(&self, env: &Env, shape: &Conv2dShape, call: Call, out: &mut [f32], scratch: &mut [f32]) {
        let ([high, wide], [from, to]) = (shape.output, shape.channels);
        let pixels = high * wide;
        let images =
            Matrices { batches: shape.batches, batch_stride: pixels * to, rows: pixels, row_stride: to, cols: to };
        let (filters, weights) = (self.filters, elements::<f32>(self.weights.bytes()));
        let conv = Winograd { filters, weights, input: shape.input, padding: shape.padding, wide, cols: self.cols };
        let image = shape.input[0] * shape.input[1] * from;
        let (input, work) = (call.input, shape.batches * pixels * to * from * 2);
        Tiles::new(out, images, self.grid).share(env.threads, work, scratch, |tile, scratch| {
            let image = &input[tile.batch * image..][..image];
            conv.compute(image, call.bias, call.tail, tile, scratch);
        });
    }
}

/// Bytes moved per element of the transformed input: the pixels, plus the equivalent of the transform's time.
const INPUT_BYTES: usize = 12;

/// The tiles of an image, and the maximum number of pixel columns computed at once, limited by the cache.
fn cut(threads: usize, shape: &Conv2dShape, filters: Filters) -> (Grid, usize) {
    let (size, positions, register) = (filters.tile.size(), filters.tile.positions(), tile_size(filters.isa));
    let [high, wide] = shape.output.map(|pixels| pixels.div_ceil(size));
    let most = (TILE_BYTES / (positions * (shape.channels[0] + register.cols) * size_of::<f32>())).max(1);
    let cols = wide.div_ceil(wide.div_ceil(most));
    let product = Shape {
        batches: shape.batches,
        size: [high * wide, shape.channels[1], shape.channels[0] * positions],
        tile: [register.rows, register.cols],
        unit: wide,
        most: [(most / cols).max(1) * wide, shape.channels[1]],
        area: usize::MAX,
        finishes: true,
        multiply_add: MULTIPLY_ADD,
        left_bytes: INPUT_BYTES,
        right_bytes: size_of::<f32>(),
    };
    let Grid { rows, cols: channels } = partition(&product, threads);
    let [high, wide] = shape.output;
    (Grid { rows: Cut::new(high * wide, size * wide, rows.parts()), cols: channels }, cols * size)
}
