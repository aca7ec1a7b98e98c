//! Timelines: one ordered queue of work per context, served by a thread of the pool that shares the work. A request to
//! an idle timeline wakes that thread, which leads the other threads until the queue is empty, or, while other work
//! waits for a thread, until its time slice is over. Work that is shorter than a wake-up may run on the requesting
//! thread, in a [`Turn`].

use super::background::panicked;
use super::idle::IdleArena;
use super::queue::{Left, Queue, Server};
use crate::cpu::schedule::computing;
use crate::cpu::schedule::pool::{Threads, is_awaited};
use crate::cpu::simd::Isa;
use crate::cpu::steps::Env;
use crate::error::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::ops::ControlFlow::{self, Break, Continue};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Wakes the thread that waits for the end of requests.
pub type Wake = Box<dyn FnOnce() + Send>;

type Tell = Box<dyn FnOnce(Result<()>) -> Option<Wake> + Send>;

/// Called once with the result of a request. If it is dropped before (its timeline ended first), it reports that.
pub struct Done(Option<Tell>);

impl Done {
    /// Calls `tell` once, nearly always on a background thread.
    pub fn new(tell: impl FnOnce(Result<()>) + Send + 'static) -> Done {
        Done::waking(|result| {
            tell(result);
            None
        })
    }

    /// Like [`new`](Self::new); the function that `tell` returns is called after all requests that ended together are
    /// reported.
    pub fn waking(tell: impl FnOnce(Result<()>) -> Option<Wake> + Send + 'static) -> Done {
        Done(Some(Box::new(tell)))
    }

    /// For work whose end nobody waits for.
    pub fn unobserved() -> Done {
        Done(None)
    }

    /// The same, for errors with a code.
    pub fn coded(mut self) -> Done {
        Done(self.0.take().map(|tell| -> Tell { Box::new(|result| tell(result.map_err(Error::with_code))) }))
    }

    /// Reports the result now.
    pub fn finish(mut self, result: Result<()>) {
        if let Some(wake) = self.tell(result) {
            wake();
        }
    }

    fn tell(&mut self, result: Result<()>) -> Option<Wake> {
        self.0.take().and_then(|tell| tell(result))
    }
}

impl Default for Done {
    fn default() -> Done {
        Done::unobserved()
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        if let Some(wake) = self.tell(Err(destroyed())) {
            wake();
        }
    }
}

/// The reason for the loss of a context that was destroyed, or that ended with its environment.
const DESTROYED: &str = "it was destroyed";

/// The error of all requests to a lost context; `kind` says whether its GPU was lost.
pub fn lost(kind: ErrorKind, reason: &str) -> Error {
    Error::new(kind, format!("the context is lost: {reason}"))
}

/// Like [`lost`], for a context that was destroyed.
fn destroyed() -> Error {
    lost(ErrorKind::InvalidState, DESTROYED)
}

/// Work that continues elsewhere: a poll for its end waits for at most the given time.
pub type Later = Box<dyn FnMut(Duration) -> Option<Result<()>> + Send>;

type Work = Box<dyn FnOnce(&Env) -> Result<Option<Later>> + Send>;

struct Request {
    work: Work,
    done: Done,
    /// Whether it also runs on a lost timeline.
    always: bool,
    /// Whether it takes about a microsecond.
    short: bool,
}

/// The requests of a timeline whose thread may hang that have not ended, in order.
#[derive(Default)]
struct Unended(Mutex<VecDeque<Weak<Mutex<Done>>>>);

impl Unended {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Weak<Mutex<Done>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `done` so that it can end before the request does; returns what the request reports to.
    fn keep(&self, done: Done) -> Done {
        let kept = Arc::new(Mutex::new(done));
        let mut unended = self.lock();
        while unended.front().is_some_and(|done| done.strong_count() == 0) {
            unended.pop_front();
        }
        unended.push_back(Arc::downgrade(&kept));
        let take = move || std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
        Done::waking(move |result| take().tell(result))
    }

    /// Ends all of them with this error.
    fn end(&self, error: &Error) {
        let unended = std::mem::take(&mut *self.lock());
        for done in unended.iter().filter_map(Weak::upgrade) {
            let done = std::mem::take(&mut *done.lock().unwrap_or_else(PoisonError::into_inner));
            done.finish(Err(error.clone()));
        }
    }
}

/// The resources of a timeline, and its queue.
struct Worker {
    threads: Threads,
    isa: Isa,
    arena: Arc<IdleArena>,
    /// Why the context is lost.
    lost: OnceLock<Error>,
    queue: Queue<Request>,
    /// Set if its thread may hang.
    unended: OnceLock<Unended>,
    /// Whether nobody waits for its thread any more: it hangs.
    is_abandoned: AtomicBool,
}

/// The ordered queue of one context. Requests that are queued when the last handle is dropped still run.
pub struct Timeline {
    worker: Arc<Worker>,
}

impl Timeline {
    /// An empty timeline for work on `threads`.
    pub fn new(threads: Threads, isa: Isa) -> Timeline {
        let (arena, lost, queue, unended, is_abandoned) = Default::default();
        Timeline { worker: Arc::new(Worker { threads, isa, arena, lost, queue, unended, is_abandoned }) }
    }

    /// The instruction set of its work.
    pub fn isa(&self) -> Isa {
        self.worker.isa
    }

    /// Returns a function that lets requests added from then on end while the thread hangs in one of them, see
    /// [`abandoning`](Self::abandoning). For work on the timeline.
    pub fn expecting(&self) -> impl Fn() + Send + use<> {
        let worker = Arc::downgrade(&self.worker);
        move || worker.upgrade().into_iter().for_each(|worker| _ = worker.unended.get_or_init(Unended::default))
    }

    /// Appends `work`. It runs after all earlier work, unless the context is lost by then; `done` receives the result.
    /// A panic in `work` becomes an OperationError.
    pub fn enqueue(&self, work: impl FnOnce(&Env) -> Result<()> + Send + 'static, done: Done) {
        self.send(Request { work: ended(work), done, always: false, short: false });
    }

    /// Like [`enqueue`](Self::enqueue), for work that continues elsewhere: later work begins in the meantime, and ends
    /// after it.
    pub fn enqueue_later(&self, work: impl FnOnce(&Env) -> Result<Later> + Send + 'static, done: Done) {
        self.enqueue_any(|env| work(env).map(Some), done);
    }

    /// Like [`enqueue`](Self::enqueue), for work that continues elsewhere if it returns a continuation.
    pub fn enqueue_any(&self, work: impl FnOnce(&Env) -> Result<Option<Later>> + Send + 'static, done: Done) {
        self.send(Request { work: Box::new(work), done, always: false, short: false });
    }

    /// Like [`enqueue`](Self::enqueue), for work of about a microsecond. The ends of earlier requests may be reported
    /// after it: reporting one by one would take longer than the work.
    pub fn enqueue_short(&self, work: impl FnOnce(&Env) -> Result<()> + Send + 'static, done: Done) {
        self.send(Request { work: ended(work), done, always: false, short: true });
    }

    /// Appends work that frees memory: it runs even if the context is lost by then.
    pub fn enqueue_release(&self, release: impl FnOnce() + Send + 'static) {
        let work = move |_: &Env| {
            release();
            Ok(())
        };
        self.send(Request { work: ended(work), done: Done::unobserved(), always: true, short: false });
    }

    /// Frees the arena after all earlier work.
    pub fn release_arena(&self) {
        let arena = self.arena();
        self.enqueue_release(move || _ = arena.arena.release(Duration::ZERO));
    }

    /// The arena of its plans.
    pub(super) fn arena(&self) -> Arc<IdleArena> {
        self.worker.arena.clone()
    }

    fn send(&self, mut request: Request) {
        let worker = &self.worker;
        if let Some(unended) = worker.unended.get() {
            request.done = unended.keep(request.done);
            if worker.is_abandoned.load(Ordering::Acquire) {
                return worker.forget(request);
            }
        }
        self.worker.queue.push(request).into_iter().for_each(|server| engage(&self.worker, server, Held::default()));
    }

    /// Reserves the timeline for this thread, if it is idle and empty.
    pub fn turn(&self) -> Option<Turn<'_>> {
        self.worker.queue.take_turn().map(|server| Turn { worker: &self.worker, server })
    }

    /// Returns a check for the loss of the context, for long work that can end early.
    pub fn loss(&self) -> impl Fn() -> Result<()> + Send + use<> {
        let worker = self.worker.clone();
        move || worker.check()
    }

    /// Drops all queued work except releases; everything unfinished ends with an InvalidStateError.
    pub fn lose(&self) {
        self.losing()(ErrorKind::InvalidState, DESTROYED);
    }

    /// Returns a function that does the same, with a reason; the first one counts. It does not keep the timeline alive.
    pub fn losing(&self) -> impl Fn(ErrorKind, &str) + Send + Sync + use<> {
        let worker = Arc::downgrade(&self.worker);
        // A context is lost once.
        move |kind, reason| drop(worker.upgrade().map(|worker| worker.lost.set(lost(kind, reason))))
    }
}

impl Timeline {
    /// Returns a function that ends all requests now, for a thread that hangs in a driver. They and later ones are
    /// neither run nor dropped: what they hold may belong to the driver.
    pub fn abandoning(&self) -> impl Fn(ErrorKind, &str) + Send + Sync + use<> {
        let worker = Arc::downgrade(&self.worker);
        move |kind, reason| {
            let Some(worker) = worker.upgrade() else { return };
            worker.is_abandoned.store(true, Ordering::Release);
            let error = worker.lost.get_or_init(|| lost(kind, reason));
            worker.unended.get().into_iter().for_each(|unended| unended.end(error));
        }
    }

    /// Returns a function that does as [`enqueue_release`](Self::enqueue_release), if the timeline still exists, and
    /// drops the work otherwise.
    pub fn releasing(&self) -> impl Fn(Box<dyn FnOnce() + Send>) + Send + Sync + use<> {
        let worker = Arc::downgrade(&self.worker);
        move |release| {
            if let Some(worker) = worker.upgrade() {
                Timeline { worker }.enqueue_release(release);
            }
        }
    }
}

/// A timeline that the holder's thread serves. Other requests wait until it is dropped.
pub struct Turn<'a> {
    worker: &'a Arc<Worker>,
    server: Server,
}

impl Turn<'_> {
    /// Runs `work` now.
    ///
    /// # Errors
    /// The error of `work`, an OperationError for a panic in it, or the reason why the context is lost.
    pub fn run<T>(&self, work: impl FnOnce(&Env) -> Result<T>) -> Result<T> {
        self.worker.check()?;
        let result = self.worker.attempt(work);
        self.worker.check().and(result)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        match self.worker.queue.give_back(self.server) {
            true => self.worker.arena.rest(),
            false => engage(self.worker, self.server, Held::default()),
        }
    }
}

/// Work that is done when it returns.
fn ended(work: impl FnOnce(&Env) -> Result<()> + Send + 'static) -> Work {
    Box::new(|env| work(env).map(|()| None))
}

/// How long the serving thread waits for another request before it goes to sleep.
///
/// Waking a thread takes 10 to 30 us. JavaScript's write, dispatch and read of a small graph follow one another within a
/// few: measured with a graph of one element on 2 cores, waiting reduces the three from 88 to 8 us. A program that awaits
/// one run after the other asks again when its own thread has woken, some 50 us after a run: waiting for that long reduces
/// what such a run costs beside its steps from 80 to 20 us.
const LINGER: Duration = Duration::from_micros(100);

/// Maximum number of ended requests to hold back because a short one follows.
const MAX_HELD: usize = 64;

/// How long to wait for work that continues elsewhere before looking at the queue again: new requests should start
/// without a gap, and a look takes a microsecond.
const PATIENCE: Duration = Duration::from_micros(100);

/// How long a thread serves one timeline while other work waits for a thread: long compared with the change, which takes
/// about a microsecond. A request that has begun is never interrupted.
const SLICE: Duration = Duration::from_millis(1);

/// Has a thread serve the queue as `server`. `held` are the requests that an earlier thread has left in progress.
fn engage(worker: &Arc<Worker>, server: Server, held: Held) {
    let serving = worker.clone();
    worker.threads.spawn(move || serve(&serving, server, held));
}

/// Serves the queue until it is empty or the time slice is over, with the same team for all requests.
fn serve(worker: &Arc<Worker>, server: Server, mut held: Held) {
    let start = Instant::now();
    let is_over = || is_awaited() && start.elapsed() >= SLICE;
    let left = worker.threads.lead(|| {
        let Continue(first) = held.finish(worker, server, is_over) else { return Left::Interrupted };
        let work = |request: Request| {
            held.push(worker.handle(request));
            let next = if is_over() { None } else { worker.queue.next(server) };
            if held.0.len() >= MAX_HELD || !next.as_ref().is_some_and(|next| next.short) {
                held.tell(worker, next.is_none().then_some(server), Duration::ZERO);
            }
            if next.is_some() { Continue(next) } else { held.finish(worker, server, is_over) }
        };
        worker.queue.serve(server, first, work, lingering)
    });
    match left {
        Left::AtRest => worker.arena.rest(),
        Left::Interrupted => engage(worker, server, held),
        Left::Replaced => {}
    }
}

/// Waits for another request: the returned closure decides whether to keep waiting.
fn lingering() -> impl FnMut() -> bool {
    let start = Instant::now();
    move || {
        std::thread::yield_now();
        start.elapsed() < LINGER && !is_awaited()
    }
}

/// The state of a request.
enum Progress {
    Ended(Result<()>),
    Later(Later),
}

/// Requests in progress, in order, with their listeners.
#[derive(Default)]
struct Held(VecDeque<(Done, Progress)>);

impl Held {
    fn push(&mut self, request: (Done, Progress)) {
        self.0.push_back(request);
    }

    /// Reports requests that have ended, up to the first unfinished one. If none has ended, waits for that one, at most
    /// for `patience`. `idle` is the server if there is no other request.
    fn tell(&mut self, worker: &Worker, idle: Option<Server>, patience: Duration) {
        let mut ended = Vec::new();
        while let Some((done, progress)) = self.0.pop_front() {
            let patience = if ended.is_empty() { patience } else { Duration::ZERO };
            match worker.progress(progress, patience) {
                Progress::Ended(result) => ended.push((done, result)),
                later => {
                    self.0.push_front((done, later));
                    break;
                }
            }
        }
        let wakes: Vec<Wake> = ended.into_iter().filter_map(|(mut done, result)| done.tell(result)).collect();
        // From here on, any thread that takes over keeps the order of ends. A woken thread often makes its next request
        // immediately, and on a busy machine this thread may not run again before that.
        idle.filter(|_| self.0.is_empty()).into_iter().for_each(|server| worker.queue.offer(server));
        // Only after all reports: the woken threads would otherwise run in between, once per report.
        wakes.into_iter().for_each(|wake| wake());
    }

    /// Waits until all have ended, or for the next request. Interrupts the service when it is over before that.
    fn finish(
        &mut self,
        worker: &Worker,
        server: Server,
        is_over: impl Fn() -> bool,
    ) -> ControlFlow<(), Option<Request>> {
        loop {
            if is_over() && (worker.queue.is_waiting() || !self.0.is_empty()) {
                return Break(());
            }
            let next = worker.queue.next(server);
            if next.is_some() || self.0.is_empty() {
                return Continue(next);
            }
            self.tell(worker, Some(server), PATIENCE);
        }
    }
}

impl Worker {
    /// Runs a request, or starts it.
    fn handle(&self, request: Request) -> (Done, Progress) {
        if self.is_abandoned.load(Ordering::Acquire) {
            self.forget(request);
            return (Done::unobserved(), Progress::Ended(Ok(())));
        }
        let Request { work, done, always, .. } = request;
        if let (Err(lost), false) = (self.check(), always) {
            return (done, Progress::Ended(Err(lost)));
        }
        let progress = match self.attempt(work) {
            Ok(Some(later)) => Progress::Later(later),
            Ok(None) => Progress::Ended(self.check()),
            Err(error) => Progress::Ended(self.check().and(Err(error))),
        };
        (done, progress)
    }

    /// Ends a request without running it or dropping what it holds.
    fn forget(&self, request: Request) {
        let Request { work, done, .. } = request;
        std::mem::forget(work);
        done.finish(self.check());
    }

    /// Runs `work`; a panic in it becomes an OperationError.
    fn attempt<T>(&self, work: impl FnOnce(&Env) -> Result<T>) -> Result<T> {
        let env = Env { threads: &self.threads, isa: self.isa, arena: &self.arena.arena };
        catch_unwind(AssertUnwindSafe(|| computing(|| work(&env)))).unwrap_or_else(|panic| Err(panicked(&*panic)))
    }

    /// Polls a request for at most `patience`.
    fn progress(&self, progress: Progress, patience: Duration) -> Progress {
        let Progress::Later(mut later) = progress else { return progress };
        if let Err(lost) = self.check() {
            return Progress::Ended(Err(lost));
        }
        let result = catch_unwind(AssertUnwindSafe(|| later(patience)));
        match result.unwrap_or_else(|panic| Some(Err(panicked(&*panic)))) {
            Some(result) => Progress::Ended(self.check().and(result)),
            None => Progress::Later(later),
        }
    }

    /// # Errors
    /// An InvalidStateError if the context is lost.
    fn check(&self) -> Result<()> {
        self.lost.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{TryRecvError, channel};

    fn timeline() -> Timeline {
        Timeline::new(Threads::new(2).unwrap(), Isa::Portable)
    }

    fn observed() -> (Done, std::sync::mpsc::Receiver<Result<()>>) {
        let (tell, told) = channel();
        (Done::new(move |result| tell.send(result).unwrap()), told)
    }

    #[test]
    fn work_runs_in_order() {
        let timeline = timeline();
        let (send, receive) = channel();
        for i in 0..100 {
            let send = send.clone();
            timeline.enqueue(
                move |_| {
                    send.send(i).unwrap();
                    Ok(())
                },
                Done::unobserved(),
            );
        }
        drop(send);
        assert_eq!(receive.iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn the_ends_of_short_work_are_reported_in_order_without_long_waits() {
        let timeline = timeline();
        let (tell, told) = channel();
        let (go, held) = channel::<()>();
        let done = |i: usize| {
            let tell = tell.clone();
            Done::new(move |_| tell.send(i).unwrap())
        };
        for i in 0..3 * MAX_HELD {
            timeline.enqueue_short(|_| Ok(()), done(i));
        }
        timeline.enqueue(
            move |_| {
                // Ends when `go` is dropped.
                held.recv().unwrap_err();
                Ok(())
            },
            done(3 * MAX_HELD),
        );
        for i in 0..3 * MAX_HELD {
            assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok(i));
        }
        drop(go);
        assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok(3 * MAX_HELD));
    }

    #[test]
    fn work_that_continues_elsewhere_ends_in_order_and_blocks_nothing() {
        let timeline = timeline();
        let (tell, told) = channel();
        let done = |i: usize| {
            let tell = tell.clone();
            Done::new(move |result| tell.send((i, result)).unwrap())
        };
        let (go, wait) = channel::<()>();
        let later: Later = Box::new(move |patience| match wait.recv_timeout(patience) {
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => None,
            _ => Some(Ok(())),
        });
        timeline.enqueue_later(|_| Ok(later), done(0));
        let (began, seen) = channel();
        timeline.enqueue(
            move |_| {
                began.send(()).unwrap();
                Ok(())
            },
            done(1),
        );
        seen.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(told.recv_timeout(Duration::from_millis(20)).is_err());
        drop(go);
        for i in 0..2 {
            assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok((i, Ok(()))));
        }
        timeline.enqueue_later(|_| Ok(Box::new(|_| panic!("driver"))), done(2));
        let (i, result) = told.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!((i, result.unwrap_err().message.as_str()), (2, "internal error: driver"));
        timeline.enqueue_later(|_| Ok(Box::new(|_| None)), done(3));
        timeline.losing()(ErrorKind::DeviceLost, "unplugged");
        assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok((3, Err(lost(ErrorKind::DeviceLost, "unplugged")))));
    }

    /// More timelines than there can be threads for them.
    fn many_timelines() -> Vec<Arc<Timeline>> {
        let threads = Threads::new(2).unwrap();
        (0..100).map(|_| Arc::new(Timeline::new(threads.clone(), Isa::Portable))).collect()
    }

    #[test]
    fn timelines_that_are_never_idle_leave_their_threads_to_others() {
        /// Enqueues a request that enqueues the next one, until the context is lost.
        fn go_on(timeline: &Arc<Timeline>) {
            let again = Arc::downgrade(timeline);
            let work = move |_: &Env| {
                std::thread::sleep(Duration::from_micros(100));
                again.upgrade().iter().for_each(go_on);
                Ok(())
            };
            timeline.enqueue(work, Done::unobserved());
        }
        let timelines = many_timelines();
        timelines.iter().for_each(go_on);
        for timeline in &timelines {
            let (done, told) = observed();
            timeline.enqueue(|_| Ok(()), done);
            told.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
        }
        timelines.iter().for_each(|timeline| timeline.lose());
    }

    #[test]
    fn timelines_that_wait_for_work_elsewhere_do_not_keep_it_from_running() {
        let timelines = many_timelines();
        let (tell, told) = channel();
        let (go, wait) = channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        for (number, timeline) in timelines.iter().enumerate() {
            let done = |step: usize| {
                let tell = tell.clone();
                Done::new(move |result| tell.send((number, step, result)).unwrap())
            };
            let wait = wait.clone();
            // Ends when `go` is dropped.
            let later: Later = Box::new(move |patience| {
                std::thread::sleep(patience);
                (wait.lock().unwrap().try_recv() == Err(TryRecvError::Disconnected)).then_some(Ok(()))
            });
            timeline.enqueue_later(|_| Ok(later), done(0));
            (1..10).for_each(|step| timeline.enqueue(|_| Ok(()), done(step)));
        }
        let (last, ended) = observed();
        let work = move |_: &Env| {
            drop(go);
            Ok(())
        };
        Timeline::new(Threads::new(2).unwrap(), Isa::Portable).enqueue(work, last);
        ended.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
        let mut steps = vec![0; timelines.len()];
        for _ in 0..10 * timelines.len() {
            let (number, step, result) = told.recv_timeout(Duration::from_secs(20)).unwrap();
            assert_eq!((step, result), (steps[number], Ok(())), "timeline {number}");
            steps[number] += 1;
        }
    }

    #[test]
    fn a_turn_requires_an_idle_timeline_and_delays_other_requests() {
        let timeline = timeline();
        let (go, held) = channel::<()>();
        let (done, told) = observed();
        // Ends when `go` is dropped.
        timeline.enqueue(move |_| held.recv().map_or(Ok(()), |()| unreachable!("nothing is sent")), done);
        assert!(timeline.turn().is_none(), "something runs");
        drop(go);
        told.recv_timeout(Duration::from_secs(10)).unwrap().unwrap();
        for round in 0..2000 {
            // The serving thread lingers, sleeps, or is about to.
            let turn = loop {
                if let Some(turn) = timeline.turn() {
                    break turn;
                }
            };
            assert!(timeline.turn().is_none(), "only one turn at a time");
            let (send, receive) = channel();
            let (done, told) = observed();
            let later = send.clone();
            timeline.enqueue(move |_| later.send("later").map_err(|_| unreachable!("the receiver lives")), done);
            std::thread::sleep(Duration::from_micros(round % 200));
            turn.run(|_| send.send("now").map_err(|_| unreachable!("the receiver lives"))).unwrap();
            drop((turn, send));
            assert_eq!(receive.iter().collect::<Vec<_>>(), ["now", "later"]);
            told.recv_timeout(Duration::from_secs(10)).unwrap().unwrap();
        }
        let turn = std::iter::repeat_with(|| timeline.turn()).flatten().next().unwrap();
        let error = turn.run(|_| -> Result<()> { panic!("kernel") }).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Operation, "internal error: kernel"));
        timeline.lose();
        assert_eq!(turn.run(|_| -> Result<()> { unreachable!("it is lost") }), Err(destroyed()));
    }

    #[test]
    fn a_thread_woken_by_an_end_may_take_the_timeline_and_nothing_overtakes_it() {
        let timeline = Arc::new(timeline());
        for round in 0..500 {
            let (tell, told) = channel();
            let (first, second, woken) = (tell.clone(), tell, timeline.clone());
            // As in a thread that runs before the one that woke it resumes.
            let wake: Wake = Box::new(move || {
                let turn = woken.turn().expect("everything is done");
                assert!(woken.turn().is_none(), "only one turn at a time");
                turn.run(|_| Ok(())).unwrap();
                let another = || woken.enqueue(|_| Ok(()), Done::new(move |_| second.send("second").unwrap()));
                if round % 2 == 0 {
                    drop(turn);
                    another();
                } else {
                    another();
                    drop(turn);
                }
            });
            let tell = move |_| {
                first.send("first").unwrap();
                Some(wake)
            };
            let (go, held) = channel::<()>();
            let wait = Box::new(move |_| (held.recv() == Err(std::sync::mpsc::RecvError)).then_some(Ok(())));
            timeline.enqueue_any(move |_| Ok((round % 3 == 0).then_some(wait as Later)), Done::waking(tell));
            drop(go);
            let ends: Vec<_> = (0..2).map(|_| told.recv_timeout(Duration::from_secs(10)).unwrap()).collect();
            assert_eq!(ends, ["first", "second"]);
        }
    }

    #[test]
    fn a_panic_is_an_operation_error_and_the_timeline_goes_on() {
        let timeline = timeline();
        let (done, told) = observed();
        timeline.enqueue(|_| panic!("kernel {}", 7), done);
        let error = told.recv().unwrap().unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Operation, "internal error: kernel 7"));
        let (done, told) = observed();
        timeline.enqueue(|_| Ok(()), done);
        assert_eq!(told.recv().unwrap(), Ok(()));
    }

    #[test]
    fn a_timeline_whose_thread_hangs_ends_all_requests_and_drops_nothing() {
        let timeline = timeline();
        timeline.expecting()();
        let (tell, told) = channel();
        let done = |i: usize| {
            let tell = tell.clone();
            Done::new(move |result| tell.send((i, result)).unwrap())
        };
        timeline.enqueue(|_| Ok(()), done(0));
        assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok((0, Ok(()))));
        // One that continues elsewhere, one that hangs, one that waits for it.
        timeline.enqueue_later(|_| Ok(Box::new(|_| None)), done(1));
        let (go, held) = channel::<()>();
        let (began, seen) = channel();
        timeline.enqueue(
            move |_| {
                began.send(()).unwrap();
                held.recv().unwrap_err();
                Ok(())
            },
            done(2),
        );
        struct Untouched;
        impl Drop for Untouched {
            fn drop(&mut self) {
                panic!("it belongs to the driver");
            }
        }
        let untouched = Untouched;
        timeline.enqueue_release(move || drop(untouched));
        timeline.enqueue(|_| panic!("must not run"), done(3));
        seen.recv_timeout(Duration::from_secs(10)).unwrap();
        timeline.abandoning()(ErrorKind::DeviceLost, "no answer");
        let untouched = Untouched;
        timeline.enqueue_release(move || drop(untouched));
        timeline.enqueue(|_| panic!("must not run"), done(4));
        let error = lost(ErrorKind::DeviceLost, "no answer");
        for i in 1..5 {
            assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok((i, Err(error.clone()))));
        }
        // The driver answers at last.
        drop(go);
        while timeline.turn().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(told.try_recv(), Err(TryRecvError::Empty), "each request ends once");
    }

    #[test]
    fn a_lost_timeline_runs_nothing_more_but_releases() {
        let timeline = timeline();
        let (started, wait) = channel();
        let (go, held) = channel::<()>();
        let (first, first_told) = observed();
        timeline.enqueue(
            move |_| {
                started.send(()).unwrap();
                // Ends when `go` is dropped.
                held.recv().unwrap_err();
                Ok(())
            },
            first,
        );
        let (second, second_told) = observed();
        timeline.enqueue(|_| panic!("must not run"), second);
        wait.recv().unwrap();
        timeline.lose();
        drop(go);
        for told in [first_told, second_told] {
            assert_eq!(told.recv_timeout(Duration::from_secs(10)).unwrap(), Err(destroyed()));
        }
        let (released, wait) = channel();
        timeline.enqueue_release(move || released.send(()).unwrap());
        wait.recv_timeout(Duration::from_secs(10)).unwrap();
    }
}
