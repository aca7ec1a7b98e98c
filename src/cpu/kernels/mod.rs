//! Kernels: slices and numbers in, slices out. They know no graph and no thread pool, and assume valid input.

pub mod depthwise;
pub mod float;
pub mod gemm;
pub mod im2col;
pub mod pack;
pub mod tiles;
