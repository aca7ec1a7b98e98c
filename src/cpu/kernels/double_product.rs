//! Matrix products of float64.

use crate::cpu::simd::{Kernel, Simd};
use std::array::from_fn;
use std::ops::Range;

/// Rows of a register tile.
pub const ROWS: usize = 4;
/// Columns of a register tile, and of a panel of the right operand.
pub const COLUMNS: usize = 8;
/// The largest depth of a panel, which then takes half of a first-level cache.
const DEPTH: usize = 256;
/// Elements of a panel.
pub const PANEL: usize = DEPTH * COLUMNS;

/// Columns of few rows that are computed at the same time.
const STREAM: usize = 256;

/// A matrix, not necessarily contiguous.
#[derive(Clone, Copy)]
pub struct Strided<'a> {
    /// The elements, from the first one on.
    pub elements: &'a [f64],
    /// The distance between rows.
    pub row: usize,
    /// The distance between columns.
    pub col: usize,
}

/// `a * b` for some rows of `a` and some columns of `b`, in parts: the sums of all blocks of the depth add up to the
/// product. The terms of a sum depend only on the depth.
pub struct DoubleProduct<'a, P> {
    /// The left operand.
    pub a: Strided<'a>,
    /// The right operand.
    pub b: Strided<'a>,
    /// Rows of `a`.
    pub rows: Range<usize>,
    /// Columns of `b`.
    pub columns: Range<usize>,
    /// Columns of `a` and rows of `b`.
    pub depth: usize,
    /// Whether the right operand is read in place, row by row: for outputs of less than [`ROWS`] rows, if its columns are
    /// neighbors.
    pub in_place: bool,
    /// Memory for at least [`PANEL`] elements.
    pub panel: &'a mut [f64],
    /// Receives sums of neighboring columns: whether they are the first ones, their row, the first column, and the sums.
    pub put: P,
}

impl<P: FnMut(bool, usize, usize, &[f64])> Kernel for DoubleProduct<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let DoubleProduct { a, b, rows, columns, depth, in_place, panel, mut put } = self;
        if in_place {
            for row in rows {
                for column in columns.clone().step_by(STREAM) {
                    let mut sums = [0.0; STREAM];
                    let sums = &mut sums[..STREAM.min(columns.end - column)];
                    for at in 0..depth {
                        let factor = a.elements[row * a.row + at * a.col];
                        for (sum, &y) in sums.iter_mut().zip(&b.elements[at * b.row + column..]) {
                            *sum = fused::<S>(factor, y, *sum);
                        }
                    }
                    put(true, row, column, sums);
                }
            }
            return;
        }
        for first in (0..depth).step_by(DEPTH) {
            let count = DEPTH.min(depth - first);
            for column in columns.clone().step_by(COLUMNS) {
                let width = COLUMNS.min(columns.end - column);
                let panel = &mut panel.as_chunks_mut::<COLUMNS>().0[..count];
                for (at, into) in (first..).zip(&mut *panel) {
                    let start = at * b.row + column * b.col;
                    *into = from_fn(|j| if j < width { b.elements[start + j * b.col] } else { 0.0 });
                }
                let mut row = rows.start;
                while row < rows.end {
                    let start = row * a.row + first * a.col;
                    if rows.end - row >= ROWS {
                        let sums = tile::<S, ROWS>(a, start, panel);
                        sums.iter().zip(row..).for_each(|(sums, row)| put(first == 0, row, column, &sums[..width]));
                        row += ROWS;
                    } else {
                        let [sums] = tile::<S, 1>(a, start, panel);
                        put(first == 0, row, column, &sums[..width]);
                        row += 1;
                    }
                }
            }
        }
    }
}

/// `x * y + sum`: without the instruction, a fused operation is a function call.
#[inline(always)]
fn fused<S: Simd>(x: f64, y: f64, sum: f64) -> f64 {
    if S::FUSES { x.mul_add(y, sum) } else { x * y + sum }
}

/// Multiplies `R` rows of `a` by one panel. The first row starts at element `start`.
#[inline(always)]
fn tile<S: Simd, const R: usize>(a: Strided, start: usize, panel: &[[f64; COLUMNS]]) -> [[f64; COLUMNS]; R] {
    let mut sums = [[0.0; COLUMNS]; R];
    let mut add = |factors: [f64; R], numbers: &[f64; COLUMNS]| {
        for r in 0..R {
            for j in 0..COLUMNS {
                sums[r][j] = fused::<S>(factors[r], numbers[j], sums[r][j]);
            }
        }
    };
    if a.col == 1 {
        let rows: [&[f64]; R] = from_fn(|r| &a.elements[start + r * a.row..][..panel.len()]);
        for (at, numbers) in panel.iter().enumerate() {
            add(rows.map(|row| row[at]), numbers);
        }
    } else {
        for (at, numbers) in panel.iter().enumerate() {
            add(from_fn(|r| a.elements[start + r * a.row + at * a.col]), numbers);
        }
    }
    sums
}
