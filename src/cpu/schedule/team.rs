//! Threads that work together for a while: sections of work are shared out without putting threads to sleep in between.
//!
//! Waking a thread takes longer than many a step of a graph. So the members of a team wait for the next section awake, for
//! a while. Each thread has a part of the pieces, the same part in each section of as many: what it wrote in one step is in
//! its caches when it reads it in the next. Who is done with its own part takes from those of the others, so that no piece
//! waits for a member that has lost its core or has not come yet. A member that comes when a section has been closed does not
//! get in, so the leader waits for those only that are within a piece.

use crate::sync::{AtomicBool, AtomicUsize, Mutex, UnsafeCell, of_thread, pause};
use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Calls with each number below a count.
type Section<'a> = dyn Fn(usize) + Sync + 'a;

of_thread! {
    /// This thread's number in the team that it works in: 0 leads.
    NUMBER: Cell<usize> = Cell::new(0);
    /// Whether this thread is within a piece of a section: sections within are not shared out.
    WITHIN: Cell<bool> = Cell::new(false);
}

/// The number of this thread among those that share the section that it works on; 0 elsewhere.
pub fn thread_number() -> usize {
    NUMBER.with(Cell::get)
}

/// Whether this thread is within a piece of a section.
pub fn is_within() -> bool {
    WITHIN.with(Cell::get)
}

/// A value on cache lines of its own: processors fetch them in pairs.
#[repr(align(128))]
struct Alone<T>(T);

/// The gate to sections is one number, which changes as a whole: members that are within, whether a section is open, whether
/// the team is closed, and how many sections there have been.
const MEMBER: usize = 1;
/// All bits of the number of members, of which there are at most 1023.
const MEMBERS: usize = OPEN - 1;
const OPEN: usize = 1 << 10;
const CLOSED: usize = 1 << 11;
/// One more section. Where the count wraps around, on 32 bits after a million, a member would have had to look away for exactly as many.
const TURN: usize = 1 << 12;

/// What a member finds at the gate.
enum Gate {
    /// It is within the section of this turn.
    Within(usize),
    /// There is nothing to do, yet.
    Shut,
    /// There will be nothing to do.
    Closed,
}

/// An open section.
#[derive(Clone, Copy)]
struct Open {
    work: *const Section<'static>,
    /// Number of pieces.
    count: usize,
    /// Number of parts that they are in: one for each thread that was there, or on its way, when the section was opened.
    parts: usize,
}

impl Open {
    /// The first piece of a part.
    fn start(&self, part: usize) -> usize {
        part * self.count / self.parts
    }
}

/// The threads that have come to help a [`Leader`].
pub struct Team {
    gate: Alone<AtomicUsize>,
    /// The next piece of each part of the open section.
    next: Vec<Alone<AtomicUsize>>,
    /// The open section. Only the leader writes it, while none is open and no member is within.
    section: UnsafeCell<Option<Open>>,
    /// Members that wait for sections or work on one, and those that were announced.
    present: AtomicUsize,
    /// Which numbers are taken. A member has one as long as it is present.
    numbers: Vec<AtomicBool>,
    /// Of the first piece that panicked.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the pointer in `section` is followed only by members that came through the gate while it was open; the leader
// keeps what it points to, which is `Sync`, alive until they are gone, and writes the cell only when there are none.
unsafe impl Send for Team {}
// SAFETY: as above.
unsafe impl Sync for Team {}

impl Team {
    /// The most threads that work in the team, its leader included.
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

    /// Takes the announcement back.
    pub fn forget_member(&self) {
        self.present.fetch_sub(1, Ordering::Relaxed);
    }

    /// What a member does: works on sections until the team is closed or it has waited for too long. `waiting` is called
    /// when a wait begins; what it gives is called after each look, and says whether to look again.
    pub fn serve<W: FnMut() -> bool>(&self, waiting: impl Fn() -> W) {
        // A member that comes late may find the numbers taken by those that were asked for after it.
        let free = self.numbers.iter().position(|taken| !taken.swap(true, Ordering::Acquire));
        if let Some(index) = free {
            NUMBER.with(|number| number.set(index + 1));
            self.work(waiting);
            NUMBER.with(|number| number.set(0));
            self.numbers[index].store(false, Ordering::Release);
        }
        self.forget_member();
    }

    fn work<W: FnMut() -> bool>(&self, waiting: impl Fn() -> W) {
        let mut seen = 0;
        loop {
            let mut look_again = waiting();
            seen = loop {
                match self.enter(seen) {
                    Gate::Within(turn) => break turn,
                    Gate::Shut if look_again() => {}
                    Gate::Shut | Gate::Closed => return,
                }
            };
            // SAFETY: this member came through the open gate, so the leader has written the cell before, and waits now.
            let section = self.section.with(|section| unsafe { *section });
            if let Some(open) = section {
                // SAFETY: as above: what it points to is alive until this member has left.
                self.take_pieces(unsafe { &*open.work }, &open);
            }
            // The leader sees what this member has done when it sees that it is gone.
            self.gate.0.fetch_sub(MEMBER, Ordering::Release);
        }
    }

    /// Goes through the gate if it is that of an open section other than the one `seen` before.
    fn enter(&self, seen: usize) -> Gate {
        let mut gate = self.gate.0.load(Ordering::Relaxed);
        loop {
            if gate & CLOSED != 0 {
                return Gate::Closed;
            }
            let turn = gate / TURN;
            if gate & OPEN == 0 || turn == seen {
                return Gate::Shut;
            }
            // What the leader wrote before it opened the gate is seen behind it.
            match self.gate.0.compare_exchange_weak(gate, gate + MEMBER, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Gate::Within(turn),
                Err(other) => gate = other,
            }
        }
    }

    /// Works on pieces until all are taken, those of this thread's own part first.
    fn take_pieces(&self, work: &Section, open: &Open) {
        let outer = WITHIN.with(|within| within.replace(true));
        let own = thread_number();
        let result = catch_unwind(AssertUnwindSafe(|| {
            for part in (0..open.parts).map(|i| (own + i) % open.parts) {
                let end = open.start(part + 1);
                loop {
                    let piece = self.next[part].0.fetch_add(1, Ordering::Relaxed);
                    if piece >= end {
                        break;
                    }
                    work(piece);
                }
            }
        }));
        WITHIN.with(|within| within.set(outer));
        if let Err(panic) = result {
            // Nobody needs the rest.
            self.next.iter().for_each(|next| _ = next.0.fetch_max(open.count, Ordering::Relaxed));
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        }
    }
}

/// The thread that leads a team, and the only way to share work out: there is one for each team, and it stays on its thread.
/// When it is dropped the members are sent away.
pub struct Leader {
    team: Arc<Team>,
    /// How many sections there have been.
    turns: usize,
    /// Not `Send`: numbers belong to threads.
    thread: PhantomData<*const ()>,
}

impl Leader {
    /// The leader of a new team of at most `count` threads (1024 at most), of which this thread is one.
    ///
    /// # Panics
    /// On a member of another team.
    pub fn new(count: usize) -> Leader {
        assert!(!is_within() && thread_number() == 0, "members do not lead");
        assert!(count <= MEMBERS + 1, "{count} threads in a team, expected at most {}", MEMBERS + 1);
        let team = Team {
            gate: Alone(AtomicUsize::new(0)),
            next: (0..count.max(1)).map(|_| Alone(AtomicUsize::new(0))).collect(),
            section: UnsafeCell::new(None),
            present: AtomicUsize::new(0),
            numbers: (1..count).map(|_| AtomicBool::new(false)).collect(),
            panic: Mutex::new(None),
        };
        Leader { team: Arc::new(team), turns: 0, thread: PhantomData }
    }

    /// The team, for those that are to become members.
    pub fn team(&self) -> &Arc<Team> {
        &self.team
    }

    /// Calls `work` with every number below `count` once, on all threads of the team that are there in time.
    ///
    /// # Panics
    /// If a piece does.
    pub fn share(&mut self, count: usize, work: &Section) {
        let team = &*self.team;
        // SAFETY: only the lifetime changes. Members follow the pointer while they are within the section, and all of them
        // have left when this function returns.
        let erased = unsafe { std::mem::transmute::<*const Section<'_>, *const Section<'static>>(work) };
        let there = team.present.load(Ordering::Relaxed).min(team.numbers.len()) + 1;
        let open = Open { work: erased, count, parts: there.min(count).max(1) };
        // SAFETY: the gate is shut and no member is within: the last call waited for that, and there is one leader, which is
        // borrowed mutably.
        team.section.with_mut(|section| unsafe { *section = Some(open) });
        for part in 0..open.parts {
            team.next[part].0.store(open.start(part), Ordering::Relaxed);
        }
        self.turns = self.turns.wrapping_add(1);
        // Nobody else changes a gate that is shut.
        team.gate.0.store(self.turns.wrapping_mul(TURN) | OPEN, Ordering::Release);
        team.take_pieces(work, &open);
        let mut gate = team.gate.0.fetch_sub(OPEN, Ordering::Acquire);
        let mut turn = 0;
        while gate & MEMBERS != 0 {
            pause(turn);
            turn += 1;
            gate = team.gate.0.load(Ordering::Acquire);
        }
        let panic = team.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.team.gate.0.fetch_or(CLOSED, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A wait that ends with the team.
    fn forever() -> impl FnMut() -> bool {
        || {
            std::thread::yield_now();
            true
        }
    }

    /// Leads a team that has `members` members.
    fn with_team(members: usize, lead: impl FnOnce(&mut Leader)) {
        let mut leader = Leader::new(members + 1);
        let team = leader.team().clone();
        std::thread::scope(|scope| {
            for _ in 0..members {
                team.expect_member();
                scope.spawn(|| team.serve(forever));
            }
            lead(&mut leader);
            drop(leader);
        });
        assert_eq!(team.missing(), members);
        assert!(!is_within() && thread_number() == 0);
    }

    /// Whether each piece of some sections is called once, with as many members.
    fn calls(members: usize, sections: &[usize]) {
        with_team(members, |leader| {
            for &count in sections {
                let hits: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                leader.share(count, &|piece| {
                    assert!(is_within() && thread_number() <= members);
                    hits[piece].fetch_add(1, Ordering::Relaxed);
                });
                assert!(hits.iter().all(|hits| hits.load(Ordering::Relaxed) == 1), "{count} pieces");
            }
        });
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
        let leader = Leader::new(2);
        let team = leader.team();
        team.expect_member();
        assert_eq!(team.missing(), 0);
        // Nothing comes.
        team.serve(|| || false);
        assert_eq!(team.missing(), 1);
        // More than there are numbers.
        let seats: Vec<bool> = (0..3).map(|_| team.numbers[0].swap(true, Ordering::Relaxed)).collect();
        assert_eq!(seats, [false, true, true]);
        team.expect_member();
        team.serve(forever);
        assert_eq!(team.missing(), 1);
    }

    #[test]
    fn a_leader_waits_for_no_member_that_came_late() {
        let mut leader = Leader::new(2);
        let team = leader.team().clone();
        let looks = AtomicUsize::new(0);
        leader.share(1, &|_| {});
        // The section is over: it does not get in, and nobody has to wait for it.
        team.serve(|| || looks.fetch_add(1, Ordering::Relaxed) < 10);
        assert_eq!(looks.into_inner(), 11);
        assert_eq!(team.gate.0.load(Ordering::Relaxed), TURN);
        drop(leader);
        assert!(matches!(team.enter(0), Gate::Closed));
    }

    #[test]
    fn a_panic_in_any_piece_ends_the_section_and_reaches_the_leader() {
        for members in [0, 1] {
            with_team(members, |leader| {
                for bad in 0..20 {
                    let share = || leader.share(20, &|piece| assert!(piece != bad, "piece {piece}"));
                    let panic = catch_unwind(AssertUnwindSafe(share)).unwrap_err();
                    assert_eq!(*panic.downcast::<String>().unwrap(), format!("piece {bad}"));
                    let done = AtomicUsize::new(0);
                    leader.share(20, &|_| _ = done.fetch_add(1, Ordering::Relaxed));
                    assert_eq!(done.into_inner(), 20);
                }
            });
        }
    }
}
