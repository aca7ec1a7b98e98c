//! WGSL numbers as bits in a `u64`, and operators on them.

use half::f16;
use wgpu::naga::{self, BinaryOperator, MathFunction, ScalarKind, UnaryOperator};

/// Scalar types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    Bool,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
}

impl Scalar {
    /// The scalar type for naga's description; `None` for types that no kernel uses.
    pub fn of(scalar: naga::Scalar) -> Option<Scalar> {
        Some(match (scalar.kind, scalar.width) {
            (ScalarKind::Bool, _) => Scalar::Bool,
            (ScalarKind::Uint, 4) => Scalar::U32,
            (ScalarKind::Sint, 4) => Scalar::I32,
            (ScalarKind::Uint, 8) => Scalar::U64,
            (ScalarKind::Sint, 8) => Scalar::I64,
            (ScalarKind::Float, 2) => Scalar::F16,
            (ScalarKind::Float, 4) => Scalar::F32,
            _ => return None,
        })
    }

    /// Size in memory in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Scalar::Bool => 1,
            Scalar::F16 => 2,
            Scalar::U32 | Scalar::I32 | Scalar::F32 => 4,
            Scalar::U64 | Scalar::I64 => 8,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, Scalar::F16 | Scalar::F32)
    }

    /// The value of a float.
    #[inline(always)]
    pub fn float(self, bits: u64) -> f32 {
        match self {
            Scalar::F16 => f16::from_bits(bits as u16).to_f32(),
            _ => f32::from_bits(bits as u32),
        }
    }

    /// The bits of a float, rounded to this type.
    #[inline(always)]
    pub fn float_bits(self, x: f32) -> u64 {
        match self {
            Scalar::F16 => f16::from_f32(x).to_bits().into(),
            _ => x.to_bits().into(),
        }
    }

    /// The value of an integer or bool; for u64, the same bits.
    #[inline(always)]
    pub fn int(self, bits: u64) -> i64 {
        match self {
            Scalar::I32 => bits as i32 as i64,
            _ => bits as i64,
        }
    }

    /// The lowest bits of an integer.
    #[inline(always)]
    pub fn int_bits(self, x: i64) -> u64 {
        match self {
            Scalar::U64 | Scalar::I64 => x as u64,
            _ => x as u32 as u64,
        }
    }

    /// Converts a value of this type by WGSL's rules: floats truncate and saturate to integers, NaN becomes 0, integers
    /// keep their lowest bits.
    pub fn convert(self, bits: u64, to: Scalar) -> u64 {
        match (self.is_float(), to) {
            (true, Scalar::F16 | Scalar::F32) => to.float_bits(self.float(bits)),
            (true, Scalar::Bool) => (self.float(bits) != 0.0) as u64,
            (true, Scalar::I32) => to.int_bits(self.float(bits) as i32 as i64),
            (true, Scalar::U32) => self.float(bits) as u32 as u64,
            (true, Scalar::I64) => self.float(bits) as i64 as u64,
            (true, Scalar::U64) => self.float(bits) as u64,
            (false, Scalar::Bool) => (bits != 0) as u64,
            (false, Scalar::F16 | Scalar::F32) if self == Scalar::U64 => to.float_bits(bits as f32),
            (false, Scalar::F16 | Scalar::F32) => to.float_bits(self.int(bits) as f32),
            (false, _) => to.int_bits(self.int(bits)),
        }
    }
}

/// An operator on two operands of one type.
#[derive(Clone, Copy)]
pub enum Binary {
    Float(fn(f32, f32) -> f32),
    CompareFloats(fn(&f32, &f32) -> bool),
    Int(fn(i64, i64) -> i64),
    CompareInts(fn(i64, i64) -> bool),
}

impl Binary {
    /// The bits of the result.
    #[inline(always)]
    pub fn apply(self, scalar: Scalar, a: u64, b: u64) -> u64 {
        match self {
            Binary::Float(f) => scalar.float_bits(f(scalar.float(a), scalar.float(b))),
            Binary::CompareFloats(f) => f(&scalar.float(a), &scalar.float(b)) as u64,
            Binary::Int(f) if scalar == Scalar::Bool => (f(a as i64, b as i64) != 0) as u64,
            Binary::Int(f) => scalar.int_bits(f(scalar.int(a), scalar.int(b))),
            Binary::CompareInts(f) => f(scalar.int(a), scalar.int(b)) as u64,
        }
    }
}

/// The operator `op` on numbers of the type `scalar`.
pub fn binary(op: BinaryOperator, scalar: Scalar) -> Option<Binary> {
    use BinaryOperator as B;
    if scalar.is_float() {
        return Some(match op {
            B::Add => Binary::Float(|a, b| a + b),
            B::Subtract => Binary::Float(|a, b| a - b),
            B::Multiply => Binary::Float(|a, b| a * b),
            B::Divide => Binary::Float(|a, b| a / b),
            B::Modulo => Binary::Float(|a, b| a % b),
            B::Equal => Binary::CompareFloats(f32::eq),
            B::NotEqual => Binary::CompareFloats(f32::ne),
            B::Less => Binary::CompareFloats(f32::lt),
            B::LessEqual => Binary::CompareFloats(f32::le),
            B::Greater => Binary::CompareFloats(f32::gt),
            B::GreaterEqual => Binary::CompareFloats(f32::ge),
            _ => return None,
        });
    }
    let unsigned = scalar == Scalar::U64;
    Some(match op {
        B::Add => Binary::Int(i64::wrapping_add),
        B::Subtract => Binary::Int(i64::wrapping_sub),
        B::Multiply => Binary::Int(i64::wrapping_mul),
        B::Divide if unsigned => Binary::Int(|a, b| (a as u64 / b as u64) as i64),
        B::Modulo if unsigned => Binary::Int(|a, b| (a as u64 % b as u64) as i64),
        B::Divide => Binary::Int(i64::wrapping_div),
        B::Modulo => Binary::Int(i64::wrapping_rem),
        B::And | B::LogicalAnd => Binary::Int(|a, b| a & b),
        B::InclusiveOr | B::LogicalOr => Binary::Int(|a, b| a | b),
        B::ExclusiveOr => Binary::Int(|a, b| a ^ b),
        B::Equal => Binary::CompareInts(|a, b| a == b),
        B::NotEqual => Binary::CompareInts(|a, b| a != b),
        B::Less if unsigned => Binary::CompareInts(|a, b| (a as u64) < b as u64),
        B::LessEqual if unsigned => Binary::CompareInts(|a, b| a as u64 <= b as u64),
        B::Greater if unsigned => Binary::CompareInts(|a, b| a as u64 > b as u64),
        B::GreaterEqual if unsigned => Binary::CompareInts(|a, b| a as u64 >= b as u64),
        B::Less => Binary::CompareInts(|a, b| a < b),
        B::LessEqual => Binary::CompareInts(|a, b| a <= b),
        B::Greater => Binary::CompareInts(|a, b| a > b),
        B::GreaterEqual => Binary::CompareInts(|a, b| a >= b),
        B::ShiftLeft => Binary::Int(|a, b| a << b),
        B::ShiftRight if unsigned => Binary::Int(|a, b| (a as u64 >> b) as i64),
        B::ShiftRight => Binary::Int(|a, b| a >> b),
    })
}

/// Why `a op b` is a mistake: WGSL, or a driver without checks, does not return the operator's usual result in these
/// cases.
pub fn misuse(op: BinaryOperator, scalar: Scalar, a: u64, b: u64) -> Option<&'static str> {
    use BinaryOperator as B;
    let lowest = match scalar {
        Scalar::I32 => i32::MIN as u32 as u64,
        _ => i64::MIN as u64,
    };
    let is_signed = matches!(scalar, Scalar::I32 | Scalar::I64);
    match op {
        _ if scalar.is_float() => None,
        B::Divide | B::Modulo if b == 0 => Some("division by zero"),
        B::Divide | B::Modulo if is_signed && a == lowest && scalar.int(b) == -1 => Some("a quotient that overflows"),
        B::ShiftLeft | B::ShiftRight if b >= 8 * scalar.bytes() as u64 => Some("a shift by all bits or more"),
        _ => None,
    }
}

/// Applies the operator `op`; `None` if the type does not support it.
pub fn unary(op: UnaryOperator, scalar: Scalar, bits: u64) -> Option<u64> {
    Some(match op {
        UnaryOperator::Negate if scalar.is_float() => scalar.float_bits(-scalar.float(bits)),
        UnaryOperator::Negate => scalar.int_bits(scalar.int(bits).wrapping_neg()),
        UnaryOperator::LogicalNot => (bits == 0) as u64,
        UnaryOperator::BitwiseNot if !scalar.is_float() => scalar.int_bits(!scalar.int(bits)),
        UnaryOperator::BitwiseNot => return None,
    })
}

/// Applies a component-wise function to the first of `x`, as many as it has arguments; `None` if the function does not
/// support the type.
pub fn math(function: MathFunction, scalar: Scalar, x: [u64; 4]) -> Option<u64> {
    if scalar.is_float() {
        let y = float_math(function, scalar.float(x[0]), scalar.float(x[1]), scalar.float(x[2]));
        return y.map(|y| scalar.float_bits(y));
    }
    int_math(function, scalar, x)
}

fn float_math(function: MathFunction, a: f32, b: f32, c: f32) -> Option<f32> {
    use MathFunction as M;
    Some(match function {
        M::Abs => a.abs(),
        M::Min => a.min(b),
        M::Max => a.max(b),
        M::Clamp => a.max(b).min(c),
        M::Saturate => a.clamp(0.0, 1.0),
        M::Cos => a.cos(),
        M::Sin => a.sin(),
        M::Tan => a.tan(),
        M::Cosh => a.cosh(),
        M::Sinh => a.sinh(),
        M::Tanh => a.tanh(),
        M::Acos => a.acos(),
        M::Asin => a.asin(),
        M::Atan => a.atan(),
        M::Atan2 => a.atan2(b),
        M::Ceil => a.ceil(),
        M::Floor => a.floor(),
        M::Round => a.round_ties_even(),
        M::Trunc => a.trunc(),
        M::Fract => a - a.floor(),
        M::Exp => a.exp(),
        M::Exp2 => a.exp2(),
        M::Log => a.ln(),
        M::Log2 => a.log2(),
        M::Pow => a.powf(b),
        M::Sign if a == 0.0 => 0.0,
        M::Sign => a.signum(),
        M::Fma => a.mul_add(b, c),
        M::Mix => a * (1.0 - c) + b * c,
        M::Step => (a <= b) as u8 as f32,
        M::Sqrt => a.sqrt(),
        M::InverseSqrt => 1.0 / a.sqrt(),
        M::QuantizeToF16 => f16::from_f32(a).to_f32(),
        _ => return None,
    })
}

fn int_math(function: MathFunction, scalar: Scalar, [x, y, z, w]: [u64; 4]) -> Option<u64> {
    use MathFunction as M;
    let signed = matches!(scalar, Scalar::I32 | Scalar::I64);
    let (a, b, c) = (scalar.int(x), scalar.int(y), scalar.int(z));
    let less = |p: i64, q: i64| if scalar == Scalar::U64 { (p as u64) < q as u64 } else { p < q };
    let min = |p: i64, q: i64| if less(q, p) { q } else { p };
    let max = |p: i64, q: i64| if less(p, q) { q } else { p };
    let bits = 8 * scalar.bytes() as u32;
    let unused = 64 - bits;
    let result = match function {
        M::Abs if signed => a.wrapping_abs(),
        M::Abs => a,
        M::Sign => a.signum(),
        M::Min => min(a, b),
        M::Max => max(a, b),
        M::Clamp => min(max(a, b), c),
        M::CountTrailingZeros => x.trailing_zeros().min(bits) as i64,
        M::CountLeadingZeros => (x.leading_zeros() - unused) as i64,
        M::CountOneBits => x.count_ones() as i64,
        M::ReverseBits => (x.reverse_bits() >> unused) as i64,
        M::FirstTrailingBit => {
            if x == 0 {
                -1
            } else {
                x.trailing_zeros() as i64
            }
        }
        M::FirstLeadingBit => {
            let magnitude = if a < 0 && signed { !a as u64 } else { x };
            63 - magnitude.leading_zeros() as i64
        }
        M::ExtractBits => {
            let (offset, count) = field(y, z, bits);
            let top = (a as u64).checked_shl(64 - offset - count).unwrap_or(0);
            match count {
                0 => 0,
                _ if signed => (top as i64) >> (64 - count),
                _ => (top >> (64 - count)) as i64,
            }
        }
        M::InsertBits => {
            let (offset, count) = field(z, w, bits);
            let mask = ((1u128 << count) - 1) as u64;
            let place = |bits: u64| bits.checked_shl(offset).unwrap_or(0);
            ((x & !place(mask)) | place(y & mask)) as i64
        }
        _ => return None,
    };
    Some(scalar.int_bits(result))
}

/// Clamps the start and length of a bit field to the bits of the type.
fn field(offset: u64, count: u64, bits: u32) -> (u32, u32) {
    let offset = offset.min(bits as u64) as u32;
    (offset, count.min((bits - offset) as u64) as u32)
}

/// Packs two floats as halves into a word, the first one in the lower half.
pub fn pack_halves(x: [f32; 2]) -> u64 {
    let [low, high] = x.map(|x| f16::from_f32(x).to_bits() as u64);
    high << 16 | low
}

/// Unpacks the halves of a word as floats.
pub fn unpack_halves(word: u64) -> [f32; 2] {
    [word as u16, (word >> 16) as u16].map(|bits| f16::from_bits(bits).to_f32())
}

/// Unpacks the bytes of a word as integers.
pub fn unpack_bytes(word: u64, signed: bool) -> [i64; 4] {
    (word as u32).to_le_bytes().map(|byte| if signed { byte as i8 as i64 } else { byte as i64 })
}

/// Packs the lowest bytes of integers into a word; if `clamped`, clamps the integers to the range of a byte first.
pub fn pack_bytes(x: [i64; 4], signed: bool, clamped: bool) -> u64 {
    let range = if signed { (-128, 127) } else { (0, 255) };
    let byte = |x: i64| if clamped { x.clamp(range.0, range.1) as u8 } else { x as u8 };
    u32::from_le_bytes(x.map(byte)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_bits() {
        let extract =
            |scalar, x, offset, count| math(MathFunction::ExtractBits, scalar, [x, offset, count, 0]).unwrap();
        assert_eq!(extract(Scalar::U32, 0xabcd_1234, 8, 8), 0x12);
        assert_eq!(extract(Scalar::I32, 0x80ff_0000, 16, 8), 0xffff_ffff);
        assert_eq!(extract(Scalar::U32, 0xabcd_1234, 0, 32), 0xabcd_1234);
        assert_eq!(extract(Scalar::U32, 0xabcd_1234, 32, 4), 0);
        let insert = |x, y, offset, count| math(MathFunction::InsertBits, Scalar::U32, [x, y, offset, count]).unwrap();
        assert_eq!(insert(0x1111_1111, 0xab, 8, 8), 0x1111_ab11);
        assert_eq!(insert(0x1111_1111, 0xab, 28, 8), 0xb111_1111);
    }

    #[test]
    fn integers_wrap_and_compare_in_their_type() {
        let apply = |op, scalar, a, b| binary(op, scalar).unwrap().apply(scalar, a, b);
        assert_eq!(apply(BinaryOperator::Add, Scalar::U32, 0xffff_ffff, 1), 0);
        assert_eq!(apply(BinaryOperator::ShiftRight, Scalar::I32, 0x8000_0000, 31), 0xffff_ffff);
        assert_eq!(apply(BinaryOperator::ShiftRight, Scalar::U64, 1 << 63, 63), 1);
        assert_eq!(apply(BinaryOperator::Less, Scalar::I32, 0xffff_ffff, 0), 1);
        assert_eq!(apply(BinaryOperator::Less, Scalar::U32, 0xffff_ffff, 0), 0);
        assert_eq!(apply(BinaryOperator::Less, Scalar::U64, u64::MAX, 0), 0);
        assert_eq!(Scalar::F32.convert(f32::NAN.to_bits().into(), Scalar::I32), 0);
        assert_eq!(Scalar::F32.convert(1e30f32.to_bits().into(), Scalar::U32), 0xffff_ffff);
        assert_eq!(Scalar::I32.convert(0xffff_ffff, Scalar::I64), u64::MAX);
    }
}
