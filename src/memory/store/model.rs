//! What stores are for: models, and options.

use super::key::{Key, Stamp};
use std::path::PathBuf;

/// Raised by hand with every change of what is packed, or how: entries of other versions are not found. A test compares the
/// packed bytes of all forms with checksums, and fails if somebody forgets.
pub const PACKING_VERSION: u32 = 1;

/// How packed weights are kept on disk.
#[derive(Clone, Debug, Default)]
pub struct StoreOptions {
    /// The folder; the user's if none is given.
    pub folder: Option<PathBuf>,
    /// Whether bytes are compared with their checksums before they are used.
    pub verifies: bool,
    /// Whether files are recognized by their contents, which serves copies of them elsewhere.
    pub by_contents: bool,
}

/// What people should know about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The path of the model, or what else it comes from.
    pub model: String,
    /// The instruction set.
    pub isa: String,
}

/// How the model of a store is recognized.
#[derive(Clone, Debug)]
pub enum ModelId {
    /// By what the system says of its file.
    Stamp(Stamp),
    /// By its contents.
    Contents(Key),
}
