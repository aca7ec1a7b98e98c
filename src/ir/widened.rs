//! Constants whose elements are stored in another type, mostly one that WebNN lacks: widened whenever they are read, and
//! never stored widened.

use super::SmallFloat;
use crate::dtype::DataType;
use crate::error::Result;
use crate::memory::{Buffer, Mapped};
use half::f16;
use half::slice::HalfFloatSliceExt;
use std::ops::Range;

/// How many float16 numbers to widen at a time.
const HALVES: usize = 64;

/// Maximum number of stored bytes to read at a time.
const PIECE_BYTES: usize = 256 << 10;

/// An element type of files that WebNN lacks, or computes in another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// The upper half of a float32.
    Bfloat16,
    /// A float16, where a model casts it to float32, or the compiler computes in float32.
    Float16,
    /// A float64.
    Double,
    /// A signed integer of 16 bits.
    Int16,
    /// An unsigned integer of 16 bits.
    Uint16,
    /// A signed integer of 4 bits. Two share a byte, the first in its low bits.
    Int4,
    /// An unsigned integer of 4 bits, stored likewise.
    Uint4,
    /// A signed integer of 2 bits. Four share a byte, the first in its lowest bits.
    Int2,
    /// An unsigned integer of 2 bits, stored likewise.
    Uint2,
    /// A floating-point number of 4 or 8 bits.
    Small(SmallFloat),
}

impl FileType {
    /// Bits per element.
    pub const fn bits(self) -> usize {
        match self {
            FileType::Int2 | FileType::Uint2 => 2,
            FileType::Int4 | FileType::Uint4 => 4,
            FileType::Bfloat16 | FileType::Float16 | FileType::Int16 | FileType::Uint16 => 16,
            FileType::Double => 64,
            FileType::Small(small) => small.bits(),
        }
    }

    /// The smallest data type that has all values of this type; float32, which rounds them, for doubles.
    pub const fn widened(self) -> DataType {
        match self {
            FileType::Bfloat16 | FileType::Float16 | FileType::Double | FileType::Small(_) => DataType::Float32,
            FileType::Int16 | FileType::Uint16 => DataType::Int32,
            FileType::Int4 | FileType::Int2 => DataType::Int8,
            FileType::Uint4 | FileType::Uint2 => DataType::Uint8,
        }
    }

    /// The numbers that elements are places of, if they are. Two elements share a byte, the first in its high bits.
    pub fn table(self) -> Option<[f32; 16]> {
        match self {
            FileType::Small(small @ (SmallFloat::Nf4 | SmallFloat::Fp4)) => small.values().first_chunk().copied(),
            _ => None,
        }
    }

    /// The byte with element `first`, up to the one with the last of `count` elements.
    fn stored(self, first: usize, count: usize) -> Range<usize> {
        first * self.bits() / 8..((first + count) * self.bits()).div_ceil(8)
    }

    /// Widens as many elements as fit into `into`. `stored` begins with the byte that holds the first one, after `skip`
    /// other elements.
    fn widen(self, stored: &[u8], skip: usize, into: &mut [u8]) {
        /// `into[i] = widen(stored[i])`, both in the bytes of one element.
        fn each<const N: usize, const M: usize>(stored: &[u8], into: &mut [u8], widen: impl Fn([u8; N]) -> [u8; M]) {
            let elements = stored.as_chunks::<N>().0;
            into.as_chunks_mut::<M>().0.iter_mut().zip(elements).for_each(|(into, element)| *into = widen(*element));
        }
        match self {
            FileType::Bfloat16 => each(stored, into, |[low, high]| [0, 0, low, high]),
            FileType::Float16 => widen_halves(stored, into),
            FileType::Double => each(stored, into, |bytes| (f64::from_le_bytes(bytes) as f32).to_le_bytes()),
            FileType::Int16 => each(stored, into, |bytes| i32::from(i16::from_le_bytes(bytes)).to_le_bytes()),
            FileType::Uint16 => each(stored, into, |bytes| i32::from(u16::from_le_bytes(bytes)).to_le_bytes()),
            FileType::Small(small) => {
                let values = small.values();
                for (at, into) in (skip..).zip(into.as_chunks_mut::<4>().0) {
                    *into = values[small.pattern(stored, at)].to_le_bytes();
                }
            }
            FileType::Int4 | FileType::Uint4 | FileType::Int2 | FileType::Uint2 => {
                let (bits, is_signed) = (self.bits(), matches!(self, FileType::Int4 | FileType::Int2));
                let unused = 8 - bits;
                for (at, into) in (skip..).zip(into) {
                    let high = stored[at * bits / 8] >> (at * bits % 8) << unused;
                    *into = if is_signed { (high as i8 >> unused) as u8 } else { high >> unused };
                }
            }
        }
    }
}

/// Widens float16 numbers, many at a time: processors have no instruction for one.
pub(super) fn widen_halves(stored: &[u8], into: &mut [u8]) {
    let (mut halves, mut floats) = ([f16::ZERO; HALVES], [0.0f32; HALVES]);
    let (stored, into) = (stored.as_chunks::<2>().0, into.as_chunks_mut::<4>().0);
    for (stored, into) in stored.chunks(HALVES).zip(into.chunks_mut(HALVES)) {
        let count = into.len();
        halves.iter_mut().zip(stored).for_each(|(half, bytes)| *half = f16::from_le_bytes(*bytes));
        halves[..count].convert_to_f32_slice(&mut floats[..count]);
        into.iter_mut().zip(floats).for_each(|(into, float)| *into = float.to_le_bytes());
    }
}

/// Elements of a [`FileType`] in a file or in memory, read as those of its [data type](FileType::widened). Cheap to clone.
#[derive(Clone, Debug)]
pub struct Widened {
    stored: Mapped,
    from: FileType,
    /// The elements, counted from the beginning of `stored`.
    range: Range<usize>,
}

impl Widened {
    /// The first `count` elements, of type `from`, in `stored`.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn new(stored: Mapped, from: FileType, count: usize) -> Widened {
        assert!(from.stored(0, count).end <= stored.len());
        Widened { stored, from, range: 0..count }
    }

    /// The float16 numbers in `stored`.
    pub fn of_halves(stored: Mapped) -> Widened {
        let count = stored.len() * 8 / FileType::Float16.bits();
        Widened::new(stored, FileType::Float16, count)
    }

    /// The stored bytes, including those of elements outside of [`range`](Self::range).
    pub fn stored(&self) -> &Mapped {
        &self.stored
    }

    /// The type of the stored elements.
    pub fn from(&self) -> FileType {
        self.from
    }

    /// The elements, counted from the beginning of the stored bytes.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Number of bytes of the widened elements.
    pub fn len(&self) -> usize {
        self.range.len() * self.from.widened().size()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The number of elements in so many bytes of widened ones.
    fn elements(&self, bytes: usize) -> usize {
        let size = self.from.widened().size();
        assert!(bytes.is_multiple_of(size), "whole elements");
        bytes / size
    }

    /// The part `range`, in bytes of widened elements.
    ///
    /// # Panics
    /// If it is out of bounds or divides an element.
    pub fn window(&self, range: Range<usize>) -> Widened {
        assert!(range.start <= range.end && range.end <= self.len());
        let first = self.range.start;
        let range = first + self.elements(range.start)..first + self.elements(range.end);
        Widened { stored: self.stored.clone(), from: self.from, range }
    }

    /// Writes the widened elements from byte `at` on to `into`.
    ///
    /// # Errors
    /// An `UnknownError` if memory for a piece of them runs out, an `OperationError` if a file cannot be read.
    ///
    /// # Panics
    /// If there are fewer, or `at` or the length divides an element.
    pub fn read(&self, at: usize, into: &mut [u8]) -> Result<()> {
        assert!(into.len() <= self.len() && at <= self.len() - into.len());
        let (size, per_piece) = (self.from.widened().size(), PIECE_BYTES * 8 / self.from.bits());
        let mut next = self.range.start + self.elements(at);
        let most = self.from.stored(0, per_piece.min(self.elements(into.len()))).len() + 1;
        let mut copy = Buffer::zeroed(most)?;
        for into in into.chunks_mut(per_piece * size) {
            let count = into.len() / size;
            let bytes = self.from.stored(next, count);
            let stored = &mut copy.bytes_mut()[..bytes.len()];
            self.stored.read(bytes.start, stored)?;
            self.from.widen(stored, next - bytes.start * 8 / self.from.bits(), into);
            next += count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Backing;
    use crate::ops::tensor::Tensor;
    use crate::shape::Descriptor;
    use FileType::*;

    /// The bytes of `count` elements of a type, and the elements as numbers.
    fn elements(from: FileType, count: usize) -> (Vec<u8>, Vec<f64>) {
        let bytes: Vec<u8> = match from {
            Double => (0..count).flat_map(|at| (at as f64 * 1.1 - 7.0).to_le_bytes()).collect(),
            _ => (0..(count * from.bits()).div_ceil(8)).map(|at| (at * 151 + 7) as u8 & 0xbf).collect(),
        };
        let words = || bytes.as_chunks::<2>().0.iter().copied();
        let parts = |at: usize| bytes[at * from.bits() / 8] >> (at * from.bits() % 8) & ((1 << from.bits()) - 1);
        let signed =
            |bits: u8| if bits >> (from.bits() - 1) == 1 { bits as i32 - (1 << from.bits()) } else { bits as i32 };
        let numbers = match from {
            Double => bytes.as_chunks::<8>().0.iter().map(|&b| f64::from_le_bytes(b) as f32 as f64).collect(),
            Bfloat16 => words().map(|b| half::bf16::from_le_bytes(b).to_f64()).collect(),
            Float16 => words().map(|b| f16::from_le_bytes(b).to_f64()).collect(),
            Int16 => words().map(|b| i16::from_le_bytes(b) as f64).collect(),
            Uint16 => words().map(|b| u16::from_le_bytes(b) as f64).collect(),
            Uint4 | Uint2 => (0..count).map(|at| parts(at) as f64).collect(),
            Int4 | Int2 => (0..count).map(|at| signed(parts(at)) as f64).collect(),
            Small(small) => (0..count).map(|at| small.values()[small.pattern(&bytes, at)] as f64).collect(),
        };
        (bytes, numbers)
    }

    #[test]
    fn every_part_reads_as_the_same_numbers() {
        let small = [SmallFloat::E4m3fn, SmallFloat::E2m1, SmallFloat::Nf4].map(Small);
        for from in [Bfloat16, Float16, Double, Int16, Uint16, Int4, Uint4, Int2, Uint2].into_iter().chain(small) {
            let size = from.widened().size();
            // More than one piece, and a last byte that is not full.
            let count = PIECE_BYTES * 8 / from.bits() + 3;
            let (bytes, expected) = elements(from, count);
            let len = bytes.len();
            let stored = Mapped::new(Backing::of_bytes(bytes), 0..len).unwrap();
            let whole = Widened::new(stored, from, count);
            assert_eq!(whole.len(), count * size);
            for (start, end) in [(0, count), (0, 1), (1, 2), (3, 12), (5, count), (count - 1, count)] {
                let part = whole.window(size..whole.len()).window((start.max(1) - 1) * size..(end.max(1) - 1) * size);
                let mut read = Buffer::zeroed(part.len()).unwrap();
                part.read(0, read.bytes_mut()).unwrap();
                let descriptor = Descriptor::new(from.widened(), [(part.len() / size) as u32]);
                let numbers: Vec<f64> =
                    Tensor::from_bytes(&descriptor, read.bytes()).numbers().map(|number| number.to_f64()).collect();
                assert!(numbers == expected[start.max(1)..end.max(1)], "{from:?} {start}..{end}");
                let middle = part.len() / size / 2 * size;
                let mut tail = vec![0; part.len() - middle];
                part.read(middle, &mut tail).unwrap();
                assert_eq!(tail, &read.bytes()[middle..], "{from:?} {start}..{end}");
            }
        }
    }
}
