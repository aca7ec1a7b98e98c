//! Ends imports and the work of operators on the host before they are done: their caller may not want them any more.

use super::error::{ModelError, Result};
use crate::error::Code;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of elements to go through between two looks at a [`Stop`]: some milliseconds at most.
pub const ELEMENTS_BETWEEN: usize = 1 << 20;

/// Whether work should end. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends the work at its next look.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work should end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// If the work should end.
    pub fn check(&self) -> Result<()> {
        match self.is_set() {
            true => Err(ModelError::coded(Code::Destroyed, "the model is destroyed")),
            false => Ok(()),
        }
    }
}
