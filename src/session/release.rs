//! Sessions at rest: they keep what runs cannot make again, or only slowly, and free everything else.

use super::Session;
use super::stage::lock;
use crate::memory::Buffer;
use crate::runtime::{Done, IDLE, Idle, Watch, Weight, trim};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Whether a session at rest keeps a packed weight: packing it again would delay the next run, unless it is in a store.
fn is_kept(packed: &Buffer) -> bool {
    !packed.is_mapped()
}

/// The weights that a session at rest keeps.
#[derive(Default)]
pub(super) struct Kept {
    /// Held for whoever packs equal weights, with their sizes in bytes.
    weights: Vec<(Weight, usize)>,
    /// Their size in bytes.
    bytes: usize,
}

impl Kept {
    /// These weights, by address, with their sizes in bytes. Weights on a GPU are kept as they are.
    fn of(found: HashMap<usize, (Weight, usize)>) -> Kept {
        let is_kept = |(weight, _): &(Weight, usize)| weight.downcast_ref::<Buffer>().is_none_or(is_kept);
        let weights: Vec<(Weight, usize)> = found.into_values().filter(is_kept).collect();
        Kept { bytes: weights.iter().map(|(_, bytes)| bytes).sum(), weights }
    }

    /// Calls `visit` with each of them, and its size in bytes.
    pub fn each(&self, visit: &mut dyn FnMut(&Weight, usize)) {
        self.weights.iter().for_each(|(weight, bytes)| visit(weight, *bytes));
    }

    /// Their size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of weights.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.weights.len()
    }
}

/// What a session and its forms share: which ones there are, and when one of them was used last.
pub(super) struct Usage {
    /// After how long without use they rest; `None` for never.
    idle: Option<Duration>,
    /// Number of runs and compilations that have not ended.
    pending: AtomicUsize,
    /// When the last one ended.
    last: Mutex<Instant>,
    /// The time of the last use is watched.
    watch: Watch,
    /// Those that were used at least once.
    forms: Mutex<Vec<Weak<Session>>>,
}

impl Usage {
    /// A session that rests after this time without use, before its first use.
    pub fn new(idle: Option<Duration>) -> Arc<Usage> {
        let (pending, watch, forms) = Default::default();
        Arc::new(Usage { idle, pending, last: Mutex::new(Instant::now()), watch, forms })
    }

    /// When they rest, unless one of them is used before; `None` for never, or if one is in use.
    fn due(&self) -> Option<Instant> {
        let idle = self.idle.filter(|_| self.pending.load(Ordering::SeqCst) == 0)?;
        // A time that no clock reaches is never.
        lock(&self.last).checked_add(idle)
    }

    /// Whether they were not used for long enough.
    fn is_over(&self) -> bool {
        self.due().is_some_and(|due| due <= Instant::now())
    }

    fn forms(&self) -> Vec<Arc<Session>> {
        lock(&self.forms).iter().filter_map(Weak::upgrade).collect()
    }
}

impl Idle for Usage {
    fn look(&self) -> Option<Instant> {
        self.watch.look(|| {
            let due = self.due()?;
            if Instant::now() < due {
                return Some(due);
            }
            // What is used until the timeline gets there is not idle.
            release_all(&self.forms(), Usage::is_over);
            None
        })
    }
}

/// A session in use by a run or a compilation, until this is dropped.
pub(super) struct Use(Arc<Session>);

impl Deref for Use {
    type Target = Arc<Session>;

    fn deref(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let usage = &self.0.usage;
        *lock(&usage.last) = Instant::now();
        usage.pending.fetch_sub(1, Ordering::SeqCst);
        if let Some(due) = usage.due() {
            usage.watch.begin(usage, due);
        }
    }
}

/// What a session keeps of the memory of its results is freed if no run has used it for some seconds.
impl Idle for Session {
    fn look(&self) -> Option<Instant> {
        self.pool_watch.look(|| {
            let due = self.pool.due(IDLE)?;
            if Instant::now() < due {
                return Some(due);
            }
            self.pool.clear();
            trim();
            self.tell();
            None
        })
    }
}

/// Has the forms of a session rest after all previous work, if `is_right` then holds. The context's memory for
/// intermediate results is freed as well, unless something else has used it since they were used.
fn release_all(forms: &[Arc<Session>], is_right: fn(&Usage) -> bool) {
    let Some(first) = forms.first().filter(|form| form.context.check_alive().is_ok()) else { return };
    for form in forms {
        let form = form.clone();
        first.context.enqueue_release(move || {
            if is_right(&form.usage) {
                form.rest();
            }
        });
    }
    let usage = first.usage.clone();
    first.context.release_scratch(move || is_right(&usage).then(|| *lock(&usage.last)));
}

impl Session {
    /// Marks the session as in use.
    pub(super) fn in_use(self: &Arc<Self>) -> Use {
        if !self.is_form.swap(true, Ordering::Relaxed) {
            let mut forms = lock(&self.usage.forms);
            forms.retain(|form| form.strong_count() > 0);
            forms.push(Arc::downgrade(self));
        }
        self.usage.pending.fetch_add(1, Ordering::SeqCst);
        self.is_resting.store(false, Ordering::Relaxed);
        Use(self.clone())
    }

    /// Frees everything that the session and its forms can make again, except for packed weights, after all previous
    /// work: plans, templates, memory for intermediate results, and memory that runs reuse.
    ///
    /// The request fails with an InvalidStateError if the context is lost.
    pub fn release(self: &Arc<Self>, done: Done) {
        release_all(&self.usage.forms(), |_| true);
        self.context.enqueue(|_| Ok(None), done.coded());
    }

    /// Frees everything that runs make again, except for packed weights. As work on the timeline.
    fn rest(&self) {
        // A destroyed session has nothing.
        if self.model().is_err() {
            return;
        }
        let program = lock(&self.program).take();
        let mut found = HashMap::new();
        let mut add = |weight: &Weight, bytes: usize| {
            found.entry(Arc::as_ptr(weight).addr()).or_insert_with(|| (weight.clone(), bytes));
        };
        // Those of other sizes, from an earlier release, stay as well.
        lock(&self.kept_weights).each(&mut add);
        self.templates.each_weight(&mut add);
        program.iter().for_each(|program| program.each_weight(&mut add));
        *lock(&self.kept_weights) = Kept::of(found);
        if let Some(deciding) = self.deciding.get() {
            deciding.refund(self.templates.count());
        }
        drop(program);
        self.kept.clear();
        self.templates.clear();
        self.staged.store(0, Ordering::Relaxed);
        if self.usage.pending.load(Ordering::SeqCst) == 0 {
            self.is_resting.store(true, Ordering::Relaxed);
        }
        self.pool.clear();
        if let Some(store) = self.store() {
            store.rest();
        }
        self.weigh();
    }
}
