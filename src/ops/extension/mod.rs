//! Operators of ONNX that the API lacks. Only imported models have them.

pub mod integer_product;
pub mod top_k;
