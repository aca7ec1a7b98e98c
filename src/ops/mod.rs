//! The operators, one file per family. Each is the single source of truth for its attributes, rules, shape inference
//! and naive reference. [`Op`] is the closed set of API operators, [`Extension`] that of ONNX operators that the API lacks,
//! [`Fusion`] that of the compiler's operators.

pub mod arg_min_max;
pub mod attention;
pub mod attributes;
pub mod block_product;
pub mod concat;
pub mod conv2d;
pub mod conv_transpose2d;
pub mod cumulative_sum;
pub mod elementwise;
#[cfg(test)]
pub mod elementwise_cases;
pub mod extension;
pub mod fused;
pub mod gather;
pub mod gru;
pub mod limits;
pub mod lstm;
pub mod matmul;
pub mod normalization;
pub mod operation;
pub mod operator;
pub mod pad;
pub mod pool2d;
pub mod quantize;
pub mod quantized;
pub mod recurrent;
pub mod reduce;
pub mod resample2d;
pub mod reshape;
pub mod reverse;
pub mod rms_normalization;
pub mod rows;
pub mod rule;
pub mod scatter;
pub mod slice;
pub mod softmax;
pub mod spatial;
pub mod split;
pub mod strided;
#[cfg(test)]
pub(crate) mod sweep;
pub mod tensor;
pub mod tile;
pub mod transpose;
pub mod triangular;
#[cfg(test)]
mod work;

pub use operation::Operation::Api;
pub use operation::{Extension, Fusion, Op, Operation};
pub use operator::{
    Inputs, MAX_TENSOR_COUNT, NamedOperator, Operator, Tensors, cast_to, given, no_operator, permuted, place_of,
    required, row,
};
