//! What an import may use: a small file must need little time and memory.

use super::model::Model;

/// Maximum work that loops and functions may add to that of the model's own nodes, in units of [`work`].
const MAX_WORK: usize = 50_000;

/// Bytes of an encoded node, with names to look up and attributes, that cost as much as a node itself.
const BYTES_PER_WORK: usize = 32;

/// The work for a node of this number of bytes. A unit takes some microseconds.
pub(super) fn work(bytes: usize) -> usize {
    1 + bytes / BYTES_PER_WORK
}

/// Bytes of memory that the translation of any model may use for operators, and for constants that are not in the file.
const MEMORY: usize = 24 << 20;

/// Additional bytes of memory per byte of the file: types that WebNN does not support are widened.
pub(super) const MEMORY_PER_BYTE: usize = 8;

/// Maximum number of elements to compute during translation: about two seconds of the naive references. Loops over
/// small constants could otherwise require any number.
const MAX_FOLDED: usize = 1 << 25;

/// What an import, or a part of one, may use.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// Work, in units of [`work`].
    pub work: usize,
    /// Bytes of memory.
    pub memory: usize,
    /// Number of elements to compute.
    pub foldable: usize,
}

impl Budget {
    /// The budget of a new import with `own` work in addition to that of loops and functions.
    pub fn new(model: &Model, own: usize) -> Budget {
        Budget {
            work: own.saturating_add(MAX_WORK),
            memory: MEMORY.saturating_add(model.files.byte_length().saturating_mul(MEMORY_PER_BYTE)),
            foldable: MAX_FOLDED,
        }
    }

    /// Half of it, for a part that must leave something to others.
    pub fn half(self) -> Budget {
        Budget { work: self.work / 2, memory: self.memory / 2, foldable: self.foldable / 2 }
    }

    /// Deducts the difference between `given` and `left`, what a part got and what it did not use. External files make the memory grow, but only for those
    /// who read them: otherwise, reading one again and again would yield any amount.
    pub fn deduct(&mut self, given: Budget, left: Budget) {
        self.work -= given.work - left.work;
        self.memory -= given.memory.saturating_sub(left.memory);
        self.foldable -= given.foldable - left.foldable;
    }
}
