//! The steps for `scatterND` and `scatterElements`, and for their forms that combine elements with updates. Updates of the
//! same position follow each other in their order: work is only split where the threads' positions differ.

use super::gather::IndexedRows;
use super::{Env, Run};
use crate::cpu::kernels::scatter::{CombineElements, CombineRows, Combined, ToPlaces};
use crate::cpu::memory::Io;
use crate::cpu::schedule::pool::Threads;
use crate::cpu::schedule::shared::{for_each_chunk, for_each_column_block};
use crate::dtype::{DataType, Element};
use crate::error::Result;
use crate::memory::check_room;
use crate::ops::extension::scatter::Reduction;
use crate::shape::{Descriptor, elements, strides};
use crate::{with_element, with_index};

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

/// Combines rows with updates.
pub struct ScatterRowsStep {
    dtype: DataType,
    reduction: Reduction,
    rows: IndexedRows,
}

impl ScatterRowsStep {
    /// Creates the step for `operands`: the input and the indices, whose last dimension holds coordinates.
    pub fn by_coordinates(reduction: Reduction, operands: [&Descriptor; 2]) -> ScatterRowsStep {
        let [input, indices] = operands;
        let rows = IndexedRows::by_coordinates(input, indices);
        ScatterRowsStep { dtype: input.dtype, reduction, rows }
    }

    fn run_as<T: Combined>(&self, env: &Env, io: &mut Io) {
        let (rows, output) = (self.rows.find(env, io), copy_of_input::<T>(env.threads, io));
        let (updates, row_len, reduction) = (io.input::<T>(2), self.rows.row_len, self.reduction);
        let shape = [1, output.len() / row_len, row_len];
        for_each_column_block(env.threads, output, shape, [COLUMNS, usize::MAX], rows.len(), |_, columns, out| {
            env.isa.run(CombineRows { reduction, updates, rows, row_len, columns, out });
        });
    }
}

impl Run for ScatterRowsStep {
    fn kernel(&self) -> &'static str {
        "scatter rows"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        with_element!(self.dtype, T => self.run_as::<T>(env, io));
    }

    fn scratch_bytes(&self, _threads: usize) -> usize {
        self.rows.scratch_bytes()
    }
}

/// Combines single elements with updates.
pub struct ScatterElementsStep {
    dtype: DataType,
    index_type: DataType,
    reduction: Reduction,
    /// Elements of the input before the axis, along it and after it.
    input: [usize; 3],
    /// The same of the indices.
    indices: [usize; 3],
    /// For each block of the input before the axis, the block of the indices; `None` if they are the same.
    blocks: Option<Vec<Option<u32>>>,
    /// For each element of the indices after the axis, the place of that of the input; `None` if they are the same.
    columns: Option<Vec<u32>>,
}

/// For each index of a tensor of the shape `sizes`, which is at most `within`, its place in one of the shape `within`.
fn places_within(sizes: &[u32], within: &[u32]) -> Option<Vec<u32>> {
    let (own, strides) = (strides(sizes), strides(within));
    let place =
        |at: usize| (0..sizes.len()).map(|d| at / own[d] % sizes[d] as usize * strides[d]).sum::<usize>() as u32;
    (sizes != within).then(|| (0..elements(sizes)).map(place).collect())
}

impl ScatterElementsStep {
    /// Creates the step for updates along `axis` of `operands`: the input and the indices.
    ///
    /// # Errors
    /// An UnknownError if there is no room for its tables.
    pub fn new(reduction: Reduction, axis: u32, operands: [&Descriptor; 2]) -> Result<ScatterElementsStep> {
        let axis = axis as usize;
        let [input, indices] = operands.map(Descriptor::sizes);
        let places = elements(&indices[..axis]) + elements(&indices[axis + 1..]);
        check_room(places * size_of::<u32>() + elements(&input[..axis]) * size_of::<Option<u32>>())?;
        let around = |sizes: &[u32]| [elements(&sizes[..axis]), sizes[axis] as usize, elements(&sizes[axis + 1..])];
        let blocks = places_within(&indices[..axis], &input[..axis]).map(|places| {
            let mut blocks = vec![None; elements(&input[..axis])];
            places.into_iter().zip(0..).for_each(|(place, block)| blocks[place as usize] = Some(block));
            blocks
        });
        Ok(ScatterElementsStep {
            dtype: operands[0].dtype,
            index_type: operands[1].dtype,
            reduction,
            input: around(&input),
            indices: around(&indices),
            blocks,
            columns: places_within(&indices[axis + 1..], &input[axis + 1..]),
        })
    }

    fn run_as<T: Combined>(&self, env: &Env, io: &mut Io) {
        let places = &mut io.scratch::<u32>()[..elements_of(self.indices)];
        with_index!(self.index_type, I => {
            let (indices, size) = (io.input::<I>(1), self.input[1]);
            for_each_chunk(env.threads, places, 1, COPY_GRAIN, 1, |first, places| {
                env.isa.run(ToPlaces { indices: &indices[first..][..places.len()], size, places });
            });
        });
        let (places, output) = (&*places, copy_of_input::<T>(env.threads, io));
        let (updates, reduction) = (io.input::<T>(2), self.reduction);
        let [_, count, width] = self.indices;
        let to = self.columns.as_deref();
        let grain = [COLUMNS, usize::MAX];
        for_each_column_block(env.threads, output, self.input, grain, 2 * count, |block, columns, out| {
            let block = self.blocks.as_ref().map_or(Some(block), |blocks| blocks[block].map(|block| block as usize));
            let Some(block) = block else { return };
            let own = block * count * width..(block + 1) * count * width;
            let (updates, places) = (&updates[own.clone()], &places[own]);
            env.isa.run(CombineElements { reduction, updates, places, width, to, columns, out });
        });
    }
}

fn elements_of([outer, count, inner]: [usize; 3]) -> usize {
    outer * count * inner
}

impl Run for ScatterElementsStep {
    fn kernel(&self) -> &'static str {
        "scatter elements"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        with_element!(self.dtype, T => self.run_as::<T>(env, io));
    }

    fn scratch_bytes(&self, _threads: usize) -> usize {
        elements_of(self.indices) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::{DataType, Number};
    use crate::ir::parse;
    use crate::ops::tensor::Tensor;
    use crate::testing::{Random, Tolerance, check, check_with};
    use proptest::prelude::*;
    use std::collections::HashMap;

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
        for dtype in DataType::OF_VALUES {
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

    /// Sums and products of random numbers below 4, rounded after each update.
    fn check_reduced(dtype: DataType, index: &str, [input, indices, updates]: [&[u32]; 3], op: &str) {
        let mut random = Random::new(9);
        let (name, attributes) = op.split_once(' ').unwrap();
        let graph = parse(&format!(
            "%0 = input x {dtype} {input:?}\n%1 = input i {index} {indices:?}\n%2 = input u {dtype} {updates:?}\n\
             %3 = {name} %0 %1 %2 {attributes}\noutput y = %3"
        ));
        // Products stay small.
        let mut tensor = |name: &str, id: usize| {
            let descriptor = graph.descriptor(crate::ir::ValueId(id as u32));
            (name.to_string(), random.tensor_in(descriptor, -1.25, 1.25))
        };
        let inputs = HashMap::from([tensor("x", 0), tensor("i", 1), tensor("u", 2)]);
        let tolerance = if dtype.is_float() { Tolerance::ulps(8).or_absolute(1e-5) } else { Tolerance::EXACT };
        check_with(&graph, &inputs, tolerance);
    }

    const REDUCTIONS: [&str; 5] = ["none", "add", "mul", "min", "max"];

    #[test]
    fn every_type_and_reduction() {
        for dtype in DataType::OF_VALUES {
            for reduction in REDUCTIONS {
                let elements = format!("scatterElementsReduced reduction={reduction}");
                let rows = format!("scatterNDReduced reduction={reduction}");
                check_reduced(dtype, "int64", [&[150, 3], &[9, 3], &[9, 3]], &elements);
                check_reduced(dtype, "int64", [&[50], &[90], &[90]], &elements);
                check_reduced(dtype, "int32", [&[20, 30, 2], &[6, 2], &[6, 2]], &rows);
                check_reduced(dtype, "uint32", [&[7], &[40, 1], &[40]], &rows);
            }
        }
    }

    #[test]
    fn indices_of_a_part_of_the_input() {
        for reduction in REDUCTIONS {
            for (input, indices, axis) in [
                ([4, 5, 6], [3, 9, 2], 1),
                ([4, 5, 6], [9, 4, 6], 0),
                ([4, 5, 6], [2, 3, 40], 2),
                ([1, 5, 1], [1, 1, 1], 1),
                ([3, 70, 300], [3, 90, 257], 1),
            ] {
                let op = format!("scatterElementsReduced axis={axis} reduction={reduction}");
                check_reduced(DataType::Float32, "int64", [&input, &indices, &indices], &op);
            }
        }
    }

    #[test]
    fn many_updates_of_few_elements() {
        for reduction in ["add", "max"] {
            let elements = format!("scatterElementsReduced reduction={reduction}");
            check_reduced(DataType::Int32, "int32", [&[3, 200], &[500, 200], &[500, 200]], &elements);
            check_reduced(
                DataType::Int32,
                "int32",
                [&[5, 200], &[900, 1], &[900, 200]],
                &format!("scatterNDReduced reduction={reduction}"),
            );
        }
    }

    #[test]
    fn nan_stays() {
        let graph = parse(
            "%0 = input x float32 [4]\n%1 = input i int64 [6]\n%2 = input u float32 [6]\n\
             %3 = scatterElementsReduced %0 %1 %2 reduction=min\n%4 = scatterElementsReduced %0 %1 %2 reduction=max\n\
             output y = %3\noutput z = %4",
        );
        let float = |numbers: &[f64]| {
            let mut numbers = numbers.iter();
            let descriptor = crate::shape::Descriptor::new(DataType::Float32, [numbers.len() as u32]);
            Tensor::from_fn(&descriptor, |_| Number::Float(*numbers.next().unwrap()))
        };
        let places = crate::shape::Descriptor::new(DataType::Int64, [6]);
        let places = Tensor::from_fn(&places, |index| Number::Int(index[0] as i128 % 3));
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        let inputs = HashMap::from([
            ("x".to_string(), float(&[nan, 1.0, -infinity, 4.0])),
            ("i".to_string(), places),
            ("u".to_string(), float(&[1.0, nan, infinity, 0.0, 2.0, -0.0])),
        ]);
        check_with(&graph, &inputs, Tolerance::EXACT);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn random_shapes(shape in prop::collection::vec(1u32..7, 1..5), batch in prop::collection::vec(1u32..5, 0..3), seed: u64) {
            let mut random = Random::new(seed);
            let mut pick = |n: usize| (random.next() % n as u64) as usize;
            let dtype = DataType::OF_VALUES[pick(9)];
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
