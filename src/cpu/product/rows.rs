//! Where the rows of a left operand are: in place, in panels of one lane, or pixels of an image that are gathered.

use super::panels::Panels;
use super::tile::Left;
use crate::cpu::kernels::float::{Float, Floats};
use crate::cpu::kernels::lanes::copy;
use crate::cpu::kernels::transpose::transpose;
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::with_floats;
use std::ops::Range;

/// A matrix in memory: the element of `lane` at `depth` is `data[lane * lane_stride + depth * depth_stride]`. The lanes of
/// a left operand are rows, those of a right one columns.
#[derive(Clone, Copy)]
pub struct Strided<'a> {
    /// The elements, starting with lane 0 at depth 0.
    pub data: Floats<'a>,
    /// Distance between lanes, in elements.
    pub lane_stride: usize,
    /// Distance between depths, in elements.
    pub depth_stride: usize,
}

/// The numbers of a matrix of image patches. A lane is an output position `(image, y, x)` in row-major order; a depth index
/// is a pair of taps and an input channel: `(channel, tap y, tap x)` when `channels_first`, else `(tap y, tap x, channel)`.
/// All strides are in elements.
///
/// The element is the input at `(image, channel, y * step_y + taps_y[tap y], x * step_x + taps_x[tap x])`, or 0 outside of
/// the image.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PatchMatrix {
    /// Input channels.
    pub channels: usize,
    /// The order of the depth index, chosen so that neighbours in memory are visited together.
    pub channels_first: bool,
    /// Input rows and columns.
    pub size: [usize; 2],
    /// Distance between images.
    pub image_stride: usize,
    /// Distance between channels.
    pub channel_stride: usize,
    /// Distance between input rows, and between input columns.
    pub strides: [usize; 2],
    /// Output rows and columns.
    pub out: [usize; 2],
    /// Input rows per output row, and columns per column.
    pub step: [usize; 2],
    /// The offsets of the filter rows and columns, padding already subtracted.
    pub taps: [Vec<isize>; 2],
}

impl PatchMatrix {
    /// Depth of the matrix.
    pub fn depth(&self) -> usize {
        self.channels * self.taps[0].len() * self.taps[1].len()
    }

    /// The `(channel, tap y, tap x)` of a depth index.
    pub fn tap(&self, depth: usize) -> (usize, usize, usize) {
        let (high, wide) = (self.taps[0].len(), self.taps[1].len());
        if self.channels_first {
            (depth / (high * wide), depth / wide % high, depth % wide)
        } else {
            (depth % self.channels, depth / self.channels / wide, depth / self.channels % wide)
        }
    }
}

/// A matrix of image patches over the elements of an image, never materialised.
#[derive(Clone, Copy)]
pub struct Patches<'a> {
    /// The elements, from channel 0 at the upper left of image 0.
    pub image: Floats<'a>,
    /// The numbers.
    pub matrix: &'a PatchMatrix,
}

/// A left operand.
#[derive(Clone, Copy)]
pub enum Rows<'a> {
    /// A matrix with any strides.
    Strided(Strided<'a>),
    /// Panels of one lane: rows whose depths are neighbours within a depth block.
    Kept(&'a Panels),
    /// Patches of images.
    Patches(Patches<'a>),
}

/// Distance between rows that are copied: one cache line more than they take, so that rows of 1 KiB are not all at the same
/// places of their pages.
fn copied_stride(depth: usize) -> usize {
    depth.next_multiple_of(16) + 16
}

/// The floats that [`Rows::block`] may copy `rows` rows of a depth block of `depth` to.
pub fn copied_len(rows: usize, depth: usize) -> usize {
    rows * copied_stride(depth)
}

impl Rows<'_> {
    /// The rows `rows` at the depths `depth`, a depth block: in place, or copied to `copied`.
    ///
    /// # Panics
    /// If `copied` is needed and shorter than [`copied_len`].
    pub fn block<'s>(&'s self, isa: Isa, rows: Range<usize>, depth: Range<usize>, copied: &'s mut [f32]) -> Left<'s> {
        match self {
            &Rows::Strided(Strided { data: Floats::F32(data), lane_stride, depth_stride: 1 }) => {
                return Left { data: &data[rows.start * lane_stride + depth.start..], stride: lane_stride, step: 1 };
            }
            Rows::Kept(panels) => {
                if let Some(data) = panels.block(rows.clone(), depth.clone()).as_f32() {
                    return Left { data, stride: depth.len(), step: 1 };
                }
            }
            _ => {}
        }
        let stride = copied_stride(depth.len());
        let copied = &mut copied[..rows.len() * stride];
        match self {
            Rows::Strided(strided) => strided.copy(isa, rows, depth, stride, copied),
            Rows::Kept(panels) => {
                let data = panels.block(rows.clone(), depth.clone());
                let kept = Strided { data, lane_stride: depth.len(), depth_stride: 1 };
                kept.copy(isa, 0..rows.len(), 0..depth.len(), stride, copied);
            }
            Rows::Patches(Patches { image, matrix }) => with_floats!(Floats, *image, image => {
                isa.run(CopyPatches { image, matrix, rows, depth, stride, out: &mut *copied });
            }),
        }
        Left { data: copied, stride, step: 1 }
    }
}

impl Strided<'_> {
    /// Writes lanes to rows that are `stride` floats apart.
    fn copy(self, isa: Isa, lanes: Range<usize>, depth: Range<usize>, stride: usize, out: &mut [f32]) {
        let Strided { data, lane_stride, depth_stride } = self;
        let data = data.after(lanes.start * lane_stride + depth.start * depth_stride);
        let (count, depth) = (lanes.len(), depth.len());
        if depth_stride == 1 {
            for (lane, out) in out.chunks_mut(stride).take(count).enumerate() {
                data.after(lane * lane_stride).widen(isa, &mut out[..depth]);
            }
            return;
        }
        if let (Floats::F32(data), 1) = (data, lane_stride) {
            return isa.run(Turn { data, depth_stride, size: [depth, count], out, stride });
        }
        for (lane, out) in out.chunks_mut(stride).take(count).enumerate() {
            out[..depth].iter_mut().enumerate().for_each(|(k, x)| *x = data.at(lane * lane_stride + k * depth_stride));
        }
    }
}

struct Turn<'a> {
    data: &'a [f32],
    depth_stride: usize,
    size: [usize; 2],
    out: &'a mut [f32],
    stride: usize,
}

impl Kernel for Turn<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        transpose(simd, self.data, self.depth_stride, self.size, self.out, self.stride);
    }
}

/// Copies patches to rows, for some of the depth.
struct CopyPatches<'a, T> {
    image: &'a [T],
    matrix: &'a PatchMatrix,
    rows: Range<usize>,
    depth: Range<usize>,
    /// Distance between rows of `out`.
    stride: usize,
    out: &'a mut [f32],
}

impl<T: Float> Kernel for CopyPatches<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let contiguous = self.matrix.channel_stride == 1 && !self.matrix.channels_first;
        if contiguous { self.channels(simd) } else { self.elements() }
    }
}

impl<T: Float> CopyPatches<'_, T> {
    /// The channels of a pixel are neighbours, and often whole rows of a patch.
    #[inline(always)]
    fn channels<S: Simd>(self, simd: S) {
        let CopyPatches { image: elements, matrix: m, rows, depth, stride, out } = self;
        let [high, wide] = m.out;
        let row_len = m.taps[1].len() * m.channels;
        // All taps of a filter row are one stretch of the image where they lie in it.
        let adjoining = m.strides[1] == m.channels && m.taps[1].windows(2).all(|taps| taps[1] == taps[0] + 1);
        let (from, to) = (m.taps[1][0], m.taps[1][m.taps[1].len() - 1]);
        let start = (depth.start / row_len, depth.start % row_len);
        let pixel = rows.start % (high * wide);
        let (mut image, mut y, mut x) = (rows.start / (high * wide) * m.image_stride, pixel / wide, pixel % wide);
        for out in out.chunks_exact_mut(stride).take(rows.len()) {
            let left = (x * m.step[1]) as isize;
            let whole = adjoining && left + from >= 0 && left + to < m.size[1] as isize;
            let (mut ty, mut within) = start;
            let mut out = &mut out[..depth.len()];
            while !out.is_empty() {
                let in_y = (y * m.step[0]) as isize + m.taps[0][ty];
                let base = image + (in_y.max(0) as usize) * m.strides[0];
                let mut len = (row_len - within).min(out.len());
                let mut at = (in_y >= 0 && in_y < m.size[0] as isize).then_some(base);
                if let Some(base) = at {
                    if whole {
                        at = Some(base + (left + from) as usize * m.strides[1] + within);
                    } else {
                        let (tap, channel) = (within / m.channels, within % m.channels);
                        len = (m.channels - channel).min(out.len());
                        let in_x = left + m.taps[1][tap];
                        let inside = in_x >= 0 && in_x < m.size[1] as isize;
                        at = inside.then(|| base + in_x as usize * m.strides[1] + channel);
                    }
                }
                let (now, rest) = out.split_at_mut(len);
                match at {
                    Some(at) => copy(simd, &elements[at..at + len], now),
                    None => now.fill(0.0),
                }
                out = rest;
                within += len;
                if within == row_len {
                    (ty, within) = (ty + 1, 0);
                }
            }
            x += 1;
            if x == wide {
                (x, y) = (0, y + 1);
                if y == high {
                    (y, image) = (0, image + m.image_stride);
                }
            }
        }
    }

    /// Any strides, element by element.
    #[inline(always)]
    fn elements(self) {
        let CopyPatches { image, matrix: m, rows, depth, stride, out } = self;
        let [high, wide] = m.out;
        for (row, out) in rows.zip(out.chunks_exact_mut(stride)) {
            let (base, y, x) = (row / wide / high * m.image_stride, row / wide % high, row % wide);
            for (k, out) in depth.clone().zip(out) {
                let (channel, ty, tx) = m.tap(k);
                let y = (y * m.step[0]) as isize + m.taps[0][ty];
                let x = (x * m.step[1]) as isize + m.taps[1][tx];
                let inside = (0..m.size[0] as isize).contains(&y) && (0..m.size[1] as isize).contains(&x);
                let place =
                    || base + channel * m.channel_stride + y as usize * m.strides[0] + x as usize * m.strides[1];
                *out = if inside { image[place()].to_f32() } else { 0.0 };
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Matrices of all kinds over an image of 210 elements, and what is in them.
    pub fn matrices() -> Vec<PatchMatrix> {
        let base = PatchMatrix {
            channels: 3,
            channels_first: true,
            size: [5, 7],
            image_stride: 105,
            channel_stride: 35,
            strides: [7, 1],
            out: [5, 7],
            step: [1, 1],
            taps: [vec![-1, 0, 1], vec![-1, 0, 1]],
        };
        let last = PatchMatrix { channels_first: false, channel_stride: 1, strides: [21, 3], ..base.clone() };
        let strided = PatchMatrix { out: [3, 3], step: [2, 3], taps: [vec![-2, 1], vec![-2, 0, 2, 9]], ..base.clone() };
        let strided_last =
            PatchMatrix { channels_first: false, channel_stride: 1, strides: [21, 3], ..strided.clone() };
        let wide_last =
            PatchMatrix { size: [5, 7], out: [3, 5], taps: [vec![-1, 0, 1], vec![0, 1, 2]], ..last.clone() };
        let far = PatchMatrix { out: [2, 20], taps: [vec![-9, 4], vec![-12, 0]], ..base.clone() };
        let odd_order = PatchMatrix { channels_first: false, ..base.clone() };
        vec![base, last, strided, strided_last, wide_last, far, odd_order]
    }

    /// The element of `matrix` in `image`, by the definition.
    pub fn element(matrix: &PatchMatrix, image: &[f32], lane: usize, k: usize) -> f32 {
        let (c, ty, tx) = matrix.tap(k);
        let (n, oy, ox) =
            (lane / matrix.out[1] / matrix.out[0], lane / matrix.out[1] % matrix.out[0], lane % matrix.out[1]);
        let y = (oy * matrix.step[0]) as isize + matrix.taps[0][ty];
        let x = (ox * matrix.step[1]) as isize + matrix.taps[1][tx];
        let inside = (0..matrix.size[0] as isize).contains(&y) && (0..matrix.size[1] as isize).contains(&x);
        if !inside {
            return 0.0;
        }
        let place = y as usize * matrix.strides[0] + x as usize * matrix.strides[1];
        image[n * matrix.image_stride + c * matrix.channel_stride + place]
    }

    #[test]
    fn rows_hold_the_patches() {
        let image: Vec<f32> = (0..210).map(|i| i as f32 + 1.0).collect();
        for matrix in matrices() {
            let (lanes, depth) = (2 * matrix.out[0] * matrix.out[1], matrix.depth());
            for isa in Isa::available() {
                for (rows, depths) in [(0..lanes, 0..depth), (3..lanes, 1..depth - 1), (1..4, 4..5)] {
                    let source = Rows::Patches(Patches { image: Floats::F32(&image), matrix: &matrix });
                    let mut copy = vec![f32::NAN; copied_len(rows.len(), depths.len())];
                    let left = source.block(isa, rows.clone(), depths.clone(), &mut copy);
                    for (row, k) in rows.clone().flat_map(|row| depths.clone().map(move |k| (row, k))) {
                        let x = left.data[(row - rows.start) * left.stride + (k - depths.start) * left.step];
                        assert_eq!(x, element(&matrix, &image, row, k), "{matrix:?}, row {row}, depth {k}");
                    }
                }
            }
        }
    }

    #[test]
    fn rows_hold_any_matrix() {
        let [lanes, depth] = [9, 20];
        let data: Vec<f32> = (0..2 * lanes * depth).map(|i| i as f32).collect();
        let halves: Vec<half::f16> = data.iter().map(|&x| half::f16::from_f32(x)).collect();
        for isa in Isa::available() {
            for (lane_stride, depth_stride) in [(1, lanes + 2), (depth + 1, 1), (2, 2 * lanes)] {
                for data in [Floats::F32(&data), Floats::F16(&halves)] {
                    let rows = Rows::Strided(Strided { data, lane_stride, depth_stride });
                    let mut copy = vec![f32::NAN; copied_len(lanes - 1, depth - 2)];
                    let left = rows.block(isa, 1..lanes, 2..depth, &mut copy);
                    for (row, k) in (1..lanes).flat_map(|row| (2..depth).map(move |k| (row, k))) {
                        let wanted = (row * lane_stride + k * depth_stride) as f32;
                        assert_eq!(left.data[(row - 1) * left.stride + (k - 2) * left.step], wanted, "{row}, {k}");
                    }
                }
            }
        }
    }
}
