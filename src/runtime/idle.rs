//! Memory of contexts that have nothing to do goes back to the system.

use super::background::spawn;
use crate::cpu::arena::Arena;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How long an arena is kept without need: longer than the pauses of somebody who types.
const IDLE: Duration = Duration::from_secs(5);

/// How often arenas are looked at while there are any.
const INTERVAL: Duration = Duration::from_secs(1);

/// The arena of a context, which is given back when it was not needed for some seconds.
#[derive(Default)]
pub struct IdleArena {
    /// The arena itself.
    pub arena: Arena,
    /// Whether it is among those that are looked at.
    is_listed: AtomicBool,
}

/// The arenas that are looked at.
struct Listed {
    arenas: Vec<Weak<IdleArena>>,
    /// Whether there is a thread that does.
    is_watched: bool,
}

static LISTED: Mutex<Listed> = Mutex::new(Listed { arenas: Vec::new(), is_watched: false });

fn lock() -> MutexGuard<'static, Listed> {
    LISTED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl IdleArena {
    /// Called when nothing more is to be computed for now.
    pub fn rest(self: &Arc<Self>) {
        if self.arena.is_small() || self.is_listed.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut listed = lock();
        listed.arenas.push(Arc::downgrade(self));
        if !listed.is_watched {
            // Without a thread the arena stays until there is one, or the context ends.
            listed.is_watched = spawn(watch).is_ok();
        }
    }
}

/// Gives back what is not needed until there is nothing left to give back.
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
