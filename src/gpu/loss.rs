//! The loss of a device, and its listeners.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// Called once, on any thread, with the reason for the loss of a device.
pub type Listener = dyn Fn(&str) + Send + Sync;

/// Records whether a device was lost.
#[derive(Default)]
pub struct Loss {
    reason: OnceLock<String>,
    listeners: Mutex<Vec<Weak<Listener>>>,
}

impl Loss {
    /// Why the device was lost; `None` if it was not.
    pub fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }

    /// Calls `listener` when the device is lost, or now if it already is. A dropped listener is not called.
    pub fn listen(&self, listener: &Arc<Listener>) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.strong_count() > 0);
        match self.reason() {
            Some(reason) => {
                drop(listeners);
                listener(reason);
            }
            None => listeners.push(Arc::downgrade(listener)),
        }
    }

    /// Reports the loss of the device. Only the first reason counts. It becomes visible after all listeners have
    /// returned: code that sees the reason, and fails because of it, can rely on their work.
    pub fn tell(&self, reason: &str) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if self.reason().is_none() {
            std::mem::take(&mut *listeners).iter().filter_map(Weak::upgrade).for_each(|listener| listener(reason));
            self.reason.get_or_init(|| reason.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_told_once() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let listener = |name: &'static str| -> Arc<Listener> {
            let told = told.clone();
            Arc::new(move |reason: &str| told.lock().unwrap().push(format!("{name}: {reason}")))
        };
        let loss = Loss::default();
        let (early, dropped, late) = (listener("early"), listener("dropped"), listener("late"));
        loss.listen(&early);
        loss.listen(&dropped);
        drop(dropped);
        assert_eq!(loss.reason(), None);
        let knows = Arc::new(OnceLock::new());
        let loss = Arc::new(loss);
        let asks: Arc<Listener> = {
            let (loss, knows) = (loss.clone(), knows.clone());
            Arc::new(move |_: &str| knows.set(loss.reason().is_some()).expect("told once"))
        };
        loss.listen(&asks);
        loss.tell("unplugged");
        assert_eq!(knows.get(), Some(&false), "the reason is known when all listeners know it");
        loss.tell("again");
        loss.listen(&late);
        assert_eq!(loss.reason(), Some("unplugged"));
        assert_eq!(*told.lock().unwrap(), ["early: unplugged", "late: unplugged"]);
    }
}
