//! The levels of x86-64.

use super::super::{Avx2, Avx512};
use super::vector::{Dot, DotKernel, EVENS_FIRST, Integers, ToBytes};
use std::arch::x86_64::*;

/// [`Avx2`] without VNNI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx2Dot(pub(super) Avx2);

/// Proof that this CPU has AVX-VNNI and everything that [`Avx2`] proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvxVnni(Avx2);

/// [`Avx512`] without VNNI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx512Dot(pub(super) Avx512);

/// Proof that this CPU has AVX-512 VNNI and everything that [`Avx512`] proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx512Vnni(Avx512);

/// Proof that this CPU has AVX-512 VNNI and VL, for 256-bit vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx512Narrow(Avx2);

impl AvxVnni {
    /// Returns the witness if the CPU has the instructions.
    pub fn detect(avx2: Avx2) -> Option<AvxVnni> {
        is_x86_feature_detected!("avxvnni").then_some(AvxVnni(avx2))
    }
}

impl Avx512Vnni {
    /// Returns the witness if the CPU has the instructions.
    pub fn detect(avx512: Avx512) -> Option<Avx512Vnni> {
        is_x86_feature_detected!("avx512vnni").then_some(Avx512Vnni(avx512))
    }

    /// The same instructions with half as many lanes.
    pub fn narrow(self) -> Option<Avx512Narrow> {
        Avx2::detect().map(Avx512Narrow)
    }
}

enter!(Avx2Dot, DotKernel, "avx2,fma,f16c,bmi2");
enter!(AvxVnni, DotKernel, "avxvnni,avx2,fma,f16c,bmi2");
enter!(Avx512Dot, DotKernel, "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c,bmi2");
enter!(Avx512Narrow, DotKernel, "avx512vnni,avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c,bmi2");
enter!(Avx512Vnni, DotKernel, "avx512vnni,avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c,bmi2");

/// [`Integers`] in vectors of 512 bits.
macro_rules! integers512 {
    () => {
        type Float = Avx512;
        type Sums = __m512i;
        const LANES: usize = 16;

        #[inline(always)]
        fn float(self) -> Avx512 {
            self.0
        }

        operations! {
            fn splat(x: i32) -> __m512i = _mm512_set1_epi32(x);
            unsafe fn load_sums(from: *const i32) -> __m512i = _mm512_loadu_si512(from.cast());
            unsafe fn load_bytes<const SIGNED: bool>(from: *const u8) -> __m512i = {
                let bytes = _mm_loadu_si128(from.cast());
                if SIGNED { _mm512_cvtepi8_epi32(bytes) } else { _mm512_cvtepu8_epi32(bytes) }
            };
            fn add(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
            fn sub_product(sums: __m512i, a: __m512i, b: __m512i) -> __m512i =
                _mm512_sub_epi32(sums, _mm512_mullo_epi32(a, b));
            fn to_float(sums: __m512i) -> __m512 = _mm512_cvtepi32_ps(sums);
            fn round(x: __m512) -> __m512i =
                _mm512_cvt_roundps_epi32::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
            fn digit(numbers: __m512i, bits: i32) -> [__m512i; 2] = {
                let (bits, sign) = (_mm_cvtsi32_si128(bits), _mm_cvtsi32_si128(32 - bits));
                let digits = _mm512_sra_epi32(_mm512_sll_epi32(numbers, sign), sign);
                [digits, _mm512_sra_epi32(_mm512_sub_epi32(numbers, digits), bits)]
            };
            fn total(sums: __m512i) -> i32 = _mm512_reduce_add_epi32(sums);
            unsafe fn store_digits<const SIZE: usize, const EVENS: bool>(group: [__m512i; 4], to: *mut u8) = {
                let order = _mm_loadu_si128(EVENS_FIRST[SIZE - 1].as_ptr().cast());
                if SIZE == 1 {
                    let bytes = _mm512_cvtepi32_epi8(group[0]);
                    _mm_storeu_si128(to.cast(), if EVENS { _mm_shuffle_epi8(bytes, order) } else { bytes });
                } else {
                    let (pairs, order) = (_mm512_cvtepi32_epi16(group[0]), _mm256_broadcastsi128_si256(order));
                    _mm256_storeu_si256(to.cast(), if EVENS { _mm256_shuffle_epi8(pairs, order) } else { pairs });
                }
            };
        }

        #[inline(always)]
        unsafe fn store_bytes<const VECS: usize, const INTERLEAVED: bool>(
            self,
            sums: [__m512i; VECS],
            how: ToBytes,
            to: *mut u8,
            count: usize,
        ) {
            // SAFETY: `self` proves AVX-512 BW; the mask selects only bytes that the caller guarantees can be written.
            unsafe {
                let vector = |v: usize| if v < VECS { sums[v] } else { _mm512_setzero_si512() };
                let zero = _mm512_set1_epi16(how.zero);
                let low = _mm512_adds_epi16(_mm512_packs_epi32(vector(0), vector(1)), zero);
                let mut bytes = match VECS {
                    1 | 2 => _mm512_packus_epi16(low, low),
                    _ => {
                        let high = _mm512_adds_epi16(_mm512_packs_epi32(vector(2), vector(3)), zero);
                        _mm512_packus_epi16(low, high)
                    }
                };
                if !INTERLEAVED {
                    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
                    bytes = _mm512_permutexvar_epi32(order, bytes);
                }
                bytes = _mm512_max_epu8(bytes, _mm512_set1_epi8(how.low as i8));
                bytes = _mm512_min_epu8(bytes, _mm512_set1_epi8(how.high as i8));
                bytes = _mm512_xor_si512(bytes, _mm512_set1_epi8(how.flip as i8));
                if VECS == 4 && count >= 64 {
                    _mm512_storeu_si512(to.cast(), bytes);
                } else {
                    _mm512_mask_storeu_epi8(to.cast(), first(count), bytes);
                }
            }
        }
    };
}

/// The 512-bit operations that are the same with and without VNNI.
macro_rules! wide512 {
    () => {
        type Bytes = __m512i;

        operations! {
            unsafe fn load(from: *const u8) -> __m512i = _mm512_loadu_si512(from.cast());
            unsafe fn broadcast(from: *const u8) -> __m512i = _mm512_set1_epi32(from.cast::<i32>().read_unaligned());
            fn nibbles(bytes: __m512i) -> [__m512i; 2] = {
                let mask = _mm512_set1_epi8(15);
                [_mm512_and_si512(bytes, mask), _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), mask)]
            };
            fn split<const SIGNED: bool>(bytes: __m512i) -> [__m512i; 2] = match SIGNED {
                true => [_mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(bytes)), _mm512_srai_epi16::<8>(bytes)],
                false => [_mm512_and_si512(bytes, _mm512_set1_epi16(0xff)), _mm512_srli_epi16::<8>(bytes)],
            };
            fn invert_signs(bytes: __m512i) -> __m512i = _mm512_xor_si512(bytes, _mm512_set1_epi8(-128));
            fn interleave([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] = {
                let (ab, cd) = (_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d));
                let (ab_high, cd_high) = (_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d));
                [
                    _mm512_unpacklo_epi16(ab, cd),
                    _mm512_unpackhi_epi16(ab, cd),
                    _mm512_unpacklo_epi16(ab_high, cd_high),
                    _mm512_unpackhi_epi16(ab_high, cd_high),
                ]
            };
        }

        #[inline(always)]
        unsafe fn load_first(self, from: *const u8, count: usize) -> __m512i {
            // SAFETY: `self` proves AVX-512 BW; the mask selects only bytes that the caller guarantees can be read.
            unsafe { _mm512_maskz_loadu_epi8(first(count), from.cast()) }
        }
    };
}

/// [`Integers`] in vectors of 256 bits.
macro_rules! integers256 {
    () => {
        type Float = Avx2;
        type Sums = __m256i;
        const LANES: usize = 8;

        #[inline(always)]
        fn float(self) -> Avx2 {
            self.0
        }

        operations! {
            fn splat(x: i32) -> __m256i = _mm256_set1_epi32(x);
            unsafe fn load_sums(from: *const i32) -> __m256i = _mm256_loadu_si256(from.cast());
            unsafe fn load_bytes<const SIGNED: bool>(from: *const u8) -> __m256i = {
                let bytes = _mm_loadl_epi64(from.cast());
                if SIGNED { _mm256_cvtepi8_epi32(bytes) } else { _mm256_cvtepu8_epi32(bytes) }
            };
            fn add(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi32(a, b);
            fn sub_product(sums: __m256i, a: __m256i, b: __m256i) -> __m256i =
                _mm256_sub_epi32(sums, _mm256_mullo_epi32(a, b));
            fn to_float(sums: __m256i) -> __m256 = _mm256_cvtepi32_ps(sums);
            // The process uses the default rounding mode, to nearest even.
            fn round(x: __m256) -> __m256i = _mm256_cvtps_epi32(x);
            fn digit(numbers: __m256i, bits: i32) -> [__m256i; 2] = {
                let (bits, sign) = (_mm_cvtsi32_si128(bits), _mm_cvtsi32_si128(32 - bits));
                let digits = _mm256_sra_epi32(_mm256_sll_epi32(numbers, sign), sign);
                [digits, _mm256_sra_epi32(_mm256_sub_epi32(numbers, digits), bits)]
            };
            fn total(sums: __m256i) -> i32 = {
                let four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
                let two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
                _mm_cvtsi128_si32(two).wrapping_add(_mm_extract_epi32::<1>(two))
            };
            unsafe fn store_digits<const SIZE: usize, const EVENS: bool>(group: [__m256i; 4], to: *mut u8) = {
                let order = _mm_loadu_si128(EVENS_FIRST[SIZE - 1].as_ptr().cast());
                let pairs = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(group[0], group[1]));
                if SIZE == 1 {
                    let bytes = _mm_packs_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs));
                    _mm_storeu_si128(to.cast(), if EVENS { _mm_shuffle_epi8(bytes, order) } else { bytes });
                } else {
                    let order = _mm256_broadcastsi128_si256(order);
                    _mm256_storeu_si256(to.cast(), if EVENS { _mm256_shuffle_epi8(pairs, order) } else { pairs });
                }
            };
        }

        #[inline(always)]
        unsafe fn store_bytes<const VECS: usize, const INTERLEAVED: bool>(
            self,
            sums: [__m256i; VECS],
            how: ToBytes,
            to: *mut u8,
            count: usize,
        ) {
            // SAFETY: `self` proves AVX2; the caller guarantees that `count` bytes can be written, and no more are.
            unsafe {
                let vector = |v: usize| if v < VECS { sums[v] } else { _mm256_setzero_si256() };
                let zero = _mm256_set1_epi16(how.zero);
                let low = _mm256_adds_epi16(_mm256_packs_epi32(vector(0), vector(1)), zero);
                let high = _mm256_adds_epi16(_mm256_packs_epi32(vector(2), vector(3)), zero);
                let mut bytes = _mm256_packus_epi16(low, high);
                if !INTERLEAVED {
                    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
                }
                bytes = _mm256_max_epu8(bytes, _mm256_set1_epi8(how.low as i8));
                bytes = _mm256_min_epu8(bytes, _mm256_set1_epi8(how.high as i8));
                bytes = _mm256_xor_si256(bytes, _mm256_set1_epi8(how.flip as i8));
                match count {
                    32.. => _mm256_storeu_si256(to.cast(), bytes),
                    16 => _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(bytes)),
                    _ => {
                        let mut all = [0u8; 32];
                        _mm256_storeu_si256(all.as_mut_ptr().cast(), bytes);
                        std::ptr::copy_nonoverlapping(all.as_ptr(), to, count);
                    }
                }
            }
        }
    };
}

/// The 256-bit operations that are the same with and without VNNI.
macro_rules! wide256 {
    () => {
        type Bytes = __m256i;

        operations! {
            unsafe fn load(from: *const u8) -> __m256i = _mm256_loadu_si256(from.cast());
            unsafe fn broadcast(from: *const u8) -> __m256i = _mm256_set1_epi32(from.cast::<i32>().read_unaligned());
            fn nibbles(bytes: __m256i) -> [__m256i; 2] = {
                let mask = _mm256_set1_epi8(15);
                [_mm256_and_si256(bytes, mask), _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), mask)]
            };
            fn split<const SIGNED: bool>(bytes: __m256i) -> [__m256i; 2] = match SIGNED {
                true => [_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes)), _mm256_srai_epi16::<8>(bytes)],
                false => [_mm256_and_si256(bytes, _mm256_set1_epi16(0xff)), _mm256_srli_epi16::<8>(bytes)],
            };
            fn invert_signs(bytes: __m256i) -> __m256i = _mm256_xor_si256(bytes, _mm256_set1_epi8(-128));
            fn interleave([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] = {
                let (ab, cd) = (_mm256_unpacklo_epi8(a, b), _mm256_unpacklo_epi8(c, d));
                let (ab_high, cd_high) = (_mm256_unpackhi_epi8(a, b), _mm256_unpackhi_epi8(c, d));
                [
                    _mm256_unpacklo_epi16(ab, cd),
                    _mm256_unpackhi_epi16(ab, cd),
                    _mm256_unpacklo_epi16(ab_high, cd_high),
                    _mm256_unpackhi_epi16(ab_high, cd_high),
                ]
            };
        }

        #[inline(always)]
        unsafe fn load_first(self, from: *const u8, count: usize) -> __m256i {
            let mut bytes = [0; 32];
            // SAFETY: `self` proves AVX2; the caller guarantees that `count` bytes can be read, and no more than the
            // array holds are written.
            unsafe {
                std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), count.min(32));
                _mm256_loadu_si256(bytes.as_ptr().cast())
            }
        }
    };
}

/// A mask of the first `min(count, 64)` bytes.
#[inline(always)]
fn first(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// The operations with VNNI.
macro_rules! vnni {
    ($Vector:ty, $dot:ident) => {
        const PER_WORD: usize = 4;

        #[inline(always)]
        unsafe fn load_words(self, from: *const u8) -> $Vector {
            // SAFETY: the caller guarantees that a vector can be read.
            unsafe { self.load(from) }
        }

        operations! {
            fn multiply_words(sums: $Vector, left: $Vector, right: $Vector) -> $Vector = $dot(sums, left, right);
        }
    };
}

/// The operations without VNNI, on integers of 16 bits.
macro_rules! pairs {
    ($Vector:ty, $load_half:ident, $widen:ident, $add_32:ident, $add_16:ident, $multiply:ident, $nibbles:ident, $ones:ident) => {
        const PER_WORD: usize = 2;

        operations! {
            unsafe fn load_words(from: *const u8) -> $Vector = $widen($load_half(from.cast()));
            fn multiply_words(sums: $Vector, left: $Vector, right: $Vector) -> $Vector =
                $add_32(sums, $multiply(left, right));
            fn add_nibbles(open: $Vector, left: $Vector, right: $Vector) -> $Vector =
                $add_16(open, $nibbles(left, right));
            fn close_nibbles(sums: $Vector, open: $Vector) -> $Vector = $add_32(sums, $multiply(open, $ones(1)));
        }

        #[inline(always)]
        fn open_nibbles(self, _sums: $Vector) -> $Vector {
            self.splat(0)
        }
    };
}

// SAFETY: 16 integers are a vector of 512 bits.
unsafe impl Integers for Avx512Vnni {
    integers512!();
}

// SAFETY: 64 bytes are a vector of 512 bits.
unsafe impl Dot for Avx512Vnni {
    wide512!();
    vnni!(__m512i, _mm512_dpbusd_epi32);
}

// SAFETY: 16 integers are a vector of 512 bits.
unsafe impl Integers for Avx512Dot {
    integers512!();
}

// SAFETY: 64 bytes are a vector of 512 bits.
unsafe impl Dot for Avx512Dot {
    wide512!();
    pairs!(
        __m512i,
        _mm256_loadu_si256,
        _mm512_cvtepi8_epi16,
        _mm512_add_epi32,
        _mm512_add_epi16,
        _mm512_madd_epi16,
        _mm512_maddubs_epi16,
        _mm512_set1_epi16
    );
}

// SAFETY: 8 integers are a vector of 256 bits.
unsafe impl Integers for AvxVnni {
    integers256!();
}

// SAFETY: 32 bytes are a vector of 256 bits.
unsafe impl Dot for AvxVnni {
    wide256!();
    vnni!(__m256i, _mm256_dpbusd_avx_epi32);
}

// SAFETY: 8 integers are a vector of 256 bits.
unsafe impl Integers for Avx512Narrow {
    integers256!();
}

// SAFETY: 32 bytes are a vector of 256 bits.
unsafe impl Dot for Avx512Narrow {
    wide256!();
    vnni!(__m256i, _mm256_dpbusd_epi32);
}

// SAFETY: 8 integers are a vector of 256 bits.
unsafe impl Integers for Avx2Dot {
    integers256!();
}

// SAFETY: 32 bytes are a vector of 256 bits.
unsafe impl Dot for Avx2Dot {
    wide256!();
    pairs!(
        __m256i,
        _mm_loadu_si128,
        _mm256_cvtepi8_epi16,
        _mm256_add_epi32,
        _mm256_add_epi16,
        _mm256_madd_epi16,
        _mm256_maddubs_epi16,
        _mm256_set1_epi16
    );
}
