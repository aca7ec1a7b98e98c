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
use crate::cpu::schedule::pool::Threads;
use crate::cpu::schedule::shared::for_each_chunk;
use crate::cpu::schedule::tiles::{Matrices, Tiles};
use crate::cpu::simd::dot::DotLevel;
use crate::cpu::weights::Weights;
use crate::dtype::DataType;
use crate::error::Result;
use crate::ir::Constant;
use crate::memory::{Buffer, bytes_of, bytes_of_mut, elements, elements_mut};
use crate::ops::conv2d::Conv2dAttributes;
use crate::ops::quantized::{ProductKind, Quantized};
use crate::ops::spatial::slides;
use crate::shape::{Descriptor, Sizes, broadcast_strides, strides};
use std::borrow::Cow;
use std::sync::Arc;

/// A product of quantized tensors with its constants packed.
pub struct QuantizedStep {
    method: QuantizedMethod,
    /// What is known of the rescaling of each group.
    columns: Vec<Rescale<'static>>,
    computed: Option<Computed>,
    /// The bits of the input to invert to give its bytes the sign that is multiplied.
    flip: u8,
    /// The tiles of the output for up to `threads` threads; columns are counted in bytes.
    grid: Grid,
    threads: usize,
}

/// The rescaling, if it depends on computed operands: the initial sums of columns, and the factors of the sums of rows
/// and of columns.
struct Computed {
    operands: ComputedOperands,
    /// The number that represents 0 in rows, unless it is computed.
    zero: i32,
    /// The numbers that represent 0 in columns, unless they are computed or packed columns are without them.
    filter_zeros: Vec<i16>,
    /// Whether the format takes signed bytes.
    is_signed: bool,
    /// Whether the filter has signed bytes.
    filter_signed: bool,
    /// Whether the sums of rows count.
    needs_rows: bool,
    /// Padded columns of a matrix.
    padded: usize,
}

/// The indices of operands that are computed at run time, besides the first two.
#[derive(Clone, Copy, Default, PartialEq)]
pub struct ComputedOperands {
    /// The zero point of the input.
    pub zero: Option<usize>,
    /// The zero points of the filter.
    pub filter_zero: Option<usize>,
    /// The factor.
    pub factor: Option<usize>,
}

impl Computed {
    /// Writes the rescaling of columns to `words`; what is known at build time comes from `known`. `each` yields, per
    /// column, its output channel, the sum of its `depth` weights, and the lift subtracted from each weight.
    fn fill(
        &self,
        known: &Rescale,
        each: impl Iterator<Item = (Option<usize>, i32, i32)>,
        depth: usize,
        flip: u8,
        io: &Io,
        words: &mut [i32],
    ) {
        let zero = self.operands.zero.map_or(self.zero, |operand| {
            let zero = io.input::<u8>(operand)[0] ^ flip;
            if self.is_signed { zero as i8 as i32 } else { zero as i32 }
        });
        let computed = self.operands.filter_zero.map(|operand| io.input::<u8>(operand));
        let filter_zero = |channel: usize| match computed {
            Some(zeros) => number(zeros[channel % zeros.len()], self.filter_signed) as i32,
            None => self.filter_zeros.get(channel).map_or(0, |&zero| zero as i32),
        };
        let factors = self.operands.factor.map_or(&[1.0][..], |operand| io.input::<f32>(operand));
        let (start, rest) = words.split_at_mut(self.padded);
        let (zeros, scale) = rest.split_at_mut(self.padded);
        let scale = elements_mut::<f32>(bytes_of_mut(scale));
        for (column, (channel, sum, lift)) in each.enumerate() {
            let own = channel.map_or(0, filter_zero);
            let sum = sum.wrapping_sub((depth as i32).wrapping_mul(own));
            start[column] = known.start[column].wrapping_sub(zero.wrapping_mul(sum));
            zeros[column] = own - lift;
            scale[column] = known.scale[column] * channel.map_or(1.0, |channel| factors[channel % factors.len()]);
        }
    }

    /// Words per matrix.
    fn len(&self) -> usize {
        3 * self.padded
    }

    /// The rescaling that [`fill`](Self::fill) wrote.
    fn rescale<'a>(&self, known: &'a Rescale, words: &'a [i32]) -> Rescale<'a> {
        let (start, rest) = words.split_at(self.padded);
        let (zeros, scale) = rest.split_at(self.padded);
        let zeros = if self.needs_rows { zeros } else { &[] };
        let [start, zeros] = [start, zeros].map(Cow::Borrowed);
        Rescale { start, zeros, scale: Cow::Borrowed(elements(bytes_of(scale))), ..known.borrowed() }
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
        /// The byte that represents 0, unless it is computed.
        zero: u8,
        /// The output channel of each column, and the sum of its weights.
        order: Vec<(Option<usize>, i32)>,
    },
    Product(Box<Product>),
}

/// Products of rows, or of the patches of images, with panels.
struct Product {
    right: Right,
    /// Number of groups.
    groups: usize,
    /// How images become rows; `None` if the input has rows.
    patches: Option<BytePatches>,
    /// Number of images, and bytes and rows per image.
    images: [usize; 3],
    /// Which image and which right matrix each product of a stack multiplies; empty if there is one right matrix.
    stack: Vec<[usize; 2]>,
}

/// The right operand: a matrix, a stack of them, or one for each group.
struct Right {
    format: ByteFormat,
    columns: usize,
    depth: usize,
    /// The panels of each matrix, if they are constants.
    packed: Vec<Arc<Buffer>>,
    /// How they are packed at run time, otherwise.
    unpacked: Option<Unpacked>,
}

/// Right matrices that are packed at run time.
struct Unpacked {
    /// Number of matrices, and bytes between them.
    matrices: [usize; 2],
    is_signed: bool,
    /// Distance between columns.
    stride: usize,
    /// Where the numbers of the first column are.
    places: Vec<usize>,
    /// No zero points.
    zeros: Vec<i16>,
}

impl Right {
    fn matrices(&self) -> usize {
        self.unpacked.as_ref().map_or(self.packed.len(), |unpacked| unpacked.matrices[0])
    }

    /// Bytes of a matrix that is packed at run time.
    fn matrix_bytes(&self) -> usize {
        let panel = self.format.sizes().panel();
        self.columns.div_ceil(panel) * BytePanels::panel_bytes(self.format, self.depth)
    }

    /// Bytes of all matrices that are packed at run time.
    fn scratch_bytes(&self) -> usize {
        self.unpacked.as_ref().map_or(0, |unpacked| unpacked.matrices[0] * self.matrix_bytes()).next_multiple_of(64)
    }

    /// Packs the matrices in `bytes`, unless they are constants.
    fn pack(&self, threads: &Threads, bytes: &[u8], out: &mut [u8]) {
        let Some(Unpacked { matrices: [count, step], is_signed, stride, places, zeros }) = &self.unpacked else {
            return;
        };
        let (each, is_signed, stride) = (BytePanels::panel_bytes(self.format, self.depth), *is_signed, *stride);
        let (across, lift) = (self.matrix_bytes() / each, Some(if is_signed { 0 } else { 128 }));
        let out = &mut out[..count * self.matrix_bytes()];
        for_each_chunk(threads, out, each, 1, each, |first, panels| {
            for (index, panel) in (first..).zip(panels.chunks_exact_mut(each)) {
                let bytes = &bytes[index / across * step..];
                let columns = ByteColumns { bytes, is_signed, stride, places, zeros, lift };
                BytePanels::fill(self.format, &columns, index % across, panel);
            }
        });
    }

    /// The panels of a matrix; `fresh` has those packed now.
    fn panels<'a>(&'a self, matrix: usize, fresh: &'a [u8]) -> BytePanels<'a> {
        let data = match self.packed.get(matrix) {
            Some(packed) => packed.bytes(),
            None => &fresh[matrix * self.matrix_bytes()..][..self.matrix_bytes()],
        };
        BytePanels::of(self.format, self.columns, self.depth, data)
    }
}

/// A product of quantized tensors that becomes a step.
pub struct QuantizedNode<'a> {
    /// The operator.
    pub op: &'a Quantized,
    /// Whether the result is the sums of integers.
    pub sums: bool,
    /// What the step will run with.
    pub env: Env<'a>,
    /// The descriptor of the input.
    pub input: &'a Descriptor,
    /// The filter or second matrix, if it is a constant, and its descriptor.
    pub filter: (Option<&'a Constant>, &'a Descriptor),
    /// The scale of each channel, in float32; `None` if all are 1.
    pub scales: Option<Arc<Buffer>>,
    /// The zero point of each channel, or of all, in the filter's type; `None` if all are 0.
    pub zeros: Option<Arc<Buffer>>,
    /// The bias of each channel, in float32.
    pub bias: Option<Arc<Buffer>>,
    /// The addend of the sums of each channel, in int32.
    pub addend: Option<Arc<Buffer>>,
    /// What is computed at run time.
    pub computed: ComputedOperands,
    /// The descriptor of the output.
    pub output: &'a Descriptor,
}

/// The number that a byte represents.
fn number(byte: u8, is_signed: bool) -> i16 {
    if is_signed { byte as i8 as i16 } else { byte as i16 }
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
            product => node.matrices(product)?,
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
            QuantizedMethod::Product(product) => {
                let Product { right, groups, patches, images: [batches, _, rows], .. } = &**product;
                let cutting = ByteCutting {
                    format: right.format,
                    batches: *batches,
                    size: [*rows, right.columns, right.depth],
                    groups: *groups,
                    element: self.to().size(),
                    gathers: patches.is_some(),
                };
                cutting.grid(self.threads)
            }
        }
    }

    /// Adapts a product with a constant matrix of these sizes to another number of output rows; returns `false` if the
    /// step must be rebuilt.
    #[must_use]
    pub fn resize(&mut self, product: &ProductKind, filter: &[u32], output: &Descriptor) -> bool {
        match (product, &mut self.method) {
            (ProductKind::Conv2d(_), _) | (_, QuantizedMethod::Depthwise { .. }) => false,
            (kind, QuantizedMethod::Product(product)) if product.right.unpacked.is_none() => {
                product.images = rows(output, matrix(kind, filter));
                self.grid = self.cut();
                true
            }
            _ => false,
        }
    }

    /// Whether it keeps a packed copy of the filter.
    pub fn packs(&self) -> bool {
        match &self.method {
            QuantizedMethod::Depthwise { .. } => true,
            QuantizedMethod::Product(product) => product.right.unpacked.is_none(),
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

/// For each place of a shape, in order, where two operands have theirs.
fn places(shape: &[u32], strides: [&[usize]; 2]) -> Vec<[usize; 2]> {
    let place = |mut index: usize| {
        let mut at = [0; 2];
        for (axis, &size) in shape.iter().enumerate().rev() {
            at.iter_mut().zip(strides).for_each(|(at, strides)| *at += index % size as usize * strides[axis]);
            index /= size as usize;
        }
        at
    };
    (0..shape.iter().product::<u32>() as usize).map(place).collect()
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

    fn filter_signed(&self) -> bool {
        self.filter.1.dtype == DataType::Int8
    }

    fn filter_zero(&self, channel: usize) -> i16 {
        let zero = |zeros: &Arc<Buffer>| number(zeros.bytes()[channel % zeros.bytes().len()], self.filter_signed());
        self.zeros.as_ref().map_or(0, zero)
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
        let takes_signed = match &method {
            QuantizedMethod::Depthwise { convolution, .. } => convolution.takes_signed(),
            QuantizedMethod::Product(product) => product.right.format.sizes().is_signed,
        };
        let flip = if self.is_signed() == takes_signed { 0 } else { 0x80 };
        QuantizedStep { method, columns, computed, flip, grid: Grid::whole(1, 1), threads: self.env.threads.count() }
    }

    fn matrices(&self, product: &ProductKind) -> Result<QuantizedStep> {
        let (input, filter) = (self.input.sizes(), self.filter.1.sizes());
        let [depth, columns] = matrix(product, &filter);
        let own = strides(&filter);
        let [o, i] = if *product == ProductKind::Transposed { [own[0], 1] } else { [1, own[own.len() - 2]] };
        let layout = Filter { strides: [o, i, 0, 0], taps: [1, depth] };
        let batch = |sizes: &Sizes| sizes[..sizes.len() - 2].to_vec();
        let matrices = batch(&filter).iter().product::<u32>() as usize;
        let (mut images, mut stack) = (rows(self.output, [depth, columns]), Vec::new());
        if matrices > 1 {
            let all = batch(&self.output.sizes());
            let [left, right] = [input, filter].map(|own| broadcast_strides(&batch(&own), &all));
            stack = places(&all, [&left, &right]);
            images = [stack.len(), images[1] / stack.len(), images[2] / stack.len()];
        }
        self.product(layout, matrices, [1, columns, depth], None, images, stack)
    }

    fn convolution(&self, options: &Conv2dAttributes) -> Result<QuantizedStep> {
        let shape = dense::conv2d_shape(options, [self.input, self.filter.1, self.output]);
        let ([inputs, channels], [pixels, outputs]) = (shape.group(), [shape.input, shape.output].map(area));
        let filter = Filter { strides: shape.filter_strides(), taps: [shape.filter[1], inputs] };
        let image = pixels * shape.channels[0];
        if let Some(constant) = self.filter.0.filter(|_| self.computed.filter_zero.is_none())
            && shape.is_depthwise()
            && channels == 1
        {
            return self.depthwise(options, &shape, constant, filter, image);
        }
        let pointwise = shape.groups == 1 && shape.is_pointwise();
        let images = [shape.batches, image, outputs];
        let images = if pointwise { [1, images[0] * image, images[0] * outputs] } else { images };
        let zero = self.op.input.zero as u8;
        let patches = (!pointwise).then(|| BytePatches { matrix: shape.patches(), zero });
        let sizes = [shape.groups, channels, inputs * area(shape.filter)];
        self.product(filter, shape.groups, sizes, patches, images, Vec::new())
    }

    fn depthwise(
        &self,
        options: &Conv2dAttributes,
        shape: &Conv2dShape,
        constant: &Constant,
        filter: Filter,
        image: usize,
    ) -> Result<QuantizedStep> {
        let (bytes, is_signed) = (constant.buffer()?, self.filter_signed());
        let at = |channel, k| number(bytes.bytes()[filter.place(channel, k)], is_signed) - self.filter_zero(channel);
        let ([_, width], channels) = (shape.filter, shape.channels[0]);
        let pair = |values: &[u32]| [values[0], values[1]];
        let padding = [0, 1, 2, 3].map(|side| options.padding[side].get());
        let input = options.input_layout.image(&self.input.sizes());
        let window = shape.filter.map(|size| size as u32);
        let slides = slides(input, window, padding, pair(&options.strides), pair(&options.dilations));
        let element = |channel, row, column| at(channel, row * width + column);
        let level = DotLevel::of(self.env.isa);
        let convolution = Depthwise::new(level, slides, shape.output, channels, self.is_signed(), element)?;
        let sum =
            |channel: Option<usize>| channel.map_or(0, |c| (0..area(shape.filter)).map(|k| at(c, k) as i32).sum());
        let order: Vec<(Option<usize>, i32)> = convolution.order().map(|channel| (channel, sum(channel))).collect();
        let takes_signed = convolution.takes_signed();
        let computed = (self.computed != ComputedOperands::default()).then(|| Computed {
            operands: self.computed,
            zero: self.zero(takes_signed),
            filter_zeros: Vec::new(),
            is_signed: takes_signed,
            filter_signed: is_signed,
            needs_rows: false,
            padded: order.len(),
        });
        // What is computed starts from nothing.
        let zero = if computed.is_some() { 0 } else { self.zero(takes_signed) };
        let each = order.iter().map(|&(channel, sum)| channel.map(|channel| (channel, sum, 0)));
        let columns = vec![self.columns(zero, each)];
        let (convolution, images) = (Box::new(convolution), shape.batches);
        let (output, zero) = ([shape.output[0], shape.output[1] * channels], self.op.input.zero as u8);
        let method = QuantizedMethod::Depthwise { convolution, images, image, output, zero, order };
        Ok(self.step(method, columns, computed))
    }

    /// A step that multiplies with so many right matrices, one for each of the groups or for the products of a stack, of
    /// these numbers of columns and of this depth.
    fn product(
        &self,
        filter: Filter,
        matrices: usize,
        [groups, columns, depth]: [usize; 3],
        patches: Option<BytePatches>,
        images: [usize; 3],
        stack: Vec<[usize; 2]>,
    ) -> Result<QuantizedStep> {
        let format = ByteFormat::of(self.env.isa);
        let mut right = Right { format, columns, depth, packed: Vec::new(), unpacked: None };
        let constant = self.filter.0.filter(|_| stack.is_empty());
        if let Some(constant) = constant {
            let panels = (0..matrices).map(|group| self.panels(constant, filter, group * columns, [columns, depth]));
            right.packed = panels.collect::<Result<_>>()?;
        } else {
            // The matrices of a stack are one after the other; those of groups are columns.
            let step = if stack.is_empty() { columns * filter.strides[0] } else { columns * depth };
            right.unpacked = Some(Unpacked {
                matrices: [matrices, step],
                is_signed: self.filter_signed(),
                stride: filter.strides[0],
                places: (0..depth).map(|k| filter.place(0, k)).collect(),
                zeros: vec![0; columns],
            });
        }
        let sizes = format.sizes();
        let (padded, zero) = (sizes.padded_columns(columns), self.zero(sizes.is_signed));
        let is_computed = constant.is_none() || self.computed != ComputedOperands::default();
        let unpacked = if constant.is_some() { 0 } else { groups * columns };
        let filter_zeros: Vec<i16> = (0..unpacked).map(|channel| self.filter_zero(channel)).collect();
        let is_lifted = (0..right.packed.len())
            .flat_map(|group| right.panels(group, &[]).sums_and_lifts())
            .any(|[_, lifts]| lifts.iter().any(|&lift| lift != 0));
        let needs_rows = self.computed.filter_zero.is_some()
            || filter_zeros.iter().any(|&zero| zero != 0)
            || if constant.is_some() { is_lifted } else { !self.filter_signed() };
        let computed = is_computed.then(|| Computed {
            operands: self.computed,
            zero,
            filter_zeros,
            is_signed: sizes.is_signed,
            filter_signed: self.filter_signed(),
            needs_rows,
            padded,
        });
        let rescale = |group: usize| {
            let mut known = vec![[0; 2]; padded];
            if !is_computed {
                let panels = right.panels(group, &[]).sums_and_lifts();
                let each = panels.flat_map(|[sums, lifts]| sums.iter().zip(lifts).map(|(&sum, &lift)| [sum, lift]));
                known.iter_mut().zip(each).for_each(|(to, own)| *to = own);
            }
            let own = |(column, [sum, lift]): (usize, [i32; 2])| {
                (column < columns).then(|| (group * columns + column, sum, lift))
            };
            self.columns(zero, known.into_iter().enumerate().map(own))
        };
        let rescales = (0..groups).map(rescale).collect();
        let product = Box::new(Product { right, groups, patches, images, stack });
        Ok(self.step(QuantizedMethod::Product(product), rescales, computed))
    }

    /// The panels of the `columns` output channels from `first` on. Packed once for all steps and graphs.
    fn panels(
        &self,
        constant: &Constant,
        filter: Filter,
        first: usize,
        [columns, depth]: [usize; 2],
    ) -> Result<Arc<Buffer>> {
        let (dtype, Filter { strides, taps }) = (self.filter.1.dtype, filter);
        let format = ByteFormat::of(self.env.isa);
        let zeros: Vec<i16> = (first..first + columns).map(|channel| self.filter_zero(channel)).collect();
        let form =
            ("int8", format.sizes().name, format.sizes().panel(), [columns, depth], first, strides, taps, &zeros);
        let weights = Weights::of(constant, dtype, Some(self.env.threads));
        weights.packed(&form, &[], BytePanels::bytes(format, columns, depth), |out| {
            let bytes = constant.buffer()?;
            let places: Vec<usize> = (0..depth).map(|k| filter.place(first, k)).collect();
            let (bytes, is_signed, stride) = (bytes.bytes(), dtype == DataType::Int8, strides[0]);
            let columns = ByteColumns { bytes, is_signed, stride, places: &places, zeros: &zeros, lift: None };
            BytePanels::pack(format, &weights, &columns, out);
            Ok(())
        })
    }

    /// How columns are rescaled, if `zero` represents 0 in rows. `each` has, per column, the output channel, the sum of
    /// its weights, and the lift subtracted from each weight.
    fn columns(&self, zero: i32, each: impl Iterator<Item = Option<(usize, i32, i32)>>) -> Rescale<'static> {
        let op = self.op;
        let scales = self.scales.as_ref().map(|scales| elements::<f32>(scales.bytes()));
        let bias = self.bias.as_ref().map(|bias| elements::<f32>(bias.bytes()));
        let addend = self.addend.as_ref().map(|addend| elements::<i32>(addend.bytes()));
        let step = op.output.map_or(1.0, |(_, output)| output.scale as f64);
        let count = each.size_hint().0;
        let (mut start, mut zeros) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut scale, mut bias_of) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for column in each {
            let (channel, sum, lift) = column.unwrap_or((0, 0, 0));
            // Weights that are `lift` too small make the sum too small by `lift` times the sum of the row.
            start.push(addend.map_or(0, |addend| addend[channel]).wrapping_sub(zero.wrapping_mul(sum)));
            zeros.push(-lift);
            let own = scales.map_or(1.0, |scales| scales[channel]);
            scale.push((op.input.scale as f64 * own as f64 / step) as f32);
            bias_of.push((bias.map_or(0.0, |bias| bias[channel]) as f64 / step) as f32);
        }
        if zeros.iter().all(|&zero| zero == 0) {
            zeros.clear();
        }
        let to = match op.output {
            None if self.sums => To::Sums,
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
            QuantizedMethod::Product(product) => {
                let Product { right, patches, .. } = &**product;
                let panels = BytePanels::of(right.format, right.columns, right.depth, &[]);
                let columns = self.columns[0].borrowed();
                ByteProduct { panels, columns, group: None, patches: patches.as_ref(), flip: self.flip }.scratch_bytes()
            }
        };
        bytes.next_multiple_of(64)
    }
}

impl Run for QuantizedStep {
    fn kernel(&self) -> &'static str {
        match &self.method {
            QuantizedMethod::Depthwise { .. } => "int8 depthwise",
            QuantizedMethod::Product(product) if product.patches.is_some() => "int8 im2col",
            QuantizedMethod::Product(_) => "int8 gemm",
        }
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        threads * self.slot() + self.shared_bytes().iter().sum::<usize>()
    }

    fn packed(&self) -> Vec<&Arc<Buffer>> {
        match &self.method {
            QuantizedMethod::Depthwise { convolution, .. } => vec![convolution.buffer()],
            QuantizedMethod::Product(product) => product.right.packed.iter().collect(),
        }
    }

    fn run(&self, env: &Env, io: &mut Io) {
        assert!(env.threads.count() <= self.threads);
        match &self.method {
            QuantizedMethod::Depthwise { .. } => self.depthwise(env, io),
            QuantizedMethod::Product(product) => self.product(env, io, product),
        }
    }
}

impl QuantizedStep {
    fn depthwise(&self, env: &Env, io: &mut Io) {
        let QuantizedMethod::Depthwise { convolution, images, image, output: [rows, row], zero, order } = &self.method
        else {
            unreachable!("another kind of product");
        };
        let (out, scratch, input) = (io.output::<u8>(), bytes_of_mut(io.scratch::<f32>()), io.input::<u8>(0));
        let [zeros, words] = self.shared_bytes();
        let (zeros, scratch) = scratch.split_at_mut(zeros);
        let (words, scratch) = scratch.split_at_mut(words);
        let (words, mut zero, known) = (elements_mut::<i32>(words), *zero, &self.columns[0]);
        if let Some(computed) = &self.computed {
            zero = computed.operands.zero.map_or(zero, |operand| io.input::<u8>(operand)[0]);
            let each = order.iter().map(|&(channel, sum)| (channel, sum, 0));
            computed.fill(known, each, 0, self.flip, io, words);
        }
        zeros.fill(zero);
        let columns = match &self.computed {
            Some(computed) => computed.rescale(known, &words[..computed.len()]),
            None => known.borrowed(),
        };
        let width = row * self.to().size();
        let matrix = Matrices { batches: 1, batch_stride: 0, rows: images * rows, row_stride: width, cols: width };
        // Moving bytes takes most of the time: per byte, it costs as much as a convolution of floats.
        let (cost, zeros) = (matrix.rows * row * convolution.taps(), &*zeros);
        Tiles::new(out, matrix, self.grid).share(env.threads, cost, elements_mut(scratch), |tile, scratch| {
            for (index, place) in tile.rows.clone().enumerate() {
                let image = &input[place / rows * image..];
                convolution.row(image, place % rows, &columns, zeros, scratch, tile.row(index));
            }
        });
    }

    /// Bytes of scratch memory for packed matrices or for bytes that represent 0, and for the rescaling.
    fn shared_bytes(&self) -> [usize; 2] {
        let (first, matrices) = match &self.method {
            QuantizedMethod::Depthwise { convolution, .. } => (convolution.zeros(), 1),
            QuantizedMethod::Product(product) => (product.right.scratch_bytes(), product.right.matrices()),
        };
        let words = self.computed.as_ref().map_or(0, |computed| matrices * computed.len());
        [first, words * size_of::<i32>()].map(|bytes| bytes.next_multiple_of(64))
    }

    fn product(&self, env: &Env, io: &mut Io, product: &Product) {
        let &Product { ref right, groups, ref patches, images: [batches, image, rows], ref stack } = product;
        let (out, scratch, input) = (io.output::<u8>(), bytes_of_mut(io.scratch::<f32>()), io.input::<u8>(0));
        let [packed, words] = self.shared_bytes();
        let (packed, scratch) = scratch.split_at_mut(packed);
        let (words, scratch) = scratch.split_at_mut(words);
        let words = elements_mut::<i32>(words);
        if right.unpacked.is_some() {
            right.pack(env.threads, io.input::<u8>(1), packed);
        }
        let mut patches = patches.clone();
        if let Some(computed) = &self.computed {
            for (matrix, words) in words.chunks_exact_mut(computed.len()).take(right.matrices()).enumerate() {
                let group = matrix % groups;
                let each = right.panels(matrix, packed).sums_and_lifts();
                let each = each.flat_map(|[sums, lifts]| sums.iter().zip(lifts)).enumerate();
                let each = each.map(|(column, (&sum, &lift))| {
                    ((column < right.columns).then_some(group * right.columns + column), sum, lift)
                });
                computed.fill(&self.columns[group], each, right.depth, self.flip, io, words);
            }
            if let (Some(patches), Some(operand)) = (&mut patches, computed.operands.zero) {
                patches.zero = io.input::<u8>(operand)[0];
            }
        }
        let (packed, words) = (&*packed, &*words);
        let width = right.columns * groups * self.to().size();
        let matrix = Matrices { batches, batch_stride: rows * width, rows, row_stride: width, cols: width };
        let cost = bytes_as_floats(right.format, batches * rows * right.columns * groups * right.depth);
        Tiles::new(out, matrix, self.grid).share(env.threads, cost, elements_mut(scratch), |tile, scratch| {
            let [left, first] = stack.get(tile.batch).copied().unwrap_or([tile.batch, 0]);
            for group in 0..groups {
                let (matrix, known) = (first + group, &self.columns[group]);
                let columns = match &self.computed {
                    Some(computed) => computed.rescale(known, &words[matrix * computed.len()..][..computed.len()]),
                    None => known.borrowed(),
                };
                let panels = right.panels(matrix, packed);
                let group = (groups > 1).then_some(group);
                let product = ByteProduct { panels, columns, group, patches: patches.as_ref(), flip: self.flip };
                product.run(&input[left * image..][..image], tile, scratch);
            }
        });
    }
}

#[cfg(test)]
#[path = "quantized_tests.rs"]
mod tests;
