//! A GPU: its features, its memory, its queue.

use super::adapter::{Choice, Limits, adapter};
use super::arena::SharedArena;
use super::bindings::BoundSets;
use super::constants::Resident;
use super::dialect::Dialect;
use super::exit::{enter, wait_at_exit};
use super::features::{dialect_of, experiments};
use super::loss::Loss;
use super::pipelines::Pipelines;
use super::poller::{Poller, wait_for};
use super::steps::product::self_test;
use super::transfer::{Traffic, Transfer};
use crate::error::{Error, ErrorKind, Result, amount, panic_text};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
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
    /// An error that was reported outside of any error scope.
    fault: Arc<Mutex<Option<String>>>,
    /// Whether the driver's device is no other `Device`'s.
    is_owner: bool,
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

/// The devices in use by contexts.
static OPEN: Mutex<Vec<Weak<Device>>> = Mutex::new(Vec::new());

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
        idle.retain(|one| one.loss.reason().is_none());
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
    /// Returns the device for `choice`, shared by all contexts on the same adapter; `None` without an adapter.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub fn shared(choice: &Choice) -> Result<Option<Arc<Device>>> {
        // Held while opening, to keep other threads from opening a second device.
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(adapter) = adapter(choice)? else { return Ok(None) };
        open.retain(|device| device.strong_count() > 0);
        let info = adapter.get_info();
        let found =
            open.iter().filter_map(Weak::upgrade).find(|device| device.info == info && device.loss.reason().is_none());
        if let Some(device) = found {
            return Ok(Some(device));
        }
        let device = Arc::new(Device::of(adapter, EXTENSIONS, Limits::chosen()?)?);
        open.push(Arc::downgrade(&device));
        Ok(Some(device))
    }

    /// Opens the best adapter, with those of `extensions` that it supports; `None` without an adapter.
    ///
    /// # Errors
    /// An `OperationError` if the adapter provides no device, a NotSupportedError for an invalid value of an
    /// environment variable.
    pub fn open(choice: Choice, extensions: wgpu::Features, limits: Limits) -> Result<Option<Device>> {
        adapter(&choice)?.map(|adapter| Device::of(adapter, extensions, limits)).transpose()
    }

    fn of(adapter: &wgpu::Adapter, extensions: wgpu::Features, limits: Limits) -> Result<Device> {
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
        let inside = enter();
        let (device, queue) = match Idle::take(&info, features, &descriptor.required_limits) {
            Some(Idle { device, queue, .. }) => (device, queue),
            None => wait(adapter.request_device(&descriptor)).map_err(|error| {
                Error::new(ErrorKind::Operation, format!("{} provides no device: {error}", info.name))
            })?,
        };
        wait_at_exit();
        drop(inside);
        let dialect = dialect_of(adapter, features, &descriptor.required_limits);
        let (loss, fault) = (Arc::new(Loss::default()), Arc::new(Mutex::new(None)));
        watch(&device, &loss, &fault);
        let mut device = Device::with(device, queue, info, dialect, loss, fault)?;
        if device.dialect.cooperative.is_some() && !self_test::trusted(&device) {
            if device.loss.reason().is_some() {
                return Device::of(adapter, extensions - wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX, limits);
            }
            device.dialect.cooperative = None;
        }
        Ok(device)
    }

    fn with(
        device: wgpu::Device,
        queue: wgpu::Queue,
        info: wgpu::AdapterInfo,
        dialect: Dialect,
        loss: Arc<Loss>,
        fault: Arc<Mutex<Option<String>>>,
    ) -> Result<Device> {
        Ok(Device {
            pipelines: Pipelines::new(&device, &info),
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
            fault,
            is_owner: true,
        })
    }

    /// The same device with shaders in another dialect.
    ///
    /// # Errors
    /// An `OperationError` if a thread cannot be started.
    pub fn with_dialect(&self, dialect: Dialect) -> Result<Device> {
        let (device, queue) = (self.device.clone(), self.queue.clone());
        let fault = self.fault.clone();
        let mut other = Device::with(device, queue, self.info.clone(), dialect, self.loss.clone(), fault)?;
        other.is_owner = false;
        Ok(other)
    }

    /// Names of the adapter and of its graphics API.
    pub fn name(&self) -> String {
        format!("{} ({})", self.info.name, self.info.backend)
    }

    /// Whether the device is a CPU.
    pub fn is_software(&self) -> bool {
        self.info.device_type == wgpu::DeviceType::Cpu
    }

    /// Maximum size of a tensor in bytes.
    pub fn max_tensor_bytes(&self) -> u64 {
        // Buffer sizes are rounded up to 8 bytes.
        self.limits.max_buffer_size / 8 * 8
    }

    /// Runs `work` in error scopes and returns its result.
    ///
    /// # Errors
    /// An `UnknownError` if memory ran out, an `OperationError` for any other error, including the loss of the device.
    pub fn scoped<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        let filters = [wgpu::ErrorFilter::Internal, wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::OutOfMemory];
        let scopes = filters.map(|filter| self.device.push_error_scope(filter));
        let result = guarded(work);
        // Innermost first.
        let mut error = None;
        for scope in scopes.into_iter().rev() {
            error = error.or(wait(scope.pop()));
        }
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.check()?;
        match (error, fault) {
            (Some(wgpu::Error::OutOfMemory { .. }), _) => {
                Err(Error::new(ErrorKind::Unknown, "the GPU is out of memory"))
            }
            (Some(error), _) => Err(Error::new(ErrorKind::Operation, error.to_string())),
            (None, Some(fault)) => Err(Error::new(ErrorKind::Operation, fault)),
            (None, None) => result,
        }
    }

    /// Waits for `submission` to finish.
    ///
    /// # Errors
    /// An `OperationError` if the device is lost.
    pub fn finish(&self, submission: wgpu::SubmissionIndex) -> Result<()> {
        wait_for(&self.device, &self.loss, Some(submission));
        self.check()
    }

    /// Waits until all submissions have finished or the device is lost.
    pub fn finish_all(&self) {
        wait_for(&self.device, &self.loss, None);
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
        self.scoped(create).map_err(|error| match error.kind {
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
        self.loss.tell("it was destroyed");
        self.destroy_between_writes();
        // wgpu panics where it has no other way to fail; the device is lost in any case.
        drop(guarded(|| drop(self.device.poll(wgpu::PollType::Poll))));
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.pipelines.save(&self.info);
        if self.is_owner && self.loss.reason().is_none() {
            // Memory that only the last submission uses is freed when somebody waits for it.
            let last = self.transfer.get_mut().unwrap_or_else(PoisonError::into_inner).last();
            last.into_iter().for_each(|submission| self.poller.follow(submission));
            let (device, queue, info) = (self.device.clone(), self.queue.clone(), self.info.clone());
            Idle { device, queue, info, loss: self.loss.clone() }.keep();
        }
    }
}

/// Records the loss of `device`, and errors outside of error scopes.
fn watch(device: &wgpu::Device, loss: &Arc<Loss>, fault: &Arc<Mutex<Option<String>>>) {
    let told = loss.clone();
    device.set_device_lost_callback(move |reason, message| match message.as_str() {
        "" => told.tell(&format!("{reason:?}")),
        message => told.tell(message),
    });
    let fault = fault.clone();
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        *fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
    }));
}

/// Runs `work`, which may call the driver; turns a panic, by which wgpu reports errors where it has no other way to
/// fail, into an `OperationError`.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T> {
    let _inside = enter();
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic_text(&*panic).unwrap_or("for an unknown reason");
        Error::new(ErrorKind::Operation, format!("the GPU failed: {text}"))
    })
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
