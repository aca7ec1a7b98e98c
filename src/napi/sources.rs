//! Sources of models, as JavaScript passes them: paths, and bytes.

use super::Result;
use super::account::Weight;
use super::completion::Environment;
use super::convert::{coded, from_napi, thrown};
use super::view::View;
use crate::error::{Code, Error};
use crate::memory::{Buffer, read};
use crate::onnx::file::{ExternalData, FileSource};
use bytes::Bytes;
use napi::bindgen_prelude::{Either, Uint8Array};
use napi_derive::napi;
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// A replacement for a file that a model refers to.
#[napi(object, object_to_js = false)]
pub struct ExternalFile<'a> {
    /// The name of the file in the model.
    pub location: String,
    /// The path of a file, or bytes.
    pub source: Either<String, View<'a>>,
}

/// A source as JavaScript has passed it.
enum PassedSource {
    Path(String),
    Copied(Buffer),
    Transferred(Transferred),
}

/// The source of a model, and replacements for the files that it refers to.
pub struct Sources {
    model: PassedSource,
    files: Vec<(String, PassedSource)>,
}

impl Sources {
    /// The sources, and the weight of their bytes. These are copied now, unless JavaScript `transfers` them: then,
    /// nobody may resize or detach their buffers any more.
    ///
    /// # Errors
    /// An UnknownError if memory runs out.
    pub fn new(
        environment: &Environment,
        model: Either<String, View>,
        files: Vec<ExternalFile>,
        transfers: bool,
    ) -> Result<(Sources, Weight)> {
        let mut bytes = 0;
        let mut source = |source: Either<String, View>| -> Result<PassedSource> {
            let view = match source {
                Either::A(path) => return Ok(PassedSource::Path(path)),
                Either::B(view) => view,
            };
            bytes += view.len().map_err(thrown)?;
            if transfers {
                return Transferred::new(view, &environment.copies).map(PassedSource::Transferred);
            }
            let buffer = view.len().and_then(Buffer::streamed).and_then(|buffer| view.copy_into(buffer));
            buffer.map(PassedSource::Copied).map_err(coded)
        };
        let model = source(model)?;
        let files = files.into_iter().map(|file| Ok((file.location, source(file.source)?))).collect::<Result<_>>()?;
        Ok((Sources { model, files }, Weight::new(&environment.account, bytes)))
    }

    /// The files, after copying the bytes that were transferred. Called on a background thread if there are any.
    ///
    /// # Errors
    /// An UnknownError if memory runs out, an InvalidStateError if the environment has ended.
    pub fn open(self) -> crate::error::Result<(FileSource, ExternalData)> {
        let open = |source| {
            Ok(match source {
                PassedSource::Path(path) => FileSource::Path(path.into()),
                PassedSource::Copied(buffer) => FileSource::Bytes(Bytes::from_owner(buffer)),
                PassedSource::Transferred(bytes) => {
                    let buffer = Buffer::streamed(bytes.len)?;
                    FileSource::Bytes(Bytes::from_owner(bytes.copy_into(buffer, "loadModel")?))
                }
            })
        };
        let files = self.files.into_iter().map(|(location, source)| Ok((location, open(source)?)));
        Ok((open(self.model)?, files.collect::<crate::error::Result<_>>()?))
    }
}

/// Copies of an environment's memory on other threads. V8 frees the memory when the environment ends, whoever refers to
/// it: no copy may go on then.
#[derive(Default)]
pub struct Copies {
    /// Whether the environment has ended.
    has_ended: RwLock<bool>,
}

impl Copies {
    /// Keeps the environment from ending; `None` if it has.
    fn hold(&self) -> Option<RwLockReadGuard<'_, bool>> {
        let guard = self.has_ended.read().unwrap_or_else(PoisonError::into_inner);
        (!*guard).then_some(guard)
    }

    /// Ends all copies, after the parts that are being copied. Called at the end of the environment.
    pub fn end(&self) {
        *self.has_ended.write().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

/// Number of bytes that are copied before the environment may end: some 0.1 ms.
const PART: usize = 1 << 20;

/// Bytes that JavaScript has given up: nobody resizes or detaches their buffer any more. They are copied all the same: V8 frees them with the environment, while a thread
/// may still be computing with the model.
pub struct Transferred {
    start: *const AtomicU8,
    len: usize,
    /// Keeps them from being collected. Any thread may drop it.
    _array: Uint8Array,
    copies: Arc<Copies>,
}

// SAFETY: the bytes may be read on any thread as long as the environment lives, which `copies` tells.
unsafe impl Send for Transferred {}

impl Transferred {
    /// # Errors
    /// A TypeError for anything but a `Uint8Array`.
    pub fn new(view: View, copies: &Arc<Copies>) -> Result<Transferred> {
        // SAFETY: only their place is used now, which lasts: their buffer is no longer resized or detached.
        let (start, len) = unsafe { view.memory() }.map(|bytes| (bytes.as_ptr(), bytes.len())).map_err(thrown)?;
        let array = view.reference().map_err(from_napi)?;
        Ok(Transferred { start, len, _array: array, copies: copies.clone() })
    }

    /// Fills `buffer`, which has as many bytes, and returns it.
    ///
    /// # Errors
    /// An InvalidStateError if the environment has ended, which `operation` belongs to.
    pub fn copy_into(self, mut buffer: Buffer, operation: &str) -> crate::error::Result<Buffer> {
        assert_eq!(buffer.len(), self.len);
        for (at, part) in buffer.bytes_mut().chunks_mut(PART).enumerate() {
            let Some(_alive) = self.copies.hold() else {
                return Err(Error::coded(Code::Destroyed, format!("{operation}: the environment has ended")));
            };
            // SAFETY: the array holds the bytes as long as the environment lives; others may write them at the same
            // time if they are shared, atomically.
            read(unsafe { std::slice::from_raw_parts(self.start.add(at * PART), part.len()) }, part);
        }
        Ok(buffer)
    }
}
