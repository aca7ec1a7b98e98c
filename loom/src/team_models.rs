//! Models of a leader and its members.

use crate::team::{Leader, Team, is_within, thread_number};
use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Tries all interleavings with at most this many preemptions: all known defects of such protocols show with three.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A wait that ends with the team.
fn patient() -> impl FnMut() -> bool {
    || {
        thread::yield_now();
        true
    }
}

/// A member that looks once more and leaves.
fn impatient() -> impl FnMut() -> bool {
    let mut looks = 1;
    move || {
        thread::yield_now();
        looks -= 1;
        looks >= 0
    }
}

/// Leads a team with members that wait like this.
fn lead<W: FnMut() -> bool + 'static>(members: usize, waiting: fn() -> W, work: impl FnOnce(&mut Leader)) {
    let mut leader = Leader::new(members + 1);
    let team = leader.team().clone();
    let serve = || {
        team.expect_member();
        let team: Arc<Team> = team.clone();
        thread::spawn(move || team.serve(waiting))
    };
    let threads: Vec<_> = (0..members).map(|_| serve()).collect();
    work(&mut leader);
    drop(leader);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(team.missing(), members, "all have left");
}

/// Shares `count` pieces that each write a cell: loom fails if two threads write at the same time, or if the leader
/// reads a cell before it is written.
fn share(leader: &mut Leader, count: usize) {
    let cells: Vec<UnsafeCell<usize>> = (0..count).map(|_| UnsafeCell::new(0)).collect();
    struct Cells<'a>(&'a [UnsafeCell<usize>]);
    // SAFETY: the model is to prove that no two threads write a cell at the same time.
    unsafe impl Sync for Cells<'_> {}
    let shared = Cells(&cells);
    let shared = &shared;
    leader.share(count, &move |piece| {
        assert!(is_within());
        // SAFETY: as above.
        shared.0[piece].with_mut(|cell| unsafe { *cell += 1 });
    });
    for cell in &cells {
        // SAFETY: as above.
        assert_eq!(cell.with(|cell| unsafe { *cell }), 1, "each piece is done once");
    }
}

#[test]
fn each_piece_is_done_once_and_seen_by_the_leader() {
    check(3, || lead(1, patient, |leader| share(leader, 2)));
}

#[test]
fn a_member_never_works_on_a_finished_section() {
    check(3, || {
        lead(1, patient, |leader| {
            share(leader, 1);
            share(leader, 2);
        });
    });
}

#[test]
fn a_team_is_led_again() {
    check(3, || {
        lead(1, patient, |leader| {
            share(leader, 1);
            leader.close();
            leader.reopen();
            share(leader, 2);
        });
    });
}

#[test]
fn members_leave_whenever_they_like() {
    check(3, || {
        lead(1, impatient, |leader| {
            share(leader, 1);
            share(leader, 1);
        });
    });
}

#[test]
fn two_members_have_different_numbers() {
    check(2, || {
        lead(2, impatient, |leader| {
            // By number: a thread with a number writes the cell of that number.
            let scratch: Vec<UnsafeCell<usize>> = (0..3).map(|_| UnsafeCell::new(0)).collect();
            struct Scratch<'a>(&'a [UnsafeCell<usize>]);
            // SAFETY: the model is to prove that no two threads have the same number.
            unsafe impl Sync for Scratch<'_> {}
            let shared = Scratch(&scratch);
            let shared = &shared;
            leader.share(2, &move |_| {
                // SAFETY: as above.
                shared.0[thread_number()].with_mut(|own| unsafe { *own += 1 });
            });
            // SAFETY: as above.
            let done: usize = scratch.iter().map(|own| own.with(|own| unsafe { *own })).sum();
            assert_eq!(done, 2);
        });
    });
}

#[test]
fn a_panic_reaches_the_leader_and_the_team_goes_on() {
    check(2, || {
        lead(1, patient, |leader| {
            let panics = || leader.share(2, &|piece| assert!(piece != 1, "piece {piece}"));
            let panic = catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
            assert_eq!(*panic.downcast::<String>().unwrap(), "piece 1");
            share(leader, 1);
        });
    });
}

#[test]
fn numbers_are_reused_after_their_members_leave() {
    check(3, || {
        let mut leader = Leader::new(2);
        let team = leader.team().clone();
        // Two threads come for the only number.
        let come = || {
            team.expect_member();
            let team = team.clone();
            thread::spawn(move || team.serve(impatient))
        };
        let threads = [come(), come()];
        struct Own(UnsafeCell<usize>);
        // SAFETY: the model is to prove that only one thread is a member at a time.
        unsafe impl Sync for Own {}
        let own = Own(UnsafeCell::new(0));
        let shared = &own;
        leader.share(1, &move |_| {
            // SAFETY: as above.
            shared.0.with_mut(|data| unsafe { *data += 1 });
        });
        // SAFETY: as above.
        assert_eq!(own.0.with(|data| unsafe { *data }), 1);
        drop(leader);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(team.missing(), 1);
    });
}
