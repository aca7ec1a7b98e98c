//! Tests of sessions on software Vulkan: what travels between the CPU and the device for other sizes and for tokens.

use super::tests::{context, feed, model, opened_on, outputs};
use super::*;
use crate::gpu::adapter::{Limits, choice_of_tests};
use crate::gpu::device::{Device, EXTENSIONS};
use crate::memory::{Buffer, bytes_of, elements};
use crate::onnx::tensor::ElementType::{Double, Float};
use crate::onnx::testing::{Attr, TestGraph};
use crate::runtime::Backend;
use crate::testing::Random;

const WIDTH: usize = 128;
const HEADS: usize = 2;
const DEPTH: usize = WIDTH / HEADS;

fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| (random.next() % 2000) as f32 / 1000.0 - 1.0).collect()
}

/// A context on a device that no other test uses.
fn alone() -> Arc<Context> {
    opened_on(|| Device::open(choice_of_tests(), EXTENSIONS, Limits::Adapter).map(|device| device.map(Arc::new)))
}

/// Bytes to the device and back so far.
fn traffic(session: &Session) -> [u64; 2] {
    match session.context.backend() {
        Some(Backend::Gpu(device)) => device.traffic(),
        _ => panic!("a GPU"),
    }
}

fn floats(output: &Output) -> Vec<f32> {
    match output {
        Output::Bytes { bytes, .. } => elements(bytes.bytes()).to_vec(),
        Output::Cache(cache) => elements(cache.to_dense().unwrap().bytes()).to_vec(),
        Output::Tensor(_) | Output::List(_) | Output::Nothing => panic!("a tensor that was read"),
    }
}

fn close(got: &[f32], expected: &[f32], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let worst = got.iter().zip(expected).map(|(got, expected)| (got - expected).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-4, "{what}: {worst}");
}

/// Products, normalization, slices and a transposition of `[n, 128]`.
fn layers() -> TestGraph {
    TestGraph::default()
        .input("x", Float, &["n", "128"])
        .floats("w", &[WIDTH as i64, WIDTH as i64], &random(WIDTH * WIDTH, 1))
        .floats("v", &[WIDTH as i64, WIDTH as i64], &random(WIDTH * WIDTH, 2))
        .floats("scale", &[WIDTH as i64], &random(WIDTH, 3))
        .node("MatMul", "x w", "a", vec![])
        .node("LayerNormalization", "a scale", "b", vec![("axis", Attr::Int(-1))])
        .node("Tanh", "b", "c", vec![])
        .node("MatMul", "c v", "d", vec![])
        .node("Add", "d x", "e", vec![])
        .node("Transpose", "e", "f", vec![("perm", Attr::Ints(&[1, 0]))])
        .node("MatMul", "e f", "g", vec![])
        .node("Softmax", "g", "h", vec![("axis", Attr::Int(-1))])
        .node("ReduceMean", "h", "i", vec![("keepdims", Attr::Int(0))])
        .output("h")
        .output("i")
}

#[test]
fn other_sizes_agree_with_the_cpu_and_upload_next_to_nothing() {
    let session = |context| Arc::new(Session::open(model(layers()), context, SessionOptions::default()).unwrap());
    let (cpu, gpu) = (session(context()), session(alone()));
    let mut uploaded = Vec::new();
    for (index, rows) in [5, 9, 64, 1, 17, 3, 33, 130, 70, 12, 2, 128, 5, 4, 90].into_iter().enumerate() {
        let x = random(rows * WIDTH, 10 + index as u64);
        let run = |session: &Arc<Session>| outputs(session, vec![(feed(&x), vec![rows as u32, WIDTH as u32])]);
        let expected = run(&cpu);
        let [before, _] = traffic(&gpu);
        for (got, expected) in run(&gpu).iter().zip(&expected) {
            close(&floats(got), &floats(expected), &format!("{rows} rows"));
        }
        uploaded.push(traffic(&gpu)[0] - before - 4 * x.len() as u64);
    }
    assert!(
        uploaded[0] > 4 * 2 * (WIDTH * WIDTH) as u64 && uploaded[1..].iter().all(|&bytes| bytes < 4096),
        "{uploaded:?}"
    );
}

/// A layer of attention: the keys and values of `x` are appended to caches `[1, heads, m, depth]`.
fn decoder() -> TestGraph {
    let mut graph = TestGraph::default()
        .input("x", Float, &["1", "n", "128"])
        .input("past.key", Float, &["1", "2", "m", "64"])
        .input("past.value", Float, &["1", "2", "m", "64"])
        .ints("split", &[1, -1, HEADS as i64, DEPTH as i64])
        .ints("joined", &[1, -1, WIDTH as i64])
        .floats("factor", &[], &[1.0 / (DEPTH as f32).sqrt()]);
    for (index, name) in ["q", "k", "v", "o"].into_iter().enumerate() {
        let weights = random(WIDTH * WIDTH, 20 + index as u64).iter().map(|x| x / 8.0).collect::<Vec<_>>();
        graph = graph.floats(&format!("w{name}"), &[WIDTH as i64, WIDTH as i64], &weights);
    }
    for name in ["q", "k", "v"] {
        graph = graph
            .node("MatMul", &format!("x w{name}"), &format!("{name}0"), vec![])
            .node("Reshape", &format!("{name}0 split"), &format!("{name}1"), vec![])
            .node("Transpose", &format!("{name}1"), &format!("{name}2"), vec![("perm", Attr::Ints(&[0, 2, 1, 3]))]);
    }
    graph
        .node("Concat", "past.key k2", "present.key", vec![("axis", Attr::Int(2))])
        .node("Concat", "past.value v2", "present.value", vec![("axis", Attr::Int(2))])
        .node("Transpose", "present.key", "kt", vec![("perm", Attr::Ints(&[0, 1, 3, 2]))])
        .node("MatMul", "q2 kt", "scores0", vec![])
        .node("Mul", "scores0 factor", "scores", vec![])
        .node("Softmax", "scores", "weights", vec![("axis", Attr::Int(-1))])
        .node("MatMul", "weights present.value", "heads", vec![])
        .node("Transpose", "heads", "heads1", vec![("perm", Attr::Ints(&[0, 2, 1, 3]))])
        .node("Reshape", "heads1 joined", "row", vec![])
        .node("MatMul", "row wo", "y", vec![])
        .output("y")
        .output("present.key")
        .output("present.value")
}

#[test]
fn tokens_leave_their_caches_on_the_device() {
    let session = |context| Arc::new(Session::open(model(decoder()), context, SessionOptions::default()).unwrap());
    let (cpu, gpu) = (session(context()), session(alone()));
    let past = random(HEADS * 3 * DEPTH, 30);
    let start = || [feed(&past), feed(&past)];
    let mut caches = [(cpu, start()), (gpu.clone(), start())];
    for token in 3..40 {
        let x = random(WIDTH, 40 + token as u64);
        let before = traffic(&gpu);
        let mut rows = Vec::new();
        for (session, [key, value]) in &mut caches {
            let take = |feed: &mut Feed| std::mem::replace(feed, Feed::Bytes(Arc::default()));
            let shape = vec![1, HEADS as u32, token, DEPTH as u32];
            let feeds = vec![(feed(&x), vec![1, 1, WIDTH as u32]), (take(key), shape.clone()), (take(value), shape)];
            let mut all = outputs(session, feeds).into_iter();
            rows.push(floats(&all.next().unwrap()));
            for cache in [key, value] {
                let Some(Output::Cache(next)) = all.next() else { panic!("a cache") };
                *cache = Feed::Cache(next);
            }
        }
        close(&rows[1], &rows[0], &format!("token {token}"));
        let [up, down] = traffic(&gpu);
        if token > 3 {
            assert!(up - before[0] < 4096 && down - before[1] == 4 * WIDTH as u64, "{token}: {before:?}, {up}, {down}");
        }
    }
    let [(_, [cpu, _]), (_, [gpu, _])] = &caches;
    let (Feed::Cache(cpu), Feed::Cache(gpu)) = (cpu, gpu) else { panic!("caches") };
    let dense = |cache: &Cache| elements::<f32>(cache.to_dense().unwrap().bytes()).to_vec();
    close(&dense(gpu), &dense(cpu), "the cache");
}

/// `age = t - 1.7e9` in float64, and `y`, a product of it with weights in float32.
fn timestamps() -> TestGraph {
    let cast = |to| vec![("to", Attr::Int(to))];
    TestGraph::default()
        .input("t", Double, &["n", "2"])
        .raw("origin", Double, &[], &1.7e9f64.to_le_bytes())
        .floats("w", &[2, 3], &random(6, 1))
        .node("Sub", "t origin", "age", vec![])
        .node("Cast", "age", "narrow", cast(1))
        .node("MatMul", "narrow w", "y", vec![])
        .node("Cast", "y", "wide", cast(11))
        .node("ReduceSum", "wide", "sum", vec![("keepdims", Attr::Int(0))])
        .node("Identity", "t", "same", vec![])
        .output_of("age", Double)
        .output("y")
        .output_of("sum", Double)
        .output_of("same", Double)
}

#[test]
fn doubles_are_left_to_the_cpu() {
    let session = |context| Arc::new(Session::open(model(timestamps()), context, SessionOptions::default()).unwrap());
    let (cpu, gpu) = (session(context()), session(alone()));
    let doubles = |output: &Output| match output {
        Output::Bytes { bytes, .. } => elements::<f64>(bytes.bytes()).to_vec(),
        _ => panic!("it was read"),
    };
    for rows in [2u32, 5] {
        let t: Vec<f64> = (0..2 * rows).map(|at| 1.7e9 + f64::from(at) / 7.0).collect();
        let fed = || Feed::Bytes(Arc::new(Buffer::copy_of(bytes_of(&t)).unwrap()));
        let run = |session: &Arc<Session>| outputs(session, vec![(fed(), vec![rows, 2])]);
        let (expected, got) = (run(&cpu), run(&gpu));
        assert_eq!(doubles(&got[0]), doubles(&expected[0]));
        assert_eq!(doubles(&got[0])[1], 1.7e9 + 1.0 / 7.0 - 1.7e9);
        close(&floats(&got[1]), &floats(&expected[1]), "y");
        assert!((doubles(&got[2])[0] - doubles(&expected[2])[0]).abs() < 1e-4);
        assert_eq!(doubles(&got[3]), t);
    }
}
