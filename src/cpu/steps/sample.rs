//! `gridSample`, `deformColumns` and `cropAndResize`.

use super::{Env, Run};
use crate::cpu::kernels::gather::Index;
use crate::cpu::kernels::sample::{CopyNearest, Interpolate, PLACES, SampleColumns, SampleGrid, SampleRegion};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk;
use crate::dtype::{DataType, Element};
use crate::ops::extension::crop_and_resize::CropAndResize;
use crate::ops::extension::deform_columns::DeformColumns;
use crate::ops::extension::grid_sample::{GridSample, Mode};
use crate::shape::{Descriptor, Sizes, elements};
use crate::{with_index, with_storage};

/// Compiled samples of images at coordinates.
pub struct GridSampleStep {
    op: GridSample,
    /// Bytes per element.
    size: usize,
    input: Sizes,
    /// Number of places of an image.
    places: usize,
}

impl GridSampleStep {
    /// Creates the samples `op` of `input` for a result like `output`.
    pub fn new(op: &GridSample, input: &Descriptor, output: &Descriptor) -> GridSampleStep {
        let output = output.sizes();
        let places = elements(&output[1..output.len() - 1]);
        GridSampleStep { op: op.clone(), size: input.dtype.size(), input: input.sizes(), places }
    }

    fn run_as<T: Element>(&self, env: &Env, io: &mut Io, sample: impl Fn(SampleGrid<T>) + Sync) {
        let (images, grid) = (io.input::<T>(0), io.input::<f32>(1));
        let (&channels, sizes) = self.input[1..].split_last().expect("the rule requires channels");
        let (channels, places) = (channels as usize, self.places);
        let taps = match self.op.mode {
            Mode::Nearest => 1,
            Mode::Linear => 1 << sizes.len(),
            Mode::Cubic => 1 << (2 * sizes.len()),
        };
        for_each_chunk(env.threads, io.output(), channels, PLACES, taps * (channels + 16), |first, out| {
            sample(SampleGrid { op: &self.op, images, sizes, channels, grid, places, first, out });
        });
    }
}

impl Run for GridSampleStep {
    fn kernel(&self) -> &'static str {
        "gridSample"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        match self.op.mode {
            Mode::Nearest => with_storage!(self.size, T => {
                self.run_as::<T>(env, io, |sample| env.isa.run(CopyNearest(sample)));
            }),
            _ => self.run_as::<f32>(env, io, |sample| env.isa.run(Interpolate(sample))),
        }
    }
}

/// Compiled rows of a deformable convolution.
pub struct DeformColumnsStep {
    op: DeformColumns,
    /// Height, width and channels of an image.
    sizes: [u32; 3],
    /// Rows and columns of windows.
    windows: [usize; 2],
}

impl DeformColumnsStep {
    /// Creates the rows `op` of `input`.
    pub fn new(op: &DeformColumns, input: &Descriptor, offsets: &Descriptor) -> DeformColumnsStep {
        let (sizes, offsets) = (input.sizes(), offsets.sizes());
        let windows = [offsets[2] as usize, offsets[3] as usize];
        DeformColumnsStep { op: op.clone(), sizes: [sizes[1], sizes[2], sizes[3]], windows }
    }
}

impl Run for DeformColumnsStep {
    fn kernel(&self) -> &'static str {
        "deformColumns"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let (images, offsets, mask) = (io.input::<f32>(0), io.input::<f32>(1), io.optional::<f32>(2));
        let (op, sizes, windows) = (&self.op, self.sizes, self.windows);
        let row = op.elements() * (sizes[2] / op.groups) as usize;
        for_each_chunk(env.threads, io.output(), row, PLACES, 4 * row + 32 * op.elements(), |first, out| {
            env.isa.run(SampleColumns { op, images, sizes, offsets, mask, windows, first, out });
        });
    }
}

/// Compiled regions of images in another size.
pub struct CropAndResizeStep {
    op: CropAndResize,
    input: Sizes,
    index_type: DataType,
}

impl CropAndResizeStep {
    /// Creates the regions `op` of `input`.
    pub fn new(op: &CropAndResize, input: &Descriptor, images: &Descriptor) -> CropAndResizeStep {
        CropAndResizeStep { op: op.clone(), input: input.sizes(), index_type: images.dtype }
    }

    fn run_as<I: Index>(&self, env: &Env, io: &mut Io) {
        let (input, rois, images) = (io.input::<f32>(0), io.input::<f32>(1), io.input::<I>(2));
        let &[count, height, width, channels] = &*self.input else { unreachable!("four dimensions") };
        let (op, sizes) = (&self.op, [height, width, channels]);
        let (image_len, unit) = (elements(&sizes), elements(&op.size) * channels as usize);
        for_each_chunk(env.threads, io.output(), unit, 1, 4 * unit, |first, out| {
            for (region, out) in (first..).zip(out.chunks_exact_mut(unit)) {
                let image = &input[images[region].place(count as usize) * image_len..][..image_len];
                let edges = rois.as_chunks().0[region];
                env.isa.run(SampleRegion { op, image, sizes, edges, out });
            }
        });
    }
}

impl Run for CropAndResizeStep {
    fn kernel(&self) -> &'static str {
        "cropAndResize"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        with_index!(self.index_type, I => self.run_as::<I>(env, io));
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

    const MODES: [&str; 3] = ["nearest", "linear", "cubic"];
    const PADDINGS: [&str; 3] = ["zeros", "border", "reflection"];

    /// Sums of at most 64 products of numbers below 4 whose weights are below 1.5.
    const TOLERANCE: Tolerance = Tolerance::ulps(4).or_absolute(2e-5);

    /// A tensor of numbers in `range`; the first ones are `special`.
    fn places(random: &mut Random, shape: &[u32], range: [f64; 2], special: &[f32]) -> Tensor {
        let mut special = special.iter();
        Tensor::from_fn(&Descriptor::new(DataType::Float32, shape), |_| {
            let number = range[0] + (range[1] - range[0]) * random.uniform();
            Number::Float(special.next().map_or(number, |&special| special.into())).cast(DataType::Float32)
        })
    }

    /// Checks `op` at random places, some of them outside the input. The first ones are `special`.
    fn check_op(dtype: DataType, input: &[u32], grid: &[u32], op: &str, special: &[f32]) {
        let grid = [&input[..1], grid, &[input.len() as u32 - 2]].concat();
        let text = format!(
            "%0 = input x {dtype} {input:?}\n%1 = input g float32 {grid:?}\n%2 = gridSample %0 %1 {op}\noutput y = %2"
        );
        let mut random = Random::new(input.len() as u64 + grid[1] as u64);
        let x = random.tensor(&Descriptor::new(dtype, input));
        let grid = places(&mut random, &grid, [-1.6, 1.6], special);
        check_with(&parse(&text), &HashMap::from([("x".to_string(), x), ("g".to_string(), grid)]), TOLERANCE);
    }

    #[test]
    fn every_mode_and_padding() {
        let special = [f32::NAN, 0.0, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30, -1.0, 1.0, 0.0, 0.0, 3e9, -3e9];
        for mode in MODES {
            for padding in PADDINGS {
                for options in ["", "alignCorners=true"] {
                    let op = format!("mode={mode} padding={padding} {options}");
                    for channels in [1, 3, 16, 85] {
                        check_op(DataType::Float32, &[2, 5, 7, channels], &[9, 17], &op, &special);
                    }
                    check_op(DataType::Float32, &[1, 6, 2], &[70], &op, &special);
                    check_op(DataType::Float32, &[1, 1, 1, 2], &[3, 2], &op, &[]);
                    check_op(DataType::Float32, &[2, 3, 4, 5, 2], &[2, 3, 4], &op, &[]);
                }
            }
        }
    }

    #[test]
    fn every_type_has_nearest_elements() {
        for dtype in DataType::ALL {
            check_op(dtype, &[2, 5, 7, 3], &[9, 17], "mode=nearest", &[]);
        }
        check_op(DataType::Float16, &[2, 5, 7, 3], &[9, 17], "mode=linear", &[]);
    }

    #[test]
    fn elements_outside_have_no_weight() {
        let text = "%0 = input x float32 [1, 2, 2, 1]\n%1 = input g float32 [1, 1, 3, 2]\n\
                    %2 = gridSample %0 %1 alignCorners=true\noutput y = %2";
        let x = Tensor::from_fn(&Descriptor::new(DataType::Float32, [1, 2, 2, 1]), |index| {
            Number::Float(if index[1] == 0 { f64::INFINITY } else { 1.0 })
        });
        let grid = places(&mut Random::new(1), &[1, 1, 3, 2], [0.0, 0.0], &[-1.0, 1.0, 1.0, 1.5, 0.0, -1.5]);
        check_with(&parse(text), &HashMap::from([("x".to_string(), x), ("g".to_string(), grid)]), TOLERANCE);
    }

    /// Checks a window of `kernel` on images `[2, 6, 9, channels]`.
    fn check_columns(channels: u32, kernel: [u32; 2], groups: u32, sets: u32, mask: bool, dtype: &str) {
        let windows = [5, 15];
        let rows = [1, 2].map(|each| sets * kernel[0] * kernel[1] * each);
        let mut text = format!("%0 = input x {dtype} [2, 6, 9, {channels}]\n");
        let shape = [2, rows[1], windows[0], windows[1]];
        let mut random = Random::new((channels + rows[1]).into());
        let x = random.tensor(&parse(&format!("{text}output y = %0")).values[0].descriptor);
        let offsets = places(&mut random, &shape, [-3.0, 3.0], &[f32::NAN, f32::INFINITY, -1e30, 0.0, 1.0, 1e9]);
        let mut inputs = HashMap::from([("x".to_string(), x), ("o".to_string(), offsets)]);
        text += &format!("%1 = input o float32 {shape:?}\n");
        if mask {
            let shape = [2, rows[0], windows[0], windows[1]];
            text += &format!("%2 = input m float32 {shape:?}\n");
            inputs.insert("m".to_string(), places(&mut random, &shape, [0.0, 1.0], &[0.0, 1.0]));
        }
        let (last, operands) = if mask { (3, "%0 %1 %2") } else { (2, "%0 %1") };
        text += &format!(
            "%{last} = deformColumns {operands} kernel={kernel:?} strides=[2, 1] dilations=[1, 2] padding=[2, 3] \
             groups={groups} sets={sets}\noutput y = %{last}"
        );
        check_with(&parse(&text), &inputs, TOLERANCE);
    }

    #[test]
    fn windows_are_moved() {
        for mask in [false, true] {
            for (channels, groups, sets) in
                [(1, 1, 1), (6, 1, 2), (6, 2, 1), (12, 2, 3), (12, 3, 2), (80, 1, 1), (40, 2, 4)]
            {
                check_columns(channels, [3, 3], groups, sets, mask, "float32");
            }
            check_columns(5, [1, 1], 1, 1, mask, "float32");
        }
        check_columns(6, [2, 3], 2, 2, true, "float16");
    }

    #[test]
    fn regions_in_another_size() {
        let regions = [
            [0.0, 0.0, 1.0, 1.0],
            [0.2, 0.1, 0.9, 0.6],
            [1.0, 1.0, 0.0, 0.0],
            [-0.5, 0.3, 1.5, 0.3],
            [f32::NAN, 0.0, 1.0, f32::INFINITY],
            [-1e30, 0.0, 1e30, 0.5],
        ];
        for (channels, size) in [(1, [3, 4]), (3, [1, 1]), (20, [14, 14]), (70, [2, 1])] {
            for (dtype, options) in [
                ("float32", ""),
                ("float32", "nearest=true outside=-2.5"),
                ("float16", "outside=3"),
                ("float16", "nearest=true"),
            ] {
                let text = format!(
                    "%0 = input x {dtype} [2, 5, 7, {channels}]\n%1 = input r float32 [6, 4]\n%2 = input i int32 [6]\n\
                     %3 = cropAndResize %0 %1 %2 size={size:?} {options}\noutput y = %3"
                );
                let graph = parse(&text);
                let x = Random::new(channels).tensor(&graph.values[0].descriptor);
                let rois = places(&mut Random::new(1), &[6, 4], [0.0, 1.0], regions.as_flattened());
                let images = Tensor::from_fn(&Descriptor::new(DataType::Int32, [6u32]), |index| {
                    Number::Int([0, 1, 7, -1, -9, 0][index[0]])
                });
                let inputs = [("x", x), ("r", rois), ("i", images)].map(|(name, tensor)| (name.to_string(), tensor));
                check_with(&graph, &HashMap::from(inputs), TOLERANCE);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn random_sizes(
            input in prop::collection::vec(1u32..9, 3..6),
            grid in prop::collection::vec(1u32..9, 3),
            [mode, padding] in prop::array::uniform2(0usize..3),
            align: bool,
        ) {
            let op = format!("mode={} padding={} alignCorners={align}", MODES[mode], PADDINGS[padding]);
            check_op(DataType::Float32, &input, &grid[..input.len() - 2], &op, &[]);
        }
    }
}
