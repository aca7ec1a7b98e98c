//! NEON of aarch64.

use super::{Kernel, Simd};
use std::arch::aarch64::*;

/// Proof that this CPU has NEON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neon(());

impl Neon {
    /// Returns the witness if the CPU has the instructions.
    pub fn detect() -> Option<Neon> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Neon(()))
    }

    /// Runs `kernel` compiled for this level.
    #[inline]
    pub(super) fn enter<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "neon")]
        fn call<K: Kernel>(simd: Neon, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` proves that the CPU has the features.
        unsafe { call(self, kernel) }
    }
}

// SAFETY: 4 floats are a vector of 128 bits.
unsafe impl Simd for Neon {
    const LANES: usize = 4;
    const REGISTERS: usize = 32;
    type F32 = float32x4_t;

    #[inline(always)]
    fn splat(self, x: f32) -> float32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vdupq_n_f32(x) }
    }

    #[inline(always)]
    unsafe fn load_ptr(self, from: *const f32) -> float32x4_t {
        // SAFETY: `self` proves NEON; the caller guarantees that four floats can be read.
        unsafe { vld1q_f32(from) }
    }

    #[inline(always)]
    unsafe fn store_ptr(self, v: float32x4_t, to: *mut f32) {
        // SAFETY: `self` proves NEON; the caller guarantees that four floats can be written.
        unsafe { vst1q_f32(to, v) }
    }

    #[inline(always)]
    fn load_partial(self, from: &[f32]) -> float32x4_t {
        let mut lanes = [0.0; 4];
        let n = from.len().min(4);
        lanes[..n].copy_from_slice(&from[..n]);
        self.load(&lanes)
    }

    #[inline(always)]
    fn store_partial(self, v: float32x4_t, to: &mut [f32]) {
        let mut lanes = [0.0; 4];
        self.store(v, &mut lanes);
        let n = to.len().min(4);
        to[..n].copy_from_slice(&lanes[..n]);
    }

    #[inline(always)]
    fn add(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vaddq_f32(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vsubq_f32(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vmulq_f32(a, b) }
    }

    #[inline(always)]
    fn mul_add(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vfmaq_f32(c, a, b) }
    }

    #[inline(always)]
    fn max(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vbslq_f32(vcgtq_f32(a, b), a, b) }
    }

    #[inline(always)]
    fn min(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vbslq_f32(vcltq_f32(a, b), a, b) }
    }

    #[inline(always)]
    fn mul_add_scalar(self, a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    #[inline(always)]
    fn power_of_two(self, v: float32x4_t) -> float32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vreinterpretq_f32_s32(vshlq_n_s32::<23>(vreinterpretq_s32_f32(v))) }
    }
}
