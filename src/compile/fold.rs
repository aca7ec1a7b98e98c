//! Constant folding: nodes with constant operands are computed when the graph is built.

use super::Evaluate;
use super::simplify::does_nothing;
use super::views::{View, view};
use crate::error::Result;
use crate::ir::{Constant, Graph, Node, Source, ValueId};
use std::collections::HashSet;

/// A node is not folded if its outputs are this many times larger than its operands...
const MAX_GROWTH: usize = 8;
/// ... and larger than this many bytes: a scalar expanded to a whole tensor is cheaper to compute than to store.
const SMALL_BYTES: usize = 1 << 16;

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
            outputs <= operands * MAX_GROWTH || outputs <= SMALL_BYTES
        };
        if !known || !is_small() {
            graph.nodes.push(node);
            continue;
        }
        let constants = match windows(graph, &node)? {
            Some(windows) => windows,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::testing::with_mapped_constants;

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
