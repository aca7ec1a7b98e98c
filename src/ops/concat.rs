//! `concat()`: joins tensors along an axis.

use super::attributes::Attributes;
use super::rows::{Along, Rows};
use super::rule::*;
use super::strided::Strided;
use super::tensor::Tensor;
use super::{Inputs, MAX_TENSOR_COUNT, NamedOperator, Operator, Tensors, place_of, required};
use crate::dimension::Dim;
use crate::error::Problem;
use crate::shape::{Descriptor, elements, is_dimension};

crate::attributes! {
    /// `concat()`.
    pub struct Concat {
        /// The dimension to join along.
        axis "axis": u32 = 0,
    }
}

impl Concat {
    /// Where each operand's elements are in the output, for operands of these shapes.
    pub fn strided(&self, inputs: &[&[u32]]) -> Vec<Strided> {
        let axis = self.axis as usize;
        let mut output = inputs[0].to_vec();
        output[axis] = inputs.iter().map(|shape| shape[axis]).sum();
        let output = Strided::row_major(&output);
        let mut starts = vec![0; inputs[0].len()];
        let place = |shape: &&[u32]| {
            let place = output.window(&starts, shape);
            starts[axis] += shape[axis];
            place
        };
        inputs.iter().map(place).collect()
    }

    /// The offset of each operand in the output, if the elements of each operand remain contiguous: the elements in
    /// front of them are then those of the preceding operands.
    pub fn contiguous_offsets<S: AsRef<[u32]>>(
        &self,
        mut inputs: impl ExactSizeIterator<Item = S> + Clone,
    ) -> Option<impl Iterator<Item = usize>> {
        let is_outermost = |first: S| first.as_ref()[..self.axis as usize].iter().all(|&dim| dim == 1);
        let start = |next: &mut usize, shape: S| Some(std::mem::replace(next, *next + elements(shape.as_ref())));
        let all = inputs.clone().scan(0, start);
        (inputs.len() == 1 || inputs.next().is_some_and(is_outermost)).then_some(all)
    }

    /// Appends the operand at `index` to the `output` of the preceding operands.
    fn append(&self, output: &mut Descriptor, input: &Descriptor) -> Result<(), Problem> {
        if input.dtype != output.dtype {
            return Err(Problem::DataType { operand: "inputs", got: input.dtype, expected: vec![output.dtype] });
        }
        let rank = output.rank();
        if input.rank() != rank {
            return Err(Problem::Rank { operand: "inputs", got: input.rank(), min: rank, max: rank });
        }
        let axis = self.axis as usize;
        let mut expected = output.shape.clone();
        expected[axis] = input.shape[axis];
        if input.shape != expected {
            return Err(Problem::Shape { operand: "inputs", got: input.shape.clone(), expected });
        }
        let size = output.shape[axis] + input.shape[axis];
        if !is_dimension(size) {
            return Err(Problem::attribute("size along axis", size, format!("at most {}", i32::MAX)));
        }
        output.shape[axis] = size;
        Ok(())
    }
}

impl NamedOperator for Concat {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "concat",
        operands: &[variadic("inputs", ANY, FROM_1D)],
        outputs: &[output("output", Types::SameAs("inputs"), FROM_1D)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Concat, Problem> {
        Concat::read(attributes)
    }
}

impl Operator for Concat {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Concat::write(self, attributes);
    }

    fn transposed(&self, axes: &[usize]) -> Option<Self> {
        Some(Concat { axis: place_of(axes, self.axis) })
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        if inputs.len() > MAX_TENSOR_COUNT {
            return Err(Problem::attribute("number of inputs", inputs.len(), format!("1 to {MAX_TENSOR_COUNT}")));
        }
        let mut output = required(inputs, 0).clone();
        if self.axis as usize >= output.rank() {
            return Err(Problem::attribute("axis", self.axis, format!("below the rank {}", output.rank())));
        }
        for index in 1..inputs.len() {
            self.append(&mut output, required(inputs, index))?;
        }
        Ok(vec![output])
    }

    fn rows(&self, inputs: &Inputs, _output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        let rows = Rows { op: self.clone(), operands: vec![Some(along); inputs.len()] };
        (along.axis != self.axis as usize).then_some(rows)
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let axis = self.axis as usize;
        let mut end = 0;
        let mut parts = Vec::new();
        for input in inputs.iter().flatten() {
            parts.push((end, input));
            end += input.shape()[axis];
        }
        let output = Tensor::from_fn(&outputs[0], |index| {
            let mut index = index.to_vec();
            let (start, input) = parts[parts.partition_point(|(start, _)| *start <= index[axis]) - 1];
            index[axis] -= start;
            input.at(&index)
        });
        vec![output]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType::{self, *};

    fn infer(axis: u32, inputs: &[(DataType, &[u32])]) -> Result<Vec<u32>, String> {
        let inputs: Vec<_> = inputs.iter().map(|&(dtype, shape)| Descriptor::new(dtype, shape)).collect();
        let inputs: Vec<_> = inputs.iter().map(Some).collect();
        let output = Concat { axis }.infer(&inputs).map_err(|problem| problem.to_string())?;
        Ok(output[0].sizes().to_vec())
    }

    #[test]
    fn shapes() {
        assert_eq!(infer(1, &[(Float32, &[2, 3]), (Float32, &[2, 1]), (Float32, &[2, 4])]), Ok(vec![2, 8]));
        assert_eq!(infer(0, &[(Int8, &[5])]), Ok(vec![5]));
        let huge = i32::MAX as u32;
        for (axis, inputs, message) in [
            (2, vec![(Float32, &[2, 3][..])], "axis is 2, expected below the rank 2"),
            (0, vec![(Float32, &[2]), (Int32, &[2])], "inputs has data type int32, expected float32"),
            (0, vec![(Float32, &[2]), (Float32, &[2, 2])], "inputs has rank 2, expected 1"),
            (1, vec![(Float32, &[2, 3]), (Float32, &[1, 3])], "inputs has shape [1, 3], expected [2, 3]"),
            (0, vec![(Int8, &[huge]), (Int8, &[1])], "size along axis is 2147483648, expected at most 2147483647"),
        ] {
            assert_eq!(infer(axis, &inputs), Err(message.to_string()));
        }
        let many = vec![(Int8, &[1][..]); MAX_TENSOR_COUNT + 1];
        assert_eq!(infer(0, &many[1..]), Ok(vec![8192]));
        assert_eq!(infer(0, &many), Err("number of inputs is 8193, expected 1 to 8192".to_string()));
    }

    #[test]
    fn outer_concatenations_are_contiguous() {
        let inputs: [&[u32]; 3] = [&[1, 2, 3], &[1, 1, 3], &[1, 4, 3]];
        let concat = Concat { axis: 1 };
        let offsets_of =
            |inputs: &[&[u32]]| Some(concat.contiguous_offsets(inputs.iter().copied())?.collect::<Vec<_>>());
        assert_eq!(offsets_of(&inputs), Some(vec![0, 6, 9]));
        assert_eq!(offsets_of(&[&[2, 2, 3], &[2, 1, 3]]), None);
        assert_eq!(offsets_of(&[&[2, 2, 3]]), Some(vec![0]));
        for inputs in [&inputs[..], &[&[2, 2, 3], &[2, 1, 3]], &[&[2, 2, 3]], &[&[1, 1, 1, 9], &[1, 4, 1, 9]]] {
            let places = concat.strided(inputs);
            let offsets: Option<Vec<usize>> = places.iter().map(|place| place.contiguous_offset()).collect();
            assert_eq!(offsets_of(inputs), offsets, "{inputs:?}");
        }
    }
}
