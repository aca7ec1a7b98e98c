//! Feeds of a run, as JavaScript passes them: read in place by runs within their calls, copied for others.

use super::Result;
use super::convert::{coded, from_napi, from_value, thrown, type_error};
use super::handle::{Owner, element_handle, external_of};
use super::held::{HeldContents, HeldValues};
use super::options::checked_sizes;
use super::sources::Transferred;
use super::view::View;
use crate::memory::Buffer;
use crate::onnx::error::quoted;
use crate::onnx::model::ValueInfo;
use crate::onnx::text_list::TextList;
use crate::runtime::Tensor;
use crate::session::{Copying, Feed, Offer, Session, SessionRun};
use napi::bindgen_prelude::{Array, Either, JsObjectValue, Uint32Array, Unknown};
use std::ops::Range;
use std::sync::Arc;

/// A feed whose data are not copied yet.
pub enum Fed {
    /// Data of the caller.
    Data(Data),
    /// A result that is held outside of JavaScript.
    Held(HeldContents),
    /// A tensor of the context.
    Tensor(Arc<Tensor>),
    /// Texts.
    Texts(TextList),
    /// What a sequence or an optional holds; `None` for nothing at all.
    Items(Option<Vec<FedItem>>),
}

/// A tensor of a sequence or an optional: its shape, and its bytes or texts.
pub type FedItem = (Vec<u32>, Either<View<'static>, TextList>);

/// The access to data: a run within its call may read them in place, and JavaScript may have given them up besides.
const IN_PLACE: usize = 1;
const GIVEN_UP: usize = 2;

/// Data of the caller.
#[derive(Clone, Copy)]
pub struct Data {
    view: View<'static>,
    bytes: usize,
    access: usize,
}

impl Data {
    /// A copy, or, of data that JavaScript has given up, nothing: `later` takes the function that copies them when the run
    /// starts.
    ///
    /// # Errors
    /// An UnknownError if memory runs out.
    pub fn own(self, session: &Arc<Session>, owner: &Owner, later: impl FnOnce(Copying)) -> Result<Feed> {
        let Data { view, bytes, access } = self;
        if access == GIVEN_UP {
            let (given_up, session) = (Transferred::new(view, &owner.environment.copies)?, session.clone());
            later(Box::new(move || given_up.copy_into(session.pool().take(bytes)?, "run")));
            return Ok(Feed::Bytes(Arc::default()));
        }
        let buffer = session.pool().take(bytes).and_then(|buffer| view.copy_into(buffer));
        buffer.map(|buffer| Feed::Bytes(Arc::new(buffer))).map_err(coded)
    }
}

/// Data that a run reads in place. JavaScript that runs before they are taken back or the run has ended could detach them:
/// whoever calls it looks [again](Self::is_intact).
pub struct Lent {
    is_open: bool,
    lent: Vec<(usize, Data, Arc<Buffer>)>,
}

impl Lent {
    /// Nothing yet, and nothing ever unless it is open.
    pub fn new(is_open: bool) -> Lent {
        Lent { is_open, lent: Vec::new() }
    }

    /// The feed at index `at`, if it can be read in place.
    ///
    /// # Errors
    /// A TypeError for anything but a `Uint8Array`.
    ///
    /// # Safety
    /// As long as anybody has the feed, no JavaScript may run without a look whether it is [intact](Self::is_intact).
    pub unsafe fn lend(&mut self, at: usize, data: &Data) -> crate::error::Result<Option<Feed>> {
        if !self.is_open || data.access < IN_PLACE {
            return Ok(None);
        }
        // SAFETY: the caller's; the facade marks no bytes of a `SharedArrayBuffer`.
        let lent = unsafe { data.view.lend()? };
        // A warning may have called JavaScript that has detached the data.
        let Some(buffer) = lent.filter(|buffer| buffer.len() == data.bytes) else { return Ok(None) };
        let buffer = Arc::new(buffer);
        self.lent.push((at, *data, buffer.clone()));
        Ok(Some(Feed::Bytes(buffer)))
    }

    /// The addresses of all bytes that are lent.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.lent.iter().map(|(.., buffer)| buffer.as_ptr().addr()..buffer.as_ptr().addr() + buffer.len())
    }

    /// Whether all data are still where they were lent from, after JavaScript may have run.
    pub fn is_intact(&self) -> bool {
        self.lent.iter().all(|(_, data, buffer)| {
            // SAFETY: the bytes are not used.
            let memory = unsafe { data.view.memory() };
            memory.is_ok_and(|memory| {
                memory.as_ptr().cast() == buffer.as_ptr().cast_const() && memory.len() == buffer.len()
            })
        })
    }

    /// Has `run`, which will start after the call, own its feeds.
    ///
    /// # Errors
    /// An UnknownError if memory runs out.
    pub fn take_back(&mut self, session: &Arc<Session>, owner: &Owner, run: &mut SessionRun) -> Result<()> {
        for (at, data, _) in std::mem::take(&mut self.lent) {
            let mut later = None;
            run.feed(at, data.own(session, owner, |copy| later = Some(copy))?);
            later.into_iter().for_each(|copy| run.feed_later(at, copy));
        }
        Ok(())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Only a panic leaves other owners: inputs of a graph, which are filled anew before they are read.
        debug_assert!(std::thread::panicking() || self.lent.iter().all(|(.., buffer)| Arc::strong_count(buffer) == 1));
    }
}

impl Fed {
    /// Converts `feed`; `place` is the index of a result among those that share a handle, or the access to
    /// data.
    fn of(feed: &Unknown, place: usize, owner: &Arc<Owner>) -> Result<Fed> {
        if let Some(held) = external_of::<HeldValues>(feed) {
            return held.contents(place).map(Fed::Held);
        }
        if let Some(handle) = element_handle::<Tensor>(feed, owner) {
            return Ok(Fed::Tensor(handle.shared().clone()));
        }
        let view: View = from_value(feed)?;
        let bytes = view.len().map_err(thrown)?;
        Ok(Fed::Data(Data { view, bytes, access: place }))
    }

    /// What it offers to the signature.
    pub fn offer(&self, shape: Option<Vec<u32>>) -> Offer<'_> {
        match self {
            Fed::Data(Data { bytes, .. }) => Offer::Data { bytes: *bytes, shape },
            Fed::Held(contents) => Offer::Data { bytes: contents.len(), shape },
            // Their numbers are int32.
            Fed::Items(_) => Offer::Data { bytes: 0, shape: Some(Vec::new()) },
            Fed::Texts(texts) => Offer::Data { bytes: size_of::<i32>() * texts.len(), shape },
            Fed::Tensor(tensor) => Offer::Tensor(tensor),
        }
    }
}

/// The numbers that describe the feeds of a run, see [`given_feeds`].
struct Numbers<'a>(std::slice::Iter<'a, f64>);

impl Numbers<'_> {
    fn next(&mut self) -> Result<f64> {
        self.0.next().copied().ok_or_else(mismatch)
    }

    fn next_index(&mut self) -> Result<usize> {
        self.next().map(|number| number as usize)
    }

    /// The next `count` sizes of a feed for the input `name`.
    fn sizes(&mut self, count: usize, name: &str) -> Result<Vec<u32>> {
        let (sizes, rest) = self.0.as_slice().split_at_checked(count).ok_or_else(mismatch)?;
        self.0 = rest.iter();
        checked_sizes(sizes, || format!("run: feed {}", quoted(name)))
    }
}

/// Stands for the number of dimensions of a feed that has the shape of the result that it is.
const OWN_SHAPE: f64 = -2.0;

/// The feed of each input of `session`, and its shape, if it has one.
///
/// The elements of `feeds` are a view of the data, a string of all texts with their lengths, a list of both with shapes, null for an optional,
/// [`HeldValues`] or a tensor. For each, `numbers` has the index of the
/// input, the index of the result in its [`HeldValues`] or the access to the data, and the shape: the number of dimensions and their sizes, -1
/// without a shape, or [`OWN_SHAPE`]. [`HeldValues`] with results for several inputs have -1 in place of the input, the
/// number of these inputs, and their indices, each followed by that of the result.
pub fn given_feeds(
    session: &Session,
    owner: &Arc<Owner>,
    feeds: &Array,
    numbers: &[f64],
) -> Result<Vec<(Fed, Option<Vec<u32>>)>> {
    let inputs = &session.signature().inputs;
    let mut given: Vec<Option<(Fed, Option<Vec<u32>>)>> = inputs.iter().map(|_| None).collect();
    let mut numbers = Numbers(numbers.iter());
    let mut put = |input: usize, feed| match given.get_mut(input) {
        Some(none @ None) => {
            *none = Some(feed);
            Ok(())
        }
        _ => Err(mismatch()),
    };
    for at in 0..feeds.len() {
        let feed = feeds.get_element::<Unknown>(at).map_err(from_napi)?;
        let input = numbers.next()?;
        if input < 0.0 {
            let held = external_of::<HeldValues>(&feed).ok_or_else(mismatch)?;
            for _ in 0..numbers.next_index()? {
                let (input, place) = (numbers.next_index()?, numbers.next_index()?);
                let contents = held.contents(place)?;
                let shape = contents.shape();
                put(input, (Fed::Held(contents), Some(shape)))?;
            }
            continue;
        }
        let input = input as usize;
        let (place, rank) = (numbers.next_index()?, numbers.next()?);
        let info = inputs.get(input).ok_or_else(mismatch)?;
        let feed = match info.items {
            Some(_) => Fed::Items(items_of(&feed, info)?),
            None if info.is_texts() => Fed::Texts(texts_of(&feed)?),
            None => Fed::of(&feed, place, owner)?,
        };
        let shape = match (&feed, rank) {
            (Fed::Held(contents), OWN_SHAPE) => Some(contents.shape()),
            (_, rank) if rank < 0.0 => None,
            (_, rank) => Some(numbers.sizes(rank as usize, &info.name)?),
        };
        put(input, (feed, shape))?;
    }
    given.into_iter().collect::<Option<_>>().ok_or_else(mismatch)
}

/// The texts of a feed: all of them as one string, and their lengths.
fn texts_of(feed: &Unknown) -> Result<TextList> {
    let pair: Array = from_value(feed)?;
    let element = |at: u32| pair.get_element::<Unknown>(at).map_err(from_napi);
    let (all, units): (String, Uint32Array) = (from_value(&element(0)?)?, from_value(&element(1)?)?);
    TextList::of_joined(all, &units).ok_or_else(mismatch)
}

/// The items of a feed: for each, a view of its bytes or its texts, and its shape.
fn items_of(feed: &Unknown, info: &ValueInfo) -> Result<Option<Vec<FedItem>>> {
    let Some(list) = from_value::<Option<Array>>(feed)? else { return Ok(None) };
    let element = |at: u32| list.get_element::<Unknown>(at).map_err(from_napi);
    let item = |at: u32| {
        let (data, shape) = (element(2 * at)?, from_value::<Vec<f64>>(&element(2 * at + 1)?)?);
        let data = match info.has_texts() {
            true => Either::B(texts_of(&data)?),
            false => Either::A(from_value(&data)?),
        };
        Ok((checked_sizes(&shape, || format!("run: feed {}[{at}]", quoted(&info.name)))?, data))
    };
    (0..list.len() / 2).map(item).collect::<Result<_>>().map(Some)
}

/// The error for arguments that do not belong to the session: a defect of the facade.
pub fn mismatch() -> napi::Error<String> {
    type_error("the feeds and fetches do not match the session")
}
