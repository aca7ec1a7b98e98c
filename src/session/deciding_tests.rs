//! Tests of inputs whose elements decide, against sessions that are cut there.

use super::cut_tests::{T, b, f, i, opened, run};
use super::tests::{context, finished, model, read_value};
use super::*;
use crate::dtype::DataType;
use crate::memory::{bytes_of, elements};
use crate::onnx::tensor::ElementType::{Bool, Float, Int32, Int64, Uint8};
use crate::onnx::testing::{Attr, TestGraph};
use crate::runtime::{Backend, Tensor};

/// The session of `graph`, and one that is cut where inputs decide.
fn pair(graph: impl Fn() -> TestGraph) -> [Arc<Session>; 2] {
    let open = || Session::open(model(graph()), context(), SessionOptions::default()).unwrap();
    [Arc::new(open()), Arc::new(Session { deciding: Deciding::default().into(), ..open() })]
}

fn names(session: &Session) -> Vec<&str> {
    session.deciding().names().collect()
}

/// Whether every run so far consisted of one graph.
fn is_whole(session: &Session) -> bool {
    session.program.lock().unwrap().is_none()
}

/// Checks that both sessions return the same, with the same errors.
fn check(sessions: &[Arc<Session>; 2], feeds: &[T]) -> Result<Vec<T>> {
    let [whole, cut] = sessions.each_ref().map(|session| run(session, feeds));
    assert_eq!(whole, cut, "{feeds:?}");
    whole
}

/// A branch that returns what `operator` makes of x and `more`.
fn branch(operator: &str, inputs: &str, more: Vec<(&'static str, Attr<'static>)>) -> TestGraph {
    let name = format!("of_{operator}");
    TestGraph::default().node(operator, inputs, &name, more).output(&name)
}

fn branches(yes: TestGraph, no: TestGraph) -> Vec<(&'static str, Attr<'static>)> {
    vec![("then_branch", Attr::Graph(yes)), ("else_branch", Attr::Graph(no))]
}

/// Joins its inputs along their first dimension.
fn twice() -> TestGraph {
    branch("Concat", "x x", vec![("axis", Attr::Int(0))])
}

const NUMBERS: [i64; 21] = [
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    -1,
    -2,
    -6,
    -7,
    100,
    8000,
    16_000,
    1 << 31,
    -(1 << 31),
    1 << 62,
    i64::MAX,
    i64::MIN,
    i64::MIN + 1,
];

#[test]
fn a_rate_chooses_one_of_two_graphs() {
    let graph = || {
        let rate = TestGraph::default().input("x", Float, &["n"]).input("rate", Int64, &[]);
        let rate = rate.raw("sixteen", Int64, &[], &16_000i64.to_le_bytes());
        let rate = rate.node("Equal", "rate sixteen", "is_sixteen", vec![]);
        rate.node("If", "is_sixteen", "y", branches(twice(), branch("Neg", "x", vec![]))).output("y")
    };
    let sessions = pair(graph);
    assert_eq!(names(&sessions[0]), ["rate"]);
    for n in [1u32, 2, 5] {
        let x: Vec<f32> = (0..n).map(|at| at as f32 + 1.0).collect();
        for rate in NUMBERS {
            let y = match rate {
                16_000 => f(&[2 * n], &[&x[..], &x[..]].concat()),
                _ => f(&[n], &x.iter().map(|x| -x).collect::<Vec<_>>()),
            };
            assert_eq!(check(&sessions, &[f(&[n], &x), i(&[], &[rate])]).unwrap(), [y]);
        }
    }
    assert!(is_whole(&sessions[0]));
    assert_eq!(sessions[0].templates.count(), 2);
}

#[test]
fn of_branches_of_one_shape_only_the_chosen_one_runs() {
    let graph = || {
        let graph = TestGraph::default().input("x", Float, &["n"]).input("c", Bool, &["1"]);
        let graph = graph.node("Not", "c", "d", vec![]);
        graph.node("If", "d", "y", branches(branch("Exp", "x", vec![]), branch("Neg", "x", vec![]))).output("y")
    };
    let sessions = pair(graph);
    assert_eq!(names(&sessions[0]), ["c"]);
    let x = f(&[2], &[1.0, -2.0]);
    for truth in [1, 0, 1, 255] {
        check(&sessions, &[x.clone(), T::B(vec![1], vec![truth])]).unwrap();
    }
    let work = |session: &Session| {
        let kept = session.kept.lock();
        let graphs = kept.iter().map(|one| one.graph().unwrap().description().unwrap().json().to_string());
        graphs.map(|text| ["exp", "neg"].map(|name| text.contains(&format!("\"{name}\"")))).collect::<Vec<_>>()
    };
    assert_eq!(work(&sessions[1]), [[true, true]]);
    // 255 is another truth value, which some operators can tell from 1.
    assert_eq!(work(&sessions[0]), [[true, false], [false, true], [false, true]].map(|row| row));
}

/// The results of nodes that take a number `k`, or the shape `[k, 2]`.
fn counted(operator: &str, inputs: &str, axis: Option<i64>) -> TestGraph {
    let graph = TestGraph::default()
        .input("x", Float, &["n", "2"])
        .input("k", Int64, &["1"])
        .ints("one", &[1])
        .ints("two", &[2])
        .ints("zero", &[0])
        .ints("axes", &[0])
        .raw("nil", Int64, &[], &0i64.to_le_bytes())
        .raw("step", Int64, &[], &1i64.to_le_bytes())
        .floats("half", &[1], &[0.5])
        .node("Add", "k one", "more", vec![])
        .node("Squeeze", "k axes", "count", vec![])
        .node("Concat", "k two", "shape", vec![("axis", Attr::Int(0))])
        .node("Concat", "zero k zero zero", "pads", vec![("axis", Attr::Int(0))]);
    let attributes = axis.map(|axis| ("axis", Attr::Int(axis)));
    graph.node(operator, inputs, "y", attributes.into_iter().collect()).output("y")
}

#[test]
fn counts_shapes_and_bounds_are_sizes_of_one_graph() {
    for (operator, inputs, axis) in [
        ("Slice", "x zero k axes", None),
        ("Slice", "x k more axes", None),
        ("Slice", "x zero more axes", None),
        ("Reshape", "x shape", None),
        ("Expand", "half shape", None),
        ("Tile", "x shape", None),
        ("ConstantOfShape", "shape", None),
        ("Range", "nil count step", None),
        ("TopK", "x k", Some(0)),
        ("Pad", "x pads", None),
        ("OneHot", "one k halves", None),
    ] {
        let halves = |graph: TestGraph| graph.floats("halves", &[2], &[0.5, 2.0]);
        let graph = || halves(counted(operator, inputs, axis));
        let is_int = operator == "Range";
        let graph = move || if is_int { retyped(graph()) } else { graph() };
        let sessions = pair(graph);
        assert_eq!(names(&sessions[0]), ["k"], "{operator}");
        let mut right = 0;
        for n in [2u32, 6, 1] {
            let x: Vec<f32> = (0..2 * n).map(|at| (at * 7 % 11) as f32).collect();
            for k in NUMBERS {
                right += usize::from(check(&sessions, &[f(&[n, 2], &x), i(&[1], &[k])]).is_ok());
            }
        }
        assert!(right > 3, "{operator}: {right}");
        assert!(sessions[0].templates.count() <= 8);
    }
}

/// `graph` with its output `y` as int64.
fn retyped(graph: TestGraph) -> TestGraph {
    graph.node("Identity", "y", "z", vec![]).output_of("z", Int64)
}

#[test]
fn other_numbers_compile_nothing() {
    let graph = || {
        counted("Slice", "x zero k axes", None).node("Expand", "half shape", "z", vec![]).output("z").node(
            "Mul",
            "k one",
            "w",
            vec![],
        )
    };
    let sessions = pair(graph);
    let x = f(&[200, 2], &vec![1.0; 400]);
    for k in 3..150 {
        check(&sessions, &[x.clone(), i(&[1], &[k])]).unwrap();
    }
    assert!(is_whole(&sessions[0]));
    assert_eq!(sessions[0].templates.count(), 1);
}

#[test]
fn what_needs_a_number_for_each_graph_stays_cut() {
    // The rounds of a loop, and an axis: an unrolled graph would be valid for one number.
    let body = || {
        let body = TestGraph::default().input("i", Int64, &[]).input("c", Bool, &[]).input("a", Float, &["n"]);
        body.node("Add", "a x", "b", vec![]).node("Identity", "c", "d", vec![]).output_of("d", Bool).output("b")
    };
    let graph = || {
        let graph = TestGraph::default().input("x", Float, &["n"]).input("trips", Int64, &[]);
        graph.node("Loop", "trips _ x", "y", vec![("body", Attr::Graph(body()))]).output("y")
    };
    let sessions = pair(graph);
    assert!(names(&sessions[0]).is_empty());
    for trips in 0..40 {
        let y = check(&sessions, &[f(&[2], &[1.0, 2.0]), i(&[], &[trips])]).unwrap();
        let times = trips as f32 + 1.0;
        assert_eq!(y, [f(&[2], &[times, 2.0 * times])]);
    }
    assert_eq!(sessions[0].templates.count(), 1);
    let graph = || {
        let graph = TestGraph::default().input("x", Float, &["n", "2"]).input("axis", Int64, &["1"]);
        graph.node("ReduceSum", "x axis", "y", vec![("keepdims", Attr::Int(0))]).output("y")
    };
    let sessions = pair(graph);
    assert!(names(&sessions[0]).is_empty());
    for (axis, sums) in [(0, [4.0, 6.0]), (1, [3.0, 7.0]), (-1, [3.0, 7.0]), (-2, [4.0, 6.0])] {
        let y = check(&sessions, &[f(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), i(&[1], &[axis])]).unwrap();
        assert_eq!(y, [f(&[2], &sums)]);
    }
}

#[test]
fn tokens_and_masks_never_decide() {
    for shape in [&["b", "n"][..], &["1", "40"], &["n"]] {
        let graph = || {
            let graph = TestGraph::default().input("ids", Int64, shape).input("x", Float, &["m"]);
            let graph = graph.ints("zero", &[0]).ints("axes", &[0]);
            let graph = graph.node("Greater", "ids zero", "seen", vec![]).node(
                "Cast",
                "seen",
                "ones",
                vec![("to", Attr::Int(7))],
            );
            let graph = graph.node("ReduceSum", "ones", "count", vec![("keepdims", Attr::Int(0))]);
            let graph = graph.node("Unsqueeze", "count axes", "end", vec![]);
            graph.node("Slice", "x zero end axes", "y", vec![]).output("y")
        };
        let sessions = pair(graph);
        if shape.len() > 1 {
            assert!(names(&sessions[0]).is_empty(), "{shape:?}");
        }
        let dims: Vec<u32> = if shape.len() > 1 { vec![1, 40] } else { vec![40] };
        for ones in 0..40 {
            let ids: Vec<i64> = (0..40).map(|at| i64::from(at * 7 % 40 < ones)).collect();
            let x: Vec<f32> = (0..50).map(|at| at as f32).collect();
            let y = check(&sessions, &[i(&dims, &ids), f(&[50], &x)]).unwrap();
            assert_eq!(y, [f(&[ones as u32], &x[..ones as usize])]);
        }
        assert!(sessions[0].templates.count() <= 1);
    }
}

#[test]
fn the_length_of_a_batch_of_one_decides() {
    let graph = || {
        let graph = TestGraph::default().input("x", Float, &["batch", "n"]).input("length", Int64, &["batch"]);
        let graph = graph.ints("zero", &[0]).ints("axes", &[1]);
        graph.node("Slice", "x zero length axes", "y", vec![]).output("y")
    };
    let sessions = pair(graph);
    assert_eq!(names(&sessions[0]), ["length"]);
    let x: Vec<f32> = (0..12).map(|at| at as f32).collect();
    for length in 0..20 {
        let y = check(&sessions, &[f(&[1, 12], &x), i(&[1], &[length])]).unwrap();
        let end = length.min(12);
        assert_eq!(y, [f(&[1, end as u32], &x[..end as usize])]);
    }
    assert!(is_whole(&sessions[0]));
    // A batch has no single length.
    check(&sessions, &[f(&[2, 6], &x), i(&[2], &[3, 4])]).unwrap_err();
}

#[test]
fn inputs_that_decide_in_a_branch_are_found_there() {
    let graph = || {
        let slice = branch("Slice", "x zero k axes", vec![]);
        let inner = TestGraph::default().node("If", "b", "of_inner", branches(slice, twice())).output("of_inner");
        let graph = TestGraph::default().input("x", Float, &["n"]).input("a", Bool, &[]).input("b", Bool, &[]);
        let graph = graph.input("k", Int64, &["1"]).input("unused", Bool, &[]).ints("zero", &[0]).ints("axes", &[0]);
        graph.node("If", "a", "y", branches(inner, branch("Neg", "x", vec![]))).output("y")
    };
    let sessions = pair(graph);
    assert_eq!(names(&sessions[0]), ["a", "b", "k"]);
    for (first, second, k) in [(true, true, 2), (true, false, 3), (false, true, 1), (true, true, 3), (false, false, -5)]
    {
        check(&sessions, &[f(&[4], &[1.0, 2.0, 3.0, 4.0]), b(first), b(second), i(&[1], &[k]), b(true)]).unwrap();
    }
    assert!(is_whole(&sessions[0]));
}

#[test]
fn a_cut_that_remains_is_run_in_stages() {
    let graph = || {
        let graph = TestGraph::default().input("x", Float, &["n"]).input("c", Bool, &[]).input("k", Int64, &["1"]);
        let graph = graph.ints("zero", &[0]).ints("axes", &[0]);
        let graph = graph.node("If", "c", "z", branches(twice(), branch("Relu", "x", vec![])));
        let graph = graph.node("NonZero", "z", "places", vec![]).node("Squeeze", "places axes", "at", vec![]);
        let graph = graph.node("Gather", "z at", "found", vec![]).node("Slice", "found zero k axes", "y", vec![]);
        graph.output("y").output("z")
    };
    let sessions = pair(graph);
    assert_eq!(names(&sessions[0]), ["c"]);
    let x = [0.0, -1.0, 2.0, 0.0, 3.0];
    for (truth, k) in [(true, 1), (false, 2), (true, 5), (false, -1), (true, 0)] {
        check(&sessions, &[f(&[5], &x), b(truth), i(&[1], &[k])]).unwrap();
    }
}

/// What five conditions choose: one more element for each that is true, and their number in binary.
fn five() -> TestGraph {
    let mut graph = TestGraph::default().input("x0", Float, &["n"]);
    for at in 0..5 {
        let (x, c, next) = (format!("x{at}"), format!("c{at}"), format!("x{}", at + 1));
        let yes = branch("Concat", &format!("{x} x0"), vec![("axis", Attr::Int(0))]);
        let no = branch("Neg", &x, vec![]);
        graph = graph.input(&c, Bool, &[]).node("If", &c, &next, branches(yes, no));
    }
    graph.output("x5")
}

#[test]
fn many_conditions_need_little_memory_and_time() {
    let sessions = pair(five);
    assert_eq!(names(&sessions[0]), ["c0", "c1", "c2", "c3", "c4"]);
    for round in 0..3 {
        for bits in 0..32 {
            let truths = (0..5).map(|at| b(bits >> at & 1 != 0));
            let feeds: Vec<T> = [f(&[2], &[1.0, 2.0])].into_iter().chain(truths).collect();
            check(&sessions, &feeds).unwrap();
            assert!(sessions[0].templates.count() <= 8);
        }
        // The other 24 were cut.
        assert!(round > 0 || !sessions[0].deciding().may_compile());
    }
}

#[test]
fn numbers_that_need_graphs_of_their_own_compile_only_a_few() {
    // A product of floats below 0 is computed for a single number.
    let graph = || {
        let graph = TestGraph::default().input("x", Float, &["n"]).input("k", Int64, &["1"]);
        let graph = graph.ints("zero", &[0]).ints("axes", &[0]).ints("three", &[3]).floats("one", &[], &[1.0]);
        let graph = graph.node("Div", "k three", "quotient", vec![]);
        let graph = graph.node("Cast", "quotient", "float", vec![("to", Attr::Int(1))]);
        let graph = graph.node("Mul", "float one", "product", vec![]);
        let graph = graph.node("Cast", "product", "end", vec![("to", Attr::Int(7))]);
        graph.node("Slice", "x zero end axes", "y", vec![]).output("y")
    };
    let sessions = pair(graph);
    assert_eq!(names(&sessions[0]), ["k"]);
    let x: Vec<f32> = (0..40).map(|at| at as f32).collect();
    let run = |k: i64| check(&sessions, &[f(&[40], &x), i(&[1], &[k])]).unwrap();
    for k in 1..101 {
        run(k);
    }
    // An end of 0, and all others.
    assert_eq!(sessions[0].templates.count(), 2);
    for k in 1..101 {
        run(-k);
    }
    assert!(!sessions[0].deciding().may_compile());
    assert_eq!(sessions[0].templates.count(), 8);
    // The graph for valid numbers is gone, but returns.
    for k in 1..101 {
        run(k);
    }
    let kept = sessions[0].kept.lock();
    assert!(kept.last().unwrap().rest.is_none());
}

#[test]
fn small_integers_of_other_types_are_constants() {
    let graph = || {
        let graph = TestGraph::default().input("x", Float, &["n"]).input("k", Uint8, &["1"]).input("j", Int32, &["1"]);
        let graph = graph.ints("zero", &[0]).ints("axes", &[0]);
        let graph = graph.node("Cast", "k", "end", vec![("to", Attr::Int(7))]);
        let graph = graph.node("Cast", "j", "start", vec![("to", Attr::Int(7))]);
        graph.node("Slice", "x start end axes", "y", vec![]).output("y")
    };
    let sessions = pair(graph);
    assert_eq!(names(&sessions[0]), ["k", "j"]);
    let x: Vec<f32> = (0..12).map(|at| at as f32).collect();
    for (k, j) in (0..20).flat_map(|k| (-4..3).map(move |j| (k, j))) {
        let feeds = [bytes_of(&x[..]).to_vec(), vec![k], bytes_of(&[j][..]).to_vec()];
        let [whole, cut] = sessions.each_ref().map(|session: &Arc<Session>| {
            let shapes = Shapes::from_iter([vec![12], vec![1], vec![1]]);
            let feeds = feeds.iter().map(|bytes| Feed::Bytes(Arc::new(Buffer::copy_of(bytes).unwrap()))).collect();
            let values = Arc::new(Slot::default());
            finished(|done| session.run(shapes, feeds, vec![Target::Read]).enqueue(values.clone(), done)).unwrap();
            read_value(values.take().unwrap().pop().unwrap().unwrap()).1.bytes().to_vec()
        });
        assert_eq!(whole, cut, "{k} {j}");
    }
}

fn tensor(dtype: DataType, shape: &[u32], bytes: &[u8]) -> Arc<Tensor> {
    let tensor = Tensor::new(Descriptor::new(dtype, shape));
    tensor.fill(&Backend::Cpu, Arc::new(Buffer::copy_of(bytes).unwrap())).unwrap();
    Arc::new(tensor)
}

/// `present` = `past` and `new` with a cache, `new` without one; `y`, the sum of `present`; and a number of rows.
fn merged() -> TestGraph {
    let with = branch("Concat", "past new", vec![("axis", Attr::Int(2))]);
    let graph =
        TestGraph::default().input("new", Float, &["b", "2", "n", "3"]).input("past", Float, &["b", "2", "m", "3"]);
    let graph = graph.input("use_cache", Bool, &["1"]);
    let graph = graph.node("If", "use_cache", "present", branches(with, branch("Identity", "new", vec![])));
    let graph = graph.ints("axes", &[2]).node("ReduceSum", "present axes", "y", vec![("keepdims", Attr::Int(0))]);
    graph.output("y").output("present")
}

#[test]
fn the_caches_of_a_merged_decoder_grow_in_place() {
    let session = opened(merged());
    let step = |feed: Feed, shapes: Shapes, truth: Feed, first: f32| {
        let rows = shapes[0][2] as usize;
        let new: Vec<f32> = (0..6 * rows).map(|at| first + at as f32).collect();
        let new = Feed::Bytes(Arc::new(Buffer::copy_of(bytes_of(&new[..])).unwrap()));
        let values = Arc::new(Slot::default());
        let targets = vec![Target::Read, Target::Read];
        finished(|done| session.run(shapes, vec![new, feed, truth], targets).enqueue(values.clone(), done)).unwrap();
        let mut values: Vec<Option<Output>> = values.take().unwrap();
        let present = values.pop().unwrap().unwrap();
        let (_, sums) = read_value(values.pop().unwrap().unwrap());
        (elements::<f32>(sums.bytes()).to_vec(), present)
    };
    let shapes = |n: u32, m: u32| -> Shapes { Shapes::from_iter([vec![1, 2, n, 3], vec![1, 2, m, 3], vec![1]]) };
    let truth = |truth: u8| Feed::Bytes(Arc::new(Buffer::copy_of(&[truth]).unwrap()));
    let nothing = || Feed::Bytes(Arc::new(Buffer::default()));
    let (sums, present) = step(nothing(), shapes(2, 0), truth(0), 0.0);
    assert_eq!(sums, [3.0, 5.0, 7.0, 15.0, 17.0, 19.0]);
    let mut past = match present {
        Output::Bytes { bytes, .. } => Feed::Bytes(Arc::new(bytes)),
        _ => panic!("nothing that grows"),
    };
    let mut last = None;
    for at in 2..40u32 {
        // The condition in a tensor.
        let truth = if at % 2 == 0 { truth(1) } else { Feed::Tensor(tensor(DataType::Uint8, &[1], &[1])) };
        let (_, present) = step(past, shapes(1, at), truth, at as f32);
        let Output::Cache(cache) = present else { panic!("it grows in place") };
        if let Some(last) = &last {
            assert!(cache.rows.is_beside(last), "{at}");
        }
        last = Some(cache.rows.clone());
        past = Feed::Cache(cache);
    }
    assert!(is_whole(&session));
    assert_eq!(session.templates.count(), 2);
}

#[test]
fn tensors_decide_with_what_was_written_last() {
    let session = opened(merged());
    let truth = tensor(DataType::Uint8, &[1], &[0]);
    for written in [0, 1, 1, 0, 1] {
        truth.fill(&Backend::Cpu, Arc::new(Buffer::copy_of(&[written]).unwrap())).unwrap();
        let shapes = Shapes::from_iter([vec![1, 2, 1, 3], vec![1, 2, 1, 3], vec![1]]);
        let ones = || Feed::Bytes(Arc::new(Buffer::copy_of(bytes_of(&[1.0f32; 6][..])).unwrap()));
        let run = session.run(shapes, vec![ones(), ones(), Feed::Tensor(truth.clone())], vec![Target::Read; 2]);
        // Quick runs happen at once.
        let values = match run.run_here(|_, _| ControlFlow::Continue(None)) {
            Ok(values) => values.unwrap(),
            Err(run) => {
                let values = Arc::new(Slot::default());
                finished(|done| run.enqueue(values.clone(), done)).unwrap();
                values.take().unwrap()
            }
        };
        let sums = read_value(values.into_iter().next().unwrap().unwrap()).1;
        assert_eq!(elements::<f32>(sums.bytes()), [1.0 + f32::from(written); 6]);
    }
    let gone = Arc::new(Tensor::new(Descriptor::new(DataType::Uint8, [1u32].as_slice())));
    let [whole, cut] = pair(merged).map(|session| {
        let shapes = Shapes::from_iter([vec![1, 2, 1, 3], vec![1, 2, 1, 3], vec![1]]);
        let ones = || Feed::Bytes(Arc::new(Buffer::copy_of(bytes_of(&[1.0f32; 6][..])).unwrap()));
        let feeds = vec![ones(), ones(), Feed::Tensor(gone.clone())];
        finished(|done| session.run(shapes, feeds, vec![Target::Read; 2]).enqueue(Arc::default(), done)).unwrap_err()
    });
    assert_eq!((whole.code, whole.message), (cut.code, cut.message));
}

#[test]
fn a_model_has_no_single_graph_for_what_decides() {
    let session = opened(merged());
    let shapes = Shapes::from_iter([vec![1, 2, 1, 3], vec![1, 2, 1, 3], vec![1]]);
    let error = finished(|done| session.compile(shapes.clone(), Arc::default(), done)).unwrap_err();
    assert_eq!(error.code, Some(Code::NotSupported));
    assert!(error.message.contains("depend on \"use_cache\"") && error.message.contains("constants"), "{error}");
    let fixed =
        Constant::new(&model(merged()), &BTreeMap::new(), "use_cache".into(), None, Buffer::copy_of(&[1]).unwrap());
    let options = SessionOptions { constants: vec![fixed.unwrap()], ..SessionOptions::default() };
    let session = Arc::new(Session::open(model(merged()), context(), options).unwrap());
    assert!(names(&session).is_empty());
    finished(|done| session.compile(shapes.iter().take(2).collect(), Arc::default(), done)).unwrap();
}

#[test]
fn opening_imports_a_model_once_unless_an_integer_decides() {
    let imports = |graph: TestGraph, expected: &[&str]| {
        let session = Session::open(model(graph), context(), SessionOptions::default()).unwrap();
        assert_eq!(names(&session), expected);
        session.model().unwrap().files.imports.load(Ordering::Relaxed)
    };
    let input = || TestGraph::default().input("x", Float, &["n"]);
    let choose = || {
        let both = branches(twice(), branch("Neg", "x", vec![]));
        input().input("c", Bool, &["1"]).node("If", "c", "y", both).output("y")
    };
    assert_eq!(imports(input().node("Neg", "x", "y", vec![]).output("y"), &[]), 1);
    assert_eq!(imports(input().input("c", Bool, &["1"]).node("Not", "c", "y", vec![]).output("y"), &[]), 1);
    assert_eq!(imports(choose(), &["c"]), 1);
    // Again, to see whether the number may be any.
    let sliced = input().ints("zero", &[0]).input("to", Int64, &["1"]);
    assert_eq!(imports(sliced.node("Slice", "x zero to", "y", vec![]).output("y"), &["to"]), 2);
}
