//! Tests of the reader as a whole; tests of single translations are next to these.

use super::file::{FileSource, Files};
use super::import::{Request, check, import};
use super::model::{Dimension, Model};
use super::proto;
use super::sizes::Sizes;
use super::tensor::ElementType::*;
use super::testing::*;
use crate::error::Code;
use crate::ir::Builder;
use crate::shape::{MAX_TENSOR_BYTES, MAX_VALUE_BYTES};
use bytes::Bytes;

fn decode(bytes: Bytes) -> super::Result<Model> {
    Model::decode(bytes, Files::default())
}

fn add() -> TestGraph {
    TestGraph::default()
        .input("x", Float, &["2", "n"])
        .input("y", Float, &["n"])
        .node("Add", "x y", "z", vec![])
        .output("z")
}

#[test]
fn free_dimensions_come_by_name_or_from_shapes() {
    let model = decode(add().encode(17)).unwrap();
    let mut request = Request::default();
    let error = graph_of(&model, &request).unwrap_err().message;
    assert_eq!(error, "\"x\" has free sizes, [2, n]: pass its shape, or set freeDimensions");
    request.free_dimensions.insert("n".into(), 3);
    let text = graph_of(&model, &request).unwrap().to_string();
    assert!(text.contains("input y float32 [3]"), "{text}");
    request.free_dimensions.clear();
    request.shapes.insert("y".into(), vec![5]);
    let text = graph_of(&model, &request).unwrap().to_string();
    assert!(text.contains("input x float32 [2, 5]"), "{text}");
    // Names are no promises, unless they must be.
    request.shapes.insert("x".into(), vec![2, 4]);
    let error = graph_of(&model, &request).unwrap_err().message;
    assert!(error.contains("Add"), "{error}");
    request.strict_dimensions = true;
    let error = graph_of(&model, &request).unwrap_err().message;
    assert_eq!(error, "\"y\" has shape [5], expected [n=4], since strictDimensions is true");
}

#[test]
fn a_number_of_elements_gives_a_size_and_must_fill_the_shape() {
    let model = decode(add().encode(17)).unwrap();
    let inputs: Vec<_> = model.free_inputs().collect();
    let mut sizes = Sizes::default();
    let open = Some(vec![Dimension::Fixed(2), Dimension::Free("n".into())]);
    assert_eq!(sizes.known(inputs[0]), open);
    let error = sizes.fill(inputs[0], 5).unwrap_err().message;
    assert_eq!(error, "\"x\" has 5 elements, expected a number that fills the shape [2, n]");
    sizes.fill(inputs[0], 6).unwrap();
    assert_eq!(sizes.known(inputs[1]), Some(vec![Dimension::Fixed(3)]));
    assert_eq!(sizes.by_name(), [("n", 3)].into());
    let error = sizes.fill(inputs[1], 4).unwrap_err().message;
    assert_eq!(error, "\"y\" has 4 elements, expected a number that fills the shape [n=3]");
    sizes.fill(inputs[1], 3).unwrap();
}

#[test]
fn shape_arithmetic_is_folded() {
    let graph = TestGraph::default()
        .input("x", Float, &["2", "3", "4"])
        .ints("first", &[0])
        .ints("rest", &[-1])
        .node("Shape", "x", "shape", vec![])
        .node("Gather", "shape first", "batch", vec![])
        .node("Concat", "batch rest", "target", vec![("axis", Attr::Int(0))])
        .node("Reshape", "x target", "y", vec![])
        .output("y");
    let text = graph.text(17);
    assert!(text.contains("reshape %0 newShape=[2, 12]"), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[test]
fn every_unsupported_node_is_listed_and_nothing_is_left_in_the_builder() {
    let graph = TestGraph::default()
        .input("x", Float, &["2"])
        .node("Relu", "x", "a", vec![])
        .node("NoSuch", "a", "b", vec![])
        .node("other.domain.Thing", "b", "c", vec![])
        .node("Transpose", "x", "d", vec![("perm", Attr::Ints(&[1]))])
        .node("Sum", "c d", "y", vec![])
        .output("y");
    let model = decode(graph.encode(17)).unwrap();
    let mut builder = Builder::new();
    let error = import(&model, &mut builder, &Request::default()).unwrap_err();
    assert_eq!(builder.graph_len(), 0);
    let names: Vec<_> = error.unsupported.iter().map(|node| node.operator.as_str()).collect();
    assert_eq!(names, ["NoSuch", "Thing", "Transpose"]);
    assert_eq!((error.unsupported[1].domain.as_str(), error.unsupported[0].opset), ("other.domain", 17));
    assert!(error.message.starts_with("3 nodes are not supported\n  [b] NoSuch (opset 17): "), "{}", error.message);
    assert_eq!(check(&model, &mut builder, &Request::default()).map(drop), Err(error));
}

#[test]
fn errors_in_inner_graphs_name_the_nodes_around_them() {
    let choose = |yes: TestGraph, name: &str| {
        let no = TestGraph::default().node("Neg", "x", "n", vec![]).output("n");
        let branches = vec![("then_branch", Attr::Graph(no)), ("else_branch", Attr::Graph(yes))];
        TestGraph::default().node("If", "c", name, branches).output(name)
    };
    let wrong = || TestGraph::default().node("Relu", "nothing", "r", vec![]).output("r");
    let message = |graph: TestGraph| {
        let graph = graph.input("x", Float, &["2"]).input("c", Bool, &[]);
        decode(graph.encode(17)).unwrap_err().message
    };
    let of_node = "[y] If: else_branch: [i] If: else_branch: [r] Relu: nothing defines \"nothing\"";
    assert_eq!(message(choose(choose(wrong(), "i"), "y")), of_node);
    let missing = TestGraph::default().output("o");
    assert_eq!(message(choose(missing, "y")), "[y] If: else_branch: nothing computes the output \"o\"");
    let twice = TestGraph::default().ints("w", &[1]).ints("w", &[1]);
    assert_eq!(message(choose(twice, "y")), "[y] If: else_branch: there are two initializers named \"w\"");
    let function = proto::Function {
        name: "Choose".into(),
        domain: "mine".into(),
        input: vec!["c".into(), "x".into()],
        output: vec!["f".into()],
        node: vec![node("If", "c", "f", vec![("then_branch", Attr::Graph(wrong()))])],
        ..Default::default()
    };
    let graph = TestGraph::default().input("x", Float, &["2"]).node("Neg", "x", "y", vec![]).output("y");
    let error = decode(graph.encode_with(17, vec![function])).unwrap_err().message;
    assert_eq!(error, "function mine.Choose: [f] If: then_branch: [r] Relu: nothing defines \"nothing\"");
}

#[test]
fn only_dependencies_of_requested_outputs_are_imported() {
    let graph = TestGraph::default()
        .input("x", Float, &["2"])
        .input("unused", String, &["batch"])
        .node("Relu", "x", "a", vec![])
        .node("NoSuch", "a", "b", vec![])
        .output("b");
    let model = decode(graph.encode(17)).unwrap();
    let request = Request { outputs: Some(vec!["a".into()]), ..Default::default() };
    assert!(graph_of(&model, &request).unwrap().to_string().contains("relu"));
    let request = Request { outputs: Some(vec!["nothing".into()]), ..Default::default() };
    assert_eq!(graph_of(&model, &request).unwrap_err().message, "the output \"nothing\" is not a value of the model");
}

#[test]
fn nodes_are_sorted_and_cycles_are_refused() {
    let graph = TestGraph::default().input("x", Float, &["2"]);
    let unsorted = graph.node("Relu", "a", "y", vec![]).node("Abs", "x", "a", vec![]).output("y");
    assert!(unsorted.text(17).contains("%1 = abs %0"));
    let cycle = TestGraph::default().node("Relu", "a", "y", vec![]).node("Abs", "y", "a", vec![]).output("y");
    assert_eq!(decode(cycle.encode(17)).unwrap_err().message, "[y] Relu: it depends on its own outputs");
}

#[test]
fn invalid_models_are_refused() {
    let message = |graph: TestGraph| decode(graph.encode(17)).unwrap_err().message;
    let graph = || TestGraph::default().input("x", Float, &["2"]);
    assert_eq!(
        message(graph().node("Relu", "nothing", "y", vec![]).output("y")),
        "[y] Relu: nothing defines \"nothing\""
    );
    assert_eq!(message(graph().output("y")), "nothing computes the output \"y\"");
    assert_eq!(message(graph().node("Relu", "x", "x", vec![])), "the value \"x\" is defined twice");
    assert_eq!(message(graph().input("x", Float, &[])), "there are two inputs named \"x\"");
    assert_eq!(message(graph().ints("a", &[1]).ints("a", &[2])), "there are two initializers named \"a\"");
    let absurd = graph().raw("w", Float, &[1 << 40], &[]);
    assert!(message(absurd).contains("has a dimension that is not between"), "absurd dimension");
    let absurd = graph().raw("w", Float, &[1 << 20, 1 << 20], &[]);
    assert!(message(absurd).contains("has more than 2147483647 elements"), "absurd number of elements");
    let opset = decode(graph().encode(0)).unwrap_err().message;
    assert_eq!(opset, "the model uses opset 0 of ai.onnx, expected 1 to 28");
    assert!(
        decode(Bytes::from_static(b"\xff\xff\xff"))
            .unwrap_err()
            .message
            .starts_with("not an ONNX file: the model cannot be decoded")
    );
    let message = |bytes: &'static [u8]| decode(Bytes::from_static(bytes)).unwrap_err().message;
    assert_eq!(message(b""), "not an ONNX file: it is empty");
    assert_eq!(message(b"\x08\x07"), "not an ONNX file: it has no graph");
    assert_eq!(message(b"{ \"model_type\": \"bert\" }"), "not an ONNX file: it seems to be JSON");
}

#[test]
fn wrong_numbers_of_elements_are_refused() {
    let graph = TestGraph::default().raw("w", Float, &[3], &[0; 8]).node("Relu", "w", "y", vec![]).output("y");
    assert_eq!(graph.refusal(17), "tensor \"w\": its elements have 8 bytes, expected the 12 bytes of float32 [3]");
}

#[test]
fn truncated_files_are_refused() {
    let graph = TestGraph::default()
        .input("x", Float, &["2"])
        .ints("w", &[1, 2, 3])
        .node("Add", "x x", "y", vec![])
        .output("y");
    let bytes = graph.encode(17);
    for end in 0..bytes.len() {
        // Some truncations leave a valid model; all others must fail cleanly.
        if let Ok(model) = decode(bytes.slice(..end)) {
            let _ = graph_of(&model, &Request::default());
        }
    }
}

#[test]
fn functions_are_inlined_with_their_attributes() {
    let function = proto::Function {
        name: "Twice".into(),
        domain: "mine".into(),
        input: vec!["a".into()],
        output: vec!["c".into()],
        node: vec![
            node("Transpose", "a", "b", vec![("perm", Attr::Ref("order"))]),
            node("Transpose", "b", "c", vec![("perm", Attr::Ref("missing"))]),
        ],
        opset_import: vec![],
        ..Default::default()
    };
    let graph = TestGraph::default()
        .input("x", Float, &["2", "3", "4"])
        .node("mine.Twice", "x", "y", vec![("order", Attr::Ints(&[1, 0, 2]))])
        .output("y");
    let model = decode(graph.encode_with(17, vec![function])).unwrap();
    let text = graph_of(&model, &Request::default()).unwrap().to_string();
    assert!(text.contains("permutation=[1, 0, 2]") && text.contains("%2 = transpose %1"), "{text}");
}

#[test]
fn an_input_that_a_call_omits_is_absent() {
    let function = || proto::Function {
        name: "Pass".into(),
        domain: "mine".into(),
        input: vec!["a".into(), "b".into()],
        output: vec!["b".into(), "has".into(), "c".into()],
        node: vec![node("OptionalHasElement", "b", "has", vec![]), node("Neg", "a", "c", vec![])],
        ..Default::default()
    };
    let outcome = |inputs: &str, outputs: &str, more: Option<&str>| {
        let graph = TestGraph::default().input("x", Float, &["2"]).node("mine.Pass", inputs, outputs, vec![]);
        let graph = match more {
            Some(operator) => graph.node(operator, "p", "y", vec![]).output("y"),
            None => graph.output("c").output_of("has", Bool),
        };
        let model = decode(graph.encode_with(18, vec![function()])).unwrap();
        graph_of(&model, &Request::default()).map(|graph| graph.to_string()).map_err(|error| error.message)
    };
    for omitted in ["x", "x _"] {
        assert!(outcome(omitted, "_ has c", None).unwrap().contains("neg"));
        assert!(outcome(omitted, "p has c", None).is_ok(), "nothing reads it");
        assert!(outcome(omitted, "p", Some("OptionalHasElement")).is_ok());
        let needed = outcome(omitted, "p", Some("Relu")).unwrap_err();
        assert!(needed.contains("[y] Relu (opset 18): input 0 is missing"), "{needed}");
    }
    assert!(outcome("x x", "p", Some("Relu")).unwrap().contains("relu"));
}

#[test]
fn a_function_that_calls_itself_is_refused() {
    let function = proto::Function {
        name: "Loop".into(),
        domain: "mine".into(),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: vec![node("mine.Loop", "a", "b", vec![])],
        ..Default::default()
    };
    let graph = TestGraph::default().input("x", Float, &["2"]).node("mine.Loop", "x", "y", vec![]).output("y");
    let model = decode(graph.encode_with(17, vec![function])).unwrap();
    let error = graph_of(&model, &Request::default()).unwrap_err().message;
    assert_eq!(error, "functions are nested more than 16 deep");
}

#[test]
fn a_call_passes_only_graphs_that_stand_alone() {
    // The function runs the graph that it is called with.
    let function = || proto::Function {
        name: "Choose".into(),
        domain: "mine".into(),
        input: vec!["c".into()],
        output: vec!["r".into()],
        node: vec![node(
            "If",
            "c",
            "r",
            vec![("then_branch", Attr::Ref("graph")), ("else_branch", Attr::Ref("graph"))],
        )],
        ..Default::default()
    };
    let outcome = |passed: TestGraph, attribute: Vec<(&str, Attr)>| {
        let graph = TestGraph::default().input("x", Float, &["2"]).input("c", Bool, &[]);
        let attributes = attribute.into_iter().chain([("graph", Attr::Graph(passed))]).collect();
        let graph = graph.node("mine.Choose", "c", "y", attributes).output("y");
        let model = decode(graph.encode_with(17, vec![function()])).unwrap();
        graph_of(&model, &Request::default()).map(|graph| graph.to_string()).map_err(|error| error.message)
    };
    let alone = TestGraph::default().floats("w", &[2], &[1.0, 2.0]).node("Neg", "w", "o", vec![]).output("o");
    assert!(outcome(alone, vec![]).is_ok());
    let capturing = TestGraph::default().node("Neg", "x", "o", vec![]).output("o");
    let error = outcome(capturing, vec![]).unwrap_err();
    assert!(
        error.contains("is called with the graph \"graph\", which reads values or attributes from around"),
        "{error}"
    );
    // Its own reference to itself would never end.
    let branches = vec![("then_branch", Attr::Ref("graph")), ("else_branch", Attr::Ref("graph"))];
    let itself = TestGraph::default().raw("t", Bool, &[], &[1]).node("If", "t", "o", branches).output("o");
    assert!(outcome(itself, vec![]).unwrap_err().contains("from around the call"));
}

#[test]
fn inputs_and_constants_can_be_outputs() {
    let text = TestGraph::default().input("x", Float, &["2"]).node("Identity", "x", "y", vec![]).output("y").text(17);
    assert!(text.contains("%1 = identity %0"), "{text}");
}

#[test]
fn external_data_stay_in_the_folder_of_the_model() {
    let folder = std::env::temp_dir().join(format!("webnn-onnx-{}", std::process::id()));
    let inner = folder.join("model");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(inner.join("weights.bin"), [0, 0, 128, 63, 0, 0, 0, 64]).unwrap();
    std::fs::write(folder.join("secret.bin"), [0; 8]).unwrap();
    let model_with = |entries: &[(&str, &str)]| {
        let entry = |(key, value): &(&str, &str)| {
            Bytes::from(prost::Message::encode_to_vec(&proto::Entry { key: key.to_string(), value: value.to_string() }))
        };
        let header = proto::TensorHeader {
            dims: vec![2],
            data_type: 1,
            name: "w".into(),
            external_data: entries.iter().map(entry).collect(),
            data_location: 1,
            ..Default::default()
        };
        let path = inner.join("model.onnx");
        let graph = TestGraph::default().encoded(&header).node("Relu", "w", "y", vec![]).output("y");
        std::fs::write(&path, graph.encode(17)).unwrap();
        graph_of(&Model::open(FileSource::Path(path.clone()), Vec::new()).unwrap(), &Request::default())
            .map(|graph| graph.to_string())
    };
    assert!(model_with(&[("location", "weights.bin")]).unwrap().contains("constant"));
    assert!(model_with(&[("location", "./weights.bin"), ("offset", "0"), ("length", "8")]).is_ok());
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("location", "../secret.bin")], "outside of the model's folder"),
        (&[("location", "")], "outside of the model's folder"),
        (&[("location", "/etc/passwd")], "outside of the model's folder"),
        (&[("location", "nothing.bin")], "there is no file"),
        (&[("location", "weights.bin"), ("offset", "4")], "needs 8 bytes at 4, \"weights.bin\" has 8"),
        (&[("location", "weights.bin"), ("offset", "18446744073709551615")], "needs 8 bytes at"),
        (&[("location", "weights.bin"), ("offset", "-1")], "expected a number"),
        (&[("location", "weights.bin"), ("length", "4")], "external_data has 4 bytes, expected 8"),
    ];
    for (entries, expected) in cases {
        let message = model_with(entries).unwrap_err().message;
        assert!(message.contains(expected), "{entries:?}: {message}");
    }
    // Elsewhere, only some users may make links.
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../secret.bin", inner.join("link.bin")).unwrap();
        let message = model_with(&[("location", "link.bin")]).unwrap_err().message;
        assert!(message.contains("outside of the model's folder"), "{message}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn inner_graphs_may_redefine_names() {
    let branch = || TestGraph::default().node("Relu", "x", "y", vec![]).output("y");
    let graph = TestGraph::default()
        .input("x", Float, &["2"])
        .raw("yes", Bool, &[], &[1])
        .node("If", "yes", "y", vec![("then_branch", Attr::Graph(branch())), ("else_branch", Attr::Graph(branch()))])
        .output("y");
    assert!(decode(graph.encode(17)).is_ok());
}

#[test]
fn the_corpus_of_the_fuzz_target_does_no_harm() {
    let archive = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus.tar.gz");
    let folder = std::env::temp_dir().join(format!("webnn-corpus-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // Linux, macOS and Windows come with it.
    let mut unpack = std::process::Command::new("tar");
    unpack.arg("-xzf-").current_dir(&folder).stdin(std::fs::File::open(archive).unwrap());
    assert!(unpack.status().unwrap().success());
    let (mut read, mut refused) = (0, 0);
    for file in std::fs::read_dir(folder.join("onnx")).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        match super::probe::probe(&bytes) {
            Ok(()) => read += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(read >= 10 && refused >= 10, "{read} read, {refused} refused");
    std::fs::remove_dir_all(&folder).unwrap();
}

fn twice(output: &[&str]) -> proto::Function {
    proto::Function {
        name: "Twice".into(),
        domain: "mine".into(),
        input: vec!["a".into()],
        output: output.iter().map(|name| name.to_string()).collect(),
        node: vec![node("Softmax", "a", "b", vec![])],
        ..Default::default()
    }
}

#[test]
fn functions_inherit_the_operator_sets_of_the_model() {
    let text = |opset| {
        let graph = TestGraph::default().input("x", Float, &["2", "3", "4"]).node("mine.Twice", "x", "y", vec![]);
        let model = decode(graph.output("y").encode_with(opset, vec![twice(&["b"])])).unwrap();
        graph_of(&model, &Request::default()).unwrap().to_string()
    };
    assert!(text(13).contains("softmax %0 axis=2"), "{}", text(13));
    assert!(text(12).contains("newShape=[2, 12]"), "{}", text(12));
}

#[test]
fn outputs_that_a_function_does_not_have_are_refused() {
    let graph = TestGraph::default().input("x", Float, &["2", "3"]).node("mine.Twice", "x", "y z", vec![]);
    let model = decode(graph.node("Relu", "z", "w", vec![]).output("w").encode_with(17, vec![twice(&["b"])])).unwrap();
    let error = graph_of(&model, &Request::default()).unwrap_err();
    assert_eq!(error.unsupported[0].reason, "only the first 1 of its 2 outputs can be computed");
}

#[test]
fn outputs_without_a_name_are_no_values() {
    let graph = TestGraph::default().input("x", Float, &["3", "2", "4"]).input("w", Float, &["1", "15", "4"]);
    let graph = graph.input("r", Float, &["1", "15", "5"]).node("GRU", "x w r", "_ h", vec![]).output("h");
    let request = Request { outputs: Some(vec!["".into()]), ..Default::default() };
    let error = graph_of(&decode(graph.encode(17)).unwrap(), &request).unwrap_err();
    assert_eq!(error.message, "the output \"\" is not a value of the model");
}

#[test]
fn tensors_without_elements_are_joined_too() {
    let graph = TestGraph::default().input("a", Float, &["0", "2"]).input("b", Float, &["0", "3"]);
    let graph = graph.node("Concat", "a b", "y", vec![("axis", Attr::Int(1))]).output("y");
    let model = decode(graph.encode(17)).unwrap();
    let imported = import(&model, &mut Builder::new(), &Request::default()).unwrap();
    assert_eq!(imported.outputs[0].descriptor.shape, [0, 5]);
    let graph = TestGraph::default().input("a", Float, &["0", "2147483647"]);
    let message = graph.node("Concat", "a a a", "y", vec![("axis", Attr::Int(1))]).output("y").refusal(17);
    assert!(message.contains("6442450941 elements along an axis"), "{message}");
}

#[test]
fn small_files_cannot_ask_for_large_constants() {
    let long = &["1", "1", "500000000", "1"];
    let graph = TestGraph::default().input("q", Float, long).input("k", Float, &["1", "1", "1", "1"]);
    let message = graph.node("Attention", "q k k", "y", vec![("is_causal", Attr::Int(1))]).output("y").refusal(23);
    assert!(message.contains("a constant of 500000000 elements, more than 8388608"), "{message}");
    let graph = TestGraph::default().ints("n", &[1 << 23]);
    let graph = (0..20).fold(graph, |graph, at| graph.node("HannWindow", "n", &format!("w{at}"), vec![]));
    let names = (0..20).map(|at| format!("w{at}")).collect::<Vec<_>>().join(" ");
    let message = graph.node("Sum", &names, "y", vec![]).output("y").refusal(17);
    assert!(message.contains("needs too much memory"), "{message}");
}

#[test]
fn values_inside_of_a_graph_can_be_larger_than_tensors() {
    let graph = |outputs: &[&str]| {
        let graph = TestGraph::default().input("x", Float, &["1"]).ints("shape", &[600_000_000]);
        let graph = graph.node("Expand", "x shape", "large", vec![]).node("ReduceMax", "large", "y", vec![]);
        decode(outputs.iter().fold(graph, |graph, name| graph.output(name)).encode(17)).unwrap()
    };
    let import = |outputs: &[&str], most: u64| {
        import(&graph(outputs), &mut Builder::with_limit(most), &Request::default())
            .map(drop)
            .map_err(|error| error.message)
    };
    assert_eq!(import(&["y"], MAX_VALUE_BYTES), Ok(()));
    let refused = import(&["y"], MAX_TENSOR_BYTES).unwrap_err();
    assert!(refused.contains("[large] Expand") && refused.contains("2400000000 bytes, above"), "{refused}");
    let refused = import(&["y", "large"], MAX_VALUE_BYTES).unwrap_err();
    assert!(refused.contains("the output \"large\" cannot leave the model") && refused.contains("above"), "{refused}");
}

#[test]
fn tensors_of_a_file_that_are_too_large_are_not_invalid() {
    let code = |dims: &[i64]| {
        let header = proto::TensorHeader { dims: dims.to_vec(), data_type: 1, name: "w".into(), ..Default::default() };
        decode(TestGraph::default().encoded(&header).encode(17)).unwrap_err().code
    };
    assert_eq!(code(&[1 << 31]), Code::UnsupportedOperator);
    assert_eq!(code(&[1 << 16, 1 << 15]), Code::UnsupportedOperator);
    assert_eq!(code(&[-1]), Code::ModelInvalid);
}

#[test]
fn long_texts_of_a_file_are_truncated() {
    let operator = "A".repeat(100_000);
    let graph = TestGraph::default().input("x", Float, &["2"]).node(&operator, "x", "y", vec![]).output("y");
    let error = graph.import(17, &Request::default()).unwrap_err();
    assert_eq!(error.unsupported[0].operator.len(), 259);
    assert!(error.message.len() < 1000);
}

#[test]
fn absurd_numbers_are_refused_before_anything_takes_long() {
    let ones = vec![0; 1 << 20];
    let graph = TestGraph::default().input("x", Float, &["2"]).ints("axes", &ones);
    let message = graph.node("Unsqueeze", "x axes", "y", vec![]).output("y").refusal(17);
    assert!(message.contains("there are 1048576 axes, more than 64"), "{message}");
    let names = vec!["x"; 300].join(" ");
    let equation = vec!["i"; 300].join(",");
    let graph = TestGraph::default().input("x", Float, &["2"]);
    let graph = graph.node("Einsum", &names, "y", vec![("equation", Attr::Text(&equation))]).output("y");
    assert!(graph.refusal(17).contains("the equation has 300 terms, expected at most 256"));
    let attributes = || (0..300).map(|_| ("a", Attr::Int(1))).collect();
    let graph = TestGraph::default().input("x", Float, &["2"]).node("Relu", "x", "y", attributes()).output("y");
    assert_eq!(decode(graph.encode(17)).unwrap_err().message, "[y] Relu: it has 300 attributes, more than 256");
}

#[test]
fn a_file_truncated_after_opening_is_an_error() {
    let file = crate::testing::TemporaryFile::new("shorter.onnx", &add().encode(17));
    let model = Model::open(FileSource::Path(file.0.clone()), Vec::new()).unwrap();
    let is_shorter = crate::testing::shrink(&file, 10);
    let outcome = graph_of(&model, &Request::default());
    assert_eq!(outcome.is_err(), is_shorter);
    if let Err(error) = outcome {
        assert!(error.message.ends_with("bytes when it was opened, and has 10 now"), "{error}");
    }
}

#[test]
fn values_of_constant_nodes_are_weights() {
    let weight = vec![1; 4 * 5000];
    let branch = || {
        let node = vec![("value_floats", Attr::Floats(&[1.0, 2.0, 3.0]))];
        TestGraph::default().node("Constant", "", "y", node).output("y")
    };
    let graph = TestGraph::default()
        .ints("two", &[1, 2])
        .raw("yes", Bool, &[], &[1])
        .node("Constant", "", "w", vec![("value", Attr::Tensor(Float, &[5000], &weight))])
        .node("Constant", "", "one", vec![("value_int", Attr::Int(1))])
        .node("If", "yes", "y", vec![("then_branch", Attr::Graph(branch())), ("else_branch", Attr::Graph(branch()))])
        .input("x", Float, &["5000"])
        .node("Add", "w x", "z", vec![])
        .output("y")
        .output("z");
    let (files, bytes) = Files::of_bytes(graph.encode(17));
    let model = Model::decode(bytes, files).unwrap();
    let inspection = super::describe::inspect(&model, Default::default()).unwrap();
    assert_eq!(inspection.parameters, 2 + 1 + 5000 + 1 + 2 * 3);
    assert_eq!(inspection.parameter_bytes, 2 * 8 + 1 + 5000 * 4 + 8 + 2 * 3 * 4);
    // Large weights are windows over the file.
    let graph = graph_of(&model, &Request::default()).unwrap();
    let weight = graph.values.iter().filter_map(|value| value.constant()).find(|constant| constant.len() == 20_000);
    assert!(matches!(weight, Some(crate::ir::Constant::Mapped(_))));
}

#[test]
fn models_that_no_sizes_make_possible_are_refused_early() {
    let graph = || TestGraph::default().input("x", Float, &["n", "4"]);
    let checked = |graph: TestGraph| {
        check(&decode(graph.encode(17)).unwrap(), &mut Builder::new(), &Request::default()).map(drop)
    };
    let computed = graph().node("NonZero", "x", "y", vec![]).output("y");
    let error = checked(computed).unwrap_err();
    assert_eq!(error.unsupported.len(), 1, "{error}");
    assert_eq!(error.unsupported[0].operator, "NonZero");
    // Possible only for sizes of 12.
    let fitting = graph().ints("shape", &[3, 16]).node("Reshape", "x shape", "y", vec![]).output("y");
    assert_eq!(checked(fitting), Ok(()));
    // Only large sizes make this possible, in the branch that is taken.
    let branch = |operator: &str| {
        let kernel = vec![("kernel_shape", Attr::Ints(&[100, 100]))];
        Attr::Graph(TestGraph::default().node(operator, "image", "z", kernel).output("z"))
    };
    let long = |operator: &str| {
        let graph = TestGraph::default().input("image", Float, &["1", "1", "h", "w"]).raw("yes", Bool, &[], &[1]);
        let branches = vec![("then_branch", branch(operator)), ("else_branch", branch(operator))];
        graph.node("If", "yes", "y", branches).output("y")
    };
    assert_eq!(checked(long("MaxPool")), Ok(()));
    let error = checked(long("NoSuchPool")).unwrap_err();
    assert_eq!(error.unsupported.iter().map(|node| &*node.operator).collect::<Vec<_>>(), ["NoSuchPool", "If"]);
    // What these branches read is refused outside of them; shapes of 3 x 16 make it possible.
    let reading = |operator: &str| {
        let branches = |name: &str, make: &dyn Fn() -> TestGraph| {
            ["then_branch", "else_branch"].map(|branch| (branch, Attr::Graph(make().output(name)))).into()
        };
        let inner = || TestGraph::default().node("Relu", "r", "a", vec![]);
        let outer = || TestGraph::default().node("If", "yes", "b", branches("a", &inner));
        let graph = graph().ints("shape", &[3, 16]).raw("yes", Bool, &[], &[1]).node(operator, "x shape", "r", vec![]);
        graph.node("If", "yes", "y", branches("b", &outer)).output("y")
    };
    assert_eq!(checked(reading("Reshape")), Ok(()));
    let request = Request { free_dimensions: [("n".to_string(), 12)].into(), ..Default::default() };
    reading("Reshape").import(17, &request).unwrap();
    for error in [checked(reading("NoSuch")).unwrap_err(), reading("NoSuch").import(17, &request).unwrap_err()] {
        assert_eq!(error.unsupported.iter().map(|node| &*node.operator).collect::<Vec<_>>(), ["NoSuch"], "{error}");
    }
    let request = Request { outputs: Some(vec!["nothing".into()]), ..Default::default() };
    let model = decode(graph().node("Relu", "x", "y", vec![]).output("y").encode(17)).unwrap();
    assert_eq!(
        check(&model, &mut Builder::new(), &request).unwrap_err().message,
        "the output \"nothing\" is not a value of the model"
    );
}

#[test]
fn placeholders_of_sizes_are_different_names() {
    let graph = TestGraph::default().input("x", Float, &["?", "3", "?", "n", "None"]).node("Relu", "x", "y", vec![]);
    let model = decode(graph.shaped_output("y", &["-1", "?", "n"]).encode(17)).unwrap();
    let names = |value: &super::model::ValueInfo, declared: bool| {
        let shape = if declared { &value.declared_shape } else { &value.shape };
        let shown = shape.iter().flatten().map(|dimension| match dimension {
            Dimension::Fixed(size) => size.to_string(),
            Dimension::Free(name) => name.clone(),
        });
        shown.collect::<Vec<_>>()
    };
    let (input, output) = (&model.graph().inputs[0], &model.graph().outputs[0]);
    assert_eq!(names(input, false), ["x_dim_0", "3", "x_dim_2", "n", "x_dim_4"]);
    assert_eq!(names(input, true), ["?", "3", "?", "n", "None"]);
    assert_eq!(names(output, false), ["y_dim_0", "y_dim_1", "n"]);
}

/// A sparse tensor of floats; the shape of its indices is `of_indices`.
fn sparse(dims: &[i64], values: &[f32], indices: &[i64], of_indices: &[i64]) -> TestGraph {
    TestGraph::default()
        .input("x", Float, &["1"])
        .sparse("w", dims, values, (indices, of_indices))
        .node("Add", "x w", "y", vec![])
        .output("y")
}

fn constant_of(graph: crate::ir::Graph) -> Vec<f32> {
    let constants = graph.nodes.iter().flat_map(|node| node.inputs.iter().flatten());
    let found = constants.filter_map(|id| graph.value(*id).constant()).next().expect("a constant");
    crate::memory::elements::<f32>(found.buffer().unwrap().bytes()).to_vec()
}

#[test]
fn sparse_initializers_are_dense_constants() {
    let request = Request::default();
    let flat = sparse(&[2, 3], &[5.0, 7.0], &[4, 1], &[2]).import(17, &request).unwrap();
    assert_eq!(constant_of(flat), [0.0, 7.0, 0.0, 0.0, 5.0, 0.0]);
    let pairs = sparse(&[2, 3], &[5.0, 7.0], &[1, 1, 0, 2], &[2, 2]).import(17, &request).unwrap();
    assert_eq!(constant_of(pairs), [0.0, 0.0, 7.0, 0.0, 5.0, 0.0]);
    let none = sparse(&[3], &[], &[], &[0]).import(17, &request).unwrap();
    assert_eq!(constant_of(none), [0.0; 3]);
    let empty = sparse(&[0, 2], &[], &[], &[0, 2]);
    assert!(empty.import(17, &request).is_ok());
}

#[test]
fn wrong_and_huge_sparse_tensors_are_refused() {
    let refusal = |dims: &[i64], values: &[f32], indices: &[i64], of_indices: &[i64]| {
        sparse(dims, values, indices, of_indices).refusal(17)
    };
    assert!(refusal(&[2, 3], &[5.0], &[6], &[1]).contains("the index [6] is outside of the shape [2, 3]"));
    assert!(refusal(&[2, 3], &[5.0], &[-1], &[1]).contains("the index [-1] is outside"));
    assert!(refusal(&[2, 3], &[5.0], &[0, 3], &[1, 2]).contains("the index [0, 3] is outside"));
    assert!(
        refusal(&[2, 3], &[5.0], &[1, 2], &[2]).contains("its indices are int64 [2], expected int64 [1] or [1, 2]")
    );
    // A small file must not need much memory, and 8 GB must not even be tried.
    let message = refusal(&[1 << 15, 1 << 15], &[5.0], &[0], &[1]);
    assert!(message.contains("\"w\": 4294967296 bytes are too many for a model of this size"), "{message}");
    assert!(refusal(&[1 << 40], &[5.0], &[0], &[1]).contains("has a dimension that is not between"));
}
