//! Teams: threads that share sections of work without going to sleep in between.
//!
//! Waking a thread takes longer than many steps of a graph, so the members of a team stay awake for a while and wait
//! for the next section. Each thread owns a part of the pieces, the same part in all sections of the same count: data
//! written in one step are still in its caches when the next step reads them. A thread that has finished its own part
//! takes pieces of the others: no piece waits for a member that has lost its core or has not arrived yet. A member that
//! arrives after a section was closed does not enter it, so the leader waits only for members within a piece.
//!
//! Atomic additions to a line that many cores use pass it from core to core, at some 50 to 100 ns each. A section costs
//! two per member with a part, to enter and to leave, and one per piece: members without a part, and parts without
//! pieces, are only read.

use crate::sync::{AtomicBool, AtomicUsize, Mutex, UnsafeCell, of_thread, pause};
use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// A function to call with each number below a count.
type Section<'a> = dyn Fn(usize) + Sync + 'a;

of_thread! {
    /// This thread's number in its team; 0 is the leader.
    NUMBER: Cell<usize> = Cell::new(0);
    /// Whether this thread is within a piece of a section: nested sections are not shared.
    WITHIN: Cell<bool> = Cell::new(false);
}

/// The number of this thread among those that share the current section; 0 elsewhere.
pub fn thread_number() -> usize {
    NUMBER.with(Cell::get)
}

/// Whether this thread is within a piece of a section.
pub fn is_within() -> bool {
    WITHIN.with(Cell::get)
}

/// A value on cache lines of its own, a pair of them: processors fetch lines in pairs.
#[repr(align(128))]
struct Alone<T>(T);

/// The gate to sections is a single atomic number. It consists of the number of members within, whether a section is
/// open, whether the team is closed, and the number of sections so far.
const MEMBER: usize = 1;
/// Mask of the number of members, at most 1023.
const MEMBERS: usize = OPEN - 1;
const OPEN: usize = 1 << 10;
const CLOSED: usize = 1 << 11;
/// The increment per section. On 32 bits, the count wraps around after a million; only a member that missed exactly
/// that many would be fooled.
const TURN: usize = 1 << 12;

/// What a member finds at the gate.
enum Entry {
    /// The member has entered the section of this turn.
    Within(usize),
    /// The section of this turn has no part for this member.
    Full(usize),
    /// No section is open to this member yet.
    Shut,
    /// No more sections will come.
    Closed,
}

/// An open section.
#[derive(Clone, Copy)]
struct Open {
    work: *const Section<'static>,
    /// Number of pieces.
    count: usize,
    /// Number of parts that the pieces are divided into: one per thread that was present or announced when the section
    /// was opened.
    parts: usize,
}

impl Open {
    /// The first piece of a part.
    fn start(&self, part: usize) -> usize {
        part * self.count / self.parts
    }
}

/// The threads that help a [`Leader`].
pub struct Team {
    gate: Alone<AtomicUsize>,
    /// For each part of the open section, its next piece.
    next: Vec<Alone<AtomicUsize>>,
    /// The open section. Only the leader writes it, while no section is open and no member is within.
    section: UnsafeCell<Option<Open>>,
    /// Members from this number on stay out of the open section, because others are enough for its pieces. A member that
    /// reads the number of another section enters or stays out without need, and nothing else.
    first_out: AtomicUsize,
    /// Number of members that wait for sections, work on one, or are announced.
    present: AtomicUsize,
    /// Which numbers are taken. A member has one as long as it is present.
    numbers: Vec<AtomicBool>,
    /// The payload of the first panic in a piece.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Number of additions to shared lines so far.
    #[cfg(test)]
    additions: std::sync::atomic::AtomicUsize,
}

// SAFETY: only members that came through the gate while it was open follow the pointer in `section`. The leader keeps
// the pointer's target, which is `Sync`, alive until they have left, and writes the cell only when no member is within.
unsafe impl Send for Team {}
// SAFETY: as above.
unsafe impl Sync for Team {}

impl Team {
    /// Maximum number of threads in the team, including its leader.
    pub fn size(&self) -> usize {
        self.numbers.len() + 1
    }

    /// Number of missing members.
    pub fn missing(&self) -> usize {
        self.numbers.len().saturating_sub(self.present.load(Ordering::Relaxed))
    }

    /// Announces one more member, which must call [`serve`](Self::serve).
    pub fn expect_member(&self) {
        self.present.fetch_add(1, Ordering::Relaxed);
    }

    /// Withdraws an announcement.
    pub fn forget_member(&self) {
        self.present.fetch_sub(1, Ordering::Relaxed);
    }

    /// Adds to a number on a line that other threads use; returns the previous number.
    fn add(&self, number: &AtomicUsize, amount: usize, order: Ordering) -> usize {
        #[cfg(test)]
        self.additions.fetch_add(1, Ordering::Relaxed);
        number.fetch_add(amount, order)
    }

    /// Serves as a member: works on sections until the team is closed or the wait gets too long. Calls `waiting` at the
    /// start of each wait, and the closure it returns after each look at the gate; the closure decides whether to look
    /// again.
    pub fn serve<W: FnMut() -> bool>(&self, waiting: impl Fn() -> W) {
        // If this member arrives late, members invited after it may have taken all numbers.
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
                    Entry::Within(turn) => break turn,
                    // Others work: this member's wait starts again, because the next section may be larger.
                    Entry::Full(turn) => (seen, look_again) = (turn, waiting()),
                    Entry::Shut if look_again() => {}
                    Entry::Shut | Entry::Closed => return,
                }
            };
            // SAFETY: this member came through the open gate: the leader wrote the cell before opening it, and waits
            // until this member has left.
            let section = self.section.with(|section| unsafe { *section });
            if let Some(open) = section {
                // SAFETY: as above: the target is alive until this member has left.
                self.take_pieces(unsafe { &*open.work }, &open);
            }
            // When the leader sees that this member has left, it also sees all its work.
            self.add(&self.gate.0, MEMBER.wrapping_neg(), Ordering::Release);
        }
    }

    /// Enters the gate if a section other than `seen` is open and has a part for this member.
    fn enter(&self, seen: usize) -> Entry {
        let is_open = |gate: usize| gate & OPEN != 0 && gate / TURN != seen;
        let gate = self.gate.0.load(Ordering::Acquire);
        if gate & CLOSED != 0 {
            return Entry::Closed;
        }
        if !is_open(gate) {
            return Entry::Shut;
        }
        if thread_number() >= self.first_out.load(Ordering::Relaxed) {
            return Entry::Full(gate / TURN);
        }
        // An addition, because it always succeeds: if all members compare and exchange at once, one succeeds and the
        // others fetch the line again. `Acquire`: whoever enters sees what the leader wrote before it opened the gate.
        let gate = self.add(&self.gate.0, MEMBER, Ordering::Acquire);
        if is_open(gate) {
            return Entry::Within(gate / TURN);
        }
        self.add(&self.gate.0, MEMBER.wrapping_neg(), Ordering::Relaxed);
        Entry::Shut
    }

    /// Takes pieces until none are left, starting with this thread's own part.
    fn take_pieces(&self, work: &Section, open: &Open) {
        let outer = WITHIN.with(|within| within.replace(true));
        let own = thread_number();
        let result = catch_unwind(AssertUnwindSafe(|| {
            for part in (0..open.parts).map(|i| (own + i) % open.parts) {
                let end = open.start(part + 1);
                let next = &self.next[part].0;
                while next.load(Ordering::Relaxed) < end {
                    let piece = self.add(next, 1, Ordering::Relaxed);
                    if piece < end {
                        work(piece);
                    }
                }
            }
        }));
        WITHIN.with(|within| within.set(outer));
        if let Err(panic) = result {
            // The remaining pieces are moot after a panic.
            self.next.iter().for_each(|next| _ = next.0.fetch_max(open.count, Ordering::Relaxed));
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        }
    }
}

/// The leader of a team. Work is shared only through it: a team has one leader, which stays on its thread. Closing or
/// dropping it dismisses the members.
pub struct Leader {
    team: Arc<Team>,
    /// Not `Send`: numbers belong to threads.
    thread: PhantomData<*const ()>,
}

impl Leader {
    /// Creates a team of at most `count` threads (1024 at most), with this thread as its leader.
    ///
    /// # Panics
    /// If this thread is a member of another team.
    pub fn new(count: usize) -> Leader {
        assert!(!is_within() && thread_number() == 0, "a member of a team cannot lead another");
        assert!(count <= MEMBERS + 1, "{count} threads in a team, expected at most {}", MEMBERS + 1);
        let team = Team {
            gate: Alone(AtomicUsize::new(0)),
            next: (0..count.max(1)).map(|_| Alone(AtomicUsize::new(0))).collect(),
            section: UnsafeCell::new(None),
            first_out: AtomicUsize::new(0),
            present: AtomicUsize::new(0),
            numbers: (1..count).map(|_| AtomicBool::new(false)).collect(),
            panic: Mutex::new(None),
            #[cfg(test)]
            additions: Default::default(),
        };
        Leader { team: Arc::new(team), thread: PhantomData }
    }

    /// The team, for threads that will become members.
    pub fn team(&self) -> &Arc<Team> {
        &self.team
    }

    /// Dismisses the members.
    pub fn close(&self) {
        self.team.gate.0.fetch_or(CLOSED, Ordering::Relaxed);
    }

    /// Whether the members are dismissed.
    pub fn is_closed(&self) -> bool {
        self.team.gate.0.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Leads the team again. Members that have not noticed their dismissal stay.
    pub fn reopen(&self) {
        self.team.gate.0.fetch_and(!CLOSED, Ordering::Relaxed);
    }

    /// Calls `work` once with every number below `count`, on all threads of the team that arrive in time.
    ///
    /// # Panics
    /// If a piece panics.
    pub fn share(&mut self, count: usize, work: &Section) {
        let team = &*self.team;
        // SAFETY: only the lifetime changes. Members follow the pointer only within the section, and all of them have
        // left when this function returns.
        let erased = unsafe { std::mem::transmute::<*const Section<'_>, *const Section<'static>>(work) };
        let there = team.present.load(Ordering::Relaxed).min(team.numbers.len()) + 1;
        let open = Open { work: erased, count, parts: there.min(count).max(1) };
        // SAFETY: the gate is shut and no member is within, because the previous call waited for that; the only leader
        // is borrowed mutably.
        team.section.with_mut(|section| unsafe { *section = Some(open) });
        for part in 0..open.parts {
            team.next[part].0.store(open.start(part), Ordering::Relaxed);
        }
        // Members that have left leave gaps between the numbers of the others.
        let taken = team.numbers.iter().enumerate().filter(|(_, taken)| taken.load(Ordering::Relaxed));
        let first_out = if count < there { taken.map(|(index, _)| index + 1).nth(open.parts - 1) } else { None };
        team.first_out.store(first_out.unwrap_or(usize::MAX), Ordering::Relaxed);
        team.add(&team.gate.0, TURN + OPEN, Ordering::Release);
        team.take_pieces(work, &open);
        let mut gate = team.add(&team.gate.0, OPEN.wrapping_neg(), Ordering::Acquire);
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
        self.close();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A wait that lasts until the team is closed.
    fn forever() -> impl FnMut() -> bool {
        || {
            std::thread::yield_now();
            true
        }
    }

    /// Leads a team of `members` members.
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

    /// Checks that each piece of the sections runs exactly once, with `members` members.
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
    fn the_others_share_when_a_member_has_left() {
        let mut leader = Leader::new(4);
        let team = leader.team().clone();
        let leaves = AtomicBool::new(false);
        let waits = || {
            || {
                std::thread::yield_now();
                !(thread_number() == 1 && leaves.load(Ordering::Relaxed))
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                team.expect_member();
                scope.spawn(|| team.serve(waits));
            }
            while team.numbers.iter().any(|taken| !taken.load(Ordering::Relaxed)) {
                std::thread::yield_now();
            }
            leaves.store(true, Ordering::Relaxed);
            while team.missing() == 0 {
                std::thread::yield_now();
            }
            for count in [2, 64] {
                let seen = Mutex::new(std::collections::BTreeSet::new());
                let expected = if count == 2 { 2 } else { 3 };
                for _ in 0..10_000 {
                    leader.share(count, &|_| {
                        seen.lock().unwrap().insert(thread_number());
                        std::thread::yield_now();
                    });
                    if seen.lock().unwrap().len() == expected {
                        break;
                    }
                }
                assert_eq!(
                    seen.into_inner().unwrap(),
                    [0, 2, 3].into_iter().take(expected).collect(),
                    "{count} pieces"
                );
            }
            drop(leader);
        });
    }

    #[test]
    fn every_piece_runs_once() {
        for members in [0, 1, 6] {
            calls(members, &[0, 1, 2, 3, 100, 1]);
            calls(members, &[5; 500]);
        }
    }

    /// The additions to shared lines that a section of `count` pieces takes with `members` members: the median of some.
    fn additions(members: usize, count: usize) -> usize {
        let mut counts = Vec::new();
        with_team(members, |leader| {
            while leader.team().numbers.iter().any(|taken| !taken.load(Ordering::Relaxed)) {
                std::thread::yield_now();
            }
            for _ in 0..51 {
                let before = leader.team().additions.load(Ordering::Relaxed);
                leader.share(count, &|_| std::thread::yield_now());
                counts.push(leader.team().additions.load(Ordering::Relaxed) - before);
            }
        });
        counts.sort_unstable();
        counts[counts.len() / 2]
    }

    #[test]
    fn a_section_costs_a_few_additions_per_part_and_one_per_piece() {
        for members in [7, 15, 63] {
            let threads = members + 1;
            for count in [2, threads / 2, threads, 4 * threads] {
                let parts = count.min(threads);
                let additions = additions(members, count);
                // Two for the leader, two for each other part, one per piece, and now and then one that comes too late.
                let most = 2 * parts + count + parts;
                assert!((count..=most).contains(&additions), "{threads} threads, {count} pieces: {additions}");
            }
        }
    }

    #[test]
    fn members_that_leave_are_missing() {
        let leader = Leader::new(2);
        let team = leader.team();
        team.expect_member();
        assert_eq!(team.missing(), 0);
        // No section is opened.
        team.serve(|| || false);
        assert_eq!(team.missing(), 1);
        // More attempts than numbers.
        let seats: Vec<bool> = (0..3).map(|_| team.numbers[0].swap(true, Ordering::Relaxed)).collect();
        assert_eq!(seats, [false, true, true]);
        team.expect_member();
        team.serve(forever);
        assert_eq!(team.missing(), 1);
    }

    #[test]
    fn a_leader_does_not_wait_for_late_members() {
        let mut leader = Leader::new(2);
        let team = leader.team().clone();
        let looks = AtomicUsize::new(0);
        leader.share(1, &|_| {});
        // The section is over: the member does not enter, and the leader does not wait for it.
        team.serve(|| || looks.fetch_add(1, Ordering::Relaxed) < 10);
        assert_eq!(looks.into_inner(), 11);
        assert_eq!(team.gate.0.load(Ordering::Relaxed), TURN);
        drop(leader);
        assert!(matches!(team.enter(0), Entry::Closed));
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
