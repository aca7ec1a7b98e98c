//! Large pages of the system, which many buffers share.

use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::ALIGNMENT;

/// Bytes of a large page. Where the system's are larger, only their speed is lost.
const LARGE_PAGE: usize = 2 << 20;

/// Bytes that are reserved at once, for many buffers. They are addresses: only what is touched is memory.
const RESERVED: usize = 32 << 20;

/// The page that a system has at least. Where its pages are larger, it refuses to take back parts of them.
const SMALL_PAGE: usize = 4 << 10;

/// Where the next buffer may begin.
struct Free {
    /// Gone with the last buffer in it.
    pages: Weak<MmapRaw>,
    /// Bytes from the start of the pages.
    next: usize,
}

static FREE: Mutex<Free> = Mutex::new(Free { pages: Weak::new(), next: 0 });

/// Bytes in large pages, which are neighbours of those that were asked for before: large pages hold the small ones, too, and only
/// the last one is not full. The memory returns to the system when this is dropped.
pub struct LargePages {
    pages: Arc<MmapRaw>,
    start: usize,
    len: usize,
}

impl LargePages {
    /// `len` bytes, all zero, aligned to [`ALIGNMENT`].
    ///
    /// # Errors
    /// When the system refuses the addresses.
    pub fn new(len: usize) -> io::Result<LargePages> {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let left = |pages: &Arc<MmapRaw>| pages.len().saturating_sub(free.next);
        let (pages, start) = match free.pages.upgrade().filter(|pages| left(pages) >= len) {
            Some(pages) => (pages, free.next),
            None => {
                let pages = reserve(len.max(RESERVED))?;
                let start = pages.as_ptr().align_offset(LARGE_PAGE);
                (pages, start)
            }
        };
        *free = Free { pages: Arc::downgrade(&pages), next: (start + len).next_multiple_of(ALIGNMENT) };
        Ok(LargePages { pages, start, len })
    }

    /// The first byte.
    pub fn data(&self) -> NonNull<u8> {
        // SAFETY: a mapping is not null, and it is longer than `start`.
        unsafe { NonNull::new_unchecked(self.pages.as_mut_ptr().add(self.start)) }
    }
}

/// Addresses of at least `len` bytes from a multiple of [`LARGE_PAGE`] on.
fn reserve(len: usize) -> io::Result<Arc<MmapRaw>> {
    let pages: MmapRaw = MmapOptions::new().len(len.saturating_add(LARGE_PAGE)).map_anon()?.into();
    // A system without large pages says no and gives small ones, which do as well.
    let _ = pages.advise(Advice::HugePage);
    Ok(Arc::new(pages))
}

impl Drop for LargePages {
    fn drop(&mut self) {
        let start = self.start.next_multiple_of(SMALL_PAGE);
        let end = (self.start + self.len) / SMALL_PAGE * SMALL_PAGE;
        if start < end {
            // SAFETY: these pages belong to this buffer alone, whose bytes nobody reads any more. Where the system refuses, they
            // return with the neighbours.
            let _ = unsafe { self.pages.unchecked_advise_range(UncheckedAdvice::DontNeed, start, end - start) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills a buffer with a byte.
    fn fill(pages: &LargePages, byte: u8) {
        // SAFETY: the bytes are this buffer's.
        unsafe { pages.data().write_bytes(byte, pages.len) };
    }

    /// Whether a buffer holds nothing else.
    fn holds(pages: &LargePages, byte: u8) -> bool {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(pages.data().as_ptr(), pages.len) }.iter().all(|&at| at == byte)
    }

    #[test]
    fn neighbours_keep_their_bytes_and_new_ones_are_zero() {
        let lens = [100, 70 << 10, 3 << 20, RESERVED - 1, RESERVED + 1, 1 << 20, 64];
        let mut kept: Vec<(LargePages, u8)> = Vec::new();
        for round in 0..3 {
            for (index, &len) in lens.iter().enumerate() {
                let pages = LargePages::new(len).unwrap();
                assert!(pages.data().addr().get().is_multiple_of(ALIGNMENT) && holds(&pages, 0));
                let byte = (1 + round * lens.len() + index) as u8;
                fill(&pages, byte);
                kept.push((pages, byte));
            }
            // Every second one goes, and the others are as they were.
            let mut index = 0;
            kept.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            assert!(kept.iter().all(|(pages, byte)| holds(pages, *byte)));
        }
    }
}
