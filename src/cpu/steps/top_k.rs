//! `topK`.

use super::cumulative_sum::around_axis;
use super::{Env, Run};
use crate::cpu::kernels::top_k::{Ranked, Select};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::{PerThread, for_each_chunk_with, for_each_column_block};
use crate::dtype::DataType;
use crate::ops::extension::top_k::TopK;
use crate::shape::Descriptor;
use crate::with_element;

/// Minimum number of entries of a search: with room for fewer, they would often be thinned out.
const MIN_ROOM: usize = 1024;

/// The cost of an element.
const COST: usize = 8;

/// A compiled search for the first elements in an order.
pub struct TopKStep {
    dtype: DataType,
    /// Elements before the axis, along it and after it.
    sizes: [usize; 3],
    count: usize,
    largest: bool,
}

impl TopKStep {
    /// Creates the search `op` in an operand `input`.
    pub fn new(op: &TopK, input: &Descriptor) -> TopKStep {
        let sizes = around_axis(&input.sizes(), op.axis as usize);
        TopKStep { dtype: input.dtype, sizes, count: op.count.get() as usize, largest: op.largest }
    }

    /// The number of entries of a search.
    fn room(&self) -> usize {
        self.sizes[1].min((4 * self.count).max(MIN_ROOM))
    }

    fn find<T: Ranked>(&self, env: &Env, io: &mut Io) {
        let (x, out, scratch) = (io.input::<T>(0), io.output::<i64>(), io.scratch::<u64>());
        let [outer, len, stride] = self.sizes;
        let search = |start: usize, scratch: &mut [u64], put: &mut dyn FnMut(usize, i64)| {
            let entries = &mut T::entries(scratch)[..self.room()];
            let TopKStep { count, largest, .. } = *self;
            env.isa.run(Select { x: &x[start..], stride, len, count, largest, entries: &mut *entries });
            entries[..count].iter().enumerate().for_each(|(at, &entry)| put(at, T::parts(entry).1.into()));
        };
        if stride == 1 {
            let unit = self.count;
            return for_each_chunk_with(env.threads, out, unit, 1, COST * len, scratch, |first, out, scratch| {
                for (line, out) in (first..).zip(out.chunks_exact_mut(unit)) {
                    search(line * len, scratch, &mut |at, index| out[at] = index);
                }
            });
        }
        let own = PerThread::new(env.threads, scratch);
        let sizes = [outer, self.count, stride];
        for_each_column_block(env.threads, out, sizes, [1, stride], COST * len, |matrix, columns, mut out| {
            own.with(|scratch| {
                for (column, line) in columns.enumerate() {
                    let start = matrix * len * stride + line;
                    search(start, scratch, &mut |at, index| out.row(at)[column] = index);
                }
            });
        });
    }
}

impl Run for TopKStep {
    fn kernel(&self) -> &'static str {
        "topK"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        with_element!(self.dtype, T => self.find::<T>(env, io));
    }

    fn scratch_bytes(&self, threads: usize) -> usize {
        let words = with_element!(self.dtype, T => <T as Ranked>::WORDS);
        threads * self.room() * words * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::{DataType, Number};
    use crate::ir::{Graph, parse};
    use crate::ops::tensor::Tensor;
    use crate::testing::{Random, Tolerance, check, check_with};
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn graph(dtype: DataType, shape: &[u32], axis: usize, count: u32, largest: bool) -> Graph {
        parse(&format!(
            "%0 = input x {dtype} {shape:?}\n%1 = topK %0 axis={axis} count={count} largest={largest}\noutput y = %1"
        ))
    }

    #[test]
    fn every_type_at_the_edges() {
        let shapes: [(&[u32], usize, u32); 7] = [
            (&[1], 0, 1),
            (&[3, 64], 1, 64),
            (&[3, 65], 1, 2),
            (&[2, 1300], 1, 5),
            (&[2, 1300], 1, 700),
            (&[131, 5], 0, 130),
            (&[2, 5, 129], 1, 3),
        ];
        for dtype in DataType::OF_VALUES {
            for (shape, axis, count) in shapes {
                for largest in [true, false] {
                    check(&graph(dtype, shape, axis, count, largest), Tolerance::EXACT);
                }
            }
        }
    }

    #[test]
    fn ties_nan_infinities_and_limits() {
        let mut random = Random::new(3);
        for (dtype, specials) in [
            (DataType::Float32, [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.0]),
            (DataType::Float16, [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 65504.0]),
            (DataType::Int64, [i64::MIN as f64, 0.0, 1.0, -1.0, 2.0, -2.0]),
            (DataType::Uint64, [0.0, 1.0, 2.0, 3.0, (1u64 << 63) as f64, 5.0]),
            (DataType::Int8, [-128.0, 127.0, 0.0, -1.0, 1.0, 2.0]),
        ] {
            for (count, largest) in [(1, true), (7, false), (7, true), (1500, true), (3000, false)] {
                let graph = graph(dtype, &[3000], 0, count, largest);
                let input = graph.descriptor(graph.inputs[0].1);
                let x = Tensor::from_fn(input, |_| {
                    Number::Float(specials[(random.next() % specials.len() as u64) as usize]).cast(dtype)
                });
                check_with(&graph, &HashMap::from([("x".to_string(), x)]), Tolerance::EXACT);
            }
        }
    }

    #[test]
    fn lines_in_order_thin_out_again_and_again() {
        for largest in [true, false] {
            let graph = graph(DataType::Float32, &[5000], 0, 3, largest);
            let input = graph.descriptor(graph.inputs[0].1);
            for sign in [1.0, -1.0] {
                let x = Tensor::from_fn(input, |index| Number::Float(sign * index[0] as f64));
                check_with(&graph, &HashMap::from([("x".to_string(), x)]), Tolerance::EXACT);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn random_shapes(dims in prop::collection::vec(1u32..9, 1..5), axis in 0usize..5, dtype in 0usize..9, count in 0u32..9, largest: bool) {
            let axis = axis % dims.len();
            let count = count % dims[axis] + 1;
            check(&graph(DataType::OF_VALUES[dtype], &dims, axis, count, largest), Tolerance::EXACT);
        }
    }
}
