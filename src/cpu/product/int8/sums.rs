//! Sums and products of two tensors of bytes, element by element, and the conversion of bytes to another scale.
//!
//! The results are those of the float32 operators `dequantizeLinear`, `add` or `mul`, and `quantizeLinear`, bit by bit.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use crate::cpu::product::formats::{ByteFormat, Format, FormatKernel};
use crate::cpu::simd::Simd;
use crate::cpu::simd::dot::{Integers, ToBytes};
use crate::ops::quantized::Scale;

/// The most elements that are computed at once: four vectors.
const MOST: usize = 64;

/// How two numbers become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The first one.
    First,
    /// Their sum.
    Add,
    /// Their product.
    Mul,
}

/// An element-wise operator on bytes.
#[derive(Clone, Copy, Debug)]
pub struct ByteSum {
    /// The scales of the operands; equal if there is only one.
    pub operands: [Scale; 2],
    /// Whether the bytes of the operands are signed.
    pub is_signed: bool,
    /// How the numbers of both operands become one.
    pub join: Join,
    /// The scale of the result.
    pub scale: f32,
    /// The conversion of the result, in steps of its scale.
    pub to: ToBytes,
}

impl ByteSum {
    /// Whether the results are those of the float32 operators: all quotients must be integers that a vector can hold.
    pub fn is_exact(&self) -> bool {
        let [x, z] = self.operands.map(|operand| 255.0 * operand.scale as f64);
        let most = match self.join {
            Join::First => x,
            Join::Add => x + z,
            Join::Mul => x * z,
        };
        let out = Scale { scale: self.scale, zero: 0 };
        self.operands.iter().chain([&out]).all(Scale::is_usable) && most / (self.scale as f64) < (1u64 << 30) as f64
    }

    /// Computes the elements of `out`.
    ///
    /// # Panics
    /// If the slices do not have the same length.
    pub fn run(&self, format: ByteFormat, operands: [&[u8]; 2], out: &mut [u8]) {
        assert!(operands.iter().all(|operand| operand.len() == out.len()));
        format.run(false, RunSum { sum: self, operands, out });
    }
}

struct RunSum<'a> {
    sum: &'a ByteSum,
    operands: [&'a [u8]; 2],
    out: &'a mut [u8],
}

impl FormatKernel for RunSum<'_> {
    type Output = ();

    #[inline(always)]
    fn run<F: Format>(self, format: F) {
        match self.sum.is_signed {
            false => self.join::<F::Integers, false>(format.integers()),
            true => self.join::<F::Integers, true>(format.integers()),
        }
    }
}

impl RunSum<'_> {
    #[inline(always)]
    fn join<I: Integers, const SIGNED: bool>(self, integers: I) {
        match self.sum.join {
            Join::First => self.all::<I, SIGNED, { Join::First as u8 }>(integers),
            Join::Add => self.all::<I, SIGNED, { Join::Add as u8 }>(integers),
            Join::Mul => self.all::<I, SIGNED, { Join::Mul as u8 }>(integers),
        }
    }

    #[inline(always)]
    fn all<I: Integers, const SIGNED: bool, const JOIN: u8>(self, integers: I) {
        let (float, ByteSum { operands: [x, z], scale, to, .. }) = (integers.float(), *self.sum);
        let each = 4 * I::LANES;
        let numbers = Numbers {
            integers,
            scales: [float.splat(x.scale), float.splat(z.scale)],
            less: [float.splat(-(x.zero as f32)), float.splat(-(z.zero as f32))],
            divisor: float.splat(-scale),
            reciprocal: float.splat(1.0 / scale),
        };
        let whole = self.out.len() / each * each;
        for at in (0..whole).step_by(each) {
            let [x, z] = self.operands.map(|operand| operand[at..at + each].as_ptr());
            let out = self.out[at..at + each].as_mut_ptr();
            // SAFETY: the slices have the elements of four vectors.
            unsafe { integers.store_bytes::<4, false>(numbers.four::<SIGNED, JOIN>([x, z]), to, out, each) };
        }
        let (rest, mut last) = (self.out.len() - whole, [[0; MOST]; 2]);
        if rest > 0 {
            for (to, from) in last.iter_mut().zip(self.operands) {
                to[..rest].copy_from_slice(&from[whole..]);
            }
            let out = self.out[whole..].as_mut_ptr();
            // SAFETY: the arrays have the elements of four vectors, and the output those that are written.
            unsafe {
                let results = numbers.four::<SIGNED, JOIN>([last[0].as_ptr(), last[1].as_ptr()]);
                integers.store_bytes::<4, false>(results, to, out, rest);
            }
        }
    }
}

/// The numbers of a [`ByteSum`] in all lanes.
struct Numbers<I: Integers> {
    integers: I,
    scales: [<I::Float as Simd>::F32; 2],
    /// The negative zero points.
    less: [<I::Float as Simd>::F32; 2],
    /// The negative scale of the result.
    divisor: <I::Float as Simd>::F32,
    /// The reciprocal of the scale of the result, rounded.
    reciprocal: <I::Float as Simd>::F32,
}

impl<I: Integers> Numbers<I> {
    /// The results, in steps of their scale, for four vectors of elements.
    ///
    /// # Safety
    /// The elements must be readable.
    #[inline(always)]
    unsafe fn four<const SIGNED: bool, const JOIN: u8>(&self, from: [*const u8; 2]) -> [I::Sums; 4] {
        let (integers, float) = (self.integers, self.integers.float());
        let mut results = [integers.splat(0); 4];
        for v in 0..4 {
            let mut values = self.scales;
            for i in 0..if JOIN == Join::First as u8 { 1 } else { 2 } {
                // SAFETY: the caller guarantees it.
                let bytes = unsafe { integers.load_bytes::<SIGNED>(from[i].add(v * I::LANES)) };
                values[i] = float.mul(float.add(integers.to_float(bytes), self.less[i]), self.scales[i]);
            }
            let value = match JOIN {
                _ if JOIN == Join::Add as u8 => float.add(values[0], values[1]),
                _ if JOIN == Join::Mul as u8 => float.mul(values[0], values[1]),
                _ => values[0],
            };
            results[v] = integers.round(self.quotient(value));
        }
        results
    }

    /// `value` divided by the scale of the result, rounded to the nearest float, as a division rounds, which takes
    /// several times as long. The first correction leaves an error below one unit in the last place; the remainder is
    /// then exact, and the second correction rounds it correctly (Markstein's theorem).
    #[inline(always)]
    fn quotient(&self, value: <I::Float as Simd>::F32) -> <I::Float as Simd>::F32 {
        let float = self.integers.float();
        let mut quotient = float.mul(value, self.reciprocal);
        for _ in 0..2 {
            let remainder = float.mul_add(quotient, self.divisor, value);
            quotient = float.mul_add(remainder, self.reciprocal, quotient);
        }
        quotient
    }
}

#[cfg(test)]
mod tests {
    use super::super::to_bytes;
    use super::*;
    use crate::cpu::simd::Isa;
    use crate::dtype::DataType;

    /// The result of the float32 operators, for bytes of one type.
    fn expected([x, z]: [i32; 2], [a, b]: [Scale; 2], join: Join, to: Scale, [low, high]: [f32; 2]) -> f32 {
        let number = |byte: i32, scale: Scale| (byte - scale.zero as i32) as f32 * scale.scale;
        let value = match join {
            Join::First => number(x, a),
            Join::Add => number(x, a) + number(z, b),
            Join::Mul => number(x, a) * number(z, b),
        };
        (value.clamp(low, high) / to.scale).round_ties_even() + to.zero as f32
    }

    #[test]
    fn all_pairs_of_bytes_give_the_result_of_the_float_operators() {
        let all: [Vec<u8>; 2] =
            [(0..1 << 16).map(|i| i as u8).collect(), (0..1 << 16).map(|i| (i >> 8) as u8).collect()];
        let number = |byte: u8, is_signed: bool| if is_signed { byte as i8 as i32 } else { byte as i32 };
        // Powers of two and equal scales have the most ties; some results are far out of range, or all 0.
        let scales = [
            [0.5, 0.25, 0.5],
            [0.1, 0.1, 0.1],
            [0.02, 0.03, 0.05],
            [0.0234, 0.0117, 0.0311],
            [1.0, 3.0, 7.0],
            [0.003, 1.7, 0.9],
            [1e-14, 1e14, 0.33],
            [0.33, 0.77, 1e-6],
            [f32::MIN_POSITIVE * 1e25, 2.5e-13, 1.1e-13],
        ];
        let mut checked = 0;
        for (index, [x, z, to]) in scales.into_iter().enumerate() {
            for (dtype, join) in [
                (DataType::Uint8, Join::First),
                (DataType::Uint8, Join::Add),
                (DataType::Int8, Join::Add),
                (DataType::Uint8, Join::Mul),
                (DataType::Int8, Join::Mul),
            ] {
                let is_signed = dtype == DataType::Int8;
                let zeros =
                    [[0, 0, 0], [3, 250, 128], [255, 0, 17]][index % 3].map(|zero: i16| zero - 128 * is_signed as i16);
                let [x, z, to] =
                    [(x, zeros[0]), (z, zeros[1]), (to, zeros[2])].map(|(scale, zero)| Scale { scale, zero });
                let range = [[f32::NEG_INFINITY, f32::INFINITY], [0.0, f32::INFINITY], [-1.5, 6.0]][index / 3];
                let operands = if join == Join::First { [x, x] } else { [x, z] };
                let sum = ByteSum { operands, is_signed, join, scale: to.scale, to: to_bytes(dtype, to, range) };
                if !sum.is_exact() {
                    continue;
                }
                for format in
                    Isa::available().into_iter().filter(|isa| *isa != Isa::Portable).flat_map(ByteFormat::available)
                {
                    let mut out = vec![0; 1 << 16];
                    sum.run(format, [&all[0], &all[1]], &mut out);
                    for (at, &byte) in out.iter().enumerate() {
                        let bytes = [number(all[0][at], is_signed), number(all[1][at], is_signed)];
                        let least = if is_signed { -128.0 } else { 0.0 };
                        let expected = expected(bytes, operands, join, to, range).clamp(least, least + 255.0) as i32;
                        assert_eq!(number(byte, is_signed), expected, "{format:?}, {sum:?}: {bytes:?}");
                    }
                    checked += 1;
                }
            }
        }
        assert!(checked >= 30 * Isa::available().len().saturating_sub(1));
    }

    #[test]
    fn ends_that_are_no_whole_vector() {
        let one = Scale { scale: 1.0, zero: 0 };
        let to = to_bytes(DataType::Uint8, one, [f32::NEG_INFINITY, f32::INFINITY]);
        let sum = ByteSum { operands: [one; 2], is_signed: false, join: Join::Add, scale: 1.0, to };
        for format in Isa::available().into_iter().filter(|isa| *isa != Isa::Portable).flat_map(ByteFormat::available) {
            for len in [0, 1, 15, 16, 31, 33, 63, 64, 65, 200] {
                let [x, z]: [Vec<u8>; 2] = [(0..len as u8).collect(), vec![7; len]];
                let mut out = vec![0; len];
                sum.run(format, [&x, &z], &mut out);
                assert!(out.iter().zip(&x).all(|(&out, &x)| out == x.saturating_add(7)), "{format:?}, {len}");
            }
        }
    }
}
