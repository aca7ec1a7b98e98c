//! Tensors at run time. Their bytes are only accessed on the timeline of their context; the locks make that safe
//! without relying on it.

use super::backend::Backend;
use super::rows::{AppendedRows, CacheRows};
use super::timeline::Later;
use crate::cpu::memory::Bound;
use crate::dimension::Dim;
use crate::error::{Error, ErrorKind, Result};
use crate::gpu::tensor::DeviceTensor;
use crate::memory::{Buffer, dense_of_rows};
use crate::shape::Descriptor;
use std::sync::{Arc, Mutex, MutexGuard};

/// The contents of a tensor.
pub enum Contents {
    /// Its bytes. A constant tensor shares them with the graphs built from it.
    Bytes(Arc<Buffer>),
    /// Its bytes in the order in which a cache grows: the dimension with this index is outermost.
    Rows(CacheRows, usize),
    /// The part that a graph appends to such a cache.
    Appended(AppendedRows),
    /// Its bytes, on a GPU. The bytes of constant tensors remain here: graphs upload them.
    Device(DeviceTensor),
    /// Nothing: no bytes yet, or released ones.
    Released,
    /// The error of a failed dispatch, which reading returns.
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

    /// Changes the shape, and drops the contents.
    pub fn reshape(&mut self, shape: &[Dim]) {
        self.descriptor.shape.clear();
        self.descriptor.shape.extend_from_slice(shape);
        self.set(Contents::Released);
    }

    /// Locks the contents, for work on the timeline. First converts a cache to the row-major order of other tensors.
    ///
    /// # Errors
    /// An UnknownError if memory for that runs out, which leaves the cache unchanged.
    pub fn lock(&self) -> Result<MutexGuard<'_, Contents>> {
        let mut contents = self.lock_as_it_is();
        if let Contents::Rows(rows, axis) = &*contents {
            let dense = rows.to_dense(self.descriptor.around(*axis))?;
            *contents = match rows {
                CacheRows::Host(_) => Contents::Bytes(Arc::new(dense)),
                CacheRows::Device(rows) => {
                    let tensor = DeviceTensor::zeroed(rows.memory().device(), dense.len())?;
                    tensor.write(dense.bytes())?;
                    Contents::Device(tensor)
                }
            };
        }
        Ok(contents)
    }

    /// Copies the bytes of a tensor that is not on a GPU. A cache remains one.
    ///
    /// # Errors
    /// Same as [`Contents::bytes`]; an UnknownError if memory runs out.
    pub fn copy(&self) -> Result<Buffer> {
        match &*self.lock_as_it_is() {
            Contents::Rows(rows, axis) => rows.to_dense(self.descriptor.around(*axis)),
            contents => Buffer::copy_of(contents.bytes()?.bytes()),
        }
    }

    fn lock_as_it_is(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The rows in the order in which a cache grows along `axis`, where `backend` computes: a cache's own, or a copy of
    /// another tensor's.
    ///
    /// # Errors
    /// Same as [`Contents::bytes`]; an UnknownError if memory runs out, an OperationError if the device fails.
    pub fn rows(&self, backend: &Backend, axis: usize) -> Result<CacheRows> {
        let contents = self.lock_as_it_is();
        if let Contents::Rows(rows, own) = &*contents
            && *own == axis
        {
            return Ok(rows.clone());
        }
        drop(contents);
        let sizes = self.descriptor.around(axis);
        match &*self.lock()? {
            Contents::Device(tensor) => {
                let device = tensor.device();
                let bytes = device.read(tensor.buffer(), self.descriptor.bytes())?.wait(device)?;
                CacheRows::of_dense(backend, bytes.bytes(), sizes)
            }
            contents => CacheRows::of_dense(backend, contents.bytes()?.bytes(), sizes),
        }
    }

    /// Replaces the contents by `rows`, unless the tensor was released.
    pub fn replace_rows(&self, rows: CacheRows, axis: usize) {
        let mut contents = self.lock_as_it_is();
        if !matches!(*contents, Contents::Released) {
            *contents = Contents::Rows(rows, axis);
        }
    }

    /// Replaces the contents, whatever they were.
    pub fn set(&self, contents: Contents) {
        *self.lock_as_it_is() = contents;
    }

    /// Takes the rows that a graph has extended.
    pub fn finish(&self) -> Option<CacheRows> {
        match std::mem::replace(&mut *self.lock_as_it_is(), Contents::Released) {
            Contents::Appended(appended) => Some(appended.finish()),
            _ => None,
        }
    }

    /// Replaces the contents by `bytes`, unless the tensor was released. If that fails, reading returns the error.
    pub fn replace(&self, backend: &Backend, bytes: Buffer) {
        let mut contents = self.lock_as_it_is();
        if let Contents::Released = *contents {
            return;
        }
        let Backend::Gpu(device) = backend else {
            // `bytes` becomes the contents; the old bytes are freed here, in the background.
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

    /// Replaces the contents by `bytes`, whatever they were. Returns `bytes` if they were copied.
    ///
    /// # Errors
    /// An UnknownError if memory runs out, an OperationError if the device fails.
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

    /// Makes subsequent reads return `error`, unless the tensor was released.
    pub fn fail(&self, error: &Error) {
        self.lock_as_it_is().fail(error);
    }

    /// Allocates the tensor on the device, unless it is already there.
    ///
    /// # Errors
    /// An UnknownError if memory runs out.
    pub fn place(&self, backend: &Backend) -> Result<()> {
        let mut contents = self.lock_as_it_is();
        if !matches!(*contents, Contents::Device(_)) {
            *contents = backend.zeroed(self.descriptor.bytes())?;
        }
        Ok(())
    }

    /// Takes the memory on a GPU of `other`, which nothing will use any more, if this tensor needs most of it.
    pub fn take_place_of(&self, other: &Tensor) {
        let mut old = other.lock_as_it_is();
        let Contents::Device(tensor) = &*old else { return };
        let (size, bytes) = (tensor.buffer().size(), self.descriptor.bytes() as u64);
        if bytes <= size && size / 4 <= bytes {
            self.set(std::mem::replace(&mut *old, Contents::Released));
        }
    }

    /// Takes the bytes of a tensor that is not on a GPU, if they are not shared.
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

    /// Starts to copy the current bytes from the GPU; the returned continuation finishes the copy.
    ///
    /// # Errors
    /// An InvalidStateError if they were released, the error of the dispatch that failed to write them, an UnknownError
    /// if memory for the copy runs out.
    pub fn read_later(&self, target: Arc<Read>) -> Result<Later> {
        let contents = self.lock_as_it_is();
        let (tensor, rows) = match &*contents {
            Contents::Device(tensor) => (tensor, None),
            Contents::Rows(CacheRows::Device(rows), axis) => (rows.memory(), Some(self.descriptor.around(*axis))),
            other => return Err(other.bytes().err().unwrap_or_else(released)),
        };
        let device = tensor.device().clone();
        let mut reading = device.read(tensor.buffer(), self.descriptor.bytes())?;
        let finish = move |bytes: Buffer| {
            let dense = match rows {
                Some(sizes) => dense_of_rows(bytes.bytes(), sizes)?,
                None => bytes,
            };
            target.put(dense);
            Ok(())
        };
        Ok(Box::new(move |patience| match reading.poll(&device, patience) {
            Ok(None) => None,
            Ok(Some(bytes)) => Some(finish(bytes)),
            Err(error) => Some(Err(error)),
        }))
    }
}

fn released() -> Error {
    Error::new(ErrorKind::InvalidState, "the tensor is destroyed")
}

impl Contents {
    /// Makes subsequent reads return `error`, unless the tensor was released.
    pub fn fail(&mut self, error: &Error) {
        if !matches!(self, Contents::Released) {
            *self = Contents::Failed(error.clone());
        }
    }

    /// The bytes of a tensor that is not on a GPU.
    ///
    /// # Errors
    /// An InvalidStateError if they were released, or the error of the dispatch that failed to write them.
    pub fn bytes(&self) -> Result<&Arc<Buffer>> {
        match self {
            Contents::Bytes(bytes) => Ok(bytes),
            Contents::Failed(error) => Err(error.clone()),
            _ => Err(released()),
        }
    }

    /// The bytes of a tensor that is not on a GPU, to be overwritten completely. A failed tensor gets new bytes.
    ///
    /// # Errors
    /// An InvalidStateError if they were released.
    pub fn bytes_mut(&mut self, descriptor: &Descriptor) -> Result<&mut Buffer> {
        if let Contents::Failed(_) = self {
            *self = Contents::Bytes(Arc::new(Buffer::zeroed(descriptor.bytes())?));
        }
        match self {
            // Only constant tensors and feeds share their bytes, and those are never written.
            Contents::Bytes(bytes) => Ok(Arc::get_mut(bytes).expect("the bytes of a writable tensor are its own")),
            _ => Err(released()),
        }
    }

    /// Like [`bytes_mut`](Self::bytes_mut), or the part that a graph appends to a cache.
    ///
    /// # Errors
    /// Same as [`bytes_mut`](Self::bytes_mut).
    pub fn bound(&mut self, descriptor: &Descriptor) -> Result<Bound<'_>> {
        match self {
            Contents::Appended(appended) => appended.bound().ok_or_else(released),
            _ => self.bytes_mut(descriptor).map(Bound::Buffer),
        }
    }
}

/// Passes a result from work on the timeline to its requester.
pub struct Slot<T>(Mutex<Option<T>>);

/// The snapshot of a read.
pub type Read = Slot<Buffer>;

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot(Mutex::new(None))
    }
}

impl<T> Slot<T> {
    /// A slot with `made`.
    pub fn of(made: T) -> Slot<T> {
        Slot(Mutex::new(Some(made)))
    }

    /// Stores `made`.
    pub fn put(&self, made: T) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(made);
    }

    /// Takes the stored value.
    pub fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }
}
