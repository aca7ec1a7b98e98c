//! The baseline level of all CPUs.

use super::{MAX_LANES, Simd};

/// Four floats per vector in plain Rust, which the compiler maps to the base vector registers of the architecture.
/// Multiply and add round separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portable;

/// Four floats, aligned as a 128-bit register.
#[derive(Clone, Copy)]
#[repr(align(16))]
pub struct F32x4([f32; 4]);

#[inline(always)]
fn zip(a: F32x4, b: F32x4, f: impl Fn(f32, f32) -> f32) -> F32x4 {
    F32x4([f(a.0[0], b.0[0]), f(a.0[1], b.0[1]), f(a.0[2], b.0[2]), f(a.0[3], b.0[3])])
}

// SAFETY: vectors are arrays of 4 floats.
unsafe impl Simd for Portable {
    const LANES: usize = 4;
    const REGISTERS: usize = 16;
    const FUSES: bool = false;
    type F32 = F32x4;

    #[inline(always)]
    fn splat(self, x: f32) -> F32x4 {
        F32x4([x; 4])
    }

    #[inline(always)]
    unsafe fn load_ptr(self, from: *const f32) -> F32x4 {
        // SAFETY: the caller guarantees that four floats can be read.
        F32x4(unsafe { from.cast::<[f32; 4]>().read() })
    }

    #[inline(always)]
    unsafe fn store_ptr(self, v: F32x4, to: *mut f32) {
        // SAFETY: the caller guarantees that four floats can be written.
        unsafe { to.cast::<[f32; 4]>().write(v.0) }
    }

    #[inline(always)]
    fn load_partial(self, from: &[f32]) -> F32x4 {
        let mut v = [0.0; 4];
        let n = from.len().min(4);
        v[..n].copy_from_slice(&from[..n]);
        F32x4(v)
    }

    #[inline(always)]
    fn store_partial(self, v: F32x4, to: &mut [f32]) {
        let n = to.len().min(4);
        to[..n].copy_from_slice(&v.0[..n]);
    }

    #[inline(always)]
    fn add(self, a: F32x4, b: F32x4) -> F32x4 {
        zip(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: F32x4, b: F32x4) -> F32x4 {
        zip(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn div(self, a: F32x4, b: F32x4) -> F32x4 {
        zip(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn mul(self, a: F32x4, b: F32x4) -> F32x4 {
        zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn mul_add(self, a: F32x4, b: F32x4, c: F32x4) -> F32x4 {
        self.add(self.mul(a, b), c)
    }

    #[inline(always)]
    fn max(self, a: F32x4, b: F32x4) -> F32x4 {
        zip(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn min(self, a: F32x4, b: F32x4) -> F32x4 {
        zip(a, b, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn transpose(self, rows: &mut [F32x4; MAX_LANES]) {
        let old = [rows[0].0, rows[1].0, rows[2].0, rows[3].0];
        for (col, row) in rows[..4].iter_mut().enumerate() {
            *row = F32x4(old.map(|old| old[col]));
        }
    }

    #[inline(always)]
    fn mul_add_scalar(self, a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
}
