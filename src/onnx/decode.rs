//! Decodes the graphs of a file into an arena, checks their structure and resolves all names.

use super::error::{ModelError, Result, quoted, shortened};
use super::graph::{
    Arena, AttributeId, AttributeRecord, FunctionId, Graph, GraphId, NameId, NameSet, NodeId, NodeRecord, Operator,
    OperatorId, Span, TextId, ValueRecord,
};
use super::model::{ValueInfo, value_info};
use super::proto;
use super::registry;
use super::tensor::TensorRecord;
use bytes::Bytes;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Maximum nesting depth of graphs in nodes, and of functions in functions.
pub const MAX_DEPTH: usize = 16;

/// Maximum number of attributes of a node or function: lookups search the list linearly.
const MAX_ATTRIBUTES: usize = 256;

/// Decodes a message; `what` names it in errors.
pub(super) fn decode<T: Message + Default>(bytes: &Bytes, what: &str) -> Result<T> {
    T::decode(bytes.clone()).map_err(|error| {
        let why = error.to_string();
        let why = why.strip_prefix("failed to decode Protobuf message: ").unwrap_or(&why);
        ModelError::new(format!("{what} cannot be decoded: {why}"))
    })
}

/// Replaces the alias of the default domain by the empty name.
pub(super) fn normalized<T: AsRef<[u8]> + Default>(domain: T) -> T {
    if domain.as_ref() == b"ai.onnx" { T::default() } else { domain }
}

/// A name that an outer graph may have defined otherwise.
type Hidden = (TextId, Option<NameId>);

/// A graph that is being decoded.
struct Open {
    id: GraphId,
    /// What its names stood for outside of it.
    hidden: Vec<Hidden>,
    nodes: Span,
    /// The inputs of its nodes: places among the operands, and the names to find.
    unresolved: Vec<(u32, TextId)>,
    /// Graphs in attributes: the nodes, the attributes, and the messages.
    graphs: Vec<(NodeId, AttributeId, Bytes)>,
}

/// Decodes graphs into an arena.
#[derive(Default)]
pub(super) struct Decoder {
    arena: Arena,
    texts: HashMap<Bytes, TextId>,
    empty: Option<TextId>,
    /// The visible value of each string.
    scope: Vec<Option<NameId>>,
    /// Operators by domain, name and overload.
    operators: HashMap<[TextId; 3], OperatorId>,
    /// The version of each operator set.
    opsets: BTreeMap<String, i64>,
}

impl Decoder {
    /// Uses these versions of the operator sets from now on.
    pub fn use_opsets(&mut self, opsets: BTreeMap<String, i64>) {
        self.operators.clear();
        self.opsets = opsets;
    }

    /// The arena with all graphs, in which operators refer to these functions, which have a domain, a name and an overload.
    pub fn finish(mut self, functions: &HashMap<[String; 3], FunctionId>) -> Arena {
        if !functions.is_empty() {
            for operator in &mut self.arena.operators {
                let key = [&operator.domain, &operator.name, &operator.overload].map(String::clone);
                operator.function = functions.get(&key).copied();
            }
        }
        self.arena
    }

    fn text(&mut self, text: Bytes, what: &str) -> Result<TextId> {
        // Most names of nodes, domains and overloads: no need to look them up.
        if text.is_empty()
            && let Some(known) = self.empty
        {
            return Ok(known);
        }
        if let Some(&known) = self.texts.get(&text) {
            return Ok(known);
        }
        if std::str::from_utf8(&text).is_err() {
            return Err(ModelError::new(format!("{what} cannot be decoded: a name is not UTF-8 encoded")));
        }
        let id = TextId::of(self.arena.texts.len());
        self.arena.texts.push(text.clone());
        self.scope.push(None);
        if text.is_empty() {
            self.empty = Some(id);
        }
        self.texts.insert(text, id);
        Ok(id)
    }

    fn shown(&self, node: NodeId) -> String {
        let node = self.arena.node(node);
        format!("[{}] {}", shortened(node.shown_name()), shortened(&node.operator().name))
    }

    /// `error`, which is about the graph in `attribute` of `node`.
    fn within(&self, node: NodeId, attribute: AttributeId, error: ModelError) -> ModelError {
        let name = shortened(self.arena.text(self.arena.attributes[attribute.index()].name));
        ModelError::coded(error.code, format!("{}: {name}: {error}", self.shown(node)))
    }

    /// Decodes a graph, nested `depth` deep; its elements stay encoded.
    ///
    /// # Errors
    /// If anything is damaged, defined twice, used but never defined, or depends on itself.
    pub fn graph(&mut self, encoded: &Bytes, depth: usize) -> Result<GraphId> {
        if depth > MAX_DEPTH {
            return Err(ModelError::new(format!("graphs are nested more than {MAX_DEPTH} deep")));
        }
        let proto::Graph { node, name, initializer, input, output, sparse_initializer } = decode(encoded, "a graph")?;
        let mut open = self.open(name);
        let dense = initializer.iter().map(TensorRecord::decode);
        for record in dense.chain(sparse_initializer.iter().map(TensorRecord::decode_sparse)) {
            self.initializer(&mut open, record?)?;
        }
        for encoded in &input {
            self.input(&mut open, value_info(encoded)?)?;
        }
        self.nodes(&mut open, &node)?;
        drop(node);
        self.resolve(&mut open, depth)?;
        let outputs = output.iter().map(value_info).collect::<Result<Vec<_>>>()?;
        self.close(open, outputs)
    }

    /// Decodes the body of a function.
    ///
    /// # Errors
    /// Same as [`graph`](Self::graph).
    pub fn function(&mut self, name: String, inputs: &[String], outputs: &[String], node: &[Bytes]) -> Result<GraphId> {
        let mut open = self.open(name);
        for name in inputs {
            self.input(&mut open, ValueInfo::unknown(name))?;
        }
        self.nodes(&mut open, node)?;
        self.resolve(&mut open, 0)?;
        self.close(open, outputs.iter().map(ValueInfo::unknown).collect())
    }

    /// Decodes attributes; returns those that are graphs.
    ///
    /// # Errors
    /// If an attribute is damaged, or there are absurdly many.
    fn attributes(&mut self, encoded: &[Bytes], of: &dyn Fn(&Self) -> String) -> Result<Vec<(AttributeId, Bytes)>> {
        if encoded.len() > MAX_ATTRIBUTES {
            let (shown, count) = (of(self), encoded.len());
            return Err(ModelError::new(format!("{shown}: it has {count} attributes, more than {MAX_ATTRIBUTES}")));
        }
        let mut graphs = Vec::new();
        for encoded in encoded {
            let attribute: proto::Attribute = decode(encoded, "an attribute")?;
            let name = self.text(Bytes::from(attribute.name), "an attribute")?;
            let reference = match attribute.ref_attr_name.is_empty() {
                true => None,
                false => Some(self.text(Bytes::from(attribute.ref_attr_name), "an attribute")?),
            };
            if let Some(graph) = attribute.g {
                graphs.push((AttributeId::of(self.arena.attributes.len()), graph));
            }
            self.arena.attributes.push(AttributeRecord { name, reference, graph: None, encoded: encoded.clone() });
        }
        Ok(graphs)
    }

    /// Decodes the default values of a function's attributes; `shown` names the function.
    ///
    /// # Errors
    /// Those of attributes of nodes.
    pub fn defaults(&mut self, encoded: &[Bytes], shown: &str) -> Result<Vec<AttributeId>> {
        let start = self.arena.attributes.len();
        self.attributes(encoded, &|_| shown.to_string())?;
        Ok((start..self.arena.attributes.len()).map(AttributeId::of).collect())
    }

    fn open(&mut self, name: String) -> Open {
        let id = GraphId::of(self.arena.graphs.len());
        self.arena.graphs.push(Graph { name, ..Graph::default() });
        let nodes = Span::since(self.arena.nodes.len(), &self.arena.nodes);
        Open { id, hidden: Vec::new(), nodes, unresolved: Vec::new(), graphs: Vec::new() }
    }

    fn graph_mut(&mut self, open: &Open) -> &mut Graph {
        &mut self.arena.graphs[open.id.index()]
    }

    /// The value that the open graph itself gives a name, if any.
    fn own(&self, open: &Open, name: TextId) -> Option<NameId> {
        self.scope[name.index()].filter(|&value| self.arena.record(value).graph == open.id)
    }

    fn define(&mut self, open: &mut Open, name: TextId) -> NameId {
        let record = ValueRecord { name, graph: open.id, initializer: None, maker: None, is_input: false };
        let value = self.arena.add_value(record);
        open.hidden.push((name, self.scope[name.index()].replace(value)));
        value
    }

    fn initializer(&mut self, open: &mut Open, record: TensorRecord) -> Result<()> {
        let name = self.text(Bytes::copy_from_slice(record.name.as_bytes()), "a tensor")?;
        if self.own(open, name).is_some() {
            return Err(ModelError::new(format!("there are two initializers named {}", quoted(&record.name))));
        }
        let value = self.define(open, name);
        let initializer = self.arena.add_initializer(record);
        self.arena.record_mut(value).initializer = Some(initializer);
        Ok(())
    }

    fn input(&mut self, open: &mut Open, info: ValueInfo) -> Result<()> {
        let name = self.text(Bytes::copy_from_slice(info.name.as_bytes()), "an input")?;
        let value = match self.own(open, name) {
            Some(known) if self.arena.record(known).is_input => {
                return Err(ModelError::new(format!("there are two inputs named {}", quoted(&info.name))));
            }
            Some(default) => default,
            None => self.define(open, name),
        };
        self.arena.record_mut(value).is_input = true;
        let graph = self.graph_mut(open);
        graph.inputs.push(info);
        graph.input_values.push(value);
        Ok(())
    }

    /// Adds the nodes and defines their outputs; their inputs remain to be found.
    fn nodes(&mut self, open: &mut Open, encoded: &[Bytes]) -> Result<()> {
        let start = self.arena.nodes.len();
        for encoded in encoded {
            self.node(open, encoded)?;
        }
        open.nodes = Span::since(start, &self.arena.nodes);
        Ok(())
    }

    fn node(&mut self, open: &mut Open, encoded: &Bytes) -> Result<()> {
        const WHAT: &str = "a node";
        let node: proto::Node = decode(encoded, WHAT)?;
        let id = NodeId::of(self.arena.nodes.len());
        let name = self.text(node.name, WHAT)?;
        let domain = self.text(normalized(node.domain), WHAT)?;
        let (op_type, overload) = (self.text(node.op_type, WHAT)?, self.text(node.overload, WHAT)?);
        let operator = self.operator([domain, op_type, overload]);
        let start = self.arena.operands.len();
        for name in node.input.into_iter() {
            if !name.is_empty() {
                let name = self.text(name, WHAT)?;
                open.unresolved.push((self.arena.operands.len() as u32, name));
            }
            self.arena.operands.push(None);
        }
        let inputs = Span::since(start, &self.arena.operands);
        let start = self.arena.operands.len();
        for name in node.output.into_iter() {
            if name.is_empty() {
                self.arena.operands.push(None);
                continue;
            }
            let text = self.text(name, WHAT)?;
            if self.own(open, text).is_some() {
                return Err(ModelError::new(format!("the value {} is defined twice", quoted(self.arena.text(text)))));
            }
            let value = self.define(open, text);
            self.arena.record_mut(value).maker = Some(id);
            self.arena.operands.push(Some(value));
        }
        let outputs = Span::since(start, &self.arena.operands);
        let start = self.arena.attributes.len();
        let size = encoded.len() as u32;
        let attributes = Span { start: start as u32, end: start as u32 };
        self.arena.nodes.push(NodeRecord { name, operator, inputs, outputs, attributes, size });
        let graphs = self.attributes(&node.attribute, &|decoder| decoder.shown(id))?;
        self.arena.nodes[id.index()].attributes = Span::since(start, &self.arena.attributes);
        open.graphs.extend(graphs.into_iter().map(|(attribute, graph)| (id, attribute, graph)));
        Ok(())
    }

    fn operator(&mut self, key: [TextId; 3]) -> OperatorId {
        if let Some(&known) = self.operators.get(&key) {
            return known;
        }
        let [domain, name, overload] = key.map(|text| self.arena.text(text).to_string());
        let opset = self.opsets.get(&domain).copied();
        let entry = registry::find(&domain, &name);
        let id = OperatorId::of(self.arena.operators.len());
        self.arena.operators.push(Operator { domain, name, overload, opset, entry, function: None });
        self.operators.insert(key, id);
        id
    }

    /// Finds the inputs of the nodes by their names, and decodes the graphs in attributes, which see all values.
    fn resolve(&mut self, open: &mut Open, depth: usize) -> Result<()> {
        for (place, name) in std::mem::take(&mut open.unresolved) {
            let Some(value) = self.scope[name.index()] else {
                let reader = |node: &&NodeRecord| (node.inputs.start..node.inputs.end).contains(&place);
                let at = open.nodes.of(&self.arena.nodes).iter().position(|node| reader(&node)).unwrap_or(0);
                let shown = self.shown(NodeId::of(open.nodes.start as usize + at));
                return Err(ModelError::new(format!("{shown}: nothing defines {}", quoted(self.arena.text(name)))));
            };
            self.arena.operands[place as usize] = Some(value);
        }
        for (node, attribute, encoded) in std::mem::take(&mut open.graphs) {
            let graph = self.graph(&encoded, depth + 1).map_err(|error| self.within(node, attribute, error))?;
            self.arena.attributes[attribute.index()].graph = Some(graph);
        }
        Ok(())
    }

    /// Completes a graph: sorts its nodes, and finds its outputs and what it captures.
    fn close(&mut self, open: Open, outputs: Vec<ValueInfo>) -> Result<GraphId> {
        let nodes = self.sorted(&open)?;
        let mut names = HashSet::new();
        let mut output_values = Vec::with_capacity(outputs.len());
        for output in &outputs {
            if !names.insert(&output.name) {
                return Err(ModelError::new(format!("there are two outputs named {}", quoted(&output.name))));
            }
            let text = self.texts.get(output.name.as_bytes());
            let value = text.and_then(|text| self.scope[text.index()]);
            output_values.push(
                value
                    .ok_or_else(|| ModelError::new(format!("nothing computes the output {}", quoted(&output.name))))?,
            );
        }
        let mut captured = NameSet::default();
        let reads = nodes.iter().flat_map(|&node| self.arena.node(node).reads());
        captured.extend(
            reads.chain(output_values.iter().copied()).filter(|&value| self.arena.record(value).graph != open.id),
        );
        let mut captured: Vec<NameId> = captured.into_iter().collect();
        captured.sort_unstable();
        for &(name, hidden) in open.hidden.iter().rev() {
            self.scope[name.index()] = hidden;
        }
        let has_references = nodes.iter().any(|&node| self.arena.node(node).has_references());
        let graph = self.graph_mut(&open);
        (graph.nodes, graph.outputs, graph.output_values, graph.captured) = (nodes, outputs, output_values, captured);
        graph.has_references = has_references;
        Ok(open.id)
    }

    /// The nodes in an executable order: the one in the file, if it is executable, as the standard requires.
    fn sorted(&self, open: &Open) -> Result<Vec<NodeId>> {
        let Span { start, end } = open.nodes;
        let nodes = || (start..end).map(|index| NodeId::of(index as usize));
        // Other graphs have nodes in other ranges.
        let makers = |node: NodeId| {
            let makers = self.arena.node(node).reads().filter_map(|value| self.arena.maker(value));
            makers.filter(|maker| (start as usize..end as usize).contains(&maker.index()))
        };
        if nodes().all(|node| makers(node).all(|maker| maker < node)) {
            return Ok(nodes().collect());
        }
        let local = |node: NodeId| node.index() - start as usize;
        let count = (end - start) as usize;
        let mut waiting = vec![0u32; count];
        let mut readers: Vec<Vec<NodeId>> = vec![Vec::new(); count];
        for node in nodes() {
            for maker in makers(node) {
                readers[local(maker)].push(node);
                waiting[local(node)] += 1;
            }
        }
        // Among the nodes that are ready, the first in the file goes next.
        let mut ready: BTreeSet<NodeId> = nodes().filter(|&node| waiting[local(node)] == 0).collect();
        let mut order = Vec::with_capacity(count);
        while let Some(node) = ready.pop_first() {
            order.push(node);
            for &reader in &readers[local(node)] {
                waiting[local(reader)] -= 1;
                if waiting[local(reader)] == 0 {
                    ready.insert(reader);
                }
            }
        }
        match nodes().find(|&node| waiting[local(node)] > 0) {
            None => Ok(order),
            Some(node) => Err(ModelError::new(format!("{}: it depends on its own outputs", self.shown(node)))),
        }
    }
}
