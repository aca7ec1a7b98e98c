//! Counts what is being written, so that a process can end after it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many files are being written, and whether new ones are begun.
struct Savings {
    count: usize,
    has_ended: bool,
}

static SAVINGS: Mutex<Savings> = Mutex::new(Savings { count: 0, has_ended: false });
static CHANGED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Savings> {
    SAVINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is being written until this is dropped.
pub struct Saving(());

impl Saving {
    /// Begins to write; `None` if the process is about to end.
    pub fn begin() -> Option<Saving> {
        let mut savings = lock();
        (!savings.has_ended).then(|| {
            savings.count += 1;
            Saving(())
        })
    }
}

impl Drop for Saving {
    fn drop(&mut self) {
        lock().count -= 1;
        CHANGED.notify_all();
    }
}

/// Whether anything is being written.
pub fn is_saving() -> bool {
    lock().count > 0
}

/// Waits until everything is written, at most for `patience`; with `ends`, nothing is begun afterwards.
pub fn finish_saving(patience: Duration, ends: bool) {
    let mut savings = lock();
    savings.has_ended |= ends;
    drop(CHANGED.wait_timeout_while(savings, patience, |savings| savings.count > 0));
}
