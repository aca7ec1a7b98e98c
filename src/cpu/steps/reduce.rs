//! Reductions.

use super::{Env, Run};
use crate::cpu::kernels::elementwise::Integer;
use crate::cpu::kernels::float::Float;
use crate::cpu::kernels::reduce::*;
use crate::cpu::kernels::stored::Stored;
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk;
use crate::dtype::{DataType, Element};
use crate::ops::reduce::{Reduce as ReduceOp, ReduceKind, reduced_axes};
use crate::shape::Descriptor;
use half::f16;

/// A reduction made ready to run.
pub struct ReduceStep {
    kind: ReduceKind,
    dtype: DataType,
    nest: Nest,
}

impl ReduceStep {
    /// The reduction `op` of an operand `input`.
    pub fn new(op: &ReduceOp, input: &Descriptor) -> ReduceStep {
        let dims: Vec<usize> = input.sizes().iter().map(|&dim| dim as usize).collect();
        let reduced = reduced_axes(dims.len(), op.attributes.axes.as_deref()).expect("the shape rule checked the axes");
        ReduceStep { kind: op.kind, dtype: input.dtype, nest: Nest::new(&dims, &reduced) }
    }

    fn float<T: Float>(&self, env: &Env, io: &mut Io) {
        match self.kind {
            ReduceKind::L1 => self.reduce::<T, _>(env, io, Finished::new(SumAbs, |sum, _| sum)),
            ReduceKind::L2 => self.reduce::<T, _>(env, io, Finished::new(SumSquares, |sum, _| sum.sqrt())),
            ReduceKind::LogSum => self.reduce::<T, _>(env, io, Finished::new(Sum, |sum, _| sum.ln())),
            ReduceKind::LogSumExp => self.reduce::<T, _>(env, io, LogSumExp),
            ReduceKind::Max => self.reduce::<T, _>(env, io, Finished::new(Max, |max, _| max)),
            ReduceKind::Mean => self.reduce::<T, _>(env, io, Finished::new(Sum, |sum, count| sum / count)),
            ReduceKind::Min => self.reduce::<T, _>(env, io, Finished::new(Min, |min, _| min)),
            ReduceKind::Product => self.reduce::<T, _>(env, io, Finished::new(Product, |product, _| product)),
            ReduceKind::Sum => self.reduce::<T, _>(env, io, Finished::new(Sum, |sum, _| sum)),
            ReduceKind::SumSquare => self.reduce::<T, _>(env, io, Finished::new(SumSquares, |sum, _| sum)),
        }
    }

    /// The operators that look at the order of integers.
    fn extreme<T: Stored<Lane = T> + Integer>(&self, env: &Env, io: &mut Io) {
        match self.kind {
            ReduceKind::Max => self.reduce::<T, _>(env, io, Folded::new(Max)),
            ReduceKind::Min => self.reduce::<T, _>(env, io, Folded::new(Min)),
            kind => unreachable!("{kind:?} does not take {}", self.dtype),
        }
    }

    /// All operators on integers. Sums and products that wrap around have the same bits for signed and unsigned integers:
    /// `T` is the signed type, and only absolute values have to know.
    fn integer<T: Stored<Lane = T> + Integer>(&self, env: &Env, io: &mut Io, signed: bool) {
        match self.kind {
            ReduceKind::L1 if signed => self.reduce::<T, _>(env, io, Folded::new(SumAbs)),
            ReduceKind::L1 | ReduceKind::Sum => self.reduce::<T, _>(env, io, Folded::new(Sum)),
            ReduceKind::Product => self.reduce::<T, _>(env, io, Folded::new(Product)),
            ReduceKind::SumSquare => self.reduce::<T, _>(env, io, Folded::new(SumSquares)),
            kind => unreachable!("{kind:?} takes no integers"),
        }
    }

    fn reduce<T: Stored, R: Reduction<T, Out: Element>>(&self, env: &Env, io: &mut Io, reduction: R) {
        let (x, out) = (io.input::<T>(0), io.output::<R::Out>());
        for_each_chunk(env.threads, out, 1, self.nest.grain(), self.nest.count(), |first, out| {
            env.isa.run(Reduce { nest: &self.nest, reduction, x, first, out });
        });
    }
}

impl Run for ReduceStep {
    fn kernel(&self) -> &'static str {
        "reduce"
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let extreme = matches!(self.kind, ReduceKind::Max | ReduceKind::Min);
        match self.dtype {
            DataType::Float32 => self.float::<f32>(env, io),
            DataType::Float16 => self.float::<f16>(env, io),
            DataType::Int32 if extreme => self.extreme::<i32>(env, io),
            DataType::Uint32 if extreme => self.extreme::<u32>(env, io),
            DataType::Int64 if extreme => self.extreme::<i64>(env, io),
            DataType::Uint64 if extreme => self.extreme::<u64>(env, io),
            DataType::Int8 => self.extreme::<i8>(env, io),
            DataType::Uint8 => self.extreme::<u8>(env, io),
            dtype @ (DataType::Int32 | DataType::Uint32) => self.integer::<i32>(env, io, dtype == DataType::Int32),
            dtype @ (DataType::Int64 | DataType::Uint64) => self.integer::<i64>(env, io, dtype == DataType::Int64),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::parse;
    use crate::ops::Op;
    use crate::testing::{Tolerance, check};
    use proptest::prelude::*;

    /// Sums are kept in float64; the exponentials of `reduceLogSumExp` are off by 2 units each, and its logarithm can be
    /// near 0.
    const TOLERANCE: Tolerance = Tolerance::ulps(4).or_absolute(2e-6);

    fn reduce(name: &str, dtype: &str, shape: &[u32], axes: &[u32], keep: bool) {
        let text = format!(
            "%0 = input x {dtype} {shape:?}\n%1 = {name} %0 axes={axes:?} keepDimensions={keep}\noutput y = %1"
        );
        check(&parse(&text), if dtype.contains("int") { Tolerance::EXACT } else { TOLERANCE });
    }

    #[test]
    fn every_kind_and_type_at_the_edges() {
        let shapes: &[(&[u32], &[u32])] = &[
            (&[], &[]),
            (&[1], &[0]),
            (&[3, 31], &[1]),
            (&[3, 33], &[1]),
            (&[70, 31], &[1]),
            (&[130, 2], &[1]),
            (&[31, 5], &[0]),
            (&[2, 5, 129], &[1]),
            (&[2, 3, 4, 5], &[0, 2]),
            (&[2, 3, 4, 5], &[3, 1]),
            (&[2, 3, 4], &[]),
            (&[300, 2], &[1, 0]),
        ];
        for rule in Op::rules().filter(|rule| rule.name.starts_with("reduce")) {
            for &dtype in rule.resolve(rule.operands[0].types) {
                for (shape, axes) in shapes {
                    reduce(rule.name, dtype.name(), shape, axes, false);
                }
            }
        }
    }

    #[test]
    fn large_reductions() {
        for axes in [&[0][..], &[1], &[0, 1], &[2], &[0, 2]] {
            reduce("reduceMean", "float32", &[70, 33, 130], axes, true);
            reduce("reduceMax", "float16", &[70, 33, 130], axes, true);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn random_shapes(
            dims in prop::collection::vec(1u32..7, 0..6),
            mask in 0u32..64,
            kind in 0usize..10,
            half: bool,
            keep: bool,
        ) {
            let names: Vec<&str> = Op::rules().map(|rule| rule.name).filter(|name| name.starts_with("reduce")).collect();
            let axes: Vec<u32> = (0..dims.len() as u32).filter(|axis| mask >> axis & 1 == 1).collect();
            reduce(names[kind], if half { "float16" } else { "float32" }, &dims, &axes, keep);
        }
    }
}
