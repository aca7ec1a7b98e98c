//! Warnings, which JavaScript gives to the user.

use super::Result;
use super::convert::from_napi;
use napi::bindgen_prelude::Function;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a warning was given. It holds no function: a reference from here would keep the realm of the function alive.
#[derive(Default)]
pub struct Warned(AtomicBool);

impl Warned {
    /// Passes the message to `function`, if there are both and it is the first.
    ///
    /// # Errors
    /// The exception of the function.
    pub fn once(&self, function: Option<Function<String, ()>>, message: impl FnOnce() -> Option<String>) -> Result<()> {
        let Some(function) = function else { return Ok(()) };
        if self.0.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Some(message) = message() else { return Ok(()) };
        // First: the function may run the same model.
        self.0.store(true, Ordering::Relaxed);
        function.call(message).map_err(from_napi)
    }
}
