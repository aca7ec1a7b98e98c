//! Every multiply-add of two operands: matrix products, convolutions, attention and recurrent networks.

pub mod attention;
pub mod finish;
pub mod frame;
pub mod int8;
pub mod operand;
pub mod panels;
pub mod patches;
pub mod recurrent;
pub mod row_blocks;
pub mod rows;
pub mod winograd;
