//! Frees memory that is not used for a while. One thread for the whole process sleeps until something may be due; there
//! is none if nothing can become due.

use crate::cpu::arena::Arena;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long memory that runs reuse is kept unused: longer than the pauses of somebody typing.
pub const IDLE: Duration = Duration::from_secs(5);

/// Something that frees memory when it was unused for some time.
pub trait Idle: Send + Sync {
    /// Called when it may be due. Returns when to call again; `None` if it need not be watched any more. Must not take
    /// long: everything else that is watched waits.
    fn look(&self) -> Option<Instant>;
}

/// What the thread watches.
struct Watched {
    /// The items, and when they may be due.
    items: Vec<(Instant, Weak<dyn Idle>)>,
    has_thread: bool,
}

static WATCHED: Mutex<Watched> = Mutex::new(Watched { items: Vec::new(), has_thread: false });

/// Wakes the thread when an item may be due before all others.
static SOONER: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Watched> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the thread [look](Idle::look) at `item` at the time `due`.
fn watch(item: Weak<dyn Idle>, due: Instant) {
    let mut watched = lock();
    let is_first = watched.items.iter().all(|(other, _)| due < *other);
    watched.items.push((due, item));
    if !watched.has_thread {
        // If no thread can be started, the memory stays until one can, or its owner ends.
        watched.has_thread = std::thread::Builder::new().name("webnn-idle".into()).spawn(look_after).is_ok();
    } else if is_first {
        SOONER.notify_one();
    }
}

/// Looks at all items when they may be due, until none are left.
fn look_after() {
    let mut watched = lock();
    loop {
        let Some(next) = watched.items.iter().map(|(due, _)| *due).min() else {
            watched.has_thread = false;
            return;
        };
        let now = Instant::now();
        if now < next {
            (watched, _) = SOONER.wait_timeout(watched, next - now).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let due: Vec<_> = watched.items.extract_if(.., |(due, _)| *due <= now).collect();
        // Without the lock: looking may end the last owner of an item, whatever that frees.
        drop(watched);
        let again = |(_, item): (Instant, Weak<dyn Idle>)| Some((item.upgrade()?.look()?, item));
        let again: Vec<_> = due.into_iter().filter_map(again).collect();
        watched = lock();
        watched.items.extend(again);
    }
}

/// Whether an item is watched: at most once at a time.
#[derive(Default)]
pub struct Watch(AtomicBool);

impl Watch {
    /// Has the thread [look](Idle::look) at `item` at the time `due`, unless it is watched already.
    pub fn begin<T: Idle + 'static>(&self, item: &Arc<T>, due: Instant) {
        if !self.0.swap(true, Ordering::SeqCst) {
            let item: Weak<T> = Arc::downgrade(item);
            watch(item, due);
        }
    }

    /// What [`Idle::look`] returns if the item may be due again at the time that `look` returns.
    pub fn look(&self, look: impl FnOnce() -> Option<Instant>) -> Option<Instant> {
        // Before the check: a use that ends after it has the item watched again.
        self.0.store(false, Ordering::SeqCst);
        look().filter(|_| !self.0.swap(true, Ordering::SeqCst))
    }
}

/// The arena of a context, freed if it is unused for some seconds.
#[derive(Default)]
pub struct IdleArena {
    /// The arena itself.
    pub arena: Arena,
    watch: Watch,
}

impl IdleArena {
    /// Called when there is nothing to compute for now.
    pub fn rest(self: &Arc<Self>) {
        if !self.arena.is_small() {
            self.watch.begin(self, Instant::now() + IDLE);
        }
    }
}

impl Idle for IdleArena {
    fn look(&self) -> Option<Instant> {
        self.watch.look(|| self.arena.release(IDLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::{Sender, channel};

    /// Asks to be looked at again some times, and tells when that happens.
    struct Counted {
        looks: AtomicUsize,
        tell: Sender<Instant>,
    }

    impl Idle for Counted {
        fn look(&self) -> Option<Instant> {
            let now = Instant::now();
            self.tell.send(now).unwrap();
            (self.looks.fetch_sub(1, Ordering::SeqCst) > 1).then(|| now + Duration::from_millis(1))
        }
    }

    #[test]
    fn items_are_looked_at_when_they_may_be_due_and_not_kept_alive() {
        const LONG: Duration = Duration::from_secs(20);
        let counted = |looks: usize| {
            let (tell, told) = channel();
            (Arc::new(Counted { looks: AtomicUsize::new(looks), tell }), told)
        };
        let (far, far_told) = counted(1);
        let weak: Weak<Counted> = Arc::downgrade(&far);
        watch(weak, Instant::now() + 3600 * Duration::from_secs(1));
        // The thread sleeps for long, or is about to.
        let (near, near_told) = counted(3);
        let (weak, due): (Weak<Counted>, _) = (Arc::downgrade(&near), Instant::now() + Duration::from_millis(5));
        watch(weak, due);
        for _ in 0..3 {
            assert!(near_told.recv_timeout(LONG).unwrap() >= due);
        }
        let weak = Arc::downgrade(&near);
        drop(near);
        // It was let go after the third look: the channel is closed.
        assert!(near_told.recv_timeout(LONG).is_err() && weak.upgrade().is_none());
        assert!(far_told.try_recv().is_err());
    }
}
