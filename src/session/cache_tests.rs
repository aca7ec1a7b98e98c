//! Tests of caches that grow in place, on the CPU and on software Vulkan.

use super::tests::{context, feed, finished, model, on_llvmpipe, outputs};
use super::*;
use crate::dimension::numbers;
use crate::dtype::DataType;
use crate::memory::elements;
use crate::onnx::tensor::ElementType::Float;
use crate::onnx::testing::{Attr, TestGraph};
use crate::runtime::{Context, Tensor};
use crate::testing::Random;

const HEADS: usize = 2;
const SIZE: usize = 3;

/// `present = concat(past, new)` along the third dimension, and `y`, the sum of `present` along it.
fn graph() -> TestGraph {
    TestGraph::default()
        .input("new", Float, &["b", "2", "n", "3"])
        .input("past", Float, &["b", "2", "m", "3"])
        .node("Concat", "past new", "present", vec![("axis", Attr::Int(2))])
        .ints("axes", &[2])
        .node("ReduceSum", "present axes", "y", vec![("keepdims", Attr::Int(0))])
        .output("y")
        .output("present")
}

/// A tensor `[batch, HEADS, rows, SIZE]` whose rows differ for each batch, head and position.
fn tensor(batch: usize, rows: std::ops::Range<usize>, seed: usize) -> Vec<f32> {
    let mut all = Vec::new();
    for matrix in 0..batch * HEADS {
        for row in rows.clone() {
            let mut random = Random::new((seed * 1000 + matrix * 100_000 + row) as u64 + 1);
            all.extend((0..SIZE).map(|_| (random.next() % 64) as f32));
        }
    }
    all
}

struct Cached {
    session: Arc<Session>,
    batch: usize,
}

impl Cached {
    fn new(batch: usize, context: Arc<Context>) -> Cached {
        let session = Session::open(model(graph()), context, SessionOptions::default()).unwrap();
        Cached { session: Arc::new(session), batch }
    }

    /// Runs with `new` rows after `past` rows, and checks the sums.
    fn run(&self, new: Vec<f32>, past: (Feed, usize), target: Target, expected: &[f32]) -> Result<Option<Output>> {
        let shape = |rows: usize| [self.batch, HEADS, rows, SIZE].map(|size| size as u32).to_vec();
        let rows = new.len() / (self.batch * HEADS * SIZE);
        let shapes = Shapes::from_iter([shape(rows), shape(past.1)]);
        let (values, targets) = (Arc::new(Slot::default()), vec![Target::Read, target]);
        let feeds = vec![feed(&new), past.0];
        finished(|done| self.session.run(shapes, feeds, targets).enqueue(values.clone(), done))?;
        let mut values: Vec<Option<Output>> = values.take().unwrap();
        let present = values.pop().unwrap();
        let Some(Output::Bytes { bytes, .. }) = values.pop().unwrap() else { panic!("y is read") };
        let all = past.1 + rows;
        let sums: Vec<f32> = expected
            .chunks(all * SIZE)
            .flat_map(|matrix| (0..SIZE).map(|i| matrix.iter().skip(i).step_by(SIZE).sum::<f32>()))
            .collect();
        assert_eq!(elements::<f32>(bytes.bytes()), sums);
        Ok(present)
    }

    fn step(&self, rows: std::ops::Range<usize>, past: Feed, seed: usize) -> Cache {
        let expected = tensor(self.batch, 0..rows.end, seed);
        let new = tensor(self.batch, rows.clone(), seed);
        match self.run(new, (past, rows.start), Target::Read, &expected).unwrap() {
            Some(Output::Cache(cache)) => {
                assert_eq!(elements::<f32>(cache.to_dense().unwrap().bytes()), expected);
                assert_eq!(numbers(&cache.descriptor.shape)[2], rows.end as u32);
                cache
            }
            _ => panic!("a cache"),
        }
    }
}

fn a_cache_grows_in_place_and_forks_do_not_see_each_other(context: Arc<Context>) {
    for batch in [1, 2] {
        let cached = Cached::new(batch, context.clone());
        let first = cached.step(4..6, feed(&tensor(batch, 0..4, 1)), 1);
        let mut last = first.clone();
        for at in 6..30 {
            let next = cached.step(at..at + 1, Feed::Cache(last.clone()), 1);
            assert!(next.rows.is_beside(&first.rows), "row {at}");
            last = next;
        }
        // Another text with the same beginning.
        let fork = cached.step(6..9, Feed::Cache(first.clone()), 1);
        assert!(!fork.rows.is_beside(&first.rows));
        let further = cached.step(9..10, Feed::Cache(fork.clone()), 1);
        assert!(further.rows.is_beside(&fork.rows));
        for (cache, rows) in [(&first, 6), (&last, 30), (&fork, 9), (&further, 10)] {
            assert_eq!(elements::<f32>(cache.to_dense().unwrap().bytes()), tensor(batch, 0..rows, 1));
        }
    }
}

fn a_failed_run_leaves_its_cache_unchanged(context: Arc<Context>) {
    let cached = Cached::new(1, context);
    let first = cached.step(4..6, feed(&tensor(1, 0..4, 9)), 9);
    let shapes = Shapes::from_iter([vec![1, 2, 1, 3], vec![1, 2, 6, 3]]);
    // The tensor has lost its bytes, which is only noticed just before the graph runs.
    let gone = Feed::Tensor(Arc::new(Tensor::new(Descriptor::new(DataType::Float32, [1u32, 2, 1, 3].as_slice()))));
    let feeds = vec![gone, Feed::Cache(first.clone())];
    let run = cached.session.run(shapes, feeds, vec![Target::Read; 2]);
    let error = finished(|done| run.enqueue(Arc::new(Slot::default()), done)).unwrap_err();
    assert!(error.message.contains("the tensor is destroyed"), "{error}");
    let second = cached.step(6..7, Feed::Cache(first.clone()), 9);
    assert!(second.rows.is_beside(&first.rows), "its place is free again");
    assert_eq!(elements::<f32>(first.to_dense().unwrap().bytes()), tensor(1, 0..6, 9));
}

fn tensors_pass_their_memory_on(context: Arc<Context>) {
    let cached = Cached::new(1, context.clone());
    let step = |rows: std::ops::Range<usize>, past: Feed, target: Target| {
        let (new, all) = (tensor(1, rows.clone(), 3), tensor(1, 0..rows.end, 3));
        cached.run(new, (past, rows.start), target, &all).unwrap()
    };
    let Some(Output::Tensor(first)) = step(2..4, feed(&tensor(1, 0..2, 3)), Target::New) else { panic!("a tensor") };
    let Some(Output::Tensor(second)) = step(4..5, Feed::Tensor(first.clone()), Target::New) else { panic!("a tensor") };
    let backend = context.backend().unwrap();
    assert!(second.rows(&backend, 2).unwrap().is_beside(&first.rows(&backend, 2).unwrap()));
    // Reads return the row-major order, and the tensor can still be fed.
    let read = |tensor: &Arc<Tensor>| {
        let mut read = None;
        finished(|done| read = Some(context.read(tensor, done))).unwrap();
        elements::<f32>(read.unwrap().take().unwrap().bytes()).to_vec()
    };
    assert_eq!(read(&second), tensor(1, 0..5, 3));
    let Some(Output::Tensor(third)) = step(5..7, Feed::Tensor(second.clone()), Target::New) else { panic!("a tensor") };
    assert_eq!(read(&third), tensor(1, 0..7, 3));
    assert_eq!(read(&first), tensor(1, 0..4, 3));
    // Into a tensor of the caller as well.
    let own = Arc::new(Tensor::new(third.descriptor().clone()));
    own.fill(&backend, Arc::new(Buffer::zeroed(own.descriptor().bytes()).unwrap())).unwrap();
    assert!(step(5..7, Feed::Tensor(second.clone()), Target::Tensor(own.clone())).is_none());
    assert_eq!(read(&own), tensor(1, 0..7, 3));
}

fn a_cache_can_be_fed_to_anything(context: Arc<Context>) {
    let cached = Cached::new(2, context);
    let cache = cached.step(3..5, feed(&tensor(2, 0..3, 5)), 5);
    // As another input of the same session, and for two inputs.
    let all = tensor(2, 0..5, 5);
    let shape = [2, 2, 5, 3].to_vec();
    let values = Arc::new(Slot::default());
    let feeds = vec![Feed::Cache(cache.clone()), Feed::Cache(cache.clone())];
    let shapes = Shapes::from_iter([shape.clone(), shape]);
    finished(|done| {
        cached.session.run(shapes, feeds, vec![Target::Unread, Target::Read]).enqueue(values.clone(), done)
    })
    .unwrap();
    let Some(Output::Cache(twice)) = values.take().unwrap().pop().unwrap() else { panic!("a cache") };
    let expected: Vec<f32> = all.chunks(5 * SIZE).flat_map(|matrix| [matrix, matrix].concat()).collect();
    assert_eq!(elements::<f32>(twice.to_dense().unwrap().bytes()), expected);
    assert_eq!(elements::<f32>(cache.to_dense().unwrap().bytes()), all);
}

fn the_first_run_has_no_cache(context: Arc<Context>) {
    let cached = Cached::new(1, context);
    let shapes = Shapes::from_iter([vec![1, 2, 4, 3], vec![1, 2, 0, 3]]);
    let values = Arc::new(Slot::default());
    let feeds = vec![feed(&tensor(1, 0..4, 7)), Feed::Bytes(Arc::default())];
    finished(|done| cached.session.run(shapes, feeds, vec![Target::Read; 2]).enqueue(values.clone(), done)).unwrap();
    let present = values.take().unwrap().pop().unwrap();
    let Some(Output::Bytes { bytes, .. }) = present else { panic!("bytes") };
    let second = cached.step(4..5, Feed::Bytes(Arc::new(bytes)), 7);
    cached.step(5..9, Feed::Cache(second), 7);
}

fn a_view_of_a_cache_is_an_output_of_its_own(context: Arc<Context>) {
    let graph = TestGraph::default()
        .input("past", Float, &["1", "m", "4"])
        .input("new", Float, &["1", "n", "4"])
        .node("Concat", "past new", "present", vec![("axis", Attr::Int(1))])
        .ints("rows", &[-1, 4])
        .node("Reshape", "present rows", "y", vec![])
        .output("y")
        .output("present");
    let session = Arc::new(Session::open(model(graph), context, SessionOptions::default()).unwrap());
    let row = |at: usize| (0..4).map(|i| (at * 4 + i) as f32).collect::<Vec<f32>>();
    let mut caches: Vec<Cache> = Vec::new();
    for at in 2..8 {
        let past = match caches.last() {
            None => (feed(&[row(0), row(1)].concat()), vec![1, 2, 4]),
            Some(cache) => (Feed::Cache(cache.clone()), numbers(&cache.descriptor.shape)),
        };
        let mut all = outputs(&session, vec![past, (feed(&row(at)), vec![1, 1, 4])]);
        let (present, y) = (all.pop().unwrap(), all.pop().unwrap());
        let (Output::Cache(cache), Output::Bytes { bytes, .. }) = (present, y) else { panic!("a cache behind bytes") };
        let expected = (0..=at).flat_map(row).collect::<Vec<f32>>();
        assert_eq!(elements::<f32>(bytes.bytes()), expected);
        caches.push(cache);
    }
    for (index, cache) in caches.iter().enumerate() {
        let expected = (0..index + 3).flat_map(row).collect::<Vec<f32>>();
        assert_eq!(elements::<f32>(cache.to_dense().unwrap().bytes()), expected);
    }
}

fn a_cache_of_images_keeps_its_order(context: Arc<Context>) {
    let filter: Vec<f32> = vec![1.0; 8 * 8];
    let graph = TestGraph::default()
        .input("past", Float, &["t", "8", "4", "4"])
        .input("x", Float, &["n", "8", "4", "4"])
        .floats("w", &[8, 8, 1, 1], &filter)
        .node("Conv", "x w", "c", vec![])
        .node("Concat", "past c", "present", vec![("axis", Attr::Int(0))])
        .output("present");
    let session = Arc::new(Session::open(model(graph), context, SessionOptions::default()).unwrap());
    let image = |x: f32| feed(&[x; 128]);
    let mut present = outputs(&session, vec![(image(1.0), vec![1, 8, 4, 4]), (image(2.0), vec![1, 8, 4, 4])]);
    let Some(Output::Cache(cache)) = present.pop() else { panic!("a cache") };
    let feeds = vec![(Feed::Cache(cache.clone()), vec![2, 8, 4, 4]), (image(3.0), vec![1, 8, 4, 4])];
    let Some(Output::Cache(longer)) = outputs(&session, feeds).pop() else { panic!("a cache") };
    assert!(longer.rows.is_beside(&cache.rows));
    let expected: Vec<f32> = [1.0, 16.0, 24.0].iter().flat_map(|&x| [x; 128]).collect();
    assert_eq!(elements::<f32>(longer.to_dense().unwrap().bytes()), expected);
}

/// Runs each test on the CPU and, if requested, on software Vulkan.
macro_rules! tests {
    ($($name:ident,)*) => {
        mod on_cpu {
            $(#[test] fn $name() { super::$name(super::context()); })*
        }
        mod on_software_vulkan {
            $(#[test] fn $name() { super::$name(super::on_llvmpipe()); })*
        }
    };
}

tests! {
    a_cache_grows_in_place_and_forks_do_not_see_each_other,
    a_failed_run_leaves_its_cache_unchanged,
    tensors_pass_their_memory_on,
    a_cache_can_be_fed_to_anything,
    the_first_run_has_no_cache,
    a_view_of_a_cache_is_an_output_of_its_own,
    a_cache_of_images_keeps_its_order,
}
