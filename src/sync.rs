//! What threads that take no turns by a lock are made of: from the standard library, or, in the crate `loom/`, from loom, which tries all
//! orders in which they can run, and everything that weak memory lets them see.

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

/// [`std::cell::UnsafeCell`] with the interface of loom's, which sees each access from its begin to its end.
#[cfg(not(loom))]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell that holds `value`.
    pub fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Calls `read` with a pointer to what is in the cell, to be read.
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Calls `write` with a pointer to what is in the cell, to be read and written.
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Variables of each thread, with constants that they begin with.
macro_rules! of_thread {
    ($($(#[$meta:meta])* $NAME:ident: $Type:ty = $first:expr;)*) => {
        #[cfg(not(loom))]
        std::thread_local! { $($(#[$meta])* static $NAME: $Type = const { $first };)* }
        #[cfg(loom)]
        loom::thread_local! { $($(#[$meta])* static $NAME: $Type = $first;)* }
    };
}
pub(crate) use of_thread;

/// A turn of a wait for another thread that is about to be done; `turn` counts them.
pub fn pause(turn: usize) {
    #[cfg(loom)]
    let _ = (turn, loom::thread::yield_now());
    // The other thread may wait for the core that this one waits on.
    #[cfg(not(loom))]
    if turn % 64 == 63 { std::thread::yield_now() } else { std::hint::spin_loop() }
}
