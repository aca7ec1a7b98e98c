//! Models of all kinds whose sizes share templates.

use super::SessionOptions;
use super::tests::{Sized, data, run, session};
use crate::onnx::tensor::ElementType::{Float, Int32, Int64, Uint8};
use crate::onnx::testing::{Attr, TestGraph};

/// Checks that all sizes after the first few reuse the templates of these, and that results are correct.
fn check(allowed: usize, sized: Sized) {
    let templates = sized.templates();
    assert!(*templates.last().expect("sizes") <= allowed, "{templates:?} templates after {:?}", sized.sizes);
}

/// Numbers that resemble weights.
fn weights(count: usize, seed: u32) -> Vec<f32> {
    (0..count as u32).map(|i| ((i * 37 + seed * 11) % 23) as f32 / 23.0 - 0.45).collect()
}

fn weight(graph: TestGraph, name: &str, dims: &[i64]) -> TestGraph {
    let count = dims.iter().product::<i64>() as usize;
    graph.floats(name, dims, &weights(count, name.len() as u32))
}

const PICTURES: &[&[(&str, u32)]] = &[
    &[("n", 2), ("h", 16), ("w", 20)],
    &[("n", 2), ("h", 17), ("w", 13)],
    &[("n", 3), ("h", 7), ("w", 31)],
    &[("n", 3), ("h", 12), ("w", 8)],
    &[("n", 5), ("h", 23), ("w", 14)],
    &[("n", 1), ("h", 40), ("w", 9)],
    &[("n", 1), ("h", 5), ("w", 5)],
];

#[test]
fn convolutions_and_pools_of_any_size() {
    fn graph() -> TestGraph {
        let same = |mode| vec![("auto_pad", Attr::Text(mode)), ("strides", Attr::Ints(&[2, 2]))];
        let pool = |more: Vec<(&'static str, Attr<'static>)>| {
            let pads = Attr::Ints(&[1, 0, 0, 1]);
            let all = [("kernel_shape", Attr::Ints(&[3, 3])), ("strides", Attr::Ints(&[2, 2])), ("pads", pads)];
            all.into_iter().chain(more).collect::<Vec<_>>()
        };
        let graph = TestGraph::default().input("x", Float, &["n", "2", "h", "w"]);
        let graph = weight(graph, "filter", &[3, 2, 3, 3]);
        graph
            .node("Conv", "x filter", "a", same("SAME_UPPER"))
            .node("Conv", "x filter", "b", same("SAME_LOWER"))
            .node("Conv", "x filter", "c", vec![("auto_pad", Attr::Text("VALID"))])
            .node("Conv", "x filter", "s", vec![("auto_pad", Attr::Text("SAME_UPPER"))])
            .node(
                "MaxPool",
                "x",
                "d",
                [same("SAME_UPPER"), vec![("kernel_shape", Attr::Ints(&[3, 2]))]].into_iter().flatten().collect(),
            )
            .node("MaxPool", "x", "e", pool(vec![("ceil_mode", Attr::Int(1))]))
            .node("AveragePool", "x", "f", pool(vec![("ceil_mode", Attr::Int(1)), ("count_include_pad", Attr::Int(1))]))
            .node("AveragePool", "x", "g", pool(vec![("count_include_pad", Attr::Int(1))]))
            .node("LpPool", "x", "i", pool(vec![("p", Attr::Int(3))]))
            .node("GlobalMaxPool", "x", "j", vec![])
            .node("GlobalLpPool", "x", "k", vec![("p", Attr::Int(3))])
            .output("a")
            .output("b")
            .output("c")
            .output("d")
            .output("e")
            .output("f")
            .output("g")
            .output("i")
            .output("j")
            .output("k")
            .output("s")
    }
    check(2, Sized { graph, inputs: &[&["n", "2", "h", "w"]], sizes: PICTURES });
}

#[test]
fn convolutions_of_one_and_three_dimensions_and_back() {
    fn graph() -> TestGraph {
        let graph =
            TestGraph::default().input("x", Float, &["n", "2", "h"]).input("v", Float, &["n", "2", "h", "w", "w"]);
        let graph = weight(graph, "short", &[2, 4, 3]);
        let graph = weight(graph, "plane", &[2, 3, 3, 3]);
        let graph = weight(graph, "solid", &[2, 2, 2, 2, 2]);
        let strided = |mode: Option<&'static str>, strides: &'static [i64]| {
            let mode = mode.map(|mode| ("auto_pad", Attr::Text(mode)));
            mode.into_iter().chain([("strides", Attr::Ints(strides))]).collect::<Vec<_>>()
        };
        let padded =
            vec![("pads", Attr::Ints(&[1, 1])), ("output_padding", Attr::Ints(&[1])), ("strides", Attr::Ints(&[2]))];
        graph
            .node("ConvTranspose", "x short", "a", strided(Some("SAME_UPPER"), &[2]))
            .node("ConvTranspose", "x short", "b", padded)
            .node("Conv", "a filter", "c", strided(Some("SAME_LOWER"), &[3]))
            .floats("filter", &[1, 4, 5], &weights(20, 3))
            .node("Conv", "v solid", "d", strided(Some("SAME_UPPER"), &[2, 2, 2]))
            .node("ConvTranspose", "v solid", "e", strided(None, &[2, 2, 2]))
            .node(
                "AveragePool",
                "v",
                "f",
                vec![
                    ("kernel_shape", Attr::Ints(&[2, 2, 2])),
                    ("ceil_mode", Attr::Int(1)),
                    ("strides", Attr::Ints(&[2, 2, 2])),
                ],
            )
            .output("a")
            .output("b")
            .output("c")
            .output("d")
            .output("e")
            .output("f")
    }
    // Batches of one, and odd sizes at which a window covers everything.
    check(4, Sized { graph, inputs: &[&["n", "2", "h"], &["n", "2", "h", "w", "w"]], sizes: PICTURES });
}

const TEXTS: &[&[(&str, u32)]] = &[
    &[("n", 2), ("t", 5)],
    &[("n", 2), ("t", 9)],
    &[("n", 3), ("t", 10)],
    &[("n", 7), ("t", 11)],
    &[("n", 5), ("t", 37)],
    &[("n", 1), ("t", 12)],
    &[("n", 1), ("t", 1)],
    &[("n", 4), ("t", 1)],
];

#[test]
fn masks_ranges_and_positions_of_any_length() {
    fn graph() -> TestGraph {
        TestGraph::default()
            .input("x", Float, &["n", "t", "6"])
            .ints("zero", &[0])
            .ints("one", &[1])
            .ints("two", &[2])
            .raw("first", Int64, &[], &0i64.to_le_bytes())
            .raw("step", Int64, &[], &1i64.to_le_bytes())
            .raw("place", Int64, &[], &1i64.to_le_bytes())
            .floats("table", &[40, 6], &weights(240, 4))
            .floats("hot", &[2], &[0.0, 1.0])
            .floats("half", &[], &[0.5])
            .floats("start", &[], &[0.0])
            .floats("single", &[], &[1.0])
            .node("Shape", "x", "shape", vec![])
            .node("Gather", "shape place", "length", vec![])
            .node("Range", "first length step", "positions", vec![])
            .node("Gather", "table positions", "rows", vec![])
            .node("Add", "x rows", "placed", vec![])
            .node("Unsqueeze", "positions zero", "wide", vec![])
            .node("Unsqueeze", "positions one", "high", vec![])
            .node("LessOrEqual", "wide high", "seen", vec![])
            .node("Cast", "seen", "mask", vec![("to", Attr::Int(1))])
            .node("MatMul", "mask placed", "summed", vec![])
            .node("OneHot", "positions length hot", "diagonal", vec![])
            .node("EyeLike", "mask", "eye", vec![("k", Attr::Int(-1))])
            .node("Trilu", "mask", "upper", vec![("upper", Attr::Int(1))])
            .node("Cast", "length", "float_length", vec![("to", Attr::Int(1))])
            .node("Range", "start float_length single", "float_positions", vec![])
            .node("Div", "float_positions float_length", "parts", vec![])
            .node("Cast", "length", "short", vec![("to", Attr::Int(6))])
            .node("Cast", "short", "long", vec![("to", Attr::Int(7))])
            .node("Sub", "long step", "last", vec![])
            .node("Gather", "table last", "row", vec![])
            .node("Cast", "positions", "counted", vec![("to", Attr::Int(1))])
            .output("summed")
            .output("diagonal")
            .output("eye")
            .output("upper")
            .output("parts")
            .output("row")
            .output("counted")
    }
    check(4, Sized { graph, inputs: &[&["n", "t", "6"]], sizes: TEXTS });
}

#[test]
fn attention_of_encoders_of_any_length() {
    fn graph() -> TestGraph {
        let heads = || vec![("num_heads", Attr::Int(2))];
        let graph = TestGraph::default().input("x", Float, &["n", "t", "8"]).input("m", Float, &["n", "t"]);
        let graph = weight(graph, "projection", &[8, 24]);
        let graph = weight(graph, "cosines", &[40, 2]);
        graph
            .floats("gain", &[8], &weights(8, 2))
            .floats("shift", &[24], &weights(24, 1))
            .node("Cast", "m", "bits", vec![("to", Attr::Int(9))])
            .node("Cast", "bits", "mask", vec![("to", Attr::Int(6))])
            .node("com.microsoft.Attention", "x projection shift mask", "a", heads())
            .node(
                "com.microsoft.Attention",
                "x projection shift",
                "b",
                [heads(), vec![("unidirectional", Attr::Int(1))]].into_iter().flatten().collect(),
            )
            .node("com.microsoft.MultiHeadAttention", "a b x _ mask", "c", heads())
            .node("com.microsoft.SkipLayerNormalization", "c x gain gain", "d", vec![])
            .ints("starts", &[0])
            .node(
                "com.microsoft.RotaryEmbedding",
                "d starts cosines cosines",
                "e",
                [heads(), vec![("rotary_embedding_dim", Attr::Int(4))]].into_iter().flatten().collect(),
            )
            .output("c")
            .output("e")
    }
    check(4, Sized { graph, inputs: &[&["n", "t", "8"], &["n", "t"]], sizes: TEXTS });
}

#[test]
fn decoders_with_a_growing_past() {
    fn graph() -> TestGraph {
        let graph = TestGraph::default()
            .input("x", Float, &["n", "s", "8"])
            .input("past_k", Float, &["n", "2", "past", "4"])
            .input("past_v", Float, &["n", "2", "past", "4"])
            .input("mask", Float, &["n", "total"]);
        let graph = weight(graph, "cosines", &[64, 2]);
        let grouped = vec![("num_heads", Attr::Int(2)), ("kv_num_heads", Attr::Int(2)), ("do_rotary", Attr::Int(1))];
        let causal = vec![("q_num_heads", Attr::Int(2)), ("kv_num_heads", Attr::Int(2)), ("is_causal", Attr::Int(1))];
        graph
            .raw("place", Int64, &[], &1i64.to_le_bytes())
            .raw("less", Int32, &[], &1i32.to_le_bytes())
            .node("Shape", "mask", "shape", vec![])
            .node("Gather", "shape place", "length", vec![])
            .node("Cast", "length", "total_length", vec![("to", Attr::Int(6))])
            .node("Mul", "mask nothing", "zeros", vec![])
            .floats("nothing", &[], &[0.0])
            .node("Exp", "zeros", "ones", vec![])
            .ints("axis", &[1])
            .node("ReduceSum", "ones axis", "sums", vec![("keepdims", Attr::Int(0))])
            .node("Cast", "sums", "counts", vec![("to", Attr::Int(6))])
            .node("Sub", "counts less", "lasts", vec![])
            .node(
                "com.microsoft.GroupQueryAttention",
                "x x x past_k past_v lasts total_length cosines cosines",
                "y k v",
                grouped,
            )
            .node("Attention", "x x x _ past_k past_v", "z k2 v2", causal)
            .output("y")
            .output("k")
            .output("z")
            .output("v2")
    }
    const STEPS: &[&[(&str, u32)]] = &[
        &[("n", 1), ("s", 1), ("past", 5), ("total", 6)],
        &[("n", 1), ("s", 1), ("past", 6), ("total", 7)],
        &[("n", 1), ("s", 1), ("past", 7), ("total", 8)],
        &[("n", 1), ("s", 1), ("past", 40), ("total", 41)],
        &[("n", 1), ("s", 7), ("past", 0), ("total", 7)],
        &[("n", 1), ("s", 13), ("past", 0), ("total", 13)],
        &[("n", 1), ("s", 5), ("past", 9), ("total", 14)],
        &[("n", 1), ("s", 6), ("past", 11), ("total", 17)],
    ];
    let inputs: &[&[&str]] = &[&["n", "s", "8"], &["n", "2", "past", "4"], &["n", "2", "past", "4"], &["n", "total"]];
    check(3, Sized { graph, inputs, sizes: STEPS });
}

#[test]
fn recurrent_networks_over_any_number_of_frames() {
    fn graph() -> TestGraph {
        let graph = TestGraph::default().input("x", Float, &["t", "n", "3"]);
        let graph = weight(graph, "w", &[2, 16, 3]);
        let graph = weight(graph, "r", &[2, 16, 4]);
        let graph = weight(graph, "gw", &[1, 12, 3]);
        let graph = weight(graph, "gr", &[1, 12, 4]);
        let graph = weight(graph, "gb", &[1, 24]);
        graph
            .node(
                "LSTM",
                "x w r",
                "a h c",
                vec![("hidden_size", Attr::Int(4)), ("direction", Attr::Text("bidirectional"))],
            )
            .node(
                "GRU",
                "x gw gr gb",
                "g last",
                vec![("hidden_size", Attr::Int(4)), ("linear_before_reset", Attr::Int(1))],
            )
            .output("a")
            .output("c")
            .output("g")
            .output("last")
    }
    // Batches and sequences of one.
    check(4, Sized { graph, inputs: &[&["t", "n", "3"]], sizes: TEXTS });
}

#[test]
fn linear_attention_over_prompts_of_any_length() {
    fn graph() -> TestGraph {
        let graph = TestGraph::default().input("x", Float, &["t", "n", "6"]).input("rate", Float, &["t", "n", "2"]);
        let heads = |count| [("q_num_heads", count), ("kv_num_heads", 2)].map(|(name, count)| (name, Attr::Int(count)));
        graph
            .node("Transpose", "x", "k", vec![("perm", Attr::Ints(&[1, 0, 2]))])
            .node("Transpose", "rate", "b", vec![("perm", Attr::Ints(&[1, 0, 2]))])
            .node("com.microsoft.LinearAttention", "k k k _ b b", "a s", heads(2).into())
            .output("a")
            .output("s")
    }
    let sizes: &[&[(&str, u32)]] = &[
        &[("n", 2), ("t", 1)],
        &[("n", 2), ("t", 3)],
        &[("n", 3), ("t", 11)],
        &[("n", 2), ("t", 40)],
        &[("n", 3), ("t", 33)],
    ];
    check(2, Sized { graph, inputs: &[&["t", "n", "6"], &["t", "n", "2"]], sizes });
}

#[test]
fn experts_for_any_number_of_tokens() {
    fn graph() -> TestGraph {
        let graph = TestGraph::default().input("x", Float, &["t", "16"]).input("r", Float, &["t", "4"]);
        let graph = weight(graph, "first", &[4, 24, 16]);
        let graph = weight(graph, "last", &[4, 16, 24]);
        let attributes = vec![("k", Attr::Int(2)), ("activation_type", Attr::Text("silu"))];
        graph.node("com.microsoft.MoE", "x r first _ last", "y", attributes).output("y")
    }
    let sizes: &[&[(&str, u32)]] = &[&[("t", 1)], &[("t", 2)], &[("t", 9)], &[("t", 40)], &[("t", 3)], &[("t", 17)]];
    // One token, and several.
    check(3, Sized { graph, inputs: &[&["t", "16"], &["t", "4"]], sizes });
}

#[test]
fn operators_that_pad_repeat_and_pick_by_sizes() {
    fn graph() -> TestGraph {
        TestGraph::default()
            .input("x", Float, &["n", "t", "6"])
            .ints("zeros", &[0, 0])
            .ints("zero", &[0])
            .ints("one", &[1])
            .ints("two", &[2])
            .ints("pads", &[0, 1, 0, 0, 2, 3])
            .ints("crop", &[8, 4])
            .raw("most", Int64, &[1], &100i64.to_le_bytes())
            .node("Shape", "x", "shape", vec![])
            .node("Slice", "shape one two", "length", vec![])
            .node("Sub", "most length", "missing", vec![])
            .node("Concat", "zeros zero zero missing zero", "fill", vec![("axis", Attr::Int(0))])
            .node("Pad", "x fill", "filled", vec![])
            .node("Pad", "x pads", "edges", vec![("mode", Attr::Text("edge"))])
            .node("CenterCropPad", "x crop", "center", vec![("axes", Attr::Ints(&[1, 2]))])
            .node("Concat", "one length one", "repeats", vec![("axis", Attr::Int(0))])
            .ints("first", &[0])
            .ints("second", &[1])
            .node("Slice", "x first second second", "start", vec![])
            .node("Tile", "start repeats", "tiled", vec![])
            .node("ArgMax", "x", "best", vec![("axis", Attr::Int(1)), ("select_last_index", Attr::Int(1))])
            .node("Cast", "best", "places", vec![("to", Attr::Int(1))])
            .node("Hardmax", "x", "hard", vec![("axis", Attr::Int(1))])
            .node("TopK", "x length", "sorted order", vec![("axis", Attr::Int(1))])
            .node("GatherElements", "x order", "gathered", vec![("axis", Attr::Int(1))])
            .node("ScatterElements", "x order gathered", "scattered", vec![("axis", Attr::Int(1))])
            .output("filled")
            .output("edges")
            .output("center")
            .output("tiled")
            .output("places")
            .output("hard")
            .output("scattered")
    }
    const LENGTHS: &[&[(&str, u32)]] = &[
        &[("n", 2), ("t", 34)],
        &[("n", 3), ("t", 37)],
        &[("n", 5), ("t", 41)],
        &[("n", 7), ("t", 55)],
        &[("n", 4), ("t", 62)],
        &[("n", 4), ("t", 63)],
    ];
    check(1, Sized { graph, inputs: &[&["n", "t", "6"]], sizes: LENGTHS });
}

#[test]
fn classical_models_of_any_number_of_rows() {
    fn graph() -> TestGraph {
        let trees = |votes: [&'static str; 4]| {
            vec![
                ("nodes_treeids", Attr::Ints(&[0, 0, 0, 0, 0, 1])),
                ("nodes_nodeids", Attr::Ints(&[0, 1, 2, 3, 4, 0])),
                ("nodes_featureids", Attr::Ints(&[0, 2, 0, 0, 0, 0])),
                ("nodes_values", Attr::Floats(&[0.1, -0.2, 0.0, 0.0, 0.0, 0.0])),
                ("nodes_modes", Attr::Texts(&["BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF", "LEAF"])),
                ("nodes_truenodeids", Attr::Ints(&[1, 2, 0, 0, 0, 0])),
                ("nodes_falsenodeids", Attr::Ints(&[4, 3, 0, 0, 0, 0])),
                (votes[0], Attr::Ints(&[0, 0, 0, 1])),
                (votes[1], Attr::Ints(&[2, 3, 4, 0])),
                (votes[2], Attr::Ints(&[0, 0, 0, 0])),
                (votes[3], Attr::Floats(&[0.125, 0.25, 0.5, -0.25])),
            ]
        };
        let mut regressor = trees(["target_treeids", "target_nodeids", "target_ids", "target_weights"]);
        regressor.push(("n_targets", Attr::Int(1)));
        let mut classifier = trees(["class_treeids", "class_nodeids", "class_ids", "class_weights"]);
        classifier.push(("classlabels_int64s", Attr::Ints(&[5, 7])));
        classifier.push(("post_transform", Attr::Text("LOGISTIC")));
        let machine = vec![
            ("coefficients", Attr::Floats(&[0.5, -1.0, 2.0, 1.0, 0.5, 0.25])),
            ("support_vectors", Attr::Floats(&[0.5, 0.25, 0.0, -0.5, 0.5, 0.5, 0.0, 0.25, 0.25])),
            ("vectors_per_class", Attr::Ints(&[1, 1, 1])),
            ("rho", Attr::Floats(&[0.25, 0.5, -0.5])),
            ("kernel_type", Attr::Text("RBF")),
            ("kernel_params", Attr::Floats(&[0.5, 0.0, 0.0])),
            ("classlabels_ints", Attr::Ints(&[5, 7, 9])),
            ("prob_a", Attr::Floats(&[-1.5, -1.0, -2.0])),
            ("prob_b", Attr::Floats(&[0.25, 0.0, -0.125])),
        ];
        TestGraph::default()
            .input("x", Float, &["n", "3"])
            .node("ai.onnx.ml.Normalizer", "x", "rows", vec![("norm", Attr::Text("L2"))])
            .node("ai.onnx.ml.TreeEnsembleRegressor", "rows", "sums", regressor)
            .node("ai.onnx.ml.TreeEnsembleClassifier", "x", "labels scores", classifier)
            .node("ai.onnx.ml.SVMClassifier", "x", "classes probabilities", machine)
            .node("Cast", "labels", "numbers", vec![("to", Attr::Int(1))])
            .output("sums")
            .output("scores")
            .output("numbers")
            .output("probabilities")
    }
    let sizes: &[&[(&str, u32)]] =
        &[&[("n", 2)], &[("n", 40)], &[("n", 3)], &[("n", 7)], &[("n", 9)], &[("n", 130)], &[("n", 8)]];
    check(2, Sized { graph, inputs: &[&["n", "3"]], sizes });
}

#[test]
fn quantized_products_of_any_size() {
    fn graph() -> TestGraph {
        let bytes: Vec<u8> = (0..48).map(|i| (i * 37 % 200) as u8).collect();
        let graph = TestGraph::default().input("x", Float, &["n", "t", "6"]);
        graph
            .floats("scale", &[], &[0.02])
            .floats("scales", &[6], &weights(6, 2).iter().map(|x| x.abs() + 0.01).collect::<Vec<_>>())
            .raw("zero", Uint8, &[], &[128])
            .raw("matrix", Uint8, &[6, 8], &bytes)
            .raw("filter", Uint8, &[2, 6, 3], &bytes[..36])
            .node("QuantizeLinear", "x scale zero", "q", vec![])
            .node("DequantizeLinear", "q scale zero", "d", vec![])
            .node("QuantizeLinear", "x scales", "per", vec![("axis", Attr::Int(2))])
            .node("DequantizeLinear", "per scales", "each", vec![("axis", Attr::Int(2))])
            .node("DynamicQuantizeLinear", "x", "y y_scale y_zero", vec![])
            .node("MatMulInteger", "y matrix y_zero zero", "product", vec![])
            .node("Cast", "product", "sums", vec![("to", Attr::Int(1))])
            .node("MatMulInteger", "y matrix y_zero zero", "again", vec![])
            .node("Cast", "again", "floats", vec![("to", Attr::Int(1))])
            .node("Mul", "floats y_scale", "scaled", vec![])
            .floats("bias", &[8], &weights(8, 3))
            .node("Add", "scaled bias", "biased", vec![])
            .node("Transpose", "y", "turned", vec![("perm", Attr::Ints(&[0, 2, 1]))])
            .node("ConvInteger", "turned filter y_zero zero", "convolved", vec![("pads", Attr::Ints(&[1, 1]))])
            .node("Cast", "convolved", "slid", vec![("to", Attr::Int(1))])
            .output("d")
            .output("each")
            .output("sums")
            .output("biased")
            .output("slid")
    }
    // Batches and texts of one.
    check(4, Sized { graph, inputs: &[&["n", "t", "6"]], sizes: TEXTS });
}

#[test]
fn pictures_are_resized_from_any_size() {
    fn graph() -> TestGraph {
        let mode = |mode| ("mode", Attr::Text(mode));
        let asymmetric = ("coordinate_transformation_mode", Attr::Text("asymmetric"));
        TestGraph::default()
            .input("x", Float, &["n", "2", "h", "w"])
            .floats("scales", &[4], &[1.0, 1.0, 2.0, 3.0])
            .ints("two", &[2])
            .ints("outer", &[0])
            .ints("five", &[5])
            .ints("channels", &[1, 1])
            .ints("spatial", &[2])
            .ints("end", &[4])
            .node(
                "Resize",
                "x _ scales",
                "nearest",
                vec![mode("nearest"), asymmetric, ("nearest_mode", Attr::Text("floor"))],
            )
            .node("Resize", "x _ scales", "half", vec![mode("nearest")])
            .node("Resize", "x _ scales", "linear", vec![mode("linear")])
            .node("Shape", "x", "shape", vec![])
            .node("Slice", "shape outer two", "first", vec![])
            .node("Slice", "shape spatial end", "sides", vec![])
            .node("Add", "sides five", "larger", vec![])
            .node("Concat", "first larger", "sizes", vec![("axis", Attr::Int(0))])
            .node(
                "Resize",
                "x _ _ sizes",
                "grown",
                vec![mode("linear"), ("coordinate_transformation_mode", Attr::Text("pytorch_half_pixel"))],
            )
            .node("Cast", "sides", "floats", vec![("to", Attr::Int(1))])
            .floats("double", &[], &[2.0])
            .node("Mul", "floats double", "doubled", vec![])
            .node("Floor", "doubled", "whole", vec![])
            .node("Cast", "whole", "ints", vec![("to", Attr::Int(7))])
            .node("Concat", "first ints", "twice", vec![("axis", Attr::Int(0))])
            .node("Resize", "x _ _ twice", "wide", vec![mode("nearest")])
            .output("nearest")
            .output("half")
            .output("linear")
            .output("grown")
            .output("wide")
    }
    check(2, Sized { graph, inputs: &[&["n", "2", "h", "w"]], sizes: PICTURES });
}

#[test]
fn batches_of_pictures_are_resized_to_fixed_sizes() {
    fn graph() -> TestGraph {
        let graph =
            TestGraph::default().input("x", Float, &["n", "2", "5", "7"]).floats("scales", &[4], &[1.0, 1.0, 0.7, 1.6]);
        graph.node("Resize", "x _ scales", "y", vec![("mode", Attr::Text("cubic"))]).output("y")
    }
    const BATCHES: &[&[(&str, u32)]] = &[&[("n", 2)], &[("n", 3)], &[("n", 9)], &[("n", 1)], &[("n", 40)]];
    check(2, Sized { graph, inputs: &[&["n", "2", "5", "7"]], sizes: BATCHES });
}

#[test]
fn last_tokens_norms_and_packed_products_of_any_length() {
    fn graph() -> TestGraph {
        let packed: Vec<u8> = (0..8 * 8).map(|i| (i * 53 % 256) as u8).collect();
        let blocks =
            vec![("N", Attr::Int(8)), ("K", Attr::Int(16)), ("bits", Attr::Int(4)), ("block_size", Attr::Int(16))];
        let graph = TestGraph::default().input("x", Float, &["n", "t", "16"]);
        let graph = weight(graph, "gain", &[16]);
        graph
            .raw("last", Int64, &[], &(-1i64).to_le_bytes())
            .raw("packed", Uint8, &[8, 1, 8], &packed)
            .floats("scales", &[8], &weights(8, 3))
            .node("Gather", "x last", "token", vec![("axis", Attr::Int(1))])
            .node("com.microsoft.MatMulNBits", "x packed scales", "product", blocks)
            .node("Einsum", "x x", "scores", vec![("equation", Attr::Text("ntc,nsc->nts"))])
            .node("Transpose", "x", "turned", vec![("perm", Attr::Ints(&[0, 2, 1]))])
            .node("InstanceNormalization", "turned gain gain", "instances", vec![])
            .node("LRN", "turned", "local", vec![("size", Attr::Int(3))])
            .output("token")
            .output("product")
            .output("scores")
            .output("instances")
            .output("local")
    }
    check(4, Sized { graph, inputs: &[&["n", "t", "16"]], sizes: TEXTS });
}

/// A layer with weights that are large enough for sharing, positions that depend on the length, and a residual.
#[cfg(target_os = "linux")]
fn layer() -> TestGraph {
    let graph = TestGraph::default().input("x", Float, &["n", "t", "64"]);
    let graph = weight(graph, "w", &[64, 64]);
    let graph = weight(graph, "places", &[512, 64]);
    graph
        .ints("zero", &[0])
        .ints("one", &[1])
        .ints("two", &[2])
        .ints("flat", &[0, -1])
        .node("Shape", "x", "shape", vec![])
        .node("Slice", "shape one two", "length", vec![])
        .node("Slice", "places zero length zero", "here", vec![])
        .node("Add", "x here", "placed", vec![])
        .node("MatMul", "placed w", "product", vec![])
        .node("Add", "product x", "sum", vec![])
        .node("Reshape", "sum flat", "y", vec![])
        .output("y")
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_grows_over_a_hundred_thousand_sets_of_sizes() {
    use super::Shapes;
    use super::tests::{finished, session};
    use crate::cpu::weights::origins;
    use crate::runtime::Site;
    use crate::testing::{alone, process_bytes};
    use std::ops::RangeInclusive;

    alone("session::size_tests::nothing_grows_over_a_hundred_thousand_sets_of_sizes", || {
        let session = session(layer(), SessionOptions::default());
        let specialize = |batches: RangeInclusive<u32>| {
            let of = session.clone();
            let work = move |site: &Site| {
                for shape in batches.flat_map(|n| (1..=400).map(move |t| vec![n, t, 64])) {
                    drop(of.specialize(site, &Shapes::from_iter([shape]), true)?);
                }
                Ok(None)
            };
            finished(|done| session.context.enqueue(work, done)).unwrap();
            let kept = session.kept.lock().len();
            ([session.templates.count(), kept, session.bytes(), origins()], process_bytes("VmRSS"))
        };
        // The largest size first, for the maximum arena; then those that lead to other decisions than most.
        specialize(250..=250);
        let (before, resident) = specialize(1..=4);
        let (after, grown) = specialize(5..=249);
        assert_eq!(after, before, "templates, kept sets of sizes, bytes of the session, origins of shared buffers");
        assert!(after[0] < 8 && after[1] == 8, "{after:?}");
        // 50 bytes per set would be 5 MB.
        assert!(grown < resident + (4 << 20), "{resident} bytes before, {grown} after");
    });
}

/// More sizes than there are plans, in turns.
const ROWS: &[&[(&str, u32)]] = &[
    &[("n", 3), ("m", 7)],
    &[("n", 4), ("m", 7)],
    &[("n", 5), ("m", 9)],
    &[("n", 6), ("m", 5)],
    &[("n", 7), ("m", 11)],
    &[("n", 8), ("m", 3)],
    &[("n", 9), ("m", 6)],
    &[("n", 10), ("m", 2)],
    &[("n", 11), ("m", 5)],
    &[("n", 12), ("m", 4)],
    &[("n", 13), ("m", 4)],
    &[("n", 14), ("m", 3)],
    &[("n", 4), ("m", 7)],
    &[("n", 3), ("m", 7)],
    &[("n", 13), ("m", 4)],
    &[("n", 5), ("m", 9)],
    &[("n", 15), ("m", 8)],
];

#[test]
fn rows_computed_from_sizes_are_those_of_the_run() {
    fn graph() -> TestGraph {
        let to = |dtype| vec![("to", Attr::Int(dtype))];
        TestGraph::default()
            .input("x", Float, &["n", "m"])
            .raw("none", Int64, &[], &0i64.to_le_bytes())
            .raw("one", Int64, &[], &1i64.to_le_bytes())
            .ints("first", &[0])
            // [n, m, n, m], times the sum.
            .node("Shape", "x", "shape", vec![])
            .node("Concat", "shape shape", "row", vec![("axis", Attr::Int(0))])
            .node("Cast", "row", "numbers", to(1))
            .node("ReduceSum", "x", "sum", vec![("keepdims", Attr::Int(0))])
            .node("Mul", "numbers sum", "y", vec![])
            // 0 to n - 1, plus the sums of the rows; and both products of sizes.
            .node("Gather", "shape none", "n", vec![])
            .node("Range", "none n one", "places", vec![])
            .node("Cast", "places", "steps", to(1))
            .ints("inner", &[1])
            .node("ReduceSum", "x inner", "sums", vec![("keepdims", Attr::Int(0))])
            .node("Add", "steps sums", "z", vec![])
            .node("ReduceProd", "shape", "count", vec![("keepdims", Attr::Int(0))])
            .node("Cast", "count", "elements", to(1))
            .node("Div", "sum elements", "mean", vec![])
            .output("y")
            .output("z")
            .output("mean")
    }
    check(2, Sized { graph, inputs: &[&["n", "m"]], sizes: ROWS });
}

/// The lowest integer wraps around: it has no opposite.
#[test]
fn the_lowest_integer_beside_sizes_wraps_around() {
    fn graph() -> TestGraph {
        TestGraph::default()
            .input("x", Float, &["n"])
            .ints("lowest", &[i64::MIN])
            .ints("two", &[2])
            .node("Shape", "x", "shape", vec![])
            .node("Concat", "lowest shape", "both", vec![("axis", Attr::Int(0))])
            .node("Div", "both two", "half", vec![])
            .node("Neg", "both", "opposite", vec![])
            .node("Abs", "both", "magnitude", vec![])
            .output_of("half", Int64)
            .output_of("opposite", Int64)
            .output_of("magnitude", Int64)
    }
    check(3, Sized { graph, inputs: &[&["n"]], sizes: &[&[("n", 3)], &[("n", 4)], &[("n", 5)]] });
}

/// The nodes that compute a condition `c` on the length `n`, and when it holds.
type Condition = (&'static str, fn(i64) -> bool);

const CONDITIONS: &[Condition] = &[
    ("Cast n = c to=9", |_| true),
    ("Size x = z; Cast z = c to=9", |_| true),
    ("Sub n four = d; Cast d = c to=9", |n| n != 4),
    ("Sub n four = d; Cast d = b to=9; Not b = c", |n| n == 4),
    ("Cast n = f to=1; Sub f fourth = d; Cast d = c to=9", |n| n != 4),
    ("Cast n = i to=6; Cast i = c to=9", |_| true),
    ("Greater n two = a; Less n five = b; And a b = c", |n| n > 2 && n < 5),
    ("Less n two = a; Greater n five = b; Or a b = c", |n| !(2..=5).contains(&n)),
    ("Greater n two = a; Greater n five = b; Xor a b = c", |n| n > 2 && n <= 5),
    ("GreaterOrEqual n two = a; LessOrEqual n five = b; Equal a b = c", |n| (2..=5).contains(&n)),
    ("Equal n five = c", |n| n == 5),
    ("Greater n two = a; Where a four n = w; Equal w four = c", |n| n > 2),
    ("Mod n two = r; Cast r = c to=9", |n| n % 2 != 0),
    ("Div n four = q; Cast q = c to=9", |n| n >= 4),
    ("Sub n five = d; Div d two = q; Cast q = c to=9", |n| (n - 5) / 2 != 0),
    ("Sub n five = d; Mod d four = r; Cast r = c to=9", |n| (n - 5) % 4 != 0),
    ("Sub n five = d; Abs d = e; Less e two = c", |n| (n - 5).abs() < 2),
    ("Sub n five = d; Neg d = e; Greater e two = c", |n| 5 - n > 2),
    ("Sub n five = d; Sign d = s; Less s zero = c", |n| n < 5),
    ("Min n four = m; Equal m four = c", |n| n >= 4),
    ("Max n four = m; Equal m four = c", |n| n <= 4),
    ("Clip n two five = k; Equal k five = c", |n| n >= 5),
    ("Shape x = s; Concat s s = t axis=0; ReduceSum t = u; Greater u five = c", |n| 2 * n > 5),
    ("Shape x = s; Concat s s = t axis=0; ReduceProd t = u; Greater u five = c", |n| n * n > 5),
    ("Shape x = s; Concat s fours = t axis=0; ReduceMax t = u; Greater u five = c", |n| n > 5),
    ("Shape x = s; Concat s fours = t axis=0; ReduceMin t = u; Equal u four = c", |n| n >= 4),
];

#[test]
fn branches_depend_on_the_truth_of_what_is_computed_from_sizes() {
    let mut many = Vec::new();
    for (nodes, holds) in CONDITIONS {
        let branch = |operator: &str| Attr::Graph(TestGraph::default().node(operator, "x", "z", vec![]).output("z"));
        let mut graph = TestGraph::default()
            .input("x", Float, &["n"])
            .floats("fourth", &[], &[4.0])
            .ints("fours", &[4])
            .ints("first", &[0])
            .node("Shape", "x", "shape", vec![]);
        for (name, number) in [("zero", 0i64), ("two", 2), ("four", 4), ("five", 5)] {
            graph = graph.raw(name, Int64, &[], &number.to_le_bytes());
        }
        graph = graph.node("Gather", "shape zero", "n", vec![]);
        for node in nodes.split("; ") {
            let (read, written) = node.split_once(" = ").unwrap();
            let (operator, inputs) = read.split_once(' ').unwrap();
            let (output, attribute) = written.split_once(' ').unwrap_or((written, ""));
            let attribute = attribute.split_once('=').map(|(name, value)| (name, Attr::Int(value.parse().unwrap())));
            graph = graph.node(operator, inputs, output, attribute.into_iter().collect());
        }
        let branches = vec![("then_branch", branch("Neg")), ("else_branch", branch("Abs"))];
        let session = session(graph.node("If", "c", "y", branches).output("y"), SessionOptions::default());
        for n in [7, 1, 2, 3, 4, 5, 6, 8, 9, 12, 30] {
            let y = if holds(i64::from(n)) { -1.0 } else { 1.0 };
            let outputs = run(&session, &[data(&vec![1.0; n as usize], Some(&[n]))]).unwrap();
            assert_eq!(outputs, [(vec![n], vec![y; n as usize])], "{nodes}");
        }
        // A length of 1 broadcasts; signs and remainders decide as well.
        let templates = session.templates.count();
        if templates > 5 {
            many.push((nodes, templates));
        }
    }
    assert!(many.is_empty(), "{many:?}");
}
