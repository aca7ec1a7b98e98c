//! The W3C Web Neural Network API for server-side JavaScript.
//!
//! Modules, in the order of their dependencies (see docs/architecture.md): [`dtype`], [`dimension`], [`shape`],
//! [`error`], [`memory`], [`ops`], [`ir`], [`mod@reference`], [`compile`], [`description`], [`observe`], [`cpu`],
//! [`gpu`], [`runtime`], [`dynamic`], [`onnx`], [`session`], `napi`.

// The types of wgpu nest deeply, and a search for what threads may share goes through all of them.
#![recursion_limit = "256"]

pub mod compile;
pub mod cpu;
pub mod description;
pub mod dimension;
pub mod dtype;
pub mod dynamic;
pub mod error;
pub mod gpu;
pub mod ir;
pub mod memory;
// Test binaries have no Node to link with, and call none of the exports.
#[cfg(all(feature = "napi", not(test)))]
mod napi;
pub mod nibbles;
pub mod observe;
pub mod onnx;
pub mod ops;
pub mod reference;
pub mod runtime;
pub mod session;
pub mod shape;
mod sync;
#[cfg(test)]
mod testing;
