//! float16 becomes a type that is only stored: kernels of the CPU compute in float32. What remains float16 are operands
//! and results of operators that move or pool elements, inputs, outputs and caches of the graph, large right operands of
//! products and attention, and constants, which products pack as they are. Casts connect both; they fuse with other
//! element-wise operators.
//!
//! Results are at least as accurate: they are rounded to float16 where the graph casts, and where an operator that stays
//! float16 or an output reads them.

use crate::dimension::Dim;
use crate::dtype::DataType;
use crate::error::Result;
use crate::ir::{Constant, Graph, Node, Prologue, Source, Storage, ValueId, Widened};
use crate::memory::Mapped;
use crate::ops::elementwise::Elementwise;
use crate::ops::fused::{Fused, Instruction};
use crate::ops::resample2d::InterpolationMode;
use crate::ops::{Api, Fusion, Op, Operation};
use crate::shape::Descriptor;
use std::collections::HashMap;

/// Maximum number of elements of a constant that is stored as float32 for element-wise operators, and for those that move
/// elements of other operands.
const MAX_SMALL: usize = 1 << 16;

const CAST: Elementwise = Elementwise::Cast { to: DataType::Float32 };

/// Makes all operators but those that move elements compute in float32. Changes nothing when it runs again.
///
/// # Errors
/// An `UnknownError` if memory for small constants runs out, an `OperationError` if a mapped one cannot be read.
pub fn widen_halves(graph: &mut Graph) -> Result<()> {
    if graph.values.iter().all(|value| value.descriptor.dtype != DataType::Float16) {
        return Ok(());
    }
    let (nodes, caches) = (std::mem::take(&mut graph.nodes), graph.caches());
    let mut rewrite = Rewrite { graph, caches, wide: HashMap::new(), computed: HashMap::new() };
    for node in nodes {
        if rewrite.stays(&node) {
            node.reads().for_each(|&id| rewrite.narrow(id));
            rewrite.graph.nodes.push(node);
        } else {
            rewrite.widen(node)?;
        }
    }
    for (_, id) in rewrite.graph.outputs.clone() {
        rewrite.narrow(id);
    }
    graph.drop_unused();
    Ok(())
}

/// Whether a node neither reads float16 nor writes it, as its operator sees it, or may do so after the pass.
pub fn is_settled(graph: &Graph, node: &Node) -> bool {
    let is_half = |descriptor: &Descriptor| descriptor.dtype == DataType::Float16;
    let reads = graph.operand_descriptors(node).into_iter().flatten().any(is_half);
    let writes = node.outputs.iter().any(|&id| is_half(graph.descriptor(id)));
    !(reads || writes) || takes_halves(&node.op) || is_stored_program(&node.op)
}

/// Whether an operator has kernels for float16: it only moves elements, whatever their type, or pools them and widens a few
/// rows at a time.
fn takes_halves(op: &Operation) -> bool {
    match op {
        Api(Op::Resample2d(op)) => op.mode == InterpolationMode::NearestNeighbor,
        Api(
            Op::Concat(_)
            | Op::Split(_)
            | Op::Slice(_)
            | Op::Pad(_)
            | Op::Pool2d(_)
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
        ) => true,
        _ => false,
    }
}

/// Whether an operator is an element-wise program that loads and stores float16, but computes in float32.
fn is_stored_program(op: &Operation) -> bool {
    // An explicit rounding stays.
    matches!(op, Api(Op::Elementwise(Elementwise::Cast { .. })) | Operation::Fusion(Fusion::Fused(_)))
}

/// Whether the operand at `index` is one that all rows of a product or all queries read: its reader widens it.
fn is_right(op: &Operation, index: usize) -> bool {
    match op {
        Api(Op::Matmul(_) | Op::Gemm(_)) => index == 1,
        Operation::Fusion(Fusion::Attention(_)) => matches!(index, 1 | 2),
        _ => false,
    }
}

struct Rewrite<'g> {
    graph: &'g mut Graph,
    /// For each value of the graph before the pass, the input that it begins with, if it shares the memory of one.
    caches: Vec<Option<ValueId>>,
    /// The float32 form of float16 values.
    wide: HashMap<ValueId, ValueId>,
    /// float16 values that nodes compute as float32, and whether a cast makes them float16, too.
    computed: HashMap<ValueId, bool>,
}

impl Rewrite<'_> {
    fn is_half(&self, id: ValueId) -> bool {
        self.graph.descriptor(id).dtype == DataType::Float16
    }

    /// The float16 operands of a node, and their indices.
    fn halves(&self, node: &Node) -> Vec<(usize, ValueId)> {
        let given = node.inputs.iter().enumerate().filter_map(|(index, id)| Some((index, (*id)?)));
        given.filter(|(_, id)| self.is_half(*id)).collect()
    }

    /// Whether a node keeps its types.
    fn stays(&self, node: &Node) -> bool {
        if !takes_halves(&node.op) {
            return is_settled(self.graph, node);
        }
        // Follows the elements that it reads.
        let halves = self.halves(node);
        let follows = |(index, id): &(usize, ValueId)| {
            self.computed.contains_key(id) || *index > 0 && self.is_constant(*id) && !self.is_large(*id)
        };
        halves.is_empty() || !halves.iter().all(follows)
    }

    fn is_constant(&self, id: ValueId) -> bool {
        self.graph.value(id).constant().is_some()
    }

    fn is_large(&self, id: ValueId) -> bool {
        self.graph.descriptor(id).elements() > MAX_SMALL
    }

    /// Whether the right operands of a node stay as they are: a copy of a cache or of anything larger than the rest would
    /// take longer than to widen it while it is read.
    fn keeps_right(&self, node: &Node) -> bool {
        let right: Vec<ValueId> = (0..node.inputs.len())
            .filter(|&index| is_right(&node.op, index))
            .filter_map(|index| node.inputs[index])
            .collect();
        // Both of an attention have the same type.
        let is_stored = |&id: &ValueId| self.is_half(id) && !self.wide.contains_key(&id) && !self.is_constant(id);
        if right.is_empty() || !right.iter().all(is_stored) {
            return false;
        }
        let is_cache = |id: &ValueId| self.caches.get(id.index()).is_some_and(Option::is_some);
        // Comparing free sizes makes the graph valid for others of the same order only.
        let count = |id: &ValueId| self.graph.descriptor(*id).count();
        right.iter().any(is_cache) || {
            let others = node.inputs.iter().flatten().filter(|id| !right.contains(id)).chain(&node.outputs);
            let most = others.map(count).fold(Dim::ZERO, |most: Dim, next| most.max(next));
            right.iter().any(|id| count(id) > most)
        }
    }

    /// Appends a node that computes in float32.
    fn widen(&mut self, mut node: Node) -> Result<()> {
        assert!(node.is_plain(), "the pass runs before those that fuse");
        let (keeps_right, is_elementwise) = (self.keeps_right(&node), node.op.elementwise().is_some());
        let mut stored = Vec::new();
        for (index, id) in self.halves(&node) {
            if keeps_right && is_right(&node.op, index) {
                let Descriptor { shape, .. } = self.graph.descriptor(id).clone();
                node.prologues.push(Prologue {
                    operand: index,
                    others: Vec::new(),
                    descriptor: Descriptor::new(DataType::Float32, shape.clone()),
                    shape,
                    program: Fused::single(CAST, &[DataType::Float16]),
                    storage: Storage::Whole,
                });
            } else if is_elementwise && self.is_constant(id) && self.is_large(id) {
                stored.push(index);
            } else {
                node.inputs[index] = Some(self.operand(id)?);
            }
        }
        for id in &mut node.outputs {
            if self.graph.descriptor(*id).dtype == DataType::Float16 {
                let wide = self.add_value(*id, Source::Node);
                self.computed.insert(*id, false);
                self.wide.insert(std::mem::replace(id, wide), wide);
            }
        }
        if let (Some(op), [_, ..]) = (node.op.elementwise(), &*stored) {
            node.op = Operation::Fusion(self.program(op, &node, &stored).into());
        }
        self.graph.nodes.push(node);
        Ok(())
    }

    /// The program of an element-wise node whose operands at `stored` are float16: constants, which stay half as large.
    fn program(&self, op: Elementwise, node: &Node, stored: &[usize]) -> Fused {
        let inputs = node.inputs.len();
        let casts =
            stored.iter().map(|&index| Instruction { op: CAST, operands: vec![index], dtype: DataType::Float32 });
        let place = |index| stored.iter().position(|&other| other == index).map_or(index, |cast| inputs + cast);
        let last = Instruction {
            op,
            operands: (0..inputs).map(place).collect(),
            dtype: self.graph.descriptor(node.outputs[0]).dtype,
        };
        Fused { inputs, instructions: casts.chain([last]).collect() }
    }

    /// Adds the float32 form of a value.
    fn add_value(&mut self, id: ValueId, source: Source) -> ValueId {
        let shape = self.graph.descriptor(id).shape.clone();
        self.graph.add_value(Descriptor::new(DataType::Float32, shape), source)
    }

    /// The float32 form of a float16 operand. Constants are widened whenever they are read: those that products pack are
    /// never stored as float32.
    fn operand(&mut self, id: ValueId) -> Result<ValueId> {
        if let Some(&wide) = self.wide.get(&id) {
            return Ok(wide);
        }
        let wide = match self.graph.value(id).constant() {
            Some(constant) => {
                let constant = widened(constant)?;
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
        if self.computed.get(&id) == Some(&false) {
            self.computed.insert(id, true);
            self.push_cast(self.wide[&id], id);
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
        Constant::Derived(derived) => return Ok(Constant::Derived(derived.widen())),
        Constant::Filled(filled) => Mapped::new(constant.buffer()?, 0..filled.len)?,
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
    fn explicit_casts_and_operators_that_move_elements_stay() {
        for text in [
            "%0 = input x float16 [2, 3]\n%1 = cast %0\n%2 = relu %1\n%3 = cast %2 dataType=float16\n%4 = transpose %3\n\
             output y = %4\n",
            "%0 = input x int32 [5]\n%1 = constant float16 [300, 256]\n%2 = gather %1 %0\noutput y = %2\n",
            "%0 = input x float16 [1, 2, 3, 4]\n%1 = resample2d %0 sizes=[6, 8]\noutput y = %1\n",
        ] {
            assert_eq!(after(text), after(&after(text)), "{text}");
            assert!(parse(&after(text)).nodes.len() == parse(text).nodes.len(), "{}", after(text));
        }
    }

    #[test]
    fn single_operators_compute_in_float32() {
        let text = "%0 = input x float16 [4, 64]
             %1 = slice %0 sizes=[4, 32] starts=[0, 0]
             %2 = reduceMax %1 axes=[1]
             output y = %2";
        let expected = "%0 = input x float16 [4, 64]
             %1 = slice %0 sizes=[4, 32] starts=[0, 0]
             %2 = cast %1
             %3 = reduceMax %2 axes=[1]
             %4 = cast %3 dataType=float16
             output y = %4";
        assert_eq!(after(text), lines(expected));
    }

    #[test]
    fn large_right_operands_stay() {
        let text = "%0 = input q float16 [2, 8]
             %1 = input k float16 [8, 4]
             %2 = input p float16 [2, 8]
             %3 = input v float16 [8, 2]
             %4 = matmul %0 %1
             %5 = matmul %2 %3
             output y = %4
             output z = %5";
        let expected = "%0 = input q float16 [2, 8]
             %1 = input k float16 [8, 4]
             %2 = input p float16 [2, 8]
             %3 = input v float16 [8, 2]
             %4 = cast %0
             %5 = matmul %4 %1 prologue=b:[cast(r0)]
             %6 = cast %2
             %7 = cast %3
             %8 = matmul %6 %7
             %9 = cast %5 dataType=float16
             %10 = cast %8 dataType=float16
             output y = %9
             output z = %10";
        assert_eq!(after(text), lines(expected));
    }

    #[test]
    fn large_constants_of_element_wise_operators_stay() {
        let text = "%0 = input x float16 [300, 256]
             %1 = constant float16 [300, 256]
             %2 = sub %1 %0
             output y = %2";
        let expected = "%0 = input x float16 [300, 256]
             %1 = cast %0
             %2 = constant float16 [300, 256]
             %3 = fused %2 %1 program=[cast(r0), sub(r2 r1)]
             %4 = cast %3 dataType=float16
             output y = %4";
        assert_eq!(after(text), lines(expected));
    }

    #[test]
    fn a_second_run_changes_nothing() {
        for text in [
            "%0 = input x float16 [2, 3]\n%1 = relu %0\noutput y = %1",
            "%0 = input x float16 [1, 3]\n%1 = input b float16 [3, 9]\n%2 = matmul %0 %1\noutput y = %2",
        ] {
            let mut graph = parse(text);
            widen_halves(&mut graph).unwrap();
            let once = graph.to_string();
            widen_halves(&mut graph).unwrap();
            assert_eq!(graph.to_string(), once);
            assert!(graph.nodes.iter().all(|node| is_settled(&graph, node)));
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
