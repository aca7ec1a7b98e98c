//! The drivers of GPUs: when there is reason to load them, and how. Loading takes tens of milliseconds and tens of megabytes,
//! also where they then find no GPU.

use super::device::wait;
use std::io::ErrorKind;
use std::path::Path;

/// Files below `/dev` that the kernel of Linux and its modules make for GPUs: without any of them no driver can reach hardware.
/// `renderD*` are those of open drivers, `dxg` is that of WSL, the last three are of drivers for embedded processors.
const DEVICE_FILES: [&str; 7] = ["dri/renderD*", "nvidia*", "dxg", "kfd", "mali*", "kgsl-3d*", "nvhost*"];

/// Why no driver can find a GPU on this machine; `None` where one may.
pub fn absence() -> Option<String> {
    if !cfg!(target_os = "linux") || has_device_file(Path::new("/dev")) {
        return None;
    }
    Some(format!("there is no device file of a GPU (/dev/{})", DEVICE_FILES.join(", /dev/")))
}

/// Whether `devices`, which is `/dev` but in tests, has a file of a GPU. A folder that may not be listed can have one.
fn has_device_file(devices: &Path) -> bool {
    DEVICE_FILES.iter().any(|pattern| {
        let (folder, pattern) = pattern.rsplit_once('/').unwrap_or(("", pattern));
        let fits = |name: &str| pattern.strip_suffix('*').map_or(name == pattern, |start| name.starts_with(start));
        match devices.join(folder).read_dir() {
            Ok(mut files) => files.any(|file| file.is_ok_and(|file| file.file_name().to_str().is_some_and(fits))),
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    })
}

/// What of a device's memory may be in use, by all programs, before an allocation is refused: drivers that are asked for
/// more move memory about, and some end the process.
const MEMORY_BUDGET: wgpu::MemoryBudgetThresholds =
    wgpu::MemoryBudgetThresholds { for_resource_creation: Some(97), for_device_loss: None };

/// Loads the drivers, and gives what they find: also software.
pub fn load() -> Vec<wgpu::Adapter> {
    let adapters = |instance: wgpu::Instance| wait(instance.enumerate_adapters(wgpu::Backends::all()));
    instance().map_or(Vec::new(), adapters)
}

#[cfg(not(target_os = "linux"))]
fn instance() -> Option<wgpu::Instance> {
    Some(wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12,
        memory_budget_thresholds: MEMORY_BUDGET,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    }))
}

/// The extensions by which Vulkan draws into windows. Where they are enabled, Mesa's layer for the choice of devices connects to
/// the display, which takes time and writes to standard error where there is none.
#[cfg(target_os = "linux")]
const WINDOWS: [&std::ffi::CStr; 3] = [c"VK_KHR_wayland_surface", c"VK_KHR_xcb_surface", c"VK_KHR_xlib_surface"];

/// Vulkan without windows; `None` where there is no Vulkan.
#[cfg(target_os = "linux")]
fn instance() -> Option<wgpu::Instance> {
    use wgpu::hal::{InstanceDescriptor, api, vulkan};
    let descriptor = InstanceDescriptor {
        name: "webnn-node",
        flags: wgpu::InstanceFlags::default(),
        memory_budget_thresholds: MEMORY_BUDGET,
        backend_options: wgpu::BackendOptions::default(),
        telemetry: None,
        display: None,
    };
    let leave_out = |args: vulkan::CreateInstanceCallbackArgs| args.extensions.retain(|name| !WINDOWS.contains(name));
    // SAFETY: wgpu wants all of its extensions that the loader has, because it uses them without a further look. Not so these:
    // `create_surface` refuses a window whose extension is not in the list, and nothing else uses them.
    let instance = unsafe { vulkan::Instance::init_with_callback(&descriptor, Some(Box::new(leave_out))) };
    // SAFETY: the instance is new, and nobody else has it.
    instance.ok().map(|instance| unsafe { wgpu::Instance::from_hal::<api::Vulkan>(instance) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, remove_dir_all, write};

    /// Whether a folder with these files, in place of `/dev`, has a file of a GPU.
    fn found(name: &str, files: &[&str]) -> bool {
        let devices = std::env::temp_dir().join(format!("webnn-node-{}-{name}", std::process::id()));
        create_dir_all(&devices).unwrap();
        for file in files {
            create_dir_all(devices.join(file).parent().unwrap()).unwrap();
            write(devices.join(file), "").unwrap();
        }
        let found = has_device_file(&devices);
        remove_dir_all(&devices).unwrap();
        found
    }

    #[test]
    fn files_of_gpus() {
        for file in ["dri/renderD128", "nvidia0", "nvidiactl", "dxg", "kfd", "mali0", "kgsl-3d0", "nvhost-gpu"] {
            assert!(found("gpu", &["null", file]), "{file}");
        }
        // Controllers that only show a picture, as in servers, have no node to compute through.
        assert!(!found("none", &["null", "fb0", "kfd2", "dri/card0", "snd/nvidia0", "renderD128"]));
        assert!(!has_device_file(Path::new("/no/such/folder")));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_looked_for_is_told() {
        if let Some(why) = absence() {
            assert!(why.contains("(/dev/dri/renderD*, /dev/nvidia*, /dev/dxg, /dev/kfd, "), "{why}");
        }
    }
}
