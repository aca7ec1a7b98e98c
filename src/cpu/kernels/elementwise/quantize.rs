//! Linear quantization.

use super::map;
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::dtype::Element;

/// A quantized integer type.
pub trait Quantized: Element {
    /// `(self - zero) * scale`, rounded to float32.
    fn dequantize(self, scale: f32, zero: Self) -> f32;
    /// Rounds `quotient` to an integer, ties to even, adds `zero`, and clamps to the range of the type; NaN returns 0.
    fn shifted(quotient: f32, zero: Self) -> Self;
}

// The formulas are pasted into the methods: closures are not inlined in every build, and then do not vectorize.
macro_rules! quantized {
    ($($type:ty:
        |$x:ident, $scale:ident, $zero:ident| $dequantize:expr,
        |$quotient:ident, $shift:ident| $shifted:expr;)*) => {$(
        impl Quantized for $type {
            #[inline(always)]
            fn dequantize(self, $scale: f32, $zero: $type) -> f32 {
                let $x = self;
                $dequantize
            }
            #[inline(always)]
            fn shifted($quotient: f32, $shift: $type) -> $type {
                $shifted
            }
        }
    )*};
}

quantized! {
    i8: |x, scale, zero| (x as i32 - zero as i32) as f32 * scale,
        |x, zero| low_byte((nearest(x) + zero as f32).clamp(-128.0, 127.0)) as i8;
    u8: |x, scale, zero| (x as i32 - zero as i32) as f32 * scale,
        |x, zero| low_byte((nearest(x) + zero as f32).clamp(0.0, 255.0));
    // The difference needs 33 bits. `as` saturates and turns NaN into 0.
    i32: |x, scale, zero| ((x as f64 - zero as f64) * scale as f64) as f32,
        |x, zero| (x.round_ties_even() as f64 + zero as f64) as i32;
    u32: |x, scale, zero| ((x as f64 - zero as f64) * scale as f64) as f32,
        |x, zero| (x.round_ties_even() as f64 + zero as f64) as u32;
}

/// Clamps `x` to the range that an 8-bit zero point can shift into 8 bits, and rounds it to an integer, ties to even:
/// numbers of the magnitude of [`WHOLE`] have no fractional digits.
#[inline(always)]
fn nearest(x: f32) -> f32 {
    (x.clamp(-512.0, 512.0) + WHOLE) - WHOLE
}

/// Adding a small number to this one rounds it to an integer: the last bit counts ones.
const WHOLE: f32 = 12_582_912.0;

/// The lowest bits of a small whole number; NaN returns 0. A conversion with `as` would not vectorize.
#[inline(always)]
fn low_byte(x: f32) -> u8 {
    let x = if x.is_nan() { 0.0 } else { x };
    (x + WHOLE).to_bits() as u8
}

/// `out[i] = (x[i] - zero[i]) * scale[i]`.
pub fn dequantize<T: Quantized>(isa: Isa, x: &[T], scale: &[f32], zero: &[T], out: &mut [f32]) {
    isa.run(Dequantize { x, scale, zero, out });
}

/// `out[i] = clamp(roundEven(x[i] / scale[i]) + zero[i])`. The quotient is float32, as in the draft's decomposition of
/// the operator.
pub fn quantize<T: Quantized>(isa: Isa, x: &[f32], scale: &[f32], zero: &[T], out: &mut [T]) {
    isa.run(Quantize { x, scale, zero, out });
}

/// [`dequantize`] with one scale and zero point for all elements.
pub fn dequantize_uniform<T: Quantized>(isa: Isa, x: &[T], scale: f32, zero: T, out: &mut [f32]) {
    isa.run(DequantizeUniform { x, scale, zero, out });
}

/// [`quantize`] with one scale and zero point for all elements.
pub fn quantize_uniform<T: Quantized>(isa: Isa, x: &[f32], scale: f32, zero: T, out: &mut [T]) {
    isa.run(QuantizeUniform { x, scale, zero, out });
}

struct Dequantize<'a, T> {
    x: &'a [T],
    scale: &'a [f32],
    zero: &'a [T],
    out: &'a mut [f32],
}

impl<T: Quantized> Kernel for Dequantize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let operands = self.x.iter().zip(self.scale).zip(self.zero);
        for (out, ((&x, &scale), &zero)) in self.out.iter_mut().zip(operands) {
            *out = x.dequantize(scale, zero);
        }
    }
}

struct Quantize<'a, T> {
    x: &'a [f32],
    scale: &'a [f32],
    zero: &'a [T],
    out: &'a mut [T],
}

impl<T: Quantized> Kernel for Quantize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let operands = self.x.iter().zip(self.scale).zip(self.zero);
        for (out, ((&x, &scale), &zero)) in self.out.iter_mut().zip(operands) {
            *out = T::shifted(x / scale, zero);
        }
    }
}

struct DequantizeUniform<'a, T> {
    x: &'a [T],
    scale: f32,
    zero: T,
    out: &'a mut [f32],
}

impl<T: Quantized> Kernel for DequantizeUniform<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let DequantizeUniform { x, scale, zero, out } = self;
        map(x, out, |x| x.dequantize(scale, zero));
    }
}

struct QuantizeUniform<'a, T> {
    x: &'a [f32],
    scale: f32,
    zero: T,
    out: &'a mut [T],
}

impl<T: Quantized> Kernel for QuantizeUniform<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let QuantizeUniform { x, scale, zero, out } = self;
        map(x, out, |x| T::shifted(x / scale, zero));
    }
}
