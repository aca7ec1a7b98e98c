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
    /// Required length of a row in elements for [`multiply_floats`](Self::multiply_floats), including the zeros after
    /// `depth`.
    pub fn padded(depth: usize) -> usize {
        depth.next_multiple_of(8)
    }

    /// Computes the products of `rows` of `depth` floats, each followed by zeros up to [`padded`](Self::padded), and the
    /// columns `cols`, which start at a panel, row by row into `out`. Float32 scales are applied to the sums of blocks;
    /// with float16 scales, each weight is rounded to float16. The bits of a row do not depend on the number of rows.
    ///
    /// # Panics
    /// If `out` is too short, or the panels were packed for another level.
    pub fn multiply_floats(&self, isa: Isa, rows: &[f32], depth: usize, cols: Range<usize>, out: &mut [f32]) {
        let (stride, count) = (cols.len(), rows.len() / Self::padded(depth));
        assert!(out.len() >= count * stride && depth <= self.blocks.depth && isa.lanes() * VECTORS == self.width);
        for start in cols.clone().step_by(self.width) {
            let (panel, out) = (self.panel(start), &mut out[start - cols.start..]);
            let columns = self.width.min(cols.end - start);
            isa.run(RowsTimesPanel { panel, rows, count, depth, out, columns, stride });
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

struct RowsTimesPanel<'a> {
    panel: BlockPanel<'a>,
    rows: &'a [f32],
    count: usize,
    depth: usize,
    out: &'a mut [f32],
    columns: usize,
    stride: usize,
}

impl Kernel for RowsTimesPanel<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        with_forms!(self.panel, tiles::<S>(simd, &mut self));
    }
}

/// Tiles of several rows have one vector of columns at a time: their sums, and the weights of a word, fit into the
/// registers.
#[inline(always)]
fn tiles<S: Simd, T: Float, const NIBBLE: bool, const SAME: bool>(simd: S, product: &mut RowsTimesPanel) {
    let mut row = 0;
    while row < product.count {
        row += match product.count - row {
            4.. if S::REGISTERS == 32 => product.tile::<S, T, 4, 1, NIBBLE, SAME>(simd, row),
            2.. => product.tile::<S, T, 2, 1, NIBBLE, SAME>(simd, row),
            _ => product.tile::<S, T, 1, VECTORS, NIBBLE, SAME>(simd, row),
        };
    }
}

impl RowsTimesPanel<'_> {
    /// Multiplies `R` rows from `first` on with `V` vectors of columns at a time. Returns `R`.
    #[inline(always)]
    fn tile<S: Simd, T: Float, const R: usize, const V: usize, const NIBBLE: bool, const SAME: bool>(
        &mut self,
        simd: S,
        first: usize,
    ) -> usize {
        let (panel, depth, len) = (&self.panel, self.depth, BlockPanels::padded(self.depth));
        let (per_word, size) = (if NIBBLE { 8 } else { 4 }, panel.blocks.size());
        let rows: [&[f32]; R] = std::array::from_fn(|r| &self.rows[(first + r) * len..][..len]);
        for start in (0..VECTORS).step_by(V) {
            let mut totals = [[simd.splat(0.0); V]; R];
            for index in 0..depth.div_ceil(size) {
                let (block, begin) = (panel.block(index), index * size);
                let mut sums = [[[simd.splat(0.0); CHAINS]; V]; R];
                // SAFETY: the block belongs to the panel, which has `VECTORS` vectors of columns and words for all depths of
                // the block; rows were checked to be that long, in whole words of 8.
                unsafe {
                    let zero: [S::F32; V] = std::array::from_fn(|v| panel.zeros::<S, SAME>(simd, block, start + v));
                    let scale: [S::F32; V] = std::array::from_fn(|v| panel.scales::<S, T>(simd, block, start + v));
                    let mut words = block.add(panel.places.words);
                    let mut from = rows.map(|row| row.as_ptr().add(begin));
                    panel.ask(simd, block);
                    panel.ask(simd, block.wrapping_add(panel.places.zeros / 2));
                    for _ in 0..(depth.min(begin + size) - begin).div_ceil(per_word) {
                        for v in 0..V {
                            let own = words.add((start + v) * 4 * S::LANES);
                            panel.ask(simd, own);
                            let mut numbers = [simd.splat(0.0); 8];
                            if NIBBLE {
                                numbers = simd.nibbles::<SAME>(own, zero[v]);
                            } else {
                                numbers[..4].copy_from_slice(&simd.bytes(own, zero[v]));
                            }
                            for i in 0..per_word {
                                if !T::IS_F32 {
                                    numbers[i] = half_weight(simd, numbers[i], scale[v], panel.is_normal);
                                }
                                for r in 0..R {
                                    let factor = simd.splat(*from[r].add(if NIBBLE { NIBBLES[i] } else { i }));
                                    let sum = &mut sums[r][v][i % CHAINS];
                                    *sum = simd.mul_add(numbers[i], factor, *sum);
                                }
                            }
                        }
                        words = words.add(panel.places.row);
                        from = from.map(|row| row.add(per_word));
                    }
                    for r in 0..R {
                        for v in 0..V {
                            let [a, b, c, d] = sums[r][v];
                            let sum = simd.add(simd.add(a, b), simd.add(c, d));
                            totals[r][v] = match T::IS_F32 {
                                true => simd.mul_add(sum, scale[v], totals[r][v]),
                                false => simd.add(sum, totals[r][v]),
                            };
                        }
                    }
                }
            }
            for r in 0..R {
                let out = &mut self.out[(first + r) * self.stride..][..self.columns];
                for v in 0..V {
                    let at = ((start + v) * S::LANES).min(out.len());
                    simd.store_partial(totals[r][v], &mut out[at..]);
                }
            }
        }
        R
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
