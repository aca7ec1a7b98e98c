//! Counts what is being written, so that a process can end after it.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long writing waits: a model that was just loaded runs first, and mostly packs more.
const PAUSE: Duration = Duration::from_millis(200);

/// How many files are being written, and whether somebody waits for them.
struct Savings {
    count: usize,
    is_awaited: bool,
}

static SAVINGS: Mutex<Savings> = Mutex::new(Savings { count: 0, is_awaited: false });
static CHANGED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Savings> {
    SAVINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is being written until this is dropped.
pub struct Saving(());

impl Saving {
    /// Begins to write.
    pub fn begin() -> Saving {
        lock().count += 1;
        Saving(())
    }

    /// Waits for a moment, unless somebody waits for the file.
    pub fn pause(&self) {
        drop(CHANGED.wait_timeout_while(lock(), PAUSE, |savings| !savings.is_awaited));
    }
}

impl Drop for Saving {
    fn drop(&mut self) {
        let mut savings = lock();
        savings.count -= 1;
        savings.is_awaited &= savings.count > 0;
        CHANGED.notify_all();
    }
}

fn hurried() -> MutexGuard<'static, Savings> {
    let mut savings = lock();
    savings.is_awaited = savings.count > 0;
    CHANGED.notify_all();
    savings
}

/// Has everything written without a pause.
pub fn hurry() {
    drop(hurried());
}

/// Waits until everything is written, at most for `patience` after the first call in this process.
pub fn finish_saving(patience: Duration) {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    let left = patience.saturating_sub(BEGIN.get_or_init(Instant::now).elapsed());
    drop(CHANGED.wait_timeout_while(hurried(), left, |savings| savings.count > 0));
}
