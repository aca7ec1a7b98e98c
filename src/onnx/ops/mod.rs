//! Translations, one file per family. Each file ends in a table of its operators.

pub mod convolution;
pub mod elementwise;
pub mod gather;
pub mod shape;

use super::registry::Entry;

/// The tables of all families.
pub const TABLES: &[&[Entry]] = &[elementwise::OPERATORS, shape::OPERATORS, gather::OPERATORS, convolution::OPERATORS];
