//! Between how elements are stored and how they are computed with: float16 as float32, all others as they are.

use super::float::{self, Float};
use crate::cpu::simd::{Isa, Simd};
use crate::dtype::{Element, nearest_half};
use half::f16;

/// Elements that kernels widen at a time, into buffers on the stack.
pub const BLOCK: usize = 256;

/// An element type as it is stored.
pub trait Stored: Element {
    /// The type that kernels compute with.
    type Lane: Element;

    /// The most elements that [`widen`](Stored::widen) takes.
    const CHUNK: usize;

    /// The value.
    fn lane(self) -> Self::Lane;

    /// `x` to compute with: `x` itself, or its values in the front of `buffer`.
    ///
    /// # Panics
    /// If `x` is longer than [`CHUNK`](Stored::CHUNK).
    fn widen<'a, S: Simd>(simd: S, x: &'a [Self], buffer: &'a mut [Self::Lane; BLOCK]) -> &'a [Self::Lane];

    /// Copies the values of `x` to `out`, which is as long.
    fn copy(isa: Isa, x: &[Self], out: &mut [Self::Lane]);
}

macro_rules! stored {
    ($($type:ty)*) => {$(
        impl Stored for $type {
            type Lane = $type;
            const CHUNK: usize = usize::MAX;
            #[inline(always)]
            fn lane(self) -> $type {
                self
            }
            #[inline(always)]
            fn widen<'a, S: Simd>(_: S, x: &'a [$type], _: &'a mut [$type; BLOCK]) -> &'a [$type] {
                x
            }
            fn copy(_: Isa, x: &[$type], out: &mut [$type]) {
                out.copy_from_slice(x);
            }
        }
    )*};
}

stored! { f32 i32 u32 i64 u64 i8 u8 }

impl Stored for f16 {
    type Lane = f32;
    const CHUNK: usize = BLOCK;
    #[inline(always)]
    fn lane(self) -> f32 {
        self.to_f32()
    }
    #[inline(always)]
    fn widen<'a, S: Simd>(simd: S, x: &'a [f16], buffer: &'a mut [f32; BLOCK]) -> &'a [f32] {
        let buffer = &mut buffer[..x.len()];
        f16::widen_slice(simd, x, buffer);
        buffer
    }
    fn copy(isa: Isa, x: &[f16], out: &mut [f32]) {
        float::widen(isa, x, out);
    }
}

/// A floating-point type, computed with in float32.
pub trait Real: Stored<Lane = f32> {
    /// Lets `compute` write `out` as float32, in place or in the front of `buffer`, and rounds to nearest.
    ///
    /// # Panics
    /// If `out` is longer than [`CHUNK`](Stored::CHUNK).
    fn narrow<S: Simd>(simd: S, out: &mut [Self], buffer: &mut [f32; BLOCK], compute: impl FnOnce(&mut [f32]));

    /// The nearest value of this type.
    fn from_f64(x: f64) -> Self;
}

impl Real for f32 {
    #[inline(always)]
    fn narrow<S: Simd>(_: S, out: &mut [f32], _: &mut [f32; BLOCK], compute: impl FnOnce(&mut [f32])) {
        compute(out);
    }
    #[inline(always)]
    fn from_f64(x: f64) -> f32 {
        x as f32
    }
}

impl Real for f16 {
    #[inline(always)]
    fn narrow<S: Simd>(simd: S, out: &mut [f16], buffer: &mut [f32; BLOCK], compute: impl FnOnce(&mut [f32])) {
        let buffer = &mut buffer[..out.len()];
        compute(buffer);
        f16::narrow_slice(simd, buffer, out);
    }
    #[inline(always)]
    fn from_f64(x: f64) -> f16 {
        nearest_half(x)
    }
}

#[cfg(test)]
mod tests {
    use super::float::{narrow, widen};
    use super::*;

    #[test]
    fn every_half_float_survives_both_ways() {
        let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).filter(|x| !x.is_nan()).collect();
        for isa in Isa::available() {
            for len in [0, 1, 7, 15, 16, 17, halves.len()] {
                let (mut floats, mut back) = (vec![f32::NAN; len], vec![f16::NAN; len]);
                widen(isa, &halves[..len], &mut floats);
                narrow(isa, &floats, &mut back);
                assert!(halves[..len].iter().zip(&floats).all(|(half, &float)| half.to_f32() == float));
                assert_eq!(back, halves[..len]);
            }
        }
    }
}
