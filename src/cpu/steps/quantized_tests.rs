use crate::compile::Passes;
use crate::cpu::arena::Arena;
use crate::cpu::schedule::pool::Threads;
use crate::cpu::simd::Isa;
use crate::cpu::steps::{Env, Run};
use crate::dtype::Number;
use crate::ir::parse;
use crate::ops::tensor::Tensor;
use crate::testing::{Random, Tolerance, check, check_with, optimized};
use proptest::prelude::*;

/// A quantized convolution in terms of the draft.
struct Convolution {
    types: [&'static str; 3],
    groups: usize,
    /// Input and output channels per group.
    channels: [usize; 2],
    input: [usize; 2],
    filter: [usize; 2],
    options: String,
    /// Whether the output is quantized.
    quantized: bool,
    /// The zero point of the filter; its numbers are in -64..=63, or in 0..=127.
    zero: i32,
}

impl Convolution {
    fn text(&self, layout: &str) -> String {
        let Convolution { types: [x, w, y], groups, channels: [i, o], input: [h, wide], filter, options, .. } = self;
        let (inputs, outputs, [kh, kw]) = (groups * i, groups * o, filter);
        let shape = if layout == "nhwc" { [2, *h, *wide, inputs] } else { [2, inputs, *h, *wide] };
        let steps = ((i * kh * kw) as f32).sqrt() * 0.3;
        let mut text = format!(
            "%0 = input x {x} {shape:?}
             %1 = constant float32 [1, 1, 1, 1] 0.021
             %2 = constant {x} [1, 1, 1, 1] 53
             %3 = dequantizeLinear %0 %1 %2
             %4 = constant {w} [{outputs}, {i}, {kh}, {kw}]
             %5 = constant float32 [{outputs}, 1, 1, 1] 0.011 0.013 0.007
             %6 = constant {w} [{outputs}, 1, 1, 1] {} 0 {}
             %7 = dequantizeLinear %4 %5 %6
             %8 = constant float32 [{outputs}]
             %9 = conv2d %3 %7 %8 groups={groups} inputLayout={layout} {options}\n",
            self.zero, self.zero
        );
        match self.quantized {
            false => text += "%10 = relu %9\noutput y = %10",
            true => {
                text += &format!(
                    "%10 = clamp %9 minValue=-1.5 maxValue=6
                     %11 = constant float32 [1, 1, 1, 1] {:?}
                     %12 = constant {y} [1, 1, 1, 1] 21
                     %13 = quantizeLinear %10 %11 %12
                     output y = %13",
                    steps * 0.05
                );
            }
        }
        text
    }

    fn check(&self) {
        for layout in ["nhwc", "nchw"] {
            // The graph as built sums a few hundred products of up to 12 in float32.
            let tolerance = if self.quantized { Tolerance::ulps(1) } else { Tolerance::ulps(2).or_absolute(1e-4) };
            check(&parse(&self.text(layout)), tolerance);
        }
    }
}

#[test]
fn convolutions_of_every_kind() {
    let cases = [
        (1, [1, 1], [1, 1], [1, 1], ""),
        (1, [16, 70], [5, 6], [1, 1], ""),
        (1, [7, 33], [5, 6], [1, 1], "strides=[2, 2]"),
        (1, [3, 20], [9, 10], [3, 3], "padding=[1, 1, 1, 1] strides=[2, 2]"),
        (2, [4, 17], [6, 7], [3, 2], "padding=[0, 1, 2, 0] dilations=[2, 2]"),
        (70, [1, 1], [7, 9], [3, 3], "padding=[1, 1, 1, 1]"),
        (40, [1, 1], [8, 9], [3, 3], "padding=[0, 1, 0, 1] strides=[2, 2]"),
        (5, [1, 1], [9, 9], [5, 5], "padding=[2, 2, 2, 2] dilations=[1, 2]"),
        (3, [1, 2], [6, 6], [2, 2], ""),
    ];
    let types = [["uint8", "int8", "uint8"], ["int8", "int8", "int8"], ["uint8", "uint8", "int8"]];
    for (index, (groups, channels, input, filter, options)) in cases.into_iter().enumerate() {
        for (turn, types) in types.into_iter().enumerate() {
            let (options, quantized) = (options.to_string(), (index + turn) % 3 > 0);
            let zero = if types[1] == "int8" { 0 } else { 250 };
            Convolution { types, groups, channels, input, filter, options, quantized, zero }.check();
        }
    }
}

#[test]
fn padding_and_dilations_beyond_any_table() {
    let options = "padding=[0, 0, 4294967295, 0] dilations=[1, 4294967295]".to_string();
    let [x, w, y] = ["uint8", "int8", "uint8"];
    let base = Convolution {
        types: [x, w, y],
        groups: 2,
        channels: [1, 1],
        input: [2, 2],
        filter: [2, 2],
        options,
        quantized: true,
        zero: 0,
    };
    base.check();
}

fn product(rows: usize, depth: usize, columns: usize, [x, w, y]: [&str; 3], transposed: bool) {
    let (shape, axis) = match transposed {
        true => ([columns, depth], [columns, 1]),
        false => ([depth, columns], [1, columns]),
    };
    check(
        &parse(&format!(
            "%0 = input x {x} [{rows}, {depth}]
             %1 = constant float32 [1, 1] 0.021
             %2 = constant {x} [1, 1] 53
             %3 = dequantizeLinear %0 %1 %2
             %4 = constant {w} {shape:?}
             %5 = constant float32 {axis:?} 0.011 0.013 0.007
             %6 = constant {w} {axis:?} 3 0 5
             %7 = dequantizeLinear %4 %5 %6
             %8 = constant float32 [{columns}]
             %9 = gemm %3 %7 %8 bTranspose={transposed}
             %10 = constant float32 [1, 1] 0.3
             %11 = constant {y} [1, 1] 21
             %12 = quantizeLinear %9 %10 %11
             output y = %12"
        )),
        Tolerance::ulps(1),
    );
}

#[test]
fn products_at_the_edges_of_tiles() {
    for (rows, depth, columns) in [(1, 1, 1), (1, 130, 300), (13, 5, 65), (7, 64, 16), (100, 30, 33), (25, 3, 129)] {
        product(rows, depth, columns, ["uint8", "int8", "uint8"], true);
        product(rows, depth, columns, ["int8", "uint8", "int8"], false);
    }
}

#[test]
fn products_with_computed_zero_points_and_factors() {
    let sizes = [(1, 130, 300), (13, 5, 65), (100, 30, 33), (25, 3, 129)];
    for (index, (rows, depth, columns)) in sizes.into_iter().enumerate() {
        let [x, w] = [["uint8", "int8"], ["int8", "uint8"], ["int8", "int8"], ["uint8", "uint8"]][index];
        let factor = ["[]".to_string(), format!("[{columns}]")][index % 2].clone();
        let text = format!(
            "%0 = input x {x} [{rows}, {depth}]
             %1 = input z {x} [1, 1]
             %2 = input s float32 {factor}
             %3 = constant float32 [1, 1] 0.021
             %4 = dequantizeLinear %0 %3 %1
             %5 = constant {w} [{depth}, {columns}]
             %6 = constant float32 [1, {columns}] 0.011 0.013 0.007
             %7 = constant {w} [1, {columns}] 3 0 5
             %8 = dequantizeLinear %5 %6 %7
             %9 = matmul %4 %8
             %10 = mul %9 %2
             %11 = constant float32 [{columns}]
             %12 = add %10 %11
             output y = %12"
        );
        let graph = parse(&text);
        // The graph as built sums a few hundred products of up to 15 in float32, and scales them by up to 4.
        check(&graph, Tolerance::ulps(4).or_absolute(2e-3));
        let mut random = Random::new(1);
        let mut inputs: std::collections::HashMap<_, _> =
            graph.inputs.iter().map(|(name, id)| (name.clone(), random.tensor(graph.descriptor(*id)))).collect();
        let nan = Tensor::from_fn(&inputs["s"].descriptor(), |_| Number::Float(f64::NAN));
        inputs.insert("s".to_string(), nan);
        check_with(&graph, &inputs, Tolerance::EXACT);
    }
}

#[test]
fn convolutions_with_computed_zero_points_and_factors() {
    let cases = [
        (["uint8", "int8"], [3, 20], [3, 3], "padding=[1, 1, 1, 1] strides=[2, 2]"),
        (["int8", "uint8"], [16, 70], [1, 1], ""),
        (["uint8", "uint8"], [5, 17], [3, 2], "padding=[0, 1, 2, 0] dilations=[2, 2]"),
        (["int8", "int8"], [1, 1], [3, 3], "padding=[1, 1, 1, 1]"),
    ];
    for (index, ([x, w], [i, o], [height, width], options)) in cases.into_iter().enumerate() {
        for layout in ["nhwc", "nchw"] {
            let (shape, along) = match layout {
                "nhwc" => (format!("[2, 7, 9, {i}]"), format!("[{o}]")),
                _ => (format!("[2, {i}, 7, 9]"), format!("[{o}, 1, 1]")),
            };
            let factor = if index % 2 == 0 { along.clone() } else { "[]".to_string() };
            let text = format!(
                "%0 = input x {x} {shape}
                 %1 = input z {x} [1, 1, 1, 1]
                 %2 = input s float32 {factor}
                 %3 = constant float32 [1, 1, 1, 1] 0.021
                 %4 = dequantizeLinear %0 %3 %1
                 %5 = constant {w} [{o}, {i}, {height}, {width}]
                 %6 = constant float32 [{o}, 1, 1, 1] 0.011 0.013 0.007
                 %7 = constant {w} [{o}, 1, 1, 1] 3 0 5
                 %8 = dequantizeLinear %5 %6 %7
                 %9 = conv2d %4 %8 inputLayout={layout} {options}
                 %10 = mul %2 %9
                 %11 = constant float32 {along}
                 %12 = add %10 %11
                 output y = %12"
            );
            let graph = parse(&text);
            let threads = Threads::new(1).unwrap();
            let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
            let optimized = optimized(&parse(&text), &env, Passes::ALL);
            let names: Vec<&str> = optimized.nodes.iter().map(|node| node.op.rule().name).collect();
            assert!(names.contains(&"quantizedConv2d") && !names.contains(&"add"), "{names:?}");
            // The graph as built sums a few hundred products of up to 15 in float32, and scales them by up to 4.
            check(&graph, Tolerance::ulps(4).or_absolute(2e-3));
        }
    }
}

#[test]
fn factors_after_grouped_convolutions() {
    for (groups, i, o) in [(16, 1, 16), (2, 3, 6), (1, 4, 5)] {
        let inputs = groups * i;
        for factor in ["[]".to_string(), format!("[{o}, 1, 1]")] {
            let text = format!(
                "%0 = input x uint8 [1, {inputs}, 7, 9]
                 %1 = input s float32 {factor}
                 %2 = constant float32 [1, 1, 1, 1] 0.021
                 %3 = constant uint8 [1, 1, 1, 1] 53
                 %4 = dequantizeLinear %0 %2 %3
                 %5 = constant int8 [{o}, {i}, 3, 3]
                 %6 = constant float32 [1, 1, 1, 1] 0.011
                 %7 = constant int8 [1, 1, 1, 1] 3
                 %8 = dequantizeLinear %5 %6 %7
                 %9 = conv2d %4 %8 groups={groups} padding=[1, 1, 1, 1]
                 %10 = mul %9 %1
                 %11 = constant float32 [{o}, 1, 1]
                 %12 = add %10 %11
                 output y = %12"
            );
            check(&parse(&text), Tolerance::ulps(4).or_absolute(2e-3));
        }
    }
}

#[test]
fn steps_name_their_kernels() {
    let threads = Threads::new(1).unwrap();
    let env = Env { threads: &threads, isa: Isa::best(), arena: &Arena::default() };
    for (groups, channels, filter, name) in
        [(1, [4, 4], [1, 1], "int8 gemm"), (1, [4, 4], [3, 3], "int8 im2col"), (4, [1, 1], [3, 3], "int8 depthwise")]
    {
        let (types, options) = (["uint8", "int8", "uint8"], String::new());
        let convolution =
            Convolution { types, groups, channels, input: [5, 5], filter, options, quantized: true, zero: 0 };
        let graph = parse(&convolution.text("nhwc"));
        let graph = optimized(&graph, &env, Passes::ALL);
        let [node] = &graph.nodes[..] else { panic!("one operator is left of\n{graph}") };
        assert_eq!(crate::cpu::lower::lower(&graph, node, None, &env, true).unwrap().step.kernel(), name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_convolutions(
        groups in 1usize..4, channels in prop::array::uniform2(1usize..6), depthwise: bool,
        input in prop::array::uniform2(1usize..12), filter in prop::array::uniform2(1usize..5),
        strides in prop::array::uniform2(1usize..4), dilations in prop::array::uniform2(1usize..3),
        padding in prop::array::uniform4(0usize..3), signs in prop::array::uniform3(any::<bool>()), quantized: bool,
        zero in -128i32..128,
    ) {
        for axis in 0..2 {
            let span = (filter[axis] - 1) * dilations[axis] + 1;
            prop_assume!(span <= input[axis] + padding[2 * axis] + padding[2 * axis + 1]);
        }
        let channels = if depthwise { [1, 1] } else { channels };
        let types = signs.map(|signed| if signed { "int8" } else { "uint8" });
        let zero = if signs[1] { zero } else { zero + 128 };
        let options = format!("strides={strides:?} dilations={dilations:?} padding={padding:?}");
        Convolution { types, groups, channels, input, filter, options, quantized, zero }.check();
    }
}
