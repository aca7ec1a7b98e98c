//! Completion of asynchronous requests in JavaScript: one thread-safe function per environment, which keeps the process
//! alive only while requests are outstanding. Requests that end before JavaScript has handled the first one are
//! reported in the same call: entering JavaScript costs more than the work of a small request.

use super::handle::{Owner, Passing};
use super::session::UnsupportedNode;
use crate::error::{Result, Unsupported};
use crate::runtime::{Context, Done, Wake, WeakList};
use napi::bindgen_prelude::{FnArgs, Function, FunctionRef, ToNapiValue, Unknown, check_status};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, JsValue, Status, sys};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::Duration;

/// Number of environments that have not ended. The process ends with the last one.
static ENVIRONMENTS: AtomicUsize = AtomicUsize::new(0);

/// How long the end of the process waits for a GPU that must not be interrupted.
const PATIENCE: Duration = Duration::from_secs(10);

/// Size in bytes of an ArrayBuffer that can be allocated as long as the process can continue at all.
const SMALL_BUFFER: usize = 1 << 20;

/// `(ids, codes, messages, details)`, in the order in which the requests ended. An empty code is success; codes and
/// messages are empty lists if all succeeded. The details of a request are a list: of the values that it produced, or
/// of unsupported nodes.
pub type Completions = FnArgs<(Vec<u32>, Vec<String>, Vec<String>, Vec<Details>)>;
type Notify = ThreadsafeFunction<(), Unknown<'static>, Completions, Status, false, true>;

/// Converts the results of a request to JavaScript values, on the JavaScript thread.
pub type Collect = Box<dyn FnOnce(&Env) -> napi::Result<Vec<sys::napi_value>> + Send>;

/// The details of a request's end.
pub enum Details {
    None,
    Made(Collect),
    Refused(Vec<Unsupported>),
}

impl ToNapiValue for Details {
    unsafe fn to_napi_value(raw: sys::napi_env, details: Details) -> napi::Result<sys::napi_value> {
        let env = Env::from_raw(raw);
        let values = match details {
            Details::None => Vec::new(),
            Details::Made(collect) => collect(&env)?,
            Details::Refused(nodes) => {
                // SAFETY: this is called on the JavaScript thread of `raw`.
                let node = |node| unsafe { UnsupportedNode::to_napi_value(raw, UnsupportedNode::from(node)) };
                nodes.into_iter().map(node).collect::<napi::Result<_>>()?
            }
        };
        let mut array = std::ptr::null_mut();
        // SAFETY: as above; all values stay alive until the call into JavaScript that passes them returns.
        unsafe {
            check_status!(sys::napi_create_array_with_length(raw, values.len(), &mut array))?;
            for (at, value) in values.into_iter().enumerate() {
                check_status!(sys::napi_set_element(raw, array, at as u32, value))?;
            }
        }
        Ok(array)
    }
}

/// The end of a request.
struct End {
    id: u32,
    result: Result<()>,
    /// Converts the results of a successful request.
    collect: Option<Collect>,
    /// Whether JavaScript waits for the request's end.
    awaited: bool,
}

/// Requests that have ended, not yet reported to JavaScript; `None` once nobody is left to notify.
struct Ended(Mutex<Option<Vec<End>>>);

impl Ended {
    /// Adds one; returns whether it is the first, for which JavaScript must be notified.
    fn add(&self, end: End) -> bool {
        match &mut *self.lock() {
            Some(ended) => {
                ended.push(end);
                ended.len() == 1
            }
            None => false,
        }
    }

    fn take(&self) -> Vec<End> {
        self.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Drops all of them, now and in the future: their results may hold the environment.
    fn close(&self) {
        let ended = self.lock().take();
        drop(ended);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<End>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts the requests whose end has not been reported to JavaScript. Only used on the JavaScript thread.
struct Outstanding {
    count: AtomicUsize,
    notify: OnceLock<Weak<Notify>>,
    thread: ThreadId,
}

impl Outstanding {
    /// Starts with none. Must be called on the JavaScript thread.
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

    /// Makes JavaScript collect the ended requests; does nothing if the environment is gone.
    fn wake(&self) {
        if let Some(notify) = self.notify.get().and_then(Weak::upgrade) {
            notify.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }

    /// Sets whether the event loop waits for the thread-safe function.
    ///
    /// # Panics
    /// If called on another thread.
    fn keep_alive(&self, env: &Env, alive: bool) {
        assert_eq!(std::thread::current().id(), self.thread, "requests start and complete on the JavaScript thread");
        let Some(notify) = self.notify.get().and_then(Weak::upgrade) else { return };
        notify.handle.with_read_aborted(|aborted| {
            if aborted {
                return;
            }
            let (env, function) = (env.raw(), notify.handle.get_raw());
            // SAFETY: as checked above, this is the thread whose event loop the function belongs to, and it is not
            // aborted.
            let status = unsafe {
                match alive {
                    true => sys::napi_ref_threadsafe_function(env, function),
                    false => sys::napi_unref_threadsafe_function(env, function),
                }
            };
            // Both calls fail only for arguments that cannot occur here.
            debug_assert_eq!(status, sys::Status::napi_ok);
        });
    }
}

/// One JavaScript environment: the main thread or a worker.
pub struct Environment {
    notify: Arc<Notify>,
    /// Returns an ArrayBuffer of that many bytes, or undefined if memory runs out, where the functions of Node-API
    /// would end the process.
    allocate: FunctionRef<f64, Unknown<'static>>,
    outstanding: Arc<Outstanding>,
    completed: Arc<Ended>,
    /// Contexts that end with the environment: nobody sees their further work. They do not wait for the finalizers of
    /// their handles, which some runtimes do not run for a terminated worker.
    contexts: Arc<WeakList<Owner>>,
    /// The weight of fed results on its way to the results of the run.
    pub passing: Passing,
}

impl Environment {
    /// Creates the environment, which reports the ends of requests to `on_complete`. `allocate` returns an ArrayBuffer
    /// of that many bytes, or undefined if memory runs out.
    pub fn new(
        env: &Env,
        on_complete: Function<Completions, Unknown<'static>>,
        allocate: Function<f64, Unknown<'static>>,
    ) -> napi::Result<Arc<Environment>> {
        let allocate = allocate.create_ref()?;
        let contexts = Arc::new(WeakList::<Owner>::default());
        let (outstanding, completed) = (Arc::new(Outstanding::new()), Arc::new(Ended(Mutex::new(Some(Vec::new())))));
        let ending = (contexts.clone(), completed.clone(), outstanding.clone());
        env.add_env_cleanup_hook(ending, |(contexts, completed, outstanding)| {
            let is_last = ENVIRONMENTS.fetch_sub(1, Ordering::Relaxed) == 1;
            for Owner { context, .. } in contexts.drain().iter().map(|owner| &**owner) {
                if is_last { context.end_with_process(PATIENCE) } else { context.end() }
            }
            completed.close();
            // Deno 2.9 keeps the event loop of a terminated worker, and with it two file descriptors, until an addon
            // that the worker loaded wakes that loop once more.
            outstanding.wake();
        })?;
        ENVIRONMENTS.fetch_add(1, Ordering::Relaxed);
        let (told, source) = (outstanding.clone(), completed.clone());
        let notify = on_complete.build_threadsafe_function::<()>().weak::<true>().build_callback(
            move |call: napi::threadsafe_function::ThreadsafeCallContext<()>| {
                let completions = source.take();
                told.remove(&call.env, completions.iter().filter(|end| end.awaited).count());
                Ok(arguments(completions))
            },
        )?;
        let notify = Arc::new(notify);
        drop(outstanding.notify.set(Arc::downgrade(&notify)));
        Ok(Arc::new(Environment { notify, allocate, outstanding, completed, contexts, passing: Passing::default() }))
    }

    /// The owner of `context`, which ends with this environment.
    pub fn own(self: &Arc<Self>, context: Context) -> Arc<Owner> {
        let owner = Arc::new(Owner { context: Arc::new(context), environment: self.clone() });
        self.contexts.add(&owner);
        owner
    }

    /// The completion of request `id`, which is outstanding from now on. Called on the JavaScript thread. JavaScript is
    /// notified even if the request is rejected at once; it ignores the end of a request that it did not make.
    pub fn request(self: &Arc<Self>, env: &Env, id: u32) -> Done {
        self.outstanding.add(env);
        self.telling(id, true, None)
    }

    /// Like [`request`](Self::request), for a request with results, which `collect` returns after success.
    pub fn deliver(self: &Arc<Self>, env: &Env, id: u32, collect: Collect) -> Done {
        self.outstanding.add(env);
        self.telling(id, true, Some(collect))
    }

    /// An ArrayBuffer with a copy of `bytes`; null if memory runs out. Called on the JavaScript thread.
    pub fn array_buffer(&self, env: &Env, bytes: &[u8]) -> napi::Result<sys::napi_value> {
        let (raw, mut buffer, mut data, mut len) = (env.raw(), std::ptr::null_mut(), std::ptr::null_mut(), 0);
        if bytes.len() <= SMALL_BUFFER {
            // SAFETY: this is the JavaScript thread of `env`.
            check_status!(unsafe { sys::napi_create_arraybuffer(raw, bytes.len(), &mut data, &mut buffer) })?;
            len = bytes.len();
        } else {
            buffer = self.allocate.borrow_back(env)?.call(bytes.len() as f64)?.raw();
            // SAFETY: as above, and the value was just created. The call fails for anything but an ArrayBuffer.
            unsafe { sys::napi_get_arraybuffer_info(raw, buffer, &mut data, &mut len) };
        }
        if len != bytes.len() {
            // SAFETY: as above.
            check_status!(unsafe { sys::napi_get_null(raw, &mut buffer) })?;
        } else if len > 0 {
            // SAFETY: the buffer has `len` bytes, and nobody else has it yet.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data.cast(), len) };
        }
        Ok(buffer)
    }

    /// The completion of `id`, which may never happen: the event loop does not wait for it.
    pub fn watch(&self, id: u32) -> Done {
        self.telling(id, false, None)
    }

    fn telling(&self, id: u32, awaited: bool, collect: Option<Collect>) -> Done {
        let (notify, completed) = (self.notify.clone(), self.completed.clone());
        Done::waking(move |result| {
            let is_first = completed.add(End { id, result, collect, awaited });
            is_first.then(|| -> Wake {
                // If the environment has ended, nobody is left to notify.
                Box::new(move || _ = notify.call((), ThreadsafeFunctionCallMode::NonBlocking))
            })
        })
    }
}

fn arguments(completions: Vec<End>) -> Completions {
    let ids = completions.iter().map(|end| end.id).collect();
    let (mut codes, mut messages, mut details) = (Vec::new(), Vec::new(), Vec::new());
    let has_failures = completions.iter().any(|end| end.result.is_err());
    let has_details = has_failures || completions.iter().any(|end| end.collect.is_some());
    for End { result, collect, .. } in completions {
        let (code, message, detail) = match result {
            Ok(()) => ("", String::new(), collect.map_or(Details::None, Details::Made)),
            Err(error) => (error.tag(), error.message, Details::Refused(error.unsupported)),
        };
        if has_failures {
            codes.push(code.to_string());
            messages.push(message);
        }
        if has_details {
            details.push(detail);
        }
    }
    (ids, codes, messages, details).into()
}
