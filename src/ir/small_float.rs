//! Floating-point types of 4 and 8 bits, in which files store weights and scales. See "OCP 8-bit Floating Point
//! Specification", "OCP Microscaling Formats", and for NF4 and FP4 bitsandbytes.

/// A floating-point type of 4 or 8 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SmallFloat {
    /// 8 bits, 3 of them fraction, without infinities.
    E4m3fn,
    /// The same, with one NaN in the place of the negative zero.
    E4m3fnuz,
    /// 8 bits, 2 of them fraction.
    E5m2,
    /// The same without infinities, with one NaN in the place of the negative zero.
    E5m2fnuz,
    /// 8 bits of exponent: a power of two, without sign and zero.
    E8m0,
    /// 4 bits, 1 of them fraction, without infinities and NaN. Two share a byte, the first in its low bits.
    E2m1,
    /// One of the 16 quantiles of a normal distribution, scaled to -1..1, as bitsandbytes stores it. Two share a byte,
    /// the first in its high bits.
    Nf4,
    /// A floating-point number of 4 bits, scaled to -1..1 and stored likewise.
    Fp4,
}

/// The numbers of [`SmallFloat::Nf4`].
const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// The numbers of [`SmallFloat::Fp4`] without their sign.
const FP4: [f32; 8] = [0.0, 5.208_333_3e-3, 0.666_666_7, 1.0, 0.333_333_34, 0.5, 0.166_666_67, 0.25];

impl SmallFloat {
    /// Bits per element.
    pub const fn bits(self) -> usize {
        match self {
            SmallFloat::E2m1 | SmallFloat::Nf4 | SmallFloat::Fp4 => 4,
            _ => 8,
        }
    }

    /// The bit pattern of element `at` of those in `bytes`.
    pub fn pattern(self, bytes: &[u8], at: usize) -> usize {
        let (byte, second) = match self.bits() {
            8 => return usize::from(bytes[at]),
            _ => (bytes[at / 2], at % 2 == 1),
        };
        let begins_high = matches!(self, SmallFloat::Nf4 | SmallFloat::Fp4);
        usize::from(if second == begins_high { byte & 15 } else { byte >> 4 })
    }

    /// The numbers of all bit patterns, in order; each is a float32.
    pub const fn values(self) -> &'static [f32; 256] {
        const fn table(of: SmallFloat) -> [f32; 256] {
            let mut values = [0.0; 256];
            let mut bits = 0;
            while bits < 1 << of.bits() {
                values[bits] = of.value(bits as u32);
                bits += 1;
            }
            values
        }
        const E4M3FN: [f32; 256] = table(SmallFloat::E4m3fn);
        const E4M3FNUZ: [f32; 256] = table(SmallFloat::E4m3fnuz);
        const E5M2: [f32; 256] = table(SmallFloat::E5m2);
        const E5M2FNUZ: [f32; 256] = table(SmallFloat::E5m2fnuz);
        const E8M0: [f32; 256] = table(SmallFloat::E8m0);
        const E2M1: [f32; 256] = table(SmallFloat::E2m1);
        const NF4: [f32; 256] = table(SmallFloat::Nf4);
        const FP4: [f32; 256] = table(SmallFloat::Fp4);
        match self {
            SmallFloat::E4m3fn => &E4M3FN,
            SmallFloat::E4m3fnuz => &E4M3FNUZ,
            SmallFloat::E5m2 => &E5M2,
            SmallFloat::E5m2fnuz => &E5M2FNUZ,
            SmallFloat::E8m0 => &E8M0,
            SmallFloat::E2m1 => &E2M1,
            SmallFloat::Nf4 => &NF4,
            SmallFloat::Fp4 => &FP4,
        }
    }

    /// The number of one bit pattern.
    const fn value(self, bits: u32) -> f32 {
        // Bits of the fraction, the bias of the exponent.
        let (fraction_bits, bias) = match self {
            SmallFloat::E4m3fn => (3, 7),
            SmallFloat::E4m3fnuz => (3, 8),
            SmallFloat::E5m2 => (2, 15),
            SmallFloat::E5m2fnuz => (2, 16),
            SmallFloat::E8m0 => return if bits == 0xff { f32::NAN } else { power_of_two(bits as i32 - 127) },
            SmallFloat::E2m1 => (1, 1),
            SmallFloat::Nf4 => return NF4[bits as usize],
            SmallFloat::Fp4 => return if bits < 8 { FP4[bits as usize] } else { -FP4[bits as usize - 8] },
        };
        let sign_bit = 1 << (self.bits() - 1);
        let magnitude = bits & (sign_bit - 1);
        let is_negative = bits & sign_bit != 0;
        let (exponent, fraction) = (magnitude >> fraction_bits, magnitude & ((1 << fraction_bits) - 1));
        let number = match self {
            SmallFloat::E4m3fn if magnitude == 0x7f => f32::NAN,
            SmallFloat::E5m2 if exponent == 31 => {
                if fraction == 0 {
                    f32::INFINITY
                } else {
                    f32::NAN
                }
            }
            SmallFloat::E4m3fnuz | SmallFloat::E5m2fnuz if bits == sign_bit => f32::NAN,
            _ if exponent == 0 => fraction as f32 * power_of_two(1 - bias - fraction_bits),
            _ => ((1 << fraction_bits) + fraction) as f32 * power_of_two(exponent as i32 - bias - fraction_bits),
        };
        if is_negative { -number } else { number }
    }
}

/// 2 to the power of `exponent`, from -127 on, a subnormal float32.
const fn power_of_two(exponent: i32) -> f32 {
    if exponent < -126 { f32::from_bits(1 << 22) } else { f32::from_bits(((exponent + 127) as u32) << 23) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the specifications say: the smallest and the largest positive number, and the one of the pattern of 1.
    #[test]
    fn numbers_are_those_of_the_specifications() {
        use SmallFloat::*;
        for (of, least, one, most) in [
            (E4m3fn, (1, 2f32.powi(-9)), 0x38, (0x7e, 448.0)),
            (E4m3fnuz, (1, 2f32.powi(-10)), 0x40, (0x7f, 240.0)),
            (E5m2, (1, 2f32.powi(-16)), 0x3c, (0x7b, 57344.0)),
            (E5m2fnuz, (1, 2f32.powi(-17)), 0x40, (0x7f, 57344.0)),
            (E2m1, (1, 0.5), 2, (7, 6.0)),
        ] {
            let values = of.values();
            assert_eq!((values[least.0], values[one], values[most.0]), (least.1, 1.0, most.1), "{of:?}");
            assert_eq!(values[most.0 | 1 << (of.bits() - 1)], -most.1, "{of:?}");
            let positive = &values[..=most.0];
            assert!(positive.is_sorted() && positive[0] == 0.0, "{of:?}");
        }
        assert_eq!(E8m0.values()[..2], [2f32.powi(-127), 2f32.powi(-126)]);
        assert_eq!(E8m0.values()[127..129], [1.0, 2.0]);
        assert_eq!(E8m0.values()[254], 2f32.powi(127));
        let nans = |of: SmallFloat| (0..256).filter(|&bits| of.values()[bits].is_nan()).collect::<Vec<_>>();
        assert_eq!(nans(E4m3fn), [0x7f, 0xff]);
        assert_eq!((nans(E4m3fnuz), nans(E5m2fnuz)), (vec![0x80], vec![0x80]));
        assert_eq!(nans(E5m2), [0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff]);
        assert_eq!((E5m2.values()[0x7c], E5m2.values()[0xfc]), (f32::INFINITY, f32::NEG_INFINITY));
        assert_eq!((nans(E8m0), nans(E2m1)), (vec![255], vec![]));
        assert_eq!(
            Fp4.values()[..8],
            [0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0].map(|number: f64| (number / 12.0) as f32)
        );
        assert_eq!((Fp4.values()[11], Nf4.values()[0], Nf4.values()[15]), (-1.0, -1.0, 1.0));
        assert_eq!([0, 1, 2].map(|at| E2m1.pattern(&[0x21, 0x43], at)), [1, 2, 3]);
        assert_eq!([0, 1, 2].map(|at| Nf4.pattern(&[0x21, 0x43], at)), [2, 1, 4]);
        assert!(E4m3fn.values()[0x80] == 0.0 && E4m3fn.values()[0x80].is_sign_negative());
    }
}
