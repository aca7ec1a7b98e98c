//! Counts what is being written, so that a process can end after it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many files are being written.
static SAVINGS: Mutex<usize> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, usize> {
    SAVINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is being written until this is dropped.
pub struct Saving(());

impl Saving {
    /// Begins to write.
    pub fn begin() -> Saving {
        *lock() += 1;
        Saving(())
    }
}

impl Drop for Saving {
    fn drop(&mut self) {
        *lock() -= 1;
        CHANGED.notify_all();
    }
}

/// Waits until everything is written, at most for `patience`.
pub fn finish_saving(patience: Duration) {
    drop(CHANGED.wait_timeout_while(lock(), patience, |count| *count > 0));
}
