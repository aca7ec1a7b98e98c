//! The memory of a Windows machine, and the limits of the job that this process is in: containers are jobs.

use std::ptr::null_mut;
use windows_sys::Win32::System::JobObjects::{
    JOB_OBJECT_LIMIT_JOB_MEMORY, JOB_OBJECT_LIMIT_PROCESS_MEMORY, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JobObjectExtendedLimitInformation, QueryInformationJobObject,
};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};

/// The physical memory and the limits of the job in bytes, as far as the system tells.
pub fn limits() -> Vec<u64> {
    physical_memory().into_iter().chain(job_limits()).collect()
}

fn physical_memory() -> Option<u64> {
    let mut status = MEMORYSTATUSEX { dwLength: size_of::<MEMORYSTATUSEX>() as u32, ..Default::default() };
    // SAFETY: `status` is a structure of the length that it states.
    let told = unsafe { GlobalMemoryStatusEx(&mut status) } != 0;
    told.then_some(status.ullTotalPhys)
}

fn job_limits() -> Vec<u64> {
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    let (kind, size) = (JobObjectExtendedLimitInformation, size_of_val(&limits) as u32);
    let into = (&raw mut limits).cast();
    // SAFETY: the structure is that of this kind of information and has `size` bytes. Without a handle, the system takes
    // the job of this process; it fails if there is none.
    if unsafe { QueryInformationJobObject(null_mut(), kind, into, size, null_mut()) } == 0 {
        return Vec::new();
    }
    let set = limits.BasicLimitInformation.LimitFlags;
    [(JOB_OBJECT_LIMIT_PROCESS_MEMORY, limits.ProcessMemoryLimit), (JOB_OBJECT_LIMIT_JOB_MEMORY, limits.JobMemoryLimit)]
        .into_iter()
        .filter(|(flag, _)| set & flag != 0)
        .map(|(_, limit)| limit as u64)
        .collect()
}
