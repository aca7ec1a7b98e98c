//! Products and convolutions of quantized tensors.

use super::conv2d::Conv2dShape;
use super::{Env, Run, dense};
use crate::cpu::costs::bytes_as_floats;
use crate::cpu::memory::Io;
use crate::cpu::product::formats::ByteFormat;
use crate::cpu::product::int8::depthwise::Depthwise;
use crate::cpu::product::int8::frame::{ByteCutting, BytePatches, ByteProduct};
use crate::cpu::product::int8::panels::{ByteColumns, BytePanels};
use crate::cpu::product::int8::{Rescale, To, to_bytes};
use crate::cpu::schedule::partition::{Cut, Grid};
use crate::cpu::schedule::tiles::{Matrices, Tiles};
use crate::cpu::simd::dot::DotLevel;
use crate::cpu::weights::Weights;
use crate::dtype::DataType;
use crate::error::Result;
use crate::ir::Constant;
use crate::memory::{Buffer, bytes_of_mut, elements, elements_mut};
use crate::ops::conv2d::Conv2dAttributes;
use crate::ops::quantized::{ProductKind, Quantized};
use crate::ops::spatial::slides;
use crate::shape::{Descriptor, strides};
use std::borrow::Cow;
use std::sync::Arc;

/// A product of quantized tensors with its constants packed.
pub struct QuantizedStep {
    method: QuantizedMethod,
    /// The rescaling of each group.
    columns: Vec<Rescale<'static>>,
    computed: Option<Computed>,
    /// The bits of the input to invert to give its bytes the sign of the format.
    flip: u8,
    /// The tiles of the output for up to `threads` threads; columns are counted in bytes.
    grid: Grid,
    threads: usize,
}

/// The part of the rescaling that depends on computed operands: initial sums of columns, and their scales.
struct Computed {
    /// The sum of each column.
    sums: Vec<i32>,
    /// Whether the zero point of the input is computed at run time.
    zero: bool,
    /// Whether there is a factor.
    factor: bool,
    /// Whether the format takes signed bytes.
    is_signed: bool,
}

/// The index of the zero point among the operands.
pub const ZERO: usize = 5;
/// The index of the factor.
pub const FACTOR: usize = 6;

impl Computed {
    /// Scratch length of [`columns`](Self::columns) in 4-byte elements: whole cache lines.
    fn scratch_len(&self) -> usize {
        (2 * self.sums.len()).next_multiple_of(16)
    }

    /// Updates `known` with the current values of the computed operands.
    fn columns<'a>(&self, known: &'a Rescale, flip: u8, io: &Io, scratch: &'a mut [f32]) -> Rescale<'a> {
        let (start, scale) = scratch[..2 * self.sums.len()].split_at_mut(self.sums.len());
        let start = elements_mut::<i32>(bytes_of_mut(start));
        match self.zero {
            false => start.copy_from_slice(&known.start),
            true => {
                let zero = io.input::<u8>(ZERO)[0] ^ flip;
                let zero = if self.is_signed { zero as i8 as i32 } else { zero as i32 };
                start.iter_mut().zip(&self.sums).for_each(|(start, sum)| *start = -zero * sum);
            }
        }
        scale.copy_from_slice(&known.scale);
        match if self.factor { io.input::<f32>(FACTOR) } else { &[1.0] } {
            [factor] => scale.iter_mut().for_each(|scale| *scale *= factor),
            factors => scale.iter_mut().zip(factors).for_each(|(scale, factor)| *scale *= factor),
        }
        let (zeros, bias) = (Cow::Borrowed(&*known.zeros), Cow::Borrowed(&*known.bias));
        Rescale { start: Cow::Borrowed(start), zeros, scale: Cow::Borrowed(scale), bias, to: known.to }
    }
}

/// How the product is computed.
enum QuantizedMethod {
    Depthwise {
        convolution: Box<Depthwise>,
        images: usize,
        /// Bytes per image.
        image: usize,
        /// Rows of an output image, and elements per row.
        output: [usize; 2],
    },
    Product {
        /// The panels of each group.
        panels: Vec<BytePanels>,
        /// How images become rows; `None` if the input has rows.
        patches: Option<BytePatches>,
        /// Number of images, and bytes and rows per image.
        images: [usize; 3],
    },
}

/// A product of quantized tensors that becomes a step. All operands except the input, its zero point and the factor are
/// constant.
pub struct QuantizedNode<'a> {
    /// The operator.
    pub op: &'a Quantized,
    /// What the step will run with.
    pub env: Env<'a>,
    /// The descriptor of the input.
    pub input: &'a Descriptor,
    /// The filter or second matrix, and its descriptor.
    pub filter: (&'a Constant, &'a Descriptor),
    /// The scale of each channel, in float32.
    pub scales: Arc<Buffer>,
    /// The zero point of each channel, in the filter's type; `None` if all are 0.
    pub zeros: Option<Arc<Buffer>>,
    /// The bias of each channel, in float32.
    pub bias: Option<Arc<Buffer>>,
    /// Whether the zero point of the input is computed at run time.
    pub zero: bool,
    /// Whether there is a factor.
    pub factor: bool,
    /// The descriptor of the output.
    pub output: &'a Descriptor,
}

/// The layout of a filter.
#[derive(Clone, Copy)]
struct Filter {
    /// Distances between output channels, input channels, rows and columns.
    strides: [usize; 4],
    /// Numbers of filter columns and of input channels.
    taps: [usize; 2],
}

impl Filter {
    /// Where number `k` of an output channel is: the taps are in the order of rows, columns and input channels.
    fn place(self, channel: usize, k: usize) -> usize {
        let ([o, i, h, w], [width, inputs]) = (self.strides, self.taps);
        channel * o + k % inputs * i + k / inputs / width * h + k / inputs % width * w
    }
}

impl QuantizedStep {
    /// Creates the step of `node`. Reads the constants now, but not when it runs.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for packed constants, an `OperationError` if mapped ones cannot
    /// be read.
    pub fn new(node: &QuantizedNode) -> Result<QuantizedStep> {
        let mut step = match &node.op.product {
            ProductKind::Conv2d(options) => node.convolution(options)?,
            product => {
                let filter = &node.filter.1.sizes();
                let [depth, columns] = matrix(product, filter);
                let own = strides(filter);
                let [o, i] = if *product == ProductKind::Transposed { [own[0], 1] } else { [1, own[own.len() - 2]] };
                let filter = Filter { strides: [o, i, 0, 0], taps: [1, depth] };
                node.product(filter, [1, columns, depth], None, rows(node.output, [depth, columns]))?
            }
        };
        step.grid = step.cut();
        Ok(step)
    }

    fn cut(&self) -> Grid {
        match &self.method {
            QuantizedMethod::Depthwise { images, output: [rows, row], .. } => {
                let parts = if self.threads > 1 { 4 * self.threads } else { 1 };
                Grid { rows: Cut::new(images * rows, 1, parts), cols: Cut::whole(row * self.to().size()) }
            }
            QuantizedMethod::Product { panels, patches, images: [batches, _, rows] } => {
                let [columns, depth] = panels[0].sizes();
                let cutting = ByteCutting {
                    format: panels[0].format(),
                    batches: *batches,
                    size: [*rows, columns, depth],
                    groups: panels.len(),
                    element: self.to().size(),
                    gathers: patches.is_some(),
                };
                cutting.grid(self.threads)
            }
        }
    }

    /// Adapts a product of matrices to another number of output rows, and a second matrix of these sizes; returns
    /// `false` if the step must be rebuilt.
    #[must_use]
    pub fn resize(&mut self, op: &Quantized, filter: &[u32], output: &Descriptor) -> bool {
        match (&op.product, &mut self.method) {
            (ProductKind::Conv2d(_), _) | (_, QuantizedMethod::Depthwise { .. }) => false,
            (product, QuantizedMethod::Product { images, .. }) => {
                *images = rows(output, matrix(product, filter));
                self.grid = self.cut();
                true
            }
        }
    }
}

fn area([height, width]: [usize; 2]) -> usize {
    height * width
}

/// The rows of a product with this output, as an image.
fn rows(output: &Descriptor, [depth, columns]: [usize; 2]) -> [usize; 3] {
    let rows = output.elements() / columns;
    [1, rows * depth, rows]
}

/// Depth and columns of the second operand.
fn matrix(product: &ProductKind, shape: &[u32]) -> [usize; 2] {
    let [a, b] = [shape[shape.len() - 2] as usize, shape[shape.len() - 1] as usize];
    if *product == ProductKind::Transposed { [b, a] } else { [a, b] }
}

impl QuantizedNode<'_> {
    fn is_signed(&self) -> bool {
        self.input.dtype == DataType::Int8
    }

    /// The number that a byte of the filter's type represents.
    fn number(&self, byte: u8) -> i16 {
        if self.filter.1.dtype == DataType::Int8 { byte as i8 as i16 } else { byte as i16 }
    }

    fn filter_zero(&self, channel: usize) -> i16 {
        self.zeros.as_ref().map_or(0, |zeros| self.number(zeros.bytes()[channel]))
    }

    /// The number that represents 0 in the input, whose bytes become signed or unsigned ones.
    fn zero(&self, signed: bool) -> i32 {
        self.op.input.zero as i32 + 128 * (self.is_signed() as i32 - signed as i32)
    }

    /// A step without tiles.
    fn step(
        &self,
        method: QuantizedMethod,
        columns: Vec<Rescale<'static>>,
        computed: Option<Computed>,
    ) -> QuantizedStep {
        let flip = if self.is_signed() == ByteFormat::of(self.env.isa).sizes().is_signed { 0 } else { 0x80 };
        QuantizedStep { method, columns, computed, flip, grid: Grid::whole(1, 1), threads: self.env.threads.count() }
    }

    fn convolution(&self, options: &Conv2dAttributes) -> Result<QuantizedStep> {
        let shape = dense::conv2d_shape(options, [self.input, self.filter.1, self.output]);
        let ([inputs, channels], [pixels, outputs]) = (shape.group(), [shape.input, shape.output].map(area));
        let filter = Filter { strides: shape.filter_strides(), taps: [shape.filter[1], inputs] };
        let image = pixels * shape.channels[0];
        if shape.is_depthwise() && channels == 1 {
            return self.depthwise(options, &shape, filter, image);
        }
        let pointwise = shape.groups == 1 && shape.is_pointwise();
        let images = [shape.batches, image, outputs];
        let images = if pointwise { [1, images[0] * image, images[0] * outputs] } else { images };
        let zero = self.op.input.zero as u8;
        let patches = (!pointwise).then(|| BytePatches { matrix: shape.patches(), zero });
        self.product(filter, [shape.groups, channels, inputs * area(shape.filter)], patches, images)
    }

    fn depthwise(
        &self,
        options: &Conv2dAttributes,
        shape: &Conv2dShape,
        filter: Filter,
        image: usize,
    ) -> Result<QuantizedStep> {
        let bytes = self.filter.0.buffer()?;
        let at = |channel, k| self.number(bytes.bytes()[filter.place(channel, k)]) - self.filter_zero(channel);
        let ([_, width], channels) = (shape.filter, shape.channels[0]);
        let pair = |values: &[u32]| [values[0], values[1]];
        let padding = [0, 1, 2, 3].map(|side| options.padding[side].get());
        let input = options.input_layout.image(&self.input.sizes());
        let window = shape.filter.map(|size| size as u32);
        let slides = slides(input, window, padding, pair(&options.strides), pair(&options.dilations));
        let zero = (self.op.input.zero as u8, self.is_signed());
        let element = |channel, row, column| at(channel, row * width + column);
        let level = DotLevel::of(self.env.isa);
        let convolution = Depthwise::new(level, slides, shape.output, channels, zero, element)?;
        let sum = |channel| (0..area(shape.filter)).map(|k| at(channel, k) as i32).sum();
        let order = convolution.order().map(|channel| channel.map(|c| (c, sum(c), 0)));
        let columns = vec![self.columns(self.zero(convolution.takes_signed()), order)];
        let output = [shape.output[0], shape.output[1] * channels];
        let convolution = Box::new(convolution);
        Ok(self.step(QuantizedMethod::Depthwise { convolution, images: shape.batches, image, output }, columns, None))
    }

    /// A step that multiplies with the panels of groups of so many columns of this depth.
    fn product(
        &self,
        filter: Filter,
        [groups, columns, depth]: [usize; 3],
        patches: Option<BytePatches>,
        images: [usize; 3],
    ) -> Result<QuantizedStep> {
        let panels = (0..groups).map(|group| self.panels(filter, group * columns, [columns, depth]));
        let panels = panels.collect::<Result<Vec<_>>>()?;
        let is_signed = ByteFormat::of(self.env.isa).sizes().is_signed;
        let (rescales, mut sums): (_, Vec<Vec<i32>>) = panels
            .iter()
            .enumerate()
            .map(|(group, panels)| {
                let [sums, lifts] = panels.sums_and_lifts();
                let own =
                    |column: usize| (column < columns).then(|| (group * columns + column, sums[column], lifts[column]));
                (self.columns(self.zero(is_signed), (0..sums.len()).map(own)), sums)
            })
            .unzip();
        let (zero, factor) = (self.zero, self.factor);
        assert!(!(zero || factor) || groups == 1, "the pass creates no others");
        let computed = (zero || factor).then(|| Computed { sums: sums.remove(0), zero, factor, is_signed });
        Ok(self.step(QuantizedMethod::Product { panels, patches, images }, rescales, computed))
    }

    /// The panels of the `columns` output channels from `first` on. Packed once for all steps and graphs.
    fn panels(&self, filter: Filter, first: usize, [columns, depth]: [usize; 2]) -> Result<BytePanels> {
        let ((constant, Descriptor { dtype, .. }), Filter { strides, taps }) = (self.filter, filter);
        let format = ByteFormat::of(self.env.isa);
        let zeros: Vec<i16> = (first..first + columns).map(|channel| self.filter_zero(channel)).collect();
        let form =
            ("int8", format.sizes().name, format.sizes().panel(), [columns, depth], first, strides, taps, &zeros);
        let weights = Weights::of(constant, *dtype, Some(self.env.threads));
        let data = weights.packed(&form, || {
            let bytes = constant.buffer()?;
            let places: Vec<usize> = (0..depth).map(|k| filter.place(first, k)).collect();
            let (is_signed, stride) = (*dtype == DataType::Int8, strides[0]);
            let columns = ByteColumns { bytes: bytes.bytes(), is_signed, stride, places: &places, zeros: &zeros };
            BytePanels::pack(format, &weights, &columns)
        })?;
        Ok(BytePanels::of(format, columns, depth, data))
    }

    /// How columns are rescaled, if `zero` represents 0 in rows. `each` has, per column, the output channel, the sum of
    /// its weights, and the lift subtracted from each weight.
    fn columns(&self, zero: i32, each: impl Iterator<Item = Option<(usize, i32, i32)>>) -> Rescale<'static> {
        let (scales, op) = (elements::<f32>(self.scales.bytes()), self.op);
        let bias = self.bias.as_ref().map(|bias| elements::<f32>(bias.bytes()));
        let step = op.output.map_or(1.0, |(_, output)| output.scale as f64);
        let count = each.size_hint().0;
        let (mut start, mut zeros) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut scale, mut bias_of) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for column in each {
            let (channel, sum, lift) = column.unwrap_or((0, 0, 0));
            // Weights that are `lift` too small make the sum too small by `lift` times the sum of the row.
            start.push(-zero * sum);
            zeros.push(-lift);
            scale.push((op.input.scale as f64 * scales[channel] as f64 / step) as f32);
            bias_of.push((bias.map_or(0.0, |bias| bias[channel]) as f64 / step) as f32);
        }
        if zeros.iter().all(|&zero| zero == 0) {
            zeros.clear();
        }
        let to = match op.output {
            None => To::Floats { min: op.min, max: op.max },
            Some((dtype, output)) => To::Bytes(to_bytes(dtype, output, [op.min, op.max])),
        };
        Rescale { start: start.into(), zeros: zeros.into(), scale: scale.into(), bias: bias_of.into(), to }
    }
}

impl QuantizedStep {
    fn to(&self) -> To {
        self.columns[0].to
    }

    /// Scratch bytes per thread.
    fn slot(&self) -> usize {
        let bytes = match &self.method {
            QuantizedMethod::Depthwise { convolution, .. } => convolution.scratch_bytes(),
            QuantizedMethod::Product { panels, patches, .. } => {
                ByteProduct { panels, columns: &self.columns, patches: patches.as_ref(), flip: self.flip }
                    .scratch_bytes()
            }
        };
        bytes.next_multiple_of(64)
    }
}

impl Run for QuantizedStep {
    fn kernel(&self) -> &'static str {
        match &self.method {
            QuantizedMethod::Depthwise { .. } => "int8 depthwise",
            QuantizedMethod::Product { patches: Some(_), .. } => "int8 im2col",
            QuantizedMethod::Product { .. } => "int8 gemm",
        }
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        threads * self.slot() + self.computed.as_ref().map_or(0, Computed::scratch_len) * size_of::<f32>()
    }

    fn packed(&self) -> Vec<&Arc<Buffer>> {
        match &self.method {
            QuantizedMethod::Depthwise { convolution, .. } => vec![convolution.buffer()],
            QuantizedMethod::Product { panels, .. } => panels.iter().map(BytePanels::buffer).collect(),
        }
    }

    fn run(&self, env: &Env, io: &mut Io) {
        assert!(env.threads.count() <= self.threads);
        let (out, scratch) = (io.output::<u8>(), io.scratch::<f32>());
        let (first, scratch) = scratch.split_at_mut(self.computed.as_ref().map_or(0, Computed::scratch_len));
        let computed =
            self.computed.as_ref().map(|computed| [computed.columns(&self.columns[0], self.flip, io, first)]);
        let all = computed.as_ref().map_or(&self.columns[..], |computed| computed);
        let (input, size) = (io.input::<u8>(0), self.to().size());
        match &self.method {
            QuantizedMethod::Depthwise { convolution, images, image, output: [rows, row] } => {
                let matrix = Matrices {
                    batches: 1,
                    batch_stride: 0,
                    rows: images * rows,
                    row_stride: row * size,
                    cols: row * size,
                };
                // Moving bytes takes most of the time: per byte, it costs as much as a convolution of floats.
                let cost = matrix.rows * row * convolution.taps();
                Tiles::new(out, matrix, self.grid).share(env.threads, cost, scratch, |tile, scratch| {
                    for (index, place) in tile.rows.clone().enumerate() {
                        let image = &input[place / rows * image..];
                        convolution.row(image, place % rows, &self.columns[0], scratch, tile.row(index));
                    }
                });
            }
            QuantizedMethod::Product { panels, patches, images: [batches, image, rows] } => {
                let [columns, depth] = panels[0].sizes();
                let width = columns * panels.len() * size;
                let matrix = Matrices {
                    batches: *batches,
                    batch_stride: rows * width,
                    rows: *rows,
                    row_stride: width,
                    cols: width,
                };
                let mut patches = patches.clone();
                if let (Some(patches), Some(Computed { zero: true, .. })) = (&mut patches, &self.computed) {
                    patches.zero = io.input::<u8>(ZERO)[0];
                }
                let rows = ByteProduct { panels, columns: all, patches: patches.as_ref(), flip: self.flip };
                let multiply_adds = matrix.batches * matrix.rows * columns * panels.len() * depth;
                let cost = bytes_as_floats(panels[0].format(), multiply_adds);
                Tiles::new(out, matrix, self.grid).share(env.threads, cost, scratch, |tile, scratch| {
                    rows.run(&input[tile.batch * image..][..*image], tile, scratch);
                });
            }
        }
    }
}

#[cfg(test)]
#[path = "quantized_tests.rs"]
mod tests;
