//! Stages of a [`Program`](super::program::Program): what they are compiled to, and which ones follow.

use super::Session;
use super::specialization::Specializations;
use super::template::Bindings;
use crate::onnx::graph::NameId;
use crate::runtime::Templates;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Locks `mutex`, whatever panicked with it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nodes that run together, as far as the known values allow.
#[derive(Default)]
pub(super) struct Stage {
    /// The places of the nodes at which it begins.
    pub starts: Vec<u32>,
    /// The values that its nodes have read in all imports; `None` before the first one.
    pub reads: Mutex<Option<Vec<NameId>>>,
    /// Its graphs for all sizes.
    pub templates: Templates<Bindings>,
    /// Its graphs for given sizes.
    pub kept: Specializations,
    /// Size of the compiled graphs.
    pub bytes: AtomicUsize,
    /// The stages that follow, by the nodes that have run until then. The program owns them: a long chain of owners
    /// would end one within the other.
    next: Mutex<Vec<(Vec<u32>, Weak<Stage>)>>,
}

impl Stage {
    /// A stage that begins at these places.
    pub fn starting_at(starts: Vec<u32>) -> Arc<Stage> {
        Arc::new(Stage { starts, ..Stage::default() })
    }

    /// Adds what its nodes have read in an import: with other decisions, they read more.
    pub fn add_reads(&self, read: Vec<NameId>) {
        let mut reads = lock(&self.reads);
        let reads = reads.get_or_insert_default();
        for id in read {
            if !reads.contains(&id) {
                reads.push(id);
            }
        }
    }

    /// The stage that begins at `starts` after the nodes `done` have run, if it is known.
    fn known_after(&self, done: &[u32], starts: &BTreeSet<u32>) -> Option<Arc<Stage>> {
        let mut next = lock(&self.next);
        next.retain(|(_, stage)| stage.strong_count() > 0);
        let is_it = |(other, _): &&(Vec<u32>, Weak<Stage>)| other == done;
        let found = next.iter().filter(is_it).filter_map(|(_, stage)| stage.upgrade());
        found.into_iter().find(|stage| starts.iter().eq(&stage.starts))
    }
}

/// The stages of a program, without the first one.
#[derive(Default)]
pub(super) struct Stages(Mutex<Vec<Arc<Stage>>>);

impl Stages {
    /// The stage that begins at `starts` after `stage`, when the nodes `done` have run as well. There are at most
    /// `most`; beyond that, all are forgotten: a number of cuts that come and go have any number of combinations.
    pub fn after(
        &self,
        session: &Session,
        stage: &Stage,
        done: &[u32],
        starts: &BTreeSet<u32>,
        most: usize,
    ) -> Arc<Stage> {
        if let Some(known) = stage.known_after(done, starts) {
            return known;
        }
        let made = Stage::starting_at(starts.iter().copied().collect());
        lock(&stage.next).push((done.to_vec(), Arc::downgrade(&made)));
        let mut all = lock(&self.0);
        if all.len() >= most {
            let bytes = all.iter().map(|stage| stage.bytes.swap(0, Ordering::Relaxed)).sum();
            session.weigh_stage(0, bytes);
            all.clear();
        }
        all.push(made.clone());
        made
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Stage>> {
        lock(&self.0).clone()
    }
}
