//! Calls the first Vulkan driver without wgpu: `driver-probe statistics FILE...` prints what it says about each of these
//! kernels, `driver-probe hazard FILE [--barrier]` records one of them twice on the same buffer.

mod kernel;

use ash::{Device, Entry, Instance, khr, vk};
use kernel::Kernel;
use std::error::Error;
use std::ffi::CStr;

/// A driver's first device.
struct Driver {
    /// The functions of the loader, which `instance` uses.
    _entry: Entry,
    instance: Instance,
    physical: vk::PhysicalDevice,
    device: Device,
}

/// The text in an array of characters.
fn text(characters: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = characters.iter().map(|&character| character as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map_or(String::new(), |text| text.to_string_lossy().into_owned())
}

impl Driver {
    /// Opens a device with the features that wgpu enables for the kernels, and these extensions.
    fn open(extensions: &[&CStr]) -> Result<Driver, Box<dyn Error>> {
        // SAFETY: the loader is a library that runs no code of its own before it is called.
        let entry = unsafe { Entry::load()? };
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: all that `info` points to lives until the call returns, here and below.
        let instance = unsafe { entry.create_instance(&info, None)? };
        // SAFETY: the instance is alive, as long as the result.
        let physical = unsafe { instance.enumerate_physical_devices()? };
        let physical = *physical.first().ok_or("the driver has no device")?;
        let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let names: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
        let mut executables = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default();
        let mut vulkan11 = vk::PhysicalDeviceVulkan11Features::default();
        let mut vulkan12 = vk::PhysicalDeviceVulkan12Features::default();
        let mut vulkan13 = vk::PhysicalDeviceVulkan13Features::default();
        let mut robustness = vk::PhysicalDeviceRobustness2FeaturesEXT::default();
        let mut features = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut vulkan11)
            .push_next(&mut vulkan12)
            .push_next(&mut vulkan13);
        if extensions.contains(&khr::pipeline_executable_properties::NAME) {
            features = features.push_next(&mut executables).push_next(&mut robustness);
        }
        // SAFETY: the structures of the chain live until the device is created from the same chain.
        unsafe { instance.get_physical_device_features2(physical, &mut features) };
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queue).enabled_extension_names(&names);
        let info = info.push_next(&mut features);
        // SAFETY: enables what the device has, from its first queue family.
        let device = unsafe { instance.create_device(physical, &info, None)? };
        Ok(Driver { _entry: entry, instance, physical, device })
    }

    /// The names of the device and of the driver, with the driver's version.
    fn describe(&self) -> String {
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
        // SAFETY: the structures live until the call returns.
        unsafe { self.instance.get_physical_device_properties2(self.physical, &mut properties) };
        let device = text(&properties.properties.device_name);
        format!("{device}\t{} {}", text(&driver.driver_name), text(&driver.driver_info))
    }
}

/// Prints the driver, then a line for each statistic of each kernel: file, name, value.
fn statistics(files: &[String]) -> Result<(), Box<dyn Error>> {
    let driver = Driver::open(&[khr::pipeline_executable_properties::NAME, ash::ext::robustness2::NAME])?;
    let executables = khr::pipeline_executable_properties::Device::new(&driver.instance, &driver.device);
    println!("{}", driver.describe());
    for file in files {
        let kernel = Kernel::new(&driver.device, file, vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR)?;
        let info = vk::PipelineExecutableInfoKHR::default().pipeline(kernel.pipeline);
        // SAFETY: the pipeline was created with statistics; a compute pipeline has one executable.
        for statistic in unsafe { executables.get_pipeline_executable_statistics(&info)? } {
            // SAFETY: `format` says which field of the union the driver wrote.
            let value = unsafe {
                match statistic.format {
                    vk::PipelineExecutableStatisticFormatKHR::UINT64 => statistic.value.u64.to_string(),
                    vk::PipelineExecutableStatisticFormatKHR::INT64 => statistic.value.i64.to_string(),
                    vk::PipelineExecutableStatisticFormatKHR::FLOAT64 => statistic.value.f64.to_string(),
                    _ => (statistic.value.b32 != 0).to_string(),
                }
            };
            println!("{file}\t{}\t{value}", text(&statistic.name));
        }
        kernel.destroy(&driver.device);
    }
    Ok(())
}

/// Records two launches of a kernel that write to the same buffer, with or without a barrier in between. Runs nothing.
fn hazard(file: &str, barrier: bool) -> Result<(), Box<dyn Error>> {
    let driver = Driver::open(&[])?;
    let device = &driver.device;
    let kernel = Kernel::new(device, file, vk::PipelineCreateFlags::empty())?;
    let size =
        vk::DescriptorPoolSize::default().ty(vk::DescriptorType::STORAGE_BUFFER).descriptor_count(kernel.bindings);
    let pool = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(std::slice::from_ref(&size));
    let buffer = vk::BufferCreateInfo::default().size(1 << 20).usage(vk::BufferUsageFlags::STORAGE_BUFFER);
    // SAFETY: every object is made by this device and outlives its uses. Nothing is submitted, so nothing runs; the
    // process ends without destroying them.
    unsafe {
        let buffer = device.create_buffer(&buffer, None)?;
        let memory = vk::MemoryAllocateInfo::default()
            .allocation_size(device.get_buffer_memory_requirements(buffer).size)
            .memory_type_index(device.get_buffer_memory_requirements(buffer).memory_type_bits.trailing_zeros());
        device.bind_buffer_memory(buffer, device.allocate_memory(&memory, None)?, 0)?;
        let pool = device.create_descriptor_pool(&pool, None)?;
        let layouts = [kernel.set];
        let sets = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        let sets = device.allocate_descriptor_sets(&sets)?;
        let whole = vk::DescriptorBufferInfo::default().buffer(buffer).range(vk::WHOLE_SIZE);
        let all = vec![whole; kernel.bindings as usize];
        let write = vk::WriteDescriptorSet::default()
            .dst_set(sets[0])
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .buffer_info(&all);
        device.update_descriptor_sets(&[write], &[]);
        let commands = device.create_command_pool(&vk::CommandPoolCreateInfo::default(), None)?;
        let commands = vk::CommandBufferAllocateInfo::default().command_pool(commands).command_buffer_count(1);
        let commands = device.allocate_command_buffers(&commands)?[0];
        device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default())?;
        device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, kernel.pipeline);
        device.cmd_bind_descriptor_sets(commands, vk::PipelineBindPoint::COMPUTE, kernel.layout, 0, &sets, &[]);
        device.cmd_push_constants(commands, kernel.layout, vk::ShaderStageFlags::COMPUTE, 0, &[0; kernel::IMMEDIATES]);
        device.cmd_dispatch(commands, 1, 1, 1);
        if barrier {
            let accesses = vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE;
            let waits = vk::MemoryBarrier::default().src_access_mask(accesses).dst_access_mask(accesses);
            let stage = vk::PipelineStageFlags::COMPUTE_SHADER;
            device.cmd_pipeline_barrier(commands, stage, stage, vk::DependencyFlags::empty(), &[waits], &[], &[]);
        }
        device.cmd_dispatch(commands, 1, 1, 1);
        device.end_command_buffer(commands)?;
    }
    println!("{}", driver.describe());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["statistics", _, ..] => statistics(&arguments[1..]),
        ["hazard", file] => hazard(file, false),
        ["hazard", file, "--barrier"] => hazard(file, true),
        _ => Err("usage: driver-probe statistics FILE... | hazard FILE [--barrier]".into()),
    }
}
