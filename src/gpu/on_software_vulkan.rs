//! Tests of devices, transfers and plans that need software Vulkan: `npm test -- --gpu` runs them.

use super::adapter::{Choice, Limits, choice_of_tests};
use super::device::{Device, EXTENSIONS};
use super::kernel::{MAX_BUFFERS, header};
use super::loss::Listener;
use super::pipelines::MAX_UNUSED;
use super::plan::{Plan, PlanOptions};
use super::tensor::DeviceTensor;
use super::testing::{check, check_on, in_turn, optimized};
use crate::error::ErrorKind;
use crate::ir::parse;
use crate::observe::Stopwatch;
use crate::ops::tensor::Tensor;
use crate::testing::{Random, Tolerance};
use half::f16;
use std::sync::{Arc, Mutex};

fn device() -> Arc<Device> {
    Device::shared(&choice_of_tests()).unwrap().expect("software Vulkan")
}

fn own_device(extensions: wgpu::Features) -> Arc<Device> {
    Arc::new(Device::open(choice_of_tests(), extensions, Limits::Adapter).unwrap().expect("software Vulkan"))
}

fn plan(device: &Arc<Device>, text: &str) -> crate::error::Result<Plan> {
    let options = PlanOptions { share_views: true, fill_arena: false };
    Plan::new(optimized(&parse(text)), device, &in_turn, options)
}

fn floats(device: &Device, buffer: &wgpu::Buffer, count: usize) -> Vec<f32> {
    crate::memory::elements(device.read(buffer, 4 * count).unwrap().wait(device).unwrap().bytes()).to_vec()
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|x| x.to_le_bytes()).collect()
}

#[test]
fn contexts_share_a_device_until_it_is_lost() {
    let (first, second) = (device(), device());
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(first.is_software(), choice_of_tests() == Choice::Software);
}

#[test]
fn a_device_that_nothing_uses_is_used_again_unless_it_was_lost() {
    let writes = |device: &Arc<Device>| {
        let tensor = DeviceTensor::zeroed(device, 8)?;
        tensor.write(&[7; 8])?;
        device.read(tensor.buffer(), 8)?.wait(device).map(|read| read.bytes() == [7; 8])
    };
    // Each is closed with a submission in flight.
    for _ in 0..3 {
        assert_eq!(writes(&own_device(EXTENSIONS)).ok(), Some(true));
    }
    let lost = own_device(EXTENSIONS);
    let inner = lost.device.clone();
    lost.destroy();
    drop(lost);
    let other = own_device(EXTENSIONS);
    assert!(other.device != inner && writes(&other).is_ok_and(|is_right| is_right));
}

#[test]
fn reads_return_the_written_bytes_of_any_length() {
    let device = device();
    for length in [1, 2, 3, 4, 5, 255, 4096, (1 << 20) + 1, (8 << 20) - 1, (40 << 20) + 3] {
        let data: Vec<u8> = (0..length).map(|i| (i * 31 + i / 251) as u8).collect();
        let tensor = DeviceTensor::zeroed(&device, length).unwrap();
        let zeros = device.read(tensor.buffer(), length).unwrap();
        tensor.write(&data).unwrap();
        let read = device.read(tensor.buffer(), length).unwrap();
        assert!(zeros.wait(&device).unwrap().bytes().iter().all(|&byte| byte == 0), "{length}");
        assert!(read.wait(&device).unwrap().bytes() == data, "{length}");
    }
    device.trim();
}

#[test]
fn a_tensor_that_was_written_and_not_used_can_be_freed() {
    let device = device();
    for _ in 0..100 {
        let tensor = DeviceTensor::zeroed(&device, 100).unwrap();
        tensor.write(&[7; 100]).unwrap();
    }
    device.submit(None).unwrap();
}

#[test]
fn too_much_memory_is_refused() {
    let device = own_device(EXTENSIONS);
    let error = device.buffer("a tensor", 1 << 40).map(drop).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unknown);
    assert!(error.message.starts_with("no memory for 1099511627776 bytes (a tensor) on the GPU"), "{error}");
    // The failed attempt leaves nothing allocated.
    device.buffer("a tensor", 1 << 10).map(drop).unwrap();
}

#[test]
fn oversized_tensors_are_bound_in_pieces() {
    for (bytes, text) in [
        (1024, "%0 = input x float32 [11, 57]\n%1 = softmax %0 axis=1\n%2 = transpose %1\n%3 = relu %2\noutput y = %3"),
        (4096, "%0 = input x float32 [40, 40]\n%1 = matmul %0 %0\n%2 = relu %1\noutput y = %2"),
        (
            2048,
            "%0 = input x float16 [33, 47]\n%1 = cumulativeSum %0 axis=1\n%2 = neg %1\noutput y = %2\noutput z = %1",
        ),
        (512, "%0 = input x uint8 [999]\n%1 = reverse %0\noutput y = %1"),
        (2048, "%0 = input x int64 [3, 211]\n%1 = reduceSum %0 axes=[0]\n%2 = add %0 %1\noutput y = %2"),
        (2048, "%0 = input x float32 [1, 8, 12, 12]\n%1 = averagePool2d %0 windowDimensions=[3, 3]\noutput y = %1"),
    ] {
        let mut device =
            Device::open(choice_of_tests(), EXTENSIONS, Limits::Adapter).unwrap().expect("software Vulkan");
        device.limits.max_storage_buffer_binding_size = bytes;
        // Two or three pieces fit into the buffers that every device can bind.
        device.limits.max_storage_buffers_per_shader_stage = MAX_BUFFERS as u32;
        let graph = parse(text);
        let mut random = Random::new(1);
        let inputs =
            graph.inputs.iter().map(|(name, id)| (name.clone(), random.tensor(graph.descriptor(*id)))).collect();
        let expected = crate::reference::run(&graph, &inputs);
        check_on(
            (&format!("in pieces of {bytes} bytes"), &Arc::new(device)),
            &graph,
            &inputs,
            &expected,
            Tolerance::ulps(32).or_absolute(1e-5),
        );
    }
}

#[test]
fn every_float16_value_and_every_tie_between_two_is_converted_as_by_the_oracle() {
    let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let ties = (0..f16::INFINITY.to_bits()).flat_map(|bits| {
        let [low, high] = [bits, bits + 1].map(|bits| f16::from_bits(bits).to_f32());
        // The number above the largest one counts as 2^16.
        let tie = 0.5 * (low + high.min(65536.0));
        [tie.next_down(), tie, tie.next_up()].into_iter().flat_map(|x| [x, -x])
    });
    let specials = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45];
    let floats: Vec<f32> = ties.chain(specials).collect();
    let text = format!(
        "%0 = input x float16 [{}]
         %1 = input z float32 [{}]
         %2 = cast %0 dataType=float32
         %3 = neg %0
         %4 = reverse %0
         %5 = cast %1 dataType=float16
         output a = %2
         output b = %3
         output c = %4
         output d = %5",
        halves.len(),
        floats.len()
    );
    let graph = parse(&text);
    let bytes = [halves.iter().flat_map(|x| x.to_le_bytes()).collect(), bytes(&floats)];
    let inputs = graph.inputs.iter().zip(bytes);
    let inputs =
        inputs.map(|((name, id), bytes)| (name.clone(), Tensor::from_bytes(graph.descriptor(*id), &bytes))).collect();
    check(&graph, &inputs, &crate::reference::run(&graph, &inputs), Tolerance::EXACT);
}

#[test]
fn more_buffers_than_a_kernel_may_bind_are_refused() {
    let mut device = Device::open(choice_of_tests(), EXTENSIONS, Limits::Adapter).unwrap().expect("software Vulkan");
    device.limits.max_storage_buffer_binding_size = 512;
    device.limits.max_storage_buffers_per_shader_stage = MAX_BUFFERS as u32;
    let error =
        plan(&Arc::new(device), "%0 = input x float32 [1000]\n%1 = neg %0\noutput y = %1").map(drop).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Operation);
    assert!(
        error
            .message
            .starts_with("neg: a kernel needs 17 buffers for tensors in pieces of 512 bytes, expected at most 8 on "),
        "{error}"
    );
}

#[test]
fn kernels_are_compiled_once_and_few_unused_ones_are_kept() {
    let device = own_device(EXTENSIONS);
    let text = "%0 = input x float32 [3, 5]\n%1 = softmax %0 axis=1\n%2 = neg %0\noutput y = %1\noutput z = %2";
    let first = plan(&device, text).unwrap();
    let count = device.pipelines.count();
    assert!(count >= 2);
    plan(&device, text).map(drop).unwrap();
    assert_eq!(device.pipelines.count(), count);
    for i in 0..MAX_UNUSED {
        let source = format!("{}\n@compute @workgroup_size(1) fn main() {{ _ = {i}; }}", header(device.dialect));
        device.pipeline("nothing", &source, 0).map(drop).unwrap();
    }
    assert_eq!(device.pipelines.count(), count + MAX_UNUSED);
    drop(first);
    assert_eq!(device.pipelines.count(), MAX_UNUSED);
}

#[test]
fn a_plan_runs_on_any_tensors_in_turn() {
    let device = device();
    let mut plan = plan(
        &device,
        "%0 = input x float32 [4]\n%1 = neg %0\n%2 = exp %1\noutput y = %1\noutput z = %2\noutput w = %0",
    )
    .unwrap();
    let tensor = || DeviceTensor::zeroed(&device, 16).unwrap();
    let sets: Vec<[DeviceTensor; 4]> = (0..7).map(|_| [tensor(), tensor(), tensor(), tensor()]).collect();
    for round in 0..3 {
        for (index, [x, y, z, w]) in sets.iter().enumerate() {
            let value = (10 * round + index) as f32 / 8.0;
            x.write(&bytes(&[value; 4])).unwrap();
            plan.run(&[x.buffer()], &[y.buffer(), z.buffer(), w.buffer()]).unwrap();
        }
        for (index, [_, y, z, w]) in sets.iter().enumerate() {
            let value = (10 * round + index) as f32 / 8.0;
            assert_eq!(floats(&device, y.buffer(), 4), [-value; 4]);
            assert!((floats(&device, z.buffer(), 4)[3] - (-value).exp()).abs() <= 1e-6);
            assert_eq!(floats(&device, w.buffer(), 4), [value; 4]);
        }
    }
}

#[test]
fn bind_groups_of_dropped_tensors_are_dropped() {
    let device = own_device(EXTENSIONS);
    let mut plan = plan(&device, "%0 = input x float32 [4]\n%1 = neg %0\noutput y = %1").unwrap();
    let kept = DeviceTensor::zeroed(&device, 16).unwrap();
    let bound = || device.bound.lock().unwrap()[0].upgrade().expect("a plan").count();
    for _ in 0..3 {
        let other = DeviceTensor::zeroed(&device, 16).unwrap();
        plan.run(&[kept.buffer()], &[other.buffer()]).unwrap();
        assert_eq!(bound(), 1);
        drop(other);
        assert_eq!(bound(), 0);
    }
}

#[test]
fn a_profile_has_times_for_every_step_by_either_clock() {
    let text = "%0 = input x float32 [64, 64]\n%1 = matmul %0 %0\n%2 = softmax %1 axis=1\noutput y = %2\noutput z = %0";
    for extensions in [EXTENSIONS, wgpu::Features::empty()] {
        let device = own_device(extensions);
        let mut plan = plan(&device, text).unwrap();
        let steps = plan.description().steps.len();
        assert_eq!(steps, 3);
        let tensors: Vec<_> = (0..3).map(|_| DeviceTensor::zeroed(&device, 64 * 64 * 4).unwrap()).collect();
        let [x, y, z] = &tensors[..] else { unreachable!("three") };
        let mut watch = Stopwatch::new(2, steps).unwrap();
        for _ in 0..2 {
            plan.profile(&[x.buffer()], &[y.buffer(), z.buffer()], &mut watch).unwrap();
        }
        assert_eq!(floats(&device, y.buffer(), 2), [1.0 / 64.0; 2]);
        let times = watch.into_times();
        let times: &[u64] = crate::memory::elements(times.bytes());
        let times: Vec<f64> = times.iter().map(|&bits| f64::from_bits(bits)).collect();
        let mut end_of_run = 0.0;
        for run in times.chunks_exact(2 * (steps + 1)) {
            let (run, steps) = run.as_chunks::<2>().0.split_first().unwrap();
            assert!(run[0] >= end_of_run && run[1] > 0.0, "{times:?}");
            end_of_run = run[0] + run[1];
            let mut end = 0.0;
            for [start, duration] in steps {
                assert!(*start >= end && *duration >= 0.0, "{times:?}");
                end = start + duration;
            }
        }
    }
}

#[test]
fn losing_a_device_notifies_and_ends_all_work() {
    let device = own_device(EXTENSIONS);
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let listener: Arc<Listener> = {
        let reasons = reasons.clone();
        Arc::new(move |lost| reasons.lock().unwrap().push(lost.reason.clone()))
    };
    device.loss.listen(&listener);
    let mut plan = plan(&device, "%0 = input x float32 [4]\n%1 = neg %0\noutput y = %1").unwrap();
    let (x, y) = (DeviceTensor::zeroed(&device, 16).unwrap(), DeviceTensor::zeroed(&device, 16).unwrap());
    plan.run(&[x.buffer()], &[y.buffer()]).unwrap();
    let pending = device.read(y.buffer(), 16).unwrap();
    device.destroy();
    assert_eq!(reasons.lock().unwrap().len(), 1);
    // Work in flight may have finished.
    if let Err(error) = pending.wait(&device) {
        assert_eq!(error.kind, ErrorKind::Operation);
    }
    for error in [
        plan.run(&[x.buffer()], &[y.buffer()]).unwrap_err(),
        x.write(&[0; 16]).unwrap_err(),
        device.read(y.buffer(), 16).map(drop).unwrap_err(),
        device.buffer("a tensor", 16).map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::Operation);
        assert!(error.message.starts_with("the GPU was lost: "), "{error}");
    }
    drop((plan, x, y));
    assert_eq!(reasons.lock().unwrap().len(), 1);
    assert!(own_device(EXTENSIONS).loss.reason().is_none());
}

#[test]
fn an_error_of_a_kernel_names_it() {
    let device = device();
    let error = device.pipeline("nonsense", "fn main() { 1 }", 0).map(drop).unwrap_err();
    assert!(error.message.starts_with("the kernel nonsense does not compile: "), "{error}");
}

/// A product with a matrix of 1 MiB whose numbers begin at `first`.
fn product(first: u32) -> String {
    let numbers: String = (0..512 * 512).map(|index| format!(" {}", (index + first) % 97)).collect();
    format!(
        "%0 = input x float32 [1, 512]\n%1 = constant float32 [512, 512]{numbers}\n%2 = matmul %0 %1\noutput y = %2"
    )
}

#[test]
fn weights_are_uploaded_once_for_all_graphs() {
    let device = own_device(EXTENSIONS);
    let uploaded = |text: &str| {
        let [before, _] = device.traffic();
        let plan = plan(&device, text).unwrap();
        (device.traffic()[0] - before, plan)
    };
    let (first, one) = uploaded(&product(0));
    let (second, two) = uploaded(&product(0));
    let (other, _) = uploaded(&product(1));
    assert!(first > 1 << 20 && second < 1 << 14 && other > 1 << 20, "{first}, {second}, {other} bytes");
    // The graphs hold them, not the device.
    drop((one, two));
    let (again, _) = uploaded(&product(0));
    assert!(again > 1 << 20, "{again} bytes");
}

#[test]
fn plans_share_the_memory_for_intermediate_results() {
    let device = own_device(EXTENSIONS);
    let text = |size: usize| {
        format!("%0 = input x float32 [{size}]\n%1 = exp %0\n%2 = cumulativeSum %1 axis=0\noutput y = %2")
    };
    let mut small = plan(&device, &text(8)).unwrap();
    let x = device.buffer_of("x", &bytes(&[0.0; 8])).unwrap();
    let y = device.buffer("y", 32).unwrap();
    let mut run = || {
        small.run(&[&x], &[&y]).unwrap();
        assert_eq!(floats(&device, &y, 8), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    };
    run();
    // Another plan needs more of it; this one moves there.
    let mut large = plan(&device, &text(1 << 16)).unwrap();
    run();
    let zeros = device.buffer_of("x", &vec![0; 4 << 16]).unwrap();
    let sums = device.buffer("y", 4 << 16).unwrap();
    large.run(&[&zeros], &[&sums]).unwrap();
    assert_eq!(floats(&device, &sums, 1 << 16)[(1 << 16) - 1], (1 << 16) as f32);
    run();
}
