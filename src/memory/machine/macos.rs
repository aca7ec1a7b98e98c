//! macOS has no limits but that of the machine.

/// The physical memory in bytes, if the system tells.
pub fn limits() -> Vec<u64> {
    let (mut bytes, mut size) = (0u64, size_of::<u64>());
    let (name, into) = (c"hw.memsize", (&raw mut bytes).cast());
    // SAFETY: the name ends with NUL; the system writes at most `size` bytes to `bytes`, and how many to `size`; there is
    // no new value to set.
    let status = unsafe { libc::sysctlbyname(name.as_ptr(), into, &mut size, std::ptr::null_mut(), 0) };
    (status == 0 && size == size_of::<u64>()).then_some(bytes).into_iter().collect()
}
