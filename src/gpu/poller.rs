//! The thread that waits for a device: callbacks of wgpu are called by whoever does.
//!
//! All waits are without a time limit: wgpu 30.0 panics when one ends early while another thread finds that everything is
//! done. Whoever wants to wait for a while only waits for what a callback sends.

use super::device::guarded;
use super::loss::Loss;
use crate::error::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// A handle to the thread, which ends when the handle is dropped and it has waited for everything.
pub struct Poller(Sender<wgpu::SubmissionIndex>);

impl Poller {
    /// Starts the thread.
    ///
    /// # Errors
    /// An `OperationError` when it cannot be started.
    pub fn start(device: &wgpu::Device, loss: &Arc<Loss>) -> Result<Poller> {
        let (send, receive) = channel();
        let (device, loss) = (device.clone(), loss.clone());
        let serve = move || {
            for submission in receive {
                wait_for(&device, &loss, Some(submission));
            }
        };
        let thread = std::thread::Builder::new().name("webnn-gpu".into()).spawn(serve);
        let failed = |error| Error::new(ErrorKind::Operation, format!("a thread for the GPU did not start: {error}"));
        thread.map_err(failed)?;
        Ok(Poller(send))
    }

    /// Waits for `submission` in the background: its callbacks are called, and memory that it used last is given back.
    pub fn follow(&self, submission: wgpu::SubmissionIndex) {
        self.0.send(submission).expect("the thread listens as long as it can be told");
    }
}

/// Waits until `submission`, or all that there are, is done, or the device is lost.
pub fn wait_for(device: &wgpu::Device, loss: &Loss, submission: Option<wgpu::SubmissionIndex>) {
    let wait = wgpu::PollType::Wait { submission_index: submission, timeout: None };
    // wgpu panics when a device is lost meanwhile; a lost device has nothing to wait for.
    if guarded(|| drop(device.poll(wait))).is_err() {
        loss.tell("its driver failed");
    }
}
