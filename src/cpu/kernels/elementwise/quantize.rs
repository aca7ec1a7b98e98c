//! Linear quantisation.

use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::dtype::Element;

/// An integer type of quantised values.
pub trait Quantized: Element {
    /// `(self - zero) * scale`, rounded to float32.
    fn dequantize(self, scale: f32, zero: Self) -> f32;
    /// `steps + zero`, clamped to the range of the type; NaN gives 0.
    fn shifted(steps: f64, zero: Self) -> Self;
}

macro_rules! quantized {
    ($($type:ty: $dequantize:expr, $saturate:expr;)*) => {$(
        impl Quantized for $type {
            #[inline(always)]
            fn dequantize(self, scale: f32, zero: $type) -> f32 {
                let dequantize: fn($type, f32, $type) -> f32 = $dequantize;
                dequantize(self, scale, zero)
            }
            #[inline(always)]
            fn shifted(steps: f64, zero: $type) -> $type {
                let saturate: fn(f64) -> $type = $saturate;
                saturate(steps + zero as f64)
            }
        }
    )*};
}

quantized! {
    // `as` saturates and turns NaN into 0. It is vectorised for the wider types.
    i8: |x, scale, zero| (x as i32 - zero as i32) as f32 * scale, |x| (x as i32).clamp(-128, 127) as i8;
    u8: |x, scale, zero| (x as i32 - zero as i32) as f32 * scale, |x| (x as i32).clamp(0, 255) as u8;
    // The difference needs 33 bits.
    i32: |x, scale, zero| ((x as f64 - zero as f64) * scale as f64) as f32, |x| x as i32;
    u32: |x, scale, zero| ((x as f64 - zero as f64) * scale as f64) as f32, |x| x as u32;
}

/// `out[i] = (x[i] - zero[i]) * scale[i]`.
pub fn dequantize<T: Quantized>(isa: Isa, x: &[T], scale: &[f32], zero: &[T], out: &mut [f32]) {
    isa.run(Dequantize { x, scale, zero, out });
}

/// `out[i] = clamp(roundEven(x[i] / scale[i]) + zero[i])`. The quotient is one of float32, as it is in the operators that
/// the draft composes this one of.
pub fn quantize<T: Quantized>(isa: Isa, x: &[f32], scale: &[f32], zero: &[T], out: &mut [T]) {
    isa.run(Quantize { x, scale, zero, out });
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
            *out = T::shifted((x / scale).round_ties_even() as f64, zero);
        }
    }
}
