//! Buffers deduplicated by content: weights that several graphs have in common.

use super::Buffer;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, Weak};

/// Size in bytes below which buffers are not worth deduplicating.
pub const MIN_SHARED_BYTES: usize = 1 << 12;

/// Weak references by key: an item lives as long as somebody else holds it.
pub struct WeakMap<K, T> {
    items: HashMap<K, Vec<Weak<T>>>,
    /// Number of keys at which dead ones, without an item, are next removed.
    limit: usize,
}

impl<K, T> Default for WeakMap<K, T> {
    fn default() -> WeakMap<K, T> {
        WeakMap { items: HashMap::new(), limit: 64 }
    }
}

impl<K: Eq + Hash, T> WeakMap<K, T> {
    /// Number of keys, including dead ones not yet removed.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.items.len()
    }

    /// The items of `key` that are still alive.
    pub fn get(&self, key: &K) -> Vec<Arc<T>> {
        self.items.get(key).into_iter().flatten().filter_map(Weak::upgrade).collect()
    }

    /// Adds an item to those of `key`.
    pub fn insert(&mut self, key: K, item: &Arc<T>) {
        if self.items.len() >= self.limit {
            self.items.retain(|_, items| {
                items.retain(|item| item.strong_count() > 0);
                !items.is_empty()
            });
            self.limit = 64.max(2 * self.items.len());
        }
        let items = self.items.entry(key).or_default();
        items.retain(|item| item.strong_count() > 0);
        items.push(Arc::downgrade(item));
    }
}

/// Returns a buffer of this process with the bytes of `buffer`: one that was shared before and is still alive, or
/// `buffer` itself. Small buffers are always returned as they are.
///
/// Nobody may change a shared buffer.
pub fn share(buffer: Arc<Buffer>) -> Arc<Buffer> {
    static SHARED: LazyLock<Mutex<WeakMap<(usize, u64), Buffer>>> = LazyLock::new(Mutex::default);
    if buffer.len() < MIN_SHARED_BYTES {
        return buffer;
    }
    let key = (buffer.len(), rapidhash::v3::rapidhash_v3(buffer.bytes()));
    let mut others: Vec<Arc<Buffer>> = Vec::new();
    // Bytes are compared without the lock; another thread may add a buffer meanwhile.
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
    fn equal_bytes_share_a_buffer_while_it_is_held() {
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
    fn dead_buffers_are_forgotten() {
        let mut buffers = WeakMap::default();
        let kept = filled(1, 1);
        buffers.insert(1000, &kept);
        (0..500).for_each(|key| buffers.insert(key, &filled(0, 1)));
        assert!(buffers.count() < 200 && buffers.get(&3).is_empty());
        assert!(Arc::ptr_eq(&buffers.get(&1000)[0], &kept));
    }
}
