//! Applies masks to attention scores, and finds the keys that they leave visible.

use super::matrix::{TypedMatrix, copied};
use crate::cpu::kernels::transpose::transpose;
use crate::cpu::simd::{Kernel, Simd};
use crate::ops::attention::MAX_MASKS;
use std::ops::Range;

/// Keys per block: the scores of 32 queries then take 16 KiB, which leaves room in the first-level cache for the other
/// operand.
pub const KEY_BLOCK: usize = 128;

/// A mask of the scores, starting at the first query of the block.
#[derive(Clone, Copy)]
pub enum Mask<'a> {
    /// An addend.
    Add {
        /// The numbers.
        addend: TypedMatrix<'a, f32>,
        /// One of at most minus this hides its key: [`OUT_OF_SIGHT`] or [`OUT_OF_SIGHT_HALF`].
        out_of_sight: f32,
    },
    /// Replaces the score by `value` where the condition is nonzero (`when`) or zero (not `when`).
    Fill {
        /// The condition.
        condition: TypedMatrix<'a, u8>,
        /// Whether the condition must be nonzero.
        when: bool,
        /// The replacement.
        value: f32,
        /// Whether the replacement is so low that the score's weight vanishes next to any other.
        hides: bool,
    },
}

/// An addend of at most minus this hides its key: the score's weight vanishes next to any other. Scores are far
/// smaller.
pub const OUT_OF_SIGHT: f32 = 1e30;

/// [`OUT_OF_SIGHT`] for keys that are stored as float16, as are the masks of such models: the largest number of that
/// type.
pub const OUT_OF_SIGHT_HALF: f32 = 65504.0;

impl Mask<'_> {
    /// Whether every query has the same mask.
    fn is_same(&self) -> bool {
        match self {
            Mask::Add { addend, .. } => addend.row == 0,
            Mask::Fill { condition, .. } => condition.row == 0,
        }
    }

    /// Updates which of the keys from `first` on are hidden from `query`; `hidden` holds the effect of the previous
    /// masks. A mask that replaces scores may reveal keys again, and so may NaN or an addend as large as the one that
    /// hid them.
    #[inline(always)]
    fn hide(&self, query: usize, first: usize, hidden: &mut [bool]) {
        match *self {
            Mask::Add { addend, out_of_sight } => {
                let next = |hidden, x| (x <= -out_of_sight) | (hidden & (x < out_of_sight));
                hide_each(addend, query, first, hidden, next);
            }
            Mask::Fill { condition, when, hides, .. } => {
                let next = |hidden, x: u8| if (x != 0) == when { hides } else { hidden };
                hide_each(condition, query, first, hidden, next);
            }
        }
    }
}

/// `hidden = next(hidden, element)` for the elements of a row from column `first` on.
#[inline(always)]
fn hide_each<T: Copy>(
    matrix: TypedMatrix<T>,
    row: usize,
    first: usize,
    hidden: &mut [bool],
    next: impl Fn(bool, T) -> bool,
) {
    let from = &matrix.data[row * matrix.row + first * matrix.col..];
    match matrix.col {
        1 => hidden.iter_mut().zip(from).for_each(|(hidden, &x)| *hidden = next(*hidden, x)),
        col => hidden.iter_mut().enumerate().for_each(|(key, hidden)| *hidden = next(*hidden, from[key * col])),
    }
}

/// The range of keys that a block of queries processes: from the first to the last key that any query sees. Run it with
/// [`Isa::run`](crate::cpu::simd::Isa::run). Masked keys before and after the range are not read: NaN and infinities
/// there do not reach the result, although the formula would make it NaN.
///
/// If a query sees no key, the range has all keys: that query's result depends on all of them, as a mean or NaN.
pub struct SeenKeys<'a> {
    /// Masks, applied in this order.
    pub masks: &'a [Option<Mask<'a>>; MAX_MASKS],
    /// Number of queries.
    pub queries: usize,
    /// Number of keys.
    pub keys: usize,
}

impl Kernel for SeenKeys<'_> {
    type Output = Range<usize>;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> Range<usize> {
        let masks = || self.masks.iter().flatten();
        if masks().next().is_none() {
            return 0..self.keys;
        }
        let queries = if masks().all(Mask::is_same) { 1 } else { self.queries };
        let (mut start, mut end) = (self.keys, 0);
        for query in 0..queries {
            // Examines only the keys that would widen the range, and whether the query sees any key at all.
            let first = self.first(query, 0..start);
            let last = self.last(query, end..self.keys);
            if first.is_none() && last.is_none() && self.first(query, start..end).is_none() {
                return 0..self.keys;
            }
            (start, end) = (first.unwrap_or(start), last.map_or(end, |last| last + 1));
        }
        start..end
    }
}

/// Number of keys examined at once.
const GLANCE: usize = 64;

impl SeenKeys<'_> {
    /// The first key of a range that a query sees.
    #[inline(always)]
    fn first(&self, query: usize, keys: Range<usize>) -> Option<usize> {
        let mut starts = keys.clone().step_by(GLANCE);
        starts.find_map(|at| Some(at + self.glance(query, at..keys.end)?.iter().position(|hidden| !hidden)?))
    }

    /// The last key of a range that a query sees.
    #[inline(always)]
    fn last(&self, query: usize, keys: Range<usize>) -> Option<usize> {
        let mut starts = keys.clone().step_by(GLANCE).rev();
        starts.find_map(|at| Some(at + self.glance(query, at..keys.end)?.iter().rposition(|hidden| !hidden)?))
    }

    /// Of the next [`GLANCE`] keys, flags those that are hidden from a query and those beyond the range; `None` if all
    /// are.
    #[inline(always)]
    fn glance(&self, query: usize, keys: Range<usize>) -> Option<[bool; GLANCE]> {
        let mut hidden = [true; GLANCE];
        let own = &mut hidden[..keys.len().min(GLANCE)];
        own.fill(false);
        for mask in self.masks.iter().flatten() {
            mask.hide(query, keys.start, own);
        }
        (hidden != [true; GLANCE]).then_some(hidden)
    }
}

/// Applies a mask to the scores `[keys][width]` of the keys from `first` on.
#[inline(always)]
pub fn apply_mask<S: Simd>(
    simd: S,
    mask: &Mask,
    first: usize,
    [keys, queries]: [usize; 2],
    scores: &mut [f32],
    tiles: &mut [f32],
    width: usize,
) {
    let (turned, rows) = tiles.split_at_mut(KEY_BLOCK * width);
    match *mask {
        Mask::Add { addend, .. } => add(simd, addend, first, [keys, queries], scores, [turned, rows], width),
        // All queries have the same mask: one number per row of scores.
        Mask::Fill { condition, when, value, .. } if condition.row == 0 => {
            let scores = scores.chunks_exact_mut(width).enumerate();
            scores.filter(|(key, _)| (condition.at(0, first + key) != 0) == when).for_each(|(_, row)| row.fill(value));
        }
        Mask::Fill { condition, when, value, .. } => {
            let fills = |x: u8| (x != 0) == when;
            let mut any = false;
            for (query, row) in rows.chunks_exact_mut(keys).take(queries).enumerate() {
                let from = &condition.data[query * condition.row + first * condition.col..];
                let mut note = |to: &mut f32, x: u8| (*to, any) = (fills(x) as u8 as f32, any | fills(x));
                match condition.col {
                    1 => row.iter_mut().zip(from).for_each(|(to, &x)| note(to, x)),
                    col => row.iter_mut().enumerate().for_each(|(key, to)| note(to, from[key * col])),
                }
            }
            // Most blocks of a causal mask hide nothing.
            if !any {
                return;
            }
            transpose(simd, &*rows, keys, [queries, keys], turned, width);
            for (score, &flag) in scores.iter_mut().zip(&*turned) {
                *score = if flag == 1.0 { value } else { *score };
            }
        }
    }
}

/// Adds the elements of a mask to the scores.
#[inline(always)]
fn add<S: Simd>(
    simd: S,
    mask: TypedMatrix<f32>,
    first: usize,
    [keys, queries]: [usize; 2],
    scores: &mut [f32],
    [turned, rows]: [&mut [f32]; 2],
    width: usize,
) {
    // All queries have the same mask: one number per row of scores.
    if mask.row == 0 {
        for (key, scores) in scores.chunks_exact_mut(width).enumerate() {
            let x = mask.at(0, first + key);
            scores.iter_mut().for_each(|score| *score += x);
        }
        return;
    }
    let mask = TypedMatrix { data: &mask.data[first * mask.col..], ..mask };
    if mask.col == 1 {
        transpose(simd, mask.data, mask.row, [queries, keys], turned, width);
    } else {
        let mask = copied(simd, mask, [queries, keys], rows);
        transpose(simd, mask.data, mask.row, [queries, keys], turned, width);
    }
    scores.iter_mut().zip(&*turned).for_each(|(score, x)| *score += x);
}

/// Applies a mask to the scores of one query and the keys from `first` on.
#[inline(always)]
pub fn mask_row(mask: &Mask, query: usize, first: usize, scores: &mut [f32]) {
    match *mask {
        Mask::Add { addend, .. } => with_row(addend, query, first, scores, |score, x| *score += x),
        Mask::Fill { condition, when, value, .. } => {
            with_row(condition, query, first, scores, |score, x| {
                *score = if (x != 0) == when { value } else { *score }
            });
        }
    }
}

/// Updates each score with its element of a mask.
#[inline(always)]
fn with_row<M: Copy>(
    mask: TypedMatrix<M>,
    query: usize,
    first: usize,
    scores: &mut [f32],
    change: impl Fn(&mut f32, M),
) {
    let row = &mask.data[query * mask.row + first * mask.col..];
    match mask.col {
        // Contiguous elements vectorize.
        1 => scores.iter_mut().zip(row).for_each(|(score, &x)| change(score, x)),
        col => scores.iter_mut().enumerate().for_each(|(key, score)| change(score, row[key * col])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::Isa;
    use crate::testing::Random;

    /// A matrix of this size; all rows are equal if `same[0]`, all columns if `same[1]`.
    fn matrix<T>(data: &[T], [_, cols]: [usize; 2], same: [bool; 2]) -> TypedMatrix<'_, T> {
        let row = if same[0] { 0 } else { cols };
        TypedMatrix { data, row, col: usize::from(!same[1]) }
    }

    #[test]
    fn the_range_follows_the_formula() {
        let mut random = Random::new(3);
        for case in 0..400 {
            let size @ [queries, keys] = [1 + random.next() as usize % 5, 1 + random.next() as usize % 200];
            let mut any = |of: usize| random.next() as usize % of;
            // Most keys are hidden, which yields ranges of all lengths.
            let shown: Vec<bool> = (0..2 * queries * keys).map(|_| any(1 + case % 90) == 0).collect();
            let odd = [1e30, f32::NAN, f32::INFINITY, 7.0];
            let floats: Vec<f32> = shown.iter().map(|&shown| if shown { odd[any(4)] } else { -1e30 }).collect();
            let halves: Vec<f32> = floats.iter().map(|&x| x.clamp(-OUT_OF_SIGHT_HALF, OUT_OF_SIGHT_HALF)).collect();
            let bytes: Vec<u8> = shown.iter().map(|&shown| shown as u8 * 3).collect();
            let mut mask = |start: usize| {
                let same = [any(3) == 0, any(20) == 0];
                match any(5) {
                    0 => Mask::Add { addend: matrix(&floats[start..], size, same), out_of_sight: OUT_OF_SIGHT },
                    1 => Mask::Add { addend: matrix(&halves[start..], size, same), out_of_sight: OUT_OF_SIGHT_HALF },
                    kind => {
                        let condition = matrix(&bytes[start..], size, same);
                        let hides = kind != 4;
                        Mask::Fill { condition, when: any(2) == 0, value: 0.0, hides }
                    }
                }
            };
            let masks = [Some(mask(0)), Some(mask(queries * keys)).filter(|_| case % 2 == 0)];
            let sees = |query: usize, key: usize| {
                let add = |sum: Option<f32>, x: f32| match x {
                    x if x <= -65504.0 => None,
                    x if x.abs() < 65504.0 => sum,
                    _ => Some(sum.unwrap_or(0.0)),
                };
                let mut sum = Some(0.0);
                for mask in masks.iter().flatten() {
                    sum = match *mask {
                        Mask::Add { addend, .. } => add(sum, addend.at(query, key)),
                        Mask::Fill { condition, when, hides, .. } => match (condition.at(query, key) != 0) == when {
                            true => (!hides).then_some(0.0),
                            false => sum,
                        },
                    };
                }
                sum
            };
            let seen: Vec<Vec<usize>> =
                (0..queries).map(|query| (0..keys).filter(|&key| sees(query, key).is_some()).collect()).collect();
            let expected = match seen.iter().all(|seen| !seen.is_empty()) {
                true => {
                    *seen.iter().map(|seen| &seen[0]).min().unwrap()
                        ..seen.iter().map(|seen| seen[seen.len() - 1] + 1).max().unwrap()
                }
                false => 0..keys,
            };
            for isa in Isa::available() {
                assert_eq!(isa.run(SeenKeys { masks: &masks, queries, keys }), expected, "case {case}, {isa:?}");
            }
        }
    }
}
