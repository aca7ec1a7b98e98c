//! Copies with a list of source positions per dimension of the destination: mirrored padding, resampling to the nearest
//! element.

use crate::cpu::simd::{Kernel, Simd};
use crate::dtype::Element;
use crate::shape::{MAX_RANK, strides};

/// Minimum average run length for copying rows run by run instead of element by element: a run costs about as much as
/// this many elements.
const MIN_RUN: usize = 4;

/// Maximum bytes per listed position while creating a [`Remap`]: the position itself, and a run.
pub const PLACE_BYTES: usize = size_of::<u32>() + 2 * size_of::<Stretch>();

/// The source positions along a dimension of the destination.
#[derive(Clone, Debug, PartialEq)]
pub enum AxisPlaces {
    /// All of them, in order.
    All(usize),
    /// The listed ones.
    Listed(Vec<u32>),
}

impl AxisPlaces {
    /// The positions `source(0..len)` along a dimension with `size` elements in the source.
    pub fn new(size: usize, len: usize, source: impl Fn(usize) -> usize) -> AxisPlaces {
        match len == size && (0..len).all(|i| source(i) == i) {
            true => AxisPlaces::All(len),
            false => AxisPlaces::Listed((0..len).map(|i| source(i) as u32).collect()),
        }
    }

    fn len(&self) -> usize {
        match self {
            AxisPlaces::All(len) => *len,
            AxisPlaces::Listed(places) => places.len(),
        }
    }
}

/// A dimension around the rows.
#[derive(Clone, Debug)]
struct Outer {
    places: AxisPlaces,
    /// Stride of the dimension in the source, in elements.
    stride: usize,
}

impl Outer {
    /// The source offset of position `i`, in elements.
    fn offset(&self, i: usize) -> usize {
        match &self.places {
            AxisPlaces::All(_) => i * self.stride,
            AxisPlaces::Listed(places) => places[i] as usize * self.stride,
        }
    }
}

/// Elements of a row that are contiguous in the source, forward or backward, or that repeat one element.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    from: usize,
    len: usize,
    step: isize,
}

#[derive(Clone, Debug)]
enum RowSource {
    /// Each element as often as the number says.
    Repeated(usize),
    Runs(Vec<Stretch>),
    Elements(Vec<u32>),
}

/// A copy by lists of positions, created once and run often.
#[derive(Clone, Debug)]
pub struct Remap {
    outer: Vec<Outer>,
    row: RowSource,
    /// Elements per row of the destination.
    pub row_len: usize,
}

/// Splits `places` into runs of maximum length.
fn runs(places: &[u32]) -> Vec<Stretch> {
    let mut runs: Vec<Stretch> = Vec::new();
    for &place in places {
        let place = place as usize;
        match runs.last_mut() {
            Some(run) if run.len == 1 && place.abs_diff(run.from) <= 1 => {
                run.step = place as isize - run.from as isize;
                run.len = 2;
            }
            Some(run) if run.len > 1 && run.from as isize + run.step * run.len as isize == place as isize => {
                run.len += 1;
            }
            _ => runs.push(Stretch { from: place, len: 1, step: 1 }),
        }
    }
    runs
}

/// Whether the runs repeat each element of a row equally often.
fn is_repeated(runs: &[Stretch]) -> bool {
    let expected = |(at, run): (usize, &Stretch)| *run == Stretch { from: at, len: runs[0].len, step: 0 };
    runs[0].len > 1 && runs.iter().enumerate().all(expected)
}

impl Remap {
    /// Creates the copy from a row-major source of shape `input` to a row-major destination with `places`, one per
    /// dimension.
    pub fn new(input: &[u32], places: Vec<AxisPlaces>) -> Remap {
        let mut outer: Vec<Outer> = Vec::new();
        for (places, stride) in places.into_iter().zip(strides(input)) {
            match (outer.last_mut(), &places) {
                // Merges two whole dimensions.
                (Some(Outer { places: AxisPlaces::All(len), stride: last }), AxisPlaces::All(inner)) => {
                    *len *= inner;
                    *last = stride;
                }
                _ => outer.push(Outer { places, stride }),
            }
        }
        let innermost = outer.pop().map_or(AxisPlaces::All(1), |inner| inner.places);
        let row_len = innermost.len();
        let row = match innermost {
            AxisPlaces::All(len) => RowSource::Runs(vec![Stretch { from: 0, len, step: 1 }]),
            AxisPlaces::Listed(places) => match runs(&places) {
                runs if is_repeated(&runs) => RowSource::Repeated(runs[0].len),
                runs if runs.len() * MIN_RUN <= places.len() => RowSource::Runs(runs),
                _ => RowSource::Elements(places),
            },
        };
        Remap { outer, row, row_len }
    }

    /// Writes whole rows of the destination, starting at row `first`.
    ///
    /// # Panics
    /// If the length of `src` does not match its shape.
    #[inline(always)]
    fn run<T: Element>(&self, src: &[T], first: usize, rows: &mut [T]) {
        let (within, around) = match self.outer.split_last() {
            Some((within, around)) => (within, around),
            None => return self.copy_row(src, rows),
        };
        let mut counts = [0; MAX_RANK];
        let (mut index, mut rest) = (first % within.places.len(), first / within.places.len());
        for (count, outer) in counts.iter_mut().zip(around).rev() {
            *count = rest % outer.places.len();
            rest /= outer.places.len();
        }
        let mut at = 0;
        while at < rows.len() {
            let start: usize = counts.iter().zip(around).map(|(&count, outer)| outer.offset(count)).sum();
            let mut last = None;
            while index < within.places.len() && at < rows.len() {
                let from = start + within.offset(index);
                match last {
                    // The same row as before.
                    Some(last) if last == from => rows.copy_within(at - self.row_len..at, at),
                    _ => self.copy_row(&src[from..], &mut rows[at..][..self.row_len]),
                }
                (index, at, last) = (index + 1, at + self.row_len, Some(from));
            }
            index = 0;
            for (count, outer) in counts.iter_mut().zip(around).rev() {
                *count += 1;
                if *count < outer.places.len() {
                    break;
                }
                *count = 0;
            }
        }
    }

    #[inline(always)]
    fn copy_row<T: Element>(&self, src: &[T], row: &mut [T]) {
        match &self.row {
            RowSource::Repeated(2) => repeat::<T, 2>(src, row),
            RowSource::Repeated(4) => repeat::<T, 4>(src, row),
            RowSource::Repeated(count @ ..=8) => spread::<T, 8>(src, *count, row),
            RowSource::Repeated(count) => {
                row.chunks_exact_mut(*count).zip(src).for_each(|(row, &x)| row.fill(x));
            }
            RowSource::Elements(places) => row.iter_mut().zip(places).for_each(|(o, &place)| *o = src[place as usize]),
            RowSource::Runs(runs) => {
                let mut rest = row;
                for &Stretch { from, len, step } in runs {
                    let (out, after) = rest.split_at_mut(len);
                    rest = after;
                    match step {
                        1 => out.copy_from_slice(&src[from..from + len]),
                        0 => out.fill(src[from]),
                        _ => out.iter_mut().zip(src[..=from].iter().rev()).for_each(|(o, &x)| *o = x),
                    }
                }
            }
        }
    }
}

/// Elements repeated at a time.
const BLOCK: usize = 16;

/// Writes each element `COUNT` times.
#[inline(always)]
fn repeat<T: Element, const COUNT: usize>(src: &[T], row: &mut [T]) {
    let len = row.len() / COUNT;
    let (src, row) = (&src[..len], &mut row[..len * COUNT]);
    if len < BLOCK {
        return row.as_chunks_mut::<COUNT>().0.iter_mut().zip(src).for_each(|(row, &x)| *row = [x; COUNT]);
    }
    // The last block may overlap the one before it.
    for at in (0..len - BLOCK).step_by(BLOCK).chain([len - BLOCK]) {
        let block: [T; BLOCK] = src[at..at + BLOCK].try_into().expect("a block");
        let repeated = block.map(|x| [x; COUNT]);
        row[at * COUNT..][..BLOCK * COUNT].copy_from_slice(repeated.as_flattened());
    }
}

/// Writes each element `count` times, at most `WIDE`: what it writes beyond that, the next elements replace.
#[inline(always)]
fn spread<T: Element, const WIDE: usize>(src: &[T], count: usize, row: &mut [T]) {
    let whole = (row.len() + count).saturating_sub(WIDE) / count;
    for (i, &x) in src[..whole].iter().enumerate() {
        row[i * count..][..WIDE].copy_from_slice(&[x; WIDE]);
    }
    row.chunks_exact_mut(count).zip(src).skip(whole).for_each(|(row, &x)| row.fill(x));
}

/// Some rows of a destination.
pub struct RemapRows<'a, T> {
    /// The copy.
    pub remap: &'a Remap,
    /// The source.
    pub src: &'a [T],
    /// The index of the first row.
    pub first: usize,
    /// Whole rows of the destination.
    pub rows: &'a mut [T],
}

impl<T: Element> Kernel for RemapRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        self.remap.run(self.src, self.first, self.rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_go_forwards_backwards_or_stay() {
        let run = |from, len, step| Stretch { from, len, step };
        assert_eq!(runs(&[2, 1, 0, 1, 2, 3, 2, 1]), [run(2, 3, -1), run(1, 3, 1), run(2, 2, -1)]);
        assert_eq!(runs(&[0, 0, 0, 1, 2, 2, 2]), [run(0, 3, 0), run(1, 2, 1), run(2, 2, 0)]);
        assert_eq!(runs(&[0, 2, 4]), [run(0, 1, 1), run(2, 1, 1), run(4, 1, 1)]);
    }

    #[test]
    fn elements_repeat_in_rows_of_every_length() {
        for (len, count) in (1..40).flat_map(|len| (2..11).map(move |count| (len, count))) {
            let src: Vec<u8> = (1..=len as u8).collect();
            let remap = Remap::new(
                &[1, len as u32],
                vec![AxisPlaces::All(1), AxisPlaces::new(len, len * count, |i| i / count)],
            );
            let mut out = vec![0; len * count];
            remap.run(&src, 0, &mut out);
            let expected: Vec<u8> = src.iter().flat_map(|&x| vec![x; count]).collect();
            assert_eq!(out, expected, "{len} elements, each {count} times");
        }
    }

    #[test]
    fn lists_of_places() {
        let src: &[u32] = &(0..6 * 5 * 4).collect::<Vec<_>>();
        let lists = [vec![5, 0, 1, 1], vec![0, 1, 2, 3, 4], vec![3, 3, 3, 3, 3, 2, 1, 0, 1, 2, 3, 3, 3, 3]];
        let repeated = |count: usize| (0..4 * count).map(|i| i / count).collect::<Vec<_>>();
        let sizes = [6, 5, 4];
        for keep in 0..20 {
            // The last dimension repeated, or each dimension listed or whole.
            let lists = match keep {
                8..12 => [lists[0].clone(), lists[1].clone(), repeated(2)],
                12..16 => [lists[0].clone(), lists[1].clone(), repeated(3)],
                16..20 => [lists[0].clone(), lists[1].clone(), repeated(4)],
                _ => lists.clone(),
            };
            let keep = keep & if keep < 8 { 7 } else { 3 };
            let lists: Vec<Vec<usize>> = (0..3)
                .map(|axis| if keep >> axis & 1 == 1 { (0..sizes[axis]).collect() } else { lists[axis].clone() })
                .collect();
            let places = (0..3).map(|axis| AxisPlaces::new(sizes[axis], lists[axis].len(), |i| lists[axis][i]));
            let remap = Remap::new(&[6, 5, 4], places.collect());
            let expected: Vec<u32> = lists[0]
                .iter()
                .flat_map(|a| lists[1].iter().flat_map(move |b| [(a, b)]))
                .flat_map(|(a, b)| lists[2].iter().map(move |c| src[(a * 5 + b) * 4 + c]))
                .collect();
            for rows in [1, 2, 7, expected.len()] {
                let mut out = vec![u32::MAX; expected.len()];
                for (part, out) in out.chunks_mut(rows * remap.row_len).enumerate() {
                    remap.run(src, part * rows, out);
                }
                assert_eq!(out, expected, "{remap:?}");
            }
        }
    }
}
