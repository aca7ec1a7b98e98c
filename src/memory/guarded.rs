//! Memory for tests, followed by an unreadable page: a kernel that reads or writes past the end of an operand crashes
//! instead of using whatever is there.

use std::cell::Cell;
use std::ptr::NonNull;

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
}

/// Until it is dropped, buffers that this thread creates are guarded. They end exactly at the unreadable page, so their
/// starts are only aligned to the largest power of two that divides their length.
pub struct Guard {
    before: bool,
}

/// Guards the buffers that this thread creates from now on.
#[must_use]
pub fn guard() -> Guard {
    Guard { before: IS_ON.replace(true) }
}

/// Whether this thread guards the buffers that it creates.
pub fn is_on() -> bool {
    IS_ON.get()
}

impl Drop for Guard {
    fn drop(&mut self) {
        IS_ON.set(self.before);
    }
}

/// Some bytes with an unreadable page after them.
pub struct GuardedPages {
    start: NonNull<u8>,
    /// Bytes of the pages, including the unreadable one.
    mapped: usize,
    /// Offset of the first of the bytes.
    at: usize,
}

impl GuardedPages {
    /// `len` bytes, all zero, if this thread [guards](guard) its buffers.
    pub fn where_asked(len: usize) -> Option<GuardedPages> {
        if !is_on() {
            return None;
        }
        // SAFETY: the calls ask for a number, map new pages, and protect the last of them, which nothing uses.
        unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let mapped = len.next_multiple_of(page) + page;
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let pages = libc::mmap(std::ptr::null_mut(), mapped, protection, flags, -1, 0);
            assert!(pages != libc::MAP_FAILED, "no pages for {len} bytes");
            let last = pages.add(mapped - page);
            assert!(libc::mprotect(last, page, libc::PROT_NONE) == 0, "the last page stays readable");
            Some(GuardedPages { start: NonNull::new(pages.cast())?, mapped, at: mapped - page - len })
        }
    }

    /// The first byte.
    pub fn data(&self) -> NonNull<u8> {
        // SAFETY: the pages are longer.
        unsafe { self.start.add(self.at) }
    }
}

impl Drop for GuardedPages {
    fn drop(&mut self) {
        // SAFETY: the pages are this value's, and nobody uses them any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::Buffer;
    use super::*;

    /// Whether the system copies the byte after the end of `buffer`: it refuses to read a page that is not readable.
    fn can_read_beyond(buffer: &Buffer) -> bool {
        let mut ends = [0; 2];
        // SAFETY: the pipe is closed below; the system checks the address itself, and writes one byte at most.
        unsafe {
            assert!(libc::pipe(ends.as_mut_ptr()) == 0);
            let written = libc::write(ends[1], buffer.as_ptr().wrapping_add(buffer.len()).cast(), 1);
            assert!(ends.map(|end| libc::close(end)) == [0, 0]);
            written == 1
        }
    }

    #[test]
    fn the_byte_after_a_guarded_buffer_is_unreadable() {
        for len in [1, 4, 63, 4096, 5000, 1 << 20] {
            let guard = guard();
            let mut buffer = Buffer::zeroed(len).unwrap();
            let streamed = Buffer::streamed(len).unwrap();
            drop(guard);
            assert!(!can_read_beyond(&buffer) && !can_read_beyond(&streamed), "{len} bytes");
            buffer.bytes_mut().fill(7);
            assert!(buffer.bytes().iter().all(|&byte| byte == 7));
            assert!(can_read_beyond(&Buffer::zeroed(len).unwrap()));
        }
    }
}
