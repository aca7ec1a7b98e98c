//! Right operands of 4 or 8 bits with a scale and a zero point per block along the depth, kept in that form.
//!
//! A panel has as many columns as the register tile. A 32-bit word holds neighboring depths of a column: 8 of 4 bits in
//! the order of [`NIBBLES`], or 4 of 8 bits. A block consists of a row of scales, one per column, a row of zero points
//! if they differ, and rows of words. The blocks of a panel are consecutive, and so are panels: everything is read
//! sequentially. Numbers are unsigned; numbers of a signed type and their zero points are stored with half the range
//! added.

pub mod extract;
pub mod frame;
pub mod rounding;

use super::formats::ByteFormat;
use super::tile::tile_size;
use crate::cpu::simd::dot::DotLevel;
use crate::cpu::simd::{Isa, Simd, needs_prefetch};
use crate::cpu::weights::Weights;
use crate::dtype::DataType;
use crate::error::Result;
use crate::ir::Constant;
use crate::memory::Buffer;
use crate::nibbles::unpacked;
use crate::ops::block_product::Blocks;
use half::f16;
use std::ops::Range;
use std::sync::Arc;

/// The depths, out of 8 neighboring ones, in the low half of each byte of a word, then those in the high half: the same
/// pairs as in memory, two per byte.
pub const NIBBLES: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];

/// Depths that are multiplied at once. Blocks are padded to whole steps.
const STEP: usize = 8;

/// Multiply-adds that take as long as packing one byte from memory.
const BYTE_COST: usize = 4;

/// The offsets and sizes of the parts of a block of a panel, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockParts {
    /// Offset of the zero points, after the scales.
    zeros: usize,
    /// Offset of the words.
    words: usize,
    /// Size of a row of words.
    row: usize,
    /// Size of a block.
    block: usize,
    /// Size of a panel.
    panel: usize,
}

impl BlockParts {
    fn new(width: usize, bits: usize, blocks: Blocks, scale: usize, each_zero: bool) -> BlockParts {
        let (zeros, row) = (width * scale, 4 * width);
        let words = (zeros + if each_zero { width } else { 0 }).next_multiple_of(16);
        let block = words + row * blocks.size().next_multiple_of(STEP) * bits / 32;
        BlockParts { zeros, words, row, block, panel: block * blocks.count }
    }
}

/// The weights of a product in panels. Clones share the memory.
#[derive(Clone)]
pub struct BlockPanels {
    data: Arc<Buffer>,
    blocks: Blocks,
    /// Columns per panel.
    width: usize,
    bits: usize,
    scale_type: DataType,
    /// The common zero point of all blocks, if there is one.
    zero: Option<u8>,
    table: Option<[f32; 16]>,
    places: BlockParts,
    format: ByteFormat,
}

/// The constants to make panels from.
pub struct Operands<'a> {
    /// The integers, and their type.
    pub numbers: (&'a Constant, DataType),
    /// The scales, and their type.
    pub scales: (&'a Constant, DataType),
    /// The zero points, of the type of the integers; 0 without them.
    pub zeros: Option<&'a Constant>,
    /// The sizes.
    pub blocks: Blocks,
    /// Whether columns are the outermost dimension; if not, depths (or blocks) are.
    pub by_column: bool,
    /// Whether all columns have the same scales and zero points.
    pub one_column: bool,
    /// The numbers that integers of 4 bits are places of; the first of two in a byte is in its high bits.
    pub table: Option<[f32; 16]>,
}

impl Operands<'_> {
    /// The index of the scale of a block.
    fn scale_at(&self, column: usize, block: usize) -> usize {
        let Blocks { columns, count, .. } = self.blocks;
        match (self.one_column, self.by_column) {
            (true, _) => block,
            (_, true) => column * count + block,
            (_, false) => block * columns + column,
        }
    }

    /// The offset that makes numbers unsigned.
    fn lift(&self) -> u8 {
        match self.numbers.1 {
            DataType::Int4 => 8,
            DataType::Int8 => 128,
            _ => 0,
        }
    }

    /// The zero points, unsigned.
    fn zero_points(&self) -> Result<Vec<u8>> {
        let Some(zeros) = self.zeros else { return Ok(vec![0]) };
        // One stands for all that are the same: those of a large model fill many pages.
        let same = match zeros {
            Constant::Filled(filled) => &zeros.window(0..filled.len.min(1))?,
            _ => zeros,
        };
        let (bytes, lift) = (same.buffer()?, self.lift());
        let columns = if self.one_column { 1 } else { self.blocks.columns };
        let count = (self.blocks.count * columns).min(bytes.len() * if self.numbers.1.is_nibble() { 2 } else { 1 });
        let zeros = match self.numbers.1.is_nibble() {
            true => unpacked(bytes.bytes(), count, self.numbers.1 == DataType::Int4),
            false => bytes.bytes().to_vec(),
        };
        Ok(zeros.into_iter().map(|zero| zero.wrapping_add(lift)).collect())
    }
}

impl BlockPanels {
    /// Packs the weights, on the threads of `weights`.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for the panels, an `OperationError` if mapped weights cannot be
    /// read.
    ///
    /// # Panics
    /// If there are several blocks whose sizes are not multiples of 8: a row of words must not reach into the next block.
    pub fn new(isa: Isa, weights: Weights, operands: &Operands) -> Result<BlockPanels> {
        let (blocks, width) = (operands.blocks, tile_size(isa).cols);
        assert!(blocks.count == 1 || blocks.size().is_multiple_of(8), "{blocks:?}");
        assert!(operands.table.is_none() || operands.by_column && blocks.size().is_multiple_of(8), "{blocks:?}");
        let zeros = operands.zero_points()?;
        let zero = zeros.first().copied().filter(|first| zeros.iter().all(|zero| zero == first));
        let bits = operands.numbers.1.bits();
        let places = BlockParts::new(width, bits, blocks, operands.scales.1.size(), zero.is_none());
        let (scale_type, by_column) = (operands.scales.1, operands.by_column);
        let form = (
            "blocks",
            width,
            blocks,
            by_column,
            operands.one_column,
            scale_type,
            operands.zeros.is_some(),
            operands.table,
        );
        let others: Vec<&Constant> = [operands.scales.0].into_iter().chain(operands.zeros).collect();
        let data = weights.packed(&form, &others, blocks.columns.div_ceil(width) * places.panel, |out| {
            let (numbers, scales) = (operands.numbers.0.buffer()?, operands.scales.0.buffer()?);
            let (scales, each_zero) = (scales.bytes(), zero.is_none());
            let packing = Packing { operands, scales, zeros: &zeros, each_zero, places, width };
            weights.fill(out, places.panel, BYTE_COST, |first, panels| {
                for (index, panel) in panels.chunks_exact_mut(places.panel).enumerate() {
                    packing.pack(numbers.bytes(), first + index, panel);
                }
            });
            Ok(())
        })?;
        let table = operands.table;
        Ok(BlockPanels { data, blocks, width, bits, scale_type, zero, table, places, format: ByteFormat::of(isa) })
    }

    /// How the weights are multiplied with few rows.
    pub fn format(&self) -> ByteFormat {
        self.format
    }

    /// Whether few rows are rounded to 24 bits: with the instructions of the baseline, floats are faster, and the
    /// numbers of a table are no integers.
    pub fn takes_digits(&self) -> bool {
        self.format != ByteFormat::Words(DotLevel::Portable) && self.table.is_none()
    }

    /// The buffer of the panels.
    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.data
    }

    /// The sizes.
    pub fn blocks(&self) -> Blocks {
        self.blocks
    }

    /// The panel that starts at `column`.
    fn panel(&self, column: usize) -> BlockPanel<'_> {
        debug_assert!(column.is_multiple_of(self.width));
        let bytes = &self.data.bytes()[column / self.width * self.places.panel..][..self.places.panel];
        let BlockPanels { blocks, places, scale_type, bits, zero, width, .. } = *self;
        let table = self.table.as_ref();
        BlockPanel {
            bytes,
            places,
            blocks,
            scale_type,
            bits,
            zero,
            table,
            width,
            ahead: if needs_prefetch() { AHEAD } else { 0 },
        }
    }
}

/// The columns of one panel; all of its bytes are present.
#[derive(Clone, Copy)]
struct BlockPanel<'a> {
    bytes: &'a [u8],
    places: BlockParts,
    blocks: Blocks,
    scale_type: DataType,
    bits: usize,
    width: usize,
    /// The common zero point of all blocks, if there is one.
    zero: Option<u8>,
    table: Option<&'a [f32; 16]>,
    /// How far to prefetch: 0 without need.
    ahead: usize,
}

impl BlockPanel<'_> {
    /// The block at `index`.
    ///
    /// # Panics
    /// If there is no such block.
    #[inline(always)]
    fn block(&self, index: usize) -> *const u8 {
        assert!(index < self.blocks.count);
        // SAFETY: the panel has enough bytes for that many blocks.
        unsafe { self.bytes.as_ptr().add(index * self.places.block) }
    }

    /// Prefetches the bytes [`AHEAD`] bytes after `from`, if that helps. Reads nothing.
    #[inline(always)]
    fn ask<S: Simd>(&self, simd: S, from: *const u8) {
        simd.prefetch(from.wrapping_add(self.ahead).cast());
    }

    /// Bytes per step of words.
    #[inline(always)]
    fn step(&self) -> usize {
        self.places.row * STEP * self.bits / 32
    }

    /// The scales of vector `v` of a block.
    ///
    /// # Safety
    /// `block` belongs to this panel, which has `VECTORS * S::LANES` columns.
    #[inline(always)]
    unsafe fn scales<S: Simd>(&self, simd: S, block: *const u8, v: usize) -> S::F32 {
        // SAFETY: the scales come first, and start at a multiple of their size.
        unsafe {
            match self.scale_type {
                DataType::Float16 => {
                    simd.load_f16(std::slice::from_raw_parts(block.cast::<f16>().add(v * S::LANES), S::LANES))
                }
                _ => simd.load_ptr(block.cast::<f32>().add(v * S::LANES)),
            }
        }
    }

    /// The zero points of vector `v` of a block.
    ///
    /// # Safety
    /// As [`scales`](Self::scales).
    #[inline(always)]
    unsafe fn zeros<S: Simd>(&self, simd: S, block: *const u8, v: usize) -> S::F32 {
        if let Some(zero) = self.zero {
            return simd.splat(zero as f32);
        }
        let mut wide = [0.0f32; 16];
        for (lane, wide) in wide.iter_mut().enumerate().take(S::LANES) {
            // SAFETY: without a common zero point, there is one per column.
            *wide = unsafe { *block.add(self.places.zeros + v * S::LANES + lane) } as f32;
        }
        simd.load(&wide)
    }
}

/// Vectors per row of a panel.
const VECTORS: usize = 2;

/// Prefetch distance of weights in bytes, where a core [needs it](needs_prefetch): Zen 5 consumes them faster than they
/// arrive; prefetched only 4 KiB ahead, they are still in flight when needed.
const AHEAD: usize = 1 << 14;

/// The inputs of packing, without the numbers.
struct Packing<'a> {
    operands: &'a Operands<'a>,
    scales: &'a [u8],
    zeros: &'a [u8],
    /// Whether blocks have zero points of their own.
    each_zero: bool,
    places: BlockParts,
    width: usize,
}

impl Packing<'_> {
    /// The columns of the panel at `index`.
    fn columns(&self, index: usize) -> Range<usize> {
        index * self.width..self.operands.blocks.columns.min((index + 1) * self.width)
    }

    /// Fills the panel at `index`, initially all zeros.
    fn pack(&self, numbers: &[u8], index: usize, panel: &mut [u8]) {
        let own = self.columns(index);
        for (index, block) in panel.chunks_exact_mut(self.places.block).enumerate() {
            let (head, words) = block.split_at_mut(self.places.words);
            self.pack_head(own.clone(), index, head);
            self.pack_words(numbers, own.clone(), index, words);
        }
    }

    /// The scales and zero points of a block.
    fn pack_head(&self, own: Range<usize>, index: usize, head: &mut [u8]) {
        let size = self.operands.scales.1.size();
        for (place, column) in own.enumerate() {
            let from = self.operands.scale_at(column, index);
            head[place * size..][..size].copy_from_slice(&self.scales[from * size..][..size]);
            if self.each_zero {
                head[self.places.zeros + place] = self.zeros[from];
            }
        }
    }

    /// The words of a block.
    fn pack_words(&self, numbers: &[u8], own: Range<usize>, block: usize, words: &mut [u8]) {
        let Operands { numbers: (_, dtype), blocks, by_column, .. } = *self.operands;
        let Blocks { columns, depth, .. } = blocks;
        let is_nibble = dtype.is_nibble();
        let flip = match dtype {
            DataType::Int4 => 0x8888_8888,
            DataType::Int8 => 0x8080_8080,
            _ => 0u32,
        };
        let (per_word, first) = (32 / dtype.bits(), block * blocks.size());
        if by_column && blocks.size().is_multiple_of(8) {
            // The bytes are copied unchanged.
            for (place, column) in own.enumerate() {
                let from = &numbers[dtype.bytes_of(column * depth + first)..][..dtype.bytes_of(blocks.size())];
                for (row, word) in words.chunks_exact_mut(self.places.row).zip(from.as_chunks::<4>().0) {
                    let mut word = u32::from_le_bytes(*word) ^ flip;
                    if self.operands.table.is_some() {
                        // The first of two numbers becomes the low one.
                        word = word >> 4 & 0x0f0f_0f0f | (word & 0x0f0f_0f0f) << 4;
                    }
                    row[4 * place..][..4].copy_from_slice(&word.to_le_bytes());
                }
            }
            return;
        }
        let at = |column: usize, k: usize| {
            let place = if by_column { column * depth + k } else { k * columns + column };
            match is_nibble {
                true => numbers[place / 2] >> (place % 2 * 4) & 15,
                false => numbers[place],
            }
        };
        for (index, row) in words.chunks_exact_mut(self.places.row).enumerate() {
            for (place, column) in own.clone().enumerate() {
                // Depths beyond the last one are multiplied with zeros of the rows.
                let k = first + index * per_word;
                let number = |i: usize| if k + i < depth { at(column, k + i) } else { 0 };
                let word = match is_nibble {
                    true => std::array::from_fn(|byte| number(NIBBLES[byte]) | number(NIBBLES[4 + byte]) << 4),
                    false => std::array::from_fn(number),
                };
                let word = u32::from_le_bytes(word) ^ flip;
                row[4 * place..][..4].copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_with_other_scales_or_zero_points_are_not_shared() {
        let constant = |bytes: &[u8]| Constant::Owned(Arc::new(Buffer::copy_of(bytes).unwrap()));
        let blocks = Blocks { columns: 3, depth: 16, count: 2 };
        let numbers = constant(&[7; 48]);
        let scales =
            |first: f32| constant(crate::memory::bytes_of(&[first, 2.0, 3.0, 4.0, 5.0, 6.0].map(f16::from_f32)));
        let (scale, other_scale) = (scales(1.0), scales(0.5));
        let (zero, other_zero) = (constant(&[1, 2, 3, 4, 5, 6]), constant(&[1, 2, 3, 4, 5, 9]));
        let packed = |scales: &Constant, zeros: &Constant| {
            let operands = Operands {
                numbers: (&numbers, DataType::Uint8),
                scales: (scales, DataType::Float16),
                zeros: Some(zeros),
                blocks,
                by_column: true,
                one_column: false,
                table: None,
            };
            let weights = Weights::of(&numbers, DataType::Uint8, None);
            BlockPanels::new(Isa::best(), weights, &operands).unwrap().data
        };
        let first = packed(&scale, &zero);
        assert!(Arc::ptr_eq(&first, &packed(&scale, &zero)));
        for (scales, zeros) in [(&other_scale, &zero), (&scale, &other_zero)] {
            let other = packed(scales, zeros);
            assert!(other.len() == first.len() && other.bytes() != first.bytes());
        }
    }
}
