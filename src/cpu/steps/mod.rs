//! Steps: operators made ready to run. A step holds only numbers and packed constants that were computed when the
//! graph was built; running it calls kernels, splits the work over the threads, and allocates nothing.

pub mod arg_min_max;
pub mod attention;
pub mod conv2d;
pub mod conv_transpose2d;
pub mod convolution;
pub mod cumulative_sum;
pub mod dense;
pub mod elementwise;
pub mod epilogue;
pub mod gru;
pub mod lstm;
pub mod matmul;
pub mod normalization;
pub mod pool2d;
pub mod quantize;
pub mod quantized;
pub mod recurrent;
pub mod reduce;
pub mod softmax;
#[cfg(test)]
pub(crate) mod testing;

pub mod copy;
pub mod gather;
pub mod remap;
pub mod resample2d;
pub mod scatter;
pub mod triangular;

use super::arena::Arena;
use super::memory::Io;
use super::schedule::pool::Threads;
use super::simd::Isa;
use crate::memory::Buffer;
use std::sync::Arc;

/// With what a step runs.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    /// The pool to split work over.
    pub threads: &'a Threads,
    /// The instruction set to use.
    pub isa: Isa,
    /// Where plans have intermediate values.
    pub arena: &'a Arena,
}

/// What every step can do.
pub trait Run {
    /// What runs, in a few words for people: the kernel, and which of its variants.
    fn kernel(&self) -> &'static str;

    /// Runs the step on the operands and outputs in `io`, which have the sizes that the step was made for.
    fn run(&self, env: &Env, io: &mut Io);

    /// Bytes of scratch memory that [`run`](Run::run) needs on a pool of `threads` threads.
    fn scratch_bytes(&self, _threads: usize) -> usize {
        0
    }

    /// The packed copies of constants that the step holds, which it may share with others.
    fn packed(&self) -> Vec<&Arc<Buffer>> {
        Vec::new()
    }
}

macro_rules! steps {
    ($($(#[$meta:meta])* $Variant:ident($Step:ty),)*) => {
        /// A lowered operator.
        pub enum Step { $($(#[$meta])* $Variant($Step),)* }

        impl Run for Step {
            fn kernel(&self) -> &'static str {
                match self { $(Step::$Variant(step) => step.kernel(),)* }
            }
            fn run(&self, env: &Env, io: &mut Io) {
                match self { $(Step::$Variant(step) => step.run(env, io),)* }
            }
            fn scratch_bytes(&self, threads: usize) -> usize {
                match self { $(Step::$Variant(step) => step.scratch_bytes(threads),)* }
            }
            fn packed(&self) -> Vec<&Arc<Buffer>> {
                match self { $(Step::$Variant(step) => step.packed(),)* }
            }
        }

        $(impl From<$Step> for Step {
            fn from(step: $Step) -> Step { Step::$Variant(step) }
        })*
    };
}

steps! {
    /// Matrix products and convolutions.
    Dense(dense::DenseStep),
    /// Products of quantised tensors.
    Quantized(quantized::QuantizedStep),
    /// Attention that the compiler made one operator.
    Attention(attention::AttentionStep),
    /// Pooling.
    Pool2d(pool2d::Pool2dStep),
    /// Gated recurrent units.
    Gru(gru::GruStep),
    /// Long short-term memory.
    Lstm(lstm::LstmStep),
    /// Copies between layouts.
    Copy(copy::CopyStep),
    /// Copies by lists of places.
    Remap(remap::RemapStep),
    /// Bilinear resampling.
    Linear(resample2d::LinearStep),
    /// Rows at the places of indices.
    Gather(gather::GatherStep),
    /// Rows of a packed matrix at the places of indices.
    PackedGather(gather::PackedGatherStep),
    /// Elements at the places of indices.
    GatherElements(gather::GatherElementsStep),
    /// Replaced rows.
    Scatter(scatter::ScatterStep),
    /// Replaced elements.
    ScatterElements(scatter::ScatterElementsStep),
    /// Triangular matrices.
    Triangular(triangular::TriangularStep),
    /// Element-wise operators, fused or not.
    Elementwise(elementwise::ElementwiseStep),
    /// Reductions.
    Reduce(reduce::ReduceStep),
    /// `argMin()` and `argMax()`.
    ArgMinMax(arg_min_max::ArgMinMaxStep),
    /// `cumulativeSum()`.
    CumulativeSum(cumulative_sum::CumulativeSumStep),
    /// `softmax()`.
    Softmax(softmax::SoftmaxStep),
    /// `batchNormalization()` and `instanceNormalization()`.
    ChannelNorm(normalization::ChannelNormStep),
    /// `layerNormalization()`.
    LayerNorm(normalization::LayerNormStep),
}
