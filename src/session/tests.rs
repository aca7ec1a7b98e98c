//! Tests of sessions on the CPU, without JavaScript.

use super::*;
use crate::dimension::numbers;
use crate::dtype::DataType;
use crate::error::ErrorKind;
use crate::gpu::adapter::choice_of_tests;
use crate::gpu::device::Device;
use crate::memory::{bytes_of, elements};
use crate::onnx::file::Files;
use crate::onnx::tensor::ElementType::{self, Float, Float16};
use crate::onnx::testing::{Attr, TestGraph};
use crate::runtime::{Backend, Tensor, Wish};
use std::cell::Cell;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::mpsc::channel;

/// y = x + b for x of shape [n, m].
fn add() -> TestGraph {
    let graph = TestGraph::default().input("x", Float, &["n", "m"]).input("b", Float, &["m"]);
    graph.node("Add", "x b", "y", vec![]).output("y")
}

pub(super) fn model(graph: TestGraph) -> Arc<Model> {
    let (files, bytes) = Files::of_bytes(graph.encode(17));
    Arc::new(Model::decode(bytes, files).unwrap())
}

pub(super) fn finished(request: impl FnOnce(Done)) -> Result<()> {
    let (tell, told) = channel();
    request(Done::new(move |result| tell.send(result).expect("somebody waits")));
    told.recv().expect("every request is completed")
}

pub(super) fn context() -> Arc<Context> {
    opened(Context::new(Some(1), false).unwrap())
}

fn opened(context: Context) -> Arc<Context> {
    let context = Arc::new(context);
    finished(|done| context.open(Wish::Cpu("for a test"), Done::unobserved(), done)).unwrap();
    context
}

/// A context on llvmpipe, independent of the environment.
pub(super) fn on_llvmpipe() -> Arc<Context> {
    opened_on(|| Device::shared(&choice_of_tests()))
}

/// A context on the device that `find` returns.
pub(super) fn opened_on(find: impl FnOnce() -> Result<Option<Arc<Device>>> + Send + 'static) -> Arc<Context> {
    let context = Arc::new(Context::new(Some(1), false).unwrap());
    let find = || Ok(Backend::Gpu(find()?.expect("software Vulkan")));
    finished(|done| context.open_on(find, Done::unobserved(), done)).unwrap();
    context
}

/// A feed with these numbers.
pub(super) fn feed(numbers: &[f32]) -> Feed {
    Feed::Bytes(Arc::new(Buffer::copy_of(bytes_of(numbers)).unwrap()))
}

/// The outputs of a run with these float32 feeds, as JavaScript gets them.
pub(super) fn outputs(session: &Arc<Session>, feeds: Vec<(Feed, Vec<u32>)>) -> Vec<Output> {
    let (feeds, shapes): (Vec<Feed>, Vec<Vec<u32>>) = feeds.into_iter().unzip();
    let values = Arc::new(Slot::default());
    let targets = vec![Target::Read; session.signature().outputs.len()];
    finished(|done| session.run(shapes.into_iter().collect(), feeds, targets).enqueue(values.clone(), done)).unwrap();
    values.take().unwrap().into_iter().map(|value: Option<Output>| value.unwrap()).collect()
}

pub(super) fn session(graph: TestGraph, options: SessionOptions) -> Arc<Session> {
    Arc::new(Session::open(model(graph), context(), options).unwrap())
}

pub(super) fn data(numbers: &[f32], shape: Option<&[u32]>) -> (Vec<u8>, Option<Vec<u32>>) {
    (bytes_of(numbers).to_vec(), shape.map(<[u32]>::to_vec))
}

/// The outputs of a run with data for all inputs, which reads all outputs.
pub(super) fn run(session: &Arc<Session>, feeds: &[(Vec<u8>, Option<Vec<u32>>)]) -> Result<Vec<(Vec<u32>, Vec<f32>)>> {
    let offers: Vec<Offer> =
        feeds.iter().map(|(bytes, shape)| Offer::Data { bytes: bytes.len(), shape: shape.clone() }).collect();
    let shapes = session.signature().shapes_of_feeds(&offers)?;
    let feeds = feeds.iter().map(|(bytes, _)| Feed::Bytes(Arc::new(Buffer::copy_of(bytes).unwrap()))).collect();
    let values = Arc::new(Slot::default());
    let targets = vec![Target::Read; session.signature().outputs.len()];
    finished(|done| session.run(shapes, feeds, targets).enqueue(values.clone(), done))?;
    let values: Vec<Option<Output>> = values.take().expect("a run that succeeds leaves its values");
    let read = values.into_iter().flatten().map(read_value);
    Ok(read.map(|(descriptor, bytes)| (numbers(&descriptor.shape), elements(bytes.bytes()).to_vec())).collect())
}

pub(super) fn read_value(value: Output) -> (Descriptor, Buffer) {
    match value {
        Output::Bytes { descriptor, bytes } => (descriptor, bytes),
        Output::Cache(cache) => (cache.descriptor.clone(), cache.to_dense().unwrap()),
        Output::Tensor(_) | Output::List(_) | Output::Nothing => panic!("a tensor that was read"),
    }
}

#[test]
fn sizes_follow_from_shapes_and_from_numbers_of_elements() {
    let session = session(add(), SessionOptions::default());
    let feeds = [data(&[1.0, 2.0, 3.0, 4.0], Some(&[2, 2])), data(&[10.0, 20.0], None)];
    assert_eq!(run(&session, &feeds).unwrap(), [(vec![2, 2], vec![11.0, 22.0, 13.0, 24.0])]);
    // m is known from b; n then follows from the number of elements.
    let feeds = [data(&[1.0, 2.0, 3.0], None), data(&[5.0], None)];
    assert_eq!(run(&session, &feeds).unwrap(), [(vec![3, 1], vec![6.0, 7.0, 8.0])]);
    let feeds = [data(&[], Some(&[0, 2])), data(&[5.0, 6.0], None)];
    assert_eq!(run(&session, &feeds).unwrap(), [(vec![0, 2], vec![])]);
}

/// y = x + b, whose first sizes have the same name; a size of 1 is broadcast.
fn careless() -> TestGraph {
    let graph = TestGraph::default().input("x", Float, &["n", "m"]).input("b", Float, &["n", "m"]);
    graph.node("Add", "x b", "y", vec![]).output("y")
}

#[test]
fn names_of_dimensions_are_promises_only_if_they_must_be() {
    let feeds = |rows: u32| {
        let x: Vec<f32> = (0..2 * rows).map(|i| i as f32).collect();
        [data(&x, Some(&[rows, 2])), data(&[10.0, 20.0], Some(&[1, 2]))]
    };
    let strict = session(careless(), SessionOptions { strict_dimensions: Some(true), ..Default::default() });
    let error = run(&strict, &feeds(2)).unwrap_err();
    assert_eq!(error.code, Some(Code::Shape));
    let expected = "run: \"b\" has shape [1, 2], expected [n=2, m=2], since strictDimensions is true: \"x\" has n=2";
    assert_eq!(error.message, expected);
    for strict_dimensions in [None, Some(false)] {
        let loose = session(careless(), SessionOptions { strict_dimensions, ..Default::default() });
        assert_eq!(run(&loose, &feeds(2)).unwrap(), [(vec![2, 2], vec![10.0, 21.0, 12.0, 23.0])]);
        assert_eq!(run(&loose, &feeds(1)).unwrap(), [(vec![1, 2], vec![10.0, 21.0])]);
        assert_eq!(run(&loose, &feeds(3)).unwrap()[0].0, [3, 2]);
    }
}

#[test]
fn contradictions_are_found_among_all_dimensions_of_a_name() {
    let graph = careless().input("c", Float, &["m", "k", "k"]).node("Neg", "c", "z", vec![]).output("z");
    let session = session(graph, SessionOptions::default());
    let found =
        |x: [u32; 2], b: [u32; 2], c: [u32; 3]| session.signature().contradiction(&Shapes::from_iter([&x[..], &b, &c]));
    assert_eq!(found([2, 3], [2, 3], [3, 5, 5]), None);
    let expected = "the dimension \"k\" is 5 in \"c\" at [1], 6 in \"c\" at [2]; \
                    the dimension \"m\" is 3 in \"x\" at [1], 4 in \"c\" at [0]";
    assert_eq!(found([2, 3], [2, 3], [4, 5, 6]).unwrap(), expected);
}

#[test]
fn data_without_a_shape_has_a_size_of_its_own_where_that_of_its_name_does_not_fit() {
    let graph = || {
        let graph = TestGraph::default().input("x", Float, &["n"]).input("b", Float, &["n", "2"]);
        graph.node("Relu", "x", "y", vec![]).node("Neg", "b", "z", vec![]).output("y").output("z")
    };
    let feeds = [data(&[1.0, 2.0, 3.0], None), data(&[4.0, 5.0], None)];
    let results = run(&session(graph(), SessionOptions::default()), &feeds).unwrap();
    assert_eq!(results, [(vec![3], vec![1.0, 2.0, 3.0]), (vec![1, 2], vec![-4.0, -5.0])]);
    let strict = SessionOptions { strict_dimensions: Some(true), ..Default::default() };
    assert!(run(&session(graph(), strict), &feeds).is_err());
    let odd = [data(&[1.0], None), data(&[4.0, 5.0, 6.0], None)];
    let message = run(&session(graph(), SessionOptions::default()), &odd).unwrap_err().message;
    assert!(message.contains("\"b\"") && message.ends_with("or {data, shape}"), "{message}");
}

#[test]
fn a_size_that_is_set_is_not_contradicted() {
    for strict_dimensions in [None, Some(true), Some(false)] {
        let options =
            SessionOptions { free_dimensions: [("n".to_string(), 2)].into(), strict_dimensions, ..Default::default() };
        let session = session(careless(), options);
        let x = || data(&[1.0, 2.0, 3.0, 4.0], Some(&[2, 2]));
        let message = run(&session, &[x(), data(&[1.0, 1.0], Some(&[1, 2]))]).unwrap_err().message;
        assert!(
            message.contains("\"b\" has shape [1, 2], expected [n=2, m=2], since freeDimensions sets n"),
            "{message}"
        );
        let doubled = run(&session, &[x(), x()]).unwrap();
        assert_eq!(doubled, [(vec![2, 2], vec![2.0, 4.0, 6.0, 8.0])]);
    }
}

#[test]
fn a_default_can_be_fed_or_replaced_by_a_constant() {
    let graph = || {
        let graph = TestGraph::default().input("x", Float, &["n"]).input("w", Float, &["1"]).floats("w", &[1], &[10.0]);
        graph.node("Add", "x w", "y", vec![]).output("y")
    };
    let x = || data(&[1.0, 2.0], None);
    let default = session(graph(), SessionOptions::default());
    let names = |values: &[ValueInfo]| values.iter().map(|value| value.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&default.signature().inputs), ["x"]);
    assert_eq!(names(&default.signature().optional_inputs), ["w"]);
    assert_eq!(run(&default, &[x()]).unwrap(), [(vec![2], vec![11.0, 12.0])]);
    let observed = |session: Session| Arc::new(session.observed(Box::new(|_| ())));
    let fed = observed(default.with_inputs(&["w".to_string()]).unwrap());
    assert_eq!(fed.bytes(), 0, "the file and the constants are counted once");
    assert_eq!(names(&fed.signature().inputs), ["x", "w"]);
    assert!(fed.signature().optional_inputs.is_empty());
    assert_eq!(run(&fed, &[x(), data(&[5.0], None)]).unwrap(), [(vec![2], vec![6.0, 7.0])]);
    assert_eq!(run(&default, &[x()]).unwrap(), [(vec![2], vec![11.0, 12.0])]);

    let model = model(graph());
    let bytes = Buffer::copy_of(bytes_of(&[7.0f32])).unwrap();
    let constant = Constant::new(&model, &BTreeMap::new(), "w".into(), None, bytes).unwrap();
    let options = SessionOptions { constants: vec![constant], ..Default::default() };
    let replaced = Arc::new(Session::open(model, context(), options).unwrap());
    assert!(replaced.signature().optional_inputs.is_empty());
    assert_eq!(run(&replaced, &[x()]).unwrap(), [(vec![2], vec![8.0, 9.0])]);
}

#[test]
fn a_model_without_outputs_is_refused() {
    let graph = TestGraph::default().input("x", Float, &["n"]).node("Relu", "x", "y", vec![]);
    let open = |outputs: Option<Vec<String>>| {
        Session::open(model(graph.clone()), context(), SessionOptions { outputs, ..Default::default() })
    };
    let error = open(None).err().unwrap();
    assert_eq!(error.code, Some(Code::ModelInvalid));
    assert!(error.message.contains("the option outputs"), "{}", error.message);
    assert!(open(Some(vec!["y".into()])).is_ok());
}

#[test]
fn bytes_of_a_feed_with_another_owner_are_not_reused() {
    let session = session(add(), SessionOptions::default());
    let offers = [Offer::Data { bytes: 8, shape: Some(vec![1, 2]) }, Offer::Data { bytes: 8, shape: None }];
    let shapes = session.signature().shapes_of_feeds(&offers).unwrap();
    let kept = Arc::new(Buffer::copy_of(bytes_of(&[1.0f32, 2.0])).unwrap());
    for _ in 0..3 {
        // The same bytes for both inputs.
        let feeds = vec![Feed::Bytes(kept.clone()), Feed::Bytes(kept.clone())];
        let (values, targets) = (Arc::new(Slot::default()), vec![Target::Read]);
        finished(|done| session.run(shapes.clone(), feeds, targets).enqueue(values.clone(), done)).unwrap();
        let values: Vec<Option<Output>> = values.take().unwrap();
        let (_, bytes) = values.into_iter().flatten().map(read_value).next().unwrap();
        assert_eq!(elements::<f32>(bytes.bytes()), [2.0, 4.0]);
        session.recycle(bytes);
        assert_eq!(elements::<f32>(kept.bytes()), [1.0, 2.0]);
        assert_eq!(Arc::strong_count(&kept), 1, "the run keeps nothing");
    }
}

#[test]
fn an_output_in_a_new_tensor_belongs_to_the_caller() {
    let session = session(add(), SessionOptions::default());
    let shapes = |n: u32| {
        let offers =
            [Offer::Data { bytes: 8 * n as usize, shape: Some(vec![n, 2]) }, Offer::Data { bytes: 8, shape: None }];
        session.signature().shapes_of_feeds(&offers).unwrap()
    };
    let tensor_of = |numbers: [f32; 2]| {
        let feeds =
            [numbers, [10.0, 20.0]].map(|numbers| Feed::Bytes(Arc::new(Buffer::copy_of(bytes_of(&numbers)).unwrap())));
        let values = Arc::new(Slot::default());
        finished(|done| session.run(shapes(1), feeds.into(), vec![Target::New]).enqueue(values.clone(), done)).unwrap();
        let values: Vec<Option<Output>> = values.take().unwrap();
        let [Some(Output::Tensor(tensor))] = &values[..] else { panic!("a tensor") };
        tensor.clone()
    };
    let (first, second) = (tensor_of([1.0, 2.0]), tensor_of([3.0, 4.0]));
    let read = |tensor: &Tensor| elements::<f32>(tensor.lock().unwrap().bytes().unwrap().bytes()).to_vec();
    assert_eq!((read(&first), read(&second)), (vec![11.0, 22.0], vec![13.0, 24.0]));
    let feeds = vec![Feed::Bytes(Arc::default()), Feed::Bytes(Arc::new(Buffer::zeroed(8).unwrap()))];
    let error =
        finished(|done| session.run(shapes(0), feeds, vec![Target::New]).enqueue(Arc::default(), done)).unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (Some(Code::Shape), "run: output \"y\" has no elements, which a tensor cannot represent")
    );
}

#[test]
fn mismatched_feeds_are_type_errors_with_codes() {
    let session = session(add(), SessionOptions::default());
    let b = || data(&[1.0, 2.0], None);
    let cases = [
        (
            [data(&[1.0, 2.0, 3.0], None), b()],
            "feed \"x\" has 3 elements, expected a number that fills the shape [n, m=2]",
        ),
        ([data(&[1.0], Some(&[1, 2])), b()], "feed \"x\" has 4 bytes, expected the 8 bytes of float32 [1, 2]"),
        ([data(&[1.0], Some(&[1])), b()], "\"x\" has shape [1], expected [n, m]"),
        ([(vec![0; 7], None), b()], "feed \"x\" has 7 bytes, expected a whole number of elements of float32"),
        (
            [data(&[1.0], Some(&[1 << 30, 1 << 30])), data(&[1.0], Some(&[1 << 30]))],
            "more than the 2147483647 elements",
        ),
    ];
    for (feeds, message) in cases {
        let error = run(&session, &feeds).unwrap_err();
        assert_eq!((error.kind, error.code), (ErrorKind::Type, Some(Code::Shape)), "{error}");
        assert!(error.message.contains(message), "{error}");
    }
    let error = session.signature().check_feeds(&["b".into(), "z".into()]).unwrap_err();
    assert_eq!(error.code, Some(Code::MissingFeed));
    assert!(error.message.contains("\"x\" is missing, \"z\" is not an input; the model has \"x\", \"b\""), "{error}");
    assert_eq!(
        session.signature().check_feeds(&["b".into(), "x".into(), "z".into()]).unwrap_err().code,
        Some(Code::UnknownFeed)
    );
    assert_eq!(session.signature().check_fetches(&["z".into()]).unwrap_err().code, Some(Code::UnknownOutput));
    let options = SessionOptions { free_dimensions: [("k".to_string(), 1)].into(), ..Default::default() };
    let error = Session::open(model(add()), context(), options).err().expect("there is no k");
    assert_eq!(error.code, Some(Code::UnknownDimension));
    assert!(error.message.contains("the model has \"m\", \"n\""), "{error}");
}

#[test]
fn constants_are_not_inputs_and_determine_sizes() {
    let model = model(add());
    let sizes = BTreeMap::from([("m".to_string(), 2)]);
    let constant = |bytes: &[u8]| Constant::new(&model, &sizes, "b".into(), None, Buffer::copy_of(bytes).unwrap());
    assert_eq!(constant(&[0; 4]).expect_err("too few").code, Some(Code::Shape));
    let constants = vec![constant(bytes_of(&[1.0f32, 2.0])).unwrap()];
    let options = SessionOptions { free_dimensions: sizes.clone(), constants, ..Default::default() };
    let session = Arc::new(Session::open(model.clone(), context(), options).unwrap());
    assert_eq!(session.signature().inputs.len(), 1);
    assert_eq!(run(&session, &[data(&[1.0, 1.0], None)]).unwrap(), [(vec![1, 2], vec![2.0, 3.0])]);
}

#[test]
fn a_session_keeps_the_last_used_graphs_and_nothing_after_its_release() {
    let model = model(add());
    let one = Buffer::copy_of(bytes_of(&[1.0f32])).unwrap();
    let weight = Constant::new(&model, &BTreeMap::new(), "b".into(), Some(vec![1]), one).unwrap();
    let options = SessionOptions { constants: vec![weight], ..Default::default() };
    let session = Arc::new(Session::open(model, context(), options).unwrap());
    let id_of = |n: u32| {
        let shapes = BTreeMap::from([("x".to_string(), vec![n, 1])]);
        let shapes = session.signature().shapes_of_names("compile", &shapes).unwrap();
        let made = Arc::new(Slot::default());
        finished(|done| session.compile(shapes, made.clone(), done)).map(|()| made.take().expect("made").0.id)
    };
    let mut first = vec![id_of(1).unwrap()];
    let bytes = session.bytes();
    assert!(bytes > 0);
    first.extend((2..=8).map(|n| id_of(n).unwrap()));
    assert_eq!(id_of(1).unwrap(), first[0]);
    id_of(9).unwrap();
    assert_eq!(id_of(1).unwrap(), first[0]);
    assert_ne!(id_of(2).unwrap(), first[1]);
    assert_eq!(session.bytes(), bytes, "weights are counted once");
    session.destroy();
    let error = id_of(1).unwrap_err();
    assert_eq!((error.code, session.bytes()), (Some(Code::Destroyed), 0));
}

#[test]
fn a_session_tells_its_size_with_all_that_it_was_opened_with() {
    let model = model(add());
    let own = model.files.memory_bytes();
    let one = Buffer::copy_of(bytes_of(&[1.0f32])).unwrap();
    let constant = Constant::new(&model, &BTreeMap::new(), "b".into(), Some(vec![1]), one).unwrap();
    let options = SessionOptions { constants: vec![constant], ..Default::default() };
    let (tell, told) = channel();
    let session = Session::open(model, context(), options).unwrap();
    let session = Arc::new(session.observed(Box::new(move |bytes| tell.send(bytes).unwrap())));
    assert!(own > 0);
    assert_eq!(told.try_iter().last(), Some(own + 4));
    run(&session, &[data(&[1.0, 1.0], Some(&[2, 1]))]).unwrap();
    assert!(told.try_iter().last() > Some(own + 4), "plans and pooled memory");
    session.recycle(Buffer::zeroed(1 << 20).unwrap());
    assert!(told.try_iter().last() > Some(own + (1 << 20)));
    let shapes = BTreeMap::from([("x".to_string(), vec![2, 1])]);
    let shapes = session.signature().shapes_of_names("compile", &shapes).unwrap();
    session.destroy();
    finished(|done| session.compile(shapes, Arc::default(), done)).unwrap_err();
    assert_eq!(told.try_iter().last(), Some(0));
}

#[test]
fn tensors_are_used_in_place_and_targets_must_match() {
    let context = context();
    let session = Arc::new(Session::open(model(add()), context.clone(), SessionOptions::default()).unwrap());
    let tensor = |shape: &[u32]| -> Arc<Tensor> {
        let mut tensor = None;
        let descriptor = Descriptor::new(DataType::Float32, shape);
        finished(|done| tensor = Some(context.create_tensor(descriptor, done).unwrap())).unwrap();
        tensor.expect("created")
    };
    let (x, y, b) = (tensor(&[2, 1]), tensor(&[2, 1]), bytes_of(&[3.0f32]).to_vec());
    context.write(&x, Buffer::copy_of(bytes_of(&[1.0f32, 2.0])).unwrap()).unwrap();
    let run = |target: &Arc<Tensor>| {
        let offers = [Offer::Tensor(&x), Offer::Data { bytes: 4, shape: None }];
        let shapes = session.signature().shapes_of_feeds(&offers).unwrap();
        let feeds = vec![Feed::Tensor(x.clone()), Feed::Bytes(Arc::new(Buffer::copy_of(&b).unwrap()))];
        let values = Arc::new(Slot::default());
        finished(|done| session.run(shapes, feeds, vec![Target::Tensor(target.clone())]).enqueue(values.clone(), done))
    };
    run(&y).unwrap();
    let mut read = None;
    finished(|done| read = Some(context.read(&y, done))).unwrap();
    let read = read.and_then(|read| read.take()).expect("a snapshot");
    assert_eq!(elements::<f32>(read.bytes()), [4.0, 5.0]);
    let error = run(&tensor(&[1, 2])).unwrap_err();
    assert_eq!(error.message, "run: output \"y\" needs float32 [2, 1], the tensor is float32 [1, 2]");
    let other = TestGraph::default().input("x", ElementType::Int32, &["n"]).node("Neg", "x", "y", vec![]).output("y");
    let session = Session::open(model(other), context.clone(), SessionOptions::default()).unwrap();
    let flat = tensor(&[2]);
    let error = session.signature().shapes_of_feeds(&[Offer::Tensor(&flat)]).unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (Some(Code::Type), "run: feed \"x\" is of type float32, expected int32")
    );
}

#[test]
fn a_small_run_happens_at_once_if_its_plan_exists_and_nothing_is_queued() {
    let session = session(add(), SessionOptions::default());
    let x = data(&[1.0, 2.0, 3.0, 4.0], Some(&[2, 2]));
    let feeds = [x, data(&[10.0, 20.0], None)];
    let here_in = |session: &Arc<Session>, room: &mut dyn FnMut(usize, usize) -> ControlFlow<(), Option<Buffer>>| {
        let offers: Vec<Offer> =
            feeds.iter().map(|(bytes, shape)| Offer::Data { bytes: bytes.len(), shape: shape.clone() }).collect();
        let shapes = session.signature().shapes_of_feeds(&offers).unwrap();
        let feeds = feeds.iter().map(|(bytes, _)| Feed::Bytes(Arc::new(Buffer::copy_of(bytes).unwrap()))).collect();
        session.run(shapes, feeds, vec![Target::Read]).run_here(room)
    };
    let here = |session: &Arc<Session>| here_in(session, &mut |_, _| unreachable!("nothing was read"));
    assert!(here(&session).is_err(), "it is not compiled");
    let expected = run(&session, &feeds).unwrap();
    // On a busy machine, this may take several attempts.
    let values = (0..1000).find_map(|_| {
        let ran = here(&session).ok();
        ran.or_else(|| run(&session, &feeds).map(|_| None).unwrap())
    });
    let values = values.expect("a run of four elements is quick").unwrap();
    let of = |values: &[Option<Output>]| {
        let [Some(Output::Bytes { descriptor, bytes })] = values else { panic!("one output is read") };
        assert_eq!((numbers(&descriptor.shape), elements::<f32>(bytes.bytes()).to_vec()), expected[0]);
        bytes.as_ptr()
    };
    of(&values);
    // Into the memory of a caller who has read the output before.
    session.note_read(0);
    let given = Cell::new(std::ptr::null_mut());
    let values = (0..1000).find_map(|_| {
        let mut room = |at, bytes| {
            assert_eq!((at, bytes), (0, 16));
            let room = Buffer::copy_of(&[7; 16]).unwrap();
            given.set(room.as_ptr());
            Continue(Some(room))
        };
        let ran = here_in(&session, &mut room).ok();
        ran.or_else(|| run(&session, &feeds).map(|_| None).unwrap())
    });
    assert_eq!(of(&values.expect("it is quick").unwrap()), given.get());
    let here = |session: &Arc<Session>| here_in(session, &mut |_, _| Continue(None));
    let asked = (0..1000).find_map(|_| {
        let mut is_asked = false;
        let refused = here_in(&session, &mut |_, _| {
            is_asked = true;
            Break(())
        });
        run(&session, &feeds).unwrap();
        is_asked.then(|| refused.is_err())
    });
    assert_eq!(asked, Some(true));
    let (go, wait) = channel::<()>();
    // Ends when `go` is dropped.
    session.context.enqueue(move |_| wait.recv().map_or(Ok(None), |()| unreachable!()), Done::unobserved());
    assert!(here(&session).is_err(), "something else is queued before it");
    drop(go);
    session.context.lose();
    let error = (0..1000).find_map(|_| here(&session).ok().or_else(|| run(&session, &feeds).err().map(Err)));
    assert_eq!(error.expect("an error").err().expect("an error").kind, ErrorKind::InvalidState);
}

#[test]
fn without_sizes_only_errors_at_every_size_are_refused() {
    let pool = TestGraph::default().input("x", Float, &["1", "1", "h", "w"]);
    let kernel = vec![("kernel_shape", crate::onnx::testing::Attr::Ints(&[100, 100]))];
    let long = pool.node("MaxPool", "x", "y", kernel).output("y");
    let session = session(long, SessionOptions::default());
    let ones = vec![1.0; 100 * 100];
    assert_eq!(run(&session, &[data(&ones, Some(&[1, 1, 100, 100]))]).unwrap(), [(vec![1, 1, 1, 1], vec![1.0])]);
    let error = run(&session, &[data(&[1.0], Some(&[1, 1, 1, 1]))]).unwrap_err();
    assert_eq!((error.kind, error.unsupported.len()), (ErrorKind::Model, 1), "{error}");
    let unknown = TestGraph::default().input("x", Float, &["n"]).node("NoSuch", "x", "y", vec![]).output("y");
    let error = Session::open(model(unknown), context(), SessionOptions::default()).err().expect("never possible");
    assert_eq!((error.code, error.unsupported.len()), (Some(Code::UnsupportedOperator), 1));
}

/// Names and shapes of inputs, with names for free sizes, and the sizes to try.
pub(super) struct Sized {
    pub graph: fn() -> TestGraph,
    pub inputs: &'static [&'static [&'static str]],
    pub sizes: &'static [&'static [(&'static str, u32)]],
}

/// Attention over a text of any length, as exported: heads are split by sizes that the model computes.
fn attention() -> TestGraph {
    let weights = |seed: u32| (0..64).map(|i| ((i * 37 + seed) % 19) as f32 / 19.0 - 0.5).collect::<Vec<f32>>();
    let graph = TestGraph::default()
        .input("x", Float, &["batch", "length", "8"])
        .input("mask", Float, &["batch", "length"])
        .floats("wq", &[8, 8], &weights(1))
        .floats("wk", &[8, 8], &weights(2))
        .floats("wv", &[8, 8], &weights(3))
        .floats("positions", &[40, 8], &[weights(4), weights(5), weights(6), weights(7), weights(8)].concat())
        .floats("root", &[], &[2.0])
        .ints("zero", &[0])
        .ints("one", &[1])
        .ints("two", &[2])
        .ints("heads", &[2, 4])
        .ints("minus_one", &[-1])
        .node("Shape", "x", "shape", vec![])
        .node("Slice", "shape zero two", "outer", vec![])
        .node("Gather", "shape one", "length", vec![])
        .node("Concat", "outer heads", "split", vec![("axis", Attr::Int(0))])
        .node("Concat", "outer minus_one", "joined", vec![("axis", Attr::Int(0))])
        .node("Slice", "positions zero length zero", "here", vec![])
        .node("Add", "x here", "placed", vec![]);
    let graph = [("q", 1), ("k", 3), ("v", 1)].iter().fold(graph, |graph, (name, order)| {
        let perm: &[i64] = if *order == 3 { &[0, 2, 3, 1] } else { &[0, 2, 1, 3] };
        graph
            .node("MatMul", &format!("placed w{name}"), &format!("{name}0"), vec![])
            .node("Reshape", &format!("{name}0 split"), &format!("{name}1"), vec![])
            .node("Transpose", &format!("{name}1"), name, vec![("perm", Attr::Ints(perm))])
    });
    graph
        .node("MatMul", "q k", "products", vec![])
        .node("Div", "products root", "scaled", vec![])
        .node("Unsqueeze", "mask one_two", "wide", vec![])
        .ints("one_two", &[1, 2])
        .node("Add", "scaled wide", "scores", vec![])
        .node("Softmax", "scores", "weights", vec![("axis", Attr::Int(-1))])
        .node("MatMul", "weights v", "mixed", vec![])
        .node("Transpose", "mixed", "turned", vec![("perm", Attr::Ints(&[0, 2, 1, 3]))])
        .node("Reshape", "turned joined", "y", vec![])
        .node("ReduceMean", "y", "mean", vec![("axes", Attr::Ints(&[1])), ("keepdims", Attr::Int(0))])
        .output("y")
        .output("mean")
}

/// Convolutions over a picture of any size, and an operator that scales the result back.
fn picture() -> TestGraph {
    let filter: Vec<f32> = (0..4 * 3 * 9).map(|i| (i % 7) as f32 / 7.0 - 0.4).collect();
    TestGraph::default()
        .input("x", Float, &["batch", "3", "height", "width"])
        .floats("filter", &[4, 3, 3, 3], &filter)
        .floats("bias", &[4], &[0.5, -0.5, 0.25, 0.0])
        .node("Conv", "x filter bias", "c", vec![("pads", Attr::Ints(&[1, 1, 1, 1])), ("strides", Attr::Ints(&[2, 2]))])
        .node("Relu", "c", "r", vec![])
        .node("MaxPool", "r", "p", vec![("kernel_shape", Attr::Ints(&[2, 2]))])
        .node("GlobalAveragePool", "p", "g", vec![])
        .node("Flatten", "g", "y", vec![])
        .node("Concat", "r r", "wide", vec![("axis", Attr::Int(3))])
        .output("y")
        .output("wide")
}

/// Sizes of 0, 1 and others, for operators that slice, join, pad and repeat.
fn movements() -> TestGraph {
    TestGraph::default()
        .input("x", Float, &["n", "m"])
        .ints("first", &[1])
        .ints("last", &[i64::MAX])
        .ints("axis", &[1])
        .floats("one", &[1], &[1.0])
        .node("Slice", "x first last axis", "tail", vec![])
        .node("Concat", "x tail", "both", vec![("axis", Attr::Int(1))])
        .node("Shape", "both", "shape", vec![])
        .node("Expand", "one shape", "ones", vec![])
        .node("Add", "both ones", "y", vec![])
        .node("Transpose", "y", "turned", vec![])
        .node("ReduceSum", "turned axis", "z", vec![("keepdims", Attr::Int(0))])
        .output("y")
        .output("z")
}

/// Constants on the left, packed unless there is one column, per batch or per part of one.
fn filters() -> TestGraph {
    let weights = |count: u32| (0..count).map(|i| ((i * 13) % 17) as f32 / 17.0 - 0.5).collect::<Vec<f32>>();
    TestGraph::default()
        .input("x", Float, &["b", "2", "9", "n"])
        .floats("filter", &[6, 9], &weights(54))
        .floats("parts", &[2, 5, 6], &weights(60))
        .node("MatMul", "filter x", "filtered", vec![])
        .node("MatMul", "parts filtered", "y", vec![])
        .output("y")
}

const ANY_SIZE: &[Sized] = &[
    Sized {
        graph: filters,
        inputs: &[&["b", "2", "9", "n"]],
        sizes: &[
            &[("b", 3), ("n", 1)],
            &[("b", 3), ("n", 5)],
            &[("b", 4), ("n", 7)],
            &[("b", 5), ("n", 1)],
            &[("b", 2), ("n", 11)],
        ],
    },
    Sized {
        graph: attention,
        inputs: &[&["batch", "length", "8"], &["batch", "length"]],
        sizes: &[
            &[("batch", 2), ("length", 3)],
            &[("batch", 2), ("length", 7)],
            &[("batch", 1), ("length", 7)],
            &[("batch", 1), ("length", 1)],
            &[("batch", 3), ("length", 1)],
            &[("batch", 5), ("length", 33)],
            &[("batch", 1), ("length", 40)],
        ],
    },
    Sized {
        graph: picture,
        inputs: &[&["batch", "3", "height", "width"]],
        sizes: &[
            &[("batch", 1), ("height", 8), ("width", 8)],
            &[("batch", 1), ("height", 9), ("width", 13)],
            &[("batch", 2), ("height", 30), ("width", 5)],
            &[("batch", 1), ("height", 3), ("width", 3)],
        ],
    },
    Sized {
        graph: movements,
        inputs: &[&["n", "m"]],
        sizes: &[
            &[("n", 4), ("m", 3)],
            &[("n", 0), ("m", 3)],
            &[("n", 1), ("m", 1)],
            &[("n", 3), ("m", 2)],
            &[("n", 6), ("m", 17)],
        ],
    },
];

impl Sized {
    /// Checks that the results for all sizes equal, bit for bit, those of sessions for these sizes alone. Returns the
    /// number of templates after each size.
    pub fn templates(&self) -> Vec<usize> {
        let Sized { graph, inputs, sizes } = self;
        let (any, mut counts) = (session(graph(), SessionOptions::default()), Vec::new());
        // Resizes the previous plan, or the one before it.
        let [one, two] = [1, 2].map(|count| {
            let context = opened(Context::new(Some(1), false).unwrap().keeping_sizes(count));
            Arc::new(Session::open(model(graph()), context, SessionOptions::default()).unwrap())
        });
        for sizes in *sizes {
            let sizes: BTreeMap<String, u32> = sizes.iter().map(|(name, size)| (name.to_string(), *size)).collect();
            let size = |dim: &&str| dim.parse().unwrap_or_else(|_| sizes[*dim]);
            let feeds: Vec<_> = inputs
                .iter()
                .map(|dims| {
                    let shape: Vec<u32> = dims.iter().map(size).collect();
                    let count = shape.iter().product::<u32>();
                    let numbers: Vec<f32> = (0..count).map(|i| ((i * 29 + 11) % 31) as f32 / 31.0 - 0.5).collect();
                    data(&numbers, Some(&shape))
                })
                .collect();
            let options = SessionOptions { free_dimensions: sizes.clone(), ..Default::default() };
            let fixed = run(&session(graph(), options), &feeds).unwrap();
            let bits = |values: Vec<(Vec<u32>, Vec<f32>)>| -> Vec<(Vec<u32>, Vec<u32>)> {
                values.into_iter().map(|(shape, x)| (shape, x.into_iter().map(f32::to_bits).collect())).collect()
            };
            let fixed = bits(fixed);
            for (session, what) in [(&any, "of any size"), (&one, "resized"), (&two, "resized in turns")] {
                assert_eq!(bits(run(session, &feeds).unwrap()), fixed, "{what}, {sizes:?}");
            }
            counts.push(any.templates.count());
        }
        counts
    }
}

#[test]
fn results_equal_those_of_a_session_for_these_sizes_alone() {
    for sized in ANY_SIZE {
        sized.templates();
    }
}

#[test]
fn lengths_share_a_template() {
    let session = session(attention(), SessionOptions::default());
    for length in 2..=40u32 {
        let shapes = BTreeMap::from([("x".to_string(), vec![2, length, 8])]);
        let shapes = session.signature().shapes_of_names("compile", &shapes).unwrap();
        finished(|done| session.compile(shapes, Arc::default(), done)).unwrap();
    }
    // Lengths equal to another size of the model, like the number of heads, lead to other decisions.
    assert!(session.templates.count() <= 4, "{} templates", session.templates.count());
}

#[test]
fn sizes_of_float16_operands_share_templates() {
    let graph = TestGraph::default()
        .input("x", Float16, &["rows", "8"])
        .input("w", Float16, &["8", "columns"])
        .node("Relu", "x", "positive", vec![])
        .node("MatMul", "positive w", "product", vec![])
        .node("Softmax", "product", "y", vec![])
        .output("y");
    let session = session(graph, SessionOptions::default());
    for rows in 2..=40u32 {
        let shapes =
            [("x", vec![rows, 8]), ("w", vec![8, 2 * rows + 1])].map(|(name, shape)| (name.to_string(), shape));
        let shapes = session.signature().shapes_of_names("compile", &BTreeMap::from(shapes)).unwrap();
        finished(|done| session.compile(shapes, Arc::default(), done)).unwrap();
    }
    // Whether the right operand is the largest decides.
    assert!(session.templates.count() <= 6, "{} templates", session.templates.count());
}
