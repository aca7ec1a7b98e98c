//! Keeps what is packed of the constants of built graphs on disk: these have no file that says where they come from, and
//! are recognized by their contents.

use crate::cpu::simd::Isa;
use crate::error::Result;
use crate::ir::{Constant, Graph, Source};
use crate::memory::store::{self, Folder, Key, KeyWriter, Label, Store, StoreOptions};
use crate::memory::{Backing, Buffer, MIN_SHARED_BYTES, Mapped};
use std::sync::Arc;

/// The memory of a constant that is large enough to be kept.
fn large(source: &Source) -> Option<&Arc<Buffer>> {
    match source {
        Source::Constant(Constant::Owned(buffer)) if buffer.len() >= MIN_SHARED_BYTES => Some(buffer),
        _ => None,
    }
}

/// Has the large constants of `graph` kept on disk when they are packed, and found there. Returns the store, which must be
/// saved afterwards; `None` if there are no such constants.
///
/// # Errors
/// A NotSupportedError if there is no folder that can be trusted.
pub fn keep(graph: &mut Graph, options: &StoreOptions, isa: Isa) -> Result<Option<Arc<Store>>> {
    let constants = || graph.values.iter().filter_map(|value| large(&value.source));
    let keys: Vec<Key> = constants().map(|buffer| Key::of_contents(buffer.bytes())).collect();
    if keys.is_empty() {
        return Ok(None);
    }
    let mut all = KeyWriter::new("graph");
    keys.iter().for_each(|key| all.bytes(&key.0));
    let label = Label { model: "graph".to_string(), isa: isa.name().to_string() };
    let source = store::Source::Contents(all.finish());
    let store = Store::open(Folder::open(options.folder.as_deref())?, &source, label, options.verifies);
    let mut keys = keys.into_iter();
    for value in &mut graph.values {
        let Some(buffer) = large(&value.source).cloned() else { continue };
        let (len, backing) = (buffer.len(), Backing::from(buffer).kept_in(&store));
        store.note_source(backing.id(), keys.next().expect("one for each"));
        let window = Mapped::new(backing, 0..len)?;
        value.source = Source::Constant(Constant::Mapped(window));
    }
    Ok(Some(store))
}
