//! The frame of products of [rounded](super::rounding) rows: walks the panels and their blocks, and scales the sums. How
//! digits and weights are multiplied is up to a [`BlockFormat`]. Sums within a piece of a row are exact.
//!
//! Each digit has sums of its own; the end of a piece combines them. With 24 bits, the error of each factor is at most
//! about 2^-23 of the largest magnitude in its block, about what adding floats one by one usually loses. This is faster
//! than widening weights to floats in registers: a core of Zen 5 does 49 instead of 21 multiply-adds per nanosecond with
//! 4 bits and AVX2 without VNNI, and 120 instead of 72 with AVX-512 VNNI; with 8 bits, 41 instead of 26, and 100 instead
//! of 54.
//!
//! All rows meet a panel before the next one is read, as many at a time as the registers have room for. Rows after the
//! first ones find it in the first-level cache.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::rounding::Rounding;
use super::{BlockPanel, BlockPanels, STEP, VECTORS};
use crate::cpu::product::formats::blocks::BlockFormat;
use crate::cpu::product::formats::{Format, FormatKernel};
use crate::cpu::product::tile::opaque;
use crate::cpu::simd::Simd;
use crate::cpu::simd::dot::Integers;
use std::ops::Range;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Sums of products by row, digit and vector of columns.
type Sums<F, const ROWS: usize, const DIGITS: usize> =
    [[[<<F as BlockFormat>::Integers as Integers>::Sums; VECTORS]; DIGITS]; ROWS];

impl BlockPanels {
    /// Computes the products of `rows`, rounded as `rounding` describes, and the columns `cols`, which start at a
    /// panel, row by row into `out`. The bits of a row do not depend on the number of rows.
    ///
    /// # Panics
    /// If `out` is too short, or `rounding` does not belong to these weights.
    pub fn multiply_rounded(&self, rounding: Rounding, rows: &[f32], cols: Range<usize>, out: &mut [f32]) {
        let (stride, count) = (cols.len(), rows.len() / rounding.row_len());
        assert!(out.len() >= count * stride && rounding.depth <= self.blocks.depth);
        assert!(rows.len() == count * rounding.row_len());
        assert!(rounding == self.rounding(rounding.depth, rounding.digits.count == 1));
        for start in cols.clone().step_by(self.width) {
            let (panel, first) = (self.panel(start), start - cols.start);
            let columns = self.width.min(cols.end - start);
            let product = RowsTimesPanel { panel, rounding, rows, count, out: &mut out[first..], columns, stride };
            self.format.run(false, product);
        }
    }
}

struct RowsTimesPanel<'a> {
    panel: BlockPanel<'a>,
    rounding: Rounding,
    rows: &'a [f32],
    count: usize,
    out: &'a mut [f32],
    columns: usize,
    stride: usize,
}

impl FormatKernel for RowsTimesPanel<'_> {
    type Output = ();
    #[inline(always)]
    fn run<F: Format>(mut self, format: F) {
        assert!(VECTORS * F::Integers::LANES == self.panel.width);
        match (self.panel.bits, self.panel.zero) {
            (4, Some(_)) => self.tiles::<F, true, true>(format),
            (4, None) => self.tiles::<F, true, false>(format),
            (_, Some(_)) => self.tiles::<F, false, true>(format),
            (_, None) => self.tiles::<F, false, false>(format),
        }
    }
}

impl RowsTimesPanel<'_> {
    #[inline(always)]
    fn tiles<F: BlockFormat, const NIBBLE: bool, const SAME: bool>(&mut self, format: F) {
        let (digits, is_large) = (F::DIGITS[!NIBBLE as usize].count, <F::Integers as Integers>::Float::REGISTERS == 32);
        let mut row = 0;
        while row < self.count {
            // The sums of more rows do not fit into the registers.
            row += match (self.rounding.digits.count, self.count - row) {
                (1, 4..) => self.tile::<F, 4, 1, NIBBLE, SAME>(format, row),
                (1, 2..) => self.tile::<F, 2, 1, NIBBLE, SAME>(format, row),
                (1, _) => self.tile::<F, 1, 1, NIBBLE, SAME>(format, row),
                (_, 2..) if is_large && digits == 3 => self.tile::<F, 2, 3, NIBBLE, SAME>(format, row),
                (_, 2..) if is_large => self.tile::<F, 2, 2, NIBBLE, SAME>(format, row),
                _ if digits == 3 => self.tile::<F, 1, 3, NIBBLE, SAME>(format, row),
                _ => self.tile::<F, 1, 2, NIBBLE, SAME>(format, row),
            };
        }
    }

    /// Multiplies `ROWS` rows from `first` on. Returns `ROWS`.
    #[inline(always)]
    fn tile<F: BlockFormat, const ROWS: usize, const DIGITS: usize, const NIBBLE: bool, const SAME: bool>(
        &mut self,
        format: F,
        first: usize,
    ) -> usize {
        let (integers, simd) = (format.integers(), format.integers().float());
        let (panel, rounding, form) = (&self.panel, self.rounding, F::DIGITS[!NIBBLE as usize]);
        let (stride, piece) = (rounding.stride(), rounding.piece_len());
        let row_len = self.rows.len() / self.count;
        let mut totals = [[simd.splat(0.0); VECTORS]; ROWS];
        let (mut block, mut rest) = (panel.bytes.as_ptr(), rounding.depth);
        let mut from: [*const f32; ROWS] = [self.rows.as_ptr(); ROWS];
        for row in 0..ROWS {
            from[row] = from[row].wrapping_add((first + row) * row_len);
        }
        // SAFETY: the panel has the blocks of all depths, each with words for its depths, and the rows have all of their
        // pieces, as the constructor checked.
        unsafe {
            while rest > 0 {
                let mut words = block.add(panel.places.words);
                let mut within = rest.min(panel.blocks.size());
                rest -= within;
                panel.ask(simd, block);
                panel.ask(simd, block.wrapping_add(panel.places.zeros / 2));
                while within > 0 {
                    let depth = within.min(form.most);
                    within -= depth;
                    let (digits, mut ends) = (from.map(|row| row.cast::<u8>()), from);
                    for row in 0..ROWS {
                        ends[row] = from[row].add(piece - 1 - DIGITS);
                        from[row] = from[row].add(piece);
                    }
                    let (starts, steps) = (ends.map(|end| end.add(1).cast::<i32>()), depth.div_ceil(STEP));
                    let sums = panel.products::<F, ROWS, DIGITS, NIBBLE>(format, words, steps, digits, stride, starts);
                    words = words.add(steps * panel.step());
                    for v in 0..VECTORS {
                        let scale = panel.scales(simd, block, v);
                        // The sums are those for the common zero point, or else for 1 after the lift.
                        let more = match SAME {
                            true => simd.splat(0.0),
                            false => simd.sub(panel.zeros(simd, block, v), simd.splat((1 + form.lift) as f32)),
                        };
                        for row in 0..ROWS {
                            let mut total = simd.splat(0.0);
                            for digit in 0..DIGITS {
                                let mut sum = integers.to_float(sums[row][digit][v]);
                                if !SAME {
                                    let less = integers.to_float(integers.splat(*starts[row].add(digit)));
                                    sum = simd.mul_add(more, less, sum);
                                }
                                let base = simd.splat((1 << form.bits) as f32);
                                total = if digit == 0 { sum } else { simd.mul_add(total, base, sum) };
                            }
                            let scale = simd.mul(scale, simd.splat(*ends[row]));
                            totals[row][v] = simd.mul_add(total, scale, totals[row][v]);
                        }
                    }
                }
                block = block.add(panel.places.block);
            }
        }
        for row in 0..ROWS {
            let out = &mut self.out[(first + row) * self.stride..][..self.columns];
            for v in 0..VECTORS {
                let at = (v * F::Integers::LANES).min(out.len());
                simd.store_partial(totals[row][v], &mut out[at..]);
            }
        }
        ROWS
    }
}

impl BlockPanel<'_> {
    /// The products of some steps of words and the digits of rows, which are `stride` bytes apart, added to the
    /// integers at `starts`, one per digit.
    ///
    /// # Safety
    /// The words, digits and integers must be readable.
    #[inline(always)]
    unsafe fn products<F: BlockFormat, const ROWS: usize, const DIGITS: usize, const NIBBLE: bool>(
        &self,
        format: F,
        mut words: *const u8,
        steps: usize,
        mut rows: [*const u8; ROWS],
        stride: usize,
        starts: [*const i32; ROWS],
    ) -> Sums<F, ROWS, DIGITS> {
        let integers = format.integers();
        // With few sums, each addition would wait for the previous one: the halves of a step have sums of their own.
        let is_large = <F::Integers as Integers>::Float::REGISTERS == 32;
        let second = (ROWS * DIGITS <= if is_large { 3 } else { 1 }) as usize;
        let step = STEP * F::DIGITS[!NIBBLE as usize].size();
        let mut open = [[[[format.open::<NIBBLE>(integers.splat(0)); 2]; VECTORS]; DIGITS]; ROWS];
        let mut sums = [[[integers.splat(0); VECTORS]; DIGITS]; ROWS];
        // SAFETY: the caller guarantees the words, the digits and the integers.
        unsafe {
            for row in 0..ROWS {
                for digit in 0..DIGITS {
                    for v in 0..VECTORS {
                        open[row][digit][v][0] = format.open::<NIBBLE>(integers.splat(*starts[row].add(digit)));
                    }
                }
            }
            // Not a number that the compiler knows: it would unroll the loop, and have too few registers.
            let end = opaque(words.add(steps * self.step()));
            while words != end {
                let mut weights = [format.factors::<NIBBLE>(words, self.places.row); VECTORS];
                for v in 0..VECTORS {
                    let own = words.add(v * 4 * F::Integers::LANES);
                    if (v * 4 * F::Integers::LANES).is_multiple_of(LINE) {
                        self.ask(integers.float(), own);
                        if !NIBBLE {
                            self.ask(integers.float(), own.wrapping_add(self.places.row));
                        }
                    }
                    weights[v] = format.factors::<NIBBLE>(own, self.places.row);
                }
                for row in 0..ROWS {
                    for digit in 0..DIGITS {
                        let digits = format.digits(rows[row].add(digit * stride));
                        let own = &mut open[row][digit];
                        for v in 0..VECTORS {
                            own[v][0] = format.multiply::<NIBBLE, 0>(own[v][0], weights[v][0], digits);
                        }
                        for v in 0..VECTORS {
                            own[v][second] = format.multiply::<NIBBLE, 1>(own[v][second], weights[v][1], digits);
                        }
                    }
                    rows[row] = rows[row].add(step);
                }
                words = words.add(self.step());
            }
            for row in 0..ROWS {
                for digit in 0..DIGITS {
                    for v in 0..VECTORS {
                        let [low, high] = open[row][digit][v];
                        let mut sum = format.close::<NIBBLE>(integers.splat(*starts[row].add(digit)), low);
                        if second == 1 {
                            sum = integers.add(sum, format.close::<NIBBLE>(integers.splat(0), high));
                        }
                        sums[row][digit][v] = sum;
                    }
                }
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::super::Operands;
    use super::*;
    use crate::cpu::product::formats::ByteFormat;
    use crate::cpu::simd::Isa;
    use crate::cpu::weights::Weights;
    use crate::dtype::DataType;
    use crate::ir::Constant;
    use crate::memory::{Buffer, bytes_of};
    use crate::nibbles::packed;
    use crate::ops::block_product::Blocks;
    use crate::testing::Random;
    use half::f16;

    /// Weights of some bits, with scales and zero points per block.
    struct Case {
        numbers: Vec<u8>,
        scales: Vec<f32>,
        zeros: Vec<u8>,
        blocks: Blocks,
        bits: usize,
        scale_type: DataType,
    }

    impl Case {
        fn new(random: &mut Random, [columns, depth, block]: [usize; 3], bits: usize, zero: Option<u8>) -> Case {
            let mut number = || (random.next() >> 7) as u8 & ((1 << bits) - 1) as u8;
            let blocks = Blocks { columns, depth: depth.next_multiple_of(block), count: depth.div_ceil(block) };
            let each = columns * blocks.count;
            let numbers = (0..columns * blocks.depth).map(|_| number()).collect();
            let zeros = (0..each).map(|_| zero.unwrap_or_else(&mut number)).collect();
            let scale_type = if depth % 3 == 0 { DataType::Float16 } else { DataType::Float32 };
            let scales = (0..each).map(|_| f16::from_f64(random.uniform() - 0.5).to_f32()).collect();
            Case { numbers, scales, zeros, blocks, bits, scale_type }
        }

        fn panels(&self, isa: Isa, format: ByteFormat) -> BlockPanels {
            let constant = |bytes: &[u8]| Constant::Owned(std::sync::Arc::new(Buffer::copy_of(bytes).unwrap()));
            let (dtype, pack) = match self.bits {
                4 => (DataType::Uint4, packed as fn(&[u8]) -> Vec<u8>),
                _ => (DataType::Uint8, <[u8]>::to_vec as fn(&[u8]) -> Vec<u8>),
            };
            let [numbers, zeros] = [&self.numbers, &self.zeros].map(|bytes| constant(&pack(bytes)));
            let halves: Vec<f16> = self.scales.iter().map(|&scale| f16::from_f32(scale)).collect();
            let scales = match self.scale_type {
                DataType::Float16 => constant(bytes_of(&halves)),
                _ => constant(bytes_of(&self.scales)),
            };
            let operands = Operands {
                numbers: (&numbers, dtype),
                scales: (&scales, self.scale_type),
                zeros: Some(&zeros),
                blocks: self.blocks,
                by_column: true,
                one_column: false,
                table: None,
            };
            let panels = BlockPanels::new(isa, Weights::of(&numbers, dtype, None), &operands).unwrap();
            BlockPanels { format, ..panels }
        }

        /// The product of a row and a column, and the sum of the largest magnitudes that a block has for each term.
        fn product(&self, row: &[f32], column: usize) -> [f64; 2] {
            let size = self.blocks.size();
            let mut sums = [0.0; 2];
            for (index, row) in row.chunks(size).enumerate() {
                let at = column * self.blocks.count + index;
                let most = row.iter().fold(0f32, |most, x| most.max(x.abs())) as f64;
                for (k, &x) in row.iter().enumerate() {
                    let number = self.numbers[column * self.blocks.depth + index * size + k] as f64;
                    sums[0] += (number - self.zeros[at] as f64) * self.scales[at] as f64 * x as f64;
                    sums[1] += 255.0 * (self.scales[at] as f64).abs() * most;
                }
            }
            sums
        }
    }

    /// Compares the products of rows with those in float64, in all formats; each row also with the row alone.
    fn check(case: &Case, rows: usize, depth: usize, random: &mut Random) {
        let row = |random: &mut Random| (0..depth).map(|_| random.uniform() as f32 * 2.0 - 1.0).collect::<Vec<f32>>();
        let rows: Vec<Vec<f32>> = (0..rows).map(|_| row(random)).collect();
        let columns = case.blocks.columns;
        let expected: Vec<[f64; 2]> =
            rows.iter().flat_map(|row| (0..columns).map(|column| case.product(row, column))).collect();
        for isa in Isa::available() {
            for format in ByteFormat::available(isa) {
                let panels = case.panels(isa, format);
                if format.sizes().lanes * VECTORS != panels.width {
                    continue;
                }
                for to_8_bits in [false, true] {
                    let rounding = panels.rounding(depth, to_8_bits);
                    let mut rounded = vec![f32::NAN; rows.len() * rounding.row_len()];
                    for (row, to) in rows.iter().zip(rounded.chunks_exact_mut(rounding.row_len())) {
                        rounding.round(format, row, to);
                    }
                    let mut out = vec![f32::NAN; rows.len() * columns];
                    panels.multiply_rounded(rounding, &rounded, 0..columns, &mut out);
                    let step = if to_8_bits { 1.0 / 127.0 } else { 2f64.powi(-22) };
                    for (at, (&got, [sum, most])) in out.iter().zip(&expected).enumerate() {
                        let name = format!("{rounding:?}, {format:?}, {} columns, element {at}", columns);
                        assert!((got as f64 - sum).abs() <= most * step, "{got} instead of {sum}: {name}");
                    }
                    for (rounded, out) in rounded.chunks_exact(rounding.row_len()).zip(out.chunks_exact(columns)) {
                        let mut single = vec![f32::NAN; columns];
                        panels.multiply_rounded(rounding, rounded, 0..columns, &mut single);
                        assert!(single == out, "{rounding:?} in {format:?} depends on the number of rows");
                    }
                }
            }
        }
    }

    #[test]
    fn products_have_the_stated_errors() {
        let mut random = Random::new(5);
        for bits in [4, 8] {
            for (index, block) in [8, 16, 32, 64, 128, 256, 512, 1040].into_iter().enumerate() {
                for depth in [block, 3 * block - 1 - 2 * index] {
                    let last = ((1u32 << bits) - 1) as u8;
                    for zero in [Some([0, 1 + last / 2, last][index % 3]), None] {
                        let columns = [1, 2, 7, 16, 17, 32, 33, 70][(depth + index) % 8];
                        let case = Case::new(&mut random, [columns, depth, block], bits, zero);
                        check(&case, 1 + index % 5, depth, &mut random);
                    }
                }
            }
        }
    }

    #[test]
    fn single_blocks_may_have_any_depth() {
        let mut random = Random::new(6);
        for depth in [1, 7, 9, 20, 519, 2055] {
            for (bits, zero) in [(4, None), (8, Some(128)), (8, None)] {
                let case = Case::new(&mut random, [19, depth, depth], bits, zero);
                check(&case, 2, depth, &mut random);
            }
        }
    }

    #[test]
    fn the_largest_digits_and_weights_are_exact() {
        let mut random = Random::new(7);
        for (bits, most) in [(4, 15), (8, 255)] {
            let mut case = Case::new(&mut random, [5, 512, 256], bits, Some(0));
            case.numbers.fill(most);
            case.scales.fill(0.5);
            for x in [8_355_711.0f32, -8_355_711.0, -32_896.0] {
                let row = vec![x; 512];
                for isa in Isa::available() {
                    for format in ByteFormat::available(isa) {
                        let panels = case.panels(isa, format);
                        if format.sizes().lanes * VECTORS != panels.width {
                            continue;
                        }
                        let rounding = panels.rounding(512, false);
                        let mut rounded = vec![f32::NAN; rounding.row_len()];
                        rounding.round(format, &row, &mut rounded);
                        let mut out = [f32::NAN; 5];
                        panels.multiply_rounded(rounding, &rounded, 0..5, &mut out);
                        let sum = 512.0 * 0.5 * most as f64 * x as f64;
                        for got in out {
                            assert!((got as f64 / sum - 1.0).abs() < 2f64.powi(-21), "{got}, not {sum}: {format:?}");
                        }
                    }
                }
            }
        }
    }
}
