//! Kernels on a CPU without a driver, for tests: an interpreter of what naga makes of their texts.
//!
//! A dispatch runs with the parameters, bindings and workgroups that the GPU would get, and every use of memory is watched.
//! What it reports as a [`Fault`](fault::Fault):
//!
//! * an index that is not below the length of the buffer, array or vector, before any driver would clamp it;
//! * a word of an output that one kernel writes twice, or none at all;
//! * scratch or workgroup memory that is read before anything wrote it;
//! * invocations that use the same memory without a barrier in between, where one of them writes;
//! * barriers and operations of subgroups that only some invocations reach, and loops that do not end;
//! * integer divisions by zero, or whose quotient overflows, and shifts by all bits or more.
//!
//! Floats are computed as IEEE 754 says, each operation rounded, so that results can also be compared with the oracle.

mod arithmetic;
mod broken;
mod evaluate;
mod fault;
mod graph;
mod machine;
mod memory;
mod program;
mod random_graphs;
mod subgroup;
mod tests;
