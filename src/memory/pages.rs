//! Large pages of the system, shared by many buffers.

use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};
#[cfg(target_env = "gnu")]
use std::{hint::black_box, sync::Once};

use super::ALIGNMENT;

/// Bytes of a large page. Where the system's are larger, only speed is lost.
const LARGE_PAGE: usize = 2 << 20;

/// The largest small pages of any system; other systems have 4 or 16 KiB.
const MAX_SMALL_PAGE: usize = 64 << 10;

/// Bytes mapped at once for many buffers. This reserves addresses: only touched pages take memory.
const SHARED: usize = 32 << 20;

/// Size in bytes from which a buffer has a mapping of its own: the end that is in small pages is then a small part of
/// it.
const MIN_ALONE: usize = 8 << 20;

/// Bytes from which glibc's malloc takes memory from the system, and returns it when it is freed, until it has seen larger
/// blocks being freed.
const MIN_MAPPED: usize = 128 << 10;

/// The largest block that glibc's malloc learns from: `DEFAULT_MMAP_THRESHOLD_MAX` less its header and a page.
#[cfg(target_env = "gnu")]
const LARGEST_LEARNED: usize = (32 << 20) - (8 << 10);

/// Has glibc's malloc keep up to 64 MiB of freed memory at the end of its heap, from the first call on. JavaScript frees
/// results in batches: where malloc returns these to the system, each page of later results is mapped and cleared anew, which
/// takes several times as long as writing it. Malloc keeps twice the largest block that it has mapped and that was freed; this
/// one takes no memory, as nobody touches it. What the environment says (`MALLOC_TRIM_THRESHOLD_`, tunables) still holds.
#[cfg(target_env = "gnu")]
fn keep_freed_memory() {
    static LEARNED: Once = Once::new();
    // SAFETY: a block that was just allocated, or null, is freed once.
    LEARNED.call_once(|| unsafe { libc::free(black_box(libc::malloc(LARGEST_LEARNED))) });
}

/// Other allocators have rules of their own.
#[cfg(not(target_env = "gnu"))]
fn keep_freed_memory() {}

/// Where the next buffer goes.
struct Free {
    /// Gone with the last buffer in it.
    pages: Weak<MmapRaw>,
    /// Offset in bytes from the start of the pages.
    next: usize,
}

static FREE: Mutex<Free> = Mutex::new(Free { pages: Weak::new(), next: 0 });

/// Bytes in large pages. Small buffers are adjacent, in the order of allocation, which puts them in large pages as
/// well. Dropping one returns its memory to the system, except for pages shared with neighbors.
pub struct LargePages {
    pages: Arc<MmapRaw>,
    start: usize,
    len: usize,
}

impl LargePages {
    /// `len` bytes, all zero, aligned to [`ALIGNMENT`].
    ///
    /// # Errors
    /// If the system refuses the addresses.
    pub fn new(len: usize) -> io::Result<LargePages> {
        if len >= MIN_ALONE {
            let (pages, start) = map(len, len / LARGE_PAGE * LARGE_PAGE)?;
            return Ok(LargePages { pages, start, len });
        }
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = |pages: &Arc<MmapRaw>| pages.len() - free.next >= len;
        let (pages, start) = match free.pages.upgrade().filter(has_room) {
            Some(pages) => (pages, free.next),
            None => map(SHARED, SHARED)?,
        };
        let next = (start + len).next_multiple_of(ALIGNMENT).min(pages.len());
        *free = Free { pages: Arc::downgrade(&pages), next };
        Ok(LargePages { pages, start, len })
    }

    /// The first byte.
    pub fn data(&self) -> NonNull<u8> {
        // SAFETY: a mapping is not null, and it is longer than `start`.
        unsafe { NonNull::new_unchecked(self.pages.as_mut_ptr().add(self.start)) }
    }
}

/// Maps `len` bytes, the first `large` of them in large pages. Returns the mapping and the offset of the first byte in
/// it.
fn map(len: usize, large: usize) -> io::Result<(Arc<MmapRaw>, usize)> {
    let pages: MmapRaw = MmapOptions::new().len(len.saturating_add(LARGE_PAGE)).map_anon()?.into();
    let start = pages.as_ptr().align_offset(LARGE_PAGE);
    // A system without large pages refuses the advice and provides small ones, which work as well.
    let _ = pages.advise_range(Advice::HugePage, start, large);
    Ok((Arc::new(pages), start))
}

/// Asks the system to provide large pages for the `len` bytes at `start`, which somebody else has allocated, as far as nobody
/// has touched them yet: clearing one takes a fifth of the time of the small ones. The system ignores what it cannot do.
pub fn expect_writes(start: *const u8, len: usize) {
    if len >= MIN_MAPPED {
        keep_freed_memory();
    }
    if len >= LARGE_PAGE {
        let first = start.addr() / MAX_SMALL_PAGE * MAX_SMALL_PAGE;
        let end = (start.addr() + len).next_multiple_of(MAX_SMALL_PAGE);
        // SAFETY: the advice changes the contents of no memory, whoever else has some in these pages.
        unsafe { libc::madvise(start.with_addr(first).cast_mut().cast(), end - first, libc::MADV_HUGEPAGE) };
    }
}

/// The part of the `len` bytes at `address` that consists of whole small pages, whatever their size.
fn whole_pages(address: usize, len: usize) -> Range<usize> {
    let start = address.next_multiple_of(MAX_SMALL_PAGE) - address;
    let end = (address + len) / MAX_SMALL_PAGE * MAX_SMALL_PAGE;
    start..end.saturating_sub(address)
}

impl Drop for LargePages {
    fn drop(&mut self) {
        let own = whole_pages(self.data().addr().get(), self.len);
        if !own.is_empty() {
            let from = self.start + own.start;
            // SAFETY: these pages belong to this buffer alone, and nobody reads its bytes any more. If the system
            // refuses, the pages are returned with the neighbors.
            let _ = unsafe { self.pages.unchecked_advise_range(UncheckedAdvice::DontNeed, from, own.len()) };
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

    /// Whether every byte of a buffer is `byte`.
    fn holds(pages: &LargePages, byte: u8) -> bool {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(pages.data().as_ptr(), pages.len) }.iter().all(|&at| at == byte)
    }

    #[test]
    fn neighbors_keep_their_bytes_and_new_ones_are_zero() {
        let lens = [100, 70 << 10, 3 << 20, MIN_ALONE - 1, MIN_ALONE + 1, 1 << 20, 64];
        let mut kept: Vec<(LargePages, u8)> = Vec::new();
        for round in 0..3 {
            for (index, &len) in lens.iter().enumerate() {
                let pages = LargePages::new(len).unwrap();
                assert!(pages.data().addr().get().is_multiple_of(ALIGNMENT) && holds(&pages, 0));
                let byte = (1 + round * lens.len() + index) as u8;
                fill(&pages, byte);
                kept.push((pages, byte));
            }
            // Drops every second buffer; the others keep their bytes.
            let mut index = 0;
            kept.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            assert!(kept.iter().all(|(pages, byte)| holds(pages, *byte)));
        }
    }

    #[test]
    fn pages_that_neighbors_share_are_not_whole() {
        for (address, len, whole) in [
            (0, MAX_SMALL_PAGE, 0..MAX_SMALL_PAGE),
            (64, MAX_SMALL_PAGE, 0..0),
            (4096, 3 * MAX_SMALL_PAGE, MAX_SMALL_PAGE - 4096..3 * MAX_SMALL_PAGE - 4096),
            (2 * MAX_SMALL_PAGE - 64, 100, 0..0),
        ] {
            let found = whole_pages(address, len);
            assert!(found == whole || found.is_empty() && whole.is_empty(), "{found:?} of {len} at {address}");
        }
    }
}
