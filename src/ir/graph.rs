//! Graphs as plain data: values and nodes.

use super::constant::Constant;
use super::prologue::Prologue;
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Buffer;
use crate::ops::Op;
use crate::ops::fused::Fused;
use crate::shape::Descriptor;
use std::sync::Arc;

/// A value of a graph, by its place in [`Graph::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The place in [`Graph::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Bound to a tensor at each dispatch.
    Input,
    /// Known when the graph is built.
    Constant(Constant),
    /// Integers that follow from sizes that are known later, as elements of the type of the value.
    Sizes(Arc<[Dim]>),
    /// Computed by a node.
    Node,
}

/// Sizes as elements of type `dtype`: the bytes of [`Source::Sizes`] when they are known.
///
/// # Errors
/// An `UnknownError` without memory.
pub fn bytes_of_sizes(sizes: impl Iterator<Item = i64>, dtype: DataType) -> Result<Buffer> {
    let bytes: Vec<u8> = sizes.flat_map(|size| Number::Int(size.into()).to_bytes(dtype)).collect();
    Buffer::copy_of(&bytes)
}

/// A tensor that flows through the graph.
#[derive(Clone, Debug)]
pub struct Value {
    /// Type and shape.
    pub descriptor: Descriptor,
    /// Where it comes from.
    pub source: Source,
}

impl Value {
    /// The bytes of a constant, if it does not follow from sizes that are known later.
    pub fn constant(&self) -> Option<&Constant> {
        if let Source::Constant(bytes) = &self.source { Some(bytes) } else { None }
    }
}

/// One use of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// The caller's name for it, for messages.
    pub label: String,
    /// Operands in the order of the rule row; `None` where an optional one was not given. Behind a complete row stand
    /// those of the epilogue.
    pub inputs: Vec<Option<ValueId>>,
    /// Outputs in the order of the rule row.
    pub outputs: Vec<ValueId>,
    /// What is computed of the result of the operator, element by element, to give the (only) output: operand 0 is the
    /// result, of the data type and shape of the output, the others are broadcast to it and are the last ones of
    /// `inputs`. Set by the compiler; as a rule empty.
    pub epilogue: Fused,
    /// The operands that are computed while they are read. Set by the compiler; as a rule none.
    pub prologues: Vec<Prologue>,
    /// The nodes of the graph as it was built that this one stands for, by their places there, in order.
    pub origins: Vec<u32>,
}

impl Node {
    /// Shows `visit` every dimension.
    pub(super) fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        self.op.visit_dims(visit);
        for prologue in &mut self.prologues {
            prologue.shape.iter_mut().chain(&mut prologue.descriptor.shape).for_each(&mut *visit);
        }
    }

    /// The operands of the operator, as they are read, and those of the epilogue behind its first one.
    pub fn operands(&self) -> (&[Option<ValueId>], &[Option<ValueId>]) {
        let behind: usize = self.prologues.iter().map(Prologue::others).sum();
        let all = &self.inputs[..self.inputs.len() - behind];
        all.split_at(all.len() - self.epilogue.inputs.saturating_sub(1))
    }

    /// What computes the operand of that index, and where the operands of its program stand in `inputs`.
    pub fn prologue(&self, operand: usize) -> Option<(&Prologue, Vec<usize>)> {
        let mut first = self.inputs.len() - self.prologues.iter().map(Prologue::others).sum::<usize>();
        for prologue in &self.prologues {
            let others = first..first + prologue.others();
            if prologue.operand == operand {
                return Some((prologue, [operand].into_iter().chain(others).collect()));
            }
            first = others.end;
        }
        None
    }
}

/// A computational graph. Nodes stand in an order in which they can run.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// All values; some may be used by nothing after a pass.
    pub values: Vec<Value>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Named inputs.
    pub inputs: Vec<(String, ValueId)>,
    /// Named outputs.
    pub outputs: Vec<(String, ValueId)>,
}

impl Graph {
    /// The value `id`.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// Type and shape of the value `id`.
    pub fn descriptor(&self, id: ValueId) -> &Descriptor {
        &self.value(id).descriptor
    }

    /// Adds a value.
    pub fn add_value(&mut self, descriptor: Descriptor, source: Source) -> ValueId {
        self.values.push(Value { descriptor, source });
        ValueId(self.values.len() as u32 - 1)
    }

    /// Adds a constant.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for the copy of `bytes`.
    pub fn add_constant(&mut self, descriptor: Descriptor, bytes: &[u8]) -> Result<ValueId> {
        assert_eq!(descriptor.bytes(), bytes.len());
        Ok(self.add_value(descriptor, Source::Constant(Buffer::copy_of(bytes)?.into())))
    }

    /// The descriptors of a node's operands.
    pub fn input_descriptors(&self, node: &Node) -> Vec<Option<&Descriptor>> {
        node.inputs.iter().map(|input| input.map(|id| self.descriptor(id))).collect()
    }

    /// The descriptors of the operands of a node's operator, as that sees them.
    pub fn operand_descriptors<'a>(&'a self, node: &'a Node) -> Vec<Option<&'a Descriptor>> {
        let mut all: Vec<_> = node.operands().0.iter().map(|input| input.map(|id| self.descriptor(id))).collect();
        node.prologues.iter().for_each(|prologue| all[prologue.operand] = Some(&prologue.descriptor));
        all
    }

    /// The multiply-adds of a node's operator.
    pub fn multiply_adds(&self, node: &Node) -> u64 {
        let outputs: Vec<&Descriptor> = node.outputs.iter().map(|&id| self.descriptor(id)).collect();
        node.op.multiply_adds(&self.operand_descriptors(node), &outputs)
    }

    /// Checks what can only be refused when the graph is built.
    ///
    /// # Errors
    /// An OperationError for an operator whose attributes the draft accepts and its formulas do not cover.
    pub fn check_defined(&self) -> Result<()> {
        self.nodes.iter().try_for_each(|node| {
            let check = node.op.check_defined(&self.input_descriptors(node));
            check.map_err(|problem| Error {
                kind: ErrorKind::Operation,
                ..Error::at(node.op.rule().name, &node.label, problem)
            })
        })
    }

    /// For each value, how many operands of nodes and outputs of the graph it is.
    pub fn use_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.values.len()];
        let operands = self.nodes.iter().flat_map(|node| node.inputs.iter().flatten());
        for id in operands.chain(self.outputs.iter().map(|(_, id)| id)) {
            counts[id.index()] += 1;
        }
        counts
    }

    /// For each value, the index of the node that computes it.
    pub fn producers(&self) -> Vec<Option<usize>> {
        let mut producers = vec![None; self.values.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            node.outputs.iter().for_each(|id| producers[id.index()] = Some(index));
        }
        producers
    }

    /// For each value, whether an output of the graph depends on it.
    fn needed_values(&self) -> Vec<bool> {
        let mut needed = vec![false; self.values.len()];
        self.outputs.iter().for_each(|(_, id)| needed[id.index()] = true);
        for node in self.nodes.iter().rev() {
            if node.outputs.iter().any(|id| needed[id.index()]) {
                node.inputs.iter().flatten().for_each(|id| needed[id.index()] = true);
            }
        }
        needed
    }

    /// For each node, whether an output of the graph depends on it.
    pub fn needed_nodes(&self) -> Vec<bool> {
        let needed = self.needed_values();
        self.nodes.iter().map(|node| node.outputs.iter().any(|id| needed[id.index()])).collect()
    }

    /// Drops the nodes whose outputs nothing needs, and the bytes of constants that nothing reads. Inputs stay.
    pub fn drop_unused(&mut self) {
        let needed = self.needed_values();
        self.nodes.retain(|node| node.outputs.iter().any(|id| needed[id.index()]));
        for (value, _) in self.values.iter_mut().zip(&needed).filter(|(_, needed)| !**needed) {
            if let Source::Constant(_) | Source::Sizes(_) = value.source {
                value.source = Source::Node;
            }
        }
    }
}
