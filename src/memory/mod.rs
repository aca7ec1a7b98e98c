//! Memory for tensors: aligned, zeroed buffers that return an error instead of aborting when memory runs out;
//! memory-mapped files; buffers deduplicated by content; and parts of a slice that several threads write.

#[cfg(test)]
pub mod counting;
#[cfg(all(test, target_os = "linux"))]
pub mod guarded;
mod last_use;
mod machine;
mod mapped;
#[cfg(target_os = "linux")]
mod pages;
mod parts;
mod racing;
mod rows;
mod shared;
pub mod store;

pub use last_use::{KEPT_BYTES, LastUse};
pub use machine::machine_bytes;
pub use mapped::{Backing, Mapped, MappedFile, unreadable};
#[cfg(target_os = "linux")]
pub use pages::expect_writes;
pub use parts::{ColumnBlock, SharedMut};
pub use racing::{read, write};
pub use rows::{Appended, Room, Rows, dense_of_rows, with_room};
pub use shared::{MIN_SHARED_BYTES, WeakMap, share};

use crate::dtype::{DataType, Element};
use crate::error::{Error, ErrorKind, Result, amount};
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Alignment of every buffer in bytes: a cache line, and the widest vector.
pub const ALIGNMENT: usize = 64;

/// Size in bytes from which memory that is read once, in order, is in large pages: reading these was 2 to 32 % faster
/// than small ones on a busy Sapphire Rapids, and half as fast again on Zen 4.
#[cfg(target_os = "linux")]
const MIN_STREAMED_BYTES: usize = 64 << 10;

/// An aligned block of bytes.
pub struct Buffer {
    /// The first aligned byte, in a block that is [`ALIGNMENT`] bytes longer.
    data: NonNull<u8>,
    block: Block,
    len: usize,
}

/// The memory of a buffer.
enum Block {
    /// From the allocator. It gets no larger alignment than its own: it would then clear the memory itself, and touch
    /// it by that.
    Allocated(NonNull<u8>),
    /// Pages of the system.
    #[cfg(target_os = "linux")]
    Pages { _pages: pages::LargePages },
    /// Somebody else's.
    Lent,
    /// In a file that is mapped: read-only.
    Mapped(#[expect(dead_code, reason = "it keeps the bytes mapped")] Arc<store::Map>),
    /// Pages of a test, with an unreadable one after them.
    #[cfg(all(test, target_os = "linux"))]
    Guarded { _pages: guarded::GuardedPages },
}

// SAFETY: a `Buffer` owns its bytes alone, like a `Vec<u8>`.
unsafe impl Send for Buffer {}
// SAFETY: as above; shared access is read-only.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `len` bytes, all zero. The system may provide the pages only when they are touched.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out.
    pub fn zeroed(len: usize) -> Result<Buffer> {
        // SAFETY: `allocate` only passes layouts with a nonzero size; zeros are initialized bytes.
        Buffer::allocate(len, |layout| unsafe { alloc_zeroed(layout) })
    }

    /// `len` bytes from `allocator`, which gets a layout with a nonzero size. The caller initializes them.
    fn allocate(len: usize, allocator: impl FnOnce(Layout) -> *mut u8) -> Result<Buffer> {
        if len == 0 {
            return Ok(Buffer::default());
        }
        let refused = |why: String| refused(len, &why);
        let layout = block_layout(len).ok_or_else(|| refused("more than can be addressed".to_string()))?;
        reserve(len).map_err(|used| refused(too_much(used)))?;
        #[cfg(all(test, target_os = "linux"))]
        if let Some(pages) = guarded::GuardedPages::where_asked(len) {
            return Ok(Buffer { data: pages.data(), block: Block::Guarded { _pages: pages }, len });
        }
        let Some(block) = NonNull::new(allocator(layout)) else {
            IN_USE.fetch_sub(len, Ordering::Relaxed);
            return Err(refused("refused by the system".to_string()));
        };
        let padding = block.as_ptr().align_offset(ALIGNMENT);
        // SAFETY: `padding` is below `ALIGNMENT`, and the block is `ALIGNMENT` bytes longer than `len`.
        Ok(Buffer { data: unsafe { block.add(padding) }, block: Block::Allocated(block), len })
    }

    /// `len` bytes, all zero, for data that is written once and streamed often: in large pages, which it shares with
    /// other buffers.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out.
    pub fn streamed(len: usize) -> Result<Buffer> {
        #[cfg(target_os = "linux")]
        if len >= MIN_STREAMED_BYTES {
            #[cfg(test)]
            if guarded::is_on() {
                return Buffer::zeroed(len);
            }
            return Buffer::in_large_pages(len);
        }
        Buffer::zeroed(len)
    }

    #[cfg(target_os = "linux")]
    fn in_large_pages(len: usize) -> Result<Buffer> {
        let refused = |why: String| refused(len, &why);
        reserve(len).map_err(|used| refused(too_much(used)))?;
        let pages = pages::LargePages::new(len).map_err(|error| {
            IN_USE.fetch_sub(len, Ordering::Relaxed);
            refused(format!("refused by the system: {error}"))
        })?;
        Ok(Buffer { data: pages.data(), block: Block::Pages { _pages: pages }, len })
    }

    /// A copy of `bytes`.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out.
    pub fn copy_of(bytes: &[u8]) -> Result<Buffer> {
        // SAFETY: the target is new memory of the same length, and the copy initializes all of it.
        unsafe {
            Buffer::filled(bytes.len(), |target| {
                target.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
            })
        }
    }

    /// The bytes themselves, which the caller keeps; `None` if they are not aligned for elements of every type.
    ///
    /// # Safety
    /// The bytes must outlive the buffer, and nobody may write them meanwhile, also not through the buffer: the caller
    /// keeps a second owner of its `Arc` while others have it.
    pub unsafe fn lent(bytes: *const [u8]) -> Option<Buffer> {
        let data = NonNull::new(bytes.cast_mut().cast::<u8>()).filter(|data| data.cast::<u64>().is_aligned())?;
        Some(Buffer { data, block: Block::Lent, len: bytes.len() })
    }

    /// The bytes themselves, which the caller keeps, to be written; `None` if they are not aligned for elements of every
    /// type.
    ///
    /// # Safety
    /// The bytes must outlive the buffer, and nobody else may use them meanwhile.
    pub unsafe fn lent_mut(bytes: *mut [MaybeUninit<u8>]) -> Option<Buffer> {
        // SAFETY: the caller's. Bytes of unknown contents are read by nobody before they are written.
        unsafe { Buffer::lent(bytes as *const [u8]) }
    }

    /// The bytes in `range` of `map`, which start at a multiple of [`ALIGNMENT`]: they can only be read.
    ///
    /// # Panics
    /// If they do not, or there are fewer.
    fn mapped(map: Arc<store::Map>, range: Range<usize>) -> Buffer {
        let bytes = &map.bytes()[range];
        let data = NonNull::from(bytes).cast::<u8>();
        assert!(data.cast::<Aligned>().is_aligned());
        let len = bytes.len();
        Buffer { data, block: Block::Mapped(map), len }
    }

    /// `len` bytes written by `fill`.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out.
    ///
    /// # Safety
    /// `fill` must initialize its whole argument of `len` bytes.
    unsafe fn filled(len: usize, fill: impl FnOnce(&mut [MaybeUninit<u8>])) -> Result<Buffer> {
        // SAFETY: `allocate` only passes layouts with a nonzero size.
        let buffer = Buffer::allocate(len, |layout| unsafe { alloc(layout) })?;
        // SAFETY: the new block has room for `len` bytes, which need not be initialized, and nobody else has it.
        fill(unsafe { std::slice::from_raw_parts_mut(buffer.as_ptr().cast(), len) });
        Ok(buffer)
    }

    /// Whether somebody else keeps the bytes.
    pub fn is_lent(&self) -> bool {
        matches!(self.block, Block::Lent)
    }

    /// Whether the bytes are in a file that is mapped.
    pub fn is_mapped(&self) -> bool {
        matches!(self.block, Block::Mapped(_))
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `data` points to `len` initialized bytes that live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }

    /// All bytes, mutable.
    ///
    /// # Panics
    /// If they are in a file that is mapped.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(!self.is_mapped(), "weights of a store can only be read");
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }

    /// Start of the block, aligned to [`ALIGNMENT`].
    pub fn as_ptr(&self) -> *mut u8 {
        self.data.as_ptr()
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

#[repr(align(64))]
struct Aligned;

/// The error for a lack of memory for `len` bytes.
fn refused(len: usize, why: &str) -> Error {
    Error::new(ErrorKind::Unknown, format!("no memory for {}: {why}", amount(len, "byte")))
}

fn too_much(used: usize) -> String {
    format!("{} in use, of the {} that this machine or container has", amount(used, "byte"), machine_bytes())
}

/// Checks that the machine has room for `len` bytes in addition to all buffers: for large memory outside of a
/// [`Buffer`], which would kill the process if it ran out.
///
/// # Errors
/// An `UnknownError` if there is no room.
pub fn check_room(len: usize) -> Result<()> {
    let used = IN_USE.load(Ordering::Relaxed);
    match used.checked_add(len) {
        Some(sum) if sum <= machine_bytes() => Ok(()),
        _ => Err(refused(len, &too_much(used))),
    }
}

/// The layout of a block with room for `len` aligned bytes, if it can be addressed.
fn block_layout(len: usize) -> Option<Layout> {
    Layout::from_size_align(len.checked_add(ALIGNMENT)?, 1).ok()
}

/// Bytes of all buffers of the process.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Counts `len` bytes as used.
///
/// Systems that overcommit memory kill a process that touches the excess, which cannot be caught: sizes that the
/// machine can never hold are therefore refused here.
///
/// # Errors
/// The bytes in use, if `len` more would exceed the memory of the machine.
fn reserve(len: usize) -> Result<(), usize> {
    let fits = |used: usize| used.checked_add(len).filter(|&sum| sum <= machine_bytes());
    IN_USE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).map(drop)
}

impl Default for Buffer {
    /// No bytes.
    fn default() -> Buffer {
        let data = NonNull::<Aligned>::dangling().cast();
        Buffer { data, block: Block::Allocated(data), len: 0 }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.len > 0 && !self.is_lent() && !self.is_mapped() {
            IN_USE.fetch_sub(self.len, Ordering::Relaxed);
            if let Block::Allocated(block) = self.block {
                let layout = block_layout(self.len).expect("it was allocated with this layout");
                // SAFETY: `block` was allocated with exactly this layout.
                unsafe { dealloc(block.as_ptr(), layout) }
            }
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

/// Other systems are not asked for large pages.
#[cfg(not(target_os = "linux"))]
pub fn expect_writes(_: *const u8, _: usize) {}

/// Views bytes as elements. `bytes` must be aligned for `T` and a whole number of elements long.
///
/// # Panics
/// If they are not.
pub fn elements<T: Element>(bytes: &[u8]) -> &[T] {
    check_view::<T>(bytes.as_ptr(), bytes.len());
    // SAFETY: length and alignment were checked; every bit pattern is a value of each `Element` type.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
}

/// Views bytes as mutable elements. `bytes` must be aligned for `T` and a whole number of elements long.
///
/// # Panics
/// If they are not.
pub fn elements_mut<T: Element>(bytes: &mut [u8]) -> &mut [T] {
    check_view::<T>(bytes.as_ptr(), bytes.len());
    // SAFETY: as in `elements`, and `bytes` is borrowed mutably.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>()) }
}

/// The bytes of elements, mutable.
pub fn bytes_of_mut<T: Element>(elements: &mut [T]) -> &mut [u8] {
    let len = size_of_val(elements);
    // SAFETY: these are the bytes of a mutably borrowed slice; no `Element` type has padding, and every bit pattern is
    // a value of each.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), len) }
}

/// The bytes of elements.
pub fn bytes_of<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: these are the bytes of a borrowed slice; no `Element` type has padding.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

fn check_view<T: Element>(start: *const u8, len: usize) {
    let size = DataType::size(T::DATA_TYPE);
    assert!(size == size_of::<T>() && len.is_multiple_of(size) && start.addr().is_multiple_of(align_of::<T>()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_zeroed() {
        let mut buffer = Buffer::zeroed(100).unwrap();
        assert!(buffer.as_ptr().addr().is_multiple_of(ALIGNMENT) && buffer.bytes().iter().all(|&b| b == 0));
        elements_mut::<f32>(buffer.bytes_mut())[24] = 1.0;
        assert_eq!(elements::<f32>(buffer.bytes())[24], 1.0);
        assert_eq!(bytes_of(elements::<f32>(buffer.bytes())), buffer.bytes());
        assert_eq!(Buffer::copy_of(&[1, 2, 3]).unwrap().bytes(), [1, 2, 3]);
        assert!(Buffer::zeroed(0).unwrap().is_empty());
    }

    #[test]
    fn streamed_buffers_are_aligned_and_zeroed() {
        for len in [0, 100, (4 << 20) + 100] {
            let mut buffer = Buffer::streamed(len).unwrap();
            assert!(buffer.as_ptr().addr().is_multiple_of(ALIGNMENT) && buffer.len() == len);
            assert!(buffer.bytes().iter().all(|&byte| byte == 0));
            buffer.bytes_mut().fill(7);
            assert!(buffer.bytes().iter().all(|&byte| byte == 7));
        }
        assert_eq!(Buffer::streamed(usize::MAX).unwrap_err().kind, ErrorKind::Unknown);
    }

    #[test]
    fn too_much_memory_is_an_error() {
        for len in [isize::MAX as usize - 64, usize::MAX] {
            assert_eq!(Buffer::zeroed(len).unwrap_err().kind, ErrorKind::Unknown);
            #[cfg(target_os = "linux")]
            assert_eq!(check_room(len).unwrap_err().kind, ErrorKind::Unknown);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_sum_of_all_buffers_is_limited_by_the_machine() {
        let half = Buffer::zeroed(machine_bytes() / 2).unwrap();
        let error = Buffer::zeroed(machine_bytes() / 2 + 2).unwrap_err();
        assert!(error.message.contains(" in use, of the "), "{error}");
        drop(half);
    }
}
