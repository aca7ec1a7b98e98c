//! Every multiply-add of two operands: matrix products, convolutions, attention and recurrent networks.

pub mod attention;
pub mod blocks;
pub mod columns;
pub mod finish;
pub mod formats;
pub mod frame;
pub mod int8;
pub mod masks;
pub mod matrix;
pub mod panel_data;
pub mod panels;
pub mod recurrent;
pub mod rows;
pub mod tile;
pub mod vector;
pub mod winograd;
