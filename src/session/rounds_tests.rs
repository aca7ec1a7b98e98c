//! Tests of loops whose rounds run one after another: they return the bits of unrolled ones, and compile little.

use super::cut_tests::{T, f, i, opened, run};
use super::*;
use crate::onnx::tensor::ElementType::{Bool, Float, Int64};
use crate::onnx::testing::{Attr, TestGraph};
use crate::testing::Random;

/// Number of elements of states and rows.
const WIDTH: u32 = 6;

/// Adds `count` random values of `known` as outputs: inputs, values of the outer graph, and copies of others among them.
fn returning(mut body: TestGraph, random: &mut Random, known: &[String], count: u64) -> TestGraph {
    let mut returned = Vec::new();
    for at in 0..count {
        let mut name = pick(random, known).to_string();
        if returned.contains(&name) {
            let copy = format!("copy{at}");
            body = body.node("Identity", &name, &copy, vec![]);
            name = copy;
        }
        body = body.shaped_output(&name, &["1", "6"]);
        returned.push(name);
    }
    body
}

/// How many rounds a loop has.
#[derive(Clone, Copy, PartialEq)]
enum Trips {
    /// A number in the file: they are unrolled.
    Constant(i64),
    /// As many as the rows of an input.
    Sized,
    /// An input.
    Fed,
}

/// A random number below `limit`.
fn below(random: &mut Random, limit: u64) -> u64 {
    random.next() % limit
}

/// A random choice from `from`.
fn pick<'a>(random: &mut Random, from: &'a [String]) -> &'a str {
    &from[below(random, from.len() as u64) as usize]
}

/// Nodes that compute floats of shape [1, WIDTH] from `known`, and the names of all values.
fn computing(mut graph: TestGraph, random: &mut Random, mut known: Vec<String>) -> (TestGraph, Vec<String>) {
    for at in 0..1 + below(random, 6) {
        let name = format!("v{at}");
        let (a, b) = (pick(random, &known).to_string(), pick(random, &known).to_string());
        let (operator, inputs) = match below(random, 9) {
            0 => ("Add", format!("{a} {b}")),
            1 => ("Mul", format!("{a} {b}")),
            2 => ("Sub", format!("{a} {b}")),
            3 => ("Tanh", a),
            4 => ("Sigmoid", a),
            5 => ("MatMul", format!("{a} w")),
            6 => ("Identity", a),
            7 => ("Neg", a),
            _ => ("Add", format!("{a} outer")),
        };
        graph = graph.node(operator, &inputs, &name, vec![]);
        known.push(name);
    }
    (graph, known)
}

/// The graph of a loop of `states` states, with `rows` collected outputs. With `cut`, it has a further row, which takes
/// more than one stage.
fn looped(seed: u64, trips: Trips, cut: bool) -> TestGraph {
    let mut random = Random::new(seed);
    let (states, rows, condition) = (below(&mut random, 4), 1 + below(&mut random, 2), below(&mut random, 3));
    let mut body = TestGraph::default().input("i", Int64, &[]).input("c", Bool, &[]);
    let mut known = vec!["outer".to_string(), "slice".to_string()];
    for state in 0..states {
        body = body.input(&format!("s{state}"), Float, &["1", "6"]);
        known.push(format!("s{state}"));
    }
    body = body.ints("first", &[0]).node("Gather", "x i", "x_i", vec![]);
    body = body.node("Unsqueeze", "x_i first", "slice", vec![]);
    let (body, known) = computing(body, &mut random, known);
    let mut body = match condition {
        0 => body.output_of("c", Bool),
        1 => body.node("Identity", "c", "again", vec![]).output_of("again", Bool),
        _ => body.node("Less", "i last", "again", vec![]).output_of("again", Bool),
    };
    body = returning(body, &mut random, &known, states + rows);
    if cut {
        body = body.node("NonZero", "slice", "places", vec![]).node("Size", "places", "count", vec![]);
        body = body.output_of("count", Int64);
    }
    let mut graph = outer();
    let initial: Vec<String> = (0..states).map(|state| format!("h{state}")).collect();
    for (at, name) in initial.iter().enumerate() {
        let shift = format!("shift{at}");
        graph = graph.floats(&shift, &[], &[at as f32 / 4.0]).node("Sub", &format!("one {shift}"), name, vec![]);
    }
    graph = match trips {
        Trips::Constant(count) => graph.raw("trips", Int64, &[], &count.to_le_bytes()),
        Trips::Sized => graph.node("Shape", "x", "shape", vec![]).node("Gather", "shape zero", "trips", vec![]),
        Trips::Fed => graph.input("trips", Int64, &[]),
    };
    let outputs: Vec<String> = (0..states + rows + u64::from(cut)).map(|at| format!("y{at}")).collect();
    let inputs = format!("trips _ {}", initial.join(" "));
    graph = graph.node("Loop", &inputs, &outputs.join(" "), vec![("body", Attr::Graph(body))]);
    outputs[..(states + rows) as usize].iter().fold(graph, |graph, name| graph.output(name))
}

/// The outer graph of all tests: x of shape [n, 6], and constants.
fn outer() -> TestGraph {
    let weights: Vec<f32> = (0..36).map(|at| ((at * 7 % 11) as f32 - 5.0) / 8.0).collect();
    TestGraph::default()
        .input("x", Float, &["n", "6"])
        .floats("w", &[6, 6], &weights)
        .input("one", Float, &["1", "6"])
        .node("Tanh", "one", "outer", vec![])
        .raw("zero", Int64, &[], &0i64.to_le_bytes())
        .raw("last", Int64, &[], &3i64.to_le_bytes())
}

/// What `one` is fed with: nothing that depends on it is a constant, which a translation may compute in another way.
const ONE: [f32; 6] = [0.5, -0.25, 1.0, 0.75, -1.0, 0.125];

fn one() -> T {
    f(&[1, WIDTH], &ONE)
}

fn x(rows: u32) -> T {
    let mut random = Random::new(u64::from(rows));
    f(&[rows, WIDTH], &(0..rows * WIDTH).map(|_| below(&mut random, 2000) as f32 / 1000.0 - 1.0).collect::<Vec<_>>())
}

/// Bits, as NaN is not equal to itself.
fn bits(tensors: Vec<T>) -> Vec<(Vec<u32>, Vec<u32>)> {
    let of = |tensor| match tensor {
        T::F(shape, numbers) => (shape, numbers.into_iter().map(f32::to_bits).collect()),
        _ => panic!("all outputs are floats"),
    };
    tensors.into_iter().map(of).collect()
}

#[test]
fn rounds_one_after_another_return_the_bits_of_unrolled_ones() {
    for seed in 0..120 {
        let (sized, fed) = (opened(looped(seed, Trips::Sized, false)), opened(looped(seed, Trips::Fed, false)));
        let staged = opened(looped(seed, Trips::Fed, true));
        for rows in [1, 2, 6] {
            let unrolled = opened(looped(seed, Trips::Constant(i64::from(rows)), false));
            let expected = bits(run(&unrolled, &[x(rows), one()]).unwrap());
            assert!(unrolled.lock_program().is_none(), "it is a single graph");
            let trips = i(&[], &[i64::from(rows)]);
            assert_eq!(bits(run(&sized, &[x(rows), one()]).unwrap()), expected, "{seed}");
            assert_eq!(bits(run(&fed, &[x(rows), one(), trips.clone()]).unwrap()), expected, "{seed}");
            assert_eq!(bits(run(&staged, &[x(rows), one(), trips]).unwrap()), expected, "{seed}, in stages");
        }
        let none = run(&fed, &[x(2), one(), i(&[], &[0])]).unwrap();
        let rows: Vec<&T> = none.iter().filter(|tensor| matches!(tensor, T::F(shape, _) if shape[0] == 0)).collect();
        assert!(!rows.is_empty() && rows.iter().all(|rows| **rows == f(&[0, 1, WIDTH], &[])), "{seed}: {none:?}");
    }
}

/// A scan over the rows of x, and over the columns of a transposed x from the end, of `length` rows.
fn scanned(seed: u64, length: &str) -> TestGraph {
    let mut random = Random::new(seed);
    let mut body = TestGraph::default();
    for name in ["s0", "s1"] {
        body = body.input(name, Float, &["1", "6"]);
    }
    body = body.input("row", Float, &["6"]).input("column", Float, &["6"]).ints("first", &[0]);
    body = body.node("Unsqueeze", "row first", "a", vec![]).node("Unsqueeze", "column first", "b", vec![]);
    let names = ["outer", "a", "b", "s0", "s1"].map(str::to_string).to_vec();
    let (body, known) = computing(body, &mut random, names);
    let body = returning(body, &mut random, &known, 4);
    let attributes = vec![
        ("num_scan_inputs", Attr::Int(2)),
        ("scan_input_axes", Attr::Ints(&[0, -1])),
        ("scan_input_directions", Attr::Ints(&[0, 1])),
        ("scan_output_axes", Attr::Ints(&[1, -1])),
        ("scan_output_directions", Attr::Ints(&[0, 1])),
        ("body", Attr::Graph(body)),
    ];
    let weights: Vec<f32> = (0..36).map(|at| ((at * 7 % 11) as f32 - 5.0) / 8.0).collect();
    let graph = TestGraph::default()
        .input("x", Float, &[length, "6"])
        .floats("w", &[6, 6], &weights)
        .input("one", Float, &["1", "6"])
        .node("Tanh", "one", "outer", vec![])
        .node("Transpose", "x", "t", vec![])
        .node("Scan", "one outer x t", "y0 y1 y2 y3", attributes);
    ["y0", "y1", "y2", "y3"].into_iter().fold(graph, |graph, name| graph.output(name))
}

#[test]
fn scans_of_any_length_return_the_bits_of_unrolled_ones() {
    for seed in 0..60 {
        let session = opened(scanned(seed, "n"));
        for rows in [1, 2, 5] {
            let unrolled = opened(scanned(seed, &rows.to_string()));
            let expected = bits(run(&unrolled, &[x(rows), one()]).unwrap());
            assert_eq!(bits(run(&session, &[x(rows), one()]).unwrap()), expected, "{seed}");
        }
    }
}

impl Session {
    fn lock_program(&self) -> Option<Arc<Program>> {
        self.program.lock().unwrap().clone()
    }

    /// Number of templates of all graphs.
    fn template_count(&self) -> usize {
        self.templates.count() + self.lock_program().map_or(0, |program| program.template_count())
    }
}

#[test]
fn new_lengths_compile_nothing() {
    for graph in [looped(3, Trips::Sized, false), looped(4, Trips::Fed, false), scanned(5, "n")] {
        let is_fed = graph.clone().encode(17) == looped(4, Trips::Fed, false).encode(17);
        let session = opened(graph);
        let feeds = |rows: u32| match is_fed {
            true => vec![x(rows), one(), i(&[], &[i64::from(rows)])],
            false => vec![x(rows), one()],
        };
        run(&session, &feeds(8)).unwrap();
        let templates = session.template_count();
        assert!(templates <= 3, "the main graph, and that of a round");
        // A size that equals another one leads to other decisions.
        for rows in (7..30).chain([3000]) {
            run(&session, &feeds(rows)).unwrap();
            assert_eq!(session.template_count(), templates, "{rows} rows");
        }
    }
}

#[test]
fn long_loops_of_a_known_length_are_not_unrolled() {
    // Sums up a state of 3000 rounds.
    let body = TestGraph::default().input("i", Int64, &[]).input("c", Bool, &[]).input("s", Float, &["1", "6"]);
    let body = body.node("Add", "s outer", "next", vec![]).output_of("c", Bool).output("next");
    let graph = outer().raw("trips", Int64, &[], &3000i64.to_le_bytes());
    let graph = graph.node("Loop", "trips _ one", "y", vec![("body", Attr::Graph(body))]).output("y");
    let session = opened(graph.clone());
    let y = run(&session, &[x(1), one()]).unwrap();
    assert_eq!(session.template_count(), 2, "the main graph, and that of a round");
    let T::F(_, y) = &y[0] else { panic!("floats") };
    for (got, one) in y.iter().zip(ONE) {
        let expected = one + 3000.0 * one.tanh();
        assert!((got - expected).abs() < 0.05, "{got} {expected}");
    }
    // A single graph for the caller has all rounds.
    assert_eq!(graph.text(17).matches(" add ").count(), 3000);
}

#[test]
fn loops_within_loops_run_as_often_as_the_outer_counter_says() {
    // For each i, the sum of the first i rows of x, by a loop of i rounds; and a state that nothing changes.
    let inner = TestGraph::default()
        .input("j", Int64, &[])
        .input("d", Bool, &[])
        .input("t", Float, &["6"])
        .node("Gather", "x j", "row", vec![])
        .node("Add", "t row", "more", vec![])
        .output_of("d", Bool)
        .shaped_output("more", &["6"]);
    let body = TestGraph::default()
        .input("i", Int64, &[])
        .input("c", Bool, &[])
        .input("same", Float, &["1", "6"])
        .raw("none", Float, &[6], &[0; 24])
        .node("Loop", "i _ none", "sum", vec![("body", Attr::Graph(inner))])
        .output_of("c", Bool)
        .shaped_output("same", &["1", "6"])
        .shaped_output("sum", &["6"]);
    let graph = outer().input("trips", Int64, &[]);
    let graph = graph.node("Loop", "trips _ one", "kept sums", vec![("body", Attr::Graph(body))]);
    let session = opened(graph.output("kept").output("sums"));
    for trips in [0, 1, 5] {
        let T::F(_, numbers) = x(7) else { panic!("floats") };
        let mut sum = vec![0.0; 6];
        let mut sums = Vec::new();
        for i in 0..trips as usize {
            sums.extend(sum.clone());
            sum.iter_mut().zip(&numbers[6 * i..]).for_each(|(sum, x)| *sum += x);
        }
        let got = run(&session, &[x(7), one(), i(&[], &[trips])]).unwrap();
        assert_eq!(got, [one(), f(&[trips as u32, 6], &sums)]);
    }
}

#[test]
fn states_that_change_their_shape_in_the_first_round_only_are_bound_then() {
    // The state has no dimension at first.
    let body = TestGraph::default().input("i", Int64, &[]).input("c", Bool, &[]).input("s", Float, &[]);
    let body = body.node("Add", "s outer", "next", vec![]).output_of("c", Bool).output("next");
    let graph = outer().input("trips", Int64, &[]).input("start", Float, &[]);
    let graph = graph.node("Loop", "trips _ start", "y", vec![("body", Attr::Graph(body))]).output("y");
    let session = opened(graph);
    for trips in [1, 2, 3, 40] {
        let y = run(&session, &[x(1), one(), i(&[], &[trips]), f(&[], &[1.0])]).unwrap();
        let T::F(shape, y) = &y[0] else { panic!("floats") };
        assert_eq!(*shape, [1, 6]);
        let mut expected = 1.0f32;
        for _ in 0..trips {
            expected += ONE[0].tanh();
        }
        assert!((y[0] - expected).abs() < 1e-3, "{} {expected}", y[0]);
    }
    assert_eq!(session.template_count(), 3, "the main graph, and those of the first and of other rounds");
}

#[test]
fn a_profile_of_a_long_loop_lists_the_first_graphs_only() {
    const ROUNDS: u32 = 60_000;
    let body = TestGraph::default().input("i", Int64, &[]).input("c", Bool, &[]).input("s", Float, &["1", "6"]);
    let body = body.node("Add", "s one", "next", vec![]).output_of("c", Bool).output("next");
    let graph = TestGraph::default().input("one", Float, &["1", "6"]).input("trips", Int64, &[]);
    let session = opened(graph.node("Loop", "trips _ one", "y", vec![("body", Attr::Graph(body))]).output("y"));
    let shapes = Shapes::from_iter(vec![vec![1, WIDTH], vec![]]);
    let profile = |trips: u32| -> [usize; 3] {
        let bytes = |bytes: &[u8]| Feed::Bytes(Arc::new(Buffer::copy_of(bytes).unwrap()));
        let feeds = vec![bytes(crate::memory::bytes_of(&ONE[..])), bytes(&i64::from(trips).to_le_bytes())];
        let run = session.run(shapes.clone(), feeds, vec![Target::Unread]);
        let timings = Arc::new(Slot::default());
        super::tests::finished(|done| run.profile(Arc::default(), timings.clone(), done)).unwrap();
        let json: serde_json::Value = serde_json::from_str(&timings.take().unwrap()).unwrap();
        let graphs = json["graphs"].as_array().unwrap();
        let steps = graphs.iter().map(|graph| graph["steps"].as_array().unwrap().len()).sum();
        [graphs.len(), steps, json["omittedGraphs"].as_u64().unwrap() as usize]
    };
    assert_eq!(profile(3), [3, 3, 0]);
    let [graphs, steps, omitted] = profile(ROUNDS);
    assert_eq!((graphs, graphs + omitted), (steps, ROUNDS as usize));
    assert!((10_000..=100_000).contains(&(graphs + steps)), "{graphs} graphs");
}

#[test]
fn a_loop_that_only_its_condition_ends_runs_round_by_round_if_it_is_long() {
    // Adds `one` to a state while a counter of its own, which follows from constants, is below a limit.
    let looped = |limit: f32| {
        let body = TestGraph::default()
            .input("i", Int64, &[])
            .input("c", Bool, &[])
            .input("at", Float, &[])
            .input("s", Float, &["1", "6"])
            .node("Add", "at unit", "next", vec![])
            .node("Less", "next limit", "again", vec![])
            .node("Add", "s one", "sum", vec![])
            .output_of("again", Bool)
            .shaped_output("next", &[])
            .shaped_output("sum", &["1", "6"]);
        let graph = outer().floats("limit", &[], &[limit]).floats("unit", &[], &[1.0]).floats("none", &[], &[0.0]);
        let graph = graph.node("Loop", "_ _ none one", "count y", vec![("body", Attr::Graph(body))]);
        opened(graph.output("count").output("y"))
    };
    for (rounds, is_cut) in [(20.0f32, false), (2000.0, true)] {
        let session = looped(rounds);
        let y: Vec<f32> = ONE.iter().map(|one| one * (rounds + 1.0)).collect();
        assert_eq!(run(&session, &[x(1), one()]).unwrap(), [f(&[], &[rounds]), f(&[1, 6], &y)]);
        assert_eq!(session.lock_program().is_some(), is_cut);
    }
}

#[test]
fn scans_of_opset_8_are_unrolled_for_every_length() {
    let body = TestGraph::default().input("s", Float, &["2"]).input("row", Float, &["2"]);
    let body =
        body.node("Add", "s row", "next", vec![]).node("Identity", "next", "y", vec![]).output("next").output("y");
    let graph = TestGraph::default().input("start", Float, &["1", "2"]).input("x", Float, &["1", "n", "2"]);
    let attributes = vec![("num_scan_inputs", Attr::Int(1)), ("body", Attr::Graph(body))];
    let graph = graph.node("Scan", "_ start x", "last ys", attributes).output("last").output("ys");
    let (files, bytes) = crate::onnx::file::Files::of_bytes(graph.encode(8));
    let model = Arc::new(Model::decode(bytes, files).unwrap());
    let session = Arc::new(Session::open(model, super::tests::context(), SessionOptions::default()).unwrap());
    for length in [1, 3, 700] {
        let ys: Vec<f32> = (1..=length).flat_map(|at| [at as f32, -(at as f32)]).collect();
        let x: Vec<f32> = (0..length).flat_map(|_| [1.0, -1.0]).collect();
        let got = run(&session, &[f(&[1, 2], &[0.0, 0.0]), f(&[1, length, 2], &x)]).unwrap();
        assert_eq!(got, [f(&[1, 2], &ys[ys.len() - 2..]), f(&[1, length, 2], &ys)]);
    }
}

#[test]
fn rows_without_room_are_refused_before_the_first_round() {
    let body = TestGraph::default().input("i", Int64, &[]).input("c", Bool, &[]).input("s", Float, &["1", "6"]);
    let body = body.node("Identity", "c", "again", vec![]).node("Neg", "s", "next", vec![]);
    let body = body.node("Identity", "next", "row", vec![]).output_of("again", Bool);
    let body = body.shaped_output("next", &["1", "6"]).shaped_output("row", &["1", "6"]);
    let graph = outer().input("trips", Int64, &[]);
    let graph = graph.node("Loop", "trips _ one", "final rows", vec![("body", Attr::Graph(body))]);
    let session = opened(graph.output("rows"));
    // Running so many rounds would take years.
    let error = run(&session, &[x(1), one(), i(&[], &[1 << 50])]).unwrap_err();
    assert_eq!(error.code, Some(Code::NoMemory), "{error}");
    assert_eq!(run(&session, &[x(1), one(), i(&[], &[2])]).unwrap().len(), 1);
}
