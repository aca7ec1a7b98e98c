//! Copies between private memory and memory that other threads may read and write at the same time, as JavaScript
//! allows for a `SharedArrayBuffer`.
//!
//! A slice promises that nobody writes to it meanwhile, and a plain copy through pointers that no other thread does;
//! breaking either promise is undefined behavior. Relaxed atomic accesses promise nothing: each copied byte is one that
//! the memory held at some time during the copy, which is also JavaScript's rule for such races. The copies use words:
//! compilers do not merge atomic accesses to bytes, which took 4 times as long. Another thread may access the same
//! bytes in pieces of another size. Rust's memory model leaves that open, JavaScript's does not, and all processors
//! read and write aligned words as a whole.

use super::Buffer;
use crate::error::Result;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

const WORD: usize = size_of::<usize>();

/// The memory as aligned words, with the bytes before and after them.
fn words(memory: &[AtomicU8]) -> (&[AtomicU8], &[AtomicUsize], &[AtomicU8]) {
    // SAFETY: both types are plain data, valid for every bit pattern, and may be written through shared references.
    unsafe { memory.align_to() }
}

/// Copies `source` to `target`, which has the same length.
fn load(source: &[AtomicU8], target: &mut [MaybeUninit<u8>]) {
    let (head, middle, tail) = words(source);
    let (first, rest) = target.split_at_mut(head.len());
    let (whole, last) = rest.as_chunks_mut::<WORD>();
    for (target, source) in first.iter_mut().zip(head).chain(last.iter_mut().zip(tail)) {
        target.write(source.load(Ordering::Relaxed));
    }
    for (target, source) in whole.iter_mut().zip(middle) {
        // SAFETY: `target` is as long as a word. Mapping the bytes of an array is slow unless fully optimized.
        unsafe { target.as_mut_ptr().cast::<usize>().write_unaligned(source.load(Ordering::Relaxed)) };
    }
}

/// Copies `source`, which other threads may write meanwhile, to `target`.
///
/// # Panics
/// If the lengths differ.
pub fn read(source: &[AtomicU8], target: &mut [u8]) {
    assert_eq!(source.len(), target.len());
    let target: *mut [u8] = target;
    // SAFETY: these are initialized bytes; `load` only writes initialized ones.
    load(source, unsafe { &mut *(target as *mut [MaybeUninit<u8>]) });
}

/// Copies `source` to `target`, which other threads may read and write meanwhile.
///
/// # Panics
/// If the lengths differ.
pub fn write(source: &[u8], target: &[AtomicU8]) {
    assert_eq!(source.len(), target.len());
    let (head, middle, tail) = words(target);
    let (first, rest) = source.split_at(head.len());
    let (whole, last) = rest.as_chunks::<WORD>();
    for (source, target) in first.iter().zip(head).chain(last.iter().zip(tail)) {
        target.store(*source, Ordering::Relaxed);
    }
    for (source, target) in whole.iter().zip(middle) {
        target.store(usize::from_ne_bytes(*source), Ordering::Relaxed);
    }
}

impl Buffer {
    /// A copy of `bytes`, which other threads may write meanwhile.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out.
    pub fn copy_of_racing(bytes: &[AtomicU8]) -> Result<Buffer> {
        // SAFETY: `load` writes as many bytes as `bytes` has, which is the whole target.
        unsafe { Buffer::filled(bytes.len(), |target| load(bytes, target)) }
    }

    /// Replaces the contents by `bytes`, which other threads may write meanwhile.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn replace_by_racing(&mut self, bytes: &[AtomicU8]) {
        read(bytes, self.bytes_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn atomic(bytes: &[u8]) -> Vec<AtomicU8> {
        bytes.iter().map(|&byte| AtomicU8::new(byte)).collect()
    }

    #[test]
    fn every_byte_of_every_length_at_every_place() {
        let bytes: Vec<u8> = (1..=100).collect();
        for start in 0..2 * WORD {
            for len in 0..5 * WORD {
                let copy = Buffer::copy_of_racing(&atomic(&bytes)[start..start + len]).unwrap();
                assert_eq!(copy.bytes(), &bytes[start..start + len]);

                let memory = atomic(&[0; 100]);
                write(&bytes[..len], &memory[start..start + len]);
                let memory: Vec<u8> = memory.into_iter().map(AtomicU8::into_inner).collect();
                assert_eq!(memory[start..start + len], bytes[..len]);
                assert!(memory[..start].iter().chain(&memory[start + len..]).all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    fn what_races_is_old_or_new() {
        const LEN: usize = 10_007;
        let memory = atomic(&[0x11; LEN]);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let values = [[0x11; LEN], [0xee; LEN]];
                for value in values.iter().cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                    write(value, &memory);
                }
            });
            for _ in 0..200 {
                let copy = Buffer::copy_of_racing(&memory).unwrap();
                assert!(copy.bytes().iter().all(|byte| [0x11, 0xee].contains(byte)));
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
