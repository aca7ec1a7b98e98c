//! Formats: how the operands of products of bytes are packed and multiplied. A format is a file here and a line in
//! [`ByteFormat::available`]; [the frame](super::int8::frame) does the rest.
//!
//! Left numbers are bytes, right ones are signed bytes. Sums are exact (modulo 2^32) in every format.
//!
//! Each format also multiplies [weights in blocks](blocks).

pub mod blocks;
#[cfg(target_arch = "aarch64")]
mod sdot;
#[cfg(target_arch = "aarch64")]
mod smmla;
#[cfg(target_arch = "aarch64")]
mod smull;
mod words;

use crate::cpu::simd::Isa;
use crate::cpu::simd::dot::{Dot, DotKernel, DotLevel, Integers};
use blocks::{BlockFormat, DigitForm};
use words::Words;
#[cfg(target_arch = "aarch64")]
use {sdot::Sdot, smmla::Smmla, smull::Smull};

/// Gathered rows, and rows that are packed from them, are padded to a multiple of this number of depths.
pub const PADDING: usize = 16;

/// How operands are packed and multiplied. Values prove that the CPU has the instructions.
///
/// A register tile has some *units* of rows and 1, 2 or 4 vectors of columns. A *group* of neighboring depths is
/// multiplied at once; both operands are padded to whole groups.
///
/// # Safety
/// [`tile`](Format::tile) reads and writes nothing but what it documents.
pub unsafe trait Format: BlockFormat {
    /// The layout of the operands, and the register tile.
    const SIZES: FormatSizes;

    /// Packs row `index` of a left operand, whose packed rows take `stride` bytes each, to its place in `to`. The bits
    /// in `flip` are inverted first. What is after the row in its last group is multiplied with 0.
    #[inline(always)]
    fn pack_left(self, row: &[u8], flip: u8, index: usize, stride: usize, to: &mut [u8]) {
        flipped(row, flip, &mut to[index * stride..]);
    }

    /// Packs a group of depths of the `columns` columns of a panel: `numbers` has a row of columns for each depth.
    #[inline(always)]
    fn pack_right(self, numbers: &[i16], columns: usize, to: &mut [u8]) {
        match Self::SIZES.together {
            2 => interleaved::<2>(numbers, columns, to),
            4 => interleaved::<4>(numbers, columns, to),
            8 => interleaved::<8>(numbers, columns, to),
            _ => unreachable!("no format has others"),
        }
    }

    /// Writes `start`, plus the products of `UNITS` units and a panel with `VECS` vectors of columns, to `sums`, row by
    /// row.
    ///
    /// # Safety
    /// `left` is readable for `UNITS` units of packed rows, each of `stride` bytes and of `groups` groups, and `right`
    /// for the groups of the panel; `sums` is writable for the vectors of all rows.
    unsafe fn tile<const UNITS: usize, const VECS: usize>(
        self,
        left: *const u8,
        stride: usize,
        right: *const u8,
        groups: usize,
        start: [<Self::Integers as Integers>::Sums; VECS],
        sums: *mut <Self::Integers as Integers>::Sums,
    );
}

/// What formats of NEON have in common.
#[cfg(target_arch = "aarch64")]
const NEON: FormatSizes = FormatSizes {
    name: "",
    lanes: 4,
    vectors: 2,
    units: [8, 8, 8],
    unit: 1,
    group: 16,
    together: 4,
    left_size: 1,
    is_signed: true,
    expands: false,
};

/// Copies bytes, with the bits in `flip` inverted, to the start of `to`.
#[inline(always)]
fn flipped(bytes: &[u8], flip: u8, to: &mut [u8]) {
    for (to, &byte) in to.iter_mut().zip(bytes) {
        *to = byte ^ flip;
    }
}

/// Puts the bytes of a column, in groups of `N` rows, next to each other.
#[inline(always)]
fn interleaved<const N: usize>(numbers: &[i16], columns: usize, to: &mut [u8]) {
    for (rows, to) in numbers.chunks_exact(N * columns).zip(to.chunks_exact_mut(N * columns)) {
        let rows: [&[i16]; N] = std::array::from_fn(|depth| &rows[depth * columns..][..columns]);
        for (column, run) in to.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            *run = std::array::from_fn(|depth| rows[depth][column] as u8);
        }
    }
}

/// Code that is compiled once per format. Mark `run` and all performance-critical functions below it
/// `#[inline(always)]`.
pub trait FormatKernel {
    /// The kernel's return type.
    type Output;
    /// Does the work.
    fn run<F: Format>(self, format: F) -> Self::Output;
}

/// A format for products of bytes that this CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteFormat {
    /// Words of 32 bits.
    Words(DotLevel),
    /// Products of bytes on NEON, added in pairs.
    #[cfg(target_arch = "aarch64")]
    Smull(Smull),
    /// Dot products of bytes on NEON.
    #[cfg(target_arch = "aarch64")]
    Sdot(Sdot),
    /// Products of matrices of bytes on NEON.
    #[cfg(target_arch = "aarch64")]
    Smmla(Smmla),
}

/// The constants of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatSizes {
    /// Names the layout of packed right operands: those of equal names and widths are shared.
    pub name: &'static str,
    /// Columns per vector: [`Integers::LANES`].
    pub lanes: usize,
    /// The most vectors of a register tile, which are the columns of a panel.
    pub vectors: usize,
    /// The units of rows of a register tile with 1, 2 or 4 vectors, indexed by the binary logarithm of that number.
    pub units: [usize; 3],
    /// Rows that are packed together.
    pub unit: usize,
    /// Depths per group.
    pub group: usize,
    /// Depths of a column that are neighbors in packed right operands, those of all columns of a panel before the next:
    /// a divisor of the group.
    pub together: usize,
    /// Bytes per number of the left operand. With 1 byte, and units of 1 row, rows of bytes are packed rows.
    pub left_size: usize,
    /// Whether the bytes of the left operand are signed.
    pub is_signed: bool,
    /// Whether `tile` reads panels that were expanded to 16 bits per number.
    pub expands: bool,
}

impl ByteFormat {
    /// All formats of this CPU that are compatible with `isa`, the best one last. Tests run on all of them.
    pub fn available(isa: Isa) -> Vec<ByteFormat> {
        match isa {
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(neon) => {
                let own = [
                    Some(ByteFormat::Smull(Smull::new(neon))),
                    Sdot::detect(neon).map(ByteFormat::Sdot),
                    Smmla::detect(neon).map(ByteFormat::Smmla),
                ];
                DotLevel::available(isa).map(ByteFormat::Words).chain(own.into_iter().flatten()).collect()
            }
            _ => DotLevel::available(isa).map(ByteFormat::Words).collect(),
        }
    }

    /// The best format of this CPU that is compatible with `isa`.
    pub fn of(isa: Isa) -> ByteFormat {
        ByteFormat::available(isa).pop().unwrap_or(ByteFormat::Words(DotLevel::Portable))
    }

    /// Runs `kernel` in a function compiled for this format, and for panels that are read often if `expanded`.
    #[inline]
    pub fn run<K: FormatKernel>(self, expanded: bool, kernel: K) -> K::Output {
        match self {
            ByteFormat::Words(level) if expanded => level.run(InWords::<K, true>(kernel)),
            ByteFormat::Words(level) => level.run(InWords::<K, false>(kernel)),
            #[cfg(target_arch = "aarch64")]
            ByteFormat::Smull(format) => format.enter(kernel),
            #[cfg(target_arch = "aarch64")]
            ByteFormat::Sdot(format) => format.enter(kernel),
            #[cfg(target_arch = "aarch64")]
            ByteFormat::Smmla(format) => format.enter(kernel),
        }
    }

    /// The constants of the format.
    pub fn sizes(self) -> FormatSizes {
        struct Sizes;
        impl FormatKernel for Sizes {
            type Output = FormatSizes;
            #[inline(always)]
            fn run<F: Format>(self, _: F) -> FormatSizes {
                F::SIZES
            }
        }
        self.run(false, Sizes)
    }

    /// The digits of rows that are multiplied with blocks: [`BlockFormat::DIGITS`].
    pub fn digits(self) -> [DigitForm; 2] {
        struct Digits;
        impl FormatKernel for Digits {
            type Output = [DigitForm; 2];
            #[inline(always)]
            fn run<F: Format>(self, _: F) -> [DigitForm; 2] {
                F::DIGITS
            }
        }
        self.run(false, Digits)
    }
}

impl FormatSizes {
    /// Columns of a full panel.
    pub const fn panel(&self) -> usize {
        self.vectors * self.lanes
    }

    /// Whether rows of bytes, padded to whole groups, are packed rows.
    pub const fn takes_bytes(&self) -> bool {
        self.left_size == 1 && self.unit == 1
    }

    /// Bytes per packed row of `depth` numbers.
    pub const fn left_stride(&self, depth: usize) -> usize {
        match self.takes_bytes() {
            true => depth.next_multiple_of(self.group),
            false => depth.next_multiple_of(PADDING) * self.left_size,
        }
    }

    /// The number of columns that panels have room for if `columns` are packed. [`Rescale`](super::int8::Rescale) must
    /// have as many.
    pub fn padded_columns(&self, columns: usize) -> usize {
        let rest = columns % self.panel();
        columns - rest + rest.div_ceil(self.lanes).next_power_of_two() * self.lanes * (rest > 0) as usize
    }
}

struct InWords<K, const EXPANDED: bool>(K);

impl<K: FormatKernel, const EXPANDED: bool> DotKernel for InWords<K, EXPANDED> {
    type Output = K::Output;
    #[inline(always)]
    fn run<D: Dot>(self, dot: D) -> K::Output {
        self.0.run(Words::<D, EXPANDED>(dot))
    }
}
