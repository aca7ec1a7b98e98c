//! Threads that work together for a while: sections of work are shared out without putting threads to sleep in between.
//!
//! Waking a thread takes longer than many a step of a graph. So the members of a team wait for the next section awake, for
//! a while, and take pieces of it from a counter: no piece waits for a member that has lost its core or has not come yet,
//! and the thread that leads the team does whatever nobody else has taken.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a member waits for the next section before it leaves: long against a step that is not shared out, short
/// against what a person or another process notices.
const PATIENCE: Duration = Duration::from_micros(200);

/// How long it waits without letting other threads have the core.
const ALERT: Duration = Duration::from_micros(20);

/// Turns of waiting between looks at the clock: about a microsecond.
const TURNS: usize = 32;

/// Calls with each number below a count.
type Section<'a> = dyn Fn(usize) + Sync + 'a;

thread_local! {
    /// This thread's number in the team that it works in: 0 leads.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
    /// Whether this thread is within a piece of a section: sections within are not shared out.
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// The number of this thread among those that share the section that it works on; 0 elsewhere.
pub fn thread_number() -> usize {
    NUMBER.get()
}

/// A leader and the threads that have come to help it.
pub struct Team {
    /// Odd while a section is open.
    turn: AtomicUsize,
    /// The open section. Only the leader writes it, while none is open and no member is within.
    section: UnsafeCell<Option<(*const Section<'static>, usize)>>,
    /// The next piece of the open section.
    next: AtomicUsize,
    /// Members that may be within a section.
    within: AtomicUsize,
    /// Members that wait for sections or work on one.
    present: AtomicUsize,
    /// Which numbers are taken. A member has one as long as it is present.
    numbers: Vec<AtomicBool>,
    closed: AtomicBool,
    /// Of the first piece that panicked.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the pointer in `section` is followed only by members that are counted in `within` while the section is open;
// the leader keeps what it points to, which is `Sync`, alive until then, and writes the cell only when there are none.
unsafe impl Send for Team {}
// SAFETY: as above.
unsafe impl Sync for Team {}

impl Team {
    /// A team of at most `count` threads, of which the caller is one.
    pub fn new(count: usize) -> Arc<Team> {
        Arc::new(Team {
            turn: AtomicUsize::new(0),
            section: UnsafeCell::new(None),
            next: AtomicUsize::new(0),
            within: AtomicUsize::new(0),
            present: AtomicUsize::new(0),
            numbers: (1..count).map(|_| AtomicBool::new(false)).collect(),
            closed: AtomicBool::new(false),
            panic: Mutex::new(None),
        })
    }

    /// The most threads that work in the team.
    pub fn size(&self) -> usize {
        self.numbers.len() + 1
    }

    /// Members that are missing.
    pub fn missing(&self) -> usize {
        self.numbers.len().saturating_sub(self.present.load(Ordering::Relaxed))
    }

    /// Announces one more member, which is to call [`serve`](Self::serve).
    pub fn expect_member(&self) {
        self.present.fetch_add(1, Ordering::Relaxed);
    }

    /// What a member does: works on sections until none has come for a while or the team is closed.
    pub fn serve(&self) {
        // A member that comes late may find the numbers taken by those that were asked for after it.
        let free = self.numbers.iter().position(|taken| !taken.swap(true, Ordering::Acquire));
        if let Some(index) = free {
            NUMBER.set(index + 1);
            self.work();
            NUMBER.set(0);
            self.numbers[index].store(false, Ordering::Release);
        }
        self.present.fetch_sub(1, Ordering::Relaxed);
    }

    fn work(&self) {
        let mut seen = 0;
        loop {
            let start = Instant::now();
            while !is_open(self.turn.load(Ordering::Acquire), seen) {
                for _ in 0..TURNS {
                    std::hint::spin_loop();
                }
                let waited = start.elapsed();
                if self.closed.load(Ordering::Relaxed) || waited > PATIENCE {
                    return;
                }
                if waited > ALERT {
                    std::thread::yield_now();
                }
            }
            // The leader sees this member, or this member sees that the section is closed: both are sequentially consistent.
            self.within.fetch_add(1, Ordering::SeqCst);
            let turn = self.turn.load(Ordering::SeqCst);
            if is_open(turn, seen) {
                // SAFETY: the section is open and this member is counted, so the leader waits for it.
                let section = unsafe { *self.section.get() };
                if let Some((work, count)) = section {
                    // SAFETY: as above.
                    self.take_pieces(unsafe { &*work }, count);
                }
                seen = turn;
            }
            self.within.fetch_sub(1, Ordering::Release);
        }
    }

    /// Works on pieces until all are taken.
    fn take_pieces(&self, work: &Section, count: usize) {
        let outer = WITHIN.replace(true);
        let result = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let piece = self.next.fetch_add(1, Ordering::Relaxed);
                if piece >= count {
                    break;
                }
                work(piece);
            }
        }));
        WITHIN.set(outer);
        if let Err(panic) = result {
            // Nobody needs the rest.
            self.next.fetch_max(count, Ordering::Relaxed);
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        }
    }

    /// Calls `work` with every number below `count` once, on all threads of the team. Only the leader calls this, and not
    /// within a piece.
    ///
    /// # Panics
    /// If a piece does.
    pub fn share(&self, count: usize, work: &Section) {
        debug_assert!(!is_within() && NUMBER.get() == 0);
        // SAFETY: only the lifetime changes. The pointer is followed while the section is open, which ends below, before
        // `work` does.
        let erased = unsafe { std::mem::transmute::<*const Section<'_>, *const Section<'static>>(work) };
        // SAFETY: no section is open and no member is within: the last call waited for that.
        unsafe { *self.section.get() = Some((erased, count)) };
        self.next.store(0, Ordering::Relaxed);
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::SeqCst);
        self.take_pieces(work, count);
        self.turn.store(turn + 2, Ordering::SeqCst);
        let mut turns = 0usize;
        while self.within.load(Ordering::SeqCst) > 0 {
            turns += 1;
            // The member may wait for the core that this thread waits on.
            if turns.is_multiple_of(1024) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        let panic = self.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Sends the members away.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

/// Whether `turn` is that of an open section other than the one `seen` before.
fn is_open(turn: usize, seen: usize) -> bool {
    turn % 2 == 1 && turn != seen
}

/// Whether this thread is within a piece of a section.
pub fn is_within() -> bool {
    WITHIN.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each piece of some sections was called how often, with as many members.
    fn calls(members: usize, sections: &[usize]) {
        let team = Team::new(members + 1);
        std::thread::scope(|scope| {
            for _ in 0..members {
                team.expect_member();
                let team = team.clone();
                scope.spawn(move || team.serve());
            }
            for &count in sections {
                let hits: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                team.share(count, &|piece| {
                    assert!(is_within() && thread_number() <= members);
                    hits[piece].fetch_add(1, Ordering::Relaxed);
                });
                assert!(hits.iter().all(|hits| hits.load(Ordering::Relaxed) == 1), "{count} pieces");
            }
            team.close();
        });
        assert_eq!(team.missing(), members);
        assert!(!is_within() && thread_number() == 0);
    }

    #[test]
    fn every_piece_is_done_once() {
        for members in [0, 1, 6] {
            calls(members, &[0, 1, 2, 3, 100, 1]);
            calls(members, &[5; 500]);
        }
    }

    #[test]
    fn members_that_leave_are_missing() {
        let team = Team::new(2);
        team.expect_member();
        assert_eq!(team.missing(), 0);
        // Nothing comes.
        team.serve();
        assert_eq!(team.missing(), 1);
        // More than there are numbers.
        let seats: Vec<bool> = (0..3).map(|_| team.numbers[0].swap(true, Ordering::Relaxed)).collect();
        assert_eq!(seats, [false, true, true]);
        team.expect_member();
        team.serve();
        assert_eq!(team.missing(), 1);
    }

    #[test]
    fn a_panic_in_any_piece_ends_the_section_and_reaches_the_leader() {
        for members in [0, 1] {
            let team = Team::new(members + 1);
            std::thread::scope(|scope| {
                for _ in 0..members {
                    team.expect_member();
                    let team = team.clone();
                    scope.spawn(move || team.serve());
                }
                for bad in 0..20 {
                    let share = || team.share(20, &|piece| assert!(piece != bad, "piece {piece}"));
                    let panic = catch_unwind(AssertUnwindSafe(share)).unwrap_err();
                    assert_eq!(*panic.downcast::<String>().unwrap(), format!("piece {bad}"));
                    let done = AtomicUsize::new(0);
                    team.share(20, &|_| _ = done.fetch_add(1, Ordering::Relaxed));
                    assert_eq!(done.into_inner(), 20);
                }
                team.close();
            });
        }
    }
}
