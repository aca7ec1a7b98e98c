//! Where the nodes of trees are.

use crate::onnx::call::Step;
use crate::onnx::error::Refusal;
use std::collections::HashMap;

/// Consecutive numbers of nodes that stand one after the other: how exporters write a tree.
struct Run {
    /// The place of the first one.
    place: usize,
    /// Its number.
    first: i64,
    /// How many there are.
    count: usize,
}

/// Places of nodes by tree and number. A table of single nodes would miss the cache for each of millions.
pub struct Places {
    runs: HashMap<i64, Run>,
    /// Nodes that stand elsewhere.
    others: HashMap<(i64, i64), usize>,
}

impl Places {
    /// Of nodes with these trees and numbers.
    ///
    /// # Errors
    /// If a node is there twice.
    pub fn new(trees: &[i64], nodes: &[i64]) -> Step<Places> {
        let mut places = Places { runs: HashMap::new(), others: HashMap::new() };
        let mut place = 0;
        for same in trees.chunk_by(|a, b| a == b) {
            let (tree, numbers) = (same[0], &nodes[place..][..same.len()]);
            let first = numbers[0];
            let follows = |(at, &number): (usize, &i64)| number.checked_sub(first) == Some(at as i64);
            if !places.runs.contains_key(&tree) && numbers.iter().enumerate().all(follows) {
                places.runs.insert(tree, Run { place, first, count: numbers.len() });
            } else {
                for (at, &node) in numbers.iter().enumerate() {
                    if places.get(tree, node).is_some() {
                        return Err(Refusal(format!("node {node} of tree {tree} is there twice")));
                    }
                    places.others.insert((tree, node), place + at);
                }
            }
            place += numbers.len();
        }
        Ok(places)
    }

    fn get(&self, tree: i64, node: i64) -> Option<usize> {
        let run = self.runs.get(&tree).and_then(|run| {
            let at = usize::try_from(node.checked_sub(run.first)?).ok()?;
            (at < run.count).then_some(run.place + at)
        });
        run.or_else(|| self.others.get(&(tree, node)).copied())
    }

    /// The place of a node.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn find(&self, tree: i64, node: i64) -> Step<usize> {
        self.get(tree, node).ok_or_else(|| Refusal(format!("there is no node {node} in tree {tree}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(places: &Places, tree: i64, node: i64) -> Option<usize> {
        places.find(tree, node).ok()
    }

    #[test]
    fn nodes_are_found_in_any_order() {
        let (trees, nodes) = ([7, 7, 7, 2, 2, 7, 7, 5], [3, 4, 5, 9, 1, 0, i64::MIN, i64::MAX]);
        let places = Places::new(&trees, &nodes).ok().unwrap();
        for (at, (&tree, &node)) in trees.iter().zip(&nodes).enumerate() {
            assert_eq!(place(&places, tree, node), Some(at), "node {node} of tree {tree}");
        }
        for (tree, node) in [(7, 2), (7, 6), (7, i64::MAX), (2, 2), (5, i64::MIN), (4, 0)] {
            assert_eq!(place(&places, tree, node), None, "node {node} of tree {tree}");
        }
    }

    #[test]
    fn nodes_are_there_once() {
        for (trees, nodes) in [([1, 1, 1], [0, 1, 1]), ([1, 2, 1], [0, 0, 0]), ([1, 1, 1], [4, 2, 4])] {
            let refused = Places::new(&trees, &nodes).err().unwrap();
            assert!(refused.reason.contains("is there twice"), "{}", refused.reason);
        }
    }
}
