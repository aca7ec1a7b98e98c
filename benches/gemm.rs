//! Matrix products and vector math against the measured peak of one core. Run with
//! `cargo bench --no-default-features --bench gemm`; the peak is measured in the same run, because neighbours
//! on the machine change it.

use std::hint::black_box;
use std::time::Instant;
use webnn_node::cpu::simd::{Isa, Kernel, Simd, math};
use webnn_node::cpu::steps::Env;
use webnn_node::cpu::steps::conv_transpose2d::{ConvTranspose2dShape, ConvTranspose2dStep};
use webnn_node::cpu::steps::conv2d::{Conv2dShape, Conv2dStep};
use webnn_node::cpu::steps::matmul::{MatmulShape, MatmulStep, MatrixStrides};
use webnn_node::cpu::threads::Threads;
use webnn_node::cpu::weights::Weights;
use webnn_node::ops::conv_transpose2d::TransposedFilterLayout;
use webnn_node::ops::conv2d::FilterLayout;

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
        let mut sums = [simd.splat(0.0); 8];
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
    (rounds * 8 * 2 * isa.run(Lanes)) as f64 / seconds / 1e9
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
enum Kind {
    Packed,
    Plain,
    Transposed,
}

fn product(env: &Env, [m, k, n]: [usize; 3], weights: Kind) -> f64 {
    let (a, b) = (vec![0.5f32; m * k], vec![0.25f32; k * n]);
    let mut out = vec![0.0; m * n];
    let mut shape = MatmulShape::plain(m, k, n);
    if weights == Kind::Transposed {
        shape.b = MatrixStrides { batch: vec![], row: 1, col: k };
    }
    let mut step = MatmulStep::new(env.isa, env.threads.count(), shape);
    if weights == Kind::Packed {
        step.prepack_b(Weights::of_slice(&b)).expect("memory");
    }
    let mut scratch = vec![0.0; step.scratch_len()];
    let seconds = best(|| {
        step.run(env, [&a, &b], None, None, &mut out, &mut scratch);
        black_box(&out);
    });
    2.0 * (m * k * n) as f64 / seconds / 1e9
}

/// A square convolution with a constant filter, padded so that the size only shrinks by the stride.
fn convolution(
    env: &Env,
    channels: [usize; 2],
    size: usize,
    [filter, stride]: [usize; 2],
    groups: usize,
    channels_last: bool,
) -> f64 {
    let out = size / stride;
    let shape = Conv2dShape {
        batches: 1,
        groups,
        channels,
        input: [size; 2],
        filter: [filter; 2],
        output: [out; 2],
        strides: [stride; 2],
        dilations: [1; 2],
        padding: [filter / 2; 2],
        channels_last,
        layout: FilterLayout::Oihw,
    };
    let weights = channels[1] * channels[0] / groups * filter * filter;
    let mut step = Conv2dStep::new(env.isa, env.threads.count(), shape);
    step.prepack(Weights::of_slice(&vec![0.25f32; weights]), None).expect("memory");
    let (x, mut y) = (vec![0.5f32; channels[0] * size * size], vec![0.0; channels[1] * out * out]);
    let bias = vec![1.0; channels[1]];
    let mut scratch = vec![0.0; step.scratch_len()];
    let seconds = best(|| {
        step.run(env, [&x, &[]], Some(&bias), None, &mut y, &mut scratch);
        black_box(&y);
    });
    2.0 * (weights * out * out) as f64 / seconds / 1e9
}

/// 64 to 32 channels, 28 by 28 to 56 by 56, filter 4, stride 2.
fn transposed_convolution(env: &Env, channels_last: bool) -> f64 {
    let shape = ConvTranspose2dShape {
        batches: 1,
        groups: 1,
        channels: [64, 32],
        input: [28; 2],
        filter: [4; 2],
        output: [56; 2],
        strides: [2; 2],
        dilations: [1; 2],
        padding: [1; 2],
        channels_last,
        layout: TransposedFilterLayout::Iohw,
    };
    let mut step = ConvTranspose2dStep::new(env.isa, env.threads.count(), shape).expect("memory");
    step.prepack(Weights::of_slice(&vec![0.25f32; 64 * 32 * 16])).expect("memory");
    let (x, mut y) = (vec![0.5f32; 64 * 28 * 28], vec![0.0; 32 * 56 * 56]);
    let mut scratch = vec![0.0; step.scratch_len()];
    let seconds = best(|| {
        step.run(env, [&x, &[]], None, None, &mut y, &mut scratch);
        black_box(&y);
    });
    2.0 * (64 * 32 * 16 * 28 * 28) as f64 / seconds / 1e9
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
        for size in [
            [64; 3],
            [256; 3],
            [1024; 3],
            [1, 1024, 1024],
            [8, 1024, 1024],
            [32, 768, 3072],
            [128, 64, 128],
            [1, 768, 50257],
        ] {
            for (weights, name) in [(Kind::Packed, "packed"), (Kind::Plain, "plain"), (Kind::Transposed, "transposed")]
            {
                rate(format!("{size:?} {name}"), product(&env, size, weights));
            }
        }
        for (channels, size, filter, groups) in [
            ([3, 64], 224, [3, 2], 1),
            ([64, 16], 56, [1, 1], 1),
            ([16, 64], 56, [3, 1], 1),
            ([64, 64], 56, [3, 1], 1),
            ([128, 128], 28, [3, 1], 1),
            ([64, 256], 14, [3, 1], 1),
            ([512, 1000], 14, [1, 1], 1),
            ([96, 96], 56, [3, 1], 96),
            ([96, 96], 56, [3, 2], 96),
        ] {
            for (last, name) in [(false, "nchw"), (true, "nhwc")] {
                rate(
                    format!("conv {channels:?} {size} {filter:?} /{groups} {name}"),
                    convolution(&env, channels, size, filter, groups, last),
                );
            }
        }
        rate("transposed conv nchw".into(), transposed_convolution(&env, false));
        rate("transposed conv nhwc".into(), transposed_convolution(&env, true));
        for name in ["exp", "log", "erf", "tanh", "gelu", "softplus", "sin"] {
            let from: Vec<f32> = (0..4096).map(|i| i as f32 * 1e-3 + 0.1).collect();
            let mut xs = from.clone();
            let seconds = best(|| {
                xs.copy_from_slice(&from);
                isa.run(Elements(name, black_box(&mut xs)));
            });
            println!("  {name:40} {:7.3} ns per element", seconds / 4096.0 * 1e9);
        }
    }
}
