//! Integer arithmetic: wraps around on overflow; division by zero returns 0.

use super::{map, zip};
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::dtype::{Element, Number};
use crate::ops::elementwise::Elementwise::{self, self as E};

/// An integer element type.
#[expect(missing_docs, reason = "the methods of the integer types of Rust, wrapping")]
pub trait Integer: Element + Ord {
    const ZERO: Self;
    const ONE: Self;
    const MIN: Self;
    const MAX: Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn abs(self) -> Self;
    fn sign(self) -> Self;
    /// Divides, rounding toward zero; division by zero returns 0.
    fn div(self, other: Self) -> Self;
    /// Raises to a power; a negative exponent returns the reciprocal, truncated toward zero.
    fn pow(self, exponent: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn not(self) -> Self;
    /// Shifts to the left; 0 if `by` is negative or not less than the number of bits.
    fn shift_left(self, by: Self) -> Self;
    /// Shifts to the right; 0, or -1 for a negative number, if `by` is negative or not less than the number of bits.
    fn shift_right(self, by: Self) -> Self;
    /// Truncates `x` to its lowest bits.
    fn low_bits(x: i128) -> Self;
}

macro_rules! integers {
    ($($type:ty: $x:ident, $abs:expr, $sign:expr;)*) => {$(
        impl Integer for $type {
            const ZERO: $type = 0;
            const ONE: $type = 1;
            const MIN: $type = <$type>::MIN;
            const MAX: $type = <$type>::MAX;
            #[inline(always)]
            fn add(self, other: $type) -> $type {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: $type) -> $type {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: $type) -> $type {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn abs(self) -> $type {
                let $x = self;
                $abs
            }
            #[inline(always)]
            fn sign(self) -> $type {
                let $x = self;
                $sign
            }
            #[inline(always)]
            fn div(self, other: $type) -> $type {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn pow(self, exponent: $type) -> $type {
                // The lowest bits of a product depend only on the lowest bits of its factors.
                power(self as u64, self as i128, exponent as i128) as $type
            }
            #[inline(always)]
            fn and(self, other: $type) -> $type {
                self & other
            }
            #[inline(always)]
            fn or(self, other: $type) -> $type {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: $type) -> $type {
                self ^ other
            }
            #[inline(always)]
            fn not(self) -> $type {
                !self
            }
            #[inline(always)]
            fn shift_left(self, by: $type) -> $type {
                if (by as u64) < <$type>::BITS as u64 { self.wrapping_shl(by as u32) } else { 0 }
            }
            #[inline(always)]
            fn shift_right(self, by: $type) -> $type {
                let far = if self < <$type>::ZERO { !0 } else { 0 };
                if (by as u64) < <$type>::BITS as u64 { self.wrapping_shr(by as u32) } else { far }
            }
            #[inline(always)]
            fn low_bits(x: i128) -> $type {
                x as $type
            }
        }
    )*};
}

integers! {
    i8: x, x.wrapping_abs(), x.signum();
    i32: x, x.wrapping_abs(), x.signum();
    i64: x, x.wrapping_abs(), x.signum();
    u8: x, x, (x != 0) as u8;
    u32: x, x, (x != 0) as u32;
    u64: x, x, (x != 0) as u64;
}

/// `base^exponent` modulo 2^64; `bits` are the lowest bits of `base`.
fn power(bits: u64, base: i128, exponent: i128) -> u64 {
    if exponent < 0 {
        return match (base, exponent & 1) {
            (1, _) | (-1, 0) => 1,
            (-1, _) => u64::MAX,
            _ => 0,
        };
    }
    let (mut result, mut square, mut exponent) = (1u64, bits, exponent as u64);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        exponent >>= 1;
    }
    result
}

/// Applies a unary operator with operand and result of the same integer type.
///
/// # Panics
/// If `op` is not one.
pub fn unary_integer<T: Integer>(isa: Isa, op: Elementwise, x: &[T], out: &mut [T]) {
    isa.run(UnaryInteger { op, x, out });
}

/// Applies a binary operator with operands and result of the same integer type.
///
/// # Panics
/// If `op` is not one.
pub fn binary_integer<T: Integer>(isa: Isa, op: Elementwise, x: &[T], y: &[T], out: &mut [T]) {
    isa.run(BinaryInteger { op, x, y, out });
}

struct UnaryInteger<'a, T> {
    op: Elementwise,
    x: &'a [T],
    out: &'a mut [T],
}

impl<T: Integer> Kernel for UnaryInteger<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let UnaryInteger { op, x, out } = self;
        let truth = |x: bool| if x { T::ONE } else { T::ZERO };
        match op {
            E::Abs => map(x, out, T::abs),
            E::Neg => map(x, out, |x| T::ZERO.sub(x)),
            E::Sign => map(x, out, T::sign),
            E::Relu => map(x, out, |x| x.max(T::ZERO)),
            E::LogicalNot => map(x, out, |x| truth(x == T::ZERO)),
            E::BitwiseNot => map(x, out, T::not),
            E::Clamp { min: Number::Int(min), max: Number::Int(max) } => {
                let (min, max) = (T::low_bits(min), T::low_bits(max));
                map(x, out, |x| x.max(min).min(max));
            }
            _ => unreachable!("{op:?} is not a unary operator on integers"),
        }
    }
}

struct BinaryInteger<'a, T> {
    op: Elementwise,
    x: &'a [T],
    y: &'a [T],
    out: &'a mut [T],
}

impl<T: Integer> Kernel for BinaryInteger<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let BinaryInteger { op, x, y, out } = self;
        let truth = |x: bool| if x { T::ONE } else { T::ZERO };
        match op {
            E::Add => zip(x, y, out, T::add),
            E::Sub => zip(x, y, out, T::sub),
            E::Mul => zip(x, y, out, T::mul),
            E::Div => zip(x, y, out, T::div),
            E::Max => zip(x, y, out, T::max),
            E::Min => zip(x, y, out, T::min),
            E::Pow => zip(x, y, out, T::pow),
            E::Prelu => zip(x, y, out, |x, y| x.max(T::ZERO).add(y.mul(x.min(T::ZERO)))),
            E::BitwiseAnd => zip(x, y, out, T::and),
            E::BitwiseOr => zip(x, y, out, T::or),
            E::BitwiseXor => zip(x, y, out, T::xor),
            E::ShiftLeft => zip(x, y, out, T::shift_left),
            E::ShiftRight => zip(x, y, out, T::shift_right),
            E::LogicalAnd => zip(x, y, out, |x, y| truth((x != T::ZERO) & (y != T::ZERO))),
            E::LogicalOr => zip(x, y, out, |x, y| truth((x != T::ZERO) | (y != T::ZERO))),
            E::LogicalXor => zip(x, y, out, |x, y| truth((x != T::ZERO) != (y != T::ZERO))),
            _ => unreachable!("{op:?} is not a binary operator on integers"),
        }
    }
}
