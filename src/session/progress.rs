//! How far a run of a program is: which nodes have run, and which values others still need.

use super::known::Held;
use super::program::Values;
use crate::onnx::flow::Flow;
use crate::onnx::graph::{ByName, NameId, NameSet};
use crate::onnx::value::Value;
use std::collections::BTreeSet;

/// How far a run of a program is.
pub(super) struct Progress<'p> {
    pub flow: &'p Flow,
    /// For each node, the number of values that it waits for.
    pub waits: Vec<u32>,
    /// For each value, the number of nodes that will read it, and of wanted results.
    pub uses: ByName<u32>,
    pub values: Values,
    /// The nodes that wait for nothing.
    pub ready: BTreeSet<u32>,
    /// Those among them that may read lists.
    pub fresh: BTreeSet<u32>,
    /// The nodes that have run since the last stage began.
    pub step: Vec<u32>,
    /// Number of nodes that have run.
    pub done: usize,
    /// Lists that nodes in graphs may read.
    pub shown: NameSet,
    /// Number of tensors whose elements were read.
    pub known: usize,
}

impl<'p> Progress<'p> {
    /// Before any node of `flow` has run: `starts` are the places of those that wait for nothing.
    pub fn new(flow: &'p Flow, starts: &[u32], wanted: &[NameId], mut values: Values) -> Progress<'p> {
        let mut uses = flow.uses();
        wanted.iter().for_each(|&id| *uses.entry(id).or_default() += 1);
        values.retain(|id, _| uses.get(id).is_some_and(|&uses| uses > 0));
        let ready: BTreeSet<u32> = starts.iter().copied().collect();
        let (step, shown, fresh) = (Vec::new(), NameSet::default(), ready.clone());
        Progress { flow, waits: flow.waits().to_vec(), uses, values, ready, fresh, step, done: 0, shown, known: 0 }
    }

    /// The node at `place` has run, its outputs are among the values.
    pub fn finish(&mut self, place: u32) {
        self.ready.remove(&place);
        self.fresh.remove(&place);
        self.step.push(place);
        self.done += 1;
        for read in self.flow.reads(place) {
            if let Some(uses) = self.uses.get_mut(&read) {
                *uses -= 1;
                if *uses == 0 {
                    self.values.remove(&read);
                }
            }
        }
        for reader in self.flow.readers(place) {
            self.waits[reader as usize] -= 1;
            if self.waits[reader as usize] == 0 {
                self.ready.insert(reader);
                self.fresh.insert(reader);
            }
        }
    }

    /// Adds a value, unless nobody reads it.
    pub fn add(&mut self, id: NameId, value: Held) {
        if self.uses.get(&id).is_some_and(|&uses| uses > 0) {
            self.values.insert(id, value);
        }
    }

    /// The values that the remaining nodes read, without `later` ones: those of a stage, if nothing is left behind it.
    pub fn may_read(&self, wanted: &[NameId], later: &NameSet) -> Vec<NameId> {
        let mut results: ByName<u32> = ByName::default();
        wanted.iter().for_each(|&id| *results.entry(id).or_default() += 1);
        let is_read = |id: &&NameId| self.uses.get(id) > results.get(id) && !later.contains(id);
        let mut read: Vec<NameId> = self.values.keys().filter(is_read).copied().collect();
        read.sort_unstable();
        read
    }

    /// A value that the next node to run reads: its own if no other node reads it, and it is no result.
    pub fn take(&mut self, id: NameId) -> Option<Held> {
        match self.uses.get(&id) {
            Some(1) => self.values.remove(&id),
            _ => self.values.get(&id).cloned(),
        }
    }

    pub fn is_list(&self, id: NameId) -> bool {
        matches!(self.values.get(&id), Some(Value::Sequence(_)))
    }

    /// Counters of progress: every stage must change at least one of them.
    pub fn counters(&self, wanted: &[NameId]) -> [usize; 4] {
        let there = wanted.iter().filter(|id| self.values.contains_key(id)).count();
        [self.done, there, self.shown.len(), self.known]
    }
}
