//! Right operands of products: packed beforehand, or packed panel by panel while the product is computed.

use super::panels::Panels;
use super::rows::{PatchMatrix, Patches, Strided};
use super::tile::Panel;
use crate::cpu::kernels::float::{Float, Floats};
use crate::cpu::kernels::lanes::{copy, gather, transpose};
use crate::cpu::simd::{Isa, Kernel, Simd};
use crate::with_floats;
use std::ops::Range;

/// The most lanes in a panel.
const MAX_WIDTH: usize = 32;

/// Panels that so few register tiles read are not worth packing when their rows are neighbours in memory.
const UNPACKED_TILES: usize = 2;

/// A right operand.
#[derive(Clone, Copy)]
pub enum Columns<'a> {
    /// Packed beforehand.
    Panels(&'a Panels),
    /// A matrix with any strides.
    Strided(Strided<'a>),
    /// Patches of images.
    Patches(Patches<'a>),
}

impl Columns<'_> {
    /// The panel of the columns `cols`, at most `width` of them, at the depths `depth`, a depth block; `tiles` register tiles
    /// read it. `room` has `width` floats for each depth.
    ///
    /// # Panics
    /// If `room` is shorter, or `cols` does not start at a panel of an operand that was packed beforehand.
    pub fn panel<'s>(
        &'s self,
        isa: Isa,
        cols: Range<usize>,
        depth: Range<usize>,
        [width, tiles]: [usize; 2],
        room: &'s mut [f32],
    ) -> Panel<'s> {
        match self {
            Columns::Panels(panels) => {
                let next = width * depth.len();
                return Panel { data: panels.extract(isa, cols.start, depth, room), step: width, next };
            }
            &Columns::Strided(Strided { data: Floats::F32(data), lane_stride: 1, depth_stride })
                if cols.len() == width && tiles <= UNPACKED_TILES =>
            {
                return Panel {
                    data: &data[cols.start + depth.start * depth_stride..],
                    step: depth_stride,
                    next: width,
                };
            }
            _ => {}
        }
        let room = &mut room[..width * depth.len()];
        self.pack(isa, cols, depth, width, room);
        Panel { data: room, step: width, next: 0 }
    }

    /// Writes the panel of `width` lanes that covers `lanes` at the depths `depth` to the whole of `panel`.
    pub fn pack(&self, isa: Isa, lanes: Range<usize>, depth: Range<usize>, width: usize, panel: &mut [f32]) {
        if lanes.len() < width {
            panel.fill(0.0);
        }
        match *self {
            Columns::Strided(Strided { data, lane_stride, depth_stride }) => with_floats!(Floats, data, data => {
                isa.run(PackStrided { data, strides: [lane_stride, depth_stride], lanes, depth, width, panel });
            }),
            Columns::Patches(Patches { image, matrix }) => with_floats!(Floats, image, image => {
                isa.run(PackPatches { source: Gathered { image, matrix }, lanes, depth, width, panel });
            }),
            Columns::Panels(_) => unreachable!("packed already"),
        }
    }
}

struct PackStrided<'a, T> {
    data: &'a [T],
    /// Between lanes and between depths.
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
                copy(simd, &data[base + k * depth_stride..], &mut row[..lanes.len()]);
            }
        } else if depth_stride == 1 {
            transpose(lanes.len(), width, panel, |lane| Some(&data[base + lane * lane_stride..][..depth.len()]));
        } else {
            for (k, row) in panel.chunks_exact_mut(width).enumerate() {
                for (lane, to) in row[..lanes.len()].iter_mut().enumerate() {
                    *to = data[base + lane * lane_stride + k * depth_stride].to_f32();
                }
            }
        }
    }
}

struct PackPatches<'a, T> {
    source: Gathered<'a, T>,
    lanes: Range<usize>,
    depth: Range<usize>,
    width: usize,
    panel: &'a mut [f32],
}

impl<T: Float> Kernel for PackPatches<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.source.pack(simd, self.lanes, self.depth, self.width, self.panel);
    }
}

/// Patches with the type of their elements.
struct Gathered<'a, T> {
    image: &'a [T],
    matrix: &'a PatchMatrix,
}

/// Lanes of one panel that are neighbours in one output row.
#[derive(Clone, Copy, Default)]
struct Run {
    lane: usize,
    len: usize,
    base: usize,
    y: isize,
    x: isize,
}

impl<T: Float> Gathered<'_, T> {
    #[inline(always)]
    fn pack<S: Simd>(&self, simd: S, lanes: Range<usize>, depth: Range<usize>, width: usize, panel: &mut [f32]) {
        let mut runs = [Run::default(); MAX_WIDTH];
        let count = self.runs(&lanes, &mut runs);
        if self.matrix.channels_first {
            self.pack_rows(simd, &runs[..count], depth, width, panel);
        } else {
            self.pack_channels(&runs[..count], lanes.len(), depth, width, panel);
        }
    }

    /// Cuts the lanes at the ends of output rows.
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

    /// `to[i]` is the element of an input row at column `x + i * step`.
    #[inline(always)]
    fn pack_row<S: Simd>(&self, simd: S, row: &[T], x: isize, to: &mut [f32]) {
        let (wide, step, stride) = (self.matrix.size[1] as isize, self.matrix.step[1] as isize, self.matrix.strides[1]);
        let (len, hop) = (to.len(), step as usize * stride);
        let last = x + (len as isize - 1) * step;
        if x >= 0 && last < wide {
            return gather(simd, &row[x as usize * stride..], hop, to);
        }
        // The lanes from `low` to `high` lie inside of the image.
        let low = ((-x).max(0) as usize).div_ceil(step as usize).min(len);
        let high = ((wide - x).max(0) as usize).div_ceil(step as usize).clamp(low, len);
        to[..low].fill(0.0);
        to[high..].fill(0.0);
        if low < high {
            gather(simd, &row[(x + low as isize * step) as usize * stride..], hop, &mut to[low..high]);
        }
    }

    /// Whether all taps of a filter row read adjoining elements inside of the image, at every lane.
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
    fn pack_channels(&self, runs: &[Run], lanes: usize, depth: Range<usize>, width: usize, panel: &mut [f32]) {
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
                transpose(lanes, width, block, |lane| positions[lane].map(|p| &self.image[p + channel..][..len]));
            } else {
                for (k, to) in block.chunks_exact_mut(width).enumerate() {
                    for (to, position) in to.iter_mut().zip(&positions[..lanes]) {
                        *to = position.map_or(0.0, |p| self.image[p + (channel + k) * m.channel_stride].to_f32());
                    }
                }
            }
            panel = rest;
            at += len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::{element, matrices};
    use super::*;

    #[test]
    fn panels_hold_the_patches() {
        let image: Vec<f32> = (0..210).map(|i| i as f32 + 1.0).collect();
        for matrix in matrices() {
            let (lanes, depth) = (2 * matrix.out[0] * matrix.out[1], matrix.depth());
            for isa in Isa::available() {
                for (width, depths) in [(1, 0..depth), (12, 0..depth), (32, 1..depth - 1), (8, 4..5)] {
                    let source = Columns::Patches(Patches { image: Floats::F32(&image), matrix: &matrix });
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
