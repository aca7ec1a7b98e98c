//! Tests of contexts, on the CPU and on software Vulkan.

use super::backend::Backend;
use super::context::{Context, Wish};
use super::tensor::{Contents, Tensor};
use super::timeline::{Done, lost};
use crate::dtype::DataType;
use crate::error::{Error, ErrorKind, Result};
use crate::gpu::adapter::{Limits, WebGpuAdapter, choice_of_tests};
use crate::gpu::device::{Device, EXTENSIONS};
use crate::ir::parse;
use crate::memory::Buffer;
use crate::shape::Descriptor;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// An opened context.
fn opened(wish: Wish) -> Context {
    let context = Context::new(Some(1), false).unwrap();
    finished(|done| context.open(wish, Done::unobserved(), done)).unwrap();
    context
}

/// A context on llvmpipe, independent of the environment.
fn on_llvmpipe() -> Context {
    let context = Context::new(Some(1), false).unwrap();
    let find = || Ok(Backend::Gpu(Device::shared(&choice_of_tests())?.expect("software Vulkan")));
    finished(|done| context.open_on(find, Done::unobserved(), done)).unwrap();
    context
}

fn finished(request: impl FnOnce(Done)) -> Result<()> {
    let (tell, told) = channel();
    request(Done::new(move |result| tell.send(result).expect("somebody waits")));
    told.recv().expect("every request is completed")
}

fn floats(context: &Context, tensor: &Arc<Tensor>) -> Result<Vec<f32>> {
    let mut read = None;
    finished(|done| read = Some(context.read(tensor, done)))?;
    let bytes = read.and_then(|read| read.take()).expect("a snapshot");
    Ok(crate::memory::elements(bytes.bytes()).to_vec())
}

fn the_end_frees_what_tensors_and_graphs_hold(context: Context) {
    let descriptor = || Descriptor::new(DataType::Float32, [2]);
    let tensor = context.create_tensor(descriptor(), Done::unobserved()).unwrap();
    let constant =
        context.create_constant_tensor(descriptor(), Buffer::zeroed(8).unwrap(), Done::unobserved()).unwrap();
    let mut graph = None;
    let text = "%0 = input x float32 [2]\n%1 = neg %0\noutput y = %1";
    finished(|done| graph = Some(context.build(parse(text), done))).unwrap();
    let graph = graph.expect("built");
    assert!(graph.description().is_some());

    context.end();
    let (tell, told) = channel();
    context.timeline.enqueue_release(move || tell.send(()).expect("somebody waits"));
    told.recv().unwrap();
    assert!(graph.description().is_none());
    for tensor in [tensor, constant] {
        assert!(matches!(*tensor.lock().unwrap(), Contents::Released));
    }
    let error = finished(|done| drop(context.create_tensor(descriptor(), done))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidState);
}

fn a_dispatch_that_fails_shows_when_its_outputs_are_read(context: Context) {
    let tensor = || context.create_tensor(Descriptor::new(DataType::Float32, [2]), Done::unobserved()).unwrap();
    let (x, y) = (tensor(), tensor());
    let bytes: Vec<u8> = [1.0f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    context.write(&x, Buffer::copy_of(&bytes).unwrap()).unwrap();

    let mut graph = None;
    let text = "%0 = input x float32 [2]\n%1 = neg %0\noutput y = %1";
    finished(|done| graph = Some(context.build(parse(text), done))).unwrap();
    let graph = graph.expect("built");
    context.dispatch(&graph, vec![x.clone()], vec![y.clone()]);
    assert_eq!(floats(&context, &y).unwrap(), [-1.0, 2.0]);

    context.release_graph(&graph);
    context.dispatch(&graph, vec![x.clone()], vec![y.clone()]);
    let error = floats(&context, &y).unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Operation, "dispatch: the graph is destroyed"));

    let profile =
        |runs| finished(|done| drop(context.profile(&graph, [vec![x.clone()], vec![y.clone()]], [0, runs], done)));
    assert_eq!(profile(1).unwrap_err().message, "profileGraph: the graph is destroyed");

    // The next write clears the error.
    context.write(&y, Buffer::copy_of(&bytes).unwrap()).unwrap();
    assert_eq!(floats(&context, &y).unwrap(), [1.0, -2.0]);
}

fn a_profile_runs_in_order_with_dispatches_and_gives_its_times(context: Context) {
    let tensor = || context.create_tensor(Descriptor::new(DataType::Float32, [2]), Done::unobserved()).unwrap();
    let (x, y) = (tensor(), tensor());
    let bytes: Vec<u8> = [1.0f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    context.write(&x, Buffer::copy_of(&bytes).unwrap()).unwrap();
    let mut graph = None;
    let text = "%0 = input x float32 [2]\n%1 = softmax %0 axis=0\n%2 = reduceSum %1 axes=[0]\n\
                %3 = mul %2 %0\noutput y = %3";
    finished(|done| graph = Some(context.build(parse(text), done))).unwrap();
    let graph = graph.expect("built");
    let profile = |counts| {
        let mut times = None;
        finished(|done| times = Some(context.profile(&graph, [vec![x.clone()], vec![y.clone()]], counts, done)))?;
        Ok::<usize, Error>(times.and_then(|times| times.take()).expect("times").len())
    };
    let steps = graph.description().expect("built").steps.len();
    assert_eq!(profile([2, 5]).unwrap(), 5 * (1 + steps) * 2 * 8);
    assert_eq!(floats(&context, &y).unwrap(), [1.0, -2.0]);
    let error = profile([0, u32::MAX]).unwrap_err();
    assert!(error.kind == ErrorKind::Type && error.message.contains("timings"), "{error}");
    context.release_graph(&graph);
    finished(|done| drop(context.read(&y, done))).unwrap();
    assert!(graph.description().is_none());
}

fn a_profile_of_a_lost_context_ends_soon(context: Context) {
    let descriptor = Descriptor::new(DataType::Float32, [1 << 16]);
    let tensor = || context.create_tensor(descriptor.clone(), Done::unobserved()).unwrap();
    let (x, y) = (tensor(), tensor());
    let mut graph = None;
    let text = "%0 = input x float32 [65536]\n%1 = sin %0\noutput y = %1";
    finished(|done| graph = Some(context.build(parse(text), done))).unwrap();
    let (tell, told) = channel();
    let done = Done::new(move |result| tell.send(result).expect("somebody waits"));
    // Would take days if the context were not lost.
    context.profile(&graph.expect("built"), [vec![x], vec![y]], [u32::MAX, 1], done);
    context.lose();
    assert_eq!(
        told.recv_timeout(std::time::Duration::from_secs(20)).expect("it ends"),
        Err(lost(ErrorKind::InvalidState, "it was destroyed"))
    );
}

#[test]
fn a_missing_web_gpu_device_is_refused() {
    let context = Context::new(Some(1), false).unwrap();
    let device = WebGpuAdapter { vendor: "1".into(), description: "Voodoo2".into(), ..WebGpuAdapter::default() };
    let error = finished(|done| context.open(Wish::Of(device), Done::unobserved(), done)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotSupported);
    assert!(error.message.contains("description \"Voodoo2\"") && error.message.contains("is not found"), "{error}");
}

#[test]
fn the_loss_of_the_gpu_ends_everything_on_software_vulkan() {
    let device =
        Arc::new(Device::open(choice_of_tests(), EXTENSIONS, Limits::Adapter).unwrap().expect("software Vulkan"));
    let context = Context::new(Some(1), false).unwrap();
    let (tell, told) = channel();
    let on_lost = Done::new(move |result| tell.send(result).expect("somebody waits"));
    let found = device.clone();
    finished(|done| context.open_on(move || Ok(Backend::Gpu(found)), on_lost, done)).unwrap();
    let mut tensor = None;
    let descriptor = || Descriptor::new(DataType::Float32, [2]);
    finished(|done| tensor = Some(context.create_tensor(descriptor(), done).unwrap())).unwrap();
    assert!(told.try_recv().is_err());

    device.destroy();
    let reason = told.recv_timeout(std::time::Duration::from_secs(10)).unwrap().unwrap_err();
    assert!(reason.kind == ErrorKind::DeviceLost && reason.message.starts_with("the GPU was lost: "), "{reason}");
    let tensor = tensor.expect("created");
    let error = finished(|done| drop(context.read(&tensor, done))).unwrap_err();
    assert_eq!(error, lost(ErrorKind::DeviceLost, &reason.message));
    context.end();
    let (tell, told) = channel();
    context.timeline.enqueue_release(move || tell.send(()).expect("somebody waits"));
    told.recv().unwrap();
    assert_eq!(Arc::strong_count(&device), 1, "a lost context holds its device");
    opened(Wish::Cpu("for a test"));
}

/// Runs each test on the CPU and, if requested, on software Vulkan.
macro_rules! tests {
    ($($name:ident,)*) => {
        mod on_cpu {
            $(#[test] fn $name() { super::$name(super::opened(super::Wish::Cpu("for a test"))); })*
        }
        mod on_software_vulkan {
            $(#[test] fn $name() { super::$name(super::on_llvmpipe()); })*
        }
    };
}

tests! {
    the_end_frees_what_tensors_and_graphs_hold,
    a_dispatch_that_fails_shows_when_its_outputs_are_read,
    a_profile_runs_in_order_with_dispatches_and_gives_its_times,
    a_profile_of_a_lost_context_ends_soon,
}
