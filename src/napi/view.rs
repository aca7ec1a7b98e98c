//! Views of JavaScript's memory.

use crate::error::{Error, ErrorKind, Result, amount};
use crate::memory::{Buffer, expect_writes, write};
use napi::ValueType;
use napi::bindgen_prelude::{FromNapiValue, TypeName, Uint8Array, ValidateNapiValue};
use napi::sys;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut, slice_from_raw_parts_mut};
use std::sync::atomic::AtomicU8;

/// A `Uint8Array` argument, valid during the call. Its memory may belong to a `SharedArrayBuffer`, which other threads
/// may write at any time: bytes are copied from and to it. Only those of other buffers are [lent](View::lend).
#[derive(Clone, Copy)]
pub struct View<'a> {
    env: sys::napi_env,
    value: sys::napi_value,
    _call: PhantomData<&'a ()>,
}

impl View<'_> {
    /// A copy of the bytes.
    ///
    /// # Errors
    /// A TypeError for anything but a `Uint8Array`, an UnknownError if memory runs out.
    pub fn copy(&self) -> Result<Buffer> {
        // SAFETY: no JavaScript runs until the copy is made.
        Buffer::copy_of_racing(unsafe { self.memory()? })
    }

    /// Number of bytes.
    ///
    /// # Errors
    /// A TypeError for anything but a `Uint8Array`.
    pub fn len(&self) -> Result<usize> {
        // SAFETY: the bytes are not used.
        unsafe { self.memory() }.map(|memory| memory.len())
    }

    /// Fills `buffer`, which must have the same length, with a copy of the bytes, and returns it.
    ///
    /// # Errors
    /// A TypeError for anything but a `Uint8Array` of the same length.
    pub fn copy_into(&self, mut buffer: Buffer) -> Result<Buffer> {
        // SAFETY: no JavaScript runs until the copy is made.
        let memory = unsafe { self.memory()? };
        if memory.len() != buffer.len() {
            let message = format!("the view has {}, expected {}", amount(memory.len(), "byte"), buffer.len());
            return Err(Error::new(ErrorKind::Type, message));
        }
        buffer.replace_by_racing(memory);
        Ok(buffer)
    }

    /// The bytes themselves, if they are aligned for elements of every type.
    ///
    /// # Errors
    /// A TypeError for anything but a `Uint8Array`.
    ///
    /// # Safety
    /// The bytes must not belong to a `SharedArrayBuffer`, and no JavaScript may run on this thread as long as the
    /// buffer exists.
    pub unsafe fn lend(&self) -> Result<Option<Buffer>> {
        // SAFETY: the caller's: neither this thread nor another one writes or frees the bytes.
        unsafe { self.memory().map(|memory| Buffer::lent(std::ptr::from_ref(memory) as *const [u8])) }
    }

    /// Replaces the bytes by `bytes`.
    ///
    /// # Errors
    /// A TypeError for anything but a `Uint8Array` of the same length.
    pub fn replace(&self, bytes: &[u8]) -> Result<()> {
        // SAFETY: no JavaScript runs until the bytes are stored.
        let memory = unsafe { self.memory()? };
        if memory.len() != bytes.len() {
            let message = format!("the view has {}, expected {}", amount(memory.len(), "byte"), bytes.len());
            return Err(Error::new(ErrorKind::Type, message));
        }
        expect_writes(memory.as_ptr().cast(), memory.len());
        write(bytes, memory);
        Ok(())
    }

    /// A reference that keeps the array, and with it the bytes, beyond the call.
    ///
    /// # Errors
    /// If the argument is not a `Uint8Array`.
    pub fn reference(&self) -> napi::Result<Uint8Array> {
        // SAFETY: the value lives as long as the call that it was passed to.
        unsafe { Uint8Array::from_napi_value(self.env, self.value) }
    }

    /// The bytes.
    ///
    /// # Safety
    /// No JavaScript may run on this thread while the bytes are used: it could free them.
    pub unsafe fn memory(&self) -> Result<&[AtomicU8]> {
        let (mut kind, mut len, mut start, mut buffer, mut offset) = (0, 0, null_mut(), null_mut(), 0);
        // SAFETY: the value lives as long as the call that it was passed to; the function fails for anything but a
        // typed array.
        let status = unsafe {
            sys::napi_get_typedarray_info(
                self.env,
                self.value,
                &mut kind,
                &mut len,
                &mut start,
                &mut buffer,
                &mut offset,
            )
        };
        if status != sys::Status::napi_ok || kind != sys::TypedarrayType::uint8_array {
            return Err(Error::new(ErrorKind::Type, "the argument is not a Uint8Array"));
        }
        // An empty view may have no address.
        let start = NonNull::new(start).unwrap_or(NonNull::dangling());
        // SAFETY: JavaScript's memory can be read and written, and exists until JavaScript runs again. Everyone else
        // who accesses it is a JavaScript thread, or this function on one, and accesses it atomically.
        Ok(unsafe { std::slice::from_raw_parts(start.cast().as_ptr(), len) })
    }
}

/// The buffer of a typed array; `None` for anything else.
pub fn buffer_of(env: sys::napi_env, array: sys::napi_value) -> Option<sys::napi_value> {
    let (mut kind, mut len, mut start, mut buffer, mut offset) = (0, 0, null_mut(), null_mut(), 0);
    // SAFETY: the value lives as long as the native frame that has it; the function fails for anything but a typed array.
    let status =
        unsafe { sys::napi_get_typedarray_info(env, array, &mut kind, &mut len, &mut start, &mut buffer, &mut offset) };
    (status == sys::Status::napi_ok).then_some(buffer)
}

/// The bytes of `buffer`, valid as long as no JavaScript runs; `None` if it is no ArrayBuffer.
pub fn bytes_of_buffer(env: sys::napi_env, buffer: sys::napi_value) -> Option<*mut [MaybeUninit<u8>]> {
    let (mut start, mut len) = (null_mut(), 0);
    // SAFETY: the value lives as long as the native frame that has it; the function fails for anything but an ArrayBuffer.
    let status = unsafe { sys::napi_get_arraybuffer_info(env, buffer, &mut start, &mut len) };
    (status == sys::Status::napi_ok && !start.is_null()).then(|| slice_from_raw_parts_mut(start.cast(), len))
}

impl TypeName for View<'_> {
    fn type_name() -> &'static str {
        "Uint8Array"
    }

    fn value_type() -> ValueType {
        ValueType::Object
    }
}

/// Any object converts to a view; accessing its bytes fails if it is not a `Uint8Array`.
impl ValidateNapiValue for View<'_> {}

impl FromNapiValue for View<'_> {
    unsafe fn from_napi_value(env: sys::napi_env, value: sys::napi_value) -> napi::Result<Self> {
        Ok(View { env, value, _call: PhantomData })
    }
}
