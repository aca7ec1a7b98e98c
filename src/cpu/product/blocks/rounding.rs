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
        let (level, from, block) = (DotLevel::of(isa), &from[..self.depth], self.block);
        match self.digits {
            Digits::One => level.run(Round::<1> { from, block, bytes, scales }),
            Digits::Three => level.run(Round::<3> { from, block, bytes, scales }),
        };
        let sum = |bytes: &[u8]| bytes.iter().map(|&byte| byte as i8 as i32).sum();
        for (sums, bytes) in sums.chunks_exact_mut(self.blocks()).zip(bytes.chunks_exact(self.stride())) {
            sums.iter_mut().zip(bytes.chunks(block)).for_each(|(to, bytes)| *to = sum(bytes));
        }
        if self.bits == 4 {
            for eight in bytes.as_chunks_mut::<8>().0 {
                *eight = nibble_order(u64::from_le_bytes(*eight)).to_le_bytes();
            }
        }
    }
}

/// Reorders eight bytes as in [`NIBBLES`](super::NIBBLES): the even ones first.
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
    bytes: &'a mut [u8],
    scales: &'a mut [f32],
}

impl<const DIGITS: usize> DotKernel for Round<'_, DIGITS> {
    type Output = ();
    #[inline(always)]
    fn run<D: Dot>(self, dot: D) {
        let (simd, lanes) = (dot.float(), D::LANES);
        let Round { from, block, bytes, scales } = self;
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
