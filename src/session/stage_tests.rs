//! Tests of stages: what they read, how often they are imported and compiled, and when that ends.

use super::cut_tests::{f, i, opened, run};
use super::*;
use crate::onnx::tensor::ElementType::{Float, Int64};
use crate::onnx::testing::{Attr, TestGraph};

#[test]
fn the_first_use_of_a_stage_imports_once() {
    let graph = TestGraph::default()
        .input("x", Float, &["n"])
        .node("Relu", "x", "positive", vec![])
        .node("NonZero", "positive", "places", vec![])
        .node("Gather", "x places", "found", vec![])
        .node("Neg", "found", "y", vec![])
        .output("y");
    let session = opened(graph);
    let files = session.model().unwrap().files.clone();
    let imports = || files.imports.swap(0, Ordering::Relaxed);
    assert_eq!(imports(), 1, "when it is opened");
    let expected = |found: &[f32]| [f(&[1, found.len() as u32], found)];
    assert_eq!(run(&session, &[f(&[3], &[1.0, -2.0, 3.0])]).unwrap(), expected(&[-1.0, -3.0]));
    // Of the nodes before NonZero, NonZero itself, and those behind it.
    assert_eq!(imports(), 3);
    assert_eq!(run(&session, &[f(&[4], &[1.0, 2.0, 0.0, 3.0])]).unwrap(), expected(&[-1.0, -2.0, -3.0]));
    assert_eq!(imports(), 1, "NonZero again");
}

#[test]
fn what_only_later_stages_read_is_no_input_of_a_stage() {
    // The first stage behind a cut does not read z, the next one does.
    let graph = TestGraph::default()
        .input("x", Float, &["n"])
        .input("z", Float, &["1"])
        .node("NonZero", "x", "places", vec![])
        .node("Gather", "x places", "found", vec![])
        .node("Relu", "found", "positive", vec![])
        .node("NonZero", "positive", "again", vec![])
        .node("Cast", "again", "floats", vec![("to", Attr::Int(1))])
        .node("Add", "floats z", "y", vec![])
        .output("y");
    let session = opened(graph);
    let run_with = |x: &[f32], z: f32| run(&session, &[f(&[x.len() as u32], x), f(&[1], &[z])]).unwrap();
    assert_eq!(run_with(&[0.0, 2.0, -1.0], 0.5), [f(&[2, 1], &[0.5, 0.5])]);
    assert_eq!(run_with(&[0.0, 2.0, -1.0, 5.0], 1.5), [f(&[2, 2], &[1.5, 1.5, 1.5, 3.5])]);
    let files = session.model().unwrap().files.clone();
    files.imports.store(0, Ordering::Relaxed);
    assert_eq!(run_with(&[3.0, 4.0], 2.5), [f(&[2, 2], &[2.5, 2.5, 2.5, 3.5])]);
    assert_eq!(files.imports.load(Ordering::Relaxed), 2, "both NonZero");
}

#[test]
fn inputs_that_a_call_omits_are_absent_in_stages_too() {
    use crate::onnx::proto;
    use crate::onnx::testing::node;
    let function = || proto::Function {
        name: "Pass".into(),
        domain: "local".into(),
        input: vec!["a".into(), "b".into()],
        output: vec!["b".into(), "places".into()],
        node: vec![node("NonZero", "a", "places", vec![])],
        ..Default::default()
    };
    let outcome = |inputs: &str, outputs: &str, reads: bool| {
        let graph = TestGraph::default().input("x", Float, &["n"]).node("local.Pass", inputs, outputs, vec![]);
        let graph = if reads { graph.node("Relu", "p", "y", vec![]).output("y") } else { graph };
        let (files, bytes) =
            crate::onnx::file::Files::of_bytes(graph.output_of("q", Int64).encode_with(18, vec![function()]));
        let model = Arc::new(Model::decode(bytes, files).unwrap());
        let session = Arc::new(Session::open(model, super::tests::context(), SessionOptions::default()).unwrap());
        run(&session, &[f(&[3], &[0.0, 1.0, 2.0])])
    };
    let places = || i(&[1, 2], &[1, 2]);
    for omitted in ["x", "x _"] {
        assert_eq!(outcome(omitted, "_ q", false).unwrap(), [places()]);
        assert_eq!(outcome(omitted, "p q", false).unwrap(), [places()], "nothing reads it");
        let needed = outcome(omitted, "p q", true).unwrap_err();
        assert!(needed.message.contains("[y] Relu (opset 18): input 0 is missing"), "{needed}");
    }
    assert_eq!(outcome("x x", "p q", true).unwrap(), [f(&[3], &[0.0, 1.0, 2.0]), places()]);
}

/// A model with as many cuts, one after another.
pub(super) fn chain_of_cuts(cuts: usize) -> TestGraph {
    let mut graph = TestGraph::default().input("x", Float, &["4"]);
    let mut last = "x".to_string();
    for at in 0..cuts {
        let [places, floats, sum, y] = ["p", "f", "s", "y"].map(|name| format!("{name}{at}"));
        graph = graph
            .node("NonZero", &last, &places, vec![])
            .node("Cast", &places, &floats, vec![("to", Attr::Int(1))])
            .node("ReduceSum", &floats, &sum, vec![("keepdims", Attr::Int(0))])
            .node("Add", &format!("x {sum}"), &y, vec![]);
        last = y;
    }
    graph.output(&last)
}

#[test]
fn the_stages_of_many_cuts_begin_at_single_nodes() {
    const CUTS: usize = 30;
    let session = opened(chain_of_cuts(CUTS));
    let x = f(&[4], &[0.0, 1.0, 0.0, 2.0]);
    // The places 1 and 3, then all four.
    let y = [f(&[4], &[6.0, 7.0, 6.0, 8.0])];
    for _ in 0..2 {
        assert_eq!(run(&session, std::slice::from_ref(&x)).unwrap(), y);
        let program = session.program().unwrap();
        assert_eq!(program.stage_starts(), vec![1; CUTS], "nodes at which a stage begins");
        assert_eq!(program.template_count(), CUTS, "one for each stage, in both runs");
    }
}

#[test]
fn an_import_ends_when_it_should() {
    use crate::onnx::stop::Stop;
    let graph = TestGraph::default().input("x", Float, &["n"]).node("NonZero", "x", "p", vec![]).output_of("p", Int64);
    let session = opened(graph.clone());
    let stop = Stop::default();
    stop.now();
    let (files, bytes) = crate::onnx::file::Files::of_bytes(graph.encode(17));
    let model = Arc::new(Model::decode(bytes, files).unwrap());
    let options = SessionOptions { stop, ..SessionOptions::default() };
    let error = Session::open(model, super::tests::context(), options).err().expect("it is not opened");
    assert_eq!(error.code, Some(crate::error::Code::Destroyed));
    // Host operators look as well.
    assert_eq!(run(&session, &[f(&[3], &[0.0, 1.0, 0.0])]).unwrap(), [i(&[1, 1], &[1])]);
    session.destroy();
    assert_eq!(run(&session, &[f(&[3], &[1.0, 1.0, 0.0])]).unwrap_err().code, Some(crate::error::Code::Destroyed));
}

#[test]
fn a_stage_that_decides_otherwise_reads_other_values() {
    // The branch that runs depends on the number of elements of x that differ from 0.
    let branch = |operator: &str, input: &str| {
        let graph = TestGraph::default().node(operator, input, "of_branch", vec![]);
        Attr::Graph(graph.output("of_branch"))
    };
    let branches = vec![("then_branch", branch("Neg", "doubled")), ("else_branch", branch("Abs", "halved"))];
    let graph = TestGraph::default()
        .input("x", Float, &["n"])
        .ints("two", &[2])
        .floats("half", &[], &[0.5])
        .node("Add", "x x", "doubled", vec![])
        .node("Mul", "x half", "halved", vec![])
        .node("NonZero", "x", "places", vec![])
        .node("Size", "places", "count", vec![])
        .node("Greater", "count two", "many", vec![])
        .node("If", "many", "y", branches)
        .output("y");
    let session = opened(graph);
    let mut templates = Vec::new();
    for x in [[0.0, 1.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 2.0, 0.0], [0.0, 1.0, 2.0, 3.0]] {
        let many = x.iter().filter(|x| **x != 0.0).count() > 2;
        let y = x.map(|x: f32| if many { -2.0 * x } else { 0.5 * x.abs() });
        assert_eq!(run(&session, &[f(&[4], &x)]).unwrap(), [f(&[4], &y)], "{x:?}");
        templates.push(session.program().unwrap().template_count());
    }
    assert_eq!(templates, [1, 2, 2, 2], "a template lasts although other ones read more");
}
