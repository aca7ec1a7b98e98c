//! Checks multiply-adds and bytes of operators against counts made by hand.

use super::Operator;
use crate::ir::parse;

/// Multiply-adds and bytes read by the last node of a graph.
fn work(text: &str) -> (u64, u64) {
    let graph = parse(text);
    let node = graph.nodes.last().expect("a node");
    let outputs: Vec<_> = node.outputs.iter().map(|&id| graph.descriptor(id)).collect();
    let inputs = graph.input_descriptors(node);
    (node.op.multiply_adds(&inputs, &outputs), node.op.bytes_read(&inputs, &outputs))
}

#[test]
fn products() {
    let product = |a: &str, b: &str, operator: &str| {
        work(&format!("%0 = input a float32 {a}\n%1 = input b float32 {b}\n%2 = {operator} %0 %1\noutput y = %2")).0
    };
    assert_eq!(product("[2, 3]", "[3, 5]", "matmul"), 2 * 3 * 5);
    // One matrix against a batch of seven, and both broadcast.
    assert_eq!(product("[2, 3]", "[7, 3, 5]", "matmul"), 7 * 2 * 3 * 5);
    assert_eq!(product("[4, 1, 2, 3]", "[7, 3, 5]", "matmul"), 4 * 7 * 2 * 3 * 5);
    let gemm = |a: &str, b: &str, options: &str| {
        let text =
            format!("%0 = input a float16 {a}\n%1 = input b float16 {b}\n%2 = gemm %0 %1 {options}\noutput y = %2");
        work(&text).0
    };
    assert_eq!(gemm("[2, 3]", "[3, 5]", ""), 30);
    assert_eq!(gemm("[3, 2]", "[5, 3]", "aTranspose=true bTranspose=true"), 30);
}

#[test]
fn convolutions() {
    let convolution = |input: &str, filter: &str, operator: &str, options: &str| {
        work(&format!(
            "%0 = input x float32 {input}\n%1 = input f float32 {filter}\n%2 = {operator} %0 %1 {options}\noutput y = %2"
        ))
        .0
    };
    // 6 x 6 outputs of 4 channels, each from 3 channels by 3 x 3 taps; padding counts.
    assert_eq!(convolution("[1, 3, 8, 8]", "[4, 3, 3, 3]", "conv2d", ""), 36 * 4 * 27);
    assert_eq!(convolution("[2, 3, 8, 8]", "[4, 3, 3, 3]", "conv2d", "padding=[1, 1, 1, 1]"), 2 * 64 * 4 * 27);
    // Strided: 4 x 4 outputs; channels last.
    let last = "strides=[2, 2] padding=[1, 1, 1, 1] inputLayout=nhwc filterLayout=ohwi";
    assert_eq!(convolution("[1, 8, 8, 3]", "[4, 3, 3, 3]", "conv2d", last), 16 * 4 * 27);
    // Depthwise: one channel per output channel.
    assert_eq!(convolution("[1, 8, 8, 8]", "[8, 1, 3, 3]", "conv2d", "groups=8"), 36 * 8 * 9);
    // Each of 3 x 4 x 4 inputs is spread over 5 channels of 2 x 2 taps.
    assert_eq!(convolution("[1, 3, 4, 4]", "[3, 5, 2, 2]", "convTranspose2d", "strides=[2, 2]"), 48 * 5 * 4);
    let groups = "groups=2 inputLayout=nhwc filterLayout=ohwi";
    assert_eq!(convolution("[1, 4, 4, 4]", "[5, 2, 2, 4]", "convTranspose2d", groups), 64 * 5 * 4);
}

#[test]
fn linear_attention() {
    let heads = |queries: u32, states: u32, rate: &str| {
        work(&format!(
            "%0 = input q float32 [2, 3, {queries}, 5]
             %1 = input k float32 [2, 3, 1, 5]
             %2 = input v float32 [2, 3, {states}, 7]
             %3 = input r float32 [2, 3, 1]
             %4, %5 = linearAttention %0 %1 %2 _{rate}
             output y = %4"
        ))
        .0
    };
    // Each step adds a product to the states, reads them for each query, and for the key if values replace others.
    assert_eq!(heads(1, 2, ""), 2 * 2 * 5 * 7 * 3 * 2);
    assert_eq!(heads(4, 2, " %3"), 2 * 2 * 5 * 7 * 3 * (1 + 2 + 1));
}

#[test]
fn recurrent_networks() {
    let network = |operator: &str, gates: usize, directions: usize, options: &str| {
        let rows = gates * 4;
        let outputs = if operator == "lstm" { "%3, %4" } else { "%3" };
        work(&format!(
            "%0 = input x float32 [5, 2, 3]\n%1 = input w float32 [{directions}, {rows}, 3]\n\
             %2 = input r float32 [{directions}, {rows}, 4]\n\
             {outputs} = {operator} %0 %1 %2 steps=5 hiddenSize=4 {options}\noutput y = %3"
        ))
        .0
    };
    assert_eq!(network("gru", 3, 1, ""), 5 * 2 * (3 * 4 * (3 + 4)));
    assert_eq!(network("lstm", 4, 1, ""), 5 * 2 * (4 * 4 * (3 + 4)));
    assert_eq!(network("lstm", 4, 2, "direction=both"), 2 * 5 * 2 * (4 * 4 * (3 + 4)));
    let cell = |operator: &str, rows: usize, states: &str, outputs: &str| {
        work(&format!(
            "%0 = input x float32 [2, 3]\n%1 = input w float32 [{rows}, 3]\n%2 = input r float32 [{rows}, 4]\n\
             %3 = input h float32 [2, 4]\n{outputs} = {operator} %0 %1 %2 {states} hiddenSize=4\noutput y = %5"
        ))
        .0
    };
    assert_eq!(cell("gruCell", 12, "%3", "%5"), 2 * 12 * (3 + 4));
    assert_eq!(cell("lstmCell", 16, "%3 %3", "%5, %6"), 2 * 16 * (3 + 4));
}

#[test]
fn everything_else_moves_bytes_only() {
    let bytes = |operator: &str| {
        let (multiply_adds, bytes) =
            work(&format!("%0 = input x float32 [1, 2, 8, 8]\n%1 = input i int32 [3]\n%2 = {operator}\noutput y = %2"));
        assert_eq!(multiply_adds, 0, "{operator}");
        bytes
    };
    assert_eq!(bytes("add %0 %0"), 2 * 512);
    assert_eq!(bytes("averagePool2d %0"), 512);
    assert_eq!(bytes("softmax %0 axis=3"), 512);
    assert_eq!(bytes("reduceSum %0"), 512);
    // Only selected elements are read.
    assert_eq!(bytes("slice %0 starts=[0, 0, 0, 0] sizes=[1, 1, 4, 4]"), 64);
    assert_eq!(bytes("gather %0 %1 axis=3"), 3 * 4 + 2 * 8 * 3 * 4);
}
