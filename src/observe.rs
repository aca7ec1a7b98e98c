//! Observers of a run: none for a dispatch, a clock for a profile.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Buffer, elements_mut};
use std::time::Instant;

/// Notified when a run and its steps begin and end. The code of a run is compiled once per observer type.
pub trait Observer: Send {
    /// A run begins.
    fn begin(&mut self) {}
    /// The next step begins.
    fn begin_step(&mut self) {}
    /// The current step has ended.
    fn end_step(&mut self) {}
    /// The run has ended.
    fn end(&mut self) {}
}

/// Observes nothing, at no cost.
pub struct Unobserved;

impl Observer for Unobserved {}

/// Maximum number of step timings per profile: 16 MiB, several times that as JavaScript objects.
pub const MAX_TIMINGS: usize = 1 << 20;

/// Records the times of runs, in nanoseconds, as doubles for JavaScript.
pub struct Stopwatch {
    /// For each run: `[start, duration]`, relative to the start of the first run, then `[start, duration]` of each
    /// step, relative to the start of the run.
    times: Buffer,
    /// Number of values written.
    written: usize,
    /// The start of the first run.
    first: Option<Instant>,
    run: Instant,
    step: Instant,
    /// The index of the current run's duration.
    duration: usize,
}

impl Stopwatch {
    /// Allocates the times of `runs` runs of `steps` steps each.
    ///
    /// # Errors
    /// A TypeError for more than [`MAX_TIMINGS`] timings, an `UnknownError` if memory for them runs out.
    pub fn new(runs: usize, steps: usize) -> Result<Stopwatch> {
        let timings = runs.saturating_mul(steps.max(1));
        if timings > MAX_TIMINGS {
            let message = format!("{runs} runs of {steps} steps are {timings} timings, expected at most {MAX_TIMINGS}");
            return Err(Error::new(ErrorKind::Type, message));
        }
        let now = Instant::now();
        let times = Buffer::zeroed(runs * (steps + 1) * 2 * size_of::<f64>())?;
        Ok(Stopwatch { times, written: 0, first: None, run: now, step: now, duration: 0 })
    }

    /// The times of all runs as float64, see [`Stopwatch`]: two numbers per run, and two per step.
    pub fn into_times(self) -> Buffer {
        self.times
    }

    /// Adds an externally timed run: its start and duration, and for each step the start (relative to that of the run)
    /// and duration, in nanoseconds.
    pub fn record(&mut self, start: Instant, duration: f64, steps: impl Iterator<Item = [f64; 2]>) {
        let start = nanoseconds(*self.first.get_or_insert(start), start);
        for number in [start, duration].into_iter().chain(steps.flatten()) {
            self.put(number);
        }
    }

    fn put(&mut self, number: f64) {
        elements_mut::<u64>(self.times.bytes_mut())[self.written] = number.to_bits();
        self.written += 1;
    }
}

/// Nanoseconds from `start` to `end`.
fn nanoseconds(start: Instant, end: Instant) -> f64 {
    end.duration_since(start).as_nanos() as f64
}

impl Observer for Stopwatch {
    fn begin(&mut self) {
        let now = Instant::now();
        let start = nanoseconds(*self.first.get_or_insert(now), now);
        self.put(start);
        self.duration = self.written;
        self.put(0.0);
        self.run = now;
    }

    fn begin_step(&mut self) {
        self.step = Instant::now();
    }

    fn end_step(&mut self) {
        let now = Instant::now();
        self.put(nanoseconds(self.run, self.step));
        self.put(nanoseconds(self.step, now));
    }

    fn end(&mut self) {
        let duration = nanoseconds(self.run, Instant::now());
        elements_mut::<u64>(self.times.bytes_mut())[self.duration] = duration.to_bits();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_timings_are_refused() {
        let refused = |runs, steps| Stopwatch::new(runs, steps).err().expect("too many");
        assert_eq!(
            refused(10_000, 500).message,
            "10000 runs of 500 steps are 5000000 timings, expected at most 1048576"
        );
        assert_eq!(refused(usize::MAX, 7).kind, ErrorKind::Type);
        assert!(Stopwatch::new(10_000, 100).is_ok());
    }
}
