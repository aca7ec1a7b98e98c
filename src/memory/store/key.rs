//! What identifies packed weights: digests of where they come from and of their form.

use std::fmt;
use std::fs::Metadata;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes that are hashed at once.
const PIECE: usize = 4 << 20;

/// A cryptographic digest: nobody can make two models with the same one, so that stores may be shared by people who load
/// each other's models.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub [u8; Key::LEN]);

impl Key {
    /// Number of bytes.
    pub const LEN: usize = 32;

    /// The key of these bytes.
    pub fn of_contents(bytes: &[u8]) -> Key {
        let pieces = bytes.chunks(PIECE).map(blake3::hash);
        let mut writer = KeyWriter::new("contents");
        writer.number(bytes.len() as u64);
        pieces.for_each(|piece| writer.bytes(piece.as_bytes()));
        writer.finish()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// Collects what a key is a digest of. Each part is written with its length: different sequences of parts never look alike.
pub struct KeyWriter(blake3::Hasher);

impl KeyWriter {
    /// A key for `purpose`: those for other purposes differ.
    pub fn new(purpose: &str) -> KeyWriter {
        let mut writer = KeyWriter(blake3::Hasher::new());
        writer.text(purpose);
        writer
    }

    /// Adds a text.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.0.update(&number.to_le_bytes());
    }

    /// The key.
    pub fn finish(self) -> Key {
        Key(*self.0.finalize().as_bytes())
    }
}

/// What the system says of a file that changes with its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// What no other file has at the same time: device and inode, or its path.
    identity: String,
    len: u64,
    /// Since 1970; `None` if the system does not say.
    modified: Option<Duration>,
    /// When the system last noted a change of the file or of what it says of it, in seconds and nanoseconds: programs can set
    /// the time of modification, but not this one. 0 where there is none.
    changed: [i64; 2],
}

/// How old a file must be: a later change within this time might not show in its time of modification.
const SETTLED: Duration = Duration::from_millis(100);

/// The same on file systems that count seconds, or two.
const SETTLED_COARSE: Duration = Duration::from_secs(3);

impl Stamp {
    /// The stamp of an open file. `path` is its path without links.
    pub fn new(metadata: &Metadata, path: &std::path::Path) -> Stamp {
        #[cfg(unix)]
        let (identity, changed) = {
            use std::os::unix::fs::MetadataExt;
            let _ = path;
            (format!("{}:{}", metadata.dev(), metadata.ino()), [metadata.ctime(), metadata.ctime_nsec()])
        };
        #[cfg(not(unix))]
        let (identity, changed) = (path.display().to_string(), [0; 2]);
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok();
        Stamp { identity, len: metadata.len(), modified: metadata.modified().ok().and_then(since), changed }
    }

    /// Whether every later change of the file gives another stamp.
    pub fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.modified.is_some_and(|modified| {
            modified + if modified.subsec_nanos() == 0 { SETTLED_COARSE } else { SETTLED } <= now
        })
    }

    /// The digest of the stamp.
    pub fn key(&self) -> Key {
        let mut writer = KeyWriter::new("stamp");
        writer.text(&self.identity);
        writer.number(self.len);
        let modified = self.modified.unwrap_or_default();
        writer.number(modified.as_secs());
        writer.number(modified.subsec_nanos().into());
        self.changed.iter().for_each(|number| writer.number(*number as u64));
        writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_kept_apart() {
        let key = |parts: &[&str]| {
            let mut writer = KeyWriter::new("test");
            parts.iter().for_each(|part| writer.text(part));
            writer.finish()
        };
        assert_eq!(key(&["ab", "c"]), key(&["ab", "c"]));
        assert!(key(&["ab", "c"]) != key(&["a", "bc"]) && key(&["ab"]) != key(&["ab", ""]));
        assert_ne!(Key::of_contents(b"a"), Key::of_contents(b"b"));
        let long = vec![7; PIECE + 1];
        assert_ne!(Key::of_contents(&long), Key::of_contents(&long[1..]));
        assert_eq!(Key([0xab; 32]).to_string(), "ab".repeat(32));
    }

    #[test]
    fn a_change_gives_another_stamp() {
        let at = |seconds, nanoseconds| Some(Duration::new(seconds, nanoseconds));
        let stamp = Stamp { identity: "1:2".into(), len: 3, modified: at(4, 5), changed: [6, 7] };
        let others = [
            Stamp { identity: "1:3".into(), ..stamp.clone() },
            Stamp { len: 4, ..stamp.clone() },
            Stamp { modified: at(4, 6), ..stamp.clone() },
            Stamp { modified: at(5, 5), ..stamp.clone() },
            Stamp { changed: [6, 8], ..stamp.clone() },
        ];
        assert!(stamp.is_settled() && others.iter().all(|other| other.key() != stamp.key()));
        assert!(Stamp { modified: at(0, 0), ..stamp.clone() }.is_settled(), "as in images that can be made again");
        assert!(!Stamp { modified: None, ..stamp.clone() }.is_settled());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(!Stamp { modified: Some(now), ..stamp.clone() }.is_settled());
        assert!(!Stamp { modified: at(now.as_secs() - 1, 0), ..stamp.clone() }.is_settled(), "it may count seconds");
        let ahead = now + Duration::from_secs(9);
        assert!(!Stamp { modified: Some(ahead), ..stamp }.is_settled(), "its clock is ahead");
    }
}
