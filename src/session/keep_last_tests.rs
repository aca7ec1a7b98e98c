//! Tests of sessions that compute only the last positions of outputs.

use super::tests::{context, data, model, run, session};
use super::*;
use crate::description::text;
use crate::onnx::model::Dimension;
use crate::onnx::tensor::ElementType::Float;
use crate::onnx::testing::TestGraph;

const WIDTH: usize = 4;
const SCORES: usize = 3;

fn keep(count: u32) -> SessionOptions {
    SessionOptions { keep_last: [("y".to_string(), count)].into(), ..Default::default() }
}

/// The weights of a product that returns different numbers for each row.
fn weighted(graph: TestGraph) -> TestGraph {
    let weights: Vec<f32> = (0..WIDTH * SCORES).map(|i| i as f32 - 5.0).collect();
    graph.floats("w", &[WIDTH as i64, SCORES as i64], &weights)
}

/// Scores for each row of a batch of matrices, and the rows themselves, with a function in between.
fn scores() -> TestGraph {
    weighted(TestGraph::default().input("x", Float, &["batch", "length", "4"]))
        .node("Relu", "x", "hidden", vec![])
        .node("MatMul", "hidden w", "y", vec![])
        .shaped_output("y", &["batch", "length", "3"])
        .output("hidden")
}

fn feed(batch: usize, length: usize) -> (Vec<u8>, Option<Vec<u32>>) {
    let numbers: Vec<f32> = (0..batch * length * WIDTH).map(|i| (i * 7 % 11) as f32 - 4.0).collect();
    data(&numbers, Some(&[batch, length, WIDTH].map(|size| size as u32)))
}

#[test]
fn the_last_positions_equal_those_of_a_whole_run() {
    let whole = session(scores(), SessionOptions::default());
    for count in [1, 2, 5, u32::MAX] {
        let last = session(scores(), keep(count));
        for (batch, length) in [(1, 1), (1, 2), (1, 7), (2, 7), (1, 40), (3, 1), (2, 3), (1, 0)] {
            let feeds = [feed(batch, length)];
            let [expected, got] = [&whole, &last].map(|session| run(session, &feeds).unwrap());
            let kept = length.min(count as usize);
            assert_eq!(got[0].0, [batch, kept, SCORES].map(|size| size as u32), "{count} of {length}");
            let rows: Vec<f32> = expected[0].1.chunks(SCORES * length.max(1)).fold(Vec::new(), |mut rows, matrix| {
                rows.extend_from_slice(&matrix[(length - kept) * SCORES..]);
                rows
            });
            assert_eq!(got[0].1, rows, "{count} of {length}, {batch} times");
            assert_eq!(got[1], expected[1]);
        }
    }
}

#[test]
fn one_template_serves_all_longer_texts() {
    let last = session(scores(), keep(1));
    for length in [5, 12, 31, 80] {
        run(&last, &[feed(1, length)]).unwrap();
    }
    assert_eq!(last.templates.count(), 1);
}

#[test]
fn only_the_kept_positions_are_multiplied() {
    let last = session(scores(), keep(1));
    let shapes = last.signature().shapes_of_names("compile", &[("x".to_string(), vec![1, 64, 4])].into()).unwrap();
    let made = Arc::new(Slot::default());
    super::tests::finished(|done| last.compile(shapes, made.clone(), done)).unwrap();
    let (specialization, _) = made.take().unwrap();
    assert_eq!(specialization.outputs[0].name, "y");
    let description = specialization.graph().unwrap().description().unwrap();
    let text = text(&description.json()).unwrap();
    assert!(text.contains(&format!("\"multiplyAdds\":{}", WIDTH * SCORES)), "{text}");
}

#[test]
fn stages_keep_the_last_positions_too() {
    // The data decide how many rows are left.
    let graph = || {
        weighted(TestGraph::default().input("x", Float, &["length", "4"]).input("flags", Float, &["length"]))
            .node("NonZero", "flags", "places", vec![])
            .ints("zero", &[0])
            .node("Squeeze", "places zero", "at", vec![])
            .node("Gather", "x at", "rows", vec![])
            .node("MatMul", "rows w", "y", vec![])
            .shaped_output("y", &["found", "3"])
    };
    let (whole, last) = (session(graph(), SessionOptions::default()), session(graph(), keep(2)));
    for flags in [&[0.0, 1.0, 0.0, 0.0, 0.0][..], &[1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0], &[1.0; 12]] {
        let numbers: Vec<f32> = (0..flags.len() * WIDTH).map(|i| (i * 5 % 13) as f32).collect();
        let feeds = [data(&numbers, Some(&[flags.len() as u32, 4])), data(flags, Some(&[flags.len() as u32]))];
        let [expected, got] = [&whole, &last].map(|session| run(session, &feeds).unwrap().remove(0));
        let kept = expected.0[0].min(2);
        assert_eq!(got.0, [kept, 3]);
        assert_eq!(got.1, expected.1[expected.1.len() - kept as usize * SCORES..]);
    }
}

#[test]
fn the_signature_describes_the_kept_outputs() {
    let shape = |graph: TestGraph, count| session(graph, keep(count)).signature().outputs[0].shape.clone();
    let [batch, free] = ["batch", "y_dim_1"].map(|name| Dimension::Free(name.into()));
    assert_eq!(shape(scores(), 1), Some(vec![batch, free, Dimension::Fixed(3)]));
    let fixed = |count| {
        let graph = TestGraph::default().input("x", Float, &["6", "4"]).node("Relu", "x", "y", vec![]);
        shape(graph.shaped_output("y", &["6", "4"]), count)
    };
    assert_eq!(fixed(2), Some(vec![Dimension::Fixed(2), Dimension::Fixed(4)]));
    assert_eq!(fixed(9), Some(vec![Dimension::Fixed(6), Dimension::Fixed(4)]));
}

#[test]
fn outputs_without_such_positions_are_refused() {
    let refused = |graph: TestGraph, options: SessionOptions| {
        let error = Session::open(model(graph), context(), options).err().expect("it is refused");
        (error.code.unwrap(), error.message)
    };
    let names = SessionOptions { keep_last: [("x".to_string(), 1)].into(), ..Default::default() };
    let message = "loadModel: keepLast names \"x\", which is not an output: the model has \"y\", \"hidden\"";
    assert_eq!(refused(scores(), names), (Code::UnknownOutput, message.to_string()));
    // Nor is an output of the model that the session does not compute.
    let others = SessionOptions { outputs: Some(vec!["hidden".to_string()]), ..keep(1) };
    assert_eq!(refused(scores(), others).0, Code::UnknownOutput);
    let row = TestGraph::default().input("x", Float, &["n"]).node("Relu", "x", "y", vec![]);
    let message = "loadModel: keepLast names \"y\", which has rank 1, expected at least 2";
    assert_eq!(refused(row.shaped_output("y", &["n"]), keep(1)), (Code::Shape, message.to_string()));
}
