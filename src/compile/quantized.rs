//! Quantized products: `dequantizeLinear` of both operands, a product, a bias, a clamp and `quantizeLinear` become one
//! operator on integers, as do a product of integers, an addend, a cast to floats, a factor, and what follows. Without
//! `quantizeLinear`, it returns floats; the scale and zero point of the first operand, and the factor of the result, may
//! then be computed at run time, as in dynamically quantized models.
//!
//! To find more of them, `dequantizeLinear` moves below operators that only move elements, and disappears where
//! `quantizeLinear` undoes it.

use super::{fold, simplify};
use crate::dimension::Dim;
use crate::dtype::{DataType, Element, Number};
use crate::error::Result;
use crate::ir::{Evaluator, Graph, Node, Source, ValueId};
use crate::memory::elements;
use crate::ops::conv2d::Conv2dAttributes;
use crate::ops::elementwise::Elementwise;
use crate::ops::extension::integer_product::IntegerProduct;
use crate::ops::pad::PaddingMode;
use crate::ops::pool2d::{Pool2d, Pool2dAttributes, PoolKind, Rounding};
use crate::ops::quantize::Quantize;
use crate::ops::quantized::{MAX_DEPTH, ProductKind, Quantized, Scale, is_single};
use crate::ops::resample2d::InterpolationMode;
use crate::ops::reshape::Reshape;
use crate::ops::spatial::InputLayout;
use crate::ops::transpose::Transpose;
use crate::ops::{Api, Extension, Op, Operation};
use crate::shape::Descriptor;
use std::collections::HashSet;

/// Maximum number of operators that move elements between `dequantizeLinear` and a product, or a constant.
const MAX_MOVES: usize = 8;

/// Replaces products of quantized tensors by operators on integers.
///
/// # Errors
/// An `UnknownError` if memory for constants runs out, an `OperationError` if a mapped one cannot be read.
pub fn quantized(graph: &mut Graph, evaluator: &Evaluator) -> Result<()> {
    sink(graph, true)?;
    let weights = weights(graph);
    fold::fold(graph, &weights, evaluator)?;
    join_bytes(graph)?;
    cancel(graph)?;
    simplify::simplify(graph);
    fuse(graph)?;
    simplify::simplify(graph);
    Ok(())
}

/// The values between 8-bit constants and quantized products, which must not be folded to floats before [`quantized`]
/// has seen them.
pub fn weights(graph: &Graph) -> HashSet<ValueId> {
    let producers = graph.producers();
    let producer = |id: ValueId| producers[id.index()].map(|index| &graph.nodes[index]);
    // The values from an operand back to 8-bit integers, past operators that move elements.
    let way = |mut id: ValueId| {
        let mut way = vec![id];
        for _ in 0..MAX_MOVES {
            let node = producer(id)?;
            id = node.inputs[0]?;
            match &node.op {
                Api(Op::Quantize(Quantize::DequantizeLinear)) => return is_byte(graph, id).then_some((way, id)),
                Api(Op::Transpose(_) | Op::Reshape(_)) => way.push(id),
                _ => return None,
            }
        }
        None
    };
    let products = graph.nodes.iter().filter(|node| is_product(&node.op));
    let ways = products.filter_map(|node| {
        let (_, input) = way(node.inputs[0]?)?;
        let (weights, constant) = way(node.inputs[1]?)?;
        (is_known(graph, &producers, constant) && !is_known(graph, &producers, input)).then_some(weights)
    });
    ways.flatten().collect()
}

/// Whether a value is a constant or a rearranged constant.
fn is_known(graph: &Graph, producers: &[Option<usize>], mut id: ValueId) -> bool {
    for _ in 0..MAX_MOVES {
        let Some(node) = producers[id.index()].map(|index| &graph.nodes[index]) else { break };
        match (&node.op, node.inputs[0]) {
            (Api(Op::Transpose(_) | Op::Reshape(_)), Some(input)) => id = input,
            _ => return false,
        }
    }
    graph.value(id).constant().is_some()
}

fn is_product(op: &Operation) -> bool {
    matches!(op, Api(Op::Conv2d(_) | Op::Gemm(_) | Op::Matmul(_)))
}

fn is_byte(graph: &Graph, id: ValueId) -> bool {
    matches!(graph.descriptor(id).dtype, DataType::Int8 | DataType::Uint8)
}

/// Moves `dequantizeLinear` after `transpose()` and `reshape()`, which then move bytes instead of floats, and if `all`,
/// after other operators that only move elements or choose among them.
pub(super) fn sink(graph: &mut Graph, all: bool) -> Result<()> {
    let mut producers: Vec<Option<usize>> = vec![None; graph.values.len()];
    let mut nodes: Vec<Node> = Vec::new();
    for mut node in std::mem::take(&mut graph.nodes) {
        if let Some(Moved { op, bytes, parameters }) = moved(graph, &nodes, &producers, &node, all)? {
            let output = graph.descriptor(node.outputs[0]).clone();
            let mut push = |graph: &mut Graph, op, inputs: Vec<ValueId>, shape| {
                let descriptor = Descriptor::new(graph.descriptor(inputs[0]).dtype, shape);
                let to = graph.add_value(descriptor, Source::Node);
                let inputs = inputs.into_iter().map(Some).collect();
                nodes.push(Node { op, inputs, outputs: vec![to], origins: Vec::new(), ..node.clone() });
                Some(to)
            };
            let mut operands = vec![push(graph, op.clone(), bytes, output.shape.clone())];
            for (id, shape) in parameters {
                if graph.descriptor(id).count() == 1 && graph.descriptor(id).shape == shape {
                    operands.push(Some(id));
                    continue;
                }
                let follow = match &op {
                    Api(Op::Transpose(_)) => op.clone(),
                    _ => Reshape { new_shape: shape.clone() }.into(),
                };
                operands.push(push(graph, follow, vec![id], shape));
            }
            (node.op, node.inputs) = (Quantize::DequantizeLinear.into(), operands);
        }
        producers.resize(graph.values.len(), None);
        node.outputs.iter().for_each(|id| producers[id.index()] = Some(nodes.len()));
        nodes.push(node);
    }
    graph.nodes = nodes;
    graph.drop_unused();
    Ok(())
}

/// An operator that can move bytes instead of floats.
struct Moved {
    /// The operator for bytes.
    op: Operation,
    /// Its operands.
    bytes: Vec<ValueId>,
    /// The scale and the zero point, and their shapes after the operator.
    parameters: [(ValueId, Vec<Dim>); 2],
}

/// Whether every window of a pool has an element of the image: the maximum of none is the lowest value of the type,
/// which bytes have no scale for.
fn sees_image(op: &Pool2d) -> bool {
    let Pool2dAttributes { padding, window_dimensions, output_sizes, output_shape_rounding, .. } = &op.attributes;
    let is_below = |(side, padding): (usize, &Dim)| match window_dimensions {
        _ if *padding == 0 => true,
        Some(window) => *padding < window[side / 2],
        None => false,
    };
    *output_shape_rounding == Rounding::Floor && output_sizes.is_none() && padding.iter().enumerate().all(is_below)
}

/// How `node` moves bytes, if it reads the results of `dequantizeLinear` and these have one scale, which follows the
/// elements.
fn moved(graph: &Graph, nodes: &[Node], producers: &[Option<usize>], node: &Node, all: bool) -> Result<Option<Moved>> {
    let source = |id: &Option<ValueId>| Some(&nodes[(*producers.get((*id)?.index())?)?]);
    let Some(first) = node.inputs.first().and_then(source) else { return Ok(None) };
    let Api(Op::Quantize(Quantize::DequantizeLinear)) = first.op else { return Ok(None) };
    let &[Some(input), Some(scale), Some(zero)] = first.inputs.as_slice() else { return Ok(None) };
    let mut op = node.op.clone();
    let single = graph.descriptor(scale).count() == 1;
    let follows = match &mut op {
        Api(Op::Transpose(_)) => true,
        Api(Op::Reshape(_)) => single,
        _ if !single || !all || node.outputs.len() != 1 => false,
        Api(Op::Slice(_) | Op::Reverse(_) | Op::Tile(_) | Op::Concat(_)) => true,
        Api(Op::Resample2d(op)) => op.mode == InterpolationMode::NearestNeighbor,
        Api(Op::Pool2d(op)) => op.kind == PoolKind::Max && sees_image(op) && scale_of(graph, first)?.is_some(),
        Api(Op::Pad(op)) => match scale_of(graph, first)? {
            _ if op.mode != PaddingMode::Constant => true,
            Some(scale) if op.value.to_f64() == 0.0 => {
                op.value = Number::Int(scale.zero.into());
                true
            }
            _ => false,
        },
        _ => false,
    };
    if !follows || !is_byte(graph, input) || !node.epilogue.is_empty() {
        return Ok(None);
    }
    let mut bytes = vec![input];
    for other in &node.inputs[1..] {
        let Some(other) = source(other) else { return Ok(None) };
        let same = scale_of(graph, first)?.is_some() && scale_of(graph, other)? == scale_of(graph, first)?;
        match (&other.op, other.inputs[0]) {
            (Api(Op::Quantize(Quantize::DequantizeLinear)), Some(id))
                if same && graph.descriptor(id).dtype == graph.descriptor(input).dtype =>
            {
                bytes.push(id);
            }
            _ => return Ok(None),
        }
    }
    let output = graph.descriptor(node.outputs[0]);
    let parameters = [scale, zero].map(|id| {
        let shape = match &op {
            Api(Op::Transpose(op)) => {
                let shape = &graph.descriptor(id).shape;
                op.axes(shape.len()).iter().map(|&axis| shape[axis]).collect()
            }
            _ if graph.descriptor(id).count() == output.count() => output.shape.clone(),
            _ => vec![Dim::number(1); output.rank()],
        };
        (id, shape)
    });
    Ok(Some(Moved { op, bytes, parameters }))
}

/// Moves `quantizeLinear` above `concat` if all that is joined was dequantized: bytes are joined, after a conversion of
/// those with other scales.
fn join_bytes(graph: &mut Graph) -> Result<()> {
    let (uses, producers) = (graph.use_counts(), graph.producers());
    let mut joined: Vec<(usize, usize)> = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let Api(Op::Quantize(Quantize::QuantizeLinear)) = node.op else { continue };
        let Some(input) = node.inputs[0].filter(|id| uses[id.index()] == 1) else { continue };
        let Some(concat) = producers[input.index()] else { continue };
        let is_concat = matches!(graph.nodes[concat].op, Api(Op::Concat(_)));
        if !is_concat || !is_byte(graph, node.outputs[0]) || scale_of(graph, node)?.is_none() {
            continue;
        }
        let mut all = true;
        for &id in &graph.nodes[concat].inputs {
            all &= dequantized(graph, &producers, id)?.is_some();
        }
        if all {
            joined.push((concat, index));
        }
    }
    let mut nodes: Vec<Option<Node>> = Vec::new();
    // Where each node is among the new ones.
    let mut places: Vec<usize> = Vec::with_capacity(graph.nodes.len());
    for (index, node) in std::mem::take(&mut graph.nodes).into_iter().enumerate() {
        // The operands of the joining operator have all been computed before it.
        if let Some(&(concat, _)) = joined.iter().find(|&&(_, quantize)| quantize == index) {
            let mut concat = nodes[places[concat]].take().expect("it is read once");
            for input in &mut concat.inputs {
                let shape = graph.descriptor(input.expect("the rule requires it")).shape.clone();
                let dtype = graph.descriptor(node.outputs[0]).dtype;
                let bytes = graph.add_value(Descriptor::new(dtype, shape), Source::Node);
                let inputs = [&[*input], &node.inputs[1..]].concat();
                *input = Some(bytes);
                nodes.push(Some(Node { inputs, outputs: vec![bytes], ..node.clone() }));
            }
            concat.outputs = node.outputs.clone();
            places.push(nodes.len());
            nodes.push(Some(concat));
            continue;
        }
        places.push(nodes.len());
        nodes.push(Some(node));
    }
    graph.nodes = nodes.into_iter().flatten().collect();
    Ok(())
}

/// Replaces `quantizeLinear` of the result of `dequantizeLinear` by the identity, if both have the same scale: the
/// round trip preserves every 8-bit integer.
fn cancel(graph: &mut Graph) -> Result<()> {
    let producers = graph.producers();
    for index in 0..graph.nodes.len() {
        let node = &graph.nodes[index];
        let Api(Op::Quantize(Quantize::QuantizeLinear)) = node.op else { continue };
        let Some((input, scale)) = dequantized(graph, &producers, node.inputs[0])? else { continue };
        let own = scale_of(graph, node)?;
        if own == Some(scale) && graph.descriptor(input) == graph.descriptor(node.outputs[0]) {
            let node = &mut graph.nodes[index];
            (node.op, node.inputs) = (Elementwise::Identity.into(), vec![Some(input)]);
        }
    }
    Ok(())
}

/// The bytes that `id` is dequantized from with a single scale, and that scale.
fn dequantized(graph: &Graph, producers: &[Option<usize>], id: Option<ValueId>) -> Result<Option<(ValueId, Scale)>> {
    let Some(node) = id.and_then(|id| producers[id.index()]).map(|index| &graph.nodes[index]) else { return Ok(None) };
    match (&node.op, node.inputs[0]) {
        (Api(Op::Quantize(Quantize::DequantizeLinear)), Some(input)) if is_byte(graph, input) => {
            Ok(scale_of(graph, node)?.map(|scale| (input, scale)))
        }
        _ => Ok(None),
    }
}

/// The only scale and zero point of a node, if they are constants usable in fused products.
fn scale_of(graph: &Graph, node: &Node) -> Result<Option<Scale>> {
    let (Some(scale), Some(zero)) = (node.inputs[1], node.inputs[2]) else { return Ok(None) };
    let ([scale], [zero]) = (&floats(graph, scale)?[..], &bytes(graph, zero)?[..]) else { return Ok(None) };
    Ok(Some(Scale { scale: *scale, zero: *zero }).filter(Scale::is_usable))
}

/// The index of the factor among the operands of [`Quantized`].
const FACTOR: usize = 6;

/// Maximum number of elements of a constant to look at: enough for scales and biases.
const MAX_ELEMENTS: usize = 1 << 20;

/// The elements of a constant; empty if `id` is not a constant of this type, or too large.
fn constant<T: Element>(graph: &Graph, id: ValueId) -> Result<Vec<T>> {
    let (value, descriptor) = (graph.value(id).constant(), graph.descriptor(id));
    match value {
        Some(value) if descriptor.dtype == T::DATA_TYPE && descriptor.elements() <= MAX_ELEMENTS => {
            Ok(elements::<T>(value.buffer()?.bytes()).to_vec())
        }
        _ => Ok(Vec::new()),
    }
}

fn floats(graph: &Graph, id: ValueId) -> Result<Vec<f32>> {
    constant(graph, id)
}

/// The elements of a constant of either 8-bit type; empty for others.
fn bytes(graph: &Graph, id: ValueId) -> Result<Vec<i16>> {
    let signed = constant::<i8>(graph, id)?.into_iter().map(i16::from);
    Ok(signed.chain(constant::<u8>(graph, id)?.into_iter().map(i16::from)).collect())
}

/// The bytes of a constant filter, and the scale and zero point of each output channel.
struct Filter {
    bytes: ValueId,
    scales: Vec<f32>,
    zeros: Vec<i16>,
}

/// The bytes to multiply, and the parts of their quantization that are computed at run time.
struct Input {
    bytes: ValueId,
    zero: Option<ValueId>,
    /// The factor of the sums.
    factor: Option<ValueId>,
}

/// A quantized product that was found.
struct FoundProduct {
    op: Quantized,
    input: Input,
    filter: Filter,
    /// One element per output channel; empty without an addend of the sums of integers.
    addend: Vec<i32>,
    /// One element per output channel; empty without a bias.
    bias: Vec<f32>,
    /// The nodes that it replaces; the last one computes its output.
    nodes: Vec<usize>,
    /// The nodes that dequantize its operands.
    sources: Vec<usize>,
}

fn fuse(graph: &mut Graph) -> Result<()> {
    let (uses, producers) = (graph.use_counts(), graph.producers());
    let mut readers = vec![None; graph.values.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        node.reads().for_each(|id| readers[id.index()] = Some(index));
    }
    let search = Search { graph, uses: &uses, producers: &producers, readers: &readers };
    let mut all: Vec<Option<FoundProduct>> = (0..graph.nodes.len()).map(|_| None).collect();
    for index in 0..graph.nodes.len() {
        if let Some(found) = search.product(index)? {
            let last = *found.nodes.last().expect("the product has at least one node");
            all[last] = Some(found);
        }
    }
    let (mut nodes, mut heirs, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for (node, found) in std::mem::take(&mut graph.nodes).into_iter().zip(&all) {
        match found {
            Some(found) => places.push(emit(graph, node, found, &mut nodes)?),
            None => {
                places.push(nodes.len());
                nodes.push(node);
            }
        }
    }
    heirs.resize(nodes.len(), None);
    for (index, found) in all.iter().enumerate().filter_map(|(index, found)| Some((index, found.as_ref()?))) {
        for &replaced in found.nodes.iter().chain(&found.sources).filter(|&&replaced| replaced != index) {
            heirs[places[replaced]].get_or_insert(places[index]);
        }
    }
    graph.nodes = nodes;
    graph.drop_replaced(heirs);
    Ok(())
}

/// Adds the operator that was `found` in place of `node`; returns its index.
fn emit(graph: &mut Graph, node: Node, found: &FoundProduct, nodes: &mut Vec<Node>) -> Result<usize> {
    let channels = found.filter.scales.len() as u32;
    let bytes: Vec<u8> = found.filter.scales.iter().flat_map(|x| x.to_le_bytes()).collect();
    let scales = graph.add_constant(Descriptor::new(DataType::Float32, [channels]), &bytes)?;
    let Input { bytes: input, zero, factor } = found.input;
    let mut inputs = vec![Some(input), Some(found.filter.bytes), Some(scales), None, None, zero, factor, None];
    if found.filter.zeros.iter().any(|&zero| zero != 0) {
        let bytes: Vec<u8> = found.filter.zeros.iter().map(|&zero| zero as u8).collect();
        let dtype = graph.descriptor(found.filter.bytes).dtype;
        inputs[3] = Some(graph.add_constant(Descriptor::new(dtype, [channels]), &bytes)?);
    }
    if !found.bias.is_empty() {
        let bytes: Vec<u8> = found.bias.iter().flat_map(|x| x.to_le_bytes()).collect();
        inputs[4] = Some(graph.add_constant(Descriptor::new(DataType::Float32, [channels]), &bytes)?);
    }
    if !found.addend.is_empty() {
        let bytes: Vec<u8> = found.addend.iter().flat_map(|x| x.to_le_bytes()).collect();
        inputs[7] = Some(graph.add_constant(Descriptor::new(DataType::Int32, [channels]), &bytes)?);
    }
    let given = inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    inputs.truncate(given);
    let product = |op: Operation, inputs, outputs, origins| Node {
        op,
        label: node.label.clone(),
        inputs,
        outputs,
        epilogue: Default::default(),
        prologues: Vec::new(),
        origins,
    };
    if let Some(factor) = found.input.factor.filter(|&id| !is_single(&graph.descriptor(id).shape)) {
        let shape = vec![Dim::from(channels)];
        let flat = graph.add_value(Descriptor::new(DataType::Float32, shape.clone()), Source::Node);
        nodes.push(product(Reshape { new_shape: shape }.into(), vec![Some(factor)], vec![flat], Vec::new()));
        inputs[FACTOR] = Some(flat);
    }
    let ProductKind::Conv2d(options @ Conv2dAttributes { input_layout: InputLayout::Nchw, .. }) = &found.op.product
    else {
        let op = Operation::Fusion(found.op.clone().into());
        nodes.push(product(op, inputs, node.outputs.clone(), node.origins.clone()));
        return Ok(nodes.len() - 1);
    };
    // The operator requires channels last.
    let (to_last, to_first) = ([0, 2, 3, 1], [0, 3, 1, 2]);
    let mut transposed = |from: ValueId, axes: [u32; 4]| {
        let Descriptor { dtype, shape } = graph.descriptor(from).clone();
        let shape: Vec<Dim> = axes.iter().map(|&axis| shape[axis as usize]).collect();
        graph.add_value(Descriptor::new(dtype, shape), Source::Node)
    };
    let output = node.outputs[0];
    let (image, result) = (transposed(input, to_last), transposed(output, to_last));
    let transpose = |from, axes: [u32; 4], to| {
        let op = Transpose { permutation: Some(axes.to_vec()) };
        product(op.into(), vec![Some(from)], vec![to], Vec::new())
    };
    nodes.push(transpose(input, to_last, image));
    inputs[0] = Some(image);
    let options = Conv2dAttributes { input_layout: InputLayout::Nhwc, ..options.clone() };
    let op = Quantized { product: ProductKind::Conv2d(options), ..found.op.clone() };
    nodes.push(product(Operation::Fusion(op.into()), inputs, vec![result], node.origins.clone()));
    nodes.push(transpose(result, to_first, output));
    Ok(nodes.len() - 2)
}

struct Search<'a> {
    graph: &'a Graph,
    uses: &'a [usize],
    producers: &'a [Option<usize>],
    /// For each value, a node that reads it.
    readers: &'a [Option<usize>],
}

impl Search<'_> {
    /// The quantized product around the product at `index`.
    fn product(&self, index: usize) -> Result<Option<FoundProduct>> {
        let node = &self.graph.nodes[index];
        if let Operation::Extension(Extension::IntegerProduct(op)) = &node.op {
            return self.integer_product(index, op);
        }
        let Some(product) = kind(self.graph, node) else { return Ok(None) };
        let Some((input, scale)) = self.input(node.inputs[0])? else { return Ok(None) };
        let op = Quantized { product, input: scale, min: f32::NEG_INFINITY, max: f32::INFINITY, output: None };
        let sources = [0, 1].map(|operand| node.inputs[operand].and_then(|id| self.producers[id.index()]));
        let [Some(of_input), Some(of_filter)] = sources else { return Ok(None) };
        let Some(filter) = self.filter(&op, &self.graph.nodes[of_filter])? else { return Ok(None) };
        let channels = filter.scales.len();
        let bias = match node.inputs.get(2).copied().flatten() {
            Some(bias) => self.bias(bias, channels, 1)?,
            None => Some(Vec::new()),
        };
        let depth = depth(&op.product, &self.graph.descriptor(filter.bytes).shape);
        let Some(depth) = depth.filter(|&depth| depth <= MAX_DEPTH) else { return Ok(None) };
        let Some(bias) = bias else { return Ok(None) };
        let sources = vec![of_input, of_filter];
        let mut found = FoundProduct { op, input, filter, addend: Vec::new(), bias, nodes: vec![index], sources };
        self.follow(&mut found, depth)?;
        Ok(Some(found))
    }

    /// The quantized product around the product of integers at `index`, if it is cast to floats.
    fn integer_product(&self, index: usize, op: &IntegerProduct) -> Result<Option<FoundProduct>> {
        let node = &self.graph.nodes[index];
        let given = |operand: usize| node.inputs.get(operand).copied().flatten();
        let (Some(input), Some(filter)) = (given(0), given(1)) else { return Ok(None) };
        let shape = &self.graph.descriptor(filter).shape;
        let channels = shape[op.product.channel_axis(shape.len())];
        let depth = depth(&op.product, shape).filter(|&depth| depth <= MAX_DEPTH);
        let Some(depth) = depth.filter(|_| channels.is_number()) else { return Ok(None) };
        let channels = channels.size();
        let (mut zero, mut computed) = (0, None);
        if let Some(id) = given(2) {
            match bytes(self.graph, id)?[..] {
                [known] => zero = known,
                _ => computed = Some(id),
            }
        }
        let zeros = match given(3).map(|id| bytes(self.graph, id)).transpose()? {
            None => vec![0; channels],
            Some(zeros) => match zeros[..] {
                [] => return Ok(None),
                [zero] => vec![zero; channels],
                _ => zeros,
            },
        };
        let (min, max, input_scale) = (f32::NEG_INFINITY, f32::INFINITY, Scale { scale: 1.0, zero });
        let mut found = FoundProduct {
            op: Quantized { product: op.product.clone(), input: input_scale, min, max, output: None },
            input: Input { bytes: input, zero: computed, factor: None },
            filter: Filter { bytes: filter, scales: vec![1.0; channels], zeros },
            addend: Vec::new(),
            bias: Vec::new(),
            nodes: vec![index],
            sources: Vec::new(),
        };
        loop {
            let Some((result, index)) = self.reader(&found) else { return Ok(None) };
            let node = &self.graph.nodes[index];
            match &node.op {
                Api(Op::Elementwise(Elementwise::Add)) if found.addend.is_empty() => {
                    let Some(other) = self.other(node, result) else { return Ok(None) };
                    let mut addend = constant::<i32>(self.graph, other)?;
                    let along = addend.len() == 1 || is_along(&self.graph.descriptor(other).shape, channels, 1);
                    if addend.len() == 1 {
                        addend = vec![addend[0]; channels];
                    }
                    if !along || addend.len() != channels {
                        return Ok(None);
                    }
                    found.addend = addend;
                    found.nodes.push(index);
                }
                Api(Op::Elementwise(Elementwise::Cast { to: DataType::Float32 })) => {
                    found.nodes.push(index);
                    self.follow(&mut found, depth)?;
                    return Ok(Some(found));
                }
                _ => return Ok(None),
            }
        }
    }

    /// The result so far, and the node that reads it, if there is only one.
    fn reader(&self, found: &FoundProduct) -> Option<(ValueId, usize)> {
        let last = &self.graph.nodes[*found.nodes.last().expect("the product has at least one node")];
        let result = last.outputs[0];
        Some((result, self.readers[result.index()].filter(|_| self.uses[result.index()] == 1)?))
    }

    /// The other operand of a node of two that has the shape of `result`.
    fn other(&self, node: &Node, result: ValueId) -> Option<ValueId> {
        let same_shape = self.graph.descriptor(node.outputs[0]) == self.graph.descriptor(result);
        node.inputs.iter().flatten().find(|&&id| id != result).copied().filter(|_| same_shape)
    }

    /// The bytes that the first operand of a product is dequantized from, and the known part of their scale.
    fn input(&self, id: Option<ValueId>) -> Result<Option<(Input, Scale)>> {
        if let Some((bytes, scale)) = dequantized(self.graph, self.producers, id)? {
            return Ok(Some((Input { bytes, zero: None, factor: None }, scale)));
        }
        let node = id.and_then(|id| self.producers[id.index()]).map(|index| &self.graph.nodes[index]);
        let Some((Api(Op::Quantize(Quantize::DequantizeLinear)), &[Some(bytes), Some(scale), Some(zero)])) =
            node.map(|node| (&node.op, node.inputs.as_slice()))
        else {
            return Ok(None);
        };
        let single = [scale, zero].iter().all(|&id| is_single(&self.graph.descriptor(id).shape));
        let [known_scale, known_zero] = [scale, zero].map(|id| self.graph.value(id).constant().is_some());
        if !is_byte(self.graph, bytes) || !single || known_scale && known_zero {
            return Ok(None);
        }
        let mut known = Scale { scale: 1.0, zero: 0 };
        if let (true, [number]) = (known_scale, &floats(self.graph, scale)?[..]) {
            known.scale = *number;
        }
        if let (true, [number]) = (known_zero, &self::bytes(self.graph, zero)?[..]) {
            known.zero = *number;
        }
        let input = Input { bytes, zero: (!known_zero).then_some(zero), factor: (!known_scale).then_some(scale) };
        Ok(known.is_usable().then_some((input, known)))
    }

    /// The bytes of a constant filter, and the scale and zero point of each output channel.
    fn filter(&self, op: &Quantized, node: &Node) -> Result<Option<Filter>> {
        let (Api(Op::Quantize(Quantize::DequantizeLinear)), [Some(filter), Some(scale), Some(zero)]) =
            (&node.op, node.inputs.as_slice())
        else {
            return Ok(None);
        };
        let shape = &self.graph.descriptor(*filter).shape;
        let axis = op.product.channel_axis(shape.len());
        let mut per_channel = vec![Dim::number(1); shape.len()];
        per_channel[axis] = shape[axis];
        let own = &self.graph.descriptor(*scale).shape;
        let spread = own.iter().all(|&size| size == 1);
        // Filters of convolutions are constants.
        let is_usable = self.graph.value(*filter).constant().is_some()
            || op.product == ProductKind::Matmul && spread && shape[axis].is_number();
        if !is_usable || !is_byte(self.graph, *filter) || !(spread || *own == per_channel) {
            return Ok(None);
        }
        let (mut scales, mut zeros) = (floats(self.graph, *scale)?, bytes(self.graph, *zero)?);
        if scales.is_empty() || zeros.len() != scales.len() || !scales.iter().all(|scale| scale.abs() < 1e15) {
            return Ok(None);
        }
        if spread {
            let channels = shape[axis].get() as usize;
            (scales, zeros) = (vec![scales[0]; channels], vec![zeros[0]; channels]);
        }
        Ok(Some(Filter { bytes: *filter, scales, zeros }))
    }

    /// The elements of a constant bias for `channels` channels, along the dimension `from_end` (1 is the last one).
    fn bias(&self, id: ValueId, channels: usize, from_end: usize) -> Result<Option<Vec<f32>>> {
        // The same number of elements along another dimension is a bias per row.
        let shape = &self.graph.descriptor(id).shape;
        let along = || is_single(shape) || is_along(shape, channels, from_end);
        if self.graph.value(id).constant().is_none() || !along() {
            return Ok(None);
        }
        let mut bias = floats(self.graph, id)?;
        if bias.len() == 1 {
            bias = vec![bias[0]; channels];
        }
        let fits = bias.len() == channels && bias.iter().all(|bias| bias.abs() < 1e30);
        Ok(fits.then_some(bias))
    }

    /// Absorbs readers of the result, each its only one: a bias, clamps, and `quantizeLinear`.
    fn follow(&self, found: &mut FoundProduct, depth: usize) -> Result<()> {
        let (channels, from_end) = (found.filter.scales.len(), found.channels_from_end());
        loop {
            let Some((result, index)) = self.reader(found) else { return Ok(()) };
            let node = &self.graph.nodes[index];
            let clamped = found.op.min != f32::NEG_INFINITY || found.op.max != f32::INFINITY;
            match &node.op {
                Api(Op::Elementwise(Elementwise::Relu)) => found.clamp(0.0, f32::INFINITY),
                Api(Op::Elementwise(Elementwise::Clamp { min, max })) => {
                    found.clamp(min.to_f64() as f32, max.to_f64() as f32)
                }
                Api(Op::Elementwise(Elementwise::Mul))
                    if found.input.factor.is_none() && found.bias.is_empty() && !clamped =>
                {
                    let Some(other) = self.other(node, result) else { return Ok(()) };
                    let is_plain = found.op.input.scale == 1.0 && found.filter.scales.iter().all(|&scale| scale == 1.0);
                    if let Some(scales) = self.bias(other, channels, from_end)?.filter(|_| is_plain) {
                        found.filter.scales = scales;
                        found.nodes.push(index);
                        continue;
                    }
                    let shape = &self.graph.descriptor(other).shape;
                    if !is_single(shape) && !is_along(shape, channels, from_end) {
                        return Ok(());
                    }
                    // With two products, each would be the factor of the other.
                    let producer = self.producers[other.index()].map(|index| &self.graph.nodes[index]);
                    if producer.is_some_and(|node| kind(self.graph, node).is_some()) {
                        return Ok(());
                    }
                    found.input.factor = Some(other);
                }
                Api(Op::Elementwise(Elementwise::Add)) if found.bias.is_empty() && !clamped => {
                    let Some(other) = self.other(node, result) else { return Ok(()) };
                    let Some(bias) = self.bias(other, channels, from_end)? else { return Ok(()) };
                    found.bias = bias;
                }
                Api(Op::Quantize(Quantize::QuantizeLinear))
                    if is_byte(self.graph, node.outputs[0])
                        && found.input.zero.is_none()
                        && found.input.factor.is_none() =>
                {
                    let Some(scale) = scale_of(self.graph, node)? else { return Ok(()) };
                    let output = Some((self.graph.descriptor(node.outputs[0]).dtype, scale));
                    let op = Quantized { output, ..found.op.clone() };
                    let largest = |values: &[f32]| values.iter().fold(0.0f32, |most, value| most.max(value.abs()));
                    let (scale, addend) =
                        (largest(&found.filter.scales), found.addend.iter().map(|x| x.unsigned_abs()));
                    let addend = addend.max().unwrap_or(0) as f32 * found.op.input.scale * scale;
                    if op.largest(depth, scale, largest(&found.bias) + addend) < (1u64 << 30) as f64 {
                        found.op = op;
                        found.nodes.push(index);
                    }
                    return Ok(());
                }
                _ => return Ok(()),
            }
            found.nodes.push(index);
        }
    }
}

impl FoundProduct {
    fn clamp(&mut self, min: f32, max: f32) {
        (self.op.min, self.op.max) = (self.op.min.max(min).min(max), self.op.max.max(min).min(max));
    }

    /// The dimension of the channels in the shape of the result, counted from the end (1 is the last one).
    fn channels_from_end(&self) -> usize {
        match &self.op.product {
            ProductKind::Conv2d(Conv2dAttributes { input_layout: InputLayout::Nchw, .. }) => 3,
            _ => 1,
        }
    }
}

/// The terms per sum of a product with a filter of this shape, if they are known.
fn depth(product: &ProductKind, shape: &[Dim]) -> Option<usize> {
    let channels = product.channel_axis(shape.len());
    let terms: &mut dyn Iterator<Item = usize> = match product {
        ProductKind::Conv2d(_) => &mut (0..4).filter(|&axis| axis != channels),
        _ => &mut std::iter::once(if channels == 0 { 1 } else { channels - 1 }),
    };
    terms.map(|axis| shape[axis].is_number().then(|| shape[axis].size())).product()
}

/// Whether a tensor of this shape has one element per channel, along the dimension `from_end` (1 is the last one).
fn is_along(shape: &[Dim], channels: usize, from_end: usize) -> bool {
    let is_fit = |(at, &size): (usize, &Dim)| size == if at + from_end == shape.len() { channels as u32 } else { 1 };
    shape.len() >= from_end && shape.iter().enumerate().all(is_fit)
}

/// The product of a node, if it is a float32 product with a quantized counterpart.
fn kind(graph: &Graph, node: &Node) -> Option<ProductKind> {
    if graph.descriptor(node.outputs[0]).dtype != DataType::Float32 || !node.epilogue.is_empty() {
        return None;
    }
    match &node.op {
        Api(Op::Conv2d(op)) => Some(ProductKind::Conv2d(op.attributes.clone())),
        Api(Op::Matmul(_)) => Some(ProductKind::Matmul),
        Api(Op::Gemm(op)) => {
            let a = &op.attributes;
            let plain =
                !a.a_transpose && a.alpha == 1.0 && (a.beta == 1.0 || node.inputs.get(2).is_none_or(Option::is_none));
            plain.then_some(if a.b_transpose { ProductKind::Transposed } else { ProductKind::Matmul })
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "quantized_tests.rs"]
mod tests;
