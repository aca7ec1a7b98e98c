//! What pools reduce the elements of a window with.
//!
//! Averages are sums in float32: of `n` elements in each direction, in runs of at most 16. The error is at most
//! `16 + n / 16` roundings of the sum of magnitudes in each direction. Squares are summed in float64, where those of all
//! float32 are normal numbers.

use super::float::Float;
use crate::cpu::simd::{MAX_LANES, Portable, Simd};
use half::f16;

/// Results computed at a time.
pub const PUT: usize = 16;

/// A reduction of elements of type `T` to one.
pub trait PoolFold<T>: Copy + Sync {
    /// The accumulator.
    type Sum: Copy + Send;
    /// The accumulator of no elements.
    const EMPTY: Self::Sum;
    /// The accumulators of elements.
    fn lift<S: Simd>(simd: S, from: &[T], to: &mut [Self::Sum]);
    /// The accumulators of a block.
    #[inline(always)]
    fn lift_block<S: Simd>(simd: S, from: &[T; PUT]) -> [Self::Sum; PUT] {
        let mut to = [Self::EMPTY; PUT];
        Self::lift(simd, from, &mut to);
        to
    }
    /// The accumulator of an element.
    #[inline(always)]
    fn lift_one(from: T) -> Self::Sum {
        let mut to = [Self::EMPTY];
        Self::lift(Portable, &[from], &mut to);
        to[0]
    }
    /// Combines two accumulators.
    fn add(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    /// The same, but may lose what [is special](Self::has_special).
    #[inline(always)]
    fn add_plain(a: Self::Sum, b: Self::Sum) -> Self::Sum {
        Self::add(a, b)
    }
    /// Whether [`add_plain`](Self::add_plain) may lose one of these elements.
    #[inline(always)]
    fn has_special(_: &[T]) -> bool {
        false
    }
    /// The results for windows that cover these numbers of columns and rows, at least 1.
    fn finish<S: Simd>(simd: S, sums: &[Self::Sum; PUT], columns: &[f32; PUT], rows: f32) -> [T; PUT];
}

/// A reduction of float32 in vectors of the CPU, the same as in blocks.
pub trait VectorFold: PoolFold<f32, Sum = f32> {
    /// Combines accumulators, like [`add_plain`](PoolFold::add_plain).
    fn add_vectors<S: Simd>(simd: S, a: S::F32, b: S::F32) -> S::F32;
    /// The results for windows that cover these numbers of columns and rows, like [`finish`](PoolFold::finish).
    fn finish_vector<S: Simd>(simd: S, sums: S::F32, columns: S::F32, rows: S::F32) -> S::F32;
}

impl VectorFold for Average {
    #[inline(always)]
    fn add_vectors<S: Simd>(simd: S, a: S::F32, b: S::F32) -> S::F32 {
        simd.add(a, b)
    }
    #[inline(always)]
    fn finish_vector<S: Simd>(simd: S, sums: S::F32, columns: S::F32, rows: S::F32) -> S::F32 {
        simd.div(sums, simd.mul(columns, rows))
    }
}

impl VectorFold for Largest {
    #[inline(always)]
    fn add_vectors<S: Simd>(simd: S, a: S::F32, b: S::F32) -> S::F32 {
        simd.max(a, b)
    }
    #[inline(always)]
    fn finish_vector<S: Simd>(_: S, sums: S::F32, _: S::F32, _: S::F32) -> S::F32 {
        sums
    }
}

/// A stored floating-point type.
pub trait Stored: Float {
    /// Rounds to this type.
    fn round<S: Simd>(simd: S, x: &[f32; PUT]) -> [Self; PUT];
}

impl Stored for f32 {
    #[inline(always)]
    fn round<S: Simd>(_: S, x: &[f32; PUT]) -> [f32; PUT] {
        *x
    }
}

impl Stored for f16 {
    #[inline(always)]
    fn round<S: Simd>(simd: S, x: &[f32; PUT]) -> [f16; PUT] {
        let mut rounded = [f16::ZERO; PUT];
        const { assert!(PUT.is_multiple_of(MAX_LANES)) };
        for (x, rounded) in x.chunks_exact(S::LANES).zip(rounded.chunks_exact_mut(S::LANES)) {
            simd.store_f16(simd.load(x), rounded);
        }
        rounded
    }
}

/// The mean; 0 for no elements.
#[derive(Clone, Copy)]
pub struct Average;

impl<T: Stored> PoolFold<T> for Average {
    type Sum = f32;
    // -0 and not 0: the mean of negative zeros is a negative zero.
    const EMPTY: f32 = -0.0;
    #[inline(always)]
    fn lift<S: Simd>(simd: S, from: &[T], to: &mut [f32]) {
        T::widen(simd, from, to);
    }
    #[inline(always)]
    fn add(a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn finish<S: Simd>(simd: S, sums: &[f32; PUT], columns: &[f32; PUT], rows: f32) -> [T; PUT] {
        let mut means = [0.0; PUT];
        for i in 0..PUT {
            means[i] = sums[i] / (columns[i] * rows);
        }
        T::round(simd, &means)
    }
}

/// The square root of the sum of squares; 0 for no elements.
#[derive(Clone, Copy)]
pub struct Norm;

impl<T: Stored> PoolFold<T> for Norm {
    type Sum = f64;
    const EMPTY: f64 = 0.0;
    #[inline(always)]
    fn lift<S: Simd>(_: S, from: &[T], to: &mut [f64]) {
        for (to, from) in to.iter_mut().zip(from) {
            let x = from.to_f32() as f64;
            *to = x * x;
        }
    }
    #[inline(always)]
    fn add(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn finish<S: Simd>(simd: S, sums: &[f64; PUT], _: &[f32; PUT], _: f32) -> [T; PUT] {
        let mut roots = [0.0; PUT];
        for i in 0..PUT {
            roots[i] = sums[i].sqrt() as f32;
        }
        T::round(simd, &roots)
    }
}

/// The largest element, or NaN if there is one; for no elements, the smallest value of the type.
#[derive(Clone, Copy)]
pub struct Largest;

impl PoolFold<f32> for Largest {
    type Sum = f32;
    const EMPTY: f32 = f32::NEG_INFINITY;
    #[inline(always)]
    fn lift<S: Simd>(simd: S, from: &[f32], to: &mut [f32]) {
        f32::widen(simd, from, to);
    }
    #[inline(always)]
    fn add(a: f32, b: f32) -> f32 {
        if (a > b) | a.is_nan() { a } else { b }
    }
    #[inline(always)]
    fn add_plain(a: f32, b: f32) -> f32 {
        if a > b { a } else { b }
    }
    #[inline(always)]
    fn has_special(x: &[f32]) -> bool {
        // A loop without branches, so that it is one of vectors.
        let mut found = 0;
        for x in x {
            found |= x.is_nan() as u32;
        }
        found != 0
    }
    #[inline(always)]
    fn finish<S: Simd>(_: S, sums: &[f32; PUT], _: &[f32; PUT], _: f32) -> [f32; PUT] {
        *sums
    }
}

/// Compares numbers as integers, NaN above all: their bits, with those of the magnitude flipped if negative.
impl PoolFold<f16> for Largest {
    type Sum = i16;
    const EMPTY: i16 = ordered(f16::NEG_INFINITY.to_bits() as i16);
    #[inline(always)]
    fn lift<S: Simd>(_: S, from: &[f16], to: &mut [i16]) {
        for (to, from) in to.iter_mut().zip(from) {
            let bits = from.to_bits() as i16;
            let is_nan = bits & i16::MAX > f16::INFINITY.to_bits() as i16;
            *to = if is_nan { i16::MAX } else { ordered(bits) };
        }
    }
    #[inline(always)]
    fn add(a: i16, b: i16) -> i16 {
        a.max(b)
    }
    #[inline(always)]
    fn finish<S: Simd>(_: S, sums: &[i16; PUT], _: &[f32; PUT], _: f32) -> [f16; PUT] {
        sums.map(|sum| f16::from_bits(ordered(sum) as u16))
    }
}

/// From bits of a number to an integer of the same order, and back.
#[inline(always)]
const fn ordered(bits: i16) -> i16 {
    bits ^ ((bits >> 15) & i16::MAX)
}

macro_rules! largest {
    ($($type:ty)*) => {$(
        impl PoolFold<$type> for Largest {
            type Sum = $type;
            const EMPTY: $type = <$type>::MIN;
            #[inline(always)]
            fn lift<S: Simd>(_: S, from: &[$type], to: &mut [$type]) {
                to.copy_from_slice(from);
            }
            #[inline(always)]
            fn add(a: $type, b: $type) -> $type {
                if a > b { a } else { b }
            }
            #[inline(always)]
            fn finish<S: Simd>(_: S, sums: &[$type; PUT], _: &[f32; PUT], _: f32) -> [$type; PUT] {
                *sums
            }
        }
    )*};
}

largest! { i8 u8 i32 u32 i64 u64 }
