//! What goes wrong with a model.

use serde::Serialize;
use std::fmt;

/// A node that cannot be imported, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unsupported {
    /// The node's name, or that of its first output where it has none.
    pub name: String,
    /// `op_type`.
    pub operator: String,
    /// Empty for `ai.onnx`.
    pub domain: String,
    /// The version of the domain that the model asks for; 0 if it asks for none.
    pub opset: i64,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unsupported { name, operator, domain, opset, reason } = self;
        let separator = if domain.is_empty() { "" } else { "." };
        write!(f, "[{name}] {domain}{separator}{operator} (opset {opset}): {reason}")
    }
}

/// Why a model cannot be used: a file that is no model, a request that does not fit it, or nodes that are not supported.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelError {
    /// One line, or one and a line per node.
    pub message: String,
    /// Every node that is not supported, up to [`MAX_LISTED`].
    pub unsupported: Vec<Unsupported>,
}

/// The most nodes that an error lists.
pub const MAX_LISTED: usize = 10_000;

/// The result of reading or importing a model.
pub type Result<T, E = ModelError> = std::result::Result<T, E>;

impl ModelError {
    /// An error that is about no node.
    pub fn new(message: impl Into<String>) -> ModelError {
        ModelError { message: message.into(), unsupported: Vec::new() }
    }

    /// The refusal of a model for `count` nodes, the first of which are `unsupported`.
    pub fn unsupported(unsupported: Vec<Unsupported>, count: usize) -> ModelError {
        let mut message = match count {
            1 => "1 node is not supported".to_string(),
            _ => format!("{count} nodes are not supported"),
        };
        for node in &unsupported {
            message += &format!("\n  {node}");
        }
        if count > unsupported.len() {
            message += &format!("\n  and {} more", count - unsupported.len());
        }
        ModelError { message, unsupported }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ModelError {}

/// A text of a file as messages and labels show it: its beginning, if it is long. One that is repeated by many nodes must
/// not need much memory.
pub fn shortened(text: &str) -> String {
    const MOST: usize = 256;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// Why a node is not supported; the importer adds which.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal(pub String);

impl From<String> for Refusal {
    fn from(reason: String) -> Refusal {
        Refusal(reason)
    }
}

impl From<&str> for Refusal {
    fn from(reason: &str) -> Refusal {
        Refusal(reason.to_string())
    }
}

impl From<crate::error::Error> for Refusal {
    fn from(error: crate::error::Error) -> Refusal {
        Refusal(error.message)
    }
}

impl From<ModelError> for Refusal {
    fn from(error: ModelError) -> Refusal {
        Refusal(error.message)
    }
}
