//! `cast()` between element types.

use super::map;
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::dtype::Element;

/// A conversion as defined by `cast()`: floats to integers truncate and saturate, NaN becomes 0; integers keep their
/// lowest bits; conversions to floats round to nearest.
pub trait Convert<To>: Element {
    /// Converts the value.
    fn convert(self) -> To;
}

macro_rules! converts {
    ($($from:ty => $($to:ty)*;)*) => {$($(
        impl Convert<$to> for $from {
            #[inline(always)]
            fn convert(self) -> $to {
                // Rust's `as` has the semantics of the draft.
                self as $to
            }
        }
    )*)*};
}

converts! {
    f32 => f32 f64;
    f64 => f32 f64 i32 u32 i64 u64 i8 u8;
    i32 => f32 f64 i32 u32 i64 u64 i8 u8;
    u32 => f32 f64 i32 u32 i64 u64 i8 u8;
    i64 => f32 f64 i32 u32 i64 u64 i8 u8;
    u64 => f32 f64 i32 u32 i64 u64 i8 u8;
    i8 => f32 f64 i32 u32 i64 u64 i8 u8;
    u8 => f32 f64 i32 u32 i64 u64 i8 u8;
}

/// Conversions from float32: `as` computes the same, but is not vectorized. Each clamps to the floats whose integers
/// the type `$lane` holds, then converts without a check; `$beyond` and more become its largest integer.
macro_rules! truncates {
    ($($to:ty: $lane:ty, $min:expr, $max:expr $(, $beyond:expr)?;)*) => {$(
        impl Convert<$to> for f32 {
            #[inline(always)]
            fn convert(self) -> $to {
                let x = if self.is_nan() { 0.0 } else { self };
                let x = if x > $min { x } else { $min };
                let x = if x < $max { x } else { $max };
                // SAFETY: `x` is a number between `$min` and `$max`, whose integers `$lane` can represent.
                let integer = unsafe { x.to_int_unchecked::<$lane>() };
                $(let integer = if self >= $beyond { <$lane>::MAX } else { integer };)?
                integer as $to
            }
        }
    )*};
}

truncates! {
    i8: i32, -128.0, 127.0;
    u8: i32, 0.0, 255.0;
    i32: i32, -2_147_483_648.0, 2_147_483_520.0, 2_147_483_648.0;
    u32: u32, 0.0, 4_294_967_040.0, 4_294_967_296.0;
    i64: i64, -9_223_372_036_854_775_808.0, 9_223_371_487_098_961_920.0, 9_223_372_036_854_775_808.0;
    u64: u64, 0.0, 18_446_742_974_197_923_840.0, 18_446_744_073_709_551_616.0;
}

/// `out[i] = x[i]`, converted.
pub fn cast<T: Convert<U>, U: Element>(isa: Isa, x: &[T], out: &mut [U]) {
    isa.run(Cast { x, out });
}

/// [`cast`] from or to float64, the same code for every instruction set.
pub fn cast_double<T: Convert<U>, U: Element>(x: &[T], out: &mut [U]) {
    map(x, out, T::convert);
}

struct Cast<'a, T, U> {
    x: &'a [T],
    out: &'a mut [U],
}

impl<T: Convert<U>, U: Element> Kernel for Cast<'_, T, U> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        map(self.x, self.out, T::convert);
    }
}
