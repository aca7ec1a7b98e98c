//! Counts the computing threads of this process, relative to the cores available to it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Cores in use by computing threads of this process. Exceeds the number of cores if there are more such threads.
static USED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread is counted as computing.
    static COMPUTES: Cell<bool> = const { Cell::new(false) };
}

/// The number of cores that this process may use, if the system tells: its affinity mask, within its container's quota.
pub fn cores() -> Option<usize> {
    static CORES: OnceLock<Option<usize>> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().ok().map(|cores| cores.get()))
}

/// The number of cores for computing threads. Unlimited in tests.
pub fn available() -> usize {
    if cfg!(test) { usize::MAX } else { cores().unwrap_or(usize::MAX) }
}

/// Whether more threads compute than there are cores. A thread that only waits for work then slows the others down.
pub fn are_crowded() -> bool {
    USED.load(Ordering::Relaxed) > available()
}

/// A core reserved for a computing thread until dropped.
pub struct Core(PhantomData<()>);

impl Core {
    /// Reserves an unused core, if there is one.
    pub fn find() -> Option<Core> {
        let one_more = |used| (used < available()).then_some(used + 1);
        USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Core(PhantomData))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        USED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts this thread as computing until dropped, even if no core is free.
struct Computing(Core);

impl Drop for Computing {
    fn drop(&mut self) {
        COMPUTES.set(false);
    }
}

/// Counts this thread as computing while it runs `work`.
pub fn computing<R>(work: impl FnOnce() -> R) -> R {
    let _computing = (!COMPUTES.replace(true)).then(|| {
        USED.fetch_add(1, Ordering::Relaxed);
        Computing(Core(PhantomData))
    });
    work()
}
