//! What a name in a model stands for, while it is translated and while it runs.

use super::tensor::Literal;
use crate::shape::Descriptor;
use std::sync::Arc;

/// A value of a model. Tensors are operands of a builder during a translation, data during a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<T> {
    /// A tensor with elements.
    Tensor(T),
    /// A tensor of texts: one of their numbers, see [`texts`](super::texts).
    Texts(T),
    /// A tensor without elements, which WebNN does not support.
    Empty(Descriptor),
    /// A constant of a type that WebNN does not support.
    Literal(Arc<Literal>),
    /// A list of tensors.
    Sequence(Arc<Vec<Value<T>>>),
    /// An optional without an element; a node that reads it sees a missing input.
    Absent,
    /// The output of an unsupported node.
    Unknown,
}

impl<T> Value<T> {
    /// A list.
    pub fn list(values: Vec<Value<T>>) -> Value<T> {
        Value::Sequence(Arc::new(values))
    }

    /// The values in a list; `None` for anything else.
    pub fn elements(&self) -> Option<&[Value<T>]> {
        match self {
            Value::Sequence(values) => Some(values),
            _ => None,
        }
    }

    /// A tensor as one of texts.
    pub fn of_texts(self) -> Value<T> {
        match self {
            Value::Tensor(tensor) => Value::Texts(tensor),
            other => other,
        }
    }

    /// A tensor of numbers, or of the numbers of texts.
    pub fn tensor(&self) -> Option<&T> {
        match self {
            Value::Tensor(tensor) | Value::Texts(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The same value, with `convert` applied to each of its tensors.
    ///
    /// # Errors
    /// The error of `convert`.
    pub fn try_map<U, E>(&self, convert: &mut impl FnMut(&T) -> Result<Value<U>, E>) -> Result<Value<U>, E> {
        Ok(match self {
            Value::Tensor(tensor) => convert(tensor)?,
            Value::Texts(tensor) => convert(tensor)?.of_texts(),
            Value::Empty(descriptor) => Value::Empty(descriptor.clone()),
            Value::Literal(literal) => Value::Literal(literal.clone()),
            Value::Sequence(values) => {
                Value::list(values.iter().map(|value| value.try_map(convert)).collect::<Result<_, E>>()?)
            }
            Value::Absent => Value::Absent,
            Value::Unknown => Value::Unknown,
        })
    }
}
