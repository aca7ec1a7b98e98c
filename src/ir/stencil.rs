//! Graphs that are filled with sizes repeatedly.

use super::{Constant, Graph, Node, Source, ValueId, bytes_of_sizes};
use crate::dimension::{Dim, DimKey};
use crate::error::Result;
use std::collections::HashMap;
use std::sync::Arc;

/// A graph with sizes still unknown. Filling overwrites the dimensions that depend on them and differ; nothing else is
/// looked at.
pub struct Stencil {
    /// The graph, with the sizes of the last filling.
    graph: Graph,
    /// The distinct dimensions that depend on sizes.
    dims: Box<[Unknown]>,
    /// The nodes with dimensions of their own that depend on sizes.
    nodes: Box<[OwnDims]>,
    /// The constants, by index of their values: lowering the graph drops their bytes.
    constants: Box<[(usize, Constant)]>,
    /// The constants that depend on sizes, in ascending order.
    sizes: Box<[(ValueId, Arc<[Dim]>)]>,
    /// The tape's values of the last filling; empty if there is none.
    filled_with: Vec<i64>,
    /// Scratch list: what a filling recomputes, as indices into `nodes` and into `sizes`.
    outdated: [Vec<usize>; 2],
    /// The last result of [`filling`](Self::filling). From one token of a text to the next, the same dimensions differ.
    last: Difference,
}

/// A node's own dimensions that depend on sizes.
struct OwnDims {
    /// The index of the node.
    node: usize,
    /// The dimensions, each with its place among all that the node visits.
    dims: Box<[(usize, Dim)]>,
}

/// A dimension that depends on sizes, and everything that has it.
struct Unknown {
    dim: Dim,
    /// Indices of values, with the axes.
    values: Vec<(usize, usize)>,
    /// Indices among the nodes with dimensions of their own.
    own: Vec<usize>,
    /// Indices among the constants that depend on sizes.
    sizes: Vec<usize>,
    /// Nodes that have the dimension, or read or write a value that has it.
    nodes: Vec<usize>,
}

/// A graph whose sizes differ from those of an earlier filling.
pub struct Filling<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// What differs.
    pub changes: &'a Changes,
}

/// What differs between the sizes of two fillings; each list is ascending.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The nodes that have changed, or read or write a value that has.
    pub nodes: Vec<usize>,
    /// The values whose shapes have changed.
    pub values: Vec<usize>,
    /// The constants whose elements have changed.
    pub constants: Vec<ValueId>,
}

impl Changes {
    /// All nodes and values may have changed.
    pub fn all(graph: &Graph) -> Changes {
        let (nodes, values) = ((0..graph.nodes.len()).collect(), (0..graph.values.len()).collect());
        Changes { nodes, values, constants: Vec::new() }
    }
}

/// The dimensions that differ between two fillings, by their indices, and the changes that follow.
#[derive(Default)]
struct Difference {
    dims: Vec<usize>,
    changes: Changes,
}

impl Difference {
    /// Becomes the difference of the values `before` and `now`.
    fn update(&mut self, dims: &[Unknown], sizes: &[(ValueId, Arc<[Dim]>)], before: &[i64], now: &[i64]) {
        let differing = || (0..dims.len()).filter(|&at| dims[at].differs(before, now));
        if differing().eq(self.dims.iter().copied()) {
            return;
        }
        let Difference { dims: known, changes } = self;
        let Changes { nodes, values, constants } = changes;
        known.clear();
        known.extend(differing());
        nodes.clear();
        values.clear();
        constants.clear();
        for unknown in known.iter().map(|&at| &dims[at]) {
            nodes.extend_from_slice(&unknown.nodes);
            values.extend(unknown.values.iter().map(|(index, _)| *index));
            constants.extend(unknown.sizes.iter().map(|&at| sizes[at].0));
        }
        distinct(nodes);
        distinct(values);
        distinct(constants);
    }
}

/// Sorts `list`, and drops repetitions.
fn distinct<T: Ord>(list: &mut Vec<T>) {
    list.sort_unstable();
    list.dedup();
}

impl Stencil {
    /// The stencil of `graph`.
    pub fn new(mut graph: Graph) -> Stencil {
        // Passes build lists anew, with room for more.
        graph.values.shrink_to_fit();
        graph.nodes.shrink_to_fit();
        let mut dims = Unknowns::default();
        let (mut constants, mut sizes) = (Vec::new(), Vec::new());
        for (index, value) in graph.values.iter().enumerate() {
            for (axis, &dim) in value.descriptor.shape.iter().enumerate() {
                dims.note(dim, |unknown| unknown.values.push((index, axis)));
            }
            match &value.source {
                Source::Constant(constant) => constants.push((index, constant.clone())),
                Source::Sizes(own) => {
                    own.iter().for_each(|&dim| dims.note(dim, |unknown| push_new(&mut unknown.sizes, sizes.len())));
                    sizes.push((ValueId(index as u32), own.clone()));
                }
                Source::Input | Source::Node => {}
            }
        }
        let of_node = |(index, node): (usize, &mut Node)| {
            let (mut dims, mut places) = (Vec::new(), 0..);
            let mut note =
                |dim: &Dim| dims.extend(places.next().map(|place| (place, *dim)).filter(|_| !dim.is_number()));
            node.visit_dims(&mut |dim| note(dim));
            (!dims.is_empty()).then(|| OwnDims { node: index, dims: dims.into() })
        };
        let nodes: Box<[OwnDims]> = graph.nodes.iter_mut().enumerate().filter_map(of_node).collect();
        let mut own = nodes.iter().enumerate().peekable();
        for (index, node) in graph.nodes.iter().enumerate() {
            if let Some((place, own)) = own.next_if(|(_, own)| own.node == index) {
                for &(_, dim) in &own.dims {
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
            constants: constants.into(),
            sizes: sizes.into(),
            filled_with: Vec::new(),
            outdated: Default::default(),
            last: Difference::default(),
        }
    }

    /// Fills the graph with the sizes of `values`, computed by [`Tape::evaluate`](crate::dimension::Tape::evaluate).
    ///
    /// # Errors
    /// An `UnknownError` if memory for constants that depend on sizes runs out.
    pub fn fill(&mut self, values: &[i64]) -> Result<()> {
        // Until the end, the graph is not a valid basis for another filling.
        let mut before = std::mem::take(&mut self.filled_with);
        let [own, sizes] = &mut self.outdated;
        own.clear();
        sizes.clear();
        for unknown in self.dims.iter().filter(|unknown| unknown.differs(&before, values)) {
            let size = Dim::number(unknown.dim.at(values));
            for &(index, axis) in &unknown.values {
                self.graph.values[index].descriptor.shape[axis] = size;
            }
            own.extend_from_slice(&unknown.own);
            sizes.extend_from_slice(&unknown.sizes);
        }
        if before.is_empty() {
            // They may all be numbers.
            sizes.extend(0..self.sizes.len());
        }
        distinct(own);
        distinct(sizes);
        for &place in &*own {
            let OwnDims { node, dims } = &self.nodes[place];
            let (mut dims, mut at) = (dims.iter().peekable(), 0);
            self.graph.nodes[*node].visit_dims(&mut |dim| {
                if let Some((_, size)) = dims.next_if(|(place, _)| *place == at) {
                    *dim = Dim::number(size.at(values));
                }
                at += 1;
            });
        }
        for &place in &*sizes {
            let (id, dims) = &self.sizes[place];
            let value = &mut self.graph.values[id.index()];
            let sizes = dims.iter().map(|dim| dim.at(values));
            value.source = Source::Constant(bytes_of_sizes(sizes, value.descriptor.dtype)?.into());
        }
        before.clear();
        before.extend_from_slice(values);
        self.filled_with = before;
        Ok(())
    }

    /// The last filling, relative to the one with the values `before`; to any other one if there are none.
    pub fn filling(&mut self, before: &[i64]) -> Filling<'_> {
        self.last.update(&self.dims, &self.sizes, before, &self.filled_with);
        Filling { graph: &self.graph, changes: &self.last.changes }
    }

    /// Calls `lower` on the graph with the sizes of the last filling. `lower` may drop bytes of constants, which are
    /// restored afterwards, and must not change anything else.
    pub fn lower<T>(&mut self, lower: impl FnOnce(&mut Graph) -> T) -> T {
        let sized = self.sizes.iter().filter_map(|(id, _)| Some((*id, self.graph.value(*id).constant()?.clone())));
        let sized: Vec<(ValueId, Constant)> = sized.collect();
        let lowered = lower(&mut self.graph);
        for (index, constant) in &self.constants {
            self.graph.values[*index].source = Source::Constant(constant.clone());
        }
        for (id, constant) in sized {
            self.graph.values[id.index()].source = Source::Constant(constant);
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
            let (values, own, sizes, nodes) = Default::default();
            self.all.push(Unknown { dim, values, own, sizes, nodes });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimension::Tape;
    use crate::ir::parse;
    use crate::testing::Random;

    /// A stencil with the free sizes a, b and c: some nodes and values depend on one or two of them, others on none.
    fn stencil() -> (Stencil, Tape) {
        let mut graph = parse(
            "%0 = input x float32 [2, 3]
             %1 = input v float32 [2]
             %2 = constant int32 [2] 1 1
             %3 = abs %0
             %4 = reshape %3 newShape=[6]
             %5 = input w float32 [4]
             %6 = abs %5
             %7 = input k float32 [7]
             %8 = abs %7
             %9 = cast %2 dataType=float32
             output p = %4
             output q = %6
             output r = %8
             output s = %9",
        );
        Tape::record(&[2, 3, 4], |free| {
            let (a, b, c) = (free[0], free[1], free[2]);
            for (id, shape) in
                [(0, vec![a, b]), (1, vec![a]), (3, vec![a, b]), (4, vec![a * b]), (5, vec![c]), (6, vec![c])]
            {
                graph.values[id].descriptor.shape = shape;
            }
            graph.nodes[1].visit_dims(&mut |dim| *dim = a * b);
            graph.values[2].source = Source::Sizes([b, b / 4u32].into());
            Stencil::new(graph)
        })
    }

    fn filled(stencil: &mut Stencil, values: &[i64]) -> Graph {
        stencil.fill(values).unwrap();
        stencil.graph.clone()
    }

    #[test]
    fn fillings_equal_first_ones_and_tell_what_differs() {
        let (mut stencil, tape) = stencil();
        let mut random = Random::new(5);
        let (mut before, mut values) = (None::<(Graph, Vec<i64>)>, Vec::new());
        for round in 0..200 {
            // Often, one or two sizes stay as they were.
            let sizes: Vec<i64> = (0..3).map(|_| 2 + (random.next() % 3) as i64).collect();
            assert!(tape.evaluate(&sizes, &mut values));
            let graph = filled(&mut stencil, &values);
            let (mut first, _) = self::stencil();
            let expected = filled(&mut first, &values);
            let constant = |graph: &Graph| graph.values[2].constant().unwrap().buffer().unwrap().bytes().to_vec();
            assert_eq!(graph.nodes, expected.nodes, "{sizes:?}");
            assert_eq!(constant(&graph), constant(&expected), "{sizes:?}");
            assert!(graph.values.iter().zip(&expected.values).all(|(one, other)| one.descriptor == other.descriptor));
            if let Some((earlier, earlier_values)) = &before {
                let is_other = |at: &usize| graph.values[*at].descriptor != earlier.values[*at].descriptor;
                let values: Vec<usize> = (0..graph.values.len()).filter(is_other).collect();
                let constants = [ValueId(2)].into_iter().filter(|_| constant(&graph) != constant(earlier));
                let constants: Vec<ValueId> = constants.collect();
                let touches = |at: &usize| {
                    let node = &graph.nodes[*at];
                    let touched = |id: &ValueId| values.contains(&id.index()) || constants.contains(id);
                    earlier.nodes[*at] != *node || node.reads().chain(&node.outputs).any(touched)
                };
                let nodes = (0..graph.nodes.len()).filter(touches).collect();
                let Filling { changes, .. } = stencil.filling(earlier_values);
                assert_eq!(*changes, Changes { nodes, values, constants }, "{sizes:?}");
            }
            // Some plans stay as they are while others are resized.
            if before.is_none() || round % 3 > 0 {
                before = Some((graph, values.clone()));
            }
        }
    }

    #[test]
    fn constants_that_lowering_drops_are_there_again() {
        let (mut stencil, tape) = stencil();
        let mut values = Vec::new();
        // Only the last size differs: the constant stays as it was.
        for sizes in [[2, 3, 4], [2, 3, 5]] {
            assert!(tape.evaluate(&sizes, &mut values));
            let graph = filled(&mut stencil, &values);
            assert_eq!(graph.values[2].constant().unwrap().len(), 8);
            stencil.lower(|graph| graph.values[2].source = Source::Constant(crate::memory::Buffer::default().into()));
        }
    }
}
