//! The GPU backend: graphs as compute shaders, on wgpu.
//!
//! [`lower`] turns the nodes of a graph into dispatches of kernels, which are WGSL sources assembled from templates;
//! [`plan`] assigns memory and pipelines to them and runs them on a [`device`].

pub mod adapter;
mod arena;
mod bindings;
pub mod cache;
pub mod check;
pub mod constants;
pub mod device;
pub mod dialect;
pub mod direct;
mod drivers;
pub mod exit;
pub mod features;
pub mod kernel;
mod launch;
pub mod loss;
pub mod lower;
pub mod map;
#[cfg(test)]
mod on_software_vulkan;
mod opening;
pub mod operands;
mod pending;
pub mod pipelines;
pub mod plan;
mod poller;
mod profile;
pub mod prologue;
#[cfg(test)]
mod proof;
mod rows;
pub mod scalar;
#[cfg(test)]
mod simulate;
pub mod split;
pub mod steps;
pub mod template;
pub mod tensor;
#[cfg(test)]
pub mod testing;
mod transfer;
pub mod verdicts;
pub mod watch;
pub use poller::Submission;
pub use transfer::Reading;
