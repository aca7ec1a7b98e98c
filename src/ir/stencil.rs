//! Graphs that are filled with sizes again and again.

use super::{Graph, Source, bytes_of_sizes};
use crate::dimension::Dim;
use crate::error::Result;

/// A graph whose sizes are known later. Filling it with them writes numbers where dimensions are, so that nothing else is
/// made anew.
pub struct Stencil {
    /// With the sizes of the last filling.
    graph: Graph,
    /// All dimensions, in the order in which the graph shows them.
    dims: Box<[Dim]>,
    /// The constants by the places of their values, whose bytes are dropped when the graph is lowered.
    constants: Box<[(usize, Source)]>,
}

impl Stencil {
    /// The stencil of `graph`.
    pub fn new(mut graph: Graph) -> Stencil {
        let mut dims = Vec::new();
        graph.visit_dims(&mut |dim| dims.push(*dim));
        let is_constant = |source: &Source| matches!(source, Source::Constant(_) | Source::Sizes(_));
        let sources = graph.values.iter().map(|value| value.source.clone()).enumerate();
        let constants = sources.filter(|(_, source)| is_constant(source)).collect();
        Stencil { graph, dims: dims.into(), constants }
    }

    /// The graph for the sizes that [`Tape::evaluate`](crate::dimension::Tape::evaluate) has computed `values` for. It can be
    /// lowered, and nothing else may be changed in it.
    ///
    /// # Errors
    /// An `UnknownError` when there is no memory for constants that follow from sizes.
    pub fn at(&mut self, values: &[i64]) -> Result<&mut Graph> {
        let mut dims = self.dims.iter();
        self.graph.visit_dims(&mut |dim| {
            *dim = Dim::number(dims.next().expect("a graph always shows as many").at(values));
        });
        for (index, source) in &self.constants {
            let value = &mut self.graph.values[*index];
            value.source = match source {
                Source::Sizes(dims) => {
                    let sizes = dims.iter().map(|dim| dim.at(values));
                    Source::Constant(bytes_of_sizes(sizes, value.descriptor.dtype)?.into())
                }
                known => known.clone(),
            };
        }
        Ok(&mut self.graph)
    }
}
