//! Times the steps of the graphs of a run.

use crate::description::{Description, text};
use crate::error::Result;
use crate::memory::{Buffer, elements};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::Instant;

/// The times of a graph that was run once.
pub struct Timing {
    /// What the graph is.
    pub description: Arc<Description>,
    /// When it began.
    pub start: Instant,
    /// As [`Stopwatch::into_times`](crate::observe::Stopwatch::into_times) gives them.
    pub times: Buffer,
}

impl Timing {
    /// The JSON of an element of `OnnxProfile.graphs` of `onnx.d.ts`, with times from `begin` on.
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

/// The JSON of all graphs of a run, with times from when the first one began.
///
/// # Errors
/// If it is more than a string can hold.
pub fn timings_json(timings: &[Timing]) -> Result<String> {
    let Some(first) = timings.first() else { return Ok("[]".to_string()) };
    text(&timings.iter().map(|timing| timing.json(first.start)).collect())
}
