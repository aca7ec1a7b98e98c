//! The arena: memory for the intermediate values and scratch of all plans. Plans run one at a time.

use crate::error::Result;
use crate::memory::{ALIGNMENT, Buffer, KEPT_BYTES, LastUse};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One arena, grown to the largest plan that has run in it.
#[derive(Default)]
pub struct Arena(Mutex<Held>);

#[derive(Default)]
struct Held {
    bytes: Buffer,
    used: LastUse,
}

impl Arena {
    /// Grows the arena to at least `len` bytes.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory.
    pub fn reserve(&self, len: usize) -> Result<()> {
        self.hold(len).map(drop)
    }

    /// Runs `work` with at least `len` bytes of undefined content.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory.
    pub fn with<T>(&self, len: usize, work: impl FnOnce(&mut Buffer) -> T) -> Result<T> {
        Ok(work(&mut self.hold(len)?.bytes))
    }

    /// Whether the arena is so small that it is never freed.
    pub fn is_small(&self) -> bool {
        self.lock().bytes.len() <= KEPT_BYTES
    }

    /// Frees the memory if it has been unused for `idle`. Returns when that will be the case; `None` if nothing is left to
    /// free.
    pub fn release(&self, idle: Duration) -> Option<Instant> {
        let Ok(mut held) = self.0.try_lock() else { return Some(Instant::now() + idle) }; // a plan is running
        let due = held.used.due(held.bytes.len(), idle)?;
        if Instant::now() < due {
            return Some(due);
        }
        held.bytes = Buffer::default();
        None
    }

    /// Frees the memory unless it was used after `when`.
    pub fn release_unless_used_after(&self, when: Instant) {
        let mut held = self.lock();
        if held.used.due(held.bytes.len(), Duration::ZERO).is_some_and(|used| used <= when) {
            held.bytes = Buffer::default();
        }
    }

    fn hold(&self, len: usize) -> Result<MutexGuard<'_, Held>> {
        let mut held = self.lock();
        if held.bytes.len() < len {
            // Frees the old memory first, to never hold both.
            held.bytes = Buffer::default();
            // Its end is aligned, too, where tests put it at a page that is unreadable.
            let len = len.next_multiple_of(ALIGNMENT);
            // In pages of its own: an allocator may keep what is freed, and be it tens of megabytes.
            held.bytes = if len > KEPT_BYTES { Buffer::streamed(len)? } else { Buffer::zeroed(len)? };
        }
        held.used.now();
        Ok(held)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // If a step panicked, the next run overwrites what it left there.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_and_frees_its_memory() {
        let arena = Arena::default();
        assert!(arena.release(Duration::ZERO).is_none());
        arena.reserve(2 * KEPT_BYTES).unwrap();
        arena.with(KEPT_BYTES, |bytes| assert_eq!(bytes.len(), 2 * KEPT_BYTES)).unwrap();
        assert!(arena.release(Duration::from_secs(3600)).is_some_and(|due| due > Instant::now()));
        assert!(!arena.is_small());
        arena.with(1, |_| assert!(arena.release(Duration::ZERO).is_some())).unwrap();
        assert!(arena.release(Duration::ZERO).is_none());
        arena.with(KEPT_BYTES, |bytes| assert_eq!(bytes.len(), KEPT_BYTES, "all was freed")).unwrap();
        assert!(arena.release(Duration::ZERO).is_none());
        arena.with(1, |bytes| assert_eq!(bytes.len(), KEPT_BYTES, "a small arena is kept")).unwrap();
        assert!(arena.reserve(usize::MAX / 2).is_err());
        arena.reserve(3 * KEPT_BYTES).unwrap();
        let before = Instant::now();
        arena.reserve(1).unwrap();
        arena.release_unless_used_after(before);
        assert!(!arena.is_small(), "somebody has used it since");
        arena.release_unless_used_after(Instant::now());
        assert!(arena.is_small());
    }
}
