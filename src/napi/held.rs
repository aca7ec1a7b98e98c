//! Results that JavaScript holds without having read them.

use super::Result;
use super::account::Share;
use super::convert::{coded, invalid_state, thrown};
use super::handle::Owner;
use super::view::View;
use crate::dimension::numbers;
use crate::memory::Buffer;
use crate::session::{Cache, Session};
use crate::shape::Descriptor;
use napi::bindgen_prelude::External;
use napi_derive::napi;
use std::cell::RefCell;
use std::sync::Arc;

/// The contents of an unread result.
#[derive(Clone)]
pub enum HeldContents {
    /// Bytes in row-major order.
    Bytes {
        /// Their type and shape; dimensions can be 0.
        descriptor: Descriptor,
        /// The bytes.
        bytes: Arc<Buffer>,
    },
    /// A cache that may grow in place.
    Cache(Cache),
}

impl HeldContents {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            HeldContents::Bytes { bytes, .. } => bytes.len(),
            HeldContents::Cache(cache) => cache.rows.len(),
        }
    }

    /// The shape.
    pub fn shape(&self) -> Vec<u32> {
        let (HeldContents::Bytes { descriptor, .. } | HeldContents::Cache(Cache { descriptor, .. })) = self;
        numbers(&descriptor.shape)
    }

    /// The address and size in bytes of its memory, which other results may share.
    fn memory(&self) -> (usize, usize) {
        match self {
            HeldContents::Bytes { bytes, .. } => (bytes.as_ptr().addr(), bytes.len()),
            HeldContents::Cache(cache) => cache.rows.block(),
        }
    }
}

/// An unread result.
struct HeldValue {
    /// Ends before the memory does, whose address others may have then.
    _share: Share,
    contents: HeldContents,
}

/// Unread results that share one handle: those of a run that are fed back together, or any other single result.
pub struct HeldValues {
    /// `None` for results that were released, and where there were none.
    values: RefCell<Vec<Option<HeldValue>>>,
    session: Arc<Session>,
    /// The index of the output at the first place.
    first: usize,
}

impl HeldValues {
    /// Results of a run of `session` for its outputs from index `first` on, and `None` at places without one.
    pub fn new(owner: &Owner, session: &Arc<Session>, first: usize, all: Vec<Option<HeldContents>>) -> HeldValues {
        let held = |contents: HeldContents| {
            let (address, bytes) = contents.memory();
            HeldValue { _share: owner.account().share(address, bytes), contents }
        };
        let values = all.into_iter().map(|contents| contents.map(held)).collect();
        HeldValues { values: RefCell::new(values), session: session.clone(), first }
    }

    /// # Errors
    /// An InvalidStateError if the result at `place` was released.
    pub fn contents(&self, place: usize) -> Result<HeldContents> {
        let values = self.values.borrow();
        let value = values.get(place).and_then(Option::as_ref);
        value.map(|value| value.contents.clone()).ok_or_else(|| invalid_state("the result was read already"))
    }

    /// Frees the result at `place`, and passes its bytes on to other runs once they are unused.
    fn release(&self, place: usize) {
        let value = self.values.borrow_mut().get_mut(place).and_then(Option::take);
        if let Some(HeldValue { contents: HeldContents::Bytes { bytes, .. }, .. }) = value {
            self.session.recycle_shared(bytes);
        }
    }
}

impl Drop for HeldValues {
    fn drop(&mut self) {
        let count = self.values.borrow().len();
        (0..count).for_each(|place| self.release(place));
    }
}

/// The shape of the result at `place`.
#[napi(catch_unwind)]
pub fn value_shape(held: &External<HeldValues>, place: u32) -> Result<Vec<u32>> {
    held.contents(place as usize).map(|contents| contents.shape())
}

/// Copies the result at `place`.
#[napi(catch_unwind)]
pub fn read_value(held: &External<HeldValues>, place: u32, into: View) -> Result<()> {
    held.session.note_read(held.first + place as usize);
    let bytes = match held.contents(place as usize)? {
        HeldContents::Bytes { bytes, .. } => bytes,
        HeldContents::Cache(cache) => Arc::new(cache.to_dense().map_err(coded)?),
    };
    into.replace(bytes.bytes()).map_err(thrown)
}

/// Frees the result at `place`.
#[napi(catch_unwind)]
pub fn release_value(held: &External<HeldValues>, place: u32) {
    held.release(place as usize);
}
