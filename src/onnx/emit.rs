//! Shorthands for the operators that translations emit most often.

use super::call::{Call, Step};
use super::error::Refusal;
use super::import::Value;
use crate::dimension::{Dim, IntoDims};
use crate::dtype::{DataType, Number};
use crate::ir::OperandId;
use crate::ops::concat::Concat;
use crate::ops::elementwise::Elementwise as E;
use crate::ops::gather::Gather;
use crate::ops::matmul::Matmul;
use crate::ops::pad::Pad;
use crate::ops::reduce::{Reduce, ReduceAttributes, ReduceKind};
use crate::ops::reshape::{Expand, Reshape};
use crate::ops::slice::Slice;
use crate::ops::softmax::Softmax;
use crate::ops::split::{Split, Splits};
use crate::ops::transpose::Transpose;
use crate::shape::{Descriptor, broadcast};

impl Call<'_, '_> {
    /// `a + b`, broadcast.
    ///
    /// # Errors
    /// If types or shapes do not match; the same goes for the following functions.
    pub fn add(&mut self, a: OperandId, b: OperandId) -> Step<OperandId> {
        self.emit(E::Add, &[a, b])
    }

    /// `a - b`, broadcast.
    pub fn sub(&mut self, a: OperandId, b: OperandId) -> Step<OperandId> {
        self.emit(E::Sub, &[a, b])
    }

    /// `a * b`, broadcast.
    pub fn mul(&mut self, a: OperandId, b: OperandId) -> Step<OperandId> {
        self.emit(E::Mul, &[a, b])
    }

    /// `a / b`, broadcast.
    pub fn div(&mut self, a: OperandId, b: OperandId) -> Step<OperandId> {
        self.emit(E::Div, &[a, b])
    }

    /// `operand + value`; emits nothing for 0.
    pub fn add_number(&mut self, operand: OperandId, value: f64) -> Step<OperandId> {
        if value == 0.0 {
            return Ok(operand);
        }
        let value = self.scalar_like(operand, value)?;
        self.add(operand, value)
    }

    /// `operand * value`; emits nothing for 1.
    pub fn scale(&mut self, operand: OperandId, value: f64) -> Step<OperandId> {
        if value == 1.0 {
            return Ok(operand);
        }
        let value = self.scalar_like(operand, value)?;
        self.mul(operand, value)
    }

    /// `condition ? yes : no`, broadcast.
    pub fn select(&mut self, condition: OperandId, yes: OperandId, no: OperandId) -> Step<OperandId> {
        self.emit(E::Where, &[condition, yes, no])
    }

    /// WebNN's cast, which truncates fractions; emits nothing if the type is the same.
    pub fn cast(&mut self, operand: OperandId, dtype: DataType) -> Step<OperandId> {
        if self.dtype(operand) == dtype { Ok(operand) } else { self.emit(E::Cast { to: dtype }, &[operand]) }
    }

    /// Reshapes an operand; emits nothing if the shape is the same.
    pub fn reshape<S: ?Sized>(&mut self, operand: OperandId, shape: &S) -> Step<OperandId>
    where
        for<'s> &'s S: IntoDims,
    {
        let new_shape = shape.into_dims();
        if self.shape(operand) == new_shape {
            return Ok(operand);
        }
        self.emit(Reshape { new_shape }, &[operand])
    }

    /// The single element of `operand` as a scalar.
    pub fn to_scalar(&mut self, operand: OperandId) -> Step<OperandId> {
        self.reshape(operand, &[0u32; 0])
    }

    /// `operand` broadcast to `shape`; emits nothing if it has that shape.
    pub fn expand<S: ?Sized>(&mut self, operand: OperandId, shape: &S) -> Step<OperandId>
    where
        for<'s> &'s S: IntoDims,
    {
        let new_shape = shape.into_dims();
        if self.shape(operand) == new_shape {
            return Ok(operand);
        }
        self.emit(Expand { new_shape }, &[operand])
    }

    /// Transposes: dimension `i` of the output is dimension `permutation[i]` of the operand; emits nothing for the
    /// identity.
    pub fn transpose(&mut self, operand: OperandId, permutation: &[u32]) -> Step<OperandId> {
        if permutation.iter().enumerate().all(|(at, &axis)| axis as usize == at) {
            return Ok(operand);
        }
        self.emit(Transpose { permutation: Some(permutation.to_vec()) }, &[operand])
    }

    /// Exchanges the last two dimensions.
    pub fn transpose_last(&mut self, operand: OperandId) -> Step<OperandId> {
        let rank = self.rank(operand) as u32;
        if rank < 2 {
            return Err(Refusal(format!("a tensor of rank {rank} cannot be transposed, expected at least 2")));
        }
        let permutation: Vec<u32> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
        self.transpose(operand, &permutation)
    }

    /// Elements `start .. start + size` along `axis`; emits nothing if these are all.
    pub fn slice_axis<S, E>(&mut self, operand: OperandId, axis: usize, start: S, size: E) -> Step<OperandId>
    where
        S: Into<Dim>,
        E: Into<Dim>,
    {
        let (start, size, shape) = (start.into(), size.into(), self.shape(operand));
        if start == 0 && size == shape[axis] {
            return Ok(operand);
        }
        let mut starts = vec![Dim::number(0); shape.len()];
        starts[axis] = start;
        let mut sizes = shape;
        sizes[axis] = size;
        self.emit(Slice { starts, sizes, strides: None }, &[operand])
    }

    /// Concatenates along `axis`; emits nothing for a single operand.
    pub fn concat(&mut self, operands: &[OperandId], axis: u32) -> Step<OperandId> {
        if let [operand] = operands { Ok(*operand) } else { self.emit(Concat { axis }, operands) }
    }

    /// Splits along `axis` into pieces of these sizes.
    pub fn split<S: ?Sized>(&mut self, operand: OperandId, sizes: &S, axis: u32) -> Step<Vec<OperandId>>
    where
        for<'s> &'s S: IntoDims,
    {
        let sizes = sizes.into_dims();
        if sizes.len() == 1 {
            return Ok(vec![operand]);
        }
        self.emit_all(Split { splits: Splits::Sizes(sizes), axis }, vec![Some(operand)])
    }

    /// Gathers the rows of `operand` along `axis` at `indices`.
    pub fn gather(&mut self, operand: OperandId, indices: OperandId, axis: u32) -> Step<OperandId> {
        self.emit(Gather { axis }, &[operand, indices])
    }

    /// A reduction over `axes`.
    pub fn reduce(&mut self, kind: ReduceKind, operand: OperandId, axes: &[u32], keep: bool) -> Step<OperandId> {
        let attributes = ReduceAttributes { axes: Some(axes.to_vec()), keep_dimensions: keep };
        self.emit(Reduce { kind, attributes }, &[operand])
    }

    /// Softmax along `axis`. That of doubles has no kernel.
    pub fn softmax(&mut self, operand: OperandId, axis: u32) -> Step<OperandId> {
        if self.dtype(operand) == DataType::Float64 {
            let largest = self.reduce(ReduceKind::Max, operand, &[axis], true)?;
            let shifted = self.sub(operand, largest)?;
            let powers = self.emit(E::Exp, &[shifted])?;
            let sum = self.reduce(ReduceKind::Sum, powers, &[axis], true)?;
            return self.div(powers, sum);
        }
        self.emit(Softmax { axis }, &[operand])
    }

    /// The matrix product in the last two dimensions; the others broadcast.
    pub fn matmul(&mut self, a: OperandId, b: OperandId) -> Step<OperandId> {
        self.emit(Matmul, &[a, b])
    }

    /// The shape that two operands broadcast to.
    pub fn broadcast_shape(&self, a: OperandId, b: OperandId) -> Step<Vec<Dim>> {
        let (a, b) = (self.shape(a), self.shape(b));
        broadcast(&a, &b).ok_or_else(|| Refusal(format!("the shapes {a:?} and {b:?} do not broadcast")))
    }

    /// The node's single output.
    pub fn one(&mut self, output: Step<OperandId>) -> Step<Vec<Value>> {
        output.map(|id| vec![Value::Tensor(id)])
    }

    /// A scalar of type `dtype` for an integer.
    pub fn int_scalar(&mut self, dtype: DataType, value: i64) -> Step<OperandId> {
        self.scalar(dtype, Number::Int(value as i128))
    }

    /// A scalar of type `dtype` for an integer that may depend on sizes still unknown.
    pub fn dim_scalar(&mut self, dtype: DataType, value: Dim) -> Step<OperandId> {
        self.dims_constant(&Descriptor::new(dtype, [0u32; 0]), &[value])
    }

    /// `alpha * operand + beta` as one operator, which matrix products can fuse into their epilogue; emits nothing for
    /// `1 * operand + 0`.
    pub fn linear(&mut self, operand: OperandId, alpha: f64, beta: f64) -> Step<OperandId> {
        if alpha == 1.0 && beta == 0.0 {
            return Ok(operand);
        }
        self.emit(E::Linear { alpha, beta }, &[operand])
    }

    /// One slice of `operand` along `axis`, without that dimension.
    pub fn pick(&mut self, operand: OperandId, axis: usize, at: u32) -> Step<OperandId> {
        let slice = self.slice_axis(operand, axis, at, 1u32)?;
        let mut shape = self.shape(slice);
        shape.remove(axis);
        self.reshape(slice, &shape)
    }

    /// Stacks tensors of the same shape along a new dimension `axis`.
    pub fn stack(&mut self, operands: &[OperandId], axis: usize) -> Step<OperandId> {
        let mut rows = Vec::new();
        for &operand in operands {
            let mut shape = self.shape(operand);
            shape.insert(axis, Dim::number(1));
            rows.push(self.reshape(operand, &shape)?);
        }
        self.concat(&rows, axis as u32)
    }

    /// Pads `operand` with zeros before and after it along `axis`; emits nothing for no padding.
    pub fn pad_axis<P: Into<Dim>>(&mut self, operand: OperandId, axis: usize, pads: [P; 2]) -> Step<OperandId> {
        let mut all = vec![[Dim::number(0); 2]; self.rank(operand)];
        all[axis] = pads.map(P::into);
        self.pad(operand, &all)
    }

    /// Pads `operand` with zeros before and after it along all axes; emits nothing for no padding.
    pub fn pad(&mut self, operand: OperandId, pads: &[[Dim; 2]]) -> Step<OperandId> {
        if pads.iter().flatten().all(|pad| pad.is_number() && *pad == 0) {
            return Ok(operand);
        }
        let (beginning, ending) = pads.iter().map(|&[before, after]| (before, after)).unzip();
        self.emit(Pad { beginning, ending, ..Default::default() }, &[operand])
    }
}
