//! Cuts: an import stops at nodes whose sizes, branches or loop counts depend on values computed by earlier nodes, and
//! leaves these nodes for later.

use super::error::{Cut, ModelError, Refusal, Result, Unsupported};
use super::import::{Binding, Importer, Place, Scope, Value, function_of, refused};
use super::model::{Graph, MAX_DEPTH, decode_attributes, decode_node, reads};
use super::proto;
use super::registry;
use super::tensor::Literal;
use crate::dimension::Dim;
use crate::error::Code;
use crate::ir::OperandId;
use crate::memory::Buffer;
use crate::ops::elementwise::Elementwise;
use crate::shape::Descriptor;
use bytes::Bytes;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// A node left for later.
#[derive(Clone, Debug)]
pub struct Left {
    /// Its index among the nodes of the import.
    pub index: usize,
    /// What is missing.
    pub cut: Cut,
    /// The node, and why it was left.
    pub why: Unsupported,
}

/// The nodes and values that an import leaves for later.
#[derive(Debug)]
pub struct Rest {
    /// The nodes, in an executable order.
    pub nodes: Vec<Left>,
    /// The values that the nodes read, and requested values that are already known; not the values passed to the
    /// import, nor initializers that nobody requested.
    pub values: Vec<(String, Kept)>,
}

impl Rest {
    /// The nodes where the model is cut.
    pub fn cuts(&self) -> Vec<Unsupported> {
        cuts(&self.nodes)
    }
}

/// The nodes of `left` where the model is cut, not those that only wait for others.
pub fn cuts(left: &[Left]) -> Vec<Unsupported> {
    left.iter().filter(|node| node.cut != Cut::Waiting).map(|node| node.why.clone()).collect()
}

/// A value kept for nodes left for later.
#[derive(Clone, Debug)]
pub enum Kept {
    /// The import's output at this index.
    Output(usize),
    /// A constant.
    Constant(Descriptor, Arc<Buffer>),
    /// Integers that depend on sizes.
    Sizes(Descriptor, Vec<Dim>),
    /// A constant of a type that WebNN does not support.
    Literal(Literal),
    /// A list of tensors.
    Sequence(Vec<Kept>),
    /// An optional without an element.
    Absent,
}

/// The nodes that an import has left so far.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    nodes: Vec<Left>,
    /// The names of their outputs.
    names: HashSet<String>,
    /// The reason to leave the current node that lies in a node of one of its graphs.
    inner: Option<Refusal>,
}

impl Cuts {
    /// Cuts after these names, whose values are computed later.
    pub fn behind(names: HashSet<String>) -> Cuts {
        Cuts { names, ..Cuts::default() }
    }

    /// Whether nothing is left for later.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

impl Importer<'_> {
    /// Whether `node` reads a value that is computed later.
    pub(super) fn waits(&self, node: &proto::Node, place: Place) -> Result<bool> {
        match &self.cuts {
            Some(cuts) if place.is_top && !cuts.names.is_empty() => {
                Ok(reads(node, place.depth)?.iter().any(|name| cuts.names.contains(name)))
            }
            _ => Ok(false),
        }
    }

    /// Takes the reason to leave the current node that lies in a node of one of its graphs, even if the node itself was
    /// translated, or refused for another reason.
    pub(super) fn inner_cut(&mut self, place: Place) -> Option<Refusal> {
        let inner = self.cuts.as_mut().filter(|_| place.is_top)?.inner.take()?;
        Some(inner.unless(Cut::Control))
    }

    /// Leaves `node` for later, or lists it as refused.
    pub(super) fn refuse(&mut self, index: usize, node: &proto::Node, refusal: Refusal, place: Place) -> Result<()> {
        self.undecided.extend(refusal.cut.and(refusal.lacks));
        match (&mut self.cuts, refusal.cut) {
            (Some(cuts), Some(cut)) if place.is_top => {
                cuts.names.extend(node.output.iter().filter(|name| !name.is_empty()).cloned());
                cuts.nodes.push(Left { index, cut, why: refused(node, place.opsets, &refusal) });
                self.refuse_unknown(node, place, place.depth)
            }
            (Some(cuts), Some(_)) => {
                cuts.inner.get_or_insert(refusal);
                Ok(())
            }
            // The node it waits for is listed.
            (None, Some(Cut::Waiting)) => Ok(()),
            _ => {
                self.refused.add(node, place.opsets, &refusal);
                Ok(())
            }
        }
    }

    /// Refuses unknown operators, which no cut makes possible.
    fn refuse_unknown(&mut self, node: &proto::Node, place: Place, depth: usize) -> Result<()> {
        if function_of(self.model, node).is_none() && registry::find(node).is_none() {
            self.refused.add(node, place.opsets, &registry::NO_SUCH.into());
        }
        if depth > MAX_DEPTH {
            return Ok(()); // refused when the model was read
        }
        for encoded in decode_attributes(node)?.into_iter().filter_map(|attribute| attribute.g) {
            for bytes in Graph::decode(&encoded, &|_| true, depth + 1)?.nodes {
                self.refuse_unknown(&decode_node(&bytes)?, place, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Once the `nodes` of an import are translated, returns the values to keep and the nodes left for later. The
    /// former are the requested values and those that the nodes left read, except the `given` ones.
    pub(super) fn kept(
        &mut self,
        scope: &Scope,
        nodes: &[Bytes],
        wanted: &[String],
        given: &HashSet<String>,
    ) -> Result<(Vec<Binding>, Rest)> {
        let left = self.cuts.take().unwrap_or_default().nodes;
        let mut names = BTreeSet::new();
        for node in &left {
            names.extend(reads(&decode_node(&nodes[node.index])?, 0)?);
        }
        names.retain(|name| !scope.has_initializer(name));
        names.extend(wanted.iter().cloned());
        names.retain(|name| !given.contains(name));
        let (mut outputs, mut values) = (Vec::new(), Vec::new());
        for name in names {
            match self.value(scope, &name)? {
                Some(Value::Unknown) | None => {}
                Some(value) => {
                    let kept = self.keep(value, &name, &mut outputs)?;
                    values.push((name, kept));
                }
            }
        }
        Ok((outputs, Rest { nodes: left, values }))
    }

    fn keep(&mut self, value: Value, name: &str, outputs: &mut Vec<Binding>) -> Result<Kept> {
        let mut output = |descriptor: Descriptor, operand: Option<OperandId>| {
            let name = format!("{}:{name}", outputs.len());
            outputs.push(Binding { name, descriptor, operand });
            Kept::Output(outputs.len() - 1)
        };
        let fail = |error: crate::error::Error| ModelError::coded(Code::Operation, error.message);
        Ok(match value {
            Value::Operand(id) => {
                let descriptor = self.builder.descriptor(id).clone();
                if let Some(dims) = self.builder.sizes_of(id) {
                    Kept::Sizes(descriptor, dims.to_vec())
                } else if let Some(constant) = self.builder.constant_value(id) {
                    Kept::Constant(descriptor, constant.buffer().map_err(fail)?)
                } else if self.builder.is_computed(id) {
                    output(descriptor, Some(id))
                } else {
                    // An input under another name.
                    let copy = self.builder.add(Elementwise::Identity, vec![Some(id)], name).map_err(fail)?;
                    output(descriptor, Some(copy[0]))
                }
            }
            Value::Empty(descriptor) => output(descriptor, None),
            Value::Literal(literal) => Kept::Literal((*literal).clone()),
            Value::Sequence(values) => {
                Kept::Sequence(values.into_iter().map(|value| self.keep(value, name, outputs)).collect::<Result<_>>()?)
            }
            Value::Absent => Kept::Absent,
            Value::Unknown => return Err(ModelError::new(format!("nothing computes '{name}'"))),
        })
    }
}
