//! Origins: which nodes of the graph as it was built a node of the rewritten graph stands for.
//!
//! A node that a pass moves into another one, or replaces by another one, hands its origins over. So every node of the
//! graph as built is an origin of at most one node, and of none when it was computed while the graph was built or when
//! nothing needs it.

use super::{Graph, Node};

impl Node {
    /// Takes over the origins of a node that this one stands for from now on.
    pub fn absorb(&mut self, mut origins: Vec<u32>) {
        // The longer list is kept, so that long chains cost what they are long.
        if self.origins.len() < origins.len() {
            std::mem::swap(&mut self.origins, &mut origins);
        }
        self.origins.append(&mut origins);
    }
}

impl Graph {
    /// Makes every node its own origin, by its place in [`Graph::nodes`].
    pub(super) fn number_nodes(&mut self) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            node.origins = vec![index as u32];
        }
    }

    /// Puts the origins of every node in order.
    pub fn sort_origins(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.origins.sort_unstable());
    }

    /// As [`drop_unused`](Self::drop_unused), but the origins of a node that goes are kept by its heir: `heirs` holds, for
    /// each node, the node that does its work if it goes. Where that one goes as well, its own heir has them.
    pub fn drop_replaced(&mut self, mut heirs: Vec<Option<usize>>) {
        let stays = self.needed_nodes();
        for index in 0..self.nodes.len() {
            if stays[index] {
                continue;
            }
            let mut at = index;
            // Each turn leads to another node. The number of nodes bounds the search for whatever the heirs are.
            for _ in 0..self.nodes.len() {
                let Some(heir) = heirs[at].filter(|_| !stays[at]) else { break };
                if !stays[heir] && heirs[heir].is_some() {
                    // Makes the way half as long for those that come later.
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
