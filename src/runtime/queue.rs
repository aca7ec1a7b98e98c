//! An ordered queue of requests, which at most one thread serves at a time: whoever adds one to a queue that nobody serves has
//! a thread do it. Requests that are done before a thread could come may be done by whoever has them, in a turn.

use crate::sync::{AtomicUsize, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// The number of a thread that serves a queue, from when it is asked to until nothing waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server(u64);

/// The queue of requests `R`.
pub struct Queue<R> {
    state: Mutex<State<R>>,
    /// Number of requests that wait: so that looking for the next one takes no lock.
    waiting: AtomicUsize,
}

struct State<R> {
    requests: VecDeque<R>,
    /// Who serves them, or was asked to; nobody for `None`.
    server: Option<Server>,
    /// How many servers there have been.
    servers: u64,
    /// Whether whoever serves has done everything that was asked: anybody may take its place.
    is_lingering: bool,
}

impl<R> State<R> {
    /// One more server, if there is none.
    fn engage(&mut self) -> Option<Server> {
        if self.server.is_some() {
            return None;
        }
        self.servers += 1;
        self.server = Some(Server(self.servers));
        self.server
    }

    /// Ends the service of `server`, if nothing waits. Whether it has ended.
    fn rest(&mut self, server: Server) -> bool {
        debug_assert_eq!(self.server, Some(server), "nobody else serves");
        self.is_lingering = false;
        if self.requests.is_empty() {
            self.server = None;
        }
        self.server.is_none()
    }
}

/// What `serve` ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing waits, and nobody serves the queue.
    AtRest,
    /// Somebody else serves it.
    Replaced,
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

    /// Adds a request. Where it gives a server, the caller has a thread [`serve`](Self::serve) as that.
    #[must_use]
    pub fn push(&self, request: R) -> Option<Server> {
        let mut state = self.lock();
        state.requests.push_back(request);
        self.waiting.store(state.requests.len(), Ordering::Release);
        state.engage()
    }

    /// The request that waits longest, for `server`; nothing if that is another by now.
    pub fn next(&self, server: Server) -> Option<R> {
        if self.waiting.load(Ordering::Acquire) == 0 {
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

    /// Lets anybody take the place of `server`, who has done everything, until it begins with another request.
    pub fn offer(&self, server: Server) {
        let mut state = self.lock();
        debug_assert_eq!(state.server, Some(server), "nobody else serves before");
        state.is_lingering = true;
    }

    /// The queue for this thread, if nothing is under way and nothing waits: what is added from now on waits until the caller
    /// gives it [back](Self::give_back).
    pub fn take_turn(&self) -> Option<Server> {
        let mut state = self.lock();
        if !state.requests.is_empty() {
            return None;
        }
        if state.is_lingering {
            // That thread sees another number and goes to sleep, when it has woken who waits for what it did.
            (state.server, state.is_lingering) = (None, false);
        }
        state.engage()
    }

    /// Ends a turn. Whether nothing waits and nobody serves the queue now; if not, the caller has a thread serve as `server`.
    #[must_use]
    pub fn give_back(&self, server: Server) -> bool {
        self.lock().rest(server)
    }

    /// Serves the queue as `server` until nothing waits. `work` does a request, and gives the next one if it has taken it.
    /// `lingering` is called when nothing is left; what it gives is called after each look, and says whether to look again.
    pub fn serve<L: FnMut() -> bool>(
        &self,
        server: Server,
        mut work: impl FnMut(R) -> Option<R>,
        lingering: impl Fn() -> L,
    ) -> Left {
        let mut next = self.next(server);
        loop {
            while let Some(request) = next {
                next = work(request).or_else(|| {
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

    /// Takes everything that waits, because nobody can serve the queue.
    pub fn drain(&self) -> VecDeque<R> {
        let mut state = self.lock();
        state.server = None;
        self.waiting.store(0, Ordering::Release);
        std::mem::take(&mut state.requests)
    }
}
