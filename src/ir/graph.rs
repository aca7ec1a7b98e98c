//! Graphs as plain data: values and nodes.

use super::constant::Constant;
use super::prologue::Prologue;
use super::value_id::ValueId;
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Buffer;
use crate::ops::fused::Fused;
use crate::ops::{Operation, Operator};
use crate::shape::Descriptor;
use std::sync::Arc;

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

/// What is computed of the result of an operator, element by element, to give the (only) output of its node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Epilogue {
    /// Operand 0 is the result, of the data type and shape of the output.
    pub program: Fused,
    /// The other operands, broadcast to the output.
    pub operands: Vec<ValueId>,
}

impl Epilogue {
    /// Whether there is nothing to compute.
    pub fn is_empty(&self) -> bool {
        self.program.is_empty()
    }
}

/// One use of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What is computed.
    pub op: Operation,
    /// The caller's name for it, for messages.
    pub label: String,
    /// The operands of the operator in the order of the rule row; `None` where an optional one was not given.
    pub inputs: Vec<Option<ValueId>>,
    /// Outputs in the order of the rule row.
    pub outputs: Vec<ValueId>,
    /// What is computed of the result of the operator. Set by the compiler; as a rule nothing.
    pub epilogue: Epilogue,
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

    /// Everything that the node reads: operands, those of the epilogue, those of the prologues.
    pub fn reads(&self) -> impl Iterator<Item = &ValueId> {
        self.inputs.iter().flatten().chain(self.added())
    }

    /// What the epilogue and the prologues read beside operands of the operator and its result.
    fn added(&self) -> impl Iterator<Item = &ValueId> {
        self.epilogue.operands.iter().chain(self.prologues.iter().flat_map(|prologue| &prologue.others))
    }

    /// Shows `visit` everything that the node reads.
    pub fn each_read_mut(&mut self, visit: impl FnMut(&mut ValueId)) {
        let others = self.prologues.iter_mut().flat_map(|prologue| &mut prologue.others);
        self.inputs.iter_mut().flatten().chain(&mut self.epilogue.operands).chain(others).for_each(visit);
    }

    /// What the node reads as people see it: where the operator does not stand alone, a whole row comes first.
    pub fn written(&self) -> Vec<Option<ValueId>> {
        let row = self.op.rule().operands;
        let mut all = self.inputs.clone();
        if !(self.is_plain() || row.iter().any(|operand| operand.variadic)) {
            all.resize(row.len(), None);
        }
        all.extend(self.added().copied().map(Some));
        all
    }

    /// Whether it computes nothing but its operator.
    pub fn is_plain(&self) -> bool {
        self.epilogue.is_empty() && self.prologues.is_empty()
    }

    /// What computes the operand of that index.
    pub fn prologue(&self, operand: usize) -> Option<&Prologue> {
        self.prologues.iter().find(|prologue| prologue.operand == operand)
    }
}

/// An output that begins with an input, in the same memory: whoever runs the graph puts the bytes of the input where those of the
/// output start. The dimension `axis` of both is outermost in memory, before the others in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growing {
    /// The place among the inputs of the graph.
    pub input: usize,
    /// The place among the outputs.
    pub output: usize,
    /// The dimension along which the output is longer.
    pub axis: usize,
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
    /// Outputs that take the memory of inputs; none, unless whoever runs the graph asks for it.
    pub growing: Vec<Growing>,
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
    pub fn input_descriptors<'a>(&'a self, node: &Node) -> Vec<Option<&'a Descriptor>> {
        node.inputs.iter().map(|input| input.map(|id| self.descriptor(id))).collect()
    }

    /// The descriptors of the operands of a node's operator, as that sees them.
    pub fn operand_descriptors<'a>(&'a self, node: &'a Node) -> Vec<Option<&'a Descriptor>> {
        let mut all = self.input_descriptors(node);
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

    /// The input that the value `id` begins with, if that is an output that takes the memory of one.
    pub fn cache_of(&self, id: ValueId) -> Option<ValueId> {
        let growing = self.growing.iter().find(|growing| self.outputs[growing.output].1 == id)?;
        Some(self.inputs[growing.input].1)
    }

    /// For each value, how often nodes read it and outputs of the graph are it.
    pub fn use_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.values.len()];
        let operands = self.nodes.iter().flat_map(Node::reads);
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
                node.reads().for_each(|id| needed[id.index()] = true);
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
