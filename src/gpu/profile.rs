//! Timed runs of a plan: by the clock of the device if it has one, otherwise by the CPU's, with a wait after each step.

use super::device::Device;
use super::plan::{Plan, Step, Tensors, times_allowed};
use crate::error::Result;
use crate::observe::Stopwatch;
use std::time::Instant;

/// Maximum number of queries per set: WebGPU's limit. The results of a full set take a multiple of 256 bytes, the
/// alignment of offsets.
const MAX_QUERIES: usize = 4096;

/// The features for timestamps at the start and end of steps.
const TIMESTAMPS: wgpu::Features =
    wgpu::Features::TIMESTAMP_QUERY.union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);

impl Plan {
    /// Like [`run`](Plan::run), but waits for the end and passes the times to `watch`.
    ///
    /// # Errors
    /// Same as [`run`](Plan::run), and an `UnknownError` if memory for the times runs out.
    pub fn profile(
        &mut self,
        inputs: &[&wgpu::Buffer],
        outputs: &[&wgpu::Buffer],
        watch: &mut Stopwatch,
    ) -> Result<()> {
        let device = self.device.clone();
        let mut arena = device.reserve_arena();
        let tensors = self.bind(&mut arena, inputs, outputs)?;
        // Keeps earlier submissions out of the times.
        let before = device.submit(None)?;
        device.finish(before)?;
        let start = Instant::now();
        let times = match device.device.features().contains(TIMESTAMPS) {
            true => self.device_times(&tensors)?,
            false => self.host_times(&tensors, start)?,
        };
        let duration = times.last().map_or(0.0, |[start, duration]| start + duration);
        watch.record(start, duration, times.into_iter());
        Ok(())
    }

    /// Start and duration of each step in nanoseconds, relative to the start of the first, by the device's clock.
    fn device_times(&self, tensors: &Tensors) -> Result<Vec<[f64; 2]>> {
        let device = &self.device;
        let queries = 2 * self.steps.len();
        let resolved = device.scoped(|| resolve_buffer(device, queries))?;
        let commands = device.scoped(|| {
            let mut encoder = device.device.create_command_encoder(&Default::default());
            for (index, steps) in self.steps.chunks(MAX_QUERIES / 2).enumerate() {
                let set = device.device.create_query_set(&wgpu::QuerySetDescriptor {
                    label: Some("times of steps"),
                    ty: wgpu::QueryType::Timestamp,
                    count: 2 * steps.len() as u32,
                });
                for (at, step) in steps.iter().enumerate() {
                    encoder.write_timestamp(&set, 2 * at as u32);
                    self.encode_step(&mut encoder, tensors, step);
                    encoder.write_timestamp(&set, 2 * at as u32 + 1);
                }
                let offset = (index * MAX_QUERIES * size_of::<u64>()) as u64;
                encoder.resolve_query_set(&set, 0..2 * steps.len() as u32, &resolved, offset);
            }
            encoder.finish()
        })?;
        device.submit_times(Some(commands), times_allowed(self.steps.iter().map(Step::work).sum()))?;
        let bytes = device.read(&resolved, queries * size_of::<u64>())?.wait(device)?;
        let ticks: &[u64] = crate::memory::elements(bytes.bytes());
        let period = device.queue.get_timestamp_period() as f64;
        let first = ticks.first().copied().unwrap_or(0);
        let since = |from: u64, to: u64| to.saturating_sub(from) as f64 * period;
        Ok(ticks.as_chunks::<2>().0.iter().map(|&[start, end]| [since(first, start), since(start, end)]).collect())
    }

    /// Start and duration of each step in nanoseconds, relative to `start`, by the CPU's clock.
    fn host_times(&self, tensors: &Tensors, start: Instant) -> Result<Vec<[f64; 2]>> {
        let device = &self.device;
        let mut times = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let begin = start.elapsed();
            let commands = device.scoped(|| {
                let mut encoder = device.device.create_command_encoder(&Default::default());
                self.encode_step(&mut encoder, tensors, step);
                encoder.finish()
            })?;
            let submission = device.submit_times(Some(commands), times_allowed(step.work()))?;
            device.finish(submission)?;
            times.push([begin, start.elapsed() - begin].map(|time| time.as_nanos() as f64));
        }
        Ok(times)
    }

    fn encode_step(&self, encoder: &mut wgpu::CommandEncoder, tensors: &Tensors, step: &Step) {
        if let Step::Launches(launches, _) = step {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            launches.clone().for_each(|index| self.launch(&mut pass, tensors, index));
        }
        self.copy(encoder, tensors, step);
    }
}

/// Allocates a buffer for the results of `queries` queries.
fn resolve_buffer(device: &Device, queries: usize) -> wgpu::Buffer {
    device.device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("times of steps"),
        size: (queries.max(1) * size_of::<u64>()) as u64,
        usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    })
}
