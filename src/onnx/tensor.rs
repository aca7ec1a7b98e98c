//! Tensors in model files: their types, checked headers and elements.

use super::error::{ModelError, Result, quoted};
use super::file::Files;
use super::proto;
use crate::dimension::{Dim, dims as into_dims};
use crate::dtype::{DataType, Number};
use crate::error::{Code, amount};
use crate::ir::{FileType, SmallFloat, Widened};
use crate::memory::{Buffer, check_room};
use bytes::Bytes;
use half::{bf16, f16};
use prost::Message;
use std::fmt;

macro_rules! element_types {
    ($($Variant:ident = $code:literal, $name:literal, $bits:literal, $webnn:expr;)*) => {
        /// `TensorProto.DataType`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the variants are the names of the standard")]
        pub enum ElementType { $($Variant,)* }

        impl ElementType {
            /// The type with the number `code`.
            pub fn from_code(code: i32) -> Option<ElementType> {
                match code { $($code => Some(ElementType::$Variant),)* _ => None }
            }

            /// The type with this name in `TensorProto.DataType`, such as `FLOAT`.
            pub fn from_name(name: &str) -> Option<ElementType> {
                ElementType::from_onnx_name(&name.to_ascii_lowercase())
            }

            /// The type with this name in types, such as `float` in `tensor(float)`.
            pub fn from_onnx_name(name: &str) -> Option<ElementType> {
                [$(ElementType::$Variant),*].into_iter().find(|element| element.onnx_name() == name)
            }

            /// The name in lower case.
            pub fn name(self) -> &'static str {
                match self { $(ElementType::$Variant => $name,)* }
            }

            /// Bits per element; 0 for strings, which have no fixed size.
            pub fn bits(self) -> usize {
                match self { $(ElementType::$Variant => $bits,)* }
            }

            /// The same type in WebNN, where truth values are `uint8`.
            pub fn webnn(self) -> Option<DataType> {
                match self { $(ElementType::$Variant => $webnn,)* }
            }
        }
    };
}

element_types! {
    Float = 1, "float32", 32, Some(DataType::Float32);
    Uint8 = 2, "uint8", 8, Some(DataType::Uint8);
    Int8 = 3, "int8", 8, Some(DataType::Int8);
    Uint16 = 4, "uint16", 16, None;
    Int16 = 5, "int16", 16, None;
    Int32 = 6, "int32", 32, Some(DataType::Int32);
    Int64 = 7, "int64", 64, Some(DataType::Int64);
    String = 8, "string", 0, None;
    Bool = 9, "bool", 8, Some(DataType::Uint8);
    Float16 = 10, "float16", 16, Some(DataType::Float16);
    Double = 11, "double", 64, None;
    Uint32 = 12, "uint32", 32, Some(DataType::Uint32);
    Uint64 = 13, "uint64", 64, Some(DataType::Uint64);
    Complex64 = 14, "complex64", 64, None;
    Complex128 = 15, "complex128", 128, None;
    Bfloat16 = 16, "bfloat16", 16, None;
    Float8E4m3fn = 17, "float8e4m3fn", 8, None;
    Float8E4m3fnuz = 18, "float8e4m3fnuz", 8, None;
    Float8E5m2 = 19, "float8e5m2", 8, None;
    Float8E5m2fnuz = 20, "float8e5m2fnuz", 8, None;
    Uint4 = 21, "uint4", 4, None;
    Int4 = 22, "int4", 4, None;
    Float4E2m1 = 23, "float4e2m1", 4, None;
    Float8E8m0 = 24, "float8e8m0", 8, None;
    Uint2 = 25, "uint2", 2, None;
    Int2 = 26, "int2", 2, None;
    Float6E2m3 = 27, "float6e2m3", 6, None;
    Float6E3m2 = 28, "float6e3m2", 6, None;
}

impl ElementType {
    /// The name in ONNX types, as in `tensor(float)`.
    pub fn onnx_name(self) -> &'static str {
        match self {
            ElementType::Float => "float",
            other => other.name(),
        }
    }

    /// The type of the operand for an input or output of this type: WebNN's, float64, float32 for bfloat16, and int32 for
    /// 16-bit integers and the numbers of texts. Code that reads and writes the elements converts the latter.
    pub fn carried(self) -> Option<DataType> {
        match self {
            ElementType::Double => Some(DataType::Float64),
            ElementType::Bfloat16 => Some(DataType::Float32),
            ElementType::Int16 | ElementType::Uint16 | ElementType::String => Some(DataType::Int32),
            other => other.webnn(),
        }
    }

    /// The type that a model computes in: WebNN's, float64, and float32 for bfloat16.
    pub fn computed(self) -> Option<DataType> {
        match self {
            ElementType::Double => Some(DataType::Float64),
            ElementType::Bfloat16 => Some(DataType::Float32),
            other => other.webnn(),
        }
    }

    /// This type, if WebNN lacks it and constants of it can be widened.
    pub fn foreign(self) -> Option<FileType> {
        Some(match self {
            ElementType::Bfloat16 => FileType::Bfloat16,
            ElementType::Double => FileType::Double,
            ElementType::Int16 => FileType::Int16,
            ElementType::Uint16 => FileType::Uint16,
            ElementType::Int4 => FileType::Int4,
            ElementType::Uint4 => FileType::Uint4,
            ElementType::Int2 => FileType::Int2,
            ElementType::Uint2 => FileType::Uint2,
            ElementType::Float8E4m3fn => FileType::Small(SmallFloat::E4m3fn),
            ElementType::Float8E4m3fnuz => FileType::Small(SmallFloat::E4m3fnuz),
            ElementType::Float8E5m2 => FileType::Small(SmallFloat::E5m2),
            ElementType::Float8E5m2fnuz => FileType::Small(SmallFloat::E5m2fnuz),
            ElementType::Float8E8m0 => FileType::Small(SmallFloat::E8m0),
            ElementType::Float4E2m1 => FileType::Small(SmallFloat::E2m1),
            _ => return None,
        })
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A tensor of a model file: row-major little-endian elements, several per byte (the first in the low bits) for types
/// of fewer than 8 bits. Texts stay encoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Literal {
    /// The type of every element.
    pub element: ElementType,
    /// The dimensions; unlike in WebNN, they may be 0.
    pub shape: Vec<u32>,
    /// The elements.
    pub bytes: Bytes,
}

impl Literal {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().map(|&dim| dim as usize).product()
    }

    /// The elements as those of a WebNN type, in memory or in one of `files`.
    ///
    /// # Errors
    /// If WebNN has the type itself, or nothing that represents it.
    pub fn widened(&self, files: &Files) -> Result<Widened, String> {
        let from = self.element.foreign();
        let from = from.ok_or_else(|| format!("elements of type {} have no counterpart in WebNN", self.element))?;
        let stored = files.window_of(&self.bytes).unwrap_or_else(|| files.held(&self.bytes));
        Ok(Widened::new(stored, from, self.elements()))
    }

    /// The elements of a tensor of texts, which may be no UTF-8.
    ///
    /// # Errors
    /// If they cannot be decoded, memory runs out, or their number does not match the shape.
    pub fn texts(&self) -> Result<Vec<Bytes>, String> {
        let texts = encoded_texts(&self.bytes)?;
        match texts.len() == self.elements() {
            true => Ok(texts),
            false => {
                let (got, shape) = (amount(texts.len(), "text"), &self.shape);
                Err(format!("it has {got}, expected those of the shape {shape:?}"))
            }
        }
    }

    /// The first element as an exact number, if there is one.
    ///
    /// # Errors
    /// Same as [`visit`](Self::visit).
    pub fn first(&self) -> Result<Option<Number>, String> {
        let bits = self.element.bits().min(8 * self.bytes.len());
        let (element, bytes) = (self.element, self.bytes.slice(..bits.div_ceil(8)));
        let mut first = None;
        let shape = if bytes.is_empty() { vec![0] } else { vec![1] };
        Literal { element, shape, bytes }.visit(|number| first = Some(number))?;
        Ok(first)
    }

    /// Passes every element to `f` as an exact number, in order.
    ///
    /// # Errors
    /// If the type has no numeric value (strings, complex numbers), or is not supported here.
    pub fn visit(&self, mut f: impl FnMut(Number)) -> Result<(), String> {
        let bytes = &self.bytes;
        match self.element {
            ElementType::Uint16 => chunks(bytes, |b| f((u16::from_le_bytes(b) as i64).into())),
            ElementType::Int16 => chunks(bytes, |b| f((i16::from_le_bytes(b) as i64).into())),
            ElementType::Double => chunks(bytes, |b| f(f64::from_le_bytes(b).into())),
            ElementType::Bfloat16 => chunks(bytes, |b| f(bf16::from_le_bytes(b).to_f64().into())),
            ElementType::Uint4 | ElementType::Uint2 => self.parts().for_each(|bits| f((bits as i64).into())),
            ElementType::Int4 | ElementType::Int2 => {
                let unused = 8 - self.element.bits();
                self.parts().for_each(|bits| f((((bits << unused) as i8 >> unused) as i64).into()))
            }
            other => match (other.webnn(), other.foreign()) {
                (Some(dtype), _) => visit(dtype, bytes, f),
                (None, Some(FileType::Small(small))) => {
                    let value = |at| f64::from(small.values()[small.pattern(bytes, at)]);
                    (0..self.elements()).for_each(|at| f(value(at).into()));
                }
                _ => return Err(format!("elements of type {other} have no counterpart in WebNN")),
            },
        }
        Ok(())
    }

    /// The bits of every element of a 2-bit or 4-bit type.
    fn parts(&self) -> impl Iterator<Item = u8> {
        let bits = self.element.bits();
        let mask = (1 << bits) - 1;
        let parts = self.bytes.iter().flat_map(move |byte| (0..8).step_by(bits).map(move |at| byte >> at & mask));
        parts.take(self.elements())
    }
}

fn chunks<const N: usize>(bytes: &[u8], f: impl FnMut([u8; N])) {
    bytes.as_chunks::<N>().0.iter().copied().for_each(f)
}

/// The elements of a WebNN tensor; the bytes need no alignment. Takes 32 bytes per element: only for short lists.
pub fn numbers(dtype: DataType, bytes: &[u8]) -> Vec<Number> {
    let mut numbers = Vec::with_capacity(bytes.len() / dtype.size());
    visit(dtype, bytes, |number| numbers.push(number));
    numbers
}

fn visit(dtype: DataType, bytes: &[u8], mut f: impl FnMut(Number)) {
    match dtype {
        DataType::Float32 => chunks(bytes, |b| f(Number::Float(f32::from_le_bytes(b) as f64))),
        DataType::Float16 => chunks(bytes, |b| f(Number::Float(f16::from_le_bytes(b).to_f64()))),
        DataType::Float64 => chunks(bytes, |b| f(Number::Float(f64::from_le_bytes(b)))),
        DataType::Int32 => chunks(bytes, |b| f(Number::Int(i32::from_le_bytes(b) as i128))),
        DataType::Uint32 => chunks(bytes, |b| f(Number::Int(u32::from_le_bytes(b) as i128))),
        DataType::Int64 => chunks(bytes, |b| f(Number::Int(i64::from_le_bytes(b) as i128))),
        DataType::Uint64 => chunks(bytes, |b| f(Number::Int(u64::from_le_bytes(b) as i128))),
        DataType::Int8 => chunks(bytes, |b| f(Number::Int(i8::from_le_bytes(b) as i128))),
        DataType::Uint8 => chunks(bytes, |b| f(Number::Int(u8::from_le_bytes(b) as i128))),
        DataType::Int4 | DataType::Uint4 => {
            unreachable!("constants of 4 bits are for products, whatever their elements")
        }
    }
}

/// A `TensorProto` with checked type and shape; its elements stay encoded.
#[derive(Clone, Debug)]
pub struct TensorRecord {
    /// The name; empty for an attribute's value.
    pub name: String,
    /// The type of every element.
    pub element: ElementType,
    /// The dimensions; they may be 0.
    pub shape: Vec<u32>,
    /// Whether the elements are in another file.
    pub is_external: bool,
    /// The encoded message.
    encoded: Bytes,
    /// For a sparse tensor, the encoded indices of the elements in `encoded`; all others are 0.
    indices: Option<Bytes>,
}

/// Maximum number of elements of a tensor in a file, and maximum size of each dimension.
const MAX_ELEMENTS: u64 = i32::MAX as u64;

/// Maximum number of dimensions of a tensor in a file; operators support [`MAX_RANK`](crate::shape::MAX_RANK).
pub const MAX_FILE_RANK: usize = 64;

/// Converts `dims` and checks that a tensor can have them.
pub fn checked_shape(dims: &[i64]) -> Result<Vec<u32>, String> {
    if dims.len() > MAX_FILE_RANK {
        return Err(format!("the shape has {}, more than {MAX_FILE_RANK}", amount(dims.len(), "dimension")));
    }
    let shape: Vec<u32> = dims
        .iter()
        .map(|&dim| u32::try_from(dim).ok().filter(|&dim| dim as u64 <= MAX_ELEMENTS))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("the shape {dims:?} has a dimension that is not between 0 and {MAX_ELEMENTS}"))?;
    // A dimension of 0 must not hide absurd ones.
    let count = shape.iter().filter(|&&dim| dim > 0).try_fold(1u64, |n, &dim| n.checked_mul(dim as u64));
    count
        .filter(|&count| count <= MAX_ELEMENTS)
        .map(|_| shape)
        .ok_or_else(|| format!("the shape {dims:?} has more than {MAX_ELEMENTS} elements"))
}

/// Like [`checked_shape`], for dimensions that may depend on sizes still unknown.
pub fn checked_dims(dims: &[Dim]) -> Result<Vec<Dim>, String> {
    if dims.iter().all(|dim| dim.is_number()) {
        return Ok(into_dims(&checked_shape(&dims.iter().map(|dim| dim.pinned()).collect::<Vec<_>>())?));
    }
    let most = Dim::number(MAX_ELEMENTS as i64);
    let fits = dims.len() <= MAX_FILE_RANK && dims.iter().all(|&dim| dim >= 0 && dim <= most);
    let count: Dim = dims.iter().copied().filter(|&dim| dim > 0).product();
    match fits && count <= most {
        true => Ok(dims.to_vec()),
        false => Err(format!("no tensor can have the shape {dims:?}")),
    }
}

impl TensorRecord {
    /// Decodes and checks the header of a `TensorProto`.
    ///
    /// # Errors
    /// If the message cannot be decoded, the type is unknown, or the shape is invalid.
    pub fn decode(encoded: &Bytes) -> Result<TensorRecord> {
        let header = decode_header(encoded)?;
        let fail = |reason: String| ModelError::new(format!("tensor {}: {reason}", quoted(&header.name)));
        let element = ElementType::from_code(header.data_type)
            .ok_or_else(|| fail(format!("{} is not an element type", header.data_type)))?;
        // A valid tensor can be larger than is supported.
        let code = if header.dims.iter().all(|&dim| dim >= 0) { Code::UnsupportedOperator } else { Code::ModelInvalid };
        let shape = checked_shape(&header.dims).map_err(|reason| ModelError { code, ..fail(reason) })?;
        Ok(TensorRecord {
            name: header.name,
            element,
            shape,
            is_external: header.data_location == 1,
            encoded: encoded.clone(),
            indices: None,
        })
    }

    /// Like [`decode`](Self::decode), for a `SparseTensorProto`.
    ///
    /// # Errors
    /// Same as [`decode`](Self::decode), or if values or indices are missing.
    pub fn decode_sparse(encoded: &Bytes) -> Result<TensorRecord> {
        let sparse = proto::SparseTensor::decode(encoded.clone())
            .map_err(|error| ModelError::new(format!("a sparse tensor cannot be decoded: {error}")))?;
        let (Some(values), Some(indices)) = (sparse.values, sparse.indices) else {
            return Err(ModelError::new("a sparse tensor has no values, or no indices"));
        };
        let values = TensorRecord::decode(&values)?;
        let fail = |reason: String| ModelError::new(format!("sparse tensor {}: {reason}", quoted(&values.name)));
        let shape = checked_shape(&sparse.dims).map_err(fail)?;
        if values.element.bits() < 8 || values.shape.len() != 1 {
            let (element, shape) = (values.element, &values.shape);
            return Err(fail(format!("its values are {element} {shape:?}, expected a list of whole bytes")));
        }
        Ok(TensorRecord { shape, indices: Some(indices), ..values })
    }

    /// The message as it is stored, usually with the elements.
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    /// Whether only some of the elements are in the file.
    pub fn is_sparse(&self) -> bool {
        self.indices.is_some()
    }

    /// The error of a sparse tensor whose elements would take more memory than the file justifies.
    pub fn too_sparse(&self) -> ModelError {
        let (name, bytes) = (&self.name, self.byte_length());
        ModelError::new(format!(
            "sparse tensor {}: {} are too many for a model of this size",
            quoted(name),
            amount(bytes, "byte")
        ))
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().map(|&dim| dim as usize).product()
    }

    /// The elements of a tensor of texts, which may be no UTF-8.
    ///
    /// # Errors
    /// If they cannot be decoded, or memory runs out.
    pub(super) fn encoded_texts(&self) -> Result<Vec<Bytes>, String> {
        encoded_texts(&self.encoded)
    }

    /// Size of the elements in bytes.
    pub fn byte_length(&self) -> usize {
        (self.elements() * self.element.bits()).div_ceil(8)
    }

    /// Loads the elements; copies them only if the file does not store them verbatim.
    ///
    /// # Errors
    /// If their number does not match the shape, or an external file cannot be read.
    pub fn load(&self, files: &Files) -> Result<Literal> {
        let fail = |reason: String| ModelError::new(format!("tensor {}: {reason}", quoted(&self.name)));
        if let Some(indices) = &self.indices {
            let [values, indices] = [&self.encoded, indices].map(|part| TensorRecord::decode(part)?.load(files));
            return dense(&values?, &indices?, &self.shape).map_err(fail);
        }
        if self.element == ElementType::String {
            return Ok(Literal { element: self.element, shape: self.shape.clone(), bytes: self.encoded.clone() });
        }
        if matches!(self.element, ElementType::Float6E2m3 | ElementType::Float6E3m2) {
            // No node reads them: a type name suffices, for messages.
            return Ok(Literal { element: self.element, shape: self.shape.clone(), bytes: Bytes::new() });
        }
        let header = decode_header(&self.encoded)?;
        let expected = self.byte_length();
        let bytes = if header.data_location == 1 {
            files.external(&header.external_data, expected).map_err(|error| fail(error.message))?
        } else if let Some(raw) = header.raw_data {
            raw
        } else {
            // A byte of the file can become an integer of 8 bytes, in a list that has grown to twice its length.
            check_room(self.encoded.len().saturating_mul(16).saturating_add(expected))
                .map_err(|error| fail(error.message))?;
            let elements = proto::TensorElements::decode(self.encoded.clone())
                .map_err(|error| fail(format!("its elements cannot be decoded: {error}")))?;
            typed_elements(self.element, elements).map_err(fail)?
        };
        if bytes.len() != expected {
            let shape = &self.shape;
            let got = bytes.len();
            return Err(fail(format!(
                "its elements have {}, expected the {} of {} {shape:?}",
                amount(got, "byte"),
                amount(expected, "byte"),
                self.element
            )));
        }
        Ok(Literal { element: self.element, shape: self.shape.clone(), bytes })
    }
}

/// The tensor of this shape that has `values` at `indices`, and is 0 elsewhere. Indices are those of the flat tensor, or
/// one list with an index per dimension for each value.
fn dense(values: &Literal, indices: &Literal, shape: &[u32]) -> Result<Literal, String> {
    let (count, rank) = (values.elements(), shape.len());
    let is_flat = indices.shape == [count as u32];
    if indices.element != ElementType::Int64 || !(is_flat || indices.shape == [count as u32, rank as u32]) {
        let (element, got) = (indices.element, &indices.shape);
        return Err(format!("its indices are {element} {got:?}, expected int64 [{count}] or [{count}, {rank}]"));
    }
    let (size, elements) = (values.element.bits() / 8, crate::shape::elements(shape));
    if count > elements {
        return Err(format!(
            "it has {}, more than the {} of {shape:?}",
            amount(count, "value"),
            amount(elements, "element")
        ));
    }
    let mut buffer = Buffer::zeroed(elements * size).map_err(|error| error.message)?;
    let parts = indices.bytes.as_chunks::<8>().0;
    let sizes = if is_flat { vec![elements as i64] } else { shape.iter().map(|&size| i64::from(size)).collect() };
    for (at, value) in values.bytes.chunks_exact(size).enumerate() {
        let place = parts[at * sizes.len()..][..sizes.len()].iter().map(|&bytes| i64::from_le_bytes(bytes));
        if place.clone().zip(&sizes).any(|(index, size)| !(0..*size).contains(&index)) {
            let place: Vec<i64> = place.collect();
            return Err(format!("the index {place:?} is outside of the shape {shape:?}"));
        }
        let flat = place.zip(&sizes).fold(0, |flat, (index, size)| flat * size + index) as usize;
        buffer.bytes_mut()[flat * size..][..size].copy_from_slice(value);
    }
    Ok(Literal { element: values.element, shape: shape.to_vec(), bytes: Bytes::from_owner(buffer) })
}

fn encoded_texts(encoded: &Bytes) -> Result<Vec<Bytes>, String> {
    // Two bytes of the file can become an item of a list that has grown to twice its length.
    check_room(encoded.len().saturating_mul(size_of::<Bytes>())).map_err(|error| error.message)?;
    let texts = proto::TensorTexts::decode(encoded.clone());
    texts.map(|texts| texts.string_data).map_err(|error| format!("its texts cannot be decoded: {error}"))
}

fn decode_header(encoded: &Bytes) -> Result<proto::TensorHeader> {
    proto::TensorHeader::decode(encoded.clone())
        .map_err(|error| ModelError::new(format!("a tensor cannot be decoded: {error}")))
}

/// The bytes of elements that a `TensorProto` stores as numbers.
fn typed_elements(element: ElementType, elements: proto::TensorElements) -> Result<Bytes, String> {
    fn pack<T, const N: usize>(items: &[T], bytes: impl Fn(&T) -> [u8; N]) -> Bytes {
        items.iter().flat_map(bytes).collect::<Vec<u8>>().into()
    }
    let narrow = |bits: usize| -> Bytes {
        match bits {
            16 => pack(&elements.int32_data, |x| (*x as u16).to_le_bytes()),
            // Types with fewer bits are already packed.
            _ => pack(&elements.int32_data, |x| [*x as u8]),
        }
    };
    Ok(match element {
        ElementType::Float | ElementType::Complex64 => pack(&elements.float_data, |x| x.to_le_bytes()),
        ElementType::Double | ElementType::Complex128 => pack(&elements.double_data, |x| x.to_le_bytes()),
        ElementType::Int64 => pack(&elements.int64_data, |x| x.to_le_bytes()),
        ElementType::Uint64 => pack(&elements.uint64_data, |x| x.to_le_bytes()),
        ElementType::Uint32 => pack(&elements.uint64_data, |x| (*x as u32).to_le_bytes()),
        ElementType::Int32 => pack(&elements.int32_data, |x| x.to_le_bytes()),
        other => narrow(other.bits()),
    })
}
