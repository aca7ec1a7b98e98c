//! The graphs of a model in one arena. What the file says about nodes, values and attributes is decoded once and has an
//! id from then on. Names are resolved as well: a value that a graph captures has the id that it has in the outer graph.

use super::error::{ModelError, Result, quoted};
use super::model::ValueInfo;
use super::proto;
use super::registry::{self, Entry};
use super::tensor::TensorRecord;
use bytes::Bytes;
use prost::Message;
use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;

/// A resolved name: that of an input, an initializer, or an output of a node, of one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(NonZeroU32);

impl NameId {
    fn of(index: usize) -> NameId {
        // A file has less than 2^32 bytes for each kind of thing in it.
        NameId(u32::try_from(index + 1).ok().and_then(NonZeroU32::new).expect("fewer than 2^32 values"))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A map from names.
pub type ByName<T> = HashMap<NameId, T, rapidhash::fast::RandomState>;

/// A set of names.
pub type NameSet = HashSet<NameId, rapidhash::fast::RandomState>;

macro_rules! ids {
    ($($(#[$doc:meta])* $Id:ident)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $Id(u32);

            impl $Id {
                pub(super) fn of(index: usize) -> $Id {
                    $Id(u32::try_from(index).expect("fewer than 2^32 items"))
                }

                pub(super) fn index(self) -> usize {
                    self.0 as usize
                }
            }
        )*
    };
}

ids! {
    /// A node.
    NodeId
    /// A graph: the main one, the body of a function, or one in an attribute.
    GraphId
    /// A function of the model.
    FunctionId
    /// A string that nodes, values or attributes share.
    TextId
    /// An operator as nodes name it.
    OperatorId
    /// An attribute of a node or a function.
    AttributeId
}

/// A range of a list of the arena.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// What was added to `list` since it had `start` items.
    pub fn since<T>(start: usize, list: &[T]) -> Span {
        let number = |at: usize| u32::try_from(at).expect("fewer than 2^32 items");
        Span { start: number(start), end: number(list.len()) }
    }

    pub fn of<T>(self, list: &[T]) -> &[T] {
        &list[self.start as usize..self.end as usize]
    }
}

/// An operator as nodes name it.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Empty for `ai.onnx`.
    pub domain: String,
    /// `op_type`.
    pub name: String,
    /// Tells functions of one name apart.
    pub overload: String,
    /// The version of the operator set that the graph uses, if the model states it.
    pub opset: Option<i64>,
    /// Its translation.
    pub entry: Option<&'static Entry>,
    /// The function of the model that defines it, which goes before a translation.
    pub function: Option<FunctionId>,
}

impl Operator {
    /// Whether this is the operator `name` of `ai.onnx`.
    pub fn is(&self, name: &str) -> bool {
        self.domain.is_empty() && self.name == name
    }

    /// Whether this is one of these operators of `ai.onnx`.
    pub fn is_one_of(&self, names: &[&str]) -> bool {
        self.domain.is_empty() && names.contains(&self.name.as_str())
    }
}

/// What is known of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueRecord {
    pub name: TextId,
    /// The graph that defines it.
    pub graph: GraphId,
    /// Its index among the initializers.
    pub initializer: Option<u32>,
    /// The node that computes it.
    pub maker: Option<NodeId>,
    pub is_input: bool,
}

/// A node in the arena.
#[derive(Clone, Debug)]
pub(super) struct NodeRecord {
    pub name: TextId,
    pub operator: OperatorId,
    /// Of the operands.
    pub inputs: Span,
    /// Of the operands.
    pub outputs: Span,
    pub attributes: Span,
    /// Number of bytes in the file.
    pub size: u32,
}

/// An attribute in the arena.
#[derive(Clone, Debug)]
pub(super) struct AttributeRecord {
    pub name: TextId,
    /// In a function: the attribute of the call whose value this one takes.
    pub reference: Option<TextId>,
    pub graph: Option<GraphId>,
    /// The message, which was decoded once without an error.
    pub encoded: Bytes,
}

/// A graph: the main one, the body of a function, or one in an attribute.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// The nodes in an executable order.
    pub nodes: Vec<NodeId>,
    /// The declared inputs.
    pub inputs: Vec<ValueInfo>,
    /// Their values.
    pub input_values: Vec<NameId>,
    /// The outputs.
    pub outputs: Vec<ValueInfo>,
    /// Their values, which can be those of outer graphs.
    pub output_values: Vec<NameId>,
    /// The values of outer graphs that it reads, or returns.
    pub captured: Vec<NameId>,
    /// Whether attributes of its nodes, or of graphs within, refer to those of a call.
    pub has_references: bool,
}

impl Graph {
    /// How the output that returns `value` is declared.
    pub fn output_of(&self, value: NameId) -> Option<&ValueInfo> {
        Some(&self.outputs[self.output_values.iter().position(|&output| output == value)?])
    }
}

/// An attribute of a node, with the name under which the node looks for it.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    name: TextId,
    attribute: AttributeId,
}

/// All graphs of a model.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    pub(super) texts: Vec<Bytes>,
    pub(super) operators: Vec<Operator>,
    pub(super) values: Vec<ValueRecord>,
    pub(super) initializers: Vec<TensorRecord>,
    pub(super) nodes: Vec<NodeRecord>,
    pub(super) operands: Vec<Option<NameId>>,
    pub(super) attributes: Vec<AttributeRecord>,
    pub(super) graphs: Vec<Graph>,
}

impl Arena {
    /// A graph.
    pub fn graph(&self, id: GraphId) -> &Graph {
        &self.graphs[id.index()]
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> Node<'_> {
        Node { arena: self, id }
    }

    /// All nodes, of all graphs.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        (0..self.nodes.len()).map(|index| self.node(NodeId::of(index)))
    }

    pub(super) fn text(&self, id: TextId) -> &str {
        std::str::from_utf8(&self.texts[id.index()]).expect("checked when it was read")
    }

    /// The name of a value.
    pub fn name(&self, value: NameId) -> &str {
        self.text(self.values[value.index()].name)
    }

    /// The node that computes a value, if one does.
    pub fn maker(&self, value: NameId) -> Option<NodeId> {
        self.values[value.index()].maker
    }

    /// The constant of the file that a value has, or has by default.
    pub fn initializer(&self, value: NameId) -> Option<&TensorRecord> {
        Some(&self.initializers[self.values[value.index()].initializer? as usize])
    }

    /// The names of the values of `graph`.
    pub fn names(&self, graph: GraphId) -> impl Iterator<Item = &str> {
        self.values.iter().filter(move |value| value.graph == graph).map(|value| self.text(value.name))
    }

    /// Values of `graph` by their names; for each name, none if there is no such value.
    pub fn find<'n>(&self, graph: GraphId, names: impl IntoIterator<Item = &'n String>) -> Vec<Option<NameId>> {
        let own = self.values.iter().enumerate().filter(|(_, value)| value.graph == graph);
        let known: HashMap<&str, NameId> =
            own.map(|(index, value)| (self.text(value.name), NameId::of(index))).collect();
        names.into_iter().map(|name| known.get(name.as_str()).copied()).collect()
    }

    /// The attributes of `node`, in a function with those of the `call` in place of references to them.
    ///
    /// # Errors
    /// If the call passes a graph that reads values, or attributes, of the place of the call.
    pub fn arguments(&self, node: Node, call: Option<&[Argument]>) -> Result<Vec<Argument>> {
        let Span { start, end } = self.nodes[node.id.index()].attributes;
        let mut arguments = Vec::with_capacity((end - start) as usize);
        for index in start..end {
            let AttributeRecord { name, reference, .. } = self.attributes[index as usize];
            let attribute = match reference {
                None => AttributeId(index),
                Some(other) => match call.and_then(|call| call.iter().find(|argument| argument.name == other)) {
                    Some(argument) => self.passed(argument.attribute)?,
                    None => continue,
                },
            };
            arguments.push(Argument { name, attribute });
        }
        Ok(arguments)
    }

    /// An attribute that a call passes to a function.
    fn passed(&self, attribute: AttributeId) -> Result<AttributeId> {
        let AttributeRecord { name, graph, .. } = self.attributes[attribute.index()];
        match graph.map(|graph| self.graph(graph)) {
            Some(graph) if graph.has_references || !graph.captured.is_empty() => {
                let shown = quoted(self.text(name));
                let why = "which reads values or attributes from around the call";
                Err(ModelError::new(format!("a function is called with the graph {shown}, {why}")))
            }
            _ => Ok(attribute),
        }
    }

    /// The arguments of a call, completed with defaults.
    pub fn with_defaults(&self, mut given: Vec<Argument>, defaults: &[AttributeId]) -> Vec<Argument> {
        for &attribute in defaults {
            let name = self.attributes[attribute.index()].name;
            if !given.iter().any(|argument| argument.name == name) {
                given.push(Argument { name, attribute });
            }
        }
        given
    }

    fn argument<'a>(&'a self, arguments: &[Argument], name: &str) -> Option<&'a AttributeRecord> {
        let argument = arguments.iter().find(|argument| self.text(argument.name) == name)?;
        Some(&self.attributes[argument.attribute.index()])
    }

    /// The argument `name`, decoded.
    pub fn attribute(&self, arguments: &[Argument], name: &str) -> Option<proto::Attribute> {
        Some(self.argument(arguments, name)?.decode())
    }

    /// The graph in the argument `name`.
    pub fn graph_of(&self, arguments: &[Argument], name: &str) -> Option<GraphId> {
        self.argument(arguments, name)?.graph
    }

    /// Whether any of the arguments is a graph.
    pub fn has_graph(&self, arguments: &[Argument]) -> bool {
        arguments.iter().any(|argument| self.attributes[argument.attribute.index()].graph.is_some())
    }

    /// The texts of all attributes, of all nodes and functions.
    pub fn attribute_texts(&self) -> impl Iterator<Item = proto::AttributeTexts> {
        let decode = |record: &AttributeRecord| proto::AttributeTexts::decode(record.encoded.clone());
        self.attributes.iter().map(move |record| decode(record).expect("it was decoded before"))
    }

    /// All initializers, of all graphs.
    pub fn initializers(&self) -> impl Iterator<Item = &TensorRecord> {
        self.initializers.iter()
    }

    pub(super) fn add_value(&mut self, record: ValueRecord) -> NameId {
        self.values.push(record);
        NameId::of(self.values.len() - 1)
    }

    pub(super) fn record_mut(&mut self, value: NameId) -> &mut ValueRecord {
        &mut self.values[value.index()]
    }

    pub(super) fn record(&self, value: NameId) -> &ValueRecord {
        &self.values[value.index()]
    }

    /// Forgets the constant of a value, which becomes an input only.
    pub(super) fn drop_initializer(&mut self, value: NameId) {
        self.record_mut(value).initializer = None;
    }

    fn append_text(&mut self, text: &str) -> TextId {
        self.texts.push(Bytes::copy_from_slice(text.as_bytes()));
        TextId::of(self.texts.len() - 1)
    }

    /// Adds a constant to `graph`.
    pub(super) fn append_initializer(&mut self, graph: GraphId, record: TensorRecord) -> NameId {
        let name = self.append_text(&record.name);
        let initializer = Some(self.add_initializer(record));
        self.add_value(ValueRecord { name, graph, initializer, maker: None, is_input: false })
    }

    /// Adds a node with one output at the end of `graph`: an operator of this version of `ai.onnx`.
    pub(super) fn append_node(
        &mut self,
        graph: GraphId,
        (operator, opset): (&str, i64),
        name: &str,
        inputs: &[NameId],
        output: &str,
        attributes: &[proto::Attribute],
    ) {
        let id = NodeId::of(self.nodes.len());
        let record =
            ValueRecord { name: self.append_text(output), graph, initializer: None, maker: Some(id), is_input: false };
        let output = self.add_value(record);
        let entry = registry::find("", operator);
        let (domain, overload) = Default::default();
        let operator = Operator { domain, name: operator.into(), overload, opset: Some(opset), entry, function: None };
        self.operators.push(operator);
        let name = self.append_text(name);
        let start = self.operands.len();
        self.operands.extend(inputs.iter().copied().map(Some));
        let inputs = Span::since(start, &self.operands);
        self.operands.push(Some(output));
        let outputs = Span { start: inputs.end, end: inputs.end + 1 };
        let start = self.attributes.len();
        for attribute in attributes {
            let (name, encoded) = (self.append_text(&attribute.name), attribute.encode_to_vec().into());
            self.attributes.push(AttributeRecord { name, reference: None, graph: None, encoded });
        }
        let attributes = Span::since(start, &self.attributes);
        let operator = OperatorId::of(self.operators.len() - 1);
        self.nodes.push(NodeRecord { name, operator, inputs, outputs, attributes, size: 0 });
        self.graphs[graph.index()].nodes.push(id);
    }

    /// Adds an initializer, as yet without a value.
    pub(super) fn add_initializer(&mut self, record: TensorRecord) -> u32 {
        self.initializers.push(record);
        u32::try_from(self.initializers.len() - 1).expect("fewer than 2^32 initializers")
    }
}

impl AttributeRecord {
    fn decode(&self) -> proto::Attribute {
        proto::Attribute::decode(self.encoded.clone()).expect("it was decoded before")
    }
}

/// A node of the arena.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    arena: &'a Arena,
    id: NodeId,
}

impl<'a> Node<'a> {
    fn record(self) -> &'a NodeRecord {
        &self.arena.nodes[self.id.index()]
    }

    /// Its id.
    pub fn id(self) -> NodeId {
        self.id
    }

    /// Its operator.
    pub fn operator(self) -> &'a Operator {
        &self.arena.operators[self.record().operator.index()]
    }

    /// Its inputs; omitted ones are `None`.
    pub fn inputs(self) -> &'a [Option<NameId>] {
        self.record().inputs.of(&self.arena.operands)
    }

    /// The input at `index`, if it is not omitted.
    pub fn input(self, index: usize) -> Option<NameId> {
        self.inputs().get(index).copied().flatten()
    }

    /// Its outputs; unnamed ones are `None`.
    pub fn outputs(self) -> &'a [Option<NameId>] {
        self.record().outputs.of(&self.arena.operands)
    }

    /// The output at `index`, if it has a name.
    pub fn output(self, index: usize) -> Option<NameId> {
        self.outputs().get(index).copied().flatten()
    }

    /// The number of its outputs up to the last one that has a name.
    pub fn named_outputs(self) -> usize {
        self.outputs().iter().rposition(Option::is_some).map_or(0, |at| at + 1)
    }

    /// Whether any of its attributes refers to one of a call, or one in its graphs does.
    pub(super) fn has_references(self) -> bool {
        let own = self.record().attributes.of(&self.arena.attributes);
        own.iter().any(|one| one.reference.is_some())
            || self.graphs().any(|graph| self.arena.graph(graph).has_references)
    }

    /// Its own attributes, decoded, including references.
    pub fn attributes(self) -> impl Iterator<Item = proto::Attribute> {
        self.record().attributes.of(&self.arena.attributes).iter().map(AttributeRecord::decode)
    }

    /// Its own attribute `name`, decoded.
    pub fn attribute(self, name: &str) -> Option<proto::Attribute> {
        let mut own = self.record().attributes.of(&self.arena.attributes).iter();
        Some(own.find(|attribute| self.arena.text(attribute.name) == name)?.decode())
    }

    /// The integer in its own attribute `name`.
    pub fn int(self, name: &str) -> Option<i64> {
        self.attribute(name)?.i
    }

    /// The graphs in its own attributes.
    pub fn graphs(self) -> impl Iterator<Item = GraphId> + 'a {
        self.record().attributes.of(&self.arena.attributes).iter().filter_map(|attribute| attribute.graph)
    }

    /// The values that it reads: its inputs, and those that its graphs capture. Some can occur several times.
    pub fn reads(self) -> impl Iterator<Item = NameId> + 'a {
        let captured = self.graphs().flat_map(|graph| self.arena.graph(graph).captured.iter().copied());
        self.inputs().iter().copied().flatten().chain(captured)
    }

    /// Its name in messages: its own, or that of its first output.
    pub fn shown_name(self) -> &'a str {
        let first = || self.outputs().iter().flatten().next().map_or("", |&output| self.arena.name(output));
        match self.arena.text(self.record().name) {
            "" => first(),
            name => name,
        }
    }

    /// Number of bytes in the file.
    pub fn size(self) -> usize {
        self.record().size as usize
    }
}
