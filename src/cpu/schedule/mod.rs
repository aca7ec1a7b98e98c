//! Shares work between threads.

mod cores;
pub mod line;
pub mod partition;
pub mod pool;
pub mod shared;
mod team;
pub mod tiles;

pub use cores::computing;
