//! The CPU backend.

pub mod arena;
pub mod costs;
pub mod evaluate;
mod keeping;
#[cfg(test)]
mod keeping_tests;
pub mod kernels;
#[cfg(test)]
mod large_tests;
pub mod lower;
mod members;
#[cfg(test)]
mod members_tests;
pub mod memory;
mod pace;
pub mod plan;
pub mod probe;
pub mod product;
pub mod readers;
pub mod schedule;
pub mod simd;
pub mod step;
pub mod steps;
pub mod weights;
#[cfg(test)]
mod weights_tests;
