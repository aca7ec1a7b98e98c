//! Constants as steps need them. Packing reads them in pieces, which never keeps large mapped weights in memory twice;
//! and all steps and graphs of the process that need the same bytes share one buffer.

use super::keeping::Keeping;
use super::schedule::pool::Threads;
use super::schedule::shared::for_each_chunk;
use crate::dtype::{DataType, Element};
use crate::error::Result;
use crate::ir::{Constant, Derived, FileType, Filled, Identity, Widened};
use crate::memory::{Buffer, MIN_SHARED_BYTES, Mapped, WeakMap, bytes_of, elements, elements_mut, share};
use half::f16;
use half::slice::HalfFloatSliceExt;
use std::fmt::Debug;
use std::iter;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

/// Maximum bytes per piece, if pieces are possible: large enough to read files cheaply, small enough to keep a piece in
/// cache until it is packed.
const PIECE_BYTES: usize = 4 << 20;

/// Maximum elements per piece that is widened, which fills a buffer of twice the size, too: both stay in a second-level
/// cache.
const WIDENED_LEN: usize = 128 << 10;

/// The elements of a constant, from a first element to the end.
#[derive(Clone, Copy)]
pub struct Weights<'a> {
    source: Source<'a>,
    dtype: DataType,
    first: usize,
    threads: Option<&'a Threads>,
}

#[derive(Clone, Copy)]
enum Source<'a> {
    Slice(&'a [u8]),
    Memory(&'a Arc<Buffer>),
    Mapped(&'a Mapped),
    Widened(&'a Widened),
    Derived(&'a Derived),
    Filled(Filled),
}

/// Buffers for a piece as it is stored, if it is not in memory, and widened. They grow as needed.
#[derive(Default)]
pub struct Staging {
    stored: Option<Buffer>,
    wide: Option<Buffer>,
    /// What a derived constant is a part of: computed for the first piece, and held for the others.
    output: Option<Arc<Buffer>>,
}

impl<'a> Weights<'a> {
    /// The elements of `constant`, of type `dtype`, or of float16 if they are stored as such. They are packed by
    /// `threads`, or by this thread alone.
    pub fn of(constant: &'a Constant, dtype: DataType, threads: Option<&'a Threads>) -> Weights<'a> {
        let (source, dtype, first) = match constant {
            Constant::Owned(buffer) => (Source::Memory(buffer), dtype, 0),
            Constant::Mapped(window) => (Source::Mapped(window), dtype, 0),
            Constant::Widened(widened) if widened.from() == FileType::Float16 => {
                (Source::Mapped(widened.stored()), DataType::Float16, widened.range().start)
            }
            Constant::Widened(widened) => (Source::Widened(widened), dtype, 0),
            Constant::Filled(filled) => (Source::Filled(*filled), dtype, 0),
            Constant::Derived(derived) => {
                let dtype = if derived.is_wide() { DataType::Float16 } else { dtype };
                (Source::Derived(derived), dtype, 0)
            }
        };
        Weights { source, dtype, first, threads }
    }

    /// Elements in memory.
    pub fn of_slice<T: Element>(slice: &'a [T]) -> Weights<'a> {
        Weights { source: Source::Slice(bytes_of(slice)), dtype: T::DATA_TYPE, first: 0, threads: None }
    }

    /// Skips the first `count` elements.
    pub fn skip(self, count: usize) -> Weights<'a> {
        Weights { first: self.first + count, ..self }
    }

    /// Calls `work` with parts of `out` that cover it exactly once, on the packing threads. `work` receives the index
    /// of its first unit of `unit` elements, and the elements of some units. `cost` is per element, in multiply-adds.
    pub fn fill<T: Send>(&self, out: &mut [T], unit: usize, cost: usize, work: impl Fn(usize, &mut [T]) + Sync) {
        match self.threads {
            Some(threads) => for_each_chunk(threads, out, unit, 1, cost.saturating_mul(unit), work),
            None => work(0, out),
        }
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Whether the elements are float32, but stored as bfloat16, which has all of them.
    pub fn are_bfloat16(&self) -> bool {
        matches!(self.source, Source::Widened(widened) if widened.from() == FileType::Bfloat16)
    }

    /// How many elements to read in one [`piece`](Self::piece): any number if they are float32 in memory, or derived.
    pub fn piece_len(&self) -> usize {
        match self.source {
            _ if self.dtype == DataType::Float16 => WIDENED_LEN,
            Source::Slice(_) | Source::Memory(_) | Source::Derived(_) => usize::MAX,
            _ => PIECE_BYTES / self.dtype.size(),
        }
    }

    /// The elements in `range` as float32: in place if they are in memory, or in `staging`.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for the copy, an `OperationError` if a mapped file cannot be read.
    ///
    /// # Panics
    /// If there are fewer elements, or they are not floats.
    pub fn piece<'s>(&self, range: Range<usize>, staging: &'s mut Staging) -> Result<&'s [f32]>
    where
        'a: 's,
    {
        let len = range.len() * size_of::<f32>();
        let bytes = self.stored(range, (&mut staging.stored, &mut staging.output))?;
        if self.dtype != DataType::Float16 {
            return Ok(elements(bytes));
        }
        let (halves, wide) = (elements::<f16>(bytes), elements_mut(room(&mut staging.wide, len)?));
        self.fill(wide, 1, 1, |first, wide| halves[first..][..wide.len()].convert_to_f32_slice(wide));
        Ok(wide)
    }

    /// The stored bytes of the elements in `range`.
    fn stored<'s>(
        &self,
        range: Range<usize>,
        (copy, output): (&'s mut Option<Buffer>, &'s mut Option<Arc<Buffer>>),
    ) -> Result<&'s [u8]>
    where
        'a: 's,
    {
        let size = self.dtype.size();
        let (at, len) = ((self.first + range.start) * size, range.len() * size);
        match self.source {
            Source::Slice(bytes) => Ok(&bytes[at..][..len]),
            Source::Memory(buffer) => Ok(&buffer.bytes()[at..][..len]),
            Source::Mapped(window) => {
                let copy = room(copy, len)?;
                window.read(at, copy)?;
                Ok(copy)
            }
            Source::Widened(widened) => {
                let copy = room(copy, len)?;
                widened.read(at, copy)?;
                Ok(copy)
            }
            Source::Filled(Filled { byte, .. }) => {
                let copy = room(copy, len)?;
                copy.fill(byte);
                Ok(copy)
            }
            Source::Derived(derived) => {
                // The old one is dropped afterwards: the same output is not computed again.
                let output = output.insert(derived.output()?);
                Ok(&output.bytes()[derived.range()][at..][..len])
            }
        }
    }

    /// The buffer of `len` bytes that `fill` packs these elements into, on disk if their source is kept in a store. `form`
    /// fully describes the packing; what is packed besides is made of `others` alone. All callers with the same elements,
    /// others and form share one buffer. `fill` gets zeros.
    ///
    /// # Errors
    /// The errors of `fill`, an `UnknownError` if there is not enough memory.
    pub fn packed(
        &self,
        form: &dyn Debug,
        others: &[&Constant],
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<Arc<Buffer>> {
        let make = || {
            let mut buffer = Buffer::streamed(len)?;
            fill(buffer.bytes_mut())?;
            Ok(Arc::new(buffer))
        };
        let (form, first) = (Form::Packed(self.dtype, format!("{form:?}")), self.first * self.dtype.size());
        let identity = match self.source {
            Source::Slice(_) => return Ok(share(make()?)),
            Source::Memory(buffer) => Identity::of_buffer(buffer, first),
            Source::Mapped(window) => Identity::of_window(window, first),
            Source::Widened(widened) => Identity::of_widened(widened, self.first),
            Source::Derived(derived) => Identity::of_output(derived, first),
            Source::Filled(filled) => Identity::of_filled(filled),
        };
        let keeping = || match self.source {
            Source::Mapped(window) => Keeping::of_window(window, first)?.with(others),
            Source::Widened(widened) => Keeping::of_widened(widened, self.first)?.with(others),
            Source::Derived(derived) => Keeping::of_derived(derived, first)?.with(others),
            Source::Slice(_) | Source::Memory(_) | Source::Filled(_) => None,
        };
        let identities = iter::once(identity).chain(others.iter().map(|other| Identity::of(other))).collect();
        once(Origin { identities, form }, len, keeping, make)
    }
}

/// Grows the buffer in `slot` to at least `len` bytes, and returns the first `len`.
fn room(slot: &mut Option<Buffer>, len: usize) -> Result<&mut [u8]> {
    if slot.as_ref().is_none_or(|buffer| buffer.len() < len) {
        // Frees the old buffer first.
        *slot = None;
        *slot = Some(Buffer::zeroed(len)?);
    }
    Ok(&mut slot.as_mut().expect("just made").bytes_mut()[..len])
}

/// All bytes of `constant`, for steps that read them in place: one buffer for all constants with the same bytes.
///
/// # Errors
/// As [`Constant::buffer`].
pub fn resident(constant: &Constant) -> Result<Arc<Buffer>> {
    if let Constant::Owned(buffer) = constant
        && buffer.len() < MIN_SHARED_BYTES
    {
        return Ok(buffer.clone());
    }
    let origin = Origin { identities: [Identity::of(constant)].into(), form: Form::Raw(constant.len()) };
    once(origin, constant.len(), || Keeping::of(constant), || constant.buffer())
}

/// The source of bytes and what was made of them. Identifies equal contents without comparing them.
#[derive(PartialEq, Eq, Hash)]
struct Origin {
    identities: Box<[Identity]>,
    form: Form,
}

/// What was made of the elements.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Form {
    /// This many bytes, unchanged.
    Raw(usize),
    /// Elements of this type, packed as the text describes.
    Packed(DataType, String),
}

static MADE: LazyLock<Mutex<WeakMap<Origin, Buffer>>> = LazyLock::new(Mutex::default);

fn lock() -> MutexGuard<'static, WeakMap<Origin, Buffer>> {
    MADE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Number of origins whose shared buffer is alive, or was until recently.
#[cfg(test)]
pub fn origins() -> usize {
    lock().count()
}

/// The shared buffer of `len` bytes that `make` creates from `origin`, or that a store has; calls `make` only if nobody holds
/// that buffer.
fn once<'a>(
    origin: Origin,
    len: usize,
    keeping: impl FnOnce() -> Option<Keeping<'a>>,
    make: impl FnOnce() -> Result<Arc<Buffer>>,
) -> Result<Arc<Buffer>> {
    let known = lock().get(&origin).pop();
    if let Some(buffer) = known {
        return Ok(buffer);
    }
    // Only now: keys may need the contents of constants.
    let keeping = if len < MIN_SHARED_BYTES { None } else { keeping() };
    let place = keeping.map(|keeping| keeping.place(&origin.form, len));
    let buffer = match place.as_ref().and_then(|place| place.store.find(&place.key, len)) {
        Some(stored) => stored,
        None => {
            // Threads that make the same bytes at the same time end up with one buffer: `share` merges equal bytes.
            let buffer = share(make()?);
            if let Some(place) = place {
                match place.is_certain() {
                    true => place.store.keep(place.key, &buffer, matches!(origin.form, Form::Packed(..))),
                    false => place.store.refuse("the model file has just changed, or its time is in the future"),
                }
            }
            buffer
        }
    };
    lock().insert(origin, &buffer);
    Ok(buffer)
}
