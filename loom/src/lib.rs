//! Models of what threads agree on without a lock: a [team](team) and the [queue](queue) of a timeline, as they are in webnn-node,
//! with the atomics of [loom]. It runs each model in every order in which the threads can, with every value that the memory
//! orderings let them see.
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
