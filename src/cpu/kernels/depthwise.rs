//! Depthwise convolution plane by plane: every output channel reads one input channel. There is too little arithmetic
//! per element for a matrix product, so the kernel reads the image directly.

use super::lanes::gather;
use crate::cpu::simd::{Isa, Kernel, Simd};
use std::ops::Range;

/// Vectors summed side by side.
const UNROLL: usize = 4;

/// The parameters of one plane of a depthwise convolution. All strides are in elements.
///
/// `out[y][x] = sum over taps of weight[tap y][tap x] * in[y * step_y + tap y * dilation_y - padding_y][...]`,
/// where positions outside the image are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Input rows and columns.
    pub size: [usize; 2],
    /// Distance between input rows and between input columns.
    pub strides: [usize; 2],
    /// Output columns.
    pub out_cols: usize,
    /// Filter rows and columns.
    pub filter: [usize; 2],
    /// Input rows per output row, and input columns per output column.
    pub step: [usize; 2],
    /// Distance between taps, in input rows and columns.
    pub dilation: [usize; 2],
    /// Rows of zeros above and columns of zeros left of the image.
    pub padding: [usize; 2],
}

impl Window {
    /// Floats per stretch of a padded input row; a row has one stretch per residue of the column modulo the step.
    fn stretch(&self) -> usize {
        let reach = (self.filter[1] - 1) * self.dilation[1] / self.step[1];
        // Room for reading whole vectors of at most 16 lanes.
        self.out_cols.next_multiple_of(16) + reach
    }

    /// Number of input rows under `rows` output rows.
    pub fn rows_under(&self, rows: usize) -> usize {
        (rows - 1) * self.step[0] + (self.filter[0] - 1) * self.dilation[0] + 1
    }

    /// Length of the scratch in floats that [`Padded::fill`] needs for `rows` output rows. Saturates for steps and
    /// dilations beyond any memory.
    pub fn scratch_len(&self, rows: usize) -> usize {
        self.rows_under(rows).saturating_mul(self.step[1]).saturating_mul(self.stretch())
    }
}

/// The input rows under some output rows, padded, with columns sorted by their residue modulo the step:
/// every tap then reads contiguous elements.
pub struct Padded<'a> {
    window: &'a Window,
    rows: &'a [f32],
    /// [`Window::stretch`], cached because a division per row would be noticeable.
    stretch: usize,
    /// Distance between the taps of a row: whole steps, and the remainder.
    hop: [usize; 2],
}

impl<'a> Padded<'a> {
    /// Copies the input under the output rows `rows` from the plane that starts at `image`.
    pub fn fill(isa: Isa, window: &'a Window, image: &[f32], rows: Range<usize>, scratch: &'a mut [f32]) -> Padded<'a> {
        let scratch = &mut scratch[..window.scratch_len(rows.len())];
        isa.run(Fill { window, image, first: rows.start, out: scratch });
        let hop = [window.dilation[1] / window.step[1], window.dilation[1] % window.step[1]];
        Padded { window, rows: scratch, stretch: window.stretch(), hop }
    }

    /// Computes output row `row`, relative to the first of the rows passed to `fill`. `weights` are the taps in
    /// row-major order.
    pub fn convolve(&self, isa: Isa, row: usize, weights: &[f32], out: &mut [f32]) {
        isa.run(Convolve { padded: self, row, weights, out });
    }
}

struct Fill<'a> {
    window: &'a Window,
    image: &'a [f32],
    first: usize,
    out: &'a mut [f32],
}

impl Kernel for Fill<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let w = self.window;
        let (step, stretch) = (w.step[1], w.stretch());
        self.out.fill(0.0);
        for residue in 0..step {
            // Padded column `residue + at * step` is image column `residue + at * step - padding`.
            let at = w.padding[1].saturating_sub(residue).div_ceil(step);
            let x = residue + at * step - w.padding[1];
            if x >= w.size[1] || at >= stretch {
                continue;
            }
            let columns = (w.size[1] - x).div_ceil(step).min(stretch - at);
            for (i, out) in self.out.chunks_exact_mut(step * stretch).enumerate() {
                let y = (self.first * w.step[0] + i) as isize - w.padding[0] as isize;
                if y >= 0 && y < w.size[0] as isize {
                    let from = &self.image[y as usize * w.strides[0] + x * w.strides[1]..];
                    gather(simd, from, step * w.strides[1], &mut out[residue * stretch + at..][..columns]);
                }
            }
        }
    }
}

struct Convolve<'a> {
    padded: &'a Padded<'a>,
    row: usize,
    weights: &'a [f32],
    out: &'a mut [f32],
}

impl Convolve<'_> {
    /// Writes `VECS` vectors of outputs starting at column `x`; the last one may extend beyond the row.
    #[inline(always)]
    fn sum<S: Simd, const VECS: usize>(&mut self, simd: S, x: usize) {
        let Padded { window: w, rows, stretch, hop } = *self.padded;
        let step = w.step[1];
        let mut sums = [simd.splat(0.0); VECS];
        for (ty, weights) in self.weights.chunks_exact(w.filter[1]).enumerate() {
            let row = &rows[(self.row * w.step[0] + ty * w.dilation[0]) * step * stretch..][..step * stretch];
            let (mut residue, mut column) = (0, x);
            for &weight in weights {
                let from = &row[residue * stretch + column..][..VECS * S::LANES];
                let weight = simd.splat(weight);
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = simd.mul_add(weight, simd.load(&from[v * S::LANES..]), *sum);
                }
                column += hop[0];
                residue += hop[1];
                if residue >= step {
                    (residue, column) = (residue - step, column + 1);
                }
            }
        }
        let out = &mut self.out[x..];
        for (v, sum) in sums.into_iter().enumerate() {
            simd.store_partial(sum, &mut out[v * S::LANES..]);
        }
    }
}

impl Kernel for Convolve<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        for x in (0..self.out.len()).step_by(UNROLL * S::LANES) {
            match (self.out.len() - x).div_ceil(S::LANES) {
                1 => self.sum::<S, 1>(simd, x),
                2 => self.sum::<S, 2>(simd, x),
                3 => self.sum::<S, 3>(simd, x),
                _ => self.sum::<S, UNROLL>(simd, x),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small integers keep sums exact.
    #[test]
    fn planes_follow_the_formula() {
        for (size, filter, step, dilation, padding, out) in [
            ([5, 6], [3, 3], [1, 1], [1, 1], [1, 1], [5, 6]),
            ([4, 70], [2, 3], [1, 1], [2, 3], [0, 2], [2, 68]),
            ([9, 40], [3, 4], [2, 3], [1, 2], [2, 5], [5, 15]),
            ([3, 3], [1, 2], [1, 2], [1, 5], [4, 9], [11, 8]),
        ] {
            let window = Window { size, strides: [size[1], 1], out_cols: out[1], filter, step, dilation, padding };
            let image: Vec<f32> = (0..size[0] * size[1]).map(|i| (i * 5 % 11) as f32 - 4.0).collect();
            let weights: Vec<f32> = (0..filter[0] * filter[1]).map(|i| i as f32 - 1.5).collect();
            let exact = |y: usize, x: usize| {
                let mut sum = 0.0;
                for (tap, weight) in weights.iter().enumerate() {
                    let row = (y * step[0] + tap / filter[1] * dilation[0]).checked_sub(padding[0]);
                    let col = (x * step[1] + tap % filter[1] * dilation[1]).checked_sub(padding[1]);
                    if let (Some(row), Some(col)) = (row, col)
                        && row < size[0]
                        && col < size[1]
                    {
                        sum += weight * image[row * size[1] + col];
                    }
                }
                sum
            };
            for isa in Isa::available() {
                for rows in [0..out[0], out[0] - 1..out[0]] {
                    let mut scratch = vec![f32::NAN; window.scratch_len(rows.len())];
                    let padded = Padded::fill(isa, &window, &image, rows.clone(), &mut scratch);
                    for (i, y) in rows.enumerate() {
                        let mut line = vec![f32::NAN; out[1]];
                        padded.convolve(isa, i, &weights, &mut line);
                        for (x, &got) in line.iter().enumerate() {
                            assert_eq!(got, exact(y, x), "{isa:?}, {window:?}, row {y}, column {x}");
                        }
                    }
                }
            }
        }
    }
}
