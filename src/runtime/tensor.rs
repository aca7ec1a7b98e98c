//! Tensors at run time. Their bytes are only touched on the timeline of their context; the locks are there so that
//! this does not have to be believed.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::Buffer;
use crate::shape::Descriptor;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a tensor holds.
pub enum Contents {
    /// Its bytes. Shared with the graphs that were built from it, for a constant tensor.
    Bytes(Arc<Buffer>),
    /// Nothing yet, or nothing any more.
    Released,
    /// What a dispatch that failed left behind: reading it gives the error.
    Failed(Error),
}

/// A tensor of a context.
pub struct Tensor {
    descriptor: Descriptor,
    contents: Mutex<Contents>,
}

impl Tensor {
    /// A tensor without bytes yet.
    pub fn new(descriptor: Descriptor) -> Tensor {
        Tensor { descriptor, contents: Mutex::new(Contents::Released) }
    }

    /// Type and shape.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The contents, for work on the timeline.
    pub fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Contents {
    /// The bytes.
    ///
    /// # Errors
    /// An InvalidStateError if they were released, or the error of the dispatch that should have written them.
    pub fn bytes(&self) -> Result<&Arc<Buffer>> {
        match self {
            Contents::Bytes(bytes) => Ok(bytes),
            Contents::Released => Err(Error::new(ErrorKind::InvalidState, "the tensor is destroyed")),
            Contents::Failed(error) => Err(error.clone()),
        }
    }

    /// The bytes, for writing all of them. A failed tensor gets new ones.
    ///
    /// # Errors
    /// An InvalidStateError if they were released.
    pub fn bytes_mut(&mut self, descriptor: &Descriptor) -> Result<&mut Buffer> {
        if let Contents::Failed(_) = self {
            *self = Contents::Bytes(Arc::new(Buffer::zeroed(descriptor.bytes())?));
        }
        match self {
            // Only constant tensors share their bytes, and those are never written.
            Contents::Bytes(bytes) => Ok(Arc::get_mut(bytes).expect("the bytes of a writable tensor are its own")),
            _ => Err(Error::new(ErrorKind::InvalidState, "the tensor is destroyed")),
        }
    }
}

/// The snapshot that a read takes.
#[derive(Default)]
pub struct Read(Mutex<Option<Buffer>>);

impl Read {
    /// Keeps the snapshot.
    pub fn put(&self, bytes: Buffer) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(bytes);
    }

    /// Takes the snapshot out.
    pub fn take(&self) -> Option<Buffer> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }
}
