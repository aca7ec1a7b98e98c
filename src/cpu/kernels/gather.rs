//! Reads at positions given by a tensor of indices. Out-of-range indices are clamped, as `ops::gather` defines.

use crate::cpu::simd::{Kernel, Simd};
use crate::dtype::Element;

/// An index type.
pub trait Index: Element {
    /// The index as a number; `i64` holds the values of all index types.
    fn to_i64(self) -> i64;

    /// The position in a dimension of `size` that the index refers to.
    #[inline(always)]
    fn place(self, size: usize) -> usize {
        let (index, size) = (self.to_i64(), size as i64);
        let from_start = if index < 0 { index + size } else { index };
        from_start.clamp(0, size - 1) as usize
    }
}

impl Index for i32 {
    fn to_i64(self) -> i64 {
        self as i64
    }
}

impl Index for u32 {
    fn to_i64(self) -> i64 {
        self as i64
    }
}

impl Index for i64 {
    fn to_i64(self) -> i64 {
        self
    }
}

/// Runs `$body` with the type name `$I` bound to the [`Index`] type that stores `$dtype`.
#[macro_export]
macro_rules! with_index {
    ($dtype:expr, $I:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DataType::Int32 => {
                type $I = i32;
                $body
            }
            $crate::dtype::DataType::Uint32 => {
                type $I = u32;
                $body
            }
            $crate::dtype::DataType::Int64 => {
                type $I = i64;
                $body
            }
            dtype => unreachable!("the rules accept no {dtype} indices"),
        }
    };
}

/// The size of a dimension that is indexed, and its stride in rows.
pub type Coordinate = (usize, usize);

/// Computes the row that each group of indices refers to, one index per coordinate.
pub fn rows<I: Index>(indices: &[I], coordinates: &[Coordinate], rows: &mut [u32]) {
    assert_eq!(indices.len(), rows.len() * coordinates.len());
    for (row, group) in rows.iter_mut().zip(indices.chunks_exact(coordinates.len())) {
        let steps = group.iter().zip(coordinates).map(|(index, &(size, step))| index.place(size) * step);
        *row = steps.sum::<usize>() as u32;
    }
}

/// Copies rows of `row_len` elements: the result has the rows `rows` of each block of `block` rows of `src`. `out` is
/// the result from its row `first` on, or a part of that.
pub fn gather_rows<T: Element>(src: &[T], block: usize, rows: &[u32], row_len: usize, first: usize, mut out: &mut [T]) {
    let (mut block_index, mut row) = (first / rows.len(), first % rows.len());
    while !out.is_empty() {
        let count = (rows.len() - row).min(out.len() / row_len);
        let (part, rest) = out.split_at_mut(count * row_len);
        let src = &src[block_index * block * row_len..][..block * row_len];
        let rows = &rows[row..row + count];
        match row_len {
            1 => part.iter_mut().zip(rows).for_each(|(o, &row)| *o = src[row as usize]),
            _ => part
                .chunks_exact_mut(row_len)
                .zip(rows)
                .for_each(|(o, &row)| o.copy_from_slice(&src[row as usize * row_len..][..row_len])),
        }
        (out, block_index, row) = (rest, block_index + 1, 0);
    }
}

/// Indices that are converted at a time.
const CHUNK: usize = 64;

/// Gathers along the middle one of three dimensions, with `size` positions in `src` and `count` in `indices` and the
/// result: `result[o, a, i] = src[o, indices[o, a, i], i]`, with `inner` positions in the last dimension.
pub struct GatherElements<'a, T, I> {
    /// Where to read.
    pub src: &'a [T],
    /// Positions of `src`.
    pub size: usize,
    /// One index per element of the whole result.
    pub indices: &'a [I],
    /// Positions of the result.
    pub count: usize,
    /// Elements after the dimension.
    pub inner: usize,
    /// The first element of the result in `out`.
    pub first: usize,
    /// Whole rows of `inner` elements of the result.
    pub out: &'a mut [T],
}

impl<T: Element, I: Index> Kernel for GatherElements<'_, T, I> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let GatherElements { src, size, indices, count, inner, first, mut out } = self;
        let (block, mut at, mut places) = (count * inner, first, [0; CHUNK]);
        while !out.is_empty() {
            let len = (block - at % block).min(out.len());
            let (part, rest) = out.split_at_mut(len);
            let src = &src[at / block * size * inner..][..size * inner];
            let indices = &indices[at..at + len];
            let rows = if inner > 1 { part.len() } else { 0 };
            for (out, indices) in part[..rows].chunks_mut(inner).zip(indices.chunks(inner)) {
                for (chunk, (out, indices)) in out.chunks_mut(CHUNK).zip(indices.chunks(CHUNK)).enumerate() {
                    places.iter_mut().zip(indices).for_each(|(place, index)| *place = index.place(size) as u32);
                    for (i, (o, &place)) in (chunk * CHUNK..).zip(out.iter_mut().zip(&places)) {
                        *o = src[place as usize * inner + i];
                    }
                }
            }
            if inner == 1 {
                for (out, indices) in part.chunks_mut(CHUNK).zip(indices.chunks(CHUNK)) {
                    places.iter_mut().zip(indices).for_each(|(place, index)| *place = index.place(size) as u32);
                    out.iter_mut().zip(&places).for_each(|(o, &place)| *o = src[place as usize]);
                }
            }
            (out, at) = (rest, at + len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Number;
    use crate::ops::gather::clamp_index;

    #[test]
    fn indices_match_the_reference() {
        for index in [0, 1, 4, 5, 6, 100, -1, -5, -6, -100, i64::MAX, i64::MIN] {
            assert_eq!(index.place(5), clamp_index(Number::Int(index as i128), 5), "{index}");
            assert_eq!((index as i32).place(5), clamp_index(Number::Int(index as i32 as i128), 5), "{index}");
            assert_eq!((index as u32).place(5), clamp_index(Number::Int(index as u32 as i128), 5), "{index}");
        }
    }
}
