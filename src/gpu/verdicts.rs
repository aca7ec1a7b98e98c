//! What was found out about drivers, kept in the [cache](super::cache) for later processes.

use super::cache;
use crate::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// How often a check may end without a verdict before it counts as failed: a driver that crashes in it, or hangs, would
/// end every process that tries.
const MAX_ATTEMPTS: u32 = 2;

/// How often to look whether another process has ended its check.
const LOOK: Duration = Duration::from_millis(20);

/// Something that a driver does wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What computes it.
    pub family: String,
    /// For people.
    pub problem: String,
}

/// What a file holds.
#[derive(Serialize, Deserialize)]
enum Stored {
    /// The number of checks that were begun.
    Attempts(u32),
    Found(Vec<Fault>),
}

fn load(name: &str) -> Stored {
    let stored = cache::load(name).and_then(|bytes| serde_json::from_slice(&bytes).ok());
    stored.unwrap_or(Stored::Attempts(0))
}

fn store(name: &str, stored: &Stored) {
    cache::store(name, &serde_json::to_vec(stored).expect("numbers and texts"));
}

/// A key made of the properties that identify a driver.
pub fn key(info: &wgpu::AdapterInfo) -> String {
    format!("{:?} {} {} {}", info.backend, info.name, info.driver, info.driver_info)
}

/// What an earlier check has found; `None` if there was none.
pub fn known(name: &str) -> Option<Vec<Fault>> {
    match load(name) {
        Stored::Found(faults) => Some(faults),
        Stored::Attempts(_) => None,
    }
}

/// What `check` finds, unless an earlier call or process knows. An attempt is counted before it begins; too many without
/// an end are a fault of `family`. Waits for `patience` while another process checks.
///
/// # Errors
/// Those of `check`. Where memory ran out, the attempt does not count.
pub fn once(
    name: &str,
    family: &str,
    patience: Duration,
    check: impl FnOnce() -> Result<Vec<Fault>>,
) -> Result<Vec<Fault>> {
    let start = Instant::now();
    // Held until the end, also if the process crashes. Without it, an attempt of another process would count as crashed.
    let lock = loop {
        match cache::try_lock(name) {
            cache::Lock::Taken if start.elapsed() < patience => std::thread::sleep(LOOK),
            lock => break lock,
        }
    };
    let attempts = match load(name) {
        Stored::Found(faults) => return Ok(faults),
        Stored::Attempts(attempts) => attempts,
    };
    if attempts >= MAX_ATTEMPTS && matches!(lock, cache::Lock::Held(_)) {
        let problem = format!("{attempts} checks did not end: the driver crashed, or did not answer");
        return Ok(vec![Fault { family: family.to_string(), problem }]);
    }
    store(name, &Stored::Attempts(attempts + 1));
    match check() {
        Ok(faults) => {
            store(name, &Stored::Found(faults.clone()));
            Ok(faults)
        }
        Err(error) => {
            if error.kind == ErrorKind::Unknown {
                store(name, &Stored::Attempts(attempts));
            }
            Err(Error { message: format!("its check failed: {}", error.message), ..error })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(test: &str) -> String {
        format!("test of verdicts {test} {}", std::process::id())
    }

    fn fault(problem: &str) -> Fault {
        Fault { family: "sums".to_string(), problem: problem.to_string() }
    }

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn a_verdict_is_found_once() {
        let name = name("once");
        assert_eq!(known(&name), None);
        assert_eq!(once(&name, "sums", PATIENCE, || Ok(vec![fault("1 is 2")])), Ok(vec![fault("1 is 2")]));
        assert_eq!(once(&name, "sums", PATIENCE, || panic!("it is known")), Ok(vec![fault("1 is 2")]));
        assert_eq!(known(&name), Some(vec![fault("1 is 2")]));
        cache::remove(&name);
    }

    #[test]
    fn checks_that_do_not_end_are_a_fault() {
        let name = name("crashes");
        let lost = || Err(Error::new(ErrorKind::Operation, "the GPU was lost"));
        let no_memory = || Err(Error::new(ErrorKind::Unknown, "no memory"));
        for check in [lost as fn() -> Result<Vec<Fault>>, no_memory, no_memory, lost] {
            let error = once(&name, "sums", PATIENCE, check).unwrap_err();
            assert!(error.message.starts_with("its check failed: "), "{error}");
        }
        let faults = once(&name, "sums", PATIENCE, || panic!("not again")).unwrap();
        assert_eq!(faults, [fault("2 checks did not end: the driver crashed, or did not answer")]);
        cache::remove(&name);
    }

    #[test]
    fn processes_wait_for_the_check_of_another() {
        let name = name("others");
        let cache::Lock::Held(held) = cache::try_lock(&name) else { panic!("nobody holds it") };
        let own = name.clone();
        let other = std::thread::spawn(move || once(&own, "sums", PATIENCE, || panic!("the other has checked")));
        std::thread::sleep(3 * LOOK);
        store(&name, &Stored::Found(Vec::new()));
        drop(held);
        assert_eq!(other.join().unwrap(), Ok(Vec::new()));
        cache::remove(&name);
    }
}
