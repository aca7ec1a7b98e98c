//! Lowering: turns each node into a step, with one match arm per operator family.

use super::product::blocks::{self, BlockPanels};
use super::product::panels::{Layout, Panels};
use super::product::tile::tile_size;
use super::step::Step;
use super::steps::arg_min_max::ArgMinMaxStep;
use super::steps::attention::AttentionStep;
use super::steps::block_product::BlockProductStep;
use super::steps::byte_sum::{ByteSumStep, ProgramOperand};
use super::steps::byte_table::ByteTableStep;
use super::steps::col2im::Col2ImStep;
use super::steps::copy::CopyStep;
use super::steps::cumulative_sum::CumulativeSumStep;
use super::steps::dense::{self, DenseShape, DenseStep};
use super::steps::dft::DftStep;
use super::steps::double_product::DoubleProductStep;
use super::steps::elementwise::ElementwiseStep;
use super::steps::epilogue::Following;
use super::steps::expert_product::{ExpertProductStep, Experts};
use super::steps::gather::{Along, GatherElementsStep, GatherStep};
use super::steps::gru::GruStep;
use super::steps::linear_attention::LinearAttentionStep;
use super::steps::lstm::LstmStep;
use super::steps::normalization::{ChannelNormStep, LayerNormStep};
use super::steps::pairwise_coupling::PairwiseCouplingStep;
use super::steps::quantized::{ComputedOperands, QuantizedNode, QuantizedStep};
use super::steps::recurrent::{Cell, RecurrentStep};
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
use super::steps::{Env, pool2d, quantize};
use super::weights::Weights;
use crate::compile::is_settled;
use crate::dtype::DataType;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Constant, Epilogue, Graph, Hold, Node, ValueId};
use crate::memory::Buffer;
use crate::ops::block_product::BlockProduct;
use crate::ops::elementwise::Elementwise;
use crate::ops::extension::dynamic_quantize_lstm::{DynamicQuantizeLstm, SCALE};
use crate::ops::extension::elementwise::Extended;
use crate::ops::extension::expert_product::ExpertProduct;
use crate::ops::extension::integer_product::IntegerProduct;
use crate::ops::extension::scatter::Reduction;
use crate::ops::extension::tree_ensemble::TreeEnsemble;
use crate::ops::fused::Fused;
use crate::ops::pad::PaddingMode;
use crate::ops::quantized::{Quantized, Scale};
use crate::ops::resample2d::InterpolationMode;
use crate::ops::{Api, Extension, Fusion, Op, Operation};
use crate::shape::{Descriptor, Sizes};
use std::sync::Arc;

/// The context for lowering one node.
struct Lowering<'a> {
    /// The environment that the step will run with.
    env: Env<'a>,
    /// Whether Winograd's algorithm may compute the node, if it is a convolution.
    winograd: bool,
    /// The input that the node's output begins with, if it shares the memory of one.
    cache: Option<ValueId>,
    /// The node's epilogue. A step that applies it takes it.
    epilogue: Option<&'a Epilogue>,
    /// Operands that the step keeps packed copies of. It does not read their raw bytes, which are freed unless another
    /// step reads them.
    packed: Vec<usize>,
    graph: &'a Graph,
    node: &'a Node,
}

impl<'a> Lowering<'a> {
    fn new(graph: &'a Graph, node: &'a Node, cache: Option<ValueId>, env: &Env<'a>, winograd: bool) -> Lowering<'a> {
        let epilogue = Some(&node.epilogue).filter(|epilogue| !epilogue.is_empty());
        Lowering { env: *env, winograd, cache, epilogue, packed: Vec::new(), graph, node }
    }

    /// Number of operands, including absent ones.
    fn count(&self) -> usize {
        self.node.inputs.len()
    }

    /// The operand at `index`, if present.
    fn given(&self, index: usize) -> Option<&'a Descriptor> {
        self.node.inputs.get(index)?.map(|id| self.graph.descriptor(id))
    }

    /// The operand at `index`, which the operator's rule requires.
    fn input(&self, index: usize) -> &'a Descriptor {
        self.given(index).expect("the rule requires this operand")
    }

    /// The operands that are present.
    fn inputs(&self) -> impl Iterator<Item = &'a Descriptor> + use<'a> {
        let graph = self.graph;
        self.node.inputs.iter().flatten().map(|&id| graph.descriptor(id))
    }

    /// The first output.
    fn output(&self) -> &'a Descriptor {
        self.graph.descriptor(self.node.outputs[0])
    }

    /// The operand at `index`, if it is a constant. A step that packs it lists it in [`packed`](Self::packed).
    fn constant(&self, index: usize) -> Option<&'a Constant> {
        let id = (*self.node.inputs.get(index)?)?;
        self.graph.value(id).constant()
    }

    /// The bytes of the operand at `index`, if it is a constant.
    fn buffer(&self, index: usize) -> Result<Option<Arc<Buffer>>> {
        self.constant(index).map(Constant::buffer).transpose()
    }

    /// The elements of the operand at `index`, if it is a constant.
    fn weights(&self, index: usize) -> Option<Weights<'a>> {
        self.constant(index).map(|constant| Weights::of(constant, self.input(index).dtype, Some(self.env.threads)))
    }

    /// Records whether the step keeps a packed copy of the operand at `index`.
    fn pack(&mut self, index: usize, keeps: bool) {
        self.packed.extend(keeps.then_some(index));
    }
}

/// A step, and the operands that it does not read from memory.
pub struct Lowered {
    /// The step.
    pub step: Step,
    /// Operands that the step keeps packed copies of.
    pub packed: Vec<usize>,
}

/// Turns a node into a step for `env`. `cache` is the input that its output begins with, if it shares the memory of one;
/// `winograd` permits Winograd's algorithm for convolutions.
///
/// # Errors
/// An `UnknownError` if there is not enough memory for packed constants or lists of positions, an `OperationError` if a
/// mapped constant cannot be read.
///
/// # Panics
/// If the step does not apply the node's epilogue, or would compute in float16: these are bugs in a pass.
pub fn lower(graph: &Graph, node: &Node, cache: Option<ValueId>, env: &Env, winograd: bool) -> Result<Lowered> {
    assert!(is_settled(graph, node), "{} would compute in float16", node.op.rule().name);
    // A step may read an operand several times.
    let constants = node.reads().filter_map(|id| graph.value(*id).constant());
    let _holds: Vec<Hold> = constants.filter_map(Constant::hold).collect();
    let mut lowering = Lowering::new(graph, node, cache, env, winograd);
    let step = match &node.op {
        Api(op) => lower_op(op, &mut lowering)?,
        Operation::Fusion(fusion) => lower_fusion(fusion, &mut lowering)?,
        Operation::Extension(op) => lower_extension(op, &mut lowering)?,
    };
    assert!(lowering.epilogue.is_none(), "the step of {} does not apply its epilogue", node.op.rule().name);
    Ok(Lowered { step, packed: lowering.packed })
}

/// Adapts `step` to the current sizes of `node`, keeping its packed operands; returns `false` if the node must be
/// lowered again. The other parameters are those of [`lower`].
pub fn resize(step: &mut Step, graph: &Graph, node: &Node, cache: Option<ValueId>, env: &Env, winograd: bool) -> bool {
    let mut l = Lowering::new(graph, node, cache, env, winograd);
    match (step, &node.op) {
        (Step::Dense(step), Api(op)) => {
            let shape = dense_shape(op, &l).expect("a product or convolution");
            let constants = [0, 1].map(|index| l.constant(index).is_some());
            with_following(&mut l, 2, |l, following| step.resize(shape, constants, l.winograd, following))
        }
        (Step::Quantized(step), Operation::Fusion(Fusion::Quantized(op))) => {
            step.resize(&op.product, &l.input(1).sizes(), l.output())
        }
        (Step::Quantized(step), Operation::Extension(Extension::IntegerProduct(op))) => {
            step.resize(&op.product, &l.input(1).sizes(), l.output())
        }
        (Step::BlockProduct(step), _) => with_following(&mut l, 4, |l, following| step.resize(l.input(0), following)),
        (Step::ExpertProduct(step), _) => {
            step.resize(l.input(0), l.output());
            true
        }
        (Step::Copy(step), Api(op)) => copy_step(op, &l).map(|new| **step = new).is_some(),
        (Step::Attention(step), Operation::Fusion(Fusion::Attention(op))) => {
            step.resize(op);
            true
        }
        (Step::PackedGather(step), Api(Op::Gather(op))) => step.resize(op, [l.input(0), l.input(1)]),
        (Step::TreeEnsemble(step), _) => step.resize(l.input(0)),
        (Step::Elementwise(step), Api(Op::Quantize(_))) => {
            quantize::resize(step, [0, 1, 2].map(|index| l.input(index)))
        }
        (Step::Elementwise(step), _) => step.resize(l.inputs(), l.output()),
        _ => false,
    }
}

/// The step of an operator that copies elements between two layouts.
fn copy_step(op: &Op, l: &Lowering) -> Option<CopyStep> {
    let output = l.output();
    Some(match op {
        Op::Reshape(_) => CopyStep::contiguous(output),
        Op::Expand(op) => CopyStep::new(&op.strided(&l.input(0).sizes()), output),
        Op::Slice(op) => CopyStep::new(&op.strided(&l.input(0).sizes()), output),
        Op::Transpose(op) => CopyStep::new(&op.strided(&l.input(0).sizes()), output),
        Op::Reverse(op) => CopyStep::new(&op.strided(&l.input(0).sizes()), output),
        Op::Tile(op) => CopyStep::new(&op.strided(&l.input(0).sizes()), output),
        Op::Split(op) => CopyStep::split(op, l.input(0)),
        Op::Concat(op) => {
            let inputs: Vec<Sizes> = l.inputs().map(|input| input.sizes()).collect();
            let inputs: Vec<&[u32]> = inputs.iter().map(|sizes| &**sizes).collect();
            match l.cache {
                None => CopyStep::concat(op, &inputs, output),
                // The cache is already in place: the step only writes the elements after it.
                Some(cache) => {
                    let mut behind = output.clone();
                    behind.shape[0] = behind.shape[0] - l.graph.descriptor(cache).shape[0];
                    CopyStep::concat(op, &inputs[1..], &behind).shifted(1)
                }
            }
        }
        Op::Pad(op) if op.mode == PaddingMode::Constant => CopyStep::pad(op, l.input(0), output),
        _ => return None,
    })
}

fn lower_op(op: &Op, l: &mut Lowering) -> Result<Step> {
    if let Some(step) = copy_step(op, l) {
        if l.cache.is_some() {
            l.pack(0, true);
        }
        return Ok(step.into());
    }
    let output = l.output();
    Ok(match op {
        Op::Reshape(_) | Op::Expand(_) | Op::Slice(_) | Op::Transpose(_) => unreachable!("copies"),
        Op::Reverse(_) | Op::Tile(_) | Op::Split(_) | Op::Concat(_) => unreachable!("copies"),
        Op::Pad(op) => RemapStep::pad(op, l.input(0), output)?.into(),
        Op::Resample2d(op) => match op.mode {
            InterpolationMode::NearestNeighbor => RemapStep::nearest(op, l.input(0), output)?.into(),
            InterpolationMode::Linear => LinearStep::new(op, l.input(0), output)?.into(),
        },
        Op::Gather(op) => GatherStep::new(op, l.input(0), l.input(1)).into(),
        Op::GatherNd(_) => GatherStep::by_coordinates(l.input(0), l.input(1)).into(),
        Op::GatherElements(op) => GatherElementsStep(Along::new(op.axis, l.input(0), l.input(1))).into(),
        Op::ScatterNd(_) => ScatterRowsStep::by_coordinates(Reduction::None, [l.input(0), l.input(1)]).into(),
        Op::ScatterElements(op) => ScatterElementsStep::new(Reduction::None, op.axis, [l.input(0), l.input(1)])?.into(),
        Op::Triangular(op) => TriangularStep::new(op, l.input(0)).into(),
        Op::Elementwise(op) => lower_elementwise(*op, l),
        Op::Reduce(op) => ReduceStep::new(op, l.input(0)).into(),
        Op::Matmul(_) | Op::Gemm(_) if output.dtype == DataType::Float64 => lower_double_product(op, l),
        Op::Matmul(_) | Op::Gemm(_) | Op::Conv2d(_) | Op::ConvTranspose2d(_) => {
            lower_dense(dense_shape(op, l).expect("a product or convolution"), l)?
        }
        Op::Pool2d(op) => pool2d::step(op, l.input(0), output),
        Op::Gru(op) => {
            lower_recurrent(GruStep::sequence(&l.env, op, l.input(0), [1, 2].map(|index| l.weights(index)))?, l)
        }
        Op::GruCell(op) => {
            lower_recurrent(GruStep::cell(&l.env, op, l.input(0), [1, 2].map(|index| l.weights(index)))?, l)
        }
        Op::Lstm(op) => {
            lower_recurrent(LstmStep::sequence(&l.env, op, l.input(0), [1, 2].map(|index| l.weights(index)))?, l)
        }
        Op::LstmCell(op) => {
            lower_recurrent(LstmStep::cell(&l.env, op, l.input(0), [1, 2].map(|index| l.weights(index)))?, l)
        }
        Op::ArgMinMax(op) => ArgMinMaxStep::new(op, l.input(0)).into(),
        Op::CumulativeSum(op) => CumulativeSumStep::new(op, l.input(0)).into(),
        Op::Softmax(op) => SoftmaxStep::new(op, l.input(0)).into(),
        Op::Quantize(op) => quantize::step(*op, [l.input(0), l.input(1), l.input(2)], output).into(),
        Op::BatchNormalization(op) => ChannelNormStep::batch(op, l.input(0)).into(),
        Op::InstanceNormalization(op) => ChannelNormStep::instance(op, l.input(0)).into(),
        Op::LayerNormalization(op) => LayerNormStep::new(op, l.input(0)).into(),
    })
}

fn lower_fusion(fusion: &Fusion, l: &mut Lowering) -> Result<Step> {
    Ok(match fusion {
        Fusion::Fused(program) => {
            let operands: Vec<ProgramOperand> =
                l.inputs().enumerate().map(|(i, input)| (input, l.constant(i))).collect();
            if let Some(step) = ByteSumStep::new(l.env.isa, program, &operands, l.output())? {
                return Ok(step.into());
            }
            match ByteTableStep::new(&l.env, program, &operands, l.output())? {
                Some(step) => step.into(),
                None => ElementwiseStep::new(program, l.inputs(), l.output()).into(),
            }
        }
        Fusion::Attention(op) => AttentionStep::new(op, l.input(1).dtype, l.env.isa).into(),
        Fusion::RmsNormalization(op) => LayerNormStep::root_mean_square(op, l.input(0)).into(),
        Fusion::Quantized(op) => lower_quantized(op, l)?,
        Fusion::BlockProduct(op) => lower_block_product(op, l)?,
    })
}

fn lower_elementwise(op: Elementwise, l: &Lowering) -> Step {
    let types: Vec<DataType> = l.inputs().map(|input| input.dtype).collect();
    ElementwiseStep::new(&Fused::single(op, &types), l.inputs(), l.output()).into()
}

fn lower_extension(op: &Extension, l: &mut Lowering) -> Result<Step> {
    Ok(match op {
        Extension::Col2Im(op) => Col2ImStep(op.clone()).into(),
        Extension::CropAndResize(op) => CropAndResizeStep::new(op, l.input(0), l.input(2)).into(),
        Extension::DeformColumns(op) => DeformColumnsStep::new(op, l.input(0), l.input(1)).into(),
        Extension::Dft(op) => DftStep::new(op, l.input(0))?.into(),
        Extension::DynamicQuantizeLstm(op) => lower_dynamic_quantize_lstm(op, l)?,
        Extension::Elementwise(Extended(op)) => lower_elementwise(*op, l),
        Extension::ExpertProduct(op) => lower_expert_product(op, l)?,
        Extension::GridSample(op) => GridSampleStep::new(op, l.input(0), l.output()).into(),
        Extension::IntegerProduct(op) => lower_integer_product(op, l)?,
        Extension::LinearAttention(op) => {
            LinearAttentionStep::new(&l.env, op, [0, 1, 2].map(|index| l.input(index))).into()
        }
        Extension::LogSoftmax(op) => SoftmaxStep::log(op, l.input(0)).into(),
        Extension::MaxRoiPool(op) => MaxRoiPoolStep::new(op, l.input(0)).into(),
        Extension::PairwiseCoupling(op) => PairwiseCouplingStep(op.clone()).into(),
        Extension::RoiAlign(op) => RoiAlignStep::new(op, [l.input(0), l.input(2)]).into(),
        Extension::Rotate(op) => RotateStep::new(op, l.input(0), l.input(1)).into(),
        Extension::ScatterElementsReduced(op) => {
            ScatterElementsStep::new(op.reduction, op.axis, [l.input(0), l.input(1)])?.into()
        }
        Extension::ScatterNdReduced(op) => {
            ScatterRowsStep::by_coordinates(op.reduction, [l.input(0), l.input(1)]).into()
        }
        Extension::TopK(op) => TopKStep::new(op, l.input(0)).into(),
        Extension::TreeEnsemble(op) => lower_trees(op, l)?,
    })
}

/// The shape of a product or convolution.
fn dense_shape(op: &Op, l: &Lowering) -> Option<DenseShape> {
    let images = || [l.input(0), l.input(1), l.output()];
    Some(match op {
        Op::Matmul(_) => dense::matmul_shape(l.input(0), l.input(1), l.output()),
        Op::Gemm(op) => dense::gemm_shape(&op.attributes, l.input(0), l.output(), l.given(2)),
        Op::Conv2d(op) => DenseShape::Conv2d(dense::conv2d_shape(&op.attributes, images())),
        Op::ConvTranspose2d(op) => dense::conv_transpose2d_shape(&op.attributes, images()),
        _ => return None,
    })
}

/// Calls `work` with what follows the product of a node: its optional addend, at operand `addend`, and its epilogue.
fn with_following<R>(l: &mut Lowering, addend: usize, work: impl FnOnce(&Lowering, &Following) -> R) -> R {
    let nothing = Epilogue::default();
    let Epilogue { program, operands } = l.epilogue.take().unwrap_or(&nothing);
    let addend = l.given(addend).map(|_| addend);
    let operands: Vec<&Descriptor> = operands.iter().map(|&id| l.graph.descriptor(id)).collect();
    work(l, &Following { addend, program, output: l.output(), operands: &operands, first: l.count() })
}

fn lower_dense(shape: DenseShape, l: &mut Lowering) -> Result<Step> {
    let constants = [l.weights(0), l.weights(1)];
    let right = l.input(1).dtype;
    let new =
        |l: &Lowering, following: &Following| DenseStep::new(&l.env, shape, constants, right, l.winograd, following);
    let step = with_following(l, 2, new)?;
    l.packed.extend(step.packed_operands());
    Ok(step.into())
}

fn lower_double_product(op: &Op, l: &Lowering) -> Step {
    let factors = if let Op::Gemm(op) = op { [op.attributes.alpha, op.attributes.beta] } else { [1.0, 0.0] };
    let Some(DenseShape::Matmul(shape)) = dense_shape(op, l) else { unreachable!("a product") };
    DoubleProductStep::new(shape, factors).into()
}

fn lower_quantized(op: &Quantized, l: &mut Lowering) -> Result<Step> {
    let given = |index| l.given(index).map(|_| index);
    let node = QuantizedNode {
        scales: l.buffer(2)?,
        zeros: l.buffer(3)?,
        bias: l.buffer(4)?,
        addend: l.buffer(7)?,
        computed: ComputedOperands { zero: given(5), filter_zero: None, factor: given(6) },
        ..quantized_node(op, l)
    };
    let step = QuantizedStep::new(&node)?;
    l.pack(1, step.packs());
    [2, 3, 4, 7].into_iter().for_each(|index| l.pack(index, l.given(index).is_some()));
    Ok(step.into())
}

/// What lowers to a product of bytes without scales and zero points.
fn quantized_node<'a>(op: &'a Quantized, l: &Lowering<'a>) -> QuantizedNode<'a> {
    QuantizedNode {
        op,
        sums: false,
        env: l.env,
        input: l.input(0),
        filter: (l.constant(1), l.input(1)),
        scales: None,
        zeros: None,
        bias: None,
        addend: None,
        computed: ComputedOperands::default(),
        output: l.output(),
    }
}

fn lower_integer_product(op: &IntegerProduct, l: &mut Lowering) -> Result<Step> {
    let computed = |index| l.given(index).filter(|_| l.constant(index).is_none()).map(|_| index);
    let zero = l.buffer(2)?.map_or(0, |zero| match l.input(2).dtype {
        DataType::Int8 => zero.bytes()[0] as i8 as i16,
        _ => zero.bytes()[0] as i16,
    });
    let (min, max) = (f32::NEG_INFINITY, f32::INFINITY);
    let op = Quantized { product: op.product.clone(), input: Scale { scale: 1.0, zero }, min, max, output: None };
    let node = QuantizedNode {
        sums: true,
        zeros: l.buffer(3)?,
        computed: ComputedOperands { zero: computed(2), filter_zero: computed(3), factor: None },
        ..quantized_node(&op, l)
    };
    let step = QuantizedStep::new(&node)?;
    l.pack(1, step.packs());
    [2, 3].into_iter().for_each(|index| l.pack(index, l.constant(index).is_some()));
    Ok(step.into())
}

fn lower_expert_product(op: &ExpertProduct, l: &mut Lowering) -> Result<Step> {
    const MADE: &str = "translations make experts of constants";
    let (b, weights) = (l.input(2), l.weights(2).expect(MADE));
    let scale = l.given(3).map(|scale| scale.sizes().to_vec());
    let blocks = op.blocks(&b.sizes(), scale.as_deref());
    let experts = match l.constant(3) {
        Some(scales) => {
            let halves = scales.halves();
            let operands = blocks::Operands {
                numbers: (l.constant(2).expect(MADE), b.dtype),
                scales: halves.as_ref().map_or((scales, l.input(3).dtype), |halves| (halves, DataType::Float16)),
                zeros: l.constant(4),
                blocks,
                by_column: true,
                one_column: false,
                table: None,
            };
            Experts::Blocks(BlockPanels::new(l.env.isa, weights, &operands)?)
        }
        None => {
            let layout = Layout::Strided { lane_stride: blocks.depth, depth_stride: 1 };
            let width = tile_size(l.env.isa).cols;
            Experts::Floats(Panels::new(l.env.isa, weights, layout, blocks.columns, blocks.depth, width)?)
        }
    };
    (2..l.count()).for_each(|index| l.pack(index, l.given(index).is_some()));
    Ok(ExpertProductStep::new(&l.env, op, experts, [l.input(0), l.output()]).into())
}

fn lower_dynamic_quantize_lstm(op: &DynamicQuantizeLstm, l: &mut Lowering) -> Result<Step> {
    let [numbers, scales, zeros] =
        [2, SCALE, SCALE + 1].map(|index| l.constant(index).expect("translations make it a constant"));
    let numbers = (numbers, l.input(2).dtype);
    let step = LstmStep::quantized(&l.env, &op.0, l.input(0), l.weights(1), numbers, [scales, zeros])?;
    [SCALE, SCALE + 1].into_iter().for_each(|index| l.pack(index, true));
    Ok(lower_recurrent(step, l))
}

fn lower_trees(op: &TreeEnsemble, l: &mut Lowering) -> Result<Step> {
    let constant = |index: usize| {
        let bytes = l.buffer(index)?;
        bytes
            .ok_or_else(|| Error::new(ErrorKind::Operation, "treeEnsemble: its trees are computed, expected constants"))
    };
    let operands = [constant(1)?, constant(2)?, constant(3)?, constant(4)?, constant(5)?, constant(6)?];
    let step = TreeEnsembleStep::new(op, l.input(0), &operands)?;
    l.packed.extend(step.packed_operands());
    Ok(step.into())
}

fn lower_block_product(op: &BlockProduct, l: &mut Lowering) -> Result<Step> {
    const MADE: &str = "the pass accepts only constants";
    let (b, scale) = (l.input(1), l.input(2));
    let blocks = op.blocks(&b.sizes(), &scale.sizes());
    let scales = l.constant(2).expect(MADE);
    let halves = scales.halves();
    let numbers = l.constant(1).expect(MADE);
    let places = numbers.places();
    let operands = blocks::Operands {
        numbers: places.as_ref().map_or((numbers, b.dtype), |(places, _)| (places, DataType::Uint4)),
        scales: halves.as_ref().map_or((scales, scale.dtype), |halves| (halves, DataType::Float16)),
        zeros: l.constant(3),
        blocks,
        by_column: op.b_transpose,
        one_column: scale.elements() < blocks.columns * blocks.count,
        table: places.as_ref().map(|(_, table)| *table),
    };
    let panels = BlockPanels::new(l.env.isa, l.weights(1).expect(MADE), &operands)?;
    (1..4).for_each(|index| l.pack(index, l.given(index).is_some()));
    let step = |l: &Lowering, following: &Following| {
        BlockProductStep::new(&l.env, l.input(0), panels, op.rounds_rows, following)
    };
    Ok(with_following(l, 4, step).into())
}

fn lower_recurrent<C: Cell>(step: RecurrentStep<C>, l: &mut Lowering) -> Step
where
    Step: From<RecurrentStep<C>>,
{
    let [weights, recurrent] = step.keeps_weights();
    l.pack(1, weights);
    l.pack(2, recurrent);
    step.into()
}
