//! Views: operators whose output is, byte for byte, a contiguous part of an operand (or the other way round), so
//! that the memory planner can give both the same place and no step is needed.

use crate::ir::{Graph, Node};

/// How the operands and outputs of a node share memory.
#[derive(Clone, Debug, PartialEq)]
pub enum View {
    /// Output `i` is the part of operand 0 from byte `offsets[i]`.
    Parts(Vec<usize>),
    /// Operand `i` is the part of output 0 from byte `offsets[i]`.
    Joined(Vec<usize>),
}

/// The view that `node` is, if it is one.
pub fn view(graph: &Graph, node: &Node) -> Option<View> {
    let _ = (graph, node);
    None
}
