//! The step types.

use super::memory::Io;
use super::schedule::partition::{Grid, Shape};
use super::schedule::tiles::Beside;
use super::steps::arg_min_max::ArgMinMaxStep;
use super::steps::attention::AttentionStep;
use super::steps::block_product::BlockProductStep;
use super::steps::byte_sum::ByteSumStep;
use super::steps::byte_table::ByteTableStep;
use super::steps::col2im::Col2ImStep;
use super::steps::copy::CopyStep;
use super::steps::cumulative_sum::CumulativeSumStep;
use super::steps::dense::DenseStep;
use super::steps::dft::DftStep;
use super::steps::double_product::DoubleProductStep;
use super::steps::elementwise::ElementwiseStep;
use super::steps::expert_product::ExpertProductStep;
use super::steps::gather::{GatherElementsStep, GatherStep, PackedGatherStep};
use super::steps::gru::GruStep;
use super::steps::linear_attention::LinearAttentionStep;
use super::steps::lstm::LstmStep;
use super::steps::normalization::{ChannelNormStep, LayerNormStep};
use super::steps::pairwise_coupling::PairwiseCouplingStep;
use super::steps::pool2d::Pool2dStep;
use super::steps::quantized::QuantizedStep;
use super::steps::reduce::ReduceStep;
use super::steps::remap::RemapStep;
use super::steps::resample2d::LinearStep;
use super::steps::roi::{MaxRoiPoolStep, RoiAlignStep};
use super::steps::rotate::RotateStep;
use super::steps::sample::{CropAndResizeStep, DeformColumnsStep, GridSampleStep};
use super::steps::scatter::{ScatterElementsStep, ScatterRowsStep};
use super::steps::softmax::SoftmaxStep;
use super::steps::top_k::TopKStep;
use super::steps::trees::TreeEnsembleStep;
use super::steps::triangular::TriangularStep;
use super::steps::{Env, Run};
use crate::memory::Buffer;
use std::sync::Arc;

macro_rules! steps {
    ($($(#[$meta:meta])* $Variant:ident($Step:ty),)*) => {
        /// A lowered operator. In a box: their sizes differ by a factor of ten.
        pub enum Step { $($(#[$meta])* $Variant(Box<$Step>),)* }

        impl Run for Step {
            fn kernel(&self) -> &'static str {
                match self { $(Step::$Variant(step) => step.kernel(),)* }
            }
            fn run(&self, env: &Env, io: &mut Io) {
                match self { $(Step::$Variant(step) => step.run(env, io),)* }
            }
            fn run_beside(&self, env: &Env, io: &mut Io, beside: Beside) {
                match self { $(Step::$Variant(step) => step.run_beside(env, io, beside),)* }
            }
            fn scratch_bytes(&self, threads: usize) -> usize {
                match self { $(Step::$Variant(step) => step.scratch_bytes(threads),)* }
            }
            fn packed(&self) -> Vec<&Arc<Buffer>> {
                match self { $(Step::$Variant(step) => step.packed(),)* }
            }
        }

        $(impl From<$Step> for Step {
            fn from(step: $Step) -> Step { Step::$Variant(Box::new(step)) }
        })*
    };
}

impl Step {
    /// The product as it is cut into tiles beside `first`, another product of the same left operand; `None` if they cannot
    /// be computed together.
    pub fn shape_beside(&self, first: &Step) -> Option<Shape> {
        match (self, first) {
            (Step::Dense(step), Step::Dense(_)) => step.shape(),
            (Step::BlockProduct(step), Step::BlockProduct(first)) => {
                (step.rounding() == first.rounding()).then(|| step.shape())
            }
            _ => None,
        }
    }

    /// Adopts the grid of several products, or again that of this one alone.
    pub fn join(&mut self, grid: Option<Grid>) {
        match self {
            Step::Dense(step) => step.join(grid),
            Step::BlockProduct(step) => step.join(grid),
            _ => {}
        }
    }
}

steps! {
    /// Matrix products and convolutions.
    Dense(DenseStep),
    /// Products of quantized tensors.
    Quantized(QuantizedStep),
    /// Element-wise programs from bytes to bytes.
    ByteSum(ByteSumStep),
    /// Tables of the results of such programs.
    ByteTable(ByteTableStep),
    /// Products with 4-bit or 8-bit weights.
    BlockProduct(BlockProductStep),
    /// Products with matrices that the rows choose.
    ExpertProduct(ExpertProductStep),
    /// Attention that the compiler fused into one operator.
    Attention(AttentionStep),
    /// Attention to a state of constant size.
    LinearAttention(LinearAttentionStep),
    /// Pooling.
    Pool2d(Pool2dStep),
    /// Gated recurrent units.
    Gru(GruStep),
    /// Long short-term memory.
    Lstm(LstmStep),
    /// Copies between layouts.
    Copy(CopyStep),
    /// Copies by lists of positions.
    Remap(RemapStep),
    /// Bilinear resampling.
    Linear(LinearStep),
    /// Gathers rows by index.
    Gather(GatherStep),
    /// Gathers rows of a packed matrix by index.
    PackedGather(PackedGatherStep),
    /// Gathers elements by index.
    GatherElements(GatherElementsStep),
    /// Rotates pairs of features.
    Rotate(RotateStep),
    /// Averages or maxima of samples in regions.
    RoiAlign(RoiAlignStep),
    /// Samples of images at coordinates.
    GridSample(GridSampleStep),
    /// Regions of images in another size.
    CropAndResize(CropAndResizeStep),
    /// Rows of a deformable convolution.
    DeformColumns(DeformColumnsStep),
    /// Maxima in regions.
    MaxRoiPool(MaxRoiPoolStep),
    /// Combines rows with updates.
    ScatterRows(ScatterRowsStep),
    /// Combines elements with updates.
    ScatterElements(ScatterElementsStep),
    /// Triangular matrices.
    Triangular(TriangularStep),
    /// Element-wise operators, fused or not.
    Elementwise(ElementwiseStep),
    /// Reductions.
    Reduce(ReduceStep),
    /// `argMin()` and `argMax()`.
    ArgMinMax(ArgMinMaxStep),
    /// `topK`.
    TopK(TopKStep),
    /// Probabilities of classes.
    PairwiseCoupling(PairwiseCouplingStep),
    /// Decision trees.
    TreeEnsemble(TreeEnsembleStep),
    /// Sums of overlapping blocks.
    Col2Im(Col2ImStep),
    /// Fourier transforms.
    Dft(DftStep),
    /// A product of float64.
    DoubleProduct(DoubleProductStep),
    /// `cumulativeSum()`.
    CumulativeSum(CumulativeSumStep),
    /// `softmax()`.
    Softmax(SoftmaxStep),
    /// `batchNormalization()` and `instanceNormalization()`.
    ChannelNorm(ChannelNormStep),
    /// `layerNormalization()`.
    LayerNorm(LayerNormStep),
}
