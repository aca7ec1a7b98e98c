//! The cost of new sizes for a session, beside sizes with a cached plan. Run with
//! `npm run bench -- plans MODEL.onnx batch_size=1 sequence_length=16..416`: every free dimension of the model needs a
//! size, and one of them has a range. The model does not run.
//!
//! Each size of the range is new once. Times are those of the work itself, in the background of the context, without
//! the latency of the request.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use webnn_node::onnx::Model;
use webnn_node::onnx::file::FileSource;
use webnn_node::onnx::model::{Dimension, ValueInfo};
use webnn_node::runtime::{Context, Done, Slot, Wish};
use webnn_node::session::{Session, SessionOptions, Shapes};

/// The sizes of a free dimension.
fn sizes(text: &str) -> Range<u32> {
    let number = |text: &str| -> u32 { text.parse().unwrap_or_else(|_| panic!("{text} is not a size")) };
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(text)..number(text) + 1,
    }
}

/// Runs a request to completion.
fn finished(request: impl FnOnce(Done)) {
    let (tell, told) = channel();
    request(Done::new(move |result| tell.send(result).expect("somebody waits")));
    told.recv().expect("every request is told its end").expect("it succeeds");
}

/// Specializes the session for each of `all`, and prints the times.
fn measure(what: &str, session: &Arc<Session>, context: &Context, all: Vec<Shapes>) {
    let (times, session) = (Arc::new(Slot::default()), session.clone());
    let target = times.clone();
    finished(|done| {
        context.enqueue(
            move |site| {
                let mut times: Vec<Duration> = Vec::with_capacity(all.len());
                for shapes in &all {
                    let started = Instant::now();
                    drop(session.specialize(site, shapes, true)?);
                    times.push(started.elapsed());
                }
                target.put(times);
                Ok(None)
            },
            done,
        );
    });
    let mut times = times.take().expect("times");
    times.sort();
    let [median, late] = [times.len() / 2, times.len() * 9 / 10].map(|at| times[at]);
    println!("{what:12} median {median:7.1?}   90th percentile {late:7.1?}");
}

fn main() {
    // Cargo passes --bench to every benchmark.
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let path = arguments.next().expect("the path of a model, and NAME=SIZE for its free dimensions");
    let dimensions: BTreeMap<String, Range<u32>> = arguments
        .map(|argument| {
            let (name, text) = argument.split_once('=').expect("NAME=SIZE or NAME=FROM..TO");
            (name.to_string(), sizes(text))
        })
        .collect();
    let rounds = dimensions.values().map(|sizes| sizes.len()).max().expect("a free dimension") as u32;
    let model = Arc::new(Model::open(FileSource::Path(path.into()), Vec::new()).expect("a model"));
    println!("{} nodes, {rounds} sets of sizes", model.graph().nodes.len());
    let context = Arc::new(Context::new(Some(1), false).expect("a context"));
    finished(|done| context.open(Wish::Cpu("for a benchmark"), Done::unobserved(), done));
    let session = Session::open(model, context.clone(), SessionOptions::default());
    let session = Arc::new(session.expect("a session"));
    let shapes = |round: u32| -> Shapes {
        let shape = |input: &ValueInfo| -> Vec<u32> {
            let size = |dimension: &Dimension| match dimension {
                Dimension::Fixed(size) => *size,
                Dimension::Free(name) => {
                    let sizes = dimensions.get(name).unwrap_or_else(|| panic!("{name}=SIZE is missing"));
                    (sizes.start + round).min(sizes.end - 1)
                }
            };
            input.shape.as_ref().expect("inputs have a rank").iter().map(size).collect()
        };
        session.signature().inputs.iter().map(shape).collect()
    };
    // The arena grows with the largest.
    measure("first", &session, &context, vec![shapes(rounds - 1)]);
    measure("new sizes", &session, &context, (0..rounds - 1).map(shapes).collect());
    measure("known sizes", &session, &context, vec![shapes(rounds - 1); rounds as usize]);
}
