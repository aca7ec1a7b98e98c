//! The thread that waits for a device: wgpu calls callbacks on a waiting thread.
//!
//! No wait has a time limit: wgpu 30.0 panics if one ends early while another thread finds that everything is done. To
//! wait for a limited time, wait for a message that a callback sends.

use super::device::guarded;
use super::loss::Loss;
use crate::error::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// A handle to the thread. Dropping it ends the thread once all submissions are done.
pub struct Poller(Sender<wgpu::SubmissionIndex>);

impl Poller {
    /// Starts the thread.
    ///
    /// # Errors
    /// An `OperationError` if the thread cannot be started.
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

    /// Waits for `submission` in the background, which calls its callbacks and frees memory that it was the last to
    /// use.
    pub fn follow(&self, submission: wgpu::SubmissionIndex) {
        self.0.send(submission).expect("the thread receives until the sender is dropped");
    }
}

/// Waits until `submission`, or all submissions, are done or the device is lost.
pub fn wait_for(device: &wgpu::Device, loss: &Loss, submission: Option<wgpu::SubmissionIndex>) {
    let wait = wgpu::PollType::Wait { submission_index: submission, timeout: None };
    // wgpu panics if a device is lost during the wait; on a lost device there is nothing to wait for.
    if guarded(|| drop(device.poll(wait))).is_err() {
        loss.tell("its driver failed");
    }
}
