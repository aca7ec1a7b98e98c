//! Reductions.

use super::{Env, Run};
use crate::cpu::kernels::elementwise::Integer;
use crate::cpu::kernels::reduce::*;
use crate::cpu::memory::Io;
use crate::cpu::schedule::shared::for_each_chunk;
use crate::dtype::{DataType, Element};
use crate::ops::reduce::{Reduce as ReduceOp, ReduceKind, reduced_axes};
use crate::shape::{Descriptor, MAX_RANK};

/// Cost per element in multiply-adds: floats become float64, and often come from distant caches.
const COST: usize = 8;

/// With at most this many outputs, threads share the elements of an output.
const FEW: usize = 256;
/// Minimum elements of the operand for that.
const MANY: usize = 1 << 16;
/// Maximum parts per output. The number of parts depends only on the shape, and so do the bits of the result.
const MAX_PARTS: usize = 8;

/// A compiled reduction.
pub struct ReduceStep {
    kind: ReduceKind,
    dtype: DataType,
    nest: Nest,
    parts: Option<Parts>,
}

/// Splits a long reduction to a few outputs into parts.
struct Parts {
    count: usize,
    outputs: usize,
    /// The reduction of all parts: the outputs of the first part, then those of the second, and so on.
    nest: Nest,
}

impl Parts {
    /// Creates the parts for a reduction of dimensions `dims`, if it is long and its first reduced dimension is
    /// divisible.
    fn new(dims: &[usize], reduced: &[bool]) -> Option<Parts> {
        let outputs = dims.iter().zip(reduced).filter(|(_, reduced)| !**reduced).map(|(dim, _)| dim).product();
        let first = dims.iter().zip(reduced).position(|(&dim, &reduced)| dim != 1 || reduced)?;
        let count = 1 << dims[first].trailing_zeros().min(MAX_PARTS.ilog2());
        let long = outputs <= FEW && dims.iter().product::<usize>() >= MANY;
        if !long || !reduced[first] || count == 1 || dims.len() == MAX_RANK {
            return None;
        }
        let (mut dims, mut reduced) = (dims.to_vec(), reduced.to_vec());
        dims[first] /= count;
        dims.insert(first, count);
        reduced.insert(first, false);
        Some(Parts { count, outputs, nest: Nest::new(&dims, &reduced) })
    }
}

impl ReduceStep {
    /// Creates the reduction `op` of an operand `input`.
    pub fn new(op: &ReduceOp, input: &Descriptor) -> ReduceStep {
        let dims: Vec<usize> = input.sizes().iter().map(|&dim| dim as usize).collect();
        let reduced = reduced_axes(dims.len(), op.attributes.axes.as_deref()).expect("the shape rule checked the axes");
        let (nest, parts) = (Nest::new(&dims, &reduced), Parts::new(&dims, &reduced));
        // A part of a product can overflow although the whole is 0; the other excluded kinds do not use float64.
        let sums = match op.kind {
            ReduceKind::Product | ReduceKind::LogSumExp | ReduceKind::Max | ReduceKind::Min => false,
            _ => input.dtype.is_float(),
        };
        ReduceStep { kind: op.kind, dtype: input.dtype, nest, parts: parts.filter(|_| sums) }
    }

    fn float(&self, env: &Env, io: &mut Io) {
        match self.kind {
            ReduceKind::L1 => self.sum(env, io, Finished::new(SumAbs, |sum, _| sum)),
            ReduceKind::L2 => self.sum(env, io, Finished::new(SumSquares, |sum, _| sum.sqrt())),
            ReduceKind::LogSum => self.sum(env, io, Finished::new(Sum, |sum, _| sum.ln())),
            ReduceKind::LogSumExp => self.reduce::<f32, _>(env, io, LogSumExp),
            ReduceKind::Max => self.reduce::<f32, _>(env, io, Finished::new(Max, |max, _| max)),
            ReduceKind::Mean => self.sum(env, io, Finished::new(Sum, |sum, count| sum / count)),
            ReduceKind::Min => self.reduce::<f32, _>(env, io, Finished::new(Min, |min, _| min)),
            ReduceKind::Product => self.reduce::<f32, _>(env, io, Finished::new(Product, |product, _| product)),
            ReduceKind::Sum => self.sum(env, io, Finished::new(Sum, |sum, _| sum)),
            ReduceKind::SumSquare => self.sum(env, io, Finished::new(SumSquares, |sum, _| sum)),
        }
    }

    /// Computes the kinds that use float64, in parts if there are any.
    fn sum<F>(&self, env: &Env, io: &mut Io, reduction: Finished<F>)
    where
        F: Fold<f32, Sum = f64> + Copy + Sync,
    {
        let Some(Parts { count, outputs, nest }) = &self.parts else {
            return self.reduce::<f32, _>(env, io, reduction);
        };
        let (x, sums) = (io.input::<f32>(0), &mut io.scratch_f64()[..count * outputs]);
        for_each_chunk(env.threads, sums, 1, nest.grain(), COST * nest.count(), |first, out| {
            env.isa.run(Reduce { nest, reduction: reduction.unfinished(), x, first, out });
        });
        for (index, out) in io.output::<f32>().iter_mut().enumerate() {
            *out = reduction.join(sums[index..].iter().step_by(*outputs).copied(), self.nest.count());
        }
    }

    /// Computes the kinds that depend on the order of integers.
    fn extreme<T: Integer>(&self, env: &Env, io: &mut Io) {
        match self.kind {
            ReduceKind::Max => self.reduce::<T, _>(env, io, Folded::new(Max)),
            ReduceKind::Min => self.reduce::<T, _>(env, io, Folded::new(Min)),
            kind => unreachable!("{kind:?} does not take {}", self.dtype),
        }
    }

    /// Computes all kinds on integers. Wrapping sums and products have the same bits for signed and unsigned integers:
    /// `T` is the signed type, and `signed` matters only for absolute values.
    fn integer<T: Integer>(&self, env: &Env, io: &mut Io, signed: bool) {
        match self.kind {
            ReduceKind::L1 if signed => self.reduce::<T, _>(env, io, Folded::new(SumAbs)),
            ReduceKind::L1 | ReduceKind::Sum => self.reduce::<T, _>(env, io, Folded::new(Sum)),
            ReduceKind::Product => self.reduce::<T, _>(env, io, Folded::new(Product)),
            ReduceKind::SumSquare => self.reduce::<T, _>(env, io, Folded::new(SumSquares)),
            kind => unreachable!("{kind:?} does not take integers"),
        }
    }

    fn reduce<T: Element, R: Reduction<T, Out: Element>>(&self, env: &Env, io: &mut Io, reduction: R) {
        let (x, out) = (io.input::<T>(0), io.output::<R::Out>());
        for_each_chunk(env.threads, out, 1, self.nest.grain(), COST * self.nest.count(), |first, out| {
            env.isa.run(Reduce { nest: &self.nest, reduction, x, first, out });
        });
    }
}

impl Run for ReduceStep {
    fn kernel(&self) -> &'static str {
        "reduce"
    }

    fn scratch_bytes(&self, _threads: usize) -> usize {
        self.parts.as_ref().map_or(0, |parts| parts.count * parts.outputs * size_of::<f64>())
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let extreme = matches!(self.kind, ReduceKind::Max | ReduceKind::Min);
        match self.dtype {
            DataType::Float32 => self.float(env, io),
            DataType::Int32 if extreme => self.extreme::<i32>(env, io),
            DataType::Uint32 if extreme => self.extreme::<u32>(env, io),
            DataType::Int64 if extreme => self.extreme::<i64>(env, io),
            DataType::Uint64 if extreme => self.extreme::<u64>(env, io),
            DataType::Int8 => self.extreme::<i8>(env, io),
            DataType::Uint8 => self.extreme::<u8>(env, io),
            dtype @ (DataType::Int32 | DataType::Uint32) => self.integer::<i32>(env, io, dtype == DataType::Int32),
            dtype @ (DataType::Int64 | DataType::Uint64) => self.integer::<i64>(env, io, dtype == DataType::Int64),
            dtype @ (DataType::Float16 | DataType::Int4 | DataType::Uint4) => unreachable!("no kernel reads {dtype}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::ops::Op;
    use crate::ops::reduce::ReduceAttributes;
    use crate::testing::{Tolerance, check};
    use proptest::prelude::*;

    /// Sums are kept in float64; the exponentials of `reduceLogSumExp` have errors of 2 ULP each, and its logarithm can
    /// be near 0.
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
        // Reduced in parts.
        for (shape, axes) in [
            (&[1, 112, 30, 33][..], &[1, 2][..]),
            (&[64, 1100], &[0, 1]),
            (&[1, 12, 70, 3, 40], &[1, 2, 3]),
            (&[8, 4, 4096], &[0, 2]),
            (&[1026, 100], &[0]),
        ] {
            let dims: Vec<usize> = shape.iter().map(|&dim| dim as usize).collect();
            let reduced: Vec<bool> = (0..dims.len()).map(|axis| axes.contains(&(axis as u32))).collect();
            assert!(Parts::new(&dims, &reduced).is_some(), "{shape:?}");
            for name in ["reduceMean", "reduceL1", "reduceL2", "reduceLogSum", "reduceSumSquare", "reduceMax"] {
                reduce(name, "float32", shape, axes, false);
                reduce(name, "float16", shape, axes, true);
            }
        }
    }

    #[test]
    fn products_are_not_split_into_parts() {
        let input = Descriptor::new(DataType::Float32, [8192, 64]);
        let step = |kind| {
            let attributes = ReduceAttributes { axes: Some(vec![0]), ..ReduceAttributes::default() };
            ReduceStep::new(&ReduceOp { kind, attributes }, &input)
        };
        assert!(step(ReduceKind::Product).parts.is_none() && step(ReduceKind::Sum).parts.is_some());
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
