//! The inverse trigonometric and the hyperbolic functions, which WebNN lacks.
//!
//! The formulas avoid cancellation. Measured against float64 over the whole range of float32, the relative error stays
//! below [`MAX_ERROR`](tests) wherever the result is a normal number. float16 is computed in float32 as well.

use super::elementwise::map;
use crate::dtype::DataType;
use crate::ir::OperandId;
use crate::onnx::call::{Call, Step};
use crate::onnx::registry::{Entry, Outcome, standard};
use crate::ops::elementwise::Elementwise as E;
use std::f64::consts::{FRAC_PI_2, LN_2};

/// Coefficients of `atan(w) / w` in powers of `w^2`: a minimax fit on `0 ..= tan(pi / 8)`, with a relative error of
/// 1.8e-8.
const ATAN: [f64; 5] = [
    0.999_999_982_014_2,
    -0.333_327_993_112_066_2,
    0.199_744_720_688_241_9,
    -0.138_520_958_583_599_14,
    0.079_867_415_592_043_59,
];

/// The Taylor series of `sinh(x) / x` in powers of `x^2`: a relative error of 2.5e-8 up to 1.
const SINH: [f64; 5] = [1.0, 1.0 / 6.0, 1.0 / 120.0, 1.0 / 5040.0, 1.0 / 362_880.0];

fn in_float32(call: &mut Call, f: fn(&mut Call, OperandId) -> Step<OperandId>) -> Outcome {
    map(call, |call, x| {
        let dtype = call.dtype(x);
        let x = call.cast(x, DataType::Float32)?;
        let y = f(call, x)?;
        call.cast(y, dtype)
    })
}

/// `sum coefficients[i] * x^i`.
fn polynomial(call: &mut Call, x: OperandId, coefficients: &[f64]) -> Step<OperandId> {
    let [lower @ .., second, last] = coefficients else { unreachable!("polynomials have a degree of at least 1") };
    let mut sum = call.emit(E::Linear { alpha: *last, beta: *second }, &[x])?;
    for &coefficient in lower.iter().rev() {
        let product = call.mul(sum, x)?;
        sum = call.add_number(product, coefficient)?;
    }
    Ok(sum)
}

/// `below` for `x` below `limit`, otherwise `above`, also for NaN.
fn piecewise(call: &mut Call, x: OperandId, limit: f64, below: OperandId, above: OperandId) -> Step<OperandId> {
    let limit = call.scalar_like(x, limit)?;
    let is_below = call.emit(E::Lesser, &[x, limit])?;
    call.select(is_below, below, above)
}

/// `f(|x|)` with the sign of `x`.
fn odd(call: &mut Call, x: OperandId, f: fn(&mut Call, OperandId) -> Step<OperandId>) -> Step<OperandId> {
    let (magnitude, sign) = (call.emit(E::Abs, &[x])?, call.emit(E::Sign, &[x])?);
    let y = f(call, magnitude)?;
    call.mul(y, sign)
}

/// `log(1 + s)` for finite `s` above -1: the logarithm of the rounded sum, plus a correction for the rounding error.
fn log1p(call: &mut Call, s: OperandId) -> Step<OperandId> {
    let sum = call.add_number(s, 1.0)?;
    let kept = call.add_number(sum, -1.0)?;
    let lost = call.sub(s, kept)?;
    let correction = call.div(lost, sum)?;
    let log = call.emit(E::Log, &[sum])?;
    call.add(log, correction)
}

/// `sqrt(1 + sign / x^2)`, without overflow for large `x`.
fn root_beside_inverse_square(call: &mut Call, x: OperandId, sign: f64) -> Step<OperandId> {
    let inverse = call.emit(E::Reciprocal, &[x])?;
    let square = call.mul(inverse, inverse)?;
    let sum = call.emit(E::Linear { alpha: sign, beta: 1.0 }, &[square])?;
    call.emit(E::Sqrt, &[sum])
}

/// `log(x) + log(1 + root)`.
fn log_of_product(call: &mut Call, x: OperandId, root: OperandId) -> Step<OperandId> {
    let log = call.emit(E::Log, &[x])?;
    let factor = call.add_number(root, 1.0)?;
    let factor = call.emit(E::Log, &[factor])?;
    call.add(log, factor)
}

/// For `x >= 0`: `atan(1 / x) = pi / 2 - atan(x)` reduces to `x` below 1, `atan(z) = 2 * atan(z / (1 + sqrt(1 + z^2)))`
/// to the range of the polynomial.
fn positive_atan(call: &mut Call, x: OperandId) -> Step<OperandId> {
    let inverse = call.emit(E::Reciprocal, &[x])?;
    let one = call.scalar_like(x, 1.0)?;
    let is_large = call.emit(E::Greater, &[x, one])?;
    let z = call.select(is_large, inverse, x)?;
    let square = call.mul(z, z)?;
    let root = call.add_number(square, 1.0)?;
    let root = call.emit(E::Sqrt, &[root])?;
    let root = call.add_number(root, 1.0)?;
    let w = call.div(z, root)?;
    let square = call.mul(w, w)?;
    let ratio = polynomial(call, square, &ATAN.map(|coefficient| 2.0 * coefficient))?;
    let angle = call.mul(w, ratio)?;
    let rest = call.emit(E::Linear { alpha: -1.0, beta: FRAC_PI_2 }, &[angle])?;
    call.select(is_large, rest, angle)
}

fn atan(call: &mut Call, x: OperandId) -> Step<OperandId> {
    odd(call, x, positive_atan)
}

/// `1 - x` and `1 + x`.
fn around_one(call: &mut Call, x: OperandId) -> Step<[OperandId; 2]> {
    Ok([call.emit(E::Linear { alpha: -1.0, beta: 1.0 }, &[x])?, call.add_number(x, 1.0)?])
}

/// `atan(x / sqrt((1 - x) * (1 + x)))`.
fn asin(call: &mut Call, x: OperandId) -> Step<OperandId> {
    let [below, above] = around_one(call, x)?;
    let product = call.mul(below, above)?;
    let root = call.emit(E::Sqrt, &[product])?;
    let tangent = call.div(x, root)?;
    atan(call, tangent)
}

/// `2 * atan(sqrt((1 - x) / (1 + x)))`.
fn acos(call: &mut Call, x: OperandId) -> Step<OperandId> {
    let [below, above] = around_one(call, x)?;
    let ratio = call.div(below, above)?;
    let tangent = call.emit(E::Sqrt, &[ratio])?;
    let half = positive_atan(call, tangent)?;
    call.scale(half, 2.0)
}

/// `exp(x) / 2` and `exp(-x) / 2`, without the overflow of `exp(x)`.
fn half_exponentials(call: &mut Call, x: OperandId) -> Step<[OperandId; 2]> {
    let rising = call.emit(E::Linear { alpha: 1.0, beta: -LN_2 }, &[x])?;
    let falling = call.emit(E::Linear { alpha: -1.0, beta: -LN_2 }, &[x])?;
    Ok([call.emit(E::Exp, &[rising])?, call.emit(E::Exp, &[falling])?])
}

/// Uses a polynomial below 1, where the exponentials cancel.
fn sinh(call: &mut Call, x: OperandId) -> Step<OperandId> {
    odd(call, x, |call, x| {
        let [rising, falling] = half_exponentials(call, x)?;
        let above = call.sub(rising, falling)?;
        let square = call.mul(x, x)?;
        let ratio = polynomial(call, square, &SINH)?;
        let below = call.mul(x, ratio)?;
        piecewise(call, x, 1.0, below, above)
    })
}

fn cosh(call: &mut Call, x: OperandId) -> Step<OperandId> {
    let [rising, falling] = half_exponentials(call, x)?;
    call.add(rising, falling)
}

/// `log1p(x + x^2 / (1 + sqrt(1 + x^2)))` below 1, `log(x) + log(1 + sqrt(1 + 1 / x^2))` from there.
fn asinh(call: &mut Call, x: OperandId) -> Step<OperandId> {
    odd(call, x, |call, x| {
        let square = call.mul(x, x)?;
        let root = call.add_number(square, 1.0)?;
        let root = call.emit(E::Sqrt, &[root])?;
        let root = call.add_number(root, 1.0)?;
        let rest = call.div(square, root)?;
        let sum = call.add(x, rest)?;
        let below = log1p(call, sum)?;
        let root = root_beside_inverse_square(call, x, 1.0)?;
        let above = log_of_product(call, x, root)?;
        piecewise(call, x, 1.0, below, above)
    })
}

/// With `t = x - 1`, `log1p(t + sqrt(t) * sqrt(x + 1))` below 2, `log(x) + log(1 + sqrt(1 - 1 / x^2))` from there. The
/// roots are NaN below 1.
fn acosh(call: &mut Call, x: OperandId) -> Step<OperandId> {
    let (t, above_one) = (call.add_number(x, -1.0)?, call.add_number(x, 1.0)?);
    let (first, second) = (call.emit(E::Sqrt, &[t])?, call.emit(E::Sqrt, &[above_one])?);
    let product = call.mul(first, second)?;
    let sum = call.add(t, product)?;
    let below = log1p(call, sum)?;
    let root = root_beside_inverse_square(call, x, -1.0)?;
    let above = log_of_product(call, x, root)?;
    piecewise(call, x, 2.0, below, above)
}

/// `log1p(2 * x / (1 - x)) / 2` below a half, `log((1 + x) / (1 - x)) / 2` from there.
fn atanh(call: &mut Call, x: OperandId) -> Step<OperandId> {
    odd(call, x, |call, x| {
        let [below_one, above_one] = around_one(call, x)?;
        let double = call.scale(x, 2.0)?;
        let ratio = call.div(double, below_one)?;
        let below = log1p(call, ratio)?;
        let ratio = call.div(above_one, below_one)?;
        let above = call.emit(E::Log, &[ratio])?;
        let twice = piecewise(call, x, 0.5, below, above)?;
        call.scale(twice, 0.5)
    })
}

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Acos", "", |call| in_float32(call, acos)),
    standard("Acosh", "", |call| in_float32(call, acosh)),
    standard("Asin", "", |call| in_float32(call, asin)),
    standard("Asinh", "", |call| in_float32(call, asinh)),
    standard("Atan", "", |call| in_float32(call, atan)),
    standard("Atanh", "", |call| in_float32(call, atanh)),
    standard("Cosh", "", |call| in_float32(call, cosh)),
    standard("Sinh", "", |call| in_float32(call, sinh)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Number;
    use crate::onnx::tensor::ElementType::{Float, Float16};
    use crate::onnx::testing::TestGraph;

    /// A few roundings of float32, and those of an exponent of up to 89 in `sinh` and `cosh`.
    const MAX_ERROR: f64 = 5e-6;

    /// The results of an operator on constants: the translation folds them with the naive reference.
    fn results(operator: &str, inputs: &[f32]) -> Vec<f64> {
        let graph = TestGraph::default().floats("x", &[inputs.len() as i64], inputs);
        let graph = graph.node(operator, "x", "y", vec![]).output("y").import(22, &Default::default()).unwrap();
        let output = graph.nodes.last().expect("an identity").inputs[0].expect("an operand");
        let bytes = graph.value(output).constant().expect("a constant").buffer().expect("memory");
        crate::onnx::tensor::numbers(DataType::Float32, bytes.bytes()).into_iter().map(Number::to_f64).collect()
    }

    fn check(operator: &str, inputs: Vec<f32>, expected: fn(f64) -> f64) {
        for (&x, got) in inputs.iter().zip(results(operator, &inputs)) {
            let expected = expected(x as f64);
            let close = (got - expected).abs() <= MAX_ERROR * expected.abs() + f32::MIN_POSITIVE as f64;
            let same = got == expected || (got.is_nan() && expected.is_nan()) || got == expected as f32 as f64;
            assert!(close || same, "{operator}({x}) is {got}, expected {expected}");
        }
    }

    /// Numbers of both signs and all magnitudes up to `limit`, including it.
    fn numbers(limit: f32) -> Vec<f32> {
        let magnitudes =
            (0..200).map(|i| limit * 0.93f32.powi(i)).chain((1..30).map(|i| limit * 1e-7f32 * 0.1f32.powi(i)));
        let near = (0..8).map(|bits| f32::from_bits(limit.to_bits() - bits));
        let all: Vec<f32> = magnitudes.chain(near).chain([0.0, f32::NAN]).collect();
        all.iter().flat_map(|&x| [x, -x]).collect()
    }

    #[test]
    fn results_are_close_over_the_whole_range() {
        let wide = || [numbers(f32::MAX), numbers(3.0), numbers(1.0), vec![f32::INFINITY, f32::NEG_INFINITY]].concat();
        let unit = || [numbers(1.0), vec![1.5, -1.5, f32::INFINITY]].concat();
        check("Atan", wide(), f64::atan);
        check("Asin", unit(), f64::asin);
        check("Acos", unit(), f64::acos);
        check("Sinh", [numbers(89.0), vec![100.0, f32::INFINITY]].concat(), f64::sinh);
        check("Cosh", [numbers(89.0), vec![100.0, f32::INFINITY]].concat(), f64::cosh);
        check("Asinh", wide(), libm::asinh);
        let from_one = numbers(1.0).into_iter().filter(|x| *x > 0.0).map(|x| 1.0 + x);
        check("Acosh", from_one.chain([0.5, -1.0, -3e8, 1e30, f32::MAX, f32::INFINITY]).collect(), libm::acosh);
        check("Atanh", unit(), libm::atanh);
    }

    #[test]
    fn float16_is_computed_in_float32() {
        let text = TestGraph::default().input("x", Float16, &["2"]).node("Atan", "x", "y", vec![]).output("y").text(22);
        assert!(text.contains("%1 = cast %0") && text.contains("cast %29 dataType=float16"), "{text}");
        let text = TestGraph::default().input("x", Float, &["2"]).node("Cosh", "x", "y", vec![]).output("y").text(22);
        assert!(!text.contains("cast"), "{text}");
    }
}
