//! Operators of ONNX that the API lacks. Only imported models have them.

pub mod col2im;
pub mod crop_and_resize;
pub mod deform_columns;
pub mod dft;
pub mod dynamic_quantize_lstm;
pub mod elementwise;
pub mod expert_product;
pub mod grid_sample;
pub mod integer_product;
pub mod linear_attention;
pub mod log_softmax;
pub mod max_roi_pool;
pub mod pairwise_coupling;
pub mod roi_align;
pub mod rotate;
pub mod scatter;
pub mod top_k;
pub mod tree_ensemble;
