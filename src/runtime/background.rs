//! The background threads of the process.

use crate::error::{Error, ErrorKind, Result, panic_text};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

/// Converts a panic to an OperationError.
pub fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic_text(panic).unwrap_or("panic without a message");
    Error::new(ErrorKind::Operation, format!("internal error: {text}"))
}

/// The runtime of the process, of which only the blocking threads are used. It is never shut down: the process may end
/// at any time, with work pending.
pub fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime>> = OnceLock::new();
    RUNTIME
        .get_or_init(|| {
            Builder::new_current_thread().thread_name("webnn-timelines").build().map_err(|error| {
                Error::new(ErrorKind::Operation, format!("the background runtime did not start: {error}"))
            })
        })
        .as_ref()
        .map_err(Clone::clone)
}

/// Runs `work` on a background thread of the process.
///
/// # Errors
/// An OperationError if no thread is available.
pub fn spawn(work: impl FnOnce() + Send + 'static) -> Result<()> {
    let runtime = runtime()?;
    // A panic here only means that no thread could be started; the work itself runs elsewhere.
    catch_unwind(AssertUnwindSafe(|| drop(runtime.spawn_blocking(work)))).map_err(|panic| panicked(&*panic))
}
