//! Origins: the nodes of the graph as built that a node of the rewritten graph stands for.
//!
//! A node that a pass merges into another one, or replaces by another one, passes its origins on. Every node of the
//! graph as built is therefore an origin of at most one node, and of none if it is unused or was folded during the
//! build.

use super::{Graph, Node};

impl Node {
    /// Takes over the origins of a node that this one now stands for.
    pub fn absorb(&mut self, mut origins: Vec<u32>) {
        // Extends the longer list: the total cost of long chains stays linear.
        if self.origins.len() < origins.len() {
            std::mem::swap(&mut self.origins, &mut origins);
        }
        self.origins.append(&mut origins);
    }
}

impl Graph {
    /// Makes every node its own origin, by its index in [`Graph::nodes`].
    pub(super) fn number_nodes(&mut self) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            node.origins = vec![index as u32];
        }
    }

    /// Sorts the origins of every node.
    pub fn sort_origins(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.origins.sort_unstable());
    }

    /// Like [`drop_unused`](Self::drop_unused), but passes the origins of a dropped node on to its heir. `heirs` holds,
    /// for each node, the node that takes over its work. If the heir is dropped as well, its own heir inherits.
    pub fn drop_replaced(&mut self, mut heirs: Vec<Option<usize>>) {
        let stays = self.needed_nodes();
        for index in 0..self.nodes.len() {
            if stays[index] {
                continue;
            }
            let mut at = index;
            // Each iteration follows one heir. The number of nodes bounds the search, whatever `heirs` contains.
            for _ in 0..self.nodes.len() {
                let Some(heir) = heirs[at].filter(|_| !stays[at]) else { break };
                if !stays[heir] && heirs[heir].is_some() {
                    // Halves the path for later searches.
                    heirs[at] = heirs[heir];
                }
                at = heir;
            }
            if stays[at] {
                let origins = std::mem::take(&mut self.nodes[index].origins);
                self.nodes[at].absorb(origins);
            }
        }
        self.drop_unused();
    }
}
