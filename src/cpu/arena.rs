//! The arena: the memory for intermediate values and scratch memory of all plans that run one after the other.

use crate::error::Result;
use crate::memory::Buffer;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that are never given back: mapping and unmapping them all the time costs more than they do.
const KEPT: usize = 1 << 20;

/// One arena, as large as the largest plan that runs in it needs.
#[derive(Default)]
pub struct Arena(Mutex<Held>);

#[derive(Default)]
struct Held {
    bytes: Buffer,
    /// When it was needed last.
    used: Option<Instant>,
}

impl Arena {
    /// Makes sure that there are `len` bytes.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for them.
    pub fn reserve(&self, len: usize) -> Result<()> {
        self.hold(len).map(drop)
    }

    /// Runs `work` with at least `len` bytes, in which there is anything.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for them.
    pub fn with<T>(&self, len: usize, work: impl FnOnce(&mut Buffer) -> T) -> Result<T> {
        Ok(work(&mut self.hold(len)?.bytes))
    }

    /// Whether there is nothing to give back.
    pub fn is_small(&self) -> bool {
        self.lock().bytes.len() <= KEPT
    }

    /// Gives its memory back if nobody has needed it for `idle`. Whether there is nothing left to give back.
    pub fn release(&self, idle: Duration) -> bool {
        let Ok(mut held) = self.0.try_lock() else { return false }; // a plan runs
        if held.used.is_some_and(|used| used.elapsed() >= idle) && held.bytes.len() > KEPT {
            held.bytes = Buffer::default();
        }
        held.bytes.len() <= KEPT
    }

    fn hold(&self, len: usize) -> Result<MutexGuard<'_, Held>> {
        let mut held = self.lock();
        if held.bytes.len() < len {
            // Not both at the same time.
            held.bytes = Buffer::default();
            held.bytes = Buffer::zeroed(len)?;
        }
        held.used = Some(Instant::now());
        Ok(held)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // What a step that panicked has left there is overwritten by the next run.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_and_is_given_back() {
        let arena = Arena::default();
        assert!(arena.release(Duration::ZERO));
        arena.reserve(2 * KEPT).unwrap();
        arena.with(KEPT, |bytes| assert_eq!(bytes.len(), 2 * KEPT)).unwrap();
        assert!(!arena.release(Duration::from_secs(3600)));
        assert!(!arena.is_small());
        arena.with(1, |_| assert!(!arena.release(Duration::ZERO))).unwrap();
        assert!(arena.release(Duration::ZERO));
        arena.with(KEPT, |bytes| assert_eq!(bytes.len(), KEPT, "nothing was left")).unwrap();
        assert!(arena.release(Duration::ZERO));
        arena.with(1, |bytes| assert_eq!(bytes.len(), KEPT, "as little as that stays")).unwrap();
        assert!(arena.reserve(usize::MAX / 2).is_err());
    }
}
