//! The thread that waits for a device: wgpu calls callbacks on a waiting thread.
//!
//! wgpu 30.0 panics if a wait with a time limit ends early while another thread finds that everything is done. So only
//! this thread waits in the driver, [watched](super::watch) and for one submission after the other; others wait for it.

use super::loss::Loss;
use super::watch::guarded;
use crate::error::{Error, ErrorKind, Result};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The number of a submission: 1 for a device's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Submission(u64);

/// A submission in flight.
struct Followed {
    number: u64,
    index: wgpu::SubmissionIndex,
    /// How long it may take from the end of the one before.
    allowed: Duration,
}

/// The number of the last submission that is done.
#[derive(Default)]
struct Progress {
    done: Mutex<u64>,
    changed: Condvar,
}

/// A handle to the thread. Dropping it ends the thread once all submissions are done.
pub struct Poller {
    send: Sender<Followed>,
    progress: Arc<Progress>,
    loss: Arc<Loss>,
}

/// How often a waiting thread checks whether the device is lost.
const LOOK: Duration = Duration::from_millis(50);

impl Poller {
    /// Starts the thread.
    ///
    /// # Errors
    /// An `OperationError` if the thread cannot be started.
    pub fn start(device: &wgpu::Device, loss: &Arc<Loss>) -> Result<Poller> {
        let (send, receive) = channel::<Followed>();
        let (device, progress) = (device.clone(), Arc::<Progress>::default());
        let (made, losing) = (progress.clone(), loss.clone());
        let serve = move || {
            for Followed { number, index, allowed } in receive {
                let wait = wgpu::PollType::Wait { submission_index: Some(index), timeout: None };
                // wgpu panics if a device is lost during the wait; on a lost device there is nothing to wait for.
                if guarded(&losing, "a submission", allowed, || drop(device.poll(wait))).is_err() {
                    losing.tell("its driver failed");
                }
                *made.done.lock().unwrap_or_else(PoisonError::into_inner) = number;
                made.changed.notify_all();
            }
        };
        let thread = std::thread::Builder::new().name("webnn-gpu".into()).spawn(serve);
        let failed = |error| Error::new(ErrorKind::Operation, format!("a thread for the GPU did not start: {error}"));
        thread.map_err(failed)?;
        Ok(Poller { send, progress, loss: loss.clone() })
    }

    /// Waits for the submission with this number in the background, which calls its callbacks and frees memory that it
    /// was the last to use. To be called in the order of the submissions.
    pub fn follow(&self, number: u64, index: wgpu::SubmissionIndex, allowed: Duration) -> Submission {
        self.send.send(Followed { number, index, allowed }).expect("the thread receives until the sender is dropped");
        Submission(number)
    }

    /// Waits until `submission` is done or the device is lost.
    pub fn wait(&self, submission: Submission) {
        let mut done = self.progress.done.lock().unwrap_or_else(PoisonError::into_inner);
        while *done < submission.0 && self.loss.lost().is_none() {
            (done, _) = self.progress.changed.wait_timeout(done, LOOK).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
