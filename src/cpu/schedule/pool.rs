//! The thread pools: one per number of threads, shared by all contexts of the process. The threads of a pool work in
//! [teams](super::team), one for each dispatch that is running.

use super::team::{Team, is_within};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};

/// Work below this many multiply-adds (or comparable element operations) runs on the calling thread.
///
/// One core does some 60 multiply-adds per nanosecond in a matrix product, and a [`Team`] shares work out in about a
/// microsecond: this is two.
const MIN_PARALLEL_COST: usize = 1 << 17;

thread_local! {
    /// The team that this thread leads.
    static TEAM: RefCell<Option<Arc<Team>>> = const { RefCell::new(None) };
}

/// A handle to a thread pool of a fixed size. Cheap to clone.
#[derive(Clone)]
pub struct Threads {
    pool: Arc<rayon::ThreadPool>,
}

impl Threads {
    /// The pool of `count` threads (at least 1, at most 1024) of this process, started when it is not running.
    pub fn new(count: usize) -> std::io::Result<Threads> {
        static POOLS: Mutex<Option<HashMap<usize, Weak<rayon::ThreadPool>>>> = Mutex::new(None);
        let count = count.clamp(1, 1024);
        let mut pools = POOLS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let pools = pools.get_or_insert_with(HashMap::new);
        if let Some(pool) = pools.get(&count).and_then(Weak::upgrade) {
            return Ok(Threads { pool });
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(count)
            .thread_name(|index| format!("webnn-{index}"))
            .build()
            .map_err(std::io::Error::other)?;
        let pool = Arc::new(pool);
        pools.insert(count, Arc::downgrade(&pool));
        Ok(Threads { pool })
    }

    /// Number of threads.
    pub fn count(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs `work` on this thread with the threads of the pool at hand: they stay awake for what
    /// [`split`](Self::split) has for them until `work` is done.
    pub fn install<R>(&self, work: impl FnOnce() -> R) -> R {
        if self.count() == 1 || is_within() || TEAM.with_borrow(Option::is_some) {
            return work();
        }
        let led = Led::new(self.count());
        self.invite(&led.0);
        work()
    }

    /// Asks for the members that are missing.
    fn invite(&self, team: &Arc<Team>) {
        for _ in 0..team.missing() {
            team.expect_member();
            let team = team.clone();
            self.pool.spawn(move || team.serve());
        }
    }

    /// Calls `work` with ranges that cover `0..items` once, in parallel when `items * cost` is worth it
    /// (`cost` per item, in multiply-adds). Every range but the last is a multiple of `grain` items long.
    ///
    /// The split depends on the number of threads: `work` must compute each item independently of its range.
    pub fn split(&self, items: usize, grain: usize, cost: usize, work: impl Fn(Range<usize>) + Sync) {
        // One copy of the code of the pool serves all closures.
        self.split_dyn(items, grain, cost, &work);
    }

    fn split_dyn(&self, items: usize, grain: usize, cost: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
        let grain = grain.max(1);
        let worthwhile = items.saturating_mul(cost) / MIN_PARALLEL_COST;
        let parts = self.count().min(worthwhile).min(items.div_ceil(grain));
        if parts <= 1 {
            if items > 0 {
                work(0..items);
            }
            return;
        }
        // More ranges than threads, so that a thread that lost its core, or came late, does not hold up the others.
        let parts = (parts * 4).min(worthwhile).min(items.div_ceil(grain));
        let length = items.div_ceil(grain).div_ceil(parts) * grain;
        self.share_dyn(items.div_ceil(length), &|part| work(part * length..((part + 1) * length).min(items)));
    }

    /// Calls `work` with every number below `count` once, in parallel when `cost` (of all of them, in multiply-adds) is
    /// worth it.
    pub fn share(&self, count: usize, cost: usize, work: impl Fn(usize) + Sync) {
        if self.count() == 1 || count <= 1 || cost < 2 * MIN_PARALLEL_COST {
            return (0..count).for_each(work);
        }
        self.share_dyn(count, &work);
    }

    fn share_dyn(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        if is_within() {
            return (0..count).for_each(work);
        }
        self.install(|| {
            match TEAM.with_borrow(Clone::clone).filter(|team| team.size() == self.count()) {
                Some(team) => {
                    self.invite(&team);
                    team.share(count, work);
                }
                // Within the work of another number of threads.
                None => (0..count).for_each(work),
            }
        });
    }
}

/// The team that this thread leads, until it is dropped, also by a panic.
struct Led(Arc<Team>);

impl Led {
    fn new(count: usize) -> Led {
        let team = Team::new(count);
        TEAM.set(Some(team.clone()));
        Led(team)
    }
}

impl Drop for Led {
    fn drop(&mut self) {
        TEAM.set(None);
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn split_covers_every_item_once() {
        for count in [1, 2, 7] {
            let threads = Threads::new(count).unwrap();
            assert_eq!(threads.count(), count);
            for (items, grain) in [(0, 1), (1, 8), (7, 8), (64, 8), (1000, 7), (1001, 1)] {
                let hits: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                threads.split(items, grain, 1 << 20, |range| {
                    assert!(range.start % grain == 0 && (range.end % grain == 0 || range.end == items));
                    range.for_each(|i| _ = hits[i].fetch_add(1, Ordering::Relaxed));
                });
                assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 1), "{items} items, grain {grain}");
            }
        }
    }

    #[test]
    fn work_within_work_is_not_split_again() {
        for (outer, inner) in [(2, 2), (7, 2), (2, 7)] {
            let (outer, inner) = (Threads::new(outer).unwrap(), Threads::new(inner).unwrap());
            let count = AtomicUsize::new(0);
            let add = |range: Range<usize>| _ = count.fetch_add(range.len(), Ordering::Relaxed);
            outer.install(|| inner.split(100, 1, 1 << 20, add));
            outer.split(10, 1, 1 << 20, |range| range.for_each(|_| inner.split(10, 1, 1 << 20, add)));
            assert_eq!(count.into_inner(), 200);
        }
    }

    #[test]
    fn pools_are_shared_and_end_with_their_last_handle() {
        let a = Threads::new(3).unwrap();
        let b = Threads::new(3).unwrap();
        assert!(Arc::ptr_eq(&a.pool, &b.pool));
    }
}
