//! The steps for `scatterND` and `scatterElements`. If two updates have the same position, the last one wins: work is
//! only split where the threads' positions differ.

use super::gather::{Along, IndexedRows};
use super::{Env, Run};
use crate::cpu::kernels::gather::Index;
use crate::cpu::kernels::scatter::{scatter_elements, scatter_rows};
use crate::cpu::memory::Io;
use crate::cpu::schedule::pool::Threads;
use crate::cpu::schedule::shared::{for_each_chunk, for_each_column_block};
use crate::dtype::Element;
use crate::shape::Descriptor;
use crate::{with_index, with_storage};

/// Minimum elements of one range of the copy of the input.
const COPY_GRAIN: usize = 4096;

/// Minimum columns per thread: whole cache lines.
const COLUMNS: usize = 64;

/// Takes the output of the step, and copies operand 0 to it.
fn copy_of_input<'a, T: Element>(threads: &Threads, io: &mut Io<'a>) -> &'a mut [T] {
    let (input, output) = (io.input::<T>(0), io.output::<T>());
    for_each_chunk(threads, output, 1, COPY_GRAIN, 1, |first, part| {
        part.copy_from_slice(&input[first..first + part.len()]);
    });
    output
}

/// Replaces rows.
pub struct ScatterStep {
    /// Bytes per element.
    size: usize,
    rows: IndexedRows,
}

impl ScatterStep {
    /// Creates the step for `scatterND()` over a copy of `input`.
    pub fn by_coordinates(input: &Descriptor, indices: &Descriptor) -> ScatterStep {
        ScatterStep { size: input.dtype.size(), rows: IndexedRows::by_coordinates(input, indices) }
    }
}

impl Run for ScatterStep {
    fn kernel(&self) -> &'static str {
        "scatter rows"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let rows = self.rows.find(env, io);
        with_storage!(self.size, T => {
            let output = copy_of_input::<T>(env.threads, io);
            let (updates, row_len) = (io.input::<T>(2), self.rows.row_len);
            let shape = [1, output.len() / row_len, row_len];
            for_each_column_block(env.threads, output, shape, [COLUMNS, usize::MAX], rows.len(), |_, columns, out| {
                scatter_rows(updates, rows, row_len, columns, out);
            });
        })
    }

    fn scratch_bytes(&self, _threads: usize) -> usize {
        self.rows.scratch_bytes()
    }
}

/// `scatterElements()`: replaces single elements of a copy of the input.
pub struct ScatterElementsStep(pub Along);

impl ScatterElementsStep {
    fn run_as<T: Element, I: Index>(&self, env: &Env, io: &mut Io) {
        let Along { size, count, inner, .. } = self.0;
        let output = copy_of_input::<T>(env.threads, io);
        let (indices, updates) = (io.input::<I>(1), io.input::<T>(2));
        let block = count * inner;
        for_each_chunk(env.threads, output, size * inner, 1, 2 * block, |first, out| {
            scatter_elements(&updates[first * block..], &indices[first * block..], count, inner, out, size);
        });
    }
}

impl Run for ScatterElementsStep {
    fn kernel(&self) -> &'static str {
        "scatter elements"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        with_storage!(self.0.element(), T => with_index!(self.0.index_type(), I => self.run_as::<T, I>(env, io)))
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::DataType;
    use crate::ir::parse;
    use crate::testing::{Random, Tolerance, check};
    use proptest::prelude::*;

    fn check_op(dtype: DataType, index: &str, [input, indices, updates]: [&[u32]; 3], op: &str) {
        let (name, attributes) = op.split_once(' ').unwrap_or((op, ""));
        let text = format!(
            "%0 = input x {dtype} {input:?}\n%1 = input i {index} {indices:?}\n%2 = input u {dtype} {updates:?}\n\
             %3 = {name} %0 %1 %2 {attributes}\noutput y = %3"
        );
        check(&parse(&text), Tolerance::EXACT);
    }

    #[test]
    fn every_type() {
        for dtype in DataType::ALL {
            for index in ["int32", "uint32", "int64"] {
                check_op(dtype, index, [&[150, 3], &[9, 3], &[9, 3]], "scatterElements");
                check_op(dtype, index, [&[20, 30, 2], &[6, 2], &[6, 2]], "scatterND");
            }
        }
    }

    #[test]
    fn the_last_of_equal_places_wins() {
        // Most of the random indices are clamped to the first or last position.
        for (input, indices, op) in [
            ([3, 4], [50, 4], "scatterElements"),
            ([4, 3], [4, 50], "scatterElements axis=1"),
            ([400, 3], [400, 200], "scatterElements axis=1"),
            ([3, 400], [300, 400], "scatterElements axis=0"),
        ] {
            check_op(DataType::Float32, "int32", [&input, &indices, &indices], op);
        }
        for (input, indices, updates) in [
            (&[3, 4][..], &[50, 1][..], &[50, 4][..]),
            (&[3, 4], &[50, 2], &[50]),
            (&[3, 1000], &[200, 1], &[200, 1000]),
            (&[3], &[1], &[]),
        ] {
            check_op(DataType::Float32, "int64", [input, indices, updates], "scatterND");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn random_shapes(shape in prop::collection::vec(1u32..7, 1..5), batch in prop::collection::vec(1u32..5, 0..3), seed: u64) {
            let mut random = Random::new(seed);
            let mut pick = |n: usize| (random.next() % n as u64) as usize;
            let dtype = DataType::ALL[pick(8)];
            let index = ["int32", "uint32", "int64"][pick(3)];
            let axis = pick(shape.len());
            if pick(2) == 0 {
                let mut indices = shape.clone();
                indices[axis] = 1 + pick(9) as u32;
                check_op(dtype, index, [&shape, &indices, &indices], &format!("scatterElements axis={axis}"));
            } else {
                let indices = [&batch[..], &[1 + axis as u32]].concat();
                let updates = [&batch[..], &shape[axis + 1..]].concat();
                check_op(dtype, index, [&shape, &indices, &updates], "scatterND");
            }
        }
    }
}
