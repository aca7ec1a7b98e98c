//! Files in the user's cache folder that outlive the process: compiled kernels and findings about drivers. A missing,
//! damaged or outdated file counts as absent; an unwritable folder only costs time.

use crate::memory::store::user_folder;
use std::fs;
use std::path::PathBuf;

/// The first bytes of each file. The number changes with the format.
const MAGIC: &[u8] = b"webnn-node cache 1\n";

/// The path for `name`, with path separators replaced and the package version added.
fn file(name: &str) -> Option<PathBuf> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    Some(user_folder()?.join(format!("{}-{name}", env!("CARGO_PKG_VERSION"))))
}

/// Checksum of `data`, to detect truncated or damaged files.
fn checksum(data: &[u8]) -> [u8; 8] {
    rapidhash::v3::rapidhash_v3(data).to_le_bytes()
}

/// Returns the data stored under `name`.
pub fn load(name: &str) -> Option<Vec<u8>> {
    let bytes = fs::read(file(name)?).ok()?;
    let (sum, data) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    (checksum(data) == *sum).then(|| data.to_vec())
}

/// Stores `data` under `name`, atomically.
pub fn store(name: &str, data: &[u8]) {
    let Some(path) = file(name) else { return };
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let write = || {
        fs::create_dir_all(path.parent()?).ok()?;
        fs::write(&temporary, [MAGIC, &checksum(data), data].concat()).ok()?;
        fs::rename(&temporary, &path).ok()
    };
    if write().is_none() {
        // The file may not exist, and a failure needs no handling.
        let _ = fs::remove_file(&temporary);
    }
}

/// An attempt to be the only process that does something.
pub enum Lock {
    /// No other process holds it until the file is dropped.
    Held(fs::File),
    /// Another process holds it.
    Taken,
    /// There are no locks: the folder is turned off, or unwritable.
    Impossible,
}

/// Takes the lock of `name`, unless another process or thread holds it. It ends with the process at the latest.
pub fn try_lock(name: &str) -> Lock {
    let open = |path: PathBuf| {
        fs::create_dir_all(path.parent()?).ok()?;
        fs::OpenOptions::new().create(true).truncate(false).write(true).open(path).ok()
    };
    match file(&format!("{name}.lock")).and_then(open) {
        None => Lock::Impossible,
        Some(file) => match file.try_lock() {
            Ok(()) => Lock::Held(file),
            Err(fs::TryLockError::WouldBlock) => Lock::Taken,
            Err(fs::TryLockError::Error(_)) => Lock::Impossible,
        },
    }
}

/// Removes what tests have stored.
#[cfg(test)]
pub fn remove(name: &str) {
    for name in [name, &format!("{name}.lock")] {
        let _ = fs::remove_file(file(name).expect("a cache folder"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_and_foreign_files_are_ignored() {
        let name = format!("test {}/../x", std::process::id());
        let path = file(&name).expect("a cache folder");
        assert!(path.starts_with(user_folder().unwrap()) && path.parent() == user_folder().as_deref());
        assert_eq!(load(&name), None);
        store(&name, b"verdict");
        assert_eq!(load(&name).as_deref(), Some(&b"verdict"[..]));
        let stored = fs::read(&path).unwrap();
        for length in 0..stored.len() {
            fs::write(&path, &stored[..length]).unwrap();
            assert_eq!(load(&name), None, "{length} of {} bytes", stored.len());
        }
        for at in 0..stored.len() {
            let mut damaged = stored.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).unwrap();
            assert_eq!(load(&name), None, "another byte {at}");
        }
        fs::remove_file(&path).unwrap();
    }
}
