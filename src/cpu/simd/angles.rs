//! The inverse trigonometric and the hyperbolic functions, written like those of [`math`](super::math).

#![expect(clippy::excessive_precision, reason = "constants keep the digits that round to the intended float")]

use super::Simd;
use super::math::{exp_scaled, log, polynomial, select};
use std::f32::consts::{FRAC_PI_2, LN_2, PI};

/// What [`FRAC_PI_2`] lacks of pi/2; [`PI`] lacks twice as much of pi.
const FRAC_PI_2_REST: f32 = -4.371_138_8e-8;

/// `P` of `atan(x) = x + x^3 P(x^2)` for `|x| <= 1`.
const ATAN: [f32; 9] = [
    -0.002_386_997_22,
    0.013_507_771_3,
    -0.035_871_539_3,
    0.062_501_691_3,
    -0.086_568_802_6,
    0.110_337_645,
    -0.142_785_683,
    0.199_997_395,
    -0.333_333_313,
];
/// The same of `asin` for `|x| <= 1/2`.
const ASIN: [f32; 6] =
    [0.033_690_847_5, 0.017_149_237_9, 0.031_100_662_4, 0.044_599_402_7, 0.075_000_941_8, 0.166_666_657];
/// The same of `asinh`.
const ASINH: [f32; 6] =
    [0.009_936_504_07, -0.020_526_792_9, 0.030_156_178_4, -0.044_630_020_9, 0.074_999_727_3, -0.166_666_672];
/// The same of `atanh`.
const ATANH: [f32; 6] = [0.157_517_806, 0.064_934_894_4, 0.114_698_753, 0.142_639_801, 0.200_004_727, 0.333_333_313];
/// The same of `sinh` for `|x| <= 1`.
const SINH: [f32; 4] = [2.806_280_24e-6, 0.000_198_381_022, 0.008_333_339_36, 0.166_666_672];

/// From here on, the square of a number hides 1.
const HUGE: f32 = 4096.0;

/// `x + x^3 P(x^2)`.
#[inline(always)]
fn odd<S: Simd, const N: usize>(simd: S, x: f32, p: [f32; N]) -> f32 {
    let s = x * x;
    simd.mul_add_scalar(x * s, polynomial(simd, s, p), x)
}

/// `pi / 2 - y`.
#[inline(always)]
fn complement(y: f32) -> f32 {
    FRAC_PI_2 + (FRAC_PI_2_REST - y)
}

/// `ln(x + root)`, where `root` is about `x` if `x` is huge.
#[inline(always)]
fn log_of_sum<S: Simd>(simd: S, x: f32, root: f32) -> f32 {
    let huge = x > HUGE;
    log(simd, select(huge, x, x + root)) + select(huge, LN_2, 0.0)
}

/// The inverse tangent, within 3 ULP.
#[inline(always)]
pub fn atan<S: Simd>(simd: S, x: f32) -> f32 {
    let a = x.abs();
    let is_large = a > 1.0;
    let y = odd(simd, select(is_large, 1.0 / a, a), ATAN);
    select(is_large, complement(y), y).copysign(x)
}

/// The inverse sine, within 3 ULP. NaN beyond 1.
#[inline(always)]
pub fn asin<S: Simd>(simd: S, x: f32) -> f32 {
    let a = x.abs();
    let is_large = a > 0.5;
    // asin(a) = pi / 2 - 2 asin(sqrt((1 - a) / 2)).
    let y = odd(simd, select(is_large, (0.5 * (1.0 - a)).sqrt(), a), ASIN);
    select(is_large, complement(2.0 * y), y).copysign(x)
}

/// The inverse cosine, within 3 ULP. NaN beyond 1.
#[inline(always)]
pub fn acos<S: Simd>(simd: S, x: f32) -> f32 {
    let a = x.abs();
    let is_large = a > 0.5;
    let y = odd(simd, select(is_large, (0.5 * (1.0 - a)).sqrt(), x), ASIN);
    let twice = 2.0 * y;
    let far = select(x < 0.0, PI + (2.0 * FRAC_PI_2_REST - twice), twice);
    select(is_large, far, complement(y))
}

/// The inverse hyperbolic sine, within 3 ULP.
#[inline(always)]
pub fn asinh<S: Simd>(simd: S, x: f32) -> f32 {
    let a = x.abs();
    let far = log_of_sum(simd, a, simd.mul_add_scalar(a, a, 1.0).sqrt());
    select(a < 0.5, odd(simd, a, ASINH), far).copysign(x)
}

/// The inverse hyperbolic cosine, within 3 ULP. NaN below 1.
#[inline(always)]
pub fn acosh<S: Simd>(simd: S, x: f32) -> f32 {
    let t = x - 1.0;
    // acosh(x) = 2 asinh(sqrt((x - 1) / 2)), which is NaN below 1.
    let near = 2.0 * odd(simd, (0.5 * t).sqrt(), ASINH);
    select(t < 0.5, near, log_of_sum(simd, x, (t * (x + 1.0)).sqrt()))
}

/// The inverse hyperbolic tangent, within 3 ULP. NaN beyond 1.
#[inline(always)]
pub fn atanh<S: Simd>(simd: S, x: f32) -> f32 {
    let a = x.abs();
    let far = 0.5 * log(simd, (1.0 + a) / (1.0 - a));
    select(a < 0.5, odd(simd, a, ATANH), far).copysign(x)
}

/// The hyperbolic sine, within 3 ULP.
#[inline(always)]
pub fn sinh<S: Simd>(simd: S, x: f32) -> f32 {
    let a = x.abs();
    let half = exp_scaled(simd, a, -1);
    select(a < 1.0, odd(simd, a, SINH), half - 0.25 / half).copysign(x)
}

/// The hyperbolic cosine, within 3 ULP.
#[inline(always)]
pub fn cosh<S: Simd>(simd: S, x: f32) -> f32 {
    let half = exp_scaled(simd, x.abs(), -1);
    half + 0.25 / half
}
