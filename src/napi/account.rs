//! The account of memory that JavaScript keeps alive outside of its heap, as the garbage collector should know it.

use napi::{Env, sys};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

/// Bytes that live because JavaScript holds handles. Any thread changes their number; the garbage collector learns the
/// difference on the JavaScript thread: at once, or when native code is entered there next.
pub struct Account {
    live: AtomicI64,
    reported: AtomicI64,
    /// Null once the environment has ended.
    env: AtomicPtr<sys::napi_env__>,
    thread: ThreadId,
    /// Memory that results share: its size and the number of results, by its address.
    shared: Mutex<HashMap<usize, (usize, usize)>>,
}

impl Account {
    /// The account of an environment. Called on its thread.
    pub fn new(env: &Env) -> Account {
        let (live, reported, shared) = Default::default();
        Account { live, reported, env: AtomicPtr::new(env.raw()), thread: std::thread::current().id(), shared }
    }

    /// Reports nothing from now on. Called at the end of the environment.
    pub fn close(&self) {
        self.env.store(null_mut(), Ordering::Relaxed);
    }

    /// Reports the difference to the last report; does nothing on other threads.
    pub fn report(&self) {
        if std::thread::current().id() != self.thread {
            return;
        }
        let env = self.env.load(Ordering::Relaxed);
        let live = self.live.load(Ordering::Relaxed);
        let change = live - self.reported.swap(live, Ordering::Relaxed);
        if env.is_null() || change == 0 {
            return;
        }
        let mut total = 0;
        // SAFETY: this is the thread of the environment, which has not ended: `close` is called there before it does.
        let status = unsafe { sys::napi_adjust_external_memory(env, change, &mut total) };
        // Fails only for null arguments.
        debug_assert_eq!(status, sys::Status::napi_ok);
    }

    /// What the garbage collector was told.
    pub fn reported(&self) -> i64 {
        self.reported.load(Ordering::Relaxed)
    }

    fn change(&self, before: usize, after: usize) {
        if before != after {
            self.live.fetch_add(after as i64 - before as i64, Ordering::Relaxed);
            self.report();
        }
    }

    /// Counts memory of `bytes` bytes at `address` while the returned share or another one of it lives: caches that
    /// grow in place share their memory with those that they grew from.
    pub fn share(self: &Arc<Self>, address: usize, bytes: usize) -> Share {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, shares) = shared.entry(address).or_insert((bytes, 0));
        *shares += 1;
        let is_first = *shares == 1;
        // A report may run finalizers, which end shares.
        drop(shared);
        if is_first {
            self.change(0, bytes);
        }
        Share { account: self.clone(), address }
    }
}

/// A result's share of memory, see [`Account::share`].
pub struct Share {
    account: Arc<Account>,
    address: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shared = self.account.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let Entry::Occupied(mut entry) = shared.entry(self.address) else { return };
        entry.get_mut().1 -= 1;
        let ended = (entry.get().1 == 0).then(|| entry.remove().0);
        drop(shared);
        self.account.change(ended.unwrap_or(0), 0);
    }
}

/// Bytes that one object keeps alive.
pub struct Weight {
    account: Arc<Account>,
    bytes: AtomicUsize,
}

impl Weight {
    /// Counts `bytes` bytes.
    pub fn new(account: &Arc<Account>, bytes: usize) -> Weight {
        let weight = Weight { account: account.clone(), bytes: AtomicUsize::new(0) };
        weight.set(bytes);
        weight
    }

    /// The counted bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts `bytes` bytes in place of the previous number.
    pub fn set(&self, bytes: usize) {
        self.account.change(self.bytes.swap(bytes, Ordering::Relaxed), bytes);
    }

    /// Counts `bytes` additional bytes.
    pub fn add(&self, bytes: usize) {
        self.set(self.bytes() + bytes);
    }
}

/// The same bytes again, for another object that keeps them alive as well.
impl Clone for Weight {
    fn clone(&self) -> Weight {
        Weight::new(&self.account, self.bytes())
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.set(0);
    }
}
