//! Operators of ONNX that the API lacks. Only imported models have them.

pub mod top_k;
