//! Translations, one file per family. Each file ends in a table of its operators.

pub mod activation;
pub mod arrange;
pub mod attention;
pub mod control;
pub mod convolution;
pub mod determinant;
pub mod early;
pub mod einsum;
pub mod elementwise;
pub mod gather;
pub mod generate;
#[cfg(test)]
mod integer_tests;
pub mod interpolation;
pub mod linear_attention;
pub mod logic;
pub mod loss;
pub mod microsoft;
pub mod ml;
pub mod movement;
pub mod normalization;
pub mod pooling;
pub mod product;
pub mod quantize;
pub mod random;
pub mod recurrent;
pub mod reduce;
pub mod resize;
pub mod sampling;
pub mod scatter;
pub mod sequence;
pub mod shape;
pub mod signal;
pub mod suppression;
pub mod texts;
pub mod top_k;
pub mod trigonometry;
pub mod window;

use super::registry::Entry;

/// The tables of all families.
pub const TABLES: &[&[Entry]] = &[
    activation::OPERATORS,
    arrange::OPERATORS,
    attention::OPERATORS,
    control::OPERATORS,
    convolution::OPERATORS,
    determinant::OPERATORS,
    early::OPERATORS,
    einsum::OPERATORS,
    elementwise::OPERATORS,
    gather::OPERATORS,
    generate::OPERATORS,
    linear_attention::OPERATORS,
    logic::OPERATORS,
    loss::OPERATORS,
    microsoft::attention::OPERATORS,
    microsoft::block_quantized::OPERATORS,
    microsoft::blocked::OPERATORS,
    microsoft::channels_last::OPERATORS,
    microsoft::experts::OPERATORS,
    microsoft::further::OPERATORS,
    microsoft::fused::OPERATORS,
    microsoft::grouped_attention::OPERATORS,
    microsoft::quantized::OPERATORS,
    microsoft::renamed::OPERATORS,
    ml::encode::OPERATORS,
    ml::features::OPERATORS,
    ml::linear::OPERATORS,
    ml::maps::OPERATORS,
    ml::svm::OPERATORS,
    ml::trees::OPERATORS,
    movement::OPERATORS,
    normalization::OPERATORS,
    pooling::OPERATORS,
    product::OPERATORS,
    quantize::OPERATORS,
    random::OPERATORS,
    recurrent::OPERATORS,
    texts::OPERATORS,
    texts::ngrams::OPERATORS,
    texts::tokens::OPERATORS,
    reduce::OPERATORS,
    resize::OPERATORS,
    sampling::OPERATORS,
    scatter::OPERATORS,
    sequence::OPERATORS,
    shape::OPERATORS,
    signal::OPERATORS,
    suppression::OPERATORS,
    top_k::OPERATORS,
    trigonometry::OPERATORS,
];
