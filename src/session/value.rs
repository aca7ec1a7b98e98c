//! Inputs and outputs of runs, and the memory that they are passed in.

use crate::dimension::numbers;
use crate::error::Result;
use crate::memory::{Buffer, KEPT_BYTES, LastUse};
use crate::runtime::{CacheRows, Slot, Tensor};
use crate::shape::Descriptor;
use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A feed whose data are not copied yet.
pub enum Offer<'a> {
    /// Data of `bytes` bytes.
    Data {
        /// Number of bytes.
        bytes: usize,
        /// The shape, if the caller passes one.
        shape: Option<Vec<u32>>,
    },
    /// A tensor of the context.
    Tensor(&'a Arc<Tensor>),
}

impl Offer<'_> {
    /// The shape, if it is known.
    pub fn shape(&self) -> Option<Cow<'_, [u32]>> {
        match self {
            Offer::Data { shape, .. } => shape.as_deref().map(Cow::Borrowed),
            Offer::Tensor(tensor) => Some(numbers(&tensor.descriptor().shape).into()),
        }
    }
}

/// The value of an input.
pub enum Feed {
    /// Its bytes. Other runs reuse them after this one, unless they have another owner.
    Bytes(Arc<Buffer>),
    /// A tensor of the context, used in place.
    Tensor(Arc<Tensor>),
    /// A cache, which is appended to in place.
    Cache(Cache),
    /// What a sequence or an optional holds; `None` for nothing at all.
    Items(Option<Vec<Item>>),
}

/// A tensor of a sequence or an optional: its type and shape, whose dimensions can be 0, and its bytes.
pub type Item = (Descriptor, Arc<Buffer>);

/// A tensor in the dimension order in which it grows.
#[derive(Clone)]
pub struct Cache {
    /// Its type and shape; dimensions can be 0.
    pub descriptor: Descriptor,
    /// Its bytes, with the dimension `axis` outermost.
    pub rows: CacheRows,
    /// The dimension along which it grows.
    pub axis: usize,
}

impl Cache {
    /// The bytes in row-major order. Waits for the device that they are on.
    ///
    /// # Errors
    /// An UnknownError if memory runs out, an OperationError if the device fails.
    pub fn to_dense(&self) -> Result<Buffer> {
        self.rows.to_dense(self.descriptor.around(self.axis))
    }
}

/// Where an output goes.
#[derive(Clone)]
pub enum Target {
    /// To the caller, as a [`Output`].
    Read,
    /// To the caller, as a [`Output`] in memory of the caller's.
    Into(Arc<Slot<Buffer>>),
    /// Nowhere.
    Unread,
    /// Into a new tensor of the context, which is passed to the caller.
    New,
    /// Into a tensor of the context.
    Tensor(Arc<Tensor>),
}

/// An output for the caller.
pub enum Output {
    /// The bytes of an output that was read.
    Bytes {
        /// Its type and shape; dimensions can be 0.
        descriptor: Descriptor,
        /// Its bytes.
        bytes: Buffer,
    },
    /// A tensor of the context.
    Tensor(Arc<Tensor>),
    /// A cache that has grown in place.
    Cache(Cache),
    /// What a sequence holds, or an optional with a sequence.
    List(Vec<Item>),
    /// An optional without a value.
    Nothing,
}

/// Maximum number of bytes in a pool.
const MAX_POOLED_BYTES: usize = 64 << 20;

/// What a pool has.
#[derive(Default)]
struct Pooled {
    /// Unused buffers, the one returned last at the end.
    buffers: Vec<Buffer>,
    used: LastUse,
}

impl Pooled {
    fn bytes(&self) -> usize {
        self.buffers.iter().map(Buffer::len).sum()
    }
}

/// Memory for the results and inputs of later runs.
pub struct Pool {
    pooled: Mutex<Pooled>,
    /// Maximum number of buffers.
    most: usize,
    /// The largest size of all kept buffers so far, in bytes.
    largest: AtomicUsize,
}

impl Pool {
    /// A pool that holds at most as many buffers as one run uses.
    pub fn new(most: usize) -> Pool {
        Pool { pooled: Mutex::default(), most, largest: AtomicUsize::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Pooled> {
        self.pooled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the pool was always so small since it was cleared that it is not freed.
    pub fn is_small(&self) -> bool {
        self.bytes() <= KEPT_BYTES
    }

    /// When its buffers may be freed if none is taken or given for `idle` meanwhile; `None` if the pool is small.
    pub fn due(&self, idle: Duration) -> Option<Instant> {
        let pooled = self.lock();
        pooled.used.due(pooled.bytes(), idle)
    }

    /// A buffer of `len` bytes with arbitrary contents.
    ///
    /// # Errors
    /// An UnknownError if memory runs out.
    pub fn take(&self, len: usize) -> Result<Buffer> {
        let known = {
            let mut pooled = self.lock();
            pooled.used.now();
            let at = pooled.buffers.iter().rposition(|buffer| buffer.len() == len);
            at.map(|at| pooled.buffers.remove(at))
        };
        known.map_or_else(|| Buffer::zeroed(len), Ok)
    }

    /// Keeps `buffer`, and returns the oldest buffers beyond the limits, which the caller should free in the
    /// background: freeing much memory takes time.
    #[must_use = "large buffers should be freed on a background thread"]
    pub fn give(&self, buffer: Buffer) -> Vec<Buffer> {
        let mut pooled = self.lock();
        pooled.used.now();
        pooled.buffers.push(buffer);
        let mut total = pooled.bytes();
        let buffers = &mut pooled.buffers;
        let mut excess = buffers.len().saturating_sub(self.most);
        total -= buffers[..excess].iter().map(Buffer::len).sum::<usize>();
        while total > MAX_POOLED_BYTES {
            total -= buffers[excess].len();
            excess += 1;
        }
        self.largest.fetch_max(total, Ordering::Relaxed);
        buffers.drain(..excess).collect()
    }

    /// The largest size of the pool so far, in bytes: what runs take from it comes back. A number that fell and rose with
    /// every run would look like growth to a garbage collector.
    pub fn bytes(&self) -> usize {
        self.largest.load(Ordering::Relaxed)
    }

    /// Frees all buffers.
    pub fn clear(&self) {
        let pooled = std::mem::take(&mut *self.lock());
        self.largest.store(0, Ordering::Relaxed);
        drop(pooled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused_and_their_number_is_limited() {
        const MOST: usize = 6;
        let pool = Pool::new(MOST);
        let first = pool.take(100).unwrap();
        let address = first.as_ptr();
        assert!(pool.give(first).is_empty());
        assert_ne!(pool.take(101).unwrap().as_ptr(), address);
        assert_eq!(pool.take(100).unwrap().as_ptr(), address);
        for _ in 0..MOST {
            assert!(pool.give(Buffer::zeroed(8).unwrap()).is_empty());
        }
        assert_eq!(pool.give(Buffer::zeroed(16).unwrap()).iter().map(Buffer::len).collect::<Vec<_>>(), [8]);
        let large = || Buffer::zeroed(MAX_POOLED_BYTES / 2).unwrap();
        assert_eq!(pool.give(large()).len(), 1);
        assert_eq!(pool.give(large()).len(), MOST - 1, "everything else");
        assert_eq!(pool.give(Buffer::zeroed(MAX_POOLED_BYTES + 1).unwrap()).len(), 3, "and a buffer above the limit");
        assert_eq!(pool.bytes(), MAX_POOLED_BYTES, "at most");
        pool.clear();
        assert!(pool.lock().buffers.is_empty());
        assert_eq!(pool.bytes(), 0);
    }

    #[test]
    fn what_is_unused_is_due_unless_it_is_small() {
        const LONG: Duration = Duration::from_secs(3600);
        let pool = Pool::new(2);
        assert!(pool.due(LONG).is_none(), "nothing was ever there");
        assert!(pool.give(Buffer::zeroed(KEPT_BYTES).unwrap()).is_empty());
        assert!(pool.is_small() && pool.due(Duration::ZERO).is_none());
        assert_eq!(pool.bytes(), KEPT_BYTES);
        assert!(pool.give(Buffer::zeroed(1).unwrap()).is_empty());
        assert!(!pool.is_small() && pool.due(LONG).is_some_and(|due| due > Instant::now()));
        assert_eq!(pool.bytes(), KEPT_BYTES + 1);
        assert!(pool.due(Duration::ZERO).is_some_and(|due| due <= Instant::now()));
        pool.clear();
        assert!(pool.is_small() && pool.due(Duration::ZERO).is_none());
        assert_eq!((pool.bytes(), pool.lock().buffers.len()), (0, 0));
    }
}
