//! Prints the limits of this machine: `machine-limits [--json] [THREADS ...]`.

use machine_limits::{Rates, Reading, rates, read_bandwidth};
use serde::Serialize;
use std::error::Error;

/// What this number of threads can do.
#[derive(Serialize)]
struct Limits {
    threads: usize,
    #[serde(flatten)]
    rates: Rates,
    reading: Vec<Reading>,
}

fn print(Limits { threads, rates, reading }: &Limits) {
    let rate = |rate: Option<f64>| rate.map_or("none".into(), |rate| format!("{rate:.0}"));
    println!("{threads} threads");
    println!("  float32 multiply-adds  {:8.0} GFLOP/s", rates.fma_gflops);
    println!("  uint8 times int8       {:>8} GOP/s", rate(rates.int8_gops));
    println!("  bfloat16               {:>8} GFLOP/s", rate(rates.bf16_gflops));
    for Reading { bytes, pages, gbps } in reading {
        println!("  reading {:4} MiB, {:6} pages {gbps:6.1} GB/s", bytes >> 20, format!("{pages:?}").to_lowercase());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (flags, counts): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|argument| argument == "--json");
    let mut counts = counts.iter().map(|count| count.parse()).collect::<Result<Vec<usize>, _>>()?;
    if counts.is_empty() {
        counts = vec![1, std::thread::available_parallelism()?.get()];
    }
    if counts.contains(&0) {
        return Err("0 threads measure nothing".into());
    }
    let mut limits = Vec::new();
    for threads in counts {
        limits.push(Limits { threads, rates: rates(threads), reading: read_bandwidth(threads)? });
    }
    if flags.is_empty() {
        limits.iter().for_each(print);
    } else {
        println!("{}", serde_json::to_string(&limits)?);
    }
    Ok(())
}
