//! Returns memory of idle contexts to the system.

use crate::cpu::arena::Arena;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How long an arena is kept unused: longer than the pauses of somebody typing.
const IDLE: Duration = Duration::from_secs(5);

/// How often arenas are checked, as long as there are any.
const INTERVAL: Duration = Duration::from_secs(1);

/// The arena of a context, freed if it is unused for some seconds.
#[derive(Default)]
pub struct IdleArena {
    /// The arena itself.
    pub arena: Arena,
    /// Whether it is in the list of arenas to check.
    is_listed: AtomicBool,
}

/// The arenas to check.
struct Listed {
    arenas: Vec<Weak<IdleArena>>,
    /// Whether a thread checks them.
    is_watched: bool,
}

static LISTED: Mutex<Listed> = Mutex::new(Listed { arenas: Vec::new(), is_watched: false });

fn lock() -> MutexGuard<'static, Listed> {
    LISTED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl IdleArena {
    /// Called when there is nothing to compute for now.
    pub fn rest(self: &Arc<Self>) {
        if self.arena.is_small() || self.is_listed.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut listed = lock();
        listed.arenas.push(Arc::downgrade(self));
        if !listed.is_watched {
            // If no thread can be started, the arena stays until one can, or the context ends.
            listed.is_watched = std::thread::Builder::new().name("webnn-idle".into()).spawn(watch).is_ok();
        }
    }
}

/// Frees unused arenas until none are left.
fn watch() {
    loop {
        std::thread::sleep(INTERVAL);
        let mut listed = lock();
        listed.arenas.retain(|arena| {
            let Some(arena) = arena.upgrade() else { return false };
            let is_small = arena.arena.release(IDLE);
            if is_small {
                arena.is_listed.store(false, Ordering::Relaxed);
            }
            !is_small
        });
        if listed.arenas.is_empty() {
            listed.is_watched = false;
            return;
        }
    }
}
