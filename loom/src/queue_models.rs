//! Models of requests, servers and turns.

use crate::queue::{Left, Queue, Server};
use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::{self, JoinHandle};
use std::ops::ControlFlow::{Break, Continue};
use std::sync::{Arc, Mutex};

/// A timeline with numbers as requests: each is written to `last`, which only the server may access.
struct Timeline {
    queue: Queue<usize>,
    last: UnsafeCell<usize>,
    /// Number of finished requests.
    done: AtomicUsize,
    /// Whether a thread serves a single request while others wait.
    is_sliced: bool,
    /// The threads that have served the queue so far. A mutex of the standard library, because the model is not about
    /// this list.
    servers: Mutex<Vec<JoinHandle<()>>>,
}

// SAFETY: the models are to prove that only one thread at a time accesses `last`.
unsafe impl Sync for Timeline {}
// SAFETY: as above.
unsafe impl Send for Timeline {}

impl Timeline {
    fn new() -> Arc<Timeline> {
        Timeline::with(false)
    }

    fn with(is_sliced: bool) -> Arc<Timeline> {
        let (last, done) = (UnsafeCell::new(0), AtomicUsize::new(0));
        Arc::new(Timeline { queue: Queue::default(), last, done, is_sliced, servers: Mutex::default() })
    }

    /// Runs a request: they arrive in order.
    fn handle(&self, request: usize) {
        self.last.with_mut(|last| {
            // SAFETY: see `Sync`.
            let last = unsafe { &mut *last };
            assert!(*last < request, "{request} after {last}");
            *last = request;
        });
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn serve(self: &Arc<Self>, server: Server) {
        let work = |request| {
            self.handle(request);
            if self.is_sliced && self.queue.is_waiting() {
                return Break(());
            }
            let next = self.queue.next(server);
            if next.is_none() {
                self.queue.offer(server);
            }
            Continue(next)
        };
        let lingering = || {
            let mut looks = 1;
            move || {
                thread::yield_now();
                looks -= 1;
                looks >= 0
            }
        };
        if self.queue.serve(server, None, work, lingering) == Left::Interrupted {
            self.wake(server);
        }
    }

    fn push(self: &Arc<Self>, request: usize) {
        self.queue.push(request).into_iter().for_each(|server| self.wake(server));
    }

    fn wake(self: &Arc<Self>, server: Server) {
        let timeline = self.clone();
        let serving = thread::spawn(move || timeline.serve(server));
        self.servers.lock().unwrap().push(serving);
    }

    /// Runs `request` on this thread if it gets a turn, otherwise enqueues it; then makes another request within the
    /// turn.
    fn take_turn(self: &Arc<Self>, request: usize) {
        match self.queue.take_turn() {
            Some(server) => {
                assert!(self.queue.take_turn().is_none(), "only one turn at a time");
                self.handle(request);
                if !self.queue.give_back(server) {
                    self.wake(server);
                }
            }
            None => self.push(request),
        }
    }

    /// Waits for all threads: every request is finished, and no thread serves.
    fn end(&self, requests: usize) {
        loop {
            let Some(server) = self.servers.lock().unwrap().pop() else { break };
            server.join().unwrap();
        }
        assert_eq!(self.done.load(Ordering::Relaxed), requests, "nothing is left");
        // SAFETY: see `Sync`.
        assert_eq!(self.last.with(|last| unsafe { *last }), requests);
        assert!(self.queue.take_turn().is_some(), "nobody serves");
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn requests_run_in_order() {
    check(|| {
        let timeline = Timeline::new();
        (1..=3).for_each(|request| timeline.push(request));
        timeline.end(3);
    });
}

#[test]
fn a_turn_overtakes_nothing_and_nothing_overtakes_it() {
    check(|| {
        let timeline = Timeline::new();
        timeline.push(1);
        timeline.take_turn(2);
        timeline.push(3);
        timeline.end(3);
    });
}

#[test]
fn requests_within_a_turn_run_after_it() {
    check(|| {
        let timeline = Timeline::new();
        let server = timeline.queue.take_turn().expect("nothing is asked");
        let asking = timeline.clone();
        let other = thread::spawn(move || asking.push(2));
        timeline.handle(1);
        if !timeline.queue.give_back(server) {
            timeline.wake(server);
        }
        other.join().unwrap();
        timeline.end(2);
    });
}

#[test]
fn two_turns_of_two_threads() {
    check(|| {
        let timeline = Timeline::new();
        timeline.push(1);
        let count = Arc::new(AtomicUsize::new(1));
        let take = |timeline: Arc<Timeline>, count: Arc<AtomicUsize>| {
            // Numbers in the order of turns.
            let Some(server) = timeline.queue.take_turn() else { return };
            timeline.handle(1 + count.fetch_add(1, Ordering::Relaxed));
            if !timeline.queue.give_back(server) {
                timeline.wake(server);
            }
        };
        let (others, counted) = (timeline.clone(), count.clone());
        let other = thread::spawn(move || take(others, counted));
        take(timeline.clone(), count.clone());
        other.join().unwrap();
        timeline.end(count.load(Ordering::Relaxed));
    });
}

#[test]
fn an_interrupted_service_goes_on_in_another_thread() {
    check(|| {
        let timeline = Timeline::with(true);
        (1..=2).for_each(|request| timeline.push(request));
        timeline.take_turn(3);
        timeline.end(3);
    });
}
