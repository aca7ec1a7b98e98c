//! Operators of the domain `ai.onnx.ml`: classical models, as exported from scikit-learn, XGBoost and LightGBM. Where
//! the standard leaves something open, they compute what onnxruntime's CPU kernels compute.

pub mod encode;
pub mod features;
pub mod forest;
pub mod gathered;
pub mod linear;
pub mod maps;
pub mod places;
pub mod scores;
pub mod svm;
#[cfg(test)]
mod testing;
pub mod trees;
