//! Settings from the environment, and the number of threads that suits the machine.

use crate::compile::Passes;
use crate::cpu::plan::PlanOptions;
use crate::error::{Error, ErrorKind, Result};

/// Number of threads of every context that does not request a number.
pub const THREADS_VARIABLE: &str = "WEBNN_NUM_THREADS";
/// Compiler passes to disable: names separated by commas, or `all`.
pub const PASSES_VARIABLE: &str = "WEBNN_DISABLE_PASSES";
/// `1` fills the arena with NaN before each dispatch.
pub const FILL_VARIABLE: &str = "WEBNN_FILL_ARENA";
/// How many sets of sizes have cached plans, per model or graph.
pub const KEPT_VARIABLE: &str = "WEBNN_KEPT_SIZES";

/// Number of cached plans by default: a plan takes kilobytes, and shares the memory of packed weights.
pub const KEPT_SIZES: usize = 8;

/// The debug settings.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The passes to run.
    pub passes: Passes,
    /// How plans are made.
    pub plan: PlanOptions,
    /// How many plans for different sizes to keep.
    pub kept_sizes: usize,
}

/// The value of the environment variable; `None` if it is empty.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
}

fn refuse(name: &str, value: &str, expected: &str) -> Error {
    Error::new(ErrorKind::NotSupported, format!("{name} is {value:?}, expected {expected}"))
}

impl Settings {
    /// Reads the variables.
    ///
    /// # Errors
    /// A NotSupportedError that names the variable, its value and the expected values.
    pub fn from_environment() -> Result<Settings> {
        let (passes, fill_arena) = (passes()?, fill_arena()?);
        let plan = PlanOptions { share_views: passes.views, winograd: passes.winograd, fill_arena };
        Ok(Settings { passes, plan, kept_sizes: kept_sizes()? })
    }
}

/// The passes that [`PASSES_VARIABLE`] does not disable.
pub(super) fn passes() -> Result<Passes> {
    let Some(names) = variable(PASSES_VARIABLE) else { return Ok(Passes::ALL) };
    let expected = || format!("all, or some of {} with commas between", Passes::NAMES.join(", "));
    Passes::without(&names).ok_or_else(|| refuse(PASSES_VARIABLE, &names, &expected()))
}

/// The value of [`FILL_VARIABLE`].
pub(super) fn fill_arena() -> Result<bool> {
    match variable(FILL_VARIABLE).as_deref() {
        None | Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(other) => Err(refuse(FILL_VARIABLE, other, "0 or 1")),
    }
}

/// The value of [`KEPT_VARIABLE`].
pub(super) fn kept_sizes() -> Result<usize> {
    Ok(number(KEPT_VARIABLE)?.unwrap_or(KEPT_SIZES))
}

/// A variable's value as a number between 1 and 1024.
fn number(name: &str) -> Result<Option<usize>> {
    let Some(text) = variable(name) else { return Ok(None) };
    match text.parse() {
        Ok(count @ 1..=1024) => Ok(Some(count)),
        _ => Err(refuse(name, &text, "a number between 1 and 1024")),
    }
}

/// The number of threads of a context that does not request one: from the environment, otherwise the number of physical
/// cores within the affinity mask and the cgroup quota; half of that, but at least one, for low power.
///
/// # Errors
/// A NotSupportedError if the environment's value is not a valid number of threads.
pub fn thread_count(low_power: bool) -> Result<usize> {
    let count = number(THREADS_VARIABLE)?.unwrap_or_else(machine_threads);
    Ok(if low_power { (count / 2).max(1) } else { count })
}

/// Physical cores within the affinity mask and the cgroup quota.
fn machine_threads() -> usize {
    // Respects affinity and quota, but counts logical processors.
    let available = std::thread::available_parallelism().map_or(1, |count| count.get());
    available.min(physical_cores().unwrap_or(available)).max(1)
}

/// The physical cores that this process may use, if the system reports them.
#[cfg(target_os = "linux")]
fn physical_cores() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut cores = std::collections::BTreeSet::new();
    for cpu in cpu_list(allowed.trim())? {
        let topology = |name: &str| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}");
            std::fs::read_to_string(path).ok()?.trim().parse::<i64>().ok()
        };
        cores.insert((topology("physical_package_id")?, topology("core_id")?));
    }
    Some(cores.len())
}

#[cfg(not(target_os = "linux"))]
fn physical_cores() -> Option<usize> {
    Some(num_cpus::get_physical())
}

/// Parses `0-3,8` into 0, 1, 2, 3, 8.
#[cfg(target_os = "linux")]
fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse().ok()?..=last.parse::<usize>().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_threads_are_within_the_affinity_mask() {
        let count = machine_threads();
        assert!(count >= 1 && count <= std::thread::available_parallelism().unwrap().get());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_list("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpu_list("5"), Some(vec![5]));
        assert_eq!(cpu_list("x"), None);
    }
}
