//! Runs kernels on a CPU without a driver, for tests: an interpreter of naga's representation of their texts.
//!
//! A dispatch runs with the same parameters, bindings and workgroups as on a GPU, and every memory access is checked.
//! Each of these is reported as a [`Fault`](fault::Fault):
//!
//! * an index at or above the length of the buffer, array or vector, before any driver would clamp it;
//! * a word of an output that one kernel writes twice, or that no kernel writes;
//! * a read of scratch or workgroup memory that was never written;
//! * accesses of two invocations to the same memory without a barrier in between, if one of them writes;
//! * barriers and subgroup operations that only some invocations reach, and endless loops;
//! * integer division by zero, quotients that overflow, and shifts by all bits or more.
//!
//! Conflicts between [banks](banks) of workgroup memory are counted.
//!
//! Floats follow IEEE 754 and are rounded after each operation, which makes results comparable with the oracle; or they
//! follow the [rules of compilers](fast::Math::Fast) that rewrite expressions, within the same tolerance.

mod arithmetic;
mod banks;
mod broken;
mod evaluate;
mod fast;
mod fault;
mod graph;
mod machine;
mod memory;
mod program;
mod random_graphs;
mod subgroup;
mod tests;

pub(super) use random_graphs::{GENERATORS, random_graph};
pub(super) use tests::is_in_first_half;
