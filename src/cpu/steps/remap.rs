//! Steps that copy by lists of positions: `pad` with mirrored values, and `resample2d` to the nearest element.

use super::{Env, Run};
use crate::cpu::kernels::remap::{AxisPlaces, PLACE_BYTES, Remap, RemapRows};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk;
use crate::error::Result;
use crate::memory::check_room;
use crate::ops::pad::Pad;
use crate::ops::resample2d::{Resample2d, nearest};
use crate::shape::Descriptor;
use crate::with_storage;

/// Copies operand 0 by lists of positions.
pub struct RemapStep {
    /// Bytes per element.
    size: usize,
    remap: Remap,
}

impl RemapStep {
    /// Creates the step for `pad()` of `input` with mirrored values.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for the lists of positions.
    pub fn pad(op: &Pad, input: &Descriptor, output: &Descriptor) -> Result<RemapStep> {
        RemapStep::new(input, output, |axis, size, i| op.source(axis, size, i).expect("no constant"))
    }

    /// Creates the step for `resample2d()` of `input` to the nearest element.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for the lists of positions.
    pub fn nearest(op: &Resample2d, input: &Descriptor, output: &Descriptor) -> Result<RemapStep> {
        let axes = op.sorted_axes(input.rank());
        RemapStep::new(input, output, |axis, size, i| match axes.contains(&axis) {
            true => nearest(size, output.sizes()[axis], i),
            false => i,
        })
    }

    /// Creates a copy whose output position `i` along `axis` is the input position `source(axis, size, i)` of `size`.
    fn new(input: &Descriptor, output: &Descriptor, source: impl Fn(usize, u32, usize) -> usize) -> Result<RemapStep> {
        // Dimensions that keep their length need no list.
        let (sizes, lens) = (input.sizes(), output.sizes());
        let listed = sizes.iter().zip(lens.iter()).filter(|(size, len)| size != len);
        check_room(listed.map(|(_, &len)| len as usize * PLACE_BYTES).sum())?;
        let dimensions = sizes.iter().zip(lens.iter()).enumerate();
        let places = dimensions
            .map(|(axis, (&size, &len))| AxisPlaces::new(size as usize, len as usize, |i| source(axis, size, i)))
            .collect();
        Ok(RemapStep { size: input.dtype.size(), remap: Remap::new(&sizes, places) })
    }
}

impl Run for RemapStep {
    fn kernel(&self) -> &'static str {
        "remap"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let len = self.remap.row_len;
        with_storage!(self.size, T => {
            let input = io.input::<T>(0);
            for_each_chunk(env.threads, io.output(), len, 1, len, |first, rows| {
                env.isa.run(RemapRows { remap: &self.remap, src: input, first, rows });
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::DataType;
    use crate::ir::parse;
    use crate::testing::{Random, Tolerance, check};
    use proptest::prelude::*;

    fn check_op(dtype: DataType, shape: &[u32], op: &str) {
        let (name, attributes) = op.split_once(' ').unwrap_or((op, ""));
        let text = format!("%0 = input x {dtype} {shape:?}\n%1 = {name} %0 {attributes}\noutput y = %1");
        check(&parse(&text), Tolerance::EXACT);
    }

    #[test]
    fn mirrored_padding() {
        for dtype in DataType::OF_VALUES {
            for mode in ["edge", "reflection"] {
                check_op(dtype, &[3, 4], &format!("pad beginningPadding=[2, 0] endingPadding=[1, 3] mode={mode}"));
            }
        }
        let float = |shape: &[u32], op| check_op(DataType::Float32, shape, op);
        float(&[1], "pad beginningPadding=[5] endingPadding=[6] mode=edge");
        float(&[], "pad beginningPadding=[] endingPadding=[] mode=reflection");
        float(&[7], "pad beginningPadding=[6] endingPadding=[6] mode=reflection");
        float(&[2, 300, 300], "pad beginningPadding=[0, 3, 3] endingPadding=[0, 2, 4] mode=reflection");
        float(&[300, 300, 3], "pad beginningPadding=[1, 1, 0] endingPadding=[2, 2, 0] mode=edge");
    }

    #[test]
    fn nearest_elements() {
        for dtype in [DataType::Float32, DataType::Float16, DataType::Int8, DataType::Uint8] {
            check_op(dtype, &[1, 2, 3, 4], "resample2d scales=[2.0, 3.0]");
        }
        let float = |shape: &[u32], op| check_op(DataType::Float32, shape, op);
        float(&[2, 3, 4, 5], "resample2d");
        float(&[2, 3, 4, 5], "resample2d sizes=[7, 2]");
        float(&[2, 3, 4, 5], "resample2d sizes=[7, 2] axes=[2, 1]");
        float(&[2, 3, 4, 5], "resample2d sizes=[3, 5] axes=[0, 3]");
        float(&[1, 100, 100, 3], "resample2d sizes=[200, 250] axes=[1, 2]");
        float(&[1, 3, 100, 100], "resample2d sizes=[200, 250]");
        for dtype in [DataType::Float32, DataType::Float16, DataType::Uint8] {
            for scale in ["2.0", "3.0", "4.0", "5.0"] {
                check_op(dtype, &[2, 9, 40, 37], &format!("resample2d scales=[{scale}, {scale}]"));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn random_padding(shape in prop::collection::vec(1u32..7, 1..5), seed: u64) {
            let mut random = Random::new(seed);
            let mut pick = |n: u32| (random.next() % n as u64) as u32;
            let dtype = DataType::OF_VALUES[pick(9) as usize];
            let (mode, slack) = [("edge", 4), ("reflection", 0)][pick(2) as usize];
            let beginning: Vec<u32> = shape.iter().map(|&dim| pick(dim + slack)).collect();
            let ending: Vec<u32> = shape.iter().map(|&dim| pick(dim + slack)).collect();
            check_op(dtype, &shape, &format!("pad beginningPadding={beginning:?} endingPadding={ending:?} mode={mode}"));
        }

        #[test]
        fn random_resampling(shape in prop::collection::vec(1u32..9, 4), sizes in prop::collection::vec(1u32..20, 2), first in 0u32..4, offset in 1u32..4) {
            let second = (first + offset) % 4;
            check_op(DataType::Float32, &shape, &format!("resample2d sizes={sizes:?} axes=[{first}, {second}]"));
        }
    }
}
