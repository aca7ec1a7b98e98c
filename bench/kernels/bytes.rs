//! Products and convolutions of 8-bit integers, from bytes to bytes, beside the same on float32.

use crate::graph::best_run;
use crate::report::{Beside, Report, Work};
use webnn_node::cpu::steps::Env;

/// Rows and columns of the first matrix, columns of the second.
const PRODUCTS: [[usize; 3]; 7] = [
    [1, 1024, 1024],
    [1, 768, 50257],
    [8, 1024, 1024],
    [128, 384, 1536],
    [384, 512, 512],
    [128, 768, 3072],
    [3136, 27, 32],
];

/// Input and output channels, size of the image, filter, stride.
const CONVOLUTIONS: [[usize; 5]; 6] = [
    [3, 32, 224, 3, 2],
    [256, 64, 56, 1, 1],
    [64, 64, 56, 3, 1],
    [256, 256, 14, 3, 1],
    [512, 512, 7, 3, 1],
    [960, 320, 7, 1, 1],
];

/// Prints the products and convolutions.
pub fn measure(report: &mut Report, env: &Env) {
    report.family("bytes");
    for [m, k, n] in PRODUCTS {
        let operands = [format!("[{m}, {k}]"), format!("[{k}, {n}]")];
        let (name, op) = (format!("bytes product {:?}", [m, k, n]), "matmul %3 %6");
        line(report, env, &name, &operands, "[1, 1]", op, m * k * n);
    }
    for [inputs, outputs, size, filter, stride] in CONVOLUTIONS {
        let (before, after, out) = (filter / 2, (filter - 1) / 2, size.div_ceil(stride));
        let operands = [format!("[1, {size}, {size}, {inputs}]"), format!("[{outputs}, {inputs}, {filter}, {filter}]")];
        let name = format!("bytes convolution {inputs}>{outputs} {size}x{size} filter {filter} stride {stride}");
        let op = format!(
            "conv2d %3 %6 padding=[{before}, {after}, {before}, {after}] strides=[{stride}, {stride}] inputLayout=nhwc"
        );
        line(report, env, &name, &operands, "[1, 1, 1, 1]", &op, inputs * outputs * filter * filter * out * out);
    }
}

/// Prints the line of `op`, which multiplies `%3` and `%6`. Scales have the shape `one`.
fn line(
    report: &Report,
    env: &Env,
    name: &str,
    [left, right]: &[String; 2],
    one: &str,
    op: &str,
    multiply_adds: usize,
) {
    if !report.wants(name) {
        return;
    }
    let bytes = format!(
        "%0 = input x uint8 {left}
         %1 = constant float32 {one} 0.02
         %2 = constant uint8 {one} 128
         %3 = dequantizeLinear %0 %1 %2
         %4 = constant int8 {right}
         %5 = constant int8 {one} 0
         %6 = dequantizeLinear %4 %1 %5
         %7 = {op}
         %8 = constant float32 {one} 0.5
         %9 = quantizeLinear %7 %8 %2
         output y = %9"
    );
    let floats = format!("%3 = input x float32 {left}\n%6 = constant float32 {right}\n%7 = {op}\noutput y = %7");
    let beside = Beside { float: Some(best_run(&floats, env).0), ..Beside::default() };
    report.line(name, best_run(&bytes, env).0, Work::MultiplyAdds(multiply_adds), beside);
}
