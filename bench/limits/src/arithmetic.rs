//! Multiply-adds that only touch registers.

use crate::timing::best_on_threads;
use serde::Serialize;

/// Number of independent sums: a multiply-add has a latency of at most 8 cycles here, and a core starts at most two per
/// cycle.
const SUMS: usize = 16;

/// Rounds per call: some milliseconds.
const ROUNDS: usize = 1 << 20;

/// Duration of each measurement.
const SECONDS: f64 = 0.4;

/// Operations per second of several threads together, in billions. A multiply-add counts as two.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    /// float32.
    pub fma_gflops: f64,
    /// uint8 times int8, summed in int32; `None` without such an instruction.
    pub int8_gops: Option<f64>,
    /// bfloat16, summed in float32; `None` without such an instruction.
    pub bf16_gflops: Option<f64>,
}

/// A loop of multiply-adds, which runs for the given number of rounds.
#[derive(Clone, Copy)]
struct Loop {
    run: fn(usize),
    /// Multiply-adds per instruction.
    width: usize,
}

/// The rates of `threads` threads with the widest instructions of this CPU.
pub fn rates(threads: usize) -> Rates {
    let measure = |Loop { run, width }: Loop| {
        let seconds = best_on_threads(threads, SECONDS, |_| run(ROUNDS));
        (2 * width * SUMS * ROUNDS * threads) as f64 / seconds / 1e9
    };
    Rates {
        fma_gflops: measure(arch::fma()),
        int8_gops: arch::int8().map(measure),
        bf16_gflops: arch::bf16().map(measure),
    }
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use super::{Loop, SUMS};
    use std::arch::x86_64::*;
    use std::hint::black_box;

    #[target_feature(enable = "avx512f")]
    fn fma_avx512(rounds: usize) {
        let (a, b) = (_mm512_set1_ps(black_box(0.5)), _mm512_set1_ps(black_box(1.0)));
        let mut sums = [_mm512_setzero_ps(); SUMS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, a, b);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx2,fma")]
    fn fma_avx2(rounds: usize) {
        let (a, b) = (_mm256_set1_ps(black_box(0.5)), _mm256_set1_ps(black_box(1.0)));
        // As many sums as there are registers, minus the two operands.
        let mut sums = [_mm256_setzero_ps(); SUMS / 2];
        for _ in 0..2 * rounds {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, a, b);
            }
        }
        black_box(sums);
    }

    fn fma_portable(rounds: usize) {
        let (a, b) = (black_box(0.5f32), black_box(1.0f32));
        let mut sums = [[0.0f32; 4]; SUMS / 2];
        for _ in 0..2 * rounds {
            for sum in sums.as_flattened_mut() {
                *sum = *sum * a + b;
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    fn int8_avx512(rounds: usize) {
        let (a, b) = (_mm512_set1_epi8(black_box(3)), _mm512_set1_epi8(black_box(-5)));
        let mut sums = [_mm512_setzero_si512(); SUMS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, a, b);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    fn bf16_avx512(rounds: usize) {
        let one = _mm512_set1_ps(black_box(1.0));
        let a = _mm512_cvtne2ps_pbh(one, one);
        let mut sums = [_mm512_setzero_ps(); SUMS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_dpbf16_ps(*sum, a, a);
            }
        }
        black_box(sums);
    }

    pub fn fma() -> Loop {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F.
            Loop { run: |rounds| unsafe { fma_avx512(rounds) }, width: 16 }
        } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA.
            Loop { run: |rounds| unsafe { fma_avx2(rounds) }, width: 8 }
        } else {
            Loop { run: fma_portable, width: 4 }
        }
    }

    pub fn int8() -> Option<Loop> {
        let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni");
        // SAFETY: the processor has AVX-512F and AVX-512 VNNI where this is called.
        has.then_some(Loop { run: |rounds| unsafe { int8_avx512(rounds) }, width: 64 })
    }

    pub fn bf16() -> Option<Loop> {
        let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16");
        // SAFETY: the processor has AVX-512F and AVX-512 BF16 where this is called.
        has.then_some(Loop { run: |rounds| unsafe { bf16_avx512(rounds) }, width: 32 })
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use super::{Loop, SUMS};
    use std::arch::aarch64::*;
    use std::hint::black_box;

    #[target_feature(enable = "neon")]
    fn fma_neon(rounds: usize) {
        let (a, b) = (vdupq_n_f32(black_box(0.5)), vdupq_n_f32(black_box(1.0)));
        let mut sums = [b; SUMS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = vfmaq_f32(*sum, a, b);
            }
        }
        black_box(sums);
    }

    pub fn fma() -> Loop {
        // SAFETY: every CPU that Rust's targets for this architecture support has NEON.
        Loop { run: |rounds| unsafe { fma_neon(rounds) }, width: 4 }
    }

    pub fn int8() -> Option<Loop> {
        None
    }

    pub fn bf16() -> Option<Loop> {
        None
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod arch {
    use super::{Loop, SUMS};
    use std::hint::black_box;

    fn fma_portable(rounds: usize) {
        let (a, b) = (black_box(0.5f32), black_box(1.0f32));
        let mut sums = [[0.0f32; 4]; SUMS];
        for _ in 0..rounds {
            for sum in sums.as_flattened_mut() {
                *sum = *sum * a + b;
            }
        }
        black_box(sums);
    }

    pub fn fma() -> Loop {
        Loop { run: fma_portable, width: 4 }
    }

    pub fn int8() -> Option<Loop> {
        None
    }

    pub fn bf16() -> Option<Loop> {
        None
    }
}
