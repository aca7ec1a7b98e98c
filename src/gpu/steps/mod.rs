//! The GPU implementation of each family of operators.

pub mod attention;
pub mod copy;
pub mod cumulative;
pub mod depthwise;
pub mod gather;
pub mod normalization;
pub mod product;
pub mod recurrent;
pub mod reduce;
pub mod rows;
pub mod spatial;
