//! Tests of how much memory sessions take, and how often.

use super::cut_tests::opened;
use super::stage_tests::chain_of_cuts;
use super::tests::finished;
use super::*;
use crate::memory::bytes_of;
use crate::memory::counting::{Heap, heap_of};
use crate::onnx::tensor::ElementType::Float;
use crate::onnx::testing::{Attr, TestGraph};

/// The result of `work` on the timeline of `session`, and the heap memory that it took.
fn heap_on_timeline<T: Send + 'static>(
    session: &Arc<Session>,
    work: impl FnOnce(&Session, &Site) -> T + Send + 'static,
) -> (T, Heap) {
    let made = Arc::new(Slot::default());
    let (target, own) = (made.clone(), session.clone());
    let work = move |site: &Site| {
        target.put(heap_of(|| work(&own, site)));
        Ok(None)
    };
    finished(|done| session.context.enqueue(work, done)).unwrap();
    made.take().expect("it has run")
}

#[test]
fn a_stage_takes_little_memory() {
    /// What the graph of a stage takes: three nodes as they were imported, compiled, and planned.
    const MOST: isize = 13 << 10;
    let taken = |cuts: usize| {
        let session = opened(chain_of_cuts(cuts));
        let x = Buffer::copy_of(bytes_of(&[0.0f32, 1.0, 0.0, 2.0])).unwrap();
        let run = session.run(Shapes::from_iter([[4u32]]), vec![Feed::Bytes(Arc::new(x))], vec![Target::Read]);
        let (ran, heap) = heap_on_timeline(&session, |_, site| run.compute(site, Arc::default()).map(|_| ()));
        ran.unwrap();
        heap.bytes
    };
    let of_stage = (taken(120) - taken(20)) / 100;
    assert!(of_stage <= MOST, "{of_stage} bytes");
}

const WIDTH: u32 = 8;

/// The layers of a language model: each adds attention to the tokens so far, which are in caches.
fn decoder(layers: usize) -> TestGraph {
    let mut graph = TestGraph::default()
        .input("x0", Float, &["1", "n", "8"])
        .floats("w", &[8, 8], &[0.125; 64])
        .ints("split", &[0, 0, 2, 4])
        .ints("joined", &[0, 0, 8]);
    let heads = || vec![("perm", Attr::Ints(&[0, 2, 1, 3]))];
    for layer in 0..layers {
        let name = |name: &str| format!("{name}{layer}");
        for part in ["q", "k", "v"] {
            let [flat, rows, turned] = ["flat", "rows", "turned"].map(|name| format!("{name}_{part}{layer}"));
            graph = graph
                .node("MatMul", &format!("{} w", name("x")), &flat, vec![])
                .node("Reshape", &format!("{flat} split"), &rows, vec![])
                .node("Transpose", &rows, &turned, heads());
            if part != "q" {
                let [past, present] = ["past", "present"].map(|name| format!("{name}_{part}{layer}"));
                graph = graph
                    .input(&past, Float, &["1", "2", "m", "4"])
                    .node("Concat", &format!("{past} {turned}"), &present, vec![("axis", Attr::Int(2))])
                    .output(&present);
            }
        }
        graph = graph
            .node("Transpose", &name("present_k"), &name("columns"), vec![("perm", Attr::Ints(&[0, 1, 3, 2]))])
            .node("MatMul", &format!("{} {}", name("turned_q"), name("columns")), &name("scores"), vec![])
            .node("Softmax", &name("scores"), &name("weights"), vec![("axis", Attr::Int(-1))])
            .node("MatMul", &format!("{} {}", name("weights"), name("present_v")), &name("mixed"), vec![])
            .node("Transpose", &name("mixed"), &name("back"), heads())
            .node("Reshape", &format!("{} joined", name("back")), &name("all"), vec![])
            .node("Add", &format!("{} {}", name("x"), name("all")), &format!("x{}", layer + 1), vec![]);
    }
    graph.output(&format!("x{layers}"))
}

/// The shapes of a token's inputs after `length` others.
fn shapes_of_token(session: &Session, length: u32) -> Shapes {
    let caches = std::iter::repeat_n(vec![1, 2, length, 4], session.signature().inputs.len() - 1);
    std::iter::once(vec![1, 1, WIDTH]).chain(caches).collect()
}

/// For each number of layers, how often `count` asks for memory.
fn of_layers(count: impl Fn(Arc<Session>) -> Vec<usize>) -> [Vec<usize>; 2] {
    [2, 30].map(|layers| count(opened(decoder(layers))))
}

#[test]
fn planning_a_token_allocates_the_same_for_any_number_of_layers() {
    let [few, many] = of_layers(|session| {
        let counts = |session: &Session, site: &Site| {
            let plan = |length: u32| {
                let shapes = shapes_of_token(session, length);
                heap_of(|| drop(session.specialize(site, &shapes, true).unwrap())).1.allocations
            };
            // Once more plans than are kept are made, they are resized.
            (100..200).map(plan).skip(20).collect::<Vec<_>>()
        };
        heap_on_timeline(&session, counts).0
    });
    assert_eq!(few, many, "of lengths in a row");
    assert!(many.iter().all(|&count| count <= 8), "{many:?}");
}

#[test]
fn the_shapes_of_a_token_are_in_one_list() {
    let [few, many] = of_layers(|session| {
        let shapes = shapes_of_token(&session, 9);
        let bytes = |shape: &[u32]| shape.iter().product::<u32>() as usize * size_of::<f32>();
        let offer = |shape: &[u32]| Offer::Data { bytes: bytes(shape), shape: Some(shape.to_vec()) };
        let offers: Vec<Offer> = shapes.iter().map(offer).collect();
        let (got, heap) = heap_of(|| session.signature().shapes_of_feeds(&offers).unwrap());
        assert_eq!(got, shapes);
        vec![heap.allocations]
    });
    assert_eq!(few, many);
}
