//! Translations, one file per family. Each file ends in a table of its operators.

pub mod convolution;
pub mod elementwise;
pub mod gather;
pub mod loss;
pub mod normalization;
pub mod pooling;
pub mod product;
pub mod quantize;
pub mod recurrent;
pub mod resize;
pub mod sampling;
pub mod shape;
pub mod signal;
pub mod window;

use super::registry::Entry;

/// The tables of all families.
pub const TABLES: &[&[Entry]] = &[
    elementwise::OPERATORS,
    shape::OPERATORS,
    gather::OPERATORS,
    convolution::OPERATORS,
    pooling::OPERATORS,
    product::OPERATORS,
    normalization::OPERATORS,
    resize::OPERATORS,
    sampling::OPERATORS,
    recurrent::OPERATORS,
    quantize::OPERATORS,
    loss::OPERATORS,
    signal::OPERATORS,
];
