//! Graphs that are filled with sizes repeatedly.

use super::{Constant, Graph, Node, Source, ValueId, bytes_of_sizes};
use crate::dimension::{Dim, DimKey};
use crate::error::Result;
use std::collections::HashMap;
use std::sync::Arc;

/// A graph with sizes still unknown. Filling overwrites the dimensions that depend on them; nothing else is recreated.
pub struct Stencil {
    /// The graph, with the sizes of the last filling.
    graph: Graph,
    /// The distinct dimensions that depend on sizes.
    dims: Box<[Unknown]>,
    /// Nodes that have dimensions of their own, and these dimensions in the order in which the node visits them.
    nodes: Box<[(usize, Box<[Dim]>)]>,
    /// The constants, by index of their values: lowering the graph drops their bytes.
    constants: Box<[(usize, Constant)]>,
    /// The constants that depend on sizes.
    sizes: Box<[Arc<[Dim]>]>,
    /// The ids of these constants.
    size_ids: Box<[ValueId]>,
    /// The tape's values of the last filling; empty if there is none.
    filled_with: Vec<i64>,
}

/// A dimension that depends on sizes, and everything that has it.
struct Unknown {
    dim: Dim,
    /// Indices of values, with the axes.
    values: Vec<(usize, usize)>,
    /// Indices among the nodes with dimensions of their own.
    own: Vec<usize>,
    /// Nodes that have the dimension, or read or write a value that has it.
    nodes: Vec<usize>,
}

/// A graph whose sizes differ from those of an earlier filling.
pub struct Filling<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The constants that depend on sizes, in ascending order.
    pub sizes: &'a [ValueId],
    /// The nodes and values with changed sizes.
    pub changes: Changes,
}

/// The nodes and values whose sizes differ between two fillings.
pub struct Changes {
    /// For each node, whether it, or a value that it reads or writes, has changed.
    pub nodes: Vec<bool>,
    /// For each value, whether it has changed.
    pub values: Vec<bool>,
}

impl Changes {
    /// Everything may have changed.
    pub fn all(graph: &Graph) -> Changes {
        Changes { nodes: vec![true; graph.nodes.len()], values: vec![true; graph.values.len()] }
    }
}

impl Stencil {
    /// The stencil of `graph`.
    pub fn new(mut graph: Graph) -> Stencil {
        let mut dims = Unknowns::default();
        let (mut constants, mut sizes, mut size_ids) = (Vec::new(), Vec::new(), Vec::new());
        for (index, value) in graph.values.iter().enumerate() {
            for (axis, &dim) in value.descriptor.shape.iter().enumerate() {
                dims.note(dim, |unknown| unknown.values.push((index, axis)));
            }
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
        let mut own = nodes.iter().enumerate().peekable();
        for (index, node) in graph.nodes.iter().enumerate() {
            if let Some((place, (_, own))) = own.next_if(|(_, (at, _))| *at == index) {
                for &dim in own {
                    dims.note(dim, |unknown| {
                        push_new(&mut unknown.own, place);
                        push_new(&mut unknown.nodes, index);
                    });
                }
            }
            for id in node.reads().chain(&node.outputs) {
                let value = graph.value(*id);
                let sizes = if let Source::Sizes(dims) = &value.source { &dims[..] } else { &[] };
                for &dim in value.descriptor.shape.iter().chain(sizes) {
                    dims.note(dim, |unknown| push_new(&mut unknown.nodes, index));
                }
            }
        }
        Stencil {
            graph,
            dims: dims.all.into(),
            nodes,
            filled_with: Vec::new(),
            constants: constants.into(),
            sizes: sizes.into(),
            size_ids: size_ids.into(),
        }
    }

    /// Fills the graph with the sizes of `values`, computed by [`Tape::evaluate`](crate::dimension::Tape::evaluate).
    ///
    /// # Errors
    /// An `UnknownError` if memory for constants that depend on sizes runs out.
    pub fn fill(&mut self, values: &[i64]) -> Result<()> {
        // Until the end, the graph is not a valid basis for another filling.
        let before = std::mem::take(&mut self.filled_with);
        let mut own = Vec::new();
        for unknown in self.dims.iter().filter(|unknown| unknown.differs(&before, values)) {
            let size = Dim::number(unknown.dim.at(values));
            for &(index, axis) in &unknown.values {
                self.graph.values[index].descriptor.shape[axis] = size;
            }
            own.extend_from_slice(&unknown.own);
        }
        own.sort_unstable();
        own.dedup();
        for place in own {
            let (index, dims) = &self.nodes[place];
            let mut dims = dims.iter();
            self.graph.nodes[*index].visit_dims(&mut |dim| {
                *dim = Dim::number(dims.next().expect("a node always visits the same number").at(values));
            });
        }
        for (id, dims) in self.size_ids.iter().zip(&self.sizes) {
            let value = &mut self.graph.values[id.index()];
            let sizes = dims.iter().map(|dim| dim.at(values));
            value.source = Source::Constant(bytes_of_sizes(sizes, value.descriptor.dtype)?.into());
        }
        self.filled_with = before;
        values.clone_into(&mut self.filled_with);
        Ok(())
    }

    /// The last filling, relative to the one with the values `before`.
    pub fn filling(&self, before: &[i64]) -> Filling<'_> {
        let mut changes =
            Changes { nodes: vec![false; self.graph.nodes.len()], values: vec![false; self.graph.values.len()] };
        for unknown in self.dims.iter().filter(|unknown| unknown.differs(before, &self.filled_with)) {
            unknown.nodes.iter().for_each(|&index| changes.nodes[index] = true);
            unknown.values.iter().for_each(|&(index, _)| changes.values[index] = true);
        }
        Filling { graph: &self.graph, sizes: &self.size_ids, changes }
    }

    /// Calls `lower` on the graph with the sizes of the last filling. `lower` may drop bytes of constants, which are
    /// restored afterwards, and must not change anything else.
    pub fn lower<T>(&mut self, lower: impl FnOnce(&mut Graph) -> T) -> T {
        let lowered = lower(&mut self.graph);
        for (index, constant) in &self.constants {
            self.graph.values[*index].source = Source::Constant(constant.clone());
        }
        lowered
    }
}

impl Unknown {
    /// Whether the size differs between the values `now` and `before`; if there are no earlier values, it does.
    fn differs(&self, before: &[i64], now: &[i64]) -> bool {
        before.is_empty() || self.dim.at(before) != self.dim.at(now)
    }
}

/// The distinct dimensions that depend on sizes.
#[derive(Default)]
struct Unknowns {
    all: Vec<Unknown>,
    places: HashMap<DimKey, usize>,
}

impl Unknowns {
    /// If `dim` depends on sizes, updates its record by `add`.
    fn note(&mut self, dim: Dim, add: impl FnOnce(&mut Unknown)) {
        if dim.is_number() {
            return;
        }
        let place = *self.places.entry(dim.key()).or_insert_with(|| {
            self.all.push(Unknown { dim, values: Vec::new(), own: Vec::new(), nodes: Vec::new() });
            self.all.len() - 1
        });
        add(&mut self.all[place]);
    }
}

/// Appends `index`, which is not below any existing one, unless it is already the last.
fn push_new(list: &mut Vec<usize>, index: usize) {
    if list.last() != Some(&index) {
        list.push(index);
    }
}
