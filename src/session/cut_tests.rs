//! Tests of models that depend on data, against naive computations.

use super::tests::{finished, read_value, session};
use super::*;
use crate::dimension::numbers;
use crate::dtype::DataType;
use crate::memory::{bytes_of, elements};
use crate::onnx::tensor::ElementType::{Bool, Float, Int64};
use crate::onnx::testing::{Attr, TestGraph};

/// A tensor: its shape and its elements.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum T {
    F(Vec<u32>, Vec<f32>),
    I(Vec<u32>, Vec<i64>),
    B(Vec<u32>, Vec<u8>),
}

pub(super) fn f(shape: &[u32], numbers: &[f32]) -> T {
    T::F(shape.to_vec(), numbers.to_vec())
}

pub(super) fn i(shape: &[u32], numbers: &[i64]) -> T {
    T::I(shape.to_vec(), numbers.to_vec())
}

pub(super) fn b(truth: bool) -> T {
    T::B(vec![], vec![u8::from(truth)])
}

/// The outputs of a run.
pub(super) fn run(session: &Arc<Session>, feeds: &[T]) -> Result<Vec<T>> {
    let fed = feeds.iter().map(|feed| match feed {
        T::F(shape, numbers) => (bytes_of(numbers.as_slice()).to_vec(), shape.clone()),
        T::I(shape, numbers) => (bytes_of(numbers.as_slice()).to_vec(), shape.clone()),
        T::B(shape, numbers) => (numbers.clone(), shape.clone()),
    });
    let fed: Vec<(Vec<u8>, Vec<u32>)> = fed.collect();
    let offers: Vec<Offer> =
        fed.iter().map(|(bytes, shape)| Offer::Data { bytes: bytes.len(), shape: Some(shape.clone()) }).collect();
    let shapes = session.signature().shapes_of_feeds(&offers)?;
    let feeds = fed.iter().map(|(bytes, _)| Feed::Bytes(Arc::new(Buffer::copy_of(bytes).unwrap()))).collect();
    let values = Arc::new(Slot::default());
    let targets = vec![Target::Read; session.signature().outputs.len()];
    finished(|done| session.run(shapes, feeds, targets).enqueue(values.clone(), done))?;
    let values: Vec<Option<Output>> = values.take().expect("a run that succeeds leaves its values");
    let tensor = |value: Output| {
        let (descriptor, bytes) = read_value(value);
        let (shape, bytes) = (numbers(&descriptor.shape), bytes.bytes());
        match descriptor.dtype {
            DataType::Float32 => T::F(shape, elements(bytes).to_vec()),
            DataType::Int64 => T::I(shape, elements(bytes).to_vec()),
            _ => T::B(shape, bytes.to_vec()),
        }
    };
    Ok(values.into_iter().flatten().map(tensor).collect())
}

pub(super) fn opened(graph: TestGraph) -> Arc<Session> {
    session(graph, SessionOptions::default())
}

#[test]
fn numbers_without_a_seed_differ_in_every_run() {
    let graph = TestGraph::default()
        .input("x", Float, &["n"])
        .node("Relu", "x", "positive", vec![])
        .node("RandomUniformLike", "positive", "drawn", vec![("low", Attr::Float(1.0)), ("high", Attr::Float(2.0))])
        .node("Mul", "positive drawn", "y", vec![]);
    let session = opened(graph.output("y"));
    let numbers = |x: f32| {
        let outputs = run(&session, &[T::F(vec![500], vec![x; 500])]).unwrap();
        let [T::F(shape, numbers)] = &outputs[..] else { panic!("floats") };
        assert_eq!(*shape, [500]);
        numbers.clone()
    };
    let [first, second] = [numbers(3.0), numbers(3.0)];
    assert!(first.iter().chain(&second).all(|y| (3.0..6.0).contains(y)), "{first:?}");
    assert_ne!(first, second);
    assert_eq!(session.program().unwrap().template_count(), 1, "other numbers compile nothing anew");
    assert_eq!(numbers(-1.0), vec![0.0; 500]);
}

#[test]
fn sizes_keep_their_type_across_a_cut() {
    let graph = TestGraph::default()
        .input("x", Float, &["n"])
        .node("Shape", "x", "shape", vec![])
        .node("Cast", "shape", "count", vec![("to", Attr::Int(1))])
        .node("Cast", "shape", "short", vec![("to", Attr::Int(6))])
        .node("NonZero", "x", "places", vec![])
        .ints("zero", &[0])
        .node("Squeeze", "places zero", "at", vec![])
        .node("Gather", "x at", "found", vec![])
        .node("Mul", "found count", "scaled", vec![])
        .node("Cast", "at", "short_at", vec![("to", Attr::Int(6))])
        .node("Sub", "short short_at", "short_left", vec![])
        .node("Cast", "short_left", "left", vec![("to", Attr::Int(1))])
        .output("scaled")
        .output("left");
    let session = opened(graph);
    for numbers in [&[0.0, 2.0, 3.0][..], &[1.0, 0.0, 0.0, 0.0, 5.0]] {
        let n = numbers.len() as f32;
        let found = || numbers.iter().enumerate().filter(|(_, x)| **x != 0.0);
        let scaled: Vec<f32> = found().map(|(_, x)| x * n).collect();
        let left: Vec<f32> = found().map(|(at, _)| n - at as f32).collect();
        let count = scaled.len() as u32;
        let got = run(&session, &[f(&[numbers.len() as u32], numbers)]).unwrap();
        assert_eq!(got, [f(&[count], &scaled), f(&[count], &left)]);
    }
}

/// y = the nonzero elements of relu(x), doubled; and their positions.
fn non_zero() -> TestGraph {
    TestGraph::default()
        .input("x", Float, &["n"])
        .floats("two", &[], &[2.0])
        .node("Relu", "x", "r", vec![])
        .node("NonZero", "r", "places", vec![])
        .ints("zero", &[0])
        .node("Squeeze", "places zero", "at", vec![])
        .node("Gather", "r at", "found", vec![])
        .node("Mul", "found two", "y", vec![])
        .output("y")
        .output_of("places", Int64)
}

#[test]
fn positions_of_nonzero_elements_are_found_for_any_data() {
    let session = opened(non_zero());
    for x in [&[1.0f32, -1.0, 0.0, 3.0][..], &[-1.0], &[5.0, 6.0, 7.0], &[], &[2.0, 2.0]] {
        let at: Vec<i64> = (0..x.len() as i64).filter(|&at| x[at as usize] > 0.0).collect();
        let y: Vec<f32> = at.iter().map(|&at| 2.0 * x[at as usize]).collect();
        let count = at.len() as u32;
        assert_eq!(run(&session, &[f(&[x.len() as u32], x)]).unwrap(), [f(&[count], &y), i(&[1, count], &at)], "{x:?}");
    }
}

#[test]
fn computed_numbers_of_elements_are_read() {
    // The k largest of x, and 0 .. k, and x in rows of k.
    let graph = TestGraph::default()
        .input("x", Float, &["n"])
        .input("k", Int64, &["1"])
        .ints("one", &[1])
        .ints("minus", &[-1])
        .raw("zero", Int64, &[], &0i64.to_le_bytes())
        .raw("step", Int64, &[], &1i64.to_le_bytes())
        .ints("axis", &[0])
        .node("Add", "k one", "more", vec![])
        .node("TopK", "x more", "largest _", vec![])
        .node("Squeeze", "more axis", "end", vec![])
        .node("Range", "zero end step", "range", vec![])
        .node("Concat", "minus more", "shape", vec![("axis", Attr::Int(0))])
        .node("Reshape", "x shape", "rows", vec![])
        .output("largest")
        .output_of("range", Int64)
        .output("rows");
    let session = opened(graph);
    let x = [3.0, 1.0, 2.0, 6.0, 5.0, 4.0];
    for (k, largest) in [(1, &[6.0, 5.0][..]), (2, &[6.0, 5.0, 4.0]), (5, &[6.0, 5.0, 4.0, 3.0, 2.0, 1.0])] {
        let count = k as u32 + 1;
        let range: Vec<i64> = (0..=k).collect();
        let expected = [f(&[count], largest), i(&[count], &range), f(&[6 / count, count], &x)];
        assert_eq!(run(&session, &[f(&[6], &x), i(&[1], &[k])]).unwrap(), expected);
    }
    let error = run(&session, &[f(&[6], &x), i(&[1], &[3])]).unwrap_err();
    assert_eq!(error.code, Some(Code::UnsupportedOperator), "{error}");
    assert!(error.message.contains("cannot get the shape"), "{error}");
}

fn branch(operator: &str, more: bool) -> TestGraph {
    let graph = TestGraph::default().node(operator, "x", "b", vec![]);
    match more {
        true => graph.node("Concat", "b r", "c", vec![("axis", Attr::Int(0))]).output("c"),
        false => graph.output("b"),
    }
}

#[test]
fn one_branch_is_taken() {
    let branches =
        vec![("then_branch", Attr::Graph(branch("Abs", true))), ("else_branch", Attr::Graph(branch("Neg", false)))];
    let graph = TestGraph::default().input("x", Float, &["n"]).input("c", Bool, &[]);
    let graph =
        graph.node("Relu", "x", "r", vec![]).node("If", "c", "y", branches).node("Neg", "y", "z", vec![]).output("z");
    let session = opened(graph);
    let x = f(&[2], &[-1.0, 2.0]);
    assert_eq!(run(&session, &[x.clone(), b(true)]).unwrap(), [f(&[4], &[-1.0, -2.0, 0.0, -2.0])]);
    assert_eq!(run(&session, &[x, b(false)]).unwrap(), [f(&[2], &[-1.0, 2.0])]);
}

/// Appends the counter to a while their sum is below a limit; returns all sums.
fn growing() -> TestGraph {
    let body = TestGraph::default()
        .input("i", Int64, &[])
        .input("c", Bool, &[])
        .input("a", Float, &["m"])
        .ints("axis", &[0])
        .node("Cast", "i", "f", vec![("to", Attr::Int(1))])
        .node("Unsqueeze", "f axis", "row", vec![])
        .node("Concat", "a row", "longer", vec![("axis", Attr::Int(0))])
        .node("ReduceSum", "longer axis", "sum", vec![("keepdims", Attr::Int(0))])
        .node("Less", "sum limit", "again", vec![])
        .output_of("again", Bool)
        .output("longer")
        .output("sum");
    TestGraph::default()
        .input("x", Float, &["n"])
        .input("limit", Float, &[])
        .input("trips", Int64, &[])
        .node("Loop", "trips _ x", "y sums", vec![("body", Attr::Graph(body))])
        .node("Neg", "sums", "z", vec![])
        .output("y")
        .output("z")
}

#[test]
fn loops_run_as_long_as_the_data_say() {
    let session = opened(growing());
    for (x, limit, trips) in
        [(&[0.5f32][..], 20.0f32, 100i64), (&[], 5.0, 100), (&[1.0, 2.0], 1000.0, 4), (&[1.0], 0.0, 9)]
    {
        let (mut y, mut z) = (x.to_vec(), Vec::new());
        for round in 0..trips {
            y.push(round as f32);
            z.push(-y.iter().sum::<f32>());
            if -z[z.len() - 1] >= limit {
                break;
            }
        }
        let expected = [f(&[y.len() as u32], &y), f(&[z.len() as u32], &z)];
        let feeds = [f(&[x.len() as u32], x), f(&[], &[limit]), i(&[], &[trips])];
        assert_eq!(run(&session, &feeds).unwrap(), expected);
    }
}

#[test]
fn rows_along_an_inner_axis_are_kept_in_every_block() {
    let graph = TestGraph::default()
        .input("x", Float, &["2", "3"])
        .floats("zero", &[], &[0.0])
        .ints("axis", &[0])
        .node("ReduceSum", "x axis", "sums", vec![("keepdims", Attr::Int(0))])
        .node("Greater", "sums zero", "which", vec![])
        .node("Compress", "x which", "kept", vec![("axis", Attr::Int(1))])
        .node("Neg", "x", "changed", vec![])
        .node("Unique", "changed", "unique", vec![("axis", Attr::Int(1))])
        .output("kept")
        .output("unique");
    let session = opened(graph);
    let x = [1.0, -4.0, 1.0, 5.0, -6.0, 5.0];
    let expected = [f(&[2, 2], &[1.0, 1.0, 5.0, 5.0]), f(&[2, 2], &[-1.0, 4.0, -5.0, 6.0])];
    assert_eq!(run(&session, &[f(&[2, 3], &x)]).unwrap(), expected);
}

#[test]
fn rows_are_kept_by_a_condition() {
    let graph = TestGraph::default()
        .input("x", Float, &["n", "2"])
        .floats("zero", &[], &[0.0])
        .ints("axis", &[1])
        .node("ReduceSum", "x axis", "sums", vec![("keepdims", Attr::Int(0))])
        .node("Greater", "sums zero", "which", vec![])
        .node("Compress", "x which", "kept", vec![("axis", Attr::Int(0))])
        .node("Unique", "sums", "values first which_of counts", vec![])
        .node("Neg", "kept", "y", vec![])
        .output("y")
        .output("values")
        .output_of("first", Int64)
        .output_of("which_of", Int64)
        .output_of("counts", Int64);
    let session = opened(graph);
    let x = [1.0, 1.0, -3.0, 1.0, 4.0, -2.0, -2.0, 0.0];
    let expected = [
        f(&[2, 2], &[-1.0, -1.0, -4.0, 2.0]),
        f(&[2], &[-2.0, 2.0]),
        i(&[2], &[1, 0]),
        i(&[4], &[1, 0, 1, 0]),
        i(&[2], &[2, 2]),
    ];
    assert_eq!(run(&session, &[f(&[4, 2], &x)]).unwrap(), expected);
    let none = [f(&[0, 2], &[]), f(&[1], &[-2.0]), i(&[1], &[0]), i(&[1], &[0]), i(&[1], &[1])];
    assert_eq!(run(&session, &[f(&[1, 2], &[-3.0, 1.0])]).unwrap(), none);
}

#[test]
fn computed_boxes_are_selected_and_gathered() {
    let graph = TestGraph::default()
        .input("boxes", Float, &["1", "n", "4"])
        .input("scores", Float, &["1", "1", "n"])
        .ints("most", &[10])
        .floats("half", &[1], &[0.5])
        .ints("two", &[2])
        .node("Relu", "boxes", "b", vec![])
        .node("NonMaxSuppression", "b scores most half", "selected", vec![])
        .node("Gather", "selected two", "at", vec![("axis", Attr::Int(1))])
        .ints("axis", &[1])
        .node("Squeeze", "at axis", "places", vec![])
        .node("Gather", "b places", "y", vec![("axis", Attr::Int(1))])
        .output("y");
    let session = opened(graph);
    let boxes = [0., 0., 1., 1., 0., 0.1, 1., 1.1, 0., 10., 1., 11., 0., 10.1, 1., 11.1];
    let y = run(&session, &[f(&[1, 4, 4], &boxes), f(&[1, 1, 4], &[0.9, 0.75, 0.6, 0.95])]).unwrap();
    assert_eq!(y, [f(&[1, 2, 4], &[0., 10.1, 1., 11.1, 0., 0., 1., 1.])]);
    let y = run(&session, &[f(&[1, 1, 4], &boxes[..4]), f(&[1, 1, 1], &[0.1])]).unwrap();
    assert_eq!(y, [f(&[1, 1, 4], &boxes[..4])]);
    let y = run(&session, &[f(&[1, 0, 4], &[]), f(&[1, 1, 0], &[])]).unwrap();
    assert_eq!(y, [f(&[1, 0, 4], &[])]);
}

/// Keeps the rows of x that have a positive element in a growing list; returns them joined, and their number.
fn collecting() -> TestGraph {
    let keep = TestGraph::default().node("SequenceInsert", "s row", "with", vec![]).output("with");
    let skip = TestGraph::default().node("Identity", "s", "without", vec![]).output("without");
    let branches = vec![("then_branch", Attr::Graph(keep)), ("else_branch", Attr::Graph(skip))];
    let body = TestGraph::default()
        .input("i", Int64, &[])
        .input("c", Bool, &[])
        .input("s", Float, &[])
        .floats("zero", &[], &[0.0])
        .ints("axis", &[0])
        .node("Gather", "x i", "element", vec![])
        .node("Greater", "element zero", "is_positive", vec![])
        .node("Unsqueeze", "element axis", "row", vec![])
        .node("If", "is_positive", "next", branches)
        .node("Identity", "c", "again", vec![])
        .output_of("again", Bool)
        .output("next");
    TestGraph::default()
        .input("x", Float, &["n"])
        .input("trips", Int64, &[])
        .floats("first", &[1], &[7.0])
        .node("SequenceConstruct", "first", "empty", vec![])
        .node("Loop", "trips _ empty", "s", vec![("body", Attr::Graph(body))])
        .node("ConcatFromSequence", "s", "y", vec![("axis", Attr::Int(0))])
        .node("SequenceLength", "s", "count", vec![])
        .node("SequenceAt", "s trips", "at", vec![])
        .output("y")
        .output_of("count", Int64)
        .output("at")
}

#[test]
fn lists_grow_with_the_data() {
    let session = opened(collecting());
    let x = f(&[4], &[-1.0, 2.0, -3.0, 4.0]);
    let y = run(&session, &[x.clone(), i(&[], &[2])]);
    let error = y.unwrap_err();
    assert_eq!(error.code, Some(Code::UnsupportedOperator), "{error}");
    assert!(error.message.contains("position is 2, the sequence has 2 tensors"), "{error}");
    let (a, b) = (f(&[4], &[1.0, 2.0, 3.0, 4.0]), f(&[5], &[1.0, -2.0, 3.0, 4.0, 5.0]));
    for (x, trips, y, at) in [(&a, 2, &[7.0, 1.0, 2.0][..], 2.0), (&a, 0, &[7.0], 7.0), (&b, 1, &[7.0, 1.0], 1.0)] {
        let expected = [f(&[y.len() as u32], y), i(&[], &[y.len() as i64]), f(&[1], &[at])];
        assert_eq!(run(&session, &[x.clone(), i(&[], &[trips])]).unwrap(), expected);
    }
}

#[test]
fn scans_with_a_cut_graph_run_round_by_round() {
    // For each column of x, the number of its positive elements, and the running sum of these.
    let body = TestGraph::default()
        .input("sum", Int64, &[])
        .input("column", Float, &["n"])
        .node("Relu", "column", "r", vec![])
        .node("NonZero", "r", "places", vec![])
        .node("Size", "places", "count", vec![])
        .node("Add", "sum count", "next", vec![])
        .node("Identity", "next", "row", vec![])
        .output_of("next", Int64)
        .output_of("row", Int64);
    let attributes = vec![
        ("num_scan_inputs", Attr::Int(1)),
        ("scan_input_axes", Attr::Ints(&[1])),
        ("scan_output_directions", Attr::Ints(&[1])),
        ("body", Attr::Graph(body)),
    ];
    let graph = TestGraph::default()
        .input("x", Float, &["n", "m"])
        .raw("zero", Int64, &[], &0i64.to_le_bytes())
        .node("Scan", "zero x", "total rows", attributes)
        .output_of("total", Int64)
        .output_of("rows", Int64);
    let session = opened(graph);
    let x = f(&[2, 3], &[1.0, -1.0, 2.0, 3.0, -4.0, -5.0]);
    assert_eq!(run(&session, &[x]).unwrap(), [i(&[], &[3]), i(&[3], &[3, 2, 2])]);
    assert_eq!(run(&session, &[f(&[1, 1], &[5.0])]).unwrap(), [i(&[], &[1]), i(&[1], &[1])]);
}

#[test]
fn several_cuts_in_a_row_work_for_any_sizes_and_compile_little() {
    // The positive elements of x, of these the ones above their mean, repeated as often as there are elements.
    let graph = TestGraph::default()
        .input("x", Float, &["n"])
        .ints("axis", &[0])
        .floats("zero", &[], &[0.0])
        .node("Greater", "x zero", "is_positive", vec![])
        .node("Compress", "x is_positive", "positive", vec![("axis", Attr::Int(0))])
        .node("ReduceMean", "positive", "mean", vec![("keepdims", Attr::Int(0))])
        .node("Greater", "positive mean", "is_large", vec![])
        .node("Compress", "positive is_large", "large", vec![("axis", Attr::Int(0))])
        .node("Neg", "large", "negated", vec![])
        .node("Shape", "large", "count", vec![])
        .node("Cast", "is_large", "ones", vec![("to", Attr::Int(7))])
        .node("ReduceSum", "ones axis", "times", vec![("keepdims", Attr::Int(1))])
        .node("Tile", "negated times", "y", vec![])
        .output("y")
        .output_of("count", Int64);
    let session = opened(graph);
    let mut seed = 1u32;
    for n in (2..40).chain([2, 39, 7]) {
        let x: Vec<f32> = (0..n)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 16) as f32 / 65536.0 - 0.25
            })
            .chain([3.0, 5.0])
            .collect();
        let positive: Vec<f32> = x.iter().copied().filter(|&x| x > 0.0).collect();
        let mean = positive.iter().sum::<f32>() / positive.len() as f32;
        let large: Vec<f32> = positive.into_iter().filter(|&x| x > mean).map(|x| -x).collect();
        let (count, y) = (large.len(), large.repeat(large.len()));
        let got = run(&session, &[f(&[x.len() as u32], &x)]).unwrap();
        assert_eq!(got, [f(&[y.len() as u32], &y), i(&[1], &[count as i64])], "{n}");
    }
    let templates = session.program().unwrap().template_count();
    // Only counts of 1, and counts equal to others, lead to other decisions.
    assert!(templates <= 20, "{templates} templates");
}

#[test]
fn errors_in_a_cut_model_are_reported() {
    let looped = |body: TestGraph, inputs: &str, outputs: &str| {
        let graph = TestGraph::default().input("x", Float, &["n"]).input("trips", Int64, &[]);
        let graph = graph.node("Loop", inputs, outputs, vec![("body", Attr::Graph(body))]).output("y");
        let session = Session::open(super::tests::model(graph), super::tests::context(), SessionOptions::default());
        session.map(Arc::new).and_then(|session| run(&session, &[f(&[2], &[1.0, 2.0]), i(&[], &[3])])).unwrap_err()
    };
    let body = || TestGraph::default().input("i", Int64, &[]).input("c", Bool, &[]);
    let error = looped(body().output_of("c", Bool).output("x"), "trips _ x", "y");
    assert!(error.message.contains("[y] Loop: its graph has 2 inputs, expected 3"), "{error}");
    let error = looped(body().output_of("c", Bool), "trips _ x", "y");
    assert!(error.message.contains("[y] Loop: its graph has 1 output, expected at least 2"), "{error}");
    let rows = body().input("a", Float, &["m"]).node("Concat", "a a", "b", vec![("axis", Attr::Int(0))]);
    let rows = rows.node("Identity", "b", "row", vec![]).output_of("c", Bool).output("b").output("row");
    let error = looped(rows, "trips _ x", "_ y");
    assert!(error.message.contains("a round returns a row of float32 [8], the first one float32 [4]"), "{error}");
    assert_eq!(error.code, Some(Code::ModelInvalid));
    let never = body().node("Relu", "x", "b", vec![]).output("b").output("x");
    let error = looped(never, "trips _", "y");
    assert!(error.message.contains("the condition of its graph (output 0) is not a tensor of 1 element"), "{error}");
    let unknown = body().node("NoSuch", "x", "b", vec![]).output_of("c", Bool).output("b");
    let error = looped(unknown, "trips _", "y");
    assert_eq!(error.code, Some(Code::UnsupportedOperator), "{error}");
}

#[test]
fn endless_loops_end_with_the_session() {
    let body = TestGraph::default().input("i", Int64, &[]).input("c", Bool, &[]).input("a", Float, &["n"]);
    let body = body.node("Neg", "a", "b", vec![]).output_of("c", Bool).output("b");
    let graph = TestGraph::default().input("x", Float, &["n"]).input("trips", Int64, &[]);
    let session = opened(graph.node("Loop", "trips _ x", "y", vec![("body", Attr::Graph(body))]).output("y"));
    let other = session.clone();
    let ending = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        other.destroy();
    });
    let error = run(&session, &[f(&[1], &[1.0]), i(&[], &[i64::MAX])]).unwrap_err();
    ending.join().unwrap();
    assert_eq!((error.code, error.kind), (Some(Code::Destroyed), crate::error::ErrorKind::InvalidState), "{error}");
}

#[test]
fn cuts_are_reported_before_anything_runs() {
    let model = super::tests::model(growing());
    let told = crate::onnx::describe::inspect(&model, BTreeMap::new()).unwrap();
    assert!(told.unsupported.is_empty());
    assert_eq!(told.cuts.iter().map(|node| node.operator.as_str()).collect::<Vec<_>>(), ["Loop"]);
    let model = super::tests::model(non_zero());
    let told = crate::onnx::describe::inspect(&model, BTreeMap::new()).unwrap();
    assert_eq!(told.cuts.iter().map(|node| node.operator.as_str()).collect::<Vec<_>>(), ["NonZero"]);
}

#[test]
fn loops_over_free_lengths_are_reported_as_cuts() {
    let body = |first: &str, states: &str| {
        let graph = TestGraph::default().input(first, Float, &["2"]).input(states, Float, &["2"]);
        let graph = graph.node("Add", "s row", "next", vec![]).node("Neg", "next", "out", vec![]);
        graph.output("next").output("out")
    };
    let scan = || {
        let attributes = vec![("num_scan_inputs", Attr::Int(1)), ("body", Attr::Graph(body("s", "row")))];
        TestGraph::default().floats("start", &[2], &[0.0, 0.0]).node("Scan", "start x", "_ y", attributes)
    };
    let repeat = || {
        let body = TestGraph::default().input("i", Int64, &[]).input("c", Bool, &[]).input("s", Float, &[]);
        let body = body.node("Neg", "s", "next", vec![]).output_of("c", Bool).output("next");
        let count = vec![("start", Attr::Int(0)), ("end", Attr::Int(1))];
        let graph = TestGraph::default().node("Shape", "x", "count", count);
        graph.node("ReduceMax", "x", "top", vec![("keepdims", Attr::Int(0))]).node(
            "Loop",
            "count _ top",
            "y",
            vec![("body", Attr::Graph(body))],
        )
    };
    let cuts = |graph: TestGraph, sizes: &[(&str, u32)]| {
        let model = super::tests::model(graph.input("x", Float, &["n", "2"]).output("y"));
        let sizes = sizes.iter().map(|(name, size)| (name.to_string(), *size)).collect();
        let told = crate::onnx::describe::inspect(&model, sizes).unwrap();
        assert!(told.unsupported.is_empty());
        told.cuts.iter().map(|node| (node.operator.clone(), node.reason.clone())).collect::<Vec<_>>()
    };
    let reported = |operator: &str, reason: &str| vec![(operator.to_string(), reason.to_string())];
    assert_eq!(cuts(scan(), &[]), reported("Scan", "the number of rounds depends on sizes of inputs"));
    assert_eq!(cuts(scan(), &[("n", 3)]), []);
    assert_eq!(cuts(scan(), &[("n", 3000)]), reported("Scan", "the many rounds of its graph run one after another"));
    assert_eq!(cuts(repeat(), &[]), reported("Loop", "the trip count (input 0) depends on sizes of inputs"));
    assert_eq!(cuts(repeat(), &[("n", 3)]), []);
    // A session is cut there, too.
    let session = opened(scan().input("x", Float, &["n", "2"]).output("y"));
    run(&session, &[f(&[2, 2], &[1.0, 2.0, 3.0, 4.0])]).unwrap();
    assert!(session.program.lock().unwrap().is_some());
}

#[test]
fn functions_that_are_cut_run_as_models_of_their_own() {
    use crate::onnx::file::Files;
    use crate::onnx::proto;
    use crate::onnx::testing::node;
    let text = |name: &str| name.to_string();
    let function = proto::Function {
        name: text("Positive"),
        domain: text("local"),
        input: vec![text("a"), text("unused")],
        output: vec![text("found"), text("count")],
        node: vec![
            node("Relu", "a", "r", vec![]),
            node("NonZero", "r", "places", vec![]),
            node("Flatten", "places", "flat", vec![("axis", Attr::Int(0))]),
            node("Gather", "r flat", "found", vec![]),
            node("Size", "found", "count", vec![]),
        ],
        opset_import: vec![],
        attribute_proto: vec![],
        overload: String::new(),
    };
    let graph = TestGraph::default().input("x", Float, &["n"]).node("local.Positive", "x", "f c", vec![]);
    let graph = graph.node("Neg", "f", "y", vec![]).output("y").output_of("c", Int64);
    let (files, bytes) = Files::of_bytes(graph.encode_with(17, vec![function]));
    let model = Arc::new(Model::decode(bytes, files).unwrap());
    let session = Arc::new(Session::open(model, super::tests::context(), SessionOptions::default()).unwrap());
    let y = run(&session, &[f(&[3], &[1.0, -2.0, 3.0])]).unwrap();
    assert_eq!(y, [f(&[1, 2], &[-1.0, -3.0]), i(&[], &[2])]);
}

#[test]
fn long_loops_are_not_unrolled_and_wrong_branches_are_not_taken() {
    let body = TestGraph::default().input("i", Int64, &[]).input("c", Bool, &[]).input("a", Float, &[]);
    let body = body.node("Add", "a one", "b", vec![]).output_of("c", Bool).output("b");
    // x does not have the shape that the second branch needs.
    let good = TestGraph::default().node("Neg", "sum", "g", vec![]).output("g");
    let wrong = TestGraph::default().ints("shape", &[7]).node("Reshape", "x shape", "w", vec![]).output("w");
    let branches = vec![("then_branch", Attr::Graph(good)), ("else_branch", Attr::Graph(wrong))];
    let graph = TestGraph::default()
        .input("x", Float, &["2"])
        .input("c", Bool, &[])
        .floats("zero", &[], &[0.0])
        .floats("one", &[], &[1.0])
        .raw("trips", Int64, &[], &15_000i64.to_le_bytes())
        .node("Loop", "trips _ zero", "sum", vec![("body", Attr::Graph(body))])
        .node("If", "c", "y", branches)
        .output("y");
    let session = opened(graph);
    let x = f(&[2], &[1.0, 2.0]);
    assert_eq!(run(&session, &[x.clone(), b(true)]).unwrap(), [f(&[], &[-15_000.0])]);
    let error = run(&session, &[x, b(false)]).unwrap_err();
    assert!(error.message.contains("cannot get the shape"), "{error}");
}

#[test]
fn a_loop_without_rounds_has_the_rows_that_a_round_would_return() {
    // The rows of x at the nonzero elements of mask, doubled, one by one; then x.
    let body = TestGraph::default()
        .input("i", Int64, &[])
        .input("c", Bool, &[])
        .node("Gather", "found i", "row", vec![])
        .node("Add", "row row", "doubled", vec![])
        .node("Identity", "c", "again", vec![])
        .output("again")
        .shaped_output("doubled", &["size"]);
    let graph = TestGraph::default()
        .input("mask", Float, &["n"])
        .input("x", Float, &["n", "m"])
        .ints("zero", &[0])
        .raw("first", Int64, &[], &0i64.to_le_bytes())
        .node("NonZero", "mask", "places", vec![])
        .node("Squeeze", "places zero", "at", vec![])
        .node("Gather", "x at", "found", vec![])
        .node("Shape", "found", "shape", vec![])
        .node("Gather", "shape first", "rounds", vec![])
        .node("Loop", "rounds _", "rows", vec![("body", Attr::Graph(body))])
        .node("Concat", "rows x", "y", vec![("axis", Attr::Int(0))])
        .output("y")
        .output("rows");
    let session = opened(graph);
    for (mask, m) in [([1.0, 0.0], 3), ([0.0, 0.0], 3), ([0.0, 0.0], 2), ([1.0, 1.0], 2)] {
        let x: Vec<f32> = (0..2 * m).map(|i| i as f32 + 1.0).collect();
        let kept = (0..2).filter(|&row| mask[row] != 0.0);
        let rows: Vec<f32> = kept.flat_map(|row| x[row * m..][..m].iter().map(|x| 2.0 * x)).collect();
        let (count, m) = ((rows.len() / m) as u32, m as u32);
        let results = run(&session, &[f(&[2], &mask), f(&[2, m], &x)]).unwrap();
        let y = f(&[2 + count, m], &[&rows[..], &x[..]].concat());
        assert_eq!(results, [y, f(&[count, m], &rows)]);
    }
}

#[test]
fn a_cut_model_runs_with_names_that_contradict_themselves() {
    // The elements of x at the nonzero elements of mask, whose sizes have the same name.
    let graph = TestGraph::default()
        .input("mask", Float, &["n"])
        .input("x", Float, &["n", "?"])
        .ints("zero", &[0])
        .node("NonZero", "mask", "places", vec![])
        .node("Squeeze", "places zero", "at", vec![])
        .node("Gather", "x at", "y", vec![])
        .output("y");
    let session = opened(graph);
    let x = |rows: u32| f(&[rows, 1], &(0..rows).map(|i| i as f32).collect::<Vec<_>>());
    for rows in [5, 2, 7] {
        assert_eq!(run(&session, &[f(&[2], &[0.0, 1.0]), x(rows)]).unwrap(), [f(&[1, 1], &[1.0])]);
        assert_eq!(run(&session, &[f(&[3], &[1.0, 1.0, 0.0]), x(rows)]).unwrap(), [f(&[2, 1], &[0.0, 1.0])]);
    }
}

#[test]
fn a_list_is_looked_into_before_and_after_a_cut() {
    let graph = TestGraph::default()
        .input("x", Float, &["n"])
        .raw("first", Int64, &[], &0i64.to_le_bytes())
        .ints("zero", &[0])
        .node("SequenceConstruct", "x x", "list", vec![])
        .node("SequenceLength", "list", "length", vec![])
        .node("NonZero", "x", "places", vec![])
        .node("Squeeze", "places zero", "at", vec![])
        .node("Gather", "x at", "found", vec![])
        .node("SequenceInsert", "list found", "longer", vec![])
        .node("SequenceLength", "longer", "more", vec![])
        .node("SequenceAt", "longer first", "again", vec![])
        .node("Add", "length more", "sum", vec![])
        .output_of("sum", Int64)
        .output("again")
        .output("found");
    let session = opened(graph);
    for x in [[0.0, 1.0, 2.0], [3.0, 0.0, 0.0], [1.0, 1.0, 1.0]] {
        let found: Vec<f32> = x.into_iter().filter(|x| *x != 0.0).collect();
        let expected = [i(&[], &[5]), f(&[3], &x), f(&[found.len() as u32], &found)];
        assert_eq!(run(&session, &[f(&[3], &x)]).unwrap(), expected);
    }
}

#[test]
fn the_rounds_of_a_loop_with_a_list_convert_no_elements() {
    let body = TestGraph::default().input("i", Int64, &[]).input("c", Bool, &[]).input("s", Float, &[]);
    let body = body.node("SequenceInsert", "s x front", "longer", vec![]).node("SequenceErase", "longer", "t", vec![]);
    let body = body.node("SequenceInsert", "t x", "next", vec![]).output_of("c", Bool).output("next");
    let graph = TestGraph::default()
        .input("x", Float, &["2"])
        .input("trips", Int64, &[])
        .floats("first", &[2], &[7.0, 8.0])
        .raw("front", Int64, &[], &0i64.to_le_bytes())
        .raw("last", Int64, &[], &(-1i64).to_le_bytes())
        .node("SequenceConstruct", "first", "start", vec![])
        .node("Loop", "trips _ start", "s", vec![("body", Attr::Graph(body))])
        .node("SequenceLength", "s", "count", vec![])
        .node("SequenceAt", "s last", "at", vec![])
        .output_of("count", Int64)
        .output("at");
    let session = opened(graph);
    let run_for = |trips: i64| run(&session, &[f(&[2], &[1.0, 2.0]), i(&[], &[trips])]).unwrap();
    assert_eq!(run_for(0), [i(&[], &[1]), f(&[2], &[7.0, 8.0])]);
    assert_eq!(run_for(3), [i(&[], &[4]), f(&[2], &[1.0, 2.0])]);
    let files = session.model().unwrap().files.clone();
    files.imports.store(0, Ordering::Relaxed);
    assert_eq!(run_for(200), [i(&[], &[201]), f(&[2], &[1.0, 2.0])]);
    assert_eq!(files.imports.load(Ordering::Relaxed), 0);
    let error = run(&session, &[f(&[2], &[1.0, 2.0]), i(&[], &[5000])]).unwrap_err();
    let expected = "  [longer] SequenceInsert (opset 17): a sequence has 4097 tensors, expected at most 4096";
    assert_eq!((error.code, error.message.lines().last()), (Some(Code::UnsupportedOperator), Some(expected)));
}
