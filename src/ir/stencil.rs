//! Graphs that are filled with sizes again and again.

use super::{Constant, Graph, Node, Source, ValueId, bytes_of_sizes};
use crate::dimension::Dim;
use crate::error::Result;
use std::collections::HashSet;
use std::sync::Arc;

/// A graph whose sizes are known later. Filling it overwrites the dimensions that follow from them, and nothing else is made
/// anew.
pub struct Stencil {
    /// With the sizes of the last filling.
    graph: Graph,
    /// The dimensions of values that follow from sizes: value, axis, and the dimension itself.
    dims: Box<[(usize, usize, Dim)]>,
    /// Nodes with dimensions of their own, and all of these in the order in which the node shows them.
    nodes: Box<[(usize, Box<[Dim]>)]>,
    /// The constants by the places of their values, whose bytes are dropped when the graph is lowered.
    constants: Box<[(usize, Constant)]>,
    /// The constants that follow from sizes.
    sizes: Box<[Arc<[Dim]>]>,
    /// The values of these.
    size_ids: Box<[ValueId]>,
    /// Nodes with sizes that are known later, and these: of the node, and of what it reads and gives.
    sized_nodes: Box<[(usize, Box<[Dim]>)]>,
    /// What the last filling was computed of.
    filled_with: Vec<i64>,
}

/// A graph with other sizes than it had before.
pub struct Filling<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The constants that follow from sizes.
    pub sizes: &'a [ValueId],
    /// What has other sizes than before.
    pub changes: Changes,
}

/// What has other sizes than in another filling.
pub struct Changes {
    /// For each node, whether it has, or something that it reads or gives.
    pub nodes: Vec<bool>,
    /// For each value, whether it has.
    pub values: Vec<bool>,
}

impl Changes {
    /// Everything may have other sizes.
    pub fn all(graph: &Graph) -> Changes {
        Changes { nodes: vec![true; graph.nodes.len()], values: vec![true; graph.values.len()] }
    }
}

impl Stencil {
    /// The stencil of `graph`.
    pub fn new(mut graph: Graph) -> Stencil {
        let (mut dims, mut constants, mut sizes, mut size_ids) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (index, value) in graph.values.iter().enumerate() {
            let shape = value.descriptor.shape.iter().enumerate();
            dims.extend(shape.filter(|(_, dim)| !dim.is_number()).map(|(axis, dim)| (index, axis, *dim)));
            match &value.source {
                Source::Constant(constant) => constants.push((index, constant.clone())),
                Source::Sizes(dims) => {
                    sizes.push(dims.clone());
                    size_ids.push(ValueId(index as u32));
                }
                Source::Input | Source::Node => {}
            }
        }
        let of_node = |(index, node): (usize, &mut Node)| {
            let mut dims = Vec::new();
            node.visit_dims(&mut |dim| dims.push(*dim));
            dims.iter().any(|dim| !dim.is_number()).then(|| (index, dims.into_boxed_slice()))
        };
        let nodes: Box<[(usize, Box<[Dim]>)]> = graph.nodes.iter_mut().enumerate().filter_map(of_node).collect();
        let mut own = nodes.iter().peekable();
        let mut sized_nodes = Vec::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            let mut all: Vec<Dim> =
                own.next_if(|(at, _)| *at == index).map_or_else(Vec::new, |(_, dims)| dims.to_vec());
            for id in node.reads().chain(&node.outputs) {
                let value = graph.value(*id);
                all.extend(&value.descriptor.shape);
                if let Source::Sizes(dims) = &value.source {
                    all.extend(dims.iter());
                }
            }
            let mut seen = HashSet::new();
            all.retain(|dim| !dim.is_number() && seen.insert(dim.key()));
            if !all.is_empty() {
                sized_nodes.push((index, all.into_boxed_slice()));
            }
        }
        Stencil {
            graph,
            dims: dims.into(),
            nodes,
            sized_nodes: sized_nodes.into(),
            filled_with: Vec::new(),
            constants: constants.into(),
            sizes: sizes.into(),
            size_ids: size_ids.into(),
        }
    }

    /// Fills the graph with the sizes that [`Tape::evaluate`](crate::dimension::Tape::evaluate) has computed `values` for.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for constants that follow from sizes.
    pub fn fill(&mut self, values: &[i64]) -> Result<()> {
        values.clone_into(&mut self.filled_with);
        for (index, axis, dim) in &self.dims {
            self.graph.values[*index].descriptor.shape[*axis] = Dim::number(dim.at(values));
        }
        for (index, dims) in &self.nodes {
            let mut dims = dims.iter();
            self.graph.nodes[*index].visit_dims(&mut |dim| {
                *dim = Dim::number(dims.next().expect("a node always shows as many").at(values));
            });
        }
        for (id, dims) in self.size_ids.iter().zip(&self.sizes) {
            let value = &mut self.graph.values[id.index()];
            let sizes = dims.iter().map(|dim| dim.at(values));
            value.source = Source::Constant(bytes_of_sizes(sizes, value.descriptor.dtype)?.into());
        }
        Ok(())
    }

    /// The last filling, for what was made of the one with these values.
    pub fn filling(&self, before: &[i64]) -> Filling<'_> {
        let mut changes =
            Changes { nodes: vec![false; self.graph.nodes.len()], values: vec![false; self.graph.values.len()] };
        let is_other = |dim: &Dim| dim.at(before) != dim.at(&self.filled_with);
        for (index, dims) in &self.sized_nodes {
            changes.nodes[*index] = dims.iter().any(is_other);
        }
        for (index, _, dim) in &self.dims {
            changes.values[*index] |= is_other(dim);
        }
        Filling { graph: &self.graph, sizes: &self.size_ids, changes }
    }

    /// What `lower` makes of the graph with the sizes of the last filling. It may drop bytes of constants, which are there
    /// again behind it, and may change nothing else.
    pub fn lower<T>(&mut self, lower: impl FnOnce(&mut Graph) -> T) -> T {
        let lowered = lower(&mut self.graph);
        for (index, constant) in &self.constants {
            self.graph.values[*index].source = Source::Constant(constant.clone());
        }
        lowered
    }
}
