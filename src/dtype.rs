//! Data types of operands (`MLOperandDataType`) and the casting rules of section 9.2 of the draft.

use crate::nibbles::packed;
use half::f16;
use std::fmt;

/// `MLOperandDataType`. The discriminants are the order of the IDL enumeration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DataType {
    /// 32-bit IEEE 754 binary floating point.
    Float32,
    /// 16-bit IEEE 754 binary floating point.
    Float16,
    /// 32-bit signed integer.
    Int32,
    /// 32-bit unsigned integer.
    Uint32,
    /// 64-bit signed integer.
    Int64,
    /// 64-bit unsigned integer.
    Uint64,
    /// 8-bit signed integer.
    Int8,
    /// 8-bit unsigned integer.
    Uint8,
    /// 4-bit signed integer, for constants only: an extension. Two share a byte, the first in its low bits.
    Int4,
    /// 4-bit unsigned integer, for constants only: an extension. Two share a byte, the first in its low bits.
    Uint4,
    /// 64-bit IEEE 754 binary floating point, only in models and only on the CPU: the API never shows it.
    Float64,
}

use DataType::*;

impl DataType {
    /// Every data type of the draft, in the order of the IDL enumeration.
    pub const ALL: [DataType; 8] = [Float32, Float16, Int32, Uint32, Int64, Uint64, Int8, Uint8];

    /// Every data type of constants: those of the extension `int4` last.
    pub const OF_CONSTANTS: [DataType; 10] = [Float32, Float16, Int32, Uint32, Int64, Uint64, Int8, Uint8, Int4, Uint4];

    /// Every data type of values in graphs: float64, which the API lacks, last.
    pub const OF_VALUES: [DataType; 9] = [Float32, Float16, Int32, Uint32, Int64, Uint64, Int8, Uint8, Float64];

    /// The name in the IDL enumeration.
    pub fn name(self) -> &'static str {
        match self {
            Float32 => "float32",
            Float16 => "float16",
            Int32 => "int32",
            Uint32 => "uint32",
            Int64 => "int64",
            Uint64 => "uint64",
            Int8 => "int8",
            Uint8 => "uint8",
            Int4 => "int4",
            Uint4 => "uint4",
            Float64 => "float64",
        }
    }

    /// The data type of that name, if it exists.
    pub fn from_name(name: &str) -> Option<DataType> {
        Self::OF_CONSTANTS.into_iter().chain([Float64]).find(|t| t.name() == name)
    }

    /// Bits per element.
    pub const fn bits(self) -> usize {
        match self {
            Int4 | Uint4 => 4,
            Int8 | Uint8 => 8,
            Float16 => 16,
            Float32 | Int32 | Uint32 => 32,
            Int64 | Uint64 | Float64 => 64,
        }
    }

    /// Bytes per element; 0 for 4-bit types, which only packed products read.
    pub const fn size(self) -> usize {
        self.bits() / 8
    }

    /// Whether two elements share a byte.
    pub const fn is_nibble(self) -> bool {
        self.bits() == 4
    }

    /// Size in bytes of `elements` contiguous elements.
    pub const fn bytes_of(self, elements: usize) -> usize {
        match self.is_nibble() {
            true => elements.div_ceil(2),
            false => elements * self.size(),
        }
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Float32 | Float16 | Float64)
    }

    /// Smallest and largest value of an integer type; `None` for floating-point types.
    pub const fn integer_range(self) -> Option<(i128, i128)> {
        Some(match self {
            Float32 | Float16 | Float64 => return None,
            Int4 => (-8, 7),
            Uint4 => (0, 15),
            Int8 => (i8::MIN as i128, i8::MAX as i128),
            Uint8 => (0, u8::MAX as i128),
            Int32 => (i32::MIN as i128, i32::MAX as i128),
            Uint32 => (0, u32::MAX as i128),
            Int64 => (i64::MIN as i128, i64::MAX as i128),
            Uint64 => (0, u64::MAX as i128),
        })
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `MLNumber`: an abstract number, exact over all 64-bit integers and all doubles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A double, including NaN and the infinities.
    Float(f64),
    /// An integer of any of the integer types.
    Int(i128),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Float(x) => write!(f, "{x:?}"),
            Number::Int(x) => write!(f, "{x}"),
        }
    }
}

impl From<f64> for Number {
    fn from(x: f64) -> Number {
        Number::Float(x)
    }
}

impl From<i64> for Number {
    fn from(x: i64) -> Number {
        Number::Int(x as i128)
    }
}

impl Number {
    /// Casts to the nearest value of `to`, by section 9.2 of the draft: floats round to nearest even, integers clamp to
    /// the range, NaN becomes 0. The result is `Float` for a floating-point type and `Int` for an integer type.
    pub fn cast(self, to: DataType) -> Number {
        match to.integer_range() {
            None if to == Float64 => Number::Float(self.to_f64()),
            // Casting an integer to float64 first would round it twice.
            None if to == Float32 => Number::Float(match self {
                Number::Float(x) => x as f32 as f64,
                Number::Int(x) => x as f32 as f64,
            }),
            // Float64 represents every integer below float16's infinity exactly.
            None => Number::Float(nearest_f16(self.to_f64()).to_f64()),
            Some((min, max)) => Number::Int(match self {
                // `as` saturates: the infinities stay outside of every range until the clamp.
                Number::Float(x) => (x.round_ties_even() as i128).clamp(min, max),
                Number::Int(x) => x.clamp(min, max),
            }),
        }
    }

    /// The integer whose magnitude has these 64-bit words, lowest first, as in a bigint. Integers beyond 64 bits become
    /// floats that cast to every data type as the integer itself would.
    pub fn from_words(negative: bool, words: &[u64]) -> Number {
        let end = words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
        match words[..end] {
            [] => Number::Int(0),
            [word] => Number::Int(if negative { -(word as i128) } else { word as i128 }),
            [ref rest @ .., low, high] => {
                // A significand of 53 bits, the last of which records whether any bits were cut off.
                let top = (high as u128) << 64 | low as u128;
                let cut = 75 - high.leading_zeros();
                let is_inexact = !top.is_multiple_of(1 << cut) || rest.iter().any(|&word| word != 0);
                let significand = (top >> cut) as u64 | is_inexact as u64;
                let magnitude = significand as f64 * 2f64.powi(cut as i32 + 64 * rest.len() as i32);
                Number::Float(if negative { -magnitude } else { magnitude })
            }
        }
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Float(x) => x,
            Number::Int(x) => x as f64,
        }
    }

    /// The little-endian bytes of this number cast to `to`; one byte for a 4-bit type.
    pub fn to_bytes(self, to: DataType) -> Vec<u8> {
        let mut bytes = vec![0; to.bits().div_ceil(8)];
        self.write(to, &mut bytes);
        bytes
    }

    /// Writes what [`to_bytes`](Self::to_bytes) returns to `bytes`.
    ///
    /// # Panics
    /// If `bytes` has another length.
    pub fn write(self, to: DataType, bytes: &mut [u8]) {
        match (self.cast(to), to) {
            (Number::Float(x), Float16) => bytes.copy_from_slice(&nearest_f16(x).to_le_bytes()),
            (Number::Float(x), Float64) => bytes.copy_from_slice(&x.to_le_bytes()),
            (Number::Float(x), _) => bytes.copy_from_slice(&(x as f32).to_le_bytes()),
            (Number::Int(x), Int4 | Uint4) => bytes.copy_from_slice(&packed(&[x as u8])),
            (Number::Int(x), _) => bytes.copy_from_slice(&x.to_le_bytes()[..to.size()]),
        }
    }
}

/// The float16 nearest to `x`; ties round to even.
///
/// `f16::from_f64` rounds twice on CPUs that convert in hardware: to float32 and from there. Here, the first rounding
/// goes towards zero and marks lost bits in the last bit, which float16 does not have.
#[inline]
pub fn nearest_f16(x: f64) -> f16 {
    let nearest = x as f32;
    let bits = nearest.to_bits() - ((nearest as f64).abs() > x.abs()) as u32;
    let is_inexact = f32::from_bits(bits) as f64 != x;
    f16::from_f32(f32::from_bits(bits | is_inexact as u32))
}

/// A Rust type that stores one element of a [`DataType`].
///
/// # Safety
/// The type has no padding, and all bit patterns are valid values: bytes are viewed as elements, and elements as bytes.
pub unsafe trait Element: Copy + Default + PartialEq + PartialOrd + Send + Sync + fmt::Debug + 'static {
    /// The data type of the elements.
    const DATA_TYPE: DataType;
    /// The value as an abstract number.
    fn number(self) -> Number;
    /// The nearest value of this type, according to [`Number::cast`].
    fn from_number(number: Number) -> Self;
}

macro_rules! elements {
    ($($type:ty = $dtype:ident, |$x:ident| $number:expr, $variant:ident($n:ident) => $from:expr;)*) => {$(
        // SAFETY: a primitive number: no padding, and every bit pattern is a value.
        unsafe impl Element for $type {
            const DATA_TYPE: DataType = $dtype;
            fn number(self) -> Number {
                let $x = self;
                $number
            }
            fn from_number(number: Number) -> Self {
                match number.cast($dtype) {
                    Number::$variant($n) => $from,
                    other => unreachable!("{other:?} is not a cast to {}", $dtype),
                }
            }
        }
    )*};
}

elements! {
    f32 = Float32, |x| Number::Float(x as f64), Float(x) => x as f32;
    f64 = Float64, |x| Number::Float(x), Float(x) => x;
    f16 = Float16, |x| Number::Float(x.to_f64()), Float(x) => nearest_f16(x);
    i32 = Int32, |x| Number::Int(x as i128), Int(x) => x as i32;
    u32 = Uint32, |x| Number::Int(x as i128), Int(x) => x as u32;
    i64 = Int64, |x| Number::Int(x as i128), Int(x) => x as i64;
    u64 = Uint64, |x| Number::Int(x as i128), Int(x) => x as u64;
    i8 = Int8, |x| Number::Int(x as i128), Int(x) => x as i8;
    u8 = Uint8, |x| Number::Int(x as i128), Int(x) => x as u8;
}

/// Runs `$body` with `$T` as the name of the Rust type that stores `$dtype`.
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DataType::Float32 => {
                type $T = f32;
                $body
            }
            $crate::dtype::DataType::Float16 => {
                type $T = half::f16;
                $body
            }
            $crate::dtype::DataType::Float64 => {
                type $T = f64;
                $body
            }
            $crate::dtype::DataType::Int32 => {
                type $T = i32;
                $body
            }
            $crate::dtype::DataType::Uint32 => {
                type $T = u32;
                $body
            }
            $crate::dtype::DataType::Int64 => {
                type $T = i64;
                $body
            }
            $crate::dtype::DataType::Uint64 => {
                type $T = u64;
                $body
            }
            $crate::dtype::DataType::Int8 => {
                type $T = i8;
                $body
            }
            $crate::dtype::DataType::Uint8 => {
                type $T = u8;
                $body
            }
            $crate::dtype::DataType::Int4 | $crate::dtype::DataType::Uint4 => {
                unreachable!("4-bit elements are unpacked before anything but a packed product reads them")
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casting_follows_the_draft() {
        let cases = [
            (Number::Float(2.5), Int8, Number::Int(2)),
            (Number::Float(3.5), Int8, Number::Int(4)),
            (Number::Float(-1.0), Uint32, Number::Int(0)),
            (Number::Float(1e30), Int32, Number::Int(i32::MAX as i128)),
            (Number::Float(f64::NEG_INFINITY), Int64, Number::Int(i64::MIN as i128)),
            (Number::Float(f64::NAN), Uint8, Number::Int(0)),
            (Number::Int(u64::MAX as i128), Uint64, Number::Int(u64::MAX as i128)),
            (Number::Int(1 << 100), Uint64, Number::Int(u64::MAX as i128)),
            (Number::Float(65520.0), Float16, Number::Float(f64::INFINITY)),
            (Number::Float(65519.0), Float16, Number::Float(65504.0)),
            (Number::Float(1e39), Float32, Number::Float(f64::INFINITY)),
            (Number::Int(16777217), Float32, Number::Float(16777216.0)),
            (Number::Int(16777217), Float64, Number::Float(16777217.0)),
            (Number::Int((1 << 53) + 1), Float64, Number::Float((1u64 << 53) as f64)),
            // Just above the middle of two; a float64 or float32 in between would round it away.
            (Number::Int((1 << 60) + (1 << 36) + 1), Float32, Number::Float((1u64 << 60 | 1 << 37) as f64)),
            (Number::Float(1.0 + 2f64.powi(-11) + 2f64.powi(-40)), Float16, Number::Float(1.0 + 2f64.powi(-10))),
            (Number::Float(-1.0 - 2f64.powi(-11) - 2f64.powi(-40)), Float16, Number::Float(-1.0 - 2f64.powi(-10))),
            (Number::Float(1.0 + 2f64.powi(-11)), Float16, Number::Float(1.0)),
            (Number::Float(2f64.powi(-25) + 2f64.powi(-70)), Float16, Number::Float(2f64.powi(-24))),
            (Number::Float(f64::MIN_POSITIVE), Float16, Number::Float(0.0)),
            (Number::Float(f64::MAX), Float16, Number::Float(f64::INFINITY)),
            (Number::Float(65520.0 - 1e-9), Float16, Number::Float(65504.0)),
            (Number::Float(f64::NEG_INFINITY), Float16, Number::Float(f64::NEG_INFINITY)),
        ];
        for (number, to, expected) in cases {
            assert_eq!(number.cast(to), expected, "{number:?} to {to}");
        }
        let Number::Float(zero) = Number::Float(-1e-60).cast(Float32) else { panic!("not a float") };
        assert!(zero == 0.0 && zero.is_sign_negative());
    }

    #[test]
    fn numbers_around_every_float16_round_to_the_nearest() {
        for bits in 0..=f16::INFINITY.to_bits() {
            let x = f16::from_bits(bits);
            assert_eq!(nearest_f16(x.to_f64()), x);
            assert_eq!(nearest_f16(-x.to_f64()), -x);
            // The middle to the next one; the one after the largest counts as 2^16.
            let next = if bits + 1 < f16::INFINITY.to_bits() { f16::from_bits(bits + 1).to_f64() } else { 65536.0 };
            let middle = (x.to_f64() + next) / 2.0;
            if x.is_finite() {
                assert_eq!(nearest_f16(middle.next_down()), x);
                assert_eq!(nearest_f16(middle).to_bits(), bits + bits % 2);
                assert_eq!(nearest_f16(middle.next_up()).to_bits(), bits + 1);
            }
        }
        assert!(nearest_f16(f64::NAN).is_nan());
    }

    #[test]
    fn integers_of_any_length_cast_as_themselves() {
        let cast = |negative, words: &[u64], to| Number::from_words(negative, words).cast(to);
        assert_eq!(Number::from_words(false, &[]), Number::Int(0));
        assert_eq!(Number::from_words(true, &[u64::MAX, 0]), Number::Int(-(u64::MAX as i128)));
        for (words, expected) in [
            (&[0, 1 << 63][..], 2f64.powi(127)),
            (&[0, 1], 2f64.powi(64)),
            (&[1, 1 << 63 | 1 << 39], 2f64.powi(127) + 2f64.powi(104)),
            (&[0, 1 << 63 | 1 << 39], 2f64.powi(127)),
            (&[u64::MAX, u64::MAX - (1 << 39)], f32::MAX as f64),
            (&[u64::MAX, u64::MAX], f64::INFINITY),
            (&[0, 0, 1], f64::INFINITY),
            (&[u64::MAX; 100], f64::INFINITY),
        ] {
            assert_eq!(cast(false, words, Float32), Number::Float(expected), "{words:x?}");
            assert_eq!(cast(true, words, Float32), Number::Float(-expected), "{words:x?}");
            assert_eq!(cast(false, words, Uint64), Number::Int(u64::MAX as i128));
            assert_eq!(cast(true, words, Int64), Number::Int(i64::MIN as i128));
            assert_eq!(cast(true, words, Float16), Number::Float(f64::NEG_INFINITY));
        }
    }

    #[test]
    fn scalar_bytes_are_little_endian() {
        assert_eq!(Number::Int(-2).to_bytes(Int64), (-2i64).to_le_bytes());
        assert_eq!(Number::Float(1.0).to_bytes(Float16), [0x00, 0x3c]);
        assert_eq!(Number::Float(300.0).to_bytes(Uint8), [255]);
        assert_eq!(Number::Int(-2).to_bytes(Int4), [0x0e]);
        assert_eq!(Number::Float(99.0).to_bytes(Uint4), [0x0f]);
    }
}
