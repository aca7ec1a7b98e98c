//! Depthwise convolution of bytes, channels last.
//!
//! Vectors run along the channels. Four taps are interleaved for one multiply instruction; if the filter moves by one,
//! two outputs share their taps.

use super::{Rescale, Scales, To};
use crate::cpu::simd::dot::{Dot, DotKernel, DotLevel};
use crate::error::Result;
use crate::memory::{Buffer, share};
use crate::ops::spatial::Slide;
use std::sync::Arc;

/// A depthwise convolution with its packed filter.
pub struct Depthwise {
    level: DotLevel,
    slides: [Slide; 2],
    output: [usize; 2],
    channels: usize,
    /// Number of neighboring outputs computed together: 1 or 2.
    together: usize,
    /// The positions of the taps in a row's table, four per quad.
    taps: Vec<usize>,
    /// Pointers per filter row in a row's table.
    width: usize,
    /// Four vectors per block of channels, quad, and output computed together.
    filter: Arc<Buffer>,
    /// A pixel of bytes that represent 0.
    zeros: Vec<u8>,
    signed: bool,
}

/// A tap of a filter: its row and column.
type TapPlace = (usize, usize);

impl Depthwise {
    /// Creates a convolution of images with `channels` channels. `at(channel, row, column)` returns the elements of the
    /// filter, between -255 and 255: elements outside the range of a signed byte are split into two taps. `zero` is the
    /// byte that represents 0 in the image, which has signed or unsigned bytes.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for the packed filter.
    pub fn new(
        level: DotLevel,
        slides: [Slide; 2],
        output: [usize; 2],
        channels: usize,
        (zero, signed): (u8, bool),
        at: impl Fn(usize, usize, usize) -> i16,
    ) -> Result<Depthwise> {
        // Half a vector is enough for few channels, and its instructions run on more ports.
        let level = if channels <= level.narrow().lanes() * 4 { level.narrow() } else { level };
        let [high, wide] = slides.map(|slide| slide.window as usize);
        let [step, dilation] = [slides[1].stride, slides[1].dilation].map(|size| size as usize);
        let together = if step == 1 && dilation == 1 && wide > 1 { 2 } else { 1 };
        // Image columns read by the outputs that are computed together.
        let columns = wide + together - 1;
        let mut places: Vec<(TapPlace, bool)> = Vec::new();
        let fits = |(y, x): TapPlace| (0..channels).all(|c| i8::try_from(at(c, y, x)).is_ok());
        for y in 0..high {
            let row: Vec<TapPlace> = (0..columns).map(|x| (y, x)).collect();
            places.extend(row.iter().map(|&place| (place, false)));
            places
                .extend(row.iter().filter(|&&(y, x)| !covers(wide, together, x, |x| fits((y, x)))).map(|&p| (p, true)));
            // If taps are shared, no quad mixes taps of two rows: that leaves room for the quads of the other output.
            while together == 2 && !places.len().is_multiple_of(4) {
                places.push(((y, usize::MAX), false));
            }
        }
        while !places.len().is_multiple_of(4) {
            places.push(((0, usize::MAX), false));
        }
        // The last outputs may read positions beyond the last column; the weights of these are 0.
        let width = (output[1] - 1) / together * together * step + (columns - 1) * dilation + 1;
        let taps =
            places.iter().map(|&((y, x), _)| y * width + if x == usize::MAX { 0 } else { x * dilation }).collect();
        let lanes = level.lanes();
        let block = 4 * lanes;
        let mut filter = Buffer::zeroed(channels.div_ceil(block) * places.len() / 4 * together * 4 * block)?;
        let bytes = filter.bytes_mut();
        for channel in 0..channels {
            for (index, &((y, x), second)) in places.iter().enumerate() {
                for output in 0..together {
                    let x = if x == usize::MAX { x } else { x.wrapping_sub(output) };
                    let element = if x < wide { at(channel, y, x) } else { 0 };
                    let low = element.clamp(-128, 127);
                    let element = if second { element - low } else { low };
                    let quad = (channel / block * (places.len() / 4) + index / 4) * together + output;
                    let lane = order(channel % block, lanes);
                    bytes[(quad * block + lane) * 4 + index % 4] = element as i8 as u8;
                }
            }
        }
        let filter = share(Arc::new(filter));
        Ok(Depthwise {
            level,
            slides,
            output,
            channels,
            together,
            taps,
            width,
            filter,
            zeros: vec![zero; channels.next_multiple_of(block)],
            signed,
        })
    }

    /// The buffer of the packed filter.
    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.filter
    }

    /// The columns of the vectors, in the order that [`Rescale`] requires: the channel of each, if there is one.
    pub fn order(&self) -> impl Iterator<Item = Option<usize>> {
        let lanes = self.level.lanes();
        let (block, channels) = (4 * lanes, self.channels);
        (0..channels.next_multiple_of(block)).map(move |at| {
            let (vector, lane) = (at % block / lanes, at % lanes);
            let channel = at / block * block + 16 * (lane / 4) + 4 * vector + lane % 4;
            (channel < channels).then_some(channel)
        })
    }

    fn table_len(&self) -> usize {
        self.slides[0].window as usize * self.width
    }

    /// Scratch size in bytes that [`row`](Self::row) needs, aligned for a pointer.
    pub fn scratch_bytes(&self) -> usize {
        self.table_len() * size_of::<*const u8>()
    }

    /// Number of taps multiplied per output element.
    pub fn taps(&self) -> usize {
        self.taps.len()
    }

    /// Computes row `y` of the output.
    ///
    /// # Panics
    /// If a slice is too short.
    pub fn row(&self, image: &[u8], y: usize, columns: &Rescale, scratch: &mut [f32], out: &mut [u8]) {
        let [vertical, horizontal] = self.slides;
        let padded = self.order().count();
        assert!(matches!(columns.to, To::Bytes(_)) || columns.to.size() == 4);
        assert!(image.len() >= vertical.input as usize * horizontal.input as usize * self.channels);
        assert!(out.len() >= self.output[1] * self.channels * columns.to.size());
        assert!([columns.start.len(), columns.scale.len(), columns.bias.len()].iter().all(|&len| len >= padded));
        // SAFETY: any bits are valid for these pointers, and each is written before it is read.
        let table = &mut unsafe { scratch.align_to_mut::<*const u8>() }.1[..self.table_len()];
        let (top, high, image_y) = vertical.taps(y);
        let left = horizontal.begin as usize;
        for (tap, pointers) in table.chunks_exact_mut(self.width).enumerate() {
            pointers.fill(self.zeros.as_ptr());
            if tap < top || tap >= top + high {
                continue;
            }
            let line = image_y + (tap - top) * vertical.dilation as usize;
            // Pointers into the whole image, not into a slice of a pixel: whole vectors reach beyond it.
            let first = &image[line * horizontal.input as usize * self.channels..];
            let pixels = (0..horizontal.input as usize).map(|x| first.as_ptr().wrapping_add(x * self.channels));
            pointers.iter_mut().skip(left).zip(pixels).for_each(|(pointer, pixel)| *pointer = pixel);
        }
        // Whole vectors can be read if the last pixel has enough bytes after it: bytes of other pixels are multiplied
        // with 0.
        let last = image_y + high.saturating_sub(1) * vertical.dilation as usize;
        let end = (last + 1) * horizontal.input as usize * self.channels;
        let whole = end - self.channels + padded <= image.len();
        self.level.run(Row { convolution: self, columns, table, out, whole });
    }
}

/// The lane, among those of four vectors, of a channel of the block.
fn order(channel: usize, lanes: usize) -> usize {
    channel % 16 / 4 * lanes + channel / 16 * 4 + channel % 4
}

/// Whether `fits` holds for the filter columns that read image column `x` for any of the outputs computed together.
fn covers(wide: usize, together: usize, x: usize, fits: impl Fn(usize) -> bool) -> bool {
    (0..together).filter_map(|output| x.checked_sub(output)).filter(|&x| x < wide).all(fits)
}

struct Row<'a> {
    convolution: &'a Depthwise,
    columns: &'a Rescale<'a>,
    /// Pointers to the bytes of a pixel, as many as channels, in whole blocks if `whole`.
    table: &'a [*const u8],
    out: &'a mut [u8],
    /// Whether whole vectors can be read at the start of every block of channels.
    whole: bool,
}

impl DotKernel for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn run<D: Dot>(mut self, dot: D) {
        match (self.convolution.together, self.convolution.signed) {
            (2, false) => self.blocks::<D, 2, false>(dot),
            (2, true) => self.blocks::<D, 2, true>(dot),
            (_, false) => self.blocks::<D, 1, false>(dot),
            (_, true) => self.blocks::<D, 1, true>(dot),
        }
    }
}

impl Row<'_> {
    #[inline(always)]
    fn blocks<D: Dot, const TOGETHER: usize, const SIGNED: bool>(&mut self, dot: D) {
        let channels = self.convolution.channels;
        for first in (0..channels).step_by(D::BYTES) {
            match self.whole || channels - first >= D::BYTES {
                true => self.block::<D, TOGETHER, SIGNED, true>(dot, first),
                false => self.block::<D, TOGETHER, SIGNED, false>(dot, first),
            }
        }
    }

    /// Computes a block of channels; whole vectors can be read if `FULL`.
    #[inline(always)]
    fn block<D: Dot, const TOGETHER: usize, const SIGNED: bool, const FULL: bool>(&mut self, dot: D, first: usize) {
        let Depthwise { channels, taps, filter, output, slides, .. } = self.convolution;
        let step = slides[1].stride as usize;
        let count = D::BYTES.min(channels - first);
        let quads = taps.len() / 4;
        let most = taps.iter().copied().max().unwrap_or(0);
        let filter = &filter.bytes()[first / D::BYTES * quads * TOGETHER * 4 * D::BYTES..];
        assert!(filter.len() >= quads * TOGETHER * 4 * D::BYTES);
        let size = self.columns.to.size();
        let mut start = [dot.splat(0); 4];
        for (v, start) in start.iter_mut().enumerate() {
            // SAFETY: `Depthwise::row` has checked that the columns are whole blocks.
            *start = unsafe { dot.load_sums(self.columns.start.as_ptr().add(first + v * D::LANES)) };
        }
        // SAFETY: as above.
        let scales = unsafe { self.columns.scales::<D, 4>(dot, first) };
        let to = self.columns.to;
        for x in (0..output[1]).step_by(TOGETHER) {
            let mut sums = [start; TOGETHER];
            let table = &self.table[x * step..];
            assert!(most < table.len());
            let mut weights = filter.as_ptr();
            for quad in taps.as_chunks::<4>().0 {
                // SAFETY: every tap has a pointer in the table, as just checked. It points to `channels` bytes, `count`
                // of them from this block on, or to whole blocks if `FULL`.
                let bytes = unsafe {
                    [
                        pixel::<D, SIGNED, FULL>(dot, table.get_unchecked(quad[0]).wrapping_add(first), count),
                        pixel::<D, SIGNED, FULL>(dot, table.get_unchecked(quad[1]).wrapping_add(first), count),
                        pixel::<D, SIGNED, FULL>(dot, table.get_unchecked(quad[2]).wrapping_add(first), count),
                        pixel::<D, SIGNED, FULL>(dot, table.get_unchecked(quad[3]).wrapping_add(first), count),
                    ]
                };
                let lefts = dot.interleave(bytes);
                for sums in &mut sums {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: the filter has four vectors for each quad and output.
                        let right = unsafe { dot.load(weights.add(v * D::BYTES)) };
                        *sum = dot.dot(*sum, lefts[v], right);
                    }
                    weights = weights.wrapping_add(4 * D::BYTES);
                }
            }
            // Constant bounds: the loop must be unrolled to keep the sums in registers.
            #[expect(clippy::needless_range_loop, reason = "an iterator over arrays of vectors would not be unrolled")]
            for output_x in 0..TOGETHER {
                if x + output_x < output[1] {
                    let out = &mut self.out[((x + output_x) * channels + first) * size..][..count * size];
                    // SAFETY: the slice has `count` elements.
                    unsafe { store(dot, &scales, sums[output_x], to, out.as_mut_ptr(), count) };
                }
            }
        }
    }
}

/// Loads the first `count` bytes at `from` as unsigned, or a full vector if `FULL`.
///
/// # Safety
/// These bytes must be readable.
#[inline(always)]
unsafe fn pixel<D: Dot, const SIGNED: bool, const FULL: bool>(dot: D, from: *const u8, count: usize) -> D::Bytes {
    // SAFETY: the caller guarantees it.
    let bytes = unsafe { if FULL { dot.load(from) } else { dot.load_first(from, count) } };
    if SIGNED { dot.invert_signs(bytes) } else { bytes }
}

/// [`Scales::store`] for interleaved lanes and any type of output.
///
/// # Safety
/// As [`Scales::store`].
#[inline(always)]
unsafe fn store<D: Dot>(dot: D, scales: &Scales<D, 4>, sums: [D::Sums; 4], to: To, out: *mut u8, count: usize) {
    if let To::Bytes(how) = to {
        // SAFETY: the caller guarantees it.
        return unsafe { scales.store::<true>(dot, sums, To::Bytes(how), out, count) };
    }
    let mut floats = [0.0; 64];
    // SAFETY: there is room for all lanes of four vectors, at most 16 each.
    unsafe { scales.store::<false>(dot, sums, to, floats.as_mut_ptr().cast(), D::BYTES) };
    let out: *mut f32 = out.cast();
    for channel in 0..count {
        // SAFETY: the caller guarantees that `count` elements can be written.
        unsafe { out.add(channel).write(floats[order(channel, D::LANES)]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::Isa;
    use crate::testing::Random;

    #[test]
    fn sums_are_exact_on_every_level() {
        let mut random = Random::new(2);
        let mut byte = move || random.next() as u8;
        let slide = |input, stride| Slide { input, window: 3, begin: 1, end: 1, stride, dilation: 1 };
        for (channels, stride, signed) in [(70, 1, false), (5, 2, true), (64, 1, true)] {
            let slides = [slide(6, stride), slide(9, stride)];
            let output = slides.map(|slide| slide.outputs().0.size());
            let image: Vec<u8> = (0..6 * 9 * channels).map(|_| byte()).collect();
            let filter: Vec<i16> =
                (0..channels * 9).map(|i| byte() as i16 - if i % 4 == 0 { 255 } else { 64 }).collect();
            let at = |channel: usize, y: usize, x: usize| filter[channel * 9 + y * 3 + x];
            for level in Isa::available().into_iter().flat_map(DotLevel::available) {
                let convolution = Depthwise::new(level, slides, output, channels, (7, signed), at).unwrap();
                let padded = convolution.order().count();
                let columns = Rescale {
                    start: convolution.order().map(|channel| channel.unwrap_or(0) as i32).collect(),
                    zeros: Vec::new().into(),
                    scale: vec![1.0; padded].into(),
                    bias: vec![0.0; padded].into(),
                    to: To::Floats { min: f32::NEG_INFINITY, max: f32::INFINITY },
                };
                let mut scratch = vec![0.0; convolution.scratch_bytes() / 4 + 1];
                let start = scratch.as_ptr().align_offset(8);
                let mut out = vec![0; output[1] * channels * 4];
                for y in 0..output[0] {
                    convolution.row(&image, y, &columns, &mut scratch[start..], &mut out);
                    for (i, got) in out.as_chunks::<4>().0.iter().enumerate() {
                        let (x, channel) = (i / channels, i % channels);
                        let term = |tap: usize| {
                            let row = (y * stride as usize + tap / 3).checked_sub(1).filter(|&row| row < 6);
                            let column = (x * stride as usize + tap % 3).checked_sub(1).filter(|&column| column < 9);
                            let inside =
                                row.zip(column).map(|(row, column)| image[(row * 9 + column) * channels + channel]);
                            let byte = inside.unwrap_or(7) as i32;
                            let byte = if signed { (byte ^ 0x80) & 0xff } else { byte };
                            byte * at(channel, tap / 3, tap % 3) as i32
                        };
                        let expected = channel as i32 + (0..9).map(term).sum::<i32>();
                        assert_eq!(f32::from_le_bytes(*got), expected as f32, "{level:?}: {y}, {x}, {channel}");
                    }
                }
            }
        }
    }
}
