//! `roiAlign` and `maxRoiPool`.

use super::{Env, Run};
use crate::cpu::kernels::gather::Index;
use crate::cpu::kernels::roi::{AlignRegion, CHANNELS, Weights, max_in_rectangles};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk_with;
use crate::dtype::DataType;
use crate::memory::{bytes_of_mut, elements_mut};
use crate::ops::extension::max_roi_pool::{MaxRoiPool, image_at};
use crate::ops::extension::roi_align::RoiAlign;
use crate::shape::{Descriptor, Sizes};
use crate::with_index;
use std::ops::Range;

/// Averages or maxima of samples in regions.
pub struct RoiAlignStep {
    op: RoiAlign,
    /// Of the images: their number, height, width and channels.
    sizes: Sizes,
    index_type: DataType,
    /// Bins of a region, and room for weights, along each dimension.
    axes: [Room; 2],
}

/// Room for the weights along a dimension.
#[derive(Clone, Copy)]
struct Room {
    bins: usize,
    weights: usize,
}

impl Room {
    /// Words of scratch memory.
    fn words(self) -> usize {
        2 * self.bins + 1 + 2 * self.weights
    }

    /// Takes the room from the front of `scratch`.
    fn take(self, scratch: &mut [u32]) -> (Weights<'_>, &mut [u32]) {
        let (starts, rest) = scratch.split_at_mut(self.bins + 1);
        let (outside, rest) = rest.split_at_mut(self.bins);
        let (pixels, rest) = rest.split_at_mut(self.weights);
        let (weights, rest) = rest.split_at_mut(self.weights);
        (Weights { starts, pixels, weights: elements_mut(bytes_of_mut(weights)), outside }, rest)
    }
}

impl RoiAlignStep {
    /// Creates the step for `op` on `input`.
    pub fn new(op: &RoiAlign, [input, images]: [&Descriptor; 2]) -> RoiAlignStep {
        let sizes = input.sizes();
        let room = |bins: u32, size: u32| Room { bins: bins as usize, weights: 2 * op.most_samples(bins, size) };
        let axes = [room(op.output_height, sizes[1]), room(op.output_width, sizes[2])];
        RoiAlignStep { op: op.clone(), sizes, index_type: images.dtype, axes }
    }

    fn words(&self) -> usize {
        let [rows, columns] = self.axes;
        rows.words() + columns.words() + rows.bins * columns.bins * CHANNELS
    }

    fn run_as<I: Index>(&self, env: &Env, io: &mut Io) {
        let (input, rois, images) = (io.input::<f32>(0), io.input::<f32>(1), io.input::<I>(2));
        let &[count, height, width, channels] = &*self.sizes else { unreachable!("four dimensions") };
        let [rows, columns] = self.axes;
        let (op, channels) = (&self.op, channels as usize);
        let (image_len, unit) = ((height * width) as usize * channels, channels * rows.bins * columns.bins);
        let scratch = &mut io.scratch::<u32>()[..self.words() * env.threads.count()];
        // Each bin has at least four weights.
        for_each_chunk_with(env.threads, io.output(), unit, 1, 4 * unit, scratch, |first, out, scratch| {
            for (region, out) in (first..).zip(out.chunks_exact_mut(unit)) {
                let &[left, top, right, bottom] = &rois[4 * region..][..4] else { unreachable!("four edges") };
                let vertical = op.samples([top, bottom], op.output_height, height);
                let horizontal = op.samples([left, right], op.output_width, width);
                let (mut of_rows, rest) = rows.take(&mut *scratch);
                let (mut of_columns, rest) = columns.take(rest);
                of_rows.list(&vertical, !op.maximum);
                of_columns.list(&horizontal, !op.maximum);
                let samples = vertical.count() as f64 * horizontal.count() as f64;
                let image = images[region].place(count as usize);
                env.isa.run(AlignRegion {
                    image: &input[image * image_len..][..image_len],
                    width: width as usize,
                    channels,
                    weights: [of_rows, of_columns],
                    factor: (!op.maximum).then_some((1.0 / samples.max(1.0)) as f32),
                    scratch: elements_mut(bytes_of_mut(rest)),
                    out,
                });
            }
        });
    }
}

impl Run for RoiAlignStep {
    fn kernel(&self) -> &'static str {
        "roiAlign"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        with_index!(self.index_type, I => self.run_as::<I>(env, io));
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        threads * self.words() * size_of::<u32>()
    }
}

/// Maxima in regions.
pub struct MaxRoiPoolStep {
    op: MaxRoiPool,
    sizes: Sizes,
}

impl MaxRoiPoolStep {
    /// Creates the step for `op` on `input`.
    pub fn new(op: &MaxRoiPool, input: &Descriptor) -> MaxRoiPoolStep {
        MaxRoiPoolStep { op: op.clone(), sizes: input.sizes() }
    }
}

impl Run for MaxRoiPoolStep {
    fn kernel(&self) -> &'static str {
        "maxRoiPool"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let (input, rois, op) = (io.input::<f32>(0), io.input::<f32>(1), &self.op);
        let &[count, channels, height, width] = &*self.sizes else { unreachable!("four dimensions") };
        let image_len = (channels * height * width) as usize;
        let [rows, columns] = [op.output_height, op.output_width];
        let unit = channels as usize * rows as usize * columns as usize;
        let scratch = &mut io.scratch::<u32>()[..2 * (rows + columns) as usize * env.threads.count()];
        for_each_chunk_with(env.threads, io.output(), unit, 1, 8 * unit, scratch, |first, out, scratch| {
            let (of_rows, of_columns) = scratch.as_chunks_mut().0.split_at_mut(rows as usize);
            for (region, out) in (first..).zip(out.chunks_exact_mut(unit)) {
                let &[image, left, top, right, bottom] = &rois[5 * region..][..5] else { unreachable!("five numbers") };
                let image = &input[image_at(image, count as usize) * image_len..][..image_len];
                let list = |pixels: &mut [[u32; 2]], edges: [f32; 2], bins: u32, size: u32| {
                    for (bin, pixels) in (0..).zip(pixels) {
                        let Range { start, end } = op.pixels(edges, [bin, bins], size);
                        *pixels = [start as u32, end as u32];
                    }
                };
                list(of_rows, [top, bottom], rows, height);
                list(of_columns, [left, right], columns, width);
                max_in_rectangles(image, [height as usize, width as usize], of_rows, of_columns, out);
            }
        });
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        let bins = self.op.output_height as usize + self.op.output_width as usize;
        threads * bins * size_of::<[u32; 2]>()
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::{DataType, Number};
    use crate::ir::parse;
    use crate::ops::tensor::Tensor;
    use crate::shape::Descriptor;
    use crate::testing::{Random, Tolerance, check_with};
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Checks `op` on random images of this shape in `regions`, each with its image in front.
    fn check_op(name: &str, op: &str, shape: [u32; 4], dtype: DataType, regions: &[[f32; 5]]) {
        let count = regions.len() as u32;
        let tensor = |dtype: DataType, shape: &[u32], number: &dyn Fn(&[usize]) -> f32| {
            Tensor::from_fn(&Descriptor::new(dtype, shape), |index| Number::Float(number(index).into()).cast(dtype))
        };
        let x = Random::new(count.into()).tensor(&Descriptor::new(dtype, shape));
        let mut inputs = HashMap::from([("x".to_string(), x)]);
        let text = if name == "roiAlign" {
            inputs.insert("r".to_string(), tensor(dtype, &[count, 4], &|index| regions[index[0]][1 + index[1]]));
            inputs.insert("i".to_string(), tensor(DataType::Int64, &[count], &|index| regions[index[0]][0]));
            format!(
                "%1 = input r {dtype} [{count}, 4]\n%2 = input i int64 [{count}]\n%3 = roiAlign %0 %1 %2 {op}\noutput y = %3"
            )
        } else {
            inputs.insert("r".to_string(), tensor(dtype, &[count, 5], &|index| regions[index[0]][index[1]]));
            format!("%1 = input r {dtype} [{count}, 5]\n%2 = maxRoiPool %0 %1 {op}\noutput y = %2")
        };
        // Sums of at most some 100 products of numbers below 4, with weights whose sum is 1.
        let tolerance = Tolerance::ulps(4).or_absolute(4e-6);
        check_with(&parse(&format!("%0 = input x {dtype} {shape:?}\n{text}")), &inputs, tolerance);
    }

    /// Ordinary regions, and those that are outside, empty, turned around, huge or no numbers.
    const REGIONS: [[f32; 5]; 12] = [
        [0.0, 1.0, 2.0, 5.5, 6.25],
        [1.0, 0.0, 0.0, 8.0, 7.0],
        [1.0, -3.0, -2.5, 4.0, 20.0],
        [0.0, 100.0, 100.0, 120.0, 130.0],
        [0.0, 3.0, 3.0, 3.0, 3.0],
        [1.0, 6.0, 5.0, 2.0, 1.0],
        [7.0, -1e9, -1e9, 1e9, 1e9],
        [-4.0, f32::NAN, 0.0, 3.0, 4.0],
        [0.0, f32::NEG_INFINITY, 0.0, f32::INFINITY, 4.0],
        [0.0, -1e30, 1.0, 1e30, 2.0],
        [1.0, 6.9, 6.0, 7.0, 6.5],
        [1.0, 0.5, 0.5, 1.5, 1.5],
    ];

    #[test]
    fn regions_of_every_kind() {
        for channels in [1, 3, 16, 70, 130] {
            for ratio in [0, 1, 2, 5] {
                for options in ["", "maximum=true", "halfPixel=false spatialScale=0.75"] {
                    let op = format!("outputHeight=3 outputWidth=2 samplingRatio={ratio} {options}");
                    check_op("roiAlign", &op, [2, 7, 8, channels], DataType::Float32, &REGIONS);
                }
            }
        }
        check_op("roiAlign", "outputHeight=7 outputWidth=7", [1, 1, 1, 5], DataType::Float32, &REGIONS);
        for op in ["outputHeight=3 outputWidth=2", "outputHeight=5 outputWidth=9 spatialScale=0.5"] {
            check_op("maxRoiPool", op, [2, 3, 7, 8], DataType::Float32, &REGIONS);
        }
    }

    #[test]
    fn halves_are_computed_as_floats() {
        let regions = &REGIONS[..6];
        check_op("roiAlign", "outputHeight=2 outputWidth=2 samplingRatio=2", [2, 7, 8, 20], DataType::Float16, regions);
        check_op("maxRoiPool", "outputHeight=2 outputWidth=2", [2, 4, 7, 8], DataType::Float16, regions);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn random_regions(
            edges in prop::collection::vec(prop::array::uniform4(-5f32..30.0), 1..6),
            [height, width, bins, channels] in prop::array::uniform4(1u32..20),
            ratio in 0u32..4,
        ) {
            let regions: Vec<[f32; 5]> =
                edges.iter().enumerate().map(|(at, &[a, b, c, d])| [(at % 3) as f32, a, b, c, d]).collect();
            let bins = format!("outputHeight={bins} outputWidth={}", 1 + bins / 2);
            let op = format!("{bins} samplingRatio={ratio} spatialScale=0.7");
            check_op("roiAlign", &op, [2, height, width, channels], DataType::Float32, &regions);
            check_op("maxRoiPool", &bins, [2, channels, height, width], DataType::Float32, &regions);
        }
    }
}
