//! Warnings, which JavaScript gives to the user.

use super::Result;
use super::convert::from_napi;
use napi::Env;
use napi::bindgen_prelude::{Function, FunctionRef};
use std::sync::{Arc, Mutex, PoisonError};

/// A function that takes one warning; `None` once it has, or if nobody wants it.
pub struct Warn(Mutex<Option<FunctionRef<String, ()>>>);

impl Warn {
    /// Calls `function`, if there is one.
    ///
    /// # Errors
    /// If the environment cannot keep the function.
    pub fn of(function: Option<Function<String, ()>>) -> Result<Arc<Warn>> {
        let kept = function.map(|function| function.create_ref()).transpose().map_err(from_napi)?;
        Ok(Arc::new(Warn(Mutex::new(kept))))
    }

    /// Passes on the message, if there is one and it is the first. Must be called on the JavaScript thread.
    ///
    /// # Errors
    /// The exception of the function.
    pub fn once(&self, env: &Env, message: impl FnOnce() -> Option<String>) -> Result<()> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            return Ok(());
        }
        let Some(message) = message() else { return Ok(()) };
        let function = kept.take();
        // The function may run other models.
        drop(kept);
        match function {
            Some(function) => function.borrow_back(env).and_then(|function| function.call(message)).map_err(from_napi),
            None => Ok(()),
        }
    }
}
