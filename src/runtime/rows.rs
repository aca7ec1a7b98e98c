//! The rows of caches, where their context computes.

use super::backend::Backend;
use crate::cpu::memory::Bound;
use crate::error::Result;
use crate::gpu::tensor::DeviceTensor;
use crate::memory::{Appended, Buffer, Rows, dense_of_rows};
use std::sync::Arc;

/// The rows of a cache: see [`Rows`].
#[derive(Clone)]
pub enum CacheRows {
    /// In the memory of the process.
    Host(Rows),
    /// On a GPU.
    Device(Rows<DeviceTensor>),
}

/// Rows followed by what a graph appends to them: see [`Appended`].
pub enum AppendedRows {
    /// In the memory of the process.
    Host(Appended),
    /// On a GPU.
    Device(Appended<DeviceTensor>),
}

impl CacheRows {
    /// The rows, for `backend`, of a dense tensor with these sizes; see [`Rows::of_dense`].
    ///
    /// # Errors
    /// An UnknownError if memory runs out, an OperationError if the device fails.
    pub fn of_dense(backend: &Backend, bytes: &[u8], sizes: [usize; 3]) -> Result<CacheRows> {
        CacheRows::Host(Rows::of_dense(bytes, sizes)?).on(backend)
    }

    /// These rows, where `backend` computes.
    ///
    /// # Errors
    /// An UnknownError if memory runs out, an OperationError if a device fails.
    pub fn on(self, backend: &Backend) -> Result<CacheRows> {
        Ok(match (self, backend) {
            (CacheRows::Device(rows), Backend::Gpu(device)) if Arc::ptr_eq(rows.memory().device(), device) => {
                CacheRows::Device(rows)
            }
            (rows, Backend::Gpu(device)) => CacheRows::Device(Rows::upload(device, &rows.on_host()?)?),
            (rows, Backend::Cpu) => CacheRows::Host(rows.on_host()?),
        })
    }

    /// These rows in the memory of the process. Waits for the device that they are on.
    fn on_host(self) -> Result<Rows> {
        match self {
            CacheRows::Host(rows) => Ok(rows),
            CacheRows::Device(rows) => {
                let bytes = rows.download()?;
                Rows::new(bytes.len(), |to| to.copy_from_slice(bytes.bytes()))
            }
        }
    }

    /// The rows as a dense tensor with these sizes; see [`Rows::to_dense`]. Waits for the device that they are on.
    ///
    /// # Errors
    /// An UnknownError if memory runs out, an OperationError if the device fails.
    pub fn to_dense(&self, sizes: [usize; 3]) -> Result<Buffer> {
        match self {
            CacheRows::Host(rows) => rows.to_dense(sizes),
            CacheRows::Device(rows) => dense_of_rows(rows.download()?.bytes(), sizes),
        }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            CacheRows::Host(rows) => rows.len(),
            CacheRows::Device(rows) => rows.len(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An address that only rows in the same memory have, and the size of the memory in bytes.
    pub fn block(&self) -> (usize, usize) {
        match self {
            CacheRows::Host(rows) => rows.block(),
            CacheRows::Device(rows) => rows.block(),
        }
    }

    /// These rows with room after them: see [`Rows::append`].
    ///
    /// # Errors
    /// An UnknownError if memory runs out, an OperationError if the device fails.
    pub fn append(&self, len: usize) -> Result<AppendedRows> {
        Ok(match self {
            CacheRows::Host(rows) => AppendedRows::Host(rows.append(len)?),
            CacheRows::Device(rows) => AppendedRows::Device(rows.append(len)?),
        })
    }

    /// Whether `other` is in the same memory.
    #[cfg(test)]
    pub fn is_beside(&self, other: &CacheRows) -> bool {
        self.block() == other.block()
    }
}

impl AppendedRows {
    /// All bytes as rows: see [`Appended::finish`].
    pub fn finish(self) -> CacheRows {
        match self {
            AppendedRows::Host(appended) => CacheRows::Host(appended.finish()),
            AppendedRows::Device(appended) => CacheRows::Device(appended.finish()),
        }
    }

    /// The memory that the CPU appends to, if it is there.
    pub fn bound(&mut self) -> Option<Bound<'_>> {
        match self {
            AppendedRows::Host(appended) => Some(Bound::Appended(appended)),
            AppendedRows::Device(_) => None,
        }
    }

    /// The buffer that a device appends to, if it is there.
    pub fn buffer(&self) -> Option<&wgpu::Buffer> {
        match self {
            AppendedRows::Host(_) => None,
            AppendedRows::Device(appended) => Some(appended.memory().buffer()),
        }
    }
}
