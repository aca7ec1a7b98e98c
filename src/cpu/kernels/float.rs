//! The floating-point types that kernels read and write. All arithmetic is in `f32`.

use super::stored::{Stored, WIDENED};
use crate::cpu::simd::{Isa, Kernel, MAX_LANES, Simd};
use crate::dtype::nearest_f16;
use half::f16;

/// `f32` or [`f16`].
pub trait Float: Stored<Lane = f32> {
    /// Whether the type is `f32` and its outputs can hold sums.
    const IS_F32: bool;
    /// The value as `f32`, exact.
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.lane()
    }
    /// Rounds to the nearest value of this type.
    fn from_f32(x: f32) -> Self;
    /// Rounds to the nearest value of this type.
    fn from_f64(x: f64) -> Self;
    /// Loads the first `LANES` elements of `from`; panics if there are fewer.
    fn load<S: Simd>(simd: S, from: &[Self]) -> S::F32;
    /// Loads `count` elements, at most `LANES`; the other lanes are 0.
    ///
    /// # Safety
    /// `from` must be valid for reads of `count` elements.
    unsafe fn load_first<S: Simd>(simd: S, from: *const Self, count: usize) -> S::F32;
    /// `to[i] = from[i]`, rounded to nearest. Both slices have the same length.
    fn narrow_slice<S: Simd>(simd: S, from: &[f32], to: &mut [Self]);
    /// Lets `compute` write float32 results, in `out` itself or at the start of `buffer`, and rounds them to nearest.
    ///
    /// # Panics
    /// If `out` is longer than [`CHUNK`](Stored::CHUNK).
    fn narrow<S: Simd>(simd: S, out: &mut [Self], buffer: &mut [f32; WIDENED], compute: impl FnOnce(&mut [f32]));
    /// Wraps the slice with its type.
    fn floats(from: &[Self]) -> Floats<'_>;
    /// Unwraps elements of this type.
    ///
    /// # Panics
    /// If they have the other type.
    fn typed(floats: Floats<'_>) -> &[Self];
    /// Wraps the slice with its type.
    fn floats_mut(from: &mut [Self]) -> FloatsMut<'_>;
    /// Returns the slice itself if the type is `f32`.
    #[inline(always)]
    fn as_f32(from: &[Self]) -> Option<&[f32]> {
        Self::floats(from).as_f32()
    }
    /// Returns the slice itself if the type is `f32`.
    #[inline(always)]
    fn as_f32_mut(from: &mut [Self]) -> Option<&mut [f32]> {
        if let FloatsMut::F32(floats) = Self::floats_mut(from) { Some(floats) } else { None }
    }
}

impl Float for f32 {
    const IS_F32: bool = true;
    #[inline(always)]
    fn from_f32(x: f32) -> f32 {
        x
    }
    #[inline(always)]
    fn from_f64(x: f64) -> f32 {
        x as f32
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
    fn narrow_slice<S: Simd>(_: S, from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }
    #[inline(always)]
    fn narrow<S: Simd>(_: S, out: &mut [f32], _: &mut [f32; WIDENED], compute: impl FnOnce(&mut [f32])) {
        compute(out);
    }
    #[inline(always)]
    fn floats(from: &[f32]) -> Floats<'_> {
        Floats::F32(from)
    }
    fn typed(floats: Floats<'_>) -> &[f32] {
        floats.as_f32().expect("float32, like the output")
    }
    #[inline(always)]
    fn floats_mut(from: &mut [f32]) -> FloatsMut<'_> {
        FloatsMut::F32(from)
    }
}

impl Float for f16 {
    const IS_F32: bool = false;
    #[inline(always)]
    fn from_f32(x: f32) -> f16 {
        f16::from_f32(x)
    }
    #[inline(always)]
    fn from_f64(x: f64) -> f16 {
        nearest_f16(x)
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
    fn narrow_slice<S: Simd>(simd: S, from: &[f32], to: &mut [f16]) {
        assert_eq!(from.len(), to.len());
        let body = from.len() / S::LANES * S::LANES;
        for (from, to) in from[..body].chunks_exact(S::LANES).zip(to[..body].chunks_exact_mut(S::LANES)) {
            simd.store_f16(simd.load(from), to);
        }
        for (from, to) in from[body..].iter().zip(&mut to[body..]) {
            *to = f16::from_f32(*from);
        }
    }
    #[inline(always)]
    fn narrow<S: Simd>(simd: S, out: &mut [f16], buffer: &mut [f32; WIDENED], compute: impl FnOnce(&mut [f32])) {
        let buffer = &mut buffer[..out.len()];
        compute(buffer);
        f16::narrow_slice(simd, buffer, out);
    }
    #[inline(always)]
    fn floats(from: &[f16]) -> Floats<'_> {
        Floats::F16(from)
    }
    fn typed(floats: Floats<'_>) -> &[f16] {
        if let Floats::F16(floats) = floats { floats } else { panic!("float32 where float16 is expected") }
    }
    #[inline(always)]
    fn floats_mut(from: &mut [f16]) -> FloatsMut<'_> {
        FloatsMut::F16(from)
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

/// Writable floating-point elements.
pub enum FloatsMut<'a> {
    /// float32
    F32(&'a mut [f32]),
    /// float16
    F16(&'a mut [f16]),
}

/// Evaluates `$body` with `$slice` bound to the elements of a [`Floats`] or [`FloatsMut`] of either type.
#[macro_export]
macro_rules! with_floats {
    ($Floats:ident, $floats:expr, $slice:pat => $body:expr) => {
        match $floats {
            $Floats::F32($slice) => $body,
            $Floats::F16($slice) => $body,
        }
    };
}

impl FloatsMut<'_> {
    /// Borrows the same elements for a shorter lifetime.
    pub fn reborrow(&mut self) -> FloatsMut<'_> {
        match self {
            FloatsMut::F32(floats) => FloatsMut::F32(floats),
            FloatsMut::F16(floats) => FloatsMut::F16(floats),
        }
    }
}

impl<'a> Floats<'a> {
    /// Number of elements.
    pub fn len(self) -> usize {
        with_floats!(Floats, self, floats => floats.len())
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
        with_floats!(Floats, self, floats => floats[index].to_f32())
    }

    /// Widens the first elements into the whole of `to`.
    ///
    /// # Panics
    /// If there are fewer elements than that.
    pub fn widen(self, isa: Isa, to: &mut [f32]) {
        let len = to.len();
        with_floats!(Floats, self, floats => Stored::copy(isa, &floats[..len], to));
    }
}

struct Narrow<'a, T> {
    from: &'a [f32],
    to: &'a mut [T],
}

impl<T: Float> Kernel for Narrow<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        T::narrow_slice(simd, self.from, self.to);
    }
}

/// `to[i] = from[i]`, rounded to nearest. Both slices have the same length.
pub fn narrow<T: Float>(isa: Isa, from: &[f32], to: &mut [T]) {
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
                f16::copy(isa, &all[..len], &mut wide);
                narrow(isa, &wide, &mut back);
                assert!(wide.iter().zip(&all).all(|(wide, x)| wide.to_bits() == x.to_f32().to_bits()));
                assert!(back.iter().zip(&all).all(|(back, x)| back.to_bits() == x.to_bits()), "{isa:?}, length {len}");
            }
        }
    }
}
