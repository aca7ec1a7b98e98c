//! Softmax, normalizations and reductions.

use crate::graph::best_run;
use crate::naive;
use crate::report::{Beside, Report, Work};
use webnn_node::cpu::steps::Env;

/// Prints the operators.
pub fn measure(report: &mut Report, env: &Env) {
    report.family("softmax, normalizations, reductions");
    for (name, shape, nodes, naive) in CASES {
        if report.wants(name) {
            let (seconds, bytes) = best_run(&format!("%0 = input x float32 {shape}\n{nodes}\noutput y = %8"), env);
            let naive = naive.map(|naive| naive());
            report.line(name, seconds, Work::Bytes(bytes), Beside { naive, ..Beside::default() });
        }
    }
}

/// Name, shape of the input, nodes, naive loop.
type Case = (&'static str, &'static str, &'static str, Option<fn() -> f64>);

const MATRIX: [usize; 2] = [512, 768];

const CASES: [Case; 18] = [
    ("softmax [512, 768] of rows", "[512, 768]", "%8 = softmax %0 axis=1", Some(|| naive::rows(MATRIX, softmax))),
    (
        "softmax [1536, 128] of rows",
        "[1536, 128]",
        "%8 = softmax %0 axis=1",
        Some(|| naive::rows([1536, 128], softmax)),
    ),
    ("softmax [7881, 50] of rows", "[7881, 50]", "%8 = softmax %0 axis=1", Some(|| naive::rows([7881, 50], softmax))),
    ("softmax [512, 768] of columns", "[512, 768]", "%8 = softmax %0 axis=0", None),
    (
        "layerNormalization [512, 768]",
        "[512, 768]",
        "%1 = constant float32 [768]\n%8 = layerNormalization %0 %1 %1 axes=[1]",
        Some(|| naive::rows(MATRIX, layer_normalization)),
    ),
    (
        "layerNormalization [128, 384]",
        "[128, 384]",
        "%1 = constant float32 [384]\n%8 = layerNormalization %0 %1 %1 axes=[1]",
        Some(|| naive::rows([128, 384], layer_normalization)),
    ),
    ("instanceNormalization [1, 32, 10240, 1]", "[1, 32, 10240, 1]", "%8 = instanceNormalization %0", None),
    (
        "batchNormalization [4, 128, 24, 32]",
        "[4, 128, 24, 32]",
        "%1 = constant float32 [128] 1.0\n%8 = batchNormalization %0 %1 %1",
        None,
    ),
    (
        "reduceSum [512, 768] of rows",
        "[512, 768]",
        "%8 = reduceSum %0 axes=[1]",
        Some(|| naive::rows(MATRIX, |x, y| y[0] = x.iter().sum())),
    ),
    ("reduceSum [32768, 12] of rows", "[32768, 12]", "%8 = reduceSum %0 axes=[1]", None),
    ("reduceSum [16384, 24] of rows", "[16384, 24]", "%8 = reduceSum %0 axes=[1]", None),
    ("reduceSum [8192, 50] of rows", "[8192, 50]", "%8 = reduceSum %0 axes=[1]", None),
    ("reduceMax [32768, 12] of rows", "[32768, 12]", "%8 = reduceMax %0 axes=[1]", None),
    ("reduceSum [512, 768] of columns", "[512, 768]", "%8 = reduceSum %0 axes=[0]", None),
    ("reduceMean [1, 1280, 7, 7] of images", "[1, 1280, 7, 7]", "%8 = reduceMean %0 axes=[2, 3]", None),
    (
        "reduceMax [512, 768] of rows",
        "[512, 768]",
        "%8 = reduceMax %0 axes=[1]",
        Some(|| naive::rows(MATRIX, |x, y| y[0] = x.iter().copied().fold(f32::NEG_INFINITY, f32::max))),
    ),
    ("argMax [512, 768] of rows", "[512, 768]", "%8 = argMax %0 axis=1", None),
    ("cumulativeSum [512, 768]", "[512, 768]", "%8 = cumulativeSum %0 axis=1", None),
];

fn softmax(x: &[f32], y: &mut [f32]) {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    y.iter_mut().zip(x).for_each(|(y, x)| *y = (x - max).exp());
    let sum: f32 = y.iter().sum();
    y.iter_mut().for_each(|y| *y /= sum);
}

fn layer_normalization(x: &[f32], y: &mut [f32]) {
    let count = x.len() as f32;
    let mean = x.iter().sum::<f32>() / count;
    let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / count;
    let scale = 1.0 / (variance + 1e-5).sqrt();
    y.iter_mut().zip(x).for_each(|(y, x)| *y = (x - mean) * scale * 1.5 + 0.5);
}
