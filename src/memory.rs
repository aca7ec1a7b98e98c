//! Memory for the bytes of tensors: aligned, zeroed, and with an error instead of an abort when there is none left.

use crate::dtype::{DataType, Element};
use crate::error::{Error, ErrorKind, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ptr::NonNull;

/// Alignment of every buffer in bytes: a cache line, and the widest vector.
pub const ALIGNMENT: usize = 64;

/// An aligned block of bytes.
pub struct Buffer {
    data: NonNull<u8>,
    len: usize,
}

// SAFETY: a `Buffer` owns its bytes alone, like a `Vec<u8>`.
unsafe impl Send for Buffer {}
// SAFETY: as above; shared access is read-only.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `len` bytes, all zero. The system may hand out the pages only when they are touched.
    ///
    /// # Errors
    /// An `UnknownError` when the memory cannot be had.
    pub fn zeroed(len: usize) -> Result<Buffer> {
        if len == 0 {
            return Ok(Buffer { data: NonNull::<Aligned>::dangling().cast(), len });
        }
        let refused = || Error::new(ErrorKind::Unknown, format!("{len} bytes of memory could not be allocated"));
        let layout = Layout::from_size_align(len, ALIGNMENT).map_err(|_| refused())?;
        // SAFETY: the size of `layout` is not zero.
        let data = unsafe { alloc_zeroed(layout) };
        Ok(Buffer { data: NonNull::new(data).ok_or_else(refused)?, len })
    }

    /// A copy of `bytes`.
    ///
    /// # Errors
    /// An `UnknownError` when the memory cannot be had.
    pub fn copy_of(bytes: &[u8]) -> Result<Buffer> {
        let mut buffer = Buffer::zeroed(bytes.len())?;
        buffer.bytes_mut().copy_from_slice(bytes);
        Ok(buffer)
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
        // SAFETY: `data` points to `len` initialised bytes that live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }

    /// All bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }

    /// Start of the block, aligned to [`ALIGNMENT`].
    pub fn as_ptr(&self) -> *mut u8 {
        self.data.as_ptr()
    }
}

#[repr(align(64))]
struct Aligned;

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: `data` was allocated with exactly this layout.
            unsafe { dealloc(self.data.as_ptr(), Layout::from_size_align_unchecked(self.len, ALIGNMENT)) }
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

/// Views bytes as elements. `bytes` must be aligned for `T` and a whole number of elements long.
///
/// # Panics
/// If they are not.
pub fn elements<T: Element>(bytes: &[u8]) -> &[T] {
    check_view::<T>(bytes.as_ptr(), bytes.len());
    // SAFETY: length and alignment were checked; every bit pattern is a value of each `Element` type.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
}

/// Views bytes as elements that can be changed. `bytes` must be aligned for `T` and a whole number of elements long.
///
/// # Panics
/// If they are not.
pub fn elements_mut<T: Element>(bytes: &mut [u8]) -> &mut [T] {
    check_view::<T>(bytes.as_ptr(), bytes.len());
    // SAFETY: as in `elements`, and `bytes` is borrowed mutably.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>()) }
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
        assert_eq!(Buffer::copy_of(&[1, 2, 3]).unwrap().bytes(), [1, 2, 3]);
        assert!(Buffer::zeroed(0).unwrap().is_empty());
    }

    #[test]
    fn too_much_memory_is_an_error() {
        let error = Buffer::zeroed(isize::MAX as usize - 64).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unknown);
    }
}
