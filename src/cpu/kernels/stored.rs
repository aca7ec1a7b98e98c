//! Stored and computed element types: programs compute float16 as float32, and all other types as themselves.

use super::float::widen;
use crate::cpu::simd::{self, Isa};
use crate::dtype::Element;
use half::f16;

/// A stored element type.
pub trait Stored: Element {
    /// The type that programs compute with.
    type Lane: Element;

    /// The value in the computed type.
    fn lane(self) -> Self::Lane;

    /// Copies the values of `x` to `out`, which has the same length.
    fn copy(isa: Isa, x: &[Self], out: &mut [Self::Lane]);
}

macro_rules! stored {
    ($($type:ty)*) => {$(
        impl Stored for $type {
            type Lane = $type;
            #[inline(always)]
            fn lane(self) -> $type {
                self
            }
            fn copy(_: Isa, x: &[$type], out: &mut [$type]) {
                out.copy_from_slice(x);
            }
        }
    )*};
}

stored! { f32 f64 i32 u32 i64 u64 i8 u8 }

impl Stored for f16 {
    type Lane = f32;
    #[inline(always)]
    fn lane(self) -> f32 {
        simd::widen(self)
    }
    fn copy(isa: Isa, x: &[f16], out: &mut [f32]) {
        widen(isa, x, out);
    }
}

/// Runs `$body` with the type name `$T` bound to a type of `$bytes` bytes: kernels that only move elements are compiled
/// for four types instead of eight.
#[macro_export]
macro_rules! with_storage {
    ($bytes:expr, $T:ident => $body:expr) => {
        match $bytes {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = half::f16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            bytes => unreachable!("no data type has {bytes} bytes"),
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::dtype::DataType;

    #[test]
    fn every_data_type_has_a_storage() {
        for dtype in DataType::OF_VALUES {
            with_storage!(dtype.size(), T => assert_eq!(size_of::<T>(), dtype.size()));
        }
    }
}
