//! The steps that there are.

use super::memory::Io;
use super::steps::arg_min_max::ArgMinMaxStep;
use super::steps::attention::AttentionStep;
use super::steps::block_product::BlockProductStep;
use super::steps::copy::CopyStep;
use super::steps::cumulative_sum::CumulativeSumStep;
use super::steps::dense::DenseStep;
use super::steps::elementwise::ElementwiseStep;
use super::steps::gather::{GatherElementsStep, GatherStep, PackedGatherStep};
use super::steps::gru::GruStep;
use super::steps::lstm::LstmStep;
use super::steps::normalization::{ChannelNormStep, LayerNormStep};
use super::steps::pool2d::Pool2dStep;
use super::steps::quantized::QuantizedStep;
use super::steps::reduce::ReduceStep;
use super::steps::remap::RemapStep;
use super::steps::resample2d::LinearStep;
use super::steps::scatter::{ScatterElementsStep, ScatterStep};
use super::steps::softmax::SoftmaxStep;
use super::steps::triangular::TriangularStep;
use super::steps::{Env, Run};
use crate::memory::Buffer;
use std::sync::Arc;

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
    Dense(DenseStep),
    /// Products of quantized tensors.
    Quantized(QuantizedStep),
    /// Products with weights of 4 or 8 bits.
    BlockProduct(BlockProductStep),
    /// Attention that the compiler made one operator.
    Attention(AttentionStep),
    /// Pooling.
    Pool2d(Pool2dStep),
    /// Gated recurrent units.
    Gru(GruStep),
    /// Long short-term memory.
    Lstm(LstmStep),
    /// Copies between layouts.
    Copy(CopyStep),
    /// Copies by lists of places.
    Remap(RemapStep),
    /// Bilinear resampling.
    Linear(LinearStep),
    /// Rows at the places of indices.
    Gather(GatherStep),
    /// Rows of a packed matrix at the places of indices.
    PackedGather(PackedGatherStep),
    /// Elements at the places of indices.
    GatherElements(GatherElementsStep),
    /// Replaced rows.
    Scatter(ScatterStep),
    /// Replaced elements.
    ScatterElements(ScatterElementsStep),
    /// Triangular matrices.
    Triangular(TriangularStep),
    /// Element-wise operators, fused or not.
    Elementwise(ElementwiseStep),
    /// Reductions.
    Reduce(ReduceStep),
    /// `argMin()` and `argMax()`.
    ArgMinMax(ArgMinMaxStep),
    /// `cumulativeSum()`.
    CumulativeSum(CumulativeSumStep),
    /// `softmax()`.
    Softmax(SoftmaxStep),
    /// `batchNormalization()` and `instanceNormalization()`.
    ChannelNorm(ChannelNormStep),
    /// `layerNormalization()`.
    LayerNorm(LayerNormStep),
}
