//! Lists that keep nothing alive.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The smallest length at which a list looks for those that are gone.
const SMALLEST_LENGTH: usize = 16;

/// A list of what was added and still lives.
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

    /// Adds `item`. In the long run this takes the same time however many there are, and the list is at most twice as long
    /// as the most that lived at the same time.
    pub fn add(&self, item: &Arc<T>) {
        let mut items = self.lock();
        if items.len() == items.capacity() {
            items.retain(|item| item.strong_count() > 0);
            // Twice the room of what is left: each is looked at a few times in its life.
            let count = items.len().max(SMALLEST_LENGTH);
            items.reserve_exact(count);
        }
        items.push(Arc::downgrade(item));
    }

    /// Empties the list. Gives those that live, the first that was added first.
    pub fn drain(&self) -> Vec<Arc<T>> {
        let items = std::mem::take(&mut *self.lock());
        items.iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_live_are_given_once_and_in_order() {
        let list = WeakList::default();
        let items: Vec<Arc<usize>> = (0..1000).map(Arc::new).collect();
        items.iter().for_each(|item| list.add(item));
        let kept: Vec<Arc<usize>> = items.into_iter().filter(|item| **item % 3 == 0).collect();
        assert_eq!(list.drain(), kept);
        assert_eq!(list.drain(), []);
    }

    #[test]
    fn those_that_are_gone_make_room() {
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
