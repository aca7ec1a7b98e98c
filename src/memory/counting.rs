//! Counts the heap memory of each thread, for tests.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Heap memory that a thread has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heap {
    /// How often it has asked for memory.
    pub allocations: usize,
    /// Bytes that it has taken, less those that it has freed.
    pub bytes: isize,
}

thread_local! {
    static HEAP: Cell<Heap> = const { Cell::new(Heap { allocations: 0, bytes: 0 }) };
}

/// The allocator of the system, with counts.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(allocations: usize, bytes: isize) {
    let Heap { allocations: before, bytes: taken } = HEAP.get();
    HEAP.set(Heap { allocations: before + allocations, bytes: taken + bytes });
}

// SAFETY: each method passes its arguments on to the allocator of the system, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as isize);
        // SAFETY: the caller keeps the promises of this method, which are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as isize);
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as isize - layout.size() as isize);
        // SAFETY: as in `alloc`.
        unsafe { System.realloc(start, layout, size) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        count(0, -(layout.size() as isize));
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(start, layout) }
    }
}

/// The result of `work`, and the heap memory that this thread took in it.
pub fn heap_of<T>(work: impl FnOnce() -> T) -> (T, Heap) {
    let before = HEAP.get();
    let result = work();
    let Heap { allocations, bytes } = HEAP.get();
    (result, Heap { allocations: allocations - before.allocations, bytes: bytes - before.bytes })
}
