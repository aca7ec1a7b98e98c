//! The end of the process. Drivers clean up when it exits, and NVIDIA's crashes if another thread is inside of it
//! meanwhile. So threads enter a driver through [`enter`], and the end of the process waits until they have left, except for
//! those that are [stuck](super::watch) in it.
//!
//! The system calls what registered last first, so that a driver that is just being loaded would clean up before
//! anybody waits for the thread that loads it. Such threads have an [`Opening`], and whoever is about to end the
//! process calls [`end_openings`] first.

use super::watch::stuck_threads;
use crate::error::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::park;
use std::time::Duration;

/// How long the end of the process waits: a driver that hangs must not keep it for ever.
const PATIENCE: Duration = Duration::from_secs(10);

struct Entrance {
    state: Mutex<State>,
    left: Condvar,
}

struct State {
    /// Number of threads that are inside.
    inside: usize,
    /// Whether the process ends.
    closed: bool,
}

static ENTRANCE: Entrance = Entrance::open();

/// For threads that load drivers or open devices.
static OPENINGS: Entrance = Entrance::open();

thread_local! {
    /// How often this thread has entered without leaving.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A thread's stay inside of a driver. It ends on drop, on the same thread.
pub struct Inside(std::marker::PhantomData<*const ()>);

/// Enters a driver, or waits for ever if the process ends. A thread that is inside can enter again.
pub fn enter() -> Inside {
    if DEPTH.get() == 0 && !ENTRANCE.let_in() {
        loop {
            park();
        }
    }
    DEPTH.set(DEPTH.get() + 1);
    Inside(std::marker::PhantomData)
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            ENTRANCE.let_out();
        }
    }
}

/// The time until a driver is loaded, or a device open. It ends on drop.
pub struct Opening(());

/// Begins to load drivers, or to open a device.
///
/// # Errors
/// An `OperationError` if the process ends.
pub fn opening() -> Result<Opening> {
    match OPENINGS.let_in() {
        true => Ok(Opening(())),
        false => Err(Error::new(ErrorKind::Operation, "no GPU is opened while the process ends")),
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        OPENINGS.let_out();
    }
}

/// Lets no thread load drivers or open devices any more, and waits for those that do.
pub fn end_openings() {
    OPENINGS.close(0, stuck_threads, PATIENCE);
}

impl Entrance {
    const fn open() -> Entrance {
        Entrance { state: Mutex::new(State { inside: 0, closed: false }), left: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a thread as inside, unless the entrance is closed.
    fn let_in(&self) -> bool {
        let mut state = self.lock();
        state.inside += usize::from(!state.closed);
        !state.closed
    }

    fn let_out(&self) {
        self.lock().inside -= 1;
        self.left.notify_all();
    }

    /// Lets no thread in any more, and waits until at most `allowed` are inside beside those that are `stuck`, at most
    /// for `patience`.
    fn close(&self, allowed: usize, stuck: impl Fn() -> usize, patience: Duration) {
        let mut state = self.lock();
        state.closed = true;
        drop(self.left.wait_timeout_while(state, patience, |state| state.inside > allowed + stuck()));
    }
}

/// Has the end of the process look again how many threads are stuck inside.
pub fn look_again() {
    for entrance in [&ENTRANCE, &OPENINGS] {
        // Between its look and its wait, it holds the lock.
        drop(entrance.lock());
        entrance.left.notify_all();
    }
}

/// Has the end of the process wait for threads inside of drivers. Functions that drivers have registered for the end of
/// the process must be registered already, because the last one is called first: call it when a device is open.
pub fn wait_at_exit() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(register);
}

/// Only Unix-like systems call functions at the end of a process while other threads run.
#[cfg(unix)]
fn register() {
    unsafe extern "C" {
        fn __cxa_atexit(call: extern "C" fn(*mut ()), argument: *mut (), library: *mut ()) -> i32;
    }
    extern "C" fn close(_: *mut ()) {
        let own = usize::from(DEPTH.get() > 0);
        ENTRANCE.close(own, stuck_threads, PATIENCE);
        // What this thread still does, such as dropping objects, it does alone.
        DEPTH.set(DEPTH.get() + 1);
    }
    // SAFETY: this is the function behind the C library's `atexit`. It calls `close` once, which does not unwind, at the
    // end of the process: `null` names no library whose unloading it belongs to. No system unloads this addon, whose
    // threads have destructors for local data.
    let status = unsafe { __cxa_atexit(close, std::ptr::null_mut(), std::ptr::null_mut()) };
    debug_assert_eq!(status, 0, "the C library has room for a function to call at exit");
}

#[cfg(not(unix))]
fn register() {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_closed_entrance_waits_for_those_inside_and_lets_nobody_in() {
        let entrance = Entrance::open();
        assert!(entrance.let_in() && entrance.let_in());
        entrance.close(2, || 0, Duration::MAX);
        entrance.close(1, || 1, Duration::MAX);
        assert!(!entrance.let_in());
        entrance.close(1, || 0, Duration::from_millis(1));
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                entrance.close(0, || 0, Duration::MAX);
                tell.send(entrance.lock().inside).unwrap();
            });
            entrance.let_out();
            assert!(told.try_recv().is_err(), "one is still inside");
            entrance.let_out();
        });
        assert_eq!(told.recv(), Ok(0));
    }

    #[test]
    fn a_thread_enters_again() {
        let depth = DEPTH.get();
        let (first, second) = (enter(), enter());
        assert_eq!(DEPTH.get(), depth + 2);
        drop(first);
        drop(second);
        assert_eq!(DEPTH.get(), depth);
    }
}
