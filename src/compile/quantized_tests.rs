use super::*;
use crate::compile::{Passes, optimize};
use crate::ir::parse;
use crate::reference;
use crate::testing::{CPU, Tolerance, check, check_pass, check_pass_changes_nothing};

fn pass(graph: &mut Graph) {
    quantized(graph, &Evaluator::new(reference::evaluate)).expect("memory");
}

#[test]
fn a_convolution_between_quantized_tensors() {
    check_pass(
        pass,
        "%0 = input x uint8 [1, 5, 6, 3]
         %1 = constant float32 [1, 1, 1, 1] 0.5
         %2 = constant uint8 [1, 1, 1, 1] 128
         %3 = dequantizeLinear %0 %1 %2
         %4 = constant int8 [4, 3, 3, 3]
         %5 = constant float32 [4, 1, 1, 1] 0.25 0.5 0.125 1
         %6 = constant int8 [4, 1, 1, 1] 0
         %7 = dequantizeLinear %4 %5 %6
         %8 = constant float32 [4]
         %9 = conv2d %3 %7 %8 padding=[1, 1, 1, 1] inputLayout=nhwc
         %10 = clamp %9 minValue=0 maxValue=600
         %11 = constant float32 [1, 1, 1, 1] 4
         %12 = quantizeLinear %10 %11 %2
         output y = %12",
        "%0 = input x uint8 [1, 5, 6, 3]
         %1 = constant int8 [4, 3, 3, 3]
         %2 = constant float32 [4]
         %3 = constant float32 [4]
         %4 = quantizedConv2d %0 %1 %2 _ %3 inputLayout=nhwc inputScale=0.5 inputZeroPoint=128.0 maxValue=600.0 minValue=0.0 outputScale=4.0 outputZeroPoint=128.0 padding=[1, 1, 1, 1]
         output y = %4",
    );
}

#[test]
fn channels_move_last_and_a_float_output_stays_float() {
    check_pass(
        pass,
        "%0 = input x int8 [1, 3, 5, 6]
         %1 = constant float32 [1, 1, 1, 1] 0.5
         %2 = constant int8 [1, 1, 1, 1] -3
         %3 = dequantizeLinear %0 %1 %2
         %4 = constant uint8 [4, 3, 1, 1]
         %5 = constant float32 [1, 1, 1, 1] 0.25
         %6 = constant uint8 [1, 1, 1, 1] 60
         %7 = dequantizeLinear %4 %5 %6
         %8 = conv2d %3 %7
         %9 = relu %8
         %10 = exp %8
         output y = %9
         output z = %10",
        "%0 = input x int8 [1, 3, 5, 6]
         %1 = transpose %0 permutation=[0, 2, 3, 1]
         %2 = constant uint8 [4, 3, 1, 1]
         %3 = constant float32 [4]
         %4 = constant uint8 [4]
         %5 = quantizedConv2d %1 %2 %3 %4 inputLayout=nhwc inputScale=0.5 inputZeroPoint=-3.0
         %6 = transpose %5 permutation=[0, 3, 1, 2]
         %7 = relu %6
         %8 = exp %6
         output y = %7
         output z = %8",
    );
}

#[test]
fn operators_that_move_elements_move_bytes() {
    check_pass(
        pass,
        "%0 = input x uint8 [2, 2, 3]
         %1 = constant float32 [1, 1, 1] 0.5
         %2 = constant uint8 [1, 1, 1] 7
         %3 = dequantizeLinear %0 %1 %2
         %4 = reshape %3 newShape=[2, 6]
         %5 = constant float32 [1, 1] 0.5
         %6 = constant uint8 [1, 1] 7
         %7 = quantizeLinear %4 %5 %6
         %8 = dequantizeLinear %7 %5 %6
         %9 = constant int8 [4, 6]
         %10 = constant float32 [4, 1] 0.25 0.5
         %11 = constant int8 [4, 1] 1 0
         %12 = dequantizeLinear %9 %10 %11
         %13 = transpose %12
         %14 = matmul %8 %13
         %15 = constant float32 [4]
         %16 = add %14 %15
         %17 = relu %16
         output y = %17",
        "%0 = input x uint8 [2, 2, 3]
         %1 = reshape %0 newShape=[2, 6]
         %2 = constant int8 [6, 4]
         %3 = constant float32 [4]
         %4 = constant int8 [4]
         %5 = constant float32 [4]
         %6 = quantizedMatmul %1 %2 %3 %4 %5 inputScale=0.5 inputZeroPoint=7.0 minValue=0.0
         output y = %6",
    );
}

fn operators(graph: &Graph) -> Vec<&'static str> {
    graph.nodes.iter().map(|node| node.op.rule().name).collect()
}

#[test]
fn scales_and_zero_points_may_be_computed() {
    check_pass(
        pass,
        "%0 = input x uint8 [2, 6]
         %1 = input z uint8 []
         %2 = input s float32 []
         %3 = reshape %1 newShape=[1, 1]
         %4 = constant float32 [1, 1] 1
         %5 = dequantizeLinear %0 %4 %3
         %6 = constant int8 [6, 4]
         %7 = constant int8 [1, 1] 3
         %8 = dequantizeLinear %6 %4 %7
         %9 = matmul %5 %8
         %10 = mul %2 %9
         %11 = constant float32 [4]
         %12 = add %10 %11
         %13 = relu %12
         output y = %13",
        "%0 = input x uint8 [2, 6]
         %1 = input z uint8 []
         %2 = input s float32 []
         %3 = reshape %1 newShape=[1, 1]
         %4 = constant int8 [6, 4]
         %5 = constant float32 [4]
         %6 = constant int8 [4]
         %7 = constant float32 [4]
         %8 = quantizedMatmul %0 %4 %5 %6 %7 %3 %2 inputScale=1.0 minValue=0.0
         output y = %8",
    );
    // The scale of the input is the factor: a second factor stays an operator, as does a bias before a factor.
    let dequantized = "%0 = input x int8 [3, 2, 6]
         %1 = input z int8 [1, 1, 1]
         %2 = input s float32 [1, 1, 1]
         %3 = input t float32 [4]
         %4 = dequantizeLinear %0 SCALE %1
         %5 = constant float32 [1, 1] 0.5
         %6 = constant int8 [6, 4]
         %7 = constant int8 [1, 1] 0
         %8 = dequantizeLinear %6 %5 %7
         %9 = matmul %4 %8
         ";
    for (scale, rest, expected) in [
        ("%2", "%10 = mul %9 %3", &["quantizedMatmul", "mul"][..]),
        ("%14", "%10 = mul %9 %3", &["quantizedMatmul"]),
        (
            "%14",
            "%13 = constant float32 [4]
%11 = add %9 %13
%10 = mul %11 %3",
            &["quantizedMatmul", "mul"],
        ),
        (
            "%14",
            "%11 = relu %9
%10 = mul %11 %3",
            &["quantizedMatmul", "mul"],
        ),
        ("%14", "%10 = mul %9 %9", &["quantizedMatmul", "mul"]),
        (
            "%14",
            "%13 = input u float32 [3, 2, 4]
%10 = mul %9 %13",
            &["quantizedMatmul", "mul"],
        ),
    ] {
        let constant = "%14 = constant float32 [1, 1, 1] 0.25
";
        let text = format!(
            "{constant}{dequantized}{rest}
output y = %10"
        )
        .replace("SCALE", scale);
        let mut graph = parse(&text);
        pass(&mut graph);
        assert_eq!(operators(&graph), expected, "{scale}: {rest}");
        check(&parse(&text), Tolerance::ulps(16).or_absolute(1e-2));
    }
}

#[test]
fn neither_of_two_products_is_the_factor_of_the_other() {
    let text = "%0 = input x int8 [1, 6]
         %1 = constant float32 [1, 1] 0.5
         %2 = constant int8 [1, 1] 1
         %3 = dequantizeLinear %0 %1 %2
         %4 = constant int8 [6, 4]
         %5 = dequantizeLinear %4 %1 %2
         %6 = constant int8 [6, 4]
         %7 = dequantizeLinear %6 %1 %2
         %8 = matmul %3 %5
         %9 = matmul %3 %7
         %10 = mul %8 %9
         output y = %10";
    let mut graph = parse(text);
    pass(&mut graph);
    assert_eq!(operators(&graph), ["quantizedMatmul", "quantizedMatmul", "mul"]);
}

#[test]
fn values_with_another_reader_stay() {
    check_pass(
        pass,
        "%0 = input x uint8 [2, 6]
         %1 = constant float32 [1, 1] 0.5
         %2 = constant uint8 [1, 1] 7
         %3 = dequantizeLinear %0 %1 %2
         %4 = constant int8 [4, 6]
         %5 = constant float32 [1, 1] 0.25
         %6 = constant int8 [1, 1] 0
         %7 = dequantizeLinear %4 %5 %6
         %8 = gemm %3 %7 bTranspose=true
         %9 = quantizeLinear %8 %1 %2
         output y = %9
         output z = %8
         output w = %3",
        "%0 = input x uint8 [2, 6]
         %1 = constant float32 [1, 1]
         %2 = constant uint8 [1, 1]
         %3 = dequantizeLinear %0 %1 %2
         %4 = constant int8 [4, 6]
         %5 = constant float32 [4]
         %6 = quantizedMatmul %0 %4 %5 bTranspose=true inputScale=0.5 inputZeroPoint=7.0
         %7 = quantizeLinear %6 %1 %2
         output y = %7
         output z = %6
         output w = %3",
    );
}

#[test]
fn other_scales_and_types_stay() {
    let text = "%0 = input x uint8 [2, 6]
         %1 = constant float32 SCALE
         %2 = constant uint8 SHAPE
         %3 = dequantizeLinear %0 %1 %2
         %4 = constant int8 [4, 6]
         %5 = constant float32 WEIGHTS
         %6 = constant int8 WEIGHTS
         %7 = dequantizeLinear %4 %5 %6
         %8 = gemm %3 %7 bTranspose=true
         output y = %8";
    for (scale, shape, weights) in [
        ("[1, 6]", "[1, 6]", "[1, 1]"),
        ("[1, 1] inf", "[1, 1]", "[1, 1]"),
        ("[1, 1] 0", "[1, 1]", "[1, 1]"),
        ("[1, 1] -1", "[1, 1]", "[1, 1]"),
        ("[1, 1] 1", "[1, 1]", "[4, 2]"),
        ("[1, 1] 1", "[1, 1]", "[1, 6]"),
    ] {
        let text = text.replace("SCALE", scale).replace("SHAPE", shape).replace("WEIGHTS", weights);
        let mut graph = parse(&text);
        let before = graph.to_string();
        pass(&mut graph);
        assert_eq!(graph.to_string(), before);
    }
    check_pass_changes_nothing(
        pass,
        "%0 = input x int32 [2, 6]
         %1 = constant float32 [1, 1]
         %2 = constant int32 [1, 1]
         %3 = dequantizeLinear %0 %1 %2
         %4 = constant float32 [6, 4]
         %5 = matmul %3 %4
         output y = %5",
    );
}

#[test]
fn only_weights_of_quantized_products_stay_quantized() {
    let graph = |input: &str| {
        parse(&format!(
            "%0 = input x {input} [2, 6]
             %1 = constant float32 [1, 1] 0.5
             %2 = constant {input} [1, 1] 7
             %3 = dequantizeLinear %0 %1 %2
             %4 = constant int8 [4, 6]
             %5 = constant int8 [1, 1] 0
             %6 = dequantizeLinear %4 %1 %5
             %7 = transpose %6
             %8 = matmul %3 %7
             %9 = constant int8 [2, 4]
             %10 = dequantizeLinear %9 %1 %5
             %11 = add %8 %10
             output y = %11"
        ))
    };
    let kept = |graph: &Graph| {
        let kept = weights(graph);
        let nodes = graph.nodes.iter().filter(|node| kept.contains(&node.outputs[0]));
        nodes.map(|node| node.op.rule().name).collect::<Vec<_>>()
    };
    assert_eq!(kept(&graph("uint8")), ["dequantizeLinear", "transpose"]);
    assert_eq!(kept(&graph("int32")), Vec::<&str>::new());
}

#[test]
fn every_node_is_an_origin_of_one_node() {
    let mut graph = parse(
        "%0 = input x uint8 [2, 6]
         %1 = constant float32 [1, 1] 0.5
         %2 = constant uint8 [1, 1] 7
         %3 = dequantizeLinear %0 %1 %2
         %4 = constant int8 [6, 4]
         %5 = constant int8 [1, 1] 0
         %6 = dequantizeLinear %4 %1 %5
         %7 = matmul %3 %6
         %8 = relu %7
         %9 = quantizeLinear %8 %1 %2
         output y = %9",
    );
    pass(&mut graph);
    graph.sort_origins();
    let origins: Vec<_> = graph.nodes.iter().map(|node| node.origins.clone()).collect();
    assert_eq!(origins, [[0, 1, 2, 3, 4]]);
}

#[test]
fn a_bias_per_row_is_not_a_bias_per_channel() {
    let product = "%0 = input x uint8 [4, 8]
         %1 = constant float32 [1, 1] 0.5
         %2 = constant uint8 [1, 1] 3
         %3 = dequantizeLinear %0 %1 %2
         %4 = constant int8 [8, 4]
         %5 = constant int8 [1, 1] 0
         %6 = dequantizeLinear %4 %1 %5
         ";
    for (bias, rest, expected) in [
        ("[4, 1]", "%8 = matmul %3 %6\n%9 = add %8 %7\noutput y = %9", &["quantizedMatmul", "add"][..]),
        ("[4, 1]", "%8 = gemm %3 %6 %7\noutput y = %8", &["dequantizeLinear", "gemm"]),
        ("[1, 4]", "%8 = matmul %3 %6\n%9 = add %8 %7\noutput y = %9", &["quantizedMatmul"]),
        ("[1, 1]", "%8 = gemm %3 %6 %7\noutput y = %8", &["quantizedMatmul"]),
    ] {
        let text = format!("{product}%7 = constant float32 {bias}\n{rest}");
        let mut graph = parse(&text);
        let passes = Passes { epilogues: false, chains: false, ..Passes::ALL };
        optimize(&mut graph, &CPU, passes, &Evaluator::new(reference::evaluate)).unwrap();
        assert_eq!(operators(&graph), expected, "{bias}: {rest}");
        check(&parse(&text), Tolerance::ulps(8).or_absolute(1e-3));
    }
}

#[test]
fn operators_that_choose_elements_of_one_scale_move_bytes() {
    let text = "%0 = input x uint8 [1, 6, 6, 2]
         %1 = input z uint8 [1, 9, 9, 3]
         %2 = constant float32 [1, 1, 1, 1] 0.5
         %3 = constant uint8 [1, 1, 1, 1] 7
         %4 = dequantizeLinear %0 %2 %3
         %5 = dequantizeLinear %1 %2 %3
         %6 = maxPool2d %4 windowDimensions=[2, 2] padding=[1, 1, 1, 1] layout=nhwc
         %7 = slice %6 starts=[0, 0, 1, 0] sizes=[1, 4, 4, 2]
         %8 = resample2d %7 sizes=[8, 8] axes=[1, 2]
         %9 = pad %8 beginningPadding=[0, 1, 0, 0] endingPadding=[0, 0, 1, 0]
         %10 = concat %9 %5 axis=3
         %11 = reverse %10 axes=[1]
         %12 = quantizeLinear %11 %2 %3
         output y = %12";
    check_pass(
        pass,
        text,
        "%0 = input x uint8 [1, 6, 6, 2]
         %1 = input z uint8 [1, 9, 9, 3]
         %2 = maxPool2d %0 layout=nhwc padding=[1, 1, 1, 1] windowDimensions=[2, 2]
         %3 = slice %2 sizes=[1, 4, 4, 2] starts=[0, 0, 1, 0]
         %4 = resample2d %3 axes=[1, 2] sizes=[8, 8]
         %5 = pad %4 beginningPadding=[0, 1, 0, 0] endingPadding=[0, 0, 1, 0] value=7
         %6 = concat %5 %1 axis=3
         %7 = reverse %6 axes=[1]
         output y = %7",
    );
    check(&parse(text), Tolerance::EXACT);
}

#[test]
fn values_that_bytes_of_one_scale_cannot_hold_stay_floats() {
    for (value, axes) in [
        ("resample2d %3 mode=linear sizes=[8, 8]", "axes=[1, 2]"),
        ("pad %3 beginningPadding=[0, 1, 0, 0] endingPadding=[0, 0, 0, 0] value=1", ""),
        // Windows without an element of the image have a maximum of -Infinity.
        ("maxPool2d %3 windowDimensions=[1, 1] padding=[1, 1, 1, 1]", "layout=nhwc"),
        ("maxPool2d %3 windowDimensions=[2, 2] strides=[5, 5] outputShapeRounding=ceil", "layout=nhwc"),
    ] {
        let mut graph = parse(&format!(
            "%0 = input x int8 [1, 4, 4, 2]
             %1 = constant float32 [1, 1, 1, 1] 0.5
             %2 = constant int8 [1, 1, 1, 1] 7
             %3 = dequantizeLinear %0 %1 %2
             %4 = {value} {axes}
             %5 = quantizeLinear %4 %1 %2
             output y = %5"
        ));
        let before = operators(&graph);
        pass(&mut graph);
        assert_eq!(operators(&graph), before);
    }
}

#[test]
fn joined_tensors_stay_bytes() {
    let text = "%0 = input x uint8 [2, 300]
         %1 = input z uint8 [2, 200]
         %2 = constant float32 [1, 1] 0.5
         %3 = constant uint8 [1, 1] 7
         %4 = constant float32 [1, 1] 0.3
         %5 = dequantizeLinear %0 %2 %3
         %6 = dequantizeLinear %1 %4 %3
         %7 = concat %5 %6 axis=1
         %8 = quantizeLinear %7 %2 %3
         output y = %8";
    check_pass(
        pass,
        text,
        "%0 = input x uint8 [2, 300]
         %1 = input z uint8 [2, 200]
         %2 = constant float32 [1, 1]
         %3 = constant uint8 [1, 1]
         %4 = dequantizeLinear %1 %2 %3
         %5 = constant float32 [1, 1]
         %6 = quantizeLinear %4 %5 %3
         %7 = concat %0 %6 axis=1
         output y = %7",
    );
    check(&parse(text), Tolerance::ulps(1));
}

#[test]
fn tensors_are_joined_again_and_again() {
    let mut graph = parse(
        "%0 = input x uint8 [2, 300]
         %1 = input z uint8 [2, 200]
         %2 = constant float32 [1, 1] 0.5
         %3 = constant uint8 [1, 1] 7
         %4 = constant float32 [1, 1] 0.3
         %5 = dequantizeLinear %0 %2 %3
         %6 = dequantizeLinear %1 %4 %3
         %7 = concat %5 %6 axis=1
         %8 = quantizeLinear %7 %2 %3
         %9 = dequantizeLinear %8 %2 %3
         %10 = dequantizeLinear %1 %4 %3
         %11 = concat %9 %10 axis=1
         %12 = quantizeLinear %11 %2 %3
         output y = %12",
    );
    check(&graph, Tolerance::ulps(1));
    pass(&mut graph);
    let joined = graph.nodes.iter().filter(|node| matches!(node.op, Api(Op::Concat(_))));
    let types: Vec<DataType> = joined.map(|node| graph.descriptor(node.outputs[0]).dtype).collect();
    assert_eq!(types, [DataType::Uint8; 2]);
}

#[test]
fn products_of_two_computed_tensors_of_bytes() {
    let text = "%0 = input x uint8 [3, 5, 6]
         %1 = input z uint8 [3, 6, 70]
         %2 = constant float32 [1, 1, 1] 0.5
         %3 = constant uint8 [1, 1, 1] 7
         %4 = dequantizeLinear %0 %2 %3
         %5 = dequantizeLinear %1 %2 %3
         %6 = matmul %4 %5
         %7 = constant float32 [1, 1, 1] 60
         %8 = quantizeLinear %6 %7 %3
         output y = %8";
    let mut graph = parse(text);
    pass(&mut graph);
    assert_eq!(operators(&graph), ["quantizedMatmul"]);
    check(&parse(text), Tolerance::ulps(1));
}

#[test]
fn products_of_integers_become_quantized_products() {
    let text = |addend: &str| {
        format!(
            "%0 = input x uint8 [1, 5, 6, 3]
             %1 = constant int8 [4, 3, 3, 3]
             %2 = constant uint8 [] 7
             %3 = constant int8 [4] 1 0 -2 3
             %4 = convInteger %0 %1 %2 %3 padding=[1, 1, 1, 1] inputLayout=nhwc
             %5 = constant int32 [4] 70 -3000 0 12
             %6 = {addend}
             %7 = cast %6 dataType=float32
             %8 = constant float32 [4] 0.001 0.002 0.003 0.001
             %9 = mul %7 %8
             %10 = constant float32 [1, 1, 1, 1] 1
             %11 = constant uint8 [1, 1, 1, 1] 21
             %12 = quantizeLinear %9 %10 %11
             output y = %12"
        )
    };
    let mut graph = parse(&text("add %4 %5"));
    pass(&mut graph);
    assert_eq!(operators(&graph), ["quantizedConv2d"]);
    check(&parse(&text("add %4 %5")), Tolerance::ulps(1));
    // Another product remains one of integers.
    let mut graph = parse(&text("mul %4 %5"));
    pass(&mut graph);
    assert_eq!(operators(&graph)[0], "convInteger");
}
