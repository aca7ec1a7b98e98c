//! Patterns that exporters write as many operators but one kernel computes faster: each is recognized by its structure,
//! shapes and constants, and becomes one operator.

mod attention;
#[cfg(test)]
mod attention_tests;
mod gelu;
mod normalization;
mod strided;

pub use attention::fuse_attention;
pub use gelu::fuse_gelu;
pub use normalization::fuse_normalizations;

use crate::dtype::DataType;
use crate::ir::{Graph, Node, ValueId};
use crate::ops::elementwise::Elementwise;
use crate::ops::{Api, Op};
use half::f16;

/// Facts that patterns need: the producer and the readers of each value, and how often it is read.
pub struct Facts {
    producers: Vec<Option<usize>>,
    /// The first node that reads each value.
    readers: Vec<Option<usize>>,
    uses: Vec<usize>,
}

impl Facts {
    /// Collects the facts of a graph in its current state.
    pub fn of(graph: &Graph) -> Facts {
        let mut readers = vec![None; graph.values.len()];
        for (index, node) in graph.nodes.iter().enumerate().rev() {
            node.reads().for_each(|id| readers[id.index()] = Some(index));
        }
        Facts { producers: graph.producers(), readers, uses: graph.use_counts() }
    }

    /// The node that computes `id`.
    fn producer<'g>(&self, graph: &'g Graph, id: ValueId) -> Option<(usize, &'g Node)> {
        let index = self.producers[id.index()]?;
        Some((index, &graph.nodes[index]))
    }

    /// The element-wise node that computes `id`.
    fn elementwise<'g>(&self, graph: &'g Graph, id: ValueId) -> Option<(Elementwise, &'g Node)> {
        let (_, node) = self.producer(graph, id)?;
        match &node.op {
            Api(Op::Elementwise(op)) if node.epilogue.is_empty() => Some((*op, node)),
            _ => None,
        }
    }
}

/// Whether the operators that patterns become have kernels for elements of this type.
fn is_fused(dtype: DataType) -> bool {
    matches!(dtype, DataType::Float32 | DataType::Float16)
}

/// The value of a floating-point constant of one element.
fn scalar(graph: &Graph, id: ValueId) -> Option<f64> {
    let descriptor = graph.descriptor(id);
    let constant = graph.value(id).constant().filter(|_| descriptor.elements() == 1)?;
    let buffer = constant.buffer().ok()?;
    match (descriptor.dtype, buffer.bytes()) {
        (DataType::Float32, &[a, b, c, d]) => Some(f32::from_le_bytes([a, b, c, d]) as f64),
        (DataType::Float16, &[a, b]) => Some(f16::from_le_bytes([a, b]).to_f64()),
        _ => None,
    }
}

/// The two operands of a binary operator.
fn two(node: &Node) -> Option<[ValueId; 2]> {
    match node.inputs[..] {
        [Some(a), Some(b)] => Some([a, b]),
        _ => None,
    }
}

/// The operand of a commutative operator next to a scalar constant, and the constant.
fn beside_scalar(graph: &Graph, node: &Node) -> Option<(ValueId, f64)> {
    let [a, b] = two(node)?;
    let constant = |id| scalar(graph, id);
    constant(b).map(|x| (a, x)).or_else(|| constant(a).map(|x| (b, x)))
}
