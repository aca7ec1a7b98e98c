//! Changes elements at positions given by a tensor of indices. Updates of the same position follow each other in their order.

use super::gather::Index;
use crate::cpu::simd::{Kernel, Simd};
use crate::dtype::Element;
use crate::memory::ColumnBlock;
use crate::ops::extension::scatter::Reduction;
use half::f16;
use std::ops::Range;

/// An element type that updates can be combined with.
pub trait Combined: Element {
    /// The sum; integers wrap around.
    fn sum(self, other: Self) -> Self;
    /// The product; integers wrap around.
    fn product(self, other: Self) -> Self;
    /// The smaller one; NaN if either is NaN.
    fn smaller(self, other: Self) -> Self;
    /// The larger one; NaN if either is NaN.
    fn larger(self, other: Self) -> Self;
}

macro_rules! combined {
    ($($type:ty: |$a:ident, $b:ident| $sum:expr, $product:expr, $smaller:expr, $larger:expr;)*) => {$(
        impl Combined for $type {
            #[inline(always)]
            fn sum(self, $b: $type) -> $type {
                let $a = self;
                $sum
            }
            #[inline(always)]
            fn product(self, $b: $type) -> $type {
                let $a = self;
                $product
            }
            #[inline(always)]
            fn smaller(self, $b: $type) -> $type {
                let $a = self;
                $smaller
            }
            #[inline(always)]
            fn larger(self, $b: $type) -> $type {
                let $a = self;
                $larger
            }
        }
    )*};
}

macro_rules! combined_integers {
    ($($type:ty)*) => {
        combined! { $($type: |a, b| a.wrapping_add(b), a.wrapping_mul(b), a.min(b), a.max(b);)* }
    };
}

combined_integers! { i32 u32 i64 u64 i8 u8 }

combined! {
    f32: |a, b| a + b, a * b, if a.is_nan() || a < b { a } else { b }, if a.is_nan() || a > b { a } else { b };
    f64: |a, b| a + b, a * b, if a.is_nan() || a < b { a } else { b }, if a.is_nan() || a > b { a } else { b };
    f16: |a, b| a + b, a * b, if a.is_nan() || a < b { a } else { b }, if a.is_nan() || a > b { a } else { b };
}

/// Runs `$body` with `$combine` bound to the function that `$reduction` applies to elements of type `$T`.
macro_rules! with_reduction {
    ($reduction:expr, $T:ty, $combine:ident => $body:expr) => {
        match $reduction {
            Reduction::None => {
                let $combine = |_: $T, update: $T| update;
                $body
            }
            Reduction::Add => {
                let $combine = <$T>::sum;
                $body
            }
            Reduction::Mul => {
                let $combine = <$T>::product;
                $body
            }
            Reduction::Min => {
                let $combine = <$T>::smaller;
                $body
            }
            Reduction::Max => {
                let $combine = <$T>::larger;
                $body
            }
        }
    };
}

/// Converts indices to positions in a dimension of `size` positions.
pub struct ToPlaces<'a, I> {
    /// The indices.
    pub indices: &'a [I],
    /// Number of positions.
    pub size: usize,
    /// The positions, one per index.
    pub places: &'a mut [u32],
}

impl<I: Index> Kernel for ToPlaces<'_, I> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (place, index) in self.places.iter_mut().zip(self.indices) {
            *place = index.place(self.size) as u32;
        }
    }
}

/// Combines rows of a matrix with updates, in order.
pub struct CombineRows<'a, T> {
    /// What an update does.
    pub reduction: Reduction,
    /// The updates, a row for each of `rows`.
    pub updates: &'a [T],
    /// The row that each update changes.
    pub rows: &'a [u32],
    /// Elements per row.
    pub row_len: usize,
    /// The columns to change.
    pub columns: Range<usize>,
    /// These columns of the matrix.
    pub out: ColumnBlock<'a, T>,
}

impl<T: Combined> Kernel for CombineRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let CombineRows { reduction, updates, rows, row_len, columns, mut out } = self;
        assert_eq!(updates.len(), rows.len() * row_len);
        with_reduction!(reduction, T, combine => {
            if let Some(out) = out.whole() {
                for (updates, &row) in updates.chunks_exact(row_len).zip(rows) {
                    let elements = &mut out[row as usize * row_len..][..row_len];
                    elements.iter_mut().zip(updates).for_each(|(element, &update)| *element = combine(*element, update));
                }
                return;
            }
            for (updates, &row) in updates.chunks_exact(row_len).zip(rows) {
                for (element, &update) in out.row(row as usize).iter_mut().zip(&updates[columns.clone()]) {
                    *element = combine(*element, update);
                }
            }
        })
    }
}

/// Combines elements of a matrix `[size, inner]` with updates, in order: `out[places[a, j], columns[j]]` with
/// `updates[a, j]`.
pub struct CombineElements<'a, T> {
    /// What an update does.
    pub reduction: Reduction,
    /// The updates, in rows of `width`.
    pub updates: &'a [T],
    /// The row that each update changes.
    pub places: &'a [u32],
    /// Updates per row.
    pub width: usize,
    /// The column that each update of a row changes; `None` for its own.
    pub to: Option<&'a [u32]>,
    /// The columns to change.
    pub columns: Range<usize>,
    /// These columns of the matrix.
    pub out: ColumnBlock<'a, T>,
}

impl<T: Combined> Kernel for CombineElements<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let CombineElements { reduction, updates, places, width, to, columns, mut out } = self;
        assert_eq!(updates.len(), places.len());
        let rows = updates.chunks_exact(width).zip(places.chunks_exact(width));
        with_reduction!(reduction, T, combine => {
            if let Some(to) = to {
                for (updates, places) in rows {
                    for ((&update, &place), &column) in updates.iter().zip(places).zip(to) {
                        if columns.contains(&(column as usize)) {
                            let element = &mut out.row(place as usize)[column as usize - columns.start];
                            *element = combine(*element, update);
                        }
                    }
                }
            } else if let Some(out) = out.whole() {
                if width == 1 {
                    for (&update, &place) in updates.iter().zip(places) {
                        let element = &mut out[place as usize];
                        *element = combine(*element, update);
                    }
                    return;
                }
                for (updates, places) in rows {
                    for (at, (&update, &place)) in updates.iter().zip(places).enumerate() {
                        let element = &mut out[place as usize * width + at];
                        *element = combine(*element, update);
                    }
                }
            } else {
                for (updates, places) in rows {
                    let own = updates[columns.clone()].iter().zip(&places[columns.clone()]);
                    for (at, (&update, &place)) in own.enumerate() {
                        let element = &mut out.row(place as usize)[at];
                        *element = combine(*element, update);
                    }
                }
            }
        })
    }
}
