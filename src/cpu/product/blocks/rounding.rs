//! Rows of floats rounded to integers of 8 or 24 bits, piece by piece. An integer is some signed digits: products with
//! packed weights are then sums of products of small integers.

use super::{BlockPanels, STEP};
use crate::cpu::product::formats::blocks::DigitForm;
use crate::cpu::product::formats::{ByteFormat, Format, FormatKernel};
use crate::cpu::simd::Simd;
use crate::cpu::simd::dot::Integers;
use crate::memory::bytes_of_mut;
use std::array::from_fn;

/// Rows with a block whose largest magnitude is below this one are not rounded to 24 bits: the inverse of the step must
/// be finite, and the product of the step and a weight's scale a normal number.
const LEAST: f32 = 1e-20;

/// Elements that are rounded at once.
const GROUP: usize = 16;

/// The format of rounded rows.
///
/// A row is a list of pieces, each of at most [`DigitForm::most`] depths of a block. A piece has, for each digit, the
/// highest one first, the digits of its elements, padded with zeros to whole steps; then the scale of the block, and for
/// each digit the sum of its elements times `factor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounding {
    /// Elements per row.
    pub depth: usize,
    /// Elements per block.
    pub block: usize,
    /// Bits of the weights.
    pub bits: usize,
    /// The digits of an integer. A single one is a multiple of 1/127 of the largest magnitude.
    pub digits: DigitForm,
    /// What sums of digits are multiplied with: minus the [lifted](DigitForm::lift) zero point of all weights, or -1 if
    /// there are several.
    pub factor: i32,
}

impl BlockPanels {
    /// The rounding of rows of `depth` floats for products with these weights: to 8 or to about 24 bits.
    pub fn rounding(&self, depth: usize, to_8_bits: bool) -> Rounding {
        let rounding = Rounding::new(self.format, [depth, self.blocks.size()], self.bits, to_8_bits);
        let factor = self.zero.map_or(-1, |zero| rounding.digits.lift - zero as i32);
        Rounding { factor, ..rounding }
    }
}

impl Rounding {
    fn new(format: ByteFormat, [depth, block]: [usize; 2], bits: usize, to_8_bits: bool) -> Rounding {
        let form = format.digits()[(bits == 8) as usize];
        let count = if to_8_bits { 1 } else { form.count };
        Rounding { depth, block, bits, digits: DigitForm { count, ..form }, factor: -1 }
    }

    /// Distance between the digits of a piece, in bytes.
    pub(super) fn stride(&self) -> usize {
        self.block.min(self.digits.most).next_multiple_of(STEP) * self.digits.size()
    }

    /// Size of a piece, in floats.
    pub(super) fn piece_len(&self) -> usize {
        self.digits.count * self.stride() / size_of::<f32>() + 1 + self.digits.count
    }

    /// Size of the first `depth` elements of a rounded row, in floats.
    fn len(&self, depth: usize) -> usize {
        let pieces = |depth: usize| depth.div_ceil(self.digits.most);
        (depth / self.block * pieces(self.block) + pieces(depth % self.block)) * self.piece_len()
    }

    /// Size of a rounded block, in floats: rows may be rounded block by block.
    pub fn block_len(&self) -> usize {
        self.len(self.block)
    }

    /// Size of a rounded row, in floats.
    pub fn row_len(&self) -> usize {
        self.len(self.depth)
    }

    /// The scale of a piece, and the sums of its digits times `factor`.
    #[inline(always)]
    pub(super) fn end_of(&self, piece: &[f32]) -> (f32, [i32; 3]) {
        let end = &piece[self.piece_len() - 1 - self.digits.count..];
        (end[0], from_fn(|digit| end.get(1 + digit).map_or(0, |sum| sum.to_bits() as i32)))
    }

    /// Whether a rounded row represents the floats: with 24 bits, all of them must be finite, and no block may have only
    /// tiny ones. With 8 bits, a row that is not finite produces NaN.
    pub fn fits(&self, row: &[f32]) -> bool {
        row.chunks_exact(self.piece_len()).all(|piece| !self.end_of(piece).0.is_nan())
    }

    /// Rounds whole blocks of a row, or its last ones. To 8 bits: to multiples of 1/127 of the largest magnitude of
    /// each block. To 24 bits: to multiples of a power of two that is about 2^-22 of that magnitude at most: integers
    /// stay exact, and so do floats with few bits that are not much smaller.
    ///
    /// # Panics
    /// If `to` is too short.
    pub fn round(&self, format: ByteFormat, from: &[f32], to: &mut [f32]) {
        format.run(false, Round { rounding: self, from, to: &mut to[..self.len(from.len())] });
    }
}

struct Round<'a> {
    rounding: &'a Rounding,
    from: &'a [f32],
    to: &'a mut [f32],
}

impl FormatKernel for Round<'_> {
    type Output = ();
    #[inline(always)]
    fn run<F: Format>(self, format: F) {
        match (self.rounding.bits, self.rounding.digits.count) {
            (4, 1) => self.row::<F, 1, true>(format),
            (4, _) => self.row::<F, 3, true>(format),
            (_, 1) => self.row::<F, 1, false>(format),
            (_, 2) => self.row::<F, 2, false>(format),
            (_, _) => self.row::<F, 3, false>(format),
        }
    }
}

impl Round<'_> {
    #[inline(always)]
    fn row<F: Format, const DIGITS: usize, const NIBBLE: bool>(self, format: F) {
        let Round { rounding, from, to } = self;
        let simd = format.integers().float();
        // NaN if any element is NaN or infinite.
        let mut finite = simd.splat(0.0);
        let mut pieces = to.chunks_exact_mut(rounding.piece_len());
        for block in from.chunks(rounding.block) {
            let mut most = simd.splat(0.0);
            for x in block.chunks(F::Integers::LANES) {
                let x = simd.load_partial(x);
                most = simd.max(most, simd.max(x, simd.mul(x, simd.splat(-1.0))));
                finite = simd.mul_add(x, simd.splat(0.0), finite);
            }
            let most = largest_lane(simd, most);
            let scale = match DIGITS {
                1 => most / 127.0,
                _ if most > 0.0 && most < LEAST => f32::NAN,
                _ => step(most),
            };
            for (from, to) in block.chunks(rounding.digits.most).zip(&mut pieces) {
                rounding.piece::<F, DIGITS, NIBBLE>(format.integers(), scale, from, to);
            }
        }
        if simd.sum(finite).is_nan() {
            to[rounding.piece_len() - 1 - DIGITS] = f32::NAN;
        }
    }
}

impl Rounding {
    /// Rounds a piece.
    #[inline(always)]
    fn piece<F: Format, const DIGITS: usize, const NIBBLE: bool>(
        &self,
        integers: F::Integers,
        scale: f32,
        from: &[f32],
        to: &mut [f32],
    ) {
        let (simd, lanes) = (integers.float(), F::Integers::LANES);
        let (form, stride) = (const { F::DIGITS[!NIBBLE as usize] }, self.stride());
        let (digits, end) = to.split_at_mut(to.len() - 1 - DIGITS);
        let digits = bytes_of_mut(digits);
        let inverse = simd.splat(if scale >= f32::MIN_POSITIVE { 1.0 / scale } else { 0.0 });
        let mut sums = [integers.splat(0); DIGITS];
        for (at, x) in from.chunks(GROUP).enumerate() {
            let mut group = [[integers.splat(0); GROUP / 4]; DIGITS];
            for v in 0..GROUP / lanes {
                let x = simd.load_partial(&x[(v * lanes).min(x.len())..]);
                let mut rest = integers.round(simd.mul(x, inverse));
                for digit in (0..DIGITS).rev() {
                    let [own, above] = if digit == 0 { [rest; 2] } else { integers.digit(rest, form.bits as i32) };
                    sums[digit] = integers.add(sums[digit], own);
                    group[digit][v] = own;
                    rest = above;
                }
            }
            for digit in 0..DIGITS {
                let to = &mut digits[digit * stride..][..stride][at * GROUP * form.size()..];
                match (form.size(), form.evens_first) {
                    (1, true) => store::<F::Integers, 1, true>(integers, group[digit], to),
                    (1, false) => store::<F::Integers, 1, false>(integers, group[digit], to),
                    _ => store::<F::Integers, 2, true>(integers, group[digit], to),
                }
            }
        }
        end[0] = scale;
        for digit in 0..DIGITS {
            end[1 + digit] = f32::from_bits(integers.total(sums[digit]).wrapping_mul(self.factor) as u32);
        }
    }
}

/// Writes the digits of a group, or those of a step if `to` ends there.
#[inline(always)]
fn store<I: Integers, const SIZE: usize, const EVENS_FIRST: bool>(
    integers: I,
    group: [I::Sums; GROUP / 4],
    to: &mut [u8],
) {
    let mut bytes = [0; GROUP * 2];
    // SAFETY: both destinations have room for the group.
    unsafe {
        if to.len() >= GROUP * SIZE {
            integers.store_digits::<SIZE, EVENS_FIRST>(group, to.as_mut_ptr());
        } else {
            integers.store_digits::<SIZE, EVENS_FIRST>(group, bytes.as_mut_ptr());
            to.copy_from_slice(&bytes[..to.len()]);
        }
    }
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

/// The largest magnitude that integers stand for: that of three digits of 8 bits, and less than of two of 12 bits.
const LARGEST: f32 = (127 << 16 | 127 << 8 | 127) as f32;

/// The least power of two `s` with `most <= s * LARGEST`: 0 for 0. Meaningless for subnormal or non-finite numbers,
/// whose rows stay floats.
#[inline(always)]
fn step(most: f32) -> f32 {
    let step = f32::from_bits(most.to_bits() & f32::INFINITY.to_bits()) / (1 << 22) as f32;
    if most > step * LARGEST { 2.0 * step } else { step }
}

#[cfg(test)]
mod tests {
    use super::super::NIBBLES;
    use super::*;
    use crate::cpu::simd::Isa;
    use crate::memory::bytes_of;
    use crate::testing::Random;

    /// A rounded row: the integers of its elements, and the scales of its pieces.
    struct Rounded {
        integers: Vec<i64>,
        scales: Vec<f32>,
        fits: bool,
    }

    /// The elements of the pieces of a row.
    fn cut(rounding: Rounding, row: &[f32]) -> impl Iterator<Item = &[f32]> {
        row.chunks(rounding.block).flat_map(move |block| block.chunks(rounding.digits.most))
    }

    /// Rounds `from`, checks the padding and the sums, and puts the digits together.
    fn rounded(format: ByteFormat, rounding: Rounding, from: &[f32]) -> Rounded {
        let mut row = vec![f32::NAN; rounding.row_len()];
        rounding.round(format, from, &mut row);
        let DigitForm { count, bits, evens_first, .. } = rounding.digits;
        let (mut integers, mut scales) = (Vec::new(), Vec::new());
        for (from, piece) in cut(rounding, from).zip(row.chunks_exact(rounding.piece_len())) {
            let mut own = vec![0; from.len().next_multiple_of(STEP)];
            let (scale, sums) = rounding.end_of(piece);
            // In rows that are not represented, digits mean nothing.
            let count = if rounding.fits(&row) { count } else { 0 };
            for (digit, &got) in sums[..count].iter().enumerate() {
                let digits: Vec<i64> = (0..own.len())
                    .map(|at| {
                        let place = if evens_first {
                            at / STEP * STEP + NIBBLES.iter().position(|&depth| depth == at % STEP).unwrap()
                        } else {
                            at
                        };
                        let bytes = &bytes_of(piece)[digit * rounding.stride() + place * rounding.digits.size()..];
                        if bits == 8 { bytes[0] as i8 as i64 } else { i16::from_le_bytes([bytes[0], bytes[1]]) as i64 }
                    })
                    .collect();
                let most = 1 << (bits - 1);
                assert!(digits.iter().all(|digit| (-most..most).contains(digit)), "{rounding:?} in {format:?}");
                assert!(digits[from.len()..].iter().all(|&digit| digit == 0), "after {rounding:?} in {format:?}");
                let sum = digits.iter().sum::<i64>() as i32 * rounding.factor;
                assert_eq!(got, sum, "digit {digit} of {rounding:?} in {format:?}");
                own.iter_mut().zip(digits).for_each(|(integer, digit)| *integer = (*integer << bits) + digit);
            }
            integers.extend(&own[..from.len()]);
            scales.push(scale);
        }
        Rounded { integers, scales, fits: rounding.fits(&row) }
    }

    /// Asserts that rounding `from` represents it: each block in steps that are no larger than they need be, each
    /// element within half a step.
    fn check(format: ByteFormat, rounding: Rounding, from: &[f32]) {
        let Rounded { integers, scales, fits } = rounded(format, rounding, from);
        assert!(fits, "{rounding:?} in {format:?}");
        let (mut integers, mut scales) = (integers.into_iter(), scales.into_iter());
        for block in from.chunks(rounding.block) {
            let most = block.iter().fold(0f32, |most, x| most.max(x.abs()));
            let (wanted, slack) = match rounding.digits.count {
                // The scale, its inverse and the product are rounded.
                1 => (most / 127.0, 1e-4),
                _ => (step(most), 0.0),
            };
            for (piece, scale) in block.chunks(rounding.digits.most).zip(&mut scales) {
                assert_eq!(scale, wanted);
                for (&x, integer) in piece.iter().zip(&mut integers) {
                    let got = integer as f64 * scale as f64;
                    let bound = (0.5 + slack) * scale as f64;
                    assert!(
                        (got - x as f64).abs() <= bound,
                        "{x:e} is {integer} * {scale:e}: {rounding:?}, {format:?}"
                    );
                }
            }
        }
    }

    /// The roundings of rows of these depths and blocks to 8 or to 24 bits, in all formats.
    fn each(sizes: &[(usize, usize)], to_8_bits: &[bool], mut test: impl FnMut(ByteFormat, Rounding)) {
        for format in Isa::available().into_iter().flat_map(ByteFormat::available) {
            for (&(depth, block), bits) in sizes.iter().flat_map(|size| [(size, 4), (size, 8)]) {
                for &to_8_bits in to_8_bits {
                    let rounding = Rounding::new(format, [depth, block], bits, to_8_bits);
                    test(format, Rounding { factor: -3, ..rounding });
                }
            }
        }
    }

    const SIZES: &[(usize, usize)] = &[(1, 16), (31, 32), (48, 16), (512, 512), (1100, 512), (1536, 512), (1700, 808)];
    const BOTH: &[bool] = &[true, false];

    #[test]
    fn digits_stand_for_the_elements_within_half_a_step() {
        each(SIZES, BOTH, |format, rounding| {
            let mut random = Random::new(7);
            // Magnitudes of all kinds, also within a block.
            for (scale, spread) in [(1.0, 1), (1e-3, 3), (1e19, 1), (3e38, 30), (1e-15, 4)] {
                let mut number = || {
                    let x = 2.0 * random.uniform() as f32 - 1.0;
                    x * scale * 0.1f32.powi((random.next() % spread) as i32)
                };
                let row: Vec<f32> = (0..rounding.depth).map(|_| number()).collect();
                check(format, rounding, &row);
            }
            // The extremes of digits, and ties.
            let extremes =
                [LARGEST, -LARGEST, 32_639.0, 32_640.0, -32_896.0, 127.0, 128.0, -128.0, -129.0, 0.5, -1.5, -0.0];
            let row: Vec<f32> = (0..rounding.depth).map(|at| extremes[at % extremes.len()]).collect();
            check(format, rounding, &row);
        });
    }

    #[test]
    fn three_digits_keep_integers_and_floats_with_few_bits() {
        each(SIZES, &[false], |format, rounding| {
            for scale in [1.0f32, 0.125, 2f32.powi(-60), 2f32.powi(100)] {
                let integer = |at: usize| ((at * 2_654_435) % 8_355_711) as i64 - 4_000_000;
                let row: Vec<f32> = (0..rounding.depth).map(|at| integer(at) as f32 * scale).collect();
                let Rounded { integers, scales, fits } = rounded(format, rounding, &row);
                assert!(fits);
                let mut integers = integers.into_iter();
                for (row, scale) in cut(rounding, &row).zip(scales) {
                    for (&x, integer) in row.iter().zip(&mut integers) {
                        assert_eq!(integer as f64 * scale as f64, x as f64, "{rounding:?} in {format:?}");
                    }
                }
            }
        });
    }

    #[test]
    fn rows_with_blocks_of_tiny_elements_stay_floats() {
        each(SIZES, &[false], |format, rounding| {
            let tiny = |most: f32| -> Vec<f32> { (0..rounding.depth).map(|at| most / (1 + at % 5) as f32).collect() };
            check(format, rounding, &tiny(LEAST));
            check(format, rounding, &tiny(-1.5 * LEAST));
            for most in [LEAST.next_down(), -0.5 * LEAST, 1e-30, f32::MIN_POSITIVE, 1e-45] {
                assert!(!rounded(format, rounding, &tiny(most)).fits, "{most:e} in {rounding:?} in {format:?}");
            }
            // One block suffices, but for one of zeros.
            let mut row = vec![1.0; rounding.depth];
            let last = (rounding.depth - 1) / rounding.block * rounding.block;
            row[last..].fill(0.0);
            check(format, rounding, &row);
            row[last] = 0.9 * LEAST;
            assert!(!rounded(format, rounding, &row).fits, "{rounding:?} in {format:?}");
        });
    }

    #[test]
    fn one_digit_takes_tiny_elements_for_zeros() {
        each(SIZES, &[true], |format, rounding| {
            check(format, rounding, &vec![LEAST; rounding.depth]);
            check(format, rounding, &vec![-1e-35; rounding.depth]);
            let Rounded { integers, scales, fits } = rounded(format, rounding, &vec![1e-37; rounding.depth]);
            assert!(
                fits && integers.iter().all(|&integer| integer == 0) && scales.iter().all(|scale| scale.is_finite())
            );
        });
    }

    #[test]
    fn rows_that_are_not_finite_do_not_fit() {
        each(SIZES, BOTH, |format, rounding| {
            for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                for at in [0, rounding.depth / 2, rounding.depth - 1] {
                    let mut row = vec![1.0; rounding.depth];
                    row[at] = wrong;
                    assert!(!rounded(format, rounding, &row).fits, "{wrong} at {at} of {rounding:?} in {format:?}");
                }
            }
        });
    }

    #[test]
    fn zeros_have_no_step() {
        each(SIZES, BOTH, |format, rounding| {
            for zero in [0.0, -0.0] {
                let Rounded { integers, scales, fits } = rounded(format, rounding, &vec![zero; rounding.depth]);
                assert!(fits, "{rounding:?} in {format:?}");
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
