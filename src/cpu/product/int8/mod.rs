//! Matrix products and convolutions of 8-bit integers with exact sums, and their conversion to floats or bytes.
//!
//! Images have channels last. Operands are signed or unsigned bytes; right operands are packed, constants when the graph is
//! built, others when it runs.

pub mod depthwise;
pub mod frame;
pub mod panels;
pub mod sums;

use crate::cpu::simd::Simd;
use crate::cpu::simd::dot::{Integers, ToBytes};
use crate::dtype::DataType;
use crate::ops::quantized::Scale;
use std::borrow::Cow;

/// Converts a sum `s` in column `c` to `s * scale[c] + bias[c]`, rounded to an integer for bytes, and clamped.
#[derive(Clone, Debug)]
pub struct Rescale<'a> {
    /// The initial sums: the corrections for zero points.
    pub start: Cow<'a, [i32]>,
    /// Per column, the factor of the sum of the left row; the product is subtracted from the sum. Empty if all factors
    /// are 0.
    pub zeros: Cow<'a, [i32]>,
    /// The scales of the sums; for bytes, divided by the scale of the output.
    pub scale: Cow<'a, [f32]>,
    /// The addends after scaling; for bytes, divided by the scale of the output.
    pub bias: Cow<'a, [f32]>,
    /// The output type.
    pub to: To,
}

/// The elements of an output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum To {
    /// Bytes.
    Bytes(ToBytes),
    /// The sums themselves.
    Sums,
    /// Floats clamped to a range. NaN, which a NaN scale produces, stays NaN.
    Floats {
        /// The lower bound.
        min: f32,
        /// The upper bound.
        max: f32,
    },
}

/// The conversion of numbers, clamped to the range from `min` to `max`, to bytes of a type and scale.
pub fn to_bytes(dtype: DataType, Scale { scale, zero }: Scale, [min, max]: [f32; 2]) -> ToBytes {
    let flip = if dtype == DataType::Int8 { 0x80 } else { 0 };
    let zero = zero + flip as i16;
    let byte = |value: f32| ((value / scale).round_ties_even() as f64 + zero as f64).clamp(0.0, 255.0) as u8;
    ToBytes { zero, low: byte(min), high: byte(max), flip }
}

impl To {
    /// Bytes per element.
    pub fn size(self) -> usize {
        match self {
            To::Bytes(_) => 1,
            To::Floats { .. } | To::Sums => size_of::<f32>(),
        }
    }
}

impl Rescale<'_> {
    /// The same, without copies.
    pub fn borrowed(&self) -> Rescale<'_> {
        let [start, zeros] = [&self.start, &self.zeros].map(|numbers| Cow::Borrowed(&**numbers));
        let [scale, bias] = [&self.scale, &self.bias].map(|numbers| Cow::Borrowed(&**numbers));
        Rescale { start, zeros, scale, bias, to: self.to }
    }

    /// The scales and biases of the columns from `column` on.
    ///
    /// # Safety
    /// Both have at least `VECS` vectors from there on.
    #[inline(always)]
    unsafe fn scales<I: Integers, const VECS: usize>(&self, integers: I, column: usize) -> Scales<I, VECS> {
        let float = integers.float();
        let mut scales = Scales { scale: [float.splat(0.0); VECS], bias: [float.splat(0.0); VECS] };
        for v in 0..VECS {
            let at = column + v * I::LANES;
            // SAFETY: the caller guarantees it.
            unsafe {
                scales.scale[v] = float.load_ptr(self.scale.as_ptr().add(at));
                scales.bias[v] = float.load_ptr(self.bias.as_ptr().add(at));
            }
        }
        scales
    }
}

/// The scales and biases of some columns, kept in registers while many rows are converted.
struct Scales<I: Integers, const VECS: usize> {
    scale: [<I::Float as Simd>::F32; VECS],
    bias: [<I::Float as Simd>::F32; VECS],
}

impl<I: Integers, const VECS: usize> Scales<I, VECS> {
    /// Converts sums and writes the first `count` results to `out`. Callers should pass a `to` that is known at compile
    /// time.
    ///
    /// # Safety
    /// `out` must be valid for writes of `count` elements. `VECS` is 1, 2 or 4. `INTERLEAVED` is only for bytes and 4
    /// vectors; the lanes are then in the order of [`Dot::interleave`](crate::cpu::simd::dot::Dot::interleave).
    #[inline(always)]
    unsafe fn store<const INTERLEAVED: bool>(
        &self,
        integers: I,
        sums: [I::Sums; VECS],
        to: To,
        out: *mut u8,
        count: usize,
    ) {
        let float = integers.float();
        match to {
            To::Bytes(how) => {
                let mut rounded = sums;
                for v in 0..VECS {
                    rounded[v] = integers.round(float.mul_add(integers.to_float(sums[v]), self.scale[v], self.bias[v]));
                }
                // SAFETY: the caller guarantees that the elements can be written.
                unsafe { integers.store_bytes::<VECS, INTERLEAVED>(rounded, how, out, count) };
            }
            To::Sums => {
                for (v, sum) in sums.into_iter().enumerate() {
                    let some = count.saturating_sub(v * I::LANES).min(I::LANES);
                    // SAFETY: a vector of sums has the bits of its lanes, and these lanes are among the writable ones.
                    unsafe {
                        let out = out.add(v * size_of::<I::Sums>());
                        std::ptr::copy_nonoverlapping((&raw const sum).cast(), out, some * size_of::<i32>());
                    }
                }
            }
            To::Floats { min, max } => {
                let (out, min, max): (*mut f32, _, _) = (out.cast(), float.splat(min), float.splat(max));
                for (v, sum) in sums.into_iter().enumerate() {
                    let first = v * I::LANES;
                    // Rounded twice, like the model's multiplication and addition: quantizing the result again then
                    // rounds to the same side.
                    let value = float.add(float.mul(integers.to_float(sum), self.scale[v]), self.bias[v]);
                    let value = float.min(max, float.max(min, value));
                    if first + I::LANES <= count {
                        // SAFETY: these elements are among the writable ones.
                        unsafe { float.store_ptr(value, out.add(first)) };
                    } else if first < count {
                        // SAFETY: as above.
                        let rest = unsafe { std::slice::from_raw_parts_mut(out.add(first), count - first) };
                        float.store_partial(value, rest);
                    }
                }
            }
        }
    }
}
