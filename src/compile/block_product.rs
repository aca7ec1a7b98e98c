//! Products with weights that `dequantizeLinear` computes from constants of 4 or 8 bits, block by block along the
//! depth, become one operator that reads the packed weights: they are never expanded to floats in memory. So do those
//! with constants that are stored as places in a table, times a scale per block.

use crate::dimension::{Dim, dims};
use crate::ir::{Constant, Graph, Node, Source, ValueId};
use crate::ops::block_product::{BlockProduct, is_weight_type};
use crate::ops::elementwise::Elementwise;
use crate::ops::quantize::Quantize;
use crate::ops::slice::Slice;
use crate::ops::{Api, Fusion, Op, Operation};
use crate::shape::Descriptor;

/// With several blocks, block sizes must be multiples of this: the number of integers in a word of the panels.
const BLOCK_UNIT: usize = 8;

/// Maximum number of integers in a block: sums of their byte products stay below 2^31.
const MAX_ROUNDED: usize = 1 << 15;

/// Maximum number of operators that move elements between a product and `dequantizeLinear`, or that and a constant.
const MAX_MOVES: usize = 8;

/// A matrix computed from small numbers.
struct Weights {
    /// The numbers, scales and zero points.
    operands: [Option<ValueId>; 3],
    /// The shape of the matrix, and that of its scales.
    shapes: [[u32; 2]; 2],
}

/// Replaces products with quantized weights by [`BlockProduct`]s.
pub fn fuse_block_products(graph: &mut Graph) {
    let producers = graph.producers();
    for index in 0..graph.nodes.len() {
        let Some((op, bias, weights)) = product(graph, &producers, &graph.nodes[index]) else { continue };
        let [matrix, scales] = weights.shapes;
        let [numbers, scale, zero] = weights.operands;
        let shaped = [(numbers, matrix), (scale, scales), (zero, scales)].map(|(id, shape)| {
            let value = graph.value(id?);
            let descriptor = Descriptor::new(value.descriptor.dtype, shape);
            let source = value.source.clone();
            Some(graph.add_value(descriptor, source))
        });
        let node = &mut graph.nodes[index];
        node.op = Operation::Fusion(Fusion::BlockProduct(op));
        node.inputs = [node.inputs[0]].into_iter().chain(shaped).chain(bias.map(Some)).collect();
    }
    graph.drop_unused();
}

/// The operator, bias and weights of `node`, if it is a product with quantized weights.
fn product(
    graph: &Graph,
    producers: &[Option<usize>],
    node: &Node,
) -> Option<(BlockProduct, Option<ValueId>, Weights)> {
    let (b_transpose, rounds_rows, bias) = match &node.op {
        Api(Op::Matmul(_)) => (false, false, None),
        Api(Op::Gemm(op)) => {
            let options = &op.attributes;
            let bias = node.inputs.get(2).copied().flatten();
            let plain = !options.a_transpose && options.alpha == 1.0 && options.beta == 1.0;
            let columns = graph.descriptor(node.outputs[0]).shape[1];
            if !plain || bias.is_some_and(|id| graph.descriptor(id).shape != [columns]) {
                return None;
            }
            (options.b_transpose, options.rounds_rows, bias)
        }
        _ => return None,
    };
    let depth = *graph.descriptor(node.inputs[0]?).shape.last()?;
    let right = node.inputs[1]?;
    let transposed = transposed(graph, producers, right);
    let b_transpose = b_transpose != transposed.is_some();
    let weights = weights(graph, producers, transposed.unwrap_or(right), (b_transpose, depth))?;
    let [matrix, scales] = &weights.shapes;
    let mut op = BlockProduct { b_transpose, rounds_rows };
    let blocks = op.blocks(matrix, scales);
    let fits = blocks.count == 1 || blocks.size().is_multiple_of(BLOCK_UNIT);
    // With a quantized left operand, this is a product of integers.
    let integers = blocks.count == 1 && is_dequantized(graph, producers, node.inputs[0]?);
    op.rounds_rows &= blocks.size() <= MAX_ROUNDED;
    (blocks.columns > 1 && fits && !integers).then_some((op, bias, weights))
}

fn is_dequantized(graph: &Graph, producers: &[Option<usize>], id: ValueId) -> bool {
    let mut node = producers[id.index()].map(|index| &graph.nodes[index]);
    for _ in 0..MAX_MOVES {
        let Some(Node { op: Api(Op::Reshape(_) | Op::Transpose(_)), inputs, .. }) = node else { break };
        node = inputs[0].and_then(|id| producers[id.index()]).map(|index| &graph.nodes[index]);
    }
    matches!(node, Some(Node { op: Api(Op::Quantize(Quantize::DequantizeLinear)), .. }))
}

/// The matrix whose transpose is `id`.
fn transposed(graph: &Graph, producers: &[Option<usize>], id: ValueId) -> Option<ValueId> {
    let Node { op: Api(Op::Transpose(op)), inputs, .. } = &graph.nodes[producers[id.index()]?] else { return None };
    (graph.descriptor(id).rank() == 2 && op.axes(2) == [1, 0]).then_some(inputs[0]).flatten()
}

/// The weights behind the matrix `id`, past a slice that cuts its depth to `depth` and a reshape that joins blocks.
fn weights(
    graph: &Graph,
    producers: &[Option<usize>],
    id: ValueId,
    (b_transpose, depth): (bool, Dim),
) -> Option<Weights> {
    let producer = |id: ValueId| producers[id.index()].map(|index| &graph.nodes[index]);
    let mut node = producer(id)?;
    if let Api(Op::Slice(slice)) = &node.op {
        let is_front = b_transpose && is_front(slice, &graph.descriptor(node.inputs[0]?).shape, depth);
        node = producer(node.inputs[0].filter(|_| is_front)?)?;
    }
    let joined = graph.descriptor(node.outputs[0]).shape.clone();
    let mut is_joined = false;
    if let Api(Op::Reshape(_)) = node.op {
        is_joined = true;
        node = producer(node.inputs[0]?)?;
    }
    // The importer leaves reshapes of large constants in the graph.
    let constant = |id: ValueId| {
        let mut id = id;
        for _ in 0..MAX_MOVES {
            let Some(Node { op: Api(Op::Reshape(_)), inputs, .. }) = producer(id) else { break };
            id = inputs[0]?;
        }
        matches!(graph.value(id).source, Source::Constant(_)).then_some(id)
    };
    if is_joined && b_transpose && node.op.elementwise() == Some(Elementwise::Mul) {
        return in_table(graph, &producer, constant, node, &joined);
    }
    let Api(Op::Quantize(Quantize::DequantizeLinear)) = node.op else { return None };
    let &[Some(numbers), Some(scale), Some(zero)] = node.inputs.as_slice() else { return None };
    if !is_weight_type(graph.descriptor(numbers).dtype) {
        return None;
    }
    let operands = [Some(constant(numbers)?), Some(constant(scale)?), Some(constant(zero)?)];
    // Queries sizes only where they are known: any other query would make the graph depend on them.
    let [own, scales] = [numbers, scale].map(|id| graph.descriptor(id).sizes());
    let (matrix, scales) = match (is_joined, &*own, &*scales) {
        (false, &[a, b], &[c, d]) => ([a, b], [c, d]),
        // Columns of blocks, each with a scale.
        (true, &[columns, blocks, size], &[columns_too, blocks_too, 1])
            if b_transpose && [columns, blocks] == [columns_too, blocks_too] =>
        {
            ([columns, blocks * size], [columns, blocks])
        }
        _ => return None,
    };
    let columns = if b_transpose { 0 } else { 1 };
    let is_of_columns = scales[columns] == matrix[columns] || scales[columns] == 1;
    (is_of_columns && joined == dims(&matrix)).then_some(Weights { operands, shapes: [matrix, scales] })
}

/// The weights of a matrix `joined` from blocks: `node` multiplies numbers in a table with a scale per block.
fn in_table<'g>(
    graph: &'g Graph,
    producer: &impl Fn(ValueId) -> Option<&'g Node>,
    constant: impl Fn(ValueId) -> Option<ValueId>,
    node: &Node,
    joined: &[Dim],
) -> Option<Weights> {
    let &[Some(mut numbers), Some(scale)] = node.inputs.as_slice() else { return None };
    if let Some(Node { op, inputs, .. }) = producer(numbers) {
        matches!(op.elementwise(), Some(Elementwise::Cast { .. })).then_some(())?;
        numbers = inputs[0]?;
    }
    let Constant::Widened(widened) = graph.value(numbers).constant()? else { return None };
    widened.from().table()?;
    let [matrix, own, scales] = [joined, &graph.descriptor(numbers).shape, &graph.descriptor(scale).shape]
        .map(|shape| <[Dim; 2]>::try_from(shape).ok().map(|[a, b]| [a.get(), b.get()]));
    let ([columns, depth], [count, size], [scaled, 1]) = (matrix?, own?, scales?) else { return None };
    // Blocks may go on from row to row.
    let fits = scaled == count && depth.is_multiple_of(size);
    let operands = [Some(numbers), Some(constant(scale)?), None];
    fits.then_some(Weights { operands, shapes: [[columns, depth], [columns, depth / size]] })
}

/// Whether `slice` returns the first `depth` columns of a matrix of shape `shape`.
fn is_front(slice: &Slice, shape: &[Dim], depth: Dim) -> bool {
    slice.starts.iter().all(|&start| start == 0)
        && slice.strides.iter().flatten().all(|&stride| stride == 1)
        && matches!((&slice.sizes[..], shape), (&[rows, columns], &[all, _]) if rows == all && columns == depth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::testing::{check_pass, check_pass_changes_nothing, in_little_time};

    #[test]
    fn weights_in_blocks_stay_as_they_are() {
        check_pass(
            fuse_block_products,
            "%0 = input x float32 [3, 30]
             %1 = constant uint4 [4, 2, 16]
             %2 = constant float32 [8]
             %3 = reshape %2 newShape=[4, 2, 1]
             %4 = constant uint4 [4, 2, 1]
             %5 = dequantizeLinear %1 %3 %4
             %6 = reshape %5 newShape=[4, 32]
             %7 = slice %6 starts=[0, 0] sizes=[4, 30]
             %8 = constant float32 [4]
             %9 = gemm %0 %7 %8 bTranspose=true
             output y = %9",
            "%0 = input x float32 [3, 30]
             %1 = constant uint4 [4, 32]
             %2 = constant float32 [4, 2]
             %3 = constant uint4 [4, 2]
             %4 = constant float32 [4]
             %5 = blockProduct %0 %1 %2 %3 %4 bTranspose=true
             output y = %5",
        );
    }

    #[test]
    fn a_transpose_changes_how_weights_are_read() {
        check_pass(
            fuse_block_products,
            "%0 = input x float32 [2, 3, 30]
             %1 = constant uint4 [4, 2, 16]
             %2 = constant float32 [4, 2, 1]
             %3 = constant uint4 [4, 2, 1]
             %4 = dequantizeLinear %1 %2 %3
             %5 = reshape %4 newShape=[4, 32]
             %6 = slice %5 starts=[0, 0] sizes=[4, 30]
             %7 = transpose %6
             %8 = matmul %0 %7
             output y = %8",
            "%0 = input x float32 [2, 3, 30]
             %1 = constant uint4 [4, 32]
             %2 = constant float32 [4, 2]
             %3 = constant uint4 [4, 2]
             %4 = blockProduct %0 %1 %2 %3 bTranspose=true
             output y = %4",
        );
    }

    #[test]
    fn weights_with_a_scale_per_column_become_block_products() {
        check_pass(
            fuse_block_products,
            "%0 = input x float16 [2, 3, 10]
             %1 = constant int8 [10, 4]
             %2 = constant float16 [1, 4]
             %3 = constant int8 [1, 4]
             %4 = dequantizeLinear %1 %2 %3
             %5 = matmul %0 %4
             output y = %5",
            "%0 = input x float16 [2, 3, 10]
             %1 = constant int8 [10, 4]
             %2 = constant float16 [1, 4]
             %3 = constant int8 [1, 4]
             %4 = blockProduct %0 %1 %2 %3
             output y = %4",
        );
    }

    #[test]
    fn other_products_stay() {
        for (weights, scales) in
            // Scales for rows of a matrix that is summed over its rows, and blocks that are too small.
            [("[10, 4]", "[10, 4]"), ("[10, 4]", "[5, 4]"), ("[10, 1]", "[1, 1]"), ("[10, 4]", "[1, 2]")]
        {
            check_pass_changes_nothing(
                fuse_block_products,
                &format!(
                    "%0 = input x float32 [2, 10]
                     %1 = constant uint8 {weights}
                     %2 = constant float32 {scales}
                     %3 = constant uint8 {scales}
                     %4 = dequantizeLinear %1 %2 %3
                     %5 = matmul %0 %4
                     output y = %5"
                ),
            );
        }
        check_pass_changes_nothing(
            fuse_block_products,
            "%0 = input x uint8 [2, 10]
             %1 = constant float32 [1, 1]
             %2 = constant uint8 [1, 1]
             %3 = dequantizeLinear %0 %1 %2
             %4 = constant int8 [10, 4]
             %5 = constant float32 [1, 4]
             %6 = constant int8 [1, 4]
             %7 = dequantizeLinear %4 %5 %6
             %8 = matmul %3 %7
             output y = %8",
        );
    }

    #[test]
    fn many_products_behind_many_reshapes_take_little_time() {
        let count = 100_000;
        let mut text = "%0 = input x float32 [2, 2]
             %i = constant int8 [2, 2]
             %s = constant float32 [2, 1]
             %z = constant int8 [2, 1]
             %w = dequantizeLinear %i %s %z
             "
        .to_string();
        (0..count).for_each(|i| text += &format!("%{} = reshape %{i} newShape=[2, 2]\n", i + 1));
        (0..count).for_each(|i| text += &format!("%y{i} = gemm %{count} %w bTranspose=true\noutput y{i} = %y{i}\n"));
        let mut graph = parse(&text);
        in_little_time(|| fuse_block_products(&mut graph));
        assert_eq!(graph.nodes.iter().filter(|node| node.op.rule().name == "blockProduct").count(), count);
    }
}
