//! What the simulation reports.

use std::fmt;

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An index is not below the length of what it selects from.
    OutOfBounds,
    /// Two invocations use the same memory without a barrier in between, and one of them writes.
    Race,
    /// A word of an output is written again.
    WrittenTwice,
    /// A word of an output is never written.
    NotWritten,
    /// Memory is read that nobody wrote.
    Unwritten,
    /// A barrier, or an operation of a subgroup, is not reached by all invocations.
    Divergence,
    /// A loop does not end.
    Endless,
    /// An operation on integers that has no result.
    Arithmetic,
    /// The simulation does not know what the kernel uses.
    Unknown,
}

/// A fault of a kernel.
#[derive(Debug)]
pub struct Fault {
    /// What it is.
    pub kind: Kind,
    /// Where, for people: the kernel, the binding or variable, the index, the invocation.
    pub message: String,
}

/// The result of something that kernels do.
pub type Checked<T> = Result<T, Box<Fault>>;

/// A fault as a result.
pub fn fault<T>(kind: Kind, message: impl Into<String>) -> Checked<T> {
    Err(Box::new(Fault { kind, message: message.into() }))
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}
