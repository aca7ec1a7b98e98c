//! `reshape()` and `expand()`: change the dimensions of a tensor.

use super::attributes::Attributes;
use super::rows::{Along, Rows, before_reshape};
use super::rule::*;
use super::strided::Strided;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::dimension::{Dim, numbers};
use crate::error::Problem;
use crate::shape::{Descriptor, MAX_VALUE_BYTES, broadcast_strides, broadcasts_to};

crate::attributes! {
    /// `reshape()`: the same elements in the same order.
    pub struct Reshape {
        /// The dimensions of the output.
        new_shape "newShape": Vec<Dim> = Vec::new(),
    }
}

crate::attributes! {
    /// `expand()`: repeats the elements along dimensions of size 1, and in front of the first dimension.
    pub struct Expand {
        /// The dimensions of the output.
        new_shape "newShape": Vec<Dim> = Vec::new(),
    }
}

impl Reshape {
    /// The input element where the output begins: always the first, whatever the shape of the input.
    pub fn contiguous_offset(&self) -> Option<usize> {
        Some(0)
    }
}

impl Expand {
    /// Where the output's elements are in an input of shape `input`.
    pub fn strided(&self, input: &[u32]) -> Strided {
        let shape = numbers(&self.new_shape);
        let strides = broadcast_strides(input, &shape).into_iter().map(|stride| stride as isize).collect();
        Strided { shape, strides, offset: 0 }
    }

    /// The input element where the output begins, if nothing is repeated.
    pub fn contiguous_offset(&self, input: &[u32]) -> Option<usize> {
        self.strided(input).contiguous_offset()
    }
}

impl NamedOperator for Reshape {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "reshape",
        operands: &[operand("input", ANY, ANY_RANK)],
        outputs: &[output("output", Types::SameAs("input"), ANY_RANK)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Reshape, Problem> {
        Reshape::read(attributes)
    }
}

impl Operator for Reshape {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Reshape::write(self, attributes);
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        self.new_shape.iter_mut().for_each(visit);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        let output = Descriptor::new(input.dtype, self.new_shape.clone());
        output.check_bytes("newShape", MAX_VALUE_BYTES)?;
        if output.count() != input.count() {
            let what = "newShape and input have different numbers of elements";
            return Err(Problem::Incompatible { what, a: output.shape, b: input.shape.clone() });
        }
        Ok(vec![output])
    }

    fn rows(&self, inputs: &Inputs, output: &Descriptor, along: Along, count: Dim) -> Option<Rows<Self>> {
        let first = before_reshape(&required(inputs, 0).shape, &output.shape, along)?;
        let new_shape = along.taken_of(&self.new_shape, count);
        Some(Rows::of_first(Reshape { new_shape }, first, inputs))
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        vec![required(inputs, 0).reshape(&outputs[0].sizes())]
    }
}

impl NamedOperator for Expand {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "expand",
        operands: &[operand("input", ANY, ANY_RANK)],
        outputs: &[output("output", Types::SameAs("input"), ANY_RANK)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Expand, Problem> {
        Expand::read(attributes)
    }
}

impl Operator for Expand {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Expand::write(self, attributes);
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        self.new_shape.iter_mut().for_each(visit);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        if !broadcasts_to(&input.shape, &self.new_shape) {
            let what = "input cannot be repeated to newShape";
            return Err(Problem::Incompatible { what, a: input.shape.clone(), b: self.new_shape.clone() });
        }
        Ok(vec![Descriptor::new(input.dtype, self.new_shape.clone())])
    }

    fn rows(&self, inputs: &Inputs, output: &Descriptor, along: Along, count: Dim) -> Option<Rows<Self>> {
        let new_shape = along.taken_of(&self.new_shape, count);
        Some(Rows::of_broadcast(Expand { new_shape }, along, inputs, output))
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        vec![required(inputs, 0).broadcast(&outputs[0].sizes())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimension::dims;
    use crate::dtype::DataType;
    use crate::ops::Op;

    fn infer(op: impl Into<Op>, input: &[u32]) -> Result<Vec<u32>, String> {
        let input = Descriptor::new(DataType::Float32, input);
        let outputs = op.into().resolve(&[Some(&input)]).map_err(|problem| problem.to_string())?;
        Ok(outputs[0].sizes().to_vec())
    }

    #[test]
    fn reshaped() {
        let reshape = |new_shape: &[u32], input: &[u32]| infer(Reshape { new_shape: dims(new_shape) }, input);
        assert_eq!(reshape(&[3, 2], &[6]), Ok(vec![3, 2]));
        assert_eq!(reshape(&[], &[1, 1]), Ok(vec![]));
        assert_eq!(
            reshape(&[4], &[2, 3]),
            Err("newShape and input have different numbers of elements: [4] and [2, 3]".to_string())
        );
        for bad in [&[0, 6][..], &[u32::MAX; 8], &[1; 9], &[1 << 31, 2]] {
            assert!(reshape(bad, &[6]).unwrap_err().starts_with("newShape has shape "));
        }
    }

    #[test]
    fn expanded() {
        let expand = |new_shape: &[u32], input: &[u32]| infer(Expand { new_shape: dims(new_shape) }, input);
        assert_eq!(expand(&[5, 2, 3], &[2, 1]), Ok(vec![5, 2, 3]));
        assert_eq!(expand(&[], &[]), Ok(vec![]));
        assert_eq!(
            expand(&[2, 4], &[2, 3]),
            Err("input cannot be repeated to newShape: [2, 3] and [2, 4]".to_string())
        );
        for bad in [&[0][..], &[u32::MAX; 8], &[1; 9]] {
            assert!(expand(bad, &[1]).unwrap_err().starts_with("output has shape "));
        }
        let expand = Expand { new_shape: dims(&[1, 2, 3]) };
        assert_eq!(expand.contiguous_offset(&[2, 3]), Some(0));
        assert_eq!(expand.contiguous_offset(&[2, 1]), None);
    }
}
