//! Errors of models.

use crate::error::{Code, Error};
use std::fmt;

pub use crate::error::Unsupported;

/// Why a model cannot be used: the file is not a model, the request does not match it, or nodes are unsupported.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelError {
    /// The kind of problem.
    pub code: Code,
    /// One line, or one plus a line per node.
    pub message: String,
    /// The unsupported nodes, up to [`MAX_LISTED`].
    pub unsupported: Vec<Unsupported>,
}

/// Maximum number of nodes that an error lists.
pub const MAX_LISTED: usize = 10_000;

/// The result of reading or importing a model.
pub type Result<T, E = ModelError> = std::result::Result<T, E>;

impl ModelError {
    /// An invalid model file.
    pub fn new(message: impl Into<String>) -> ModelError {
        ModelError::coded(Code::ModelInvalid, message)
    }

    /// An error without unsupported nodes.
    pub fn coded(code: Code, message: impl Into<String>) -> ModelError {
        ModelError { code, message: message.into(), unsupported: Vec::new() }
    }

    /// Refuses a model for `count` nodes; `unsupported` holds the first of them.
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
        ModelError { code: Code::UnsupportedOperator, message, unsupported }
    }

    /// Converts to an error of the crate. Lists of nodes have a limit of their own and are not truncated.
    pub fn into_error(self) -> Error {
        let ModelError { code, message, unsupported } = self;
        Error { kind: code.kind(), message, code: Some(code), unsupported }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ModelError {}

/// Truncates a long text of a file for messages and labels: a text repeated by many nodes must not need much memory.
pub fn shortened(text: &str) -> String {
    const MOST: usize = 256;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// A name from a file or caller in quotation marks.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", shortened(name))
}

/// Names in quotation marks, or `none`.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(quoted).collect();
    if names.is_empty() { "none".to_string() } else { names.join(", ") }
}

/// Why a node is not supported; the importer adds the node.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The reason.
    pub reason: String,
    /// Whether other input sizes could make the node possible.
    pub depends_on_sizes: bool,
    /// The missing information, if cutting the model at the node would provide it.
    pub cut: Option<Cut>,
}

/// The information that a node lacks if data decide its sizes, branch or number of rounds: a session runs the nodes
/// before it first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cut {
    /// The elements of the input at this index; with them, the node can be translated.
    Value(usize),
    /// The elements of all inputs; the node is evaluated from them, outside of a graph.
    Elements,
    /// A decision that selects which of its graphs to run, or a cut inside one of them.
    Control,
    /// Outputs of nodes that are behind a cut themselves.
    Waiting,
}

impl Refusal {
    /// Adds the information that makes the node possible if the model can be cut there.
    pub fn unless(self, cut: Cut) -> Refusal {
        Refusal { cut: Some(cut), ..self }
    }
}

/// A refusal independent of sizes.
#[expect(non_snake_case, reason = "what most translations say is a reason and nothing more")]
pub fn Refusal(reason: String) -> Refusal {
    Refusal { reason, depends_on_sizes: false, cut: None }
}

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

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal { reason: error.message, depends_on_sizes: error.code == Some(Code::Shape), cut: None }
    }
}

impl From<ModelError> for Refusal {
    fn from(error: ModelError) -> Refusal {
        Refusal { reason: error.message, depends_on_sizes: error.code == Code::Shape, cut: None }
    }
}
