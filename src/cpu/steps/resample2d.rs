//! The step for `resample2d` with the mode `linear`.

use super::{Env, Run};
use crate::cpu::kernels::resample::{Interpolate, Interpolated, ResampleSizes, SCRATCH_ROWS};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk_with;
use crate::dtype::DataType;
use crate::error::Result;
use crate::memory::check_room;
use crate::ops::resample2d::{Between, Resample2d, between};
use crate::shape::{Descriptor, elements};

/// Bilinear resampling.
pub struct LinearStep {
    dtype: DataType,
    sizes: ResampleSizes,
    ys: Vec<Between>,
    xs: Vec<Between>,
}

impl LinearStep {
    /// Creates the step for `resample2d()` of `input` to the shape of `output`.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for the positions of all rows and columns.
    pub fn new(op: &Resample2d, input: &Descriptor, output: &Descriptor) -> Result<LinearStep> {
        let [y, x] = op.sorted_axes(input.rank());
        check_room((output.sizes()[y] as usize + output.sizes()[x] as usize) * size_of::<Between>())?;
        let places = |axis: usize| {
            let (from, to) = (input.sizes()[axis], output.sizes()[axis]);
            (0..to as usize).map(|i| between(from, to, i)).collect()
        };
        let sizes = ResampleSizes {
            y: input.sizes()[y] as usize,
            between: elements(&input.sizes()[y + 1..x]),
            x: input.sizes()[x] as usize,
            inner: elements(&input.sizes()[x + 1..]),
        };
        Ok(LinearStep { dtype: input.dtype, sizes, ys: places(y), xs: places(x) })
    }

    fn run_as<T: Interpolated>(&self, env: &Env, (src, out): (&[T], &mut [T]), scratch: &mut [T::Wide]) {
        let row_len = self.xs.len() * self.sizes.inner;
        let &LinearStep { sizes, ref ys, ref xs, .. } = self;
        for_each_chunk_with(env.threads, out, row_len, 1, 4 * row_len, scratch, |first, rows, scratch| {
            env.isa.run(Interpolate::<T> { src, sizes, ys, xs, first, rows, scratch });
        });
    }
}

impl Run for LinearStep {
    fn kernel(&self) -> &'static str {
        "resample2d linear"
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        // Integers are interpolated in float64.
        let size = if self.dtype.is_float() { size_of::<f32>() } else { size_of::<f64>() };
        if self.sizes.inner == 1 { threads * SCRATCH_ROWS * self.xs.len() * size } else { 0 }
    }

    fn run(&self, env: &Env, io: &mut Io) {
        match self.dtype {
            DataType::Float32 => self.run_as::<f32>(env, (io.input(0), io.output()), io.scratch()),
            DataType::Int8 => self.run_as::<i8>(env, (io.input(0), io.output()), io.scratch_f64()),
            DataType::Uint8 => self.run_as::<u8>(env, (io.input(0), io.output()), io.scratch_f64()),
            dtype => unreachable!("no kernel reads {dtype}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};
    use proptest::prelude::*;

    fn check_op(dtype: DataType, shape: &[u32], op: &str) {
        let text = format!("%0 = input x {dtype} {shape:?}\n%1 = resample2d %0 mode=linear {op}\noutput y = %1");
        let tolerance = match dtype {
            // Two blends of values below 4, each rounded three times by at most half an ULP of 4.
            DataType::Float32 => Tolerance::ulps(4).or_absolute(6.0 * f32::EPSILON as f64),
            // The same, rounded once more.
            DataType::Float16 => Tolerance::ulps(1).or_absolute(6.0 * f32::EPSILON as f64),
            _ => Tolerance::EXACT,
        };
        check(&parse(&text), tolerance);
    }

    const TYPES: [DataType; 4] = [DataType::Float32, DataType::Float16, DataType::Int8, DataType::Uint8];

    #[test]
    fn every_type_and_pair_of_axes() {
        for dtype in TYPES {
            for axes in ["[2, 3]", "[3, 2]", "[1, 2]", "[0, 3]", "[1, 3]", "[0, 1]"] {
                check_op(dtype, &[2, 3, 4, 5], &format!("sizes=[6, 9] axes={axes}"));
                check_op(dtype, &[2, 3, 4, 5], &format!("scales=[1.5, 0.5] axes={axes}"));
            }
            check_op(dtype, &[1, 1, 1, 1], "sizes=[3, 2]");
            check_op(dtype, &[2, 3, 4, 5], "");
            // Some terms almost cancel.
            check_op(dtype, &[4, 3, 5, 8], "sizes=[15, 3] axes=[0, 2]");
        }
    }

    #[test]
    fn sizes_that_are_worth_threads() {
        for dtype in TYPES {
            check_op(dtype, &[1, 2, 50, 60], "sizes=[180, 121]");
            check_op(dtype, &[1, 50, 60, 3], "sizes=[100, 121] axes=[1, 2]");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn random_sizes(
            shape in prop::collection::vec(1u32..9, 4),
            sizes in prop::collection::vec(1u32..20, 2),
            first in 0u32..4,
            offset in 1u32..4,
            dtype in 0usize..4,
        ) {
            let second = (first + offset) % 4;
            check_op(TYPES[dtype], &shape, &format!("sizes={sizes:?} axes=[{first}, {second}]"));
        }
    }
}
