//! Memory that grows at its end while others read its beginning: the keys and values of a text that is being generated.
//!
//! [`Rows`] are the first bytes of a block. What follows them can be written once, by whoever [appends](Rows::append) first;
//! rows that others hold stay as they are. Who fails to write it gives its place back. Who appends later to the same rows (a fork
//! of the text), or finds no room, gets a copy in a block of its own.

use super::Buffer;
use crate::error::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A block, of which the first bytes are in use.
struct Block {
    buffer: Buffer,
    /// Bytes that somebody has, or writes.
    used: AtomicUsize,
}

/// The first bytes of a block, which never change. Clones share them.
#[derive(Clone)]
pub struct Rows {
    block: Arc<Block>,
    len: usize,
}

/// Rows whose last bytes only the owner may write. If dropped before they are [finished](Appended::finish), their place is free
/// for the next append.
pub struct Appended {
    block: Arc<Block>,
    kept: usize,
    len: usize,
}

impl Rows {
    /// Rows of `len` bytes, which `fill` writes: it is given zeros.
    ///
    /// # Errors
    /// An `UnknownError` without memory.
    pub fn new(len: usize, fill: impl FnOnce(&mut [u8])) -> Result<Rows> {
        let mut buffer = Buffer::zeroed(with_room(len))?;
        fill(&mut buffer.bytes_mut()[..len]);
        Ok(Rows { block: Arc::new(Block { buffer, used: AtomicUsize::new(len) }), len })
    }

    /// The rows of a dense tensor of the shape `[outer, rows, inner]`, `inner` in bytes. They are `[rows, outer, inner]`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_dense(bytes: &[u8], sizes: [usize; 3]) -> Result<Rows> {
        Rows::new(bytes.len(), |to| exchange(bytes, to, sizes))
    }

    /// The rows as a dense tensor of the shape `[outer, rows, inner]`.
    ///
    /// # Errors
    /// An `UnknownError` without memory.
    pub fn to_dense(&self, [outer, rows, inner]: [usize; 3]) -> Result<Buffer> {
        let mut dense = Buffer::zeroed(self.len)?;
        exchange(self.bytes(), dense.bytes_mut(), [rows, outer, inner]);
        Ok(dense)
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: these bytes were initialized when they became rows, and nobody writes them any more.
        unsafe { std::slice::from_raw_parts(self.block.buffer.as_ptr(), self.len) }
    }

    /// These rows with room behind them, `len` bytes together: where they are, or in a copy if somebody else has appended to
    /// them or there is no room.
    ///
    /// # Errors
    /// An `UnknownError` without memory for the copy.
    ///
    /// # Panics
    /// If `len` is less than there is.
    pub fn append(&self, len: usize) -> Result<Appended> {
        assert!(len >= self.len);
        let used = &self.block.used;
        let has_room = len <= self.block.buffer.len();
        if has_room && used.compare_exchange(self.len, len, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Ok(Appended { block: self.block.clone(), kept: self.len, len });
        }
        let mut buffer = Buffer::zeroed(with_room(len))?;
        buffer.bytes_mut()[..self.len].copy_from_slice(self.bytes());
        Ok(Appended { block: Arc::new(Block { buffer, used: AtomicUsize::new(len) }), kept: self.len, len })
    }

    /// Whether `other` are in the same memory.
    #[cfg(test)]
    pub fn is_beside(&self, other: &Rows) -> bool {
        Arc::ptr_eq(&self.block, &other.block)
    }
}

impl Appended {
    /// All bytes: those that were there, then zeros or what was written before something failed.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first byte. Those that were there must not be written; the others are its owner's.
    pub fn as_ptr(&self) -> *mut u8 {
        self.block.buffer.as_ptr()
    }

    /// How many bytes were there.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// All of them as rows. Nothing is written any more.
    pub fn finish(mut self) -> Rows {
        // Nothing is given back.
        self.kept = self.len;
        Rows { block: self.block.clone(), len: self.len }
    }
}

impl Drop for Appended {
    fn drop(&mut self) {
        if self.kept < self.len {
            // Nobody can have appended behind what is no rows yet, so that these are the last bytes in use.
            self.block.used.store(self.kept, Ordering::Release);
        }
    }
}

/// Exchanges the first two dimensions: `to` is `[b, a, inner]` of `from`, `[a, b, inner]` bytes.
fn exchange(from: &[u8], to: &mut [u8], [a, b, inner]: [usize; 3]) {
    if inner == 0 {
        return;
    }
    for (index, to) in to.chunks_exact_mut(inner).enumerate() {
        let at = (index % a * b + index / a) * inner;
        to.copy_from_slice(&from[at..at + inner]);
    }
}

/// The bytes of a block for `len` bytes of rows: half as many more, so that growing copies each byte three times at most.
fn with_room(len: usize) -> usize {
    len.saturating_add(len / 2).max(MIN_BLOCK)
}

/// The fewest bytes of a block.
const MIN_BLOCK: usize = 1 << 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(bytes: &[u8]) -> Rows {
        Rows::new(bytes.len(), |to| to.copy_from_slice(bytes)).unwrap()
    }

    /// `rows` with `more` behind them.
    fn grown(rows: &Rows, more: &[u8]) -> Rows {
        let appended = rows.append(rows.len() + more.len()).unwrap();
        assert_eq!(appended.kept(), rows.len());
        // SAFETY: the bytes behind those that were kept are those of `appended` alone.
        unsafe { appended.as_ptr().add(appended.kept()).copy_from_nonoverlapping(more.as_ptr(), more.len()) };
        appended.finish()
    }

    #[test]
    fn rows_grow_in_place_and_forks_are_copied() {
        let first = rows(&[1, 2, 3]);
        let second = grown(&first, &[4, 5]);
        assert!(second.is_beside(&first));
        let fork = grown(&first, &[6]);
        assert!(!fork.is_beside(&first));
        let third = grown(&second, &[7]);
        assert!(third.is_beside(&first));
        let other = grown(&fork, &[8, 9]);
        assert!(other.is_beside(&fork));
        assert_eq!(first.bytes(), [1, 2, 3]);
        assert_eq!(second.bytes(), [1, 2, 3, 4, 5]);
        assert_eq!(third.bytes(), [1, 2, 3, 4, 5, 7]);
        assert_eq!(fork.bytes(), [1, 2, 3, 6]);
        assert_eq!(other.bytes(), [1, 2, 3, 6, 8, 9]);
        assert_eq!(grown(&other, &[]).bytes(), other.bytes());
    }

    #[test]
    fn what_is_not_finished_gives_its_place_back() {
        let first = rows(&[1, 2, 3]);
        let failed = first.append(5).unwrap();
        assert!(!grown(&first, &[6]).is_beside(&first), "its place is taken");
        drop(failed);
        let second = grown(&first, &[4]);
        assert!(second.is_beside(&first));
        assert_eq!((first.bytes(), second.bytes()), (&[1, 2, 3][..], &[1, 2, 3, 4][..]));
        // What is behind rows that others have stays theirs.
        drop(first.append(5).unwrap());
        assert!(grown(&second, &[5]).is_beside(&first));
    }

    #[test]
    fn dense_tensors_become_rows_and_back() {
        let dense: Vec<u8> = (0..2 * 3 * 4).collect();
        let rows = Rows::of_dense(&dense, [2, 3, 4]).unwrap();
        assert_eq!(rows.bytes()[..8], [0, 1, 2, 3, 12, 13, 14, 15]);
        assert_eq!(rows.to_dense([2, 3, 4]).unwrap().bytes(), dense);
        assert!(Rows::of_dense(&[], [2, 0, 4]).unwrap().to_dense([2, 0, 4]).unwrap().is_empty());
    }

    #[test]
    fn growing_moves_rarely() {
        let mut all = rows(&[]);
        let (mut moved, count) = (0, 100_000);
        for i in 0..count {
            let next = grown(&all, &[i as u8]);
            moved += usize::from(!next.is_beside(&all));
            all = next;
        }
        assert!(moved < 12, "{moved} times");
        assert!(all.bytes().iter().enumerate().all(|(i, &byte)| byte == i as u8) && all.len() == count);
    }

    #[test]
    fn threads_that_append_to_the_same_rows_do_not_see_each_other() {
        let first = rows(&[9; 100]);
        let grown: Vec<Rows> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8u8)
                .map(|i| {
                    let first = &first;
                    scope.spawn(move || grown(first, &[i; 50]))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (i, rows) in grown.iter().enumerate() {
            assert!(rows.bytes()[..100] == [9; 100] && rows.bytes()[100..] == [i as u8; 50]);
        }
        assert_eq!(grown.iter().filter(|rows| rows.is_beside(&first)).count(), 1);
    }
}
