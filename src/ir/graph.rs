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

/// Computes the bytes of the outputs of a node with constant operands.
pub type Evaluate<'a> = &'a dyn Fn(&Graph, &Node) -> Result<Vec<Buffer>>;

/// Where a value comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Bound to a tensor at each dispatch.
    Input,
    /// Known when the graph is built.
    Constant(Constant),
    /// Integers that depend on sizes still unknown, as elements of the value's type.
    Sizes(Arc<[Dim]>),
    /// Computed by a node.
    Node,
}

/// Sizes as elements of type `dtype`: the bytes of [`Source::Sizes`] once they are known.
///
/// # Errors
/// An `UnknownError` if memory runs out.
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
    /// The bytes of a constant, unless it depends on sizes still unknown.
    pub fn constant(&self) -> Option<&Constant> {
        if let Source::Constant(bytes) = &self.source { Some(bytes) } else { None }
    }
}

/// An element-wise program on the result of a node's operator; it computes the node's (only) output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Epilogue {
    /// The program. Operand 0 is the result, with the data type and shape of the output.
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
    /// The operation.
    pub op: Operation,
    /// The caller's name for it, for messages.
    pub label: String,
    /// The operator's operands in the order of its rule; `None` for missing optional ones.
    pub inputs: Vec<Option<ValueId>>,
    /// Outputs in the order of the operator's rule.
    pub outputs: Vec<ValueId>,
    /// The element-wise program on the operator's result. Set by the compiler; usually empty.
    pub epilogue: Epilogue,
    /// The operands computed while they are read. Set by the compiler; usually empty.
    pub prologues: Vec<Prologue>,
    /// The indices, ascending, of the nodes of the graph as built that this one stands for.
    pub origins: Vec<u32>,
}

impl Node {
    /// Calls `visit` with every dimension.
    pub(super) fn visit_dims(&mut self, visit: &mut dyn FnMut(&mut Dim)) {
        self.op.visit_dims(visit);
        for prologue in &mut self.prologues {
            prologue.shape.iter_mut().chain(&mut prologue.descriptor.shape).for_each(&mut *visit);
        }
    }

    /// Whether both nodes are the same for all sizes. To compare dimensions by their values would record a comparison.
    pub(super) fn is_same(&self, other: &Node) -> bool {
        let parts = |node: &Node| {
            let (mut node, mut dims) = (node.clone(), Vec::new());
            node.visit_dims(&mut |dim| dims.push(std::mem::take(dim).key()));
            (dims, node)
        };
        self.outputs == other.outputs && self.inputs == other.inputs && parts(self) == parts(other)
    }

    /// Everything that the node reads: operands, and those of the epilogue and the prologues.
    pub fn reads(&self) -> impl Iterator<Item = &ValueId> {
        self.inputs.iter().flatten().chain(self.added())
    }

    /// The operands of the epilogue and the prologues, which are not the operator's own.
    fn added(&self) -> impl Iterator<Item = &ValueId> {
        self.epilogue.operands.iter().chain(self.prologues.iter().flat_map(|prologue| &prologue.others))
    }

    /// Calls `visit` with everything that the node reads.
    pub fn each_read_mut(&mut self, visit: impl FnMut(&mut ValueId)) {
        let others = self.prologues.iter_mut().flat_map(|prologue| &mut prologue.others);
        self.inputs.iter_mut().flatten().chain(&mut self.epilogue.operands).chain(others).for_each(visit);
    }

    /// The node's operands, for people. Unless the node is plain, missing trailing operands of the operator are listed
    /// as `None`, before those of the epilogue and the prologues.
    pub fn written(&self) -> Vec<Option<ValueId>> {
        let row = self.op.rule().operands;
        let mut all = self.inputs.clone();
        if !(self.is_plain() || row.iter().any(|operand| operand.variadic)) {
            all.resize(row.len(), None);
        }
        all.extend(self.added().copied().map(Some));
        all
    }

    /// Whether the node consists of its operator only.
    pub fn is_plain(&self) -> bool {
        self.epilogue.is_empty() && self.prologues.is_empty()
    }

    /// The prologue of the operand at this index.
    pub fn prologue(&self, operand: usize) -> Option<&Prologue> {
        self.prologues.iter().find(|prologue| prologue.operand == operand)
    }
}

/// An output that begins with an input, in the same memory: callers that run the graph put the input's bytes where the
/// output starts. In both, the dimension `axis` is outermost in memory, the others follow in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growing {
    /// Index among the inputs of the graph.
    pub input: usize,
    /// Index among the outputs.
    pub output: usize,
    /// The dimension that grows.
    pub axis: usize,
}

/// A computational graph, with nodes in an executable order.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// All values; after a pass, some may be unused.
    pub values: Vec<Value>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Named inputs.
    pub inputs: Vec<(String, ValueId)>,
    /// Named outputs.
    pub outputs: Vec<(String, ValueId)>,
    /// Outputs that share the memory of inputs; none unless the graph's user requests it.
    pub growing: Vec<Growing>,
    /// The nodes that are computed in the same step as the node before them, ascending. Set by the compiler's last pass;
    /// usually empty.
    pub beside: Vec<usize>,
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
    /// An `UnknownError` if memory for the copy of `bytes` runs out.
    pub fn add_constant(&mut self, descriptor: Descriptor, bytes: &[u8]) -> Result<ValueId> {
        assert_eq!(descriptor.bytes(), bytes.len());
        Ok(self.add_value(descriptor, Source::Constant(Buffer::copy_of(bytes)?.into())))
    }

    /// The descriptors of a node's operands.
    pub fn input_descriptors<'a>(&'a self, node: &Node) -> Vec<Option<&'a Descriptor>> {
        node.inputs.iter().map(|input| input.map(|id| self.descriptor(id))).collect()
    }

    /// The descriptors of a node's operands as its operator sees them.
    pub fn operand_descriptors<'a>(&'a self, node: &'a Node) -> Vec<Option<&'a Descriptor>> {
        let mut all = self.input_descriptors(node);
        node.prologues.iter().for_each(|prologue| all[prologue.operand] = Some(&prologue.descriptor));
        all
    }

    /// A graph of nothing but `node`, which reads only constants; its outputs are those of the node, in their order.
    pub fn alone(&self, node: &Node) -> Graph {
        let (mut graph, mut node) = (Graph::default(), node.clone());
        node.each_read_mut(|id| {
            let Value { descriptor, source } = self.value(*id).clone();
            *id = graph.add_value(descriptor, source);
        });
        for id in &mut node.outputs {
            *id = graph.add_value(self.descriptor(*id).clone(), Source::Node);
            graph.outputs.push((id.0.to_string(), *id));
        }
        graph.nodes.push(node);
        graph
    }

    /// The multiply-adds of a node's operator.
    pub fn multiply_adds(&self, node: &Node) -> u64 {
        let outputs: Vec<&Descriptor> = node.outputs.iter().map(|&id| self.descriptor(id)).collect();
        node.op.multiply_adds(&self.operand_descriptors(node), &outputs)
    }

    /// Checks for errors that can only be reported when the graph is built.
    ///
    /// # Errors
    /// An OperationError for an operator with attributes that the draft accepts but its formulas do not cover.
    pub fn check_defined(&self) -> Result<()> {
        self.nodes.iter().try_for_each(|node| {
            let check = node.op.check_defined(&self.input_descriptors(node));
            check.map_err(|problem| Error {
                kind: ErrorKind::Operation,
                ..Error::at(node.op.rule().name, &node.label, problem)
            })
        })
    }

    /// For each value, the input that it begins with, if it is an output that shares the memory of one.
    pub fn caches(&self) -> Vec<Option<ValueId>> {
        let mut caches = vec![None; self.values.len()];
        for growing in &self.growing {
            caches[self.outputs[growing.output].1.index()] = Some(self.inputs[growing.input].1);
        }
        caches
    }

    /// For each value, the number of uses by nodes and as outputs of the graph.
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

    /// Drops nodes whose outputs are unused, and the bytes of unused constants. Keeps the inputs.
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
