//! The next layer, or the driver: what `vk_layer.h` of the Vulkan loader declares, and the functions found through it.

use ash::vk;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

type GetInstanceProcAddr = unsafe extern "system" fn(vk::Instance, *const c_char) -> vk::PFN_vkVoidFunction;
type GetDeviceProcAddr = unsafe extern "system" fn(vk::Device, *const c_char) -> vk::PFN_vkVoidFunction;

/// `VkNegotiateLayerInterface`.
#[repr(C)]
pub struct Negotiation {
    kind: i32,
    next: *mut c_void,
    /// The version of the interface.
    pub version: u32,
    /// `vkGetInstanceProcAddr` of the layer.
    pub get_instance_proc_addr: Option<GetInstanceProcAddr>,
    /// `vkGetDeviceProcAddr` of the layer.
    pub get_device_proc_addr: Option<GetDeviceProcAddr>,
    /// For extensions of physical devices that the loader does not know.
    pub get_physical_device_proc_addr: Option<GetInstanceProcAddr>,
}

/// The beginning of `VkLayerInstanceCreateInfo` and `VkLayerDeviceCreateInfo`, where `link` has the type of the level.
#[repr(C)]
struct LayerInfo<Link> {
    kind: vk::StructureType,
    next: *const c_void,
    function: i32,
    link: *mut Link,
}

/// `VkLayerInstanceLink`.
#[repr(C)]
struct InstanceLink {
    next: *mut InstanceLink,
    get_instance_proc_addr: GetInstanceProcAddr,
    get_physical_device_proc_addr: Option<GetInstanceProcAddr>,
}

/// `VkLayerDeviceLink`.
#[repr(C)]
struct DeviceLink {
    next: *mut DeviceLink,
    get_instance_proc_addr: GetInstanceProcAddr,
    get_device_proc_addr: GetDeviceProcAddr,
}

/// `VK_LAYER_LINK_INFO`.
const LINK: i32 = 0;

/// Finds the link to the next layer in a chain of structures.
///
/// # Safety
/// `next` is the loader's chain, whose structures of type `kind` have a `Link`.
unsafe fn link<Link>(mut next: *const c_void, kind: vk::StructureType) -> Option<*mut LayerInfo<Link>> {
    while !next.is_null() {
        let info = next as *mut LayerInfo<Link>;
        // SAFETY: all structures of a chain begin with their type and the next one; `function` follows in this type.
        let (found, after) = unsafe { ((*info).kind == kind && (*info).function == LINK, (*info).next) };
        if found {
            return Some(info);
        }
        next = after;
    }
    None
}

/// An instance of the next layer.
struct Instance {
    instance: vk::Instance,
    find: GetInstanceProcAddr,
    /// Found while it was created: afterwards, the loader returns the first layer's function for this name.
    enumerate: vk::PFN_vkVoidFunction,
}

/// The name of the only function of instances that the layer stands before.
const ENUMERATE: &CStr = c"vkEnumeratePhysicalDevices";

/// By dispatch key.
type Table<Object> = OnceLock<Mutex<HashMap<usize, Object>>>;

static INSTANCES: Table<Instance> = OnceLock::new();
static DEVICES: Table<(vk::Device, GetDeviceProcAddr)> = OnceLock::new();

/// The next function with this name of the instance with this dispatch key.
pub fn of_instance(key: usize, name: &CStr) -> vk::PFN_vkVoidFunction {
    let instances = INSTANCES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let &Instance { instance, find, enumerate } = instances.get(&key)?;
    drop(instances);
    if name == ENUMERATE {
        return enumerate;
    }
    // SAFETY: the next layer's function, for its instance.
    unsafe { find(instance, name.as_ptr()) }
}

/// The next function with this name of the device with this dispatch key.
pub fn of_device(key: usize, name: &CStr) -> vk::PFN_vkVoidFunction {
    let devices = DEVICES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let (device, find) = *devices.get(&key)?;
    drop(devices);
    // SAFETY: the next layer's function, for its device.
    unsafe { find(device, name.as_ptr()) }
}

/// Waits until the device with this dispatch key has nothing to do; does nothing if there is none.
pub fn wait_idle(key: usize) {
    let devices = DEVICES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let Some((device, find)) = devices.get(&key).copied() else { return };
    drop(devices);
    // SAFETY: the next layer's function, for its device.
    let wait = unsafe { find(device, c"vkDeviceWaitIdle".as_ptr()) }.expect("every device has it");
    // SAFETY: the type of the function with this name.
    let wait = unsafe { std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkDeviceWaitIdle>(wait) };
    // SAFETY: the layer lets no other call pass that uses a queue of this device.
    unsafe { wait(device) }.result().expect("the driver has no faults of its own");
}

/// Creates an instance of the next layer, and remembers it.
///
/// # Safety
/// For the loader's arguments.
pub unsafe fn create_instance(
    info: *const vk::InstanceCreateInfo<'static>,
    allocator: *const vk::AllocationCallbacks<'static>,
    made: *mut vk::Instance,
) -> vk::Result {
    // SAFETY: the loader's chain.
    let link = unsafe { link::<InstanceLink>((*info).p_next, vk::StructureType::LOADER_INSTANCE_CREATE_INFO) };
    let Some(link) = link else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    // SAFETY: the loader's link, which the next layer expects to be advanced.
    let find = unsafe {
        let find = (*(*link).link).get_instance_proc_addr;
        (*link).link = (*(*link).link).next;
        find
    };
    // SAFETY: without an instance, it returns this function.
    let Some(create) = (unsafe { find(vk::Instance::null(), c"vkCreateInstance".as_ptr()) }) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: the type of the function with this name.
    let create = unsafe { std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkCreateInstance>(create) };
    // SAFETY: the loader's arguments.
    let result = unsafe { create(info, allocator, made) };
    if result == vk::Result::SUCCESS {
        // SAFETY: it was created.
        let instance = unsafe { *made };
        // SAFETY: the next layer's function, for its instance.
        let enumerate = unsafe { find(instance, ENUMERATE.as_ptr()) };
        let mut instances = INSTANCES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        instances.insert(super::key(instance), Instance { instance, find, enumerate });
    }
    result
}

/// Creates a device of the next layer, and remembers it. `key` is the dispatch key of `physical`.
///
/// # Safety
/// For the loader's arguments.
pub unsafe fn create_device(
    key: usize,
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'static>,
    allocator: *const vk::AllocationCallbacks<'static>,
    made: *mut vk::Device,
) -> vk::Result {
    // SAFETY: the loader's chain.
    let link = unsafe { link::<DeviceLink>((*info).p_next, vk::StructureType::LOADER_DEVICE_CREATE_INFO) };
    let Some(link) = link else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    // SAFETY: the loader's link, which the next layer expects to be advanced.
    let (find_instance, find) = unsafe {
        let found = ((*(*link).link).get_instance_proc_addr, (*(*link).link).get_device_proc_addr);
        (*link).link = (*(*link).link).next;
        found
    };
    let instances = INSTANCES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let instance = instances.get(&key).map_or(vk::Instance::null(), |instance| instance.instance);
    drop(instances);
    // SAFETY: the next layer's function, for its instance.
    let Some(create) = (unsafe { find_instance(instance, c"vkCreateDevice".as_ptr()) }) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: the type of the function with this name.
    let create = unsafe { std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkCreateDevice>(create) };
    // SAFETY: the loader's arguments.
    let result = unsafe { create(physical, info, allocator, made) };
    if result == vk::Result::SUCCESS {
        // SAFETY: it was created.
        let device = unsafe { *made };
        let mut devices = DEVICES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        devices.insert(super::key(device), (device, find));
    }
    result
}
