//! Samples of images between elements.

use crate::cpu::simd::{Kernel, Simd};
use crate::dtype::Element;
use crate::memory::ColumnBlock;
use crate::ops::extension::grid_sample::{GridSample, Tap};
use arrayvec::ArrayVec;
use std::ops::Range;

/// Places that are computed together.
const PLACES: usize = 64;

/// Maximum number of elements that one in between depends on: four along each of three dimensions.
const TAPS: usize = 64;

/// The elements that those at some places depend on: first all first ones, then all second ones, and so on.
struct Taps {
    offsets: [[u32; PLACES]; TAPS],
    weights: [[f32; PLACES]; TAPS],
    count: usize,
}

impl Taps {
    /// Computes those for `grid`, with as many coordinates for each place as `sizes`.
    #[inline(always)]
    fn fill(&mut self, op: &GridSample, sizes: &[u32], grid: &[f32]) {
        for (at, coordinates) in grid.chunks_exact(sizes.len()).enumerate() {
            let (mut taps, mut count): ([(u32, f32); TAPS], usize) = ([(0, 0.0); TAPS], 1);
            taps[0].1 = 1.0;
            for (dimension, &size) in sizes.iter().enumerate() {
                let along: ArrayVec<Tap, 4> = op.taps(op.coordinate(coordinates, dimension), size);
                // From behind: each tap makes room for several.
                for before in (0..count).rev() {
                    let (offset, weight) = taps[before];
                    for (next, tap) in along.iter().enumerate() {
                        let weight = if tap.place.is_some() { weight * tap.weight } else { 0.0 };
                        taps[before * along.len() + next] = (offset * size + tap.place.unwrap_or(0), weight);
                    }
                }
                count *= along.len();
            }
            self.count = count;
            for (tap, &(offset, weight)) in taps[..count].iter().enumerate() {
                (self.offsets[tap][at], self.weights[tap][at]) = (offset, weight);
            }
        }
    }
}

/// Samples of the channels of an image.
pub struct SampleImage<'a, T> {
    /// How to sample.
    pub op: &'a GridSample,
    /// The image, `[channels, ...sizes]`.
    pub image: &'a [T],
    /// Its spatial dimensions.
    pub sizes: &'a [u32],
    /// The coordinates of all places.
    pub grid: &'a [f32],
    /// The places to compute.
    pub places: Range<usize>,
    /// The result at these places: a row per channel.
    pub out: ColumnBlock<'a, T>,
}

impl<T: Element> SampleImage<'_, T> {
    /// Calls `put` with the taps of some places, an image's channel and its result there.
    #[inline(always)]
    fn each_channel(self, put: impl Fn(&Taps, &[T], &mut [T])) {
        let SampleImage { op, image, sizes, grid, places, mut out } = self;
        let area: usize = sizes.iter().map(|&size| size as usize).product();
        let mut taps = Taps { offsets: [[0; PLACES]; TAPS], weights: [[0.0; PLACES]; TAPS], count: 0 };
        for start in places.clone().step_by(PLACES) {
            let end = places.end.min(start + PLACES);
            taps.fill(op, sizes, &grid[start * sizes.len()..end * sizes.len()]);
            let columns = start - places.start..end - places.start;
            for (channel, image) in image.chunks_exact(area).enumerate() {
                put(&taps, image, &mut out.row(channel)[columns.clone()]);
            }
        }
    }
}

/// Weighted sums of elements.
pub struct Interpolate<'a>(pub SampleImage<'a, f32>);

impl Kernel for Interpolate<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.0.each_channel(
            #[inline(always)]
            |taps, image, out| {
                let mut sums = [0.0; PLACES];
                for (offsets, weights) in taps.offsets[..taps.count].iter().zip(&taps.weights) {
                    for ((sum, &offset), &weight) in sums.iter_mut().zip(offsets).zip(weights) {
                        // Elements that do not exist have no weight, whatever is at their places.
                        let element = if weight == 0.0 { 0.0 } else { image[offset as usize] };
                        *sum = simd.mul_add_scalar(weight, element, *sum);
                    }
                }
                out.copy_from_slice(&sums[..out.len()]);
            },
        );
    }
}

/// Copies of the nearest elements.
pub struct CopyNearest<'a, T>(pub SampleImage<'a, T>);

impl<T: Element> Kernel for CopyNearest<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        self.0.each_channel(
            #[inline(always)]
            |taps, image, out| {
                for ((out, &offset), &weight) in out.iter_mut().zip(&taps.offsets[0]).zip(&taps.weights[0]) {
                    *out = if weight == 0.0 { T::default() } else { image[offset as usize] };
                }
            },
        );
    }
}
