//! The CPU backend.

pub mod kernels;
pub mod steps;
pub mod threads;
