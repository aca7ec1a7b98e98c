//! A product with a matrix of 4-bit or 8-bit integers, or of numbers in a table, that have a scale, and a zero point,
//! per block.

use super::attributes::Attributes;
use super::rows::{Along, Rows};
use super::rule::*;
use super::tensor::Tensor;
use super::{Inputs, Operator, Tensors, given, required};
use crate::dimension::Dim;
use crate::dtype::DataType::{self, *};
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::Descriptor;

crate::attributes! {
    /// `a * dequantizeLinear(b, scale, zeroPoint) + bias`. Blocks lie along the depth. If `b` has more depth than `a`
    /// has columns, only the first part of `b` is used. Floats of `b`, which have no zero points, are stored as places
    /// in a table of 16 numbers.
    pub struct BlockProduct {
        /// Whether `b` is `[columns, depth]`, and `scale` and `zeroPoint` are `[columns, blocks]`; otherwise
        /// transposed.
        b_transpose "bTranspose": bool = false,
        /// Whether rows of `a` may be rounded to 8-bit integers with one scale per block. The reference does not round
        /// them.
        rounds_rows "roundsRows": bool = false,
    }
}

/// The types of weights.
const WEIGHTS: Types = Types::OneOf(&[Uint4, Int4, Uint8, Int8, Float32]);

/// The sizes of the matrix of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Columns of the product.
    pub columns: usize,
    /// Integers per column.
    pub depth: usize,
    /// Blocks per column.
    pub count: usize,
}

impl Blocks {
    /// Integers per block.
    pub fn size(&self) -> usize {
        self.depth / self.count
    }
}

impl BlockProduct {
    /// `[depth, columns]` of a matrix, or `[blocks, columns]` of its scales.
    fn oriented<T: Copy>(&self, shape: &[T]) -> [T; 2] {
        if self.b_transpose { [shape[1], shape[0]] } else { [shape[0], shape[1]] }
    }

    /// The sizes of operand `b` with scales of this shape.
    pub fn blocks(&self, b: &[u32], scale: &[u32]) -> Blocks {
        let ([depth, columns], [count, _]) = (self.oriented(b), self.oriented(scale));
        Blocks { columns: columns as usize, depth: depth as usize, count: count as usize }
    }
}

impl Operator for BlockProduct {
    fn rule(&self) -> &'static OpRule {
        const RULE: OpRule = OpRule {
            name: "blockProduct",
            operands: &[
                operand("a", FLOATS, FROM_2D),
                operand("b", WEIGHTS, (2, 2)),
                operand("scale", Types::SameAs("a"), (2, 2)),
                optional("zeroPoint", Types::SameAs("b"), (2, 2)),
                optional("bias", Types::SameAs("a"), (1, 1)),
            ],
            outputs: &[output("output", Types::SameAs("a"), FROM_2D)],
        };
        &RULE
    }

    fn write(&self, attributes: &mut Attributes) {
        BlockProduct::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let [a, b, scale] = [0, 1, 2].map(|index| required(inputs, index));
        let ([depth, columns], [blocks, scaled]) = (self.oriented(&b.shape), self.oriented(&scale.shape));
        let clash = |what| Problem::Incompatible { what, a: a.shape.clone(), b: b.shape.clone() };
        let mut shape = a.shape.clone();
        let last = shape.last_mut().expect("the rule requires rank 2");
        if *last > depth {
            return Err(clash("a has more columns than the depth of b"));
        }
        *last = columns;
        if depth % blocks != 0 || !(scaled == columns || scaled == 1) {
            let what = "sizes of scale do not divide those of b";
            return Err(Problem::Incompatible { what, a: scale.shape.clone(), b: b.shape.clone() });
        }
        let shape_of = |operand, got: &Descriptor, expected: Vec<Dim>| match got.shape == expected {
            true => Ok(()),
            false => Err(Problem::Shape { operand, got: got.shape.clone(), expected }),
        };
        if let Some(zero) = given(inputs, 3) {
            shape_of("zeroPoint", zero, scale.shape.clone())?;
        }
        if let Some(bias) = given(inputs, 4) {
            shape_of("bias", bias, vec![columns])?;
        }
        Ok(vec![Descriptor::new(a.dtype, shape)])
    }

    fn rows(&self, inputs: &Inputs, output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        (along.axis + 1 < output.rank()).then(|| Rows::of_first(self.clone(), along, inputs))
    }

    fn multiply_adds(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
        let depth = *required(inputs, 0).sizes().last().expect("the rule requires rank 2");
        outputs[0].elements() as u64 * depth as u64
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let ([a, b, scale], zero) = ([0, 1, 2].map(|index| required(inputs, index)), given(inputs, 3));
        let sizes = |tensor: &Tensor| tensor.descriptor().sizes().to_vec();
        let Blocks { columns, count, depth } = self.blocks(&sizes(b), &sizes(scale));
        let size = depth / count;
        let place = |depth: usize, column: usize| if self.b_transpose { [column, depth] } else { [depth, column] };
        let scaled = self.oriented(&sizes(scale))[1] as usize == columns;
        let weight = |k: usize, column: usize| {
            let block = place(k / size, if scaled { column } else { 0 });
            let number = b.at(&place(k, column)).to_f64() - zero.map_or(0.0, |zero| zero.at(&block).to_f64());
            number * scale.at(&block).to_f64()
        };
        let a = a.floats();
        let depth = a.shape()[a.ndim() - 1];
        vec![Tensor::from_fn(&outputs[0], |index| {
            let (&column, row) = index.split_last().expect("rank 2");
            let term = |k: usize| a[&*[row, &[k]].concat()] * weight(k, column);
            let bias = given(inputs, 4).map_or(0.0, |bias| bias.at(&[column]).to_f64());
            Number::Float((0..depth).map(term).sum::<f64>() + bias)
        })]
    }
}

/// Whether constants of this type can be weights.
pub fn is_weight_type(dtype: DataType) -> bool {
    !dtype.is_float() && matches!(WEIGHTS, Types::OneOf(types) if types.contains(&dtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infer(a: &[u32], b: &[u32], scale: &[u32], zero: &[u32]) -> Result<Vec<u32>, String> {
        let op = BlockProduct { b_transpose: true, ..BlockProduct::default() };
        let (a, b) = (Descriptor::new(Float32, a), Descriptor::new(Uint4, b));
        let (scale, zero) = (Descriptor::new(Float32, scale), Descriptor::new(Uint4, zero));
        let outputs = op.infer(&[Some(&a), Some(&b), Some(&scale), Some(&zero)]);
        outputs.map(|outputs| outputs[0].sizes().to_vec()).map_err(|problem| problem.to_string())
    }

    #[test]
    fn shapes() {
        assert_eq!(infer(&[2, 3, 60], &[5, 64], &[5, 2], &[5, 2]), Ok(vec![2, 3, 5]));
        assert_eq!(infer(&[3, 64], &[5, 64], &[1, 4], &[1, 4]), Ok(vec![3, 5]));
        assert!(infer(&[3, 65], &[5, 64], &[5, 2], &[5, 2]).unwrap_err().contains("more columns than the depth of b"));
        assert!(infer(&[3, 64], &[5, 64], &[5, 3], &[5, 3]).unwrap_err().contains("do not divide"));
        assert!(infer(&[3, 64], &[5, 64], &[2, 2], &[2, 2]).unwrap_err().contains("do not divide"));
        assert!(infer(&[3, 64], &[5, 64], &[5, 2], &[5, 1]).unwrap_err().contains("zeroPoint has shape"));
    }

    #[test]
    fn the_reference_multiplies_dequantized_weights() {
        let op = BlockProduct::default();
        let tensor = |dtype, shape: [u32; 2], numbers: &[f64]| {
            let mut all = numbers.iter();
            Tensor::from_fn(&Descriptor::new(dtype, shape), |_| {
                let x = *all.next().expect("as many numbers as elements");
                if dtype == Float32 { Number::Float(x) } else { Number::Int(x as i128) }
            })
        };
        let a = tensor(Float32, [1, 4], &[1.0, 2.0, 3.0, 4.0]);
        let b = tensor(Int4, [4, 2], &[1.0, -8.0, 2.0, 7.0, 3.0, 0.0, -4.0, 1.0]);
        let (scale, zero) = (tensor(Float32, [2, 1], &[0.5, 2.0]), tensor(Int4, [2, 1], &[1.0, -1.0]));
        let output =
            op.reference(&[Some(&a), Some(&b), Some(&scale), Some(&zero)], &[Descriptor::new(Float32, [1, 2])]);
        // 0.5 * (0 + 2 * 1) + 2 * (3 * 4 + 4 * -3), 0.5 * (-9 + 2 * 6) + 2 * (3 * 1 + 4 * 2)
        assert_eq!(output[0].to_vec::<f32>(), [1.0, 23.5]);
    }
}
