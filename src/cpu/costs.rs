//! What work costs: nanoseconds per multiply-add of the formats of operands. They decide how products are cut into tiles,
//! and which are worth sharing between threads; results do not depend on them.

use super::product::formats::ByteFormat;
#[cfg(target_arch = "x86_64")]
use super::simd::dot::DotLevel;

/// Of floats: a core with AVX-512 does at best 125 per nanosecond, typically 80. Costs in multiply-adds are in this unit.
pub const MULTIPLY_ADD: f64 = 1.0 / 80.0;

/// Of bytes.
pub fn byte_multiply_add(format: ByteFormat) -> f64 {
    let per_nanosecond = match format {
        #[cfg(target_arch = "x86_64")]
        ByteFormat::Words(DotLevel::Avx512Vnni(_)) => 180.0,
        #[cfg(target_arch = "x86_64")]
        ByteFormat::Words(DotLevel::Avx512Narrow(_) | DotLevel::AvxVnni(_)) => 120.0,
        #[cfg(target_arch = "x86_64")]
        ByteFormat::Words(DotLevel::Avx512(_)) => 100.0,
        #[cfg(target_arch = "x86_64")]
        ByteFormat::Words(DotLevel::Avx2(_)) => 70.0,
        ByteFormat::Words(_) => 10.0,
        // Estimates, not measured: half of the peak rate of two units at 2.5 GHz.
        #[cfg(target_arch = "aarch64")]
        ByteFormat::Smull(_) => 10.0,
        #[cfg(target_arch = "aarch64")]
        ByteFormat::Sdot(_) => 40.0,
        #[cfg(target_arch = "aarch64")]
        ByteFormat::Smmla(_) => 80.0,
    };
    1.0 / per_nanosecond
}

/// The cost of `count` multiply-adds of bytes, in multiply-adds of floats.
pub fn bytes_as_floats(format: ByteFormat, count: usize) -> usize {
    (count as f64 * byte_multiply_add(format) / MULTIPLY_ADD) as usize
}
