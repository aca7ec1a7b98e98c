//! The first elements of a line in an order, by partial selection.

use super::stored::Stored;
use crate::cpu::simd::{Kernel, Simd};
use crate::dtype::Element;
use half::f16;

/// Elements that are compared with the last one found so far at a time.
const CHUNK: usize = 64;

/// An element type with an order.
pub trait Ranked: Element {
    /// The greater, the earlier; equal elements have equal ranks.
    type Rank: Copy + Default + Ord;
    /// A rank and an index: the greater, the earlier.
    type Entry: Copy + Ord;
    /// Number of 64-bit words of an entry.
    const WORDS: usize;
    /// The rank of an element. NaN has the greatest.
    fn rank(self, largest: bool) -> Self::Rank;
    /// The entry of an element.
    fn entry(rank: Self::Rank, index: u32) -> Self::Entry;
    /// The parts of an entry.
    fn parts(entry: Self::Entry) -> (Self::Rank, u32);
    /// Memory for entries.
    fn entries(words: &mut [u64]) -> &mut [Self::Entry];
}

macro_rules! ranked {
    ($($type:ty: $rank:expr;)*) => {$(
        impl Ranked for $type {
            type Rank = u32;
            type Entry = u64;
            const WORDS: usize = 1;
            #[inline(always)]
            fn rank(self, largest: bool) -> u32 {
                let rank: fn($type, bool) -> u32 = $rank;
                rank(self, largest)
            }
            #[inline(always)]
            fn entry(rank: u32, index: u32) -> u64 {
                (rank as u64) << 32 | !index as u64
            }
            #[inline(always)]
            fn parts(entry: u64) -> (u32, u32) {
                ((entry >> 32) as u32, !(entry as u32))
            }
            fn entries(words: &mut [u64]) -> &mut [u64] {
                words
            }
        }
    )*};
}

macro_rules! ranked_in_words {
    ($($type:ty: $rank:expr;)*) => {$(
        impl Ranked for $type {
            type Rank = u64;
            type Entry = [u64; 2];
            const WORDS: usize = 2;
            #[inline(always)]
            fn rank(self, largest: bool) -> u64 {
                let rank: fn($type, bool) -> u64 = $rank;
                rank(self, largest)
            }
            #[inline(always)]
            fn entry(rank: u64, index: u32) -> [u64; 2] {
                [rank, !index as u64]
            }
            #[inline(always)]
            fn parts([rank, index]: [u64; 2]) -> (u64, u32) {
                (rank, !(index as u32))
            }
            fn entries(words: &mut [u64]) -> &mut [[u64; 2]] {
                words.as_chunks_mut().0
            }
        }
    )*};
}

#[inline(always)]
fn float_rank(x: f32, largest: bool) -> u32 {
    // The sum of the two zeros is the positive one.
    let bits = (x + 0.0).to_bits();
    let rank = bits ^ (((bits as i32 >> 31) as u32) | 1 << 31);
    let rank = if largest { rank } else { !rank };
    if x.is_nan() { u32::MAX } else { rank }
}

#[inline(always)]
fn double_rank(x: f64, largest: bool) -> u64 {
    let bits = (x + 0.0).to_bits();
    let rank = bits ^ (((bits as i64 >> 63) as u64) | 1 << 63);
    let rank = if largest { rank } else { !rank };
    if x.is_nan() { u64::MAX } else { rank }
}

#[inline(always)]
fn integer_rank(x: i32, largest: bool) -> u32 {
    let rank = x as u32 ^ 1 << 31;
    if largest { rank } else { !rank }
}

ranked! {
    f32: float_rank;
    f16: |x, largest| float_rank(x.lane(), largest);
    i32: integer_rank;
    i8: |x, largest| integer_rank(x.into(), largest);
    u8: |x, largest| integer_rank(x.into(), largest);
    u32: |x, largest| if largest { x } else { !x };
}

ranked_in_words! {
    f64: double_rank;
    i64: |x, largest| if largest { x as u64 ^ 1 << 63 } else { !(x as u64 ^ 1 << 63) };
    u64: |x, largest| if largest { x } else { !x };
}

/// Finds the first elements of a line. Without room for all of them, those found so far are thinned out whenever the
/// room is full; from then on, few elements are early enough to be added.
pub struct Select<'a, T: Ranked> {
    /// The elements, `stride` apart.
    pub x: &'a [T],
    /// The distance of elements.
    pub stride: usize,
    /// Number of elements of the line.
    pub len: usize,
    /// Number of elements to find, at least 1.
    pub count: usize,
    /// Whether the largest comes first.
    pub largest: bool,
    /// More entries than `count`, or as many as elements; the found ones come first, in order.
    pub entries: &'a mut [T::Entry],
}

impl<T: Ranked> Select<'_, T> {
    /// Writes the ranks of elements, from the one at `first` on.
    #[inline(always)]
    fn rank(&self, first: usize, ranks: &mut [T::Rank]) {
        match self.stride {
            1 => ranks.iter_mut().zip(&self.x[first..]).for_each(|(rank, x)| *rank = x.rank(self.largest)),
            stride => {
                let line = self.x[first * stride..].iter().step_by(stride);
                ranks.iter_mut().zip(line).for_each(|(rank, x)| *rank = x.rank(self.largest));
            }
        }
    }

    /// Finds one element: the first of those with the greatest rank.
    #[inline(always)]
    fn run_for_one(self) {
        let (mut best, mut ranks) = (None, [T::Rank::default(); CHUNK]);
        for first in (0..self.len).step_by(CHUNK) {
            let ranks = &mut ranks[..CHUNK.min(self.len - first)];
            self.rank(first, ranks);
            let most = ranks.iter().fold(T::Rank::default(), |most, &rank| most.max(rank));
            if best.is_some_and(|(best, _)| most <= best) {
                continue;
            }
            // A fold vectorizes, a search does not.
            let place = |place: u32, (at, &rank): (u32, &T::Rank)| if rank == most { place.min(at) } else { place };
            best = Some((most, (first as u32..).zip(&*ranks).fold(u32::MAX, place)));
        }
        let (rank, index) = best.expect("there is an element");
        self.entries[0] = T::entry(rank, index);
    }
}

impl<T: Ranked> Kernel for Select<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let (len, count) = (self.len, self.count);
        assert!(count <= len && self.entries.len() > count.min(len - 1));
        if count == 1 {
            return self.run_for_one();
        }
        let (mut found, mut last) = (0, None);
        let mut ranks = [T::Rank::default(); CHUNK];
        for first in (0..len).step_by(CHUNK) {
            let ranks = &mut ranks[..CHUNK.min(len - first)];
            self.rank(first, ranks);
            // Of equal elements, the first one is found.
            if last.is_some_and(|last| ranks.iter().fold(true, |all, rank| all & (*rank <= last))) {
                continue;
            }
            for (index, &rank) in (first as u32..).zip(&*ranks) {
                if last.is_some_and(|last| rank <= last) {
                    continue;
                }
                self.entries[found] = T::entry(rank, index);
                found += 1;
                if found == self.entries.len() && found > count {
                    let (_, kept, _) = self.entries.select_nth_unstable_by(count - 1, |a, b| b.cmp(a));
                    last = Some(T::parts(*kept).0);
                    found = count;
                }
            }
        }
        if found > count {
            self.entries[..found].select_nth_unstable_by(count - 1, |a, b| b.cmp(a));
        }
        self.entries[..count].sort_unstable_by(|a, b| b.cmp(a));
    }
}
