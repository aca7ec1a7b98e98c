//! Packed weights on disk, which processes share: see docs/architecture.md, "The store".
//!
//! A [`Store`] holds what is packed of one model for one instruction set, in one file that processes map. An entry is found
//! by its [`Key`], a digest of where the weights come from and of the form they are packed in; its length is what the caller
//! computes, never what the file says. What a file holds can thus change numbers, as a model can, but no sizes, offsets or
//! control flow.
//!
//! Nobody writes into a file that exists: a new one with all old entries and the new ones replaces it, in the background.

mod file;
mod folder;
mod key;
mod map;
mod model;
mod saving;

pub use file::Damage;
pub use folder::{CACHE_VARIABLE, Folder, LIMIT_VARIABLE, Listed, user_folder};
pub use key::{Key, KeyWriter, Stamp};
pub use map::Map;
pub use model::{Label, ModelId, PACKING_VERSION, StoreOptions};
pub use saving::finish_saving;

use super::{Backing, Buffer, WeakMap};
use file::StoreFile;
use saving::{Saving, hurry};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The packed weights of one model for one instruction set.
pub struct Store {
    folder: Folder,
    path: PathBuf,
    label: Label,
    /// Whether files next to the model are recognized by their contents, too.
    by_contents: bool,
    /// Whether the bytes of each entry are compared with their checksum before they are used.
    verifies: bool,
    state: Mutex<State>,
}

/// Ends the saving of a store, also if it panics.
struct Ending<'a>(&'a Store);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if std::thread::panicking() {
            state.problem = Some(format!("{} was not written: internal error", self.0.path.display()));
        }
        if std::thread::panicking() || !state.is_saving {
            state.is_saving = false;
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            waiting.into_iter().for_each(|tell| tell());
        }
    }
}

/// What was packed.
struct Entry {
    key: Key,
    buffer: Arc<Buffer>,
    is_streamed: bool,
}

#[derive(Default)]
struct State {
    file: Option<Arc<StoreFile>>,
    /// What was packed since the file was written.
    fresh: Vec<Entry>,
    is_saving: bool,
    problem: Option<String>,
    /// Why something that was packed is not kept.
    refusal: Option<String>,
    /// Called when everything is written.
    waiting: Vec<Box<dyn FnOnce() + Send>>,
}

static OPEN: LazyLock<Mutex<WeakMap<PathBuf, Store>>> = LazyLock::new(Mutex::default);

impl Store {
    /// Opens the store of the model `id` in `folder`, for the instruction set of `label`. It is empty if there is no valid file.
    pub fn open(folder: Folder, id: &ModelId, label: Label, verifies: bool) -> Arc<Store> {
        let path = folder.path_of(id, &label.isa);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = open.get(&path).into_iter().find(|store| store.verifies == verifies) {
            // What was refused for another model says nothing about this one.
            store.lock().refusal = None;
            return store;
        }
        let by_contents = matches!(id, ModelId::Contents(_));
        let store = Store { folder, path: path.clone(), label, by_contents, verifies, state: Mutex::default() };
        let file = store.folder.open_file(&path).map(Arc::new);
        if let Some(file) = file.clone() {
            file.expect_reads();
        }
        store.lock().file = file;
        let store = Arc::new(store);
        open.insert(path, &store);
        store
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of its file, which may not exist yet.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why something could not be saved, or is not kept, if so.
    pub fn problem(&self) -> Option<String> {
        let State { problem, refusal, .. } = &*self.lock();
        problem.as_ref().or(refusal.as_ref()).cloned()
    }

    /// The key of `backing`, whose weights it keeps: that of its stamp if it is a file, or of its contents. `None` if these
    /// cannot be read.
    pub fn key_of(&self, backing: &Backing) -> Option<Key> {
        match backing.file().filter(|_| !self.by_contents) {
            Some(file) => Some(file.key()),
            // Who packs then reads it as well, and says what is wrong.
            None => backing.contents().ok(),
        }
    }

    /// The `len` bytes under `key`.
    pub fn find(&self, key: &Key, len: usize) -> Option<Arc<Buffer>> {
        let file = self.lock().file.clone()?;
        file.find(key, len, self.verifies)
    }

    /// Keeps `buffer` under `key`, to be [saved](Self::save). Runs read all of its bytes if it `is_streamed`.
    pub fn keep(&self, key: Key, buffer: &Arc<Buffer>, is_streamed: bool) {
        let mut state = self.lock();
        if !state.fresh.iter().any(|entry| entry.key == key) {
            state.fresh.push(Entry { key, buffer: buffer.clone(), is_streamed });
        }
    }

    /// Notes why something is not kept.
    pub fn refuse(&self, why: &str) {
        self.lock().refusal = Some(format!("{} was not written: {why}", self.path.display()));
    }

    /// Calls `visit` with what is kept until it is saved.
    pub fn each_fresh(&self, visit: impl FnMut(&Arc<Buffer>)) {
        self.lock().fresh.iter().map(|entry| &entry.buffer).for_each(visit);
    }

    /// Writes what was kept to disk, in the background. [`problem`](Self::problem) says why that failed, if it did.
    pub fn save(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.fresh.is_empty() || state.is_saving {
            return;
        }
        state.is_saving = true;
        let saving = Saving::begin();
        let store = self.clone();
        let run = move || {
            saving.pause();
            let ending = Ending(&store);
            store.save_all();
            drop((ending, saving));
        };
        if let Err(error) = std::thread::Builder::new().name("webnn-store".into()).spawn(run) {
            state.is_saving = false;
            state.problem = Some(format!("no thread could be started: {error}"));
            drop(state);
            drop(Ending(self));
        }
    }

    /// Calls `then` when nothing is being written any more: now, or on another thread.
    pub fn after_saving(&self, then: impl FnOnce() + Send + 'static) {
        let mut state = self.lock();
        if state.is_saving {
            return state.waiting.push(Box::new(then));
        }
        drop(state);
        then();
    }

    /// The same, as soon as possible: writing does not pause any more.
    pub fn when_saved(&self, then: impl FnOnce() + Send + 'static) {
        self.after_saving(then);
        hurry();
    }

    /// Writes until nothing new is left.
    fn save_all(&self) {
        loop {
            let (fresh, old) = {
                let mut state = self.lock();
                if state.fresh.is_empty() {
                    // In one step: what is packed from now on is saved by another thread.
                    state.is_saving = false;
                    return;
                }
                (std::mem::take(&mut state.fresh), state.file.clone())
            };
            // Another process may have written more meanwhile.
            let old = self.folder.open_file(&self.path).map(Arc::new).or(old);
            let entries: Vec<(Key, &[u8], bool)> =
                fresh.iter().map(|entry| (entry.key, entry.buffer.bytes(), entry.is_streamed)).collect();
            let written = self.folder.replace(&self.path, &self.label, old.as_deref(), &entries);
            let mut state = self.lock();
            match written {
                Ok(()) => {
                    state.file = self.folder.open_file(&self.path).map(Arc::new);
                    state.problem = None;
                }
                Err(error) => {
                    state.problem = Some(format!("{} was not written: {error}", self.path.display()));
                    state.fresh.clear();
                }
            }
        }
    }

    /// Tells the system that the mapped bytes are not needed now: they no longer count as memory of this process.
    pub fn rest(&self) {
        if let Some(file) = &self.lock().file {
            file.rest();
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.path.display())
    }
}
