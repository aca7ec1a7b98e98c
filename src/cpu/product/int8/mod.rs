//! Matrix products and convolutions of 8-bit integers with exact sums, and what makes floats or bytes of these.
//!
//! Images are channels last. Left factors are bytes of either sign, right factors are constants that are packed when the
//! graph is built.

pub mod depthwise;
pub mod dots;
pub mod patches;

use crate::cpu::simd::Simd;
use crate::cpu::simd::dot::{Dot, ToBytes};
use std::borrow::Cow;

/// What is made of a sum `s` in column `c`: `s * scale[c] + bias[c]`, rounded to an integer for a byte, and clamped.
#[derive(Clone, Debug)]
pub struct Rescale<'a> {
    /// The sums start here: what zero points take off the sums of bare products.
    pub start: Cow<'a, [i32]>,
    /// What the sum of a row of left factors is multiplied with before it is taken off; empty if it is 0 everywhere.
    pub zeros: Cow<'a, [i32]>,
    /// The scales of the sums; for bytes divided by the scale of the output.
    pub scale: Cow<'a, [f32]>,
    /// What is added then; for bytes divided by the scale of the output.
    pub bias: Cow<'a, [f32]>,
    /// What becomes of the result.
    pub to: To,
}

/// The elements of an output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum To {
    /// Bytes.
    Bytes(ToBytes),
    /// Floats between both. NaN, of a scale that is, stays.
    Floats {
        /// The least one.
        min: f32,
        /// The greatest one.
        max: f32,
    },
}

impl To {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            To::Bytes(_) => 1,
            To::Floats { .. } => size_of::<f32>(),
        }
    }
}

impl Rescale<'_> {
    /// The scales and biases of the columns from `column` on.
    ///
    /// # Safety
    /// Both have `VECS` vectors from there on.
    #[inline(always)]
    unsafe fn scales<D: Dot, const VECS: usize>(&self, dot: D, column: usize) -> Scales<D, VECS> {
        let float = dot.float();
        let mut scales = Scales { scale: [float.splat(0.0); VECS], bias: [float.splat(0.0); VECS] };
        for v in 0..VECS {
            let at = column + v * D::LANES;
            // SAFETY: as the caller guarantees.
            unsafe {
                scales.scale[v] = float.load_ptr(self.scale.as_ptr().add(at));
                scales.bias[v] = float.load_ptr(self.bias.as_ptr().add(at));
            }
        }
        scales
    }
}

/// What the sums of some columns are multiplied with, and what is added then, in registers for many rows.
struct Scales<D: Dot, const VECS: usize> {
    scale: [<D::Float as Simd>::F32; VECS],
    bias: [<D::Float as Simd>::F32; VECS],
}

impl<D: Dot, const VECS: usize> Scales<D, VECS> {
    /// Finishes sums, and writes the first `count` of them to `out`. What they become is best known when this is compiled.
    ///
    /// # Safety
    /// `out` must be valid for writes of `count` elements. `VECS` is 1, 2 or 4. If `INTERLEAVED`, which bytes alone can be, it
    /// is 4, and the lanes are in the order of [`Dot::interleave`].
    #[inline(always)]
    unsafe fn store<const INTERLEAVED: bool>(&self, dot: D, sums: [D::Sums; VECS], to: To, out: *mut u8, count: usize) {
        let float = dot.float();
        match to {
            To::Bytes(how) => {
                let mut rounded = sums;
                for v in 0..VECS {
                    rounded[v] = dot.round(float.mul_add(dot.to_float(sums[v]), self.scale[v], self.bias[v]));
                }
                // SAFETY: the caller guarantees that the elements can be written.
                unsafe { dot.store_bytes::<VECS, INTERLEAVED>(rounded, how, out, count) };
            }
            To::Floats { min, max } => {
                let (out, min, max): (*mut f32, _, _) = (out.cast(), float.splat(min), float.splat(max));
                for (v, sum) in sums.into_iter().enumerate() {
                    let first = v * D::LANES;
                    // Rounded twice, as the multiplication and the addition of the model are: what is quantized again behind
                    // them falls on the same side then.
                    let value = float.add(float.mul(dot.to_float(sum), self.scale[v]), self.bias[v]);
                    let value = float.min(max, float.max(min, value));
                    if first + D::LANES <= count {
                        // SAFETY: these elements are among those that can be written.
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
