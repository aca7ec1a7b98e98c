//! Products of the shapes that models have, with small depth, few columns or few rows, and functions of elements. Run with
//! `cargo bench --no-default-features --bench products [what]`; the peak and the read bandwidth are measured in the same
//! run.

use std::hint::black_box;
use std::time::Instant;
use webnn_node::cpu::kernels::elementwise::{binary_float, unary_float};
use webnn_node::cpu::kernels::gemm::Tail;
use webnn_node::cpu::simd::{Isa, Kernel, Simd};
use webnn_node::cpu::steps::Env;
use webnn_node::cpu::steps::matmul::{MatmulShape, MatmulStep, MatrixStrides};
use webnn_node::cpu::threads::Threads;
use webnn_node::cpu::weights::Weights;
use webnn_node::ops::elementwise::Elementwise as E;

/// The best time of one call, in seconds, over some time.
fn best(mut work: impl FnMut()) -> f64 {
    let (start, mut best) = (Instant::now(), f64::INFINITY);
    while start.elapsed().as_secs_f64() < 0.3 {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

/// Independent fused multiply-adds that only touch registers; gives their number.
struct Peak(usize);

impl Kernel for Peak {
    type Output = f64;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f64 {
        let mut sums = [simd.splat(0.0); 8];
        let (a, b) = (simd.splat(black_box(0.5)), simd.splat(black_box(1.0)));
        for _ in 0..self.0 {
            for sum in &mut sums {
                *sum = simd.mul_add(*sum, a, b);
            }
        }
        black_box(sums.iter().map(|&sum| simd.sum(sum)).sum::<f32>());
        (self.0 * 8 * 2 * S::LANES) as f64
    }
}

fn peak(isa: Isa) -> f64 {
    let mut count = 0.0;
    let seconds = best(|| count = isa.run(Peak(100_000)));
    count / seconds / 1e9
}

/// The sum of all floats.
struct Read<'a>(&'a [f32]);

impl Kernel for Read<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let mut sums = [simd.splat(0.0); 8];
        for xs in self.0.chunks_exact(8 * S::LANES) {
            for (sum, x) in sums.iter_mut().zip(xs.chunks_exact(S::LANES)) {
                *sum = simd.add(simd.load(x), *sum);
            }
        }
        sums.iter().map(|&sum| simd.sum(sum)).sum()
    }
}

/// `batch` products `[m, k] x [k, n]`, the right operand packed or not.
fn product(env: &Env, batch: usize, [m, k, n]: [usize; 3], packed: bool, peak: f64) {
    let (a, b) = (vec![0.5f32; batch * m * k], vec![0.25f32; batch * k * n]);
    let mut out = vec![0.0; batch * m * n];
    let strides = |matrix: usize, row| MatrixStrides { batch: vec![matrix], row, col: 1 };
    let shape =
        MatmulShape { batch: vec![batch], a: strides(m * k, k), b: strides(k * n, n), ..MatmulShape::plain(m, k, n) };
    let mut step = MatmulStep::new(env.isa, env.threads.count(), shape);
    if packed {
        step.prepack_b(Weights::of_slice(&b)).expect("memory");
    }
    let mut scratch = vec![0.0; step.scratch_len()];
    let seconds = best(|| {
        step.run(env, [&a, &b], None, Tail::NONE, &mut out, &mut scratch);
        black_box(&out);
    });
    let rate = 2.0 * (batch * m * k * n) as f64 / seconds / 1e9;
    let packed = if packed { "packed" } else { "" };
    println!("  {batch} x [{m}, {k}, {n}] {packed}: {rate:.1} GFLOP/s, {:.0} % of peak", rate / peak * 100.0);
}

/// Rows times many different matrices, so that each is read from memory: bytes of weights per second.
fn stream(env: &Env, [m, k, n]: [usize; 3], total: usize) {
    let count = (total / (k * n * 4)).max(1);
    let b: Vec<f32> = (0..k * n).map(|i| (i % 17) as f32).collect();
    let steps: Vec<_> = (0..count)
        .map(|index| {
            let mut step = MatmulStep::new(env.isa, env.threads.count(), MatmulShape::plain(m, k, n));
            let own: Vec<f32> = b.iter().map(|x| x + index as f32).collect();
            step.prepack_b(Weights::of_slice(&own)).expect("memory");
            step
        })
        .collect();
    let (a, mut out) = (vec![0.5f32; m * k], vec![0.0; m * n]);
    let mut scratch = vec![0.0; steps[0].scratch_len()];
    let seconds = best(|| {
        for step in &steps {
            step.run(env, [&a, &[]], None, Tail::NONE, &mut out, &mut scratch);
        }
        black_box(&out);
    });
    let rate = (count * k * n * 4) as f64 / seconds / 1e9;
    println!("  [{m}, {k}, {n}] {count} times, {} threads: {rate:.2} GB/s", env.threads.count());
}

fn elements(isa: Isa) {
    let x: Vec<f32> = (0..512).map(|i| i as f32 * 2e-2 - 5.0).collect();
    let mut out = vec![0.0; 512];
    let mut report = |name: &str, work: &dyn Fn(&mut [f32])| {
        let seconds = best(|| (0..100).for_each(|_| work(black_box(&mut out))));
        println!("  {name:12} {:7.3} ns per element", seconds / 51200.0 * 1e9);
    };
    for op in [
        E::Exp,
        E::Log,
        E::Erf,
        E::Tanh,
        E::Sigmoid,
        E::Gelu,
        E::Softplus,
        E::Elu { alpha: 1.0 },
        E::Sin,
        E::HardSwish,
        E::HardSigmoid { alpha: 0.2, beta: 0.5 },
        E::Linear { alpha: 0.5, beta: 1.0 },
        E::Relu,
        E::Sqrt,
        E::RoundEven,
    ] {
        report(op.name(), &|out| unary_float(isa, op, &x, out));
    }
    let positive: Vec<f32> = x.iter().map(|x| x.abs() + 0.1).collect();
    for (op, name, y) in [
        (E::Pow, "pow 2", 2.0),
        (E::Pow, "pow 3", 3.0),
        (E::Pow, "pow 2.25", 2.25),
        (E::Div, "div", 3.0),
        (E::Add, "add", 3.0),
    ] {
        report(name, &|out| binary_float(isa, op, &positive, &[y; 512], true, out));
    }
    report("pow", &|out| binary_float(isa, E::Pow, &positive, &x, false, out));
}

fn main() {
    let what: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |name: &str| what.is_empty() || what.iter().any(|other| other == name);
    let isa = Isa::detect().expect("a level");
    let pools = [1, 2].map(|count| Threads::new(count).expect("a thread pool"));
    let env = Env { threads: &pools[0], isa };
    if wanted("products") {
        for (batch, sizes, packed) in [
            (1, [1024; 3], true),
            (6, [1500, 64, 1500], false),
            (6, [1500, 1500, 64], false),
            (12, [128, 32, 128], false),
            (12, [128, 128, 32], false),
            (1, [128, 384, 1536], true),
            (1, [49, 512, 2048], true),
            (1, [49, 4608, 512], true),
            (1, [196, 1024, 256], true),
            (1, [3136, 64, 64], true),
            (1, [3136, 64, 256], true),
            (1, [3136, 256, 64], true),
            (1, [12544, 32, 16], true),
            (1, [12544, 16, 96], true),
            (1, [3136, 144, 24], true),
            (1, [784, 144, 40], true),
            (1, [784, 32, 192], true),
            (1, [196, 384, 64], true),
            (1, [49, 960, 160], true),
            (1, [49, 160, 960], true),
            (1, [49, 320, 1280], true),
            (1, [1, 1280, 1000], true),
            (4, [4096, 64, 77], false),
        ] {
            product(&env, batch, sizes, packed, peak(isa));
        }
    }
    if wanted("stream") {
        let buffer = vec![1.0f32; 100 << 20];
        let seconds = best(|| _ = black_box(isa.run(Read(&buffer))));
        println!("  read: {:.2} GB/s", buffer.len() as f64 * 4.0 / seconds / 1e9);
        drop(buffer);
        for threads in &pools {
            let env = Env { threads, isa };
            for sizes in [[1, 768, 2304], [1, 3072, 768], [1, 768, 50257], [4, 768, 3072], [8, 768, 3072]] {
                stream(&env, sizes, 400 << 20);
            }
        }
    }
    if wanted("elements") {
        elements(isa);
    }
}
