//! The folder of stores: whom it may belong to, and what is removed from it.

use super::file::{self, Damage, StoreFile, VERSION};
use super::key::Key;
use super::model::{Label, ModelId, PACKING_VERSION};
use crate::error::{Code, Error, Result};
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Overrides the user's cache folder; `off` disables what is kept in it.
pub const CACHE_VARIABLE: &str = "WEBNN_CACHE_DIR";

/// Maximum size of all stores in a folder, in bytes, as a number.
pub const LIMIT_VARIABLE: &str = "WEBNN_CACHE_BYTES";

/// Maximum size of all stores in a folder, in bytes, if nothing else is said.
const LIMIT: u64 = 20 << 30;

/// The end of the names of stores.
const EXTENSION: &str = "pack";

/// How old the time of the last use may be: it is written seldom.
const USED: Duration = Duration::from_secs(3600);

/// How long after it was made a file is surely locked if somebody writes it.
const LOCKED: Duration = Duration::from_secs(10);

/// The user's cache folder of this package: `WEBNN_CACHE_DIR`, or the usual place of the system; `None` if there is none or
/// it is turned off.
pub fn user_folder() -> Option<PathBuf> {
    match std::env::var_os(CACHE_VARIABLE).filter(|value| !value.is_empty()) {
        Some(value) if value == "off" => None,
        Some(value) => Some(PathBuf::from(value)),
        None => Some(dirs::cache_dir()?.join("webnn-node")),
    }
}

/// A folder of stores that nobody else can write.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    limit: u64,
}

/// A store in a folder.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The path of the file.
    pub path: PathBuf,
    /// What people should know about it; `None` if it is invalid, of another version, or cannot be read.
    pub label: Option<Label>,
    /// Number of entries.
    pub entries: usize,
    /// Size in bytes.
    pub bytes: u64,
    /// When it was last opened, within an hour.
    pub used: SystemTime,
    /// Whether it is surely no whole store, for any version of this package.
    pub is_invalid: bool,
}

/// The end of the names of stores for an instruction set.
fn ending(isa: &str) -> String {
    format!("{isa}-{PACKING_VERSION}-{VERSION}.{EXTENSION}")
}

/// Whether the name of a file is one that stores have, or files that become stores: others belong to somebody else.
fn is_ours(path: &Path, extension: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let key = name.strip_prefix("file-").or_else(|| name.strip_prefix("model-")).and_then(|rest| rest.split_once('-'));
    let is_key = |key: &str| key.len() == 2 * Key::LEN && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    key.is_some_and(|(key, _)| is_key(key)) && path.extension().is_some_and(|own| own == extension)
}

/// Whether the format of a store is the one of this package.
fn is_of_this_version(path: &Path) -> bool {
    path.to_str().is_some_and(|name| name.ends_with(&format!("-{VERSION}.{EXTENSION}")))
}

fn failure(message: String) -> Error {
    Error::coded(Code::NotSupported, message)
}

impl Folder {
    /// The folder at `path`, or the user's; it is made if it is missing.
    ///
    /// # Errors
    /// If there is no such folder and it cannot be made, if others can write it, or it belongs to neither this user nor
    /// the administrator.
    pub fn open(path: Option<&Path>) -> Result<Folder> {
        let path = match path {
            Some(path) => path.to_path_buf(),
            None => {
                let none = || failure(format!("there is no folder for the user's caches, or {CACHE_VARIABLE} is off"));
                user_folder().ok_or_else(none)?.join("weights")
            }
        };
        let told = |what: &str, error: io::Error| failure(format!("{} {what}: {error}", path.display()));
        if !path.is_dir() {
            make(&path).map_err(|error| told("cannot be made", error))?;
        }
        let metadata = fs::metadata(&path).map_err(|error| told("cannot be read", error))?;
        let path = path.canonicalize().map_err(|error| told("cannot be read", error))?;
        if !metadata.is_dir() {
            return Err(failure(format!("{} is not a folder", path.display())));
        }
        if let Some(why) = distrust(&metadata) {
            return Err(failure(format!("{} {why}", path.display())));
        }
        let limit = match std::env::var(LIMIT_VARIABLE).ok().filter(|text| !text.is_empty()) {
            None => LIMIT,
            Some(text) => text
                .parse()
                .map_err(|_| failure(format!("{LIMIT_VARIABLE} is {text:?}, expected a number of bytes")))?,
        };
        Ok(Folder { path, limit })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the store of a model for an instruction set.
    pub fn path_of(&self, id: &ModelId, isa: &str) -> PathBuf {
        let (kind, key) = match id {
            ModelId::Stamp(stamp) => ("file".to_string(), stamp.key()),
            ModelId::Contents(key) => ("model".to_string(), *key),
        };
        self.path.join(format!("{kind}-{key}-{}", ending(isa)))
    }

    /// Whether there may be stores of models that are recognized by their contents.
    pub fn has_contents(&self, isa: &str) -> bool {
        let end = ending(isa);
        let is_one = |name: &str| name.starts_with("model-") && name.ends_with(&end);
        fs::read_dir(&self.path).is_ok_and(|mut all| {
            all.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(is_one)))
        })
    }

    /// The valid store at `path`, if there is one that nobody else can write.
    pub fn open_file(&self, path: &Path) -> Option<StoreFile> {
        let file = open_plain(path).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || distrust(&metadata).is_some() {
            return None;
        }
        let store = StoreFile::open(&file).ok()??;
        let now = SystemTime::now();
        if metadata.modified().is_ok_and(|used| now.duration_since(used).is_ok_and(|age| age > USED)) {
            // Of a file that belongs to the administrator, nobody removes what is old.
            let _ = file.set_modified(now);
        }
        Some(store)
    }

    /// Puts a store in place of the file at `path`, with the entries of `old` and the `new` ones. Then removes what was
    /// used longest ago, if all stores together are too large.
    ///
    /// # Errors
    /// If the system refuses, for example because the disk is full: then nothing has changed.
    pub fn replace(
        &self,
        path: &Path,
        label: &Label,
        old: Option<&StoreFile>,
        new: &[(Key, &[u8], bool)],
    ) -> io::Result<()> {
        // Containers that share the folder have processes of the same number.
        let temporary = path.with_extension(format!("{:016x}.new", RandomState::new().build_hasher().finish()));
        let mut file = create_plain(&temporary)?;
        // Tells others that it is being written, until this process ends; file systems without locks are rare.
        let _ = file.try_lock();
        let written = file::write(&mut file, label, old, new).and_then(|()| file.sync_all());
        let renamed = written.and_then(|()| fs::rename(&temporary, path));
        drop(file);
        if renamed.is_err() {
            // The first failure says what is wrong.
            let _ = fs::remove_file(&temporary);
        }
        renamed?;
        sync_folder(&self.path);
        // What cannot be removed now, the next writer removes.
        let _ = self.prune(self.limit, Some(path));
        Ok(())
    }

    /// All stores, those used longest ago first.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn list(&self) -> io::Result<Vec<Listed>> {
        Ok(self.opened()?.into_iter().map(|(listed, _)| listed).collect())
    }

    /// The same, with the stores that are valid.
    fn opened(&self) -> io::Result<Vec<(Listed, Option<StoreFile>)>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            if !is_ours(&path, EXTENSION) {
                continue;
            }
            // Another process may have removed it.
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.is_file() {
                let opened = open_plain(&path).and_then(|file| StoreFile::open(&file));
                let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                // Another version of this package may know what this one does not.
                let is_invalid = matches!(opened, Ok(None)) && is_of_this_version(&path);
                let store = opened.ok().flatten();
                let (label, entries) =
                    store.as_ref().map_or((None, 0), |store| (Some(store.label().clone()), store.count()));
                all.push((Listed { path, label, entries, bytes: metadata.len(), used, is_invalid }, store));
            }
        }
        all.sort_unstable_by(|(a, _), (b, _)| (a.used, &a.path).cmp(&(b.used, &b.path)));
        Ok(all)
    }

    /// Removes what was used longest ago until all stores together have at most `limit` bytes, and files that are invalid
    /// or were not written to their end; never `kept`. Returns what it removed.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn prune(&self, limit: u64, kept: Option<&Path>) -> io::Result<Vec<Listed>> {
        self.remove_abandoned()?;
        let all = self.list()?;
        let mut size: u64 = all.iter().map(|one| one.bytes).sum();
        let mut removed = Vec::new();
        for one in all {
            let goes = one.is_invalid || size > limit;
            if goes && Some(one.path.as_path()) != kept && fs::remove_file(&one.path).is_ok() {
                size -= one.bytes;
                removed.push(one);
            }
        }
        Ok(removed)
    }

    /// The damaged entries of each store that has some.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn verify(&self) -> io::Result<Vec<(Listed, Vec<Damage>)>> {
        let damaged =
            |(one, store): (Listed, Option<StoreFile>)| (one, store.map_or(Vec::new(), |store| store.damaged()));
        let all = self.opened()?.into_iter().map(damaged);
        Ok(all.filter(|(one, damage)| one.is_invalid || !damage.is_empty()).collect())
    }

    fn remove_abandoned(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let path = entry.path();
            // Nobody else locks a file for reading.
            let is_abandoned = || {
                let age = entry.metadata().and_then(|metadata| metadata.modified()).ok()?.elapsed().ok()?;
                let file = open_plain(&path).ok().filter(|_| age > LOCKED)?;
                file.try_lock().ok()
            };
            if is_ours(&path, "new") && is_abandoned().is_some() {
                // Another process may do the same.
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    /// The most bytes that all stores together may have.
    pub fn limit(&self) -> u64 {
        self.limit
    }
}

#[cfg(unix)]
fn make(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
fn make(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Why what is in a file or folder may be somebody else's work, if it may.
#[cfg(unix)]
fn distrust(metadata: &Metadata) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt;
    // SAFETY: this only asks for a number.
    let own = unsafe { libc::geteuid() };
    if metadata.uid() != own && metadata.uid() != 0 {
        return Some("belongs to another user");
    }
    (metadata.mode() & 0o022 != 0).then_some("can be written by other users")
}

/// Elsewhere, the system's own folders for caches are private.
#[cfg(not(unix))]
fn distrust(_: &Metadata) -> Option<&'static str> {
    None
}

/// Rights to a file in Windows.
#[cfg(windows)]
const GENERIC_READ: u32 = 0x8000_0000;
#[cfg(windows)]
const FILE_WRITE_ATTRIBUTES: u32 = 0x100;

/// Opens a file for reading; no link, and without waiting for a pipe.
fn open_plain(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
    }
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        // Also to note the time of the last use.
        options.access_mode(GENERIC_READ | FILE_WRITE_ATTRIBUTES);
    }
    options.open(path)
}

/// Makes a file that did not exist.
fn create_plain(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
    }
    options.open(path)
}

/// Makes a rename survive a crash of the system, where that can be asked for.
fn sync_folder(path: &Path) {
    if cfg!(unix) {
        // Without, an old file or none may be there afterwards: then the weights are packed again.
        let _ = File::open(path).and_then(|folder| folder.sync_all());
    }
}
