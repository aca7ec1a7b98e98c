//! Translations, one file per family. Each file ends in a table of its operators.

pub mod attention;
pub mod control;
pub mod convolution;
pub mod elementwise;
pub mod gather;
pub mod loss;
pub mod microsoft;
pub mod normalization;
pub mod pooling;
pub mod product;
pub mod quantize;
pub mod recurrent;
pub mod resize;
pub mod sampling;
pub mod sequence;
pub mod shape;
pub mod signal;
pub mod window;

use super::registry::Entry;

/// The tables of all families.
pub const TABLES: &[&[Entry]] = &[
    attention::OPERATORS,
    control::OPERATORS,
    convolution::OPERATORS,
    elementwise::OPERATORS,
    gather::OPERATORS,
    loss::OPERATORS,
    microsoft::attention::OPERATORS,
    microsoft::block_quantized::OPERATORS,
    microsoft::fused::OPERATORS,
    microsoft::grouped_attention::OPERATORS,
    microsoft::quantized::OPERATORS,
    normalization::OPERATORS,
    pooling::OPERATORS,
    product::OPERATORS,
    quantize::OPERATORS,
    recurrent::OPERATORS,
    resize::OPERATORS,
    sampling::OPERATORS,
    sequence::OPERATORS,
    shape::OPERATORS,
    signal::OPERATORS,
];
