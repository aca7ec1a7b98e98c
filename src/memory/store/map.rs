//! Read-only maps of files, in large pages where the system has them.

use std::fs::File;
use std::io;
use std::ops::Range;

/// A file that is mapped read-only. Nobody may shorten it: a page beyond its end cannot be read, which ends the process.
pub struct Map(inner::Map);

// SAFETY: nobody writes the bytes: they may be read on any thread.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `len` bytes of `file`.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(file: &File, len: usize) -> io::Result<Map> {
        inner::Map::new(file, len).map(Map)
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// Whether the byte at `at` is in the system's cache; yes where nobody can tell.
    pub fn is_cached(&self, at: usize) -> bool {
        self.0.is_cached(at)
    }

    /// Reads the bytes in `range` into the system's cache, where it can be asked for.
    pub fn read(&self, range: Range<usize>) {
        self.0.read(range);
    }

    /// Tells the system that the pages with the bytes in `range` are not needed now: they no longer count as memory of this
    /// process, and come from the page cache when they are read again.
    pub fn rest(&self, range: Range<usize>) {
        self.0.rest(range);
    }
}

#[cfg(target_os = "linux")]
mod inner {
    use std::fs::File;
    use std::io;
    use std::ops::Range;
    use std::os::fd::AsRawFd;
    use std::ptr::null_mut;

    /// Bytes of a large page. Where the system's are larger, only speed is lost.
    const LARGE_PAGE: usize = 2 << 20;

    pub struct Map {
        data: *mut libc::c_void,
        len: usize,
    }

    impl Map {
        pub fn new(file: &File, len: usize) -> io::Result<Map> {
            if len == 0 {
                return Ok(Map { data: null_mut(), len });
            }
            let room = len.checked_add(LARGE_PAGE).ok_or(io::ErrorKind::InvalidInput)?;
            let mapped = |data: *mut libc::c_void| match data {
                libc::MAP_FAILED => Err(io::Error::last_os_error()),
                data => Ok(data),
            };
            let (nobody, mine) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, libc::MAP_PRIVATE);
            // SAFETY: new addresses, which nobody uses yet.
            let start = mapped(unsafe { libc::mmap(null_mut(), room, libc::PROT_NONE, nobody, -1, 0) })?;
            // Where the file system keeps large pages in its cache, they are mapped as such only at their multiples.
            let data = start.wrapping_byte_add(start.addr().next_multiple_of(LARGE_PAGE) - start.addr());
            let fixed = mine | libc::MAP_FIXED;
            // SAFETY: these addresses were just reserved, and are unused.
            let done = mapped(unsafe { libc::mmap(data, len, libc::PROT_READ, fixed, file.as_raw_fd(), 0) });
            let end = (data.addr() + len).next_multiple_of(page_size());
            let after = start.addr() + room.next_multiple_of(page_size()) - end;
            // SAFETY: what is before and after the file was reserved above, and is unused.
            unsafe {
                if done.is_err() {
                    libc::munmap(start, room);
                } else {
                    if data != start {
                        libc::munmap(start, data.addr() - start.addr());
                    }
                    if after > 0 {
                        libc::munmap(data.with_addr(end), after);
                    }
                    // A cold file is then read into large pages. Systems that cannot ignore it.
                    libc::madvise(data, len, libc::MADV_HUGEPAGE);
                }
            }
            done.map(|data| Map { data, len })
        }

        pub fn bytes(&self) -> &[u8] {
            if self.len == 0 {
                return &[];
            }
            // SAFETY: `len` bytes are mapped for as long as `self` lives, and nobody writes them: the file belongs to
            // this user or the administrator, and is only ever replaced.
            unsafe { std::slice::from_raw_parts(self.data.cast(), self.len) }
        }

        pub fn is_cached(&self, at: usize) -> bool {
            assert!(at < self.len);
            let mut page = 0u8;
            let address = self.data.wrapping_byte_add(at / page_size() * page_size());
            // SAFETY: the page is mapped, and `page` has room for the answer about it.
            let answers = unsafe { libc::mincore(address, 1, &mut page) } == 0;
            !answers || page & 1 == 1
        }

        pub fn read(&self, range: Range<usize>) {
            assert!(range.start <= range.end && range.end <= self.len);
            let first = range.start / page_size() * page_size();
            // SAFETY: these pages are mapped. Systems that do not know the advice ignore it.
            unsafe { libc::madvise(self.data.byte_add(first), range.end - first, libc::MADV_POPULATE_READ) };
        }

        pub fn rest(&self, range: Range<usize>) {
            assert!(range.start <= range.end && range.end <= self.len);
            let first = range.start.next_multiple_of(page_size());
            let end = if range.end == self.len { range.end } else { range.end / page_size() * page_size() };
            if first < end {
                // SAFETY: the map is never written: every dropped page reads the same again from the file.
                unsafe { libc::madvise(self.data.byte_add(first), end - first, libc::MADV_DONTNEED) };
            }
        }
    }

    impl Drop for Map {
        fn drop(&mut self) {
            if self.len > 0 {
                // SAFETY: nobody refers to these bytes any more.
                unsafe { libc::munmap(self.data, self.len) };
            }
        }
    }

    fn page_size() -> usize {
        // SAFETY: this only asks for a number.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
    }
}

#[cfg(not(target_os = "linux"))]
mod inner {
    use memmap2::{Mmap, MmapOptions};
    use std::fs::File;
    use std::io;
    use std::ops::Range;

    pub struct Map(Mmap);

    impl Map {
        pub fn new(file: &File, len: usize) -> io::Result<Map> {
            // SAFETY: nobody writes the file: it belongs to this user or the administrator, and is only ever replaced.
            unsafe { MmapOptions::new().len(len).map_copy_read_only(file) }.map(Map)
        }

        pub fn bytes(&self) -> &[u8] {
            &self.0
        }

        pub fn is_cached(&self, _: usize) -> bool {
            true
        }

        pub fn read(&self, _: Range<usize>) {}

        pub fn rest(&self, _range: Range<usize>) {
            #[cfg(unix)]
            {
                // SAFETY: the map is never written: every dropped page reads the same again from the file.
                let advised = unsafe {
                    self.0.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, _range.start, _range.len())
                };
                // Only advice: a system may keep the pages.
                drop(advised);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TemporaryFile;

    #[test]
    fn maps_have_the_bytes_of_the_file() {
        for len in [0, 1, 4096, 4097, (2 << 20) - 1, (5 << 20) + 3] {
            let bytes: Vec<u8> = (0..len).map(|at| (at * 31 % 251) as u8).collect();
            let file = TemporaryFile::new("map", &bytes);
            let map = Map::new(&File::open(&file.0).unwrap(), len).unwrap();
            assert!(map.bytes() == bytes, "{len}");
            map.read(len / 2..len);
            assert!(len == 0 || map.is_cached(len - 1));
            map.rest(len / 3..len);
            map.rest(0..len);
            assert!(map.bytes() == bytes, "{len} again");
        }
    }
}
