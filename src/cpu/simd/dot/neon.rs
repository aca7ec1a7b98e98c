//! Sums in vectors of NEON.

use super::super::Neon;
use super::vector::{EVENS_FIRST, Integers, ToBytes};
use std::arch::aarch64::*;

// SAFETY: 4 integers are a vector of 128 bits.
unsafe impl Integers for Neon {
    type Float = Neon;
    type Sums = int32x4_t;
    const LANES: usize = 4;

    #[inline(always)]
    fn float(self) -> Neon {
        self
    }

    #[inline(always)]
    fn splat(self, x: i32) -> int32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vdupq_n_s32(x) }
    }

    #[inline(always)]
    unsafe fn load_sums(self, from: *const i32) -> int32x4_t {
        // SAFETY: `self` proves NEON; the caller guarantees that 4 integers can be read.
        unsafe { vld1q_s32(from) }
    }

    #[inline(always)]
    unsafe fn load_bytes<const SIGNED: bool>(self, from: *const u8) -> int32x4_t {
        // SAFETY: `self` proves NEON; the caller guarantees that 4 bytes can be read.
        unsafe {
            let bytes = vreinterpret_u8_u32(vdup_n_u32(from.cast::<u32>().read_unaligned()));
            match SIGNED {
                true => vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(bytes)))),
                false => vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes)))),
            }
        }
    }

    #[inline(always)]
    fn add(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vaddq_s32(a, b) }
    }

    #[inline(always)]
    fn sub_product(self, sums: int32x4_t, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vmlsq_s32(sums, a, b) }
    }

    #[inline(always)]
    fn to_float(self, sums: int32x4_t) -> float32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vcvtq_f32_s32(sums) }
    }

    #[inline(always)]
    fn round(self, x: float32x4_t) -> int32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vcvtnq_s32_f32(x) }
    }

    #[inline(always)]
    fn digit(self, numbers: int32x4_t, bits: i32) -> [int32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe {
            let digits = vshlq_s32(vshlq_s32(numbers, vdupq_n_s32(32 - bits)), vdupq_n_s32(bits - 32));
            [digits, vshlq_s32(vsubq_s32(numbers, digits), vdupq_n_s32(-bits))]
        }
    }

    #[inline(always)]
    fn total(self, sums: int32x4_t) -> i32 {
        // SAFETY: `self` proves NEON.
        unsafe { vaddvq_s32(sums) }
    }

    #[inline(always)]
    unsafe fn store_digits<const SIZE: usize, const EVENS: bool>(self, group: [int32x4_t; 4], to: *mut u8) {
        // SAFETY: `self` proves NEON; the caller guarantees that 16 integers can be written.
        unsafe {
            let order = vld1q_u8(EVENS_FIRST[SIZE - 1].as_ptr());
            let store = |bytes: uint8x16_t, to: *mut u8| {
                vst1q_u8(to, if EVENS { vqtbl1q_u8(bytes, order) } else { bytes });
            };
            let low = vcombine_s16(vmovn_s32(group[0]), vmovn_s32(group[1]));
            let high = vcombine_s16(vmovn_s32(group[2]), vmovn_s32(group[3]));
            match SIZE {
                1 => store(vreinterpretq_u8_s8(vcombine_s8(vmovn_s16(low), vmovn_s16(high))), to),
                _ => {
                    store(vreinterpretq_u8_s16(low), to);
                    store(vreinterpretq_u8_s16(high), to.add(16));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn store_bytes<const VECS: usize, const INTERLEAVED: bool>(
        self,
        sums: [int32x4_t; VECS],
        how: ToBytes,
        to: *mut u8,
        count: usize,
    ) {
        // With four lanes both orders are the same. SAFETY: `self` proves NEON; the caller guarantees that `count` bytes
        // can be written, and no more are.
        unsafe {
            let mut narrow = [vdup_n_s16(0); 4];
            for v in 0..VECS {
                narrow[v] = vqmovn_s32(sums[v]);
            }
            let zero = vdupq_n_s16(how.zero);
            let low = vqmovun_s16(vqaddq_s16(vcombine_s16(narrow[0], narrow[1]), zero));
            let high = vqmovun_s16(vqaddq_s16(vcombine_s16(narrow[2], narrow[3]), zero));
            let bytes = vminq_u8(vmaxq_u8(vcombine_u8(low, high), vdupq_n_u8(how.low)), vdupq_n_u8(how.high));
            let bytes = veorq_u8(bytes, vdupq_n_u8(how.flip));
            match (VECS, count) {
                (4, 16..) => vst1q_u8(to, bytes),
                (2.., 8) => vst1_u8(to, vget_low_u8(bytes)),
                _ => {
                    let mut all = [0; 16];
                    vst1q_u8(all.as_mut_ptr(), bytes);
                    std::ptr::copy_nonoverlapping(all.as_ptr(), to, count.min(4 * VECS));
                }
            }
        }
    }
}
