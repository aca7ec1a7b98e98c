//! Matrix products and vector math against the measured peak of one core. Run with
//! `cargo bench --no-default-features --bench gemm`; the peak is measured in the same run, because neighbours
//! on the machine change it.

use std::hint::black_box;
use std::time::Instant;
use webnn_node::cpu::simd::{Isa, Kernel, Simd, math};
use webnn_node::cpu::steps::Env;
use webnn_node::cpu::steps::matmul::{MatmulShape, MatmulStep, MatrixStrides};
use webnn_node::cpu::threads::Threads;

/// The best time of one call, in seconds, over about a fifth of a second.
fn best(mut work: impl FnMut()) -> f64 {
    let (start, mut best) = (Instant::now(), f64::INFINITY);
    while start.elapsed().as_secs_f64() < 0.2 {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

/// Independent fused multiply-adds that only touch registers.
struct Peak(usize);

impl Kernel for Peak {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let mut sums = [simd.splat(0.0); 12];
        let (a, b) = (simd.splat(black_box(0.5)), simd.splat(black_box(1.0)));
        for _ in 0..self.0 {
            for sum in &mut sums {
                *sum = simd.mul_add(*sum, a, b);
            }
        }
        sums.iter().map(|&sum| simd.sum(sum)).sum::<f32>() + S::LANES as f32
    }
}

struct Lanes;

impl Kernel for Lanes {
    type Output = usize;
    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> usize {
        S::LANES
    }
}

fn peak(isa: Isa) -> f64 {
    let rounds = 100_000;
    let seconds = best(|| _ = black_box(isa.run(Peak(rounds))));
    (rounds * 12 * 2 * isa.run(Lanes)) as f64 / seconds / 1e9
}

fn naive(size: usize) -> f64 {
    let (a, b) = (vec![1.0f32; size * size], vec![1.0f32; size * size]);
    let mut out = vec![0.0f32; size * size];
    let seconds = best(|| {
        for i in 0..size {
            for j in 0..size {
                out[i * size + j] = (0..size).map(|k| a[i * size + k] * b[k * size + j]).sum();
            }
        }
        black_box(&out);
    });
    2.0 * (size as f64).powi(3) / seconds / 1e9
}

#[derive(Clone, Copy, PartialEq)]
enum Weights {
    Packed,
    Plain,
    Transposed,
}

fn product(env: &Env, [m, k, n]: [usize; 3], weights: Weights) -> f64 {
    let (a, b) = (vec![0.5f32; m * k], vec![0.25f32; k * n]);
    let mut out = vec![0.0; m * n];
    let mut shape = MatmulShape::plain(m, k, n);
    if weights == Weights::Transposed {
        shape.b = MatrixStrides { batch: vec![], row: 1, col: k };
    }
    let mut step = MatmulStep::new(env.isa, env.threads.count(), shape);
    if weights == Weights::Packed {
        step.prepack_b(&b);
    }
    let mut scratch = vec![0.0; step.scratch_len()];
    let seconds = best(|| {
        step.run(env, [&a, &b], None, None, &mut out, &mut scratch);
        black_box(&out);
    });
    2.0 * (m * k * n) as f64 / seconds / 1e9
}

struct Elements<'a>(&'static str, &'a mut [f32]);

impl Kernel for Elements<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let xs = self.1;
        match self.0 {
            "exp" => xs.iter_mut().for_each(|x| *x = math::exp(simd, *x)),
            "log" => xs.iter_mut().for_each(|x| *x = math::log(simd, *x)),
            "erf" => xs.iter_mut().for_each(|x| *x = math::erf(simd, *x)),
            "tanh" => xs.iter_mut().for_each(|x| *x = math::tanh(simd, *x)),
            "gelu" => xs.iter_mut().for_each(|x| *x = math::gelu(simd, *x)),
            "softplus" => xs.iter_mut().for_each(|x| *x = math::softplus(simd, *x)),
            _ => math::sin_slice(simd, xs),
        }
    }
}

fn main() {
    let one = Threads::new(1).expect("a thread pool");
    for isa in Isa::available() {
        let env = Env { threads: &one, isa };
        let peak = peak(isa);
        println!("{}: peak {peak:.1} GFLOP/s, naive 256^3 {:.2}", isa.name(), naive(256));
        let rate =
            |what: String, rate: f64| println!("  {what:40} {rate:7.1} GFLOP/s, {:3.0} % of peak", rate / peak * 100.0);
        for size in [[64; 3], [256; 3], [1024; 3], [1, 1024, 1024], [8, 1024, 1024], [32, 768, 3072], [128, 64, 128]] {
            for (weights, name) in
                [(Weights::Packed, "packed"), (Weights::Plain, "plain"), (Weights::Transposed, "transposed")]
            {
                rate(format!("{size:?} {name}"), product(&env, size, weights));
            }
        }
        for name in ["exp", "log", "erf", "tanh", "gelu", "softplus", "sin"] {
            let mut xs: Vec<f32> = (0..4096).map(|i| i as f32 * 1e-3 + 0.1).collect();
            let seconds = best(|| {
                xs.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32 * 1e-3 + 0.1);
                isa.run(Elements(name, black_box(&mut xs)));
            });
            println!("  {name:40} {:7.3} ns per element", seconds / 4096.0 * 1e9);
        }
    }
}
