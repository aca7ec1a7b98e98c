//! Views: where one tensor's elements are among those of another, with a constant stride in memory per dimension.
//! Copying steps, and the pass that avoids copies, use them.

use crate::shape::strides;

/// Element `[i0, i1, ...]` of a tensor of `shape` is element `offset + i0 * strides[0] + i1 * strides[1] + ...` of
/// another tensor, in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strided {
    /// The dimensions.
    pub shape: Vec<u32>,
    /// The stride of each dimension, in elements; 0 repeats an element.
    pub strides: Vec<isize>,
    /// Offset of the first element, in elements.
    pub offset: usize,
}

impl Strided {
    /// The view of a whole tensor of a checked shape.
    pub fn row_major(shape: &[u32]) -> Strided {
        let strides = strides(shape).into_iter().map(|stride| stride as isize).collect();
        Strided { shape: shape.to_vec(), strides, offset: 0 }
    }

    /// The part of this view with dimensions `shape`, from element `starts` on. It must lie inside.
    pub fn window(&self, starts: &[u32], shape: &[u32]) -> Strided {
        let steps = starts.iter().zip(&self.strides).map(|(&start, &stride)| start as isize * stride);
        let offset = self.offset.checked_add_signed(steps.sum()).expect("a window lies inside");
        Strided { shape: shape.to_vec(), strides: self.strides.clone(), offset }
    }

    /// The offset of the elements if they are contiguous in row-major order: the tensor is then a piece of the other
    /// one's memory.
    pub fn contiguous_offset(&self) -> Option<usize> {
        let mut expected = 1;
        for (&dim, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if dim != 1 && stride != expected {
                return None;
            }
            expected *= dim as isize;
        }
        Some(self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_views() {
        let whole = Strided::row_major(&[2, 3, 4]);
        assert_eq!(whole.contiguous_offset(), Some(0));
        assert_eq!(whole.window(&[1, 0, 0], &[1, 3, 4]).contiguous_offset(), Some(12));
        assert_eq!(whole.window(&[1, 1, 0], &[1, 2, 4]).contiguous_offset(), Some(16));
        assert_eq!(whole.window(&[0, 1, 0], &[2, 2, 4]).contiguous_offset(), None);
        assert_eq!(whole.window(&[1, 2, 1], &[1, 1, 3]).contiguous_offset(), Some(21));
        assert_eq!(Strided { shape: vec![1, 5], strides: vec![-7, 0], offset: 3 }.contiguous_offset(), None);
        assert_eq!(Strided { shape: vec![1, 5], strides: vec![-7, 1], offset: 3 }.contiguous_offset(), Some(3));
        assert_eq!(Strided::row_major(&[]).contiguous_offset(), Some(0));
    }
}
