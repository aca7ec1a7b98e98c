//! Direct convolution with channels first.

use super::super::Env;
use super::shape::{Call, Conv2dShape};
use crate::cpu::kernels::planes::{Planes, Rows, Sums, Window, blocks, copy_rows, most_outputs, pack_filter};
use crate::cpu::schedule::partition::{Cut, Grid, parts_of_images};
use crate::cpu::schedule::tiles::{Tile, Tiles};
use crate::cpu::simd::Isa;
use crate::memory::{Buffer, elements};
use std::sync::Arc;

/// Minimum pixels of a strip of an image, for which all weights are read: fewer are left to products.
const MIN_PIXELS: usize = 96;

/// The same of a whole image, which needs no copies of rows.
const MIN_WHOLE: usize = 32;

/// A convolution from padded planes.
pub(super) struct DirectPlanes {
    isa: Isa,
    threads: usize,
    planes: Planes,
    /// The most output rows of a strip.
    rows: usize,
    /// How the output rows of an image are cut; a single row is cut into columns.
    strips: Cut,
    /// How the output channels of a group are cut, into whole blocks.
    outputs: Cut,
    /// The filter in the kernel's layout, once it is packed.
    pub(super) weights: Option<Arc<Buffer>>,
}

impl DirectPlanes {
    /// Plans the convolution; `None` if products are as good, or the planes of a strip are large.
    pub(super) fn new(isa: Isa, threads: usize, shape: &Conv2dShape) -> Option<DirectPlanes> {
        let ([channels, outputs], [high, wide]) = (shape.group(), shape.output);
        if shape.channels_last || shape.is_pointwise() {
            return None;
        }
        let window = shape.window();
        let (count, unit, most) = match high {
            1 => (wide, 1, Planes::most_columns(&window, channels)),
            _ => (high, wide, Planes::most_rows(&window, channels, high)),
        };
        let least = if most < count { MIN_PIXELS } else { MIN_WHOLE };
        if most == 0 || (channels > 1 && most.min(count) * unit < least) {
            return None;
        }
        let spread = parts_of_images(shape.batches * shape.groups, threads);
        let most_strips = if channels > 1 || high == 1 { (high * wide / MIN_PIXELS).max(1) } else { high };
        let strips = Cut::new(count, 1, spread.min(most_strips).max(count.div_ceil(most)));
        let outputs = Cut::new(outputs, most_outputs(isa), spread.div_ceil(strips.parts()));
        let [rows, out_cols] = if high == 1 { [1, strips.largest()] } else { [strips.largest(), wide] };
        let planes = Planes::new(Window { out_cols, ..window }, channels, rows);
        Some(DirectPlanes { isa, threads, planes, rows, strips, outputs, weights: None })
    }

    /// Length of the filter in the kernel's layout, in floats.
    pub(super) fn weights_len(shape: &Conv2dShape) -> usize {
        shape.channels[1] * shape.group()[0] * shape.filter[0] * shape.filter[1]
    }

    pub(super) fn pack(&self, shape: &Conv2dShape, filter: &[f32], out: &mut [f32]) {
        let ([o, i, row, col], [_, wide]) = (shape.filter_strides(), shape.filter);
        let ([_, outputs], taps) = (shape.group(), shape.filter[0] * wide);
        let depth = self.planes.depth();
        for (group, out) in out.chunks_exact_mut(outputs * depth).enumerate() {
            let weight = |output: usize, depth: usize| {
                let (channel, tap) = (depth / taps, depth % taps);
                filter[(group * outputs + output) * o + channel * i + tap / wide * row + tap % wide * col]
            };
            pack_filter(self.isa, [outputs, depth], weight, out);
        }
    }

    /// The [scratch lengths](Planes::scratch_parts) of a thread.
    fn slot_parts(&self) -> [usize; 2] {
        self.planes.scratch_parts(self.isa, self.rows)
    }

    /// Scratch length in floats of all threads and of a filter that is not packed in advance.
    pub(super) fn scratch_len(&self, shape: &Conv2dShape) -> usize {
        let unpacked = if self.weights.is_some() { 0 } else { Self::weights_len(shape) };
        unpacked + self.slot_parts().iter().sum::<usize>() * self.threads
    }

    /// See [`Conv2dStep::run`](super::Conv2dStep::run).
    pub(super) fn run(&self, env: &Env, shape: &Conv2dShape, call: Call, out: &mut [f32], scratch: &mut [f32]) {
        let (weights, scratch) = match &self.weights {
            Some(weights) => (elements::<f32>(weights.bytes()), scratch),
            None => {
                let (weights, scratch) = scratch.split_at_mut(Self::weights_len(shape));
                self.pack(shape, call.raw_filter(), weights);
                (&weights[..], scratch)
            }
        };
        let matrices = shape.matrices();
        let unit = if shape.output[0] == 1 { 1 } else { shape.output[1] };
        let grid = Grid { rows: self.outputs, cols: self.strips.scaled(unit) };
        let work = matrices.batches * matrices.rows * matrices.cols * self.planes.depth();
        Tiles::new(out, matrices, grid).share(env.threads, work, scratch, |tile, scratch| {
            self.tile(shape, &call, weights, tile, scratch);
        });
    }

    /// Computes some rows of some output channels of a group.
    fn tile(&self, shape: &Conv2dShape, call: &Call, weights: &[f32], tile: &mut Tile<f32>, scratch: &mut [f32]) {
        let ([channels, outputs], depth, cols) = (shape.group(), self.planes.depth(), tile.cols.clone());
        let [for_planes, for_sums] = self.slot_parts();
        let (image, scratch) = scratch.split_at_mut(for_planes);
        let sums = &mut scratch[..for_sums];
        let (rows, first, wide) = match shape.output {
            [1, _] => (0..1, cols.start, cols.len()),
            [_, wide] => (cols.start / wide..cols.end / wide, 0, wide),
        };
        // A group of an image follows that before it.
        let plane = shape.input[0] * shape.input[1];
        let from = &call.input[tile.batch * channels * plane..];
        let pixels = self.planes.pixels(rows.len());
        self.planes.fill(self.isa, (from, plane), (rows, first), image);
        let group = tile.batch % shape.groups * outputs;
        let weights = &weights[group * depth..][..outputs * depth];
        let bias = |output: usize| call.bias.and_then(|bias| bias.get(group + output)).copied().unwrap_or(0.0);
        if outputs == 1 && self.planes.suits_rows(self.isa) {
            let (bias, offset, out) = (bias(0), tile.offset(0), tile.row(0));
            self.isa.run(Rows { planes: &self.planes, image, weights, bias, wide, out: &mut *out });
            return call.tail.apply(self.isa, offset, out);
        }
        let own = tile.rows.clone();
        blocks(self.isa, outputs, |block| {
            if !own.contains(&block.start) {
                return;
            }
            let weights = &weights[block.start * depth..block.end * depth];
            let (outputs, bias) = (block.len(), std::array::from_fn(|index| bias(block.start + index)));
            self.isa.run(Sums { planes: &self.planes, image, weights, outputs, bias, pixels, out: &mut *sums });
            for (sums, output) in sums.chunks_exact(Sums::stride(pixels)).zip(block) {
                let (offset, out) = (tile.offset(output - own.start), tile.row(output - own.start));
                copy_rows(self.isa, sums, self.planes.row_stride(), wide, out);
                call.tail.apply(self.isa, offset, out);
            }
        });
    }
}
