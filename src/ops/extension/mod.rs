//! Operators of ONNX that the API lacks. Only imported models have them.

pub mod col2im;
pub mod dft;
pub mod grid_sample;
pub mod max_roi_pool;
pub mod roi_align;
pub mod scatter;
pub mod top_k;
