//! The inverse trigonometric and the hyperbolic functions.

use super::elementwise::unary;
use crate::onnx::registry::{Entry, standard};
use crate::ops::elementwise::Elementwise as E;

/// The operators of this family.
pub const OPERATORS: &[Entry] = &[
    standard("Acos", "", |call| unary(call, E::Acos)),
    standard("Acosh", "", |call| unary(call, E::Acosh)),
    standard("Asin", "", |call| unary(call, E::Asin)),
    standard("Asinh", "", |call| unary(call, E::Asinh)),
    standard("Atan", "", |call| unary(call, E::Atan)),
    standard("Atanh", "", |call| unary(call, E::Atanh)),
    standard("Cosh", "", |call| unary(call, E::Cosh)),
    standard("Sinh", "", |call| unary(call, E::Sinh)),
];
