//! Transposed convolution: `convTranspose2d` of the draft.
//!
//! Multiplies each row of the filter with the input pixels, and adds the results to the output where the columns of the
//! filter map them: no product is wasted on zeros between input elements, and every output is a single sum in the order
//! of the filter. If taps do not overlap ([`Disjoint`]), there is nothing to add; with channels first, constant filters
//! whose taps are spread evenly are [`Phases`].

use super::Env;
use super::convolution::ConvTranspose2dShape;
use super::disjoint::Disjoint;
use super::phases::Phases;
use crate::cpu::kernels::float::Floats;
use crate::cpu::product::columns::Columns;
use crate::cpu::product::finish::Tail;
use crate::cpu::product::frame::{Cutting, Product};
use crate::cpu::product::matrix::{Matrix, PatchMatrix, Patches, StridedMatrix};
use crate::cpu::product::panels::{Layout, Panels};
use crate::cpu::product::rows::Rows;
use crate::cpu::product::tile::tile_size;
use crate::cpu::schedule::partition::{Cut, Grid};
use crate::cpu::schedule::tiles::{Matrices, Tile, Tiles};
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::cpu::weights::Weights;
use crate::error::Result;
use crate::memory::Buffer;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Maximum floats of a product before they are added to the output: half of a second-level cache.
const SUMS: usize = 1 << 16;

/// Maximum input pixels of a product.
const MAX_PIXELS: usize = 240;

/// Maximum output elements of a tile: they are read and written once per row of the filter.
const TILE: usize = 1 << 16;

/// Minimum output columns of a tile when rows are cut: input pixels at the cuts are multiplied twice.
const MIN_COLUMNS: usize = 128;

/// Tiles per thread.
const TILES: usize = 4;

/// One axis of a transposed convolution: input element `at` and tap `tap` contribute to output element
/// `at * stride + tap * dilation - padding`.
#[derive(Clone, Copy)]
struct Axis {
    input: usize,
    filter: usize,
    stride: usize,
    dilation: usize,
    padding: usize,
}

impl Axis {
    fn of(shape: &ConvTranspose2dShape, axis: usize) -> Axis {
        Axis {
            input: shape.input[axis],
            filter: shape.filter[axis],
            stride: shape.strides[axis],
            dilation: shape.dilations[axis],
            padding: shape.padding[axis],
        }
    }

    /// The input elements that contribute to `outputs` through `tap`.
    fn inputs(self, tap: usize, outputs: &Range<usize>) -> Range<usize> {
        let below = |output: usize| {
            (output + self.padding).saturating_sub(tap * self.dilation).div_ceil(self.stride).min(self.input)
        };
        below(outputs.start)..below(outputs.end)
    }

    /// The input elements that contribute to `outputs` through any tap.
    fn inputs_of_all(self, outputs: &Range<usize>) -> Range<usize> {
        self.inputs(self.filter - 1, outputs).start..self.inputs(0, outputs).end
    }

    /// The output element that input element `at` contributes to through `tap`; it must exist.
    fn output(self, at: usize, tap: usize) -> usize {
        at * self.stride + tap * self.dilation - self.padding
    }
}

/// A compiled transposed convolution.
pub struct ConvTranspose2dStep {
    shape: ConvTranspose2dShape,
    isa: Isa,
    threads: usize,
    /// A row of the filter of one group. Lanes are pairs of tap and output channel: with channels last, the channels
    /// are innermost, else the taps.
    filter: PatchMatrix,
    /// Each row of the filter of each group, if it is constant.
    packed: Vec<Panels>,
    /// The method for a constant filter with taps that do not overlap.
    disjoint: Option<Disjoint>,
    /// The method for a constant filter with channels first and as many taps in each phase of the output.
    phases: Option<Box<Phases>>,
    /// How the output is cut: with channels last, the rows and columns of an image, otherwise the channels of a group
    /// and the pixels.
    grid: Grid,
    /// Maximum input pixels of a product.
    pixels: usize,
}

impl ConvTranspose2dStep {
    /// Plans the transposed convolution for `threads` threads and an instruction set. Packs a
    /// constant `filter`; [`run`](Self::run) then does not read its elements.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for the packed filter, an `OperationError` if mapped weights
    /// cannot be read.
    pub fn new(
        isa: Isa,
        threads: usize,
        shape: ConvTranspose2dShape,
        filter: Option<Weights>,
    ) -> Result<ConvTranspose2dStep> {
        let ([channels, group], [_, wide]) = (shape.group(), shape.filter);
        let [o, i, _, tap] = shape.filter_strides();
        let (image_stride, column_stride, columns) = if shape.channels_last { (tap, o, group) } else { (o, tap, wide) };
        let matrix = PatchMatrix {
            channels,
            channels_first: false,
            size: [1, columns],
            image_stride,
            channel_stride: i,
            strides: [0, column_stride],
            out: [1, columns],
            step: [1, 1],
            taps: [vec![0], vec![0]],
        };
        let pixels = (SUMS / (group * wide).max(1)).clamp(1, MAX_PIXELS);
        let grid = grid(&shape, threads);
        let (packed, disjoint, phases) = (Vec::new(), None, None);
        let mut step =
            ConvTranspose2dStep { shape, isa, threads, filter: matrix, packed, disjoint, phases, grid, pixels };
        if let Some(filter) = filter {
            if Phases::fits(&step.shape) {
                step.phases = Some(Box::new(Phases::new(isa, threads, &step.shape, filter)?));
                return Ok(step);
            }
            step.packed = step.prepack(filter)?;
            step.disjoint = Disjoint::fits(&step.shape).then(|| Disjoint::new(isa, threads, &step.shape));
        }
        Ok(step)
    }

    /// Plans a transposed convolution of other sizes with the same filter; returns `false` if the step must be rebuilt.
    #[must_use]
    pub fn resize(&mut self, shape: ConvTranspose2dShape) -> bool {
        let of_filter = |shape: &ConvTranspose2dShape| {
            let ConvTranspose2dShape { groups, channels, filter, strides, channels_last, layout, .. } = *shape;
            (groups, channels, filter, strides, channels_last, layout, Disjoint::fits(shape), Phases::fits(shape))
        };
        let fits = of_filter(&shape) == of_filter(&self.shape);
        if fits {
            self.grid = grid(&shape, self.threads);
            self.disjoint.iter_mut().for_each(|disjoint| disjoint.resize(&shape));
            self.phases.iter_mut().for_each(|phases| phases.resize(&shape));
            self.shape = shape;
        }
        fits
    }

    fn prepack(&self, filter: Weights) -> Result<Vec<Panels>> {
        let [depth, group] = self.shape.group();
        let width = if self.shape.channels_last { tile_size(self.isa).cols } else { 1 };
        let rows = (0..self.shape.groups).flat_map(|group| (0..self.shape.filter[0]).map(move |row| (group, row)));
        let pack = |(index, row)| {
            let weights = filter.skip(self.filter_start(index, row));
            let layout = Layout::Patches(Cow::Borrowed(&self.filter));
            Panels::new(self.isa, weights, layout, group * self.shape.filter[1], depth, width)
        };
        rows.map(pack).collect()
    }

    /// The offset of row `row` of the filter of `group`.
    fn filter_start(&self, group: usize, row: usize) -> usize {
        let [_, input, height, _] = self.shape.filter_strides();
        group * self.shape.group()[0] * input + row * height
    }

    /// Scratch lengths of a thread in floats: the sums of a product, and operands.
    fn slot_parts(&self) -> [usize; 2] {
        let ([depth, group], [rows, _]) = (self.shape.group(), self.grid.largest());
        let lanes = self.shape.filter[1] * if self.shape.channels_last { group } else { rows };
        let size = if self.shape.channels_last { [self.pixels, lanes] } else { [lanes, self.pixels] };
        let cutting = Cutting {
            batches: 1,
            size: [size[0], size[1], depth],
            copies_rows: true,
            packs_columns: true,
            rereads: false,
        };
        [size[0] * size[1], cutting.scratch_len(self.isa, &Grid::whole(size[0], size[1]))]
    }

    /// Scratch length in `f32` elements that [`run`](Self::run) needs.
    pub fn scratch_len(&self) -> usize {
        match (&self.disjoint, &self.phases) {
            (Some(disjoint), _) => disjoint.scratch_len(),
            (_, Some(phases)) => phases.scratch_len(&self.shape),
            _ => self.slot_parts().iter().sum::<usize>().next_multiple_of(16) * self.threads,
        }
    }

    /// The buffers of the packed filter.
    pub fn packed(&self) -> impl Iterator<Item = &Arc<Buffer>> {
        self.packed.iter().map(Panels::buffer).chain(self.phases.iter().map(|phases| &phases.weights))
    }

    /// The kernel name.
    pub fn kernel(&self) -> &'static str {
        match (&self.disjoint, &self.phases) {
            (Some(_), _) => "convTranspose2d gemm",
            (_, Some(_)) => "convTranspose2d direct",
            _ => "convTranspose2d taps",
        }
    }

    /// Computes the transposed convolution of the input with the filter, which is not read if it is packed; `bias` has
    /// one element per output channel.
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
        let input = input.expect("the input of a convolution");
        if let Some(disjoint) = &self.disjoint {
            return disjoint.run(env, (input, &self.packed), bias, tail, out, scratch);
        }
        if let Some(phases) = &self.phases {
            return phases.run(env, &self.shape, (input, bias), tail, out, scratch);
        }
        TapCall { step: self, input, filter, bias, tail }.run(env, out, scratch);
    }
}

/// The tiles of the output: even, small enough for a cache, and several per thread.
fn grid(shape: &ConvTranspose2dShape, threads: usize) -> Grid {
    let ([high, wide], [_, group]) = (shape.output, shape.group());
    let most = (TILE / (wide * if shape.channels_last { shape.channels[1] } else { group })).max(1);
    let wanted = if threads == 1 { 1 } else { TILES * threads };
    let strips = |parallel: usize| Cut::new(high, 1, high.div_ceil(most).max(wanted.div_ceil(parallel)));
    if shape.channels_last {
        let rows = strips(shape.batches);
        let across = wanted.div_ceil(shape.batches * rows.parts()).min(wide.div_ceil(MIN_COLUMNS));
        return Grid { rows, cols: Cut::new(wide, 1, across).scaled(shape.channels[1]) };
    }
    let rows = strips(shape.batches * shape.groups);
    let channels = Cut::new(group, 1, wanted.div_ceil(shape.batches * shape.groups * rows.parts()));
    Grid { rows: channels, cols: rows.scaled(wide) }
}

/// The operands of a run.
struct TapCall<'a> {
    step: &'a ConvTranspose2dStep,
    input: &'a [f32],
    filter: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
    tail: Tail<'a>,
}

impl TapCall<'_> {
    fn run(&self, env: &Env, out: &mut [f32], scratch: &mut [f32]) {
        let shape = &self.step.shape;
        let ([_, group], [high, wide], channels) = (shape.group(), shape.output, shape.channels[1]);
        let matrices = match shape.channels_last {
            true => {
                let row = wide * channels;
                Matrices { batches: shape.batches, batch_stride: high * row, rows: high, row_stride: row, cols: row }
            }
            false => {
                let (batches, pixels) = (shape.batches * shape.groups, high * wide);
                Matrices { batches, batch_stride: group * pixels, rows: group, row_stride: pixels, cols: pixels }
            }
        };
        let inputs = shape.batches * shape.channels[0] * shape.input[0] * shape.input[1];
        let cost = inputs * group * shape.filter[0] * shape.filter[1];
        Tiles::new(out, matrices, self.step.grid).share(env.threads, cost, scratch, |tile, scratch| {
            self.tile(tile, scratch);
        });
    }

    fn tile(&self, tile: &mut Tile<f32>, scratch: &mut [f32]) {
        let (step, isa) = (self.step, self.step.isa);
        let (sums, scratch) = scratch.split_at_mut(step.slot_parts()[0]);
        let (first, count) = (tile.rows.start, tile.rows.len());
        (0..count).for_each(|row| self.begin(first + row, tile.batch, tile.row(row)));
        if step.shape.channels_last {
            self.channels_last(tile, sums, scratch);
        } else {
            self.channels_first(tile, sums, scratch);
        }
        (0..count).for_each(|row| self.tail.apply(isa, tile.offset(row), tile.row(row)));
    }

    /// Initializes sums with the bias. With channels last, `row` is a row of an image, otherwise a channel of a group.
    fn begin(&self, row: usize, batch: usize, out: &mut [f32]) {
        let shape = &self.step.shape;
        let Some(bias) = self.bias else { return out.fill(0.0) };
        if !shape.channels_last {
            return out.fill(bias[batch % shape.groups * shape.group()[1] + row]);
        }
        let channels = shape.channels[1];
        out[..channels].copy_from_slice(&bias[..channels]);
        (channels..out.len()).step_by(channels).for_each(|pixel| out.copy_within(..channels, pixel));
    }

    /// The row of the filter of `group`, as columns or as rows.
    fn filter(&self, group: usize, row: usize) -> std::result::Result<&Panels, Patches<'_>> {
        let step = self.step;
        step.packed.get(group * step.shape.filter[0] + row).ok_or_else(|| {
            let filter = self.filter.expect("the filter was not packed");
            Patches { image: &filter[step.filter_start(group, row)..], matrix: &step.filter }
        })
    }

    fn channels_last(&self, out: &mut Tile<f32>, sums: &mut [f32], scratch: &mut [f32]) {
        let (step, shape) = (self.step, &self.step.shape);
        let ([depth, group], [inputs, channels], [high, wide]) = (shape.group(), shape.channels, shape.input);
        let (down, across) = (Axis::of(shape, 0), Axis::of(shape, 1));
        let (first, rows) = (out.rows.start, out.rows.clone());
        let columns = out.cols.start / channels..out.cols.end / channels;
        let image = &self.input[out.batch * high * wide * inputs..];
        let (xs, taps) = (across.inputs_of_all(&columns), group * across.filter);
        for index in 0..shape.groups {
            let data = Floats::F32(&image[index * depth..]);
            let pixels = StridedMatrix { data, lane_stride: inputs, depth_stride: 1 };
            for tap in 0..down.filter {
                let columns_of_filter = self
                    .filter(index, tap)
                    .map_or_else(|patches| Columns::Matrix(Matrix::Patches(patches)), Columns::Panels);
                let product = Product {
                    isa: step.isa,
                    depth,
                    rows: Rows::Matrix(Matrix::Strided(pixels)),
                    columns: columns_of_filter,
                };
                for (ys, xs) in blocks(down.inputs(tap, &rows), xs.clone(), wide, step.pixels) {
                    let lanes = ys.start * wide + xs.start..(ys.end - 1) * wide + xs.end;
                    let sums = &mut sums[..lanes.len() * taps];
                    product.sums(lanes, 0..taps, sums, scratch);
                    for (y, sums) in ys.zip(sums.chunks(wide * taps)) {
                        let out = out.row(down.output(y, tap) - first);
                        let (xs, columns) = (xs.clone(), columns.clone());
                        step.isa.run(AddPixels { sums, xs, across, columns, at: index * group, group, channels, out });
                    }
                }
            }
        }
    }

    fn channels_first(&self, out: &mut Tile<f32>, sums: &mut [f32], scratch: &mut [f32]) {
        let (step, shape) = (self.step, &self.step.shape);
        let ([depth, _], [high, wide], columns) = (shape.group(), shape.input, shape.output[1]);
        let (down, across) = (Axis::of(shape, 0), Axis::of(shape, 1));
        let channels = out.rows.clone();
        let rows = out.cols.start / columns..out.cols.end / columns;
        let data = Floats::F32(&self.input[out.batch * depth * high * wide..]);
        let pixels = StridedMatrix { data, lane_stride: 1, depth_stride: high * wide };
        let pixels = Columns::Matrix(Matrix::Strided(pixels));
        for tap in 0..down.filter {
            let filter = self
                .filter(out.batch % shape.groups, tap)
                .map_or_else(|patches| Rows::Matrix(Matrix::Patches(patches)), Rows::Panels);
            let product = Product { isa: step.isa, depth, rows: filter, columns: pixels };
            for (ys, xs) in blocks(down.inputs(tap, &rows), 0..wide, wide, step.pixels) {
                let lanes = ys.start * wide + xs.start..(ys.end - 1) * wide + xs.end;
                let of_channel = lanes.len() * across.filter;
                let sums = &mut sums[..channels.len() * of_channel];
                product.sums(channels.start * across.filter..channels.end * across.filter, lanes, sums, scratch);
                for (channel, sums) in sums.chunks_exact(of_channel).enumerate() {
                    let out = out.row(channel);
                    let line = |y: usize| (down.output(y, tap) - rows.start) * columns;
                    for (index, sums) in sums.chunks_exact(xs.len()).enumerate() {
                        let (tap, y) = (index / ys.len(), ys.start + index % ys.len());
                        let met = across.inputs(tap, &(0..columns));
                        let met = met.start.max(xs.start)..met.end.min(xs.end);
                        if !met.is_empty() {
                            let sums = &sums[met.start - xs.start..met.end - xs.start];
                            let out = out[line(y) + across.output(met.start, tap)..].iter_mut().step_by(across.stride);
                            out.zip(sums).for_each(|(out, sum)| *out += sum);
                        }
                    }
                }
            }
        }
    }
}

/// Splits `ys` by `xs` input pixels into blocks: at most `pixels` consecutive ones, from rows of `wide`.
fn blocks(
    ys: Range<usize>,
    xs: Range<usize>,
    wide: usize,
    pixels: usize,
) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let (down, across) = if xs.len() == wide && wide <= pixels { (pixels / wide, wide) } else { (1, pixels) };
    ys.clone().step_by(down).flat_map(move |y| {
        let (rows, end) = (y..(y + down).min(ys.end), xs.end);
        xs.clone().step_by(across).map(move |x| (rows.clone(), x..(x + across).min(end)))
    })
}

/// Adds the products of some pixels of an input row and one row of the filter.
struct AddPixels<'a> {
    /// `[pixel][tap][channel]`.
    sums: &'a [f32],
    /// The pixels.
    xs: Range<usize>,
    across: Axis,
    /// The output columns in `out`.
    columns: Range<usize>,
    /// The first channel, and the number of channels.
    at: usize,
    group: usize,
    /// Channels per output pixel.
    channels: usize,
    out: &'a mut [f32],
}

impl Kernel for AddPixels<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let AddPixels { sums, xs, across, columns, at, group, channels, out } = self;
        // Taps that are contiguous in the output as well.
        let run = if group == channels && across.dilation == 1 { across.filter } else { 1 };
        for (x, sums) in xs.zip(sums.chunks_exact(across.filter * group)) {
            for (first, sums) in (0..across.filter).step_by(run).zip(sums.chunks_exact(run * group)) {
                // Relative to the first column of `out`; may be negative.
                let column =
                    (x * across.stride + first * across.dilation) as isize - (across.padding + columns.start) as isize;
                let taps = (-column).max(0)..(columns.len() as isize - column).min(run as isize);
                if taps.start < taps.end {
                    let from = (column + taps.start) as usize * channels + at;
                    let sums = &sums[taps.start as usize * group..taps.end as usize * group];
                    for (out, sum) in out[from..][..sums.len()].iter_mut().zip(sums) {
                        *out += sum;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::ops::conv_transpose2d::TransposedFilterLayout;
    use proptest::prelude::*;

    /// The formula in `f64`, by scattering: the value and the sum of magnitudes of each output.
    fn reference(s: &ConvTranspose2dShape, input: &[f32], filter: &[f32], bias: &[f32]) -> Vec<(f64, f64)> {
        let ([ic, row, col], f) = (s.input_strides(), s.filter_strides());
        let ([gi, go], [oh, ow]) = (s.group(), s.output);
        let mut out = vec![(0.0, 0.0); s.batches * s.channels[1] * oh * ow];
        let at = |n: usize, o: usize, y: usize, x: usize| match s.channels_last {
            true => ((n * oh + y) * ow + x) * s.channels[1] + o,
            false => ((n * s.channels[1] + o) * oh + y) * ow + x,
        };
        for n in 0..s.batches {
            for (o, bias) in bias.iter().enumerate() {
                for (y, x) in (0..oh).flat_map(|y| (0..ow).map(move |x| (y, x))) {
                    out[at(n, o, y, x)] = (*bias as f64, bias.abs() as f64);
                }
            }
            for (i, y, x) in (0..s.channels[0])
                .flat_map(|i| (0..s.input[0]).flat_map(move |y| (0..s.input[1]).map(move |x| (i, y, x))))
            {
                let image = n * s.channels[0] * s.input[0] * s.input[1];
                let value = input[image + i * ic + y * row + x * col] as f64;
                for (ty, tx) in (0..s.filter[0]).flat_map(|ty| (0..s.filter[1]).map(move |tx| (ty, tx))) {
                    let oy = (y * s.strides[0] + ty * s.dilations[0]) as isize - s.padding[0] as isize;
                    let ox = (x * s.strides[1] + tx * s.dilations[1]) as isize - s.padding[1] as isize;
                    if oy < 0 || ox < 0 || oy >= oh as isize || ox >= ow as isize {
                        continue;
                    }
                    for o in 0..go {
                        let weight = filter[o * f[0] + i * f[1] + ty * f[2] + tx * f[3]] as f64;
                        let out = &mut out[at(n, i / gi * go + o, oy as usize, ox as usize)];
                        out.0 += value * weight;
                        out.1 += (value * weight).abs();
                    }
                }
            }
        }
        out
    }

    /// Checks a filter that is an operand or packed, as float16 if `is_half`.
    fn check(shape: &ConvTranspose2dShape, is_half: bool) {
        let [gi, go] = shape.group();
        let taps = shape.filter[0] * shape.filter[1];
        let input = random(shape.batches * shape.channels[0] * shape.input[0] * shape.input[1], 1);
        let (filter_half, filter) = halves(&random(shape.channels[0] * go * taps, 2));
        let bias = random(shape.channels[1], 3);
        let exact = reference(shape, &input, &filter, &bias);
        let doubled: Vec<_> = exact.iter().map(|&(x, m)| (2.0 * x, 2.0 * m)).collect();
        for packed in [false, true] {
            let run = |env: &Env| {
                let threads = env.threads.count();
                let constant =
                    packed.then(|| if is_half { Weights::of_slice(&filter_half) } else { Weights::of_slice(&filter) });
                // Planned for larger images first.
                let larger = ConvTranspose2dShape {
                    input: shape.input.map(|size| size + 3),
                    output: [0, 1].map(|axis| shape.output[axis] + 3 * shape.strides[axis]),
                    ..shape.clone()
                };
                let mut step = ConvTranspose2dStep::new(env.isa, threads, larger, constant).unwrap();
                assert!(step.resize(shape.clone()));
                let mut out = vec![f32::NAN; exact.len()];
                let mut scratch = vec![f32::NAN; step.scratch_len()];
                let double = |_: usize, xs: &mut [f32]| xs.iter_mut().for_each(|x| *x *= 2.0);
                let operands = [Some(&input[..]), (!packed).then_some(&filter[..])];
                let tail = Tail { finish: Some(&double), ..Tail::NONE };
                step.run(env, operands, Some(&bias), tail, &mut out, &mut scratch);
                out
            };
            on_all(run, |env, out| {
                assert_sums(out, &doubled, gi * taps + 1, || {
                    format!("{shape:?}, packed {packed}, {:?}, {} threads", env.isa, env.threads.count())
                });
            });
        }
    }

    /// A shape with the output size that follows from the other numbers, including `extra` rows and columns.
    #[expect(clippy::too_many_arguments, reason = "the numbers of a test case")]
    fn shape(
        groups: usize,
        [gi, go]: [usize; 2],
        input: [usize; 2],
        filter: [usize; 2],
        strides: [usize; 2],
        dilations: [usize; 2],
        [top, bottom, left, right]: [usize; 4],
        extra: usize,
    ) -> Option<ConvTranspose2dShape> {
        let size = |axis: usize, padding: usize| {
            ((input[axis] - 1) * strides[axis] + (filter[axis] - 1) * dilations[axis] + 1 + extra)
                .checked_sub(padding)
                .filter(|&size| size > 0)
        };
        Some(ConvTranspose2dShape {
            batches: 2,
            groups,
            channels: [groups * gi, groups * go],
            input,
            filter,
            output: [size(0, top + bottom)?, size(1, left + right)?],
            strides,
            dilations,
            padding: [top, left],
            channels_last: false,
            layout: TransposedFilterLayout::Iohw,
        })
    }

    const LAYOUTS: [TransposedFilterLayout; 3] =
        [TransposedFilterLayout::Iohw, TransposedFilterLayout::Hwoi, TransposedFilterLayout::Ohwi];

    #[test]
    fn layouts_groups_and_edges() {
        let cases = [
            shape(1, [3, 5], [4, 6], [3, 3], [1, 1], [1, 1], [0; 4], 0),
            shape(1, [3, 13], [5, 5], [2, 2], [2, 2], [1, 1], [0; 4], 0),
            shape(2, [3, 2], [5, 7], [4, 4], [2, 2], [1, 1], [1; 4], 0),
            // Taps that do not overlap.
            shape(1, [3, 35], [5, 6], [2, 2], [2, 2], [1, 1], [0; 4], 0),
            shape(1, [130, 5], [3, 7], [1, 3], [1, 3], [1, 1], [0; 4], 0),
            // Phases with equal numbers of taps; padding cuts off some outputs.
            shape(5, [1, 1], [7, 19], [8, 8], [4, 4], [1, 1], [2; 4], 0),
            shape(2, [2, 3], [6, 9], [4, 6], [2, 3], [1, 1], [3, 1, 4, 2], 1),
            shape(1, [1, 1], [2, 2], [6, 2], [2, 2], [1, 1], [5, 4, 1, 0], 0),
            // Phases without any tap.
            shape(1, [2, 33], [3, 4], [1, 2], [3, 3], [1, 1], [0; 4], 2),
            shape(3, [1, 1], [4, 3], [3, 2], [2, 3], [2, 3], [1, 2, 3, 0], 1),
            shape(1, [70, 3], [3, 40], [3, 3], [2, 1], [1, 2], [2, 0, 1, 1], 0),
        ];
        for base in cases.into_iter().flatten() {
            for channels_last in [false, true] {
                for layout in LAYOUTS {
                    check(&ConvTranspose2dShape { channels_last, layout, ..base.clone() }, false);
                }
                check(&ConvTranspose2dShape { channels_last, ..base.clone() }, true);
            }
        }
    }

    #[test]
    fn large_enough_for_threads() {
        let base = shape(1, [40, 30], [12, 14], [4, 4], [2, 2], [1, 1], [1; 4], 0).unwrap();
        for channels_last in [false, true] {
            check(&ConvTranspose2dShape { channels_last, ..base.clone() }, false);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn random_shapes(
            (groups, gi, go) in (1usize..4, 1usize..5, 1usize..8),
            input in [1usize..7, 1usize..20],
            filter in [1usize..4, 1usize..5],
            strides in [1usize..4, 1usize..4],
            dilations in [1usize..3, 1usize..4],
            padding in [0usize..3, 0usize..3, 0usize..3, 0usize..3],
            (extra, channels_last, layout) in (0usize..3, any::<bool>(), 0usize..3),
        ) {
            if let Some(base) = shape(groups, [gi, go], input, filter, strides, dilations, padding, extra) {
                check(&ConvTranspose2dShape { channels_last, layout: LAYOUTS[layout], ..base }, false);
            }
        }
    }
}
