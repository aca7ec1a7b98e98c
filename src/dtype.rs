//! Data types of operands (`MLOperandDataType`) and the casting rules of section 9.2 of the draft.

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
}

use DataType::*;

impl DataType {
    /// Every data type, in the order of the IDL enumeration.
    pub const ALL: [DataType; 8] = [Float32, Float16, Int32, Uint32, Int64, Uint64, Int8, Uint8];

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
        }
    }

    /// The data type of that name, if there is one.
    pub fn from_name(name: &str) -> Option<DataType> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }

    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            Int8 | Uint8 => 1,
            Float16 => 2,
            Float32 | Int32 | Uint32 => 4,
            Int64 | Uint64 => 8,
        }
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Float32 | Float16)
    }

    /// Smallest and largest value of an integer type; `None` for floating-point types.
    pub const fn integer_range(self) -> Option<(i128, i128)> {
        Some(match self {
            Float32 | Float16 => return None,
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
    /// A double, also NaN and the infinities.
    Float(f64),
    /// An integer of any of the integer types.
    Int(i128),
}

impl Number {
    /// Casts to the nearest value of `to`, by section 9.2 of the draft: floats round to nearest even,
    /// integers clamp to the range, NaN becomes 0. The result is `Float` for a floating-point type and
    /// `Int` for an integer type.
    pub fn cast(self, to: DataType) -> Number {
        match to.integer_range() {
            None => Number::Float(match self {
                // Of a large integer a double is not exact: rounding that again could round it away from the nearest.
                Number::Int(x) if to == Float32 => x as f32 as f64,
                _ if to == Float32 => self.to_f64() as f32 as f64,
                _ => nearest_half(self.to_f64()).to_f64(),
            }),
            Some((min, max)) => Number::Int(match self {
                // `as` saturates, so the infinities stay outside of every range until the clamp.
                Number::Float(x) => (x.round_ties_even() as i128).clamp(min, max),
                Number::Int(x) => x.clamp(min, max),
            }),
        }
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Float(x) => x,
            Number::Int(x) => x as f64,
        }
    }

    /// The little-endian bytes of this number cast to `to`.
    pub fn to_bytes(self, to: DataType) -> Vec<u8> {
        match (self.cast(to), to) {
            (Number::Float(x), Float16) => nearest_half(x).to_le_bytes().to_vec(),
            (Number::Float(x), _) => (x as f32).to_le_bytes().to_vec(),
            (Number::Int(x), _) => x.to_le_bytes()[..to.size()].to_vec(),
        }
    }
}

/// The half float nearest to `x`, ties to even.
///
/// `f16::from_f64` rounds twice, or not by the lowest bits, which makes ties of values that are none.
pub fn nearest_half(x: f64) -> f16 {
    let nearest = x as f32;
    if nearest as f64 == x || x.is_nan() {
        return f16::from_f32(nearest);
    }
    // Rounded to odd, a float32 remembers on which side of every tie of float16 the value lies.
    let towards_zero = nearest.to_bits() - ((nearest as f64).abs() > x.abs()) as u32;
    f16::from_f32(f32::from_bits(towards_zero | 1))
}

/// A Rust type that stores one element of a [`DataType`].
pub trait Element: Copy + Default + PartialEq + PartialOrd + Send + Sync + fmt::Debug + 'static {
    /// The data type that is stored.
    const DATA_TYPE: DataType;
    /// The value as an abstract number.
    fn number(self) -> Number;
    /// The nearest value of this type, as [`Number::cast`] defines it.
    fn from_number(number: Number) -> Self;
}

macro_rules! elements {
    ($($type:ty = $dtype:ident, |$x:ident| $number:expr, $variant:ident($n:ident) => $from:expr;)*) => {$(
        impl Element for $type {
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
    f16 = Float16, |x| Number::Float(x.to_f64()), Float(x) => nearest_half(x);
    i32 = Int32, |x| Number::Int(x as i128), Int(x) => x as i32;
    u32 = Uint32, |x| Number::Int(x as i128), Int(x) => x as u32;
    i64 = Int64, |x| Number::Int(x as i128), Int(x) => x as i64;
    u64 = Uint64, |x| Number::Int(x as i128), Int(x) => x as u64;
    i8 = Int8, |x| Number::Int(x as i128), Int(x) => x as i8;
    u8 = Uint8, |x| Number::Int(x as i128), Int(x) => x as u8;
}

/// Runs `$body` with the type name `$T` standing for the Rust type that stores `$dtype`.
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
            (Number::Int((1 << 60) + (1 << 36) + 1), Float32, Number::Float((1u64 << 60 | 1 << 37) as f64)),
        ];
        for (number, to, expected) in cases {
            assert_eq!(number.cast(to), expected, "{number:?} to {to}");
        }
        let Number::Float(zero) = Number::Float(-1e-60).cast(Float32) else { panic!("not a float") };
        assert!(zero == 0.0 && zero.is_sign_negative());
    }

    #[test]
    fn half_floats_are_rounded_once() {
        let (unit, tiny) = (2f64.powi(-10), 2f64.powi(-40));
        let smallest = 2f64.powi(-24);
        for (x, nearest) in [
            (1.0 + unit / 2.0, 1.0),
            (1.0 + unit / 2.0 + tiny, 1.0 + unit),
            (1.0 + unit * 1.5 - tiny, 1.0 + unit),
            (1.0 + unit * 1.5, 1.0 + unit * 2.0),
            (65520.0 - unit, 65504.0),
            (65520.0, f64::INFINITY),
            (f64::MAX, f64::INFINITY),
            (smallest / 2.0, 0.0),
            (smallest / 2.0 + tiny * smallest, smallest),
            (f64::MIN_POSITIVE, 0.0),
        ] {
            for sign in [1.0, -1.0] {
                assert_eq!(nearest_half(sign * x).to_bits(), f16::from_f64(sign * nearest).to_bits(), "{x:e} * {sign}");
            }
        }
        assert!(nearest_half(f64::NAN).is_nan());
        assert_eq!(nearest_half(-0.0).to_bits(), 0x8000);
    }

    #[test]
    fn scalar_bytes_are_little_endian() {
        assert_eq!(Number::Int(-2).to_bytes(Int64), (-2i64).to_le_bytes());
        assert_eq!(Number::Float(1.0).to_bytes(Float16), [0x00, 0x3c]);
        assert_eq!(Number::Float(300.0).to_bytes(Uint8), [255]);
    }
}
