//! Convolution: `conv2d` of the draft.

use super::convolution::ConvolutionShape;
use super::{Env, ProductPlan, for_each_tile};
use crate::cpu::kernels::depthwise::{Padded, Window, convolve_channels};
use crate::cpu::kernels::float::{Float, narrow};
use crate::cpu::kernels::gemm::{Addend, Epilogue, Product, Tail, panel_widths};
use crate::cpu::kernels::im2col::{Im2col, PatchMatrix};
use crate::cpu::kernels::pack::{Operand, Strided};
use crate::cpu::kernels::packed::{Layout, Packed};
use crate::cpu::kernels::tiles::{Matrices, Slots, Tile, Tiles};
use crate::cpu::simd::Isa;
use crate::cpu::weights::{Staging, Weights};
use crate::error::Result;
use crate::memory::{Buffer, elements, elements_mut, share};
use crate::ops::conv2d::FilterLayout;
use std::borrow::Cow;
use std::sync::Arc;

/// The numbers of a convolution. Pairs are rows, then columns.
///
/// Padding is zeros that take part in the products: an infinite or NaN weight over them makes NaN. Depthwise
/// convolutions with channels last skip them.
pub type Conv2dShape = ConvolutionShape<FilterLayout>;

impl Conv2dShape {
    fn is_depthwise(&self) -> bool {
        self.group()[0] == 1 && self.groups > 1
    }

    /// Whether the patch matrix is the image itself.
    fn is_pointwise(&self) -> bool {
        self.filter == [1, 1] && self.strides == [1, 1] && self.padding == [0, 0] && self.input == self.output
    }

    /// Distance between output channels, input channels, rows and columns of the filter.
    fn filter_strides(&self) -> [usize; 4] {
        let ([i, _], o, [h, w]) = (self.group(), self.channels[1], self.filter);
        match self.layout {
            FilterLayout::Oihw => [i * h * w, h * w, w, 1],
            FilterLayout::Hwio => [1, o, w * i * o, i * o],
            FilterLayout::Ohwi => [h * w * i, 1, w * i, i],
            FilterLayout::Ihwo => [1, h * w * o, w * o, o],
        }
    }

    fn window(&self) -> Window {
        let [_, row, col] = self.input_strides();
        Window {
            size: self.input,
            strides: [row, col],
            out_cols: self.output[1],
            filter: self.filter,
            step: self.strides,
            dilation: self.dilations,
            padding: self.padding,
        }
    }

    /// The patches of one group.
    fn patches(&self) -> PatchMatrix {
        let [channel_stride, row, col] = self.input_strides();
        let taps = [0, 1].map(|axis| {
            let taps = 0..self.filter[axis];
            taps.map(|tap| (tap * self.dilations[axis]) as isize - self.padding[axis] as isize).collect()
        });
        PatchMatrix {
            channels: self.group()[0],
            channels_first: !self.channels_last,
            size: self.input,
            image_stride: self.channels[0] * self.input[0] * self.input[1],
            channel_stride,
            strides: [row, col],
            out: self.output,
            step: self.strides,
            taps,
        }
    }

    /// The filter as a matrix of the same depth order: each output channel is an image with a single patch.
    fn filter_matrix(&self) -> PatchMatrix {
        let [o, i, row, col] = self.filter_strides();
        PatchMatrix {
            channels: self.group()[0],
            channels_first: !self.channels_last,
            size: self.filter,
            image_stride: o,
            channel_stride: i,
            strides: [row, col],
            out: [1, 1],
            step: [1, 1],
            taps: self.filter.map(|size| (0..size as isize).collect()),
        }
    }

    /// The output of all groups.
    fn matrices(&self) -> Matrices {
        let ([_, group], pixels) = (self.group(), self.output[0] * self.output[1]);
        if self.channels_last {
            let (rows, row_stride) = (self.batches * pixels, self.channels[1]);
            Matrices { batches: self.groups, batch_stride: group, rows, row_stride, cols: group }
        } else {
            let batches = self.batches * self.groups;
            Matrices { batches, batch_stride: group * pixels, rows: group, row_stride: pixels, cols: pixels }
        }
    }
}

/// How the convolution is computed.
enum Method<T> {
    /// As a product of patches and filter (as matrices in this order) per group. With channels last the patches
    /// are on the left.
    Product { patches: Box<[PatchMatrix; 2]>, packed: Vec<Packed<T>>, plan: ProductPlan },
    /// Directly, with the filter in `f32` as `[channel][tap]`, or `[tap][channel]` with channels last.
    Depthwise { window: Window, weights: Option<Arc<Buffer>>, strip: usize },
}

/// A convolution, ready to run.
pub struct Conv2dStep<T> {
    shape: Conv2dShape,
    isa: Isa,
    threads: usize,
    method: Method<T>,
}

/// Output elements that a depthwise tile aims at: some ten microseconds of work.
const DEPTHWISE_TILE: usize = 8192;

/// The most floats of padded rows for a depthwise tile: 16 MiB per thread, a hundred times what usual strides and
/// dilations need. Padded rows grow with both, up to sizes that no memory holds; a product of patches does not.
const MAX_PADDED: usize = 1 << 22;

impl<T: Float> Conv2dStep<T> {
    /// Plans the convolution for `threads` threads at a level.
    pub fn new(isa: Isa, threads: usize, shape: Conv2dShape) -> Conv2dStep<T> {
        // A strip of rows of one plane, or a strip of pixels with all channels.
        let across = if shape.channels_last { shape.channels[1] } else { shape.output[1] };
        let strip = (DEPTHWISE_TILE / across).max(1).min(shape.depthwise_matrices().rows);
        let window = shape.window();
        let method = if shape.is_depthwise() && (shape.channels_last || window.scratch_len(strip) <= MAX_PADDED) {
            Method::Depthwise { window, weights: None, strip }
        } else {
            let patches = Box::new([shape.patches(), shape.filter_matrix()]);
            let plan = product_plan::<T>(isa, threads, &shape, patches[0].depth(), false);
            Method::Product { patches, packed: Vec::new(), plan }
        };
        Conv2dStep { shape, isa, threads, method }
    }

    /// Packs a constant filter; [`run`](Self::run) no longer reads its slice.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for the packed copy, an `OperationError` when mapped weights cannot be
    /// read.
    pub fn prepack(&mut self, data: Weights) -> Result<()> {
        let (shape, isa) = (&self.shape, self.isa);
        match &mut self.method {
            Method::Product { patches, packed, plan } => {
                let [patches, filter] = &**patches;
                let widths = panel_widths(isa);
                let width = if shape.channels_last { widths.cols } else { widths.rows };
                let lanes = shape.group()[1];
                *packed = (0..shape.groups)
                    .map(|group| {
                        let weights = data.skip(group_start(shape, filter, group));
                        let layout = Layout::Patches(Cow::Borrowed(filter));
                        Packed::new(isa, weights, layout, lanes, filter.depth(), width)
                    })
                    .collect::<Result<_>>()?;
                *plan = product_plan::<T>(isa, self.threads, shape, patches.depth(), true);
            }
            Method::Depthwise { weights, .. } => {
                let floats = shape.channels[1] * shape.filter[0] * shape.filter[1];
                let mut buffer = Buffer::zeroed(floats * size_of::<f32>())?;
                let mut staging = Staging::default();
                depthwise_weights::<T>(
                    shape,
                    data.piece(isa, 0..floats, &mut staging)?,
                    elements_mut(buffer.bytes_mut()),
                );
                *weights = Some(share(Arc::new(buffer)));
            }
        }
        Ok(())
    }

    /// The name of the kernel that computes it.
    pub fn kernel(&self) -> &'static str {
        match &self.method {
            Method::Product { .. } if self.shape.is_pointwise() => "conv2d gemm",
            Method::Product { .. } => "conv2d im2col",
            Method::Depthwise { .. } => "conv2d depthwise",
        }
    }

    /// The `f32` elements of scratch that [`run`](Self::run) needs.
    pub fn scratch_len(&self) -> usize {
        match &self.method {
            Method::Product { plan, .. } => plan.slot * self.threads,
            Method::Depthwise { weights, .. } => {
                let taps = self.shape.filter[0] * self.shape.filter[1];
                let unpacked = if weights.is_some() { 0 } else { self.shape.channels[1] * taps };
                unpacked + self.depthwise_slot() * self.threads
            }
        }
    }

    /// The memory of the packed filter.
    pub fn packed(&self) -> Vec<&Arc<Buffer>> {
        match &self.method {
            Method::Product { packed, .. } => packed.iter().map(Packed::buffer).collect(),
            Method::Depthwise { weights, .. } => weights.iter().collect(),
        }
    }

    /// Computes the convolution. The slice of a packed filter is not read and may be empty; `bias` has one
    /// element per output channel.
    ///
    /// # Panics
    /// If `env` is not what the step was planned for, or a slice is too short.
    pub fn run(
        &self,
        env: &Env,
        [input, filter]: [&[T]; 2],
        bias: Option<&[T]>,
        tail: Tail<T>,
        out: &mut [T],
        scratch: &mut [f32],
    ) {
        assert!(env.isa == self.isa && env.threads.count() <= self.threads);
        match &self.method {
            Method::Product { plan, .. } => {
                let tiles = Tiles::new(out, self.shape.matrices(), plan.rows, plan.cols);
                let slots = Slots::new(scratch, plan.slot, self.threads);
                for_each_tile(env, &tiles, &slots, plan.cost, |tile, slot| {
                    self.product(input, filter, bias, tail, tile, slot.floats);
                });
            }
            Method::Depthwise { window, weights, strip } => {
                let (weights, scratch) = match weights {
                    Some(weights) => (elements::<f32>(weights.bytes()), scratch),
                    None => {
                        let taps = self.shape.filter[0] * self.shape.filter[1];
                        let (weights, scratch) = scratch.split_at_mut(self.shape.channels[1] * taps);
                        depthwise_weights(&self.shape, filter, weights);
                        (&weights[..], scratch)
                    }
                };
                let slots = Slots::new(scratch, self.depthwise_slot(), self.threads);
                let tiles = Tiles::new(out, self.shape.depthwise_matrices(), *strip, usize::MAX);
                let cost = strip * self.shape.depthwise_matrices().cols * weights.len() / self.shape.channels[1];
                for_each_tile(env, &tiles, &slots, cost, |tile, slot| {
                    let work = Depthwise { shape: &self.shape, window, weights, isa: self.isa };
                    if self.shape.channels_last {
                        work.pixels(input, bias, tail, tile, slot.floats);
                    } else {
                        work.rows(input, bias, tail, tile, slot.floats);
                    }
                });
            }
        }
    }

    fn product(
        &self,
        input: &[T],
        filter: &[T],
        bias: Option<&[T]>,
        tail: Tail<T>,
        tile: &mut Tile<T>,
        scratch: &mut [f32],
    ) {
        let (shape, Method::Product { patches, packed, .. }) = (&self.shape, &self.method) else {
            return;
        };
        let [patches, matrix] = &**patches;
        let [channels, out_channels] = shape.group();
        let (image, group) =
            if shape.channels_last { (0, tile.batch) } else { (tile.batch / shape.groups, tile.batch % shape.groups) };
        let image = &input[image * patches.image_stride + group * channels * patches.channel_stride..];
        let patches = match shape.is_pointwise() {
            true => Operand::Strided(Strided {
                data: image,
                lane_stride: patches.strides[1],
                depth_stride: patches.channel_stride,
            }),
            false => Operand::Im2col(Im2col { image, matrix: patches }),
        };
        let filter = match packed.get(group) {
            Some(packed) => Operand::Packed(packed),
            None => group_filter(shape, matrix, filter, group),
        };
        let (row_stride, col_stride) = if shape.channels_last { (0, 1) } else { (1, 0) };
        let addend = bias.map(|bias| Addend { data: &bias[group * out_channels..], row_stride, col_stride, beta: 1.0 });
        let epilogue = Epilogue { alpha: 1.0, addend, tail };
        let (a, b) = if shape.channels_last { (patches, filter) } else { (filter, patches) };
        Product { isa: self.isa, depth: matrix.depth(), a, b }.compute(tile, &epilogue, scratch);
    }

    /// Scratch floats per thread of a depthwise convolution: padded rows, and one run of sums.
    fn depthwise_slot(&self) -> usize {
        match &self.method {
            Method::Depthwise { window, strip, .. } if !self.shape.channels_last => {
                window.scratch_len(*strip) + self.shape.output[1]
            }
            _ => self.shape.channels[1],
        }
    }
}

impl Conv2dShape {
    /// The output as planes (or, with channels last, as pixels by channels) that a depthwise strip is cut from.
    fn depthwise_matrices(&self) -> Matrices {
        let ([high, wide], channels) = (self.output, self.channels[1]);
        if self.channels_last {
            let rows = self.batches * high * wide;
            Matrices { batches: 1, batch_stride: 0, rows, row_stride: channels, cols: channels }
        } else {
            let batches = self.batches * channels;
            Matrices { batches, batch_stride: high * wide, rows: high, row_stride: wide, cols: wide }
        }
    }
}

fn product_plan<T: Float>(
    isa: Isa,
    threads: usize,
    shape: &Conv2dShape,
    depth: usize,
    filter_packed: bool,
) -> ProductPlan {
    let m = shape.matrices();
    let packed = if shape.channels_last { [false, filter_packed] } else { [filter_packed, false] };
    ProductPlan::new::<T>(isa, threads, m.batches, [m.rows, depth, m.cols], packed)
}

/// The filter of one group, in the depth order of the patches.
fn group_filter<'a, T>(shape: &Conv2dShape, matrix: &'a PatchMatrix, filter: &'a [T], group: usize) -> Operand<'a, T> {
    Operand::Im2col(Im2col { image: &filter[group_start(shape, matrix, group)..], matrix })
}

/// Where the filter of one group starts.
fn group_start(shape: &Conv2dShape, matrix: &PatchMatrix, group: usize) -> usize {
    group * shape.group()[1] * matrix.image_stride
}

/// The weights as `[channel][tap]`, or `[tap][channel]` with channels last.
fn depthwise_weights<T: Float>(shape: &Conv2dShape, filter: &[T], out: &mut [f32]) {
    let ([o, _, row, col], channels) = (shape.filter_strides(), shape.channels[1]);
    let taps = shape.filter[0] * shape.filter[1];
    for channel in 0..channels {
        for tap in 0..taps {
            let at = if shape.channels_last { tap * channels + channel } else { channel * taps + tap };
            out[at] = filter[channel * o + tap / shape.filter[1] * row + tap % shape.filter[1] * col].to_f32();
        }
    }
}

/// A depthwise convolution at work.
struct Depthwise<'a> {
    shape: &'a Conv2dShape,
    window: &'a Window,
    weights: &'a [f32],
    isa: Isa,
}

impl Depthwise<'_> {
    /// Rows of one plane.
    fn rows<T: Float>(&self, input: &[T], bias: Option<&[T]>, tail: Tail<T>, tile: &mut Tile<T>, scratch: &mut [f32]) {
        let shape = self.shape;
        let (image, channel) = (tile.batch / shape.channels[1], tile.batch % shape.channels[1]);
        let plane = image * shape.channels[0] + channel / shape.group()[1];
        let plane = &input[plane * shape.input[0] * shape.input[1]..];
        let (sums, scratch) = scratch.split_at_mut(shape.output[1]);
        let padded = Padded::fill(self.isa, self.window, plane, tile.rows.clone(), scratch);
        let taps = shape.filter[0] * shape.filter[1];
        let weights = &self.weights[channel * taps..][..taps];
        let addend = bias.map(|bias| Addend { data: &bias[channel..], row_stride: 0, col_stride: 0, beta: 1.0 });
        let epilogue = Epilogue { alpha: 1.0, addend, tail };
        for row in 0..tile.rows.len() {
            self.store(&epilogue, tile.offset(row), tile.row(row), sums, |out| {
                padded.convolve(self.isa, row, weights, out)
            });
        }
    }

    /// Pixels of any images, with all channels.
    fn pixels<T: Float>(&self, input: &[T], bias: Option<&[T]>, tail: Tail<T>, tile: &mut Tile<T>, sums: &mut [f32]) {
        let shape = self.shape;
        let [high, wide] = shape.output;
        let addend = bias.map(|data| Addend { data, row_stride: 0, col_stride: 1, beta: 1.0 });
        let epilogue = Epilogue { alpha: 1.0, addend, tail };
        let first = tile.rows.start;
        for row in 0..tile.rows.len() {
            let pixel = first + row;
            let image = pixel / (high * wide) * shape.channels[0] * shape.input[0] * shape.input[1];
            let place = [pixel / wide % high, pixel % wide];
            self.store(&epilogue, tile.offset(row), tile.row(row), sums, |out| {
                let multiplier = shape.group()[1];
                convolve_channels(self.isa, self.window, &input[image..], place, self.weights, multiplier, out);
            });
        }
    }

    /// Lets `compute` write a run of sums, in place when the output is `f32`, and finishes it.
    fn store<T: Float>(
        &self,
        epilogue: &Epilogue<T>,
        offset: usize,
        out: &mut [T],
        sums: &mut [f32],
        compute: impl FnOnce(&mut [f32]),
    ) {
        if let Some(out) = T::as_f32_mut(out) {
            compute(out);
            return epilogue.apply(self.isa, [0, 0], offset, out);
        }
        let sums = &mut sums[..out.len()];
        compute(sums);
        epilogue.apply(self.isa, [0, 0], offset, sums);
        narrow(self.isa, sums, out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use half::f16;
    use proptest::prelude::*;

    /// The formula in `f64`: the value and the sum of magnitudes of each output.
    fn reference<T: Float>(s: &Conv2dShape, input: &[T], filter: &[T], bias: Option<&[T]>) -> Vec<(f64, f64)> {
        let ([ic, row, col], f) = (s.input_strides(), s.filter_strides());
        let ([gi, go], [oh, ow]) = (s.group(), s.output);
        let mut out = vec![(0.0, 0.0); s.batches * s.channels[1] * oh * ow];
        for n in 0..s.batches {
            for o in 0..s.channels[1] {
                for (y, x) in (0..oh).flat_map(|y| (0..ow).map(move |x| (y, x))) {
                    let start = bias.map_or(0.0, |bias| bias[o].to_f32() as f64);
                    let (mut sum, mut magnitude) = (start, start.abs());
                    for (ty, tx) in (0..s.filter[0]).flat_map(|ty| (0..s.filter[1]).map(move |tx| (ty, tx))) {
                        let iy = (y * s.strides[0] + ty * s.dilations[0]) as isize - s.padding[0] as isize;
                        let ix = (x * s.strides[1] + tx * s.dilations[1]) as isize - s.padding[1] as isize;
                        if iy < 0 || ix < 0 || iy >= s.input[0] as isize || ix >= s.input[1] as isize {
                            continue;
                        }
                        for i in 0..gi {
                            let channel = o / go * gi + i;
                            let image = n * s.channels[0] * s.input[0] * s.input[1];
                            let x = input[image + channel * ic + iy as usize * row + ix as usize * col].to_f32() as f64
                                * filter[o * f[0] + i * f[1] + ty * f[2] + tx * f[3]].to_f32() as f64;
                            sum += x;
                            magnitude += x.abs();
                        }
                    }
                    let at = if s.channels_last {
                        ((n * oh + y) * ow + x) * s.channels[1] + o
                    } else {
                        ((n * s.channels[1] + o) * oh + y) * ow + x
                    };
                    out[at] = (sum, magnitude);
                }
            }
        }
        out
    }

    fn check<T: Float>(shape: &Conv2dShape) {
        let [gi, _] = shape.group();
        let taps = shape.filter[0] * shape.filter[1];
        let input = random::<T>(shape.batches * shape.channels[0] * shape.input[0] * shape.input[1], 1);
        let filter = random::<T>(shape.channels[1] * gi * taps, 2);
        let bias = random::<T>(shape.channels[1], 3);
        for (bias, packed) in [(None, false), (Some(&bias[..]), true)] {
            let exact = reference(shape, &input, &filter, bias);
            let doubled: Vec<_> = exact.iter().map(|&(x, m)| (2.0 * x, 2.0 * m)).collect();
            let run = |env: &Env| {
                let mut step = Conv2dStep::<T>::new(env.isa, env.threads.count(), shape.clone());
                if packed {
                    step.prepack(Weights::of_slice(&filter)).unwrap();
                }
                let mut out = vec![T::from_f32(f32::NAN); exact.len()];
                let mut scratch = vec![f32::NAN; step.scratch_len()];
                let double = |_: usize, xs: &mut [f32]| xs.iter_mut().for_each(|x| *x *= 2.0);
                let operands = [&input[..], if packed { &[] } else { &filter }];
                step.run(env, operands, bias, Tail { finish: Some(&double), ..Tail::NONE }, &mut out, &mut scratch);
                out
            };
            on_all(run, |env, out| {
                assert_sums(out, &doubled, gi * taps + 1, || {
                    format!("{shape:?}, packed {packed}, {:?}, {} threads", env.isa, env.threads.count())
                });
            });
        }
    }

    /// A shape with the output size that the other numbers give.
    fn shape(
        channels: [usize; 2],
        groups: usize,
        input: [usize; 2],
        filter: [usize; 2],
        strides: [usize; 2],
        dilations: [usize; 2],
        [top, bottom, left, right]: [usize; 4],
    ) -> Option<Conv2dShape> {
        let size = |axis: usize, padding: usize| {
            let reach = (filter[axis] - 1) * dilations[axis] + 1;
            (input[axis] + padding).checked_sub(reach).map(|free| free / strides[axis] + 1)
        };
        Some(Conv2dShape {
            batches: 2,
            groups,
            channels,
            input,
            filter,
            output: [size(0, top + bottom)?, size(1, left + right)?],
            strides,
            dilations,
            padding: [top, left],
            channels_last: false,
            layout: FilterLayout::Oihw,
        })
    }

    const LAYOUTS: [FilterLayout; 4] = [FilterLayout::Oihw, FilterLayout::Hwio, FilterLayout::Ohwi, FilterLayout::Ihwo];

    #[test]
    fn layouts_groups_and_edges() {
        let cases = [
            shape([3, 5], 1, [7, 9], [3, 3], [1, 1], [1, 1], [1; 4]),
            shape([4, 6], 1, [5, 5], [1, 1], [1, 1], [1, 1], [0; 4]),
            shape([4, 6], 1, [6, 5], [1, 1], [2, 2], [1, 1], [0; 4]),
            shape([4, 6], 2, [8, 20], [3, 2], [2, 3], [2, 1], [0, 3, 2, 1]),
            shape([5, 5], 5, [9, 70], [3, 3], [1, 1], [1, 1], [1; 4]),
            shape([70, 70], 70, [5, 6], [3, 3], [2, 2], [1, 1], [1, 0, 0, 1]),
            shape([3, 6], 3, [9, 8], [2, 3], [1, 2], [2, 3], [2, 1, 4, 3]),
            shape([1, 33], 1, [8, 8], [5, 5], [1, 1], [1, 1], [9, 9, 9, 9]),
            shape([35, 14], 1, [4, 40], [3, 3], [1, 1], [1, 1], [1; 4]),
        ];
        for base in cases.into_iter().flatten() {
            for channels_last in [false, true] {
                for layout in LAYOUTS {
                    check::<f32>(&Conv2dShape { channels_last, layout, ..base.clone() });
                }
                check::<f16>(&Conv2dShape { channels_last, ..base.clone() });
            }
        }
    }

    #[test]
    fn steps_and_dilations_that_no_memory_has_room_for() {
        // One tap lies in the image. Padded rows would take 2^63 floats, twice which is 0 modulo 2^64.
        let far = i32::MAX as usize;
        let base = shape([2, 2], 2, [1, 1], [2, 1], [1, 1 << 28], [far, 1], [far, 0, 0, 0]).unwrap();
        for channels_last in [false, true] {
            check::<f32>(&Conv2dShape { channels_last, ..base.clone() });
        }
    }

    #[test]
    fn large_enough_for_threads() {
        let base = shape([32, 40], 1, [20, 20], [3, 3], [1, 1], [1, 1], [1; 4]).unwrap();
        let deep = shape([48, 48], 48, [40, 40], [3, 3], [1, 1], [1, 1], [1; 4]).unwrap();
        for channels_last in [false, true] {
            check::<f32>(&Conv2dShape { channels_last, ..base.clone() });
            check::<f32>(&Conv2dShape { channels_last, ..deep.clone() });
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn random_shapes(
            (groups, gi, go) in (1usize..4, 1usize..6, 1usize..8),
            (h, w, kh, kw) in (1usize..12, 1usize..40, 1usize..4, 1usize..5),
            strides in any::<[bool; 2]>(),
            dilations in [1usize..3, 1usize..4],
            padding in [0usize..4, 0usize..4, 0usize..4, 0usize..4],
            (channels_last, layout) in (any::<bool>(), 0usize..4),
        ) {
            let strides = strides.map(|two| 1 + two as usize);
            let channels = [groups * gi, groups * go];
            if let Some(base) = shape(channels, groups, [h, w], [kh, kw], strides, dilations, padding) {
                check::<f32>(&Conv2dShape { channels_last, layout: LAYOUTS[layout], ..base });
            }
        }
    }
}
