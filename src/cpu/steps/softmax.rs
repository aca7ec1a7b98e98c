//! `softmax()`.

use super::cumulative_sum::around_axis;
use super::{Env, Run};
use crate::cpu::kernels::reduce::WIDTH;
use crate::cpu::kernels::softmax::{SoftmaxColumns, SoftmaxRows};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::{for_each_chunk, for_each_column_block};
use crate::ops::softmax::Softmax;
use crate::shape::Descriptor;

/// Approximate cost per element in multiply-adds: an exponential and three passes.
const COST: usize = 24;

/// A compiled softmax.
pub struct SoftmaxStep {
    /// Elements before the axis, along it and after it.
    sizes: [usize; 3],
}

impl SoftmaxStep {
    /// Creates the softmax `op` of an operand `input`.
    pub fn new(op: &Softmax, input: &Descriptor) -> SoftmaxStep {
        SoftmaxStep { sizes: around_axis(&input.sizes(), op.axis as usize) }
    }
}

impl Run for SoftmaxStep {
    fn kernel(&self) -> &'static str {
        if self.sizes[2] == 1 { "softmax rows" } else { "softmax columns" }
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let (x, out) = (io.input::<f32>(0), io.output::<f32>());
        let [_, rows, stride] = self.sizes;
        if stride == 1 {
            return for_each_chunk(env.threads, out, rows, 1, COST * rows, |first, out| {
                env.isa.run(SoftmaxRows { x: &x[first * rows..][..out.len()], out, columns: rows });
            });
        }
        for_each_column_block(env.threads, out, self.sizes, [WIDTH, WIDTH], COST * rows, |matrix, columns, out| {
            let x = &x[matrix * rows * stride + columns.start..];
            env.isa.run(SoftmaxColumns { x, out, width: columns.len(), rows, stride });
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::Number;
    use crate::ir::{Graph, parse};
    use crate::ops::tensor::Tensor;
    use crate::testing::{Tolerance, check, check_with};
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// `x - max` is rounded once, which alone shifts results by up to 8 ULP for inputs in -4..4.
    const TOLERANCE: Tolerance = Tolerance::ulps(12);

    fn graph(dtype: &str, shape: &[u32], axis: usize) -> Graph {
        parse(&format!("%0 = input x {dtype} {shape:?}\n%1 = softmax %0 axis={axis}\noutput y = %1"))
    }

    #[test]
    fn sizes_at_the_edges() {
        for dtype in ["float32", "float16"] {
            for n in [1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 1000] {
                check(&graph(dtype, &[3, n], 1), TOLERANCE);
                check(&graph(dtype, &[2, 3, n], 1), TOLERANCE);
            }
        }
        check(&graph("float32", &[100, 300], 1), TOLERANCE);
        check(&graph("float32", &[100, 300], 0), TOLERANCE);
    }

    #[test]
    fn special_values() {
        let inf = f64::INFINITY;
        let rows = [[1e30, 1e30], [-inf, 0.0], [-inf, -inf], [inf, 0.0], [f64::NAN, 0.0], [-1e38, 1e38]];
        for axis in [0, 1] {
            let shape = if axis == 1 { [6, 2] } else { [2, 6] };
            let graph = graph("float32", &shape, axis);
            let x = Tensor::from_fn(graph.descriptor(graph.inputs[0].1), |index| {
                Number::Float(rows[index[1 - axis]][index[axis]])
            });
            check_with(&graph, &HashMap::from([("x".to_string(), x.rounded())]), TOLERANCE);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn random_shapes(dims in prop::collection::vec(1u32..12, 1..5), axis in 0usize..5, half: bool) {
            check(&graph(if half { "float16" } else { "float32" }, &dims, axis % dims.len()), TOLERANCE);
        }
    }
}
