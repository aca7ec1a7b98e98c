//! Nodes that an import refuses.

use crate::onnx::error::{MAX_LISTED, ModelError, Refusal, Result, Unsupported, shortened};
use crate::onnx::graph::Node;

/// Refused nodes: their number, and the first of them.
#[derive(Clone, Debug, Default)]
pub(in crate::onnx) struct RefusedNodes {
    listed: Vec<Unsupported>,
    count: usize,
}

impl RefusedNodes {
    /// Their number.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first one added after `count` others, if it is listed.
    pub fn since(&self, count: usize) -> Option<&Unsupported> {
        self.listed.get(count)
    }

    /// Adds a node.
    pub fn add(&mut self, node: Node, refusal: &Refusal) {
        self.count += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(refused(node, refusal));
        }
    }

    /// # Errors
    /// If any node was refused.
    pub fn none(self) -> Result<()> {
        match self.count {
            0 => Ok(()),
            count => Err(ModelError::unsupported(self.listed, count)),
        }
    }
}

/// A node, and why it is refused.
pub fn refused(node: Node, refusal: &Refusal) -> Unsupported {
    let operator = node.operator();
    Unsupported {
        name: shortened(node.shown_name()),
        operator: shortened(&operator.name),
        domain: shortened(&operator.domain),
        opset: operator.opset.unwrap_or(0),
        reason: shortened(&refusal.reason),
        depends_on_sizes: refusal.depends_on_sizes,
    }
}
