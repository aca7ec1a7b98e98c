//! Times of the steps of a run's graphs.

use crate::description::{Description, Lazily, text_of};
use crate::error::Result;
use crate::memory::{Buffer, elements};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::Instant;

/// The times of one run of a graph.
pub struct Timing {
    /// The description of the graph.
    pub description: Arc<Description>,
    /// The start of the run.
    pub start: Instant,
    /// Start and duration pairs in nanoseconds, as from
    /// [`Stopwatch::into_times`](crate::observe::Stopwatch::into_times).
    pub times: Buffer,
}

impl Timing {
    /// The JSON of an element of `OnnxProfile.graphs` of `onnx.d.ts`, with times relative to `begin`.
    fn json(&self, begin: Instant) -> Json {
        let times: Vec<f64> = elements::<u64>(self.times.bytes()).iter().map(|&bits| f64::from_bits(bits)).collect();
        let (spans, _) = times.as_chunks::<2>();
        let offset = self.start.duration_since(begin).as_nanos() as f64;
        let timed = |(mut step, [start, duration]): (Json, &[f64; 2])| {
            step["start"] = json!(offset + start);
            step["duration"] = json!(duration);
            step
        };
        let steps = self.description.steps_json().into_iter().zip(&spans[1..]).map(timed);
        json!({ "start": offset, "duration": spans[0][1], "steps": steps.collect::<Json>() })
    }
}

/// The JSON of all graphs of a run, with times relative to the start of the first one.
///
/// # Errors
/// If it is longer than a string can be: a loop can run any number of graphs.
pub fn timings_json(timings: &[Timing]) -> Result<String> {
    text_of("profile", &Lazily::of(timings.iter().map(|timing| timing.json(timings[0].start))))
}
