//! The CPU backend.

pub mod arena;
pub mod kernels;
pub mod lower;
pub mod memory;
pub mod plan;
pub mod readers;
pub mod simd;
pub mod steps;
pub mod threads;
pub mod weights;
#[cfg(test)]
mod weights_tests;
