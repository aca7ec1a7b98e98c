//! The floating-point types that kernels read and write. All arithmetic is in `f32`.

use crate::cpu::simd::{Simd, widen};
use crate::dtype::Element;
use half::f16;

/// `f32` or [`f16`].
pub trait Float: Element {
    /// The value as `f32`, exact.
    fn to_f32(self) -> f32;
    /// The nearest value of this type.
    fn from_f32(x: f32) -> Self;
    /// The first `LANES` elements of `from`; panics when there are fewer.
    fn load<S: Simd>(simd: S, from: &[Self]) -> S::F32;
    /// Writes all lanes to the front of `to`; panics when `to` is shorter.
    fn store<S: Simd>(simd: S, v: S::F32, to: &mut [Self]);
    /// The slice itself when the type is `f32`.
    fn as_f32(from: &[Self]) -> Option<&[f32]>;
    /// The slice itself when the type is `f32`.
    fn as_f32_mut(from: &mut [Self]) -> Option<&mut [f32]>;

    /// `to[i] = from[i]`, widened. Both have the same length.
    #[inline(always)]
    fn widen_slice<S: Simd>(simd: S, from: &[Self], to: &mut [f32]) {
        assert_eq!(from.len(), to.len());
        let body = from.len() / S::LANES * S::LANES;
        for (from, to) in from[..body].chunks_exact(S::LANES).zip(to[..body].chunks_exact_mut(S::LANES)) {
            simd.store(Self::load(simd, from), to);
        }
        for (from, to) in from[body..].iter().zip(&mut to[body..]) {
            *to = from.to_f32();
        }
    }

    /// `to[i] = from[i]`, rounded to the nearest. Both have the same length.
    #[inline(always)]
    fn narrow_slice<S: Simd>(simd: S, from: &[f32], to: &mut [Self]) {
        assert_eq!(from.len(), to.len());
        let body = from.len() / S::LANES * S::LANES;
        for (from, to) in from[..body].chunks_exact(S::LANES).zip(to[..body].chunks_exact_mut(S::LANES)) {
            Self::store(simd, simd.load(from), to);
        }
        for (from, to) in from[body..].iter().zip(&mut to[body..]) {
            *to = Self::from_f32(*from);
        }
    }
}

impl Float for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn from_f32(x: f32) -> f32 {
        x
    }
    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[f32]) -> S::F32 {
        simd.load(from)
    }
    #[inline(always)]
    fn store<S: Simd>(simd: S, v: S::F32, to: &mut [f32]) {
        simd.store(v, to);
    }
    #[inline(always)]
    fn as_f32(from: &[f32]) -> Option<&[f32]> {
        Some(from)
    }
    #[inline(always)]
    fn as_f32_mut(from: &mut [f32]) -> Option<&mut [f32]> {
        Some(from)
    }
}

impl Float for f16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        widen(self)
    }
    #[inline(always)]
    fn from_f32(x: f32) -> f16 {
        f16::from_f32(x)
    }
    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[f16]) -> S::F32 {
        simd.load_f16(from)
    }
    #[inline(always)]
    fn store<S: Simd>(simd: S, v: S::F32, to: &mut [f16]) {
        simd.store_f16(v, to);
    }
    #[inline(always)]
    fn as_f32(_: &[f16]) -> Option<&[f32]> {
        None
    }
    #[inline(always)]
    fn as_f32_mut(_: &mut [f16]) -> Option<&mut [f32]> {
        None
    }
}
