//! The GPUs of this machine, and the choice of one for a context.

use super::check;
use super::device::IMMEDIATES;
use super::drivers;
use super::exit::opening;
use super::loss::Loss;
use super::pending::Pending;
use super::watch::{LONG, guarded, patience};
use crate::error::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::cmp::Reverse;
use std::sync::{Arc, Mutex, PoisonError};

/// `1` restricts contexts to a CPU that emulates a GPU (llvmpipe, WARP).
pub const SOFTWARE_VARIABLE: &str = "WEBNN_GPU_SOFTWARE";

/// `minimum` gives devices WebGPU's default limits, the lowest that a device may have.
pub const LIMITS_VARIABLE: &str = "WEBNN_GPU_LIMITS";

/// The limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limits {
    /// Those of the adapter.
    Adapter,
    /// The lowest that WebGPU allows.
    Minimum,
}

impl Limits {
    /// The limits that [`LIMITS_VARIABLE`] asks for.
    ///
    /// # Errors
    /// A NotSupportedError for an invalid value.
    pub fn chosen() -> Result<Limits> {
        match std::env::var(LIMITS_VARIABLE).as_deref() {
            Err(_) | Ok("") => Ok(Limits::Adapter),
            Ok("minimum") => Ok(Limits::Minimum),
            Ok(other) => {
                Err(Error::new(ErrorKind::NotSupported, format!("{LIMITS_VARIABLE} is {other:?}, expected minimum")))
            }
        }
    }

    /// The limits of a device of `adapter`.
    pub fn of(self, adapter: &wgpu::Adapter) -> wgpu::Limits {
        match self {
            Limits::Adapter => adapter.limits(),
            Limits::Minimum => wgpu::Limits { max_immediate_size: IMMEDIATES, ..wgpu::Limits::default() },
        }
    }
}

/// Which adapters to consider.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The fastest hardware.
    Hardware,
    /// A CPU that emulates a GPU, for tests.
    Software,
    /// The adapter behind a WebGPU `GPUDevice`.
    Of(WebGpuAdapter),
}

/// The adapter information of a `GPUDevice`. Implementations differ: they report vendor names or numbers, the adapter's
/// name in `device` or in `description`, or next to nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WebGpuAdapter {
    /// A word such as `nvidia`, or a number.
    pub vendor: String,
    /// A number or a name.
    pub device: String,
    /// The name of the adapter.
    pub description: String,
    /// Whether the adapter is a CPU.
    pub is_fallback_adapter: bool,
}

/// Vendor names as WebGPU spells them, with their PCI numbers.
const VENDORS: [(&str, u32); 9] = [
    ("nvidia", 0x10de),
    ("amd", 0x1002),
    ("intel", 0x8086),
    ("apple", 0x106b),
    ("arm", 0x13b5),
    ("qualcomm", 0x5143),
    ("microsoft", 0x1414),
    ("mesa", 0x10005),
    ("google", 0x1ae0),
];

/// Parses a number, decimal or hexadecimal with `0x`.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl WebGpuAdapter {
    /// Scores how well an adapter matches, higher for more matching fields; `None` for a different adapter.
    fn fit(&self, info: &wgpu::AdapterInfo) -> Option<u32> {
        let vendor = self.vendor.to_lowercase();
        let said = VENDORS.iter().find(|(name, _)| *name == vendor).map(|(_, id)| *id).or_else(|| number(&vendor));
        if said.is_some_and(|id| id != info.vendor) {
            return None;
        }
        let named = |text: &str| !text.is_empty() && (info.name.contains(text) || text.contains(&info.name));
        let is_named = named(&self.description) || named(&self.device);
        let numbered = number(&self.device).is_some_and(|id| id == info.device);
        let fits = said.is_some() as u32 + 2 * (is_named || numbered) as u32;
        let is_cpu = info.device_type == wgpu::DeviceType::Cpu;
        (fits > 0 && (is_cpu || !self.is_fallback_adapter)).then_some(fits)
    }
}

/// The adapters of this machine, software included, once they were asked for.
static ADAPTERS: Mutex<Option<Arc<Pending<Vec<wgpu::Adapter>>>>> = Mutex::new(None);

/// All adapters of this machine, software included. Returns none, without loading drivers, if there can be no hardware
/// and the caller does not want software (`wants_software`).
fn all(wants_software: bool) -> Result<Vec<wgpu::Adapter>> {
    let pending = {
        let mut adapters = ADAPTERS.lock().unwrap_or_else(PoisonError::into_inner);
        match &*adapters {
            Some(pending) => pending.clone(),
            None if !wants_software && drivers::absence().is_some() => return Ok(Vec::new()),
            None => {
                let loss = Arc::new(Loss::new(LONG * patience(false)?));
                let load = |loss: Arc<Loss>| {
                    let _opening = opening()?;
                    guarded(&loss, "loading drivers", loss.patience(), drivers::adapters)
                };
                adapters.insert(Pending::start(&loss, load)?).clone()
            }
        }
    };
    pending.wait()
}

/// Has the adapters enumerated again before they are used the next time.
pub fn enumerate_again() {
    let adapters = ADAPTERS.lock().unwrap_or_else(PoisonError::into_inner).take();
    // The drivers remain loaded.
    drop(adapters);
}

/// Why an adapter is unusable; `None` if it is usable.
fn unfit(adapter: &wgpu::Adapter) -> Option<&'static str> {
    match adapter.features().contains(wgpu::Features::IMMEDIATES) {
        true => None,
        false => Some("it has no immediates (push constants)"),
    }
}

/// Ranks an adapter for `choice`, the best first; `None` for an adapter that does not qualify.
fn rank(info: &wgpu::AdapterInfo, choice: &Choice) -> Option<Reverse<u32>> {
    let is_cpu = info.device_type == wgpu::DeviceType::Cpu;
    let rank = match choice {
        Choice::Of(device) => return device.fit(info).map(Reverse),
        Choice::Software => return is_cpu.then_some(Reverse(0)),
        Choice::Hardware => match info.device_type {
            wgpu::DeviceType::Cpu => return None,
            wgpu::DeviceType::DiscreteGpu => 3,
            wgpu::DeviceType::IntegratedGpu => 2,
            _ => 1,
        },
    };
    Some(Reverse(rank))
}

/// Returns the best adapter; ties go to the first.
///
/// # Errors
/// A NotSupportedError for an invalid value of [`SOFTWARE_VARIABLE`], if it is read; an `OperationError` while a driver
/// hangs.
pub fn adapter(choice: &Choice) -> Result<Option<wgpu::Adapter>> {
    let wants_software = match choice {
        Choice::Hardware => false,
        Choice::Software => true,
        Choice::Of(_) => software_allowed()?,
    };
    let best = all(wants_software)?
        .into_iter()
        .filter(|adapter| unfit(adapter).is_none())
        .filter_map(|adapter| Some((rank(&adapter.get_info(), choice)?, adapter)))
        .min_by_key(|(rank, _)| *rank);
    Ok(best.map(|(_, adapter)| adapter))
}

/// Explains why no adapter is usable; `software` says whether contexts only use software.
pub fn why_none(software: bool) -> String {
    match drivers::absence() {
        Some(why) if !software => format!("{why}, so no driver is loaded"),
        _ => {
            let why = drivers::refusal().map_or(String::new(), |why| format!(" ({why})"));
            format!("no adapter of Vulkan, Metal or DirectX 12 can be used{why}")
        }
    }
}

/// The choice for a context that asks for any GPU: software if [`SOFTWARE_VARIABLE`] asks for it.
///
/// # Errors
/// A NotSupportedError for an invalid value of the variable, or of [`LIMITS_VARIABLE`].
pub fn choice() -> Result<Choice> {
    Limits::chosen()?;
    Ok(if software_allowed()? { Choice::Software } else { Choice::Hardware })
}

/// The GPU of tests: `software`, also if it is not set, or `hardware`. If it is set, tests of operators run there, too.
#[cfg(test)]
pub const TEST_VARIABLE: &str = "WEBNN_TEST_GPU";

/// The choice of tests.
///
/// # Panics
/// For an invalid value of [`TEST_VARIABLE`].
#[cfg(test)]
pub fn choice_of_tests() -> Choice {
    match std::env::var(TEST_VARIABLE).as_deref() {
        Err(_) | Ok("software") => Choice::Software,
        Ok("hardware") => Choice::Hardware,
        Ok(other) => panic!("{TEST_VARIABLE} is {other:?}, expected software or hardware"),
    }
}

/// Whether [`SOFTWARE_VARIABLE`] lets contexts use software.
///
/// # Errors
/// A NotSupportedError for an invalid value.
pub fn software_allowed() -> Result<bool> {
    match std::env::var(SOFTWARE_VARIABLE).as_deref() {
        Err(_) | Ok("" | "0") => Ok(false),
        Ok("1") => Ok(true),
        Ok(other) => {
            Err(Error::new(ErrorKind::NotSupported, format!("{SOFTWARE_VARIABLE} is {other:?}, expected 0 or 1")))
        }
    }
}

/// The name of a device type.
fn kind(device_type: wgpu::DeviceType) -> &'static str {
    match device_type {
        wgpu::DeviceType::DiscreteGpu => "discrete",
        wgpu::DeviceType::IntegratedGpu => "integrated",
        wgpu::DeviceType::VirtualGpu => "virtual",
        wgpu::DeviceType::Cpu => "software",
        wgpu::DeviceType::Other => "other",
    }
}

/// Describes the adapters for people, each as a `GPUAdapterDescription` of `inspect.d.ts`. `used` are the optional
/// features that kernels use; `software` says whether contexts only use software.
///
/// # Errors
/// An `OperationError` while a driver hangs.
pub fn adapters_json(used: wgpu::Features, software: bool) -> Result<Vec<Json>> {
    let chosen = Limits::chosen().unwrap_or(Limits::Adapter);
    let describe = |adapter: &wgpu::Adapter| {
        let (info, limits) = (adapter.get_info(), chosen.of(adapter));
        let is_cpu = info.device_type == wgpu::DeviceType::Cpu;
        let check = check::known(adapter);
        let wrong = check.as_ref().and_then(|check| check.refusal.clone());
        let unused = match (unfit(adapter).map(str::to_string).or(wrong), is_cpu, software) {
            (Some(why), ..) => Some(why),
            (None, true, false) => Some(format!("it is software, used only where {SOFTWARE_VARIABLE} is 1")),
            (None, false, true) => Some(format!("{SOFTWARE_VARIABLE} is 1")),
            _ => None,
        };
        let features = adapter.features() & used;
        json!({
            "name": info.name,
            "type": kind(info.device_type),
            "backend": info.backend.to_string(),
            "driver": format!("{} {}", info.driver, info.driver_info).trim(),
            "features": features.iter_names().map(|(name, _)| name).collect::<Vec<_>>(),
            "maxBufferBytes": limits.max_buffer_size,
            "maxBindingBytes": limits.max_storage_buffer_binding_size,
            "check": check.map(|check| {
                let families: serde_json::Map<String, Json> =
                    check.families.into_iter().map(|(name, problem)| (name.to_string(), problem.into())).collect();
                json!({ "verdict": if check.refusal.is_none() { "right" } else { "wrong" }, "families": families })
            }),
            "unused": unused,
        })
    };
    Ok(all(software)?.iter().map(describe).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str, vendor: u32, device: u32, device_type: wgpu::DeviceType) -> wgpu::AdapterInfo {
        let info = wgpu::AdapterInfo::new(device_type, wgpu::Backend::Vulkan);
        wgpu::AdapterInfo { name: name.to_string(), vendor, device, ..info }
    }

    #[test]
    fn adapters_by_preference() {
        use wgpu::DeviceType::*;
        let best = |choice: &Choice, types: &[wgpu::DeviceType]| {
            let ranked =
                types.iter().enumerate().filter_map(|(at, kind)| Some((rank(&info("", 0, 0, *kind), choice)?, at)));
            ranked.min_by_key(|(rank, _)| *rank).map(|(_, at)| types[at])
        };
        let all = [Cpu, Other, IntegratedGpu, VirtualGpu, DiscreteGpu];
        assert_eq!(best(&Choice::Hardware, &all), Some(DiscreteGpu));
        assert_eq!(best(&Choice::Hardware, &[Cpu, Other, VirtualGpu, IntegratedGpu]), Some(IntegratedGpu));
        assert_eq!(best(&Choice::Hardware, &[Cpu]), None);
        assert_eq!(best(&Choice::Software, &all), Some(Cpu));
        assert_eq!(best(&Choice::Software, &[DiscreteGpu]), None);
    }

    #[test]
    fn adapters_of_web_gpu_devices() {
        use wgpu::DeviceType::*;
        let infos = [
            info("NVIDIA H200", 0x10de, 0x2335, DiscreteGpu),
            info("Intel(R) UHD Graphics 630", 0x8086, 0x3e92, IntegratedGpu),
            info("llvmpipe (LLVM 15.0.6, 256 bits)", 0x10005, 0, Cpu),
        ];
        let best = |vendor: &str, device: &str, description: &str, is_fallback_adapter| {
            let [vendor, device, description] = [vendor, device, description].map(str::to_string);
            let choice = Choice::Of(WebGpuAdapter { vendor, device, description, is_fallback_adapter });
            let ranked = infos.iter().enumerate().filter_map(|(at, info)| Some((rank(info, &choice)?, at)));
            ranked.min_by_key(|(rank, _)| *rank).map(|(_, at)| at)
        };
        // As Dawn reports adapters, then as Deno does.
        assert_eq!(best("nvidia", "0x2335", "NVIDIA H200", false), Some(0));
        assert_eq!(best("intel", "0x3e92", "Intel(R) UHD Graphics 630", false), Some(1));
        assert_eq!(best("mesa", "0x0000", "llvmpipe (LLVM 15.0.6, 256 bits)", false), Some(2));
        assert_eq!(best("4318", "9013", "NVIDIA H200", false), Some(0));
        assert_eq!(best("", "", "llvmpipe (LLVM 15.0.6, 256 bits)", true), Some(2));
        assert_eq!(best("amd", "0x744c", "AMD Radeon RX 7900 XTX", false), None);
        assert_eq!(best("nvidia", "", "", true), None);
        assert_eq!(best("", "", "", false), None);
    }
}
