//! The CPU backend.

pub mod threads;
