//! The thread pools: one per number of threads, shared by all contexts of the process. Each thread leads a
//! [team](super::team) or is a member of one.

use super::cores::{Core, are_crowded, available, computing, cores};
use super::line::{FEW, Job, Line, run};
use super::partition::Cut;
use super::team::{Leader, Team, is_within};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hint::spin_loop;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
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
    /// The team that this thread leads, if it is open, or led last: a thread that computes leads the same team again and
    /// again.
    static LEADER: RefCell<Option<Leader>> = const { RefCell::new(None) };

    /// Whether this thread shares no work, see [`Threads::alone`].
    static IS_ALONE: Cell<bool> = const { Cell::new(false) };
}

#[cfg(test)]
thread_local! {
    /// The number of pieces of each section that this thread has shared.
    pub static SECTIONS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
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

/// What the handles to a pool share. When the last one is dropped, the threads end.
struct Pool(Arc<Crew>);

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.seats.iter().for_each(|seat| seat.change(|seated| seated.is_dismissed = true));
    }
}

/// The threads of a pool.
struct Crew {
    /// One per thread.
    seats: Vec<Seat>,
    /// The threads that neither lead nor serve a team, nor are about to. The one that became idle last is taken first,
    /// while its data are still in the caches.
    idle: Mutex<Vec<usize>>,
}

/// Where a thread waits for its next task.
#[derive(Default)]
struct Seat {
    seated: Mutex<Seated>,
    arrival: Condvar,
}

#[derive(Default)]
struct Seated {
    task: Option<Task>,
    is_dismissed: bool,
}

/// What a thread is taken for.
enum Task {
    Job(Job),
    /// To serve a team, on this core.
    Serve(Arc<Team>, Core),
}

impl Seat {
    fn lock(&self) -> MutexGuard<'_, Seated> {
        self.seated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Seated)) {
        change(&mut self.lock());
        self.arrival.notify_one();
    }

    /// Waits for a task; there will be none when the pool is gone.
    fn next(&self) -> Option<Task> {
        let waits = |seated: &mut Seated| seated.task.is_none() && !seated.is_dismissed;
        self.arrival.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner).task.take()
    }
}

impl Crew {
    fn idle(&self) -> MutexGuard<'_, Vec<usize>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the tasks of a thread, and after each of them whatever waits for one.
    fn work(&self, thread: usize) {
        while let Some(task) = self.seats[thread].next() {
            match task {
                Task::Job(job) => run(job),
                Task::Serve(team, core) => {
                    team.serve(waiting);
                    drop((team, core));
                }
            }
            while let Some(job) = LINE.next(|| self.idle().push(thread)) {
                run(job);
            }
        }
    }
}

/// An idle thread of a pool, reserved for a task.
struct IdleThread<'a>(&'a Seat);

impl IdleThread<'_> {
    fn take(self, task: Task) {
        self.0.change(|seated| seated.task = Some(task));
    }
}

impl Threads {
    /// Returns the process's pool of `count` threads (at least 1, at most 1024), and starts it if it is not running.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(count: usize) -> io::Result<Threads> {
        static POOLS: Mutex<Option<HashMap<usize, Weak<Pool>>>> = Mutex::new(None);
        let size = count.clamp(1, 1024);
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let pools = pools.get_or_insert_with(HashMap::new);
        if let Some(pool) = pools.get(&size).and_then(Weak::upgrade) {
            return Ok(Threads { pool });
        }
        let idle = Mutex::new((0..size).rev().collect());
        let crew = Arc::new(Crew { seats: (0..size).map(|_| Seat::default()).collect(), idle });
        let pool = Arc::new(Pool(crew.clone()));
        for index in 0..size {
            let crew = crew.clone();
            std::thread::Builder::new().name(format!("webnn-{index}")).spawn(move || crew.work(index))?;
        }
        pools.insert(size, Arc::downgrade(&pool));
        Ok(Threads { pool })
    }

    /// Number of threads of the pool.
    pub fn size(&self) -> usize {
        self.pool.0.seats.len()
    }

    /// Number of handles that keep the pool running.
    #[cfg(test)]
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.pool)
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
        if let Some((thread, job)) = LINE.push_unless(Box::new(|_| work()), || self.idle()) {
            thread.take(Task::Job(job));
        }
    }

    /// Reserves an idle thread.
    fn idle(&self) -> Option<IdleThread<'_>> {
        let thread = self.pool.0.idle().pop()?;
        Some(IdleThread(&self.pool.0.seats[thread]))
    }

    /// Runs `work` on this thread, as the leader of a team. Threads of the pool join it when [`split`](Self::split) or
    /// [`install`](Self::install) needs them.
    pub fn lead<R>(&self, work: impl FnOnce() -> R) -> R {
        let leads = |leader: &Option<Leader>| leader.as_ref().is_some_and(|leader| !leader.is_closed());
        if self.count() == 1 || is_within() || LEADER.with_borrow(leads) {
            return work();
        }
        LEADER.with_borrow_mut(|led| match led {
            Some(leader) if leader.team().size() == self.count() => leader.reopen(),
            _ => *led = Some(Leader::new(self.count())),
        });
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

    /// Runs `work`, which computes, on this thread alone, and wakes no other.
    pub fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        let _alone = Alone(IS_ALONE.replace(true));
        computing(work)
    }

    /// Whether this thread leads a team of this pool, and neither works [alone](Self::alone) nor is within a piece of a
    /// section.
    fn leads(&self) -> bool {
        let leads = |leader: &Leader| !leader.is_closed() && leader.team().size() == self.count();
        !is_within() && !IS_ALONE.get() && LEADER.with_borrow(|leader| leader.as_ref().is_some_and(leads))
    }

    /// Invites the missing members, as far as cores are free: more would only slow the others down.
    fn invite(&self, leader: &Leader) {
        for _ in 0..leader.team().missing() {
            let Some(core) = Core::find() else { return };
            // Otherwise, all threads lead or serve other teams.
            let Some(thread) = self.idle() else { return };
            let team = leader.team().clone();
            team.expect_member();
            thread.take(Task::Serve(team, core));
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

    /// The ranges for [`split`](Self::split).
    pub fn cut(&self, items: usize, grain: usize, cost: usize) -> Cut {
        let worthwhile = items.saturating_mul(cost) / MIN_PARALLEL_COST;
        Cut::for_threads(items, grain, worthwhile, self.count())
    }

    fn split_dyn(&self, items: usize, grain: usize, cost: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
        let cut = self.cut(items, grain, cost);
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
            // This thread is within a piece or works alone, or its team has another number of threads.
            if !self.leads() {
                return (0..count).for_each(work);
            }
            #[cfg(test)]
            SECTIONS.with_borrow_mut(|sections| sections.push(count));
            LEADER.with_borrow_mut(|leader| {
                let leader = leader.as_mut().expect("this thread leads");
                self.invite(leader);
                leader.share(count, work);
            });
        });
    }
}

/// Restores whether this thread works alone when dropped, even after a panic.
struct Alone(bool);

impl Drop for Alone {
    fn drop(&mut self) {
        IS_ALONE.set(self.0);
    }
}

/// Dismisses the team that this thread leads when dropped, even after a panic.
struct Led;

impl Drop for Led {
    fn drop(&mut self) {
        LEADER.with_borrow(|leader| leader.iter().for_each(Leader::close));
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
    use std::sync::atomic::{AtomicUsize, Ordering};
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
        while threads.pool.0.idle().len() < threads.size() {
            assert!(Instant::now() < deadline, "the threads do not become idle");
            yield_now();
        }
        threads.spawn(|| panic!("this does not end the process"));
    }
}
