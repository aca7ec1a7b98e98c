//! Translations, one file per family. Each file ends in a table of its operators.

pub mod attention;
pub mod control;
pub mod convolution;
pub mod elementwise;
pub mod gather;
pub mod microsoft;
pub mod sequence;
pub mod shape;

use super::registry::Entry;

/// The tables of all families.
pub const TABLES: &[&[Entry]] = &[
    attention::OPERATORS,
    control::OPERATORS,
    convolution::OPERATORS,
    elementwise::OPERATORS,
    gather::OPERATORS,
    microsoft::attention::OPERATORS,
    microsoft::block_quantized::OPERATORS,
    microsoft::fused::OPERATORS,
    microsoft::grouped_attention::OPERATORS,
    microsoft::quantized::OPERATORS,
    sequence::OPERATORS,
    shape::OPERATORS,
];
