//! Arithmetic and functions of float64, the same code for every instruction set: models compute little in it, and the
//! standard library's functions are not vectorized anyway.

use super::{map, zip};
use crate::dtype::nearest_f16;
use crate::ops::elementwise::Elementwise::{self, self as E};

/// Applies a unary operator from float64 to float64.
///
/// # Panics
/// If `op` is not one.
pub fn unary_double(op: Elementwise, x: &[f64], out: &mut [f64]) {
    match op {
        // What the compiler makes vectors of.
        E::Abs => map(x, out, f64::abs),
        E::Neg => map(x, out, |x| -x),
        E::Sqrt => map(x, out, f64::sqrt),
        E::Reciprocal => map(x, out, |x| 1.0 / x),
        E::Linear { alpha, beta } => map(x, out, |x| alpha * x + beta),
        _ => map(x, out, |x| op.eval_float(x, 0.0)),
    }
}

/// Applies a binary operator from float64 to float64.
///
/// # Panics
/// If `op` is not one.
pub fn binary_double(op: Elementwise, x: &[f64], y: &[f64], out: &mut [f64]) {
    match op {
        E::Add => zip(x, y, out, |x, y| x + y),
        E::Sub => zip(x, y, out, |x, y| x - y),
        E::Mul => zip(x, y, out, |x, y| x * y),
        E::Div => zip(x, y, out, |x, y| x / y),
        _ => zip(x, y, out, |x, y| op.eval_float(x, y)),
    }
}

/// Computes `isNaN` or `isInfinite`.
///
/// # Panics
/// If `op` is neither.
pub fn test_double(op: Elementwise, x: &[f64], out: &mut [u8]) {
    match op {
        E::IsNaN => map(x, out, |x| x.is_nan() as u8),
        E::IsInfinite => map(x, out, |x| x.is_infinite() as u8),
        op => unreachable!("{op:?} is not a test of a float"),
    }
}

/// Rounds to float16 once, not to float32 first.
pub fn round_doubles(x: &[f64], out: &mut [f32]) {
    map(x, out, |x| nearest_f16(x).to_f32());
}
