//! Graphs that become an attention, and graphs that must not.

use super::fuse_attention;
use crate::ir::parse;
use crate::testing::{check_pass, check_pass_changes_nothing};

#[test]
fn heads_are_read_and_written_in_place() {
    check_pass(
        fuse_attention,
        "%0 = input x float32 [2, 5, 24]
         %1 = input m float32 [2, 1, 1, 5]
         %2, %3, %4 = split %0 splits=3 axis=2
         %5 = reshape %2 newShape=[2, 5, 2, 4]
         %6 = transpose %5 permutation=[0, 2, 1, 3]
         %7 = reshape %3 newShape=[2, 5, 2, 4]
         %8 = transpose %7 permutation=[0, 2, 3, 1]
         %9 = reshape %4 newShape=[2, 5, 2, 4]
         %10 = transpose %9 permutation=[0, 2, 1, 3]
         %11 = matmul %6 %8
         %12 = constant float32 [] 2
         %13 = div %11 %12
         %14 = add %13 %1
         %15 = softmax %14 axis=3
         %16 = matmul %15 %10
         %17 = transpose %16 permutation=[0, 2, 1, 3]
         %18 = reshape %17 newShape=[2, 5, 8]
         output y = %18",
        "%0 = input x float32 [2, 5, 24]
         %1 = input m float32 [2, 1, 1, 5]
         %2 = attention %0 %0 %0 %1 batch=[2, 2] key=[8, 120, 4, 24, 1] mask0=[0, 5, 0, 0, 1] output=[0, 40, 4, 8, 1] \
         query=[0, 120, 4, 24, 1] scale=0.5 shape=[2, 5, 2, 4] sizes=[5, 5, 4, 4] value=[16, 120, 4, 24, 1]
         %3 = reshape %2 newShape=[2, 5, 8]
         output y = %3",
    );
}

#[test]
fn scaled_operands_and_repeated_heads() {
    check_pass(
        fuse_attention,
        "%0 = input q float32 [1, 4, 3, 8]
         %1 = input k float32 [1, 2, 5, 8]
         %2 = input v float32 [1, 2, 5, 8]
         %3 = constant float32 [] 0.5
         %4 = mul %0 %3
         %5 = reshape %1 newShape=[1, 2, 1, 5, 8]
         %6 = expand %5 newShape=[1, 2, 2, 5, 8]
         %7 = reshape %6 newShape=[4, 5, 8]
         %8 = transpose %7 permutation=[0, 2, 1]
         %9 = reshape %8 newShape=[1, 4, 8, 5]
         %10 = mul %3 %9
         %11 = reshape %2 newShape=[1, 2, 1, 5, 8]
         %12 = expand %11 newShape=[1, 2, 2, 5, 8]
         %13 = reshape %12 newShape=[1, 4, 5, 8]
         %14 = matmul %4 %10
         %15 = softmax %14 axis=3
         %16 = matmul %15 %13
         output y = %16",
        "%0 = input q float32 [1, 4, 3, 8]
         %1 = input k float32 [1, 2, 5, 8]
         %2 = input v float32 [1, 2, 5, 8]
         %3 = attention %0 %1 %2 batch=[2, 2] key=[0, 40, 0, 8, 1] output=[0, 48, 24, 8, 1] query=[0, 48, 24, 8, 1] \
         scale=0.25 shape=[1, 4, 3, 8] sizes=[3, 5, 8, 8] value=[0, 40, 0, 8, 1]
         output y = %3",
    );
}

#[test]
fn a_batch_that_is_divided_in_between() {
    check_pass(
        fuse_attention,
        "%0 = input q float32 [6, 3, 4]
         %1 = input k float32 [6, 5, 4]
         %2 = input v float32 [6, 5, 4]
         %3 = input c uint8 [2, 1, 3, 5]
         %4 = input b float32 [1, 3, 3, 5]
         %5 = transpose %1 permutation=[0, 2, 1]
         %6 = matmul %0 %5
         %7 = reshape %6 newShape=[2, 3, 3, 5]
         %8 = add %4 %7
         %9 = constant float32 [] -30000
         %10 = where %3 %8 %9
         %11 = reshape %10 newShape=[6, 3, 5]
         %12 = softmax %11 axis=2
         %13 = matmul %12 %2
         output y = %13",
        "%0 = input q float32 [6, 3, 4]
         %1 = input k float32 [6, 5, 4]
         %2 = input v float32 [6, 5, 4]
         %3 = input c uint8 [2, 1, 3, 5]
         %4 = input b float32 [1, 3, 3, 5]
         %5 = attention %0 %1 %2 %4 %3 batch=[2, 3] key=[0, 60, 20, 4, 1] mask0=[0, 0, 15, 5, 1] mask1=[0, 15, 0, 5, 1] \
         mask1Value=-30000.0 mask1When=false output=[0, 36, 12, 4, 1] query=[0, 36, 12, 4, 1] scale=1.0 shape=[6, 3, 4] \
         sizes=[3, 5, 4, 4] value=[0, 60, 20, 4, 1]
         output y = %5",
    );
}

/// A graph with one line for the scores and one for the output.
fn with(scores: &str, rest: &str) -> String {
    format!(
        "%0 = input q float32 [2, 3, 4]
         %1 = input k float32 [2, 4, 5]
         %2 = input v float32 [2, 5, 6]
         %3 = matmul %0 %1
         {scores}
         {rest}"
    )
}

#[test]
fn nodes_with_other_readers_stay() {
    for output in ["%3", "%4", "%5"] {
        let rest = format!("%5 = softmax %4 axis=2\n%6 = matmul %5 %2\noutput y = %6\noutput z = {output}");
        check_pass_changes_nothing(fuse_attention, &with("%4 = neg %3", &rest.replace("neg", "identity")));
        let text = with("%4 = reshape %3 newShape=[2, 3, 5]", &rest);
        check_pass_changes_nothing(fuse_attention, &text);
    }
}

#[test]
fn other_operators_in_between_stay() {
    let end = "%6 = matmul %5 %2\noutput y = %6";
    for (scores, softmax) in [
        ("%4 = sin %3", "%5 = softmax %4 axis=2"),
        ("%7 = tanh %3\n%4 = tanh %7", "%5 = softmax %4 axis=2"),
        // The cap follows the mask.
        ("%9 = input m float32 [5]\n%7 = add %3 %9\n%4 = tanh %7", "%5 = softmax %4 axis=2"),
        // A cap of 0 leaves nothing of a score but NaN.
        ("%7 = tanh %3\n%4 = linear %7 alpha=0", "%5 = softmax %4 axis=2"),
        ("%4 = identity %3", "%5 = softmax %4 axis=1"),
        ("%4 = pow %3 %3", "%5 = softmax %4 axis=2"),
        // The scale follows the mask.
        (
            "%9 = input m float32 [5]\n%8 = constant float32 [] 2\n%7 = add %3 %9\n%4 = mul %7 %8",
            "%5 = softmax %4 axis=2",
        ),
        ("%4 = identity %3", "%7 = softmax %4 axis=2\n%5 = relu %7"),
        ("%4 = transpose %3 permutation=[1, 0, 2]\n%7 = reshape %4 newShape=[2, 3, 5]", "%5 = softmax %7 axis=2"),
    ] {
        let mut graph = parse(&with(scores, &format!("{softmax}\n{end}")));
        let before = graph.to_string();
        fuse_attention(&mut graph);
        assert_eq!(graph.to_string(), before);
    }
}

#[test]
fn capped_scores() {
    let caps = [
        "%8 = linear %3 alpha=0.5\n%9 = linear %8 alpha=0.125\n%10 = tanh %9\n%11 = linear %10 alpha=8",
        "%6 = constant float32 [] 2\n%7 = constant float32 [] 8\n%8 = div %3 %6\n%9 = div %8 %7\n%10 = tanh %9\n\
         %11 = mul %7 %10",
        "%8 = linear %3 alpha=0.0625\n%9 = tanh %8\n%10 = identity %9\n%11 = linear %10 alpha=8",
    ];
    for cap in caps {
        let end = "%12 = input m float32 [5]\n%13 = add %11 %12\n%14 = softmax %13 axis=2\n%15 = matmul %14 %2";
        check_pass(
            fuse_attention,
            &with(cap, &format!("{end}\noutput y = %15")),
            "%0 = input q float32 [2, 3, 4]
             %1 = input k float32 [2, 4, 5]
             %2 = input v float32 [2, 5, 6]
             %3 = input m float32 [5]
             %4 = attention %0 %1 %2 %3 batch=[2] key=[0, 20, 1, 5] mask0=[0, 0, 0, 1] output=[0, 18, 6, 1] \
             query=[0, 12, 4, 1] scale=0.5 shape=[2, 3, 6] sizes=[3, 5, 4, 6] softcap=8.0 value=[0, 30, 6, 1]
             output y = %4",
        );
    }
    check_pass(
        fuse_attention,
        &with("%4 = tanh %3", "%5 = softmax %4 axis=2\n%6 = matmul %5 %2\noutput y = %6"),
        "%0 = input q float32 [2, 3, 4]
         %1 = input k float32 [2, 4, 5]
         %2 = input v float32 [2, 5, 6]
         %3 = attention %0 %1 %2 batch=[2] key=[0, 20, 1, 5] output=[0, 18, 6, 1] query=[0, 12, 4, 1] scale=1.0 \
         shape=[2, 3, 6] sizes=[3, 5, 4, 6] softcap=1.0 value=[0, 30, 6, 1]
         output y = %3",
    );
}

#[test]
fn values_of_a_larger_batch_and_softmaxes_of_operands_stay() {
    check_pass_changes_nothing(
        fuse_attention,
        "%0 = input q float32 [1, 3, 4]
         %1 = input k float32 [1, 4, 5]
         %2 = input v float32 [2, 5, 6]
         %3 = matmul %0 %1
         %4 = softmax %3 axis=2
         %5 = matmul %4 %2
         %6 = softmax %5 axis=2
         output y = %6",
    );
}

#[test]
fn an_output_in_between_keeps_its_layout() {
    let mut graph = parse(&with(
        "%4 = softmax %3 axis=2",
        "%5 = matmul %4 %2\n%6 = transpose %5 permutation=[1, 0, 2]\noutput y = %5\noutput z = %6",
    ));
    fuse_attention(&mut graph);
    graph.verify();
    let names: Vec<&str> = graph.nodes.iter().map(|node| node.op.rule().name).collect();
    assert_eq!(names, ["attention", "transpose"]);
}

#[test]
fn one_attention_reads_another() {
    let mut graph = parse(
        "%0 = input x float32 [2, 3, 4]
         %1 = transpose %0 permutation=[0, 2, 1]
         %2 = matmul %0 %1
         %3 = softmax %2 axis=2
         %4 = matmul %3 %0
         %5 = transpose %4 permutation=[1, 0, 2]
         %6 = transpose %5 permutation=[1, 2, 0]
         %7 = transpose %5 permutation=[1, 0, 2]
         %8 = matmul %0 %6
         %9 = softmax %8 axis=2
         %10 = matmul %9 %7
         output y = %10",
    );
    fuse_attention(&mut graph);
    graph.verify();
}

#[test]
fn products_of_different_types_stay() {
    check_pass_changes_nothing(
        fuse_attention,
        "%0 = input q float32 [2, 5, 8]
         %1 = input k float32 [2, 8, 6]
         %2 = input v float16 [2, 6, 8]
         %3 = matmul %0 %1
         %4 = softmax %3 axis=2
         %5 = cast %4 dataType=float16
         %6 = matmul %5 %2
         output y = %6",
    );
}
