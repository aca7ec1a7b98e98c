//! How work is shared between threads.

pub mod partition;
pub mod pool;
pub mod shared;
pub mod team;
pub mod tiles;
