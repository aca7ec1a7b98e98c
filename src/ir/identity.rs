//! Recognizes bytes of constants without reading them.

use super::{Constant, Derived, FileType, Filled, Widened};
use crate::memory::{Buffer, Mapped};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

/// Where the bytes of a constant are from a first one on, and what they are widened from: equal identities have equal
/// bytes.
#[derive(PartialEq, Eq, Hash)]
pub struct Identity {
    holder: Holder,
    /// The first byte.
    start: usize,
    /// The type of elements that are widened, and the number of the first one, counted from that byte.
    widened: Option<(FileType, usize)>,
}

impl Identity {
    /// All bytes of `constant`.
    pub fn of(constant: &Constant) -> Identity {
        match constant {
            Constant::Owned(buffer) => Identity::of_buffer(buffer, 0),
            Constant::Mapped(window) => Identity::of_window(window, 0),
            Constant::Widened(widened) => Identity::of_widened(widened, 0),
            Constant::Derived(derived) => {
                let widened = derived.is_wide().then_some((FileType::Float16, 0));
                Identity { widened, ..Identity::of_output(derived, 0) }
            }
            Constant::Filled(filled) => Identity::of_filled(*filled),
        }
    }

    /// The bytes of `buffer` from byte `start` on.
    pub fn of_buffer(buffer: &Arc<Buffer>, start: usize) -> Identity {
        Identity { holder: Holder::Memory(Arc::downgrade(buffer)), start, widened: None }
    }

    /// The bytes of `window` from byte `start` on.
    pub fn of_window(window: &Mapped, start: usize) -> Identity {
        Identity { holder: Holder::of(window), start: window.range().start + start, widened: None }
    }

    /// The bytes that `derived` is stored as from byte `start` on.
    pub fn of_output(derived: &Derived, start: usize) -> Identity {
        Identity { holder: Holder::Output(derived.id()), start: derived.range().start + start, widened: None }
    }

    /// Bytes that are all the same.
    pub fn of_filled(filled: Filled) -> Identity {
        Identity { holder: Holder::Filled(filled.byte), start: 0, widened: None }
    }

    /// The elements of `widened` from element `first` on.
    pub fn of_widened(widened: &Widened, first: usize) -> Identity {
        let stored = widened.stored();
        let widened = Some((widened.from(), widened.range().start + first));
        Identity { holder: Holder::of(stored), start: stored.range().start, widened }
    }
}

/// The memory that holds the bytes.
enum Holder {
    /// A mapped file, or bytes that something else owns, by the number of their backing.
    File(u64),
    /// A buffer. The weak reference keeps any other buffer from having its address.
    Memory(Weak<Buffer>),
    /// An output of a node, by its number: it is computed when it is read.
    Output((u64, usize)),
    /// Nothing: all bytes are this one.
    Filled(u8),
}

impl Holder {
    fn of(window: &Mapped) -> Holder {
        match window.backing().buffer() {
            Some(buffer) => Holder::Memory(Arc::downgrade(buffer)),
            None => Holder::File(window.backing().id()),
        }
    }

    fn key(&self) -> (u8, u64, usize) {
        match self {
            Holder::File(id) => (0, *id, 0),
            Holder::Memory(buffer) => (1, buffer.as_ptr() as u64, 0),
            Holder::Output((id, output)) => (2, *id, *output),
            Holder::Filled(byte) => (3, u64::from(*byte), 0),
        }
    }
}

impl PartialEq for Holder {
    fn eq(&self, other: &Holder) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Holder {}

impl Hash for Holder {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}
