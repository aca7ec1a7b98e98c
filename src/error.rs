//! Errors as data. Messages name the label, operator and operand, and the actual and expected values.

use crate::dimension::Dim;
use crate::dtype::DataType;
use serde::Serialize;
use std::any::Any;
use std::fmt::{self, Display};

/// The exception that JavaScript throws or rejects with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A `TypeError`: the arguments are wrong.
    Type,
    /// An `InvalidStateError`: the object is lost, destroyed or already built.
    InvalidState,
    /// A `NotSupportedError`: this implementation or machine cannot serve the request.
    NotSupported,
    /// An `OperationError`: building or running the graph failed.
    Operation,
    /// An `UnknownError`: memory is not available.
    Unknown,
    /// An `InvalidStateError`: the GPU is lost.
    DeviceLost,
    /// An `OnnxError`: a model cannot be used.
    Model,
}

impl ErrorKind {
    /// The name of the JavaScript exception.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Type => "TypeError",
            ErrorKind::InvalidState => "InvalidStateError",
            ErrorKind::NotSupported => "NotSupportedError",
            ErrorKind::Operation => "OperationError",
            ErrorKind::Unknown => "UnknownError",
            ErrorKind::DeviceLost => "InvalidStateError",
            ErrorKind::Model => "OnnxError",
        }
    }
}

/// The table of error codes: the exception that carries each as its `code`, and its meaning.
macro_rules! codes {
    ($($name:ident = $text:literal, $kind:ident, $meaning:literal;)*) => {
        /// The `code` of an error of the ONNX entry, by which programs distinguish errors.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The code in JavaScript.
            pub fn name(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            /// The exception that JavaScript throws or rejects with.
            pub fn kind(self) -> ErrorKind {
                match self { $(Code::$name => ErrorKind::$kind,)* }
            }

            /// The meaning, for the documentation.
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$name => $meaning,)* }
            }
        }
    };
}

codes! {
    ModelNotFound = "ERR_WEBNN_MODEL_NOT_FOUND", Model, "There is no such file, or it cannot be read.";
    ModelInvalid = "ERR_WEBNN_MODEL_INVALID", Model, "The file is not a valid ONNX model.";
    UnsupportedOperator = "ERR_WEBNN_UNSUPPORTED_OPERATOR", Model, "Operators, types or sizes of the model are not supported; `unsupported` lists the nodes.";
    Type = "ERR_WEBNN_TYPE", Type, "An argument or value is of the wrong type.";
    UnknownOption = "ERR_WEBNN_UNKNOWN_OPTION", Type, "There is no option of that name.";
    Shape = "ERR_WEBNN_SHAPE", Type, "A shape or size does not fit the model, or is not known.";
    Index = "ERR_WEBNN_INDEX", Type, "An index in a feed is outside of the table that the model looks it up in.";
    MissingFeed = "ERR_WEBNN_MISSING_FEED", Type, "An input has no feed.";
    UnknownFeed = "ERR_WEBNN_UNKNOWN_FEED", Type, "A feed or shape is given for something that is not an input.";
    UnknownOutput = "ERR_WEBNN_UNKNOWN_OUTPUT", Type, "The model has no output of that name.";
    UnknownDimension = "ERR_WEBNN_UNKNOWN_DIMENSION", Type, "The model has no free dimension of that name.";
    NotSupported = "ERR_WEBNN_NOT_SUPPORTED", NotSupported, "The machine or its settings do not allow it.";
    Operation = "ERR_WEBNN_OPERATION", Operation, "Compiling or computing failed.";
    NoMemory = "ERR_WEBNN_NO_MEMORY", Unknown, "There is not enough memory.";
    Destroyed = "ERR_WEBNN_DESTROYED", InvalidState, "The model or its context was destroyed.";
    DeviceLost = "ERR_WEBNN_DEVICE_LOST", DeviceLost, "The GPU was lost.";
}

impl Code {
    /// The message of an error of `function`: those about its arguments begin with its name.
    pub fn message_of(self, function: &str, message: String) -> String {
        let prefix = format!("{function}: ");
        let is_about_arguments = self == Code::ModelNotFound || self.kind() == ErrorKind::Type;
        if is_about_arguments && !message.starts_with(&prefix) { prefix + &message } else { message }
    }
}

/// An unsupported node of a model, and the reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unsupported {
    /// The node's name, or that of its first output if it has none.
    pub name: String,
    /// `op_type`.
    pub operator: String,
    /// Empty for `ai.onnx`.
    pub domain: String,
    /// The model's version of the domain; 0 if it declares none.
    pub opset: i64,
    /// The reason.
    pub reason: String,
    /// Whether the node could be supported for other sizes of its inputs.
    #[serde(skip)]
    pub depends_on_sizes: bool,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unsupported { name, operator, domain, opset, reason, .. } = self;
        let separator = if domain.is_empty() { "" } else { "." };
        write!(f, "[{name}] {domain}{separator}{operator} (opset {opset}): {reason}")
    }
}

/// A problem without its location. Shape rules return this; [`Error::at`] adds the location.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the message prints the fields: what was given and what was expected")]
pub enum Problem {
    /// An operand whose data type the operator does not accept.
    DataType { operand: &'static str, got: DataType, expected: Vec<DataType> },
    /// An operand with too few or too many dimensions.
    Rank { operand: &'static str, got: usize, min: usize, max: usize },
    /// An operand whose shape differs from what the other operands require.
    Shape { operand: &'static str, got: Vec<Dim>, expected: Vec<Dim> },
    /// Two shapes that do not match.
    Incompatible { what: &'static str, a: Vec<Dim>, b: Vec<Dim> },
    /// An attribute (an argument or option that is not an operand) out of its range.
    Attribute { name: &'static str, got: String, expected: String },
    /// A required operand that is missing.
    Missing { operand: &'static str },
    /// A tensor that is too large for this implementation.
    Dimensions { what: &'static str, got: Vec<Dim>, reason: String },
}

fn list<T: fmt::Display>(items: &[T], separator: &str) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(separator)
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::DataType { operand, got, expected } => {
                write!(f, "{operand} has data type {got}, expected {}", list(expected, " or "))
            }
            Problem::Rank { operand, got, min, max } if min == max => {
                write!(f, "{operand} has rank {got}, expected {min}")
            }
            Problem::Rank { operand, got, min, max } => {
                write!(f, "{operand} has rank {got}, expected {min} to {max}")
            }
            Problem::Shape { operand, got, expected } => {
                write!(f, "{operand} has shape [{}], expected [{}]", list(got, ", "), list(expected, ", "))
            }
            Problem::Incompatible { what, a, b } => {
                write!(f, "{what}: [{}] and [{}]", list(a, ", "), list(b, ", "))
            }
            Problem::Attribute { name, got, expected } => write!(f, "{name} is {got}, expected {expected}"),
            Problem::Missing { operand } => write!(f, "{operand} is required"),
            Problem::Dimensions { what, got, reason } => write!(f, "{what} has shape [{}], {reason}", list(got, ", ")),
        }
    }
}

impl Problem {
    /// Whether operands of other sizes, with the same data types and ranks, could avoid the problem.
    pub fn depends_on_sizes(&self) -> bool {
        match self {
            Problem::DataType { .. } | Problem::Rank { .. } | Problem::Missing { .. } => false,
            Problem::Shape { .. } | Problem::Incompatible { .. } | Problem::Dimensions { .. } => true,
            // Sizes that an operator computes from the sizes of its operands, such as `output width`.
            Problem::Attribute { name, .. } => name.starts_with("output ") || *name == "resampled size",
        }
    }

    /// An attribute problem from numbers or lists of them.
    pub fn attribute(name: &'static str, got: impl fmt::Debug, expected: impl Into<String>) -> Problem {
        Problem::Attribute { name, got: format!("{got:?}"), expected: expected.into() }
    }

    /// An attribute problem from a value shown as a caller writes it: an IDL name, an MLNumber.
    pub fn attribute_value(name: &'static str, got: impl fmt::Display, expected: impl Into<String>) -> Problem {
        Problem::Attribute { name, got: got.to_string(), expected: expected.into() }
    }
}

/// An error with its JavaScript exception.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// The exception.
    pub kind: ErrorKind,
    /// The complete message.
    pub message: String,
    /// The code for programs, if there is one.
    pub code: Option<Code>,
    /// The unsupported nodes of a model.
    pub unsupported: Vec<Unsupported>,
}

/// The result of anything that can fail in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A number of things in a message: `1 byte`, `2 bytes`. `noun` is the singular.
pub fn amount(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Maximum length of a message in bytes: a caller's lists are unlimited, JavaScript's strings are not.
const MAX_MESSAGE: usize = 1 << 14;

/// Truncates a very long message.
pub fn shortened(mut message: String) -> String {
    if message.len() > MAX_MESSAGE {
        let end = (0..=MAX_MESSAGE).rev().find(|&at| message.is_char_boundary(at));
        message.truncate(end.expect("0 is a boundary"));
        message.push('…');
    }
    message
}

impl Error {
    /// An error of `kind` with a complete message, which is truncated if it is very long.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let code = (kind == ErrorKind::DeviceLost).then_some(Code::DeviceLost);
        Error { kind, message: shortened(message.into()), code, unsupported: Vec::new() }
    }

    /// An error of `code` and its kind.
    pub fn coded(code: Code, message: impl Into<String>) -> Error {
        Error { code: Some(code), ..Error::new(code.kind(), message) }
    }

    /// The same error of a function of the API; see [`Code::message_of`].
    pub fn of_function(self, function: &str) -> Error {
        match self.code {
            Some(code) => Error { message: code.message_of(function, self.message), ..self },
            None => self,
        }
    }

    /// Adds the code of its kind if it has none.
    pub fn with_code(self) -> Error {
        let code = self.code.unwrap_or(match self.kind {
            ErrorKind::Type => Code::Type,
            ErrorKind::InvalidState => Code::Destroyed,
            ErrorKind::NotSupported => Code::NotSupported,
            ErrorKind::Operation => Code::Operation,
            ErrorKind::Unknown => Code::NoMemory,
            ErrorKind::DeviceLost => Code::DeviceLost,
            ErrorKind::Model => Code::ModelInvalid,
        });
        Error { code: Some(code), ..self }
    }

    /// The tag that the binding passes to JavaScript: the code, or the name of the exception.
    pub fn tag(&self) -> &'static str {
        self.code.map_or(self.kind.name(), Code::name)
    }

    /// A `TypeError` for `problem`, found in `operator` (a method name) with the caller's label `label`.
    pub fn at(operator: &str, label: &str, problem: Problem) -> Error {
        let prefix = if label.is_empty() { String::new() } else { format!("[{label}] ") };
        let code = problem.depends_on_sizes().then_some(Code::Shape);
        Error { code, ..Error::new(ErrorKind::Type, format!("{prefix}{operator}: {problem}")) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// The message of a panic, if it has one.
pub fn panic_text(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimension::dims;

    #[test]
    fn messages_have_a_limit() {
        let long = Error::new(ErrorKind::Type, "ü".repeat(MAX_MESSAGE));
        assert_eq!(long.message, "ü".repeat(MAX_MESSAGE / 2) + "…");
        assert_eq!(Error::new(ErrorKind::Type, "x".repeat(MAX_MESSAGE)).message.len(), MAX_MESSAGE);
    }

    #[test]
    fn messages_name_label_operator_operand_got_and_expected() {
        let wrong_type = Problem::DataType {
            operand: "filter",
            got: DataType::Int32,
            expected: vec![DataType::Float32, DataType::Float16],
        };
        assert_eq!(
            Error::at("conv2d", "stem", wrong_type).message,
            "[stem] conv2d: filter has data type int32, expected float32 or float16"
        );
        let clash = Problem::Incompatible {
            what: "columns of a differ from rows of b",
            a: dims(&[2, 3, 4]),
            b: dims(&[2, 5, 6]),
        };
        assert_eq!(
            Error::at("matmul", "", clash).message,
            "matmul: columns of a differ from rows of b: [2, 3, 4] and [2, 5, 6]"
        );
    }
}
