//! Tensors at run time. Their bytes are only touched on the timeline of their context; the locks are there so that
//! this does not have to be believed.

use super::backend::Backend;
use super::timeline::Later;
use crate::cpu::memory::Bound;
use crate::dimension::Dim;
use crate::error::{Error, ErrorKind, Result};
use crate::gpu::tensor::DeviceTensor;
use crate::memory::{Appended, Buffer, Rows};
use crate::shape::Descriptor;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a tensor holds.
pub enum Contents {
    /// Its bytes. Shared with the graphs that were built from it, for a constant tensor.
    Bytes(Arc<Buffer>),
    /// Its bytes in the order in which a cache grows: with the dimension of that number outermost.
    Rows(Rows, usize),
    /// What a graph writes behind such a cache.
    Appended(Appended),
    /// Its bytes, on a GPU. Those of constant tensors stay here: graphs take them with them.
    Device(DeviceTensor),
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

    /// Gives it another shape, without contents.
    pub fn reshape(&mut self, shape: &[Dim]) {
        self.descriptor.shape.clear();
        self.descriptor.shape.extend_from_slice(shape);
        self.set(Contents::Released);
    }

    /// The contents, for work on the timeline. Those of a cache are put in the order of other tensors first.
    ///
    /// # Errors
    /// An UnknownError without memory for that: the cache stays as it is.
    pub fn lock(&self) -> Result<MutexGuard<'_, Contents>> {
        let mut contents = self.lock_as_it_is();
        if let Contents::Rows(rows, axis) = &*contents {
            *contents = Contents::Bytes(Arc::new(rows.to_dense(self.descriptor.around(*axis))?));
        }
        Ok(contents)
    }

    /// A copy of the bytes of a tensor that is not on a GPU. A cache stays one.
    ///
    /// # Errors
    /// As [`Contents::bytes`]; an UnknownError without memory.
    pub fn copy(&self) -> Result<Buffer> {
        match &*self.lock_as_it_is() {
            Contents::Rows(rows, axis) => rows.to_dense(self.descriptor.around(*axis)),
            contents => Buffer::copy_of(contents.bytes()?.bytes()),
        }
    }

    fn lock_as_it_is(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The bytes in the order in which a cache grows along `axis`: those of a cache as they are, of other tensors copied.
    ///
    /// # Errors
    /// As [`Contents::bytes`]; an UnknownError without memory.
    pub fn rows(&self, axis: usize) -> Result<Rows> {
        if let Contents::Rows(rows, own) = &*self.lock_as_it_is()
            && *own == axis
        {
            return Ok(rows.clone());
        }
        Rows::of_dense(self.lock()?.bytes()?.bytes(), self.descriptor.around(axis))
    }

    /// Makes `rows` the contents, unless the tensor was released.
    pub fn replace_rows(&self, rows: Rows, axis: usize) {
        let mut contents = self.lock_as_it_is();
        if !matches!(*contents, Contents::Released) {
            *contents = Contents::Rows(rows, axis);
        }
    }

    /// Makes `contents` those of the tensor, whatever they were.
    pub fn set(&self, contents: Contents) {
        *self.lock_as_it_is() = contents;
    }

    /// What a graph has appended.
    pub fn finish(&self) -> Option<Rows> {
        match std::mem::replace(&mut *self.lock_as_it_is(), Contents::Released) {
            Contents::Appended(appended) => Some(appended.finish()),
            _ => None,
        }
    }

    /// Makes `bytes` the contents, unless the tensor was released. If that fails, reading gives the error.
    pub fn replace(&self, backend: &Backend, bytes: Buffer) {
        let mut contents = self.lock_as_it_is();
        if let Contents::Released = *contents {
            return;
        }
        let Backend::Gpu(device) = backend else {
            // The copy becomes the contents; the old bytes are freed here, in the background.
            *contents = Contents::Bytes(Arc::new(bytes));
            return;
        };
        let written = match &*contents {
            Contents::Device(tensor) => tensor.write(bytes.bytes()),
            _ => DeviceTensor::zeroed(device, bytes.len()).and_then(|tensor| {
                tensor.write(bytes.bytes())?;
                *contents = Contents::Device(tensor);
                Ok(())
            }),
        };
        if let Err(error) = written {
            contents.fail(&Error::new(ErrorKind::Operation, format!("writeTensor: {error}")));
        }
    }

    /// Makes `bytes` the contents, whatever they were. Gives `bytes` back where they were copied.
    ///
    /// # Errors
    /// An UnknownError without memory, an OperationError when the device fails.
    pub fn fill(&self, backend: &Backend, bytes: Arc<Buffer>) -> Result<Option<Arc<Buffer>>> {
        let Backend::Gpu(_) = backend else {
            self.set(Contents::Bytes(bytes));
            return Ok(None);
        };
        self.place(backend)?;
        match &*self.lock()? {
            Contents::Device(tensor) => tensor.write(bytes.bytes())?,
            _ => return Err(released()),
        }
        Ok(Some(bytes))
    }

    /// What is read from now on is `error`, unless the tensor was released.
    pub fn fail(&self, error: &Error) {
        self.lock_as_it_is().fail(error);
    }

    /// Gives the tensor a place on the device, if it has none.
    ///
    /// # Errors
    /// An UnknownError without memory.
    pub fn place(&self, backend: &Backend) -> Result<()> {
        let mut contents = self.lock_as_it_is();
        if !matches!(*contents, Contents::Device(_)) {
            *contents = backend.zeroed(self.descriptor.bytes())?;
        }
        Ok(())
    }

    /// Takes the bytes out, of a tensor that is not on a GPU and does not share them.
    pub fn take(&self) -> Option<Buffer> {
        let mut contents = self.lock_as_it_is();
        match std::mem::replace(&mut *contents, Contents::Released) {
            Contents::Bytes(bytes) => Arc::into_inner(bytes),
            other => {
                *contents = other;
                None
            }
        }
    }

    /// Begins to copy the bytes, as they are now, from the GPU; the rest happens while that is waited for.
    ///
    /// # Errors
    /// An InvalidStateError if they were released, the error of the dispatch that should have written them, an
    /// UnknownError without memory for the copy.
    pub fn read_later(&self, target: Arc<Read>) -> Result<Later> {
        let contents = self.lock()?;
        let tensor = match &*contents {
            Contents::Device(tensor) => tensor,
            other => return Err(other.bytes().err().unwrap_or_else(released)),
        };
        let device = tensor.device().clone();
        let mut reading = device.read(tensor.buffer(), self.descriptor.bytes())?;
        Ok(Box::new(move |patience| match reading.poll(&device, patience) {
            Ok(None) => None,
            Ok(Some(bytes)) => {
                target.put(bytes);
                Some(Ok(()))
            }
            Err(error) => Some(Err(error)),
        }))
    }
}

fn released() -> Error {
    Error::new(ErrorKind::InvalidState, "the tensor is destroyed")
}

impl Contents {
    /// What is read from now on is `error`, unless the tensor was released.
    pub fn fail(&mut self, error: &Error) {
        if !matches!(self, Contents::Released) {
            *self = Contents::Failed(error.clone());
        }
    }

    /// The bytes, of a tensor that is not on a GPU.
    ///
    /// # Errors
    /// An InvalidStateError if they were released, or the error of the dispatch that should have written them.
    pub fn bytes(&self) -> Result<&Arc<Buffer>> {
        match self {
            Contents::Bytes(bytes) => Ok(bytes),
            Contents::Failed(error) => Err(error.clone()),
            _ => Err(released()),
        }
    }

    /// The bytes, for writing all of them, of a tensor that is not on a GPU. A failed tensor gets new ones.
    ///
    /// # Errors
    /// An InvalidStateError if they were released.
    pub fn bytes_mut(&mut self, descriptor: &Descriptor) -> Result<&mut Buffer> {
        if let Contents::Failed(_) = self {
            *self = Contents::Bytes(Arc::new(Buffer::zeroed(descriptor.bytes())?));
        }
        match self {
            // Only constant tensors and those of feeds share their bytes, and those are never written.
            Contents::Bytes(bytes) => Ok(Arc::get_mut(bytes).expect("the bytes of a writable tensor are its own")),
            _ => Err(released()),
        }
    }

    /// The same, or what a graph appends to a cache.
    ///
    /// # Errors
    /// As above.
    pub fn bound(&mut self, descriptor: &Descriptor) -> Result<Bound<'_>> {
        match self {
            Contents::Appended(appended) => Ok(Bound::Appended(appended)),
            _ => self.bytes_mut(descriptor).map(Bound::Buffer),
        }
    }
}

/// Where work on the timeline leaves what it made, for whoever asked for it.
pub struct Slot<T>(Mutex<Option<T>>);

/// The snapshot that a read takes.
pub type Read = Slot<Buffer>;

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot(Mutex::new(None))
    }
}

impl<T> Slot<T> {
    /// Keeps `made`.
    pub fn put(&self, made: T) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(made);
    }

    /// Takes out what was made.
    pub fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }
}
