//! `cumulativeSum()`.

use super::{Env, Run};
use crate::cpu::kernels::cumulative::{COLUMNS, SumColumns, Summand, sum_row};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::{for_each_chunk, for_each_column_block};
use crate::dtype::DataType;
use crate::ops::cumulative_sum::CumulativeSum;
use crate::shape::{Descriptor, elements};

/// Neighboring columns that a thread computes at least.
const GRAIN: usize = 128;

/// Compiled running sums.
pub struct CumulativeSumStep {
    dtype: DataType,
    /// Elements before the axis, along it and after it.
    sizes: [usize; 3],
    exclusive: bool,
    reversed: bool,
}

impl CumulativeSumStep {
    /// Creates the sums `op` of an operand `input`.
    pub fn new(op: &CumulativeSum, input: &Descriptor) -> CumulativeSumStep {
        let sizes = around_axis(&input.sizes(), op.axis as usize);
        CumulativeSumStep { dtype: input.dtype, sizes, exclusive: op.exclusive, reversed: op.reversed }
    }

    fn sum<T: Summand>(&self, env: &Env, io: &mut Io) {
        let (x, out) = (io.input::<T>(0), io.output::<T>());
        let &CumulativeSumStep { sizes, exclusive, reversed, .. } = self;
        let [_, rows, stride] = sizes;
        if stride == 1 {
            return for_each_chunk(env.threads, out, rows, 1, 2 * rows, |first, out| {
                let x = &x[first * rows..][..out.len()];
                for (x, out) in x.chunks_exact(rows).zip(out.chunks_exact_mut(rows)) {
                    sum_row(x, out, exclusive, reversed);
                }
            });
        }
        for_each_column_block(env.threads, out, sizes, [GRAIN, COLUMNS], rows, |matrix, columns, out| {
            let x = &x[matrix * rows * stride + columns.start..];
            env.isa.run(SumColumns { x, out, rows, stride, exclusive, reversed });
        });
    }
}

/// The number of elements of a shape before an axis, along it and after it.
pub(super) fn around_axis(shape: &[u32], axis: usize) -> [usize; 3] {
    [elements(&shape[..axis]), shape[axis] as usize, elements(&shape[axis + 1..])]
}

impl Run for CumulativeSumStep {
    fn kernel(&self) -> &'static str {
        "cumulativeSum"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        match self.dtype {
            DataType::Float32 => self.sum::<f32>(env, io),
            DataType::Float64 => self.sum::<f64>(env, io),
            DataType::Int32 => self.sum::<i32>(env, io),
            DataType::Uint32 => self.sum::<u32>(env, io),
            DataType::Int64 => self.sum::<i64>(env, io),
            DataType::Uint64 => self.sum::<u64>(env, io),
            _ => unreachable!("no kernel reads {}", self.dtype),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};
    use proptest::prelude::*;

    fn sums(dtype: &str, shape: &[u32], axis: usize, exclusive: bool, reversed: bool) {
        let text = format!(
            "%0 = input x {dtype} {shape:?}\n\
             %1 = cumulativeSum %0 axis={axis} exclusive={exclusive} reversed={reversed}\noutput y = %1"
        );
        // Sums are kept in float64 and rounded once, as in the oracle, which adds those of float64 in another order.
        let is_double = dtype == "float64";
        check(&parse(&text), Tolerance::ulps(1).or_absolute(if is_double { 1e-12 } else { 0.0 }));
    }

    #[test]
    fn every_type_and_option() {
        for dtype in ["float32", "float16", "float64", "int32", "uint32", "int64", "uint64"] {
            for (shape, axis) in [(&[5][..], 0), (&[3, 100], 1), (&[7, 129], 0), (&[2, 3, 4], 1), (&[2, 1, 4], 1)] {
                for options in 0..4 {
                    sums(dtype, shape, axis, options & 1 == 1, options & 2 == 2);
                }
            }
        }
    }

    #[test]
    fn work_is_split() {
        sums("float32", &[300, 600], 1, false, false);
        sums("float32", &[300, 600], 0, true, true);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn random_shapes(dims in prop::collection::vec(1u32..9, 1..6), axis in 0usize..6, exclusive: bool, reversed: bool) {
            sums("float32", &dims, axis % dims.len(), exclusive, reversed);
        }
    }
}
