//! Tensors on a device.

use super::device::Device;
use crate::error::Result;
use std::sync::Arc;

/// The memory of a tensor on a device, freed with it.
pub struct DeviceTensor {
    buffer: wgpu::Buffer,
    device: Arc<Device>,
}

impl DeviceTensor {
    /// `bytes` bytes, all zero.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for them.
    pub fn zeroed(device: &Arc<Device>, bytes: usize) -> Result<DeviceTensor> {
        Ok(DeviceTensor { buffer: device.buffer("a tensor", bytes)?, device: device.clone() })
    }

    /// The buffer that holds it, which may be longer.
    pub fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// The device that it is on.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Writes all of its bytes, before everything that is submitted later.
    ///
    /// # Errors
    /// An `UnknownError` without memory for a copy, an `OperationError` when the device fails.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        self.device.write(&self.buffer, 0, bytes)
    }
}

impl Drop for DeviceTensor {
    fn drop(&mut self) {
        self.device.forget(&self.buffer);
    }
}
