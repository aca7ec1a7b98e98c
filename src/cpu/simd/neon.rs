//! NEON of aarch64.

use super::{Bfloat16, Kernel, MAX_LANES, Simd};
use half::f16;
use std::arch::aarch64::*;
use std::arch::asm;

/// Proof that this CPU has NEON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neon(());

impl Neon {
    /// Returns the witness if the CPU has the instructions.
    pub fn detect() -> Option<Neon> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Neon(()))
    }
}

enter!(Neon, Kernel, "neon");

/// Four half floats, widened. In assembly, because the intrinsics need a newer compiler; every aarch64 CPU has the
/// instruction.
#[inline(always)]
fn widened(halves: uint16x4_t) -> float32x4_t {
    let wide;
    // SAFETY: the instruction only computes.
    unsafe {
        asm!("fcvtl {0:v}.4s, {1:v}.4h", out(vreg) wide, in(vreg) halves, options(pure, nomem, nostack, preserves_flags))
    };
    wide
}

/// Four floats, rounded to the nearest half floats. In assembly, like [`widened`].
#[inline(always)]
fn narrowed(floats: float32x4_t) -> uint16x4_t {
    let halves;
    // SAFETY: the instruction only computes.
    unsafe {
        asm!("fcvtn {0:v}.4h, {1:v}.4s", out(vreg) halves, in(vreg) floats, options(pure, nomem, nostack, preserves_flags))
    };
    halves
}

// SAFETY: 4 floats are a vector of 128 bits.
unsafe impl Simd for Neon {
    const LANES: usize = 4;
    const REGISTERS: usize = 32;
    const MULTIPLIES_BY_LANE: bool = true;
    type F32 = float32x4_t;

    operations! {
        fn prefetch(address: *const f32) =
            asm!("prfm pldl1keep, [{0}]", in(reg) address, options(readonly, nostack, preserves_flags));
        fn prefetch_l2(address: *const f32) =
            asm!("prfm pldl2keep, [{0}]", in(reg) address, options(readonly, nostack, preserves_flags));
        fn splat(x: f32) -> float32x4_t = vdupq_n_f32(x);
        unsafe fn load_ptr(from: *const f32) -> float32x4_t = vld1q_f32(from);
        unsafe fn store_ptr(v: float32x4_t, to: *mut f32) = vst1q_f32(to, v);
        unsafe fn load_bfloat16(from: *const Bfloat16) -> float32x4_t =
            vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(from.cast())));
        fn add(a: float32x4_t, b: float32x4_t) -> float32x4_t = vaddq_f32(a, b);
        fn sub(a: float32x4_t, b: float32x4_t) -> float32x4_t = vsubq_f32(a, b);
        fn div(a: float32x4_t, b: float32x4_t) -> float32x4_t = vdivq_f32(a, b);
        fn mul(a: float32x4_t, b: float32x4_t) -> float32x4_t = vmulq_f32(a, b);
        fn mul_add(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = vfmaq_f32(c, a, b);
        fn mul_add_lane<const LANE: i32>(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t =
            vfmaq_laneq_f32::<LANE>(c, b, a);
        fn max(a: float32x4_t, b: float32x4_t) -> float32x4_t = vbslq_f32(vcgtq_f32(a, b), a, b);
        fn min(a: float32x4_t, b: float32x4_t) -> float32x4_t = vbslq_f32(vcltq_f32(a, b), a, b);
        fn power_of_two(v: float32x4_t) -> float32x4_t =
            vreinterpretq_f32_s32(vshlq_n_s32::<23>(vreinterpretq_s32_f32(v)));
    }

    #[inline(always)]
    fn evens_and_odds(self, a: float32x4_t, b: float32x4_t) -> [float32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe { [vuzp1q_f32(a, b), vuzp2q_f32(a, b)] }
    }

    #[inline(always)]
    fn lanes_from(self, from: usize, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        const BYTES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        // SAFETY: `self` proves NEON.
        unsafe {
            let bytes = vaddq_u8(vld1q_u8(BYTES.as_ptr()), vdupq_n_u8(4 * from as u8));
            let table = uint8x16x2_t(vreinterpretq_u8_f32(a), vreinterpretq_u8_f32(b));
            vreinterpretq_f32_u8(vqtbl2q_u8(table, bytes))
        }
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
    fn mul_add_scalar(self, a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    #[inline(always)]
    fn load_f16(self, from: &[f16]) -> float32x4_t {
        let from = &from[..4];
        // SAFETY: `self` proves NEON; the slice holds the 4 half floats that are read.
        widened(unsafe { vld1_u16(from.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store_f16(self, v: float32x4_t, to: &mut [f16]) {
        let to = &mut to[..4];
        // SAFETY: `self` proves NEON; the slice holds the 4 half floats that are written.
        unsafe { vst1_u16(to.as_mut_ptr().cast(), narrowed(v)) }
    }

    #[inline(always)]
    unsafe fn nibbles<const SAME: bool>(self, from: *const u8, zero: float32x4_t) -> [float32x4_t; 8] {
        // SAFETY: `self` proves NEON; the caller guarantees that 16 bytes can be read.
        unsafe {
            let words = vreinterpretq_u32_u8(vld1q_u8(from));
            let number = |shifted: uint32x4_t| vsubq_f32(vcvtq_f32_u32(vandq_u32(shifted, vdupq_n_u32(15))), zero);
            each_nibble!(words, vshrq_n_u32, number)
        }
    }

    #[inline(always)]
    unsafe fn looked_up(self, from: *const u8, table: &[f32; 16]) -> [float32x4_t; 8] {
        // SAFETY: `self` proves NEON; the caller guarantees that 16 bytes can be read, and the table holds 64.
        unsafe {
            let words = vreinterpretq_u32_u8(vld1q_u8(from));
            let table = vld1q_u8_x4(table.as_ptr().cast());
            let number = |shifted: uint32x4_t| {
                // The places of the four bytes of a number.
                let first = vmulq_n_u32(vandq_u32(shifted, vdupq_n_u32(15)), 0x0404_0404);
                let bytes = vreinterpretq_u8_u32(vaddq_u32(first, vdupq_n_u32(0x0302_0100)));
                vreinterpretq_f32_u8(vqtbl4q_u8(table, bytes))
            };
            each_nibble!(words, vshrq_n_u32, number)
        }
    }

    #[inline(always)]
    unsafe fn bytes(self, from: *const u8, zero: float32x4_t) -> [float32x4_t; 4] {
        // SAFETY: `self` proves NEON; the caller guarantees that 16 bytes can be read.
        unsafe {
            let words = vreinterpretq_u32_u8(vld1q_u8(from));
            let number = |shifted: uint32x4_t| vsubq_f32(vcvtq_f32_u32(vandq_u32(shifted, vdupq_n_u32(255))), zero);
            [
                number(words),
                number(vshrq_n_u32::<8>(words)),
                number(vshrq_n_u32::<16>(words)),
                number(vshrq_n_u32::<24>(words)),
            ]
        }
    }

    #[inline(always)]
    fn transpose(self, rows: &mut [float32x4_t; MAX_LANES]) {
        // SAFETY: `self` proves NEON.
        unsafe {
            let pairs = |a, b| [vtrn1q_f32(a, b), vtrn2q_f32(a, b)].map(|pair| vreinterpretq_f64_f32(pair));
            let ([even, odd], [even_low, odd_low]) = (pairs(rows[0], rows[1]), pairs(rows[2], rows[3]));
            rows[0] = vreinterpretq_f32_f64(vtrn1q_f64(even, even_low));
            rows[1] = vreinterpretq_f32_f64(vtrn1q_f64(odd, odd_low));
            rows[2] = vreinterpretq_f32_f64(vtrn2q_f64(even, even_low));
            rows[3] = vreinterpretq_f32_f64(vtrn2q_f64(odd, odd_low));
        }
    }

    #[inline(always)]
    fn sum_rows(self, rows: &[f32]) -> float32x4_t {
        let row = |index: usize| self.load(&rows[4 * index..]);
        // SAFETY: `self` proves NEON.
        unsafe { vpaddq_f32(vpaddq_f32(row(0), row(1)), vpaddq_f32(row(2), row(3))) }
    }
}
