//! Constant folding: nodes whose operands are all constants are computed when the graph is built.

use super::Evaluate;
use crate::error::Result;
use crate::ir::{Graph, Source};
use std::sync::Arc;

/// A node is not folded if its outputs are this many times larger than its operands...
const MAX_GROWTH: usize = 8;
/// ... and larger than this many bytes: a scalar expanded to a whole tensor is cheaper to compute than to store.
const SMALL_BYTES: usize = 1 << 16;

/// Replaces what can be computed now by constants.
///
/// # Errors
/// An `UnknownError` when there is no memory for the constants.
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
        for (id, bytes) in node.outputs.iter().zip(evaluate(graph, &node)?) {
            graph.values[id.index()].source = Source::Constant(Arc::new(bytes));
        }
    }
    graph.drop_unused();
    Ok(())
}
