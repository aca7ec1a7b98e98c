//! The memory of the machine, within the limits that its system sets for this process. One file per system.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
use linux::limits;
#[cfg(target_os = "macos")]
use macos::limits;
#[cfg(windows)]
use windows::limits;

use std::sync::OnceLock;

/// Other systems are not asked.
#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
fn limits() -> Vec<u64> {
    Vec::new()
}

/// Bytes of memory of this machine, or of the container or group of processes that this process runs in, whichever is
/// the least; `usize::MAX` if the system does not tell.
pub fn machine_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let least = limits().into_iter().min().unwrap_or(u64::MAX);
        usize::try_from(least).unwrap_or(usize::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_its_memory() {
        let bytes = machine_bytes();
        assert!(bytes > 64 << 20, "{bytes}");
        assert_eq!(bytes < usize::MAX, cfg!(any(target_os = "linux", target_os = "macos", windows)), "{bytes}");
    }
}
