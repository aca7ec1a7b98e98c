//! Compute pipelines, made from SPIR-V as wgpu makes them.

use ash::{Device, vk};
use std::error::Error;

/// Bytes of push constants of every kernel.
pub const IMMEDIATES: usize = 12;

/// A compiled kernel.
pub struct Kernel {
    /// The pipeline.
    pub pipeline: vk::Pipeline,
    /// Its layout.
    pub layout: vk::PipelineLayout,
    /// The layout of its buffers.
    pub set: vk::DescriptorSetLayout,
    /// The number of its buffers.
    pub bindings: u32,
    module: vk::ShaderModule,
}

/// One more than the highest number of a binding.
fn bindings(words: &[u32]) -> u32 {
    const HEADER: usize = 5;
    const DECORATE: u32 = 71;
    const BINDING: u32 = 33;
    let (mut at, mut count) = (HEADER, 0);
    while at < words.len() {
        if words[at] & 0xffff == DECORATE && words[at + 2] == BINDING {
            count = count.max(words[at + 3] + 1);
        }
        at += (words[at] >> 16).max(1) as usize;
    }
    count
}

impl Kernel {
    /// Compiles the SPIR-V in a file.
    pub fn new(device: &Device, file: &str, flags: vk::PipelineCreateFlags) -> Result<Kernel, Box<dyn Error>> {
        let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        let words =
            ash::util::read_spv(&mut std::io::Cursor::new(bytes)).map_err(|error| format!("{file}: {error}"))?;
        let count = bindings(&words);
        let entry = |binding| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let entries: Vec<_> = (0..count).map(entry).collect();
        let set = vk::DescriptorSetLayoutCreateInfo::default().bindings(&entries);
        let constants =
            [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(IMMEDIATES as u32)];
        let module = vk::ShaderModuleCreateInfo::default().code(&words);
        // SAFETY: all that the structures point to lives until the calls return. The kernels are valid SPIR-V, as
        // another step of the gate tests.
        unsafe {
            let set = device.create_descriptor_set_layout(&set, None)?;
            let sets = [set];
            let layout = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(&constants);
            let layout = device.create_pipeline_layout(&layout, None)?;
            let module = device.create_shader_module(&module, None)?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .flags(vk::PipelineShaderStageCreateFlags::ALLOW_VARYING_SUBGROUP_SIZE)
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main");
            let info = vk::ComputePipelineCreateInfo::default().flags(flags).stage(stage).layout(layout);
            let pipelines = device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None);
            let pipeline = pipelines.map_err(|(_, error)| format!("{file}: {error}"))?[0];
            Ok(Kernel { pipeline, layout, set, bindings: count, module })
        }
    }

    /// Frees it.
    pub fn destroy(self, device: &Device) {
        // SAFETY: nothing uses these.
        unsafe {
            device.destroy_pipeline(self.pipeline, None);
            device.destroy_shader_module(self.module, None);
            device.destroy_pipeline_layout(self.layout, None);
            device.destroy_descriptor_set_layout(self.set, None);
        }
    }
}
