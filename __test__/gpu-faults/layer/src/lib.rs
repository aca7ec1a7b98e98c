//! A Vulkan layer that lets one call of the driver fail, or never return. It counts the calls that may fail, of all
//! threads. Environment variables say what it does:
//!
//! - `GPU_FAULTS_AT`: the number of the call, from 1 on; 0 or absent for none.
//! - `GPU_FAULTS`: `lost` answers VK_ERROR_DEVICE_LOST, to that call and to all later ones of its device that may; `memory`
//!   answers VK_ERROR_OUT_OF_DEVICE_MEMORY; `never` does not return; `slow` takes a second, and the process aborts if it ends
//!   meanwhile, as drivers crash that clean up while a thread is inside of them.
//! - `GPU_FAULTS_LOG`: a file that receives the name of the call, or of each call if there is none.

mod chain;

use ash::vk::{self, Handle};
use std::ffi::{CStr, c_char, c_void};
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// What happens to the call.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Lost,
    Memory,
    Never,
    Slow,
}

/// What the environment asks for.
struct Plan {
    fault: Fault,
    at: usize,
    log: Option<String>,
}

fn plan() -> &'static Plan {
    static PLAN: OnceLock<Plan> = OnceLock::new();
    PLAN.get_or_init(|| {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let fault = match variable("GPU_FAULTS").as_deref() {
            None | Some("lost") => Fault::Lost,
            Some("memory") => Fault::Memory,
            Some("never") => Fault::Never,
            Some("slow") => Fault::Slow,
            Some(other) => panic!("GPU_FAULTS is {other:?}, expected lost, memory, never or slow"),
        };
        let at = variable("GPU_FAULTS_AT").map_or(0, |text| text.parse().expect("GPU_FAULTS_AT is a number"));
        Plan { fault, at, log: variable("GPU_FAULTS_LOG") }
    })
}

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The dispatch keys of devices that are lost.
static LOST: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Writes the name of a call into the log.
fn log(name: &CStr) {
    let Some(path) = &plan().log else { return };
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("the log can be written");
    writeln!(file, "{}", name.to_string_lossy()).expect("the log can be written");
}

/// Counts a call; returns the error that it answers, if it shall fail. `key` is the dispatch key of its device,
/// `can_be_lost` says whether it may answer that the device is lost.
fn fail(name: &CStr, key: usize, can_be_lost: bool) -> Option<vk::Result> {
    let lost = || LOST.lock().unwrap_or_else(PoisonError::into_inner);
    if can_be_lost && lost().contains(&key) {
        return Some(vk::Result::ERROR_DEVICE_LOST);
    }
    let number = COUNT.fetch_add(1, Ordering::SeqCst) + 1;
    let Plan { fault, at, .. } = plan();
    if *at == 0 {
        log(name);
    }
    if number != *at {
        return None;
    }
    log(name);
    match fault {
        Fault::Lost => {
            lost().push(key);
            // A lost device computes nothing more: the program may free what it has used.
            chain::wait_idle(key);
            Some(vk::Result::ERROR_DEVICE_LOST)
        }
        Fault::Memory => Some(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY),
        Fault::Never => loop {
            std::thread::park();
        },
        Fault::Slow => {
            stay_inside(Duration::from_secs(1));
            None
        }
    }
}

/// Stays inside of the driver for `time`; aborts the process if it ends meanwhile.
fn stay_inside(time: Duration) {
    static INSIDE: AtomicBool = AtomicBool::new(false);
    extern "C" fn clean_up() {
        if INSIDE.load(Ordering::SeqCst) {
            std::process::abort();
        }
    }
    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> i32;
    }
    INSIDE.store(true, Ordering::SeqCst);
    // SAFETY: the C library's function; the loader does not unload the layer of an instance that exists, and none is
    // destroyed here.
    assert_eq!(unsafe { atexit(clean_up) }, 0, "there is room for a function");
    std::thread::sleep(time);
    INSIDE.store(false, Ordering::SeqCst);
}

/// The dispatch key of a dispatchable object: its first word, which all objects of an instance or device share.
fn key(object: impl Handle) -> usize {
    // SAFETY: every dispatchable object begins with a pointer to its dispatch table.
    unsafe { *(object.as_raw() as *const usize) }
}

/// Defines functions that stand between the program and the driver, and `wrapper`, which finds them by name.
macro_rules! wrap {
    ($($level:ident $can_be_lost:literal $name:ident($first:ident: $type:ty $(, $argument:ident: $of:ty)*);)*) => {
        $(
            #[allow(non_snake_case)]
            unsafe extern "system" fn $name($first: $type $(, $argument: $of)*) -> vk::Result {
                const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name without zeros"),
                };
                if let Some(error) = fail(NAME, key($first), $can_be_lost) {
                    return error;
                }
                type Next = unsafe extern "system" fn($type $(, $of)*) -> vk::Result;
                let next = chain::$level(key($first), NAME).expect("the driver has what the program has found");
                // SAFETY: the next layer returned it for this name, which has this type.
                let next = unsafe { std::mem::transmute::<unsafe extern "system" fn(), Next>(next) };
                // SAFETY: with the arguments of the program.
                unsafe { next($first $(, $argument)*) }
            }
        )*

        /// The function that stands before the driver's of this name.
        fn wrapper(name: &CStr) -> vk::PFN_vkVoidFunction {
            $(
                if name.to_bytes() == stringify!($name).as_bytes() {
                    let function = $name as *const ();
                    // SAFETY: both are pointers to functions.
                    return Some(unsafe { std::mem::transmute::<*const (), unsafe extern "system" fn()>(function) });
                }
            )*
            None
        }
    };
}

type Allocator = *const vk::AllocationCallbacks<'static>;
type Count = *mut u32;
type Out = *mut c_void;
type In = *const c_void;

// Whatever only passes through is a plain pointer.
wrap! {
    of_instance false vkEnumeratePhysicalDevices(instance: vk::Instance, count: Count, devices: Out);
    of_device false vkAllocateMemory(device: vk::Device, info: In, allocator: Allocator, memory: Out);
    of_device false vkMapMemory(device: vk::Device, memory: vk::DeviceMemory, offset: u64, size: u64, flags: u32, data: Out);
    of_device false vkFlushMappedMemoryRanges(device: vk::Device, count: u32, ranges: In);
    of_device false vkInvalidateMappedMemoryRanges(device: vk::Device, count: u32, ranges: In);
    of_device false vkBindBufferMemory(device: vk::Device, buffer: vk::Buffer, memory: vk::DeviceMemory, offset: u64);
    of_device false vkCreateBuffer(device: vk::Device, info: In, allocator: Allocator, made: Out);
    of_device false vkCreateFence(device: vk::Device, info: In, allocator: Allocator, made: Out);
    of_device false vkCreateSemaphore(device: vk::Device, info: In, allocator: Allocator, made: Out);
    of_device false vkCreateQueryPool(device: vk::Device, info: In, allocator: Allocator, made: Out);
    of_device false vkCreateShaderModule(device: vk::Device, info: In, allocator: Allocator, made: Out);
    of_device false vkCreatePipelineCache(device: vk::Device, info: In, allocator: Allocator, made: Out);
    of_device false vkGetPipelineCacheData(device: vk::Device, cache: vk::PipelineCache, size: *mut usize, data: Out);
    of_device false vkCreateComputePipelines(device: vk::Device, cache: vk::PipelineCache, count: u32, infos: In, allocator: Allocator, made: Out);
    of_device false vkCreatePipelineLayout(device: vk::Device, info: In, allocator: Allocator, made: Out);
    of_device false vkCreateDescriptorSetLayout(device: vk::Device, info: In, allocator: Allocator, made: Out);
    of_device false vkCreateDescriptorPool(device: vk::Device, info: In, allocator: Allocator, made: Out);
    of_device false vkAllocateDescriptorSets(device: vk::Device, info: In, made: Out);
    of_device false vkCreateCommandPool(device: vk::Device, info: In, allocator: Allocator, made: Out);
    of_device false vkResetCommandPool(device: vk::Device, pool: vk::CommandPool, flags: u32);
    of_device false vkAllocateCommandBuffers(device: vk::Device, info: In, made: Out);
    of_device false vkBeginCommandBuffer(buffer: vk::CommandBuffer, info: In);
    of_device false vkEndCommandBuffer(buffer: vk::CommandBuffer);
    of_device true vkQueueSubmit(queue: vk::Queue, count: u32, infos: In, fence: vk::Fence);
    of_device true vkQueueSubmit2(queue: vk::Queue, count: u32, infos: In, fence: vk::Fence);
    of_device true vkQueueWaitIdle(queue: vk::Queue);
    of_device true vkDeviceWaitIdle(device: vk::Device);
    of_device true vkWaitForFences(device: vk::Device, count: u32, fences: In, all: u32, timeout: u64);
    of_device true vkGetFenceStatus(device: vk::Device, fence: vk::Fence);
    of_device false vkResetFences(device: vk::Device, count: u32, fences: In);
    of_device true vkWaitSemaphores(device: vk::Device, info: In, timeout: u64);
    of_device true vkWaitSemaphoresKHR(device: vk::Device, info: In, timeout: u64);
    of_device true vkGetSemaphoreCounterValue(device: vk::Device, semaphore: vk::Semaphore, value: Out);
    of_device true vkGetSemaphoreCounterValueKHR(device: vk::Device, semaphore: vk::Semaphore, value: Out);
    of_device true vkGetQueryPoolResults(device: vk::Device, pool: vk::QueryPool, first: u32, count: u32, size: usize, data: Out, stride: u64, flags: u32);
}

/// Creates an instance of the next layer.
unsafe extern "system" fn create_instance(
    info: *const vk::InstanceCreateInfo<'static>,
    allocator: Allocator,
    made: *mut vk::Instance,
) -> vk::Result {
    if let Some(error) = fail(c"vkCreateInstance", 0, false) {
        return error;
    }
    // SAFETY: the loader's arguments, unchanged.
    unsafe { chain::create_instance(info, allocator, made) }
}

/// Creates a device of the next layer.
unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'static>,
    allocator: Allocator,
    made: *mut vk::Device,
) -> vk::Result {
    // A device that is not there cannot stay lost.
    let error = fail(c"vkCreateDevice", 0, false);
    LOST.lock().unwrap_or_else(PoisonError::into_inner).retain(|&key| key != 0);
    if let Some(error) = error {
        return error;
    }
    // SAFETY: the loader's arguments, unchanged.
    unsafe { chain::create_device(key(physical), physical, info, allocator, made) }
}

/// The pointer of a function, without its type.
fn untyped(function: *const ()) -> vk::PFN_vkVoidFunction {
    // SAFETY: both are pointers to functions.
    Some(unsafe { std::mem::transmute::<*const (), unsafe extern "system" fn()>(function) })
}

/// The function of an instance with this name.
unsafe extern "system" fn get_instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: names are C strings.
    let name = unsafe { CStr::from_ptr(name) };
    match name.to_bytes() {
        b"vkGetInstanceProcAddr" => return untyped(get_instance_proc_addr as *const ()),
        b"vkGetDeviceProcAddr" => return untyped(get_device_proc_addr as *const ()),
        b"vkCreateInstance" => return untyped(create_instance as *const ()),
        b"vkCreateDevice" => return untyped(create_device as *const ()),
        _ if instance.is_null() => return None,
        _ => {}
    }
    let next = chain::of_instance(key(instance), name)?;
    wrapper(name).or(Some(next))
}

/// The function of a device with this name.
unsafe extern "system" fn get_device_proc_addr(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: names are C strings.
    let name = unsafe { CStr::from_ptr(name) };
    if name.to_bytes() == b"vkGetDeviceProcAddr" {
        return untyped(get_device_proc_addr as *const ());
    }
    let next = chain::of_device(key(device), name)?;
    wrapper(name).or(Some(next))
}

/// Tells the loader which version of its interface the layer has, and its functions.
///
/// # Safety
/// For the loader, which passes a structure of its own.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vkNegotiateLoaderLayerInterfaceVersion(interface: *mut chain::Negotiation) -> vk::Result {
    // SAFETY: the loader's structure.
    let interface = unsafe { &mut *interface };
    interface.version = interface.version.min(2);
    interface.get_instance_proc_addr = Some(get_instance_proc_addr);
    interface.get_device_proc_addr = Some(get_device_proc_addr);
    interface.get_physical_device_proc_addr = None;
    vk::Result::SUCCESS
}
