//! Constant folding: nodes whose operands are all constants are computed when the graph is built.

use super::Evaluate;
use super::simplify::does_nothing;
use super::views::{View, view};
use crate::error::Result;
use crate::ir::{Constant, Graph, Node, Source};

/// A node is not folded if its outputs are this many times larger than its operands...
const MAX_GROWTH: usize = 8;
/// ... and larger than this many bytes: a scalar expanded to a whole tensor is cheaper to compute than to store.
const SMALL_BYTES: usize = 1 << 16;

/// Replaces what can be computed now by constants.
///
/// # Errors
/// An `UnknownError` when there is no memory for the constants, an `OperationError` when a mapped one cannot be read.
pub fn fold(graph: &mut Graph, evaluate: Evaluate) -> Result<()> {
    let nodes = std::mem::take(&mut graph.nodes);
    for node in nodes {
        let bytes = |id: &crate::ir::ValueId| graph.descriptor(*id).bytes();
        let operands: usize = node.inputs.iter().flatten().map(bytes).sum();
        let outputs: usize = node.outputs.iter().map(bytes).sum();
        let known = node.inputs.iter().flatten().all(|&id| graph.value(id).constant().is_some());
        if !known || (outputs > operands * MAX_GROWTH && outputs > SMALL_BYTES) {
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
    }
    graph.drop_unused();
    Ok(())
}

/// The outputs of a node that moves no byte of its constant operand: windows over that, so that large weights that are
/// only reshaped or split are not copied.
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
