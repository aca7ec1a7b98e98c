//! Models of the code of webnn-node by which threads agree without a lock: a [team](team), and the [queue](queue) of a timeline.
//! They use the atomics of [loom], which runs each model in every order that the threads can take, with every value that the
//! memory orderings let them see.
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
