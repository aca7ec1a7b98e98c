//! The rows of a left operand: in place, in panels of one lane, or gathered from the pixels of an image.

use super::matrix::{Matrix, PatchMatrix, Patches, StridedMatrix};
use super::panels::Panels;
use super::tile::Left;
use crate::cpu::kernels::float::Floats;
use crate::cpu::kernels::lanes::copy;
use crate::cpu::kernels::transpose::transpose;
use crate::cpu::simd::{Isa, Kernel, Simd};
use std::ops::Range;

/// A left operand.
#[derive(Clone, Copy)]
pub enum Rows<'a> {
    /// Copied for each tile, unless its depths are contiguous.
    Matrix(Matrix<'a>),
    /// Panels of one lane: rows that are contiguous within a depth block.
    Panels(&'a Panels),
}

/// Distance between copied rows in floats: their length plus a cache line, to keep rows of 1 KiB from sharing page
/// offsets.
fn copied_stride(depth: usize) -> usize {
    depth.next_multiple_of(16) + 16
}

/// Length in floats of the copy that [`Rows::block`] may make of `rows` rows and a depth block of `depth`.
pub fn copied_len(rows: usize, depth: usize) -> usize {
    rows * copied_stride(depth)
}

impl Rows<'_> {
    /// The rows `rows` over the depth block `depth`: in place, or copied to `copied`.
    ///
    /// # Panics
    /// If `copied` is needed and shorter than [`copied_len`].
    pub fn block<'s>(&'s self, isa: Isa, rows: Range<usize>, depth: Range<usize>, copied: &'s mut [f32]) -> Left<'s> {
        match self {
            &Rows::Matrix(Matrix::Strided(StridedMatrix { data: Floats::F32(data), lane_stride, depth_stride: 1 })) => {
                return Left { data: &data[rows.start * lane_stride + depth.start..], stride: lane_stride, step: 1 };
            }
            Rows::Panels(panels) => {
                if let Some(data) = panels.block(rows.clone(), depth.clone()).as_f32() {
                    return Left { data, stride: depth.len(), step: 1 };
                }
            }
            _ => {}
        }
        let stride = copied_stride(depth.len());
        let copied = &mut copied[..rows.len() * stride];
        match self {
            Rows::Matrix(Matrix::Strided(strided)) => strided.copy(isa, rows, depth, stride, copied),
            Rows::Panels(panels) => {
                let data = panels.block(rows.clone(), depth.clone());
                for (row, out) in copied.chunks_exact_mut(stride).enumerate() {
                    data.widen(isa, row * depth.len(), &mut out[..depth.len()]);
                }
            }
            Rows::Matrix(Matrix::Patches(Patches { image, matrix })) if has_pixels(matrix) => {
                isa.run(CopyPixels { image, matrix, zero: 0.0, rows, depth, stride, out: &mut *copied });
            }
            // A row is a panel of one lane.
            Rows::Matrix(source) => {
                for (row, out) in rows.zip(copied.chunks_exact_mut(stride)) {
                    source.pack(isa, row..row + 1, depth.clone(), 1, &mut out[..depth.len()]);
                }
            }
        }
        Left { data: copied, stride, step: 1 }
    }
}

impl StridedMatrix<'_> {
    /// Writes lanes to rows that are `stride` floats apart.
    fn copy(self, isa: Isa, lanes: Range<usize>, depth: Range<usize>, stride: usize, out: &mut [f32]) {
        let StridedMatrix { data, lane_stride, depth_stride } = self;
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

/// Whether the channels of a tap are contiguous, in the image and in a patch.
fn has_pixels(matrix: &PatchMatrix) -> bool {
    matrix.channel_stride == 1 && !matrix.channels_first
}

/// Elements of images.
pub trait Pixel: Copy {
    /// Elements of rows.
    type InRow: Copy;
    /// Writes `to[i] = from[i]` for `len` elements, often a few. May also write elements behind them, for others to
    /// overwrite.
    fn copy<S: Simd>(simd: S, from: &[Self], to: &mut [Self::InRow], len: usize);
}

impl Pixel for f32 {
    type InRow = f32;
    #[inline(always)]
    fn copy<S: Simd>(simd: S, from: &[f32], to: &mut [f32], len: usize) {
        copy(simd, &from[..len], &mut to[..len]);
    }
}

impl Pixel for u8 {
    type InRow = u8;
    #[inline(always)]
    fn copy<S: Simd>(_: S, from: &[u8], to: &mut [u8], len: usize) {
        // Copies of a constant length are single instructions.
        if len <= 16
            && let (Some(from), Some(to)) = (from.first_chunk::<16>(), to.first_chunk_mut::<16>())
        {
            *to = *from;
            return;
        }
        let (from, to) = (&from[..len], &mut to[..len]);
        // Two of them may overlap.
        macro_rules! two {
            ($half:literal) => {{
                to[..$half].copy_from_slice(&from[..$half]);
                to[len - $half..].copy_from_slice(&from[len - $half..]);
            }};
        }
        match len {
            0..4 => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
            4..8 => two!(4),
            8..16 => two!(8),
            16..=32 => two!(16),
            _ => to.copy_from_slice(from),
        }
    }
}

/// Copies patches of pixels with contiguous channels to rows, over a part of the depth: often whole filter rows at once.
pub struct CopyPixels<'a, T: Pixel> {
    /// The elements, starting with the first channel at the upper left of image 0.
    pub image: &'a [T],
    /// The patches; channels are contiguous, and last in the order of the depth.
    pub matrix: &'a PatchMatrix,
    /// What is outside the image.
    pub zero: T::InRow,
    /// The patches to copy.
    pub rows: Range<usize>,
    /// The elements of each to copy.
    pub depth: Range<usize>,
    /// Distance between rows of `out`.
    pub stride: usize,
    /// Where they go. What is behind rows afterwards is undefined.
    pub out: &'a mut [T::InRow],
}

impl<T: Pixel> Kernel for CopyPixels<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let CopyPixels { image: elements, matrix: m, zero, rows, depth, stride, out } = self;
        let [high, wide] = m.out;
        let row_len = m.taps[1].len() * m.channels;
        // All taps of a filter row inside the image are contiguous.
        let adjoining = m.strides[1] == m.channels && m.taps[1].windows(2).all(|taps| taps[1] == taps[0] + 1);
        let (from, to) = (m.taps[1][0], m.taps[1][m.taps[1].len() - 1]);
        let (above, below) = (m.taps[0][0], m.taps[0][m.taps[0].len() - 1]);
        let all = depth == (0..m.depth());
        let start = (depth.start / row_len, depth.start % row_len);
        let pixel = rows.start % (high * wide);
        let (mut image, mut y, mut x) = (rows.start / (high * wide) * m.image_stride, pixel / wide, pixel % wide);
        for row in 0..rows.len() {
            // Later rows overwrite what a copy writes behind its own.
            let out = &mut out[row * stride..];
            let left = (x * m.step[1]) as isize;
            let whole = adjoining && left + from >= 0 && left + to < m.size[1] as isize;
            // Where the elements of adjoining taps are first inside the image, and where they no longer are.
            let pieces = [0, m.size[1] as isize]
                .map(|x| (x - left - from).clamp(0, m.taps[1].len() as isize) as usize * m.channels);
            let (mut ty, mut within) = start;
            let top = (y * m.step[0]) as isize;
            let mut rest = depth.len();
            if all && whole && top + above >= 0 && top + below < m.size[0] as isize {
                // Nearly all patches of a network's first convolution take this path, with filter rows of a few
                // elements.
                let base = image + (left + from) as usize * m.strides[1];
                for (index, tap) in m.taps[0].iter().enumerate() {
                    let from = &elements[base + (top + tap) as usize * m.strides[0]..];
                    T::copy(simd, from, &mut out[index * row_len..], row_len);
                }
                rest = 0;
            }
            while rest > 0 {
                let out = &mut out[depth.len() - rest..];
                let in_y = top + m.taps[0][ty];
                let base = image + (in_y.max(0) as usize) * m.strides[0];
                let mut len = (row_len - within).min(rest);
                let mut at = (in_y >= 0 && in_y < m.size[0] as isize).then_some(base);
                if let Some(base) = at {
                    let (tap, channel) = (within / m.channels, within % m.channels);
                    let in_x = left + m.taps[1][tap];
                    let inside = in_x >= 0 && in_x < m.size[1] as isize;
                    let end = match adjoining {
                        true if within < pieces[0] => pieces[0],
                        true if within < pieces[1] => pieces[1],
                        true => row_len,
                        false => within + m.channels - channel,
                    };
                    len = (end - within).min(rest);
                    at = inside.then(|| base + in_x as usize * m.strides[1] + channel);
                }
                match at {
                    Some(at) => T::copy(simd, &elements[at..], out, len),
                    None => out[..len].fill(zero),
                }
                rest -= len;
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
}

#[cfg(test)]
mod tests {
    use super::super::matrix::tests::{element, matrices};
    use super::*;

    #[test]
    fn rows_hold_the_patches() {
        let image: Vec<f32> = (0..210).map(|i| i as f32 + 1.0).collect();
        for matrix in matrices() {
            let (lanes, depth) = (2 * matrix.out[0] * matrix.out[1], matrix.depth());
            for isa in Isa::available() {
                for (rows, depths) in [(0..lanes, 0..depth), (3..lanes, 1..depth - 1), (1..4, 4..5)] {
                    let source = Rows::Matrix(Matrix::Patches(Patches { image: &image, matrix: &matrix }));
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
    fn rows_of_bytes_hold_the_patches() {
        let bytes: Vec<u8> = (1..=210).collect();
        let image: Vec<f32> = bytes.iter().map(|&byte| byte as f32).collect();
        let mut checked = 0;
        // Some with runs of every length up to more than two vectors.
        let long = (1..40).map(|channels| PatchMatrix {
            channels,
            channels_first: false,
            size: [2, 2],
            image_stride: 4 * channels,
            channel_stride: 1,
            strides: [2 * channels, channels],
            out: [2, 2],
            step: [1, 1],
            taps: [vec![0], vec![-1, 0]],
        });
        for matrix in matrices().into_iter().chain(long).filter(has_pixels) {
            let (lanes, depth) = (matrix.out[0] * matrix.out[1], matrix.depth());
            for isa in Isa::available() {
                for (rows, stride) in [(0..lanes, depth), (1..lanes - 1, depth + 3)] {
                    let mut out = vec![250; (rows.len() - 1) * stride + depth];
                    let (matrix, out_rows, whole) = (&matrix, rows.clone(), 0..depth);
                    let zero = 249;
                    isa.run(CopyPixels { image: &bytes, matrix, zero, rows, depth: whole, stride, out: &mut out });
                    for (row, k) in out_rows.clone().flat_map(|row| (0..depth).map(move |k| (row, k))) {
                        let x = out[(row - out_rows.start) * stride + k];
                        let wanted = element(matrix, &image, row, k) as u8;
                        assert_eq!(x, if wanted == 0 { zero } else { wanted }, "{matrix:?}, row {row}, depth {k}");
                        checked += 1;
                    }
                }
            }
        }
        assert!(checked > 1000);
    }

    #[test]
    fn rows_hold_any_matrix() {
        let [lanes, depth] = [9, 20];
        let data: Vec<f32> = (0..2 * lanes * depth).map(|i| i as f32).collect();
        let halves: Vec<half::f16> = data.iter().map(|&x| half::f16::from_f32(x)).collect();
        for isa in Isa::available() {
            for (lane_stride, depth_stride) in [(1, lanes + 2), (depth + 1, 1), (2, 2 * lanes)] {
                for data in [Floats::F32(&data), Floats::F16(&halves)] {
                    let rows = Rows::Matrix(Matrix::Strided(StridedMatrix { data, lane_stride, depth_stride }));
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
