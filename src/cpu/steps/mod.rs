//! Steps: compiled operators. A step holds only numbers and packed constants, computed when the graph is built. Running
//! it calls kernels, splits their work over the threads, and allocates nothing. Steps are independent of each other.

pub mod arg_min_max;
pub mod attention;
pub mod block_product;
pub mod byte_sum;
pub mod byte_table;
pub mod conv2d;
pub mod conv_transpose2d;
pub mod convolution;
pub mod cumulative_sum;
pub mod dense;
mod disjoint;
pub mod double_product;
pub mod elementwise;
pub mod epilogue;
pub mod expert_product;
pub mod gru;
pub mod linear_attention;
pub mod lstm;
pub mod matmul;
pub mod normalization;
mod phases;
pub mod pool2d;
pub mod quantize;
pub mod quantized;
pub mod recurrent;
pub mod reduce;
pub mod softmax;
#[cfg(test)]
pub(crate) mod testing;

pub mod col2im;
pub mod copy;
pub mod dft;
pub mod gather;
pub mod pairwise_coupling;
pub mod remap;
pub mod resample2d;
pub mod roi;
pub mod rotate;
pub mod sample;
pub mod scatter;
pub mod top_k;
pub mod trees;
pub mod triangular;
pub mod view;

use super::arena::Arena;
use super::memory::Io;
use super::schedule::pool::Threads;
use super::schedule::tiles::Beside;
use super::simd::Isa;
use crate::memory::Buffer;
use std::sync::Arc;

/// The environment of a running step.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    /// The pool to split work over.
    pub threads: &'a Threads,
    /// The instruction set to use.
    pub isa: Isa,
    /// The memory for intermediate values of plans.
    pub arena: &'a Arena,
}

/// The interface of all steps.
pub trait Run {
    /// A short name of the kernel and its variant, for display.
    fn kernel(&self) -> &'static str;

    /// Runs the step on the operands and outputs in `io`, which have the sizes that the step was created for.
    fn run(&self, env: &Env, io: &mut Io);

    /// Like [`run`](Run::run), for the next of several steps that run in one another: a product shares its tiles together
    /// with those of the others.
    fn run_beside(&self, env: &Env, io: &mut Io, beside: Beside) {
        self.run(env, io);
        beside.pass();
    }

    /// Bytes of scratch memory that [`run`](Run::run) needs on a pool of `threads` threads.
    fn scratch_bytes(&self, _threads: usize) -> usize {
        0
    }

    /// The packed copies of constants that the step holds, possibly shared with other steps.
    fn packed(&self) -> Vec<&Arc<Buffer>> {
        Vec::new()
    }
}
