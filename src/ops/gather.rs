//! `gather()`, `gatherElements()` and `gatherND()`: elements at places that another tensor gives.
//!
//! A negative index counts from the end; indices that are still out of range are clamped.

use super::attributes::Attributes;
use super::rows::{Along, Rows};
use super::rule::*;
use super::tensor::Tensor;
use super::{Inputs, NamedOperator, Operator, Tensors, required};
use crate::dimension::Dim;
use crate::dtype::Number;
use crate::error::Problem;
use crate::shape::Descriptor;

crate::attributes! {
    /// `gather()` with `MLGatherOptions`.
    pub struct Gather {
        /// The dimension of the input to index.
        axis "axis": u32 = 0,
    }
}

crate::attributes! {
    /// `gatherElements()` with `MLGatherOptions`.
    pub struct GatherElements {
        /// The dimension of the input to index.
        axis "axis": u32 = 0,
    }
}

/// `gatherND()`: the last dimension of the indices holds coordinates into the leading dimensions of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GatherNd;

/// Resolves an index, a whole number, among `size` elements.
pub fn clamp_index(index: Number, size: usize) -> usize {
    // Exact up to 2^53; larger ones are clamped.
    let index = index.to_f64() as i128;
    let from_start = if index < 0 { index + size as i128 } else { index };
    from_start.clamp(0, size as i128 - 1) as usize
}

/// The place in a tensor of `shape` that the coordinates in the row `batch` of `indices` refer to: one index per
/// dimension that they cover.
pub fn clamp_coordinates(indices: &Tensor, batch: &[usize], shape: &[usize]) -> Vec<usize> {
    let dimensions = *indices.shape().last().expect("indices have a last dimension");
    let coordinate = |dimension: usize| {
        let index = indices.at(&[batch, &[dimension]].concat());
        clamp_index(index, shape[dimension])
    };
    (0..dimensions).map(coordinate).collect()
}

/// Checks `axis` against the rank of `input`.
pub fn check_axis(axis: u32, input: &Descriptor) -> Result<usize, Problem> {
    match axis as usize {
        axis if axis < input.rank() => Ok(axis),
        axis => Err(Problem::attribute("axis", axis, format!("below the rank {} of input", input.rank()))),
    }
}

/// Checks that `indices` has the shape of `input`, but any size along `axis`.
pub fn check_indices_along(axis: usize, input: &Descriptor, indices: &Descriptor) -> Result<(), Problem> {
    let rank = input.rank();
    if indices.rank() != rank {
        return Err(Problem::Rank { operand: "indices", got: indices.rank(), min: rank, max: rank });
    }
    let mut expected = input.shape.clone();
    expected[axis] = indices.shape[axis];
    match indices.shape == expected {
        true => Ok(()),
        false => Err(Problem::Shape { operand: "indices", got: indices.shape.clone(), expected }),
    }
}

/// The shape of the gathered elements: each row of coordinates selects a slice.
pub fn picked_shape(input: &Descriptor, indices: &Descriptor) -> Result<Vec<Dim>, Problem> {
    let (&dimensions, batch) = indices.shape.split_last().expect("the rule requires rank 1");
    let dimensions = dimensions.get();
    if dimensions as usize > input.rank() {
        let expected = format!("at most {}, the rank of input", input.rank());
        return Err(Problem::attribute("last dimension of indices", dimensions, expected));
    }
    Ok([batch, &input.shape[dimensions as usize..]].concat())
}

/// Bytes of the indices and of the gathered elements: the rest of the input is not read.
fn gathered_bytes(inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
    (required(inputs, 1).bytes() + outputs[0].bytes()) as u64
}

const INPUT: OperandRule = operand("input", ANY, FROM_1D);
const SAME: Types = Types::SameAs("input");

impl NamedOperator for Gather {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "gather",
        operands: &[INPUT, operand("indices", INDICES, ANY_RANK)],
        outputs: &[output("output", SAME, ANY_RANK)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<Gather, Problem> {
        Gather::read(attributes)
    }
}

impl Operator for Gather {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        Gather::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let (input, indices) = (required(inputs, 0), required(inputs, 1));
        let axis = check_axis(self.axis, input)?;
        let shape = [&input.shape[..axis], &indices.shape, &input.shape[axis + 1..]].concat();
        Ok(vec![Descriptor::new(input.dtype, shape)])
    }

    fn rows(&self, inputs: &Inputs, _output: &Descriptor, along: Along, _count: Dim) -> Option<Rows<Self>> {
        let (axis, rank) = (self.axis as usize, required(inputs, 1).rank());
        let operands = match along.axis {
            before if before < axis => vec![Some(along), None],
            within if within < axis + rank => vec![None, Some(along.at(within - axis))],
            behind => vec![Some(along.at(behind + 1 - rank)), None],
        };
        Some(Rows { op: self.clone(), operands })
    }

    fn bytes_read(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
        gathered_bytes(inputs, outputs)
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, indices) = (required(inputs, 0), required(inputs, 1));
        let axis = self.axis as usize;
        let output = Tensor::from_fn(&outputs[0], |index| {
            let (outer, rest) = index.split_at(axis);
            let (place, inner) = rest.split_at(indices.shape().len());
            let place = clamp_index(indices.at(place), input.shape()[axis]);
            input.at(&[outer, &[place], inner].concat())
        });
        vec![output]
    }
}

impl NamedOperator for GatherElements {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "gatherElements",
        operands: &[INPUT, operand("indices", INDICES, FROM_1D)],
        outputs: &[output("output", SAME, FROM_1D)],
    }];

    fn read(_name: &str, attributes: &mut Attributes) -> Result<GatherElements, Problem> {
        GatherElements::read(attributes)
    }
}

impl Operator for GatherElements {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, attributes: &mut Attributes) {
        GatherElements::write(self, attributes);
    }

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let (input, indices) = (required(inputs, 0), required(inputs, 1));
        check_indices_along(check_axis(self.axis, input)?, input, indices)?;
        Ok(vec![Descriptor::new(input.dtype, indices.shape.clone())])
    }

    fn bytes_read(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
        gathered_bytes(inputs, outputs)
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, indices) = (required(inputs, 0), required(inputs, 1));
        let axis = self.axis as usize;
        let output = Tensor::from_fn(&outputs[0], |index| {
            let mut place = index.to_vec();
            place[axis] = clamp_index(indices.at(index), input.shape()[axis]);
            input.at(&place)
        });
        vec![output]
    }
}

impl NamedOperator for GatherNd {
    const RULES: &'static [OpRule] = &[OpRule {
        name: "gatherND",
        operands: &[INPUT, operand("indices", INDICES, FROM_1D)],
        outputs: &[output("output", SAME, ANY_RANK)],
    }];

    fn read(_name: &str, _attributes: &mut Attributes) -> Result<GatherNd, Problem> {
        Ok(GatherNd)
    }
}

impl Operator for GatherNd {
    fn rule(&self) -> &'static OpRule {
        &Self::RULES[0]
    }

    fn write(&self, _attributes: &mut Attributes) {}

    fn infer(&self, inputs: &Inputs) -> Result<Vec<Descriptor>, Problem> {
        let (input, indices) = (required(inputs, 0), required(inputs, 1));
        Ok(vec![Descriptor::new(input.dtype, picked_shape(input, indices)?)])
    }

    fn bytes_read(&self, inputs: &Inputs, outputs: &[&Descriptor]) -> u64 {
        gathered_bytes(inputs, outputs)
    }

    fn reference(&self, inputs: &Tensors, outputs: &[Descriptor]) -> Vec<Tensor> {
        let (input, indices) = (required(inputs, 0), required(inputs, 1));
        let output = Tensor::from_fn(&outputs[0], |index| {
            let (batch, inner) = index.split_at(indices.shape().len() - 1);
            let mut place = clamp_coordinates(indices, batch, input.shape());
            place.extend(inner);
            input.at(&place)
        });
        vec![output]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DataType;
    use crate::ops::Op;

    fn infer(op: impl Into<Op>, input: &[u32], indices: &[u32]) -> Result<Vec<u32>, String> {
        let input = Descriptor::new(DataType::Float32, input);
        let indices = Descriptor::new(DataType::Int32, indices);
        let outputs = op.into().resolve(&[Some(&input), Some(&indices)]).map_err(|problem| problem.to_string())?;
        Ok(outputs[0].sizes().to_vec())
    }

    #[test]
    fn gathered() {
        let gather = |axis, input: &[u32], indices: &[u32]| infer(Gather { axis }, input, indices);
        assert_eq!(gather(1, &[2, 3, 4], &[5, 6]), Ok(vec![2, 5, 6, 4]));
        assert_eq!(gather(0, &[3], &[]), Ok(vec![]));
        assert_eq!(gather(1, &[3], &[2]), Err("axis is 1, expected below the rank 1 of input".to_string()));
        assert!(gather(0, &[3, 1, 1, 1, 1], &[1; 5]).unwrap_err().contains("more than the 8 dimensions"));
        assert!(gather(0, &[3, 1 << 20], &[1 << 20]).unwrap_err().contains("elements"));
    }

    #[test]
    fn gathered_elements() {
        let gather = |axis, input: &[u32], indices: &[u32]| infer(GatherElements { axis }, input, indices);
        assert_eq!(gather(1, &[2, 3], &[2, 7]), Ok(vec![2, 7]));
        assert_eq!(gather(2, &[2, 3], &[2, 3]), Err("axis is 2, expected below the rank 2 of input".to_string()));
        assert_eq!(gather(1, &[2, 3], &[3, 7]), Err("indices has shape [3, 7], expected [2, 7]".to_string()));
        assert_eq!(gather(1, &[2, 3], &[2]), Err("indices has rank 1, expected 2".to_string()));
    }

    #[test]
    fn gathered_by_coordinates() {
        let gather = |input: &[u32], indices: &[u32]| infer(GatherNd, input, indices);
        assert_eq!(gather(&[2, 3, 4], &[5, 6, 2]), Ok(vec![5, 6, 4]));
        assert_eq!(gather(&[2, 3], &[2]), Ok(vec![]));
        assert_eq!(
            gather(&[2, 3], &[5, 3]),
            Err("last dimension of indices is 3, expected at most 2, the rank of input".to_string())
        );
        assert_eq!(gather(&[2, 3], &[]), Err("indices has rank 0, expected 1 to 8".to_string()));
    }

    #[test]
    fn indices_count_from_either_end_and_are_clamped() {
        let place = |index| clamp_index(Number::Int(index), 3);
        assert_eq!([0, 2, 3, i64::MAX as i128, -1, -3, -4, i64::MIN as i128].map(place), [0, 2, 2, 2, 2, 0, 0, 0]);
    }
}
