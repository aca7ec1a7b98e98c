//! The bytes of constants.

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
}

impl Constant {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Constant::Owned(buffer) => buffer.len(),
            Constant::Mapped(window) => window.len(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all bytes in aligned memory: a copy if they are mapped.
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
        })
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
        })
    }
}

impl From<Buffer> for Constant {
    fn from(buffer: Buffer) -> Constant {
        Constant::Owned(Arc::new(buffer))
    }
}
