//! How asynchronous requests end in JavaScript: one thread-safe function per environment, which keeps the process
//! alive only while requests are outstanding.

use crate::error::Result;
use crate::runtime::Done;
use napi::bindgen_prelude::{FnArgs, Function, Unknown};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode, ThreadsafeFunctionHandle};
use napi::{Env, Status, sys};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// `(id, code, message)`; an empty code is success.
type Completion = FnArgs<(u32, String, String)>;
type Notify = ThreadsafeFunction<Completion, Unknown<'static>, Completion, Status, false, true>;

/// Counts the requests whose end has not reached JavaScript. Only used on the JavaScript thread.
#[derive(Default)]
struct Outstanding {
    count: AtomicUsize,
    notify: OnceLock<Weak<ThreadsafeFunctionHandle>>,
}

impl Outstanding {
    fn add(&self, env: &Env) {
        if self.count.fetch_add(1, Ordering::Relaxed) == 0 {
            self.keep_alive(env, true);
        }
    }

    fn remove(&self, env: &Env) {
        if self.count.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.keep_alive(env, false);
        }
    }

    /// Whether the event loop waits for the thread-safe function.
    fn keep_alive(&self, env: &Env, alive: bool) {
        let Some(notify) = self.notify.get().and_then(Weak::upgrade) else { return };
        notify.with_read_aborted(|aborted| {
            if aborted {
                return;
            }
            let (env, function) = (env.raw(), notify.get_raw());
            // SAFETY: this runs on the JavaScript thread of `env`, which made the function, and it is not aborted.
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
    ended: Arc<AtomicBool>,
}

impl Environment {
    /// The environment whose requests are told to `on_complete`.
    pub fn new(env: &Env, on_complete: Function<Completion, Unknown<'static>>) -> napi::Result<Arc<Environment>> {
        let ended = Arc::new(AtomicBool::new(false));
        env.add_env_cleanup_hook(ended.clone(), |ended| ended.store(true, Ordering::Release))?;
        let outstanding = Arc::new(Outstanding::default());
        let told = outstanding.clone();
        let notify = on_complete.build_threadsafe_function::<Completion>().weak::<true>().build_callback(
            move |call: napi::threadsafe_function::ThreadsafeCallContext<Completion>| {
                told.remove(&call.env);
                Ok(call.value)
            },
        )?;
        drop(outstanding.notify.set(Arc::downgrade(&notify.handle)));
        Ok(Arc::new(Environment { notify: Arc::new(notify), outstanding, ended }))
    }

    /// Whether the environment is gone, or about to go: nobody sees the end of any request.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The end of request `id`, which is outstanding from now on. Called on the JavaScript thread. JavaScript is told
    /// even if the request is refused at once; it ignores the end of a request that it never made.
    pub fn request(self: &Arc<Self>, env: &Env, id: u32) -> Done {
        self.outstanding.add(env);
        let notify = self.notify.clone();
        Done::new(move |result| tell(&notify, id, result))
    }
}

fn tell(notify: &Notify, id: u32, result: Result<()>) {
    let (code, message) = match result {
        Ok(()) => (String::new(), String::new()),
        Err(error) => (error.kind.name().to_string(), error.message),
    };
    // When the environment has ended, nobody is left to be told.
    notify.call((id, code, message).into(), ThreadsafeFunctionCallMode::NonBlocking);
}
