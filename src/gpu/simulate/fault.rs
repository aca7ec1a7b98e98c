//! Faults that the simulation reports.

use std::fmt;

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An index is at or above the length of what it selects from.
    OutOfBounds,
    /// Two invocations access the same memory without a barrier in between, and at least one of them writes.
    Race,
    /// A word of an output is written twice.
    WrittenTwice,
    /// A word of an output is never written.
    NotWritten,
    /// Memory is read that was never written.
    Unwritten,
    /// A barrier or a subgroup operation is not reached by all invocations.
    Divergence,
    /// A loop does not end.
    Endless,
    /// An integer operation has no result.
    Arithmetic,
    /// The kernel uses something that the simulation does not support.
    Unknown,
}

/// A fault of a kernel.
#[derive(Debug)]
pub struct Fault {
    /// The kind of fault.
    pub kind: Kind,
    /// Where it happened, for people: kernel, binding or variable, index, invocation.
    pub message: String,
}

/// The result of an operation of a kernel.
pub type Checked<T> = Result<T, Box<Fault>>;

/// Returns a fault as an error.
pub fn fault<T>(kind: Kind, message: impl Into<String>) -> Checked<T> {
    Err(Box::new(Fault { kind, message: message.into() }))
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}
