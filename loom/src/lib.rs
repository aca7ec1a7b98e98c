//! Models of webnn-node's lock-free code: a [team](team), and the [queue](queue) of a timeline. They use the atomics of
//! [loom], which runs each model in every possible interleaving of the threads, with every value that the memory
//! orderings allow.
//!
//! `cargo test --manifest-path loom/Cargo.toml`

#[path = "../../src/runtime/queue.rs"]
pub mod queue;
#[path = "../../src/sync.rs"]
pub mod sync;
#[path = "../../src/cpu/schedule/team.rs"]
pub mod team;

#[cfg(test)]
mod queue_models;
#[cfg(test)]
mod team_models;
