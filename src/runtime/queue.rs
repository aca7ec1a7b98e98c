//! An ordered queue of requests, served by at most one thread at a time: code that adds a request to an idle queue must
//! have a thread serve the queue. A caller may run a request itself, in a turn, if that is faster than waking a thread.

use crate::sync::{AtomicUsize, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// The number of a thread that serves a queue, from the moment when it is requested until no request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server(u64);

/// The queue of requests `R`.
pub struct Queue<R> {
    state: Mutex<State<R>>,
    /// Number of waiting requests, readable without the lock.
    waiting: AtomicUsize,
}

struct State<R> {
    requests: VecDeque<R>,
    /// The current or requested server, if there is one.
    server: Option<Server>,
    /// Number of servers so far.
    servers: u64,
    /// Whether the server has finished all requests: any thread may take its place.
    is_lingering: bool,
}

impl<R> State<R> {
    /// Registers a server if there is none.
    fn engage(&mut self) -> Option<Server> {
        if self.server.is_some() {
            return None;
        }
        self.servers += 1;
        self.server = Some(Server(self.servers));
        self.server
    }

    /// Ends the service of `server` if no request waits. Returns whether it has ended.
    fn rest(&mut self, server: Server) -> bool {
        debug_assert_eq!(self.server, Some(server), "only one server at a time");
        self.is_lingering = false;
        if self.requests.is_empty() {
            self.server = None;
        }
        self.server.is_none()
    }
}

/// Why `serve` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// No request waits, and no thread serves the queue.
    AtRest,
    /// Another thread serves the queue.
    Replaced,
    /// The work has asked for it: the caller must have a thread serve as the same server.
    Interrupted,
}

impl<R> Default for Queue<R> {
    fn default() -> Queue<R> {
        let state = State { requests: VecDeque::new(), server: None, servers: 0, is_lingering: false };
        Queue { state: Mutex::new(state), waiting: AtomicUsize::new(0) }
    }
}

impl<R> Queue<R> {
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request. If this returns a server, the caller must have a thread [`serve`](Self::serve) as that server.
    #[must_use]
    pub fn push(&self, request: R) -> Option<Server> {
        let mut state = self.lock();
        state.requests.push_back(request);
        self.waiting.store(state.requests.len(), Ordering::Release);
        state.engage()
    }

    /// Whether a request waits.
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Takes the oldest request, for `server`; `None` if `server` was replaced meanwhile.
    pub fn next(&self, server: Server) -> Option<R> {
        if !self.is_waiting() {
            return None;
        }
        let mut state = self.lock();
        if state.server != Some(server) {
            return None;
        }
        let next = state.requests.pop_front();
        self.waiting.store(state.requests.len(), Ordering::Release);
        state.is_lingering = false;
        next
    }

    /// Lets any thread take the place of `server`, which has finished all requests, until it takes another request.
    pub fn offer(&self, server: Server) {
        let mut state = self.lock();
        debug_assert_eq!(state.server, Some(server), "only one server at a time");
        state.is_lingering = true;
    }

    /// Reserves the queue for this thread if it is idle and empty: requests added from now on wait until the caller
    /// [gives it back](Self::give_back).
    pub fn take_turn(&self) -> Option<Server> {
        let mut state = self.lock();
        if !state.requests.is_empty() {
            return None;
        }
        if state.is_lingering {
            // That thread will see another number and go to sleep, after waking the threads that wait for its results.
            (state.server, state.is_lingering) = (None, false);
        }
        state.engage()
    }

    /// Ends a turn. Returns whether the queue is now idle and empty; if not, the caller must have a thread serve as
    /// `server`.
    #[must_use]
    pub fn give_back(&self, server: Server) -> bool {
        self.lock().rest(server)
    }

    /// Serves the queue as `server`, beginning with `first` if the caller has taken it, until no request waits. `work`
    /// runs a request, and returns the next one if it has taken it, or interrupts the service. `lingering` is called when
    /// the queue is empty; the closure it returns is called after each look at the queue, and decides whether to look
    /// again.
    pub fn serve<L: FnMut() -> bool>(
        &self,
        server: Server,
        first: Option<R>,
        mut work: impl FnMut(R) -> ControlFlow<(), Option<R>>,
        lingering: impl Fn() -> L,
    ) -> Left {
        let mut next = first.or_else(|| self.next(server));
        loop {
            while let Some(request) = next {
                let taken = match work(request) {
                    Continue(taken) => taken,
                    Break(()) => return Left::Interrupted,
                };
                next = taken.or_else(|| {
                    let mut look_again = lingering();
                    loop {
                        match self.next(server) {
                            None if look_again() => {}
                            next => return next,
                        }
                    }
                });
            }
            let mut state = self.lock();
            if state.server != Some(server) {
                return Left::Replaced;
            }
            if state.rest(server) {
                return Left::AtRest;
            }
            drop(state);
            next = self.next(server);
        }
    }
}
