//! The memory of a session: what belongs to it alone, what it shares in the process, and what is mapped from a store.

use super::Session;
use super::specialization::Specializations;
use super::stage::lock;
use super::template::Bindings;
use crate::memory::store::Store;
use crate::memory::{Buffer, MIN_SHARED_BYTES};
use crate::runtime::{Templates, Weight};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of the weights of a session, and where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    /// In memory that only this session uses, on the CPU or a device.
    pub private: usize,
    /// In memory that other sessions or graphs of the process use as well.
    pub shared: usize,
    /// In a file that is mapped, whose memory all processes share.
    pub mapped: usize,
    /// The file that packed weights are kept in, if they are.
    pub store: Option<String>,
    /// Why they could not be written there, if they could not.
    pub problem: Option<String>,
}

/// Calls `visit` with the weights of compiled graphs and templates, and their sizes in bytes; once for each owner.
pub(super) fn each_weight(
    kept: &Specializations,
    templates: &Templates<Bindings>,
    visit: &mut dyn FnMut(&Weight, usize),
) {
    for graph in kept.lock().iter().filter_map(|one| one.graph()) {
        graph.each_weight(|weight, bytes| visit(&weight, bytes));
    }
    templates.each_weight(visit);
}

impl Session {
    /// Where what is packed of the model is kept on disk, if it is.
    pub(super) fn store(&self) -> Option<Arc<Store>> {
        let model = lock(&self.model).clone()?;
        model.files.store().cloned()
    }

    /// Writes what was packed to disk, in the background.
    pub(super) fn save(&self) {
        self.store().iter().for_each(|store| store.save());
    }

    /// Calls `then` when what was packed is on disk, or with why it is not.
    pub fn when_saved(&self, then: impl FnOnce(Option<String>) + Send + 'static) {
        let Some(store) = self.store() else { return then(None) };
        let told = store.clone();
        store.when_saved(move || then(told.problem()));
    }

    /// Where its weights are.
    pub fn memory(&self) -> MemoryUse {
        let store = self.store();
        let mut found = MemoryUse {
            store: store.as_ref().map(|store| store.path().display().to_string()),
            problem: store.as_ref().and_then(|store| store.problem()),
            ..MemoryUse::default()
        };
        // Each weight with its size, and how many owners it has in this session.
        let mut weights: HashMap<usize, (Weight, usize, usize)> = HashMap::new();
        let mut visit = |weight: &Weight, bytes| {
            let known = weights.entry(Arc::as_ptr(weight).addr()).or_insert_with(|| (weight.clone(), bytes, 0));
            known.2 += 1;
        };
        each_weight(&self.kept, &self.templates, &mut visit);
        let program = lock(&self.program).clone();
        program.iter().for_each(|program| program.each_weight(&mut visit));
        lock(&self.kept_weights).each(&mut visit);
        // What is being saved is not used by others.
        store.iter().for_each(|store| store.each_fresh(|buffer| visit(&(buffer.clone() as Weight), buffer.len())));
        for (weight, bytes, own) in weights.into_values() {
            // One of the owners is the list. Graphs and plans of one session hold small constants more than once.
            let is_shared = bytes >= MIN_SHARED_BYTES && Arc::strong_count(&weight) > own + 1;
            match weight.downcast_ref::<Buffer>().is_some_and(Buffer::is_mapped) {
                true => found.mapped += bytes,
                false if is_shared => found.shared += bytes,
                false => found.private += bytes,
            }
        }
        found
    }
}
