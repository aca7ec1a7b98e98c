//! The elements of an operand: a matrix with any strides, or image patches that are never materialized. Both are packed
//! to panels of lanes.

use crate::cpu::kernels::float::{Float, Floats};
use crate::cpu::kernels::lanes::gather;
use crate::cpu::kernels::transpose::{interleave, transpose};
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::with_floats;
use std::ops::Range;

/// Maximum number of lanes in a panel.
const MAX_WIDTH: usize = 32;

/// A matrix in memory: the element of `lane` at `depth` is `data[lane * lane_stride + depth * depth_stride]`. The lanes
/// of a left operand, which is float32, are its rows, those of a right operand its columns.
#[derive(Clone, Copy)]
pub struct StridedMatrix<'a> {
    /// The elements, starting with lane 0 at depth 0.
    pub data: Floats<'a>,
    /// Distance between lanes, in elements.
    pub lane_stride: usize,
    /// Distance between depths, in elements.
    pub depth_stride: usize,
}

/// A matrix in memory: the element at `[r, c]` is `data[r * row + c * col]`.
#[derive(Clone, Copy)]
pub struct TypedMatrix<'a, T> {
    /// The elements, starting with the first one.
    pub data: &'a [T],
    /// Distance between rows, in elements.
    pub row: usize,
    /// Distance between columns, in elements.
    pub col: usize,
}

impl<'a, T: Copy> TypedMatrix<'a, T> {
    /// The matrix without its first `row` rows.
    pub fn after(self, row: usize) -> TypedMatrix<'a, T> {
        TypedMatrix { data: &self.data[row * self.row..], ..self }
    }

    /// The element at `[row, col]`.
    #[inline(always)]
    pub fn at(self, row: usize, col: usize) -> T {
        self.data[row * self.row + col * self.col]
    }

    /// Panics unless all elements of `rows` by `cols` are present.
    #[inline(always)]
    pub fn check(self, rows: usize, cols: usize) {
        assert!((rows - 1) * self.row + (cols - 1) * self.col < self.data.len());
    }
}

/// Copies a matrix to memory without gaps.
#[inline(always)]
pub fn copied<'s, S: Simd, T: Float>(
    simd: S,
    matrix: TypedMatrix<T>,
    [rows, cols]: [usize; 2],
    wide: &'s mut [f32],
) -> TypedMatrix<'s, f32> {
    for (r, to) in wide.chunks_exact_mut(cols).take(rows).enumerate() {
        match matrix.col {
            1 => T::widen(simd, &matrix.data[r * matrix.row..][..cols], to),
            _ => to.iter_mut().enumerate().for_each(|(c, x)| *x = matrix.at(r, c).to_f32()),
        }
    }
    TypedMatrix { data: wide, row: cols, col: 1 }
}

/// Describes a matrix of image patches. A lane is an output position `(image, y, x)` in row-major order; a depth index
/// is a filter tap and an input channel: `(channel, tap y, tap x)` if `channels_first`, else `(tap y, tap x, channel)`.
/// All strides are in elements.
///
/// The element is the input at `(image, channel, y * step_y + taps_y[tap y], x * step_x + taps_x[tap x])`, or 0 outside
/// the image.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PatchMatrix {
    /// Input channels.
    pub channels: usize,
    /// The order of the depth index, chosen to visit elements in memory order.
    pub channels_first: bool,
    /// Input rows and columns.
    pub size: [usize; 2],
    /// Distance between images.
    pub image_stride: usize,
    /// Distance between channels.
    pub channel_stride: usize,
    /// Distance between input rows and between input columns.
    pub strides: [usize; 2],
    /// Output rows and columns.
    pub out: [usize; 2],
    /// Input rows per output row, and input columns per output column.
    pub step: [usize; 2],
    /// The offsets of the filter rows and columns, minus the padding.
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

/// A matrix of image patches over the elements of an image. It is never materialized.
#[derive(Clone, Copy)]
pub struct Patches<'a> {
    /// The elements, starting with channel 0 at the upper left of image 0.
    pub image: &'a [f32],
    /// The parameters.
    pub matrix: &'a PatchMatrix,
}

/// The elements of an operand.
#[derive(Clone, Copy)]
pub enum Matrix<'a> {
    /// A matrix with any strides.
    Strided(StridedMatrix<'a>),
    /// Patches of images.
    Patches(Patches<'a>),
}

impl Matrix<'_> {
    /// Writes the panel of `width` lanes that covers `lanes` at the depths `depth` to the whole of `panel`:
    /// `[depth][width]`, with zeros beyond the last lane.
    pub fn pack(self, isa: Isa, lanes: Range<usize>, depth: Range<usize>, width: usize, panel: &mut [f32]) {
        if lanes.len() < width {
            panel.fill(0.0);
        }
        match self {
            Matrix::Strided(StridedMatrix { data, lane_stride, depth_stride }) => with_floats!(data, data => {
                isa.run(PackStrided { data, strides: [lane_stride, depth_stride], lanes, depth, width, panel });
            }),
            Matrix::Patches(source) => isa.run(PackPatches { source, lanes, depth, width, panel }),
        }
    }
}

struct PackStrided<'a, T> {
    data: &'a [T],
    /// Distances between lanes and between depths.
    strides: [usize; 2],
    lanes: Range<usize>,
    depth: Range<usize>,
    width: usize,
    panel: &'a mut [f32],
}

impl<T: Float> Kernel for PackStrided<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let PackStrided { data, strides: [lane_stride, depth_stride], lanes, depth, width, panel } = self;
        let base = lanes.start * lane_stride + depth.start * depth_stride;
        if lane_stride == 1 {
            for (k, row) in panel.chunks_exact_mut(width).enumerate() {
                T::widen(simd, &data[base + k * depth_stride..][..lanes.len()], &mut row[..lanes.len()]);
            }
        } else if depth_stride == 1 {
            transpose(simd, &data[base..], lane_stride, [lanes.len(), depth.len()], panel, width);
        } else {
            for (k, row) in panel.chunks_exact_mut(width).enumerate() {
                for (lane, to) in row[..lanes.len()].iter_mut().enumerate() {
                    *to = data[base + lane * lane_stride + k * depth_stride].to_f32();
                }
            }
        }
    }
}

struct PackPatches<'a> {
    source: Patches<'a>,
    lanes: Range<usize>,
    depth: Range<usize>,
    width: usize,
    panel: &'a mut [f32],
}

impl Kernel for PackPatches<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.source.pack(simd, self.lanes, self.depth, self.width, self.panel);
    }
}

/// Lanes of one panel that lie in the same output row.
#[derive(Clone, Copy, Default)]
struct Run {
    lane: usize,
    len: usize,
    base: usize,
    y: isize,
    x: isize,
}

impl Patches<'_> {
    #[inline(always)]
    fn pack<S: Simd>(&self, simd: S, lanes: Range<usize>, depth: Range<usize>, width: usize, panel: &mut [f32]) {
        let mut runs = [Run::default(); MAX_WIDTH];
        let count = self.runs(&lanes, &mut runs);
        if self.matrix.channels_first {
            self.pack_rows(simd, &runs[..count], depth, width, panel);
        } else {
            self.pack_channels(simd, &runs[..count], lanes.len(), depth, width, panel);
        }
    }

    /// Splits the lanes at the ends of output rows.
    #[inline(always)]
    fn runs(&self, lanes: &Range<usize>, runs: &mut [Run; MAX_WIDTH]) -> usize {
        let m = self.matrix;
        let [high, wide] = m.out;
        let (mut lane, mut count) = (lanes.start, 0);
        while lane < lanes.end {
            let (row, x) = (lane / wide, lane % wide);
            let len = (wide - x).min(lanes.end - lane);
            runs[count] = Run {
                lane: lane - lanes.start,
                len,
                base: row / high * m.image_stride,
                y: (row % high * m.step[0]) as isize,
                x: (x * m.step[1]) as isize,
            };
            count += 1;
            lane += len;
        }
        count
    }

    /// Depth order `(channel, tap y, tap x)`: each depth index reads along input rows.
    #[inline(always)]
    fn pack_rows<S: Simd>(&self, simd: S, runs: &[Run], depth: Range<usize>, width: usize, panel: &mut [f32]) {
        let m = self.matrix;
        let (mut channel, mut ty, mut tx) = m.tap(depth.start);
        for to in panel.chunks_exact_mut(width) {
            let base = channel * m.channel_stride;
            for run in runs {
                let to = &mut to[run.lane..][..run.len];
                let y = run.y + m.taps[0][ty];
                if y < 0 || y >= m.size[0] as isize {
                    to.fill(0.0);
                    continue;
                }
                let row = &self.image[run.base + base + y as usize * m.strides[0]..];
                self.pack_row(simd, row, run.x + m.taps[1][tx], to);
            }
            tx += 1;
            if tx == m.taps[1].len() {
                (tx, ty) = (0, ty + 1);
                if ty == m.taps[0].len() {
                    (ty, channel) = (0, channel + 1);
                }
            }
        }
    }

    /// Writes the elements of an input row at columns `x + i * step` to `to[i]`.
    #[inline(always)]
    fn pack_row<S: Simd>(&self, simd: S, row: &[f32], x: isize, to: &mut [f32]) {
        let (wide, step, stride) = (self.matrix.size[1] as isize, self.matrix.step[1] as isize, self.matrix.strides[1]);
        let (len, hop) = (to.len(), step as usize * stride);
        let last = x + (len as isize - 1) * step;
        if x >= 0 && last < wide {
            return gather(simd, &row[x as usize * stride..], hop, to);
        }
        // The lanes from `low` to `high` are inside the image.
        let low = ((-x).max(0) as usize).div_ceil(step as usize).min(len);
        let high = ((wide - x).max(0) as usize).div_ceil(step as usize).clamp(low, len);
        to[..low].fill(0.0);
        to[high..].fill(0.0);
        if low < high {
            gather(simd, &row[(x + low as isize * step) as usize * stride..], hop, &mut to[low..high]);
        }
    }

    /// Whether all taps of a filter row read contiguous elements inside the image, at every lane.
    #[inline(always)]
    fn rows_are_contiguous(&self, runs: &[Run]) -> bool {
        let m = self.matrix;
        let (Some(&first), Some(&last)) = (m.taps[1].first(), m.taps[1].last()) else { return false };
        m.channel_stride == 1
            && m.strides[1] == m.channels
            && m.taps[1].windows(2).all(|taps| taps[1] == taps[0] + 1)
            && runs.iter().all(|run| {
                let end = run.x + ((run.len - 1) * m.step[1]) as isize + last;
                run.x + first >= 0 && end < m.size[1] as isize
            })
    }

    /// Depth order `(tap y, tap x, channel)`: each lane reads along the channels of one input position.
    #[inline(always)]
    fn pack_channels<S: Simd>(
        &self,
        simd: S,
        runs: &[Run],
        lanes: usize,
        depth: Range<usize>,
        width: usize,
        panel: &mut [f32],
    ) {
        let m = self.matrix;
        let mut positions = [None; MAX_WIDTH];
        let whole_rows = self.rows_are_contiguous(runs);
        let mut at = depth.start;
        let mut panel = panel;
        while at < depth.end {
            let (channel, ty, tx) = m.tap(at);
            let taps = if whole_rows { m.taps[1].len() - tx } else { 1 };
            let len = (taps * m.channels - channel).min(depth.end - at);
            for run in runs {
                let y = run.y + m.taps[0][ty];
                let inside = y >= 0 && y < m.size[0] as isize;
                for i in 0..run.len {
                    let x = run.x + m.taps[1][tx] + (i * m.step[1]) as isize;
                    let inside = inside && x >= 0 && x < m.size[1] as isize;
                    positions[run.lane + i] =
                        inside.then(|| run.base + y as usize * m.strides[0] + x as usize * m.strides[1]);
                }
            }
            let (block, rest) = panel.split_at_mut(len * width);
            if m.channel_stride == 1 {
                let mut rows = [None; MAX_WIDTH];
                for (row, position) in rows[..lanes].iter_mut().zip(positions) {
                    *row = position.map(|p| &self.image[p + channel..][..len]);
                }
                interleave(simd, &rows[..lanes], block, width);
            } else {
                for (k, to) in block.chunks_exact_mut(width).enumerate() {
                    for (to, position) in to.iter_mut().zip(&positions[..lanes]) {
                        *to = position.map_or(0.0, |p| self.image[p + (channel + k) * m.channel_stride]);
                    }
                }
            }
            panel = rest;
            at += len;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Matrices of all kinds over an image of 210 elements.
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
        let around_last = PatchMatrix { taps: [vec![-1, 0, 1], (-7..8).collect()], ..last.clone() };
        let far = PatchMatrix { out: [2, 20], taps: [vec![-9, 4], vec![-12, 0]], ..base.clone() };
        let odd_order = PatchMatrix { channels_first: false, ..base.clone() };
        vec![base, last, strided, strided_last, wide_last, around_last, far, odd_order]
    }

    /// The element of `matrix` in `image`, by definition.
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
    fn panels_hold_the_patches() {
        let image: Vec<f32> = (0..210).map(|i| i as f32 + 1.0).collect();
        for matrix in matrices() {
            let (lanes, depth) = (2 * matrix.out[0] * matrix.out[1], matrix.depth());
            for isa in Isa::available() {
                for (width, depths) in [(1, 0..depth), (12, 0..depth), (32, 1..depth - 1), (8, 4..5)] {
                    let source = Matrix::Patches(Patches { image: &image, matrix: &matrix });
                    for start in (0..lanes).step_by(width) {
                        let mut out = vec![f32::NAN; width * depths.len()];
                        source.pack(isa, start..(start + width).min(lanes), depths.clone(), width, &mut out);
                        for (i, &x) in out.iter().enumerate() {
                            let (lane, k) = (start + i % width, depths.start + i / width);
                            let wanted = if lane < lanes { element(&matrix, &image, lane, k) } else { 0.0 };
                            assert_eq!(x, wanted, "{matrix:?}, lane {lane}, depth {k}, width {width}");
                        }
                    }
                }
            }
        }
    }
}
