//! Shapes: descriptors, their limits, strides and broadcasting (section 9.1 of the draft).

use crate::dimension::{Dim, IntoDims};
use crate::dtype::DataType;
use crate::error::{Problem, amount};
use arrayvec::ArrayVec;
use std::ops::{Deref, RangeInclusive};

/// Maximum number of dimensions of a tensor.
pub const MAX_RANK: usize = 8;

/// Maximum size of a tensor in bytes (`maxTensorByteLength`).
pub const MAX_TENSOR_BYTES: u64 = i32::MAX as u64;

/// Maximum size in bytes of values that never leave a graph, such as weights: the largest valid number of elements, of the
/// largest type. All code for the CPU counts elements in 32 bits and bytes in 64.
pub const MAX_VALUE_BYTES: u64 = 8 * i32::MAX as u64;

/// One number per dimension of a tensor.
pub type PerAxis = ArrayVec<usize, MAX_RANK>;

/// `MLOperandDescriptor`: the data type and the dimensions of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The type of every element.
    pub dtype: DataType,
    /// The dimensions, outermost first; empty for a scalar.
    pub shape: Vec<Dim>,
}

/// The dimensions of a tensor as numbers.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    sizes: [u32; MAX_RANK],
    rank: usize,
}

impl Deref for Sizes {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.sizes[..self.rank]
    }
}

impl AsRef<[u32]> for Sizes {
    fn as_ref(&self) -> &[u32] {
        self
    }
}

impl Descriptor {
    /// A descriptor that has not been checked against any limit.
    pub fn new(dtype: DataType, shape: impl IntoDims) -> Descriptor {
        Descriptor { dtype, shape: shape.into_dims() }
    }

    /// The dimensions as numbers; see [`Dim::get`].
    ///
    /// # Panics
    /// If there are more than [`MAX_RANK`]: the descriptor was not [checked](Self::check).
    pub fn sizes(&self) -> Sizes {
        let mut sizes = [0; MAX_RANK];
        sizes.iter_mut().zip(&self.shape).for_each(|(size, dim)| *size = dim.get());
        assert!(self.rank() <= MAX_RANK, "{self:?} was checked");
        Sizes { sizes, rank: self.rank() }
    }

    /// Whether all dimensions are numbers, independent of free sizes.
    pub fn is_known(&self) -> bool {
        self.shape.iter().all(|dim| dim.is_number())
    }

    /// Whether a dimension is 0.
    pub fn is_empty(&self) -> bool {
        self.shape.iter().any(|&dim| dim == 0)
    }

    /// Number of elements, which may depend on sizes still unknown.
    pub fn count(&self) -> Dim {
        self.shape.iter().copied().product()
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements as a number, see [`Dim::get`]. Only meaningful after [`check`](Self::check).
    pub fn elements(&self) -> usize {
        self.count().get() as usize
    }

    /// Size in bytes. Only meaningful after [`check`](Self::check).
    pub fn bytes(&self) -> usize {
        self.dtype.bytes_of(self.elements())
    }

    /// Number of elements before dimension `axis` and along it, and number of bytes after it.
    pub fn around(&self, axis: usize) -> [usize; 3] {
        let count = |dims: &[Dim]| dims.iter().map(|dim| dim.size()).product::<usize>();
        let [outer, inner] = [&self.shape[..axis], &self.shape[axis + 1..]].map(count);
        [outer, self.shape[axis].size(), inner * self.dtype.size()]
    }

    /// "Check dimensions" of the draft: at most [`MAX_RANK`] dimensions, each a valid dimension, a number of elements
    /// that is a valid dimension, and at most [`MAX_TENSOR_BYTES`] bytes. Messages call the tensor `what`.
    pub fn check(&self, what: &'static str) -> Result<(), Problem> {
        self.check_bytes(what, MAX_TENSOR_BYTES)
    }

    /// Like [`check`](Self::check), with at most `most` bytes.
    pub fn check_bytes(&self, what: &'static str, most: u64) -> Result<(), Problem> {
        let fail = |reason: String| Err(Problem::Dimensions { what, got: self.shape.clone(), reason });
        if self.rank() > MAX_RANK {
            return fail(format!("more than the {MAX_RANK} dimensions that are supported"));
        }
        if let Some(dim) = self.shape.iter().find(|&&dim| !is_dimension(dim)) {
            return fail(format!("where {dim} is not {}", expected_dimension()));
        }
        let count = self.count();
        if !is_dimension(count) {
            return fail(format!("more than the {} elements that are supported", i32::MAX));
        }
        let bytes = match self.dtype.is_nibble() {
            true => count.div_ceil(2u32),
            false => count * self.dtype.size() as u32,
        };
        match bytes <= Dim::number(most as i64) {
            true => Ok(()),
            false => fail(format!("{}, above maxTensorByteLength, which is {most}", amount(bytes, "byte"))),
        }
    }
}

/// Smallest and largest "valid dimension" of the draft, and the only place that excludes 0; see docs/draft.md.
const VALID_DIMENSIONS: RangeInclusive<u32> = 1..=i32::MAX as u32;

/// "Valid dimension" of the draft: greater than zero and in the range of `long`.
pub fn is_valid_dimension(dim: u64) -> bool {
    u32::try_from(dim).is_ok_and(|dim| VALID_DIMENSIONS.contains(&dim))
}

/// Like [`is_valid_dimension`], for values computed from dimensions.
pub fn is_dimension(dim: Dim) -> bool {
    dim >= *VALID_DIMENSIONS.start() && dim <= *VALID_DIMENSIONS.end()
}

/// Whether a size is too small for a [valid dimension](is_valid_dimension). The draft says "equal to 0" here, to rule
/// out tensors without elements.
pub fn is_too_small(size: impl Into<Dim>) -> bool {
    size.into() < *VALID_DIMENSIONS.start()
}

/// What messages say that a dimension should have been.
pub fn expected_dimension() -> String {
    format!("a dimension between {} and {}", VALID_DIMENSIONS.start(), VALID_DIMENSIONS.end())
}

/// Number of elements of a checked shape.
pub fn elements(shape: &[u32]) -> usize {
    shape.iter().map(|&dim| dim as usize).product()
}

/// Row-major strides, in elements, for any number of dimensions.
pub fn strides(shape: &[u32]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as usize;
    }
    strides
}

/// Like [`strides`], for dimensions that may depend on sizes still unknown.
pub fn dim_strides(shape: &[Dim]) -> Vec<Dim> {
    let mut strides = vec![Dim::number(1); shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// Strides, in elements, that read a tensor of shape `from` as if broadcast to `to`: 0 along every repeated dimension.
/// `from` must be unidirectionally broadcastable to `to`.
pub fn broadcast_strides(from: &[u32], to: &[u32]) -> PerAxis {
    let mut strides: PerAxis = to.iter().map(|_| 0).collect();
    let mut stride = 1;
    for (own, &size) in strides.iter_mut().rev().zip(from.iter().rev()) {
        *own = if size == 1 { 0 } else { stride };
        stride *= size as usize;
    }
    strides
}

/// "Bidirectionally broadcast the shapes" of the draft; `None` is failure.
pub fn broadcast(a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
    let rank = a.len().max(b.len());
    let dim = |shape: &[Dim], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(Dim::number(1), |i| shape[i]);
    (0..rank)
        .map(|axis| match (dim(a, axis), dim(b, axis)) {
            (x, y) if x == y || y == 1 => Some(x),
            (x, y) if x == 1 => Some(y),
            _ => None,
        })
        .collect()
}

/// "Unidirectionally broadcastable" of the draft: whether `from` can be repeated to the shape `to`.
pub fn broadcasts_to(from: &[Dim], to: &[Dim]) -> bool {
    from.len() <= to.len() && from.iter().rev().zip(to.iter().rev()).all(|(&f, &t)| f == t || f == 1)
}

/// "Blockwise broadcastable" of the draft: the same rank, and every dimension of `from` divides that of `to`.
pub fn broadcasts_blockwise(from: &[Dim], to: &[Dim]) -> bool {
    from.len() == to.len() && from.iter().zip(to).all(|(&f, &t)| f != 0 && t % f == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimension::{dims, numbers};

    #[test]
    fn limits() {
        let check = |dtype, shape: &[u32]| Descriptor::new(dtype, shape).check("input").is_ok();
        assert!(check(DataType::Float32, &[]));
        assert!(check(DataType::Int8, &[i32::MAX as u32]));
        assert!(!check(DataType::Int8, &[i32::MAX as u32 + 1]));
        assert!(!check(DataType::Float32, &[i32::MAX as u32]));
        assert!(!check(DataType::Float32, &[2, 0]));
        assert!(!check(DataType::Float32, &[1; 9]));
        assert!(!check(DataType::Float32, &[u32::MAX / 2; 8]));
    }

    #[test]
    fn broadcasting() {
        let broadcast = |a: &[u32], b: &[u32]| super::broadcast(&dims(a), &dims(b)).map(|shape| numbers(&shape));
        let broadcasts_to = |from: &[u32], to: &[u32]| super::broadcasts_to(&dims(from), &dims(to));
        let broadcasts_blockwise = |from: &[u32], to: &[u32]| super::broadcasts_blockwise(&dims(from), &dims(to));
        assert_eq!(broadcast(&[5, 1], &[1, 6]), Some(vec![5, 6]));
        assert_eq!(broadcast(&[4], &[2, 3, 4]), Some(vec![2, 3, 4]));
        assert_eq!(broadcast(&[], &[2]), Some(vec![2]));
        assert_eq!(broadcast(&[2], &[3]), None);
        assert!(broadcasts_to(&[4, 1], &[3, 4, 5]) && !broadcasts_to(&[3, 4, 5], &[4, 5]));
        assert!(broadcasts_blockwise(&[4, 5], &[16, 10]) && !broadcasts_blockwise(&[4, 5], &[9, 3]));
        assert_eq!(*broadcast_strides(&[4, 1], &[3, 4, 5]), [0, 1, 0]);
        assert_eq!(strides(&[2, 3, 4]), [12, 4, 1]);
    }
}
