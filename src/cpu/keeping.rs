//! Where what is packed of constants is kept on disk: in the store of the model that they come from, under keys that say
//! which bytes they are.

use crate::ir::{Constant, Derived, Filled, Widened};
use crate::memory::store::{Key, KeyWriter, Store};
use crate::memory::{Backing, Mapped};
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;

/// Constants of a model with a store, and the begin of a key: which bytes these are.
pub struct Keeping<'a> {
    store: &'a Arc<Store>,
    backings: Vec<&'a Backing>,
    key: KeyWriter,
    /// The keys of outputs of nodes, without their windows: a graph may have exponentially many paths to one.
    outputs: HashMap<(u64, usize), Key>,
}

/// The store of the first source of `constant` that has one. Reads no bytes.
fn store_of<'a>(constant: &'a Constant, seen: &mut HashSet<u64>) -> Option<&'a Arc<Store>> {
    match constant {
        Constant::Owned(_) | Constant::Filled(_) => None,
        Constant::Mapped(window) => window.backing().store(),
        Constant::Widened(widened) => widened.stored().backing().store(),
        Constant::Derived(derived) => store_of_sources(derived, seen),
    }
}

fn store_of_sources<'a>(derived: &'a Derived, seen: &mut HashSet<u64>) -> Option<&'a Arc<Store>> {
    let is_new = seen.insert(derived.id().0);
    derived.sources().filter(|_| is_new).find_map(|source| store_of(source, seen))
}

impl<'a> Keeping<'a> {
    fn new(store: &'a Arc<Store>) -> Keeping<'a> {
        Keeping { store, backings: Vec::new(), key: KeyWriter::new("packed"), outputs: HashMap::new() }
    }

    /// All bytes of `constant`; `None` if they are kept in no store.
    pub fn of(constant: &'a Constant) -> Option<Keeping<'a>> {
        let mut keeping = Keeping::new(store_of(constant, &mut HashSet::new())?);
        keeping.add(constant)?;
        Some(keeping)
    }

    /// The bytes of `window` from byte `first` on.
    pub fn of_window(window: &'a Mapped, first: usize) -> Option<Keeping<'a>> {
        let mut keeping = Keeping::new(window.backing().store()?);
        keeping.add_window(window, first)?;
        Some(keeping)
    }

    /// The elements of `widened` from element `first` on.
    pub fn of_widened(widened: &'a Widened, first: usize) -> Option<Keeping<'a>> {
        let mut keeping = Keeping::new(widened.stored().backing().store()?);
        keeping.add_widened(widened, first)?;
        Some(keeping)
    }

    /// The bytes of `derived` from stored byte `first` on; `None` if none of its sources is kept in a store.
    pub fn of_derived(derived: &'a Derived, first: usize) -> Option<Keeping<'a>> {
        let mut keeping = Keeping::new(store_of_sources(derived, &mut HashSet::new())?);
        keeping.add_derived(derived, first)?;
        Some(keeping)
    }

    /// These and `others`.
    pub fn with(mut self, others: &[&'a Constant]) -> Option<Keeping<'a>> {
        others.iter().try_for_each(|other| self.add(other))?;
        Some(self)
    }

    fn add(&mut self, constant: &'a Constant) -> Option<()> {
        match constant {
            Constant::Owned(buffer) => {
                self.key.text("bytes");
                self.key.bytes(&Key::of_contents(buffer.bytes()).0);
                Some(())
            }
            Constant::Mapped(window) => self.add_window(window, 0),
            Constant::Widened(widened) => self.add_widened(widened, 0),
            Constant::Derived(derived) => self.add_derived(derived, 0),
            Constant::Filled(Filled { byte, len }) => {
                self.key.text("filled");
                self.key.bytes(&[*byte]);
                self.key.number(*len as u64);
                Some(())
            }
        }
    }

    fn add_derived(&mut self, derived: &'a Derived, first: usize) -> Option<()> {
        let key = match self.outputs.get(&derived.id()) {
            Some(known) => *known,
            None => {
                // Another version may compute other numbers.
                let own = KeyWriter::new(concat!("derived ", env!("CARGO_PKG_VERSION")));
                let outer = std::mem::replace(&mut self.key, own);
                self.key.text(&derived.description());
                derived.sources().try_for_each(|source| self.add(source))?;
                let key = std::mem::replace(&mut self.key, outer).finish();
                self.outputs.insert(derived.id(), key);
                key
            }
        };
        self.key.text("derived");
        self.key.bytes(&key.0);
        // The first description may be of another window.
        let range = derived.range();
        let numbers = [range.start, range.end, first, usize::from(derived.is_wide())];
        numbers.iter().for_each(|number| self.key.number(*number as u64));
        Some(())
    }

    fn add_window(&mut self, window: &'a Mapped, first: usize) -> Option<()> {
        let backing = window.backing();
        let store = backing.store()?;
        self.key.text("window");
        self.key.bytes(&store.key_of(backing)?.0);
        self.key.number((window.range().start + first) as u64);
        self.backings.push(backing);
        Some(())
    }

    fn add_widened(&mut self, widened: &'a Widened, first: usize) -> Option<()> {
        self.add_window(widened.stored(), 0)?;
        self.key.text(&format!("{:?}", widened.from()));
        self.key.number((widened.range().start + first) as u64);
        Some(())
    }

    /// The store, and the key of the `len` bytes that are made of the constants as `form` describes.
    pub fn place(mut self, form: &dyn Debug, len: usize) -> Place<'a> {
        self.key.text(&format!("{form:?}"));
        self.key.number(len as u64);
        let Keeping { store, backings, key, .. } = self;
        Place { store, backings, key: key.finish() }
    }
}

/// The place of bytes in a store.
pub struct Place<'a> {
    /// The store.
    pub store: &'a Arc<Store>,
    /// Their key.
    pub key: Key,
    backings: Vec<&'a Backing>,
}

impl Place<'_> {
    /// Whether the key says which bytes were read just now: files have not changed since they were opened, and if they
    /// change, their stamps will.
    pub fn is_certain(&self) -> bool {
        let mut files = self.backings.iter().filter_map(|backing| backing.file());
        files.all(|file| file.is_unchanged())
    }
}
