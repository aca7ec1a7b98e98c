//! Loops over slices for the element-wise operators: one `match` per call, then one loop, compiled for each instruction
//! set.
//!
//! All slices of a call have the same length. Callers widen float16 to float32 before and narrow it after.

mod cast;
mod compare;
mod double;
mod float;
mod integer;
mod quantize;

pub use cast::{Convert, cast, cast_double};
pub use compare::{compare, select, test_float};
pub use double::{binary_double, round_doubles, test_double, unary_double};
pub use float::{binary_float, binary_float_uniform, scale_and_shift, unary_float, unary_float_in_place};
pub use integer::{Integer, binary_integer, unary_integer};
pub use quantize::{Quantized, dequantize, dequantize_uniform, quantize, quantize_uniform};

use crate::ops::elementwise::Elementwise::{self, self as E};

/// Approximate cost per element of an operator, in multiply-adds of a matrix product: a core does some 60 per
/// nanosecond.
pub fn cost(op: &Elementwise) -> usize {
    match op {
        E::Pow => 128,
        E::Erf | E::Exp | E::Log | E::Sigmoid | E::Silu | E::Tanh | E::Softplus | E::Gelu | E::Elu { .. } => 32,
        E::Acos | E::Acosh | E::Asin | E::Asinh | E::Atan | E::Atanh | E::Cosh | E::Sinh => 32,
        E::Swish { .. } | E::TanhGelu => 32,
        E::Sin | E::Cos | E::Tan | E::Quantize | E::Div => 16,
        _ => 8,
    }
}

/// `out[i] = f(x[i])`.
#[inline(always)]
fn map<T: Copy, U>(x: &[T], out: &mut [U], f: impl Fn(T) -> U) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = f(x);
    }
}

/// `out[i] = f(x[i], y[i])`.
#[inline(always)]
fn zip<T: Copy, U: Copy, V>(x: &[T], y: &[U], out: &mut [V], f: impl Fn(T, U) -> V) {
    for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
        *out = f(x, y);
    }
}
