//! The printed lines, and the machine's limits in them.

use machine_limits::{best_on_threads, rates};
use std::hint::black_box;
use webnn_node::cpu::steps::Env;

/// Duration of the measurement of a copy, in seconds.
const COPY_SECONDS: f64 = 0.05;

/// The amount of work that a time is compared with.
pub enum Work {
    /// This many multiply-adds.
    MultiplyAdds(usize),
    /// This many bytes read and written.
    Bytes(usize),
}

/// Comparisons measured beside a line.
#[derive(Default)]
pub struct Beside {
    /// Seconds of a naive loop for the same work.
    pub naive: Option<f64>,
    /// Seconds of the `gemm` crate for the same work.
    pub gemm: Option<f64>,
    /// The same work on float32.
    pub float: Option<f64>,
}

/// Prints lines.
pub struct Report {
    filter: String,
    threads: usize,
    /// GFLOP/s of multiply-adds in registers.
    peak: f64,
}

impl Report {
    /// Measures the machine, and prints its properties. Prints only lines with names that contain `filter`.
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

    /// Whether to print a line.
    pub fn wants(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    /// Prints a line: its name, its best time in seconds, and the comparisons.
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
            "  {name:44} {:10.1} us {rate:8.1} {unit:7} {:4.0} % of limit{}{}{}",
            seconds * 1e6,
            share * 100.0,
            against("naive", beside.naive),
            against("gemm", beside.gemm),
            against("float32", beside.float),
        );
    }
}

/// The best time of a copy that reads and writes `bytes` in total.
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
