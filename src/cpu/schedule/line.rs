//! Work that waits for a thread, in one line, and the few threads of the line that take it. Other threads may take it as
//! well: those of the [pools](super::pool), before they go to sleep.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Number of threads that a line may have on any machine. Work of more than a line's maximum waits its turn: threads are
/// scarce, because systems limit their number per user and per container, for all programs together.
pub const FEW: usize = 4;

/// How long a thread of the line waits for more work before it ends. Starting one takes about as long as waking one.
const PATIENCE: Duration = Duration::from_secs(1);

/// Work for a thread. It gets an error, on the thread that made it, if there is no thread and none can be started.
pub type Job = Box<dyn FnOnce(io::Result<()>) + Send>;

/// Jobs in order, and threads that take them.
pub struct Line {
    /// The name of its threads.
    name: &'static str,
    /// Maximum number of them.
    most: fn() -> usize,
    state: Mutex<State>,
    /// Wakes one of its threads.
    arrival: Condvar,
    /// Number of waiting jobs, readable without the lock.
    waiting: AtomicUsize,
}

struct State {
    jobs: VecDeque<Job>,
    /// Number of threads of the line.
    threads: usize,
    /// Number of those that wait for jobs.
    idle: usize,
}

/// Runs a job. If it panics, its waiters notice when the job is dropped, and the thread continues.
pub fn run(job: Job) {
    drop(catch_unwind(AssertUnwindSafe(|| job(Ok(())))));
}

impl Line {
    /// An empty line with at most `most` threads of this name.
    pub const fn new(name: &'static str, most: fn() -> usize) -> Line {
        let state = Mutex::new(State { jobs: VecDeque::new(), threads: 0, idle: 0 });
        Line { name, most, state, arrival: Condvar::new(), waiting: AtomicUsize::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Has a thread of the line run `job`.
    pub fn push(&'static self, job: Job) {
        let mut state = self.lock();
        let hired = self.hire(&mut state);
        if state.threads > 0 {
            return self.append(&mut state, job);
        }
        drop(state);
        job(hired);
    }

    /// Returns `job` with the place that `find` returns. If it finds none, a thread of the line runs the job, or the first
    /// one whose [`next`](Self::next) finds nothing before it: each holder of a place must call that before it leaves.
    pub fn push_unless<P>(&'static self, job: Job, find: impl FnOnce() -> Option<P>) -> Option<(P, Job)> {
        let mut state = self.lock();
        // Places are left under this lock: either `find` sees the place, or its holder sees the job.
        if let Some(place) = find() {
            return Some((place, job));
        }
        // Without a thread of its own, the line waits for the holders of places.
        drop(self.hire(&mut state));
        self.append(&mut state, job);
        None
    }

    /// Takes the first job. If there is none, the caller takes no more: `leave` is called before another job can arrive.
    pub fn next(&self, leave: impl FnOnce()) -> Option<Job> {
        let mut state = self.lock();
        let job = self.take(&mut state);
        if job.is_none() {
            leave();
        }
        job
    }

    fn append(&self, state: &mut State, job: Job) {
        state.jobs.push_back(job);
        self.waiting.store(state.jobs.len(), Ordering::Relaxed);
        self.arrival.notify_one();
    }

    fn take(&self, state: &mut State) -> Option<Job> {
        let job = state.jobs.pop_front();
        self.waiting.store(state.jobs.len(), Ordering::Relaxed);
        job
    }

    /// Starts a thread for one more job, unless one is idle or there are enough.
    fn hire(&'static self, state: &mut State) -> io::Result<()> {
        if state.idle > state.jobs.len() || state.threads >= (self.most)() {
            return Ok(());
        }
        std::thread::Builder::new().name(self.name.into()).spawn(move || self.serve())?;
        state.threads += 1;
        Ok(())
    }

    /// Runs jobs until none comes for a while.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            while let Some(job) = self.take(&mut state) {
                drop(state);
                run(job);
                state = self.lock();
            }
            state.idle += 1;
            let wait = self.arrival.wait_timeout_while(state, PATIENCE, |state| state.jobs.is_empty());
            let (waited, timeout) = wait.unwrap_or_else(PoisonError::into_inner);
            state = waited;
            state.idle -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Instant;

    /// Jobs that run until the sender is dropped, and tell when they begin and that they end.
    fn holding(count: usize) -> (Vec<Job>, Sender<()>, Receiver<&'static str>) {
        let ((go, held), (tell, told)) = (channel::<()>(), channel());
        let held = Arc::new(Mutex::new(held));
        let job = |_| -> Job {
            let (held, tell) = (held.clone(), tell.clone());
            Box::new(move |started| {
                started.unwrap();
                tell.send("begins").unwrap();
                held.lock().unwrap().recv().unwrap_err();
                tell.send("ends").unwrap();
            })
        };
        ((0..count).map(job).collect(), go, told)
    }

    fn next(told: &Receiver<&'static str>) -> &'static str {
        told.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    #[test]
    fn few_threads_run_any_number_of_jobs_and_end() {
        static LINE: Line = Line::new("few", || FEW);
        let (jobs, go, told) = holding(300);
        jobs.into_iter().for_each(|job| LINE.push(job));
        (0..FEW).for_each(|_| assert_eq!(next(&told), "begins"));
        assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "one job more than threads");
        assert_eq!((LINE.lock().threads, LINE.is_empty()), (FEW, false));
        drop(go);
        (0..2 * 300 - FEW).for_each(|_| _ = next(&told));
        let deadline = Instant::now() + Duration::from_secs(20);
        while LINE.lock().threads > 0 {
            assert!(Instant::now() < deadline, "the threads do not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(LINE.lock().idle, 0);
        let (jobs, go, told) = holding(1);
        jobs.into_iter().for_each(|job| LINE.push(job));
        assert_eq!(next(&told), "begins");
        drop(go);
        assert_eq!(next(&told), "ends");
    }

    #[test]
    fn a_job_waits_only_if_there_is_no_place_and_runs_after_those_before_it() {
        static LINE: Line = Line::new("places", || FEW);
        let (mut jobs, go, told) = holding(FEW + 2);
        let last = jobs.split_off(FEW);
        jobs.into_iter().for_each(|job| LINE.push(job));
        (0..FEW).for_each(|_| assert_eq!(next(&told), "begins"));
        let (tell, order) = channel();
        for (index, job) in last.into_iter().enumerate() {
            let tell = tell.clone();
            let numbered: Job = Box::new(move |started| {
                tell.send(index).unwrap();
                job(started);
            });
            assert!(LINE.push_unless(numbered, || None::<()>).is_none());
        }
        let (place, job) = LINE.push_unless(Box::new(|_| {}), || Some(7)).expect("a place");
        run(job);
        assert_eq!(place, 7);
        // This thread had a place, and leaves it when nothing waits.
        let first = LINE.next(|| unreachable!("two jobs wait")).unwrap();
        let second = LINE.next(|| unreachable!("one job waits")).unwrap();
        let mut has_left = false;
        assert!(LINE.next(|| has_left = true).is_none() && has_left);
        drop(go);
        run(first);
        run(second);
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_job_that_panics_leaves_its_thread() {
        static LINE: Line = Line::new("panics", || FEW);
        LINE.push(Box::new(|_| panic!("this ends neither the process nor the thread")));
        let (jobs, go, told) = holding(1);
        drop(go);
        jobs.into_iter().for_each(|job| LINE.push(job));
        assert_eq!((next(&told), next(&told)), ("begins", "ends"));
    }
}
