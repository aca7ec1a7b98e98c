//! Keeps what is packed of the constants of built graphs on disk: these have no file that says where they come from, and
//! are recognized by their contents.

use super::Done;
use crate::cpu::simd::Isa;
use crate::error::{Error, ErrorKind};
use crate::ir::{Constant, Graph, Source};
use crate::memory::store::{Folder, KeyWriter, Label, ModelId, Store, StoreOptions};
use crate::memory::{Backing, MIN_SHARED_BYTES, Mapped};
use std::sync::{Arc, Mutex, PoisonError};

/// Where the stores of the graphs of a context are.
pub struct GraphStores {
    folder: Folder,
    verifies: bool,
    /// Told once why something is not kept.
    problem: Mutex<Option<Done>>,
}

/// The bytes of a constant that is large enough to be kept.
fn large(source: &Source) -> Option<Backing> {
    match source {
        Source::Constant(Constant::Owned(buffer)) if buffer.len() >= MIN_SHARED_BYTES => {
            Some(Backing::from(buffer.clone()))
        }
        _ => None,
    }
}

impl GraphStores {
    /// Opens the folder, the user's if the options name none; `None` if there is no folder that can be trusted.
    ///
    /// `problem` ends with a NotSupportedError that says why, or with an OperationError when a store cannot be written
    /// for the first time; it is dropped with the stores.
    pub fn open(options: &StoreOptions, problem: Done) -> Option<GraphStores> {
        match Folder::open(options.folder.as_deref()) {
            Ok(folder) => Some(GraphStores { folder, verifies: options.verifies, problem: Some(problem).into() }),
            Err(error) => {
                problem.finish(Err(error));
                None
            }
        }
    }

    /// Writes what was packed to disk, in the background.
    pub fn save(self: &Arc<Self>, store: &Arc<Store>) {
        store.save();
        let (stores, saved) = (self.clone(), store.clone());
        store.after_saving(move || {
            let Some(why) = saved.problem() else { return };
            let problem = stores.problem.lock().unwrap_or_else(PoisonError::into_inner).take();
            problem.into_iter().for_each(|told| told.finish(Err(Error::new(ErrorKind::Operation, why.clone()))));
        });
    }

    /// Has the large constants of `graph` kept on disk when they are packed, and found there. Returns the store, which
    /// must be [saved](Self::save) afterwards; `None` if there are no such constants.
    pub fn keep(&self, graph: &mut Graph, isa: Isa) -> Option<Arc<Store>> {
        let backings: Vec<Option<Backing>> = graph.values.iter().map(|value| large(&value.source)).collect();
        backings.iter().flatten().next()?;
        let mut all = KeyWriter::new("graph");
        for backing in backings.iter().flatten() {
            all.bytes(&backing.contents().expect("memory can be read").0);
        }
        let label = Label { model: "graph".to_string(), isa: isa.name().to_string() };
        let store = Store::open(self.folder.clone(), &ModelId::Contents(all.finish()), label, self.verifies);
        for (value, backing) in graph.values.iter_mut().zip(backings) {
            let Some(backing) = backing else { continue };
            let len = backing.as_ref().len();
            let window = Mapped::new(backing.kept_in(&store), 0..len).expect("all of it");
            value.source = Source::Constant(Constant::Mapped(window));
        }
        Some(store)
    }
}
