//! Convolution with channels first, straight from the image: a vector holds neighboring pixels of one channel. The planes
//! are copied once, padded and sorted by the residues of their rows and columns modulo the step: every tap then reads them
//! at a distance of its own from the output pixel, contiguously, across the ends of rows. The sums of several output
//! channels stay in registers, which read each input vector once.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are functions that must be inlined, or are slow"
)]

use super::lanes::{copy, gather};
use crate::cpu::simd::{Isa, Kernel, MAX_LANES, Simd};
use std::ops::Range;

/// Maximum output channels, and vectors of pixels, whose sums are in registers.
pub const MAX_OUTPUTS: usize = 8;
const MAX_VECTORS: usize = 8;

/// Floats of copied planes, 96 KiB: with the sums of a few channels, a share of the second-level cache. More only where
/// few rows fit, as the rows under a filter are copied for each strip.
const COPIED: usize = 24 << 10;
const MOST_COPIED: usize = 4 * COPIED;

/// Rows of a strip for which they may be more.
const MIN_ROWS: usize = 4;

/// Maximum columns of a part of a single row: the sums of a block of channels stay in a first-level cache.
const MOST_COLUMNS: usize = 768;

/// The window of a convolution. All strides are in elements.
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
    /// Number of input rows under `rows` output rows.
    pub fn rows_under(&self, rows: usize) -> usize {
        (rows - 1) * self.step[0] + (self.filter[0] - 1) * self.dilation[0] + 1
    }

    /// The distinct residues of the taps of an axis modulo the step, ascending.
    fn residues(&self, axis: usize) -> Vec<usize> {
        let mut all: Vec<usize> =
            (0..self.filter[axis]).map(|tap| tap * self.dilation[axis] % self.step[axis]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The number of parts of a plane.
    fn parts(&self) -> usize {
        self.residues(0).len() * self.residues(1).len()
    }

    /// The most that a tap of an axis is away from the first one, in whole steps.
    fn reach(&self, axis: usize) -> usize {
        (self.filter[axis] - 1) * self.dilation[axis] / self.step[axis]
    }
}

/// How the planes under some output rows are copied, and where taps find their elements.
#[derive(Debug)]
pub struct Planes {
    window: Window,
    /// Planes that are summed.
    channels: usize,
    /// The residues of rows and of columns. A plane has one part for each pair of them.
    residues: [Vec<usize>; 2],
    /// Rows and columns of a part.
    part: [usize; 2],
    /// The distance from an output pixel to its element, for each channel and tap.
    places: Vec<usize>,
}

impl Planes {
    /// The most output rows, at most `rows`, whose copied planes stay in a cache; 0 if there are none.
    pub fn most_rows(window: &Window, channels: usize, rows: usize) -> usize {
        match Planes::rows_within(window, channels, rows, COPIED) {
            0..MIN_ROWS => Planes::rows_within(window, channels, rows.min(MIN_ROWS), MOST_COPIED),
            most => most,
        }
    }

    /// The same for columns of a single row.
    pub fn most_columns(window: &Window, channels: usize) -> usize {
        let column = window.parts().saturating_mul(1 + window.reach(0)).saturating_mul(channels);
        (COPIED / column.max(1)).saturating_sub(window.reach(1)).min(window.out_cols).min(MOST_COLUMNS)
    }

    /// The most rows for copies of at most `most` floats.
    fn rows_within(window: &Window, channels: usize, rows: usize, most: usize) -> usize {
        let row = window.parts().saturating_mul(window.out_cols + window.reach(1)).saturating_mul(channels);
        (most / row.max(1)).saturating_sub(window.reach(0)).min(rows)
    }

    /// The layout of `channels` planes for at most `rows` output rows.
    pub fn new(window: Window, channels: usize, rows: usize) -> Planes {
        let w = &window;
        let residues = [w.residues(0), w.residues(1)];
        let part = [rows + w.reach(0), w.out_cols + w.reach(1)];
        let index = |axis: usize, tap: usize| {
            let distance = tap * w.dilation[axis];
            let residue = residues[axis].iter().position(|&residue| residue == distance % w.step[axis]);
            (residue.expect("a residue of a tap"), distance / w.step[axis])
        };
        let (across, size) = (residues[1].len(), part[0] * part[1]);
        let taps = (0..w.filter[0]).flat_map(|ty| (0..w.filter[1]).map(move |tx| (ty, tx)));
        let places: Vec<usize> = taps
            .map(|(ty, tx)| {
                let ((down, y), (right, x)) = (index(0, ty), index(1, tx));
                (down * across + right) * size + y * part[1] + x
            })
            .collect();
        let plane = residues[0].len() * across * size;
        let places =
            (0..channels).flat_map(|channel| places.iter().map(move |place| channel * plane + place)).collect();
        Planes { window, channels, residues, part, places }
    }

    fn plane_len(&self) -> usize {
        self.residues[0].len() * self.residues[1].len() * self.part[0] * self.part[1]
    }

    /// Length of the copied planes in floats, for [`fill`](Self::fill). Behind them is room for reading whole vectors.
    pub fn copied_len(&self) -> usize {
        self.channels * self.plane_len() + MAX_LANES
    }

    /// Scratch lengths in floats for `rows` output rows: the copied planes, and the sums of a block of channels.
    pub fn scratch_parts(&self, isa: Isa, rows: usize) -> [usize; 2] {
        [self.copied_len().next_multiple_of(16), most_outputs(isa) * Sums::stride(self.pixels(rows))]
    }

    /// Whether [`Rows`] computes a single output channel, and is faster than [`Sums`]: the windows of neighboring rows
    /// overlap, so that several rows share what is loaded, and most loads of the longest vectors cross a cache line.
    pub fn suits_rows(&self, isa: Isa) -> bool {
        let w = &self.window;
        isa.lanes() == MAX_LANES && w.filter[0] > 1 && w.step[0] == 1 && w.dilation[0] == 1 && w.out_cols > MAX_LANES
    }

    /// Channels times taps.
    pub fn depth(&self) -> usize {
        self.places.len()
    }

    /// Output pixels of `rows` rows, with those between rows, which are meaningless.
    pub fn pixels(&self, rows: usize) -> usize {
        (rows - 1) * self.part[1] + self.window.out_cols
    }

    /// Distance between the first pixels of neighboring rows.
    pub fn row_stride(&self) -> usize {
        self.part[1]
    }

    /// Copies what is under the output rows `rows` from column `column` on, from an image that starts at `image`, with
    /// planes `stride` apart.
    pub fn fill(
        &self,
        isa: Isa,
        (image, stride): (&[f32], usize),
        (rows, column): (Range<usize>, usize),
        out: &mut [f32],
    ) {
        isa.run(Fill { planes: self, image, stride, rows, column, out: &mut out[..self.copied_len()] });
    }
}

struct Fill<'a> {
    planes: &'a Planes,
    image: &'a [f32],
    stride: usize,
    rows: Range<usize>,
    column: usize,
    out: &'a mut [f32],
}

impl Kernel for Fill<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Fill { planes: p, image, stride, rows, column, out } = self;
        let (w, [high, wide]) = (&p.window, p.part);
        let [down, right] = &p.residues;
        let hop = w.step[1] * w.strides[1];
        let mut parts = out.chunks_exact_mut(right.len() * high * wide);
        // The columns of each part that are inside the image, and where they begin there.
        let columns: Vec<_> = right
            .iter()
            .map(|&right| {
                let xs = p.inside(1, column, right, wide);
                let from = ((column + xs.start) * w.step[1] + right).saturating_sub(w.padding[1]);
                (xs, from * w.strides[1])
            })
            .collect();
        for channel in 0..p.channels {
            let image = &image[channel * stride..];
            for &down in down {
                let Some(parts) = parts.next() else { return };
                // Faster than filling the few elements at the ends of each row.
                parts.fill(0.0);
                let ys = p.inside(0, rows.start, down, rows.len() + w.reach(0));
                if ys.is_empty() {
                    continue;
                }
                let above = ((rows.start + ys.start) * w.step[0] + down - w.padding[0]) * w.strides[0];
                let lines = image[above..].chunks(w.step[0] * w.strides[0]).take(ys.len());
                if let ([(even, from), (odd, next)], 2) = (&columns[..], hop)
                    && from.abs_diff(*next) == 1
                {
                    let (parts, others) = parts.split_at_mut(high * wide);
                    let [mut even, mut odd] = [(parts, even), (others, odd)];
                    if next < from {
                        std::mem::swap(&mut even, &mut odd);
                    }
                    let first = (*from.min(next)).min(w.size[1]);
                    let [even_rows, odd_rows] =
                        [even.0, odd.0].map(|part| part[ys.start * wide..].chunks_exact_mut(wide));
                    for ((line, part), other) in lines.zip(even_rows).zip(odd_rows) {
                        split(simd, &line[first..w.size[1]], &mut part[even.1.clone()], &mut other[odd.1.clone()]);
                    }
                    continue;
                }
                for ((xs, from), part) in columns.iter().zip(parts.chunks_exact_mut(high * wide)) {
                    let rows = part[ys.start * wide..].chunks_exact_mut(wide);
                    for (line, part) in lines.clone().zip(rows).filter(|_| !xs.is_empty()) {
                        gather(simd, &line[*from..], hop, &mut part[xs.clone()]);
                    }
                }
            }
        }
    }
}

/// Writes the elements at even and at odd places of a row to slices of their own, as many as these take.
#[inline(always)]
fn split<S: Simd>(simd: S, row: &[f32], even: &mut [f32], odd: &mut [f32]) {
    let len = even.len().min(odd.len());
    let pairs = row.chunks_exact(2 * S::LANES);
    for ((from, even), odd) in pairs.zip(even.chunks_exact_mut(S::LANES)).zip(odd.chunks_exact_mut(S::LANES)) {
        let [first, second] = simd.evens_and_odds(simd.load(from), simd.load(&from[S::LANES..]));
        simd.store(first, even);
        simd.store(second, odd);
    }
    if len < S::LANES {
        let [first, second] =
            simd.evens_and_odds(simd.load_partial(row), simd.load_partial(&row[row.len().min(S::LANES)..]));
        simd.store_partial(first, even);
        simd.store_partial(second, odd);
    } else if !len.is_multiple_of(S::LANES) {
        // The last vectors overlap those before them instead of being shorter.
        let at = len - S::LANES;
        let [first, second] = simd.evens_and_odds(simd.load(&row[2 * at..]), simd.load(&row[2 * at + S::LANES..]));
        simd.store(first, &mut even[at..]);
        simd.store(second, &mut odd[at..]);
    }
    // One side may have another element.
    even.iter_mut().enumerate().skip(len).for_each(|(i, x)| *x = row[2 * i]);
    odd.iter_mut().enumerate().skip(len).for_each(|(i, x)| *x = row[2 * i + 1]);
}

impl Planes {
    /// The rows or columns `0..count` of a part that are inside the image. Number `at` is
    /// `(first + at) * step + residue - padding` there.
    fn inside(&self, axis: usize, first: usize, residue: usize, count: usize) -> Range<usize> {
        let (w, step) = (&self.window, self.window.step[axis]);
        let from = first * step + residue;
        let below = |end: usize| end.saturating_sub(from).div_ceil(step).min(count);
        let (start, end) = (below(w.padding[axis]), below(w.size[axis] + w.padding[axis]));
        start..end.max(start)
    }
}

/// The most output channels of a block.
const fn most<S: Simd>() -> usize {
    if S::REGISTERS >= 32 { MAX_OUTPUTS } else { MAX_OUTPUTS / 2 }
}

/// The most output channels whose sums are in registers together.
pub fn most_outputs(isa: Isa) -> usize {
    struct Most;
    impl Kernel for Most {
        type Output = usize;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> usize {
            most::<S>()
        }
    }
    isa.run(Most)
}

/// Calls `each` with the blocks of `outputs` channels: as many as possible, then powers of two.
pub fn blocks(isa: Isa, outputs: usize, mut each: impl FnMut(Range<usize>)) {
    let (most, mut first) = (most_outputs(isa), 0);
    while first < outputs {
        let rest = outputs - first;
        let len = if rest >= most { most } else { 1 << rest.ilog2() };
        each(first..first + len);
        first += len;
    }
}

/// Packs the filter of a group as `[block of outputs][channel and tap][output]`; `of(output, depth)` returns a weight.
pub fn pack_filter(isa: Isa, [outputs, depth]: [usize; 2], of: impl Fn(usize, usize) -> f32, out: &mut [f32]) {
    blocks(isa, outputs, |block| {
        let to = &mut out[block.start * depth..block.end * depth];
        for (k, to) in to.chunks_exact_mut(block.len()).enumerate() {
            for (to, output) in to.iter_mut().zip(block.clone()) {
                *to = of(output, k);
            }
        }
    });
}

/// The sums of one block of output channels.
pub struct Sums<'a> {
    /// The layout of `image`.
    pub planes: &'a Planes,
    /// The output of [`Planes::fill`].
    pub image: &'a [f32],
    /// The block's part of the output of [`pack_filter`].
    pub weights: &'a [f32],
    /// Output channels of the block.
    pub outputs: usize,
    /// The start of the sums of each.
    pub bias: [f32; MAX_OUTPUTS],
    /// Number of pixels to compute.
    pub pixels: usize,
    /// `[output][pixel]`, with rows of whole vectors.
    pub out: &'a mut [f32],
}

impl Sums<'_> {
    /// Length of a row of the output.
    pub fn stride(pixels: usize) -> usize {
        pixels.next_multiple_of(MAX_LANES)
    }
}

impl Kernel for Sums<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let reach = self.planes.places.iter().max().map_or(0, |place| place + Sums::stride(self.pixels));
        assert!(self.image.len() >= reach && self.out.len() >= self.outputs * Sums::stride(self.pixels));
        assert!(self.weights.len() >= self.outputs * self.planes.places.len());
        // SAFETY: the asserts above cover every element that is read or written.
        unsafe {
            match self.outputs {
                8 if most::<S>() >= 8 => self.block::<S, 8>(simd),
                4 => self.block::<S, 4>(simd),
                2 => self.block::<S, 2>(simd),
                1 => self.block::<S, 1>(simd),
                outputs => unreachable!("blocks of {outputs} channels"),
            }
        }
    }
}

impl Sums<'_> {
    /// # Safety
    /// Image, weights and output have the elements of all pixels.
    #[inline(always)]
    unsafe fn block<S: Simd, const OUTPUTS: usize>(&mut self, simd: S) {
        let vectors = self.pixels.div_ceil(S::LANES);
        let most = match (OUTPUTS, S::REGISTERS >= 32) {
            (8, _) => 3,
            (4, true) => 6,
            (4, false) => 3,
            (_, true) => 8,
            (_, false) => 4,
        };
        let (mut at, mut chunks) = (0, vectors.div_ceil(most));
        while chunks > 0 {
            // Chunks as even as possible.
            let count = (vectors - at).div_ceil(chunks);
            macro_rules! vectors {
                ($($count:literal)*) => {
                    match count {
                        // SAFETY: by the contract.
                        $($count if $count <= most => unsafe { self.tile::<S, OUTPUTS, $count>(simd, at * S::LANES) },)*
                        _ => unreachable!("at most {MAX_VECTORS} vectors"),
                    }
                };
            }
            vectors!(1 2 3 4 5 6 7 8);
            (at, chunks) = (at + count, chunks - 1);
        }
    }

    /// # Safety
    /// As for [`block`](Self::block).
    #[inline(always)]
    unsafe fn tile<S: Simd, const OUTPUTS: usize, const VECTORS: usize>(&mut self, simd: S, first: usize) {
        let image = self.image.as_ptr().wrapping_add(first);
        let mut weights = self.weights.as_ptr();
        let mut sums = [[simd.splat(0.0); VECTORS]; OUTPUTS];
        for output in 0..OUTPUTS {
            sums[output] = [simd.splat(self.bias[output]); VECTORS];
        }
        for &place in &self.planes.places {
            let from = image.wrapping_add(place);
            let mut pixels = [simd.splat(0.0); VECTORS];
            for v in 0..VECTORS {
                // SAFETY: by the contract.
                pixels[v] = unsafe { simd.load_ptr(from.wrapping_add(v * S::LANES)) };
            }
            for output in 0..OUTPUTS {
                // SAFETY: by the contract.
                let weight = simd.splat(unsafe { *weights.wrapping_add(output) });
                for v in 0..VECTORS {
                    sums[output][v] = simd.mul_add(weight, pixels[v], sums[output][v]);
                }
            }
            weights = weights.wrapping_add(OUTPUTS);
        }
        let stride = Sums::stride(self.pixels);
        for output in 0..OUTPUTS {
            for v in 0..VECTORS {
                let to = self.out.as_mut_ptr().wrapping_add(output * stride + first + v * S::LANES);
                // SAFETY: by the contract.
                unsafe { simd.store_ptr(sums[output][v], to) };
            }
        }
    }
}

/// Output rows of a single channel, with the bits of [`Sums`]. Registers hold the sums of pixels below each other, whose
/// windows overlap: each vector of the image is read once for all of them.
pub struct Rows<'a> {
    /// The layout of `image`, which [suits](Planes::suits_rows).
    pub planes: &'a Planes,
    /// The output of [`Planes::fill`].
    pub image: &'a [f32],
    /// A weight for each channel and tap.
    pub weights: &'a [f32],
    /// The start of each sum.
    pub bias: f32,
    /// Columns of the output: those of the planes, or fewer.
    pub wide: usize,
    /// `[row][column]`
    pub out: &'a mut [f32],
}

/// Maximum output rows, and vectors of each, whose sums are in registers.
const HIGH: usize = 4;
const WIDE: usize = 4;

impl Kernel for Rows<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        // Others have no code for it.
        assert!(S::LANES == MAX_LANES && self.planes.window.step[0] == 1 && self.planes.window.dilation[0] == 1);
        let (p, wide) = (self.planes, self.wide);
        let (rows, vectors) = (self.out.len() / wide, wide.div_ceil(S::LANES));
        let reach = p.places.iter().max().map_or(0, |place| place + rows * p.part[1] - p.part[1] + vectors * S::LANES);
        assert!(self.image.len() >= reach && self.weights.len() >= p.places.len());
        for y in (0..rows).step_by(HIGH) {
            let (ys, mut at, mut chunks) = (y..rows.min(y + HIGH), 0, vectors.div_ceil(WIDE));
            while chunks > 0 {
                // Chunks as even as possible.
                let count = (vectors - at).div_ceil(chunks);
                macro_rules! vectors {
                    ($($count:literal)*) => {
                        match count {
                            // SAFETY: the asserts above cover every element that is read; the rows are in the output.
                            $($count => unsafe { self.tile::<S, $count>(simd, ys.clone(), at * S::LANES) },)*
                            _ => unreachable!("at most {WIDE} vectors"),
                        }
                    };
                }
                vectors!(1 2 3 4);
                (at, chunks) = (at + count, chunks - 1);
            }
        }
    }
}

impl Rows<'_> {
    /// # Safety
    /// Image and weights have the elements under the rows `ys`, at most [`HIGH`] of them, from column `first` on, for
    /// whole vectors; the output has the rows.
    #[inline(always)]
    unsafe fn tile<S: Simd, const VECTORS: usize>(&mut self, simd: S, ys: Range<usize>, first: usize) {
        let (p, [high, wide], rows) = (self.planes, self.planes.window.filter, ys.len());
        let image = self.image.as_ptr().wrapping_add(ys.start * p.part[1] + first);
        let mut sums = [[simd.splat(self.bias); VECTORS]; HIGH];
        let weights = self.weights.chunks_exact(high * wide);
        for (places, weights) in p.places.chunks_exact(high * wide).zip(weights) {
            for y in 0..high + rows - 1 {
                // The output rows above this row of the image, and the weights of the uppermost one of all.
                let met = (y + 1).saturating_sub(high)..rows.min(y + 1);
                let (line, weights) = (image.wrapping_add(y * p.part[1]), weights.as_ptr().wrapping_add(y * wide));
                for (x, &place) in places[..wide].iter().enumerate() {
                    let mut pixels = [simd.splat(0.0); VECTORS];
                    for v in 0..VECTORS {
                        // SAFETY: by the contract.
                        pixels[v] = unsafe { simd.load_ptr(line.wrapping_add(place + v * S::LANES)) };
                    }
                    for row in 0..HIGH {
                        if !met.contains(&row) {
                            continue;
                        }
                        // SAFETY: a weight of the filter, as the row meets one.
                        let weight = simd.splat(unsafe { *weights.wrapping_sub(row * wide).wrapping_add(x) });
                        for v in 0..VECTORS {
                            sums[row][v] = simd.mul_add(weight, pixels[v], sums[row][v]);
                        }
                    }
                }
            }
        }
        for (y, sums) in ys.zip(sums) {
            let out = &mut self.out[y * self.wide..][first..self.wide];
            for (sum, out) in sums.into_iter().zip(out.chunks_mut(S::LANES)) {
                match out.len() == S::LANES {
                    true => simd.store(sum, out),
                    false => simd.store_partial(sum, out),
                }
            }
        }
    }
}

/// Copies pixels of one channel without what is between its rows.
pub fn copy_rows(isa: Isa, sums: &[f32], row_stride: usize, wide: usize, out: &mut [f32]) {
    isa.run(CopyRows { sums, row_stride, wide, out });
}

struct CopyRows<'a> {
    sums: &'a [f32],
    row_stride: usize,
    wide: usize,
    out: &'a mut [f32],
}

impl Kernel for CopyRows<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for (y, out) in self.out.chunks_exact_mut(self.wide).enumerate() {
            copy(simd, &self.sums[y * self.row_stride..], out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small integers keep sums exact.
    #[test]
    fn channels_follow_the_formula() {
        for (size, filter, step, dilation, padding, out) in [
            ([5, 6], [3, 3], [1, 1], [1, 1], [1, 1], [5, 6]),
            ([4, 70], [2, 3], [1, 1], [2, 3], [0, 2], [2, 68]),
            ([9, 40], [3, 4], [2, 3], [1, 2], [2, 5], [5, 15]),
            ([3, 3], [1, 2], [1, 2], [1, 5], [4, 9], [11, 8]),
            ([14, 14], [3, 3], [2, 2], [1, 1], [1, 1], [7, 7]),
            ([6, 9], [1, 1], [2, 2], [1, 1], [0, 0], [3, 5]),
            ([7, 5], [3, 2], [4, 2], [2, 4], [1, 3], [2, 4]),
            ([9, 90], [4, 3], [1, 1], [1, 1], [2, 1], [10, 90]),
            ([6, 80], [3, 5], [1, 2], [1, 3], [1, 4], [6, 38]),
            ([7, 17], [2, 1], [1, 1], [1, 1], [0, 0], [6, 17]),
            ([9, 75], [3, 3], [2, 2], [1, 1], [1, 1], [5, 38]),
            ([6, 76], [2, 4], [3, 2], [1, 1], [0, 2], [2, 39]),
            ([1, 100], [1, 5], [1, 2], [1, 1], [0, 3], [1, 51]),
            ([1, 90], [1, 3], [1, 1], [1, 4], [0, 4], [1, 90]),
            ([1, 9], [1, 4], [1, 2], [1, 1], [0, 30], [1, 34]),
            ([1, 120], [1, 10], [1, 5], [1, 1], [0, 0], [1, 23]),
            ([2, 50], [3, 3], [1, 1], [1, 1], [1, 1], [1, 50]),
        ] {
            for (channels, outputs) in [(1, 1), (1, 7), (2, 16), (3, 31)] {
                let window = Window { size, strides: [size[1], 1], out_cols: out[1], filter, step, dilation, padding };
                let (taps, plane) = (filter[0] * filter[1], size[0] * size[1]);
                let image: Vec<f32> = (0..channels * plane).map(|i| (i * 5 % 11) as f32 - 4.0).collect();
                let weight = |output: usize, k: usize| ((output * 3 + k) % 7) as f32 - 2.5;
                let exact = |output: usize, y: usize, x: usize| {
                    let mut sum = 0.0;
                    for k in 0..channels * taps {
                        let (channel, tap) = (k / taps, k % taps);
                        let row = (y * step[0] + tap / filter[1] * dilation[0]).checked_sub(padding[0]);
                        let col = (x * step[1] + tap % filter[1] * dilation[1]).checked_sub(padding[1]);
                        if let (Some(row), Some(col)) = (row, col)
                            && row < size[0]
                            && col < size[1]
                        {
                            sum += weight(output, k) * image[channel * plane + row * size[1] + col];
                        }
                    }
                    sum
                };
                // Signals are cut into columns.
                let most = if out[0] == 1 { 20 } else { out[1] };
                let columns = (0..out[1]).step_by(most).map(|first| (first, most.min(out[1] - first)));
                for (isa, (first, wide)) in
                    Isa::available().into_iter().flat_map(|isa| columns.clone().map(move |columns| (isa, columns)))
                {
                    let planes = Planes::new(Window { out_cols: most, ..window.clone() }, channels, out[0]);
                    let depth = planes.depth();
                    let mut packed = vec![f32::NAN; outputs * depth];
                    pack_filter(isa, [outputs, depth], weight, &mut packed);
                    for rows in [0..out[0], out[0] - 1..out[0]] {
                        let mut image_copy = vec![f32::NAN; planes.copied_len()];
                        planes.fill(isa, (&image, plane), (rows.clone(), first), &mut image_copy);
                        let (planes, image) = (&planes, &image_copy);
                        let expect = |got: &[f32], output: usize| {
                            for (i, got) in got.iter().enumerate() {
                                let (y, x) = (rows.start + i / wide, first + i % wide);
                                let exact = exact(output, y, x) + 3.0 + output as f32;
                                assert_eq!(*got, exact, "{isa:?}, {window:?}, {output}, {y}, {x}");
                            }
                        };
                        for output in (0..outputs).filter(|_| planes.suits_rows(isa)) {
                            let weights: Vec<_> = (0..depth).map(|k| weight(output, k)).collect();
                            let (weights, bias) = (&weights, 3.0 + output as f32);
                            let mut out = vec![f32::NAN; rows.len() * wide];
                            isa.run(Rows { planes, image, weights, bias, wide, out: &mut out });
                            expect(&out, output);
                        }
                        let pixels = planes.pixels(rows.len());
                        blocks(isa, outputs, |block| {
                            let mut sums = vec![f32::NAN; block.len() * Sums::stride(pixels)];
                            let (outputs, weights) = (block.len(), &packed[block.start * depth..]);
                            let bias = std::array::from_fn(|i| 3.0 + (block.start + i) as f32);
                            isa.run(Sums { planes, image, weights, outputs, bias, pixels, out: &mut sums });
                            for (sums, output) in sums.chunks_exact(Sums::stride(pixels)).zip(block) {
                                let mut got = vec![f32::NAN; rows.len() * wide];
                                copy_rows(isa, sums, planes.row_stride(), wide, &mut got);
                                expect(&got, output);
                            }
                        });
                    }
                }
            }
        }
    }
}
