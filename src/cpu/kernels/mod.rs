//! Kernels: slices and numbers in, slices out. A kernel has no graph, no plan and no thread pool of its own, and may
//! assume valid input.

pub mod arg;
pub mod blocks;
pub mod copy;
pub mod cumulative;
pub mod depthwise_pixels;
mod double_folds;
pub mod double_product;
pub mod elementwise;
pub mod float;
pub mod fourier;
pub mod gather;
pub mod lanes;
pub mod linear_attention;
pub mod normalize;
pub mod planes;
pub mod pool;
pub mod pool_fold;
pub mod pool_planes;
pub mod reduce;
pub mod remap;
pub mod resample;
pub mod roi;
pub mod rotate;
pub mod rows;
pub mod sample;
pub mod scatter;
pub mod softmax;
pub mod stored;
pub mod top_k;
pub mod transpose;
pub mod trees;
