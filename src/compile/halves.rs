//! float16 values that only operators of the graph see become float32: CPUs compute in float32 anyway, and converting
//! the operands and the results of each operator takes as long as a tenth of a product. Inputs, outputs, caches and
//! large constants stay float16; a `cast` connects both.
//!
//! Results are at least as accurate: they are rounded to float16 once, at the end.

use crate::dtype::DataType;
use crate::error::Result;
use crate::ir::{Constant, Graph, Node, Source, ValueId, Widened};
use crate::memory::Mapped;
use crate::ops::elementwise::Elementwise;
use crate::ops::{Api, Fusion, Op, Operation};
use crate::shape::Descriptor;
use std::collections::{HashMap, HashSet};

/// Maximum number of elements of a constant that is stored as float32, unless a product packs it.
const MAX_SMALL: usize = 1 << 16;

/// Computes float16 graphs in float32.
///
/// # Errors
/// An `UnknownError` if memory for small constants runs out, an `OperationError` if a mapped one cannot be read.
pub fn widen_halves(graph: &mut Graph) -> Result<()> {
    let nodes = std::mem::take(&mut graph.nodes);
    let wide = Choice::new(graph).nodes(&nodes);
    let mut rewrite = Rewrite { graph, wide: HashMap::new(), absent: HashMap::new() };
    for (node, is_wide) in nodes.into_iter().zip(wide) {
        if is_wide {
            rewrite.widen(node)?;
            continue;
        }
        node.reads().for_each(|&id| rewrite.narrow(id));
        rewrite.graph.nodes.push(node);
    }
    for (_, id) in rewrite.graph.outputs.clone() {
        rewrite.narrow(id);
    }
    graph.drop_unused();
    Ok(())
}

/// Decides which nodes compute in float32.
struct Choice<'g> {
    graph: &'g Graph,
    /// For each value, the input that it begins with, if it shares the memory of one.
    caches: Vec<Option<ValueId>>,
    /// float16 values that nodes compute in float32.
    wide: HashSet<ValueId>,
}

impl Choice<'_> {
    fn new(graph: &Graph) -> Choice<'_> {
        Choice { graph, caches: graph.caches(), wide: HashSet::new() }
    }

    fn is_half(&self, id: ValueId) -> bool {
        self.graph.descriptor(id).dtype == DataType::Float16
    }

    /// Whether each node computes in float32.
    fn nodes(mut self, nodes: &[Node]) -> Vec<bool> {
        let mut wide = Vec::with_capacity(nodes.len());
        for node in nodes {
            let suits = self.suits(node);
            for &id in node.outputs.iter().filter(|_| suits) {
                if self.is_half(id) {
                    self.wide.insert(id);
                }
            }
            wide.push(suits);
        }
        // A node without neighbors would only be surrounded by casts.
        let read: HashSet<ValueId> = nodes
            .iter()
            .zip(&wide)
            .filter(|(_, is_wide)| **is_wide)
            .flat_map(|(node, _)| node.reads())
            .copied()
            .collect();
        let has_neighbor = |node: &Node| {
            node.reads().any(|id| self.wide.contains(id))
                || node.outputs.iter().any(|id| self.wide.contains(id) && read.contains(id))
        };
        nodes.iter().zip(wide).map(|(node, is_wide)| is_wide && has_neighbor(node)).collect()
    }

    /// Whether a node can compute in float32, without a copy of anything large.
    fn suits(&self, node: &Node) -> bool {
        let halves = node.inputs.iter().enumerate().filter_map(|(index, id)| Some((index, (*id)?)));
        let mut halves = halves.filter(|(_, id)| self.is_half(*id)).peekable();
        let is_cache = |id: &ValueId| self.caches[id.index()].is_some();
        if halves.peek().is_none() || node.outputs.iter().any(is_cache) {
            return false;
        }
        let is_wide = |id: ValueId| self.wide.contains(&id);
        match &node.op {
            // An explicit rounding stays.
            Api(Op::Elementwise(Elementwise::Cast { .. })) => false,
            Api(
                Op::Concat(_)
                | Op::Split(_)
                | Op::Slice(_)
                | Op::Pad(_)
                | Op::Reshape(_)
                | Op::Expand(_)
                | Op::Transpose(_)
                | Op::Reverse(_)
                | Op::Tile(_)
                | Op::Triangular(_)
                | Op::Gather(_)
                | Op::GatherElements(_)
                | Op::GatherNd(_)
                | Op::ScatterElements(_)
                | Op::ScatterNd(_),
            ) => {
                // Moves elements: follows them.
                halves.all(|(index, id)| is_wide(id) || index > 0 && self.is_small_constant(id))
            }
            op => {
                let elements = |id: ValueId| self.graph.descriptor(id).elements();
                let wide = node.inputs.iter().flatten().copied().filter(|&id| is_wide(id));
                let most = node.outputs.iter().copied().chain(wide).map(elements).max().unwrap_or(0);
                halves.all(|(index, id)| match self.graph.value(id).constant() {
                    _ if is_wide(id) => true,
                    Some(_) => self.is_small_constant(id) || packs(op, index),
                    // Right operands of products may be caches, or come from outside.
                    None => !is_cache(&id) && !is_right(op, index) && elements(id) <= most,
                })
            }
        }
    }

    fn is_small_constant(&self, id: ValueId) -> bool {
        self.graph.value(id).constant().is_some() && self.graph.descriptor(id).elements() <= MAX_SMALL
    }
}

/// Whether the operand at `index` is one that all rows of a product or all queries read.
fn is_right(op: &Operation, index: usize) -> bool {
    match op {
        Api(Op::Matmul(_) | Op::Gemm(_)) => index == 1,
        Operation::Fusion(Fusion::Attention(_)) => matches!(index, 1 | 2),
        _ => false,
    }
}

/// Whether an operator packs a constant operand at `index`.
fn packs(op: &Operation, index: usize) -> bool {
    let packed = match op {
        Api(Op::Matmul(_) | Op::Gemm(_) | Op::Conv2d(_) | Op::ConvTranspose2d(_)) => 0..2,
        Api(Op::Lstm(_) | Op::LstmCell(_) | Op::Gru(_) | Op::GruCell(_)) => 1..3,
        // The scales.
        Operation::Fusion(Fusion::BlockProduct(_)) => 2..3,
        _ => return false,
    };
    packed.contains(&index)
}

struct Rewrite<'g> {
    graph: &'g mut Graph,
    /// The float32 form of float16 values.
    wide: HashMap<ValueId, ValueId>,
    /// float16 values that no node computes yet, with their float32 form.
    absent: HashMap<ValueId, ValueId>,
}

impl Rewrite<'_> {
    /// Appends a node that computes in float32.
    fn widen(&mut self, mut node: Node) -> Result<()> {
        assert!(node.is_plain(), "the pass runs before those that fuse");
        for (index, id) in node.inputs.iter_mut().enumerate().filter_map(|(index, id)| Some((index, id.as_mut()?))) {
            *id = self.operand(*id, packs(&node.op, index))?;
        }
        for id in &mut node.outputs {
            if self.graph.descriptor(*id).dtype == DataType::Float16 {
                let wide = self.add_value(*id, Source::Node);
                self.absent.insert(*id, wide);
                self.wide.insert(std::mem::replace(id, wide), wide);
            }
        }
        self.graph.nodes.push(node);
        Ok(())
    }

    /// Adds the float32 form of a value.
    fn add_value(&mut self, id: ValueId, source: Source) -> ValueId {
        let shape = self.graph.descriptor(id).shape.clone();
        self.graph.add_value(Descriptor::new(DataType::Float32, shape), source)
    }

    /// The float32 form of an operand; itself if it is not float16.
    fn operand(&mut self, id: ValueId, is_packed: bool) -> Result<ValueId> {
        if self.graph.descriptor(id).dtype != DataType::Float16 {
            return Ok(id);
        }
        if let Some(&wide) = self.wide.get(&id) {
            return Ok(wide);
        }
        let wide = match self.graph.value(id).constant() {
            Some(constant) => {
                let widened = widened(constant)?;
                let constant = if is_packed { widened } else { Constant::Owned(widened.buffer()?) };
                self.add_value(id, Source::Constant(constant))
            }
            None => {
                let wide = self.add_value(id, Source::Node);
                self.push_cast(id, wide);
                wide
            }
        };
        self.wide.insert(id, wide);
        Ok(wide)
    }

    /// Ensures that a float16 value is computed, if it is one of a node that computes in float32.
    fn narrow(&mut self, id: ValueId) {
        if let Some(wide) = self.absent.remove(&id) {
            self.push_cast(wide, id);
        }
    }

    /// Appends a node without origins in the graph as built.
    fn push_cast(&mut self, from: ValueId, to: ValueId) {
        let op = Elementwise::Cast { to: self.graph.descriptor(to).dtype }.into();
        let (label, epilogue, prologues, origins) = Default::default();
        self.graph.nodes.push(Node {
            op,
            label,
            inputs: vec![Some(from)],
            outputs: vec![to],
            epilogue,
            prologues,
            origins,
        });
    }
}

/// The elements of a float16 constant as float32, stored as they are.
fn widened(constant: &Constant) -> Result<Constant> {
    let stored = match constant {
        Constant::Owned(buffer) => Mapped::new(buffer.clone(), 0..buffer.len())?,
        Constant::Mapped(window) => window.clone(),
        Constant::Widened(_) => unreachable!("no type is widened to float16"),
    };
    Ok(Constant::Widened(Widened::of_halves(stored)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::parse;
    use crate::testing::{Tolerance, check};

    /// The text of a graph after the pass. Texts of other passes are compared in the oracle, too; there, a cast rounds,
    /// and float16 operators do not.
    fn after(text: &str) -> String {
        let mut graph = parse(text);
        widen_halves(&mut graph).unwrap();
        graph.verify();
        check(&parse(text), Tolerance::ulps(2).or_absolute(1e-3));
        graph.to_string()
    }

    fn lines(text: &str) -> String {
        text.lines().map(|line| line.trim().to_string() + "\n").collect()
    }

    #[test]
    fn values_between_operators_are_float32() {
        let text = "%0 = input x float16 [2, 3]
             %1 = constant float16 [3, 4]
             %2 = matmul %0 %1
             %3 = constant float16 [4]
             %4 = add %2 %3
             %5 = reshape %4 newShape=[8]
             output y = %5";
        let expected = "%0 = input x float16 [2, 3]
             %1 = cast %0
             %2 = constant float32 [3, 4]
             %3 = matmul %1 %2
             %4 = constant float32 [4]
             %5 = add %3 %4
             %6 = reshape %5 newShape=[8]
             %7 = cast %6 dataType=float16
             output y = %7";
        assert_eq!(after(text), lines(expected));
    }

    #[test]
    fn single_operators_casts_and_large_operands_stay() {
        for text in [
            "%0 = input x float16 [2, 3]\n%1 = relu %0\noutput y = %1\n",
            "%0 = input x float16 [2, 3]\n%1 = cast %0\n%2 = relu %1\n%3 = cast %2 dataType=float16\n%4 = transpose %3\n\
             output y = %4\n",
            "%0 = input q float16 [2, 8]\n%1 = input k float16 [8, 4]\n%2 = relu %0\n%3 = matmul %2 %1\n%4 = relu %3\n\
             output y = %4\n",
            "%0 = input x float16 [4, 64]\n%1 = reduceMax %0 axes=[1]\n%2 = exp %1\noutput y = %2\n",
            "%0 = input x int32 [5]\n%1 = constant float16 [300, 256]\n%2 = gather %1 %0\noutput y = %2\n",
        ] {
            assert_eq!(after(text), text);
        }
    }

    #[test]
    fn a_value_that_both_kinds_of_nodes_read_has_both_types() {
        let text = "%0 = input x float16 [2, 2]
             %1 = exp %0
             %2 = softmax %1 axis=1
             %3 = concat %0 %1 axis=0
             output y = %2
             output z = %3";
        let expected = "%0 = input x float16 [2, 2]
             %1 = cast %0
             %2 = exp %1
             %3 = softmax %2 axis=1
             %4 = cast %2 dataType=float16
             %5 = concat %0 %4
             %6 = cast %3 dataType=float16
             output y = %6
             output z = %5";
        assert_eq!(after(text), lines(expected));
    }
}
