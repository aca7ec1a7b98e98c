//! The thread pools: one per number of threads, shared by all contexts of the process.

use rayon::prelude::*;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};

/// Work below this many multiply-adds (or comparable element operations) runs on the calling thread.
///
/// Waking a worker costs about 5 us; one core does some tens of multiply-adds per nanosecond in a matrix
/// product and about one element per nanosecond in an element-wise loop, which callers express in the cost
/// they pass. 64 Ki units are then 5 to 60 us of work.
const MIN_PARALLEL_COST: usize = 1 << 16;

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

    /// Calls `work` with ranges that cover `0..items` once, in parallel when `items * cost` is worth it
    /// (`cost` per item, in multiply-adds). Every range but the last is a multiple of `grain` items long.
    ///
    /// The split depends on the number of threads: `work` must compute each item independently of its range.
    pub fn split(&self, items: usize, grain: usize, cost: usize, work: impl Fn(Range<usize>) + Sync) {
        let grain = grain.max(1);
        let worthwhile = items.saturating_mul(cost) / MIN_PARALLEL_COST;
        let parts = self.count().min(worthwhile).min(items.div_ceil(grain));
        if parts <= 1 {
            if items > 0 {
                work(0..items);
            }
            return;
        }
        // More ranges than threads, so that a thread that lost its core does not hold up the others.
        let parts = (parts * 4).min(worthwhile).min(items.div_ceil(grain));
        let length = items.div_ceil(grain).div_ceil(parts) * grain;
        self.pool.install(|| {
            (0..items.div_ceil(length))
                .into_par_iter()
                .for_each(|part| work(part * length..((part + 1) * length).min(items)));
        });
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
    fn pools_are_shared_and_end_with_their_last_handle() {
        let a = Threads::new(3).unwrap();
        let b = Threads::new(3).unwrap();
        assert!(Arc::ptr_eq(&a.pool, &b.pool));
    }
}
