//! Lists that do not keep their items alive.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The minimum length at which a list drops dead items.
const SMALLEST_LENGTH: usize = 16;

/// A list of items that are still alive.
pub struct WeakList<T>(Mutex<Vec<Weak<T>>>);

impl<T> Default for WeakList<T> {
    fn default() -> WeakList<T> {
        WeakList(Mutex::new(Vec::new()))
    }
}

impl<T> WeakList<T> {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds `item`, in amortized constant time. The list is at most twice as long as the maximum number of items alive
    /// at the same time.
    pub fn add(&self, item: &Arc<T>) {
        let mut items = self.lock();
        if items.len() == items.capacity() {
            items.retain(|item| item.strong_count() > 0);
            // Makes room for twice the remaining items: each is then looked at only a few times in its life.
            let count = items.len().max(SMALLEST_LENGTH);
            items.reserve_exact(count);
        }
        items.push(Arc::downgrade(item));
    }

    /// Empties the list. Returns the live items, oldest first.
    pub fn drain(&self) -> Vec<Arc<T>> {
        let items = std::mem::take(&mut *self.lock());
        items.iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_items_are_returned_once_and_in_order() {
        let list = WeakList::default();
        let items: Vec<Arc<usize>> = (0..1000).map(Arc::new).collect();
        items.iter().for_each(|item| list.add(item));
        let kept: Vec<Arc<usize>> = items.into_iter().filter(|item| **item % 3 == 0).collect();
        assert_eq!(list.drain(), kept);
        assert_eq!(list.drain(), []);
    }

    #[test]
    fn dropped_items_make_room() {
        let list = WeakList::default();
        let kept: Vec<Arc<usize>> = (0..100).map(Arc::new).collect();
        kept.iter().for_each(|item| list.add(item));
        for i in 0..10_000 {
            list.add(&Arc::new(i));
            assert!(list.lock().capacity() <= 2 * (kept.len() + 1), "room for {}", list.lock().capacity());
        }
        assert_eq!(list.drain(), kept);
    }
}
