//! Compiled kernels: shared by all graphs of a device, cached in memory, and in files where drivers allow it.

use super::cache;
use super::device::{Device, IMMEDIATES};
use super::kernel::header;
use super::watch::LONG;
use crate::error::{Error, ErrorKind, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A compiled kernel with its binding layout.
pub struct Pipeline {
    /// The pipeline.
    pub pipeline: wgpu::ComputePipeline,
    /// Binding 0 holds the parameters, the others tensors, including those that the kernel does not use.
    pub layout: wgpu::BindGroupLayout,
}

/// Maximum size of a cache file in bytes.
const MAX_FILE: usize = 64 << 20;

/// Maximum number of pipelines kept without a graph that uses them: programs rebuild the same graphs for other shapes
/// or weights. A pipeline takes some 10 to 100 KiB.
pub(super) const MAX_UNUSED: usize = 256;

/// The known pipelines.
#[derive(Default)]
struct Known {
    /// By body. Pipelines without users expire.
    by_body: HashMap<String, Weak<Pipeline>>,
    /// The most recently compiled pipelines.
    latest: VecDeque<Arc<Pipeline>>,
}

/// The pipelines of a device.
pub struct Pipelines {
    known: Mutex<Known>,
    cache: Option<wgpu::PipelineCache>,
    /// Whether any kernel was compiled since the file was written.
    changed: AtomicBool,
}

impl Pipelines {
    /// Starts without pipelines; those in an earlier process's file compile faster.
    pub fn new(device: &wgpu::Device, info: &wgpu::AdapterInfo) -> Pipelines {
        let has_cache = device.features().contains(wgpu::Features::PIPELINE_CACHE);
        let cache = has_cache.then(|| {
            let data = file_name(info).and_then(|name| cache::load(&name));
            let descriptor =
                wgpu::PipelineCacheDescriptor { label: Some("webnn-node"), data: data.as_deref(), fallback: true };
            // SAFETY: the data come from `get_data` of this version of the package, as the file's name and checksum
            // ensure; wgpu ignores the data of another adapter or driver.
            unsafe { device.create_pipeline_cache(&descriptor) }
        });
        Pipelines { known: Mutex::default(), cache, changed: AtomicBool::new(false) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of live pipelines.
    pub fn count(&self) -> usize {
        self.known().by_body.values().filter(|pipeline| pipeline.strong_count() > 0).count()
    }

    /// Keeps `pipeline` for other users of the same kernel.
    fn keep(&self, body: &str, pipeline: &Arc<Pipeline>) {
        let Known { by_body, latest } = &mut *self.known();
        latest.push_back(pipeline.clone());
        if latest.len() > MAX_UNUSED {
            latest.pop_front();
        }
        if by_body.len() == by_body.capacity() {
            by_body.retain(|_, pipeline| pipeline.strong_count() > 0);
            let count = by_body.len().max(64);
            by_body.reserve(count);
        }
        by_body.insert(body.to_string(), Arc::downgrade(pipeline));
        self.changed.store(true, Ordering::Relaxed);
    }

    /// Writes new compiled kernels to a file for later processes.
    fn save(&self, info: &wgpu::AdapterInfo) {
        if !self.changed.swap(false, Ordering::Relaxed) {
            return;
        }
        let data = self.cache.as_ref().and_then(wgpu::PipelineCache::get_data).filter(|data| data.len() <= MAX_FILE);
        if let (Some(data), Some(name)) = (data, file_name(info)) {
            cache::store(&name, &data);
        }
    }
}

/// The file name for the kernels of an adapter.
fn file_name(info: &wgpu::AdapterInfo) -> Option<String> {
    Some(format!("{}-{}", wgpu::util::pipeline_cache_key(info)?, info.driver_info))
}

impl Device {
    /// Writes new compiled kernels to a file for later processes.
    pub fn save_pipelines(&self) {
        // A failure only costs time.
        _ = self.guarded("fetching compiled kernels", || self.pipelines.save(&self.info));
    }

    /// The part of a kernel's source that distinguishes it from the others.
    pub(super) fn body<'s>(&self, source: &'s str) -> &'s str {
        source.strip_prefix(&*header(self.dialect)).unwrap_or(source)
    }

    /// Returns the pipeline of a kernel that binds `tensors` tensors. Compiles it unless a pipeline with the same source
    /// is known.
    ///
    /// # Errors
    /// An `OperationError` if the source is rejected.
    pub fn pipeline(&self, name: &str, source: &str, tensors: u32) -> Result<Arc<Pipeline>> {
        #[cfg(test)]
        let sabotaged = self.sabotage.and_then(|change| change(name, source));
        #[cfg(test)]
        let source = sabotaged.as_deref().unwrap_or(source);
        if let Some(pipeline) = self.pipelines.known().by_body.get(self.body(source)).and_then(Weak::upgrade) {
            return Ok(pipeline);
        }
        let compile = || self.compile(name, source, tensors);
        let pipeline = Arc::new(self.scoped_for("compiling a kernel", LONG, compile).map_err(|error| {
            Error::new(ErrorKind::Operation, format!("the kernel {name} does not compile: {error}"))
        })?);
        self.pipelines.keep(self.body(source), &pipeline);
        Ok(pipeline)
    }

    fn compile(&self, name: &str, source: &str, tensors: u32) -> Pipeline {
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
            cache: self.pipelines.cache.as_ref(),
        });
        Pipeline { pipeline, layout }
    }
}
