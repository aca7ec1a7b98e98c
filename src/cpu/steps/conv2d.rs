//! Convolution: `conv2d` of the draft.

mod depthwise;
mod patches;
#[cfg(test)]
mod tests;
mod winograd;

use super::convolution::ConvolutionShape;
use super::{Env, ProductPlan, for_each_tile};
use crate::cpu::kernels::depthwise::{Padded, Window};
use crate::cpu::kernels::float::{Float, narrow};
use crate::cpu::product::frame::{Addend, Epilogue, Product, Tail, panel_widths};
use crate::cpu::product::operand::{Operand, Strided};
use crate::cpu::product::panels::{Layout, Packed};
use crate::cpu::product::rows::{Im2col, PatchMatrix};
use crate::cpu::product::winograd::OutputTile;
use crate::cpu::schedule::tiles::{Matrices, Slots, Tile, Tiles};
use crate::cpu::simd::Isa;
use crate::cpu::weights::{Staging, Weights};
use crate::error::Result;
use crate::memory::{Buffer, elements, elements_mut, share};
use crate::ops::conv2d::FilterLayout;
use depthwise::DepthwisePixels;
use patches::PatchPlan;
use std::borrow::Cow;
use std::sync::Arc;
use winograd::WinogradPlan;

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

/// What a convolution reads, and what follows it.
#[derive(Clone, Copy)]
struct Call<'a, T> {
    input: &'a [T],
    /// Empty when it is packed.
    filter: &'a [T],
    bias: Option<&'a [T]>,
    tail: Tail<'a, T>,
}

/// How the convolution is computed.
enum Method<T> {
    /// As a product of patches and filter (as matrices in this order) per group. With channels last the patches
    /// are on the left.
    Product { patches: Box<[PatchMatrix; 2]>, packed: Vec<Packed<T>>, plan: ProductPlan },
    /// Directly, plane by plane, with the filter in `f32` as `[channel][tap]`.
    Depthwise { window: Window, weights: Option<Arc<Buffer>>, strip: usize },
    /// Directly, with channels last.
    DepthwisePixels(DepthwisePixels),
    /// As a product of copied patches and packed filters, with channels last.
    Patches(PatchPlan<T>),
    /// With transformed filters, with channels last.
    Winograd(WinogradPlan),
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
        let strip = (DEPTHWISE_TILE / shape.output[1]).max(1).min(shape.output[0]);
        let (window, pixels) = (shape.window(), DepthwisePixels::new::<T>(isa, threads, &shape));
        let planes = !shape.channels_last && window.scratch_len(strip) <= MAX_PADDED;
        let method = if shape.is_depthwise() && planes {
            Method::Depthwise { window, weights: None, strip }
        } else if shape.is_depthwise() && shape.channels_last && pixels.scratch_len::<T>(&shape) <= threads * MAX_PADDED
        {
            Method::DepthwisePixels(pixels)
        } else {
            let patches = Box::new([shape.patches(), shape.filter_matrix()]);
            let plan = product_plan::<T>(isa, threads, &shape, patches[0].depth(), false);
            Method::Product { patches, packed: Vec::new(), plan }
        };
        Conv2dStep { shape, isa, threads, method }
    }

    /// Plans the convolution of other images with the same filter; `winograd` is the algorithm for a constant one. `false` if
    /// the filter has to be packed in another way.
    #[must_use]
    pub fn resize(&mut self, shape: Conv2dShape, winograd: Option<OutputTile>) -> bool {
        let of_filter = |shape: &Conv2dShape| (shape.groups, shape.channels, shape.filter, shape.channels_last);
        if of_filter(&shape) != of_filter(&self.shape) {
            return false;
        }
        let (isa, threads) = (self.isa, self.threads);
        let winograd = winograd.filter(|_| shape.fits_winograd());
        if let Method::Winograd(plan) = &mut self.method {
            let fits = winograd == Some(plan.tile());
            plan.resize::<T>(&shape);
            self.shape = shape;
            return fits;
        }
        let Conv2dStep { shape, method, .. } = Conv2dStep::<T>::new(isa, threads, shape);
        let copies_patches = shape.channels_last && !shape.is_pointwise();
        let fits = match (&mut self.method, method) {
            (Method::Product { patches, packed, plan }, Method::Product { patches: new, .. }) => {
                *plan = product_plan::<T>(isa, threads, &shape, new[0].depth(), !packed.is_empty());
                *patches = new;
                packed.is_empty() || !copies_patches
            }
            (Method::Patches(plan), Method::Product { patches, .. }) => {
                let [patches, _] = *patches;
                *plan = PatchPlan::new(isa, threads, &shape, patches, std::mem::take(&mut plan.filters));
                copies_patches
            }
            (Method::Depthwise { window, strip, .. }, Method::Depthwise { window: new, strip: new_strip, .. }) => {
                (*window, *strip) = (new, new_strip);
                true
            }
            (Method::DepthwisePixels(pixels), Method::DepthwisePixels(new)) => {
                let weights = std::mem::replace(pixels, new).weights;
                pixels.weights = weights;
                true
            }
            _ => false,
        };
        self.shape = shape;
        fits && winograd.is_none()
    }

    /// Packs a constant filter, or transforms it for `winograd`, if the shape [fits](Conv2dShape::fits_winograd); [`run`]
    /// no longer reads its slice.
    ///
    /// [`run`]: Self::run
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for the packed copy, an `OperationError` when mapped weights cannot be
    /// read.
    pub fn prepack(&mut self, data: Weights, winograd: Option<OutputTile>) -> Result<()> {
        let (shape, isa) = (&self.shape, self.isa);
        if let Some(tile) = winograd.filter(|_| shape.fits_winograd()) {
            self.method = Method::Winograd(WinogradPlan::new::<T>(isa, self.threads, shape, tile, data)?);
            return Ok(());
        }
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
                if shape.channels_last && !shape.is_pointwise() {
                    let filters = std::mem::take(packed);
                    let plan = PatchPlan::new(isa, self.threads, shape, patches.clone(), filters);
                    self.method = Method::Patches(plan);
                }
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
            Method::DepthwisePixels(pixels) => {
                let floats = shape.channels[1] * shape.filter[0] * shape.filter[1];
                let mut buffer = Buffer::zeroed(pixels.weights_len(shape) * size_of::<f32>())?;
                let mut staging = Staging::default();
                let filter = data.piece::<T>(isa, 0..floats, &mut staging)?;
                pixels.pack(shape, filter, elements_mut(buffer.bytes_mut()));
                pixels.weights = Some(share(Arc::new(buffer)));
            }
            // Packed before.
            Method::Patches(_) | Method::Winograd(_) => {}
        }
        Ok(())
    }

    /// The name of the kernel that computes it.
    pub fn kernel(&self) -> &'static str {
        match &self.method {
            Method::Product { .. } if self.shape.is_pointwise() => "conv2d gemm",
            Method::Product { .. } | Method::Patches(_) => "conv2d im2col",
            Method::Depthwise { .. } | Method::DepthwisePixels(_) => "conv2d depthwise",
            Method::Winograd(plan) => plan.kernel(),
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
            Method::DepthwisePixels(pixels) => pixels.scratch_len::<T>(&self.shape),
            Method::Patches(plan) => plan.scratch_len(),
            Method::Winograd(plan) => plan.scratch_len(),
        }
    }

    /// The memory of the packed filter.
    pub fn packed(&self) -> Vec<&Arc<Buffer>> {
        match &self.method {
            Method::Product { packed, .. } => packed.iter().map(Packed::buffer).collect(),
            Method::Depthwise { weights, .. } => weights.iter().collect(),
            Method::DepthwisePixels(pixels) => pixels.weights.iter().collect(),
            Method::Patches(plan) => plan.filters.iter().map(Packed::buffer).collect(),
            Method::Winograd(plan) => vec![&plan.weights],
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
                    work.rows(input, bias, tail, tile, slot.floats);
                });
            }
            Method::DepthwisePixels(pixels) => {
                pixels.run(env, &self.shape, Call { input, filter, bias, tail }, out, scratch);
            }
            Method::Patches(plan) => {
                plan.run(env, &self.shape, Call { input, filter, bias, tail }, out, scratch);
            }
            Method::Winograd(plan) => {
                plan.run(env, &self.shape, Call { input, filter, bias, tail }, out, scratch);
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
            Method::Depthwise { window, strip, .. } => window.scratch_len(*strip) + self.shape.output[1],
            _ => 0,
        }
    }
}

impl Conv2dShape {
    /// The output as planes that a depthwise strip is cut from.
    fn depthwise_matrices(&self) -> Matrices {
        let ([high, wide], channels) = (self.output, self.channels[1]);
        let batches = self.batches * channels;
        Matrices { batches, batch_stride: high * wide, rows: high, row_stride: wide, cols: wide }
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

/// The weights as `[channel][tap]`.
fn depthwise_weights<T: Float>(shape: &Conv2dShape, filter: &[T], out: &mut [f32]) {
    let ([o, _, row, col], channels) = (shape.filter_strides(), shape.channels[1]);
    let taps = shape.filter[0] * shape.filter[1];
    for channel in 0..channels {
        for tap in 0..taps {
            out[channel * taps + tap] =
                filter[channel * o + tap / shape.filter[1] * row + tap % shape.filter[1] * col].to_f32();
        }
    }
}

/// A depthwise convolution of planes at work.
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
