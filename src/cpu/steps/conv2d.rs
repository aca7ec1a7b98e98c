//! Convolution: `conv2d` of the draft.

mod depthwise;
mod planes;
mod shape;
#[cfg(test)]
mod tests;
mod winograd;

pub use shape::Conv2dShape;

use super::Env;
use crate::cpu::kernels::float::Floats;
use crate::cpu::product::columns::Columns;
use crate::cpu::product::finish::{Addend, ProductEpilogue, Tail};
use crate::cpu::product::frame::{Cutting, Product};
use crate::cpu::product::matrix::{Matrix, PatchMatrix, Patches, StridedMatrix};
use crate::cpu::product::panels::{Layout, Panels};
use crate::cpu::product::rows::Rows;
use crate::cpu::product::tile::tile_size;
use crate::cpu::product::winograd::OutputTile;
use crate::cpu::schedule::partition::Grid;
use crate::cpu::schedule::tiles::{Tile, Tiles};
use crate::cpu::simd::Isa;
use crate::cpu::weights::{Staging, Weights};
use crate::error::Result;
use crate::memory::{Buffer, elements_mut};
use depthwise::DepthwisePixels;
use planes::DirectPlanes;
use shape::Call;
use std::borrow::Cow;
use std::sync::Arc;
use winograd::WinogradPlan;

/// How the convolution is computed.
enum Method {
    /// A product of patches and filter per group, as matrices in this order. With channels last, the patches are the
    /// left operand.
    Product { patches: Box<[PatchMatrix; 2]>, packed: Vec<Panels>, grid: Grid },
    /// Direct, with channels first.
    Planes(DirectPlanes),
    /// Direct and depthwise, with channels last.
    DepthwisePixels(DepthwisePixels),
    /// Winograd's algorithm with transformed filters, channels last.
    Winograd(WinogradPlan),
}

/// A compiled convolution.
pub struct Conv2dStep {
    shape: Conv2dShape,
    /// Whether results need operations that do not run in registers.
    finishes: bool,
    isa: Isa,
    threads: usize,
    method: Method,
}

/// Maximum floats of padded pixels for a depthwise tile: 16 MiB per thread, a hundred times what usual strides and
/// dilations need. Padded rows grow with both, beyond any memory; a product of patches does not.
const MAX_PADDED: usize = 1 << 22;

impl Conv2dStep {
    /// Plans the convolution for `threads` threads and an instruction set.
    pub fn new(isa: Isa, threads: usize, shape: Conv2dShape, finishes: bool) -> Conv2dStep {
        let pixels = DepthwisePixels::new(isa, threads, &shape);
        let method = if let Some(planes) = DirectPlanes::new(isa, threads, &shape) {
            Method::Planes(planes)
        } else if shape.is_depthwise() && shape.channels_last && pixels.scratch_len(&shape) <= threads * MAX_PADDED {
            Method::DepthwisePixels(pixels)
        } else {
            let patches = Box::new([shape.patches(), shape.filter_matrix()]);
            Method::Product { patches, packed: Vec::new(), grid: Grid::whole(0, 0) }
        };
        let mut step = Conv2dStep { shape, finishes, isa, threads, method };
        step.cut();
        step
    }

    /// Plans the convolution of images of other sizes with the same filter; `winograd` is the algorithm's tile for a
    /// constant filter. Returns `false` if the filter must be packed in another way.
    #[must_use]
    pub fn resize(&mut self, shape: Conv2dShape, winograd: Option<OutputTile>) -> bool {
        let of_filter = |shape: &Conv2dShape| (shape.groups, shape.channels, shape.filter, shape.channels_last);
        if of_filter(&shape) != of_filter(&self.shape) {
            return false;
        }
        let winograd = winograd.filter(|_| shape.fits_winograd());
        if let Method::Winograd(plan) = &mut self.method {
            let fits = winograd == Some(plan.tile());
            plan.resize(&shape);
            self.shape = shape;
            return fits;
        }
        let new = Conv2dStep::new(self.isa, self.threads, shape, self.finishes);
        let method = std::mem::replace(self, new).method;
        let fits = match (&mut self.method, method) {
            (Method::Product { packed, .. }, Method::Product { packed: old, .. }) => {
                *packed = old;
                self.cut();
                true
            }
            (Method::Planes(planes), Method::Planes(old)) => {
                planes.weights = old.weights;
                true
            }
            (Method::DepthwisePixels(pixels), Method::DepthwisePixels(old)) => {
                pixels.weights = old.weights;
                true
            }
            _ => false,
        };
        fits && winograd.is_none()
    }

    /// The properties that determine the tiles of a product, with filters that are packed, unless the list is empty.
    fn cutting(&self, patches: &PatchMatrix, packed: &[Panels]) -> Cutting {
        let (shape, matrices) = (&self.shape, self.shape.matrices());
        let (in_place, copies_filter) = (shape.is_pointwise(), packed.first().is_none_or(Panels::is_half));
        let [copies_rows, packs_columns] = match shape.channels_last {
            true => [!in_place, copies_filter],
            false => [copies_filter, true],
        };
        Cutting {
            batches: matrices.batches,
            size: [matrices.rows, matrices.cols, patches.depth()],
            copies_rows,
            packs_columns,
            rereads: self.finishes,
        }
    }

    /// Recomputes the tiles of a product.
    fn cut(&mut self) {
        if let Method::Product { patches, packed, .. } = &self.method {
            let new = self.cutting(&patches[0], packed).grid(self.isa, self.threads);
            let Method::Product { grid, .. } = &mut self.method else { return };
            *grid = new;
        }
    }

    /// Packs a constant filter, or transforms it for `winograd` if the shape [fits](Conv2dShape::fits_winograd).
    /// Afterwards, [`run`] does not read the filter's elements.
    ///
    /// [`run`]: Self::run
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for the packed copy, an `OperationError` if mapped weights
    /// cannot be read.
    pub fn prepack(&mut self, data: Weights, winograd: Option<OutputTile>) -> Result<()> {
        let (shape, isa) = (&self.shape, self.isa);
        if let Some(tile) = winograd.filter(|_| shape.fits_winograd()) {
            self.method = Method::Winograd(WinogradPlan::new(isa, self.threads, shape, tile, data)?);
            return Ok(());
        }
        match &mut self.method {
            Method::Product { patches, packed, .. } => {
                let filter = &patches[1];
                let width = if shape.channels_last { tile_size(isa).cols } else { 1 };
                let pack = |group| {
                    let weights = data.skip(group_start(shape, filter, group));
                    let layout = Layout::Patches(Cow::Borrowed(filter));
                    Panels::new(isa, weights, layout, shape.group()[1], filter.depth(), width)
                };
                *packed = (0..shape.groups).map(pack).collect::<Result<_>>()?;
                self.cut();
            }
            Method::Planes(planes) => {
                let floats = DirectPlanes::weights_len(shape);
                let form = ("planes", isa.name(), shape.filter_strides(), shape.filter, shape.channels, shape.groups);
                planes.weights = Some(data.packed(&form, &[], floats * size_of::<f32>(), |out| {
                    planes.pack(shape, data.piece(0..floats, &mut Staging::default())?, elements_mut(out));
                    Ok(())
                })?);
            }
            Method::DepthwisePixels(pixels) => {
                let floats = shape.channels[1] * shape.filter[0] * shape.filter[1];
                let form = ("depthwise", isa.name(), shape.filter_strides(), shape.filter, shape.channels[1]);
                let bytes = pixels.weights_len(shape) * size_of::<f32>();
                pixels.weights = Some(data.packed(&form, &[], bytes, |out| {
                    pixels.pack(shape, data.piece(0..floats, &mut Staging::default())?, elements_mut(out));
                    Ok(())
                })?);
            }
            // The filter is transformed already.
            Method::Winograd(_) => {}
        }
        Ok(())
    }

    /// The kernel name.
    pub fn kernel(&self) -> &'static str {
        match &self.method {
            Method::Product { .. } if self.shape.is_pointwise() => "conv2d gemm",
            Method::Product { .. } => "conv2d im2col",
            Method::Planes(_) if !self.shape.is_depthwise() => "conv2d direct",
            Method::Planes(_) | Method::DepthwisePixels(_) => "conv2d depthwise",
            Method::Winograd(plan) => plan.kernel(),
        }
    }

    /// Scratch length in `f32` elements that [`run`](Self::run) needs.
    pub fn scratch_len(&self) -> usize {
        match &self.method {
            Method::Product { patches, packed, grid } => {
                self.cutting(&patches[0], packed).scratch_len(self.isa, grid) * self.threads
            }
            Method::Planes(planes) => planes.scratch_len(&self.shape),
            Method::DepthwisePixels(pixels) => pixels.scratch_len(&self.shape),
            Method::Winograd(plan) => plan.scratch_len(),
        }
    }

    /// The buffers of the packed filter.
    pub fn packed(&self) -> Vec<&Arc<Buffer>> {
        match &self.method {
            Method::Product { packed, .. } => packed.iter().map(Panels::buffer).collect(),
            Method::Planes(planes) => planes.weights.iter().collect(),
            Method::DepthwisePixels(pixels) => pixels.weights.iter().collect(),
            Method::Winograd(plan) => vec![&plan.weights],
        }
    }

    /// Computes the convolution of the input with the filter, which is not read if it is packed. `bias` has one element
    /// per output channel.
    ///
    /// # Panics
    /// If `env` differs from the one the step was planned for, or there are too few elements.
    pub fn run(
        &self,
        env: &Env,
        [input, filter]: [Option<&[f32]>; 2],
        bias: Option<&[f32]>,
        tail: Tail,
        out: &mut [f32],
        scratch: &mut [f32],
    ) {
        assert!(env.isa == self.isa && env.threads.count() <= self.threads);
        let call = Call { input: input.expect("the input of a convolution"), filter, bias, tail };
        let shape = &self.shape;
        match &self.method {
            Method::Product { patches, packed, grid } => {
                let matrices = shape.matrices();
                let work = matrices.batches * matrices.rows * matrices.cols * patches[0].depth();
                Tiles::new(out, matrices, *grid).share(env.threads, work, scratch, |tile, scratch| {
                    self.product(&call, patches, packed, tile, scratch);
                });
            }
            Method::Planes(planes) => planes.run(env, shape, call, out, scratch),
            Method::DepthwisePixels(pixels) => pixels.run(env, shape, call, out, scratch),
            Method::Winograd(plan) => plan.run(env, shape, call, out, scratch),
        }
    }

    fn product(
        &self,
        call: &Call,
        [patches, matrix]: &[PatchMatrix; 2],
        packed: &[Panels],
        tile: &mut Tile<f32>,
        scratch: &mut [f32],
    ) {
        let shape = &self.shape;
        let [channels, out_channels] = shape.group();
        let (image, group) =
            if shape.channels_last { (0, tile.batch) } else { (tile.batch / shape.groups, tile.batch % shape.groups) };
        let image = &call.input[image * patches.image_stride + group * channels * patches.channel_stride..];
        let lanes = match shape.is_pointwise() {
            true => Matrix::Strided(StridedMatrix {
                data: Floats::F32(image),
                lane_stride: patches.strides[1],
                depth_stride: patches.channel_stride,
            }),
            false => Matrix::Patches(Patches { image, matrix: patches }),
        };
        let raw = || {
            let image = &call.raw_filter()[group_start(shape, matrix, group)..];
            Matrix::Patches(Patches { image, matrix })
        };
        let (rows, columns) = match (shape.channels_last, packed.get(group)) {
            (true, panels) => (Rows::Matrix(lanes), panels.map_or_else(|| Columns::Matrix(raw()), Columns::Panels)),
            (false, panels) => (panels.map_or_else(|| Rows::Matrix(raw()), Rows::Panels), Columns::Matrix(lanes)),
        };
        let (row_stride, col_stride) = if shape.channels_last { (0, 1) } else { (1, 0) };
        let bias = call.bias.map(|bias| &bias[group * out_channels..]);
        let addend = bias.map(|data| Addend { data, row_stride, col_stride, beta: 1.0 });
        let epilogue = ProductEpilogue { alpha: 1.0, addend, tail: call.tail };
        Product { isa: self.isa, depth: matrix.depth(), rows, columns }.compute(tile, &epilogue, scratch);
    }
}

/// Where the filter of a group starts.
fn group_start(shape: &Conv2dShape, matrix: &PatchMatrix, group: usize) -> usize {
    group * shape.group()[1] * matrix.image_stride
}
