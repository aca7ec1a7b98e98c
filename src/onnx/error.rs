//! What goes wrong with a model.

use crate::error::{Code, Error};
use std::fmt;

pub use crate::error::Unsupported;

/// Why a model cannot be used: a file that is no model, a request that does not fit it, or nodes that are not supported.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelError {
    /// What kind of problem it is.
    pub code: Code,
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
    /// A file that is no sound model.
    pub fn new(message: impl Into<String>) -> ModelError {
        ModelError::coded(Code::ModelInvalid, message)
    }

    /// An error that is about no node.
    pub fn coded(code: Code, message: impl Into<String>) -> ModelError {
        ModelError { code, message: message.into(), unsupported: Vec::new() }
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
        ModelError { code: Code::UnsupportedOperator, message, unsupported }
    }

    /// The same as an error of the crate. Lists of nodes have a limit of their own, so the message is not cut.
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

/// A text of a file as messages and labels show it: its beginning, if it is long. One that is repeated by many nodes must
/// not need much memory.
pub fn shortened(text: &str) -> String {
    const MOST: usize = 256;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// A name of a file or caller in quotation marks.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", shortened(name))
}

/// Names in quotation marks, or `none`.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(quoted).collect();
    if names.is_empty() { "none".to_string() } else { names.join(", ") }
}

/// Why a node is not supported; the importer adds which.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Why.
    pub reason: String,
    /// Whether inputs of other sizes could make it possible.
    pub depends_on_sizes: bool,
    /// What makes it possible where a model can be cut at the node.
    pub cut: Option<Cut>,
}

/// What a node lacks whose sizes, branch or number of rounds the data decide: a session runs what comes before it, and then it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cut {
    /// The elements of the input at this place: knowing them, the node can be translated.
    Value(usize),
    /// The elements of all inputs: the node is computed from them, outside of a graph.
    Elements,
    /// A decision that its graphs are run by, or what one of them is cut for.
    Control,
    /// Outputs of nodes that are behind a cut themselves.
    Waiting,
}

impl Refusal {
    /// The same where a model can be cut at the node.
    pub fn unless(self, cut: Cut) -> Refusal {
        Refusal { cut: Some(cut), ..self }
    }
}

/// A refusal whatever the sizes.
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
