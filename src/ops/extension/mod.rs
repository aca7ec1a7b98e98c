//! Operators of ONNX that the API lacks. Only imported models have them.

pub mod elementwise;
pub mod top_k;
