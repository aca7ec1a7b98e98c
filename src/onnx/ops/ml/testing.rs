//! Models of one node of `ai.onnx.ml`, for tests.

use crate::dtype::Number;
use crate::onnx::import::Request;
use crate::onnx::tensor::ElementType;
use crate::onnx::testing::{Attr, TestGraph};
use crate::ops::tensor::Tensor;
use crate::shape::Descriptor;
use std::collections::HashMap;

/// Attributes of a node.
pub type Attributes<'a> = Vec<(&'a str, Attr<'a>)>;

/// An input: its type, sizes and elements.
pub type Input<'a> = (ElementType, &'a [u32], &'a [f64]);

fn graph(operator: &str, x: Input, outputs: &str, attributes: Attributes) -> TestGraph {
    let (element, sizes, _) = x;
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
    let graph = TestGraph::default().input("x", element, &sizes);
    let graph = graph.node(&format!("ai.onnx.ml.{operator}"), "x", outputs, attributes);
    outputs.split_whitespace().fold(graph, TestGraph::output)
}

/// The elements of the outputs of a node with the input `x`, computed by the naive references, and checked on the CPU.
pub fn run(operator: &str, x: Input, outputs: &str, attributes: Attributes) -> Vec<Vec<f64>> {
    let graph = graph(operator, x, outputs, attributes).import(17, &Request::default());
    let graph = graph.unwrap_or_else(|error| panic!("{operator}: {error}"));
    let (element, sizes, numbers) = x;
    let dtype = element.carried().expect("a type that WebNN has");
    let mut numbers = numbers.iter();
    let x = Tensor::from_fn(&Descriptor::new(dtype, sizes), |_| {
        Number::Float(*numbers.next().expect("as many elements")).cast(dtype)
    });
    let inputs = HashMap::from([("x".to_string(), x)]);
    // Exponentials, logarithms, and differences of them.
    let tolerance = crate::testing::Tolerance::ulps(16).or_absolute(1e-5);
    let results = crate::testing::check_on_cpu(&graph, &inputs, tolerance);
    let elements = |name: &str| results[name].numbers().map(Number::to_f64).collect();
    outputs.split_whitespace().map(elements).collect()
}

/// The message with which a node with an input of the type and sizes of `x` is refused.
pub fn refusal(operator: &str, x: Input, outputs: &str, attributes: Attributes) -> String {
    graph(operator, x, outputs, attributes).refusal(17)
}

/// Checks numbers up to the precision of float32.
pub fn assert_close(got: &[f64], expected: &[f64]) {
    let is_close = |(got, expected): (&f64, &f64)| {
        (got - expected).abs() <= 1e-5 * (1.0 + expected.abs()) || got == expected || got.is_nan() && expected.is_nan()
    };
    let is_equal = got.len() == expected.len() && got.iter().zip(expected).all(is_close);
    assert!(is_equal, "{got:?}, expected {expected:?}");
}
