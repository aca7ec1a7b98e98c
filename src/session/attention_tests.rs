//! Attention of language models, and the operators that it becomes, for sizes that share templates.

use super::tests::{context, finished};
use super::*;
use crate::onnx::file::Files;
use crate::onnx::tensor::ElementType::{self, Bool, Float, Float16, Int32, Int64};
use crate::onnx::testing::{Attr, TestGraph};
use serde_json::Value as Json;

/// Batch, new tokens and past tokens: one token after texts of two lengths, a text, a part of a text, and several
/// texts.
const SIZES: [[u32; 3]; 6] = [[1, 1, 7], [1, 1, 8], [1, 11, 0], [1, 3, 13], [2, 1, 9], [3, 12, 19]];

/// A model of one node, and the shapes of its inputs.
struct OneNode {
    graph: TestGraph,
    element: ElementType,
    inputs: Vec<(&'static str, String)>,
}

impl OneNode {
    fn new(half: bool) -> OneNode {
        let element = if half { Float16 } else { Float };
        OneNode { graph: TestGraph::default(), element, inputs: Vec::new() }
    }

    /// Adds an input of the model's type; dimensions are numbers, `b`, `s` for new tokens, `p` for past ones, or `t`
    /// for both.
    fn input(self, name: &'static str, dims: &str) -> OneNode {
        let element = self.element;
        self.input_of(name, element, dims)
    }

    fn input_of(mut self, name: &'static str, element: ElementType, dims: &str) -> OneNode {
        self.graph = self.graph.input(name, element, &dims.split(' ').collect::<Vec<_>>());
        self.inputs.push((name, dims.to_string()));
        self
    }

    /// Checks that the node with these outputs becomes one attention for all [`SIZES`].
    fn check(self, opset: i64, (operator, inputs, outputs): (&str, &str, &str), attributes: Vec<(&str, Attr)>) {
        let names: Vec<&str> = attributes.iter().map(|(name, _)| *name).collect();
        let what = format!("{operator} {inputs} {names:?} {:?}", self.element);
        let graph = self.graph.node(operator, inputs, outputs, attributes);
        let graph = outputs.split(' ').fold(graph, |graph, name| graph.output_of(name, self.element));
        let (files, bytes) = Files::of_bytes(graph.encode(opset));
        let model = Arc::new(Model::decode(bytes, files).unwrap());
        let session = Arc::new(Session::open(model, context(), SessionOptions::default()).unwrap());
        for sizes @ [batch, new, past] in SIZES {
            let size = |dim: &str| match dim {
                "b" => batch,
                "s" => new,
                "p" => past,
                "t" => past + new,
                number => number.parse().unwrap(),
            };
            let shapes = self.inputs.iter().map(|(name, dims)| (name.to_string(), dims.split(' ').map(size).collect()));
            let shapes = session.signature().shapes_of_names("describe", &shapes.collect()).unwrap();
            let made = Arc::new(Slot::default());
            finished(|done| session.describe(shapes, made.clone(), done)).unwrap();
            let told: Json = serde_json::from_str(&made.take().unwrap()).unwrap();
            let nodes = told["graph"]["compiled"]["nodes"].as_array().unwrap();
            let names: Vec<&str> = nodes.iter().map(|node| node["operator"].as_str().unwrap()).collect();
            let count = |name: &str| names.iter().filter(|other| **other == name).count();
            assert_eq!(count("attention"), 1, "{what} {sizes:?}: {names:?}");
            assert_eq!(count("matmul") + count("softmax") + count("tanh"), 0, "{what} {sizes:?}: {names:?}");
            // Heads that share keys are not copied: that would take one more dimension than heads have.
            let expands = |node: &&Json| {
                node["operator"] == "expand" && node["attributes"]["newShape"].as_array().unwrap().len() == 5
            };
            assert_eq!(nodes.iter().find(expands), None, "{what} {sizes:?}");
        }
    }
}

/// All `bits`-bit numbers, as their bits.
fn bits<const N: usize>() -> impl Iterator<Item = [bool; N]> {
    (0..1 << N).map(|number| std::array::from_fn(|bit| number >> bit & 1 == 1))
}

#[test]
fn group_query_attention() {
    for [half, packed, rotated, windowed, capped] in bits() {
        let (interleaved, placed) = (packed != windowed, half != capped && rotated);
        let model = OneNode::new(half);
        let (model, operands) = match packed {
            true => (model.input("x", "b s 192"), "x _ _"),
            false => (model.input("q", "b s 128").input("k", "b s 32").input("v", "b s 32"), "q k v"),
        };
        let mut model = model.input("pk", "b 2 p 16").input("pv", "b 2 p 16").input_of("mask", Int64, "b t");
        if placed {
            model = model.input_of("places", Int64, "b s");
        }
        // As exported: the lengths follow from a mask of zeros and ones.
        let table = vec![0; 64 * 8 * if half { 2 } else { 4 }];
        model.graph = model
            .graph
            .raw("cosines", model.element, &[64, 8], &table)
            .raw("at", Int64, &[], &1i64.to_le_bytes())
            .ints("one", &[1])
            .node("Shape", "mask", "shape", vec![])
            .node("Gather", "shape at", "length", vec![])
            .node("Cast", "length", "total", vec![("to", Attr::Int(6))])
            .node("ReduceSum", "mask one", "lengths", vec![("keepdims", Attr::Int(0))])
            .node("Sub", "lengths one", "ends", vec![])
            .node("Cast", "ends", "last", vec![("to", Attr::Int(6))]);
        let mut attributes = vec![("num_heads", Attr::Int(8)), ("kv_num_heads", Attr::Int(2))];
        let mut inputs = format!("{operands} pk pv last total");
        if rotated {
            inputs += if placed { " cosines cosines places" } else { " cosines cosines" };
            attributes.push(("do_rotary", Attr::Int(1)));
            attributes.push(("rotary_interleaved", Attr::Int(interleaved as i64)));
        }
        if windowed {
            attributes.push(("local_window_size", Attr::Int(5)));
        }
        if capped {
            attributes.push(("softcap", Attr::Float(30.0)));
        }
        model.check(17, ("com.microsoft.GroupQueryAttention", &inputs, "y k_out v_out"), attributes);
    }
}

#[test]
fn attention_of_the_standard() {
    for [half, is_flat, masked, is_causal, capped, newer] in bits() {
        let (windowed, boolean) = (newer && is_flat != capped, half != is_causal);
        let model = OneNode::new(half);
        let mut attributes = vec![("is_causal", Attr::Int(is_causal as i64))];
        let model = match is_flat {
            true => {
                attributes.extend([("q_num_heads", Attr::Int(8)), ("kv_num_heads", Attr::Int(2))]);
                model.input("q", "b s 128").input("k", "b s 32").input("v", "b s 32")
            }
            false => model.input("q", "b 8 s 16").input("k", "b 2 s 16").input("v", "b 2 s 16"),
        };
        let mut model = model.input("pk", "b 2 p 16").input("pv", "b 2 p 16");
        if masked {
            let element = if boolean { Bool } else { model.element };
            model = model.input_of("m", element, "s t");
        }
        if capped {
            attributes.push(("softcap", Attr::Float(30.0)));
        }
        if windowed {
            attributes.push(("left_window_size", Attr::Int(4)));
        }
        let inputs = if masked { "q k v m pk pv" } else { "q k v _ pk pv" };
        model.check(if newer { 24 } else { 23 }, ("Attention", inputs, "y k_out v_out"), attributes);
    }
}

#[test]
fn attentions_with_one_key_head_per_query_head() {
    for [half, packed, masked, is_causal] in bits() {
        let causal = || ("unidirectional", Attr::Int(is_causal as i64));
        let heads = || vec![("num_heads", Attr::Int(8)), causal()];
        let model = OneNode::new(half);
        let model = match packed {
            true => model.input("q", "b s 8 3 16"),
            false => model.input("q", "b s 128").input("k", "b t 128").input("v", "b t 128"),
        };
        let operands = if packed { "q _ _" } else { "q k v" };
        let (model, mask) = match masked {
            true => (model.input_of("m", Int32, if packed { "b s" } else { "b t" }), "m"),
            false => (model, "_"),
        };
        model.check(17, ("com.microsoft.MultiHeadAttention", &format!("{operands} _ {mask}"), "y"), heads());
        let model = OneNode::new(half).input("q", "b s 128").input("k", "b s 128").input("v", "b s 128");
        let model = model.input("pk", "b 8 p 16").input("pv", "b 8 p 16");
        let inputs = "q k v _ _ _ pk pv";
        model.check(17, ("com.microsoft.MultiHeadAttention", inputs, "y k_out v_out"), heads());
        let mut model = OneNode::new(half).input("x", "b s 32").input("past", "2 b 8 p 16");
        let weights = vec![0; 32 * 384 * if half { 2 } else { 4 }];
        model.graph = model.graph.raw("w", model.element, &[32, 384], &weights);
        model.check(17, ("com.microsoft.Attention", "x w _ _ past", "y present"), heads());
    }
}
