//! Transposed convolution: `convTranspose2d` of the draft.
//!
//! Output positions with the same residue by the strides form a *phase*. Within one phase every position reads
//! the same taps, at input positions one apart: a plain convolution with step 1 and some of the taps. So no
//! product is wasted on the zeros between input elements, and every output is one sum in a fixed order.
//!
//! Where taps do not meet ([`Disjoint`]), no phase is needed: each row of the output is a product of its own.

use super::Env;
use super::convolution::ConvTranspose2dShape;
use super::disjoint::Disjoint;
use crate::cpu::kernels::float::{Float, Floats, FloatsMut, narrow};
use crate::cpu::product::columns::Columns;
use crate::cpu::product::finish::{Addend, Epilogue, Tail};
use crate::cpu::product::frame::{Cutting, Product};
use crate::cpu::product::panels::{Layout, Panels};
use crate::cpu::product::rows::{PatchMatrix, Patches, Rows};
use crate::cpu::product::tile::tile_size;
use crate::cpu::schedule::partition::{Cut, Grid};
use crate::cpu::schedule::tiles::{Matrices, Tile, Tiles};
use crate::cpu::simd::Isa;
use crate::cpu::weights::Weights;
use crate::dtype::DataType;
use crate::error::Result;
use crate::memory::{Buffer, check_room};
use crate::with_floats;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

impl ConvTranspose2dShape {
    /// The first output position, along one axis, of each residue that a tap of the filter meets.
    fn residues(&self, axis: usize) -> Vec<usize> {
        let (stride, padding) = (self.strides[axis] as i64, self.padding[axis] as i64);
        let residue = |tap: usize| (tap as i64 * self.dilations[axis] as i64 - padding).rem_euclid(stride) as usize;
        let mut residues: Vec<usize> =
            (0..self.filter[axis]).map(residue).filter(|&residue| residue < self.output[axis]).collect();
        residues.sort_unstable();
        residues.dedup();
        residues
    }

    /// The output of one image.
    fn matrices(&self) -> Matrices {
        let ([_, group], pixels) = (self.group(), self.output[0] * self.output[1]);
        if self.channels_last {
            let row_stride = self.channels[1];
            Matrices { batches: self.groups, batch_stride: group, rows: pixels, row_stride, cols: group }
        } else {
            let batch_stride = group * pixels;
            Matrices { batches: self.groups, batch_stride, rows: group, row_stride: pixels, cols: pixels }
        }
    }
}

/// The output positions with one residue, as a convolution with step 1.
struct Phase {
    /// The first output row and column.
    first: [usize; 2],
    /// The input under each position of the phase.
    patches: PatchMatrix,
    /// The taps of the filter in the same depth order.
    filter: PatchMatrix,
}

impl Phase {
    fn new(shape: &ConvTranspose2dShape, first: [usize; 2]) -> Phase {
        // Of each tap that meets this residue: the input position under the first output, and the tap.
        let meeting = [0, 1].map(|axis| {
            let stride = shape.strides[axis] as isize;
            (0..shape.filter[axis] as isize)
                .map(|tap| (first[axis] + shape.padding[axis]) as isize - tap * shape.dilations[axis] as isize)
                .enumerate()
                .filter(|(_, distance)| distance.rem_euclid(stride) == 0)
                .map(|(tap, distance)| (distance.div_euclid(stride), tap as isize))
                .collect::<Vec<_>>()
        });
        let [channel_stride, row, col] = shape.input_strides();
        let [channels, _] = shape.group();
        let patches = PatchMatrix {
            channels,
            channels_first: !shape.channels_last,
            size: shape.input,
            image_stride: 0,
            channel_stride,
            strides: [row, col],
            out: [0, 1].map(|axis| (shape.output[axis] - first[axis]).div_ceil(shape.strides[axis])),
            step: [1, 1],
            taps: meeting.each_ref().map(|taps| taps.iter().map(|tap| tap.0).collect()),
        };
        let [o, i, row, col] = shape.filter_strides();
        let filter = PatchMatrix {
            size: shape.filter,
            image_stride: o,
            channel_stride: i,
            strides: [row, col],
            out: [1, 1],
            taps: meeting.map(|taps| taps.iter().map(|tap| tap.1).collect()),
            ..patches.clone()
        };
        Phase { first, patches, filter }
    }

    /// Where the filter of one group starts.
    fn group_start(&self, group: usize) -> usize {
        group * self.filter.channels * self.filter.channel_stride
    }

    /// The rows of the phase that lie in the output rows `rows`.
    fn rows(&self, stride: usize, rows: &Range<usize>) -> Range<usize> {
        let below = |row: usize| row.saturating_sub(self.first[0]).div_ceil(stride);
        below(rows.start)..below(rows.end)
    }
}

/// Output elements of a tile per output channel: enough columns for the product, few enough for the cache.
const TILE_PIXELS: usize = 2048;

/// Bytes of a phase with its lists of taps, and of its packed filter, at least.
const PHASE_BYTES: usize = size_of::<Phase>() + 512;

/// The most output channels of a tile.
const TILE_CHANNELS: usize = 240;

/// A transposed convolution, ready to run.
pub struct ConvTranspose2dStep {
    shape: ConvTranspose2dShape,
    /// Of the input and the output.
    dtype: DataType,
    isa: Isa,
    threads: usize,
    /// Those that have taps: no more than the filter has, however large the strides are.
    phases: Vec<Phase>,
    /// Whether the phases cover the output; elsewhere the sums are 0.
    complete: bool,
    /// The filters of each phase of each group, when it is constant and taps meet.
    packed: Vec<Panels>,
    /// The constant filter of taps that do not meet.
    disjoint: Option<Disjoint>,
    /// The tiles of each image and group.
    grid: Grid,
    /// Output rows of a tile, at most.
    strip: usize,
}

impl ConvTranspose2dStep {
    /// Plans the transposed convolution of elements of type `dtype` for `threads` threads at a level. A constant `filter` is
    /// packed; [`run`](Self::run) does not read its elements.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for the packed filter, or for the phases of a huge one with huge strides, an
    /// `OperationError` when mapped weights cannot be read.
    pub fn new(
        isa: Isa,
        threads: usize,
        shape: ConvTranspose2dShape,
        dtype: DataType,
        filter: Option<Weights>,
    ) -> Result<ConvTranspose2dStep> {
        let (mut step, filter) = match filter {
            Some(filter) if Disjoint::fits(&shape) => {
                let disjoint = Some(Disjoint::new(isa, threads, &shape, dtype, filter)?);
                let (phases, packed, grid) = (Vec::new(), Vec::new(), Grid::whole(0, 0));
                let step = ConvTranspose2dStep {
                    shape,
                    dtype,
                    isa,
                    threads,
                    phases,
                    complete: true,
                    packed,
                    disjoint,
                    grid,
                    strip: 0,
                };
                (step, None)
            }
            filter => (ConvTranspose2dStep::of_phases(isa, threads, shape, dtype)?, filter),
        };
        if let Some(filter) = filter {
            step.prepack(filter)?;
        }
        Ok(step)
    }

    fn of_phases(
        isa: Isa,
        threads: usize,
        shape: ConvTranspose2dShape,
        dtype: DataType,
    ) -> Result<ConvTranspose2dStep> {
        let [high, wide] = shape.output;
        let [down, across] = [0, 1].map(|axis| shape.residues(axis));
        let complete = [&down, &across]
            .iter()
            .enumerate()
            .all(|(axis, residues)| residues.len() == shape.strides[axis].min(shape.output[axis]));
        check_room((down.len() * across.len()).saturating_mul(PHASE_BYTES))?;
        let firsts = down.iter().flat_map(|&y| across.iter().map(move |&x| [y, x]));
        let phases = firsts.map(|first| Phase::new(&shape, first)).collect();
        let panel = if shape.channels_last { tile_size(isa).cols } else { 1 };
        let channels = Cut::at_most(shape.group()[1], panel, TILE_CHANNELS);
        let mut strips = Cut::at_most(high, 1, TILE_PIXELS / wide);
        while threads > 1
            && shape.groups * channels.parts() * strips.parts() < 3 * threads
            && strips.largest() > shape.strides[0]
            && strips.largest() * wide > 64
        {
            strips = Cut::new(high, 1, 2 * strips.parts());
        }
        let pixels = Cut::new(high * wide, wide, strips.parts());
        let (rows, cols) = if shape.channels_last { (pixels, channels) } else { (channels, pixels) };
        let (packed, disjoint, strip) = (Vec::new(), None, strips.largest());
        let grid = Grid { rows, cols };
        Ok(ConvTranspose2dStep { shape, dtype, isa, threads, phases, complete, packed, disjoint, grid, strip })
    }

    fn prepack(&mut self, filter: Weights) -> Result<()> {
        let width = if self.shape.channels_last { tile_size(self.isa).cols } else { 1 };
        let lanes = self.shape.group()[1];
        let mut packed = Vec::with_capacity(self.shape.groups * self.phases.len());
        for group in 0..self.shape.groups {
            for phase in &self.phases {
                let weights = filter.skip(phase.group_start(group));
                let layout = Layout::Patches(Cow::Borrowed(&phase.filter));
                packed.push(Panels::new(self.isa, weights, layout, lanes, phase.filter.depth(), width)?);
            }
        }
        self.packed = packed;
        Ok(())
    }

    /// Scratch floats of a tile: the sums of one phase, the whole tile unless it is kept in the output, and
    /// packed operands.
    fn slot_parts(&self) -> [usize; 3] {
        let [rows, cols] = self.grid.largest();
        let channels = if self.shape.channels_last { cols } else { rows };
        let pixels =
            (self.strip.div_ceil(self.shape.strides[0])) * self.shape.output[1].div_ceil(self.shape.strides[1]);
        let tile = if self.dtype == DataType::Float32 { 0 } else { rows * cols };
        let (rows, cols) = if self.shape.channels_last { (pixels, channels) } else { (channels, pixels) };
        // The blocks of a shallower phase can be longer than those of the deepest one.
        let operands = |phase: &Phase| {
            let size = [rows, cols, phase.filter.depth()];
            let cutting = Cutting { batches: 1, size, copies_rows: true, packs_columns: true, rereads: false };
            cutting.scratch_len(self.isa, &Grid::whole(rows, cols))
        };
        let operands = self.phases.iter().map(operands).max().unwrap_or(0);
        [pixels * channels, tile, operands]
    }

    fn slot(&self) -> usize {
        self.slot_parts().iter().sum::<usize>().next_multiple_of(16)
    }

    /// The `f32` elements of scratch that [`run`](Self::run) needs.
    pub fn scratch_len(&self) -> usize {
        self.disjoint.as_ref().map_or_else(|| self.slot() * self.threads, Disjoint::scratch_len)
    }

    /// The memory of the packed filter.
    pub fn packed(&self) -> impl Iterator<Item = &Arc<Buffer>> {
        self.packed.iter().chain(self.disjoint.iter().flat_map(Disjoint::panels)).map(Panels::buffer)
    }

    /// The name of the kernel that computes it.
    pub fn kernel(&self) -> &'static str {
        if self.disjoint.is_some() { "convTranspose2d gemm" } else { "convTranspose2d im2col" }
    }

    /// Computes the transposed convolution of the input with the filter, which is not read if it is packed; `bias` has one
    /// element per output channel.
    ///
    /// # Panics
    /// If `env` is not what the step was planned for, or there are too few elements.
    pub fn run(
        &self,
        env: &Env,
        [input, filter]: [Option<Floats>; 2],
        bias: Option<Floats>,
        tail: Tail,
        out: FloatsMut,
        scratch: &mut [f32],
    ) {
        assert!(env.isa == self.isa && env.threads.count() <= self.threads);
        let input = input.expect("the input of a convolution");
        if let Some(disjoint) = &self.disjoint {
            return with_floats!(FloatsMut, out, out => disjoint.run(env, input, bias, tail, out, scratch));
        }
        let work = ImageCall { step: self, input, filter, bias, tail, start: 0 };
        with_floats!(FloatsMut, out, out => work.run(env, out, scratch));
    }
}

/// One image at work.
struct ImageCall<'a> {
    step: &'a ConvTranspose2dStep,
    /// The image and those that follow it.
    input: Floats<'a>,
    filter: Option<Floats<'a>>,
    bias: Option<Floats<'a>>,
    tail: Tail<'a>,
    /// The place of its first output in the whole output.
    start: usize,
}

impl ImageCall<'_> {
    fn run<T: Float>(&self, env: &Env, out: &mut [T], scratch: &mut [f32]) {
        let (step, shape) = (self.step, &self.step.shape);
        let [input_len, out_len] = [
            shape.channels[0] * shape.input[0] * shape.input[1],
            shape.channels[1] * shape.output[0] * shape.output[1],
        ];
        let taps = shape.filter[0] * shape.filter[1] / (shape.strides[0] * shape.strides[1]) + 1;
        let cost = out_len * taps * shape.group()[0];
        for (image, out) in out.chunks_exact_mut(out_len).take(shape.batches).enumerate() {
            let work = ImageCall { input: self.input.after(image * input_len), start: image * out_len, ..*self };
            Tiles::new(out, shape.matrices(), step.grid).share(env.threads, cost, scratch, |tile, scratch| {
                work.tile(tile, scratch);
            });
        }
    }

    fn tile<T: Float>(&self, tile: &mut Tile<T>, scratch: &mut [f32]) {
        let (shape, isa, group) = (&self.step.shape, self.step.isa, tile.batch);
        let [sums, whole, _] = self.step.slot_parts();
        let (sums, scratch) = scratch.split_at_mut(sums);
        let (whole, scratch) = scratch.split_at_mut(whole);
        let (tile_rows, cols) = (tile.rows.clone(), tile.cols.clone());
        if !self.step.complete {
            for row in 0..tile_rows.len() {
                match T::as_f32_mut(tile.row(row)) {
                    Some(out) => out.fill(0.0),
                    None => whole[row * cols.len()..][..cols.len()].fill(0.0),
                }
            }
        }
        for index in 0..self.step.phases.len() {
            self.phase(group, index, [&tile_rows, &cols], sums, scratch, |row, phase_out| {
                match T::as_f32_mut(tile.row(row)) {
                    Some(out) => phase_out(out),
                    None => phase_out(&mut whole[row * cols.len()..][..cols.len()]),
                }
            });
        }
        let channels = shape.group()[1];
        let (row_stride, col_stride) = if shape.channels_last { (0, 1) } else { (1, 0) };
        // One bias for a whole row, or one for each column.
        let bias = self.bias.map(|bias| bias.after(group * channels));
        let addend = bias.map(|data| Addend { data, row_stride, col_stride, beta: 1.0 });
        let epilogue = Epilogue { alpha: 1.0, addend, tail: self.tail };
        let first_col = if shape.channels_last { cols.start } else { 0 };
        for row in 0..tile_rows.len() {
            let offset = self.start + tile.offset(row);
            let channel_row = if shape.channels_last { 0 } else { tile_rows.start + row };
            if let Some(out) = T::as_f32_mut(tile.row(row)) {
                epilogue.apply(isa, [channel_row, first_col], offset, out);
                continue;
            }
            let sums = &mut whole[row * cols.len()..][..cols.len()];
            epilogue.apply(isa, [channel_row, first_col], offset, sums);
            narrow(isa, sums, tile.row(row));
        }
    }

    /// Computes what one phase contributes to a tile, and spreads it over the rows that `row` gives out.
    fn phase(
        &self,
        group: usize,
        index: usize,
        [rows, cols]: [&Range<usize>; 2],
        sums: &mut [f32],
        scratch: &mut [f32],
        mut row: impl FnMut(usize, &dyn Fn(&mut [f32])),
    ) {
        let (step, shape) = (self.step, &self.step.shape);
        let phase = &step.phases[index];
        let (wide, [down, across]) = (shape.output[1], shape.strides);
        let pixels = if shape.channels_last { rows } else { cols };
        let strip = pixels.start / wide..pixels.end / wide;
        let lines = phase.rows(down, &strip);
        let phase_wide = phase.patches.out[1];
        let lanes = lines.start * phase_wide..lines.end * phase_wide;
        if lanes.is_empty() {
            return;
        }
        let image = self.input.after(group * phase.patches.channels * phase.patches.channel_stride);
        let patches = Patches { image, matrix: &phase.patches };
        let panels = step.packed.get(group * step.phases.len() + index);
        let raw = || {
            let filter = self.filter.expect("the filter was not packed");
            Patches { image: filter.after(phase.group_start(group)), matrix: &phase.filter }
        };
        let depth = phase.filter.depth();
        // The first output position of a line of the phase, counted from the start of the tile.
        let start = |line: usize| (phase.first[0] + line * down - strip.start) * wide + phase.first[1];
        if shape.channels_last {
            let sums = &mut sums[..lanes.len() * cols.len()];
            let columns = panels.map_or_else(|| Columns::Patches(raw()), Columns::Panels);
            let product = Product { isa: step.isa, depth, rows: Rows::Patches(patches), columns };
            product.sums(lanes.clone(), cols.clone(), sums, scratch);
            for (lane, sums) in lanes.zip(sums.chunks_exact(cols.len())) {
                let pixel = start(lane / phase_wide) + lane % phase_wide * across;
                row(pixel, &|out| out.copy_from_slice(sums));
            }
            return;
        }
        let sums = &mut sums[..rows.len() * lanes.len()];
        let filter = panels.map_or_else(|| Rows::Patches(raw()), Rows::Kept);
        let product = Product { isa: step.isa, depth, rows: filter, columns: Columns::Patches(patches) };
        product.sums(rows.clone(), lanes.clone(), sums, scratch);
        for (channel, sums) in sums.chunks_exact(lanes.len()).enumerate() {
            row(channel, &|out| {
                for (line, sums) in lines.clone().zip(sums.chunks_exact(phase_wide)) {
                    let out = out[start(line)..].iter_mut().step_by(across);
                    out.zip(sums).for_each(|(out, &sum)| *out = sum);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::ops::conv_transpose2d::TransposedFilterLayout;
    use half::f16;
    use proptest::prelude::*;

    /// The formula in `f64`, scattering: the value and the sum of magnitudes of each output.
    fn reference<T: Float>(s: &ConvTranspose2dShape, input: &[T], filter: &[T], bias: &[T]) -> Vec<(f64, f64)> {
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
                    out[at(n, o, y, x)] = (bias.to_f32() as f64, bias.to_f32().abs() as f64);
                }
            }
            for (i, y, x) in (0..s.channels[0])
                .flat_map(|i| (0..s.input[0]).flat_map(move |y| (0..s.input[1]).map(move |x| (i, y, x))))
            {
                let image = n * s.channels[0] * s.input[0] * s.input[1];
                let value = input[image + i * ic + y * row + x * col].to_f32() as f64;
                for (ty, tx) in (0..s.filter[0]).flat_map(|ty| (0..s.filter[1]).map(move |tx| (ty, tx))) {
                    let oy = (y * s.strides[0] + ty * s.dilations[0]) as isize - s.padding[0] as isize;
                    let ox = (x * s.strides[1] + tx * s.dilations[1]) as isize - s.padding[1] as isize;
                    if oy < 0 || ox < 0 || oy >= oh as isize || ox >= ow as isize {
                        continue;
                    }
                    for o in 0..go {
                        let weight = filter[o * f[0] + i * f[1] + ty * f[2] + tx * f[3]].to_f32() as f64;
                        let out = &mut out[at(n, i / gi * go + o, oy as usize, ox as usize)];
                        out.0 += value * weight;
                        out.1 += (value * weight).abs();
                    }
                }
            }
        }
        out
    }

    fn check<T: Float>(shape: &ConvTranspose2dShape) {
        let [gi, go] = shape.group();
        let taps = shape.filter[0] * shape.filter[1];
        let input = random::<T>(shape.batches * shape.channels[0] * shape.input[0] * shape.input[1], 1);
        let filter = random::<T>(shape.channels[0] * go * taps, 2);
        let bias = random::<T>(shape.channels[1], 3);
        let exact = reference(shape, &input, &filter, &bias);
        let doubled: Vec<_> = exact.iter().map(|&(x, m)| (2.0 * x, 2.0 * m)).collect();
        for packed in [false, true] {
            let run = |env: &Env| {
                let threads = env.threads.count();
                let constant = packed.then(|| Weights::of_slice(&filter));
                let step = ConvTranspose2dStep::new(env.isa, threads, shape.clone(), T::DATA_TYPE, constant).unwrap();
                let mut out = vec![T::from_f32(f32::NAN); exact.len()];
                let mut scratch = vec![f32::NAN; step.scratch_len()];
                let double = |_: usize, xs: &mut [f32]| xs.iter_mut().for_each(|x| *x *= 2.0);
                let operands = [Some(T::floats(&input)), (!packed).then(|| T::floats(&filter))];
                step.run(
                    env,
                    operands,
                    Some(T::floats(&bias)),
                    Tail { finish: Some(&double), ..Tail::NONE },
                    T::floats_mut(&mut out),
                    &mut scratch,
                );
                out
            };
            on_all(run, |env, out| {
                assert_sums(out, &doubled, gi * taps + 1, || {
                    format!("{shape:?}, packed {packed}, {:?}, {} threads", env.isa, env.threads.count())
                });
            });
        }
    }

    /// A shape with the output size that the other numbers give, `extra` rows and columns included.
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
            // Taps that do not meet.
            shape(1, [3, 35], [5, 6], [2, 2], [2, 2], [1, 1], [0; 4], 0),
            shape(1, [130, 5], [3, 7], [1, 3], [1, 3], [1, 1], [0; 4], 0),
            // Phases without any tap.
            shape(1, [2, 33], [3, 4], [1, 2], [3, 3], [1, 1], [0; 4], 2),
            shape(3, [1, 1], [4, 3], [3, 2], [2, 3], [2, 3], [1, 2, 3, 0], 1),
            shape(1, [70, 3], [3, 40], [3, 3], [2, 1], [1, 2], [2, 0, 1, 1], 0),
        ];
        for base in cases.into_iter().flatten() {
            for channels_last in [false, true] {
                for layout in LAYOUTS {
                    check::<f32>(&ConvTranspose2dShape { channels_last, layout, ..base.clone() });
                }
                check::<f16>(&ConvTranspose2dShape { channels_last, ..base.clone() });
            }
        }
    }

    #[test]
    fn large_enough_for_threads() {
        let base = shape(1, [40, 30], [12, 14], [4, 4], [2, 2], [1, 1], [1; 4], 0).unwrap();
        for channels_last in [false, true] {
            check::<f32>(&ConvTranspose2dShape { channels_last, ..base.clone() });
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
                check::<f32>(&ConvTranspose2dShape { channels_last, layout: LAYOUTS[layout], ..base });
            }
        }
    }
}
