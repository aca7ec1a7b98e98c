//! How fast memory is read.

use crate::timing::best_on_threads;
use memmap2::MmapMut;
use serde::Serialize;
use std::hint::black_box;

/// Sizes of the memory to read, in bytes: the weights of a small language model, and far above all caches.
const SIZES: [usize; 2] = [512 << 20, 1024 << 20];

/// Duration of each measurement; one pass over the larger size takes tens of milliseconds.
const SECONDS: f64 = 0.3;

/// Numbers of places that a thread reads from at the same time.
const STREAMS: [usize; 4] = [1, 2, 4, 8];

/// A cache line.
type Line = [u8; 64];

/// Sums of the words of lines, one per position in a line.
type Sums = [u64; 8];

/// The kind of pages that the memory consists of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// The system's default pages, mostly 4 KiB.
    Small,
    /// 2 MiB, requested with `madvise`; the system may refuse.
    Huge,
}

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reading {
    /// Size of the memory that was read.
    pub bytes: usize,
    /// The requested pages.
    pub pages: Pages,
    /// Billions of bytes per second of all threads together, with the best number of streams.
    pub gbps: f64,
}

#[cfg(target_os = "linux")]
fn advise(memory: &MmapMut, pages: Pages) -> std::io::Result<()> {
    memory.advise(match pages {
        Pages::Small => memmap2::Advice::NoHugePage,
        Pages::Huge => memmap2::Advice::HugePage,
    })
}

#[cfg(not(target_os = "linux"))]
fn advise(_: &MmapMut, _: Pages) -> std::io::Result<()> {
    Ok(())
}

/// Memory whose pages have all been written.
fn written(bytes: usize, pages: Pages) -> std::io::Result<MmapMut> {
    let mut memory = MmapMut::map_anon(bytes)?;
    advise(&memory, pages)?;
    memory.fill(1);
    Ok(memory)
}

/// The sum of all lines, read from `STREAMS` places at the same time.
#[inline(always)]
fn sum<const STREAMS: usize>(lines: &[Line]) -> Sums {
    let each = lines.len() / STREAMS;
    let streams: [&[Line]; STREAMS] = std::array::from_fn(|i| &lines[i * each..][..each]);
    let mut sums = [Sums::default(); STREAMS];
    for i in 0..each {
        for (sum, stream) in sums.iter_mut().zip(streams) {
            for (sum, word) in sum.iter_mut().zip(stream[i].as_chunks().0) {
                *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
            }
        }
    }
    sums.into_iter().reduce(|a, b| std::array::from_fn(|i| a[i].wrapping_add(b[i]))).unwrap_or_default()
}

fn sum_in_streams(lines: &[Line], streams: usize) -> Sums {
    match streams {
        1 => sum::<1>(lines),
        2 => sum::<2>(lines),
        4 => sum::<4>(lines),
        _ => sum::<8>(lines),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(lines: &[Line], streams: usize) -> Sums {
    sum_in_streams(lines, streams)
}

#[cfg(target_arch = "x86_64")]
fn read(lines: &[Line], streams: usize) -> Sums {
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        unsafe { sum_avx2(lines, streams) }
    } else {
        sum_in_streams(lines, streams)
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn read(lines: &[Line], streams: usize) -> Sums {
    sum_in_streams(lines, streams)
}

/// How fast `threads` threads together read memory, for all sizes and both kinds of pages. Each thread reads a part of
/// its own.
///
/// # Errors
/// If the system does not have that much memory.
pub fn read_bandwidth(threads: usize) -> std::io::Result<Vec<Reading>> {
    let mut readings = Vec::new();
    for pages in [Pages::Small, Pages::Huge] {
        let memory = written(SIZES[SIZES.len() - 1], pages)?;
        for bytes in SIZES {
            readings.push(Reading { bytes, pages, gbps: gbps(&memory[..bytes], threads) });
        }
    }
    Ok(readings)
}

fn gbps(memory: &[u8], threads: usize) -> f64 {
    let (lines, _) = memory.as_chunks();
    let each = lines.len() / threads;
    let seconds = STREAMS
        .into_iter()
        .map(|streams| {
            best_on_threads(threads, SECONDS, |i| {
                black_box(read(&lines[i * each..][..each], streams));
            })
        })
        .fold(f64::INFINITY, f64::min);
    memory.len() as f64 / seconds / 1e9
}
