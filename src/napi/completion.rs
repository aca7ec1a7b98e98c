//! How asynchronous requests end in JavaScript: one thread-safe function per environment, which keeps the process
//! alive only while requests are outstanding. Requests that end before JavaScript comes to hear of the first one are told
//! in one call: entering JavaScript costs more than what a small request does.

use super::handle::Owner;
use crate::error::Result;
use crate::runtime::{Context, Done, Wake, WeakList};
use napi::bindgen_prelude::{FnArgs, Function, Unknown};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode, ThreadsafeFunctionHandle};
use napi::{Env, Status, sys};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::ThreadId;

/// `(ids, codes, messages)` in the order in which the requests ended. An empty code is success; both other lists are
/// empty when all are successes.
pub type Completions = FnArgs<(Vec<u32>, Vec<String>, Vec<String>)>;
type Notify = ThreadsafeFunction<(), Unknown<'static>, Completions, Status, false, true>;

/// The end of a request.
struct End {
    id: u32,
    result: Result<()>,
    /// Whether it was outstanding: JavaScript waits for it.
    awaited: bool,
}

/// Requests that have ended and that JavaScript has not heard of.
#[derive(Default)]
struct Ended(Mutex<Vec<End>>);

impl Ended {
    /// Adds one; gives whether it is the first, which JavaScript has to be told of.
    fn add(&self, end: End) -> bool {
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ended.push(end);
        ended.len() == 1
    }

    fn take(&self) -> Vec<End> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Counts the requests whose end has not reached JavaScript. Only used on the JavaScript thread.
struct Outstanding {
    count: AtomicUsize,
    notify: OnceLock<Weak<ThreadsafeFunctionHandle>>,
    thread: ThreadId,
}

impl Outstanding {
    /// None yet. This is the JavaScript thread.
    fn new() -> Outstanding {
        Outstanding { count: AtomicUsize::new(0), notify: OnceLock::new(), thread: std::thread::current().id() }
    }

    fn add(&self, env: &Env) {
        if self.count.fetch_add(1, Ordering::Relaxed) == 0 {
            self.keep_alive(env, true);
        }
    }

    fn remove(&self, env: &Env, count: usize) {
        if count > 0 && self.count.fetch_sub(count, Ordering::Relaxed) == count {
            self.keep_alive(env, false);
        }
    }

    /// Whether the event loop waits for the thread-safe function.
    ///
    /// # Panics
    /// On another thread.
    fn keep_alive(&self, env: &Env, alive: bool) {
        assert_eq!(std::thread::current().id(), self.thread, "requests are made and told on the JavaScript thread");
        let Some(notify) = self.notify.get().and_then(Weak::upgrade) else { return };
        notify.with_read_aborted(|aborted| {
            if aborted {
                return;
            }
            let (env, function) = (env.raw(), notify.get_raw());
            // SAFETY: this is the thread whose event loop the function belongs to, as was checked, and it is not aborted.
            let status = unsafe {
                match alive {
                    true => sys::napi_ref_threadsafe_function(env, function),
                    false => sys::napi_unref_threadsafe_function(env, function),
                }
            };
            // Both fail only for arguments that cannot occur here.
            debug_assert_eq!(status, sys::Status::napi_ok);
        });
    }
}

/// One JavaScript environment: the main thread or a worker.
pub struct Environment {
    notify: Arc<Notify>,
    outstanding: Arc<Outstanding>,
    completed: Arc<Ended>,
    /// Those end with it: nobody sees what they would still do. That does not wait for the finalizers of their handles,
    /// because not every runtime runs those of a worker that is terminated.
    contexts: Arc<WeakList<Owner>>,
}

impl Environment {
    /// The environment whose requests are told to `on_complete`.
    pub fn new(env: &Env, on_complete: Function<Completions, Unknown<'static>>) -> napi::Result<Arc<Environment>> {
        let contexts = Arc::new(WeakList::<Owner>::default());
        env.add_env_cleanup_hook(contexts.clone(), |contexts| {
            contexts.drain().iter().for_each(|owner| owner.context.end());
        })?;
        let (outstanding, completed) = (Arc::new(Outstanding::new()), Arc::new(Ended::default()));
        let (told, source) = (outstanding.clone(), completed.clone());
        let notify = on_complete.build_threadsafe_function::<()>().weak::<true>().build_callback(
            move |call: napi::threadsafe_function::ThreadsafeCallContext<()>| {
                let completions = source.take();
                told.remove(&call.env, completions.iter().filter(|end| end.awaited).count());
                Ok(arguments(completions))
            },
        )?;
        drop(outstanding.notify.set(Arc::downgrade(&notify.handle)));
        Ok(Arc::new(Environment { notify: Arc::new(notify), outstanding, completed, contexts }))
    }

    /// The owner of `context`, which ends with this environment.
    pub fn own(self: &Arc<Self>, context: Context) -> Arc<Owner> {
        let owner = Arc::new(Owner { context, environment: self.clone() });
        self.contexts.add(&owner);
        owner
    }

    /// The end of request `id`, which is outstanding from now on. Called on the JavaScript thread. JavaScript is told
    /// even if the request is refused at once; it ignores the end of a request that it never made.
    pub fn request(self: &Arc<Self>, env: &Env, id: u32) -> Done {
        self.outstanding.add(env);
        self.telling(id, true)
    }

    /// The end of `id`, which may never come: the event loop does not wait for it.
    pub fn watch(&self, id: u32) -> Done {
        self.telling(id, false)
    }

    fn telling(&self, id: u32, awaited: bool) -> Done {
        let (notify, completed) = (self.notify.clone(), self.completed.clone());
        Done::waking(move |result| {
            let is_first = completed.add(End { id, result, awaited });
            is_first.then(|| -> Wake {
                // When the environment has ended, nobody is left to be told.
                Box::new(move || _ = notify.call((), ThreadsafeFunctionCallMode::NonBlocking))
            })
        })
    }
}

fn arguments(completions: Vec<End>) -> Completions {
    let ids = completions.iter().map(|end| end.id).collect();
    if completions.iter().all(|end| end.result.is_ok()) {
        return (ids, Vec::new(), Vec::new()).into();
    }
    let failure = |end: End| match end.result {
        Ok(()) => (String::new(), String::new()),
        Err(error) => (error.kind.name().to_string(), error.message),
    };
    let (codes, messages) = completions.into_iter().map(failure).unzip();
    (ids, codes, messages).into()
}
