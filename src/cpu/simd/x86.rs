//! The levels of x86-64.

use super::{Bfloat16, Kernel, MAX_LANES, Simd};
use half::f16;
use std::arch::x86_64::*;

/// Proof that this CPU has AVX2, FMA, F16C and BMI2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx2(());

impl Avx2 {
    /// Returns the witness if the CPU has the instructions.
    pub fn detect() -> Option<Avx2> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("bmi2");
        has.then_some(Avx2(()))
    }
}

enter!(Avx2, Kernel, "avx2,fma,f16c,bmi2");

/// Proof that this CPU has AVX-512 F, VL, BW and DQ and everything that [`Avx2`] proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx512(());

impl Avx512 {
    /// Returns the witness if the CPU has the instructions.
    pub fn detect() -> Option<Avx512> {
        let has = Avx2::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq");
        has.then_some(Avx512(()))
    }
}

enter!(Avx512, Kernel, "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c,bmi2");

/// `a * b + c`, rounded once. Not [`f32::mul_add`], which calls the C library wherever it is not inlined into a function
/// for CPUs with FMA, as in builds without optimization.
///
/// # Safety
/// The CPU must have FMA.
#[inline(always)]
unsafe fn fused(a: f32, b: f32, c: f32) -> f32 {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c))) }
}

/// For [`Avx2`]: `n` lanes of -1 followed by 8 lanes of 0 start at `8 - n`.
static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

impl Avx2 {
    #[inline(always)]
    fn mask(self, len: usize) -> __m256i {
        let start = 8 - len.min(8);
        // SAFETY: `self` proves AVX2; `start..start + 8` is within the 16 elements.
        unsafe { _mm256_loadu_si256(MASKS.as_ptr().add(start).cast()) }
    }
}

// SAFETY: 8 floats are a vector of 256 bits.
unsafe impl Simd for Avx2 {
    const LANES: usize = 8;
    const REGISTERS: usize = 16;
    type F32 = __m256;

    operations! {
        fn prefetch(address: *const f32) = _mm_prefetch::<_MM_HINT_T0>(address.cast());
        fn prefetch_l2(address: *const f32) = _mm_prefetch::<_MM_HINT_T1>(address.cast());
        fn splat(x: f32) -> __m256 = _mm256_set1_ps(x);
        unsafe fn load_ptr(from: *const f32) -> __m256 = _mm256_loadu_ps(from);
        unsafe fn store_ptr(v: __m256, to: *mut f32) = _mm256_storeu_ps(to, v);
        unsafe fn load_bfloat16(from: *const Bfloat16) -> __m256 =
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()))));
        fn add(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        fn sub(a: __m256, b: __m256) -> __m256 = _mm256_sub_ps(a, b);
        fn div(a: __m256, b: __m256) -> __m256 = _mm256_div_ps(a, b);
        fn mul(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
        fn mul_add(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        fn max(a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
        fn min(a: __m256, b: __m256) -> __m256 = _mm256_min_ps(a, b);
        fn mul_add_scalar(a: f32, b: f32, c: f32) -> f32 = fused(a, b, c);
        fn power_of_two(v: __m256) -> __m256 = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(v)));
    }

    #[inline(always)]
    fn evens_and_odds(self, a: __m256, b: __m256) -> [__m256; 2] {
        // SAFETY: `self` proves AVX2.
        unsafe {
            // By quarters: those of `a` and `b` in turns.
            let halves = [_mm256_shuffle_ps::<0x88>(a, b), _mm256_shuffle_ps::<0xdd>(a, b)];
            halves.map(|half| _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(_mm256_castps_pd(half))))
        }
    }

    #[inline(always)]
    fn lanes_before(self, count: usize, v: __m256, other: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_blendv_ps(other, v, _mm256_castsi256_ps(self.mask(count))) }
    }

    #[inline(always)]
    fn lanes_from(self, from: usize, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves AVX2.
        unsafe {
            // Only the lowest 3 bits of an index count.
            let lanes = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(from as i32));
            let [a, b] = [a, b].map(|v| _mm256_permutevar8x32_ps(v, lanes));
            self.lanes_before(8 - from, a, b)
        }
    }

    #[inline(always)]
    fn load_partial(self, from: &[f32]) -> __m256 {
        // SAFETY: `self` proves AVX2; the mask selects only lanes within the slice, and no others are read.
        unsafe { _mm256_maskload_ps(from.as_ptr(), self.mask(from.len())) }
    }

    #[inline(always)]
    fn store_partial(self, v: __m256, to: &mut [f32]) {
        // SAFETY: `self` proves AVX2; the mask selects only lanes within the slice, and no others are written.
        unsafe { _mm256_maskstore_ps(to.as_mut_ptr(), self.mask(to.len()), v) }
    }

    #[inline(always)]
    fn load_f16(self, from: &[f16]) -> __m256 {
        let from = &from[..8];
        // SAFETY: `self` proves F16C or AVX-512 F; the slice holds the 8 half floats that are read.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())) }
    }

    #[inline(always)]
    fn store_f16(self, v: __m256, to: &mut [f16]) {
        let to = &mut to[..8];
        // SAFETY: `self` proves F16C or AVX-512 F; the slice holds the 8 half floats that are written.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v)) }
    }

    #[inline(always)]
    unsafe fn nibbles<const SAME: bool>(self, from: *const u8, zero: __m256) -> [__m256; 8] {
        // SAFETY: `self` proves AVX2; the caller guarantees that 32 bytes can be read.
        unsafe {
            let words = _mm256_loadu_si256(from.cast());
            let number = |shifted: __m256i| {
                let number = _mm256_and_si256(shifted, _mm256_set1_epi32(15));
                _mm256_sub_ps(_mm256_cvtepi32_ps(number), zero)
            };
            each_nibble!(words, _mm256_srli_epi32, number)
        }
    }

    #[inline(always)]
    unsafe fn looked_up(self, from: *const u8, table: &[f32; 16]) -> [__m256; 8] {
        // SAFETY: `self` proves AVX2; the caller guarantees that 32 bytes can be read, and the table holds two vectors.
        unsafe {
            let words = _mm256_loadu_si256(from.cast());
            let [low, high] = [0, 8].map(|first| _mm256_loadu_ps(table.as_ptr().add(first)));
            // Only the lowest 3 bits of an index count; the fourth one chooses the half.
            let number = |shifted: __m256i| {
                let half = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(shifted));
                let [low, high] = [low, high].map(|part| _mm256_permutevar8x32_ps(part, shifted));
                _mm256_blendv_ps(low, high, half)
            };
            each_nibble!(words, _mm256_srli_epi32, number)
        }
    }

    #[inline(always)]
    unsafe fn bytes(self, from: *const u8, zero: __m256) -> [__m256; 4] {
        // SAFETY: `self` proves AVX2; the caller guarantees that 32 bytes can be read.
        unsafe {
            let words = _mm256_loadu_si256(from.cast());
            let number = |shifted: __m256i| {
                let number = _mm256_and_si256(shifted, _mm256_set1_epi32(255));
                _mm256_sub_ps(_mm256_cvtepi32_ps(number), zero)
            };
            [
                number(words),
                number(_mm256_srli_epi32::<8>(words)),
                number(_mm256_srli_epi32::<16>(words)),
                number(_mm256_srli_epi32::<24>(words)),
            ]
        }
    }

    #[inline(always)]
    fn sum_rows(self, rows: &[f32]) -> __m256 {
        assert!(rows.len() >= 64);
        // SAFETY: `self` proves AVX2; the 8 rows of 8 floats were just checked.
        unsafe {
            let mut pairs = [_mm256_setzero_ps(); 4];
            for (index, pair) in pairs.iter_mut().enumerate() {
                let row = rows.as_ptr().add(16 * index);
                *pair = _mm256_hadd_ps(_mm256_loadu_ps(row), _mm256_loadu_ps(row.add(8)));
            }
            // Each half of a vector holds the sums of that half of four rows.
            let (above, below) = (_mm256_hadd_ps(pairs[0], pairs[1]), _mm256_hadd_ps(pairs[2], pairs[3]));
            let (low, high) =
                (_mm256_permute2f128_ps::<0x20>(above, below), _mm256_permute2f128_ps::<0x31>(above, below));
            _mm256_add_ps(low, high)
        }
    }

    #[inline(always)]
    fn transpose(self, rows: &mut [__m256; MAX_LANES]) {
        // SAFETY: `self` proves AVX2.
        unsafe {
            // Squares of 4 by 4: columns `c` and `4 + c` of rows `4 g` to `4 g + 3` are in `quads[4 g + c]`.
            let mut quads = [_mm256_setzero_ps(); 8];
            for g in [0, 4] {
                let ab = _mm256_castps_pd(_mm256_unpacklo_ps(rows[g], rows[g + 1]));
                let cd = _mm256_castps_pd(_mm256_unpacklo_ps(rows[g + 2], rows[g + 3]));
                quads[g] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd));
                quads[g + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd));
                let ab = _mm256_castps_pd(_mm256_unpackhi_ps(rows[g], rows[g + 1]));
                let cd = _mm256_castps_pd(_mm256_unpackhi_ps(rows[g + 2], rows[g + 3]));
                quads[g + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd));
                quads[g + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd));
            }
            for c in 0..4 {
                let (upper, lower) = (quads[c], quads[4 + c]);
                rows[c] = _mm256_permute2f128_ps::<0x20>(upper, lower);
                rows[4 + c] = _mm256_permute2f128_ps::<0x31>(upper, lower);
            }
        }
    }
}

impl Avx512 {
    #[inline(always)]
    fn mask(self, len: usize) -> __mmask16 {
        ((1u32 << len.min(16)) - 1) as __mmask16
    }
}

// SAFETY: 16 floats are a vector of 512 bits.
unsafe impl Simd for Avx512 {
    const LANES: usize = 16;
    const REGISTERS: usize = 32;
    type F32 = __m512;

    operations! {
        fn prefetch(address: *const f32) = _mm_prefetch::<_MM_HINT_T0>(address.cast());
        fn prefetch_l2(address: *const f32) = _mm_prefetch::<_MM_HINT_T1>(address.cast());
        fn splat(x: f32) -> __m512 = _mm512_set1_ps(x);
        unsafe fn load_ptr(from: *const f32) -> __m512 = _mm512_loadu_ps(from);
        unsafe fn store_ptr(v: __m512, to: *mut f32) = _mm512_storeu_ps(to, v);
        unsafe fn load_bfloat16(from: *const Bfloat16) -> __m512 =
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()))));
        fn add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        fn sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        fn div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
        fn mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        fn max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        fn min(a: __m512, b: __m512) -> __m512 = _mm512_min_ps(a, b);
        fn mul_add_scalar(a: f32, b: f32, c: f32) -> f32 = fused(a, b, c);
        fn power_of_two(v: __m512) -> __m512 = _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_castps_si512(v)));
    }

    #[inline(always)]
    fn evens_and_odds(self, a: __m512, b: __m512) -> [__m512; 2] {
        // SAFETY: `self` proves AVX-512 F.
        unsafe {
            let evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odds = _mm512_or_si512(evens, _mm512_set1_epi32(1));
            [_mm512_permutex2var_ps(a, evens, b), _mm512_permutex2var_ps(a, odds, b)]
        }
    }

    #[inline(always)]
    fn lanes_before(self, count: usize, v: __m512, other: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512 F.
        unsafe { _mm512_mask_blend_ps(self.mask(count), other, v) }
    }

    #[inline(always)]
    fn lanes_from(self, from: usize, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves AVX-512 F.
        unsafe {
            let all = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            _mm512_permutex2var_ps(a, _mm512_add_epi32(all, _mm512_set1_epi32(from as i32)), b)
        }
    }

    #[inline(always)]
    fn load_partial(self, from: &[f32]) -> __m512 {
        // SAFETY: `self` proves AVX-512 F; the mask selects only lanes within the slice, and no others are read.
        unsafe { _mm512_maskz_loadu_ps(self.mask(from.len()), from.as_ptr()) }
    }

    #[inline(always)]
    fn store_partial(self, v: __m512, to: &mut [f32]) {
        // SAFETY: `self` proves AVX-512 F; the mask selects only lanes within the slice, and no others are written.
        unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), self.mask(to.len()), v) }
    }

    #[inline(always)]
    fn load_f16(self, from: &[f16]) -> __m512 {
        let from = &from[..16];
        // SAFETY: `self` proves F16C or AVX-512 F; the slice holds the 16 half floats that are read.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) }
    }

    #[inline(always)]
    fn store_f16(self, v: __m512, to: &mut [f16]) {
        let to = &mut to[..16];
        // SAFETY: `self` proves F16C or AVX-512 F; the slice holds the 16 half floats that are written.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v)) }
    }

    #[inline(always)]
    unsafe fn nibbles<const SAME: bool>(self, from: *const u8, zero: __m512) -> [__m512; 8] {
        // SAFETY: `self` proves AVX-512 F; the caller guarantees that 64 bytes can be read.
        unsafe {
            let words = _mm512_loadu_si512(from.cast());
            let all = _mm512_setr_ps(0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.);
            let table = if SAME { _mm512_sub_ps(all, zero) } else { all };
            // Only the lowest 4 bits of an index count.
            let number = |shifted: __m512i| match SAME {
                true => _mm512_permutexvar_ps(shifted, table),
                false => _mm512_sub_ps(_mm512_permutexvar_ps(shifted, table), zero),
            };
            each_nibble!(words, _mm512_srli_epi32, number)
        }
    }

    #[inline(always)]
    unsafe fn looked_up(self, from: *const u8, table: &[f32; 16]) -> [__m512; 8] {
        // SAFETY: `self` proves AVX-512 F; the caller guarantees that 64 bytes can be read, and the table is a vector.
        unsafe {
            let words = _mm512_loadu_si512(from.cast());
            let table = _mm512_loadu_ps(table.as_ptr());
            // Only the lowest 4 bits of an index count.
            let number = |shifted: __m512i| _mm512_permutexvar_ps(shifted, table);
            each_nibble!(words, _mm512_srli_epi32, number)
        }
    }

    #[inline(always)]
    unsafe fn bytes(self, from: *const u8, zero: __m512) -> [__m512; 4] {
        // SAFETY: `self` proves AVX-512 F; the caller guarantees that 64 bytes can be read.
        unsafe {
            let words = _mm512_loadu_si512(from.cast());
            // A byte in the lowest bits of the float 2^23 adds its value to it: the difference from `zero` is exact and
            // needs no conversion.
            let power = _mm512_set1_epi32(0x4b00_0000);
            let zero = _mm512_add_ps(zero, _mm512_castsi512_ps(power));
            let number = |shifted: __m512i| {
                // (shifted & 255) | power
                let float = _mm512_ternarylogic_epi32::<0xf8>(power, shifted, _mm512_set1_epi32(255));
                _mm512_sub_ps(_mm512_castsi512_ps(float), zero)
            };
            [
                number(words),
                number(_mm512_srli_epi32::<8>(words)),
                number(_mm512_srli_epi32::<16>(words)),
                number(_mm512_srli_epi32::<24>(words)),
            ]
        }
    }

    #[inline(always)]
    fn sum_rows(self, rows: &[f32]) -> __m512 {
        assert!(rows.len() >= 256);
        // SAFETY: `self` proves AVX-512 F; the 16 rows of 16 floats were just checked.
        unsafe {
            let mut halves = [_mm512_setzero_ps(); 8];
            for (index, half) in halves.iter_mut().enumerate() {
                let row = rows.as_ptr().add(32 * index);
                let (a, b) = (_mm512_loadu_ps(row), _mm512_loadu_ps(row.add(16)));
                *half = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            }
            // Each quarter of a vector holds the sums of that quarter of four rows.
            let mut quarters = [_mm512_setzero_ps(); 4];
            for (quarter, pair) in quarters.iter_mut().zip(halves.chunks_exact(2)) {
                let (a, b) = (_mm512_castps_pd(pair[0]), _mm512_castps_pd(pair[1]));
                let (low, high) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
                *quarter = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
            }
            let [a, b, c, d] = quarters;
            let ab = _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
            let cd = _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
            _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(ab, cd), _mm512_shuffle_f32x4::<0xdd>(ab, cd))
        }
    }

    #[inline(always)]
    fn transpose(self, rows: &mut [__m512; MAX_LANES]) {
        // SAFETY: `self` proves AVX-512 F.
        unsafe {
            // Squares of 4 by 4: columns `4 q + c` of rows `4 g` to `4 g + 3` are in quarter `q` of `quads[4 g + c]`.
            let mut quads = [_mm512_setzero_ps(); 16];
            for g in [0, 4, 8, 12] {
                let ab = _mm512_castps_pd(_mm512_unpacklo_ps(rows[g], rows[g + 1]));
                let cd = _mm512_castps_pd(_mm512_unpacklo_ps(rows[g + 2], rows[g + 3]));
                quads[g] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
                quads[g + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
                let ab = _mm512_castps_pd(_mm512_unpackhi_ps(rows[g], rows[g + 1]));
                let cd = _mm512_castps_pd(_mm512_unpackhi_ps(rows[g + 2], rows[g + 3]));
                quads[g + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
                quads[g + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
            }
            for c in 0..4 {
                // For the upper and the lower eight rows each: first quarters 0 and 2, then 1 and 3.
                let even = _mm512_shuffle_f32x4::<0x88>(quads[c], quads[4 + c]);
                let even_low = _mm512_shuffle_f32x4::<0x88>(quads[8 + c], quads[12 + c]);
                let odd = _mm512_shuffle_f32x4::<0xdd>(quads[c], quads[4 + c]);
                let odd_low = _mm512_shuffle_f32x4::<0xdd>(quads[8 + c], quads[12 + c]);
                rows[c] = _mm512_shuffle_f32x4::<0x88>(even, even_low);
                rows[4 + c] = _mm512_shuffle_f32x4::<0x88>(odd, odd_low);
                rows[8 + c] = _mm512_shuffle_f32x4::<0xdd>(even, even_low);
                rows[12 + c] = _mm512_shuffle_f32x4::<0xdd>(odd, odd_low);
            }
        }
    }
}
