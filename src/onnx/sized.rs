//! What models compute with shapes, where the sizes are known later: integers that are moved, added and compared while
//! they are translated. Everything else of it is done at the sizes of the import, which it then holds for.

use super::call::{Call, Step};
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::ir::OperandId;
use crate::ops::Op;
use crate::ops::elementwise::Elementwise as E;
use crate::ops::tensor::Tensor;
use crate::shape::Descriptor;

/// The most elements of such a tensor.
const MAX_ELEMENTS: usize = 1 << 10;

/// How an operator uses an operand.
enum Use {
    /// It moves its elements.
    Moves,
    /// It looks at them.
    Reads,
}

/// How `op` uses its operand at `index`, if all that it does is to move elements.
fn usage(op: &Op, index: usize) -> Option<Use> {
    match op {
        Op::Concat(_) => Some(Use::Moves),
        Op::Reshape(_)
        | Op::Expand(_)
        | Op::Slice(_)
        | Op::Split(_)
        | Op::Transpose(_)
        | Op::Tile(_)
        | Op::Reverse(_) => Some(Use::Moves),
        Op::Gather(_) | Op::GatherElements(_) | Op::GatherNd(_) => {
            Some(if index == 0 { Use::Moves } else { Use::Reads })
        }
        Op::Elementwise(E::Identity | E::Cast { to: DataType::Int64 }) => Some(Use::Moves),
        Op::Elementwise(E::Where) => Some(if index == 0 { Use::Reads } else { Use::Moves }),
        _ => None,
    }
}

/// What an element-wise operator makes of two integers, if that is an integer that follows from sizes or a truth value.
fn combined(op: E, a: Dim, b: Dim) -> Option<Dim> {
    let truth = |holds: bool| Some(Dim::from(holds as u32));
    match op {
        E::Add => Some(a + b),
        E::Sub => Some(a - b),
        E::Mul => Some(a * b),
        // Quotients of negative numbers are rounded towards 0 there.
        E::Div if a >= 0 && b > 0 => Some(a / b),
        E::Min => Some(a.min(b)),
        E::Max => Some(a.max(b)),
        E::Equal => truth(a == b),
        E::NotEqual => truth(a != b),
        E::Greater => truth(a > b),
        E::GreaterOrEqual => truth(a >= b),
        E::Lesser => truth(a < b),
        E::LesserOrEqual => truth(a <= b),
        _ => None,
    }
}

impl Call<'_, '_> {
    /// The elements of an operand that is a constant of integers or follows from sizes.
    fn dims_of(&self, operand: OperandId) -> Option<Vec<Dim>> {
        if let Some(dims) = self.sizes_of(operand) {
            return Some(dims.to_vec());
        }
        let int = |number| match number {
            Number::Int(x) => i64::try_from(x).ok().map(Dim::number),
            Number::Float(_) => None,
        };
        self.numbers_of(operand)?.into_iter().map(int).collect()
    }

    /// The outputs of `op`, described by `outputs`, whose operands are constants or follow from sizes, as at least one does;
    /// `None` if they cannot be told for all sizes.
    pub(super) fn fold_sizes(
        &mut self,
        op: &Op,
        inputs: &[Option<OperandId>],
        outputs: &[Descriptor],
    ) -> Step<Option<Vec<OperandId>>> {
        let descriptors: Vec<Descriptor> = inputs.iter().flatten().map(|&id| self.descriptor(id)).collect();
        let is_small = |descriptor: &Descriptor| descriptor.is_known() && descriptor.elements() <= MAX_ELEMENTS;
        if descriptors.len() != inputs.len() || !descriptors.iter().chain(outputs).all(is_small) {
            return Ok(None);
        }
        let operands: Vec<OperandId> = inputs.iter().flatten().copied().collect();
        let results = match op {
            Op::Elementwise(op) if operands.len() == 2 => self.combine(*op, &operands, &descriptors, &outputs[0]),
            op => self.move_elements(op, &operands, &descriptors, outputs),
        };
        let Some(results) = results else { return Ok(None) };
        let mut ids = Vec::new();
        for (output, dims) in outputs.iter().zip(results) {
            ids.push(self.dims_constant(output, &dims)?);
        }
        Ok(Some(ids))
    }

    fn combine(
        &self,
        op: E,
        operands: &[OperandId],
        shapes: &[Descriptor],
        output: &Descriptor,
    ) -> Option<Vec<Vec<Dim>>> {
        let [a, b] = [0, 1].map(|index| {
            let places = broadcast_places(&shapes[index], output);
            let elements = self.dims_of(operands[index])?;
            Some(places.into_iter().map(|place| elements[place]).collect::<Vec<Dim>>())
        });
        let results = a?.into_iter().zip(b?).map(|(a, b)| combined(op, a, b));
        Some(vec![results.collect::<Option<_>>()?])
    }

    /// Runs the reference of `op` on the places of the elements in a list of all.
    fn move_elements(
        &self,
        op: &Op,
        operands: &[OperandId],
        shapes: &[Descriptor],
        outputs: &[Descriptor],
    ) -> Option<Vec<Vec<Dim>>> {
        let mut all = Vec::new();
        let mut tensors = Vec::new();
        for (index, (&operand, descriptor)) in operands.iter().zip(shapes).enumerate() {
            let descriptor = |dtype| Descriptor { dtype, shape: descriptor.shape.clone() };
            let numbers: Vec<i128> = match usage(op, index)? {
                Use::Moves => {
                    let first = all.len();
                    all.extend(self.dims_of(operand)?);
                    (first..all.len()).map(|place| place as i128).collect()
                }
                Use::Reads if self.sizes_of(operand).is_some() => return None,
                Use::Reads => self.dims_of(operand)?.into_iter().map(|dim| dim.pinned() as i128).collect(),
            };
            let mut numbers = numbers.into_iter();
            let dtype = match usage(op, index)? {
                Use::Moves => DataType::Int64,
                Use::Reads => self.dtype(operand),
            };
            tensors
                .push(Tensor::from_fn(&descriptor(dtype), |_| Number::Int(numbers.next().expect("as many elements"))));
        }
        let outputs: Vec<Descriptor> =
            outputs.iter().map(|output| Descriptor { dtype: DataType::Int64, shape: output.shape.clone() }).collect();
        let tensors: Vec<Option<&Tensor>> = tensors.iter().map(Some).collect();
        let moved = op.reference(&tensors, &outputs);
        let element = |number| if let Number::Int(place) = number { all[place as usize] } else { unreachable!() };
        Some(moved.iter().map(|tensor| tensor.numbers().map(element).collect()).collect())
    }
}

/// For each element of `output` the place of the element of `from` that is broadcast there.
fn broadcast_places(from: &Descriptor, output: &Descriptor) -> Vec<usize> {
    let mut next = 0..;
    let from = Descriptor { dtype: DataType::Int64, shape: from.shape.clone() };
    let places = Tensor::from_fn(&from, |_| Number::Int(next.next().expect("endless") as i128));
    let spread = places.broadcast(&output.sizes());
    spread.numbers().map(|place| if let Number::Int(place) = place { place as usize } else { unreachable!() }).collect()
}
