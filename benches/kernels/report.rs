//! The lines that are printed, and the limits of the machine in them.

use machine_limits::{best_on_threads, rates};
use std::hint::black_box;
use webnn_node::cpu::steps::Env;

/// Duration of the measurement of a copy, in seconds.
const COPY_SECONDS: f64 = 0.05;

/// What a time is compared with.
pub enum Work {
    /// So many multiply-adds.
    MultiplyAdds(usize),
    /// So many bytes that are read and written.
    Bytes(usize),
}

/// Measured beside a line.
#[derive(Default)]
pub struct Beside {
    /// Seconds that a naive loop takes for the same.
    pub naive: Option<f64>,
    /// Seconds that the `gemm` crate takes for the same.
    pub gemm: Option<f64>,
}

/// Prints lines.
pub struct Report {
    filter: String,
    threads: usize,
    /// GFLOP/s of multiply-adds in registers.
    peak: f64,
}

impl Report {
    /// Measures the machine, and prints what runs. Only lines whose name contains `filter` are wanted.
    pub fn new(env: &Env, filter: String) -> Report {
        let threads = env.threads.count();
        let peak = rates(threads).fma_gflops;
        println!("{}, threads: {threads}, multiply-adds in registers: {peak:.0} GFLOP/s", env.isa.name());
        Report { filter, threads, peak }
    }

    /// Prints the name of a family of lines.
    pub fn family(&self, name: &str) {
        println!("{name}");
    }

    /// Whether a line is wanted.
    pub fn wants(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// Prints a line: what, its best time in seconds, and what it is compared with.
    pub fn line(&self, name: &str, seconds: f64, work: Work, beside: Beside) {
        let (rate, unit, share) = match work {
            Work::MultiplyAdds(count) => {
                let rate = 2.0 * count as f64 / seconds / 1e9;
                (rate, "GFLOP/s", rate / self.peak)
            }
            Work::Bytes(count) => (count as f64 / seconds / 1e9, "GB/s", copy_seconds(count, self.threads) / seconds),
        };
        let against = |name: &str, other: Option<f64>| {
            other.map_or(String::new(), |other| format!("  {:6.2} x {name}", other / seconds))
        };
        println!(
            "  {name:44} {:10.1} us {rate:8.1} {unit:7} {:4.0} % of limit{}{}",
            seconds * 1e6,
            share * 100.0,
            against("naive", beside.naive),
            against("gemm", beside.gemm),
        );
    }
}

/// The best time in which a copy reads and writes `bytes` together.
fn copy_seconds(bytes: usize, threads: usize) -> f64 {
    let each = (bytes / 2).div_ceil(threads);
    let from: Vec<Vec<u8>> = vec![vec![1; each]; threads];
    let to: Vec<std::sync::Mutex<Vec<u8>>> = (0..threads).map(|_| vec![0; each].into()).collect();
    best_on_threads(threads, COPY_SECONDS, |i| {
        let mut to = to[i].lock().expect("no thread panics");
        to.copy_from_slice(black_box(&from[i]));
        black_box(&mut *to);
    })
}
