//! Work on threads of the process that belongs to no context.

use crate::cpu::schedule::line::{FEW, Line};
use crate::error::{Error, ErrorKind, Result, panic_text};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Converts a panic to an OperationError.
pub fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic_text(panic).unwrap_or("panic without a message");
    Error::new(ErrorKind::Operation, format!("internal error: {text}"))
}

/// Runs `work` on a background thread of the process, in the order of the calls as far as threads are free, and passes
/// its result to `then`: an OperationError if it panics or no thread can be started.
pub fn spawn<T>(work: impl FnOnce() -> Result<T> + Send + 'static, then: impl FnOnce(Result<T>) + Send + 'static) {
    static LINE: Line = Line::new("webnn-loader", || FEW);
    LINE.push(Box::new(move |started| {
        let refused = |error| Error::new(ErrorKind::Operation, format!("no thread could be started: {error}"));
        let run = || catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(&*panic)));
        then(started.map_err(refused).and_then(|()| run()));
    }));
}
