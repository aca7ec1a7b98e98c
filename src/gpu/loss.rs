//! The loss of a device, and its listeners.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// Why a device was lost.
#[derive(Debug)]
pub struct Lost {
    /// For people.
    pub reason: String,
    /// Whether the driver does not return from a call: nobody may call it for this device again, not even to free
    /// memory.
    pub hangs: bool,
}

/// Called on any thread when a device is lost, and again if its driver hangs afterwards.
pub type Listener = dyn Fn(&Lost) + Send + Sync;

/// Records whether a device was lost.
pub struct Loss {
    lost: OnceLock<Lost>,
    /// Whether listeners are being told, or have been.
    is_lost: AtomicBool,
    hangs: AtomicBool,
    listeners: Mutex<Vec<Weak<Listener>>>,
    patience: Duration,
}

impl Loss {
    /// For a device whose driver may take `patience` for a call.
    pub fn new(patience: Duration) -> Loss {
        Loss {
            lost: OnceLock::new(),
            is_lost: AtomicBool::new(false),
            hangs: AtomicBool::new(false),
            listeners: Mutex::default(),
            patience,
        }
    }

    /// How long its driver may take for a call.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Whether the device was lost: also while its listeners are being told, who may open another one at once.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Why the device was lost; `None` if it was not.
    pub fn lost(&self) -> Option<&Lost> {
        self.lost.get()
    }

    /// Like [`lost`](Self::lost), for people.
    pub fn reason(&self) -> Option<&str> {
        self.lost().map(|lost| lost.reason.as_str())
    }

    /// Whether the driver does not return from a call.
    pub fn hangs(&self) -> bool {
        self.hangs.load(Ordering::Acquire)
    }

    /// Calls `listener` when the device is lost, or now if it already is. A dropped listener is not called.
    pub fn listen(&self, listener: &Arc<Listener>) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(listener));
        if let Some(lost) = self.lost() {
            drop(listeners);
            listener(lost);
        }
    }

    /// Reports the loss of the device. Only the first reason counts. It becomes visible after all listeners have
    /// returned: code that sees the reason, and fails because of it, can rely on their work.
    pub fn tell(&self, reason: &str) {
        self.tell_lost(Lost { reason: reason.to_string(), hangs: false });
    }

    /// Like [`tell`](Self::tell), for a driver that does not return from a call.
    pub fn tell_that_it_hangs(&self, reason: &str) {
        self.tell_lost(Lost { reason: reason.to_string(), hangs: true });
    }

    fn tell_lost(&self, lost: Lost) {
        self.is_lost.store(true, Ordering::Release);
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let hangs_first = lost.hangs && !self.hangs.swap(true, Ordering::AcqRel);
        if self.lost().is_none() || hangs_first {
            listeners.iter().filter_map(Weak::upgrade).for_each(|listener| listener(&lost));
            self.lost.get_or_init(|| lost);
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
            Arc::new(move |lost: &Lost| told.lock().unwrap().push(format!("{name}: {}", lost.reason)))
        };
        let loss = Loss::new(Duration::from_secs(1));
        let (early, dropped, late) = (listener("early"), listener("dropped"), listener("late"));
        loss.listen(&early);
        loss.listen(&dropped);
        drop(dropped);
        assert_eq!(loss.reason(), None);
        let knows = Arc::new(OnceLock::new());
        let loss = Arc::new(loss);
        let asks: Arc<Listener> = {
            let (loss, knows) = (loss.clone(), knows.clone());
            Arc::new(move |_: &Lost| knows.set(loss.reason().is_some()).expect("told once"))
        };
        loss.listen(&asks);
        loss.tell("unplugged");
        assert_eq!(knows.get(), Some(&false), "the reason is known when all listeners know it");
        loss.tell("again");
        loss.listen(&late);
        assert_eq!(loss.reason(), Some("unplugged"));
        assert_eq!(*told.lock().unwrap(), ["early: unplugged", "late: unplugged"]);
    }

    #[test]
    fn listeners_learn_that_the_driver_of_a_lost_device_hangs() {
        let loss = Loss::new(Duration::from_secs(1));
        let told = Arc::new(Mutex::new(Vec::new()));
        let kept = told.clone();
        let listener: Arc<Listener> =
            Arc::new(move |lost| kept.lock().unwrap().push((lost.reason.clone(), lost.hangs)));
        loss.listen(&listener);
        loss.tell("unplugged");
        assert!(!loss.hangs());
        loss.tell_that_it_hangs("no answer");
        loss.tell_that_it_hangs("no answer, again");
        assert!(loss.hangs() && loss.reason() == Some("unplugged"));
        assert_eq!(*told.lock().unwrap(), [("unplugged".to_string(), false), ("no answer".to_string(), true)]);
    }
}
