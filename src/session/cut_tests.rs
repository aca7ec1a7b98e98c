//! Tests of models that data decide about, against results that are computed naively.

use super::tests::{finished, session};
use super::*;
use crate::dimension::numbers;
use crate::dtype::DataType;
use crate::memory::{bytes_of, elements};
use crate::onnx::tensor::ElementType::{Bool, Float, Int64};
use crate::onnx::testing::{Attr, TestGraph};

/// A tensor: its shape and its elements.
#[derive(Clone, Debug, PartialEq)]
enum T {
    F(Vec<u32>, Vec<f32>),
    I(Vec<u32>, Vec<i64>),
    B(Vec<u32>, Vec<u8>),
}

fn f(shape: &[u32], numbers: &[f32]) -> T {
    T::F(shape.to_vec(), numbers.to_vec())
}

fn i(shape: &[u32], numbers: &[i64]) -> T {
    T::I(shape.to_vec(), numbers.to_vec())
}

fn b(truth: bool) -> T {
    T::B(vec![], vec![u8::from(truth)])
}

/// The outputs of a run.
fn run(session: &Arc<Session>, feeds: &[T]) -> Result<Vec<T>> {
    let fed = feeds.iter().map(|feed| match feed {
        T::F(shape, numbers) => (bytes_of(numbers.as_slice()).to_vec(), shape.clone()),
        T::I(shape, numbers) => (bytes_of(numbers.as_slice()).to_vec(), shape.clone()),
        T::B(shape, numbers) => (numbers.clone(), shape.clone()),
    });
    let fed: Vec<(Vec<u8>, Vec<u32>)> = fed.collect();
    let offers: Vec<Offer> =
        fed.iter().map(|(bytes, shape)| Offer::Data { bytes: bytes.len(), shape: Some(shape.clone()) }).collect();
    let shapes = session.signature().shapes_of_feeds(&offers)?;
    let feeds = fed.iter().map(|(bytes, _)| Feed::Bytes(Buffer::copy_of(bytes).unwrap())).collect();
    let values = Arc::new(Slot::default());
    let targets = vec![Target::Read; session.signature().outputs.len()];
    finished(|done| session.run(shapes, feeds, targets, values.clone(), done))?;
    let values: Vec<Option<Value>> = values.take().expect("a run that succeeds leaves its values");
    let tensor = |value: Value| {
        let (shape, bytes) = (numbers(&value.descriptor.shape), value.bytes.bytes());
        match value.descriptor.dtype {
            DataType::Float32 => T::F(shape, elements(bytes).to_vec()),
            DataType::Int64 => T::I(shape, elements(bytes).to_vec()),
            _ => T::B(shape, bytes.to_vec()),
        }
    };
    Ok(values.into_iter().flatten().map(tensor).collect())
}

fn opened(graph: TestGraph) -> Arc<Session> {
    session(graph, SessionOptions::default())
}

/// y = the elements of relu(x) that are not 0, doubled; and where they are.
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
fn places_of_what_is_not_zero_are_found_for_any_data() {
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
    let branches = vec![("then_branch", Attr::Graph(branch("Abs", true))), ("else_branch", Attr::Graph(branch("Neg", false)))];
    let graph = TestGraph::default().input("x", Float, &["n"]).input("c", Bool, &[]);
    let graph = graph.node("Relu", "x", "r", vec![]).node("If", "c", "y", branches).node("Neg", "y", "z", vec![]).output("z");
    let session = opened(graph);
    let x = f(&[2], &[-1.0, 2.0]);
    assert_eq!(run(&session, &[x.clone(), b(true)]).unwrap(), [f(&[4], &[-1.0, -2.0, 0.0, -2.0])]);
    assert_eq!(run(&session, &[x, b(false)]).unwrap(), [f(&[2], &[-1.0, 2.0])]);
}

/// Appends the counter to a while their sum is below a limit; gives all sums.
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
fn rounds_are_run_until_the_data_say_so() {
    let session = opened(growing());
    for (x, limit, trips) in [(&[0.5f32][..], 20.0f32, 100i64), (&[], 5.0, 100), (&[1.0, 2.0], 1000.0, 4), (&[1.0], 0.0, 9)] {
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
