//! Data movement, and pooling.

use crate::graph::best_run;
use crate::naive;
use crate::report::{Beside, Report, Work};
use std::hint::black_box;
use webnn_node::cpu::steps::Env;

/// Name, definition of the input, nodes from `%0` to `%8`.
const CASES: [(&str, &str, &str); 14] = [
    ("transpose [1024, 1024]", "float32 [1024, 1024]", "%8 = transpose %0"),
    ("transpose [1, 128, 12, 32], heads", "float32 [1, 128, 12, 32]", "%8 = transpose %0 permutation=[0, 2, 1, 3]"),
    (
        "transpose [1, 128, 12, 32], heads and columns",
        "float32 [1, 128, 12, 32]",
        "%8 = transpose %0 permutation=[0, 2, 3, 1]",
    ),
    (
        "transpose [1, 64, 56, 56], channels last",
        "float32 [1, 64, 56, 56]",
        "%8 = transpose %0 permutation=[0, 2, 3, 1]",
    ),
    (
        "transpose [1, 56, 56, 64], channels first",
        "float32 [1, 56, 56, 64]",
        "%8 = transpose %0 permutation=[0, 3, 1, 2]",
    ),
    ("transpose [1024, 1024] of float16", "float16 [1024, 1024]", "%8 = transpose %0"),
    ("transpose [1024, 1024] of bytes", "uint8 [1024, 1024]", "%8 = transpose %0"),
    (
        "transpose [1, 56, 56, 64] of float16, channels first",
        "float16 [1, 56, 56, 64]",
        "%8 = transpose %0 permutation=[0, 3, 1, 2]",
    ),
    (
        "transpose [1, 64, 56, 56] of bytes, channels last",
        "uint8 [1, 64, 56, 56]",
        "%8 = transpose %0 permutation=[0, 2, 3, 1]",
    ),
    ("concat of columns", "float32 [512, 384]", "%1 = input z float32 [512, 384]\n%8 = concat %0 %1 axis=1"),
    ("slice of columns", "float32 [512, 768]", "%8 = slice %0 starts=[0, 100] sizes=[512, 384]"),
    (
        "maxPool2d 64 112x112 window 3 stride 2",
        "float32 [1, 64, 112, 112]",
        "%8 = maxPool2d %0 windowDimensions=[3, 3] strides=[2, 2] padding=[1, 0, 1, 0]",
    ),
    ("averagePool2d 1280 7x7, whole images", "float32 [1, 1280, 7, 7]", "%8 = averagePool2d %0"),
    ("resample2d 320 32x32 to 64x64", "float32 [1, 320, 32, 32]", "%8 = resample2d %0 sizes=[64, 64]"),
];

/// Prints the operators.
pub fn measure(report: &mut Report, env: &Env) {
    report.family("movement");
    for (name, input, nodes) in CASES {
        if report.wants(name) {
            let (seconds, bytes) = best_run(&format!("%0 = input x {input}\n{nodes}\noutput y = %8"), env);
            let naive = (name == CASES[0].0).then(|| transpose(1024));
            report.line(name, seconds, Work::Bytes(bytes), Beside { naive, ..Beside::default() });
        }
    }
}

/// A naive loop for a square matrix.
fn transpose(size: usize) -> f64 {
    let (x, mut y) = (vec![0.5f32; size * size], vec![0.0f32; size * size]);
    naive::seconds(|| {
        for (row, y) in y.chunks_exact_mut(size).enumerate() {
            y.iter_mut().enumerate().for_each(|(column, y)| *y = x[column * size + row]);
        }
        black_box(&y);
    })
}
