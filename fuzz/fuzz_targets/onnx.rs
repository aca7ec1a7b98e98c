//! Feeds the ONNX reader with arbitrary bytes: it may refuse them, but must not crash, hang or take much memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use webnn_node::onnx::probe::probe;

/// Maximum number of bytes allocated at once for a refused model.
const MAX_BYTES: usize = 64 << 20;

/// Counts allocations.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller upholds the same contract.
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
