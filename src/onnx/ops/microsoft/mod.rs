//! Operators of the domain `com.microsoft`, which onnxruntime adds to the standard and its optimizers write. What they
//! compute is what onnxruntime's CPU kernels compute.

pub mod attention;
pub mod block_quantized;
pub mod fused;
pub mod grouped_attention;
pub mod quantized;
