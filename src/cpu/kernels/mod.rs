//! Kernels: slices and numbers in, slices out. A kernel knows no graph, no plan and no thread pool of its own; it may
//! assume valid input.

pub mod copy;
pub mod depthwise;
pub mod elementwise;
pub mod float;
pub mod gather;
pub mod gemm;
pub mod half;
pub mod im2col;
pub mod pack;
pub mod reduce;
pub mod remap;
pub mod resample;
pub mod scatter;
pub mod shared;
pub mod storage;
pub mod tiles;
