//! The bytes of constants.

use super::{Derived, FileType, Hold, Widened};
use crate::error::Result;
use crate::memory::{Buffer, Mapped};
use std::ops::Range;
use std::sync::Arc;

/// The bytes of a constant, row-major, little-endian. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Constant {
    /// In memory of its own.
    Owned(Arc<Buffer>),
    /// In a memory-mapped file, or in memory that another owner holds: read when needed.
    Mapped(Mapped),
    /// Stored in another type than its own, such as one that WebNN lacks: widened when read.
    Widened(Widened),
    /// Computed from other constants when it is read.
    Derived(Derived),
    /// The same byte everywhere.
    Filled(Filled),
}

/// Bytes that are all the same: they take no memory until they are read.
#[derive(Clone, Copy, Debug)]
pub struct Filled {
    /// Each byte.
    pub byte: u8,
    /// Number of bytes.
    pub len: usize,
}

impl Constant {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Constant::Owned(buffer) => buffer.len(),
            Constant::Mapped(window) => window.len(),
            Constant::Widened(widened) => widened.len(),
            Constant::Derived(derived) => derived.len(),
            Constant::Filled(filled) => filled.len,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size of the constant's own memory in bytes: 0 if it is read when needed.
    pub fn memory_bytes(&self) -> usize {
        if let Constant::Owned(buffer) = self { buffer.len() } else { 0 }
    }

    /// Returns all bytes in aligned memory: a copy if they are read or computed when needed.
    ///
    /// # Errors
    /// An `UnknownError` if memory for a copy runs out, an `OperationError` if a mapped file cannot be read.
    pub fn buffer(&self) -> Result<Arc<Buffer>> {
        self.part(0..self.len())
    }

    /// The bytes in `range` as a constant. Copies only owned bytes, and only if `range` is a part of them.
    ///
    /// # Errors
    /// An `UnknownError` if memory for the copy runs out.
    ///
    /// # Panics
    /// If `range` lies outside.
    pub fn window(&self, range: Range<usize>) -> Result<Constant> {
        Ok(match self {
            Constant::Owned(_) => Constant::Owned(self.part(range)?),
            Constant::Mapped(window) => Constant::Mapped(window.window(range)),
            Constant::Widened(widened) => Constant::Widened(widened.window(range)),
            Constant::Derived(derived) => Constant::Derived(derived.window(range)),
            Constant::Filled(filled) => {
                assert!(range.start <= range.end && range.end <= filled.len);
                Constant::Filled(Filled { len: range.len(), ..*filled })
            }
        })
    }

    /// Size in bytes of the memory that is freed with the constant, if nothing else holds it.
    pub fn retained_bytes(&self) -> usize {
        let of_window = |window: &Mapped| window.backing().buffer().map_or(0, |buffer| buffer.len());
        match self {
            Constant::Owned(buffer) => buffer.len(),
            Constant::Mapped(window) => of_window(window),
            Constant::Widened(widened) => of_window(widened.stored()),
            Constant::Derived(derived) => derived.retained_bytes(),
            Constant::Filled(_) => 0,
        }
    }

    /// Keeps the bytes in memory once they are computed, if they are computed when they are read.
    pub fn hold(&self) -> Option<Hold> {
        if let Constant::Derived(derived) = self { Some(derived.hold()) } else { None }
    }

    /// The elements of a float32 constant as the float16 numbers that they are stored as, if they are.
    pub fn halves(&self) -> Option<Constant> {
        match self {
            Constant::Widened(widened) if widened.from() == FileType::Float16 => {
                let Range { start, end } = widened.range();
                Some(Constant::Mapped(widened.stored().window(2 * start..2 * end)))
            }
            Constant::Derived(derived) => derived.halves().map(Constant::Derived),
            _ => None,
        }
    }

    /// The elements of a float32 constant as the places in a table of numbers that they are stored as, if they are.
    pub fn places(&self) -> Option<(Constant, [f32; 16])> {
        let Constant::Widened(widened) = self else { return None };
        let (Range { start, end }, table) = (widened.range(), widened.from().table()?);
        // Two share a byte.
        let is_whole = start.is_multiple_of(2) && end.is_multiple_of(2);
        is_whole.then(|| (Constant::Mapped(widened.stored().window(start / 2..end / 2)), table))
    }

    fn part(&self, range: Range<usize>) -> Result<Arc<Buffer>> {
        Ok(match self {
            Constant::Owned(buffer) if range == (0..buffer.len()) => buffer.clone(),
            Constant::Owned(buffer) => Arc::new(Buffer::copy_of(&buffer.bytes()[range])?),
            Constant::Mapped(window) => {
                let mut copy = Buffer::zeroed(range.len())?;
                window.read(range.start, copy.bytes_mut())?;
                Arc::new(copy)
            }
            Constant::Widened(widened) => {
                let part = widened.window(range);
                let mut copy = Buffer::zeroed(part.len())?;
                part.read(0, copy.bytes_mut())?;
                Arc::new(copy)
            }
            Constant::Derived(derived) => derived.window(range).buffer()?,
            Constant::Filled(filled) => {
                let mut bytes = Buffer::zeroed(range.len())?;
                if filled.byte != 0 {
                    bytes.bytes_mut().fill(filled.byte);
                }
                Arc::new(bytes)
            }
        })
    }
}

impl From<Buffer> for Constant {
    fn from(buffer: Buffer) -> Constant {
        Constant::Owned(Arc::new(buffer))
    }
}
