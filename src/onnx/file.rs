//! The bytes of a model: its own file or buffer, and the files next to it that `external_data` refers to.

use super::error::{ModelError, Result, quoted};
use super::proto;
use crate::error::{Code, Error, amount};
use crate::memory::store::{Folder, Label, ModelId, Store, StoreOptions};
use crate::memory::{Backing, Mapped, MappedFile, unreadable};
use bytes::Bytes;
use prost::Message;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

/// A file, or bytes in place of one.
pub enum FileSource {
    /// The file at this path.
    Path(PathBuf),
    /// These bytes.
    Bytes(Bytes),
}

/// Replacements for files next to a model, by location.
pub type ExternalData = Vec<(String, FileSource)>;

/// The files of one model. They are mapped into memory for parsing; elements are read through windows.
#[derive(Debug, Default)]
pub struct Files {
    /// The folder of the model; `None` for a model from bytes.
    folder: Option<PathBuf>,
    /// The model itself.
    main: Option<Opened>,
    /// Files next to it that were passed or opened, by location.
    open: Mutex<HashMap<PathBuf, Opened>>,
    /// Where what is packed of the weights is kept on disk, if it is.
    store: OnceLock<Arc<Store>>,
    /// How many imports of the model have begun.
    #[cfg(test)]
    pub imports: std::sync::atomic::AtomicUsize,
}

/// A file or buffer, and its bytes in the form that decoded messages share.
#[derive(Clone, Debug)]
struct Opened {
    backing: Backing,
    /// The same with the store of the model, once it has one.
    kept: OnceLock<Backing>,
    bytes: Bytes,
}

impl Opened {
    fn new(backing: Backing) -> Opened {
        Opened { bytes: Bytes::from_owner(backing.clone()), kept: OnceLock::new(), backing }
    }

    /// The backing, with `store` if there is one.
    fn kept_in(&self, store: Option<&Arc<Store>>) -> &Backing {
        store.map_or(&self.backing, |store| self.kept.get_or_init(|| self.backing.kept_in(store)))
    }

    fn source(source: FileSource) -> Result<Opened> {
        match source {
            FileSource::Path(path) => Opened::file(&path),
            FileSource::Bytes(bytes) => Ok(Opened::new(Backing::of_bytes(bytes))),
        }
    }

    fn file(path: &Path) -> Result<Opened> {
        let missing = |error: Error| {
            let hint = if is_hub_name(path) { ": models are files, nothing is downloaded by name" } else { "" };
            ModelError::coded(Code::ModelNotFound, error.message + hint)
        };
        let file = MappedFile::open(path).map_err(missing)?;
        Ok(Opened::new(file.into()))
    }
}

/// Whether `path` looks like the name of a model on a hub, as in `organization/model`, rather than like a file.
fn is_hub_name(path: &Path) -> bool {
    let parts: Vec<Component> = path.components().collect();
    matches!(parts[..], [Component::Normal(_), Component::Normal(_)])
        && path.extension().is_none_or(|extension| extension != "onnx")
}

/// Normalizes a location: `./weights.bin` becomes `weights.bin`.
fn plain(location: &str) -> PathBuf {
    Path::new(location).components().filter(|part| !matches!(part, Component::CurDir)).collect()
}

impl Files {
    /// Opens the model at `path`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(path: &Path) -> Result<(Files, Bytes)> {
        let main = Opened::file(path)?;
        let bytes = main.bytes.clone();
        let folder = path.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
        let folder = folder.map(Path::to_path_buf);
        Ok((Files { folder, main: Some(main), ..Files::default() }, bytes))
    }

    /// Wraps a model in `bytes`, with no files next to it.
    pub fn of_bytes(bytes: Bytes) -> (Files, Bytes) {
        let main = Opened::new(Backing::of_bytes(bytes));
        let bytes = main.bytes.clone();
        (Files { main: Some(main), ..Files::default() }, bytes)
    }

    /// Replaces files next to the model, by location.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn with_external_data(mut self, external_data: ExternalData) -> Result<Files> {
        let open = self.open.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        for (location, source) in external_data {
            let named = |error: ModelError| ModelError {
                message: format!("externalData {}: {}", quoted(&location), error.message),
                ..error
            };
            let opened = Opened::source(source).map_err(named)?;
            open.insert(plain(&location), opened);
        }
        Ok(self)
    }

    /// Size in bytes of the model's own file or buffer.
    pub fn byte_length(&self) -> usize {
        self.main.as_ref().map_or(0, |main| main.bytes.len())
    }

    /// Size in bytes of what is in memory: a model and files that were passed as bytes.
    pub fn memory_bytes(&self) -> usize {
        let open = self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let passed = self.main.iter().chain(open.values()).filter(|opened| opened.backing.file().is_none());
        passed.map(|opened| opened.bytes.len()).sum()
    }

    /// Keeps what is packed of the weights on disk from now on.
    ///
    /// # Errors
    /// A NotSupportedError if there is no folder that can be trusted, an OperationError if the model cannot be read.
    pub fn keep(&self, options: &StoreOptions, isa: &str) -> Result<(), Error> {
        let Some(main) = &self.main else { return Ok(()) };
        let folder = Folder::open(options.folder.as_deref())?;
        // Reading the whole model takes long: only if it may be of use.
        let file = main.backing.file().filter(|_| !options.by_contents);
        let contents = match file.is_some() && !folder.has_contents(isa) {
            true => None,
            false => Some(main.backing.contents()?),
        };
        let id = match (file, contents) {
            (None, Some(key)) => ModelId::Contents(key),
            (_, Some(key)) if folder.path_of(&ModelId::Contents(key), isa).exists() => ModelId::Contents(key),
            (Some(file), _) => ModelId::Stamp(file.stamp().clone()),
            (None, None) => unreachable!("what has no file is recognized by its contents"),
        };
        let shown = |path: &Path| std::path::absolute(path).unwrap_or(path.to_path_buf()).display().to_string();
        let model = main.backing.file().map_or("bytes".to_string(), |file| shown(file.path()));
        let label = Label { model, isa: isa.to_string() };
        self.store.get_or_init(|| Store::open(folder, &id, label, options.verifies));
        Ok(())
    }

    /// Where what is packed of the weights is kept on disk, if it is.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.store.get()
    }

    /// The window over `bytes` if they are part of one of the files.
    pub fn window_of(&self, bytes: &Bytes) -> Option<Mapped> {
        let open = self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let store = self.store.get();
        self.main.iter().chain(open.values()).find_map(|opened| opened.kept_in(store).window_of(bytes))
    }

    /// A window over `bytes`, which are in none of the files.
    pub fn held(&self, bytes: &Bytes) -> Mapped {
        let backing = Backing::of_bytes(bytes.clone());
        let backing = self.store.get().map_or(backing.clone(), |store| backing.kept_in(store));
        Mapped::new(backing, 0..bytes.len()).expect("all of it")
    }

    /// Checks, before parsing, that no file has been truncated: reading beyond its new end would crash the process.
    ///
    /// # Errors
    /// If a file has been truncated.
    pub fn check(&self) -> Result<()> {
        let open = self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut files = self.main.iter().chain(open.values()).filter_map(|opened| opened.backing.file());
        files.try_for_each(|file| file.check()).map_err(|error| ModelError::new(error.message))
    }

    /// Tells the system that `bytes`, which are part of the model's own file, will be read soon.
    pub fn expect_reads(&self, bytes: &Bytes) {
        let window = self.main.as_ref().and_then(|main| main.backing.window_of(bytes));
        if let Some((file, range)) = window.as_ref().and_then(|window| Some((window.backing().file()?, window.range())))
        {
            file.expect_reads(range);
        }
    }

    /// Tells the system that the parsed pages are not needed now: pages with little metadata and many weights no longer
    /// count as memory of this process.
    pub fn release(&self) {
        let open = self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for file in self.main.iter().chain(open.values()).filter_map(|opened| opened.backing.file()) {
            file.release(0..AsRef::<[u8]>::as_ref(&**file).len());
        }
    }

    /// The `expected` bytes that a tensor's `external_data` refers to.
    ///
    /// # Errors
    /// If the location is outside of the model's folder, the range is outside of the file, or the file cannot be read.
    pub fn external(&self, entries: &[Bytes], expected: usize) -> Result<Bytes> {
        let mut location = String::new();
        let (mut offset, mut length) = (0usize, expected);
        for entry in entries {
            let entry = proto::Entry::decode(entry.clone())
                .map_err(|error| ModelError::new(format!("an entry of external_data cannot be decoded: {error}")))?;
            let number = || {
                entry.value.parse::<usize>().map_err(|_| {
                    ModelError::new(format!(
                        "external_data has {} {}, expected a number",
                        entry.key,
                        quoted(&entry.value)
                    ))
                })
            };
            match entry.key.as_str() {
                "location" => location = entry.value,
                "offset" => offset = number()?,
                "length" => length = number()?,
                _ => {}
            }
        }
        if length != expected {
            return Err(ModelError::new(format!("external_data has {}, expected {expected}", amount(length, "byte"))));
        }
        let file = self.beside(&location)?;
        let end = offset.checked_add(length).filter(|&end| end <= file.len()).ok_or_else(|| {
            let has = file.len();
            ModelError::new(format!(
                "external_data needs {} at {offset}, {} has {has}",
                amount(length, "byte"),
                quoted(&location)
            ))
        })?;
        Ok(file.slice(offset..end))
    }

    /// Opens the file `location` in the model's folder or below it.
    fn beside(&self, location: &str) -> Result<Bytes> {
        let mut open = self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let relative = plain(location);
        if let Some(opened) = open.get(&relative) {
            return Ok(opened.bytes.clone());
        }
        let Some(folder) = &self.folder else {
            let message = format!(
                "its elements are in the file {}: load the model from a path to find it, or pass it as externalData",
                quoted(location)
            );
            return Err(ModelError::new(message));
        };
        let outside =
            || ModelError::new(format!("external_data points at {}, outside of the model's folder", quoted(location)));
        let is_below = relative.components().all(|part| matches!(part, Component::Normal(_)));
        if location.is_empty() || location.contains('\0') || !is_below {
            return Err(outside());
        }
        let path = folder.join(&relative);
        let unreadable = |error: std::io::Error| ModelError::new(unreadable(&path, &error));
        // Symbolic links must not lead out of the folder either.
        let real = path.canonicalize().map_err(unreadable)?;
        if !real.starts_with(folder.canonicalize().map_err(unreadable)?) {
            return Err(outside());
        }
        let opened = Opened::file(&real)?;
        let bytes = opened.bytes.clone();
        open.insert(relative, opened);
        Ok(bytes)
    }
}
