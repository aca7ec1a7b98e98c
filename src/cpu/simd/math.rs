//! Element functions as branch-free scalar code, which the compiler vectorizes in loops over slices.
//!
//! Every function takes the witness of the level that it is inlined into, and is correct for all floats, including NaN,
//! infinities, -0 and denormals. The stated bounds are in ULP of the exact result; tests check them on a progression
//! through all floats at every level. Polynomials are Chebyshev fits for the stated intervals.
//!
//! [`sin`], [`cos`] and [`tan`] leave the branch-free path for huge arguments; [`sin_slice`] and its siblings do so per
//! block, which keeps the loop vectorized.

#![expect(clippy::excessive_precision, reason = "constants keep the digits that round to the intended float")]

use super::Simd;
use std::f64::consts::FRAC_2_PI;

/// Adding this to a float of magnitude below 2^22 rounds it to an integer, which then is in the low bits of the sum.
const ROUND: f32 = 12582912.0;
/// [`ROUND`] for `f64`, for magnitudes below 2^51.
const ROUND_F64: f64 = 6755399441055744.0;

/// ln 2 in two parts. The first has 9 bits: its products with exponents are exact even without fused multiply-add.
const LN2_HIGH: f32 = 0.693359375;
const LN2_LOW: f32 = -0.000_212_194_44;

/// `c[0] * x^n + ... + c[n]`.
#[inline(always)]
pub(super) fn polynomial<S: Simd, const N: usize>(simd: S, x: f32, c: [f32; N]) -> f32 {
    let mut sum = c[0];
    for &c in &c[1..] {
        sum = simd.mul_add_scalar(sum, x, c);
    }
    sum
}

/// `a` if `condition`, else `b`: a bitwise select, which keeps the compiler from moving arithmetic behind a branch.
#[inline(always)]
pub(super) fn select(condition: bool, a: f32, b: f32) -> f32 {
    if condition { a } else { b }
}

/// `P` of `e^r = 1 + (r + r^2 P(r))` for `|r| <= ln 2 / 2`.
const EXP: [f32; 5] = [0.001_392_625_1, 0.008_363_233, 0.041_666_554, 0.166_665_77, 0.5];

/// `e^r` for `x = n ln 2 + r`.
#[inline(always)]
fn exp_of_rest<S: Simd>(simd: S, x: f32, n: f32) -> f32 {
    let r = simd.mul_add_scalar(n, -LN2_HIGH, x);
    let r = simd.mul_add_scalar(n, -LN2_LOW, r);
    simd.mul_add_scalar(r * r, polynomial(simd, r, EXP), r) + 1.0
}

/// `2^n` for -126 <= n <= 127, taken from the low bits of `n`. Other `n` (from NaN) return an unspecified float.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `e^x` for `x <= 0`, within 2 ULP. NaN stays NaN; results for `x > 0` are unspecified.
#[inline(always)]
fn exp_falling<S: Simd>(simd: S, x: f32) -> f32 {
    /// A power of two larger by 2^32 is a normal float even if the result is not.
    const SHIFT: i32 = 32;
    let x = select(x < -104.0, -104.0, x);
    let rounded = simd.mul_add_scalar(x, std::f32::consts::LOG2_E, ROUND);
    let power = power_of_two((rounded.to_bits() as i32).wrapping_add(SHIFT));
    exp_of_rest(simd, x, rounded - ROUND) * power * power_of_two(-SHIFT)
}

/// `e^x`, within 2 ULP.
#[inline(always)]
pub fn exp<S: Simd>(simd: S, x: f32) -> f32 {
    exp_scaled(simd, x, 0)
}

/// `e^x * 2^shift`, within 2 ULP, for a `shift` of 0 or -1.
#[inline(always)]
pub(super) fn exp_scaled<S: Simd>(simd: S, x: f32, shift: i32) -> f32 {
    // Beyond these bounds, the result is infinity or 0 in any case; NaN passes both selects.
    let x = select(x > 90.0, 90.0, x);
    let x = select(x < -104.0, -104.0, x);
    // x = n ln 2 + r with |r| <= ln 2 / 2.
    let rounded = simd.mul_add_scalar(x, std::f32::consts::LOG2_E, ROUND);
    let y = exp_of_rest(simd, x, rounded - ROUND);
    // 2^n in two factors, because 2^128 and 2^-150 are not floats. The first product is exact, so a denormal result is
    // rounded once.
    let n = (rounded.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32 - shift);
    let half = n >> 1;
    y * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// `e^x` of each lane for `x <= 0`, within 2 ULP down to the smallest normal float, and 0 below it. NaN stays NaN;
/// results for lanes above 0.3 are unspecified.
#[inline(always)]
pub fn exp_nonpositive<S: Simd>(simd: S, x: S::F32) -> S::F32 {
    /// [`ROUND`], with the bias of an exponent in its low bits.
    const BIASED: f32 = ROUND + 127.0;
    // The exponent at the lowest bound is that of 0.
    let x = simd.max(simd.splat(-88.0), x);
    let rounded = simd.mul_add(x, simd.splat(std::f32::consts::LOG2_E), simd.splat(BIASED));
    let n = simd.add(rounded, simd.splat(-BIASED));
    let r = simd.mul_add(n, simd.splat(-LN2_HIGH), x);
    let r = simd.mul_add(n, simd.splat(-LN2_LOW), r);
    let mut p = simd.splat(EXP[0]);
    for &c in &EXP[1..] {
        p = simd.mul_add(p, r, simd.splat(c));
    }
    let y = simd.add(simd.mul_add(simd.mul(r, r), p, r), simd.splat(1.0));
    simd.mul(y, simd.power_of_two(rounded))
}

/// The natural logarithm, within 2 ULP. NaN below 0, -infinity at 0.
#[inline(always)]
pub fn log<S: Simd>(simd: S, x: f32) -> f32 {
    let denormal = x < f32::MIN_POSITIVE;
    let scaled = select(denormal, x * 8388608.0, x);
    // x = 2^n (1 + f) with 1 + f between sqrt(1/2) and sqrt(2).
    let bits = (scaled.to_bits() as i32).wrapping_sub(0x3f35_04f3);
    let n = (bits >> 23) as f32 - select(denormal, 23.0, 0.0);
    let f = f32::from_bits(((bits & 0x007f_ffff) + 0x3f35_04f3) as u32) - 1.0;
    // log(1 + f) = f - f^2 / 2 + f^3 P(f), and the large part of n ln 2 is added last.
    let p = polynomial(
        simd,
        f,
        [
            0.069_716_115,
            -0.114_797_34,
            0.116_854_2,
            -0.124_256_87,
            0.142_490_58,
            -0.166_678_02,
            0.200_007_16,
            -0.249_999_97,
            0.333_333_31,
        ],
    );
    let square = f * f;
    let tail = simd.mul_add_scalar(n, LN2_LOW, square * f * p);
    let y = simd.mul_add_scalar(square, -0.5, tail) + f;
    let y = simd.mul_add_scalar(n, LN2_HIGH, y);
    let y = select(x == f32::INFINITY, f32::INFINITY, y);
    let y = select(x == 0.0, f32::NEG_INFINITY, y);
    select(x >= 0.0, y, f32::NAN)
}

/// The hyperbolic tangent, within 6 ULP and in [-1, 1]; exactly 1 or -1 from 8.2 on.
#[inline(always)]
pub fn tanh<S: Simd>(simd: S, x: f32) -> f32 {
    /// The largest float whose quotient is exactly 1 with and without fused multiply-add, and none below is larger.
    const BOUND: f32 = 8.109_171_9;
    let x = select(x > BOUND, BOUND, x);
    let x = select(x < -BOUND, -BOUND, x);
    let s = x * x;
    x * polynomial(
        simd,
        s,
        [
            -5.641_676_2e-14,
            4.087_417_2e-11,
            -1.758_378_9e-8,
            1.046_749_9e-5,
            0.003_036_098_3,
            0.130_225_53,
            0.999_999_87,
        ],
    ) / polynomial(simd, s, [0.000_244_866_09, 0.024_222_764, 0.463_558_39, 1.0])
}

/// `1 / (1 + e^-x)`, within 4 ULP and in [0, 1].
#[inline(always)]
pub fn sigmoid<S: Simd>(simd: S, x: f32) -> f32 {
    /// 1 and e^-x are scaled by 2^-32 to keep e^104, which makes the result 0, within the range of floats.
    const SCALE: i32 = -32;
    // Above 40 the result is 1; NaN passes both selects.
    let y = select(x > 40.0, -40.0, -x);
    let y = select(y > 104.0, 104.0, y);
    let rounded = simd.mul_add_scalar(y, std::f32::consts::LOG2_E, ROUND);
    let power = power_of_two((rounded.to_bits() as i32).wrapping_add(SCALE));
    let one = power_of_two(SCALE);
    one / simd.mul_add_scalar(exp_of_rest(simd, y, rounded - ROUND), power, one)
}

/// `ln(1 + e^x)`, within 4 ULP.
#[inline(always)]
pub fn softplus<S: Simd>(simd: S, x: f32) -> f32 {
    // max(x, 0) + ln(1 + e) with e = e^-|x| in (0, 1].
    let e = exp_falling(simd, -x.abs());
    let u = 1.0 + e;
    // The derivative of the logarithm recovers the rounding error of 1 + e.
    let tail = log(simd, u) + (e - (u - 1.0)) / u;
    select(x > 0.0, x, 0.0) + tail
}

/// Half the scaled complementary error function: `erfc(y / sqrt 2) e^(y^2 / 2) / 2` for `0 <= y <= 14.5`.
#[inline(always)]
fn normal_tail<S: Simd>(simd: S, y: f32) -> f32 {
    let sum = 1.0 / (y + 4.0);
    let u = (y - 4.0) * sum;
    let p = polynomial(
        simd,
        u,
        [
            -5.264_565e-5,
            -0.000_234_621_76,
            0.000_169_355_46,
            0.001_646_295_6,
            -0.003_488_075_5,
            -0.007_545_268,
            0.060_397_294,
            -0.186_521_31,
            0.387_137_38,
            -0.607_896_66,
            0.755_285_13,
        ],
    );
    p * sum
}

/// The error function, within 4 ULP and in [-1, 1].
#[inline(always)]
pub fn erf<S: Simd>(simd: S, x: f32) -> f32 {
    let a = x.abs();
    let s = x * x;
    let p = polynomial(
        simd,
        s,
        [
            -1.009_002_7e-5,
            0.000_113_967_386,
            -0.000_849_989_1,
            0.005_221_974_3,
            -0.026_865_717,
            0.112_837_866,
            -0.376_126_4,
            0.128_379_17,
        ],
    );
    let near_zero = simd.mul_add_scalar(a, p, a);
    // Beyond 4.2 the result is 1; the tail is fitted up to 14.5 / sqrt 2.
    let b = select(a > 9.0, 9.0, a);
    let far = 1.0 - 2.0 * exp_falling(simd, -b * b) * normal_tail(simd, b * std::f32::consts::SQRT_2);
    select(a < 0.92, near_zero, far).copysign(x)
}

/// `x (1 + erf(x / sqrt 2)) / 2`, within 16 ULP where the result is at least 1e-6 in magnitude; -0 at -infinity.
#[inline(always)]
pub fn gelu<S: Simd>(simd: S, x: f32) -> f32 {
    // With a = |x| and t = erfc(a / sqrt 2) / 2 = e^(-a^2 / 2) tail(a), the result is a - a t or -a t: no
    // cancellation on either side.
    let a = x.abs();
    let b = select(a > 14.5, 14.5, a);
    // Rounding a^2 / 2 would be magnified by the exponential; the square of the upper 12 bits is exact.
    let upper = f32::from_bits(b.to_bits() & 0xffff_f000);
    let low = (upper - b) * (upper + b) * 0.5;
    let power = exp_falling(simd, upper * upper * -0.5);
    // e^low; its cube is below the precision of a float.
    let correction = low * simd.mul_add_scalar(low, 0.5, 1.0);
    let t = simd.mul_add_scalar(power, correction, power) * normal_tail(simd, b);
    let negative = -b * t;
    let positive = simd.mul_add_scalar(-a, t, a);
    let positive = select(a > 14.5, a, positive);
    select(x < 0.0, negative, positive + select(x == 0.0, x, 0.0))
}

/// `base^exponent`, rounded from a result within 1e-9 of the exact one (0.51 ULP), with the special cases of C: 1 for
/// an exponent of 0 and for a base of 1, NaN for a negative base with a fractional exponent.
#[inline(always)]
pub fn pow(base: f32, exponent: f32) -> f32 {
    let (a, y) = (base.abs() as f64, exponent as f64);
    // |base| = 2^e (1 + s) / (1 - s), with the quotient between sqrt(1/2) and sqrt(2).
    let bits = a.to_bits().wrapping_add((1024 << 52) - SQRT_HALF_BITS);
    let e = f64::from_bits((bits >> 52) + INTEGERS.to_bits()) - (INTEGERS + 1024.0);
    let m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) + SQRT_HALF_BITS);
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    // Series of the inverse hyperbolic tangent; s^2 <= 0.0295.
    let p = 1.0 / 13.0;
    let p = p * square + 1.0 / 11.0;
    let p = p * square + 1.0 / 9.0;
    let p = p * square + 1.0 / 7.0;
    let p = p * square + 0.2;
    let p = p * square + 1.0 / 3.0;
    let p = p * square + 1.0;
    let log2 = e + s * p * (2.0 * std::f64::consts::LOG2_E);
    let log2 = if a == 0.0 { f64::NEG_INFINITY } else { log2 };
    let log2 = if a == f64::INFINITY { f64::INFINITY } else { log2 };
    let t = if a == 1.0 || exponent == 0.0 { 0.0 } else { y * log2 };
    // Beyond these bounds the result is infinity or 0.
    let t = if t > 200.0 { 200.0 } else { t };
    let t = if t < -200.0 { -200.0 } else { t };
    let rounded = t + ROUND_F64;
    let r = (t - (rounded - ROUND_F64)) * std::f64::consts::LN_2;
    // Taylor series; |r| <= 0.347.
    let p = 1.0 / 362880.0;
    let p = p * r + 1.0 / 40320.0;
    let p = p * r + 1.0 / 5040.0;
    let p = p * r + 1.0 / 720.0;
    let p = p * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    let p = p * r + 1.0;
    let p = p * r + 1.0;
    let n = rounded.to_bits().wrapping_sub(ROUND_F64.to_bits());
    let magnitude = (p * f64::from_bits(n.wrapping_add(1023) << 52)) as f32;
    let magnitude = select(t.is_nan() | base.is_nan(), f32::NAN, magnitude);
    let whole = exponent.trunc() == exponent;
    let half = exponent * 0.5;
    let odd = whole & (half.trunc() != half);
    let signed = select(odd, f32::from_bits(magnitude.to_bits() | (base.to_bits() & 0x8000_0000)), magnitude);
    let undefined = (base < 0.0) & !whole & (base != f32::NEG_INFINITY);
    let defined = select(undefined, f32::NAN, signed);
    select((base == 1.0) | (exponent == 0.0), 1.0, defined)
}

/// The bits of a number slightly below sqrt(1/2).
const SQRT_HALF_BITS: u64 = 0x3fe6_a09e_0000_0000;
/// 2^52: adding a small integer to its bits adds it to the value.
const INTEGERS: f64 = 4_503_599_627_370_496.0;

/// Up to this magnitude, the branch-free reduction by multiples of pi/2 is accurate enough for every float.
const MAX_REDUCED: f32 = 1e6;

/// pi/2 in two parts. The first has 33 bits: its products with integers below 2^20 are exact.
const FRAC_PI_2_HIGH: f64 = 1.570_796_326_734_125_6;
const FRAC_PI_2_LOW: f64 = 6.077_100_506_506_192_6e-11;

/// The sine and cosine of `x` reduced to [-pi/4, pi/4], and the number of quarter turns subtracted. Computed in `f64`:
/// a float near a multiple of pi/2 loses up to 28 bits in the reduction.
#[inline(always)]
fn reduced(x: f32) -> (f64, f64, u64) {
    let x = x as f64;
    let rounded = x * FRAC_2_PI + ROUND_F64;
    let n = rounded - ROUND_F64;
    let r = (x - n * FRAC_PI_2_HIGH) - n * FRAC_PI_2_LOW;
    let s = r * r;
    let p = ((2.724_931_405_469_880_5e-6 * s - 0.000_198_400_820_127_655_37) * s + 0.008_333_331_865_959_414) * s
        - 0.166_666_666_638_327_64;
    let q = ((2.446_311_670_243_832_5e-5 * s - 0.001_388_758_397_081_767_5) * s + 0.041_666_650_548_440_198) * s
        - 0.499_999_999_688_719_81;
    (r + r * s * p, 1.0 + s * q, rounded.to_bits())
}

/// The sign bit of a float, set if bit 1 of `quarter` is.
#[inline(always)]
fn flip(x: f64, quarter: u64) -> f64 {
    f64::from_bits(x.to_bits() ^ ((quarter & 2) << 62))
}

#[inline(always)]
fn sin_reduced(x: f32) -> f32 {
    let (sin, cos, n) = reduced(x);
    let y = flip(if n & 1 == 0 { sin } else { cos }, n) as f32;
    // -0 would become +0.
    select(x == 0.0, x, y)
}

#[inline(always)]
fn cos_reduced(x: f32) -> f32 {
    let (sin, cos, n) = reduced(x);
    flip(if n & 1 == 0 { cos } else { sin }, n.wrapping_add(n & 1)) as f32
}

#[inline(always)]
fn tan_reduced(x: f32) -> f32 {
    let (sin, cos, n) = reduced(x);
    let even = n & 1 == 0;
    let y = (if even { sin } else { -cos } / if even { cos } else { sin }) as f32;
    select(x == 0.0, x, y)
}

macro_rules! periodic {
    ($($name:ident, $slice:ident, $reduced:ident, $large:ident, $std:ident, $doc:literal;)*) => {$(
        #[doc = concat!("The ", $doc, " of `x` in radians, within 2 ULP. NaN for the infinities.")]
        #[inline(always)]
        pub fn $name<S: Simd>(_: S, x: f32) -> f32 {
            if x.abs() <= MAX_REDUCED { $reduced(x) } else { $large(x) }
        }

        #[doc = concat!("[`", stringify!($name), "`] of every element, in place, vectorized.")]
        #[inline(always)]
        pub fn $slice<S: Simd>(simd: S, xs: &mut [f32]) {
            for block in xs.chunks_mut(256) {
                if block.iter().fold(true, |all, x| all & (x.abs() <= MAX_REDUCED)) {
                    block.iter_mut().for_each(|x| *x = $reduced(*x));
                } else {
                    block.iter_mut().for_each(|x| *x = $name(simd, *x));
                }
            }
        }

        #[cold]
        fn $large(x: f32) -> f32 {
            (x as f64).$std() as f32
        }
    )*};
}

periodic! {
    sin, sin_slice, sin_reduced, sin_large, sin, "sine";
    cos, cos_slice, cos_reduced, cos_large, cos, "cosine";
    tan, tan_slice, tan_reduced, tan_large, tan, "tangent";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::angles::*;
    use crate::cpu::simd::{Isa, Kernel};

    /// Runs one function in a loop over a slice, as kernels do.
    struct Map<'a>(&'a str, &'a mut [f32]);

    impl Kernel for Map<'_> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            macro_rules! each {
                ($f:ident) => {
                    self.1.iter_mut().for_each(|x| *x = $f(simd, *x))
                };
            }
            match self.0 {
                "exp" => each!(exp),
                "log" => each!(log),
                "tanh" => each!(tanh),
                "sigmoid" => each!(sigmoid),
                "softplus" => each!(softplus),
                "erf" => each!(erf),
                "gelu" => each!(gelu),
                "acos" => each!(acos),
                "acosh" => each!(acosh),
                "asin" => each!(asin),
                "asinh" => each!(asinh),
                "atan" => each!(atan),
                "atanh" => each!(atanh),
                "cosh" => each!(cosh),
                "sinh" => each!(sinh),
                "sin" => sin_slice(simd, self.1),
                "cos" => cos_slice(simd, self.1),
                "tan" => tan_slice(simd, self.1),
                "sin of one" => each!(sin),
                other => unreachable!("{other}"),
            }
        }
    }

    /// A progression through all floats of both signs, plus special values and boundaries.
    fn floats() -> Vec<f32> {
        let mut xs: Vec<f32> = (0..u32::MAX).step_by(60_013).map(f32::from_bits).collect();
        // Most of the floats above are tiny or huge; these cover the range where the functions are curved.
        xs.extend((-120_000..120_000).map(|i| i as f32 * 1.000_123e-3));
        xs.extend((-40_000..40_000).map(|i| i as f32 * 0.250_321));
        let special = [
            0.0,
            1.0,
            0.625,
            0.92,
            89.0,
            88.72284,
            104.0,
            103.9,
            87.4,
            1e6,
            14.5,
            f32::MIN_POSITIVE,
            1e-45,
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
        ];
        xs.extend(special.iter().flat_map(|&x| [x, -x, x.next_up(), x.next_down()]));
        xs
    }

    /// The distance from `got` to the exact value, in ULP of the exact value.
    fn ulps(got: f32, exact: f64) -> f64 {
        let rounded = exact as f32;
        if got.to_bits() == rounded.to_bits() || (got.is_nan() && rounded.is_nan()) {
            return 0.0;
        }
        if got == 0.0 && rounded == 0.0 && exact == 0.0 {
            return f64::INFINITY; // the sign of an exact zero
        }
        if !got.is_finite() || !rounded.is_finite() {
            return if got.is_nan() || rounded.is_nan() {
                f64::INFINITY
            } else {
                (got.is_finite() as u8 + rounded.is_finite() as u8) as f64
            };
        }
        let exponent = (rounded.abs().max(f32::MIN_POSITIVE).to_bits() >> 23) as i32 - 127;
        (got as f64 - exact).abs() / 2f64.powi(exponent - 23)
    }

    fn check(
        name: &str,
        bound: f64,
        range: (f32, f32),
        reference: impl Fn(f64) -> f64,
        relevant: impl Fn(f64) -> bool,
    ) {
        let xs = floats();
        for isa in Isa::available() {
            let mut got = xs.clone();
            isa.run(Map(name, &mut got));
            let mut worst = (0.0, 0.0, 0.0);
            for (&x, &y) in xs.iter().zip(&got) {
                let exact = reference(x as f64);
                assert!(y.is_nan() == exact.is_nan(), "{name}({x:e}) on {isa:?} is {y}, expected {exact}");
                assert!(!(y < range.0 || y > range.1), "{name}({x:e}) on {isa:?} is {y}, outside {range:?}");
                let distance = ulps(y, exact);
                if relevant(exact) && distance > worst.0 {
                    worst = (distance, x, y);
                }
            }
            let (distance, x, y) = worst;
            println!("{name} on {isa:?}: {distance:.2} ULP at {x:e}");
            let exact = reference(x as f64);
            assert!(distance <= bound, "{name}({x:e}) on {isa:?} is {y:e}, {distance} ULP from {exact:e}");
        }
    }

    const ALL: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

    #[test]
    fn exp_and_log() {
        check("exp", 2.0, (0.0, f32::INFINITY), f64::exp, |_| true);
        check("log", 2.0, ALL, f64::ln, |_| true);
    }

    #[test]
    fn sigmoid_tanh_softplus() {
        check("tanh", 6.0, (-1.0, 1.0), f64::tanh, |_| true);
        check("sigmoid", 4.0, (0.0, 1.0), |x| 1.0 / (1.0 + (-x).exp()), |_| true);
        check("softplus", 4.0, (0.0, f32::INFINITY), |x| x.max(0.0) + (-x.abs()).exp().ln_1p(), |_| true);
    }

    #[test]
    fn large_arguments_saturate_exactly() {
        let xs: Vec<f32> = floats().into_iter().filter(|x| x.abs() >= 18.0).collect();
        type Limit = fn(f32) -> f32;
        let limits: [(&str, Limit); 3] = [
            ("tanh", |x| 1f32.copysign(x)),
            ("erf", |x| 1f32.copysign(x)),
            ("sigmoid", |x| (1.0 / (1.0 + (-x as f64).exp())) as f32),
        ];
        for isa in Isa::available() {
            for (name, limit) in limits {
                let mut got = xs.clone();
                isa.run(Map(name, &mut got));
                for (&x, y) in xs.iter().zip(got).filter(|(x, _)| name != "sigmoid" || **x > 0.0) {
                    assert_eq!(y, limit(x), "{name}({x:e}) on {isa:?}");
                }
            }
            // Its limits are x and 0.
            let mut got = xs.clone();
            isa.run(Map("gelu", &mut got));
            for (&x, y) in xs.iter().zip(got) {
                assert_eq!(y, x.max(0.0), "gelu({x:e}) on {isa:?}");
            }
        }
    }

    #[test]
    fn erf_and_gelu() {
        check("erf", 4.0, (-1.0, 1.0), libm::erf, |_| true);
        let gelu =
            |x: f64| if x == f64::NEG_INFINITY { -0.0 } else { x * 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2) };
        check("gelu", 16.0, (-0.17, f32::INFINITY), gelu, |y| y.is_nan() || y.abs() > 1e-6);
    }

    #[test]
    fn powers() {
        struct All<'a>(&'a [f32], &'a [f32], &'a mut [f32]);
        impl Kernel for All<'_> {
            type Output = ();
            #[inline(always)]
            fn run<S: Simd>(self, _: S) {
                for ((&x, &y), out) in self.0.iter().zip(self.1).zip(self.2) {
                    *out = pow(x, y);
                }
            }
        }
        let special: Vec<f32> = [
            0.0,
            1.0,
            2.0,
            3.0,
            0.5,
            0.333,
            2.25,
            1e-45,
            1e-38,
            1e30,
            16_777_215.0,
            16_777_216.0,
            f32::MAX,
            f32::INFINITY,
        ]
        .iter()
        .flat_map(|&x| [x, -x])
        .chain([f32::NAN])
        .collect();
        let mut pairs: Vec<(f32, f32)> = special.iter().flat_map(|&x| special.iter().map(move |&y| (x, y))).collect();
        let bases = (0..u32::MAX).step_by(130_003).map(f32::from_bits);
        pairs.extend(
            bases.enumerate().map(|(i, x)| (x, ((i % 2001) as f32 - 1000.0) * 0.037 / (1.0 + x.abs().ln().abs()))),
        );
        pairs.extend((1..40_000).map(|i| (i as f32 * 1e-3, (i % 97) as f32 - 48.5)));
        let (x, y): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        for isa in Isa::available() {
            let mut got = vec![f32::NAN; x.len()];
            isa.run(All(&x, &y, &mut got));
            for ((&x, &y), &got) in x.iter().zip(&y).zip(&got) {
                let exact = (x as f64).powf(y as f64);
                let rounded = exact as f32;
                let same = got == rounded && got.is_sign_negative() == rounded.is_sign_negative();
                assert!(same || ulps(got, exact) <= 0.52, "{x:e}^{y:e} on {isa:?} is {got:e}, expected {exact:e}");
            }
        }
    }

    #[test]
    fn trigonometry() {
        check("sin", 2.0, (-1.0, 1.0), f64::sin, |_| true);
        check("cos", 2.0, (-1.0, 1.0), f64::cos, |_| true);
        check("tan", 2.0, ALL, f64::tan, |_| true);
        check("sin of one", 2.0, (-1.0, 1.0), f64::sin, |_| true);
    }

    #[test]
    fn inverse_trigonometry() {
        use std::f64::consts::{FRAC_PI_2, PI};
        let limit = |x: f64| (x as f32).next_up();
        check("atan", 3.0, (-limit(FRAC_PI_2), limit(FRAC_PI_2)), f64::atan, |_| true);
        check("asin", 3.0, (-limit(FRAC_PI_2), limit(FRAC_PI_2)), f64::asin, |_| true);
        check("acos", 3.0, (0.0, limit(PI)), f64::acos, |_| true);
    }

    #[test]
    fn hyperbolic_functions() {
        check("sinh", 3.0, ALL, f64::sinh, |_| true);
        check("cosh", 3.0, (0.999_999, f32::INFINITY), f64::cosh, |_| true);
        check("asinh", 3.0, ALL, libm::asinh, |_| true);
        check("acosh", 3.0, (0.0, f32::INFINITY), f64::acosh, |_| true);
        check("atanh", 3.0, ALL, libm::atanh, |_| true);
    }
}
