//! Kernels: slices and numbers in, slices out. A kernel knows no graph, no plan and no thread pool of its own; it may
//! assume valid input.

pub mod elementwise;
pub mod half;
pub mod reduce;
pub mod shared;
