//! The constants that translations read and make. Their sizes are those of a file, so nothing here allocates without a
//! limit: short lists of numbers, bytes that are read in place, and constants within the memory that a model may use.

use super::call::{Call, Step};
use super::error::{Cut, ModelError, Refusal, Result};
use super::import::{Importer, Value};
use super::tensor::{self, ElementType, Literal};
use crate::dimension::Dim;
use crate::dtype::{DataType, Element, Number};
use crate::error::{Error, amount};
use crate::ir::{Constant, FileType, OperandId, Widened, bytes_of_sizes};
use crate::memory::{Backing, Buffer, Mapped, bytes_of, elements_mut};
use crate::shape::Descriptor;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of elements of a constant that a translation generates: a small file must not need much memory.
const MAX_GENERATED: u64 = 1 << 23;

/// Maximum number of elements to list one by one as numbers: axes, sizes, places and bounds have far fewer.
const MAX_LISTED: usize = 1 << 20;

/// Lists up to this length are not counted as work.
const SHORT_LIST: usize = 1 << 10;

/// Rejects constants with more elements than a translation may generate.
///
/// # Errors
/// If `count` is above 2^23 elements.
pub fn check_generated(count: u64) -> Step<()> {
    match count <= MAX_GENERATED {
        true => Ok(()),
        false => {
            Err(Refusal(format!("it needs a constant of {}, more than {MAX_GENERATED}", amount(count, "element"))))
        }
    }
}

/// Maximum size in bytes of constants to copy; larger ones are read from the file when the graph is compiled.
pub const MAX_COPIED_BYTES: usize = 1 << 14;

/// A buffer as the owner of bytes.
struct Shared(Arc<Buffer>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Constants of types that WebNN lacks, by address and by what they were converted to. The first ones keep their
/// addresses from being used for others.
pub(super) type Converted = HashMap<(*const Literal, Conversion), (Arc<Literal>, OperandId)>;

/// What a constant is converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// The data type that represents its own.
    Widened,
    /// Another data type, as by a cast.
    Cast(DataType),
    /// Whether each element differs from 0.
    Truth,
    /// The sum with this number, as a byte.
    Lifted(u8),
    /// Integers of 4 bits, and doubles, as they are.
    Stored,
}

/// `dtype`, and float32 for float64.
pub fn without_double(dtype: DataType) -> DataType {
    if dtype == DataType::Float64 { DataType::Float32 } else { dtype }
}

impl Importer<'_> {
    /// Converts a tensor of the file to a value.
    pub fn literal(&mut self, literal: Literal) -> Result<Value> {
        if literal.element == ElementType::String {
            return self.texts(&literal);
        }
        let Some(dtype) = literal.element.webnn() else { return Ok(Value::Literal(Arc::new(literal))) };
        let descriptor = Descriptor::new(dtype, literal.shape);
        if descriptor.is_empty() {
            return Ok(Value::Empty(descriptor));
        }
        self.stored(descriptor, &literal.bytes).map(Value::Tensor)
    }

    /// The numbers of a constant's texts.
    fn texts(&mut self, literal: &Literal) -> Result<Value> {
        let numbers = self.model.texts().numbers(literal)?;
        let descriptor = Descriptor::new(DataType::Int32, literal.shape.as_slice());
        if descriptor.is_empty() {
            return Ok(Value::Empty(descriptor));
        }
        self.take_memory(descriptor.bytes())?;
        let constant = self.builder.constant(descriptor, bytes_of(&numbers));
        constant.map(Value::Texts).map_err(ModelError::of_constant)
    }

    /// A constant with the bytes of the file.
    fn stored(&mut self, descriptor: Descriptor, bytes: &Bytes) -> Result<OperandId> {
        let files = &self.model.files;
        let is_kept = || files.store().is_some();
        let window = match bytes.len() > MAX_COPIED_BYTES {
            true => files.window_of(bytes).or_else(|| is_kept().then(|| files.held(bytes))),
            false => None,
        };
        let constant = match window {
            Some(window) => self.builder.constant_mapped(descriptor, window),
            None => {
                self.take_memory(bytes.len())?;
                self.builder.constant(descriptor, bytes)
            }
        };
        constant.map_err(ModelError::of_constant)
    }

    /// A constant of 4-bit integers as it is stored, which only `dequantizeLinear` reads, or of doubles; `None` for other
    /// types and without elements. All nodes share it.
    fn as_stored(&mut self, literal: &Arc<Literal>) -> Result<Option<OperandId>> {
        let dtype = match literal.element {
            ElementType::Int4 => DataType::Int4,
            ElementType::Uint4 => DataType::Uint4,
            ElementType::Double => DataType::Float64,
            _ => return Ok(None),
        };
        let key = (Arc::as_ptr(literal), Conversion::Stored);
        let descriptor = Descriptor::new(dtype, literal.shape.as_slice());
        if let Some((_, known)) = self.converted.get(&key) {
            return Ok(Some(*known));
        }
        if descriptor.is_empty() {
            return Ok(None);
        }
        let operand = self.stored(descriptor, &literal.bytes)?;
        self.converted.insert(key, (literal.clone(), operand));
        Ok(Some(operand))
    }

    /// Deducts from the remaining bytes for translations.
    pub(super) fn take_memory(&mut self, bytes: usize) -> Result<()> {
        self.memory = self.memory_without(bytes)?;
        Ok(())
    }

    /// What would remain without `bytes`, of those for translations.
    ///
    /// # Errors
    /// If less is left.
    pub(super) fn memory_without(&self, bytes: usize) -> Result<usize> {
        let left = self.memory.checked_sub(bytes);
        left.ok_or_else(|| ModelError::new("the model needs too much memory after unrolling its loops"))
    }

    /// The type that the model computes elements of this type in. Without float64, doubles are float32.
    pub(super) fn computed_type(&self, element: ElementType) -> Option<DataType> {
        element.computed().map(|dtype| if self.has_doubles { dtype } else { without_double(dtype) })
    }

    /// Represents a constant of a floating-point type that WebNN does not support in one that the model computes in.
    pub(super) fn computed(&mut self, value: Value) -> Result<Value> {
        match value {
            Value::Literal(literal) if self.computed_type(literal.element) == Some(DataType::Float64) => {
                Ok(match self.as_stored(&literal)? {
                    Some(id) => Value::Tensor(id),
                    None => Value::Empty(Descriptor::new(DataType::Float64, literal.shape.as_slice())),
                })
            }
            Value::Literal(literal) if literal.element.computed().is_some() => self.widened(&literal),
            other => Ok(other),
        }
    }

    /// Represents a constant of a type that WebNN does not support in one that has all its values, or in float32. All
    /// nodes that read the constant share the result.
    pub(super) fn widened(&mut self, literal: &Arc<Literal>) -> Result<Value> {
        let widened = literal.widened(&self.model.files).map_err(ModelError::new)?;
        let descriptor = Descriptor::new(widened.from().widened(), literal.shape.as_slice());
        if descriptor.is_empty() {
            return Ok(Value::Empty(descriptor));
        }
        let key = (Arc::as_ptr(literal), Conversion::Widened);
        if let Some((_, known)) = self.converted.get(&key) {
            return Ok(Value::Tensor(*known));
        }
        let constant = match widened.len() <= MAX_COPIED_BYTES {
            true => {
                self.take_memory(widened.len())?;
                Constant::Widened(widened).buffer().map(Constant::Owned)
            }
            false => Ok(Constant::Widened(widened)),
        };
        let operand = constant.and_then(|constant| self.builder.constant_like(descriptor, &constant));
        let operand = operand.map_err(ModelError::of_constant)?;
        self.converted.insert(key, (literal.clone(), operand));
        Ok(Value::Tensor(operand))
    }
}

impl Call<'_, '_> {
    // ---- Reading ----------------------------------------------------------------------------------------------------

    /// The elements of `operand` if it is a constant that is short enough to be listed. Unknown sizes become numbers, see
    /// [`Dim::pinned`].
    pub fn numbers_of(&self, operand: OperandId) -> Option<Vec<Number>> {
        self.listed(operand).ok().flatten()
    }

    /// Like [`numbers_of`](Self::numbers_of).
    ///
    /// # Errors
    /// If there are too many elements. The message lacks the name of the operand.
    pub fn listed(&self, operand: OperandId) -> Step<Option<Vec<Number>>> {
        if let Some(dims) = self.importer.builder.sizes_of(operand) {
            let is_float = self.dtype(operand).is_float();
            let number = |dim: &Dim| match is_float {
                true => Number::Float(dim.pinned() as f64),
                false => Number::Int(dim.pinned() as i128),
            };
            return Ok(Some(dims.iter().map(number).collect()));
        }
        let Some(constant) = self.importer.builder.constant_value(operand) else { return Ok(None) };
        self.take_list(constant.len() * 8 / self.dtype(operand).bits())?;
        // An unreadable weight is reported when the graph is compiled; here, its value merely counts as unknown.
        let bytes = constant.buffer().ok();
        Ok(bytes.map(|bytes| tensor::numbers(self.dtype(operand), bytes.bytes())))
    }

    /// Deducts the work of listing `elements` numbers.
    fn take_list(&self, elements: usize) -> Step<()> {
        if elements > MAX_LISTED {
            return Err(Refusal(format!("has {}, expected at most {MAX_LISTED}", amount(elements, "element"))));
        }
        if elements > SHORT_LIST { self.take_work(elements) } else { Ok(()) }
    }

    /// The single element of `operand` if it is a constant with one.
    pub fn number_of(&self, operand: OperandId) -> Option<Number> {
        let builder = &self.importer.builder;
        let count = match builder.sizes_of(operand) {
            Some(dims) => dims.len(),
            None => builder.constant_value(operand)?.len() * 8 / self.dtype(operand).bits(),
        };
        if count == 1 { self.numbers_of(operand)?.first().copied() } else { None }
    }

    /// The type and the bytes of the input at `index` if it is a constant of any number of elements. Unknown sizes become
    /// numbers, see [`Dim::pinned`].
    ///
    /// # Errors
    /// If they cannot be read, or memory for them runs out.
    pub fn constant_elements(&mut self, index: usize) -> Step<Option<(DataType, Arc<Buffer>)>> {
        let Some(value) = self.value(index) else { return Ok(None) };
        let operand = match value {
            Value::Tensor(id) => id,
            Value::Literal(literal) => match self.computed_value(Value::Literal(literal.clone()))? {
                Value::Tensor(id) => id,
                _ => self.widened(&literal)?,
            },
            Value::Empty(descriptor) => return Ok(Some((descriptor.dtype, Arc::default()))),
            _ => return Ok(None),
        };
        let dtype = self.dtype(operand);
        if let Some(dims) = self.importer.builder.sizes_of(operand) {
            let bytes = bytes_of_sizes(dims.iter().map(|dim| dim.pinned()), dtype)?;
            return Ok(Some((dtype, Arc::new(bytes))));
        }
        let Some(constant) = self.importer.builder.constant_value(operand) else { return Ok(None) };
        // Reading costs much less than computing, but many nodes can read the same large constant.
        self.take_work(constant.len() / 64)?;
        Ok(Some((dtype, constant.buffer()?)))
    }

    /// The integers in the constant at `index`; `None` if it is missing.
    ///
    /// # Errors
    /// If it is not a constant, or not all of its elements are integers. Messages call it `what`.
    pub fn optional_ints(&self, index: usize, what: &str) -> Step<Option<Vec<i64>>> {
        let Some(numbers) = self.given_numbers(index, what)? else { return Ok(None) };
        let ints = numbers.into_iter().map(|number| match number {
            Number::Int(x) => i64::try_from(x).ok(),
            Number::Float(_) => None,
        });
        ints.collect::<Option<_>>()
            .map(Some)
            .ok_or_else(|| Refusal(format!("{what} (input {index}) holds no integers")))
    }

    /// Like [`optional_ints`](Self::optional_ints), for a required input.
    ///
    /// # Errors
    /// Same as [`optional_ints`](Self::optional_ints), or if it is missing.
    pub fn ints(&self, index: usize, what: &str) -> Step<Vec<i64>> {
        self.optional_ints(index, what)?.ok_or_else(|| Refusal(format!("{what} (input {index}) is missing")))
    }

    /// Like [`ints`](Self::ints), but also accepts integers that depend on sizes still unknown.
    ///
    /// # Errors
    /// Same as [`ints`](Self::ints).
    pub fn int_dims(&self, index: usize, what: &str) -> Step<Vec<Dim>> {
        if let Some(Value::Tensor(id)) = self.value(index)
            && let Some(dims) = self.importer.builder.sizes_of(id)
        {
            return Ok(dims.to_vec());
        }
        Ok(self.ints(index, what)?.into_iter().map(Dim::number).collect())
    }

    /// The single integer in the constant at `index`.
    ///
    /// # Errors
    /// Same as [`ints`](Self::ints), or if there is not exactly one integer.
    pub fn one_int(&self, index: usize, what: &str) -> Step<i64> {
        match self.ints(index, what)?[..] {
            [int] => Ok(int),
            ref ints => {
                Err(Refusal(format!("{what} (input {index}) has {}, expected 1", amount(ints.len(), "element"))))
            }
        }
    }

    /// The numbers in the constant at `index` as float64; `None` if it is missing.
    ///
    /// # Errors
    /// If it is not a constant. Messages call it `what`.
    pub fn optional_floats(&self, index: usize, what: &str) -> Step<Option<Vec<f64>>> {
        Ok(self.given_numbers(index, what)?.map(|numbers| numbers.into_iter().map(Number::to_f64).collect()))
    }

    /// The numbers in the constant at `index`; `None` if it is missing.
    ///
    /// # Errors
    /// If it is not a constant. Messages call it `what`.
    pub fn given_numbers(&self, index: usize, what: &str) -> Step<Option<Vec<Number>>> {
        let named = |refusal: Refusal| Refusal(format!("{what} (input {index}) {}", refusal.reason));
        match self.value(index) {
            None => Ok(None),
            Some(Value::Tensor(id)) => match self.listed(id).map_err(named)? {
                Some(numbers) => Ok(Some(numbers)),
                None => {
                    let reason = "is computed from inputs of the model, expected a constant";
                    Err(named(reason.into()).unless(Cut::Value(index)).lacking(id))
                }
            },
            Some(Value::Literal(literal)) => {
                self.take_list(literal.elements()).map_err(named)?;
                let mut numbers = Vec::new();
                literal.visit(|number| numbers.push(number)).map_err(|_| named("holds no numbers".into()))?;
                Ok(Some(numbers))
            }
            Some(Value::Empty(_)) => Ok(Some(Vec::new())),
            Some(_) => Err(named("holds no numbers".into())),
        }
    }

    /// The single number in the constant at `index`.
    ///
    /// # Errors
    /// Same as [`given_numbers`](Self::given_numbers), or if it is missing or there is not exactly one number.
    pub fn one_number(&self, index: usize, what: &str) -> Step<Number> {
        let numbers = self.given_numbers(index, what)?;
        let numbers = numbers.ok_or_else(|| Refusal(format!("{what} (input {index}) is missing")))?;
        match numbers[..] {
            [number] => Ok(number),
            _ => Err(Refusal(format!("{what} (input {index}) has {}, expected 1", amount(numbers.len(), "element")))),
        }
    }

    /// The bytes of the input at `index` if it is a constant of a type that WebNN supports.
    ///
    /// # Errors
    /// If they cannot be read, or memory for them runs out.
    pub fn constant_bytes(&mut self, index: usize) -> Step<Option<Bytes>> {
        let Some(Value::Tensor(id)) = self.value(index) else { return Ok(None) };
        let Some(constant) = self.importer.builder.constant_value(id).cloned() else { return Ok(None) };
        self.take_memory(constant.len())?;
        Ok(Some(Bytes::from_owner(Shared(constant.buffer()?))))
    }

    /// The bytes of a constant.
    ///
    /// # Errors
    /// If memory for them runs out, or a mapped file cannot be read.
    pub fn bytes_of(&self, constant: OperandId) -> Step<Arc<Buffer>> {
        Ok(self.importer.builder.constant_value(constant).expect("a constant").buffer()?)
    }

    // ---- Making -----------------------------------------------------------------------------------------------------

    /// A scalar.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn scalar(&mut self, dtype: DataType, value: Number) -> Step<OperandId> {
        Ok(self.importer.builder.scalar(dtype, value)?)
    }

    /// A scalar of the type of `operand`.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn scalar_like(&mut self, operand: OperandId, value: f64) -> Step<OperandId> {
        self.scalar(self.dtype(operand), Number::Float(value))
    }

    /// A constant with these elements, cast to `dtype`. Evaluates the elements only after checking the memory limit.
    ///
    /// # Errors
    /// If there are more elements than a translation may generate, memory runs out, or the shape is invalid.
    ///
    /// # Panics
    /// If the shape has a different number of elements.
    pub fn constant<I>(&mut self, dtype: DataType, shape: &[u32], elements: I) -> Step<OperandId>
    where
        I: IntoIterator<Item: Into<Number>>,
    {
        let count = shape.iter().fold(1u64, |n, &dim| n.saturating_mul(dim as u64));
        // What the data of a run decide is limited by memory alone.
        if !self.is_evaluated() {
            check_generated(count)?;
        }
        let mut elements = elements.into_iter();
        self.filled(Descriptor::new(dtype, shape), |bytes| {
            for place in bytes.chunks_exact_mut(dtype.size()) {
                elements.next().expect("as many elements as the shape has").into().write(dtype, place);
            }
            assert!(elements.next().is_none(), "no more elements than the shape has");
        })
    }

    /// A constant of this shape whose elements `fill` writes over zeros.
    ///
    /// # Errors
    /// If there are more elements than a translation may generate, memory runs out, or the shape is invalid.
    pub fn written<T: Element>(&mut self, shape: &[u32], fill: impl FnOnce(&mut [T])) -> Step<OperandId> {
        // What the data of a run decide is limited by memory alone.
        if !self.is_evaluated() {
            check_generated(shape.iter().fold(1u64, |n, &dim| n.saturating_mul(dim as u64)))?;
        }
        self.filled(Descriptor::new(T::DATA_TYPE, shape), |bytes| fill(elements_mut(bytes)))
    }

    /// A constant whose bytes `fill` writes over zeros, within the memory limit.
    ///
    /// # Errors
    /// If memory runs out, or the shape is invalid.
    pub fn filled(&mut self, descriptor: Descriptor, fill: impl FnOnce(&mut [u8])) -> Step<OperandId> {
        self.check(&descriptor)?;
        self.take_memory(descriptor.bytes())?;
        let mut bytes = Buffer::zeroed(descriptor.bytes())?;
        fill(bytes.bytes_mut());
        Ok(self.importer.builder.constant_of(descriptor, bytes)?)
    }

    /// A constant whose bytes are all `byte`.
    ///
    /// # Errors
    /// If the shape is invalid.
    pub fn same(&mut self, descriptor: Descriptor, byte: u8) -> Step<OperandId> {
        self.check(&descriptor)?;
        Ok(self.importer.builder.constant_filled(descriptor, byte)?)
    }

    /// A constant of 4-bit integers as it is stored, which only `dequantizeLinear` reads; `None` for other types and
    /// without elements.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn packed(&mut self, literal: &Arc<Literal>) -> Step<Option<OperandId>> {
        match literal.element {
            ElementType::Int4 | ElementType::Uint4 => Ok(self.importer.as_stored(literal)?),
            _ => Ok(None),
        }
    }

    /// A constant of the file in a type that the model computes in.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn computed_value(&mut self, value: Value) -> Step<Value> {
        Ok(self.importer.computed(value)?)
    }

    /// The type that the model computes elements of this type in.
    ///
    /// # Errors
    /// If there is none. Messages call the elements `what`.
    pub fn computed_type(&self, element: ElementType, what: &str) -> Step<DataType> {
        let dtype = self.importer.computed_type(element);
        dtype.ok_or_else(|| Refusal(format!("{what} is of type {element}, which WebNN does not have")))
    }

    /// Represents a constant of the file whose type WebNN lacks in one that has all its values; a double is rounded to
    /// float32.
    ///
    /// # Errors
    /// If nothing represents the type, the constant has no elements, or memory runs out.
    pub fn widened(&mut self, literal: &Arc<Literal>) -> Step<OperandId> {
        match self.importer.widened(literal)? {
            Value::Tensor(id) => Ok(id),
            _ => Err("a constant has no elements".into()),
        }
    }

    /// Converts a constant of the file by applying `f` to each exact element. All nodes share the result.
    ///
    /// # Errors
    /// If its elements are not numbers, or memory runs out.
    pub fn converted(
        &mut self,
        literal: &Arc<Literal>,
        (to, conversion): (DataType, Conversion),
        f: impl Fn(Number) -> Number,
    ) -> Step<OperandId> {
        let key = (Arc::as_ptr(literal), conversion);
        if let Some((_, known)) = self.importer.converted.get(&key) {
            return Ok(*known);
        }
        let mut outcome = Ok(());
        let operand = self.filled(Descriptor::new(to, literal.shape.as_slice()), |bytes| {
            let mut places = bytes.chunks_exact_mut(to.size());
            outcome = literal.visit(|number| f(number).write(to, places.next().expect("as many places as elements")));
        })?;
        outcome?;
        self.importer.converted.insert(key, (literal.clone(), operand));
        Ok(operand)
    }

    /// Checks that a constant may have this descriptor.
    ///
    /// # Errors
    /// If it exceeds the limits.
    fn check(&self, descriptor: &Descriptor) -> Step<()> {
        let most = self.importer.builder.max_tensor_bytes();
        Ok(descriptor.check_bytes("descriptor", most).map_err(|problem| Error::at("constant", &self.label, problem))?)
    }

    /// A constant with these bytes.
    ///
    /// # Errors
    /// Same as [`constant`](Self::constant), or if the number of bytes is wrong.
    pub fn constant_from_bytes(&mut self, descriptor: Descriptor, bytes: &[u8]) -> Step<OperandId> {
        Ok(self.importer.builder.constant(descriptor, bytes)?)
    }

    /// Reinterprets the bytes of the constant at `index`, which messages call `what`, as elements of another type and
    /// shape, without a copy.
    ///
    /// # Errors
    /// If the input is computed, or has a different number of bytes.
    pub fn constant_as(&mut self, index: usize, what: &str, descriptor: Descriptor) -> Step<OperandId> {
        let Some(Value::Tensor(id)) = self.value(index) else {
            return Err(Refusal(format!("{what} (input {index}) is missing")));
        };
        let Some(constant) = self.importer.builder.constant_value(id).cloned() else {
            let message = format!("{what} (input {index}) is computed from inputs of the model, expected a constant");
            return Err(Refusal(message).unless(Cut::Value(index)).lacking(id));
        };
        let (got, expected) = (constant.len(), descriptor.bytes());
        if got != expected {
            let Descriptor { dtype, shape } = descriptor;
            let expected = format!("the {} of {dtype} {shape:?}", amount(expected, "byte"));
            return Err(Refusal(format!("{what} (input {index}) has {}, expected {expected}", amount(got, "byte"))));
        }
        Ok(self.importer.builder.constant_like(descriptor, &constant)?)
    }

    /// The bytes of the constant at `index`, which messages call `what`, as `count` elements of a type of files, in
    /// blocks of `size`. They are widened when they are read.
    ///
    /// # Errors
    /// If the input is computed, or has another number of bytes.
    pub fn constant_of_type(
        &mut self,
        index: usize,
        what: &str,
        from: FileType,
        [count, size]: [u32; 2],
    ) -> Step<OperandId> {
        let elements = count as usize * size as usize;
        let bytes = u32::try_from((elements * from.bits()).div_ceil(8)).map_err(|_| format!("{what} is too large"))?;
        let id = self.constant_as(index, what, Descriptor::new(DataType::Uint8, [bytes]))?;
        let stored = match self.importer.builder.constant_value(id) {
            Some(Constant::Mapped(window)) => window.clone(),
            _ => {
                let copy = self.bytes_of(id)?.bytes().to_vec();
                Mapped::new(Backing::of_bytes(copy), 0..bytes as usize).expect("all of it")
            }
        };
        let widened = Constant::Widened(Widened::new(stored, from, elements));
        Ok(self.importer.builder.constant_like(Descriptor::new(from.widened(), [count, size]), &widened)?)
    }

    /// A list of integers as the value of an output: int64, possibly empty.
    ///
    /// # Errors
    /// Same as [`constant`](Self::constant).
    pub fn int_list(&mut self, shape: &[u32], ints: &[i64]) -> Step<Value> {
        let descriptor = Descriptor::new(DataType::Int64, shape);
        if shape.contains(&0) {
            return Ok(Value::Empty(descriptor));
        }
        self.written(shape, |places: &mut [i64]| places.copy_from_slice(ints)).map(Value::Tensor)
    }

    /// Like [`int_list`](Self::int_list), for integers that may depend on sizes still unknown.
    ///
    /// # Errors
    /// Same as [`int_list`](Self::int_list).
    pub fn dim_list(&mut self, shape: &[u32], dims: &[Dim]) -> Step<Value> {
        if dims.iter().all(|dim| dim.is_number()) {
            return self.int_list(shape, &dims.iter().map(|dim| dim.pinned()).collect::<Vec<_>>());
        }
        self.dims_constant(&Descriptor::new(DataType::Int64, shape), dims).map(Value::Tensor)
    }

    /// Integers that may depend on sizes still unknown, as elements of the descriptor's type.
    ///
    /// # Errors
    /// Same as [`int_list`](Self::int_list).
    pub fn dims_constant(&mut self, descriptor: &Descriptor, dims: &[Dim]) -> Step<OperandId> {
        self.take_memory(size_of_val(dims))?;
        if dims.iter().all(|dim| dim.is_number()) {
            let numbers = dims.iter().map(|dim| Number::Int(dim.pinned() as i128));
            return self.constant(descriptor.dtype, &descriptor.sizes(), numbers);
        }
        Ok(self.importer.builder.sizes(descriptor.clone(), dims)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::file::Files;
    use crate::onnx::tensor::ElementType::*;
    use crate::onnx::testing::{Attr, TestGraph, graph_of};
    use crate::onnx::{Model, Request};

    #[test]
    fn lists_of_numbers_are_short() {
        let long = vec![1; 8 * (MAX_LISTED + 1)];
        let body = || {
            let body =
                TestGraph::default().input("i", Int64, &[]).input("go", Bool, &[]).input("s", Float, &["2", "3"]);
            Attr::Graph(body.output("go").output("s"))
        };
        let branch = || Attr::Graph(TestGraph::default().node("Neg", "x", "z", vec![]).output("z"));
        let size = [0; 8];
        for (operator, inputs, what) in [
            ("AffineGrid", "theta long", "size (input 1)"),
            ("CenterCropPad", "x long", "shape (input 1)"),
            ("Clip", "x long_float", "min (input 1)"),
            ("Clip", "x _ long_float", "max (input 2)"),
            ("Col2Im", "cols long two", "image_shape (input 1)"),
            ("ConstantOfShape", "long", "input (input 0)"),
            ("CumSum", "x long", "axis (input 1)"),
            ("Expand", "x long", "shape (input 1)"),
            ("HannWindow", "long", "size (input 0)"),
            ("If", "long_bool", "cond (input 0)"),
            ("Loop", "long _ x", "the trip count (input 0)"),
            ("OneHot", "indices long values", "depth (input 1)"),
            ("Pad", "x long", "pads (input 1)"),
            ("Pad", "x pads long_float", "constant_value (input 2)"),
            ("Range", "zero long zero", "limit (input 1)"),
            ("ReduceSum", "x long", "axes (input 1)"),
            ("Reshape", "x long", "shape (input 1)"),
            ("Slice", "x long two", "starts (input 1)"),
            ("Slice", "x two two two long", "steps (input 4)"),
            ("Split", "x long", "split (input 1)"),
            ("SplitToSequence", "x long", "split (input 1)"),
            ("Squeeze", "x long", "axes (input 1)"),
            ("Tile", "x long", "repeats (input 1)"),
            ("TopK", "x long", "K (input 1)"),
            ("Trilu", "x long", "k (input 1)"),
            ("Unsqueeze", "x long", "axes (input 1)"),
        ] {
            let mut attributes = vec![];
            if operator == "Loop" {
                attributes.push(("body", body()));
            }
            if operator == "If" {
                attributes = vec![("then_branch", branch()), ("else_branch", branch())];
            }
            let count = MAX_LISTED as i64 + 1;
            let graph = TestGraph::default()
                .input("x", Float, &["2", "3"])
                .input("theta", Float, &["2", "2", "3"])
                .input("cols", Float, &["1", "4", "4"])
                .input("indices", Int64, &["2"])
                .floats("values", &[2], &[0.0, 1.0])
                .raw("long", Int64, &[count], &long)
                .raw("long_float", Float, &[count], &long[..4 * count as usize])
                .raw("long_bool", Bool, &[count], &long[..count as usize])
                .raw("zero", Int64, &[], &size)
                .ints("pads", &[1; 4])
                .ints("two", &[1, 1]);
            let message = graph.node(operator, inputs, "y", attributes).output("y").refusal(22);
            let expected = format!("{what} has {}, expected at most {MAX_LISTED}", amount(count, "element"));
            assert!(message.contains(&format!("[y] {operator}")) && message.contains(&expected), "{message}");
        }
    }

    #[test]
    fn listing_the_same_constant_again_and_again_is_refused() {
        let graph = TestGraph::default().input("x", Float, &["2"]).raw("long", Int64, &[1 << 20], &vec![0; 8 << 20]);
        let graph = (0..40).fold(graph, |graph, at| graph.node("Unsqueeze", "x long", &format!("y{at}"), vec![]));
        let message = (0..40).fold(graph, |graph, at| graph.output(&format!("y{at}"))).refusal(17);
        assert!(message.contains("evaluating the model's constants takes too long"), "{message}");
    }

    /// The constants of a graph that is imported from a file: their numbers of elements and of bytes of memory.
    fn constants(graph: TestGraph) -> Vec<(usize, usize)> {
        let (files, bytes) = Files::of_bytes(graph.encode(21));
        let graph = graph_of(&Model::decode(bytes, files).unwrap(), &Request::default()).unwrap();
        let constants = graph.values.iter().filter_map(|value| Some((value.descriptor.elements(), value.constant()?)));
        constants.map(|(elements, constant)| (elements, constant.memory_bytes())).collect()
    }

    #[test]
    fn constants_of_foreign_types_are_widened_once_and_only_when_they_are_read() {
        const READERS: usize = 40;
        // Too many to be computed during the import.
        const COUNT: usize = 40_000;
        let read = |graph: TestGraph,
                    operator: &str,
                    inputs: &str,
                    attributes: &dyn Fn() -> Vec<(&'static str, Attr<'static>)>| {
            let graph =
                (0..READERS).fold(graph, |graph, at| graph.node(operator, inputs, &format!("y{at}"), attributes()));
            (0..READERS).fold(graph, |graph, at| graph.output(&format!("y{at}")))
        };
        let none = || vec![];
        let to = |to| move || vec![("to", Attr::Int(to))];
        for (element, bits, operator, inputs, attributes, memory) in [
            (Bfloat16, 16, "Neg", "w", &none as &dyn Fn() -> Vec<_>, 0),
            (Double, 64, "Neg", "w", &none, 0),
            (Double, 64, "Cast", "w", &to(1), 0),
            // Integers of doubles are exact, and hence other constants.
            (Double, 64, "Cast", "w", &to(7), 8 * COUNT),
            (Double, 64, "Cast", "w", &to(9), COUNT),
            (Bfloat16, 16, "Cast", "w", &to(10), 0),
            (Int4, 4, "Cast", "w", &to(3), 0),
            (Int4, 4, "DequantizeLinear", "w s", &none, 0),
            (Uint4, 4, "DequantizeLinear", "w s", &none, 0),
            (Int2, 2, "DequantizeLinear", "w s", &none, 0),
            (Int16, 16, "DequantizeLinear", "w s", &none, 0),
            (Uint16, 16, "DequantizeLinear", "w s", &none, 0),
        ] {
            let graph = TestGraph::default().raw("w", element, &[COUNT as i64], &vec![1; COUNT * bits / 8]).floats(
                "s",
                &[],
                &[0.5],
            );
            let constants = constants(read(graph, operator, inputs, attributes));
            let large: Vec<usize> =
                constants.iter().filter(|(count, _)| *count == COUNT).map(|(_, own)| *own).collect();
            assert_eq!(large, [memory], "{element} {operator}");
        }
    }
}
