//! How many threads of this process compute, and on how many cores they can.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Cores that threads of this process compute on, or more where there are more such threads than cores.
static USED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread is counted.
    static COMPUTES: Cell<bool> = const { Cell::new(false) };
}

/// The cores that this process may use: those of its affinity mask, within the quota of its container. In tests, as many as
/// they ask for.
fn available() -> usize {
    static AVAILABLE: OnceLock<usize> = OnceLock::new();
    *AVAILABLE.get_or_init(|| match cfg!(test) {
        true => usize::MAX,
        false => std::thread::available_parallelism().map_or(usize::MAX, |cores| cores.get()),
    })
}

/// Whether more threads compute than there are cores. A thread that only waits for more work is then in the way of others.
pub fn are_crowded() -> bool {
    USED.load(Ordering::Relaxed) > available()
}

/// A core that a thread computes on until this is dropped.
pub struct Core(PhantomData<()>);

impl Core {
    /// One that nobody uses, if there is one.
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

/// This thread computes until this is dropped, whatever others do.
struct Computing(Core);

impl Drop for Computing {
    fn drop(&mut self) {
        COMPUTES.set(false);
    }
}

/// Does `work`, which computes.
pub fn computing<R>(work: impl FnOnce() -> R) -> R {
    let _computing = (!COMPUTES.replace(true)).then(|| {
        USED.fetch_add(1, Ordering::Relaxed);
        Computing(Core(PhantomData))
    });
    work()
}
