//! Times of the steps of a run's graphs.

use crate::description::{Description, Lazily, text_of};
use crate::error::Result;
use crate::memory::{Buffer, elements};
use serde::Serialize;
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

/// Maximum number of spans that a profile holds: a loop can run any number of graphs. Their JSON has some 40 MB.
const MAX_SPANS: usize = 100_000;

/// The fields of a profile.
#[derive(Serialize)]
#[serde(rename_all = "camelCase", bound = "")]
struct Fields<I: Iterator<Item = Json>> {
    graphs: Lazily<I>,
    omitted_graphs: usize,
}

/// The times of the graphs of a run.
#[derive(Default)]
pub struct Timings {
    kept: Vec<Timing>,
    spans: usize,
    /// Number of graphs that ran when there was no more room.
    omitted: usize,
}

impl Timings {
    /// Adds those of the next graph, while there is room.
    pub fn add(&mut self, timing: Timing) {
        self.spans += 1 + timing.description.steps.len();
        match self.omitted == 0 && self.spans <= MAX_SPANS || self.kept.is_empty() {
            true => self.kept.push(timing),
            false => self.omitted += 1,
        }
    }

    /// The JSON of the fields `graphs` and `omittedGraphs` of `OnnxProfile` of `onnx.d.ts`, with times relative to the
    /// start of the first graph.
    ///
    /// # Errors
    /// If it is longer than a string can be.
    pub fn json(&self) -> Result<String> {
        let graphs = self.kept.iter().map(|timing| timing.json(self.kept[0].start));
        text_of("profile", &Fields { graphs: Lazily::of(graphs), omitted_graphs: self.omitted })
    }
}
