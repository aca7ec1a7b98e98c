//! When memory that is reused was used last: what nobody uses for a while is freed, unless it is small.

use std::time::{Duration, Instant};

/// Size in bytes up to which memory is kept however long it is unused: mapping and unmapping it repeatedly costs more.
pub const KEPT_BYTES: usize = 1 << 20;

/// The time of the last use of memory.
#[derive(Default)]
pub struct LastUse(Option<Instant>);

impl LastUse {
    /// It is used now.
    pub fn now(&mut self) {
        self.0 = Some(Instant::now());
    }

    /// When `bytes` bytes may be freed that were unused for `idle`; `None` if they were never used, or are few.
    pub fn due(&self, bytes: usize, idle: Duration) -> Option<Instant> {
        self.0.filter(|_| bytes > KEPT_BYTES).map(|used| used + idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_small_or_was_never_used_is_never_due() {
        let mut last = LastUse::default();
        assert!(last.due(usize::MAX, Duration::ZERO).is_none());
        let before = Instant::now();
        last.now();
        assert!(last.due(KEPT_BYTES, Duration::ZERO).is_none());
        let due = last.due(KEPT_BYTES + 1, Duration::from_secs(3)).unwrap();
        assert!(due >= before + Duration::from_secs(3) && due <= Instant::now() + Duration::from_secs(3));
    }
}
