//! Ends imports and the work of operators on the host before they are done: their caller may not want them any more.

use super::error::{ModelError, Result};
use crate::error::Code;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Number of elements to go through between two looks at a [`Stop`]: some milliseconds at most.
pub const ELEMENTS_BETWEEN: usize = 1 << 20;

/// How long work may go on after [`Stop::soon`]: what is almost done gives its results.
const GRACE: Duration = Duration::from_millis(50);

/// Whether work should end. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<State>);

#[derive(Debug, Default)]
struct State {
    now: AtomicBool,
    /// The end of the short while.
    soon: OnceLock<Instant>,
}

impl Stop {
    /// Ends the work at its next look, even if it was to end soon.
    pub fn now(&self) {
        self.0.now.store(true, Ordering::Relaxed);
    }

    /// Ends the work at its first look after a short while.
    pub fn soon(&self) {
        self.0.soon.get_or_init(|| Instant::now() + GRACE);
    }

    /// Whether the work should end, now or soon.
    pub fn is_set(&self) -> bool {
        self.is_now() || self.0.soon.get().is_some()
    }

    fn is_now(&self) -> bool {
        self.0.now.load(Ordering::Relaxed)
    }

    /// # Errors
    /// If the work should end.
    pub fn check(&self) -> Result<()> {
        match self.is_now() || self.0.soon.get().is_some_and(|end| Instant::now() >= *end) {
            true => Err(ModelError::coded(Code::Destroyed, "the model is destroyed")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_ends_work_that_was_to_end_soon() {
        let stop = Stop::default();
        assert!(!stop.is_set() && stop.check().is_ok());
        stop.soon();
        assert!(stop.is_set());
        stop.now();
        assert_eq!(stop.check().unwrap_err().code, Code::Destroyed);
        assert!(Stop::default().check().is_ok());
        let ended = Stop::default();
        ended.now();
        ended.soon();
        assert!(ended.clone().check().is_err());
    }
}
