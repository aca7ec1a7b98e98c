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
    f32 => f32 i32 u32 i64 u64;
    i32 => f32 i32 u32 i64 u64 i8 u8;
    u32 => f32 i32 u32 i64 u64 i8 u8;
    i64 => f32 i32 u32 i64 u64 i8 u8;
    u64 => f32 i32 u32 i64 u64 i8 u8;
    i8 => f32 i32 u32 i64 u64 i8 u8;
    u8 => f32 i32 u32 i64 u64 i8 u8;
}

impl Convert<i8> for f32 {
    #[inline(always)]
    fn convert(self) -> i8 {
        // Two steps: only the conversion to the wider type vectorizes.
        (self as i32).clamp(-128, 127) as i8
    }
}

impl Convert<u8> for f32 {
    #[inline(always)]
    fn convert(self) -> u8 {
        (self as i32).clamp(0, 255) as u8
    }
}

/// `out[i] = x[i]`, converted.
pub fn cast<T: Convert<U>, U: Element>(isa: Isa, x: &[T], out: &mut [U]) {
    isa.run(Cast { x, out });
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
