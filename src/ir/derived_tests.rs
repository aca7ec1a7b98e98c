use super::*;
use crate::ir::{Identity, Source, ValueId, parse};
use crate::memory::elements;
use crate::reference;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// An evaluator, and how often it was called.
fn counting() -> (Evaluator, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let own = count.clone();
    let evaluator = Evaluator::new(move |graph, node| {
        own.fetch_add(1, Ordering::Relaxed);
        reference::evaluate(graph, node)
    });
    (evaluator, count)
}

fn calls(count: &AtomicUsize) -> usize {
    count.load(Ordering::Relaxed)
}

/// Makes the outputs of all nodes derived constants.
fn derive(text: &str, evaluator: &Evaluator) -> Graph {
    let mut graph = parse(text);
    for node in std::mem::take(&mut graph.nodes) {
        for (id, output) in node.outputs.iter().zip(Derived::outputs_of(&graph, &node, evaluator)) {
            graph.values[id.index()].source = Source::Constant(Constant::Derived(output));
        }
    }
    graph
}

fn output(graph: &Graph, index: usize) -> Derived {
    match graph.value(graph.outputs[index].1).constant() {
        Some(Constant::Derived(derived)) => derived.clone(),
        _ => panic!("output {index} is derived"),
    }
}

const SPLIT: &str = "%0 = constant float32 [4, 6]
    %1 = transpose %0
    %2, %3 = split %1 splits=[1, 3] axis=1
    output x = %2
    output y = %3";

#[test]
fn outputs_are_computed_when_they_are_read_and_freed_with_their_last_holder() {
    let (evaluator, count) = counting();
    let graph = derive(SPLIT, &evaluator);
    let expected = reference::run(&parse(SPLIT), &HashMap::new());
    let [x, y] = [0, 1].map(|index| output(&graph, index));
    assert_eq!((x.len(), y.len(), x.depth(), calls(&count)), (24, 72, 2, 0));
    let first = x.buffer().unwrap();
    assert_eq!(first.bytes(), expected["x"].to_bytes());
    assert!(Arc::ptr_eq(&first, &x.buffer().unwrap()) && calls(&count) == 2);
    assert_eq!(y.buffer().unwrap().bytes(), expected["y"].to_bytes());
    assert_eq!(calls(&count), 4, "the other output was not held");
    let weak = Arc::downgrade(&first);
    drop(first);
    assert!(weak.upgrade().is_none());
}

#[test]
fn holds_and_sharing_keep_what_is_computed() {
    let (evaluator, count) = counting();
    let graph = derive(SPLIT, &evaluator);
    let [x, y] = [0, 1].map(|index| output(&graph, index));
    let hold = x.hold();
    drop((x.buffer().unwrap(), y.buffer().unwrap()));
    assert_eq!(calls(&count), 2);
    drop(hold);
    assert!(x.from.lock().made().is_none());

    let constants = [x.window(4..8), y.window(0..12)].map(Constant::Derived);
    let mut sharing = Sharing::default();
    constants.iter().for_each(|constant| sharing.expect(constant));
    assert_eq!(calls(&count), 2);
    for constant in &constants {
        constant.buffer().unwrap();
        assert_eq!(calls(&count), 4);
        sharing.done(constant);
    }
    assert!(sharing.0.is_empty() && x.from.lock().made().is_none());
}

#[test]
fn threads_that_read_at_the_same_time_compute_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let own = count.clone();
    let slow = Evaluator::new(move |graph, node| {
        own.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(100));
        reference::evaluate(graph, node)
    });
    let graph = derive("%0 = constant float32 [8]\n%1 = neg %0\n%2 = exp %1\noutput x = %2", &slow);
    let x = output(&graph, 0);
    let start = std::sync::Barrier::new(3);
    let read = || {
        start.wait();
        x.buffer().unwrap()
    };
    let buffers: Vec<Arc<Buffer>> = std::thread::scope(|scope| {
        let threads = [(); 3].map(|()| scope.spawn(read));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(buffers.iter().all(|buffer| Arc::ptr_eq(buffer, &buffers[0])));
    assert_eq!(calls(&count), 2);
}

#[test]
fn nodes_that_many_paths_lead_to_are_computed_once() {
    let (evaluator, count) = counting();
    let mut text = "%0 = constant float32 [2]\n%1 = neg %0\n".to_string();
    (2..40).for_each(|id| text += &format!("%{id} = max %{} %{}\n", id - 1, id - 2));
    let graph = derive(&(text + "output x = %39"), &evaluator);
    output(&graph, 0).buffer().unwrap();
    assert_eq!(calls(&count), 39);
}

#[test]
fn windows_compute_nothing() {
    let (evaluator, count) = counting();
    let graph = derive("%0 = constant float16 [10]\n%1 = neg %0\noutput x = %1", &evaluator);
    let whole = output(&graph, 0);
    let wide = whole.widen();
    let windows = [whole.window(2..12), whole.window(2..12).window(2..6), wide.window(8..24)];
    assert_eq!((windows.each_ref().map(Derived::len), calls(&count)), ([10, 4, 16], 0));
    let bytes = whole.buffer().unwrap();
    assert_eq!(windows[0].buffer().unwrap().bytes(), &bytes.bytes()[2..12]);
    assert_eq!(windows[1].buffer().unwrap().bytes(), &bytes.bytes()[4..8]);
    let halves = elements::<half::f16>(bytes.bytes());
    let floats: Vec<f32> = halves[2..6].iter().map(|half| half.to_f32()).collect();
    assert_eq!(elements::<f32>(windows[2].buffer().unwrap().bytes()), floats);
    assert_eq!(windows[2].halves().unwrap().range(), 4..12);
    assert_eq!(calls(&count), 1);
}

#[test]
fn identities_are_those_of_the_output_and_its_first_byte() {
    let (evaluator, _) = counting();
    let graph = derive(SPLIT, &evaluator);
    let [x, y] = [0, 1].map(|index| output(&graph, index));
    let of = |derived: &Derived| Identity::of(&Constant::Derived(derived.clone()));
    assert!(of(&x) == of(&x.clone()) && of(&x.window(4..24)) == Identity::of_output(&x, 4));
    assert!(of(&x) != of(&y) && of(&x) != of(&x.window(4..24)) && of(&x) != of(&x.widen()));
    assert!(of(&x) != of(&output(&derive(SPLIT, &evaluator), 0)));
}

#[test]
fn descriptions_tell_everything_apart() {
    let (evaluator, _) = counting();
    let described = |text: &str| output(&derive(text, &evaluator), 0).description();
    let inputs = "%0 = constant float32 [4, 4]\n%1 = constant float32 [4]\n%2 = constant float32 [4]\n";
    let texts = [
        "%3 = transpose %0",
        "%3 = exp %0",
        "%3 = linear %0 alpha=0.1",
        "%3 = linear %0 alpha=0.10000001",
        "%3 = linear %0 alpha=-0.0",
        "%3 = linear %0 alpha=0.0",
        "%3 = pad %0 beginningPadding=[1, 0] endingPadding=[0, 0]",
        "%3 = pad %0 beginningPadding=[0, 0] endingPadding=[1, 0]",
        "%3 = add %0 %1",
        "%3 = add %1 %0",
        "%3 = layerNormalization %0 %1",
        "%3 = layerNormalization %0 _ %1",
        "%3 = layerNormalization %0 %1 %2",
        "%3, %4 = split %0 splits=[1, 3]",
        "%4, %3 = split %0 splits=[1, 3]",
        "%3, %4 = split %0 splits=[2, 2]",
        "%4, %3 = split %0 splits=[2, 2]",
        "%3 = reshape %0 newShape=[16]",
        "%3 = reshape %0 newShape=[2, 8]",
    ];
    let mut all: Vec<String> = texts.map(|text| described(&format!("{inputs}{text}\noutput x = %3"))).to_vec();
    all.push(described("%0 = constant float16 [4, 4]\n%1 = transpose %0\noutput x = %1"));
    all.push(described("%0 = constant float32 [4, 3]\n%1 = transpose %0\noutput x = %1"));
    let whole = output(&derive(SPLIT, &evaluator), 1);
    let windows = [whole.window(0..16), whole.window(16..32), whole.window(0..32), whole.widen()];
    all.extend(windows.iter().map(Derived::description));
    let distinct: HashSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "{all:#?}");
}

#[test]
fn descriptions_do_not_depend_on_labels_or_on_the_graph_around() {
    let (evaluator, _) = counting();
    let short = output(&derive("%0 = constant float32 [4, 2]\n%1 = transpose %0\noutput x = %1", &evaluator), 0);
    let mut graph = parse(
        "%0 = constant float32 [7]
         %1 = constant float32 [4, 2]
         %2 = neg %0
         %3 = transpose %1
         output x = %2
         output y = %3",
    );
    (graph.nodes[1].label, graph.nodes[1].origins) = ("another".into(), vec![5]);
    let long = Derived::outputs_of(&graph, &graph.nodes[1], &evaluator).remove(0);
    assert_eq!(short.description(), long.description());
    let sources: Vec<Identity> = long.sources().map(Identity::of).collect();
    assert!(sources == [Identity::of(graph.value(ValueId(1)).constant().unwrap())]);
}
