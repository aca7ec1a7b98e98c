//! Identifiers of values.

/// A value of a graph, as an index into [`Graph::values`](super::Graph::values).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The index into [`Graph::values`](super::Graph::values).
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
