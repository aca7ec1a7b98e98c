//! Convolutions with channels last and constant filters, at the shapes of well-known networks, against the peak of one
//! core that is measured beside each of them. Run with `cargo bench --no-default-features --bench conv [FILTER]`, where
//! `FILTER` is a part of a name; GFLOP/s count the multiply-adds of the definition, whatever the kernel does.

use std::hint::black_box;
use std::time::Instant;
use webnn_node::cpu::simd::{Isa, Kernel, Simd};
use webnn_node::cpu::steps::Env;
use webnn_node::cpu::steps::conv2d::{Conv2dShape, Conv2dStep};
use webnn_node::cpu::threads::Threads;
use webnn_node::cpu::weights::Weights;
use webnn_node::ops::conv2d::FilterLayout;

/// Independent fused multiply-adds that only touch registers; gives their number of floating-point operations.
struct Peak;

impl Kernel for Peak {
    type Output = usize;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> usize {
        let mut sums = [simd.splat(0.0); 8];
        let (a, b) = (simd.splat(black_box(0.5)), simd.splat(black_box(1.0)));
        const ROUNDS: usize = 4000;
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = simd.mul_add(*sum, a, b);
            }
        }
        black_box(sums.iter().map(|&sum| simd.sum(sum)).sum::<f32>());
        ROUNDS * 8 * 2 * S::LANES
    }
}

/// `channels`, `size`, `filter` and `stride` of a square convolution that is padded so that the size only shrinks by the
/// stride.
struct Case {
    channels: [usize; 2],
    size: usize,
    filter: usize,
    stride: usize,
    groups: usize,
}

const fn dense(from: usize, to: usize, size: usize, filter: usize, stride: usize) -> Case {
    Case { channels: [from, to], size, filter, stride, groups: 1 }
}

const fn depthwise(channels: usize, size: usize, filter: usize, stride: usize) -> Case {
    Case { channels: [channels, channels], size, filter, stride, groups: channels }
}

const CASES: &[Case] = &[
    // resnet50
    dense(3, 64, 224, 7, 2),
    dense(64, 64, 56, 3, 1),
    dense(128, 128, 56, 3, 2),
    dense(128, 128, 28, 3, 1),
    dense(256, 256, 28, 3, 2),
    dense(256, 256, 14, 3, 1),
    dense(512, 512, 14, 3, 2),
    dense(512, 512, 7, 3, 1),
    dense(256, 512, 56, 1, 2),
    dense(1024, 2048, 14, 1, 2),
    // mobilenet_v2
    dense(3, 32, 224, 3, 2),
    depthwise(32, 112, 3, 1),
    depthwise(96, 112, 3, 2),
    depthwise(144, 56, 3, 1),
    depthwise(144, 56, 3, 2),
    depthwise(192, 28, 3, 1),
    depthwise(192, 28, 3, 2),
    depthwise(384, 14, 3, 1),
    depthwise(576, 14, 3, 2),
    depthwise(960, 7, 3, 1),
    depthwise(240, 28, 5, 1),
    depthwise(96, 56, 7, 1),
    // The encoder of a U-Net.
    dense(320, 320, 32, 3, 1),
    dense(640, 640, 16, 3, 1),
];

impl Case {
    fn shape(&self) -> Conv2dShape {
        Conv2dShape {
            batches: 1,
            groups: self.groups,
            channels: self.channels,
            input: [self.size; 2],
            filter: [self.filter; 2],
            output: [self.size.div_ceil(self.stride); 2],
            strides: [self.stride; 2],
            dilations: [1; 2],
            padding: [(self.filter - 1) / 2; 2],
            channels_last: true,
            layout: FilterLayout::Oihw,
        }
    }

    fn name(&self) -> String {
        let Case { channels: [i, o], size, filter, stride, groups } = self;
        format!("{i}->{o}/{groups} {size}x{size} {filter}x{filter}/{stride}")
    }

    fn weights(&self) -> usize {
        self.channels[1] * self.channels[0] / self.groups * self.filter * self.filter
    }
}

fn fill(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i * 7 % 23) as f32 / 16.0 - 0.7).collect()
}

/// A convolution with everything it needs to run.
struct Running {
    step: Conv2dStep<f32>,
    x: Vec<f32>,
    y: Vec<f32>,
    bias: Vec<f32>,
    scratch: Vec<f32>,
}

impl Running {
    fn new(env: &Env, case: &Case) -> Running {
        let shape = case.shape();
        let (inputs, outputs) = (shape.input.iter().product::<usize>(), shape.output.iter().product::<usize>());
        let winograd = shape.winograd();
        let mut step = Conv2dStep::new(env.isa, env.threads.count(), shape);
        step.prepack(Weights::of_slice(&fill(case.weights())), winograd).expect("memory");
        Running {
            x: fill(case.channels[0] * inputs),
            y: vec![0.0; case.channels[1] * outputs],
            bias: vec![1.0; case.channels[1]],
            scratch: vec![0.0; step.scratch_len()],
            step,
        }
    }

    /// Seconds of one run.
    fn time(&mut self, env: &Env) -> f64 {
        let start = Instant::now();
        self.step.run(env, [&self.x, &[]], Some(&self.bias), None, &mut self.y, &mut self.scratch);
        black_box(&self.y);
        start.elapsed().as_secs_f64()
    }
}

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for count in [1, 2] {
        let threads = Threads::new(count).expect("a thread pool");
        let env = Env { threads: &threads, isa: Isa::best() };
        println!("{}, {count} threads", env.isa.name());
        for case in CASES.iter().filter(|case| case.name().contains(&wanted)) {
            let mut running = Running::new(&env, case);
            let (start, mut best, mut peak) = (Instant::now(), f64::INFINITY, 0.0f64);
            while start.elapsed().as_secs_f64() < 0.25 {
                best = best.min(running.time(&env));
                let start = Instant::now();
                let operations = env.isa.run(Peak);
                peak = peak.max(operations as f64 / start.elapsed().as_secs_f64() / 1e9);
            }
            let rate = 2.0 * (case.weights() * running.y.len() / case.channels[1]) as f64 / best / 1e9;
            println!(
                "  {:28} {:20} {:8.1} us {rate:7.1} GFLOP/s, {:3.0} % of a core's peak",
                case.name(),
                running.step.kernel(),
                best * 1e6,
                rate / peak * 100.0
            );
        }
    }
}
