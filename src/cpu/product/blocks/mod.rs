//! Right operands of 4 or 8 bits with a scale and a zero point for each block along the depth, kept as they are.
//!
//! A panel holds as many columns as the register tile has. Neighbouring depths of a column are one word of 32 bits: 8 of 4 bits
//! in the order of [`NIBBLES`], or 4 of 8 bits. A row of words, one for each column, is followed by that of the next depths.
//! Numbers are unsigned; those of a signed type, and their zero points, are half of the range larger.

pub mod dots;
pub mod floats;

use super::tile::tile_size;
use crate::cpu::kernels::float::Floats;
use crate::cpu::simd::Isa;
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

/// Panels start at multiples of so many bytes.
const ALIGNMENT: usize = 64;

/// Multiply-adds that take as long as packing a word, which comes from memory.
const COPY_COST: usize = 16;

/// Where the parts of a panel are, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    /// Of a row of words.
    row: usize,
    /// Where the scales start: a row for each block.
    scales: usize,
    /// Where the zero points start: a row of bytes for each block.
    zeros: usize,
    /// Of the panel.
    len: usize,
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
        let (row, words) = (4 * width, blocks.depth.div_ceil(32 / bits));
        let scales = row * words;
        let zeros_at = scales + blocks.count * width * operands.scales.1.size();
        let end = zeros_at + if zero.is_none() { blocks.count * width } else { 0 };
        let places = Places { row, scales, zeros: zeros_at, len: end.next_multiple_of(ALIGNMENT) };
        let scale_type = operands.scales.1;
        let (scale_bytes, by_column) = (operands.scales.0.buffer()?, operands.by_column);
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
            let mut data = Buffer::streamed(blocks.columns.div_ceil(width) * places.len)?;
            weights.fill(data.bytes_mut(), places.len, COPY_COST / 4, |first, panels| {
                for (index, panel) in panels.chunks_exact_mut(places.len).enumerate() {
                    packing.pack(first + index, panel, zero.is_none());
                }
            });
            Ok(data)
        })?;
        Ok(BlockPanels { data, blocks, width, bits, scale_type, zero, places })
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
        let bytes = &self.data.bytes()[column / self.width * self.places.len..][..self.places.len];
        let scales = &bytes[self.places.scales..self.places.zeros];
        BlockPanel {
            words: &bytes[..self.places.scales],
            scales: match self.scale_type {
                DataType::Float16 => Floats::F16(elements::<f16>(scales)),
                _ => Floats::F32(elements(scales)),
            },
            zeros: match self.zero {
                Some(zero) => Zeros::Same(zero),
                None => Zeros::Each(&bytes[self.places.zeros..][..self.blocks.count * self.width]),
            },
            block: self.blocks.size(),
            bits: self.bits,
        }
    }
}

/// A number that differs for other bytes as a rule.
fn sum(bytes: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// The zero points of a panel.
#[derive(Clone, Copy)]
enum Zeros<'a> {
    /// All are the same.
    Same(u8),
    /// A row for each block.
    Each(&'a [u8]),
}

/// The columns of one panel.
#[derive(Clone, Copy)]
struct BlockPanel<'a> {
    words: &'a [u8],
    /// A row for each block.
    scales: Floats<'a>,
    zeros: Zeros<'a>,
    /// Depths of a block.
    block: usize,
    bits: usize,
}

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
        let Blocks { columns, count, .. } = operands.blocks;
        let own = index * width..columns.min((index + 1) * width);
        self.pack_words(own.clone(), &mut panel[..places.scales]);
        let size = operands.scales.1.size();
        for block in 0..count {
            for (place, column) in own.clone().enumerate() {
                let (from, to) = (operands.scale_at(column, block), block * width + place);
                panel[places.scales + to * size..][..size].copy_from_slice(&self.scales[from * size..][..size]);
                if each_zero {
                    panel[places.zeros + to] = self.zeros[from];
                }
            }
        }
    }

    fn pack_words(&self, own: std::ops::Range<usize>, words: &mut [u8]) {
        let Operands { numbers: (_, dtype), blocks: Blocks { columns, depth, .. }, by_column, .. } = *self.operands;
        let is_nibble = dtype.is_nibble();
        let flip = match dtype {
            DataType::Int4 => 0x8888_8888,
            DataType::Int8 => 0x8080_8080,
            _ => 0u32,
        };
        let per_word = 32 / dtype.bits();
        if by_column && depth.is_multiple_of(per_word) {
            // As they are.
            let stride = dtype.bytes_of(depth);
            for (place, column) in own.enumerate() {
                let from = self.numbers[column * stride..][..stride].as_chunks::<4>().0;
                for (row, word) in words.chunks_exact_mut(self.places.row).zip(from) {
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
                let number = |i: usize| if index * per_word + i < depth { at(column, index * per_word + i) } else { 0 };
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
