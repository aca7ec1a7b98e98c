//! Matrix products of typical sizes: square, a few rows times large weights, attention.

use crate::graph::best_run;
use crate::naive;
use crate::report::{Beside, Report, Work};
use gemm_common::Parallelism;
use gemm_f32::gemm::f32::get_gemm_fn;
use std::hint::black_box;
use webnn_node::cpu::steps::Env;

/// The second matrix.
#[derive(Clone, Copy)]
enum Weights {
    /// A constant, packed when the graph is built.
    Constant,
    /// An input.
    Input,
    /// An input transposed in the graph.
    Transposed,
}

impl Weights {
    fn name(self) -> &'static str {
        match self {
            Weights::Constant => "constant",
            Weights::Input => "input",
            Weights::Transposed => "transposed",
        }
    }

    fn definition(self, k: usize, n: usize) -> String {
        match self {
            Weights::Constant => format!("%1 = constant float32 [{k}, {n}]"),
            Weights::Input => format!("%1 = input b float32 [{k}, {n}]"),
            Weights::Transposed => format!("%9 = input b float32 [{n}, {k}]\n%1 = transpose %9 permutation=[1, 0]"),
        }
    }
}

/// Rows and columns of the first matrix, columns of the second.
const SIZES: [[usize; 3]; 13] = [
    [64; 3],
    [256; 3],
    [1024; 3],
    [2048; 3],
    [1, 1024, 1024],
    [1, 768, 3072],
    [1, 768, 50257],
    [8, 1024, 1024],
    [32, 768, 3072],
    [128, 384, 1536],
    [128, 768, 768],
    [64, 576, 3136],
    [128, 64, 128],
];

/// Prints the products.
pub fn measure(report: &mut Report, env: &Env) {
    report.family("products [m, k, n]");
    for size in SIZES {
        let [m, k, n] = size;
        let wanted = [Weights::Constant, Weights::Input, Weights::Transposed]
            .map(|weights| (weights, format!("product {size:?} {}", weights.name())));
        if !wanted.iter().any(|(_, name)| report.wants(name)) {
            continue;
        }
        let (naive, gemm) = (naive::product(size), gemm_crate(size, env));
        for (weights, name) in wanted {
            if report.wants(&name) {
                let b = weights.definition(k, n);
                let text = format!("%0 = input a float32 [{m}, {k}]\n{b}\n%2 = matmul %0 %1\noutput y = %2");
                let (seconds, _) = best_run(&text, env);
                report.line(
                    &name,
                    seconds,
                    Work::MultiplyAdds(m * k * n),
                    Beside { naive, gemm: Some(gemm), float: None },
                );
            }
        }
    }
}

/// The best time of the `gemm` crate in seconds, on row-major matrices. Only its float32 part is built.
fn gemm_crate([m, k, n]: [usize; 3], env: &Env) -> f64 {
    let (a, b, mut out) = (vec![0.5f32; m * k], vec![0.25f32; k * n], vec![0.0f32; m * n]);
    let parallelism = match env.threads.count() {
        1 => Parallelism::None,
        threads => Parallelism::Rayon(threads),
    };
    let gemm = get_gemm_fn();
    naive::seconds(|| {
        // SAFETY: the pointers and strides are those of three row-major matrices of these sizes, and `out` does not
        // overlap the others.
        unsafe {
            gemm(
                m,
                n,
                k,
                out.as_mut_ptr(),
                1,
                n as isize,
                false,
                a.as_ptr(),
                1,
                k as isize,
                b.as_ptr(),
                1,
                n as isize,
                0.0,
                1.0,
                false,
                false,
                false,
                parallelism,
            );
        }
        black_box(&out);
    })
}
