//! Completion of asynchronous requests in JavaScript: one thread-safe function per environment, which keeps the process
//! alive only while requests are outstanding. Requests that end before JavaScript has handled the first one are
//! reported in the same call: entering JavaScript costs more than the work of a small request.

use super::account::Account;
use super::handle::Owner;
use super::sources::Copies;
use crate::description::text;
use crate::error::{Code, Error, Result};
use crate::memory::store::finish_saving;
use crate::runtime::{Context, Done, Wake, WeakList, panicked};
use napi::bindgen_prelude::{FnArgs, Function, ToNapiValue, Unknown, check_status};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Status, sys};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::Duration;

/// Number of environments that have not ended. The process ends with the last one.
static ENVIRONMENTS: AtomicUsize = AtomicUsize::new(0);

/// How long the end of the process waits until packed weights are on disk: the first of many short processes would never
/// write them otherwise.
pub const SAVING: Duration = Duration::from_secs(5);

/// How long the end of the process waits for a GPU that must not be interrupted.
const PATIENCE: Duration = Duration::from_secs(10);

/// `(ids, codes, messages, details)`, in the order in which the requests ended. An empty code is success; codes and
/// messages are empty lists if all succeeded.
pub type Completions = FnArgs<(Vec<u32>, Vec<String>, Vec<String>, Vec<Details>)>;
type Notify = ThreadsafeFunction<(), Unknown<'static>, Completions, Status, false, true>;

/// Converts the results of a request to JavaScript values, on the JavaScript thread. Whatever needs much time or memory
/// is done before: here, an error can only reject the request.
pub type Collect = Box<dyn FnOnce(&Env) -> Result<Vec<sys::napi_value>> + Send>;

/// The details of a request's end: a list of the values that it produced, the JSON of unsupported nodes, or undefined.
pub struct Details(Option<sys::napi_value>);

impl ToNapiValue for Details {
    unsafe fn to_napi_value(env: sys::napi_env, details: Details) -> napi::Result<sys::napi_value> {
        match details.0 {
            Some(value) => Ok(value),
            // SAFETY: the caller's.
            None => unsafe { <()>::to_napi_value(env, ()) },
        }
    }
}

/// A JavaScript array.
pub struct List(sys::napi_value);

impl ToNapiValue for List {
    unsafe fn to_napi_value(_: sys::napi_env, list: List) -> napi::Result<sys::napi_value> {
        Ok(list.0)
    }
}

/// An array of values that were just created on this thread.
///
/// # Errors
/// An OperationError if JavaScript refuses.
pub fn list(env: &Env, values: Vec<sys::napi_value>) -> Result<List> {
    let mut array = null_mut();
    // SAFETY: this is the JavaScript thread of `env`, and the values live until its native frame ends.
    let made = unsafe {
        check_status!(sys::napi_create_array_with_length(env.raw(), values.len(), &mut array)).and_then(|()| {
            values
                .into_iter()
                .enumerate()
                .try_for_each(|(at, value)| check_status!(sys::napi_set_element(env.raw(), array, at as u32, value)))
        })
    };
    made.map(|()| List(array)).map_err(refused)
}

/// Converts a value of any type that napi-rs supports. Called on the JavaScript thread of `env`.
///
/// # Errors
/// An OperationError if JavaScript refuses it.
pub fn value<T: ToNapiValue>(env: &Env, value: T) -> Result<sys::napi_value> {
    // SAFETY: the environment is alive, and this is its thread.
    unsafe { T::to_napi_value(env.raw(), value) }.map_err(refused)
}

/// An ArrayBuffer with a copy of `bytes`, which must be few: running out of memory ends the process. Called on the
/// JavaScript thread of `env`.
///
/// # Errors
/// An OperationError if JavaScript refuses.
pub fn array_buffer(env: &Env, bytes: &[u8]) -> Result<sys::napi_value> {
    let (mut buffer, mut data) = (null_mut(), null_mut());
    // SAFETY: this is the JavaScript thread of `env`.
    check_status!(unsafe { sys::napi_create_arraybuffer(env.raw(), bytes.len(), &mut data, &mut buffer) })
        .map_err(refused)?;
    if !bytes.is_empty() {
        // SAFETY: the buffer has as many bytes, and nobody else has it yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data.cast(), bytes.len()) };
    }
    Ok(buffer)
}

/// The error for a value that JavaScript does not take.
fn refused(error: napi::Error) -> Error {
    Error::coded(Code::Operation, format!("a result cannot be passed to JavaScript: {}", error.reason))
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
    outstanding: Arc<Outstanding>,
    completed: Arc<Ended>,
    /// Contexts that end with the environment: their results could no longer be seen. They do not wait for the finalizers of
    /// their handles, which some runtimes do not run for a terminated worker.
    contexts: Arc<WeakList<Owner>>,
    /// What the handles of the environment keep alive.
    pub account: Arc<Account>,
    /// Copies of the environment's memory.
    pub copies: Arc<Copies>,
}

impl Environment {
    /// Creates the environment, which reports the ends of requests to `on_complete`.
    pub fn new(env: &Env, on_complete: Function<Completions, Unknown<'static>>) -> napi::Result<Arc<Environment>> {
        let (account, copies) = (Arc::new(Account::new(env)), Arc::<Copies>::default());
        let contexts = Arc::new(WeakList::<Owner>::default());
        let (outstanding, completed) = (Arc::new(Outstanding::new()), Arc::new(Ended(Mutex::new(Some(Vec::new())))));
        let ending = (contexts.clone(), completed.clone(), outstanding.clone(), account.clone(), copies.clone());
        env.add_env_cleanup_hook(ending, |(contexts, completed, outstanding, account, copies)| {
            account.close();
            copies.end();
            let is_last = ENVIRONMENTS.fetch_sub(1, Ordering::Relaxed) == 1;
            for Owner { context, .. } in contexts.drain().iter().map(|owner| &**owner) {
                if is_last { context.end_with_process(PATIENCE) } else { context.end() }
            }
            if is_last {
                finish_saving(SAVING);
            }
            completed.close();
            // Deno 2.9 keeps the event loop of a terminated worker, and with it two file descriptors, until an addon
            // that the worker loaded wakes that loop once more.
            outstanding.wake();
        })?;
        ENVIRONMENTS.fetch_add(1, Ordering::Relaxed);
        let (told, source, entered) = (outstanding.clone(), completed.clone(), account.clone());
        let notify = on_complete.build_threadsafe_function::<()>().weak::<true>().build_callback(
            move |call: napi::threadsafe_function::ThreadsafeCallContext<()>| {
                let completions = source.take();
                told.remove(&call.env, completions.iter().filter(|end| end.awaited).count());
                let arguments = arguments(&call.env, completions);
                entered.report();
                Ok(arguments)
            },
        )?;
        let notify = Arc::new(notify);
        drop(outstanding.notify.set(Arc::downgrade(&notify)));
        Ok(Arc::new(Environment { notify, outstanding, completed, contexts, account, copies }))
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

/// Converts the ends of requests. A request whose results cannot be converted fails; the others do not.
fn arguments(env: &Env, completions: Vec<End>) -> Completions {
    let ids = completions.iter().map(|end| end.id).collect();
    let ends: Vec<_> = completions.into_iter().map(|end| converted(env, end)).collect();
    let has_failures = ends.iter().any(|(error, _)| error.is_some());
    let has_details = ends.iter().any(|(_, Details(details))| details.is_some());
    let (mut codes, mut messages, mut details) = (Vec::new(), Vec::new(), Vec::new());
    for (error, detail) in ends {
        if has_failures {
            codes.push(error.as_ref().map_or("", Error::tag).to_string());
            messages.push(error.map_or_else(String::new, |error| error.message));
        }
        if has_details {
            details.push(detail);
        }
    }
    (ids, codes, messages, details).into()
}

/// The error of a request, if it has failed or its details cannot be converted, and its details.
fn converted(env: &Env, End { result, collect, .. }: End) -> (Option<Error>, Details) {
    let convert = || match &result {
        Ok(()) => collect.map(|collect| collect(env).and_then(|values| list(env, values)).map(|List(list)| list)),
        Err(Error { unsupported, .. }) if unsupported.is_empty() => None,
        Err(error) => Some(text(&error.unsupported).and_then(|json| value(env, json))),
    };
    match catch_unwind(AssertUnwindSafe(convert)).unwrap_or_else(|panic| Some(Err(panicked(&*panic)))).transpose() {
        Ok(details) => (result.err(), Details(details)),
        Err(error) => {
            clear_exception(env);
            // A request that has failed keeps its own error.
            (Some(result.err().unwrap_or_else(|| error.with_code())), Details(None))
        }
    }
}

/// Drops the exception that a failed conversion may have left: it would make all further ones fail.
fn clear_exception(env: &Env) {
    let (mut is_pending, mut exception) = (false, null_mut());
    // SAFETY: this is the JavaScript thread of `env`.
    unsafe {
        if sys::napi_is_exception_pending(env.raw(), &mut is_pending) == sys::Status::napi_ok && is_pending {
            sys::napi_get_and_clear_last_exception(env.raw(), &mut exception);
        }
    }
}
