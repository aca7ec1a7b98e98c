//! Kernels: slices and numbers in, slices out. A kernel knows no graph, no plan and no thread pool of its own; it may
//! assume valid input.

pub mod arg;
pub mod attention;
pub mod copy;
pub mod cumulative;
pub mod depthwise;
pub mod depthwise_pixels;
pub mod elementwise;
pub mod epilogue;
pub mod float;
pub mod gather;
pub mod gemm;
pub mod half;
pub mod im2col;
pub mod int8;
pub mod normalize;
pub mod pack;
pub mod packed;
pub mod patch_rows;
pub mod pool;
pub mod recurrent;
pub mod reduce;
pub mod remap;
pub mod resample;
pub mod row_blocks;
pub mod rows;
pub mod scatter;
pub mod shared;
pub mod softmax;
pub mod storage;
pub mod team;
pub mod tiles;
pub mod transpose;
pub mod winograd;
