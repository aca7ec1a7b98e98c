//! What a context frees at once that it would otherwise free after a while.

use super::Context;
use std::time::Instant;

impl Context {
    /// Frees the memory for intermediate results after all previous work, unless something was computed after the time
    /// that `when` then returns; and returns to the system what the allocator keeps of freed memory. Does nothing for
    /// `None`.
    pub fn release_scratch(&self, when: impl FnOnce() -> Option<Instant> + Send + 'static) {
        let arena = self.timeline.arena();
        self.enqueue_release(move || {
            if let Some(when) = when() {
                arena.arena.release_unless_used_after(when);
                trim();
            }
        });
    }
}

/// Returns freed memory to the system: glibc's malloc keeps what is between blocks in use, and up to 64 MiB at the end
/// of its heap.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn trim() {
    // SAFETY: it takes the locks of the allocator, and changes no block in use.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators have rules of their own.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn trim() {}
