//! Floating-point arithmetic and functions.

use super::{map, zip};
use crate::cpu::simd::{Isa, Kernel, Simd, angles, math};
use crate::ops::elementwise::Elementwise::{self, self as E};
use crate::ops::elementwise::TANH_GELU;

/// Applies a unary operator from float32 to float32.
///
/// # Panics
/// If `op` is not one.
pub fn unary_float(isa: Isa, op: Elementwise, x: &[f32], out: &mut [f32]) {
    isa.run(UnaryFloat { op, over: Between { x, out } });
}

/// Like [`unary_float`], in place.
pub fn unary_float_in_place(isa: Isa, op: Elementwise, values: &mut [f32]) {
    isa.run(UnaryFloat { op, over: InPlace(values) });
}

/// Applies a binary operator from float32 to float32.
///
/// # Panics
/// If `op` is not one.
pub fn binary_float(isa: Isa, op: Elementwise, x: &[f32], y: &[f32], out: &mut [f32]) {
    isa.run(BinaryFloat { op, x, y, out });
}

/// Like [`binary_float`], with one `y` for all elements.
///
/// # Panics
/// If `op` is not one.
pub fn binary_float_uniform(isa: Isa, op: Elementwise, x: &[f32], y: f32, out: &mut [f32]) {
    match op {
        E::Pow => isa.run(PowConstant { x, exponent: y, out }),
        _ => isa.run(Uniform { op, x, y, out }),
    }
}

/// `out[i] = x[i] * scale + shift`, rounded twice.
pub fn scale_and_shift(isa: Isa, x: &[f32], scale: f32, shift: f32, out: &mut [f32]) {
    isa.run(ScaleAndShift { x, scale, shift, out });
}

/// The larger of both; NaN if either is NaN.
#[inline(always)]
fn max(a: f32, b: f32) -> f32 {
    if a.is_nan() || a > b { a } else { b }
}

/// The smaller of both; NaN if either is NaN.
#[inline(always)]
fn min(a: f32, b: f32) -> f32 {
    if a.is_nan() || a < b { a } else { b }
}

/// `a * x + b` of exact floats, rounded once except for the last bit of float64. In float32, a sum near 0 would lose
/// all digits on a CPU without fused multiply-add.
#[inline(always)]
fn linear(a: f64, x: f32, b: f64) -> f32 {
    (a * x as f64 + b) as f32
}

/// `x * gate`, and 0 for a gate of 0.
#[inline(always)]
fn gated(x: f32, gate: f32) -> f32 {
    if gate == 0.0 { -0.0 } else { x * gate }
}

/// `e^x - 1`, within 5 ULP for x <= 0.
#[inline(always)]
fn exp_m1<S: Simd>(simd: S, x: f32) -> f32 {
    // Taylor series: x^9 / 9! is below half a unit in the last place for |x| <= 0.4.
    const C: [f32; 6] = [1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0];
    let mut p = C[0];
    for &c in &C[1..] {
        p = simd.mul_add_scalar(p, x, c);
    }
    let near_zero = simd.mul_add_scalar(x * x, simd.mul_add_scalar(p, x, 0.5), x);
    let far = math::exp(simd, x) - 1.0;
    if x.abs() < 0.4 { near_zero } else { far }
}

/// The input and output of a unary operator.
trait Over<'a> {
    /// Writes `f` of each element.
    fn map(self, f: impl Fn(f32) -> f32);
    /// Copies the elements to the output and returns it.
    fn copied(self) -> &'a mut [f32];
}

/// From one slice to another.
struct Between<'a> {
    x: &'a [f32],
    out: &'a mut [f32],
}

impl<'a> Over<'a> for Between<'a> {
    #[inline(always)]
    fn map(self, f: impl Fn(f32) -> f32) {
        map(self.x, self.out, f);
    }

    #[inline(always)]
    fn copied(self) -> &'a mut [f32] {
        self.out.copy_from_slice(self.x);
        self.out
    }
}

struct InPlace<'a>(&'a mut [f32]);

impl<'a> Over<'a> for InPlace<'a> {
    #[inline(always)]
    fn map(self, f: impl Fn(f32) -> f32) {
        for x in self.0 {
            *x = f(*x);
        }
    }

    #[inline(always)]
    fn copied(self) -> &'a mut [f32] {
        self.0
    }
}

struct UnaryFloat<O> {
    op: Elementwise,
    over: O,
}

impl<'a, O: Over<'a>> Kernel for UnaryFloat<O> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let UnaryFloat { op, over } = self;
        match op {
            E::Abs => over.map(f32::abs),
            E::Ceil => over.map(f32::ceil),
            E::Floor => over.map(f32::floor),
            E::RoundEven => over.map(f32::round_ties_even),
            E::Neg => over.map(|x| -x),
            E::Reciprocal => over.map(|x| 1.0 / x),
            E::Sign => over.map(|x| (x > 0.0) as i32 as f32 - (x < 0.0) as i32 as f32),
            E::Sqrt => over.map(f32::sqrt),
            E::Relu => over.map(|x| max(x, 0.0)),
            E::Softsign => over.map(|x| x / (1.0 + x.abs())),
            // Divides first: six times a large number is infinite.
            E::HardSwish => over.map(|x| x * (max(0.0, min(x + 3.0, 6.0)) / 6.0)),
            E::HardSigmoid { alpha, beta } => over.map(|x| min(max(linear(alpha, x, beta), 0.0), 1.0)),
            E::LeakyRelu { alpha } => {
                let alpha = alpha as f32;
                over.map(|x| if x < 0.0 { alpha * x } else { x });
            }
            E::Linear { alpha, beta } => over.map(|x| linear(alpha, x, beta)),
            E::Clamp { min: low, max: high } => {
                let (low, high) = (low.to_f64() as f32, high.to_f64() as f32);
                over.map(|x| min(max(x, low), high));
            }
            _ => transcendental(simd, op, over),
        }
    }
}

#[inline(always)]
fn transcendental<'a, S: Simd>(simd: S, op: Elementwise, over: impl Over<'a>) {
    match op {
        E::Erf => over.map(|x| math::erf(simd, x)),
        E::Exp => over.map(|x| math::exp(simd, x)),
        E::Log => over.map(|x| math::log(simd, x)),
        E::Sigmoid => over.map(|x| math::sigmoid(simd, x)),
        E::Silu => over.map(|x| x * math::sigmoid(simd, x)),
        E::Tanh => over.map(|x| math::tanh(simd, x)),
        E::Softplus => over.map(|x| math::softplus(simd, x)),
        E::Gelu => over.map(|x| math::gelu(simd, x)),
        E::Acos => over.map(|x| angles::acos(simd, x)),
        E::Acosh => over.map(|x| angles::acosh(simd, x)),
        E::Asin => over.map(|x| angles::asin(simd, x)),
        E::Asinh => over.map(|x| angles::asinh(simd, x)),
        E::Atan => over.map(|x| angles::atan(simd, x)),
        E::Atanh => over.map(|x| angles::atanh(simd, x)),
        E::Cosh => over.map(|x| angles::cosh(simd, x)),
        E::Sinh => over.map(|x| angles::sinh(simd, x)),
        E::Swish { alpha } => {
            let alpha = alpha as f32;
            over.map(|x| gated(x, math::sigmoid(simd, alpha * x)));
        }
        E::TanhGelu => {
            let [a, b] = TANH_GELU.map(|x| x as f32);
            over.map(|x| gated(x, math::sigmoid(simd, x * simd.mul_add_scalar(x * x, b, a))));
        }
        E::Elu { alpha } => {
            let alpha = alpha as f32;
            over.map(|x| if x > 0.0 { x } else { alpha * exp_m1(simd, x) });
        }
        E::Sin | E::Cos | E::Tan => {
            let values = over.copied();
            match op {
                E::Sin => math::sin_slice(simd, values),
                E::Cos => math::cos_slice(simd, values),
                _ => math::tan_slice(simd, values),
            }
        }
        _ => unreachable!("{op:?} is not a unary operator on floats"),
    }
}

struct BinaryFloat<'a> {
    op: Elementwise,
    x: &'a [f32],
    y: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for BinaryFloat<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let BinaryFloat { op, x, y, out } = self;
        match op {
            E::Add => zip(x, y, out, |x, y| x + y),
            E::Sub => zip(x, y, out, |x, y| x - y),
            E::Mul => zip(x, y, out, |x, y| x * y),
            E::Div => zip(x, y, out, |x, y| x / y),
            E::Max => zip(x, y, out, max),
            E::Min => zip(x, y, out, min),
            E::Pow => zip(x, y, out, math::pow),
            E::Prelu => zip(x, y, out, |x, y| if x < 0.0 { y * x } else { x }),
            _ => unreachable!("{op:?} is not a binary operator on floats"),
        }
    }
}

struct Uniform<'a> {
    op: Elementwise,
    x: &'a [f32],
    y: f32,
    out: &'a mut [f32],
}

impl Kernel for Uniform<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Uniform { op, x, y, out } = self;
        match op {
            E::Add => map(x, out, |x| x + y),
            E::Sub => map(x, out, |x| x - y),
            E::Mul => map(x, out, |x| x * y),
            E::Div => map(x, out, |x| x / y),
            E::Max => map(x, out, |x| max(x, y)),
            E::Min => map(x, out, |x| min(x, y)),
            E::Prelu => map(x, out, |x| if x < 0.0 { y * x } else { x }),
            _ => unreachable!("{op:?} is not a binary operator on floats"),
        }
    }
}

struct ScaleAndShift<'a> {
    x: &'a [f32],
    scale: f32,
    shift: f32,
    out: &'a mut [f32],
}

impl Kernel for ScaleAndShift<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let ScaleAndShift { x, scale, shift, out } = self;
        map(x, out, |x| x * scale + shift);
    }
}

/// `x^exponent` for a single exponent.
struct PowConstant<'a> {
    x: &'a [f32],
    exponent: f32,
    out: &'a mut [f32],
}

impl Kernel for PowConstant<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let PowConstant { x, exponent, out } = self;
        match exponent {
            -1.0 => map(x, out, |x| 1.0 / x),
            // The square root differs from the power at -infinity and in the sign of zero.
            0.5 => map(x, out, |x| if x == f32::NEG_INFINITY { f32::INFINITY } else { (x + 0.0).sqrt() }),
            1.0 => map(x, out, |x| x),
            2.0 => map(x, out, |x| x * x),
            3.0 => map(x, out, |x| (x as f64 * x as f64 * x as f64) as f32),
            4.0 => map(x, out, |x| {
                let square = x as f64 * x as f64;
                (square * square) as f32
            }),
            _ => map(x, out, |x| math::pow(x, exponent)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_m1_is_accurate_below_zero() {
        struct All<'a>(&'a [f32], &'a mut [f32]);
        impl Kernel for All<'_> {
            type Output = ();
            #[inline(always)]
            fn run<S: Simd>(self, simd: S) {
                map(self.0, self.1, |x| exp_m1(simd, x));
            }
        }
        let x: Vec<f32> = (0..100_000).map(|i| -(i as f32) * 1e-3 * (1.0 + i as f32) * 1e-5).collect();
        let mut out = vec![f32::NAN; x.len()];
        for isa in Isa::available() {
            isa.run(All(&x, &mut out));
            for (&x, &y) in x.iter().zip(&out) {
                let exact = (x as f64).exp_m1();
                let unit = (exact.abs() as f32).max(f32::MIN_POSITIVE) as f64 * 2f64.powi(-23);
                assert!((y as f64 - exact).abs() <= 5.0 * unit, "{isa:?} {x}: {y} for {exact}");
            }
        }
    }

    #[test]
    fn functions_in_place_have_the_same_bits() {
        let functions =
            [E::Abs, E::Sqrt, E::HardSwish, E::Sigmoid, E::Silu, E::Gelu, E::Tanh, E::Sin, E::Elu { alpha: 0.5 }];
        let x: Vec<f32> = (0..1003).map(|i| (i as f32 - 500.0) * 0.21).chain([f32::NAN, f32::INFINITY]).collect();
        for isa in Isa::available() {
            for op in functions {
                let (mut out, mut values) = (vec![0.0; x.len()], x.clone());
                unary_float(isa, op, &x, &mut out);
                unary_float_in_place(isa, op, &mut values);
                assert!(out.iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits()), "{op:?} on {isa:?}");
            }
        }
    }

    #[test]
    fn hard_swish_of_large_numbers_is_finite() {
        let mut out = [f32::NAN; 2];
        unary_float(Isa::best(), E::HardSwish, &[f32::MAX, -f32::MAX], &mut out);
        assert_eq!(out, [f32::MAX, 0.0]);
    }

    #[test]
    fn constant_powers_agree_with_powf_at_special_values() {
        let inf = f32::INFINITY;
        let x = [0.0, -0.0, 1.0, -1.0, inf, -inf, f32::NAN, 1e30, -1e30, 1e-30, f32::MIN_POSITIVE, 2.5];
        for exponent in [-1.0f32, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, -2.5] {
            let mut out = [f32::NAN; 12];
            binary_float_uniform(Isa::best(), E::Pow, &x, exponent, &mut out);
            for (x, y) in x.iter().zip(out) {
                let exact = x.powf(exponent);
                let close = (y - exact).abs() <= exact.abs() * 2.0 * f32::EPSILON;
                assert!(
                    y.to_bits() == exact.to_bits() || close || (y.is_nan() && exact.is_nan()),
                    "{x}^{exponent}: {y}"
                );
            }
        }
    }
}
