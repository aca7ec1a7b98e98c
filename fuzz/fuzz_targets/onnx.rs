//! Feeds the ONNX reader with anything: it may refuse it, and must neither crash, hang nor take much memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use webnn_node::onnx::probe::probe;

/// The most bytes that may be allocated at once for a model that is refused.
const MAX_BYTES: usize = 64 << 20;

/// Counts what is allocated.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the allocator of the system.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: as for the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as for the caller.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fuzz_target!(|data: &[u8]| {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let outcome = probe(data);
    let peak = PEAK.load(Relaxed) - before;
    if let Err(error) = outcome
        && data.len() < 1 << 20
    {
        assert!(peak <= MAX_BYTES, "{peak} bytes to refuse a model: {error}");
    }
});
