//! `cast()` between element types.

use super::map;
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::dtype::Element;

/// A conversion as `cast()` defines it: floats to integers truncate and saturate, NaN gives 0; integers keep their
/// lowest bits; everything rounds to the nearest float.
pub trait Convert<To>: Element {
    /// The converted value.
    fn convert(self) -> To;
}

macro_rules! converts {
    ($($from:ty => $($to:ty)*;)*) => {$($(
        impl Convert<$to> for $from {
            #[inline(always)]
            fn convert(self) -> $to {
                // The `as` of Rust has the semantics of the draft.
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
        // In two steps, because only the conversion to the wider type is vectorised.
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
