//! `gridSample`.

use super::{Env, Run};
use crate::cpu::kernels::grid_sample::{CopyNearest, Interpolate, SampleImage};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_column_block;
use crate::dtype::Element;
use crate::ops::extension::grid_sample::{GridSample, Mode};
use crate::shape::{Descriptor, Sizes, elements};
use crate::with_storage;

/// Minimum number of places of a thread.
const GRAIN: usize = 64;

/// Compiled samples of images.
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
        let places = elements(&output.sizes()[2..]);
        GridSampleStep { op: op.clone(), size: input.dtype.size(), input: input.sizes(), places }
    }

    fn run_as<T: Element>(&self, env: &Env, io: &mut Io, sample: impl Fn(SampleImage<T>) + Sync) {
        let (input, grid) = (io.input::<T>(0), io.input::<f32>(1));
        let (channels, sizes) = (self.input[1] as usize, &self.input[2..]);
        let (image_len, grid_len) = (channels * elements(sizes), self.places * sizes.len());
        let taps = match self.op.mode {
            Mode::Nearest => 1,
            Mode::Linear => 1 << sizes.len(),
            Mode::Cubic => 1 << (2 * sizes.len()),
        };
        let shape = [self.input[0] as usize, channels, self.places];
        let cost = taps * (4 * channels + 16);
        for_each_column_block(env.threads, io.output(), shape, [GRAIN, usize::MAX], cost, |image, places, out| {
            let grid = &grid[image * grid_len..][..grid_len];
            let image = &input[image * image_len..][..image_len];
            sample(SampleImage { op: &self.op, image, sizes, grid, places, out });
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

    /// Checks `op` at random places of which some are outside of the input; the first ones are `special`.
    fn check_op(dtype: DataType, input: &[u32], places: &[u32], op: &str, special: &[f32]) {
        let grid = [&input[..1], places, &[input.len() as u32 - 2]].concat();
        let text = format!(
            "%0 = input x {dtype} {input:?}\n%1 = input g float32 {grid:?}\n%2 = gridSample %0 %1 {op}\noutput y = %2"
        );
        let mut random = Random::new(input.len() as u64 + grid[1] as u64);
        let x = random.tensor(&Descriptor::new(dtype, input));
        let range = if op.contains("indices=true") { [-2.0, 12.0] } else { [-1.6, 1.6] };
        let mut special = special.iter();
        let grid = Tensor::from_fn(&Descriptor::new(DataType::Float32, grid), |_| {
            let number = range[0] + (range[1] - range[0]) * random.uniform();
            Number::Float(special.next().map_or(number, |&special| special.into())).cast(DataType::Float32)
        });
        let inputs = HashMap::from([("x".to_string(), x), ("g".to_string(), grid)]);
        // Sums of at most 64 products of numbers below 4 whose weights are below 1.5.
        check_with(&parse(&text), &inputs, Tolerance::ulps(4).or_absolute(2e-5));
    }

    #[test]
    fn every_mode_and_padding() {
        let special = [f32::NAN, 0.0, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30, -1.0, 1.0, 0.0, 0.0, 3e9, -3e9];
        for mode in MODES {
            for padding in PADDINGS {
                for options in ["", "alignCorners=true", "indices=true"] {
                    let op = format!("mode={mode} padding={padding} {options}");
                    check_op(DataType::Float32, &[2, 3, 5, 7], &[9, 17], &op, &special);
                    check_op(DataType::Float32, &[1, 2, 6], &[70], &op, &special);
                    check_op(DataType::Float32, &[1, 2, 1, 1], &[3, 2], &op, &[]);
                }
                check_op(
                    DataType::Float32,
                    &[2, 2, 3, 4, 5],
                    &[2, 3, 4],
                    &format!("mode={mode} padding={padding}"),
                    &[],
                );
            }
        }
    }

    #[test]
    fn every_type_has_nearest_elements() {
        for dtype in DataType::ALL {
            check_op(dtype, &[2, 3, 5, 7], &[9, 17], "mode=nearest", &[]);
        }
        check_op(DataType::Float16, &[2, 3, 5, 7], &[9, 17], "mode=linear", &[]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn random_sizes(
            input in prop::collection::vec(1u32..9, 3..6),
            places in prop::collection::vec(1u32..9, 3),
            [mode, padding] in prop::array::uniform2(0usize..3),
            align: bool,
        ) {
            let op = format!("mode={} padding={} alignCorners={align}", MODES[mode], PADDINGS[padding]);
            check_op(DataType::Float32, &input, &places[..input.len() - 2], &op, &[]);
        }
    }
}
