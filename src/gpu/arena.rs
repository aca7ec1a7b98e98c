//! Memory for intermediate results. All plans of a device share it: the queue runs them one after the other.

use super::device::Device;
use crate::error::Result;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

/// The memory for intermediate results; plans hold it.
pub struct Arena(wgpu::Buffer);

impl Arena {
    /// The memory.
    pub fn buffer(&self) -> &wgpu::Buffer {
        &self.0
    }

    fn bytes(&self) -> usize {
        self.0.size() as usize
    }
}

/// The newest arena of a device. Whoever runs a plan holds the lock until everything is submitted.
pub type SharedArena = Weak<Arena>;

impl Device {
    /// Reserves the arena for a run. A run that is stuck in the driver keeps it: the device is lost then.
    pub fn reserve_arena(&self) -> MutexGuard<'_, SharedArena> {
        self.arena.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An arena of at least `bytes` bytes: the newest one, or a new one in its place.
    ///
    /// # Errors
    /// An `UnknownError` if memory runs out.
    pub fn arena_of(&self, newest: &mut SharedArena, bytes: usize) -> Result<Arc<Arena>> {
        let before = newest.upgrade();
        if let Some(arena) = before.as_ref().filter(|arena| arena.bytes() >= bytes) {
            return Ok(arena.clone());
        }
        // Sizes that grow by and by shall not cost an allocation each.
        let most = (self.limits.max_buffer_size as usize).max(bytes);
        let size = before.map_or(bytes, |before| bytes.max((before.bytes() / 4 * 5).min(most)));
        let allocate = |bytes| self.buffer("intermediate results", bytes);
        let buffer = if size > bytes { allocate(size).or_else(|_| allocate(bytes)) } else { allocate(bytes) };
        let arena = Arc::new(Arena(buffer?));
        *newest = Arc::downgrade(&arena);
        Ok(arena)
    }
}
