//! The levels of NEON: left factors are signed, like the right ones.

use super::super::Neon;
use super::vector::{Dot, DotKernel, EVENS_FIRST, Integers, ToBytes};
use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

/// Proof that this CPU has NEON, and its dot products if `DOTPROD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeonDot<const DOTPROD: bool>(Neon);

impl NeonDot<false> {
    /// The level without dot products.
    pub fn new(neon: Neon) -> NeonDot<false> {
        NeonDot(neon)
    }
}

impl NeonDot<true> {
    /// Returns the witness if the CPU has the instructions.
    pub fn detect(neon: Neon) -> Option<NeonDot<true>> {
        is_aarch64_feature_detected!("dotprod").then_some(NeonDot(neon))
    }
}

enter!(NeonDot<false>, DotKernel, "neon");
enter!(NeonDot<true>, DotKernel, "neon,dotprod");

// SAFETY: 4 integers are a vector of 128 bits.
unsafe impl<const DOTPROD: bool> Integers for NeonDot<DOTPROD> {
    type Float = Neon;
    type Sums = int32x4_t;
    const LANES: usize = 4;

    #[inline(always)]
    fn float(self) -> Neon {
        self.0
    }

    operations! {
        fn splat(x: i32) -> int32x4_t = vdupq_n_s32(x);
        unsafe fn load_sums(from: *const i32) -> int32x4_t = vld1q_s32(from);
        fn add(a: int32x4_t, b: int32x4_t) -> int32x4_t = vaddq_s32(a, b);
        fn sub_product(sums: int32x4_t, a: int32x4_t, b: int32x4_t) -> int32x4_t = vmlsq_s32(sums, a, b);
        fn to_float(sums: int32x4_t) -> float32x4_t = vcvtq_f32_s32(sums);
        fn round(x: float32x4_t) -> int32x4_t = vcvtnq_s32_f32(x);
        fn total(sums: int32x4_t) -> i32 = vaddvq_s32(sums);
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
    fn digit(self, numbers: int32x4_t, bits: i32) -> [int32x4_t; 2] {
        // SAFETY: `self` proves NEON.
        unsafe {
            let digits = vshlq_s32(vshlq_s32(numbers, vdupq_n_s32(32 - bits)), vdupq_n_s32(bits - 32));
            [digits, vshlq_s32(vsubq_s32(numbers, digits), vdupq_n_s32(-bits))]
        }
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

// SAFETY: 16 bytes are a vector of 128 bits.
unsafe impl<const DOTPROD: bool> Dot for NeonDot<DOTPROD> {
    type Bytes = uint8x16_t;
    const PER_WORD: usize = 4;
    const IS_SIGNED: bool = true;

    operations! {
        unsafe fn load(from: *const u8) -> uint8x16_t = vld1q_u8(from);
        unsafe fn load_words(from: *const u8) -> uint8x16_t = vld1q_u8(from);
        unsafe fn load_first(from: *const u8, count: usize) -> uint8x16_t = {
            let mut bytes = [0; 16];
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), count.min(16));
            vld1q_u8(bytes.as_ptr())
        };
        unsafe fn broadcast(from: *const u8) -> uint8x16_t =
            vreinterpretq_u8_u32(vdupq_n_u32(from.cast::<u32>().read_unaligned()));
        fn invert_signs(bytes: uint8x16_t) -> uint8x16_t = veorq_u8(bytes, vdupq_n_u8(0x80));
        fn nibbles(bytes: uint8x16_t) -> [uint8x16_t; 2] =
            [vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8::<4>(bytes)];
        fn split<const SIGNED: bool>(bytes: uint8x16_t) -> [uint8x16_t; 2] = match SIGNED {
            true => {
                let pairs = vreinterpretq_s16_u8(bytes);
                [vshrq_n_s16::<8>(vshlq_n_s16::<8>(pairs)), vshrq_n_s16::<8>(pairs)].map(|x| vreinterpretq_u8_s16(x))
            }
            false => {
                let pairs = vreinterpretq_u16_u8(bytes);
                [vandq_u16(pairs, vdupq_n_u16(0xff)), vshrq_n_u16::<8>(pairs)].map(|x| vreinterpretq_u8_u16(x))
            }
        };
        fn interleave([a, b, c, d]: [uint8x16_t; 4]) -> [uint8x16_t; 4] = {
            let zip = |a, b| [vzip1q_u8(a, b), vzip2q_u8(a, b)].map(|pairs| vreinterpretq_u16_u8(pairs));
            let ([ab, ab_high], [cd, cd_high]) = (zip(a, b), zip(c, d));
            [vzip1q_u16(ab, cd), vzip2q_u16(ab, cd), vzip1q_u16(ab_high, cd_high), vzip2q_u16(ab_high, cd_high)]
                .map(|quads| vreinterpretq_u8_u16(quads))
        };
        fn multiply_words(sums: int32x4_t, left: uint8x16_t, right: uint8x16_t) -> int32x4_t = {
            let mut sums = sums;
            if DOTPROD {
                // The intrinsic is not stable.
                asm!(
                    "sdot {0:v}.4s, {1:v}.16b, {2:v}.16b",
                    inout(vreg) sums,
                    in(vreg) left,
                    in(vreg) right,
                    options(pure, nomem, nostack, preserves_flags)
                );
                return sums;
            }
            let (left, right) = (vreinterpretq_s8_u8(left), vreinterpretq_s8_u8(right));
            let low = vpaddlq_s16(vmull_s8(vget_low_s8(left), vget_low_s8(right)));
            vaddq_s32(sums, vpaddq_s32(low, vpaddlq_s16(vmull_high_s8(left, right))))
        };
    }
}
