//! A GPU: its features, its queue, and the pipelines that were compiled for it.

use super::dialect::{Dialect, MatrixUnits};
use super::steps::product::self_test;
use crate::error::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// A device with what is known of it.
pub struct Device {
    /// The device itself.
    pub device: wgpu::Device,
    /// Where work is submitted.
    pub queue: wgpu::Queue,
    /// The adapter that it belongs to.
    pub info: wgpu::AdapterInfo,
    /// What its shaders may use.
    pub dialect: Dialect,
    /// Its limits, which are the adapter's.
    pub limits: wgpu::Limits,
    pipelines: Arc<Mutex<HashMap<String, Arc<Pipeline>>>>,
}

/// A compiled kernel, and how its bindings are laid out.
pub struct Pipeline {
    /// What runs.
    pub pipeline: wgpu::ComputePipeline,
    /// Binding 0 holds the parameters, the others tensors. All are there, also those that the kernel does not use.
    pub layout: wgpu::BindGroupLayout,
}

/// Bytes of the immediates of every kernel.
pub const IMMEDIATES: u32 = 12;

/// What a device uses where it can.
pub const EXTENSIONS: wgpu::Features = wgpu::Features::SHADER_F16
    .union(wgpu::Features::SHADER_INT64)
    .union(wgpu::Features::SUBGROUP)
    .union(wgpu::Features::PIPELINE_CACHE)
    .union(wgpu::Features::TIMESTAMP_QUERY)
    .union(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX);

/// Which adapters are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The best hardware.
    Hardware {
        /// Whether the one that takes the least power is the best.
        low_power: bool,
    },
    /// A CPU that computes as a GPU would, for tests.
    Software,
}

impl Device {
    /// Opens the adapter that fits best; `None` if there is none. The device uses what of `extensions` the adapter has.
    ///
    /// # Errors
    /// An `OperationError` when there is an adapter but no device can be had of it.
    pub fn open(choice: Choice, extensions: wgpu::Features) -> Result<Option<Device>> {
        let Some(adapter) = adapter(choice) else { return Ok(None) };
        let available = adapter.features();
        let features = wgpu::Features::IMMEDIATES | (available & extensions);
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("webnn-node"),
            required_features: features,
            required_limits: adapter.limits(),
            experimental_features: experiments(features),
            ..Default::default()
        };
        let (device, queue) = wait(adapter.request_device(&descriptor)).map_err(|error| {
            Error::new(ErrorKind::Operation, format!("{} gives no device: {error}", adapter.get_info().name))
        })?;
        let dialect = Dialect {
            f16: features.contains(wgpu::Features::SHADER_F16),
            int64: features.contains(wgpu::Features::SHADER_INT64),
            subgroups: features.contains(wgpu::Features::SUBGROUP),
            subgroup_size: fixed_subgroup_size(&adapter.get_info()),
            workgroup_bytes: adapter.limits().max_compute_workgroup_storage_size,
            cooperative: matrix_units(&adapter, features),
            product: None,
        };
        let mut device = Device {
            info: adapter.get_info(),
            limits: device.limits(),
            device,
            queue,
            dialect,
            pipelines: Arc::default(),
        };
        if device.dialect.cooperative.is_some() && !self_test::trusted(&device) {
            device.dialect.cooperative = None;
        }
        Ok(Some(device))
    }

    /// The same device, whose shaders are written in another dialect.
    pub fn with_dialect(&self, dialect: Dialect) -> Device {
        Device {
            device: self.device.clone(),
            queue: self.queue.clone(),
            info: self.info.clone(),
            limits: self.limits.clone(),
            dialect,
            pipelines: self.pipelines.clone(),
        }
    }

    /// The pipeline of a kernel that binds `tensors` tensors, compiled if no kernel had this text before.
    ///
    /// # Errors
    /// An `OperationError` when the text is refused.
    pub fn pipeline(&self, name: &str, source: &str, tensors: u32) -> Result<Arc<Pipeline>> {
        let lock = || self.pipelines.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(pipeline) = lock().get(source) {
            return Ok(pipeline.clone());
        }
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(name),
            source: wgpu::ShaderSource::Wgsl(source.into()),
        });
        let entry = |binding| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only: binding == 0 },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = (0..=tensors).map(entry).collect();
        let descriptor = wgpu::BindGroupLayoutDescriptor { label: Some(name), entries: &entries };
        let layout = self.device.create_bind_group_layout(&descriptor);
        let pipeline_layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some(name),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: IMMEDIATES,
        });
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(name),
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        if let Some(error) = wait(scope.pop()) {
            return Err(Error::new(ErrorKind::Operation, format!("the kernel {name} does not compile: {error}")));
        }
        let pipeline = Arc::new(Pipeline { pipeline, layout });
        lock().insert(source.to_string(), pipeline.clone());
        Ok(pipeline)
    }

    /// A buffer of zeros for tensors, of at least `bytes` bytes.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for it on the device.
    pub fn buffer(&self, label: &str, bytes: usize) -> Result<wgpu::Buffer> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size: bytes.next_multiple_of(8).max(8) as u64,
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        match wait(scope.pop()) {
            None => Ok(buffer),
            Some(error) => {
                Err(Error::new(ErrorKind::Unknown, format!("no memory for {bytes} bytes on the GPU: {error}")))
            }
        }
    }

    /// A buffer that holds `bytes`.
    ///
    /// # Errors
    /// As [`buffer`](Self::buffer).
    pub fn buffer_of(&self, label: &str, bytes: &[u8]) -> Result<wgpu::Buffer> {
        let buffer = self.buffer(label, bytes.len())?;
        self.write(&buffer, bytes);
        Ok(buffer)
    }

    /// Writes `bytes` to the start of `buffer`, before everything that is submitted later.
    pub fn write(&self, buffer: &wgpu::Buffer, bytes: &[u8]) {
        let whole = bytes.len() / 4 * 4;
        self.queue.write_buffer(buffer, 0, &bytes[..whole]);
        if whole < bytes.len() {
            // Copies are of whole words.
            let mut word = [0; 4];
            word[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            self.queue.write_buffer(buffer, whole as u64, &word);
        }
    }

    /// Copies the start of `buffer` to `target`, after everything that was submitted before.
    ///
    /// # Errors
    /// An `UnknownError` without memory for the copy, an `OperationError` when the device is lost.
    pub fn read(&self, buffer: &wgpu::Buffer, target: &mut [u8]) -> Result<()> {
        if target.is_empty() {
            return Ok(());
        }
        let size = target.len().next_multiple_of(4) as u64;
        let staging = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("read"),
            size,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &staging, 0, size);
        let submitted = self.queue.submit([encoder.finish()]);
        let (tell, told) = std::sync::mpsc::channel();
        staging.map_async(wgpu::MapMode::Read, .., move |result| drop(tell.send(result)));
        let failed = |what: String| Error::new(ErrorKind::Operation, format!("reading from the GPU failed: {what}"));
        let poll = wgpu::PollType::Wait { submission_index: Some(submitted), timeout: None };
        self.device.poll(poll).map_err(|error| failed(error.to_string()))?;
        told.recv().map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))?;
        let view = staging.get_mapped_range(..).map_err(|error| failed(error.to_string()))?;
        target.copy_from_slice(&view[..target.len()]);
        Ok(())
    }
}

/// What a device with these features has to be asked for.
fn experiments(features: wgpu::Features) -> wgpu::ExperimentalFeatures {
    if !features.intersects(wgpu::Features::all_experimental_mask()) {
        return wgpu::ExperimentalFeatures::disabled();
    }
    // SAFETY: what wgpu cannot promise for its experiments is that a shader is well defined that uses them wrongly. Only one
    // text uses one, `matmul_cooperative.wgsl`, in uniform control flow and inside of arrays of workgroup memory, as tests
    // of the same text without the feature show; and no result is used of a driver that fails the self-test.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}

/// The matrix units of an adapter that take float16 and add up in float32. The kernel reads them vectors, which Metal cannot.
fn matrix_units(adapter: &wgpu::Adapter, features: wgpu::Features) -> Option<MatrixUnits> {
    let vulkan = adapter.get_info().backend == wgpu::Backend::Vulkan;
    if !vulkan || !features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX) {
        return None;
    }
    let usable = |unit: &wgpu::CooperativeMatrixProperties| {
        let (halves, floats) = (wgpu::CooperativeScalarType::F16, wgpu::CooperativeScalarType::F32);
        let square = unit.m_size == unit.n_size && unit.n_size == unit.k_size;
        square && unit.ab_type == halves && unit.cr_type == floats
    };
    let sides = adapter.cooperative_matrix_properties().into_iter().filter(usable).map(|unit| unit.m_size);
    sides.filter(|side| [8, 16].contains(side)).max().map(|side| MatrixUnits { side, emulated: false })
}

/// The number of invocations in every subgroup, if it is always the same.
fn fixed_subgroup_size(info: &wgpu::AdapterInfo) -> Option<u32> {
    (info.subgroup_min_size == info.subgroup_max_size).then_some(info.subgroup_min_size)
}

/// The adapter that fits best.
fn adapter(choice: Choice) -> Option<wgpu::Adapter> {
    let descriptor = wgpu::InstanceDescriptor {
        backends: wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    };
    let instance = wgpu::Instance::new(descriptor);
    let adapters = wait(instance.enumerate_adapters(wgpu::Backends::all()));
    let rank = |adapter: &wgpu::Adapter| {
        let preferred = match (adapter.get_info().device_type, choice) {
            (wgpu::DeviceType::Cpu, Choice::Software) => 0,
            (wgpu::DeviceType::Cpu, _) | (_, Choice::Software) => return None,
            (wgpu::DeviceType::DiscreteGpu, Choice::Hardware { low_power }) => low_power as u8,
            (wgpu::DeviceType::IntegratedGpu, Choice::Hardware { low_power }) => !low_power as u8,
            (_, Choice::Hardware { .. }) => 2,
        };
        adapter.features().contains(wgpu::Features::IMMEDIATES).then_some(preferred)
    };
    adapters
        .into_iter()
        .filter_map(|adapter| Some((rank(&adapter)?, adapter)))
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, adapter)| adapter)
}

/// Runs `future` to its end on this thread.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}
