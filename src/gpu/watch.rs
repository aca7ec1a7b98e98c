//! Watches calls into drivers: a driver that does not answer must not keep a context, or the process, for ever.
//!
//! Nothing can interrupt a call. When one takes longer than it may, its device counts as lost: a thread of its own tells
//! whoever listens, while the calling thread stays where it is.

use super::exit::{self, enter};
use super::loss::Loss;
use crate::error::{Error, ErrorKind, Result, panic_text};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Number of seconds that a driver may take for a call, or for a submission of ordinary size.
pub const PATIENCE_VARIABLE: &str = "WEBNN_GPU_PATIENCE";

/// Seconds without the variable, on hardware: operating systems reset a GPU that seems to hang for less.
const OF_HARDWARE: u64 = 10;

/// Seconds without the variable, on a CPU that emulates a GPU: it computes as slowly as the machine is busy.
const OF_SOFTWARE: u64 = 600;

/// The accepted values of the variable.
const ACCEPTED: std::ops::RangeInclusive<u64> = 1..=86_400;

/// How many times as long a driver may take to be loaded, to open a device, or to compile a kernel. The first two take
/// some 10 seconds on machines with many GPUs that were asleep.
pub const LONG: u32 = 6;

/// How often the thread looks at the calls.
const TICK: Duration = Duration::from_millis(200);

/// How long a driver may take for a call; `software` says whether it is a CPU that emulates a GPU.
///
/// # Errors
/// A NotSupportedError for an invalid value of [`PATIENCE_VARIABLE`].
pub fn patience(software: bool) -> Result<Duration> {
    let default = if software { OF_SOFTWARE } else { OF_HARDWARE };
    let seconds = match std::env::var(PATIENCE_VARIABLE).as_deref() {
        Err(_) | Ok("") => default,
        Ok(text) => text.parse().ok().filter(|seconds| ACCEPTED.contains(seconds)).ok_or_else(|| {
            let (least, most) = ACCEPTED.into_inner();
            let message = format!("{PATIENCE_VARIABLE} is {text:?}, expected an integer from {least} to {most}");
            Error::new(ErrorKind::NotSupported, message)
        })?,
    };
    Ok(Duration::from_secs(seconds))
}

/// A call in progress.
struct Call {
    id: u64,
    thread: ThreadId,
    /// The device, or the drivers as a whole, that does not answer if the call takes too long.
    loss: Arc<Loss>,
    what: &'static str,
    allowed: Duration,
    /// Since the first look. Adds up looks instead of comparing clocks: a process that was stopped meanwhile must not blame
    /// the driver.
    age: Option<Duration>,
    is_overdue: bool,
}

struct Calls {
    calls: Vec<Call>,
    /// Number of calls so far.
    count: u64,
    has_thread: bool,
    /// Whether the thread waits for a call.
    sleeps: bool,
}

static CALLS: Mutex<Calls> = Mutex::new(Calls { calls: Vec::new(), count: 0, has_thread: false, sleeps: false });
static BEGINNING: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Calls> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the calls watched from now on.
///
/// # Errors
/// An `OperationError` if the thread for it cannot be started.
pub fn start() -> Result<()> {
    let mut calls = lock();
    if !calls.has_thread {
        let thread = std::thread::Builder::new().name("webnn-watch".into()).spawn(look_after);
        let failed = |error| Error::new(ErrorKind::Operation, format!("a thread for the GPU did not start: {error}"));
        thread.map_err(failed)?;
        calls.has_thread = true;
    }
    Ok(())
}

/// Ends the watch over a call when dropped.
struct Watch(u64);

impl Watch {
    fn begin(loss: &Arc<Loss>, what: &'static str, allowed: Duration) -> Watch {
        let mut calls = lock();
        calls.count += 1;
        let id = calls.count;
        let (thread, loss) = (std::thread::current().id(), loss.clone());
        calls.calls.push(Call { id, thread, loss, what, allowed, age: None, is_overdue: false });
        if std::mem::take(&mut calls.sleeps) {
            BEGINNING.notify_one();
        }
        Watch(id)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut calls = lock();
        let index = calls.calls.iter().position(|call| call.id == self.0).expect("it is in the list until here");
        let call = calls.calls.swap_remove(index);
        drop(calls);
        drop(call);
    }
}

/// Runs `work`, which calls the driver of the device that `loss` belongs to, for at most `allowed`: if it takes longer,
/// the device is lost meanwhile. A panic, by which wgpu reports errors where it has no other way to fail, becomes an
/// `OperationError`.
pub fn guarded<T>(loss: &Arc<Loss>, what: &'static str, allowed: Duration, work: impl FnOnce() -> T) -> Result<T> {
    let _inside = enter();
    let _watch = Watch::begin(loss, what, allowed);
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic_text(&*panic).unwrap_or("for an unknown reason");
        Error::new(ErrorKind::Operation, format!("the GPU failed ({what}): {text}"))
    })
}

/// Whether a call of this device has not returned in time, and still has not.
pub fn is_stuck(loss: &Arc<Loss>) -> bool {
    lock().calls.iter().any(|call| call.is_overdue && Arc::ptr_eq(&call.loss, loss))
}

/// The number of threads that may never return from a driver.
pub fn stuck_threads() -> usize {
    let calls = lock();
    let mut threads: Vec<ThreadId> = Vec::new();
    for call in calls.calls.iter().filter(|call| call.is_overdue) {
        if !threads.contains(&call.thread) {
            threads.push(call.thread);
        }
    }
    threads.len()
}

/// What the thread does.
fn look_after() {
    loop {
        let mut calls = lock();
        calls.sleeps = calls.calls.is_empty();
        let calls = BEGINNING.wait_while(calls, |calls| calls.sleeps).unwrap_or_else(PoisonError::into_inner);
        drop(calls);
        let start = Instant::now();
        std::thread::sleep(TICK);
        let passed = start.elapsed().min(2 * TICK);
        // Listeners, and the end of the process, look at the calls, too: the lock must not last as long as the loop.
        let told = overdue(&mut lock().calls, passed);
        for (loss, reason) in told {
            loss.tell_that_it_hangs(&reason);
            exit::look_again();
        }
    }
}

/// Adds `passed` to the age of all calls; returns the devices of those that have become overdue, with the reason.
fn overdue(calls: &mut [Call], passed: Duration) -> Vec<(Arc<Loss>, String)> {
    let mut told = Vec::new();
    for call in calls {
        let age = call.age.map_or(Duration::ZERO, |age| age + passed);
        call.age = Some(age);
        if !call.is_overdue && age > call.allowed {
            call.is_overdue = true;
            let (what, seconds) = (call.what, call.allowed.as_secs_f64());
            told.push((call.loss.clone(), format!("its driver has not answered for {seconds} s ({what})")));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_call_that_does_not_return_loses_its_device_and_no_other() {
        start().unwrap();
        let [hanging, other] = [(); 2].map(|()| Arc::new(Loss::new(Duration::from_secs(1))));
        let (go, wait) = channel::<()>();
        let called = hanging.clone();
        let thread = std::thread::spawn(move || {
            guarded(&called, "a test", Duration::from_millis(300), || wait.recv().unwrap_err()).map(drop)
        });
        let start = Instant::now();
        while hanging.lost().is_none() {
            guarded(&other, "another test", Duration::from_millis(300), std::thread::yield_now).unwrap();
            assert!(start.elapsed() < Duration::from_secs(10), "the device is not lost");
        }
        assert!(start.elapsed() >= Duration::from_millis(300));
        let lost = hanging.lost().expect("lost");
        assert!(lost.hangs && lost.reason == "its driver has not answered for 0.3 s (a test)", "{}", lost.reason);
        assert!(is_stuck(&hanging) && stuck_threads() >= 1);
        assert!(other.lost().is_none() && !is_stuck(&other));
        drop(go);
        thread.join().expect("no panic").expect("the call returned");
        assert!(!is_stuck(&hanging));
    }

    #[test]
    fn a_stopped_process_does_not_blame_the_driver() {
        let mut calls = [Call {
            id: 0,
            thread: std::thread::current().id(),
            loss: Arc::new(Loss::new(Duration::from_secs(1))),
            what: "a test",
            allowed: Duration::from_secs(2),
            age: None,
            is_overdue: false,
        }];
        for _ in 0..3 {
            assert!(overdue(&mut calls, Duration::from_secs(1)).is_empty());
        }
        assert_eq!(overdue(&mut calls, TICK).len(), 1);
        assert!(overdue(&mut calls, Duration::from_secs(9)).is_empty(), "it is told once");
    }

    #[test]
    fn a_panic_in_a_call_is_an_error() {
        let loss = Arc::new(Loss::new(Duration::from_secs(1)));
        let error = guarded(&loss, "a test", Duration::from_secs(1), || -> () { panic!("driver") }).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Operation, "the GPU failed (a test): driver"));
    }
}
