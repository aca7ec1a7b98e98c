//! Products with weights that are converted to floats while they are loaded into registers.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::{BlockPanel, BlockPanels, NIBBLES, VECTORS, with_forms};
use crate::cpu::kernels::float::Float;
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::dtype::DataType;
use half::f16;
use std::ops::Range;

/// Number of partial sums per row: independent sums do not wait for the previous addition.
const CHAINS: usize = 4;

impl BlockPanels {
    /// Required length of a row in elements for [`multiply_row`](Self::multiply_row), including the zeros after
    /// `depth`.
    pub fn padded(depth: usize) -> usize {
        depth.next_multiple_of(8)
    }

    /// Computes the products of a row of `depth` floats, followed by zeros up to [`padded`](Self::padded), and the
    /// columns `cols`, which start at a panel. Float32 scales are applied to the sums of blocks; with float16 scales,
    /// each weight is rounded to float16.
    ///
    /// # Panics
    /// If `row` or `out` is too short.
    pub fn multiply_row(&self, isa: Isa, row: &[f32], depth: usize, cols: Range<usize>, out: &mut [f32]) {
        let row = &row[..Self::padded(depth)];
        for (start, out) in cols.clone().step_by(self.width).zip(out[..cols.len()].chunks_mut(self.width)) {
            isa.run(RowTimesPanel { panel: self.panel(start), row, depth, out });
        }
    }

    /// Converts the depths `depth`, which start at a multiple of 8, of the panel at `column` to floats `[depth][width]`.
    ///
    /// # Panics
    /// If `room` is too short.
    pub fn extract(&self, isa: Isa, column: usize, depth: Range<usize>, room: &mut [f32]) {
        assert!(depth.start.is_multiple_of(8) && room.len() >= depth.len() * self.width);
        isa.run(Extract { panel: self.panel(column), depth, room });
    }
}

struct RowTimesPanel<'a> {
    panel: BlockPanel<'a>,
    row: &'a [f32],
    depth: usize,
    out: &'a mut [f32],
}

impl Kernel for RowTimesPanel<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let RowTimesPanel { panel, row, depth, out } = self;
        with_forms!(panel, row_times_panel::<S>(simd, &panel, row, depth, out));
    }
}

#[inline(always)]
fn row_times_panel<S: Simd, T: Float, const NIBBLE: bool, const SAME: bool>(
    simd: S,
    panel: &BlockPanel,
    row: &[f32],
    depth: usize,
    out: &mut [f32],
) {
    let (per_word, size) = (if NIBBLE { 8 } else { 4 }, panel.blocks.size());
    assert!(depth <= panel.blocks.depth && row.len() >= depth.next_multiple_of(8));
    let mut totals = [simd.splat(0.0); VECTORS];
    for index in 0..depth.div_ceil(size) {
        let block = panel.block(index);
        let first = index * size;
        let mut sums = [[simd.splat(0.0); CHAINS]; VECTORS];
        // SAFETY: the block belongs to the panel and has words for all of its depths; the row's length was checked, in
        // whole words of 8.
        unsafe {
            let zero = [0, 1].map(|v| panel.zeros::<S, SAME>(simd, block, v));
            let scale = [0, 1].map(|v| panel.scales::<S, T>(simd, block, v));
            let mut words = block.add(panel.places.words);
            let mut x = row.as_ptr().add(first);
            panel.ask(simd, block);
            panel.ask(simd, block.wrapping_add(panel.places.zeros / 2));
            for _ in 0..(depth.min(first + size) - first).div_ceil(per_word) {
                for v in 0..VECTORS {
                    let own = words.add(v * 4 * S::LANES);
                    panel.ask(simd, own);
                    if NIBBLE {
                        let mut numbers = simd.nibbles::<SAME>(own, zero[v]);
                        for i in 0..8 {
                            if !T::IS_F32 {
                                numbers[i] = half_weight(simd, numbers[i], scale[v], panel.is_normal);
                            }
                            let factor = simd.splat(*x.add(NIBBLES[i]));
                            sums[v][i % CHAINS] = simd.mul_add(numbers[i], factor, sums[v][i % CHAINS]);
                        }
                    } else {
                        let mut numbers = simd.bytes(own, zero[v]);
                        for i in 0..4 {
                            if !T::IS_F32 {
                                numbers[i] = half_weight(simd, numbers[i], scale[v], panel.is_normal);
                            }
                            sums[v][i] = simd.mul_add(numbers[i], simd.splat(*x.add(i)), sums[v][i]);
                        }
                    }
                }
                words = words.add(panel.places.row);
                x = x.add(per_word);
            }
            for v in 0..VECTORS {
                let sum = simd.add(simd.add(sums[v][0], sums[v][1]), simd.add(sums[v][2], sums[v][3]));
                totals[v] = match T::IS_F32 {
                    true => simd.mul_add(sum, scale[v], totals[v]),
                    false => simd.add(sum, totals[v]),
                };
            }
        }
    }
    for v in 0..VECTORS {
        let first = (v * S::LANES).min(out.len());
        simd.store_partial(totals[v], &mut out[first..]);
    }
}

/// `number * scale` of float16, rounded to float16. `is_normal` means that the result is 0 or a normal float16.
///
/// A float16 has 11 of the 24 significant bits of a float32: adding the product times 2^13 and subtracting it again
/// leaves 11, rounded to even (Veltkamp's splitting; products of 11-bit numbers and 8-bit integers are exact). This
/// takes half the time of converting to float16 and back, which only few units of a core can do.
#[inline(always)]
fn half_weight<S: Simd>(simd: S, number: S::F32, scale: S::F32, is_normal: bool) -> S::F32 {
    if !is_normal {
        return simd.round_f16(simd.mul(number, scale));
    }
    let large = simd.mul(number, simd.mul(scale, simd.splat(8193.0)));
    let rest = simd.mul_add(number, simd.mul(scale, simd.splat(-1.0)), large);
    simd.sub(large, rest)
}

struct Extract<'a> {
    panel: BlockPanel<'a>,
    depth: Range<usize>,
    room: &'a mut [f32],
}

impl Kernel for Extract<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Extract { panel, depth, room } = self;
        with_forms!(panel, extract::<S>(simd, &panel, depth.clone(), room));
    }
}

#[inline(always)]
fn extract<S: Simd, T: Float, const NIBBLE: bool, const SAME: bool>(
    simd: S,
    panel: &BlockPanel,
    depth: Range<usize>,
    room: &mut [f32],
) {
    let (per_word, width, size) = (if NIBBLE { 8 } else { 4 }, VECTORS * S::LANES, panel.blocks.size());
    assert!(depth.end <= panel.blocks.depth);
    let mut k = depth.start;
    while k < depth.end {
        let index = k / size;
        let (block, end) = (panel.block(index), depth.end.min((index + 1) * size));
        // SAFETY: the block belongs to the panel.
        let scale = unsafe { [0, 1].map(|v| panel.scales::<S, T>(simd, block, v)) };
        // SAFETY: as above.
        let zero = unsafe { [0, 1].map(|v| panel.zeros::<S, SAME>(simd, block, v)) };
        while k < end {
            let word = (k - index * size) / per_word;
            for v in 0..VECTORS {
                let mut numbers = [simd.splat(0.0); 8];
                // SAFETY: the block has words for all of its depths.
                unsafe {
                    let words = block.add(panel.places.words + word * panel.places.row + v * 4 * S::LANES);
                    if NIBBLE {
                        numbers = simd.nibbles::<SAME>(words, zero[v]);
                    } else {
                        numbers[..4].copy_from_slice(&simd.bytes(words, zero[v]));
                    }
                }
                for i in 0..per_word {
                    let at = k + if NIBBLE { NIBBLES[i] } else { i };
                    if at < end {
                        let to = (at - depth.start) * width + v * S::LANES;
                        let weight = match T::IS_F32 {
                            true => simd.mul(numbers[i], scale[v]),
                            false => half_weight(simd, numbers[i], scale[v], panel.is_normal),
                        };
                        simd.store(weight, &mut room[to..]);
                    }
                }
            }
            k = end.min(k + per_word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gives_normal_halves;
    use super::*;

    /// The dequantized value of every number with one scale.
    struct Weights<'a> {
        numbers: &'a [f32],
        scale: f16,
        out: &'a mut [f32],
    }

    impl Kernel for Weights<'_> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let scale = simd.splat(self.scale.to_f32());
            let is_normal = gives_normal_halves(&self.scale);
            for (out, numbers) in self.out.chunks_mut(S::LANES).zip(self.numbers.chunks(S::LANES)) {
                let weight = half_weight(simd, simd.load_partial(numbers), scale, is_normal);
                simd.store_partial(weight, out);
            }
        }
    }

    #[test]
    fn half_weights_are_rounded_to_even() {
        let numbers: Vec<f32> = (-255..=255i16).map(f32::from).collect();
        let mut out = vec![0.0; numbers.len()];
        // Subnormal scales, the smallest normal ones, typical ones, and scales with the largest or infinite products.
        let exponents = [0u16, 1, 10, 11, 22, 23, 30];
        let scales = exponents.iter().flat_map(|exponent| (0..1024).map(move |mantissa| exponent << 10 | mantissa));
        for isa in Isa::available() {
            for bits in scales.clone().chain([0x7c00, 0xfc00, 0x8000, 0xa555]) {
                let scale = f16::from_bits(bits);
                isa.run(Weights { numbers: &numbers, scale, out: &mut out });
                for (&number, &weight) in numbers.iter().zip(&out) {
                    let expected = f16::from_f32(number * scale.to_f32()).to_f32();
                    assert!(
                        weight == expected || weight.is_nan() && expected.is_nan(),
                        "{isa:?}: {number} * {scale} is {weight}"
                    );
                }
            }
        }
    }
}
