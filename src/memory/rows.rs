//! Memory that grows at its end while others read its beginning, for the keys and values of a text while it is being
//! generated.
//!
//! [`Rows`] are the first bytes of a block. The bytes after them can be written once, by the first
//! [append](Rows::append); rows that others hold stay unchanged. An append that is dropped unfinished frees its space.
//! A later append to the same rows (a fork of the text), or one without room, gets a copy in a block of its own.

use super::Buffer;
use crate::error::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory that rows can be in.
pub trait Room: Sized {
    /// Its size in bytes.
    fn size(&self) -> usize;

    /// New memory of at least `len` bytes that begins with the first `kept` bytes of this one, which are those of rows.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out.
    fn grown(&self, kept: usize, len: usize) -> Result<Self>;
}

impl Room for Buffer {
    fn size(&self) -> usize {
        self.len()
    }

    fn grown(&self, kept: usize, len: usize) -> Result<Buffer> {
        let mut buffer = Buffer::zeroed(len)?;
        // SAFETY: rows have at least this many bytes, which are initialized and which nobody writes any more.
        let rows = unsafe { std::slice::from_raw_parts(self.as_ptr(), kept) };
        buffer.bytes_mut()[..kept].copy_from_slice(rows);
        Ok(buffer)
    }
}

/// A block whose first bytes are in use.
struct Block<M> {
    memory: M,
    /// Number of bytes that are held or being written.
    used: AtomicUsize,
}

/// The first bytes of a block, which never change. Clones share them.
pub struct Rows<M = Buffer> {
    block: Arc<Block<M>>,
    len: usize,
}

impl<M> Clone for Rows<M> {
    fn clone(&self) -> Rows<M> {
        Rows { block: self.block.clone(), len: self.len }
    }
}

/// Rows followed by bytes that only the owner may write. If they are dropped before they are
/// [finished](Appended::finish), their space is free for the next append.
pub struct Appended<M = Buffer> {
    block: Arc<Block<M>>,
    kept: usize,
    len: usize,
}

impl Rows {
    /// Rows of `len` bytes written by `fill`, which gets zeros.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out.
    pub fn new(len: usize, fill: impl FnOnce(&mut [u8])) -> Result<Rows> {
        let mut buffer = Buffer::zeroed(with_room(len))?;
        fill(&mut buffer.bytes_mut()[..len]);
        Ok(Rows::of_memory(buffer, len))
    }

    /// The rows of a dense tensor of shape `[outer, rows, inner]`, with `inner` in bytes, stored as `[rows, outer,
    /// inner]`.
    ///
    /// # Errors
    /// Same as [`new`](Self::new).
    pub fn of_dense(bytes: &[u8], sizes: [usize; 3]) -> Result<Rows> {
        Rows::new(bytes.len(), |to| exchange(bytes, to, sizes))
    }

    /// The rows as a dense tensor of shape `[outer, rows, inner]`, with `inner` in bytes.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out.
    pub fn to_dense(&self, sizes: [usize; 3]) -> Result<Buffer> {
        dense_of_rows(self.bytes(), sizes)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: these bytes were initialized when they became rows, and nobody writes them any more.
        unsafe { std::slice::from_raw_parts(self.block.memory.as_ptr(), self.len) }
    }
}

impl<M: Room> Rows<M> {
    /// The first `len` bytes of `memory`, which nobody else writes.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn of_memory(memory: M, len: usize) -> Rows<M> {
        assert!(len <= memory.size());
        Rows { block: Arc::new(Block { memory, used: AtomicUsize::new(len) }), len }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// An address that only rows in the same block have, and the size of the block in bytes.
    pub fn block(&self) -> (usize, usize) {
        (Arc::as_ptr(&self.block).addr(), self.block.memory.size())
    }

    /// The memory, which begins with these rows. Others may be writing what comes after them.
    pub fn memory(&self) -> &M {
        &self.block.memory
    }

    /// These rows with room after them, `len` bytes altogether: in place, or in a copy if somebody else has appended
    /// to them or there is no room.
    ///
    /// # Errors
    /// An `UnknownError` if memory for the copy runs out.
    ///
    /// # Panics
    /// If `len` is less than the current length.
    pub fn append(&self, len: usize) -> Result<Appended<M>> {
        assert!(len >= self.len);
        let used = &self.block.used;
        let has_room = len <= self.block.memory.size();
        if has_room && used.compare_exchange(self.len, len, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Ok(Appended { block: self.block.clone(), kept: self.len, len });
        }
        let memory = self.block.memory.grown(self.len, with_room(len))?;
        Ok(Appended { block: Arc::new(Block { memory, used: AtomicUsize::new(len) }), kept: self.len, len })
    }

    /// Whether `other` is in the same block.
    #[cfg(test)]
    pub fn is_beside(&self, other: &Rows<M>) -> bool {
        Arc::ptr_eq(&self.block, &other.block)
    }
}

impl Appended {
    /// The first byte. The first [`kept`](Self::kept) bytes must not be written; the others belong to the owner.
    pub fn as_ptr(&self) -> *mut u8 {
        self.block.memory.as_ptr()
    }
}

impl<M> Appended<M> {
    /// Number of bytes: the existing ones, followed by zeros or by what was written before a failure.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory, which begins with these bytes. What comes after the first [`kept`](Self::kept) ones belongs to the
    /// owner.
    pub fn memory(&self) -> &M {
        &self.block.memory
    }

    /// Number of bytes that existed before.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Returns all bytes as rows. Nothing is written any more.
    pub fn finish(mut self) -> Rows<M> {
        // Keeps `drop` from freeing the space.
        self.kept = self.len;
        Rows { block: self.block.clone(), len: self.len }
    }
}

impl<M> Drop for Appended<M> {
    fn drop(&mut self) {
        if self.kept < self.len {
            // Nobody can append to unfinished rows, so these are the last bytes in use.
            self.block.used.store(self.kept, Ordering::Release);
        }
    }
}

/// `bytes`, which are rows, as a dense tensor of shape `[outer, rows, inner]`, with `inner` in bytes.
///
/// # Errors
/// An `UnknownError` if memory runs out.
pub fn dense_of_rows(bytes: &[u8], [outer, rows, inner]: [usize; 3]) -> Result<Buffer> {
    let mut dense = Buffer::zeroed(bytes.len())?;
    exchange(bytes, dense.bytes_mut(), [rows, outer, inner]);
    Ok(dense)
}

/// Exchanges the first two dimensions: `from` is `[a, b, inner]`, `to` becomes `[b, a, inner]`, with `inner` in bytes.
fn exchange(from: &[u8], to: &mut [u8], [a, b, inner]: [usize; 3]) {
    if inner == 0 {
        return;
    }
    for (index, to) in to.chunks_exact_mut(inner).enumerate() {
        let at = (index % a * b + index / a) * inner;
        to.copy_from_slice(&from[at..at + inner]);
    }
}

/// Block size for `len` bytes of rows: 1.5 times as many, which copies each byte at most three times as the rows grow.
pub fn with_room(len: usize) -> usize {
    len.saturating_add(len / 2).max(MIN_BLOCK)
}

/// The minimum size of a block in bytes.
const MIN_BLOCK: usize = 1 << 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(bytes: &[u8]) -> Rows {
        Rows::new(bytes.len(), |to| to.copy_from_slice(bytes)).unwrap()
    }

    /// `rows` followed by `more`.
    fn grown(rows: &Rows, more: &[u8]) -> Rows {
        let appended = rows.append(rows.len() + more.len()).unwrap();
        assert_eq!(appended.kept(), rows.len());
        // SAFETY: the bytes after the kept ones belong to `appended` alone.
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
    fn unfinished_rows_free_their_space() {
        let first = rows(&[1, 2, 3]);
        let failed = first.append(5).unwrap();
        assert!(!grown(&first, &[6]).is_beside(&first), "its place is taken");
        drop(failed);
        let second = grown(&first, &[4]);
        assert!(second.is_beside(&first));
        assert_eq!((first.bytes(), second.bytes()), (&[1, 2, 3][..], &[1, 2, 3, 4][..]));
        // Bytes after rows that others hold belong to those others.
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
