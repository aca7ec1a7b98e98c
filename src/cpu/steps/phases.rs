//! Transposed convolution with channels first whose strides divide the filter: the outputs of each phase, a distance of
//! the strides apart, are a convolution of the image with every so many taps of the filter.
//!
//! The phases are computed as output channels of one convolution, and then put between each other.

use super::Env;
use super::convolution::ConvTranspose2dShape;
use crate::cpu::kernels::planes::{Planes, Sums, Window, blocks, pack_filter};
use crate::cpu::product::finish::Tail;
use crate::cpu::schedule::partition::{Cut, Grid, parts_of_images};
use crate::cpu::schedule::tiles::{Matrices, Tile, Tiles};
use crate::cpu::simd::Isa;
use crate::cpu::weights::{Staging, Weights};
use crate::error::Result;
use crate::memory::{Buffer, elements, elements_mut};
use std::sync::Arc;

/// A compiled transposed convolution: a convolution with an output channel for each phase.
pub struct Phases {
    isa: Isa,
    threads: usize,
    planes: Planes,
    /// How the output rows of an image are cut.
    strips: Cut,
    /// The filters of all phases, in the kernel's layout.
    pub weights: Arc<Buffer>,
}

/// The taps of an axis in a phase, and the outputs of a phase that padding cuts off at its begin.
fn axis(shape: &ConvTranspose2dShape, axis: usize) -> [usize; 2] {
    [shape.filter[axis] / shape.strides[axis], shape.padding[axis] / shape.strides[axis]]
}

/// The most rows of a phase whose copied planes stay in a cache: of a single one, two are needed for any strip.
fn most_rows(shape: &ConvTranspose2dShape, window: &Window) -> usize {
    Planes::most_rows(window, shape.group()[0], shape.output[0].max(2))
}

/// The window of a phase.
fn window(shape: &ConvTranspose2dShape) -> Window {
    let (axes, [_, row, col]) = ([axis(shape, 0), axis(shape, 1)], shape.input_strides());
    Window {
        size: shape.input,
        strides: [row, col],
        out_cols: (shape.output[1] - 1 + shape.padding[1]) / shape.strides[1] + 1 - axes[1][1],
        filter: axes.map(|[taps, _]| taps),
        step: [1, 1],
        dilation: [1, 1],
        padding: axes.map(|[taps, cut]| taps - 1 - cut),
    }
}

impl Phases {
    /// Whether a transposed convolution is computed like this.
    pub fn fits(shape: &ConvTranspose2dShape) -> bool {
        let along = |index: usize| {
            let ([taps, cut], filter) = (axis(shape, index), shape.filter[index]);
            filter.is_multiple_of(shape.strides[index])
                && (filter == 1 || shape.dilations[index] == 1)
                && cut < taps
                && shape.output[index] > 0
        };
        !shape.channels_last && along(0) && along(1) && most_rows(shape, &window(shape)) > 1
    }

    /// Packs the filter, and plans the transposed convolution if it [fits](Self::fits).
    ///
    /// # Errors
    /// As [`Conv2dStep::prepack`](super::conv2d::Conv2dStep::prepack).
    pub fn new(isa: Isa, threads: usize, shape: &ConvTranspose2dShape, filter: Weights) -> Result<Phases> {
        let ([channels, outputs], [o, i, row, col]) = (shape.group(), shape.filter_strides());
        let ([high, wide], [down, right]) = ([axis(shape, 0)[0], axis(shape, 1)[0]], shape.strides);
        let floats = shape.channels[0] * outputs * shape.filter[0] * shape.filter[1];
        let (lanes, depth) = (outputs * down * right, channels * high * wide);
        let form = ("phases", isa.name(), [o, i, row, col], shape.filter, shape.strides, shape.channels, outputs);
        let weights = filter.packed(&form, &[], floats * size_of::<f32>(), |out| {
            let mut staging = Staging::default();
            let filter = filter.piece(0..floats, &mut staging)?;
            for (group, out) in elements_mut(out).chunks_exact_mut(lanes * depth).enumerate() {
                let weight = |lane: usize, k: usize| {
                    let (output, phase) = (lane / (down * right), lane % (down * right));
                    let (channel, tap) = (group * channels + k / (high * wide), k % (high * wide));
                    // The first tap of a window is the last one of the filter.
                    let y = phase / right + (high - 1 - tap / wide) * down;
                    let x = phase % right + (wide - 1 - tap % wide) * right;
                    filter[output * o + channel * i + y * row + x * col]
                };
                pack_filter(isa, [lanes, depth], weight, out);
            }
            Ok(())
        })?;
        let (planes, strips) = plan(threads, shape);
        Ok(Phases { isa, threads, planes, strips, weights })
    }

    /// Plans images of other sizes with the same filter.
    pub fn resize(&mut self, shape: &ConvTranspose2dShape) {
        (self.planes, self.strips) = plan(self.threads, shape);
    }

    /// The [scratch lengths](Planes::scratch_parts) of a thread.
    fn slot_parts(&self, shape: &ConvTranspose2dShape) -> [usize; 2] {
        self.planes.scratch_parts(self.isa, rows_under(shape, self.strips))
    }

    /// Scratch length in floats that [`run`](Self::run) needs.
    pub fn scratch_len(&self, shape: &ConvTranspose2dShape) -> usize {
        self.slot_parts(shape).iter().sum::<usize>() * self.threads
    }

    /// Computes the transposed convolution of `input`; `bias` has one element per output channel.
    ///
    /// # Panics
    /// If there are too few elements.
    pub fn run(
        &self,
        env: &Env,
        shape: &ConvTranspose2dShape,
        (input, bias): (&[f32], Option<&[f32]>),
        tail: Tail,
        out: &mut [f32],
        scratch: &mut [f32],
    ) {
        let ([_, outputs], [high, wide]) = (shape.group(), shape.output);
        let (batches, pixels) = (shape.batches * shape.groups, high * wide);
        let matrices =
            Matrices { batches, batch_stride: outputs * pixels, rows: outputs, row_stride: pixels, cols: pixels };
        let grid = Grid { rows: Cut::whole(outputs), cols: self.strips.scaled(wide) };
        let cost = batches * outputs * pixels * self.planes.depth();
        Tiles::new(out, matrices, grid).share(env.threads, cost, scratch, |tile, scratch| {
            self.tile(shape, (input, bias), tile, scratch);
            (0..outputs).for_each(|row| tail.apply(self.isa, tile.offset(row), tile.row(row)));
        });
    }

    /// Computes some rows of all output channels of a group.
    fn tile(
        &self,
        shape: &ConvTranspose2dShape,
        (input, bias): (&[f32], Option<&[f32]>),
        tile: &mut Tile<f32>,
        scratch: &mut [f32],
    ) {
        let ([channels, outputs], wide, [down, right]) = (shape.group(), shape.output[1], shape.strides);
        let [for_planes, for_sums] = self.slot_parts(shape);
        let (image, scratch) = scratch.split_at_mut(for_planes);
        let (sums, ys) = (&mut scratch[..for_sums], tile.cols.start / wide..tile.cols.end / wide);
        let [top, left] = [0, 1].map(|axis| shape.padding[axis] % shape.strides[axis]);
        // Row `u` of a phase is row `u * down + phase - top` of the output.
        let us = (ys.start + top) / down..(ys.end - 1 + top) / down + 1;
        let plane = shape.input[0] * shape.input[1];
        self.planes.fill(self.isa, (&input[tile.batch * channels * plane..], plane), (us.clone(), 0), image);
        let (pixels, group) = (self.planes.pixels(us.len()), tile.batch % shape.groups * outputs);
        let (lanes, depth) = (outputs * down * right, self.planes.depth());
        let weights = &elements::<f32>(self.weights.bytes())[group * down * right * depth..][..lanes * depth];
        blocks(self.isa, lanes, |block| {
            let weights = &weights[block.start * depth..block.end * depth];
            let bias = std::array::from_fn(|lane| {
                bias.and_then(|bias| bias.get(group + (block.start + lane) / (down * right))).copied().unwrap_or(0.0)
            });
            let outputs = block.len();
            self.isa.run(Sums { planes: &self.planes, image, weights, outputs, bias, pixels, out: &mut *sums });
            for (sums, lane) in sums.chunks_exact(Sums::stride(pixels)).zip(block) {
                let (output, phase) = (lane / (down * right), lane % (down * right));
                let (out, [phase, column]) = (tile.row(output), [phase / right, phase % right]);
                // Padding may cut off the first column.
                let (skipped, first) = if column < left { (1, right + column - left) } else { (0, column - left) };
                for (u, sums) in us.clone().zip(sums.chunks(self.planes.row_stride())) {
                    let Some(y) = (u * down + phase).checked_sub(top).filter(|y| ys.contains(y)) else { continue };
                    let out = out[(y - ys.start) * wide..][..wide].iter_mut().skip(first).step_by(right);
                    out.zip(&sums[skipped..]).for_each(|(x, sum)| *x = *sum);
                }
            }
        });
    }
}

/// The most rows of a phase under a strip.
fn rows_under(shape: &ConvTranspose2dShape, strips: Cut) -> usize {
    (strips.largest() + shape.strides[0] - 2) / shape.strides[0] + 1
}

/// The layout of the planes under a strip of output rows, and the strips.
fn plan(threads: usize, shape: &ConvTranspose2dShape) -> (Planes, Cut) {
    let (window, high) = (window(shape), shape.output[0]);
    let most = (most_rows(shape, &window) - 1) * shape.strides[0];
    let spread = parts_of_images(shape.batches * shape.groups, threads);
    let strips = Cut::new(high, 1, spread.max(high.div_ceil(most)));
    let planes = Planes::new(window, shape.group()[0], rows_under(shape, strips));
    (planes, strips)
}
