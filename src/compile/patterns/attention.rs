//! Attention: the product of queries and keys, scaled, capped and masked, its softmax, and the product with the values
//! become one operator that never stores the scores. It reads and writes every matrix in place.

use super::strided::{Factor, StridedView, grouped, refined};
use super::{Facts, beside_scalar, is_fused, scalar, two};
use crate::dimension::Dim;
use crate::ir::{Graph, ValueId};
use crate::ops::attention::{Attention, MAX_MASKS, Mask, MaskKind, Places};
use crate::ops::elementwise::Elementwise;
use crate::ops::{Api, Op, Operation};
use crate::shape::dim_strides;

/// Maximum number of operators between the two products.
const MAX_CHAIN: usize = 10;

/// Replaces decomposed attention by one operator.
pub fn fuse_attention(graph: &mut Graph) {
    let facts = Facts::of(graph);
    let found: Vec<(usize, FoundAttention)> =
        (0..graph.nodes.len()).filter_map(|index| Some((index, find(graph, &facts, index)?))).collect();
    let mut heirs = vec![None; graph.nodes.len()];
    let mut stays = vec![true; graph.nodes.len()];
    let mut gone = vec![false; graph.values.len()];
    for (index, found) in found {
        // Another fused attention has rearranged an input of this one.
        if found.inputs.iter().any(|id| gone[id.index()]) {
            continue;
        }
        found.parts.iter().for_each(|&part| heirs[part] = heirs[part].or(Some(index)));
        if !found.behind.is_empty() {
            gone[graph.nodes[index].outputs[0].index()] = true;
        }
        for part in found.behind {
            let origins = std::mem::take(&mut graph.nodes[part].origins);
            graph.nodes[index].absorb(origins);
            let output = graph.nodes[part].outputs[0];
            gone[output.index()] = output != found.output;
            stays[part] = false;
        }
        let node = &mut graph.nodes[index];
        node.op = Operation::Fusion(Box::new(found.op).into());
        node.inputs = found.inputs.into_iter().map(Some).collect();
        node.outputs = vec![found.output];
    }
    let places: Vec<usize> =
        stays.iter().scan(0, |next, &stays| Some(std::mem::replace(next, *next + stays as usize))).collect();
    let mut index = 0..;
    graph.nodes.retain(|_| index.next().is_some_and(|index| stays[index]));
    let heirs = heirs.into_iter().zip(&stays).filter(|(_, stays)| **stays);
    let heirs = heirs.map(|(heir, _): (Option<usize>, _)| heir.map(|heir| places[heir])).collect();
    graph.drop_replaced(heirs);
}

/// An attention that replaces the product with the values.
struct FoundAttention {
    op: Attention,
    inputs: Vec<ValueId>,
    output: ValueId,
    /// Preceding nodes whose work it does, unless something else needs them.
    parts: Vec<usize>,
    /// Following nodes whose work it does.
    behind: Vec<usize>,
}

/// The operators between the softmax and the first product.
#[derive(Clone, Default)]
struct Scores {
    /// Masks, the last one first, each with the batch of the scores that it broadcasts to.
    masks: Vec<(MaskKind, ValueId, Vec<Dim>)>,
    scale: f64,
    /// The factor applied after a `tanh`.
    softcap: Option<f64>,
    parts: Vec<usize>,
}

fn find(graph: &Graph, facts: &Facts, index: usize) -> Option<FoundAttention> {
    let node = &graph.nodes[index];
    if node.op != Api(Op::Matmul(crate::ops::matmul::Matmul)) || !node.epilogue.is_empty() {
        return None;
    }
    let [weights, value] = two(node)?;
    let mut scores = Scores { scale: 1.0, ..Scores::default() };
    let (masked, empty_is_zero) = softmax_input(graph, facts, weights, &mut scores)?;
    let product = first_product(graph, facts, masked, scores, MAX_CHAIN)?;
    let (mut scores, first) = product;
    scores.parts.push(first);
    let [query, key] = two(&graph.nodes[first])?;
    // A cast in between may leave the two products with different types.
    if graph.descriptor(query).dtype != graph.descriptor(value).dtype {
        return None;
    }
    let shape = |id: ValueId| graph.descriptor(id).shape.clone();
    let (score_shape, out_shape) = (shape(graph.nodes[first].outputs[0]), shape(node.outputs[0]));
    let (score_batch, &[rows, keys]) = score_shape.split_last_chunk::<2>()?;
    let (out_batch, &[out_rows, columns]) = out_shape.split_last_chunk::<2>()?;
    let &depth = shape(query).last()?;
    // The batch of the values must not be larger than that of the scores.
    if out_rows != rows || out_batch.iter().copied().product::<Dim>() != score_batch.iter().copied().product::<Dim>() {
        return None;
    }
    let operand = |view: StridedView, id: ValueId, batch: &[Dim], size: [Dim; 2]| {
        let shape = [batch, &size].concat();
        readable(view, &shape).or_else(|| readable(StridedView::whole(graph, id), &shape))
    };
    let query = operand(StridedView::scaled(graph, facts, query), query, score_batch, [rows, depth])?;
    // The second operand of the product is the transposed keys.
    let mut key = operand(StridedView::scaled(graph, facts, key), key, score_batch, [depth, keys])?;
    let end = key.dims.len();
    key.dims.swap(end - 2, end - 1);
    let value = operand(StridedView::of(graph, facts, value), value, out_batch, [keys, columns])?;
    let softcap = scores.softcap.unwrap_or(0.0);
    let scale = scores.scale * query.scale * key.scale * scores.softcap.unwrap_or(1.0);
    let mut views = vec![query, key, value];
    let mut kinds = Vec::new();
    for (kind, mask, batch) in scores.masks.into_iter().rev() {
        views.push(operand(StridedView::of(graph, facts, mask), mask, &batch, [rows, keys])?);
        kinds.push(kind);
    }
    scores.parts.extend(views.iter().flat_map(|view| view.nodes.iter().copied()));
    let target = output(graph, facts, node.outputs[0]);
    views.push(target.view);
    let batches = views.iter().map(|view| view.dims[..view.dims.len() - 2].concat()).collect();
    let (batch, strides) = refined(batches)?;
    let mut places = views.iter().zip(strides).map(|(view, batch)| {
        let [row, col] = [2, 1].map(|back| view.stride(view.dims.len() - back));
        Some(Places { offset: view.offset, batch, row: row?, col: col? })
    });
    let mut next = || places.next()?;
    let (query, key, value) = (next()?, next()?, next()?);
    let masks: Option<Vec<Mask>> = kinds.into_iter().map(|kind| Some(Mask { kind, places: next()? })).collect();
    let (masks, output) = (masks?, next()?);
    let shape = graph.descriptor(target.id).shape.clone();
    let op = Attention {
        batch,
        rows,
        keys,
        depth,
        columns,
        scale,
        softcap,
        query,
        key,
        value,
        masks,
        output,
        shape,
        empty_is_zero,
    };
    let inputs = views[..views.len() - 1].iter().map(|view| view.root).collect();
    Some(FoundAttention { op, inputs, output: target.id, parts: scores.parts, behind: target.nodes })
}

/// A view broadcast to `shape`, if its last two dimensions are single loops.
fn readable(view: StridedView, shape: &[Dim]) -> Option<StridedView> {
    let view = view.broadcast(shape)?;
    view.stride(shape.len() - 2)?;
    view.stride(shape.len() - 1)?;
    Some(view)
}

/// Whether `a` and `b` differ only in how their batch dimensions are split.
fn same_matrices(graph: &Graph, a: ValueId, b: ValueId) -> bool {
    let [a, b] = [a, b].map(|id| graph.descriptor(id).shape.as_slice());
    a.len() >= 2 && b.len() >= 2 && a[a.len() - 2..] == b[b.len() - 2..]
}

/// The operand of the softmax that computes `id`, and whether NaN rows become zeros after it.
fn softmax_input(graph: &Graph, facts: &Facts, mut id: ValueId, scores: &mut Scores) -> Option<(ValueId, bool)> {
    let mut empty_is_zero = false;
    let mut uses = 1;
    for _ in 0..MAX_CHAIN {
        let (index, node) = facts.producer(graph, id)?;
        if facts.uses[id.index()] != uses || !node.epilogue.is_empty() {
            return None;
        }
        scores.parts.push(index);
        uses = 1;
        let input = node.inputs.first().copied().flatten()?;
        match &node.op {
            Api(Op::Softmax(op)) => {
                return (op.axis as usize + 1 == graph.descriptor(id).rank()).then_some((input, empty_is_zero));
            }
            Api(Op::Elementwise(Elementwise::Identity)) => id = input,
            Api(Op::Elementwise(Elementwise::Cast { to }))
                if is_fused(*to) && is_fused(graph.descriptor(input).dtype) =>
            {
                id = input;
            }
            Api(Op::Reshape(_)) if same_matrices(graph, input, id) => id = input,
            Api(Op::Elementwise(Elementwise::Where)) => {
                let [Some(condition), Some(zero), Some(x)] = node.inputs[..] else { return None };
                let (test, tested) = facts.elementwise(graph, condition)?;
                let is_guard = test == Elementwise::IsNaN && tested.inputs[0] == Some(x);
                let same = graph.descriptor(x).shape == graph.descriptor(id).shape;
                if !is_guard || !same || scalar(graph, zero) != Some(0.0) || facts.uses[condition.index()] != 1 {
                    return None;
                }
                scores.parts.push(facts.producers[condition.index()]?);
                (empty_is_zero, id, uses) = (true, x, 2);
            }
            _ => return None,
        }
    }
    None
}

/// Follows the scores back to the product that computes them.
fn first_product(
    graph: &Graph,
    facts: &Facts,
    id: ValueId,
    mut scores: Scores,
    chain: usize,
) -> Option<(Scores, usize)> {
    let (index, node) = facts.producer(graph, id)?;
    if facts.uses[id.index()] != 1 || chain == 0 || !node.epilogue.is_empty() {
        return None;
    }
    if matches!(node.op, Api(Op::Matmul(_))) {
        return Some((scores, index));
    }
    scores.parts.push(index);
    let descriptor = graph.descriptor(id);
    let shape = &descriptor.shape;
    let (batch, _) = shape.split_last_chunk::<2>()?;
    let next = |scores: Scores, input: ValueId| {
        // Scores must not be broadcast.
        let whole = graph.descriptor(input).count() == descriptor.count();
        if whole { first_product(graph, facts, input, scores, chain - 1) } else { None }
    };
    let masked = |kind: MaskKind, mask: ValueId, input: ValueId| {
        // Scale and cap come before all masks.
        if scores.masks.len() == MAX_MASKS || scores.scale != 1.0 || scores.softcap.is_some() {
            return None;
        }
        let mut scores = scores.clone();
        scores.masks.push((kind, mask, batch.to_vec()));
        next(scores, input)
    };
    match &node.op {
        Api(Op::Reshape(_)) => {
            let input = node.inputs[0]?;
            if same_matrices(graph, input, id) { next(scores, input) } else { None }
        }
        Api(Op::Elementwise(Elementwise::Identity)) => next(scores, node.inputs[0]?),
        Api(Op::Elementwise(Elementwise::Cast { .. })) => {
            let input = node.inputs[0]?;
            if is_fused(graph.descriptor(input).dtype) && is_fused(descriptor.dtype) {
                next(scores, input)
            } else {
                None
            }
        }
        Api(Op::Elementwise(Elementwise::Mul)) => {
            let (input, factor) = beside_scalar(graph, node)?;
            scores.scale *= factor;
            next(scores, input)
        }
        Api(Op::Elementwise(Elementwise::Linear { alpha, beta: 0.0 })) => {
            scores.scale *= alpha;
            next(scores, node.inputs[0]?)
        }
        Api(Op::Elementwise(Elementwise::Div)) => {
            let [input, divisor] = two(node)?;
            scores.scale /= scalar(graph, divisor)?;
            next(scores, input)
        }
        Api(Op::Elementwise(Elementwise::Tanh)) => {
            let softcap = std::mem::replace(&mut scores.scale, 1.0);
            if !(softcap as f32).is_normal() || scores.softcap.replace(softcap).is_some() {
                return None;
            }
            next(scores, node.inputs[0]?)
        }
        Api(Op::Elementwise(Elementwise::Add)) => {
            let [a, b] = two(node)?;
            masked(MaskKind::Add, b, a).or_else(|| masked(MaskKind::Add, a, b))
        }
        Api(Op::Elementwise(Elementwise::Where)) => {
            let [Some(condition), Some(a), Some(b)] = node.inputs[..] else { return None };
            match (scalar(graph, a), scalar(graph, b)) {
                (None, Some(value)) => masked(MaskKind::Fill { value, when: false }, condition, a),
                (Some(value), None) => masked(MaskKind::Fill { value, when: true }, condition, b),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Where an attention writes its output.
struct Destination {
    id: ValueId,
    view: StridedView,
    nodes: Vec<usize>,
}

/// Follows `product` through transposes and reshapes without other readers, as far as its rows stay contiguous.
fn output(graph: &Graph, facts: &Facts, product: ValueId) -> Destination {
    let mut best = Destination { id: product, view: StridedView::whole(graph, product), nodes: Vec::new() };
    let (mut id, mut nodes) = (product, Vec::new());
    for _ in 0..MAX_CHAIN {
        // The only use is that by the reader: the value is no output of the graph.
        let Some(reader) = facts.readers[id.index()].filter(|_| facts.uses[id.index()] == 1) else { break };
        let node = &graph.nodes[reader];
        if !matches!(node.op, Api(Op::Transpose(_) | Op::Reshape(_))) || !node.epilogue.is_empty() {
            break;
        }
        id = node.outputs[0];
        nodes.push(reader);
        if matches!(node.op, Api(Op::Transpose(_)))
            && let Some(view) = inverse(graph, facts, id, product)
        {
            best = Destination { id, view, nodes: nodes.clone() };
        }
    }
    best
}

/// The layout of the elements of `product` within `id`, a rearrangement of it, if its columns stay adjacent.
fn inverse(graph: &Graph, facts: &Facts, id: ValueId, product: ValueId) -> Option<StridedView> {
    let view = StridedView::of(graph, facts, id);
    if view.root != product {
        return None;
    }
    let loops: Vec<Factor> = view.dims.concat();
    let sizes: Vec<Dim> = loops.iter().map(|&(size, _)| size).collect();
    // Each loop with its strides in the product and in the rearrangement, in the order of the product.
    let mut both: Vec<(Factor, Dim)> = loops.into_iter().zip(dim_strides(&sizes)).collect();
    both.sort_by_key(|((_, stride), _)| std::cmp::Reverse(*stride));
    let shape = &graph.descriptor(product).shape;
    let dims = grouped(both.into_iter().map(|((size, _), stride)| (size, stride)).collect(), shape)?;
    let inverse = StridedView { root: id, offset: Dim::number(0), dims, scale: 1.0, nodes: Vec::new() };
    inverse.stride(shape.len() - 2)?;
    (inverse.stride(shape.len() - 1)? <= 1).then_some(inverse)
}
