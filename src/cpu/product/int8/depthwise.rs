//! Depthwise convolution of bytes, channels last.
//!
//! Vectors run along the channels. Four taps of a row of the filter are interleaved for one multiply instruction; if the
//! filter moves by one, two outputs share their taps.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::{Rescale, Scales, To};
use crate::cpu::simd::dot::{Dot, DotKernel, DotLevel, ToBytes};
use crate::error::Result;
use crate::memory::{Buffer, share};
use crate::ops::spatial::Slide;
use std::ops::Range;
use std::sync::Arc;

/// A depthwise convolution with its packed filter.
pub struct Depthwise {
    level: DotLevel,
    slides: [Slide; 2],
    output: [usize; 2],
    channels: usize,
    /// Number of neighboring outputs computed together: 1 or 2.
    together: usize,
    quads: Vec<Quad>,
    /// The factors of four vectors per block of channels, quad, and output computed together.
    filter: Arc<Buffer>,
    signed: bool,
}

/// Four neighboring taps of a row of the filter.
struct Quad {
    row: usize,
    /// The image column that the first one reads, from the first one that the output reads on.
    column: usize,
    /// Whether this is the second quad of these taps.
    second: bool,
}

impl Depthwise {
    /// Creates a convolution of images with `channels` channels. `at(channel, row, column)` returns the elements of the
    /// filter, between -255 and 255: elements outside the range of a signed byte are split into two taps. The image has
    /// signed or unsigned bytes.
    ///
    /// # Errors
    /// An `UnknownError` if there is not enough memory for the packed filter.
    pub fn new(
        level: DotLevel,
        slides: [Slide; 2],
        output: [usize; 2],
        channels: usize,
        signed: bool,
        at: impl Fn(usize, usize, usize) -> i16,
    ) -> Result<Depthwise> {
        // Half a vector is enough for few channels, and its instructions run on more ports.
        let level = if channels <= level.narrow().lanes() * 4 { level.narrow() } else { level };
        let [high, wide] = slides.map(|slide| slide.window as usize);
        let [step, dilation] = [slides[1].stride, slides[1].dilation].map(|size| size as usize);
        let together = if step == 1 && dilation == 1 && wide > 1 { 2 } else { 1 };
        // The elements of the filter that read image column `x` of a row for any of the outputs computed together.
        let fits = |y: usize, x: usize| {
            let own = (0..together).filter_map(|output| x.checked_sub(output)).filter(|&x| x < wide);
            own.clone().all(|x| (0..channels).all(|c| i8::try_from(at(c, y, x)).is_ok()))
        };
        let mut quads = Vec::new();
        for row in 0..high {
            for x in (0..wide + together - 1).step_by(4) {
                quads.push(Quad { row, column: x * dilation, second: false });
                if !(x..x + 4).all(|x| fits(row, x)) {
                    quads.push(Quad { row, column: x * dilation, second: true });
                }
            }
        }
        let lanes = level.lanes();
        let block = 4 * lanes;
        let mut bytes = vec![0; channels.div_ceil(block) * quads.len() * together * 4 * block];
        for channel in 0..channels {
            for (index, &Quad { row, column, second }) in quads.iter().enumerate() {
                for (output, tap) in (0..together).flat_map(|output| (0..4).map(move |tap| (output, tap))) {
                    let x = (column / dilation + tap).checked_sub(output).filter(|&x| x < wide);
                    let element = x.map_or(0, |x| at(channel, row, x));
                    let low = element.clamp(-128, 127);
                    let element = if second { element - low } else { low };
                    let quad = (channel / block * quads.len() + index) * together + output;
                    bytes[(quad * block + order(channel % block, lanes)) * 4 + tap] = element as i8 as u8;
                }
            }
        }
        let filter = share(Arc::new(level.run(PackFactors { bytes: &bytes })?));
        Ok(Depthwise { level, slides, output, channels, together, quads, filter, signed })
    }

    /// Whether the sums are those of images of signed bytes, or of unsigned ones.
    pub fn takes_signed(&self) -> bool {
        self.level.is_signed()
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

    /// Scratch size in bytes that [`row`](Self::row) needs, aligned for a pointer.
    pub fn scratch_bytes(&self) -> usize {
        self.slides[0].window as usize * size_of::<*const u8>()
    }

    /// Number of taps multiplied per output element.
    pub fn taps(&self) -> usize {
        4 * self.quads.len()
    }

    /// Bytes of a line of zeros, one byte each, that is as long as a line of an image and what is read behind it.
    pub fn zeros(&self) -> usize {
        self.slides[1].input as usize * self.channels + 4 * self.level.lanes()
    }

    /// Computes row `y` of the output. `zeros` is a line of [`zeros`](Self::zeros) bytes that represent 0.
    ///
    /// # Panics
    /// If a slice is too short.
    pub fn row(&self, image: &[u8], y: usize, columns: &Rescale, zeros: &[u8], scratch: &mut [f32], out: &mut [u8]) {
        assert!(zeros.len() >= self.zeros());
        let [vertical, horizontal] = self.slides;
        let (padded, line) = (self.order().count(), horizontal.input as usize * self.channels);
        assert!(image.len() >= vertical.input as usize * line);
        assert!(out.len() >= self.output[1] * self.channels * columns.to.size());
        assert!([columns.start.len(), columns.scale.len(), columns.bias.len()].iter().all(|&len| len >= padded));
        // SAFETY: any bits are valid for these pointers, and each is written before it is read.
        let lines = &mut unsafe { scratch.align_to_mut::<*const u8>() }.1[..vertical.window as usize];
        let (top, high, image_y) = vertical.taps(y);
        let image_line = |tap: usize| (image_y + tap * vertical.dilation as usize) * line;
        lines.fill(zeros.as_ptr());
        for (tap, to) in lines.iter_mut().skip(top).take(high).enumerate() {
            // Pointers into the whole image, not into a slice of a line: whole vectors reach beyond it.
            *to = image[image_line(tap)..].as_ptr();
        }
        // Whole vectors can be read if the last pixel has enough bytes after it: bytes of other pixels are multiplied
        // with 0.
        let whole = image_line(high.saturating_sub(1)) + line - self.channels + padded <= image.len();
        self.level.run(Row { convolution: self, columns, zeros, lines, out, whole });
    }
}

/// The lane, among those of four vectors, of a channel of the block.
fn order(channel: usize, lanes: usize) -> usize {
    channel % 16 / 4 * lanes + channel / 16 * 4 + channel % 4
}

/// Converts whole vectors of signed bytes to the factors that a level multiplies with.
struct PackFactors<'a> {
    bytes: &'a [u8],
}

impl DotKernel for PackFactors<'_> {
    type Output = Result<Buffer>;

    #[inline(always)]
    fn run<D: Dot>(self, dot: D) -> Result<Buffer> {
        let mut packed = Buffer::zeroed(self.bytes.len() * factors::<D>())?;
        for (bytes, to) in
            self.bytes.chunks_exact(D::BYTES).zip(packed.bytes_mut().chunks_exact_mut(D::BYTES * factors::<D>()))
        {
            let to: *mut D::Bytes = to.as_mut_ptr().cast();
            // SAFETY: the slices have the bytes of a vector, and of its factors.
            unsafe {
                let bytes = dot.load(bytes.as_ptr());
                if D::PER_WORD == 4 {
                    to.write_unaligned(bytes);
                } else {
                    to.cast::<[D::Bytes; 2]>().write_unaligned(dot.split::<true>(bytes));
                }
            }
        }
        Ok(packed)
    }
}

/// The vectors of factors for a vector of bytes.
const fn factors<D: Dot>() -> usize {
    4 / D::PER_WORD
}

struct Row<'a> {
    convolution: &'a Depthwise,
    columns: &'a Rescale<'a>,
    /// Bytes that represent 0.
    zeros: &'a [u8],
    /// The line of the image that each row of the filter reads.
    lines: &'a [*const u8],
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
        let Depthwise { channels, ref quads, output: [_, outputs], slides: [_, slide], .. } = *self.convolution;
        let (step, begin) = (slide.stride as usize, slide.begin as usize);
        // The outputs whose quads are in the image.
        let reach = quads.iter().map(|quad| quad.column).max().unwrap_or(0) + 3 * slide.dilation as usize;
        let first = begin.div_ceil(step).next_multiple_of(TOGETHER).min(outputs);
        let end = (slide.input as usize + begin).saturating_sub(reach).div_ceil(step).min(outputs);
        let inner = first..first + end.saturating_sub(first) / TOGETHER * TOGETHER;
        for channel in (0..channels).step_by(D::BYTES) {
            let block = Block::new(dot, self, channel);
            if let (true, To::Bytes(how)) = (block.whole, self.columns.to) {
                block.outputs::<TOGETHER, SIGNED, true>(self, 0..inner.start);
                match quads.len() {
                    3 => block.inner::<TOGETHER, SIGNED, 3>(self, inner.clone(), how),
                    _ => block.inner::<TOGETHER, SIGNED, 0>(self, inner.clone(), how),
                }
                block.outputs::<TOGETHER, SIGNED, true>(self, inner.end..outputs);
            } else {
                block.outputs::<TOGETHER, SIGNED, false>(self, 0..outputs);
            }
        }
    }
}

/// A block of channels.
struct Block<D: Dot> {
    dot: D,
    /// The first channel.
    first: usize,
    /// Number of channels.
    count: usize,
    /// Whether whole vectors can be read.
    whole: bool,
    start: [D::Sums; 4],
    scales: Scales<D, 4>,
    factors: *const D::Bytes,
}

impl<D: Dot> Block<D> {
    #[inline(always)]
    fn new(dot: D, row: &Row, first: usize) -> Block<D> {
        let Depthwise { channels, ref quads, ref filter, together, .. } = *row.convolution;
        let each = quads.len() * together * 4 * factors::<D>() * D::BYTES;
        let factors = filter.bytes()[first / D::BYTES * each..][..each].as_ptr().cast();
        let mut start = [dot.splat(0); 4];
        for v in 0..4 {
            // SAFETY: `Depthwise::row` has checked that the columns are whole blocks.
            start[v] = unsafe { dot.load_sums(row.columns.start.as_ptr().add(first + v * D::LANES)) };
        }
        // SAFETY: as above.
        let scales = unsafe { row.columns.scales::<D, 4>(dot, first) };
        let (count, whole) = (D::BYTES.min(channels - first), row.whole || channels - first >= D::BYTES);
        Block { dot, first, count, whole, start, scales, factors }
    }

    /// Computes some outputs. If `FAST`, they are bytes, and whole vectors can be read.
    #[inline(always)]
    fn outputs<const TOGETHER: usize, const SIGNED: bool, const FAST: bool>(
        &self,
        row: &mut Row,
        outputs: Range<usize>,
    ) {
        let Depthwise { channels, ref quads, output, slides: [_, slide], .. } = *row.convolution;
        let (to, size, dilation) = (row.columns.to, row.columns.to.size(), slide.dilation as usize);
        let mut x = outputs.start;
        while x < outputs.end {
            let mut sums = [self.start; TOGETHER];
            for index in 0..quads.len() {
                let quad = &quads[index];
                let mut at = [row.zeros.as_ptr().wrapping_add(self.first); 4];
                for tap in 0..4 {
                    let column = x * slide.stride as usize + quad.column + tap * dilation;
                    let column = column.wrapping_sub(slide.begin as usize);
                    if column < slide.input as usize {
                        at[tap] = row.lines[quad.row].wrapping_add(column * channels + self.first);
                    }
                }
                // SAFETY: each points to a pixel of the image or to bytes that represent 0.
                unsafe { self.add::<TOGETHER, SIGNED>(&mut sums, index, at, FAST || self.whole) };
            }
            for next in 0..TOGETHER {
                if x + next < output[1] {
                    let out = &mut row.out[((x + next) * channels + self.first) * size..][..self.count * size];
                    // SAFETY: the slice has `count` elements.
                    unsafe { store::<D, FAST>(self.dot, &self.scales, sums[next], to, out.as_mut_ptr(), self.count) };
                }
            }
            x += TOGETHER;
        }
    }

    /// Computes some outputs, as bytes, whose quads are all in the image. Whole vectors can be read. `QUADS` is the number
    /// of quads, or 0 for any.
    #[inline(always)]
    fn inner<const TOGETHER: usize, const SIGNED: bool, const QUADS: usize>(
        &self,
        row: &mut Row,
        outputs: Range<usize>,
        how: ToBytes,
    ) {
        let Depthwise { channels, ref quads, output, slides: [_, slide], .. } = *row.convolution;
        assert!(self.whole && outputs.end <= output[1] && outputs.len().is_multiple_of(TOGETHER));
        let (step, far) = (slide.stride as usize * channels, slide.dilation as usize * channels);
        let from = |quad: &Quad| {
            let column = quad.column.wrapping_sub(slide.begin as usize);
            row.lines[quad.row].wrapping_add(column.wrapping_mul(channels).wrapping_add(self.first))
        };
        let mut starts = [std::ptr::null(); 3];
        for index in 0..QUADS {
            starts[index] = from(&quads[index]);
        }
        let out = row.out[..output[1] * channels].as_mut_ptr();
        let mut x = outputs.start;
        while x < outputs.end {
            let mut sums = [self.start; TOGETHER];
            macro_rules! quad {
                ($index:expr, $start:expr) => {
                    let near = $start.wrapping_add(x * step);
                    let at = [near, near.wrapping_add(far), near.wrapping_add(2 * far), near.wrapping_add(3 * far)];
                    // SAFETY: each points to a pixel, with a whole vector from this block on.
                    unsafe { self.add::<TOGETHER, SIGNED>(&mut sums, $index, at, true) };
                };
            }
            // Not a loop: the compiler would keep it.
            if QUADS == 3 {
                quad!(0, starts[0]);
                quad!(1, starts[1]);
                quad!(2, starts[2]);
            } else {
                for index in 0..quads.len() {
                    quad!(index, from(&quads[index]));
                }
            }
            for next in 0..TOGETHER {
                // SAFETY: these channels of the output are in the row.
                unsafe {
                    let out = out.add((x + next) * channels + self.first);
                    self.scales.store::<true>(self.dot, sums[next], To::Bytes(how), out, self.count);
                }
            }
            x += TOGETHER;
        }
    }

    /// Adds the products of a quad and the pixels `at` to the sums of neighboring outputs.
    ///
    /// # Safety
    /// The pixels must be readable from this block on: `count` bytes, or a vector if `whole`. The quad exists.
    #[inline(always)]
    unsafe fn add<const TOGETHER: usize, const SIGNED: bool>(
        &self,
        sums: &mut [[D::Sums; 4]; TOGETHER],
        quad: usize,
        at: [*const u8; 4],
        whole: bool,
    ) {
        let dot = self.dot;
        // SAFETY: the caller guarantees it.
        let bytes = unsafe {
            [
                pixel::<D, SIGNED>(dot, at[0], whole, self.count),
                pixel::<D, SIGNED>(dot, at[1], whole, self.count),
                pixel::<D, SIGNED>(dot, at[2], whole, self.count),
                pixel::<D, SIGNED>(dot, at[3], whole, self.count),
            ]
        };
        let lefts = dot.interleave(bytes);
        for v in 0..4 {
            let halves = if D::PER_WORD == 4 { [lefts[v]; 2] } else { dot.split::<false>(lefts[v]) };
            for output in 0..TOGETHER {
                let vector = (quad * TOGETHER + output) * 4 + v;
                for part in 0..factors::<D>() {
                    // SAFETY: the filter has the factors of four vectors for each quad and output.
                    let right = unsafe { self.factors.add(vector * factors::<D>() + part).read_unaligned() };
                    sums[output][v] = dot.multiply_words(sums[output][v], halves[part], right);
                }
            }
        }
    }
}

/// Loads the first `count` bytes at `from` with the sign of the level, or a full vector if `whole`.
///
/// # Safety
/// These bytes must be readable.
#[inline(always)]
unsafe fn pixel<D: Dot, const SIGNED: bool>(dot: D, from: *const u8, whole: bool, count: usize) -> D::Bytes {
    // SAFETY: the caller guarantees it.
    let bytes = unsafe { if whole { dot.load(from) } else { dot.load_first(from, count) } };
    if SIGNED != D::IS_SIGNED { dot.invert_signs(bytes) } else { bytes }
}

/// [`Scales::store`] for interleaved lanes and any type of output; only bytes if `FAST`.
///
/// # Safety
/// As [`Scales::store`].
#[inline(always)]
unsafe fn store<D: Dot, const FAST: bool>(
    dot: D,
    scales: &Scales<D, 4>,
    sums: [D::Sums; 4],
    to: To,
    out: *mut u8,
    count: usize,
) {
    if let To::Bytes(how) = to {
        // SAFETY: the caller guarantees it.
        return unsafe { scales.store::<true>(dot, sums, To::Bytes(how), out, count) };
    }
    if FAST {
        return;
    }
    let mut words = [0u32; 64];
    // SAFETY: there is room for all lanes of four vectors, at most 16 each.
    unsafe { scales.store::<false>(dot, sums, to, words.as_mut_ptr().cast(), D::BYTES) };
    let out: *mut u32 = out.cast();
    for channel in 0..count {
        // SAFETY: the caller guarantees that `count` elements can be written.
        unsafe { out.add(channel).write(words[order(channel, D::LANES)]) };
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
                let convolution = Depthwise::new(level, slides, output, channels, signed, at).unwrap();
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
                let zeros = vec![7; convolution.zeros()];
                for y in 0..output[0] {
                    convolution.row(&image, y, &columns, &zeros, &mut scratch[start..], &mut out);
                    for (i, got) in out.as_chunks::<4>().0.iter().enumerate() {
                        let (x, channel) = (i / channels, i % channels);
                        let term = |tap: usize| {
                            let row = (y * stride as usize + tap / 3).checked_sub(1).filter(|&row| row < 6);
                            let column = (x * stride as usize + tap % 3).checked_sub(1).filter(|&column| column < 9);
                            let inside =
                                row.zip(column).map(|(row, column)| image[(row * 9 + column) * channels + channel]);
                            let byte = inside.unwrap_or(7) as i32;
                            let byte = if signed != level.is_signed() { (byte ^ 0x80) & 0xff } else { byte };
                            let byte = if level.is_signed() { byte as u8 as i8 as i32 } else { byte };
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
