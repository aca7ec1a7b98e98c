//! Primitives for threads that synchronize without locks: from the standard library, or, in the crate `loom/`, from
//! loom, which tries all possible thread interleavings and everything that weak memory allows.

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicUsize},
    sync::{Mutex, MutexGuard},
};
#[cfg(not(loom))]
pub use std::{
    sync::atomic::{AtomicBool, AtomicUsize},
    sync::{Mutex, MutexGuard},
};

/// [`std::cell::UnsafeCell`] with loom's interface, which observes the start and end of each access.
#[cfg(not(loom))]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell that holds `value`.
    pub fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Calls `read` with a pointer to the contents, for reading.
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Calls `write` with a pointer to the contents, for reading and writing.
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Thread-local variables with constant initial values.
macro_rules! of_thread {
    ($($(#[$meta:meta])* $NAME:ident: $Type:ty = $first:expr;)*) => {
        #[cfg(not(loom))]
        std::thread_local! { $($(#[$meta])* static $NAME: $Type = const { $first };)* }
        #[cfg(loom)]
        loom::thread_local! { $($(#[$meta])* static $NAME: $Type = $first;)* }
    };
}
pub(crate) use of_thread;

/// One iteration of waiting for a thread that is about to finish; `turn` counts the iterations.
pub fn pause(turn: usize) {
    #[cfg(loom)]
    let _ = (turn, loom::thread::yield_now());
    // The other thread may be waiting for the core that this one spins on.
    #[cfg(not(loom))]
    if turn % 64 == 63 { std::thread::yield_now() } else { std::hint::spin_loop() }
}
