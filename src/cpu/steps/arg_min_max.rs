//! `argMin()` and `argMax()`.

use super::{Env, Run};
use crate::cpu::kernels::arg::{Arg, Order};
use crate::cpu::kernels::reduce::{Max, Min, Nest, Reduce, WIDTH};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk;
use crate::dtype::{DataType, Element};
use crate::ops::arg_min_max::ArgMinMax;
use crate::shape::Descriptor;

/// A compiled search for the smallest or largest element.
pub struct ArgMinMaxStep {
    max: bool,
    dtype: DataType,
    index: DataType,
    nest: Nest,
}

impl ArgMinMaxStep {
    /// Creates the search `op` in an operand `input`.
    pub fn new(op: &ArgMinMax, input: &Descriptor) -> ArgMinMaxStep {
        let dims: Vec<usize> = input.sizes().iter().map(|&dim| dim as usize).collect();
        let mut reduced = vec![false; dims.len()];
        reduced[op.attributes.axis as usize] = true;
        let index = op.attributes.output_data_type;
        ArgMinMaxStep { max: op.max, dtype: input.dtype, index, nest: Nest::new(&dims, &reduced) }
    }

    fn search<T: Element>(&self, env: &Env, io: &mut Io)
    where
        Max: Order<T>,
        Min: Order<T>,
    {
        let x = io.input::<T>(0);
        let run = |first: usize, out: &mut [i32]| match self.max {
            true => Reduce { nest: &self.nest, reduction: Arg::new(Max), x, first, out }.run_on(env.isa),
            false => Reduce { nest: &self.nest, reduction: Arg::new(Min), x, first, out }.run_on(env.isa),
        };
        let cost = self.nest.count();
        match self.index {
            DataType::Int32 => for_each_chunk(env.threads, io.output::<i32>(), 1, 1, cost, run),
            _ => for_each_chunk(env.threads, io.output::<i64>(), 1, 1, cost, |first, out| {
                let mut narrow = [0; WIDTH];
                for (block, out) in out.chunks_mut(WIDTH).enumerate() {
                    let narrow = &mut narrow[..out.len()];
                    run(first + block * WIDTH, narrow);
                    out.iter_mut().zip(&*narrow).for_each(|(out, &index)| *out = index as i64);
                }
            }),
        }
    }
}

impl Run for ArgMinMaxStep {
    fn kernel(&self) -> &'static str {
        "argMinMax"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        match self.dtype {
            DataType::Float32 => self.search::<f32>(env, io),
            DataType::Float64 => self.search::<f64>(env, io),
            DataType::Int32 => self.search::<i32>(env, io),
            DataType::Uint32 => self.search::<u32>(env, io),
            DataType::Int64 => self.search::<i64>(env, io),
            DataType::Uint64 => self.search::<u64>(env, io),
            DataType::Int8 => self.search::<i8>(env, io),
            DataType::Uint8 => self.search::<u8>(env, io),
            DataType::Float16 | DataType::Int4 | DataType::Uint4 => unreachable!("no kernel reads {}", self.dtype),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::{DataType, Number};
    use crate::ir::{Graph, parse};
    use crate::ops::tensor::Tensor;
    use crate::testing::{Tolerance, check, check_with};
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn graph(name: &str, dtype: DataType, shape: &[u32], axis: usize, index: &str) -> Graph {
        parse(&format!(
            "%0 = input x {dtype} {shape:?}\n%1 = {name} %0 axis={axis} outputDataType={index}\noutput y = %1"
        ))
    }

    #[test]
    fn every_type_at_the_edges() {
        let shapes: [(&[u32], usize); 6] =
            [(&[1], 0), (&[3, 31], 1), (&[2, 1300], 1), (&[31, 5], 0), (&[2, 5, 129], 1), (&[2, 1, 3], 1)];
        for dtype in DataType::OF_VALUES {
            for (shape, axis) in shapes {
                check(&graph("argMin", dtype, shape, axis, "int32"), Tolerance::EXACT);
                check(&graph("argMax", dtype, shape, axis, "int64"), Tolerance::EXACT);
            }
        }
    }

    #[test]
    fn nan_and_ties() {
        let nan = f64::NAN;
        let rows = [[1.0, nan, 2.0, nan], [0.0, -0.0, 0.0, -0.0], [f64::INFINITY, -1.0, f64::NEG_INFINITY, -1.0]];
        for name in ["argMin", "argMax"] {
            for axis in [0, 1] {
                let graph = graph(name, DataType::Float32, &[3, 4], axis, "int32");
                let input = graph.descriptor(graph.inputs[0].1);
                let x = Tensor::from_fn(input, |index| Number::Float(rows[index[0]][index[1]]));
                check_with(&graph, &HashMap::from([("x".to_string(), x)]), Tolerance::EXACT);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn random_shapes(dims in prop::collection::vec(1u32..9, 1..6), axis in 0usize..6, dtype in 0usize..9, max: bool) {
            let name = if max { "argMax" } else { "argMin" };
            check(&graph(name, DataType::OF_VALUES[dtype], &dims, axis % dims.len(), "int32"), Tolerance::EXACT);
        }
    }
}
