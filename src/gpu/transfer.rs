//! Transfers to and from the device: a ring of staging buffers for writes, a pool of them for reads.

use super::device::Device;
use super::poller::Submission;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Buffer;
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;
use wgpu::util::StagingBelt;

/// Bytes per buffer of the ring, for small writes.
const CHUNK: u64 = 1 << 20;

/// Maximum number of bytes per copy command.
const PIECE: usize = 8 << 20;

/// Maximum number of bytes, and of writes, that wait for the next submission: unused writes must not pile up.
const MAX_WAITING: (usize, usize) = (32 << 20, 64);

/// Maximum number of submissions in flight: enough to keep the device busy, and few enough to finish soon when a
/// context ends. Above the limit, submitters wait instead of filling the memory.
const MAX_IN_FLIGHT: usize = 4;

/// Maximum number of read buffers to keep, and maximum size of each in bytes.
const MAX_KEPT: (usize, u64) = (8, 8 << 20);

/// Transfers in progress.
pub(super) struct Transfer {
    belt: StagingBelt,
    /// Copies from the belt that are not submitted yet, of any context.
    writes: Option<wgpu::CommandEncoder>,
    waiting: (usize, usize),
    /// Number of bytes requested from the belt since its creation.
    staged: usize,
    /// Number of submissions so far.
    submissions: u64,
    in_flight: VecDeque<Submission>,
    /// Unused read buffers.
    kept: Vec<wgpu::Buffer>,
}

impl Transfer {
    pub(super) fn new(device: &wgpu::Device) -> Transfer {
        Transfer {
            belt: StagingBelt::new(device.clone(), CHUNK),
            writes: None,
            waiting: (0, 0),
            staged: 0,
            submissions: 0,
            in_flight: VecDeque::new(),
            kept: Vec::new(),
        }
    }

    /// Copies `bytes` to the belt, and records their copy from there. Fails before anything is recorded: the recorded
    /// writes of others do not depend on it.
    fn write(&mut self, device: &wgpu::Device, buffer: &wgpu::Buffer, offset: u64, bytes: &[u8]) -> Result<()> {
        let size = bytes.len().next_multiple_of(4);
        let Some(length) = NonZeroU64::new(size as u64) else { return Ok(()) };
        let staging = self.belt.allocate(length, const { NonZeroU64::new(wgpu::COPY_BUFFER_ALIGNMENT).unwrap() });
        let refused = |error| Error::new(ErrorKind::Operation, format!("memory to write from is not mapped: {error}"));
        let mut view = staging.get_mapped_range_mut().map_err(refused)?;
        let whole = bytes.len() / 4 * 4;
        view.slice(..whole).copy_from_slice(&bytes[..whole]);
        if whole < size {
            // Copies consist of whole words.
            let mut word = [0; 4];
            word[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            view.slice(whole..).copy_from_slice(&word);
        }
        drop(view);
        let encoder = self.writes.get_or_insert_with(|| device.create_command_encoder(&Default::default()));
        encoder.copy_buffer_to_buffer(staging.buffer(), staging.offset(), buffer, offset, length.get());
        self.waiting = (self.waiting.0 + size, self.waiting.1 + 1);
        self.staged += size;
        Ok(())
    }

    /// Begins another belt: one that has failed to allocate a buffer keeps it as if it were usable.
    fn renew(&mut self, device: &wgpu::Device) {
        // The recorded writes read buffers of the old one.
        self.belt.finish();
        self.belt = StagingBelt::new(device.clone(), CHUNK);
        self.staged = 0;
    }

    /// Submits pending writes, then `commands`, which may take `allowed`.
    fn submit(&mut self, device: &Device, commands: Option<wgpu::CommandBuffer>, allowed: Duration) -> Submission {
        self.belt.finish();
        let writes = self.writes.take().map(wgpu::CommandEncoder::finish);
        let index = device.queue.submit(writes.into_iter().chain(commands));
        self.belt.recall();
        self.waiting = (0, 0);
        self.submissions += 1;
        let submission = device.poller.follow(self.submissions, index, allowed);
        self.in_flight.push_back(submission);
        submission
    }
}

/// Bytes that have been copied to a device and back.
#[derive(Default)]
pub struct Traffic {
    up: AtomicU64,
    down: AtomicU64,
}

impl Device {
    /// Bytes copied to the device, and from it, since it was opened.
    pub fn traffic(&self) -> [u64; 2] {
        [&self.traffic.up, &self.traffic.down].map(|bytes| bytes.load(Ordering::Relaxed))
    }

    fn transfer(&self) -> MutexGuard<'_, Transfer> {
        self.transfer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes `bytes` to `buffer` from `offset` on (in bytes, a multiple of 4), ordered before all later submissions.
    /// The buffer must extend to the end of the last four-byte word.
    ///
    /// # Errors
    /// An `UnknownError` if memory for the copy runs out, an `OperationError` if the device fails.
    pub fn write(&self, buffer: &wgpu::Buffer, offset: usize, bytes: &[u8]) -> Result<()> {
        for (index, piece) in bytes.chunks(PIECE).enumerate() {
            self.write_piece(buffer, offset + index * PIECE, piece)?;
        }
        Ok(())
    }

    fn write_piece(&self, buffer: &wgpu::Buffer, offset: usize, bytes: &[u8]) -> Result<()> {
        // Also watches the wait for the lock: its holder may be stuck.
        let full = self.guarded("a write", || {
            let transfer = &mut *self.transfer();
            // The ring panics if its buffers are gone.
            self.check()?;
            let written = self.scoped(|| transfer.write(&self.device, buffer, offset as u64, bytes));
            if let Err(error) = written.and_then(|written| written) {
                // It fails for the same buffer again, which says nothing new.
                _ = self.scoped(|| transfer.renew(&self.device));
                return Err(error);
            }
            self.traffic.up.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            Ok(transfer.waiting.0 >= MAX_WAITING.0 || transfer.waiting.1 >= MAX_WAITING.1)
        })??;
        if full {
            // Large writes would otherwise accumulate in staging memory.
            let submission = self.submit(None)?;
            if bytes.len() > CHUNK as usize {
                self.finish(submission)?;
            }
        }
        Ok(())
    }

    /// Submits `commands`, of ordinary size, after all pending writes. Waits if too much is in flight.
    ///
    /// # Errors
    /// An `OperationError` if the commands are rejected or the device is lost.
    pub fn submit(&self, commands: Option<wgpu::CommandBuffer>) -> Result<Submission> {
        self.submit_times(commands, 1)
    }

    /// Like [`submit`](Self::submit), for commands that may take `times` as long as a driver may take for ordinary ones.
    ///
    /// # Errors
    /// Same as [`submit`](Self::submit).
    pub fn submit_times(&self, commands: Option<wgpu::CommandBuffer>, times: u32) -> Result<Submission> {
        let allowed = self.loss.patience().saturating_mul(times.max(1));
        let (submission, oldest) = self.guarded("passing a submission to the driver", || {
            let transfer = &mut *self.transfer();
            self.check()?;
            let has_writes = transfer.writes.is_some();
            let submission = self.scoped(|| transfer.submit(self, commands, allowed)).inspect_err(|error| {
                if !self.is_destroyed.load(Ordering::Acquire) {
                    // A queue of wgpu 30.0 that could not create a semaphore destroys another one twice when it is dropped.
                    std::mem::forget(self.queue.clone());
                }
                if has_writes {
                    // Those of other contexts, too: nobody else would tell them.
                    self.loss.tell(&format!("its driver refused to write: {error}"));
                }
            })?;
            let is_full = transfer.in_flight.len() > MAX_IN_FLIGHT;
            Ok::<_, Error>((submission, if is_full { transfer.in_flight.pop_front() } else { None }))
        })??;
        if let Some(oldest) = oldest {
            self.finish(oldest)?;
        }
        Ok(submission)
    }

    /// Waits for `submission` to finish.
    ///
    /// # Errors
    /// An `OperationError` if the device is lost.
    pub fn finish(&self, submission: Submission) -> Result<()> {
        self.poller.wait(submission);
        self.check()
    }

    /// Waits until all submissions have finished or the device is lost.
    pub fn finish_all(&self) {
        let last = self.transfer().in_flight.back().copied();
        last.into_iter().for_each(|last| self.poller.wait(last));
    }

    /// Destroys the device at a moment when no write is in progress.
    pub(super) fn destroy_between_writes(&self) {
        // wgpu panics where it has no other way to fail; the device is lost in any case.
        _ = self.guarded("destroying the device", || {
            let _held = self.transfer();
            self.device.destroy();
        });
    }

    /// Frees the staging memory of large writes.
    pub fn trim(&self) {
        let transfer = &mut *self.transfer();
        if transfer.staged > PIECE && transfer.writes.is_none() {
            transfer.belt = StagingBelt::new(self.device.clone(), CHUNK);
            transfer.staged = 0;
        }
    }

    /// Starts to copy the first `bytes` bytes of `buffer`, ordered after all earlier submissions.
    ///
    /// # Errors
    /// An `UnknownError` if memory for the copy runs out, an `OperationError` if the device is lost.
    pub fn read(&self, buffer: &wgpu::Buffer, bytes: usize) -> Result<Reading> {
        self.read_from(buffer, 0, bytes)
    }

    /// Like [`read`](Self::read), from `offset` on (in bytes, a multiple of 4).
    ///
    /// # Errors
    /// Same as [`read`](Self::read).
    pub fn read_from(&self, buffer: &wgpu::Buffer, offset: usize, bytes: usize) -> Result<Reading> {
        let size = bytes.next_multiple_of(4).max(4) as u64;
        let staging = self.staging(size)?;
        self.traffic.down.fetch_add(size, Ordering::Relaxed);
        let (tell, mapped) = channel();
        let commands = self.scoped(|| {
            let mut encoder = self.device.create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(buffer, offset as u64, &staging, 0, size);
            // The receiver may be gone.
            let told = move |result| drop(tell.send(result));
            encoder.map_buffer_on_submit(&staging, wgpu::MapMode::Read, ..size, told);
            encoder.finish()
        })?;
        self.submit(Some(commands))?;
        Ok(Reading { staging, bytes, size, mapped })
    }

    /// Returns a staging buffer for reading `size` bytes.
    fn staging(&self, size: u64) -> Result<wgpu::Buffer> {
        {
            let kept = &mut self.transfer().kept;
            let fits = |(_, buffer): &(usize, &wgpu::Buffer)| buffer.size() >= size;
            let best = kept.iter().enumerate().filter(fits).min_by_key(|(_, buffer)| buffer.size());
            if let Some((index, _)) = best {
                return Ok(kept.swap_remove(index));
            }
        }
        let descriptor = wgpu::BufferDescriptor {
            label: Some("read"),
            size: if size <= MAX_KEPT.1 { size.next_power_of_two().max(256) } else { size },
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        };
        self.scoped(|| self.device.create_buffer(&descriptor))
    }
}

/// A copy of a buffer on its way from the device.
pub struct Reading {
    staging: wgpu::Buffer,
    bytes: usize,
    size: u64,
    mapped: Receiver<std::result::Result<(), wgpu::BufferAsyncError>>,
}

impl Reading {
    /// Returns the bytes if they arrive within `patience`, otherwise `None`.
    ///
    /// # Errors
    /// An `OperationError` if the device is lost, an `UnknownError` if memory for the bytes runs out.
    pub fn poll(&mut self, device: &Device, patience: Duration) -> Result<Option<Buffer>> {
        match self.mapped.recv_timeout(patience) {
            Ok(Ok(())) => self.take(device).map(Some),
            Ok(Err(error)) => device.check().and(Err(failed(error))),
            Err(RecvTimeoutError::Timeout) => device.check().map(|()| None),
            Err(RecvTimeoutError::Disconnected) => device.check().and(Err(failed("the device dropped the request"))),
        }
    }

    /// Waits for the bytes and returns them.
    ///
    /// # Errors
    /// Same as [`poll`](Self::poll).
    pub fn wait(mut self, device: &Device) -> Result<Buffer> {
        loop {
            if let Some(bytes) = self.poll(device, Duration::from_secs(1))? {
                return Ok(bytes);
            }
        }
    }

    fn take(&self, device: &Device) -> Result<Buffer> {
        let bytes = device.scoped(|| {
            let view = self.staging.get_mapped_range(..self.size).map_err(failed)?;
            Buffer::copy_of(&view[..self.bytes])
        })??;
        device.scoped(|| self.staging.unmap())?;
        let mut transfer = device.transfer();
        if transfer.kept.len() < MAX_KEPT.0 && self.staging.size() <= MAX_KEPT.1 {
            transfer.kept.push(self.staging.clone());
        }
        Ok(bytes)
    }
}

fn failed(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Operation, format!("reading from the GPU failed: {what}"))
}
