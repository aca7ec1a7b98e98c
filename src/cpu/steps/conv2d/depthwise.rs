//! Depthwise convolution with channels last.

use super::super::Env;
use super::shape::{Call, Conv2dShape};
use crate::cpu::kernels::depthwise_pixels::{Pixels, expand, pack_filter, packed_len, padded_channels};
use crate::cpu::kernels::planes::Window;
use crate::cpu::product::finish::Tail;
use crate::cpu::schedule::partition::{Cut, Grid, parts_of_images};
use crate::cpu::schedule::tiles::{Matrices, Tile, Tiles};
use crate::cpu::simd::Isa;
use crate::memory::{Buffer, elements};
use std::ops::Range;
use std::sync::Arc;

/// Maximum output elements of a tile, 256 KiB: what the tile reads and writes stays in the second-level cache while a
/// few channels at a time are computed.
const TILE: usize = 1 << 16;

/// A depthwise convolution with vectors of channels.
pub(super) struct DepthwisePixels {
    isa: Isa,
    threads: usize,
    /// The window, with the strides of the image that the kernel reads.
    window: Window,
    /// Whether the kernel reads a copy of the image: with repeated channels, or padded to a vector.
    expands: bool,
    /// How the output rows of an image are cut.
    strips: Cut,
    /// The filter in the kernel's layout, once it is packed.
    pub(super) weights: Option<Arc<Buffer>>,
}

impl DepthwisePixels {
    pub(super) fn new(isa: Isa, threads: usize, shape: &Conv2dShape) -> DepthwisePixels {
        let channels = shape.channels[1];
        let stride = padded_channels(isa, channels);
        let expands = stride != shape.channels[0];
        let window = Window { strides: [shape.input[1] * stride, stride], ..shape.window() };
        let strips = parts_of_images(shape.batches, threads);
        let fitting = Cut::at_most(shape.output[0], 1, TILE / (channels * shape.output[1]));
        let strips = Cut::new(shape.output[0], 1, strips.max(fitting.parts()));
        DepthwisePixels { isa, threads, window, expands, strips, weights: None }
    }

    fn taps(&self) -> usize {
        self.window.filter[0] * self.window.filter[1]
    }

    /// Length of the filter in the kernel's layout, in floats.
    pub(super) fn weights_len(&self, shape: &Conv2dShape) -> usize {
        packed_len(self.isa, shape.channels[1], self.taps())
    }

    pub(super) fn pack(&self, shape: &Conv2dShape, filter: &[f32], out: &mut [f32]) {
        let ([o, _, row, col], wide) = (shape.filter_strides(), shape.filter[1]);
        let weight = |channel: usize, tap: usize| filter[channel * o + tap / wide * row + tap % wide * col];
        pack_filter(self.isa, shape.channels[1], self.taps(), weight, out);
    }

    /// Scratch lengths in floats: the copy of the image under a tile, and the bias.
    fn slot_parts(&self, shape: &Conv2dShape) -> [usize; 2] {
        let rows = self.window.rows_under(self.strips.largest()).min(self.window.size[0]);
        let image = if self.expands { rows * self.window.strides[0] } else { 0 };
        [image, padded_channels(self.isa, shape.channels[1])]
    }

    /// Scratch length in floats of all threads and of a filter that is not packed in advance.
    pub(super) fn scratch_len(&self, shape: &Conv2dShape) -> usize {
        let unpacked = if self.weights.is_some() { 0 } else { self.weights_len(shape) };
        unpacked + self.slot_parts(shape).iter().sum::<usize>() * self.threads
    }

    /// See [`Conv2dStep::run`](super::Conv2dStep::run).
    pub(super) fn run(&self, env: &Env, shape: &Conv2dShape, call: Call, out: &mut [f32], scratch: &mut [f32]) {
        let (weights, scratch) = match &self.weights {
            Some(weights) => (elements::<f32>(weights.bytes()), scratch),
            None => {
                let (weights, scratch) = scratch.split_at_mut(self.weights_len(shape));
                self.pack(shape, call.raw_filter(), weights);
                (&weights[..], scratch)
            }
        };
        // A tile is a contiguous part of one image.
        let row = shape.output[1] * shape.channels[1];
        let cols = shape.output[0] * row;
        let images = Matrices { batches: shape.batches, batch_stride: cols, rows: 1, row_stride: cols, cols };
        let grid = Grid { rows: Cut::whole(1), cols: Cut::new(cols, row, self.strips.parts()) };
        let work = shape.batches * cols * self.taps();
        Tiles::new(out, images, grid).share(env.threads, work, scratch, |tile, scratch| {
            let image = shape.channels[0] * shape.input[0] * shape.input[1];
            let call = Call { input: &call.input[tile.batch * image..], ..call };
            self.tile(shape, call, weights, tile, scratch);
        });
    }

    /// Computes some rows of one image, the input of `call`.
    fn tile(&self, shape: &Conv2dShape, call: Call, weights: &[f32], tile: &mut Tile<f32>, scratch: &mut [f32]) {
        let [for_image, for_bias] = self.slot_parts(shape);
        let (copy, scratch) = scratch.split_at_mut(for_image);
        let row = shape.output[1] * shape.channels[1];
        let rows = tile.cols.start / row..tile.cols.end / row;
        let (channels, padded) = (shape.channels[1], &mut scratch[..for_bias]);
        padded.fill(0.0);
        if let Some(bias) = call.bias {
            padded[..channels].copy_from_slice(&bias[..channels]);
        }
        let image = shape.channels[0] * shape.input[0] * shape.input[1];
        let image = &call.input[..image];
        let (image, top) = if self.expands { self.expanded(shape, image, &rows, copy) } else { (image, 0) };
        let offset = tile.offset(0);
        // Bounds must follow the residual.
        let (bounds, tail) = match call.tail {
            Tail { residual: None, clamp: Some(bounds), .. } => (bounds, Tail { clamp: None, ..call.tail }),
            tail => ([f32::NEG_INFINITY, f32::INFINITY], tail),
        };
        let (window, bias, out) = (&self.window, &*padded, tile.row(0));
        self.isa.run(Pixels { window, image, top, rows, channels, weights, bias, bounds, out: &mut *out });
        tail.apply(self.isa, offset, out);
    }

    /// The rows of `image` under the output rows `rows` in the kernel's layout, and the index of the first one.
    fn expanded<'s>(
        &self,
        shape: &Conv2dShape,
        image: &[f32],
        rows: &Range<usize>,
        copy: &'s mut [f32],
    ) -> (&'s [f32], usize) {
        let (w, [_, multiplier]) = (&self.window, shape.group());
        let row = shape.channels[0] * shape.input[1];
        let first = (rows.start * w.step[0]).saturating_sub(w.padding[0]).min(w.size[0]);
        let under = (rows.start * w.step[0] + w.rows_under(rows.len())).saturating_sub(w.padding[0]);
        let count = under.clamp(first, w.size[0]) - first;
        let copy = &mut copy[..count * w.strides[0]];
        expand(self.isa, &image[first * row..][..count * row], [shape.channels[1], multiplier, w.strides[1]], copy);
        (copy, first)
    }
}
