//! The drivers of GPUs: when to load them, and how. Loading takes tens of milliseconds and tens of megabytes, even if
//! the drivers then find no GPU.

use super::device::wait;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::OnceLock;

/// Files below `/dev` that the Linux kernel and its modules create for GPUs. Without any of them, no driver can reach
/// hardware. `renderD*` belong to open drivers, `dxg` to WSL, the last three to drivers for embedded processors.
const DEVICE_FILES: [&str; 7] = ["dri/renderD*", "nvidia*", "dxg", "kfd", "mali*", "kgsl-3d*", "nvhost*"];

/// Why no driver can find a GPU on this machine; `None` if one might.
pub fn absence() -> Option<String> {
    if !cfg!(target_os = "linux") || has_device_file(Path::new("/dev")) {
        return None;
    }
    Some(format!("there is no device file of a GPU (/dev/{})", DEVICE_FILES.join(", /dev/")))
}

/// Whether `devices` (`/dev` outside of tests) has a GPU's file. A folder without read permission may have one.
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

/// Percentage of a device's memory, used by all programs together, above which allocations are refused: beyond it,
/// drivers start to move memory around, and some terminate the process.
const MEMORY_BUDGET: wgpu::MemoryBudgetThresholds =
    wgpu::MemoryBudgetThresholds { for_resource_creation: Some(97), for_device_loss: None };

/// Loads the drivers, unless they are loaded, and returns all adapters, software included. The drivers are never unloaded:
/// they do not survive that at the end of the process.
pub fn adapters() -> Vec<wgpu::Adapter> {
    let adapters = |instance: &wgpu::Instance| wait(instance.enumerate_adapters(wgpu::Backends::all()));
    INSTANCE.get_or_init(instance).as_ref().map_or(Vec::new(), adapters)
}

static INSTANCE: OnceLock<Result<wgpu::Instance, String>> = OnceLock::new();

/// Why there are no drivers, where [`adapters`] has not found any.
pub fn refusal() -> Option<&'static str> {
    INSTANCE.get()?.as_ref().err().map(String::as_str)
}

#[cfg(not(target_os = "linux"))]
fn instance() -> Result<wgpu::Instance, String> {
    Ok(wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12,
        memory_budget_thresholds: MEMORY_BUDGET,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    }))
}

/// The Vulkan extensions for drawing into windows. With them enabled, Mesa's device selection layer connects to the
/// display, which takes time and writes to standard error on machines without one.
#[cfg(target_os = "linux")]
const WINDOWS: [&std::ffi::CStr; 3] = [c"VK_KHR_wayland_surface", c"VK_KHR_xcb_surface", c"VK_KHR_xlib_surface"];

/// A Vulkan instance without window extensions, or why there is none.
#[cfg(target_os = "linux")]
fn instance() -> Result<wgpu::Instance, String> {
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
    // SAFETY: wgpu enables all of its extensions that the loader has, because it uses them unchecked. These are an
    // exception: `create_surface` refuses a window whose extension is not in the list, and nothing else uses them.
    let instance = unsafe { vulkan::Instance::init_with_callback(&descriptor, Some(Box::new(leave_out))) };
    // SAFETY: the instance is new and has no other owner.
    instance
        .map(|instance| unsafe { wgpu::Instance::from_hal::<api::Vulkan>(instance) })
        .map_err(|error| causes(&error))
}

/// An error with the errors that caused it.
#[cfg(target_os = "linux")]
fn causes(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .map(|error| error.to_string())
        .collect::<Vec<_>>()
        .join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, remove_dir_all, write};

    /// Whether a folder with these files, in place of `/dev`, is recognized as having a GPU.
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
        // Display-only controllers, as in servers, have no node for compute.
        assert!(!found("none", &["null", "fb0", "kfd2", "dri/card0", "snd/nvidia0", "renderD128"]));
        assert!(!has_device_file(Path::new("/no/such/folder")));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn absence_names_the_device_files() {
        if let Some(why) = absence() {
            assert!(why.contains("(/dev/dri/renderD*, /dev/nvidia*, /dev/dxg, /dev/kfd, "), "{why}");
        }
    }
}
