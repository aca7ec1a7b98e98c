//! The GPU backend: graphs as compute shaders, on wgpu.
//!
//! [`lower`] turns the nodes of a graph into dispatches of kernels, WGSL texts that are put together from templates;
//! [`plan`] gives them memory and pipelines and runs them on a [`device`].

pub mod device;
pub mod dialect;
pub mod direct;
pub mod kernel;
pub mod lower;
pub mod map;
pub mod plan;
pub mod scalar;
pub mod steps;
pub mod template;
#[cfg(test)]
pub mod testing;
