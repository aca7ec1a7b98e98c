//! Products and convolutions of 8-bit integers, from bytes to bytes, beside the same on float32.

use crate::graph::best_run;
use crate::report::{Beside, Report, Work};
use machine_limits::best_of;
use webnn_node::cpu::product::formats::ByteFormat;
use webnn_node::cpu::product::int8::frame::{ByteCutting, ByteProduct};
use webnn_node::cpu::product::int8::panels::{ByteColumns, BytePanels};
use webnn_node::cpu::product::int8::{Rescale, To};
use webnn_node::cpu::schedule::tiles::{Matrices, Tiles};
use webnn_node::cpu::simd::dot::ToBytes;
use webnn_node::cpu::steps::Env;
use webnn_node::cpu::weights::Weights;
use webnn_node::memory::Buffer;

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

/// Channels, size of the image, stride, for a filter of 3 x 3.
const DEPTHWISE: [[usize; 3]; 4] = [[32, 112, 1], [144, 56, 1], [192, 28, 1], [192, 28, 2]];

/// Prints the products and convolutions.
pub fn measure(report: &mut Report, env: &Env) {
    report.family("bytes");
    for [m, k, n] in PRODUCTS {
        let operands = [format!("[{m}, {k}]"), format!("[{k}, {n}]")];
        let (name, op) = (format!("bytes product {:?}", [m, k, n]), "matmul %3 %6");
        line(report, env, &name, &operands, "[1, 1]", op, m * k * n);
    }
    formats(report, env);
    for [inputs, outputs, size, filter, stride] in CONVOLUTIONS {
        let (before, after, out) = (filter / 2, (filter - 1) / 2, size.div_ceil(stride));
        let operands = [format!("[1, {size}, {size}, {inputs}]"), format!("[{outputs}, {inputs}, {filter}, {filter}]")];
        let name = format!("bytes convolution {inputs}>{outputs} {size}x{size} filter {filter} stride {stride}");
        let op = format!(
            "conv2d %3 %6 padding=[{before}, {after}, {before}, {after}] strides=[{stride}, {stride}] inputLayout=nhwc"
        );
        line(report, env, &name, &operands, "[1, 1, 1, 1]", &op, inputs * outputs * filter * filter * out * out);
    }
    for [channels, size, stride] in DEPTHWISE {
        let operands = [format!("[1, {size}, {size}, {channels}]"), format!("[{channels}, 1, 3, 3]")];
        let name = format!("bytes depthwise {channels} {size}x{size} filter 3 stride {stride}");
        let op = format!(
            "conv2d %3 %6 padding=[1, 1, 1, 1] strides=[{stride}, {stride}] groups={channels} inputLayout=nhwc"
        );
        line(report, env, &name, &operands, "[1, 1, 1, 1]", &op, channels * 9 * (size / stride).pow(2));
    }
    for op in ["add", "mul"] {
        sum(report, env, op);
    }
}

/// Prints the line of an operator on two tensors of bytes with scales of their own.
fn sum(report: &Report, env: &Env, op: &str) {
    let name = format!("bytes {op} [56, 56, 256]");
    if !report.wants(&name) {
        return;
    }
    let text = format!(
        "%0 = input x uint8 [56, 56, 256]
         %1 = input z uint8 [56, 56, 256]
         %2 = constant float32 [1, 1, 1] 0.02
         %3 = constant float32 [1, 1, 1] 0.03
         %4 = constant uint8 [1, 1, 1] 128
         %5 = dequantizeLinear %0 %2 %4
         %6 = dequantizeLinear %1 %3 %4
         %7 = {op} %5 %6
         %8 = quantizeLinear %7 %3 %4
         output y = %8"
    );
    let (seconds, bytes) = best_run(&text, env);
    report.line(&name, seconds, Work::Bytes(bytes), Beside::default());
}

/// Prints a product in each format of the processor; the best one is that of the other lines.
fn formats(report: &Report, env: &Env) {
    let [rows, depth, columns] = [384, 512, 512];
    let (left, right) = (vec![3u8; rows * depth], vec![5u8; depth * columns]);
    let (places, zeros): (Vec<usize>, _) = ((0..depth).map(|k| k * columns).collect(), vec![0; columns]);
    let right = ByteColumns { bytes: &right, is_signed: true, stride: 1, places: &places, zeros: &zeros, lift: None };
    for format in ByteFormat::available(env.isa) {
        let sizes = format.sizes();
        let name = format!("bytes product {:?} as {} x {}", [rows, depth, columns], sizes.name, sizes.panel());
        if !report.wants(&name) {
            continue;
        }
        let mut data = Buffer::zeroed(BytePanels::bytes(format, columns, depth)).expect("memory");
        BytePanels::pack(format, &Weights::of_slice(right.bytes), &right, data.bytes_mut());
        let panels = BytePanels::of(format, columns, depth, data.bytes());
        let each = sizes.padded_columns(columns);
        let rescale = Rescale {
            start: vec![0; each].into(),
            zeros: Vec::new().into(),
            scale: vec![0.5; each].into(),
            bias: vec![0.0; each].into(),
            to: To::Bytes(ToBytes { zero: 128, low: 0, high: 255, flip: 0 }),
        };
        let product = ByteProduct {
            panels,
            columns: rescale,
            group: None,
            patches: None,
            flip: if sizes.is_signed { 0x80 } else { 0 },
        };
        let size = [rows, columns, depth];
        let grid =
            ByteCutting { format, batches: 1, size, groups: 1, element: 1, gathers: false }.grid(env.threads.count());
        let mut out = vec![0; rows * columns];
        let mut scratch = vec![0.0; env.threads.count() * product.scratch_bytes().div_ceil(64) * 16];
        let matrices = Matrices { batches: 1, batch_stride: 0, rows, row_stride: columns, cols: columns };
        let seconds = best_of(0.2, || {
            Tiles::new(&mut out, matrices, grid)
                .share(env.threads, usize::MAX, &mut scratch, |tile, scratch| product.run(&left, tile, scratch));
        });
        report.line(&name, seconds, Work::MultiplyAdds(rows * depth * columns), Beside::default());
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
