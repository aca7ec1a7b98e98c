//! Constants on a device. They belong to the device, each content once: plans for other sizes and other graphs with the
//! same weights hold references.

use super::device::Device;
use super::kernel::ALIGNMENT;
use crate::error::Result;
use crate::ir::{Constant, Identity, Sharing};
use crate::memory::{Buffer, WeakMap};
use std::sync::{Arc, MutexGuard, PoisonError};

/// From this size on, in bytes, a constant has a buffer of its own, and its content is looked for among the others of the
/// device. Smaller ones share buffers.
const LARGE: usize = 64 << 10;

/// Maximum size in bytes of a buffer for small constants.
const BLOCK: usize = 4 << 20;

/// Bytes of a constant on a device that are compared at a time.
const COMPARED: usize = 8 << 20;

/// The bytes of a constant on a device.
pub struct DeviceConstant {
    /// The buffer.
    pub buffer: wgpu::Buffer,
    /// The offset in it, in bytes.
    pub offset: usize,
    /// The length in bytes.
    bytes: usize,
}

impl DeviceConstant {
    /// Size on the device in bytes.
    pub fn held(&self) -> usize {
        self.bytes.next_multiple_of(ALIGNMENT)
    }
}

/// The constants of a device that somebody holds.
#[derive(Default)]
pub struct Resident {
    by_identity: WeakMap<(Identity, usize), DeviceConstant>,
    /// The large ones, by length and hash.
    by_content: WeakMap<(usize, u64), DeviceConstant>,
}

/// A buffer with room for small constants.
#[derive(Default)]
struct Room {
    block: Option<wgpu::Buffer>,
    /// Bytes in use.
    used: usize,
    /// Bytes that all small constants still take.
    left: usize,
}

impl Room {
    /// Takes room for `bytes` bytes.
    fn take(&mut self, device: &Device, bytes: usize) -> Result<(wgpu::Buffer, usize)> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        let block = match self.block.take().filter(|block| self.used + bytes <= block.size() as usize) {
            Some(block) => block,
            None => {
                self.used = 0;
                device.buffer("constants", self.left.clamp(bytes, BLOCK))?
            }
        };
        let offset = self.used;
        self.used += bytes;
        self.left = self.left.saturating_sub(bytes);
        self.block = Some(block.clone());
        Ok((block, offset))
    }
}

impl Device {
    /// The constants on the device, in order; uploads those that are not there yet.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out, an `OperationError` if a memory-mapped constant cannot be read or the device
    /// fails.
    pub fn constants(&self, all: &[&Constant]) -> Result<Vec<Arc<DeviceConstant>>> {
        // Held to the end: two graphs with the same weights, built at the same time, upload them once.
        let mut resident = self.resident();
        let key = |constant: &Constant| (Identity::of(constant), constant.len());
        let known = all.iter().map(|constant| resident.by_identity.get(&key(constant)).pop());
        let known: Vec<Option<Arc<DeviceConstant>>> = known.collect();
        let sizes = all.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(constant, _)| constant.len());
        let small = sizes.filter(|&bytes| bytes < LARGE).map(|bytes| bytes.next_multiple_of(ALIGNMENT)).sum();
        let mut room = Room { left: small, ..Room::default() };
        let mut sharing = Sharing::default();
        all.iter().for_each(|constant| sharing.expect(constant));
        let place = |(constant, known): (&&Constant, Option<Arc<DeviceConstant>>)| {
            // It may have been uploaded for another operand meanwhile.
            if let Some(known) = known.or_else(|| resident.by_identity.get(&key(constant)).pop()) {
                return Ok(known);
            }
            let placed = self.place(&mut resident, constant, &mut room)?;
            sharing.done(constant);
            resident.by_identity.insert(key(constant), &placed);
            Ok(placed)
        };
        all.iter().zip(known).map(place).collect()
    }

    fn resident(&self) -> MutexGuard<'_, Resident> {
        self.resident.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A constant with the bytes of `constant`: one that is on the device already, or a new one.
    fn place(&self, resident: &mut Resident, constant: &Constant, room: &mut Room) -> Result<Arc<DeviceConstant>> {
        let content = constant.buffer()?;
        let bytes = content.len();
        if bytes < LARGE {
            let (buffer, offset) = room.take(self, bytes)?;
            self.write(&buffer, offset, content.bytes())?;
            return Ok(Arc::new(DeviceConstant { buffer, offset, bytes }));
        }
        let key = (bytes, rapidhash::v3::rapidhash_v3(content.bytes()));
        for other in resident.by_content.get(&key) {
            if self.holds(&other, &content)? {
                return Ok(other);
            }
        }
        let buffer = self.buffer_of("a constant", content.bytes())?;
        let placed = Arc::new(DeviceConstant { buffer, offset: 0, bytes });
        resident.by_content.insert(key, &placed);
        Ok(placed)
    }

    /// Whether the bytes of `constant` are those of `content`, which has the same length and hash.
    fn holds(&self, constant: &DeviceConstant, content: &Buffer) -> Result<bool> {
        let mut at = 0;
        for piece in content.bytes().chunks(COMPARED) {
            let read = self.read_from(&constant.buffer, constant.offset + at, piece.len())?.wait(self)?;
            if read.bytes() != piece {
                return Ok(false);
            }
            at += piece.len();
        }
        Ok(true)
    }
}
