//! The CPU backend.

pub mod lower;
pub mod memory;
pub mod plan;
pub mod simd;
pub mod steps;
pub mod threads;
