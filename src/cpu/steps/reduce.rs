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

    /// Folds all parts with `F`, and joins those of each output.
    fn run<T: Element, F, O: Element>(&self, env: &Env, io: &mut Io, finish: impl Fn(F::Sum) -> O)
    where
        F: Fold<T, Sum: Element> + Copy + Sync,
    {
        let &Parts { count, outputs, ref nest } = self;
        let (x, sums) = (io.input::<T>(0), &mut io.scratch::<F::Sum>()[..count * outputs]);
        for_each_chunk(env.threads, sums, 1, nest.grain(), COST * nest.count(), |first, out| {
            fold::<T, F>(env, nest, x, first, out);
        });
        for (index, out) in io.output::<O>().iter_mut().enumerate() {
            let sums = sums[index..].iter().step_by(outputs).copied();
            *out = finish(sums.reduce(F::join).expect("several parts"));
        }
    }
}

impl ReduceStep {
    /// Creates the reduction `op` of an operand `input`.
    pub fn new(op: &ReduceOp, input: &Descriptor) -> ReduceStep {
        let dims: Vec<usize> = input.sizes().iter().map(|&dim| dim as usize).collect();
        let reduced = reduced_axes(dims.len(), op.attributes.axes.as_deref()).expect("the shape rule checked the axes");
        let (nest, parts) = (Nest::new(&dims, &reduced), Parts::new(&dims, &reduced));
        // A part of a product can overflow although the whole is 0. Exponentials are shifted by the largest of all.
        let whole = matches!(op.kind, ReduceKind::Product | ReduceKind::LogSumExp) && input.dtype.is_float();
        ReduceStep { kind: op.kind, dtype: input.dtype, nest, parts: parts.filter(|_| !whole) }
    }

    /// Computes all kinds on floats.
    fn float<T: Float>(&self, env: &Env, io: &mut Io)
    where
        Sum: Fold<T, Sum = f64>,
        WideSum: Fold<T, Sum = f64>,
        SumAbs: Fold<T, Sum = f64>,
        SumSquares: Fold<T, Sum = f64>,
        Product: Fold<T, Sum = f64>,
        Max: Fold<T, Sum = T>,
        Min: Fold<T, Sum = T>,
        SumExp: Fold<T, Sum = f64>,
    {
        match self.kind {
            ReduceKind::L1 => self.finished::<T, _>(env, io, SumAbs, |sum, _| sum),
            ReduceKind::L2 => self.finished::<T, _>(env, io, SumSquares, |sum, _| sum.sqrt()),
            ReduceKind::LogSum => self.finished::<T, _>(env, io, WideSum, |sum, _| sum.ln()),
            ReduceKind::LogSumExp => self.log_sum_exp::<T>(env, io),
            ReduceKind::Max => self.finished::<T, _>(env, io, Max, |max, _| max),
            ReduceKind::Mean => self.finished::<T, _>(env, io, Sum, |sum, count| sum / count),
            ReduceKind::Min => self.finished::<T, _>(env, io, Min, |min, _| min),
            ReduceKind::Product => self.finished::<T, _>(env, io, Product, |product, _| product),
            ReduceKind::Sum => self.finished::<T, _>(env, io, Sum, |sum, _| sum),
            ReduceKind::SumSquare => self.finished::<T, _>(env, io, SumSquares, |sum, _| sum),
        }
    }

    /// Computes functions of folds of floats and the number of elements.
    fn finished<T: Float, F>(&self, env: &Env, io: &mut Io, _: F, finish: fn(f64, f64) -> f64)
    where
        F: Fold<T, Sum: Into<f64> + Element> + Copy + Sync,
    {
        let (nest, count) = (&self.nest, self.nest.count() as f64);
        if let Some(parts) = &self.parts {
            return parts.run::<T, F, T>(env, io, |sum| T::nearest(finish(sum.into(), count)));
        }
        let (x, out) = (io.input(0), io.output::<T>());
        for_each_chunk(env.threads, out, 1, nest.grain(), COST * nest.count(), |first, out| {
            let mut sums = [F::sum(F::NONE); WIDTH];
            for (first, out) in (first..).step_by(nest.block()).zip(out.chunks_mut(nest.block())) {
                let sums = &mut sums[..out.len()];
                fold::<T, F>(env, nest, x, first, sums);
                for (out, &sum) in out.iter_mut().zip(&*sums) {
                    *out = T::nearest(finish(sum.into(), count));
                }
            }
        });
    }

    /// Computes folds of integers.
    fn folded<T: Integer, F>(&self, env: &Env, io: &mut Io, _: F)
    where
        F: Fold<T, Sum = T> + Copy + Sync,
    {
        let nest = &self.nest;
        if let Some(parts) = &self.parts {
            return parts.run::<T, F, T>(env, io, |sum| sum);
        }
        let (x, out) = (io.input(0), io.output());
        for_each_chunk(env.threads, out, 1, nest.grain(), COST * nest.count(), |first, out| {
            fold::<T, F>(env, nest, x, first, out);
        });
    }

    /// Computes the kinds that depend on the order of integers.
    fn extreme<T: Integer>(&self, env: &Env, io: &mut Io) {
        match self.kind {
            ReduceKind::Max => self.folded::<T, _>(env, io, Max),
            ReduceKind::Min => self.folded::<T, _>(env, io, Min),
            kind => unreachable!("{kind:?} does not take {}", self.dtype),
        }
    }

    /// Computes all kinds on integers. Wrapping sums and products have the same bits for signed and unsigned integers:
    /// `T` is the signed type, and `signed` matters only for absolute values.
    fn integer<T: Integer>(&self, env: &Env, io: &mut Io, signed: bool) {
        match self.kind {
            ReduceKind::L1 if signed => self.folded::<T, _>(env, io, SumAbs),
            ReduceKind::L1 | ReduceKind::Sum => self.folded::<T, _>(env, io, Sum),
            ReduceKind::Product => self.folded::<T, _>(env, io, Product),
            ReduceKind::SumSquare => self.folded::<T, _>(env, io, SumSquares),
            kind => unreachable!("{kind:?} does not take integers"),
        }
    }

    fn log_sum_exp<T: Float>(&self, env: &Env, io: &mut Io)
    where
        LogSumExp: Reduction<T, Out = T>,
    {
        let (nest, x, out) = (&self.nest, io.input(0), io.output());
        for_each_chunk(env.threads, out, 1, nest.grain(), COST * nest.count(), |first, out| {
            Reduce { nest, reduction: LogSumExp, x, first, out }.run_on(env.isa);
        });
    }
}

/// Folds the elements of each output from `first` on.
#[inline(never)]
fn fold<T: Element, F>(env: &Env, nest: &Nest, x: &[T], first: usize, out: &mut [F::Sum])
where
    F: Fold<T, Sum: Send> + Copy + Sync,
{
    Reduce { nest, reduction: Folded::<F>::default(), x, first, out }.run_on(env.isa);
}

impl Run for ReduceStep {
    fn kernel(&self) -> &'static str {
        "reduce"
    }

    fn scratch_bytes(&self, _threads: usize) -> usize {
        // Folds have at most the size of a float64.
        self.parts.as_ref().map_or(0, |parts| parts.count * parts.outputs * size_of::<f64>())
    }

    fn run(&self, env: &Env, io: &mut Io) {
        let extreme = matches!(self.kind, ReduceKind::Max | ReduceKind::Min);
        match self.dtype {
            DataType::Float32 => self.float::<f32>(env, io),
            DataType::Float64 => self.float::<f64>(env, io),
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
    use crate::dtype::Number;
    use crate::ir::parse;
    use crate::ops::Op;
    use crate::ops::reduce::ReduceAttributes;
    use crate::ops::tensor::Tensor;
    use crate::testing::{Tolerance, check, check_with};
    use proptest::prelude::*;

    /// Most folds are kept in float64; the exponentials of `reduceLogSumExp` have errors of 2 ULP each, and its logarithm can
    /// be near 0. Sums of `count` elements with magnitudes up to 4 are also rounded in float32.
    fn tolerance(name: &str, count: usize) -> Tolerance {
        let terms = match name {
            "reduceSum" => count,
            "reduceMean" => 1,
            _ => 0,
        };
        Tolerance::ulps(4).or_absolute(2e-6 + terms as f64 * f32::EPSILON as f64)
    }

    fn reduce(name: &str, dtype: &str, shape: &[u32], axes: &[u32], keep: bool) {
        let text = format!(
            "%0 = input x {dtype} {shape:?}\n%1 = {name} %0 axes={axes:?} keepDimensions={keep}\noutput y = %1"
        );
        let count = shape.iter().map(|&dim| dim as usize).product();
        check(
            &parse(&text),
            match dtype {
                // Each operation rounds by half a unit, and the oracle has another order.
                "float64" => Tolerance::ulps(4 + count as u64).or_absolute(16.0 * count as f64 * f64::EPSILON),
                _ if dtype.contains("int") => Tolerance::EXACT,
                _ => tolerance(name, count),
            },
        );
    }

    #[test]
    fn every_kind_and_type_at_the_edges() {
        let shapes: &[(&[u32], &[u32])] = &[
            (&[], &[]),
            (&[1], &[0]),
            (&[3, 15], &[1]),
            (&[3, 31], &[1]),
            (&[3, 33], &[1]),
            (&[9, 48], &[1]),
            (&[2, 2100], &[1]),
            (&[37, 3], &[0]),
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
        // Some columns more than are reduced at the same time.
        for name in ["reduceMean", "reduceL2", "reduceLogSumExp", "reduceMin"] {
            for columns in [WIDTH as u32 - 1, WIDTH as u32 + 3] {
                reduce(name, "float32", &[2, 37, columns], &[1], false);
            }
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
                reduce(name, "float64", shape, axes, true);
            }
            reduce("reduceMin", "uint8", shape, axes, false);
            reduce("reduceMax", "int64", shape, axes, false);
            reduce("reduceSum", "int32", shape, axes, false);
        }
    }

    #[test]
    fn special_values() {
        for rows in [5, 40] {
            let descriptor = Descriptor::new(DataType::Float32, [rows, 49]);
            let x = Tensor::from_fn(&descriptor, |index| {
                Number::Float(match (index[0] % 5, index[1]) {
                    (1, 20) | (2, 48) => f64::NAN,
                    (2 | 3, 7) => f64::INFINITY,
                    (3 | 4, 47) => f64::NEG_INFINITY,
                    (_, column) => column as f64 - 60.0,
                })
            });
            let inputs = [("x".to_string(), x)].into();
            for (name, axis) in
                ["reduceMax", "reduceMin", "reduceSum", "reduceMean"].map(|name| [(name, 0), (name, 1)]).as_flattened()
            {
                let text = format!("%0 = input x float32 [{rows}, 49]\n%1 = {name} %0 axes=[{axis}]\noutput y = %1");
                check_with(&parse(&text), &inputs, tolerance(name, 49));
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
