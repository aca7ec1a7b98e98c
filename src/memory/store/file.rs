//! The format of a store's file: a header, a label for people, a table of entries, and their bytes.
//!
//! | part | bytes |
//! |---|---|
//! | header | magic (16), format version (4), number of entries (4), length of the file (8), checksum of header, label and table, itself as 0 (8), length of the label (4), 0 (20) |
//! | label | JSON, filled up to a multiple of 64 |
//! | table | for each entry: key (32), offset (8), length (8), checksum (8), 1 if runs read all of it, else 0 (8) |
//! | bytes | each entry at a multiple of 64 |
//!
//! Numbers are little-endian. The table is checked when a file is opened, and every entry lies within the file.

use super::map::Map;
use super::{Key, Label};
use crate::memory::{ALIGNMENT, Buffer, WeakMap};
use serde_json::{Value as Json, json};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

const MAGIC: &[u8; 16] = b"webnn-node pack\n";
const VERSION: u32 = 1;
const HEADER: usize = 64;
const ENTRY: usize = 64;
/// Where the checksum of header, label and table is.
const SUM: Range<usize> = 32..40;
/// The longest label that is read.
const MAX_LABEL: usize = 1 << 16;

/// Bytes that are written at once, at a multiple of them: file systems then keep them in large pages.
const PIECE: usize = 4 << 20;

/// Checksum of an entry or of the table.
fn checksum(bytes: &[u8]) -> u64 {
    rapidhash::v3::rapidhash_v3(bytes)
}

/// Where the bytes of an entry are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    offset: usize,
    len: usize,
    checksum: u64,
    is_streamed: bool,
}

/// A valid file, mapped.
pub struct StoreFile {
    map: Arc<Map>,
    label: Label,
    places: HashMap<Key, Place>,
    /// The buffers of entries that are in use.
    used: Mutex<WeakMap<Key, Buffer>>,
}

/// An entry whose bytes are not those that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset of the entry in bytes.
    pub offset: usize,
    /// Its length in bytes.
    pub len: usize,
}

impl StoreFile {
    /// Maps `file`; `None` if it is no store, of another version of the format, damaged or cut.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn open(file: &File) -> io::Result<Option<StoreFile>> {
        let Ok(len) = usize::try_from(file.metadata()?.len()) else { return Ok(None) };
        if len < HEADER {
            return Ok(None);
        }
        let map = Map::new(file, len)?;
        Ok(parse(map.bytes()).map(|(label, places)| StoreFile {
            map: Arc::new(map),
            label,
            places,
            used: Mutex::default(),
        }))
    }

    /// What people should know about it.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// Number of entries.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The `len` bytes under `key`, if there are as many; with `verifies`, only if they are those that were written.
    pub fn find(&self, key: &Key, len: usize, verifies: bool) -> Option<Arc<Buffer>> {
        let place = self.places.get(key).filter(|place| place.len == len)?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(buffer) = used.get(key).pop() {
            return Some(buffer);
        }
        if verifies && !self.is_whole(place) {
            return None;
        }
        let buffer = Arc::new(Buffer::mapped(self.map.clone(), place.offset..place.offset + len));
        used.insert(*key, &buffer);
        Some(buffer)
    }

    fn is_whole(&self, place: &Place) -> bool {
        checksum(&self.map.bytes()[place.offset..][..place.len]) == place.checksum
    }

    /// The entries whose bytes are not those that were written.
    pub fn damaged(&self) -> Vec<Damage> {
        let damaged = self.places.values().filter(|place| !self.is_whole(place));
        damaged.map(|place| Damage { offset: place.offset, len: place.len }).collect()
    }

    /// Reads what runs read as a whole in the background, if it is not in the system's cache: while the model is parsed
    /// and compiled.
    pub fn expect_reads(self: Arc<Self>) {
        let streamed = || self.places.values().filter(|place| place.is_streamed);
        let mut ranges: Vec<Range<usize>> = streamed().map(|place| place.offset..place.offset + place.len).collect();
        if ranges.iter().all(|range| self.map.is_cached(range.start)) {
            return;
        }
        ranges.sort_unstable_by_key(|range| range.start);
        let read = move || {
            for range in ranges {
                let pieces = range.clone().step_by(PIECE);
                pieces.for_each(|start| self.map.read(start..range.end.min(start + PIECE)));
            }
        };
        // Without a thread, runs read it.
        drop(std::thread::Builder::new().name("webnn-store".into()).spawn(read));
    }

    /// Tells the system that its bytes are not needed now.
    pub fn rest(&self) {
        self.map.rest(0..self.map.bytes().len());
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// The label and the table of a file; `None` if anything is wrong with them.
fn parse(bytes: &[u8]) -> Option<(Label, HashMap<Key, Place>)> {
    let u32_at = |at| number(bytes, at).map(|bytes| u32::from_le_bytes(bytes) as usize);
    let size_at = |at| number(bytes, at).and_then(|bytes| usize::try_from(u64::from_le_bytes(bytes)).ok());
    let (version, count, len, label_len) = (u32_at(16)?, u32_at(20)?, size_at(24)?, u32_at(40)?);
    if !bytes.starts_with(MAGIC) || version != VERSION as usize || len != bytes.len() || label_len > MAX_LABEL {
        return None;
    }
    let table = HEADER + label_len.next_multiple_of(64);
    let data = count.checked_mul(ENTRY)?.checked_add(table)?;
    let mut head = bytes.get(..data)?.to_vec();
    head[SUM].fill(0);
    if checksum(&head) != u64::from_le_bytes(number(bytes, SUM.start)?) {
        return None;
    }
    let label = Label::of_json(&head[HEADER..][..label_len])?;
    let mut places = HashMap::with_capacity(count);
    for entry in bytes[table..data].as_chunks::<ENTRY>().0 {
        let size = |at| usize::try_from(u64::from_le_bytes(number(entry, at)?)).ok();
        let (offset, len) = (size(Key::LEN)?, size(Key::LEN + 8)?);
        let checksum = u64::from_le_bytes(number(entry, Key::LEN + 16)?);
        let is_streamed = number(entry, Key::LEN + 24)? == 1u64.to_le_bytes();
        let is_inside = offset >= data && offset.checked_add(len)? <= bytes.len() && offset.is_multiple_of(ALIGNMENT);
        if !is_inside {
            return None;
        }
        places.insert(Key(number(entry, 0)?), Place { offset, len, checksum, is_streamed });
    }
    Some((label, places))
}

impl Label {
    fn json(&self) -> String {
        json!({ "model": self.model, "isa": self.isa }).to_string()
    }

    fn of_json(bytes: &[u8]) -> Option<Label> {
        let json: Json = serde_json::from_slice(bytes).ok()?;
        let text = |name: &str| Some(json.get(name)?.as_str()?.to_string());
        Some(Label { model: text("model")?, isa: text("isa")? })
    }
}

/// Writes a file with the entries in `new`, and those of `old` that have other keys: what is packed again was damaged.
///
/// # Errors
/// If the system refuses.
pub fn write(to: &mut File, label: &Label, old: Option<&StoreFile>, new: &[(Key, &[u8], bool)]) -> io::Result<()> {
    let added = new.iter().map(|(key, bytes, is_streamed)| (*key, *bytes, checksum(bytes), *is_streamed));
    let mut entries: Vec<(Key, &[u8], u64, bool)> = added.collect();
    let is_new: HashSet<Key> = new.iter().map(|(key, ..)| *key).collect();
    if let Some(old) = old {
        let kept = old.places.iter().filter(|(key, _)| !is_new.contains(key));
        let bytes = |place: &Place| &old.map.bytes()[place.offset..][..place.len];
        entries.extend(kept.map(|(key, place)| (*key, bytes(place), place.checksum, place.is_streamed)));
    }
    entries.sort_unstable_by_key(|(key, ..)| *key);
    let mut label = label.json().into_bytes();
    let label_len = label.len();
    label.resize(label_len.next_multiple_of(64), 0);
    let mut offset = HEADER + label.len() + entries.len() * ENTRY;
    let (mut table, mut len) = (Vec::new(), offset);
    for (key, bytes, checksum, is_streamed) in &entries {
        offset = len.next_multiple_of(ALIGNMENT);
        len = offset + bytes.len();
        table.extend_from_slice(&key.0);
        let numbers = [offset as u64, bytes.len() as u64, *checksum, u64::from(*is_streamed)];
        numbers.iter().for_each(|n| table.extend_from_slice(&n.to_le_bytes()));
    }
    let mut head = MAGIC.to_vec();
    let counts = [VERSION, u32::try_from(entries.len()).map_err(|_| io::ErrorKind::InvalidInput)?];
    counts.iter().for_each(|number| head.extend_from_slice(&number.to_le_bytes()));
    head.extend_from_slice(&(len as u64).to_le_bytes());
    head.extend_from_slice(&[0; 8]);
    head.extend_from_slice(&u32::try_from(label_len).map_err(|_| io::ErrorKind::InvalidInput)?.to_le_bytes());
    head.resize(HEADER, 0);
    head.extend(label.into_iter().chain(table));
    let sum = checksum(&head);
    head[SUM].copy_from_slice(&sum.to_le_bytes());
    let mut pieces = Pieces { to, piece: Vec::with_capacity(PIECE), written: 0 };
    pieces.push(&head)?;
    for (_, bytes, ..) in entries {
        pieces.push(&[0; ALIGNMENT][..pieces.len().next_multiple_of(ALIGNMENT) - pieces.len()])?;
        pieces.push(bytes)?;
    }
    pieces.finish()
}

/// Writes whole pieces, each at a multiple of their size.
struct Pieces<'a> {
    to: &'a mut File,
    piece: Vec<u8>,
    written: usize,
}

impl Pieces<'_> {
    fn len(&self) -> usize {
        self.written + self.piece.len()
    }

    fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(PIECE - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = rest;
            if self.piece.len() == PIECE {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.write_all(&self.piece)?;
        self.written += self.piece.len();
        self.piece.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, TemporaryFile};

    fn key(name: &str) -> Key {
        Key::of_contents(name.as_bytes())
    }

    fn label() -> Label {
        Label { model: "some \"model\"".into(), isa: "avx2".into() }
    }

    /// The bytes of a file with these entries.
    fn written(old: Option<&StoreFile>, new: &[(Key, &[u8])]) -> Vec<u8> {
        let new: Vec<(Key, &[u8], bool)> = new.iter().map(|(key, bytes)| (*key, *bytes, true)).collect();
        let file = TemporaryFile::new("store", &[]);
        write(&mut File::create(&file.0).unwrap(), &label(), old, &new).unwrap();
        std::fs::read(&file.0).unwrap()
    }

    fn opened(bytes: &[u8]) -> Option<StoreFile> {
        let file = TemporaryFile::new("store", bytes);
        StoreFile::open(&File::open(&file.0).unwrap()).unwrap()
    }

    #[test]
    fn entries_are_found_by_key_and_length() {
        let large: Vec<u8> = (0..PIECE + 100).map(|at| (at % 251) as u8).collect();
        let first = opened(&written(None, &[(key("a"), b"abc"), (key("b"), &large), (key("empty"), b"")])).unwrap();
        let second = opened(&written(Some(&first), &[(key("a"), b"ABC"), (key("c"), b"new")])).unwrap();
        assert_eq!([first.count(), second.count()], [3, 4]);
        assert_eq!(second.label(), &label());
        for (file, a) in [(&first, b"abc"), (&second, b"ABC")] {
            let find = |name: &str, len| file.find(&key(name), len, true).map(|buffer| buffer.bytes().to_vec());
            assert_eq!(find("a", 3).as_deref(), Some(&a[..]));
            assert!(find("b", large.len()).as_ref() == Some(&large));
            assert_eq!(find("empty", 0), Some(Vec::new()));
            assert!(find("a", 4).is_none() && find("b", 5).is_none() && find("d", 3).is_none());
        }
        assert!(second.find(&key("c"), 3, true).is_some());
        let buffer = second.find(&key("b"), large.len(), false).unwrap();
        assert!(buffer.as_ptr().addr().is_multiple_of(ALIGNMENT) && buffer.is_mapped());
        assert!(Arc::ptr_eq(&buffer, &second.find(&key("b"), large.len(), false).unwrap()));
        drop((first, second));
        assert!(buffer.bytes() == large, "a buffer outlives its store");
    }

    #[test]
    fn cut_files_are_no_stores() {
        let bytes = written(None, &[(key("a"), &[1; 300]), (key("b"), &[2; 70])]);
        for len in 0..bytes.len() {
            assert!(opened(&bytes[..len]).is_none(), "{len} of {} bytes", bytes.len());
        }
        assert!(opened(&[&bytes[..], &[0]].concat()).is_none(), "one byte more");
    }

    #[test]
    fn a_flipped_bit_is_noticed_or_changes_numbers_only() {
        let contents = [(key("a"), [1u8; 300]), (key("b"), [2; 300])];
        let entries: Vec<(Key, &[u8])> = contents.iter().map(|(key, bytes)| (*key, &bytes[..])).collect();
        let bytes = written(None, &entries);
        let whole = opened(&bytes).unwrap();
        let is_data =
            |at: usize| whole.places.values().any(|place| (place.offset..place.offset + place.len).contains(&at));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let Some((_, places)) = parse(&damaged) else {
                    assert!(!is_data(at), "byte {at}");
                    continue;
                };
                assert!(places == whole.places, "byte {at}, bit {bit}");
                let broken =
                    places.values().filter(|place| checksum(&damaged[place.offset..][..place.len]) != place.checksum);
                assert_eq!(broken.count(), usize::from(is_data(at)), "byte {at}, bit {bit}");
            }
        }
        let mut damaged = bytes.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let file = opened(&damaged).unwrap();
        assert_eq!(file.damaged().len(), 1);
        let found = |verifies| contents.iter().filter(|(key, _)| file.find(key, 300, verifies).is_some()).count();
        assert_eq!(found(true), 1, "the other one is packed anew");
    }

    #[test]
    fn a_million_flipped_bits_make_no_place_outside() {
        let contents: Vec<(Key, Vec<u8>)> =
            (0..9).map(|at| (key(&at.to_string()), vec![at; 40 * usize::from(at)])).collect();
        let entries: Vec<(Key, &[u8])> = contents.iter().map(|(key, bytes)| (*key, &bytes[..])).collect();
        let mut bytes = written(None, &entries);
        let mut random = Random::new(3);
        let (mut flips, mut accepted) = (0, 0);
        while flips < 1_000_000 {
            let places: Vec<[usize; 2]> =
                (0..1 + flips % 4).map(|_| [random.below(bytes.len()), random.below(8)]).collect();
            let flip = |bytes: &mut [u8]| places.iter().for_each(|&[at, bit]| bytes[at] ^= 1 << bit);
            flip(&mut bytes);
            if let Some((_, found)) = parse(&bytes) {
                accepted += 1;
                assert!(found.values().all(|place| place.offset + place.len <= bytes.len()));
            }
            flip(&mut bytes);
            flips += places.len();
        }
        assert!(accepted > 0, "bits of weights are not looked at");
    }

    /// Places that lie outside, overlap the table or wrap around, with a right checksum: written by somebody hostile.
    #[test]
    fn hostile_tables_are_refused() {
        let bytes = written(None, &[(key("a"), &[1; 300])]);
        let table = bytes.windows(Key::LEN).position(|window| window == key("a").0).unwrap();
        let sealed = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut changed = bytes.clone();
            change(&mut changed);
            changed[SUM].fill(0);
            let sum = checksum(&changed[..table + ENTRY]);
            changed[SUM].copy_from_slice(&sum.to_le_bytes());
            opened(&changed).is_some()
        };
        let set = |at: usize, number: u64| {
            move |bytes: &mut Vec<u8>| bytes[table + Key::LEN + at..][..8].copy_from_slice(&number.to_le_bytes())
        };
        assert!(sealed(&|_| ()));
        for number in [0, 64, 65, 1 << 20, u64::MAX, u64::MAX - 63, 1 << 63] {
            assert!(!sealed(&set(0, number)), "offset {number}");
        }
        for number in [301, 1 << 20, u64::MAX, u64::MAX - 200, 1 << 63] {
            assert!(!sealed(&set(8, number)), "length {number}");
        }
        for (at, number) in [(16, 2), (20, 2), (20, u32::MAX), (40, 1), (40, u32::MAX)] {
            let change = |bytes: &mut Vec<u8>| bytes[at..][..4].copy_from_slice(&number.to_le_bytes());
            assert!(!sealed(&change), "{number} at {at}");
        }
    }
}
