//! What a run so far knows at the start of a part of a model, and the import of the part with that knowledge.

use crate::dimension::{Dim, dims as into_dims, numbers};
use crate::dtype::DataType;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::Builder;
use crate::memory::{Buffer, elements};
use crate::onnx::import::Value;
use crate::onnx::tensor::Literal;
use crate::runtime::{Site, Tensor};
use crate::shape::Descriptor;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of integers in a tensor that become free sizes of the compiled graph. Larger tensors are constants;
/// other elements then require recompiling.
const MAX_NUMBERS: usize = 64;

/// A value of a run.
#[derive(Clone)]
pub(super) enum Held {
    /// A tensor of the context.
    Tensor(Arc<Tensor>),
    /// A tensor with its bytes on the host.
    Host(Descriptor, Arc<Buffer>, Role),
    /// A constant of a type that WebNN lacks.
    Literal(Arc<Literal>),
    /// A list of tensors.
    Sequence(Arc<Vec<Held>>),
    /// An optional without an element.
    Absent,
}

/// What parts of a model may rely on in a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Role {
    /// Its type and shape.
    Fed,
    /// Its elements, which may differ between runs.
    Known,
    /// Its elements, which are always the same.
    Constant,
}

impl Held {
    /// The same value with only type and shape known: the elements of loop-carried values change in every round.
    pub fn fed(self) -> Held {
        match self {
            Held::Host(descriptor, bytes, _) => Held::Host(descriptor, bytes, Role::Fed),
            other => other,
        }
    }

    /// Type and shape of a tensor; dimensions can be 0.
    pub fn descriptor(&self) -> Option<&Descriptor> {
        match self {
            Held::Tensor(tensor) => Some(tensor.descriptor()),
            Held::Host(descriptor, ..) => Some(descriptor),
            _ => None,
        }
    }
}

/// How a value is imported.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    /// An input of this rank; its sizes are free.
    Input(DataType, usize),
    /// Integers that are free sizes, in a tensor of this shape.
    Numbers(Vec<u32>),
    /// A constant.
    Constant(Descriptor, Same),
    /// A constant of a type that WebNN lacks.
    Literal(Arc<Literal>),
    /// A list of items.
    Sequence(Vec<Item>),
    /// An optional without an element.
    Absent,
}

/// Bytes compared by content.
#[derive(Clone, Debug)]
struct Same(Arc<Buffer>);

impl PartialEq for Same {
    fn eq(&self, other: &Same) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.bytes() == other.0.bytes()
    }
}

/// What is known at the start of a part of a model, except for the values of free sizes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Known {
    items: Vec<(String, Item)>,
    /// Names of lists that are not used yet.
    pub later: Vec<String>,
}

/// Everything passed to a part of a model.
#[derive(Default)]
pub(super) struct Given {
    pub known: Known,
    /// The values of the free sizes.
    pub sizes: Vec<i64>,
    /// The names of the inputs, and their values.
    pub inputs: Vec<(String, Held)>,
}

impl Given {
    /// Adds `value` under `name`.
    ///
    /// # Errors
    /// An UnknownError if memory runs out.
    pub fn add(&mut self, name: &str, value: &Held) -> Result<()> {
        let item = self.item(name, value)?;
        self.known.items.push((name.to_string(), item));
        Ok(())
    }

    fn item(&mut self, name: &str, value: &Held) -> Result<Item> {
        Ok(match value {
            Held::Host(descriptor, bytes, Role::Known)
                if descriptor.dtype == DataType::Int64 && descriptor.elements() <= MAX_NUMBERS =>
            {
                self.sizes.extend(elements::<i64>(bytes.bytes()));
                Item::Numbers(numbers(&descriptor.shape))
            }
            Held::Host(descriptor, bytes, Role::Known | Role::Constant) if !descriptor.is_empty() => {
                Item::Constant(descriptor.clone(), Same(bytes.clone()))
            }
            Held::Tensor(_) | Held::Host(..) => {
                let descriptor = value.descriptor().expect("a tensor");
                self.sizes.extend(numbers(&descriptor.shape).into_iter().map(i64::from));
                self.inputs.push((name.to_string(), value.clone()));
                Item::Input(descriptor.dtype, descriptor.rank())
            }
            Held::Literal(literal) => Item::Literal(literal.clone()),
            Held::Sequence(values) => {
                let item = |(at, value)| self.item(&format!("{name}[#{at}]"), value);
                Item::Sequence(values.iter().enumerate().map(item).collect::<Result<_>>()?)
            }
            Held::Absent => Item::Absent,
        })
    }
}

impl Known {
    /// The values to import into `builder`; `dims` are the free sizes.
    ///
    /// # Errors
    /// A TypeError if a tensor is too large.
    pub fn values(&self, builder: &mut Builder, dims: &[Dim]) -> Result<HashMap<String, Value>> {
        let mut dims = dims.iter().copied();
        let value = |(name, item): &(String, Item)| Ok((name.clone(), value(builder, name, item, &mut dims)?));
        self.items.iter().map(value).collect()
    }
}

fn value(builder: &mut Builder, name: &str, item: &Item, free: &mut impl Iterator<Item = Dim>) -> Result<Value> {
    Ok(match item {
        Item::Input(dtype, rank) => {
            let shape: Vec<Dim> = free.take(*rank).collect();
            let descriptor = Descriptor { dtype: *dtype, shape };
            match descriptor.is_empty() {
                true => Value::Empty(descriptor),
                false => Value::Operand(builder.input(name, descriptor)?),
            }
        }
        Item::Numbers(shape) => {
            let descriptor = Descriptor::new(DataType::Int64, shape.as_slice());
            let dims: Vec<Dim> = free.take(descriptor.elements()).collect();
            match descriptor.is_empty() {
                true => Value::Empty(descriptor),
                false => Value::Operand(builder.sizes(descriptor, &dims)?),
            }
        }
        Item::Constant(descriptor, bytes) => {
            Value::Operand(builder.constant_shared(descriptor.clone(), bytes.0.clone()))
        }
        Item::Literal(literal) => Value::Literal(Rc::new((**literal).clone())),
        Item::Sequence(items) => {
            let item = |(at, item)| value(builder, &format!("{name}[#{at}]"), item, free);
            Value::Sequence(items.iter().enumerate().map(item).collect::<Result<_>>()?)
        }
        Item::Absent => Value::Absent,
    })
}

/// `held` as a constant of `builder`, with its bytes read.
///
/// # Errors
/// Those of [`bytes`].
pub(super) fn constant(site: &Site, builder: &mut Builder, held: &Held) -> Result<Value> {
    Ok(match held {
        Held::Tensor(_) | Held::Host(..) => {
            let descriptor = held.descriptor().expect("a tensor").clone();
            match descriptor.is_empty() {
                true => Value::Empty(descriptor),
                false => Value::Operand(builder.constant_shared(descriptor, bytes(site, held)?)),
            }
        }
        Held::Literal(literal) => Value::Literal(Rc::new((**literal).clone())),
        Held::Sequence(values) => {
            Value::Sequence(values.iter().map(|held| constant(site, builder, held)).collect::<Result<_>>()?)
        }
        Held::Absent => Value::Absent,
    })
}

/// `held` as a value of `builder` of which only type and shape are known, except for lists of a few integers: they may
/// be sizes.
///
/// # Errors
/// Those of [`bytes`], or a TypeError if a tensor is too large.
pub(super) fn outline(site: &Site, builder: &mut Builder, held: &Held) -> Result<Value> {
    match held {
        Held::Tensor(_) | Held::Host(..) => {
            let descriptor = held.descriptor().expect("a tensor");
            let may_be_sizes = descriptor.dtype == DataType::Int64 && descriptor.elements() <= MAX_NUMBERS;
            match descriptor.is_empty() || may_be_sizes {
                true => constant(site, builder, held),
                false => Ok(Value::Operand(builder.unnamed_input(descriptor.clone())?)),
            }
        }
        Held::Sequence(values) => {
            Ok(Value::Sequence(values.iter().map(|held| outline(site, builder, held)).collect::<Result<_>>()?))
        }
        other => constant(site, builder, other),
    }
}

/// The bytes of a tensor, read from the GPU if necessary.
///
/// # Errors
/// A TypeError if the value is not a tensor, an OperationError if reading fails.
pub(super) fn bytes(site: &Site, held: &Held) -> Result<Arc<Buffer>> {
    match held {
        Held::Host(_, bytes, _) => Ok(bytes.clone()),
        Held::Tensor(tensor) => site.bytes(tensor),
        _ => Err(Error::new(ErrorKind::Type, "a list or no value at all, expected a tensor")),
    }
}

/// A tensor on the host with this shape and these bytes.
pub(super) fn host(dtype: DataType, shape: &[u32], bytes: Buffer) -> Held {
    Held::Host(Descriptor { dtype, shape: into_dims(shape) }, Arc::new(bytes), Role::Fed)
}
