//! The thread pools: one per number of threads, shared by all contexts of the process. Each thread leads a
//! [team](super::team) or is a member of one.

use super::cores::{Core, are_crowded, available, computing, cores};
use super::line::{FEW, Job, Line, run};
use super::partition::Cut;
use super::team::{Leader, is_within};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hint::spin_loop;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// Work below this many multiply-adds (or comparable element operations) runs on the calling thread.
///
/// A core does some 60 multiply-adds per nanosecond in a matrix product, and a [team](super::team) shares work within
/// about a microsecond: this is about two microseconds of work.
const MIN_PARALLEL_COST: usize = 1 << 17;

/// How long a member waits for the next section before it leaves the team: long compared with a step that is not
/// shared, and too short for users or other processes to notice.
const PATIENCE: Duration = Duration::from_micros(200);

/// How long a member spins before it starts yielding its core to other threads.
const ALERT: Duration = Duration::from_micros(20);

/// Looks at the gate between two looks at the clock: one or two microseconds.
const LOOKS: u32 = 32;

thread_local! {
    /// The team that this thread leads.
    static LEADER: RefCell<Option<Leader>> = const { RefCell::new(None) };
}

/// Work that found no idle thread in its pool. The threads of all pools serve it, and as many of its own as there are cores:
/// contexts with one thread each share a pool of one thread, but compute at the same time.
static LINE: Line = Line::new("webnn-more", || cores().unwrap_or(FEW).max(FEW));

/// Whether work waits for a thread of any pool. Work that can continue later should yield its thread.
pub fn is_awaited() -> bool {
    !LINE.is_empty()
}

/// A handle to a thread pool of a fixed size. Cheap to clone.
#[derive(Clone)]
pub struct Threads {
    pool: Arc<Pool>,
}

struct Pool {
    threads: rayon::ThreadPool,
    /// Number of threads that lead or serve a team, or are about to.
    taken: AtomicUsize,
}

/// An idle thread of a pool, reserved for a job.
struct Place(Arc<Pool>);

impl Place {
    /// Runs `job` on that thread, and then whatever waits for one.
    fn run(self, job: Job) {
        let Place(pool) = self;
        let own = pool.clone();
        pool.threads.spawn(move || {
            let mut job = Some(job);
            while let Some(next) = job.take() {
                run(next);
                job = LINE.next(|| _ = own.taken.fetch_sub(1, Ordering::Relaxed));
            }
        });
    }
}

impl Threads {
    /// Returns the process's pool of `count` threads (at least 1, at most 1024), and starts it if it is not running.
    pub fn new(count: usize) -> std::io::Result<Threads> {
        static POOLS: Mutex<Option<HashMap<usize, Weak<Pool>>>> = Mutex::new(None);
        let count = count.clamp(1, 1024);
        let mut pools = POOLS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let pools = pools.get_or_insert_with(HashMap::new);
        if let Some(pool) = pools.get(&count).and_then(Weak::upgrade) {
            return Ok(Threads { pool });
        }
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(count)
            .thread_name(|index| format!("webnn-{index}"))
            .build()
            .map_err(std::io::Error::other)?;
        let pool = Arc::new(Pool { threads, taken: AtomicUsize::new(0) });
        pools.insert(count, Arc::downgrade(&pool));
        Ok(Threads { pool })
    }

    /// Number of threads of the pool.
    pub fn size(&self) -> usize {
        self.pool.threads.current_num_threads()
    }

    /// Number of threads that share work: those of the pool for which there are cores. Work cut for more of them would
    /// read operands again for parts that nobody takes.
    pub fn count(&self) -> usize {
        self.size().min(available())
    }

    /// The number of threads among which sharing work of this cost (in multiply-adds) is worth it, at least 1.
    pub fn useful(&self, cost: usize) -> usize {
        self.count().min(cost / MIN_PARALLEL_COST).max(1)
    }

    /// Runs `work` on an idle thread of the pool. If none is idle, it runs on one of the few threads for such work, or on
    /// the first thread of any pool that becomes idle, in the order of arrival.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        if let Some((place, job)) = LINE.push_unless(Box::new(|_| work()), || self.place()) {
            place.run(job);
        }
    }

    /// Reserves an idle thread.
    fn place(&self) -> Option<Place> {
        let size = self.size();
        let one_more = |taken| (taken < size).then_some(taken + 1);
        self.pool.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Place(self.pool.clone()))
    }

    /// Runs `work` on this thread, as the leader of a team. Threads of the pool join it when [`split`](Self::split) or
    /// [`install`](Self::install) needs them.
    pub fn lead<R>(&self, work: impl FnOnce() -> R) -> R {
        if self.count() == 1 || is_within() || LEADER.with_borrow(Option::is_some) {
            return work();
        }
        LEADER.set(Some(Leader::new(self.count())));
        let _led = Led;
        work()
    }

    /// Runs `work`, which computes, on this thread. Until it returns, the pool's threads stay awake for
    /// [`split`](Self::split).
    pub fn install<R>(&self, work: impl FnOnce() -> R) -> R {
        computing(|| {
            self.lead(|| {
                if self.leads() {
                    LEADER.with_borrow(|leader| leader.iter().for_each(|leader| self.invite(leader)));
                }
                work()
            })
        })
    }

    /// Whether this thread leads a team of this pool and is not within a piece of a section.
    fn leads(&self) -> bool {
        !is_within()
            && LEADER.with_borrow(|leader| leader.as_ref().is_some_and(|led| led.team().size() == self.count()))
    }

    /// Invites the missing members, as far as cores are free: more would only slow the others down.
    fn invite(&self, leader: &Leader) {
        for _ in 0..leader.team().missing() {
            let Some(core) = Core::find() else { return };
            // Otherwise, all threads lead or serve other teams.
            let Some(place) = self.place() else { return };
            let team = leader.team().clone();
            team.expect_member();
            place.run(Box::new(move |_| {
                let _core = core;
                team.serve(waiting);
            }));
        }
    }

    /// Calls `work` with ranges that cover `0..items` once, in parallel if `items * cost` is worth it (`cost` per item,
    /// in multiply-adds). The length of every range except the last is a multiple of `grain`.
    ///
    /// The ranges depend on the number of threads: `work` must compute each item independently of its range.
    pub fn split(&self, items: usize, grain: usize, cost: usize, work: impl Fn(Range<usize>) + Sync) {
        // All closures share one copy of the pool's code.
        self.split_dyn(items, grain, cost, &work);
    }

    fn split_dyn(&self, items: usize, grain: usize, cost: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
        let worthwhile = items.saturating_mul(cost) / MIN_PARALLEL_COST;
        let cut = Cut::for_threads(items, grain, worthwhile, self.count());
        if self.count() > 1 && cut.parts() > 1 {
            self.share_dyn(cut.parts(), &|part| work(cut.range(part)));
        } else if items > 0 {
            work(0..items);
        }
    }

    /// Calls `work` once with every number below `count`, in parallel if `cost` is worth it (of all calls together, in
    /// multiply-adds).
    pub fn share(&self, count: usize, cost: usize, work: impl Fn(usize) + Sync) {
        if self.count() == 1 || count <= 1 || cost < 2 * MIN_PARALLEL_COST {
            return (0..count).for_each(work);
        }
        self.share_dyn(count, &work);
    }

    fn share_dyn(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        self.lead(|| {
            // This thread is within a piece, or its team has another number of threads.
            if !self.leads() {
                return (0..count).for_each(work);
            }
            LEADER.with_borrow_mut(|leader| {
                let leader = leader.as_mut().expect("this thread leads");
                self.invite(leader);
                leader.share(count, work);
            });
        });
    }
}

/// Ends the team that this thread leads when dropped, even after a panic.
struct Led;

impl Drop for Led {
    fn drop(&mut self) {
        LEADER.set(None);
    }
}

/// Starts a member's wait: the returned closure decides whether to keep waiting.
fn waiting() -> impl FnMut() -> bool {
    let (start, mut looks, mut is_alert) = (Instant::now(), 0, true);
    move || {
        looks += 1;
        if is_alert && looks % LOOKS != 0 {
            spin_loop();
            return true;
        }
        let waited = start.elapsed();
        is_alert = waited < ALERT;
        if !is_alert {
            yield_now();
        }
        waited < PATIENCE && !are_crowded() && !is_awaited()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

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
    fn nested_work_is_not_split() {
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

    #[test]
    fn a_pool_takes_as_much_work_as_it_has_threads_and_other_threads_take_more() {
        let threads = Threads::new(5).unwrap();
        let (go, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let (tell, told) = channel();
        let work = || {
            let (held, tell) = (held.clone(), tell.clone());
            move || {
                tell.send(std::thread::current().name().map(str::to_string)).unwrap();
                // Ends when `go` is dropped.
                held.lock().unwrap().recv().unwrap_err();
            }
        };
        for place in 1..=6 {
            threads.spawn(work());
            let name = told.recv_timeout(Duration::from_secs(20)).unwrap().expect("threads have names");
            assert_eq!(name == "webnn-more", place == 6, "{name}");
        }
        // No thread is free to help.
        let count = AtomicUsize::new(0);
        threads.split(100, 1, 1 << 20, |range| _ = count.fetch_add(range.len(), Ordering::Relaxed));
        assert_eq!(count.into_inner(), 100);
        drop(go);
        let deadline = Instant::now() + Duration::from_secs(10);
        while threads.pool.taken.load(Ordering::Relaxed) > 0 {
            assert!(Instant::now() < deadline, "the threads do not become idle");
            yield_now();
        }
        threads.spawn(|| panic!("this does not end the process"));
    }
}
