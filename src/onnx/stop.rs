//! Ends imports and the work of operators on the host before they are done: their caller may not want them any more.

use super::error::{ModelError, Result};
use crate::error::Code;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Number of elements to go through between two looks at a [`Stop`]: some milliseconds at most.
pub const ELEMENTS_BETWEEN: usize = 1 << 20;

/// How long work may go on after [`Stop::soon`]: what is almost done gives its results.
const GRACE: Duration = Duration::from_millis(50);

/// Whether work should end. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<OnceLock<Instant>>);

impl Stop {
    /// Ends the work at its next look.
    pub fn now(&self) {
        self.0.get_or_init(Instant::now);
    }

    /// Ends the work at its first look after a short while.
    pub fn soon(&self) {
        self.0.get_or_init(|| Instant::now() + GRACE);
    }

    /// Whether the work should end, now or soon.
    pub fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// # Errors
    /// If the work should end.
    pub fn check(&self) -> Result<()> {
        match self.0.get() {
            Some(end) if Instant::now() >= *end => Err(ModelError::coded(Code::Destroyed, "the model is destroyed")),
            _ => Ok(()),
        }
    }
}
