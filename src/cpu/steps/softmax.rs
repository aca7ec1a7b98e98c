//! `softmax()` and its logarithm.

use super::cumulative_sum::around_axis;
use super::{Env, Run};
use crate::cpu::kernels::softmax::{SoftmaxColumns, SoftmaxRows, WIDTH};
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::{for_each_chunk, for_each_column_block};
use crate::ops::extension::log_softmax::LogSoftmax;
use crate::ops::softmax::Softmax;
use crate::shape::Descriptor;

/// Approximate cost per element in multiply-adds: an exponential and three passes.
const COST: usize = 24;

/// A compiled softmax.
pub struct SoftmaxStep {
    /// Elements before the axis, along it and after it.
    sizes: [usize; 3],
    /// Whether to compute the logarithm of each result.
    log: bool,
}

impl SoftmaxStep {
    /// Creates the softmax `op` of an operand `input`.
    pub fn new(op: &Softmax, input: &Descriptor) -> SoftmaxStep {
        SoftmaxStep { sizes: around_axis(&input.sizes(), op.axis as usize), log: false }
    }

    /// Creates the logarithm `op` of a softmax of an operand `input`.
    pub fn log(op: &LogSoftmax, input: &Descriptor) -> SoftmaxStep {
        SoftmaxStep { sizes: around_axis(&input.sizes(), op.axis as usize), log: true }
    }
}

impl Run for SoftmaxStep {
    fn kernel(&self) -> &'static str {
        match (self.log, self.sizes[2]) {
            (false, 1) => "softmax rows",
            (false, _) => "softmax columns",
            (true, 1) => "log softmax rows",
            (true, _) => "log softmax columns",
        }
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let (x, out) = (io.input::<f32>(0), io.output::<f32>());
        let SoftmaxStep { sizes: [_, rows, stride], log } = *self;
        if stride == 1 {
            return for_each_chunk(env.threads, out, rows, 1, COST * rows, |first, out| {
                env.isa.run(SoftmaxRows { x: &x[first * rows..][..out.len()], out, columns: rows, log });
            });
        }
        for_each_column_block(env.threads, out, self.sizes, [WIDTH, WIDTH], COST * rows, |matrix, columns, out| {
            let x = &x[matrix * rows * stride + columns.start..];
            env.isa.run(SoftmaxColumns { x, out, width: columns.len(), rows, stride, log });
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

    const NAMES: [&str; 2] = ["softmax", "logSoftmax"];

    fn graph(name: &str, dtype: &str, shape: &[u32], axis: usize) -> Graph {
        parse(&format!("%0 = input x {dtype} {shape:?}\n%1 = {name} %0 axis={axis}\noutput y = %1"))
    }

    /// The difference of two logarithms can be near zero.
    fn tolerance(name: &str, dtype: &str) -> Tolerance {
        match (name, dtype) {
            ("softmax", _) => TOLERANCE,
            (_, "float16") => Tolerance::ulps(1).or_absolute(1e-6),
            _ => Tolerance::ulps(4).or_absolute(1e-6),
        }
    }

    #[test]
    fn sizes_at_the_edges() {
        for (name, dtype) in NAMES.iter().flat_map(|name| [(name, "float32"), (name, "float16")]) {
            let check = |shape: &[u32], axis| check(&graph(name, dtype, shape, axis), tolerance(name, dtype));
            for n in [1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 1000] {
                check(&[3, n], 1);
                check(&[2, 3, n], 1);
            }
            check(&[100, 300], 1);
            check(&[100, 300], 0);
        }
    }

    #[test]
    fn special_values() {
        let inf = f64::INFINITY;
        let rows = [[1e30, 1e30], [-inf, 0.0], [-inf, -inf], [inf, 0.0], [f64::NAN, 0.0], [-1e38, 1e38]];
        for (name, axis) in NAMES.iter().flat_map(|name| [(name, 0), (name, 1)]) {
            let shape = if axis == 1 { [6, 2] } else { [2, 6] };
            let graph = graph(name, "float32", &shape, axis);
            let x = Tensor::from_fn(graph.descriptor(graph.inputs[0].1), |index| {
                Number::Float(rows[index[1 - axis]][index[axis]])
            });
            check_with(&graph, &HashMap::from([("x".to_string(), x.rounded())]), tolerance(name, "float32"));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn random_shapes(dims in prop::collection::vec(1u32..12, 1..5), axis in 0usize..5, half: bool, log: bool) {
            let (name, dtype) = (NAMES[log as usize], if half { "float16" } else { "float32" });
            check(&graph(name, dtype, &dims, axis % dims.len()), tolerance(name, dtype));
        }
    }
}
