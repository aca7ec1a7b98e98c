//! What a run so far knows at the start of a part of a model, and the import of the part with that knowledge.

use super::program::Values;
use crate::dimension::{Dim, dims as into_dims, numbers};
use crate::dtype::DataType;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::Builder;
use crate::memory::{Buffer, elements};
use crate::onnx::graph::{ByName, NameId};
use crate::onnx::import;
use crate::onnx::value::Value;
use crate::runtime::{Site, Tensor};
use crate::shape::Descriptor;
use std::sync::Arc;

/// Maximum number of integers in a tensor that become free sizes of the compiled graph. Larger tensors are constants;
/// other elements then require recompiling.
const MAX_NUMBERS: usize = 64;

/// A value of a run.
pub(super) type Held = Value<Data>;

/// A tensor of a run.
#[derive(Clone)]
pub(super) enum Data {
    /// A tensor of the context.
    Device(Arc<Tensor>),
    /// A tensor with its bytes on the host.
    Host(Descriptor, Arc<Buffer>, Role),
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

impl Data {
    /// Type and shape.
    pub fn descriptor(&self) -> &Descriptor {
        match self {
            Data::Device(tensor) => tensor.descriptor(),
            Data::Host(descriptor, ..) => descriptor,
        }
    }

    /// The bytes, read from the GPU if necessary.
    ///
    /// # Errors
    /// An OperationError if reading fails.
    pub fn bytes(&self, site: &Site) -> Result<Arc<Buffer>> {
        match self {
            Data::Host(_, bytes, _) => Ok(bytes.clone()),
            Data::Device(tensor) => site.bytes(tensor),
        }
    }
}

impl Held {
    /// A tensor on the host.
    pub fn host(descriptor: Descriptor, bytes: impl Into<Arc<Buffer>>, role: Role) -> Held {
        match descriptor.is_empty() {
            true => Value::Empty(descriptor),
            false => Value::Tensor(Data::Host(descriptor, bytes.into(), role)),
        }
    }

    /// The same value with only type and shape known: the elements of loop-carried values change in every round.
    pub fn fed(self) -> Held {
        match self {
            Value::Tensor(Data::Host(descriptor, bytes, _)) => Value::Tensor(Data::Host(descriptor, bytes, Role::Fed)),
            Value::Texts(data) => Value::Tensor(data).fed().of_texts(),
            other => other,
        }
    }

    /// Type and shape of a tensor; dimensions can be 0.
    pub fn descriptor(&self) -> Option<&Descriptor> {
        match self {
            Value::Tensor(data) | Value::Texts(data) => Some(data.descriptor()),
            Value::Empty(descriptor) => Some(descriptor),
            _ => None,
        }
    }

    /// The bytes of a tensor, read from the GPU if necessary.
    ///
    /// # Errors
    /// A TypeError if the value is not a tensor, an OperationError if reading fails.
    pub fn bytes(&self, site: &Site) -> Result<Arc<Buffer>> {
        match self {
            Value::Tensor(data) | Value::Texts(data) => data.bytes(site),
            Value::Empty(_) => Ok(Arc::default()),
            _ => Err(Error::new(ErrorKind::Type, "a list or no value at all, expected a tensor")),
        }
    }
}

/// How a value is imported.
type Item = Value<Kind>;

/// How a tensor is imported.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// An input of this rank; its sizes are free.
    Input(DataType, usize),
    /// Integers that are free sizes, in a tensor of this shape.
    Numbers(Vec<u32>),
    /// A constant.
    Constant(Descriptor, Same),
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
    items: Vec<(NameId, Item)>,
    /// Lists that are not used yet.
    pub later: Vec<NameId>,
}

/// Everything passed to a part of a model.
#[derive(Default)]
pub(super) struct Given {
    pub known: Known,
    /// The values of the free sizes.
    pub sizes: Vec<i64>,
    /// The tensors that are inputs of its graph, in its order, and the value that each is or belongs to.
    pub inputs: Vec<(NameId, Held)>,
}

impl Given {
    /// The values among `values` that a part reads.
    pub fn of(values: &Values, reads: &[NameId]) -> Given {
        let mut given = Given::default();
        for &id in reads {
            if let Some(value) = values.get(&id) {
                given.add(id, value);
            }
        }
        given
    }

    fn add(&mut self, id: NameId, value: &Held) {
        let item = match value {
            Value::Empty(descriptor) => self.input(id, value, descriptor),
            other => other
                .try_map(&mut |data: &Data| Ok::<_, std::convert::Infallible>(self.item(id, data)))
                .unwrap_or_else(|never| match never {}),
        };
        self.known.items.push((id, item));
    }

    fn item(&mut self, id: NameId, data: &Data) -> Item {
        match data {
            Data::Host(descriptor, bytes, Role::Known)
                if descriptor.dtype == DataType::Int64 && descriptor.elements() <= MAX_NUMBERS =>
            {
                self.sizes.extend(elements::<i64>(bytes.bytes()));
                Value::Tensor(Kind::Numbers(numbers(&descriptor.shape)))
            }
            Data::Host(descriptor, bytes, Role::Known | Role::Constant) => {
                Value::Tensor(Kind::Constant(descriptor.clone(), Same(bytes.clone())))
            }
            data => self.input(id, &Value::Tensor(data.clone()), data.descriptor()),
        }
    }

    fn input(&mut self, id: NameId, value: &Held, descriptor: &Descriptor) -> Item {
        self.sizes.extend(numbers(&descriptor.shape).into_iter().map(i64::from));
        self.inputs.push((id, value.clone()));
        Value::Tensor(Kind::Input(descriptor.dtype, descriptor.rank()))
    }

    /// The names of the inputs of a graph with `count` of them.
    pub fn names(count: usize) -> Vec<String> {
        (0..count).map(|at| at.to_string()).collect()
    }
}

impl Known {
    /// Whether `known` is the same, or adds values that nothing made with this one reads: the reads of a stage only
    /// grow. The sizes of the same values, and their inputs, come first among those of `known`.
    pub fn begins(&self, known: &Known) -> bool {
        self.later == known.later && known.items.starts_with(&self.items)
    }

    /// The values to import into `builder`; `dims` are the free sizes.
    ///
    /// # Errors
    /// A TypeError if a tensor is too large.
    pub fn values(&self, builder: &mut Builder, dims: &[Dim]) -> Result<ByName<import::Value>> {
        let (mut dims, mut names) = (dims.iter().copied(), (0..).map(|at: usize| at.to_string()));
        let mut operand = |kind: &Kind| -> Result<import::Value> {
            Ok(match kind {
                Kind::Input(dtype, rank) => {
                    let descriptor = Descriptor { dtype: *dtype, shape: dims.by_ref().take(*rank).collect() };
                    let name = names.next().expect("endless");
                    match descriptor.is_empty() {
                        true => Value::Empty(descriptor),
                        false => Value::Tensor(builder.input(&name, descriptor)?),
                    }
                }
                Kind::Numbers(shape) => {
                    let descriptor = Descriptor::new(DataType::Int64, shape.as_slice());
                    let dims: Vec<Dim> = dims.by_ref().take(descriptor.elements()).collect();
                    Value::Tensor(builder.sizes(descriptor, &dims)?)
                }
                Kind::Constant(descriptor, bytes) => {
                    Value::Tensor(builder.constant_shared(descriptor.clone(), bytes.0.clone()))
                }
            })
        };
        self.items.iter().map(|(id, item)| Ok((*id, item.try_map(&mut operand)?))).collect()
    }
}

/// `held` as a constant of `builder`, with its bytes read.
///
/// # Errors
/// An OperationError if reading fails.
pub(super) fn constant(site: &Site, builder: &mut Builder, held: &Held) -> Result<import::Value> {
    held.try_map(&mut |data| Ok(Value::Tensor(builder.constant_shared(data.descriptor().clone(), data.bytes(site)?))))
}

/// `held` as a value of `builder`, a constant if its elements are known.
///
/// # Errors
/// A TypeError if a tensor is too large.
pub(super) fn unnamed(builder: &mut Builder, held: &Held) -> Result<import::Value> {
    held.try_map(&mut |data| {
        Ok(Value::Tensor(match data {
            Data::Host(descriptor, bytes, Role::Known | Role::Constant) => {
                builder.constant_shared(descriptor.clone(), bytes.clone())
            }
            data => builder.unnamed_input(data.descriptor().clone())?,
        }))
    })
}

/// `held` as a value of `builder` with only its type and shape known, except for short lists of integers, which may be
/// sizes.
///
/// # Errors
/// An OperationError if reading fails, or a TypeError if a tensor is too large.
pub(super) fn outline(site: &Site, builder: &mut Builder, held: &Held) -> Result<import::Value> {
    held.try_map(&mut |data| {
        let descriptor = data.descriptor().clone();
        let may_be_sizes = descriptor.dtype == DataType::Int64 && descriptor.elements() <= MAX_NUMBERS;
        Ok(Value::Tensor(match may_be_sizes {
            true => builder.constant_shared(descriptor, data.bytes(site)?),
            false => builder.unnamed_input(descriptor)?,
        }))
    })
}

/// A tensor on the host with this shape and these bytes.
pub(super) fn host(dtype: DataType, shape: &[u32], bytes: Buffer) -> Held {
    Held::host(Descriptor { dtype, shape: into_dims(shape) }, bytes, Role::Fed)
}
