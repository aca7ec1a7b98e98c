//! The floating-point types that kernels read: float32, and float16 where large operands stay as they are. All arithmetic
//! is in `f32`.

use super::lanes::copy;
use crate::cpu::simd::{self, Isa, Kernel, MAX_LANES, Simd};
use crate::dtype::Element;
use half::f16;

/// `f32` or [`f16`].
pub trait Float: Element {
    /// The value as `f32`, exact.
    fn to_f32(self) -> f32;
    /// Loads the first `LANES` elements of `from`; panics if there are fewer.
    fn load<S: Simd>(simd: S, from: &[Self]) -> S::F32;
    /// Loads `count` elements, at most `LANES`; the other lanes are 0.
    ///
    /// # Safety
    /// `from` must be valid for reads of `count` elements.
    unsafe fn load_first<S: Simd>(simd: S, from: *const Self, count: usize) -> S::F32;
    /// `to[i] = from[i]`. Both slices have the same length.
    fn widen<S: Simd>(simd: S, from: &[Self], to: &mut [f32]);
    /// Wraps the slice with its type.
    fn floats(from: &[Self]) -> Floats<'_>;
    /// Unwraps elements of this type.
    ///
    /// # Panics
    /// If they have the other type.
    fn typed(floats: Floats<'_>) -> &[Self];
}

impl Float for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[f32]) -> S::F32 {
        simd.load(from)
    }
    #[inline(always)]
    unsafe fn load_first<S: Simd>(simd: S, from: *const f32, count: usize) -> S::F32 {
        // SAFETY: by the contract.
        unsafe { simd.load_first(from, count) }
    }
    #[inline(always)]
    fn widen<S: Simd>(simd: S, from: &[f32], to: &mut [f32]) {
        copy(simd, from, to);
    }
    #[inline(always)]
    fn floats(from: &[f32]) -> Floats<'_> {
        Floats::F32(from)
    }
    fn typed(floats: Floats<'_>) -> &[f32] {
        floats.as_f32().expect("float32")
    }
}

impl Float for f16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        simd::widen(self)
    }
    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[f16]) -> S::F32 {
        simd.load_f16(from)
    }
    #[inline(always)]
    unsafe fn load_first<S: Simd>(simd: S, from: *const f16, count: usize) -> S::F32 {
        // SAFETY: by the contract.
        let from = unsafe { std::slice::from_raw_parts(from, count) };
        if count == S::LANES {
            return simd.load_f16(from);
        }
        let mut lanes = [f16::ZERO; MAX_LANES];
        lanes[..count].copy_from_slice(from);
        simd.load_f16(&lanes)
    }
    #[inline(always)]
    fn widen<S: Simd>(simd: S, from: &[f16], to: &mut [f32]) {
        assert_eq!(from.len(), to.len());
        let body = from.len() / S::LANES * S::LANES;
        for (from, to) in from[..body].chunks_exact(S::LANES).zip(to[..body].chunks_exact_mut(S::LANES)) {
            simd.store(simd.load_f16(from), to);
        }
        for (from, to) in from[body..].iter().zip(&mut to[body..]) {
            *to = simd::widen(*from);
        }
    }
    #[inline(always)]
    fn floats(from: &[f16]) -> Floats<'_> {
        Floats::F16(from)
    }
    fn typed(floats: Floats<'_>) -> &[f16] {
        if let Floats::F16(floats) = floats { floats } else { panic!("float32 where float16 is expected") }
    }
}

/// Stored floating-point elements.
#[derive(Clone, Copy, Debug)]
pub enum Floats<'a> {
    /// float32
    F32(&'a [f32]),
    /// float16
    F16(&'a [f16]),
}

/// Evaluates `$body` with `$slice` bound to the elements of [`Floats`] of either type.
#[macro_export]
macro_rules! with_floats {
    ($floats:expr, $slice:pat => $body:expr) => {
        match $floats {
            $crate::cpu::kernels::float::Floats::F32($slice) => $body,
            $crate::cpu::kernels::float::Floats::F16($slice) => $body,
        }
    };
}

impl<'a> Floats<'a> {
    /// Number of elements.
    pub fn len(self) -> usize {
        with_floats!(self, floats => floats.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The elements from `start` on.
    ///
    /// # Panics
    /// If there are fewer than `start`.
    #[inline(always)]
    pub fn after(self, start: usize) -> Floats<'a> {
        match self {
            Floats::F32(floats) => Floats::F32(&floats[start..]),
            Floats::F16(floats) => Floats::F16(&floats[start..]),
        }
    }

    /// The elements, if they are `f32`.
    #[inline(always)]
    pub fn as_f32(self) -> Option<&'a [f32]> {
        if let Floats::F32(floats) = self { Some(floats) } else { None }
    }

    /// The element at `index`.
    #[inline(always)]
    pub fn at(self, index: usize) -> f32 {
        with_floats!(self, floats => floats[index].to_f32())
    }

    /// Widens the first elements into the whole of `to`.
    ///
    /// # Panics
    /// If there are fewer elements than that.
    pub fn widen(self, isa: Isa, to: &mut [f32]) {
        let len = to.len();
        match self {
            Floats::F32(from) => to.copy_from_slice(&from[..len]),
            Floats::F16(from) => widen(isa, &from[..len], to),
        }
    }
}

struct Widen<'a> {
    from: &'a [f16],
    to: &'a mut [f32],
}

impl Kernel for Widen<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        f16::widen(simd, self.from, self.to);
    }
}

/// `to[i] = from[i]`. Both slices have the same length.
pub fn widen(isa: Isa, from: &[f16], to: &mut [f32]) {
    isa.run(Widen { from, to });
}

struct Narrow<'a> {
    from: &'a [f32],
    to: &'a mut [f16],
}

impl Kernel for Narrow<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Narrow { from, to } = self;
        assert_eq!(from.len(), to.len());
        let body = from.len() / S::LANES * S::LANES;
        for (from, to) in from[..body].chunks_exact(S::LANES).zip(to[..body].chunks_exact_mut(S::LANES)) {
            simd.store_f16(simd.load(from), to);
        }
        for (from, to) in from[body..].iter().zip(&mut to[body..]) {
            *to = f16::from_f32(*from);
        }
    }
}

/// `to[i] = from[i]`, rounded to nearest. Both slices have the same length.
pub fn narrow(isa: Isa, from: &[f32], to: &mut [f16]) {
    isa.run(Narrow { from, to });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_floats_survive_widening_at_every_length() {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).filter(|x| !x.is_nan()).collect();
        for isa in Isa::available() {
            for len in (0..40).chain([all.len()]) {
                let (mut wide, mut back) = (vec![f32::NAN; len], vec![f16::NAN; len]);
                widen(isa, &all[..len], &mut wide);
                narrow(isa, &wide, &mut back);
                assert!(wide.iter().zip(&all).all(|(wide, x)| wide.to_bits() == x.to_f32().to_bits()));
                assert!(back.iter().zip(&all).all(|(back, x)| back.to_bits() == x.to_bits()), "{isa:?}, length {len}");
            }
        }
    }
}
