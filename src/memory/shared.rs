//! Buffers that are one because they hold the same bytes: weights that several graphs have in common.

use super::Buffer;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, Weak};

/// Smaller buffers are not worth looking for others like them.
pub const MIN_SHARED_BYTES: usize = 1 << 12;

/// Buffers by keys, as long as somebody else holds them.
pub struct WeakBuffers<K> {
    buffers: HashMap<K, Vec<Weak<Buffer>>>,
    /// Keys after which those without a buffer are looked for next.
    limit: usize,
}

impl<K> Default for WeakBuffers<K> {
    fn default() -> WeakBuffers<K> {
        WeakBuffers { buffers: HashMap::new(), limit: 64 }
    }
}

impl<K: Eq + Hash> WeakBuffers<K> {
    /// How many keys there are, with those that nobody holds a buffer of and that are not forgotten yet.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.buffers.len()
    }

    /// The buffers of `key` that somebody still holds.
    pub fn get(&self, key: &K) -> Vec<Arc<Buffer>> {
        self.buffers.get(key).into_iter().flatten().filter_map(Weak::upgrade).collect()
    }

    /// Adds a buffer to those of `key`.
    pub fn insert(&mut self, key: K, buffer: &Arc<Buffer>) {
        if self.buffers.len() >= self.limit {
            self.buffers.retain(|_, buffers| {
                buffers.retain(|buffer| buffer.strong_count() > 0);
                !buffers.is_empty()
            });
            self.limit = 64.max(2 * self.buffers.len());
        }
        let buffers = self.buffers.entry(key).or_default();
        buffers.retain(|buffer| buffer.strong_count() > 0);
        buffers.push(Arc::downgrade(buffer));
    }
}

/// A buffer of this process with the bytes of `buffer`: one that was shared before and that somebody still holds, or
/// `buffer` itself. Small ones are always given back as they are.
///
/// Nobody may change a buffer that was shared.
pub fn share(buffer: Arc<Buffer>) -> Arc<Buffer> {
    static SHARED: LazyLock<Mutex<WeakBuffers<(usize, u64)>>> = LazyLock::new(Mutex::default);
    if buffer.len() < MIN_SHARED_BYTES {
        return buffer;
    }
    let key = (buffer.len(), rapidhash::v3::rapidhash_v3(buffer.bytes()));
    let mut others: Vec<Arc<Buffer>> = Vec::new();
    // Bytes are compared without the lock; meanwhile somebody may add a buffer that was not compared.
    loop {
        let news: Vec<Arc<Buffer>> = {
            let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let mut known = shared.get(&key);
            known.retain(|buffer| !others.iter().any(|other| Arc::ptr_eq(buffer, other)));
            if known.is_empty() {
                shared.insert(key, &buffer);
                return buffer;
            }
            known
        };
        if let Some(same) = news.iter().find(|other| other.bytes() == buffer.bytes()) {
            return same.clone();
        }
        others.extend(news);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(byte: u8, len: usize) -> Arc<Buffer> {
        Arc::new(Buffer::copy_of(&vec![byte; len]).unwrap())
    }

    #[test]
    fn equal_bytes_are_one_buffer_while_somebody_holds_it() {
        let len = MIN_SHARED_BYTES + 77;
        let first = share(filled(201, len));
        assert!(Arc::ptr_eq(&first, &share(filled(201, len))) && Arc::ptr_eq(&first, &share(first.clone())));
        assert!(!Arc::ptr_eq(&first, &share(filled(202, len))));
        assert!(!Arc::ptr_eq(&first, &share(filled(201, len + 1))));
        let weak = Arc::downgrade(&first);
        drop(first);
        assert!(weak.upgrade().is_none(), "sharing keeps nothing alive");
        let small = share(filled(201, 100));
        assert!(!Arc::ptr_eq(&small, &share(filled(201, 100))));
    }

    #[test]
    fn buffers_that_are_gone_are_forgotten() {
        let mut buffers = WeakBuffers::default();
        let kept = filled(1, 1);
        buffers.insert(1000, &kept);
        (0..500).for_each(|key| buffers.insert(key, &filled(0, 1)));
        assert!(buffers.buffers.len() < 200 && buffers.get(&3).is_empty());
        assert!(Arc::ptr_eq(&buffers.get(&1000)[0], &kept));
    }
}
