//! Matrix products: sections "matmul" and "gemm" of the draft.

use super::attributes::Attributes;
use super::rows::{Along, Rows};
use super::rule::*;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, cast_to, given, required, row};
use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::{Descriptor, broadcast, broadcasts_to};

/// `matmul()`: the product of two stacks of matrices.
#[derive(Clone, Debug, PartialEq)]
pub struct Matmul;

/// The output shape of `matmul()`: batch dimensions broadcast, `[.., M, K] x [.., K, N] -> [.., M, N]`.
///
/// # Errors
/// If a rank is below 2, the inner dimensions differ, or the batch dimensions do not broadcast.
pub fn matmul_shape(a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>, Problem> {
    let clash = |what| Problem::Incompatible { what, a: a.to_vec(), b: b.to_vec() };
    let (batch_a, [m, k_a]) = a.split_last_chunk::<2>().ok_or_else(|| clash("the rank of a is below 2"))?;
    let (batch_b, [k_b, n]) = b.split_last_chunk::<2>().ok_or_else(|| clash("the rank of b is below 2"))?;
    if k_a != k_b {
        return Err(clash("columns of a differ from rows of b"));
    }
    let mut shape = broadcast(batch_a, batch_b).ok_or_else(|| clash("batch dimensions do not broadcast"))?;
    shape.extend([*m, *n]);
    Ok(shape)
}

impl NamedOperator for Matmul {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "matmul",
        operands: &[operand("a", REALS, FROM_2D), operand("b", Types::SameAs("a"), FROM_2D)],
        outputs: &[output("output", Types::SameAs("a"), FROM_2D)],
    }];

    fn read(_: &str, _: &mut Attributes) -> Result<Matmul, Problem> {
        Ok(Matmul)
    }
}

impl Operator for Matmul {
    fn rule(&self) -> &'static OpRule {
        row(Self::RULES, "matmul")
    }

    fn write(&self, _: &mut Attributes) {}

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let (a, b) = (required(inputs, 0), required(inputs, 1));
        Ok(vec![Descriptor::new(a.dtype, matmul_shape(&a.shape, &b.shape)?)])
    }

    /// Only rows: columns of the result would be columns of `b`, which usually holds weights.
    fn rows(&self, inputs: &Inputs, output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        let from_last = output.rank() - along.axis;
        let mut rows = Rows::of_broadcast(Matmul, along, inputs, output);
        if from_last == 2 {
            rows.operands = vec![Some(along.at(required(inputs, 0).rank() - 2)), None];
        }
        (from_last > 1).then_some(rows)
    }

    fn multiply_adds(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
        let inner = *required(inputs, 0).sizes().last().expect("the rule requires rank 2");
        outputs[0].elements() as u64 * inner as u64
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let (a, b) = (required(inputs, 0), required(inputs, 1));
        let shape = outputs[0].sizes();
        let (batch, _) = shape.split_last_chunk::<2>().expect("inferred");
        let stack = |tensor: &Tensor| {
            let shape = tensor.descriptor().sizes();
            let (_, matrix) = shape.split_last_chunk::<2>().expect("inferred");
            tensor.broadcast(&[batch, matrix].concat())
        };
        let (a, b) = (stack(a), stack(b));
        let (a, b) = (a.floats(), b.floats());
        let inner = a.shape()[a.ndim() - 1];
        vec![Tensor::from_fn(&outputs[0], |index| {
            let (batch, [m, n]) = index.split_last_chunk::<2>().expect("inferred");
            let product = |k: usize| a[&*[batch, &[*m, k]].concat()] * b[&*[batch, &[k, *n]].concat()];
            Number::Float((0..inner).map(product).sum())
        })]
    }
}

crate::attributes! {
    /// `MLGemmOptions`.
    pub struct GemmAttributes {
        /// The factor of the product.
        alpha "alpha": f64 = 1.0,
        /// The factor of `c`.
        beta "beta": f64 = 1.0,
        /// Whether `a` is `[K, M]`.
        a_transpose "aTranspose": bool = false,
        /// Whether `b` is `[N, K]`.
        b_transpose "bTranspose": bool = false,
        /// Whether rows of `a` may be rounded to 8-bit integers with one scale per block if `b` is quantized in blocks:
        /// an extension that models request. The reference does not round them.
        rounds_rows "roundsRows": bool = false,
    }
}

/// `gemm()`: `alpha * a * b + beta * c`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gemm {
    /// The options.
    pub attributes: GemmAttributes,
}

impl NamedOperator for Gemm {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "gemm",
        operands: &[
            operand("a", REALS, (2, 2)),
            operand("b", Types::SameAs("a"), (2, 2)),
            optional("c", Types::SameAs("a"), (0, 2)),
        ],
        outputs: &[output("output", Types::SameAs("a"), (2, 2))],
    }];

    fn read(_: &str, attributes: &mut Attributes) -> Result<Gemm, Problem> {
        Ok(Gemm { attributes: GemmAttributes::read(attributes)? })
    }
}

impl Operator for Gemm {
    fn rule(&self) -> &'static OpRule {
        row(Self::RULES, "gemm")
    }

    fn write(&self, attributes: &mut Attributes) {
        self.attributes.write(attributes);
    }

    fn resolve(&mut self, inputs: &Inputs) -> Result<(), Problem> {
        self.attributes.alpha = cast_to(self.attributes.alpha, inputs, 0);
        self.attributes.beta = cast_to(self.attributes.beta, inputs, 0);
        Ok(())
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let (mut a, mut b) = (required(inputs, 0).shape.clone(), required(inputs, 1).shape.clone());
        if self.attributes.a_transpose {
            a.reverse();
        }
        if self.attributes.b_transpose {
            b.reverse();
        }
        if a[1] != b[0] {
            return Err(Problem::Incompatible { what: "columns of a differ from rows of b", a, b });
        }
        let shape = vec![a[0], b[1]];
        if let Some(c) = given(inputs, 2)
            && !broadcasts_to(&c.shape, &shape)
        {
            let what = "c does not broadcast to the product";
            return Err(Problem::Incompatible { what, a: c.shape.clone(), b: shape });
        }
        Ok(vec![Descriptor::new(required(inputs, 0).dtype, shape)])
    }

    fn rows(&self, inputs: &Inputs, output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        let c = given(inputs, 2).and_then(|c| along.broadcast(&c.shape, &output.shape));
        let a = along.at(if self.attributes.a_transpose { 1 } else { 0 });
        let operands = [Some(a), None, c].into_iter().take(inputs.len()).collect();
        (along.axis == 0).then(|| Rows { op: self.clone(), operands })
    }

    fn multiply_adds(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
        let inner = required(inputs, 0).sizes()[if self.attributes.a_transpose { 0 } else { 1 }];
        outputs[0].elements() as u64 * inner as u64
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let GemmAttributes { alpha, beta, a_transpose, b_transpose, .. } = self.attributes;
        let (a, b) = (required(inputs, 0).floats(), required(inputs, 1).floats());
        let inner = a.shape()[if a_transpose { 0 } else { 1 }];
        let c = given(inputs, 2).map(|c| c.broadcast(&outputs[0].sizes()));
        vec![Tensor::from_fn(&outputs[0], |index| {
            let (m, n) = (index[0], index[1]);
            let product = |k: usize| {
                a[if a_transpose { [k, m] } else { [m, k] }.as_slice()]
                    * b[if b_transpose { [n, k] } else { [k, n] }.as_slice()]
            };
            let product = alpha * (0..inner).map(product).sum::<f64>();
            // No `+ 0`: it would turn a product of -0 into +0.
            Number::Float(c.as_ref().map_or(product, |c| product + beta * c.floats()[index]))
        })]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimension::dims;
    use crate::dtype::DataType::Float16;

    #[test]
    fn matmul_shapes() {
        let matmul_shape = |a: &[u32], b: &[u32]| matmul_shape(&dims(a), &dims(b));
        assert_eq!(matmul_shape(&[2, 3], &[3, 4]).unwrap(), [2, 4]);
        assert_eq!(matmul_shape(&[5, 1, 2, 3], &[7, 3, 4]).unwrap(), [5, 7, 2, 4]);
        let message = |a: &[u32], b: &[u32]| matmul_shape(a, b).unwrap_err().to_string();
        assert_eq!(message(&[2, 3], &[4, 5]), "columns of a differ from rows of b: [2, 3] and [4, 5]");
        assert_eq!(message(&[2, 2, 3], &[3, 3, 5]), "batch dimensions do not broadcast: [2, 2, 3] and [3, 3, 5]");
        assert_eq!(message(&[3], &[3, 5]), "the rank of a is below 2: [3] and [3, 5]");
    }

    #[test]
    fn gemm_shapes_and_casts() {
        let attributes = GemmAttributes { a_transpose: true, b_transpose: true, alpha: 0.1, ..Default::default() };
        let mut gemm = Gemm { attributes };
        let (a, b) = (Descriptor::new(Float16, [3, 2]), Descriptor::new(Float16, [4, 3]));
        let (row, column, wrong) =
            (Descriptor::new(Float16, [4]), Descriptor::new(Float16, [2, 1]), Descriptor::new(Float16, [2]));
        for c in [None, Some(&row), Some(&column)] {
            assert_eq!(gemm.infer(&[Some(&a), Some(&b), c]).unwrap(), [Descriptor::new(Float16, [2, 4])]);
        }
        let message = gemm.infer(&[Some(&a), Some(&b), Some(&wrong)]).unwrap_err().to_string();
        assert_eq!(message, "c does not broadcast to the product: [2] and [2, 4]");
        let message = gemm.infer(&[Some(&a), Some(&a), None]).unwrap_err().to_string();
        assert_eq!(message, "columns of a differ from rows of b: [2, 3] and [2, 3]");
        gemm.resolve(&[Some(&a), Some(&b)]).unwrap();
        assert_eq!(gemm.attributes.alpha, half::f16::from_f64(0.1).to_f64());
    }
}
