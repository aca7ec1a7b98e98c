//! Depthwise convolution with channels last: a vector holds consecutive channels of one pixel. The outputs of several
//! neighboring pixels stay in registers, and every weight is loaded once for all of them. If the filter size is known
//! at compile time, so is input shared by neighboring windows.

use super::planes::Window;
use crate::cpu::simd::{Isa, Kernel, Simd};
use std::ops::Range;

/// Maximum number of output columns summed side by side: 7 divides the widths of most networks, and 7 chains of
/// multiply-adds nearly hide the latency of two units.
const WIDE: usize = 7;

/// Vectors of channels summed side by side when a column is computed on its own.
const VECTORS: usize = 4;

/// Limit in bytes for the input rows under one output row, which the next rows read again: half of a small first-level
/// cache. Determines the number of channel vectors per pass, but never less than a few: reading less of each pixel is
/// slower.
const REUSED_BYTES: usize = 24 << 10;

/// The first channel of vector number `block`. The last vector overlaps its neighbor instead of being shorter: a
/// channel is computed the same way in either vector.
#[inline(always)]
fn block_start(block: usize, channels: usize, lanes: usize) -> usize {
    (block * lanes).min(channels.saturating_sub(lanes))
}

/// Length of the output of [`pack_filter`] in floats, for `taps` taps of `channels` channels.
pub fn packed_len(isa: Isa, channels: usize, taps: usize) -> usize {
    channels.div_ceil(isa.lanes()) * isa.lanes() * taps
}

/// Packs a filter as `[vector of channels][tap][lane]`; `of(channel, tap)` returns a weight. Lanes beyond the last
/// channel are 0.
///
/// # Panics
/// If the length of `out` differs from [`packed_len`].
pub fn pack_filter(isa: Isa, channels: usize, taps: usize, of: impl Fn(usize, usize) -> f32, out: &mut [f32]) {
    let lanes = isa.lanes();
    assert_eq!(out.len(), packed_len(isa, channels, taps));
    for (block, out) in out.chunks_exact_mut(taps * lanes).enumerate() {
        let start = block_start(block, channels, lanes);
        for (tap, out) in out.chunks_exact_mut(lanes).enumerate() {
            for (lane, out) in out.iter_mut().enumerate() {
                *out = if start + lane < channels { of(start + lane, tap) } else { 0.0 };
            }
        }
    }
}

/// Channels per pixel, padding included, in an image for [`Pixels`]: at least one vector.
pub fn padded_channels(isa: Isa, channels: usize) -> usize {
    channels.max(isa.lanes())
}

/// Copies pixels of `channels / multiplier` channels to `stride` floats each: every channel `multiplier` times, then zeros.
pub fn expand(isa: Isa, image: &[f32], [channels, multiplier, stride]: [usize; 3], out: &mut [f32]) {
    isa.run(Expand { image, channels, multiplier, stride, out });
}

struct Expand<'a> {
    image: &'a [f32],
    channels: usize,
    multiplier: usize,
    stride: usize,
    out: &'a mut [f32],
}

impl Kernel for Expand<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Expand { image, channels, multiplier, stride, out } = self;
        for (pixel, out) in image.chunks_exact(channels / multiplier).zip(out.chunks_exact_mut(stride)) {
            out[channels..].fill(0.0);
            for (x, out) in pixel.iter().zip(out[..channels].chunks_exact_mut(multiplier)) {
                out.fill(*x);
            }
        }
    }
}

/// Some rows of a depthwise convolution, bias included. Skips positions outside the image, where even an infinite
/// weight must not count.
pub struct Pixels<'a> {
    /// The window; its strides are those of `image`, `[row, column]`.
    pub window: &'a Window,
    /// The image from row `top` on; every pixel has [`padded_channels`] readable floats.
    pub image: &'a [f32],
    /// The index of the image row at the start of `image`.
    pub top: usize,
    /// The output rows.
    pub rows: Range<usize>,
    /// Number of output channels.
    pub channels: usize,
    /// The output of [`pack_filter`].
    pub weights: &'a [f32],
    /// [`padded_channels`] floats.
    pub bias: &'a [f32],
    /// Results are clamped to these bounds. NaN stays NaN.
    pub bounds: [f32; 2],
    /// `[rows][columns][channels]`
    pub out: &'a mut [f32],
}

/// The filter rows that are inside the image, and the offset in floats of the image row under the uppermost one.
struct RowTaps {
    taps: Range<usize>,
    start: usize,
}

/// An output column, and the offset of its first channel in the output.
#[derive(Clone, Copy)]
struct OutputPixel {
    x: usize,
    out: usize,
}

/// The state of a running [`Pixels`].
struct PixelWriter<'a> {
    window: &'a Window,
    image: &'a [f32],
    top: usize,
    rows: Range<usize>,
    channels: usize,
    weights: &'a [f32],
    bias: &'a [f32],
    bounds: [f32; 2],
    /// All of `rows` is writable.
    out: *mut f32,
}

impl PixelWriter<'_> {
    /// The taps that read the image for output row `y`.
    #[inline(always)]
    fn under(&self, y: usize) -> RowTaps {
        let w = self.window;
        let first = (y * w.step[0]) as isize - w.padding[0] as isize;
        let reach = |distance: isize| match (distance.max(0) as usize, w.dilation[0]) {
            // Avoids the slow division.
            (distance, 1) => distance.min(w.filter[0]),
            (distance, dilation) => distance.div_ceil(dilation).min(w.filter[0]),
        };
        let (low, high) = (reach(-first), reach(w.size[0] as isize - first));
        let taps = low..high.max(low);
        let row = (first + (low * w.dilation[0]) as isize) - self.top as isize;
        RowTaps { start: if taps.is_empty() { 0 } else { row as usize * w.strides[0] }, taps }
    }

    /// The output columns with windows fully inside the width of the image.
    fn inner(&self) -> Range<usize> {
        let w = self.window;
        let reach = (w.filter[1] - 1) * w.dilation[1];
        let end = (w.size[1] + w.padding[1]).checked_sub(reach).map_or(0, |free| free.div_ceil(w.step[1]));
        let start = w.padding[1].div_ceil(w.step[1]).min(w.out_cols);
        start..end.clamp(start, w.out_cols)
    }

    #[inline(always)]
    fn all<S: Simd, const TAPS: usize, const STEP: usize>(&self, simd: S) {
        let w = self.window;
        let padded = self.channels.max(S::LANES);
        let blocks = self.channels.div_ceil(S::LANES);
        assert!(self.weights.len() >= blocks * S::LANES * w.filter[0] * w.filter[1] && self.bias.len() >= padded);
        assert!(w.strides[1] >= padded);
        for y in self.rows.clone() {
            let RowTaps { taps, start } = self.under(y);
            if let Some(below) = taps.len().checked_sub(1) {
                let last = start + below * w.dilation[0] * w.strides[0] + (w.size[1] - 1) * w.strides[1];
                assert!(self.image.len() >= last + padded);
            }
        }
        let reused = w.filter[0].saturating_mul(w.size[1]) * S::LANES * size_of::<f32>();
        let group = (REUSED_BYTES / reused).max(2 * VECTORS).min(blocks);
        let inner = self.inner();
        for first in (0..blocks).step_by(group) {
            for y in self.rows.clone() {
                // SAFETY: the asserts above cover all rows and pixels of the image, all weights and outputs.
                unsafe { self.row::<S, TAPS, STEP>(simd, y, &inner, first..(first + group).min(blocks)) };
            }
        }
    }

    /// Computes one output row of the channel vectors `blocks`.
    ///
    /// # Safety
    /// The image under the row is readable for all channels, as are the weights and the bias; `out` has room for the row.
    #[inline(always)]
    unsafe fn row<S: Simd, const TAPS: usize, const STEP: usize>(
        &self,
        simd: S,
        y: usize,
        inner: &Range<usize>,
        blocks: Range<usize>,
    ) {
        let (rows, wide) = (self.under(y), self.window.out_cols);
        let out = (y - self.rows.start) * wide;
        let place = |x: usize| OutputPixel { x, out: (out + x) * self.channels };
        for x in (0..inner.start).chain(inner.end..wide) {
            let at = place(x);
            let mut blocks = blocks.clone();
            // SAFETY: as this function; only pixels inside the image are read.
            unsafe {
                while blocks.len() >= VECTORS {
                    self.column::<S, VECTORS>(simd, at, &rows, blocks.start);
                    blocks.start += VECTORS;
                }
                blocks.for_each(|block| self.column::<S, 1>(simd, at, &rows, block));
            }
        }
        let (mut x, mut chunks) = (inner.start, inner.len().div_ceil(WIDE));
        while chunks > 0 {
            // Chunks as even as possible.
            let cols = (inner.end - x).div_ceil(chunks);
            macro_rules! columns {
                ($($cols:literal)*) => {
                    match cols {
                        // SAFETY: as this function; the windows of inner columns are inside the image.
                        $($cols => unsafe { self.columns::<S, TAPS, STEP, $cols>(simd, place(x), &rows, blocks.clone()) },)*
                        _ => unreachable!("at most {WIDE} columns"),
                    }
                };
            }
            columns!(1 2 3 4 5 6 7);
            (x, chunks) = (x + cols, chunks - 1);
        }
    }

    /// Computes `COLS` columns with windows inside the width of the image. `TAPS` and `STEP` are the filter columns and
    /// the input columns per output column; 0 stands for any number, and any dilation.
    ///
    /// # Safety
    /// As [`row`](Self::row), for all pixels under the filter.
    #[inline(always)]
    unsafe fn columns<S: Simd, const TAPS: usize, const STEP: usize, const COLS: usize>(
        &self,
        simd: S,
        at: OutputPixel,
        rows: &RowTaps,
        blocks: Range<usize>,
    ) {
        let w = self.window;
        let (taps, step, dilation) = if TAPS > 0 { (TAPS, STEP, 1) } else { (w.filter[1], w.step[1], w.dilation[1]) };
        let stride = w.strides[1];
        let first = self.image.as_ptr().wrapping_add(rows.start + (at.x * step - w.padding[1]) * stride);
        for block in blocks {
            let channel = block_start(block, self.channels, S::LANES);
            // SAFETY: the contract covers the bias.
            let bias = unsafe { simd.load_ptr(self.bias.as_ptr().add(channel)) };
            let mut sums = [bias; COLS];
            let mut row = first.wrapping_add(channel);
            let mut weights = self.weights(block, rows, S::LANES);
            for _ in rows.taps.clone() {
                let mut pixel = row;
                for _ in 0..taps {
                    // SAFETY: the contract covers the weights of all taps.
                    let weight = unsafe { simd.load_ptr(weights) };
                    weights = weights.wrapping_add(S::LANES);
                    for (col, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: the contract covers all pixels under the filter.
                        let x = unsafe { simd.load_ptr(pixel.wrapping_add(col * step * stride)) };
                        *sum = simd.mul_add(x, weight, *sum);
                    }
                    pixel = pixel.wrapping_add(dilation * stride);
                }
                row = row.wrapping_add(w.dilation[0] * w.strides[0]);
            }
            for (col, sum) in sums.into_iter().enumerate() {
                // SAFETY: the contract covers all columns of the output.
                unsafe { self.store(simd, sum, at.out + col * self.channels + channel) };
            }
        }
    }

    /// Computes `VECS` channel vectors of any column.
    ///
    /// # Safety
    /// As [`row`](Self::row).
    #[inline(always)]
    unsafe fn column<S: Simd, const VECS: usize>(&self, simd: S, at: OutputPixel, rows: &RowTaps, block: usize) {
        let w = self.window;
        let left = (at.x * w.step[1]) as isize - w.padding[1] as isize;
        let channels: [usize; VECS] = std::array::from_fn(|v| block_start(block + v, self.channels, S::LANES));
        // SAFETY: the contract covers the bias.
        let mut sums = channels.map(|channel| unsafe { simd.load_ptr(self.bias.as_ptr().add(channel)) });
        for row in rows.taps.clone() {
            let start = rows.start + (row - rows.taps.start) * w.dilation[0] * w.strides[0];
            for tap in 0..w.filter[1] {
                let x = left + (tap * w.dilation[1]) as isize;
                if x < 0 || x as usize >= w.size[1] {
                    continue;
                }
                let pixel = self.image.as_ptr().wrapping_add(start + x as usize * w.strides[1]);
                for (v, sum) in sums.iter_mut().enumerate() {
                    let weight = ((block + v) * w.filter[0] + row) * w.filter[1] + tap;
                    // SAFETY: the pixel is inside the image; the contract covers its channels and the weights.
                    unsafe {
                        let weight = simd.load_ptr(self.weights.as_ptr().add(weight * S::LANES));
                        *sum = simd.mul_add(simd.load_ptr(pixel.add(channels[v])), weight, *sum);
                    }
                }
            }
        }
        for (sum, channel) in sums.into_iter().zip(channels) {
            // SAFETY: the contract covers all columns of the output.
            unsafe { self.store(simd, sum, at.out + channel) };
        }
    }

    /// The weights of a vector of channels, starting at the first tap inside the image.
    #[inline(always)]
    fn weights(&self, block: usize, rows: &RowTaps, lanes: usize) -> *const f32 {
        let [high, wide] = self.window.filter;
        self.weights.as_ptr().wrapping_add((block * high + rows.taps.start) * wide * lanes)
    }

    /// Writes a vector of channels, or as many as remain, clamped to the bounds.
    ///
    /// # Safety
    /// That many floats of `out` from `at` on are writable.
    #[inline(always)]
    unsafe fn store<S: Simd>(&self, simd: S, sums: S::F32, at: usize) {
        let [low, high] = self.bounds.map(|bound| simd.splat(bound));
        let sums = simd.min(high, simd.max(low, sums));
        // SAFETY: by the contract.
        unsafe { simd.store_first(sums, self.out.add(at), self.channels.min(S::LANES)) };
    }
}

impl Kernel for Pixels<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Pixels { window, image, top, rows, channels, weights, bias, bounds, out } = self;
        assert!(out.len() >= rows.len() * window.out_cols * channels);
        let out = out.as_mut_ptr();
        let work = PixelWriter { window, image, top, rows, channels, weights, bias, bounds, out };
        match (window.filter[1], window.step[1], window.dilation[1]) {
            (3, 1, 1) => work.all::<S, 3, 1>(simd),
            (3, 2, 1) => work.all::<S, 3, 2>(simd),
            (5, 1, 1) => work.all::<S, 5, 1>(simd),
            _ => work.all::<S, 0, 0>(simd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small integers keep sums exact.
    #[test]
    fn rows_follow_the_formula() {
        for (size, filter, step, dilation, padding, out) in [
            ([5, 6], [3, 3], [1, 1], [1, 1], [1, 1], [5, 6]),
            ([4, 30], [2, 3], [1, 1], [2, 3], [0, 2], [2, 28]),
            ([9, 17], [3, 3], [2, 2], [1, 1], [1, 1], [5, 9]),
            ([6, 12], [5, 5], [1, 1], [1, 1], [2, 2], [6, 12]),
            ([9, 40], [3, 4], [2, 3], [1, 2], [2, 5], [5, 15]),
            ([3, 3], [1, 2], [1, 2], [1, 5], [4, 9], [11, 8]),
            ([2, 1], [3, 3], [1, 1], [1, 1], [1, 1], [2, 1]),
        ] {
            for isa in Isa::available() {
                for channels in [1, isa.lanes() - 1, isa.lanes(), 2 * isa.lanes() + 3] {
                    let stride = padded_channels(isa, channels);
                    let strides = [size[1] * stride, stride];
                    let window = Window { size, strides, out_cols: out[1], filter, step, dilation, padding };
                    let image: Vec<f32> = (0..size[0] * size[1] * stride).map(|i| (i * 5 % 11) as f32 - 4.0).collect();
                    let taps = filter[0] * filter[1];
                    let weight = |channel: usize, tap: usize| ((channel * 3 + tap) % 5) as f32 - 1.5;
                    let mut weights = vec![f32::NAN; packed_len(isa, channels, taps)];
                    pack_filter(isa, channels, taps, weight, &mut weights);
                    let bias: Vec<f32> = (0..stride).map(|channel| channel as f32).collect();
                    for rows in [0..out[0], out[0] / 2..out[0]] {
                        let mut got = vec![f32::NAN; rows.len() * out[1] * channels];
                        let (first, wide, image, window) = (rows.start, out[1], &image, &window);
                        let (weights, bias, bounds, out) = (&weights, &bias, [-20.0, 30.0], &mut got);
                        isa.run(Pixels { window, image, top: 0, rows, channels, weights, bias, bounds, out });
                        for (i, got) in got.iter().enumerate() {
                            let (pixel, channel) = (i / channels, i % channels);
                            let (y, x) = (first + pixel / wide, pixel % wide);
                            let mut sum = channel as f32;
                            for tap in 0..taps {
                                let row = (y * step[0] + tap / filter[1] * dilation[0]).checked_sub(padding[0]);
                                let col = (x * step[1] + tap % filter[1] * dilation[1]).checked_sub(padding[1]);
                                if let (Some(row), Some(col)) = (row, col)
                                    && row < size[0]
                                    && col < size[1]
                                {
                                    sum += weight(channel, tap) * image[(row * size[1] + col) * stride + channel];
                                }
                            }
                            let sum = sum.clamp(-20.0, 30.0);
                            assert_eq!(*got, sum, "{isa:?}, {window:?}, {channels} channels, {y}, {x}, {channel}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn pixels_are_expanded() {
        let mut out = [f32::NAN; 10];
        expand(Isa::best(), &[1.0f32, 2.0, 3.0, 4.0], [4, 2, 5], &mut out);
        assert_eq!(out, [1.0, 1.0, 2.0, 2.0, 0.0, 3.0, 3.0, 4.0, 4.0, 0.0]);
    }
}
