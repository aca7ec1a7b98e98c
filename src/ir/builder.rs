//! The builder behind `MLGraphBuilder`: validates operators one by one and appends them to a graph.

use super::{Constant, Epilogue, Filled, Graph, Node, Source, ValueId};
use crate::dimension::Dim;
use crate::dtype::{DataType, Number};
use crate::error::{Error, Problem, Result, amount};
use crate::memory::{Buffer, Mapped};
use crate::ops::attributes::Attributes;
use crate::ops::{Op, Operation};
use crate::shape::{Descriptor, MAX_TENSOR_BYTES};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// An operand of a builder: a value of the graph under construction.
pub type OperandId = ValueId;

/// A graph under construction.
#[derive(Clone, Debug)]
pub struct Builder {
    graph: Graph,
    /// The names of the inputs.
    names: HashSet<String>,
    max_tensor_bytes: u64,
    /// Whether the device has kernels for operators that the API lacks.
    has_extensions: bool,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::with_limit(MAX_TENSOR_BYTES)
    }
}

/// The size of a builder at a moment, see [`Builder::checkpoint`].
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint {
    values: usize,
    nodes: usize,
    inputs: usize,
}

impl Builder {
    /// An empty builder.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// An empty builder for operands of at most `max_tensor_bytes` bytes each.
    pub fn with_limit(max_tensor_bytes: u64) -> Builder {
        Builder { graph: Graph::default(), names: HashSet::new(), max_tensor_bytes, has_extensions: true }
    }

    /// An empty builder for the same device.
    pub fn like(other: &Builder) -> Builder {
        Builder::with_limit(other.max_tensor_bytes).with_extensions(other.has_extensions)
    }

    /// Says whether the device has kernels for operators that the API lacks.
    pub fn with_extensions(self, has_extensions: bool) -> Builder {
        Builder { has_extensions, ..self }
    }

    /// Whether the device has kernels for operators that the API lacks.
    pub fn has_extensions(&self) -> bool {
        self.has_extensions
    }

    /// The graph so far.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The descriptor of an operand of this builder.
    pub fn descriptor(&self, id: OperandId) -> &Descriptor {
        self.graph.descriptor(id)
    }

    /// `input()`: a named input of the graph.
    ///
    /// # Errors
    /// A TypeError if the name is empty or repeated, or the descriptor exceeds the limits.
    pub fn input(&mut self, name: &str, descriptor: Descriptor) -> Result<OperandId> {
        let fail = |problem| Error::at("input", "", problem);
        if name.is_empty() {
            return Err(fail(Problem::attribute("name", name, "a name that is not empty")));
        }
        if self.names.contains(name) {
            return Err(fail(Problem::attribute("name", name, "a name that no other input has")));
        }
        descriptor.check_bytes("descriptor", self.max_tensor_bytes).map_err(fail)?;
        let id = self.graph.add_value(descriptor, Source::Input);
        self.names.insert(name.to_string());
        self.graph.inputs.push((name.to_string(), id));
        Ok(id)
    }

    /// `constant(descriptor, buffer)`: a constant with a copy of `bytes`.
    ///
    /// # Errors
    /// A TypeError if the descriptor exceeds the limits or `bytes` has the wrong length, an UnknownError if memory runs
    /// out.
    pub fn constant(&mut self, descriptor: Descriptor, bytes: &[u8]) -> Result<OperandId> {
        self.constant_of(descriptor, Buffer::copy_of(bytes)?)
    }

    /// A constant that holds `bytes`.
    ///
    /// # Errors
    /// A TypeError if the descriptor exceeds the limits or `bytes` has the wrong length.
    pub fn constant_of(&mut self, descriptor: Descriptor, bytes: Buffer) -> Result<OperandId> {
        check_constant(&descriptor, bytes.len(), self.max_tensor_bytes)?;
        Ok(self.graph.add_value(descriptor, Source::Constant(bytes.into())))
    }

    /// A constant that shares the bytes of another one.
    ///
    /// # Errors
    /// A TypeError if the descriptor exceeds the limits or the constant has the wrong number of bytes.
    pub fn constant_like(&mut self, descriptor: Descriptor, constant: &Constant) -> Result<OperandId> {
        check_constant(&descriptor, constant.len(), self.max_tensor_bytes)?;
        Ok(self.graph.add_value(descriptor, Source::Constant(constant.clone())))
    }

    /// A constant with bytes that are read through `window` when the graph is built, without a copy now.
    ///
    /// # Errors
    /// A TypeError if the descriptor exceeds the limits or the window has the wrong number of bytes.
    pub fn constant_mapped(&mut self, descriptor: Descriptor, window: Mapped) -> Result<OperandId> {
        check_constant(&descriptor, window.len(), self.max_tensor_bytes)?;
        Ok(self.graph.add_value(descriptor, Source::Constant(Constant::Mapped(window))))
    }

    /// A constant whose bytes are all `byte`: it takes no memory.
    ///
    /// # Errors
    /// A TypeError if the descriptor exceeds the limits.
    pub fn constant_filled(&mut self, descriptor: Descriptor, byte: u8) -> Result<OperandId> {
        let len = descriptor.bytes();
        check_constant(&descriptor, len, self.max_tensor_bytes)?;
        Ok(self.graph.add_value(descriptor, Source::Constant(Constant::Filled(Filled { byte, len }))))
    }

    /// A constant of integers that depend on sizes still unknown. It may have any data type.
    ///
    /// # Errors
    /// A TypeError if the descriptor exceeds the limits or `dims` has the wrong number of elements.
    pub fn sizes(&mut self, descriptor: Descriptor, dims: &[Dim]) -> Result<OperandId> {
        check_constant(&descriptor, descriptor.dtype.size() * dims.len(), self.max_tensor_bytes)?;
        Ok(self.graph.add_value(descriptor, Source::Sizes(dims.into())))
    }

    /// An input without a name, for a graph that is never built.
    ///
    /// # Errors
    /// A TypeError if the descriptor exceeds the limits.
    pub fn unnamed_input(&mut self, descriptor: Descriptor) -> Result<OperandId> {
        let fail = |problem| Error::at("input", "", problem);
        descriptor.check_bytes("descriptor", self.max_tensor_bytes).map_err(fail)?;
        Ok(self.graph.add_value(descriptor, Source::Input))
    }

    /// Represents operand `id` of another builder in this one, which is never built: constants become constants,
    /// everything else inputs.
    ///
    /// # Errors
    /// A TypeError if the descriptor exceeds the limits.
    pub fn stand_in(&mut self, other: &Builder, id: OperandId) -> Result<OperandId> {
        let value = other.graph.value(id);
        match &value.source {
            Source::Constant(_) | Source::Sizes(_) => {
                Ok(self.graph.add_value(value.descriptor.clone(), value.source.clone()))
            }
            Source::Input | Source::Node => self.unnamed_input(value.descriptor.clone()),
        }
    }

    /// `constant(tensor)`: a constant that shares the bytes of a constant tensor.
    pub fn constant_shared(&mut self, descriptor: Descriptor, bytes: Arc<Buffer>) -> OperandId {
        assert_eq!(descriptor.bytes(), bytes.len());
        self.graph.add_value(descriptor, Source::Constant(Constant::Owned(bytes)))
    }

    /// `constant(dataType, value)`: a scalar, cast to `dtype`.
    ///
    /// # Errors
    /// An UnknownError if memory runs out.
    pub fn scalar(&mut self, dtype: DataType, value: Number) -> Result<OperandId> {
        self.graph.add_constant(Descriptor::new(dtype, [0u32; 0]), &value.to_bytes(dtype))
    }

    /// Appends an operator, with its operands in the order of its rule; returns its outputs.
    ///
    /// # Errors
    /// A TypeError if the operands or attributes violate the operator's rules.
    pub fn add(
        &mut self,
        op: impl Into<Op>,
        inputs: Vec<Option<OperandId>>,
        label: impl Into<String>,
    ) -> Result<Vec<OperandId>> {
        self.add_operation(Operation::Api(op.into()), inputs, label.into())
    }

    /// Like [`add`](Self::add), for the compiler's own operators as well.
    ///
    /// # Errors
    /// Same as [`add`](Self::add).
    pub fn add_operation(
        &mut self,
        mut op: Operation,
        inputs: Vec<Option<OperandId>>,
        label: String,
    ) -> Result<Vec<OperandId>> {
        let descriptors: Vec<_> = inputs.iter().map(|input| input.map(|id| self.graph.descriptor(id))).collect();
        let resolved = op.resolve_below(&descriptors, self.max_tensor_bytes);
        let outputs = resolved.map_err(|problem| Error::at(op.rule().name, &label, problem))?;
        Ok(self.append(op, inputs, outputs, label))
    }

    /// Appends an operator whose outputs are known; returns them.
    pub fn append(
        &mut self,
        op: impl Into<Operation>,
        inputs: Vec<Option<OperandId>>,
        outputs: Vec<Descriptor>,
        label: String,
    ) -> Vec<OperandId> {
        let outputs: Vec<_> = outputs.into_iter().map(|output| self.graph.add_value(output, Source::Node)).collect();
        let (op, (epilogue, prologues, origins)) = (op.into(), Default::default());
        self.graph.nodes.push(Node { op, label, inputs, outputs: outputs.clone(), epilogue, prologues, origins });
        outputs
    }

    /// Sets the epilogue of the last node, for the text form of compiled graphs.
    pub(super) fn set_epilogue(&mut self, epilogue: Epilogue) {
        self.graph.nodes.last_mut().expect("a node").epilogue = epilogue;
    }

    /// Appends the operator of the method `name`, with operands by their IDL names.
    ///
    /// # Errors
    /// Same as [`add`](Self::add), and a TypeError for a name or attribute that the draft does not have.
    pub fn add_named(
        &mut self,
        name: &str,
        operands: BTreeMap<String, Vec<OperandId>>,
        attributes: Attributes,
        label: &str,
    ) -> Result<Vec<OperandId>> {
        let (op, inputs) = self.read_named(name, operands, attributes, label)?;
        self.add(op, inputs, label)
    }

    /// The operator of the method `name`, and its operands in the order of its rule.
    ///
    /// # Errors
    /// A TypeError for a name, operand or attribute that the draft does not have.
    pub fn read_named(
        &self,
        name: &str,
        mut operands: BTreeMap<String, Vec<OperandId>>,
        attributes: Attributes,
        label: &str,
    ) -> Result<(Op, Vec<Option<OperandId>>)> {
        let fail = |problem| Error::at(name, label, problem);
        let op = Op::read(name, attributes).map_err(fail)?;
        let mut inputs = Vec::new();
        for rule in op.rule().operands {
            match operands.remove(rule.name) {
                Some(ids) if rule.variadic => inputs.extend(ids.into_iter().map(Some)),
                Some(ids) => inputs.push(ids.first().copied()),
                None if rule.variadic => {}
                None => inputs.push(None),
            }
        }
        if let Some((unknown, _)) = operands.pop_first() {
            return Err(fail(Problem::attribute("operand", unknown, "an operand of the operator")));
        }
        if let Some(id) = inputs.iter().flatten().find(|id| id.index() >= self.graph.values.len()) {
            return Err(fail(Problem::attribute("operand", id, "an operand of this builder")));
        }
        Ok((op, inputs))
    }

    /// Maximum size of an operand in bytes.
    pub fn max_tensor_bytes(&self) -> u64 {
        self.max_tensor_bytes
    }

    /// The integers of an operand that depend on sizes still unknown.
    pub fn sizes_of(&self, id: OperandId) -> Option<&[Dim]> {
        if let Source::Sizes(dims) = &self.graph.value(id).source { Some(dims) } else { None }
    }

    /// Whether an operand is a constant.
    pub fn is_constant(&self, id: OperandId) -> bool {
        self.constant_value(id).is_some()
    }

    /// The bytes of a constant operand.
    pub fn constant_value(&self, id: OperandId) -> Option<&Constant> {
        self.graph.value(id).constant()
    }

    /// Whether an operand is the output of an operator: only these can be outputs of the graph.
    pub fn is_computed(&self, id: OperandId) -> bool {
        matches!(self.graph.value(id).source, Source::Node)
    }

    /// Records the current size of the builder.
    pub fn checkpoint(&self) -> Checkpoint {
        let Graph { values, nodes, inputs, .. } = &self.graph;
        Checkpoint { values: values.len(), nodes: nodes.len(), inputs: inputs.len() }
    }

    /// Removes everything added since `checkpoint`. Operands added since then become invalid.
    pub fn roll_back(&mut self, checkpoint: Checkpoint) {
        self.graph.values.truncate(checkpoint.values);
        self.graph.nodes.truncate(checkpoint.nodes);
        self.graph.inputs.drain(checkpoint.inputs..).for_each(|(name, _)| _ = self.names.remove(&name));
    }

    /// Number of values so far.
    pub fn graph_len(&self) -> usize {
        self.graph.values.len()
    }

    /// Returns the graph of everything that the named `outputs` depend on. Unused inputs are dropped.
    pub fn finish(self, outputs: Vec<(String, OperandId)>) -> Graph {
        let mut graph = self.graph;
        graph.outputs = outputs;
        graph.drop_unused();
        let uses = graph.use_counts();
        graph.inputs.retain(|(_, id)| uses[id.index()] > 0);
        graph.number_nodes();
        graph
    }
}

/// Checks that a constant of `bytes` bytes may have this descriptor.
fn check_constant(descriptor: &Descriptor, bytes: usize, most: u64) -> Result<()> {
    let fail = |problem| Error::at("constant", "", problem);
    descriptor.check_bytes("descriptor", most).map_err(fail)?;
    if descriptor.bytes() == bytes {
        return Ok(());
    }
    let expected = format!("the {} of {} {:?}", amount(descriptor.bytes(), "byte"), descriptor.dtype, descriptor.shape);
    Err(fail(Problem::Attribute { name: "buffer", got: amount(bytes, "byte"), expected }))
}
