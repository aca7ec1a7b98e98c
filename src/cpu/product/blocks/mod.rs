//! Right operands of 4 or 8 bits with a scale and a zero point for each block along the depth, kept as they are.
//!
//! A panel holds as many columns as the register tile has. Neighbouring depths of a column are one word of 32 bits: 8 of 4 bits
//! in the order of [`NIBBLES`], or 4 of 8 bits. A block is a row of scales, one for each column, a row of zero points where they
//! differ, and rows of words; the blocks of a panel, and panels, follow each other, so that all is read in one go. Numbers are
//! unsigned; those of a signed type, and their zero points, are half of the range larger.

pub mod dots;
pub mod floats;
pub mod rounding;

use super::tile::tile_size;
use crate::cpu::kernels::float::Float;
use crate::cpu::simd::{Isa, Simd, needs_prefetch};
use crate::cpu::weights::Weights;
use crate::dtype::DataType;
use crate::error::Result;
use crate::ir::Constant;
use crate::memory::{Buffer, elements};
use crate::nibbles::unpacked;
use crate::ops::block_product::Blocks;
use half::f16;
use std::sync::Arc;

/// Which of 8 neighbouring depths are in the low half of each byte of a word, and then in the high half: as they are in memory,
/// two to a byte.
pub const NIBBLES: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];

/// Multiply-adds that take as long as packing a byte, which comes from memory.
const BYTE_COST: usize = 4;

/// Where the parts of a block of a panel are, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    /// Where the zero points start, behind the scales.
    zeros: usize,
    /// Where the words start.
    words: usize,
    /// Of a row of words.
    row: usize,
    /// Of a block.
    block: usize,
    /// Of a panel.
    panel: usize,
}

impl Places {
    fn new(width: usize, bits: usize, blocks: Blocks, scale: usize, each_zero: bool) -> Places {
        let (zeros, row) = (width * scale, 4 * width);
        let words = (zeros + if each_zero { width } else { 0 }).next_multiple_of(16);
        let block = words + row * blocks.size().div_ceil(32 / bits);
        Places { zeros, words, row, block, panel: block * blocks.count }
    }
}

/// The weights of a product in panels. Clones share the memory.
#[derive(Clone)]
pub struct BlockPanels {
    data: Arc<Buffer>,
    blocks: Blocks,
    /// Columns of a panel.
    width: usize,
    bits: usize,
    scale_type: DataType,
    /// Whether all weights are 0 or normal numbers of float16.
    is_normal: bool,
    /// The zero point of all blocks, if they have one.
    zero: Option<u8>,
    places: Places,
}

/// The constants that panels are made of.
pub struct Operands<'a> {
    /// The integers, and their type.
    pub numbers: (&'a Constant, DataType),
    /// The scales, and their type.
    pub scales: (&'a Constant, DataType),
    /// The zero points, of the type of the integers.
    pub zeros: &'a Constant,
    /// The sizes.
    pub blocks: Blocks,
    /// Whether columns are outermost; depths or blocks, if not.
    pub by_column: bool,
    /// Whether all columns have the same scales and zero points.
    pub one_column: bool,
}

impl Operands<'_> {
    /// The place of the scale of a block.
    fn scale_at(&self, column: usize, block: usize) -> usize {
        let Blocks { columns, count, .. } = self.blocks;
        match (self.one_column, self.by_column) {
            (true, _) => block,
            (_, true) => column * count + block,
            (_, false) => block * columns + column,
        }
    }

    /// What is added to a number so that it is unsigned.
    fn lift(&self) -> u8 {
        match self.numbers.1 {
            DataType::Int4 => 8,
            DataType::Int8 => 128,
            _ => 0,
        }
    }

    /// The zero points, unsigned.
    fn zero_points(&self) -> Result<Vec<u8>> {
        let (bytes, lift) = (self.zeros.buffer()?, self.lift());
        let count = self.blocks.count * if self.one_column { 1 } else { self.blocks.columns };
        let zeros = match self.numbers.1.is_nibble() {
            true => unpacked(bytes.bytes(), count, self.numbers.1 == DataType::Int4),
            false => bytes.bytes().to_vec(),
        };
        Ok(zeros.into_iter().map(|zero| zero.wrapping_add(lift)).collect())
    }
}

impl BlockPanels {
    /// Packs the weights, on the threads that `weights` has.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for the panels, an `OperationError` when mapped weights cannot be read.
    pub fn new(isa: Isa, weights: Weights, operands: &Operands) -> Result<BlockPanels> {
        let (blocks, width) = (operands.blocks, tile_size(isa).cols);
        let zeros = operands.zero_points()?;
        let zero = zeros.first().copied().filter(|first| zeros.iter().all(|zero| zero == first));
        let bits = operands.numbers.1.bits();
        let places = Places::new(width, bits, blocks, operands.scales.1.size(), zero.is_none());
        let scale_type = operands.scales.1;
        let (scale_bytes, by_column) = (operands.scales.0.buffer()?, operands.by_column);
        let is_normal =
            scale_type == DataType::Float16 && elements(scale_bytes.bytes()).iter().all(gives_normal_halves);
        // Whoever has the same integers has other scales only if it is another model.
        let contents = [sum(scale_bytes.bytes()), sum(&zeros)];
        let form = ("blocks", width, blocks, by_column, operands.one_column, scale_type, contents);
        let data = weights.packed(&form, || {
            let numbers = operands.numbers.0.buffer()?;
            let packing = Packing {
                operands,
                numbers: numbers.bytes(),
                scales: scale_bytes.bytes(),
                zeros: &zeros,
                places,
                width,
            };
            let mut data = Buffer::streamed(blocks.columns.div_ceil(width) * places.panel)?;
            weights.fill(data.bytes_mut(), places.panel, BYTE_COST, |first, panels| {
                for (index, panel) in panels.chunks_exact_mut(places.panel).enumerate() {
                    packing.pack(first + index, panel, zero.is_none());
                }
            });
            Ok(data)
        })?;
        Ok(BlockPanels { data, blocks, width, bits, scale_type, is_normal, zero, places })
    }

    /// The memory that is held.
    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.data
    }

    /// The sizes.
    pub fn blocks(&self) -> Blocks {
        self.blocks
    }

    /// The bits of a number.
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// The panel that starts at `column`.
    fn panel(&self, column: usize) -> BlockPanel<'_> {
        debug_assert!(column.is_multiple_of(self.width));
        let bytes = &self.data.bytes()[column / self.width * self.places.panel..][..self.places.panel];
        let BlockPanels { blocks, places, scale_type, is_normal, bits, zero, .. } = *self;
        BlockPanel { bytes, places, blocks, scale_type, is_normal, bits, zero, asks: needs_prefetch() }
    }
}

/// Whether the products of a scale and integers below 256 are 0 or normal numbers of float16.
fn gives_normal_halves(scale: &f16) -> bool {
    let magnitude = scale.to_f32().abs();
    magnitude == 0.0 || (f16::MIN_POSITIVE.to_f32()..=256.0).contains(&magnitude)
}

/// A number that differs for other bytes as a rule.
fn sum(bytes: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// The columns of one panel: all of its bytes are there.
#[derive(Clone, Copy)]
struct BlockPanel<'a> {
    bytes: &'a [u8],
    places: Places,
    blocks: Blocks,
    scale_type: DataType,
    is_normal: bool,
    bits: usize,
    /// The zero point of all blocks, if they have one.
    zero: Option<u8>,
    /// Whether what follows is asked for early.
    asks: bool,
}

/// Calls `$work` with the code that is compiled for how `$panel` is stored: the type of scales, whether numbers have 4 bits, and
/// whether there is one zero point.
macro_rules! with_forms {
    ($panel:expr, $work:ident::<$First:ty>($($argument:expr),*)) => {
        match ($panel.scale_type == DataType::Float16, $panel.bits, $panel.zero) {
            (true, 4, Some(_)) => $work::<$First, f16, true, true>($($argument),*),
            (true, 4, None) => $work::<$First, f16, true, false>($($argument),*),
            (true, _, Some(_)) => $work::<$First, f16, false, true>($($argument),*),
            (true, _, None) => $work::<$First, f16, false, false>($($argument),*),
            (false, 4, Some(_)) => $work::<$First, f32, true, true>($($argument),*),
            (false, 4, None) => $work::<$First, f32, true, false>($($argument),*),
            (false, _, Some(_)) => $work::<$First, f32, false, true>($($argument),*),
            (false, _, None) => $work::<$First, f32, false, false>($($argument),*),
        }
    };
}
use with_forms;

impl BlockPanel<'_> {
    /// The block at `index`.
    ///
    /// # Panics
    /// If there is none.
    #[inline(always)]
    fn block(&self, index: usize) -> *const u8 {
        assert!(index < self.blocks.count);
        // SAFETY: there are so many blocks in the bytes of the panel.
        unsafe { self.bytes.as_ptr().add(index * self.places.block) }
    }

    /// Asks for what lies [`AHEAD`] bytes behind `from`, if that helps. Reads nothing.
    #[inline(always)]
    fn ask<S: Simd>(&self, simd: S, from: *const u8) {
        if self.asks {
            simd.prefetch(from.wrapping_add(AHEAD).cast());
        }
    }

    /// The scales of vector `v` of a block.
    ///
    /// # Safety
    /// `block` is one of this panel, which has `VECTORS * S::LANES` columns and scales of type `T`.
    #[inline(always)]
    unsafe fn scales<S: Simd, T: Float>(&self, simd: S, block: *const u8, v: usize) -> S::F32 {
        // SAFETY: the scales come first, and start at a multiple of their size.
        T::load(simd, unsafe { std::slice::from_raw_parts(block.cast::<T>().add(v * S::LANES), S::LANES) })
    }

    /// The zero points of vector `v` of a block.
    ///
    /// # Safety
    /// As of [`scales`](Self::scales).
    #[inline(always)]
    unsafe fn zeros<S: Simd, const SAME: bool>(&self, simd: S, block: *const u8, v: usize) -> S::F32 {
        if SAME {
            return simd.splat(self.zero.unwrap_or(0) as f32);
        }
        let mut wide = [0.0f32; 16];
        for (lane, wide) in wide.iter_mut().enumerate().take(S::LANES) {
            // SAFETY: without a common one, there is a zero point for each column.
            *wide = unsafe { *block.add(self.places.zeros + v * S::LANES + lane) } as f32;
        }
        simd.load(&wide)
    }
}

/// Vectors in a row of a panel.
const VECTORS: usize = 2;

/// How many bytes early weights are asked for, where the core [must be asked](needs_prefetch): on Zen 5 it computes with them faster
/// than they come, and what is asked for 4 KiB early is still on its way then.
const AHEAD: usize = 1 << 14;

/// How panels are filled.
struct Packing<'a> {
    operands: &'a Operands<'a>,
    numbers: &'a [u8],
    scales: &'a [u8],
    zeros: &'a [u8],
    places: Places,
    width: usize,
}

impl Packing<'_> {
    /// Fills the panel of that index, which is all zeros.
    fn pack(&self, index: usize, panel: &mut [u8], each_zero: bool) {
        let Packing { operands, places, width, .. } = *self;
        let own = index * width..operands.blocks.columns.min((index + 1) * width);
        let size = operands.scales.1.size();
        for (index, block) in panel.chunks_exact_mut(places.block).enumerate() {
            for (place, column) in own.clone().enumerate() {
                let from = operands.scale_at(column, index);
                block[place * size..][..size].copy_from_slice(&self.scales[from * size..][..size]);
                if each_zero {
                    block[places.zeros + place] = self.zeros[from];
                }
            }
            self.pack_words(own.clone(), index, &mut block[places.words..]);
        }
    }

    /// The words of a block.
    fn pack_words(&self, own: std::ops::Range<usize>, block: usize, words: &mut [u8]) {
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
            // As they are.
            for (place, column) in own.enumerate() {
                let from = &self.numbers[dtype.bytes_of(column * depth + first)..][..dtype.bytes_of(blocks.size())];
                for (row, word) in words.chunks_exact_mut(self.places.row).zip(from.as_chunks::<4>().0) {
                    let word = u32::from_le_bytes(*word) ^ flip;
                    row[4 * place..][..4].copy_from_slice(&word.to_le_bytes());
                }
            }
            return;
        }
        let at = |column: usize, k: usize| {
            let place = if by_column { column * depth + k } else { k * columns + column };
            match is_nibble {
                true => self.numbers[place / 2] >> (place % 2 * 4) & 15,
                false => self.numbers[place],
            }
        };
        for (index, row) in words.chunks_exact_mut(self.places.row).enumerate() {
            for (place, column) in own.clone().enumerate() {
                // Depths beyond the last one are multiplied with 0.
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
