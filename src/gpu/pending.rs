//! Work that calls drivers before there is a device, on a thread of its own: whoever waits for it goes on if a driver
//! hangs.

use super::loss::{Listener, Loss};
use super::watch;
use crate::error::{Error, ErrorKind, Result, panic_text};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The result of such work, for everybody who waits for it.
pub struct Pending<T> {
    result: Mutex<Option<Result<T>>>,
    changed: Condvar,
}

impl<T: Clone + Send + 'static> Pending<T> {
    /// Starts `work`, whose calls are [watched](watch::guarded) for `loss`.
    ///
    /// # Errors
    /// An `OperationError` if a thread cannot be started.
    pub fn start(
        loss: &Arc<Loss>,
        work: impl FnOnce(Arc<Loss>) -> Result<T> + Send + 'static,
    ) -> Result<Arc<Pending<T>>> {
        watch::start()?;
        let pending = Arc::new(Pending { result: Mutex::new(None), changed: Condvar::new() });
        let (made, loss) = (pending.clone(), loss.clone());
        let run = move || {
            let hanging = made.clone();
            let listener: Arc<Listener> = Arc::new(move |lost| {
                if lost.hangs {
                    hanging.set(Err(Error::new(ErrorKind::Operation, lost.reason.clone())));
                }
            });
            loss.listen(&listener);
            let result = catch_unwind(AssertUnwindSafe(|| work(loss.clone())));
            made.set(result.unwrap_or_else(|panic| {
                let text = panic_text(&*panic).unwrap_or("for an unknown reason");
                Err(Error::new(ErrorKind::Operation, format!("the GPU failed: {text}")))
            }));
        };
        let thread = std::thread::Builder::new().name("webnn-gpu-open".into()).spawn(run);
        let failed = |error| Error::new(ErrorKind::Operation, format!("a thread for the GPU did not start: {error}"));
        thread.map_err(failed)?;
        Ok(pending)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Result<T>>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, result: Result<T>) {
        *self.lock() = Some(result);
        self.changed.notify_all();
    }

    /// Waits for the result, or until a driver hangs.
    ///
    /// # Errors
    /// The error of the work, or an `OperationError` if a driver hangs.
    pub fn wait(&self) -> Result<T> {
        let ended = self.changed.wait_while(self.lock(), |result| result.is_none());
        ended.unwrap_or_else(PoisonError::into_inner).clone().expect("waited for it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn waiting_ends_with_the_work_or_when_a_driver_hangs() {
        let loss = || Arc::new(Loss::new(Duration::from_millis(300)));
        assert_eq!(Pending::start(&loss(), |_| Ok(7)).unwrap().wait(), Ok(7));
        let error = Pending::start(&loss(), |_| -> Result<i32> { panic!("driver") }).unwrap().wait().unwrap_err();
        assert_eq!(error.message, "the GPU failed: driver");
        let (go, held) = channel::<()>();
        let hangs = move |loss: Arc<Loss>| {
            watch::guarded(&loss, "opening a device", loss.patience(), || held.recv().unwrap_err())?;
            Ok(8)
        };
        let pending = Pending::start(&loss(), hangs).unwrap();
        let error = pending.wait().unwrap_err();
        assert_eq!(error.message, "its driver has not answered for 0.3 s (opening a device)");
        // A driver that answers at last is usable.
        drop(go);
        while pending.wait() != Ok(8) {
            std::thread::yield_now();
        }
    }
}
