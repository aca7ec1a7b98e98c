//! Reductions: section "Reduction operations" of the draft.

use super::attributes::Attributes;
use super::rows::{Along, Rows};
use super::rule::*;
use super::tensor::{Tensor, wrap};
use super::{Inputs, NamedOperator, Operator, Tensors, no_operator, place_of, required, row};
use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::Descriptor;

/// The function that reduces the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are the methods of the draft")]
pub enum ReduceKind {
    L1,
    L2,
    LogSum,
    LogSumExp,
    Max,
    Mean,
    Min,
    Product,
    Sum,
    SumSquare,
}

crate::attributes! {
    /// `MLReduceOptions`.
    pub struct ReduceAttributes {
        /// The dimensions to reduce; by default all.
        axes "axes": Option<Vec<u32>> = None,
        /// Whether reduced dimensions remain with size 1.
        keep_dimensions "keepDimensions": bool = false,
    }
}

/// A reduction over `axes`.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    /// The function.
    pub kind: ReduceKind,
    /// The options.
    pub attributes: ReduceAttributes,
}

const fn reduction(name: &'static str, operands: &'static [OperandRule]) -> OpRule {
    const OUTPUTS: &[OutputRule] = &[output("output", Types::SameAs("input"), ANY_RANK)];
    OpRule { name, operands, outputs: OUTPUTS }
}

const OF_ANY: &[OperandRule] = &[operand("input", ANY, ANY_RANK)];
const OF_FLOATS: &[OperandRule] = &[operand("input", REALS, ANY_RANK)];
const OF_WIDE: &[OperandRule] = &[operand("input", WIDE, ANY_RANK)];

/// "Calculate reduction output sizes" of the draft; `None` stands for all axes.
///
/// # Errors
/// If an axis is not below the rank or appears twice.
pub fn reduced_shape(input: &[Dim], axes: Option<&[u32]>, keep_dimensions: bool) -> Result<Vec<Dim>, Problem> {
    let reduced = reduced_axes(input.len(), axes)?;
    let sizes = input.iter().zip(reduced);
    Ok(sizes
        .filter_map(|(&size, reduced)| if !reduced { Some(size) } else { keep_dimensions.then_some(Dim::number(1)) })
        .collect())
}

/// The places of a reduction's input for these places of its output; `None` for a reduced dimension.
pub fn before_reduction(input: &Descriptor, axes: Option<&[u32]>, keeps: bool, along: Along) -> Option<Along> {
    let reduced = reduced_axes(input.rank(), axes).ok()?;
    let axis = (0..input.rank()).filter(|&axis| keeps || !reduced[axis]).nth(along.axis)?;
    (!reduced[axis]).then(|| along.at(axis))
}

/// For each dimension whether it is among `axes` (`None`: all are).
///
/// # Errors
/// If an axis is not below the rank or appears twice.
pub fn reduced_axes(rank: usize, axes: Option<&[u32]>) -> Result<Vec<bool>, Problem> {
    let Some(axes) = axes else { return Ok(vec![true; rank]) };
    let mut reduced = vec![false; rank];
    for &axis in axes {
        match reduced.get_mut(axis as usize) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(Problem::attribute("axes", axes, format!("different axes below the rank {rank}"))),
        }
    }
    Ok(reduced)
}

impl NamedOperator for Reduce {
    const RULES: &'static [OpRule] = &[
        reduction("reduceL1", OF_WIDE),
        reduction("reduceL2", OF_FLOATS),
        reduction("reduceLogSum", OF_FLOATS),
        reduction("reduceLogSumExp", OF_FLOATS),
        reduction("reduceMax", OF_ANY),
        reduction("reduceMean", OF_FLOATS),
        reduction("reduceMin", OF_ANY),
        reduction("reduceProduct", OF_WIDE),
        reduction("reduceSum", OF_WIDE),
        reduction("reduceSumSquare", OF_WIDE),
    ];

    fn read(name: &str, attributes: &mut Attributes) -> Result<Reduce, Problem> {
        let kind = match name {
            "reduceL1" => ReduceKind::L1,
            "reduceL2" => ReduceKind::L2,
            "reduceLogSum" => ReduceKind::LogSum,
            "reduceLogSumExp" => ReduceKind::LogSumExp,
            "reduceMax" => ReduceKind::Max,
            "reduceMean" => ReduceKind::Mean,
            "reduceMin" => ReduceKind::Min,
            "reduceProduct" => ReduceKind::Product,
            "reduceSum" => ReduceKind::Sum,
            "reduceSumSquare" => ReduceKind::SumSquare,
            _ => return Err(no_operator(name)),
        };
        Ok(Reduce { kind, attributes: ReduceAttributes::read(attributes)? })
    }
}

impl Operator for Reduce {
    fn rule(&self) -> &'static OpRule {
        row(
            Self::RULES,
            match self.kind {
                ReduceKind::L1 => "reduceL1",
                ReduceKind::L2 => "reduceL2",
                ReduceKind::LogSum => "reduceLogSum",
                ReduceKind::LogSumExp => "reduceLogSumExp",
                ReduceKind::Max => "reduceMax",
                ReduceKind::Mean => "reduceMean",
                ReduceKind::Min => "reduceMin",
                ReduceKind::Product => "reduceProduct",
                ReduceKind::Sum => "reduceSum",
                ReduceKind::SumSquare => "reduceSumSquare",
            },
        )
    }

    fn write(&self, attributes: &mut Attributes) {
        self.attributes.write(attributes);
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        let places = |own: &Vec<u32>| own.iter().map(|&axis| place_of(axes, axis)).collect();
        let attributes =
            ReduceAttributes { axes: self.attributes.axes.as_ref().map(places), ..self.attributes.clone() };
        Some(Reduce { attributes, ..self.clone() })
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        let shape = reduced_shape(&input.shape, self.attributes.axes.as_deref(), self.attributes.keep_dimensions)?;
        Ok(vec![Descriptor::new(input.dtype, shape)])
    }

    fn rows(&self, inputs: &Inputs, _output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        let ReduceAttributes { axes, keep_dimensions } = &self.attributes;
        let first = before_reduction(required(inputs, 0), axes.as_deref(), *keep_dimensions, along)?;
        Some(Rows::of_first(self.clone(), first, inputs))
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let input = required(inputs, 0);
        let shape = input.descriptor().sizes();
        let reduced = reduced_axes(shape.len(), self.attributes.axes.as_deref()).expect("inferred");
        let kept_shape =
            reduced_shape(&input.descriptor().shape, self.attributes.axes.as_deref(), true).expect("inferred");
        let window: Vec<usize> = shape.iter().zip(&reduced).map(|(&d, &r)| if r { d as usize } else { 1 }).collect();
        let kept = Tensor::from_fn(&Descriptor::new(input.dtype, kept_shape), |start| {
            let values = ndarray::indices(window.as_slice()).into_iter().map(|offset| {
                use ndarray::Dimension;
                let index: Vec<usize> = start.iter().zip(offset.slice()).map(|(s, o)| s + o).collect();
                input.at(&index)
            });
            self.reduce(values.collect(), input.dtype)
        });
        vec![kept.reshape(&outputs[0].sizes())]
    }
}

impl Reduce {
    /// Reduces `values`, all of type `dtype`.
    fn reduce(&self, values: Vec<Number>, dtype: crate::dtype::DataType) -> Number {
        let floats = || Number::Float(self.reduce_floats(values.iter().map(|value| value.to_f64()).collect()));
        if dtype.is_float() {
            return floats();
        }
        let x = values.iter().map(|value| match value {
            &Number::Int(x) => x,
            Number::Float(x) => panic!("{x} in an integer tensor"),
        });
        let wrapping_sum = |x: &mut dyn Iterator<Item = i128>| x.fold(0i128, |a, b| a.wrapping_add(b));
        Number::Int(wrap(
            dtype,
            match self.kind {
                ReduceKind::L1 => wrapping_sum(&mut x.map(i128::abs)),
                ReduceKind::Max => x.max().expect("no value"),
                ReduceKind::Min => x.min().expect("no value"),
                ReduceKind::Product => x.fold(1, |a, b| wrap(dtype, a.wrapping_mul(b))),
                ReduceKind::Sum => wrapping_sum(&mut x.into_iter()),
                ReduceKind::SumSquare => wrapping_sum(&mut x.map(|x| wrap(dtype, x.wrapping_mul(x)))),
                ReduceKind::L2 | ReduceKind::LogSum | ReduceKind::LogSumExp | ReduceKind::Mean => {
                    return floats().cast(dtype);
                }
            },
        ))
    }

    fn reduce_floats(&self, x: Vec<f64>) -> f64 {
        let sum = |f: fn(f64) -> f64| x.iter().map(|&x| f(x)).sum::<f64>();
        // NaN takes precedence over numbers.
        let pick = |better: fn(f64, f64) -> bool| {
            x.iter().copied().reduce(|a, b| if a.is_nan() || better(a, b) { a } else { b }).expect("no value")
        };
        match self.kind {
            ReduceKind::L1 => sum(f64::abs),
            ReduceKind::L2 => sum(|x| x * x).sqrt(),
            ReduceKind::LogSum => sum(|x| x).ln(),
            ReduceKind::LogSumExp => {
                let max = pick(|a, b| a > b);
                // Omits the shift if it would compute Inf - Inf for an infinite maximum.
                if max.is_finite() { x.iter().map(|x| (x - max).exp()).sum::<f64>().ln() + max } else { max }
            }
            ReduceKind::Max => pick(|a, b| a > b),
            ReduceKind::Mean => sum(|x| x) / x.len() as f64,
            ReduceKind::Min => pick(|a, b| a < b),
            ReduceKind::Product => x.iter().product(),
            ReduceKind::Sum => sum(|x| x),
            ReduceKind::SumSquare => sum(|x| x * x),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimension::dims;

    #[test]
    fn shapes() {
        let reduced_shape = |input: &[u32], axes, keep| reduced_shape(&dims(input), axes, keep);
        assert_eq!(reduced_shape(&[2, 3, 4], None, false).unwrap(), [0u32; 0]);
        assert_eq!(reduced_shape(&[2, 3, 4], None, true).unwrap(), [1, 1, 1]);
        assert_eq!(reduced_shape(&[2, 3, 4], Some(&[1]), false).unwrap(), [2, 4]);
        assert_eq!(reduced_shape(&[2, 3, 4], Some(&[2, 0]), true).unwrap(), [1, 3, 1]);
        assert_eq!(reduced_shape(&[2, 3, 4], Some(&[]), false).unwrap(), [2, 3, 4]);
        assert_eq!(reduced_shape(&[], None, true).unwrap(), [0u32; 0]);
        assert!(reduced_shape(&[2, 3], Some(&[2]), true).is_err());
        assert!(reduced_shape(&[2, 3], Some(&[1, 1]), true).is_err());
    }
}
