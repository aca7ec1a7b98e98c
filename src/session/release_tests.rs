//! Tests of sessions that rest: what they free, what they keep, and when.

use super::cut_tests::{T, f, i, opened, run};
use super::stage_tests::chain_of_cuts;
use super::tests::{context, data, feed, finished, model, outputs, run as run_data, session};
use super::*;
use crate::memory::bytes_of;
use crate::onnx::tensor::ElementType::{Bool, Float, Int64};
use crate::onnx::testing::{Attr, TestGraph};
use crate::runtime::{Idle, Weight};
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Long enough for what happens on other threads, however busy the machine is.
const LONG: Duration = Duration::from_secs(30);

const ROWS: usize = 64;
const COLUMNS: usize = 128;

/// `numbers` pseudo-random numbers.
fn random(numbers: usize, seed: usize) -> Vec<f32> {
    (0..numbers).map(|at| ((at * 7919 + seed * 104_729) % 1009) as f32 / 1009.0 - 0.5).collect()
}

/// y = relu(x w), whose weights are large enough to be kept.
fn product() -> TestGraph {
    TestGraph::default()
        .input("x", Float, &["n", "64"])
        .floats("w", &[ROWS as i64, COLUMNS as i64], &random(ROWS * COLUMNS, 1))
        .node("MatMul", "x w", "xw", vec![])
        .node("Relu", "xw", "y", vec![])
        .output("y")
}

fn x(rows: u32) -> T {
    f(&[rows, ROWS as u32], &random(rows as usize * ROWS, rows as usize))
}

fn release(session: &Arc<Session>) {
    finished(|done| session.release(done)).unwrap();
}

/// Whether the session has nothing that runs would make again.
fn is_at_rest(session: &Session) -> bool {
    let has_program = session.program.lock().unwrap().is_some();
    session.templates.count() == 0 && session.kept.lock().is_empty() && !has_program
}

/// The addresses of the weights that the session's templates keep.
fn weights(session: &Session) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    session.templates.each_weight(&mut |weight: &Weight, _| _ = found.insert(Arc::as_ptr(weight).addr()));
    found
}

/// Waits until a condition holds.
fn wait_until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Keeps the timeline busy until the sender is dropped. The receiver gets the end.
fn busy(session: &Session) -> (Sender<()>, Receiver<Result<()>>) {
    let ((go, held), (tell, told)) = (channel::<()>(), channel());
    let work = move |_: &Site| {
        held.recv().unwrap_err();
        Ok(None)
    };
    session.context.enqueue(work, Done::new(move |result| tell.send(result).unwrap()));
    (go, told)
}

/// Runs with these feeds, releases, and checks that the same runs return the same.
fn check(session: &Arc<Session>, all: &[Vec<T>]) {
    let results = || all.iter().map(|feeds| run(session, feeds).unwrap()).collect::<Vec<_>>();
    let before = results();
    for round in 0..3 {
        release(session);
        assert!(is_at_rest(session), "round {round}");
        assert_eq!(results(), before, "round {round}");
    }
}

#[test]
fn a_session_at_rest_keeps_only_packed_weights_and_runs_as_before() {
    let session = opened(product());
    check(&session, &[vec![x(1)], vec![x(5)], vec![x(2)]]);
    let before = weights(&session);
    assert!(!before.is_empty());
    session.recycle(Buffer::zeroed(1 << 20).unwrap());
    let bytes = session.bytes();
    release(&session);
    let kept = session.kept_weights.lock().unwrap();
    assert_eq!((kept.count(), session.pool.bytes()), (before.len(), 0));
    let packed = ROWS * COLUMNS * size_of::<f32>();
    assert!(kept.bytes() >= packed && session.bytes() >= kept.bytes() && session.bytes() < bytes);
    drop(kept);
    // What is read late is not kept for runs that may not come.
    session.recycle(Buffer::zeroed(1 << 20).unwrap());
    assert_eq!(session.pool.bytes(), 0);
    // Nothing is lost if nothing was used in between.
    release(&session);
    assert_eq!(session.kept_weights.lock().unwrap().count(), before.len());
    run(&session, &[x(3)]).unwrap();
    assert_eq!(weights(&session), before, "nothing was packed again");
    session.recycle(Buffer::zeroed(1 << 20).unwrap());
    assert!(session.pool.bytes() >= 1 << 20);
}

#[test]
fn memory_that_runs_reuse_is_freed_when_it_is_unused_for_a_while() {
    let session = opened(product());
    run(&session, &[x(1)]).unwrap();
    let plans = session.bytes() - session.pool.bytes();
    session.recycle(Buffer::zeroed(4 << 20).unwrap());
    let start = Instant::now();
    assert!(session.pool.bytes() >= 4 << 20);
    wait_until(|| session.pool.bytes() == 0);
    assert!(start.elapsed() >= IDLE);
    assert!(session.bytes() == plans && !is_at_rest(&session), "only that");
}

#[test]
fn models_of_all_kinds_run_again() {
    // Of fixed shapes, compiled when they are loaded.
    let fixed = TestGraph::default().input("x", Float, &["2", "2"]).node("Neg", "x", "y", vec![]).output("y");
    let fixed = opened(fixed);
    finished(|done| fixed.prepare(done)).unwrap();
    assert!(!is_at_rest(&fixed));
    check(&fixed, &[vec![f(&[2, 2], &[1.0, 2.0, 3.0, 4.0])]]);
    // In stages.
    let xs = [[0.0, 1.0, 0.0, 2.0], [3.0, 0.0, 0.0, 0.0]].map(|x| vec![f(&[4], &x)]);
    let stages = opened(chain_of_cuts(5));
    check(&stages, &xs);
    assert_eq!(stages.program().unwrap().template_count(), 5);
    // With a loop whose number of rounds depends on data, in a program of its own.
    let body = TestGraph::default().input("i", Int64, &[]).input("c", Bool, &[]).input("a", Float, &["n"]);
    let body = body.floats("half", &[], &[0.5]).node("Mul", "a half", "b", vec![]);
    let body = body.node("ReduceSum", "b", "s", vec![("keepdims", Attr::Int(0))]);
    let body = body.floats("one", &[], &[1.0]).node("Greater", "s one", "again", vec![]);
    let body = body.output_of("again", Bool).output("b");
    let graph = TestGraph::default().input("x", Float, &["n"]).input("trips", Int64, &[]);
    let graph = graph.node("Loop", "trips _ x", "y", vec![("body", Attr::Graph(body))]).output("y");
    let feeds = |x: &[f32]| vec![f(&[x.len() as u32], x), i(&[], &[100])];
    check(&opened(graph), &[feeds(&[9.0, 4.0]), feeds(&[1.0]), feeds(&[5.0, 5.0, 6.0])]);
}

#[test]
fn weights_of_stages_are_kept() {
    let graph =
        product().node("NonZero", "y", "places", vec![]).node("Cast", "places", "z", vec![("to", Attr::Int(1))]);
    let session = opened(graph.output("z"));
    let feeds = [x(2)];
    let before = run(&session, &feeds).unwrap();
    let count = || {
        let mut found = weights(&session);
        let program = session.program().unwrap();
        program.each_weight(&mut |weight: &Weight, _| _ = found.insert(Arc::as_ptr(weight).addr()));
        found
    };
    let packed = count();
    assert!(!packed.is_empty());
    release(&session);
    assert!(is_at_rest(&session) && session.kept_weights.lock().unwrap().count() == packed.len());
    assert_eq!(run(&session, &feeds).unwrap(), before);
    assert_eq!(count(), packed);
}

#[test]
fn inputs_that_decide_are_compiled_for_after_any_number_of_releases() {
    let trips = || TestGraph::default().input("x", Float, &["n"]).input("c", Bool, &[]);
    let branch = |operator: &str| {
        let name = format!("of_{operator}");
        Attr::Graph(TestGraph::default().node(operator, "x", &name, vec![]).output(&name))
    };
    let branches = vec![("then_branch", branch("Neg")), ("else_branch", branch("Abs"))];
    let session = opened(trips().node("If", "c", "y", branches).output("y"));
    assert!(session.deciding().names().next().is_some());
    for round in 0..30 {
        let is_true = round % 3 == 0;
        let y = if is_true { [-1.0, 2.0] } else { [1.0, 2.0] };
        let feeds = [f(&[2], &[1.0, -2.0]), super::cut_tests::b(is_true)];
        assert_eq!(run(&session, &feeds).unwrap(), [f(&[2], &y)]);
        assert!(session.program.lock().unwrap().is_none(), "round {round}: no stages");
        release(&session);
    }
}

#[test]
fn constants_and_forms_of_a_session() {
    let graph = || {
        let graph = TestGraph::default().input("x", Float, &["n"]).input("w", Float, &["1"]).floats("w", &[1], &[10.0]);
        graph.input("b", Float, &["1"]).node("Mul", "x w", "xw", vec![]).node("Add", "xw b", "y", vec![]).output("y")
    };
    let model = model(graph());
    let bytes = Buffer::copy_of(bytes_of(&[7.0f32])).unwrap();
    let constants = vec![Constant::new(&model, &BTreeMap::new(), "b".into(), None, bytes).unwrap()];
    let session =
        Arc::new(Session::open(model, context(), SessionOptions { constants, ..Default::default() }).unwrap());
    let form = Arc::new(session.with_inputs(&["w".to_string()]).unwrap());
    let x = || data(&[1.0, 2.0], None);
    for _ in 0..3 {
        assert_eq!(run_data(&session, &[x()]).unwrap(), [(vec![2], vec![17.0, 27.0])]);
        assert_eq!(run_data(&form, &[x(), data(&[2.0], None)]).unwrap(), [(vec![2], vec![9.0, 11.0])]);
        assert!(!is_at_rest(&session) && !is_at_rest(&form));
        release(&session);
        assert!(is_at_rest(&session) && is_at_rest(&form));
    }
}

#[test]
fn caches_outlive_a_release() {
    let graph = TestGraph::default()
        .input("new", Float, &["1", "1", "n", "2"])
        .input("past", Float, &["1", "1", "m", "2"])
        .node("Concat", "past new", "present", vec![("axis", Attr::Int(2))])
        .ints("axes", &[2])
        .node("ReduceSum", "present axes", "y", vec![("keepdims", Attr::Int(0))])
        .output("y")
        .output("present");
    let texts = [false, true].map(|releases| {
        let session = opened(graph.clone());
        let mut past = (feed(&random(4, 99)), 2);
        let mut sums = Vec::new();
        for step in 0..8u32 {
            let rows = if step == 0 { 3 } else { 1 };
            let new = random(2 * rows as usize, step as usize);
            let feeds = vec![(feed(&new), vec![1, 1, rows, 2]), (past.0, vec![1, 1, past.1, 2])];
            let mut made = outputs(&session, feeds);
            let Some(Output::Cache(cache)) = made.pop() else { panic!("a cache") };
            let Some(Output::Bytes { bytes, .. }) = made.pop() else { panic!("y is read") };
            sums.push(bytes.bytes().to_vec());
            past = (Feed::Cache(cache), past.1 + rows);
            if releases && step % 2 == 0 {
                release(&session);
                assert!(is_at_rest(&session));
            }
        }
        let Feed::Cache(cache) = past.0 else { unreachable!("the last one") };
        (sums, cache.to_dense().unwrap().bytes().to_vec())
    });
    assert_eq!(texts[0], texts[1]);
}

#[test]
fn a_release_waits_for_runs_before_it_and_runs_after_it_wait() {
    let session = opened(product());
    let expected = run(&session, &[x(2)]).unwrap();
    let (go, _told) = busy(&session);
    let (tell, told) = channel();
    let values: Vec<_> = (0..6).map(|_| Arc::new(Slot::default())).collect();
    for (at, values) in values.iter().enumerate() {
        let T::F(shape, numbers) = x(2) else { unreachable!("floats") };
        let shapes = Shapes::from_iter([shape]);
        let done = |what: &'static str| {
            let tell = tell.clone();
            Done::new(move |result: Result<()>| tell.send((what, result)).unwrap())
        };
        session.run(shapes, vec![feed(&numbers)], vec![Target::Read]).enqueue(values.clone(), done("run"));
        if at % 2 == 0 {
            session.release(done("release"));
        }
    }
    drop(go);
    let order: Vec<_> = (0..9).map(|_| told.recv_timeout(LONG).unwrap()).collect();
    let expected_order = ["run", "release", "run"].repeat(3);
    assert_eq!(order, expected_order.into_iter().map(|what| (what, Ok(()))).collect::<Vec<_>>());
    let [T::F(_, y)] = &expected[..] else { unreachable!("floats") };
    for values in values {
        let Some(Some(Output::Bytes { bytes, .. })) = values.take().unwrap().pop() else { panic!("y is read") };
        assert_eq!(bytes.bytes(), bytes_of(&y[..]));
    }
    assert!(!is_at_rest(&session), "the last run has compiled");
}

fn idle_after(idle: Duration) -> SessionOptions {
    SessionOptions { idle: Some(idle), ..Default::default() }
}

#[test]
fn a_session_rests_by_itself_after_some_time_and_again_after_the_next_run() {
    let session = session(product(), idle_after(Duration::from_millis(1)));
    let first = run(&session, &[x(2)]).unwrap();
    for _ in 0..3 {
        wait_until(|| is_at_rest(&session));
        assert_eq!(run(&session, &[x(2)]).unwrap(), first);
    }
    // So does what was only compiled.
    wait_until(|| is_at_rest(&session));
    let shapes = Shapes::from_iter([[2, ROWS as u32]]);
    finished(|done| session.compile(shapes, Arc::default(), done)).unwrap();
    wait_until(|| is_at_rest(&session));
    let never = super::tests::session(product(), idle_after(Duration::MAX));
    run(&never, &[x(2)]).unwrap();
    assert!(never.usage.look().is_none() && !is_at_rest(&never));
}

#[test]
fn a_session_in_use_is_not_idle() {
    let idle = Duration::from_millis(1);
    let session = session(product(), idle_after(idle));
    let in_use = session.in_use();
    run(&session, &[x(2)]).unwrap();
    std::thread::sleep(20 * idle);
    assert!(session.usage.look().is_none());
    // After everything that a look may have put in the queue.
    finished(|done| session.context.enqueue(|_| Ok(None), done)).unwrap();
    assert!(!is_at_rest(&session));
    // What was queued meanwhile is in use as well.
    let (go, told) = busy(&session);
    drop(in_use);
    std::thread::sleep(20 * idle);
    let T::F(shape, numbers) = x(2) else { unreachable!("floats") };
    let queued = session.run(Shapes::from_iter([shape]), vec![feed(&numbers)], vec![Target::Read]);
    drop(go);
    told.recv_timeout(LONG).unwrap().unwrap();
    finished(|done| session.context.enqueue(|_| Ok(None), done)).unwrap();
    assert!(!is_at_rest(&session));
    finished(|done| queued.enqueue(Arc::default(), done)).unwrap();
    wait_until(|| is_at_rest(&session));
}

#[test]
fn the_time_begins_again_with_each_use_of_any_form() {
    let hour = Duration::from_secs(3600);
    let graph = product().input("w", Float, &["64", "128"]);
    let session = session(graph, idle_after(hour));
    let form = Arc::new(session.with_inputs(&["w".to_string()]).unwrap());
    run(&session, &[x(2)]).unwrap();
    let first = session.usage.look().expect("it is due in an hour");
    assert!(first > Instant::now() + hour / 2);
    run(&form, &[x(2), f(&[64, 128], &random(64 * 128, 2))]).unwrap();
    assert!(!is_at_rest(&session) && !is_at_rest(&form));
    assert!(Arc::ptr_eq(&session.usage, &form.usage));
}

#[test]
fn destroyed_sessions_and_lost_contexts() {
    let session = opened(product());
    let shapes = || Shapes::from_iter([[1, ROWS as u32]]);
    run(&session, &[x(1)]).unwrap();
    release(&session);
    session.destroy();
    let error = finished(|done| session.compile(shapes(), Arc::default(), done)).unwrap_err();
    assert_eq!((error.code, session.bytes()), (Some(Code::Destroyed), 0));
    assert_eq!(session.kept_weights.lock().unwrap().count(), 0);
    // Nothing is left to free.
    release(&session);
    assert_eq!(session.bytes(), 0);

    let session = super::tests::session(product(), idle_after(Duration::from_millis(1)));
    let in_use = session.in_use();
    run(&session, &[x(1)]).unwrap();
    session.context.lose();
    drop(in_use);
    let error = finished(|done| session.release(done)).unwrap_err();
    assert_eq!(error.kind, crate::error::ErrorKind::InvalidState, "{error}");
    session.destroy();
}
