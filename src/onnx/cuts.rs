//! Cuts: an import stops at nodes whose sizes, branches or loop counts depend on values computed by earlier nodes, and
//! leaves these nodes, and all that follow, for later.

use super::absent::why_not;
use super::error::{Cut, ModelError, Refusal, Result, Unsupported};
use super::flow::{Flow, Frontier};
use super::graph::{NameId, NameSet, Node};
use super::import::{self, Binding, Importer};
use super::value::Value;
use crate::dimension::Dim;
use crate::error::Code;
use crate::ir::OperandId;
use crate::memory::Buffer;
use crate::ops::elementwise::Elementwise;
use crate::shape::Descriptor;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// A node left for later, although all that it reads is there.
#[derive(Clone, Debug)]
pub struct Left {
    /// Its place in the flow of its graph.
    pub place: u32,
    /// What is missing.
    pub cut: Cut,
    /// The node, and why it was left.
    pub why: Unsupported,
}

/// The nodes and values that an import leaves for later.
#[derive(Debug)]
pub struct Rest {
    /// The places of the nodes that are translated.
    pub done: Arc<[u32]>,
    /// The nodes where the model is cut.
    pub left: Arc<[Left]>,
    /// Number of nodes that are left, or wait for others.
    pub remaining: usize,
    /// The values that these nodes read, and requested values that are already known; not the values passed to the
    /// import, nor initializers that nobody requested.
    pub values: Box<[KeptValue]>,
}

impl Rest {
    /// The nodes where the model is cut, not those that only wait for others.
    pub fn cuts(&self) -> Vec<Unsupported> {
        self.left.iter().filter(|node| node.cut != Cut::Waiting).map(|node| node.why.clone()).collect()
    }

    /// Whether it takes about as long in every run: all that is left is computed on the host and nothing follows, or, in a
    /// model without nodes that run graphs, graphs follow.
    pub fn is_predictable(&self, has_graphs: bool) -> bool {
        let is_on_host = |node: &Left| matches!(node.cut, Cut::Elements);
        match has_graphs {
            true => self.remaining == self.left.len() && self.left.iter().all(is_on_host),
            false => self.left.iter().all(|node| is_on_host(node) || matches!(node.cut, Cut::Waiting)),
        }
    }

    /// The same with all sizes known: those that the `values` of a tape stand for.
    pub fn at(&self, values: &[i64]) -> Rest {
        let kept = self.values.iter().map(|(id, kept)| (*id, fixed(kept, values))).collect();
        Rest { done: self.done.clone(), left: self.left.clone(), values: kept, ..*self }
    }
}

/// `kept` with all sizes known.
fn fixed(kept: &Kept, values: &[i64]) -> Kept {
    let fix = |dim: &mut Dim| dim.fix(values);
    match kept {
        Value::Tensor(KeptTensor::Sizes(descriptor, dims)) => {
            let (mut descriptor, mut dims) = (descriptor.clone(), dims.clone());
            descriptor.shape.iter_mut().chain(&mut dims).for_each(fix);
            Value::Tensor(KeptTensor::Sizes(descriptor, dims))
        }
        Value::Empty(descriptor) => {
            let mut descriptor = descriptor.clone();
            descriptor.shape.iter_mut().for_each(fix);
            Value::Empty(descriptor)
        }
        Value::Sequence(all) => Value::list(all.iter().map(|kept| fixed(kept, values)).collect()),
        other => other.clone(),
    }
}

/// A value kept for nodes left for later.
pub type Kept = Value<KeptTensor>;

/// A kept value, by its name.
pub type KeptValue = (NameId, Kept);

/// A tensor kept for nodes left for later.
#[derive(Clone, Debug)]
pub enum KeptTensor {
    /// The import's output at this index.
    Output(usize),
    /// A constant.
    Constant(Descriptor, Arc<Buffer>),
    /// Integers that depend on sizes.
    Sizes(Descriptor, Vec<Dim>),
}

/// The nodes that an import has left so far.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    nodes: Vec<Left>,
    /// Values that become known later.
    later: NameSet,
    /// The reason to leave the current node that lies in a node of one of its graphs.
    inner: Option<Refusal>,
}

impl Cuts {
    /// Cuts before nodes that read these values.
    pub fn behind(later: NameSet) -> Cuts {
        Cuts { later, ..Cuts::default() }
    }

    /// Whether nothing is left for later.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Cuts before nodes that read this value.
    pub fn wait_for(&mut self, value: NameId) {
        self.later.insert(value);
    }

    /// Leaves a node for later.
    pub fn add(&mut self, left: Left) {
        self.nodes.push(left);
    }

    /// Leaves the node for later in one of whose graphs a node is refused.
    pub fn add_inner(&mut self, refusal: Refusal) {
        self.inner.get_or_insert(refusal);
    }
}

impl Importer<'_> {
    /// Whether `node` reads a value that becomes known later.
    pub(super) fn waits(&self, node: Node) -> bool {
        let later = self.cuts.as_ref().map(|cuts| &cuts.later).filter(|later| !later.is_empty());
        later.is_some_and(|later| node.reads().any(|value| later.contains(&value)))
    }

    /// Takes the reason to leave the current node that lies in a node of one of its graphs, even if the node itself was
    /// translated, or refused for another reason.
    pub(super) fn inner_cut(&mut self) -> Option<Refusal> {
        Some(self.cuts.as_mut()?.inner.take()?.unless(Cut::Control))
    }

    /// Lists a node as refused, unless it only waits for another one, which is listed.
    pub(super) fn refuse(&mut self, node: Node, refusal: &Refusal) {
        if refusal.cut != Some(Cut::Waiting) {
            self.refused.add(node, refusal);
        }
    }

    /// Refuses unknown operators behind cuts, which no cut makes possible.
    pub(super) fn refuse_unknown(&mut self, flow: &Flow, frontier: &Frontier) {
        let arena = &self.model.arena;
        let done: HashSet<u32> = frontier.done().iter().copied().collect();
        let behind = (0..flow.nodes.len() as u32).filter(|place| !done.contains(place));
        let mut nodes: Vec<Node> = behind.map(|place| flow.node(arena, place)).collect();
        nodes.reverse();
        while let Some(node) = nodes.pop() {
            let operator = node.operator();
            if operator.function.is_none() && operator.entry.is_none() {
                self.refused.add(node, &why_not(&operator.domain, &operator.name).into());
            }
            let inner: Vec<Node> =
                node.graphs().flat_map(|graph| &arena.graph(graph).nodes).map(|&id| arena.node(id)).collect();
            nodes.extend(inner.into_iter().rev());
        }
    }

    /// Once the nodes of an import are translated as far as possible, returns the values to keep and the nodes left for
    /// later. The former are the requested values and those that the remaining nodes read, except the `given` ones.
    pub(super) fn kept(
        &mut self,
        flow: &Flow,
        frontier: Frontier,
        wanted: &[NameId],
        is_given: &dyn Fn(NameId) -> bool,
    ) -> Result<(Vec<Binding>, Rest)> {
        let left = self.cuts.take().unwrap_or_default().nodes.into();
        let values: BTreeSet<NameId> = frontier.outputs_to_keep().into_iter().chain(wanted.iter().copied()).collect();
        let (outputs, values) = self.keep_all(values.into_iter().filter(|&value| !is_given(value)))?;
        let done = frontier.into_done();
        let remaining = flow.nodes.len() - done.len();
        Ok((outputs, Rest { done: done.into(), left, remaining, values: values.into() }))
    }

    /// Keeps these values, as far as they are known.
    pub(super) fn keep_all(&mut self, values: impl Iterator<Item = NameId>) -> Result<(Vec<Binding>, Vec<KeptValue>)> {
        let (mut outputs, mut kept) = (Vec::new(), Vec::new());
        for id in values {
            match self.value(id)? {
                Some(Value::Unknown) | None => {}
                Some(value) => kept.push((id, self.keep(id, &value, &mut outputs)?)),
            }
        }
        Ok((outputs, kept))
    }

    fn keep(&mut self, id: NameId, value: &import::Value, outputs: &mut Vec<Binding>) -> Result<Kept> {
        let name = self.model.arena.name(id);
        let fail = |error: crate::error::Error| ModelError::coded(Code::Operation, error.message);
        value.try_map(&mut |&operand: &OperandId| {
            let descriptor = self.builder.descriptor(operand).clone();
            Ok(Kept::Tensor(if let Some(dims) = self.builder.sizes_of(operand) {
                KeptTensor::Sizes(descriptor, dims.to_vec())
            } else if let Some(constant) = self.builder.constant_value(operand) {
                KeptTensor::Constant(descriptor, constant.buffer().map_err(fail)?)
            } else {
                // An output must be computed by a node: an input under another name is copied.
                let operand = match self.builder.is_computed(operand) {
                    true => operand,
                    false => self.builder.add(Elementwise::Identity, vec![Some(operand)], name).map_err(fail)?[0],
                };
                outputs.push(Binding { name: format!("{}:{name}", outputs.len()), descriptor, operand: Some(operand) });
                KeptTensor::Output(outputs.len() - 1)
            }))
        })
    }
}
