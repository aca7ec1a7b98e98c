//! Prologues: operands that a node computes itself while reading them.

use super::ValueId;
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::ops::elementwise::Elementwise;
use crate::ops::fused::Fused;
use crate::ops::tensor::Tensor;
use crate::shape::Descriptor;

/// How the elements of a constant are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// As their data type defines.
    Whole,
    /// In 4 bits each, two per byte, the first one in the lower bits: numbers of an 8-bit type that are all small
    /// enough.
    Nibbles,
}

/// An operand that a node's kernel computes, element by element, while reading it.
#[derive(Clone, Debug, PartialEq)]
pub struct Prologue {
    /// Index among the operands of the operator's rule. The node's input at this index is the program's first operand.
    pub operand: usize,
    /// The other operands of the program.
    pub others: Vec<ValueId>,
    /// The operand as the operator sees it.
    pub descriptor: Descriptor,
    /// The shape that the program's operands are spread to. Its elements are those of the operand, in the same order.
    pub shape: Vec<Dim>,
    /// The program that computes an element. Each of its operands has the shape above or repeats its elements: it is
    /// broadcast, or applies to blocks like a scale of `dequantizeLinear()`.
    pub program: Fused,
    /// How the elements of the first operand are stored.
    pub storage: Storage,
}

impl Prologue {
    /// For each dimension of the shape, the number of its elements per element of an operand of shape `from`.
    pub fn blocks(&self, from: &[u32]) -> Vec<u32> {
        let padding = self.shape.len() - from.len();
        let size = |axis: usize| if axis < padding { 1 } else { from[axis - padding] };
        self.shape.iter().enumerate().map(|(axis, all)| all.get() / size(axis)).collect()
    }

    /// The text form: `b:[dequantize(r0 r1 r2)]` for the operand `b`.
    pub fn text(&self, name: &str) -> String {
        let nibbles = if self.storage == Storage::Nibbles { " of nibbles" } else { "" };
        format!("{name}{nibbles}:[{}]", self.program.texts().join(", "))
    }

    /// Evaluates the operand by the formulas of the draft.
    pub fn evaluate(&self, operands: &[&Tensor]) -> Tensor {
        let dtype = operands[0].descriptor().dtype;
        let whole = match self.storage {
            Storage::Whole => None,
            Storage::Nibbles => Some(unpacked(operands[0], &Descriptor::new(dtype, self.shape.clone()))),
        };
        let spread: Vec<Tensor> = operands
            .iter()
            .enumerate()
            .map(|(index, &operand)| self.spread(if index == 0 { whole.as_ref().unwrap_or(operand) } else { operand }))
            .collect();
        let output = Descriptor::new(self.descriptor.dtype, self.shape.clone());
        self.program.evaluate(&spread.iter().collect::<Vec<_>>(), &output).reshape(&self.descriptor.sizes())
    }

    fn spread(&self, operand: &Tensor) -> Tensor {
        let own = operand.descriptor();
        let blocks = self.blocks(&own.sizes());
        let padding = self.shape.len() - own.rank();
        Tensor::from_fn(&Descriptor::new(own.dtype, self.shape.clone()), |index| {
            let place: Vec<usize> = index.iter().zip(&blocks).map(|(&i, &block)| i / block as usize).collect();
            operand.at(&place[padding..])
        })
    }
}

/// Unpacks the numbers of a packed tensor.
fn unpacked(packed: &Tensor, whole: &Descriptor) -> Tensor {
    let bytes = packed.to_bytes();
    let mut next = 0;
    Tensor::from_fn(whole, |_| {
        let nibble = bytes[next / 2] >> (4 * (next % 2)) & 15;
        next += 1;
        Number::Int(match whole.dtype {
            DataType::Int8 => ((nibble << 4) as i8 >> 4) as i128,
            _ => nibble as i128,
        })
    })
}

/// Whether an operator is so cheap that computing it in each of several readers costs less than reading more bytes.
pub fn is_cheap(op: Elementwise) -> bool {
    use Elementwise::{Abs, Add, Cast, Clamp, Dequantize, Identity, Linear, Max, Min, Mul, Neg, Relu, Sub};
    matches!(
        op,
        Abs | Add
            | Cast { .. }
            | Clamp { .. }
            | Dequantize
            | Identity
            | Linear { .. }
            | Max
            | Min
            | Mul
            | Neg
            | Relu
            | Sub
    )
}
