//! Operators of ONNX that the API lacks. Only imported models have them.

pub mod elementwise;
pub mod integer_product;
pub mod log_softmax;
pub mod rotate;
pub mod top_k;
