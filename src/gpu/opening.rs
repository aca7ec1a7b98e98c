//! The devices that contexts share: one of each adapter, opened for the first context that needs it.

use super::adapter::{self, Choice, Limits, adapter};
use super::check::check;
use super::device::{Device, EXTENSIONS, is_software};
use super::loss::Loss;
use super::pending::Pending;
use super::watch::{is_stuck, patience};
use crate::error::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// A device that is in use, or about to be.
struct Entry {
    info: wgpu::AdapterInfo,
    loss: Arc<Loss>,
    /// Kept by those who wait for it, and by a thread that hangs in it.
    opening: Weak<Pending<Arc<Device>>>,
    device: Arc<OnceLock<Weak<Device>>>,
}

static ENTRIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

impl Entry {
    fn device(&self) -> Option<Arc<Device>> {
        self.device.get().and_then(Weak::upgrade).filter(|device| !device.loss.is_lost())
    }

    fn is_needed(&self) -> bool {
        self.device().is_some() || self.opening.strong_count() > 0 || is_stuck(&self.loss)
    }

    /// Opens `adapter` in the background.
    fn open(adapter: wgpu::Adapter) -> Result<(Entry, Arc<Pending<Arc<Device>>>)> {
        let info = adapter.get_info();
        let loss = Arc::new(Loss::new(patience(is_software(&info))?));
        let device = Arc::<OnceLock<Weak<Device>>>::default();
        let made = device.clone();
        let opening = Pending::start(&loss, move |loss| {
            let device = Arc::new(Device::of(&adapter, EXTENSIONS, Limits::chosen()?, loss)?);
            check(&device)?;
            made.get_or_init(|| Arc::downgrade(&device));
            Ok(device)
        })?;
        Ok((Entry { info, loss, opening: Arc::downgrade(&opening), device }, opening))
    }
}

impl Device {
    /// Returns the device for `choice`, shared by all contexts on the same adapter; `None` without an adapter.
    ///
    /// # Errors
    /// Same as [`open`](Self::open), and an `OperationError` while the driver hangs in a call.
    pub fn shared(choice: &Choice) -> Result<Option<Arc<Device>>> {
        // Only while looking: opening a device may take long, and other adapters do not depend on it.
        let lock = || ENTRIES.lock().unwrap_or_else(PoisonError::into_inner);
        let has_lost_dx12 = |entry: &Entry| entry.info.backend == wgpu::Backend::Dx12 && entry.loss.lost().is_some();
        if lock().iter().any(has_lost_dx12) {
            // There, an adapter holds the device that was removed, and would open it again.
            adapter::enumerate_again();
        }
        let Some(adapter) = adapter(choice)? else { return Ok(None) };
        let info = adapter.get_info();
        let opening = {
            let mut entries = lock();
            entries.retain(Entry::is_needed);
            let found = entries.iter().find(|entry| entry.info == info);
            if let Some(device) = found.and_then(Entry::device) {
                return Ok(Some(device));
            }
            if let Some(loss) = found.map(|entry| &entry.loss).filter(|loss| is_stuck(loss)) {
                let reason = loss.reason().unwrap_or("its driver does not answer");
                return Err(Error::new(ErrorKind::Operation, format!("{}: {reason}", info.name)));
            }
            match found.and_then(|entry| entry.opening.upgrade()) {
                Some(opening) => opening,
                None => {
                    let (entry, opening) = Entry::open(adapter)?;
                    entries.push(entry);
                    opening
                }
            }
        };
        let named = |error: Error| Error { message: format!("{}: {}", info.name, error.message), ..error };
        opening.wait().map(Some).map_err(named)
    }
}
