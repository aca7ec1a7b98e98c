//! `triangular()`: clears the elements above or below a diagonal of matrices.

use super::attributes::Attributes;
use super::rule::*;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::Descriptor;

crate::attributes! {
    /// `triangular()` with `MLTriangularOptions`.
    pub struct Triangular {
        /// Whether to keep the upper part; otherwise the lower.
        upper "upper": bool = true,
        /// The diagonal at the edge of the kept part, inclusive: above (positive) or below the main diagonal.
        diagonal "diagonal": i32 = 0,
    }
}

impl NamedOperator for Triangular {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "triangular",
        operands: &[operand("input", ANY, FROM_2D)],
        outputs: &[output("output", Types::SameAs("input"), FROM_2D)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Triangular, Problem> {
        Triangular::read(attributes)
    }
}

impl Operator for Triangular {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Triangular::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        Ok(vec![required(inputs, 0).clone()])
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let input = required(inputs, 0);
        let zero = Number::Int(0).cast(input.dtype);
        let output = Tensor::from_fn(&outputs[0], |index| {
            let [row, column] = [2, 1].map(|from_end| index[index.len() - from_end] as i64);
            let above = column - row - self.diagonal as i64;
            let kept = if self.upper { above >= 0 } else { above <= 0 };
            if kept { input.at(index) } else { zero }
        });
        vec![output]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType;
    use crate::ops::Op;

    #[test]
    fn the_rank_is_at_least_two() {
        let infer = |shape: &[u32]| {
            let input = Descriptor::new(DataType::Float32, shape);
            Op::from(Triangular::default()).resolve(&[Some(&input)]).map_err(|problem| problem.to_string())
        };
        assert_eq!(infer(&[2, 3]).unwrap()[0].shape, [2, 3]);
        assert_eq!(infer(&[3]), Err("input has rank 1, expected 2 to 8".to_string()));
    }

    #[test]
    fn the_examples_of_the_draft() {
        let matrix = Descriptor::new(DataType::Int32, [3, 3]);
        let input = Tensor::from_fn(&matrix, |i| Number::Int([7, 1, 2, 9, 4, 8, 2, 6, 3][i[0] * 3 + i[1]]));
        for (upper, diagonal, expected) in [
            (true, 0, [7, 1, 2, 0, 4, 8, 0, 0, 3]),
            (true, 1, [0, 1, 2, 0, 0, 8, 0, 0, 0]),
            (true, -1, [7, 1, 2, 9, 4, 8, 0, 6, 3]),
            (false, 0, [7, 0, 0, 9, 4, 0, 2, 6, 3]),
            (false, 1, [7, 1, 0, 9, 4, 8, 2, 6, 3]),
            (false, -1, [0, 0, 0, 9, 0, 0, 2, 6, 0]),
            (true, i32::MIN, [7, 1, 2, 9, 4, 8, 2, 6, 3]),
            (true, i32::MAX, [0; 9]),
        ] {
            let output = Triangular { upper, diagonal }.reference(&[Some(&input)], std::slice::from_ref(&matrix));
            assert_eq!(output[0].to_vec::<i32>(), expected, "{upper} {diagonal}");
        }
    }
}
