//! Shape arithmetic of models with sizes still unknown: integers that are moved, added and compared during translation.
//! All other arithmetic is evaluated at the sizes of the import, which is then valid only for these.

use super::call::{Call, Step};
use super::import::Value;
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::ir::OperandId;
use crate::ops::elementwise::Elementwise as E;
use crate::ops::reduce::{Reduce, ReduceKind, reduced_shape};
use crate::ops::tensor::Tensor;
use crate::ops::{Op, Operator};
use crate::shape::Descriptor;

/// Maximum number of elements of such a tensor.
const MAX_ELEMENTS: usize = 1 << 10;

/// Integers up to this magnitude are exact in float32.
const MAX_FLOAT: u32 = 1 << 24;
/// The largest integer up to which all are exact in float64.
const MAX_DOUBLE: i64 = 1 << 53;

/// How an operator uses an operand.
enum Use {
    /// Moves its elements.
    Moves,
    /// Reads its elements.
    Reads,
}

/// How `op` uses its operand at `index`, if `op` only moves elements.
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
        Op::Elementwise(E::Where) => Some(if index == 0 { Use::Reads } else { Use::Moves }),
        _ => None,
    }
}

/// Whether a tensor is small enough for shape arithmetic.
pub(super) fn is_small(descriptor: &Descriptor) -> bool {
    descriptor.is_known() && descriptor.elements() <= MAX_ELEMENTS
}

/// Whether elements of this type can depend on sizes.
fn holds_sizes(dtype: DataType) -> bool {
    matches!(dtype, DataType::Int64 | DataType::Int32 | DataType::Float32 | DataType::Float64)
}

/// Whether elements of type `dtype` represent these integers exactly.
fn are_exact(dtype: DataType, dims: &[Dim]) -> bool {
    let within = |low: i64, high: i64| dims.iter().all(|&dim| dim >= Dim::number(low) && dim <= Dim::number(high));
    match dtype {
        DataType::Int32 => within(i32::MIN as i64, i32::MAX as i64),
        DataType::Float32 => within(-(MAX_FLOAT as i64), MAX_FLOAT as i64),
        DataType::Float64 => within(-MAX_DOUBLE, MAX_DOUBLE),
        _ => true,
    }
}

/// The result of an element-wise operator on two integers of type `dtype`, if it is a truth value or an integer that
/// depends on sizes.
fn combined(op: E, dtype: DataType, a: Dim, b: Dim) -> Option<Dim> {
    let truth = |holds: bool| Some(Dim::from(holds as u32));
    match op {
        E::Add => Some(a + b),
        E::Sub => Some(a - b),
        // The float result could be a negative zero.
        E::Mul if dtype.is_float() && (a < 0 || b < 0) => None,
        E::Mul => Some(a * b),
        // Integer division rounds towards 0.
        E::Div if !dtype.is_float() && b > 0 => Some(if a >= 0 { a / b } else { opposite(opposite(a)? / b)? }),
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

/// The lowest integer has no opposite: it wraps around.
fn opposite(dim: Dim) -> Option<Dim> {
    let is_lowest = dim.is_number() && dim.pinned() == i64::MIN;
    (!is_lowest).then(|| Dim::ZERO - dim)
}

/// The result of an element-wise operator on an integer, if it is one that depends on sizes.
fn mapped(op: E, dim: Dim) -> Option<Dim> {
    let bound = |number: Number| match number {
        Number::Int(bound) => i64::try_from(bound).ok().map(Dim::number),
        Number::Float(_) => None,
    };
    match op {
        E::Neg => opposite(dim),
        E::Abs => Some(dim.max(opposite(dim)?)),
        E::Relu => Some(dim.max(Dim::ZERO)),
        E::Sign => Some(Dim::number(dim.cmp(&Dim::ZERO) as i64)),
        E::Clamp { min, max } => Some(dim.max(bound(min)?).min(bound(max)?)),
        _ => None,
    }
}

/// How a reduction combines two integers, if it is a function of both that depends on sizes.
fn reducer(kind: ReduceKind) -> Option<fn(Dim, Dim) -> Dim> {
    match kind {
        ReduceKind::Sum => Some(|a, b| a + b),
        ReduceKind::Product => Some(|a, b| a * b),
        ReduceKind::Max => Some(|a, b| a.max(b)),
        ReduceKind::Min => Some(|a, b| a.min(b)),
        _ => None,
    }
}

impl Call<'_, '_> {
    /// The elements of an operand that is an integer constant or depends on sizes.
    pub fn dims_of(&self, operand: OperandId) -> Option<Vec<Dim>> {
        if let Some(dims) = self.sizes_of(operand) {
            return Some(dims.to_vec());
        }
        let int = |number| match number {
            Number::Int(x) => i64::try_from(x).ok().map(Dim::number),
            // A negative zero is not an integer.
            Number::Float(x)
                if x.fract() == 0.0 && x.abs() <= MAX_FLOAT as f64 && (x != 0.0 || x.is_sign_positive()) =>
            {
                Some(Dim::number(x as i64))
            }
            Number::Float(_) => None,
        };
        self.numbers_of(operand)?.into_iter().map(int).collect()
    }

    /// Whether the input at `index` is a constant or depends on sizes.
    pub fn is_known(&self, index: usize) -> bool {
        match self.value(index) {
            Some(Value::Tensor(id)) => self.is_constant(id) || self.sizes_of(id).is_some(),
            Some(Value::Literal(_) | Value::Empty(_)) => true,
            _ => false,
        }
    }

    /// The single integer in the constant at `index`, which may depend on sizes; `None` for anything else.
    pub fn one_dim(&self, index: usize) -> Option<Dim> {
        let Value::Tensor(id) = self.value(index)? else { return None };
        <[Dim; 1]>::try_from(self.dims_of(id)?).ok().map(|[dim]| dim)
    }

    /// Folds `op`, whose outputs `outputs` describes, if all operands are constants or depend on sizes, and at least
    /// one of them does the latter; `None` if the outputs are not the same function of all sizes.
    pub(super) fn fold_sizes(
        &mut self,
        op: &Op,
        inputs: &[Option<OperandId>],
        outputs: &[Descriptor],
    ) -> Step<Option<Vec<OperandId>>> {
        let descriptors: Vec<Descriptor> = inputs.iter().flatten().map(|&id| self.descriptor(id)).collect();
        if descriptors.len() != inputs.len() || !descriptors.iter().chain(outputs).all(is_small) {
            return Ok(None);
        }
        let operands: Vec<OperandId> = inputs.iter().flatten().copied().collect();
        let results = match op {
            Op::Elementwise(op) if operands.len() == 2 => self.combine(*op, &operands, &descriptors, &outputs[0]),
            // Rounding an integer, or casting it to another type, does not change it.
            Op::Elementwise(E::Identity | E::Floor | E::Ceil | E::RoundEven | E::Cast { .. }) => {
                self.dims_of(operands[0]).filter(|_| holds_sizes(outputs[0].dtype)).map(|dims| vec![dims])
            }
            Op::Elementwise(op) if operands.len() == 1 && !descriptors[0].dtype.is_float() => {
                let mapped = |dims: Vec<Dim>| dims.into_iter().map(|dim| mapped(*op, dim)).collect::<Option<_>>();
                self.dims_of(operands[0]).and_then(mapped).map(|dims| vec![dims])
            }
            Op::Reduce(op) if !descriptors[0].dtype.is_float() => self.reduce_sizes(op, operands[0], &descriptors[0]),
            op => self.move_elements(op, &operands, &descriptors, outputs),
        };
        let Some(results) = results else { return Ok(None) };
        if !outputs.iter().zip(&results).all(|(output, dims)| are_exact(output.dtype, dims)) {
            return Ok(None);
        }
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
        let results = a?.into_iter().zip(b?).map(|(a, b)| combined(op, shapes[0].dtype, a, b));
        Some(vec![results.collect::<Option<_>>()?])
    }

    fn reduce_sizes(&self, op: &Reduce, operand: OperandId, shape: &Descriptor) -> Option<Vec<Vec<Dim>>> {
        let (combine, elements) = (reducer(op.kind)?, self.dims_of(operand)?);
        let reduced = reduced_shape(&shape.shape, op.attributes.axes.as_deref(), true).ok()?;
        let reduced = Descriptor { dtype: shape.dtype, shape: reduced };
        let mut results = vec![None; reduced.elements()];
        for (place, dim) in broadcast_places(&reduced, shape).into_iter().zip(elements) {
            let result: &mut Option<Dim> = &mut results[place];
            *result = Some(result.map_or(dim, |earlier| combine(earlier, dim)));
        }
        Some(vec![results.into_iter().collect::<Option<_>>()?])
    }

    /// Runs the reference of `op` on the elements' indices into a list of all elements.
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

/// For each element of `output`, the index of the element of `from` that is broadcast to it.
fn broadcast_places(from: &Descriptor, output: &Descriptor) -> Vec<usize> {
    let mut next = 0..;
    let from = Descriptor { dtype: DataType::Int64, shape: from.shape.clone() };
    let places = Tensor::from_fn(&from, |_| Number::Int(next.next().expect("endless") as i128));
    let spread = places.broadcast(&output.sizes());
    spread.numbers().map(|place| if let Number::Int(place) = place { place as usize } else { unreachable!() }).collect()
}
