//! Tensors on a device.

use super::device::Device;
use super::exit::enter;
use crate::error::Result;
use std::sync::Arc;

/// A tensor's memory on a device, freed on drop.
pub struct DeviceTensor {
    buffer: wgpu::Buffer,
    device: Arc<Device>,
}

impl DeviceTensor {
    /// Allocates `bytes` bytes, all zero.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out.
    pub fn zeroed(device: &Arc<Device>, bytes: usize) -> Result<DeviceTensor> {
        Ok(DeviceTensor { buffer: device.buffer("a tensor", bytes)?, device: device.clone() })
    }

    /// The buffer with its data; it may be longer.
    pub fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// The device of the tensor.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Writes all of the tensor's bytes, ordered before all later submissions.
    ///
    /// # Errors
    /// An `UnknownError` if memory for a copy runs out, an `OperationError` if the device fails.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        self.device.write(&self.buffer, 0, bytes)
    }
}

impl Drop for DeviceTensor {
    fn drop(&mut self) {
        match self.device.loss.hangs() {
            // Freeing its memory would hang, too.
            true => std::mem::forget(self.buffer.clone()),
            false => {
                // The garbage collector frees results on the thread of JavaScript.
                let _inside = enter();
                self.device.forget(&self.buffer);
            }
        }
    }
}
