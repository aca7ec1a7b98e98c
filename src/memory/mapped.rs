//! Bytes owned by something else, usually a memory-mapped file, and windows over them: weights are read in place when
//! they are needed, and never copied as a whole.

use super::Buffer;
use super::store::{Key, Stamp, Store};
use crate::error::{Error, ErrorKind, Result, amount};
use memmap2::{Mmap, MmapOptions};
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// From this size on, in bytes, a file surely has weights, between which parsing reads little: the system would read much of
/// it ahead, which a process with packed weights in a store never needs.
#[cfg(unix)]
const MIN_SPARSE: usize = 32 << 20;

/// Bytes at the begin of a file that parsing mostly reads as a whole.
#[cfg(unix)]
const GRAPH: usize = 1 << 20;

/// A regular file, memory-mapped read-only and private.
///
/// [`as_ref`](MappedFile::as_ref) returns its bytes for parsing. If another process truncates the file, the system
/// kills a process that touches a page beyond the new end, which cannot be caught; [`check`](MappedFile::check) right
/// before parsing narrows the window to the duration of parsing. A [`Mapped`] window does not read through the map, but
/// from the open file, where truncation is an error at any time.
///
/// The file must not be rewritten in place while it is mapped: reads would return a mixture of old and new bytes.
/// Replacing it by a new file of the same name is safe.
pub struct MappedFile {
    id: u64,
    path: PathBuf,
    file: File,
    stamp: Stamp,
    /// Whether any change since it was opened gives another stamp.
    is_settled: bool,
    /// The key of the stamp, once somebody asks for it.
    key: OnceLock<Key>,
    map: Mmap,
}

impl MappedFile {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// An `OperationError` with the path if the file cannot be read or is not a regular file.
    pub fn open(path: impl AsRef<Path>) -> Result<Arc<MappedFile>> {
        let path = path.as_ref();
        let fail = |error: io::Error| failure(unreadable(path, &error));
        let regular = |metadata: std::fs::Metadata| match (metadata.is_file(), metadata.is_dir()) {
            (true, _) => Ok(()),
            (false, true) => Err(failure(format!("{} is a folder, expected a file", shown(path)))),
            (false, false) => Err(failure(format!("{} is not a regular file", shown(path)))),
        };
        // Checked before opening: opening a pipe would wait for a writer.
        std::fs::metadata(path).map_err(fail).and_then(regular)?;
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        let stamp = Stamp::new(&metadata, path);
        let is_settled = stamp.is_settled();
        regular(metadata)?;
        // SAFETY: nobody writes through this map, and no reader relies on the bytes: parsers check everything that they
        // read. Truncation of the file is documented above.
        let map = unsafe { MmapOptions::new().map_copy_read_only(&file) }.map_err(fail)?;
        #[cfg(unix)]
        if map.len() > MIN_SPARSE {
            use memmap2::Advice;
            // Only advice: it costs time at most.
            let _ = map.advise(Advice::Random).and_then(|()| map.advise_range(Advice::WillNeed, 0, GRAPH));
        }
        Ok(Arc::new(MappedFile {
            id: next_id(),
            path: path.to_path_buf(),
            file,
            stamp,
            is_settled,
            key: OnceLock::new(),
            map,
        }))
    }

    /// The path that the file was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the system said of the file when it was opened.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// The key of its [`stamp`](Self::stamp).
    pub fn key(&self) -> Key {
        *self.key.get_or_init(|| self.stamp.key())
    }

    /// Whether the file is surely the same as when it was opened.
    pub fn is_unchanged(&self) -> bool {
        self.is_settled && self.file.metadata().is_ok_and(|metadata| Stamp::new(&metadata, &self.path) == self.stamp)
    }

    /// Checks that the file has not become shorter since it was mapped.
    ///
    /// # Errors
    /// An `OperationError` with the path and both lengths if it has.
    pub fn check(&self) -> Result<()> {
        let metadata = self.file.metadata().map_err(|error| failure(unreadable(&self.path, &error)))?;
        if metadata.len() < self.map.len() as u64 { Err(self.shrunk(metadata.len())) } else { Ok(()) }
    }

    /// Tells the system that the pages of `range` are not needed now: they no longer count as memory of this process,
    /// and come from the page cache when they are read again.
    ///
    /// # Panics
    /// If `range` lies outside of the file.
    pub fn release(&self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.map.len());
        #[cfg(unix)]
        {
            use memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: the map is never written: every dropped page reads the same again from the file.
            let advised = unsafe { self.map.unchecked_advise_range(DontNeed, range.start, range.len()) };
            // Only advice: a system may keep the pages, for example those that the process locked.
            drop(advised);
        }
    }

    /// Tells the system that `range` will be read soon.
    ///
    /// # Panics
    /// If `range` lies outside of the file.
    pub fn expect_reads(&self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.map.len());
        // Only advice: it costs time at most.
        #[cfg(unix)]
        drop(self.map.advise_range(memmap2::Advice::WillNeed, range.start, range.len()));
    }

    fn read(&self, at: usize, into: &mut [u8]) -> Result<()> {
        read_exact_at(&self.file, at as u64, into).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.shrunk(self.file.metadata().map_or(0, |metadata| metadata.len())),
            _ => failure(unreadable(&self.path, &error)),
        })
    }

    fn shrunk(&self, now: u64) -> Error {
        let before = amount(self.map.len(), "byte");
        failure(format!("{} had {before} when it was opened, and has {now} now", shown(&self.path)))
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

impl fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MappedFile({}, {} bytes)", self.path.display(), self.map.len())
    }
}

fn failure(message: String) -> Error {
    Error::new(ErrorKind::Operation, message)
}

fn shown(path: &Path) -> String {
    format!("\"{}\"", path.display())
}

/// Says that the file at `path` cannot be read, and why: in the system's words, without their number.
pub fn unreadable(path: &Path, error: &io::Error) -> String {
    let file = shown(path);
    if error.kind() != io::ErrorKind::NotFound {
        let why = error.to_string();
        let words = why.split(" (os error").next().unwrap_or_default().trim_end_matches('.');
        return format!("{file} cannot be read: {words}");
    }
    match std::env::current_dir() {
        Ok(folder) if path.is_relative() => {
            format!("there is no file {file} in the working directory {}", shown(&folder))
        }
        _ => format!("there is no file {file}"),
    }
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(unix)]
fn read_exact_at(file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, at)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut at: u64, mut into: &mut [u8]) -> io::Result<()> {
    while !into.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, into, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => (at, into) = (at + count as u64, &mut into[count..]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The source of windows: a mapped file, or bytes in memory that an owner holds. Cheap to clone, and as small as a pointer:
/// graphs have many windows.
#[derive(Clone)]
pub struct Backing(Arc<Held>);

struct Held {
    id: u64,
    source: Source,
    /// Where what is packed of the bytes is kept on disk, if it is.
    store: Option<Arc<Store>>,
    /// The key of the bytes, once they were read for it.
    contents: OnceLock<Key>,
}

#[derive(Clone)]
enum Source {
    File(Arc<MappedFile>),
    Buffer(Arc<Buffer>),
    Memory(Arc<dyn AsRef<[u8]> + Send + Sync>),
}

impl Backing {
    fn new(id: u64, source: Source) -> Backing {
        Backing(Arc::new(Held { id, source, store: None, contents: OnceLock::new() }))
    }

    /// The bytes of `owner`, which must return the same ones on every call.
    pub fn of_bytes(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Backing {
        Backing::new(next_id(), Source::Memory(Arc::new(owner)))
    }

    /// The same bytes, of which `store` keeps what is packed.
    pub fn kept_in(&self, store: &Arc<Store>) -> Backing {
        let Held { id, source, contents, .. } = &*self.0;
        let (source, contents, store) = (source.clone(), contents.clone(), Some(store.clone()));
        Backing(Arc::new(Held { id: *id, source, store, contents }))
    }

    /// Where what is packed of the bytes is kept on disk, if it is.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.0.store.as_ref()
    }

    /// A number shared by all clones and unique in this process, even over time.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The buffer, if the bytes are those of one: unlike the [`id`](Backing::id), it is the same for all backings of it.
    pub fn buffer(&self) -> Option<&Arc<Buffer>> {
        if let Source::Buffer(buffer) = &self.0.source { Some(buffer) } else { None }
    }

    /// The file, unless the bytes are in memory.
    pub fn file(&self) -> Option<&Arc<MappedFile>> {
        if let Source::File(file) = &self.0.source { Some(file) } else { None }
    }

    /// The key of its contents, which are read for that once.
    ///
    /// # Errors
    /// An `OperationError` if the file has become shorter or cannot be read any more.
    pub fn contents(&self) -> Result<Key> {
        if let Some(known) = self.0.contents.get() {
            return Ok(*known);
        }
        let key = match &self.0.source {
            Source::File(file) => Key::of_read(file.map.len(), |at, into| file.read(at, into))?,
            Source::Buffer(_) | Source::Memory(_) => Key::of_contents(self.as_ref()),
        };
        Ok(*self.0.contents.get_or_init(|| key))
    }

    /// The window over `slice`, if it is part of [`as_ref`](Backing::as_ref): for parsers that return slices without
    /// their offsets.
    pub fn window_of(&self, slice: &[u8]) -> Option<Mapped> {
        let start = slice.as_ptr().addr().checked_sub(self.as_ref().as_ptr().addr())?;
        Mapped::new(self.clone(), start..start.checked_add(slice.len())?).ok()
    }
}

impl From<Arc<MappedFile>> for Backing {
    fn from(file: Arc<MappedFile>) -> Backing {
        Backing::new(file.id, Source::File(file))
    }
}

impl From<Arc<Buffer>> for Backing {
    fn from(buffer: Arc<Buffer>) -> Backing {
        Backing::new(next_id(), Source::Buffer(buffer))
    }
}

impl AsRef<[u8]> for Backing {
    fn as_ref(&self) -> &[u8] {
        match &self.0.source {
            Source::File(file) => (**file).as_ref(),
            Source::Buffer(buffer) => buffer.bytes(),
            Source::Memory(owner) => (**owner).as_ref(),
        }
    }
}

impl fmt::Debug for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.source {
            Source::File(file) => file.fmt(f),
            Source::Buffer(_) | Source::Memory(_) => write!(f, "Memory({} bytes)", self.as_ref().len()),
        }
    }
}

/// A window over the bytes of a [`Backing`], with any alignment.
#[derive(Clone, Debug)]
pub struct Mapped {
    backing: Backing,
    range: Range<usize>,
}

impl Mapped {
    /// The bytes `range` of `backing`.
    ///
    /// # Errors
    /// An `OperationError` if the range is out of bounds.
    pub fn new(backing: impl Into<Backing>, range: Range<usize>) -> Result<Mapped> {
        let backing = backing.into();
        let len = backing.as_ref().len();
        if range.start <= range.end && range.end <= len {
            return Ok(Mapped { backing, range });
        }
        let message = format!("bytes {} to {} are outside of {backing:?}, which has {len}", range.start, range.end);
        Err(Error::new(ErrorKind::Operation, message))
    }

    /// The source of the window.
    pub fn backing(&self) -> &Backing {
        &self.backing
    }

    /// The range of the window in its source, in bytes.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The part `range` of this window, in bytes from its start.
    ///
    /// # Panics
    /// If `range` is out of bounds.
    pub fn window(&self, range: Range<usize>) -> Mapped {
        assert!(range.start <= range.end && range.end <= self.len());
        let start = self.range.start;
        Mapped { backing: self.backing.clone(), range: start + range.start..start + range.end }
    }

    /// Copies the bytes from offset `at` to `into`.
    ///
    /// # Errors
    /// An `OperationError` if the file has become shorter or cannot be read any more.
    ///
    /// # Panics
    /// If the window has fewer bytes.
    pub fn read(&self, at: usize, into: &mut [u8]) -> Result<()> {
        assert!(into.len() <= self.len() && at <= self.len() - into.len());
        let at = self.range.start + at;
        match &self.backing.0.source {
            // Not through the map: a failed read is an error, a failed page fault kills the process. Also, pages that
            // are never touched need no release.
            Source::File(file) => file.read(at, into),
            Source::Buffer(_) | Source::Memory(_) => {
                into.copy_from_slice(&self.backing.as_ref()[at..][..into.len()]);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TemporaryFile, shrink};

    #[test]
    fn windows_of_files_and_of_memory() {
        let bytes: Vec<u8> = (0..=255).collect();
        let file = TemporaryFile::new("windows", &bytes);
        let mapped = MappedFile::open(&file.0).unwrap();
        for backing in [Backing::from(mapped.clone()), Backing::of_bytes(bytes.clone())] {
            let window = Mapped::new(backing.clone(), 3..103).unwrap();
            let (part, mut read) = (window.window(10..20), [0; 5]);
            assert_eq!((window.len(), part.range()), (100, 13..23));
            part.read(5, &mut read).unwrap();
            assert_eq!(read, [18, 19, 20, 21, 22]);
            assert_eq!(backing.window_of(&backing.as_ref()[7..9]).unwrap().range(), 7..9);
            assert!(backing.window_of(&[1, 2, 3]).is_none() && Mapped::new(backing, 250..257).is_err());
        }
        assert_eq!(Backing::from(mapped.clone()).id(), Backing::from(mapped.clone()).id());
        mapped.release(0..256);
        mapped.expect_reads(3..256);
        assert_eq!(&(*mapped).as_ref()[254..], [254, 255]);
    }

    #[test]
    fn files_that_cannot_be_mapped_are_errors() {
        let folder = std::env::temp_dir();
        let missing = folder.join(format!("webnn-node-missing-{}", std::process::id()));
        let message = |path: &Path| MappedFile::open(path).unwrap_err().message;
        assert_eq!(message(&missing), format!("there is no file \"{}\"", missing.display()));
        assert_eq!(message(&folder), format!("\"{}\" is a folder, expected a file", folder.display()));
        let working = std::env::current_dir().unwrap();
        let expected = format!("there is no file \"a/b\" in the working directory \"{}\"", working.display());
        assert_eq!(message(Path::new("a/b")), expected);
        let refused = io::Error::from_raw_os_error(13);
        let message = unreadable(Path::new("x"), &refused);
        assert!(message.starts_with("\"x\" cannot be read: ") && !message.contains("os error"), "{message}");
    }

    #[test]
    fn an_empty_file_has_no_bytes() {
        let empty = TemporaryFile::new("empty", &[]);
        assert!((*MappedFile::open(&empty.0).unwrap()).as_ref().is_empty());
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let file = TemporaryFile::new("shrinks", &[7; 10_000]);
        let mapped = MappedFile::open(&file.0).unwrap();
        let window = Mapped::new(mapped.clone(), 8_000..10_000).unwrap();
        let mut read = [0; 2_000];
        window.read(0, &mut read).unwrap();
        mapped.check().unwrap();
        if !shrink(&file, 9_000) {
            return window.read(0, &mut read).unwrap();
        }
        for error in [window.read(0, &mut read).unwrap_err(), mapped.check().unwrap_err()] {
            let wanted = " had 10000 bytes when it was opened, and has 9000 now";
            assert!(error.message.ends_with(wanted), "{error}");
        }
        window.read(0, &mut read[..1_000]).unwrap();
    }
}
