//! Errors of models.

use crate::error::{Code, Error, ErrorKind, amount};
use crate::ir::OperandId;
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

    /// The error that a constant of the file cannot be had: it is too large, or memory runs out.
    pub fn of_constant(error: Error) -> ModelError {
        let code = match error.kind {
            ErrorKind::Unknown => Code::NoMemory,
            ErrorKind::Operation => Code::ModelInvalid,
            _ => Code::UnsupportedOperator,
        };
        ModelError::coded(code, error.message)
    }

    /// An error without unsupported nodes. A very long message is truncated: it may name what a file names.
    pub fn coded(code: Code, message: impl Into<String>) -> ModelError {
        ModelError { code, message: crate::error::shortened(message.into()), unsupported: Vec::new() }
    }

    /// The error that a model has `count` unsupported nodes; `unsupported` holds the first of them.
    pub fn unsupported(unsupported: Vec<Unsupported>, count: usize) -> ModelError {
        let verb = if count == 1 { "is" } else { "are" };
        let mut message = format!("{} {verb} not supported", amount(count, "node"));
        for node in &unsupported {
            message += &format!("\n  {node}");
        }
        if count > unsupported.len() {
            message += &format!("\n  and {} more", count - unsupported.len());
        }
        ModelError { code: Code::UnsupportedOperator, message, unsupported }
    }

    /// The same error of a function of the API; see [`Code::message_of`].
    pub fn of_function(self, function: &str) -> ModelError {
        ModelError { message: self.code.message_of(function, self.message), ..self }
    }

    /// Converts to an error of the crate. Lists of nodes are not truncated: they have a limit of their own.
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

/// Shortens a long string from a file for messages and labels: many nodes may repeat it, which must not need much
/// memory.
pub fn shortened(text: &str) -> String {
    const MOST: usize = 256;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// A name from a file or a caller in quotation marks.
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
    /// Whether the node could be possible with other input sizes.
    pub depends_on_sizes: bool,
    /// The missing information, if a cut of the model at the node would provide it.
    pub cut: Option<Cut>,
    /// The operand whose elements are missing, if it is a single one.
    pub lacks: Option<OperandId>,
}

/// What a node lacks if data decide its sizes, branch or number of rounds: a session runs the nodes before it first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cut {
    /// The elements of the input at this index; with them, the node can be translated.
    Value(usize),
    /// The elements of all inputs; the node is then evaluated outside of a graph.
    Elements,
    /// The decision which of its graphs runs, or how often, or a cut inside one of them.
    Control,
    /// Outputs of nodes that come after a cut themselves.
    Waiting,
}

impl Refusal {
    /// Adds the information that would make the node possible, if the model can be cut there.
    pub fn unless(self, cut: Cut) -> Refusal {
        Refusal { cut: Some(cut), ..self }
    }

    /// Adds the operand whose elements are missing.
    pub fn lacking(self, operand: OperandId) -> Refusal {
        Refusal { lacks: Some(operand), ..self }
    }
}

/// A refusal that does not depend on sizes.
#[expect(non_snake_case, reason = "most translations return only a reason")]
pub fn Refusal(reason: String) -> Refusal {
    Refusal { reason, depends_on_sizes: false, cut: None, lacks: None }
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
        let depends_on_sizes = error.code == Some(Code::Shape);
        Refusal { depends_on_sizes, ..Refusal(error.message) }
    }
}

impl From<ModelError> for Refusal {
    fn from(error: ModelError) -> Refusal {
        Refusal { depends_on_sizes: error.code == Code::Shape, ..Refusal(error.message) }
    }
}
