//! `slice()`: a window of a tensor, with optional strides.

use super::attributes::Attributes;
use super::rows::{Along, Rows};
use super::rule::*;
use super::strided::Strided;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, permuted, required};
use crate::dimension::{Dim, dims, numbers};
use crate::error::Problem;
use crate::shape::{Descriptor, is_too_small};

crate::attributes! {
    /// `slice()` with `MLSliceOptions`.
    pub struct Slice {
        /// The start of the window in each dimension.
        starts "starts": Vec<Dim> = Vec::new(),
        /// The extent of the window in each dimension, in elements of the input.
        sizes "sizes": Vec<Dim> = Vec::new(),
        /// The distance between selected elements in each dimension; by default 1.
        strides "strides": Option<Vec<u32>> = None,
    }
}

impl Slice {
    /// The distance between selected elements along dimension `axis`.
    pub fn stride(&self, axis: usize) -> u32 {
        self.strides.as_ref().map_or(1, |strides| strides[axis])
    }

    /// Where the output's elements are in an input of shape `input`.
    pub fn strided(&self, input: &[u32]) -> Strided {
        let shape: Vec<u32> = (0..input.len()).map(|axis| self.sizes[axis].get().div_ceil(self.stride(axis))).collect();
        let mut view = Strided::row_major(input).window(&numbers(&self.starts), &shape);
        for (axis, stride) in view.strides.iter_mut().enumerate() {
            // A stride that is never used may be as large as the attribute's type allows.
            *stride = if shape[axis] == 1 { 0 } else { *stride * self.stride(axis) as isize };
        }
        view
    }

    /// The input element where the output begins, if the output is contiguous in the input.
    pub fn contiguous_offset(&self, input: &[u32]) -> Option<usize> {
        self.strided(input).contiguous_offset()
    }

    fn infer_dimension(&self, axis: usize, input: Dim) -> Result<Dim, Problem> {
        let (start, size, stride) = (self.starts[axis], self.sizes[axis], self.stride(axis));
        if is_too_small(size) {
            return Err(Problem::attribute("sizes", &self.sizes, "sizes greater than 0"));
        }
        if stride == 0 {
            let strides = self.strides.as_deref().unwrap_or_default();
            return Err(Problem::attribute("strides", strides, "strides greater than 0"));
        }
        if start + size > input {
            let got = format!("{start} + {size}");
            let expected = format!("at most {input}, the size of input along dimension {axis}");
            return Err(Problem::Attribute { name: "starts + sizes", got, expected });
        }
        Ok(size.div_ceil(stride))
    }
}

impl NamedOperator for Slice {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "slice",
        operands: &[operand("input", ANY, ANY_RANK)],
        outputs: &[output("output", Types::SameAs("input"), ANY_RANK)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Slice, Problem> {
        Slice::read(attributes)
    }
}

impl Operator for Slice {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Slice::write(self, attributes);
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        let strides = self.strides.as_ref().map(|strides| permuted(axes, strides));
        Some(Slice { starts: permuted(axes, &self.starts), sizes: permuted(axes, &self.sizes), strides })
    }

    fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        self.starts.iter_mut().chain(&mut self.sizes).for_each(visit);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let input = required(inputs, 0);
        let strides = self.strides.as_ref().map(|strides| dims(strides));
        let lists = [("starts", Some(&self.starts)), ("sizes", Some(&self.sizes)), ("strides", strides.as_ref())];
        for (name, list) in lists {
            if let Some(list) = list.filter(|list| list.len() != input.rank()) {
                let expected = format!("as many numbers as the rank of input, {}", input.rank());
                return Err(Problem::attribute(name, list, expected));
            }
        }
        let dimensions = input.shape.iter().enumerate().map(|(axis, &size)| self.infer_dimension(axis, size));
        Ok(vec![Descriptor::new(input.dtype, dimensions.collect::<Result<Vec<_>, _>>()?)])
    }

    fn rows(&self, inputs: &Inputs, output: &Descriptor, along: Along, count: Dim) -> Option<Rows<Self>> {
        let whole = required(inputs, 0).shape[along.axis].key() == output.shape[along.axis].key();
        let sizes = along.taken_of(&self.sizes, count);
        whole.then(|| Rows::of_first(Slice { sizes, ..self.clone() }, along, inputs))
    }

    /// Only the selected elements.
    fn bytes_read(&self, _: &Inputs, outputs: &[&Descriptor]) -> u64 {
        outputs[0].bytes() as u64
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let input = required(inputs, 0);
        let output = Tensor::from_fn(&outputs[0], |index| {
            let place = |(axis, i): (usize, &usize)| self.starts[axis].get() as usize + i * self.stride(axis) as usize;
            input.at(&index.iter().enumerate().map(place).collect::<Vec<_>>())
        });
        vec![output]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType;

    fn slice(starts: &[u32], sizes: &[u32], strides: Option<&[u32]>) -> Slice {
        Slice { starts: dims(starts), sizes: dims(sizes), strides: strides.map(<[u32]>::to_vec) }
    }

    fn infer(slice: &Slice, input: &[u32]) -> Result<Vec<u32>, String> {
        let input = Descriptor::new(DataType::Float32, input);
        let outputs = slice.infer(&[Some(&input)]).map_err(|problem| problem.to_string())?;
        Ok(outputs[0].sizes().to_vec())
    }

    #[test]
    fn shapes() {
        assert_eq!(infer(&slice(&[2, 0], &[2, 6], None), &[4, 6]), Ok(vec![2, 6]));
        assert_eq!(infer(&slice(&[0, 2], &[2, 10], Some(&[1, 4])), &[2, 12]), Ok(vec![2, 3]));
        assert_eq!(infer(&slice(&[0], &[7], Some(&[u32::MAX])), &[7]), Ok(vec![1]));
        assert_eq!(infer(&slice(&[], &[], None), &[]), Ok(vec![]));
        for (slice, message) in [
            (slice(&[0], &[4, 6], None), "starts is [0], expected as many numbers as the rank of input, 2"),
            (slice(&[0, 0], &[4], None), "sizes is [4], expected as many numbers as the rank of input, 2"),
            (slice(&[0, 0], &[4, 6], Some(&[])), "strides is [], expected as many numbers as the rank of input, 2"),
            (slice(&[0, 0], &[4, 0], None), "sizes is [4, 0], expected sizes greater than 0"),
            (slice(&[0, 0], &[4, 6], Some(&[1, 0])), "strides is [1, 0], expected strides greater than 0"),
            (
                slice(&[0, u32::MAX], &[4, 6], None),
                "starts + sizes is 4294967295 + 6, expected at most 6, the size of input along dimension 1",
            ),
            (
                slice(&[4, 0], &[1, 6], None),
                "starts + sizes is 4 + 1, expected at most 4, the size of input along dimension 0",
            ),
        ] {
            assert_eq!(infer(&slice, &[4, 6]), Err(message.to_string()));
        }
    }

    #[test]
    fn contiguous_slices() {
        let offset = |starts: &[u32], sizes: &[u32], strides: Option<&[u32]>| {
            slice(starts, sizes, strides).contiguous_offset(&[4, 6, 5])
        };
        assert_eq!(offset(&[0, 0, 0], &[4, 6, 5], None), Some(0));
        assert_eq!(offset(&[1, 0, 0], &[2, 6, 5], None), Some(30));
        assert_eq!(offset(&[1, 2, 0], &[1, 3, 5], None), Some(40));
        assert_eq!(offset(&[1, 2, 3], &[1, 1, 2], None), Some(43));
        assert_eq!(offset(&[1, 2, 0], &[2, 3, 5], None), None);
        assert_eq!(offset(&[0, 0, 0], &[4, 6, 5], Some(&[2, 1, 1])), None);
        assert_eq!(offset(&[1, 0, 0], &[2, 6, 5], Some(&[u32::MAX, 1, 1])), Some(30));
    }
}
