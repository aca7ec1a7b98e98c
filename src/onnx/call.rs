//! The translation of one node: its inputs and attributes, and the operators that it emits.

use super::body::Body;
use super::control_flow::dimension;
use super::error::{Cut, Refusal, shortened};
use super::graph::{Argument, ByName, Node};
use super::import::{Importer, Place, Value, value_type};
use super::proto;
use super::sized::is_small;
use super::stop::Stop;
use super::tensor::{ElementType, Literal, TensorRecord};
use crate::dimension::{Dim, dims, numbers};
use crate::dtype::DataType;
use crate::error::Error;
use crate::ir::{Builder, OperandId, bytes_of_sizes};
use crate::memory::check_room;
use crate::ops::elementwise::Elementwise;
use crate::ops::tensor::Tensor;
use crate::ops::{Api, Extension, Op, Operation, Operator};
use crate::shape::Descriptor;
use std::collections::HashMap;
use std::sync::Arc;

pub use super::constants::check_generated;

/// The result of a step in a translation.
pub type Step<T> = std::result::Result<T, Refusal>;

/// Operators with constant operands are computed during translation if operands and outputs together have at most this
/// number of elements: this covers the shape arithmetic of models. Larger ones are left to the compiler.
const MAX_FOLDED_ELEMENTS: usize = 1 << 16;

/// Like [`MAX_FOLDED_ELEMENTS`], for cumulative sums.
const MAX_SUMMED_ELEMENTS: usize = 1 << 13;

/// Memory of a naive reference per element of operands and outputs, in bytes: a number of 128 bits, and its copies.
const REFERENCE_BYTES: usize = 48;

/// Approximate memory per operator in bytes while a graph is being built.
const OPERATOR_BYTES: usize = 640;

/// Bytes that lists may take in addition to what is left for constants: together, a tiny model has enough for the matrix
/// of a Fourier transform of 2,048 samples, and for its list.
const LISTS: usize = 14 << 20;

/// A node under translation.
pub struct Call<'c, 'm> {
    pub(super) importer: &'c mut Importer<'m>,
    node: Node<'c>,
    pub(super) label: String,
    inputs: Vec<Option<Value>>,
    arguments: Vec<Argument>,
    /// The version of the node's operator set that the model uses.
    pub opset: i64,
    place: Place<'c>,
}

impl<'c, 'm> Call<'c, 'm> {
    pub(super) fn new(
        importer: &'c mut Importer<'m>,
        node: Node<'c>,
        inputs: Vec<Option<Value>>,
        arguments: Vec<Argument>,
        opset: i64,
        place: Place<'c>,
    ) -> Call<'c, 'm> {
        // Copied into every emitted operator.
        let label = shortened(node.shown_name());
        Call { importer, node, label, inputs, arguments, opset, place }
    }

    /// Whether the node is evaluated for a single run, with all inputs known.
    pub fn is_evaluated(&self) -> bool {
        self.importer.compute.is_some()
    }

    // ---- Inputs --------------------------------------------------------------------------------------------------

    /// Number of inputs that the node names, including omitted ones in between.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Number of outputs that the node names, including omitted ones in between.
    pub fn output_count(&self) -> usize {
        self.node.outputs().len()
    }

    /// Whether the output at `index` has a name, by which others could read it.
    pub fn wants(&self, index: usize) -> bool {
        self.node.output(index).is_some()
    }

    /// The input at `index` as any kind of value, if present.
    pub fn value(&self, index: usize) -> Option<Value> {
        self.inputs.get(index).cloned().flatten()
    }

    /// The input at `index` as any kind of value.
    ///
    /// # Errors
    /// If it is missing.
    pub fn required(&self, index: usize) -> Step<Value> {
        self.value(index).ok_or_else(|| Refusal(format!("input {index} is missing")))
    }

    /// Replaces the input at `index`, or adds it, for the translation of a related operator.
    pub fn replace(&mut self, index: usize, operand: OperandId) {
        self.inputs.resize(self.inputs.len().max(index + 1), None);
        self.inputs[index] = Some(Value::Tensor(operand));
    }

    /// The number of channels in a block of `com.microsoft.nchwc`; `None` for a model without channels in blocks.
    ///
    /// # Errors
    /// If nodes or weights of the model are damaged.
    pub fn block_size(&self) -> Step<Option<u32>> {
        Ok(self.importer.model.block_size()?)
    }

    /// The input at `index` as an operand, a tensor that WebNN supports.
    ///
    /// # Errors
    /// If it is missing or not such a tensor.
    pub fn input(&self, index: usize) -> Step<OperandId> {
        self.operand(&self.required(index)?, index)
    }

    /// Like [`input`](Self::input), for an optional input.
    ///
    /// # Errors
    /// If it is present but not a tensor that WebNN supports.
    pub fn optional(&self, index: usize) -> Step<Option<OperandId>> {
        self.value(index).map(|value| self.operand(&value, index)).transpose()
    }

    fn operand(&self, value: &Value, index: usize) -> Step<OperandId> {
        match value {
            Value::Tensor(id) => Ok(*id),
            Value::Texts(_) => Err(Refusal(format!("input {index} is a tensor of texts, expected numbers"))),
            Value::Literal(literal) => {
                Err(Refusal(format!("input {index} is of type {}, which WebNN does not have", literal.element)))
            }
            Value::Empty(descriptor) => {
                let shape = &descriptor.shape;
                Err(Refusal(format!("input {index} has shape {shape:?}, without elements, which WebNN does not have")))
            }
            Value::Sequence(_) => Err(Refusal(format!("input {index} is a sequence, expected a tensor"))),
            Value::Absent => unreachable!("nodes see an omitted input"),
            Value::Unknown => unreachable!("nodes that read what is unknown are not translated"),
        }
    }

    /// The shape of the input at `index`, which may be empty or of a type that WebNN does not support.
    ///
    /// # Errors
    /// If it is missing or not a tensor.
    pub fn input_shape(&self, index: usize) -> Step<Vec<Dim>> {
        match self.required(index)? {
            Value::Tensor(id) | Value::Texts(id) => Ok(self.shape(id)),
            Value::Literal(literal) => Ok(dims(&literal.shape)),
            Value::Empty(descriptor) => Ok(descriptor.shape),
            _ => Err(Refusal(format!("input {index} is not a tensor"))),
        }
    }

    /// Like [`input_shape`](Self::input_shape), as numbers; see [`Dim::get`].
    ///
    /// # Errors
    /// Same as [`input_shape`](Self::input_shape).
    pub fn input_sizes(&self, index: usize) -> Step<Vec<u32>> {
        Ok(numbers(&self.input_shape(index)?))
    }

    /// The data type of the input at `index`; `None` if WebNN does not support it.
    pub fn input_type(&self, index: usize) -> Option<DataType> {
        value_type(self.importer.builder, &self.value(index)?)
    }

    /// Whether the model has inputs that are doubles, which are rounded to float32 in front of all nodes.
    pub fn rounds_inputs(&self) -> bool {
        !self.importer.has_doubles
            && self.importer.model.free_inputs().any(|input| input.element == Some(ElementType::Double))
    }

    // ---- Attributes ----------------------------------------------------------------------------------------------

    pub(super) fn attribute(&self, name: &str) -> Option<proto::Attribute> {
        self.importer.model.arena.attribute(&self.arguments, name)
    }

    /// Whether the attribute is present.
    pub fn has_attribute(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    /// An integer attribute, if present.
    pub fn int_attribute(&self, name: &str) -> Option<i64> {
        // Writers may omit an integer with the value 0.
        self.attribute(name).map(|attribute| attribute.i.unwrap_or(0))
    }

    /// An integer attribute or its default.
    pub fn int_or(&self, name: &str, default: i64) -> i64 {
        self.int_attribute(name).unwrap_or(default)
    }

    /// A floating-point attribute, if present.
    pub fn float_attribute(&self, name: &str) -> Option<f64> {
        self.attribute(name).map(|attribute| attribute.f.unwrap_or(0.0) as f64)
    }

    /// A floating-point attribute or its default.
    pub fn float_or(&self, name: &str, default: f32) -> f64 {
        self.float_attribute(name).unwrap_or(default as f64)
    }

    /// A string attribute, if present.
    pub fn text_attribute(&self, name: &str) -> Option<String> {
        let text = self.attribute(name)?.s.unwrap_or_default();
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// A string attribute or its default.
    pub fn text_or(&self, name: &str, default: &str) -> String {
        self.text_attribute(name).unwrap_or_else(|| default.to_string())
    }

    /// A list of integers, if present.
    pub fn ints_attribute(&self, name: &str) -> Option<Vec<i64>> {
        self.attribute(name).map(|attribute| attribute.ints)
    }

    /// A list of floating-point numbers, if present.
    pub fn floats_attribute(&self, name: &str) -> Option<Vec<f64>> {
        self.attribute(name).map(|attribute| attribute.floats.iter().map(|&x| x as f64).collect())
    }

    /// A list of strings, if present.
    pub fn texts_attribute(&self, name: &str) -> Option<Vec<String>> {
        let texts = self.attribute(name)?.strings;
        Some(texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
    }

    /// An attribute that is a tensor, dense or sparse, if present.
    ///
    /// # Errors
    /// If the tensor is damaged, or memory for a sparse one runs out.
    pub fn tensor_attribute(&mut self, name: &str) -> Step<Option<Literal>> {
        let record = match self.attribute(name) {
            Some(proto::Attribute { t: Some(encoded), .. }) => TensorRecord::decode(&encoded)?,
            Some(proto::Attribute { sparse_tensor: Some(encoded), .. }) => TensorRecord::decode_sparse(&encoded)?,
            _ => return Ok(None),
        };
        if record.is_sparse() {
            self.take_memory(record.byte_length())?;
        }
        Ok(Some(record.load(&self.importer.model.files)?))
    }

    /// An attribute that names an element type, if present.
    ///
    /// # Errors
    /// If the type does not exist.
    pub fn type_attribute(&self, name: &str) -> Step<Option<ElementType>> {
        // The name of the type, before opset 6.
        if let Some(text) = self.text_attribute(name).filter(|text| !text.is_empty()) {
            let element = ElementType::from_name(&text);
            return element.map(Some).ok_or_else(|| Refusal(format!("{name} is {text}, which is not an element type")));
        }
        let Some(code) = self.int_attribute(name) else { return Ok(None) };
        let element = i32::try_from(code).ok().and_then(ElementType::from_code);
        element.map(Some).ok_or_else(|| Refusal(format!("{name} is {code}, which is not an element type")))
    }

    /// Resolves `axis` of a tensor of `rank` dimensions; negative values count from the end.
    ///
    /// # Errors
    /// If the axis does not exist.
    pub fn axis(&self, axis: i64, rank: usize) -> Step<u32> {
        Ok(dimension(axis, rank).map(|axis| axis as u32)?)
    }

    /// Like [`axis`](Self::axis), for several distinct axes.
    ///
    /// # Errors
    /// If an axis does not exist or appears twice.
    pub fn axes(&self, axes: &[i64], rank: usize) -> Step<Vec<u32>> {
        if axes.len() > rank {
            return Err(Refusal(format!("{} axes are too many for a tensor of rank {rank}", axes.len())));
        }
        let mut all = Vec::new();
        for &axis in axes {
            let axis = self.axis(axis, rank)?;
            if all.contains(&axis) {
                return Err(Refusal(format!("axis {axis} appears twice in {axes:?}")));
            }
            all.push(axis);
        }
        Ok(all)
    }

    /// What `prepare` makes of the attributes of the node, once for all runs.
    ///
    /// # Errors
    /// The errors of `prepare`.
    pub fn prepared<T: Send + Sync + 'static>(&mut self, prepare: impl FnOnce(&mut Self) -> Step<T>) -> Step<Arc<T>> {
        // In a function, attributes can be those of its calls.
        if self.place.arguments.is_some() {
            return prepare(self).map(Arc::new);
        }
        let (node, model) = (self.node.id(), self.importer.model);
        if let Some(known) = model.prepared.get(node) {
            return Ok(known);
        }
        let made = Arc::new(prepare(self)?);
        model.prepared.keep(node, made.clone());
        Ok(made)
    }

    // ---- Emitting operators --------------------------------------------------------------------------------------

    /// The descriptor of an operand.
    pub fn descriptor(&self, operand: OperandId) -> Descriptor {
        self.importer.builder.descriptor(operand).clone()
    }

    /// The shape of an operand.
    pub fn shape(&self, operand: OperandId) -> Vec<Dim> {
        self.importer.builder.descriptor(operand).shape.clone()
    }

    /// The shape of an operand as numbers; see [`Dim::get`].
    pub fn sizes(&self, operand: OperandId) -> Vec<u32> {
        numbers(&self.importer.builder.descriptor(operand).shape)
    }

    /// The rank of an operand.
    pub fn rank(&self, operand: OperandId) -> usize {
        self.importer.builder.descriptor(operand).rank()
    }

    /// Whether an operand is a constant.
    pub fn is_constant(&self, operand: OperandId) -> bool {
        self.importer.builder.is_constant(operand)
    }

    /// Whether the device has kernels for all operators that the API lacks.
    pub fn has_extensions(&self) -> bool {
        self.importer.builder.has_extensions()
    }

    /// The data type of an operand.
    pub fn dtype(&self, operand: OperandId) -> DataType {
        self.importer.builder.descriptor(operand).dtype
    }

    /// Emits an operator, or computes it immediately if its operands are small constants.
    ///
    /// # Errors
    /// If the operands or attributes violate the operator's rules.
    pub fn emit_all(&mut self, op: impl Into<Operation>, inputs: Vec<Option<OperandId>>) -> Step<Vec<OperandId>> {
        match inputs.iter().flatten().any(|&id| self.dtype(id) == DataType::Float64) {
            true => self.emit_on_doubles(op.into(), inputs),
            false => self.emit_as_given(op.into(), inputs),
        }
    }

    /// [`emit_all`](Self::emit_all) for operands of types that the operator takes.
    pub(super) fn emit_as_given(&mut self, mut op: Operation, inputs: Vec<Option<OperandId>>) -> Step<Vec<OperandId>> {
        if let Some(outputs) = self.fold(&mut op, &inputs)? {
            return Ok(outputs);
        }
        if !self.has_extensions() {
            let lacks = match &op {
                Operation::Extension(op) if !op.is_for_gpus() => Some(op.rule().name),
                Api(Op::Elementwise(Elementwise::Cast { to: DataType::Float64 })) => Some("float64"),
                _ => inputs.iter().flatten().any(|&id| self.dtype(id) == DataType::Float64).then_some("float64"),
            };
            if let Some(lacks) = lacks {
                return Err(Refusal(format!("the GPU has no kernel for {lacks}")).unless(Cut::Elements));
            }
        }
        self.take_memory(OPERATOR_BYTES + inputs.len() * size_of::<Option<OperandId>>())?;
        Ok(self.importer.builder.add_operation(op, inputs, self.label.clone())?)
    }

    /// Like [`emit_all`](Self::emit_all), for an operator with one output.
    ///
    /// # Errors
    /// Same as [`emit_all`](Self::emit_all).
    pub fn emit(&mut self, op: impl Into<Operation>, inputs: &[OperandId]) -> Step<OperandId> {
        let outputs = self.emit_all(op, inputs.iter().copied().map(Some).collect())?;
        Ok(outputs[0])
    }

    /// The outputs of an operator whose operands are constants, computed as in a graph, if the node is evaluated.
    fn computed(&mut self, op: &Operation, inputs: &[Option<OperandId>]) -> Step<Option<Vec<OperandId>>> {
        let Some(compute) = self.importer.compute else { return Ok(None) };
        let mut alone = Builder::like(self.importer.builder);
        let mut operands = Vec::with_capacity(inputs.len());
        for &id in inputs {
            let Some(id) = id else {
                operands.push(None);
                continue;
            };
            let descriptor = self.importer.builder.descriptor(id).clone();
            match self.importer.builder.constant_value(id).filter(|_| !descriptor.dtype.is_nibble()) {
                Some(constant) => operands.push(Some(alone.constant_like(descriptor, constant)?)),
                None => return Ok(None),
            }
        }
        let outputs = alone.add_operation(op.clone(), operands, self.label.clone())?;
        let graph = alone.graph();
        graph.check_defined()?;
        let results = compute(graph, graph.nodes.last().expect("a node was added"))?;
        let builder = &mut *self.importer.builder;
        let constants =
            outputs.iter().zip(results).map(|(&id, bytes)| builder.constant_of(graph.descriptor(id).clone(), bytes));
        Ok(Some(constants.collect::<Result<_, _>>()?))
    }

    fn fold(&mut self, op: &mut Operation, inputs: &[Option<OperandId>]) -> Step<Option<Vec<OperandId>>> {
        let is_evaluated = self.is_evaluated();
        // A reshaped constant shares its bytes, see below.
        if !matches!(op, Api(Op::Reshape(_)))
            && let Some(outputs) = self.computed(op, inputs)?
        {
            return Ok(Some(outputs));
        }
        let builder = &mut *self.importer.builder;
        let is_sized = |id: &OperandId| builder.sizes_of(*id).is_some();
        if is_costly(op)
            || inputs.is_empty()
            || !inputs.iter().flatten().all(|id| builder.is_constant(*id) || is_sized(id))
        {
            return Ok(None);
        }
        let descriptors: Vec<_> = inputs.iter().map(|id| id.map(|id| builder.descriptor(id))).collect();
        // Adding the operator reports any error found here.
        let Ok(outputs) = op.resolve(&descriptors) else { return Ok(None) };
        // Sizes that are still unknown: computed once they are known.
        if !descriptors.iter().copied().flatten().chain(&outputs).all(Descriptor::is_known) {
            return Ok(None);
        }
        if let (Api(Op::Reshape(_)), [Some(id)]) = (&*op, inputs)
            && let Some(constant) = builder.constant_value(*id).cloned()
        {
            // The bytes are unchanged.
            return Ok(Some(vec![builder.constant_like(outputs[0].clone(), &constant)?]));
        }
        if inputs.iter().flatten().any(is_sized) {
            // Large results, and rows of tables, are the data that shape arithmetic applies to, not shapes.
            let is_used = !descriptors.iter().copied().flatten().chain(&outputs).all(is_small)
                || matches!(op, Api(Op::Gather(_) | Op::GatherElements(_) | Op::GatherNd(_)))
                    && inputs.first().copied().flatten().is_some_and(|table| !is_sized(&table))
                    && outputs[0].dtype.is_float();
            if let Api(op) = op
                && let Some(folded) = self.fold_sizes(op, inputs, &outputs)?
            {
                return Ok(Some(folded));
            }
            if is_used {
                return Ok(None);
            }
        }
        let builder = &mut *self.importer.builder;
        let descriptors: Vec<_> = inputs.iter().map(|id| id.map(|id| builder.descriptor(id))).collect();
        let mut elements: usize = descriptors.iter().flatten().map(|descriptor| descriptor.elements()).sum();
        elements += outputs.iter().map(Descriptor::elements).sum::<usize>();
        // The naive reference computes each running sum from the start: quadratic work.
        let is_long = matches!(op, Api(Op::CumulativeSum(_))) && elements > MAX_SUMMED_ELEMENTS;
        let is_much = (is_long || elements > MAX_FOLDED_ELEMENTS) && !is_evaluated;
        if is_much || op.check_defined(&descriptors).is_err() {
            return Ok(None);
        }
        let bytes: usize = outputs.iter().map(Descriptor::bytes).sum();
        let Some(foldable) = self.importer.foldable.get().checked_sub(elements) else { return Ok(None) };
        if self.take_memory(bytes).is_err() {
            return Ok(None);
        }
        self.importer.foldable.set(foldable);
        if elements > MAX_FOLDED_ELEMENTS {
            check_room(elements.saturating_mul(REFERENCE_BYTES))?;
        }
        let builder = &mut *self.importer.builder;
        let tensor = |id: OperandId| {
            let descriptor = builder.descriptor(id);
            if let Some(dims) = builder.sizes_of(id) {
                let bytes = bytes_of_sizes(dims.iter().map(|dim| dim.pinned()), descriptor.dtype)?;
                return Ok(Tensor::from_bytes(descriptor, bytes.bytes()));
            }
            let bytes = builder.constant_value(id).expect("a constant").buffer()?;
            Ok(Tensor::from_bytes(descriptor, bytes.bytes()))
        };
        let tensors: Vec<_> = inputs.iter().map(|id| id.map(tensor).transpose()).collect::<Result<_, Error>>()?;
        let tensors: Vec<_> = tensors.iter().map(Option::as_ref).collect();
        let results = op.reference(&tensors, &outputs);
        let constants =
            outputs.into_iter().zip(results).map(|(output, result)| builder.constant(output, &result.to_bytes()));
        Ok(Some(constants.collect::<Result<_, _>>()?))
    }

    /// Deducts from the memory, in bytes, that the translation of a model may use in addition to its weights.
    ///
    /// # Errors
    /// If less is left.
    pub fn take_memory(&mut self, bytes: usize) -> Step<()> {
        Ok(self.importer.take_memory(bytes)?)
    }

    /// Like [`take_memory`](Self::take_memory), for lists whose allocation cannot fail without ending the process.
    ///
    /// # Errors
    /// If less is left, or the machine has no room for them.
    pub fn take_room(&mut self, bytes: usize) -> Step<()> {
        self.take_memory(bytes)?;
        Ok(check_room(bytes)?)
    }

    /// Checks that lists of this size in bytes, which exist only during the translation of this node, fit into the
    /// memory for translations. Their allocation cannot fail without ending the process. What the data of a run decide
    /// is limited by the machine alone.
    ///
    /// # Errors
    /// If less is left, or the machine has no room for them.
    pub fn check_lists(&self, bytes: usize) -> Step<()> {
        if !self.is_evaluated() {
            self.importer.memory_without(bytes.saturating_sub(LISTS))?;
        }
        Ok(check_room(bytes)?)
    }

    /// An empty list with room for the elements of a constant.
    ///
    /// # Errors
    /// If there are more than a translation may generate.
    pub fn list(&self, count: u64) -> Step<Vec<f64>> {
        check_generated(count)?;
        self.check_lists(count as usize * size_of::<f64>())?;
        Ok(Vec::with_capacity(count as usize))
    }

    /// Deducts from the number of elements that may be computed during translation.
    ///
    /// # Errors
    /// If less is left, or the translation should end.
    pub fn take_work(&self, elements: usize) -> Step<()> {
        self.importer.stop.check()?;
        let left = self.importer.foldable.get().checked_sub(elements);
        self.importer.foldable.set(left.ok_or("evaluating the model's constants takes too long")?);
        Ok(())
    }

    /// Tells long work whether it should end.
    pub fn stop(&self) -> Stop {
        self.importer.stop.clone()
    }

    /// The integers of an operand that depend on sizes still unknown.
    pub(super) fn sizes_of(&self, operand: OperandId) -> Option<&[Dim]> {
        self.importer.builder.sizes_of(operand)
    }

    /// The float32 counterparts of int32 products.
    pub fn float_forms(&mut self) -> &mut HashMap<OperandId, OperandId> {
        &mut self.importer.float_forms
    }

    /// A tensor of a model file as a value.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn literal(&mut self, literal: Literal) -> Step<Value> {
        Ok(self.importer.literal(literal)?)
    }

    /// The constant at `index`, possibly of a type that WebNN does not support.
    pub fn input_literal(&self, index: usize) -> Option<Arc<Literal>> {
        match self.value(index)? {
            Value::Literal(literal) => Some(literal),
            _ => None,
        }
    }

    /// The graph in the attribute `name`.
    ///
    /// # Errors
    /// If it is missing.
    pub fn body(&self, name: &str) -> Step<Body<'m>> {
        let arena = &self.importer.model.arena;
        let graph = arena.graph_of(&self.arguments, name);
        let graph = graph.ok_or_else(|| Refusal(format!("the attribute {name} is missing")))?;
        Ok(Body::of(arena, graph))
    }

    /// Runs a graph of the node on `inputs` and returns its outputs.
    ///
    /// # Errors
    /// If the number of inputs is wrong, or a result is unknown. Unsupported nodes of the graph are listed separately.
    pub fn run_body(&mut self, body: Body, inputs: Vec<Value>) -> Step<Vec<Value>> {
        let before = self.importer.refused.count();
        let outputs = self.importer.run_body(body, inputs, self.place)?;
        if !outputs.iter().any(|output| matches!(output, Value::Unknown)) {
            return Ok(outputs);
        }
        if self.importer.refused.count() == before {
            // What the graph reads was refused, or is behind a cut: no fault of this node.
            return Err(Refusal::from("its graph reads a result that is not known").unless(Cut::Waiting));
        }
        let inner = self.importer.refused.since(before);
        Err(inner.map_or("a node of its graph is not supported".into(), |inner| Refusal {
            depends_on_sizes: inner.depends_on_sizes,
            ..Refusal(format!("a node of its graph is not supported: {}", inner.reason))
        }))
    }

    /// Types and shapes of the outputs of `body` for these inputs, without running it; `None` where they do not follow.
    ///
    /// # Errors
    /// If a constant cannot be read.
    pub fn shapes_of_body(&mut self, body: Body, inputs: Vec<Value>) -> Step<Vec<Option<Descriptor>>> {
        let mut values = ByName::default();
        for &id in body.captured() {
            if let Some(value) = self.importer.value(id)? {
                values.insert(id, value);
            }
        }
        values.extend(body.input_values().iter().copied().zip(inputs));
        Ok(self.importer.shapes_of_body(body, &values, self.place))
    }

    /// Notes that the node would be another one if the elements of `operand` were known.
    pub fn lacks(&mut self, operand: OperandId) {
        self.importer.undecided.push(operand);
    }

    /// Whether the remaining work suffices to run `body` `rounds` times.
    pub fn can_repeat(&self, body: Body, rounds: u64) -> bool {
        self.importer.can_repeat(body, rounds)
    }

    /// Whether loops become part of the graph even if their rounds are many, or depend on sizes still unknown.
    pub fn unrolls_all(&self) -> bool {
        self.importer.unrolls_all
    }

    /// Whether an element of `operand` depends on sizes still unknown.
    pub fn is_open(&self, operand: OperandId) -> bool {
        self.sizes_of(operand).is_some_and(|dims| dims.iter().any(|dim| !dim.is_number()))
    }

    /// Runs `work`. If the model may be cut at the node, an unsupported node in its graphs becomes the reason for a cut
    /// instead of being listed: the graphs may never run.
    ///
    /// # Errors
    /// The errors of `work`.
    pub fn attempt<T>(&mut self, work: impl FnOnce(&mut Self) -> Step<T>, cut: Cut) -> Step<T> {
        let before = self.importer.refused.clone();
        let outcome = work(self);
        if self.importer.cuts.is_none() || outcome.is_ok() {
            return outcome;
        }
        self.importer.refused = before;
        outcome.map_err(|refusal| refusal.unless(cut))
    }

    /// The dimensions of an operand, which messages call `what`.
    ///
    /// # Errors
    /// If there are not exactly `N`.
    pub fn dims<const N: usize>(&self, operand: OperandId, what: &str) -> Step<[Dim; N]> {
        let shape = self.shape(operand);
        <[Dim; N]>::try_from(shape)
            .map_err(|shape| Refusal(format!("{what} has shape {shape:?}, expected {N} dimensions")))
    }
}

/// Whether an operator is too costly for shape arithmetic: its naive reference takes more than a few operations per
/// element, or it expands small weights.
fn is_costly(op: &Operation) -> bool {
    use Extension as E;
    let Api(op) = op else {
        return matches!(
            op,
            Operation::Extension(
                E::Col2Im(_)
                    | E::CropAndResize(_)
                    | E::DeformColumns(_)
                    | E::DynamicQuantizeLstm(_)
                    | E::ExpertProduct(_)
                    | E::Dft(_)
                    | E::GridSample(_)
                    | E::IntegerProduct(_)
                    | E::LinearAttention(_)
                    | E::MaxRoiPool(_)
                    | E::PairwiseCoupling(_)
                    | E::RoiAlign(_)
                    | E::TreeEnsemble(_)
            )
        );
    };
    matches!(
        op,
        Op::Matmul(_)
            | Op::Gemm(_)
            | Op::Conv2d(_)
            | Op::ConvTranspose2d(_)
            | Op::Pool2d(_)
            | Op::Gru(_)
            | Op::GruCell(_)
            | Op::Lstm(_)
            | Op::LstmCell(_)
            | Op::Resample2d(_)
            | Op::Quantize(_)
    )
}
