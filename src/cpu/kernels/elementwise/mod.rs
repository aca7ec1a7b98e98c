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
