//! A GPU: its features, its memory, its queue.

use super::adapter::{Choice, Limits, adapter};
use super::arena::SharedArena;
use super::bindings::BoundSets;
use super::constants::Resident;
use super::dialect::Dialect;
use super::exit::{opening, wait_at_exit};
use super::features::{dialect_of, experiments};
use super::loss::Loss;
use super::pipelines::Pipelines;
use super::poller::Poller;
use super::steps::product::self_test;
use super::transfer::{Traffic, Transfer};
use super::verdicts::Fault;
use super::watch::{self, LONG, patience};
use crate::error::{Error, ErrorKind, Result, amount};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// A device and its properties.
pub struct Device {
    /// The device itself.
    pub device: wgpu::Device,
    /// The queue for submissions.
    pub queue: wgpu::Queue,
    /// The adapter of the device.
    pub info: wgpu::AdapterInfo,
    /// The extensions that its shaders may use.
    pub dialect: Dialect,
    /// The limits.
    pub limits: wgpu::Limits,
    /// Why it does not use its matrix units, if it has any.
    pub unused: Option<Fault>,
    /// Records whether the device was lost.
    pub loss: Arc<Loss>,
    pub(super) pipelines: Pipelines,
    pub(super) transfer: Mutex<Transfer>,
    pub(super) traffic: Traffic,
    pub(super) poller: Poller,
    /// Bind groups of plans, which must not outlive the tensors in them.
    pub(super) bound: Mutex<Vec<Weak<BoundSets>>>,
    pub(super) resident: Mutex<Resident>,
    pub(super) arena: Mutex<SharedArena>,
    /// Whether the driver's device is no other `Device`'s.
    is_owner: bool,
    /// Whether it was lost by [`destroy`](Self::destroy).
    pub(super) is_destroyed: AtomicBool,
    /// Changes the texts of kernels, by name, as a driver that computes wrong results would.
    #[cfg(test)]
    pub sabotage: Option<fn(&str, &str) -> Option<String>>,
}

/// Bytes of immediates (push constants) of every kernel.
pub const IMMEDIATES: u32 = 12;

/// Features that a device enables where available.
pub const EXTENSIONS: wgpu::Features = wgpu::Features::SHADER_F16
    .union(wgpu::Features::SHADER_INT64)
    .union(wgpu::Features::SUBGROUP)
    .union(wgpu::Features::PIPELINE_CACHE)
    .union(wgpu::Features::TIMESTAMP_QUERY)
    .union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS)
    .union(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX);

/// The driver's devices that nothing uses, at most one of each adapter, set of features and limits. They stay open until the
/// process ends: on an H100, NVIDIA's driver corrupted memory when the only device was closed. The next context gets one
/// at once.
static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

struct Idle {
    device: wgpu::Device,
    queue: wgpu::Queue,
    info: wgpu::AdapterInfo,
    /// Also tells of losses since it became idle.
    loss: Arc<Loss>,
}

impl Idle {
    fn is_of(&self, info: &wgpu::AdapterInfo, features: wgpu::Features, limits: &wgpu::Limits) -> bool {
        self.info == *info && self.device.features() == features && self.device.limits() == *limits
    }

    /// Takes the device of this adapter with these features and limits.
    fn take(info: &wgpu::AdapterInfo, features: wgpu::Features, limits: &wgpu::Limits) -> Option<Idle> {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        for lost in idle.extract_if(.., |one| one.loss.reason().is_some()) {
            abandon(&lost.device, &lost.info);
        }
        let index = idle.iter().position(|one| one.is_of(info, features, limits))?;
        Some(idle.swap_remove(index))
    }

    /// Keeps the device, unless there is another like it.
    fn keep(self) {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        if !idle.iter().any(|one| one.is_of(&self.info, self.device.features(), &self.device.limits())) {
            idle.push(self);
        }
    }
}

impl Device {
    /// Opens the best adapter, with those of `extensions` that it supports; `None` without an adapter.
    ///
    /// # Errors
    /// An `OperationError` if the adapter provides no device, a NotSupportedError for an invalid value of an
    /// environment variable.
    pub fn open(choice: Choice, extensions: wgpu::Features, limits: Limits) -> Result<Option<Device>> {
        let Some(adapter) = adapter(&choice)? else { return Ok(None) };
        let loss = Arc::new(Loss::new(patience(is_software(&adapter.get_info()))?));
        Device::of(&adapter, extensions, limits, loss).map(Some)
    }

    /// Opens `adapter`. `loss` is told if its driver does not answer.
    pub(super) fn of(
        adapter: &wgpu::Adapter,
        extensions: wgpu::Features,
        limits: Limits,
        loss: Arc<Loss>,
    ) -> Result<Device> {
        watch::start()?;
        let available = adapter.features();
        let features = wgpu::Features::IMMEDIATES | (available & extensions);
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("webnn-node"),
            required_features: features,
            required_limits: limits.of(adapter),
            experimental_features: experiments(features),
            ..Default::default()
        };
        let info = adapter.get_info();
        let opening = opening()?;
        let (device, queue) = match Idle::take(&info, features, &descriptor.required_limits) {
            Some(Idle { device, queue, .. }) => (device, queue),
            None => {
                let open = || wait(adapter.request_device(&descriptor));
                let opened = watch::guarded(&loss, "opening a device", LONG * loss.patience(), open)?;
                opened.map_err(|error| {
                    Error::new(ErrorKind::Operation, format!("{} provides no device: {error}", info.name))
                })?
            }
        };
        wait_at_exit();
        drop(opening);
        let dialect = dialect_of(adapter, features, &descriptor.required_limits);
        record_losses(&device, &loss);
        let mut device = Device::with(device, queue, info, dialect, loss)?;
        if device.dialect.cooperative.is_some() {
            match self_test::fault(&device) {
                Ok(None) => {}
                Ok(fault) => (device.unused, device.dialect.cooperative) = (fault, None),
                // The test may be what has lost it.
                Err(error) if device.loss.lost().is_some() && !device.loss.hangs() => {
                    let loss = Arc::new(Loss::new(device.loss.patience()));
                    let others = extensions - wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
                    let mut device = Device::of(adapter, others, limits, loss)?;
                    device.unused = Some(Fault { family: self_test::FAMILY.to_string(), problem: error.message });
                    return Ok(device);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(device)
    }

    fn with(
        device: wgpu::Device,
        queue: wgpu::Queue,
        info: wgpu::AdapterInfo,
        dialect: Dialect,
        loss: Arc<Loss>,
    ) -> Result<Device> {
        let pipelines =
            watch::guarded(&loss, "reading compiled kernels", loss.patience(), || Pipelines::new(&device, &info))?;
        Ok(Device {
            pipelines,
            transfer: Mutex::new(Transfer::new(&device)),
            traffic: Traffic::default(),
            poller: Poller::start(&device, &loss)?,
            bound: Mutex::default(),
            resident: Mutex::default(),
            arena: Mutex::default(),
            limits: device.limits(),
            info,
            device,
            queue,
            dialect,
            loss,
            is_owner: true,
            is_destroyed: AtomicBool::new(false),
            unused: None,
            #[cfg(test)]
            sabotage: None,
        })
    }

    /// The same device with shaders in another dialect.
    ///
    /// # Errors
    /// An `OperationError` if a thread cannot be started.
    pub fn with_dialect(&self, dialect: Dialect) -> Result<Device> {
        let (device, queue) = (self.device.clone(), self.queue.clone());
        let mut other = Device::with(device, queue, self.info.clone(), dialect, self.loss.clone())?;
        other.is_owner = false;
        #[cfg(test)]
        (other.sabotage = self.sabotage);
        Ok(other)
    }

    /// Names of the adapter and of its graphics API.
    pub fn name(&self) -> String {
        format!("{} ({})", self.info.name, self.info.backend)
    }

    /// What it does not use because it computes wrong results, for people.
    pub fn remark(&self) -> Option<String> {
        let text = |Fault { family, problem }: &Fault| format!("{family} are not used: {problem}");
        self.unused.as_ref().map(text)
    }

    /// Whether the device is a CPU.
    pub fn is_software(&self) -> bool {
        is_software(&self.info)
    }

    /// Maximum size of a tensor in bytes: one byte below a whole number of elements, as the CPU's, so that the next
    /// size of each type is above it.
    pub fn max_tensor_bytes(&self) -> u64 {
        // Buffer sizes are rounded up to 8 bytes.
        self.limits.max_buffer_size / 8 * 8 - 1
    }

    /// Runs `work`, which calls the driver, [watched](watch::guarded); `what` it does is for people.
    ///
    /// # Errors
    /// An `OperationError` for a panic.
    pub(super) fn guarded<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> Result<T> {
        watch::guarded(&self.loss, what, self.loss.patience(), work)
    }

    /// Runs `work` in error scopes, [watched](watch::guarded), and returns its result. Every call that may fail belongs
    /// here: its error then reaches whoever asked for it.
    ///
    /// # Errors
    /// An `UnknownError` if memory ran out, an `OperationError` for any other error, including the loss of the device.
    pub fn scoped<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        self.scoped_for("a call", 1, work)
    }

    /// Like [`scoped`](Self::scoped), for `what`, which may take `times` as long as other calls.
    ///
    /// # Errors
    /// Same as [`scoped`](Self::scoped).
    pub fn scoped_for<T>(&self, what: &'static str, times: u32, work: impl FnOnce() -> T) -> Result<T> {
        let filters = [wgpu::ErrorFilter::Internal, wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::OutOfMemory];
        let scopes = filters.map(|filter| self.device.push_error_scope(filter));
        let result = watch::guarded(&self.loss, what, self.loss.patience() * times, work);
        // Innermost first.
        let mut error = None;
        for scope in scopes.into_iter().rev() {
            error = error.or(wait(scope.pop()));
        }
        self.check()?;
        match error {
            Some(wgpu::Error::OutOfMemory { .. }) => Err(Error::new(ErrorKind::Unknown, "the GPU is out of memory")),
            Some(error) => Err(Error::new(ErrorKind::Operation, error.to_string())),
            None => result,
        }
    }

    /// # Errors
    /// An `OperationError` if the device is lost.
    pub fn check(&self) -> Result<()> {
        let lost = |reason| Err(Error::new(ErrorKind::Operation, format!("the GPU was lost: {reason}")));
        self.loss.reason().map_or(Ok(()), lost)
    }

    /// Allocates a zeroed buffer for tensors, of at least `bytes` bytes.
    ///
    /// # Errors
    /// An `UnknownError` if device memory runs out or `bytes` is above the size limit.
    pub fn buffer(&self, label: &str, bytes: usize) -> Result<wgpu::Buffer> {
        let size = bytes.next_multiple_of(8).max(8) as u64;
        let refused = |why: &dyn std::fmt::Display| {
            Error::new(
                ErrorKind::Unknown,
                format!("no memory for {} ({label}) on the GPU: {why}", amount(bytes, "byte")),
            )
        };
        if size > self.limits.max_buffer_size {
            return Err(refused(&format!("its buffers have at most {}", amount(self.limits.max_buffer_size, "byte"))));
        }
        let create = || {
            self.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(label),
                size,
                usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        self.scoped_for("allocating memory", 1, create).map_err(|error| match error.kind {
            ErrorKind::Unknown => refused(&error),
            _ => error,
        })
    }

    /// Allocates a buffer with the contents `bytes`.
    ///
    /// # Errors
    /// Same as [`buffer`](Self::buffer).
    pub fn buffer_of(&self, label: &str, bytes: &[u8]) -> Result<wgpu::Buffer> {
        let buffer = self.buffer(label, bytes.len())?;
        self.write(&buffer, 0, bytes)?;
        Ok(buffer)
    }

    /// Loses the device, as a failing driver would.
    pub fn destroy(&self) {
        // Before the device is destroyed: failures that follow are then attributed to the loss.
        self.is_destroyed.store(true, Ordering::Release);
        self.loss.tell("it was destroyed");
        self.destroy_between_writes();
        _ = self.guarded("destroying the device", || drop(self.device.poll(wgpu::PollType::Poll)));
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.loss.lost().is_some() {
            return abandon(&self.device, &self.info);
        }
        self.save_pipelines();
        if self.is_owner {
            let (device, queue, info) = (self.device.clone(), self.queue.clone(), self.info.clone());
            Idle { device, queue, info, loss: self.loss.clone() }.keep();
        }
    }
}

/// Gives up a lost device. NVIDIA's driver crashed in five of six processes that closed one, so that it stays open
/// there; what was allocated on it is freed.
fn abandon(device: &wgpu::Device, info: &wgpu::AdapterInfo) {
    const NVIDIA: u32 = 0x10de;
    if info.vendor == NVIDIA && info.backend == wgpu::Backend::Vulkan {
        std::mem::forget(device.clone());
    }
}

/// Whether an adapter is a CPU.
pub(super) fn is_software(info: &wgpu::AdapterInfo) -> bool {
    info.device_type == wgpu::DeviceType::Cpu
}

/// Records the loss of `device`. An error that no call can be blamed for counts as one: what it has left undone is
/// unknown.
fn record_losses(device: &wgpu::Device, loss: &Arc<Loss>) {
    let told = loss.clone();
    device.set_device_lost_callback(move |reason, message| match message.as_str() {
        "" => told.tell(&format!("{reason:?}")),
        message => told.tell(message),
    });
    let told = loss.clone();
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| told.tell(&error.to_string())));
}

/// Runs `future` to completion on this thread.
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
