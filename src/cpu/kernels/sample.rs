//! Samples of images between their elements. What elements they depend on is computed for many places at once, and then
//! serves all channels.
#![expect(
    clippy::needless_range_loop,
    reason = "loops over several arrays of the same length are vectorized as they are"
)]

use crate::cpu::simd::{Kernel, Simd};
use crate::dtype::Element;
use crate::ops::extension::crop_and_resize::CropAndResize;
use crate::ops::extension::deform_columns::DeformColumns;
use crate::ops::extension::grid_sample::{Axis, GridSample, MAX_DIMENSIONS, Mode, Padding, cubic};
use std::ops::Range;

/// Places that are computed together.
pub const PLACES: usize = 64;

/// Maximum number of elements that one in between depends on along a dimension.
const ALONG: usize = 4;

/// Maximum number of elements that one in between depends on.
const TAPS: usize = ALONG.pow(MAX_DIMENSIONS as u32);

/// Vectors of channels that are computed at a time.
const VECTORS: usize = 4;

/// A number for each place.
type Lanes<T> = [T; PLACES];

/// The elements that those at some places depend on: first all first ones, then all second ones, and so on.
struct Taps {
    /// Which elements.
    pixels: [Lanes<u32>; TAPS],
    /// Their weights. Those outside of the image have none.
    weights: [Lanes<f32>; TAPS],
    count: usize,
}

impl Taps {
    fn new() -> Taps {
        Taps { pixels: [[0; PLACES]; TAPS], weights: [[0.0; PLACES]; TAPS], count: 0 }
    }

    /// Starts with the places in an input without dimensions, and these weights.
    #[inline(always)]
    fn start(&mut self, weights: &Lanes<f32>) {
        (self.count, self.pixels[0], self.weights[0]) = (1, [0; PLACES], *weights);
    }

    /// Adds a dimension; `places` are along it.
    #[inline(always)]
    fn add(&mut self, mode: Mode, axis: &Axis, places: &Lanes<f32>) {
        let (mut pixels, mut weights) = ([[0; PLACES]; ALONG], [[0.0; PLACES]; ALONG]);
        let count = list(mode, axis, places, &mut pixels, &mut weights);
        // From behind: each tap makes room for several.
        for before in (0..self.count).rev() {
            let (pixel, weight) = (self.pixels[before], self.weights[before]);
            for next in 0..count {
                let to = before * count + next;
                for i in 0..PLACES {
                    self.pixels[to][i] = pixel[i] * axis.size + pixels[next][i];
                    self.weights[to][i] = weight[i] * weights[next][i];
                }
            }
        }
        self.count *= count;
    }
}

/// Lists the elements along a dimension that those at `places` depend on, and their weights. Returns how many.
#[inline(always)]
fn list(
    mode: Mode,
    axis: &Axis,
    places: &Lanes<f32>,
    pixels: &mut [Lanes<u32>; ALONG],
    weights: &mut [Lanes<f32>; ALONG],
) -> usize {
    let mut places = *places;
    if mode == Mode::Nearest {
        each(&mut places, |place| place.round_ties_even());
        weights[0] = [1.0; PLACES];
        inside(axis, &places, &mut pixels[0], &mut weights[0]);
        return 1;
    }
    match axis.padding {
        Padding::Reflection => each(&mut places, |place| axis.mirrored(place)),
        // Beyond the border, the four elements around a place are not all the border's.
        Padding::Border if mode == Mode::Linear => each(&mut places, |place| axis.clamped(place)),
        _ => {}
    }
    let (first, count) = if mode == Mode::Linear { (0.0, 2) } else { (-1.0, 4) };
    for tap in 0..count {
        let offset = first + tap as f32;
        let mut distances = places;
        each(&mut distances, |place| (place - place.floor() - offset).abs());
        match mode {
            Mode::Linear => each(&mut distances, |distance| 1.0 - distance),
            _ => each(&mut distances, cubic),
        }
        let mut indices = places;
        each(&mut indices, |place| place.floor() + offset);
        weights[tap] = distances;
        inside(axis, &indices, &mut pixels[tap], &mut weights[tap]);
    }
    count
}

/// The elements with these indices, which may be outside: those lose their weights if there are zeros.
#[inline(always)]
fn inside(axis: &Axis, indices: &Lanes<f32>, pixels: &mut Lanes<u32>, weights: &mut Lanes<f32>) {
    let mut clamped = *indices;
    match axis.padding {
        Padding::Zeros => {
            let last = axis.last();
            for i in 0..PLACES {
                let exists = indices[i] >= 0.0 && indices[i] <= last;
                weights[i] = if exists { weights[i] } else { 0.0 };
            }
        }
        Padding::Border => {}
        Padding::Reflection => each(&mut clamped, |index| axis.mirrored(index)),
    }
    each(&mut clamped, |index| axis.clamped(index).round_ties_even());
    let last = axis.size - 1;
    for i in 0..PLACES {
        // The conversion saturates.
        pixels[i] = (clamped[i] as i32 as u32).min(last);
    }
}

#[inline(always)]
fn each(lanes: &mut Lanes<f32>, change: impl Fn(f32) -> f32) {
    for i in 0..PLACES {
        lanes[i] = change(lanes[i]);
    }
}

/// Some channels of the pixels of an image.
#[derive(Clone, Copy)]
struct Channels<'a, T> {
    image: &'a [T],
    /// Channels of a pixel.
    pixel: usize,
    first: usize,
    count: usize,
}

/// The weighted sums of channels at the first places; `stride` is the distance of their rows in `out`.
#[inline(always)]
fn interpolate<S: Simd>(simd: S, taps: &Taps, from: Channels<f32>, places: usize, out: &mut [f32], stride: usize) {
    match from.count {
        1 => return few::<S, 1>(simd, taps, from, places, out, stride),
        2 => return few::<S, 2>(simd, taps, from, places, out, stride),
        3 => return few::<S, 3>(simd, taps, from, places, out, stride),
        4 => return few::<S, 4>(simd, taps, from, places, out, stride),
        _ => {}
    }
    let group = VECTORS * S::LANES;
    for place in 0..places {
        let out = &mut out[place * stride..];
        let mut at = 0;
        while at + group <= from.count {
            sums::<S, VECTORS>(simd, taps, from, [place, at], &mut out[at..]);
            at += group;
        }
        while at + S::LANES <= from.count {
            sums::<S, 1>(simd, taps, from, [place, at], &mut out[at..]);
            at += S::LANES;
        }
        if at < from.count {
            rest(simd, taps, from, [place, at], &mut out[at..]);
        }
    }
}

/// Some vectors of the sums at a place.
#[inline(always)]
fn sums<S: Simd, const COUNT: usize>(
    simd: S,
    taps: &Taps,
    from: Channels<f32>,
    [place, at]: [usize; 2],
    out: &mut [f32],
) {
    let mut sums = [simd.splat(0.0); COUNT];
    for tap in 0..taps.count {
        let weight = taps.weights[tap][place];
        // Elements without weight do not count, whatever they are.
        if weight == 0.0 {
            continue;
        }
        let start = taps.pixels[tap][place] as usize * from.pixel + from.first + at;
        let pixel = &from.image[start..][..COUNT * S::LANES];
        for v in 0..COUNT {
            sums[v] = simd.mul_add(simd.splat(weight), simd.load(&pixel[v * S::LANES..]), sums[v]);
        }
    }
    for v in 0..COUNT {
        simd.store(sums[v], &mut out[v * S::LANES..]);
    }
}

/// The sums of the last channels, fewer than a vector has.
#[inline(always)]
fn rest<S: Simd>(simd: S, taps: &Taps, from: Channels<f32>, [place, at]: [usize; 2], out: &mut [f32]) {
    let count = from.count - at;
    let mut sum = simd.splat(0.0);
    for tap in 0..taps.count {
        let weight = taps.weights[tap][place];
        if weight == 0.0 {
            continue;
        }
        let start = taps.pixels[tap][place] as usize * from.pixel + from.first + at;
        sum = simd.mul_add(simd.splat(weight), simd.load_partial(&from.image[start..start + count]), sum);
    }
    simd.store_partial(sum, &mut out[..count]);
}

/// [`interpolate`] for `COUNT` channels, fewer than most vectors have.
#[inline(always)]
fn few<S: Simd, const COUNT: usize>(
    simd: S,
    taps: &Taps,
    from: Channels<f32>,
    places: usize,
    out: &mut [f32],
    stride: usize,
) {
    for place in 0..places {
        let mut sums = [0.0; COUNT];
        for tap in 0..taps.count {
            let weight = taps.weights[tap][place];
            let start = taps.pixels[tap][place] as usize * from.pixel + from.first;
            let pixel = &from.image[start..][..COUNT];
            for i in 0..COUNT {
                let element = if weight == 0.0 { 0.0 } else { pixel[i] };
                sums[i] = simd.mul_add_scalar(weight, element, sums[i]);
            }
        }
        out[place * stride..][..COUNT].copy_from_slice(&sums);
    }
}

/// Samples of images at coordinates.
pub struct SampleGrid<'a, T> {
    /// How to sample.
    pub op: &'a GridSample,
    /// The images, `[N, ...sizes, channels]`.
    pub images: &'a [T],
    /// Their spatial dimensions.
    pub sizes: &'a [u32],
    /// Number of channels.
    pub channels: usize,
    /// The coordinates of all places.
    pub grid: &'a [f32],
    /// Places of an image.
    pub places: usize,
    /// The first place to compute, among those of all images.
    pub first: usize,
    /// The result there.
    pub out: &'a mut [T],
}

impl<'a, T: Element> SampleGrid<'a, T> {
    /// Calls `put` with the taps of some places of an image, their number, the image, and its result there.
    #[inline(always)]
    fn each_block(self, put: impl Fn(&Taps, usize, &[T], &mut [T])) {
        let SampleGrid { op, images, sizes, channels, grid, places, mut first, mut out } = self;
        let dimensions = sizes.len();
        let image_len = sizes.iter().map(|&size| size as usize).product::<usize>() * channels;
        let mut taps = Taps::new();
        while !out.is_empty() {
            let (image, place) = (first / places, first % places);
            let count = PLACES.min(places - place).min(out.len() / channels);
            let grid = &grid[first * dimensions..][..count * dimensions];
            taps.start(&[1.0; PLACES]);
            for (at, &size) in sizes.iter().enumerate() {
                let (axis, mut along) = (op.axis(size), [0.0; PLACES]);
                let coordinates = grid[dimensions - 1 - at..].iter().step_by(dimensions);
                along.iter_mut().zip(coordinates).for_each(|(place, &coordinate)| *place = coordinate);
                each(&mut along, |coordinate| axis.place(coordinate));
                taps.add(op.mode, &axis, &along);
            }
            let own;
            (own, out) = std::mem::take(&mut out).split_at_mut(count * channels);
            put(&taps, count, &images[image * image_len..][..image_len], own);
            first += count;
        }
    }
}

/// Weighted sums of elements.
pub struct Interpolate<'a>(pub SampleGrid<'a, f32>);

impl Kernel for Interpolate<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let channels = self.0.channels;
        self.0.each_block(
            #[inline(always)]
            |taps, places, image, out| {
                let from = Channels { image, pixel: channels, first: 0, count: channels };
                interpolate(simd, taps, from, places, out, channels);
            },
        );
    }
}

/// Copies of the nearest elements.
pub struct CopyNearest<'a, T>(pub SampleGrid<'a, T>);

impl<T: Element> Kernel for CopyNearest<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let channels = self.0.channels;
        self.0.each_block(
            #[inline(always)]
            |taps, _, image, out| {
                for (at, out) in out.chunks_exact_mut(channels).enumerate() {
                    match taps.weights[0][at] {
                        0.0 => out.fill(T::default()),
                        _ => out.copy_from_slice(&image[taps.pixels[0][at] as usize * channels..][..channels]),
                    }
                }
            },
        );
    }
}

/// Rows of the channels that a deformable convolution multiplies.
pub struct SampleColumns<'a> {
    /// Where they are.
    pub op: &'a DeformColumns,
    /// The images, `[N, height, width, channels]`.
    pub images: &'a [f32],
    /// Height, width and channels.
    pub sizes: [u32; 3],
    /// Offsets of the elements, `[N, sets, elements, 2, places]`.
    pub offsets: &'a [f32],
    /// Factors of the elements, `[N, sets, elements, places]`.
    pub mask: Option<&'a [f32]>,
    /// Rows and columns of windows.
    pub windows: [usize; 2],
    /// The first row, among those of all images and groups.
    pub first: usize,
    /// The rows.
    pub out: &'a mut [f32],
}

impl Kernel for SampleColumns<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let SampleColumns { op, images, sizes, offsets, mask, windows, mut first, mut out } = self;
        let [groups, sets, elements] = [op.groups as usize, op.sets as usize, op.elements()];
        let pixel = sizes[2] as usize;
        let (own, of_set, places) = (pixel / groups, pixel / sets, windows[0] * windows[1]);
        let (row, image_len) = (elements * own, sizes.iter().map(|&size| size as usize).product::<usize>());
        let mut taps = Taps::new();
        while !out.is_empty() {
            let (image, group, place) = (first / places / groups, first / places % groups, first % places);
            let count = PLACES.min(places - place).min(out.len() / row);
            let rows;
            (rows, out) = std::mem::take(&mut out).split_at_mut(count * row);
            let channels = group * own..(group + 1) * own;
            for set in channels.start / of_set..channels.end.div_ceil(of_set) {
                let shared: Range<usize> = channels.start.max(set * of_set)..channels.end.min((set + 1) * of_set);
                for element in 0..elements {
                    let at = (image * sets + set) * elements + element;
                    let mut weights = [1.0; PLACES];
                    if let Some(mask) = mask {
                        weights[..count].copy_from_slice(&mask[at * places + place..][..count]);
                    }
                    taps.start(&weights);
                    for axis in 0..2 {
                        let mut along = [0.0; PLACES];
                        let offsets = &offsets[(2 * at + axis) * places + place..][..count];
                        let (mut window, mut across) = (place / windows[1], place % windows[1]);
                        for (along, offset) in along.iter_mut().zip(offsets) {
                            *along = op.place(axis, if axis == 0 { window } else { across }, element) + offset;
                            across += 1;
                            if across == windows[1] {
                                (window, across) = (window + 1, 0);
                            }
                        }
                        taps.add(Mode::Linear, &Axis::new(sizes[axis]), &along);
                    }
                    let from = Channels {
                        image: &images[image * image_len..][..image_len],
                        pixel,
                        first: shared.start,
                        count: shared.len(),
                    };
                    let out = &mut rows[element * own + shared.start - channels.start..];
                    interpolate(simd, &taps, from, count, out, row);
                }
            }
            first += count;
        }
    }
}

/// A region of an image in another size.
pub struct SampleRegion<'a> {
    /// How to sample.
    pub op: &'a CropAndResize,
    /// The image, `[height, width, channels]`.
    pub image: &'a [f32],
    /// Height, width and channels.
    pub sizes: [u32; 3],
    /// Top, left, bottom and right.
    pub edges: [f32; 4],
    /// The result, `[height, width, channels]`.
    pub out: &'a mut [f32],
}

impl Kernel for SampleRegion<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let SampleRegion { op, image, sizes, edges, out } = self;
        let (channels, mut taps) = (sizes[2] as usize, Taps::new());
        for (block, out) in out.chunks_mut(PLACES * channels).enumerate() {
            taps.start(&[1.0; PLACES]);
            let mut outside = [false; PLACES];
            for axis in 0..2 {
                let dimension = Axis::new(sizes[axis]);
                let (last, mut along) = (dimension.last(), [0.0; PLACES]);
                for i in 0..PLACES {
                    let number = (block * PLACES + i) as u32;
                    let at = if axis == 0 { number / op.size[1] } else { number % op.size[1] };
                    along[i] = op.place([edges[axis], edges[axis + 2]], [at, op.size[axis]], sizes[axis]);
                    outside[i] |= !(along[i] >= 0.0 && along[i] <= last);
                }
                taps.add(op.mode(), &dimension, &along);
            }
            let from = Channels { image, pixel: channels, first: 0, count: channels };
            interpolate(simd, &taps, from, out.len() / channels, out, channels);
            for (out, _) in out.chunks_exact_mut(channels).zip(outside).filter(|(_, is_outside)| *is_outside) {
                out.fill(op.outside as f32);
            }
        }
    }
}
