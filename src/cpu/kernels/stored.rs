//! Stored and computed element types: kernels compute float16 as float32, and all other types as themselves.

use crate::cpu::simd::{self, Isa, Kernel, Simd};
use crate::dtype::Element;
use half::f16;

/// Elements that kernels widen at a time, into buffers on the stack.
pub const WIDENED: usize = 256;

/// A stored element type.
pub trait Stored: Element {
    /// The type that kernels compute with.
    type Lane: Element;

    /// Maximum number of elements for [`widen`](Stored::widen).
    const CHUNK: usize;

    /// The value in the computed type.
    fn lane(self) -> Self::Lane;

    /// Returns `x` in the computed type: `x` itself, or its values at the start of `buffer`.
    ///
    /// # Panics
    /// If `x` is longer than [`CHUNK`](Stored::CHUNK).
    fn widen<'a, S: Simd>(simd: S, x: &'a [Self], buffer: &'a mut [Self::Lane; WIDENED]) -> &'a [Self::Lane];

    /// Copies the values of `x` to `out`, which has the same length.
    fn widen_slice<S: Simd>(simd: S, x: &[Self], out: &mut [Self::Lane]);

    /// [`widen_slice`](Stored::widen_slice) for callers outside a kernel.
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
            fn widen<'a, S: Simd>(_: S, x: &'a [$type], _: &'a mut [$type; WIDENED]) -> &'a [$type] {
                x
            }
            #[inline(always)]
            fn widen_slice<S: Simd>(_: S, x: &[$type], out: &mut [$type]) {
                out.copy_from_slice(x);
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
    const CHUNK: usize = WIDENED;
    #[inline(always)]
    fn lane(self) -> f32 {
        simd::widen(self)
    }
    #[inline(always)]
    fn widen<'a, S: Simd>(simd: S, x: &'a [f16], buffer: &'a mut [f32; WIDENED]) -> &'a [f32] {
        let buffer = &mut buffer[..x.len()];
        f16::widen_slice(simd, x, buffer);
        buffer
    }
    #[inline(always)]
    fn widen_slice<S: Simd>(simd: S, x: &[f16], out: &mut [f32]) {
        assert_eq!(x.len(), out.len());
        let body = x.len() / S::LANES * S::LANES;
        for (x, out) in x[..body].chunks_exact(S::LANES).zip(out[..body].chunks_exact_mut(S::LANES)) {
            simd.store(simd.load_f16(x), out);
        }
        for (x, out) in x[body..].iter().zip(&mut out[body..]) {
            *out = x.lane();
        }
    }
    fn copy(isa: Isa, x: &[f16], out: &mut [f32]) {
        isa.run(Widen { x, out });
    }
}

struct Widen<'a> {
    x: &'a [f16],
    out: &'a mut [f32],
}

impl Kernel for Widen<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        f16::widen_slice(simd, self.x, self.out);
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
        for dtype in DataType::ALL {
            with_storage!(dtype.size(), T => assert_eq!(size_of::<T>(), dtype.size()));
        }
    }
}
