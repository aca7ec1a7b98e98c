//! Rows of floats rounded to 8-bit or 24-bit integers, with a scale per block.
//!
//! An integer is one or three signed digits to the base 256: products with packed weights are then sums of products of
//! bytes.

use super::BlockPanels;
use crate::cpu::simd::dot::{Dot, DotKernel, DotLevel, ToBytes};
use crate::cpu::simd::{Isa, Simd};
use crate::memory::{bytes_of, bytes_of_mut, elements, elements_mut};

/// Conversion to signed bytes.
const SIGNED: ToBytes = ToBytes { zero: 128, low: 0, high: 255, flip: 0x80 };

/// Rows with a block whose largest magnitude is below this one are not rounded to 24 bits: the inverse of the step must be finite,
/// and the product of the step and a weight's scale a normal number.
const LEAST: f32 = 1e-20;

/// The number of digits of the integers that a row is rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// 8-bit integers.
    One = 1,
    /// 24-bit integers.
    Three = 3,
}

/// The format of rounded rows.
///
/// For each digit, the highest one first, a rounded row has [`BlockPanels::padded`] bytes in the byte order of the
/// words in panels, with zeros after the depth; then the scale of each block; then, for each digit, the sum of the
/// bytes of each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounding {
    /// Elements per row.
    pub depth: usize,
    /// Elements per block.
    pub block: usize,
    /// Digits per element.
    pub digits: Digits,
    /// The bits of the weights to multiply with, which determine the byte order.
    pub bits: usize,
}

impl Rounding {
    /// Blocks per row.
    pub(super) fn blocks(&self) -> usize {
        self.depth.div_ceil(self.block)
    }

    /// Distance between digits of a row, in bytes.
    pub(super) fn stride(&self) -> usize {
        BlockPanels::padded(self.depth)
    }

    /// Offset of the scales, in floats.
    fn scales_start(&self) -> usize {
        self.digits as usize * self.stride() / size_of::<f32>()
    }

    /// Size of a rounded row, in floats.
    pub fn row_len(&self) -> usize {
        self.scales_start() + (1 + self.digits as usize) * self.blocks()
    }

    /// The scales of a rounded row.
    pub(super) fn scales<'a>(&self, row: &'a [f32]) -> &'a [f32] {
        &row[self.scales_start()..][..self.blocks()]
    }

    /// The sums of a rounded row, digit by digit.
    pub(super) fn sums<'a>(&self, row: &'a [f32]) -> &'a [i32] {
        elements(bytes_of(&row[self.scales_start() + self.blocks()..self.row_len()]))
    }

    /// Whether a rounded row represents the floats: with three digits, all of them must be finite, and no block may
    /// have only tiny ones. With one digit, a row that is not finite produces NaN.
    pub fn fits(&self, row: &[f32]) -> bool {
        !self.scales(row)[0].is_nan()
    }

    /// Rounds `from`. With one digit, to multiples of 1/127 of the largest magnitude of each block. With three digits,
    /// to multiples of a power of two that is about 2^-22 of that magnitude at most: integers stay exact, and so do floats
    /// with few bits that are not much smaller.
    ///
    /// # Panics
    /// If `from` is shorter than a row, or `to` is shorter than [`row_len`](Self::row_len).
    pub fn round(&self, isa: Isa, from: &[f32], to: &mut [f32]) {
        let (bytes, rest) = to[..self.row_len()].split_at_mut(self.scales_start());
        let (scales, sums) = rest.split_at_mut(self.blocks());
        let (bytes, sums) = (bytes_of_mut(bytes), elements_mut::<i32>(bytes_of_mut(sums)));
        let (level, from, block, is_nibble) = (DotLevel::of(isa), &from[..self.depth], self.block, self.bits == 4);
        match self.digits {
            Digits::One => level.run(Round::<1> { from, block, is_nibble, bytes, scales, sums }),
            Digits::Three => level.run(Round::<3> { from, block, is_nibble, bytes, scales, sums }),
        };
    }
}

/// Reorders eight bytes as in [`NIBBLES`](super::NIBBLES): the even ones first.
#[inline(always)]
fn nibble_order(bytes: u64) -> u64 {
    let even = |bytes: u64| {
        let bytes = bytes & 0x00ff_00ff_00ff_00ff;
        let bytes = (bytes | bytes >> 8) & 0x0000_ffff_0000_ffff;
        (bytes | bytes >> 16) & 0xffff_ffff
    };
    even(bytes) | even(bytes >> 8) << 32
}

struct Round<'a, const DIGITS: usize> {
    from: &'a [f32],
    block: usize,
    /// Whether the weights have 4 bits.
    is_nibble: bool,
    bytes: &'a mut [u8],
    scales: &'a mut [f32],
    sums: &'a mut [i32],
}

impl<const DIGITS: usize> DotKernel for Round<'_, DIGITS> {
    type Output = ();
    #[inline(always)]
    fn run<D: Dot>(self, dot: D) {
        let (simd, lanes) = (dot.float(), D::LANES);
        let Round { from, block, is_nibble, bytes, scales, sums } = self;
        let stride = bytes.len() / DIGITS;
        bytes.chunks_exact_mut(stride).for_each(|line| line[from.len()..].fill(0));
        // NaN if any factor is NaN or infinite. With one digit all products are then NaN, with three the row stays floats.
        let (mut finite, mut least) = (simd.splat(0.0), f32::MAX);
        for (index, from) in from.chunks(block).enumerate() {
            let mut most = simd.splat(0.0);
            for x in from.chunks(lanes) {
                let x = simd.load_partial(x);
                most = simd.max(most, simd.max(x, simd.mul(x, simd.splat(-1.0))));
                finite = simd.mul_add(x, simd.splat(0.0), finite);
            }
            let most = largest_lane(simd, most);
            let scale = if DIGITS == 1 { most / 127.0 } else { step(most) };
            scales[index] = scale;
            least = if most > 0.0 { least.min(most) } else { least };
            let inverse = simd.splat(if scale >= f32::MIN_POSITIVE { 1.0 / scale } else { 0.0 });
            for (at, x) in from.chunks(lanes).enumerate() {
                let mut rest = dot.to_float(dot.round(simd.mul(simd.load_partial(x), inverse)));
                for digit in (0..DIGITS).rev() {
                    // Adding half a unit is exact and avoids ties: the remainder is in -128..=127.
                    let above = simd.mul(simd.add(rest, simd.splat(0.5)), simd.splat(1.0 / 256.0));
                    let above = if digit == 0 { simd.splat(0.0) } else { dot.to_float(dot.round(above)) };
                    let own = dot.round(simd.mul_add(above, simd.splat(-256.0), rest));
                    let to = &mut bytes[digit * stride + index * block + at * lanes..][..x.len()];
                    // SAFETY: `to` has that many bytes.
                    unsafe { dot.store_bytes::<1, false>([own], SIGNED, to.as_mut_ptr(), x.len()) };
                    rest = above;
                }
            }
        }
        scales[0] += simd.sum(finite);
        if DIGITS > 1 && least < LEAST {
            scales[0] = f32::NAN;
        }
        for (sums, bytes) in sums.chunks_exact_mut(scales.len()).zip(bytes.chunks_exact(stride)) {
            for (to, bytes) in sums.iter_mut().zip(bytes.chunks(block)) {
                *to = bytes.iter().map(|&byte| byte as i8 as i32).sum();
            }
        }
        if is_nibble {
            for eight in bytes.as_chunks_mut::<8>().0 {
                *eight = nibble_order(u64::from_le_bytes(*eight)).to_le_bytes();
            }
        }
    }
}

/// The largest three-digit integer.
const LARGEST: f32 = (127 << 16 | 127 << 8 | 127) as f32;

/// The least power of two `s` with `most <= s * LARGEST`: 0 for 0. Meaningless for subnormal or non-finite numbers, whose rows stay
/// floats.
#[inline(always)]
fn step(most: f32) -> f32 {
    let step = f32::from_bits(most.to_bits() & f32::INFINITY.to_bits()) / (1 << 22) as f32;
    if most > step * LARGEST { 2.0 * step } else { step }
}

/// The largest lane of a vector; of one with NaN, any lane.
#[inline(always)]
fn largest_lane<S: Simd>(simd: S, v: S::F32) -> f32 {
    let mut lanes = [0.0f32; 16];
    simd.store(v, &mut lanes);
    let mut width = S::LANES;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            lanes[i] = if lanes[i + width] > lanes[i] { lanes[i + width] } else { lanes[i] };
        }
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::super::NIBBLES;
    use super::*;
    use crate::testing::Random;

    /// A rounded row: the integers of its elements, and the scales of its blocks.
    struct Rounded {
        integers: Vec<i64>,
        scales: Vec<f32>,
        fits: bool,
    }

    /// Rounds `from`, checks the padding and the sums, and puts the digits together.
    fn rounded(isa: Isa, rounding: Rounding, from: &[f32]) -> Rounded {
        let mut row = vec![f32::NAN; rounding.row_len()];
        rounding.round(isa, from, &mut row);
        let bytes = &bytes_of(&row)[..rounding.digits as usize * rounding.stride()];
        let mut integers = vec![0; rounding.stride()];
        for (digit, line) in bytes.chunks_exact(rounding.stride()).enumerate() {
            let mut own = vec![0; line.len()];
            for (at, &byte) in line.iter().enumerate() {
                let place = if rounding.bits == 4 { at / 8 * 8 + NIBBLES[at % 8] } else { at };
                own[place] = byte as i8 as i32;
            }
            assert!(
                own[rounding.depth..].iter().all(|&digit| digit == 0),
                "after the depth of {rounding:?} on {isa:?}"
            );
            let sums = &rounding.sums(&row)[digit * rounding.blocks()..][..rounding.blocks()];
            let expected: Vec<i32> =
                own[..rounding.depth].chunks(rounding.block).map(|block| block.iter().sum()).collect();
            assert_eq!(sums, expected, "digit {digit} of {rounding:?} on {isa:?}");
            integers.iter_mut().zip(own).for_each(|(integer, digit)| *integer = *integer * 256 + digit as i64);
        }
        integers.truncate(rounding.depth);
        Rounded { integers, scales: rounding.scales(&row).to_vec(), fits: rounding.fits(&row) }
    }

    /// Asserts that rounding `from` represents it: each block in steps that are no larger than they need be, each element within
    /// half a step.
    fn check(isa: Isa, rounding: Rounding, from: &[f32]) {
        let Rounded { integers, scales, fits } = rounded(isa, rounding, from);
        assert!(fits, "{rounding:?} on {isa:?}");
        for ((from, integers), scale) in from.chunks(rounding.block).zip(integers.chunks(rounding.block)).zip(scales) {
            let most = from.iter().fold(0f32, |most, x| most.max(x.abs()));
            let slack = match rounding.digits {
                Digits::One => {
                    assert_eq!(scale, most / 127.0);
                    // The scale, its inverse and the product are rounded.
                    1e-4
                }
                Digits::Three => {
                    assert_eq!(scale, step(most));
                    0.0
                }
            };
            for (&x, &integer) in from.iter().zip(integers) {
                let got = integer as f64 * scale as f64;
                let bound = (0.5 + slack) * scale as f64;
                assert!((got - x as f64).abs() <= bound, "{x:e} is {integer} * {scale:e} in {rounding:?} on {isa:?}");
            }
        }
    }

    /// All formats of rows of these depths and blocks, at all levels.
    fn each(sizes: &[(usize, usize)], digits: &[Digits], mut test: impl FnMut(Isa, Rounding)) {
        for isa in Isa::available() {
            for (&(depth, block), bits) in sizes.iter().flat_map(|size| [(size, 4), (size, 8)]) {
                digits.iter().for_each(|&digits| test(isa, Rounding { depth, block, digits, bits }));
            }
        }
    }

    const SIZES: &[(usize, usize)] = &[(1, 16), (31, 32), (48, 16), (512, 512), (1100, 512), (1536, 512)];
    const BOTH: &[Digits] = &[Digits::One, Digits::Three];

    #[test]
    fn digits_stand_for_the_elements_within_half_a_step() {
        each(SIZES, BOTH, |isa, rounding| {
            let mut random = Random::new(7);
            // Magnitudes of all kinds, also within a block.
            for (scale, spread) in [(1.0, 1), (1e-3, 3), (1e19, 1), (3e38, 30), (1e-15, 4)] {
                let mut number = || {
                    let x = 2.0 * random.uniform() as f32 - 1.0;
                    x * scale * 0.1f32.powi((random.next() % spread) as i32)
                };
                let row: Vec<f32> = (0..rounding.depth).map(|_| number()).collect();
                check(isa, rounding, &row);
            }
            // The extremes of digits, and ties.
            let extremes =
                [LARGEST, -LARGEST, 32_639.0, 32_640.0, -32_896.0, 127.0, 128.0, -128.0, -129.0, 0.5, -1.5, -0.0];
            let row: Vec<f32> = (0..rounding.depth).map(|at| extremes[at % extremes.len()]).collect();
            check(isa, rounding, &row);
        });
    }

    #[test]
    fn three_digits_keep_integers_and_floats_with_few_bits() {
        each(SIZES, &[Digits::Three], |isa, rounding| {
            for scale in [1.0f32, 0.125, 2f32.powi(-60), 2f32.powi(100)] {
                let integer = |at: usize| ((at * 2_654_435) % 8_355_711) as i64 - 4_000_000;
                let row: Vec<f32> = (0..rounding.depth).map(|at| integer(at) as f32 * scale).collect();
                let Rounded { integers, scales, fits } = rounded(isa, rounding, &row);
                assert!(fits);
                for (at, &x) in row.iter().enumerate() {
                    assert_eq!(
                        integers[at] as f64 * scales[at / rounding.block] as f64,
                        x as f64,
                        "{rounding:?} on {isa:?}"
                    );
                }
            }
        });
    }

    #[test]
    fn rows_with_blocks_of_tiny_elements_stay_floats() {
        each(SIZES, &[Digits::Three], |isa, rounding| {
            let tiny = |most: f32| -> Vec<f32> { (0..rounding.depth).map(|at| most / (1 + at % 5) as f32).collect() };
            check(isa, rounding, &tiny(LEAST));
            check(isa, rounding, &tiny(-1.5 * LEAST));
            for most in [LEAST.next_down(), -0.5 * LEAST, 1e-30, f32::MIN_POSITIVE, 1e-45] {
                assert!(!rounded(isa, rounding, &tiny(most)).fits, "{most:e} in {rounding:?} on {isa:?}");
            }
            // One block suffices, but for one of zeros.
            let mut row = vec![1.0; rounding.depth];
            let last = (rounding.blocks() - 1) * rounding.block;
            row[last..].fill(0.0);
            check(isa, rounding, &row);
            row[last] = 0.9 * LEAST;
            assert!(!rounded(isa, rounding, &row).fits, "{rounding:?} on {isa:?}");
        });
    }

    #[test]
    fn one_digit_takes_tiny_elements_for_zeros() {
        each(SIZES, &[Digits::One], |isa, rounding| {
            check(isa, rounding, &vec![LEAST; rounding.depth]);
            check(isa, rounding, &vec![-1e-35; rounding.depth]);
            let Rounded { integers, scales, fits } = rounded(isa, rounding, &vec![1e-37; rounding.depth]);
            assert!(
                fits && integers.iter().all(|&integer| integer == 0) && scales.iter().all(|scale| scale.is_finite())
            );
        });
    }

    #[test]
    fn rows_that_are_not_finite_do_not_fit() {
        each(SIZES, BOTH, |isa, rounding| {
            for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                for at in [0, rounding.depth / 2, rounding.depth - 1] {
                    let mut row = vec![1.0; rounding.depth];
                    row[at] = wrong;
                    assert!(!rounded(isa, rounding, &row).fits, "{wrong} at {at} of {rounding:?} on {isa:?}");
                }
            }
        });
    }

    #[test]
    fn zeros_have_no_step() {
        each(SIZES, BOTH, |isa, rounding| {
            for zero in [0.0, -0.0] {
                let Rounded { integers, scales, fits } = rounded(isa, rounding, &vec![zero; rounding.depth]);
                assert!(fits, "{rounding:?} on {isa:?}");
                assert!(integers.iter().all(|&integer| integer == 0) && scales.iter().all(|&scale| scale == 0.0));
            }
        });
    }

    #[test]
    fn the_step_is_the_least_power_of_two_that_three_digits_reach_with() {
        let all = (LEAST.to_bits()..f32::INFINITY.to_bits()).step_by(10_007).map(f32::from_bits);
        let turns = (0..60).flat_map(|power| {
            let turn = LARGEST * 2f32.powi(power - 30);
            [turn.next_down(), turn, turn.next_up(), 2f32.powi(power), 2f32.powi(power).next_down()]
        });
        for most in all.chain(turns).chain([f32::MAX, LEAST]) {
            let step = step(most);
            let reach = |step: f32| step as f64 * LARGEST as f64;
            assert!(step >= f32::MIN_POSITIVE && step.to_bits() << 9 == 0, "{step:e} is no power of two");
            assert!(most as f64 <= reach(step) && most as f64 > reach(0.5 * step), "{step:e} for {most:e}");
        }
        assert_eq!(step(0.0), 0.0);
    }
}
