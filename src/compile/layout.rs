//! Layout assignment: convolutional networks compute with channels last, whatever the layout of the graph.
//!
//! With channels last, a pixel is a row of a matrix: products read it without packing, and the lanes of vectors hold
//! channels in every kernel. The pass uses only operators of the draft. A convolution or a pool reads the transposed
//! image; the operators after it work on transposed values as long as they can; transposes remain at the borders, and
//! adjacent ones cancel in [`simplify`](super::simplify). Images and groups of a few channels stay as they are: their
//! planes fill vectors, their pixels do not.

use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::ir::{Graph, Node, Source, ValueId};
use crate::ops::conv2d::{Conv2d, Conv2dAttributes};
use crate::ops::pool2d::{Pool2d, Pool2dAttributes, PoolKind};
use crate::ops::quantized::ProductKind;
use crate::ops::reshape::Reshape;
use crate::ops::spatial::InputLayout;
use crate::ops::transpose::Transpose;
use crate::ops::{Api, Extension, Op, Operation, Operator};
use crate::shape::Descriptor;
use std::collections::{HashMap, HashSet};

/// Minimum number of output channels for which transposing the image of a convolution of either kind pays: fewer leave
/// most vector lanes empty.
const MIN_CHANNELS: u32 = 8;

/// Minimum number of channels of a pooled image, and of output channels of a group: a vector. With two of them, two
/// transpositions and the kernel for channels last take 0.4 to 0.9 of the time of the kernel for channels first; with
/// three channels, several times as long. This does not hold for the pools of [`Rewrite::pools_planes`].
const VECTOR: u32 = 16;

/// Maximum size of a window, and number of strides by which it reaches to either side, with which float32 is pooled straight
/// from planes on all CPUs.
const MOST_POOLED: u32 = 16;
const MOST_STRIDES: u32 = 4;

/// Maximum input channels of a convolution, and output channels of a group, that is as fast with channels first, if it
/// is the only one: nothing else gains from the transpositions. A single input channel costs less than storing any
/// number of outputs twice.
const FEW_INPUTS: u32 = 16;
const FEW_OUTPUTS: u32 = 96;

/// Maximum elements of a signal under 100 outputs for that, if these are as dense as its inputs: its only row is cut so
/// that padded copies stay in caches.
const UNDER_OUTPUTS: u32 = 10_000;

/// Maximum input channels of one of several groups for that.
const MOST_INPUTS: u32 = 32;

/// Maximum height of a filter for that: the patches of larger ones are images of their own.
const FEW_TAPS: u32 = 9;

/// Maximum elements of the input of a group under a row of outputs for that: its padded copy stays in caches.
const UNDER_ROW: u32 = 1 << 16;

/// Minimum pixels of an image, and maximum inputs of a group, for which a product of its planes and a 1 by 1 filter is as
/// fast, too. With 49 pixels it takes 1.4 times as long, with 1024 inputs 1.1 times.
const MANY_PIXELS: u32 = 512;
const SHALLOW: u32 = 512;

/// Minimum width of an image for which the same holds for a depthwise convolution: its rows fill vectors.
const WIDE: u32 = 32;

/// If at least one in this many convolutions is grouped, all stay unchanged: grouped ones would be transposed back and
/// forth.
const MOST_GROUPED: usize = 4;

/// Rewrites channels-first convolutions and pools, and the operators around them, to channels last.
pub fn channels_last(graph: &mut Graph) {
    let starts = |node: &Node| matches!(node.op, Api(Op::Conv2d(_) | Op::ConvTranspose2d(_) | Op::Pool2d(_)));
    let has_integers = graph.nodes.iter().any(convolves_integers);
    if !has_integers && !graph.nodes.iter().any(starts) {
        return;
    }
    let weights = super::quantized::weights(graph);
    let float = |node: &&Node| node.inputs.get(1).is_some_and(|id| id.is_none_or(|id| !weights.contains(&id)));
    let convolutions = graph.nodes.iter().filter(|node| Groups::of(graph, node).is_some()).count();
    let grouped = graph.nodes.iter().filter(float).filter(|node| Groups::of(graph, node) == Some(Groups::Small));
    let grouped = grouped.count();
    let keeps_convolutions = grouped > 0 && grouped * MOST_GROUPED >= convolutions;
    let is_alone = !has_integers
        && graph.nodes.iter().filter(|node| is_convolution(node)).count() == 1
        && !graph.nodes.iter().any(gains_from_layout);
    let nodes = std::mem::take(&mut graph.nodes);
    let caches = graph.caches();
    let (last, absent) = (HashMap::new(), HashMap::new());
    let mut rewrite = Rewrite { graph, keeps_convolutions, is_alone, has_integers, weights, caches, last, absent };
    for node in nodes {
        rewrite.node(node);
    }
    for (_, id) in rewrite.graph.outputs.clone() {
        rewrite.plain(id);
    }
    graph.drop_unused();
}

fn is_convolution(node: &Node) -> bool {
    matches!(node.op, Api(Op::Conv2d(_) | Op::ConvTranspose2d(_)))
}

/// Whether an operator beside a convolution is cheaper with channels last, or takes back what transposes its image.
fn gains_from_layout(node: &Node) -> bool {
    matches!(node.op, Api(Op::Pool2d(_) | Op::Transpose(_)))
}

fn convolves_integers(node: &Node) -> bool {
    let Operation::Extension(Extension::IntegerProduct(op)) = &node.op else { return false };
    matches!(op.product, ProductKind::Conv2d(_))
}

/// The kind of grouping of a channels-first convolution.
#[derive(Clone, Copy, PartialEq)]
enum Groups {
    /// A single group, or groups that fill vectors.
    Large,
    /// One group per input channel.
    Depthwise,
    /// A few channels per group: with channels last, they leave vector lanes empty.
    Small,
}

impl Groups {
    fn of(graph: &Graph, node: &Node) -> Option<Groups> {
        let Api(Op::Conv2d(op)) = &node.op else { return None };
        let [outputs, inputs, _, _] = op.attributes.filter_layout.axes();
        if op.attributes.input_layout != InputLayout::Nchw {
            return None;
        }
        let filter = &graph.descriptor(node.inputs[1]?).shape;
        Some(match op.attributes.groups {
            1 => Groups::Large,
            _ if filter[inputs] == 1 => Groups::Depthwise,
            groups if filter[outputs] / groups >= VECTOR => Groups::Large,
            _ => Groups::Small,
        })
    }
}

/// The channels-first dimension at each channels-last position.
fn axes(rank: usize) -> Vec<usize> {
    [0].into_iter().chain(2..rank).chain([1]).collect()
}

/// The channels-last dimension at each channels-first position.
fn inverse(rank: usize) -> Vec<usize> {
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

/// The channels-last form of a value.
#[derive(Clone, Copy)]
struct Last {
    id: ValueId,
    /// Whether a node computes this form directly, rather than a transpose for one reader.
    native: bool,
}

struct Rewrite<'g> {
    graph: &'g mut Graph,
    /// Whether convolutions stay as they are.
    keeps_convolutions: bool,
    /// Whether there is a single convolution, and nothing else that gains from channels last.
    is_alone: bool,
    /// Whether the graph convolves integers, whose images have channels last: the operators after them follow.
    has_integers: bool,
    /// Filters that are constant, but still quantized and therefore not folded yet.
    weights: HashSet<ValueId>,
    /// For each value of the original graph, the input that it begins with, if it shares the memory of one.
    caches: Vec<Option<ValueId>>,
    /// The channels-last value of each channels-first value.
    last: HashMap<ValueId, Last>,
    /// Values without a node yet, each with the channels-last value it would be transposed from.
    absent: HashMap<ValueId, ValueId>,
}

impl Rewrite<'_> {
    fn rank(&self, id: ValueId) -> usize {
        self.graph.descriptor(id).rank()
    }

    fn is_native(&self, id: ValueId) -> bool {
        self.last.get(&id).is_some_and(|last| last.native)
    }

    fn add_value(&mut self, like: ValueId, shape: Vec<Dim>) -> ValueId {
        let dtype = self.graph.descriptor(like).dtype;
        self.graph.add_value(Descriptor::new(dtype, shape), Source::Node)
    }

    /// Appends a node without origins in the graph as built.
    fn push(&mut self, op: impl Into<Operation>, input: ValueId, output: ValueId) {
        let (op, inputs, outputs) = (op.into(), vec![Some(input)], vec![output]);
        let (label, epilogue, prologues, origins) = Default::default();
        self.graph.nodes.push(Node { op, label, inputs, outputs, epilogue, prologues, origins });
    }

    fn push_transpose(&mut self, axes: Vec<usize>, input: ValueId, output: ValueId) {
        let permutation = Some(axes.into_iter().map(|axis| axis as u32).collect());
        self.push(Transpose { permutation }, input, output);
    }

    /// Ensures that `id` is also computed in its original layout.
    fn plain(&mut self, id: ValueId) {
        if let Some(last) = self.absent.remove(&id) {
            self.push_transpose(inverse(self.rank(id)), last, id);
        }
    }

    /// Returns `id` with channels last.
    fn last(&mut self, id: ValueId) -> ValueId {
        if let Some(last) = self.last.get(&id) {
            return last.id;
        }
        let axes = axes(self.rank(id));
        let shape = axes.iter().map(|&axis| self.graph.descriptor(id).shape[axis]).collect();
        let last = self.add_value(id, shape);
        self.push_transpose(axes, id, last);
        self.last.insert(id, Last { id: last, native: false });
        last
    }

    /// Returns `id`, which broadcasts to `rank` dimensions, with channels last.
    fn broadcast_last(&mut self, id: ValueId, rank: usize) -> ValueId {
        let own = &self.graph.descriptor(id).shape;
        if own.len() == rank {
            return self.last(id);
        }
        if own.iter().all(|&size| size == 1) {
            return id;
        }
        let mut new_shape = vec![Dim::number(1); rank - own.len()];
        new_shape.extend(own);
        self.plain(id);
        let whole = self.add_value(id, new_shape.clone());
        self.push(Reshape { new_shape }, id, whole);
        self.last(whole)
    }

    fn node(&mut self, node: Node) {
        let rewritten = match &node.op {
            Api(Op::Conv2d(_)) if self.keeps_convolutions => None,
            Api(Op::Conv2d(op)) => self.convolution(op, &node),
            op if self.fills_vectors(&node) => self.spatial(op, &node),
            Api(Op::Reshape(_)) => self.reshape(&node),
            Api(Op::Transpose(op)) => self.transpose(op, &node),
            Api(Op::Reduce(op)) if !op.attributes.keep_dimensions => {
                self.reduction(op.attributes.axes.as_deref(), &node)
            }
            Api(Op::ArgMinMax(op)) if !op.attributes.keep_dimensions => {
                self.reduction(Some(&[op.attributes.axis]), &node)
            }
            op => self.follower(op, &node),
        };
        if rewritten.is_none() {
            node.reads().for_each(|&id| self.plain(id));
            self.graph.nodes.push(node);
        }
    }

    /// Appends `op` on `inputs`, which computes the outputs of `node` with channels last.
    fn push_native(&mut self, op: Operation, inputs: Vec<Option<ValueId>>, node: &Node) {
        let mut outputs = Vec::new();
        for &id in &node.outputs {
            let axes = axes(self.rank(id));
            let shape = axes.iter().map(|&axis| self.graph.descriptor(id).shape[axis]).collect();
            let last = self.add_value(id, shape);
            self.last.insert(id, Last { id: last, native: true });
            self.absent.insert(id, last);
            outputs.push(last);
        }
        self.graph.nodes.push(Node { op, inputs, outputs, ..node.clone() });
    }

    /// The operands of `node`, the first `count` of them transposed.
    fn operands(&mut self, node: &Node, count: usize, rank: usize) -> Vec<Option<ValueId>> {
        let mut inputs = node.inputs.clone();
        for (index, id) in inputs.iter_mut().enumerate().filter_map(|(index, id)| Some((index, id.as_mut()?))) {
            if index < count {
                *id = self.broadcast_last(*id, rank);
            } else {
                self.plain(*id);
            }
        }
        inputs
    }

    /// Rewrites a convolution to channels last if its filter can be packed for that when the graph is built.
    fn convolution(&mut self, op: &Conv2d, node: &Node) -> Option<()> {
        let (image, filter) = (node.inputs[0]?, node.inputs[1]?);
        let last = op.transposed(&axes(4))?;
        let [output_channels, _, _, _] = op.attributes.filter_layout.axes();
        let channels = self.graph.descriptor(filter).shape[output_channels];
        let suits = match Groups::of(self.graph, node)? {
            Groups::Small if !self.weights.contains(&filter) => false,
            _ => channels >= MIN_CHANNELS || self.is_native(image),
        };
        let gains_nothing = self.is_alone && !self.last.contains_key(&image) && !self.weights.contains(&filter);
        if gains_nothing && self.suits_planes(op, [image, filter]) {
            return None;
        }
        let known = self.graph.value(filter).constant().is_some() || self.weights.contains(&filter);
        if !known || !suits {
            return None;
        }
        let inputs = self.operands(node, 1, 4);
        self.push_native(last.into(), inputs, node);
        Some(())
    }

    /// Whether a convolution with a constant filter is as fast with channels first.
    fn suits_planes(&self, op: &Conv2d, [image, filter]: [ValueId; 2]) -> bool {
        let [outputs, inputs, high, wide] = op.attributes.filter_layout.axes();
        let [image, filter] = [image, filter].map(|id| &self.graph.descriptor(id).shape);
        let Conv2dAttributes { groups, strides, dilations, padding, .. } = &op.attributes;
        let is_one = filter[high] == 1 && filter[wide] == 1;
        let is_pointwise = is_one && *strides == [1; 2] && padding.iter().all(|&size| size == 0);
        if is_pointwise && filter[inputs] <= SHALLOW && image[2] * image[3] >= MANY_PIXELS {
            return true;
        }
        let is_signal = image[2] == 1 && filter[high] == 1;
        let under = filter[inputs] * ((filter[wide] - 1) * dilations[1] + 100);
        if is_signal && !is_one && *groups == 1 && strides[1] == 1 && image[3] >= WIDE && under <= UNDER_OUTPUTS {
            return true;
        }
        let rows = (filter[high] - 1) * dilations[0] + strides[0];
        let few = (filter[inputs] == 1 || filter[outputs] / *groups <= FEW_OUTPUTS) && filter[high] <= FEW_TAPS;
        few && (is_signal || filter[inputs] * image[3] * rows <= UNDER_ROW)
            && match groups {
                1 => filter[inputs] <= FEW_INPUTS && !is_one,
                _ => filter[inputs] <= MOST_INPUTS && (filter[inputs] > 1 || image[3] >= WIDE),
            }
    }

    /// Whether an operator is worth transposing its image for: a pool with enough channels, if they are first, or a
    /// transposed convolution with enough outputs per group, whose filter can be packed when the graph is built.
    fn fills_vectors(&self, node: &Node) -> bool {
        let shape = |operand: usize| node.inputs[operand].map(|id| &self.graph.descriptor(id).shape);
        match &node.op {
            Api(Op::Pool2d(op)) if op.attributes.layout == InputLayout::Nchw => {
                let Some(id) = node.inputs[0] else { return false };
                let image = &self.graph.descriptor(id).shape;
                let (is_native, has_last) = (self.is_native(id), self.last.contains_key(&id));
                // Two transpositions cost more than a global pool, or one of few channels, saves.
                let is_global = op.attributes.window_dimensions.as_ref().is_none_or(|window| {
                    let mut sizes = image[2..].iter().zip(window);
                    sizes.all(|(&size, &window)| size <= window)
                });
                let stays = is_global || !has_last && self.pools_planes(op, node);
                (is_native || !stays) && image[1] >= if is_native { VECTOR } else { 2 * VECTOR }
            }
            Api(Op::ConvTranspose2d(op)) => {
                let [_, outputs, _, _] = op.attributes.filter_layout.axes();
                let constant = |id: ValueId| self.graph.value(id).constant().is_some();
                node.inputs[1].is_some_and(constant) && shape(1).is_some_and(|filter| filter[outputs] >= MIN_CHANNELS)
            }
            _ => false,
        }
    }

    /// Whether a pool with channels first takes no longer than one transposition.
    fn pools_planes(&self, op: &Pool2d, node: &Node) -> bool {
        let Pool2dAttributes { window_dimensions, padding, strides, dilations, .. } = &op.attributes;
        let Some([height, width]) = window_dimensions.as_deref() else { return false };
        let is_float = self.graph.descriptor(node.outputs[0]).dtype == DataType::Float32;
        let last = Dim::from(*width - 1) * dilations[1] - padding[2];
        let is_near = |side: Dim| side <= MOST_STRIDES * strides[1];
        let is_small = *height <= MOST_POOLED && *width <= MOST_POOLED && strides[1] <= 2;
        is_float && op.kind != PoolKind::L2 && is_small && is_near(padding[2]) && is_near(last)
    }

    /// Rewrites an operator on an image to channels last.
    fn spatial(&mut self, op: &Operation, node: &Node) -> Option<()> {
        let op = op.transposed(&axes(4))?;
        let inputs = self.operands(node, 1, 4);
        self.push_native(op, inputs, node);
        Some(())
    }

    /// Rewrites any other operator to channels last if one of its operands is already computed in that form.
    fn follower(&mut self, op: &Operation, node: &Node) -> Option<()> {
        let count = match op {
            Api(Op::Quantize(_) | Op::Concat(_)) => node.inputs.len(),
            _ if op.elementwise().is_some() => node.inputs.len(),
            _ => 1,
        };
        // Caches have a layout of their own.
        if self.caches[node.outputs[0].index()].is_some() {
            return None;
        }
        let rank = self.rank(node.outputs[0]);
        // Elements already channels last, and elements that would need a transpose.
        let (mut native, mut foreign) = (Dim::number(0), Dim::number(0));
        for &id in node.inputs[..count].iter().flatten() {
            let elements = self.graph.descriptor(id).count();
            match self.last.get(&id) {
                Some(last) if last.native && self.rank(id) == rank => native += elements,
                None if self.graph.value(id).constant().is_none() => foreign += elements,
                _ => {}
            }
        }
        if rank < 3 || native == 0 || native < foreign {
            return None;
        }
        let op = op.transposed(&axes(rank))?;
        let inputs = self.operands(node, count, rank);
        self.push_native(op, inputs, node);
        Some(())
    }

    /// Rewrites a reduction that drops dimensions, if the order of the others stays the same.
    fn reduction(&mut self, reduced: Option<&[u32]>, node: &Node) -> Option<()> {
        let input = node.inputs[0].filter(|&id| self.is_native(id))?;
        let axes = axes(self.rank(input));
        let is_reduced = |axis: usize| reduced.is_none_or(|reduced| reduced.contains(&(axis as u32)));
        let stays: Vec<usize> = axes.iter().copied().filter(|&axis| !is_reduced(axis)).collect();
        let op = node.op.transposed(&axes).filter(|_| stays.is_sorted())?;
        let inputs = vec![Some(self.last(input))];
        self.graph.nodes.push(Node { op, inputs, ..node.clone() });
        Some(())
    }

    /// Rewrites a reshape that keeps batches and channels apart from the rest.
    fn reshape(&mut self, node: &Node) -> Option<()> {
        let (input, output) = (node.inputs[0]?, node.outputs[0]);
        let (from, to) = (&self.graph.descriptor(input).shape, &self.graph.descriptor(output).shape);
        let last = *self.last.get(&input)?;
        if from.len() < 3 || to.len() < 3 || from[..2] != to[..2] {
            return None;
        }
        let new_shape: Vec<Dim> = axes(to.len()).into_iter().map(|axis| to[axis]).collect();
        if last.native {
            self.push_native(Reshape { new_shape }.into(), vec![Some(last.id)], node);
            return Some(());
        }
        // Keeps both forms: neither copies bytes.
        let id = self.add_value(output, new_shape.clone());
        self.push(Reshape { new_shape }, last.id, id);
        self.last.insert(output, Last { id, native: false });
        None
    }

    /// Rewrites a transpose to read whichever form of its operand exists. If it transposes from channels last, its
    /// operand is the channels-last form of the output.
    fn transpose(&mut self, op: &Transpose, node: &Node) -> Option<()> {
        let (input, output) = (node.inputs[0]?, node.outputs[0]);
        let rank = self.rank(input);
        let own = op.axes(rank);
        if rank >= 3 && own == inverse(rank) && !self.absent.contains_key(&input) {
            self.last.insert(output, Last { id: input, native: self.has_integers });
        }
        let last = self.absent.get(&input).copied()?;
        let inverse = inverse(rank);
        let permutation = Some(own.into_iter().map(|axis| inverse[axis] as u32).collect());
        self.graph.nodes.push(Node { op: Transpose { permutation }.into(), inputs: vec![Some(last)], ..node.clone() });
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::simplify::simplify;
    use crate::testing::{check_pass, check_pass_changes_nothing};

    /// The pass, followed by the one that cancels transposes.
    fn pass(graph: &mut Graph) {
        channels_last(graph);
        simplify(graph);
    }

    #[test]
    fn a_chain_of_image_operators_is_transposed_at_its_borders() {
        check_pass(
            pass,
            "%0 = input x float32 [1, 3, 8, 8]
             %1 = constant float32 [8, 3, 3, 3]
             %2 = conv2d %0 %1 padding=[1, 1, 1, 1]
             %3 = relu %2
             %4 = maxPool2d %3 windowDimensions=[2, 2] strides=[2, 2]
             %5 = constant float32 [8, 1, 3, 3]
             %6 = conv2d %4 %5 groups=8
             output y = %6",
            "%0 = input x float32 [1, 3, 8, 8]
             %1 = transpose %0 permutation=[0, 2, 3, 1]
             %2 = constant float32 [8, 3, 3, 3]
             %3 = conv2d %1 %2 inputLayout=nhwc padding=[1, 1, 1, 1]
             %4 = relu %3
             %5 = maxPool2d %4 layout=nhwc strides=[2, 2] windowDimensions=[2, 2]
             %6 = constant float32 [8, 1, 3, 3]
             %7 = conv2d %5 %6 groups=8 inputLayout=nhwc
             %8 = transpose %7 permutation=[0, 3, 1, 2]
             output y = %8",
        );
    }

    #[test]
    fn operators_after_convolutions_of_integers_follow() {
        check_pass(
            pass,
            "%0 = input x uint8 [1, 8, 5, 4]
             %1 = transpose %0 permutation=[0, 2, 3, 1]
             %2 = constant int8 [8, 8, 1, 1]
             %3 = convInteger %1 %2 inputLayout=nhwc
             %4 = transpose %3 permutation=[0, 3, 1, 2]
             %5 = cast %4 dataType=uint8
             %6 = transpose %5 permutation=[0, 2, 3, 1]
             %7 = convInteger %6 %2 inputLayout=nhwc
             output y = %7",
            "%0 = input x uint8 [1, 8, 5, 4]
             %1 = transpose %0 permutation=[0, 2, 3, 1]
             %2 = constant int8 [8, 8, 1, 1]
             %3 = convInteger %1 %2 inputLayout=nhwc
             %4 = cast %3 dataType=uint8
             %5 = convInteger %4 %2 inputLayout=nhwc
             output y = %5",
        );
    }

    #[test]
    fn residuals_and_operands_of_channels_follow() {
        check_pass(
            pass,
            "%0 = input x float32 [2, 8, 4, 4]
             %1 = constant float32 [8, 8, 1, 1]
             %2 = conv2d %0 %1
             %3 = input s float32 [8, 1, 1]
             %4 = mul %2 %3
             %5 = add %4 %0
             %6 = reduceMean %5 axes=[2, 3]
             output y = %6",
            "%0 = input x float32 [2, 8, 4, 4]
             %1 = input s float32 [8, 1, 1]
             %2 = transpose %0 permutation=[0, 2, 3, 1]
             %3 = constant float32 [8, 8, 1, 1]
             %4 = conv2d %2 %3 inputLayout=nhwc
             %5 = reshape %1 newShape=[1, 8, 1, 1]
             %6 = transpose %5 permutation=[0, 2, 3, 1]
             %7 = mul %4 %6
             %8 = add %7 %2
             %9 = reduceMean %8 axes=[1, 2]
             output y = %9",
        );
    }

    #[test]
    fn every_operator_that_can_follow_does() {
        check_pass(
            pass,
            "%0 = input x float32 [1, 8, 6, 6]
             %1 = constant float32 [8, 8, 1, 1]
             %2 = conv2d %0 %1
             %3, %4 = split %2 splits=2 axis=1
             %5 = concat %4 %3 axis=1
             %6 = pad %5 beginningPadding=[0, 0, 1, 2] endingPadding=[0, 0, 0, 1]
             %7 = slice %6 starts=[0, 1, 2, 3] sizes=[1, 4, 5, 6]
             %8 = resample2d %7 scales=[2, 1]
             %9 = softmax %8 axis=1
             %10 = instanceNormalization %9
             %11 = argMax %10 axis=1
             output y = %11",
            "%0 = input x float32 [1, 8, 6, 6]
             %1 = transpose %0 permutation=[0, 2, 3, 1]
             %2 = constant float32 [8, 8, 1, 1]
             %3 = conv2d %1 %2 inputLayout=nhwc
             %4, %5 = split %3 axis=3 splits=2
             %6 = concat %5 %4 axis=3
             %7 = pad %6 beginningPadding=[0, 1, 2, 0] endingPadding=[0, 0, 1, 0]
             %8 = slice %7 sizes=[1, 5, 6, 4] starts=[0, 2, 3, 1]
             %9 = resample2d %8 axes=[1, 2] scales=[2.0, 1.0]
             %10 = softmax %9 axis=3
             %11 = instanceNormalization %10 epsilon=9.999999747378752e-6 layout=nhwc
             %12 = argMax %11 axis=3
             output y = %12",
        );
    }

    #[test]
    fn transposes_and_reshapes_of_attention_over_pixels_cost_nothing() {
        check_pass(
            pass,
            "%0 = input x float32 [1, 8, 2, 3]
             %1 = constant float32 [8, 8, 1, 1]
             %2 = conv2d %0 %1
             %3 = reshape %2 newShape=[1, 8, 6]
             %4 = transpose %3 permutation=[0, 2, 1]
             %5 = softmax %4 axis=2
             %6 = transpose %5 permutation=[0, 2, 1]
             %7 = reshape %6 newShape=[1, 8, 2, 3]
             %8 = conv2d %7 %1
             %9 = add %8 %2
             output y = %9",
            "%0 = input x float32 [1, 8, 2, 3]
             %1 = transpose %0 permutation=[0, 2, 3, 1]
             %2 = constant float32 [8, 8, 1, 1]
             %3 = conv2d %1 %2 inputLayout=nhwc
             %4 = reshape %3 newShape=[1, 6, 8]
             %5 = softmax %4 axis=2
             %6 = reshape %5 newShape=[1, 2, 3, 8]
             %7 = conv2d %6 %2 inputLayout=nhwc
             %8 = add %7 %3
             %9 = transpose %8 permutation=[0, 3, 1, 2]
             output y = %9",
        );
    }

    #[test]
    fn a_value_that_another_reader_needs_channels_first_is_transposed_for_it() {
        check_pass(
            pass,
            "%0 = input x float32 [1, 8, 2, 3]
             %1 = constant float32 [8, 8, 1, 1]
             %2 = conv2d %0 %1
             %3 = reshape %2 newShape=[1, 48]
             %4 = relu %2
             output y = %3
             output z = %4",
            "%0 = input x float32 [1, 8, 2, 3]
             %1 = transpose %0 permutation=[0, 2, 3, 1]
             %2 = constant float32 [8, 8, 1, 1]
             %3 = conv2d %1 %2 inputLayout=nhwc
             %4 = transpose %3 permutation=[0, 3, 1, 2]
             %5 = reshape %4 newShape=[1, 48]
             %6 = relu %3
             %7 = transpose %6 permutation=[0, 3, 1, 2]
             output y = %5
             output z = %7",
        );
    }

    #[test]
    fn kernels_that_gain_are_transposed_alone() {
        check_pass(
            pass,
            "%0 = input x float32 [1, 32, 8, 8]
             %1 = constant float32 [32, 16, 3, 3]
             %2 = conv2d %0 %1 groups=2
             %3 = sigmoid %0
             %4 = averagePool2d %3 windowDimensions=[6, 6]
             %5 = input z float32 [1, 3, 8, 8]
             %6 = constant float32 [3, 16, 2, 2]
             %7 = convTranspose2d %5 %6 strides=[2, 2]
             output a = %2
             output b = %4
             output c = %7",
            "%0 = input x float32 [1, 32, 8, 8]
             %1 = input z float32 [1, 3, 8, 8]
             %2 = transpose %0 permutation=[0, 2, 3, 1]
             %3 = constant float32 [32, 16, 3, 3]
             %4 = conv2d %2 %3 groups=2 inputLayout=nhwc
             %5 = sigmoid %0
             %6 = transpose %5 permutation=[0, 2, 3, 1]
             %7 = averagePool2d %6 layout=nhwc windowDimensions=[6, 6]
             %8 = transpose %1 permutation=[0, 2, 3, 1]
             %9 = constant float32 [3, 16, 2, 2]
             %10 = convTranspose2d %8 %9 inputLayout=nhwc strides=[2, 2]
             %11 = transpose %4 permutation=[0, 3, 1, 2]
             %12 = transpose %7 permutation=[0, 3, 1, 2]
             %13 = transpose %10 permutation=[0, 3, 1, 2]
             output a = %11
             output b = %12
             output c = %13",
        );
    }

    #[test]
    fn images_without_a_gain_stay() {
        for text in [
            // Few channels, small groups, a filter that is not known yet, channels last already.
            "%0 = input x float32 [1, 3, 8, 8]
             %1 = constant float32 [3, 3, 3, 3]
             %2 = conv2d %0 %1
             %3 = relu %2
             output y = %3",
            "%0 = input x float32 [1, 16, 8, 8]
             %1 = constant float32 [16, 8, 3, 3]
             %2 = conv2d %0 %1 groups=2
             output y = %2",
            "%0 = input x float32 [1, 16, 8, 8]
             %1 = input f float32 [16, 16, 3, 3]
             %2 = conv2d %0 %1
             output y = %2",
            "%0 = input x float32 [1, 8, 8, 16]
             %1 = constant float32 [16, 16, 3, 3]
             %2 = conv2d %0 %1 inputLayout=nhwc
             output y = %2",
            // Planes fill vectors, and nothing else gains.
            "%0 = input x float32 [1, 3, 8, 8]
             %1 = constant float32 [16, 3, 3, 3]
             %2 = conv2d %0 %1
             %3 = relu %2
             output y = %3",
            "%0 = input x float32 [1, 32, 8, 8]
             %1 = constant float32 [32, 16, 3, 3]
             %2 = conv2d %0 %1 groups=2
             output y = %2",
            "%0 = input x float32 [1, 16, 32, 32]
             %1 = constant float32 [16, 1, 3, 3]
             %2 = conv2d %0 %1 groups=16
             output y = %2",
            "%0 = input x float32 [1, 1, 1, 400]
             %1 = constant float32 [128, 1, 1, 10]
             %2 = conv2d %0 %1 strides=[1, 5]
             output y = %2",
            "%0 = input x float32 [1, 80, 1, 300]
             %1 = constant float32 [128, 80, 1, 3]
             %2 = conv2d %0 %1
             output y = %2",
            "%0 = input x float32 [2, 32, 16, 32]
             %1 = constant float32 [128, 32, 1, 1]
             %2 = conv2d %0 %1
             output y = %2",
            "%0 = input x float32 [1, 3, 8, 8]
             %1 = maxPool2d %0
             output y = %1",
            "%0 = input x float32 [1, 64, 8, 8]
             %1 = maxPool2d %0
             output y = %1",
            "%0 = input x float32 [1, 16, 8, 8]
             %1 = maxPool2d %0 windowDimensions=[7, 7]
             output y = %1",
            // Windows that are read straight from planes.
            "%0 = input x float32 [1, 64, 8, 8]
             %1 = maxPool2d %0 windowDimensions=[3, 5]
             %2 = averagePool2d %1 padding=[0, 0, 1, 1] strides=[2, 2] windowDimensions=[2, 3]
             output y = %2",
            "%0 = input x float32 [1, 64, 8, 8]
             %1 = averagePool2d %0 windowDimensions=[8, 8]
             output y = %1",
            "%0 = input x float32 [1, 8, 8, 16]
             %1 = maxPool2d %0 layout=nhwc
             output y = %1",
            "%0 = input x float32 [1, 16, 8, 8]
             %1 = constant float32 [16, 3, 2, 2]
             %2 = convTranspose2d %0 %1 strides=[2, 2]
             output y = %2",
        ] {
            check_pass_changes_nothing(pass, text);
        }
    }
}
