//! Rows of a cache on a device: see [`Rows`].

use super::device::Device;
use super::tensor::DeviceTensor;
use crate::error::Result;
use crate::memory::{Buffer, Room, Rows, with_room};
use std::sync::Arc;

impl Room for DeviceTensor {
    fn size(&self) -> usize {
        self.buffer().size() as usize
    }

    fn grown(&self, kept: usize, len: usize) -> Result<DeviceTensor> {
        let device = self.device();
        let grown = DeviceTensor::zeroed(device, len)?;
        let copied = kept.next_multiple_of(4) as u64;
        let commands = device.scoped(|| {
            let mut encoder = device.device.create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(self.buffer(), 0, grown.buffer(), 0, copied);
            encoder.finish()
        })?;
        device.submit(Some(commands))?;
        Ok(grown)
    }
}

impl Rows<DeviceTensor> {
    /// `rows` on `device`.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out, an `OperationError` if the device fails.
    pub fn upload(device: &Arc<Device>, rows: &Rows) -> Result<Rows<DeviceTensor>> {
        let memory = DeviceTensor::zeroed(device, with_room(rows.len()))?;
        memory.write(rows.bytes())?;
        Ok(Rows::of_memory(memory, rows.len()))
    }

    /// The bytes of the rows. Waits for the device.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out, an `OperationError` if the device fails.
    pub fn download(&self) -> Result<Buffer> {
        let device = self.memory().device();
        device.read(self.memory().buffer(), self.len())?.wait(device)
    }
}
