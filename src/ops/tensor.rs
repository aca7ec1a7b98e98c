//! Tensors of the oracle: float64 for the floating-point types, 128-bit integers for the integer types.

use crate::dtype::{DataType, Element, Number};
use crate::nibbles::{packed, unpacked};
use crate::shape::Descriptor;
use crate::with_element;
use half::f16;
use ndarray::{ArrayD, IxDyn};

/// The elements of an oracle tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Elements of a floating-point type.
    Float(ArrayD<f64>),
    /// Elements of an integer type.
    Int(ArrayD<i128>),
}

/// A tensor for the naive references.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The data type that the elements represent.
    pub dtype: DataType,
    /// The elements.
    pub data: Data,
}

/// Evaluates `$body` for the array inside of `$tensor`, of either element type, and returns a tensor of the same data
/// type: for operators that move elements without reading them.
#[macro_export]
macro_rules! map_array {
    ($tensor:expr, $array:ident => $body:expr) => {{
        let tensor = $tensor;
        $crate::ops::tensor::Tensor {
            dtype: tensor.dtype,
            data: match &tensor.data {
                $crate::ops::tensor::Data::Float($array) => $crate::ops::tensor::Data::Float($body),
                $crate::ops::tensor::Data::Int($array) => $crate::ops::tensor::Data::Int($body),
            },
        }
    }};
}

/// The array shape for a tensor shape.
pub fn dims(shape: &[u32]) -> IxDyn {
    IxDyn(&shape.iter().map(|&d| d as usize).collect::<Vec<_>>())
}

/// Keeps the lowest bits of `x` and reads them as a value of the integer type `dtype` (two's complement).
pub fn wrap(dtype: DataType, x: i128) -> i128 {
    let bits = dtype.bits() as u32;
    let low = x & ((1i128 << bits) - 1);
    match dtype.integer_range() {
        Some((_, max)) if low > max => low - (1i128 << bits),
        _ => low,
    }
}

impl Tensor {
    /// A tensor of a floating-point type.
    pub fn float(dtype: DataType, array: ArrayD<f64>) -> Tensor {
        assert!(dtype.is_float());
        Tensor { dtype, data: Data::Float(array) }
    }

    /// A tensor of an integer type. The elements must be in its range.
    pub fn int(dtype: DataType, array: ArrayD<i128>) -> Tensor {
        assert!(!dtype.is_float());
        Tensor { dtype, data: Data::Int(array) }
    }

    /// A tensor of the type and shape of `descriptor`; `element` returns the element at each index.
    pub fn from_fn(descriptor: &Descriptor, mut element: impl FnMut(&[usize]) -> Number) -> Tensor {
        Tensor::from_fn_dyn(descriptor, &mut element)
    }

    /// Keeps a single copy of ndarray's code for all closures, which every reference has.
    fn from_fn_dyn(descriptor: &Descriptor, element: &mut dyn FnMut(&[usize]) -> Number) -> Tensor {
        use ndarray::Dimension;
        let shape = dims(&descriptor.sizes());
        let data = if descriptor.dtype.is_float() {
            Data::Float(ArrayD::from_shape_fn(shape, |index| {
                element(index.as_array_view().as_slice().unwrap()).to_f64()
            }))
        } else {
            Data::Int(ArrayD::from_shape_fn(shape, |index| match element(index.as_array_view().as_slice().unwrap()) {
                Number::Int(x) => x,
                Number::Float(x) => panic!("{x} for an element of {}", descriptor.dtype),
            }))
        };
        Tensor { dtype: descriptor.dtype, data }
    }

    /// Reads the little-endian, row-major bytes of a tensor.
    pub fn from_bytes(descriptor: &Descriptor, bytes: &[u8]) -> Tensor {
        assert_eq!(bytes.len(), descriptor.bytes());
        if descriptor.dtype.is_nibble() {
            let mut numbers = unpacked(bytes, descriptor.elements(), false).into_iter();
            let mut next = || numbers.next().expect("as many numbers as elements") as i128;
            return Tensor::from_fn(descriptor, |_| Number::Int(wrap(descriptor.dtype, next())));
        }
        let size = descriptor.dtype.size();
        let mut chunks = bytes.chunks_exact(size);
        Tensor::from_fn(descriptor, |_| {
            let chunk = chunks.next().expect("as many chunks as elements");
            let mut word = [0; 8];
            word[..size].copy_from_slice(chunk);
            let bits = u64::from_le_bytes(word);
            match descriptor.dtype {
                DataType::Float32 => Number::Float(f32::from_bits(bits as u32) as f64),
                DataType::Float16 => Number::Float(f16::from_bits(bits as u16).to_f64()),
                DataType::Float64 => Number::Float(f64::from_bits(bits)),
                integer => Number::Int(wrap(integer, bits as i128)),
            }
        })
    }

    /// The little-endian, row-major bytes; floats are rounded to the nearest value of the data type.
    pub fn to_bytes(&self) -> Vec<u8> {
        if self.dtype.is_nibble() {
            return packed(&self.numbers().map(|n| n.to_f64() as i8 as u8).collect::<Vec<u8>>());
        }
        let mut bytes = vec![0; self.descriptor().bytes()];
        bytes.chunks_exact_mut(self.dtype.size()).zip(self.numbers()).for_each(|(bytes, n)| n.write(self.dtype, bytes));
        bytes
    }

    /// The elements in row-major order.
    pub fn numbers(&self) -> Box<dyn Iterator<Item = Number> + '_> {
        match &self.data {
            Data::Float(array) => Box::new(array.iter().map(|&x| Number::Float(x))),
            Data::Int(array) => Box::new(array.iter().map(|&x| Number::Int(x))),
        }
    }

    /// The elements as values of a Rust type, rounded according to [`Number::cast`].
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        self.numbers().map(T::from_number).collect()
    }

    /// The type and shape.
    pub fn descriptor(&self) -> Descriptor {
        Descriptor::new(self.dtype, self.shape().iter().map(|&d| d as u32).collect::<Vec<_>>())
    }

    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        match &self.data {
            Data::Float(array) => array.shape(),
            Data::Int(array) => array.shape(),
        }
    }

    /// The element at `index`.
    pub fn at(&self, index: &[usize]) -> Number {
        match &self.data {
            Data::Float(array) => Number::Float(array[index]),
            Data::Int(array) => Number::Int(array[index]),
        }
    }

    /// The elements of a floating-point tensor.
    ///
    /// # Panics
    /// If the data type is an integer type, which would mean that a rule is wrong.
    pub fn floats(&self) -> &ArrayD<f64> {
        match &self.data {
            Data::Float(array) => array,
            Data::Int(_) => panic!("{} where a floating-point tensor was expected", self.dtype),
        }
    }

    /// Broadcasts this tensor to `shape`, which must be possible.
    pub fn broadcast(&self, shape: &[u32]) -> Tensor {
        map_array!(self, array => array.broadcast(dims(shape)).expect("shapes were validated").to_owned())
    }

    /// The same elements in row-major order with different dimensions.
    pub fn reshape(&self, shape: &[u32]) -> Tensor {
        map_array!(self, array => {
            array.as_standard_layout().into_owned().into_shape_with_order(dims(shape)).expect("as many elements")
        })
    }

    /// Rounds the elements to the data type.
    pub fn rounded(&self) -> Tensor {
        with_element!(self.dtype, T => {
            let mut elements = self.to_vec::<T>().into_iter();
            Tensor::from_fn(&self.descriptor(), |_| elements.next().expect("as many elements").number())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip() {
        for dtype in DataType::ALL {
            let descriptor = Descriptor::new(dtype, [2, 3]);
            let bytes: Vec<u8> = (0..descriptor.bytes()).map(|i| (i as u8).wrapping_mul(37).wrapping_add(1)).collect();
            let tensor = Tensor::from_bytes(&descriptor, &bytes);
            assert_eq!(tensor.to_bytes(), bytes, "{dtype}");
            assert_eq!(tensor.rounded(), tensor);
        }
    }

    #[test]
    fn wrapping_reads_the_low_bits() {
        assert_eq!(wrap(DataType::Int8, 128), -128);
        assert_eq!(wrap(DataType::Uint8, -1), 255);
        assert_eq!(wrap(DataType::Uint64, -1), u64::MAX as i128);
        assert_eq!(wrap(DataType::Int64, i64::MAX as i128 + 1), i64::MIN as i128);
    }
}
