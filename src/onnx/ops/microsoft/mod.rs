//! Operators of the domain `com.microsoft`, onnxruntime's extension of the standard, which onnxruntime's optimizers
//! write. They compute what onnxruntime's CPU kernels compute.

pub mod attention;
pub mod block_quantized;
pub mod blocked;
pub mod channels_last;
pub mod experts;
pub mod further;
pub mod fused;
pub mod grouped_attention;
pub mod quantized;
pub mod renamed;
