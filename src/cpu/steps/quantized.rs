//! Products and convolutions of quantized tensors.

use super::{Env, Run};
use crate::cpu::costs::bytes_as_floats;
use crate::cpu::memory::Io;
use crate::cpu::product::formats::ByteFormat;
use crate::cpu::product::int8::depthwise::Depthwise;
use crate::cpu::product::int8::frame::{ByteCutting, ByteProduct};
use crate::cpu::product::int8::panels::{ByteColumns, BytePanels};
use crate::cpu::product::int8::patches::BytePatches;
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
use crate::ops::quantized::{Product, Quantized};
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
    /// The computed part for these operands, for columns with these sums.
    fn of(&Operands { zero, factor, .. }: &Operands, sums: &[i32], is_signed: bool) -> Option<Computed> {
        (zero || factor).then(|| Computed { sums: sums.to_vec(), zero, factor, is_signed })
    }

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

/// The operands of a product. All except the input, its zero point and the factor are constant.
#[derive(Clone, Copy)]
pub struct Operands<'a> {
    /// The descriptor of the input.
    pub input: &'a Descriptor,
    /// The filter or second matrix, and its descriptor.
    pub filter: (&'a Constant, &'a Descriptor),
    /// The scale of each channel, in float32.
    pub scales: &'a Constant,
    /// The zero point of each channel, in the filter's type; `None` if all are 0.
    pub zeros: Option<&'a Constant>,
    /// The bias of each channel, in float32.
    pub bias: Option<&'a Constant>,
    /// Whether the zero point of the input is computed at run time.
    pub zero: bool,
    /// Whether there is a factor.
    pub factor: bool,
    /// The descriptor of the output.
    pub output: &'a Descriptor,
}

/// The constants of a product, all loaded except the filter.
struct Constants<'a> {
    filter: &'a Constant,
    filter_type: DataType,
    scale: Arc<Buffer>,
    zeros: Option<Arc<Buffer>>,
    bias: Option<Arc<Buffer>>,
}

impl<'a> Constants<'a> {
    fn read(operands: &Operands<'a>) -> Result<Constants<'a>> {
        let Operands { filter: (filter, Descriptor { dtype, .. }), scales, zeros, bias, .. } = *operands;
        let [zeros, bias] = [zeros, bias].map(|constant| constant.map(Constant::buffer).transpose());
        Ok(Constants { filter, filter_type: *dtype, scale: scales.buffer()?, zeros: zeros?, bias: bias? })
    }

    /// The number at `index` of `bytes`, whose type is that of the filter.
    fn number(&self, bytes: &Buffer, index: usize) -> i16 {
        match self.filter_type {
            DataType::Int8 => bytes.bytes()[index] as i8 as i16,
            _ => bytes.bytes()[index] as i16,
        }
    }

    fn zero(&self, channel: usize) -> i16 {
        self.zeros.as_ref().map_or(0, |zeros| self.number(zeros, channel))
    }
}

/// The layout of a filter.
#[derive(Clone, Copy)]
struct Filter<'a> {
    constants: &'a Constants<'a>,
    /// Distances between output channels, input channels, rows and columns.
    strides: [usize; 4],
    /// Numbers of filter columns and of input channels.
    taps: [usize; 2],
}

impl Filter<'_> {
    /// An element of `bytes` minus its zero point, between -255 and 255.
    fn at(&self, bytes: &Buffer, [channel, input, row, column]: [usize; 4]) -> i16 {
        let [o, i, h, w] = self.strides;
        let place = channel * o + input * i + row * h + column * w;
        self.constants.number(bytes, place) - self.constants.zero(channel)
    }

    /// The panels of the `columns` output channels from `first` on; the elements of a column are the taps, row by row.
    /// Packed once for all steps and graphs.
    fn panels(&self, env: &Env, first: usize, [columns, depth]: [usize; 2]) -> Result<BytePanels> {
        let (Filter { constants, strides, taps }, format) = (*self, ByteFormat::of(env.isa));
        let zeros: Vec<i16> = (first..first + columns).map(|channel| constants.zero(channel)).collect();
        let form =
            ("int8", format.sizes().name, format.sizes().panel(), [columns, depth], first, strides, taps, &zeros);
        let weights = Weights::of(constants.filter, constants.filter_type, Some(env.threads));
        let data = weights.packed(&form, || {
            let (filter, [o, i, h, w], [width, inputs]) = (constants.filter.buffer()?, strides, taps);
            let place = |k: usize| first * o + k % inputs * i + k / inputs / width * h + k / inputs % width * w;
            let places: Vec<usize> = (0..depth).map(place).collect();
            let is_signed = constants.filter_type == DataType::Int8;
            let columns = ByteColumns { bytes: filter.bytes(), is_signed, stride: o, places: &places, zeros: &zeros };
            BytePanels::pack(format, &weights, &columns)
        })?;
        Ok(BytePanels::of(format, columns, depth, data))
    }
}

impl QuantizedStep {
    /// Creates the step of `op` to run with `env`. Reads the constants now, but not when it runs.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for packed constants, an `OperationError` if mapped ones cannot
    /// be read.
    pub fn new(env: &Env, op: &Quantized, operands: &Operands) -> Result<QuantizedStep> {
        let constants = Constants::read(operands)?;
        let signed = operands.input.dtype == DataType::Int8;
        let format_signed = ByteFormat::of(env.isa).sizes().is_signed;
        let build = QuantizedBuilder { op, env: *env, constants: &constants, signed, format_signed };
        let mut step = match &op.product {
            Product::Conv2d(options) => build.convolution(options, operands)?,
            product => {
                let filter = &operands.filter.1.sizes();
                let [depth, columns] = matrix(product, filter);
                let own = strides(filter);
                let [o, i] = if *product == Product::Transposed { [own[0], 1] } else { [1, own[own.len() - 2]] };
                let filter = Filter { constants: &constants, strides: [o, i, 0, 0], taps: [1, depth] };
                let panels = filter.panels(env, 0, [columns, depth])?;
                let (all, sums) = build.group(0, &panels);
                let computed = Computed::of(operands, &sums, format_signed);
                let images = rows(operands.output, [depth, columns]);
                let method = QuantizedMethod::Product { panels: vec![panels], patches: None, images };
                build.step(method, vec![all], computed)
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
            (Product::Conv2d(_), _) | (_, QuantizedMethod::Depthwise { .. }) => false,
            (product, QuantizedMethod::Product { images, .. }) => {
                *images = rows(output, matrix(product, filter));
                self.grid = self.cut();
                true
            }
        }
    }
}

/// The rows of a product with this output, as an image.
fn rows(output: &Descriptor, [depth, columns]: [usize; 2]) -> [usize; 3] {
    let rows = output.elements() / columns;
    [1, rows * depth, rows]
}

/// Depth and columns of the second operand.
fn matrix(product: &Product, shape: &[u32]) -> [usize; 2] {
    let [a, b] = [shape[shape.len() - 2] as usize, shape[shape.len() - 1] as usize];
    if *product == Product::Transposed { [b, a] } else { [a, b] }
}

struct QuantizedBuilder<'a> {
    op: &'a Quantized,
    env: Env<'a>,
    constants: &'a Constants<'a>,
    /// Whether the bytes of the input are signed.
    signed: bool,
    /// Whether the format takes signed bytes.
    format_signed: bool,
}

impl QuantizedBuilder<'_> {
    /// A step without tiles.
    fn step(
        &self,
        method: QuantizedMethod,
        columns: Vec<Rescale<'static>>,
        computed: Option<Computed>,
    ) -> QuantizedStep {
        let flip = if self.signed == self.format_signed { 0 } else { 0x80 };
        QuantizedStep { method, columns, computed, flip, grid: Grid::whole(1, 1), threads: self.env.threads.count() }
    }

    /// The number that represents 0 in the input, whose bytes become signed or unsigned ones.
    fn zero(&self, signed: bool) -> i32 {
        self.op.input.zero as i32 + 128 * (self.signed as i32 - signed as i32)
    }

    fn convolution(&self, options: &Conv2dAttributes, operands: &Operands) -> Result<QuantizedStep> {
        let [input, output] = [operands.input, operands.output].map(|image| options.input_layout.image(&image.sizes()));
        let filter = &operands.filter.1.sizes();
        let [_, group_inputs, height, width] = options.filter_layout.axes().map(|axis| filter[axis]);
        let own = strides(filter);
        let strides = options.filter_layout.axes().map(|axis| own[axis]);
        let filter = Filter { constants: self.constants, strides, taps: [width as usize, group_inputs as usize] };
        let pair = |values: &[u32]| [values[0], values[1]];
        let padding = [0, 1, 2, 3].map(|side| options.padding[side].get());
        let slides = slides(input, [height, width], padding, pair(&options.strides), pair(&options.dilations));
        let (channels, inputs) = (output.channels as usize, input.channels as usize);
        let size = [output.height as usize, output.width as usize];
        let images = input.batches as usize;
        let image = input.height as usize * input.width as usize * inputs;
        if group_inputs == 1 && channels == inputs && channels > 1 {
            let bytes = self.constants.filter.buffer()?;
            let at = |channel, row, column| filter.at(&bytes, [channel, 0, row, column]);
            let (level, zero) = (DotLevel::of(self.env.isa), self.op.input.zero as u8);
            let convolution = Depthwise::new(level, slides, size, channels, (zero, self.signed), at)?;
            let sum = |channel: usize| {
                let taps = (0..height as usize).flat_map(|y| (0..width as usize).map(move |x| (y, x)));
                taps.map(|(y, x)| at(channel, y, x) as i32).sum()
            };
            let order = convolution.order().map(|channel| channel.map(|c| (c, sum(c), 0)));
            let columns = vec![self.columns(self.zero(false), order)];
            let output = [size[0], size[1] * channels];
            let method = QuantizedMethod::Depthwise { convolution: Box::new(convolution), images, image, output };
            return Ok(self.step(method, columns, None));
        }
        let patches = BytePatches {
            slides,
            output: size,
            channels: inputs,
            group: group_inputs as usize,
            zero: self.op.input.zero as u8,
        };
        let groups = options.groups as usize;
        let each = channels / groups;
        let sizes = [each, patches.depth()];
        let panels = (0..groups).map(|group| filter.panels(&self.env, group * each, sizes));
        let panels = panels.collect::<Result<Vec<_>>>()?;
        let (columns, sums): (_, Vec<Vec<i32>>) =
            panels.iter().enumerate().map(|(group, panels)| self.group(group * each, panels)).unzip();
        let computed = Computed::of(operands, &sums[0], self.format_signed);
        assert!(computed.is_none() || groups == 1, "the pass creates no others");
        let pointwise = groups == 1 && slides.iter().all(|s| (s.window, s.stride, s.begin, s.end) == (1, 1, 0, 0));
        let images = [images, image, size[0] * size[1]];
        let images = if pointwise { [1, images[0] * image, images[0] * images[2]] } else { images };
        let method = QuantizedMethod::Product { panels, patches: (!pointwise).then_some(patches), images };
        Ok(self.step(method, columns, computed))
    }

    /// How the sums of `panels`, the output channels from `first` on, are rescaled, and the sum of each of its columns.
    fn group(&self, first: usize, panels: &BytePanels) -> (Rescale<'static>, Vec<i32>) {
        let ([sums, lifts], [count, _]) = (panels.sums_and_lifts(), panels.sizes());
        let own = |column: usize| (column < count).then(|| (first + column, sums[column], lifts[column]));
        (self.columns(self.zero(self.format_signed), (0..sums.len()).map(own)), sums)
    }

    /// How columns are rescaled, if `zero` represents 0 in rows. `each` has, per column, the output channel, the sum of
    /// its weights, and the lift subtracted from each weight.
    fn columns(&self, zero: i32, each: impl Iterator<Item = Option<(usize, i32, i32)>>) -> Rescale<'static> {
        let (scales, op) = (elements::<f32>(self.constants.scale.bytes()), self.op);
        let bias = self.constants.bias.as_ref().map(|bias| elements::<f32>(bias.bytes()));
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
