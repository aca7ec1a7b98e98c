//! Constant folding: nodes with constant operands are computed when the graph is built.

use super::Evaluate;
use super::simplify::does_nothing;
use super::views::{View, view};
use crate::dtype::DataType;
use crate::error::Result;
use crate::ir::{Constant, Graph, Node, Source, ValueId, Widened};
use crate::ops::elementwise::Elementwise;
use crate::ops::{Api, Op};
use std::collections::HashSet;

/// A node is not folded if its outputs are this many times larger than its operands...
const MAX_GROWTH: usize = 8;
/// ... and larger than this many bytes: a scalar expanded to a whole tensor is cheaper to compute than to store.
const SMALL_BYTES: usize = 1 << 16;
/// The same for a table over two lists, such as the angles of samples and filters: what is computed of it, and products
/// with it, cost more than to store it.
const TABLE_BYTES: usize = 1 << 22;

/// Replaces nodes with constant operands by their results, except for the values in `keep`.
///
/// # Errors
/// An `UnknownError` if memory for the constants runs out, an `OperationError` if a mapped one cannot be read.
pub fn fold(graph: &mut Graph, keep: &HashSet<ValueId>, evaluate: Evaluate) -> Result<()> {
    let mut uses = graph.use_counts();
    for node in std::mem::take(&mut graph.nodes) {
        let known = node.reads().all(|&id| graph.value(id).constant().is_some())
            && !node.outputs.iter().any(|id| keep.contains(id) || !graph.descriptor(*id).is_known());
        let bytes = |id: &ValueId| graph.descriptor(*id).bytes();
        let is_small = || {
            let operands: usize = node.reads().map(bytes).sum();
            let outputs: usize = node.outputs.iter().map(bytes).sum();
            let most = if is_table(graph, &node) { TABLE_BYTES } else { SMALL_BYTES };
            outputs <= operands * MAX_GROWTH || outputs <= most
        };
        if !known || !is_small() {
            graph.nodes.push(node);
            continue;
        }
        let constants = match windows(graph, &node)?.or_else(|| widened(graph, &node)) {
            Some(stored) => stored,
            None => evaluate(graph, &node)?.into_iter().map(Constant::from).collect(),
        };
        for (id, constant) in node.outputs.iter().zip(constants) {
            graph.values[id.index()].source = Source::Constant(constant);
        }
        // Drops each intermediate constant after its last use: all constants of a long chain may not fit into memory
        // together.
        for id in node.reads() {
            uses[id.index()] -= 1;
            if uses[id.index()] == 0 {
                graph.values[id.index()].source = Source::Node;
            }
        }
    }
    graph.drop_unused();
    Ok(())
}

/// Whether a node combines each element of a list with each of another one.
fn is_table(graph: &Graph, node: &Node) -> bool {
    let is_list = |id: &&ValueId| graph.descriptor(**id).elements() > 1;
    matches!(node.op, Api(Op::Elementwise(_))) && node.reads().filter(is_list).count() > 1
}

/// The outputs of a node that only reinterprets the bytes of its constant operand, as windows over that constant: large
/// weights that are reshaped or split are not copied.
fn windows(graph: &Graph, node: &Node) -> Result<Option<Vec<Constant>>> {
    let operand = node.inputs.first().copied().flatten();
    let Some(constant) = operand.and_then(|id| graph.value(id).constant()) else { return Ok(None) };
    let offsets = match view(graph, node) {
        Some(View::Parts(offsets)) => offsets,
        _ if does_nothing(graph, node) => vec![0],
        _ => return Ok(None),
    };
    let window = |(id, start): (&_, usize)| constant.window(start..start + graph.descriptor(*id).bytes());
    node.outputs.iter().zip(offsets).map(window).collect::<Result<_>>().map(Some)
}

/// The output of a cast of float16 numbers in a file to float32: they are widened whenever they are read. Weights that
/// are packed from them are then never in memory as float32 numbers in their original order.
fn widened(graph: &Graph, node: &Node) -> Option<Vec<Constant>> {
    let Api(Op::Elementwise(Elementwise::Cast { to: DataType::Float32 })) = node.op else { return None };
    let operand = node.inputs[0].filter(|_| node.is_plain())?;
    match (graph.descriptor(operand).dtype, graph.value(operand).constant()?) {
        (DataType::Float16, Constant::Mapped(window)) => {
            Some(vec![Constant::Widened(Widened::of_halves(window.clone()))])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::testing::with_mapped_constants;

    #[test]
    fn mapped_halves_are_widened_when_they_are_read() {
        let graph = parse(
            "%0 = constant float16 [4, 6]
             %1 = cast %0 dataType=float32
             %2 = slice %1 starts=[1, 0] sizes=[2, 6]
             output x = %1
             output y = %2",
        );
        let halves = graph.value(ValueId(0)).constant().unwrap().buffer().unwrap();
        let expected: Vec<f32> =
            crate::memory::elements::<half::f16>(halves.bytes()).iter().map(|x| x.to_f32()).collect();
        let (mut mapped, _file) = with_mapped_constants(&graph, 3);
        fold(&mut mapped, &HashSet::new(), &|_, node| panic!("{} copies", node.op.rule().name)).unwrap();
        for (index, range) in [(0, 0..24), (1, 6..18)] {
            let Some(constant @ Constant::Widened(_)) = mapped.value(mapped.outputs[index].1).constant() else {
                panic!("output {index} is widened")
            };
            let read = constant.buffer().unwrap();
            assert_eq!(crate::memory::elements::<f32>(read.bytes()), &expected[range]);
        }
    }

    #[test]
    fn tables_over_two_lists_are_stored() {
        let folded = |text: &str| {
            let mut graph = parse(text);
            fold(&mut graph, &HashSet::new(), &|graph, node| {
                Ok(vec![crate::memory::Buffer::zeroed(graph.descriptor(node.outputs[0]).bytes())?])
            })
            .unwrap();
            graph.nodes.len()
        };
        let sum = |rows: u32, columns: u32| {
            folded(&format!(
                "%0 = constant float32 [{rows}, 1]
                 %1 = constant float32 [{columns}]
                 %2 = add %0 %1
                 %3 = sin %2
                 output x = %3"
            ))
        };
        assert_eq!([sum(640, 455), sum(1, 640 * 455), sum(2000, 2000)], [0, 0, 2]);
        let expanded = |elements: u32| {
            folded(&format!("%0 = constant float32 [1]\n%1 = expand %0 newShape=[{elements}]\noutput x = %1"))
        };
        assert_eq!([expanded(1000), expanded(100_000)], [0, 1]);
    }

    #[test]
    fn mapped_constants_that_are_only_reshaped_or_cut_are_not_copied() {
        let graph = parse(
            "%0 = constant float32 [4, 6]
             %1 = reshape %0 newShape=[2, 2, 6]
             %2 = identity %1
             %3 = cast %2 dataType=float32
             %4, %5 = split %3 splits=[1, 1]
             %6 = slice %5 starts=[0, 1, 0] sizes=[1, 1, 6]
             %7 = transpose %0 permutation=[1, 0]
             output x = %4
             output y = %6
             output z = %7",
        );
        let (mut mapped, _file) = with_mapped_constants(&graph, 3);
        fold(&mut mapped, &HashSet::new(), &|_, node| {
            assert_eq!(node.op.rule().name, "transpose", "only transpose moves bytes");
            Ok(vec![crate::memory::Buffer::zeroed(96)?])
        })
        .unwrap();
        let constant = |index: usize| mapped.value(mapped.outputs[index].1).constant();
        for (index, range) in [(0, 3..51), (1, 75..99)] {
            let Some(Constant::Mapped(window)) = constant(index) else { panic!("output {index} is a window") };
            assert_eq!(window.range(), range);
        }
        assert!(matches!(constant(2), Some(Constant::Owned(buffer)) if buffer.len() == 96));
    }
}
