//! The compiler: passes that rewrite a graph, and the memory plan. Nothing here knows a backend.

pub mod memory;
pub mod views;
