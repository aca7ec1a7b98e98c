//! Translations, one file per family. Each file ends in a table of its operators.

pub mod activation;
pub mod arrange;
pub mod convolution;
pub mod einsum;
pub mod elementwise;
pub mod gather;
pub mod generate;
pub mod logic;
pub mod movement;
pub mod reduce;
pub mod scatter;
pub mod shape;
pub mod top_k;
pub mod trigonometry;

use super::registry::Entry;

/// The tables of all families.
pub const TABLES: &[&[Entry]] = &[
    activation::OPERATORS,
    arrange::OPERATORS,
    convolution::OPERATORS,
    einsum::OPERATORS,
    elementwise::OPERATORS,
    gather::OPERATORS,
    generate::OPERATORS,
    logic::OPERATORS,
    movement::OPERATORS,
    reduce::OPERATORS,
    scatter::OPERATORS,
    shape::OPERATORS,
    top_k::OPERATORS,
    trigonometry::OPERATORS,
];
