//! Averages and maxima in regions of images.

use crate::cpu::simd::{Kernel, MAX_LANES, Simd};
use crate::ops::extension::roi_align::{Between, Samples};

/// Vectors of channels that are computed at a time.
const VECTORS: usize = 4;

/// Maximum number of channels that are computed at a time.
pub const CHANNELS: usize = VECTORS * MAX_LANES;

/// The weighted pixels of all bins along a dimension of a region.
pub struct Weights<'a> {
    /// Where the pixels of each bin begin, and the end of the last one.
    pub starts: &'a mut [u32],
    /// The pixels.
    pub pixels: &'a mut [u32],
    /// Their weights.
    pub weights: &'a mut [f32],
    /// For each bin, whether it has samples outside of the image.
    pub outside: &'a mut [u32],
}

impl Weights<'_> {
    /// Lists the pixels around `samples`; with `merges`, one for all samples of a bin around it.
    pub fn list(&mut self, samples: &Samples, merges: bool) {
        let mut end = 0usize;
        for bin in 0..self.outside.len() {
            let (start, mut inside) = (end, 0);
            self.starts[bin] = start as u32;
            for at in samples.near(bin as u32) {
                let Some(Between { low, low_weight, high_weight }) = samples.between(bin as u32, at) else { continue };
                inside += 1;
                for (pixel, weight) in [(low, Some(low_weight)), (low + 1, high_weight)] {
                    let Some(weight) = weight else { continue };
                    let listed = &self.pixels[start.max(end.saturating_sub(2))..end];
                    match listed.iter().rposition(|&listed| merges && listed == pixel) {
                        Some(behind) => self.weights[end - listed.len() + behind] += weight,
                        None => {
                            (self.pixels[end], self.weights[end]) = (pixel, weight);
                            end += 1;
                        }
                    }
                }
            }
            self.outside[bin] = u32::from(inside != samples.count());
        }
        self.starts[self.outside.len()] = end as u32;
    }

    /// The pixels of a bin and their weights.
    fn of(&self, bin: usize) -> impl Iterator<Item = (usize, f32)> + Clone {
        let range = self.starts[bin] as usize..self.starts[bin + 1] as usize;
        let pixels = self.pixels[range.clone()].iter().map(|&pixel| pixel as usize);
        pixels.zip(self.weights[range].iter().copied())
    }

    fn bins(&self) -> usize {
        self.outside.len()
    }
}

/// Averages or maxima of weighted pixels in the bins of a region of an image.
pub struct AlignRegion<'a> {
    /// The image, `[height, width, channels]`.
    pub image: &'a [f32],
    /// Pixels per row of the image.
    pub width: usize,
    /// Channels of the image.
    pub channels: usize,
    /// The weights from top to bottom, and from left to right.
    pub weights: [Weights<'a>; 2],
    /// What sums are multiplied by; `None` for maxima.
    pub factor: Option<f32>,
    /// [`CHANNELS`] for each bin.
    pub scratch: &'a mut [f32],
    /// The result, `[channels, bins, bins]`.
    pub out: &'a mut [f32],
}

impl Kernel for AlignRegion<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let AlignRegion { image, width, channels, weights: [rows, columns], factor, scratch, out } = self;
        let bins = rows.bins() * columns.bins();
        for first in (0..channels).step_by(VECTORS * S::LANES) {
            let count = (channels - first).min(VECTORS * S::LANES);
            for y in 0..rows.bins() {
                for x in 0..columns.bins() {
                    let out = &mut scratch[(y * columns.bins() + x) * CHANNELS..][..CHANNELS];
                    let mut sums = [simd.splat(0.0); VECTORS];
                    // Samples outside are 0, and so is the maximum of none.
                    let mut is_first = factor.is_none() && rows.outside[y] | columns.outside[x] == 0;
                    for (row, of_row) in rows.of(y) {
                        for (column, of_column) in columns.of(x) {
                            let pixel = &image[(row * width + column) * channels + first..][..count];
                            let weight = simd.splat(of_row * of_column);
                            let mut put = |at: usize, x: S::F32| {
                                sums[at] = match factor {
                                    Some(_) => simd.mul_add(weight, x, sums[at]),
                                    None if is_first => simd.mul(weight, x),
                                    None => simd.max(sums[at], simd.mul(weight, x)),
                                };
                            };
                            if count == VECTORS * S::LANES {
                                for at in 0..VECTORS {
                                    put(at, simd.load(&pixel[at * S::LANES..]));
                                }
                            } else {
                                for (at, part) in pixel.chunks(S::LANES).enumerate() {
                                    put(at, simd.load_partial(part));
                                }
                            }
                            is_first = false;
                        }
                    }
                    let factor = simd.splat(factor.unwrap_or(1.0));
                    for (at, sum) in sums.into_iter().enumerate() {
                        simd.store(simd.mul(sum, factor), &mut out[at * S::LANES..]);
                    }
                }
            }
            for (channel, out) in out[first * bins..][..count * bins].chunks_exact_mut(bins).enumerate() {
                out.iter_mut().zip(scratch.chunks_exact(CHANNELS)).for_each(|(out, bin)| *out = bin[channel]);
            }
        }
    }
}

/// The maxima of the channels of an image, `[channels, height, width]`, in rectangles of rows and columns, from one number
/// to another; of none, 0. `out` has a value for each channel and rectangle.
pub fn max_in_rectangles(
    image: &[f32],
    [height, width]: [usize; 2],
    rows: &[[u32; 2]],
    columns: &[[u32; 2]],
    out: &mut [f32],
) {
    let rectangles = rows.len() * columns.len();
    for (plane, out) in image.chunks_exact(height * width).zip(out.chunks_exact_mut(rectangles)) {
        for (out, rows) in out.chunks_exact_mut(columns.len()).zip(rows) {
            for (out, columns) in out.iter_mut().zip(columns) {
                let ([top, bottom], [left, right]) =
                    (rows.map(|row| row as usize), columns.map(|column| column as usize));
                // NaN is only the maximum if there is nothing else.
                let mut maximum = f32::NAN;
                for row in top..bottom {
                    maximum = plane[row * width..][left..right].iter().fold(maximum, |maximum, &x| maximum.max(x));
                }
                *out = if top < bottom && left < right { maximum } else { 0.0 };
            }
        }
    }
}
